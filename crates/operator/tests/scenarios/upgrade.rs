//! Upgrades of fleets that an earlier version made, and the way back.
//!
//! A folder of tests/fixtures/fleets has the definitions of an earlier version and the objects that it had
//! stored in a sandbox, without what other controllers and the API server add. They are created again as
//! that version wrote them: by the same field manager, and with the UIDs of the new cluster and digests of
//! these. The digests are computed as that version did: if the new version computed them differently, it
//! would write VirtualMachines, and the test fails.

use std::{collections::BTreeMap, path::Path, time::Duration};

use api::{Machine, labels};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::api::{Patch, PatchParams, PostParams};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;

use crate::{
    harness::own_definitions,
    runner::run_scenario_alone,
    scenario::{Scenario, condition},
};

const MANAGER: &str = "kubevirt-operator";

/// A fleet of an earlier version.
struct Fleet {
    definitions: Vec<Value>,
    objects: Vec<Value>,
}

impl Fleet {
    fn read(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fleets");
        let read = |file: &str| std::fs::read_to_string(folder.join(name).join(file)).unwrap();
        Self {
            definitions: serde_saphyr::from_multiple(&read("definitions.yaml")).unwrap(),
            objects: serde_json::from_str(&read("objects.json")).unwrap(),
        }
    }

    /// Starts a cluster with the earlier definitions and the fleet, without an operator.
    async fn start(&self) -> Scenario {
        let definitions = self.definitions.clone();
        let scenario = Scenario::without_operator_on(|setup| setup.definitions = definitions).await;
        let mut uids = BTreeMap::new();
        for object in &self.objects {
            self.create(&scenario, object, &mut uids).await;
        }
        for object in &self.objects {
            self.until_settled(&scenario, object).await;
        }
        for object in &self.objects {
            self.write_status(&scenario, &renamed(object, &uids)).await;
        }
        scenario
    }

    /// Creates an object. Owners precede what they own.
    async fn create(
        &self,
        scenario: &Scenario,
        object: &Value,
        uids: &mut BTreeMap<String, String>,
    ) {
        let (kind, name) = identity(object);
        assert_eq!(
            &sealed(object.clone()),
            object,
            "the digests of {kind} {name}"
        );
        let mut new = sealed(renamed(object, uids));
        if kind == "Secret" {
            let digest = |secret: &Value| {
                let annotations = &secret["metadata"]["annotations"];
                annotations[labels::CLOUD_INIT].as_str().unwrap().to_owned()
            };
            uids.insert(digest(object), digest(&new));
        }
        let metadata = new["metadata"].as_object_mut().unwrap();
        let uid = metadata.remove("uid").unwrap();
        let finalizers = metadata.remove("finalizers");
        new.as_object_mut().unwrap().remove("status");
        let manager = if is_of_users(kind) {
            "kubectl"
        } else {
            MANAGER
        };
        let params = PostParams {
            field_manager: Some(manager.to_owned()),
            ..PostParams::default()
        };
        let new = serde_json::from_value(new).unwrap();
        let created = scenario.api(kind).create(&params, &new).await.unwrap();
        let old = uid.as_str().unwrap().to_owned();
        uids.insert(old, created.metadata.uid.unwrap());
        if let Some(finalizers) = finalizers {
            let body = json!({ "metadata": { "finalizers": finalizers } });
            let body = with_type(object, body);
            let params = PatchParams::apply(MANAGER);
            let applied = scenario.api(kind);
            let applied = applied.patch(name, &params, &Patch::Apply(body)).await;
            applied.unwrap();
        }
    }

    /// Waits until a claim is bound and a guest runs.
    async fn until_settled(&self, scenario: &Scenario, object: &Value) {
        let (kind, name) = identity(object);
        match kind {
            "PersistentVolumeClaim" => {
                let is_bound = |claim: &Value| claim["status"]["phase"] == "Bound";
                scenario.until(kind, name, is_bound).await;
            }
            "VirtualMachine" if object["spec"]["runStrategy"] == "Always" => {
                let connected = |vmi: &Value| condition(vmi, "AgentConnected")["status"] == "True";
                let instance = "VirtualMachineInstance";
                scenario.until(instance, name, connected).await;
            }
            _ => {}
        }
    }

