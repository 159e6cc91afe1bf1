//! Log format, and secrets that must appear in no output.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    cluster::{ProcessCluster, until},
    program::Program,
};

const ALONE: (&str, &str) = ("LEADER_ELECTION", "false");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_log_line_is_json_and_names_its_machine() {
    let cluster = ProcessCluster::start().await;
    let endpoint = cluster.endpoint("endpoint").await;
    // Foreign claim under the name that the second Machine needs.
    cluster
        .apply(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": "two-root", "namespace": "default" },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "1Gi" } },
            },
        }))
        .await;
    let program = Program::start(&endpoint, &[ALONE]);
    cluster
        .create_machine("one", json!({ "template": "small" }))
        .await;
    cluster
        .create_machine("two", json!({ "template": "small" }))
        .await;
    cluster.until_running("one").await;
    let is_warning = |line: &Value| line["level"] == "warn" && line["machine"] == "two";
    until("a warning", async || {
        program
            .lines()
            .iter()
            .map(|line| parsed(line))
            .any(|line| is_warning(&line))
    })
    .await;
    program.signal("TERM");
    let (_, lines) = program.wait_for_exit().await;

    let lines: Vec<_> = lines.iter().map(|line| parsed(line)).collect();
    for line in &lines {
        let timestamp = line["timestamp"].as_str().unwrap();
        assert!(timestamp.parse::<jiff::Timestamp>().is_ok(), "{line}");
        assert!(line["level"].is_string(), "{line}");
        assert!(line["message"].is_string(), "{line}");
    }
    let about: Vec<_> = lines
        .iter()
        .filter(|line| line.get("machine").is_some())
        .collect();
    assert!(about.iter().any(|line| line["machine"] == "one"));
    for line in about {
        assert_eq!(line["controller"], "Machine", "{line}");
        assert_eq!(line["namespace"], "default", "{line}");
        assert!(line["phase"].is_string(), "{line}");
    }
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_appear_in_no_log_metric_event_or_status() {
    const INLINE: &str = "#cloud-config\npassword: inline-marker-4711\n";
    const REFERRED: &str = "#cloud-config\npassword: referred-marker-4712\n";
    let cluster = ProcessCluster::start().await;
    let endpoint = cluster.endpoint("endpoint").await;
    cluster
        .apply(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "users", "namespace": "default" },
            "stringData": { "userdata": REFERRED },
        }))
        .await;
    let program = Program::start(&endpoint, &[ALONE, ("LOG_LEVEL", "trace")]);
    let inline = json!({ "template": "small", "cloudInit": { "userData": INLINE } });
    let referred =
        json!({ "template": "small", "cloudInit": { "secretRef": { "name": "users" } } });
    cluster.create_machine("inline", inline).await;
    cluster.create_machine("referred", referred).await;
    cluster.until_running("inline").await;
    cluster.until_running("referred").await;
    let metrics = program.metrics().await;
    program.signal("TERM");
    let (_, lines) = program.wait_for_exit().await;

    let secrets = cluster.objects("", "Secret").await;
    let is_created =
        |secret: &&Value| secret["metadata"]["labels"]["vitistack.io/machine"] == "inline";
    assert!(
        secrets.iter().any(|secret| is_created(&secret)),
        "no Secret was created, so that nothing is tested"
    );
    let mut outputs = vec![lines.join("\n"), metrics];
    for (group, kind) in [("", "Event"), ("kubevirt.io", "VirtualMachine")] {
        outputs.extend(
            cluster
                .objects(group, kind)
                .await
                .iter()
                .map(Value::to_string),
        );
    }
    for machine in cluster.objects("vitistack.io", "Machine").await {
        outputs.push(machine["status"].to_string());
    }
    for marker in ["inline-marker-4711", "referred-marker-4712"] {
        for output in &outputs {
            assert!(!output.contains(marker), "{output}");
        }
    }
    for secret in [INLINE, REFERRED] {
        let encoded = STANDARD.encode(secret);
        for output in &outputs {
            assert!(!output.contains(&encoded), "{output}");
        }
    }
}
