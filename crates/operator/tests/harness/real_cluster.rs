//! Real clusters: the cluster of `KUBECONFIG_E2E`, which scenarios share, and API servers of a single
//! scenario.

use std::{
    cell::Cell,
    future::Future,
    path::PathBuf,
    sync::{
        Arc, LazyLock, Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use http::{HeaderValue, Request, header::USER_AGENT};
use jiff::Timestamp;
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use kubevirt_operator::services::{are_reachable, virt_api_handler};
use runtime::client::Transport;
use sandbox::{
    Component, KubeVirtMode, Setup, World,
    virt_api::{self, VirtApi},
};
use serde_json::{Value, json};
use tokio::{
    runtime::Runtime,
    sync::Semaphore,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    null_strings,
    objects::condition,
    runner::Need,
    server::Server,
    services::{Identity, Services, Trust},
    skipped::scenario_name,
};
use crate::SUITE;

/// Parallel scenarios on the shared cluster: each has an operator with a dozen watches.
const MAX_SHARED: usize = 8;
/// Parallel API servers of single scenarios.
const MAX_SERVERS: usize = 3;
/// Timeout of a whole scenario, for code that waits without a timeout of its own.
const SCENARIO_TIMEOUT: Duration = Duration::from_secs(600);
const SETUP_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Namespace in which the actors play KubeVirt.
const KUBEVIRT: &str = "kubevirt";

/// A cluster whose API server is a kube-apiserver.
pub(crate) struct RealCluster {
    pub(crate) client: Client,
    pub(crate) services: Services,
    pub(crate) is_alone: bool,
    capabilities: Capabilities,
    config: Config,
    virt_api: Mutex<Option<VirtApi>>,
    actors: CancellationToken,
    namespaces: AtomicU32,
    cleanups: Mutex<Vec<JoinHandle<()>>>,
    /// Last field, so that it is dropped after its clients.
    _server: Option<Server>,
}

/// Capabilities of a cluster that scenarios may need.
#[derive(Clone, Copy)]
struct Capabilities {
    has_controllers: bool,
    has_services: bool,
    minor: u32,
}

impl Capabilities {
    fn unmet(self, needs: &[Need]) -> Option<Need> {
        let is_met = |need: &Need| match need {
            Need::Controllers => self.has_controllers,
            Need::Services => self.has_services,
            Need::Cel => self.minor >= 30,
            Need::CurrentApis => self.minor >= 21,
        };
        needs.iter().copied().find(|need| !is_met(need))
    }
}

thread_local! {
    /// Whether the scenario of this thread has a server of its own. Scenarios run on their test's thread.
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.enable_all().build().unwrap()
    });
    &RUNTIME
}

/// Whether scenarios run on real clusters.
pub(crate) fn is_requested() -> bool {
    kubeconfig().is_some()
}

fn kubeconfig() -> Option<PathBuf> {
    let path = std::env::var_os("KUBECONFIG_E2E").filter(|path| !path.is_empty());
    path.map(PathBuf::from)
}

/// The cluster that scenarios share.
fn shared() -> &'static Arc<RealCluster> {
    // If the setup fails, the lock is poisoned, so that scenarios do not repeat it one by one.
    static SHARED: LazyLock<Arc<RealCluster>> = LazyLock::new(|| {
        let what = "setup of the shared cluster";
        let setup = async {
            let cluster = RealCluster::connect(kubeconfig().unwrap(), None).await;
            cluster.set_up(&(SUITE.setup)()).await;
            Arc::new(cluster)
        };
        runtime().block_on(within(SETUP_TIMEOUT, what, setup))
    });
    &SHARED
}

