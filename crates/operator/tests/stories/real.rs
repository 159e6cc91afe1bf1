//! Real clusters: that of `KUBECONFIG_E2E`, which stories share, and servers that a story has to
//! itself.

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
    empty_texts,
    ground::Need,
    objects::condition,
    server::Server,
    services::{Identity, Services, Trust},
    skipped::story_name,
};
use crate::SUITE;

/// Stories that share a cluster at a time: each has an operator, and with it a dozen watches.
const AT_A_TIME: usize = 8;
/// Servers at a time that a story has to itself.
const SERVERS: usize = 3;
/// Every wait of a story has a bound and says what it was for; this one is for what has none.
const LONGEST_STORY: Duration = Duration::from_secs(600);
const PREPARATION: Duration = Duration::from_secs(120);
const STEP: Duration = Duration::from_millis(50);
/// The namespace of KubeVirt, where the actors play it.
const KUBEVIRT: &str = "kubevirt";

/// A cluster whose API server is a kube-apiserver.
pub(crate) struct Real {
    pub(crate) client: Client,
    pub(crate) services: Services,
    /// Whether no other story uses it.
    pub(crate) is_alone: bool,
    abilities: Abilities,
    config: Config,
    virt_api: Mutex<Option<VirtApi>>,
    actors: CancellationToken,
    begun: AtomicU32,
    cleanups: Mutex<Vec<JoinHandle<()>>>,
    /// Last, so that it outlives who speaks to it.
    _server: Option<Server>,
}

/// What stories may need of a cluster.
#[derive(Clone, Copy)]
struct Abilities {
    has_controllers: bool,
    has_services: bool,
    minor: u32,
}

impl Abilities {
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
    /// Whether the story of this thread has servers to itself. Stories run on their test's thread.
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.enable_all().build().unwrap()
    });
    &RUNTIME
}

/// Whether stories are to run on real clusters.
pub(crate) fn is_wanted() -> bool {
    kubeconfig().is_some()
}

fn kubeconfig() -> Option<PathBuf> {
    let path = std::env::var_os("KUBECONFIG_E2E").filter(|path| !path.is_empty());
    path.map(PathBuf::from)
}

/// The cluster that stories share.
fn shared() -> &'static Arc<Real> {
    // A cluster that could not be prepared is not tried again by each story: the lock remembers.
    static SHARED: LazyLock<Arc<Real>> = LazyLock::new(|| {
        let what = "the preparation of the cluster";
        let preparing = async {
            let cluster = Real::connect(kubeconfig().unwrap(), None).await;
            cluster.set_up(&(SUITE.setup)()).await;
            Arc::new(cluster)
        };
        runtime().block_on(within(PREPARATION, what, preparing))
    });
    &SHARED
}

/// Runs a story beside others, unless the cluster lacks something that it needs: then says what.
pub(crate) fn tell(needs: &[Need], story: impl Future<Output = ()>) -> Result<(), Need> {
    static PERMITS: Semaphore = Semaphore::const_new(AT_A_TIME);
    let cluster = shared();
    if let Some(need) = cluster.abilities.unmet(needs) {
        return Err(need);
    }
    runtime().block_on(async {
        let _permit = PERMITS.acquire().await.unwrap();
        within(LONGEST_STORY, &story_name(), story).await;
        let cleanups = std::mem::take(&mut *cluster.cleanups.lock().unwrap());
        for cleanup in cleanups {
            cleanup.await.unwrap();
        }
    });
    Ok(())
}

/// Runs a story that has its servers to itself.
pub(crate) fn tell_alone(needs: &[Need], story: impl Future<Output = ()>) -> Result<(), Need> {
    static PERMITS: Semaphore = Semaphore::const_new(SERVERS);
    // All servers are of the same programs.
    static ABILITIES: OnceLock<Abilities> = OnceLock::new();
    let abilities =
        ABILITIES.get_or_init(|| runtime().block_on(async { Real::start().await.abilities }));
    if let Some(need) = abilities.unmet(needs) {
        return Err(need);
    }
    ALONE.set(true);
    runtime().block_on(async {
        let _permit = PERMITS.acquire().await.unwrap();
        within(LONGEST_STORY, &story_name(), story).await;
    });
    Ok(())
}

/// The cluster of the story of this thread: that which stories share, or a new one.
pub(crate) async fn cluster(setup: &Setup) -> Arc<Real> {
    if !ALONE.get() {
        return Arc::clone(shared());
    }
    let cluster = within(PREPARATION, "the start of a server", Real::start()).await;
    within(PREPARATION, "its preparation", cluster.set_up(setup)).await;
    Arc::new(cluster)
}

/// Nothing may wait for ever here: time that is real does not jump to the end of a wait.
async fn within<T>(limit: Duration, what: &str, doing: impl Future<Output = T>) -> T {
    let done = timeout(limit, doing).await;
    done.unwrap_or_else(|_| panic!("{what} did not end in {limit:?}"))
}

impl Real {
    async fn start() -> Self {
        let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
        let server = server.unwrap_or_else(|error| panic!("{error}"));
        Self::connect(server.kubeconfig.clone(), Some(server)).await
    }

