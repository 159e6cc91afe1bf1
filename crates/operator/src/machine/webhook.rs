//! What the API server asks about changes to Machines, MachineClasses and NetworkConfigurations, and
//! the answers.
//!
//! Every replica answers, whether it leads or not: nothing is written. What is known of the cluster
//! comes from the caches of the operator that runs in this process, and from the few requests that
//! caches cannot replace, each under a timeout. What cannot be found out lets a change in.

mod questions;

use kube::Client;
use plan::admission::Verdict;
use runtime::{metrics::Metrics, tls::Handler};
use serde_json::Value;

use self::questions::Asker;
pub use self::questions::Questions;
use super::Operator;
use crate::{
    requests::Requests,
    review::{self, Asked, Unanswered},
};

/// Answers the API server's questions about changes.
#[derive(Clone)]
pub struct Webhook {
    asker: Asker,
    requests: Requests,
    metrics: Metrics,
}

impl Webhook {
    pub(super) fn of(operator: &Operator) -> Self {
        Self::new(
            &operator.questions,
            operator.client.clone(),
            operator.metrics.clone(),
        )
    }

    fn new(questions: &Questions, client: Client, metrics: Metrics) -> Self {
        Self {
            asker: questions.asker(),
            requests: Requests::new(client, api::labels::MANAGER),
            metrics,
        }
    }

    /// Answers requests of HTTP.
    pub fn handler(self) -> Handler {
        review::handler(move |path, review| {
            let webhook = self.clone();
            Box::pin(async move { webhook.review(&path, review).await })
        })
    }

    /// Answers an AdmissionReview.
    pub async fn review(&self, path: &str, review: Value) -> Result<Value, Unanswered> {
        let resource = Resource::of(path).ok_or(Unanswered::Path)?;
        let asked = Asked::of(review)?;
        let uid = asked.uid.clone();
        let verdict = self.verdict(resource, asked).await;
        Ok(Asked::respond(&uid, &verdict))
    }

    async fn verdict(&self, _resource: Resource, _asked: Asked) -> Verdict {
        Verdict::default()
    }
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
        match path {
            "/validate/machines" => Some(Self::Machines),
            "/validate/machineclasses" => Some(Self::MachineClasses),
            "/validate/networkconfigurations" => Some(Self::NetworkConfigurations),
            _ => None,
        }
    }
}
