//! Tests of all actors in an in-memory cluster on virtual time, and of the guarantee that equal
//! seeds give equal runs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use actors::{Speed, World};
use apiserver::{ApiServer, Options};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

struct Cluster {
    server: ApiServer,
    client: Client,
    token: CancellationToken,
    actors: tokio::task::JoinHandle<()>,
}

impl Cluster {
    fn start(rng_seed: u64, speed: Speed) -> Self {
        let server = ApiServer::start(Options::seeded(rng_seed));
        let token = CancellationToken::new();
        let world = World {
            speed,
            seed: rng_seed,
            clock: actors::Clock::starting_at(server.now()),
            ..World::new(server.client())
        };
        let actors = tokio::spawn(actors::run(world, token.clone()));
        Self {
            client: server.client(),
            server,
            token,
            actors,
        }
    }

    fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::default_namespaced_with(self.client.clone(), &resource)
    }

    async fn create(&self, object: Value) {
        let text = |field: &str| object[field].as_str().unwrap().to_owned();
        let api = self.api(&text("apiVersion"), &text("kind"));
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    async fn get(&self, api_version: &str, kind: &str, name: &str) -> Value {
        let object = self.api(api_version, kind).get(name).await.unwrap();
        serde_json::to_value(object).unwrap()
    }

    /// All objects of a kind.
    async fn all(&self, api_version: &str, kind: &str) -> Vec<Value> {
        let list = self
            .api(api_version, kind)
            .list(&ListParams::default())
            .await
            .unwrap();
        list.items
            .iter()
            .map(|object| serde_json::to_value(object).unwrap())
            .collect()
    }

    async fn stop(self) {
        self.token.cancel();
        self.actors.await.unwrap();
        self.server.stop().unwrap();
    }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn deployment(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": image, "readinessProbe": {"httpGet": {"port": 80}}}]},
            },
        },
    })
}

fn job() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"},
        "spec": {"completions": 2, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
        }}},
    })
}

fn claim(class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": class},
        "spec": {
            "storageClassName": class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_deployment_rolls_out_and_is_updated_pod_by_pod() {
    let cluster = Cluster::start(1, Speed::Real);
    pass(1).await;
    cluster.create(deployment("1")).await;
    pass(10).await;
    assert_eq!(
        cluster.get("apps/v1", "Deployment", "web").await["status"]["availableReplicas"],
        4
    );
    let change =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "2"}]}}}});
    let api = cluster.api("apps/v1", "Deployment");
    api.patch("web", &PatchParams::default(), &Patch::Strategic(change))
        .await
        .unwrap();
    let mut fewest = 4;
    for _ in 0..60 {
        pass(1).await;
        let status = cluster.get("apps/v1", "Deployment", "web").await["status"].clone();
        fewest = fewest.min(status["availableReplicas"].as_i64().unwrap_or_default());
    }
    assert!(fewest >= 3, "{fewest}");
    let pods = cluster.all("v1", "Pod").await;
    assert_eq!(pods.len(), 4);
    assert!(
        pods.iter()
            .all(|pod| pod["spec"]["containers"][0]["image"] == "2")
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_claims_and_imports_complete() {
    let cluster = Cluster::start(2, Speed::Real);
    pass(1).await;
    cluster.create(job()).await;
    cluster.create(claim("standard")).await;
    cluster.create(claim("local")).await;
    cluster
        .create(json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "metadata": {"name": "disk"},
            "spec": {
                "source": {"http": {"url": "http://images/disk"}},
                "storage": {"resources": {"requests": {"storage": "1Gi"}}},
            },
        }))
        .await;
    pass(30).await;
    assert_eq!(
        cluster.get("batch/v1", "Job", "once").await["status"]["succeeded"],
        2
    );
    let phase = |object: Value| object["status"]["phase"].clone();
    assert_eq!(
        phase(cluster.get("v1", "PersistentVolumeClaim", "standard").await),
        "Bound"
    );
    assert_eq!(
        phase(cluster.get("v1", "PersistentVolumeClaim", "local").await),
        "Pending"
    );
    assert_eq!(
        phase(
            cluster
                .get("cdi.kubevirt.io/v1beta1", "DataVolume", "disk")
                .await
        ),
        "Succeeded"
    );
    cluster
        .create(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user"},
            "spec": {
                "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "local"}}],
            },
        }))
        .await;
    pass(10).await;
    assert_eq!(
        phase(cluster.get("v1", "PersistentVolumeClaim", "local").await),
        "Bound"
    );
    assert_eq!(phase(cluster.get("v1", "Pod", "user").await), "Running");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_cluster_writes_nothing() {
    let cluster = Cluster::start(3, Speed::Instant);
    pass(1).await;
    cluster.create(deployment("1")).await;
    pass(10).await;
    let before = cluster
        .api("v1", "ConfigMap")
        .list(&ListParams::default())
        .await
        .unwrap();
    pass(3600).await;
    let after = cluster
        .api("v1", "ConfigMap")
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(
        before.metadata.resource_version,
        after.metadata.resource_version
    );
    cluster.stop().await;
}

async fn run_scenario(seed: u64) -> Vec<Value> {
    let cluster = Cluster::start(seed, Speed::Fast);
    pass(1).await;
    cluster.create(deployment("1")).await;
    cluster.create(job()).await;
    cluster.create(claim("standard")).await;
    pass(60).await;
    let mut everything = Vec::new();
    for (api_version, kind) in [
        ("v1", "Pod"),
        ("v1", "Event"),
        ("apps/v1", "ReplicaSet"),
        ("batch/v1", "Job"),
    ] {
        everything.extend(cluster.all(api_version, kind).await);
    }
    cluster.stop().await;
    everything
}

#[tokio::test(start_paused = true)]
async fn equal_seeds_give_equal_runs_to_the_last_byte() {
    let (first, second) = (run_scenario(7).await, run_scenario(7).await);
    assert!(!first.is_empty());
    assert_eq!(first, second);
    assert_ne!(first, run_scenario(8).await);
}
