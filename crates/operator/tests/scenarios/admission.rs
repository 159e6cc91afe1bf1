//! What is let in, refused and warned of when it is written.

mod disks;
mod person;

use http::Method;
use serde_json::{Value, json};

use crate::{
    ground::{Need, tell_alone, tell_with},
    story::{Story, condition},
};

/// User data from a Secret that only the operator may have.
fn ours() -> Value {
    json!({ "secretRef": { "name": "web-cloud-init" } })
}

fn on(network: &str, mac: &str) -> Value {
    json!([{ "name": "lan", "networkName": network, "macAddress": mac }])
}

#[test]
fn a_machine_that_is_fine_is_taken_and_runs_and_nothing_but_its_spec_is_asked_about() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        story
            .try_create("Machine", "web", json!({ "bootOrder": ["network"] }))
            .await
            .is_silent();
        story.until_phase("web", "Running").await;
        let machine = story.get("Machine", "web").await;
        let finalizers = &machine["metadata"]["finalizers"];
        assert_eq!(finalizers[0], "machine.vitistack.io/cleanup");
        let labelled = json!({ "metadata": { "labels": { "team": "a" } } });
        story
            .try_patch("Machine", "web", labelled)
            .await
            .is_silent();
        story.counts("machines", "allowed", 1);
        let stopped = json!({ "spec": { "powerState": "Stopped" } });
        story.try_patch("Machine", "web", stopped).await.is_silent();
        story.counts("machines", "allowed", 2);
        story.try_delete("Machine", "web").await.is_silent();
        story.until_gone("Machine", "web").await;
        story.counts("machines", "allowed", 2);
    });
}

#[test]
fn amounts_above_an_exbibyte_are_refused_by_the_api_server_itself() {
    tell_with(&[Need::Cel], async {
        let story = Story::without_operator().await;
        let disks = json!([{ "name": "a", "size": "1e99" }]);
        for (field, spec) in [
            ("spec.memory", json!({ "memory": "1e99" })),
            (
                "spec.memory",
                json!({ "memory": 9_223_372_036_854_775_807_i64 }),
            ),
            (
                "spec.resources.memory.size",
                json!({ "resources": { "memory": { "size": "2Ei" } } }),
            ),
            ("spec.disks[0].size", json!({ "disks": disks })),
        ] {
            let answer = story.try_create("Machine", "huge", spec).await;
            answer.refuses(&[field, "must be at most 1Ei"]);
        }
        let bounds = ["quantity", "minQuantity", "maxQuantity"];
        let memory: serde_json::Map<_, _> = bounds
            .map(|bound| (bound.to_owned(), json!("1e99")))
            .into_iter()
            .collect();
        let class = json!({ "cpu": { "cores": 1 }, "memory": memory, "disks": disks });
        let answer = story.try_create("MachineClass", "huge", class).await;
        answer.refuses(&[
            "spec.memory.quantity: Invalid value: \"1e99\": must be at most 1Ei",
            "spec.memory.minQuantity: Invalid value: \"1e99\": must be at most 1Ei",
            "spec.memory.maxQuantity: Invalid value: \"1e99\": must be at most 1Ei",
            "spec.disks[0].size: Invalid value: \"1e99\": must be at most 1Ei",
        ]);
        story
            .try_create(
                "Machine",
                "large",
                json!({ "memory": "1Ei", "powerState": "Stopped" }),
            )
            .await
            .is_silent();
    });
}

#[test]
fn a_copy_from_a_namespace_that_no_setting_names_is_refused() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        let disk = |source: Value| json!([{ "name": "root", "size": "1Gi", "source": source }]);
        for kind in ["pvc", "snapshot", "ref"] {
            let source = json!({ kind: { "name": "gold", "namespace": "elsewhere" } });
            let spec = json!({ "disks": disk(source) });
            let field = format!("spec.disks[0].source.{kind}.namespace");
            let answer = story.try_create("Machine", "web", spec).await;
            answer.refuses(&[&field, "CLONE_SOURCE_NAMESPACES", "\"elsewhere\""]);
        }
        assert!(story.find("Machine", "web").await.is_none());
        // A namespace that the settings name, and the Machine's own.
        for (name, namespace) in [("web", "golden-images"), ("db", story.namespace.as_str())] {
            let source = json!({ "pvc": { "name": "gold", "namespace": namespace } });
            let spec = json!({ "disks": disk(source), "powerState": "Stopped" });
            let answer = story.try_create("Machine", name, spec).await;
            assert!(answer.message.is_empty(), "{}", answer.message);
        }
    });
}

