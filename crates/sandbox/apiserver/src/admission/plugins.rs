//! Compiled-in admission plugins: NamespaceLifecycle, DefaultStorageClass, Priority,
//! PersistentVolumeClaimResize, and the allocation of Service addresses.

use std::collections::BTreeSet;

use quantity::Quantity;
use serde_json::{Value, json};

use crate::admission::webhook::Operation;
use crate::{
    ApiError, Cause, ObjectRef, object, registry::Resource, server::Shared, store::TableId,
    verbs::Call,
};

/// kube-apiserver's immortalNamespaces.
const IMMORTAL_NAMESPACES: [&str; 3] = ["default", "kube-public", "kube-system"];

/// Whether [`mutate`] may change an update.
pub(super) fn may_mutate_update(call: &Call<'_>) -> bool {
    call.resource.group.is_empty() && call.resource.kind == "Service"
}

pub(super) fn mutate(
    call: &Call<'_>,
    operation: Operation,
    new: &mut Value,
) -> Result<(), ApiError> {
    if operation == Operation::Create {
        check_namespace_lifecycle(call, object::meta(new, "name"))?;
    }
    let Some(kind) = call.resource.built_in_kind() else {
        return Ok(());
    };
    if !call.path.subresource.is_empty() {
        return Ok(());
    }
    if operation == Operation::Create {
        kinds::admit_create(kind, new);
    } else {
        kinds::admit_update(kind, new);
    }
    match (kind.group, kind.kind) {
        ("", "Pod") if operation == Operation::Create => resolve_priority(call, new)?,
        ("", "PersistentVolumeClaim") if operation == Operation::Create => {
            default_storage_class(call.server, new);
        }
        ("", "Service") => {
            let mut addresses =
                Addresses::of_other_services(call.server, &call.id(object::meta(new, "name")).key);
            addresses.check(new, operation)?;
            kinds::allocate_service(new, &mut addresses);
        }
        _ => {}
    }
    Ok(())
}

