//! Children of a Machine that others delete or change, or that no longer fit it.

use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use kube::api::{Patch, PatchParams};
use sandbox::Component;
use serde_json::{Value, json};

use crate::{
    ground::{Need, tell, tell_alone, tell_in_sandbox},
    line::Fault,
    story::{Story, condition},
};

const SECRET: &str = "web-cloud-init";

async fn with_cloud_init(story: &Story) -> Value {
    let spec = json!({ "template": "small", "cloudInit": { "userData": "#!/bin/sh" } });
    story.machine("web", spec).await;
    story.until_phase("web", "Running").await;
    story.get("Secret", SECRET).await
}

/// More user data than is cached.
fn with_large_user_data() -> Value {
    let user_data = format!("#!/bin/sh\n# {}\n", "a".repeat(32 * 1024));
    json!({ "template": "small", "cloudInit": { "userData": user_data } })
}

/// How often Machines were listed, or read whole.
fn machine_lists(story: &Story) -> u64 {
    let counts = story.calls.snapshot();
    let lists = counts
        .iter()
        .filter(|((verb, of, _), _)| *verb == "list" && of == "machines");
    lists.map(|(_, count)| count).sum()
}

/// Waits until the Secret holds what it did, and nothing else.
async fn until_restored(story: &Story, before: &Value) {
    let restored = |secret: &Value| {
        secret["data"] == before["data"]
            && secret["metadata"]["labels"] == before["metadata"]["labels"]
            && secret["metadata"]["deletionTimestamp"].is_null()
    };
    story.until("Secret", SECRET, restored).await;
}

async fn put_back(story: &Story) -> Vec<String> {
    story.wait(2).await;
    let events = story.events("web").await.into_iter();
    events
        .filter(|(reason, _)| reason == "PutBack")
        .map(|(_, message)| message)
        .collect()
}

/// Changes an object under the name of another field manager.
async fn tamper(story: &Story, kind: &str, name: &str, metadata: Value) {
    let params = PatchParams {
        field_manager: Some("intruder".to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    let patched = story.api(kind).patch(name, &params, &patch).await;
    patched.unwrap();
}

#[test]
fn changes_to_disks_are_put_back_with_the_field_and_the_field_manager() {
    tell(async {
        let story = Story::begin().await;
        let image = json!({ "http": { "url": "https://images.example/debian.qcow2" } });
        let disks = json!([{ "name": "root", "source": image }, { "name": "data", "size": "1Gi" }]);
        let spec = json!({ "template": "small", "disks": disks });
        story.machine("web", spec).await;
        story.until_phase("web", "Running").await;
        let disks = [
            ("PersistentVolumeClaim", "web-data"),
            ("DataVolume", "web-root"),
        ];
        for (kind, name) in disks {
            let before = story.get(kind, name).await;
            let is_as_before = |disk: &Value| {
                ["labels", "annotations", "ownerReferences"]
                    .iter()
                    .all(|of| disk["metadata"][*of] == before["metadata"][*of])
            };
            let owner = json!({
                "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine", "name": "web",
                "uid": story.get("Machine", "web").await["metadata"]["uid"],
            });
            for (metadata, words) in [
                (
                    json!({ "annotations": { "vitistack.io/listed-disk": "no" } }),
                    "intruder: put back metadata.annotations.vitistack.io/listed-disk",
                ),
                (
                    json!({ "labels": { "vitistack.io/retained": "true" } }),
                    "intruder: removed metadata.labels.vitistack.io/retained",
                ),
                (
                    json!({ "labels": { "vitistack.io/machine": "other" } }),
                    "intruder: put back metadata.labels.vitistack.io/machine",
                ),
                (
                    json!({ "labels": { "vitistack.io/managed-by": null } }),
                    "somebody else: put back metadata.labels.vitistack.io/managed-by",
                ),
                (
                    json!({ "ownerReferences": [owner] }),
                    "intruder: removed metadata.ownerReferences",
                ),
            ] {
                // Without its labels a DataVolume is not observed, only its claim.
                if kind == "DataVolume" && words.contains("put back metadata.labels") {
                    continue;
                }
                tamper(&story, kind, name, metadata).await;
                story.until(kind, name, is_as_before).await;
                let expected = format!("{kind} {name} was changed by {words}");
                let reported = put_back(&story).await;
                assert!(
                    reported.iter().any(|found| found.starts_with(&expected)),
                    "{expected} is not in {reported:?}"
                );
            }
        }
        let machine = story.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
    });
}

#[test]
fn a_deleted_cloud_init_secret_is_restored_within_a_second() {
    tell(async {
        let story = Story::begin().await;
        let before = with_cloud_init(&story).await;
        story.delete("Secret", SECRET).await;
        story.wait(1).await;
        let after = story.get("Secret", SECRET).await;
        assert_eq!(after["data"], before["data"]);
        assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
        let told = put_back(&story).await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains("Secret web-cloud-init was deleted"),
            "{told:?}"
        );
        story
            .change("web", json!({ "restartedAt": "2026-01-01T00:00:00Z" }))
            .await;
        story.until_reason("web", "Running").await;
    });
}

#[test]
fn changed_data_of_a_cloud_init_secret_is_restored() {
    tell(async {
        let story = Story::begin().await;
        let before = with_cloud_init(&story).await;
        for change in [
            json!({ "data": { "userdata": "c3RvbGVu" } }),
            json!({ "data": { "userdata": null } }),
            json!({ "data": { "userData": "c3RvbGVu" } }),
            json!({ "data": { "userdata": "c3RvbGVu" }, "immutable": true }),
            json!({ "metadata": { "labels": {
                "vitistack.io/managed-by": null, "vitistack.io/machine": null,
            } } }),
        ] {
            story.patch("Secret", SECRET, change).await;
            until_restored(&story, &before).await;
        }
        let told = put_back(&story).await;
        assert!(
            told.iter()
                .any(|message| message.contains("The data of Secret web-cloud-init was changed")),
            "{told:?}"
        );
        let machine = story.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
        // Once it is as it should be, nothing more is written.
        let writes = story.writes("secrets");
        story.wait(5).await;
        assert_eq!(story.writes("secrets"), writes);
    });
}

#[test]
fn large_cloud_init_data_is_restored_and_read_only_for_that() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", with_large_user_data()).await;
        story.until_phase("web", "Running").await;
        let before = story.get("Secret", SECRET).await;
        story.delete("Secret", SECRET).await;
        until_restored(&story, &before).await;
        assert_eq!(put_back(&story).await.len(), 1);
        let before = machine_lists(&story);
        story.wait(5).await;
        assert_eq!(machine_lists(&story), before);
    });
}

