//! Admission of Machines, classes and networks: refusals and warnings.

mod disks;
mod requests;

use http::Method;
use serde_json::{Value, json};

use crate::{
    runner::{Need, run_scenario_alone, run_scenario_with},
    scenario::{Scenario, condition},
};

/// User data from a Secret whose name is reserved for the operator.
fn reserved_secret() -> Value {
    json!({ "secretRef": { "name": "web-cloud-init" } })
}

fn on(network: &str, mac: &str) -> Value {
    json!([{ "name": "lan", "networkName": network, "macAddress": mac }])
}

#[test]
fn a_valid_machine_is_admitted_and_only_spec_changes_are_reviewed() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        scenario
            .try_create("Machine", "web", json!({ "bootOrder": ["network"] }))
            .await
            .succeeds();
        scenario.until_phase("web", "Running").await;
        let machine = scenario.get("Machine", "web").await;
        let finalizers = &machine["metadata"]["finalizers"];
        assert_eq!(finalizers[0], "machine.vitistack.io/cleanup");
        let labelled = json!({ "metadata": { "labels": { "team": "a" } } });
        scenario
            .try_patch("Machine", "web", labelled)
            .await
            .succeeds();
        scenario.assert_reviews("machines", "allowed", 1);
        let stopped = json!({ "spec": { "powerState": "Stopped" } });
        scenario
            .try_patch("Machine", "web", stopped)
            .await
            .succeeds();
        scenario.assert_reviews("machines", "allowed", 2);
        scenario.try_delete("Machine", "web").await.succeeds();
        scenario.until_gone("Machine", "web").await;
        scenario.assert_reviews("machines", "allowed", 2);
    });
}

#[test]
fn the_webhook_refuses_the_deletion_of_a_protected_machine() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        let spec = json!({ "bootOrder": ["network"], "deletionProtection": true });
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Running").await;
        let answer = scenario.try_delete("Machine", "web").await;
        answer.is_refused_with(
            409,
            &[
                "Machine \"web\" is protected from deletion",
                "set spec.deletionProtection to false",
            ],
        );
        let machine = scenario.get("Machine", "web").await;
        assert!(machine["metadata"]["deletionTimestamp"].is_null());
        scenario
            .patch_spec("web", json!({ "deletionProtection": false }))
            .await;
        scenario.try_delete("Machine", "web").await.succeeds();
        scenario.until_gone("Machine", "web").await;
    });
}

#[test]
fn amounts_above_an_exbibyte_are_refused_by_the_api_server_itself() {
    run_scenario_with(&[Need::Cel], async {
        let scenario = Scenario::without_operator().await;
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
            let answer = scenario.try_create("Machine", "huge", spec).await;
            answer.is_refused(&[field, "must be at most 1Ei"]);
        }
        let bounds = ["quantity", "minQuantity", "maxQuantity"];
        let memory: serde_json::Map<_, _> = bounds
            .map(|bound| (bound.to_owned(), json!("1e99")))
            .into_iter()
            .collect();
        let class = json!({ "cpu": { "cores": 1 }, "memory": memory, "disks": disks });
        let answer = scenario.try_create("MachineClass", "huge", class).await;
        answer.is_refused(&[
            "spec.memory.quantity: Invalid value: \"1e99\": must be at most 1Ei",
            "spec.memory.minQuantity: Invalid value: \"1e99\": must be at most 1Ei",
            "spec.memory.maxQuantity: Invalid value: \"1e99\": must be at most 1Ei",
            "spec.disks[0].size: Invalid value: \"1e99\": must be at most 1Ei",
        ]);
        scenario
            .try_create(
                "Machine",
                "large",
                json!({ "memory": "1Ei", "powerState": "Stopped" }),
            )
            .await
            .succeeds();
    });
}

#[test]
fn a_clone_from_a_namespace_that_is_not_allowed_is_refused() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        let disk = |source: Value| json!([{ "name": "root", "size": "1Gi", "source": source }]);
        for kind in ["pvc", "snapshot", "ref"] {
            let source = json!({ kind: { "name": "gold", "namespace": "elsewhere" } });
            let spec = json!({ "disks": disk(source) });
            let field = format!("spec.disks[0].source.{kind}.namespace");
            let answer = scenario.try_create("Machine", "web", spec).await;
            answer.is_refused(&[&field, "CLONE_SOURCE_NAMESPACES", "\"elsewhere\""]);
        }
        assert!(scenario.find("Machine", "web").await.is_none());
        // A namespace that the settings allow, and the Machine's own.
        for (name, namespace) in [
            ("web", "golden-images"),
            ("db", scenario.namespace.as_str()),
        ] {
            let source = json!({ "pvc": { "name": "gold", "namespace": namespace } });
            let spec = json!({ "disks": disk(source), "powerState": "Stopped" });
            let answer = scenario.try_create("Machine", name, spec).await;
            assert!(answer.message.is_empty(), "{}", answer.message);
        }
    });
}

