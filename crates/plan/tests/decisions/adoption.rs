//! Adoption of VirtualMachines that someone else created.

use std::{collections::BTreeMap, sync::Arc};

use api::{Time, labels};
use plan::machine::{
    Action, Age, CloudInitObjects, Installed, Kind, Known, Object, Plan, Provider,
    plan as machine_plan,
    simulation::{Simulation, child, machine},
};
use serde_json::{Value, json};

use crate::world::{NOW, World, has, read};

/// A Machine with the VirtualMachine and the claim that the Go operator of the Viti stack makes of it.
fn go_made() -> World {
    let mut world = World::running();
    let managed = json!({
        labels::MANAGED_BY: labels::MANAGER, labels::SOURCE_MACHINE: "web",
    });
    world.machine["metadata"]["annotations"] = json!({ labels::ADOPT: "true" });
    world.machine["metadata"]["finalizers"] = json!([labels::FORMER_FINALIZER]);
    world.machine["spec"] = json!({
        "provider": "kubevirt", "instanceType": "small",
        "disks": [{ "name": "disk-0", "sizeGB": 20, "boot": true }],
    });
    world.vm["metadata"]["ownerReferences"] = json!([]);
    world.vm["metadata"]["annotations"] = json!({});
    world.vm["metadata"]["labels"] = managed.clone();
    world.vm["spec"] = json!({ "runStrategy": "Always", "template": {
        "metadata": { "labels": managed },
        "spec": {
            "domain": {
                "cpu": { "model": "host-model", "cores": 1, "sockets": 1, "threads": 1 },
                "memory": { "guest": "1Gi" },
                "firmware": { "bootloader": { "efi": { "secureBoot": false } } },
                "devices": {
                    "autoattachPodInterface": false, "networkInterfaceMultiqueue": true,
                    "disks": [{ "name": "disk-0", "disk": { "bus": "virtio" }, "bootOrder": 1 }],
                    "interfaces": [{ "name": "default", "model": "virtio", "bridge": {},
                        "macAddress": "02:00:00:00:00:01" }],
                },
            },
            "networks": [{ "name": "default", "pod": {} }],
            "volumes": [{ "name": "disk-0", "persistentVolumeClaim": { "claimName": "web" } }],
        },
    } });
    world.instance["metadata"]["labels"] = managed.clone();
    let mut claim = world.claims.remove(1);
    claim["metadata"]["name"] = "web".into();
    claim["metadata"]["labels"] = managed;
    claim["metadata"]["annotations"] = json!({});
    world.claims = vec![claim];
    world
}

#[test]
fn nothing_is_created_for_a_machine_with_the_finalizer_of_the_go_operator() {
    let mut world = go_made();
    world.machine["metadata"]["annotations"] = json!({});
    // The caches lag: the Machine is there before its VirtualMachine.
    world.vm = Value::Null;
    world.instance = Value::Null;
    world.claims.clear();
    let plan = world.plan();
    assert_eq!(plan.steps, []);
    let (reason, message) = condition(&plan, "Ready").unwrap();
    assert_eq!(reason, "ForeignObject");
    assert!(message.contains("remove the finalizer"), "{message}");
    world.machine["metadata"]["finalizers"] = json!([labels::FORMER_FINALIZER, labels::FINALIZER]);
    assert_ne!(world.plan().steps, []);
}

/// The same after the adoption.
fn adopted() -> World {
    let mut world = go_made();
    for step in world.plan().steps {
        match step.action {
            Action::ReplaceFormerFinalizer => {
                world.machine["metadata"]["finalizers"] = json!([labels::FINALIZER]);
            }
            Action::ChangeMetadata { kind, change, .. } => {
                let object = match kind {
                    Kind::VirtualMachine => &mut world.vm,
                    Kind::PersistentVolumeClaim => &mut world.claims[0],
                    _ => panic!("{kind:?}"),
                };
                for (name, value) in change.labels {
                    object["metadata"]["labels"][name] = value.into();
                }
                for (name, value) in change.annotations {
                    object["metadata"]["annotations"][name] = value.into();
                }
                if let Some((owners, _)) = change.owners {
                    object["metadata"]["ownerReferences"] = json!(owners);
                }
            }
            action => panic!("{action:?}"),
        }
    }
    world
}

