//! Validation of `spec`, without its configuration.

use api::kubevirt::install::{CertificateConfig, CustomizePatch, KubeVirtSpec, SelfSigned};
use k8s_openapi::jiff::SignedDuration;
use serde_json::Value;

use super::Verdict;
use crate::certificates::duration;

/// Deletes virtual machines together with KubeVirt.
pub(super) const REMOVE: &str = "RemoveWorkloads";

/// Keeps KubeVirt as long as there are virtual machines.
pub(super) const BLOCK: &str = "BlockUninstallIfWorkloadsExist";

const MAX_REPLICAS: i64 = 255;

pub(super) fn check(spec: &KubeVirtSpec, verdict: &mut Verdict) {
    one_of(
        "spec.imagePullPolicy",
        spec.image_pull_policy.as_deref(),
        &["Always", "IfNotPresent", "Never"],
        verdict,
    );
    one_of(
        "spec.uninstallStrategy",
        spec.uninstall_strategy.as_deref(),
        &[REMOVE, BLOCK],
        verdict,
    );
    for (field, value) in [
        ("spec.productName", &spec.product_name),
        ("spec.productVersion", &spec.product_version),
        ("spec.productComponent", &spec.product_component),
    ] {
        if value.as_deref().is_some_and(|value| !is_label(value)) {
            verdict.refuse_sentence(
                field,
                format!(
                    "{field} becomes a label value: use at most 63 letters, digits, '-', '_' and '.', \
                     beginning and ending with a letter or digit"
                ),
            );
        }
    }
    let replicas = spec.infra.as_ref().and_then(|infra| infra.replicas);
    if replicas.is_some_and(|replicas| !(1..=MAX_REPLICAS).contains(&replicas)) {
        let field = "spec.infra.replicas";
        let message = if replicas == Some(0) {
            format!("{field} can't be 0: leave it out, or delete the resource to remove KubeVirt")
        } else {
            format!("{field} must be between 1 and {MAX_REPLICAS}")
        };
        verdict.refuse_sentence(field, message);
    }
    let port = match &spec.synchronization_port {
        Some(Value::String(port)) => port.parse().ok(),
        Some(port) => port.as_u64(),
        None => Some(1),
    };
    if !port.is_some_and(|port| (1..=65535).contains(&port)) {
        let field = "spec.synchronizationPort";
        verdict.refuse_sentence(field, format!("{field} must be a port from 1 to 65535"));
    }
    let customized = spec.customize_components.as_ref();
    let patches = customized.and_then(|customized| customized.patches.as_ref());
    for (index, patch) in patches.into_iter().flatten().enumerate() {
        check_patch(index, patch, verdict);
    }
    let certificates = spec.certificate_rotate_strategy.as_ref();
    if let Some(given) = certificates.and_then(|strategy| strategy.self_signed.as_ref()) {
        check_certificates(given, verdict);
    }
}

fn one_of(field: &str, value: Option<&str>, allowed: &[&str], verdict: &mut Verdict) {
    if let Some(value) = value.filter(|value| !value.is_empty() && !allowed.contains(value)) {
        verdict.refuse_sentence(
            field,
            format!(
                "{field} is {value:?}: it must be one of {}",
                allowed.join(", ")
            ),
        );
    }
}

fn is_label(value: &str) -> bool {
    let end = |c: char| c.is_ascii_alphanumeric();
    let inner = |c: char| end(c) || matches!(c, '-' | '_' | '.');
    value.is_empty()
        || value.len() <= 63
            && value.starts_with(end)
            && value.ends_with(end)
            && value.chars().all(inner)
}

