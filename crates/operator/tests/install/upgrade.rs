//! Upgrade and rollback of KubeVirt.

use std::collections::BTreeMap;

use api::kubevirt::install::{PRUNE_DEFINITIONS, ROLLBACK, ROLLBACK_POLICY};
use serde_json::{Value, json};

use crate::{
    recording::{RecordedState, WatchRecording, is_pod_of, is_ready},
    scenario::{InstallScenario, NAME, condition, run_scenario, run_scenario_in_virtual_time},
};

const PRESETS: &str = "virtualmachineinstancepresets.kubevirt.io";

#[test]
fn an_upgrade_starts_with_virt_handler_and_ends_with_virt_api() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.8.4").await;
        let pods = WatchRecording::start(&scenario, "Pod").await;
        let hooks = WatchRecording::start(&scenario, "ValidatingWebhookConfiguration").await;
        let resource = WatchRecording::start(&scenario, "KubeVirt").await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        scenario.until_deployed("v1.9.0").await;

        let of = |state: &RecordedState, component| is_pod_of(&state.object, component, "v1.9.0");
        let first = async |component| pods.first(component, |state| of(state, component)).await;
        let last = |component| {
            let states = pods.states();
            let mut ready_pods = std::collections::BTreeSet::new();
            let is_first = |state: &RecordedState| {
                let name = state.object["metadata"]["name"].to_string();
                of(state, component) && is_ready(&state.object) && ready_pods.insert(name)
            };
            let ready = states.iter().map(is_first).collect::<Vec<_>>();
            ready.iter().rposition(|ready| *ready).unwrap()
        };
        assert!(last("virt-handler") < first("virt-controller").await);
        assert!(last("virt-controller") < first("virt-api").await);
        let is_deleted = async |component| {
            pods.first(component, |state| {
                state.is_deleted && is_pod_of(&state.object, component, "v1.8.4")
            })
            .await
        };
        assert!(is_deleted("virt-controller").await < first("virt-api").await);

        // Objects of the new kind could not be created before their validation was available.
        let temporary = "virt-operator-tmp-webhook";
        let is_temporary = |state: &RecordedState| state.object["metadata"]["name"] == temporary;
        let made = hooks.first(temporary, is_temporary).await;
        let webhooks = &hooks.states()[made].object["webhooks"];
        assert_eq!(webhooks.as_array().unwrap().len(), 1);
        assert_eq!(
            webhooks[0]["rules"][0]["apiGroups"],
            json!(["plugin.kubevirt.io"])
        );
        hooks
            .first("its end", |state| is_temporary(state) && state.is_deleted)
            .await;

        // It was available all the time and reported its progress.
        let available = resource.values(|state| condition(state, "Available")["status"].clone());
        assert_eq!(json!(available), json!(["True"]));
        let stages = resource.values(|state| condition(state, "Progressing")["reason"].clone());
        for stage in [
            "RollingOutVirtHandler",
            "RollingOutVirtController",
            "RollingOutVirtApi",
        ] {
            assert!(stages.contains(&json!(stage)), "{stages:#?}");
        }
        let message = resource.values(|state| condition(state, "Progressing")["message"].clone());
        let message = json!(message).to_string();
        assert!(
            message.contains("Transitioning from previous version v1.8.4"),
            "{message}"
        );
    });
}

#[test]
fn obsolete_objects_are_deleted_after_the_rollout() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.8.4").await;
        let definitions = WatchRecording::start(&scenario, "CustomResourceDefinition").await;
        let states = WatchRecording::start(&scenario, "KubeVirt").await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        scenario.until_deployed("v1.9.0").await;
        let gone = definitions
            .first("the end of presets", |state| {
                state.is_deleted && state.object["metadata"]["name"] == PRESETS
            })
            .await;
        let gone = crate::scenario::version(&definitions.states()[gone].object);
        let rolled_over = states
            .first("virt-api", |state| {
                condition(&state.object, "Progressing")["reason"] == "RollingOutVirtApi"
            })
            .await;
        assert!(crate::scenario::version(&states.states()[rolled_over].object) < gone);
        scenario
            .get("CustomResourceDefinition", "plugins.plugin.kubevirt.io")
            .await;
        scenario.get("Service", "kubevirt-plugins").await;
        // No object of the old version is left. Certificates have no version.
        for found in crate::inventory::managed_objects(&scenario).await {
            if found.resource.kind == "Secret" {
                continue;
            }
            let annotations = &found.object["metadata"]["annotations"];
            let version = &annotations["kubevirt.io/install-strategy-version"];
            assert_eq!(version, "v1.9.0", "{}", found.name);
        }
    });
}

