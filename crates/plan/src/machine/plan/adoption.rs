//! Adoption of a VirtualMachine, and of its disks, that someone else created.
//!
//! - Only the annotation [`labels::ADOPT`] asks for it, and an object with another controller is never
//!   adopted.
//! - It changes metadata only: nothing restarts, and no disk is created, resized or renamed. The write to
//!   the VirtualMachine is the last one, so an adoption that is interrupted starts again.
//! - The claims are the truth: a disk of the Machine is the claim of the volume of its name. Claims that
//!   the Machine does not list are not adopted, and so never deleted.
//! - The spec of the VirtualMachine stays as it is, also when the Machine changes, until the annotation
//!   asks to apply the Machine's.

mod differences;
mod disks;
mod inherit;

use std::collections::{BTreeMap, BTreeSet};

use api::{
    Machine, ObjectMeta, OwnerReference,
    kubevirt::{ObservedVirtualMachine, VirtualMachine},
    labels,
};
use serde_json::Value;

pub(in crate::machine) use self::differences::differences;
use self::disks::{adopt_disks, missing};
pub(super) use self::inherit::inherit;
use super::{
    PlanBuilder,
    disks::{change_metadata, own_disks},
    ownership::{
        add_child_labels, annotation, child_labels, controller_reference, is_own_vm,
        is_terminating, name, uid,
    },
    vm::{self, ExistingVm},
};
use crate::{
    Event,
    machine::{
        Action, AdoptionRequest, DiskOrigin, ErrorType, Kind, MetadataChange, Observed, Obstacle,
        Part, ResolvedMachine, Step, build, cluster, disk_name::disk_name,
    },
    naming,
};

/// Number of fields that a condition names.
const MOST_FIELDS: usize = 5;

/// State of an adopted VirtualMachine to which the Machine's spec has not been applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::machine) struct KeptSpec {
    pub(in crate::machine) reason: &'static str,
    pub(in crate::machine) message: String,
}

/// What remains of an adoption.
pub(super) enum Stage {
    /// Nothing is to be adopted, or the Machine's spec has been applied.
    None,
    /// The VirtualMachine is not the Machine's.
    Adopt(AdoptionRequest),
    /// It is adopted, and its spec stays as it is.
    Keep,
    /// It is adopted, and the Machine's spec is to be applied for the first time.
    Apply,
}

impl Stage {
    pub(super) fn of(observed: &Observed<'_>) -> Self {
        let request = AdoptionRequest::of(&observed.machine.metadata);
        let own = observed.virtual_machine.map(|vm| &vm.metadata);
        let Some(vm) = own.filter(|vm| is_own_vm(vm, observed.machine)) else {
            return request.map_or(Self::None, Self::Adopt);
        };
        match request {
            _ if !is_adopted(vm) || annotation(vm, labels::APPLIED).is_some() => Self::None,
            Some(AdoptionRequest::Apply) => Self::Apply,
            Some(AdoptionRequest::Keep) | None => Self::Keep,
        }
    }
}

/// Whether someone else created a VirtualMachine of the operator.
pub(super) fn is_adopted(vm: &ObjectMeta) -> bool {
    annotation(vm, labels::ADOPTED) == Some("true")
}

/// Names the adopted claims of a Machine's disks. A claim that is gone keeps its name in the status.
pub(super) fn with_adopted_claims(
    observed: &Observed<'_>,
    mut machine: ResolvedMachine,
) -> ResolvedMachine {
    let status = observed.machine.status.as_ref();
    let recorded = || {
        status
            .and_then(|it| it.disks.as_ref())
            .into_iter()
            .flatten()
    };
    let is_annotated = |metadata: &ObjectMeta| annotation(metadata, labels::DISK).is_some();
    let own = &machine.identity.name;
    for disk in &mut machine.disks {
        let mut claims = observed.claims.iter().map(|claim| &claim.metadata);
        let adopted = claims
            .find(|claim| is_annotated(claim) && disk_name(own, claim) == Some(disk.name.as_str()))
            .map(name);
        let lost = recorded().find(|it| it.name == disk.name && !it.uuid.is_empty());
        let claim = adopted.or(lost.map(|it| it.pvc_name.as_str()));
        disk.adopted_claim = claim
            .filter(|claim| *claim != naming::claim(own, &disk.name))
            .map(str::to_owned);
    }
    machine
}

