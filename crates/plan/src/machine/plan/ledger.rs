//! Address ledger of a Machine: creates it before the VirtualMachine, and keeps the operator's fields.
//!
//! Only fields of the operator are compared and written. Status and finalizers belong to the operators
//! that allocate addresses, and what a ledger has besides stays.

use std::time::Duration;

use api::{
    NetworkConfiguration, NetworkConfigurationInterface, NetworkConfigurationSpec, ObjectMeta,
    Time, labels,
};
use k8s_openapi::jiff::SignedDuration;
use serde_json::Value;

use super::{
    ownership::{annotation, is_of_predecessor, is_terminating, name, uid},
    tampering::{self, repaired},
    vm::ExistingVm,
};
use crate::{
    Event,
    machine::{
        Action, Attachment, ErrorType, KeptInterface, Kind, NetworkData, Object, Observed,
        Obstacle, Part, ResolvedMachine, Step, network_namespace, resolve::networks::generated_mac,
    },
    managed,
};

/// static-ip-operator may allocate an address to several ledgers at once; it corrects that within seconds.
const SETTLING: SignedDuration = SignedDuration::from_secs(10);
/// With a clock that is a little ahead.
const LONGEST_SETTLING: Duration = Duration::from_secs(20);

/// The Machine's own ledger, if it has one. It stays its own if someone removes the owner reference.
pub(in crate::machine) fn own<'a>(observed: &Observed<'a>) -> Option<&'a NetworkConfiguration> {
    let ledger = observed.ledger?;
    (!ledger.is_network() && is_made_for(&ledger.metadata, observed)).then_some(ledger)
}

fn is_made_for(metadata: &ObjectMeta, observed: &Observed<'_>) -> bool {
    managed::is_made_for(metadata, observed.machine.metadata.uid.as_deref())
}

/// The obstacle to writing the ledger or to attaching to its network.
pub(super) fn obstacle(observed: &Observed<'_>, machine: &ResolvedMachine) -> Option<Obstacle> {
    let namespace = machine.network_namespace.as_ref()?;
    if let Some(pending) = &namespace.pending {
        return Some(Obstacle::waiting(Part::Network, pending));
    }
    let ledger = observed.ledger?;
    if is_terminating(&ledger.metadata) {
        let name = name(&ledger.metadata);
        let message = format!(
            "NetworkConfiguration {name:?} is being deleted: the operator recreates it afterwards"
        );
        return Some(Obstacle::waiting(Part::Network, message));
    }
    if own(observed).is_some() {
        return None;
    }
    let kind = Kind::NetworkConfiguration.as_str();
    let name = name(&ledger.metadata);
    if is_made_for(&ledger.metadata, observed) {
        let message = format!(
            "NetworkConfiguration {name:?} records the addresses of this Machine, but another client added a bridge, which cannot be removed: delete it, and the operator recreates it"
        );
        return Some(Obstacle::error(
            Part::Network,
            ErrorType::ForeignObject,
            message,
        ));
    }
    Some(if is_of_predecessor(&ledger.metadata, observed.machine) {
        Obstacle::of_predecessor(Part::Network, kind, name)
    } else {
        Obstacle::foreign(Part::Network, kind, name)
    })
}

/// The write that the ledger needs, if any.
pub(super) fn step(observed: &Observed<'_>, mut desired: NetworkConfiguration) -> Option<Step> {
    let served = &observed.surroundings.served;
    let Some(found) = own(observed) else {
        desired.spec = served.network_spec(desired.spec);
        let message = format!("Created NetworkConfiguration {}", name(&desired.metadata));
        let object = Object::Ledger(Box::new(desired));
        return Some(Step {
            // A VirtualMachine without a ledger had one before.
            action: match observed.virtual_machine {
                Some(_) => Action::Recreate(object),
                None => Action::Create(object),
            },
            reason: "addresses are allocated to the interfaces in it".to_owned(),
            event: Some(Event::normal("Created", message)),
        });
    };
    keep(&mut desired.spec, &found.spec);
    desired.spec = served.network_spec(desired.spec);
    let metadata = &found.metadata;
    let machine = observed.machine.metadata.uid.as_deref();
    let changes = changes(found, &desired);
    let (uid, created_at) = (uid(metadata), managed::created_at(metadata));
    let object = Object::Ledger(Box::new(desired));
    if !managed::is_owned_by(metadata, machine) {
        let owners = "metadata.ownerReferences".to_owned();
        return Some(Step {
            action: Action::RestoreOwner {
                object,
                uid,
                created_at,
            },
            reason: "another client removed its owner reference".to_owned(),
            event: repaired(Kind::NetworkConfiguration, metadata, &[owners]),
        });
    }
    let fields: Vec<&str> = changes.iter().map(|change| change.field.as_str()).collect();
    (!fields.is_empty()).then(|| Step {
        reason: format!("{} changes", fields.join(", ")),
        event: repair_event(metadata, &changes),
        action: Action::Apply {
            object,
            uid,
            created_at,
        },
    })
}