fn condition(plan: &Plan, type_: &str) -> Option<(String, String)> {
    let mut conditions = plan.status.conditions.iter().flatten();
    let found = conditions.find(|condition| condition.type_ == type_)?;
    Some((found.reason.clone(), found.message.clone()))
}

fn writes_spec(plan: &Plan) -> bool {
    has(plan, |action| {
        !matches!(
            action,
            Action::AddFinalizer | Action::ReplaceFormerFinalizer | Action::ChangeMetadata { .. }
        )
    })
}

#[test]
fn an_adoption_changes_metadata_alone_and_the_virtual_machine_last() {
    let plan = go_made().plan();
    let objects: Vec<_> = plan
        .steps
        .iter()
        .map(|step| match &step.action {
            Action::ReplaceFormerFinalizer => "finalizer".to_owned(),
            Action::ChangeMetadata {
                kind, name, change, ..
            } => {
                assert!(change.template_labels.is_empty());
                format!("{} {name}", kind.as_str())
            }
            action => panic!("{action:?}"),
        })
        .collect();
    let expected = [
        "finalizer",
        "PersistentVolumeClaim web",
        "VirtualMachine web",
    ];
    assert_eq!(objects, expected);
    let event = plan.steps[2].event.as_ref().unwrap();
    assert_eq!(event.reason, "Adopted");
}

#[test]
fn an_adopted_machine_is_settled_and_knows_its_claim() {
    let plan = adopted().plan();
    assert_eq!(plan.steps, []);
    assert_eq!(plan.differences, [""; 0]);
    let (reason, message) = condition(&plan, "SpecApplied").unwrap();
    assert_eq!(reason, "Adopted");
    assert!(
        message.contains("vitistack.io/adopt: \"apply\""),
        "{message}"
    );
    let disks = plan.status.disks.unwrap();
    assert_eq!(
        (disks[0].name.as_str(), disks[0].pvc_name.as_str()),
        ("disk-0", "web")
    );
}

#[test]
fn differences_are_reported_and_applied_only_on_request() {
    let mut world = adopted();
    world.machine["spec"]["memory"] = "2Gi".into();
    world.machine["spec"]["powerState"] = "Stopped".into();
    let plan = world.plan();
    assert_eq!(plan.steps, []);
    assert_eq!(
        plan.differences,
        [
            "spec.runStrategy: \"Always\" -> \"Halted\"",
            "spec.template.spec.domain.memory.guest: \"1Gi\" -> \"2Gi\"",
        ]
    );
    let (reason, message) = condition(&plan, "SpecApplied").unwrap();
    assert_eq!(reason, "SpecDiffers");
    assert!(
        message.contains("spec.template.spec.domain.memory.guest"),
        "{message}"
    );

    // Without the annotation it stays as it is, too.
    world.machine["metadata"]["annotations"] = json!({});
    assert_eq!(world.plan().steps, []);

    world.machine["metadata"]["annotations"] = json!({ labels::ADOPT: "apply" });
    let plan = world.plan();
    let applied = plan.steps.iter().find_map(|step| match &step.action {
        Action::Apply {
            object: Object::VirtualMachine(vm),
            created_at,
            ..
        } => {
            assert_eq!(*created_at, None);
            Some(json!(vm))
        }
        _ => None,
    });
    let applied = applied.expect("the VirtualMachine is applied");
    let template = &applied["spec"]["template"]["spec"];
    assert_eq!(template["domain"]["memory"]["guest"], "2Gi");
    assert_eq!(
        template["volumes"][0]["persistentVolumeClaim"]["claimName"],
        "web"
    );
    let interface = &template["domain"]["devices"]["interfaces"][0];
    assert_eq!(interface["macAddress"], "02:00:00:00:00:01");
    assert!(interface["bridge"].is_object());
    assert!(!has(&plan, |action| matches!(
        action,
        Action::Create(_) | Action::Delete { .. }
    )));

    world.adopt_written_vm();
    world.machine["spec"]["memory"] = "3Gi".into();
    for value in ["apply", "true"] {
        world.machine["metadata"]["annotations"] = json!({ labels::ADOPT: value });
        assert!(writes_spec(&world.plan()), "later changes reach it");
        assert_eq!(condition(&world.plan(), "SpecApplied"), None);
    }
}

