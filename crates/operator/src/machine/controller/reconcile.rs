//! Reconcile of one Machine or NetworkConfiguration: observes it in the caches, plans, and selects the
//! work to start now.
//!
//! Work that was refused a short time ago, or that was just done, is deferred.

use std::sync::Arc;

use api::{ObjectMeta, Time};
use plan::{
    Fingerprint,
    machine::{
        CloudInitObjects, CloudInitSecret, ErrorType, LiveReferences, Observed, SourceKind, Step,
        plan as machine_plan, restore_cloud_init,
    },
    naming,
    network::plan as network_plan,
};
use runtime::cache::Key;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    Controller, MIN_REQUEUE_INTERVAL, NETWORK_STATUS_INTERVAL, REPEAT_WRITE_DELAY, Role,
    cluster::unknown_cluster,
};
use crate::machine::{
    caches::{Children, Subject},
    execute::Target,
    paths::Owner,
    secrets::SecretState,
};

/// Requests to send for a resource.
pub(super) enum Work {
    Steps(Vec<Step>),
    Status(Value, Vec<plan::Event>),
    ReadCloudInit(Vec<(SourceKind, String)>),
    /// Read the Machine with the cloud-init data that is not cached.
    ReadMachine,
}

/// Result of a reconcile.
pub(super) struct Reconciled {
    pub(super) work: Option<Work>,
    pub(super) target: Target,
    pub(super) generation: Option<i64>,
    pub(super) requeue_at: Option<Instant>,
}

/// Work that a plan asks for, before deferrals.
pub(super) struct Candidate {
    pub(super) target: Target,
    pub(super) generation: Option<i64>,
    pub(super) steps: Vec<Step>,
    pub(super) status: Option<(Value, Vec<plan::Event>)>,
    pub(super) requeue_at: Option<Instant>,
    pub(super) retry: Option<Instant>,
    pub(super) now: Instant,
}

impl Controller {
    pub(super) fn reconcile(&mut self, subject: &Subject, now: Instant) -> Option<Reconciled> {
        if !self.caches.serves_vitistack() {
            let metadata = self.caches.metadata_of(subject)?;
            if metadata.deletion_timestamp.is_none() {
                return Some(Reconciled {
                    work: None,
                    target: Target::of(subject.owner, metadata),
                    generation: metadata.generation,
                    requeue_at: None,
                });
            }
        }
        match subject.owner {
            Owner::Machine => self.reconcile_machine(subject, now),
            Owner::Network => self.reconcile_network(subject, now),
        }
    }

    fn reconcile_machine(&mut self, subject: &Subject, now: Instant) -> Option<Reconciled> {
        let mut machine = Arc::clone(self.caches.machines.get(&subject.key)?);
        if let Some(full) = self
            .full_machine
            .take()
            .filter(|full| has_same_spec(&full.metadata, &machine.metadata))
        {
            restore_cloud_init(Arc::make_mut(&mut machine), &full);
        }
        let target = Target::of(Owner::Machine, &machine.metadata);
        let generation = machine.metadata.generation;
        match self.role(&machine) {
            Role::Reconcile => {}
            Role::Leave => return None,
            Role::Report(cluster) => {
                let problem = unknown_cluster(cluster);
                return Some(self.report_unavailable(subject, &machine, cluster, &problem, now));
            }
        }
        if let Some(problem) = self.problem().cloned() {
            let cluster = self.cluster_name().unwrap_or_default().to_owned();
            return Some(self.report_unavailable(subject, &machine, &cluster, &problem, now));
        }
        let secrets = match self.secrets.of(&subject.key, &machine, now) {
            SecretState::NotNeeded => CloudInitObjects::none(),
            SecretState::Known(secrets) => secrets,
            SecretState::Unreadable { retry_at } => {
                return Some(Reconciled {
                    work: None,
                    target,
                    generation,
                    requeue_at: Some(retry_at),
                });
            }
            SecretState::Unread(named) => {
                return Some(Reconciled {
                    work: Some(Work::ReadCloudInit(named)),
                    target,
                    generation,
                    requeue_at: None,
                });
            }
        };
        let wall = Time((self.deps.clock)());
        let refusal = self.retries.refusal(subject);
        let children = self.caches.children(&machine)?;
        let is_verified = self.is_verified(&subject.key, &children, now);
        let live = self.reads.of(subject, now);
        let references = live
            .as_ref()
            .map(|(found, age)| LiveReferences { found, age: *age });
        let observed = self
            .caches
            .observe(&machine, &children, secrets.clone(), refusal);
        let observed = self.with_live_reads(observed, references, is_verified);
        let mut plan = machine_plan(&observed, &wall);
        if plan.steps.is_empty() && !plan.needs_cloud_init && refusal.is_some() {
            // The refused write is no longer needed.
            self.retries.steps.clear(subject);
            let observed = self.caches.observe(&machine, &children, secrets, None);
            let observed = self.with_live_reads(observed, references, is_verified);
            plan = machine_plan(&observed, &wall);
        }
        if references.is_some() {
            let mut obstacles = plan.obstacles.iter();
            let in_use = obstacles.any(|it| it.error_type == Some(ErrorType::DiskInUse));
            let prefix = naming::claim(&subject.key.name, "");
            self.reads
                .settle(subject, in_use.then_some(prefix.as_str()));
        }
        self.deps.report.plan_errors(subject, &plan, &self.caches);
        if plan.needs_cloud_init && plan.steps.is_empty() {
            return Some(Reconciled {
                work: Some(Work::ReadMachine),
                target,
                generation,
                requeue_at: None,
            });
        }
        let current = machine.status.clone().unwrap_or_default();
        let status = (current != plan.status).then(|| (to_value(&plan.status), plan.events));
        let retry = self.secrets.retry_at(&subject.key);
        Some(self.select(
            subject,
            Candidate {
                target,
                generation,
                steps: plan.steps,
                status,
                requeue_at: plan.requeue_after.map(|after| now + after),
                retry,
                now,
            },
        ))
    }

