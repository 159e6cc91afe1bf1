//! Drift of a Machine's children, and children that no longer match it.

use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use kube::api::{Patch, PatchParams};
use sandbox::Component;
use serde_json::{Value, json};

use crate::{
    fault_injection::Fault,
    runner::{Need, run_scenario, run_scenario_alone, run_scenario_in_sandbox},
    scenario::{Scenario, condition},
};

const SECRET: &str = "web-cloud-init";

async fn with_cloud_init(scenario: &Scenario) -> Value {
    let spec = json!({ "template": "small", "cloudInit": { "userData": "#!/bin/sh" } });
    scenario.create_machine("web", spec).await;
    scenario.until_phase("web", "Running").await;
    scenario.get("Secret", SECRET).await
}

/// More user data than the caches store.
fn with_large_user_data() -> Value {
    let user_data = format!("#!/bin/sh\n# {}\n", "a".repeat(32 * 1024));
    json!({ "template": "small", "cloudInit": { "userData": user_data } })
}

/// Number of lists and gets of Machines.
fn machine_lists(scenario: &Scenario) -> u64 {
    let counts = scenario.calls.snapshot();
    let lists = counts
        .iter()
        .filter(|((verb, of, _), _)| *verb == "list" && of == "machines");
    lists.map(|(_, count)| count).sum()
}

/// Waits until the Secret has its previous data.
async fn until_restored(scenario: &Scenario, before: &Value) {
    let restored = |secret: &Value| {
        secret["data"] == before["data"]
            && secret["metadata"]["labels"] == before["metadata"]["labels"]
            && secret["metadata"]["deletionTimestamp"].is_null()
    };
    scenario.until("Secret", SECRET, restored).await;
}

async fn repairs(scenario: &Scenario) -> Vec<String> {
    scenario.wait(2).await;
    let events = scenario.events("web").await.into_iter();
    events
        .filter(|(reason, _)| reason == "DriftCorrected")
        .map(|(_, message)| message)
        .collect()
}

/// Sends a merge patch under another field manager.
async fn tamper(scenario: &Scenario, kind: &str, name: &str, metadata: Value) {
    let params = PatchParams {
        field_manager: Some("intruder".to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    let patched = scenario.api(kind).patch(name, &params, &patch).await;
    patched.unwrap();
}

#[test]
fn drift_of_disks_is_repaired_and_reported_with_field_and_field_manager() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let image = json!({ "http": { "url": "https://images.example/debian.qcow2" } });
        let disks = json!([{ "name": "root", "source": image }, { "name": "data", "size": "1Gi" }]);
        let spec = json!({ "template": "small", "disks": disks });
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Running").await;
        let disks = [
            ("PersistentVolumeClaim", "web-data"),
            ("DataVolume", "web-root"),
        ];
        for (kind, name) in disks {
            let before = scenario.get(kind, name).await;
            let is_as_before = |disk: &Value| {
                ["labels", "annotations", "ownerReferences"]
                    .iter()
                    .all(|of| disk["metadata"][*of] == before["metadata"][*of])
            };
            let owner = json!({
                "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine", "name": "web",
                "uid": scenario.get("Machine", "web").await["metadata"]["uid"],
            });
            for (metadata, (who, repair)) in [
                (
                    json!({ "annotations": { "vitistack.io/listed-disk": "no" } }),
                    (
                        "intruder",
                        "restored metadata.annotations.vitistack.io/listed-disk",
                    ),
                ),
                (
                    json!({ "labels": { "vitistack.io/retained": "true" } }),
                    ("intruder", "removed metadata.labels.vitistack.io/retained"),
                ),
                (
                    json!({ "labels": { "vitistack.io/machine": "other" } }),
                    ("intruder", "restored metadata.labels.vitistack.io/machine"),
                ),
                (
                    json!({ "labels": { "vitistack.io/managed-by": null } }),
                    (
                        "Another client",
                        "restored metadata.labels.vitistack.io/managed-by",
                    ),
                ),
                (
                    json!({ "ownerReferences": [owner] }),
                    ("intruder", "removed metadata.ownerReferences"),
                ),
            ] {
                // A DataVolume without its labels is not in the cache, only its claim.
                if kind == "DataVolume" && repair.starts_with("restored metadata.labels") {
                    continue;
                }
                tamper(&scenario, kind, name, metadata).await;
                scenario.until(kind, name, is_as_before).await;
                let expected = format!("{who} changed {kind} {name}: the operator {repair}");
                let reported = repairs(&scenario).await;
                assert!(
                    reported.iter().any(|found| found.starts_with(&expected)),
                    "{expected} is not in {reported:?}"
                );
            }
        }
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
    });
}