#[test]
fn an_apply_neither_creates_nor_detaches_a_disk() {
    for disks in [
        json!([{ "name": "system", "sizeGB": 20, "boot": true }]),
        json!([{ "name": "disk-0", "sizeGB": 20, "boot": true }, { "name": "data", "sizeGB": 1 }]),
    ] {
        for value in ["true", "apply"] {
            let mut world = adopted();
            world.machine["spec"]["disks"] = disks.clone();
            world.machine["metadata"]["annotations"] = json!({ labels::ADOPT: value });
            let plan = world.plan();
            assert!(!writes_spec(&plan), "{:?}", plan.steps);
            let blocked = plan
                .obstacles
                .iter()
                .any(|it| it.message.contains("creates no disk"));
            assert_eq!(blocked, value == "apply");
        }
    }
}

#[test]
fn a_claim_that_is_not_listed_is_left_alone() {
    let mut world = go_made();
    let mut other = world.claims[0].clone();
    other["metadata"]["name"] = "web-old".into();
    world.claims.push(other);
    let volume = json!({ "name": "old", "persistentVolumeClaim": { "claimName": "web-old" } });
    let template = &mut world.vm["spec"]["template"]["spec"];
    template["volumes"].as_array_mut().unwrap().push(volume);
    for value in ["true", "apply"] {
        world.machine["metadata"]["annotations"] = json!({ labels::ADOPT: value });
        let touched = has(
            &world.plan(),
            |action| matches!(action, Action::ChangeMetadata { name, .. } if name == "web-old"),
        );
        assert!(!touched);
    }
}

#[test]
fn what_another_controller_owns_is_not_adopted() {
    let mut world = go_made();
    world.vm["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "farm",
        "uid": "uid-pool", "controller": true,
    }]);
    let plan = world.plan();
    assert_eq!(plan.steps, []);
    let message = &plan.obstacles[0].message;
    assert!(message.contains("VirtualMachinePool \"farm\""), "{message}");

    let mut world = go_made();
    world.claims[0]["metadata"]["labels"][labels::MACHINE] = "db".into();
    assert_eq!(world.plan().steps, []);

    // Without the annotation nothing is created beside it, either.
    let mut world = go_made();
    world.machine["metadata"]["annotations"] = json!({});
    assert_eq!(world.plan().steps, []);
    assert_eq!(
        world.plan().obstacles[0].error_type.unwrap().as_str(),
        "ForeignObject"
    );
}

#[test]
fn a_virtual_machine_that_no_cache_shows_is_labelled_first() {
    let mut world = go_made();
    (world.vm, world.instance) = (Value::Null, Value::Null);
    world.claims.clear();
    let steps = world.plan().steps;
    let actions: Vec<_> = steps.iter().map(|step| &step.action).collect();
    let label = Action::LabelAdopted {
        name: "web".to_owned(),
        volumes: vec!["disk-0".to_owned()],
    };
    assert_eq!(actions, [&label]);
}

#[test]
fn an_adopted_disk_follows_the_deletion_policy() {
    for (policy, deleted) in [
        ("Delete", vec!["PersistentVolumeClaim web"]),
        ("Retain", vec![]),
    ] {
        let mut world = adopted();
        world.machine["spec"]["deletionPolicy"] = policy.into();
        world.machine["metadata"]["deletionTimestamp"] = NOW.into();
        assert_eq!(world.deleted(), ["VirtualMachine web"]);
        (world.vm, world.instance) = (Value::Null, Value::Null);
        world.age = Some(Age::Fresh);
        assert_eq!(world.deleted(), deleted);
        assert_eq!(world.retained().is_empty(), policy == "Delete");
    }
}

