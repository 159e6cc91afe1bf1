//! Disks of a Machine that is not being deleted.

use std::time::Duration;

use api::labels;
use plan::machine::{Action, Age, Object};
use serde_json::{Value, json};

use crate::world::{BEFORE, NOW, World, claim, has, owned};

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
    let is_marked = |world: &World| {
        has(&world.plan(), |action| {
            matches!(action, Action::ChangeMetadata { name, change, .. }
                if name == "web-data"
                    && change.annotations.contains_key(labels::DELETE_WHEN_DETACHED))
        })
    };
    let world = removed(2);
    assert!(is_marked(&world) && world.retained().is_empty());
    // The policy may have been another one at the time of the removal.
    let mut world = removed(3);
    assert!(!is_marked(&world));
    assert_eq!(world.retained(), ["web-data"]);
    // The operator did not act on the spec before.
    world = removed(2);
    world.machine["status"]["conditions"][0]["status"] = "False".into();
    assert!(!is_marked(&world));
    // It was retained before the policy was set.
    world = removed(2);
    world.claims[0]["metadata"]["labels"][labels::RETAINED] = "true".into();
    assert!(!is_marked(&world) && world.retained().is_empty());
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
    assert_eq!(world.deleted(), [""; 0], "another client has it");
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
fn waits_for_a_terminating_disk_of_a_predecessor() {
    let mut world = World::running();
    world.claims[1]["metadata"] = owned("web-root");
    let owner = &mut world.claims[1]["metadata"]["ownerReferences"][0];
    owner["uid"] = "uid-earlier".into();
    let obstacles = world.plan().obstacles;
    assert_eq!(obstacles.len(), 1, "{obstacles:?}");
    assert_eq!(obstacles[0].error_type, None, "{obstacles:?}");
}

#[test]
fn a_removed_disk_that_is_recorded_is_not_deleted_yet() {
    let mut world = detached();
    assert_eq!(world.deleted(), ["PersistentVolumeClaim web-data"]);
    let record = json!([{ "name": "data", "pvcName": "web-data", "uuid": "uid-web-data" }]);
    world.machine["status"]["disks"] = record;
    assert_eq!(world.deleted(), [""; 0]);
}

#[test]
fn a_removed_disk_is_deleted_only_on_a_fresh_read() {
    let mut world = detached();
    let reads = |world: &World| has(&world.plan(), |action| *action == Action::ObserveReferences);
    for retry_after in [Duration::ZERO, Duration::from_secs(10)] {
        world.age = Some(Age::Stale { retry_after });
        assert_eq!(world.deleted(), [""; 0]);
        assert!(reads(&world), "nobody is known to use it");
        world.users = vec!["web-data"];
        assert_eq!(reads(&world), retry_after.is_zero());
        world.users = Vec::new();
    }
    world.age = None;
    assert!(reads(&world));
}

#[test]
fn a_disk_that_is_listed_again_is_no_longer_marked() {
    let mut world = World::running();
    let metadata = &mut world.claims[0]["metadata"];
    metadata["annotations"][labels::DELETE_WHEN_DETACHED] = "true".into();
    metadata["labels"][labels::RETAINED] = "true".into();
    let steps = world.plan().steps;
    let Some(Action::ChangeMetadata { name, change, .. }) = steps.first().map(|step| &step.action)
    else {
        panic!("{steps:?}");
    };
    assert_eq!(name, "web-data");
    assert_eq!(change.labels.get(labels::RETAINED), Some(&None));
    let annotations: Vec<_> = change.annotations.iter().collect();
    let mark = labels::DELETE_WHEN_DETACHED.to_owned();
    assert_eq!(annotations, [(&mark, &None)], "it is still listed");
}