/// Runs a scenario in parallel with others. Returns the first need that the cluster does not meet.
pub(crate) fn run_shared(needs: &[Need], scenario: impl Future<Output = ()>) -> Result<(), Need> {
    static PERMITS: Semaphore = Semaphore::const_new(MAX_SHARED);
    let cluster = shared();
    if let Some(need) = cluster.capabilities.unmet(needs) {
        return Err(need);
    }
    runtime().block_on(async {
        let _permit = PERMITS.acquire().await.unwrap();
        within(SCENARIO_TIMEOUT, &scenario_name(), scenario).await;
        let cleanups = std::mem::take(&mut *cluster.cleanups.lock().unwrap());
        for cleanup in cleanups {
            cleanup.await.unwrap();
        }
    });
    Ok(())
}

/// Runs a scenario on servers of its own. Returns the first need that they do not meet.
pub(crate) fn run_alone(needs: &[Need], scenario: impl Future<Output = ()>) -> Result<(), Need> {
    static PERMITS: Semaphore = Semaphore::const_new(MAX_SERVERS);
    // All servers run the same binaries.
    static CAPABILITIES: OnceLock<Capabilities> = OnceLock::new();
    let capabilities = CAPABILITIES
        .get_or_init(|| runtime().block_on(async { RealCluster::start().await.capabilities }));
    if let Some(need) = capabilities.unmet(needs) {
        return Err(need);
    }
    ALONE.set(true);
    runtime().block_on(async {
        let _permit = PERMITS.acquire().await.unwrap();
        within(SCENARIO_TIMEOUT, &scenario_name(), scenario).await;
    });
    Ok(())
}

/// The cluster of this thread's scenario: the shared one, or a new one.
pub(crate) async fn connect(setup: &Setup) -> Arc<RealCluster> {
    if !ALONE.get() {
        return Arc::clone(shared());
    }
    let cluster = within(
        SETUP_TIMEOUT,
        "start of an API server",
        RealCluster::start(),
    )
    .await;
    within(SETUP_TIMEOUT, "setup of the cluster", cluster.set_up(setup)).await;
    Arc::new(cluster)
}

/// Panics after `limit`: a wait without a bound would block the whole suite in real time.
async fn within<T>(limit: Duration, what: &str, work: impl Future<Output = T>) -> T {
    let done = timeout(limit, work).await;
    done.unwrap_or_else(|_| panic!("{what}: timed out after {limit:?}"))
}

impl RealCluster {
    async fn start() -> Self {
        let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
        let server = server.unwrap_or_else(|error| panic!("{error}"));
        Self::connect(server.kubeconfig.clone(), Some(server)).await
    }

    async fn connect(kubeconfig: PathBuf, server: Option<Server>) -> Self {
        let config = runtime::client::connect(&[kubeconfig]).await.unwrap();
        let client = Client::try_from(as_test_user(config.clone())).unwrap();
        let version: Value = get(&client, "/version").await;
        let minor = version["minor"].as_str().unwrap_or_default();
        let minor: u32 = minor.trim_end_matches('+').parse().unwrap_or_default();
        let capabilities = Capabilities {
            has_controllers: has_controllers(&client).await,
            // Scenarios with webhooks are flaky on Kubernetes 1.20.
            has_services: minor >= 21 && are_reachable(&client).await,
            minor,
        };
        Self {
            services: Services::new(client.clone()),
            client,
            is_alone: server.is_some(),
            capabilities,
            config,
            virt_api: Mutex::default(),
            actors: CancellationToken::new(),
            namespaces: AtomicU32::new(0),
            cleanups: Mutex::default(),
            _server: server,
        }
    }

