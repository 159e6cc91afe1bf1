//! Check of version compatibility.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Severity};
use crate::kubevirt::{strategy::Strategy, tree};

/// The first minor release of Kubernetes 1 in which server-side apply is stable.
const SERVER_SIDE_APPLY: u64 = 22;

/// A release of KubeVirt is tested with the last three releases of Kubernetes before it: KubeVirt 1.9
/// with 1.34, 1.35 and 1.36.
const FIRST_TESTED: u64 = 25;
const LAST_TESTED: u64 = 27;

pub(super) fn kubernetes(kubernetes: &str, kubevirt: &str) -> Option<Finding> {
    let subject = format!("Kubernetes {kubernetes}");
    let Some(minor) = minor(kubernetes) else {
        return Some(Finding {
            severity: Severity::Warning,
            subject,
            message: "its version cannot be read".to_owned(),
            remedy: "Check whether the target version of KubeVirt supports it".to_owned(),
        });
    };
    if minor < SERVER_SIDE_APPLY {
        return Some(Finding {
            severity: Severity::Error,
            subject,
            message: "it does not have server-side apply".to_owned(),
            remedy: format!("Update it to 1.{SERVER_SIDE_APPLY} or later"),
        });
    }
    let release = self::minor(kubevirt)?;
    let tested = release + FIRST_TESTED..=release + LAST_TESTED;
    if tested.contains(&minor) {
        return None;
    }
    Some(Finding {
        severity: Severity::Warning,
        subject,
        message: format!(
            "KubeVirt {kubevirt} is tested with 1.{} to 1.{}",
            tested.start(),
            tested.end()
        ),
        remedy: format!(
            "Use one of these, or a KubeVirt for 1.{minor}: from v1.{} to v1.{}",
            minor.saturating_sub(LAST_TESTED),
            minor.saturating_sub(FIRST_TESTED)
        ),
    })
}

/// The minor version of a 1.x release. Suffixes, as in `35+`, are ignored.
fn minor(version: &str) -> Option<u64> {
    let minor = version.trim_start_matches('v').strip_prefix("1.")?;
    let end = minor.find(|c: char| !c.is_ascii_digit());
    minor.get(..end.unwrap_or(minor.len()))?.parse().ok()
}

/// Definitions with a stored version that the release does not have. The API server does not allow its
/// removal, so the operator keeps it.
pub(super) fn stored(strategy: &Strategy, stored: &BTreeMap<String, Vec<String>>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for object in &strategy.objects {
        let name = &*object.id.name;
        let is_definition = &*object.id.kind == "CustomResourceDefinition";
        let Some(stored) = stored.get(name).filter(|_| is_definition) else {
            continue;
        };
        let definition = object.value();
        let versions: BTreeSet<_> = tree::items(&definition, "/spec/versions")
            .filter_map(|version| tree::text(version, "/name"))
            .collect();
        let missing = stored
            .iter()
            .filter(|version| !versions.contains(version.as_str()));
        for version in missing {
            findings.push(Finding {
                severity: Severity::Warning,
                subject: object.id.to_string(),
                message: format!(
                    "status.storedVersions has {version}, which the target release does not have: \
                     the operator keeps it, because objects may be stored in it"
                ),
                remedy: format!(
                    "To remove it, rewrite every object once, and remove {version} from \
                     status.storedVersions"
                ),
            });
        }
    }
    findings
}
