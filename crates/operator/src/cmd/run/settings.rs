//! Settings of the process: what was given, and what it means.
//!
//! [`Given`] is what flags and environment say, word for word; [`Settings`] is what they mean. All
//! that is wrong is told at once, and nothing starts with half of the settings.

#[cfg(test)]
mod tests;
mod webhook;

use std::{collections::BTreeSet, num::NonZeroU32, time::Duration};

use apimachinery::duration;
use runtime::probes::BindAddress;
use tracing::info;

use crate::cmd::settings::{
    Common, GivenCommon, Problem, Reader, boolean, is_label, joined, namespace_name, parsed, rate,
};

/// The namespace of an operator that is told none.
const DEFAULT_NAMESPACE: &str = "kubevirt-operator-system";

/// A shorter interval would do nothing but look at the same caches.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// More requests at a time than this no API server likes.
const MOST_RECONCILES: usize = 1000;

const DEFAULT_QPS: NonZeroU32 = NonZeroU32::new(100).unwrap();
const DEFAULT_BURST: NonZeroU32 = NonZeroU32::new(200).unwrap();

/// What flags and environment say. None has a default here: clap would take an empty variable for
/// given, and templates of charts leave them empty.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Given {
    #[command(flatten)]
    common: GivenCommon,

    /// How often every Machine is looked at, such as 30s or 1m30s [default: 30s]
    #[arg(
        long,
        env = "RECONCILE_INTERVAL",
        hide_env_values = true,
        value_name = "DURATION"
    )]
    reconcile_interval: Option<String>,

    /// How many Machines are written at a time [default: 5]
    #[arg(
        long,
        env = "MAX_CONCURRENT_RECONCILES",
        hide_env_values = true,
        value_name = "N"
    )]
    max_concurrent_reconciles: Option<String>,

    /// Where /metrics is served, such as :8080 or 127.0.0.1:8080; 0 turns it off [default: :8080]
    #[arg(
        long,
        env = "METRICS_BIND_ADDRESS",
        hide_env_values = true,
        value_name = "ADDR"
    )]
    metrics_bind_address: Option<String>,

    /// Where /healthz and /readyz are served; 0 turns them off [default: :8081]
    #[arg(
        long,
        env = "HEALTH_PROBE_BIND_ADDRESS",
        hide_env_values = true,
        value_name = "ADDR"
    )]
    health_probe_bind_address: Option<String>,

    /// Namespace of the operator and its lease [default: the pod's, else kubevirt-operator-system]
    #[arg(long, env = "NAMESPACE", hide_env_values = true, value_name = "NAME")]
    namespace: Option<String>,

    /// Namespaces whose Machines are looked after, separated by commas [default: all]
    #[arg(
        long,
        env = "WATCH_NAMESPACES",
        hide_env_values = true,
        value_name = "NAMES"
    )]
    watch_namespaces: Option<String>,

    /// Namespaces that disks may be copied from, besides a Machine's own, separated by commas
    /// [default: none]
    #[arg(
        long,
        env = "CLONE_SOURCE_NAMESPACES",
        hide_env_values = true,
        value_name = "NAMES"
    )]
    clone_source_namespaces: Option<String>,

    /// Whether Secrets with cloud-init data are watched, by their metadata [default: true]
    #[arg(
        long,
        env = "WATCH_SECRETS",
        hide_env_values = true,
        value_name = "BOOL"
    )]
    watch_secrets: Option<String>,

    /// How many requests a second are sent to the API server [default: 100]
    #[arg(long, env = "CLIENT_QPS", hide_env_values = true, value_name = "N")]
    client_qps: Option<String>,

    /// How many requests are sent at once before that limit holds [default: 200]
    #[arg(long, env = "CLIENT_BURST", hide_env_values = true, value_name = "N")]
    client_burst: Option<String>,

    #[command(flatten)]
    webhook: webhook::GivenWebhook,
}

/// What the settings mean.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) common: Common,
    /// At least a second.
    pub(crate) reconcile_interval: Duration,
    /// At least 1.
    pub(crate) max_concurrent_reconciles: usize,
    pub(crate) metrics_bind_address: BindAddress,
    pub(crate) health_probe_bind_address: BindAddress,
    pub(crate) namespace: String,
    /// None: all.
    pub(crate) watch_namespaces: BTreeSet<String>,
    pub(crate) clone_source_namespaces: BTreeSet<String>,
    pub(crate) watch_secrets: bool,
    pub(crate) client_qps: NonZeroU32,
    pub(crate) client_burst: NonZeroU32,
    pub(crate) webhook: webhook::Settings,
}