/// A volume of a VirtualMachine with a claim.
struct AttachedClaim<'a> {
    volume: &'a str,
    claim: &'a str,
    is_cdrom: bool,
}

fn attached_claims<'a>(existing: &'a ExistingVm<'_>) -> Vec<AttachedClaim<'a>> {
    let list = |pointer: &str| existing.spec.pointer(pointer).and_then(Value::as_array);
    let devices = list("/template/spec/domain/devices/disks");
    let cdroms: BTreeSet<&str> = devices
        .into_iter()
        .flatten()
        .filter(|device| device["cdrom"].is_object())
        .filter_map(|device| device["name"].as_str())
        .collect();
    claims_of(&existing.spec)
        .map(|(volume, claim)| AttachedClaim {
            volume,
            claim,
            is_cdrom: cdroms.contains(volume),
        })
        .collect()
}

/// The disks of a Machine that its VirtualMachine has, with the names of their claims.
pub(super) fn with_attached_claims(
    machine: &ResolvedMachine,
    existing: &ExistingVm<'_>,
) -> ResolvedMachine {
    let attached = attached_claims(existing);
    let mut machine = machine.clone();
    machine.disks.retain_mut(|disk| {
        let found = attached.iter().find(|it| it.volume == disk.name);
        let Some(found) = found else {
            return false;
        };
        let is_own_name = found.claim == naming::claim(&machine.identity.name, &disk.name);
        disk.adopted_claim = (!is_own_name).then(|| found.claim.to_owned());
        true
    });
    machine
}

/// Volumes of a VirtualMachine with the names of their claims, which are those of their DataVolumes.
pub fn claims_of(spec: &Value) -> impl Iterator<Item = (&str, &str)> {
    let volumes = spec.pointer("/template/spec/volumes");
    let volumes = volumes.and_then(Value::as_array).into_iter().flatten();
    volumes.filter_map(|volume| {
        let claim = volume["persistentVolumeClaim"]["claimName"].as_str();
        let claim = claim.or(volume["dataVolume"]["name"].as_str())?;
        Some((volume["name"].as_str()?, claim))
    })
}

/// The VirtualMachine that a Machine would ask for after it has adopted `vm`.
pub(in crate::machine) fn desired_after_adoption(
    of: &Machine,
    machine: &ResolvedMachine,
    vm: &ObservedVirtualMachine,
) -> VirtualMachine {
    let existing = ExistingVm::of(vm);
    let mut desired = build(&with_attached_claims(machine, &existing)).virtual_machine;
    inherit(&mut desired, of, &existing);
    desired
}

/// The controller of an object, if it is not the Machine with this UID.
pub fn is_controlled_by_other<'a>(
    metadata: &'a ObjectMeta,
    machine: Option<&str>,
) -> Option<&'a OwnerReference> {
    let controller = controller_reference(metadata)?;
    (Some(controller.uid.as_str()) != machine).then_some(controller)
}

