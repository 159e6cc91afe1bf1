//! Eviction: deletion of a pod that PodDisruptionBudgets may refuse.
//!
//! The budget is charged before the deletion, in one conditional write, so concurrent evictions
//! cannot exceed it.

use apimachinery::label_selector;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::{read, success};
use crate::{
    ApiError, ApiResult, Cause, Details, ObjectRef, admission,
    controllers::LoopbackClient,
    object, output,
    request::ResourcePath,
    serializer::ContentType,
    store::{ObjectId, TableId},
    verbs::{Call, FieldOwnership, delete, update::guaranteed_update},
};

const REFUSAL: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

pub(super) async fn evict(call: &mut Call<'_>, content: ContentType, body: &Bytes) -> ApiResult {
    let eviction = read(content, body)?;
    if object::meta(&eviction, "name") != call.path.name {
        return Err(ApiError::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let options = match eviction.get("deleteOptions") {
        Some(Value::Object(options)) => Value::Object(options.clone()),
        _ => json!({}),
    };
    let dry_run = call.query.dry_run("CreateOptions")?
        || options["dryRun"]
            .as_array()
            .is_some_and(|list| !list.is_empty());
    let stored = call.stored()?;
    let pod = output::value(call.resource, &stored);
    admission::evict(call, &pod, dry_run).await?;
    if is_protected(&pod) {
        charge(call, &pod, dry_run).await?;
    }
    let path = |subresource: &str| ResourcePath {
        subresource: subresource.to_owned(),
        ..call.path.clone()
    };
    let (status, whole) = (path("status"), path(""));
    let inner = |path| Call {
        path,
        manager: call.manager.clone(),
        warnings: Vec::new(),
        server: call.server,
        resource: call.resource,
        query: call.query,
        user: call.user,
        output: call.output,
    };
    if !dry_run {
        let now = call.server.clock.timestamp();
        guaranteed_update(&mut inner(&status), false, |_, pod| {
            let mut new = pod.clone();
            mark(&mut new, &now);
            Ok((new, FieldOwnership::FromDiff))
        })
        .await?;
    }
    delete::delete(
        &mut inner(&whole),
        ContentType::Json,
        &output::to_bytes(&options),
    )
    .await?;
    Ok(success(call, StatusCode::CREATED))
}

/// Budgets do not protect pods that are pending, finished or terminating.
fn is_protected(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    !object::is_terminating(pod) && !matches!(phase, Some("Succeeded" | "Failed" | "Pending"))
}

fn mark(pod: &mut Value, now: &str) {
    let status = object::child_mut(object::map_mut(pod), "status");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if let Value::Array(conditions) = conditions {
        conditions.retain(|condition| condition["type"] != "DisruptionTarget");
        conditions.push(json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": null,
            "lastTransitionTime": now,
        }));
    }
}

/// Charges the eviction to the budget of the pod, if there is one.
async fn charge(call: &Call<'_>, pod: &Value, dry_run: bool) -> Result<(), ApiError> {
    let table = TableId::new("policy", "poddisruptionbudgets");
    let labels = pod.pointer("/metadata/labels").unwrap_or(&Value::Null);
    let within = format!("{}/", call.path.namespace);
    let budgets: Vec<_> = call
        .server
        .store
        .list(&table, &within)
        .objects
        .into_iter()
        .filter(|budget| {
            let budget = budget.value();
            // A budget without a selector matches no pods.
            budget
                .pointer("/spec/selector")
                .is_some_and(|selector| label_selector::matches(selector, labels) == Ok(true))
        })
        .collect();
    let budget = match budgets.as_slice() {
        [] => return Ok(()),
        [budget] => budget,
        _ => {
            return Err(ApiError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    if is_unhealthy_and_free(pod, &budget.value()) {
        return Ok(());
    }
    let name = budget.name();
    if dry_run {
        return allow(name, &budget.value());
    }
    let id = ObjectId {
        table,
        key: budget.key.clone(),
    };
    let now = call.server.clock.timestamp();
    LoopbackClient::new(call.server, "kube-apiserver")
        .try_update(&id, "status", |budget| {
            allow(name, budget)?;
            let left = number(budget, "disruptionsAllowed") - 1;
            let status = object::child_mut(object::map_mut(budget), "status");
            status.insert("disruptionsAllowed".to_owned(), left.into());
            object::child_mut(status, "disruptedPods")
                .insert(call.path.name.clone(), now.clone().into());
            Ok(())
        })
        .await
}

/// unhealthyPodEvictionPolicy: unready pods may go if the healthy ones suffice, or always.
fn is_unhealthy_and_free(pod: &Value, budget: &Value) -> bool {
    let is_ready = pod
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    let policy = budget.pointer("/spec/unhealthyPodEvictionPolicy");
    let desired = number(budget, "desiredHealthy");
    !is_ready
        && (policy == Some(&json!("AlwaysAllow"))
            || (number(budget, "currentHealthy") >= desired && desired > 0))
}

/// Checks that the budget allows one more disruption.
fn allow(name: &str, budget: &Value) -> Result<(), ApiError> {
    let generation = budget
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    if number(budget, "observedGeneration") < generation {
        return Err(refuse(
            format!("The disruption budget {name} is still being processed by the server."),
            10,
        ));
    }
    let allowed = number(budget, "disruptionsAllowed");
    if allowed < 0 {
        let named = ObjectRef {
            group: "policy",
            resource: "poddisruptionbudget",
            name,
        };
        return Err(ApiError::forbidden(
            named,
            "pdb disruptions allowed is negative",
        ));
    }
    if allowed > 0 {
        return Ok(());
    }
    let (desired, current) = (
        number(budget, "desiredHealthy"),
        number(budget, "currentHealthy"),
    );
    Err(refuse(
        if current <= desired {
            format!(
                "The disruption budget {name} needs {desired} healthy pods and has {current} currently"
            )
        } else {
            format!("The disruption budget {name} does not allow evicting pods currently")
        },
        0,
    ))
}

fn refuse(why: String, retry_after_seconds: u32) -> ApiError {
    ApiError {
        details: Some(Details {
            causes: vec![Cause {
                reason: "DisruptionBudget".to_owned(),
                message: why,
                field: String::new(),
            }],
            retry_after_seconds,
            ..Details::default()
        }),
        ..ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", REFUSAL)
    }
}

fn number(budget: &Value, field: &str) -> i64 {
    budget
        .pointer("/status")
        .and_then(|status| status.get(field))
        .and_then(Value::as_i64)
        .unwrap_or_default()
}