    /// Writes a status as the earlier version does.
    async fn write_status(&self, scenario: &Scenario, object: &Value) {
        if let Some(status) = object.get("status") {
            let (kind, name) = identity(object);
            let body = with_type(object, json!({ "status": status }));
            let params = PatchParams::apply(MANAGER).force();
            let api = scenario.api(kind);
            let written = api.patch_status(name, &params, &Patch::Apply(body)).await;
            written.unwrap();
        }
    }

    fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects
            .iter()
            .filter(move |object| object["kind"] == kind)
    }
}

fn is_of_users(kind: &str) -> bool {
    ["Machine", "MachineClass", "NetworkConfiguration"].contains(&kind)
}

fn identity(object: &Value) -> (&str, &str) {
    let kind = object["kind"].as_str().unwrap();
    (kind, object["metadata"]["name"].as_str().unwrap())
}

fn with_type(object: &Value, mut body: Value) -> Value {
    body["apiVersion"] = object["apiVersion"].clone();
    body["kind"] = object["kind"].clone();
    body
}

/// An object with the digests that the version of November 2026 writes.
fn sealed(mut object: Value) -> Value {
    let annotations = object["metadata"]["annotations"].clone();
    if object["kind"] == "Secret" {
        let uid = annotations[labels::MACHINE_UID].as_str().unwrap();
        let data = STANDARD.decode(object["data"]["userdata"].as_str().unwrap());
        let digest = digest(&[uid.as_bytes(), &data.unwrap(), b""]);
        object["metadata"]["annotations"][labels::CLOUD_INIT] = digest.into();
    }
    if object["kind"] == "VirtualMachine" {
        let mut annotations = annotations;
        let applied = annotations.as_object_mut().unwrap();
        applied.remove(labels::APPLIED);
        let body = json!({
            "annotations": annotations,
            "labels": object["metadata"]["labels"],
            "spec": object["spec"],
        });
        let digest = digest(&[body.to_string().as_bytes()]);
        object["metadata"]["annotations"][labels::APPLIED] = digest.into();
    }
    object
}

fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    let bytes = hash.finalize();
    let hex = bytes.iter().take(16).map(|byte| format!("{byte:02x}"));
    hex.collect()
}

/// An object with the UIDs of the new cluster.
fn renamed(object: &Value, uids: &BTreeMap<String, String>) -> Value {
    let mut text = object.to_string();
    for (old, new) in uids {
        text = text.replace(old, new);
    }
    serde_json::from_str(&text).unwrap()
}

/// Replaces the definitions that are served.
async fn redefine(scenario: &Scenario, definitions: Vec<Value>) {
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().unwrap();
        let patch = json!({ "spec": { "versions": definition["spec"]["versions"] } });
        scenario
            .patch("CustomResourceDefinition", name, patch)
            .await;
    }
    // An API server serves a new schema after a moment.
    sleep(Duration::from_secs(2)).await;
}

/// A user changes every Machine: the API server validates the stored status with it.
async fn touch(scenario: &Scenario, fleet: &Fleet, value: &str) {
    for machine in fleet.of_kind("Machine") {
        let (kind, name) = identity(machine);
        let patch = json!({ "metadata": { "annotations": { "example.com/touched": value } } });
        scenario.patch(kind, name, patch).await;
    }
}

/// Specs and UIDs of all objects of a fleet that are neither Machines nor networks.
async fn children(scenario: &Scenario, fleet: &Fleet) -> Vec<Value> {
    let mut found = Vec::new();
    for object in &fleet.objects {
        let (kind, name) = identity(object);
        // The operator marks networks as its own.
        if ["Machine", "NetworkConfiguration"].contains(&kind) {
            continue;
        }
        let object = scenario.get(kind, name).await;
        let metadata = &object["metadata"];
        let [uid, labels, annotations, generation] =
            ["uid", "labels", "annotations", "generation"].map(|field| metadata[field].clone());
        let [spec, data] = ["spec", "data"].map(|field| object[field].clone());
        found.push(json!([
            kind,
            name,
            uid,
            labels,
            annotations,
            generation,
            spec,
            data
        ]));
    }
    for instance in scenario.list("VirtualMachineInstance").await {
        found.push(instance["metadata"]["uid"].clone());
    }
    found
}

