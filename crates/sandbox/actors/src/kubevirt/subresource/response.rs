//! Responses to subresource requests, in the API machinery's format.

use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq)]
pub struct SubresourceResponse {
    /// HTTP status.
    pub code: u16,
    /// JSON; a string is sent as plain text, null as an empty body.
    pub body: Value,
}

impl SubresourceResponse {
    pub fn empty(code: u16) -> Self {
        Self {
            code,
            body: Value::Null,
        }
    }

    pub fn object(body: Value) -> Self {
        Self { code: 200, body }
    }

    /// The object's state does not allow the request.
    pub fn conflict(resource: &str, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {resource}.kubevirt.io \"{name}\": {why}");
        Self::of_object(409, "Conflict", resource, name, &message)
    }

    pub fn not_found(resource: &str, name: &str) -> Self {
        let message = format!("{resource}.kubevirt.io \"{name}\" not found");
        Self::of_object(404, "NotFound", resource, name, &message)
    }

    pub fn forbidden(resource: &str, name: &str, why: &str) -> Self {
        let message = format!("{resource}.kubevirt.io \"{name}\" is forbidden: {why}");
        Self::of_object(403, "Forbidden", resource, name, &message)
    }

    pub fn bad_request(why: &str) -> Self {
        Self::status(400, "BadRequest", why, None)
    }

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

    pub fn wrong_method() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::status(405, "MethodNotAllowed", message, Some(json!({})))
    }

    /// virt-api implements it, the sandbox does not.
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
