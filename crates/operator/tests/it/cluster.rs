//! Sandbox on a loopback port, for commands that need a cluster.

use std::path::Path;

use k8s_openapi::api::{core::v1::Node, storage::v1::StorageClass};
use kube::api::ListParams;
use sandbox::{KubeVirtMode, Options, Sandbox, Setup};
use serde_json::Value;

/// Runs `then` with the kubeconfig of a cluster that has this project's definitions.
pub(super) fn with_cluster(objects: &[Value], test: impl FnOnce(&Path)) {
    with_cluster_in_mode(KubeVirtMode::BuiltIn, objects, test);
}

/// The same with another KubeVirt mode.
pub(super) fn with_cluster_in_mode(
    kubevirt: KubeVirtMode,
    objects: &[Value],
    test: impl FnOnce(&Path),
) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let options = Options {
        listen: "127.0.0.1:0".parse().unwrap(),
        kubeconfig: kubeconfig.clone(),
        keep: None,
    };
    let setup = Setup {
        kubevirt,
        definitions: api::crds()
            .iter()
            .map(|definition| serde_json::to_value(definition).unwrap())
            .collect(),
        ..Setup::seeded(1)
    };
    let count = setup.nodes;
    let sandbox = runtime.block_on(async {
        let sandbox = Sandbox::start(setup, &options).await.unwrap();
        let client = sandbox.cluster().client();
        for object in objects {
            sandbox::apply(&client, object.clone()).await.unwrap();
        }
        // The actors create these, and plans read them.
        let classes: kube::Api<StorageClass> = kube::Api::all(client.clone());
        while classes.get_opt("standard").await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        let nodes: kube::Api<Node> = kube::Api::all(client);
        while ready_nodes(&nodes).await < count {
            tokio::task::yield_now().await;
        }
        sandbox
    });
    test(&kubeconfig);
    runtime.block_on(sandbox.stop()).unwrap();
}

async fn ready_nodes(nodes: &kube::Api<Node>) -> usize {
    let found = nodes.list(&ListParams::default()).await.unwrap();
    let is_ready = |node: &&Node| {
        let conditions = node.status.iter().flat_map(|status| &status.conditions);
        let mut conditions = conditions.flatten();
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    found.items.iter().filter(is_ready).count()
}
