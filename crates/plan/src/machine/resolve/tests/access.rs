//! Access to the guest.

use super::*;
use crate::machine::{build, cloud_init_sources};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKksNuZqJe6Z/4Yvqo6HmHvmx80Tw+5mHEAKRbDx47Ey ops@example.com";

fn user_data(spec: Value) -> String {
    let secret = build(&resolved(spec)).cloud_init.unwrap();
    String::from_utf8(secret.data["userdata"].0.clone()).unwrap()
}

fn instance(spec: Value) -> Value {
    let vm = build(&resolved(spec)).virtual_machine;
    serde_json::to_value(vm.spec.template.spec).unwrap()
}

#[test]
fn keys_alone_give_the_guest_cloud_init() {
    let spec = json!({"sshKeys": [KEY, "", format!(" {KEY}\n")]});
    let expected = format!("#cloud-config\nssh_authorized_keys:\n  - \"{KEY}\"\n");
    assert_eq!(user_data(spec.clone()), expected);
    let instance = instance(spec);
    let volume = &instance["volumes"][1];
    assert_eq!(
        volume["cloudInitNoCloud"]["secretRef"]["name"],
        "web-cloud-init"
    );
    assert_eq!(instance["accessCredentials"], Value::Null);
}

#[test]
fn keys_are_added_to_user_data() {
    let given = "#cloud-config\npackages: [curl]\n";
    let data = user_data(json!({"sshKeys": [KEY], "cloudInit": {"userData": given}}));
    assert!(data.starts_with("Content-Type: multipart/mixed"), "{data}");
    assert!(data.contains(KEY));
    let without = user_data(json!({"cloudInit": {"userData": given}}));
    assert_eq!(without, given);
}

#[test]
fn keys_beside_network_data_get_user_data() {
    let spec = json!({"sshKeys": [KEY], "cloudInit": {"networkData": "version: 2"}});
    assert!(user_data(spec).contains(KEY));
}

#[test]
fn keys_are_not_added_to_data_of_other_programs() {
    let spec = json!({"sshKeys": [KEY], "cloudInit": {"userData": "version: v1alpha1\n"}});
    let resolution = resolve(&machine(spec), &cluster()).unwrap();
    assert_eq!(resolution.notes[0].path, "spec.sshKeys");
    let secret = build(&resolution.machine).cloud_init.unwrap();
    assert_eq!(secret.data["userdata"].0, b"version: v1alpha1\n");
}

#[rstest]
#[case(json!({"sshKeys": [KEY, "k"]}), "spec.sshKeys[1]")]
#[case(json!({"sshKeys": ["-----BEGIN OPENSSH PRIVATE KEY-----"]}), "spec.sshKeys[0]")]
#[case(json!({"sshKeySecrets": [{"name": "a.b"}]}), "spec.sshKeySecrets[0].name")]
#[case(json!({"sshKeySecrets": [{"name": "a".repeat(52)}]}), "spec.sshKeySecrets[0].name")]
#[case(json!({"sshKeySecrets": [{"name": "gone"}]}), "spec.sshKeySecrets[0].name")]
#[case(json!({"hostname": "Web_1"}), "spec.hostname")]
#[case(json!({"hostname": "a.b"}), "spec.hostname")]
fn what_cannot_work_is_an_error(#[case] spec: Value, #[case] path: &str) {
    assert_eq!(error(spec), (ErrorType::InvalidSpec, path.to_owned()));
}

#[test]
fn keys_of_a_secret_reach_the_guest_through_kubevirt() {
    let spec = json!({"sshKeySecrets": [{"name": "bootstrap"}]});
    let read: Vec<_> = cloud_init_sources(&machine(spec.clone()))
        .map(|it| it.name.to_owned())
        .collect();
    assert_eq!(read, ["bootstrap"]);
    let secret = json!({"secret": {"secretName": "bootstrap"}});
    let expected =
        |method: Value| json!([{"sshPublicKey": {"source": secret, "propagationMethod": method}}]);
    let no_cloud = instance(spec.clone());
    assert_eq!(
        no_cloud["accessCredentials"],
        expected(json!({"noCloud": {}}))
    );
    assert!(no_cloud["volumes"][1]["cloudInitNoCloud"].is_object());

    let mut drive = spec;
    drive["cloudInit"] = json!({"type": "configDrive"});
    let drive = instance(drive);
    assert_eq!(
        drive["accessCredentials"],
        expected(json!({"configDrive": {}}))
    );

    let users = json!({"sshKeySecrets": [{"name": "bootstrap", "users": ["ops"]}]});
    let agent = instance(users);
    let method = json!({"qemuGuestAgent": {"users": ["ops"]}});
    assert_eq!(agent["accessCredentials"], expected(method));
    assert_eq!(
        agent["volumes"].as_array().unwrap().len(),
        1,
        "no cloud-init is needed"
    );
}

#[test]
fn the_host_name_and_the_console_log_are_kubevirts() {
    let instance = instance(json!({"hostname": "db-1", "serialConsoleLog": true}));
    assert_eq!(instance["hostname"], "db-1");
    assert_eq!(instance["domain"]["devices"]["logSerialConsole"], true);
}
