//! Probes and metrics.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use serde_json::json;

use crate::{
    cluster::{ProcessCluster, definitions, until},
    program::Program,
};

const ALONE: (&str, &str) = ("LEADER_ELECTION", "false");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_waits_for_the_caches_and_liveness_does_not() {
    let cluster = ProcessCluster::with(Vec::new()).await;
    let endpoint = cluster.endpoint("endpoint").await;
    let program = Program::start(&endpoint, &[ALONE]);
    let missing = "not synced: machineclasses, machines, networkconfigurations\n";
    until("all else to be synced", async || {
        let page = program.probe("/readyz").await;
        assert_eq!(page.code, 500, "{}", page.body);
        page.body.contains(missing)
    })
    .await;
    assert_eq!(program.probe("/healthz").await.code, 200);

    for definition in definitions() {
        cluster.apply(definition).await;
    }
    until("readiness", async || {
        program.probe("/readyz").await.code == 200
    })
    .await;
    cluster
        .create_machine("one", json!({ "template": "small" }))
        .await;
    cluster.until_running("one").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_waits_for_an_api_server() {
    let cluster = ProcessCluster::start().await;
    let endpoint = cluster.endpoint("endpoint").await;
    endpoint.close();
    let program = Program::start(&endpoint, &[ALONE]);
    let page = program.probe("/readyz").await;
    assert_eq!(page.code, 500, "{}", page.body);
    assert_eq!(program.probe("/healthz").await.code, 200);

    let mut again = None;
    until("the port to be free again", async || {
        // The listener closes a moment after it was cancelled.
        if std::net::TcpStream::connect(endpoint.address).is_err() {
            again = Some(cluster.endpoint_at("again", endpoint.address).await);
        }
        again.is_some()
    })
    .await;
    until("readiness", async || {
        program.probe("/readyz").await.code == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "waits until an outage counts: half a minute"]
async fn readiness_follows_the_reachability_of_the_api_server() {
    let cluster = ProcessCluster::start().await;
    let endpoint = cluster.endpoint("endpoint").await;
    let program = Program::start(&endpoint, &[ALONE]);
    until("readiness", async || {
        program.probe("/readyz").await.code == 200
    })
    .await;
    endpoint.close();
    until("the end of readiness", async || {
        program.probe("/readyz").await.code == 500
    })
    .await;
    // A restart would not help, so liveness stays.
    assert_eq!(program.probe("/healthz").await.code, 200);
    let _again = cluster.endpoint_at("again", endpoint.address).await;
    until("readiness", async || {
        program.probe("/readyz").await.code == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_have_the_names_of_the_reference() {
    let cluster = ProcessCluster::start().await;
    let endpoint = cluster.endpoint("endpoint").await;
    let program = Program::start(&endpoint, &[ALONE]);
    cluster
        .create_machine("one", json!({ "template": "small" }))
        .await;
    let lost =
        json!({ "template": "small", "networks": [{ "name": "lan", "networkName": "nowhere" }] });
    cluster.create_machine("lost", lost).await;
    cluster.until_running("one").await;
    let metrics = std::cell::RefCell::new(String::new());
    until("the figures", async || {
        *metrics.borrow_mut() = program.metrics().await;
        let running = r#"kubevirt_operator_machines_total{phase="Running",template="small"} 1"#;
        metrics.borrow().contains(running)
            && metrics.borrow().contains("NetworkConfigurationNotFound")
    })
    .await;
    let metrics = metrics.into_inner();
    for name in [
        "machines_total",
        "reconciliation_duration_seconds",
        "reconciliation_errors_total",
        "virtual_machines_total",
        "storage_provisioning_duration_seconds",
        "network_configuration_errors_total",
    ] {
        let name = format!("kubevirt_operator_{name}");
        let is_there = metrics.lines().any(|line| line.starts_with(&name));
        assert!(is_there, "{name} is missing in:\n{metrics}");
    }
    check_format(&metrics);
}

/// Checks the format with promtool, where it is installed.
fn check_format(metrics: &str) {
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut promtool) = promtool else {
        let message = "the format of metrics is not checked: promtool is not on PATH";
        assert!(std::env::var_os("CI").is_none(), "{message}");
        println!("SKIPPED: {message}");
        return;
    };
    let mut input = promtool.stdin.take().unwrap();
    input.write_all(metrics.as_bytes()).unwrap();
    drop(input);
    let output = promtool.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    // 3: valid, with advice on names; the reference gives those of gauges.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{stderr}");
    for line in stderr.lines() {
        assert!(
            line.contains("_total") && line.contains("non-counter"),
            "{stderr}"
        );
    }
}
