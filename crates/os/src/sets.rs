//! Sets of small numbers, such as the kernel has of processors and of memory nodes: a bit for each.

use crate::procfs;
use gleaner_base::options::MOST_PROCESSORS;

/// The most processors that a set can name.
pub const PROCESSORS_MAX: usize = MOST_PROCESSORS;
/// The most memory nodes that a set can name: as many as the kernel can be built for.
pub const NODES_MAX: usize = 1024;

/// Processors, by number.
pub type ProcessorSet = NumberSet<{ PROCESSORS_MAX / 64 }>;
/// Memory nodes, by the kernel's numbers.
pub type NodeSet = NumberSet<{ NODES_MAX / 64 }>;

/// A set of numbers below `64 * WORDS`. Numbers that it cannot name are left out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NumberSet<const WORDS: usize>([u64; WORDS]);

impl<const WORDS: usize> core::fmt::Debug for NumberSet<WORDS> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<const WORDS: usize> FromIterator<usize> for NumberSet<WORDS> {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut set = Self::EMPTY;
        numbers.into_iter().for_each(|number| set.insert(number));
        set
    }
}

impl<const WORDS: usize> NumberSet<WORDS> {
    /// The set without members.
    pub const EMPTY: Self = NumberSet([0; WORDS]);
    /// All members are below this.
    const END: usize = 64 * WORDS;

    /// The numbers from `first` up to and without `end`.
    pub fn range(first: usize, end: usize) -> Self {
        (first..end.min(Self::END)).collect()
    }

    /// How many members it has.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has no member.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// Whether `number` is a member.
    pub fn contains(&self, number: usize) -> bool {
        number < Self::END && self.0[number / 64] >> (number % 64) & 1 == 1
    }

    /// Adds a number.
    pub fn insert(&mut self, number: usize) {
        if number < Self::END {
            self.0[number / 64] |= 1 << (number % 64);
        }
    }

    /// The members of both.
    pub fn intersection(&self, other: &Self) -> Self {
        NumberSet(core::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// The members, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..Self::END).filter(|&number| self.contains(number))
    }

    /// A bit for each number, as the kernel has it.
    pub(crate) fn words(&self) -> &[u64; WORDS] {
        &self.0
    }

    /// The same, for the kernel to fill.
    pub(crate) fn words_mut(&mut self) -> &mut [u64; WORDS] {
        &mut self.0
    }

    /// Reads the kernel's list format, such as `0-3,8`.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let mut set = Self::EMPTY;
        for part in text.trim_ascii().split(|&b| b == b',') {
            let Some(first) = procfs::number(part) else {
                continue;
            };
            let last = part
                .iter()
                .position(|&b| b == b'-')
                .and_then(|dash| procfs::number(&part[dash + 1..]))
                .unwrap_or(first);
            for number in first..=last.min(Self::END as u64) {
                set.insert(number as usize);
            }
        }
        set
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let members = |text: &[u8]| ProcessorSet::parse(text).iter().collect::<Vec<_>>();
        assert_eq!(members(b"0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(members(b"7"), [7]);
        assert_eq!(members(b"\n"), [0usize; 0]);
        assert_eq!(members(b"4094-99999999"), [4094, 4095]);
        assert_eq!(format!("{:?}", ProcessorSet::parse(b"1-2")), "{1, 2}");
        assert_eq!(NodeSet::parse(b"1023,1024").iter().last(), Some(1023));
    }

    #[test]
    fn a_set_has_what_it_can_name() {
        let mut set = ProcessorSet::EMPTY;
        set.insert(PROCESSORS_MAX);
        assert!(set.is_empty() && set.count() == 0);
        assert!(!set.contains(PROCESSORS_MAX));
        set.insert(PROCESSORS_MAX - 1);
        assert!(!set.is_empty() && set.count() == 1);
        let (low, middle) = (NodeSet::range(0, 70), NodeSet::range(65, 2000));
        assert_eq!(
            low.intersection(&middle),
            [65, 66, 67, 68, 69].into_iter().collect()
        );
        assert_eq!(middle.count(), NODES_MAX - 65);
    }
}
