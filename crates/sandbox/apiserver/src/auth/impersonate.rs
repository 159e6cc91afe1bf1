//! Acting as somebody else.
//!
//! A request with `Impersonate-User` (and `-Group`, `-Uid`, `-Extra-…`) is carried out as that
//! user, if the sender may impersonate them. There are two ways to be allowed: the verb
//! `impersonate` on each thing that is asked for; or, more narrowly, `impersonate-on:MODE:VERB` on
//! what the request is about together with `impersonate:MODE` on each thing, where the mode depends
//! on the kind of user (`serviceaccount`, `arbitrary-node`, `user-info`). The mode
//! `associated-node`, which is for pods on that node, is not here.

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

/// The user that the headers ask for, as they are written there; `None` for no such headers.
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

/// Whether the sender of `request` may act as `requested`; if so, the user to go on with, which has the
/// groups that every such user has.
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
    // A sender who may act as this user, only not with all that is asked for, is told what of it
    // is too much; anybody else sees the narrower right, which is the one to ask for.
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

/// The narrow mode for a user: nodes and service accounts have one of their own, in which nothing
/// but the name can be asked for.
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

/// The rights on each thing that is asked for.
struct Check<'a, P> {
    policy: &'a P,
    sender: &'a User,
    verb: &'a str,
    mode: Option<&'a str>,
}

impl<P: rbac::Policy> Check<'_, P> {
    const AUTHENTICATION: &'static str = "authentication.k8s.io";

    /// The API group of users, groups and service accounts, which the two ways see differently.
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

/// The user as the server's text shows one.
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

/// A key with its %-escapes resolved; as it is, where they are malformed.
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
