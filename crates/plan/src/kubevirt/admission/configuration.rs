//! Validation of `spec.configuration`.

use api::kubevirt::install::KubeVirt;
use serde_json::Value;

use super::{
    super::gates::{Gates, State},
    Verdict,
    tls::CIPHERS,
};

fn configured<'a>(kubevirt: &'a KubeVirt, pointer: &str) -> Option<&'a Value> {
    let value = kubevirt.spec.configuration.as_ref()?.pointer(pointer)?;
    Some(value).filter(|value| !value.is_null())
}

/// The value under a pointer, if the change sets it.
fn changed<'a>(old: Option<&KubeVirt>, new: &'a KubeVirt, pointer: &str) -> Option<&'a Value> {
    let value = configured(new, pointer)?;
    let before = old.and_then(|old| configured(old, pointer));
    Some(value).filter(|value| before != Some(value))
}

pub(super) fn check(
    old: Option<&KubeVirt>,
    new: &KubeVirt,
    gates: &Gates<'_>,
    verdict: &mut Verdict,
) {
    check_ratio(new, verdict);
    let allowed = |gate| gates.is_later() || gates.on(gate);
    let mut needs = |field: &str, gate: &str| {
        let message = format!(
            "{field} needs the feature gate {gate}: add it to \
             spec.configuration.developerConfiguration.featureGates, if the version supports it"
        );
        verdict.refuse_sentence(field, message);
    };
    let template = configured(new, "/virtTemplateDeployment/enabled");
    if template == Some(&Value::Bool(true)) && !allowed("Template") {
        needs(
            "spec.configuration.virtTemplateDeployment.enabled",
            "Template",
        );
    }
    let strategy = configured(new, "/roleAggregationStrategy").and_then(Value::as_str);
    if strategy == Some("Manual") && !allowed("OptOutRoleAggregation") {
        needs(
            "spec.configuration.roleAggregationStrategy",
            "OptOutRoleAggregation",
        );
    }
    if changed(old, new, "/migrations/maxDowntimeMs").is_some()
        && !allowed("MigrationStallDetection")
    {
        needs(
            "spec.configuration.migrations.maxDowntimeMs",
            "MigrationStallDetection",
        );
    }
    if let Some(tls) = changed(old, new, "/tlsConfiguration") {
        check_tls(tls, verdict);
    }
    if let Some(seccomp) = changed(old, new, "/seccompConfiguration") {
        check_seccomp(seccomp, verdict);
    }
}

fn check_ratio(new: &KubeVirt, verdict: &mut Verdict) {
    let field = "spec.configuration.additionalGuestMemoryOverheadRatio";
    let ratio = configured(new, "/additionalGuestMemoryOverheadRatio");
    let Some(ratio) = ratio.and_then(Value::as_str) else {
        return;
    };
    // Rust parses "inf" and "nan".
    let read = ratio.parse::<f64>().ok().filter(|ratio| ratio.is_finite());
    match read {
        None => verdict.refuse_sentence(
            field,
            format!("{field} is {ratio:?}: write a number, as \"1.5\""),
        ),
        Some(read) if read < 1.0 => verdict.refuse_sentence(
            field,
            format!("{field} is {ratio:?}: it cannot be smaller than 1.0"),
        ),
        Some(_) => {}
    }
}

fn check_tls(tls: &Value, verdict: &mut Verdict) {
    let field = "spec.configuration.tlsConfiguration";
    let ciphers = tls.get("ciphers").and_then(Value::as_array);
    let Some(ciphers) = ciphers.filter(|ciphers| !ciphers.is_empty()) else {
        return;
    };
    let least = tls.get("minTLSVersion").and_then(Value::as_str);
    if matches!(least, None | Some("" | "VersionTLS13")) {
        verdict.refuse_sentence(
            format!("{field}.ciphers"),
            format!(
                "{field}.ciphers cannot be set when minTLSVersion is empty or VersionTLS13, whose \
                 ciphers are fixed: remove them, or set minTLSVersion to VersionTLS12"
            ),
        );
        return;
    }
    for (index, cipher) in ciphers.iter().enumerate() {
        let known = cipher
            .as_str()
            .is_some_and(|cipher| CIPHERS.contains(&cipher));
        if !known {
            let field = format!("{field}.ciphers[{index}]");
            let message = format!("{field} {cipher} is not a cipher suite that Go knows");
            verdict.refuse_sentence(field, message);
        }
    }
}

