//! What is told before anything is touched.

use std::{collections::BTreeMap, sync::Arc};

use api::Time;
use kubevirt_operator::kubevirt::{
    Given,
    preview::{Preview, Question, preview},
};
use plan::kubevirt::{Strategy, preview::End};
use runtime::{
    client::{CallCounter, Limits, layered},
    election::Fence,
};
use serde_json::{Value, json};

use crate::ground::{Ground, NAME, NAMESPACE, REGISTRY, tell};

/// What is told, and what was asked of the API server for it.
struct Told {
    preview: Preview,
    text: String,
    calls: BTreeMap<String, u64>,
}

impl Told {
    /// Where in the text something is told.
    #[track_caller]
    fn place(&self, what: &str) -> usize {
        let place = self.text.find(what);
        place.unwrap_or_else(|| panic!("{what:?} is not told:\n{}", self.text))
    }
}

async fn ask(ground: &Ground, spec: Option<Value>, strategies: Vec<Given>) -> Told {
    let kubevirt = spec.map(|spec| {
        let kubevirt = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
            "metadata": { "name": NAME, "namespace": NAMESPACE }, "spec": spec,
        });
        serde_json::from_value(kubevirt).unwrap()
    });
    let counter = Arc::new(CallCounter::default());
    let client = layered(
        ground.client.clone(),
        Fence::open(),
        Limits::UNLIMITED,
        Arc::clone(&counter) as _,
    );
    let question = Question {
        operator: ground.options.operator.clone(),
        strategies,
        kubevirt,
    };
    let now = Time(ground.cluster.clock()());
    let preview = preview(client, question, now).await.unwrap();
    let mut text = anstream::StripStream::new(Vec::new());
    preview.print(&mut text).unwrap();
    let mut calls = BTreeMap::new();
    for ((verb, resource, _), count) in counter.take() {
        *calls.entry(format!("{verb} {resource}")).or_default() += count;
    }
    Told {
        text: String::from_utf8(text.into_inner()).unwrap(),
        preview,
        calls,
    }
}

fn given(version: &str) -> Given {
    let config = json!({
        "namespace": NAMESPACE, "registry": REGISTRY, "kubeVirtVersion": version,
    });
    let text = sandbox::synthetic_strategy(version, &config).unwrap();
    Given {
        version: version.to_owned(),
        strategy: Arc::new(Strategy::parse(&text).unwrap()),
    }
}

fn spec(version: &str) -> Value {
    json!({ "imageTag": version, "imageRegistry": REGISTRY })
}

#[test]
fn an_installation_is_told_on_an_empty_cluster() {
    tell(async {
        let ground = Ground::without_operator(|_| {}).await;
        let told = ask(&ground, Some(spec("v1.9.0")), vec![given("v1.9.0")]).await;
        assert!(
            told.preview.has_changes() && !told.preview.fails(),
            "{}",
            told.text
        );
        assert_eq!(told.preview.forecast.end, End::Deployed);
        assert!(told.text.starts_with(&format!(
            "KubeVirt kubevirt/kubevirt: v1.9.0 from {REGISTRY}\n  + KubeVirt kubevirt/kubevirt\n"
        )));
        let definitions = told.place("+ CustomResourceDefinition virtualmachines.kubevirt.io\n");
        let issued = told.place("* Secret kubevirt/kubevirt-ca: a certificate is issued");
        let api = told.place("+ Deployment kubevirt/virt-api\n");
        let handler = told.place("+ DaemonSet kubevirt/virt-handler\n");
        assert!(definitions < issued && issued < api && api < handler);
        told.place("> virt-handler rolls out on 3 nodes, and is waited for\n");
        // Nothing was written, and nothing is there.
        let written = told.calls.keys().filter(|call| !is_read(call));
        assert_eq!(written.collect::<Vec<_>>(), [""; 0]);
        assert_eq!(ground.find("Deployment", "virt-api").await, None);
    });
}

fn is_read(call: &str) -> bool {
    ["get ", "list ", "watch "]
        .iter()
        .any(|verb| call.starts_with(verb))
}

#[test]
fn without_a_strategy_the_job_is_told_that_writes_it() {
    tell(async {
        let ground = Ground::without_operator(|_| {}).await;
        let told = ask(&ground, Some(spec("v1.9.0")), Vec::new()).await;
        assert_eq!(told.preview.forecast.end, End::Strategy);
        told.place("+ Job kubevirt/");
        told.place("A Job writes the install strategy of the release first");
        told.place("Preflight: ");
    });
}

#[test]
fn nothing_is_told_of_what_is_installed_and_an_update_with_its_order_and_its_fields() {
    tell(async {
        let mut ground = Ground::begin().await;
        ground.install("v1.8.4").await;
        ground.until_deployed("v1.8.4").await;
        ground.wait(60).await;
        ground.stop_operator().await;

        let told = ask(&ground, None, Vec::new()).await;
        assert!(
            !told.preview.has_changes() && !told.preview.fails(),
            "{}",
            told.text
        );
        assert!(
            told.text.ends_with("\nNothing would change.\n"),
            "{}",
            told.text
        );

        let told = ask(&ground, Some(spec("v1.9.0")), vec![given("v1.9.0")]).await;
        assert!(
            told.preview.has_changes() && !told.preview.fails(),
            "{}",
            told.text
        );
        told.place("KubeVirt kubevirt/kubevirt: v1.8.4 -> v1.9.0 from");
        told.place("      spec.imageTag: v1.8.4 -> v1.9.0\n");
        let handler = told.place("~ DaemonSet kubevirt/virt-handler\n");
        let controller = told.place("~ Deployment kubevirt/virt-controller\n");
        let api = told.place("~ Deployment kubevirt/virt-api\n");
        assert!(handler < controller && controller < api, "{}", told.text);
        told.place("> virt-handler rolls out on 3 nodes, 3 replaced: one node first");
        told.place(&format!(
            "containers[virt-api].image: {REGISTRY}/virt-api:v1.8.4 -> {REGISTRY}/virt-api:v1.9.0"
        ));
        assert!(!told.text.contains("BEGIN"), "{}", told.text);
        told.place("objects, of which only the marks of the version change\n");

        // A strategy of another release is of no use.
        let told = ask(&ground, Some(spec("v1.9.0")), vec![given("v1.8.4")]).await;
        assert!(told.preview.errors[0].contains("is of v1.8.4, and v1.9.0 is asked for"));
        assert!(told.preview.fails());
    });
}

#[test]
fn reports_each_missing_permission_as_a_rule() {
    tell(async {
        let ground = Ground::without_operator(|_| {}).await;
        let role = "virt-operator";
        ground
            .patch("ClusterRole", role, json!({ "rules": [] }))
            .await;
        let told = ask(&ground, Some(spec("v1.9.0")), vec![given("v1.9.0")]).await;
        assert!(told.preview.fails());
        told.place(
            "x the operator: it may not create, delete, get, list, patch, watch deployments.apps\n",
        );
        told.place("Add the rule {apiGroups: [\"apps\"], resources: [\"deployments\"]");
    });
}
