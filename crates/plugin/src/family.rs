//! A Machine's objects: its children, and what the children depend on.
//!
//! Everything is listed once, by namespace, and assigned to Machines afterwards: a fleet costs as many
//! requests as one Machine. Kinds that are not served count as empty; those that the user may not read are
//! named in `notes`.

use std::collections::BTreeSet;

use futures::try_join;
use serde_json::Value;

use crate::{
    failure::Failure,
    kinds::{
        ATTACHMENT, CLAIM, DATA_VOLUME, EVENT, Kind, MACHINE, MIGRATION, NETWORK, NODE, POD,
        RESTORE, SNAPSHOT, VM, VMI,
    },
    read::{self, Listed, Scope, name, namespace, text},
    session::Session,
};

const COMPONENTS: &str = "kubevirt.io in (virt-api,virt-controller,virt-handler)";
/// Label of the pods that fill disks.
const IMPORTER: (&str, &str) = ("app", "containerized-data-importer");

/// All objects of some namespaces that Machines depend on.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    pub(crate) machines: Vec<Value>,
    networks: Vec<Value>,
    attachments: Vec<Value>,
    vms: Vec<Value>,
    instances: Vec<Value>,
    migrations: Vec<Value>,
    snapshots: Vec<Value>,
    restores: Vec<Value>,
    volumes: Vec<Value>,
    claims: Vec<Value>,
    pods: Vec<Value>,
    events: Vec<Value>,
    pub(crate) nodes: Vec<Value>,
    /// Pods of KubeVirt's components, in all namespaces.
    pub(crate) components: Vec<Value>,
    pub(crate) is_kubevirt_installed: bool,
    /// What could not be read.
    pub(crate) notes: Vec<String>,
}

impl Fleet {
    /// Lists the objects of a namespace, or of all.
    pub(crate) async fn read(session: &Session, place: Option<&str>) -> Result<Self, Failure> {
        let client = &session.client;
        let scope = Scope {
            namespace: place,
            labels: None,
        };
        let components = Scope {
            namespace: None,
            labels: Some(COMPONENTS),
        };
        let list = |kind: Kind| read::list_if_allowed(client, kind, scope);
        let (machines, networks, attachments, vms, instances) = try_join!(
            read::list(client, MACHINE, scope),
            list(NETWORK),
            list(ATTACHMENT),
            list(VM),
            list(VMI),
        )?;
        let (migrations, snapshots, restores, volumes, claims) = try_join!(
            list(MIGRATION),
            list(SNAPSHOT),
            list(RESTORE),
            list(DATA_VOLUME),
            list(CLAIM)
        )?;
        let (pods, events, nodes, components) = try_join!(
            list(POD),
            list(EVENT),
            list(NODE),
            read::list_if_allowed(client, POD, components),
        )?;
        let mut unread = Vec::new();
        let is_kubevirt_installed = !matches!(vms, Listed::NotServed);
        Ok(Self {
            machines,
            networks: networks.or_note(&mut unread),
            attachments: attachments.or_note(&mut unread),
            vms: vms.or_note(&mut unread),
            instances: instances.or_note(&mut unread),
            migrations: migrations.or_note(&mut unread),
            snapshots: snapshots.or_note(&mut unread),
            restores: restores.or_note(&mut unread),
            volumes: volumes.or_note(&mut unread),
            claims: claims.or_note(&mut unread),
            pods: pods.or_note(&mut unread),
            events: events.or_note(&mut unread),
            nodes: nodes.or_note(&mut unread),
            // Few users may read them, and most verdicts do not need them.
            components: match components {
                Listed::All(pods) => pods,
                Listed::NotServed | Listed::Forbidden(_) => Vec::new(),
            },
            is_kubevirt_installed,
            notes: unread,
        })
    }

    pub(crate) fn machine(&self, place: &str, wanted: &str) -> Result<&Value, Failure> {
        let mut machines = self.machines.iter();
        let found = machines.find(|it| namespace(it) == place && name(it) == wanted);
        found.ok_or_else(|| {
            Failure::Other(format!(
                "there is no Machine {wanted:?} in namespace {place}: list all with `kubectl machine list -A`"
            ))
        })
    }

