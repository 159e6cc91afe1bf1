//! The labels and annotations that tell whose an object is and which deployment it is of.

use std::collections::BTreeMap;

use api::kubevirt::install::{self, KubeVirt};
use serde_json::Value;

use crate::kubevirt::{target::Target, tree};

/// The labels and annotations of every object of an installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The labels, also of pods.
    pub labels: BTreeMap<String, String>,
    /// The annotations that tell the deployment, also of pods: whether a pod is up to date is told
    /// by these.
    pub deployment: BTreeMap<String, String>,
    /// The generation of the KubeVirt resource, an annotation of objects only.
    pub generation: String,
}

impl Marks {
    pub(super) fn new(kubevirt: &KubeVirt, target: &Target, notes: &mut Vec<String>) -> Self {
        let spec = &kubevirt.spec;
        let mut value_of = |field: &str, given: &Option<String>| {
            let given = given.as_deref().filter(|given| !given.is_empty())?;
            if is_label_value(given) {
                return Some(given.to_owned());
            }
            notes.push(format!(
                "spec.{field} is left out: {given:?} is no value of a label, which has at most 63 \
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

    /// The annotations of an object.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let mut annotations = self.deployment.clone();
        annotations.insert(install::GENERATION.to_owned(), self.generation.clone());
        annotations
    }

    /// Marks an object. None when its metadata is not what it should be.
    pub(super) fn put_on(&self, object: &mut Value) -> Option<()> {
        self.put(object, &[], &self.annotations())
    }

    /// Marks the pods of a workload. None when their metadata is not what it should be.
    pub(super) fn put_on_pods(&self, workload: &mut Value) -> Option<()> {
        self.put(workload, &["spec", "template"], &self.deployment)
    }

    fn put(
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
