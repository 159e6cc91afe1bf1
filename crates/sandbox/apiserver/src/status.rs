//! API errors: `Status` objects worded like kube-apiserver's.

use std::{borrow::Cow, collections::BTreeSet};

use http::{Response, StatusCode};
use schema::{Problem, Violation};
use serde_json::{Map, Value, json};

use crate::body::Body;

/// Limit of causes in one response.
const MAX_VIOLATIONS: usize = 1000;

/// Response to a request, or the error that is sent instead.
pub(crate) type ApiResult = Result<Response<Body>, ApiError>;

/// Error that clients receive as a `Status` object.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    pub code: StatusCode,
    /// Such as `NotFound`; empty for none. Webhooks may use their own.
    pub reason: Cow<'static, str>,
    pub message: String,
    pub details: Option<Details>,
    /// New continue token after `410 Gone`.
    pub continue_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    pub name: String,
    pub group: String,
    /// Plural resource name; the kind if the object is invalid.
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

/// An object as error texts name it: `machines.vitistack.io`, or `pods`.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRef<'a> {
    /// Empty for core.
    pub group: &'a str,
    pub resource: &'a str,
    pub name: &'a str,
}

impl ObjectRef<'_> {
    fn qualified(&self) -> String {
        match self.group {
            "" => self.resource.to_owned(),
            group => format!("{}.{group}", self.resource),
        }
    }

    fn details(&self) -> Details {
        Details {
            name: self.name.to_owned(),
            group: self.group.to_owned(),
            kind: self.resource.to_owned(),
            ..Details::default()
        }
    }
}

impl ApiError {
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub fn no_such_path() -> Self {
        Self {
            details: Some(Details::default()),
            ..Self::new(
                StatusCode::NOT_FOUND,
                "NotFound",
                "the server could not find the requested resource",
            )
        }
    }

    pub fn not_found(object: ObjectRef<'_>) -> Self {
        Self {
            details: Some(object.details()),
            ..Self::new(
                StatusCode::NOT_FOUND,
                "NotFound",
                format!("{} {:?} not found", object.qualified(), object.name),
            )
        }
    }

    pub fn already_exists(object: ObjectRef<'_>) -> Self {
        Self {
            details: Some(object.details()),
            ..Self::new(
                StatusCode::CONFLICT,
                "AlreadyExists",
                format!("{} {:?} already exists", object.qualified(), object.name),
            )
        }
    }

    pub fn conflict(object: ObjectRef<'_>, why: &str) -> Self {
        Self {
            details: Some(object.details()),
            ..Self::new(
                StatusCode::CONFLICT,
                "Conflict",
                format!(
                    "Operation cannot be fulfilled on {} {:?}: {why}",
                    object.qualified(),
                    object.name
                ),
            )
        }
    }

    pub fn forbidden(object: ObjectRef<'_>, why: &str) -> Self {
        let message = match (object.resource, object.name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{} is forbidden: {why}", object.qualified()),
            (_, name) => format!("{} {name:?} is forbidden: {why}", object.qualified()),
        };
        Self {
            details: Some(object.details()),
            ..Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
        }
    }

    /// Invalid query parameter or option of a request.
    pub fn invalid_options(kind: &str, field: &str, problem: Problem) -> Self {
        Self::invalid("meta.k8s.io", kind, "", &[Violation::at(field, problem)])
    }

    /// `group` and `kind` are those of the object.
    pub fn invalid(group: &str, kind: &str, name: &str, violations: &[Violation]) -> Self {
        let qualified = match group {
            "" => kind.to_owned(),
            group => format!("{kind}.{group}"),
        };
        let violations = violations.get(..MAX_VIOLATIONS).unwrap_or(violations);
        let what = match violations {
            [one] => one.to_string(),
            many => {
                let mut unique = BTreeSet::new();
                let texts: Vec<String> = many
                    .iter()
                    .map(Violation::to_string)
                    .filter(|text| unique.insert(text.clone()))
                    .collect();
                match texts.as_slice() {
                    [one] => one.clone(),
                    texts => format!("[{}]", texts.join(", ")),
                }
            }
        };
        let causes = violations
            .iter()
            .map(|violation| Cause {
                reason: violation.problem.reason().to_owned(),
                message: violation.problem.to_string(),
                field: violation.path.clone(),
            })
            .collect();
        Self {
            details: Some(Details {
                name: name.to_owned(),
                group: group.to_owned(),
                kind: kind.to_owned(),
                causes,
                ..Details::default()
            }),
            ..Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "Invalid",
                format!("{qualified} {name:?} is invalid: {what}"),
            )
        }
    }

    pub fn method_not_allowed() -> Self {
        Self {
            details: Some(Details::default()),
            ..Self::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )
        }
    }

    /// The requested resourceVersion was compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    pub fn internal(message: impl std::fmt::Display) -> Self {
        let message = message.to_string();
        Self {
            details: Some(Details {
                causes: vec![Cause {
                    reason: String::new(),
                    message: message.clone(),
                    field: String::new(),
                }],
                ..Details::default()
            }),
            ..Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalError",
                format!("Internal error occurred: {message}"),
            )
        }
    }

    /// A feature that the sandbox does not have.
    pub fn not_implemented(what: impl std::fmt::Display) -> Self {
        Self::new(
            StatusCode::NOT_IMPLEMENTED,
            "NotImplemented",
            format!("the sandbox does not implement {what}"),
        )
    }

    pub fn to_status(&self) -> Value {
        let mut status = Map::new();
        status.insert("kind".into(), "Status".into());
        status.insert("apiVersion".into(), "v1".into());
        status.insert(
            "metadata".into(),
            match &self.continue_token {
                Some(token) => json!({"continue": token}),
                None => json!({}),
            },
        );
        status.insert("status".into(), "Failure".into());
        status.insert("message".into(), self.message.clone().into());
        if !self.reason.is_empty() {
            status.insert("reason".into(), self.reason.as_ref().into());
        }
        if let Some(details) = &self.details {
            status.insert("details".into(), details.to_value());
        }
        status.insert("code".into(), self.code.as_u16().into());
        Value::Object(status)
    }
}

impl Details {
    fn to_value(&self) -> Value {
        let mut map = without_empty([
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.kind),
            ("uid", &self.uid),
        ]);
        if !self.causes.is_empty() {
            let causes: Vec<Value> = self.causes.iter().map(Cause::to_value).collect();
            map.insert("causes".into(), causes.into());
        }
        if self.retry_after_seconds > 0 {
            map.insert("retryAfterSeconds".into(), self.retry_after_seconds.into());
        }
        Value::Object(map)
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let map = without_empty([
            ("reason", &self.reason),
            ("message", &self.message),
            ("field", &self.field),
        ]);
        Value::Object(map)
    }
}

/// The fields that are not empty.
fn without_empty<const N: usize>(fields: [(&str, &String); N]) -> Map<String, Value> {
    let fields = fields.into_iter().filter(|(_, text)| !text.is_empty());
    fields
        .map(|(name, text)| (name.to_owned(), text.clone().into()))
        .collect()
}