impl PlanBuilder {
    /// Steps that make a VirtualMachine and its disks those of the Machine.
    pub(super) fn adopt(
        &mut self,
        observed: &Observed<'_>,
        machine: &ResolvedMachine,
        request: AdoptionRequest,
    ) {
        let Some(vm) = observed.virtual_machine else {
            self.steps.push(Step {
                action: Action::LabelAdopted {
                    name: machine.vm_name.clone(),
                    volumes: machine.disks.iter().map(|disk| disk.name.clone()).collect(),
                },
                reason: "the Machine adopts it".to_owned(),
                event: None,
            });
            return;
        };
        if let Some(obstacle) = not_adoptable(observed, &vm.metadata) {
            self.obstacles.push(obstacle);
            return;
        }
        let existing = ExistingVm::of(vm);
        let adopted = with_attached_claims(machine, &existing);
        let disks = adopt_disks(observed, &adopted);
        if !disks.obstacles.is_empty() {
            self.obstacles.extend(disks.obstacles);
            return;
        }
        self.adopt_finalizer(observed);
        self.steps.extend(disks.steps);
        self.steps.extend(adopt_instance(observed));
        let desired = build(&adopted).virtual_machine;
        let change = vm_change(observed, &existing, &desired, true);
        let names: Vec<&str> = adopted
            .disks
            .iter()
            .map(|disk| disk.name.as_str())
            .collect();
        let disks = match names.as_slice() {
            [] => "no disks".to_owned(),
            names => format!("disks {}", names.join(", ")),
        };
        let rest = match request {
            AdoptionRequest::Keep => "; its spec stays as it is",
            AdoptionRequest::Apply => "",
        };
        let message = format!(
            "Adopted VirtualMachine {} with {disks}{rest}",
            name(&vm.metadata)
        );
        self.steps.push(Step {
            event: Some(Event::normal("Adopted", message)),
            ..change_metadata(
                Kind::VirtualMachine,
                &vm.metadata,
                change,
                "the Machine adopts it",
            )
        });
    }

    /// Keeps an adopted VirtualMachine as it is: repairs metadata, and reports how the spec differs.
    pub(super) fn keep_adopted(&mut self, observed: &Observed<'_>, machine: &ResolvedMachine) {
        let Some(vm) = observed.virtual_machine else {
            return;
        };
        let existing = ExistingVm::of(vm);
        if let Some(obstacle) = vm::obstacle(observed) {
            self.obstacles.push(obstacle);
            return;
        }
        self.adopt_finalizer(observed);
        let adopted = with_attached_claims(machine, &existing);
        let disks = adopt_disks(observed, &adopted);
        self.steps.extend(disks.steps);
        self.obstacles.extend(disks.obstacles);
        self.steps.extend(adopt_instance(observed));
        let desired = build(&adopted).virtual_machine;
        let change = vm_change(observed, &existing, &desired, false);
        if change != MetadataChange::default() {
            self.steps.push(change_metadata(
                Kind::VirtualMachine,
                &vm.metadata,
                change,
                "another client removed its labels",
            ));
        }
        self.report_differences(observed, machine, &existing);
    }

    /// Whether the Machine's spec can be applied. Otherwise the VirtualMachine stays as it is.
    pub(super) fn may_apply(&mut self, observed: &Observed<'_>, machine: &ResolvedMachine) -> bool {
        let Some(vm) = observed.virtual_machine else {
            return true;
        };
        let blocked = blocked(machine, &ExistingVm::of(vm));
        if blocked.is_empty() {
            return true;
        }
        self.keep_adopted(observed, machine);
        self.obstacles.push(Obstacle::error(
            Part::Spec,
            ErrorType::InvalidSpec,
            format!(
                "the spec cannot be applied to the adopted VirtualMachine {}: {}",
                name(&vm.metadata),
                blocked.join("; ")
            ),
        ));
        false
    }

    fn adopt_finalizer(&mut self, observed: &Observed<'_>) {
        let finalizers = observed.machine.metadata.finalizers.as_deref();
        let mut finalizers = finalizers.unwrap_or_default().iter();
        // Once the former finalizer is replaced, ours alone would mean the cluster of the Machine.
        let is_placed = cluster::is_placed(observed);
        if is_placed && finalizers.any(|found| found == labels::FORMER_FINALIZER) {
            self.steps.push(Step {
                action: Action::ReplaceFormerFinalizer,
                reason: "the operator deletes the Machine's children from now on".to_owned(),
                event: None,
            });
        } else {
            self.ensure_finalizer(observed);
        }
    }

