//! First installation, and its failures.

use std::collections::BTreeSet;

use api::kubevirt::install::{self, InstallPhase};
use apimachinery::retry_ledger::RetryLedger;
use k8s_openapi::jiff::SignedDuration;
use plan::{
    kubevirt::{
        Id, Object, Stage, Step,
        cause::Cause,
        observed::{OtherKubeVirt, WriteError},
    },
    upstream_messages::RefusalCause,
};
use serde_json::json;

use crate::{
    behaviours::{assert_deployed, installed, is, status_of},
    order::check_from_api_to_nodes,
    release::{NAMESPACE, NEW, REGISTRY},
    world::World,
};

#[test]
fn an_installation_writes_each_object_once_and_then_rests() {
    let mut world = World::new(NEW, 3);
    world.run_with(check_from_api_to_nodes).unwrap();
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
fn a_second_resource_is_refused_without_writes() {
    let mut world = World::new(NEW, 1);
    world.others = vec![OtherKubeVirt {
        namespace: NAMESPACE.to_owned(),
        name: "first".to_owned(),
        created: None,
        installed: true,
    }];
    let plan = world.plan();
    assert_eq!((plan.stage, plan.steps), (Stage::Refused, vec![]));
    world.run().unwrap();
    let (status, reason, message) = world.condition("Synchronized");
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("False", "ExistingDeployment")
    );
    assert!(message.contains("kubevirt/first"), "{message}");
    assert_eq!(world.kubevirt.status.as_ref().unwrap().phase, None);
    assert_eq!(world.objects().len(), 1);
}

