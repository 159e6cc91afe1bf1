//! What the operator does, behaviour by behaviour.

use api::kubevirt::install::{self, InstallPhase};
use plan::kubevirt::{Action, Plan, Stage, observed::Other};
use serde_json::{Value, json};

use crate::{
    order::{check_from_api_to_nodes, check_from_nodes_to_api},
    release::{ADDED, NAMESPACE, NEW, OBSOLETE, OLD, REGISTRY},
    world::{Custom, World},
};

pub(crate) fn installed(version: &str, nodes: usize) -> World {
    let mut world = World::new(version, nodes);
    world.live().unwrap();
    assert_deployed(&world, version);
    world
}

pub(crate) fn assert_deployed(world: &World, version: &str) {
    let status = world.kubevirt.status.clone().unwrap_or_default();
    let plan = world.plan();
    assert_eq!(status.phase, Some(InstallPhase::Deployed), "{plan:#?}");
    assert_eq!(
        status.observed_kube_virt_version.as_deref(),
        Some(version),
        "{plan:#?}"
    );
    assert_eq!(plan.stage, Stage::Deployed, "{plan:#?}");
    assert_eq!(
        (plan.steps, plan.status, plan.events),
        (vec![], None, vec![])
    );
}

fn status_of(world: &World, type_: &str) -> (String, String) {
    let (status, reason, _) = world.condition(type_);
    (status, reason)
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// Applies of the DaemonSet in a plan, each with what may be unavailable.
fn pace(plan: &Plan) -> Option<Value> {
    plan.steps.iter().find_map(|step| match &step.action {
        Action::Apply { object, .. } if &*object.id.kind == "DaemonSet" => object
            .value()
            .pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable")
            .cloned(),
        _ => None,
    })
}

fn vm(name: &str, stuck: bool) -> Custom {
    Custom {
        name: name.to_owned(),
        deleting: false,
        stuck,
    }
}

const VMS: &str = "virtualmachines.kubevirt.io";

#[test]
fn everything_is_made_with_one_write_each_and_then_nothing_is_done() {
    let mut world = World::new(NEW, 3);
    world.live_with(check_from_api_to_nodes).unwrap();
    assert_deployed(&world, NEW);
    let status = world.kubevirt.status.as_ref().unwrap();
    assert_eq!(
        status.observed_kube_virt_registry.as_deref(),
        Some(REGISTRY)
    );
    assert_eq!(status.observed_deployment_id, status.target_deployment_id);
    assert_eq!(
        status.observed_deployment_config,
        status.target_deployment_config
    );
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!(status.default_architecture.as_deref(), Some("amd64"));
    assert_eq!(status.operator_version.as_deref(), Some("1.0.0"));
    assert_eq!(
        status_of(&world, "Available"),
        is("True", "AllComponentsReady")
    );
    assert_eq!(
        status_of(&world, "Progressing"),
        is("False", "AllComponentsReady")
    );
    assert_eq!(
        status_of(&world, "Degraded"),
        is("False", "AllComponentsReady")
    );
    assert_eq!(
        status_of(&world, "Created"),
        is("True", "AllResourcesCreated")
    );
    let mut journal = world.journal.clone();
    journal.sort();
    journal.dedup();
    assert_eq!(journal.len(), world.journal.len(), "{:#?}", world.journal);
    assert!(world.status_writes <= 6, "{}", world.status_writes);
}

#[test]
fn conditions_of_a_first_installation_are_those_of_kubevirt() {
    let mut world = World::new(NEW, 1);
    world.round();
    let message = format!("Deploying version {NEW} with registry {REGISTRY}");
    for (type_, status) in [("Available", "False"), ("Degraded", "False")] {
        let expected = (
            status.to_owned(),
            "DeploymentInProgress".to_owned(),
            message.clone(),
        );
        assert_eq!(world.condition(type_), expected);
    }
    let (status, _, progress) = world.condition("Progressing");
    assert_eq!(status, "True");
    assert!(progress.starts_with(&message), "{progress}");
    let status = world.kubevirt.status.as_ref().unwrap();
    assert_eq!(status.phase, Some(InstallPhase::Deploying));
    assert_eq!(status.observed_deployment_id, None);
}

#[test]
fn a_new_generation_is_applied_to_every_object() {
    let mut world = installed(NEW, 2);
    world.bump();
    world.live().unwrap();
    assert_deployed(&world, NEW);
    assert_eq!(
        world.kubevirt.status.as_ref().unwrap().observed_generation,
        Some(2)
    );
    for (id, value) in &world.objects {
        if world.applied.contains_key(id) {
            let annotations = &value["metadata"]["annotations"];
            assert_eq!(annotations[install::GENERATION], "2", "{id}");
        }
    }
}

#[test]
fn managed_objects_that_the_version_does_not_have_go_and_others_stay() {
    let mut world = installed(NEW, 1);
    let managed = json!({install::MANAGED_BY: install::MANAGER});
    let monitor = |name: &str, labels: &Value| {
        json!({
            "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        })
    };
    world.store(monitor("old", &managed));
    world.store(monitor("theirs", &json!({})));
    // A common name, on something that is not KubeVirt's.
    let other = json!({install::MANAGED_BY: install::OLD_MANAGER});
    world.store(monitor("somebodys", &other));
    world.live().unwrap();
    assert!(world.live_object("ServiceMonitor", "old").is_none());
    assert!(world.live_object("ServiceMonitor", "theirs").is_some());
    assert!(world.live_object("ServiceMonitor", "somebodys").is_some());
    assert_deployed(&world, NEW);
}

#[test]
fn a_second_resource_is_refused_and_nothing_is_touched() {
    let mut world = World::new(NEW, 1);
    world.others = vec![Other {
        namespace: NAMESPACE.to_owned(),
        name: "first".to_owned(),
        created: None,
        installed: true,
    }];
    let plan = world.plan();
    assert_eq!((plan.stage, plan.steps), (Stage::Refused, vec![]));
    world.live().unwrap();
    let (status, reason, message) = world.condition("Synchronized");
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("False", "ExistingDeployment")
    );
    assert!(message.contains("kubevirt/first"), "{message}");
    assert_eq!(world.kubevirt.status.as_ref().unwrap().phase, None);
    assert_eq!(world.objects.len(), 1);
}

#[test]
fn of_two_resources_the_one_that_something_was_installed_for_is_served() {
    let mut world = installed(NEW, 1);
    world.others = vec![Other {
        namespace: NAMESPACE.to_owned(),
        name: "another".to_owned(),
        created: None,
        installed: false,
    }];
    assert_deployed(&world, NEW);
}

#[test]
fn a_resource_in_another_namespace_is_refused() {
    let mut world = World::new(NEW, 1);
    world.kubevirt.metadata.namespace = Some("elsewhere".to_owned());
    world.live().unwrap();
    assert_eq!(
        status_of(&world, "Synchronized"),
        is("False", "ExistingDeployment")
    );
    assert_eq!(world.journal, Vec::<String>::new());
}

#[test]
fn new_kinds_are_held_back_until_the_new_api_is_up() {
    let mut world = installed(OLD, 1);
    world.ask_for(NEW);
    let mut held = false;
    world
        .live_with(|world, _| {
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
                let webhooks = webhook.unwrap()["webhooks"].as_array().unwrap();
                assert_eq!(webhooks.len(), 1);
                assert_eq!(webhooks[0]["rules"][0]["resources"], json!(["newthings"]));
                held = true;
            }
        })
        .unwrap();
    assert!(held);
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
fn what_is_observed_changes_only_when_everything_is_ready() {
    let mut world = installed(OLD, 3);
    let before = world
        .kubevirt
        .status
        .clone()
        .unwrap()
        .observed_deployment_id;
    world.ask_for(NEW);
    world
        .live_with(|world, plan| {
            let status = world.kubevirt.status.clone().unwrap();
            if plan.stage < Stage::Tidying {
                assert_ne!(status.observed_kube_virt_version.as_deref(), Some(NEW));
                assert_eq!(status.observed_deployment_id, before);
            }
        })
        .unwrap();
    assert_deployed(&world, NEW);
}

#[test]
fn the_old_finalizer_is_replaced() {
    let mut world = World::new(NEW, 1);
    world.kubevirt.metadata.finalizers =
        Some(vec![install::OLD_FINALIZER.to_owned(), "theirs".to_owned()]);
    world.live().unwrap();
    let expected = vec!["theirs".to_owned(), install::FINALIZER.to_owned()];
    assert_eq!(world.kubevirt.metadata.finalizers, Some(expected));
}

#[test]
fn an_update_goes_from_the_nodes_to_the_api_and_brings_all_along() {
    let mut world = installed(OLD, 12);
    world.journal.clear();
    world.ask_for(NEW);
    world.live_with(check_from_nodes_to_api).unwrap();
    assert_deployed(&world, NEW);
    let place = |what: &str| world.written(what).unwrap_or_else(|| panic!("no {what}"));
    let handler = place("apply DaemonSet kubevirt/virt-handler");
    let controller = place("apply Deployment kubevirt/virt-controller");
    let budget = place("apply PodDisruptionBudget kubevirt/virt-controller-pdb");
    let api = place("apply Deployment kubevirt/virt-api");
    let obsolete = place("delete ServiceAccount kubevirt/kubevirt-old");
    assert!(handler < controller && controller < budget && budget < api && api < obsolete);
    for (id, value) in &world.objects {
        if world.applied.contains_key(id) {
            let annotations = &value["metadata"]["annotations"];
            assert_eq!(annotations[install::STRATEGY_VERSION], NEW, "{id}");
        }
    }
}

#[test]
fn conditions_of_an_update_are_those_of_kubevirt() {
    let mut world = installed(OLD, 1);
    world.ask_for(NEW);
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
fn the_way_back_goes_from_the_api_to_the_nodes() {
    let mut world = installed(NEW, 4);
    world.journal.clear();
    world.ask_for(OLD);
    world.live_with(check_from_api_to_nodes).unwrap();
    assert_deployed(&world, OLD);
    let place = |what: &str| world.written(what).unwrap();
    let api = place("apply Deployment kubevirt/virt-api");
    let controller = place("apply Deployment kubevirt/virt-controller");
    assert!(api < controller);
    assert!(controller < place("apply DaemonSet kubevirt/virt-handler"));
}

#[test]
fn the_handler_goes_to_one_node_then_to_a_tenth_then_to_all() {
    let mut world = installed(OLD, 30);
    world.ask_for(NEW);
    let mut paces = Vec::new();
    world
        .live_with(|world, plan| {
            let pace = pace(plan);
            let updated = world.pods.iter().filter(|pod| {
                pod.owner.as_ref().unwrap().0 == "DaemonSet"
                    && pod.annotations[install::STRATEGY_VERSION] == NEW
            });
            if pace == Some(json!("10%")) {
                assert!(updated.count() <= 2, "one node has tried it");
            }
            paces.extend(pace);
        })
        .unwrap();
    assert_eq!(paces, [json!(1), json!("10%"), json!(1)]);
    assert_deployed(&world, NEW);
}

#[test]
fn a_change_by_others_does_not_begin_a_roll_out_anew() {
    let mut world = installed(OLD, 30);
    world.ask_for(NEW);
    let mut paces = Vec::new();
    while paces.len() < 2 {
        let mut found = None;
        world.round_with(|_, plan| found = pace(plan));
        paces.extend(found);
    }
    let id = world.id("DaemonSet", "virt-handler");
    world.change(&id, |value| value["metadata"]["generation"] = json!(99));
    world.bump();
    world.live_with(|_, plan| paces.extend(pace(plan))).unwrap();
    assert_eq!(paces[..2], [json!(1), json!("10%")]);
    assert!(
        !paces[2..]
            .iter()
            .any(|pace| *pace == json!(1) && paces.last() != Some(pace))
    );
    assert_deployed(&world, NEW);
}

#[test]
fn nodes_that_are_down_hold_no_update_up() {
    let mut world = installed(OLD, 5);
    world.nodes[2].ready = false;
    world.round();
    world.ask_for(NEW);
    world.live().unwrap();
    assert_deployed(&world, NEW);
    let (_, _, message) = world.condition("Available");
    assert!(message.contains("node-02"), "{message}");
}

#[test]
fn a_cluster_without_eligible_nodes_is_ready_and_says_so() {
    let world = installed(NEW, 0);
    let (status, _, message) = world.condition("Available");
    assert_eq!(status, "True");
    assert!(message.contains("no node is eligible for DaemonSet kubevirt/virt-handler"));
}

#[test]
fn a_canary_that_crashes_stops_the_update() {
    let mut world = installed(OLD, 5);
    world.broken.insert(NEW.to_owned());
    world.ask_for(NEW);
    world.live().unwrap();
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
fn a_failed_update_goes_back_by_policy_and_another_is_tried() {
    let mut world = installed(OLD, 5);
    world.broken.insert(NEW.to_owned());
    world.annotate(install::ROLLBACK_POLICY, "OnFailure");
    world.ask_for(NEW);
    world.live().unwrap();
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
    world.ask_for("v1.3.0");
    world.live().unwrap();
    assert_deployed(&world, "v1.3.0");
    assert_eq!(world.annotation(install::GIVEN_UP), None);
    assert_eq!(
        status_of(&world, "Degraded"),
        is("False", "AllComponentsReady")
    );
}

#[test]
fn an_update_goes_back_when_asked_for() {
    let mut world = installed(OLD, 5);
    world.ask_for(NEW);
    while world
        .written("apply DaemonSet")
        .is_some_and(|_| world.journal.len() < 40)
    {
        world.round();
    }
    world.annotate(install::ROLLBACK, "true");
    world.live().unwrap();
    let status = world.kubevirt.status.clone().unwrap();
    assert_eq!(status.observed_kube_virt_version.as_deref(), Some(OLD));
    assert_eq!(status_of(&world, "Degraded"), is("True", "RolledBack"));
    assert_eq!(world.annotation(install::ROLLBACK), None);
}

#[test]
fn a_strategy_that_cannot_be_had_is_told_and_tried_again() {
    let mut world = World::new(NEW, 1);
    world.unwritable.insert(NEW.to_owned());
    for _ in 0..400 {
        world.round();
    }
    let (status, reason, message) = world.condition("Degraded");
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("True", "Stalled"),
        "{message}"
    );
    assert!(message.contains("BackoffLimitExceeded"), "{message}");
    let jobs = world
        .journal
        .iter()
        .filter(|entry| entry.starts_with("create Job"));
    assert!(jobs.count() > 2, "{:#?}", world.journal);
    world.unwritable.clear();
    world.pass(300);
    world.live().unwrap();
    assert_deployed(&world, NEW);
}

#[test]
fn a_stage_that_takes_too_long_is_told_with_its_cause() {
    let mut world = World::new(NEW, 1);
    world.broken.insert(NEW.to_owned());
    world.live().unwrap();
    let (status, reason, message) = world.condition("Degraded");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Stalled"));
    assert!(
        message.contains("Deployment kubevirt/virt-api"),
        "{message}"
    );
    assert!(message.contains("CrashLoopBackOff"), "{message}");
    assert_eq!(
        status_of(&world, "Available"),
        is("False", "DeploymentInProgress")
    );
    assert_eq!(status_of(&world, "Progressing").1, "RollingOutVirtApi");
    world.broken.clear();
    world.live().unwrap();
    assert_deployed(&world, NEW);
}

#[test]
fn what_is_refused_is_told_in_the_api_servers_words() {
    let mut world = World::new(NEW, 1);
    let role = plan::kubevirt::Id::new(
        "rbac.authorization.k8s.io",
        "ClusterRole",
        "",
        "kubevirt-components",
    );
    world.refuse(
        &role,
        "attempting to grant RBAC permissions not currently held",
    );
    for _ in 0..8 {
        world.round();
    }
    let (status, reason, message) = world.condition("Synchronized");
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("False", "DeploymentFailed")
    );
    assert!(message.starts_with("An error occurred during deployment: ClusterRole"));
    assert!(message.contains("not currently held"), "{message}");
    assert_eq!(
        status_of(&world, "Degraded"),
        is("True", "DeploymentFailed")
    );
    world.memory.refused.clear();
    world.live().unwrap();
    assert_deployed(&world, NEW);
    assert_eq!(world.condition("Synchronized"), Default::default());
}

#[test]
fn the_namespace_is_labelled_once() {
    let world = installed(NEW, 1);
    let patches = world
        .journal
        .iter()
        .filter(|entry| *entry == "patch Namespace kubevirt");
    assert_eq!(patches.count(), 1);
}

#[test]
fn drift_of_any_kind_is_put_back() {
    let mut world = installed(NEW, 2);
    let expected = world.told();
    let edits: [(&str, &str, &str, Value); 7] = [
        ("Deployment", "virt-controller", "/spec/replicas", json!(7)),
        (
            "Deployment",
            "virt-api",
            "/spec/template/spec/containers/0/image",
            json!("other"),
        ),
        (
            "PodDisruptionBudget",
            "virt-api-pdb",
            "/spec/minAvailable",
            json!(0),
        ),
        ("Service", "virt-api", "/spec/ports/0/targetPort", json!(1)),
        ("ClusterRole", "kubevirt-components", "/rules", json!([])),
        (
            "ClusterRoleBinding",
            "kubevirt-components",
            "/subjects",
            json!([]),
        ),
        (
            "DaemonSet",
            "virt-handler",
            "/spec/template/spec/containers/0/image",
            json!("other"),
        ),
    ];
    for (kind, name, pointer, value) in edits {
        let id = world.id(kind, name);
        world.change(&id, |live| *live.pointer_mut(pointer).unwrap() = value);
        world.live().unwrap();
        assert_eq!(world.told(), expected, "{kind} {name}");
    }
    let ids: Vec<_> = world.applied.keys().cloned().collect();
    for id in ids {
        world.remove(&id);
        world.live().unwrap();
        assert_eq!(world.told(), expected, "{id}");
        assert_deployed(&world, NEW);
    }
}

#[test]
fn what_others_add_survives() {
    let mut world = installed(OLD, 1);
    let id = world.id("Deployment", "virt-api");
    let restarted = "/spec/template/metadata/annotations";
    world.change(&id, |live| {
        live["metadata"]["labels"]["team"] = json!("blue");
        live["metadata"]["annotations"]["theirs"] = json!("yes");
        live.pointer_mut(restarted).unwrap()["kubectl.kubernetes.io/restartedAt"] = json!("now");
    });
    assert!(world.plan().steps.is_empty(), "{:#?}", world.plan());
    world.ask_for(NEW);
    world.live().unwrap();
    let live = world.live_object("Deployment", "virt-api").unwrap();
    assert_eq!(live["metadata"]["labels"]["team"], "blue");
    assert_eq!(live["metadata"]["annotations"]["theirs"], "yes");
}

#[test]
fn an_object_of_a_wanted_name_is_taken_over_and_has_no_owner() {
    let mut world = World::new(NEW, 1);
    world.store(json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "kubevirt-components", "namespace": NAMESPACE},
    }));
    world.live().unwrap();
    assert_deployed(&world, NEW);
    let live = world
        .live_object("ServiceAccount", "kubevirt-components")
        .unwrap();
    assert_eq!(
        live["metadata"]["labels"][install::MANAGED_BY],
        install::MANAGER
    );
    let mut all = world.objects.values();
    assert!(all.all(|value| value["metadata"]["ownerReferences"].is_null()));
}

