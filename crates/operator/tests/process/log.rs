//! The log, and what must be in none of what the operator says.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    ground::{Ground, until},
    program::Program,
};

const ALONE: (&str, &str) = ("LEADER_ELECTION", "false");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_line_is_json_and_those_about_a_machine_say_which() {
    let ground = Ground::start().await;
    let door = ground.door("door").await;
    // Somebody else's, in the way of the second Machine.
    ground
        .apply(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": "two-root", "namespace": "default" },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "1Gi" } },
            },
        }))
        .await;
    let program = Program::start(&door, &[ALONE]);
    ground.machine("one", json!({ "template": "small" })).await;
    ground.machine("two", json!({ "template": "small" })).await;
    ground.until_running("one").await;
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
    let (_, lines) = program.ended().await;

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
async fn what_is_secret_is_in_no_line_figure_event_or_status() {
    const INLINE: &str = "#cloud-config\npassword: inline-marker-4711\n";
    const REFERRED: &str = "#cloud-config\npassword: referred-marker-4712\n";
    let ground = Ground::start().await;
    let door = ground.door("door").await;
    ground
        .apply(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "users", "namespace": "default" },
            "stringData": { "userdata": REFERRED },
        }))
        .await;
    let program = Program::start(&door, &[ALONE, ("LOG_LEVEL", "trace")]);
    let inline = json!({ "template": "small", "cloudInit": { "userData": INLINE } });
    let referred =
        json!({ "template": "small", "cloudInit": { "secretRef": { "name": "users" } } });
    ground.machine("inline", inline).await;
    ground.machine("referred", referred).await;
    ground.until_running("inline").await;
    ground.until_running("referred").await;
    let metrics = program.metrics().await;
    program.signal("TERM");
    let (_, lines) = program.ended().await;

    let secrets = ground.objects("", "Secret").await;
    let is_made =
        |secret: &&Value| secret["metadata"]["labels"]["vitistack.io/machine"] == "inline";
    assert!(
        secrets.iter().any(|secret| is_made(&secret)),
        "nothing was at stake"
    );
    let mut said = vec![lines.join("\n"), metrics];
    for (group, kind) in [("", "Event"), ("kubevirt.io", "VirtualMachine")] {
        said.extend(
            ground
                .objects(group, kind)
                .await
                .iter()
                .map(Value::to_string),
        );
    }
    for machine in ground.objects("vitistack.io", "Machine").await {
        said.push(machine["status"].to_string());
    }
    for marker in ["inline-marker-4711", "referred-marker-4712"] {
        for said in &said {
            assert!(!said.contains(marker), "{said}");
        }
    }
    for secret in [INLINE, REFERRED] {
        let encoded = STANDARD.encode(secret);
        for said in &said {
            assert!(!said.contains(&encoded), "{said}");
        }
    }
}
