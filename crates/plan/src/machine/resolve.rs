//! Validation and defaulting: turns a Machine and the objects it refers to into a [`ResolvedMachine`].
//!
//! Reports all errors at once. Offline, a reference that cannot be checked is not an error if the
//! Machine can be built without it: a note says what the cluster decides.

mod access;
mod amount;
mod boot;
pub(crate) mod class;
mod cloud_init;
mod disks;
mod domain;
mod installer;
pub(crate) mod networks;
mod placement;
pub(crate) mod sizing;
mod unsupported;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::{Machine, MachineSpec, labels};
pub(super) use cloud_init::decode_base64;

use super::{
    Access, CloudInit, Identity, NamePatterns, PassedOn, ResolvedDisk, ResolvedInterface,
    ResolvedMachine, ResolvedNamespace, SpecError, Surroundings,
    elided::elided,
    switches::{has_documented_prefix, is_switch},
};
use crate::{Quantity, naming};

/// A resolved Machine, with notes on what is left to the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolution {
    pub machine: ResolvedMachine,
    pub notes: Vec<Note>,
}

/// Something that is left to the cluster, or a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub path: String,
    pub message: String,
}

/// Resolves a Machine, or returns all its errors.
#[allow(clippy::too_many_lines, reason = "names every field of the spec")]
pub fn resolve(
    machine: &Machine,
    surroundings: &Surroundings,
) -> Result<Resolution, Vec<SpecError>> {
    let MachineSpec {
        name: _,
        // Decides whether the Machine is resolved at all.
        provider: _,
        template: _,
        instance_type: _,
        machine_class: _,
        resources: _,
        cpu: _,
        memory: _,
        disks,
        networks,
        network,
        os,
        boot_order,
        // Resolved by `resolve_cloud_init`.
        cloud_init: _,
        domain,
        // Resolved by `placement`.
        node_selector: _,
        tolerations: _,
        affinity: _,
        spread_by: _,
        priority_class_name: _,
        power_state,
        // Triggers an action, and is not part of the machine's definition.
        restarted_at: _,
        deletion_policy: _,
        // Decides whether a deletion is planned.
        deletion_protection: _,
        // Information for users and other programs.
        tags: _,
        // Resolved by `access`.
        ssh_keys: _,
        ssh_key_secrets: _,
        hostname: _,
        serial_console_log: _,
        // For other providers: `unsupported` notes that they have no effect.
        machine_type: _,
        provider_config: _,
        user_data: _,
        security_groups: _,
        monitoring: _,
        backup: _,
    } = &machine.spec;
    let mut findings = Findings::default();
    let identity = identity(machine, surroundings);
    let vm_name = vm_name(machine, &mut findings);
    let sizing = sizing::resolve(&machine.spec, surroundings, &mut findings);
    let (mut interfaces, network_namespace) = networks::resolve(
        networks.as_deref(),
        network.as_ref(),
        &identity,
        surroundings,
        &mut findings,
    );
    let mut disks = disks::resolve(
        disks.as_deref().unwrap_or_default(),
        sizing.as_ref(),
        is_of_stack(&machine.spec),
        &identity,
        surroundings,
        &mut findings,
    );
    installer::add(machine, &mut disks, &mut findings);
    boot::number(
        boot_order.as_deref(),
        is_of_stack(&machine.spec) && installer::image(os.as_ref()).is_none(),
        &mut disks,
        &mut interfaces,
        &mut findings,
    );
    let access = access::resolve(&machine.spec, surroundings, &mut findings);
    let cloud_init = resolve_cloud_init(
        machine,
        &interfaces,
        network_namespace.as_ref(),
        &access,
        surroundings,
        &mut findings,
    );
    let memory = sizing.as_ref().map(|sizing| sizing.memory);
    let hardware = domain::resolve(domain.as_ref(), memory, &mut findings);
    let PassedOn {
        labels: label_patterns,
        annotations: annotation_patterns,
    } = &surroundings.passed_on;
    let labels = passed_on(machine.metadata.labels.as_ref(), label_patterns);
    let annotations = machine.metadata.annotations.as_ref();
    let vm_annotations = named_by(annotations, annotation_patterns);
    let placement = placement::resolve(machine, &labels, label_patterns.are_known(), &mut findings);
    unsupported::note(&machine.spec, &mut findings);

    match sizing {
        Some(sizing) if findings.errors.is_empty() => Ok(Resolution {
            machine: ResolvedMachine {
                identity,
                vm_name,
                labels,
                annotations: of_cluster(passed_on(annotations, annotation_patterns), surroundings),
                vm_annotations,
                sizing: sizing.source,
                cpu: sizing.cpu,
                memory: sizing.memory,
                disks: disks.found.into_iter().map(|disk| disk.resolved).collect(),
                interfaces,
                network_namespace,
                cloud_init,
                machine_type: hardware.machine_type,
                acpi: hardware.acpi,
                apic: hardware.apic,
                hyperv: hardware.hyperv,
                bootloader: hardware.bootloader,
                uuid: hardware.uuid,
                serial: hardware.serial,
                devices: hardware.devices,
                access,
                placement,
                power_state: power_state.unwrap_or_default(),
            },
            notes: findings.notes,
        }),
        _ => Err(findings.errors),
    }
}