#[test]
fn a_service_whose_address_must_change_is_made_anew() {
    let mut world = installed(NEW, 1);
    let id = world.id("Service", "virt-api");
    let uid = world.objects[&id]["metadata"]["uid"].clone();
    world.change(&id, |live| live["spec"]["type"] = json!("NodePort"));
    world.live().unwrap();
    assert_ne!(world.objects[&id]["metadata"]["uid"], uid);
    assert_eq!(world.objects[&id]["spec"]["type"], "ClusterIP");
    let binding = world.id("ClusterRoleBinding", "kubevirt-components");
    world.change(&binding, |live| {
        live["roleRef"]["name"] = json!("cluster-admin")
    });
    world.live().unwrap();
    assert_eq!(
        world.objects[&binding]["roleRef"]["name"],
        "kubevirt-components"
    );
    assert_deployed(&world, NEW);
}

#[test]
fn a_status_subresource_comes_only_after_the_roll_over() {
    let mut world = installed(OLD, 2);
    world.ask_for(NEW);
    let has_status = |world: &World| {
        let definition = world.live_object("CustomResourceDefinition", "things.kubevirt.io");
        let pointer = "/spec/versions/0/subresources/status";
        definition.unwrap().pointer(pointer).is_some()
    };
    world
        .live_with(|world, _| {
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
fn a_definition_with_objects_stays_unless_the_resource_lets_it_go() {
    let mut world = installed(OLD, 1);
    world
        .customs
        .insert(OBSOLETE.to_owned(), vec![vm("default/precious", false)]);
    world.ask_for(NEW);
    world.live().unwrap();
    assert_deployed(&world, NEW);
    assert!(
        world
            .live_object("CustomResourceDefinition", OBSOLETE)
            .is_some()
    );
    let (_, _, message) = world.condition("Available");
    assert!(message.contains("default/precious"), "{message}");
    world.annotate(install::PRUNE_DEFINITIONS, "true");
    world.live().unwrap();
    assert!(
        world
            .live_object("CustomResourceDefinition", OBSOLETE)
            .is_none()
    );
}

#[test]
fn a_definition_without_objects_goes() {
    let mut world = installed(OLD, 1);
    world.ask_for(NEW);
    world.live().unwrap();
    assert!(
        world
            .live_object("CustomResourceDefinition", OBSOLETE)
            .is_none()
    );
    assert_deployed(&world, NEW);
}

#[test]
fn the_strategy_of_the_last_version_is_kept_until_the_next_one_runs() {
    let mut world = installed(OLD, 1);
    world.ask_for(NEW);
    let strategies = |world: &World| {
        let all = world.objects.iter().filter(|(id, value)| {
            id.is("", "ConfigMap") && !value["metadata"]["labels"][install::STRATEGY].is_null()
        });
        all.count()
    };
    world
        .live_with(|world, plan| {
            if plan.stage > Stage::Strategy && plan.stage < Stage::Tidying {
                assert_eq!(strategies(world), 2);
            }
        })
        .unwrap();
    assert_eq!(strategies(&world), 1);
}

#[test]
fn removal_leaves_nothing_behind() {
    let mut world = installed(NEW, 3);
    world.store(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "theirs", "namespace": NAMESPACE},
    }));
    world
        .customs
        .insert(VMS.to_owned(), vec![vm("default/web", false)]);
    world.journal.clear();
    world.delete_resource();
    world
        .live_with(|world, plan| {
            if world.customs.get(VMS).is_some_and(|all| !all.is_empty()) {
                assert!(plan.stage <= Stage::Workloads, "{plan:#?}");
            }
        })
        .unwrap();
    assert!(!world.exists, "{:#?}", world.plan());
    let left: Vec<_> = world.objects.keys().map(ToString::to_string).collect();
    assert_eq!(left, ["ConfigMap kubevirt/theirs", "Namespace kubevirt"]);
    let status = world.kubevirt.status.as_ref().unwrap();
    assert_eq!(status.phase, Some(InstallPhase::Deleted));
    let mut nodes = world.nodes.iter();
    assert!(nodes.all(|node| {
        !node
            .labels
            .keys()
            .any(|label| label.starts_with("kubevirt.io/"))
    }));
    assert!(world.written("delete all").unwrap() < world.written("delete Custom").unwrap());
    assert!(world.written("delete Custom").unwrap() < world.written("delete DaemonSet").unwrap());
}

