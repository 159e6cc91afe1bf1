//! The definitions of the Viti stack, which lack fields of this operator.

use std::{env, path::PathBuf, time::Duration};

use kube::api::{Patch, PatchParams};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    harness::own_definitions,
    runner::{Need, run_scenario_alone},
    scenario::{Scenario, condition},
};

const DEFINITION: &str = "CustomResourceDefinition";
const LEDGER: &str = "NetworkConfiguration";

/// Where the definitions come from.
#[derive(Clone, Copy)]
enum Source {
    Fixtures,
    RealData,
}

impl Source {
    fn definitions(self) -> Vec<Value> {
        match self {
            Self::Fixtures => definitions(),
            Self::RealData => {
                let data = env::var_os("KUBEVIRT_OPERATOR_DATA").map(PathBuf::from);
                let data = data.unwrap_or_else(|| {
                    panic!("KUBEVIRT_OPERATOR_DATA names the folder with the data")
                });
                let files = std::fs::read_dir(data.join("vitistack/crds")).unwrap();
                let files = files.map(|file| std::fs::read_to_string(file.unwrap().path()));
                files
                    .map(|file| serde_saphyr::from_str(&file.unwrap()).unwrap())
                    .collect()
            }
        }
    }
}

fn definitions() -> Vec<Value> {
    let fixture = include_str!("../fixtures/viti_definitions.yaml");
    serde_saphyr::from_multiple(fixture).unwrap()
}

/// Starts the operator on a cluster with these definitions.
async fn start(definitions: Vec<Value>) -> Scenario {
    let mut scenario = Scenario::without_operator_on(|setup| setup.definitions = definitions).await;
    scenario.start_operator();
    scenario
}

/// A Machine as talos-operator creates it.
fn node() -> Value {
    json!({
        "name": "ctp0", "provider": "kubevirt",
        "cpu": { "cores": 2 }, "memory": 3_i64 << 30,
        "disks": [{ "name": "disk-0", "sizeGB": 20, "boot": true }],
        "cloudInit": { "type": "noCloud" },
    })
}

async fn running() -> Scenario {
    let scenario = start(definitions()).await;
    scenario.create_machine("ctp0", node()).await;
    scenario.until_phase("ctp0", "Running").await;
    // The guest agent's first report is written, too.
    scenario.wait(60).await;
    scenario
}

/// Replaces the served definitions.
async fn redefine(scenario: &Scenario, definitions: Vec<Value>) {
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().unwrap();
        if scenario.find(DEFINITION, name).await.is_some() {
            let patch = json!({ "spec": { "versions": definition["spec"]["versions"] } });
            scenario.patch(DEFINITION, name, patch).await;
        }
    }
    // An API server serves a new schema after a moment.
    sleep(Duration::from_secs(2)).await;
}

fn unserved(scenario: &Scenario, definition: &str) -> Option<f64> {
    scenario.metric(&format!(
        "unserved_fields{{definition=\"{definition}.vitistack.io\"}}"
    ))
}

/// Asserts that an hour of resyncs causes no request.
async fn assert_idle(scenario: &Scenario) {
    scenario.calls.take();
    scenario.wait_long().await;
    let requests = scenario.calls.snapshot();
    let idle = requests.keys().all(|(verb, _, _)| *verb == "watch");
    assert!(idle, "{requests:?}");
}

