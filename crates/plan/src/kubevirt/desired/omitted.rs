//! Objects of the install strategy that are omitted from the desired state, and why.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

use crate::kubevirt::{object::Id, strategy::Strategy, tree};

use super::{CA_BUNDLE, Context, ca_bundle};

/// An object of the strategy that is not wanted, or not yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmittedObject {
    pub id: Id,
    pub reason: OmissionReason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OmissionReason {
    /// The feature is disabled. A live object is removed.
    TurnedOff(&'static str),
    /// The cluster does not serve the kind or what the object is for. A live object is removed.
    NotServed(&'static str),
    /// The object follows later. A live object is kept.
    NotYet(&'static str),
}

impl fmt::Display for OmissionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::TurnedOff(reason) | Self::NotServed(reason) | Self::NotYet(reason)) = self;
        f.write_str(reason)
    }
}

/// The API groups that the strategy itself defines.
pub(super) struct Defined<'a>(BTreeSet<&'a str>);

impl<'a> Defined<'a> {
    pub(super) fn by(strategy: &'a Strategy) -> Self {
        let definitions = strategy.objects.iter().filter(|object| {
            object
                .id
                .is("apiextensions.k8s.io", "CustomResourceDefinition")
        });
        // The name of a definition has its group; parsing the definition would be slow.
        let groups = definitions.filter_map(|object| object.id.name.split_once('.'));
        Self(groups.map(|(_, group)| group).collect())
    }
}

const MONITORING: &str = "monitoring.coreos.com";
const OPENSHIFT: (&str, &str) = ("security.openshift.io", "SecurityContextConstraints");

pub(super) fn reason(
    context: &Context<'_>,
    defined: &Defined<'_>,
    id: &Id,
    value: &Value,
) -> Option<OmissionReason> {
    let served = context.facts.served;
    let switches = context.switches;
    if !switches.templates && is_of_templates(id, value) {
        return Some(OmissionReason::TurnedOff(
            "the feature gate Template or configuration.virtTemplateDeployment is off",
        ));
    }
    match (&*id.kind, &*id.name) {
        ("Deployment", "virt-synchronization-controller") if !switches.synchronization => {
            return Some(OmissionReason::TurnedOff(
                "the feature gate DecentralizedLiveMigration is off",
            ));
        }
        ("MutatingWebhookConfiguration", "virt-launcher-pod-mutator")
            if !switches.container_paths =>
        {
            return Some(OmissionReason::TurnedOff(
                "the feature gate ContainerPathVolumes is off",
            ));
        }
        ("VirtualMachineClusterInstancetype" | "VirtualMachineClusterPreference", _)
            if !switches.instancetypes =>
        {
            return Some(OmissionReason::TurnedOff(
                "configuration.commonInstancetypesDeployment is off",
            ));
        }
        ("Role" | "RoleBinding", "kubevirt-monitoring")
            if !served.has(MONITORING, "ServiceMonitor") =>
        {
            return Some(OmissionReason::NotServed(
                "the cluster does not serve ServiceMonitor",
            ));
        }
        ("Route", _) if !served.has(OPENSHIFT.0, OPENSHIFT.1) => {
            return Some(OmissionReason::NotServed("the cluster is not OpenShift"));
        }
        _ => {}
    }
    if !is_built_in(id) && !defined.0.contains(&*id.group) && !served.has(&id.group, &id.kind) {
        return Some(OmissionReason::NotServed(
            "the cluster does not serve its kind",
        ));
    }
    if ca_bundle::needs_bundle(id) && !context.facts.bundles.contains_key(CA_BUNDLE) {
        return Some(OmissionReason::NotYet(
            "it needs the CA bundle, which does not exist yet",
        ));
    }
    None
}

/// Kinds that every cluster serves that can run KubeVirt.
fn is_built_in(id: &Id) -> bool {
    match &*id.group {
        "admissionregistration.k8s.io" => id.kind.ends_with("WebhookConfiguration"),
        group => !group.contains('.') || group.ends_with(".k8s.io"),
    }
}

fn is_of_templates(id: &Id, value: &Value) -> bool {
    const VERSION: &str = "/metadata/annotations/template.kubevirt.io~1virt-template-version";
    tree::text(value, VERSION).is_some()
        || (id.is("", "Secret") && id.name.starts_with("kubevirt-virt-template-"))
}
