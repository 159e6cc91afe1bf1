//! How the operator comes by what a release consists of.

use std::time::Duration;

use http::Request;
use kube::Client;
use plan::kubevirt::job::STRATEGY_ACCOUNT;
use sandbox::{faults::Faults, synthetic_strategy};
use serde_json::{Value, json};

use crate::{
    film::Film,
    ground::{Ground, NAME, NAMESPACE, REGISTRY, condition, tell},
};

/// A release that no registry has.
const UNKNOWN: &str = "v2.0.0";

#[test]
fn a_job_of_the_releases_own_image_writes_the_strategy() {
    tell(async {
        let ground = Ground::begin().await;
        let jobs = Film::of(&ground, "Job").await;
        let secrets = json!([{ "name": "pull" }]);
        ground
            .install_with(json!({
                "imageTag": "v1.9.0", "imageRegistry": REGISTRY, "imagePullPolicy": "Always",
                "imagePullSecrets": secrets,
            }))
            .await;
        let kubevirt = ground.until_deployed("v1.9.0").await;
        ground.wait(60).await;

        let job = &jobs.scenes()[0].object;
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
        assert_eq!(ground.list("Job").await, Vec::<Value>::new());

        let kept = strategies(&ground).await;
        assert_eq!(kept.len(), 1);
        let encoding =
            &kept[0]["metadata"]["annotations"]["kubevirt.io/install-strategy-cm-encoding"];
        assert_eq!(encoding, "gzip+base64");
    });
}

/// The code of the API server's answer to a request of a client.
async fn answer(client: &Client, method: &str, path: &str, body: Option<Value>) -> u16 {
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
    tell(async {
        let ground = Ground::begin().await;
        let jobs = Film::of(&ground, "Job").await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        let job = &jobs.scenes()[0].object;
        let account = &job["spec"]["template"]["spec"]["serviceAccountName"];
        let account = account.as_str().unwrap();
        assert_ne!(account, "kubevirt-operator", "the operator's own");
        let own = format!("/api/v1/namespaces/{NAMESPACE}");
        let found = format!("{own}/serviceaccounts/{account}");
        assert_eq!(answer(&ground.client, "GET", &found, None).await, 200);

        let client = ground.cluster.client_of(NAMESPACE, account);
        let config_map = |dry_run: &str| format!("{own}/configmaps{dry_run}");
        let named =
            || Some(json!({ "metadata": { "generateName": "kubevirt-install-strategy-" } }));
        // What the dump asks for: it gives up on any other answer than these.
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
                answer(&client, method, &path, body).await,
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
                answer(&client, method, &path, body).await,
                403,
                "{method} {path}"
            );
        }
    });
}