#[test]
fn a_machine_whose_large_cloud_init_data_cannot_be_written_is_not_read_again_at_once() {
    tell(async {
        let story = Story::begin().await;
        let foreign = json!({ "metadata": { "name": SECRET }, "stringData": { "a": "b" } });
        story.create("Secret", foreign).await;
        story.machine("web", with_large_user_data()).await;
        story.until_reason("web", "ForeignObject").await;
        let before = machine_lists(&story);
        story.wait(10).await;
        let more = machine_lists(&story) - before;
        assert!(more <= 10, "read {more} times");
    });
}

#[test]
fn without_a_watch_a_missing_cloud_init_secret_is_restored_when_the_guest_starts() {
    tell(async {
        let mut story = Story::without_operator().await;
        story.start_operator_with(|options| options.watch_secrets = false);
        let before = with_cloud_init(&story).await;
        story.delete("Secret", SECRET).await;
        let old = story.get("VirtualMachineInstance", "web").await;
        story
            .change("web", json!({ "restartedAt": "2026-01-01T00:00:00Z" }))
            .await;
        until_restored(&story, &before).await;
        story
            .until("VirtualMachineInstance", "web", |instance| {
                instance["status"]["phase"] == "Running"
                    && instance["metadata"]["uid"] != old["metadata"]["uid"]
            })
            .await;
    });
}

#[test]
fn an_instance_that_never_started_is_replaced_when_less_is_asked_for() {
    tell(async {
        let story = Story::begin().await;
        let spec = json!({ "template": "small", "memory": "4Ti" });
        story.machine("web", spec).await;
        story.until_reason("web", "InsufficientResources").await;
        let old = story.get("VirtualMachineInstance", "web").await;
        story.change("web", json!({ "memory": "2Gi" })).await;
        story.until_phase("web", "Running").await;
        let new = story.get("VirtualMachineInstance", "web").await;
        assert_ne!(new["metadata"]["uid"], old["metadata"]["uid"]);
        assert_eq!(new["spec"]["domain"]["memory"]["guest"], "2Gi");
        assert!(story.was_told("web", "Replacing").await);

        // A guest that has run is left to its user.
        story.change("web", json!({ "memory": "4Ti" })).await;
        story.wait(8).await;
        let same = story.get("VirtualMachineInstance", "web").await;
        assert_eq!(same["metadata"]["uid"], new["metadata"]["uid"]);
    });
}

#[test]
fn a_machine_type_can_be_cleared_after_it_was_changed() {
    tell(async {
        let story = Story::begin().await;
        let spec = json!({ "template": "small", "powerState": "Stopped" });
        story.machine("web", spec).await;
        story.until_phase("web", "Stopped").await;
        let machine_type = |vm: &Value| {
            vm.pointer("/spec/template/spec/domain/machine/type")
                .cloned()
        };
        story
            .change(
                "web",
                json!({ "domain": { "machine": { "type": "pc-q35-8.2" } } }),
            )
            .await;
        story
            .until("VirtualMachine", "web", |vm| {
                machine_type(vm) == Some("pc-q35-8.2".into())
            })
            .await;
        story
            .change("web", json!({ "domain": null, "memory": "3Gi" }))
            .await;
        let vm = story
            .until("VirtualMachine", "web", |vm| {
                vm["spec"]["template"]["spec"]["domain"]["memory"]["guest"] == "3Gi"
            })
            .await;
        assert_ne!(machine_type(&vm), Some("pc-q35-8.2".into()));
        story.until_reason("web", "Stopped").await;
    });
}

