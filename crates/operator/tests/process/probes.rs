//! Probes and metrics.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use serde_json::json;

use crate::{
    ground::{Ground, definitions, until},
    program::Program,
};

const ALONE: (&str, &str) = ("LEADER_ELECTION", "false");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_waits_for_the_caches_and_liveness_does_not() {
    let ground = Ground::with(Vec::new()).await;
    let door = ground.door("door").await;
    let program = Program::start(&door, &[ALONE]);
    let missing = "not synced: machineclasses, machines, networkconfigurations\n";
    until("all else to be synced", async || {
        let page = program.probe("/readyz").await;
        assert_eq!(page.code, 500, "{}", page.body);
        page.body.contains(missing)
    })
    .await;
    assert_eq!(program.probe("/healthz").await.code, 200);

    for definition in definitions() {
        ground.apply(definition).await;
    }
    until("readiness", async || {
        program.probe("/readyz").await.code == 200
    })
    .await;
    ground.machine("one", json!({ "template": "small" })).await;
    ground.until_running("one").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_waits_for_an_api_server() {
    let ground = Ground::start().await;
    let door = ground.door("door").await;
    door.close();
    let program = Program::start(&door, &[ALONE]);
    let page = program.probe("/readyz").await;
    assert_eq!(page.code, 500, "{}", page.body);
    assert_eq!(program.probe("/healthz").await.code, 200);

    let mut again = None;
    until("the port to be free again", async || {
        // The listener goes a moment after it was told to.
        if std::net::TcpStream::connect(door.address).is_err() {
            again = Some(ground.door_at("again", door.address).await);
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
async fn readiness_ends_when_the_api_server_is_gone_and_comes_back_with_it() {
    let ground = Ground::start().await;
    let door = ground.door("door").await;
    let program = Program::start(&door, &[ALONE]);
    until("readiness", async || {
        program.probe("/readyz").await.code == 200
    })
    .await;
    door.close();
    until("the end of readiness", async || {
        program.probe("/readyz").await.code == 500
    })
    .await;
    // A restart would not help.
    assert_eq!(program.probe("/healthz").await.code, 200);
    let _again = ground.door_at("again", door.address).await;
    until("readiness", async || {
        program.probe("/readyz").await.code == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_have_the_names_of_the_reference() {
    let ground = Ground::start().await;
    let door = ground.door("door").await;
    let program = Program::start(&door, &[ALONE]);
    ground.machine("one", json!({ "template": "small" })).await;
    let lost =
        json!({ "template": "small", "networks": [{ "name": "lan", "networkName": "nowhere" }] });
    ground.machine("lost", lost).await;
    ground.until_running("one").await;
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

/// Asks the tool of those who wrote the format, where it is installed.
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
    let told = String::from_utf8_lossy(&output.stderr);
    // 3: readable, with advice on names; those of gauges are the reference's.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{told}");
    for line in told.lines() {
        assert!(
            line.contains("_total") && line.contains("non-counter"),
            "{told}"
        );
    }
}