#[test]
fn a_deleted_cloud_init_secret_is_restored_within_a_second() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let before = with_cloud_init(&scenario).await;
        scenario.delete("Secret", SECRET).await;
        scenario.wait(1).await;
        let after = scenario.get("Secret", SECRET).await;
        assert_eq!(after["data"], before["data"]);
        assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
        let messages = repairs(&scenario).await;
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(
            messages[0].contains("Another client deleted Secret web-cloud-init"),
            "{messages:?}"
        );
        scenario
            .patch_spec("web", json!({ "restartedAt": "2026-01-01T00:00:00Z" }))
            .await;
        scenario.until_reason("web", "Running").await;
    });
}

#[test]
fn changed_data_of_a_cloud_init_secret_is_restored() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let before = with_cloud_init(&scenario).await;
        for change in [
            json!({ "data": { "userdata": "c3RvbGVu" } }),
            json!({ "data": { "userdata": null } }),
            json!({ "data": { "userData": "c3RvbGVu" } }),
            json!({ "data": { "userdata": "c3RvbGVu" }, "immutable": true }),
            json!({ "metadata": { "labels": {
                "vitistack.io/managed-by": null, "vitistack.io/machine": null,
            } } }),
        ] {
            scenario.patch("Secret", SECRET, change).await;
            until_restored(&scenario, &before).await;
        }
        let messages = repairs(&scenario).await;
        assert!(
            messages.iter().any(|message| message
                .contains("changed Secret web-cloud-init: the operator restored its data")),
            "{messages:?}"
        );
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
        // Nothing is written once it is restored.
        let writes = scenario.writes("secrets");
        scenario.wait(5).await;
        assert_eq!(scenario.writes("secrets"), writes);
    });
}

#[test]
fn large_cloud_init_data_is_restored_and_read_only_for_that() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario.create_machine("web", with_large_user_data()).await;
        scenario.until_phase("web", "Running").await;
        let before = scenario.get("Secret", SECRET).await;
        scenario.delete("Secret", SECRET).await;
        until_restored(&scenario, &before).await;
        assert_eq!(repairs(&scenario).await.len(), 1);
        let before = machine_lists(&scenario);
        scenario.wait(5).await;
        assert_eq!(machine_lists(&scenario), before);
    });
}

#[test]
fn a_refused_write_of_large_cloud_init_data_does_not_cause_repeated_reads() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let foreign = json!({ "metadata": { "name": SECRET }, "stringData": { "a": "b" } });
        scenario.create("Secret", foreign).await;
        scenario.create_machine("web", with_large_user_data()).await;
        scenario.until_reason("web", "ForeignObject").await;
        let before = machine_lists(&scenario);
        scenario.wait(10).await;
        let more = machine_lists(&scenario) - before;
        assert!(more <= 10, "read {more} times");
    });
}

#[test]
fn without_a_watch_a_missing_cloud_init_secret_is_restored_when_the_guest_starts() {
    run_scenario(async {
        let mut scenario = Scenario::without_operator().await;
        scenario.start_operator_with(|options| options.watch_secrets = false);
        let before = with_cloud_init(&scenario).await;
        scenario.delete("Secret", SECRET).await;
        let old = scenario.get("VirtualMachineInstance", "web").await;
        scenario
            .patch_spec("web", json!({ "restartedAt": "2026-01-01T00:00:00Z" }))
            .await;
        until_restored(&scenario, &before).await;
        scenario
            .until("VirtualMachineInstance", "web", |instance| {
                instance["status"]["phase"] == "Running"
                    && instance["metadata"]["uid"] != old["metadata"]["uid"]
            })
            .await;
    });
}

