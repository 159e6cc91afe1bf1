use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response};
use kube::{Client, client::Body};
use proptest::prelude::*;
use tokio::time::Instant;

use super::*;
use crate::machine::Options;

/// Operator that does not run, with an API server that never answers.
fn operator() -> Operator {
    let service = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    let client = Client::new(service, "default");
    let clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
    Operator::alone(client, Options::default(), clock)
}

async fn response_to(path: &str, request: Value) -> Value {
    let operator = operator();
    let mut review = json!({ "request": request });
    review["request"]["uid"] = "7".into();
    let webhook = operator.webhook();
    let review = review.to_string();
    let mut answer = webhook.review(path, review.as_bytes()).await.unwrap();
    answer["response"].take()
}

const UNREADABLE: &str =
    "this was not checked: this version of the operator cannot decode the object";
const BUSY: &str =
    "this was not checked against the cluster: the operator is busy or shutting down";

#[tokio::test(start_paused = true)]
async fn a_review_is_answered_in_time_while_the_api_server_is_silent() {
    let cloud_init = json!({ "secretRef": { "name": "users" } });
    let object = json!({
        "apiVersion": "", "kind": "", "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "machineClass": "gold", "cloudInit": cloud_init },
    });
    let began = Instant::now();
    let request = json!({ "operation": "CREATE", "object": object });
    let response = response_to("/validate/machines", request).await;
    assert_eq!(
        response,
        json!({ "uid": "7", "allowed": true, "warnings": [BUSY] })
    );
    // The API server waits three seconds.
    assert!(
        began.elapsed() <= Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn live_reads_use_a_client_of_their_own() {
    let counting = |requests: &Arc<AtomicUsize>| {
        let requests = Arc::clone(requests);
        let service = tower::service_fn(move |_: Request<Body>| {
            requests.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<Result<Response<Body>, Infallible>>()
        });
        Client::new(service, "default")
    };
    let (own, lookups): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
    let operator = Operator {
        client: counting(&own),
        lookups: counting(&lookups),
        ..operator()
    };
    let review = json!({ "request": { "uid": "7", "operation": "CREATE", "object": {
        "apiVersion": "", "kind": "", "metadata": { "name": "web", "namespace": "shop" },
        "spec": {},
    } } });
    let review = review.to_string();
    let webhook = operator.webhook();
    let answer = webhook.review("/validate/machines", review.as_bytes());
    answer.await.unwrap();
    assert_eq!(own.load(Ordering::Relaxed), 0);
    assert_eq!(
        lookups.load(Ordering::Relaxed),
        2,
        "the name and the quotas"
    );
}

#[tokio::test(start_paused = true)]
async fn a_contradictory_spec_is_refused_while_the_api_server_is_silent() {
    let object = json!({
        "apiVersion": "", "kind": "", "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "template": "small", "machineClass": "gold" },
    });
    let request = json!({ "operation": "CREATE", "object": object });
    let response = response_to("/validate/machines", request).await;
    assert_eq!(response["allowed"], false);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_default_class_is_no_error_while_the_api_server_is_silent() {
    let object = json!({
        "apiVersion": "", "kind": "", "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "disks": [{ "name": "data", "bus": "scsi" }] },
    });
    let request = json!({ "operation": "CREATE", "object": object });
    let response = response_to("/validate/machines", request).await;
    let expected = json!({ "uid": "7", "allowed": true, "warnings": [BUSY] });
    assert_eq!(response, expected);
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_is_admitted_with_a_warning_that_does_not_quote_it() {
    let object = |user_data: Value| {
        json!({
            "apiVersion": "", "kind": "", "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "cloudInit": { "userData": user_data } },
        })
    };
    let readable = object("a".into());
    let unreadable = object(json!(["password"]));
    for (old, new) in [
        (Value::Null, &unreadable),
        (readable.clone(), &unreadable),
        (unreadable.clone(), &readable),
    ] {
        let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
        let request = json!({ "operation": operation, "object": new, "oldObject": old });
        let response = response_to("/validate/machines", request).await;
        let expected = json!({ "uid": "7", "allowed": true, "warnings": [UNREADABLE] });
        assert_eq!(response, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_with_an_unchanged_spec_is_admitted_without_warning() {
    let object = json!({ "metadata": { "name": "web" }, "spec": { "disks": 7 } });
    let request = json!({ "operation": "UPDATE", "object": object, "oldObject": object });
    let response = response_to("/validate/machines", request).await;
    assert_eq!(response, json!({ "uid": "7", "allowed": true }));
}

#[tokio::test(start_paused = true)]
async fn a_missing_spec_is_decoded_as_empty() {
    let object = json!({
        "apiVersion": "", "kind": "", "metadata": { "name": "web", "namespace": "shop" },
    });
    let mut renamed = object.clone();
    renamed["spec"] = json!({ "name": "other" });
    let request = json!({ "operation": "UPDATE", "object": renamed, "oldObject": object });
    let response = response_to("/validate/machines", request).await;
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.contains("spec.name: is immutable"), "{message}");
}

#[tokio::test]
async fn unknown_paths_are_not_answered() {
    let webhook = operator().webhook();
    for path in ["/", "/validate", "/validate/", "/validate/pods", "machines"] {
        let answer = webhook.review(path, br#"{"request":{"uid":"7"}}"#).await;
        assert_eq!(answer, Err(ReviewError::Path), "{path}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z0-9:/.]{0,8}".prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "metadata",
        "spec",
        "name",
        "namespace",
        "disks",
        "networks",
        "size",
        "macAddress",
        "networkName",
        "template",
        "machineClass",
        "cloudInit",
        "secretRef",
        "deletionTimestamp",
        "bridge",
        "cpu",
        "cores",
        "memory",
        "quantity",
        "apiVersion",
        "kind",
    ]);
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone(), inner, 0..6).prop_map(|map| {
                let map = map
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value));
                Value::Object(map.collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_review_is_answered(
        resource in prop::sample::select(vec!["machines", "machineclasses", "networkconfigurations"]),
        operation in prop::sample::select(vec!["CREATE", "UPDATE", "DELETE", "CONNECT", ""]),
        object in any_json(),
        old in any_json(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let request = json!({ "operation": operation, "object": object, "oldObject": old });
        let response = runtime.block_on(response_to(&format!("/validate/{resource}"), request));
        prop_assert!(response["allowed"].is_boolean());
    }
}