#[test]
fn what_contradicts_itself_is_refused_with_all_that_is_wrong() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        let spec = json!({ "disks": [{ "name": "data" }], "cloudInit": ours() });
        let answer = story.try_create("Machine", "web", spec).await;
        answer.refuses(&[
            "spec.disks[0].size: is missing: give the size of disk \"data\"",
            "spec.cloudInit.secretRef.name: is the name of the Secret that the operator makes",
        ]);
        assert!(story.find("Machine", "web").await.is_none());
    });
}

#[test]
fn what_may_still_come_is_taken_with_warnings_in_the_words_of_the_conditions() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        let spec = json!({
            "machineClass": "gold",
            "networks": [{ "name": "lan", "networkName": "prod" }],
            "disks": [{ "name": "root", "size": "10Gi", "storageClass": "fast" }],
            "cloudInit": { "secretRef": { "name": "users" } },
        });
        let words = [
            "spec.machineClass: no MachineClass is named \"gold\": create it, or name another",
            "spec.networks[0].networkName: no NetworkConfiguration is named \"prod\" in this namespace",
            "spec.disks[0].storageClass: no StorageClass is named \"fast\"",
            "spec.cloudInit.secretRef.name: no Secret is named \"users\" in this namespace",
        ];
        story.try_create("Machine", "web", spec).await.warns(&words);
        let machine = story.until_reason("web", "TemplateNotFound").await;
        let told = condition(&machine, "SpecValid")["message"]
            .as_str()
            .unwrap();
        for words in words {
            let (_, words) = words.split_once(": ").unwrap();
            assert!(told.contains(words), "{words} is not in {told}");
        }
    });
}

#[test]
fn what_was_stored_with_problems_can_be_mended_one_at_a_time() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let mut story = Story::with_webhook().await;
        story.forget_webhook().await;
        let spec = json!({ "disks": [{ "name": "data" }], "cloudInit": ours() });
        story.try_create("Machine", "web", spec).await.is_silent();
        story.until_reason("web", "InvalidSpec").await;
        story.restart_operator().await;

        let label = json!({ "metadata": { "labels": { "team": "a" } } });
        story.try_patch("Machine", "web", label).await.is_silent();
        let mended = json!({ "spec": { "disks": null } });
        let answer = story.try_patch("Machine", "web", mended).await;
        answer.warns(&["spec.cloudInit.secretRef.name: is the name of the Secret that"]);
        let worse = json!({ "spec": { "disks": [{ "name": "more" }] } });
        let answer = story.try_patch("Machine", "web", worse).await;
        answer.refuses(&["spec.disks[0].size: is missing"]);
        assert!(!answer.message.contains("cloudInit"), "{}", answer.message);
        let mended = json!({ "spec": { "cloudInit": null } });
        story.try_patch("Machine", "web", mended).await.is_silent();
        story.until_phase("web", "Running").await;
        story.try_delete("Machine", "web").await.is_silent();
        story.until_gone("Machine", "web").await;
    });
}

#[test]
fn the_name_of_a_virtual_machine_is_had_once() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        let named = json!({ "name": "shop" });
        story
            .try_create("Machine", "web", named.clone())
            .await
            .is_silent();
        story.wait(1).await;
        let words = "VirtualMachine \"shop\" belongs to Machine \"web\"";
        let answer = story.try_create("Machine", "db", named).await;
        answer.refuses(&[&format!("spec.name: {words}")]);
        let answer = story.try_create("Machine", "shop", json!({})).await;
        answer.refuses(&[&format!("metadata.name: {words}")]);

        let theirs = json!({
            "metadata": { "name": "old" },
            "spec": {
                "runStrategy": "Halted",
                "template": { "spec": { "domain": { "devices": {} } } },
            },
        });
        story.create("VirtualMachine", theirs).await;
        let answer = story.try_create("Machine", "old", json!({})).await;
        answer.refuses(&["VirtualMachine \"old\" exists and does not belong to this Machine"]);
        story.delete("VirtualMachine", "old").await;
        story.until_gone("VirtualMachine", "old").await;
        story
            .try_create("Machine", "old", json!({}))
            .await
            .is_silent();
        story.until_phase("old", "Running").await;
    });
}

#[test]
fn a_mac_address_is_had_once_on_a_network() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        for network in ["prod", "test"] {
            story.network(network).await;
        }
        story.wait(1).await;
        let spec = json!({ "networks": on("prod", "52:54:00:aa:bb:cc") });
        story.try_create("Machine", "web", spec).await.is_silent();
        story.wait(1).await;
        let spec = json!({ "networks": on("prod", "52:54:00:AA:BB:CC") });
        let answer = story.try_create("Machine", "db", spec).await;
        answer.refuses(&[
            "spec.networks[0].macAddress: \"52:54:00:AA:BB:CC\" is also that of Machine \"web\"",
        ]);
        let spec = json!({ "networks": on("test", "52:54:00:aa:bb:cc") });
        let answer = story.try_create("Machine", "db", spec).await;
        answer.warns(&["is also that of Machine \"web\" on another network"]);
    });
}