#[test]
fn an_instance_that_never_started_is_replaced_when_less_is_requested() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({ "template": "small", "memory": "4Ti" });
        scenario.create_machine("web", spec).await;
        scenario.until_reason("web", "InsufficientResources").await;
        let old = scenario.get("VirtualMachineInstance", "web").await;
        scenario.patch_spec("web", json!({ "memory": "2Gi" })).await;
        scenario.until_phase("web", "Running").await;
        let new = scenario.get("VirtualMachineInstance", "web").await;
        assert_ne!(new["metadata"]["uid"], old["metadata"]["uid"]);
        assert_eq!(new["spec"]["domain"]["memory"]["guest"], "2Gi");
        assert!(scenario.has_event("web", "Replacing").await);

        // A guest that has run is not replaced.
        scenario.patch_spec("web", json!({ "memory": "4Ti" })).await;
        scenario.wait(8).await;
        let same = scenario.get("VirtualMachineInstance", "web").await;
        assert_eq!(same["metadata"]["uid"], new["metadata"]["uid"]);
    });
}

#[test]
fn a_machine_type_can_be_cleared_after_it_was_changed() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({ "template": "small", "powerState": "Stopped" });
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Stopped").await;
        let machine_type = |vm: &Value| {
            vm.pointer("/spec/template/spec/domain/machine/type")
                .cloned()
        };
        scenario
            .patch_spec(
                "web",
                json!({ "domain": { "machine": { "type": "pc-q35-8.2" } } }),
            )
            .await;
        scenario
            .until("VirtualMachine", "web", |vm| {
                machine_type(vm) == Some("pc-q35-8.2".into())
            })
            .await;
        scenario
            .patch_spec("web", json!({ "domain": null, "memory": "3Gi" }))
            .await;
        let vm = scenario
            .until("VirtualMachine", "web", |vm| {
                vm["spec"]["template"]["spec"]["domain"]["memory"]["guest"] == "3Gi"
            })
            .await;
        assert_ne!(machine_type(&vm), Some("pc-q35-8.2".into()));
        scenario.until_reason("web", "Stopped").await;
    });
}

#[test]
fn an_apply_that_leaves_null_is_repeated_without_the_field() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let machine_type = json!({ "machine": { "type": "pc-q35-9.0" } });
        let spec = json!({ "template": "small", "powerState": "Stopped", "domain": machine_type });
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Stopped").await;
        // The first change after the creation costs an additional request.
        scenario.patch_spec("web", json!({ "memory": "3Gi" })).await;
        scenario
            .until("VirtualMachine", "web", |vm| {
                vm["spec"]["template"]["spec"]["domain"]["memory"]["guest"] == "3Gi"
            })
            .await;
        let refused = AtomicBool::new(false);
        scenario.faults.inject(move |method, path| {
            let is_apply = method == Method::PATCH && path.ends_with("/virtualmachines/web");
            (is_apply && !refused.swap(true, Ordering::Relaxed)).then_some(Fault::Invalid(
                "VirtualMachine.kubevirt.io \"web\" is invalid: spec.template.spec.domain.machine: \
                 Invalid value: \"null\": must be of type object",
            ))
        });
        scenario.calls.take();
        let cleared = json!({ "domain": { "machine": null } });
        scenario.patch_spec("web", cleared).await;
        let domain = "/spec/template/spec/domain/machine/type";
        scenario
            .until("VirtualMachine", "web", |vm| {
                vm.pointer(domain) != Some(&json!("pc-q35-9.0"))
            })
            .await;
        // Only a live read detects what the apply left.
        scenario.until_request("get", "virtualmachines").await;
    });
}

