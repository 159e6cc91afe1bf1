//! Address ledgers of Machines, and networks by NetworkNamespace.

use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::{
    runner::run_scenario_alone,
    scenario::{Scenario, condition},
};

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: networknamespaces.vitistack.io}
spec:
  group: vitistack.io
  scope: Namespaced
  names: {kind: NetworkNamespace, plural: networknamespaces, singular: networknamespace}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          x-kubernetes-preserve-unknown-fields: true
";

const FINALIZER: &str = "vitistack.io/static-ip-finalizer";

fn on_namespace(name: &str) -> Value {
    json!({ "template": "small", "network": { "networkNamespaceName": name } })
}

async fn start() -> Scenario {
    let scenario = Scenario::start().await;
    scenario.apply(DEFINITION).await;
    let namespaces = scenario.api("NetworkNamespace");
    for _ in 0..60 {
        // A kube-apiserver serves a new definition after a moment.
        if namespaces.list(&ListParams::default()).await.is_ok() {
            return scenario;
        }
        scenario.wait(1).await;
    }
    panic!("the API server does not serve NetworkNamespaces");
}

async fn write_status(scenario: &Scenario, kind: &str, name: &str, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    let api = scenario.api(kind);
    let written = api
        .patch_status(name, &PatchParams::default(), &patch)
        .await;
    written.unwrap();
}

async fn create_namespace(scenario: &Scenario, vlan: i64) {
    let object = json!({ "metadata": { "name": "tenant" }, "spec": {} });
    scenario.create("NetworkNamespace", object).await;
    write_status(
        scenario,
        "NetworkNamespace",
        "tenant",
        json!({ "vlanId": vlan }),
    )
    .await;
}

fn interface(vm: &Value) -> &Value {
    &vm["spec"]["template"]["spec"]["domain"]["devices"]["interfaces"][0]
}