fn check_patch(index: usize, patch: &CustomizePatch, verdict: &mut Verdict) {
    let field = format!("spec.customizeComponents.patches[{index}]");
    let CustomizePatch {
        resource_name,
        resource_type,
        patch,
        type_,
    } = patch;
    for (name, value) in [
        ("resourceName", resource_name),
        ("resourceType", resource_type),
    ] {
        if value.is_empty() {
            let field = format!("{field}.{name}");
            let message = format!("{field} is empty: set the name or kind of the object, or *");
            verdict.refuse_sentence(field, message);
        }
    }
    let content: Result<Value, _> = serde_json::from_str(patch);
    let problem = match (type_.as_str(), content) {
        ("json" | "merge" | "strategic", Err(error)) => format!("is not valid JSON: {error}"),
        ("json", Ok(Value::Array(_))) | ("merge" | "strategic", Ok(Value::Object(_))) => return,
        ("json", Ok(_)) => "must be a list of operations, since its type is json".to_owned(),
        ("merge" | "strategic", Ok(_)) => format!("must be an object, since its type is {type_}"),
        _ => {
            let field = format!("{field}.type");
            let message = format!("{field} is {type_:?}: it must be json, merge or strategic");
            verdict.refuse_sentence(field, message);
            return;
        }
    };
    let field = format!("{field}.patch");
    let message = format!("{field} {problem}");
    verdict.refuse_sentence(field, message);
}

const SELF_SIGNED: &str = "spec.certificateRotateStrategy.selfSigned";

fn check_certificates(given: &SelfSigned, verdict: &mut Verdict) {
    let SelfSigned {
        ca_rotate_interval,
        cert_rotate_interval,
        ca_overlap_interval,
        ca,
        server,
    } = given;
    let old = [
        ("caRotateInterval", ca_rotate_interval),
        ("certRotateInterval", cert_rotate_interval),
        ("caOverlapInterval", ca_overlap_interval),
    ];
    let deprecated = old.iter().find(|(_, value)| value.is_some());
    if let Some((name, _)) = deprecated
        && (ca.is_some() || server.is_some())
    {
        verdict.refuse_sentence(
            format!("{SELF_SIGNED}.{name}"),
            format!(
                "{SELF_SIGNED}.{name} is deprecated and cannot be combined with ca and server: \
                 remove it"
            ),
        );
    }
    let none = CertificateConfig::default();
    let (ca, server) = (
        ca.as_ref().unwrap_or(&none),
        server.as_ref().unwrap_or(&none),
    );
    let mut read =
        |fields: &[(&str, &Option<String>)], default| read_first(fields, default, verdict);
    let hours = SignedDuration::from_hours;
    let ca_duration = read(
        &[
            ("caRotateInterval", ca_rotate_interval),
            ("ca.duration", &ca.duration),
        ],
        hours(168),
    );
    let ca_before = read(
        &[
            ("caOverlapInterval", ca_overlap_interval),
            ("ca.renewBefore", &ca.renew_before),
        ],
        ca_duration / 5,
    );
    let server_duration = read(
        &[
            ("certRotateInterval", cert_rotate_interval),
            ("server.duration", &server.duration),
        ],
        hours(24),
    );
    let server_before = read(
        &[("server.renewBefore", &server.renew_before)],
        server_duration / 5,
    );
    for (greater, lesser, field, limit) in [
        (ca_before, ca_duration, "ca.renewBefore", "ca.duration"),
        (
            server_before,
            server_duration,
            "server.renewBefore",
            "server.duration",
        ),
        (
            server_duration,
            ca_duration,
            "server.duration",
            "ca.duration",
        ),
    ] {
        if greater > lesser {
            verdict.refuse_sentence(
                format!("{SELF_SIGNED}.{field}"),
                format!("{SELF_SIGNED}.{field} cannot exceed {limit}: make it shorter"),
            );
        }
    }
}

/// The first field that is set. An invalid duration is refused and counts as absent.
fn read_first(
    fields: &[(&str, &Option<String>)],
    default: SignedDuration,
    verdict: &mut Verdict,
) -> SignedDuration {
    let given = fields
        .iter()
        .find_map(|(field, text)| Some((field, text.as_deref()?)));
    let Some((field, text)) = given else {
        return default;
    };
    match duration::parse(text) {
        Some(duration) if duration.is_positive() => duration,
        _ => {
            verdict.refuse_sentence(
                format!("{SELF_SIGNED}.{field}"),
                format!(
                    "{SELF_SIGNED}.{field} is {text:?}: use a positive duration in hours, minutes and \
                     seconds, such as 36h30m"
                ),
            );
            default
        }
    }
}
