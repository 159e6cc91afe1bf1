//! Requests that are due once for each version of a CustomResourceDefinition: the leader reads the schemas of
//! the kinds that it writes, and publishes its MachineProvider.
//!
//! Reconciling waits for the schemas, but not for ever: an unanswered read is repeated a few times, a refused
//! one is not; then writes have the fields that were known before, or all, until a later read succeeds.

use std::time::Duration;

use api::MachineProvider;
use kube::Error;
use plan::{
    machine::Provider,
    machine_provider::{Publication, publication},
    served_fields::{MACHINES, NETWORKS, ServedFields},
};
use serde_json::Value;
use tokio::time::Instant;

use super::watches::Definition;
use crate::{
    metrics::Metrics,
    requests::{Requests, is_code, status_message},
};

/// Definition of the kind by which operators publish their providers.
pub(super) const PROVIDERS: &str = "machineproviders.vitistack.io";
const PROVIDERS_PATH: &str = "/apis/vitistack.io/v1alpha1/machineproviders";
const DEFINITIONS_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Number of failures after which Machines are reconciled without an answer.
const ATTEMPTS: u32 = 3;
/// Delay between these attempts.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(2);
/// Delay between later attempts.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// A version of a definition's spec.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    uid: String,
    generation: i64,
}

impl Version {
    fn of(definition: &Definition) -> Self {
        let metadata = &definition.metadata;
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
        }
    }
}

/// A request that is due once for each version of a definition.
#[derive(Debug, Default)]
struct Due {
    definition: Option<Version>,
    at: Option<Instant>,
    is_done: bool,
    failures: u32,
    /// Failure that was logged last, so that each is logged once.
    logged: String,
}

impl Due {
    fn on_definition(&mut self, definition: Option<&Definition>, now: Instant) {
        let version = definition.map(Version::of);
        if version != self.definition {
            *self = Self {
                at: version.is_some().then_some(now),
                definition: version,
                ..Self::default()
            };
        }
    }

    fn begin(&mut self, now: Instant) -> bool {
        self.at.take_if(|due| *due <= now).is_some()
    }

    /// Whether nothing waits for the request.
    fn is_settled(&self) -> bool {
        self.definition.is_none() || self.is_done || self.failures >= ATTEMPTS
    }

    fn fail(&mut self, what: &str, error: &Error, now: Instant) {
        let is_lasting = matches!(
            error,
            Error::Api(status) if (400..429).contains(&status.code) && status.code != 409
        );
        self.failures = self.failures.saturating_add(1);
        if is_lasting {
            self.failures = self.failures.max(ATTEMPTS);
        }
        let delay = if self.failures < ATTEMPTS {
            FIRST_RETRY_DELAY
        } else {
            RETRY_DELAY
        };
        // A newer version is due already.
        self.at = self
            .at
            .or_else(|| self.definition.as_ref().map(|_| now + delay));
        let reason = match error {
            Error::Api(status) => status_message(status),
            error => error.to_string(),
        };
        if self.logged != reason {
            tracing::warn!("cannot {what}: {reason}");
            self.logged = reason;
        }
    }
}

/// A request that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DueRequest {
    ReadSchema(&'static str),
    PublishProvider,
}

/// Outcome of such a request.
pub(super) enum Settled {
    Schema(&'static str, kube::Result<Value>),
    Published(kube::Result<()>),
}

/// Definitions that the operator depends on.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    machines: Due,
    networks: Due,
    providers: Due,
}

