//! Webhook as users of kubectl observe it: `sandbox --with-webhook`.

use crate::{
    kubectl::{Kubectl, both},
    process::Sandbox,
};

/// Output of kubectl in docs/admission.md.
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
fn refusals_and_warnings_reach_the_user() {
    let sandbox = Sandbox::start(&["--with-webhook"]);
    let kubectl = Kubectl::of(&sandbox, "default");
    let broken = kubectl.file("broken.yaml", &machine("{disks: [{name: data}]}"));
    let refused = kubectl.fails(&format!("apply -f {broken}"));
    let incomplete = "{networks: [{name: lan, networkName: prod}]}";
    let incomplete = kubectl.file("incomplete.yaml", &machine(incomplete));
    let warned = both(&kubectl.run(&format!("apply -f {incomplete}")));
    let printed = format!("{refused}{warned}");
    for line in documented() {
        assert!(
            printed.lines().any(|printed| printed == line),
            "{line}\nis not in\n{printed}"
        );
    }

    let network = "apiVersion: vitistack.io/v1alpha1\nkind: NetworkConfiguration\n\
        metadata: {name: prod}\nspec: {bridge: br0}\n";
    kubectl.ok_with_input(network, "apply -f -");
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
fn webhook_validation_requires_a_running_operator() {
    let output = crate::process::run(&["sandbox", "--with-webhook", "--no-operator"]);
    assert_eq!(output.status.code(), Some(64), "{}", both(&output));
}
