//! Service account tokens and token reviews.

use http::{HeaderMap, header::AUTHORIZATION};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use crate::auth::{
    Authenticator, User, review,
    test_cluster::{Cluster, object},
};

const NOW: i64 = 1_700_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn cluster() -> Cluster {
    let mut pod = object("Pod", "a", "pod", "p1");
    pod["spec"] = json!({"serviceAccountName": "robot", "nodeName": "n"});
    Cluster::with([
        object("ServiceAccount", "a", "robot", "s1"),
        object("Node", "", "n", "n1"),
        pod,
    ])
}

fn authenticator() -> Authenticator {
    Authenticator::new(b"a seed")
}

fn request(spec: &Value) -> Result<Value, String> {
    let body = json!({"spec": spec});
    review::token_request(
        &authenticator(),
        &cluster(),
        ("a", "robot"),
        &body,
        at(NOW),
        "j1",
    )
    .map_err(|error| error.message)
}

fn token(spec: &Value) -> String {
    let answer = request(spec).unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

fn user_of(authorization: &str, cluster: &Cluster, now: i64) -> Result<User, u16> {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, authorization.parse().unwrap());
    authenticator()
        .authenticate(&headers, at(now), cluster)
        .map_err(|error| error.code.as_u16())
}

fn bearer(token: &str, now: i64) -> Result<User, u16> {
    user_of(&format!("Bearer {token}"), &cluster(), now)
}

#[rstest]
#[case("")]
#[case("Basic abc")]
#[case("Bearer")]
#[case("Bearer  spaced")]
fn requests_without_token_are_anonymous(#[case] header: &str) {
    assert_eq!(user_of(header, &cluster(), NOW), Ok(User::anonymous()));
}

#[test]
fn the_administrator_has_a_token() {
    let token = authenticator().admin_token().to_owned();
    assert_eq!(bearer(&token, NOW), Ok(User::admin()));
    assert_eq!(
        user_of(&format!("bEARER {token} more"), &cluster(), NOW),
        Ok(User::admin())
    );
    let other = Authenticator::new(b"another seed");
    assert_eq!(bearer(other.admin_token(), NOW), Err(401));
}

#[test]
fn token_authenticates_its_service_account() {
    let user = bearer(&token(&json!({})), NOW).unwrap();
    assert_eq!(user.name, "system:serviceaccount:a:robot");
    assert_eq!(user.uid, "s1");
    assert_eq!(
        user.groups,
        [
            "system:serviceaccounts",
            "system:serviceaccounts:a",
            "system:authenticated"
        ]
    );
    assert_eq!(
        user.extra["authentication.kubernetes.io/credential-id"],
        ["JTI=j1"]
    );
}

#[test]
fn tokens_expire() {
    let token = token(&json!({"expirationSeconds": 600}));
    assert!(bearer(&token, NOW + 600).is_ok());
    assert_eq!(bearer(&token, NOW + 661), Err(401));
    assert_eq!(bearer(&token, NOW - 61), Err(401));
}

#[test]
fn tokens_for_other_audiences_are_refused() {
    assert_eq!(bearer(&token(&json!({"audiences": ["b"]})), NOW), Err(401));
}

#[test]
fn tokens_become_invalid_with_their_service_account() {
    let header = format!("Bearer {}", token(&json!({})));
    let gone = Cluster::with([]);
    assert_eq!(user_of(&header, &gone, NOW), Err(401));
    let another = Cluster::with([object("ServiceAccount", "a", "robot", "s2")]);
    assert_eq!(user_of(&header, &another, NOW), Err(401));
    let mut deleted = object("ServiceAccount", "a", "robot", "s1");
    deleted["metadata"]["deletionTimestamp"] = at(NOW - 61).to_string().into();
    assert_eq!(user_of(&header, &Cluster::with([deleted]), NOW), Err(401));
}

#[test]
fn tokens_become_invalid_with_their_pod() {
    let spec = json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "pod"}});
    let token = token(&spec);
    let user = bearer(&token, NOW).unwrap();
    let extra = |key: &str| user.extra[&format!("authentication.kubernetes.io/{key}")].clone();
    assert_eq!(extra("pod-name"), ["pod"]);
    assert_eq!(extra("pod-uid"), ["p1"]);
    assert_eq!(extra("node-name"), ["n"]);
    assert_eq!(extra("node-uid"), ["n1"]);
    let gone = Cluster::with([object("ServiceAccount", "a", "robot", "s1")]);
    assert_eq!(user_of(&format!("Bearer {token}"), &gone, NOW), Err(401));
}

