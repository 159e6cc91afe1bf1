//! SubjectAccessReview APIs.

use schema::Violation;
use serde_json::{Value, json};

use super::{AUTHORIZATION, answer, invalid, refuse_if, text};
use crate::{
    ApiError,
    auth::{
        Attributes, User,
        rbac::{self, Policy},
    },
    object::strings,
};

/// `SelfSubjectAccessReview`.
pub fn self_subject_access(
    policy: &impl Policy,
    sender: &User,
    body: &Value,
) -> Result<Value, ApiError> {
    let spec = &body["spec"];
    let wrong = wrong_attributes(spec);
    refuse_if(AUTHORIZATION, "", "", &wrong)?;
    let status = access(policy, sender, spec);
    Ok(answer(
        AUTHORIZATION,
        "SelfSubjectAccessReview",
        body,
        &status,
    ))
}

/// `SubjectAccessReview`.
pub fn subject_access(policy: &impl Policy, body: &Value) -> Result<Value, ApiError> {
    subject(policy, body, None)
}

/// `LocalSubjectAccessReview`.
pub fn local_subject_access(
    policy: &impl Policy,
    namespace: &str,
    body: &Value,
) -> Result<Value, ApiError> {
    subject(policy, body, Some(namespace))
}

fn subject(policy: &impl Policy, body: &Value, namespace: Option<&str>) -> Result<Value, ApiError> {
    let spec = &body["spec"];
    let user = User {
        name: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: strings(&spec["groups"]),
        extra: spec["extra"]
            .as_object()
            .map(|extra| {
                extra
                    .iter()
                    .map(|(key, values)| (key.clone(), strings(values)))
                    .collect()
            })
            .unwrap_or_default(),
    };
    let mut wrong = wrong_attributes(spec);
    if user.name.is_empty() && user.groups.is_empty() {
        wrong.push(invalid(
            "spec.user",
            "".into(),
            "at least one of user or group must be specified",
        ));
    }
    let kind = match namespace {
        None => "SubjectAccessReview",
        Some(namespace) => {
            let requested = text(&spec["resourceAttributes"], "namespace");
            if spec["resourceAttributes"].is_object() && requested != namespace {
                wrong.push(invalid(
                    "spec.resourceAttributes.namespace",
                    requested.into(),
                    "must match metadata.namespace",
                ));
            }
            if spec["nonResourceAttributes"].is_object() {
                wrong.push(invalid(
                    "spec.nonResourceAttributes",
                    shown_path(&spec["nonResourceAttributes"]),
                    "disallowed on this kind of request",
                ));
            }
            "LocalSubjectAccessReview"
        }
    };
    refuse_if(AUTHORIZATION, "", "", &wrong)?;
    let mut answer = answer(AUTHORIZATION, kind, body, &access(policy, &user, spec));
    if let Some(namespace) = namespace {
        answer["metadata"]["namespace"] = namespace.into();
    }
    Ok(answer)
}

fn wrong_attributes(spec: &Value) -> Vec<Violation> {
    let paths = &spec["nonResourceAttributes"];
    if spec["resourceAttributes"].is_object() != paths.is_object() {
        return Vec::new();
    }
    vec![invalid(
        "spec",
        shown_path(paths),
        "exactly one of nonResourceAttributes or resourceAttributes must be specified",
    )]
}

/// Attributes as Go prints them in error texts.
fn shown_path(attributes: &Value) -> Value {
    if attributes.is_object() {
        json!({"Path": text(attributes, "path"), "Verb": text(attributes, "verb")})
    } else {
        Value::Null
    }
}

fn access(policy: &impl Policy, user: &User, spec: &Value) -> Value {
    let resource = &spec["resourceAttributes"];
    let attributes = if resource.is_object() {
        Attributes {
            subresource: text(resource, "subresource"),
            name: text(resource, "name"),
            namespace: text(resource, "namespace"),
            ..Attributes::resource(
                user,
                text(resource, "verb"),
                text(resource, "group"),
                text(resource, "resource"),
            )
        }
    } else {
        let path = &spec["nonResourceAttributes"];
        Attributes::path(user, text(path, "verb"), text(path, "path"))
    };
    let decision = rbac::authorize(policy, &attributes);
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    status
}

/// `SelfSubjectRulesReview`.
pub fn self_subject_rules(
    policy: &impl Policy,
    sender: &User,
    body: &Value,
) -> Result<Value, ApiError> {
    let namespace = text(&body["spec"], "namespace");
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let (rules, missing) = rbac::rules_for(policy, sender, namespace);
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in rules {
        if !rule.resources.is_empty() {
            resources.push(
                rbac::Rule {
                    non_resource_urls: Vec::new(),
                    ..rule.clone()
                }
                .to_value(),
            );
        }
        if !rule.non_resource_urls.is_empty() {
            paths.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}));
        }
    }
    let mut status = json!({
        "resourceRules": resources, "nonResourceRules": paths, "incomplete": false,
    });
    if let Some(missing) = rbac::join_errors(missing.iter().map(ToString::to_string).collect()) {
        status["evaluationError"] = missing.into();
    }
    Ok(json!({
        "kind": "SelfSubjectRulesReview",
        "apiVersion": format!("{AUTHORIZATION}/v1"),
        "metadata": {},
        "spec": {},
        "status": status,
    }))
}
