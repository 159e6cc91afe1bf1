//! Webhook requests and responses.

use http::StatusCode;
use rstest::rstest;
use serde_json::{Value, json};

use super::{InProcess, TestRequest, allowed, configuration, hook, json_reply, patched};
use crate::{
    ApiError,
    admission::webhook::{
        Operation, Request,
        call::{Endpoint, Reply, Transport},
        review, validate,
    },
};

fn read(mutating: bool, reply: &Reply) -> Result<review::AdmissionResponse, String> {
    review::decode_response("x", "u1", mutating, reply)
}

fn response(response: &Value) -> Reply {
    let mut response = response.clone();
    response["uid"] = "u1".into();
    json_reply(&json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response,
    }))
}

#[rstest]
#[case(json!({"message": "no way"}),
    json!({"message": "admission webhook \"x\" denied the request: no way", "code": 400}))]
#[case(json!({"message": "conflicting", "code": 409, "reason": "Conflict",
        "details": {"name": "n", "causes": [{"message": "m", "field": "f", "reason": "r"}]}}),
    json!({"message": "admission webhook \"x\" denied the request: conflicting", "code": 409,
        "reason": "Conflict",
        "details": {"name": "n", "causes": [{"message": "m", "field": "f", "reason": "r"}]}}))]
#[case(json!({"reason": "BadThing"}),
    json!({"message": "admission webhook \"x\" denied the request: BadThing", "code": 400,
        "reason": "BadThing"}))]
#[case(Value::Null,
    json!({"message": "admission webhook \"x\" denied the request without explanation",
        "code": 400}))]
#[case(json!({"status": "Success", "code": 200, "message": "m"}),
    json!({"message": "admission webhook \"x\" denied the request: m", "code": 400}))]
#[case(json!({"code": 70000}),
    json!({"message": "admission webhook \"x\" denied the request without explanation",
        "code": 400}))]
fn denials_are_returned_to_the_client(#[case] status: Value, #[case] mut expected: Value) {
    let reply = response(&json!({"allowed": false, "status": status}));
    let refusal = read(false, &reply).unwrap().verdict.unwrap_err();
    for (field, value) in [
        ("kind", json!("Status")),
        ("apiVersion", json!("v1")),
        ("metadata", json!({})),
        ("status", json!("Failure")),
    ] {
        expected[field] = value;
    }
    assert_eq!(refusal.to_status(), expected);
}

#[rstest]
#[case(
    200,
    "",
    "failed to call webhook: 0-length response with status code: 200 and content type: application/json"
)]
#[case(
    200,
    "{\"a\":1}",
    "received invalid webhook response: webhook response was absent"
)]
#[case(
    200,
    "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\"}",
    "received invalid webhook response: webhook response was absent"
)]
#[case(
    200,
    "{\"apiVersion\":\"admission.k8s.io/v1beta1\",\"kind\":\"AdmissionReview\",\"response\":{}}",
    "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"
)]
#[case(
    200,
    "{\"response\":{\"uid\":\"other\"}}",
    "received invalid webhook response: expected response.uid=\"u1\", got \"other\""
)]
#[case(
    200,
    "{\"response\":{\"uid\":\"u1\"}}",
    "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="
)]
#[case(
    500,
    "boom",
    "failed to call webhook: an error on the server (\"unknown\") has prevented the request from succeeding"
)]
#[case(
    404,
    "404 page not found\n",
    "failed to call webhook: the server could not find the requested resource"
)]
#[case(
    500,
    "{\"kind\":\"Status\",\"message\":\"inner\"}",
    "failed to call webhook: inner"
)]
fn invalid_responses_are_reported(#[case] code: u16, #[case] body: &str, #[case] text: &str) {
    let reply = Reply {
        status: StatusCode::from_u16(code).unwrap(),
        content_type: "application/json".into(),
        body: body.to_owned().into(),
    };
    assert_eq!(read(false, &reply), Err(text.to_owned()));
}