#[test]
fn tampered_tokens_are_refused() {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    let token = token(&json!({}));
    let mut parts: Vec<&str> = token.split('.').collect();
    let claims = URL_SAFE_NO_PAD.decode(parts[1]).unwrap();
    let claims = String::from_utf8(claims).unwrap().replace("robot", "admin");
    let claims = URL_SAFE_NO_PAD.encode(claims);
    parts[1] = &claims;
    assert_eq!(bearer(&parts.join("."), NOW), Err(401));
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let unsigned = format!("{none}.{}.", token.split('.').nth(1).unwrap());
    for broken in [
        &unsigned,
        &token[1..],
        &token[..token.len() - 1],
        ".",
        "..",
        "a.b.c",
    ] {
        assert_eq!(bearer(broken, NOW), Err(401), "{broken}");
    }
}

#[test]
fn token_request_returns_all_fields() {
    let mut answer = request(&json!({})).unwrap();
    answer["status"]["token"] = "".into();
    assert_eq!(
        answer,
        json!({
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": "robot", "namespace": "a", "uid": "s1",
                "creationTimestamp": "2023-11-14T22:13:20Z"},
            "spec": {"audiences": [Authenticator::ISSUER], "expirationSeconds": 3600,
                "boundObjectRef": null},
            "status": {"token": "", "expirationTimestamp": "2023-11-14T23:13:20Z"},
        })
    );
}

#[rstest]
#[case(json!({"expirationSeconds": 5}), r#"TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes"#)]
#[case(json!({"expirationSeconds": 70_000_000_000_i64}), r#"TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 70000000000: may not specify a duration larger than 2^32 seconds"#)]
#[case(json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "nopod"}}), r#"pods "nopod" not found"#)]
#[case(json!({"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}}), "cannot bind token to object of type /v1, Kind=ConfigMap")]
#[case(json!({"boundObjectRef": {"kind": "Deployment", "apiVersion": "apps/v1", "name": "x"}}), "cannot bind token to object of type apps/v1, Kind=Deployment")]
fn refuses_like_kube_apiserver(#[case] spec: Value, #[case] text: &str) {
    assert_eq!(request(&spec), Err(text.to_owned()));
}

#[rstest]
#[case(json!({"name": "other"}), r#"TokenRequest.authentication.k8s.io "robot" is invalid: metadata.name: Invalid value: "other": must match the service account name if specified"#)]
fn token_request_must_match_its_path(#[case] metadata: Value, #[case] text: &str) {
    let body = json!({"metadata": metadata});
    let (authenticator, cluster) = (authenticator(), cluster());
    let ask = |name: &str| {
        let account = ("a", name);
        review::token_request(&authenticator, &cluster, account, &body, at(NOW), "j1")
            .unwrap_err()
            .message
    };
    assert_eq!(ask("robot"), text);
    let none = review::token_request(
        &authenticator,
        &cluster,
        ("a", "nobody"),
        &json!({}),
        at(NOW),
        "j1",
    );
    assert_eq!(
        none.unwrap_err().message,
        r#"serviceaccounts "nobody" not found"#
    );
}

#[rstest]
#[case(json!([]), None)]
#[case(json!([Authenticator::ISSUER, "b"]), None)]
#[case(json!(["b"]), Some(r#"[invalid bearer token, token audiences ["https://kubernetes.default.svc.cluster.local"] is invalid for the target audiences ["b"]]"#))]
fn token_review_returns_the_user(#[case] audiences: Value, #[case] error: Option<&str>) {
    let body = json!({"spec": {"token": token(&json!({})), "audiences": audiences}});
    let answer = review::token(&authenticator(), &body, at(NOW), &cluster()).unwrap();
    let status = &answer["status"];
    match error {
        None => {
            assert_eq!(status["authenticated"], true);
            assert_eq!(status["user"]["username"], "system:serviceaccount:a:robot");
            assert_eq!(status["audiences"], json!([Authenticator::ISSUER]));
        }
        Some(error) => assert_eq!(status, &json!({"user": {}, "error": error})),
    }
}

#[test]
fn token_review_reports_invalid_tokens() {
    let review = |body: &Value| review::token(&authenticator(), body, at(NOW), &cluster());
    let answer = review(&json!({"spec": {"token": "nope"}})).unwrap();
    assert_eq!(
        answer["status"],
        json!({"user": {}, "error": "invalid bearer token"})
    );
    assert_eq!(
        review(&json!({})).unwrap_err().message,
        "token is required for TokenReview in authentication"
    );
}

#[test]
fn self_subject_review_returns_the_sender() {
    let answer = review::self_subject(&User::admin(), at(NOW));
    assert_eq!(
        answer["status"]["userInfo"],
        json!({"username": "kubernetes-admin",
            "groups": ["system:masters", "system:authenticated"]})
    );
}

#[test]
fn debug_output_contains_no_secret() {
    let authenticator = authenticator();
    assert!(!format!("{authenticator:?}").contains(authenticator.admin_token()));
}
