//! Dispatchers: call all matching webhooks of a request and combine the results.

use std::{collections::BTreeSet, sync::Arc};

use futures::future::join_all;
use serde_json::Value;

use super::{
    Request,
    call::{Failure, Transport, call},
    hook::Hook,
    matching::{invocation, invocations},
};
use crate::ApiError;

/// Calls all validating webhooks in parallel. The first refusal in order wins.
///
/// `uids` generates the UID of each review. Warnings are collected even if the request is refused.
pub async fn validate(
    transport: &impl Transport,
    configurations: &[Arc<Value>],
    request: &Request<'_>,
    uids: &mut (dyn FnMut() -> String + Send),
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let invocations = invocations(configurations.iter().map(Arc::as_ref), request)?;
    let calls: Vec<_> = invocations
        .iter()
        .map(|invocation| (invocation, uids()))
        .map(async |(invocation, uid)| call(transport, invocation, request, &uid, false).await)
        .collect();
    let mut verdict = Ok(());
    for (invocation, response) in invocations.iter().zip(join_all(calls).await) {
        let result = match response {
            Ok(response) => {
                warnings.extend(response.warnings);
                response.verdict.map(|_| ())
            }
            Err(failure) => refusal(invocation.hook, failure).map_or(Ok(()), Err),
        };
        verdict = verdict.and(result);
    }
    verdict
}

/// Calls the mutating webhooks one after the other. `apply` applies a JSON patch to the object.
/// Returns the mutated object, or `None` if no webhook changed it.
///
/// Webhooks with `reinvocationPolicy: IfNeeded` are called once more if a later webhook changed the
/// object.
pub async fn mutate(
    transport: &impl Transport,
    configurations: &[Arc<Value>],
    request: &Request<'_>,
    apply: &mut (dyn FnMut(&Value, &Value) -> Result<Value, ApiError> + Send),
    uids: &mut (dyn FnMut() -> String + Send),
    warnings: &mut Vec<String>,
) -> Result<Option<Value>, ApiError> {
    let hooks = Hook::all(configurations.iter().map(Arc::as_ref));
    let mut chain = Chain {
        object: None,
        reinvocable: BTreeSet::new(),
        reinvoke: BTreeSet::new(),
    };
    for round in [Round::First, Round::Reinvocation] {
        for (place, hook) in hooks.iter().enumerate() {
            if round == Round::Reinvocation && !chain.reinvoke.contains(&place) {
                continue;
            }
            let object = chain.object.as_ref();
            let patch = call_mutating(transport, *hook, request, object, uids, warnings).await?;
            let Some(patch) = patch else { continue };
            chain.apply(request, *hook, &patch, apply)?;
            if hook.reinvoked_if_needed() {
                chain.reinvocable.insert(place);
            }
        }
    }
    Ok(chain.object)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    First,
    Reinvocation,
}

/// State of the mutating chain.
struct Chain {
    object: Option<Value>,
    /// Webhooks with `reinvocationPolicy: IfNeeded` that have been called.
    reinvocable: BTreeSet<usize>,
    /// Webhooks to call again: the object changed after their call.
    reinvoke: BTreeSet<usize>,
}

impl Chain {
    fn apply(
        &mut self,
        request: &Request<'_>,
        hook: Hook<'_>,
        patch: &Value,
        apply: &mut (dyn FnMut(&Value, &Value) -> Result<Value, ApiError> + Send),
    ) -> Result<(), ApiError> {
        if patch.is_null() {
            return Ok(());
        }
        let Some(object) = self.object.as_ref().or(request.object) else {
            return Err(ApiError::internal(format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for \
                 this operation",
                hook.name()
            )));
        };
        let changed = apply(object, patch)?;
        if changed != *object {
            self.object = Some(changed);
            self.reinvoke.append(&mut self.reinvocable);
        }
        Ok(())
    }
}

/// Calls one mutating webhook if it matches the current object. Returns its patch, null for none.
async fn call_mutating(
    transport: &impl Transport,
    hook: Hook<'_>,
    request: &Request<'_>,
    object: Option<&Value>,
    uids: &mut (dyn FnMut() -> String + Send),
    warnings: &mut Vec<String>,
) -> Result<Option<Value>, ApiError> {
    let request = Request {
        object: object.or(request.object),
        ..*request
    };
    let Some(invocation) = invocation(hook, &request)? else {
        return Ok(None);
    };
    match call(transport, &invocation, &request, &uids(), true).await {
        Ok(response) => {
            warnings.extend(response.warnings);
            response.verdict.map(Some)
        }
        Err(failure) => match refusal(hook, failure) {
            Some(refusal) => Err(refusal),
            None => Ok(Some(Value::Null)),
        },
    }
}

/// Applies the failure policy: `None` if the failure is ignored.
fn refusal(hook: Hook<'_>, failure: Failure) -> Option<ApiError> {
    match failure {
        Failure::Refused(refusal) => Some(refusal),
        Failure::Call(why) if hook.ignores_failure() => {
            tracing::warn!(
                webhook = hook.name(),
                why,
                "failed calling webhook, failing open"
            );
            None
        }
        Failure::Call(why) => Some(ApiError::internal(format!(
            "failed calling webhook {:?}: {why}",
            hook.name()
        ))),
    }
}
