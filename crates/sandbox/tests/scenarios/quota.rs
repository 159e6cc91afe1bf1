//! Namespaces with ResourceQuotas.

use kube::api::{DynamicObject, Patch, PatchParams};
use sandbox::{Cluster, Setup};
use serde_json::{Value, json};

use super::{api, claim, create, printable, until, vm};

fn quota(hard: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "limits"}, "spec": {"hard": hard},
    })
}

fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> String {
    let Err(kube::Error::Api(refused)) = result else {
        panic!("a refusal and not {result:?}")
    };
    assert_eq!(refused.code, 403);
    refused.message.clone()
}

fn is_counted(quota: &DynamicObject) -> bool {
    quota.data["status"]["used"].is_object()
}

#[tokio::test(start_paused = true)]
async fn a_vm_over_quota_reports_it_and_starts_once_the_quota_allows() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let quotas = api(&client, "", "v1", "ResourceQuota");
    let vms = api(&client, "kubevirt.io", "v1", "VirtualMachine");
    let instances = api(&client, "kubevirt.io", "v1", "VirtualMachineInstance");
    create(&quotas, quota(&json!({"requests.memory": "1Gi"})))
        .await
        .unwrap();
    until(&quotas, "limits", is_counted).await;
    let claims = api(&client, "", "v1", "PersistentVolumeClaim");
    create(&claims, claim("root")).await.unwrap();
    create(&vms, vm("web")).await.unwrap();

    let synchronized = |vmi: &DynamicObject| {
        let conditions = vmi.data["status"]["conditions"].as_array().cloned();
        conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "Synchronized")
    };
    let refused = until(&instances, "web", |vmi| synchronized(vmi).is_some()).await;
    let condition = synchronized(&refused).unwrap();
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("FailedCreate"))
    );
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.starts_with("failed to create virtual machine pod: pods \"virt-launcher-web-"),
        "{message}"
    );
    assert!(
        message.contains("is forbidden: exceeded quota: limits, requested: requests.memory="),
        "{message}"
    );
    assert_eq!(refused.data["status"]["phase"], "Pending");
    let starting = until(&vms, "web", |vm| {
        let conditions = vm.data["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|one| one["reason"] == "FailedCreate"))
    })
    .await;
    assert_eq!(printable(&starting), "Starting");

    let raised = json!({"spec": {"hard": {"requests.memory": "8Gi"}}});
    let params = PatchParams::default();
    quotas
        .patch("limits", &params, &Patch::Merge(&raised))
        .await
        .unwrap();
    until(&vms, "web", |vm| printable(vm) == "Running").await;
    let running = instances.get("web").await.unwrap();
    assert!(synchronized(&running).is_none());
}

#[tokio::test(start_paused = true)]
async fn an_expanded_claim_is_charged_for_the_difference() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let quotas = api(&client, "", "v1", "ResourceQuota");
    create(&quotas, quota(&json!({"requests.storage": "3Gi"})))
        .await
        .unwrap();
    until(&quotas, "limits", is_counted).await;
    let claims = api(&client, "", "v1", "PersistentVolumeClaim");
    create(&claims, claim("root")).await.unwrap();
    until(&claims, "root", |claim| {
        claim.data["status"]["phase"] == "Bound"
    })
    .await;
    let grow = async |to: &str| {
        let patch = json!({"spec": {"resources": {"requests": {"storage": to}}}});
        let params = PatchParams::default();
        claims.patch("root", &params, &Patch::Merge(&patch)).await
    };
    assert_eq!(
        refusal(grow("4Gi").await),
        "persistentvolumeclaims \"root\" is forbidden: exceeded quota: limits, requested: \
         requests.storage=3Gi, used: requests.storage=1Gi, limited: requests.storage=3Gi"
    );
    grow("3Gi").await.unwrap();
    let used = quotas.get("limits").await.unwrap();
    assert_eq!(used.data["status"]["used"]["requests.storage"], "3Gi");
}

#[tokio::test(start_paused = true)]
async fn virtual_machines_can_be_counted() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let quotas = api(&client, "", "v1", "ResourceQuota");
    let vms = api(&client, "kubevirt.io", "v1", "VirtualMachine");
    let hard = json!({"count/virtualmachines.kubevirt.io": "1"});
    create(&quotas, quota(&hard)).await.unwrap();
    until(&quotas, "limits", is_counted).await;
    create(&vms, vm("a")).await.unwrap();
    assert_eq!(
        refusal(create(&vms, vm("b")).await),
        "virtualmachines.kubevirt.io \"b\" is forbidden: exceeded quota: limits, requested: \
         count/virtualmachines.kubevirt.io=1, used: count/virtualmachines.kubevirt.io=1, limited: \
         count/virtualmachines.kubevirt.io=1"
    );
}
