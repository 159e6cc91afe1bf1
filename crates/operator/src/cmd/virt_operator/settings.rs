//! Settings of the process: what was given, and what it means.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, ffi::OsString, num::NonZeroU32, path::PathBuf};

use plan::kubevirt::{job::STRATEGY_ACCOUNT, target::Operator};
use runtime::probes::BindAddress;
use tracing::info;

use crate::cmd::settings::{
    Common, GivenCommon, Problem, Reader, is_label, joined, namespace_name, parsed, rate,
};

/// The namespace of an operator that is told none: KubeVirt's own.
const DEFAULT_NAMESPACE: &str = "kubevirt";

const DEFAULT_QPS: NonZeroU32 = NonZeroU32::new(50).unwrap();
const DEFAULT_BURST: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// Every component gets what begins with this into its environment.
const PASSTHROUGH: &str = "KV_IO_EXTRA_ENV_";

/// The old name of VIRT_OPERATOR_IMAGE.
const OLD_IMAGE: &str = "OPERATOR_IMAGE";

/// Images of single components.
const IMAGES: [&str; 12] = [
    "VIRT_API_IMAGE",
    "VIRT_CONTROLLER_IMAGE",
    "VIRT_HANDLER_IMAGE",
    "VIRT_LAUNCHER_IMAGE",
    "VIRT_EXPORTPROXY_IMAGE",
    "VIRT_EXPORTSERVER_IMAGE",
    "VIRT_SYNCHRONIZATIONCONTROLLER_IMAGE",
    "VIRT_TEMPLATE_APISERVER_IMAGE",
    "VIRT_TEMPLATE_CONTROLLER_IMAGE",
    "GS_IMAGE",
    "PR_HELPER_IMAGE",
    "SIDECAR_SHIM_IMAGE",
];

/// What flags and environment say. None has a default here: clap would take an empty variable for
/// given, and templates of charts leave them empty.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Given {
    #[command(flatten)]
    common: GivenCommon,

    /// File with the install strategy of a release, as YAML, packed with gzip or not, or as a
    /// ConfigMap; can be repeated. Versions without one are dumped by a Job of the release itself
    #[arg(long, value_name = "FILE")]
    strategy: Vec<PathBuf>,

    /// Where /metrics, /healthz and /readyz are served, such as :8186; 0 turns it off
    /// [default: :8186]
    #[arg(
        long,
        env = "METRICS_BIND_ADDRESS",
        hide_env_values = true,
        value_name = "ADDR"
    )]
    metrics_bind_address: Option<String>,

    /// Where the API server asks about KubeVirt resources, with TLS; 0 turns it off
    /// [default: :8444]
    #[arg(
        long,
        env = "WEBHOOK_BIND_ADDRESS",
        hide_env_values = true,
        value_name = "ADDR"
    )]
    webhook_bind_address: Option<String>,

    #[command(flatten)]
    identity: Identity,

    /// How many requests a second are sent to the API server [default: 50]
    #[arg(
        long,
        env = "VIRT_OPERATOR_CLIENT_QPS",
        hide_env_values = true,
        value_name = "N"
    )]
    client_qps: Option<String>,

    /// How many requests are sent at once before that limit holds [default: 100]
    #[arg(
        long,
        env = "VIRT_OPERATOR_CLIENT_BURST",
        hide_env_values = true,
        value_name = "N"
    )]
    client_burst: Option<String>,
}

/// Who and where the operator is: what a KubeVirt resource becomes depends on it.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Identity {
    /// Namespace of the operator, of its lease and of KubeVirt [default: the pod's, else kubevirt]
    #[arg(long, env = "NAMESPACE", hide_env_values = true, value_name = "NAME")]
    namespace: Option<String>,

    /// Service account of the Jobs that dump strategies [default: virt-operator-install-strategy]
    #[arg(
        long,
        env = "STRATEGY_SERVICE_ACCOUNT",
        hide_env_values = true,
        value_name = "NAME"
    )]
    strategy_service_account: Option<String>,

    /// Image of KubeVirt's own operator: its registry and version are those of a KubeVirt resource
    /// that names none
    #[arg(
        long,
        env = "VIRT_OPERATOR_IMAGE",
        hide_env_values = true,
        value_name = "IMAGE"
    )]
    virt_operator_image: Option<String>,

    /// Version of KubeVirt, where images are named by digest
    #[arg(
        long,
        env = "KUBEVIRT_VERSION",
        hide_env_values = true,
        value_name = "VERSION"
    )]
    kubevirt_version: Option<String>,
}

