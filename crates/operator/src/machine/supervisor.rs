//! Supervisor of the clusters of virtual machines: one Machine controller for each KubevirtConfig.
//!
//! - A controller has its own client, rate limit, watches, caches, queue and backoff, and a task of its own: what
//!   happens in its cluster delays no other.
//! - It is started again when its KubevirtConfig or the kubeconfig changes, and finishes its writes first.
//! - Without a usable kubeconfig it runs as well, to say so in the status of its Machines.
//! - Leadership fences the writes to all clusters.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use api::KubevirtConfig;
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use runtime::{
    backoff::Random,
    client::{Call, CallObserver, CallOutcome, Limits, layered},
    election::Fence,
    events::Recorder,
    probes::Health,
    reflector::{Config, WatchEvent, reflector},
};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    CacheQueries, Clock, Options, Stopwatch,
    controller::{Configs, Controller, Dependencies, RemoteSite, Site},
    kubeconfig::{Connector, connector, of_secret, secret_of},
    reachability::{Calls, Reachability},
    report::Report,
};
use crate::metrics::Metrics;

/// How the operator reaches other clusters.
#[derive(Clone)]
pub struct RemoteAccess {
    pub connect: Connector,
    /// Fence of all writes.
    pub fence: Fence,
    /// Limits of the client of one cluster.
    pub limits: Limits,
}

impl RemoteAccess {
    /// Access to real API servers.
    pub fn new(fence: Fence, limits: Limits) -> Self {
        Self {
            connect: connector(),
            fence,
            limits,
        }
    }
}

/// What the controllers of all clusters share.
pub(super) struct Shared {
    /// Client of the cluster of the Machines.
    pub(super) client: Client,
    pub(super) access: RemoteAccess,
    pub(super) options: Options,
    pub(super) clock: Clock,
    pub(super) stopwatch: Stopwatch,
    pub(super) metrics: Metrics,
    pub(super) recorder: Recorder,
    pub(super) leads: watch::Receiver<bool>,
    /// The KubevirtConfigs.
    pub(super) configs: watch::Receiver<Configs>,
}

/// What a controller is started again for.
type Identity = (Option<String>, String, String);

fn identity(config: &KubevirtConfig) -> Identity {
    let spec = &config.spec;
    (
        config.metadata.uid.clone(),
        spec.secret_namespace.clone(),
        spec.kubeconfig_secret_ref.clone(),
    )
}

/// Runs the controllers of these KubevirtConfigs until the token is cancelled.
pub(super) async fn run(shared: Shared, token: CancellationToken) {
    let mut configs = shared.configs.clone();
    let shared = Arc::new(shared);
    let mut running: BTreeMap<String, (Identity, CancellationToken, JoinSet<()>)> = BTreeMap::new();
    loop {
        let desired = configs.borrow_and_update().clone();
        let names: Vec<String> = running.keys().cloned().collect();
        for name in names {
            let wanted = desired.get(&name).map(|config| identity(config));
            let is_current = |known: &Identity| wanted.as_ref() == Some(known);
            if let Some((known, ..)) = running.get(&name)
                && !is_current(known)
                && let Some((_, stop, mut task)) = running.remove(&name)
            {
                stop.cancel();
                while task.join_next().await.is_some() {}
                shared.metrics.of_cluster(&name).forget_cluster();
            }
        }
        for (name, config) in desired.iter() {
            if !running.contains_key(name) {
                let stop = token.child_token();
                let mut task = JoinSet::new();
                let serving = serve(Arc::clone(&shared), Arc::clone(config), stop.clone());
                task.spawn(serving);
                running.insert(name.clone(), (identity(config), stop, task));
            }
        }
        tokio::select! {
            biased;
            () = token.cancelled() => break,
            changed = configs.changed() => if changed.is_err() {
                token.cancelled().await;
                break;
            },
        }
    }
    for (_, (_, _, mut task)) in running {
        while task.join_next().await.is_some() {}
    }
}

/// Runs the controller of one cluster, each time with the latest kubeconfig.
async fn serve(shared: Arc<Shared>, config: Arc<KubevirtConfig>, token: CancellationToken) {
    let name = config.metadata.name.clone().unwrap_or_default();
    let secret = match secret_of(&config) {
        Ok(secret) => secret,
        Err(problem) => {
            let site = unusable(&shared, &config, problem);
            return Box::pin(controller(&shared, site).run(token)).await;
        }
    };
    let mut kubeconfigs = std::pin::pin!(kubeconfigs(&shared, &name, secret));
    let mut running: JoinSet<()> = JoinSet::new();
    let mut stop = token.child_token();
    loop {
        let next = tokio::select! {
            biased;
            () = token.cancelled() => break,
            next = kubeconfigs.next() => next,
        };
        let Some(kubeconfig) = next else {
            break;
        };
        stop.cancel();
        while running.join_next().await.is_some() {}
        if token.is_cancelled() {
            break;
        }
        stop = token.child_token();
        let site = match kubeconfig {
            Ok(kubeconfig) => open(&shared, &config, kubeconfig).await,
            Err(problem) => unusable(&shared, &config, problem),
        };
        running.spawn(controller(&shared, site).run(stop.clone()));
    }
    stop.cancel();
    while running.join_next().await.is_some() {}
}

