//! Validating webhook of the KubeVirt resource.
//!
//! Every replica answers, whether it leads or not: nothing is written, and facts come from live reads.
//! If a read fails, a deletion that could lose data is refused, and every other change is admitted.

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
    requests::{PartialObject, Requests, is_code, status_message},
    review::{self, ReviewError, ReviewObject, ReviewRequest},
};

/// Maximum number of objects per kind to list that block a deletion.
const MAX_BLOCKERS: usize = 11;

/// Maximum length of a decoding error, in characters.
const MAX_ERROR_CHARS: usize = 300;

#[derive(Clone)]
pub struct Webhook {
    requests: Requests,
    operator: Arc<Operator>,
}

impl Webhook {
    /// The client must not be fenced: reads are sent whether this process leads or not.
    pub fn new(client: Client, operator: Operator) -> Self {
        Self {
            requests: Requests::new(client, install::FIELD_MANAGER),
            operator: Arc::new(operator),
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
        let operation = Operation::of(path).ok_or(ReviewError::Path)?;
        let request = ReviewRequest::parse(review)?;
        let subject = request.subject.clone();
        let verdict = self.verdict(operation, request).await;
        Ok(subject.respond(&verdict))
    }

    async fn verdict(&self, operation: Operation, request: ReviewRequest<'_>) -> Verdict {
        let decoded = |object: ReviewObject<'_>, field: &str| {
            object.decode::<KubeVirt>().map_err(|error| {
                let error = error.to_string();
                // The position is in the API server's JSON, which users do not have. The error may quote
                // a value of any length.
                let error = error
                    .rsplit_once(" at line ")
                    .map_or(&*error, |(error, _)| error);
                let error: String = error.chars().take(MAX_ERROR_CHARS).collect();
                Verdict {
                    errors: vec![FieldError::sentence(
                        field,
                        format!("the KubeVirt resource cannot be decoded: {error}"),
                    )],
                    ..Verdict::default()
                }
            })
        };
        let verdict = async {
            Ok(match operation {
                Operation::Create => self.create(&decoded(request.object, "spec")?).await,
                Operation::Update => {
                    let new = decoded(request.object, "spec")?;
                    // An object that was stored under another schema can always be replaced.
                    let old = decoded(request.old_object, "spec").unwrap_or_default();
                    self.update(&old, &new).await
                }
                Operation::Delete => self.delete(&decoded(request.old_object, "")?).await,
            })
        };
        verdict.await.unwrap_or_else(|verdict: Verdict| verdict)
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
                tracing::warn!(
                    "admitting a KubeVirt resource without checking that it is the only one: cannot \
                     list kubevirts: {error}"
                );
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

    /// Validates placements with a dry run against the API server.
    async fn probe(&self, probes: Vec<Probe>, verdict: &mut Verdict) {
        let kinds = Kinds::default();
        for probe in probes {
            let id = &probe.object.id;
            let Some(resource) = kinds.resource(&id.group, &id.kind) else {
                continue;
            };
            let path = resource.in_namespace(id.namespace());
            match self
                .requests
                .create_dry_run(&path, &probe.object.value())
                .await
            {
                Err(Error::Api(status)) if matches!(status.code, 400 | 422) => {
                    probe.refused(&status_message(&status), verdict);
                }
                Err(error) => tracing::warn!(
                    "admitting {} without validating it: the dry run failed: {error}",
                    probe.field
                ),
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
            let path = format!("/apis/kubevirt.io/v1/{plural}?limit={MAX_BLOCKERS}");
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
                        errors: vec![FieldError::sentence(
                            "spec.uninstallStrategy",
                            format!(
                                "cannot check that no {plural} exist, which \
                                 spec.uninstallStrategy requires before a deletion: {error}"
                            ),
                        )],
                        ..Verdict::default()
                    };
                }
            }
        }
        admission::delete(kubevirt, &blockers)
    }
}

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
