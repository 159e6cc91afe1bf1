//! Under the rights that KubeVirt's own operator has.

use serde_json::{Value, json};

use super::{data, life::live, released};
use crate::ground::{Ground, tell};

/// What the operator needs besides the rights of KubeVirt's own operator.
fn missing() -> Value {
    json!([
        {
            "apiGroups": ["scheduling.k8s.io"],
            "resources": ["priorityclasses"],
            "verbs": ["list", "watch"],
        },
    ])
}

#[test]
fn the_rights_of_kubevirts_own_operator_are_enough_with_a_few_more() {
    let Some(data) = data() else { return };
    tell(async {
        let mut ground = Ground::without_rights(released(&data)).await;
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "kubevirt" },
        });
        sandbox::apply(&ground.client, namespace).await.unwrap();
        ground
            .apply_file(data.join("v1.9.0/rbac.operator.yaml"))
            .await;
        grant(&ground, missing()).await;
        ground.start_operator();
        live(&ground, "v1.8.4", "v1.9.0").await;
        let refused = ground.calls.take();
        let refused: Vec<_> = refused
            .into_keys()
            .filter(|(_, _, code)| code == "403")
            .collect();
        assert!(refused.is_empty(), "{refused:#?}");
    });
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
