//! How KubeVirt goes.

use serde_json::{Value, json};

use crate::{
    census::census,
    film::Film,
    ground::{Ground, NAME, NAMESPACE, condition, tell},
};

#[test]
fn nothing_is_left_and_what_is_not_its_own_stays() {
    tell(async {
        let ground = Ground::begin().await;
        let theirs = json!({ "metadata": { "name": "theirs" }, "data": { "a": "b" } });
        ground.create("ConfigMap", theirs).await;
        let labels = json!({ "app.kubernetes.io/managed-by": "somebody" });
        let account = json!({ "metadata": { "name": "theirs", "labels": labels } });
        ground.create("ServiceAccount", account).await;
        ground.wait(60).await;
        let before = census(&ground.client).await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        let states = Film::of(&ground, "KubeVirt").await;
        ground.remove().await;
        // Pods take their time to end.
        ground.wait(300).await;
        let after = census(&ground.client).await;
        let left: Vec<_> = after.symmetric_difference(&before).collect();
        assert!(left.is_empty(), "{left:#?}");
        for node in ground.list("Node").await {
            let labels = node["metadata"]["labels"].as_object().unwrap();
            let mut labels = labels.keys();
            assert!(
                !labels.any(|label| label.starts_with("kubevirt.io/")),
                "{node:#}"
            );
        }
        let phases = states.values(|state| state["status"]["phase"].clone());
        assert_eq!(json!(phases), json!(["Deployed", "Deleting", "Deleted"]));
        // It can be had again.
        ground.install("v1.8.4").await;
        ground.until_deployed("v1.8.4").await;
    });
}

#[test]
fn virtual_machines_go_first_while_there_is_somebody_to_look_after_them() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        run_machine(&ground, "web").await;
        let machines = Film::of(&ground, "VirtualMachineInstance").await;
        let parts = Film::of(&ground, "Deployment").await;
        ground.remove().await;
        let gone = machines
            .first("the end of the machine", |scene| scene.is_gone)
            .await;
        let gone = crate::ground::version(&machines.scenes()[gone].object);
        let removed = parts
            .first("the end of virt-controller", |scene| {
                scene.is_gone && scene.object["metadata"]["name"] == "virt-controller"
            })
            .await;
        assert!(gone < crate::ground::version(&parts.scenes()[removed].object));
        ground.wait(300).await;
        let pods = ground.api_in("Pod", NAMESPACE);
        let left = pods.list(&kube::api::ListParams::default()).await.unwrap();
        assert_eq!(left.items.len(), 0);
    });
}

#[test]
fn a_resource_that_goes_while_it_is_deployed_leaves_nothing() {
    tell(async {
        let ground = Ground::begin().await;
        ground.wait(60).await;
        let before = census(&ground.client).await;
        for reason in [
            "WaitingForStrategy",
            "RollingOutVirtApi",
            "RollingOutVirtHandler",
        ] {
            ground.install("v1.9.0").await;
            ground
                .until("KubeVirt", NAME, |kubevirt| {
                    condition(kubevirt, "Progressing")["reason"] == reason
                })
                .await;
            ground.remove().await;
            ground.wait(300).await;
            let after = census(&ground.client).await;
            let left: Vec<_> = after.symmetric_difference(&before).collect();
            assert!(left.is_empty(), "{reason}: {left:#?}");
        }
    });
}

#[test]
fn a_virt_api_that_does_not_answer_does_not_hold_the_removal_up() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        run_machine(&ground, "web").await;
        ground.fail("Deployment", "virt-api", "NeverReady").await;
        // Its pods are made anew, and fail.
        for pod in ground.list("Pod").await {
            if pod["metadata"]["labels"]["kubevirt.io"] == "virt-api" {
                let name = pod["metadata"]["name"].as_str().unwrap();
                ground.delete("Pod", name).await;
            }
        }
        ground
            .until("Deployment", "virt-api", |api| {
                api["status"]["readyReplicas"].is_null()
            })
            .await;
        ground.remove().await;
    });
}

