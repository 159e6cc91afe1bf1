//! Preview of an installation (`virt-operator plan`).

use std::{collections::BTreeMap, sync::Arc};

use api::Time;
use kubevirt_operator::kubevirt::{
    StrategyFile,
    preview::{Preview, PreviewRequest, preview},
};
use plan::kubevirt::{Strategy, preview::End};
use runtime::{
    client::{CallCounter, Limits, layered},
    election::Fence,
};
use serde_json::{Value, json};

use crate::{
    harness::{
        runner::run_scenario_in_sandbox,
        transcript::{compare_output, transcripts},
    },
    scenario::{InstallScenario, NAME, NAMESPACE, REGISTRY, run_scenario},
};

/// Printed preview, and the requests that it cost.
struct PlanOutput {
    preview: Preview,
    text: String,
    calls: BTreeMap<String, u64>,
}

impl PlanOutput {
    /// Position of a text in the preview.
    #[track_caller]
    fn position(&self, what: &str) -> usize {
        let position = self.text.find(what);
        position.unwrap_or_else(|| panic!("{what:?} is not in the output:\n{}", self.text))
    }
}

async fn plan(
    scenario: &InstallScenario,
    spec: Option<Value>,
    strategies: Vec<StrategyFile>,
) -> PlanOutput {
    let kubevirt = spec.map(|spec| {
        let kubevirt = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
            "metadata": { "name": NAME, "namespace": NAMESPACE }, "spec": spec,
        });
        serde_json::from_value(kubevirt).unwrap()
    });
    let counter = Arc::new(CallCounter::default());
    let client = layered(
        scenario.client.clone(),
        Fence::open(),
        Limits::UNLIMITED,
        Arc::clone(&counter) as _,
    );
    let question = PreviewRequest {
        operator: scenario.options.operator.clone(),
        strategies,
        kubevirt,
    };
    let now = Time(scenario.cluster.clock()());
    let preview = preview(client, question, now).await.unwrap();
    let mut text = anstream::StripStream::new(Vec::new());
    preview.print(&mut text).unwrap();
    let mut calls = BTreeMap::new();
    for ((verb, resource, _), count) in counter.take() {
        *calls.entry(format!("{verb} {resource}")).or_default() += count;
    }
    PlanOutput {
        text: String::from_utf8(text.into_inner()).unwrap(),
        preview,
        calls,
    }
}

fn given(version: &str) -> StrategyFile {
    let config = json!({
        "namespace": NAMESPACE, "registry": REGISTRY, "kubeVirtVersion": version,
    });
    let text = sandbox::synthetic_strategy(version, &config).unwrap();
    StrategyFile {
        version: version.to_owned(),
        strategy: Arc::new(Strategy::parse(&text).unwrap()),
    }
}

fn spec(version: &str) -> Value {
    json!({ "imageTag": version, "imageRegistry": REGISTRY })
}

#[test]
fn the_preview_on_an_empty_cluster_lists_the_installation() {
    run_scenario(async {
        let scenario = InstallScenario::without_operator(|_| {}).await;
        let output = plan(&scenario, Some(spec("v1.9.0")), vec![given("v1.9.0")]).await;
        assert!(
            output.preview.has_changes() && !output.preview.fails(),
            "{}",
            output.text
        );
        assert_eq!(output.preview.forecast.end, End::Deployed);
        assert!(output.text.starts_with(&format!(
            "KubeVirt kubevirt/kubevirt: v1.9.0 from {REGISTRY}\n  + KubeVirt kubevirt/kubevirt\n"
        )));
        let definitions =
            output.position("+ CustomResourceDefinition virtualmachines.kubevirt.io\n");
        let issued = output.position("* Secret kubevirt/kubevirt-ca: a certificate is issued");
        let api = output.position("+ Deployment kubevirt/virt-api\n");
        let handler = output.position("+ DaemonSet kubevirt/virt-handler\n");
        assert!(definitions < issued && issued < api && api < handler);
        output.position("> virt-handler: wait for the rollout to 3 nodes\n");
        // Nothing was written, and no object exists.
        let written = output.calls.keys().filter(|call| !is_read(call));
        assert_eq!(written.collect::<Vec<_>>(), [""; 0]);
        assert_eq!(scenario.find("Deployment", "virt-api").await, None);
    });
}

