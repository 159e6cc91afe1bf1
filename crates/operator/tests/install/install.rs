//! Installation of KubeVirt.

use serde_json::{Value, json};

use crate::{
    inventory::managed_objects,
    recording::{WatchRecording, is_pod_of, is_ready},
    scenario::{InstallScenario, NAME, NAMESPACE, REGISTRY, condition, run_scenario},
};

#[test]
fn objects_are_labelled_and_have_no_owner_reference() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        let kubevirt = scenario.kubevirt().await;
        let id = &kubevirt["status"]["observedDeploymentID"];
        let objects = managed_objects(&scenario).await;
        assert!(objects.len() > 80, "{}", objects.len());
        for object in objects {
            let (name, object) = (object.name, object.object);
            assert!(
                object["metadata"].get("ownerReferences").is_none(),
                "{name}"
            );
            let annotations = &object["metadata"]["annotations"];
            let of = &annotations["kubevirt.io/install-strategy-identifier"];
            assert_eq!(of, id, "{name}");
        }
        let namespace = scenario.get("Namespace", NAMESPACE).await;
        let labels = &namespace["metadata"]["labels"];
        assert_eq!(labels["openshift.io/cluster-monitoring"], "true");
    });
}

#[test]
fn generations_and_the_external_ca_bundle_match_upstream() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        let kubevirt = scenario.kubevirt().await;
        let generations = kubevirt["status"]["generations"].as_array().unwrap();
        let find = |group: &str, resource: &str, name: &str| {
            let mut found = generations.iter().filter(|generation| {
                generation["group"] == group
                    && generation["resource"] == resource
                    && generation["name"] == name
            });
            let generation = found.next().unwrap_or_else(|| panic!("{resource} {name}"));
            assert_eq!(found.count(), 0);
            generation
        };
        for (kind, resource, name) in [
            ("Deployment", "deployments", "virt-api"),
            ("DaemonSet", "daemonsets", "virt-handler"),
            // Upstream records these under this group.
            (
                "PodDisruptionBudget",
                "poddisruptionbudgets",
                "virt-api-pdb",
            ),
        ] {
            let live = scenario.get(kind, name).await;
            let recorded = find("apps", resource, name);
            assert_eq!(recorded["lastGeneration"], live["metadata"]["generation"]);
            assert_eq!(recorded["namespace"], NAMESPACE);
        }
        let resource = "customresourcedefinitions";
        let recorded = find(
            "apiextensions.k8s.io/v1",
            resource,
            "virtualmachines.kubevirt.io",
        );
        assert_eq!(recorded.get("namespace"), None);
        let external = scenario.get("ConfigMap", "kubevirt-external-ca").await;
        assert_eq!(external["data"], json!({ "ca-bundle": "" }));
    });
}

#[test]
fn the_phase_is_deployed_only_when_every_component_is_ready() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        let recording = WatchRecording::start(&scenario, "KubeVirt").await;
        scenario.install("v1.9.0").await;
        scenario
            .until("KubeVirt", NAME, |kubevirt| {
                kubevirt["status"]["observedDeploymentID"].is_string()
            })
            .await;
        for name in ["virt-api", "virt-controller", "virt-exportproxy"] {
            let deployment = scenario.get("Deployment", name).await;
            assert_eq!(deployment["status"]["readyReplicas"], 2, "{name}");
        }
        let handler = scenario.get("DaemonSet", "virt-handler").await;
        assert_eq!(handler["status"]["numberReady"], 3);

        let kubevirt = scenario.until_deployed("v1.9.0").await;
        let phases = recording.values(|kubevirt| kubevirt["status"]["phase"].clone());
        assert_eq!(json!(phases), json!([null, "Deploying", "Deployed"]));
        let available =
            recording.values(|kubevirt| condition(kubevirt, "Available")["status"].clone());
        assert_eq!(json!(available), json!([null, "False", "True"]));
        assert_eq!(
            kubevirt["metadata"]["finalizers"],
            json!(["kubevirt.io/foregroundDeleteKubeVirt"])
        );
        let status = &kubevirt["status"];
        for (field, value) in [
            ("observedKubeVirtVersion", "v1.9.0"),
            ("targetKubeVirtVersion", "v1.9.0"),
            ("observedKubeVirtRegistry", REGISTRY),
            ("targetKubeVirtRegistry", REGISTRY),
            ("operatorVersion", "0.0.0-test"),
            ("defaultArchitecture", "amd64"),
        ] {
            assert_eq!(status[field], value, "{field}");
        }
        assert_eq!(condition(&kubevirt, "Created")["status"], "True");
        assert_eq!(condition(&kubevirt, "Degraded")["status"], "False");
    });
}

