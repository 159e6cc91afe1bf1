//! What we want of an object against what there is.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A field that is not as we want it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// Where, such as `spec.template.spec.domain.cpu.cores`.
    pub(crate) path: String,
}

/// The fields of `wanted` that are not so in `found`. What `found` has besides is not ours, save in
/// lists: they are ours as a whole, though their items may have more than we gave them.
pub(crate) fn differences(path: &str, found: &Value, wanted: &Value) -> Vec<Difference> {
    let mut differences = Vec::new();
    collect(path, Some(found), wanted, &mut differences);
    differences
}

fn collect(path: &str, found: Option<&Value>, wanted: &Value, into: &mut Vec<Difference>) {
    match (found, wanted) {
        (Some(Value::Object(found)), Value::Object(wanted)) => {
            for (name, wanted) in wanted {
                let found = found.get(name);
                // A path is made only where there is something to tell.
                if !is_as_wanted(found, wanted) {
                    collect(&format!("{path}.{name}"), found, wanted, into);
                }
            }
        }
        (Some(Value::Array(found)), Value::Array(wanted)) if found.len() == wanted.len() => {
            for (index, (found, wanted)) in found.iter().zip(wanted).enumerate() {
                if !is_as_wanted(Some(found), wanted) {
                    collect(&format!("{path}[{index}]"), Some(found), wanted, into);
                }
            }
        }
        (found, wanted) if found == Some(wanted) => {}
        _ => into.push(Difference {
            path: path.to_owned(),
        }),
    }
}

fn is_as_wanted(found: Option<&Value>, wanted: &Value) -> bool {
    match (found, wanted) {
        (Some(Value::Object(found)), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, wanted)| is_as_wanted(found.get(name), wanted)),
        (Some(Value::Array(found)), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found
                    .iter()
                    .zip(wanted)
                    .all(|(found, wanted)| is_as_wanted(Some(found), wanted))
        }
        (found, wanted) => found == Some(wanted),
    }
}

/// A short text that differs when one of the parts does.
pub(crate) fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize()
        .iter()
        .take(16)
        .fold(String::with_capacity(32), |mut text, byte| {
            // Writing to a String does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::{differences, digest};

    #[rstest]
    #[case::same(json!({"a": 1}), json!({"a": 1}), &[])]
    #[case::more_than_we_gave(json!({"a": 1, "b": 2}), json!({"a": 1}), &[])]
    #[case::changed(json!({"a": {"b": 2}}), json!({"a": {"b": 1}}), &["spec.a.b"])]
    #[case::missing(json!({}), json!({"a": {"b": 1}}), &["spec.a"])]
    #[case::item_with_more(json!({"a": [{"n": 1, "mac": "x"}]}), json!({"a": [{"n": 1}]}), &[])]
    #[case::item_added(json!({"a": [1, 2]}), json!({"a": [1]}), &["spec.a"])]
    #[case::item_changed(json!({"a": [{"n": 1}]}), json!({"a": [{"n": 2}]}), &["spec.a[0].n"])]
    #[case::null(json!(null), json!({"a": 1}), &["spec"])]
    fn what_we_want_against_what_there_is(
        #[case] found: Value,
        #[case] wanted: Value,
        #[case] paths: &[&str],
    ) {
        let found = differences("spec", &found, &wanted);
        let found: Vec<_> = found.iter().map(|difference| &difference.path).collect();
        assert_eq!(found, paths);
    }

    #[test]
    fn a_digest_tells_where_a_part_ends() {
        let parts = |parts: &[&'static str]| digest(parts.iter().map(|part| part.as_bytes()));
        assert_ne!(parts(&["ab", "c"]), parts(&["a", "bc"]));
        assert_eq!(parts(&["ab"]).len(), 32);
    }
}
