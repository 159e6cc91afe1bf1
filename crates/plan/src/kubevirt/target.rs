//! Target of a rollout: the version, registry and settings that a KubeVirt resource requests.
//!
//! A [`Target`] is everything that the install strategy of a release depends on; its ID is a digest of
//! that. A setting that changes no object of the strategy changes no ID and causes no rollout. Settings
//! with their default value are omitted, so a later operator with more settings computes the same ID.

use std::{collections::BTreeMap, fmt::Write as _, num::NonZeroU32};

use api::kubevirt::install::{KubeVirt, KubeVirtSpec};
use k8s_openapi::jiff::SignedDuration;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{gates::Gates, observed::Served};

mod error;
mod image;

pub use error::TargetError;

/// Default pull policy.
pub const PULL_POLICY: &str = "IfNotPresent";

/// Namespaces that are searched for Prometheus, in this order.
pub const MONITOR_NAMESPACES: [&str; 2] = ["openshift-monitoring", "monitoring"];

/// Default service account of Prometheus.
pub const MONITOR_ACCOUNT: &str = "prometheus-k8s";

/// Version of an image without a tag.
const LATEST: &str = "latest";

/// Environment variables for component images, with their fields of the configuration.
const IMAGES: [(&str, &str); 12] = [
    ("GS_IMAGE", "GsImage"),
    ("PR_HELPER_IMAGE", "PrHelperImage"),
    ("SIDECAR_SHIM_IMAGE", "SidecarShimImage"),
    ("VIRT_API_IMAGE", "virtApiImage"),
    ("VIRT_CONTROLLER_IMAGE", "virtControllerImage"),
    ("VIRT_EXPORTPROXY_IMAGE", "virtExportProxyImage"),
    ("VIRT_EXPORTSERVER_IMAGE", "virtExportServerImage"),
    ("VIRT_HANDLER_IMAGE", "virtHandlerImage"),
    ("VIRT_LAUNCHER_IMAGE", "virtLauncherImage"),
    (
        "VIRT_SYNCHRONIZATIONCONTROLLER_IMAGE",
        "virtSynchronizationControllerImage",
    ),
    (
        "VIRT_TEMPLATE_APISERVER_IMAGE",
        "virtTemplateApiserverImage",
    ),
    (
        "VIRT_TEMPLATE_CONTROLLER_IMAGE",
        "virtTemplateControllerImage",
    ),
];

/// Environment variables for component images ([`Operator::images`]).
pub fn image_variables() -> impl Iterator<Item = &'static str> {
    IMAGES.iter().map(|(variable, _)| *variable)
}

/// Settings of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operator {
    /// The operator's namespace, the only one in which it serves a KubeVirt resource.
    pub namespace: String,
    /// The operator's own version.
    pub version: String,
    /// Image of KubeVirt's virt-operator (`VIRT_OPERATOR_IMAGE`): default version and registry.
    pub image: Option<String>,
    /// Version of images that are named by digest (`KUBEVIRT_VERSION`).
    pub kubevirt_version: Option<String>,
    /// Component images by variable (`VIRT_API_IMAGE`...).
    pub images: BTreeMap<String, String>,
    /// Environment of all components (`KV_IO_EXTRA_ENV_`...), without the prefix.
    pub passthrough: BTreeMap<String, String>,
    /// Service account of strategy Jobs.
    pub service_account: String,
    pub speed: Speed,
}

/// How many times as fast as real time a cluster runs, such as the sandbox: the divisor of deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed(NonZeroU32);

impl Speed {
    pub const REAL_TIME: Self = Self(NonZeroU32::MIN);

    /// A multiple of real time. Zero is none, so it becomes real time.
    pub const fn times(factor: u32) -> Self {
        match NonZeroU32::new(factor) {
            Some(factor) => Self(factor),
            None => Self::REAL_TIME,
        }
    }

    /// A duration of real time on that cluster.
    pub(super) fn scale(self, duration: SignedDuration) -> SignedDuration {
        duration / i32::try_from(self.0.get()).unwrap_or(i32::MAX)
    }
}

