//! KubeVirt that is missing, installed later, removed or unreachable.

use std::collections::BTreeSet;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use sandbox::{Cluster, Component, Setup};
use serde_json::json;

use super::{api, claim, cluster_api, create, printable, until, vm};

#[tokio::test(start_paused = true)]
async fn a_cluster_without_kubevirt_gets_it_later() {
    let setup = Setup {
        without: BTreeSet::from(Component::ALL),
        ..Setup::seeded(1)
    };
    let cluster = Cluster::start(setup, None).await.unwrap();
    let client = cluster.client();
    let vms = api(&client, "kubevirt.io", "v1", "VirtualMachine");
    let claims = api(&client, "", "v1", "PersistentVolumeClaim");
    create(&claims, claim("root")).await.unwrap();
    until(&claims, "root", |claim| {
        claim.data["status"]["phase"] == "Bound"
    })
    .await;
    let kube::Error::Api(refused) = create(&vms, vm("web")).await.unwrap_err() else {
        panic!("an answer of the server")
    };
    assert_eq!(refused.code, 404);
    let groups = client.list_api_groups().await.unwrap().groups;
    assert!(
        groups
            .iter()
            .all(|group| !group.name.contains("kubevirt.io")),
        "{groups:?}"
    );

    cluster.install(Component::KubeVirt).await.unwrap();
    create(&vms, vm("web")).await.unwrap();
    until(&vms, "web", |vm| printable(vm) == "Running").await;
}

#[tokio::test(start_paused = true)]
async fn removing_kubevirt_deletes_its_objects_and_it_can_be_installed_again() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let vms = api(&client, "kubevirt.io", "v1", "VirtualMachine");
    let pods = api(&client, "", "v1", "Pod");
    let claims = api(&client, "", "v1", "PersistentVolumeClaim");
    create(&claims, claim("root")).await.unwrap();
    create(&vms, vm("web")).await.unwrap();
    until(&vms, "web", |vm| printable(vm) == "Running").await;

    cluster.uninstall(Component::KubeVirt).await.unwrap();
    let definitions = cluster_api(
        &client,
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    );
    let (mut served, mut running) = (true, true);
    for _ in 0..1000 {
        let left = definitions
            .get_opt("virtualmachines.kubevirt.io")
            .await
            .unwrap();
        served = left.is_some();
        running = !pods
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty();
        if !served && !running {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    assert!(!served && !running, "{served} {running}");

    cluster.install(Component::KubeVirt).await.unwrap();
    create(&vms, vm("web")).await.unwrap();
    until(&vms, "web", |vm| printable(vm) == "Running").await;
}

#[tokio::test(start_paused = true)]
async fn vms_cannot_be_written_while_virt_api_is_unreachable() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let vms = api(&client, "kubevirt.io", "v1", "VirtualMachine");
    let definitions = cluster_api(
        &client,
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    );
    create(
        &api(&client, "", "v1", "PersistentVolumeClaim"),
        claim("root"),
    )
    .await
    .unwrap();
    create(&vms, vm("web")).await.unwrap();
    until(&vms, "web", |vm| printable(vm) == "Running").await;
    let fault = async |fault: serde_json::Value| {
        let patch = json!({"metadata": {"annotations": {"sandbox.vitistack.io/fail": fault}}});
        let params = PatchParams::default();
        let name = "virtualmachines.kubevirt.io";
        definitions
            .patch(name, &params, &Patch::Merge(&patch))
            .await
            .unwrap();
    };

    fault(json!("WebhookUnavailable")).await;
    let kube::Error::Api(refused) = create(&vms, vm("other")).await.unwrap_err() else {
        panic!("an answer of the server")
    };
    assert_eq!(
        (refused.code, refused.reason.as_str()),
        (500, "InternalError")
    );
    assert_eq!(
        refused.message,
        "Internal error occurred: failed calling webhook \
         \"virtualmachines-mutator.kubevirt.io\": failed to call webhook: Post \
         \"https://virt-api.kubevirt.svc:443/virtualmachines-mutate?timeout=10s\": dial tcp \
         10.96.0.2:443: connect: connection refused"
    );
    let stop = kube::core::Request::new(
        "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines",
    )
    .create_subresource("pause", "web", &PostParams::default(), Vec::new());
    let Err(kube::Error::Api(refused)) = client.request_text(stop.unwrap()).await else {
        panic!("an answer of the server")
    };
    assert_eq!(refused.code, 503);
    // Running VMs are still readable, and a deletion is accepted but not completed.
    vms.get("web").await.unwrap();
    vms.delete("web", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(vms.get_opt("web").await.unwrap().is_some());

    fault(serde_json::Value::Null).await;
    create(&vms, vm("other")).await.unwrap();
    for _ in 0..1000 {
        if vms.get_opt("web").await.unwrap().is_none() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    panic!("the VM is not deleted");
}