pub(super) fn validate(
    call: &Call<'_>,
    operation: Operation,
    new: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let is_claim =
        call.resource.group.is_empty() && call.resource.plural == "persistentvolumeclaims";
    if let (Some(new), Some(old)) = (new, old)
        && is_claim
        && call.path.subresource.is_empty()
    {
        check_claim_resize(call, new, old)?;
    }
    if operation == Operation::Delete
        && is_namespace(call.resource)
        && IMMORTAL_NAMESPACES.contains(&call.path.name.as_str())
    {
        return Err(ApiError::forbidden(
            call.object_ref(),
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

fn is_namespace(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "namespaces"
}

fn check_namespace_lifecycle(call: &Call<'_>, object: &str) -> Result<(), ApiError> {
    let name = call.namespace();
    if name.is_empty() || !call.path.subresource.is_empty() {
        return Ok(());
    }
    let Some(namespace) = call.server.store.get(&TableId::new("", "namespaces"), name) else {
        return Err(ApiError::not_found(ObjectRef {
            group: "",
            resource: "namespaces",
            name,
        }));
    };
    if !namespace_is_terminating(namespace.parsed()) {
        return Ok(());
    }
    let mut error = ApiError::forbidden(
        call.object_ref_named(object),
        &format!("unable to create new content in namespace {name} because it is being terminated"),
    );
    if let Some(details) = &mut error.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {name} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
    }
    Err(error)
}

fn namespace_is_terminating(namespace: &Value) -> bool {
    object::is_terminating(namespace)
        || namespace.pointer("/status/phase") == Some(&Value::from("Terminating"))
}

fn resolve_priority(call: &Call<'_>, pod: &mut Value) -> Result<(), ApiError> {
    let class = pod
        .pointer("/spec/priorityClassName")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if class.is_empty() {
        return Ok(());
    }
    let table = TableId::new("scheduling.k8s.io", "priorityclasses");
    let Some(found) = call.server.store.get(&table, &class) else {
        return Err(ApiError::forbidden(
            call.object_ref_named(object::meta(pod, "name")),
            &format!("no PriorityClass with name {class} was found"),
        ));
    };
    kinds::admit_priority(pod, &found.value());
    Ok(())
}

/// PersistentVolumeClaimResize: only bound claims whose StorageClass allows expansion may grow.
fn check_claim_resize(call: &Call<'_>, new: &Value, old: &Value) -> Result<(), ApiError> {
    let size = |claim: &Value| -> Option<Quantity> {
        let size = claim.pointer("/spec/resources/requests/storage")?;
        size.as_str()?.parse().ok()
    };
    if size(new) <= size(old) {
        return Ok(());
    }
    if old.pointer("/status/phase") != Some(&json!("Bound")) {
        return Err(ApiError::forbidden(
            call.object_ref(),
            "Only bound persistent volume claims can be expanded",
        ));
    }
    let class = |claim: &Value| -> String {
        claim
            .pointer("/metadata/annotations/volume.beta.kubernetes.io~1storage-class")
            .or_else(|| claim.pointer("/spec/storageClassName"))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let table = TableId::new("storage.k8s.io", "storageclasses");
    let can_resize = class(new) == class(old)
        && call
            .server
            .store
            .get(&table, &class(old))
            .is_some_and(|class| {
                class.parsed().pointer("/allowVolumeExpansion") == Some(&json!(true))
            });
    if can_resize {
        return Ok(());
    }
    Err(ApiError::forbidden(
        call.object_ref(),
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the \
         pvc must support resize",
    ))
}

/// DefaultStorageClass. An empty class name means "no class" and stays.
fn default_storage_class(server: &Shared, claim: &mut Value) {
    if claim
        .pointer("/spec/storageClassName")
        .is_some_and(|class| !class.is_null())
    {
        return;
    }
    let mut defaults: Vec<Value> = server
        .store
        .list(&TableId::new("storage.k8s.io", "storageclasses"), "")
        .objects
        .iter()
        .map(|stored| stored.value())
        .filter(|class| {
            class.pointer("/metadata/annotations/storageclass.kubernetes.io~1is-default-class")
                == Some(&json!("true"))
        })
        .collect();
    // Like kube-apiserver: the newest default class, then the first by name.
    defaults.sort_by(|one, other| {
        let created = |class: &Value| object::meta(class, "creationTimestamp").to_owned();
        created(other)
            .cmp(&created(one))
            .then_with(|| object::meta(one, "name").cmp(object::meta(other, "name")))
    });
    if let Some(class) = defaults.first() {
        object::child_mut(object::map_mut(claim), "spec").insert(
            "storageClassName".to_owned(),
            object::meta(class, "name").into(),
        );
    }
}

/// Cluster IPs and node ports allocated to Services.
struct Addresses {
    allocated: BTreeSet<String>,
    ports: BTreeSet<u16>,
}

impl Addresses {
    /// Allocations of all Services except the one that is being written.
    fn of_other_services(server: &Shared, except: &str) -> Self {
        let mut allocated = BTreeSet::new();
        let mut ports = BTreeSet::new();
        let services = server.store.list(&TableId::new("", "services"), "").objects;
        for stored in services
            .iter()
            .filter(|stored| stored.key.as_ref() != except)
        {
            let service = stored.value();
            if let Some(address) = service.pointer("/spec/clusterIP").and_then(Value::as_str) {
                allocated.insert(address.to_owned());
            }
            let used = service
                .pointer("/spec/ports")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|port| u16::try_from(port.get("nodePort")?.as_u64()?).ok());
            ports.extend(used);
        }
        Self { allocated, ports }
    }

    /// Refuses requested addresses and ports that are out of range or allocated.
    fn check(&self, service: &Value, operation: Operation) -> Result<(), ApiError> {
        let mut violations = Vec::new();
        let address = service
            .pointer("/spec/clusterIP")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let problem = match address {
            // Service validation already refuses a change of the cluster IP.
            _ if operation == Operation::Update => None,
            "" | "None" => None,
            address if !address.starts_with("10.96.") => {
                Some("the provided network does not match the current range")
            }
            address if self.allocated.contains(address) => Some("provided IP is already allocated"),
            _ => None,
        };
        if let Some(problem) = problem {
            violations.push(schema::Violation::invalid(
                "spec.clusterIPs",
                json!([address]),
                format!("failed to allocate IP {address}: {problem}"),
            ));
        }
        let ports = service.pointer("/spec/ports").and_then(Value::as_array);
        for (index, port) in ports.into_iter().flatten().enumerate() {
            let requested = port
                .get("nodePort")
                .and_then(Value::as_u64)
                .unwrap_or_default();
            let problem = match u16::try_from(requested) {
                Ok(0) => continue,
                Ok(port) if NODE_PORTS.contains(&port) && !self.ports.contains(&port) => continue,
                Ok(port) if NODE_PORTS.contains(&port) => {
                    "provided port is already allocated".to_owned()
                }
                _ => format!(
                    "provided port is not in the valid range. The range of valid ports is {}-{}",
                    NODE_PORTS.start(),
                    NODE_PORTS.end()
                ),
            };
            let path = format!("spec.ports[{index}].nodePort");
            violations.push(schema::Violation::invalid(path, requested, problem));
        }
        if violations.is_empty() {
            return Ok(());
        }
        let name = object::meta(service, "name");
        Err(ApiError::invalid("", "Service", name, &violations))
    }
}

const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

impl kinds::Allocator for Addresses {
    fn cluster_ip(&mut self) -> Option<String> {
        let free = (0..=u16::MAX)
            .map(|number| format!("10.96.{}.{}", number >> 8, number & 0xff))
            .skip(1)
            .find(|address| !self.allocated.contains(address))?;
        self.allocated.insert(free.clone());
        Some(free)
    }

    fn node_port(&mut self) -> Option<u16> {
        let free = NODE_PORTS.clone().find(|port| !self.ports.contains(port))?;
        self.ports.insert(free);
        Some(free)
    }
}