    pub(crate) fn members<'a>(&'a self, machine: &'a Value) -> Members<'a> {
        let place = namespace(machine);
        let vm = vm_name(machine);
        let claims: BTreeSet<&str> = disks(machine).collect();
        let is_owned = |object: &&Value| {
            namespace(object) == place
                && (text(object, "/metadata/labels/vitistack.io~1machine") == name(machine)
                    || claims.contains(name(object)))
        };
        let named = |objects: &'a [Value], wanted: &str| {
            let mut objects = objects.iter();
            objects.find(|it| namespace(it) == place && name(it) == wanted)
        };
        let of_vm = |objects: &'a [Value], pointer: &str| -> Vec<&'a Value> {
            let objects = objects.iter();
            let own = objects.filter(|it| namespace(it) == place && text(it, pointer) == vm);
            own.collect()
        };
        let own_claims: Vec<&Value> = self.claims.iter().filter(is_owned).collect();
        let volumes: Vec<&Value> = self.volumes.iter().filter(is_owned).collect();
        let disk_names: BTreeSet<&str> = own_claims
            .iter()
            .chain(&volumes)
            .map(|object| name(object))
            .collect();
        let pods = || self.pods.iter().filter(|pod| namespace(pod) == place);
        let launchers = pods().filter(|pod| {
            text(pod, "/metadata/annotations/kubevirt.io~1domain") == vm
                && text(pod, "/metadata/labels/kubevirt.io") == "virt-launcher"
        });
        let importers = pods().filter(|pod| {
            let labels = &pod["metadata"]["labels"];
            let owners = pod["metadata"]["ownerReferences"].as_array();
            let claim = text(
                pod,
                "/metadata/annotations/cdi.kubevirt.io~1storage.import.importPvcName",
            );
            labels[IMPORTER.0] == IMPORTER.1
                && (disk_names.contains(claim)
                    || owners.into_iter().flatten().any(|owner| {
                        owner["name"]
                            .as_str()
                            .is_some_and(|owner| disk_names.contains(owner))
                    }))
        });
        let networks = machine.pointer("/spec/networks").and_then(Value::as_array);
        let networks = networks.into_iter().flatten();
        let networks: BTreeSet<&str> = networks
            .filter_map(|network| network["networkName"].as_str())
            .collect();
        let attached = |objects: &'a [Value]| -> Vec<&'a Value> {
            let objects = objects.iter();
            let used = objects.filter(|it| namespace(it) == place && networks.contains(name(it)));
            used.collect()
        };
        Members {
            vm: named(&self.vms, vm),
            instance: named(&self.instances, vm),
            launchers: launchers.collect(),
            importers: importers.collect(),
            claims: own_claims,
            volumes,
            networks: attached(&self.networks),
            attachments: attached(&self.attachments),
            migrations: of_vm(&self.migrations, "/spec/vmiName"),
            snapshots: of_vm(&self.snapshots, "/spec/source/name"),
            restores: of_vm(&self.restores, "/spec/target/name"),
            events: &self.events,
            machine,
        }
    }
}

/// Name of a Machine's VirtualMachine.
pub(crate) fn vm_name(machine: &Value) -> &str {
    let names = [
        text(machine, "/status/vmName"),
        text(machine, "/spec/name"),
        name(machine),
    ];
    names
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or_default()
}

/// Claims that the status names, also of adopted disks, which may have no label.
fn disks(machine: &Value) -> impl Iterator<Item = &str> {
    let disks = machine.pointer("/status/disks").and_then(Value::as_array);
    let disks = disks.into_iter().flatten();
    disks.filter_map(|disk| disk["pvcName"].as_str())
}

/// The objects of one Machine.
#[derive(Debug)]
pub(crate) struct Members<'a> {
    pub(crate) machine: &'a Value,
    pub(crate) vm: Option<&'a Value>,
    pub(crate) instance: Option<&'a Value>,
    pub(crate) launchers: Vec<&'a Value>,
    pub(crate) importers: Vec<&'a Value>,
    pub(crate) claims: Vec<&'a Value>,
    pub(crate) volumes: Vec<&'a Value>,
    pub(crate) networks: Vec<&'a Value>,
    pub(crate) attachments: Vec<&'a Value>,
    pub(crate) migrations: Vec<&'a Value>,
    pub(crate) snapshots: Vec<&'a Value>,
    pub(crate) restores: Vec<&'a Value>,
    events: &'a [Value],
}

