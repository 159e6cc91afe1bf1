//! Annotations that switch features on, and labels that are copied to the virtual machine.

use api::{Machine, ObjectMeta, labels};

use super::{Note, PassedOn, cluster::ignored_annotations};

/// All switches with the value `"true"`.
const SWITCHES: [&str; 4] = [
    labels::ADOPT_DISKS,
    labels::CDROM_EJECTED,
    labels::FOLLOW_CLASS,
    labels::OS_INSTALLED,
];

const ON: &str = "true";

/// Value of [`labels::ADOPT`] that applies the Machine's spec.
const APPLY: &str = "apply";

/// What a Machine asks for with [`labels::ADOPT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdoptionRequest {
    /// Adopt the VirtualMachine and leave its spec as it is.
    Keep,
    /// Adopt it and apply the Machine's spec.
    Apply,
}

impl AdoptionRequest {
    pub fn of(machine: &ObjectMeta) -> Option<Self> {
        match machine.annotations.as_ref()?.get(labels::ADOPT)?.as_str() {
            ON => Some(Self::Keep),
            APPLY => Some(Self::Apply),
            _ => None,
        }
    }
}

/// Number of characters of an ignored value in a message.
const SHOWN: usize = 64;

pub(crate) fn is_switched_on(metadata: &ObjectMeta, name: &str) -> bool {
    let annotations = metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(name))
        .map(String::as_str)
        == Some(ON)
}

/// Whether an annotation is for the operator and not copied to the virtual machine.
pub(super) fn is_switch(name: &str) -> bool {
    SWITCHES.contains(&name)
        || [labels::ADOPT, labels::RECREATE_DISK, labels::RELEASE].contains(&name)
}

/// Warnings about switches with a value that has no effect.
pub fn ignored_switches(machine: &Machine) -> Vec<Note> {
    let annotations = machine.metadata.annotations.iter().flatten();
    let switches = annotations.filter_map(|(name, value)| {
        let message = match name.as_str() {
            labels::RECREATE_DISK => ignored_claims(value)?,
            labels::ADOPT if [ON, APPLY, "false", ""].contains(&value.as_str()) => return None,
            labels::ADOPT => format!(
                "{:?} is ignored: it must be \"true\" or \"apply\" to have an effect",
                shown(value)
            ),
            name if SWITCHES.contains(&name) && ![ON, "false", ""].contains(&value.as_str()) => {
                ignored(value)
            }
            _ => return None,
        };
        let path = format!("metadata.annotations[{name}]");
        Some(Note { path, message })
    });
    switches.chain(ignored_annotations(machine)).collect()
}

/// Why a value of [`labels::RECREATE_DISK`] has no effect, unless it lists UIDs.
fn ignored_claims(value: &str) -> Option<String> {
    let mut listed = value.split(',').map(str::trim);
    let is_uid = |text: &str| {
        let digits = text.bytes().filter(|byte| *byte != b'-');
        text.len() == 36
            && digits.clone().count() == 32
            && digits.into_iter().all(|it| it.is_ascii_hexdigit())
    };
    let wrong = listed.find(|text| !text.is_empty() && !is_uid(text))?;
    Some(format!(
        "{:?} is ignored: it must be the UID of a PersistentVolumeClaim that is lost, as the condition \
         DataLost names it",
        shown(wrong)
    ))
}

pub(crate) fn ignored(value: &str) -> String {
    let shown = shown(value);
    format!("{shown:?} is ignored: it must be \"true\" to have an effect")
}

fn shown(value: &str) -> String {
    let shown: String = value.chars().take(SHOWN).collect();
    let rest = if shown.len() < value.len() { "..." } else { "" };
    shown + rest
}

/// A warning about labels that are not copied to the virtual machine, although a Service or a query for
/// pods may rely on them. Labels that tools set for themselves are left out.
pub fn labels_not_passed_on(machine: &Machine, passed_on: &PassedOn) -> Option<Note> {
    let names = machine
        .metadata
        .labels
        .iter()
        .flatten()
        .map(|(name, _)| name);
    let names: Vec<&str> = names
        .map(String::as_str)
        .filter(|name| !has_documented_prefix(name) && !is_bookkeeping(name))
        .filter(|name| !passed_on.labels.has(name))
        .collect();
    (!names.is_empty()).then(|| Note {
        path: "metadata.labels".to_owned(),
        message: format!(
            "{} not passed on to the virtual machine and its pod: only labels under {} are, such as \
             app.{}/name, and those that the operator's setting PASSED_ON_LABELS names",
            match names.as_slice() {
                [name] => format!("{name} is"),
                names => format!("{} are", names.join(", ")),
            },
            labels::DOMAIN,
            labels::DOMAIN,
        ),
    })
}

