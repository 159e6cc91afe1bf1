use api::Time;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Server, ServerError, Written};
use crate::Id;

fn now() -> Time {
    serde_json::from_value(json!("2026-01-02T03:04:05Z")).unwrap()
}

fn id() -> Id {
    Id::new("", "ConfigMap", "default", "web")
}

fn object(spec: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "web", "namespace": "default" }, "spec": spec,
    })
}

fn server(spec: &Value) -> Server<Value> {
    let mut server = Server::new([].into());
    server.create(&id(), object(spec), &now()).unwrap();
    server
}

fn metadata<'a>(server: &'a Server<Value>, field: &str) -> &'a Value {
    &server.get(&id()).unwrap()["metadata"][field]
}

#[test]
fn a_name_is_created_once() {
    let mut server = server(&json!({}));
    let again = server.create(&id(), object(&json!({})), &now());
    assert_eq!(again, Err(ServerError::AlreadyExists));
    assert_eq!(metadata(&server, "uid"), "simulated-1");
    assert_eq!(metadata(&server, "generation"), 1);
    assert_eq!(
        metadata(&server, "creationTimestamp"),
        "2026-01-02T03:04:05Z"
    );
}

#[rstest]
#[case::spec(json!({"spec": {"a": 2}}), "2", 2)]
#[case::status(json!({"status": {"a": 2}}), "2", 1)]
#[case::nothing(json!({"spec": {"a": 1}}), "1", 1)]
fn a_change_has_a_new_version_and_one_of_the_spec_a_new_generation(
    #[case] patch: Value,
    #[case] version: &str,
    #[case] generation: i64,
) {
    let mut server = server(&json!({"a": 1}));
    server.patch(&id(), &patch).unwrap();
    assert_eq!(metadata(&server, "resourceVersion"), version);
    assert_eq!(metadata(&server, "generation"), generation);
}

#[test]
fn writes_to_another_state_of_an_object_are_refused() {
    let mut server = server(&json!({}));
    let conflict = Err(ServerError::Conflict);
    let patch = json!({"metadata": {"resourceVersion": "0"}});
    assert_eq!(server.patch(&id(), &patch), conflict);
    assert_eq!(
        server.apply(&id(), &object(&json!({})), Some("other"), &now()),
        conflict
    );
    assert_eq!(
        server.delete(&id(), Some("other"), &now(), |_| true),
        conflict
    );
    let missing = Id::new("", "ConfigMap", "default", "db");
    let not_found = Err(ServerError::NotFound);
    assert_eq!(server.patch(&missing, &json!({})), not_found);
    assert_eq!(
        server.apply(&missing, &json!({}), Some("other"), &now()),
        not_found
    );
}

#[test]
fn an_apply_removes_what_the_last_one_had() {
    let mut server = server(&json!({"others": 1}));
    server
        .apply(&id(), &object(&json!({"a": 1, "b": 1})), None, &now())
        .unwrap();
    server
        .apply(&id(), &object(&json!({"a": 2})), None, &now())
        .unwrap();
    assert_eq!(
        server.get(&id()).unwrap()["spec"],
        json!({"others": 1, "a": 2})
    );
    assert_eq!(metadata(&server, "uid"), "simulated-1");
}

#[test]
fn defaults_are_set_with_the_apply() {
    let defaults = |value: &mut Value| value["spec"]["c"] = 3.into();
    let mut server = Server::new([].into()).with_defaults(defaults);
    let fields = object(&json!({"a": 1}));
    server.apply(&id(), &fields, None, &now()).unwrap();
    let again: Written<Value> = server.apply(&id(), &fields, None, &now()).unwrap();
    assert_eq!(again.before, again.after);
    assert_eq!(server.get(&id()).unwrap()["spec"], json!({"a": 1, "c": 3}));
}

#[test]
fn a_deleted_object_exists_until_its_finalizers_are_removed() {
    let mut server = server(&json!({}));
    let finalizers = json!({"metadata": {"finalizers": ["a", "b"]}});
    server.patch(&id(), &finalizers).unwrap();
    let terminating = server
        .delete(&id(), None, &now(), |name| name == "a")
        .unwrap();
    assert_eq!(
        terminating.after.unwrap()["metadata"]["finalizers"],
        json!(["b"])
    );
    assert_eq!(
        metadata(&server, "deletionTimestamp"),
        "2026-01-02T03:04:05Z"
    );
    let gone = server
        .patch(&id(), &json!({"metadata": {"finalizers": []}}))
        .unwrap();
    assert!(gone.before.is_some() && gone.after.is_none());
    assert_eq!(server.get(&id()), None);
}
