//! HTTP handler and wire format of AdmissionReviews.
//!
//! A webhook cannot authenticate its callers. Guaranteed: a request needs at most a few times the length
//! of its body in memory, plus some MiB. Bodies on unknown paths are not parsed, unknown fields are
//! ignored, and an object is decoded only if it has at most 5,000 values: decoded values can take a
//! hundred times the memory of their JSON.

#[cfg(test)]
mod hostile;
mod values;

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use plan::admission::Verdict;
use runtime::tls::Handler;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

/// Maximum number of values in an object. The schemas admit some hundreds; status and managed fields
/// are added to them.
const MAX_VALUES: usize = 5_000;

/// Reason why a review is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    #[error("no webhook is served at this path")]
    Path,
    #[error("the body is not a valid AdmissionReview")]
    Review,
    #[error("an object has more than {MAX_VALUES} values, or they are nested too deeply")]
    Large,
}

impl ReviewError {
    fn status(self) -> StatusCode {
        match self {
            Self::Path => StatusCode::NOT_FOUND,
            Self::Review => StatusCode::BAD_REQUEST,
            Self::Large => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }
}

/// Request of an AdmissionReview.
#[derive(Clone)]
pub(crate) struct ReviewRequest<'a> {
    pub(crate) subject: Subject,
    pub(crate) operation: Operation,
    pub(crate) user_info: User,
    /// New version; empty for a deletion.
    pub(crate) object: ReviewObject<'a>,
    /// Old version; empty for a creation.
    pub(crate) old_object: ReviewObject<'a>,
}

/// Undecoded object of a review.
#[derive(Clone, Copy, Default)]
pub(crate) struct ReviewObject<'a>(Option<&'a RawValue>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    #[default]
    #[serde(other)]
    Other,
}

/// Fields of the request that the response repeats.
#[derive(Clone)]
pub(crate) struct Subject {
    uid: String,
    kind: Kind,
    /// Empty if the API server generates the name.
    name: String,
}

#[derive(Clone, Default, Deserialize)]
struct Kind {
    #[serde(default)]
    group: String,
    #[serde(default)]
    kind: String,
}

#[derive(Clone, Default, Deserialize)]
pub(crate) struct User {
    #[serde(default)]
    pub(crate) username: String,
}

#[derive(Deserialize)]
struct Review<'a> {
    #[serde(borrow)]
    request: Wire<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    uid: String,
    #[serde(default)]
    kind: Kind,
    #[serde(default)]
    name: String,
    #[serde(default)]
    operation: Operation,
    #[serde(default)]
    user_info: User,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
}

impl<'a> ReviewRequest<'a> {
    pub(crate) fn parse(review: &'a [u8]) -> Result<Self, ReviewError> {
        let Review { request } = decode::from_slice(review).map_err(|_| ReviewError::Review)?;
        let Wire {
            uid,
            kind,
            name,
            operation,
            user_info,
            object,
            old_object,
        } = request;
        let mut objects = [object, old_object].into_iter().flatten();
        if objects.any(|object| !values::are_at_most(MAX_VALUES, object)) {
            return Err(ReviewError::Large);
        }
        Ok(Self {
            subject: Subject { uid, kind, name },
            operation,
            user_info,
            object: ReviewObject(object),
            old_object: ReviewObject(old_object),
        })
    }

    /// Whether the request is an update with an unchanged spec.
    pub(crate) fn leaves_spec(&self) -> bool {
        // The API server encodes equal values as equal bytes.
        let spec = |object: ReviewObject<'a>| object.spec().map(RawValue::get);
        self.operation == Operation::Update && spec(self.object) == spec(self.old_object)
    }
}

impl<'a> ReviewObject<'a> {
    pub(crate) fn is_some(self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn spec(self) -> Option<&'a RawValue> {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow)]
            spec: Option<&'a RawValue>,
        }
        let object: Object<'a> = decode::from_str(self.0?.get()).ok()?;
        object.spec
    }

    pub(crate) fn decode<T: DeserializeOwned>(self) -> serde_json::Result<T> {
        decode::from_str(self.0.map_or("null", RawValue::get))
    }
}

impl Subject {
    /// AdmissionReview with the response.
    pub(crate) fn respond(&self, verdict: &Verdict) -> Value {
        let mut response = json!({ "uid": self.uid, "allowed": verdict.is_allowed() });
        if !verdict.is_allowed() {
            let causes = verdict.errors.iter().map(|refusal| {
                // kubectl prefixes the message with the field.
                json!({
                    "reason": "FieldValueInvalid", "field": refusal.field,
                    "message": refusal.detail,
                })
            });
            let causes: Vec<Value> = causes.collect();
            let (code, reason) = match causes.as_slice() {
                [] => (409, "Conflict"),
                _ => (422, "Invalid"),
            };
            response["status"] = json!({
                "status": "Failure", "code": code, "reason": reason,
                "message": verdict.message(),
                // kubectl names the object from these.
                "details": {
                    "group": self.kind.group, "kind": self.kind.kind, "name": self.name,
                    "causes": causes,
                },
            });
        }
        if !verdict.warnings.is_empty() {
            response["warnings"] = json!(verdict.warnings);
        }
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        })
    }
}

/// HTTP handler that answers AdmissionReviews with a function of path and body.
pub(crate) fn handler(
    answer: impl Fn(String, Bytes) -> BoxFuture<'static, Result<Value, ReviewError>>
    + Send
    + Sync
    + 'static,
) -> Handler {
    Arc::new(move |request: Request<Bytes>| {
        if request.method() != Method::POST {
            return ready(plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "AdmissionReviews must be sent with POST",
            ));
        }
        let path = request.uri().path().to_owned();
        let answer = answer(path, request.into_body());
        Box::pin(async move {
            match answer.await {
                Ok(answer) => json_answer(&answer),
                Err(error) => plain(error.status(), error.to_string()),
            }
        })
    })
}