#[test]
fn an_installation_begins_with_virt_api_and_ends_with_virt_handler() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        let pods = WatchRecording::start(&scenario, "Pod").await;
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        let made = async |component: &str| {
            pods.first(component, |state| {
                is_pod_of(&state.object, component, "v1.9.0")
            })
            .await
        };
        let ready = async |component: &str| {
            pods.first(component, |state| {
                is_pod_of(&state.object, component, "v1.9.0") && is_ready(&state.object)
            })
            .await
        };
        assert!(ready("virt-api").await < made("virt-controller").await);
        assert!(ready("virt-controller").await < made("virt-handler").await);
    });
}

#[test]
fn a_resource_without_a_version_gets_the_version_of_the_operator_image() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        scenario.install_with(json!({})).await;
        let kubevirt = scenario.until_deployed("v1.9.0").await;
        assert_eq!(kubevirt["status"]["observedKubeVirtRegistry"], REGISTRY);
        let api = scenario.get("Deployment", "virt-api").await;
        let image = &api["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(*image, format!("{REGISTRY}/virt-api:v1.9.0"));
    });
}

#[test]
fn a_custom_tag_and_registry_are_reported_and_used() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        scenario
            .install_with(json!({ "imageTag": "v1.9.0-ours", "imageRegistry": "mirror.example" }))
            .await;
        let kubevirt = scenario.until_deployed("v1.9.0-ours").await;
        let status = &kubevirt["status"];
        assert_eq!(status["observedKubeVirtRegistry"], "mirror.example");
        for pod in scenario.list("Pod").await {
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
            assert!(image.starts_with("mirror.example/"), "{image}");
            assert!(image.ends_with(":v1.9.0-ours"), "{image}");
        }
    });
}

#[test]
fn the_old_finalizer_is_replaced_and_foreign_finalizers_stay() {
    run_scenario(async {
        let mut scenario = InstallScenario::with_version("v1.9.0").await;
        scenario.stop_operator().await;
        let finalizers = json!(["example.com/ours", "foregroundDeleteKubeVirt"]);
        let patch = json!({ "metadata": { "finalizers": finalizers } });
        scenario.patch("KubeVirt", NAME, patch).await;
        scenario.start_operator();
        let wanted = json!(["example.com/ours", "kubevirt.io/foregroundDeleteKubeVirt"]);
        scenario
            .until("KubeVirt", NAME, |kubevirt| {
                kubevirt["metadata"]["finalizers"] == wanted
            })
            .await;
    });
}

#[test]
fn of_two_resources_only_the_first_is_reconciled_until_its_deletion() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        scenario.install("v1.9.0").await;
        // The webhook that would refuse it does not exist yet.
        let second = json!({
            "metadata": { "name": "second" },
            "spec": { "imageTag": "v1.8.4", "imageRegistry": REGISTRY },
        });
        scenario.create("KubeVirt", second).await;
        scenario.until_deployed("v1.9.0").await;
        let second = scenario
            .until("KubeVirt", "second", |second| {
                condition(second, "Synchronized")["reason"] == "ExistingDeployment"
            })
            .await;
        assert_eq!(second["metadata"].get("finalizers"), None);
        assert_eq!(second["status"].get("phase"), None);
        scenario.delete("KubeVirt", NAME).await;
        scenario.until_gone("KubeVirt", NAME).await;
        scenario
            .until("KubeVirt", "second", |second| {
                second["status"]["phase"] == "Deployed"
            })
            .await;
    });
}

#[test]
fn kubectl_shows_phase_version_target_and_step() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        let request = http::Request::get(format!(
            "/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/kubevirts"
        ))
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
        let table: Value = scenario.client.request(request).await.unwrap();
        let columns = table["columnDefinitions"].as_array().unwrap();
        let columns: Vec<_> = columns.iter().map(|column| &column["name"]).collect();
        let expected = json!(["Name", "Age", "Phase", "Version", "Target", "Step"]);
        assert_eq!(json!(columns), expected);
        let cells = table["rows"][0]["cells"].as_array().unwrap();
        assert_eq!(cells[2..5], ["Deployed", "v1.9.0", "v1.9.0"]);
    });
}

#[test]
fn an_unschedulable_placement_is_reported_with_pod_and_scheduler_message() {
    run_scenario(async {
        let scenario = InstallScenario::start_with_short_deadlines().await;
        let placement = json!({ "nodeSelector": { "zone": "nowhere" } });
        scenario
            .install_with(json!({
                "imageTag": "v1.9.0", "imageRegistry": REGISTRY,
                "infra": { "nodePlacement": placement },
            }))
            .await;
        let degraded = scenario.until_condition("Degraded", "True").await;
        assert_eq!(degraded["reason"], "Stalled");
        let message = degraded["message"].as_str().unwrap();
        assert!(message.contains("Unschedulable"), "{message}");
        scenario.patch_spec(json!({ "infra": null })).await;
        scenario.until_deployed("v1.9.0").await;
    });
}
