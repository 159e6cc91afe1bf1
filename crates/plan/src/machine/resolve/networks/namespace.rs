//! Interface on the network of a NetworkNamespace.
//!
//! Its VLAN becomes the attachment. An interface that exists keeps its attachment while the
//! NetworkNamespace cannot be read, and keeps its MAC address always.

use api::{AllocationMethod, Machine, NetworkModel, NetworkNamespace};

use super::{Findings, network_namespace};
use crate::{
    machine::{
        Attachment, Identity, Known, Lookup, ResolvedInterface, ResolvedNamespace, Surroundings,
        plan::compare,
    },
    naming,
};

/// Allocators of addresses, by their names in the Viti stack.
const KEA: &str = "kea";
const STATIC_IP: &str = "static-ip-operator";

pub(super) fn resolve(
    name: &str,
    machine: &Identity,
    surroundings: &Surroundings,
    findings: &mut Findings,
) -> (Option<ResolvedInterface>, ResolvedNamespace) {
    let kept = &surroundings.kept_interface;
    let mut resolved = ResolvedNamespace {
        name: name.to_owned(),
        uid: None,
        provider: None,
        pending: None,
    };
    let attachment = match surroundings.network_namespaces.get(name) {
        Lookup::Found(found) => {
            resolved.uid.clone_from(&found.metadata.uid);
            resolved.provider = Some(provider(found));
            let attachment = attachment(found);
            if attachment.is_none() {
                resolved.pending = Some(format!(
                    "NetworkNamespace {name:?} has no VLAN and no prefix yet: the Machine continues once its status has them"
                ));
            }
            attachment
        }
        Lookup::Missing => {
            resolved.pending = Some(format!(
                "no NetworkNamespace is named {name:?} in this namespace: the Machine continues once it exists"
            ));
            None
        }
        Lookup::Unknown => {
            findings.note(
                "spec.network.networkNamespaceName",
                format!("NetworkNamespace {name:?} is not checked: its VLAN decides the interface"),
            );
            None
        }
    };
    let attachment = attachment.or_else(|| kept.attachment.clone());
    let interface = attachment.map(|attachment| ResolvedInterface {
        name: match &attachment {
            Attachment::PodNetwork => naming::POD_INTERFACE.to_owned(),
            Attachment::Network(name) => name.clone(),
            Attachment::Vlan(id) => naming::vlan(*id),
        },
        attachment,
        model: NetworkModel::Virtio,
        mac_address: kept
            .mac_address
            .clone()
            .or_else(|| machine.uid.as_deref().map(generated_mac)),
        boot_order: None,
    });
    (interface, resolved)
}

/// The attachment that a NetworkNamespace asks for; none while its status does not say. With DHCP and
/// without a VLAN it is the pod network. Static addresses need a bridge, since the pod network has
/// addresses of its own.
fn attachment(namespace: &NetworkNamespace) -> Option<Attachment> {
    let status = namespace.status.clone().unwrap_or_default();
    let allocation = namespace.spec.ip_allocation.as_ref();
    let is_static = is_static(namespace);
    let pool = allocation.and_then(|it| it.static_.as_ref());
    let tag = |id: Option<i64>| {
        id.and_then(|id| u16::try_from(id).ok())
            .filter(|id| *id > 0)
    };
    let vlan = tag(status.vlan_id).or_else(|| tag(pool.filter(|_| is_static)?.vlan_id));
    match vlan {
        Some(id) => Some(Attachment::Vlan(id)),
        None if is_static => Some(Attachment::Vlan(0)),
        None => status.ipv4_prefix.map(|_| Attachment::PodNetwork),
    }
}

pub(super) fn is_static(namespace: &NetworkNamespace) -> bool {
    let allocation = namespace.spec.ip_allocation.as_ref();
    allocation.is_some_and(|it| it.type_ == AllocationMethod::Static)
}

