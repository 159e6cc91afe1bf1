//! Labels and annotations of users that are copied to the virtual machine, beside those under the documented
//! prefixes: the operator's settings name them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use api::ObjectMeta;

use crate::naming;

/// Names of labels or annotations, and prefixes such as `example.com/*`. By default the setting is not known,
/// as in offline commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamePatterns {
    patterns: Arc<BTreeSet<String>>,
    is_known: bool,
}

/// Labels and annotations that the settings name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedOn {
    pub labels: NamePatterns,
    pub annotations: NamePatterns,
}

impl PassedOn {
    /// The settings name none.
    pub fn none() -> Self {
        Self {
            labels: NamePatterns::none(),
            annotations: NamePatterns::none(),
        }
    }

    /// Those that a VirtualMachine has from its Machine, where the settings are not known.
    pub(crate) fn observed(machine: &ObjectMeta, vm: &ObjectMeta) -> Self {
        let common = |of: fn(&ObjectMeta) -> &Option<BTreeMap<String, String>>| NamePatterns {
            patterns: Arc::new(
                of(machine)
                    .iter()
                    .flatten()
                    .map(|(name, _)| name)
                    .filter(|name| of(vm).as_ref().is_some_and(|it| it.contains_key(*name)))
                    .cloned()
                    .collect(),
            ),
            is_known: false,
        };
        Self {
            labels: common(|it| &it.labels),
            annotations: common(|it| &it.annotations),
        }
    }
}

/// Domains whose labels and annotations mean something to KubeVirt or to clients on the objects themselves.
const NOT_PASSED_ON: [&str; 2] = ["kubevirt.io", "kubectl.kubernetes.io"];

impl NamePatterns {
    /// The setting names none.
    pub fn none() -> Self {
        Self::known(BTreeSet::new())
    }

    fn known(patterns: BTreeSet<String>) -> Self {
        Self {
            patterns: Arc::new(patterns),
            is_known: true,
        }
    }

    /// Whether the setting is known.
    pub(crate) fn are_known(&self) -> bool {
        self.is_known
    }

    /// Parses a list that is separated by commas.
    pub fn parse(text: &str) -> Result<Self, String> {
        let patterns = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        let parsed = patterns.map(|pattern| {
            let name = match pattern.strip_suffix("/*") {
                Some(prefix) => format!("{prefix}/x"),
                None => pattern.to_owned(),
            };
            let is_reserved = NOT_PASSED_ON.iter().any(|it| is_below(&name, it));
            if !naming::is_qualified_name(&name) {
                Err(format!(
                    "{pattern:?}: must be names such as team or example.com/team, or prefixes such as example.com/*, separated by commas"
                ))
            } else if is_reserved {
                Err(format!(
                    "{pattern:?}: names under {} are never passed on",
                    NOT_PASSED_ON.join(" and ")
                ))
            } else {
                Ok(pattern.to_owned())
            }
        });
        let parsed: BTreeSet<String> = parsed.collect::<Result<_, _>>()?;
        Ok(Self::known(parsed))
    }

    pub fn has(&self, name: &str) -> bool {
        if self.patterns.is_empty() {
            return false;
        }
        let prefix = name.split_once('/').map(|(prefix, _)| prefix);
        self.patterns.contains(name)
            || prefix.is_some_and(|prefix| {
                let mut prefixes = self.patterns.iter().filter_map(|it| it.strip_suffix("/*"));
                prefixes.any(|it| it == prefix)
            })
    }
}

fn is_below(name: &str, domain: &str) -> bool {
    let prefix = name.split_once('/').map(|(prefix, _)| prefix);
    let rest = prefix.and_then(|prefix| prefix.strip_suffix(domain));
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

impl fmt::Display for NamePatterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let patterns: Vec<&str> = self.patterns.iter().map(String::as_str).collect();
        f.write_str(&patterns.join(","))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("team", true)]
    #[case("example.com/owner", true)]
    #[case("example.com", false)]
    #[case("sub.example.com/owner", false)]
    #[case("cost.example.org/center", true)]
    #[case("cost.example.org/other", false)]
    #[case("teams", false)]
    fn names_and_prefixes_match(#[case] name: &str, #[case] matches: bool) {
        let patterns = NamePatterns::parse("team, example.com/*,,cost.example.org/center").unwrap();
        assert_eq!(patterns.has(name), matches);
    }

    #[rstest]
    #[case("*")]
    #[case("team*")]
    #[case("example.com/a*")]
    #[case("-team")]
    #[case("Example.com/*")]
    #[case("kubevirt.io/*")]
    #[case("instancetype.kubevirt.io/name")]
    #[case("kubectl.kubernetes.io/last-applied-configuration")]
    fn others_are_refused(#[case] text: &str) {
        let error = NamePatterns::parse(text).unwrap_err();
        assert!(error.starts_with(&format!("{text:?}: ")), "{error}");
    }

    #[test]
    fn what_a_virtual_machine_has_from_its_machine_was_passed_on() {
        let metadata = |labels: &[&str]| ObjectMeta {
            labels: Some(
                labels
                    .iter()
                    .map(|it| ((*it).to_owned(), "x".to_owned()))
                    .collect(),
            ),
            ..ObjectMeta::default()
        };
        let observed = PassedOn::observed(&metadata(&["a", "b"]), &metadata(&["b", "c"]));
        assert_eq!(observed.labels.to_string(), "b");
        assert!(!observed.labels.are_known());
        assert_eq!(observed.annotations, NamePatterns::default());
    }

    #[test]
    fn an_empty_list_matches_nothing() {
        assert!(!NamePatterns::parse(" , ").unwrap().has("team"));
        assert!(!NamePatterns::default().has(""));
    }
}
