//! Updates and rollbacks.

use api::kubevirt::install::{self, InstallPhase};
use plan::kubevirt::{Action, Plan, Stage};
use serde_json::{Value, json};

use crate::{
    behaviours::{assert_deployed, installed, is, status_of, vm},
    order::{check_from_api_to_nodes, check_from_nodes_to_api},
    release::{ADDED, NEW, OBSOLETE, OLD, REGISTRY},
    world::World,
};

fn max_unavailable(plan: &Plan) -> Option<Value> {
    plan.steps.iter().find_map(|step| match &step.action {
        Action::Apply { object, .. } if &*object.id.kind == "DaemonSet" => object
            .value()
            .pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable")
            .cloned(),
        _ => None,
    })
}

#[test]
fn objects_of_new_kinds_are_refused_until_the_new_api_is_up() {
    let mut world = installed(OLD, 1);
    world.request(NEW);
    let mut is_refused = false;
    world
        .run_with(|world, _| {
            let webhook = world.live_object(
                "ValidatingWebhookConfiguration",
                "virt-operator-tmp-webhook",
            );
            let api = world.live_object("Deployment", "virt-api").unwrap();
            let version = &api["metadata"]["annotations"][install::STRATEGY_VERSION];
            let is_defined = world
                .live_object("CustomResourceDefinition", ADDED)
                .is_some();
            if is_defined && version == OLD {
                let webhook = webhook.unwrap();
                let webhooks = webhook["webhooks"].as_array().unwrap();
                assert_eq!(webhooks.len(), 1);
                assert_eq!(webhooks[0]["rules"][0]["resources"], json!(["newthings"]));
                is_refused = true;
            }
        })
        .unwrap();
    assert!(is_refused);
    assert!(
        world
            .live_object(
                "ValidatingWebhookConfiguration",
                "virt-operator-tmp-webhook"
            )
            .is_none()
    );
}

#[test]
fn the_observed_version_changes_once_everything_is_ready() {
    let mut world = installed(OLD, 3);
    let before = world
        .kubevirt
        .status
        .clone()
        .unwrap()
        .observed_deployment_id;
    world.request(NEW);
    world
        .run_with(|world, plan| {
            let status = world.kubevirt.status.clone().unwrap();
            if plan.stage < Stage::StrategyCleanup {
                assert_ne!(status.observed_kube_virt_version.as_deref(), Some(NEW));
                assert_eq!(status.observed_deployment_id, before);
            }
        })
        .unwrap();
    assert_deployed(&world, NEW);
}

#[test]
fn an_update_goes_from_the_nodes_to_the_api() {
    let mut world = installed(OLD, 12);
    world.journal.clear();
    world.request(NEW);
    world.run_with(check_from_nodes_to_api).unwrap();
    assert_deployed(&world, NEW);
    let place = |what: &str| world.index_of(what).unwrap_or_else(|| panic!("no {what}"));
    let handler = place("apply DaemonSet kubevirt/virt-handler");
    let controller = place("apply Deployment kubevirt/virt-controller");
    let budget = place("apply PodDisruptionBudget kubevirt/virt-controller-pdb");
    let api = place("apply Deployment kubevirt/virt-api");
    let obsolete = place("delete ServiceAccount kubevirt/kubevirt-old");
    assert!(handler < controller && controller < budget && budget < api && api < obsolete);
    for id in world.applied() {
        let annotations = &world.objects()[id].annotations;
        assert_eq!(annotations[install::STRATEGY_VERSION], NEW, "{id}");
    }
}

#[test]
fn conditions_of_an_update_are_those_of_kubevirt() {
    let mut world = installed(OLD, 1);
    world.request(NEW);
    world.round();
    let message = format!(
        "Transitioning from previous version {OLD} with registry {REGISTRY} to target version \
         {NEW} using registry {REGISTRY}"
    );
    for type_ in ["Available", "Degraded"] {
        let expected = (
            "True".to_owned(),
            "UpdateInProgress".to_owned(),
            message.clone(),
        );
        assert_eq!(world.condition(type_), expected);
    }
    assert_eq!(world.condition("Created"), Default::default());
}