fn check_seccomp(seccomp: &Value, verdict: &mut Verdict) {
    let given = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
    let profile = seccomp.get("virtualMachineInstanceProfile");
    let Some(profile) = profile.filter(|profile| !profile.is_null()) else {
        return;
    };
    let field =
        "spec.configuration.seccompConfiguration.virtualMachineInstanceProfile.customProfile";
    let custom = profile.get("customProfile");
    let Some(custom) = custom.filter(|custom| !custom.is_null()) else {
        verdict.refuse_sentence(
            field,
            format!("{field} is missing: set localhostProfile or runtimeDefaultProfile"),
        );
        return;
    };
    let default = custom.get("runtimeDefaultProfile") == Some(&Value::Bool(true));
    if default && given(custom.get("localhostProfile")) {
        verdict.refuse_sentence(
            format!("{field}.localhostProfile"),
            format!(
                "{field}.localhostProfile and runtimeDefaultProfile cannot both be set: remove one"
            ),
        );
    }
}

const GATES: &str = "spec.configuration.developerConfiguration.featureGates";

/// Validates feature gates, if they have changed.
pub(super) fn check_gates(
    old: Option<&KubeVirt>,
    gates: &Gates<'_>,
    version: &str,
    verdict: &mut Verdict,
) {
    let same = |old: &KubeVirt| {
        let before = Gates::of(old, version);
        ["featureGates", "disabledFeatureGates"]
            .iter()
            .all(|list| before.list(list).eq(gates.list(list)))
    };
    if old.is_some_and(same) {
        return;
    }
    for gate in gates.list("featureGates") {
        if gates.is_disabled(gate) {
            verdict.refuse_sentence(
                GATES,
                format!("{GATES} and disabledFeatureGates both have {gate}: remove it from one"),
            );
        }
        // The gates of later releases are unknown.
        if gates.is_later() {
            continue;
        }
        let what = match gates.state(gate) {
            Some(State::Ga) => "is always on",
            Some(State::Deprecated) => "is deprecated",
            Some(State::Discontinued) => "has no effect",
            None => "is unknown",
            Some(State::Alpha | State::Beta) => continue,
        };
        let warning = format!("{GATES}: {gate} {what} in {version}: remove it");
        verdict.warnings.push(warning);
    }
}

/// Warns of deprecated fields.
pub(super) fn warn(new: &KubeVirt, verdict: &mut Verdict) {
    let mut deprecated = |field: &str, instead: &str| {
        let warning = format!("spec.configuration.{field} is deprecated{instead}");
        verdict.warnings.push(warning);
    };
    let instead = ", use mediatedDeviceTypes";
    let devices = "mediatedDevicesConfiguration";
    if configured(new, &format!("/{devices}/mediatedDevicesTypes")).is_some() {
        deprecated(&format!("{devices}.mediatedDevicesTypes"), instead);
    }
    let nodes = configured(new, &format!("/{devices}/nodeMediatedDeviceTypes"));
    let nodes = nodes.and_then(Value::as_array).into_iter().flatten();
    for (index, node) in nodes.enumerate() {
        let types = node.get("mediatedDevicesTypes");
        if types.is_some_and(|types| !types.is_null()) {
            let field = format!("{devices}.nodeMediatedDeviceTypes[{index}].mediatedDevicesTypes");
            deprecated(&field, instead);
        }
    }
    if configured(new, "/architectureConfiguration/ppc64le").is_some() {
        let instead = " and no longer supported";
        deprecated("architectureConfiguration.ppc64le", instead);
    }
}
