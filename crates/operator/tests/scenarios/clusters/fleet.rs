//! Several sandboxes: one with the Machines and the operator, and others for virtual machines.

use std::{collections::BTreeMap, future, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyDataStream, BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use kube::{
    Api,
    api::{DynamicObject, ListParams},
};
use kubevirt_operator::{
    documents,
    machine::{
        Connector, Operator,
        preview::{Documents, Preview, preview_clusters},
    },
};
use plan::machine::Provider;
use runtime::client::{Body, CallCounter, Transport};
use sandbox::{Cluster, Setup};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tower::{BoxError, ServiceExt as _, service_fn};

use crate::{harness::cluster::documents as files, kinds, scenario::Scenario};

/// Namespace and ServiceAccount of config/rbac/remote.
const ACCOUNT: (&str, &str) = ("kubevirt-operator-remote", "kubevirt-operator-remote");

/// Namespace of the Secrets with kubeconfigs.
const SECRETS: &str = "default";

/// Network between the operator and one cluster. Clones share their state.
#[derive(Clone)]
pub(crate) struct Network {
    is_black_hole: watch::Sender<bool>,
    requests: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Network {
    fn new() -> Self {
        Self {
            is_black_hole: watch::Sender::new(false),
            requests: Arc::default(),
        }
    }

    /// From now on nothing arrives, and nothing says so: requests and open watches hang.
    pub(crate) fn black_hole(&self) {
        self.is_black_hole.send_replace(true);
    }

    /// New requests arrive again. Those that hang never end by themselves.
    pub(crate) fn restore(&self) {
        self.is_black_hole.send_replace(false);
    }

    /// Requests that arrived since the last call, but those of watches.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }

    fn wrap(&self, transport: Transport) -> Transport {
        let network = self.clone();
        let namespace = transport.namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let (network, transport) = (network.clone(), transport.clone());
            async move { network.forward(transport, request).await }
        });
        Transport::new(service, namespace)
    }

    async fn forward(
        &self,
        to: Transport,
        request: Request<Body>,
    ) -> Result<Response<UnsyncBoxBody<bytes::Bytes, BoxError>>, BoxError> {
        if *self.is_black_hole.borrow() {
            future::pending::<()>().await;
        }
        let query = request.uri().query().unwrap_or_default();
        if !query.contains("watch=") {
            let line = format!("{} {}", request.method(), request.uri().path());
            self.requests.lock().unwrap().push(line);
        }
        let response = to.oneshot(request).await?;
        let is_black_hole = self.is_black_hole.subscribe();
        Ok(response.map(|body| {
            let data = BodyDataStream::new(body).map(|data| data.map(Frame::data));
            let state = (data, is_black_hole);
            let body = stream::unfold(state, |(mut data, mut is_black_hole)| async move {
                // The sender lives longer than the body.
                let hole = async {
                    drop(is_black_hole.wait_for(|it| *it).await);
                    future::pending().await
                };
                let next = tokio::select! {
                    biased;
                    next = hole => next,
                    next = data.next() => next,
                }?;
                Some((next, (data, is_black_hole)))
            });
            StreamBody::new(body).boxed_unsync()
        }))
    }
}

/// A cluster for virtual machines.
pub(crate) struct Remote {
    pub(crate) name: &'static str,
    pub(crate) cluster: Cluster,
    pub(crate) network: Network,
}

impl Remote {
    async fn start(name: &'static str, seed: u64) -> Self {
        let setup = Setup::seeded(seed);
        let cluster = Cluster::start(setup, None).await.unwrap();
        for object in files("rbac/remote/remote.yaml") {
            sandbox::apply(&cluster.client(), object).await.unwrap();
        }
        Self {
            name,
            cluster,
            network: Network::new(),
        }
    }

    fn transport(&self) -> Transport {
        let (namespace, account) = ACCOUNT;
        let client = self.cluster.server().client_of(namespace, account);
        self.network.wrap(client.into())
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let resource = kinds::resource(kind);
        let client = self.cluster.client();
        if kinds::is_cluster_scoped(kind) {
            Api::all_with(client, &resource)
        } else {
            Api::namespaced_with(client, "default", &resource)
        }
    }

    pub(crate) async fn find(&self, kind: &str, name: &str) -> Option<Value> {
        let found = self.api(kind).get_opt(name).await.unwrap();
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.find(kind, name).await;
        found.unwrap_or_else(|| panic!("there is no {kind} {name} in {}", self.name))
    }

    pub(crate) async fn list(&self, kind: &str) -> Vec<Value> {
        let found = self.api(kind).list(&ListParams::default()).await.unwrap();
        let items = found.items.into_iter();
        items
            .map(|object| serde_json::to_value(object).unwrap())
            .collect()
    }
}

/// The cluster of the Machines, and others.
pub(crate) struct Fleet {
    pub(crate) scenario: Scenario,
    remotes: BTreeMap<&'static str, Arc<Remote>>,
}