#[test]
fn a_contradictory_spec_is_refused_with_all_its_errors() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        let spec = json!({ "disks": [{ "name": "data" }], "cloudInit": reserved_secret() });
        let answer = scenario.try_create("Machine", "web", spec).await;
        answer.is_refused(&[
            "spec.disks[0].size: is missing: give the size of disk \"data\"",
            "spec.cloudInit.secretRef.name: is the name of the Secret that the operator creates",
        ]);
        assert!(scenario.find("Machine", "web").await.is_none());
    });
}

#[test]
fn missing_references_are_admitted_with_the_warnings_of_the_conditions() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
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
        scenario
            .try_create("Machine", "web", spec)
            .await
            .warns(&words);
        let machine = scenario.until_reason("web", "TemplateNotFound").await;
        let message = condition(&machine, "SpecValid")["message"]
            .as_str()
            .unwrap();
        for words in words {
            let (_, words) = words.split_once(": ").unwrap();
            assert!(message.contains(words), "{words} is not in {message}");
        }
    });
}

#[test]
fn problems_of_a_stored_spec_can_be_fixed_one_at_a_time() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let mut scenario = Scenario::with_webhook().await;
        scenario.stop_webhook().await;
        let spec = json!({ "disks": [{ "name": "data" }], "cloudInit": reserved_secret() });
        scenario.try_create("Machine", "web", spec).await.succeeds();
        scenario.until_reason("web", "InvalidSpec").await;
        scenario.restart_operator().await;

        let label = json!({ "metadata": { "labels": { "team": "a" } } });
        scenario.try_patch("Machine", "web", label).await.succeeds();
        let fixed = json!({ "spec": { "disks": null } });
        let answer = scenario.try_patch("Machine", "web", fixed).await;
        answer.warns(&["spec.cloudInit.secretRef.name: is the name of the Secret that"]);
        let worse = json!({ "spec": { "disks": [{ "name": "more" }] } });
        let answer = scenario.try_patch("Machine", "web", worse).await;
        answer.is_refused(&["spec.disks[0].size: is missing"]);
        assert!(!answer.message.contains("cloudInit"), "{}", answer.message);
        let fixed = json!({ "spec": { "cloudInit": null } });
        scenario.try_patch("Machine", "web", fixed).await.succeeds();
        scenario.until_phase("web", "Running").await;
        scenario.try_delete("Machine", "web").await.succeeds();
        scenario.until_gone("Machine", "web").await;
    });
}

#[test]
fn a_virtual_machine_name_can_be_used_once() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        let named = json!({ "name": "shop" });
        scenario
            .try_create("Machine", "web", named.clone())
            .await
            .succeeds();
        scenario.wait(1).await;
        let words = "VirtualMachine \"shop\" belongs to Machine \"web\"";
        let answer = scenario.try_create("Machine", "db", named).await;
        answer.is_refused(&[&format!("spec.name: {words}")]);
        let answer = scenario.try_create("Machine", "shop", json!({})).await;
        answer.is_refused(&[&format!("metadata.name: {words}")]);

        let theirs = json!({
            "metadata": { "name": "old" },
            "spec": {
                "runStrategy": "Halted",
                "template": { "spec": { "domain": { "devices": {} } } },
            },
        });
        scenario.create("VirtualMachine", theirs).await;
        let answer = scenario.try_create("Machine", "old", json!({})).await;
        answer.is_refused(&["VirtualMachine \"old\" exists and does not belong to this Machine"]);
        scenario.delete("VirtualMachine", "old").await;
        scenario.until_gone("VirtualMachine", "old").await;
        scenario
            .try_create("Machine", "old", json!({}))
            .await
            .succeeds();
        scenario.until_phase("old", "Running").await;
    });
}

#[test]
fn a_mac_address_can_be_used_once_per_network() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        for network in ["prod", "test"] {
            scenario.create_network(network).await;
        }
        scenario.wait(1).await;
        let spec = json!({ "networks": on("prod", "52:54:00:aa:bb:cc") });
        scenario.try_create("Machine", "web", spec).await.succeeds();
        scenario.wait(1).await;
        let spec = json!({ "networks": on("prod", "52:54:00:AA:BB:CC") });
        let answer = scenario.try_create("Machine", "db", spec).await;
        answer.is_refused(&[
            "spec.networks[0].macAddress: \"52:54:00:AA:BB:CC\" is also that of Machine \"web\"",
        ]);
        let spec = json!({ "networks": on("test", "52:54:00:aa:bb:cc") });
        let answer = scenario.try_create("Machine", "db", spec).await;
        answer.warns(&["is also that of Machine \"web\" on another network"]);
    });
}

