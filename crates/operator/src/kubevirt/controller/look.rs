//! What is to be done now: what the plan asks for, unless that was just refused or done.

use std::fmt::Write as _;

use api::{Time, kubevirt::install::KubeVirt};
use plan::kubevirt::{Fingerprint, Observed, Plan, Step, observed::Memory, plan as next};
use serde_json::Value;
use tokio::time::Instant;

use super::{Controller, Listing, PATIENCE, Past, STATUS_INTERVAL, WEBHOOK, Watched};
use crate::{
    certificates::validities,
    kubevirt::{
        execute::{self, Target, Work},
        resources,
    },
};

impl Controller {
    /// Begins what is to be done, if nothing is under way.
    pub(super) fn work(&mut self, now: Instant) {
        if !self.writing.is_empty() {
            return;
        }
        let is_time = match self.listing {
            Listing::Wanted(again) => again.is_none_or(|again| again <= now),
            Listing::Asked => false,
            Listing::Known(again) => again.is_some_and(|again| again <= now),
        };
        if is_time {
            self.list_kinds();
            return;
        }
        if !self.leads() {
            return;
        }
        let is_time = self.define_again.is_none_or(|again| again <= now);
        if !self.defined && is_time && self.caches.is_synced(&Watched::Definitions) {
            self.define();
            return;
        }
        let is_time = self.look_again.is_some_and(|again| again <= now);
        if !self.synced || !(self.due || is_time) {
            return;
        }
        self.due = false;
        self.look_again = None;
        let namespace = &self.options.operator.namespace;
        let kubevirts = resources::in_order(&self.caches, namespace);
        let Some(first) = kubevirts.first() else {
            self.forget();
            return;
        };
        if self.read_strategies(first, now) {
            return;
        }
        self.follow_certificates();
        for (place, kubevirt) in kubevirts.iter().enumerate() {
            self.look(kubevirt, place == 0, now);
        }
    }

    /// Tells whether the webhook can be asked: those who ask do not mind which replica leads.
    pub(super) fn note_webhook(&self) {
        let secrets = Watched::Objects(("".into(), "Secret".into()));
        let listed = self.caches.is_synced(&secrets);
        if let Some(met) = self.certificates.webhook(listed) {
            self.tools.health.set_requirement(WEBHOOK, met);
        }
    }

    /// Brings what is known of certificates to where the objects are.
    pub(super) fn follow_certificates(&mut self) {
        self.note_webhook();
        let namespace = &self.options.operator.namespace;
        if self.certificates.follow(self.caches.objects(), namespace) {
            self.tools
                .report
                .certificates(&validities(self.certificates.pairs()));
        }
    }

    fn look(&mut self, kubevirt: &KubeVirt, is_served: bool, now: Instant) {
        let wall = Time((self.tools.clock)());
        let plan = self.plan(kubevirt, &wall);
        if is_served {
            self.tools.report.of_plan(&plan, seconds(&wall));
        }
        let Plan {
            steps,
            status,
            events,
            requeue_at,
            ..
        } = plan;
        let mut again: Vec<Instant> = Vec::new();
        again.extend(self.strategies.again(now));
        again.extend(requeue_at.map(|time| self.instant(&time, now)));
        let target = Target::of(kubevirt);
        let past = self.past.get(target.uid());
        let past = past.copied().unwrap_or_default();
        let steps = self.allowed(&target, steps, past, &wall, now, &mut again);
        let status = status.and_then(|status| {
            let old = to_value(&kubevirt.status.clone().unwrap_or_default());
            let new = to_value(&status);
            (old != new).then_some((old, new))
        });
        let status = status.filter(|(old, new)| {
            let refused = self.memory.refusals.get(&target.status_id());
            let refused = refused.filter(|refused| refused.retry_at > wall);
            let refused = refused.map(|refused| self.instant(&refused.retry_at, now));
            let repeated = past
                .status
                .filter(|(done, _)| *done == Fingerprint::of(&new.to_string()))
                .map(|(_, at)| at + PATIENCE);
            // A transition is never held back: others wait for it.
            let paced = past.status_at.filter(|_| milestone(old) == milestone(new));
            let paced = paced.map(|at| at + STATUS_INTERVAL);
            let until = refused.max(repeated).max(paced);
            let until = until.filter(|until| *until > now);
            again.extend(until);
            until.is_none()
        });
        self.look_again = again.into_iter().chain(self.look_again).min();
        self.begin(target, steps, status, events, now);
    }

    fn plan(&self, kubevirt: &KubeVirt, wall: &Time) -> Plan {
        let others = resources::others(&self.caches, kubevirt);
        let observed = Observed {
            kubevirt,
            others: &others,
            operator: &self.options.operator,
            strategies: self.strategies.held(),
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
        next(&observed, wall)
    }

    /// The steps that were not refused a short time ago, unless all of them were just done.
    fn allowed(
        &self,
        target: &Target,
        steps: Vec<Step>,
        past: Past,
        wall: &Time,
        now: Instant,
        again: &mut Vec<Instant>,
    ) -> Vec<Work> {
        let steps: Vec<Step> = steps
            .into_iter()
            .filter(|step| {
                let subject = execute::subject(target, &step.action);
                let refused = self.memory.refusals.get(&subject);
                let refused = refused.filter(|refused| {
                    refused.retry_at > *wall
                        && refused.fingerprint == execute::fingerprint(&step.action)
                });
                again.extend(refused.map(|refused| self.instant(&refused.retry_at, now)));
                refused.is_none()
            })
            .collect();
        let repeated = past
            .steps
            .filter(|(done, _)| !steps.is_empty() && *done == fingerprint(&steps))
            .map(|(_, at)| at + PATIENCE)
            .filter(|until| *until > now);
        if let Some(until) = repeated {
            again.push(until);
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

    /// There is no KubeVirt resource, and nothing to be remembered of it.
    fn forget(&mut self) {
        self.memory = Memory::default();
        self.counts.clear();
        self.past.clear();
        self.strategies.keep(&[]);
        self.tools.report.nothing();
    }
}

/// What tells one round of writes from another.
pub(super) fn fingerprint<'a>(steps: impl IntoIterator<Item = &'a Step>) -> Fingerprint {
    let mut text = String::new();
    for step in steps {
        // What an object holds is not printed; its fingerprint tells it apart.
        let written = execute::fingerprint(&step.action);
        // Writing to a String does not fail.
        let _ = writeln!(text, "{:?} {written:?}", step.action);
    }
    Fingerprint::of(&text)
}

fn seconds(time: &Time) -> f64 {
    time.0
        .duration_since(jiff::Timestamp::UNIX_EPOCH)
        .as_secs_f64()
}

fn to_value(status: &impl serde::Serialize) -> Value {
    serde_json::to_value(status).unwrap_or_default()
}

/// What of a status others wait for: the phase, and the status and reason of each condition.
fn milestone(status: &Value) -> (&Value, Vec<[&Value; 3]>) {
    let conditions = status["conditions"].as_array();
    let conditions = conditions.into_iter().flatten();
    let conditions = conditions.map(|it| [&it["type"], &it["status"], &it["reason"]]);
    (&status["phase"], conditions.collect())
}
