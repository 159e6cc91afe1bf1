//! `kubectl apply` and `diff`, client-side and server-side.

use crate::kubectl::{Kubectl, both, is_too_old_for, strict};

const SETTINGS: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {tier: front}}
data: {colour: red, size: small}
";

#[test]
fn fields_left_out_of_an_apply_are_removed() {
    let kubectl = Kubectl::new("apply-client");
    let file = kubectl.file("one.yaml", SETTINGS);
    assert_eq!(
        kubectl.ok(&format!("apply -f {file}")),
        "configmap/settings created\n"
    );
    assert_eq!(
        kubectl.ok(&format!("apply -f {file}")),
        "configmap/settings unchanged\n"
    );
    kubectl.ok("patch configmap settings --type=merge -p '{\"data\":{\"foreign\":\"kept\"}}'");
    let file = kubectl.file("one.yaml", &SETTINGS.replace(", size: small", ""));
    let can_diff = !is_too_old_for("a diff without the paths of OpenAPI v2");
    if can_diff {
        let diff = kubectl.run(&format!("diff -f {file}"));
        assert_eq!(diff.status.code(), Some(1), "{}", both(&diff));
        assert!(both(&diff).contains("-  size: small"), "{}", both(&diff));
    }
    assert_eq!(
        kubectl.ok(&format!("apply -f {file}")),
        "configmap/settings configured\n"
    );
    assert_eq!(
        kubectl.value("configmap/settings", ".data"),
        r#"{"colour":"red","foreign":"kept"}"#
    );
    if can_diff {
        kubectl.ok(&format!("diff -f {file}"));
    }
    kubectl.ok(&format!("delete -f {file}"));
}

#[test]
fn apply_conflicts_name_the_field_manager() {
    let kubectl = Kubectl::new("apply-server");
    let file = kubectl.file("one.yaml", SETTINGS);
    let apply = format!("apply --server-side --field-manager=one -f {file}");
    assert_eq!(
        kubectl.ok(&apply),
        "configmap/settings serverside-applied\n"
    );
    let other = kubectl.file("two.yaml", &SETTINGS.replace("red", "blue"));
    let printed = kubectl.fails(&format!(
        "apply --server-side --field-manager=two -f {other}"
    ));
    assert!(
        printed.starts_with(
            "error: Apply failed with 1 conflict: conflict with \"one\": .data.colour\n"
        ),
        "{printed}"
    );
    kubectl.ok(&format!(
        "apply --server-side --field-manager=two -f {other} --force-conflicts"
    ));
    assert_eq!(kubectl.value("configmap/settings", ".data.colour"), "blue");
    // Both managers own it: it stays until both have released it.
    let less = SETTINGS.replace(", size: small", "").replace("red", "blue");
    let less = kubectl.file("less.yaml", &less);
    for (manager, size) in [("one", "small"), ("two", "")] {
        kubectl.ok(&format!(
            "apply --server-side --field-manager={manager} -f {less}"
        ));
        assert_eq!(kubectl.value("configmap/settings", ".data.size"), size);
    }
}

#[test]
fn client_side_apply_migrates_to_server_side_apply() {
    if is_too_old_for("showing managed fields") {
        return;
    }
    let kubectl = Kubectl::new("apply-migrate");
    let file = kubectl.file("one.yaml", SETTINGS);
    kubectl.ok(&format!("apply -f {file}"));
    let less = kubectl.file("less.yaml", &SETTINGS.replace(", size: small", ""));
    kubectl.ok(&format!("apply --server-side -f {less}"));
    assert_eq!(
        kubectl.value("configmap/settings", ".data"),
        r#"{"colour":"red"}"#
    );
    let managers = kubectl.ok("get configmap settings -o yaml --show-managed-fields");
    assert!(managers.contains("operation: Apply"), "{managers}");
}