fn is_read(call: &str) -> bool {
    ["get ", "list ", "watch "]
        .iter()
        .any(|verb| call.starts_with(verb))
}

#[test]
fn the_preview_without_a_strategy_names_the_strategy_job() {
    run_scenario(async {
        let scenario = InstallScenario::without_operator(|_| {}).await;
        let output = plan(&scenario, Some(spec("v1.9.0")), Vec::new()).await;
        assert_eq!(output.preview.forecast.end, End::Strategy);
        output.position("+ Job kubevirt/");
        output.position("A Job writes the install strategy of the release first");
        output.position("Preflight: ");
    });
}

#[test]
fn the_preview_is_empty_when_deployed_and_lists_order_and_fields_of_an_upgrade() {
    run_scenario(async {
        let mut scenario = InstallScenario::start().await;
        scenario.install("v1.8.4").await;
        scenario.until_deployed("v1.8.4").await;
        scenario.wait(60).await;
        scenario.stop_operator().await;

        let output = plan(&scenario, None, Vec::new()).await;
        assert!(
            !output.preview.has_changes() && !output.preview.fails(),
            "{}",
            output.text
        );
        assert!(output.text.ends_with("\nNo changes.\n"), "{}", output.text);

        let output = plan(&scenario, Some(spec("v1.9.0")), vec![given("v1.9.0")]).await;
        assert!(
            output.preview.has_changes() && !output.preview.fails(),
            "{}",
            output.text
        );
        output.position("KubeVirt kubevirt/kubevirt: v1.8.4 -> v1.9.0 from");
        output.position("      spec.imageTag: v1.8.4 -> v1.9.0\n");
        let handler = output.position("~ DaemonSet kubevirt/virt-handler\n");
        let controller = output.position("~ Deployment kubevirt/virt-controller\n");
        let api = output.position("~ Deployment kubevirt/virt-api\n");
        assert!(handler < controller && controller < api, "{}", output.text);
        output.position("> virt-handler: wait for the rollout to 3 nodes, 3 replaced: a canary on one node first");
        output.position(&format!(
            "containers[virt-api].image: {REGISTRY}/virt-api:v1.8.4 -> {REGISTRY}/virt-api:v1.9.0"
        ));
        assert!(!output.text.contains("BEGIN"), "{}", output.text);
        output.position("objects: only labels and annotations of the version change\n");

        // A strategy of another release does not help.
        let output = plan(&scenario, Some(spec("v1.9.0")), vec![given("v1.8.4")]).await;
        assert!(
            output.preview.errors[0]
                .contains("is of version v1.8.4, but the KubeVirt resource asks for v1.9.0")
        );
        assert!(output.preview.fails());
    });
}

#[test]
fn the_documented_preview_of_an_upgrade_matches_the_output() {
    let reason = "the document shows the sandbox's cluster";
    run_scenario_in_sandbox(reason, async {
        let mut scenario = InstallScenario::start().await;
        scenario.install("v1.8.4").await;
        scenario.until_deployed("v1.8.4").await;
        scenario.stop_operator().await;
        let output = plan(&scenario, Some(spec("v1.9.0")), vec![given("v1.9.0")]).await;
        let file = "docs/virt-operator.md";
        let transcripts = transcripts(file);
        let documented = transcripts
            .iter()
            .find(|(command, _)| command.starts_with("kubevirt-operator virt-operator plan "));
        let (command, shown) = documented.unwrap();
        compare_output(file, (command, shown), &output.text);
    });
}

#[test]
fn reports_each_missing_permission_as_a_rule() {
    run_scenario(async {
        let scenario = InstallScenario::without_operator(|_| {}).await;
        let role = "virt-operator";
        scenario
            .patch("ClusterRole", role, json!({ "rules": [] }))
            .await;
        let output = plan(&scenario, Some(spec("v1.9.0")), vec![given("v1.9.0")]).await;
        assert!(output.preview.fails());
        output.position(
            "x the operator: it may not create, delete, get, list, patch, watch deployments.apps\n",
        );
        output.position("Add the rule {apiGroups: [\"apps\"], resources: [\"deployments\"]");
    });
}
