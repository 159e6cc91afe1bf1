//! Tests of virt-api: validation of VMs, and responses to subresource requests.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use actors::kubevirt::{
    Effect, SubresourceRequest, SubresourceResponse, admit_vm, decide_subresource, default_vm,
    rejection, subresource_api_resources,
};
use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

fn vm() -> Value {
    json!({
        "metadata": { "name": "x", "namespace": "default", "resourceVersion": "7" },
        "spec": {
            "runStrategy": "Always",
            "template": { "spec": {
                "domain": {
                    "cpu": { "cores": 2, "sockets": 1, "threads": 1 },
                    "memory": { "guest": "4Gi" },
                    "machine": { "type": "q35" },
                    "devices": {
                        "disks": [{ "name": "root", "bootOrder": 1, "disk": { "bus": "virtio" } }],
                        "interfaces": [{ "name": "default", "masquerade": {}, "model": "virtio" }],
                    },
                },
                "networks": [{ "name": "default", "pod": {} }],
                "volumes": [{ "name": "root", "persistentVolumeClaim": { "claimName": "x-root" } }],
            } },
        },
    })
}

fn with(changes: &[(&str, Value)]) -> Value {
    let mut vm = vm();
    for (pointer, value) in changes {
        let pointer = pointer.replace("~domain", "/spec/template/spec/domain");
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = vm
            .pointer_mut(parent)
            .unwrap_or_else(|| panic!("no {parent}"));
        match parent {
            Value::Array(items) => items.push(value.clone()),
            _ => parent[key] = value.clone(),
        }
    }
    vm
}

fn disk(name: &str) -> [(&'static str, Value); 2] {
    [
        (
            "~domain/devices/disks/-",
            json!({ "name": name, "disk": { "bus": "virtio" } }),
        ),
        (
            "/spec/template/spec/volumes/-",
            json!({ "name": name, "emptyDisk": { "capacity": "1Gi" } }),
        ),
    ]
}

/// Recorded from virt-api v1.9.0.
#[rstest]
#[case::as_it_is(&[])]
#[case::versioned_machine(&[("~domain/machine/type", json!("pc-q35-9.0"))])]
#[case::unversioned_machine(&[("~domain/machine/type", json!("pc-q35"))])]
#[case::secure_boot_with_smm(&[
    ("~domain/firmware", json!({ "bootloader": { "efi": { "secureBoot": true } } })),
    ("~domain/features", json!({ "smm": { "enabled": true } })),
])]
#[case::hyperv(&[("~domain/features", json!({ "hyperv": { "relaxed": {}, "spinlocks": { "spinlocks": 8191 } } }))])]
#[case::old_nic(&[("~domain/devices/interfaces/0/model", json!("e1000"))])]
#[case::secret_refs(&[
    ("~domain/devices/disks/-", json!({ "name": "init", "disk": {} })),
    ("/spec/template/spec/volumes/-", json!({ "name": "init", "cloudInitNoCloud": {
        "secretRef": { "name": "a" }, "networkDataSecretRef": { "name": "b" } } })),
])]
#[case::two_nics_on_one_nad(&[
    ("~domain/devices/interfaces/-", json!({ "name": "a", "bridge": {}, "macAddress": "02:00:00:00:00:01" })),
    ("~domain/devices/interfaces/-", json!({ "name": "b", "bridge": {} })),
    ("/spec/template/spec/networks/-", json!({ "name": "a", "multus": { "networkName": "nad" } })),
    ("/spec/template/spec/networks/-", json!({ "name": "b", "multus": { "networkName": "nad" } })),
])]
#[case::no_cores(&[("~domain/cpu/cores", json!(0))])]
#[case::no_disks(&[("~domain/devices/disks", json!([])), ("/spec/template/spec/volumes", json!([]))])]
#[case::long_name(&[("/metadata/name", json!("x".repeat(64)))])]
#[case::decimal_memory(&[("~domain/memory/guest", json!("3.5G"))])]
#[case::bare_memory(&[("~domain/memory/guest", json!("4294967296"))])]
#[case::number_for_memory(&[("~domain/memory/guest", json!(4_294_967_296_i64))])]
#[case::room_to_grow(&[("~domain/memory/maxGuest", json!("16Gi")), ("~domain/cpu/maxSockets", json!(4))])]
#[case::cdrom_on_sata(&[
    ("~domain/devices/disks/-", json!({ "name": "cd", "cdrom": { "bus": "sata" } })),
    ("/spec/template/spec/volumes/-", json!({ "name": "cd", "persistentVolumeClaim": { "claimName": "cd" } })),
])]
#[case::data_volume_templates(&[
    ("/spec/dataVolumeTemplates", json!([{ "metadata": { "name": "x-root" }, "spec": {
        "source": { "http": { "url": "http://a" } }, "storage": {} } }])),
])]
fn admitted(#[case] changes: &[(&str, Value)]) {
    let mut vm = with(changes);
    default_vm(&mut vm, None, 1);
    assert_eq!(admit_vm(&vm, None), Ok(Vec::new()));
}

