//! Impersonation.
//!
//! A request with `Impersonate-User` (and `-Group`, `-Uid`, `-Extra-…`) runs as that user if the
//! sender may impersonate it: either by the verb `impersonate` on each requested attribute, or by
//! constrained impersonation, that is `impersonate-on:MODE:VERB` on the target of the request and
//! `impersonate:MODE` on each attribute. The mode depends on the user: `serviceaccount`,
//! `arbitrary-node`, `user-info`. The mode `associated-node` is not implemented.

use std::fmt::Write as _;

use http::HeaderMap;

use super::{
    Attributes, User, rbac,
    user::{
        ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, service_account_groups,
        split_service_account,
    },
};
use crate::ApiError;

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

/// The user requested by the headers, `None` without them.
pub fn requested_user(headers: &HeaderMap) -> Result<Option<User>, ApiError> {
    let text = |name: &str| {
        let value = headers.get(name).map(http::HeaderValue::as_bytes);
        String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
    };
    let mut user = User {
        name: text(USER),
        uid: text(UID),
        ..User::default()
    };
    for group in headers.get_all(GROUP) {
        user.groups
            .push(String::from_utf8_lossy(group.as_bytes()).into_owned());
    }
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            user.extra
                .entry(unescape(key))
                .or_default()
                .push(String::from_utf8_lossy(value.as_bytes()).into_owned());
        }
    }
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user == User::default() {
        return Ok(None);
    }
    Err(ApiError::bad_request(format!(
        "requested {} without impersonating a user name",
        show(&user)
    )))
}

/// Checks that the sender of `request` may act as `requested` and returns that user with its
/// implied groups.
pub fn impersonate(
    policy: &impl rbac::Policy,
    request: &Attributes<'_>,
    requested: &User,
) -> Result<User, ApiError> {
    let plain = Check {
        policy,
        sender: request.user,
        verb: "impersonate",
        mode: None,
    };
    let refused = match plain.user(requested) {
        Ok(user) => return Ok(user),
        Err(refused) => refused,
    };
    let mode = mode(requested);
    let Some(mode) = mode else {
        return Err(refused);
    };
    let constrained = check_constrained(policy, request, requested, mode);
    // If the sender may impersonate the name, the legacy refusal names the attribute that is too
    // much. Otherwise kube-apiserver reports the constrained right.
    match constrained {
        Err(_) if plain.name(requested).is_ok() => Err(refused),
        constrained => constrained,
    }
}

fn check_constrained(
    policy: &impl rbac::Policy,
    request: &Attributes<'_>,
    requested: &User,
    mode: &str,
) -> Result<User, ApiError> {
    let verb = format!("impersonate-on:{mode}:{}", request.verb);
    rbac::require(
        policy,
        &Attributes {
            verb: &verb,
            ..*request
        },
    )?;
    let verb = format!("impersonate:{mode}");
    Check {
        policy,
        sender: request.user,
        verb: &verb,
        mode: Some(mode),
    }
    .user(requested)
}

/// Constrained mode of a user. Nodes and service accounts have their own, which allow only the
/// name.
fn mode(requested: &User) -> Option<&'static str> {
    let only_name =
        requested.uid.is_empty() && requested.groups.is_empty() && requested.extra.is_empty();
    let mode = if node_name(&requested.name).is_some() {
        "arbitrary-node"
    } else if split_service_account(&requested.name).is_some() {
        "serviceaccount"
    } else {
        return Some("user-info");
    };
    only_name.then_some(mode)
}

fn node_name(username: &str) -> Option<&str> {
    let name = username.strip_prefix("system:node:")?;
    let valid = !name.is_empty()
        && name.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte)
        });
    valid.then_some(name)
}

/// Permission checks on each requested attribute.
struct Check<'a, P> {
    policy: &'a P,
    sender: &'a User,
    verb: &'a str,
    mode: Option<&'a str>,
}