#[test]
fn every_optional_field_can_be_cleared_where_nothing_defaults_virtual_machines() {
    // A real server has no virt-api here: fields that an apply leaves out stay unset.
    run_scenario_alone(&[Need::CurrentApis], async {
        let scenario = Scenario::start_with(|setup| {
            setup.without.insert(Component::KubeVirt);
            let definitions = Component::KubeVirt.definitions();
            setup.definitions.extend(definitions);
        })
        .await;
        scenario
            .create(
                "NetworkConfiguration",
                json!({ "metadata": { "name": "prod" }, "spec": { "bridge": "br0" } }),
            )
            .await;
        let spec = json!({
            "template": "small", "powerState": "Stopped", "memory": "2Gi", "cpu": { "cores": 3 },
            "disks": [{ "name": "data", "size": "1Gi", "bus": "scsi" }],
            "networks": [{ "name": "a", "networkName": "prod", "model": "e1000" }],
            "bootOrder": ["disk", "network"],
            "cloudInit": { "userData": "#cloud-config\n", "networkData": "version: 2\n" },
            "domain": {
                "machine": { "type": "pc-q35-9.0" },
                "features": { "acpi": true, "apic": true, "hyperv": true },
                "firmware": { "bootloader": { "efi": true, "secureBoot": true } },
            },
        });
        scenario.create_machine("web", spec).await;
        let cleared = [
            json!({ "domain": { "features": { "hyperv": null } } }),
            json!({ "domain": { "machine": null } }),
            json!({ "domain": { "firmware": null } }),
            json!({ "domain": { "features": null } }),
            json!({ "domain": null }),
            json!({ "bootOrder": null }),
            json!({ "cloudInit": { "networkData": null } }),
            json!({ "cloudInit": null }),
            json!({ "networks": null }),
            json!({ "disks": null }),
            json!({ "cpu": null }),
        ];
        for (size, mut change) in (3..).zip(cleared) {
            let memory = format!("{size}Gi");
            change["memory"] = memory.clone().into();
            scenario.patch_spec("web", change).await;
            scenario
                .until("VirtualMachine", "web", |vm| {
                    vm["spec"]["template"]["spec"]["domain"]["memory"]["guest"] == memory
                })
                .await;
        }
        let vm = scenario.get("VirtualMachine", "web").await;
        assert_eq!(plan::null::find(&vm), None);
        let machine = scenario.get("Machine", "web").await;
        assert!(!machine.to_string().contains("refused"), "{machine}");
    });
}

#[test]
fn access_modes_of_a_claim_stay_whatever_the_spec_lists_later() {
    run_scenario_in_sandbox(
        "the StorageClass of real clusters may not allow ReadWriteMany",
        async {
            let scenario = Scenario::start().await;
            let disk = |mode: &str| json!([{ "name": "root", "size": "20Gi", "accessMode": mode }]);
            scenario
                .create_machine("web", json!({ "template": "small" }))
                .await;
            scenario.until_phase("web", "Running").await;
            scenario
                .patch_spec("web", json!({ "disks": disk("ReadWriteMany") }))
                .await;
            let machine = scenario
                .until("Machine", "web", |machine| {
                    let storage = condition(machine, "StorageReady");
                    storage["message"]
                        .as_str()
                        .unwrap_or_default()
                        .contains("spec.disks[0].accessMode")
                })
                .await;
            assert_eq!(condition(&machine, "Ready")["status"], "True");
            let vm = scenario.get("VirtualMachine", "web").await;
            let strategy = vm.pointer("/spec/template/spec/evictionStrategy");
            assert_ne!(strategy, Some(&json!("LiveMigrate")));
        },
    );
}

#[test]
fn a_shared_mac_address_is_reported_on_both_machines_until_resolved() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create(
                "NetworkConfiguration",
                json!({ "metadata": { "name": "prod" }, "spec": { "bridge": "br0" } }),
            )
            .await;
        let spec = |address: &str| {
            let network = json!({ "name": "a", "networkName": "prod", "macAddress": address });
            json!({ "template": "small", "powerState": "Stopped", "networks": [network] })
        };
        scenario
            .create_machine("one", spec("02:00:00:00:00:01"))
            .await;
        scenario.until_phase("one", "Stopped").await;
        scenario
            .create_machine("two", spec("02:00:00:00:00:01"))
            .await;
        for (name, other) in [("one", "two"), ("two", "one")] {
            let shared = scenario
                .until_condition(name, "MacAddressShared", "True")
                .await;
            let message = shared["message"].as_str().unwrap();
            assert!(message.contains(&format!("Machine {other:?}")), "{message}");
            scenario.wait(2).await;
            assert!(scenario.has_event(name, "MacAddressShared").await);
        }
        scenario.delete("Machine", "two").await;
        scenario
            .until("Machine", "one", |machine| {
                condition(machine, "MacAddressShared").is_null()
            })
            .await;
    });
}
