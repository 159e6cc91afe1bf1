//! Scenarios in a whole in-memory cluster, on virtual time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backends;
mod components;
mod devices;
mod installed;
mod names;
mod power;
mod quota;
mod rollouts;

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use http::Request;
use kube::{
    Api, Client,
    api::{
        DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
        WatchParams,
    },
    core::{ApiResource, GroupVersionKind},
};
use sandbox::{Cluster, Setup, Speed};
use serde_json::{Value, json};

fn api(client: &Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::default_namespaced_with(client.clone(), &resource)
}

fn cluster_api(client: &Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::all_with(client.clone(), &resource)
}

async fn create(api: &Api<DynamicObject>, object: Value) -> Result<DynamicObject, kube::Error> {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await
}

/// Waits on virtual time until an object satisfies a condition.
async fn until(
    api: &Api<DynamicObject>,
    name: &str,
    wanted: impl Fn(&DynamicObject) -> bool,
) -> DynamicObject {
    for _ in 0..1000 {
        if let Some(object) = api.get_opt(name).await.unwrap()
            && wanted(&object)
        {
            return object;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!(
        "{name} has not become what was waited for: {:?}",
        api.get_opt(name).await
    );
}

fn vm(name: &str) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": {"name": name},
        "spec": {"runStrategy": "Always", "template": {"spec": {"domain": {
            "memory": {"guest": "1Gi"},
            "devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}]},
        }, "volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": "root"}}]}}},
    })
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

