//! What is to be done for a resource now: what its plan asks for, unless that was just refused or
//! done.

use std::sync::Arc;

use api::{ObjectMeta, Time};
use plan::{
    machine::{
        CloudInitSecret, ErrorType, Known, LiveReferences, Observed, Step, plan as machine_plan,
        restore_cloud_init,
    },
    naming,
    network::plan as network_plan,
};
use runtime::cache::Key;
use serde_json::Value;
use tokio::time::Instant;

use super::{BREATH, Controller, Fingerprint, NETWORK_STATUS, PATIENCE};
use crate::machine::{
    caches::{Children, Subject},
    execute::Target,
    paths::Owner,
    secrets::Fetched,
};

/// What is to be done for a resource now.
pub(super) enum Work {
    Steps(Vec<Step>),
    Status(Value, Vec<plan::Event>),
    Fetch(String),
    /// Read the Machine with the cloud-init data that the cached one does without.
    FetchWhole,
}

/// What a look at a resource found.
pub(super) struct Look {
    pub(super) work: Option<Work>,
    pub(super) target: Target,
    pub(super) generation: Option<i64>,
    pub(super) again: Option<Instant>,
}

/// What a plan asks for.
struct Choice {
    target: Target,
    generation: Option<i64>,
    steps: Vec<Step>,
    status: Option<(Value, Vec<plan::Event>)>,
    look_again: Option<Instant>,
    retry: Option<Instant>,
    now: Instant,
}

impl Controller {
    pub(super) fn look(&mut self, subject: &Subject, now: Instant) -> Option<Look> {
        if !self.caches.serves_ours() {
            let metadata = self.caches.metadata_of(subject)?;
            if metadata.deletion_timestamp.is_none() {
                return Some(Look {
                    work: None,
                    target: Target::of(subject.owner, metadata),
                    generation: metadata.generation,
                    again: None,
                });
            }
        }
        match subject.owner {
            Owner::Machine => self.look_at_machine(subject, now),
            Owner::Network => self.look_at_network(subject, now),
        }
    }

    fn look_at_machine(&mut self, subject: &Subject, now: Instant) -> Option<Look> {
        let mut machine = Arc::clone(self.caches.machines.get(&subject.key)?);
        if let Some(whole) = self
            .whole
            .take()
            .filter(|whole| is_same(&whole.metadata, &machine.metadata))
        {
            restore_cloud_init(Arc::make_mut(&mut machine), &whole);
        }
        let target = Target::of(Owner::Machine, &machine.metadata);
        let generation = machine.metadata.generation;
        let secrets = match self.secrets.of(&subject.key, &machine, now) {
            Fetched::NotNeeded => Known::all([]),
            Fetched::Known(secrets) => secrets,
            Fetched::Unreadable(again) => {
                return Some(Look {
                    work: None,
                    target,
                    generation,
                    again: Some(again),
                });
            }
            Fetched::Wanted(name) => {
                return Some(Look {
                    work: Some(Work::Fetch(name)),
                    target,
                    generation,
                    again: None,
                });
            }
        };
        let wall = Time((self.tools.clock)());
        let refusal = self.troubles.get(subject).map(|trouble| &trouble.refusal);
        let children = self.caches.children(&machine)?;
        let is_verified = self.is_verified(&subject.key, &children, now);
        let live = self.reads.of(subject, now);
        let references = live
            .as_ref()
            .map(|(found, age)| LiveReferences { found, age: *age });
        let observed = self
            .caches
            .observe(&machine, &children, secrets.clone(), refusal);
        let observed = self.completed(observed, references, is_verified);
        let mut plan = machine_plan(&observed, &wall);
        if plan.steps.is_empty() && !plan.needs_cloud_init && refusal.is_some() {
            // What was refused is no longer wanted.
            self.end_trouble(subject);
            let observed = self.caches.observe(&machine, &children, secrets, None);
            let observed = self.completed(observed, references, is_verified);
            plan = machine_plan(&observed, &wall);
        }
        if references.is_some() {
            let mut obstacles = plan.obstacles.iter();
            let in_use = obstacles.any(|it| it.error_type == Some(ErrorType::DiskInUse));
            let prefix = naming::claim(&subject.key.name, "");
            self.reads
                .settle(subject, in_use.then_some(prefix.as_str()));
        }
        self.tools.report.of_plan(subject, &plan, &self.caches);
        if plan.needs_cloud_init && plan.steps.is_empty() {
            return Some(Look {
                work: Some(Work::FetchWhole),
                target,
                generation,
                again: None,
            });
        }
        let told = machine.status.clone().unwrap_or_default();
        let status = (told != plan.status).then(|| (to_value(&plan.status), plan.events));
        let retry = self.secrets.retry(&subject.key);
        Some(self.choose(
            subject,
            Choice {
                target,
                generation,
                steps: plan.steps,
                status,
                look_again: plan.requeue_after.map(|after| now + after),
                retry,
                now,
            },
        ))
    }

