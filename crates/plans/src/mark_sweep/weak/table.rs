//! A hash table from addresses to small values whose removals and iteration never allocate.
//!
//! The idea: the entries stand densely in one vector, so a collection that visits them all walks memory in order and
//! pays for live entries only. A second vector of bucket heads chains them by 32-bit indices. Removal moves the last
//! entry into the gap and mends the one link that named it. Growth is separate from insertion, so that a caller that
//! must not allocate later can reserve early.
//!
//! # Invariants
//! 1. Every entry is on the chain of its key's bucket exactly once; a chain ends with `NONE`.
//! 2. The number of heads is zero or a power of two, and at least the number of entries.
//! 3. Keys are distinct.
//!
//! Threads: the holder of the allocator lock, or the collecting thread in the stopped world.

use super::outcome::NoMemory;
use alloc::vec::Vec;
use gleaner_mem::address::Address;

/// The end of a chain.
const NONE: u32 = u32::MAX;

/// As long as no more than one entry in this many is to go, each is removed for itself.
const FEW: usize = 16;

/// Heads of the first allocation.
const FIRST_HEADS: usize = 64;

/// An address and what is known about it.
struct Entry<V> {
    key: Address,
    value: V,
    /// The next entry of the same bucket, or `NONE`.
    next: u32,
    /// Whether it is about to be removed, within [`Table::retain`].
    goes: bool,
}

/// The table. Protected by the lock of whatever contains it.
pub(super) struct Table<V> {
    /// Per bucket the index of its first entry, or `NONE`.
    heads: Vec<u32>,
    entries: Vec<Entry<V>>,
}

impl<V: Copy> Table<V> {
    /// An empty table; allocates nothing.
    pub(super) const fn new() -> Table<V> {
        Table {
            heads: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Makes room so that one insertion beyond the present length will not allocate.
    pub(super) fn reserve_one(&mut self) -> Result<(), NoMemory> {
        let needed = self.entries.len() + 1;
        if needed >= NONE as usize {
            return Err(NoMemory);
        }
        self.entries.try_reserve(1)?;
        if needed > self.heads.len() {
            self.grow_heads((self.heads.len() * 2).max(FIRST_HEADS))?;
        }
        Ok(())
    }

    /// The value at `key`.
    pub(super) fn get(&self, key: Address) -> Option<&V> {
        self.find(key).map(|index| &self.entries[index].value)
    }

    /// The value at `key`, to be changed.
    pub(super) fn get_mut(&mut self, key: Address) -> Option<&mut V> {
        self.find(key).map(|index| &mut self.entries[index].value)
    }

    /// Inserts an absent key. Does not allocate: the room must have been reserved, or left by a removal.
    pub(super) fn insert_reserved(&mut self, key: Address, value: V) {
        assert!(
            self.entries.len() < self.entries.capacity().min(self.heads.len()),
            "weak table: insertion of {key:?} without reserved room"
        );
        debug_assert!(self.find(key).is_none());
        let bucket = self.bucket(key);
        let next = core::mem::replace(&mut self.heads[bucket], self.entries.len() as u32);
        self.entries.push(Entry {
            key,
            value,
            next,
            goes: false,
        });
    }

    /// Removes `key` and returns its value.
    pub(super) fn remove(&mut self, key: Address) -> Option<V> {
        self.find(key).map(|index| self.remove_at(index))
    }

    /// All entries, oldest first as long as none was removed.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Address, &V)> {
        self.entries.iter().map(|entry| (entry.key, &entry.value))
    }

    /// Removes the entries for which `keep` says false and returns their number. Keys are not null.
    ///
    /// Asks about all before it removes any, from the oldest to the newest. Where few are removed, that is done for each
    /// from the newest on: what a removal moves into its gap has been looked at then. Where many are, the rest is chained
    /// anew, in one walk instead of several for each.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(Address, &V) -> bool) -> usize {
        let mut removed = 0;
        for entry in &mut self.entries {
            if !keep(entry.key, &entry.value) {
                entry.goes = true;
                removed += 1;
            }
        }
        if removed > self.entries.len() / FEW {
            self.entries.retain(|entry| !entry.goes);
            self.heads.fill(NONE);
            self.chain_all();
            return removed;
        }
        let (mut left, mut index) = (removed, self.entries.len());
        while left > 0 {
            index -= 1;
            if self.entries[index].goes {
                self.remove_at(index);
                left -= 1;
            }
        }
        removed
    }

    /// Replaces the heads by `count` fresh ones, a power of two, and chains all entries anew.
    fn grow_heads(&mut self, count: usize) -> Result<(), NoMemory> {
        let mut heads = Vec::new();
        heads.try_reserve_exact(count)?;
        heads.resize(count, NONE);
        self.heads = heads;
        self.chain_all();
        Ok(())
    }

    /// Chains all entries, where there are no chains.
    fn chain_all(&mut self) {
        for index in 0..self.entries.len() {
            let bucket = self.bucket(self.entries[index].key);
            let first = core::mem::replace(&mut self.heads[bucket], index as u32);
            self.entries[index].next = first;
        }
    }