impl Given {
    /// What was given means this, or these values cannot be used. `pod_namespace` is asked when no
    /// namespace was given.
    pub(crate) fn resolve(
        self,
        pod_namespace: impl FnOnce() -> Option<String>,
    ) -> Result<Settings, Vec<Problem>> {
        let Self {
            common,
            reconcile_interval,
            max_concurrent_reconciles,
            metrics_bind_address,
            health_probe_bind_address,
            namespace,
            watch_namespaces,
            clone_source_namespaces,
            watch_secrets,
            client_qps,
            client_burst,
            webhook,
        } = self;
        let mut reader = Reader::default();
        let settings = Settings {
            common: common.resolve(&mut reader),
            reconcile_interval: reader
                .read("RECONCILE_INTERVAL", reconcile_interval, interval)
                .unwrap_or(Duration::from_secs(30)),
            max_concurrent_reconciles: reader
                .read(
                    "MAX_CONCURRENT_RECONCILES",
                    max_concurrent_reconciles,
                    reconciles,
                )
                .unwrap_or(5),
            metrics_bind_address: reader
                .read("METRICS_BIND_ADDRESS", metrics_bind_address, parsed)
                .unwrap_or(BindAddress::Everywhere(8080)),
            health_probe_bind_address: reader
                .read(
                    "HEALTH_PROBE_BIND_ADDRESS",
                    health_probe_bind_address,
                    parsed,
                )
                .unwrap_or(BindAddress::Everywhere(8081)),
            namespace: reader
                .read("NAMESPACE", namespace, namespace_name)
                .or_else(|| pod_namespace().filter(|name| is_label(name)))
                .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
            watch_namespaces: reader
                .read("WATCH_NAMESPACES", watch_namespaces, namespace_names)
                .unwrap_or_default(),
            clone_source_namespaces: reader
                .read(
                    "CLONE_SOURCE_NAMESPACES",
                    clone_source_namespaces,
                    namespace_names,
                )
                .unwrap_or_default(),
            watch_secrets: reader
                .read("WATCH_SECRETS", watch_secrets, boolean)
                .unwrap_or(true),
            client_qps: reader
                .read("CLIENT_QPS", client_qps, rate)
                .unwrap_or(DEFAULT_QPS),
            client_burst: reader
                .read("CLIENT_BURST", client_burst, rate)
                .unwrap_or(DEFAULT_BURST),
            webhook: webhook.resolve(&mut reader),
        };
        reader.end(settings)
    }
}

impl Settings {
    /// Logs what the process runs with.
    pub(crate) fn log(&self) {
        let Self {
            common,
            reconcile_interval,
            max_concurrent_reconciles,
            metrics_bind_address,
            health_probe_bind_address,
            namespace,
            watch_namespaces,
            clone_source_namespaces,
            watch_secrets,
            client_qps,
            client_burst,
            webhook,
        } = self;
        let Common {
            kubeconfig,
            leader_election,
            log_level,
            log_format,
        } = common;
        let names = |namespaces: &BTreeSet<String>| {
            let names: Vec<&str> = namespaces.iter().map(String::as_str).collect();
            names.join(",")
        };
        info!(
            version = env!("CARGO_PKG_VERSION"),
            kubeconfig = joined(kubeconfig),
            ?reconcile_interval,
            max_concurrent_reconciles,
            %metrics_bind_address,
            %health_probe_bind_address,
            leader_election,
            operator_namespace = namespace,
            watch_namespaces = names(watch_namespaces),
            clone_source_namespaces = names(clone_source_namespaces),
            watch_secrets,
            %log_level,
            %log_format,
            client_qps,
            client_burst,
            "Starting"
        );
        webhook.log();
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    duration::parse_unsigned(text)
        .filter(|interval| *interval >= SHORTEST_INTERVAL)
        .ok_or_else(|| "must be a duration of at least 1s, such as 30s or 1m30s".to_owned())
}

fn reconciles(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|number| (1..=MOST_RECONCILES).contains(number))
        .ok_or_else(|| format!("must be a whole number from 1 to {MOST_RECONCILES}"))
}

fn namespace_names(text: &str) -> Result<BTreeSet<String>, String> {
    let names = text.split(',').map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .map(|name| namespace_name(name).map_err(|_| ()))
        .collect::<Result<_, _>>()
        .map_err(|()| "must be names of namespaces, separated by commas".to_owned())
}
