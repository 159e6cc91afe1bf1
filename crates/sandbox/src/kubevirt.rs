//! virt-api inside the sandbox's API server: subresources such as `start`, and the admission that
//! its webhooks do in a real cluster.

use std::sync::Arc;

pub(crate) use actors::kubevirt::LAUNCHER_WEBHOOK;
use actors::{
    faults::Faults,
    kind::{DEFINITION, POD},
    kubevirt::{
        Eviction, Mode, SubresourceRequest, SubresourceResponse, VMI, admit_vm, check_console,
        default_vm, default_vmi, evict, guest_of, guest_service, rejection, subresource,
        subresource_api_resources,
    },
};
use apiserver::{
    Admission, Backend, Cause, Connecting, Denial, Extension, ExtensionRequest, Operation, Refusal,
    ResourcePath, Review, Tunnel,
};
use futures::future::BoxFuture;
use http::StatusCode;
use jiff::Timestamp;
use kube::{
    Api,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::guest::Guest;

pub(crate) const VIRT_API: &str = "virt-api";
pub(crate) const VALIDATOR: &str = "virtualmachine-validator.kubevirt.io";
/// KubeVirt is present if this exists; a fault of it makes virt-api unreachable.
const DEFINITION_OF_VMS: &str = "virtualmachines.kubevirt.io";
const UNAVAILABLE: &str = "WebhookUnavailable";
/// Mutating webhooks with their paths; called before the validating ones.
pub(crate) const MUTATORS: [(&str, &str, &str); 2] = [
    (
        "virtualmachines",
        "virtualmachines-mutator.kubevirt.io",
        "virtualmachines-mutate",
    ),
    (
        "virtualmachineinstances",
        "virtualmachineinstances-mutator.kubevirt.io",
        "virtualmachineinstances-mutate",
    ),
];

pub(crate) fn extensions(faults: &Faults, mode: Mode) -> Vec<Arc<dyn Extension>> {
    vec![Arc::new(Subresources {
        faults: faults.clone(),
        mode,
    })]
}

/// Webhook backends of KubeVirt's pods. They admit everything, since [`VirtApi`] has already
/// refused the rest.
pub(crate) fn programs() -> Vec<(String, Backend)> {
    vec![(VIRT_API.to_owned(), Backend::admitting())]
}

pub(crate) fn admissions(faults: &Faults) -> Vec<Arc<dyn Admission>> {
    vec![Arc::new(VirtApi {
        faults: faults.clone(),
    })]
}

fn is_away(faults: &Faults, definition: &Value, now: Timestamp) -> bool {
    faults
        .due(DEFINITION, definition, UNAVAILABLE, now)
        .is_some()
}

#[derive(Debug)]
struct Subresources {
    faults: Faults,
    mode: Mode,
}

impl Extension for Subresources {
    fn group(&self) -> &'static str {
        "subresources.kubevirt.io"
    }

    fn version(&self) -> &'static str {
        "v1"
    }

    fn definition(&self) -> Option<&str> {
        Some(DEFINITION_OF_VMS)
    }

    fn resources(&self) -> Value {
        subresource_api_resources()
    }

    fn handle(
        &self,
        client: kube::Client,
        request: ExtensionRequest,
    ) -> BoxFuture<'static, (StatusCode, Value)> {
        let faults = self.faults.clone();
        let mode = self.mode;
        Box::pin(async move {
            if !is_reachable(&client, &faults, mode, request.now).await {
                return unavailable();
            }
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

    fn connect(&self, client: &kube::Client, request: &ExtensionRequest) -> Option<Connecting> {
        if !matches!(request.path.subresource.as_str(), "portforward" | "console") {
            return None;
        }
        let (client, path, now) = (client.clone(), request.path.clone(), request.now);
        let (faults, mode) = (self.faults.clone(), self.mode);
        Some(Box::pin(async move {
            if !is_reachable(&client, &faults, mode, now).await {
                return Err(unavailable());
            }
            tunnel_to(client, path).await
        }))
    }
}

/// The tunnel to a port, or to the console, of an instance's guest.
async fn tunnel_to(
    client: kube::Client,
    path: ResourcePath,
) -> Result<Tunnel, (StatusCode, Value)> {
    let instances: Api<DynamicObject> =
        Api::namespaced_with(client, &path.namespace, &VMI.api_resource());
    let name = path.name;
    let answer = |refusal: SubresourceResponse| {
        let code = StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (code, refusal.body)
    };
    let found = instances.get_opt(&name).await;
    let found = found.map_err(|error| answer(SubresourceResponse::internal(&error.to_string())))?;
    let vmi = found.and_then(|vmi| serde_json::to_value(vmi).ok());
    let is_console = path.subresource == "console";
    let service = if is_console {
        check_console(&name, vmi.as_ref()).map(|()| None)
    } else {
        guest_service(&name, vmi.as_ref(), &path.rest).map(Some)
    };
    let service = service.map_err(answer)?;
    let guest = Guest::new(instances, &name, &vmi.unwrap_or_default());
    Ok(Box::new(move |connection| {
        Box::pin(guest.serve(service, connection))
    }))
}

/// Whether virt-api is reachable: no fault prevents it and, if managed, it has a ready pod.
pub(crate) async fn is_reachable(
    client: &kube::Client,
    faults: &Faults,
    mode: Mode,
    now: Timestamp,
) -> bool {
    if mode == Mode::Managed && !has_virt_api(client).await {
        return false;
    }
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &DEFINITION.api_resource());
    let Ok(definition) = definitions.get(DEFINITION_OF_VMS).await else {
        return true;
    };
    serde_json::to_value(definition).is_ok_and(|definition| !is_away(faults, &definition, now))
}