    /// Compares the spec of the VirtualMachine with that of the Machine.
    fn report_differences(
        &mut self,
        observed: &Observed<'_>,
        machine: &ResolvedMachine,
        existing: &ExistingVm<'_>,
    ) {
        let vm_name = name(&existing.vm.metadata);
        let desired = vm::desired(
            build(machine).virtual_machine,
            observed,
            Some(existing),
            None,
            None,
        );
        let found = differences(&existing.spec, &desired, machine);
        let apply = format!("{}: \"apply\"", labels::ADOPT);
        self.kept_spec = Some(if found.is_empty() {
            KeptSpec {
                reason: "Adopted",
                message: format!(
                    "VirtualMachine {vm_name} is as the Machine asks; to let changes of the Machine reach it, annotate the Machine with {apply}"
                ),
            }
        } else {
            let paths = found.iter().take(MOST_FIELDS).map(|it| it.path.as_str());
            let paths = paths.collect::<Vec<_>>().join(", ");
            let more = match found.len().saturating_sub(MOST_FIELDS) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            KeptSpec {
                reason: "SpecDiffers",
                message: format!(
                    "VirtualMachine {vm_name} stays as it is and differs in {paths}{more}: see kubevirt-operator plan; to change it, annotate the Machine with {apply}"
                ),
            }
        });
        self.differences = found.iter().map(ToString::to_string).collect();
    }
}

/// The obstacle to everything that a Machine needs: the VirtualMachine of its name is that of someone else,
/// such as of another operator of the Viti stack, and has never been the Machine's. The cache may not show it
/// yet: the Go operator's finalizer alone suffices.
pub(super) fn foreign(observed: &Observed<'_>) -> Option<Obstacle> {
    let Some(vm) = observed.virtual_machine else {
        return of_go_operator(observed);
    };
    let vm = &vm.metadata;
    let is_new = own_disks(observed).next().is_none();
    (is_new && controller_reference(vm).is_none()).then_some(())?;
    vm::obstacle(observed).filter(|it| it.error_type == Some(ErrorType::ForeignObject))
}

/// The obstacle to a Machine that the Go operator reconciled first.
fn of_go_operator(observed: &Observed<'_>) -> Option<Obstacle> {
    let finalizers = observed.machine.metadata.finalizers.as_deref();
    let has = |wanted: &str| finalizers.is_some_and(|all| all.iter().any(|it| it == wanted));
    (has(labels::FORMER_FINALIZER) && !has(labels::FINALIZER)).then(|| Obstacle {
        part: Part::VirtualMachine,
        error_type: Some(ErrorType::ForeignObject),
        message: format!(
            "the Go operator manages this Machine (finalizer {}): to adopt its VirtualMachine, annotate \
             it with {}: \"true\"; to create a new one, remove the finalizer",
            labels::FORMER_FINALIZER,
            labels::ADOPT,
        ),
    })
}

/// Message about a VirtualMachine that someone else controls.
pub fn controlled_by_other(vm: &str, controller: &OwnerReference) -> String {
    let OwnerReference { kind, name, .. } = controller;
    format!(
        "VirtualMachine {vm:?} is not adopted, since {kind} {name:?} controls it: remove it from there, or give this Machine another name"
    )
}

/// Why a VirtualMachine is not adopted.
fn not_adoptable(observed: &Observed<'_>, vm: &ObjectMeta) -> Option<Obstacle> {
    let part = Part::VirtualMachine;
    let vm_name = name(vm);
    if is_terminating(vm) {
        let message = format!("VirtualMachine {vm_name:?} is being deleted and is not adopted");
        return Some(Obstacle::waiting(part, message));
    }
    let machine = observed.machine.metadata.uid.as_deref();
    let controller = is_controlled_by_other(vm, machine)?;
    let message = controlled_by_other(vm_name, controller);
    Some(Obstacle::error(part, ErrorType::ForeignObject, message))
}

