//! Tokens of service accounts: shaped as JSON web tokens, signed with a key that only this server
//! has.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::hmac;
use serde::{Deserialize, Serialize};

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Whom the token is for.
    pub aud: Vec<String>,
    /// Until when it is valid, in seconds since 1970.
    pub exp: i64,
    /// When it was made.
    pub iat: i64,
    /// Who made it.
    pub iss: String,
    /// The token's own uid.
    pub jti: String,
    /// What it is bound to.
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Bound,
    /// From when it is valid.
    pub nbf: i64,
    /// The user's name.
    pub sub: String,
}

/// What a token is bound to: when one of these is gone, so is the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The service account's namespace.
    pub namespace: String,
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    /// The pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    /// The secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    /// The service account.
    pub serviceaccount: Reference,
}

/// An object, by its name and its uid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// By how much clocks may differ.
pub(super) const LEEWAY_SECONDS: i64 = 60;

/// The one header that our tokens have. Nothing else is ever accepted, so that a token cannot
/// choose how it is checked.
const HEADER: &str = r#"{"alg":"HS256","kid":"sandbox"}"#;

pub(super) fn sign(key: &hmac::Key, claims: &Claims) -> Option<String> {
    let claims = serde_json::to_vec(claims).ok()?;
    let signed = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(HEADER),
        URL_SAFE_NO_PAD.encode(claims)
    );
    let signature = hmac::sign(key, signed.as_bytes());
    Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// The claims of a token that we have signed. Time and audience are not looked at.
pub(super) fn verify(key: &hmac::Key, token: &str) -> Option<Claims> {
    let (signed, signature) = token.rsplit_once('.')?;
    let (header, claims) = signed.split_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    hmac::verify(key, signed.as_bytes(), &signature).ok()?;
    if header != URL_SAFE_NO_PAD.encode(HEADER) {
        return None;
    }
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}

impl Claims {
    /// Why the token is not valid at `now`.
    pub(super) fn check_time(&self, now: Timestamp) -> Result<(), &'static str> {
        let now = now.as_second();
        if now.saturating_sub(LEEWAY_SECONDS) > self.exp {
            Err("service account token has expired")
        } else if now.saturating_add(LEEWAY_SECONDS) < self.nbf {
            Err("service account token is not valid yet")
        } else {
            Ok(())
        }
    }
}
