//! The cluster of `KUBECONFIG_E2E`: one for all stories of this process.

use std::{
    future::Future,
    path::PathBuf,
    sync::{
        LazyLock, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use http::{HeaderValue, header::USER_AGENT};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, PostParams},
};
use runtime::client::Transport;
use sandbox::World;
use serde_json::json;
use tokio::{
    runtime::Runtime,
    sync::Semaphore,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{empty_texts, ground::ACCOUNT, kinds, story};

/// Stories that are told at a time: each has an operator, and with it a dozen watches.
const AT_A_TIME: usize = 8;
/// Every wait of a story has a bound and says what it was for; this one is for what has none.
const LONGEST_STORY: Duration = Duration::from_secs(180);
const PREPARATION: Duration = Duration::from_secs(120);
const STEP: Duration = Duration::from_millis(50);

pub(crate) struct Real {
    pub(crate) client: Client,
    pub(crate) has_controllers: bool,
    config: Config,
    runtime: Runtime,
    permits: Semaphore,
    begun: AtomicU32,
    cleanups: Mutex<Vec<JoinHandle<()>>>,
}

/// The cluster, if stories are to be told on one.
pub(crate) fn cluster() -> Option<&'static Real> {
    // A cluster that could not be prepared is not tried again by each story: the lock remembers.
    static CLUSTER: LazyLock<Option<Real>> = LazyLock::new(|| {
        let path = std::env::var_os("KUBECONFIG_E2E").filter(|path| !path.is_empty());
        path.map(|path| Real::prepare(path.into()))
    });
    CLUSTER.as_ref()
}

/// Says of a story that it is left out on this cluster, and why.
pub(crate) fn skip(because: &str) {
    println!("SKIPPED on this cluster: {}: {because}", story_name());
}

/// Tests are threads, and the stories they tell have their names.
fn story_name() -> String {
    let thread = std::thread::current();
    thread.name().unwrap_or("a story").to_owned()
}

/// Nothing may wait for ever here: time that is real does not jump to the end of a wait.
async fn within<T>(limit: Duration, what: &str, doing: impl Future<Output = T>) -> T {
    let done = timeout(limit, doing).await;
    done.unwrap_or_else(|_| panic!("{what} did not end in {limit:?}"))
}

impl Real {
    fn prepare(kubeconfig: PathBuf) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        let preparing = async {
            let config = runtime::client::connect(&[kubeconfig]).await.unwrap();
            let client = Client::try_from(somebody_else(config.clone())).unwrap();
            act(&client).await;
            story::grant(&client).await;
            let has_controllers = ends_namespaces(&client).await;
            (client, config, has_controllers)
        };
        let what = "the preparation of the cluster";
        let (client, config, has_controllers) =
            runtime.block_on(within(PREPARATION, what, preparing));
        Self {
            client,
            has_controllers,
            config,
            runtime,
            permits: Semaphore::new(AT_A_TIME),
            begun: AtomicU32::new(0),
            cleanups: Mutex::default(),
        }
    }

    /// Tells a story in real time, and waits until what it made is gone.
    pub(crate) fn tell(&self, story: impl Future<Output = ()>) {
        self.runtime.block_on(async {
            let _permit = self.permits.acquire().await.unwrap();
            within(LONGEST_STORY, &story_name(), story).await;
            let cleanups = std::mem::take(&mut *self.cleanups.lock().unwrap());
            for cleanup in cleanups {
                cleanup.await.unwrap();
            }
        });
    }

    /// Has something done at the end of the story.
    pub(crate) fn at_the_end(&self, cleanup: impl Future<Output = ()> + Send + 'static) {
        let cleanup = self.runtime.spawn(cleanup);
        self.cleanups.lock().unwrap().push(cleanup);
    }

    /// A namespace that nobody else has.
    pub(crate) async fn namespace(&self) -> String {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let name = format!("story-{}-{number}", std::process::id());
        create_namespace(&self.client, &name).await;
        name
    }

    /// A way to the API server for the operator, which acts as its service account.
    pub(crate) fn transport(&self) -> Transport {
        let (namespace, account) = ACCOUNT;
        let mut config = self.config.clone();
        config.auth_info.impersonate = Some(format!("system:serviceaccount:{namespace}:{account}"));
        config.auth_info.impersonate_groups = Some(vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ]);
        runtime::client::transport(&config).unwrap()
    }
}

/// Not the operator: whose fields are whose is told by the user agent, where nobody says.
fn somebody_else(mut config: Config) -> Config {
    config.headers.retain(|(name, _)| name != USER_AGENT);
    let agent = HeaderValue::from_static("stories");
    config.headers.push((USER_AGENT, agent));
    config
}

/// Has the actors act in a cluster that has no nodes of its own.
async fn act(client: &Client) {
    for definition in api::crds() {
        let definition = serde_json::to_value(definition).unwrap();
        let definition: DynamicObject = serde_json::from_value(definition).unwrap();
        let api = all(client, "CustomResourceDefinition");
        match api.create(&PostParams::default(), &definition).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            created => drop(created.unwrap()),
        }
    }
    let nodes = all(client, "Node").list(&ListParams::default()).await;
    let is_real = |node: &DynamicObject| !node.labels().contains_key(sandbox::NODE_LABEL);
    if nodes.unwrap().iter().any(is_real) {
        println!("this cluster has nodes of its own: its own KubeVirt runs the Machines");
        return;
    }
    let world = World::new(client.clone());
    tokio::spawn(sandbox::act(world, CancellationToken::new()));
    for (kind, name) in [
        ("CustomResourceDefinition", "virtualmachines.kubevirt.io"),
        ("CustomResourceDefinition", "datavolumes.cdi.kubevirt.io"),
        ("CustomResourceDefinition", "machines.vitistack.io"),
        ("CustomResourceDefinition", "machineclasses.vitistack.io"),
        (
            "CustomResourceDefinition",
            "networkconfigurations.vitistack.io",
        ),
        ("StorageClass", "standard"),
    ] {
        let what = format!("the wait for {kind} {name}");
        let api = all(client, kind);
        within(Duration::from_secs(60), &what, until_there(&api, name)).await;
    }
    empty_texts::make_room(client).await;
}

async fn until_there(api: &Api<DynamicObject>, name: &str) {
    loop {
        let found = api.get_opt(name).await.unwrap();
        let is_ready = found.is_some_and(|found| {
            let object = serde_json::to_value(found).unwrap();
            object["kind"] != "CustomResourceDefinition"
                || story::condition(&object, "Established")["status"] == "True"
        });
        if is_ready {
            return;
        }
        sleep(STEP).await;
    }
}

async fn ends_namespaces(client: &Client) -> bool {
    let name = format!("story-{}-probe", std::process::id());
    create_namespace(client, &name).await;
    let api = all(client, "Namespace");
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
    let api = all(client, "Namespace");
    api.create(&PostParams::default(), &namespace)
        .await
        .unwrap();
}

fn all(client: &Client, kind: &str) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &kinds::resource(kind))
}