#[test]
fn deletion_of_a_network_in_use_is_refused_with_its_users() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        scenario.create_network("prod").await;
        scenario.wait(1).await;
        let spec = json!({ "networks": on("prod", "52:54:00:aa:bb:cc") });
        scenario.try_create("Machine", "web", spec).await.succeeds();
        scenario.until_phase("web", "Running").await;
        let vlan = json!({ "spec": { "vlan": 7 } });
        let answer = scenario
            .try_patch("NetworkConfiguration", "prod", vlan)
            .await;
        answer.warns(&["spec.vlan: 1 Machine is on this network (web)"]);
        let answer = scenario.try_delete("NetworkConfiguration", "prod").await;
        let words = "NetworkConfiguration \"prod\" is in use by 1 Machine (web)";
        answer.is_refused_with(409, &[words]);
        let network = scenario.get("NetworkConfiguration", "prod").await;
        assert!(network["metadata"]["deletionTimestamp"].is_null());

        scenario.try_delete("Machine", "web").await.succeeds();
        scenario.wait(1).await;
        scenario
            .try_delete("NetworkConfiguration", "prod")
            .await
            .succeeds();
        scenario.until_gone("NetworkConfiguration", "prod").await;
    });
}

#[test]
fn a_namespace_with_a_network_in_use_can_be_deleted() {
    run_scenario_alone(&[Need::Controllers, Need::Services, Need::Cel], async {
        let mut scenario = Scenario::with_webhook().await;
        scenario.namespace = "short-lived".to_owned();
        let namespace = json!({ "metadata": { "name": "short-lived" } });
        scenario.create("Namespace", namespace).await;
        scenario.create_network("prod").await;
        scenario.wait(1).await;
        let spec = json!({ "networks": on("prod", "52:54:00:aa:bb:cc") });
        scenario.try_create("Machine", "web", spec).await.succeeds();
        scenario.until_phase("web", "Running").await;
        scenario.delete("Namespace", "short-lived").await;
        scenario.until_gone("Namespace", "short-lived").await;
    });
}

#[test]
fn deletion_of_a_class_in_use_warns_and_an_invalid_class_is_refused() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        let class = |cores: i64| {
            json!({
                "cpu": { "cores": cores, "sockets": 64 }, "memory": { "quantity": "1Gi" },
                "disks": [{ "name": "root", "size": "10Gi" }],
            })
        };
        let answer = scenario.try_create("MachineClass", "huge", class(65)).await;
        answer.is_refused(&["spec.cpu: asks for 4160 CPUs"]);
        let small = json!({ "cpu": { "cores": 1 }, "memory": { "quantity": "1Gi" },
            "disks": [{ "name": "root", "size": "10Gi", "storageClass": "fast" }] });
        let answer = scenario.try_create("MachineClass", "gold", small).await;
        answer.warns(&["spec.disks[0].storageClass: no StorageClass is named \"fast\""]);
        scenario.wait(1).await;
        let spec = json!({ "machineClass": "gold", "powerState": "Stopped" });
        let answer = scenario.try_create("Machine", "web", spec).await;
        answer.warns(&[
            "spec.machineClass: disk \"root\" of MachineClass \"gold\": no StorageClass is named \"fast\"",
        ]);
        scenario.wait(1).await;
        // The Machine never used the class.
        scenario.try_delete("MachineClass", "gold").await.succeeds();
        assert!(scenario.find("MachineClass", "gold").await.is_none());
    });
}

#[test]
fn disabling_or_deleting_a_class_warns_with_its_users() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        let class = json!({
            "cpu": { "cores": 1 }, "memory": { "quantity": "1Gi" }, "default": true,
            "disks": [{ "name": "root", "size": "10Gi" }],
        });
        scenario
            .try_create("MachineClass", "old", class.clone())
            .await
            .succeeds();
        scenario.wait(2).await;
        let machines = [
            ("unnamed", json!({})),
            ("named", json!({ "machineClass": "old" })),
        ];
        for (machine, spec) in machines {
            scenario
                .try_create("Machine", machine, spec)
                .await
                .succeeds();
            scenario.until_phase(machine, "Running").await;
        }
        let answer = scenario.try_create("MachineClass", "new", class).await;
        answer.warns(&["MachineClass \"old\" is marked default too"]);
        scenario.wait(1).await;
        scenario
            .try_create("Machine", "late", json!({}))
            .await
            .succeeds();
        scenario.until_phase("late", "Running").await;

        let users = "2 Machines use this class (default/named, default/unnamed)";
        let off = json!({ "spec": { "enabled": false } });
        let answer = scenario.try_patch("MachineClass", "old", off).await;
        answer.warns(&[users, "and no other Machine can use it"]);
        scenario.wait(1).await;
        scenario
            .try_delete("MachineClass", "old")
            .await
            .warns(&[users]);
        let answer = scenario.try_delete("MachineClass", "new").await;
        answer.warns(&["1 Machine uses this class (default/late)"]);
    });
}

