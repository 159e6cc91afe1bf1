//! Tests of customized objects.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::world;

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().any(has_null),
        Value::Array(items) => items.iter().any(has_null),
        _ => false,
    }
}

fn patches(patches: &[(&str, &str, &str)]) -> Value {
    let patches: Vec<_> = patches
        .iter()
        .map(|(name, type_, patch)| {
            json!({"resourceType": "*", "resourceName": name, "type": type_, "patch": patch})
        })
        .collect();
    json!({"customizeComponents": {"patches": patches}})
}

#[test]
fn objects_have_only_owned_fields() {
    let world = world(json!({})).serves(&[
        ("security.openshift.io", "SecurityContextConstraints"),
        ("route.openshift.io", "Route"),
    ]);
    for object in world.desired().objects {
        let value = object.value();
        assert_eq!(value.get("status"), None, "{}", object.id);
        assert_eq!(
            value["metadata"].get("creationTimestamp"),
            None,
            "{}",
            object.id
        );
        assert!(!has_null(&value), "{}", object.id);
    }
}

#[test]
fn a_definition_keeps_its_spec() {
    let world = world(json!({}));
    let desired = world.desired();
    let name = "virtualmachineclusterinstancetypes.instancetype.kubevirt.io";
    let definition = desired.get("CustomResourceDefinition", name);
    let mut objects = world.strategy.objects.iter();
    let released = objects
        .find(|object| &*object.id.name == name)
        .unwrap()
        .value();
    assert_eq!(definition["spec"], released["spec"]);
    assert_eq!(
        definition["metadata"]["annotations"]["kubevirt.io/generation"],
        "7"
    );
}

/// KubeVirt issue 17768: an appending patch grew the object with every reconcile.
#[test]
fn appending_patches_are_idempotent() {
    let append = json!([
        {"op": "add", "path": "/spec/template/spec/tolerations/-", "value": {"key": "x"}},
    ]);
    let world = world(json!({"customizeComponents": {"patches": [{
        "resourceType": "Deployment",
        "resourceName": "virt-api",
        "type": "json",
        "patch": append.to_string(),
    }]}}));
    let before = world.strategy.clone();
    let first = world.desired();
    assert_eq!(first, world.desired());
    assert_eq!(world.strategy, before);
    let api = first.get("Deployment", "virt-api");
    // The release's, the patch's, and two for the control plane.
    assert_eq!(
        api["spec"]["template"]["spec"]["tolerations"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
}

#[test]
fn patches_cannot_override_the_operators_labels() {
    let unmark =
        r#"{"metadata": {"labels": null, "annotations": {"kubevirt.io/generation": "0"}}}"#;
    let api = world(patches(&[("virt-api", "merge", unmark)])).desired();
    let api = api.get("Deployment", "virt-api");
    assert_eq!(
        api["metadata"]["labels"]["app.kubernetes.io/managed-by"],
        "virt-operator"
    );
    assert_eq!(
        api["metadata"]["annotations"]["kubevirt.io/generation"],
        "7"
    );
    assert_eq!(api["metadata"]["labels"].get("kubevirt.io"), None);
}

#[test]
fn customizable_objects_have_the_identifier() {
    let desired = world(json!({})).desired();
    for object in &desired.objects {
        let value = object.value();
        let carried = value["metadata"]["annotations"].get("kubevirt.io/customizer-identifier");
        let customizable = crate::kubevirt::customize::CUSTOMIZABLE.contains(&&*object.id.kind);
        let identifier = Value::from(desired.customizer.as_str());
        assert_eq!(
            carried,
            customizable.then_some(&identifier),
            "{}",
            object.id
        );
    }
}

#[test]
fn a_failing_patch_is_reported_with_its_field() {
    let error = world(patches(&[(
        "virt-api",
        "json",
        r#"[{"op": "remove", "path": "/spec/none"}]"#,
    )]));
    let error = error.try_desired().unwrap_err().to_string();
    assert!(
        error.starts_with(
            "spec.customizeComponents.patches[0] cannot be applied to Service kubevirt/virt-api: "
        ),
        "{error}"
    );
}

#[test]
fn a_patch_that_breaks_a_workload_is_refused() {
    let broken = r#"{"spec": {"template": {"spec": "none"}}}"#;
    let spec = json!({"customizeComponents": {"patches": [{
        "resourceType": "Deployment", "resourceName": "virt-api", "type": "merge", "patch": broken,
    }]}});
    let error = world(spec).try_desired().unwrap_err().to_string();
    assert_eq!(
        error,
        "Deployment kubevirt/virt-api: spec.template.spec has the wrong type: correct the install \
         strategy, or the patch in spec.customizeComponents that changes it",
    );
}

#[test]
fn notes_patches_that_match_no_object() {
    let desired = world(patches(&[("virt-nothing", "merge", "{}")])).desired();
    assert_eq!(
        desired.notes,
        ["spec.customizeComponents.patches[0] matches no object that can be customized"],
    );
}

proptest! {
    #[test]
    fn the_same_input_gives_the_same_bytes_and_leaves_the_strategy_alone(
        replicas in 0_i64..5,
        nodes in 0_usize..50,
        name in "[a-z.-]{0,8}",
        per_node in proptest::option::of(0_i64..100),
        patch in r#"(\{|\[)["a-z/:{}\[\],0-9 ]{0,30}"#,
        type_ in "json|merge|strategic",
    ) {
        let mut spec = patches(&[("*", type_.as_str(), patch.as_str())]);
        spec["infra"] = json!({"replicas": replicas});
        spec["productName"] = name.into();
        spec["configuration"] = json!({"virtualMachineInstancesPerNode": per_node});
        let mut world = world(spec);
        world.nodes = nodes;
        let before = world.strategy.clone();
        let first = world.try_desired();
        prop_assert_eq!(&first, &world.try_desired());
        prop_assert_eq!(&world.strategy, &before);
        if let Ok(desired) = first {
            let ids: std::collections::BTreeSet<_> = desired.objects.iter().map(|object| &object.id).collect();
            prop_assert_eq!(ids.len(), desired.objects.len());
        }
    }
}