/// Cloud-init data of the spec, with addresses and keys that other fields give.
fn resolve_cloud_init(
    machine: &Machine,
    interfaces: &[ResolvedInterface],
    network_namespace: Option<&ResolvedNamespace>,
    access: &Access,
    surroundings: &Surroundings,
    findings: &mut Findings,
) -> Option<CloudInit> {
    let networks = machine.spec.networks.as_deref();
    let has_addresses = networks::spec_address::are_given(networks);
    let is_needed = has_addresses || access::needs_cloud_init(access);
    let own = is_needed.then(api::CloudInit::default);
    let mut cloud_init = cloud_init::resolve(
        machine.spec.cloud_init.as_ref().or(own.as_ref()),
        elided(&machine.metadata),
        machine.metadata.name.as_deref().unwrap_or_default(),
        surroundings,
        findings,
    )?;
    if let Some(namespace) = network_namespace
        && cloud_init.network_data.is_none()
    {
        cloud_init.network_data =
            networks::network_data(namespace, interfaces, surroundings, findings);
    }
    if let Some(networks) = networks.filter(|_| has_addresses) {
        networks::spec_address::add_network_data(networks, interfaces, &mut cloud_init, findings);
    }
    access::add_keys(access, &mut cloud_init, findings);
    Some(cloud_init)
}

/// The storage and memory that a Machine requests, even if other parts of it do not resolve.
#[derive(Clone, Debug)]
pub(crate) struct Outline {
    /// Disks that have a size.
    pub(crate) disks: Vec<ResolvedDisk>,
    /// Set if the size resolves.
    pub(crate) memory: Option<Quantity>,
}

/// Resolves as much of a Machine as possible.
pub(crate) fn outline(machine: &Machine, surroundings: &Surroundings) -> Outline {
    // `resolve` reports the errors.
    let mut findings = Findings::default();
    let sizing = sizing::resolve(&machine.spec, surroundings, &mut findings);
    let mut disks = disks::resolve(
        machine.spec.disks.as_deref().unwrap_or_default(),
        sizing.as_ref(),
        is_of_stack(&machine.spec),
        &identity(machine, surroundings),
        surroundings,
        &mut findings,
    );
    installer::add(machine, &mut disks, &mut findings);
    Outline {
        disks: disks.found.into_iter().map(|disk| disk.resolved).collect(),
        memory: sizing.map(|sizing| sizing.memory),
    }
}

/// Errors and notes, collected while resolving.
#[derive(Default)]
struct Findings {
    errors: Vec<SpecError>,
    notes: Vec<Note>,
}

impl Findings {
    fn error(&mut self, error: SpecError) {
        self.errors.push(error);
    }

    fn invalid(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.errors.push(SpecError::invalid(path, message));
    }

    /// An error in an object that the Machine refers to.
    fn invalid_reference(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.errors
            .push(SpecError::invalid(path, message).in_reference());
    }

    fn note(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.notes.push(Note {
            path: path.into(),
            message: message.into(),
        });
    }
}

/// Whether a spec uses the fields by which other programs of the Viti stack describe boot and network.
/// They expect it to boot from the network if it has no image. Go clients write both fields even if they
/// are empty, and the specification has neither.
fn is_of_stack(spec: &MachineSpec) -> bool {
    spec.network.is_some() || spec.os.is_some()
}

fn identity(machine: &Machine, surroundings: &Surroundings) -> Identity {
    Identity {
        name: machine.metadata.name.clone().unwrap_or_default(),
        namespace: machine.metadata.namespace.clone(),
        uid: machine.metadata.uid.clone(),
        cluster: surroundings.cluster.clone(),
    }
}

fn vm_name(machine: &Machine, findings: &mut Findings) -> String {
    let machine_name = machine.metadata.name.as_deref().unwrap_or_default();
    if machine_name.is_empty() {
        findings.error(SpecError {
            // With generateName the API server sets one.
            certain: machine.metadata.generate_name.is_none(),
            ..SpecError::invalid("metadata.name", "is missing: a Machine needs a name")
        });
    } else if machine_name.len() > 63 || !naming::is_dns_name(machine_name) {
        findings.invalid(
            "metadata.name",
            "must be a DNS name of at most 63 characters: it becomes a label value and the prefix of other names",
        );
    }
    let Some(vm_name) = &machine.spec.name else {
        return machine_name.to_owned();
    };
    if vm_name.len() > 63 || !naming::is_dns_name(vm_name) {
        findings.invalid("spec.name", "must be a DNS name of at most 63 characters");
    }
    vm_name.clone()
}

/// The entries under the documented prefixes and those that the settings name, without switches and names
/// that are reserved for the operator.
fn passed_on(
    entries: Option<&BTreeMap<String, String>>,
    patterns: &NamePatterns,
) -> BTreeMap<String, String> {
    let is_passed_on = |key: &str| has_documented_prefix(key) || patterns.has(key);
    entries
        .into_iter()
        .flatten()
        .filter(|(key, _)| is_passed_on(key) && is_the_users(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The entries that the settings name.
fn named_by(
    entries: Option<&BTreeMap<String, String>>,
    patterns: &NamePatterns,
) -> BTreeMap<String, String> {
    entries
        .into_iter()
        .flatten()
        .filter(|(key, _)| patterns.has(key) && is_the_users(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Whether a label or annotation neither switches something on nor has a name of the operator.
fn is_the_users(key: &str) -> bool {
    !is_switch(key) && !labels::RESERVED.contains(&key)
}

/// The annotations to copy. The operator itself may add the name of another cluster later.
fn of_cluster(
    mut annotations: BTreeMap<String, String>,
    surroundings: &Surroundings,
) -> BTreeMap<String, String> {
    if surroundings.cluster.is_some() {
        annotations.remove(labels::KUBEVIRT_CONFIG);
    }
    annotations
}

/// The first name that occurs twice, with its index.
fn first_duplicate<'a>(names: impl Iterator<Item = &'a str>) -> Option<(usize, &'a str)> {
    let mut names_so_far = std::collections::BTreeSet::new();
    names
        .enumerate()
        .find(|(_, name)| !names_so_far.insert(*name))
}
