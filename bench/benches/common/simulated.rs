//! Simulated cluster with room for a number of Machines.

use std::time::Duration;

use http::Request;
use kube::Client;
use sandbox::{Cluster, Setup, Speed};
use serde_json::{Value, json};

/// A cluster whose actors act immediately, with capacity for this many Machines on ten nodes.
pub async fn start(machines: usize) -> Cluster {
    let setup = Setup {
        speed: Speed::Instant,
        nodes: 0,
        start: jiff::Timestamp::now(),
        ..Setup::seeded(1)
    };
    let cluster = Cluster::start(setup, None)
        .await
        .expect("the cluster starts");
    prepare(&cluster.client(), machines).await;
    cluster
}

/// Creates the operator's definitions and ten nodes for this many Machines.
pub async fn prepare(client: &Client, machines: usize) {
    for definition in api::crds() {
        let definition = serde_json::to_value(definition).expect("a definition is JSON");
        sandbox::apply(client, definition)
            .await
            .expect("the API server accepts the definition");
    }
    let capacity = json!({
        "cpu": (machines + 100).to_string(), "memory": format!("{}Gi", 4 * machines + 100),
        "pods": (machines + 100).to_string(), "ephemeral-storage": "100Ti",
        "devices.kubevirt.io/kvm": (machines + 100).to_string(),
        "devices.kubevirt.io/tun": (machines + 100).to_string(),
        "devices.kubevirt.io/vhost-net": (machines + 100).to_string(),
    });
    for number in 1..=10_u32 {
        let range = format!("10.{}.0.0/16", 100 + number);
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": format!("node-{number}"), "labels": {
                sandbox::NODE_LABEL: "true", "kubevirt.io/schedulable": "true",
                "kubernetes.io/arch": "amd64",
            } },
            "spec": { "podCIDR": range, "podCIDRs": [range] },
            "status": { "capacity": capacity },
        });
        sandbox::apply(client, node)
            .await
            .expect("the API server accepts the node");
    }
    until_served(client, "/apis/vitistack.io/v1alpha1/machines").await;
}

/// Waits until an API server serves a collection.
pub async fn until_served(client: &Client, path: &str) {
    loop {
        let request = Request::get(path).body(Vec::new());
        let request = request.expect("the request is valid");
        if client.request::<Value>(request).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
