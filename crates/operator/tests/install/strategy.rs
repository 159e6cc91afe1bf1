//! Retrieval of a release's install strategy.

use std::time::Duration;

use http::Request;
use kube::Client;
use plan::kubevirt::job::STRATEGY_ACCOUNT;
use sandbox::{faults::Faults, synthetic_strategy};
use serde_json::{Value, json};

use crate::{
    recording::WatchRecording,
    scenario::{InstallScenario, NAME, NAMESPACE, REGISTRY, condition, run_scenario},
};

/// Release that no registry has.
const UNKNOWN: &str = "v2.0.0";

#[test]
fn a_job_with_the_image_of_the_release_writes_the_strategy() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        let jobs = WatchRecording::start(&scenario, "Job").await;
        let secrets = json!([{ "name": "pull" }]);
        scenario
            .install_with(json!({
                "imageTag": "v1.9.0", "imageRegistry": REGISTRY, "imagePullPolicy": "Always",
                "imagePullSecrets": secrets,
            }))
            .await;
        let kubevirt = scenario.until_deployed("v1.9.0").await;
        scenario.wait(60).await;

        let job = &jobs.states()[0].object;
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(pod["imagePullSecrets"], secrets);
        assert_eq!(pod["serviceAccountName"], STRATEGY_ACCOUNT);
        let container = &pod["containers"][0];
        let image = format!("{REGISTRY}/virt-operator:v1.9.0");
        assert_eq!(container["image"], image);
        assert_eq!(container["imagePullPolicy"], "Always");
        let config = &kubevirt["status"]["targetDeploymentConfig"];
        let environment = container["env"].as_array().unwrap();
        for (name, value) in [
            ("VIRT_OPERATOR_IMAGE", &json!(image)),
            ("TARGET_INSTALL_NAMESPACE", &json!("kubevirt")),
            ("TARGET_IMAGE_PULL_POLICY", &json!("Always")),
            ("TARGET_DEPLOYMENT_CONFIG", config),
        ] {
            let wanted = json!({ "name": name, "value": value });
            assert!(environment.contains(&wanted), "{wanted}: {environment:#?}");
        }
        assert_eq!(scenario.list("Job").await, Vec::<Value>::new());

        let kept = strategies(&scenario).await;
        assert_eq!(kept.len(), 1);
        let encoding =
            &kept[0]["metadata"]["annotations"]["kubevirt.io/install-strategy-cm-encoding"];
        assert_eq!(encoding, "gzip+base64");
    });
}

/// Status code of a request.
async fn status_code(client: &Client, method: &str, path: &str, body: Option<Value>) -> u16 {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json");
    let body = body.map(|body| body.to_string().into_bytes());
    let request = request.body(body.unwrap_or_default()).unwrap();
    match client.request::<Value>(request).await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

#[test]
fn a_strategy_job_may_create_its_config_map_and_nothing_else() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        let jobs = WatchRecording::start(&scenario, "Job").await;
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        let job = &jobs.states()[0].object;
        let account = &job["spec"]["template"]["spec"]["serviceAccountName"];
        let account = account.as_str().unwrap();
        assert_ne!(account, "kubevirt-operator", "the operator's own");
        let own = format!("/api/v1/namespaces/{NAMESPACE}");
        let found = format!("{own}/serviceaccounts/{account}");
        assert_eq!(
            status_code(&scenario.client, "GET", &found, None).await,
            200
        );

        let client = scenario.cluster.client_of(NAMESPACE, account);
        let config_map = |dry_run: &str| format!("{own}/configmaps{dry_run}");
        let named =
            || Some(json!({ "metadata": { "generateName": "kubevirt-install-strategy-" } }));
        // Requests of the strategy Job, which fails at any other status code.
        for (method, path, body, code) in [
            (
                "GET",
                "/api/v1/namespaces/openshift-monitoring".to_owned(),
                None,
                404,
            ),
            (
                "GET",
                "/api/v1/namespaces/default/serviceaccounts/prometheus-k8s".to_owned(),
                None,
                404,
            ),
            ("POST", config_map("?dryRun=All"), named(), 200),
        ] {
            assert_eq!(
                status_code(&client, method, &path, body).await,
                code,
                "{method} {path}"
            );
        }
        let kubevirt = format!("/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/kubevirts/{NAME}");
        let token = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {},
        });
        for (method, path, body) in [
            ("GET", config_map(""), None),
            (
                "POST",
                "/api/v1/namespaces/default/configmaps".to_owned(),
                named(),
            ),
            ("GET", format!("{own}/secrets"), None),
            ("GET", format!("{own}/secrets/kubevirt-ca"), None),
            ("POST", format!("{own}/secrets"), named()),
            ("POST", format!("{own}/pods"), named()),
            (
                "POST",
                format!("{own}/serviceaccounts/kubevirt-operator/token"),
                Some(token),
            ),
            ("GET", "/api/v1/namespaces".to_owned(), None),
            ("PATCH", kubevirt, Some(json!({}))),
            (
                "GET",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
                None,
            ),
        ] {
            assert_eq!(
                status_code(&client, method, &path, body).await,
                403,
                "{method} {path}"
            );
        }
    });
}

