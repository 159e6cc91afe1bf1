//! Checks of migrations, snapshots and restores.

use api::{ObservedCondition, condition};
use k8s_openapi::jiff::SignedDuration;

use super::{
    super::{Cause, Finding, Operation, Severity},
    View, name_of, words,
};

/// A snapshot of all disks usually takes seconds.
const SLOW_SNAPSHOT: SignedDuration = SignedDuration::from_mins(1);
/// KubeVirt waits so long for the guest to stop.
const SLOW_RESTORE: SignedDuration = SignedDuration::from_mins(5);

fn newest<'a>(view: &View<'_>, operations: &'a [Operation]) -> Option<&'a Operation> {
    let own = operations
        .iter()
        .filter(|it| it.spec.concerns(view.vm_name()));
    own.max_by_key(|it| it.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

fn failure(operation: &Operation) -> Option<&str> {
    let failure = condition(&operation.status.conditions, "Failure");
    failure.filter(|it| it.is_true()).map(words)
}

/// The newest migration, if it failed.
pub(super) fn migrations(view: &View<'_>) -> Vec<Finding> {
    let failed = newest(view, &view.observed.migrations).filter(|it| it.status.phase == "Failed");
    let Some(migration) = failed else {
        return Vec::new();
    };
    let name = name_of(&migration.metadata);
    let instance = view.observed.instance.as_ref();
    let state = instance.and_then(|instance| instance.status.migration_state.as_ref());
    let reason =
        state.filter(|state| Some(&state.migration_uid) == migration.metadata.uid.as_ref());
    let reason = reason
        .map(|state| state.failure_reason.as_str())
        .filter(|it| !it.is_empty());
    let event = view.last_event(
        "VirtualMachineInstanceMigration",
        &migration.metadata,
        &["FailedMigration"],
    );
    let message = reason.or(event.map(|event| event.message.as_str()));
    vec![
        view.on(
            "VirtualMachineInstanceMigration",
            name,
            Cause::MigrationFailed,
            Severity::Degraded,
        )
        .says(message.unwrap_or("the migration failed"))
        .remedy(
            "the guest stays on its node: check that another node has room, that all disks are \
                 ReadWriteMany, and the log of virt-handler on both nodes",
        ),
    ]
}

/// The newest snapshot, if it failed or takes too long.
pub(super) fn snapshots(view: &View<'_>) -> Vec<Finding> {
    let snapshot = newest(view, &view.observed.snapshots).filter(|it| !it.status.ready_to_use);
    let Some(snapshot) = snapshot else {
        return Vec::new();
    };
    let message = match failure(snapshot) {
        Some(failure) => failure.to_owned(),
        None if view.age(&snapshot.metadata) <= SLOW_SNAPSHOT => return Vec::new(),
        None => {
            let progress = condition(&snapshot.status.conditions, "Progressing").map_or("", words);
            format!(
                "not ready to use after {}s: {progress}",
                view.age(&snapshot.metadata).as_secs()
            )
        }
    };
    let name = name_of(&snapshot.metadata);
    vec![
        view.on("VirtualMachineSnapshot", name, Cause::SnapshotFailed, Severity::Degraded)
            .says(message)
            .remedy(
                "check that the StorageClass of each disk has a VolumeSnapshotClass, and the log of its \
                 snapshot controller: kubectl get volumesnapshots",
            ),
    ]
}

/// The newest restore, if it failed or takes too long.
pub(super) fn restores(view: &View<'_>) -> Vec<Finding> {
    let restore = newest(view, &view.observed.restores).filter(|it| !it.status.complete);
    let Some(restore) = restore else {
        return Vec::new();
    };
    let progress = condition(&restore.status.conditions, "Progressing");
    let message = match failure(restore) {
        Some(failure) => failure.to_owned(),
        None if view.age(&restore.metadata) <= SLOW_RESTORE => return Vec::new(),
        None => progress
            .map_or("", |it: &ObservedCondition| words(it))
            .to_owned(),
    };
    let name = name_of(&restore.metadata);
    vec![
        view.on(
            "VirtualMachineRestore",
            name,
            Cause::RestoreFailed,
            Severity::Degraded,
        )
        .says(message)
        .remedy(
            "stop the Machine before a restore, and check that the snapshot is ready to use; then \
                 delete this restore and create another",
        ),
    ]
}
