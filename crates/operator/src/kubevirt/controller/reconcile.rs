//! Reconcile of the KubeVirt resources: plans each of them and selects the writes to send now.
//!
//! Writes that were refused a short time ago, or that were just sent, are deferred.

use api::{Time, kubevirt::install::KubeVirt};
use plan::kubevirt::{
    Fingerprint, Observed, Plan, PlanCaches, Step, observed::Memory, plan as next,
};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    Controller, Discovery, LastWrites, REPEAT_WRITE_DELAY, STATUS_INTERVAL, WEBHOOK, Watched,
};
use crate::{
    certificates::validities,
    kubevirt::{
        definition::DEFINITION,
        execute::{self, Target, Work},
        resources,
    },
};

impl Controller {
    /// Starts the next requests, if none are in flight.
    pub(super) fn start_work(&mut self, now: Instant) {
        if !self.inputs.in_flight.is_empty() {
            return;
        }
        let is_time = match self.discovery {
            Discovery::Needed(again) => again.is_none_or(|again| again <= now),
            Discovery::InFlight => false,
            Discovery::Complete(again) => again.is_some_and(|again| again <= now),
        };
        if is_time {
            self.discover();
            return;
        }
        if !self.leads() {
            return;
        }
        let retry_at = self.crd_retries.retry_at(&DEFINITION);
        let is_time = retry_at.is_none_or(|again| again <= now);
        if !self.is_crd_installed && is_time && self.caches.is_synced(&Watched::Definitions) {
            self.install_crd();
            return;
        }
        let is_time = self.requeue_at.is_some_and(|again| again <= now);
        if !self.synced || !(self.is_due || is_time) {
            return;
        }
        self.is_due = false;
        self.requeue_at = None;
        let namespace = &self.options.operator.namespace;
        let kubevirts = resources::in_order(&self.caches, namespace);
        let Some(first) = kubevirts.first() else {
            self.forget();
            return;
        };
        if self.read_strategies(first, now) {
            return;
        }
        self.update_certificates();
        for (place, kubevirt) in kubevirts.iter().enumerate() {
            self.reconcile(kubevirt, place == 0, now);
        }
    }

    /// Sets the readiness of the webhook, which every replica serves.
    pub(super) fn report_webhook(&self) {
        let secrets = Watched::Objects(("".into(), "Secret".into()));
        let listed = self.caches.is_synced(&secrets);
        if let Some(met) = self.certificates.webhook(listed) {
            self.deps.health.set_requirement(WEBHOOK, met);
        }
    }

    /// Updates the certificates from the cached objects.
    pub(super) fn update_certificates(&mut self) {
        self.report_webhook();
        let namespace = &self.options.operator.namespace;
        if self.certificates.update(self.caches.objects(), namespace) {
            self.deps
                .report
                .certificates(&validities(self.certificates.pairs()));
        }
    }

    fn reconcile(&mut self, kubevirt: &KubeVirt, is_served: bool, now: Instant) {
        let wall = Time((self.deps.clock)());
        let plan = self.plan(kubevirt, &wall);
        if is_served {
            self.deps.report.plan(&plan, seconds(&wall));
        }
        let Plan {
            steps,
            status,
            events,
            requeue_at,
            ..
        } = plan;
        let mut requeues: Vec<Instant> = Vec::new();
        requeues.extend(self.strategies.retry_at(now));
        requeues.extend(requeue_at.map(|time| self.instant(&time, now)));
        let target = Target::of(kubevirt);
        let last = self.last_writes.get(target.uid());
        let steps = self.select(&target, steps, last, &wall, now, &mut requeues);
        let status = status.and_then(|status| {
            let old = to_value(&kubevirt.status.clone().unwrap_or_default());
            let new = to_value(&status);
            (old != new).then_some((old, new))
        });
        let status = status.filter(|(old, new)| {
            let refused = self.memory.refusals.get(&target.status_id());
            let refused = refused.filter(|refused| refused.retry_at > wall);
            let retry_at = refused.map(|refused| self.instant(&refused.retry_at, now));
            let repeat_at = last
                .and_then(|last| last.status)
                .filter(|(done, _)| *done == Fingerprint::of(&new.to_string()))
                .map(|(_, at)| at + REPEAT_WRITE_DELAY);
            // A transition is written at once: clients wait for it.
            let limited = last
                .and_then(|last| last.status_at)
                .filter(|_| transitions(old) == transitions(new));
            let not_before = limited.map(|at| at + STATUS_INTERVAL);
            let deferred = retry_at.max(repeat_at).max(not_before);
            let deferred = deferred.filter(|at| *at > now);
            requeues.extend(deferred);
            deferred.is_none()
        });
        self.requeue_at = requeues.into_iter().chain(self.requeue_at).min();
        self.start(target, steps, status, events, now);
    }