/// Name of the NetworkAttachmentDefinition of the VLAN that a Machine attaches to, if its NetworkNamespace
/// has one.
pub fn vlan_of(machine: &Machine, known: &Known<NetworkNamespace>) -> Option<String> {
    let name = network_namespace(machine.spec.network.as_ref()?)?;
    let Lookup::Found(namespace) = known.get(name) else {
        return None;
    };
    match attachment(namespace)? {
        Attachment::Vlan(id) => Some(naming::vlan(id)),
        Attachment::PodNetwork | Attachment::Network(_) => None,
    }
}

/// The operator that allocates the addresses of a NetworkNamespace.
fn provider(namespace: &NetworkNamespace) -> String {
    let allocation = namespace.spec.ip_allocation.as_ref();
    let named = allocation.and_then(|it| it.provider.clone());
    named
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| match allocation.map(|it| it.type_) {
            Some(AllocationMethod::Static) => STATIC_IP.to_owned(),
            Some(AllocationMethod::Dhcp) | None => KEA.to_owned(),
        })
}

/// A locally administered unicast MAC address that only the Machine's UID decides, so that the
/// interface keeps it whatever is deleted and created again.
pub(in crate::machine) fn generated_mac(uid: &str) -> String {
    mac(&compare::digest([uid.as_bytes(), b"interface"]))
}

/// The same for one of several interfaces.
pub(super) fn generated_mac_of(uid: &str, interface: &str) -> String {
    mac(&compare::digest([
        uid.as_bytes(),
        b"interface",
        interface.as_bytes(),
    ]))
}

fn mac(digest: &str) -> String {
    let octets: Vec<&str> = (0..10)
        .step_by(2)
        .filter_map(|at| digest.get(at..at + 2))
        .collect();
    format!("02:{}", octets.join(":"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn namespace(spec: &Value, status: &Value) -> NetworkNamespace {
        let object = json!({"apiVersion": "", "kind": "", "metadata": {"name": "net"},
            "spec": spec, "status": status});
        serde_json::from_value(object).unwrap()
    }

    #[rstest]
    #[case::not_assigned(json!({}), json!({}), None)]
    #[case::zero_is_not_assigned(json!({}), json!({"vlanId": 0}), None)]
    #[case::tagged(json!({}), json!({"vlanId": 42}), Some(Attachment::Vlan(42)))]
    #[case::dhcp_without_vlan(json!({"ipAllocation": {"type": "dhcp"}}),
        json!({"ipv4Prefix": "10.0.0.0/24"}), Some(Attachment::PodNetwork))]
    #[case::static_without_vlan(json!({"ipAllocation": {"type": "static"}}), json!({}),
        Some(Attachment::Vlan(0)))]
    #[case::static_before_its_status(
        json!({"ipAllocation": {"type": "static", "static": {"vlanId": 7}}}), json!({}),
        Some(Attachment::Vlan(7)))]
    #[case::out_of_range(json!({}), json!({"vlanId": -1}), None)]
    fn the_vlan_of_a_network_namespace_becomes_the_attachment(
        #[case] spec: Value,
        #[case] status: Value,
        #[case] expected: Option<Attachment>,
    ) {
        assert_eq!(attachment(&namespace(&spec, &status)), expected);
    }

    #[rstest]
    #[case(json!({}), "kea")]
    #[case(json!({"ipAllocation": {"type": "dhcp"}}), "kea")]
    #[case(json!({"ipAllocation": {"type": "static"}}), "static-ip-operator")]
    #[case(json!({"ipAllocation": {"type": "static", "provider": "ours"}}), "ours")]
    fn the_ledger_names_the_operator_that_allocates(#[case] spec: Value, #[case] expected: &str) {
        assert_eq!(provider(&namespace(&spec, &json!({}))), expected);
    }

    #[test]
    fn a_mac_address_is_stable_local_and_unicast() {
        let address = generated_mac("0a1b");
        assert_eq!(address, generated_mac("0a1b"));
        assert_ne!(address, generated_mac("0a1c"));
        assert_eq!((address.len(), &address[..3]), (17, "02:"));
    }
}
