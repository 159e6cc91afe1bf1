//! virt-api's validation of VMs, with its messages, under KubeVirt's default configuration.
//!
//! Covers run strategies, machine types, firmware, networks, disks, volumes, DataVolume templates
//! and hotplug limits. Does not cover devices behind a feature gate, probes, DNS and access
//! credentials: such VMs are admitted.

mod credentials;
mod devices;
mod instance;
mod network;

use serde_json::Value;

use self::instance::instance_causes;
use super::{defaults::default_spec, live_update::memory_problem};
use crate::object::{is_deleted, list, name, namespace, number, text};

/// Name of the webhook, which the API server puts before the message.
pub const VM_WEBHOOK: &str = "virtualmachine-validator.kubevirt.io";

/// Number of causes in the message of a review.
const SHOWN_CAUSES: usize = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// As in `FieldValueInvalid`.
    pub reason: &'static str,
    pub field: String,
    pub message: String,
}

impl Cause {
    fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of("FieldValueInvalid", field, message)
    }

    fn required(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of("FieldValueRequired", field, message)
    }

    fn of(reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            reason,
            field: field.into(),
            message: message.into(),
        }
    }
}

/// virt-api's rejection: the message of a Status with code 422 and reason `Invalid`, and the causes
/// of its details.
pub fn rejection(causes: &[Cause]) -> (String, &[Cause]) {
    let (shown, rest) = causes.split_at(causes.len().min(SHOWN_CAUSES));
    let messages: Vec<&str> = shown.iter().map(|cause| cause.message.as_str()).collect();
    let message = messages.join(", ");
    if rest.is_empty() {
        return (message, shown);
    }
    let message = format!("{message}, and {} more validation errors", rest.len());
    (message, shown)
}

/// Validates a VM: warnings, or the causes of the rejection. `old` is the VM before an update.
pub fn admit_vm(new: &Value, old: Option<&Value>) -> Result<Vec<String>, Vec<Cause>> {
    if is_deleted(new) {
        return Ok(Vec::new());
    }
    let Some(mut spec) = new.pointer("/spec/template/spec").cloned() else {
        let cause = Cause::required("spec.template", "missing virtual machine template.");
        return Err(vec![cause]);
    };
    default_spec(&mut spec);
    let mut causes: Vec<Cause> = reserved_labels(new).into_iter().collect();
    causes.extend(instance_causes("spec.template.spec", &spec));
    causes.extend(data_volume_causes(new));
    causes.extend(run_strategy_causes(new));
    causes.extend(live_update_causes(new, &spec));
    if causes.is_empty() {
        causes.extend(busy_causes(new, old));
    }
    if !causes.is_empty() {
        return Err(causes);
    }
    let mut warnings = Vec::new();
    if new
        .pointer("/spec/running")
        .is_some_and(|running| !running.is_null())
    {
        let warning = "spec.running is deprecated, please use spec.runStrategy instead.";
        warnings.push(warning.to_owned());
    }
    Ok(warnings)
}

fn reserved_labels(vm: &Value) -> Option<Cause> {
    const RESERVED: [&str; 6] = [
        "kubevirt.io/created-by",
        "kubevirt.io/migrationJobUID",
        "kubevirt.io/nodeName",
        "kubevirt.io/migrationTargetNodeName",
        "kubevirt.io/schedulable",
        "kubevirt.io/install-strategy",
    ];
    let labels = crate::object::map(vm, "/spec/template/metadata/labels")?;
    RESERVED.iter().any(|label| labels.contains_key(*label)).then(|| {
        let message =
            "creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited";
        Cause::of("FieldValueNotSupported", "spec.template.metadata.labels", message)
    })
}

fn run_strategy_causes(vm: &Value) -> Vec<Cause> {
    let running = vm
        .pointer("/spec/running")
        .is_some_and(|running| !running.is_null());
    let strategy = text(vm, "/spec/runStrategy");
    let mut causes = Vec::new();
    match (running, !strategy.is_empty()) {
        (true, true) => causes.push(Cause::invalid(
            "spec.running",
            "Running and RunStrategy are mutually exclusive. Note that Running is deprecated, \
             please use RunStrategy instead",
        )),
        (false, false) => {
            causes.push(Cause::invalid(
                "spec.running",
                "RunStrategy must be specified",
            ));
        }
        _ => {}
    }
    match strategy {
        "" | "Halted" | "Manual" | "Always" | "RerunOnFailure" | "Once" => {}
        "WaitAsReceiver" => causes.push(Cause::invalid(
            "spec.runStrategy",
            "Invalid RunStrategy (WaitAsReceiver), DecentralizedLiveMigration feature gate is not \
             enabled in kubevirt resource",
        )),
        other => causes.push(Cause::invalid(
            "spec.runStrategy",
            format!("Invalid RunStrategy ({other})"),
        )),
    }
    causes
}

