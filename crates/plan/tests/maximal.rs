//! Objects of every watched kind with the maximum size that an API server stores (1.5 MB).
//!
//! Doubling the size costs at most a little over twice the allocations, and reports are bounded. Quadratic
//! comparisons, which take minutes at this size, miss a deadline that near-linear work stays two orders of
//! magnitude below.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{sync::mpsc, thread, time::Duration};

use api::{Machine, MachineClass, NetworkConfiguration, NetworkNamespace, Time};
use plan::{
    machine::{self, CloudInitSecret, Installed, Known, Observed, Surroundings, trim_addresses},
    network,
    served_fields::ServedFields,
};
use rstest::rstest;
use serde_json::{Value, json};

/// Maximum size of an object in etcd.
const LARGEST: usize = 1_500_000;
/// Detects a hang: near-linear work takes a fraction of a second.
const HANG: Duration = Duration::from_secs(20);
/// Maximum size of a status with its Events.
const MAX_REPORT_BYTES: usize = 128 * 1024;

/// Repeats items until the list has the maximum size, or `share` of it.
fn fill(share: f64, item: impl Fn(usize) -> Value) -> Value {
    let size = item(100_000).to_string().len() + 1;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "it is a size"
    )]
    let count = (LARGEST as f64 * share) as usize / size;
    (0..count).map(item).collect()
}

fn address(at: usize) -> String {
    format!("10.{}.{}.{}", at >> 16 & 255, at >> 8 & 255, at & 255)
}

fn metadata(name: &str, owner: &str, more: Value) -> Value {
    let mut metadata = json!({
        "name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "1",
        "labels": { "vitistack.io/managed-by": "kubevirt-operator", "vitistack.io/machine": "web" },
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "Machine", "name": "web", "uid": owner, "controller": true,
        }],
    });
    if let Value::Object(more) = more {
        for (field, value) in more {
            metadata[field] = value;
        }
    }
    metadata
}

/// A cluster with one Machine, whose objects are ordinary except for what a case changes.
struct World {
    machine: Value,
    vm: Value,
    instance: Value,
    claims: Value,
    data_volumes: Value,
    attachments: Value,
    classes: Value,
    /// Null if the Machine has none.
    ledger: Value,
}

impl World {
    fn ordinary() -> Self {
        let interfaces = json!([{ "name": "lan", "bridge": {} }]);
        let networks = json!([{ "name": "lan", "multus": { "networkName": "lan" } }]);
        Self {
            machine: json!({
                "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
                "metadata": { "name": "web", "namespace": "default", "uid": "uid-web",
                              "generation": 1, "finalizers": ["machine.vitistack.io/cleanup"] },
                "spec": { "template": "small", "deletionPolicy": "Delete",
                          "networks": [{ "name": "lan", "networkName": "lan" }] },
            }),
            vm: json!({
                "metadata": metadata("web", "uid-web", json!({})),
                "spec": { "runStrategy": "Always", "template": { "spec": {
                    "volumes": [], "networks": networks,
                    "domain": { "devices": { "interfaces": interfaces } } } } },
                "status": { "printableStatus": "Running" },
            }),
            instance: json!({
                "metadata": metadata("web", "uid-web", json!({ "uid": "uid-vmi" })),
                "status": { "phase": "Running", "nodeName": "node-1", "interfaces": [] },
            }),
            claims: json!([]),
            data_volumes: json!([]),
            attachments: json!([]),
            classes: json!([]),
            ledger: Value::Null,
        }
    }

