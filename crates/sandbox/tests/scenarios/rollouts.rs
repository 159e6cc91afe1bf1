//! Behaviour that an installer relies on: rollout bounds, and deletion of
//! CustomResourceDefinitions.

use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, ListParams};
use sandbox::{Cluster, Setup};
use serde_json::{Value, json};

use super::{api, cluster_api, create, installed::patch, until};

#[tokio::test(start_paused = true)]
async fn a_daemon_set_rollout_respects_max_unavailable() {
    let setup = Setup {
        nodes: 20,
        ..Setup::seeded(3)
    };
    let cluster = Cluster::start(setup, None).await.unwrap();
    let client = cluster.client();
    let sets = api(&client, "apps", "v1", "DaemonSet");
    let set = |image: &str, most: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "agent"},
            "spec": {
                "selector": {"matchLabels": {"app": "agent"}},
                "updateStrategy": {"rollingUpdate": {"maxUnavailable": most}},
                "template": {
                    "metadata": {"labels": {"app": "agent"}},
                    "spec": {"containers": [{"name": "c", "image": image, "readinessProbe": {"httpGet": {"port": 1}}}]},
                },
            },
        })
    };
    create(&sets, set("registry.example/agent:1", 1.into()))
        .await
        .unwrap();
    until(&sets, "agent", |set| {
        set.data["status"]["numberReady"] == 20
    })
    .await;

    let fault = json!({"metadata": {"annotations": {
        "sandbox.vitistack.io/fail": "NeverReady=agent:2",
    }}});
    patch(&sets, "agent", fault).await;
    patch(&sets, "agent", set("registry.example/agent:2", 1.into())).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let status = |set: &DynamicObject| set.data["status"].clone();
    assert_eq!(
        status(&sets.get("agent").await.unwrap())["updatedNumberScheduled"],
        1
    );
    patch(
        &sets,
        "agent",
        set("registry.example/agent:2", "10%".into()),
    )
    .await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let blocked = status(&sets.get("agent").await.unwrap());
    assert_eq!(blocked["updatedNumberScheduled"], 2);
    assert_eq!(blocked["numberReady"], 18);

    let healed = json!({"metadata": {"annotations": {"sandbox.vitistack.io/fail": null}}});
    patch(&sets, "agent", healed).await;
    until(&sets, "agent", |set| {
        status(set)["numberReady"] == 20 && status(set)["updatedNumberScheduled"] == 20
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_definition_terminates_after_its_objects_and_finalizers() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let definitions = cluster_api(
        &client,
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    );
    let name = "virtualmachinepreferences.instancetype.kubevirt.io";
    let finalizer = json!({"metadata": {"finalizers": ["kubevirt.io/virtOperatorFinalizer"]}});
    patch(&definitions, name, finalizer).await;
    let preferences = api(
        &client,
        "instancetype.kubevirt.io",
        "v1beta1",
        "VirtualMachinePreference",
    );
    let object = json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachinePreference",
        "metadata": {"name": "one", "finalizers": ["example.com/hold"]}, "spec": {},
    });
    create(&preferences, object).await.unwrap();
    definitions
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    let terminating = |definition: &DynamicObject| {
        let conditions = definition.data["status"]["conditions"].as_array().cloned();
        let found = conditions
            .unwrap_or_default()
            .into_iter()
            .find(|condition| condition["type"] == "Terminating");
        found.map(|condition| (condition["status"].clone(), condition["reason"].clone()))
    };
    let in_progress = (json!("True"), json!("InstanceDeletionInProgress"));
    until(&definitions, name, |one| {
        terminating(one) == Some(in_progress.clone())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(
        preferences
            .get("one")
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_some()
    );

    patch(
        &preferences,
        "one",
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    let completed = (json!("False"), json!("InstanceDeletionCompleted"));
    until(&definitions, name, |one| {
        terminating(one) == Some(completed.clone())
    })
    .await;
    patch(
        &definitions,
        name,
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    assert!(definitions.get_opt(name).await.unwrap().is_none());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(preferences.list(&ListParams::default()).await.is_err());
}