impl Default for Speed {
    fn default() -> Self {
        Self::REAL_TIME
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    pub version: String,
    pub registry: String,
    /// Prefix of image names, usually empty.
    pub prefix: String,
    /// Deployment ID: digest of everything that the strategy depends on.
    pub id: String,
    /// All of that as JSON with the ID, in the format of the release's virt-operator.
    pub config: String,
    /// Image of the release's virt-operator, which writes the strategy.
    pub image: String,
    pub pull_policy: String,
    pub pull_secrets: Vec<String>,
    /// Namespace and service account of Prometheus, if found.
    pub monitor: Option<(String, String)>,
    /// Environment of all components.
    pub passthrough: BTreeMap<String, String>,
}

/// The target that a resource requests.
///
/// # Errors
/// When the version or registry is missing or invalid.
pub fn target(
    kubevirt: &KubeVirt,
    operator: &Operator,
    served: &Served,
) -> Result<Target, TargetError> {
    let spec = &kubevirt.spec;
    let tag = given(spec.image_tag.as_ref());
    let registry = given(spec.image_registry.as_ref());
    let follows = tag.is_none() && registry.is_none();
    let own = operator.image.as_deref().and_then(image::parse);

    let version = if let Some(tag) = tag {
        image::check_tag(tag)?
    } else if let Some(tag) = own.as_ref().and_then(|own| own.tag) {
        tag
    } else {
        match (&own, given(operator.kubevirt_version.as_ref())) {
            (Some(own), _) if own.digest.is_none() => LATEST,
            (_, Some(version)) => version,
            (Some(_), None) => LATEST,
            (None, None) => return Err(TargetError::NoVersion),
        }
    };
    let registry = match (registry, &own) {
        (Some(registry), _) => image::check_registry(registry)?,
        (None, Some(own)) => own.registry,
        (None, None) => return Err(TargetError::NoRegistry),
    };
    let prefix = own.as_ref().map_or("", |own| own.prefix);
    let image = match &operator.image {
        Some(image) if follows => image.clone(),
        _ => format!("{registry}/{prefix}virt-operator:{version}"),
    };
    // The component images of the operator's settings belong to its default release.
    let images = operator
        .images
        .iter()
        .filter(|(_, image)| follows && !image.is_empty());
    let images = images.filter_map(|(variable, image)| {
        let (_, field) = IMAGES.iter().find(|(known, _)| known == variable)?;
        Some((*field, image.as_str()))
    });

    let monitor = monitor(spec, served);
    let pull_secrets: Vec<String> = spec
        .image_pull_secrets
        .iter()
        .flatten()
        .map(|secret| secret.name.clone())
        .collect();
    let mut properties = settings(kubevirt, version);
    if let Some((namespace, _)) = &monitor {
        properties.insert("MonitorNamespace", namespace.clone());
    }
    if !pull_secrets.is_empty() {
        let list: Vec<_> = pull_secrets
            .iter()
            .map(|name| json!({"name": name}))
            .collect();
        properties.insert("ImagePullSecrets", Value::from(list).to_string());
    }

    let namespace = kubevirt.metadata.namespace.as_deref();
    let mut config = Map::new();
    for (field, value) in images.chain([
        ("namespace", namespace.unwrap_or(&operator.namespace)),
        ("registry", registry),
        ("imagePrefix", prefix),
        ("kubeVirtVersion", version),
        ("virtOperatorImage", &image),
    ]) {
        if !value.is_empty() {
            config.insert(field.to_owned(), value.into());
        }
    }
    if !properties.is_empty() {
        config.insert("additionalProperties".to_owned(), json!(properties));
    }
    if !operator.passthrough.is_empty() {
        config.insert("passthroughEnvVars".to_owned(), json!(operator.passthrough));
    }
    let id = digest(&Value::from(config.clone()).to_string());
    config.insert("id".to_owned(), id.as_str().into());

    Ok(Target {
        version: version.to_owned(),
        registry: registry.to_owned(),
        prefix: prefix.to_owned(),
        config: Value::from(config).to_string(),
        id,
        image,
        pull_policy: given(spec.image_pull_policy.as_ref())
            .unwrap_or(PULL_POLICY)
            .to_owned(),
        pull_secrets,
        monitor,
        passthrough: operator.passthrough.clone(),
    })
}

/// A non-empty value: to KubeVirt, empty is the same as absent.
fn given(field: Option<&String>) -> Option<&str> {
    field.map(String::as_str).filter(|text| !text.is_empty())
}

/// Namespace and account of Prometheus: the first namespace in which its service account exists.
fn monitor(spec: &KubeVirtSpec, served: &Served) -> Option<(String, String)> {
    let account = given(spec.monitor_account.as_ref()).unwrap_or(MONITOR_ACCOUNT);
    let named = given(spec.monitor_namespace.as_ref());
    let namespaces = match &named {
        Some(named) => std::slice::from_ref(named),
        None => MONITOR_NAMESPACES.as_slice(),
    };
    namespaces
        .iter()
        .find(|namespace| served.monitors.contains(&format!("{namespace}/{account}")))
        .map(|namespace| ((*namespace).to_owned(), account.to_owned()))
}

/// The settings on which a release's strategy depends, without those with default values.
fn settings(kubevirt: &KubeVirt, version: &str) -> BTreeMap<&'static str, String> {
    let spec = &kubevirt.spec;
    let gates = Gates::of(kubevirt, version);
    let configured = |pointer: &str| spec.configuration.as_ref()?.pointer(pointer);
    let mut settings = BTreeMap::new();
    let mut set = |name, value: Option<String>| {
        if let Some(value) = value {
            settings.insert(name, value);
        }
    };
    let text = |field: &Option<String>| given(field.as_ref()).map(str::to_owned);
    let flag = |on: bool| on.then(String::new);

