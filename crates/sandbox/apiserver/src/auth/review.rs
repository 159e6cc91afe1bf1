//! The questions that clients ask about users and their rights: reviews, which are answered and
//! not stored. Each takes the body of the request and gives that of the answer.

use jiff::Timestamp;
use schema::{Problem, Violation};
use serde_json::{Map, Value, json};

use super::{
    Attributes, Authenticator, Bound, Claims, Objects, Reference, User,
    authenticate::uid,
    rbac::{self, Policy},
};
use crate::{ApiError, Named};

const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// `SelfSubjectAccessReview`: may the sender do this?
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
        status,
    ))
}

/// `SubjectAccessReview`: may that user do this?
pub fn subject_access(policy: &impl Policy, body: &Value) -> Result<Value, ApiError> {
    subject(policy, body, None)
}

/// `LocalSubjectAccessReview`: may that user do this in this namespace?
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
        groups: list(&spec["groups"]),
        extra: spec["extra"]
            .as_object()
            .map(|extra| {
                extra
                    .iter()
                    .map(|(key, values)| (key.clone(), list(values)))
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
            let asked = text(&spec["resourceAttributes"], "namespace");
            if spec["resourceAttributes"].is_object() && asked != namespace {
                wrong.push(invalid(
                    "spec.resourceAttributes.namespace",
                    asked.into(),
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
    let mut answer = answer(AUTHORIZATION, kind, body, access(policy, &user, spec));
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

/// The attributes with the names that the server's texts have for them.
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
            version: text(resource, "version"),
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

/// `SelfSubjectRulesReview`: what may the sender do in this namespace?
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
    if let Some(missing) = rbac::joined(missing.iter().map(ToString::to_string).collect()) {
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

/// `SelfSubjectReview`: who am I?
pub fn self_subject(sender: &User, now: Timestamp) -> Value {
    json!({
        "kind": "SelfSubjectReview",
        "apiVersion": format!("{AUTHENTICATION}/v1"),
        "metadata": {"creationTimestamp": seconds(now)},
        "status": {"userInfo": sender.to_user_info()},
    })
}

/// `TokenReview`: whose token is this?
pub fn token(
    authenticator: &Authenticator,
    body: &Value,
    now: Timestamp,
    objects: &impl Objects,
) -> Result<Value, ApiError> {
    let spec = &body["spec"];
    let token = text(spec, "token");
    if token.is_empty() {
        return Err(ApiError::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let mut audiences = list(&spec["audiences"]);
    if audiences.is_empty() {
        audiences.push(Authenticator::ISSUER.to_owned());
    }
    let status = match authenticator.identify(token, &audiences, now, objects) {
        Ok(identity) => json!({
            "authenticated": true,
            "user": identity.user.to_user_info(),
            "audiences": identity.audiences,
        }),
        Err(rejected) => json!({"user": {}, "error": rejected.0}),
    };
    Ok(answer(AUTHENTICATION, "TokenReview", body, status))
}

/// `TokenRequest`: a token for the service account that the path names. `jti` is the new token's
/// uid.
pub fn token_request(
    authenticator: &Authenticator,
    objects: &impl Objects,
    (namespace, name): (&str, &str),
    body: &Value,
    now: Timestamp,
    jti: &str,
) -> Result<Value, ApiError> {
    let metadata = &body["metadata"];
    for (field, expected) in [("name", name), ("namespace", namespace)] {
        let given = text(metadata, field);
        if !given.is_empty() && given != expected {
            let wrong = invalid(
                &format!("metadata.{field}"),
                given.into(),
                &format!("must match the service account {field} if specified"),
            );
            refuse_if(AUTHENTICATION, "TokenRequest", name, &[wrong])?;
        }
    }
    let account = objects
        .get("serviceaccounts", namespace, name)
        .ok_or_else(|| not_found("serviceaccounts", name))?;
    let account_uid = uid(&account);
    let spec = &body["spec"];
    let seconds_valid = match &spec["expirationSeconds"] {
        Value::Null => 3600,
        given => expiration(given)?,
    };
    let mut audiences = list(&spec["audiences"]);
    if audiences.is_empty() {
        audiences.push(Authenticator::ISSUER.to_owned());
    }
    let mut bound = Bound {
        namespace: namespace.to_owned(),
        node: None,
        pod: None,
        secret: None,
        serviceaccount: reference(name, account_uid),
    };
    bind(&mut bound, &spec["boundObjectRef"], objects)?;
    let issued = now.as_second();
    let expires = issued.saturating_add(seconds_valid);
    let token = authenticator.sign(&Claims {
        aud: audiences.clone(),
        exp: expires,
        iat: issued,
        iss: Authenticator::ISSUER.to_owned(),
        jti: jti.to_owned(),
        nbf: issued,
        sub: format!("system:serviceaccount:{namespace}:{name}"),
        kubernetes: bound,
    })?;
    let expires = Timestamp::from_second(expires).unwrap_or(Timestamp::MAX);
    Ok(json!({
        "kind": "TokenRequest",
        "apiVersion": format!("{AUTHENTICATION}/v1"),
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": account_uid,
            "creationTimestamp": seconds(now),
        },
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds_valid,
            "boundObjectRef": spec["boundObjectRef"],
        },
        "status": {"token": token, "expirationTimestamp": seconds(expires)},
    }))
}

fn expiration(given: &Value) -> Result<i64, ApiError> {
    let seconds = given.as_i64();
    let why = match seconds {
        Some(600..=0x1_0000_0000) => None,
        Some(..600) => Some("may not specify a duration less than 10 minutes"),
        _ => Some("may not specify a duration larger than 2^32 seconds"),
    };
    if let Some(why) = why {
        let wrong = invalid("spec.expirationSeconds", given.clone(), why);
        refuse_if(AUTHENTICATION, "TokenRequest", "", &[wrong])?;
    }
    Ok(seconds.unwrap_or_default())
}

/// Binds a token to the pod, the secret or the node that the request names.
fn bind(bound: &mut Bound, wanted: &Value, objects: &impl Objects) -> Result<(), ApiError> {
    if wanted.is_null() {
        return Ok(());
    }
    let (kind, name) = (text(wanted, "kind"), text(wanted, "name"));
    let version = text(wanted, "apiVersion");
    let (resource, namespace) = match kind {
        _ if version.contains('/') => ("", ""),
        "Pod" => ("pods", bound.namespace.as_str()),
        "Secret" => ("secrets", bound.namespace.as_str()),
        "Node" => ("nodes", ""),
        _ => ("", ""),
    };
    if resource.is_empty() {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        return Err(ApiError::bad_request(format!(
            "cannot bind token to object of type {group}/{version}, Kind={kind}"
        )));
    }
    let object = objects
        .get(resource, namespace, name)
        .ok_or_else(|| not_found(resource, name))?;
    let found = reference(name, uid(&object));
    if kind == "Pod" {
        let spec = &object["spec"];
        let account = &bound.serviceaccount.name;
        if text(spec, "serviceAccountName") != account {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount {account:?} to pod running with different \
                 serviceaccount name."
            )));
        }
        let node = text(spec, "nodeName");
        if !node.is_empty() {
            let object = objects.get("nodes", "", node);
            let uid = object.as_deref().map(uid).unwrap_or_default();
            bound.node = Some(reference(node, uid));
        }
    }
    let given = text(wanted, "uid");
    if !given.is_empty() && given != found.uid {
        let object = Named {
            group: "",
            resource: kind,
            name,
        };
        return Err(ApiError::conflict(
            object,
            &format!(
                "the UID in the bound object reference ({given}) does not match the UID in record. \
                 The object might have been deleted and then recreated"
            ),
        ));
    }
    match kind {
        "Pod" => bound.pod = Some(found),
        "Secret" => bound.secret = Some(found),
        _ => bound.node = Some(found),
    }
    Ok(())
}

fn reference(name: &str, uid: &str) -> Reference {
    Reference {
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}

fn answer(group: &str, kind: &str, body: &Value, status: Value) -> Value {
    let part = |field: &str| match &body[field] {
        Value::Object(part) => part.clone(),
        _ => Map::new(),
    };
    json!({
        "kind": kind,
        "apiVersion": format!("{group}/v1"),
        "metadata": part("metadata"),
        "spec": part("spec"),
        "status": status,
    })
}

fn refuse_if(group: &str, kind: &str, name: &str, wrong: &[Violation]) -> Result<(), ApiError> {
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid(group, kind, name, wrong))
    }
}

fn invalid(path: &str, value: Value, detail: &str) -> Violation {
    Violation::at(
        path,
        Problem::Invalid {
            value: Some(value),
            detail: detail.to_owned(),
        },
    )
}

fn not_found(resource: &str, name: &str) -> ApiError {
    ApiError::not_found(Named {
        group: "",
        resource,
        name,
    })
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn list(value: &Value) -> Vec<String> {
    value
        .as_array()
        .map(|items| {
            items
                .iter()
                .filter_map(|item| item.as_str().map(str::to_owned))
                .collect()
        })
        .unwrap_or_default()
}

fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