    /// The bucket of `key`: the top bits of a product with the golden ratio. There must be heads.
    fn bucket(&self, key: Address) -> usize {
        let product = (key.word() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (product >> (u64::BITS - self.heads.len().trailing_zeros())) as usize
    }

    /// The index of `key`.
    fn find(&self, key: Address) -> Option<usize> {
        if self.entries.is_empty() {
            return None;
        }
        let mut at = self.heads[self.bucket(key)];
        while at != NONE {
            let entry = &self.entries[at as usize];
            if entry.key == key {
                return Some(at as usize);
            }
            at = entry.next;
        }
        None
    }

    /// Removes the entry at `index`; the last one takes its place.
    fn remove_at(&mut self, index: usize) -> V {
        self.redirect(index, self.entries[index].next);
        let last = self.entries.len() - 1;
        if index != last {
            self.redirect(last, index as u32);
        }
        self.entries.swap_remove(index).value
    }

    /// Makes the one link that names entry `target` name `to` instead.
    fn redirect(&mut self, target: usize, to: u32) {
        let bucket = self.bucket(self.entries[target].key);
        let mut link = &mut self.heads[bucket];
        while *link != target as u32 {
            let earlier = *link as usize;
            link = &mut self.entries[earlier].next;
        }
        *link = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn key(n: usize) -> Address {
        Address::new(0x1000 + n * 16)
    }

    fn contents(table: &Table<usize>) -> HashMap<Address, usize> {
        table.iter().map(|(key, value)| (key, *value)).collect()
    }

    fn filled(count: usize) -> Table<usize> {
        let mut table = Table::new();
        for n in 0..count {
            table.reserve_one().unwrap();
            table.insert_reserved(key(n), n);
        }
        table
    }

    #[test]
    fn an_empty_table_finds_nothing() {
        let mut table: Table<usize> = Table::new();
        assert_eq!(table.get(key(1)), None);
        assert_eq!(table.remove(key(1)), None);
        assert_eq!(table.retain(|_, _| false), 0);
    }

    #[test]
    fn finds_across_growth() {
        let table = filled(1000);
        assert_eq!(table.len(), 1000);
        for n in 0..1000 {
            assert_eq!(table.get(key(n)), Some(&n));
        }
        assert_eq!(table.get(key(1000)), None);
    }

    #[test]
    fn behaves_as_a_map_under_mixed_operations() {
        let mut table = Table::new();
        let mut map = HashMap::new();
        let mut seed = 12345u64;
        for step in 0..20_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            let k = key((seed >> 40) as usize % 300);
            if seed >> 63 == 0 {
                assert_eq!(table.remove(k), map.remove(&k));
            } else if let Some(value) = table.get_mut(k) {
                *value = step;
                assert!(map.insert(k, step).is_some());
            } else {
                table.reserve_one().unwrap();
                table.insert_reserved(k, step);
                assert!(map.insert(k, step).is_none());
            }
            assert_eq!(table.len(), map.len());
        }
        assert_eq!(contents(&table), map);
    }

    #[test]
    fn retain_visits_each_entry_once_from_oldest_to_newest() {
        let mut table = filled(200);
        let mut visited = std::vec::Vec::new();
        let removed = table.retain(|_, value| {
            visited.push(*value);
            value % 3 == 0
        });
        assert_eq!(visited, (0..200).collect::<std::vec::Vec<_>>());
        assert_eq!(removed, 133);
        for n in 0..200 {
            assert_eq!(table.get(key(n)).is_some(), n % 3 == 0);
        }
    }

    #[test]
    fn few_or_many_may_be_removed() {
        for share in [1, 2, 15, 16, 17, 100, 5000] {
            let mut table = filled(2000);
            let removed = table.retain(|_, value| value % share != 0);
            assert_eq!(removed, 2000usize.div_ceil(share));
            for n in 0..2000 {
                assert_eq!(table.get(key(n)).is_some(), n % share != 0, "{n} {share}");
            }
            // The chains are whole.
            for n in 0..2000 {
                assert_eq!(
                    table.remove(key(n)).is_some(),
                    n % share != 0,
                    "{n} {share}"
                );
            }
            assert_eq!(table.len(), 0);
        }
    }

    #[test]
    fn room_left_by_a_removal_can_be_used_again() {
        let mut table = filled(64);
        let (entries, heads) = (table.entries.capacity(), table.heads.len());
        table.retain(|_, _| false);
        for n in 0..64 {
            table.insert_reserved(key(n + 500), n);
        }
        assert_eq!(
            (table.entries.capacity(), table.heads.len()),
            (entries, heads)
        );
    }

    #[test]
    #[should_panic(expected = "without reserved room")]
    fn insertion_without_room_is_refused() {
        let mut table = Table::new();
        table.insert_reserved(key(0), 0);
    }
}