impl<P: rbac::Policy> Check<'_, P> {
    const AUTHENTICATION: &'static str = "authentication.k8s.io";

    /// Legacy and constrained impersonation use different API groups for users, groups and service
    /// accounts.
    fn group(&self) -> &'static str {
        match self.mode {
            Some(_) => Self::AUTHENTICATION,
            None => "",
        }
    }

    fn on<'a>(&'a self, group: &'a str, resource: &'a str, name: &'a str) -> Attributes<'a> {
        Attributes {
            name,
            ..Attributes::resource(self.sender, self.verb, group, resource)
        }
    }

    fn name(&self, requested: &User) -> Result<(), ApiError> {
        let name = requested.name.as_str();
        let attributes = if let Some((namespace, name)) = split_service_account(name) {
            Attributes {
                namespace,
                ..self.on(self.group(), "serviceaccounts", name)
            }
        } else if let (Some(_), Some(node)) = (self.mode, node_name(name)) {
            self.on(self.group(), "nodes", node)
        } else {
            self.on(self.group(), "users", name)
        };
        rbac::require(self.policy, &attributes)
    }

    fn user(&self, requested: &User) -> Result<User, ApiError> {
        self.name(requested)?;
        if !requested.uid.is_empty() {
            let attributes = self.on(Self::AUTHENTICATION, "uids", &requested.uid);
            rbac::require(self.policy, &attributes)?;
        }
        self.groups(requested)?;
        for (key, values) in &requested.extra {
            for value in values {
                let attributes = Attributes {
                    subresource: key,
                    ..self.on(Self::AUTHENTICATION, "userextras", value)
                };
                rbac::require(self.policy, &attributes)?;
            }
        }
        Ok(self.completed(requested))
    }

    fn groups(&self, requested: &User) -> Result<(), ApiError> {
        let refuse = |name: &str, why: &str| {
            let attributes = self.on(self.group(), "groups", name);
            Err(attributes.forbidden(why))
        };
        if self.mode.is_some() && requested.is_in("") {
            return refuse("", "impersonating the empty string group is not allowed");
        }
        if self.mode.is_some() && requested.is_in(MASTERS) {
            return refuse(
                MASTERS,
                "impersonating the system:masters group is not allowed",
            );
        }
        requested.groups.iter().try_for_each(|group| {
            rbac::require(self.policy, &self.on(self.group(), "groups", group))
        })
    }

    fn completed(&self, requested: &User) -> User {
        let mut user = requested.clone();
        if user.groups.is_empty() {
            if let Some((namespace, _)) = split_service_account(&user.name) {
                user.groups = service_account_groups(namespace);
            } else if self.mode.is_some() && node_name(&user.name).is_some() {
                user.groups = vec!["system:nodes".into()];
            }
        }
        let everyone = match user.name.as_str() {
            ANONYMOUS => UNAUTHENTICATED,
            _ if user.is_in(UNAUTHENTICATED) => return user,
            _ => AUTHENTICATED,
        };
        if !user.is_in(everyone) {
            user.groups.push(everyone.into());
        }
        user
    }
}

/// The user as Go prints it in the error text.
fn show(user: &User) -> String {
    let list = |items: &[String]| {
        let items: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
        format!("[]string{{{}}}", items.join(", "))
    };
    let groups = match user.groups.as_slice() {
        [] => "[]string(nil)".to_owned(),
        groups => list(groups),
    };
    let mut text = format!(
        "&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:{groups}, Extra:map[string][]string",
        user.name, user.uid
    );
    if user.extra.is_empty() {
        text.push_str("(nil)");
    } else {
        let extra: Vec<String> = user
            .extra
            .iter()
            .map(|(key, values)| format!("{key:?}:{}", list(values)))
            .collect();
        let _ = write!(text, "{{{}}}", extra.join(", "));
    }
    text.push('}');
    text
}

/// Percent-decodes a key; malformed escapes leave it unchanged.
fn unescape(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        match (digit(rest.next()), digit(rest.next())) {
            (Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
            }
            _ => return key.to_owned(),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
