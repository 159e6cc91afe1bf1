//! virt-api over HTTP, for API servers that reach it through a Service: subresources and admission
//! webhooks.
//!
//! The sandbox's own API server calls the same functions directly.

use http::{Method, StatusCode};
use kube::{Api, Client, api::DynamicObject};
use serde_json::{Value, json};

use actors::{
    World,
    faults::Faults,
    kind::POD,
    kubevirt::{
        Mode, SubresourceRequest, admit_vm, default_vm, default_vmi, rejection, subresource,
        subresource_api_resources,
    },
};

use crate::kubevirt;

/// Name of the Service.
pub const NAME: &str = kubevirt::VIRT_API;

const GROUP: &str = "/apis/subresources.kubevirt.io";

#[derive(Clone)]
pub struct VirtApi {
    client: Client,
    faults: Faults,
    mode: Mode,
}

impl VirtApi {
    pub fn of(world: &World) -> Self {
        Self {
            client: world.client.clone(),
            faults: world.faults.clone(),
            mode: world.kubevirt,
        }
    }

    /// Handles a request. `body` is null if there is none.
    pub async fn answer(&self, method: &Method, path: &str, body: Value) -> (StatusCode, Value) {
        let now = jiff::Timestamp::now();
        if !kubevirt::is_reachable(&self.client, &self.faults, self.mode, now).await {
            return kubevirt::unavailable();
        }
        let Some(rest) = path.strip_prefix(GROUP) else {
            return (StatusCode::OK, self.review(path, &body).await);
        };
        let parts: Vec<&str> = rest.trim_matches('/').split('/').collect();
        match parts.as_slice() {
            [""] => (StatusCode::OK, api_group()),
            ["v1"] => (StatusCode::OK, subresource_api_resources()),
            ["v1", "namespaces", namespace, resource, name, part @ ..] if !part.is_empty() => {
                let request = SubresourceRequest {
                    method: method.clone(),
                    namespace: (*namespace).to_owned(),
                    resource: (*resource).to_owned(),
                    name: (*name).to_owned(),
                    subresource: part.join("/"),
                    body,
                };
                let answer = subresource(&self.client, now, &request).await;
                let code = StatusCode::from_u16(answer.code);
                (
                    code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                    answer.body,
                )
            }
            _ => (StatusCode::NOT_FOUND, Value::Null),
        }
    }

    /// Reviews an admission request. Paths that are not simulated admit everything.
    async fn review(&self, path: &str, review: &Value) -> Value {
        let request = &review["request"];
        let object = &request["object"];
        let old = Some(&request["oldObject"]).filter(|old| old.is_object());
        let mut response = match path {
            "/virtualmachines-mutate" => mutated(object, |vm| default_vm(vm, old, seed(request))),
            "/virtualmachineinstances-mutate" if request["operation"] == "CREATE" => {
                mutated(object, |vmi| default_vmi(vmi, jiff::Timestamp::now()))
            }
            "/virtualmachines-validate" if object.is_object() => validated(object, old),
            "/launcher-eviction-validate" => self.eviction(request).await,
            _ => json!({ "allowed": true }),
        };
        response["uid"] = request["uid"].clone();
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        })
    }

    async fn eviction(&self, request: &Value) -> Value {
        let text = |field: &str| request[field].as_str().unwrap_or_default();
        let pods: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), text("namespace"), &POD.api_resource());
        let Ok(Some(pod)) = pods.get_opt(text("name")).await else {
            return json!({ "allowed": true });
        };
        let pod = serde_json::to_value(pod).unwrap_or_default();
        let is_dry = request["dryRun"] == true;
        match kubevirt::evict_launcher(self.client.clone(), &pod, is_dry).await {
            Ok(()) => json!({ "allowed": true }),
            Err(message) => json!({ "allowed": false, "status": {
                "code": StatusCode::TOO_MANY_REQUESTS.as_u16(), "message": message,
            } }),
        }
    }
}