#[test]
fn plain_text_errors_are_reported() {
    let reply = Reply {
        status: StatusCode::NOT_IMPLEMENTED,
        content_type: "text/plain; charset=utf-8".into(),
        body: "not \"here\"\n".into(),
    };
    assert_eq!(
        read(false, &reply).unwrap_err(),
        r#"failed to call webhook: an error on the server ("not \"here\"") has prevented the request from succeeding"#
    );
}

#[rstest]
#[case(false, json!({"patch": "W10=", "patchType": "JSONPatch"}),
    "received invalid webhook response: validating webhook may not return response.patch")]
#[case(false, json!({"patchType": "JSONPatch"}),
    "received invalid webhook response: validating webhook may not return response.patchType")]
#[case(true, json!({"patch": "W10="}),
    "received invalid webhook response: webhook returned response.patch but not response.patchType")]
#[case(true, json!({"patchType": "JSONPatch"}),
    "received invalid webhook response: webhook returned response.patchType but not response.patch")]
#[case(true, json!({"patch": "W3t9XQ==", "patchType": "Merge"}), "unsupported patch type \"Merge\"")]
fn invalid_patches_are_refused(
    #[case] mutating: bool,
    #[case] mut answer: Value,
    #[case] text: &str,
) {
    answer["allowed"] = true.into();
    assert_eq!(read(mutating, &response(&answer)), Err(text.to_owned()));
}

#[test]
fn a_patch_is_decoded() {
    let operations = json!([{"op": "remove", "path": "/x"}]);
    let answer = read(true, &response(&patched(&operations))).unwrap();
    assert_eq!(answer.verdict, Ok(operations));
    let answer = read(true, &response(&patched(&json!([])))).unwrap();
    assert_eq!(answer.verdict, Ok(Value::Null));
    for junk in ["anVuaw==", "e30="] {
        let junk = json!({"allowed": true, "patch": junk, "patchType": "JSONPatch"});
        let problem = read(true, &response(&junk)).unwrap_err();
        assert!(problem.starts_with("received undecodable patch in webhook response: "));
    }
    let broken = json!({"allowed": true, "patch": "%%%", "patchType": "JSONPatch"});
    let problem = read(true, &response(&broken)).unwrap_err();
    assert!(problem.starts_with("failed to call webhook: illegal base64 data"));
}

async fn ask(
    transport: &impl Transport,
    request: &Request<'_>,
    hook: Value,
) -> Result<(), ApiError> {
    let configurations = [configuration("c", &[hook])];
    let mut uids = || "u1".to_owned();
    validate(
        transport,
        &configurations,
        request,
        &mut uids,
        &mut Vec::new(),
    )
    .await
}

#[tokio::test]
async fn the_review_has_all_fields() {
    let fixture = TestRequest {
        old_object: Some(json!({"old": true})),
        ..TestRequest::default()
    };
    let expected = json!({
        "uid": "u1",
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "cm",
        "namespace": "a",
        "operation": "UPDATE",
        "userInfo": {"username": "kubernetes-admin",
            "groups": ["system:masters", "system:authenticated"]},
        "object": fixture.object,
        "oldObject": {"old": true},
        "dryRun": false,
        "options": fixture.options,
    });
    let transport = InProcess::default().with("h", move |request| {
        assert_eq!(request, &expected);
        json!({"allowed": true})
    });
    let request = Request {
        operation: Operation::Update,
        ..fixture.request()
    };
    assert_eq!(
        ask(&transport, &request, hook("h", &json!({}))).await,
        Ok(())
    );
    assert_eq!(transport.calls(), ["h"]);
}

