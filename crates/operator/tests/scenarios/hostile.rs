//! Objects of the maximum size, and guests that report arbitrary data.

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
    runner::{run_scenario, run_scenario_in_sandbox},
    scenario::{Scenario, condition},
};

fn addresses(count: u32) -> Value {
    let address = |at: u32| {
        let [_, a, b, c] = at.to_be_bytes();
        format!("10.{a}.{b}.{c}")
    };
    (0..count).map(address).collect()
}

#[test]
fn a_guest_with_sixty_thousand_addresses_does_not_delay_others() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("loud", json!({ "template": "small" }))
            .await;
        scenario.until_phase("loud", "Running").await;
        let interfaces = json!([{ "name": "default", "ipAddresses": addresses(60_000) }]);
        let reported = json!({ "status": { "interfaces": interfaces } });
        scenario
            .patch("VirtualMachineInstance", "loud", reported)
            .await;
        let machine = scenario
            .until("Machine", "loud", |machine| {
                let shown = machine["status"]["ipAddresses"].as_array();
                shown.is_some_and(|shown| shown.len() > 1)
            })
            .await;
        let shown = machine["status"]["ipAddresses"].as_array().unwrap();
        assert_eq!(shown.len(), 64);
        let message = condition(&machine, "Ready")["message"].as_str().unwrap();
        assert!(message.contains("more than 64 IP addresses"), "{message}");
        scenario
            .create_machine("quiet", json!({ "template": "small" }))
            .await;
        scenario.until_phase("quiet", "Running").await;
    });
}

#[test]
fn a_slow_reconcile_is_counted() {
    run_scenario(async {
        let mut scenario = Scenario::without_operator().await;
        let readings = AtomicU32::new(0);
        let start = Instant::now();
        // Each clock reading is 30 ms after the last: a reconcile takes 30 ms.
        scenario.start_changed_operator(|operator| {
            operator.stopwatch = Arc::new(move || {
                start + Duration::from_millis(30) * readings.fetch_add(1, Ordering::Relaxed)
            });
        });
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        let slow = "slow_reconciliations_total{controller=\"Machine\"}";
        assert_eq!(scenario.metric(slow), None, "30 ms are not slow");
        scenario.stop_operator().await;

        let readings = AtomicU32::new(0);
        scenario.start_changed_operator(|operator| {
            operator.stopwatch = Arc::new(move || {
                start + Duration::from_millis(60) * readings.fetch_add(1, Ordering::Relaxed)
            });
        });
        scenario
            .patch_spec("web", json!({ "powerState": "Stopped" }))
            .await;
        scenario.until_phase("web", "Stopped").await;
        assert!(scenario.metric(slow) > Some(0.0));
    });
}

#[test]
fn large_user_data_reaches_the_guest_and_so_does_a_change_of_it() {
    run_scenario(async {
        let mut scenario = Scenario::start().await;
        let data = |word: &str| format!("#cloud-config\n# {}", word.repeat(60_000));
        let stored = |secret: &Value| {
            let stored = STANDARD.decode(secret["data"]["userdata"].as_str().unwrap());
            String::from_utf8(stored.unwrap()).unwrap()
        };
        let spec = json!({ "template": "small", "cloudInit": { "userData": data("first ") } });
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Running").await;
        let secret = scenario.get("Secret", "web-cloud-init").await;
        assert_eq!(stored(&secret), data("first "));

        // By then the guest agent has answered, too.
        scenario.wait(5).await;
        // The next operator writes nothing, and needs no reads to know that.
        scenario.stop_operator().await;
        scenario.calls.take();
        scenario.start_operator();
        scenario.wait(5).await;
        assert_eq!(scenario.writes(""), 0);

        let changed = json!({ "cloudInit": { "userData": data("second ") } });
        scenario.patch_spec("web", changed).await;
        scenario
            .until_condition("web", "RestartRequired", "True")
            .await;
        let secret = scenario.get("Secret", "web-cloud-init").await;
        assert_eq!(stored(&secret), data("second "));
    });
}

#[test]
fn a_clone_from_another_namespace_is_refused_until_allowed() {
    run_scenario(async {
        let mut scenario = Scenario::start().await;
        let source = json!({ "pvc": { "name": "gold", "namespace": "elsewhere" } });
        let disk = json!({ "name": "root", "size": "1Gi", "source": source });
        scenario
            .create_machine("web", json!({ "template": "small", "disks": [disk] }))
            .await;
        let machine = scenario.until_reason("web", "InvalidSpec").await;
        let message = condition(&machine, "Ready")["message"].as_str().unwrap();
        assert!(
            message.contains("spec.disks[0].source.pvc.namespace")
                && message.contains("CLONE_SOURCE_NAMESPACES"),
            "{message}"
        );
        assert!(scenario.list("DataVolume").await.is_empty());
        scenario.allow_clones_from("elsewhere").await;
        scenario.stop_operator().await;
        scenario.start_operator_with(|options| {
            options.clone_source_namespaces = ["elsewhere".to_owned()].into();
        });
        scenario
            .until("DataVolume", "web-root", Value::is_object)
            .await;
    });
}

#[test]
fn a_clone_refused_by_cdi_is_reported_until_the_right_is_granted() {
    run_scenario_in_sandbox("no CDI reviews who creates a DataVolume", async {
        let mut scenario = Scenario::without_operator().await;
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
        scenario.apply(gold).await;
        scenario.start_operator_with(|options| {
            options.clone_source_namespaces = ["elsewhere".to_owned()].into();
        });
        let source = json!({ "pvc": { "name": "gold", "namespace": "elsewhere" } });
        let disk = json!({ "name": "root", "size": "20Gi", "source": source });
        scenario
            .create_machine("web", json!({ "template": "small", "disks": [disk] }))
            .await;
        let machine = scenario
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
        assert!(scenario.list("DataVolume").await.is_empty());

        scenario.allow_clones_from("elsewhere").await;
        scenario.until_phase("web", "Running").await;
    });
}

#[test]
fn reserved_names_on_a_machine_do_not_reach_its_children() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let names: serde_json::Map<_, _> = api::labels::RESERVED
            .iter()
            .map(|name| ((*name).to_owned(), json!("forged")))
            .collect();
        let metadata = json!({ "name": "web", "labels": names, "annotations": names });
        let machine = json!({ "metadata": metadata, "spec": { "template": "small" } });
        scenario.create("Machine", machine).await;
        scenario.until_phase("web", "Running").await;
        for (kind, name) in [
            ("VirtualMachine", "web"),
            ("VirtualMachineInstance", "web"),
            ("PersistentVolumeClaim", "web-root"),
        ] {
            let child = scenario.get(kind, name).await;
            assert!(!child.to_string().contains("forged"), "{kind}: {child}");
        }
    });
}