/// Objects that register virt-api, in an existing namespace: a Service with an endpoint, an
/// APIService and the webhooks.
pub fn registration(namespace: &str, ca_bundle: &str) -> Vec<Value> {
    let address = "10.128.255.1";
    let service = |path: &str| {
        json!({
            "service": { "namespace": namespace, "name": NAME, "path": path },
            "caBundle": ca_bundle,
        })
    };
    let hook = |name: &str, path: &str, group: &str, resource: &str, operations: &[&str]| {
        json!({
            "name": name, "clientConfig": service(path), "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun", "failurePolicy": "Fail", "timeoutSeconds": 10,
            "rules": [{
                "apiGroups": [group], "apiVersions": ["v1"], "resources": [resource],
                "operations": operations,
            }],
        })
    };
    let written = ["CREATE", "UPDATE"];
    vec![
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": NAME, "namespace": namespace },
            "spec": { "ports": [{ "port": 443, "protocol": "TCP", "targetPort": 8443 }] },
        }),
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": { "name": NAME, "namespace": namespace },
            "subsets": [{ "addresses": [{ "ip": address }], "ports": [{ "port": 8443, "protocol": "TCP" }] }],
        }),
        json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": { "name": "v1.subresources.kubevirt.io" },
            "spec": {
                "group": "subresources.kubevirt.io", "version": "v1",
                "groupPriorityMinimum": 1000, "versionPriority": 15,
                "service": { "namespace": namespace, "name": NAME }, "caBundle": ca_bundle,
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": { "name": "virt-api-mutator" },
            "webhooks": kubevirt::MUTATORS.map(|(resource, name, path)| {
                let path = format!("/{path}");
                hook(name, &path, "kubevirt.io", resource, &written)
            }),
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": "virt-api-validator" },
            "webhooks": [
                hook(
                    kubevirt::VALIDATOR,
                    "/virtualmachines-validate",
                    "kubevirt.io",
                    "virtualmachines",
                    &written,
                ),
                hook(
                    kubevirt::LAUNCHER_WEBHOOK,
                    "/launcher-eviction-validate",
                    "",
                    "pods/eviction",
                    &["CREATE"],
                ),
            ],
        }),
    ]
}

fn api_group() -> Value {
    let version = json!({ "groupVersion": "subresources.kubevirt.io/v1", "version": "v1" });
    json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": "subresources.kubevirt.io",
        "versions": [version], "preferredVersion": version,
    })
}

/// A number derived from the request's UID: equal for retries, different for other requests.
fn seed(request: &Value) -> u64 {
    let uid = request["uid"].as_str().unwrap_or_default();
    uid.bytes().fold(0, |seed, byte| {
        seed.wrapping_mul(31).wrapping_add(byte.into())
    })
}

fn mutated(object: &Value, change: impl FnOnce(&mut Value)) -> Value {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let mut changed = object.clone();
    change(&mut changed);
    let parts = changed.as_object().into_iter().flatten();
    let differing = parts.filter(|(part, value)| object.get(part) != Some(value));
    let patch: Vec<Value> = differing
        .map(|(part, value)| json!({ "op": "add", "path": format!("/{part}"), "value": value }))
        .collect();
    let patch = STANDARD.encode(Value::from(patch).to_string());
    json!({ "allowed": true, "patchType": "JSONPatch", "patch": patch })
}

fn validated(object: &Value, old: Option<&Value>) -> Value {
    let causes = match admit_vm(object, old) {
        Ok(warnings) if warnings.is_empty() => return json!({ "allowed": true }),
        Ok(warnings) => return json!({ "allowed": true, "warnings": warnings }),
        Err(causes) => causes,
    };
    let (message, shown) = rejection(&causes);
    let shown: Vec<Value> = shown
        .iter()
        .map(|cause| {
            json!({ "reason": cause.reason, "message": cause.message, "field": cause.field })
        })
        .collect();
    json!({ "allowed": false, "status": {
        "code": StatusCode::UNPROCESSABLE_ENTITY.as_u16(), "reason": "Invalid",
        "message": message, "details": { "causes": shown },
    } })
}