#[test]
fn definitions_are_let_go_of_together() {
    let mut world = installed(NEW, 1);
    world
        .customs
        .insert(ADDED.to_owned(), vec![vm("default/slow", true)]);
    world.delete_resource();
    for _ in 0..30 {
        world.round();
    }
    let definitions = world.objects.keys();
    let definitions = definitions.filter(|id| &*id.kind == "CustomResourceDefinition");
    assert_eq!(definitions.count(), 5);
    world.live().unwrap();
    let (_, reason, message) = world.condition("Synchronized");
    assert_eq!(reason, "DeletionFailed");
    assert!(message.contains(ADDED), "{message}");
    world.customs.clear();
    world.live().unwrap();
    assert!(!world.exists);
}

#[test]
fn virtual_machines_that_do_not_go_are_named() {
    let mut world = installed(NEW, 1);
    world
        .customs
        .insert(VMS.to_owned(), vec![vm("default/held", true)]);
    world.delete_resource();
    for _ in 0..700 {
        world.round();
    }
    let (_, reason, message) = world.condition("Synchronized");
    assert_eq!(reason, "DeletionFailed");
    assert!(
        message.contains("default/held") && message.contains("kubevirt.io/holds"),
        "{message}"
    );
    assert!(world.live_object("Deployment", "virt-controller").is_some());
}

