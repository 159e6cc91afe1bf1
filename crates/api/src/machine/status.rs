//! Status of a Machine.

use std::fmt;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, IntoDeserializer as _, Visitor, value},
};

use crate::{Condition, QuantityValue, Time};

/// Observed state of a virtual machine.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// Phase of the machine's lifecycle: Pending, Creating, Running, Stopped or Failed. Operators of other
    /// providers have others.
    #[serde(
        default,
        deserialize_with = "own_phase",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>")]
    pub phase: Option<Phase>,
    /// State of the virtual machine in a word, such as Running, Paused, Stopped or Failed. While the machine
    /// is being created, KubeVirt's own word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Provider whose operator manages the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Reason of the error that keeps the machine from being ready. Absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Message of the error that keeps the machine from being ready. Absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// Conditions by type. `Ready` summarizes the others.
    #[serde(
        default,
        deserialize_with = "complete_conditions",
        skip_serializing_if = "Option::is_none"
    )]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
    /// Generation of the spec that this status is based on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Name of the VirtualMachine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_name: Option<String>,
    /// UID of the VirtualMachine.
    #[serde(rename = "machineID", skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// Name of the active VirtualMachineInstance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vmi_name: Option<String>,
    /// IP addresses of the guest.
    #[serde(default, skip_serializing_if = "GuestAddresses::is_unset")]
    #[schemars(with = "Option<Vec<String>>")]
    pub ip_addresses: GuestAddresses,
    /// Those of `ipAddresses` on interfaces of the spec.
    #[serde(
        default,
        rename = "publicIPAddresses",
        skip_serializing_if = "Option::is_none"
    )]
    pub public_ip_addresses: Option<Vec<String>>,
    /// Those of `ipAddresses` on interfaces that the guest created itself.
    #[serde(
        default,
        rename = "privateIPAddresses",
        skip_serializing_if = "Option::is_none"
    )]
    pub private_ip_addresses: Option<Vec<String>>,
    /// Those of `ipAddresses` that are IPv6 addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6_addresses: Option<Vec<String>>,
    /// Network interfaces of the running guest: those of the spec, and others that have addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_interfaces: Option<Vec<InterfaceStatus>>,
    /// Host name that KubeVirt gives the running guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Operating system of the running guest, if a guest agent reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operating_system: Option<String>,
    /// Node that the machine runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Virtual CPUs of the running guest, or of the next one: cores times sockets times threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<i32>,
    /// Same as `vcpus`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<i32>,
    /// Memory of the running guest, or of the next one, in bytes. Earlier versions of the operator wrote
    /// a quantity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<QuantityValue>,
    /// `memory` as a quantity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_quantity: Option<String>,
    /// Virtual CPUs that the spec requests, while the guest has a different number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_vcpus: Option<i32>,
    /// Memory that the spec requests, while the guest has a different amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_memory: Option<String>,
    /// Disks whose PersistentVolumeClaims are bound and filled. If one of these claims is deleted, the
    /// operator reports the data as lost and does not replace the disk by an empty one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub disks: Option<Vec<DiskStatus>>,
    /// Time of the last change of this status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// Resource version of the VirtualMachine that this status is based on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// `status.ipAddresses` of a Machine: absent until a guest has run, then a list, empty while none runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<Vec<String>>", into = "Option<Vec<String>>")]
pub enum GuestAddresses {
    #[default]
    NeverRan,
    HasRun(Vec<String>),
}

impl GuestAddresses {
    pub fn list(&self) -> &[String] {
        match self {
            Self::NeverRan => &[],
            Self::HasRun(addresses) => addresses,
        }
    }

    /// Whether the status has no field for them.
    pub fn is_unset(&self) -> bool {
        matches!(self, Self::NeverRan)
    }
}

impl From<Option<Vec<String>>> for GuestAddresses {
    fn from(addresses: Option<Vec<String>>) -> Self {
        addresses.map_or(Self::NeverRan, Self::HasRun)
    }
}

impl From<GuestAddresses> for Option<Vec<String>> {
    fn from(addresses: GuestAddresses) -> Self {
        match addresses {
            GuestAddresses::NeverRan => None,
            GuestAddresses::HasRun(addresses) => Some(addresses),
        }
    }
}

