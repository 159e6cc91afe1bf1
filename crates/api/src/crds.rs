//! CustomResourceDefinitions, generated from the types of this crate.

mod other_providers;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::{
    Machine, MachineClass, NetworkConfiguration, kubevirt::install::KubeVirt, kubevirt_config,
};

/// The definitions of the project's custom resources, by name.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut machine = Machine::crd();
    schemas(&mut machine).for_each(other_providers::accept);
    let mut crds = vec![MachineClass::crd(), machine, NetworkConfiguration::crd()];
    crds.iter_mut().flat_map(schemas).for_each(normalize);
    crds
}

/// The definition of the KubeVirt resource, for clusters that have none. It preserves fields that later
/// KubeVirt releases add.
pub fn kubevirt_crd() -> CustomResourceDefinition {
    let mut crd = KubeVirt::crd();
    for schema in schemas(&mut crd) {
        normalize(schema);
        for part in schema.properties.iter_mut().flat_map(|p| p.values_mut()) {
            keep_unknown(part);
        }
    }
    crd
}

/// The definition of KubevirtConfigs, for clusters without that of the Viti stack.
pub fn kubevirt_config_crd() -> CustomResourceDefinition {
    let mut crd = kubevirt_config::definition();
    schemas(&mut crd).for_each(normalize);
    crd
}

fn schemas(crd: &mut CustomResourceDefinition) -> impl Iterator<Item = &mut JSONSchemaProps> {
    let versions = crd.spec.versions.iter_mut();
    versions.filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut())
}

fn keep_unknown(schema: &mut JSONSchemaProps) {
    if let Some(properties) = &mut schema.properties {
        schema.x_kubernetes_preserve_unknown_fields = Some(true);
        properties.values_mut().for_each(keep_unknown);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        keep_unknown(items);
    }
}

/// Normalizes a generated schema. No field is nullable, so that the API server drops nulls, as for
/// built-in types, and CEL rules never see one. Descriptions have one line, because `kubectl explain`
/// wraps them.
fn normalize(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if let Some(description) = &mut schema.description {
        *description = description.replace('\n', " ");
    }
    if let Some(values) = &mut schema.enum_ {
        values.retain(|value| !value.0.is_null());
    }
    for property in schema.properties.iter_mut().flat_map(|p| p.values_mut()) {
        normalize(property);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => normalize(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => {
            items.iter_mut().for_each(normalize);
        }
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        normalize(values);
    }
}
