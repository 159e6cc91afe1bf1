use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::{Machine, MachineClass, NetworkConfiguration};

/// The definitions of the resources that users write, in the order of their names.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![
        MachineClass::crd(),
        Machine::crd(),
        NetworkConfiguration::crd(),
    ];
    for version in crds.iter_mut().flat_map(|crd| &mut crd.spec.versions) {
        if let Some(schema) = version
            .schema
            .as_mut()
            .and_then(|s| s.open_api_v3_schema.as_mut())
        {
            as_kubernetes_writes_it(schema);
        }
    }
    crds
}

/// Absent and null are the same to our users, so no field is nullable: the API server then drops
/// a null, as it does for its own types, and no CEL rule meets one. Descriptions are one line:
/// `kubectl explain` breaks lines itself.
fn as_kubernetes_writes_it(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if let Some(description) = &mut schema.description {
        *description = description.replace('\n', " ");
    }
    if let Some(values) = &mut schema.enum_ {
        values.retain(|value| !value.0.is_null());
    }
    for property in schema.properties.iter_mut().flat_map(|p| p.values_mut()) {
        as_kubernetes_writes_it(property);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => as_kubernetes_writes_it(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => {
            items.iter_mut().for_each(as_kubernetes_writes_it);
        }
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        as_kubernetes_writes_it(values);
    }
}