impl<'a> Members<'a> {
    /// All objects except the Machine.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a Value> {
        let single = [self.vm, self.instance].into_iter().flatten();
        let lists = [
            &self.launchers,
            &self.importers,
            &self.claims,
            &self.volumes,
            &self.networks,
            &self.attachments,
            &self.migrations,
            &self.snapshots,
            &self.restores,
        ];
        single.chain(lists.into_iter().flatten().copied())
    }

    /// Events of the Machine and all its objects, also of those that are gone.
    pub(crate) fn events(&self) -> Vec<&'a Value> {
        let place = namespace(self.machine);
        let vm = vm_name(self.machine);
        let known: BTreeSet<(&str, &str)> = self
            .all()
            .map(|object| (text(object, "/kind"), name(object)))
            .collect();
        let is_own = |event: &&Value| {
            let kind = text(event, "/involvedObject/kind");
            let of = text(event, "/involvedObject/name");
            namespace(event) == place
                && match kind {
                    "Machine" => of == name(self.machine),
                    "VirtualMachine" | "VirtualMachineInstance" => of == vm,
                    "Pod" => known.contains(&(kind, of)) || is_launcher(of, vm),
                    kind => known.contains(&(kind, of)),
                }
        };
        self.events.iter().filter(is_own).collect()
    }
}

/// Whether a pod, perhaps one that is gone, has the name of a launcher of this VirtualMachine.
fn is_launcher(pod: &str, vm: &str) -> bool {
    let rest = pod
        .strip_prefix("virt-launcher-")
        .and_then(|rest| rest.strip_prefix(vm));
    let suffix = rest.and_then(|rest| rest.strip_prefix('-'));
    suffix.is_some_and(|suffix| suffix.len() == 5 && !suffix.contains('-'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn launchers_of_similar_names_are_distinguished() {
        assert!(is_launcher("virt-launcher-web-x7k2p", "web"));
        assert!(!is_launcher("virt-launcher-web-2-x7k2p", "web"));
        assert!(is_launcher("virt-launcher-web-2-x7k2p", "web-2"));
        assert!(!is_launcher("importer-web-root", "web"));
    }

    #[test]
    fn objects_belong_to_the_machine_of_their_namespace() {
        let claim = |place: &str, machine: &str| {
            json!({ "kind": "PersistentVolumeClaim", "metadata": {
                "name": format!("{machine}-root"), "namespace": place,
                "labels": { "vitistack.io/machine": machine },
            } })
        };
        let machine = json!({ "metadata": { "name": "web", "namespace": "a" } });
        let fleet = Fleet {
            claims: vec![claim("a", "web"), claim("b", "web"), claim("a", "db")],
            vms: vec![json!({ "metadata": { "name": "web", "namespace": "b" } })],
            ..Fleet::default()
        };
        let members = fleet.members(&machine);
        assert_eq!(members.claims, [&claim("a", "web")]);
        assert_eq!(members.vm, None);
    }

    #[test]
    fn events_of_pods_that_are_gone_are_found() {
        let event = |kind: &str, name: &str| json!({ "metadata": { "namespace": "a" }, "involvedObject": { "kind": kind, "name": name } });
        let machine = json!({
            "metadata": { "name": "web", "namespace": "a" }, "status": { "vmName": "vm" },
        });
        let fleet = Fleet {
            events: vec![
                event("Machine", "web"),
                event("VirtualMachine", "vm"),
                event("VirtualMachine", "web"),
                event("Pod", "virt-launcher-vm-abcde"),
                event("PersistentVolumeClaim", "web-root"),
            ],
            ..Fleet::default()
        };
        let events = fleet.members(&machine).events();
        let kinds: Vec<&str> = events
            .iter()
            .map(|it| text(it, "/involvedObject/name"))
            .collect();
        assert_eq!(kinds, ["web", "vm", "virt-launcher-vm-abcde"]);
    }
}