#[test]
fn unknown_fields_are_reported() {
    if is_too_old_for("validation by the server") {
        return;
    }
    let kubectl = Kubectl::new("apply-unknown");
    let file = kubectl.file("one.yaml", &SETTINGS.replace("\ndata:", "\ndta:"));
    let printed = kubectl.fails(&format!("apply -f {file} {}", strict()));
    assert!(
        printed.contains("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"dta\""),
        "{printed}"
    );
    let warned = both(&kubectl.run(&format!("apply -f {file} --validate=warn")));
    assert!(
        warned.contains("Warning: unknown field \"dta\"\n"),
        "{warned}"
    );
    let machine = "apiVersion: vitistack.io/v1alpha1
kind: Machine
metadata: {name: wrong}
spec: {memry: 1Gi, template: small}
";
    let file = kubectl.file("machine.yaml", machine);
    let printed = kubectl.fails(&format!("apply -f {file} {}", strict()));
    assert!(
        printed.contains("unknown field \"spec.memry\""),
        "{printed}"
    );
    let file = kubectl.file(
        "machine.yaml",
        &machine.replace("memry: 1Gi", "powerState: Resting"),
    );
    let printed = kubectl.fails(&format!("apply -f {file}"));
    assert!(
        printed.contains("spec.powerState: Unsupported value: \"Resting\": supported values: "),
        "{printed}"
    );
}

#[test]
fn replace_replaces_the_whole_object() {
    let kubectl = Kubectl::new("apply-replace");
    let file = kubectl.file("one.yaml", SETTINGS);
    kubectl.ok(&format!("create -f {file}"));
    let uid = kubectl.value("configmap/settings", ".metadata.uid");
    let other = kubectl.file("two.yaml", &SETTINGS.replace(", size: small", ""));
    kubectl.ok(&format!("replace -f {other}"));
    assert_eq!(
        kubectl.value("configmap/settings", ".data"),
        r#"{"colour":"red"}"#
    );
    assert_eq!(kubectl.value("configmap/settings", ".metadata.uid"), uid);
    kubectl.ok(&format!("replace --force -f {file}"));
    assert_ne!(kubectl.value("configmap/settings", ".metadata.uid"), uid);
}

#[test]
fn items_of_a_list_are_applied_and_created() {
    let kubectl = Kubectl::new("apply-list");
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n- {}",
        SETTINGS.trim_end().replace('\n', "\n  ")
    );
    let file = kubectl.file("list.yaml", &list);
    for (command, printed) in [
        ("create", "created"),
        ("apply", "created"),
        ("apply --server-side", "serverside-applied"),
    ] {
        assert_eq!(
            kubectl.ok(&format!("{command} -f {file}")),
            format!("configmap/settings {printed}\n")
        );
        kubectl.ok(&format!("delete -f {file}"));
    }
    if is_too_old_for("validation by the server") {
        return;
    }
    let file = kubectl.file("list.yaml", &list.replace("\n  data:", "\n  dta:"));
    let printed = kubectl.fails(&format!("apply -f {file}"));
    assert!(printed.contains("unknown field \"dta\""), "{printed}");
}

#[test]
fn unserved_kinds_are_reported() {
    let kubectl = Kubectl::new("apply-unserved");
    let rule =
        "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: one}\n";
    let gadget = "apiVersion: vitistack.io/v1alpha1\nkind: Gadget\nmetadata: {name: one}\n";
    for (kind, version, text) in [
        ("PrometheusRule", "monitoring.coreos.com/v1", rule),
        ("Gadget", "vitistack.io/v1alpha1", gadget),
    ] {
        let file = kubectl.file("one.yaml", text);
        for command in ["create", "apply", "apply --server-side"] {
            let printed = kubectl.fails(&format!("{command} -f {file}"));
            let expected = format!("no matches for kind \"{kind}\" in version \"{version}\"");
            assert!(printed.contains(&expected), "{command}: {printed}");
        }
    }
}