#[tokio::test(start_paused = true)]
async fn slow_webhooks_time_out() {
    let fixture = TestRequest::default();
    let transport = InProcess::default();
    let started = tokio::time::Instant::now();
    let slow = hook("never", &json!({"timeoutSeconds": 3}));
    assert_eq!(
        ask(&transport, &fixture.request(), slow)
            .await
            .unwrap_err()
            .message,
        "Internal error occurred: failed calling webhook \"never\": failed to call webhook: Post \
         \"https://127.0.0.1/never?timeout=3s\": context deadline exceeded"
    );
    assert_eq!(started.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn failure_policy_ignore_admits_the_request() {
    let fixture = TestRequest::default();
    let request = fixture.request();
    let transport = InProcess::default().with("deny", |_| json!({"allowed": false}));
    let ignore = json!({"failurePolicy": "Ignore"});
    assert_eq!(
        ask(&transport, &request, hook("never", &ignore)).await,
        Ok(())
    );
    assert_eq!(
        ask(&transport, &request, hook("absent", &ignore)).await,
        Ok(())
    );
    assert!(
        ask(&transport, &request, hook("absent", &json!({})))
            .await
            .is_err()
    );
    assert!(
        ask(&transport, &request, hook("deny", &ignore))
            .await
            .is_err()
    );
}

#[rstest]
#[case("None", true)]
#[case("NoneOnDryRun", true)]
#[case("Some", false)]
#[case("Unknown", false)]
#[tokio::test]
async fn dry_run_requires_a_webhook_without_side_effects(
    #[case] side_effects: &str,
    #[case] fits: bool,
) {
    let fixture = TestRequest::default();
    let request = Request {
        dry_run: true,
        ..fixture.request()
    };
    let transport = InProcess::default().with("h", allowed);
    let more = json!({"sideEffects": side_effects, "failurePolicy": "Ignore"});
    let result = ask(&transport, &request, hook("h", &more)).await;
    if fits {
        assert_eq!(result, Ok(()));
    } else {
        let refusal = result.unwrap_err();
        assert_eq!(
            refusal.message,
            "admission webhook \"h\" does not support dry run"
        );
        assert_eq!(refusal.code, 400);
    }
}

#[rstest]
#[case(json!({"admissionReviewVersions": ["v1beta1"]}),
    "could not create admission objects: the sandbox does not support AdmissionReview v1beta1")]
#[case(json!({"admissionReviewVersions": ["v7"]}),
    "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)")]
#[case(json!({"clientConfig": {}}),
    "could not get REST client: webhook configuration must have either service or URL")]
#[case(json!({"clientConfig": {"url": "http://127.0.0.1/"}}),
    "could not get REST client: Unparsable URL: \"http://127.0.0.1/\" is not an https URL")]
#[tokio::test]
async fn unreachable_webhooks_fail_the_request(#[case] more: Value, #[case] text: &str) {
    let fixture = TestRequest::default();
    let result = ask(&InProcess::default(), &fixture.request(), hook("h", &more)).await;
    assert_eq!(
        result.unwrap_err().message,
        format!("Internal error occurred: failed calling webhook \"h\": {text}")
    );
}

#[tokio::test]
async fn services_are_called_by_their_dns_name() {
    struct FailingTransport;
    impl Transport for FailingTransport {
        async fn post(&self, endpoint: &Endpoint, _: bytes::Bytes) -> Result<Reply, String> {
            assert_eq!(
                endpoint.service,
                Some(("ns".to_owned(), "svc".to_owned(), 8443))
            );
            assert_eq!(endpoint.ca_bundle, b"pem");
            Err("called".into())
        }
    }
    let fixture = TestRequest::default();
    let more = json!({"clientConfig": {"caBundle": "cGVt",
        "service": {"namespace": "ns", "name": "svc", "port": 8443, "path": "/hook"}}});
    let result = ask(&FailingTransport, &fixture.request(), hook("h", &more)).await;
    assert_eq!(
        result.unwrap_err().message,
        "Internal error occurred: failed calling webhook \"h\": failed to call webhook: Post \
         \"https://svc.ns.svc:8443/hook?timeout=10s\": called"
    );
}
