//! Removal of an installation.

use api::kubevirt::install::InstallPhase;
use apimachinery::retry_ledger::RetryLedger;
use plan::kubevirt::{Object, Stage, observed::Pod};
use serde_json::json;

use crate::{
    behaviours::{assert_deployed, installed, vm},
    release::{ADDED, NAMESPACE, NEW, definition},
    world::World,
};

const VMS: &str = "virtualmachines.kubevirt.io";
const VMIS: &str = "virtualmachineinstances.kubevirt.io";

#[test]
fn removal_leaves_nothing_behind() {
    let mut world = installed(NEW, 3);
    world.store(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "theirs", "namespace": NAMESPACE},
    }));
    world
        .customs
        .insert(VMS.to_owned(), vec![vm("default/web", false)]);
    world.journal.clear();
    world.delete_resource();
    world
        .run_with(|world, plan| {
            if world.customs.get(VMS).is_some_and(|all| !all.is_empty()) {
                assert!(plan.stage <= Stage::Workloads, "{plan:#?}");
            }
        })
        .unwrap();
    assert!(!world.exists, "{:#?}", world.plan());
    let left: Vec<_> = world.objects().keys().map(ToString::to_string).collect();
    assert_eq!(left, ["ConfigMap kubevirt/theirs", "Namespace kubevirt"]);
    let status = world.kubevirt.status.as_ref().unwrap();
    assert_eq!(status.phase, Some(InstallPhase::Deleted));
    let mut nodes = world.nodes.iter();
    assert!(nodes.all(|node| {
        !node
            .labels
            .keys()
            .any(|label| label.starts_with("kubevirt.io/"))
    }));
    assert!(world.index_of("delete all").unwrap() < world.index_of("delete Custom").unwrap());
    assert!(world.index_of("delete Custom").unwrap() < world.index_of("delete DaemonSet").unwrap());
}

#[test]
fn definitions_are_released_together() {
    let mut world = installed(NEW, 1);
    world
        .customs
        .insert(ADDED.to_owned(), vec![vm("default/slow", true)]);
    world.delete_resource();
    for _ in 0..30 {
        world.round();
    }
    let definitions = world.objects().keys();
    let definitions = definitions.filter(|id| &*id.kind == "CustomResourceDefinition");
    assert_eq!(definitions.count(), 5);
    world.run().unwrap();
    let (_, reason, message) = world.condition("Synchronized");
    assert_eq!(reason, "DeletionFailed");
    assert!(message.contains(ADDED), "{message}");
    world.customs.clear();
    world.run().unwrap();
    assert!(!world.exists);
}

#[test]
fn definitions_of_an_interrupted_removal_are_recreated() {
    let mut world = installed(NEW, 1);
    world
        .customs
        .insert(ADDED.to_owned(), vec![vm("default/slow", true)]);
    world.delete_resource();
    for _ in 0..30 {
        world.round();
    }
    // Someone removes the resource's finalizer and creates another resource.
    world.kubevirt = World::new(NEW, 1).kubevirt.clone();
    for _ in 0..30 {
        world.round();
    }
    assert!(world.plan().steps.is_empty());
    world.customs.clear();
    world.run().unwrap();
    assert_deployed(&world, NEW);
}

#[test]
fn names_virtual_machines_that_are_not_deleted() {
    let mut world = installed(NEW, 1);
    world
        .customs
        .insert(VMS.to_owned(), vec![vm("default/held", true)]);
    world.delete_resource();
    for _ in 0..700 {
        world.round();
    }
    let (_, reason, message) = world.condition("Synchronized");
    assert_eq!(reason, "DeletionFailed");
    assert!(
        message.contains("default/held") && message.contains("kubevirt.io/holds"),
        "{message}"
    );
    assert!(world.live_object("Deployment", "virt-controller").is_some());
}

#[test]
fn virtual_machines_block_the_removal_if_configured() {
    let mut world = installed(NEW, 1);
    world.kubevirt.spec.uninstall_strategy = Some("BlockUninstallIfWorkloadsExist".to_owned());
    world
        .customs
        .insert(VMS.to_owned(), vec![vm("default/web", false)]);
    world.delete_resource();
    for _ in 0..20 {
        world.round();
    }
    let (_, _, message) = world.condition("Synchronized");
    assert!(message.contains("default/web"), "{message}");
    assert!(!world.customs[VMS][0].deleting);
    world.customs.clear();
    for _ in 0..20 {
        world.round();
    }
    world.run().unwrap();
    assert!(!world.exists);
}

#[test]
fn a_blocked_removal_is_reported_once() {
    for strategy in ["BlockUninstallIfWorkloadsExist", "RemoveWorkloads"] {
        let mut world = installed(NEW, 1);
        world.kubevirt.spec.uninstall_strategy = Some(strategy.to_owned());
        world
            .customs
            .insert(VMIS.to_owned(), vec![vm("default/held", true)]);
        world.delete_resource();
        for _ in 0..700 {
            world.round();
        }
        let (_, reason, message) = world.condition("Synchronized");
        assert_eq!(reason, "DeletionFailed");
        assert!(message.contains("default/held"), "{message}");
        for _ in 0..40 {
            world.round_with(|_, plan| {
                assert!(plan.stalled, "{plan:#?}");
                assert_eq!((&plan.status, plan.events.len()), (&None, 0));
            });
        }
    }
}

