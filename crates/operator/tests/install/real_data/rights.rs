//! Installation with the rights of upstream's virt-operator, over a release of it.

use serde_json::{Value, json};

use super::{data_folder, lifecycle::remove, upgrade_to, with_released_strategies};
use crate::{
    inventory::inventory,
    scenario::{InstallScenario, run_scenario},
};

/// Rights that the operator needs beyond those of upstream's virt-operator: it watches PriorityClasses,
/// which releases may contain, and at the removal it deletes pools before their VirtualMachines, which
/// the pools would recreate.
fn additional_rules() -> Value {
    json!([
        {
            "apiGroups": ["scheduling.k8s.io"],
            "resources": ["priorityclasses"],
            "verbs": ["list", "watch"],
        },
        {
            "apiGroups": ["pool.kubevirt.io"],
            "resources": ["virtualmachinepools"],
            "verbs": ["deletecollection"],
        },
    ])
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn the_rights_of_upstream_virt_operator_suffice_with_few_additions() {
    let data = data_folder();
    run_scenario(async {
        let mut scenario = InstallScenario::without_rights(with_released_strategies(&data)).await;
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "kubevirt" },
        });
        for object in [namespace, authentication_reader()] {
            sandbox::apply(&scenario.client, object).await.unwrap();
        }
        scenario
            .apply_file(data.join("v1.9.0/rbac.operator.yaml"))
            .await;
        grant(&scenario, additional_rules()).await;
        scenario.start_operator();
        scenario.wait(60).await;
        let before = inventory(&scenario.client).await;
        scenario.install("v1.7.4").await;
        scenario.until_deployed("v1.7.4").await;
        upgrade_to(&scenario, "v1.9.0").await;
        sandbox::apply(&scenario.client, pool()).await.unwrap();
        remove(&scenario, &before).await;
        let refused = scenario.calls.take();
        let refused: Vec<_> = refused
            .into_keys()
            .filter(|(_, _, code)| code == "403")
            .collect();
        assert!(refused.is_empty(), "{refused:#?}");
    });
}

/// Role that every cluster has. A release binds it, which requires the rights in it.
fn authentication_reader() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {
            "name": "extension-apiserver-authentication-reader", "namespace": "kube-system",
        },
        "rules": [{
            "apiGroups": [""], "resources": ["configmaps"],
            "resourceNames": ["extension-apiserver-authentication"],
            "verbs": ["get", "list", "watch"],
        }],
    })
}

fn pool() -> Value {
    let labels = json!({ "example.com/pool": "web" });
    let domain = json!({ "devices": {} });
    json!({
        "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": labels },
            "virtualMachineTemplate": {
                "metadata": { "labels": labels },
                "spec": {
                    "runStrategy": "Halted",
                    "template": { "metadata": { "labels": labels }, "spec": { "domain": domain } },
                },
            },
        },
    })
}

async fn grant(scenario: &InstallScenario, rules: Value) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "more" }, "rules": rules,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "more" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "more",
        },
        "subjects": [{
            "kind": "ServiceAccount", "name": "kubevirt-operator", "namespace": "kubevirt",
        }],
    });
    for object in [role, binding] {
        sandbox::apply(&scenario.client, object).await.unwrap();
    }
}