#[test]
fn an_obsolete_definition_with_objects_stays_until_confirmed() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.8.4").await;
        let preset = json!({ "metadata": { "name": "old" } });
        scenario
            .create("VirtualMachineInstancePreset", preset)
            .await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        let kubevirt = scenario.until_deployed("v1.9.0").await;
        let available = condition(&kubevirt, "Available")["message"].to_string();
        for words in [PRESETS, "the operator keeps definition", "kubevirt/old"] {
            assert!(available.contains(words), "{words:?} is not in {available}");
        }
        scenario.get("VirtualMachineInstancePreset", "old").await;

        scenario.annotate(PRUNE_DEFINITIONS, "true").await;
        scenario
            .until_gone("CustomResourceDefinition", PRESETS)
            .await;
    });
}

#[test]
fn an_obsolete_definition_is_deleted_after_its_last_object() {
    // Objects of a kept definition are counted every few minutes.
    run_scenario_in_virtual_time(async {
        let scenario = InstallScenario::with_version("v1.8.4").await;
        let preset = json!({ "metadata": { "name": "old" } });
        scenario
            .create("VirtualMachineInstancePreset", preset)
            .await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        scenario.until_deployed("v1.9.0").await;
        scenario.delete("VirtualMachineInstancePreset", "old").await;
        scenario
            .until_gone("CustomResourceDefinition", PRESETS)
            .await;
    });
}

#[test]
fn virt_handler_rolls_out_to_one_node_then_a_tenth_then_all() {
    run_scenario(async {
        let scenario = InstallScenario::start_with(|setup| setup.nodes = 22).await;
        scenario.install("v1.8.4").await;
        scenario.until_deployed("v1.8.4").await;
        let pods = WatchRecording::start(&scenario, "Pod").await;
        let handlers = WatchRecording::start(&scenario, "DaemonSet").await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(60).await;

        let max_unavailable = handlers.values(|handler| {
            handler["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"].clone()
        });
        assert_eq!(json!(max_unavailable), json!([1, "10%", 1]));

        let mut there: BTreeMap<String, Value> = BTreeMap::new();
        let mut most_away = 0;
        let mut canary_was_ready = false;
        for RecordedState { object, is_deleted } in pods.states() {
            if object["metadata"]["labels"]["kubevirt.io"] != "virt-handler" {
                continue;
            }
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            if is_deleted {
                there.remove(&name);
            } else {
                there.insert(name, object);
            }
            let new = || {
                there
                    .values()
                    .filter(|pod| is_pod_of(pod, "virt-handler", "v1.9.0"))
            };
            canary_was_ready |= new().any(is_ready);
            assert!(
                canary_was_ready || new().count() < 2,
                "two nodes tried it at once"
            );
            let alive =
                |pod: &&Value| is_ready(pod) && pod["metadata"].get("deletionTimestamp").is_none();
            let nodes = there.values().filter(alive).count();
            if canary_was_ready {
                most_away = most_away.max(22_usize.saturating_sub(nodes));
            }
        }
        assert!(
            (2..=3).contains(&most_away),
            "{most_away} of 22 were away at once"
        );
    });
}

#[test]
fn a_crashing_canary_stops_the_rollout() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.8.4").await;
        crash_new_handlers(&scenario).await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        let degraded = until_failed(&scenario).await;
        let message = degraded["message"].as_str().unwrap();
        for words in [
            "DaemonSet kubevirt/virt-handler rollout failed, no further node gets it",
            "pod virt-handler-",
            "on node ",
            "CrashLoopBackOff",
        ] {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
        scenario.wait(1800).await;
        let pods = scenario.list("Pod").await;
        let count = |component: &str, version: &str| {
            let of = pods.iter().filter(|pod| is_pod_of(pod, component, version));
            of.filter(|pod| is_ready(pod) || version == "v1.9.0")
                .count()
        };
        assert_eq!(count("virt-handler", "v1.8.4"), 2);
        assert_eq!(count("virt-handler", "v1.9.0"), 1);
        assert_eq!(count("virt-controller", "v1.8.4"), 2);
        assert_eq!(count("virt-api", "v1.8.4"), 2);
        scenario
            .until_event(60, |reason, _| reason == "FailedUpdate")
            .await;
        let events = scenario.events().await;
        let events = events.iter().filter(|(reason, _)| reason == "FailedUpdate");
        assert_eq!(events.count(), 1);

        // The rollout continues once the cause is gone.
        scenario.set_fault("DaemonSet", "virt-handler", "").await;
        scenario.until_deployed("v1.9.0").await;
    });
}

