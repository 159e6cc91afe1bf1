//! How one version of KubeVirt takes the place of another.

use std::collections::BTreeMap;

use api::kubevirt::install::{PRUNE_DEFINITIONS, ROLLBACK, ROLLBACK_POLICY};
use serde_json::{Value, json};

use crate::{
    film::{Film, Scene, is_pod_of, is_ready},
    ground::{Ground, NAME, condition, tell, tell_in_virtual_time},
};

const PRESETS: &str = "virtualmachineinstancepresets.kubevirt.io";

#[test]
fn virt_handler_goes_first_and_virt_api_last() {
    tell(async {
        let ground = Ground::with("v1.8.4").await;
        let pods = Film::of(&ground, "Pod").await;
        let hooks = Film::of(&ground, "ValidatingWebhookConfiguration").await;
        let resource = Film::of(&ground, "KubeVirt").await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        ground.until_deployed("v1.9.0").await;

        let of = |scene: &Scene, component| is_pod_of(&scene.object, component, "v1.9.0");
        let first = async |component| pods.first(component, |scene| of(scene, component)).await;
        let last = |component| {
            let scenes = pods.scenes();
            let mut seen = std::collections::BTreeSet::new();
            let is_first = |scene: &Scene| {
                let name = scene.object["metadata"]["name"].to_string();
                of(scene, component) && is_ready(&scene.object) && seen.insert(name)
            };
            let ready = scenes.iter().map(is_first).collect::<Vec<_>>();
            ready.iter().rposition(|ready| *ready).unwrap()
        };
        assert!(last("virt-handler") < first("virt-controller").await);
        assert!(last("virt-controller") < first("virt-api").await);
        let is_gone = async |component| {
            pods.first(component, |scene| {
                scene.is_gone && is_pod_of(&scene.object, component, "v1.8.4")
            })
            .await
        };
        assert!(is_gone("virt-controller").await < first("virt-api").await);

        // Nobody could make the new kind before there was somebody to check it.
        let temporary = "virt-operator-tmp-webhook";
        let is_temporary = |scene: &Scene| scene.object["metadata"]["name"] == temporary;
        let made = hooks.first(temporary, is_temporary).await;
        let held = &hooks.scenes()[made].object["webhooks"];
        assert_eq!(held.as_array().unwrap().len(), 1);
        assert_eq!(
            held[0]["rules"][0]["apiGroups"],
            json!(["plugin.kubevirt.io"])
        );
        hooks
            .first("its end", |scene| is_temporary(scene) && scene.is_gone)
            .await;

        // It was there for people all the time, and told what it did.
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
fn what_the_new_version_does_not_have_goes_after_it_runs() {
    tell(async {
        let ground = Ground::with("v1.8.4").await;
        let definitions = Film::of(&ground, "CustomResourceDefinition").await;
        let states = Film::of(&ground, "KubeVirt").await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        ground.until_deployed("v1.9.0").await;
        let gone = definitions
            .first("the end of presets", |scene| {
                scene.is_gone && scene.object["metadata"]["name"] == PRESETS
            })
            .await;
        let gone = crate::ground::version(&definitions.scenes()[gone].object);
        let rolled_over = states
            .first("virt-api", |scene| {
                condition(&scene.object, "Progressing")["reason"] == "RollingOutVirtApi"
            })
            .await;
        assert!(crate::ground::version(&states.scenes()[rolled_over].object) < gone);
        ground
            .get("CustomResourceDefinition", "plugins.plugin.kubevirt.io")
            .await;
        ground.get("Service", "kubevirt-plugins").await;
        // Nothing of the old version is left. Certificates are of no version.
        for found in crate::census::made(&ground).await {
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
fn a_definition_that_has_objects_stays_until_it_may_go() {
    tell(async {
        let ground = Ground::with("v1.8.4").await;
        let preset = json!({ "metadata": { "name": "old" } });
        ground.create("VirtualMachineInstancePreset", preset).await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        let kubevirt = ground.until_deployed("v1.9.0").await;
        let available = condition(&kubevirt, "Available")["message"].to_string();
        for words in [PRESETS, "the operator keeps definition", "kubevirt/old"] {
            assert!(available.contains(words), "{words:?} is not in {available}");
        }
        ground.get("VirtualMachineInstancePreset", "old").await;

        ground.annotate(PRUNE_DEFINITIONS, "true").await;
        ground.until_gone("CustomResourceDefinition", PRESETS).await;
    });
}

#[test]
fn a_definition_goes_once_its_last_object_has() {
    // Objects of a definition that is kept are counted every few minutes.
    tell_in_virtual_time(async {
        let ground = Ground::with("v1.8.4").await;
        let preset = json!({ "metadata": { "name": "old" } });
        ground.create("VirtualMachineInstancePreset", preset).await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        ground.until_deployed("v1.9.0").await;
        ground.delete("VirtualMachineInstancePreset", "old").await;
        ground.until_gone("CustomResourceDefinition", PRESETS).await;
    });
}

#[test]
fn one_node_tries_the_new_version_before_a_tenth_of_them_does_and_then_all() {
    tell(async {
        let ground = Ground::begin_with(|setup| setup.nodes = 22).await;
        ground.install("v1.8.4").await;
        ground.until_deployed("v1.8.4").await;
        let pods = Film::of(&ground, "Pod").await;
        let handlers = Film::of(&ground, "DaemonSet").await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        ground.until_deployed("v1.9.0").await;
        ground.wait(60).await;

        let paces = handlers.values(|handler| {
            handler["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"].clone()
        });
        assert_eq!(json!(paces), json!([1, "10%", 1]));

        let mut there: BTreeMap<String, Value> = BTreeMap::new();
        let mut most_away = 0;
        let mut canary_was_ready = false;
        for Scene { object, is_gone } in pods.scenes() {
            if object["metadata"]["labels"]["kubevirt.io"] != "virt-handler" {
                continue;
            }
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            if is_gone {
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
fn a_canary_that_crashes_stops_and_nothing_else_is_touched() {
    tell(async {
        let ground = Ground::with("v1.8.4").await;
        crash_new_handlers(&ground).await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        let degraded = until_failed(&ground).await;
        let message = degraded["message"].as_str().unwrap();
        for words in [
            "DaemonSet kubevirt/virt-handler rollout failed, no further node gets it",
            "pod virt-handler-",
            "on node ",
            "CrashLoopBackOff",
        ] {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
        ground.wait(1800).await;
        let pods = ground.list("Pod").await;
        let count = |component: &str, version: &str| {
            let of = pods.iter().filter(|pod| is_pod_of(pod, component, version));
            of.filter(|pod| is_ready(pod) || version == "v1.9.0")
                .count()
        };
        assert_eq!(count("virt-handler", "v1.8.4"), 2);
        assert_eq!(count("virt-handler", "v1.9.0"), 1);
        assert_eq!(count("virt-controller", "v1.8.4"), 2);
        assert_eq!(count("virt-api", "v1.8.4"), 2);
        ground
            .until_event(60, |reason, _| reason == "FailedUpdate")
            .await;
        let told = ground.events().await;
        let told = told.iter().filter(|(reason, _)| reason == "FailedUpdate");
        assert_eq!(told.count(), 1);

        // Once the cause is gone it goes on by itself.
        ground.fail("DaemonSet", "virt-handler", "").await;
        ground.until_deployed("v1.9.0").await;
    });
}

#[test]
fn a_failed_update_goes_back_when_that_is_asked_for() {
    tell(async {
        let ground = Ground::with("v1.8.4").await;
        let before = crate::census::picture(&ground).await;
        crash_new_handlers(&ground).await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        until_failed(&ground).await;
        ground.annotate(ROLLBACK, "true").await;
        let kubevirt = until_rolled_back(&ground).await;
        assert_eq!(kubevirt["metadata"]["annotations"].get(ROLLBACK), None);
        ground
            .until_event(60, |reason, message| {
                reason == "RollbackStarted"
                    && message == "Rolling back from version v1.9.0 to version v1.8.4, as requested"
            })
            .await;
        ground.fail("DaemonSet", "virt-handler", "").await;
        ground.wait(120).await;
        assert_eq!(crate::census::picture(&ground).await, before);

        // What failed is not tried again, what is asked for next is.
        ground.change(json!({ "imageTag": "v1.9.1" })).await;
        ground.until_deployed("v1.9.1").await;
        assert_eq!(
            ground.until_condition("Degraded", "False").await["status"],
            "False"
        );
    });
}

#[test]
fn a_failed_update_goes_back_by_itself_where_that_is_the_policy() {
    tell(async {
        let ground = Ground::with("v1.8.4").await;
        crash_new_handlers(&ground).await;
        ground.annotate(ROLLBACK_POLICY, "OnFailure").await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        until_rolled_back(&ground).await;
        let pods = ground.list("Pod").await;
        assert!(
            !pods
                .iter()
                .any(|pod| is_pod_of(pod, "virt-handler", "v1.9.0"))
        );
    });
}

#[test]
fn a_rollback_brings_virt_api_back_before_virt_controller() {
    tell(async {
        let ground = Ground::with("v1.8.4").await;
        ground
            .fail("Deployment", "virt-api", "NeverReady=virt-api:v1.9.0")
            .await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        ground
            .until("KubeVirt", NAME, |kubevirt| {
                condition(kubevirt, "Progressing")["reason"] == "RollingOutVirtApi"
            })
            .await;
        let pods = Film::of(&ground, "Pod").await;
        ground.annotate(ROLLBACK, "true").await;
        until_rolled_back(&ground).await;
        let is_staying =
            |scene: &Scene| scene.object["metadata"].get("deletionTimestamp").is_none();
        let mut was = Vec::new();
        for component in ["virt-controller", "virt-handler"] {
            let first = pods.first(component, |scene| {
                is_pod_of(&scene.object, component, "v1.8.4") && is_staying(scene)
            });
            was.push(first.await);
        }
        let scenes = pods.scenes();
        let is_new_api = |scene: &Scene| is_pod_of(&scene.object, "virt-api", "v1.9.0");
        // None of them, where the rollback is asked for before the first was created.
        let api_is_back = scenes
            .iter()
            .rposition(|scene| is_new_api(scene) && is_staying(scene));
        assert!(was.into_iter().all(|was| api_is_back < Some(was)));
    });
}

#[test]
fn a_step_that_does_not_go_on_is_degraded_with_pod_node_and_words() {
    tell(async {
        let mut ground = Ground::with("v1.8.4").await;
        ground.shorten_deadlines().await;
        ground
            .fail(
                "Deployment",
                "virt-controller",
                "ImagePullBackOff=virt-controller:v1.9.0",
            )
            .await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        let degraded = ground
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
        let api = ground.list("Pod").await;
        assert!(!api.iter().any(|pod| is_pod_of(pod, "virt-api", "v1.9.0")));
        ground.fail("Deployment", "virt-controller", "").await;
        ground.until_deployed("v1.9.0").await;
    });
}

#[test]
fn a_node_that_is_down_does_not_hold_an_update_up() {
    tell(async {
        let ground = Ground::with("v1.8.4").await;
        let nodes = ground.list("Node").await;
        let down = nodes[2]["metadata"]["name"].as_str().unwrap();
        ground.fail("Node", down, "NotReady").await;
        ground
            .until("Node", down, |node| {
                condition(node, "Ready")["status"] != "True"
            })
            .await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        let kubevirt = ground.until_deployed("v1.9.0").await;
        let available = condition(&kubevirt, "Available")["message"].to_string();
        assert!(available.contains(down), "{available}");
    });
}

#[test]
fn a_new_operator_brings_a_new_version_where_the_resource_names_none() {
    tell(async {
        let mut ground = Ground::without_operator(|_| {}).await;
        let image = |version: &str| {
            Some(format!(
                "{}/virt-operator:{version}",
                crate::ground::REGISTRY
            ))
        };
        ground.options.operator.image = image("v1.8.4");
        ground.start_operator();
        ground.install_with(json!({})).await;
        ground.until_deployed("v1.8.4").await;
        ground.stop_operator().await;
        ground.options.operator.image = image("v1.9.0");
        ground.start_operator();
        ground.until_deployed("v1.9.0").await;
        // And the way back is open to those who ask for it.
        ground
            .change(json!({ "imageTag": "v1.8.4", "imageRegistry": crate::ground::REGISTRY }))
            .await;
        ground.until_deployed("v1.8.4").await;
        ground.get("CustomResourceDefinition", PRESETS).await;
        ground.until_gone("Service", "kubevirt-plugins").await;
    });
}

#[test]
fn an_update_that_is_changed_half_way_goes_on_to_the_other_version() {
    tell(async {
        let ground = Ground::with("v1.8.4").await;
        crash_new_handlers(&ground).await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        until_failed(&ground).await;
        ground.change(json!({ "imageTag": "v1.9.1" })).await;
        ground.until_deployed("v1.9.1").await;
        let versions = |pods: Vec<Value>| {
            let of = pods.into_iter().map(|pod| {
                pod["metadata"]["annotations"]["kubevirt.io/install-strategy-version"].clone()
            });
            of.collect::<std::collections::HashSet<_>>()
        };
        ground.wait(60).await;
        assert_eq!(versions(ground.list("Pod").await), [json!("v1.9.1")].into());
    });
}

/// Has the pods of virt-handler of release 1.9.0 crash.
async fn crash_new_handlers(ground: &Ground) {
    let word = "CrashLoopBackOff=virt-handler:v1.9.0";
    ground.fail("DaemonSet", "virt-handler", word).await;
}

async fn until_failed(ground: &Ground) -> Value {
    let kubevirt = ground
        .until("KubeVirt", NAME, |kubevirt| {
            condition(kubevirt, "Degraded")["reason"] == "RolloutFailed"
        })
        .await;
    condition(&kubevirt, "Degraded").clone()
}

async fn until_rolled_back(ground: &Ground) -> Value {
    ground
        .until("KubeVirt", NAME, |kubevirt| {
            condition(kubevirt, "Degraded")["reason"] == "RolledBack"
                && kubevirt["status"]["observedKubeVirtVersion"] == "v1.8.4"
        })
        .await
}

#[test]
fn a_rollback_that_is_asked_for_in_another_word_is_answered_with_an_event() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        ground.annotate(ROLLBACK, "yes").await;
        let kubevirt = ground
            .until("KubeVirt", NAME, |kubevirt| {
                kubevirt["metadata"]["annotations"].get(ROLLBACK).is_none()
            })
            .await;
        assert_eq!(kubevirt["status"]["observedKubeVirtVersion"], "v1.9.0");
        ground
            .until_event(60, |reason, message| {
                reason == "AnnotationIgnored" && message.contains("\"yes\" is ignored")
            })
            .await;
    });
}
