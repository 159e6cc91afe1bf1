//! Answers in the form of the API machinery's errors.

use serde_json::{Value, json};

/// What is sent back.
#[derive(Clone, Debug, PartialEq)]
pub struct SubresourceResponse {
    /// The HTTP code.
    pub code: u16,
    /// JSON, or a plain text where it is a string; null for an empty body.
    pub body: Value,
}

impl SubresourceResponse {
    /// An empty body with this code.
    pub fn empty(code: u16) -> Self {
        Self {
            code,
            body: Value::Null,
        }
    }

    /// An object.
    pub fn object(body: Value) -> Self {
        Self { code: 200, body }
    }

    /// The object is in a state that does not allow it.
    pub fn conflict(resource: &str, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {resource}.kubevirt.io \"{name}\": {why}");
        Self::of_object(409, "Conflict", resource, name, &message)
    }

    /// The object is not there.
    pub fn not_found(resource: &str, name: &str) -> Self {
        let message = format!("{resource}.kubevirt.io \"{name}\" not found");
        Self::of_object(404, "NotFound", resource, name, &message)
    }

    /// The object may not be treated like that.
    pub fn forbidden(resource: &str, name: &str, why: &str) -> Self {
        let message = format!("{resource}.kubevirt.io \"{name}\" is forbidden: {why}");
        Self::of_object(403, "Forbidden", resource, name, &message)
    }

    /// The request makes no sense.
    pub fn bad_request(why: &str) -> Self {
        Self::status(400, "BadRequest", why, None)
    }

    /// Something else went wrong.
    pub fn internal(why: &str) -> Self {
        let details = json!({ "causes": [{ "message": why }] });
        let message = format!("Internal error occurred: {why}");
        Self::status(500, "InternalError", &message, Some(details))
    }

    /// There is no such subresource.
    pub fn unknown() -> Self {
        let message = "the server could not find the requested resource";
        Self::status(404, "NotFound", message, Some(json!({})))
    }

    /// The subresource knows no such verb.
    pub fn wrong_method() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::status(405, "MethodNotAllowed", message, Some(json!({})))
    }

    /// The real one does it, and the sandbox cannot.
    pub fn not_implemented(what: &str) -> Self {
        let message =
            format!("{what} is not implemented: the sandbox has no guest behind it to speak to");
        Self::status(501, "NotImplemented", &message, None)
    }

    fn of_object(code: u16, reason: &str, resource: &str, name: &str, message: &str) -> Self {
        let details = json!({ "name": name, "group": "kubevirt.io", "kind": resource });
        Self::status(code, reason, message, Some(details))
    }

    fn status(code: u16, reason: &str, message: &str, details: Option<Value>) -> Self {
        let mut body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        });
        if let (Some(details), Some(fields)) = (details, body.as_object_mut()) {
            fields.insert("details".to_owned(), details);
        }
        Self { code, body }
    }
}