    let policy = text(&spec.image_pull_policy);
    set(
        "ImagePullPolicy",
        policy.filter(|policy| policy != PULL_POLICY),
    );
    set("MonitorNamespace", text(&spec.monitor_namespace));
    set("MonitorAccount", text(&spec.monitor_account));
    let service_monitor = text(&spec.service_monitor_namespace);
    set("ServiceMonitorNamespace", service_monitor);
    let network = configured("/migrations/network").and_then(Value::as_str);
    set("MigrationNetwork", network.map(str::to_owned));

    let reservation = configured("/persistentReservationConfiguration/enabled");
    let reservation = reservation.and_then(Value::as_bool);
    // Once the gate is GA, it enables the setting, not its use.
    let reservation = reservation.unwrap_or_else(|| gates.is_requested("PersistentReservation"));
    set("PersistentReservationEnabled", flag(reservation));
    let template = configured("/virtTemplateDeployment/enabled").and_then(Value::as_bool);
    let template = template.unwrap_or(true) && gates.on("Template");
    set("VirtTemplateDeploymentEnabled", flag(template));
    let injection = gates.on("ExternalNetResourceInjection");
    set("ExternalNetResourceInjection", flag(injection));
    let manual = configured("/roleAggregationStrategy").and_then(Value::as_str) == Some("Manual");
    let manual = manual && gates.on("OptOutRoleAggregation");
    set("OptOutRoleAggregation", flag(manual));
    set(
        "VMStatsCollectorEnabled",
        flag(gates.on("VMStatsCollector")),
    );
    set("PluginsEnabled", flag(gates.on("Plugins")));
    let hypervisor = configured("/hypervisors/0/name").and_then(Value::as_str);
    let hypervisor = hypervisor
        .filter(|name| !name.is_empty() && *name != "kvm" && gates.on("ConfigurableHypervisor"));
    set("HypervisorName", hypervisor.map(str::to_owned));
    let port = match &spec.synchronization_port {
        Some(Value::Number(port)) => port.as_u64(),
        Some(Value::String(port)) => port.parse().ok(),
        _ => None,
    };
    set("SynchronizationPort", port.map(|port| port.to_string()));
    settings
}

/// A digest of the length that KubeVirt's virt-operator uses.
fn digest(text: &str) -> String {
    let mut hex = String::with_capacity(40);
    for byte in Sha256::digest(text.as_bytes()).iter().take(20) {
        // Writing to memory does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests;
