//! Trimming of objects before they are cached.

use api::{
    KubevirtConfig, Machine, MachineClass, NetworkConfiguration, NetworkNamespace, ObjectMeta,
    ObservedCondition,
    cdi::ObservedDataVolume,
    core::{ObservedClaim, StorageClass},
    kubevirt::{ObservedInstance, ObservedVirtualMachine},
    labels,
    multus::NetworkAttachmentDefinition,
};
use plan::{
    machine::{PassedOn, elide_cloud_init, trim_addresses, trim_instance_spec, trim_ledger},
    managed,
};

use super::packed::{Packed, pack};

pub(super) trait Slim {
    /// Cached form of the object.
    type Kept;

    /// Drops the fields that are not read. Labels and annotations that are passed on are.
    fn slim(self, passed_on: &PassedOn) -> Self::Kept;
}

/// Trims a Machine, including large cloud-init data, which only its Secret needs.
pub(super) fn cached(mut machine: Machine, passed_on: &PassedOn) -> Machine {
    elide_cloud_init(&mut machine);
    machine.slim(passed_on)
}

macro_rules! slim {
    ($($kind:ty),*) => {$(
        impl Slim for $kind {
            type Kept = Self;

            fn slim(mut self, passed_on: &PassedOn) -> Self {
                trim(&mut self.metadata, passed_on);
                self
            }
        }
    )*};
}

slim!(
    KubevirtConfig,
    Machine,
    MachineClass,
    NetworkAttachmentDefinition
);

impl Slim for NetworkConfiguration {
    type Kept = Self;

    fn slim(mut self, passed_on: &PassedOn) -> Self {
        trim(&mut self.metadata, passed_on);
        trim_ledger(&mut self);
        self
    }
}

impl Slim for NetworkNamespace {
    type Kept = Self;

    fn slim(mut self, passed_on: &PassedOn) -> Self {
        trim(&mut self.metadata, passed_on);
        let allocation = self.spec.ip_allocation.as_mut();
        let provider = allocation.and_then(|it| it.provider.as_mut());
        let status = self.status.as_mut();
        let prefix = status.and_then(|it| it.ipv4_prefix.as_mut());
        for text in provider.into_iter().chain(prefix) {
            shorten(text, MAX_NAME_BYTES);
        }
        self
    }
}

impl Slim for ObservedClaim {
    type Kept = Packed<Self>;

    fn slim(mut self, passed_on: &PassedOn) -> Packed<Self> {
        trim(&mut self.metadata, passed_on);
        pack(&self)
    }
}

impl Slim for ObservedVirtualMachine {
    type Kept = Packed<Self>;

    fn slim(mut self, passed_on: &PassedOn) -> Packed<Self> {
        trim(&mut self.metadata, passed_on);
        trim_conditions(&mut self.status.conditions);
        pack(&self)
    }
}

impl Slim for ObservedInstance {
    type Kept = Packed<Self>;

    fn slim(mut self, passed_on: &PassedOn) -> Packed<Self> {
        trim(&mut self.metadata, passed_on);
        // The whole spec is read only while the instance may still be replaced.
        if !plan::machine::never_started(&self) {
            trim_instance_spec(&mut self);
        }
        trim_conditions(&mut self.status.conditions);
        trim_addresses(&mut self);
        pack(&self)
    }
}

impl Slim for ObservedDataVolume {
    type Kept = Packed<Self>;

    fn slim(mut self, passed_on: &PassedOn) -> Packed<Self> {
        trim(&mut self.metadata, passed_on);
        trim_conditions(&mut self.status.conditions);
        pack(&self)
    }
}

impl Slim for StorageClass {
    type Kept = Self;

    fn slim(mut self, _: &PassedOn) -> Self {
        self.metadata.managed_fields = None;
        self
    }
}

/// Bytes of a name or an address range in an object without a schema of ours.
const MAX_NAME_BYTES: usize = 253;

/// Bounds the memory of conditions: there is one per type, and only the start of a message is repeated.
fn trim_conditions(conditions: &mut Vec<ObservedCondition>) {
    const MAX_CONDITIONS: usize = 64;
    const MAX_MESSAGE_BYTES: usize = 4096;
    conditions.truncate(MAX_CONDITIONS);
    for condition in conditions {
        shorten(&mut condition.message, MAX_MESSAGE_BYTES);
    }
}

fn shorten(text: &mut String, bytes: usize) {
    let mut ends = (0..=bytes.min(text.len())).rev();
    let end = ends.find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or_default());
    text.shrink_to_fit();
}

