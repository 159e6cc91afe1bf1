//! AdmissionReviews: what the API server asks of a webhook, and how it is answered.
//!
//! A webhook does not know who asks. Guaranteed: whatever a body holds, it takes a few times its own
//! length of memory, and some MiB. Nothing is read on a path that nobody answers; what has no place in
//! a question is passed over; and an object is decoded, into its type, only if it has at most
//! 5,000 values: in memory one can take a hundred times the bytes that it is written with.

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

/// How many values an object may have. The schemas let in some hundreds; a status and the fields that
/// everybody manages come to that.
const VALUES: usize = 5_000;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// There is no such path.
    #[error("there is no such path")]
    Path,
    /// It is no AdmissionReview.
    #[error("the body is no AdmissionReview")]
    Review,
    /// It is about more than is looked at.
    #[error("an object has more than {VALUES} values, or they are nested too deeply")]
    Large,
}

impl Unanswered {
    fn status(self) -> StatusCode {
        match self {
            Self::Path => StatusCode::NOT_FOUND,
            Self::Review => StatusCode::BAD_REQUEST,
            Self::Large => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }
}

/// What is asked.
#[derive(Clone)]
pub(crate) struct Asked<'a> {
    /// What it is about.
    pub(crate) subject: Subject,
    /// What is done.
    pub(crate) operation: Operation,
    /// Who makes the change.
    pub(crate) user_info: User,
    /// What it is to be; nothing for a deletion.
    pub(crate) object: Sent<'a>,
    /// What it was; nothing for a creation.
    pub(crate) old_object: Sent<'a>,
}

/// An object as it was sent.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sent<'a>(Option<&'a RawValue>);

/// What is done to an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    /// None that is known here.
    #[default]
    #[serde(other)]
    Other,
}

/// What a question is about.
#[derive(Clone)]
pub(crate) struct Subject {
    /// What tells the question from others.
    uid: String,
    /// Of what kind the object is.
    kind: Kind,
    /// Its name; empty if it has none yet.
    name: String,
}

#[derive(Clone, Default, Deserialize)]
struct Kind {
    #[serde(default)]
    group: String,
    #[serde(default)]
    kind: String,
}

/// Who makes a change.
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

impl<'a> Asked<'a> {
    /// What an AdmissionReview asks.
    pub(crate) fn of(review: &'a [u8]) -> Result<Self, Unanswered> {
        let Review { request } = decode::from_slice(review).map_err(|_| Unanswered::Review)?;
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
        if objects.any(|object| !values::are_at_most(VALUES, object)) {
            return Err(Unanswered::Large);
        }
        Ok(Self {
            subject: Subject { uid, kind, name },
            operation,
            user_info,
            object: Sent(object),
            old_object: Sent(old_object),
        })
    }

    /// Whether it is an update that leaves the spec as it was.
    pub(crate) fn leaves_spec(&self) -> bool {
        // An API server writes what is the same with the same bytes.
        let spec = |sent: Sent<'a>| sent.spec().map(RawValue::get);
        self.operation == Operation::Update && spec(self.object) == spec(self.old_object)
    }
}

impl<'a> Sent<'a> {
    /// Whether there is one.
    pub(crate) fn is_some(self) -> bool {
        self.0.is_some()
    }

    /// What it asks for, if it says so.
    pub(crate) fn spec(self) -> Option<&'a RawValue> {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow)]
            spec: Option<&'a RawValue>,
        }
        let object: Object<'a> = decode::from_str(self.0?.get()).ok()?;
        object.spec
    }

    /// The object.
    pub(crate) fn decode<T: DeserializeOwned>(self) -> serde_json::Result<T> {
        decode::from_str(self.0.map_or("null", RawValue::get))
    }
}