fn ready(answer: Response<Full<Bytes>>) -> BoxFuture<'static, Response<Full<Bytes>>> {
    Box::pin(std::future::ready(answer))
}

fn json_answer(body: &Value) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(body.to_string()));
    let json = header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    answer
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use rstest::rstest;

    use super::*;

    /// Webhook that refuses deletions, on one path.
    fn handler() -> Handler {
        super::handler(|path, review| {
            Box::pin(async move {
                if path != "/validate" {
                    return Err(ReviewError::Path);
                }
                let request = ReviewRequest::parse(&review)?;
                let mut verdict = Verdict::default();
                if request.operation == Operation::Delete {
                    let error = plan::admission::FieldError::new("spec.a", "is wrong: fix it");
                    verdict.errors.push(error);
                    verdict.warn("be careful");
                }
                Ok(request.subject.respond(&verdict))
            })
        })
    }

    async fn answer(method: Method, path: &str, body: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Bytes::from(body.to_owned())).unwrap();
        let answer = handler()(request).await;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[rstest]
    #[case(Method::GET, "/validate", "", 405)]
    #[case(Method::POST, "/validate", "", 400)]
    #[case(Method::POST, "/validate", "\u{0}\u{1}{", 400)]
    #[case(Method::POST, "/validate", "[]", 400)]
    #[case(Method::POST, "/validate", r#"{"request":{}}"#, 400)]
    #[case(Method::POST, "/validate", r#"{"request":{"uid":7}}"#, 400)]
    #[case(Method::POST, "/validate", r#"{"request":{"uid":"7","uid":"8"}}"#, 400)]
    #[case(Method::POST, "/other", r#"{"request":{"uid":"7"}}"#, 404)]
    #[case(Method::POST, "/other", "no JSON", 404)]
    #[tokio::test]
    async fn a_request_that_is_no_review_gets_an_http_error(
        #[case] method: Method,
        #[case] path: &str,
        #[case] body: &str,
        #[case] code: u16,
    ) {
        assert_eq!(answer(method, path, body).await.0, code);
    }

    #[tokio::test]
    async fn deep_nesting_does_not_overflow() {
        let deep = "[".repeat(1 << 20);
        assert_eq!(answer(Method::POST, "/validate", &deep).await.0, 400);
    }

    #[test]
    fn an_object_with_too_many_values_is_refused() {
        for (zeros, is_accepted) in [(MAX_VALUES - 1, true), (MAX_VALUES, false)] {
            let object = json!(vec![0; zeros]);
            for place in ["object", "oldObject"] {
                let review = json!({ "request": { "uid": "7", place: object } }).to_string();
                let parsed = ReviewRequest::parse(review.as_bytes()).map(drop);
                let expected = if is_accepted {
                    Ok(())
                } else {
                    Err(ReviewError::Large)
                };
                assert_eq!(parsed, expected, "{zeros} in {place}");
            }
        }
    }

    #[rstest]
    #[case(r#"{"spec":{"a":1}}"#, r#"{"spec":{"a":1},"status":{}}"#, true)]
    #[case(r#"{"spec":{"a":1}}"#, r#"{"spec":{"a":2}}"#, false)]
    #[case(r#"{"spec":null}"#, "{}", true)]
    #[case("{}", r#"{"spec":{}}"#, false)]
    #[case("7", "null", true)]
    fn an_update_with_an_unchanged_spec_is_recognized(
        #[case] old: &str,
        #[case] new: &str,
        #[case] is_same: bool,
    ) {
        for (operation, is_left) in [("UPDATE", is_same), ("CREATE", false)] {
            let review = format!(
                r#"{{"request":{{"uid":"7","operation":"{operation}","object":{new},"oldObject":{old}}}}}"#
            );
            let request = ReviewRequest::parse(review.as_bytes()).unwrap();
            assert_eq!(request.leaves_spec(), is_left, "{operation}");
        }
    }

    #[rstest]
    #[case("CREATE")]
    #[case("CONNECT")]
    #[tokio::test]
    async fn an_allowed_review_has_no_status(#[case] operation: &str) {
        let review = json!({ "request": { "uid": "7", "operation": operation } });
        let (code, body) = answer(Method::POST, "/validate", &review.to_string()).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(code, 200);
        assert_eq!(body["response"], json!({ "uid": "7", "allowed": true }));
    }

    #[tokio::test]
    async fn causes_do_not_repeat_the_field_that_kubectl_adds() {
        let review = json!({ "request": {
            "uid": "7", "operation": "DELETE", "name": "web",
            "kind": { "group": "vitistack.io", "version": "v1alpha1", "kind": "Machine" },
        } });
        let (_, body) = answer(Method::POST, "/validate", &review.to_string()).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        let response = &body["response"];
        assert_eq!(response["allowed"], false);
        assert_eq!(response["warnings"], json!(["be careful"]));
        assert_eq!(response["status"]["code"], 422);
        assert_eq!(response["status"]["message"], "spec.a: is wrong: fix it");
        let causes = json!([
            { "reason": "FieldValueInvalid", "field": "spec.a", "message": "is wrong: fix it" },
        ]);
        let details = json!({
            "group": "vitistack.io", "kind": "Machine", "name": "web", "causes": causes,
        });
        assert_eq!(response["status"]["details"], details);
    }
}
