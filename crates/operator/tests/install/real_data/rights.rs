//! Under the rights that KubeVirt's own operator has, over a release that is left out.

use serde_json::{Value, json};

use super::{change_to, data, life::remove, released};
use crate::{
    census::census,
    ground::{Ground, tell},
};

/// What the operator needs besides the rights of KubeVirt's own operator: it watches priority classes,
/// which releases may bring, and at the removal it deletes pools before their virtual machines, which
/// they would make again.
fn missing() -> Value {
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
fn the_rights_of_kubevirts_own_operator_are_enough_with_a_few_more() {
    let data = data();
    tell(async {
        let mut ground = Ground::without_rights(released(&data)).await;
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "kubevirt" },
        });
        for object in [namespace, authentication_reader()] {
            sandbox::apply(&ground.client, object).await.unwrap();
        }
        ground
            .apply_file(data.join("v1.9.0/rbac.operator.yaml"))
            .await;
        grant(&ground, missing()).await;
        ground.start_operator();
        ground.wait(60).await;
        let before = census(&ground.client).await;
        ground.install("v1.7.4").await;
        ground.until_deployed("v1.7.4").await;
        change_to(&ground, "v1.9.0").await;
        sandbox::apply(&ground.client, pool()).await.unwrap();
        remove(&ground, &before).await;
        let refused = ground.calls.take();
        let refused: Vec<_> = refused
            .into_keys()
            .filter(|(_, _, code)| code == "403")
            .collect();
        assert!(refused.is_empty(), "{refused:#?}");
    });
}

/// A role that every cluster has from its start. A release binds it, which nobody may who has not got
/// the rights that are in it.
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

/// A pool of virtual machines.
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

/// Gives the operator further rights.
async fn grant(ground: &Ground, rules: Value) {
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
        sandbox::apply(&ground.client, object).await.unwrap();
    }
}