/// Keeps the short name and the allocator of an existing ledger, and everything in its list of interfaces
/// that is not the operator's: an apply replaces the list.
fn keep(desired: &mut NetworkConfigurationSpec, found: &NetworkConfigurationSpec) {
    if found.name.is_some() {
        desired.name.clone_from(&found.name);
    }
    if found.provider.is_some() {
        desired.provider.clone_from(&found.provider);
    }
    let mut interfaces = found.network_interfaces.clone().unwrap_or_default();
    for wanted in desired.network_interfaces.iter().flatten() {
        match interfaces.iter_mut().find(|it| it.name == wanted.name) {
            Some(interface) => interface.mac_address.clone_from(&wanted.mac_address),
            None => interfaces.push(wanted.clone()),
        }
    }
    desired.network_interfaces = Some(interfaces);
}

/// A field of the ledger that differs from the desired one.
struct Change {
    field: String,
    is_absent: bool,
}

fn changes(found: &NetworkConfiguration, desired: &NetworkConfiguration) -> Vec<Change> {
    let (old, new) = (&found.spec, &desired.spec);
    let specs = [
        ("spec.name", old.name != new.name, old.name.is_none()),
        (
            "spec.provider",
            old.provider != new.provider,
            old.provider.is_none(),
        ),
        (
            "spec.networkNamespaceName",
            old.network_namespace_name != new.network_namespace_name,
            old.network_namespace_name.is_none(),
        ),
        (
            "spec.networkInterfaces",
            old.network_interfaces != new.network_interfaces,
            old.network_interfaces.iter().flatten().next().is_none(),
        ),
    ];
    let specs = specs.into_iter().filter(|(_, differs, _)| *differs);
    let specs = specs.map(|(field, _, is_absent)| Change {
        field: field.to_owned(),
        is_absent,
    });
    let (found, desired) = (&found.metadata, &desired.metadata);
    let entries = [
        ("labels", &found.labels, &desired.labels),
        ("annotations", &found.annotations, &desired.annotations),
    ];
    let entries = entries.into_iter().flat_map(|(of, found, desired)| {
        let has = |name: &str| found.as_ref().and_then(|all| all.get(name));
        let desired = desired.iter().flatten();
        let differing = desired.filter(move |(name, value)| has(name) != Some(*value));
        differing.map(move |(name, _)| Change {
            field: tampering::field(of, name),
            is_absent: has(name).is_none(),
        })
    });
    specs.chain(entries).collect()
}

/// The Event for fields that someone else changed. A field that is absent was removed, if the operator
/// wrote the ledger before.
fn repair_event(found: &ObjectMeta, changes: &[Change]) -> Option<Event> {
    let was_written = annotation(found, labels::MACHINE_UID).is_some();
    let changes = changes.iter().filter(|change| {
        let is_others = || !managed::managers_of(found, &[&change.field]).is_empty();
        change.is_absent && was_written || is_others()
    });
    let fields: Vec<String> = changes.map(|change| change.field.clone()).collect();
    repaired(Kind::NetworkConfiguration, found, &fields)
}

/// Deletes the ledger with its Machine. The operators that allocate addresses release them by their
/// finalizers; the Machine does not wait for that.
pub(super) fn delete(observed: &Observed<'_>) -> Option<Step> {
    delete_own(observed.ledger?, observed.machine.metadata.uid.as_deref())
}

/// Deletes a ledger that belongs to the Machine with this UID.
pub(in crate::machine) fn delete_own(
    ledger: &NetworkConfiguration,
    machine: Option<&str>,
) -> Option<Step> {
    let is_own = !ledger.is_network() && managed::is_made_for(&ledger.metadata, machine);
    (is_own && !is_terminating(&ledger.metadata)).then(|| Step {
        action: Action::Delete {
            kind: Kind::NetworkConfiguration,
            name: name(&ledger.metadata).to_owned(),
            uid: uid(&ledger.metadata),
            resource_version: None,
        },
        reason: "the Machine is deleted".to_owned(),
        event: None,
    })
}

