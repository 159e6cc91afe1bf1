//! Which KubeVirt is wanted.
//!
//! A [`Target`] is everything that the strategy of a release depends on: the release, where its
//! images are, and the settings that its own generator looks at. Its ID is a digest of exactly
//! that. So a setting that changes no object of the strategy changes no ID, and nothing is rolled
//! out for it; settings at their defaults are left out, so that a later operator, which knows more
//! of them, gives the same ID to the same target.

use std::{collections::BTreeMap, fmt::Write as _};

use api::kubevirt::install::{KubeVirt, KubeVirtSpec};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{gates::Gates, observed::Served};

mod error;
mod image;

pub use error::TargetError;

/// The pull policy of a resource that names none.
pub const PULL_POLICY: &str = "IfNotPresent";

/// Namespaces in which Prometheus is looked for, in this order.
pub const MONITOR_NAMESPACES: [&str; 2] = ["openshift-monitoring", "monitoring"];

/// The service account of Prometheus, unless the resource names one.
pub const MONITOR_ACCOUNT: &str = "prometheus-k8s";

/// The version of an image that is named by digest, or not named at all.
const LATEST: &str = "latest";

/// The fields of the configuration that hold the images of components, by the variable that sets
/// them.
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

/// The variables that name images of single components ([`Operator::images`]).
pub fn image_variables() -> impl Iterator<Item = &'static str> {
    IMAGES.iter().map(|(variable, _)| *variable)
}

/// The operator itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operator {
    /// The namespace it runs in, and the only one whose KubeVirt resource it serves.
    pub namespace: String,
    /// Its own version.
    pub version: String,
    /// The image of KubeVirt's own operator, which names the version and the registry of a KubeVirt
    /// resource that names none (`VIRT_OPERATOR_IMAGE`).
    pub image: Option<String>,
    /// The version of images that are named by digest (`KUBEVIRT_VERSION`).
    pub kubevirt_version: Option<String>,
    /// Images of single components (`VIRT_API_IMAGE`...), by the variable's name.
    pub images: BTreeMap<String, String>,
    /// What every component gets into its environment (`KV_IO_EXTRA_ENV_`...), without the prefix.
    pub passthrough: BTreeMap<String, String>,
    /// The service account of the Jobs that dump strategies.
    pub service_account: String,
    /// How many times as fast as usual the cluster's time runs, for deadlines; 0 and 1 are as usual.
    pub speed: u32,
}

/// The KubeVirt that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Its version.
    pub version: String,
    /// Where its images are.
    pub registry: String,
    /// What the names of its images begin with, mostly nothing.
    pub prefix: String,
    /// The deployment ID: a digest of everything that the strategy depends on.
    pub id: String,
    /// All of that as JSON, with the ID, as the release's own operator reads it.
    pub config: String,
    /// The image of the release's own operator, which dumps the strategy.
    pub image: String,
    /// When images are pulled.
    pub pull_policy: String,
    /// Secrets to pull images with.
    pub pull_secrets: Vec<String>,
    /// The namespace and the service account of Prometheus, where it was found.
    pub monitor: Option<(String, String)>,
    /// What every component gets into its environment.
    pub passthrough: BTreeMap<String, String>,
}

/// The KubeVirt that a resource asks for.
///
/// # Errors
/// When no version or registry can be told, or one that no image can have.
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
    // Images of single components are those of the operator's own release.
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

/// What is set and not empty, which is the same to KubeVirt as absent.
fn given(field: Option<&String>) -> Option<&str> {
    field.map(String::as_str).filter(|text| !text.is_empty())
}

/// Where Prometheus is: the first namespace in which its service account was found.
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

/// The settings that a release's generator looks at, but for those that are at their defaults.
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
    // Once it is always on, the gate says that the setting is there, not that it is used.
    let reservation = reservation.unwrap_or_else(|| gates.asked_for("PersistentReservation"));
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

/// A digest as long as those of KubeVirt's own operator.
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
