//! Planner for the MachineProvider by which the operator makes its provider known to the Viti stack.
//!
//! Guarantees:
//! - a MachineProvider without the operator's label is never changed;
//! - the region, which the operator does not know, is written only when the object is created.

use std::collections::BTreeMap;

use api::{MachineProvider, MachineProviderSpec, ProviderAuthentication, labels};

use crate::machine::Provider;

/// The write that publishes the provider.
#[derive(Clone, Debug, PartialEq)]
pub enum Publication {
    Create(MachineProvider),
    Apply(MachineProvider),
    /// It is published.
    Unchanged,
    /// Someone else made the MachineProvider of this name.
    Foreign,
}

/// Compares the existing MachineProvider of the provider's name with the desired one.
pub fn publication(provider: &Provider, found: Option<&MachineProvider>) -> Publication {
    let mut desired = desired(provider);
    let Some(found) = found else {
        desired.spec.region = Some("unknown".to_owned());
        return Publication::Create(desired);
    };
    let labels = found.metadata.labels.as_ref();
    let manager = labels.and_then(|labels| labels.get(labels::MANAGED_BY));
    if manager.map(String::as_str) != Some(labels::MANAGER) {
        return Publication::Foreign;
    }
    let spec = MachineProviderSpec {
        region: None,
        ..found.spec.clone()
    };
    if spec == desired.spec {
        Publication::Unchanged
    } else {
        Publication::Apply(desired)
    }
}

fn desired(provider: &Provider) -> MachineProvider {
    let name = provider.to_string();
    let spec = MachineProviderSpec {
        display_name: name.clone(),
        provider_type: "kubevirt".to_owned(),
        region: None,
        authentication: ProviderAuthentication {
            type_: "serviceAccount".to_owned(),
        },
    };
    let mut desired = MachineProvider::new(&name, spec);
    let label = (labels::MANAGED_BY.to_owned(), labels::MANAGER.to_owned());
    desired.metadata.labels = Some(BTreeMap::from([label]));
    desired
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published() -> MachineProvider {
        match publication(&Provider::default(), None) {
            Publication::Create(created) => created,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_published_provider_is_not_written_again() {
        let mut found = published();
        assert_eq!(found.metadata.name.as_deref(), Some("kubevirt"));
        assert_eq!(found.spec.region.as_deref(), Some("unknown"));
        found.spec.region = Some("north".to_owned());
        assert_eq!(
            publication(&Provider::default(), Some(&found)),
            Publication::Unchanged
        );
    }

    #[test]
    fn a_changed_provider_is_restored_without_its_region() {
        let mut found = published();
        found.spec.provider_type = "proxmox".to_owned();
        let written = publication(&Provider::default(), Some(&found));
        let Publication::Apply(written) = written else {
            panic!("{written:?}");
        };
        assert_eq!(written.spec.provider_type, "kubevirt");
        assert_eq!(written.spec.region, None);
    }

    #[test]
    fn a_foreign_provider_is_left_alone() {
        let mut found = published();
        found.metadata.labels = None;
        found.spec.provider_type = "proxmox".to_owned();
        assert_eq!(
            publication(&Provider::default(), Some(&found)),
            Publication::Foreign
        );
    }
}
