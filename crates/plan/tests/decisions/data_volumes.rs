//! Disks that CDI fills: DataVolumes and the claims that CDI creates for them.

use api::labels;
use plan::machine::{Action, ErrorType, Kind, MetadataChange, Object, Step};
use serde_json::{Value, json};

use crate::world::{BEFORE, NOW, World, claim, has, metadata};

/// A running Machine whose disk `data` was filled from an image.
fn imported() -> World {
    let mut world = World::running();
    let source = json!({ "http": { "url": "https://example.com/data.qcow2" } });
    world.machine["spec"]["disks"][0]["source"] = source.clone();
    let mut recorded = metadata("web-data");
    recorded["uid"] = "uid-volume".into();
    recorded["annotations"][labels::LISTED_DISK] = "true".into();
    world.data_volumes = vec![json!({
        "metadata": recorded,
        "spec": { "source": source, "storage": {
            "storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem", "resources": { "requests": { "storage": "1Gi" } } } },
        "status": { "phase": "Succeeded" },
    })];
    world.claims[0]["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "web-data",
        "uid": "uid-volume", "controller": true, "blockOwnerDeletion": true,
    }]);
    for volume in world.vm["spec"]["template"]["spec"]["volumes"]
        .as_array_mut()
        .unwrap()
    {
        if volume["name"] == "data" {
            *volume = json!({ "name": "data", "dataVolume": { "name": "web-data" } });
        }
    }
    world
}

/// Steps that concern the disk `data`.
fn disk_steps(world: &World) -> Vec<Step> {
    let concerns = |action: &Action| match action {
        Action::Create(object) | Action::Apply { object, .. } => {
            json!(object)["metadata"]["name"] == "web-data"
        }
        Action::ChangeMetadata { name, .. } | Action::Delete { name, .. } => name == "web-data",
        _ => false,
    };
    let steps = world.plan().steps.into_iter();
    steps.filter(|step| concerns(&step.action)).collect()
}

/// The only step that concerns the disk `data`.
fn disk_step(world: &World) -> Step {
    let mut steps = disk_steps(world);
    assert_eq!(steps.len(), 1, "{steps:#?}");
    steps.remove(0)
}

fn labelled_by_kubectl(label: &str) -> Value {
    let label = format!("f:{label}");
    json!([{ "manager": "kubectl-label", "operation": "Update", "time": BEFORE,
        "fieldsType": "FieldsV1",
        "fieldsV1": { "f:metadata": { "f:labels": { label: {} } } } }])
}

fn message(world: &World) -> String {
    let obstacles = world.plan().obstacles;
    assert_eq!(obstacles.len(), 1, "{obstacles:#?}");
    obstacles[0].message.clone()
}

fn events(steps: &[Step]) -> Vec<&'static str> {
    let events = steps.iter().filter_map(|step| step.event.as_ref());
    events.map(|event| event.reason).collect()
}

#[test]
fn a_filled_disk_needs_nothing() {
    let world = imported();
    assert_eq!(disk_steps(&world), []);
    assert_eq!(world.plan().obstacles, []);
}

#[test]
fn a_disk_with_a_source_is_created_as_a_data_volume() {
    let mut world = imported();
    world.data_volumes.clear();
    world.claims.remove(0);
    let Action::Create(Object::DataVolume(volume)) = disk_step(&world).action else {
        panic!("{:#?}", disk_steps(&world));
    };
    assert_eq!(volume.spec.storage.resources.requests.storage, "1Gi");
    world.installed.cdi = false;
    assert_eq!(disk_steps(&world), []);
    assert!(message(&world).contains("install CDI"));
    // What exists needs no CDI.
    world = imported();
    world.installed.cdi = false;
    assert_eq!(disk_steps(&world), []);
    assert_eq!(world.plan().obstacles, []);
}