#[test]
fn a_rollback_goes_from_the_api_to_the_nodes() {
    let mut world = installed(NEW, 4);
    world.journal.clear();
    world.request(OLD);
    world.run_with(check_from_api_to_nodes).unwrap();
    assert_deployed(&world, OLD);
    let place = |what: &str| world.index_of(what).unwrap();
    let api = place("apply Deployment kubevirt/virt-api");
    let controller = place("apply Deployment kubevirt/virt-controller");
    assert!(api < controller);
    assert!(controller < place("apply DaemonSet kubevirt/virt-handler"));
}

#[test]
fn virt_handler_rolls_out_to_one_node_then_to_a_tenth_then_to_all() {
    let mut world = installed(OLD, 30);
    world.request(NEW);
    let mut limits = Vec::new();
    world
        .run_with(|world, plan| {
            let limit = max_unavailable(plan);
            let updated = world.pods.iter().filter(|pod| {
                pod.owner.as_ref().unwrap().0 == "DaemonSet"
                    && pod.annotations[install::STRATEGY_VERSION] == NEW
            });
            if limit == Some(json!("10%")) {
                assert!(updated.count() <= 2, "one node has tried it");
            }
            limits.extend(limit);
        })
        .unwrap();
    assert_eq!(limits, [json!(1), json!("10%"), json!(1)]);
    assert_deployed(&world, NEW);
}

#[test]
fn a_progressing_rollout_over_many_nodes_is_not_stalled() {
    let mut world = installed(OLD, 30);
    world.annotate(install::ROLLBACK_POLICY, "OnFailure");
    world.request(NEW);
    let mut handler = 0;
    for _ in 0..200 {
        let mut is_handler = false;
        world.round_with(|_, plan| {
            is_handler = plan.stage == Stage::Handler;
            assert!(!plan.stalled, "{plan:#?}");
        });
        if is_handler {
            handler += 1;
            world.advance_time(120);
        }
    }
    assert!(handler > 10, "{handler}");
    assert_deployed(&world, NEW);
}

#[test]
fn a_rollout_without_further_ready_nodes_is_stalled() {
    let mut world = installed(OLD, 30);
    world.request(NEW);
    let mut is_fast = false;
    while !is_fast {
        world.round_with(|_, plan| is_fast = max_unavailable(plan) == Some(json!("10%")));
    }
    for _ in 0..10 {
        let plan = world.plan();
        world.kubevirt.status = plan.status.or(world.kubevirt.status.take());
        world.advance_time(120);
    }
    assert_eq!(status_of(&world, "Degraded"), is("True", "Stalled"));
}

#[test]
fn drift_does_not_restart_a_rollout() {
    let mut world = installed(OLD, 30);
    world.request(NEW);
    let mut limits = Vec::new();
    while limits.len() < 2 {
        let mut found = None;
        world.round_with(|_, plan| found = max_unavailable(plan));
        limits.extend(found);
    }
    let id = world.id("DaemonSet", "virt-handler");
    world.change(&id, |value| value["metadata"]["generation"] = json!(99));
    world.increment_generation();
    world
        .run_with(|_, plan| limits.extend(max_unavailable(plan)))
        .unwrap();
    assert_eq!(limits[..2], [json!(1), json!("10%")]);
    assert!(
        !limits[2..]
            .iter()
            .any(|limit| *limit == json!(1) && limits.last() != Some(limit))
    );
    assert_deployed(&world, NEW);
}

#[test]
fn nodes_that_are_down_do_not_block_an_update() {
    let mut world = installed(OLD, 5);
    world.nodes[2].ready = false;
    world.round();
    world.request(NEW);
    world.run().unwrap();
    assert_deployed(&world, NEW);
    let (_, _, message) = world.condition("Available");
    assert!(message.contains("node-02"), "{message}");
}

