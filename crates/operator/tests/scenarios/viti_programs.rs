//! Other programs of the Viti stack, played from recordings of their requests.
//!
//! talos-operator creates the Machines of a Kubernetes cluster, static-ip-operator or kea-operator
//! allocates their addresses, and vitictl lists them.

mod program;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use self::program::{Program, Values};
use crate::{
    kinds,
    runner::{Need, run_scenario_alone, run_scenario_in_sandbox},
    scenario::{Scenario, condition},
};

const CLUSTER: &str = "c-tenant";
const NODES: [&str; 5] = [
    "c-tenant-ctp0",
    "c-tenant-ctp1",
    "c-tenant-ctp2",
    "c-tenant-wrk0",
    "c-tenant-wrk1",
];

/// A cluster with the stack's other kinds, a MachineClass, and a NetworkNamespace whose network is ready.
struct Stack {
    scenario: Scenario,
    talos: Program,
    owner: String,
}

impl Stack {
    async fn start(network: Value) -> Self {
        let scenario = Scenario::start().await;
        for kind in ["NetworkNamespace", "KubernetesCluster"] {
            scenario.apply_object(kinds::without_schema(kind)).await;
            until_served(&scenario, kind).await;
        }
        let class = json!({
            "metadata": { "name": "medium" },
            "spec": {
                "category": "Standard", "default": false, "enabled": true,
                "cpu": { "cores": 2, "sockets": 1, "threads": 1 },
                "memory": { "quantity": "2Gi" },
                "machineProviders": [],
            },
        });
        scenario.create("MachineClass", class).await;
        let network = json!({ "metadata": { "name": "tenant" }, "spec": network });
        scenario.create("NetworkNamespace", network).await;
        let status = json!({ "status": { "vlanId": 100, "ipv4Prefix": "198.51.100.0/24" } });
        let networks = scenario.api("NetworkNamespace");
        let patched = networks
            .patch_status("tenant", &PatchParams::default(), &Patch::Merge(status))
            .await;
        patched.unwrap();
        let cluster = json!({ "metadata": { "name": CLUSTER }, "spec": {} });
        let cluster = scenario.create("KubernetesCluster", cluster).await;
        let owner = cluster["metadata"]["uid"].as_str().unwrap().to_owned();
        Self {
            scenario,
            talos: Program::read("talos-operator"),
            owner,
        }
    }

