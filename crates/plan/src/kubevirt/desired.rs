//! Desired state of an installation: the objects of a release with everything that the operator adds.
//!
//! - The same input gives the same bytes.
//! - An object has exactly the fields that the operator owns: no status, no nulls.
//! - Objects are in the order of the strategy; a PodDisruptionBudget follows its Deployment.
//! - Patches of `spec.customizeComponents` are applied to the objects of the release; the operator's
//!   additions come after them.
//! - Secrets with certificates and ConfigMaps with CA bundles are only named: their data is built
//!   elsewhere.

mod aggregation;
mod budget;
mod ca_bundle;
mod cache;
mod definition;
mod facts;
mod labels;
mod omitted;
mod switches;
mod workload;

use std::{collections::BTreeSet, fmt};

use api::kubevirt::install::{self, KubeVirt};
use serde_json::Value;

use super::{
    customize::{CustomizeError, Customizer},
    object::{Id, Object},
    strategy::Strategy,
    target::Target,
    tree,
};
use switches::Switches;

pub use cache::DesiredCache;
pub use facts::{Facts, Handlers};
pub use labels::CommonLabels;
pub use omitted::{OmissionReason, OmittedObject};
pub use workload::with_max_unavailable;

/// ConfigMap with the CA bundle of webhooks and APIServices.
pub const CA_BUNDLE: &str = "kubevirt-ca";

/// Label of KubeVirt's namespace, by which OpenShift's Prometheus selects it.
pub const NAMESPACE_LABEL: (&str, &str) = ("openshift.io/cluster-monitoring", "true");

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    pub objects: Vec<Object>,
    /// Objects of the strategy that are not wanted.
    pub omitted: Vec<OmittedObject>,
    /// Names of Secrets with certificates.
    pub secrets: Vec<String>,
    /// Names of ConfigMaps with CA bundles.
    pub config_maps: Vec<String>,
    /// Digest of `spec.customizeComponents`.
    pub customizer: String,
    /// Labels and annotations of all objects, for those that are built elsewhere.
    pub common: CommonLabels,
    /// Warnings.
    pub notes: Vec<String>,
}

/// Why the objects cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DesiredError {
    /// A patch cannot be applied.
    Customize(CustomizeError),
    /// The strategy is for another namespace, which its roles and webhooks name.
    Namespace { id: Id, wanted: String },
    /// A field of an object has the wrong type.
    Malformed { id: Id, field: String },
    /// A field of the KubeVirt resource has the wrong type.
    Spec {
        field: &'static str,
        /// The expected type.
        must: &'static str,
    },
}

impl fmt::Display for DesiredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Customize(error) => error.fmt(f),
            Self::Namespace { id, wanted } => write!(
                f,
                "the install strategy is for namespace {:?} ({id}), but the KubeVirt resource is in \
                 {wanted:?}: use a strategy that was dumped for that namespace",
                &*id.namespace
            ),
            Self::Malformed { id, field } => write!(
                f,
                "{id}: {field} has the wrong type: correct the install strategy, or the patch in \
                 spec.customizeComponents that changes it"
            ),
            Self::Spec { field, must } => write!(f, "{field} must be {must}"),
        }
    }
}

impl std::error::Error for DesiredError {}

/// Input of all build steps.
struct Context<'a> {
    kubevirt: &'a KubeVirt,
    facts: &'a Facts<'a>,
    switches: Switches,
    customizer: Customizer,
    common: CommonLabels,
}

/// Builds the desired state.
///
/// # Errors
/// When a customization cannot be applied, or when the strategy is for another namespace.
pub fn desired(
    kubevirt: &KubeVirt,
    target: &Target,
    strategy: &Strategy,
    facts: &Facts<'_>,
) -> Result<Desired, DesiredError> {
    let customizer = kubevirt.spec.customize_components.as_ref();
    let mut notes = Vec::new();
    let context = Context {
        kubevirt,
        facts,
        switches: Switches::of(kubevirt, target),
        customizer: Customizer::new(customizer).map_err(DesiredError::Customize)?,
        common: CommonLabels::new(kubevirt, target, &mut notes),
    };
    let mut desired = Desired::default();
    let named: BTreeSet<&Id> = strategy.objects.iter().map(|object| &object.id).collect();
    let defined = omitted::Defined::by(strategy);
    for object in &strategy.objects {
        let (value, spec) = definition::open(object);
        if let Some(reason) = omitted::reason(&context, &defined, &object.id, &value) {
            desired.omitted.push(OmittedObject {
                id: object.id.clone(),
                reason,
            });
        } else if is_certificate(&object.id, &value) {
            desired.secrets.push(object.id.name.to_string());
        } else if is_bundle(&object.id, &value) {
            desired.config_maps.push(object.id.name.to_string());
        } else {
            let value = finished(&context, &object.id, value)?;
            let budget = budget::of(&context, &object.id, &value)?;
            desired.objects.push(match spec {
                Some(spec) => definition::close(object, &value, spec),
                None => object_of(&object.id, &value)?,
            });
            if let Some(budget) = budget.filter(|budget| !named.contains(&budget.id)) {
                desired.objects.push(budget);
            }
        }
    }
    for field in context.customizer.unused(&strategy.objects) {
        notes.push(format!("{field} matches no object that can be customized"));
    }
    Ok(Desired {
        customizer: context.customizer.identifier().to_owned(),
        common: context.common,
        notes,
        ..desired
    })
}

