//! Dashboard: Grafana can load it, and Prometheus answers its queries.

use std::collections::BTreeSet;

use runtime::probes::{self, BindAddress, Server};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::{ProcessCluster, until},
    files::{self, dashboard, list, read, rules, text},
    program::Program,
    prometheus::Prometheus,
    sample_metrics,
};

/// Variables of the dashboard, and their values in queries.
const VARIABLES: [(&str, &str); 4] = [
    ("$namespace", ".*"),
    ("$job", ".*"),
    ("$kubevirt_namespace", ".*"),
    ("$__rate_interval", "1m"),
];

/// Panels that are empty without errors, or about the webhook, which is disabled here.
const MAY_BE_EMPTY: [&str; 3] = ["Failed requests", "Skipped", "Answers of the webhook"];

#[test]
fn the_dashboard_has_the_grafana_label_and_no_owner() {
    let config_map = read("dashboard.yaml");
    assert_eq!(
        config_map["metadata"]["name"],
        "kubevirt-operator-dashboard"
    );
    assert_eq!(config_map["metadata"]["labels"]["grafana_dashboard"], "1");
    let dashboard = dashboard();
    // Grafana assigns one on import; a fixed one would replace another dashboard.
    assert!(dashboard.get("id").is_none());
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 39);
    let variables = list(&dashboard["templating"]["list"]);
    let names: Vec<_> = variables.iter().map(|it| text(&it["name"])).collect();
    assert_eq!(
        names,
        ["datasource", "namespace", "job", "kubevirt_namespace"]
    );
    let sources = all(&dashboard, "datasource");
    assert!(!sources.is_empty());
    for source in sources {
        assert_eq!(
            source,
            json!({ "type": "prometheus", "uid": "${datasource}" })
        );
    }
}

/// Values of all fields of a name.
fn all(value: &Value, name: &str) -> Vec<Value> {
    match value {
        Value::Object(fields) => {
            let found = fields.get(name).filter(|found| found.is_object()).cloned();
            let inside = fields.values().flat_map(|field| all(field, name));
            found.into_iter().chain(inside).collect()
        }
        Value::Array(items) => items.iter().flat_map(|item| all(item, name)).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn panels_have_titles_queries_and_distinct_positions() {
    let panels = list(&dashboard()["panels"]);
    let mut ids = BTreeSet::new();
    let mut occupied = BTreeSet::new();
    for panel in &panels {
        let title = text(&panel["title"]);
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|it| panel["gridPos"][it].as_u64().unwrap());
        assert!(x + w <= 24, "{title}");
        for column in x..x + w {
            for line in y..y + h {
                assert!(occupied.insert((column, line)), "{title} lies on another");
            }
        }
    }
    for (title, queries) in files::panels() {
        assert!(!queries.is_empty(), "{title} asks for nothing");
    }
}

fn filled(query: &str) -> String {
    let mut query = query.to_owned();
    for (variable, value) in VARIABLES {
        query = query.replace(variable, value);
    }
    assert!(!query.contains('$'), "{query}");
    query
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs promtool and prometheus on PATH: .ci/run has them"]
async fn prometheus_answers_every_query_with_the_operators_metrics() {
    let cluster = ProcessCluster::start().await;
    let endpoint = cluster.endpoint("endpoint").await;
    let program = Program::start(&endpoint, &[("LEADER_ELECTION", "false")]);
    // No provisioner serves this class.
    cluster
        .apply(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": { "name": "by-hand" },
            "provisioner": "kubernetes.io/no-provisioner",
        }))
        .await;
    let waits = json!({
        "template": "small", "disks": [{ "name": "root", "storageClass": "by-hand" }],
    });
    let lost =
        json!({ "template": "small", "networks": [{ "name": "lan", "networkName": "nowhere" }] });
    cluster
        .create_machine("one", json!({ "template": "small" }))
        .await;
    cluster.create_machine("waits", waits).await;
    cluster.create_machine("lost", lost).await;
    cluster.until_running("one").await;

    let server = Server::bind(BindAddress::At(([127, 0, 0, 1], 0).into())).await;
    let server = server.unwrap().unwrap();
    let virt_operator = (
        server.local_addr().unwrap(),
        json!({ "namespace": "kubevirt", "pod": "virt-operator-0" }),
    );
    let metrics = sample_metrics::virt_operator();
    let pages = probes::metrics(move || metrics.expose());
    tokio::spawn(server.serve(pages, CancellationToken::new()));
    let machine_operator = (
        program.serving("metrics").await,
        json!({ "namespace": "kubevirt-operator-system", "pod": "manager-0" }),
    );
    let prometheus = Prometheus::start(&[machine_operator, virt_operator]).await;

    for (title, queries) in files::panels() {
        for query in queries.iter().map(|query| filled(query)) {
            // The result may be empty, but the query must be valid.
            prometheus.query(&query);
            let is_of_webhook = query.contains("kubevirt_operator_certificate_expiry");
            if !MAY_BE_EMPTY.contains(&title.as_str()) && !is_of_webhook {
                let what = format!("data in {title}: {query}");
                until(&what, async || !prometheus.query(&query).is_empty()).await;
            }
        }
    }

    for query in files::runbook_queries() {
        prometheus.query(&query);
    }

    let known = rules().len();
    until("all rules to be evaluated", async || {
        let rules = prometheus.rules();
        assert_eq!(rules.len(), known);
        rules.iter().all(|rule| rule["health"] != "unknown")
    })
    .await;
    for rule in prometheus.rules() {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    // Both operators run, and each has a leader.
    for alert in ["KubeVirtOperatorDown", "KubeVirtVirtOperatorDown"] {
        let pending = prometheus.query(&format!("ALERTS{{alertname=\"{alert}\"}}"));
        assert!(pending.is_empty(), "{pending:?}");
    }
}