#[test]
fn a_retained_disk_of_a_template_keeps_the_virtual_machine() {
    let mut world = adopted();
    world.machine["metadata"]["deletionTimestamp"] = NOW.into();
    world.vm["spec"]["dataVolumeTemplates"] = json!([{ "metadata": { "name": "web" } }]);
    assert_eq!(world.deleted(), ["VirtualMachine web"]);
    world.machine["spec"]["deletionPolicy"] = "Retain".into();
    assert_eq!(world.deleted(), [""; 0]);
    let message = &world.plan().obstacles[0].message;
    assert!(message.contains("dataVolumeTemplates"), "{message}");
}

/// The world as a simulated cluster.
fn simulated(world: &World) -> Simulation {
    let claims = world
        .claims
        .iter()
        .map(|claim| (Kind::PersistentVolumeClaim, claim));
    let children = [
        (Kind::VirtualMachine, &world.vm),
        (Kind::VirtualMachineInstance, &world.instance),
    ];
    let mut objects: BTreeMap<_, _> = claims
        .chain(children)
        .map(|(kind, object)| {
            let name = object["metadata"]["name"].as_str().unwrap();
            (child(kind, "default", name), object.clone())
        })
        .collect();
    objects.insert(machine("default", "web"), world.machine.clone());
    let class = Arc::new(read(&world.storage_class));
    let installed = Installed {
        kubevirt: true,
        kubevirt_is_removed: false,
        cdi: true,
        multus: true,
    };
    let classes = Known::all([("fast".to_owned(), class)]);
    Simulation::new(objects, classes, installed, Provider::default())
}

fn plan_in(simulation: &Simulation) -> Plan {
    let now: Time = read(&NOW.into());
    let id = machine("default", "web");
    let plan = simulation.observe(&id, CloudInitObjects::none(), |observed| {
        machine_plan(&observed, &now)
    });
    plan.unwrap()
}

/// Executes plans until there are no steps. `interrupt` says after how many steps the operator ends.
fn settle(mut simulation: Simulation, mut interrupt: Option<usize>) -> Simulation {
    let (now, id): (Time, _) = (read(&NOW.into()), machine("default", "web"));
    for _ in 0..10 {
        let steps = plan_in(&simulation).steps;
        if steps.is_empty() {
            return simulation;
        }
        let count = interrupt.take().unwrap_or(steps.len());
        for step in steps.iter().take(count) {
            assert!(!matches!(
                step.action,
                Action::Create(_) | Action::Delete { .. }
            ));
            simulation.execute(&id, &step.action, &now).unwrap();
        }
    }
    panic!("it does not settle");
}

#[test]
fn an_interrupted_adoption_ends_like_any_other() {
    for value in ["true", "apply"] {
        let mut world = go_made();
        world.machine["metadata"]["annotations"] = json!({ labels::ADOPT: value });
        let state = |simulation: &Simulation| {
            let objects = simulation.objects().iter();
            let objects = objects.map(|(id, object)| {
                let mut object = object.clone();
                let metadata = object["metadata"].as_object_mut().unwrap();
                metadata.remove("resourceVersion");
                metadata.remove("generation");
                metadata.remove("managedFields");
                (id.clone(), object)
            });
            objects.collect::<BTreeMap<_, _>>()
        };
        let whole = state(&settle(simulated(&world), None));
        for count in 0..4 {
            assert_eq!(
                state(&settle(simulated(&world), Some(count))),
                whole,
                "{value} {count}"
            );
        }
        let claim = &whole[&child(Kind::PersistentVolumeClaim, "default", "web")];
        assert_eq!(claim["spec"], world.claims[0]["spec"]);
        assert_eq!(claim["metadata"]["uid"], world.claims[0]["metadata"]["uid"]);
        assert_eq!(whole.len(), 4, "nothing was created");
    }
}
