//! Webhook matching: rules, selectors and match conditions.

use serde_json::Value;

use super::{
    Operation, Request, Resource,
    hook::{Hook, text},
    match_conditions,
};
use apimachinery::label_selector;

use crate::{ApiError, ObjectRef};

/// A webhook to call.
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    pub hook: Hook<'a>,
    /// The resource in the version that the webhook asks for.
    pub resource: Resource<'a>,
}

/// Webhooks that match a request, in call order. Mutating webhooks are matched again before each
/// call, because the object may have changed.
pub fn invocations<'a>(
    configurations: impl IntoIterator<Item = &'a Value>,
    request: &Request<'a>,
) -> Result<Vec<Invocation<'a>>, ApiError> {
    let mut invocations = Vec::new();
    for hook in Hook::all(configurations) {
        invocations.extend(invocation(hook, request)?);
    }
    Ok(invocations)
}

/// Matches a webhook against a request.
pub(super) fn invocation<'a>(
    hook: Hook<'a>,
    request: &Request<'a>,
) -> Result<Option<Invocation<'a>>, ApiError> {
    if is_exempt(request) {
        return Ok(None);
    }
    // An invalid selector is an error only for requests that the rules match.
    let in_namespace = matches_namespace(hook, request);
    let selected = matches_object(hook, request);
    if in_namespace == Ok(false) || selected == Ok(false) {
        return Ok(None);
    }
    let Some(resource) = matching_resource(hook, request) else {
        return Ok(None);
    };
    in_namespace?;
    selected?;
    let invocation = Invocation { hook, resource };
    Ok(match_conditions::matches(&invocation, request)?.then_some(invocation))
}

/// A webhook that refuses its own configuration could not be removed.
fn is_exempt(request: &Request<'_>) -> bool {
    const EXEMPT: [&str; 6] = [
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    ];
    request.resource.group == "admissionregistration.k8s.io"
        && EXEMPT.contains(&request.resource.kind)
}

fn matches_namespace(hook: Hook<'_>, request: &Request<'_>) -> Result<bool, ApiError> {
    let selector = hook.field("namespaceSelector");
    let is_namespace = request.resource.resource == "namespaces";
    if request.namespace.is_empty() && !is_namespace || label_selector::is_everything(selector) {
        return Ok(true);
    }
    // For a Namespace being written, its new labels count.
    let is_written = is_namespace
        && request.subresource.is_empty()
        && matches!(request.operation, Operation::Create | Operation::Update);
    let labels = match request.object {
        Some(namespace) if is_written => Some(&namespace["metadata"]["labels"]),
        _ => request.namespace_labels,
    };
    let Some(labels) = labels else {
        return Err(ApiError::not_found(ObjectRef {
            group: "",
            resource: "namespaces",
            name: request.namespace,
        }));
    };
    label_selector::matches(selector, labels).map_err(|error| ApiError::internal(error.to_string()))
}

fn matches_object(hook: Hook<'_>, request: &Request<'_>) -> Result<bool, ApiError> {
    let selector = hook.field("objectSelector");
    if label_selector::is_everything(selector) {
        return Ok(true);
    }
    for object in [request.object, request.old_object].into_iter().flatten() {
        let labels = &object["metadata"]["labels"];
        if label_selector::matches(selector, labels)
            .map_err(|error| ApiError::internal(error.to_string()))?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn matching_resource<'a>(hook: Hook<'a>, request: &Request<'a>) -> Option<Resource<'a>> {
    let rules: Vec<&Value> = hook.field("rules").as_array()?.iter().collect();
    if rules
        .iter()
        .any(|rule| matches_rule(rule, request, &request.resource))
    {
        return Some(request.resource);
    }
    if !hook.matches_equivalents() {
        return None;
    }
    rules.iter().find_map(|rule| {
        request
            .equivalents
            .iter()
            .find(|resource| {
                **resource != request.resource && matches_rule(rule, request, resource)
            })
            .copied()
    })
}

fn matches_rule(rule: &Value, request: &Request<'_>, resource: &Resource<'_>) -> bool {
    let any = |field: &str, predicate: &dyn Fn(&str) -> bool| {
        let items = rule[field].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).any(predicate)
    };
    let is = |field: &str, wanted: &str| any(field, &|item| item == "*" || item == wanted);
    let is_namespace = resource.group.is_empty() && resource.resource == "namespaces";
    let is_of_cluster = is_namespace || request.namespace.is_empty();
    let in_scope = match text(rule, "scope") {
        "" | "*" => true,
        "Namespaced" => !is_of_cluster,
        "Cluster" => is_of_cluster,
        _ => false,
    };
    in_scope
        && is("operations", request.operation.as_str())
        && is("apiGroups", resource.group)
        && is("apiVersions", resource.version)
        && any("resources", &|item| {
            let (name, subresource) = item.split_once('/').unwrap_or((item, ""));
            (name == "*" || name == resource.resource)
                && (subresource == "*" || subresource == request.subresource)
        })
}
