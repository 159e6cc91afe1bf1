//! Decisions of the plan about disks, instances and deletion, one situation each.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{sync::Arc, time::Duration};

use api::{Machine, ObjectMeta, Time, core::StorageClass, labels};
use plan::machine::{
    self, Action, Age, CloudInitSecret, Installed, Kind, Known, LiveReferences, Object, Observed,
    Plan, References, SecretMetadata, Surroundings,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NOW: &str = "2026-01-02T03:04:05Z";
const BEFORE: &str = "2026-01-01T00:00:00Z";

fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

/// A Machine `web` with a disk `data`, as it runs.
struct World {
    machine: Value,
    vm: Value,
    instance: Value,
    claims: Vec<Value>,
    installed: Installed,
    age: Option<Age>,
    /// VirtualMachines of others, by the claim that they mount.
    users: Vec<&'static str>,
    /// Its VirtualMachine without labels, which a cache does not show and a live read does.
    hidden_vm: Value,
    /// Metadata of its cloud-init Secret, where Secrets are watched; null if there is none.
    secret: Option<Value>,
    unconfirmed: Vec<(Kind, &'static str)>,
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "7",
        "creationTimestamp": BEFORE,
        "labels": { labels::MANAGED_BY: labels::MANAGER, labels::MACHINE: "web" },
        "annotations": { labels::MACHINE_UID: "uid-machine" },
    })
}

fn owned(name: &str) -> Value {
    let mut metadata = metadata(name);
    metadata["ownerReferences"] = json!([{
        "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine", "name": "web",
        "uid": "uid-machine", "controller": true, "blockOwnerDeletion": true,
    }]);
    metadata
}

fn claim(disk: &str, size: &str) -> Value {
    let mut metadata = metadata(&format!("web-{disk}"));
    if disk == "data" {
        metadata["annotations"][labels::LISTED_DISK] = "true".into();
    }
    json!({
        "metadata": metadata,
        "spec": { "storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem", "resources": { "requests": { "storage": size } } },
        "status": { "phase": "Bound" },
    })
}

impl World {
    fn running() -> Self {
        let volume = |disk: &str| {
            json!({ "name": disk,
                "persistentVolumeClaim": { "claimName": format!("web-{disk}") } })
        };
        Self {
            machine: json!({
                "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
                "metadata": { "name": "web", "namespace": "default", "uid": "uid-machine",
                    "generation": 1, "finalizers": [labels::FINALIZER] },
                "spec": { "template": "small", "disks": [{ "name": "data", "size": "1Gi" }] },
            }),
            vm: json!({
                "metadata": owned("web"),
                "spec": { "runStrategy": "Always", "template": { "spec": {
                    "domain": {}, "volumes": [volume("root"), volume("data")] } } },
                "status": { "printableStatus": "Running" },
            }),
            instance: json!({
                "metadata": { "name": "web", "namespace": "default", "uid": "uid-instance",
                    "creationTimestamp": BEFORE,
                    "labels": { labels::MANAGED_BY: labels::MANAGER, labels::MACHINE: "web" },
                    "ownerReferences": [{ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
                        "name": "web", "uid": "uid-web", "controller": true }] },
                "status": { "phase": "Running", "nodeName": "node-1" },
            }),
            claims: vec![claim("data", "1Gi"), claim("root", "20Gi")],
            installed: Installed {
                kubevirt: true,
                kubevirt_is_removed: false,
                cdi: true,
                multus: true,
            },
            age: None,
            users: Vec::new(),
            hidden_vm: Value::Null,
            secret: None,
            unconfirmed: Vec::new(),
        }
    }

    /// The Machine is deleted, its guest is gone, and it was read who refers to claims.
    fn ending() -> Self {
        let mut world = Self::running();
        world.machine["metadata"]["deletionTimestamp"] = NOW.into();
        (world.vm, world.instance) = (Value::Null, Value::Null);
        world.age = Some(Age::Fresh);
        world
    }

