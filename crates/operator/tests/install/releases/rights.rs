//! Installation with the rights of upstream's virt-operator, over a release of it.

use rstest::rstest;
use serde_json::{Value, json};

use super::{Source, data_folder, lifecycle::remove, upgrade_to};
use crate::{
    SUITE,
    harness::cluster::documents,
    inventory::inventory,
    scenario::{InstallScenario, run_scenario},
};

/// Rights that the operator needs beyond those of upstream's virt-operator: it watches PriorityClasses,
/// which releases may contain, and at the removal it deletes pools before their VirtualMachines, which
/// the pools would recreate.
fn additional_rules() -> Value {
    json!([
        {
            "apiGroups": ["scheduling.k8s.io"],
            "resources": ["priorityclasses"],
            "verbs": ["list", "watch"],
        },
        {
            "apiGroups": ["pool.kubevirt.io"],
            "resources": ["virtualmachinepools"],
            "verbs": ["deletecollection"],
        },
    ])
}

/// Roles and bindings of upstream's virt-operator.
fn upstream_rights(source: Source) -> Vec<Value> {
    if source == Source::RealData {
        let file = data_folder().join("v1.9.0/rbac.operator.yaml");
        return serde_saphyr::from_multiple(&std::fs::read_to_string(file).unwrap()).unwrap();
    }
    let rights = SUITE.rights.iter();
    let mut objects: Vec<Value> = rights.flat_map(|file| documents(file)).collect();
    let is_role = |object: &&mut Value| {
        object["kind"] == "ClusterRole" && object["metadata"]["name"] == "virt-operator"
    };
    let role = objects.iter_mut().find(is_role).unwrap();
    let rules = role["rules"].as_array_mut().unwrap();
    rules.retain(|rule| rule["resources"] != json!(["priorityclasses"]));
    for rule in rules.iter_mut() {
        let groups = rule["apiGroups"].as_array_mut().unwrap();
        groups.retain(|group| group != "pool.kubevirt.io");
    }
    rules.push(json!({
        "apiGroups": ["pool.kubevirt.io"], "resources": ["*"], "verbs": ["list"],
    }));
    objects
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn the_rights_of_upstream_virt_operator_suffice_with_few_additions(#[case] source: Source) {
    run_scenario(async {
        let mut scenario = InstallScenario::without_rights(|setup| source.set_up(setup)).await;
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "kubevirt" },
        });
        let objects = [namespace, authentication_reader()].into_iter();
        for object in objects.chain(upstream_rights(source)) {
            sandbox::apply(&scenario.client, object).await.unwrap();
        }
        grant(&scenario, additional_rules()).await;
        scenario.start_operator();
        scenario.wait(60).await;
        let before = inventory(&scenario.client).await;
        scenario.install("v1.7.4").await;
        scenario.until_deployed("v1.7.4").await;
        upgrade_to(&scenario, "v1.9.0").await;
        sandbox::apply(&scenario.client, pool()).await.unwrap();
        remove(&scenario, &before).await;
        let refused = scenario.calls.take();
        let refused: Vec<_> = refused
            .into_keys()
            .filter(|(_, _, code)| code == "403")
            .collect();
        assert!(refused.is_empty(), "{refused:#?}");
    });
}

/// Role that every cluster has. A release binds it, which requires the rights in it.
fn authentication_reader() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {
            "name": "extension-apiserver-authentication-reader", "namespace": "kube-system",
        },
        "rules": [{
            "apiGroups": [""], "resources": ["configmaps"],
            "resourceNames": ["extension-apiserver-authentication"],
            "verbs": ["get", "list", "watch"],
        }],
    })
}

fn pool() -> Value {
    let labels = json!({ "example.com/pool": "web" });
    let domain = json!({ "devices": {} });
    json!({
        "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": labels },
            "virtualMachineTemplate": {
                "metadata": { "labels": labels },
                "spec": {
                    "runStrategy": "Halted",
                    "template": { "metadata": { "labels": labels }, "spec": { "domain": domain } },
                },
            },
        },
    })
}

async fn grant(scenario: &InstallScenario, rules: Value) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "more" }, "rules": rules,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "more" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "more",
        },
        "subjects": [{
            "kind": "ServiceAccount", "name": "kubevirt-operator", "namespace": "kubevirt",
        }],
    });
    for object in [role, binding] {
        sandbox::apply(&scenario.client, object).await.unwrap();
    }
}
