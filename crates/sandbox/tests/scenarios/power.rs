//! Guests that are stopped, paused or evicted, or that stop themselves: the statuses a user
//! observes.

use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::Request,
};
use sandbox::{Cluster, Setup};
use serde_json::{Value, json};

use super::{api, create, printable, until};

async fn running(client: &Client, strategy: Value) -> (Api<DynamicObject>, Api<DynamicObject>) {
    let vms = api(client, "kubevirt.io", "v1", "VirtualMachine");
    let instances = api(client, "kubevirt.io", "v1", "VirtualMachineInstance");
    let vm = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": {"name": "web"},
        "spec": {"runStrategy": "Always", "template": {"spec": {
            "evictionStrategy": strategy,
            "domain": {
                "memory": {"guest": "1Gi"},
                "devices": {"interfaces": [{"name": "default", "masquerade": {}}]},
            },
            "networks": [{"name": "default", "pod": {}}],
        }}},
    });
    create(&vms, vm).await.unwrap();
    until(&vms, "web", |vm| printable(vm) == "Running").await;
    (vms, instances)
}

async fn put_subresource(client: &Client, resource: &str, part: &str, body: Value) {
    let path = format!("/apis/subresources.kubevirt.io/v1/namespaces/default/{resource}");
    let mut request = Request::new(path)
        .create_subresource(part, "web", &PostParams::default(), body.to_string().into())
        .unwrap();
    *request.method_mut() = http::Method::PUT;
    client.request_text(request).await.unwrap();
}

/// The statuses over time, each one once.
async fn history(
    vms: &Api<DynamicObject>,
    instances: &Api<DynamicObject>,
    seconds: u32,
) -> Vec<String> {
    let mut states: Vec<String> = Vec::new();
    for _ in 0..seconds * 50 {
        let vm = vms.get("web").await.unwrap();
        let vmi = instances.get_opt("web").await.unwrap();
        let phase = vmi.as_ref().map_or("-", |vmi| {
            vmi.data["status"]["phase"].as_str().unwrap_or_default()
        });
        let state = format!("{} {phase}", printable(&vm));
        if states.last() != Some(&state) {
            states.push(state);
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    states
}

async fn evict(client: &Client) -> Result<(), kube::Error> {
    let pods = api(client, "", "v1", "Pod");
    let launcher = pods.list(&ListParams::default()).await.unwrap().items;
    let name = launcher[0].metadata.name.clone().unwrap();
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let request = Request::new("/api/v1/namespaces/default/pods")
        .create_subresource(
            "eviction",
            &name,
            &PostParams::default(),
            eviction.to_string().into(),
        )
        .unwrap();
    client.request_text(request).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn an_evicted_guest_shuts_down_and_is_restarted() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let (vms, instances) = running(&client, Value::Null).await;
    let before = instances.get("web").await.unwrap().metadata.uid;
    evict(&client).await.unwrap();
    let states = history(&vms, &instances, 5).await;
    assert!(
        states.contains(&"Stopped Succeeded".to_owned()),
        "{states:?}"
    );
    assert_eq!(states.last().unwrap(), "Running Running", "{states:?}");
    assert!(
        !states.iter().any(|state| state.contains("Failed")),
        "{states:?}"
    );
    assert_ne!(instances.get("web").await.unwrap().metadata.uid, before);
}

#[tokio::test(start_paused = true)]
async fn a_guest_with_an_eviction_strategy_is_migrated() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let (vms, instances) = running(&client, json!("LiveMigrate")).await;
    let before = instances.get("web").await.unwrap();
    let Err(kube::Error::Api(refused)) = evict(&client).await else {
        panic!("the eviction is refused")
    };
    assert_eq!(refused.code, 429);
    assert_eq!(
        refused.message,
        "admission webhook \"virt-launcher-eviction-interceptor.kubevirt.io\" denied the request: \
         Eviction triggered evacuation of VMI \"default/web\""
    );
    let vmi = instances.get("web").await.unwrap();
    assert_eq!(
        vmi.data["status"]["evacuationNodeName"],
        before.data["status"]["nodeName"]
    );
    let states = history(&vms, &instances, 5).await;
    assert_eq!(
        states,
        ["Running Running", "Migrating Running", "Running Running"]
    );
    let moved = instances.get("web").await.unwrap();
    assert_eq!(moved.metadata.uid, before.metadata.uid);
    assert_ne!(
        moved.data["status"]["nodeName"],
        before.data["status"]["nodeName"]
    );
    assert!(moved.data["status"]["evacuationNodeName"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_shuts_itself_down_is_restarted() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let (vms, instances) = running(&client, Value::Null).await;
    let patch = json!({"metadata": {"annotations": {"sandbox.vitistack.io/fail": "Shutdown"}}});
    let params = PatchParams::default();
    instances
        .patch("web", &params, &Patch::Merge(&patch))
        .await
        .unwrap();
    let states = history(&vms, &instances, 5).await;
    assert!(
        states.contains(&"Stopped Succeeded".to_owned()),
        "{states:?}"
    );
    assert_eq!(states.last().unwrap(), "Running Running", "{states:?}");
}

#[tokio::test(start_paused = true)]
async fn stop_start_restart_and_pause_show_in_the_vms_status() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let (vms, instances) = running(&client, Value::Null).await;

    put_subresource(&client, "virtualmachineinstances", "pause", json!({})).await;
    let paused = until(&vms, "web", |vm| printable(vm) == "Paused").await;
    assert_eq!(paused.data["spec"]["runStrategy"], "Always");
    put_subresource(&client, "virtualmachineinstances", "unpause", json!({})).await;
    until(&vms, "web", |vm| printable(vm) == "Running").await;

    put_subresource(&client, "virtualmachines", "restart", json!({})).await;
    let states = history(&vms, &instances, 5).await;
    assert!(
        states.contains(&"Stopping Running".to_owned()),
        "{states:?}"
    );
    assert_eq!(states.last().unwrap(), "Running Running", "{states:?}");

    put_subresource(&client, "virtualmachines", "stop", json!({})).await;
    let states = history(&vms, &instances, 5).await;
    assert_eq!(states.last().unwrap(), "Stopped -", "{states:?}");
    let stopped = vms.get("web").await.unwrap();
    assert_eq!(stopped.data["spec"]["runStrategy"], "Halted");

    put_subresource(&client, "virtualmachines", "start", json!({})).await;
    until(&vms, "web", |vm| printable(vm) == "Running").await;
    let started = vms.get("web").await.unwrap();
    assert_eq!(started.data["spec"]["runStrategy"], "Always");
}
