//! Status of a KubevirtConfig: what the operator reports of its cluster. Written by the leader, when it
//! changes.

use api::KubevirtConfigStatus;
use plan::machine::{ClusterProblem, ClusterProblemKind};
use serde_json::json;
use tokio::time::{Duration, Instant};

use crate::requests::{Requests, is_code};

const RETRY_DELAY: Duration = Duration::from_secs(60);

/// The status to report.
pub(super) struct ConfigStatus {
    config: String,
    written: KubevirtConfigStatus,
    desired: Option<KubevirtConfigStatus>,
    retry_at: Option<Instant>,
    is_writing: bool,
}

/// A write of the status.
pub(super) struct StatusWrite {
    path: String,
    status: KubevirtConfigStatus,
}

impl ConfigStatus {
    /// `written` is the current status.
    pub(super) fn new(config: &str, written: KubevirtConfigStatus) -> Self {
        Self {
            config: config.to_owned(),
            written,
            desired: None,
            retry_at: None,
            is_writing: false,
        }
    }

    pub(super) fn report(&mut self, problem: Option<&ClusterProblem>) {
        let (phase, status) = match problem.map(|problem| problem.kind) {
            None => ("Ready", "The operator can act in the cluster"),
            Some(ClusterProblemKind::Unknown) => ("Invalid", "The kubeconfig cannot be used"),
            Some(ClusterProblemKind::Unreachable) => (
                "Unreachable",
                "The API server of the cluster cannot be used",
            ),
        };
        let message = problem.map_or("", |problem| &problem.message);
        self.desired = Some(KubevirtConfigStatus {
            phase: Some(phase.to_owned()),
            status: Some(status.to_owned()),
            message: Some(message.to_owned()),
        });
        self.retry_at = None;
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.retry_at
    }

    /// The write that is due.
    pub(super) fn begin(&mut self, now: Instant) -> Option<StatusWrite> {
        let status = self.desired.clone()?;
        let is_due = status != self.written && self.retry_at.is_none_or(|at| at <= now);
        if self.is_writing || !is_due {
            return None;
        }
        self.is_writing = true;
        self.retry_at = None;
        let root = "/apis/vitistack.io/v1alpha1/kubevirtconfigs";
        Some(StatusWrite {
            path: format!("{root}/{}/status", self.config),
            status,
        })
    }

    pub(super) fn on_written(&mut self, written: kube::Result<KubevirtConfigStatus>, now: Instant) {
        self.is_writing = false;
        match written {
            Ok(status) => {
                self.written = status;
                self.retry_at = None;
            }
            // It was deleted: the supervisor stops this controller.
            Err(error) if is_code(&error, 404) => self.desired = None,
            Err(error) => {
                let config = &self.config;
                tracing::warn!(
                    config,
                    "cannot write the status of KubevirtConfig {config}: {error}"
                );
                self.retry_at = Some(now + RETRY_DELAY);
            }
        }
    }
}

pub(super) async fn write(
    requests: &Requests,
    write: StatusWrite,
) -> kube::Result<KubevirtConfigStatus> {
    let body = json!({ "status": write.status });
    requests.merge(&write.path, &body).await?;
    Ok(write.status)
}