/// What the settings mean.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) common: Common,
    pub(crate) strategies: Vec<PathBuf>,
    pub(crate) metrics_bind_address: BindAddress,
    pub(crate) webhook_bind_address: BindAddress,
    pub(crate) operator: Operator,
    pub(crate) client_qps: NonZeroU32,
    pub(crate) client_burst: NonZeroU32,
}

impl Given {
    /// What was given means this, or these values cannot be used. `pod_namespace` is asked when no
    /// namespace was given; images and what is passed on come from `environment`.
    pub(crate) fn resolve(
        self,
        pod_namespace: impl FnOnce() -> Option<String>,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Settings, Vec<Problem>> {
        let Self {
            common,
            strategy,
            metrics_bind_address,
            webhook_bind_address,
            identity,
            client_qps,
            client_burst,
        } = self;
        let mut reader = Reader::default();
        let operator = identity.read(&mut reader, pod_namespace, environment);
        let settings = Settings {
            common: common.resolve(&mut reader),
            strategies: strategy,
            metrics_bind_address: reader
                .read("METRICS_BIND_ADDRESS", metrics_bind_address, parsed)
                .unwrap_or(BindAddress::Everywhere(8186)),
            webhook_bind_address: reader
                .read("WEBHOOK_BIND_ADDRESS", webhook_bind_address, parsed)
                .unwrap_or(BindAddress::Everywhere(8444)),
            operator,
            client_qps: reader
                .read_flag("client-qps", "VIRT_OPERATOR_CLIENT_QPS", client_qps, rate)
                .unwrap_or(DEFAULT_QPS),
            client_burst: reader
                .read_flag(
                    "client-burst",
                    "VIRT_OPERATOR_CLIENT_BURST",
                    client_burst,
                    rate,
                )
                .unwrap_or(DEFAULT_BURST),
        };
        reader.end(settings)
    }
}

impl Identity {
    /// What was given means this, or these values cannot be used.
    pub(crate) fn resolve(
        self,
        pod_namespace: impl FnOnce() -> Option<String>,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Operator, Vec<Problem>> {
        let mut reader = Reader::default();
        let operator = self.read(&mut reader, pod_namespace, environment);
        reader.end(operator)
    }

    fn read(
        self,
        reader: &mut Reader,
        pod_namespace: impl FnOnce() -> Option<String>,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Operator {
        let Self {
            namespace,
            strategy_service_account,
            virt_operator_image,
            kubevirt_version,
        } = self;
        let environment: BTreeMap<String, String> = environment
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let given = |value: Option<String>| {
            let value = value.map(|value| value.trim().to_owned());
            value.filter(|value| !value.is_empty())
        };
        Operator {
            namespace: reader
                .read("NAMESPACE", namespace, namespace_name)
                .or_else(|| pod_namespace().filter(|name| is_label(name)))
                .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            image: given(virt_operator_image)
                .or_else(|| given(environment.get(OLD_IMAGE).cloned())),
            kubevirt_version: given(kubevirt_version),
            images: IMAGES
                .into_iter()
                .filter_map(|name| {
                    let image = given(environment.get(name).cloned())?;
                    Some((name.to_owned(), image))
                })
                .collect(),
            passthrough: environment
                .iter()
                .filter_map(|(name, value)| {
                    let name = name.strip_prefix(PASSTHROUGH)?;
                    (!name.is_empty()).then(|| (name.to_owned(), value.clone()))
                })
                .collect(),
            service_account: given(strategy_service_account)
                .unwrap_or_else(|| STRATEGY_ACCOUNT.to_owned()),
            speed: 1,
        }
    }
}

impl Settings {
    /// Logs what the process runs with. What is passed on to components may be secret.
    pub(crate) fn log(&self) {
        let Self {
            common,
            strategies,
            metrics_bind_address,
            webhook_bind_address,
            operator,
            client_qps,
            client_burst,
        } = self;
        let Common {
            kubeconfig,
            leader_election,
            log_level,
            log_format,
        } = common;
        let passthrough: Vec<&str> = operator.passthrough.keys().map(String::as_str).collect();
        info!(
            version = env!("CARGO_PKG_VERSION"),
            kubeconfig = joined(kubeconfig),
            strategies = joined(strategies),
            %metrics_bind_address,
            %webhook_bind_address,
            leader_election,
            operator_namespace = operator.namespace,
            virt_operator_image = operator.image.as_deref().unwrap_or_default(),
            kubevirt_version = operator.kubevirt_version.as_deref().unwrap_or_default(),
            images = ?operator.images,
            passthrough = passthrough.join(","),
            %log_level,
            %log_format,
            client_qps,
            client_burst,
            "Starting"
        );
    }
}