#[test]
fn a_claim_is_enough_after_cdi_deleted_its_data_volume() {
    let mut world = imported();
    world.data_volumes.clear();
    assert_eq!(disk_steps(&world), []);
    // CDI does not copy every annotation.
    world.claims[0]["metadata"]["annotations"] = Value::Null;
    let Action::ChangeMetadata { kind, change, .. } = disk_step(&world).action else {
        panic!("{:#?}", disk_steps(&world));
    };
    assert_eq!(kind, Kind::PersistentVolumeClaim);
    let machine = change.annotations.get(labels::MACHINE_UID);
    assert_eq!(machine, Some(&Some("uid-machine".to_owned())));
    // It grows like any other.
    world = imported();
    world.data_volumes.clear();
    world.machine["spec"]["disks"][0]["size"] = "2Gi".into();
    assert!(matches!(disk_step(&world).action, Action::Apply { .. }));
    // A foreign one is neither changed nor used.
    world.claims[0]["metadata"]["ownerReferences"][0]["kind"] = "Backup".into();
    assert_eq!(disk_steps(&world), []);
    assert!(message(&world).contains("web-data"));
}

#[test]
fn a_claim_of_cdi_grows_by_its_size_alone() {
    let mut world = imported();
    world.machine["spec"]["disks"][0]["size"] = "2Gi".into();
    let step = disk_step(&world);
    assert_eq!(events(std::slice::from_ref(&step)), ["DiskResized"]);
    let Action::Apply {
        object: Object::Claim(claim),
        uid,
        ..
    } = step.action
    else {
        panic!("{step:#?}");
    };
    assert_eq!(uid, "uid-web-data");
    assert_eq!(
        json!(claim)["spec"],
        json!({ "resources": { "requests": { "storage": "2Gi" } } })
    );
    assert_eq!(claim.metadata.labels, None, "they are CDI's");
    world.claims[0]["metadata"]["deletionTimestamp"] = NOW.into();
    assert_eq!(disk_steps(&world), []);
}

#[test]
fn labels_of_a_data_volume_are_restored_and_its_spec_is_kept() {
    let mut world = imported();
    world.data_volumes[0]["metadata"]["labels"][labels::MACHINE] = "other".into();
    world.data_volumes[0]["metadata"]["managedFields"] = labelled_by_kubectl(labels::MACHINE);
    world.data_volumes[0]["spec"]["storage"]["resources"]["requests"]["storage"] = "3Gi".into();
    let step = disk_step(&world);
    assert_eq!(events(std::slice::from_ref(&step)), ["DriftCorrected"]);
    let Action::Apply {
        object: Object::DataVolume(volume),
        uid,
        ..
    } = step.action
    else {
        panic!("{step:#?}");
    };
    assert_eq!(uid, "uid-volume");
    assert_eq!(volume.spec.storage.resources.requests.storage, "3Gi");
}

#[test]
fn a_data_volume_of_others_is_left_alone() {
    let mut world = imported();
    world.data_volumes[0]["metadata"]["deletionTimestamp"] = NOW.into();
    assert!(message(&world).contains("is being deleted"));
    assert_eq!(disk_steps(&world), []);
    world = imported();
    let owner = json!([{ "apiVersion": "example.com/v1", "kind": "Backup", "name": "nightly",
        "uid": "uid-backup", "controller": true }]);
    world.data_volumes[0]["metadata"]["ownerReferences"] = owner;
    let [obstacle] = &world.plan().obstacles[..] else {
        panic!("{:#?}", world.plan().obstacles);
    };
    assert_eq!(obstacle.error_type, Some(ErrorType::ForeignObject));
    assert_eq!(disk_steps(&world), []);
}

#[test]
fn a_data_volume_of_an_earlier_machine_is_adopted_only_on_request() {
    let mut world = imported();
    (world.vm, world.instance) = (Value::Null, Value::Null);
    for object in [&mut world.data_volumes[0], &mut world.claims[0]] {
        object["metadata"]["annotations"][labels::MACHINE_UID] = "uid-earlier".into();
    }
    assert!(message(&world).contains(labels::ADOPT_DISKS));
    assert_eq!(disk_steps(&world), []);
    world.machine["metadata"]["annotations"] = json!({ labels::ADOPT_DISKS: "false" });
    assert_eq!(disk_steps(&world), []);
    world.machine["metadata"]["annotations"] = json!({ labels::ADOPT_DISKS: "true" });
    let step = disk_step(&world);
    assert_eq!(
        events(std::slice::from_ref(&step)),
        [""; 0],
        "not tampering"
    );
    assert!(matches!(
        step.action,
        Action::Apply {
            object: Object::DataVolume(_),
            ..
        }
    ));
}

