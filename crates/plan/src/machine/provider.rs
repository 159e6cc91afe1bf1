//! Machine provider: the Machines and MachineClasses that belong to this operator.
//!
//! The kind Machine is shared with operators of other providers. A Machine belongs to the provider that
//! `spec.provider` names; one without belongs to this operator.

use std::{fmt, sync::Arc};

use api::{Machine, MachineClass, labels};

/// Name of this operator's provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider(Arc<str>);

impl Default for Provider {
    fn default() -> Self {
        Self::new("kubevirt")
    }
}

impl Provider {
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Whether this operator acts on a Machine.
    ///
    /// A Machine that moved to another provider is left alone. When it is deleted, the operator removes
    /// what it created for it: its finalizer would block the deletion for ever.
    pub fn manages(&self, machine: &Machine) -> bool {
        let metadata = &machine.metadata;
        let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
        self.is_named_by(machine)
            || metadata.deletion_timestamp.is_some()
                && finalizers.iter().any(|found| found == labels::FINALIZER)
    }

    /// Whether a Machine names this provider, or none.
    pub fn is_named_by(&self, machine: &Machine) -> bool {
        let named = machine.spec.provider.as_deref().unwrap_or_default();
        named.is_empty() || named == &*self.0
    }

    /// Whether this provider offers a class.
    pub(crate) fn offers(&self, class: &MachineClass) -> bool {
        match class.spec.machine_providers.as_deref() {
            None | Some([]) => true,
            Some(providers) => providers.iter().any(|provider| provider == &*self.0),
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use api::Time;

    use super::*;

    fn machine(provider: Option<&str>) -> Machine {
        let mut machine = Machine::default();
        machine.spec.provider = provider.map(str::to_owned);
        machine
    }

    #[test]
    fn a_machine_belongs_to_the_provider_it_names() {
        for (named, kubevirt, other) in [
            (None, true, true),
            (Some(""), true, true),
            (Some("kubevirt"), true, false),
            (Some("proxmox"), false, false),
        ] {
            assert_eq!(Provider::default().manages(&machine(named)), kubevirt);
            assert_eq!(Provider::new("other").manages(&machine(named)), other);
        }
    }

    #[test]
    fn what_was_created_before_a_machine_moved_is_removed_with_it() {
        let mut machine = machine(Some("proxmox"));
        machine.metadata.finalizers = Some(vec![labels::FINALIZER.to_owned()]);
        assert!(!Provider::default().manages(&machine));
        machine.metadata.deletion_timestamp = Some(Time("2026-01-01T00:00:00Z".parse().unwrap()));
        assert!(Provider::default().manages(&machine));
        machine.metadata.finalizers = Some(vec!["proxmox.example.com/vm".to_owned()]);
        assert!(!Provider::default().manages(&machine));
    }
}