/// Whether a virt-api pod is ready.
async fn has_virt_api(client: &kube::Client) -> bool {
    let pods: Api<DynamicObject> = Api::all_with(client.clone(), &POD.api_resource());
    let virt_api = ListParams::default().labels(&format!("kubevirt.io={VIRT_API}"));
    let Ok(pods) = pods.list(&virt_api).await else {
        return false;
    };
    pods.items.iter().any(|pod| {
        let conditions = pod.data.pointer("/status/conditions");
        pod.metadata.deletion_timestamp.is_none()
            && conditions
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    })
}

/// Response of the aggregation layer for an unavailable APIService.
pub(crate) fn unavailable() -> (StatusCode, Value) {
    let code = StatusCode::SERVICE_UNAVAILABLE;
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "service unavailable",
        "reason": "ServiceUnavailable",
        "code": code.as_u16(),
    });
    (code, status)
}

fn too_many(message: String) -> Refusal {
    Refusal::Denied(Denial {
        webhook: LAUNCHER_WEBHOOK,
        code: StatusCode::TOO_MANY_REQUESTS,
        message,
        causes: Vec::new(),
    })
}

/// Reviews the eviction of a pod. If the guest must move instead, marks its VMI for evacuation.
pub(crate) async fn evict_launcher(
    client: kube::Client,
    pod: &Value,
    dry_run: bool,
) -> Result<(), String> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let Some(guest) = guest_of(pod) else {
        return Ok(());
    };
    let guests: Api<DynamicObject> = Api::namespaced_with(client, namespace, &VMI.api_resource());
    let vmi = match guests.get_opt(guest).await {
        Ok(Some(vmi)) => serde_json::to_value(vmi).unwrap_or_default(),
        _ => return Err(format!("kubevirt failed getting the vmi {guest}")),
    };
    match evict(pod, &vmi) {
        Eviction::Allowed => Ok(()),
        Eviction::Denied(why) => Err(why),
        Eviction::Evacuate(why) => {
            let node = &pod["spec"]["nodeName"];
            let patch = json!({"status": {"evacuationNodeName": node}});
            let params = PatchParams {
                dry_run,
                ..PatchParams::default()
            };
            let patched = guests.patch(guest, &params, &Patch::Merge(&patch)).await;
            Err(patched.map_or_else(
                |error| format!("kubevirt failed marking the vmi for eviction: {error}"),
                |_| why,
            ))
        }
    }
}

#[derive(Debug)]
struct VirtApi {
    faults: Faults,
}

impl VirtApi {
    fn check_reachable(&self, review: &Review<'_>) -> Result<(), Refusal> {
        let Some((_, webhook, path)) = MUTATORS
            .iter()
            .find(|(resource, ..)| *resource == review.resource)
        else {
            return Ok(());
        };
        let away = review
            .definitions
            .get(DEFINITION_OF_VMS)
            .is_some_and(|definition| is_away(&self.faults, &definition, review.now));
        if !away {
            return Ok(());
        }
        Err(Refusal::Unreachable {
            webhook,
            why: format!(
                "failed to call webhook: Post \"https://virt-api.kubevirt.svc:443/{path}?timeout=10s\": \
                 dial tcp 10.96.0.2:443: connect: connection refused"
            ),
        })
    }
}

impl Admission for VirtApi {
    fn mutate(&self, review: &Review<'_>, object: &mut Value) -> Result<(), Refusal> {
        if review.group != "kubevirt.io" || !review.subresource.is_empty() {
            return Ok(());
        }
        self.check_reachable(review)?;
        match (review.resource, review.operation) {
            ("virtualmachines", Operation::Create | Operation::Update) => {
                default_vm(object, review.old, review.random);
            }
            ("virtualmachineinstances", Operation::Create) => default_vmi(object, review.now),
            _ => {}
        }
        Ok(())
    }

    fn evict<'a>(
        &'a self,
        client: kube::Client,
        pod: &'a Value,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<(), Refusal>> {
        Box::pin(async move { evict_launcher(client, pod, dry_run).await.map_err(too_many) })
    }

    fn validate(
        &self,
        review: &Review<'_>,
        object: Option<&Value>,
    ) -> Result<Vec<String>, Refusal> {
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
            Refusal::Denied(Denial {
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
            })
        })
    }
}