    /// Plans twice: for an existing Machine, and for one that is being deleted.
    fn plan(&self) -> String {
        let parse = |value: &Value| -> Machine { serde_json::from_value(value.clone()).unwrap() };
        let mut deleted = self.machine.clone();
        deleted["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        let network: NetworkConfiguration = serde_json::from_value(json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkConfiguration",
            "metadata": { "name": "lan", "namespace": "default", "uid": "uid-lan" },
            "spec": { "bridge": "br0" },
        }))
        .unwrap();
        let namespace: NetworkNamespace = serde_json::from_value(json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkNamespace",
            "metadata": { "name": "tenant", "namespace": "default", "uid": "uid-tenant" },
            "spec": {}, "status": { "vlanId": 42 },
        }))
        .unwrap();
        let vm = serde_json::from_value(self.vm.clone()).unwrap();
        let instance = serde_json::from_value(self.instance.clone()).unwrap();
        let claims: Vec<_> = serde_json::from_value(self.claims.clone()).unwrap();
        let volumes: Vec<_> = serde_json::from_value(self.data_volumes.clone()).unwrap();
        let attachments: Vec<_> = serde_json::from_value(self.attachments.clone()).unwrap();
        let classes: Vec<MachineClass> = serde_json::from_value(self.classes.clone()).unwrap();
        let ledger: Option<NetworkConfiguration> =
            serde_json::from_value(self.ledger.clone()).unwrap();
        let named = |class: MachineClass| (class.metadata.name.clone().unwrap(), class.into());
        let surroundings = Surroundings {
            machine_classes: Known::all(classes.into_iter().map(named)),
            networks: Known::all([("lan".to_owned(), network.into())]),
            network_namespaces: Known::all([("tenant".to_owned(), namespace.into())]),
            ..Surroundings::default()
        };
        let now = Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
        [parse(&self.machine), parse(&deleted)]
            .iter()
            .map(|machine| {
                let plan = machine::plan(
                    &Observed {
                        machine,
                        surroundings: surroundings.clone(),
                        installed: Installed {
                            kubevirt: true,
                            kubevirt_is_removed: false,
                            cdi: true,
                            multus: true,
                        },
                        virtual_machine: Some(&vm),
                        instance: Some(&instance),
                        claims: claims.iter().collect(),
                        data_volumes: volumes.iter().collect(),
                        cloud_init_secret: CloudInitSecret::Unobserved { is_verified: true },
                        digest_key: None,
                        mac_address_rivals: Vec::new(),
                        attachments: attachments.iter().collect(),
                        ledger: ledger.as_ref(),
                        references: None,
                        lost_claims: Vec::new(),
                        unconfirmed_disks: Vec::new(),
                        orphaned: false,
                        refusal: None,
                    },
                    &now,
                );
                format!("{} {:?}", json!(plan.status), plan.events)
            })
            .collect::<Vec<_>>()
            .concat()
    }
}

fn addresses_of_one_interface(world: &mut World, share: f64) {
    let addresses = fill(share, |at| address(at).into());
    world.instance["status"]["interfaces"] = json!([{ "name": "lan", "ipAddresses": addresses }]);
}

fn interfaces_of_the_guest(world: &mut World, share: f64) {
    world.instance["status"]["interfaces"] = fill(
        share,
        |at| json!({ "name": format!("nic-{at}"), "ipAddress": address(at) }),
    );
}

/// Each was removed from the Machine, and is still plugged in.
fn interfaces_of_the_vm(world: &mut World, share: f64) {
    let name = |at| format!("n{at}");
    let spec = &mut world.vm["spec"]["template"]["spec"];
    spec["domain"]["devices"]["interfaces"] =
        fill(share / 2.0, |at| json!({ "name": name(at), "bridge": {} }));
    spec["networks"] = fill(
        share / 2.0,
        |at| json!({ "name": name(at), "multus": { "networkName": "x" } }),
    );
    world.instance["status"]["interfaces"] = fill(share, |at| json!({ "name": name(at) }));
}

/// None of them belongs to a listed disk, and every claim to one that was.
fn volumes_and_claims(world: &mut World, share: f64) {
    world.vm["spec"]["template"]["spec"]["volumes"] = fill(
        share,
        |at| json!({ "name": format!("v{at}"), "dataVolume": { "name": "x" } }),
    );
    world.instance["status"]["volumeStatus"] =
        fill(share, |at| json!({ "name": format!("v{at}") }));
    let disk = |at: usize| {
        let listed = json!({ "annotations": { "vitistack.io/listed-disk": "true" } });
        json!({
            "metadata": metadata(&format!("web-d{at}"), "uid-web", listed),
            "spec": { "accessModes": ["ReadWriteOnce"],
                      "resources": { "requests": { "storage": "1Gi" } } },
            "status": { "phase": "Bound" },
        })
    };
    world.claims = fill(share, disk);
    world.data_volumes = fill(share, disk);
}

fn conditions(world: &mut World, share: f64) {
    let conditions = fill(
        share,
        |at| json!({ "type": format!("T{at}"), "status": "False", "message": "no" }),
    );
    world.vm["status"]["conditions"] = conditions.clone();
    world.instance["status"]["conditions"] = conditions;
}

fn one_long_message(world: &mut World, share: f64) {
    let text = fill(share, |_| "x".into()).to_string();
    let conditions = json!([{ "type": "Failure", "status": "True", "message": text }]);
    world.vm["status"]["conditions"] = conditions.clone();
    world.instance["status"]["conditions"] =
        json!([{ "type": "Synchronized", "status": "False", "message": text }]);
}

