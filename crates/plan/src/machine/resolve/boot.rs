//! Boot order: device kinds as KubeVirt's numbers.

use api::BootDevice;

use super::{Findings, disks::Disks};
use crate::{
    machine::{DiskOrigin, DiskType, ResolvedInterface, SpecError},
    naming,
};

/// Numbers the devices from 1. Without an order, or if it matches no device, the boot disk is the first.
/// An installer image comes last. With `netboot`, the first interface follows if there is no order.
pub(super) fn number(
    order: Option<&[BootDevice]>,
    netboot: bool,
    disks: &mut Disks,
    interfaces: &mut [ResolvedInterface],
    findings: &mut Findings,
) {
    let mut numbers = 1..;
    let first = boot_disk(disks);
    for device in order.unwrap_or_default() {
        match device {
            BootDevice::Disk => {
                let rest = (0..disks.found.len()).filter(|&index| Some(index) != first);
                for index in first.into_iter().chain(rest) {
                    let disk = &mut disks.found[index].resolved;
                    if disk.type_ == DiskType::Disk && disk.boot_order.is_none() {
                        disk.boot_order = numbers.next();
                    }
                }
            }
            BootDevice::Network => {
                for interface in interfaces.iter_mut() {
                    interface.boot_order = interface.boot_order.or_else(|| numbers.next());
                }
            }
            BootDevice::Cdrom => {
                for disk in disks.found.iter_mut().map(|disk| &mut disk.resolved) {
                    if disk.type_ == DiskType::Cdrom && disk.boot_order.is_none() {
                        disk.boot_order = numbers.next();
                    }
                }
            }
        }
    }
    let is_ordered = numbers.start > 1;
    let installer = disks.found.iter().position(|disk| {
        disk.resolved.origin == DiskOrigin::Installer && disk.resolved.boot_order.is_none()
    });
    if !is_ordered && let Some(index) = first {
        disks.found[index].resolved.boot_order = numbers.next();
    }
    if let Some(index) = installer {
        disks.found[index].resolved.boot_order = numbers.next();
    }
    if netboot
        && order.is_none()
        && let Some(interface) = interfaces.first_mut()
    {
        interface.boot_order = numbers.next();
    }
    match first {
        _ if numbers.start > 1 => {}
        None if disks.are_all => findings.error(SpecError {
            certain: !disks.are_guessed,
            ..SpecError::invalid(
                "spec.disks",
                "there is nothing to boot from: add a disk, or put network into bootOrder",
            )
        }),
        Some(_) | None => {}
    }
}

/// The disk that is marked, else the one named root, else the first.
pub(super) fn boot_disk(disks: &Disks) -> Option<usize> {
    let position = |desired: &dyn Fn(&super::disks::Candidate) -> bool| {
        disks
            .found
            .iter()
            .position(|disk| disk.resolved.type_ == DiskType::Disk && desired(disk))
    };
    position(&|disk| disk.marked_boot)
        .or_else(|| position(&|disk| disk.resolved.name == naming::ROOT_DISK))
        .or_else(|| position(&|_| true))
}
