//! Repair of drift.

use api::kubevirt::install;
use serde_json::{Value, json};

use crate::{
    behaviours::{assert_deployed, installed, is, status_of},
    release::{NAMESPACE, NEW, OLD},
    world::World,
};

#[test]
fn a_new_generation_is_applied_to_every_object() {
    let mut world = installed(NEW, 2);
    world.increment_generation();
    world.run().unwrap();
    assert_deployed(&world, NEW);
    assert_eq!(
        world.kubevirt.status.as_ref().unwrap().observed_generation,
        Some(2)
    );
    for id in world.applied() {
        let annotations = &world.objects()[id].annotations;
        assert_eq!(annotations[install::GENERATION], "2", "{id}");
    }
}

#[test]
fn obsolete_managed_objects_are_deleted_and_others_kept() {
    let mut world = installed(NEW, 1);
    let managed = json!({install::MANAGED_BY: install::MANAGER});
    let monitor = |name: &str, labels: &Value| {
        json!({
            "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        })
    };
    world.store(monitor("old", &managed));
    world.store(monitor("theirs", &json!({})));
    // The same label value on a foreign object.
    let other = json!({install::MANAGED_BY: install::OLD_MANAGER});
    world.store(monitor("somebodys", &other));
    world.run().unwrap();
    assert!(world.live_object("ServiceMonitor", "old").is_none());
    assert!(world.live_object("ServiceMonitor", "theirs").is_some());
    assert!(world.live_object("ServiceMonitor", "somebodys").is_some());
    assert_deployed(&world, NEW);
}

#[test]
fn drift_of_any_kind_is_repaired() {
    let mut world = installed(NEW, 2);
    let expected = world.end_state();
    let edits: [(&str, &str, &str, Value); 7] = [
        ("Deployment", "virt-controller", "/spec/replicas", json!(7)),
        (
            "Deployment",
            "virt-api",
            "/spec/template/spec/containers/0/image",
            json!("other"),
        ),
        (
            "PodDisruptionBudget",
            "virt-api-pdb",
            "/spec/minAvailable",
            json!(0),
        ),
        ("Service", "virt-api", "/spec/ports/0/targetPort", json!(1)),
        ("ClusterRole", "kubevirt-components", "/rules", json!([])),
        (
            "ClusterRoleBinding",
            "kubevirt-components",
            "/subjects",
            json!([]),
        ),
        (
            "DaemonSet",
            "virt-handler",
            "/spec/template/spec/containers/0/image",
            json!("other"),
        ),
    ];
    for (kind, name, pointer, value) in edits {
        let id = world.id(kind, name);
        world.change(&id, |live| *live.pointer_mut(pointer).unwrap() = value);
        world.run().unwrap();
        assert_eq!(world.end_state(), expected, "{kind} {name}");
    }
    let ids: Vec<_> = world.applied().cloned().collect();
    for id in ids {
        world.remove(&id);
        world.run().unwrap();
        assert_eq!(world.end_state(), expected, "{id}");
        assert_deployed(&world, NEW);
    }
}

#[test]
fn fields_of_others_are_kept() {
    let mut world = installed(OLD, 1);
    let id = world.id("Deployment", "virt-api");
    let restarted = "/spec/template/metadata/annotations";
    world.change(&id, |live| {
        live["metadata"]["labels"]["team"] = json!("blue");
        live["metadata"]["annotations"]["theirs"] = json!("yes");
        live.pointer_mut(restarted).unwrap()["kubectl.kubernetes.io/restartedAt"] = json!("now");
    });
    assert!(world.plan().steps.is_empty(), "{:#?}", world.plan());
    world.request(NEW);
    world.run().unwrap();
    let live = world.live_object("Deployment", "virt-api").unwrap();
    assert_eq!(live["metadata"]["labels"]["team"], "blue");
    assert_eq!(live["metadata"]["annotations"]["theirs"], "yes");
}

#[test]
fn an_object_with_a_wanted_name_is_adopted_without_owner_reference() {
    let mut world = World::new(NEW, 1);
    world.store(json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "kubevirt-components", "namespace": NAMESPACE},
    }));
    world.run().unwrap();
    assert_deployed(&world, NEW);
    let live = world
        .live_object("ServiceAccount", "kubevirt-components")
        .unwrap();
    assert_eq!(
        live["metadata"]["labels"][install::MANAGED_BY],
        install::MANAGER
    );
    let mut all = world.objects().values();
    assert!(all.all(|live| live.value()["metadata"]["ownerReferences"].is_null()));
}

#[test]
fn a_service_with_an_immutable_change_is_recreated() {
    let mut world = installed(NEW, 1);
    let id = world.id("Service", "virt-api");
    let uid = world.objects()[&id].uid.clone();
    world.change(&id, |live| live["spec"]["type"] = json!("NodePort"));
    world.run().unwrap();
    assert_ne!(world.objects()[&id].uid, uid);
    assert_eq!(world.value(&id)["spec"]["type"], "ClusterIP");
    let binding = world.id("ClusterRoleBinding", "kubevirt-components");
    world.change(&binding, |live| {
        live["roleRef"]["name"] = json!("cluster-admin");
    });
    world.run().unwrap();
    assert_eq!(
        world.value(&binding)["roleRef"]["name"],
        "kubevirt-components"
    );
    assert_deployed(&world, NEW);
}

#[test]
fn a_component_that_is_not_ready_is_reported_and_does_not_stop_repairs() {
    let mut world = installed(NEW, 2);
    world.broken.insert(NEW.to_owned());
    for pod in &mut world.pods {
        pod.ready = false;
    }
    world.round();
    let service = world.id("Service", "virt-api");
    world.remove(&service);
    let handler = world.id("DaemonSet", "virt-handler");
    world.remove(&handler);
    for _ in 0..5 {
        world.round();
    }
    assert!(world.objects().contains_key(&service));
    assert!(world.objects().contains_key(&handler));
    assert_eq!(
        status_of(&world, "Available"),
        is("False", "DeploymentInProgress")
    );
    world.broken.clear();
    world.run().unwrap();
    assert_deployed(&world, NEW);
}