#[rstest]
#[case::old_machine(
    &[("~domain/machine/type", json!("pc-i440fx"))],
    "spec.template.spec.domain.machine.type is not supported: pc-i440fx (allowed values: [q35* pc-q35*])"
)]
#[case::secure_boot_without_smm(
    &[("~domain/firmware", json!({ "bootloader": { "efi": { "secureBoot": true } } }))],
    "spec.template.spec.domain has EFI SecureBoot enabled. SecureBoot requires SMM, which is currently disabled."
)]
#[case::large_user_data(
    &[
        ("~domain/devices/disks/-", json!({ "name": "init", "disk": {} })),
        ("/spec/template/spec/volumes/-", json!({ "name": "init", "cloudInitNoCloud": { "userData": "x".repeat(3000) } })),
    ],
    "spec.template.spec.volumes[1].cloudInitNoCloud userdata exceeds 2048 byte limit. Should use UserDataSecretRef for larger data."
)]
#[case::same_boot_order(
    &[("~domain/devices/interfaces/0/bootOrder", json!(1))],
    "Boot order for spec.template.spec.domain.devices.interfaces[0].bootOrder already set for a different device."
)]
#[case::long_disk_name(&disk(&"x".repeat(64)), "must be no more than 63 bytes")]
#[case::running_and_strategy(
    &[("/spec/running", json!(true))],
    "Running and RunStrategy are mutually exclusive. Note that Running is deprecated, please use RunStrategy instead"
)]
#[case::no_strategy(&[("/spec/runStrategy", Value::Null)], "RunStrategy must be specified")]
#[case::unknown_strategy(&[("/spec/runStrategy", json!("Sometimes"))], "Invalid RunStrategy (Sometimes)")]
#[case::too_many_sockets(
    &[("~domain/cpu/maxSockets", json!(2)), ("~domain/cpu/sockets", json!(4))],
    "Number of sockets in CPU topology is greater than the maximum sockets allowed"
)]
#[case::too_much_memory(
    &[("~domain/memory/maxGuest", json!("2Gi"))],
    "Guest memory is greater than the configured maxGuest memory"
)]
#[case::network_without_interface(
    &[("/spec/template/spec/networks/-", json!({ "name": "a", "multus": { "networkName": "nad" } }))],
    "spec.template.spec.networks[1].name 'a' not found."
)]
#[case::disk_without_volume(
    &[("~domain/devices/disks/-", json!({ "name": "a", "disk": {} }))],
    "spec.template.spec.domain.devices.disks[1].Name 'a' not found."
)]
#[case::volume_with_two_sources(
    &[("/spec/template/spec/volumes/0/emptyDisk", json!({}))],
    "spec.template.spec.volumes[0] must have exactly one source type set"
)]
#[case::unused_data_volume(
    &[("/spec/dataVolumeTemplates", json!([{ "metadata": { "name": "a" }, "spec": {
        "source": { "blank": {} }, "storage": {} } }]))],
    "DataVolumeTemplate entry spec.dataVolumeTemplate[0] must be referenced in the VMI template's 'volumes' list"
)]
fn refused(#[case] changes: &[(&str, Value)], #[case] message: &str) {
    let mut vm = with(changes);
    default_vm(&mut vm, None, 1);
    let causes = admit_vm(&vm, None).unwrap_err();
    assert_eq!(rejection(&causes).0, message);
}