/// The Machine is deleted, its guest is gone, and references to claims were read.
fn ending() -> World {
    let World {
        machine,
        claims,
        data_volumes,
        ..
    } = imported();
    let mut world = World {
        machine,
        claims,
        data_volumes,
        ..World::ending()
    };
    world.machine["metadata"]["deletionTimestamp"] = NOW.into();
    world
}

#[test]
fn a_claim_is_deleted_with_its_data_volume() {
    let world = ending();
    let deleted = ["DataVolume web-data", "PersistentVolumeClaim web-root"];
    assert_eq!(world.deleted(), deleted);
}

#[test]
fn a_claim_whose_data_volume_is_gone_is_deleted_by_itself() {
    let claims = [
        "PersistentVolumeClaim web-data",
        "PersistentVolumeClaim web-root",
    ];
    let mut world = ending();
    world.data_volumes.clear();
    assert_eq!(world.deleted(), claims);
    // An earlier DataVolume of its name is not the one that is there.
    world = ending();
    world.data_volumes[0]["metadata"]["uid"] = "uid-later".into();
    let both = ["DataVolume web-data"].into_iter().chain(claims);
    assert_eq!(world.deleted(), both.collect::<Vec<_>>());
}

#[test]
fn a_data_volume_that_is_being_deleted_is_not_deleted_again() {
    let mut world = ending();
    world.data_volumes[0]["metadata"]["deletionTimestamp"] = NOW.into();
    assert_eq!(world.deleted(), ["PersistentVolumeClaim web-root"]);
}

#[test]
fn retained_data_volumes_and_their_claims_are_labelled() {
    let mut world = ending();
    world.machine["spec"]["deletionPolicy"] = "Retain".into();
    assert_eq!(world.deleted(), [""; 0]);
    assert_eq!(world.retained(), ["web-data", "web-data", "web-root"]);
    world.data_volumes[0]["metadata"]["labels"][labels::RETAINED] = "true".into();
    world.claims[0]["metadata"]["labels"][labels::RETAINED] = "false".into();
    assert_eq!(world.retained(), ["web-data", "web-root"]);
    // Terminating objects are not labelled.
    world.claims[1]["metadata"]["deletionTimestamp"] = NOW.into();
    assert_eq!(world.retained(), ["web-data"]);
}

#[test]
fn a_removed_data_volume_is_released_with_one_event() {
    let mut world = imported();
    world.machine["spec"]["disks"] = Value::Null;
    let steps = disk_steps(&world);
    assert_eq!(world.retained(), ["web-data", "web-data"]);
    let events: Vec<_> = steps.iter().filter_map(|step| step.event.clone()).collect();
    assert_eq!(events.len(), 1, "{events:#?}");
    assert!(
        events[0]
            .message
            .contains("kubectl -n default delete datavolume web-data"),
        "{events:#?}"
    );
    // The claim alone, after CDI deleted the DataVolume.
    world.data_volumes.clear();
    let step = disk_step(&world);
    let message = step.event.map(|event| event.message).unwrap_or_default();
    assert!(
        message.contains("delete persistentvolumeclaim web-data"),
        "{message}"
    );
}

#[test]
fn a_data_volume_that_is_listed_again_loses_its_records() {
    let mut world = imported();
    for object in [&mut world.data_volumes[0], &mut world.claims[0]] {
        object["metadata"]["labels"][labels::RETAINED] = "true".into();
        object["metadata"]["managedFields"] = labelled_by_kubectl(labels::RETAINED);
    }
    let steps = disk_steps(&world);
    let cleared: Vec<_> = steps
        .iter()
        .filter_map(|step| match &step.action {
            Action::ChangeMetadata { kind, change, .. } => {
                let unset = MetadataChange {
                    labels: [(labels::RETAINED.to_owned(), None)].into(),
                    ..MetadataChange::default()
                };
                assert_eq!(change, &unset);
                Some((*kind, step.event.is_some()))
            }
            _ => None,
        })
        .collect();
    // CDI copies the label to the claim: that is not tampering.
    let expected = [
        (Kind::DataVolume, true),
        (Kind::PersistentVolumeClaim, false),
    ];
    assert_eq!(cleared, expected);
}