#[test]
fn a_machine_waits_for_its_network_namespace_and_then_records_its_interface() {
    run_scenario_alone(&[], async {
        let scenario = start().await;
        scenario.create_machine("web", on_namespace("tenant")).await;
        let pending = scenario
            .until_condition("web", "NetworkReady", "False")
            .await;
        assert_eq!(pending["reason"], "NetworkPending");
        let machine = scenario.get("Machine", "web").await;
        assert_ne!(machine["status"]["phase"], "Failed");
        assert!(scenario.find("VirtualMachine", "web").await.is_none());
        assert!(scenario.find("NetworkConfiguration", "web").await.is_none());

        create_namespace(&scenario, 42).await;
        let machine = scenario.until_phase("web", "Running").await;
        let ledger = scenario.get("NetworkConfiguration", "web").await;
        assert_eq!(ledger["spec"]["networkNamespaceName"], "tenant");
        assert_eq!(ledger["spec"]["provider"], "kea");
        let owner = &ledger["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], machine["metadata"]["uid"]);
        let vm = scenario.get("VirtualMachine", "web").await;
        let recorded = &ledger["spec"]["networkInterfaces"];
        assert_eq!(recorded.as_array().map(Vec::len), Some(1));
        assert_eq!(recorded[0]["name"], "vlan42");
        assert_eq!(recorded[0]["macAddress"], interface(&vm)["macAddress"]);
        assert_eq!(ledger["status"], Value::Null, "it is not the operator's");
        let age = |object: &Value| {
            let version = object["metadata"]["creationTimestamp"].as_str();
            version.map(str::to_owned)
        };
        assert!(age(&ledger) <= age(&vm), "the ledger comes first");
        let definition = scenario.get("NetworkAttachmentDefinition", "vlan42").await;
        let config = definition["spec"]["config"].as_str().unwrap_or_default();
        assert!(config.contains("\"vlan\":42"), "{config}");
        assert_eq!(
            condition(&scenario.get("Machine", "web").await, "NetworkReady")["status"],
            "True"
        );
    });
}

#[test]
fn a_mac_address_outlives_the_operator_the_ledger_and_the_virtual_machine() {
    run_scenario_alone(&[], async {
        let mut scenario = start().await;
        create_namespace(&scenario, 42).await;
        scenario.create_machine("web", on_namespace("tenant")).await;
        scenario.until_phase("web", "Running").await;
        let vm = scenario.get("VirtualMachine", "web").await;
        let address = interface(&vm)["macAddress"].clone();
        assert!(address.as_str().is_some_and(|it| it.starts_with("02:")));

        scenario.stop_operator().await;
        scenario.delete("NetworkConfiguration", "web").await;
        scenario.start_operator();
        let ledger = scenario
            .until("NetworkConfiguration", "web", |it| it["spec"].is_object())
            .await;
        assert_eq!(
            ledger["spec"]["networkInterfaces"][0]["macAddress"],
            address
        );

        let uid = vm["metadata"]["uid"].clone();
        scenario.delete("VirtualMachine", "web").await;
        let vm = scenario
            .until("VirtualMachine", "web", |it| it["metadata"]["uid"] != uid)
            .await;
        assert_eq!(interface(&vm)["macAddress"], address);
    });
}

#[test]
fn an_address_in_the_ledger_reaches_the_status_and_its_writers_are_left_alone() {
    run_scenario_alone(&[], async {
        let scenario = start().await;
        create_namespace(&scenario, 42).await;
        scenario.create_machine("web", on_namespace("tenant")).await;
        scenario.until_phase("web", "Running").await;
        // The guest agent's first report is a status write of its own.
        scenario
            .until("Machine", "web", |it| {
                it["status"]["operatingSystem"].is_string()
            })
            .await;
        let finalizers = json!({ "metadata": { "finalizers": [FINALIZER] } });
        scenario
            .patch("NetworkConfiguration", "web", finalizers)
            .await;
        let status = json!({
            "phase": "Ready", "status": "Success", "message": "allocated",
            "networkInterfaces": [{ "name": "vlan42", "ipv4Addresses": ["192.0.2.10"] }],
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Configured", "message": "configured",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        });
        write_status(&scenario, "NetworkConfiguration", "web", status.clone()).await;
        scenario
            .until("Machine", "web", |machine| {
                let addresses = machine["status"]["ipAddresses"].as_array();
                addresses.is_some_and(|all| all.contains(&json!("192.0.2.10")))
            })
            .await;
        // On a busy server, the guest agent may still report interfaces.
        scenario.wait(5).await;
        let writes = scenario.writes("");
        scenario.wait_long().await;
        assert_eq!(scenario.writes(""), writes, "idle");
        let ledger = scenario.get("NetworkConfiguration", "web").await;
        assert_eq!(ledger["status"], status);
        assert_eq!(ledger["metadata"]["finalizers"], json!([FINALIZER]));

        // The allocator's finalizer keeps the ledger; the Machine does not wait for it.
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        let ledger = scenario.get("NetworkConfiguration", "web").await;
        assert!(ledger["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(ledger["metadata"]["finalizers"], json!([FINALIZER]));
    });
}

#[test]
fn a_network_of_the_machines_name_is_in_the_way_of_its_ledger() {
    run_scenario_alone(&[], async {
        let scenario = start().await;
        create_namespace(&scenario, 42).await;
        let shared = json!({ "metadata": { "name": "web" }, "spec": { "bridge": "br1" } });
        scenario.create("NetworkConfiguration", shared).await;
        scenario.create_machine("web", on_namespace("tenant")).await;
        let refused = scenario
            .until_condition("web", "NetworkReady", "False")
            .await;
        let message = refused["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("NetworkConfiguration \"web\" already exists"),
            "{message}"
        );
        assert!(scenario.find("VirtualMachine", "web").await.is_none());
        let network = scenario.get("NetworkConfiguration", "web").await;
        assert_eq!(network["spec"]["networkInterfaces"], Value::Null);

        scenario.delete("NetworkConfiguration", "web").await;
        scenario.until_phase("web", "Running").await;
        let ledger = scenario.get("NetworkConfiguration", "web").await;
        assert_eq!(ledger["spec"]["networkNamespaceName"], "tenant");
    });
}

/// The messages of the Machine's Events about repairs.
async fn repairs(scenario: &Scenario) -> Vec<String> {
    // Events are written after the objects.
    scenario.wait(2).await;
    let events = scenario.events("web").await.into_iter();
    let repairs = events.filter(|(reason, _)| reason == "DriftCorrected");
    repairs.map(|(_, message)| message).collect()
}

#[test]
fn a_ledger_that_others_change_is_restored_and_deleted_with_its_machine() {
    run_scenario_alone(&[], async {
        let mut scenario = start().await;
        create_namespace(&scenario, 42).await;
        scenario.create_machine("web", on_namespace("tenant")).await;
        scenario.until_phase("web", "Running").await;
        let whole = scenario.get("NetworkConfiguration", "web").await;
        let metadata = |object: &Value, field: &str| object["metadata"][field].clone();

        let stripped = json!({ "metadata": { "ownerReferences": [], "labels": null } });
        scenario
            .patch("NetworkConfiguration", "web", stripped.clone())
            .await;
        scenario
            .until("NetworkConfiguration", "web", |it| {
                ["ownerReferences", "labels"]
                    .iter()
                    .all(|field| metadata(it, field) == metadata(&whole, field))
            })
            .await;
        let edited = json!({ "spec": {
            "networkInterfaces": [{ "name": "vlan42", "macAddress": "02:00:00:00:00:01" }],
        } });
        scenario.patch("NetworkConfiguration", "web", edited).await;
        scenario
            .until("NetworkConfiguration", "web", |it| {
                it["spec"] == whole["spec"]
            })
            .await;
        let messages = repairs(&scenario).await.join("; ");
        for field in ["metadata.ownerReferences", "spec.networkInterfaces"] {
            assert!(messages.contains(field), "{messages}");
        }
        assert_eq!(
            condition(&scenario.get("Machine", "web").await, "NetworkReady")["status"],
            "True"
        );

        // Without an owner the garbage collector does not delete it.
        scenario.stop_operator().await;
        scenario
            .patch("NetworkConfiguration", "web", stripped)
            .await;
        scenario.delete("Machine", "web").await;
        scenario.start_operator();
        scenario.until_gone("Machine", "web").await;
        scenario.until_gone("NetworkConfiguration", "web").await;
    });
}

#[test]
fn a_changed_attachment_of_a_vlan_is_restored() {
    run_scenario_alone(&[], async {
        let scenario = start().await;
        create_namespace(&scenario, 42).await;
        scenario.create_machine("web", on_namespace("tenant")).await;
        scenario.until_phase("web", "Running").await;
        let kind = "NetworkAttachmentDefinition";
        let whole = scenario.get(kind, "vlan42").await;
        let other = json!({ "spec": { "config": "{}" } });
        scenario.patch(kind, "vlan42", other).await;
        let restored = scenario
            .until(kind, "vlan42", |it| it["spec"] == whole["spec"])
            .await;
        for field in ["uid", "labels", "ownerReferences"] {
            assert_eq!(restored["metadata"][field], whole["metadata"][field]);
        }
        let messages = repairs(&scenario).await.join("; ");
        assert!(messages.contains("spec.config"), "{messages}");

        scenario.delete(kind, "vlan42").await;
        scenario
            .until(kind, "vlan42", |it| {
                it["spec"] == whole["spec"] && it["metadata"]["uid"] != whole["metadata"]["uid"]
            })
            .await;
    });
}
