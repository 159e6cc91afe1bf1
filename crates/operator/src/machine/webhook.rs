//! Validating webhook of Machines, MachineClasses and NetworkConfigurations.
//!
//! Every replica answers, whether it leads or not: nothing is written. Facts come from the caches of
//! the operator in this process, and from a few live reads, each with a timeout and none at the expense
//! of the operator's own rate limit. A change that cannot be checked is admitted with a warning.

mod cache_queries;
mod live;

use api::{Machine, MachineClass, NetworkConfiguration};
use plan::{
    admission::{Verdict, machine, machine_class, network_configuration},
    machine::Provider,
};
use runtime::{cache::Key, tls::Handler};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub use self::cache_queries::CacheQueries;
pub(super) use self::cache_queries::CacheQuery;
use self::{cache_queries::CacheReader, live::Live};
use super::{Operator, caches::Caches};
use crate::metrics::Metrics;
use crate::review::{self, Operation, ReviewError, ReviewObject, ReviewRequest};

#[derive(Clone)]
pub struct Webhook {
    reader: CacheReader,
    live: Live,
    metrics: Metrics,
    provider: Provider,
}

impl Webhook {
    pub(super) fn of(operator: &Operator) -> Self {
        Self {
            reader: operator.queries.reader(),
            live: Live::new(operator.lookups.clone()),
            metrics: operator.metrics.clone(),
            provider: operator.options.provider.clone(),
        }
    }

    /// HTTP handler of the webhook.
    pub fn handler(self) -> Handler {
        review::handler(move |path, review| {
            let webhook = self.clone();
            Box::pin(async move { webhook.review(&path, &review).await })
        })
    }

    /// Answers an AdmissionReview that was sent to `path`.
    pub async fn review(&self, path: &str, review: &[u8]) -> Result<Value, ReviewError> {
        let resource = Resource::of(path).ok_or(ReviewError::Path)?;
        let request = ReviewRequest::parse(review)?;
        let subject = request.subject.clone();
        let verdict = self.verdict(resource, request).await;
        let result = if !verdict.is_allowed() {
            "refused"
        } else if verdict.warnings.is_empty() {
            "allowed"
        } else {
            "warned"
        };
        self.metrics.admission(resource.plural(), result);
        Ok(subject.respond(&verdict))
    }

    async fn verdict(&self, resource: Resource, request: ReviewRequest<'_>) -> Verdict {
        // Checked before decoding, because it also applies to objects that cannot be decoded.
        if request.leaves_spec() {
            return Verdict::default();
        }
        let verdict = match resource {
            Resource::Machines => self.machine(request).await,
            Resource::MachineClasses => self.machine_class(request).await,
            Resource::NetworkConfigurations => self.network_configuration(request).await,
        };
        verdict.unwrap_or_else(|unchecked| {
            let mut verdict = Verdict::default();
            verdict.warn(unchecked.to_string());
            verdict
        })
    }

    async fn machine(&self, request: ReviewRequest<'_>) -> Result<Verdict, Unchecked> {
        let (old, new) = versions::<Machine>(&request)?;
        if let (Some(old), Operation::Delete) = (&old, request.operation) {
            return Ok(self.deletion(old).await);
        }
        let is_reviewed = |new: &Machine| {
            self.provider.is_named_by(new) && machine::needs_review(old.as_ref(), new)
        };
        let Some(new) = new.filter(is_reviewed) else {
            return Ok(Verdict::default());
        };
        let namespace = new.metadata.namespace.clone().unwrap_or_default();
        let machine = new.clone();
        let facts = self.query(Some(&namespace), move |caches| {
            let facts = caches.facts_of_machine(&machine)?;
            Some((facts, caches.is_elsewhere(&machine)))
        });
        let mut is_elsewhere = false;
        let (mut facts, unchecked) = match facts.await {
            Ok(Some((facts, elsewhere))) => {
                is_elsewhere = elsewhere;
                (facts, None)
            }
            Ok(None) => return Ok(Verdict::default()),
            // A spec that contradicts itself is refused without facts, too.
            Err(unchecked) => (machine::ReviewContext::default(), Some(unchecked)),
        };
        let completed = self
            .live
            .complete(old.as_ref(), &new, is_elsewhere, &mut facts)
            .await;
        let unchecked = unchecked.or(completed.err());
        let mut verdict = machine::review(old.as_ref(), &new, &facts);
        if let Some(unchecked) = unchecked {
            verdict.warn(unchecked.to_string());
        }
        Ok(verdict)
    }

