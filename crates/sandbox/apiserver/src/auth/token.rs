//! Service account tokens: JWTs signed with an HMAC key of this server.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::hmac;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub aud: Vec<String>,
    pub exp: i64,
    pub iat: i64,
    pub iss: String,
    pub jti: String,
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Bound,
    pub nbf: i64,
    pub sub: String,
}

/// Objects that a token is bound to: it becomes invalid when one of them is deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    pub serviceaccount: Reference,
}

/// ObjectReference by name and UID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    pub name: String,
    pub uid: String,
}

/// Clock skew that is tolerated.
pub(super) const LEEWAY_SECONDS: i64 = 60;

/// The only accepted header, so that a token cannot choose its algorithm.
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

/// Claims of a token with a valid signature. Does not check time and audience.
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
