//! What the API server asks about changes to Machines, MachineClasses and NetworkConfigurations, and
//! the answers.
//!
//! Every replica answers, whether it leads or not: nothing is written. What is known of the cluster
//! comes from the caches of the operator that runs in this process, and from the few requests that
//! caches cannot replace, each under a timeout, and none at the expense of the operator's own. What
//! cannot be found out lets a change in, and is told.

mod live;
mod questions;

use api::{Machine, MachineClass, NetworkConfiguration};
use plan::admission::{Verdict, machine, machine_class, network_configuration};
use runtime::{cache::Key, tls::Handler};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub use self::questions::Questions;
use self::{live::Live, questions::Asker};
use super::{Operator, caches::Caches};
use crate::metrics::Metrics;
use crate::review::{self, Asked, Operation, Sent, Unanswered};

/// Answers the API server's questions about changes.
#[derive(Clone)]
pub struct Webhook {
    asker: Asker,
    live: Live,
    metrics: Metrics,
}

impl Webhook {
    pub(super) fn of(operator: &Operator) -> Self {
        Self {
            asker: operator.questions.asker(),
            live: Live::new(operator.lookups.clone()),
            metrics: operator.metrics.clone(),
        }
    }

    /// Answers requests of HTTP.
    pub fn handler(self) -> Handler {
        review::handler(move |path, review| {
            let webhook = self.clone();
            Box::pin(async move { webhook.review(&path, &review).await })
        })
    }

    /// Answers an AdmissionReview.
    pub async fn review(&self, path: &str, review: &[u8]) -> Result<Value, Unanswered> {
        let resource = Resource::of(path).ok_or(Unanswered::Path)?;
        let asked = Asked::of(review)?;
        let subject = asked.subject.clone();
        let verdict = self.verdict(resource, asked).await;
        let counted = if !verdict.is_allowed() {
            "refused"
        } else if verdict.warnings.is_empty() {
            "allowed"
        } else {
            "warned"
        };
        self.metrics.admission(resource.plural(), counted);
        Ok(subject.respond(&verdict))
    }

    async fn verdict(&self, resource: Resource, asked: Asked<'_>) -> Verdict {
        // Said here as well, because it holds for what cannot be decoded, too.
        if asked.leaves_spec() {
            return Verdict::default();
        }
        let judged = match resource {
            Resource::Machines => self.machine(asked).await,
            Resource::MachineClasses => self.machine_class(asked).await,
            Resource::NetworkConfigurations => self.network_configuration(asked).await,
        };
        judged.unwrap_or_else(|unchecked| {
            let mut verdict = Verdict::default();
            verdict.warn(unchecked.to_string());
            verdict
        })
    }

    async fn machine(&self, asked: Asked<'_>) -> Result<Verdict, Unchecked> {
        let (old, new) = versions::<Machine>(&asked)?;
        let Some(new) = new.filter(|new| machine::needs_review(old.as_ref(), new)) else {
            return Ok(Verdict::default());
        };
        let namespace = new.metadata.namespace.clone().unwrap_or_default();
        let machine = new.clone();
        let known = self.ask(&namespace, move |caches| caches.facts_of_machine(&machine));
        let (mut facts, unchecked) = match known.await {
            Ok(Some(facts)) => (facts, None),
            Ok(None) => return Ok(Verdict::default()),
            // What contradicts itself does so anywhere.
            Err(unchecked) => (machine::ReviewContext::default(), Some(unchecked)),
        };
        let looked = self.live.look(old.as_ref(), &new, &mut facts).await;
        let unchecked = unchecked.or(looked.err());
        let mut verdict = machine::review(old.as_ref(), &new, &facts);
        if let Some(unchecked) = unchecked {
            verdict.warn(unchecked.to_string());
        }
        Ok(verdict)
    }