#[test]
fn running_is_admitted_with_a_warning() {
    let mut vm = with(&[("/spec/running", json!(true))]);
    vm["spec"].as_object_mut().unwrap().remove("runStrategy");
    let warning = "spec.running is deprecated, please use spec.runStrategy instead.";
    assert_eq!(admit_vm(&vm, None), Ok(vec![warning.to_owned()]));
}

#[test]
fn a_vm_cannot_change_during_a_snapshot() {
    let old = with(&[("/status", json!({ "snapshotInProgress": "s" }))]);
    let mut new = old.clone();
    new["spec"]["runStrategy"] = "Halted".into();
    let causes = admit_vm(&new, Some(&old)).unwrap_err();
    let message = "Cannot update vm running state until snapshot \"s\" completes";
    assert_eq!(causes[0].message, message);
    assert_eq!(admit_vm(&old, Some(&old)), Ok(Vec::new()));
}

#[test]
fn an_update_keeps_the_firmware_identity() {
    let mut vm = vm();
    default_vm(&mut vm, None, 1);
    let created = vm.clone();
    default_vm(&mut vm, Some(&created), 2);
    assert_eq!(vm, created);
    vm["spec"]["template"]["spec"]["domain"]["firmware"] = json!({});
    default_vm(&mut vm, Some(&created), 2);
    assert!(
        vm.pointer("/spec/template/spec/domain/firmware/uuid")
            .is_none()
    );
}

fn request_for(resource: &str, subresource: &str, body: Value) -> SubresourceRequest {
    let reads = ["guestosinfo", "userlist", "filesystemlist"].contains(&subresource);
    SubresourceRequest {
        method: if reads { Method::GET } else { Method::PUT },
        namespace: "default".to_owned(),
        resource: resource.to_owned(),
        name: "x".to_owned(),
        subresource: subresource.to_owned(),
        body,
    }
}

fn vmi(phase: &str) -> Value {
    json!({
        "metadata": { "name": "x", "namespace": "default", "uid": "u", "resourceVersion": "9" },
        "spec": {},
        "status": { "phase": phase, "conditions": [] },
    })
}

fn decide(
    request: &SubresourceRequest,
    strategy: &str,
    phase: Option<&str>,
) -> Result<Vec<Effect>, SubresourceResponse> {
    let vm = with(&[("/spec/runStrategy", json!(strategy))]);
    let vmi = phase.map(vmi);
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    decide_subresource(request, Some(&vm), vmi.as_ref(), now).map(|decision| decision.effects)
}

#[rstest]
#[case("start", "Always", Some("Running"), "VM is already running")]
#[case("start", "Halted", Some("Scheduling"), "VM is already running")]
#[case(
    "start",
    "Always",
    None,
    "Always does not support manual start requests"
)]
#[case(
    "start",
    "RerunOnFailure",
    Some("Failed"),
    "RerunOnFailure does not support starting VM from failed state"
)]
#[case("stop", "Manual", None, "VM is not running")]
#[case(
    "stop",
    "Halted",
    Some("Running"),
    "Halted only supports manual stop requests with a shorter graceperiod"
)]
#[case(
    "restart",
    "Halted",
    None,
    "RunStategy Halted does not support manual restart requests"
)]
#[case("restart", "Always", None, "VM is not running: Halted")]
#[case("migrate", "Always", Some("Scheduled"), "VM is not running")]
fn vms_refuse_requests_with_a_conflict(
    #[case] what: &str,
    #[case] strategy: &str,
    #[case] phase: Option<&str>,
    #[case] why: &str,
) {
    let response = decide(
        &request_for("virtualmachines", what, Value::Null),
        strategy,
        phase,
    )
    .unwrap_err();
    let message =
        format!("Operation cannot be fulfilled on virtualmachine.kubevirt.io \"x\": {why}");
    assert_eq!(
        (response.code, &response.body["message"]),
        (409, &json!(message))
    );
    assert_eq!(response.body["reason"], "Conflict");
    assert_eq!(response.body["details"]["kind"], "virtualmachine");
}

