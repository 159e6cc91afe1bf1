//! Admission chain of a write: compiled-in plugins, in-process admission, webhooks, then ResourceQuota.

mod plugins;
mod warning;
pub mod webhook;
mod webhook_plugins;

pub use warning::warning_headers;

use http::StatusCode;
use serde_json::Value;
use webhook::Operation;

use crate::{
    ApiError, ApiServer, Details,
    auth::rbac::escalation,
    extension::{Definitions, Denial, Refusal, Review},
    quota,
    stored_policy::StoredPolicy,
    verbs::Call,
};

/// What a write is, besides its new object.
#[derive(Clone, Copy, Debug)]
pub struct WriteAttributes<'a> {
    operation: Operation,
    old: Option<&'a Value>,
    dry_run: bool,
}

impl<'a> WriteAttributes<'a> {
    pub fn create(dry_run: bool) -> Self {
        Self {
            operation: Operation::Create,
            old: None,
            dry_run,
        }
    }

    pub fn update(old: &'a Value, dry_run: bool) -> Self {
        Self {
            operation: Operation::Update,
            old: Some(old),
            dry_run,
        }
    }

    pub fn delete(old: &'a Value, dry_run: bool) -> Self {
        Self {
            operation: Operation::Delete,
            old: Some(old),
            dry_run,
        }
    }
}

/// Whether admission may mutate an update of the call's resource.
pub fn may_mutate(call: &Call<'_>) -> bool {
    plugins::may_mutate_update(call)
        || !call.server.admissions.is_empty()
        || webhook_plugins::may_mutate(call)
}

/// Runs the mutating phase.
pub async fn mutate(
    call: &mut Call<'_>,
    write: WriteAttributes<'_>,
    new: &mut Value,
) -> Result<(), ApiError> {
    plugins::mutate(call, write.operation, new)?;
    let server = call.server.clone();
    for admission in &server.admissions {
        admission
            .mutate(&review(call, write), new)
            .map_err(refused)?;
    }
    webhook_plugins::mutate(call, write, new).await
}

/// Runs the validating phase; ResourceQuota is last, so that only admitted writes are charged.
pub async fn validate(
    call: &mut Call<'_>,
    write: WriteAttributes<'_>,
    new: Option<&Value>,
) -> Result<(), ApiError> {
    let WriteAttributes {
        operation,
        old,
        dry_run,
    } = write;
    plugins::validate(call, operation, new, old)?;
    if let Some(object) = new {
        escalation::check(
            &StoredPolicy(&call.server.store),
            &escalation::Write {
                user: call.user,
                resource: if call.resource.group == crate::auth::rbac::GROUP {
                    &call.resource.plural
                } else {
                    ""
                },
                namespace: call.namespace(),
                object,
                old,
            },
        )?;
    }
    let server = call.server.clone();
    for admission in &server.admissions {
        let verdict = admission.validate(&review(call, write), new);
        call.warnings.extend(verdict.map_err(refused)?);
    }
    webhook_plugins::validate(call, write, new).await?;
    quota::charge(call, operation, new, old, dry_run)
}

fn review<'a>(call: &'a Call<'_>, write: WriteAttributes<'a>) -> Review<'a> {
    Review {
        operation: write.operation,
        group: &call.resource.group,
        resource: &call.resource.plural,
        subresource: &call.path.subresource,
        namespace: call.namespace(),
        user: call.user,
        old: write.old,
        definitions: Definitions(&call.server.store),
        now: call.server.clock.now(),
        random: call.server.random.next(),
    }
}

/// Runs in-process admission for the eviction of a pod.
pub async fn evict(call: &Call<'_>, pod: &Value, dry_run: bool) -> Result<(), ApiError> {
    let server = ApiServer {
        shared: call.server.clone(),
    };
    for admission in &call.server.admissions {
        let verdict = admission.evict(server.client(), pod, dry_run).await;
        verdict.map_err(refused)?;
    }
    Ok(())
}

fn refused(refusal: Refusal) -> ApiError {
    match refusal {
        Refusal::Denied(denial) => denied(denial),
        Refusal::Unreachable { webhook, why } => {
            ApiError::internal(format!("failed calling webhook {webhook:?}: {why}"))
        }
    }
}

fn denied(denial: Denial) -> ApiError {
    ApiError {
        details: (!denial.causes.is_empty()).then(|| Details {
            causes: denial.causes,
            ..Details::default()
        }),
        ..ApiError::new(
            denial.code,
            if denial.code == StatusCode::UNPROCESSABLE_ENTITY {
                "Invalid"
            } else {
                ""
            },
            format!(
                "admission webhook {:?} denied the request: {}",
                denial.webhook, denial.message
            ),
        )
    }
}
