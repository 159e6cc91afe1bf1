//! Bound on the number of entries of updates.

use std::collections::BTreeMap;

use super::entries::{Managed, ManagerId, Operation};

const MAX_UPDATE_MANAGERS: usize = 10;
const ANCIENT_CHANGES: &str = "ancient-changes";

/// Merges the oldest entries of updates, by version, until there are few enough. Entries of applies
/// are never merged.
pub(super) fn cap_update_managers(managed: &mut Managed) {
    let mut updaters: Vec<_> = managed
        .iter()
        .filter(|(id, _)| id.operation == Operation::Update)
        .map(|(id, entry)| (entry.seconds(), id.clone()))
        .collect();
    let mut count = updaters.len();
    updaters.sort();
    let mut first_of_version: BTreeMap<String, ManagerId> = BTreeMap::new();
    for (_, id) in updaters {
        if count <= MAX_UPDATE_MANAGERS {
            return;
        }
        let Some(version) = managed.get(&id).map(|entry| entry.api_version.clone()) else {
            continue;
        };
        let Some(first) = first_of_version.get(&version) else {
            first_of_version.insert(version, id);
            continue;
        };
        let bucket = ManagerId::new(ANCIENT_CHANGES, Operation::Update, &version, "");
        if !managed.contains_key(&bucket)
            && let Some(entry) = managed.remove(first)
        {
            managed.insert(bucket.clone(), entry);
        }
        if let Some(entry) = managed.remove(&id) {
            managed
                .entry(bucket)
                .and_modify(|joined| {
                    joined.set = joined.set.union(&entry.set);
                    joined.time.clone_from(&entry.time);
                })
                .or_insert(entry);
            count -= 1;
        }
    }
}
