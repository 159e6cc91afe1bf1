//! `subresources.kubevirt.io/v1`, as virt-api serves it.
//!
//! [`decide`] computes effects and response from the VM and its VMI alone; [`subresource`] reads
//! them, executes the effects, and responds with virt-api's codes and messages. Subresources that
//! need a real guest (screens, volumes) respond with 501.

mod lifecycle;
mod list;
mod response;
mod tunnels;

use http::Method;
use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

pub use self::{
    lifecycle::{Decision, Effect, decide},
    list::subresource_api_resources,
    response::SubresourceResponse,
    tunnels::{GuestService, check_console, guest_service},
};
use super::names::{MIGRATION, VM, VMI};
use crate::{
    Kind,
    object::{list as items, name, text, uid},
};

/// Attempts of a request that conflicts with other writes.
const ATTEMPTS: u32 = 5;

#[derive(Clone, Debug, PartialEq)]
pub struct SubresourceRequest {
    /// GET or PUT.
    pub method: Method,
    pub namespace: String,
    /// `virtualmachines` or `virtualmachineinstances`.
    pub resource: String,
    pub name: String,
    /// As in `start`, without a leading slash.
    pub subresource: String,
    /// Null if there is none.
    pub body: Value,
}

pub async fn subresource(
    client: &Client,
    now: Timestamp,
    request: &SubresourceRequest,
) -> SubresourceResponse {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match serve(client, now, request).await {
            Err(response) if attempts < ATTEMPTS && is_outdated(&response) => {}
            Ok(response) | Err(response) => return response,
        }
    }
}

/// Whether another write came between the read and the write.
fn is_outdated(response: &SubresourceResponse) -> bool {
    response.code == 409
        && text(&response.body, "/message").contains("the object has been modified")
}

async fn serve(
    client: &Client,
    now: Timestamp,
    request: &SubresourceRequest,
) -> Result<SubresourceResponse, SubresourceResponse> {
    let vm = read(client, VM, request).await?;
    let vmi = read(client, VMI, request).await?;
    let effects = decide(request, vm.as_ref(), vmi.as_ref(), now)?;
    let dry_run = items(&request.body, "/dryRun")
        .iter()
        .any(|mode| mode == "All");
    for effect in effects.effects {
        execute(client, request, effect, vmi.as_ref(), dry_run).await?;
    }
    Ok(effects.response)
}

async fn read(
    client: &Client,
    kind: Kind,
    request: &SubresourceRequest,
) -> Result<Option<Value>, SubresourceResponse> {
    let object = api(client, kind, &request.namespace)
        .get_opt(&request.name)
        .await
        .map_err(|error| {
            let kind_name = if kind == VM { "vm" } else { "vmi" };
            SubresourceResponse::internal(&format!(
                "unable to retrieve {kind_name} [{}]: {error}",
                request.name
            ))
        })?;
    object
        .map(serde_json::to_value)
        .transpose()
        .map_err(|error| SubresourceResponse::internal(&error.to_string()))
}

async fn execute(
    client: &Client,
    request: &SubresourceRequest,
    effect: Effect,
    vmi: Option<&Value>,
    dry_run: bool,
) -> Result<(), SubresourceResponse> {
    let params = PatchParams {
        dry_run,
        field_manager: Some("virt-api".to_owned()),
        ..PatchParams::default()
    };
    let vms = api(client, VM, &request.namespace);
    let result = match effect {
        Effect::PatchVm(patch) => {
            vms.patch(&request.name, &params, &Patch::Merge(patch))
                .await
        }
        Effect::PatchVmStatus(patch) => {
            vms.patch_status(&request.name, &params, &Patch::Merge(patch))
                .await
        }
        Effect::PatchVmi(patch) => {
            let instances = api(client, VMI, &request.namespace);
            instances
                .patch(&request.name, &params, &Patch::Merge(patch))
                .await
        }
        Effect::Migrate(migration) => {
            admit_migration(client, request, vmi).await?;
            let migration = serde_json::from_value(migration)
                .map_err(|error| SubresourceResponse::internal(&error.to_string()))?;
            let params = PostParams {
                dry_run,
                field_manager: Some("virt-api".to_owned()),
            };
            api(client, MIGRATION, &request.namespace)
                .create(&params, &migration)
                .await
        }
    };
    match result {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Err(SubresourceResponse::conflict(
            "virtualmachine",
            &request.name,
            &status.message,
        )),
        Err(kube::Error::Api(status)) => Err(SubresourceResponse::internal(&status.message)),
        Err(error) => Err(SubresourceResponse::internal(&error.to_string())),
    }
}

/// The webhook's review of a migration of this VMI.
async fn admit_migration(
    client: &Client,
    request: &SubresourceRequest,
    vmi: Option<&Value>,
) -> Result<(), SubresourceResponse> {
    let denied = |why: String| {
        SubresourceResponse::internal(&format!(
            "admission webhook \"migration-create-validator.kubevirt.io\" denied the request: {why}"
        ))
    };
    if let Some(fixed) = vmi.and_then(|vmi| crate::object::condition(vmi, "LiveMigratable"))
        && text(fixed, "/status") == "False"
    {
        let (reason, message) = (text(fixed, "/reason"), text(fixed, "/message"));
        return Err(denied(format!(
            "Cannot migrate VMI, Reason: {reason}, Message: {message}"
        )));
    }
    let migrations = api(client, MIGRATION, &request.namespace)
        .list(&kube::api::ListParams::default())
        .await
        .map_err(|error| SubresourceResponse::internal(&error.to_string()))?;
    for migration in migrations {
        let migration = serde_json::to_value(migration).unwrap_or_default();
        if text(&migration, "/spec/vmiName") == request.name && !super::run::is_final(&migration) {
            return Err(denied(format!(
                "in-flight migration detected. Active migration job ({}) is currently already in \
                 progress for VMI {}.",
                uid(&migration),
                request.name
            )));
        }
    }
    Ok(())
}

fn api(client: &Client, kind: Kind, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &kind.api_resource())
}

/// Adds the object's resource version to a patch, so that it conflicts with other changes.
fn versioned(object: &Value, mut patch: Value) -> Value {
    let version = text(object, "/metadata/resourceVersion");
    if !version.is_empty() {
        super::edit::set(&mut patch, "/metadata/resourceVersion", version);
    }
    patch
}

/// A migration as virt-api creates it.
fn new_migration(vmi: &Value, body: &Value) -> Value {
    let mut migration = json!({
        "apiVersion": MIGRATION.api_version(),
        "kind": MIGRATION.kind,
        "metadata": { "generateName": "kubevirt-migrate-vm-" },
        "spec": { "vmiName": name(vmi) },
    });
    if let Some(selector) = body.get("addedNodeSelector") {
        super::edit::set(&mut migration, "/spec/addedNodeSelector", selector.clone());
    }
    migration
}
