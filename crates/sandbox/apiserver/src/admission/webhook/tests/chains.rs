//! Chains of mutating and validating webhooks.

use serde_json::{Value, json};

use super::{InProcess, TestRequest, allowed, configuration, hook, patched};
use crate::{
    ApiError,
    admission::webhook::{Operation, Request, mutate, validate},
};

/// Applies patches that add a label.
#[expect(clippy::unnecessary_wraps, reason = "the form of what applies patches")]
fn apply(object: &Value, operations: &Value) -> Result<Value, ApiError> {
    let mut object = object.clone();
    for operation in operations.as_array().unwrap() {
        let label = operation["path"].as_str().unwrap();
        object["metadata"]["labels"][label] = operation["value"].clone();
    }
    Ok(object)
}

fn label(name: &str, value: &str) -> Value {
    patched(&json!([{"op": "add", "path": name, "value": value}]))
}

async fn run(
    transport: &InProcess,
    request: &Request<'_>,
    hooks: &[Value],
) -> Result<Option<Value>, String> {
    let mut uids = || "u1".to_owned();
    let configurations = [configuration("c", hooks)];
    let mut warnings = Vec::new();
    mutate(
        transport,
        &configurations,
        request,
        &mut apply,
        &mut uids,
        &mut warnings,
    )
    .await
    .map(|object| object.map(|object| object["metadata"]["labels"].clone()))
    .map_err(|error| error.message)
}

#[tokio::test]
async fn webhooks_receive_earlier_changes() {
    let transport = InProcess::default()
        .with("a", |_| label("a", "1"))
        .with("b", |request| {
            assert_eq!(request["object"]["metadata"]["labels"]["a"], "1");
            label("b", "2")
        });
    let selective = json!({"objectSelector": {"matchLabels": {"a": "1"}}});
    let unselected = json!({"objectSelector": {"matchLabels": {"a": "2"}}});
    let hooks = [
        hook("early", &selective),
        hook("a", &json!({})),
        hook("b", &selective),
        hook("never", &unselected),
    ];
    let fixture = TestRequest::default();
    let labels = run(&transport, &fixture.request(), &hooks).await;
    assert_eq!(labels, Ok(Some(json!({"a": "1", "b": "2"}))));
    assert_eq!(transport.calls(), ["a", "b"]);
}

#[tokio::test]
async fn object_is_unchanged_without_patches() {
    let transport = InProcess::default().with("a", allowed);
    let hooks = [hook("a", &json!({"reinvocationPolicy": "IfNeeded"}))];
    let fixture = TestRequest::default();
    assert_eq!(run(&transport, &fixture.request(), &hooks).await, Ok(None));
    assert_eq!(transport.calls(), ["a"]);
}

#[tokio::test]
async fn reinvocation_policy_if_needed_repeats_the_call() {
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let transport = InProcess::default()
        .with("once", allowed)
        .with("again", |request| {
            let labels = &request["object"]["metadata"]["labels"];
            match labels["late"].as_str() {
                Some(late) => label("seen", late),
                None => json!({"allowed": true}),
            }
        })
        .with("late", |_| label("late", "1"))
        .with("last", allowed);
    let hooks = [
        hook("once", &json!({})),
        hook("again", &again),
        hook("late", &again),
        hook("last", &again),
    ];
    let fixture = TestRequest::default();
    let labels = run(&transport, &fixture.request(), &hooks).await;
    assert_eq!(labels, Ok(Some(json!({"late": "1", "seen": "1"}))));
    // The second round makes another change, which later webhooks receive.
    assert_eq!(
        transport.calls(),
        ["once", "again", "late", "last", "again", "late", "last"]
    );
}

#[tokio::test]
async fn a_denial_ends_the_chain() {
    let transport = InProcess::default()
        .with(
            "a",
            |_| json!({"allowed": false, "status": {"message": "no"}}),
        )
        .with("b", allowed);
    let hooks = [hook("a", &json!({})), hook("b", &json!({}))];
    let fixture = TestRequest::default();
    assert_eq!(
        run(&transport, &fixture.request(), &hooks).await,
        Err("admission webhook \"a\" denied the request: no".into())
    );
    assert_eq!(transport.calls(), ["a"]);
}

#[tokio::test]
async fn deletions_cannot_be_mutated() {
    let transport = InProcess::default().with("a", |_| label("a", "1"));
    let fixture = TestRequest {
        object: None,
        old_object: TestRequest::default().object,
        ..TestRequest::default()
    };
    let request = Request {
        operation: Operation::Delete,
        ..fixture.request()
    };
    assert_eq!(
        run(&transport, &request, &[hook("a", &json!({}))]).await,
        Err(
            "Internal error occurred: admission webhook \"a\" attempted to modify the object, \
             which is not supported for this operation"
                .into()
        )
    );
}

#[tokio::test]
async fn all_validating_webhooks_are_called_and_the_first_denial_wins() {
    let deny = |message: &'static str| move |_: &Value| json!({"allowed": false, "status": {"message": message}, "warnings": [message]});
    let transport = InProcess::default()
        .with("a", |_| json!({"allowed": true, "warnings": ["careful"]}))
        .with("b", deny("first"))
        .with("c", deny("second"));
    let hooks = ["a", "b", "c"].map(|name| hook(name, &json!({})));
    let fixture = TestRequest::default();
    let mut count = 0;
    let mut uids = || {
        count += 1;
        format!("u{count}")
    };
    let mut warnings = Vec::new();
    let result = validate(
        &transport,
        &[configuration("c", &hooks)],
        &fixture.request(),
        &mut uids,
        &mut warnings,
    )
    .await;
    assert_eq!(
        result.unwrap_err().message,
        "admission webhook \"b\" denied the request: first"
    );
    assert_eq!(transport.calls(), ["a", "b", "c"]);
    assert_eq!(warnings, ["careful", "first", "second"]);
}
