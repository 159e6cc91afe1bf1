//! What a person sees of the webhook: `sandbox --with-webhook`.

use crate::{
    kubectl::{Kubectl, both},
    process::Sandbox,
};

/// What docs/admission.md shows of kubectl's words.
fn documented() -> Vec<String> {
    let text = std::fs::read_to_string(crate::root().join("docs/admission.md")).unwrap();
    let block = text.split("```").nth(1).unwrap();
    let lines = block.lines().filter(|line| !line.is_empty());
    lines
        .filter(|line| !line.starts_with("$ "))
        .map(str::to_owned)
        .collect()
}

fn machine(spec: &str) -> String {
    format!(
        "apiVersion: vitistack.io/v1alpha1\nkind: Machine\nmetadata: {{name: web}}\nspec: {spec}\n"
    )
}

#[test]
fn a_person_is_told_what_is_refused_and_what_is_missing() {
    let sandbox = Sandbox::start(&["--with-webhook"]);
    let kubectl = Kubectl::of(&sandbox, "default");
    let broken = kubectl.file("broken.yaml", &machine("{disks: [{name: data}]}"));
    let refused = kubectl.fails(&format!("apply -f {broken}"));
    let incomplete = "{networks: [{name: lan, networkName: prod}]}";
    let incomplete = kubectl.file("incomplete.yaml", &machine(incomplete));
    let warned = both(&kubectl.run(&format!("apply -f {incomplete}")));
    let said = format!("{refused}{warned}");
    for line in documented() {
        assert!(
            said.lines().any(|said| said == line),
            "{line}\nis not in\n{said}"
        );
    }

    let network = "apiVersion: vitistack.io/v1alpha1\nkind: NetworkConfiguration\n\
        metadata: {name: prod}\nspec: {bridge: br0}\n";
    kubectl.given(network, "apply -f -");
    kubectl.ok("wait machine/web --for=condition=Ready --timeout=60s");
    let refused = kubectl.fails("delete networkconfiguration prod --timeout=60s");
    assert!(
        refused.contains("is in use by 1 Machine (web)"),
        "{refused}"
    );
    kubectl.ok("delete machine web --timeout=60s");
    kubectl.ok("delete networkconfiguration prod --timeout=60s");
}

#[test]
fn the_webhook_needs_the_operator() {
    let output = crate::process::run(&["sandbox", "--with-webhook", "--no-operator"]);
    assert_eq!(output.status.code(), Some(2), "{}", both(&output));
}