#[test]
fn an_apply_that_leaves_null_is_repeated_without_the_field() {
    tell(async {
        let story = Story::begin().await;
        let machine_type = json!({ "machine": { "type": "pc-q35-9.0" } });
        let spec = json!({ "template": "small", "powerState": "Stopped", "domain": machine_type });
        story.machine("web", spec).await;
        story.until_phase("web", "Stopped").await;
        // The first change of what was created is preceded by another request.
        story.change("web", json!({ "memory": "3Gi" })).await;
        story
            .until("VirtualMachine", "web", |vm| {
                vm["spec"]["template"]["spec"]["domain"]["memory"]["guest"] == "3Gi"
            })
            .await;
        let refused = AtomicBool::new(false);
        story.line.fail(move |method, path| {
            let is_apply = method == Method::PATCH && path.ends_with("/virtualmachines/web");
            (is_apply && !refused.swap(true, Ordering::Relaxed)).then_some(Fault::Invalid(
                "VirtualMachine.kubevirt.io \"web\" is invalid: spec.template.spec.domain.machine: \
                 Invalid value: \"null\": must be of type object",
            ))
        });
        story.calls.take();
        let cleared = json!({ "domain": { "machine": null } });
        story.change("web", cleared).await;
        let domain = "/spec/template/spec/domain/machine/type";
        story
            .until("VirtualMachine", "web", |vm| {
                vm.pointer(domain) != Some(&json!("pc-q35-9.0"))
            })
            .await;
        // What the apply left is found by a live read, which nothing else needs.
        story.until_called("get", "virtualmachines").await;
    });
}

#[test]
fn every_optional_field_can_be_cleared_where_nothing_defaults_virtual_machines() {
    // On a real server there is no virt-api then: what an apply leaves out stays out.
    tell_alone(&[Need::CurrentApis], async {
        let story = Story::begin_with(|setup| {
            setup.without.insert(Component::KubeVirt);
            let definitions = Component::KubeVirt.definitions();
            setup.definitions.extend(definitions);
        })
        .await;
        story
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
        story.machine("web", spec).await;
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
            story.change("web", change).await;
            story
                .until("VirtualMachine", "web", |vm| {
                    vm["spec"]["template"]["spec"]["domain"]["memory"]["guest"] == memory
                })
                .await;
        }
        let vm = story.get("VirtualMachine", "web").await;
        assert_eq!(plan::null::find(&vm), None);
        let machine = story.get("Machine", "web").await;
        assert!(!machine.to_string().contains("refused"), "{machine}");
    });
}

#[test]
fn the_modes_of_a_claim_hold_whatever_the_spec_lists_later() {
    tell_in_sandbox(
        "the StorageClass of real clusters may not allow ReadWriteMany",
        async {
            let story = Story::begin().await;
            let disk = |mode: &str| json!([{ "name": "root", "size": "20Gi", "accessMode": mode }]);
            story.machine("web", json!({ "template": "small" })).await;
            story.until_phase("web", "Running").await;
            story
                .change("web", json!({ "disks": disk("ReadWriteMany") }))
                .await;
            let machine = story
                .until("Machine", "web", |machine| {
                    let storage = condition(machine, "StorageReady");
                    storage["message"]
                        .as_str()
                        .unwrap_or_default()
                        .contains("spec.disks[0].accessMode")
                })
                .await;
            assert_eq!(condition(&machine, "Ready")["status"], "True");
            let vm = story.get("VirtualMachine", "web").await;
            let strategy = vm.pointer("/spec/template/spec/evictionStrategy");
            assert_ne!(strategy, Some(&json!("LiveMigrate")));
        },
    );
}

#[test]
fn two_machines_with_one_mac_address_are_reported_on_both_until_one_lets_go() {
    tell(async {
        let story = Story::begin().await;
        story
            .create(
                "NetworkConfiguration",
                json!({ "metadata": { "name": "prod" }, "spec": { "bridge": "br0" } }),
            )
            .await;
        let spec = |address: &str| {
            let network = json!({ "name": "a", "networkName": "prod", "macAddress": address });
            json!({ "template": "small", "powerState": "Stopped", "networks": [network] })
        };
        story.machine("one", spec("02:00:00:00:00:01")).await;
        story.until_phase("one", "Stopped").await;
        story.machine("two", spec("02:00:00:00:00:01")).await;
        for (name, other) in [("one", "two"), ("two", "one")] {
            let shared = story
                .until_condition(name, "MacAddressShared", "True")
                .await;
            let message = shared["message"].as_str().unwrap();
            assert!(message.contains(&format!("Machine {other:?}")), "{message}");
            story.wait(2).await;
            assert!(story.was_told(name, "MacAddressShared").await);
        }
        story.delete("Machine", "two").await;
        story
            .until("Machine", "one", |machine| {
                condition(machine, "MacAddressShared").is_null()
            })
            .await;
    });
}
