//! Settings of `run`.
//!
//! [`Flags`] contains the text of flags and environment variables, [`Settings`] the parsed values. All
//! errors are reported at once.

#[cfg(test)]
mod tests;
mod webhook;

use std::{collections::BTreeSet, num::NonZeroU32, time::Duration};

use apimachinery::duration;
use plan::machine::{NamePatterns, PassedOn, Provider};
use runtime::probes::BindAddress;
use tracing::info;

use crate::cmd::settings::{
    Common, CommonFlags, Problem, Reader, boolean, cluster_name, is_label, joined, namespace_name,
    parsed, provider, rate,
};

/// Namespace of an operator outside of a pod.
const DEFAULT_NAMESPACE: &str = "kubevirt-operator-system";

/// Shorter intervals only add load: reconciles read the caches.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Bound on the concurrent requests to the API server.
const MAX_RECONCILES: usize = 1000;

const DEFAULT_QPS: NonZeroU32 = NonZeroU32::new(100).unwrap();
const DEFAULT_BURST: NonZeroU32 = NonZeroU32::new(200).unwrap();

/// Values of flags and environment variables. Defaults are not set here: clap treats an empty variable as
/// set, and chart templates leave variables empty.
#[derive(Debug, Default, clap::Args)]
#[command(mut_args(|arg| arg.hide_env_values(true)))]
pub(crate) struct Flags {
    #[command(flatten)]
    common: CommonFlags,

    /// Interval at which every Machine is reconciled, such as 30s or 1m30s [default: 30s]
    #[arg(long, env = "RECONCILE_INTERVAL", value_name = "DURATION")]
    reconcile_interval: Option<String>,

    /// Maximum number of Machines that are reconciled concurrently [default: 5]
    #[arg(long, env = "MAX_CONCURRENT_RECONCILES", value_name = "N")]
    max_concurrent_reconciles: Option<String>,

    /// Address of /metrics, such as :8080 or 127.0.0.1:8080; 0 disables it [default: :8080]
    #[arg(long, env = "METRICS_BIND_ADDRESS", value_name = "ADDR")]
    metrics_bind_address: Option<String>,

    /// Address of /healthz and /readyz; 0 disables them [default: :8081]
    #[arg(long, env = "HEALTH_PROBE_BIND_ADDRESS", value_name = "ADDR")]
    health_probe_bind_address: Option<String>,

    /// Namespace of the operator and its Lease [default: the pod's, else kubevirt-operator-system]
    #[arg(long, env = "NAMESPACE", value_name = "NAME")]
    namespace: Option<String>,

    /// Comma-separated namespaces to watch [default: all]
    #[arg(long, env = "WATCH_NAMESPACES", value_name = "NAMES")]
    watch_namespaces: Option<String>,

    /// Comma-separated namespaces that disks may be cloned from, besides the Machine's own
    /// [default: none]
    #[arg(long, env = "CLONE_SOURCE_NAMESPACES", value_name = "NAMES")]
    clone_source_namespaces: Option<String>,

    /// Comma-separated labels of Machines that reach VirtualMachines and pods, such as team or
    /// example.com/*, besides those under vitistack.io [default: none]
    #[arg(long, env = "PASSED_ON_LABELS", value_name = "NAMES")]
    passed_on_labels: Option<String>,

    /// The same for annotations [default: none]
    #[arg(long, env = "PASSED_ON_ANNOTATIONS", value_name = "NAMES")]
    passed_on_annotations: Option<String>,

    /// Provider whose Machines are reconciled, as well as those without a provider [default: kubevirt]
    #[arg(
        long,
        env = "MACHINE_PROVIDER",
        hide_env_values = true,
        value_name = "NAME"
    )]
    machine_provider: Option<String>,

    /// KubevirtConfig of the cluster for the virtual machines of Machines that name none [default: the cluster
    /// of the Machine]
    #[arg(long, env = "KUBEVIRT_CONFIG", value_name = "NAME")]
    kubevirt_config: Option<String>,

    /// Whether to watch the metadata of Secrets with cloud-init data [default: true]
    #[arg(long, env = "WATCH_SECRETS", value_name = "BOOL")]
    watch_secrets: Option<String>,

    /// Maximum requests per second to the API server [default: 100]
    #[arg(long, env = "CLIENT_QPS", value_name = "N")]
    client_qps: Option<String>,

    /// Burst of requests above --client-qps [default: 200]
    #[arg(long, env = "CLIENT_BURST", value_name = "N")]
    client_burst: Option<String>,

    #[command(flatten)]
    webhook: webhook::WebhookFlags,
}

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
    /// Empty: all.
    pub(crate) watch_namespaces: BTreeSet<String>,
    pub(crate) clone_source_namespaces: BTreeSet<String>,
    pub(crate) passed_on: PassedOn,
    pub(crate) machine_provider: Provider,
    pub(crate) kubevirt_config: Option<String>,
    pub(crate) watch_secrets: bool,
    pub(crate) client_qps: NonZeroU32,
    pub(crate) client_burst: NonZeroU32,
    pub(crate) webhook: webhook::Settings,
}

impl Flags {
    /// Parses the values. `pod_namespace` is the default namespace.
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
            passed_on_labels,
            passed_on_annotations,
            machine_provider,
            kubevirt_config,
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
            passed_on: PassedOn {
                labels: reader
                    .read("PASSED_ON_LABELS", passed_on_labels, NamePatterns::parse)
                    .unwrap_or_else(NamePatterns::none),
                annotations: reader
                    .read(
                        "PASSED_ON_ANNOTATIONS",
                        passed_on_annotations,
                        NamePatterns::parse,
                    )
                    .unwrap_or_else(NamePatterns::none),
            },
            machine_provider: reader
                .read("MACHINE_PROVIDER", machine_provider, provider)
                .unwrap_or_default(),
            kubevirt_config: reader.read("KUBEVIRT_CONFIG", kubevirt_config, cluster_name),
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
        reader.finish(settings)
    }
}

impl Settings {
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
            passed_on,
            machine_provider,
            kubevirt_config,
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
            passed_on_labels = %passed_on.labels,
            passed_on_annotations = %passed_on.annotations,
            %machine_provider,
            kubevirt_config = kubevirt_config.as_deref().unwrap_or_default(),
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
        .filter(|interval| *interval >= MIN_INTERVAL)
        .ok_or_else(|| "must be a duration of at least 1s, such as 30s or 1m30s".to_owned())
}

fn reconciles(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|number| (1..=MAX_RECONCILES).contains(number))
        .ok_or_else(|| format!("must be a whole number from 1 to {MAX_RECONCILES}"))
}

fn namespace_names(text: &str) -> Result<BTreeSet<String>, String> {
    let names = text.split(',').map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .map(|name| namespace_name(name).map_err(|_| ()))
        .collect::<Result<_, _>>()
        .map_err(|()| "must be names of namespaces, separated by commas".to_owned())
}