    fn plan(&mut self, kubevirt: &KubeVirt, wall: &Time) -> Plan {
        let others = resources::others(&self.caches, kubevirt);
        let observed = Observed {
            kubevirt,
            others: &others,
            operator: &self.options.operator,
            strategies: self.strategies.cached(),
            unreadable: self.strategies.unreadable(),
            objects: self.caches.objects(),
            pods: self.caches.pods(),
            nodes: self.caches.nodes(),
            served: &self.served,
            pairs: self.certificates.pairs(),
            bundles: self.certificates.bundles(),
            counts: &self.counts,
            memory: &self.memory,
        };
        next(&observed, wall, &mut self.plan_caches)
    }

    /// Selects the steps that are not waiting for a retry; none if exactly these were just sent.
    fn select(
        &self,
        target: &Target,
        steps: Vec<Step>,
        last: Option<&LastWrites>,
        wall: &Time,
        now: Instant,
        requeues: &mut Vec<Instant>,
    ) -> Vec<Work> {
        let steps: Vec<Step> = steps
            .into_iter()
            .filter(|step| {
                let subject = execute::subject(target, &step.action);
                let refused = self.memory.refusals.get(&subject);
                let refused = refused.filter(|refused| {
                    refused.retry_at > *wall
                        && refused.reason.fingerprint == execute::fingerprint(&step.action)
                });
                requeues.extend(refused.map(|refused| self.instant(&refused.retry_at, now)));
                refused.is_none()
            })
            .collect();
        let actions = steps.iter().map(|step| &step.action);
        let repeat_at = last
            .and_then(|last| last.steps.as_ref())
            .filter(|(done, _)| !steps.is_empty() && done.iter().eq(actions))
            .map(|(_, at)| *at + REPEAT_WRITE_DELAY)
            .filter(|at| *at > now);
        if let Some(at) = repeat_at {
            requeues.push(at);
            return Vec::new();
        }
        steps
            .into_iter()
            .map(|step| {
                let id = execute::subject(target, &step.action);
                let resource = self.kinds.resource(&id.group, &id.kind).cloned();
                Work { step, resource }
            })
            .collect()
    }

    /// Resets all state after the last KubeVirt resource is gone.
    fn forget(&mut self) {
        self.memory = Memory::default();
        self.plan_caches = PlanCaches::default();
        self.counts.clear();
        self.last_writes.clear();
        self.strategies.retain(&[]);
        self.deps.report.reset();
    }
}

fn seconds(time: &Time) -> f64 {
    time.0
        .duration_since(jiff::Timestamp::UNIX_EPOCH)
        .as_secs_f64()
}

fn to_value(status: &impl serde::Serialize) -> Value {
    serde_json::to_value(status).unwrap_or_default()
}

/// Fields of a status that clients wait for: the phase, and status and reason of each condition.
fn transitions(status: &Value) -> (&Value, Vec<[&Value; 3]>) {
    let conditions = status["conditions"].as_array();
    let conditions = conditions.into_iter().flatten();
    let conditions = conditions.map(|it| [&it["type"], &it["status"], &it["reason"]]);
    (&status["phase"], conditions.collect())
}