    /// Values of the recordings for a node.
    fn values(&self, node: &str) -> Values<'static> {
        let now = self.scenario.cluster.clock()().to_string();
        let values = [
            ("TIME", now.as_str()),
            ("NODE", node),
            ("CLUSTER", CLUSTER),
            ("OWNER", self.owner.as_str()),
            ("CLASS", "medium"),
            ("NETWORK", "tenant"),
            ("IMAGE", "https://factory.example.com/nocloud-amd64.iso"),
        ];
        values.map(|(name, value)| (name, value.to_owned())).into()
    }

    /// talos-operator creates the Machines of its cluster.
    async fn create_nodes(&self) {
        for node in NODES {
            let request = if node.contains("-ctp") {
                "create a control plane"
            } else {
                "create a worker"
            };
            self.send(&self.talos, request, &self.values(node)).await;
        }
    }

    async fn send(&self, program: &Program, request: &str, values: &Values<'_>) {
        program.send(&self.scenario, request, values).await;
    }

    /// The operator that allocates addresses notices a ledger, which then names its interface.
    async fn claim(
        &self,
        allocator: &Program,
        reading: &str,
        node: &str,
        address: &str,
    ) -> Values<'static> {
        let mut values = self.values(node);
        let ledger = allocator.until(&self.scenario, reading, &values).await;
        let interface = &ledger["spec"]["networkInterfaces"][0];
        for (name, value) in [
            ("INTERFACE", &interface["name"]),
            ("MAC", &interface["macAddress"]),
        ] {
            values.insert(name, value.as_str().unwrap().to_owned());
        }
        values.insert("ADDRESS", address.to_owned());
        values.insert("EXPIRY", "2026-01-01T01:00:00Z".to_owned());
        for request in ["add its finalizer", "report that it reconciles"] {
            self.send(allocator, request, &values).await;
        }
        values
    }

    /// vitictl lists a Machine completely, once talos-operator counts it as ready.
    async fn until_listed(&self, vitictl: &Program, values: &Values<'_>) {
        for (program, reading) in [
            (&self.talos, "counts the machine as ready"),
            (vitictl, "lists the machine fully"),
        ] {
            program.until(&self.scenario, reading, values).await;
        }
    }

    async fn until_address_is_shown(&self, values: &Values<'_>) {
        let is_public = |machine: &Value| {
            let public = machine["status"]["publicIPAddresses"].as_array();
            public.is_some_and(|all| all.iter().any(|found| *found == *values["ADDRESS"]))
        };
        let node = &values["NODE"];
        self.scenario.until("Machine", node, is_public).await;
    }

    async fn assert_reads(&self, program: &Program, reading: &str, values: &Values<'_>) {
        let failures = program.failures(&self.scenario, reading, values).await;
        let none: [String; 0] = [];
        assert_eq!(failures, none, "{reading} {}", values["NODE"]);
    }

    async fn assert_network_data_has_the_address(&self, values: &Values<'_>) {
        let name = format!("{}-cloud-init", values["NODE"]);
        let secret = self.scenario.get("Secret", &name).await;
        let data = secret["data"]["networkdata"].as_str().unwrap();
        let data = String::from_utf8(STANDARD.decode(data).unwrap()).unwrap();
        let expected = [
            format!("        address: {}\n", values["ADDRESS"]),
            format!("    mac_address: \"{}\"\n", values["MAC"]),
            "        netmask: 255.255.255.0\n        gateway: 198.51.100.1\n".to_owned(),
        ];
        for line in expected {
            assert!(data.contains(&line), "{line} {data}");
        }
        let vm = self.scenario.get("VirtualMachine", &values["NODE"]).await;
        let volumes = vm["spec"]["template"]["spec"]["volumes"]
            .as_array()
            .unwrap();
        let refers =
            |volume: &Value| volume["cloudInitNoCloud"]["networkDataSecretRef"]["name"] == name;
        assert!(volumes.iter().any(refers), "{volumes:?}");
    }

    /// talos-operator reports that its system is installed: the image is ejected.
    async fn install(&self, values: &Values<'_>) {
        self.send(&self.talos, "report the installed system", values)
            .await;
        let is_ejected = |vm: &Value| {
            let disks = &vm["spec"]["template"]["spec"]["domain"]["devices"]["disks"];
            let mut disks = disks.as_array().into_iter().flatten();
            disks.all(|disk| disk["name"] != "iso")
        };
        let node = &values["NODE"];
        self.scenario
            .until("VirtualMachine", node, is_ejected)
            .await;
    }

    /// talos-operator deletes a Machine, and then the allocator releases the address.
    async fn delete(&self, allocator: &Program, values: &Values<'_>) {
        let node = &values["NODE"];
        self.scenario.delete("Machine", node).await;
        self.scenario.until_gone("Machine", node).await;
        self.send(allocator, "remove its finalizer", values).await;
        self.scenario.until_gone("NetworkConfiguration", node).await;
    }

    /// Waits until all reports of the guests have arrived.
    async fn until_idle(&self) {
        for _ in 0..20 {
            self.scenario.wait(60).await;
            if self.requests().is_empty() {
                return;
            }
        }
    }

    async fn assert_no_requests(&self) {
        self.scenario.wait_long().await;
        let requests = self.requests();
        assert!(requests.is_empty(), "{requests:?}");
    }

    /// Requests of the operator since the last call.
    fn requests(&self) -> Vec<String> {
        let calls = self.scenario.calls.take();
        let calls = calls.iter().filter(|((verb, ..), _)| *verb != "watch");
        calls.map(|call| format!("{call:?}")).collect()
    }
}

async fn until_served(scenario: &Scenario, kind: &str) {
    let objects = scenario.api(kind);
    for _ in 0..60 {
        // A kube-apiserver serves a new definition after a moment.
        if objects.list(&ListParams::default()).await.is_ok() {
            return;
        }
        scenario.wait(1).await;
    }
    panic!("the API server does not serve {kind}");
}

fn static_pool() -> Value {
    json!({
        "datacenterIdentifier": "no-central-az1",
        "supervisorIdentifier": "supervisor-a",
        "ipAllocation": {
            "type": "static",
            "provider": "static-ip-operator",
            "static": {
                "ipv4CIDR": "198.51.100.0/24", "ipv4Gateway": "198.51.100.1",
                "ipv4RangeStart": "198.51.100.100", "ipv4RangeEnd": "198.51.100.199",
                "vlanId": 100, "dns": ["198.51.100.1"],
            },
        },
    })
}

