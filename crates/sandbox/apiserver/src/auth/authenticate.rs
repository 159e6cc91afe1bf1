//! Bearer token authentication.

use std::{fmt, sync::Arc};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, StatusCode, header::AUTHORIZATION};
use jiff::Timestamp;
use ring::hmac;
use serde_json::Value;

use super::{
    User,
    token::{self, Bound, Claims, LEEWAY_SECONDS},
};
use crate::ApiError;

/// Reads the objects that tokens are bound to.
pub trait TokenGetter {
    /// `resource` is `serviceaccounts`, `pods`, `secrets` or `nodes`; nodes have an empty
    /// namespace.
    fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>>;
}

/// Maps tokens to users and signs service account tokens.
///
/// All keys derive from a seed: the same seed accepts the same tokens, so only an unguessable seed
/// keeps strangers out.
#[derive(Clone)]
pub struct Authenticator {
    key: hmac::Key,
    admin_token: String,
    /// Compared instead of the token, in constant time.
    admin_tag: hmac::Tag,
}

/// Identity of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub user: User,
    /// Requested audiences that the token is valid for.
    pub audiences: Vec<String>,
}

/// Why a token is invalid, as a `TokenReview` words it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected(pub String);

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").finish_non_exhaustive()
    }
}

impl Authenticator {
    /// Issuer, and the default audience.
    pub const ISSUER: &'static str = "https://kubernetes.default.svc.cluster.local";

    pub fn new(seed: &[u8]) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, seed);
        let derived = |purpose: &[u8]| hmac::sign(&root, purpose);
        let admin_token = URL_SAFE_NO_PAD.encode(derived(b"admin token"));
        let key = hmac::Key::new(
            hmac::HMAC_SHA256,
            derived(b"service account tokens").as_ref(),
        );
        Self {
            admin_tag: hmac::sign(&key, admin_token.as_bytes()),
            key,
            admin_token,
        }
    }

    /// For the kubeconfig.
    pub fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// User of a request; anonymous without a token. An invalid token is refused.
    pub fn authenticate(
        &self,
        headers: &HeaderMap,
        now: Timestamp,
        objects: &impl TokenGetter,
    ) -> Result<User, ApiError> {
        let Some(token) = bearer(headers) else {
            return Ok(User::anonymous());
        };
        let audiences = [Self::ISSUER.to_owned()];
        self.identify(token, &audiences, now, objects)
            .map(|identity| identity.user)
            .map_err(|_| ApiError::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized"))
    }

    /// Identity of a token for one of `audiences`.
    pub fn identify(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
        objects: &impl TokenGetter,
    ) -> Result<Identity, Rejected> {
        if hmac::verify(&self.key, token.as_bytes(), self.admin_tag.as_ref()).is_ok() {
            return Ok(Identity {
                user: User::admin(),
                audiences: audiences.to_vec(),
            });
        }
        let invalid = || Rejected("invalid bearer token".into());
        let claims = token::verify(&self.key, token).ok_or_else(invalid)?;
        identify_account(&claims, audiences, now, objects)
            .map_err(|why| Rejected(format!("[invalid bearer token, {why}]")))
    }

    pub fn sign(&self, claims: &Claims) -> Result<String, ApiError> {
        token::sign(&self.key, claims)
            .ok_or_else(|| ApiError::internal("failed to encode the token claims"))
    }
}

fn identify_account(
    claims: &Claims,
    audiences: &[String],
    now: Timestamp,
    objects: &impl TokenGetter,
) -> Result<Identity, String> {
    let common: Vec<String> = audiences
        .iter()
        .filter(|audience| claims.aud.contains(audience))
        .cloned()
        .collect();
    if common.is_empty() {
        let show = |list: &[String]| {
            let items: Vec<String> = list.iter().map(|item| format!("{item:?}")).collect();
            format!("[{}]", items.join(" "))
        };
        return Err(format!(
            "token audiences {} is invalid for the target audiences {}",
            show(&claims.aud),
            show(audiences)
        ));
    }
    claims.check_time(now)?;
    check_bound(&claims.kubernetes, now, objects)?;
    let Bound {
        namespace,
        node,
        pod,
        secret: _,
        serviceaccount,
    } = &claims.kubernetes;
    let mut user = User::service_account(namespace, &serviceaccount.name, &serviceaccount.uid);
    let mut extra = |key: &str, value: String| {
        user.extra
            .insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
    };
    extra("credential-id", format!("JTI={}", claims.jti));
    if let Some(pod) = pod {
        extra("pod-name", pod.name.clone());
        extra("pod-uid", pod.uid.clone());
    }
    if let Some(node) = node {
        extra("node-name", node.name.clone());
        if !node.uid.is_empty() {
            extra("node-uid", node.uid.clone());
        }
    }
    Ok(Identity {
        user,
        audiences: common,
    })
}

fn check_bound(bound: &Bound, now: Timestamp, objects: &impl TokenGetter) -> Result<(), String> {
    let namespace = bound.namespace.as_str();
    let account = &bound.serviceaccount;
    let Some(found) = objects.get("serviceaccounts", namespace, &account.name) else {
        return Err(format!("serviceaccounts {:?} not found", account.name));
    };
    let uid = uid(&found);
    if uid != account.uid {
        return Err(format!(
            "service account UID ({uid}) does not match claim ({})",
            account.uid
        ));
    }
    if is_deleted(&found, now) {
        return Err(format!(
            "service account {namespace}/{} has been deleted",
            account.name
        ));
    }
    // The node of a pod-bound token is informational only.
    let node = bound.node.as_ref().filter(|_| bound.pod.is_none());
    let others = [
        ("secret", namespace, bound.secret.as_ref()),
        ("pod", namespace, bound.pod.as_ref()),
        ("node", "", node),
    ];
    for (kind, namespace, reference) in others {
        let Some(reference) = reference else { continue };
        let found = objects.get(&format!("{kind}s"), namespace, &reference.name);
        let Some(found) = found.filter(|found| !is_deleted(found, now)) else {
            return Err("service account token has been invalidated".into());
        };
        let uid = self::uid(&found);
        if uid != reference.uid {
            return Err(format!(
                "{kind} UID ({uid}) does not match service account {kind} ref claim ({})",
                reference.uid
            ));
        }
    }
    Ok(())
}

pub(super) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// Whether the object's deletion is more than a minute old, although finalizers keep it.
fn is_deleted(object: &Value, now: Timestamp) -> bool {
    object["metadata"]["deletionTimestamp"]
        .as_str()
        .and_then(|time| time.parse::<Timestamp>().ok())
        .is_some_and(|time| time.as_second() < now.as_second().saturating_sub(LEEWAY_SECONDS))
}

/// Other schemes and empty tokens count as none.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let mut parts = value.splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