#[test]
fn a_canary_that_crashes_stops_the_update() {
    let mut world = installed(OLD, 5);
    world.broken.insert(NEW.to_owned());
    world.request(NEW);
    world.run().unwrap();
    let (status, reason, message) = world.condition("Degraded");
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("True", "RolloutFailed")
    );
    assert!(message.contains("CrashLoopBackOff"), "{message}");
    let tried = world.pods.iter().filter(|pod| {
        pod.annotations
            .get(install::STRATEGY_VERSION)
            .map(String::as_str)
            == Some(NEW)
    });
    assert_eq!(tried.count(), 1);
    let api = world.live_object("Deployment", "virt-api").unwrap();
    assert_eq!(
        api["metadata"]["annotations"][install::STRATEGY_VERSION],
        OLD
    );
    let plan = world.plan();
    assert!(plan.stalled && plan.steps.is_empty() && plan.status.is_none());
}

#[test]
fn a_failed_update_is_rolled_back_by_policy_and_another_is_tried() {
    let mut world = installed(OLD, 5);
    world.broken.insert(NEW.to_owned());
    world.annotate(install::ROLLBACK_POLICY, "OnFailure");
    world.request(NEW);
    world.run().unwrap();
    let status = world.kubevirt.status.clone().unwrap();
    assert_eq!(status.phase, Some(InstallPhase::Deployed));
    assert_eq!(status.observed_kube_virt_version.as_deref(), Some(OLD));
    assert_eq!(status.target_kube_virt_version.as_deref(), Some(OLD));
    let (degraded, reason, message) = world.condition("Degraded");
    assert_eq!((degraded.as_str(), reason.as_str()), ("True", "RolledBack"));
    assert!(message.contains(NEW), "{message}");
    assert_eq!(
        status_of(&world, "Available"),
        is("True", "AllComponentsReady")
    );
    assert!(world.annotation(install::GIVEN_UP).is_some());
    world.request("v1.3.0");
    world.run().unwrap();
    assert_deployed(&world, "v1.3.0");
    assert_eq!(world.annotation(install::GIVEN_UP), None);
    assert_eq!(
        status_of(&world, "Degraded"),
        is("False", "AllComponentsReady")
    );
}

#[test]
fn an_update_is_rolled_back_on_request() {
    let mut world = installed(OLD, 5);
    world.request(NEW);
    while world
        .index_of("apply DaemonSet")
        .is_some_and(|_| world.journal.len() < 40)
    {
        world.round();
    }
    world.annotate(install::ROLLBACK, "true");
    world.run().unwrap();
    let status = world.kubevirt.status.clone().unwrap();
    assert_eq!(status.observed_kube_virt_version.as_deref(), Some(OLD));
    assert_eq!(status_of(&world, "Degraded"), is("True", "RolledBack"));
    assert_eq!(world.annotation(install::ROLLBACK), None);
}

#[test]
fn a_rollback_keeps_its_order_with_an_unchanged_resource() {
    let mut world = World::new(OLD, 5);
    world.kubevirt.spec.image_tag = None;
    world.operator.image = Some(format!("{REGISTRY}/virt-operator:{OLD}"));
    world.run().unwrap();
    assert_deployed(&world, OLD);
    // A new operator brings another version; the resource does not change.
    world.operator.image = Some(format!("{REGISTRY}/virt-operator:{NEW}"));
    let has_new_api = |world: &World| {
        let api = world.live_object("Deployment", "virt-api").unwrap();
        api["metadata"]["annotations"][install::STRATEGY_VERSION] == NEW
    };
    while !has_new_api(&world) {
        world.round();
    }
    world.annotate(install::ROLLBACK, "true");
    world.run_with(check_from_api_to_nodes).unwrap();
    let status = world.kubevirt.status.clone().unwrap();
    assert_eq!(status.observed_kube_virt_version.as_deref(), Some(OLD));
    assert_eq!(status_of(&world, "Degraded"), is("True", "RolledBack"));
}