/// Whether a label or annotation has the documented prefix, and so is copied unless it is reserved.
pub(super) fn has_documented_prefix(name: &str) -> bool {
    is_below(name, labels::DOMAIN)
}

fn is_bookkeeping(name: &str) -> bool {
    let tools = [
        "kubernetes.io",
        "k8s.io",
        "helm.sh",
        "argoproj.io",
        "fluxcd.io",
        "crossplane.io",
        "cattle.io",
    ];
    tools.iter().any(|tool| is_below(name, tool))
}

fn is_below(name: &str, domain: &str) -> bool {
    let prefix = name.split_once('/').map(|(prefix, _)| prefix);
    prefix.is_some_and(|prefix| {
        let rest = prefix.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::machine::NamePatterns;

    fn machine(value: &str) -> Machine {
        let annotations = json!({
            "vitistack.io/adopt-disks": value, "vitistack.io/follow-machine-class": "true",
            "vitistack.io/owner": "yes",
        });
        serde_json::from_value(json!({
            "apiVersion": "", "kind": "", "spec": {},
            "metadata": {"name": "web", "annotations": annotations},
        }))
        .unwrap()
    }

    #[test]
    fn a_switch_without_effect_is_reported() {
        for value in ["yes", "True", "1", " true"] {
            let machine = machine(value);
            assert!(!is_switched_on(&machine.metadata, labels::ADOPT_DISKS));
            let note = Note {
                path: "metadata.annotations[vitistack.io/adopt-disks]".to_owned(),
                message: format!("{value:?} is ignored: it must be \"true\" to have an effect"),
            };
            assert_eq!(ignored_switches(&machine), [note]);
        }
    }

    #[test]
    fn a_lost_claim_is_named_by_its_uid() {
        let machine = |value: &str| {
            let mut machine = machine("true");
            let annotations = machine.metadata.annotations.get_or_insert_default();
            annotations.insert(labels::RECREATE_DISK.to_owned(), value.to_owned());
            machine
        };
        let uid = "ca750608-b9bc-4cfc-8e92-9e233ce0235b";
        for value in [uid, &format!("{uid}, {uid}"), ""] {
            assert_eq!(ignored_switches(&machine(value)), []);
        }
        for value in ["true", "root", &format!("{uid},web-root")] {
            let notes = ignored_switches(&machine(value));
            assert!(notes[0].message.contains("must be the UID"), "{notes:?}");
        }
    }

    #[test]
    fn labels_that_tools_keep_or_that_are_passed_on_are_not_named() {
        let machine = |labels: serde_json::Value| -> Machine {
            serde_json::from_value(json!({
                "apiVersion": "", "kind": "", "spec": {},
                "metadata": {"name": "web", "labels": labels},
            }))
            .unwrap()
        };
        let quiet = json!({
            "app.kubernetes.io/name": "web", "helm.sh/chart": "web-1", "vitistack.io/role": "db",
            "cluster.vitistack.io/cluster-name": "blue", "argocd.argoproj.io/instance": "web",
            "kustomize.toolkit.fluxcd.io/name": "web",
        });
        assert_eq!(
            labels_not_passed_on(&machine(quiet), &PassedOn::default()),
            None
        );
        let named = json!({"app": "web", "example.com/team": "blue", "notvitistack.io/x": "y"});
        let note = labels_not_passed_on(&machine(named.clone()), &PassedOn::default()).unwrap();
        assert_eq!(note.path, "metadata.labels");
        let expected = "app, example.com/team, notvitistack.io/x are not passed on";
        assert!(note.message.starts_with(expected), "{}", note.message);
        let passed_on = PassedOn {
            labels: NamePatterns::parse("app,example.com/*").unwrap(),
            ..PassedOn::default()
        };
        let note = labels_not_passed_on(&machine(named), &passed_on).unwrap();
        let expected = "notvitistack.io/x is not passed on";
        assert!(note.message.starts_with(expected), "{}", note.message);
    }

    #[test]
    fn a_long_value_is_cut() {
        assert!(ignored(&"x".repeat(100_000)).len() < 200);
    }

    #[test]
    fn a_switch_that_is_on_or_off_is_not_reported() {
        for value in ["true", "false", ""] {
            assert_eq!(ignored_switches(&machine(value)), []);
        }
    }
}