/// Why a guest is not created before it has its address from the ledger.
pub(in crate::machine) struct AwaitedAddress {
    pub(in crate::machine) message: String,
    pub(super) retry_after: Option<Duration>,
}

/// The address that the VirtualMachine is not created without.
pub(in crate::machine) fn awaited_address(
    observed: &Observed<'_>,
    machine: &ResolvedMachine,
    now: &Time,
) -> Option<AwaitedAddress> {
    if observed.virtual_machine.is_some() {
        return None;
    }
    let retry_after = match machine.cloud_init.as_ref()?.network_data.as_ref()? {
        NetworkData::Content(_) | NetworkData::Generated(_) | NetworkData::Unread => return None,
        NetworkData::Awaited => None,
        NetworkData::Recorded(_) => Some(until_settled(own(observed)?, now)?),
    };
    // The same in both cases, so that the status is written once.
    let message = format!(
        "NetworkConfiguration {:?} has no settled address: the Machine continues {} s after one is allocated",
        machine.identity.name,
        SETTLING.as_secs()
    );
    Some(AwaitedAddress {
        message,
        retry_after,
    })
}

/// How long a newly allocated address may still change.
fn until_settled(ledger: &NetworkConfiguration, now: &Time) -> Option<Duration> {
    let conditions = ledger.status.as_ref()?.conditions.as_deref()?;
    let mut conditions = conditions.iter();
    let ready = conditions.find(|it| it.type_ == "Ready" && it.status == "True")?;
    let elapsed = now.0.duration_since(ready.last_transition_time.0);
    let left = SETTLING.saturating_sub(elapsed);
    // A clock that is far ahead delays nothing.
    let left = Duration::try_from(left).ok().filter(|it| !it.is_zero())?;
    (left <= LONGEST_SETTLING).then_some(left)
}

/// What the interface of a Machine on a NetworkNamespace keeps: the VirtualMachine's attachment and MAC
/// address, or the MAC address in the ledger. If one of the two is the generated address, someone else
/// changed the other.
pub(super) fn kept_interface(observed: &Observed<'_>) -> KeptInterface {
    let network = observed.machine.spec.network.as_ref();
    if network.and_then(network_namespace).is_none() {
        return KeptInterface::default();
    }
    let recorded = own(observed).and_then(|ledger| {
        let interfaces = ledger.spec.network_interfaces.as_deref();
        interfaces.unwrap_or_default().iter().find_map(mac_address)
    });
    let status = own(observed).and_then(|ledger| ledger.status.as_ref());
    let allocated = status.and_then(|status| status.network_interfaces.as_ref()?.first());
    let vm = observed.virtual_machine.map(ExistingVm::of);
    let first = |pointer: &str| {
        let list = vm.as_ref()?.spec.pointer(pointer)?;
        list.get(0).cloned()
    };
    let network = first("/template/spec/networks");
    let interface = first("/template/spec/domain/devices/interfaces");
    let address = interface.and_then(|it| Some(it["macAddress"].as_str()?.to_owned()));
    let mut kept = [address, recorded].into_iter().flatten();
    let generated = observed.machine.metadata.uid.as_deref().map(generated_mac);
    let is_generated = |kept: &String| Some(kept) == generated.as_ref();
    KeptInterface {
        attachment: network.as_ref().and_then(attachment),
        mac_address: kept.clone().find(is_generated).or_else(|| kept.next()),
        recorded: allocated.cloned(),
        lacks_network_data: vm.as_ref().is_some_and(|vm| !vm.has_network_data()),
    }
}

fn mac_address(interface: &NetworkConfigurationInterface) -> Option<String> {
    let address = interface.mac_address.clone();
    address.filter(|address| !address.is_empty())
}

fn attachment(network: &Value) -> Option<Attachment> {
    if !network["pod"].is_null() {
        return Some(Attachment::PodNetwork);
    }
    let name = network["multus"]["networkName"].as_str()?;
    Some(match name.strip_prefix("vlan").map(str::parse) {
        Some(Ok(id)) => Attachment::Vlan(id),
        _ => Attachment::Network(name.to_owned()),
    })
}
