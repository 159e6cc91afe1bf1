//! Settings of `virt-operator`.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, ffi::OsString, num::NonZeroU32, path::PathBuf};

use plan::kubevirt::{
    job::STRATEGY_ACCOUNT,
    target::{Operator, Speed},
};
use runtime::probes::BindAddress;
use tracing::info;

use crate::cmd::settings::{
    Common, CommonFlags, Problem, Reader, is_label, joined, namespace_name, parsed, rate,
};

/// Namespace of an operator outside of a pod: KubeVirt's default.
const DEFAULT_NAMESPACE: &str = "kubevirt";

const DEFAULT_QPS: NonZeroU32 = NonZeroU32::new(50).unwrap();
const DEFAULT_BURST: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// Prefix of variables that are passed on to every component.
const PASSTHROUGH: &str = "KV_IO_EXTRA_ENV_";

/// Old name of VIRT_OPERATOR_IMAGE.
const OLD_IMAGE: &str = "OPERATOR_IMAGE";

/// Variables with images of single components.
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

/// Values of flags and environment variables, without defaults: clap treats an empty variable as set, and
/// chart templates leave variables empty.
#[derive(Debug, Default, clap::Args)]
#[command(mut_args(|arg| arg.hide_env_values(true)))]
pub(crate) struct Flags {
    #[command(flatten)]
    common: CommonFlags,

    /// File with the install strategy of a release: YAML, optionally compressed with gzip, or a
    /// ConfigMap; can be repeated. For other versions, a Job of the release writes the strategy
    #[arg(long, value_name = "FILE")]
    strategy: Vec<PathBuf>,

    /// Address of /metrics, /healthz and /readyz, such as :8186; 0 disables them
    /// [default: :8186]
    #[arg(long, env = "METRICS_BIND_ADDRESS", value_name = "ADDR")]
    metrics_bind_address: Option<String>,

    /// Address of the admission webhook of KubeVirt resources; 0 disables it [default: :8444]
    #[arg(long, env = "WEBHOOK_BIND_ADDRESS", value_name = "ADDR")]
    webhook_bind_address: Option<String>,

    #[command(flatten)]
    identity: Identity,

    /// Maximum requests per second to the API server [default: 50]
    #[arg(long, env = "VIRT_OPERATOR_CLIENT_QPS", value_name = "N")]
    client_qps: Option<String>,

    /// Burst of requests above --client-qps [default: 100]
    #[arg(long, env = "VIRT_OPERATOR_CLIENT_BURST", value_name = "N")]
    client_burst: Option<String>,
}

/// Settings of the operator that the rendered objects depend on.
#[derive(Debug, Default, clap::Args)]
#[command(mut_args(|arg| arg.hide_env_values(true)))]
pub(crate) struct Identity {
    /// Namespace of the operator, its Lease and KubeVirt [default: the pod's, else kubevirt]
    #[arg(long, env = "NAMESPACE", value_name = "NAME")]
    namespace: Option<String>,

    /// Service account of the Jobs that write install strategies
    /// [default: virt-operator-install-strategy]
    #[arg(long, env = "STRATEGY_SERVICE_ACCOUNT", value_name = "NAME")]
    strategy_service_account: Option<String>,

    /// Image of KubeVirt's virt-operator: default registry and version of a KubeVirt resource
    #[arg(long, env = "VIRT_OPERATOR_IMAGE", value_name = "IMAGE")]
    virt_operator_image: Option<String>,

    /// Version of KubeVirt, if images are referenced by digest
    #[arg(long, env = "KUBEVIRT_VERSION", value_name = "VERSION")]
    kubevirt_version: Option<String>,
}

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

impl Flags {
    /// Parses the values. `pod_namespace` is the default namespace; images and passed-on variables come
    /// from `environment`.
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
        reader.finish(settings)
    }
}

impl Identity {
    pub(crate) fn resolve(
        self,
        pod_namespace: impl FnOnce() -> Option<String>,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Operator, Vec<Problem>> {
        let mut reader = Reader::default();
        let operator = self.read(&mut reader, pod_namespace, environment);
        reader.finish(operator)
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
            speed: Speed::REAL_TIME,
        }
    }
}

impl Settings {
    /// Logs the settings. Values of passed-on variables may be confidential and are left out.
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