#[test]
fn an_allowed_deletion_does_not_block_the_removal() {
    let passing = [
        "virtualmachineinstancemigrations.kubevirt.io",
        "virtualmachinepools.pool.kubevirt.io",
    ];
    let mut world = World::new(NEW, 1);
    for name in passing {
        world
            .extra
            .push(Object::new(&definition(name, "Passing", true)).unwrap());
        let customs = vec![vm("default/over", false)];
        world.customs.insert(name.to_owned(), customs);
    }
    world.run().unwrap();
    world.kubevirt.spec.uninstall_strategy = Some("BlockUninstallIfWorkloadsExist".to_owned());
    world.delete_resource();
    world.run().unwrap();
    assert!(!world.exists, "{:#?}", world.plan());
}

#[test]
fn a_blocked_removal_keeps_webhooks_without_a_server() {
    let mut world = installed(NEW, 1);
    world.kubevirt.spec.uninstall_strategy = Some("BlockUninstallIfWorkloadsExist".to_owned());
    world
        .customs
        .insert(VMS.to_owned(), vec![vm("default/web", false)]);
    world.delete_resource();
    world.broken.insert(NEW.to_owned());
    let before = world.objects().len();
    for _ in 0..60 {
        world.round();
    }
    assert_eq!(world.objects().len(), before);
    world.customs.clear();
    for _ in 0..60 {
        world.round();
    }
    assert!(!world.exists, "{:#?}", world.plan());
}

#[test]
fn a_new_virtual_machine_blocks_a_blocked_removal_too() {
    let mut world = installed(NEW, 1);
    world.kubevirt.spec.uninstall_strategy = Some("BlockUninstallIfWorkloadsExist".to_owned());
    world
        .customs
        .insert(VMIS.to_owned(), vec![vm("default/runs", false)]);
    world.delete_resource();
    for _ in 0..60 {
        world.round();
    }
    world
        .customs
        .insert(VMS.to_owned(), vec![vm("default/late", false)]);
    world.advance_time(30);
    world.customs.remove(VMIS);
    for _ in 0..60 {
        world.round();
    }
    assert!(!world.customs[VMS][0].deleting);
    assert_eq!(world.index_of("delete Custom"), None);
    let (_, _, message) = world.condition("Synchronized");
    assert!(message.contains("default/late"), "{message}");
}

#[test]
fn a_refused_count_is_reported_and_retried_with_backoff() {
    let mut world = installed(NEW, 1);
    world.delete_resource();
    let plan = world.plan();
    assert_eq!(plan.stage, Stage::Workloads);
    for step in &plan.steps {
        world.refuse_step(step, "you may not list");
    }
    let plan = world.plan();
    assert!(
        plan.stalled && plan.steps.is_empty() && plan.requeue_at.is_some(),
        "{plan:#?}"
    );
    world.round();
    let (_, reason, message) = world.condition("Synchronized");
    assert_eq!(reason, "DeletionFailed");
    assert!(
        message.contains(VMS) && message.contains("you may not list"),
        "{message}"
    );
    world.advance_time(60);
    assert!(!world.plan().steps.is_empty());
}

#[test]
fn a_refused_removal_of_the_finalizer_is_reported() {
    let mut world = installed(NEW, 1);
    world.delete_resource();
    let mut plan = world.plan();
    while plan.stage != Stage::Deleted || plan.status.is_some() {
        world.round();
        plan = world.plan();
    }
    world.refuse_step(&plan.steps[0], "no finalizers today");
    world.round();
    assert!(world.exists);
    let (_, _, message) = world.condition("Synchronized");
    assert!(message.contains("no finalizers today"), "{message}");
    world.memory.refusals = RetryLedger::default();
    world.run().unwrap();
    assert!(!world.exists);
}

#[test]
fn node_labels_are_removed_after_the_pods_that_set_them() {
    let mut world = installed(NEW, 1);
    let label = |name: &str| (name.to_owned(), "true".to_owned());
    world.nodes[0].labels.extend([
        label("cpu-model.node.kubevirt.io/Nehalem"),
        label("node.example/theirs"),
        label("notkubevirt.io/theirs"),
    ]);
    let handler = world.pods.iter().find(|pod| pod.node.is_some()).cloned();
    let handler = handler.map(|handler| Pod {
        deleting: true,
        ..handler
    });
    world.delete_resource();
    while world.plan().stage != Stage::Leftovers {
        world.round();
    }
    world.pods.extend(handler);
    let plan = world.plan();
    assert_eq!((plan.stage, plan.steps.len()), (Stage::Leftovers, 0));
    assert_eq!(&*plan.waits[0].id.kind, "Pod");
    world.nodes[0].ready = false;
    assert!(!world.plan().steps.is_empty(), "nobody is there to stop it");
    world.nodes[0].ready = true;
    world.run().unwrap();
    assert!(!world.exists);
    let left: Vec<&String> = world.nodes[0].labels.keys().collect();
    let others = [
        "kubernetes.io/os",
        "node.example/theirs",
        "notkubevirt.io/theirs",
    ];
    assert_eq!(left, others);
}

#[test]
fn webhooks_without_a_server_are_removed_first() {
    let mut world = installed(NEW, 1);
    let api = world.id("Deployment", "virt-api");
    world.remove(&api);
    world.delete_resource();
    world.journal.clear();
    world.run().unwrap();
    assert!(!world.exists);
    assert!(world.index_of("delete Validating").unwrap() < 2);
    assert!(world.index_of("delete APIService").unwrap() < 2);
}

#[test]
fn a_resource_can_be_deleted_during_its_rollout() {
    for rounds in 0..14 {
        let mut world = World::new(NEW, 2);
        for _ in 0..rounds {
            world.round();
        }
        world.delete_resource();
        world.run().unwrap();
        assert!(!world.exists, "after {rounds} rounds: {:#?}", world.plan());
        assert_eq!(world.objects().len(), 1, "after {rounds} rounds");
    }
}