#[test]
fn a_failed_upgrade_is_rolled_back_when_requested() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.8.4").await;
        let before = crate::inventory::snapshot(&scenario).await;
        crash_new_handlers(&scenario).await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        until_failed(&scenario).await;
        scenario.annotate(ROLLBACK, "true").await;
        let kubevirt = until_rolled_back(&scenario).await;
        assert_eq!(kubevirt["metadata"]["annotations"].get(ROLLBACK), None);
        scenario
            .until_event(60, |reason, message| {
                reason == "RollbackStarted"
                    && message == "Rolling back from version v1.9.0 to version v1.8.4, as requested"
            })
            .await;
        scenario.set_fault("DaemonSet", "virt-handler", "").await;
        scenario.wait(120).await;
        assert_eq!(crate::inventory::snapshot(&scenario).await, before);

        // The failed version is not retried, but a new target is.
        scenario.patch_spec(json!({ "imageTag": "v1.9.1" })).await;
        scenario.until_deployed("v1.9.1").await;
        assert_eq!(
            scenario.until_condition("Degraded", "False").await["status"],
            "False"
        );
    });
}

#[test]
fn a_failed_upgrade_is_rolled_back_automatically_by_policy() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.8.4").await;
        crash_new_handlers(&scenario).await;
        scenario.annotate(ROLLBACK_POLICY, "OnFailure").await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        until_rolled_back(&scenario).await;
        let pods = scenario.list("Pod").await;
        assert!(
            !pods
                .iter()
                .any(|pod| is_pod_of(pod, "virt-handler", "v1.9.0"))
        );
    });
}

#[test]
fn a_rollback_restores_virt_api_before_virt_controller() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.8.4").await;
        scenario
            .set_fault("Deployment", "virt-api", "NeverReady=virt-api:v1.9.0")
            .await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        scenario
            .until("KubeVirt", NAME, |kubevirt| {
                condition(kubevirt, "Progressing")["reason"] == "RollingOutVirtApi"
            })
            .await;
        let pods = WatchRecording::start(&scenario, "Pod").await;
        scenario.annotate(ROLLBACK, "true").await;
        until_rolled_back(&scenario).await;
        let is_staying =
            |state: &RecordedState| state.object["metadata"].get("deletionTimestamp").is_none();
        let mut was = Vec::new();
        for component in ["virt-controller", "virt-handler"] {
            let first = pods.first(component, |state| {
                is_pod_of(&state.object, component, "v1.8.4") && is_staying(state)
            });
            was.push(first.await);
        }
        let states = pods.states();
        let is_new_api = |state: &RecordedState| is_pod_of(&state.object, "virt-api", "v1.9.0");
        // None, if the rollback is requested before the first was created.
        let api_is_back = states
            .iter()
            .rposition(|state| is_new_api(state) && is_staying(state));
        assert!(was.into_iter().all(|was| api_is_back < Some(was)));
    });
}