impl Definitions {
    /// Updates what is due after a change of the definitions, which `find` returns by name.
    pub(super) fn on_change<'a>(
        &mut self,
        find: impl Fn(&str) -> Option<&'a Definition>,
        now: Instant,
    ) {
        self.machines.on_definition(find(MACHINES), now);
        self.networks.on_definition(find(NETWORKS), now);
        self.providers.on_definition(find(PROVIDERS), now);
    }

    /// Whether the schemas are known, or reconciling does not wait for them any longer.
    pub(super) fn is_settled(&self) -> bool {
        self.machines.is_settled() && self.networks.is_settled()
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        let all = [&self.machines, &self.networks, &self.providers];
        all.into_iter().filter_map(|due| due.at).min()
    }

    /// Starts a request that is due; its outcome goes to [`Self::on_settled`].
    pub(super) fn begin(&mut self, now: Instant) -> Option<DueRequest> {
        if self.machines.begin(now) {
            Some(DueRequest::ReadSchema(MACHINES))
        } else if self.networks.begin(now) {
            Some(DueRequest::ReadSchema(NETWORKS))
        } else if self.providers.begin(now) {
            Some(DueRequest::PublishProvider)
        } else {
            None
        }
    }

    /// Processes an outcome. Returns whether other fields are served than before.
    pub(super) fn on_settled(
        &mut self,
        settled: Settled,
        served: &mut ServedFields,
        metrics: &Metrics,
        now: Instant,
    ) -> bool {
        match settled {
            Settled::Schema(name, read) => {
                let due = if name == MACHINES {
                    &mut self.machines
                } else {
                    &mut self.networks
                };
                match read {
                    Ok(definition) => adopt(due, name, &definition, served, metrics),
                    Err(error) => {
                        let what = format!("read the CustomResourceDefinition {name}");
                        due.fail(&what, &error, now);
                        false
                    }
                }
            }
            Settled::Published(Ok(())) => {
                self.providers.is_done = true;
                false
            }
            Settled::Published(Err(error)) => {
                let what = "publish the MachineProvider";
                self.providers.fail(what, &error, now);
                false
            }
        }
    }
}

/// Adopts a definition that was read, and reports once what it lacks.
fn adopt(
    due: &mut Due,
    name: &'static str,
    definition: &Value,
    served: &mut ServedFields,
    metrics: &Metrics,
) -> bool {
    let before = served.clone();
    let lacking = served.adopt(name, definition);
    // A read is never older than the version that the watch showed when it began.
    due.is_done = due.at.is_none();
    metrics.set_unserved_fields(name, lacking.len());
    let fields = lacking.join(", ");
    if lacking.is_empty() {
        if *served != before {
            tracing::info!("CustomResourceDefinition {name} has all fields of this operator");
        }
    } else {
        tracing::warn!(
            "CustomResourceDefinition {name} lacks fields of this operator, which are neither read nor \
             written: {fields}"
        );
    }
    *served != before
}

/// Sends a request that is due.
pub(super) async fn send(requests: &Requests, due: DueRequest, provider: &Provider) -> Settled {
    match due {
        DueRequest::ReadSchema(name) => {
            let path = format!("{DEFINITIONS_PATH}/{name}");
            Settled::Schema(name, requests.get(&path).await)
        }
        DueRequest::PublishProvider => Settled::Published(publish(requests, provider).await),
    }
}

async fn publish(requests: &Requests, provider: &Provider) -> kube::Result<()> {
    let path = format!("{PROVIDERS_PATH}/{provider}");
    let found = match requests.get(&path).await {
        Ok(found) => Some(decode::from_value(found).map_err(Error::SerdeError)?),
        Err(error) if is_code(&error, 404) => None,
        Err(error) => return Err(error),
    };
    let body = |desired: &MachineProvider| serde_json::to_value(desired).map_err(Error::SerdeError);
    match publication(provider, found.as_ref()) {
        Publication::Create(desired) => {
            requests.create(PROVIDERS_PATH, &body(&desired)?).await?;
            tracing::info!("published MachineProvider {provider}");
        }
        Publication::Apply(desired) => {
            requests.apply(&path, &body(&desired)?).await?;
            tracing::info!("changed MachineProvider {provider} back");
        }
        Publication::Foreign => tracing::info!(
            "MachineProvider {provider} does not belong to this operator, which leaves it alone"
        ),
        Publication::Unchanged => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests;