/// Keeps the operator's labels and annotations, those that are passed on, and of the managed fields the position of the operator's
/// create and the fields of others.
fn trim(metadata: &mut ObjectMeta, passed_on: &PassedOn) {
    let is_operator = |name: &str| name.contains(labels::DOMAIN);
    let named = [
        (&mut metadata.labels, &passed_on.labels),
        (&mut metadata.annotations, &passed_on.annotations),
    ];
    for (entries, patterns) in named {
        if let Some(entries) = entries {
            entries.retain(|name, _| is_operator(name) || patterns.has(name));
        }
    }
    metadata.managed_fields = managed::trimmed(metadata);
    metadata.self_link = None;
    metadata.generate_name = None;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(managed_fields: &serde_json::Value) -> ObservedClaim {
        serde_json::from_value(json!({
            "metadata": {
                "name": "a", "managedFields": managed_fields,
                "labels": { "vitistack.io/machine": "a", "app": "b" },
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" },
            },
            "spec": {},
        }))
        .unwrap()
    }

    #[test]
    fn the_position_of_the_operators_create_in_managed_fields_is_kept() {
        let claim = claim(&json!([
            { "manager": "kubevirt-operator", "operation": "Update", "subresource": "status" },
            { "manager": "someone", "operation": "Update", "fieldsV1": { "f:spec": {} } },
            { "manager": "kubevirt-operator", "operation": "Update", "fieldsV1": { "f:spec": {} } },
        ]));
        let slim = claim.slim(&PassedOn::none()).unpack().unwrap();
        assert_eq!(managed::created_at(&slim.metadata), Some(2));
        assert!(slim.metadata.managed_fields.unwrap()[2].fields_v1.is_none());
        assert_eq!(slim.metadata.labels.unwrap().len(), 1);
        assert!(slim.metadata.annotations.unwrap().is_empty());
    }

    /// docs/performance.md has the bound that follows from this.
    #[test]
    fn a_machine_with_the_largest_cloud_init_data_takes_little_memory() {
        let text = json!({
            "apiVersion": "", "kind": "",
            "metadata": { "name": "web", "namespace": "shop", "uid": "m1" },
            "spec": { "cloudInit": { "userData": "u".repeat(1_000_000),
                                     "networkData": "n".repeat(400_000) } },
        });
        let text = text.to_string();
        let mut kept = None;
        let counted = allocation_counter::measure(|| {
            kept = Some(cached(
                serde_json::from_str(&text).unwrap(),
                &PassedOn::none(),
            ));
        });
        assert!(
            counted.bytes_current < 4096,
            "{} bytes",
            counted.bytes_current
        );
        assert!(kept.is_some());
    }

    /// docs/performance.md has the bound that follows from this.
    #[test]
    fn a_ledger_and_a_network_namespace_of_the_largest_size_take_little_memory() {
        let addresses: Vec<String> = (0..60_000).map(|at| format!("2001:db8::{at:x}")).collect();
        let ledger = json!({
            "apiVersion": "", "kind": "", "metadata": { "name": "web" },
            "spec": { "networkInterfaces": [{ "name": "n".repeat(100_000) }] },
            "status": {
                "message": "m".repeat(100_000),
                "networkInterfaces": [{ "name": "a", "ipv6Addresses": addresses },
                                      { "macAddress": "b".repeat(100_000),
                                        "ipv4Addresses": ["10.0.0.1"] }],
            },
        });
        let namespace = json!({
            "apiVersion": "", "kind": "", "metadata": { "name": "tenant" },
            "spec": { "ipAllocation": { "type": "dhcp", "provider": "p".repeat(100_000) } },
            "status": { "ipv4Prefix": "1".repeat(100_000) },
        });
        let mut kept = None;
        let counted = allocation_counter::measure(|| {
            let ledger: NetworkConfiguration = serde_json::from_str(&ledger.to_string()).unwrap();
            let namespace: NetworkNamespace = serde_json::from_str(&namespace.to_string()).unwrap();
            kept = Some((
                ledger.slim(&PassedOn::none()),
                namespace.slim(&PassedOn::none()),
            ));
        });
        let (ledger, namespace) = kept.unwrap();
        assert!(
            counted.bytes_current < 16 * 1024,
            "{} bytes",
            counted.bytes_current
        );
        let interfaces = ledger.status.unwrap().network_interfaces.unwrap();
        assert_eq!(interfaces[0].ipv6_addresses.as_ref().unwrap().len(), 64);
        assert!(namespace.status.unwrap().ipv4_prefix.is_some());
    }

    #[test]
    fn managed_fields_of_an_applied_object_are_dropped() {
        let claim = claim(&json!([{ "manager": "kubevirt-operator", "operation": "Apply" }]));
        let slim = claim.slim(&PassedOn::none()).unpack().unwrap();
        assert_eq!(slim.metadata.managed_fields, None);
    }
}