#[test]
fn a_disk_of_the_size_that_was_listed_is_no_longer_marked_as_listed() {
    let mut world = World::running();
    let annotations = &mut world.claims[1]["metadata"]["annotations"];
    annotations[labels::LISTED_DISK] = "true".into();
    let change = world
        .plan()
        .steps
        .into_iter()
        .find_map(|step| match step.action {
            Action::ChangeMetadata { name, change, .. } if name == "web-root" => Some(change),
            _ => None,
        });
    let expected = [(labels::LISTED_DISK.to_owned(), None)].into();
    assert_eq!(change.map(|change| change.annotations), Some(expected));
}

#[test]
fn a_class_that_forbids_expansion_is_named() {
    let mut world = World::running();
    world.machine["spec"]["disks"][0]["size"] = "3Gi".into();
    for value in [Value::Null, false.into()] {
        world.storage_class["allowVolumeExpansion"] = value;
        assert!(message(&world).contains("\"fast\" does not allow it"));
        assert_eq!(disk_steps(&world), []);
    }
}

#[test]
fn a_claim_of_another_owner_reference_is_its_owners() {
    let mut world = World::running();
    let owner = |kind: &str, controller: bool| {
        json!([{ "apiVersion": "example.com/v1", "kind": kind, "name": "web-data",
            "uid": "uid-other", "controller": controller }])
    };
    // A reference that does not control it does not matter.
    world.claims[0]["metadata"]["ownerReferences"] = owner("Backup", false);
    assert_eq!(world.plan().obstacles, []);
    for kind in ["Backup", "Machine"] {
        world.claims[0]["metadata"]["ownerReferences"] = owner(kind, true);
        let obstacles = world.plan().obstacles;
        assert_eq!(obstacles.len(), 1, "{kind}");
        assert_eq!(
            obstacles[0].error_type,
            Some(ErrorType::ForeignObject),
            "{kind}"
        );
    }
    // A claim of a DataVolume with another name is not one that CDI created.
    world.claims[0] = claim("data", "1Gi");
    world.claims[0]["metadata"]["ownerReferences"] = owner("DataVolume", true);
    assert_eq!(world.plan().obstacles, []);
    world.claims[0]["metadata"]["ownerReferences"][0]["name"] = "other".into();
    assert_eq!(world.plan().obstacles.len(), 1);
}

#[test]
fn an_orphaning_deletion_releases_its_virtual_machine() {
    let mut world = imported();
    world.machine["metadata"]["deletionTimestamp"] = NOW.into();
    world.is_orphaned = true;
    let releases = |world: &World| {
        has(&world.plan(), |action| {
            matches!(action, Action::ChangeMetadata { kind: Kind::VirtualMachine, change, .. }
                if change.owners.is_some())
        })
    };
    assert!(releases(&world));
    assert_eq!(world.deleted(), [""; 0]);
    assert_eq!(world.retained(), ["web-data", "web-data", "web-root"]);
    let event = |world: &World| {
        let last = world.plan().steps.pop().unwrap();
        assert_eq!(last.action, Action::RemoveFinalizer);
        last.event.unwrap().message
    };
    let kept = "kept VirtualMachine web, DataVolume web-data, PersistentVolumeClaim web-root;";
    assert!(event(&world).contains(kept), "{}", event(&world));
    // Without its owner there is nothing to release.
    let owner = world.vm["metadata"]["ownerReferences"].take();
    assert!(!releases(&world));
    assert!(event(&world).contains(kept), "{}", event(&world));
    // One that is being deleted is not kept.
    world.vm["metadata"]["ownerReferences"] = owner;
    world.vm["metadata"]["deletionTimestamp"] = NOW.into();
    assert!(!releases(&world));
    assert!(
        event(&world).contains("kept DataVolume"),
        "{}",
        event(&world)
    );
}