#[test]
fn an_image_pull_error_is_reported_and_another_version_starts_immediately() {
    run_scenario(async {
        let scenario = InstallScenario::start_with_short_deadlines().await;
        scenario.install(UNKNOWN).await;
        let degraded = scenario.until_condition("Degraded", "True").await;
        assert_eq!(degraded["reason"], "Stalled");
        let message = degraded["message"].as_str().unwrap();
        for words in [
            "Job kubevirt/virt-operator-install-strategy-",
            "container install-strategy-upload: ImagePullBackOff",
            "registry.example/kubevirt/virt-operator:v2.0.0",
        ] {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
        scenario
            .until_event(60, |reason, _| reason == "Stalled")
            .await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(60).await;
        assert_eq!(scenario.list("Job").await, Vec::<Value>::new());
    });
}

#[test]
fn a_failed_job_is_recreated_with_backoff() {
    run_scenario(async {
        let scenario = InstallScenario::start_with(|setup| {
            let faults = "[{kind: Job, name: virt-operator-install-strategy-*-1, fault: Exit=1}]";
            setup.faults = Faults::from_yaml(faults).unwrap();
        })
        .await;
        let jobs = WatchRecording::start(&scenario, "Job").await;
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;

        let failed = jobs.states().into_iter().find_map(|state| {
            let failed = condition(&state.object, "Failed");
            let at = failed["lastTransitionTime"].as_str()?;
            Some(at.parse::<jiff::Timestamp>().unwrap())
        });
        let second = jobs
            .first("a second Job", |state| {
                let name = state.object["metadata"]["name"].as_str().unwrap();
                name.ends_with("-2")
            })
            .await;
        let made = &jobs.states()[second].object["metadata"]["creationTimestamp"];
        let made: jiff::Timestamp = made.as_str().unwrap().parse().unwrap();
        let pause = made.duration_since(failed.unwrap());
        assert!(pause.unsigned_abs() >= Duration::from_secs(10), "{pause}");
        scenario
            .until_event(60, |reason, message| {
                reason == "StrategyJobFailed" && message.contains("the operator retries")
            })
            .await;
    });
}

#[test]
fn an_unschedulable_job_is_reported_and_continues_when_a_node_fits() {
    run_scenario(async {
        let scenario = InstallScenario::start_with_short_deadlines().await;
        let nodes = scenario.list("Node").await;
        let cordon = async |unschedulable: bool| {
            for node in &nodes {
                let name = node["metadata"]["name"].as_str().unwrap();
                let patch = json!({ "spec": { "unschedulable": unschedulable } });
                scenario.patch("Node", name, patch).await;
            }
        };
        cordon(true).await;
        scenario.install("v1.9.0").await;
        let degraded = scenario.until_condition("Degraded", "True").await;
        let message = degraded["message"].as_str().unwrap();
        assert!(message.contains("0/3 nodes are available"), "{message}");
        cordon(false).await;
        scenario.until_deployed("v1.9.0").await;
    });
}

#[test]
fn an_existing_plain_text_strategy_is_used_without_a_job() {
    run_scenario(async {
        let mut scenario = InstallScenario::start().await;
        scenario.install(UNKNOWN).await;
        let kubevirt = until_targeted(&scenario).await;
        // The newer of two strategies is used, whatever its encoding.
        scenario.stop_operator().await;
        put_strategy(&scenario, "a-newer-by-name", &kubevirt, "older.example").await;
        scenario.wait(5).await;
        put_strategy(&scenario, "by-hand", &kubevirt, "newer.example").await;
        scenario.start_operator();
        scenario.until_deployed(UNKNOWN).await;
        let api = scenario.get("Deployment", "virt-api").await;
        let image = &api["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(image, "newer.example/virt-api:v1.9.0");
    });
}

#[test]
fn an_unreadable_strategy_is_reported_and_reread_when_it_changes() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        scenario.install(UNKNOWN).await;
        let kubevirt = until_targeted(&scenario).await;
        put_strategy(&scenario, "by-hand", &kubevirt, REGISTRY).await;
        let good = scenario.get("ConfigMap", "by-hand").await["data"].clone();
        let bad = json!({ "manifests": "kind: [" });
        scenario
            .patch("ConfigMap", "by-hand", json!({ "data": bad }))
            .await;
        scenario.wait(1).await;
        let degraded = scenario.until_condition("Degraded", "True").await;
        assert_eq!(degraded["reason"], "DeploymentFailed");
        let message = degraded["message"].as_str().unwrap();
        for words in ["cannot be read", "delete its ConfigMap"] {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
        scenario
            .patch("ConfigMap", "by-hand", json!({ "data": good }))
            .await;
        scenario.until_deployed(UNKNOWN).await;
    });
}