fn printable(vm: &DynamicObject) -> &str {
    vm.data["status"]["printableStatus"]
        .as_str()
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_vm_runs_is_stopped_by_its_subresource_and_is_deleted() {
    let setup = Setup {
        speed: Speed::Real,
        ..Setup::seeded(1)
    };
    let cluster = Cluster::start(setup, None).await.unwrap();
    let client = cluster.client();
    let vms = api(&client, "kubevirt.io", "v1", "VirtualMachine");
    create(
        &api(&client, "", "v1", "PersistentVolumeClaim"),
        claim("root"),
    )
    .await
    .unwrap();
    create(&vms, vm("web")).await.unwrap();
    until(&vms, "web", |vm| printable(vm) == "Running").await;

    let stop = Request::put(
        "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/web/stop",
    )
    .body(Vec::new())
    .unwrap();
    client.request_text(stop).await.unwrap();
    until(&vms, "web", |vm| printable(vm) == "Stopped").await;

    vms.delete("web", &DeleteParams::foreground())
        .await
        .unwrap();
    let pods = api(&client, "", "v1", "Pod");
    for _ in 0..1000 {
        if vms.get_opt("web").await.unwrap().is_none()
            && pods
                .list(&ListParams::default())
                .await
                .unwrap()
                .items
                .is_empty()
        {
            cluster.stop().await.unwrap();
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("the VM or its pod is still there");
}

#[tokio::test(start_paused = true)]
async fn virt_api_validates_with_its_messages_and_defaults_vms() {
    let cluster = Cluster::start(Setup::seeded(2), None).await.unwrap();
    let vms = api(&cluster.client(), "kubevirt.io", "v1", "VirtualMachine");
    let mut wrong = vm("wrong");
    wrong["spec"]["running"] = true.into();
    let kube::Error::Api(refused) = create(&vms, wrong).await.unwrap_err() else {
        panic!("not refused by the server");
    };
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    assert!(
        refused.message.starts_with(
            "admission webhook \"virtualmachine-validator.kubevirt.io\" denied the request: "
        ),
        "{}",
        refused.message
    );
    let filled = create(&vms, vm("right")).await.unwrap();
    let template = &filled.data["spec"]["template"]["spec"];
    assert_eq!(template["architecture"], "amd64");
    assert!(template["domain"]["firmware"]["uuid"].is_string());
    cluster.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_service_account_has_exactly_the_rights_of_its_roles() {
    let cluster = Cluster::start(Setup::seeded(3), None).await.unwrap();
    let admin = cluster.client();
    let robot = cluster.server().client_of("default", "robot");
    let as_robot = api(&robot, "", "v1", "ConfigMap");
    let kube::Error::Api(refused) = as_robot.list(&ListParams::default()).await.unwrap_err() else {
        panic!("not refused by the server");
    };
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message,
        "configmaps is forbidden: User \"system:serviceaccount:default:robot\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    create(
        &api(&admin, "rbac.authorization.k8s.io", "v1", "Role"),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "reader"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
        }),
    )
    .await
    .unwrap();
    create(
        &api(&admin, "rbac.authorization.k8s.io", "v1", "RoleBinding"),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
        }),
    )
    .await
    .unwrap();
    as_robot.list(&ListParams::default()).await.unwrap();
    assert!(as_robot.get("any").await.is_err(), "only list is granted");
    cluster.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn aggregated_roles_get_the_rules_of_the_selected_roles() {
    let cluster = Cluster::start(Setup::seeded(4), None).await.unwrap();
    let roles = cluster_api(
        &cluster.client(),
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRole",
    );
    create(
        &roles,
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {
                "name": "machines-view",
                "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"},
            },
            "rules": [{"apiGroups": ["vitistack.io"], "resources": ["machines"], "verbs": ["get"]}],
        }),
    )
    .await
    .unwrap();
    let has_machines = |role: &DynamicObject| {
        role.data["rules"].as_array().is_some_and(|rules| {
            rules
                .iter()
                .any(|rule| rule["apiGroups"] == json!(["vitistack.io"]))
        })
    };
    until(&roles, "view", has_machines).await;
    // What aggregates to view reaches edit and admin through it.
    until(&roles, "admin", has_machines).await;
    roles
        .delete("machines-view", &DeleteParams::default())
        .await
        .unwrap();
    until(&roles, "view", |role| !has_machines(role)).await;
    cluster.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_compacted_version_is_gone() {
    let cluster = Cluster::start(Setup::seeded(5), None).await.unwrap();
    let claims = api(&cluster.client(), "", "v1", "PersistentVolumeClaim");
    let old = create(&claims, claim("a"))
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    create(&claims, claim("b")).await.unwrap();
    cluster.server().compact();
    let events: Vec<_> = claims
        .watch(&WatchParams::default(), &old)
        .await
        .unwrap()
        .take(1)
        .try_collect()
        .await
        .unwrap();
    assert!(
        matches!(&events[..], [WatchEvent::Error(status)] if status.code == 410),
        "{events:?}"
    );
    cluster.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stored_cluster_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let before = Cluster::start(Setup::seeded(6), Some(folder.path()))
        .await
        .unwrap();
    let vms = api(&before.client(), "kubevirt.io", "v1", "VirtualMachine");
    let mut halted = vm("kept");
    halted["spec"]["runStrategy"] = "Halted".into();
    create(&vms, halted).await.unwrap();
    let settled = until(&vms, "kept", |vm| printable(vm) == "Stopped").await;
    before.stop().await.unwrap();

    let after = Cluster::start(Setup::seeded(7), Some(folder.path()))
        .await
        .unwrap();
    let vms = api(&after.client(), "kubevirt.io", "v1", "VirtualMachine");
    let kept = vms.get("kept").await.unwrap();
    assert_eq!(kept.metadata.uid, settled.metadata.uid);
    let patch = Patch::Merge(json!({"metadata": {"labels": {"after": "restart"}}}));
    let changed = vms
        .patch("kept", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let version = |vm: &DynamicObject| -> u64 {
        vm.metadata
            .resource_version
            .as_deref()
            .unwrap()
            .parse()
            .unwrap()
    };
    assert!(version(&changed) > version(&settled));
    after.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn circular_owner_references_do_not_block_deletion() {
    let cluster = Cluster::start(Setup::seeded(8), None).await.unwrap();
    let maps = api(&cluster.client(), "", "v1", "ConfigMap");
    let map =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let one = create(&maps, map("one")).await.unwrap();
    let other = create(&maps, map("other")).await.unwrap();
    for (name, owner) in [("one", &other), ("other", &one)] {
        let reference = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": true,
            "name": owner.metadata.name, "uid": owner.metadata.uid,
        });
        let patch = Patch::Merge(json!({"metadata": {"ownerReferences": [reference]}}));
        maps.patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
    maps.delete("one", &DeleteParams::foreground())
        .await
        .unwrap();
    for name in ["one", "other"] {
        for _ in 0..100 {
            if maps.get_opt(name).await.unwrap().is_none() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(
            maps.get_opt(name).await.unwrap().is_none(),
            "{name} is still there"
        );
    }
    cluster.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_two_services_have_one_port_or_address() {
    let cluster = Cluster::start(Setup::seeded(9), None).await.unwrap();
    let services = api(&cluster.client(), "", "v1", "Service");
    let service = |name: &str, spec: Value| {
        let mut service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 31234}]},
        });
        for (key, value) in spec.as_object().unwrap() {
            service["spec"][key] = value.clone();
        }
        service
    };
    create(&services, service("first", json!({})))
        .await
        .unwrap();
    for (spec, expected) in [
        (
            json!({}),
            "spec.ports[0].nodePort: Invalid value: 31234: provided port is already allocated",
        ),
        (
            json!({"type": "ClusterIP", "ports": [{"port": 80}], "clusterIP": "1.2.3.4"}),
            "spec.clusterIPs: Invalid value: [\"1.2.3.4\"]: failed to allocate IP 1.2.3.4: the provided network does not match the current range",
        ),
        (
            json!({"type": "ClusterIP", "ports": [{"port": 80}], "clusterIP": "10.96.0.1"}),
            "spec.clusterIPs: Invalid value: [\"10.96.0.1\"]: failed to allocate IP 10.96.0.1: provided IP is already allocated",
        ),
    ] {
        let kube::Error::Api(refused) = create(&services, service("second", spec))
            .await
            .unwrap_err()
        else {
            panic!("not refused by the server");
        };
        assert!(refused.message.ends_with(expected), "{}", refused.message);
    }
    cluster.stop().await.unwrap();
}
