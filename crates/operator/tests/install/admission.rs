//! What is let in of changes to the KubeVirt resource.

use serde_json::{Value, json};

use crate::ground::{Ground, NAME, NAMESPACE, tell};

/// Why a change of the spec is refused.
async fn refusal(ground: &Ground, spec: Value) -> String {
    let patched = ground
        .try_patch("KubeVirt", NAME, json!({ "spec": spec }))
        .await;
    patched.unwrap_err()
}

#[test]
fn a_second_kubevirt_is_refused_wherever_it_is() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        for namespace in [NAMESPACE, "default"] {
            let metadata = json!({ "name": "second", "namespace": namespace });
            let second = json!({ "metadata": metadata, "spec": {} });
            let refused = ground.try_create("KubeVirt", second).await.unwrap_err();
            assert!(
                refused.contains("KubeVirt is already created: kubevirt/kubevirt"),
                "{refused}"
            );
        }
    });
}

#[test]
fn changes_that_cannot_work_are_refused_with_the_field_and_the_reason() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        let toleration = json!({ "operator": "Exists", "value": "a" });
        let placement = json!({ "nodePlacement": { "tolerations": [toleration] } });
        let patch = json!({
            "resourceType": "Deployment", "resourceName": "virt-api", "type": "json",
            "patch": "[{",
        });
        let lifetimes = json!({
            "ca": { "duration": "1h", "renewBefore": "2h" },
            "server": { "duration": "1h" },
        });
        for (spec, field) in [
            (json!({ "infra": { "replicas": 0 } }), "replicas"),
            (json!({ "infra": placement }), "spec.infra.nodePlacement"),
            (
                json!({ "workloads": placement }),
                "spec.workloads.nodePlacement",
            ),
            (
                json!({ "customizeComponents": { "patches": [patch] } }),
                "spec.customizeComponents.patches[0]",
            ),
            (
                json!({ "certificateRotateStrategy": { "selfSigned": lifetimes } }),
                "spec.certificateRotateStrategy.selfSigned",
            ),
            (json!({ "imageTag": "not a tag" }), "spec.imageTag"),
        ] {
            let refused = refusal(&ground, spec).await;
            assert!(refused.contains(field), "{field} is not in {refused}");
        }
        let before = ground.kubevirt().await;
        assert_eq!(before["metadata"]["generation"], 1);
        ground.change(json!({ "infra": { "replicas": 3 } })).await;
        ground.until_deployed("v1.9.0").await;
    });
}

#[test]
fn a_removal_that_would_lose_virtual_machines_is_refused_where_that_is_wished() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        let strategy = json!({ "uninstallStrategy": "BlockUninstallIfWorkloadsExist" });
        ground.change(strategy).await;
        ground.until_deployed("v1.9.0").await;
        let spec = json!({
            "runStrategy": "Halted",
            "template": { "spec": { "domain": { "devices": {} } } },
        });
        for name in ["db", "web"] {
            let metadata = json!({ "name": name, "namespace": "default" });
            let vm = json!({ "metadata": metadata, "spec": spec });
            ground.create("VirtualMachine", vm).await;
        }
        let refused = ground.try_delete("KubeVirt", NAME).await.unwrap_err();
        for words in [
            "VirtualMachine default/db, VirtualMachine default/web",
            "RemoveWorkloads",
        ] {
            assert!(refused.contains(words), "{words:?} is not in {refused}");
        }
        ground
            .change(json!({ "uninstallStrategy": "RemoveWorkloads" }))
            .await;
        ground.remove().await;
    });
}