#[test]
fn virtual_machines_block_the_removal_where_that_is_wanted() {
    let mut world = installed(NEW, 1);
    world.kubevirt.spec.uninstall_strategy = Some("BlockUninstallIfWorkloadsExist".to_owned());
    world
        .customs
        .insert(VMS.to_owned(), vec![vm("default/web", false)]);
    world.delete_resource();
    for _ in 0..20 {
        world.round();
    }
    let (_, _, message) = world.condition("Synchronized");
    assert!(message.contains("default/web"), "{message}");
    assert!(!world.customs[VMS][0].deleting);
    world.customs.clear();
    for _ in 0..20 {
        world.round();
    }
    world.live().unwrap();
    assert!(!world.exists);
}

#[test]
fn webhooks_that_nobody_answers_go_first() {
    let mut world = installed(NEW, 1);
    let api = world.id("Deployment", "virt-api");
    world.remove(&api);
    world.delete_resource();
    world.journal.clear();
    world.live().unwrap();
    assert!(!world.exists);
    assert!(world.written("delete Validating").unwrap() < 2);
    assert!(world.written("delete APIService").unwrap() < 2);
}

#[test]
fn a_resource_that_is_deleted_while_it_is_deployed_goes() {
    for rounds in 0..14 {
        let mut world = World::new(NEW, 2);
        for _ in 0..rounds {
            world.round();
        }
        world.delete_resource();
        world.live().unwrap();
        assert!(!world.exists, "after {rounds} rounds: {:#?}", world.plan());
        assert_eq!(world.objects.len(), 1, "after {rounds} rounds");
    }
}

#[test]
fn a_component_that_is_not_ready_is_told_and_does_not_stop_repairs() {
    let mut world = installed(NEW, 2);
    world.broken.insert(NEW.to_owned());
    for pod in &mut world.pods {
        pod.ready = false;
    }
    world.round();
    let service = world.id("Service", "virt-api");
    world.remove(&service);
    let handler = world.id("DaemonSet", "virt-handler");
    world.remove(&handler);
    for _ in 0..5 {
        world.round();
    }
    assert!(world.objects.contains_key(&service));
    assert!(world.objects.contains_key(&handler));
    assert_eq!(
        status_of(&world, "Available"),
        is("False", "DeploymentInProgress")
    );
    world.broken.clear();
    world.live().unwrap();
    assert_deployed(&world, NEW);
}

#[test]
fn one_past_restart_is_no_crash_loop() {
    let mut world = installed(OLD, 3);
    world.ask_for(NEW);
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
    world.live().unwrap();
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
    world.pass(60);
    world.ask_for(NEW);
    world.round();
    assert_eq!(at(&world, "Available"), available);
    assert_ne!(at(&world, "Progressing"), progressing);
}
