//! How KubeVirt comes into a cluster.

use serde_json::{Value, json};

use crate::{
    census::made,
    film::{Film, is_pod_of, is_ready},
    ground::{Ground, NAME, NAMESPACE, REGISTRY, condition, tell},
};

#[test]
fn objects_are_marked_and_belong_to_nobody() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        let kubevirt = ground.kubevirt().await;
        let id = &kubevirt["status"]["observedDeploymentID"];
        let made = made(&ground).await;
        assert!(made.len() > 80, "{}", made.len());
        for object in made {
            let (name, object) = (object.name, object.object);
            assert!(
                object["metadata"].get("ownerReferences").is_none(),
                "{name}"
            );
            let annotations = &object["metadata"]["annotations"];
            let of = &annotations["kubevirt.io/install-strategy-identifier"];
            assert_eq!(of, id, "{name}");
        }
        let namespace = ground.get("Namespace", NAMESPACE).await;
        let labels = &namespace["metadata"]["labels"];
        assert_eq!(labels["openshift.io/cluster-monitoring"], "true");
    });
}

#[test]
fn generations_and_the_external_bundle_are_as_upstream_leaves_them() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        let kubevirt = ground.kubevirt().await;
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
            let live = ground.get(kind, name).await;
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
        let external = ground.get("ConfigMap", "kubevirt-external-ca").await;
        assert_eq!(external["data"], json!({ "ca-bundle": "" }));
    });
}

#[test]
fn the_status_says_deployed_only_when_every_component_is_ready() {
    tell(async {
        let ground = Ground::begin().await;
        let film = Film::of(&ground, "KubeVirt").await;
        ground.install("v1.9.0").await;
        ground
            .until("KubeVirt", NAME, |kubevirt| {
                kubevirt["status"]["observedDeploymentID"].is_string()
            })
            .await;
        for name in ["virt-api", "virt-controller", "virt-exportproxy"] {
            let deployment = ground.get("Deployment", name).await;
            assert_eq!(deployment["status"]["readyReplicas"], 2, "{name}");
        }
        let handler = ground.get("DaemonSet", "virt-handler").await;
        assert_eq!(handler["status"]["numberReady"], 3);

        let kubevirt = ground.until_deployed("v1.9.0").await;
        let phases = film.values(|kubevirt| kubevirt["status"]["phase"].clone());
        assert_eq!(json!(phases), json!([null, "Deploying", "Deployed"]));
        let available = film.values(|kubevirt| condition(kubevirt, "Available")["status"].clone());
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
    tell(async {
        let ground = Ground::begin().await;
        let pods = Film::of(&ground, "Pod").await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        let made = async |component: &str| {
            pods.first(component, |scene| {
                is_pod_of(&scene.object, component, "v1.9.0")
            })
            .await
        };
        let ready = async |component: &str| {
            pods.first(component, |scene| {
                is_pod_of(&scene.object, component, "v1.9.0") && is_ready(&scene.object)
            })
            .await
        };
        assert!(ready("virt-api").await < made("virt-controller").await);
        assert!(ready("virt-controller").await < made("virt-handler").await);
    });
}

#[test]
fn a_resource_that_names_no_version_gets_that_of_the_operators_image() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install_with(json!({})).await;
        let kubevirt = ground.until_deployed("v1.9.0").await;
        assert_eq!(kubevirt["status"]["observedKubeVirtRegistry"], REGISTRY);
        let api = ground.get("Deployment", "virt-api").await;
        let image = &api["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(*image, format!("{REGISTRY}/virt-api:v1.9.0"));
    });
}

#[test]
fn a_tag_and_a_registry_of_ones_own_are_shown_and_used() {
    tell(async {
        let ground = Ground::begin().await;
        ground
            .install_with(json!({ "imageTag": "v1.9.0-ours", "imageRegistry": "mirror.example" }))
            .await;
        let kubevirt = ground.until_deployed("v1.9.0-ours").await;
        let status = &kubevirt["status"];
        assert_eq!(status["observedKubeVirtRegistry"], "mirror.example");
        for pod in ground.list("Pod").await {
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
            assert!(image.starts_with("mirror.example/"), "{image}");
            assert!(image.ends_with(":v1.9.0-ours"), "{image}");
        }
    });
}

#[test]
fn the_old_finalizer_is_replaced_and_those_of_others_stay() {
    tell(async {
        let mut ground = Ground::with("v1.9.0").await;
        ground.stop_operator().await;
        let finalizers = json!(["example.com/ours", "foregroundDeleteKubeVirt"]);
        let patch = json!({ "metadata": { "finalizers": finalizers } });
        ground.patch("KubeVirt", NAME, patch).await;
        ground.start_operator();
        let wanted = json!(["example.com/ours", "kubevirt.io/foregroundDeleteKubeVirt"]);
        ground
            .until("KubeVirt", NAME, |kubevirt| {
                kubevirt["metadata"]["finalizers"] == wanted
            })
            .await;
    });
}

#[test]
fn of_two_resources_the_first_is_served_and_then_the_other() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install("v1.9.0").await;
        // No webhook is there yet that would refuse it.
        let second = json!({
            "metadata": { "name": "second" },
            "spec": { "imageTag": "v1.8.4", "imageRegistry": REGISTRY },
        });
        ground.create("KubeVirt", second).await;
        ground.until_deployed("v1.9.0").await;
        let second = ground
            .until("KubeVirt", "second", |second| {
                condition(second, "Synchronized")["reason"] == "ExistingDeployment"
            })
            .await;
        assert_eq!(second["metadata"].get("finalizers"), None);
        assert_eq!(second["status"].get("phase"), None);
        ground.delete("KubeVirt", NAME).await;
        ground.until_gone("KubeVirt", NAME).await;
        ground
            .until("KubeVirt", "second", |second| {
                second["status"]["phase"] == "Deployed"
            })
            .await;
    });
}

#[test]
fn kubectl_shows_phase_version_target_and_step() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        let request = http::Request::get(format!(
            "/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/kubevirts"
        ))
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
        let table: Value = ground.client.request(request).await.unwrap();
        let columns = table["columnDefinitions"].as_array().unwrap();
        let columns: Vec<_> = columns.iter().map(|column| &column["name"]).collect();
        let expected = json!(["Name", "Age", "Phase", "Version", "Target", "Step"]);
        assert_eq!(json!(columns), expected);
        let cells = table["rows"][0]["cells"].as_array().unwrap();
        assert_eq!(cells[2..5], ["Deployed", "v1.9.0", "v1.9.0"]);
    });
}

#[test]
fn a_placement_that_no_node_meets_is_told_with_the_pod_and_the_schedulers_words() {
    tell(async {
        let ground = Ground::begin_with_short_deadlines().await;
        let placement = json!({ "nodeSelector": { "zone": "nowhere" } });
        ground
            .install_with(json!({
                "imageTag": "v1.9.0", "imageRegistry": REGISTRY,
                "infra": { "nodePlacement": placement },
            }))
            .await;
        let degraded = ground.until_condition("Degraded", "True").await;
        assert_eq!(degraded["reason"], "Stalled");
        let message = degraded["message"].as_str().unwrap();
        assert!(message.contains("Unschedulable"), "{message}");
        ground.change(json!({ "infra": null })).await;
        ground.until_deployed("v1.9.0").await;
    });
}
