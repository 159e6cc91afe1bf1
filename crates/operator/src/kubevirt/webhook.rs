//! What the API server asks about changes to the KubeVirt resource, and the answers.
//!
//! Every replica answers, whether it leads or not: nothing is written, and what has to be known of the
//! cluster is asked for when a change comes. Where that cannot be found out, a change that could do
//! harm is refused, and all others are let in.

use std::sync::Arc;

use api::kubevirt::install::{self, KubeVirt};
use kube::{Client, Error};
use plan::{
    admission::{FieldError, Verdict},
    kubevirt::{
        Operator,
        admission::{self, Blocker, Probe},
    },
};
use runtime::tls::Handler;
use serde_json::Value;

use super::kinds::Kinds;
use crate::{
    requests::{PartialObject, Requests, is_code, words},
    review::{self, Asked, Sent, Unanswered},
};

/// How many objects of a kind are looked for that hold up a deletion.
const BLOCKERS: usize = 11;

/// How much is told of why a KubeVirt resource cannot be read, in characters.
const QUOTED: usize = 300;

/// Answers the API server's questions.
#[derive(Clone)]
pub struct Webhook {
    requests: Requests,
    operator: Arc<Operator>,
}

impl Webhook {
    /// Answers for an operator. The client must work whether this process leads or not.
    pub fn new(client: Client, operator: Operator) -> Self {
        Self {
            requests: Requests::new(client, install::FIELD_MANAGER),
            operator: Arc::new(operator),
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
        let operation = Operation::of(path).ok_or(Unanswered::Path)?;
        let asked = Asked::of(review)?;
        let subject = asked.subject.clone();
        let verdict = self.verdict(operation, asked).await;
        Ok(subject.respond(&verdict))
    }

    async fn verdict(&self, operation: Operation, asked: Asked<'_>) -> Verdict {
        let decoded = |sent: Sent<'_>, field: &str| {
            sent.decode::<KubeVirt>().map_err(|error| {
                let said = error.to_string();
                // Nobody has seen the lines that it came in, and it may be quoted at any length.
                let why = said.rsplit_once(" at line ").map_or(&*said, |(why, _)| why);
                let why: String = why.chars().take(QUOTED).collect();
                Verdict {
                    errors: vec![FieldError {
                        field: field.to_owned(),
                        message: format!("the KubeVirt resource cannot be read: {why}"),
                    }],
                    ..Verdict::default()
                }
            })
        };
        let judged = async {
            Ok(match operation {
                Operation::Create => self.create(&decoded(asked.object, "spec")?).await,
                Operation::Update => {
                    let new = decoded(asked.object, "spec")?;
                    // What was stored under other rules can always be replaced.
                    let old = decoded(asked.old_object, "spec").unwrap_or_default();
                    self.update(&old, &new).await
                }
                Operation::Delete => self.delete(&decoded(asked.old_object, "")?).await,
            })
        };
        judged.await.unwrap_or_else(|verdict: Verdict| verdict)
    }

    async fn create(&self, kubevirt: &KubeVirt) -> Verdict {
        let listed = self
            .requests
            .list_metadata("/apis/kubevirt.io/v1/kubevirts?limit=2")
            .await;
        let existing: Vec<(String, String)> = match listed {
            Ok(list) => list
                .items
                .into_iter()
                .map(PartialObject::into_key)
                .collect(),
            Err(error) => {
                tracing::warn!("whether there is another KubeVirt cannot be told: {error}");
                Vec::new()
            }
        };
        let mut verdict = admission::create(kubevirt, &existing, &self.operator);
        self.probe(admission::probes(None, kubevirt), &mut verdict)
            .await;
        verdict
    }

    async fn update(&self, old: &KubeVirt, new: &KubeVirt) -> Verdict {
        let mut verdict = admission::update(old, new, &self.operator);
        self.probe(admission::probes(Some(old), new), &mut verdict)
            .await;
        verdict
    }

    /// Asks the API server whether it takes placements.
    async fn probe(&self, probes: Vec<Probe>, verdict: &mut Verdict) {
        let kinds = Kinds::default();
        for probe in probes {
            let id = &probe.object.id;
            let Some(resource) = kinds.resource(&id.group, &id.kind) else {
                continue;
            };
            let path = resource.in_namespace(&id.namespace);
            match self.requests.try_create(&path, &probe.object.value()).await {
                Err(Error::Api(status)) if matches!(status.code, 400 | 422) => {
                    probe.refused(&words(&status), verdict);
                }
                Err(error) => tracing::warn!("{} cannot be tried: {error}", probe.field),
                Ok(_) => {}
            }
        }
    }

    async fn delete(&self, kubevirt: &KubeVirt) -> Verdict {
        if !admission::blocks_deletion(kubevirt) {
            return Verdict::default();
        }
        let mut blockers = Vec::new();
        for (kind, plural) in admission::BLOCKERS {
            let path = format!("/apis/kubevirt.io/v1/{plural}?limit={BLOCKERS}");
            match self.requests.list_metadata(&path).await {
                Ok(list) => blockers.extend(list.items.into_iter().map(|item| {
                    let (namespace, name) = item.into_key();
                    Blocker {
                        kind: kind.to_owned(),
                        namespace,
                        name,
                    }
                })),
                Err(error) if is_code(&error, 404) => {}
                Err(error) => {
                    return Verdict {
                        errors: vec![FieldError {
                            field: "spec.uninstallStrategy".to_owned(),
                            message: format!(
                                "whether there are {plural} cannot be told, and \
                                 spec.uninstallStrategy forbids to lose them: {error}"
                            ),
                        }],
                        ..Verdict::default()
                    };
                }
            }
        }
        admission::delete(kubevirt, &blockers)
    }
}

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    fn of(path: &str) -> Option<Self> {
        match path {
            "/kubevirt-validate-create" => Some(Self::Create),
            "/kubevirt-validate-update" => Some(Self::Update),
            "/kubevirt-validate-delete" => Some(Self::Delete),
            _ => None,
        }
    }
}
