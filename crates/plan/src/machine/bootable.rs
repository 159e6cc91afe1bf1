//! Detection of Machines that have nothing to boot.

use api::{Machine, labels};

use super::{
    AdoptionRequest, DataVolumeContent, DiskType, Note, ResolvedDisk, ResolvedMachine,
    ResolvedSource, switches::is_switched_on,
};

/// A warning if every disk starts empty and there is neither a CD-ROM nor an interface to boot from. Never
/// an error, because someone may fill a disk by other means; adopted disks count as filled.
pub fn nothing_to_boot(of: &Machine, machine: &ResolvedMachine) -> Option<Note> {
    let adopts_vm = AdoptionRequest::of(&of.metadata).is_some();
    if adopts_vm || is_switched_on(&of.metadata, labels::ADOPT_DISKS) {
        return None;
    }
    let has_netboot = machine.interfaces.iter().any(|it| it.boot_order.is_some());
    let has_content = machine.disks.iter().any(|disk| !starts_empty(disk));
    if has_netboot || has_content {
        return None;
    }
    let boot_disk = machine.disks.iter().find(|disk| disk.boot_order.is_some());
    let name = boot_disk.map_or("root", |disk| disk.name.as_str());
    Some(Note {
        path: "spec.disks".to_owned(),
        message: format!(
            "disk {name:?} starts empty, and there is neither a CD-ROM nor network in bootOrder: the \
             guest finds nothing to boot; give the disk a source, such as an image"
        ),
    })
}

fn starts_empty(disk: &ResolvedDisk) -> bool {
    let is_empty = matches!(
        disk.source,
        ResolvedSource::Empty | ResolvedSource::DataVolume(DataVolumeContent::Blank)
    );
    disk.type_ == DiskType::Disk && is_empty
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::machine::{Known, Surroundings, resolve};

    #[rstest]
    #[case::only_a_size(json!({}), true)]
    #[case::blank(json!({"disks": [{"name": "root", "size": "1Gi", "source": {"blank": {}}}]}), true)]
    #[case::image(
        json!({"disks": [{"name": "root", "source": {"http": {"url": "http://images/disk"}}}]}),
        false
    )]
    #[case::cdrom(json!({"disks": [{"name": "iso", "size": "1Gi", "type": "cdrom"}]}), false)]
    #[case::netboot(json!({"bootOrder": ["network"]}), false)]
    #[case::netboot_after_the_disk(json!({"bootOrder": ["disk", "network"]}), false)]
    fn what_boots(#[case] spec: Value, #[case] is_nothing: bool) {
        let mut machine: Machine = serde_json::from_value(json!({
            "apiVersion": "", "kind": "", "metadata": {"name": "web"}, "spec": spec,
        }))
        .unwrap();
        let surroundings = Surroundings {
            machine_classes: Known::all([]),
            ..Surroundings::default()
        };
        let resolution = resolve(&machine, &surroundings).unwrap();
        let note = nothing_to_boot(&machine, &resolution.machine);
        assert_eq!(note.is_some(), is_nothing);
        let adopts = [(labels::ADOPT_DISKS.to_owned(), "true".to_owned())];
        machine.metadata.annotations = Some(adopts.into());
        assert_eq!(nothing_to_boot(&machine, &resolution.machine), None);
    }
}
