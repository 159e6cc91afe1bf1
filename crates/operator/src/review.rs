//! AdmissionReviews: what the API server asks of a webhook, and how it is answered.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use plan::admission::Verdict;
use runtime::tls::Handler;
use serde::Deserialize;
use serde_json::{Value, json};

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// There is no such path.
    #[error("there is no such path")]
    Path,
    /// It is no AdmissionReview.
    #[error("the body is no AdmissionReview")]
    Review,
}

/// What is asked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Asked {
    /// What it is about.
    #[serde(flatten)]
    pub(crate) subject: Subject,
    /// What is done.
    #[serde(default)]
    pub(crate) operation: Operation,
    /// Who makes the change.
    #[serde(default)]
    pub(crate) user_info: User,
    /// What it is to be; null for a deletion.
    #[serde(default)]
    pub(crate) object: Value,
    /// What it was; null for a creation.
    #[serde(default)]
    pub(crate) old_object: Value,
}

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
#[derive(Clone, Deserialize)]
pub(crate) struct Subject {
    /// What tells the question from others.
    uid: String,
    /// Of what kind the object is.
    #[serde(default)]
    kind: Kind,
    /// Its name; empty if it has none yet.
    #[serde(default)]
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
#[derive(Default, Deserialize)]
pub(crate) struct User {
    #[serde(default)]
    pub(crate) username: String,
}

#[derive(Deserialize)]
struct Review {
    request: Asked,
}

impl Asked {
    /// What an AdmissionReview asks.
    pub(crate) fn of(review: Value) -> Result<Self, Unanswered> {
        let review: Review = serde_json::from_value(review).map_err(|_| Unanswered::Review)?;
        Ok(review.request)
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
    answer: impl Fn(String, Value) -> BoxFuture<'static, Result<Value, Unanswered>>
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
        let Ok(review) = serde_json::from_slice(request.body()) else {
            return ready(plain(StatusCode::BAD_REQUEST, "the body is no JSON"));
        };
        let answer = answer(request.uri().path().to_owned(), review);
        Box::pin(async move {
            match answer.await {
                Ok(answer) => json_answer(&answer),
                Err(Unanswered::Path) => plain(StatusCode::NOT_FOUND, "there is no such path"),
                Err(Unanswered::Review) => {
                    plain(StatusCode::BAD_REQUEST, "the body is no AdmissionReview")
                }
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

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(text));
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
                let asked = Asked::of(review)?;
                let mut verdict = Verdict::default();
                if asked.operation == Operation::Delete {
                    verdict.errors.push(plan::admission::Refusal {
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
    #[case(Method::POST, "/other", r#"{"request":{"uid":"7"}}"#, 404)]
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