/// What keeps the first apply from happening: it must neither create nor detach a disk.
fn blocked(machine: &ResolvedMachine, existing: &ExistingVm<'_>) -> Vec<String> {
    let attached = attached_claims(existing);
    let of_user = |origin| origin != DiskOrigin::Installer;
    let has = |disk: &str| attached.iter().any(|it| it.volume == disk);
    let mut blocked = Vec::new();
    for disk in machine.disks.iter().filter(|it| of_user(it.origin)) {
        if !has(&disk.name) {
            let volumes: Vec<&str> = attached.iter().map(|it| it.volume).collect();
            blocked.push(format!(
                "it has no volume {:?}, and an adoption creates no disk: give the disk the name of its volume ({}), or add it afterwards",
                disk.name,
                volumes.join(", ")
            ));
        }
    }
    for AttachedClaim { volume, claim, .. } in attached.iter().filter(|it| !it.is_cdrom) {
        if !machine.disks.iter().any(|disk| disk.name == *volume) {
            blocked.push(format!(
                "it has volume {volume:?} with PersistentVolumeClaim {claim}, which spec.disks does not list: list it, or remove it from the VirtualMachine"
            ));
        }
    }
    let has_installer = machine.disks.iter().any(|it| !of_user(it.origin));
    if has_installer && attached.iter().any(|it| it.is_cdrom) {
        blocked.push(format!(
            "its installer image is still attached: annotate the Machine with {}: \"true\" once the operating system is installed",
            labels::OS_INSTALLED
        ));
    }
    for field in ["instancetype", "preference"] {
        if existing.spec.get(field).is_some_and(|it| !it.is_null()) {
            blocked.push(format!(
                "it uses spec.{field}, which a Machine cannot: remove it from the VirtualMachine"
            ));
        }
    }
    if existing.spec.get("running").is_some_and(|it| !it.is_null()) {
        blocked.push(
            "it uses spec.running, which KubeVirt does not accept beside spec.runStrategy: replace it in the VirtualMachine".to_owned(),
        );
    }
    blocked
}

/// Labels an instance that its template did not label, so that caches show it.
fn adopt_instance(observed: &Observed<'_>) -> Option<Step> {
    let instance = &observed.instance?.metadata;
    let labels = instance.labels.as_ref();
    let is_labelled = labels.is_some_and(|all| all.contains_key(labels::MANAGED_BY));
    (!is_labelled && !is_terminating(instance)).then(|| {
        let change = add_child_labels(observed);
        let reason = "it is the instance of this Machine";
        change_metadata(Kind::VirtualMachineInstance, instance, change, reason)
    })
}

/// Labels, annotations and owner reference that a VirtualMachine needs to be the Machine's.
fn vm_change(
    observed: &Observed<'_>,
    existing: &ExistingVm<'_>,
    desired: &VirtualMachine,
    with_owner: bool,
) -> MetadataChange {
    let found = &existing.vm.metadata;
    let children = child_labels(observed);
    let mut labels = desired.metadata.labels.clone().unwrap_or_default();
    labels.retain(|label, _| label == labels::SOURCE_MACHINE || children.contains_key(label));
    let annotations: BTreeMap<String, String> = [
        (labels::ADOPTED.to_owned(), "true".to_owned()),
        (
            labels::MACHINE_UID.to_owned(),
            uid(&observed.machine.metadata),
        ),
    ]
    .into();
    let template = existing.spec.pointer("/template/metadata/labels");
    let is_labelled = template.is_some_and(|all| all[labels::MANAGED_BY] == labels::MANAGER);
    let template_labels = if is_labelled {
        BTreeMap::new()
    } else {
        children
    };
    let owners = with_owner.then(|| {
        let owners = found.owner_references.iter().flatten();
        let desired = desired.metadata.owner_references.iter().flatten();
        let is_own = |it: &&OwnerReference| Some(&it.uid) == observed.machine.metadata.uid.as_ref();
        let others = owners.filter(|it| !is_own(it));
        let owners = others.chain(desired).cloned().collect();
        (owners, found.resource_version.clone())
    });
    let mut annotations = missing(Some(&annotations), found.annotations.as_ref());
    if with_owner && annotation(found, labels::APPLIED).is_some() {
        // An earlier Machine applied its spec, and this one has not.
        annotations.insert(labels::APPLIED.to_owned(), None);
    }
    MetadataChange {
        labels: missing(Some(&labels), found.labels.as_ref()),
        annotations,
        template_labels,
        owners,
    }
}