/// The fields of a status that the version of November 2026 reads, with its types.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusOf2026 {
    phase: Option<api::Phase>,
    conditions: Option<Vec<api::Condition>>,
    observed_generation: Option<i64>,
    vm_name: Option<String>,
    vmi_name: Option<String>,
    ip_addresses: Option<Vec<String>>,
    node_name: Option<String>,
    vcpus: Option<i32>,
    memory: Option<String>,
    requested_memory: Option<String>,
    disks: Option<Vec<DiskOf2026>>,
}

#[derive(Deserialize, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
struct DiskOf2026 {
    name: String,
    pvc_name: String,
    uuid: String,
    size: Option<i64>,
}

#[test]
fn a_fleet_of_november_2026_is_taken_over_without_a_change_to_its_guests_and_disks() {
    run_scenario_alone(&[], async {
        let fleet = Fleet::read("2026-11");
        let mut scenario = fleet.start().await;
        let before = children(&scenario, &fleet).await;
        touch(&scenario, &fleet, "with the earlier definitions").await;

        redefine(&scenario, own_definitions()).await;
        touch(&scenario, &fleet, "with the new definitions").await;
        for machine in scenario.list("Machine").await {
            let machine: Machine = serde_json::from_value(machine).unwrap();
            assert!(machine.status.is_some(), "every Machine is readable");
            fleet_member(&scenario, &fleet, &machine).await;
        }

        scenario.calls.take();
        scenario.start_operator();
        for machine in fleet.of_kind("Machine") {
            let (kind, name) = identity(machine);
            let is_new = |found: &Value| {
                let status = &found["status"];
                status["provider"] == "kubevirt" && !status["memory"].is_string()
            };
            let found = scenario.until(kind, name, is_new).await;
            let (status, old) = (&found["status"], &machine["status"]);
            assert_eq!(status["memoryQuantity"], old["memory"], "{name}");
            assert_eq!(status["memory"].is_i64(), old["memory"].is_string());
            assert_eq!(status["cpus"], old["vcpus"]);
            assert_eq!(status["phase"], old["phase"]);
        }
        scenario.wait_long().await;
        let machines = fleet.of_kind("Machine").count();
        let requests = scenario.calls.snapshot();
        let networks = fleet.of_kind("NetworkConfiguration").count() as u64;
        for resource in ["networkconfigurations", "networkconfigurations/status"] {
            assert_eq!(scenario.writes(resource), networks, "{requests:?}");
        }
        assert_eq!(
            scenario.writes(""),
            scenario.writes("machines/status") + 2 * networks,
            "{requests:?}"
        );
        assert_eq!(scenario.writes("machines/status"), machines as u64);
        assert_eq!(children(&scenario, &fleet).await, before);

        scenario.calls.take();
        scenario.wait_long().await;
        assert_eq!(scenario.writes(""), 0);
    });
}

/// A replica of the earlier version writes its status while the new definitions are served.
async fn fleet_member(scenario: &Scenario, fleet: &Fleet, machine: &Machine) {
    let name = machine.metadata.name.as_deref().unwrap();
    let status = serde_json::to_value(&machine.status).unwrap();
    let mut members = fleet.of_kind("Machine");
    let member = members.find(|member| identity(member).1 == name).unwrap();
    assert_eq!(status["memory"], member["status"]["memory"]);
    let written = with_type(
        member,
        json!({ "metadata": { "name": name }, "status": status }),
    );
    fleet.write_status(scenario, &written).await;
}

