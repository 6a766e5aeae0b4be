//! How much memory a heap keeps that it does not use at the moment: as much as it used in one of the last collections of
//! everything (option `release-after` says how many). What it has not used for so long goes back to the system.

/// What is known of one kind of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unused {
    /// The most bytes that were used.
    most: usize,
    /// The most that were used since then.
    since: usize,
    /// In how many collections of everything that was less.
    collections: u32,
}

impl Unused {
    /// Nothing was used.
    pub const NONE: Unused = Unused {
        most: 0,
        since: 0,
        collections: 0,
    };

    /// A collection of everything found that at most `used` bytes were used since the one before. How many are kept, if
    /// memory goes back after `every` such collections; 0 for never.
    pub fn note(&mut self, used: usize, every: u32) -> usize {
        if used >= self.most {
            *self = Unused {
                most: used,
                ..Unused::NONE
            };
            return used;
        }
        self.since = self.since.max(used);
        self.collections += 1;
        if every > 0 && self.collections >= every {
            *self = Unused {
                most: self.since,
                ..Unused::NONE
            };
        }
        self.most
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn kept(used: &[usize], every: u32) -> Vec<usize> {
        let mut unused = Unused::NONE;
        used.iter().map(|&used| unused.note(used, every)).collect()
    }

    #[test]
    fn what_was_not_used_for_so_many_collections_is_not_kept() {
        let (used, every) = ([9, 0, 0, 0, 0, 0, 0, 0], 6);
        assert_eq!(kept(&used, every), [9, 9, 9, 9, 9, 9, 0, 0]);
        assert_eq!(kept(&[9, 4, 0, 0, 0, 0], 2), [9, 9, 4, 4, 0, 0]);
        assert_eq!(kept(&[9, 4, 2], 1), [9, 4, 2]);
    }

    #[test]
    fn what_comes_and_goes_is_kept() {
        let used: Vec<_> = (0..100)
            .map(|at| if at % 5 == 0 { 90 } else { 1 })
            .collect();
        assert!(kept(&used, 6).iter().all(|&kept| kept == 90));
        assert!(kept(&used, 3).contains(&1));
        assert!(
            kept(&[7, 0, 0, 0], 0).iter().all(|&kept| kept == 7),
            "never"
        );
    }
}
