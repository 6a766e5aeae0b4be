//! Finds the object at an address: the sorted addresses, and a directory that leads close to each.
//!
//! A binary search over ten million addresses misses the cache at nearly each step, and there is one for each reference.
//! The directory has an entry for each stretch of the addresses, about two for an object; in a stretch few objects are
//! left to search. Where objects lie in a few places far apart it helps less, and the search is still logarithmic.

/// Which objects lie where.
#[derive(Default)]
pub(crate) struct Addresses {
    /// Ascending.
    bases: Vec<u64>,
    /// Which object each of them is, where objects are not in the order of their addresses.
    objects: Option<Vec<u32>>,
    /// For each stretch the first of `bases` that lies in it or behind it, and the number of all at the end.
    directory: Vec<u32>,
    /// A stretch has two to this power bytes.
    shift: u32,
}

impl Addresses {
    /// Of the objects at `bases`, of which there are fewer than `u32::MAX`.
    pub(crate) fn new(bases: Vec<u64>) -> Addresses {
        if bases.is_sorted() {
            return Addresses::of_sorted(bases, None);
        }
        let mut objects: Vec<u32> = (0..bases.len() as u32).collect();
        objects.sort_by_key(|object| bases[*object as usize]);
        let sorted = objects.iter().map(|object| bases[*object as usize]);
        Addresses::of_sorted(sorted.collect(), Some(objects))
    }

    fn of_sorted(bases: Vec<u64>, objects: Option<Vec<u32>>) -> Addresses {
        let (Some(low), Some(high)) = (bases.first(), bases.last()) else {
            return Addresses::default();
        };
        let most = 2 * bases.len() as u64 + 16;
        let shift = (0..64)
            .find(|shift| (high - low) >> shift < most)
            .unwrap_or(63);
        let stretches = ((high - low) >> shift) as usize + 1;
        let mut directory = Vec::with_capacity(stretches + 1);
        for (at, base) in bases.iter().enumerate() {
            let stretch = ((base - low) >> shift) as usize;
            while directory.len() <= stretch {
                directory.push(at as u32);
            }
        }
        directory.push(bases.len() as u32);
        Addresses {
            bases,
            objects,
            directory,
            shift,
        }
    }

    /// How many of the sorted addresses are not above `address`.
    fn count_up_to(&self, address: u64) -> usize {
        let Some(low) = self.bases.first().filter(|low| address >= **low) else {
            return 0;
        };
        let stretch = ((address - low) >> self.shift) as usize;
        let Some(range) = self.directory.get(stretch..=stretch.saturating_add(1)) else {
            return self.bases.len();
        };
        let (from, to) = (range[0] as usize, range[1] as usize);
        from + self.bases[from..to].partition_point(|base| *base <= address)
    }

    fn object(&self, at: usize) -> u32 {
        self.objects
            .as_ref()
            .map_or(at as u32, |objects| objects[at])
    }

    /// The object whose address that is.
    pub(crate) fn exact(&self, address: u64) -> Option<u32> {
        let at = self.count_up_to(address).checked_sub(1)?;
        (self.bases[at] == address).then(|| self.object(at))
    }

    /// The last object that does not begin behind the address, and the first one that does.
    pub(crate) fn around(&self, address: u64) -> (Option<u32>, Option<u32>) {
        let count = self.count_up_to(address);
        let before = count.checked_sub(1).map(|at| self.object(at));
        let behind = (count < self.bases.len()).then(|| self.object(count));
        (before, behind)
    }

    /// Objects at an address at which there is another one, too.
    pub(crate) fn repeated(&self) -> u64 {
        let repeats = |pair: &&[u64]| pair[0] == pair[1];
        self.bases.windows(2).filter(repeats).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_wherever_they_lie() {
        let spread = vec![
            16,
            32,
            48,
            1 << 20,
            (1 << 46) + 16,
            (1 << 46) + 32,
            u64::MAX,
        ];
        for bases in [
            spread.clone(),
            vec![7],
            spread.into_iter().rev().collect(),
            (0..1000).map(|at| 0x7f00_0000_0000 + at * 48).collect(),
        ] {
            let addresses = Addresses::new(bases.clone());
            for (object, base) in bases.iter().enumerate() {
                assert_eq!(addresses.exact(*base), Some(object as u32), "{base:x}");
                assert_eq!(addresses.exact(base - 1), None);
                assert_eq!(addresses.around(*base).0, Some(object as u32));
                assert_eq!(addresses.around(base - 1).1, Some(object as u32));
            }
        }
        let addresses = Addresses::new(vec![32, 16, 64]);
        assert_eq!(addresses.around(40), (Some(0), Some(2)));
        assert_eq!(addresses.around(8), (None, Some(1)));
        assert_eq!(addresses.around(99), (Some(2), None));
        assert_eq!(Addresses::new(vec![]).around(1), (None, None));
        assert_eq!(Addresses::new(vec![16, 32, 16, 16]).repeated(), 2);
    }
}