#[test]
fn a_replica_of_november_2026_may_write_beside_the_new_version() {
    run_scenario_alone(&[], async {
        let fleet = Fleet::read("2026-11");
        let mut scenario = fleet.start().await;
        let before = children(&scenario, &fleet).await;
        redefine(&scenario, own_definitions()).await;
        let member = fleet.of_kind("Machine").next().unwrap();
        let of_earlier = scenario.list("Machine").await;
        scenario.start_operator();
        let is_new = |found: &Value| {
            let status = &found["status"];
            status["provider"] == "kubevirt" && !status["memory"].is_string()
        };
        for machine in &of_earlier {
            let name = machine["metadata"]["name"].as_str().unwrap();
            scenario.until("Machine", name, is_new).await;
        }
        // The earlier version finishes the status write that it started before it lost the Lease.
        for machine in &of_earlier {
            let name = machine["metadata"]["name"].as_str().unwrap();
            let body = json!({ "metadata": { "name": name }, "status": machine["status"] });
            fleet
                .write_status(&scenario, &with_type(member, body))
                .await;
        }
        for machine in &of_earlier {
            let name = machine["metadata"]["name"].as_str().unwrap();
            let found = scenario.until("Machine", name, is_new).await;
            assert_eq!(found["status"]["phase"], machine["status"]["phase"]);
        }
        scenario.wait_long().await;
        assert_eq!(children(&scenario, &fleet).await, before);
        scenario.calls.take();
        scenario.wait_long().await;
        assert_eq!(scenario.writes(""), 0);
    });
}

#[test]
fn a_fleet_can_return_to_the_version_of_november_2026() {
    run_scenario_alone(&[], async {
        let fleet = Fleet::read("2026-11");
        let mut scenario = fleet.start().await;
        let before = children(&scenario, &fleet).await;
        redefine(&scenario, own_definitions()).await;
        scenario.start_operator();
        for machine in fleet.of_kind("Machine") {
            let (kind, name) = identity(machine);
            let is_new = |found: &Value| found["status"]["provider"] == "kubevirt";
            scenario.until(kind, name, is_new).await;
        }
        scenario.stop_operator().await;

        // docs/install.md has this step.
        for machine in fleet.of_kind("Machine") {
            let (kind, name) = identity(machine);
            let patch = Patch::Merge(json!({ "status": { "memory": null } }));
            let api = scenario.api(kind);
            let patched = api
                .patch_status(name, &PatchParams::default(), &patch)
                .await;
            patched.unwrap();
        }
        redefine(&scenario, fleet.definitions.clone()).await;
        touch(&scenario, &fleet, "with the earlier definitions again").await;
        for machine in fleet.of_kind("Machine") {
            let (kind, name) = identity(machine);
            let found = scenario.get(kind, name).await;
            let [old, new]: [StatusOf2026; 2] = [machine, &found]
                .map(|machine| serde_json::from_value(machine["status"].clone()).unwrap());
            assert_eq!(new.phase, old.phase, "{name}");
            assert_eq!(new.memory, None);
            assert_eq!(new.requested_memory, None);
            assert_eq!(new.vcpus, old.vcpus);
            assert_eq!(
                new.observed_generation,
                found["metadata"]["generation"].as_i64()
            );
            assert_eq!(new.vm_name, old.vm_name);
            assert_eq!(new.vmi_name, old.vmi_name);
            assert_eq!(new.node_name.is_some(), old.node_name.is_some());
            assert_eq!(
                new.ip_addresses.map(|list| list.len()),
                old.ip_addresses.map(|list| list.len())
            );
            assert_eq!(
                new.conditions.map(|list| list.len()),
                old.conditions.map(|list| list.len())
            );
            let disks = |status: Option<Vec<DiskOf2026>>| -> Vec<_> {
                let disks = status.into_iter().flatten();
                disks
                    .map(|disk| (disk.name, disk.pvc_name, disk.size))
                    .collect()
            };
            for disk in new.disks.iter().flatten() {
                let claim = scenario.get("PersistentVolumeClaim", &disk.pvc_name).await;
                assert_eq!(claim["metadata"]["uid"], disk.uuid.as_str());
            }
            assert_eq!(disks(new.disks), disks(old.disks));
            let written = with_type(
                machine,
                json!({ "metadata": { "name": name }, "status": machine["status"] }),
            );
            fleet.write_status(&scenario, &written).await;
        }
        assert_eq!(children(&scenario, &fleet).await, before);
    });
}