#[test]
fn an_image_that_cannot_be_pulled_is_told_and_another_version_is_tried_at_once() {
    tell(async {
        let ground = Ground::begin_with_short_deadlines().await;
        ground.install(UNKNOWN).await;
        let degraded = ground.until_condition("Degraded", "True").await;
        assert_eq!(degraded["reason"], "Stalled");
        let message = degraded["message"].as_str().unwrap();
        for words in [
            "Job kubevirt/virt-operator-install-strategy-",
            "container install-strategy-upload: ImagePullBackOff",
            "registry.example/kubevirt/virt-operator:v2.0.0",
        ] {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
        ground
            .until_event(60, |reason, _| reason == "Stalled")
            .await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        ground.until_deployed("v1.9.0").await;
        ground.wait(60).await;
        assert_eq!(ground.list("Job").await, Vec::<Value>::new());
    });
}

#[test]
fn a_job_that_fails_is_made_anew_but_not_at_once() {
    tell(async {
        let ground = Ground::begin_with(|setup| {
            let faults = "[{kind: Job, name: virt-operator-install-strategy-*-1, fault: Exit=1}]";
            setup.faults = Faults::from_yaml(faults).unwrap();
        })
        .await;
        let jobs = Film::of(&ground, "Job").await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;

        let failed = jobs.scenes().into_iter().find_map(|scene| {
            let failed = condition(&scene.object, "Failed");
            let at = failed["lastTransitionTime"].as_str()?;
            Some(at.parse::<jiff::Timestamp>().unwrap())
        });
        let second = jobs
            .first("a second Job", |scene| {
                let name = scene.object["metadata"]["name"].as_str().unwrap();
                name.ends_with("-2")
            })
            .await;
        let made = &jobs.scenes()[second].object["metadata"]["creationTimestamp"];
        let made: jiff::Timestamp = made.as_str().unwrap().parse().unwrap();
        let pause = made.duration_since(failed.unwrap());
        assert!(pause.unsigned_abs() >= Duration::from_secs(10), "{pause}");
        ground
            .until_event(60, |reason, message| {
                reason == "StrategyJobFailed" && message.contains("the operator retries")
            })
            .await;
    });
}

#[test]
fn a_job_that_no_node_takes_is_told_and_goes_on_when_one_does() {
    tell(async {
        let ground = Ground::begin_with_short_deadlines().await;
        let nodes = ground.list("Node").await;
        let cordon = async |unschedulable: bool| {
            for node in &nodes {
                let name = node["metadata"]["name"].as_str().unwrap();
                let patch = json!({ "spec": { "unschedulable": unschedulable } });
                ground.patch("Node", name, patch).await;
            }
        };
        cordon(true).await;
        ground.install("v1.9.0").await;
        let degraded = ground.until_condition("Degraded", "True").await;
        let message = degraded["message"].as_str().unwrap();
        assert!(message.contains("0/3 nodes are available"), "{message}");
        cordon(false).await;
        ground.until_deployed("v1.9.0").await;
    });
}

#[test]
fn a_strategy_that_somebody_puts_there_as_plain_text_is_taken_without_a_job() {
    tell(async {
        let mut ground = Ground::begin().await;
        ground.install(UNKNOWN).await;
        let kubevirt = until_targeted(&ground).await;
        // Of two, the newer one counts, and what is in it is of no other encoding.
        ground.stop_operator().await;
        put_strategy(&ground, "a-newer-by-name", &kubevirt, "older.example").await;
        ground.wait(5).await;
        put_strategy(&ground, "by-hand", &kubevirt, "newer.example").await;
        ground.start_operator();
        ground.until_deployed(UNKNOWN).await;
        let api = ground.get("Deployment", "virt-api").await;
        let image = &api["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(image, "newer.example/virt-api:v1.9.0");
    });
}

#[test]
fn a_strategy_that_cannot_be_read_is_told_and_read_again_when_it_changes() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install(UNKNOWN).await;
        let kubevirt = until_targeted(&ground).await;
        put_strategy(&ground, "by-hand", &kubevirt, REGISTRY).await;
        let good = ground.get("ConfigMap", "by-hand").await["data"].clone();
        let bad = json!({ "manifests": "kind: [" });
        ground
            .patch("ConfigMap", "by-hand", json!({ "data": bad }))
            .await;
        ground.wait(1).await;
        let degraded = ground.until_condition("Degraded", "True").await;
        assert_eq!(degraded["reason"], "DeploymentFailed");
        let message = degraded["message"].as_str().unwrap();
        for words in ["cannot be read", "delete its ConfigMap"] {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
        ground
            .patch("ConfigMap", "by-hand", json!({ "data": good }))
            .await;
        ground.until_deployed(UNKNOWN).await;
    });
}

#[test]
fn the_strategy_of_what_runs_is_kept_until_the_next_version_does() {
    tell(async {
        let ground = Ground::with("v1.8.4").await;
        ground
            .fail(
                "Deployment",
                "virt-controller",
                "NeverReady=virt-controller:v1.9.0",
            )
            .await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        ground
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
        assert_eq!(versions(&strategies(&ground).await), ["v1.8.4", "v1.9.0"]);
        ground.fail("Deployment", "virt-controller", "").await;
        ground.until_deployed("v1.9.0").await;
        ground.wait(60).await;
        assert_eq!(versions(&strategies(&ground).await), ["v1.9.0"]);
    });
}

/// Waits until the resource says what is aimed at.
async fn until_targeted(ground: &Ground) -> Value {
    ground
        .until("KubeVirt", NAME, |kubevirt| {
            kubevirt["status"]["targetDeploymentID"].is_string()
        })
        .await
}

/// Puts a strategy into the cluster for what the resource aims at: that of release 1.9.
async fn put_strategy(ground: &Ground, name: &str, kubevirt: &Value, registry: &str) {
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
    ground.create("ConfigMap", config_map).await;
}

/// The ConfigMaps with a strategy.
async fn strategies(ground: &Ground) -> Vec<Value> {
    let mut all = ground.list("ConfigMap").await;
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