    /// Reviews the deletion of a Machine. It needs no facts, so caches that are not synced refuse it too.
    async fn deletion(&self, machine: &Machine) -> Verdict {
        let namespace = machine.metadata.namespace.as_deref();
        let is_covered = !matches!(self.query(namespace, |_| Some(())).await, Ok(None));
        if self.provider.is_named_by(machine) && is_covered {
            machine::delete(machine)
        } else {
            Verdict::default()
        }
    }

    async fn machine_class(&self, request: ReviewRequest<'_>) -> Result<Verdict, Unchecked> {
        let (old, new) = versions::<MachineClass>(&request)?;
        let Some(class) = new.as_ref().or(old.as_ref()).cloned() else {
            return Ok(Verdict::default());
        };
        let facts = self.query(None, move |caches| caches.facts_of_class(&class));
        let (facts, unchecked) = match facts.await {
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

    async fn network_configuration(
        &self,
        request: ReviewRequest<'_>,
    ) -> Result<Verdict, Unchecked> {
        let (old, new) = versions::<NetworkConfiguration>(&request)?;
        // A new one has no users.
        let Some(old) = old else {
            return Ok(Verdict::default());
        };
        let key = Key::of(&old.metadata);
        let namespace = key.namespace.clone();
        let facts = self.query(Some(&namespace), move |caches| {
            caches.facts_of_network(&key)
        });
        let Some(users) = facts.await? else {
            return Ok(Verdict::default());
        };
        Ok(match &new {
            Some(new) => network_configuration::review(Some(&old), new, &users),
            None => network_configuration::delete(&old, &users, &request.user_info.username),
        })
    }

    /// Evaluates `query` on the caches of the running operator; none if it does not reconcile the
    /// namespace. Cluster-scoped resources have none.
    async fn query<T: Send + 'static>(
        &self,
        namespace: Option<&str>,
        query: impl FnOnce(&Caches) -> Option<T> + Send + 'static,
    ) -> Result<Option<T>, Unchecked> {
        let namespace = namespace.map(str::to_owned);
        let answer = self.reader.query(move |caches| {
            if !caches.covers(namespace.as_deref()) {
                return Ok(None);
            }
            query(caches).map(Some).ok_or(Unchecked::NotSynced)
        });
        answer.await.unwrap_or(Err(Unchecked::Busy))
    }
}

/// Why a change was not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Unchecked {
    #[error("this was not checked against the cluster: the operator's caches are not synced yet")]
    NotSynced,
    #[error("this was not checked against the cluster: the operator is busy or shutting down")]
    Busy,
    #[error(
        "this was not checked against the VirtualMachines, Secrets and quotas of its namespace: not \
         all of them could be read from the API server"
    )]
    Unread,
    #[error("this was not checked: this version of the operator cannot decode the object")]
    Unreadable,
}

/// Old and new version of the object. A missing spec is decoded as an empty one.
fn versions<T: DeserializeOwned>(
    request: &ReviewRequest<'_>,
) -> Result<(Option<T>, Option<T>), Unchecked> {
    let decode = |object: ReviewObject<'_>| {
        if !object.is_some() {
            return Ok(None);
        }
        let decoded = if object.spec().is_some() {
            object.decode().map(Some)
        } else {
            object.decode().and_then(|mut object: Map<String, Value>| {
                object.insert("spec".to_owned(), json!({}));
                decode::from_value(Value::Object(object)).map(Some)
            })
        };
        // The error may quote the object.
        decoded.map_err(|_| Unchecked::Unreadable)
    };
    Ok(match request.operation {
        Operation::Create => (None, decode(request.object)?),
        Operation::Update => (decode(request.old_object)?, decode(request.object)?),
        Operation::Delete => (decode(request.old_object)?, None),
        Operation::Other => (None, None),
    })
}

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
