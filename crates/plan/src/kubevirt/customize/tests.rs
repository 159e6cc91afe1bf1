//! Tests of customizations.

use api::kubevirt::install::{CustomizeComponents, CustomizePatch, Flags};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::Customizer;
use crate::kubevirt::object::Object;

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "virt-controller", "namespace": "kubevirt"},
        "spec": {
            "replicas": 2,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "template": {"spec": {
                "containers": [{
                    "name": "virt-controller",
                    "command": ["virt-controller"],
                    "args": ["--port", "8443"],
                    "env": [{"name": "A", "value": "a"}],
                    "ports": [{"containerPort": 8443, "name": "metrics"}],
                    "volumeMounts": [{"name": "certs", "mountPath": "/certs"}],
                }],
                "volumes": [{"name": "certs", "secret": {"secretName": "certs"}}],
                "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
            }},
        },
    })
}

/// A string is used as the text of the patch.
fn patch(kind: &str, name: &str, type_: &str, patch: Value) -> CustomizePatch {
    CustomizePatch {
        resource_name: name.to_owned(),
        resource_type: kind.to_owned(),
        patch: match patch {
            Value::String(text) => text,
            other => other.to_string(),
        },
        type_: type_.to_owned(),
    }
}

fn patches(patches: Vec<CustomizePatch>) -> CustomizeComponents {
    CustomizeComponents {
        patches: Some(patches),
        flags: None,
    }
}

fn applied(components: &CustomizeComponents, mut value: Value) -> Result<Value, String> {
    let id = Object::new(&value).unwrap().id;
    let customizer = Customizer::new(Some(components)).map_err(|error| error.to_string())?;
    customizer
        .apply(&id, &mut value)
        .map_err(|error| error.to_string())?;
    Ok(value)
}

#[rstest]
#[case("Deployment", "virt-controller", true)]
#[case("*", "virt-controller", true)]
#[case("Deployment", "*", true)]
#[case("*", "*", true)]
#[case("deployment", "VIRT-CONTROLLER", true)]
#[case("DEPLOYMENT", "virt-controller", true)]
#[case("DaemonSet", "virt-controller", false)]
#[case("Deployment", "virt-control", false)]
#[case("Deployment", "virt-*", false)]
fn patches_match_kind_and_name(#[case] kind: &str, #[case] name: &str, #[case] matches: bool) {
    let patched = applied(
        &patches(vec![patch(
            kind,
            name,
            "merge",
            json!({"spec": {"paused": true}}),
        )]),
        deployment(),
    );
    assert_eq!(patched.unwrap()["spec"].get("paused").is_some(), matches);
}

#[rstest]
#[case("json", json!([{"op": "add", "path": "/spec/template/spec/tolerations/-", "value": {"key": "x"}}]))]
#[case("merge", json!({"spec": {"template": {"spec": {"tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}, {"key": "x"}]}}}}))]
#[case("strategic", json!({"spec": {"template": {"spec": {"tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}, {"key": "x"}]}}}}))]
fn every_type_of_patch(#[case] type_: &str, #[case] body: Value) {
    let components = patches(vec![patch("Deployment", "virt-controller", type_, body)]);
    let patched = applied(&components, deployment()).unwrap();
    assert_eq!(
        patched["spec"]["template"]["spec"]["tolerations"],
        json!([{"key": "CriticalAddonsOnly", "operator": "Exists"}, {"key": "x"}]),
    );
}

#[test]
fn a_strategic_patch_merges_containers_and_what_is_in_them() {
    let body = json!({"spec": {
        "strategy": {"$retainKeys": ["type"], "type": "Recreate"},
        "template": {"spec": {
            "containers": [{
                "name": "virt-controller",
                "env": [{"name": "B", "value": "b"}],
                "volumeMounts": [{"mountPath": "/certs", "readOnly": true}],
            }],
            "volumes": [{"name": "certs", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}],
        }},
    }});
    let patched = applied(
        &patches(vec![patch("Deployment", "*", "strategic", body)]),
        deployment(),
    );
    let patched = patched.unwrap();
    let container = &patched["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["args"], json!(["--port", "8443"]));
    assert_eq!(
        container["volumeMounts"],
        json!([{"name": "certs", "mountPath": "/certs", "readOnly": true}])
    );
    assert_eq!(container["env"].as_array().unwrap().len(), 2);
    assert_eq!(patched["spec"]["strategy"], json!({"type": "Recreate"}));
    assert_eq!(
        patched["spec"]["template"]["spec"]["volumes"],
        json!([{"name": "certs", "emptyDir": {}}]),
    );
}

#[test]
fn patches_are_applied_in_the_order_they_are_written_in() {
    let longer = json!({"spec": {"replicas": 3, "minReadySeconds": 10}});
    let components = patches(vec![
        patch("Deployment", "*", "merge", longer),
        patch("Deployment", "*", "merge", json!({"spec": {"replicas": 4}})),
    ]);
    assert_eq!(
        applied(&components, deployment()).unwrap()["spec"]["replicas"],
        4
    );
}

#[rstest]
#[case(
    "json", json!([{"op": "remove", "path": "/spec/missing"}]),
    "spec.customizeComponents.patches[1] cannot be applied to Deployment kubevirt/virt-controller: "
)]
#[case(
    "merge", json!(["spec"]),
    "spec.customizeComponents.patches[1] cannot be applied to Deployment kubevirt/virt-controller: a merge patch must be an object"
)]
#[case(
    "strategic", json!({"spec": {"$patch": "explode"}}),
    "spec.customizeComponents.patches[1] cannot be applied to Deployment kubevirt/virt-controller: "
)]
#[case(
    "merge", json!({"metadata": {"name": "mine"}}),
    "spec.customizeComponents.patches[1] cannot be applied to Deployment kubevirt/virt-controller: metadata.name cannot be changed"
)]
#[case("yaml", json!({}), "spec.customizeComponents.patches[1]: type is \"yaml\"; it must be json, merge or strategic")]
fn a_failing_patch_is_reported_with_its_object_and_cause(
    #[case] type_: &str,
    #[case] body: Value,
    #[case] message: &str,
) {
    let components = patches(vec![
        patch("Deployment", "*", "merge", json!({"spec": {"replicas": 3}})),
        patch("Deployment", "*", type_, body),
    ]);
    let error = applied(&components, deployment()).unwrap_err();
    assert!(error.starts_with(message), "{error}");
}

