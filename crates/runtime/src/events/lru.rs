//! Map that evicts the least recently used entry.

use std::collections::BTreeMap;

/// Map of at most `capacity` entries.
#[derive(Debug)]
pub(super) struct Lru<K, V> {
    capacity: usize,
    uses: u64,
    entries: BTreeMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
}

impl<K: Ord + Clone, V> Lru<K, V> {
    pub(super) const fn new(capacity: usize) -> Self {
        Self {
            capacity,
            uses: 0,
            entries: BTreeMap::new(),
            by_use: BTreeMap::new(),
        }
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (used, value) = self.entries.get_mut(key)?;
        if let Some(key) = self.by_use.remove(used) {
            self.uses += 1;
            *used = self.uses;
            self.by_use.insert(self.uses, key);
        }
        Some(value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        self.remove(&key);
        if self.entries.len() >= self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, key.clone());
        self.entries.insert(key, (self.uses, value));
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some((used, _)) = self.entries.remove(key) {
            self.by_use.remove(&used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_evicted() {
        let mut lru = Lru::new(2);
        lru.insert("a", 1);
        lru.insert("b", 2);
        assert_eq!(lru.get_mut(&"a"), Some(&mut 1));
        lru.insert("c", 3);
        assert_eq!(lru.get_mut(&"b"), None);
        assert_eq!(lru.get_mut(&"c"), Some(&mut 3));
        assert_eq!(lru.get_mut(&"a"), Some(&mut 1));
    }

    #[test]
    fn removed_and_replaced_entries_leave_nothing_behind() {
        let mut lru = Lru::new(3);
        lru.insert("a", 1);
        lru.insert("a", 2);
        lru.insert("b", 3);
        lru.remove(&"b");
        assert_eq!((lru.entries.len(), lru.by_use.len()), (1, 1));
        assert_eq!(lru.get_mut(&"a"), Some(&mut 2));
    }
}