#[test]
fn of_two_resources_the_installed_one_is_served() {
    let mut world = installed(NEW, 1);
    world.others = vec![OtherKubeVirt {
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
    world.run().unwrap();
    assert_eq!(
        status_of(&world, "Synchronized"),
        is("False", "ExistingDeployment")
    );
    assert_eq!(world.journal, Vec::<String>::new());
}

#[test]
fn the_old_finalizer_is_replaced() {
    let mut world = World::new(NEW, 1);
    world.kubevirt.metadata.finalizers =
        Some(vec![install::OLD_FINALIZER.to_owned(), "theirs".to_owned()]);
    world.run().unwrap();
    let expected = vec!["theirs".to_owned(), install::FINALIZER.to_owned()];
    assert_eq!(world.kubevirt.metadata.finalizers, Some(expected));
}

#[test]
fn a_cluster_without_eligible_nodes_is_ready_with_a_note() {
    let world = installed(NEW, 0);
    let (status, _, message) = world.condition("Available");
    assert_eq!(status, "True");
    assert!(message.contains("no node is eligible for DaemonSet kubevirt/virt-handler"));
}

#[test]
fn a_failed_strategy_job_is_reported_and_retried() {
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
    world.advance_time(300);
    world.run().unwrap();
    assert_deployed(&world, NEW);
}

#[test]
fn a_stalled_stage_is_reported_with_its_cause() {
    let mut world = World::new(NEW, 1);
    world.broken.insert(NEW.to_owned());
    world.run().unwrap();
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
    world.run().unwrap();
    assert_deployed(&world, NEW);
}

#[test]
fn a_refusal_is_reported_with_the_api_servers_message() {
    let mut world = World::new(NEW, 1);
    let role = Id::new(
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
    world.memory.refusals = RetryLedger::default();
    world.run().unwrap();
    assert_deployed(&world, NEW);
    assert_eq!(world.condition("Synchronized"), Default::default());
}

#[test]
fn a_refused_monitoring_object_does_not_block_the_installation() {
    let mut world = World::new(NEW, 1);
    let monitor = || {
        let value = json!({
            "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
            "metadata": {"name": "kubevirt", "namespace": NAMESPACE}, "spec": {},
        });
        Object::new(&value).unwrap()
    };
    world.extra.push(monitor());
    let key = (
        "monitoring.coreos.com".to_owned(),
        "ServiceMonitor".to_owned(),
    );
    world.served.kinds.insert(key, "v1".to_owned());
    world.refuse(&monitor().id, "no monitors here");
    for (_, refused) in world.memory.refusals.iter_mut() {
        refused.retry_at.0 += SignedDuration::from_hours(1);
    }
    world.run().unwrap();
    assert_deployed(&world, NEW);
    let (_, _, message) = world.condition("Available");
    assert!(message.contains("no monitors here"), "{message}");
    let plan = world.plan();
    assert!(plan.requeue_at.is_some());
    world.memory.refusals = RetryLedger::default();
    world.run().unwrap();
    assert!(world.live_object("ServiceMonitor", "kubevirt").is_some());
}

#[test]
fn every_refused_write_is_reported() {
    let mut world = World::new(NEW, 1);
    let mut refused = Vec::new();
    for _ in 0..40 {
        let plan = world.plan();
        let step = plan.steps.iter().find(|step| {
            let kind = std::mem::discriminant(&step.action);
            !refused.contains(&kind)
        });
        if let Some(step) = step {
            refused.push(std::mem::discriminant(&step.action));
            let mut world = world.clone();
            world.refuse_step(step, "because");
            let plan = world.plan();
            assert!(plan.stalled, "{step:#?}");
            assert!(!plan.steps.contains(step), "{step:#?}");
            world.round();
            let (_, _, message) = world.condition("Synchronized");
            assert!(message.contains("because"), "{message}: {step:#?}");
        }
        world.round();
    }
    // Finalizers, creation and deletion of a Job, objects, certificates and the label of the namespace.
    assert_eq!(refused.len(), 6);
}

/// An API server or webhook that does not answer is a cause that objects of a kind share.
#[test]
fn every_write_with_a_shared_cause_waits() {
    let mut world = World::new(NEW, 1);
    let kubevirt = Id::new("kubevirt.io", "KubeVirt", NAMESPACE, "kubevirt");
    let mut refused = 0;
    for _ in 0..40 {
        for step in world.plan().steps {
            let mut world = world.clone();
            let subject = step.action.subject(&kubevirt);
            world.refuse(
                &subject,
                "the server is currently unable to handle the request",
            );
            let waiting = world.memory.refusals.clear(&subject).unwrap();
            let again = waiting.retry_at.clone();
            let shared =
                Cause::of(&subject, WriteError::Status(503), &RefusalCause::Other).unwrap();
            let retry_at = |_| waiting.retry_at;
            let causes = &mut world.memory.causes;
            causes.refuse(shared, &subject, waiting.reason, retry_at);
            let plan = world.plan();
            let is_of_kind = |next: &Step| {
                let next = next.action.subject(&kubevirt);
                (&next.group, &next.kind) == (&subject.group, &subject.kind)
            };
            assert!(!plan.steps.iter().any(is_of_kind), "{step:#?}");
            assert!(
                plan.requeue_at.is_some_and(|at| at.0 <= again.0),
                "{step:#?}"
            );
            refused += 1;
        }
        world.round();
    }
    assert!(refused > 20, "{refused}");
}

/// A stage of several kinds, as if the webhook of a policy engine did not answer.
#[test]
fn a_stage_that_a_webhook_refuses_retries_one_object() {
    let mut world = World::new(NEW, 1);
    for number in 0..5 {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": format!("more-{number}"), "namespace": NAMESPACE },
        });
        world.extra.push(Object::new(&account).unwrap());
    }
    let kubevirt = Id::new("kubevirt.io", "KubeVirt", NAMESPACE, "kubevirt");
    let kind = |step: &Step| {
        let subject = step.action.subject(&kubevirt);
        (subject.group, subject.kind)
    };
    while world.plan().stage != Stage::Rbac {
        world.round();
    }
    let steps = world.plan().steps;
    let kinds: BTreeSet<_> = steps.iter().map(kind).collect();
    assert!(kinds.len() > 2, "{kinds:?}");
    let count = |of: &Step| steps.iter().filter(|step| kind(step) == kind(of)).count();
    let refused = steps.iter().min_by_key(|step| count(step)).unwrap();
    assert!(steps.len() - count(refused) > kinds.len() - 1, "{kinds:?}");
    let refuse = |world: &mut World, step: &Step| {
        let subject = step.action.subject(&kubevirt);
        let message = format!(
            "Internal error occurred: failed calling webhook \"{}.policy.example.com\": failed to \
             call webhook: Post \"https://policy.default.svc:443/\": context deadline exceeded",
            subject.kind
        );
        world.refuse(&subject, &message);
        let refused = world.memory.refusals.clear(&subject).unwrap();
        let cause = RefusalCause::parse(&message);
        let cause = Cause::of(&subject, WriteError::Status(500), &cause).unwrap();
        let retry_at = |_| refused.retry_at;
        let causes = &mut world.memory.causes;
        causes.refuse(cause, &subject, refused.reason, retry_at);
    };
    refuse(&mut world, refused);
    // One object of each other kind is tried.
    let next = world.plan().steps;
    let others: BTreeSet<_> = next.iter().map(kind).collect();
    assert_eq!(others.len(), next.len());
    assert_eq!(others.len(), kinds.len() - 1);
    for step in &next {
        refuse(&mut world, step);
    }
    let plan = world.plan();
    assert_eq!(plan.steps, []);
    let again = plan.requeue_at.unwrap();
    // Then only the object that was refused last is retried.
    world.now = again.0;
    let tried = world.plan().steps;
    assert_eq!(tried.len(), 1);
    assert_eq!(Some(&tried[0]), next.last());
    world.memory.causes.succeed(&kind(&tried[0]));
    assert_eq!(world.plan().steps, steps);
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