#[test]
fn a_network_in_use_is_not_deleted_and_tells_who_uses_it() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        story.network("prod").await;
        story.wait(1).await;
        let spec = json!({ "networks": on("prod", "52:54:00:aa:bb:cc") });
        story.try_create("Machine", "web", spec).await.is_silent();
        story.until_phase("web", "Running").await;
        let vlan = json!({ "spec": { "vlan": 7 } });
        let answer = story.try_patch("NetworkConfiguration", "prod", vlan).await;
        answer.warns(&["spec.vlan: 1 Machine is on this network (web)"]);
        let answer = story.try_delete("NetworkConfiguration", "prod").await;
        let words = "NetworkConfiguration \"prod\" is in use by 1 Machine (web)";
        answer.refuses_with(409, &[words]);
        let network = story.get("NetworkConfiguration", "prod").await;
        assert!(network["metadata"]["deletionTimestamp"].is_null());

        story.try_delete("Machine", "web").await.is_silent();
        story.wait(1).await;
        story
            .try_delete("NetworkConfiguration", "prod")
            .await
            .is_silent();
        story.until_gone("NetworkConfiguration", "prod").await;
    });
}

#[test]
fn a_namespace_goes_with_a_network_that_is_in_use() {
    tell_alone(&[Need::Controllers, Need::Services, Need::Cel], async {
        let mut story = Story::with_webhook().await;
        story.namespace = "short-lived".to_owned();
        let namespace = json!({ "metadata": { "name": "short-lived" } });
        story.create("Namespace", namespace).await;
        story.network("prod").await;
        story.wait(1).await;
        let spec = json!({ "networks": on("prod", "52:54:00:aa:bb:cc") });
        story.try_create("Machine", "web", spec).await.is_silent();
        story.until_phase("web", "Running").await;
        story.delete("Namespace", "short-lived").await;
        story.until_gone("Namespace", "short-lived").await;
    });
}

#[test]
fn a_class_in_use_goes_with_a_warning_and_one_that_cannot_work_is_refused() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        let class = |cores: i64| {
            json!({
                "cpu": { "cores": cores, "sockets": 64 }, "memory": { "quantity": "1Gi" },
                "disks": [{ "name": "root", "size": "10Gi" }],
            })
        };
        let answer = story.try_create("MachineClass", "huge", class(65)).await;
        answer.refuses(&["spec.cpu: asks for 4160 CPUs"]);
        let small = json!({ "cpu": { "cores": 1 }, "memory": { "quantity": "1Gi" },
            "disks": [{ "name": "root", "size": "10Gi", "storageClass": "fast" }] });
        let answer = story.try_create("MachineClass", "gold", small).await;
        answer.warns(&["spec.disks[0].storageClass: no StorageClass is named \"fast\""]);
        story.wait(1).await;
        let spec = json!({ "machineClass": "gold", "powerState": "Stopped" });
        let answer = story.try_create("Machine", "web", spec).await;
        answer.warns(&[
            "spec.machineClass: disk \"root\" of MachineClass \"gold\": no StorageClass is named \"fast\"",
        ]);
        story.wait(1).await;
        // It has never got the class.
        story.try_delete("MachineClass", "gold").await.is_silent();
        assert!(story.find("MachineClass", "gold").await.is_none());
    });
}

#[test]
fn who_has_a_class_is_told_when_it_is_disabled_or_deleted() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        let class = json!({
            "cpu": { "cores": 1 }, "memory": { "quantity": "1Gi" }, "default": true,
            "disks": [{ "name": "root", "size": "10Gi" }],
        });
        story
            .try_create("MachineClass", "old", class.clone())
            .await
            .is_silent();
        story.wait(2).await;
        let machines = [
            ("unnamed", json!({})),
            ("named", json!({ "machineClass": "old" })),
        ];
        for (machine, spec) in machines {
            story.try_create("Machine", machine, spec).await.is_silent();
            story.until_phase(machine, "Running").await;
        }
        let answer = story.try_create("MachineClass", "new", class).await;
        answer.warns(&["MachineClass \"old\" is marked default too"]);
        story.wait(1).await;
        story
            .try_create("Machine", "late", json!({}))
            .await
            .is_silent();
        story.until_phase("late", "Running").await;

        let users = "2 Machines use this class (default/named, default/unnamed)";
        let off = json!({ "spec": { "enabled": false } });
        let answer = story.try_patch("MachineClass", "old", off).await;
        answer.warns(&[users, "and no other Machine can use it"]);
        story.wait(1).await;
        story
            .try_delete("MachineClass", "old")
            .await
            .warns(&[users]);
        let answer = story.try_delete("MachineClass", "new").await;
        answer.warns(&["1 Machine uses this class (default/late)"]);
    });
}