/// A disk that contains data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskStatus {
    /// Name of the disk.
    pub name: String,
    /// Name of its PersistentVolumeClaim.
    #[serde(default)]
    #[schemars(!default, with = "Option<String>")]
    pub pvc_name: String,
    /// UID of its PersistentVolumeClaim.
    #[serde(default)]
    #[schemars(!default, with = "Option<String>")]
    pub uuid: String,
    /// Size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// Device in the running guest, such as `/dev/vda`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// A network interface of the running guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceStatus {
    /// Name in the spec. Absent for an interface that the guest created itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// IP addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_addresses: Option<Vec<String>>,
    /// Those of `ipAddresses` that are IPv6 addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6_addresses: Option<Vec<String>>,
    /// State of its link: up or down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Sources that report it: domain, multus-status, guest-agent.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Not reconciled yet.
    Pending,
    /// Its resources are being created.
    Creating,
    /// Running.
    Running,
    /// Powered off.
    Stopped,
    /// An error that a user has to fix.
    Failed,
}

/// A phase of this operator; none for those of other operators, such as Stopping or Terminating.
fn own_phase<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Phase>, D::Error> {
    struct OwnPhase;

    impl<'de> Visitor<'de> for OwnPhase {
        type Value = Option<Phase>;

        fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
            formatter.write_str("a phase")
        }

        fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_some<D: Deserializer<'de>>(self, text: D) -> Result<Self::Value, D::Error> {
            text.deserialize_str(self)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            let text: value::StrDeserializer<'_, value::Error> = text.into_deserializer();
            Ok(Phase::deserialize(text).ok())
        }
    }

    deserializer.deserialize_option(OwnPhase)
}

/// Conditions with a type and a time. Operators of other providers write incomplete ones; this operator
/// replaces those.
fn complete_conditions<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<Condition>>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct AnyCondition {
        #[serde(rename = "type")]
        type_: String,
        status: String,
        reason: String,
        message: String,
        last_transition_time: Option<Time>,
        observed_generation: Option<i64>,
    }

    let found: Option<Vec<AnyCondition>> = Option::deserialize(deserializer)?;
    let complete = |found: AnyCondition| {
        let condition = Condition {
            last_transition_time: found.last_transition_time?,
            type_: found.type_,
            status: found.status,
            reason: found.reason,
            message: found.message,
            observed_generation: found.observed_generation,
        };
        (!condition.type_.is_empty()).then_some(condition)
    };
    Ok(found.map(|found| found.into_iter().filter_map(complete).collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_phase_of_another_operator_is_none() {
        let cases = [
            (json!({ "phase": "Running" }), Some(Phase::Running)),
            (json!({ "phase": "Stopping", "state": "Stopping" }), None),
            (json!({ "phase": "" }), None),
            (json!({ "phase": null }), None),
            (json!({}), None),
        ];
        for (status, expected) in cases {
            let text = status.to_string();
            let found: MachineStatus = serde_json::from_str(&text).unwrap();
            assert_eq!(found.phase, expected, "{text}");
            let found: MachineStatus = decode::from_str(&text).unwrap();
            assert_eq!(found.phase, expected, "{text}");
            let found: MachineStatus = decode::from_value(status).unwrap();
            assert_eq!(found.phase, expected, "{text}");
        }
    }

    #[test]
    fn a_status_of_another_operator_is_readable() {
        let status = json!({
            "phase": "Terminating", "message": "deleting", "region": "north",
            "conditions": [
                { "type": "Ready", "status": "False" },
                { "type": "Known", "lastTransitionTime": "2026-11-01T10:00:00Z" },
                { "lastTransitionTime": "2026-11-01T10:00:00Z" },
            ],
            "disks": [{ "name": "sda", "label": "root", "usedBytes": 1 }],
            "networkInterfaces": [{ "name": "eth0", "mtu": 1500 }],
        });
        let parsed: MachineStatus = decode::from_value(status).unwrap();
        assert_eq!(parsed.disks.unwrap()[0].name, "sda");
        let conditions = parsed.conditions.unwrap();
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].type_, "Known");
    }
}
