//! Labels and annotations of all objects: ownership and deployment.

use std::collections::BTreeMap;

use api::kubevirt::install::{self, KubeVirt};
use serde_json::Value;

use crate::kubevirt::{target::Target, tree};

/// Labels and annotations of all objects of an installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommonLabels {
    /// Labels of objects and pods.
    pub labels: BTreeMap<String, String>,
    /// Annotations of objects and pods: a pod is up to date if its annotations match.
    pub deployment: BTreeMap<String, String>,
    /// Generation of the KubeVirt resource; not on pods.
    pub generation: String,
}

impl CommonLabels {
    pub(super) fn new(kubevirt: &KubeVirt, target: &Target, notes: &mut Vec<String>) -> Self {
        let spec = &kubevirt.spec;
        let mut value_of = |field: &str, given: &Option<String>| {
            let given = given.as_deref().filter(|given| !given.is_empty())?;
            if is_label_value(given) {
                return Some(given.to_owned());
            }
            notes.push(format!(
                "spec.{field} is ignored: {given:?} is not a valid label value, which has at most 63 \
                 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit"
            ));
            None
        };
        let component = value_of("productComponent", &spec.product_component);
        let given = [
            (install::MANAGED_BY, Some(install::MANAGER.to_owned())),
            (
                install::COMPONENT,
                component.or(Some("kubevirt".to_owned())),
            ),
            (
                install::PART_OF,
                value_of("productName", &spec.product_name),
            ),
            (
                install::VERSION,
                value_of("productVersion", &spec.product_version),
            ),
        ];
        let labels = given
            .into_iter()
            .filter_map(|(label, value)| Some((label.to_owned(), value?)));
        let deployment = [
            (install::STRATEGY_VERSION, &target.version),
            (install::STRATEGY_REGISTRY, &target.registry),
            (install::STRATEGY_IDENTIFIER, &target.id),
        ];
        let deployment = deployment.into_iter();
        Self {
            labels: labels.collect(),
            deployment: deployment
                .map(|(name, value)| (name.to_owned(), value.clone()))
                .collect(),
            generation: kubevirt.metadata.generation.unwrap_or_default().to_string(),
        }
    }

    pub fn annotations(&self) -> BTreeMap<String, String> {
        let mut annotations = self.deployment.clone();
        annotations.insert(install::GENERATION.to_owned(), self.generation.clone());
        annotations
    }

    /// Adds them to an object. None if its metadata is malformed.
    pub(super) fn add_to(&self, object: &mut Value) -> Option<()> {
        self.add(object, &[], &self.annotations())
    }

    /// Adds them to the pod template of a workload. None if its metadata is malformed.
    pub(super) fn add_to_pods(&self, workload: &mut Value) -> Option<()> {
        self.add(workload, &["spec", "template"], &self.deployment)
    }

    fn add(
        &self,
        value: &mut Value,
        path: &[&str],
        annotations: &BTreeMap<String, String>,
    ) -> Option<()> {
        for (field, added) in [("labels", &self.labels), ("annotations", annotations)] {
            let fields = tree::map(value, &[path, &["metadata", field]].concat())?;
            for (name, value) in added {
                fields.insert(name.clone(), value.clone().into());
            }
        }
        Some(())
    }
}

fn is_label_value(text: &str) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= 63
        && is_end(text.chars().next())
        && is_end(text.chars().next_back())
        && text.chars().all(is_inner)
}
