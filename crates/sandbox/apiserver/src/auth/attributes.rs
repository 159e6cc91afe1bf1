//! Authorization attributes of a request.

use crate::{ApiError, ObjectRef, auth::User};

#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    pub user: &'a User,
    /// `get`, `list`, `deletecollection`; for non-resource paths the lower-case HTTP method.
    pub verb: &'a str,
    /// Empty for core.
    pub group: &'a str,
    /// Plural name.
    pub resource: &'a str,
    /// Empty for none.
    pub subresource: &'a str,
    /// Empty if the request has none.
    pub name: &'a str,
    /// Empty for cluster scope. For a Namespace object, its own name.
    pub namespace: &'a str,
    /// Non-resource path.
    pub path: Option<&'a str>,
}

impl<'a> Attributes<'a> {
    /// A request for a non-resource path.
    pub fn path(user: &'a User, verb: &'a str, path: &'a str) -> Self {
        Self {
            path: Some(path),
            ..Self::resource(user, verb, "", "")
        }
    }

    /// A cluster-scoped request; the caller sets the other fields.
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

    /// Such as `pods/log`.
    pub(super) fn combined_resource(&self) -> String {
        match self.subresource {
            "" => self.resource.to_owned(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }

    /// The `Forbidden` error. `reason` is what the authorizer adds, empty for nothing.
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
        // kube-apiserver escapes HTML here.
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
