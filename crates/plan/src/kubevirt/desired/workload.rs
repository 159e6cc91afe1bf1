//! Operator's additions to Deployments and to the DaemonSet virt-handler.

use serde_json::{Value, json};

use api::kubevirt::install::KubeVirt;

use super::{Context, DesiredError, Handlers};
use crate::kubevirt::{
    object::{Id, Object},
    placement::{self, Fallback},
    tree,
};

pub(super) const HANDLER: &str = "virt-handler";

const API: &str = "virt-api";
const POD: &str = "/spec/template/spec";
const MIGRATION_NAMES: &str = "--migration-cn-types";
const OLD_HANDLER_SECRET: &str = "kubevirt-virt-handler-certs";

pub(super) fn finish(
    context: &Context<'_>,
    id: &Id,
    value: &mut Value,
) -> Result<(), DesiredError> {
    let malformed = |field: &str| DesiredError::Malformed {
        id: id.clone(),
        field: field.to_owned(),
    };
    let spec = &context.kubevirt.spec;
    let labelled = context.common.add_to_pods(value);
    labelled.ok_or_else(|| malformed("spec.template.metadata"))?;
    let pod = value.pointer_mut(POD).filter(|pod| pod.is_object());
    let pod = pod.ok_or_else(|| malformed("spec.template.spec"))?;
    let (config, fallback) = if &*id.kind == "DaemonSet" {
        (spec.workloads.as_ref(), Fallback::AnyNode)
    } else {
        (spec.infra.as_ref(), Fallback::ControlPlane)
    };
    placement::place(config, fallback, pod)
        .map_err(|error| malformed(&format!("spec.template.spec: {}", error.field)))?;
    add_pull_secrets(context.kubevirt, pod)
        .ok_or_else(|| malformed("spec.template.spec.imagePullSecrets"))?;
    match (&*id.kind, &*id.name) {
        ("DaemonSet", name) => {
            if name == HANDLER {
                limit_devices(context.kubevirt, pod, &malformed)?;
            }
            if context.facts.handlers != Handlers::Mixed && supports_migration_certificate(value) {
                enable_migration_certificate(value)
                    .ok_or_else(|| malformed("spec.template.spec.containers"))?;
            }
        }
        (_, "virt-template-apiserver") => {
            add_tls_flags(context.kubevirt, pod, "apiserver", &malformed)?;
        }
        (_, "virt-template-controller") => {
            add_tls_flags(context.kubevirt, pod, "manager", &malformed)?;
        }
        _ => {}
    }
    if &*id.kind == "Deployment"
        && let Some(replicas) = replicas(context, id)
    {
        let spec = tree::map(value, &["spec"]).ok_or_else(|| malformed("spec"))?;
        spec.insert("replicas".to_owned(), replicas.into());
    }
    Ok(())
}

/// The DaemonSet with that maxUnavailable, a number or a percentage.
///
/// # Errors
/// When its update strategy is malformed.
pub fn with_max_unavailable(
    handler: &Object,
    max_unavailable: &Value,
) -> Result<Object, DesiredError> {
    let malformed = || DesiredError::Malformed {
        id: handler.id.clone(),
        field: "spec.updateStrategy.rollingUpdate".to_owned(),
    };
    let mut value = handler.value();
    let strategy = tree::map(&mut value, &["spec", "updateStrategy"]).ok_or_else(malformed)?;
    strategy.insert("type".to_owned(), "RollingUpdate".into());
    let update = tree::map(&mut value, &["spec", "updateStrategy", "rollingUpdate"]);
    let update = update.ok_or_else(malformed)?;
    update.insert("maxUnavailable".to_owned(), max_unavailable.clone());
    super::object_of(&handler.id, &value)
}

/// Number of replicas; None leaves it to the strategy and the patches.
fn replicas(context: &Context<'_>, id: &Id) -> Option<i64> {
    let infra = context.kubevirt.spec.infra.as_ref();
    let given = infra.and_then(|infra| infra.replicas);
    match given {
        Some(_) if id.name.starts_with("virt-template-") => None,
        Some(given) => Some(given),
        None if &*id.name == API && !context.customizer.sets_replicas(id) => {
            Some(match context.facts.schedulable_nodes {
                1 => 1,
                nodes => i64::try_from(nodes / 10).unwrap_or(i64::MAX).max(2),
            })
        }
        None => None,
    }
}