#[test]
fn what_holds_the_removal_up_is_named_with_its_finalizer() {
    tell(async {
        let mut ground = Ground::with("v1.9.0").await;
        let spec = json!({ "runStrategy": "Halted", "template": machine_template() });
        let metadata = json!({
            "name": "held", "namespace": "default", "finalizers": ["example.com/backup"],
        });
        let vm = json!({ "metadata": metadata, "spec": spec });
        ground.create("VirtualMachine", vm).await;
        ground.delete("KubeVirt", NAME).await;
        ground
            .until("KubeVirt", NAME, |kubevirt| {
                condition(kubevirt, "Progressing")["reason"] == "RemovingWorkloads"
            })
            .await;
        let kubevirt = ground
            .until_within(60, "KubeVirt", NAME, |kubevirt| {
                let message = condition(kubevirt, "Progressing")["message"].to_string();
                let words = ["default/held", "held by example.com/backup"];
                words.iter().all(|words| message.contains(words))
            })
            .await;
        assert_eq!(*condition(&kubevirt, "Synchronized"), Value::Null);
        ground
            .until_event(60, |reason, text| {
                reason == "Waiting" && text.contains("held by example.com/backup")
            })
            .await;
        ground.shorten_deadlines().await;
        let kubevirt = ground
            .until("KubeVirt", NAME, |kubevirt| {
                condition(kubevirt, "Synchronized")["reason"] == "DeletionFailed"
            })
            .await;
        let message = condition(&kubevirt, "Synchronized")["message"].to_string();
        for words in [
            "RemovingWorkloads since ",
            "default/held",
            "example.com/backup",
        ] {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
        // Nobody was taken away who could look after it.
        ground.get("Deployment", "virt-controller").await;
        let free = json!({ "metadata": { "finalizers": null } });
        let api = ground.api_in("VirtualMachine", "default");
        let patch = kube::api::Patch::Merge(free);
        api.patch("held", &kube::api::PatchParams::default(), &patch)
            .await
            .unwrap();
        ground.until_gone("KubeVirt", NAME).await;
    });
}

#[test]
fn a_namespace_that_is_terminating_already_does_not_hold_the_removal_up() {
    tell(async {
        let ground = Ground::begin().await;
        ground.wait(60).await;
        let before = census(&ground.client).await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        ground.delete("Namespace", NAMESPACE).await;
        ground.until_gone("KubeVirt", NAME).await;
        ground.until_gone("Namespace", NAMESPACE).await;
        let after = census(&ground.client).await;
        let left: Vec<_> = after.difference(&before).collect();
        assert!(left.is_empty(), "{left:#?}");
    });
}

#[test]
fn a_removal_that_may_lose_no_machine_waits_for_the_last_and_says_so() {
    tell(async {
        let mut ground = Ground::with("v1.9.0").await;
        let strategy = json!({ "uninstallStrategy": "BlockUninstallIfWorkloadsExist" });
        ground.change(strategy).await;
        let spec = json!({ "runStrategy": "Halted", "template": machine_template() });
        let metadata = json!({ "name": "web", "namespace": "default" });
        let vm = json!({ "metadata": metadata, "spec": spec });
        // It came while nobody looked: after the deletion was let in.
        ground.stop_operator().await;
        ground.delete("KubeVirt", NAME).await;
        ground.create("VirtualMachine", vm).await;
        ground.start_operator();
        let kubevirt = ground
            .until("KubeVirt", NAME, |kubevirt| {
                condition(kubevirt, "Synchronized")["reason"] == "DeletionFailed"
            })
            .await;
        let message = condition(&kubevirt, "Synchronized")["message"].to_string();
        for words in ["default/web", "RemoveWorkloads"] {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
        let api = ground.api_in("VirtualMachine", "default");
        api.delete("web", &kube::api::DeleteParams::default())
            .await
            .unwrap();
        ground.until_gone("KubeVirt", NAME).await;
    });
}

/// A VirtualMachine that runs.
async fn run_machine(ground: &Ground, name: &str) {
    let spec = json!({ "runStrategy": "Always", "template": machine_template() });
    let vm = json!({ "metadata": { "name": name }, "spec": spec });
    ground.create("VirtualMachine", vm).await;
    ground
        .until("VirtualMachineInstance", name, |found| {
            found["status"]["phase"] == "Running"
        })
        .await;
}

fn machine_template() -> Value {
    json!({ "spec": { "domain": { "memory": { "guest": "1Gi" }, "devices": {} } } })
}
