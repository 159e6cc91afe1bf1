//! SelfSubjectReview, TokenReview and TokenRequest.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{AUTHENTICATION, answer, invalid, refuse_if, text};
use crate::{
    ApiError, ObjectRef,
    auth::{Authenticator, Bound, Claims, Reference, TokenGetter, User, authenticate::uid},
    object::strings,
};

/// `SelfSubjectReview`.
pub fn self_subject(sender: &User, now: Timestamp) -> Value {
    json!({
        "kind": "SelfSubjectReview",
        "apiVersion": format!("{AUTHENTICATION}/v1"),
        "metadata": {"creationTimestamp": seconds(now)},
        "status": {"userInfo": sender.to_user_info()},
    })
}

/// `TokenReview`.
pub fn token(
    authenticator: &Authenticator,
    body: &Value,
    now: Timestamp,
    objects: &impl TokenGetter,
) -> Result<Value, ApiError> {
    let spec = &body["spec"];
    let token = text(spec, "token");
    if token.is_empty() {
        return Err(ApiError::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let mut audiences = strings(&spec["audiences"]);
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
    Ok(answer(AUTHENTICATION, "TokenReview", body, &status))
}

/// `TokenRequest` for the service account in the path. `jti` is the ID of the new token.
pub fn token_request(
    authenticator: &Authenticator,
    objects: &impl TokenGetter,
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
    let mut audiences = strings(&spec["audiences"]);
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

/// Binds a token to the requested Pod, Secret or Node.
fn bind(bound: &mut Bound, wanted: &Value, objects: &impl TokenGetter) -> Result<(), ApiError> {
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
        let object = ObjectRef {
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

fn not_found(resource: &str, name: &str) -> ApiError {
    ApiError::not_found(ObjectRef {
        group: "",
        resource,
        name,
    })
}

fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