fn metadata_of_children(world: &mut World, share: f64) {
    let owners = fill(
        share / 4.0,
        |at| json!({ "apiVersion": "v1", "kind": "Pod", "name": "x", "uid": format!("o{at}") }),
    );
    let finalizers = fill(share / 4.0, |at| format!("example.com/f{at}").into());
    let annotations: serde_json::Map<_, _> = fill(share / 4.0, |at| format!("a{at}").into())
        .as_array()
        .unwrap()
        .iter()
        .map(|name| (name.as_str().unwrap().to_owned(), "x".into()))
        .collect();
    for object in [&mut world.vm, &mut world.instance, &mut world.machine] {
        let metadata = &mut object["metadata"];
        let own = metadata["ownerReferences"][0].clone();
        metadata["ownerReferences"] = owners.clone();
        if !own.is_null() {
            metadata["ownerReferences"]
                .as_array_mut()
                .unwrap()
                .push(own);
        }
        metadata["finalizers"] = finalizers.clone();
        metadata["annotations"] = annotations.clone().into();
        metadata["labels"] = annotations.clone().into();
    }
}

fn attachments(world: &mut World, share: f64) {
    world.attachments = fill(share, |at| {
        json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": metadata(&format!("net-{at}"), "uid-lan", json!({})),
            "spec": { "config": "{}" },
        })
    });
}

fn classes(world: &mut World, share: f64) {
    world.classes = fill(share, |at| {
        json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "MachineClass",
            "metadata": { "name": format!("class-{at}") },
            "spec": { "cpu": { "cores": 1 }, "memory": { "quantity": "1Gi" } },
        })
    });
}

/// On the network of a NetworkNamespace, with a ledger that has interfaces of others.
fn ledger(world: &mut World, share: f64) {
    let interface = |at: usize| {
        json!({ "name": format!("nic-{at}"), "macAddress": "02:00:00:00:00:01",
                "ipv4Addresses": [address(at)] })
    };
    let spec = json!({ "template": "small", "network": { "networkNamespaceName": "tenant" } });
    world.machine["spec"] = spec;
    world.ledger = json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkConfiguration",
        "metadata": metadata("web", "uid-web", json!({})),
        "spec": { "name": "web", "networkInterfaces": fill(share / 2.0, interface) },
        "status": { "networkInterfaces": fill(share / 2.0, interface) },
    });
}

fn user_data(world: &mut World, share: f64) {
    let text = fill(share / 4.0, |_| "x".into()).to_string();
    world.machine["spec"]["cloudInit"] = json!({ "userData": format!("#cloud-config\n{text}") });
}

#[rstest]
#[case(addresses_of_one_interface)]
#[case(interfaces_of_the_guest)]
#[case(interfaces_of_the_vm)]
#[case(volumes_and_claims)]
#[case(conditions)]
#[case(one_long_message)]
#[case(metadata_of_children)]
#[case(attachments)]
#[case(classes)]
#[case(ledger)]
#[case(user_data)]
fn a_machine_with_maximal_objects_is_planned_in_near_linear_work(
    #[case] make: fn(&mut World, f64),
) {
    let measured = move |share: f64| {
        let mut world = World::ordinary();
        make(&mut world, share);
        let mut report = String::new();
        let counted = allocation_counter::measure(|| report = world.plan());
        (counted.count_total, report)
    };
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send((measured(0.5), measured(1.0))));
    let Ok(((half, _), (whole, report))) = receiver.recv_timeout(HANG) else {
        panic!("planning is not near-linear: no answer in {HANG:?}");
    };
    assert!(
        whole <= half * 22 / 10 + 1000,
        "{half} allocations for one half, {whole} for the whole"
    );
    assert!(
        report.len() <= MAX_REPORT_BYTES,
        "{} bytes are reported",
        report.len()
    );
}

#[test]
fn a_trimmed_instance_is_planned_as_the_whole_one() {
    let mut world = World::ordinary();
    addresses_of_one_interface(&mut world, 1.0);
    let whole = world.plan();
    let mut instance = serde_json::from_value(world.instance.clone()).unwrap();
    trim_addresses(&mut instance);
    world.instance = serde_json::to_value(instance).unwrap();
    assert!(world.instance.to_string().len() < 16 * 1024);
    assert_eq!(world.plan(), whole);
}

#[test]
fn a_network_with_more_users_than_fit_into_a_status_lists_the_first() {
    let network: NetworkConfiguration = serde_json::from_value(json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkConfiguration",
        "metadata": { "name": "lan", "namespace": "default", "uid": "uid-lan" },
        "spec": { "bridge": "br0" },
    }))
    .unwrap();
    let users: Vec<String> = (0..20_000).map(|at| format!("{at:0>250}")).collect();
    let now = Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    let observed = |network| network::Observed {
        network,
        attachment: None,
        users: users.clone(),
        multus: false,
        served: ServedFields::default(),
        refusal: None,
    };
    let status = network::plan(&observed(&network), &now).status;
    assert_eq!(status.users.as_ref().unwrap().len(), 1000);
    assert!(json!(status).to_string().len() < LARGEST / 4);
    let mut again = network.clone();
    again.status = Some(status.clone());
    assert_eq!(network::plan(&observed(&again), &now).status, status);
}