#[test]
fn talos_operator_counts_five_nodes_with_static_addresses_as_ready() {
    run_scenario_alone(&[], async {
        let stack = Stack::start(static_pool()).await;
        let static_ip = Program::read("static-ip-operator");
        let vitictl = Program::read("vitictl");
        let scenario = &stack.scenario;
        stack.create_nodes().await;
        let mut nodes = Vec::new();
        for (node, last) in NODES.into_iter().zip(100..) {
            let reading = "allocates for the ledger";
            let address = format!("198.51.100.{last}");
            nodes.push(stack.claim(&static_ip, reading, node, &address).await);
        }
        for values in &nodes {
            let node = &values["NODE"];
            let waiting = scenario
                .until_condition(node, "NetworkReady", "False")
                .await;
            assert_eq!(waiting["reason"], "NetworkPending");
            assert!(scenario.find("VirtualMachine", node).await.is_none());
            for request in ["report the pool", "report success", "report the address"] {
                stack.send(&static_ip, request, values).await;
            }
        }
        for values in &nodes {
            stack.until_listed(&vitictl, values).await;
            stack.until_address_is_shown(values).await;
            stack.assert_network_data_has_the_address(values).await;
            for reading in [
                "configures the machine",
                "takes the address from the ledger",
            ] {
                stack.assert_reads(&stack.talos, reading, values).await;
            }
            stack
                .assert_reads(&static_ip, "keeps the address", values)
                .await;
        }
        // talos-operator compares every five seconds, and would write what differs.
        for values in &nodes[..3] {
            let reading = "has nothing to change in a control plane";
            stack.assert_reads(&stack.talos, reading, values).await;
        }
        stack.until_idle().await;

        // static-ip-operator extends the allocations every ten seconds.
        for minute in 10..20 {
            for values in &mut nodes {
                values.insert("EXPIRY", format!("2026-01-01T01:{minute}:00Z"));
                stack.send(&static_ip, "report the address", values).await;
            }
        }
        stack.assert_no_requests().await;
        for values in &nodes {
            stack.install(values).await;
        }
        for values in &nodes {
            stack.delete(&static_ip, values).await;
        }
        assert!(scenario.list("VirtualMachine").await.is_empty());
        assert!(scenario.list("PersistentVolumeClaim").await.is_empty());
    });
}

#[test]
fn a_static_address_that_the_ledger_loses_stays_in_the_guests_network_data() {
    run_scenario_alone(&[], async {
        let stack = Stack::start(static_pool()).await;
        let static_ip = Program::read("static-ip-operator");
        let scenario = &stack.scenario;
        let node = NODES[0];
        let values = stack.values(node);
        stack
            .send(&stack.talos, "create a control plane", &values)
            .await;
        let reading = "allocates for the ledger";
        let values = stack
            .claim(&static_ip, reading, node, "198.51.100.100")
            .await;
        stack.send(&static_ip, "report the address", &values).await;
        stack
            .talos
            .until(scenario, "counts the machine as ready", &values)
            .await;
        stack.assert_network_data_has_the_address(&values).await;
        scenario.wait(120).await;
        let vm = scenario.get("VirtualMachine", node).await;

        let (ledgers, uid) = ("NetworkConfiguration", "/metadata/uid");
        let old = scenario.get(ledgers, node).await;
        scenario.delete(ledgers, node).await;
        stack
            .send(&static_ip, "remove its finalizer", &values)
            .await;
        let is_new = |ledger: &Value| ledger.pointer(uid) != old.pointer(uid);
        scenario.until(ledgers, node, is_new).await;
        scenario.wait(60).await;
        stack.assert_network_data_has_the_address(&values).await;
        let found = scenario.get("VirtualMachine", node).await;
        assert_eq!(found["spec"], vm["spec"]);

        let mut values = stack
            .claim(&static_ip, reading, node, "198.51.100.101")
            .await;
        stack.send(&static_ip, "report the address", &values).await;
        scenario
            .until_condition(node, "RestartRequired", "True")
            .await;
        stack.assert_network_data_has_the_address(&values).await;
        values.insert("ADDRESS", "198.51.100.100".to_owned());
        stack.send(&static_ip, "report the address", &values).await;
        scenario
            .until_condition(node, "RestartRequired", "False")
            .await;
        stack.assert_network_data_has_the_address(&values).await;
    });
}