#[test]
fn a_patch_that_is_not_json_is_reported_with_its_field() {
    let components = patches(vec![patch("Deployment", "*", "merge", "{spec".into())]);
    let error = applied(&components, deployment()).unwrap_err();
    assert!(
        error.starts_with("spec.customizeComponents.patches[0]: patch is not JSON: "),
        "{error}"
    );
}

/// KubeVirt issue 12983: a failed patch left an empty object.
#[test]
fn a_failing_patch_leaves_the_object_as_it_was() {
    let components = patches(vec![
        patch("Deployment", "*", "merge", json!({"spec": {"replicas": 3}})),
        patch(
            "Deployment",
            "*",
            "json",
            json!([{"op": "remove", "path": "/spec/missing"}]),
        ),
    ]);
    let mut value = deployment();
    let id = Object::new(&value).unwrap().id;
    let customizer = Customizer::new(Some(&components)).unwrap();
    assert!(customizer.apply(&id, &mut value).is_err());
    assert_eq!(value, deployment());
}

#[test]
fn kinds_that_cannot_be_customized_are_left_alone() {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"}});
    let components = patches(vec![patch("*", "*", "merge", json!({"rules": []}))]);
    assert_eq!(applied(&components, role.clone()).unwrap(), role);
    let customizer = Customizer::new(Some(&patches(vec![
        patch("ClusterRole", "a", "merge", json!({"rules": []})),
        patch("Deployment", "virt-controller", "merge", json!({})),
    ])));
    let objects = [&role, &deployment()].map(|value| Object::new(value).unwrap());
    let customizer = customizer.unwrap();
    let unused: Vec<_> = customizer.unused(&objects).collect();
    assert_eq!(unused, ["spec.customizeComponents.patches[0]"]);
}

fn flags(flags: &[(&str, &str)]) -> CustomizeComponents {
    let flags = flags
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    CustomizeComponents {
        patches: None,
        flags: Some(Flags {
            controller: Some(flags.collect()),
            ..Flags::default()
        }),
    }
}

/// KubeVirt's virt-operator converts values to lower case.
#[test]
fn flags_become_the_command_and_keep_the_case_of_values() {
    let components = flags(&[
        ("v", "5"),
        ("Feature-X", "True"),
        ("kubeconfig", "/Etc/Kube.Config"),
        ("quiet", ""),
    ]);
    let patched = applied(&components, deployment()).unwrap();
    let container = &patched["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container["command"],
        json!([
            "virt-controller",
            "--feature-x=true",
            "--kubeconfig",
            "/Etc/Kube.Config",
            "--quiet",
            "--v",
            "5"
        ]),
    );
    assert_eq!(container["args"], json!(["--port", "8443"]));
}

#[test]
fn flags_for_a_missing_container_are_refused() {
    let mut value = deployment();
    value["spec"]["template"]["spec"]["containers"][0]["name"] = "other".into();
    assert_eq!(
        applied(&flags(&[("v", "5")]), value).unwrap_err(),
        "spec.customizeComponents.flags.controller cannot be applied to Deployment \
         kubevirt/virt-controller: it has no container virt-controller",
    );
}

#[rstest]
#[case("json", json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]), true)]
#[case("json", json!([{"op": "replace", "path": "/spec/paused", "value": true}]), false)]
#[case("merge", json!({"spec": {"replicas": 5}}), true)]
#[case("strategic", json!({"spec": {"replicas": 5}}), true)]
#[case("strategic", json!({"spec": {"paused": true}}), false)]
fn detects_patches_that_set_replicas(#[case] type_: &str, #[case] body: Value, #[case] sets: bool) {
    let components = patches(vec![patch("deployment", "*", type_, body)]);
    let id = Object::new(&deployment()).unwrap().id;
    assert_eq!(
        Customizer::new(Some(&components))
            .unwrap()
            .sets_replicas(&id),
        sets
    );
}

#[test]
fn the_identifier_follows_the_customizations() {
    let identifier = |components: Option<&CustomizeComponents>| {
        Customizer::new(components).unwrap().identifier().to_owned()
    };
    let some = patches(vec![patch("*", "*", "merge", json!({}))]);
    let other = patches(vec![patch("*", "*", "merge", json!({"a": 1}))]);
    assert_eq!(identifier(Some(&some)), identifier(Some(&some)));
    assert_ne!(identifier(Some(&some)), identifier(Some(&other)));
    assert_ne!(identifier(Some(&some)), identifier(None));
    assert_eq!(identifier(None).len(), 40);
    assert_eq!(
        identifier(None),
        identifier(Some(&CustomizeComponents::default()))
    );
}

proptest! {
    #[test]
    fn no_patch_panics(type_ in "json|merge|strategic", body in r#"(\[|\{)["a-z$/:{}\[\],0-9 ]{0,40}"#) {
        let _ = applied(&patches(vec![patch("*", "*", &type_, body.into())]), deployment());
    }
}