    async fn connect(kubeconfig: PathBuf, server: Option<Server>) -> Self {
        let config = runtime::client::connect(&[kubeconfig]).await.unwrap();
        let client = Client::try_from(somebody_else(config.clone())).unwrap();
        let version: Value = get(&client, "/version").await;
        let minor = version["minor"].as_str().unwrap_or_default();
        let minor: u32 = minor.trim_end_matches('+').parse().unwrap_or_default();
        let abilities = Abilities {
            has_controllers: has_controllers(&client).await,
            // Stories with webhooks do not pass reliably on Kubernetes 1.20.
            has_services: minor >= 21 && are_reachable(&client).await,
            minor,
        };
        Self {
            services: Services::new(client.clone()),
            client,
            is_alone: server.is_some(),
            abilities,
            config,
            virt_api: Mutex::default(),
            actors: CancellationToken::new(),
            begun: AtomicU32::new(0),
            cleanups: Mutex::default(),
            _server: server,
        }
    }

    /// Has the actors act as a setup says, in a cluster that has no nodes of its own.
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
            self.until_listed(definition).await;
        }
        let nodes = self.all("", "Node").list(&ListParams::default()).await;
        let is_real = |node: &DynamicObject| !node.labels().contains_key(sandbox::NODE_LABEL);
        if nodes.unwrap().iter().any(is_real) {
            println!("this cluster has nodes of its own: its own KubeVirt runs the Machines");
            return;
        }
        if has_kubevirt {
            empty_texts::make_room(&self.client).await;
        }
        *self.virt_api.lock().unwrap() = Some(VirtApi::of(&world));
        self.act(world).await;
        if setup.kubevirt == KubeVirtMode::Managed {
            self.serve_virt_api(Identity::Secret("kubevirt-virt-api-certs"));
        } else if has_kubevirt {
            self.register_virt_api(Component::KubeVirt).await;
        }
    }

    /// Waits until objects of a definition can be listed: a kind is served a little before that.
    async fn until_listed(&self, definition: &Value) {
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
                    sleep(STEP).await;
                }
                listed => return drop(listed.unwrap()),
            }
        }
    }

    async fn act(&self, world: World) {
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
            sleep(STEP).await;
        }
    }

    /// Tells the API server of virt-api, once there is KubeVirt for it to serve.
    pub(crate) async fn register_virt_api(&self, component: Component) {
        if component != Component::KubeVirt || !self.abilities.has_services {
            return;
        }
        create_namespace(&self.client, KUBEVIRT).await;
        let trust = Trust::of((KUBEVIRT, virt_api::NAME), Timestamp::now());
        let objects = virt_api::registration(KUBEVIRT, &trust.bundle);
        let (hooks, others): (Vec<Value>, Vec<Value>) = objects
            .into_iter()
            .partition(|object| !object["webhooks"].is_null());
        for object in others {
            // The aggregator of Kubernetes 1.20 has no field manager, and panics at an apply.
            if object["kind"] == "APIService" {
                self.create_api_service(object).await;
            } else {
                sandbox::apply(&self.client, object).await.unwrap();
            }
        }
        self.serve_virt_api(trust.identity);
        let served = self.all("apiregistration.k8s.io", "APIService");
        let is_served = async {
            loop {
                let service = served.get("v1.subresources.kubevirt.io").await.unwrap();
                let service = serde_json::to_value(service).unwrap();
                if condition(&service, "Available")["status"] == "True" {
                    return;
                }
                sleep(STEP).await;
            }
        };
        within(Duration::from_secs(60), "the wait for virt-api", is_served).await;
        for object in hooks {
            sandbox::apply(&self.client, object).await.unwrap();
        }
    }

    async fn create_api_service(&self, object: Value) {
        let api = self.all("apiregistration.k8s.io", "APIService");
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        // One of an earlier suite has another CA.
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted.unwrap()),
        }
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    fn serve_virt_api(&self, identity: Identity) {
        if !self.abilities.has_services {
            return;
        }
        let virt_api = self.virt_api.lock().unwrap().clone();
        let Some(virt_api) = virt_api else {
            return;
        };
        let handler = virt_api_handler(virt_api);
        let service = (KUBEVIRT, virt_api::NAME);
        self.services.answer_at(service, identity, handler);
    }

    /// Has something done at the end of the story.
    pub(crate) fn at_the_end(&self, cleanup: impl Future<Output = ()> + Send + 'static) {
        let cleanup = runtime().spawn(cleanup);
        self.cleanups.lock().unwrap().push(cleanup);
    }

    /// A namespace that nobody else has.
    pub(crate) async fn namespace(&self) -> String {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let name = format!("story-{}-{number}", std::process::id());
        create_namespace(&self.client, &name).await;
        name
    }

    /// A way to the API server, with the rights of a service account.
    pub(crate) fn transport(&self, namespace: &str, account: &str) -> Transport {
        runtime::client::transport(&self.impersonating(namespace, account)).unwrap()
    }

    /// A client with the rights of a service account.
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

impl Drop for Real {
    fn drop(&mut self) {
        self.actors.cancel();
    }
}

/// Not the operator: whose fields are whose is told by the user agent, where nobody says.
fn somebody_else(mut config: Config) -> Config {
    config.headers.retain(|(name, _)| name != USER_AGENT);
    let agent = HeaderValue::from_static("stories");
    config.headers.push((USER_AGENT, agent));
    config
}

/// Whether somebody ends namespaces. A cluster of e2e/run says so; others are tried.
async fn has_controllers(client: &Client) -> bool {
    let name = format!("story-{}-probe", std::process::id());
    if let Ok(known) = std::env::var("E2E_CONTROLLERS") {
        return known == "true";
    }
    create_namespace(client, &name).await;
    let api = all(client, "", "Namespace");
    api.delete(&name, &DeleteParams::default()).await.unwrap();
    let gone = async {
        while api.get_opt(&name).await.unwrap().is_some() {
            sleep(STEP).await;
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

/// Objects of a kind that is in no namespace.
fn all(client: &Client, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Api::all_with(client.clone(), &resource)
}