/// Adds the imagePullSecrets of the spec. None if the field is malformed.
fn add_pull_secrets(kubevirt: &KubeVirt, pod: &mut Value) -> Option<()> {
    let given = kubevirt.spec.image_pull_secrets.iter().flatten();
    for secret in given.filter(|secret| !secret.name.is_empty()) {
        let secrets = tree::list(pod.as_object_mut()?, "imagePullSecrets")?;
        if !secrets
            .iter()
            .any(|known| tree::text(known, "/name") == Some(&secret.name))
        {
            secrets.push(json!({"name": secret.name}));
        }
    }
    Some(())
}

fn limit_devices(
    kubevirt: &KubeVirt,
    pod: &mut Value,
    malformed: &dyn Fn(&str) -> DesiredError,
) -> Result<(), DesiredError> {
    let configuration = kubevirt.spec.configuration.as_ref();
    let limit = configuration.and_then(|fields| fields.get("virtualMachineInstancesPerNode"));
    let Some(limit) = limit.filter(|limit| !limit.is_null()) else {
        return Ok(());
    };
    let limit = limit.as_i64().ok_or(DesiredError::Spec {
        field: "spec.configuration.virtualMachineInstancesPerNode",
        must: "a whole number",
    })?;
    let command = container(pod, HANDLER).and_then(|fields| tree::list(fields, "command"));
    let command = command.ok_or_else(|| malformed("spec.template.spec.containers"))?;
    command.extend(["--max-devices".into(), limit.to_string().into()]);
    Ok(())
}

/// Adds TLS flags to a component that does not read the KubeVirt resource.
fn add_tls_flags(
    kubevirt: &KubeVirt,
    pod: &mut Value,
    name: &str,
    malformed: &dyn Fn(&str) -> DesiredError,
) -> Result<(), DesiredError> {
    let configuration = kubevirt.spec.configuration.as_ref();
    let tls = configuration.and_then(|fields| fields.get("tlsConfiguration"));
    let standard = json!({"minTLSVersion": "VersionTLS12"});
    let tls = tls.filter(|tls| !tls.is_null()).unwrap_or(&standard);
    let ciphers: Vec<_> = tree::items(tls, "/ciphers")
        .filter_map(Value::as_str)
        .collect();
    let version = tree::text(tls, "/minTLSVersion").filter(|version| !version.is_empty());
    let args = container(pod, name).and_then(|fields| tree::list(fields, "args"));
    let args = args.ok_or_else(|| malformed("spec.template.spec.containers"))?;
    if !ciphers.is_empty() {
        args.extend(["--tls-cipher-suites".into(), ciphers.join(",").into()]);
    }
    if let Some(version) = version {
        args.extend(["--tls-min-version".into(), version.into()]);
    }
    Ok(())
}

fn container<'a>(pod: &'a mut Value, name: &str) -> Option<&'a mut serde_json::Map<String, Value>> {
    let mut containers = tree::items_mut(pod, "/containers");
    let container = containers.find(|container| tree::text(container, "/name") == Some(name));
    container?.as_object_mut()
}

fn supports_migration_certificate(value: &Value) -> bool {
    const LABEL: &str = "/metadata/labels/kubevirt.io~1supports-migration-cn-types";
    tree::text(value, LABEL) == Some("true")
}

/// Whether a virt-handler uses the separate certificate for migrations.
pub(super) fn uses_migration_certificate(handler: &Value) -> bool {
    let mut args = tree::items(handler, "/spec/template/spec/containers/0/args");
    args.any(|arg| arg == MIGRATION_NAMES)
}

/// Makes virt-handler use the separate certificate for migrations, and removes the old one. None
/// without a container.
fn enable_migration_certificate(handler: &mut Value) -> Option<()> {
    if !uses_migration_certificate(handler) {
        let first = handler.pointer_mut("/spec/template/spec/containers/0")?;
        let args = tree::list(first.as_object_mut()?, "args")?;
        args.extend([MIGRATION_NAMES.into(), "migration".into()]);
    }
    let old = tree::items(handler, "/spec/template/spec/volumes")
        .find(|volume| tree::text(volume, "/secret/secretName") == Some(OLD_HANDLER_SECRET))
        .and_then(|volume| tree::text(volume, "/name"));
    let Some(old) = old.map(str::to_owned) else {
        return Some(());
    };
    let pod = handler.pointer_mut(POD)?;
    drop_named(pod.get_mut("volumes"), &old);
    for containers in ["/containers", "/initContainers"] {
        for container in tree::items_mut(pod, containers) {
            drop_named(container.get_mut("volumeMounts"), &old);
        }
    }
    Some(())
}

fn drop_named(list: Option<&mut Value>, name: &str) {
    if let Some(list) = list.and_then(Value::as_array_mut) {
        list.retain(|item| tree::text(item, "/name") != Some(name));
    }
}