#[test]
fn a_stalled_step_is_degraded_with_pod_node_and_message() {
    run_scenario(async {
        let mut scenario = InstallScenario::with_version("v1.8.4").await;
        scenario.shorten_deadlines().await;
        scenario
            .set_fault(
                "Deployment",
                "virt-controller",
                "ImagePullBackOff=virt-controller:v1.9.0",
            )
            .await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        let degraded = scenario
            .until("KubeVirt", NAME, |kubevirt| {
                condition(kubevirt, "Degraded")["reason"] == "Stalled"
            })
            .await;
        let message = condition(&degraded, "Degraded")["message"]
            .as_str()
            .unwrap();
        for words in [
            "RollingOutVirtController since ",
            "Deployment kubevirt/virt-controller",
            "pod virt-controller-",
            "on node ",
            "container virt-controller: ImagePullBackOff: Back-off pulling image",
            "virt-controller:v1.9.0",
        ] {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
        assert_eq!(condition(&degraded, "Available")["status"], "True");
        let api = scenario.list("Pod").await;
        assert!(!api.iter().any(|pod| is_pod_of(pod, "virt-api", "v1.9.0")));
        scenario
            .set_fault("Deployment", "virt-controller", "")
            .await;
        scenario.until_deployed("v1.9.0").await;
    });
}

#[test]
fn a_node_that_is_down_does_not_block_an_upgrade() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.8.4").await;
        let nodes = scenario.list("Node").await;
        let down = nodes[2]["metadata"]["name"].as_str().unwrap();
        scenario.set_fault("Node", down, "NotReady").await;
        scenario
            .until("Node", down, |node| {
                condition(node, "Ready")["status"] != "True"
            })
            .await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        let kubevirt = scenario.until_deployed("v1.9.0").await;
        let available = condition(&kubevirt, "Available")["message"].to_string();
        assert!(available.contains(down), "{available}");
    });
}

#[test]
fn a_new_operator_upgrades_a_resource_without_a_version() {
    run_scenario(async {
        let mut scenario = InstallScenario::without_operator(|_| {}).await;
        let image = |version: &str| {
            Some(format!(
                "{}/virt-operator:{version}",
                crate::scenario::REGISTRY
            ))
        };
        scenario.options.operator.image = image("v1.8.4");
        scenario.start_operator();
        scenario.install_with(json!({})).await;
        scenario.until_deployed("v1.8.4").await;
        scenario.stop_operator().await;
        scenario.options.operator.image = image("v1.9.0");
        scenario.start_operator();
        scenario.until_deployed("v1.9.0").await;
        // A rollback can still be requested.
        scenario
            .patch_spec(json!({ "imageTag": "v1.8.4", "imageRegistry": crate::scenario::REGISTRY }))
            .await;
        scenario.until_deployed("v1.8.4").await;
        scenario.get("CustomResourceDefinition", PRESETS).await;
        scenario.until_gone("Service", "kubevirt-plugins").await;
    });
}

#[test]
fn an_upgrade_retargeted_halfway_continues_to_the_other_version() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.8.4").await;
        crash_new_handlers(&scenario).await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        until_failed(&scenario).await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.1" })).await;
        scenario.until_deployed("v1.9.1").await;
        let versions = |pods: Vec<Value>| {
            let of = pods.into_iter().map(|pod| {
                pod["metadata"]["annotations"]["kubevirt.io/install-strategy-version"].clone()
            });
            of.collect::<std::collections::HashSet<_>>()
        };
        scenario.wait(60).await;
        assert_eq!(
            versions(scenario.list("Pod").await),
            [json!("v1.9.1")].into()
        );
    });
}

/// Makes the pods of virt-handler 1.9.0 crash.
async fn crash_new_handlers(scenario: &InstallScenario) {
    let word = "CrashLoopBackOff=virt-handler:v1.9.0";
    scenario.set_fault("DaemonSet", "virt-handler", word).await;
}

async fn until_failed(scenario: &InstallScenario) -> Value {
    let kubevirt = scenario
        .until("KubeVirt", NAME, |kubevirt| {
            condition(kubevirt, "Degraded")["reason"] == "RolloutFailed"
        })
        .await;
    condition(&kubevirt, "Degraded").clone()
}

async fn until_rolled_back(scenario: &InstallScenario) -> Value {
    scenario
        .until("KubeVirt", NAME, |kubevirt| {
            condition(kubevirt, "Degraded")["reason"] == "RolledBack"
                && kubevirt["status"]["observedKubeVirtVersion"] == "v1.8.4"
        })
        .await
}

#[test]
fn an_unknown_rollback_value_is_answered_with_an_event() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        scenario.annotate(ROLLBACK, "yes").await;
        let kubevirt = scenario
            .until("KubeVirt", NAME, |kubevirt| {
                kubevirt["metadata"]["annotations"].get(ROLLBACK).is_none()
            })
            .await;
        assert_eq!(kubevirt["status"]["observedKubeVirtVersion"], "v1.9.0");
        scenario
            .until_event(60, |reason, message| {
                reason == "AnnotationIgnored" && message.contains("\"yes\" is ignored")
            })
            .await;
    });
}