#[test]
fn a_removed_disk_that_is_kept_is_announced_once() {
    let mut world = World::running();
    world.machine["spec"]["disks"] = Value::Null;
    let events = |world: &World| {
        let steps = world.plan().steps.into_iter();
        let events = steps.filter_map(|step| step.event);
        let events = events.filter(|event| event.reason == "DiskReleased");
        events.map(|event| event.message).collect::<Vec<_>>()
    };
    let [message] = &events(&world)[..] else {
        panic!("one disk was removed");
    };
    assert!(
        message.contains("kubectl -n default delete persistentvolumeclaim web-data"),
        "{message}"
    );
    assert!(!message.contains("not known"), "{message}");
    world.claims[0]["metadata"]["labels"][labels::RETAINED] = "true".into();
    assert_eq!(events(&world), [""; 0]);
    // Removed under Delete, but not known to be the first change since.
    let messages = events(&removed(3));
    assert!(messages[0].contains("not known"), "{messages:?}");
    assert_eq!(events(&removed(2)), [""; 0], "it is deleted");
}

#[test]
fn reports_why_a_claim_cannot_grow() {
    let mut world = World::running();
    world.machine["spec"]["disks"][0]["size"] = "3Gi".into();
    let message = |world: &World| {
        let obstacles = world.plan().obstacles;
        obstacles.first().map(|it| it.message.clone())
    };
    assert_eq!(message(&world), None);
    world.claims[0]["status"]["phase"] = "Pending".into();
    assert!(message(&world).unwrap().contains("once its claim is bound"));
    for (class, why) in [("", "no StorageClass"), ("slow", "\"slow\" does not exist")] {
        world.claims[0]["spec"]["storageClassName"] = class.into();
        let message = message(&world).unwrap();
        assert!(message.contains(why), "{message}");
    }
}

/// The disk `data` was removed under the policy Delete, and nothing uses it any more.
fn detached() -> World {
    let mut world = removed(1);
    world.age = Some(Age::Fresh);
    world.claims[0]["metadata"]["annotations"][labels::DELETE_WHEN_DETACHED] = "true".into();
    let vm = world.plan().steps.into_iter().find_map(|step| {
        let Action::Apply { object, .. } = step.action else {
            return None;
        };
        Some(json!(object)).filter(|object| object["kind"] == "VirtualMachine")
    });
    let vm = vm.unwrap();
    for field in ["annotations", "labels"] {
        world.vm["metadata"][field] = vm["metadata"][field].clone();
    }
    world.vm["spec"] = vm["spec"].clone();
    world
}

#[test]
fn a_claim_that_is_as_recorded_is_not_lost() {
    let mut world = World::running();
    let record = json!([{ "name": "data", "pvcName": "web-data", "uuid": "uid-web-data" }]);
    world.machine["status"]["disks"] = record;
    assert_eq!(world.plan().obstacles, []);
}

#[test]
fn modes_that_a_claim_does_not_have_are_reported() {
    let mut world = World::running();
    let storage = |world: &World| {
        let conditions = world.plan().status.conditions.unwrap();
        let mut conditions = conditions.into_iter();
        let storage = conditions.find(|condition| condition.type_ == "StorageReady");
        storage.unwrap().message
    };
    assert_eq!(storage(&world), "all disks are bound");
    world.machine["spec"]["disks"] = json!([{
        "name": "data", "size": "1Gi", "accessMode": "ReadWriteMany", "volumeMode": "Block",
    }]);
    let message = storage(&world);
    for expected in [
        "spec.disks[0].accessMode: disk \"data\" stays ReadWriteOnce",
        "spec.disks[0].volumeMode: disk \"data\" stays Filesystem",
    ] {
        assert!(message.contains(expected), "{message}");
    }
    world.claims[0]["spec"]["accessModes"] = json!(["ReadWriteOnce", "ReadWriteMany"]);
    world.claims[0]["spec"]["volumeMode"] = "Block".into();
    assert_eq!(storage(&world), "all disks are bound");
}

#[test]
fn a_disk_keeps_the_owner_references_of_others() {
    let mut world = World::running();
    let other = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "other" });
    let mut metadata = owned("web-data");
    metadata["ownerReferences"]
        .as_array_mut()
        .unwrap()
        .push(other);
    world.claims[0]["metadata"] = metadata;
    let steps = world.plan().steps.into_iter();
    let mut kept = steps.filter_map(|step| match step.action {
        Action::ChangeMetadata { name, change, .. } if name == "web-data" => change.owners,
        _ => None,
    });
    let (owners, _) = kept.next().unwrap();
    let uids: Vec<_> = owners.iter().map(|owner| owner.uid.as_str()).collect();
    assert_eq!(uids, ["other"]);
}