fn live_update_causes(vm: &Value, spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let template = "/spec/template/spec/domain";
    let sockets = number(vm, &format!("{template}/cpu/sockets")).unwrap_or_default();
    let room = number(vm, &format!("{template}/cpu/maxSockets")).unwrap_or_default();
    if sockets != 0 && room != 0 && sockets > room {
        causes.push(Cause::invalid(
            "spec.template.spec.domain.cpu.sockets",
            "Number of sockets in CPU topology is greater than the maximum sockets allowed",
        ));
    }
    let room = super::amount::units(vm, &format!("{template}/memory/maxGuest"));
    if room.is_some()
        && let Some(problem) = memory_problem(spec, room)
    {
        causes.push(Cause::invalid(
            "spec.template.spec.domain.memory.guest",
            problem,
        ));
    }
    causes
}

fn data_volume_causes(vm: &Value) -> Vec<Cause> {
    let volumes = list(vm, "/spec/template/spec/volumes");
    let mut causes = Vec::new();
    for (index, template) in list(vm, "/spec/dataVolumeTemplates").iter().enumerate() {
        let field = format!("spec.dataVolumeTemplate[{index}]");
        if let Some(cause) = data_volume_cause(&field, template) {
            causes.push(cause);
            continue;
        }
        let used = volumes
            .iter()
            .any(|volume| super::storage::claim_name(volume) == Some(name(template)));
        if !used {
            let message = format!(
                "DataVolumeTemplate entry {field} must be referenced in the VMI template's \
                 'volumes' list"
            );
            causes.push(Cause::required(field, message));
        }
    }
    for (index, template) in list(vm, "/spec/dataVolumeTemplates").iter().enumerate() {
        let (own, expected) = (namespace(template), namespace(vm));
        if !own.is_empty() && own != expected {
            let message =
                format!("Embedded DataVolume namespace {own} differs from VM namespace {expected}");
            causes.push(Cause::invalid(
                format!("spec.dataVolumeTemplates[{index}]"),
                message,
            ));
        }
    }
    causes
}

fn data_volume_cause(field: &str, template: &Value) -> Option<Cause> {
    let given = |pointer: &str| {
        template
            .pointer(pointer)
            .is_some_and(|value| !value.is_null())
    };
    if name(template).is_empty() {
        let field = format!("{field}.name");
        let message =
            format!("'name' field must not be empty for DataVolumeTemplate entry {field}.");
        return Some(Cause::required(field, message));
    }
    let storage = format!("{field}.PVC.Storage");
    match (given("/spec/pvc"), given("/spec/storage")) {
        (false, false) => {
            return Some(Cause::invalid(
                storage,
                "Missing Data volume PVC or Storage",
            ));
        }
        (true, true) => {
            let message =
                "Duplicate storage definition, both target storage and target pvc defined";
            return Some(Cause::invalid(storage, message));
        }
        _ => {}
    }
    let external = [
        "/spec/pvc/dataSource",
        "/spec/pvc/dataSourceRef",
        "/spec/storage/dataSource",
        "/spec/storage/dataSourceRef",
    ]
    .iter()
    .any(|pointer| given(pointer));
    let own = given("/spec/source") || given("/spec/sourceRef");
    match (external, own) {
        (true, true) => {
            let message = "External population is incompatible with Source and SourceRef";
            return Some(Cause::invalid(format!("{field}.source"), message));
        }
        (false, false) => {
            let message =
                "Data volume should have either Source, SourceRef, or be externally populated";
            return Some(Cause::invalid(format!("{field}.source.sourceRef"), message));
        }
        _ => {}
    }
    let sources = crate::object::map(template, "/spec/source")?;
    match sources.values().filter(|source| !source.is_null()).count() {
        0 => Some(Cause::invalid(
            format!("{field}.source"),
            "Missing dataVolume valid source",
        )),
        1 => None,
        _ => Some(Cause::invalid(
            format!("{field}.source"),
            "Multiple dataVolume sources",
        )),
    }
}

/// Rejects changes of the spec during a snapshot or restore.
fn busy_causes(new: &Value, old: Option<&Value>) -> Option<Cause> {
    let old = old?;
    let run = |vm: &Value| {
        let field = |name: &str| vm.pointer(&format!("/spec/{name}")).cloned();
        (field("running"), field("runStrategy"))
    };
    let refused = |message: String| Cause::of("FieldValueNotSupported", "spec", message);
    let restore = text(new, "/status/restoreInProgress");
    if !restore.is_empty() && run(new) != run(old) && super::run::strategy(new) != "Halted" {
        let message = format!("Cannot update VM runStrategy until restore {restore:?} completes");
        return Some(refused(message));
    }
    let snapshot = text(new, "/status/snapshotInProgress");
    if snapshot.is_empty() {
        return None;
    }
    let volumes = "/spec/template/spec/volumes";
    if list(new, volumes) != list(old, volumes) {
        let message =
            format!("Cannot update vm disks or volumes until snapshot {snapshot:?} completes");
        return Some(refused(message));
    }
    (run(new) != run(old)).then(|| {
        let message =
            format!("Cannot update vm running state until snapshot {snapshot:?} completes");
        refused(message)
    })
}