    async fn machine_class(&self, asked: Asked<'_>) -> Result<Verdict, Unchecked> {
        let (old, new) = versions::<MachineClass>(&asked)?;
        let Some(class) = new.as_ref().or(old.as_ref()).cloned() else {
            return Ok(Verdict::default());
        };
        let known = self.ask("", move |caches| caches.facts_of_class(&class));
        let (facts, unchecked) = match known.await {
            Ok(facts) => (facts.unwrap_or_default(), None),
            Err(unchecked) => (machine_class::ReviewContext::default(), Some(unchecked)),
        };
        let mut verdict = match (&old, &new) {
            (old, Some(new)) => machine_class::review(old.as_ref(), new, &facts),
            (Some(old), None) => machine_class::delete(old, &facts.users),
            (None, None) => Verdict::default(),
        };
        if let Some(unchecked) = unchecked {
            verdict.warn(unchecked.to_string());
        }
        Ok(verdict)
    }

    async fn network_configuration(&self, asked: Asked<'_>) -> Result<Verdict, Unchecked> {
        let (old, new) = versions::<NetworkConfiguration>(&asked)?;
        // A new one has no users that could mind.
        let Some(old) = old else {
            return Ok(Verdict::default());
        };
        let key = Key::of(&old.metadata);
        let namespace = key.namespace.clone();
        let known = self.ask(&namespace, move |caches| caches.facts_of_network(&key));
        let Some(users) = known.await? else {
            return Ok(Verdict::default());
        };
        Ok(match &new {
            Some(new) => network_configuration::review(Some(&old), new, &users),
            None => network_configuration::delete(&old, &users, &asked.user_info.username),
        })
    }

    /// What the caches of the running operator say about something of a namespace; nothing if
    /// others look after that.
    async fn ask<T: Send + 'static>(
        &self,
        namespace: &str,
        question: impl FnOnce(&Caches) -> Option<T> + Send + 'static,
    ) -> Result<Option<T>, Unchecked> {
        let namespace = namespace.to_owned();
        let answer = self.asker.ask(move |caches| {
            if !caches.keeps(&namespace) {
                return Ok(None);
            }
            question(caches).map(Some).ok_or(Unchecked::NotSynced)
        });
        answer.await.unwrap_or(Err(Unchecked::Busy))
    }
}

/// Why a change was not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Unchecked {
    #[error("this was not checked against the cluster: the operator has just started")]
    NotSynced,
    #[error("this was not checked against the cluster: the operator is busy or about to end")]
    Busy,
    #[error(
        "this was not checked against the VirtualMachines, Secrets and quotas of its namespace: the \
         API server did not tell all of them"
    )]
    Untold,
    #[error("this was not checked: this version of the operator cannot read it")]
    Unreadable,
}

/// What an object was and what it is to be. A spec that is left out is an empty one.
fn versions<T: DeserializeOwned>(asked: &Asked<'_>) -> Result<(Option<T>, Option<T>), Unchecked> {
    let decode = |sent: Sent<'_>| {
        if !sent.is_some() {
            return Ok(None);
        }
        let decoded = if sent.spec().is_some() {
            sent.decode().map(Some)
        } else {
            sent.decode().and_then(|mut object: Map<String, Value>| {
                object.insert("spec".to_owned(), json!({}));
                decode::from_value(Value::Object(object)).map(Some)
            })
        };
        // What is wrong may quote what is in it.
        decoded.map_err(|_| Unchecked::Unreadable)
    };
    Ok(match asked.operation {
        Operation::Create => (None, decode(asked.object)?),
        Operation::Update => (decode(asked.old_object)?, decode(asked.object)?),
        Operation::Delete => (decode(asked.old_object)?, None),
        Operation::Other => (None, None),
    })
}

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resource {
    Machines,
    MachineClasses,
    NetworkConfigurations,
}

impl Resource {
    fn of(path: &str) -> Option<Self> {
        let plural = path.strip_prefix("/validate/")?;
        let all = [
            Self::Machines,
            Self::MachineClasses,
            Self::NetworkConfigurations,
        ];
        all.into_iter().find(|resource| resource.plural() == plural)
    }

    fn plural(self) -> &'static str {
        match self {
            Self::Machines => "machines",
            Self::MachineClasses => "machineclasses",
            Self::NetworkConfigurations => "networkconfigurations",
        }
    }
}

#[cfg(test)]
mod tests;
