//! What should be in the cluster: the objects of a release, with everything that an operator adds.
//!
//! - The strategy is never changed: the same input gives the same bytes.
//! - An object carries exactly what we own of it: no status, no nulls.
//! - Objects come in the order of the strategy; a PodDisruptionBudget follows its Deployment.
//! - Patches of `spec.customizeComponents` come first, so that they are written against what the
//!   release says; what the operator adds comes on top of them.
//! - Secrets with certificates and ConfigMaps with bundles of CAs are only named: what is in them is
//!   not for here to say.

mod aggregation;
mod budget;
mod definition;
mod facts;
mod leave_out;
mod marks;
mod memo;
mod switches;
mod trust;
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

pub use facts::{Facts, Handlers};
pub use leave_out::{OmissionReason, OmittedObject};
pub use marks::Marks;
pub use memo::Memo;
pub use workload::paced;

/// The ConfigMap with the CAs that sign the certificates of webhooks and APIServices.
pub const CA_BUNDLE: &str = "kubevirt-ca";

/// The label that the namespace of KubeVirt gets, so that OpenShift's Prometheus looks into it.
pub const NAMESPACE_LABEL: (&str, &str) = ("openshift.io/cluster-monitoring", "true");

/// What should be in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// The objects.
    pub objects: Vec<Object>,
    /// Objects of the strategy that are not among them.
    pub omitted: Vec<OmittedObject>,
    /// The Secrets with certificates.
    pub secrets: Vec<String>,
    /// The ConfigMaps with bundles of CAs.
    pub config_maps: Vec<String>,
    /// A digest of `spec.customizeComponents`.
    pub customizer: String,
    /// The labels and annotations of every object, for those that are made elsewhere.
    pub marks: Marks,
    /// What people should know of it.
    pub notes: Vec<String>,
}

/// The objects cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DesiredError {
    /// A patch cannot be applied.
    Customize(CustomizeError),
    /// The strategy is for another namespace, which its roles and webhooks name.
    Namespace {
        /// An object that tells it.
        id: Id,
        /// The namespace that is wanted.
        wanted: String,
    },
    /// A field of an object is not what its name says.
    Misshapen {
        /// The object.
        id: Id,
        /// The field.
        field: String,
    },
    /// A field of the KubeVirt resource is not what its name says.
    Spec {
        /// The field.
        field: &'static str,
        /// What it must be.
        must: &'static str,
    },
}

impl fmt::Display for DesiredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Customize(error) => error.fmt(f),
            Self::Namespace { id, wanted } => write!(
                f,
                "the install strategy is for namespace {:?} ({id}), and the KubeVirt resource is in \
                 {wanted:?}: use a strategy that was dumped for that namespace",
                &*id.namespace
            ),
            Self::Misshapen { id, field } => write!(
                f,
                "{id}: {field} does not have the form it should have: correct the install strategy, \
                 or the patch in spec.customizeComponents that changes it"
            ),
            Self::Spec { field, must } => write!(f, "{field} must be {must}"),
        }
    }
}

impl std::error::Error for DesiredError {}

/// What all steps need.
struct Context<'a> {
    kubevirt: &'a KubeVirt,
    facts: &'a Facts<'a>,
    switches: Switches,
    customizer: Customizer,
    marks: Marks,
}

/// The objects that should be in the cluster.
///
/// # Errors
/// When a customization cannot be applied, or when the strategy is not for that namespace.
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
        marks: Marks::new(kubevirt, target, &mut notes),
    };
    let mut desired = Desired::default();
    let named: BTreeSet<&Id> = strategy.objects.iter().map(|object| &object.id).collect();
    let defined = leave_out::Defined::by(strategy);
    for object in &strategy.objects {
        let (value, spec) = definition::open(object);
        if let Some(reason) = leave_out::reason(&context, &defined, &object.id, &value) {
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
        notes.push(format!("{field} is for no object that can be customized"));
    }
    Ok(Desired {
        customizer: context.customizer.identifier().to_owned(),
        marks: context.marks,
        notes,
        ..desired
    })
}

/// An object of the strategy with everything that is added to it.
fn finished(context: &Context<'_>, id: &Id, mut value: Value) -> Result<Value, DesiredError> {
    let misshapen = |field: &str| DesiredError::Misshapen {
        id: id.clone(),
        field: field.to_owned(),
    };
    locate(context, id, &mut value)?;
    let customizer = &context.customizer;
    customizer
        .apply(id, &mut value)
        .map_err(DesiredError::Customize)?;
    match &*id.kind {
        "Deployment" | "DaemonSet" => workload::finish(context, id, &mut value)?,
        "ClusterRole" => {
            let taken_out = aggregation::finish(context, &mut value);
            taken_out.ok_or_else(|| misshapen("metadata.labels"))?;
        }
        _ => {
            if let Some(bundle) = context.facts.bundles.get(CA_BUNDLE) {
                trust::finish(id, &mut value, bundle).map_err(misshapen)?;
            }
        }
    }
    context
        .marks
        .put_on(&mut value)
        .ok_or_else(|| misshapen("metadata"))?;
    if Customizer::concerns(id) {
        let annotations = tree::map(&mut value, &["metadata", "annotations"]);
        let annotations = annotations.ok_or_else(|| misshapen("metadata.annotations"))?;
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

/// Kinds that live in the namespace of KubeVirt. Other objects of the strategy name that namespace
/// inside them, so that one that was made for another is refused.
const IN_NAMESPACE: [&str; 4] = ["ServiceAccount", "Service", "Deployment", "DaemonSet"];

/// Kinds that get the namespace of KubeVirt when the strategy gives them none.
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

fn locate(context: &Context<'_>, id: &Id, value: &mut Value) -> Result<(), DesiredError> {
    let wanted = context.facts.namespace;
    if id.namespace.is_empty() {
        if NAMESPACED.contains(&&*id.kind) {
            put_into(value, wanted);
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
            put_into(value, given);
        }
    }
    Ok(())
}

fn put_into(value: &mut Value, namespace: &str) {
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
    Object::new(value).map_err(|_| DesiredError::Misshapen {
        id: id.clone(),
        field: "metadata.name".to_owned(),
    })
}

#[cfg(test)]
mod tests;