impl Fleet {
    /// Starts the operator with these clusters.
    pub(crate) async fn start(names: &[&'static str]) -> Self {
        let mut fleet = Self::without_operator(names).await;
        fleet.start_operator(|_| {});
        fleet
    }

    pub(crate) async fn without_operator(names: &[&'static str]) -> Self {
        let scenario = Scenario::without_operator_on(|setup| {
            let definition = serde_json::to_value(api::kubevirt_config_crd()).unwrap();
            setup.definitions.push(definition);
        })
        .await;
        let mut remotes = BTreeMap::new();
        for (name, seed) in names.iter().zip(100..) {
            remotes.insert(*name, Arc::new(Remote::start(name, seed).await));
        }
        let fleet = Self { scenario, remotes };
        for name in names {
            fleet.write_secret(name, name).await;
            fleet.write_config(name).await;
        }
        fleet
    }

    pub(crate) fn start_operator(&mut self, change: impl FnOnce(&mut Operator)) {
        let connect = self.connector();
        self.scenario.start_changed_operator(|operator| {
            operator.remote.connect = connect;
            change(operator);
        });
    }

    /// The kubeconfigs of these scenarios are names of clusters.
    fn connector(&self) -> Connector {
        let remotes = self.remotes.clone();
        Arc::new(move |kubeconfig| {
            let name = String::from_utf8(kubeconfig).unwrap_or_default();
            let found = remotes.get(name.as_str()).cloned();
            Box::pin(async move {
                let found = found.ok_or_else(|| "line 1 is invalid".to_owned())?;
                Ok(found.transport())
            })
        })
    }

    pub(crate) fn remote(&self, name: &str) -> &Remote {
        &self.remotes[name]
    }

    /// Writes the Secret of a KubevirtConfig.
    pub(crate) async fn write_secret(&self, config: &str, kubeconfig: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": format!("{config}-kubeconfig"), "namespace": SECRETS },
            "stringData": { "kubeconfig": kubeconfig },
        });
        sandbox::apply(&self.scenario.client, secret).await.unwrap();
    }

    pub(crate) async fn write_config(&self, name: &str) {
        let config = json!({
            "apiVersion": api::API_VERSION, "kind": "KubevirtConfig", "metadata": { "name": name },
            "spec": {
                "name": name, "secretNamespace": SECRETS,
                "kubeconfigSecretRef": format!("{name}-kubeconfig"),
            },
        });
        sandbox::apply(&self.scenario.client, config).await.unwrap();
    }

    /// Creates a small Machine in a cluster.
    pub(crate) async fn create(&self, name: &str, cluster: Option<&str>) {
        self.create_with(name, cluster, json!({ "template": "small" }))
            .await;
    }

    pub(crate) async fn create_with(&self, name: &str, cluster: Option<&str>, spec: Value) {
        let mut machine = json!({ "metadata": { "name": name }, "spec": spec });
        if let Some(cluster) = cluster {
            machine["metadata"]["annotations"] = json!({ "vitistack.io/kubevirt-config": cluster });
        }
        self.scenario.create("Machine", machine).await;
    }

    /// Waits until a condition of a Machine has a status and a reason. Returns the time that it took.
    pub(crate) async fn until_ready(&self, name: &str, status: &str, reason: &str) -> Duration {
        let start = Instant::now();
        self.scenario
            .until("Machine", name, |machine| {
                let ready = ready(machine);
                ready["status"] == status && ready["reason"] == reason
            })
            .await;
        start.elapsed()
    }

    /// Computes the preview of a Machine.
    pub(crate) async fn plan(&self, name: &str, cluster: Option<&str>, spec: Value) -> Preview {
        let mut machine = json!({
            "apiVersion": api::API_VERSION, "kind": "Machine",
            "metadata": { "name": name, "namespace": "default" }, "spec": spec,
        });
        if let Some(cluster) = cluster {
            machine["metadata"]["annotations"] = json!({ "vitistack.io/kubevirt-config": cluster });
        }
        let given = documents::parse(&"given".into(), machine.to_string().as_bytes());
        let given = given.unwrap().into_iter().map(Result::unwrap).collect();
        let documents = Documents::classify(given, "default");
        let now = api::Time((self.scenario.cluster.clock())());
        let client = self.scenario.client.clone();
        let connect = self.connector();
        let provider = Provider::default();
        let found = preview_clusters(client, &documents, provider, None, &connect, now).await;
        found.unwrap()
    }

    /// Waits until a Machine of another namespace satisfies `matches`.
    pub(crate) async fn until_in(
        &self,
        namespace: &str,
        name: &str,
        matches: impl Fn(&Value) -> bool,
    ) {
        let resource = kinds::resource("Machine");
        let client = self.scenario.client.clone();
        let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
        let mut last = Value::Null;
        let waiting = async {
            loop {
                let found = api.get_opt(name).await.unwrap();
                last = serde_json::to_value(found).unwrap();
                if matches(&last) {
                    return;
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        let waited = timeout(Duration::from_secs(3600), waiting).await;
        assert!(waited.is_ok(), "{last}");
    }

    /// Waits until a KubevirtConfig is in a phase.
    pub(crate) async fn until_config(&self, name: &str, phase: &str) -> Value {
        self.scenario
            .until("KubevirtConfig", name, |config| {
                config["status"]["phase"] == phase
            })
            .await
    }
}

/// The condition Ready of a Machine; null if it has none.
pub(crate) fn ready(machine: &Value) -> Value {
    let conditions = machine["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == "Ready");
    found.cloned().unwrap_or_default()
}

/// Requests since the last call, but those that open watches.
pub(crate) fn requests(calls: &CallCounter) -> Vec<String> {
    let calls = calls.take();
    let calls = calls.keys().filter(|(verb, ..)| *verb != "watch");
    calls
        .map(|(verb, resource, code)| format!("{verb} {resource} {code}"))
        .collect()
}