#[test]
fn a_status_subresource_is_added_after_the_rollout() {
    let mut world = installed(OLD, 2);
    world.request(NEW);
    let has_status = |world: &World| {
        let definition = world.live_object("CustomResourceDefinition", "things.kubevirt.io");
        let pointer = "/spec/versions/0/subresources/status";
        definition.unwrap().pointer(pointer).is_some()
    };
    world
        .run_with(|world, _| {
            let api = world.live_object("Deployment", "virt-api").unwrap();
            if api["metadata"]["annotations"][install::STRATEGY_VERSION] == OLD {
                assert!(!has_status(world));
            }
        })
        .unwrap();
    assert!(has_status(&world));
    assert_deployed(&world, NEW);
}

#[test]
fn a_definition_with_objects_is_kept_unless_annotated() {
    let mut world = installed(OLD, 1);
    world
        .customs
        .insert(OBSOLETE.to_owned(), vec![vm("default/precious", false)]);
    world.request(NEW);
    world.run().unwrap();
    assert_deployed(&world, NEW);
    assert!(
        world
            .live_object("CustomResourceDefinition", OBSOLETE)
            .is_some()
    );
    let (_, _, message) = world.condition("Available");
    assert!(message.contains("default/precious"), "{message}");
    world.annotate(install::PRUNE_DEFINITIONS, "true");
    world.run().unwrap();
    assert!(
        world
            .live_object("CustomResourceDefinition", OBSOLETE)
            .is_none()
    );
}

#[test]
fn an_obsolete_definition_without_objects_is_deleted() {
    let mut world = installed(OLD, 1);
    world.request(NEW);
    world.run().unwrap();
    assert!(
        world
            .live_object("CustomResourceDefinition", OBSOLETE)
            .is_none()
    );
    assert_deployed(&world, NEW);
}

#[test]
fn the_last_strategy_is_kept_until_the_next_version_runs() {
    let mut world = installed(OLD, 1);
    world.request(NEW);
    let strategies = |world: &World| {
        let all = world.objects().iter().filter(|(id, live)| {
            id.is("", "ConfigMap") && live.labels.contains_key(install::STRATEGY)
        });
        all.count()
    };
    world
        .run_with(|world, plan| {
            if plan.stage > Stage::Strategy && plan.stage < Stage::StrategyCleanup {
                assert_eq!(strategies(world), 2);
            }
        })
        .unwrap();
    assert_eq!(strategies(&world), 1);
}

#[test]
fn a_single_restart_is_not_a_crash_loop() {
    let mut world = installed(OLD, 3);
    world.request(NEW);
    let mut restarted = false;
    for _ in 0..60 {
        world.round();
        for pod in &mut world.pods {
            if pod
                .annotations
                .get(install::STRATEGY_VERSION)
                .map(String::as_str)
                == Some(NEW)
            {
                restarted |= pod.restarts == 0;
                pod.restarts = 1;
            }
        }
    }
    assert!(restarted);
    world.run().unwrap();
    assert_deployed(&world, NEW);
}

#[test]
fn transition_times_move_with_the_status_alone() {
    let mut world = installed(OLD, 3);
    let at = |world: &World, type_: &str| {
        let status = world.kubevirt.status.clone().unwrap();
        let conditions = status.conditions.unwrap();
        let condition = conditions
            .into_iter()
            .find(|condition| condition.type_ == type_);
        condition.unwrap().last_transition_time.unwrap()
    };
    let available = at(&world, "Available");
    let progressing = at(&world, "Progressing");
    world.advance_time(60);
    world.request(NEW);
    world.round();
    assert_eq!(at(&world, "Available"), available);
    assert_ne!(at(&world, "Progressing"), progressing);
}
