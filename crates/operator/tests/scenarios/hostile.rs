//! Objects that are as large as an API server stores them, and guests that report what they like.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    ground::{tell, tell_in_sandbox},
    story::{Story, condition},
};

fn addresses(count: u32) -> Value {
    let address = |at: u32| {
        let [_, a, b, c] = at.to_be_bytes();
        format!("10.{a}.{b}.{c}")
    };
    (0..count).map(address).collect()
}

#[test]
fn a_guest_that_reports_sixty_thousand_addresses_keeps_nobody_waiting() {
    tell(async {
        let story = Story::begin().await;
        story.machine("loud", json!({ "template": "small" })).await;
        story.until_phase("loud", "Running").await;
        let interfaces = json!([{ "name": "default", "ipAddresses": addresses(60_000) }]);
        let reported = json!({ "status": { "interfaces": interfaces } });
        story
            .patch("VirtualMachineInstance", "loud", reported)
            .await;
        let machine = story
            .until("Machine", "loud", |machine| {
                let shown = machine["status"]["ipAddresses"].as_array();
                shown.is_some_and(|shown| shown.len() > 1)
            })
            .await;
        let shown = machine["status"]["ipAddresses"].as_array().unwrap();
        assert_eq!(shown.len(), 64);
        let message = condition(&machine, "Ready")["message"].as_str().unwrap();
        assert!(message.contains("more than 64 IP addresses"), "{message}");
        story.machine("quiet", json!({ "template": "small" })).await;
        story.until_phase("quiet", "Running").await;
    });
}

#[test]
fn a_reconcile_that_computes_for_too_long_is_counted() {
    tell(async {
        let mut story = Story::without_operator().await;
        let readings = AtomicU32::new(0);
        let start = Instant::now();
        // Each reading is 30 ms after the last: a reconcile takes one of them.
        story.start_operator_as(|operator| {
            operator.stopwatch = Arc::new(move || {
                start + Duration::from_millis(30) * readings.fetch_add(1, Ordering::Relaxed)
            });
        });
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        let slow = "slow_reconciliations_total{controller=\"Machine\"}";
        assert_eq!(story.figure(slow), None, "30 ms are not slow");
        story.stop_operator().await;

        let readings = AtomicU32::new(0);
        story.start_operator_as(|operator| {
            operator.stopwatch = Arc::new(move || {
                start + Duration::from_millis(60) * readings.fetch_add(1, Ordering::Relaxed)
            });
        });
        story
            .change("web", json!({ "powerState": "Stopped" }))
            .await;
        story.until_phase("web", "Stopped").await;
        assert!(story.figure(slow) > Some(0.0));
    });
}

#[test]
fn large_user_data_reaches_the_guest_and_so_does_a_change_of_it() {
    tell(async {
        let mut story = Story::begin().await;
        let data = |word: &str| format!("#cloud-config\n# {}", word.repeat(60_000));
        let stored = |secret: &Value| {
            let stored = STANDARD.decode(secret["data"]["userdata"].as_str().unwrap());
            String::from_utf8(stored.unwrap()).unwrap()
        };
        let spec = json!({ "template": "small", "cloudInit": { "userData": data("first ") } });
        story.machine("web", spec).await;
        story.until_phase("web", "Running").await;
        let secret = story.get("Secret", "web-cloud-init").await;
        assert_eq!(stored(&secret), data("first "));

        // The next operator has nothing to write, and reads nothing to know that.
        story.stop_operator().await;
        story.calls.take();
        story.start_operator();
        story.wait(5).await;
        assert_eq!(story.writes(""), 0);

        let changed = json!({ "cloudInit": { "userData": data("second ") } });
        story.change("web", changed).await;
        story
            .until_condition("web", "RestartRequired", "True")
            .await;
        let secret = story.get("Secret", "web-cloud-init").await;
        assert_eq!(stored(&secret), data("second "));
    });
}

#[test]
fn a_copy_from_a_namespace_that_is_not_allowed_is_refused_until_it_is() {
    tell(async {
        let mut story = Story::begin().await;
        let source = json!({ "pvc": { "name": "gold", "namespace": "elsewhere" } });
        let disk = json!({ "name": "root", "size": "1Gi", "source": source });
        story
            .machine("web", json!({ "template": "small", "disks": [disk] }))
            .await;
        let machine = story.until_reason("web", "InvalidSpec").await;
        let message = condition(&machine, "Ready")["message"].as_str().unwrap();
        assert!(
            message.contains("spec.disks[0].source.pvc.namespace")
                && message.contains("CLONE_SOURCE_NAMESPACES"),
            "{message}"
        );
        assert!(story.list("DataVolume").await.is_empty());
        story.allow_clones_from("elsewhere").await;
        story.stop_operator().await;
        story.start_operator_with(|options| {
            options.clone_source_namespaces = ["elsewhere".to_owned()].into();
        });
        story
            .until("DataVolume", "web-root", Value::is_object)
            .await;
    });
}

#[test]
fn a_copy_that_cdi_refuses_to_the_operator_is_reported_until_the_operator_has_the_right() {
    tell_in_sandbox("no CDI reviews who creates a DataVolume", async {
        let mut story = Story::without_operator().await;
        let gold = "
apiVersion: v1
kind: Namespace
metadata: {name: elsewhere}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: gold, namespace: elsewhere}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";
        story.apply(gold).await;
        story.start_operator_with(|options| {
            options.clone_source_namespaces = ["elsewhere".to_owned()].into();
        });
        let source = json!({ "pvc": { "name": "gold", "namespace": "elsewhere" } });
        let disk = json!({ "name": "root", "size": "20Gi", "source": source });
        story
            .machine("web", json!({ "template": "small", "disks": [disk] }))
            .await;
        let machine = story
            .until("Machine", "web", |machine| {
                condition(machine, "StorageReady")["status"] == "False"
                    && machine["status"]["phase"] == "Failed"
            })
            .await;
        let message = condition(&machine, "StorageReady")["message"]
            .as_str()
            .unwrap();
        for words in [
            "DataVolume \"web-root\" was refused",
            "system:serviceaccount:kubevirt-operator-system:kubevirt-operator-controller-manager \
             has insufficient permissions in clone source namespace elsewhere",
            "create datavolumes/source",
        ] {
            assert!(message.contains(words), "{words:?} is not in {message:?}");
        }
        assert!(story.list("DataVolume").await.is_empty());

        story.allow_clones_from("elsewhere").await;
        story.until_phase("web", "Running").await;
    });
}

#[test]
fn reserved_names_on_a_machine_do_not_reach_its_children() {
    tell(async {
        let story = Story::begin().await;
        let names: serde_json::Map<_, _> = api::labels::RESERVED
            .iter()
            .map(|name| ((*name).to_owned(), json!("forged")))
            .collect();
        let metadata = json!({ "name": "web", "labels": names, "annotations": names });
        let machine = json!({ "metadata": metadata, "spec": { "template": "small" } });
        story.create("Machine", machine).await;
        story.until_phase("web", "Running").await;
        for (kind, name) in [
            ("VirtualMachine", "web"),
            ("VirtualMachineInstance", "web"),
            ("PersistentVolumeClaim", "web-root"),
        ] {
            let child = story.get(kind, name).await;
            assert!(!child.to_string().contains("forged"), "{kind}: {child}");
        }
    });
}