    /// Whether the Secret of the instance that there is was compared lately.
    fn is_verified(&self, machine: &Key, children: &Children, now: Instant) -> bool {
        let instance = children.instance_uid();
        instance.is_none_or(|uid| {
            let interval = self.options.reconcile_interval;
            self.secrets.is_verified(machine, uid, now, interval)
        })
    }

    fn look_at_network(&mut self, subject: &Subject, now: Instant) -> Option<Look> {
        let network = Arc::clone(self.caches.networks.get(&subject.key)?);
        let target = Target::of(Owner::Network, &network.metadata);
        let generation = network.metadata.generation;
        let wall = Time((self.tools.clock)());
        let refusal = self.troubles.get(subject).map(|trouble| &trouble.refusal);
        let observed = self.caches.observe_network(&network, refusal);
        let mut plan = network_plan(&observed, &wall);
        if plan.steps.is_empty() && refusal.is_some() {
            self.end_trouble(subject);
            plan = network_plan(&self.caches.observe_network(&network, None), &wall);
        }
        let told = network.status.clone().unwrap_or_default();
        let status = (told != plan.status).then(|| (to_value(&plan.status), plan.events));
        let written = self.past.get(subject).and_then(|past| past.status.as_ref());
        let rest = written.map(|(_, at)| *at + NETWORK_STATUS);
        let (status, retry) = match rest.filter(|rest| *rest > now) {
            Some(rest) if status.is_some() => (None, Some(rest)),
            _ => (status, None),
        };
        Some(self.choose(
            subject,
            Choice {
                target,
                generation,
                steps: plan.steps,
                status,
                look_again: plan.requeue_after.map(|after| now + after),
                retry,
                now,
            },
        ))
    }

    /// What the caches show of a Machine, with what is known from requests.
    fn completed<'a>(
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

    /// What of a plan is carried out now.
    fn choose(&self, subject: &Subject, choice: Choice) -> Look {
        let Choice {
            target,
            generation,
            steps,
            status,
            look_again,
            retry,
            now,
        } = choice;
        let past = self.past.get(subject);
        // What is due already was decided just now; if it cannot be written yet, to look at once
        // would only find the same.
        let look_again = look_again.map(|at| if at > now { at } else { now + BREATH });
        let mut again: Vec<Instant> = [look_again, retry].into_iter().flatten().collect();
        let mut work = None;
        if !steps.is_empty() {
            let trouble = self
                .troubles
                .get(subject)
                .filter(|trouble| trouble.generation == generation)
                .map(|trouble| trouble.until);
            let repeated = past
                .and_then(|past| past.steps.as_ref())
                .filter(|(done, _)| *done == Fingerprint::of(&steps))
                .map(|(_, at)| *at + PATIENCE);
            match trouble.max(repeated).filter(|until| *until > now) {
                Some(until) => again.push(until),
                None => work = Some(Work::Steps(steps)),
            }
        }
        if work.is_none()
            && let Some((status, events)) = status
        {
            let repeated = past
                .and_then(|past| past.status.as_ref())
                .filter(|(written, _)| *written == Fingerprint::of(&status))
                .map(|(_, at)| *at + PATIENCE);
            let refused = past.and_then(|past| past.status_after);
            match repeated.max(refused).filter(|until| *until > now) {
                Some(until) => again.push(until),
                None => work = Some(Work::Status(status, events)),
            }
        }
        Look {
            work,
            target,
            generation,
            again: again.into_iter().min(),
        }
    }
}

/// Whether two states of a resource have the same spec.
fn is_same(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    one.uid == other.uid && one.generation == other.generation
}

fn to_value(status: &impl serde::Serialize) -> Value {
    serde_json::to_value(status).unwrap_or_default()
}