    /// Installs definitions and starts the actors, unless the cluster has nodes of its own.
    async fn set_up(&self, setup: &Setup) {
        let world = setup.world(self.client.clone());
        let definitions = world.definitions();
        let has_kubevirt = world.installs(Component::KubeVirt);
        let all: Vec<Value> = definitions
            .into_iter()
            .chain(setup.definitions.clone())
            .collect();
        sandbox::install_crds(&self.client, all.clone())
            .await
            .unwrap();
        for definition in &all {
            self.until_served(definition).await;
        }
        let nodes = self.all("", "Node").list(&ListParams::default()).await;
        let is_real = |node: &DynamicObject| !node.labels().contains_key(sandbox::NODE_LABEL);
        if nodes.unwrap().iter().any(is_real) {
            println!("this cluster has nodes of its own: its own KubeVirt runs the Machines");
            assert!(
                self.has_virt_api().await,
                "this cluster has nodes of its own, but no KubeVirt: its virt-api is not available"
            );
            return;
        }
        if has_kubevirt {
            null_strings::allow_null_strings(&self.client).await;
        }
        *self.virt_api.lock().unwrap() = Some(VirtApi::of(&world));
        self.start_actors(world).await;
        if setup.kubevirt == KubeVirtMode::Managed {
            self.serve_virt_api(Identity::Secret("kubevirt-virt-api-certs"));
        } else if has_kubevirt && self.can_simulate_virt_api() {
            self.register_virt_api().await;
        }
    }

    /// Waits until objects of a definition can be listed, which is a little after it is established.
    async fn until_served(&self, definition: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let spec = &definition["spec"];
        let path = format!(
            "/apis/{}/{}/{}",
            text(&spec["group"]),
            text(&spec["versions"][0]["name"]),
            text(&spec["names"]["plural"])
        );
        loop {
            let request = Request::get(&path).body(Vec::new()).unwrap();
            match self.client.request::<Value>(request).await {
                Err(kube::Error::Api(status)) if [404, 429, 503].contains(&status.code) => {
                    sleep(POLL_INTERVAL).await;
                }
                listed => return drop(listed.unwrap()),
            }
        }
    }