    /// Whether the Secret of the current instance was compared within the reconcile interval.
    fn is_verified(&self, machine: &Key, children: &Children, now: Instant) -> bool {
        let instance = children.instance_uid();
        instance.is_none_or(|uid| {
            let interval = self.options.reconcile_interval;
            self.secrets.is_verified(machine, uid, now, interval)
        })
    }

    fn reconcile_network(&mut self, subject: &Subject, now: Instant) -> Option<Reconciled> {
        // That of the cluster of the Machines does.
        if self.remote.is_some() {
            return None;
        }
        let network = Arc::clone(self.caches.networks.get(&subject.key)?);
        let target = Target::of(Owner::Network, &network.metadata);
        let generation = network.metadata.generation;
        let wall = Time((self.deps.clock)());
        let refusal = self.retries.refusal(subject);
        let observed = self.caches.observe_network(&network, refusal);
        let mut plan = network_plan(&observed, &wall);
        if plan.steps.is_empty() && refusal.is_some() {
            self.retries.steps.clear(subject);
            plan = network_plan(&self.caches.observe_network(&network, None), &wall);
        }
        let current = network.status.clone().unwrap_or_default();
        let status = (current != plan.status).then(|| (to_value(&plan.status), plan.events));
        let last = self.last_writes.get(subject);
        let last = last.and_then(|last| last.status.as_ref());
        let not_before = last.map(|(_, at)| *at + NETWORK_STATUS_INTERVAL);
        let (status, retry) = match not_before.filter(|not_before| *not_before > now) {
            Some(not_before) if status.is_some() => (None, Some(not_before)),
            _ => (status, None),
        };
        Some(self.select(
            subject,
            Candidate {
                target,
                generation,
                steps: plan.steps,
                status,
                requeue_at: plan.requeue_after.map(|after| now + after),
                retry,
                now,
            },
        ))
    }

    /// Adds to the observed state what live reads returned.
    fn with_live_reads<'a>(
        &'a self,
        observed: Observed<'a>,
        references: Option<LiveReferences<'a>>,
        is_verified: bool,
    ) -> Observed<'a> {
        let cloud_init_secret = match observed.cloud_init_secret {
            CloudInitSecret::Unobserved { .. } => CloudInitSecret::Unobserved { is_verified },
            watched => watched,
        };
        Observed {
            references,
            cloud_init_secret,
            digest_key: self.key.key(),
            ..observed
        }
    }

    /// Selects the work to start now: steps before the status, and neither while deferred.
    pub(super) fn select(&self, subject: &Subject, candidate: Candidate) -> Reconciled {
        let Candidate {
            target,
            generation,
            steps,
            status,
            requeue_at,
            retry,
            now,
        } = candidate;
        let last = self.last_writes.get(subject);
        // A time that has passed was considered just now: an immediate requeue would plan the same.
        let requeue_at = requeue_at.map(|at| {
            if at > now {
                at
            } else {
                now + MIN_REQUEUE_INTERVAL
            }
        });
        let mut requeues: Vec<Instant> = [requeue_at, retry].into_iter().flatten().collect();
        let mut work = None;
        if !steps.is_empty() {
            let retry_at = self.retries.steps_retry_at(subject, generation);
            let repeat_at = last
                .and_then(|last| last.steps.as_ref())
                .filter(|(done, _)| *done == fingerprint(&steps))
                .map(|(_, at)| *at + REPEAT_WRITE_DELAY);
            match retry_at.max(repeat_at).filter(|at| *at > now) {
                Some(at) => requeues.push(at),
                None => work = Some(Work::Steps(steps)),
            }
        }
        if work.is_none()
            && let Some((status, events)) = status
        {
            let repeat_at = last
                .and_then(|last| last.status.as_ref())
                .filter(|(written, _)| *written == Fingerprint::of_json(&status))
                .map(|(_, at)| *at + REPEAT_WRITE_DELAY);
            let retry_at = self.retries.status.retry_at(subject);
            match repeat_at.max(retry_at).filter(|at| *at > now) {
                Some(at) => requeues.push(at),
                None => work = Some(Work::Status(status, events)),
            }
        }
        Reconciled {
            work,
            target,
            generation,
            requeue_at: requeues.into_iter().min(),
        }
    }
}

/// Fingerprint of a batch of writes, whatever their reasons.
pub(super) fn fingerprint(steps: &[Step]) -> Fingerprint {
    let actions: Vec<_> = steps.iter().map(|step| &step.action).collect();
    Fingerprint::of_json(&actions)
}

fn has_same_spec(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    one.uid == other.uid && one.generation == other.generation
}

pub(super) fn to_value(status: &impl serde::Serialize) -> Value {
    serde_json::to_value(status).unwrap_or_default()
}