/// Waits until nothing is read or written for a while: a kube-apiserver also ends the watches of a kind
/// whose definition changes.
async fn until_quiet(scenario: &Scenario) {
    let count = || -> u64 {
        let requests = scenario.calls.snapshot();
        let requests = requests.iter().filter(|((verb, ..), _)| *verb != "watch");
        requests.map(|(_, count)| count).sum()
    };
    for _ in 0..12 {
        let before = count();
        scenario.wait(5).await;
        if count() == before {
            return;
        }
    }
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn a_machine_runs_and_its_clients_can_read_it(#[case] source: Source) {
    run_scenario_alone(&[], async {
        let scenario = start(source.definitions()).await;
        scenario.create_machine("ctp0", node()).await;
        let machine = scenario.until_phase("ctp0", "Running").await;
        assert!(scenario.writes("machines/status") <= 3);
        let status = &machine["status"];
        assert_eq!(status["memory"], 3_i64 << 30);
        assert_eq!(status["cpus"], 2);
        assert_eq!(status["provider"], "kubevirt");
        assert!(status["publicIPAddresses"][0].is_string(), "{status:#}");
        let mut disks = status["disks"].as_array().unwrap().iter();
        let disk = disks.find(|disk| disk["name"] == "disk-0").unwrap();
        assert_eq!(disk["size"], 20_i64 << 30);
        assert!(disk["device"].is_string() && disk["pvcName"].is_string());
        assert!(status["networkInterfaces"][0]["type"].is_string());
        let ready = condition(&machine, "Ready");
        assert_eq!(ready["status"], "True");
        assert_eq!(ready["observedGeneration"], Value::Null);
        assert_eq!(status["observedGeneration"], Value::Null);
        assert!(unserved(&scenario, "machines") > Some(0.0));
        assert!(unserved(&scenario, "networkconfigurations") > Some(0.0));
        scenario.wait(60).await;
        assert_idle(&scenario).await;
    });
}

#[test]
fn a_machine_in_a_phase_of_another_operator_runs() {
    run_scenario_alone(&[], async {
        let mut scenario =
            Scenario::without_operator_on(|setup| setup.definitions = definitions()).await;
        scenario.create_machine("ctp0", node()).await;
        // As the Go operator may leave it: this operator has no such phase, and no such condition.
        let status = json!({
            "phase": "Stopping", "message": "stopping",
            "conditions": [{ "type": "Ready", "status": "False" }],
        });
        let patch = Patch::Merge(json!({ "status": status }));
        let machines = scenario.api("Machine");
        let params = PatchParams::default();
        let patched = machines.patch_status("ctp0", &params, &patch).await;
        patched.unwrap();
        scenario.start_operator();
        let is_ready = |machine: &Value| {
            machine["status"]["phase"] == "Running"
                && condition(machine, "Ready")["status"] == "True"
        };
        let machine = scenario.until("Machine", "ctp0", is_ready).await;
        assert!(condition(&machine, "Ready")["lastTransitionTime"].is_string());
        scenario.wait(60).await;
        assert_idle(&scenario).await;
    });
}

#[test]
fn a_restart_of_the_operator_writes_nothing() {
    run_scenario_alone(&[], async {
        let mut scenario = running().await;
        scenario.stop_operator().await;
        scenario.calls.take();
        scenario.start_operator();
        scenario.wait(5).await;
        assert_eq!(scenario.writes(""), 0, "{:?}", scenario.calls.snapshot());
        assert_idle(&scenario).await;
    });
}

#[test]
fn definitions_are_replaced_while_machines_run() {
    run_scenario_alone(&[], async {
        let scenario = running().await;
        let vm = scenario.get("VirtualMachine", "ctp0").await;
        scenario.calls.take();
        redefine(&scenario, own_definitions()).await;
        let observes = |machine: &Value| machine["status"]["observedGeneration"].is_i64();
        let machine = scenario.until("Machine", "ctp0", observes).await;
        assert_eq!(machine["status"]["memoryQuantity"], "3Gi");
        assert_eq!(unserved(&scenario, "machines"), Some(0.0));
        // A kube-apiserver refuses new fields for a moment, or drops them.
        until_quiet(&scenario).await;
        let writes = scenario.writes("");
        assert!((1..=3).contains(&writes), "{:?}", scenario.calls.snapshot());
        assert_idle(&scenario).await;

        redefine(&scenario, definitions()).await;
        scenario.wait(60).await;
        until_quiet(&scenario).await;
        assert!(unserved(&scenario, "machines") > Some(0.0));
        assert_eq!(scenario.writes(""), 0, "{:?}", scenario.calls.snapshot());
        assert_idle(&scenario).await;
        let machine = scenario.get("Machine", "ctp0").await;
        assert_eq!(machine["status"]["observedGeneration"], Value::Null);
        assert_eq!(
            scenario.get("VirtualMachine", "ctp0").await["metadata"]["uid"],
            vm["metadata"]["uid"]
        );

        // The fields that the operator owned under its own definitions do not hinder a later write.
        let before = machine["status"]["lastUpdated"].clone();
        scenario
            .patch_spec("ctp0", json!({ "cpu": { "cores": 4 } }))
            .await;
        scenario
            .until("Machine", "ctp0", |machine| {
                machine["status"]["lastUpdated"] != before
            })
            .await;
        scenario.delete("Machine", "ctp0").await;
        scenario.until_gone("Machine", "ctp0").await;
    });
}

#[test]
fn lost_data_is_reported() {
    run_scenario_alone(&[Need::Controllers], async {
        let mut scenario = running().await;
        let machine = scenario.get("Machine", "ctp0").await;
        let recorded = &machine["status"]["disks"][0];
        let claim = recorded["pvcName"].as_str().unwrap();
        let found = scenario.get("PersistentVolumeClaim", claim).await;
        assert_eq!(found["metadata"]["uid"], recorded["uuid"]);
        scenario.stop_operator().await;
        scenario.delete("VirtualMachine", "ctp0").await;
        scenario.until_gone("VirtualMachineInstance", "ctp0").await;
        scenario.delete("PersistentVolumeClaim", claim).await;
        scenario.until_gone("PersistentVolumeClaim", claim).await;
        scenario.start_operator();
        scenario.until_reason("ctp0", "DataLost").await;
        scenario.wait_long().await;
        let claim = scenario.find("PersistentVolumeClaim", claim).await;
        assert!(claim.is_none(), "no empty disk replaces it");
        let machine = scenario.get("Machine", "ctp0").await;
        assert_eq!(machine["status"]["failureReason"], "DataLost");
    });
}

#[test]
fn a_ledger_is_written_and_read() {
    run_scenario_alone(&[], async {
        let scenario = start(definitions()).await;
        let namespace = json!({
            "metadata": { "name": "tenant" },
            "spec": {
                "datacenterIdentifier": "north", "supervisorIdentifier": "one",
                "ipAllocation": { "type": "dhcp", "provider": "kea" },
            },
        });
        scenario.create("NetworkNamespace", namespace).await;
        let write = async |kind: &str, name: &str, status: Value| {
            let patch = Patch::Merge(json!({ "status": status }));
            let api = scenario.api(kind);
            let params = PatchParams::default();
            api.patch_status(name, &params, &patch).await.unwrap();
        };
        write("NetworkNamespace", "tenant", json!({ "vlanId": 42 })).await;
        let mut spec = node();
        spec["network"] = json!({ "networkNamespaceName": "tenant" });
        scenario.create_machine("ctp0", spec).await;
        scenario.until_phase("ctp0", "Running").await;
        let ledger = scenario.get(LEDGER, "ctp0").await;
        assert_eq!(ledger["spec"]["provider"], "kea");
        let interface = &ledger["spec"]["networkInterfaces"][0];
        assert_eq!(interface["name"], "vlan42");
        let allocated = json!({
            "phase": "Ready",
            "networkInterfaces": [{
                "name": "vlan42", "macAddress": interface["macAddress"],
                "ipv4Addresses": ["10.42.0.7"],
            }],
        });
        write(LEDGER, "ctp0", allocated.clone()).await;
        scenario
            .until("Machine", "ctp0", |machine| {
                let addresses = machine["status"]["publicIPAddresses"].as_array();
                addresses.is_some_and(|all| all.iter().any(|it| it == "10.42.0.7"))
            })
            .await;
        scenario.wait(60).await;
        assert_idle(&scenario).await;
        let ledger = scenario.get(LEDGER, "ctp0").await;
        assert_eq!(ledger["status"], allocated);
    });
}

#[test]
fn the_provider_is_published_once_and_restored_by_the_next_start() {
    run_scenario_alone(&[], async {
        let mut scenario = start(definitions()).await;
        let published = scenario
            .until("MachineProvider", "kubevirt", |_| true)
            .await;
        let spec = &published["spec"];
        assert_eq!(spec["providerType"], "kubevirt");
        assert_eq!(spec["displayName"], "kubevirt");
        assert_eq!(spec["region"], "unknown");
        scenario.stop_operator().await;
        let patch = json!({ "spec": { "region": "north" } });
        scenario.patch("MachineProvider", "kubevirt", patch).await;
        scenario.calls.take();
        scenario.start_operator();
        scenario.wait(5).await;
        assert_eq!(scenario.writes(""), 0, "users may set the region");
        scenario.stop_operator().await;
        assert!(scenario.find("MachineProvider", "kubevirt").await.is_some());
        let patch = json!({ "spec": { "displayName": "other" } });
        scenario.patch("MachineProvider", "kubevirt", patch).await;
        scenario.start_operator();
        let found = scenario
            .until("MachineProvider", "kubevirt", |found| {
                found["spec"]["displayName"] == "kubevirt"
            })
            .await;
        assert_eq!(found["spec"]["region"], "north");
    });
}

#[test]
fn a_provider_of_another_publisher_is_left_alone() {
    run_scenario_alone(&[], async {
        let mut scenario =
            Scenario::without_operator_on(|setup| setup.definitions = definitions()).await;
        let foreign = json!({
            "metadata": { "name": "kubevirt" },
            "spec": {
                "displayName": "East", "providerType": "kubevirt", "region": "east",
                "authentication": { "type": "credentials" },
            },
        });
        let created = scenario.create("MachineProvider", foreign).await;
        scenario.start_operator();
        scenario.until_request("get", "machineproviders").await;
        scenario.wait(60).await;
        assert_eq!(scenario.get("MachineProvider", "kubevirt").await, created);
    });
}