    async fn start_actors(&self, world: World) {
        let count = world.nodes;
        tokio::spawn(sandbox::run_actors(world, self.actors.clone()));
        let classes = self.all("storage.k8s.io", "StorageClass");
        let nodes = self.all("", "Node");
        loop {
            let class = classes.get_opt("standard").await.unwrap();
            let nodes = nodes.list(&ListParams::default()).await.unwrap();
            let is_ready = |node: &DynamicObject| {
                let node = serde_json::to_value(node).unwrap();
                condition(&node, "Ready")["status"] == "True"
            };
            let ready = nodes.iter().filter(|node| is_ready(node)).count();
            if class.is_some() && ready >= count {
                return;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Whether virt-api can be simulated. Scenarios whose checks need it state [`Need::Services`].
    pub(crate) fn can_simulate_virt_api(&self) -> bool {
        self.capabilities.has_services
    }

    /// Whether virt-api's subresources are available.
    async fn has_virt_api(&self) -> bool {
        let services = self.all("apiregistration.k8s.io", "APIService");
        let service = services.get_opt("v1.subresources.kubevirt.io").await;
        let service = serde_json::to_value(service.unwrap()).unwrap();
        condition(&service, "Available")["status"] == "True"
    }

    /// Registers virt-api's APIServices and webhooks with the API server.
    pub(crate) async fn register_virt_api(&self) {
        create_namespace(&self.client, KUBEVIRT).await;
        let trust = Trust::for_service((KUBEVIRT, virt_api::NAME), Timestamp::now());
        let objects = virt_api::registration(KUBEVIRT, &trust.bundle);
        let (hooks, others): (Vec<Value>, Vec<Value>) = objects
            .into_iter()
            .partition(|object| !object["webhooks"].is_null());
        for object in others {
            // The aggregator of Kubernetes 1.20 does not support server-side apply: it panics.
            if object["kind"] == "APIService" {
                self.create_api_service(object).await;
            } else {
                sandbox::apply(&self.client, object).await.unwrap();
            }
        }
        self.serve_virt_api(trust.identity);
        let available = async {
            while !self.has_virt_api().await {
                sleep(POLL_INTERVAL).await;
            }
        };
        within(
            Duration::from_secs(60),
            "virt-api becoming available",
            available,
        )
        .await;
        for object in hooks {
            sandbox::apply(&self.client, object).await.unwrap();
        }
    }

    async fn create_api_service(&self, object: Value) {
        let api = self.all("apiregistration.k8s.io", "APIService");
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        // An APIService of an earlier suite has another CA.
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted.unwrap()),
        }
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    fn serve_virt_api(&self, identity: Identity) {
        assert!(
            self.can_simulate_virt_api(),
            "this scenario does not state Need::Services"
        );
        let virt_api = self.virt_api.lock().unwrap().clone();
        let handler = virt_api_handler(virt_api.unwrap());
        let service = (KUBEVIRT, virt_api::NAME);
        self.services.serve(service, identity, handler);
    }

    /// Adds work that is awaited at the end of the scenario.
    pub(crate) fn spawn_cleanup(&self, cleanup: impl Future<Output = ()> + Send + 'static) {
        let cleanup = runtime().spawn(cleanup);
        self.cleanups.lock().unwrap().push(cleanup);
    }

    /// Creates a namespace of a unique name.
    pub(crate) async fn namespace(&self) -> String {
        let number = self.namespaces.fetch_add(1, Ordering::Relaxed);
        let name = format!("scenario-{}-{number}", std::process::id());
        create_namespace(&self.client, &name).await;
        name
    }

    /// Transport with the rights of a ServiceAccount.
    pub(crate) fn transport(&self, namespace: &str, account: &str) -> Transport {
        runtime::client::transport(&self.impersonating(namespace, account)).unwrap()
    }

    /// Client with the rights of a ServiceAccount.
    pub(crate) fn client_of(&self, namespace: &str, account: &str) -> Client {
        Client::try_from(self.impersonating(namespace, account)).unwrap()
    }

    fn impersonating(&self, namespace: &str, account: &str) -> Config {
        let mut config = self.config.clone();
        config.auth_info.impersonate = Some(format!("system:serviceaccount:{namespace}:{account}"));
        config.auth_info.impersonate_groups = Some(vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ]);
        config
    }

    fn all(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        all(&self.client, group, kind)
    }
}

impl Drop for RealCluster {
    fn drop(&mut self) {
        self.actors.cancel();
    }
}

/// Sets a user agent other than the operator's: it is the default field manager of a write.
fn as_test_user(mut config: Config) -> Config {
    config.headers.retain(|(name, _)| name != USER_AGENT);
    let agent = HeaderValue::from_static("scenarios");
    config.headers.push((USER_AGENT, agent));
    config
}

/// Whether a namespace controller runs. e2e/run sets `E2E_CONTROLLERS`; without it, this is probed.
async fn has_controllers(client: &Client) -> bool {
    let name = format!("scenario-{}-probe", std::process::id());
    if let Ok(known) = std::env::var("E2E_CONTROLLERS") {
        return known == "true";
    }
    create_namespace(client, &name).await;
    let api = all(client, "", "Namespace");
    api.delete(&name, &DeleteParams::default()).await.unwrap();
    let gone = async {
        while api.get_opt(&name).await.unwrap().is_some() {
            sleep(POLL_INTERVAL).await;
        }
    };
    timeout(Duration::from_secs(10), gone).await.is_ok()
}

async fn create_namespace(client: &Client, name: &str) {
    let namespace = json!({ "metadata": { "name": name } });
    let namespace = serde_json::from_value(namespace).unwrap();
    let api = all(client, "", "Namespace");
    match api.create(&PostParams::default(), &namespace).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        created => drop(created.unwrap()),
    }
}

async fn get(client: &Client, path: &str) -> Value {
    let request = Request::get(path).body(Vec::new()).unwrap();
    client.request(request).await.unwrap()
}

/// API of a cluster-scoped kind.
fn all(client: &Client, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Api::all_with(client.clone(), &resource)
}
