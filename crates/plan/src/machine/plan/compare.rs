//! Comparison of desired with observed fields.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A field whose observed value is not the desired one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// Such as `spec.template.spec.domain.cpu.cores`.
    pub(crate) path: String,
}

/// The fields of `desired` that `found` lacks or has with other values. Additional fields of `found` belong
/// to others; lists are compared as a whole, but their items may have additional fields.
pub(crate) fn differences(path: &str, found: &Value, desired: &Value) -> Vec<Difference> {
    let mut differences = Vec::new();
    collect(path, Some(found), desired, &mut differences);
    differences
}

fn collect(path: &str, found: Option<&Value>, desired: &Value, into: &mut Vec<Difference>) {
    match (found, desired) {
        (Some(Value::Object(found)), Value::Object(desired)) => {
            for (name, desired) in desired {
                let found = found.get(name);
                // Most fields are equal: allocate a path only for those that are not.
                if !matches_desired(found, desired) {
                    collect(&format!("{path}.{name}"), found, desired, into);
                }
            }
        }
        (Some(Value::Array(found)), Value::Array(desired)) if found.len() == desired.len() => {
            for (index, (found, desired)) in found.iter().zip(desired).enumerate() {
                if !matches_desired(Some(found), desired) {
                    collect(&format!("{path}[{index}]"), Some(found), desired, into);
                }
            }
        }
        (found, desired) if found == Some(desired) => {}
        _ => into.push(Difference {
            path: path.to_owned(),
        }),
    }
}

fn matches_desired(found: Option<&Value>, desired: &Value) -> bool {
    match (found, desired) {
        (Some(Value::Object(found)), Value::Object(desired)) => desired
            .iter()
            .all(|(name, desired)| matches_desired(found.get(name), desired)),
        (Some(Value::Array(found)), Value::Array(desired)) => {
            found.len() == desired.len()
                && found
                    .iter()
                    .zip(desired)
                    .all(|(found, desired)| matches_desired(Some(found), desired))
        }
        (found, desired) => found == Some(desired),
    }
}

/// Hash of the parts and their boundaries.
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
    #[case::equal_values(json!(1), json!(1), &[])]
    #[case::null(json!(null), json!({"a": 1}), &["spec"])]
    fn compares_desired_with_observed_fields(
        #[case] found: Value,
        #[case] desired: Value,
        #[case] paths: &[&str],
    ) {
        let found = differences("spec", &found, &desired);
        let found: Vec<_> = found.iter().map(|difference| &difference.path).collect();
        assert_eq!(found, paths);
    }

    #[test]
    fn a_digest_depends_on_the_boundaries_of_its_parts() {
        let parts = |parts: &[&'static str]| digest(parts.iter().map(|part| part.as_bytes()));
        assert_ne!(parts(&["ab", "c"]), parts(&["a", "bc"]));
        assert_eq!(parts(&["ab"]).len(), 32);
    }
}
