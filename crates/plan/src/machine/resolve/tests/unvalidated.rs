//! Specs that our definition refuses, and that of the Viti stack accepts: the resolver reports them.

use super::*;

fn disks(disks: Value) -> Value {
    json!({ "template": "small", "disks": disks })
}

fn user_data(from: &str, name: &str) -> Value {
    json!({ "template": "small", "cloudInit": { from: { "name": name, "key": "userdata" } } })
}

#[rstest]
#[case(disks(json!([{"name": "a", "sizeGB": 1}, {"name": "a", "sizeGB": 1}])))]
#[case(disks(json!([{"name": "a", "sizeGB": 1, "boot": true}, {"name": "b", "sizeGB": 1, "boot": true}])))]
#[case(disks(json!([{"name": "", "sizeGB": 1}])))]
#[case(disks(json!([{"name": "A", "sizeGB": 1}])))]
#[case(disks(json!([{"name": "a/../b", "sizeGB": 1}])))]
#[case(disks(json!([{"name": "cloudinitdisk", "sizeGB": 1}])))]
#[case(disks(json!([{"name": "a".repeat(64), "sizeGB": 1}])))]
#[case(disks(json!([{"name": "a"}])))]
#[case(disks(json!([{"name": "a", "sizeGB": 1, "type": "No/Class"}])))]
#[case(json!({"template": "small", "memory": 5}))]
#[case(json!({"template": "small", "memory": i64::MAX}))]
#[case(json!({"machineClass": "No Class"}))]
#[case(json!({"machineClass": "a".repeat(254)}))]
#[case(json!({"template": "small", "name": "../../secrets"}))]
#[case(user_data("userDataSecretRef", "../../../other/secrets/a"))]
#[case(user_data("userDataSecretRef", "a?watch=true"))]
#[case(user_data("userDataSecretRef", ""))]
#[case(user_data("userDataConfigMapRef", "A_B"))]
#[case(user_data("networkDataSecretRef", "a/b"))]
#[case(json!({"template": "small", "cloudInit": {"userDataBase64": "?"}}))]
fn what_no_definition_refuses_is_an_error(#[case] spec: Value) {
    let errors = errors_in(&cluster(), spec);
    assert!(!errors.is_empty());
    assert!(errors.iter().all(|error| error.path.starts_with("spec.")));
}
