//! Admission of changes to the KubeVirt resource.

use serde_json::{Value, json};

use crate::scenario::{InstallScenario, NAME, NAMESPACE, run_scenario};

/// Message of a refused change of the spec.
async fn refusal(scenario: &InstallScenario, spec: Value) -> String {
    let patched = scenario
        .try_patch("KubeVirt", NAME, json!({ "spec": spec }))
        .await;
    patched.unwrap_err()
}

#[test]
fn a_second_kubevirt_resource_is_refused_in_any_namespace() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        for namespace in [NAMESPACE, "default"] {
            let metadata = json!({ "name": "second", "namespace": namespace });
            let second = json!({ "metadata": metadata, "spec": {} });
            let refused = scenario.try_create("KubeVirt", second).await.unwrap_err();
            assert!(
                refused.contains("KubeVirt is already created: kubevirt/kubevirt"),
                "{refused}"
            );
        }
    });
}

#[test]
fn invalid_changes_are_refused_with_field_and_reason() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
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
            let refused = refusal(&scenario, spec).await;
            assert!(refused.contains(field), "{field} is not in {refused}");
        }
        let before = scenario.kubevirt().await;
        assert_eq!(before["metadata"]["generation"], 1);
        scenario
            .patch_spec(json!({ "infra": { "replicas": 3 } }))
            .await;
        scenario.until_deployed("v1.9.0").await;
    });
}

#[test]
fn removal_with_virtual_machines_is_refused_by_the_uninstall_strategy() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        let strategy = json!({ "uninstallStrategy": "BlockUninstallIfWorkloadsExist" });
        scenario.patch_spec(strategy).await;
        scenario.until_deployed("v1.9.0").await;
        let spec = json!({
            "runStrategy": "Halted",
            "template": { "spec": { "domain": { "devices": {} } } },
        });
        for name in ["db", "web"] {
            let metadata = json!({ "name": name, "namespace": "default" });
            let vm = json!({ "metadata": metadata, "spec": spec });
            scenario.create("VirtualMachine", vm).await;
        }
        let refused = scenario.try_delete("KubeVirt", NAME).await.unwrap_err();
        for words in [
            "VirtualMachine default/db, VirtualMachine default/web",
            "RemoveWorkloads",
        ] {
            assert!(refused.contains(words), "{words:?} is not in {refused}");
        }
        scenario
            .patch_spec(json!({ "uninstallStrategy": "RemoveWorkloads" }))
            .await;
        scenario.remove().await;
    });
}