/// An object of the strategy with customizations and the operator's additions.
fn finished(context: &Context<'_>, id: &Id, mut value: Value) -> Result<Value, DesiredError> {
    let malformed = |field: &str| DesiredError::Malformed {
        id: id.clone(),
        field: field.to_owned(),
    };
    check_namespace(context, id, &mut value)?;
    let customizer = &context.customizer;
    customizer
        .apply(id, &mut value)
        .map_err(DesiredError::Customize)?;
    match &*id.kind {
        "Deployment" | "DaemonSet" => workload::finish(context, id, &mut value)?,
        "ClusterRole" => {
            let finished = aggregation::finish(context, &mut value);
            finished.ok_or_else(|| malformed("metadata.labels"))?;
        }
        _ => {
            if let Some(bundle) = context.facts.bundles.get(CA_BUNDLE) {
                ca_bundle::finish(id, &mut value, bundle).map_err(malformed)?;
            }
        }
    }
    context
        .common
        .add_to(&mut value)
        .ok_or_else(|| malformed("metadata"))?;
    if Customizer::concerns(id) {
        let annotations = tree::map(&mut value, &["metadata", "annotations"]);
        let annotations = annotations.ok_or_else(|| malformed("metadata.annotations"))?;
        let identifier = customizer.identifier();
        annotations.insert(install::CUSTOMIZER.to_owned(), identifier.into());
    }
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    if let Some(fields) = tree::map(&mut value, &["metadata"]) {
        fields.remove("creationTimestamp");
    }
    tree::drop_nulls(&mut value);
    Ok(value)
}

/// Kinds in KubeVirt's namespace. Other objects refer to that namespace in their fields, so a strategy
/// for another namespace is refused.
const IN_NAMESPACE: [&str; 4] = ["ServiceAccount", "Service", "Deployment", "DaemonSet"];

/// Kinds that get KubeVirt's namespace if the strategy gives them none.
const NAMESPACED: [&str; 10] = [
    "ServiceAccount",
    "Service",
    "Deployment",
    "DaemonSet",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "Secret",
    "Route",
    "PrometheusRule",
];

fn check_namespace(context: &Context<'_>, id: &Id, value: &mut Value) -> Result<(), DesiredError> {
    let wanted = context.facts.namespace;
    if id.namespace.is_empty() {
        if NAMESPACED.contains(&&*id.kind) {
            set_namespace(value, wanted);
        }
    } else if IN_NAMESPACE.contains(&&*id.kind) && &*id.namespace != wanted {
        return Err(DesiredError::Namespace {
            id: id.clone(),
            wanted: wanted.to_owned(),
        });
    }
    if &*id.kind == "ServiceMonitor" {
        let spec = &context.kubevirt.spec;
        let given = [&spec.service_monitor_namespace, &spec.monitor_namespace];
        let given = given.into_iter().flatten().find(|name| !name.is_empty());
        if let Some(given) = given {
            set_namespace(value, given);
        }
    }
    Ok(())
}

fn set_namespace(value: &mut Value, namespace: &str) {
    if let Some(metadata) = tree::map(value, &["metadata"]) {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
}

fn is_certificate(id: &Id, value: &Value) -> bool {
    id.is("", "Secret") && value.get("data").is_none() && value.get("stringData").is_none()
}

fn is_bundle(id: &Id, value: &Value) -> bool {
    id.is("", "ConfigMap") && value.get("data").is_none()
}

fn object_of(id: &Id, value: &Value) -> Result<Object, DesiredError> {
    Object::new(value).map_err(|_| DesiredError::Malformed {
        id: id.clone(),
        field: "metadata.name".to_owned(),
    })
}

#[cfg(test)]
mod tests;