/// The kubeconfig each time that it changes; or the problem and its remedy.
fn kubeconfigs<'a>(
    shared: &Shared,
    config: &'a str,
    secret: (&'a str, &'a str),
) -> impl Stream<Item = Result<Vec<u8>, String>> + use<'a> {
    let (namespace, name) = secret;
    let api: Api<Secret> = Api::namespaced(shared.client.clone(), namespace);
    let selected = Config {
        field_selector: Some(format!("metadata.name={name}")),
        ..Config::default()
    };
    let random = Random::seeded(seed(shared, config));
    let events = reflector(api, selected, random, |secret| secret);
    let mut listed: Option<Secret> = None;
    let mut known: Option<Result<Vec<u8>, String>> = None;
    events.filter_map(move |event| {
        let found = match event {
            WatchEvent::ListStarted => {
                listed = None;
                None
            }
            WatchEvent::Listed(secret) => {
                listed = Some(secret);
                None
            }
            WatchEvent::ListCompleted { .. } => {
                Some(of_secret(config, secret, listed.take().as_ref()))
            }
            WatchEvent::Applied(found) => Some(of_secret(config, secret, Some(&found))),
            WatchEvent::Deleted(_) => Some(of_secret(config, secret, None)),
            // The last one stays in use while the cluster of the Machines does not answer.
            WatchEvent::Failing(failure) if known.is_none() => Some(Err(format!(
                "Secret {namespace}/{name} of KubevirtConfig {config} cannot be read: {}",
                failure.summary
            ))),
            WatchEvent::Failing(_) | WatchEvent::Recovered => None,
            WatchEvent::Undecodable { .. } => Some(Err(format!(
                "Secret {namespace}/{name} of KubevirtConfig {config} cannot be decoded"
            ))),
        };
        let changed = found.filter(|found| known.as_ref() != Some(found));
        if let Some(changed) = &changed {
            known = Some(changed.clone());
        }
        futures::future::ready(changed)
    })
}

/// Client of the cluster of a kubeconfig.
async fn open(shared: &Shared, config: &KubevirtConfig, kubeconfig: Vec<u8>) -> RemoteSite {
    let name = config.metadata.name.as_deref().unwrap_or_default();
    let access = &shared.access;
    match (access.connect)(kubeconfig).await {
        Ok(transport) => {
            let calls = Calls::default();
            let observer = Observer {
                calls: calls.clone(),
                metrics: shared.metrics.of_cluster(name),
            };
            let fence = access.fence.clone();
            let client = layered(transport, fence, access.limits, Arc::new(observer));
            RemoteSite {
                config: config.clone(),
                client: Some(client),
                reachability: Reachability::new(name, calls),
                configs: shared.configs.clone(),
            }
        }
        Err(reason) => {
            let namespace = &config.spec.secret_namespace;
            let secret = &config.spec.kubeconfig_secret_ref;
            let problem = format!(
                "the kubeconfig in Secret {namespace}/{secret} of KubevirtConfig {name} cannot be used: {reason}"
            );
            unusable(shared, config, problem)
        }
    }
}

fn unusable(shared: &Shared, config: &KubevirtConfig, problem: String) -> RemoteSite {
    let name = config.metadata.name.as_deref().unwrap_or_default();
    RemoteSite {
        config: config.clone(),
        client: None,
        reachability: Reachability::unusable(name, problem),
        configs: shared.configs.clone(),
    }
}

fn controller(shared: &Shared, site: RemoteSite) -> Controller {
    let name = site.config.metadata.name.clone().unwrap_or_default();
    let report = Report::new(shared.metrics.of_cluster(&name), shared.recorder.clone());
    let deps = Dependencies {
        client: shared.client.clone(),
        clock: Arc::clone(&shared.clock),
        stopwatch: Arc::clone(&shared.stopwatch),
        report: report.in_cluster(&name),
        // A cluster that cannot be reached must not make the process unready.
        health: Health::new(),
        leads: shared.leads.clone(),
        site: Site::Remote(Box::new(site)),
    };
    let options = Options {
        seed: seed(shared, &name),
        ..shared.options.clone()
    };
    Controller::new(deps, CacheQueries::default(), options)
}

/// Clusters must not all retry at once.
fn seed(shared: &Shared, cluster: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    cluster.hash(&mut hasher);
    shared.options.seed ^ hasher.finish()
}

/// Observer of the calls to another cluster.
struct Observer {
    calls: Calls,
    metrics: Metrics,
}

impl CallObserver for Observer {
    fn on_call(&self, call: &Call<'_>) {
        self.calls.on_call(call);
        let code = match call.outcome {
            CallOutcome::Status(code) => Some(code.as_u16()),
            CallOutcome::Timeout | CallOutcome::Error => None,
        };
        let (verb, resource) = (call.verb.as_str(), call.resource);
        self.metrics
            .api_request(verb, resource, code, call.duration);
    }
}
