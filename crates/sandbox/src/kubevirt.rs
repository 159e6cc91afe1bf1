//! KubeVirt's own API server, virt-api, inside the sandbox's: subresources such as `start`, and the
//! admission that its webhooks do in a real cluster.

use std::sync::Arc;

use actors::kubevirt::{
    SubresourceRequest, admit_vm, default_vm, default_vmi, rejection, subresource,
    subresource_api_resources,
};
use apiserver::{Admission, Cause, Denial, Extension, ExtensionRequest, Operation, Review};
use futures::future::BoxFuture;
use http::StatusCode;
use serde_json::Value;

const VALIDATOR: &str = "virtualmachine-validator.kubevirt.io";

pub(crate) fn extensions() -> Vec<Arc<dyn Extension>> {
    vec![Arc::new(Subresources)]
}

pub(crate) fn admissions() -> Vec<Arc<dyn Admission>> {
    vec![Arc::new(VirtApi)]
}

#[derive(Debug)]
struct Subresources;

impl Extension for Subresources {
    fn group(&self) -> &'static str {
        "subresources.kubevirt.io"
    }

    fn version(&self) -> &'static str {
        "v1"
    }

    fn resources(&self) -> Value {
        subresource_api_resources()
    }

    fn handle(
        &self,
        client: kube::Client,
        request: ExtensionRequest,
    ) -> BoxFuture<'static, (StatusCode, Value)> {
        Box::pin(async move {
            let part = match request.path.rest.as_str() {
                "" => request.path.subresource,
                rest => format!("{}/{rest}", request.path.subresource),
            };
            let answer = subresource(
                &client,
                request.now,
                &SubresourceRequest {
                    method: request.method,
                    namespace: request.path.namespace,
                    resource: request.path.resource,
                    name: request.path.name,
                    subresource: part,
                    body: request.body,
                },
            )
            .await;
            let code =
                StatusCode::from_u16(answer.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (code, answer.body)
        })
    }
}

#[derive(Debug)]
struct VirtApi;

impl Admission for VirtApi {
    fn mutate(&self, review: &Review<'_>, object: &mut Value) {
        if review.group != "kubevirt.io" || !review.subresource.is_empty() {
            return;
        }
        match (review.resource, review.operation) {
            ("virtualmachines", Operation::Create | Operation::Update) => {
                default_vm(object, review.old, review.random);
            }
            ("virtualmachineinstances", Operation::Create) => default_vmi(object, review.now),
            _ => {}
        }
    }

    fn validate(&self, review: &Review<'_>, object: Option<&Value>) -> Result<Vec<String>, Denial> {
        let Some(object) = object else {
            return Ok(Vec::new());
        };
        if review.group != "kubevirt.io"
            || review.resource != "virtualmachines"
            || !review.subresource.is_empty()
        {
            return Ok(Vec::new());
        }
        admit_vm(object, review.old).map_err(|causes| {
            let (message, shown) = rejection(&causes);
            Denial {
                webhook: VALIDATOR,
                code: StatusCode::UNPROCESSABLE_ENTITY,
                message,
                causes: shown
                    .iter()
                    .map(|cause| Cause {
                        reason: cause.reason.to_owned(),
                        message: cause.message.clone(),
                        field: cause.field.clone(),
                    })
                    .collect(),
            }
        })
    }
}
