//! Command `virt-operator render`, with a small strategy.

use serde_json::Value;

use super::{run, run_with_input, text};

const STRATEGY: &str = "crates/plan/src/kubevirt/desired/tests/strategy.yaml";

fn render(kubevirt: &str) -> std::process::Output {
    let args = ["virt-operator", "render", "--strategy", STRATEGY, "-f", "-"];
    run_with_input(&args, kubevirt.as_bytes())
}

fn kubevirt(spec: &str) -> String {
    format!(
        "apiVersion: kubevirt.io/v1\nkind: KubeVirt\nmetadata: {{name: kubevirt}}\nspec: {spec}\n"
    )
}

#[test]
fn render_prints_the_final_objects_deterministically() {
    let spec = "{infra: {replicas: 3}, productName: cloud}";
    let output = render(&kubevirt(spec));
    assert_eq!(text(&output.stderr).matches("error:").count(), 0);
    assert!(output.status.success());
    let objects: Vec<Value> = serde_saphyr::from_multiple(text(&output.stdout)).unwrap();
    let find = |kind: &str, name: &str| {
        let mut objects = objects.iter();
        objects.find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
    };
    let api = find("Deployment", "virt-api").unwrap();
    assert_eq!(api["spec"]["replicas"], 3);
    assert_eq!(
        api["metadata"]["labels"]["app.kubernetes.io/part-of"],
        "cloud"
    );
    let budget = find("PodDisruptionBudget", "virt-api-pdb").unwrap();
    assert_eq!(budget["spec"]["minAvailable"], 2);
    let webhooks = find("ValidatingWebhookConfiguration", "virt-api-validator").unwrap();
    assert_eq!(
        webhooks["webhooks"][0]["clientConfig"].get("caBundle"),
        None
    );
    assert_eq!(render(&kubevirt(spec)).stdout, output.stdout);
}

#[test]
fn render_names_the_fields_that_the_cluster_sets() {
    let output = render(&kubevirt("{}"));
    let stderr = text(&output.stderr);
    for note in [
        "certificates are issued in the cluster: 2 Secrets and 1 ConfigMaps are not shown",
        "SecurityContextConstraints kubevirt-handler is left out: the cluster does not serve its kind",
        "the feature gate DecentralizedLiveMigration is off",
    ] {
        assert!(stderr.contains(note), "{stderr}");
    }
}

#[test]
fn a_strategy_of_another_release_is_refused() {
    let output = render(&kubevirt("{imageTag: v1.8.4}"));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"");
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains(
            "the install strategy is of version v1.9.0, but the KubeVirt resource asks for v1.8.4"
        ),
        "{stderr}"
    );
}

#[test]
fn a_failing_patch_is_reported_with_its_location() {
    let patch = "{resourceType: Deployment, resourceName: virt-api, type: json, patch: '[{\"op\": \"remove\", \"path\": \"/spec/none\"}]'}";
    let output = render(&kubevirt(&format!(
        "{{customizeComponents: {{patches: [{patch}]}}}}"
    )));
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains(
            "spec.customizeComponents.patches[0] cannot be applied to Deployment kubevirt/virt-api"
        ),
        "{stderr}"
    );
}

#[test]
fn a_document_of_another_kind_is_refused_with_its_location() {
    let output = render("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("contains 0 KubeVirt resources"));
    let output = render(&kubevirt("{infra: {replicas: many}}"));
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("stdin:1: spec.infra.replicas: "),
        "{stderr}"
    );
}

#[test]
fn unreadable_files_are_named() {
    let output = run(&[
        "virt-operator",
        "render",
        "--strategy",
        "missing.yaml",
        "-f",
        "missing.yaml",
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--strategy missing.yaml: cannot be read"));
}
