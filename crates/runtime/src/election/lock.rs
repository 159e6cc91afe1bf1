//! API calls that read and write the Lease.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};

use super::{Candidate, LEASE_DURATION, RENEW_DEADLINE, decide::holder};

/// Leaves time for a second call before the renew deadline.
const CALL_TIMEOUT: Duration = Duration::from_secs(RENEW_DEADLINE.as_secs() / 2);

/// Why the Lease could not be read or written, and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} the Lease {lease}: {problem}")]
pub struct LockError {
    verb: &'static str,
    lease: String,
    problem: Problem,
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error(
        "{0}. Grant get, create and update on leases.coordination.k8s.io in that namespace, as \
         config/rbac does"
    )]
    Forbidden(String),
    #[error(
        "{0}. Create the namespace, name one that exists with NAMESPACE, or turn LEADER_ELECTION off"
    )]
    NamespaceNotFound(String),
    #[error("another process changed it first")]
    Conflict,
    #[error("no answer from the API server within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    NoAnswer(kube::Error),
}

impl LockError {
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self.problem, Problem::Conflict)
    }
}

impl Problem {
    fn of(verb: &str, error: kube::Error) -> Self {
        let status = match error {
            kube::Error::Api(status) => status,
            other => return Self::NoAnswer(other),
        };
        match status.code {
            403 => Self::Forbidden(status.message),
            404 if verb == "create" => Self::NamespaceNotFound(status.message),
            // An update that finds nothing conflicts with a deletion.
            404 | 409 => Self::Conflict,
            _ => Self::Refused(status.message),
        }
    }
}

/// The Lease of one candidate.
pub(super) struct Lock {
    api: Api<Lease>,
    candidate: Candidate,
}

impl Lock {
    pub(super) fn new(client: kube::Client, candidate: Candidate) -> Self {
        Self {
            api: Api::namespaced(client, &candidate.namespace),
            candidate,
        }
    }

    pub(super) fn identity(&self) -> &str {
        &self.candidate.identity
    }

    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.candidate.namespace, self.candidate.name)
    }

    pub(super) async fn read(&self) -> Result<Option<Lease>, LockError> {
        self.call("get", self.api.get_opt(&self.candidate.name))
            .await
    }

    pub(super) async fn create(&self, now: Timestamp) -> Result<Lease, LockError> {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.candidate.name.clone()),
                namespace: Some(self.candidate.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                lease_transitions: Some(0),
                ..self.acquired(LeaseSpec::default(), now)
            }),
        };
        self.call("create", self.api.create(&PostParams::default(), &lease))
            .await
    }

    /// Acquires a Lease without a current holder.
    pub(super) async fn acquire(
        &self,
        mut lease: Lease,
        now: Timestamp,
    ) -> Result<Lease, LockError> {
        let spec = lease.spec.take().unwrap_or_default();
        let transitions = spec.lease_transitions.unwrap_or_default();
        lease.spec = Some(LeaseSpec {
            lease_transitions: Some(transitions.saturating_add(1)),
            ..self.acquired(spec, now)
        });
        self.replace(lease).await
    }

    pub(super) async fn renew(&self, mut lease: Lease, now: Timestamp) -> Result<Lease, LockError> {
        let spec = lease.spec.take().unwrap_or_default();
        lease.spec = Some(LeaseSpec {
            acquire_time: spec.acquire_time.clone().or(Some(MicroTime(now))),
            ..self.acquired(spec, now)
        });
        self.replace(lease).await
    }

    /// Releases the Lease if this process has it.
    pub(super) async fn release(&self, now: Timestamp) -> Result<(), LockError> {
        loop {
            let Some(mut lease) = self.read().await? else {
                return Ok(());
            };
            let spec = lease.spec.take().unwrap_or_default();
            if holder(&spec) != Some(self.identity()) {
                return Ok(());
            }
            lease.spec = Some(LeaseSpec {
                holder_identity: None,
                // For candidates that ignore an empty holder.
                lease_duration_seconds: Some(1),
                acquire_time: Some(MicroTime(now)),
                renew_time: Some(MicroTime(now)),
                ..spec
            });
            match self.replace(lease).await {
                // A renewal that timed out may have arrived in between.
                Err(error) if error.is_conflict() => {}
                other => return other.map(|_| ()),
            }
        }
    }

    fn acquired(&self, spec: LeaseSpec, now: Timestamp) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.candidate.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            acquire_time: Some(MicroTime(now)),
            renew_time: Some(MicroTime(now)),
            ..spec
        }
    }

    /// Replaces the Lease with the resourceVersion that was read: a write since then is a conflict.
    async fn replace(&self, lease: Lease) -> Result<Lease, LockError> {
        let (name, params) = (&self.candidate.name, PostParams::default());
        self.call("update", self.api.replace(name, &params, &lease))
            .await
    }

    async fn call<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, LockError> {
        match tokio::time::timeout(CALL_TIMEOUT, call).await {
            Ok(answer) => answer.map_err(|error| self.error(verb, Problem::of(verb, error))),
            Err(_) => Err(self.timed_out(verb, CALL_TIMEOUT)),
        }
    }

    pub(super) fn timed_out(&self, verb: &'static str, after: Duration) -> LockError {
        self.error(verb, Problem::Timeout(after))
    }

    fn error(&self, verb: &'static str, problem: Problem) -> LockError {
        LockError {
            verb,
            lease: self.name(),
            problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use apiserver::{ApiServer, Options};

    use super::*;

    fn lock(client: kube::Client, namespace: &str) -> Lock {
        let candidate = Candidate {
            namespace: namespace.to_owned(),
            name: "operator".to_owned(),
            identity: "identity".to_owned(),
        };
        Lock::new(client, candidate)
    }

    #[tokio::test(start_paused = true)]
    async fn missing_permissions_are_named() {
        let server = ApiServer::start(Options::seeded(1));
        let lock = lock(server.client_of("default", "operator"), "default");
        let error = lock.read().await.unwrap_err().to_string();
        assert!(
            error.starts_with("cannot get the Lease default/operator: leases.coordination.k8s.io")
                && error.ends_with(
                    "Grant get, create and update on leases.coordination.k8s.io in that namespace, \
                     as config/rbac does"
                ),
            "{error}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_namespace_is_named() {
        let server = ApiServer::start(Options::seeded(1));
        let lock = lock(server.client(), "nowhere");
        assert_eq!(lock.read().await.unwrap(), None);
        let error = lock.create(server.now()).await.unwrap_err();
        assert!(!error.is_conflict());
        assert_eq!(
            error.to_string(),
            "cannot create the Lease nowhere/operator: namespaces \"nowhere\" not found. Create the \
             namespace, name one that exists with NAMESPACE, or turn LEADER_ELECTION off"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_was_changed_or_deleted_meanwhile_is_not_overwritten() {
        let server = ApiServer::start(Options::seeded(1));
        let lock = lock(server.client(), "default");
        let lease = lock.create(server.now()).await.unwrap();
        assert!(lock.create(server.now()).await.unwrap_err().is_conflict());
        tokio::time::advance(Duration::from_secs(1)).await;
        lock.renew(lease.clone(), server.now()).await.unwrap();
        let late = lock.acquire(lease.clone(), server.now()).await;
        assert!(late.unwrap_err().is_conflict());
        lock.api
            .delete("operator", &kube::api::DeleteParams::default())
            .await
            .unwrap();
        // An update can create a Lease, but not one with the resourceVersion of a deleted Lease.
        lock.acquire(lease, server.now()).await.unwrap_err();
        assert_eq!(lock.read().await.unwrap(), None);
    }
}