impl Subject {
    /// The AdmissionReview that answers.
    pub(crate) fn respond(&self, verdict: &Verdict) -> Value {
        let mut response = json!({ "uid": self.uid, "allowed": verdict.is_allowed() });
        if !verdict.is_allowed() {
            let causes = verdict.errors.iter().map(|refusal| {
                // kubectl puts the field before it.
                let message = refusal.message.strip_prefix(&*refusal.field);
                let message = message.and_then(|rest| rest.strip_prefix(": "));
                json!({
                    "reason": "FieldValueInvalid", "field": refusal.field,
                    "message": message.unwrap_or(&refusal.message),
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
                // kubectl tells of these which object it is.
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

/// Answers AdmissionReviews that come over HTTP, by what a function of the path and the body says.
pub(crate) fn handler(
    answer: impl Fn(String, Bytes) -> BoxFuture<'static, Result<Value, Unanswered>>
    + Send
    + Sync
    + 'static,
) -> Handler {
    Arc::new(move |request: Request<Bytes>| {
        if request.method() != Method::POST {
            return ready(plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "only POST is answered",
            ));
        }
        let path = request.uri().path().to_owned();
        let answer = answer(path, request.into_body());
        Box::pin(async move {
            match answer.await {
                Ok(answer) => json_answer(&answer),
                Err(why) => plain(why.status(), why.to_string()),
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

    /// Answers one path, as the KubeVirt operator and the Machine operator do theirs.
    fn handler() -> Handler {
        super::handler(|path, review| {
            Box::pin(async move {
                if path != "/validate" {
                    return Err(Unanswered::Path);
                }
                let asked = Asked::of(&review)?;
                let mut verdict = Verdict::default();
                if asked.operation == Operation::Delete {
                    verdict.errors.push(plan::admission::FieldError {
                        field: "spec.a".to_owned(),
                        message: "spec.a: is wrong: mend it".to_owned(),
                    });
                    verdict.warn("look out");
                }
                Ok(asked.subject.respond(&verdict))
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
    async fn what_is_no_question_is_no_answer_due(
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
    fn an_object_is_looked_at_up_to_a_number_of_values() {
        for (zeros, is_asked) in [(VALUES - 1, true), (VALUES, false)] {
            let object = json!(vec![0; zeros]);
            for place in ["object", "oldObject"] {
                let review = json!({ "request": { "uid": "7", place: object } }).to_string();
                let asked = Asked::of(review.as_bytes()).map(drop);
                let expected = if is_asked {
                    Ok(())
                } else {
                    Err(Unanswered::Large)
                };
                assert_eq!(asked, expected, "{zeros} in {place}");
            }
        }
    }

    #[rstest]
    #[case(r#"{"spec":{"a":1}}"#, r#"{"spec":{"a":1},"status":{}}"#, true)]
    #[case(r#"{"spec":{"a":1}}"#, r#"{"spec":{"a":2}}"#, false)]
    #[case(r#"{"spec":null}"#, "{}", true)]
    #[case("{}", r#"{"spec":{}}"#, false)]
    #[case("7", "null", true)]
    fn a_spec_is_the_same_or_not(#[case] old: &str, #[case] new: &str, #[case] is_same: bool) {
        for (operation, is_left) in [("UPDATE", is_same), ("CREATE", false)] {
            let review = format!(
                r#"{{"request":{{"uid":"7","operation":"{operation}","object":{new},"oldObject":{old}}}}}"#
            );
            let asked = Asked::of(review.as_bytes()).unwrap();
            assert_eq!(asked.leaves_spec(), is_left, "{operation}");
        }
    }

    #[rstest]
    #[case("CREATE")]
    #[case("CONNECT")]
    #[tokio::test]
    async fn what_is_allowed_is_said_in_few_words(#[case] operation: &str) {
        let review = json!({ "request": { "uid": "7", "operation": operation } });
        let (code, body) = answer(Method::POST, "/validate", &review.to_string()).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(code, 200);
        assert_eq!(body["response"], json!({ "uid": "7", "allowed": true }));
    }

    #[tokio::test]
    async fn a_refusal_says_each_field_once_where_kubectl_adds_it() {
        let review = json!({ "request": {
            "uid": "7", "operation": "DELETE", "name": "web",
            "kind": { "group": "vitistack.io", "version": "v1alpha1", "kind": "Machine" },
        } });
        let (_, body) = answer(Method::POST, "/validate", &review.to_string()).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        let response = &body["response"];
        assert_eq!(response["allowed"], false);
        assert_eq!(response["warnings"], json!(["look out"]));
        assert_eq!(response["status"]["code"], 422);
        assert_eq!(response["status"]["message"], "spec.a: is wrong: mend it");
        let causes = json!([
            { "reason": "FieldValueInvalid", "field": "spec.a", "message": "is wrong: mend it" },
        ]);
        let details = json!({
            "group": "vitistack.io", "kind": "Machine", "name": "web", "causes": causes,
        });
        assert_eq!(response["status"]["details"], details);
    }
}