#[test]
fn the_deployed_strategy_is_kept_until_the_next_version_runs() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.8.4").await;
        scenario
            .set_fault(
                "Deployment",
                "virt-controller",
                "NeverReady=virt-controller:v1.9.0",
            )
            .await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        scenario
            .until("KubeVirt", NAME, |kubevirt| {
                kubevirt["status"]["targetKubeVirtVersion"] == "v1.9.0"
                    && condition(kubevirt, "Progressing")["reason"] == "RollingOutVirtController"
            })
            .await;
        let versions = |kept: &[Value]| {
            let mut versions: Vec<_> = kept.iter().map(version_of).collect();
            versions.sort();
            versions
        };
        assert_eq!(versions(&strategies(&scenario).await), ["v1.8.4", "v1.9.0"]);
        scenario
            .set_fault("Deployment", "virt-controller", "")
            .await;
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(60).await;
        assert_eq!(versions(&strategies(&scenario).await), ["v1.9.0"]);
    });
}

/// Waits until the status has a target deployment ID.
async fn until_targeted(scenario: &InstallScenario) -> Value {
    scenario
        .until("KubeVirt", NAME, |kubevirt| {
            kubevirt["status"]["targetDeploymentID"].is_string()
        })
        .await
}

/// Creates a ConfigMap with the strategy of release 1.9 for the target of a KubeVirt resource.
async fn put_strategy(scenario: &InstallScenario, name: &str, kubevirt: &Value, registry: &str) {
    let config = json!({ "namespace": "kubevirt", "registry": registry });
    let status = &kubevirt["status"];
    let config_map = json!({
        "metadata": {
            "name": name,
            "labels": {
                "app.kubernetes.io/managed-by": "virt-operator",
                "kubevirt.io/install-strategy": "",
            },
            "annotations": {
                "kubevirt.io/install-strategy-version": status["targetKubeVirtVersion"],
                "kubevirt.io/install-strategy-registry": status["targetKubeVirtRegistry"],
                "kubevirt.io/install-strategy-identifier": status["targetDeploymentID"],
            },
        },
        "data": { "manifests": synthetic_strategy("v1.9.0", &config).unwrap() },
    });
    scenario.create("ConfigMap", config_map).await;
}

/// ConfigMaps of strategies.
async fn strategies(scenario: &InstallScenario) -> Vec<Value> {
    let mut all = scenario.list("ConfigMap").await;
    all.retain(|config_map| {
        let labels = &config_map["metadata"]["labels"];
        labels.get("kubevirt.io/install-strategy").is_some()
    });
    all
}

fn version_of(strategy: &Value) -> String {
    let annotations = &strategy["metadata"]["annotations"];
    let version = annotations["kubevirt.io/install-strategy-version"].as_str();
    version.unwrap().to_owned()
}
