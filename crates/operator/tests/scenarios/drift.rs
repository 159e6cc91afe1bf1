//! Changes of a VirtualMachine by others: drift, and fields that the operator does not set.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::{
    domain::{DOMAIN, at, until_domain},
    runner::run_scenario,
    scenario::Scenario,
};

#[test]
fn drift_is_repaired_and_reported() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;

        let foreign_change = json!({ "spec": { "template": { "spec": { "domain": {
        "memory": { "guest": "16Gi" },
    } } } } });
        let intruder = PatchParams {
            field_manager: Some("intruder".to_owned()),
            ..PatchParams::default()
        };
        let machines = scenario.api("VirtualMachine");
        let foreign_change = Patch::Merge(foreign_change);
        machines
            .patch("web", &intruder, &foreign_change)
            .await
            .unwrap();
        until_domain(&scenario, "web", "/memory/guest", &json!("2Gi")).await;
        scenario.wait(5).await;
        let events = scenario.events("web").await;
        let repair = events.iter().find(|(reason, _)| reason == "DriftCorrected");
        let (_, message) = repair.expect("an Event reports the repair");
        assert!(
            message.contains("spec.template.spec.domain.memory.guest"),
            "{message}"
        );
        assert!(
            message.starts_with("intruder changed VirtualMachine web"),
            "{message}"
        );
    });
}

#[test]
fn a_disk_removed_from_the_virtual_machine_is_restored() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        let foreign_change = json!({ "spec": { "template": { "spec": {
        "volumes": [], "domain": { "devices": { "disks": [] } },
    } } } });
        scenario
            .patch("VirtualMachine", "web", foreign_change)
            .await;
        let vm = scenario
            .until("VirtualMachine", "web", |vm| {
                at(vm, "/spec/template/spec/volumes/0/name") == "root"
            })
            .await;
        assert_eq!(at(&vm, &format!("{DOMAIN}/devices/disks/0/name")), "root");
    });
}

#[test]
fn foreign_fields_are_left_alone() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;

        let foreign_change = json!({
            "metadata": { "labels": { "team": "red" }, "annotations": { "note": "ours" } },
            "spec": { "template": {
                "metadata": { "labels": { "app": "shop" } },
                "spec": {
                    "nodeSelector": { "kubernetes.io/os": "linux" },
                    "tolerations": [{ "key": "gpu", "operator": "Exists" }],
                    "domain": { "ioThreadsPolicy": "auto" },
                },
            } },
        });
        scenario
            .patch("VirtualMachine", "web", foreign_change)
            .await;
        let writes = scenario.writes("virtualmachines");
        // Also after a write of the operator, and after a resync.
        scenario.wait(90).await;
        assert_eq!(scenario.writes("virtualmachines"), writes);
        scenario
            .patch_spec("web", json!({ "cpu": { "cores": 2 } }))
            .await;
        until_domain(&scenario, "web", "/cpu/cores", &json!(2)).await;
        scenario.wait(90).await;

        let vm = scenario.get("VirtualMachine", "web").await;
        assert_eq!(vm["metadata"]["labels"]["team"], "red");
        assert_eq!(vm["metadata"]["annotations"]["note"], "ours");
        let template = &vm["spec"]["template"];
        assert_eq!(template["metadata"]["labels"]["app"], "shop");
        assert_eq!(template["spec"]["tolerations"][0]["key"], "gpu");
        assert_eq!(
            template["spec"]["nodeSelector"]["kubernetes.io/os"],
            "linux"
        );
        assert_eq!(template["spec"]["domain"]["ioThreadsPolicy"], "auto");
        assert!(!scenario.has_event("web", "DriftCorrected").await);
    });
}

#[test]
fn a_user_may_apply_additional_fields_to_the_virtual_machine() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;

        let foreign_change = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": { "name": "web", "labels": { "team": "red" } },
            "spec": { "template": { "spec": { "nodeSelector": { "kubernetes.io/arch": "amd64" } } } },
        });
        let params = PatchParams::apply("kubectl");
        let api = scenario.api("VirtualMachine");
        api.patch("web", &params, &Patch::Apply(foreign_change))
            .await
            .unwrap();
        scenario.patch_spec("web", json!({ "memory": "3Gi" })).await;
        let vm = until_domain(&scenario, "web", "/memory/guest", &json!("3Gi")).await;
        assert_eq!(vm["metadata"]["labels"]["team"], "red");
        let selector = at(&vm, "/spec/template/spec/nodeSelector");
        assert_eq!(selector, &json!({ "kubernetes.io/arch": "amd64" }));
    });
}