#[test]
fn what_a_class_has_become_counts_from_the_next_start() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        let class = |size: &str| {
            json!({
                "cpu": { "cores": 1 }, "memory": { "quantity": "1Gi" },
                "disks": [{ "name": "root", "size": size, "storageClass": "fixed" }],
            })
        };
        let made = story.try_create("MachineClass", "gold", class("10Gi"));
        made.await.is_silent();
        story.wait(1).await;
        let spec = json!({ "machineClass": "gold" });
        story.try_create("Machine", "web", spec).await.is_silent();
        story.until_phase("web", "Running").await;
        let larger = json!({ "spec": class("20Gi") });
        story.patch("MachineClass", "gold", larger).await;
        story.wait(1).await;
        let cores = json!({ "spec": { "cpu": { "sockets": 2 } } });
        story.try_patch("Machine", "web", cores).await.is_silent();
        let restart = json!({ "spec": { "restartedAt": "2026-11-15T12:00:00Z" } });
        let answer = story.try_patch("Machine", "web", restart).await;
        answer.warns(&["disk \"root\" cannot grow from 10Gi to 20Gi"]);
    });
}

#[test]
fn without_the_webhook_everything_goes_on() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let mut story = Story::with_webhook().await;
        let broken = json!({ "disks": [{ "name": "data" }] });
        let answer = story.try_create("Machine", "web", broken.clone()).await;
        answer.refuses(&["spec.disks[0].size"]);

        // Nobody is there who knows the cluster; what contradicts itself does so all the same.
        story.stop_operator().await;
        let torn = json!({ "cloudInit": ours() });
        let answer = story.try_create("Machine", "web", torn).await;
        answer.refuses(&["spec.cloudInit.secretRef.name: is the name of the Secret that"]);
        let spec = json!({ "machineClass": "gold" });
        let answer = story.try_create("Machine", "gold", spec).await;
        answer.warns(&["not checked against the cluster"]);
        assert_eq!(answer.warnings.len(), 1, "{:?}", answer.warnings);

        // Nobody is there at all.
        story.forget_webhook().await;
        story.try_create("Machine", "web", broken).await.is_silent();
        story.network("prod").await;
        story
            .try_delete("NetworkConfiguration", "prod")
            .await
            .is_silent();
        story.start_operator();
        story.until_reason("web", "InvalidSpec").await;
        story.until_reason("gold", "TemplateNotFound").await;
    });
}

#[test]
fn a_dry_run_is_told_the_same_and_makes_nothing() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        let machine = |spec: Value| {
            json!({
                "apiVersion": api::API_VERSION, "kind": "Machine",
                "metadata": { "name": "web" }, "spec": spec,
            })
        };
        let all = "?dryRun=All";
        let broken = machine(json!({ "disks": [{ "name": "data" }] }));
        let missing = machine(json!({ "machineClass": "gold" }));
        let json = "application/json";
        let answer = story
            .send(Method::POST, "Machine", all, (json, &broken))
            .await;
        answer.refuses(&["spec.disks[0].size: is missing"]);
        let answer = story
            .send(Method::POST, "Machine", all, (json, &missing))
            .await;
        answer.warns(&["no MachineClass is named \"gold\""]);
        assert!(story.find("Machine", "web").await.is_none());
    });
}

#[test]
fn machines_of_other_namespaces_are_left_to_others() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let mut story = Story::with_webhook().await;
        story.stop_operator().await;
        story.start_operator_with(|options| options.namespaces = vec!["team-a".to_owned()]);
        story.wait(1).await;
        let spec = json!({ "machineClass": "gold" });
        story.try_create("Machine", "web", spec).await.is_silent();
    });
}

#[test]
fn verdicts_are_counted() {
    tell_alone(&[Need::Services, Need::Cel], async {
        let story = Story::with_webhook().await;
        let broken = json!({ "disks": [{ "name": "data" }] });
        story.try_create("Machine", "a", broken).await.refuses(&[]);
        let missing = json!({ "machineClass": "gold" });
        story.try_create("Machine", "b", missing).await.warns(&[]);
        story.counts("machines", "refused", 1);
        story.counts("machines", "warned", 1);
    });
}
