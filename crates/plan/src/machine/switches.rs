//! Annotations by which users switch something on.

use api::{Machine, ObjectMeta, labels};

use super::Note;

/// All that there are.
const SWITCHES: [&str; 2] = [labels::ADOPT_DISKS, labels::FOLLOW_CLASS];

const ON: &str = "true";

/// Whether a user has set a switch.
pub(crate) fn is_switched_on(metadata: &ObjectMeta, name: &str) -> bool {
    let annotations = metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(name))
        .map(String::as_str)
        == Some(ON)
}

/// Whether an annotation is one of the switches.
pub(super) fn is_switch(name: &str) -> bool {
    SWITCHES.contains(&name)
}

/// The switches of a Machine that have a value which does nothing, though it looks as if it should.
pub fn ignored_switches(machine: &Machine) -> Vec<Note> {
    let annotations = machine.metadata.annotations.iter().flatten();
    let switches = annotations.filter(|(name, _)| is_switch(name));
    switches
        .filter(|(_, value)| ![ON, "false", ""].contains(&value.as_str()))
        .map(|(name, value)| Note {
            path: format!("metadata.annotations[{name}]"),
            message: format!("{value:?} is ignored: it must be \"true\" to have an effect"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
    fn a_switch_that_does_nothing_is_told() {
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
    fn a_switch_that_is_on_or_off_is_not() {
        for value in ["true", "false", ""] {
            assert_eq!(ignored_switches(&machine(value)), []);
        }
    }
}