#[test]
fn a_changed_class_is_validated_at_the_next_start() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        let class = |size: &str| {
            json!({
                "cpu": { "cores": 1 }, "memory": { "quantity": "1Gi" },
                "disks": [{ "name": "root", "size": size, "storageClass": "fixed" }],
            })
        };
        let made = scenario.try_create("MachineClass", "gold", class("10Gi"));
        made.await.succeeds();
        scenario.wait(1).await;
        let spec = json!({ "machineClass": "gold" });
        scenario.try_create("Machine", "web", spec).await.succeeds();
        scenario.until_phase("web", "Running").await;
        let larger = json!({ "spec": class("20Gi") });
        scenario.patch("MachineClass", "gold", larger).await;
        scenario.wait(1).await;
        let cores = json!({ "spec": { "cpu": { "sockets": 2 } } });
        scenario.try_patch("Machine", "web", cores).await.succeeds();
        let restart = json!({ "spec": { "restartedAt": "2026-11-15T12:00:00Z" } });
        let answer = scenario.try_patch("Machine", "web", restart).await;
        answer.warns(&["disk \"root\" cannot grow from 10Gi to 20Gi"]);
    });
}

#[test]
fn without_the_webhook_machines_are_still_reconciled() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let mut scenario = Scenario::with_webhook().await;
        let broken = json!({ "disks": [{ "name": "data" }] });
        let answer = scenario.try_create("Machine", "web", broken.clone()).await;
        answer.is_refused(&["spec.disks[0].size"]);

        // Without caches, contradictions within the spec are still refused.
        scenario.stop_operator().await;
        let torn = json!({ "cloudInit": reserved_secret() });
        let answer = scenario.try_create("Machine", "web", torn).await;
        answer.is_refused(&["spec.cloudInit.secretRef.name: is the name of the Secret that"]);
        let spec = json!({ "machineClass": "gold" });
        let answer = scenario.try_create("Machine", "gold", spec).await;
        answer.warns(&["not checked against the cluster"]);
        assert_eq!(answer.warnings.len(), 1, "{:?}", answer.warnings);

        // The webhook is unreachable.
        scenario.stop_webhook().await;
        scenario
            .try_create("Machine", "web", broken)
            .await
            .succeeds();
        scenario.create_network("prod").await;
        scenario
            .try_delete("NetworkConfiguration", "prod")
            .await
            .succeeds();
        scenario.start_operator();
        scenario.until_reason("web", "InvalidSpec").await;
        scenario.until_reason("gold", "TemplateNotFound").await;
    });
}

#[test]
fn a_dry_run_gets_the_same_answers_and_stores_nothing() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
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
        let answer = scenario
            .send(Method::POST, "Machine", all, (json, &broken))
            .await;
        answer.is_refused(&["spec.disks[0].size: is missing"]);
        let answer = scenario
            .send(Method::POST, "Machine", all, (json, &missing))
            .await;
        answer.warns(&["no MachineClass is named \"gold\""]);
        assert!(scenario.find("Machine", "web").await.is_none());
    });
}

#[test]
fn machines_of_unwatched_namespaces_are_not_reviewed() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let mut scenario = Scenario::with_webhook().await;
        scenario.stop_operator().await;
        scenario.start_operator_with(|options| options.namespaces = vec!["team-a".to_owned()]);
        scenario.wait(1).await;
        let spec = json!({ "machineClass": "gold" });
        scenario.try_create("Machine", "web", spec).await.succeeds();
    });
}

#[test]
fn admission_verdicts_are_counted() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        let broken = json!({ "disks": [{ "name": "data" }] });
        scenario
            .try_create("Machine", "a", broken)
            .await
            .is_refused(&[]);
        let missing = json!({ "machineClass": "gold" });
        scenario
            .try_create("Machine", "b", missing)
            .await
            .warns(&[]);
        scenario.assert_reviews("machines", "refused", 1);
        scenario.assert_reviews("machines", "warned", 1);
    });
}