#[test]
fn a_halted_vm_is_started_by_its_strategy() {
    let effects = decide(
        &request_for("virtualmachines", "start", Value::Null),
        "Halted",
        None,
    )
    .unwrap();
    let patch =
        json!({ "metadata": { "resourceVersion": "7" }, "spec": { "runStrategy": "Always" } });
    assert_eq!(effects, [Effect::PatchVm(patch)]);
}

#[test]
fn a_manual_vm_is_started_by_a_request() {
    let effects = decide(
        &request_for("virtualmachines", "start", json!({ "paused": true })),
        "Manual",
        None,
    )
    .unwrap();
    let requests = json!([{ "action": "Start", "data": { "paused": "true" } }]);
    let [Effect::PatchVmStatus(patch)] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    assert_eq!(patch["status"]["stateChangeRequests"], requests);
}

#[test]
fn a_restart_is_a_stop_and_a_start() {
    let request = request_for(
        "virtualmachines",
        "restart",
        json!({ "gracePeriodSeconds": 0 }),
    );
    let effects = decide(&request, "Always", Some("Running")).unwrap();
    let [Effect::PatchVmi(grace), Effect::PatchVmStatus(patch)] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    assert_eq!(grace["spec"]["terminationGracePeriodSeconds"], 1);
    let requests = json!([{ "action": "Stop", "uid": "u" }, { "action": "Start" }]);
    assert_eq!(patch["status"]["stateChangeRequests"], requests);
    let request = request_for(
        "virtualmachines",
        "restart",
        json!({ "gracePeriodSeconds": 5 }),
    );
    let response = decide(&request, "Always", Some("Running")).unwrap_err();
    assert_eq!(
        (response.code, response.body["message"].as_str().unwrap()),
        (
            400,
            "For force restart, only gracePeriod=0 is supported for now"
        )
    );
}

#[test]
fn a_guest_is_paused_once() {
    let effects = decide(
        &request_for("virtualmachineinstances", "pause", Value::Null),
        "Always",
        Some("Running"),
    )
    .unwrap();
    let [Effect::PatchVmi(patch)] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    let paused = &patch["status"]["conditions"][0];
    assert_eq!(
        (paused["type"].as_str(), paused["reason"].as_str()),
        (Some("Paused"), Some("PausedByUser"))
    );
    let response = decide(
        &request_for("virtualmachineinstances", "unpause", Value::Null),
        "Always",
        Some("Running"),
    )
    .unwrap_err();
    let message = "Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io \"x\": VMI is not paused";
    assert_eq!(response.body["message"], message);
}

#[test]
fn missing_objects_and_unknown_subresources_are_not_found() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let response = decide_subresource(
        &request_for("virtualmachines", "start", Value::Null),
        None,
        None,
        now,
    )
    .unwrap_err();
    assert_eq!(
        (response.code, response.body["message"].as_str().unwrap()),
        (404, "virtualmachine.kubevirt.io \"x\" not found")
    );
    for (what, code) in [
        ("console", 501),
        ("vnc", 501),
        ("portforward/22/tcp", 501),
        ("addvolume", 501),
        ("nonsense", 404),
    ] {
        let response = decide(
            &request_for("virtualmachineinstances", what, Value::Null),
            "Always",
            None,
        )
        .unwrap_err();
        assert_eq!(response.code, code, "{what}");
    }
    let mut request = request_for("virtualmachines", "start", Value::Null);
    request.method = Method::GET;
    assert_eq!(decide(&request, "Always", None).unwrap_err().code, 405);
}

#[test]
fn a_missing_agent_is_reported_as_plain_text() {
    let response = decide(
        &request_for("virtualmachineinstances", "guestosinfo", Value::Null),
        "Always",
        Some("Running"),
    )
    .unwrap_err();
    let message = "Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io \"x\": VMI does not have guest agent connected";
    assert_eq!((response.code, response.body), (500, json!(message)));
}

#[test]
fn discovery_lists_the_subresources() {
    let list = subresource_api_resources();
    let names: Vec<&str> = list["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"virtualmachines/start")
            && names.contains(&"virtualmachineinstances/pause")
    );
}
