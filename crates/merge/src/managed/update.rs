//! Owners of fields after a write.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use super::Context;
use super::cap::cap_update_managers;
use super::conflict::Conflicts;
use super::entries::{self, Entry, Managed, ManagerId, Operation};
use crate::fields::{FieldSet, Path};
use crate::shape::Shape;
use crate::typed::{Comparison, Duplicates, compare, reconcile, validate};

/// Fields without owner: those that identify an object, and those that only the server writes.
static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    let metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let top = ["apiVersion", "kind", "metadata"].map(|name| Path::of_fields([name]));
    let inner = metadata.map(|name| Path::of_fields(["metadata", name]));
    FieldSet::from_paths(top.iter().chain(&inner))
});

/// The managed fields themselves, which change with every write.
static MANAGERS: LazyLock<FieldSet> =
    LazyLock::new(|| FieldSet::from_paths([&Path::of_fields(["metadata", "managedFields"])]));

/// Removes fields without owner from those of a manager, and the manager if none is left.
pub(super) fn strip(managed: &mut Managed, id: &ManagerId) {
    if let Some(entry) = managed.get_mut(id) {
        entry.set = entry.set.difference(&NEVER_OWNED);
        if entry.set.is_empty() {
            managed.remove(id);
        }
    }
}

/// Removes changed fields from those of all other managers.
///
/// Fields of other managers that get another value are conflicts; unless forced, they are returned
/// and nothing changes. No one owns removed fields.
pub(super) fn transfer(
    managed: &mut Managed,
    comparison: &Comparison,
    own: Option<&ManagerId>,
    force: bool,
) -> Result<(), Conflicts> {
    let changed = comparison.modified.union(&comparison.added);
    let conflicts: BTreeMap<_, _> = managed
        .iter()
        .filter(|(id, _)| Some(*id) != own)
        .map(|(id, entry)| (id, entry.set.intersection(&changed)))
        .filter(|(_, set)| !set.is_empty())
        .map(|(id, set)| (id.clone(), set))
        .collect();
    if !force && let Some(conflicts) = Conflicts::new(&conflicts) {
        return Err(conflicts);
    }
    for (id, entry) in managed.iter_mut().filter(|(id, _)| Some(*id) != own) {
        if let Some(conflict) = conflicts.get(id) {
            entry.set = entry.set.difference(conflict);
        }
        if !comparison.removed.is_empty() {
            entry.set = entry.set.difference(&comparison.removed);
        }
    }
    managed.retain(|_, entry| !entry.set.is_empty());
    Ok(())
}

/// Converts field sets that were written for another schema.
pub(super) fn reconcile_all(shape: &Shape, managed: &mut Managed) {
    for entry in managed.values_mut() {
        reconcile(shape, &mut entry.set);
    }
}

/// Records a write other than apply: the manager owns what changed from `live` to `new`. Fails if
/// the objects do not match the shape.
pub(super) fn record(
    shape: &Shape,
    live: &Value,
    new: &Value,
    managed: &mut Managed,
    context: &Context<'_>,
) -> Result<(), ()> {
    validate(shape, new, Duplicates::Allowed).map_err(|_| ())?;
    validate(shape, live, Duplicates::Allowed).map_err(|_| ())?;
    reconcile_all(shape, managed);
    let comparison = compare(shape, live, new)
        .without(&MANAGERS)
        .without(context.reset_fields);
    // A forced transfer has no conflicts.
    let _ = transfer(managed, &comparison, None, true);
    let set = comparison
        .modified
        .union(&comparison.added)
        .difference(&NEVER_OWNED);
    if !set.is_empty() {
        let id = ManagerId::of(context, Operation::Update);
        let entry = managed.entry(id).or_insert_with(|| Entry {
            api_version: context.api_version.to_owned(),
            set: FieldSet::default(),
            time: None,
        });
        entry.set.extend(&set);
        entry.time = crate::time::canonical(context.time);
    }
    cap_update_managers(managed);
    Ok(())
}

/// The entries that an update starts from: those sent, if the server can decode them, else those of
/// the live object.
pub(super) fn start(
    shape: &Shape,
    live: Option<&Value>,
    new: &Value,
    is_subresource: bool,
) -> Managed {
    let of_live = || entries::decode(live.and_then(entries::of)).unwrap_or_default();
    if is_subresource {
        return of_live();
    }
    let sent = entries::of(new);
    if entries::is_reset(sent, shape.is_built_in()) {
        return Managed::new();
    }
    match entries::decode(sent) {
        Ok(managed) if !managed.is_empty() => managed,
        _ => of_live(),
    }
}