    fn plan(&self) -> Plan {
        let machine: Machine = read(&self.machine);
        let (vm, instance) = (read(&self.vm), read(&self.instance));
        let claims: Vec<_> = self.claims.iter().map(read).collect();
        let class: StorageClass = read(&json!({
            "metadata": { "name": "fast",
                "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } },
            "allowVolumeExpansion": true,
        }));
        let mut references = References::default();
        for object in [&self.vm, &self.hidden_vm] {
            if object.is_null() {
                continue;
            }
            references.add(Kind::VirtualMachine, read(object));
        }
        for object in [&self.instance].into_iter().filter(|it| !it.is_null()) {
            references.add(Kind::VirtualMachineInstance, read(object));
        }
        for claim in &self.users {
            let volume = json!({ "persistentVolumeClaim": { "claimName": claim } });
            let vm = json!({ "metadata": { "name": "rescue", "uid": "uid-rescue" },
                "spec": { "template": { "spec": { "volumes": [volume] } } } });
            references.add(Kind::VirtualMachine, read(&vm));
        }
        let secret = self.secret.as_ref().map(|metadata| {
            let metadata: Option<ObjectMeta> = read(metadata);
            metadata.as_ref().map(SecretMetadata::of)
        });
        let observed = Observed {
            machine: &machine,
            surroundings: Surroundings {
                storage_classes: Known::all([("fast".to_owned(), Arc::new(class))]),
                ..Surroundings::default()
            },
            installed: self.installed,
            virtual_machine: Option::as_ref(&vm),
            instance: Option::as_ref(&instance),
            claims: claims.iter().collect(),
            data_volumes: Vec::new(),
            cloud_init_secret: match &secret {
                None => CloudInitSecret::Unobserved { is_verified: true },
                Some(None) => CloudInitSecret::Missing,
                Some(Some(metadata)) => CloudInitSecret::Present(metadata),
            },
            digest_key: None,
            mac_address_rivals: Vec::new(),
            attachments: Vec::new(),
            references: self.age.map(|age| LiveReferences {
                found: &references,
                age,
            }),
            lost_claims: Vec::new(),
            unconfirmed_disks: self.unconfirmed.clone(),
            orphaned: false,
            refusal: None,
        };
        machine::plan(&observed, &read::<Time>(&NOW.into()))
    }

    fn deleted(&self) -> Vec<String> {
        let steps = self.plan().steps.into_iter();
        steps
            .filter_map(|step| match step.action {
                Action::Delete { kind, name, .. } => Some(format!("{} {name}", kind.as_str())),
                _ => None,
            })
            .collect()
    }

    /// The disks that are marked as kept.
    fn retained(&self) -> Vec<String> {
        let steps = self.plan().steps.into_iter();
        steps
            .filter_map(|step| match step.action {
                Action::ChangeMetadata { name, change, .. } => {
                    let value = change.labels.get(labels::RETAINED)?.as_deref();
                    (value == Some("true")).then_some(name)
                }
                _ => None,
            })
            .collect()
    }
}

fn has(plan: &Plan, is: impl Fn(&Action) -> bool) -> bool {
    plan.steps.iter().any(|step| is(&step.action))
}

#[test]
fn the_disks_of_a_deleted_machine_go_before_its_finalizer() {
    let world = World::ending();
    let claims = [
        "PersistentVolumeClaim web-data",
        "PersistentVolumeClaim web-root",
    ];
    assert_eq!(world.deleted(), claims);
    let plan = world.plan();
    let last = plan.steps.last().map(|step| &step.action);
    assert_eq!(last, Some(&Action::RemoveFinalizer));
}

#[test]
fn a_disk_is_deleted_as_it_was_observed() {
    for step in World::ending().plan().steps {
        if let Action::Delete {
            uid,
            name,
            resource_version,
            ..
        } = step.action
        {
            assert_eq!(uid, format!("uid-{name}"));
            assert_eq!(resource_version.as_deref(), Some("7"));
        }
    }
}

#[test]
fn a_disk_in_use_keeps_the_finalizer() {
    let mut world = World::ending();
    world.users = vec!["web-root"];
    let plan = world.plan();
    assert_eq!(world.deleted(), ["PersistentVolumeClaim web-data"]);
    assert!(!has(&plan, |action| *action == Action::RemoveFinalizer));
    let message = &plan.obstacles[0].message;
    assert!(message.contains("VirtualMachine rescue"), "{message}");
}

#[test]
fn without_a_fresh_read_no_disk_is_deleted() {
    let retry_in = Duration::from_secs(10);
    for age in [None, Some(Age::Stale { retry_in })] {
        let mut world = World::ending();
        world.age = age;
        let plan = world.plan();
        let actions: Vec<_> = plan.steps.iter().map(|step| &step.action).collect();
        assert_eq!(actions, [&Action::ObserveReferences], "{age:?}");
        world.users = vec!["web-root"];
        if age.is_some() {
            assert_eq!(world.plan().steps, [], "it is not time to read again");
            assert_eq!(world.plan().look_again, Some(retry_in));
        }
    }
}

#[test]
fn the_policy_retain_keeps_all_disks() {
    let mut world = World::ending();
    world.machine["spec"]["deletionPolicy"] = "Retain".into();
    assert_eq!(world.deleted(), [""; 0]);
    assert_eq!(world.retained(), ["web-data", "web-root"]);
    let removed = &mut world.claims[0]["metadata"]["annotations"];
    removed[labels::DELETE_WHEN_DETACHED] = "true".into();
    assert_eq!(world.deleted(), ["PersistentVolumeClaim web-data"]);
    assert_eq!(world.retained(), ["web-root"]);
}

#[test]
fn a_disk_that_was_removed_before_the_machine_was_deleted_is_kept() {
    let mut world = World::ending();
    world.machine["spec"]["disks"] = Value::Null;
    assert_eq!(world.deleted(), ["PersistentVolumeClaim web-root"]);
    assert_eq!(world.retained(), ["web-data"]);
    let recorded = &mut world.claims[0]["metadata"]["annotations"];
    recorded[labels::DELETE_WHEN_DETACHED] = "true".into();
    assert_eq!(world.retained(), [""; 0]);
    assert_eq!(world.deleted().len(), 2);
}

#[test]
fn a_disk_that_is_kept_on_purpose_outlives_its_machine() {
    let mut world = World::ending();
    world.claims[0]["metadata"]["labels"][labels::RETAINED] = "true".into();
    assert_eq!(world.deleted(), ["PersistentVolumeClaim web-root"]);
    assert_eq!(world.retained(), [""; 0], "it is labelled already");
}

#[test]
fn a_virtual_machine_without_its_labels_is_labelled_before_disks_are_deleted() {
    let mut world = World::ending();
    world.hidden_vm = json!({ "metadata": owned("web"), "spec": {} });
    world.hidden_vm["metadata"]["labels"] = Value::Null;
    let plan = world.plan();
    let actions: Vec<_> = plan.steps.iter().map(|step| &step.action).collect();
    let [Action::ChangeMetadata { kind, change, .. }] = actions.as_slice() else {
        panic!("{actions:?}");
    };
    assert_eq!(*kind, Kind::VirtualMachine);
    let managed_by = change.labels.get(labels::MANAGED_BY);
    assert_eq!(managed_by, Some(&Some(labels::MANAGER.to_owned())));
    // One of another Machine does not concern this one.
    world.hidden_vm["metadata"] = json!({ "name": "web", "uid": "uid-other" });
    assert_eq!(world.deleted().len(), 2);
}

#[test]
fn a_disk_whose_create_got_no_answer_is_read_before_the_machine_goes() {
    let claim = Kind::PersistentVolumeClaim;
    let mut world = World::ending();
    world.unconfirmed = vec![(claim, "web-data"), (claim, "web-root")];
    assert_eq!(world.deleted().len(), 2, "the cache has them by now");
    world.claims.remove(0);
    world.age = None;
    let steps = world.plan().steps;
    let actions: Vec<_> = steps.into_iter().map(|step| step.action).collect();
    let name = "web-data".to_owned();
    assert_eq!(actions, [Action::ObserveDisk { kind: claim, name }]);
}

#[test]
fn the_finalizer_comes_before_everything_else() {
    let mut world = World::running();
    world.machine["metadata"]["finalizers"] = json!(["somebody.example/else"]);
    let first = |world: &World| world.plan().steps.first().map(|step| step.action.clone());
    assert_eq!(first(&world), Some(Action::AddFinalizer));
    world.vm = Value::Null;
    world.claims.clear();
    assert_eq!(first(&world), Some(Action::AddFinalizer));
}

#[test]
fn a_cloud_init_secret_that_is_deleted_or_edited_is_written_again() {
    let mut world = World::running();
    world.machine["spec"]["cloudInit"] = json!({ "userData": "#cloud-config\n" });
    let written = |world: &World| {
        let steps = world.plan().steps.into_iter();
        let mut events = steps.filter_map(|step| match step.action {
            Action::WriteSecret(_) => Some(step.event.map(|event| event.reason)),
            _ => None,
        });
        events.next()
    };
    // The VirtualMachine notes the digest of the data that was written.
    world.secret = Some(Value::Null);
    let digest = world.plan().steps.into_iter().find_map(|step| {
        let Action::WriteSecret(secret) = step.action else {
            return None;
        };
        secret
            .metadata
            .annotations?
            .get(labels::CLOUD_INIT)
            .cloned()
    });
    let digest = digest.unwrap();
    assert_eq!(written(&world), Some(None), "it is new");
    world.vm["spec"]["template"]["metadata"]["annotations"][labels::CLOUD_INIT] =
        digest.clone().into();
    assert_eq!(written(&world), Some(Some("PutBack")));
    let mut metadata = json!({
        "annotations": { labels::CLOUD_INIT: digest },
        "managedFields": [{ "manager": labels::MANAGER, "operation": "Update",
            "fieldsType": "FieldsV1", "fieldsV1": { "f:data": { "f:userdata": {} } } }],
    });
    world.secret = Some(metadata.clone());
    assert_eq!(written(&world), None, "it is as it was written");
    metadata["managedFields"][0]["manager"] = "kubectl-edit".into();
    world.secret = Some(metadata);
    assert_eq!(written(&world), Some(Some("PutBack")));
}

#[test]
fn a_disk_of_an_earlier_machine_is_neither_deleted_nor_marked() {
    let mut world = World::ending();
    world.claims[1]["metadata"]["annotations"][labels::MACHINE_UID] = "uid-earlier".into();
    assert_eq!(world.deleted(), ["PersistentVolumeClaim web-data"]);
    world.machine["spec"]["deletionPolicy"] = "Retain".into();
    assert_eq!(world.retained(), ["web-data"]);
}

#[test]
fn a_deletion_that_orphans_deletes_nothing() {
    let mut world = World::running();
    world.machine["metadata"]["deletionTimestamp"] = NOW.into();
    let finalizers = json!(["orphan", labels::FINALIZER]);
    world.machine["metadata"]["finalizers"] = finalizers;
    assert_eq!(world.deleted(), [""; 0]);
    assert_eq!(world.retained(), ["web-data", "web-root"]);
    // The garbage collector was faster.
    world.machine["metadata"]["finalizers"] = json!([labels::FINALIZER]);
    world.vm["metadata"]["ownerReferences"] = Value::Null;
    assert_eq!(world.deleted(), [""; 0]);
    world.vm["metadata"] = owned("web");
    assert_eq!(world.deleted(), ["VirtualMachine web"]);
}

#[test]
fn owner_references_of_earlier_versions_are_removed_first() {
    let mut world = World::running();
    let annotations = world.claims[1]["metadata"]["annotations"].clone();
    world.claims[1]["metadata"] = owned("web-root");
    world.claims[1]["metadata"]["annotations"] = annotations;
    let disowns = |action: &Action| {
        matches!(action, Action::ChangeMetadata { name, change, .. }
            if name == "web-root" && change.owners == Some((Vec::new(), Some("7".to_owned()))))
    };
    assert!(has(&world.plan(), disowns));
    world.machine["metadata"]["deletionTimestamp"] = NOW.into();
    let plan = world.plan();
    assert!(
        plan.steps.len() == 1 && has(&plan, disowns),
        "{:?}",
        plan.steps
    );
}

#[test]
fn the_access_mode_of_a_claim_counts_for_the_virtual_machine() {
    let mut world = World::running();
    let disks = json!([
        { "name": "data", "size": "1Gi", "accessMode": "ReadWriteMany" },
        { "name": "root", "size": "20Gi", "accessMode": "ReadWriteMany" },
    ]);
    world.machine["spec"]["disks"] = disks;
    let strategy = |world: &World| {
        let steps = world.plan().steps.into_iter();
        let mut applied = steps.filter_map(|step| match step.action {
            Action::Apply { object, .. } | Action::Create(object) => Some(object),
            _ => None,
        });
        let vm = applied.find(|object| matches!(object, Object::VirtualMachine(_)));
        json!(vm)["spec"]["template"]["spec"]["evictionStrategy"].clone()
    };
    let restricted = strategy(&world);
    for claim in &mut world.claims {
        claim["spec"]["accessModes"] = json!(["ReadWriteMany"]);
    }
    let migratable = strategy(&world);
    assert_ne!(restricted, migratable, "{migratable}");
}

#[test]
fn nothing_is_created_or_changed_while_kubevirt_is_being_removed() {
    let mut world = World::running();
    (world.vm, world.instance) = (Value::Null, Value::Null);
    assert!(has(&world.plan(), |action| matches!(
        action,
        Action::Create(_)
    )));
    world.installed.kubevirt_is_removed = true;
    assert_eq!(world.plan().steps, []);
    world.claims.clear();
    assert_eq!(world.plan().steps, []);
}

#[test]
fn an_instance_that_never_started_is_replaced_when_its_size_changes() {
    let mut world = World::running();
    world.instance["metadata"]["resourceVersion"] = "9".into();
    world.instance["spec"] = json!({ "domain": { "cpu": { "cores": 64 } } });
    world.instance["status"] = json!({ "phase": "Scheduling" });
    assert_eq!(world.deleted(), ["VirtualMachineInstance web"]);
    // It may have started since.
    let version = Some("9".to_owned());
    assert!(has(&world.plan(), |action| matches!(
        action,
        Action::Delete { resource_version, .. } if *resource_version == version
    )));
    // One that is a moment old is given time.
    world.instance["metadata"]["creationTimestamp"] = NOW.into();
    assert_eq!(world.deleted(), [""; 0]);
    assert_eq!(world.plan().look_again, Some(Duration::from_secs(5)));
    world.instance["metadata"]["creationTimestamp"] = BEFORE.into();
    world.instance["status"] = json!({ "phase": "Running", "nodeName": "node-1" });
    assert_eq!(world.deleted(), [""; 0], "its guest runs");
}

/// The disk `data` is no longer listed, under the policy Delete.
fn removed(generation: i64) -> World {
    let mut world = World::running();
    world.machine["spec"] = json!({ "template": "small", "deletionPolicy": "Delete" });
    world.machine["metadata"]["generation"] = generation.into();
    let valid = json!([{ "type": "SpecValid", "status": "True", "reason": "Valid", "message": "",
        "lastTransitionTime": BEFORE }]);
    world.machine["status"] = json!({ "observedGeneration": 1, "conditions": valid });
    world
}

#[test]
fn the_policy_at_the_removal_of_a_disk_decides_once() {
    let marks = |world: &World| {
        has(&world.plan(), |action| {
            matches!(action, Action::ChangeMetadata { name, change, .. }
                if name == "web-data"
                    && change.annotations.contains_key(labels::DELETE_WHEN_DETACHED))
        })
    };
    let world = removed(2);
    assert!(marks(&world) && world.retained().is_empty());
    // The policy may have been another one when the disk was removed.
    let mut world = removed(3);
    assert!(!marks(&world));
    assert_eq!(world.retained(), ["web-data"]);
    // It was kept before the policy was set.
    world = removed(2);
    world.claims[0]["metadata"]["labels"][labels::RETAINED] = "true".into();
    assert!(!marks(&world) && world.retained().is_empty());
}

#[test]
fn a_removed_disk_is_deleted_once_it_is_detached() {
    let mut world = removed(1);
    world.age = Some(Age::Fresh);
    world.claims[0]["metadata"]["annotations"][labels::DELETE_WHEN_DETACHED] = "true".into();
    assert_eq!(world.deleted(), [""; 0], "the VirtualMachine has it");
    let volumes = &mut world.vm["spec"]["template"]["spec"]["volumes"];
    volumes.as_array_mut().unwrap().pop();
    world.instance["status"]["volumeStatus"] = json!([{ "name": "data" }]);
    assert_eq!(world.deleted(), [""; 0], "the guest has it");
    world.instance["status"]["volumeStatus"] = json!([{ "name": "root" }]);
    assert_eq!(world.deleted(), ["PersistentVolumeClaim web-data"]);
    world.users = vec!["web-data"];
    assert_eq!(world.deleted(), [""; 0], "somebody else has it");
}

#[test]
fn a_claim_whose_record_was_erased_is_still_the_machines() {
    let mut world = World::running();
    world.claims[1]["metadata"]["annotations"] = json!({});
    assert_eq!(world.plan().obstacles, []);
    let volumes = &mut world.vm["spec"]["template"]["spec"]["volumes"];
    *volumes = json!([]);
    let message = world.plan().obstacles[0].message.clone();
    assert!(message.contains(labels::ADOPT_DISKS), "{message}");
}

#[test]
fn a_disk_grows_and_never_shrinks() {
    let sizes = |world: &World| {
        let steps = world.plan().steps.into_iter();
        let sizes = steps.filter_map(|step| match step.action {
            Action::Apply { object, .. } => {
                let object = json!(object);
                let size = &object["spec"]["resources"]["requests"]["storage"];
                size.as_str().map(str::to_owned)
            }
            _ => None,
        });
        sizes.collect::<Vec<_>>()
    };
    let mut world = World::running();
    assert_eq!(sizes(&world), [""; 0]);
    world.claims[0] = claim("data", "2Gi");
    assert_eq!(sizes(&world), [""; 0]);
    world.machine["spec"]["disks"][0]["size"] = "3Gi".into();
    assert_eq!(sizes(&world), ["3Gi"]);
}

#[test]
fn a_claim_on_its_way_out_is_not_used() {
    let mut world = World::running();
    (world.vm, world.instance) = (Value::Null, Value::Null);
    world.claims[1]["metadata"]["deletionTimestamp"] = NOW.into();
    let plan = world.plan();
    assert!(!has(&plan, |action| matches!(
        action,
        Action::Create(Object::VirtualMachine(_))
    )));
    let message = &plan.obstacles[0].message;
    assert!(message.contains("is being deleted"), "{message}");
}

#[test]
fn a_disk_of_a_predecessor_that_is_still_going_is_waited_for() {
    let mut world = World::running();
    world.claims[1]["metadata"] = owned("web-root");
    let owner = &mut world.claims[1]["metadata"]["ownerReferences"][0];
    owner["uid"] = "uid-earlier".into();
    let obstacles = world.plan().obstacles;
    assert_eq!(obstacles.len(), 1, "{obstacles:?}");
    assert_eq!(obstacles[0].error_type, None, "{obstacles:?}");
}
