//! Installation of the CustomResourceDefinition of KubeVirt.
//!
//! KubeVirt's manifests contain one. If there is none, the operator installs its own and updates it; a
//! foreign one is not changed.

use api::labels;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::execute::Failure;
use crate::requests::{Requests, is_code};

/// CustomResourceDefinition of the KubeVirt resource.
pub(super) const DEFINITION: &str = "kubevirts.kubevirt.io";

/// Installs the definition if there is none, or updates the operator's own.
pub(super) async fn install(requests: &Requests) -> Result<(), Failure> {
    let definition = wanted();
    let name = definition.metadata.name.as_deref().unwrap_or_default();
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    match requests.get(&path).await {
        Ok(found) if is_operators(&found) && !is_same(&found, &definition) => {}
        Ok(_) => return Ok(()),
        Err(error) if is_code(&error, 404) => {}
        Err(error) => return Err(error.into()),
    }
    tracing::info!(name, "installing CustomResourceDefinition {name}");
    let body = serde_json::to_value(&definition).unwrap_or_default();
    requests.apply(&path, &body).await?;
    Ok(())
}

/// Definition with the operator's label and a fingerprint of its content.
fn wanted() -> CustomResourceDefinition {
    let mut definition = api::kubevirt_crd();
    let text = serde_json::to_string(&definition).unwrap_or_default();
    let fingerprint = plan::kubevirt::Fingerprint::of(&text).to_string();
    let metadata = &mut definition.metadata;
    let label = (labels::MANAGED_BY.to_owned(), labels::MANAGER.to_owned());
    metadata.labels.get_or_insert_default().extend([label]);
    let annotation = (FINGERPRINT.to_owned(), fingerprint);
    metadata
        .annotations
        .get_or_insert_default()
        .extend([annotation]);
    definition
}

/// Annotation with the fingerprint of the definition's content.
const FINGERPRINT: &str = "vitistack.io/definition";

fn is_operators(found: &Value) -> bool {
    found["metadata"]["labels"][labels::MANAGED_BY] == labels::MANAGER
}

fn is_same(found: &Value, wanted: &CustomResourceDefinition) -> bool {
    let annotations = wanted.metadata.annotations.as_ref();
    let wanted = annotations.and_then(|annotations| annotations.get(FINGERPRINT));
    found["metadata"]["annotations"][FINGERPRINT].as_str() == wanted.map(String::as_str)
}
