//! Scenarios of the actors beside a real API server: `e2e/run actors`.
//!
//! The actors refuse a cluster with foreign nodes; they bring up, stop and remove what users create. The
//! API server is that of `KUBECONFIG`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod cluster;
mod null_strings;
mod program;
#[path = "../harness/skipped.rs"]
mod skipped;

use serde_json::{Value, json};
use tokio::sync::Mutex;

use cluster::{Cluster, condition};
use program::Simulate;
use skipped::{skip, skip_checks};

const NODES: usize = 3;

/// A cluster has one set of nodes, so only one test uses it at a time.
static NODES_IN_USE: Mutex<()> = Mutex::const_new(());

#[tokio::test]
#[ignore = "needs a real API server: e2e/run actors"]
async fn a_cluster_with_nodes_is_refused() {
    let _in_use = NODES_IN_USE.lock().await;
    let cluster = Cluster::connect().await;
    if let Some(node) = cluster.foreign_node().await {
        return assert_refused(&node);
    }
    let name = "somebody-elses";
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    cluster.create(node).await;
    assert_refused(name);
    cluster.delete("v1", "Node", name).await;
    cluster.until_gone("v1", "Node", name).await;
}

#[tokio::test]
#[ignore = "needs a real API server without nodes: e2e/run actors"]
async fn the_actors_serve_a_real_api_server() {
    let _in_use = NODES_IN_USE.lock().await;
    let cluster = Cluster::connect().await;
    if cluster.foreign_node().await.is_some() {
        return skip("this cluster has nodes of its own");
    }
    cluster.define(&program::definitions()).await;
    let has_controllers = cluster.has_namespace_controller().await;

    let simulate = Simulate::start();
    nodes_become_ready(&cluster).await;
    cluster.allow_null_strings().await;
    cluster.create_namespace().await;
    workloads_run(&cluster).await;
    a_machine_starts_and_stops(&cluster).await;
    all_objects_are_deleted(&cluster).await;
    if has_controllers {
        owned_objects_are_deleted(&cluster).await;
    } else {
        skip_checks("no garbage collector: no kube-controller-manager runs beside this API server");
    }
    simulate.stop();
    cluster.delete_all("v1", "Node").await;
}

fn assert_refused(node: &str) {
    let (code, errors) = program::run_refused();
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("which is not simulated"), "{errors}");
    assert!(errors.contains(node), "{errors}");
}

async fn nodes_become_ready(cluster: &Cluster) {
    for number in 1..=NODES {
        let name = format!("node-{number}");
        cluster
            .until("v1", "Node", &name, |node| condition(node, "Ready"))
            .await;
    }
}

async fn workloads_run(cluster: &Cluster) {
    let pod = json!({"containers": [{"name": "c", "image": "registry.example.com/i"}]});
    let mut once = pod.clone();
    once["restartPolicy"] = "Never".into();
    for object in [
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"},
            "spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod}}}),
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"},
            "spec": {"template": {"spec": once}}}),
        json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
            "metadata": {"name": "disk"},
            "spec": {"source": {"blank": {}},
                "storage": {"resources": {"requests": {"storage": "1Gi"}}}}}),
    ] {
        cluster.create(object).await;
    }
    cluster
        .until("v1", "PersistentVolumeClaim", "claim", |claim| {
            claim["status"]["phase"] == "Bound"
        })
        .await;
    cluster
        .until("apps/v1", "Deployment", "web", |deployment| {
            deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"]
                && deployment["status"]["availableReplicas"] == 3
        })
        .await;
    cluster
        .until("batch/v1", "Job", "once", |job| condition(job, "Complete"))
        .await;
    cluster
        .until("cdi.kubevirt.io/v1beta1", "DataVolume", "disk", |volume| {
            volume["status"]["phase"] == "Succeeded"
        })
        .await;
}

async fn a_machine_starts_and_stops(cluster: &Cluster) {
    for object in program::rendered("examples/machine-small.yaml") {
        cluster.create(object).await;
    }
    let shows = |status: &'static str| move |vm: &Value| vm["status"]["printableStatus"] == status;
    cluster
        .until(
            "kubevirt.io/v1",
            "VirtualMachine",
            "small",
            shows("Running"),
        )
        .await;
    let halt = json!({"spec": {"runStrategy": "Halted"}});
    cluster
        .merge("kubevirt.io/v1", "VirtualMachine", "small", halt)
        .await;
    cluster
        .until(
            "kubevirt.io/v1",
            "VirtualMachine",
            "small",
            shows("Stopped"),
        )
        .await;
    cluster
        .until_gone("kubevirt.io/v1", "VirtualMachineInstance", "small")
        .await;
}

async fn all_objects_are_deleted(cluster: &Cluster) {
    let objects = [
        ("kubevirt.io/v1", "VirtualMachine", "small"),
        ("cdi.kubevirt.io/v1beta1", "DataVolume", "disk"),
        ("batch/v1", "Job", "once"),
        ("apps/v1", "Deployment", "web"),
        ("v1", "PersistentVolumeClaim", "claim"),
        ("v1", "PersistentVolumeClaim", "small-root"),
    ];
    for (api_version, kind, name) in objects {
        cluster.delete(api_version, kind, name).await;
    }
    for (api_version, kind, name) in objects {
        cluster.until_gone(api_version, kind, name).await;
    }
}

async fn owned_objects_are_deleted(cluster: &Cluster) {
    cluster.until_none("v1", "Pod").await;
    cluster.until_none("v1", "PersistentVolume").await;
    cluster.delete_namespace().await;
}
