//! What a request wants to do, in the terms of authorisation.

use crate::{ApiError, ObjectRef, auth::User};

/// What a request wants to do.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// Who wants it.
    pub user: &'a User,
    /// The verb: `get`, `list`, `deletecollection`; for paths the HTTP method in small letters.
    pub verb: &'a str,
    /// The API group; empty for core.
    pub group: &'a str,
    /// The resource (plural).
    pub resource: &'a str,
    /// The subresource; empty for none.
    pub subresource: &'a str,
    /// The object's name; empty where the request has none.
    pub name: &'a str,
    /// The namespace; empty for the whole cluster. A request for a namespace itself has its name
    /// here too.
    pub namespace: &'a str,
    /// The path, for requests that are not about resources.
    pub path: Option<&'a str>,
}

impl<'a> Attributes<'a> {
    /// A request for a path that is not about resources.
    pub fn path(user: &'a User, verb: &'a str, path: &'a str) -> Self {
        Self {
            path: Some(path),
            ..Self::resource(user, verb, "", "")
        }
    }

    /// A request for a resource of the whole cluster. The other fields are set by the caller.
    pub fn resource(user: &'a User, verb: &'a str, group: &'a str, resource: &'a str) -> Self {
        Self {
            user,
            verb,
            group,
            resource,
            subresource: "",
            name: "",
            namespace: "",
            path: None,
        }
    }

    /// The resource with its subresource: `pods/log`.
    pub(super) fn combined_resource(&self) -> String {
        match self.subresource {
            "" => self.resource.to_owned(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }

    /// The refusal. `reason` is what the authoriser adds; empty for nothing.
    pub fn forbidden(&self, reason: &str) -> ApiError {
        let who = &self.user.name;
        let what = if let Some(path) = self.path {
            format!("User {who:?} cannot {} path {path:?}", self.verb)
        } else {
            let scope = match self.namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            format!(
                "User {who:?} cannot {} resource {:?} in API group {:?} {scope}",
                self.verb,
                self.combined_resource(),
                self.group,
            )
        };
        // So that a browser which shows the text cannot take it for HTML.
        let what = what
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        let why = match reason {
            "" => what,
            reason => format!("{what}: {reason}"),
        };
        let object = match self.path {
            Some(_) => ObjectRef {
                group: "",
                resource: "",
                name: "",
            },
            None => ObjectRef {
                group: self.group,
                resource: self.resource,
                name: self.name,
            },
        };
        ApiError::forbidden(object, &why)
    }
}