#[test]
fn a_static_address_that_is_corrected_at_once_is_the_guests_first() {
    let reason =
        "a real API server and the steps of this scenario may take longer than the correction";
    run_scenario_in_sandbox(reason, async {
        let stack = Stack::start(static_pool()).await;
        let static_ip = Program::read("static-ip-operator");
        let scenario = &stack.scenario;
        let node = NODES[0];
        let values = stack.values(node);
        stack
            .send(&stack.talos, "create a control plane", &values)
            .await;
        let reading = "allocates for the ledger";
        let mut values = stack
            .claim(&static_ip, reading, node, "198.51.100.100")
            .await;
        for request in ["report success", "report the address"] {
            stack.send(&static_ip, request, &values).await;
        }
        let waiting = scenario
            .until_condition(node, "NetworkReady", "False")
            .await;
        scenario.wait(5).await;
        let machine = scenario.get("Machine", node).await;
        assert_eq!(*condition(&machine, "NetworkReady"), waiting);
        assert!(scenario.find("VirtualMachine", node).await.is_none());
        values.insert("ADDRESS", "198.51.100.101".to_owned());
        stack.send(&static_ip, "report the address", &values).await;
        let reading = "counts the machine as ready";
        let machine = stack.talos.until(scenario, reading, &values).await;
        assert_eq!(condition(&machine, "RestartRequired")["status"], "False");
        stack.assert_network_data_has_the_address(&values).await;
    });
}

#[test]
fn the_virtual_address_of_a_cluster_is_left_to_static_ip_operator() {
    // Kubernetes 1.20 decodes the empty MAC address as null, and refuses it.
    run_scenario_alone(&[Need::CurrentApis], async {
        let stack = Stack::start(static_pool()).await;
        let static_ip = Program::read("static-ip-operator");
        let scenario = &stack.scenario;
        let mut reserved = Vec::new();
        for (creator, name) in [
            (&stack.talos, "c-tenant-vip"),
            (&static_ip, "c-tenant-cpvip"),
        ] {
            let mut values = stack.values(name);
            let recorded = [
                ("INTERFACE", "vip"),
                ("MAC", ""),
                ("ADDRESS", "198.51.100.150"),
                ("EXPIRY", "2026-01-01T01:00:00Z"),
            ];
            values.extend(recorded.map(|(name, value)| (name, value.to_owned())));
            stack
                .send(creator, "reserve the virtual address", &values)
                .await;
            for request in ["add its finalizer", "report success", "report the address"] {
                stack.send(&static_ip, request, &values).await;
            }
            reserved.push(scenario.get("NetworkConfiguration", name).await);
        }
        scenario.wait_long().await;
        assert_eq!(scenario.list("NetworkConfiguration").await.len(), 2);
        for before in reserved {
            let name = before["metadata"]["name"].as_str().unwrap();
            assert_eq!(scenario.get("NetworkConfiguration", name).await, before);
        }
        assert!(
            scenario
                .list("NetworkAttachmentDefinition")
                .await
                .is_empty()
        );
        assert_eq!(scenario.writes(""), 0);
    });
}

#[test]
fn an_address_that_kea_operator_learns_later_reaches_the_machine() {
    run_scenario_alone(&[], async {
        let network = json!({
            "datacenterIdentifier": "no-central-az1", "supervisorIdentifier": "supervisor-a",
        });
        let stack = Stack::start(network).await;
        let kea = Program::read("kea-operator");
        let node = NODES[0];
        let values = stack.values(node);
        stack
            .send(&stack.talos, "create a control plane", &values)
            .await;
        let reading = "reserves for the ledger";
        let values = stack.claim(&kea, reading, node, "198.51.100.20").await;
        let reserved = "report a reservation without an address";
        stack.send(&kea, reserved, &values).await;
        let reading = "counts the machine as ready";
        stack.talos.until(&stack.scenario, reading, &values).await;
        stack.send(&kea, "report the leased address", &values).await;
        stack.until_address_is_shown(&values).await;
        stack.until_idle().await;
        stack.assert_no_requests().await;
        stack.delete(&kea, &values).await;
    });
}
