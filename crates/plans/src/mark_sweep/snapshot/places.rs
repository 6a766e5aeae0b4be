//! Places inside of objects to which words of roots lead: whether an object holds the same address speaks for such a word.

use gleaner_spaces::mark_sweep::block::Resolved;

/// Places inside of objects to which words of roots lead, and whether an object holds the same address.
pub(super) struct Places {
    addresses: [usize; Places::MOST],
    is_held: [bool; Places::MOST],
    count: usize,
}

impl Places {
    /// There are few such words; those beyond count as held by none.
    const MOST: usize = 256;

    pub(super) fn new() -> Places {
        Places {
            addresses: [0; Places::MOST],
            is_held: [false; Places::MOST],
            count: 0,
        }
    }

    pub(super) fn add(&mut self, found: &Resolved) {
        let address = found.base.word() + found.displacement;
        let is_known = self.addresses[..self.count].contains(&address);
        if found.displacement > 0 && !is_known && self.count < Places::MOST {
            self.addresses[self.count] = address;
            self.count += 1;
        }
    }

    /// Puts them in order: from now on none is added.
    pub(super) fn sort(&mut self) {
        self.addresses[..self.count].sort_unstable();
    }

    /// Notes what an object holds. Each word of each object comes here.
    pub(super) fn look_through(&mut self, words: &[usize]) {
        let known = &self.addresses[..self.count];
        let (Some(&low), Some(&high)) = (known.first(), known.last()) else {
            return;
        };
        for word in words.iter().filter(|word| (low..=high).contains(*word)) {
            if let Ok(index) = known.binary_search(word) {
                self.is_held[index] = true;
            }
        }
    }

    pub(super) fn held(&self) -> impl Iterator<Item = usize> {
        let both = self.addresses.iter().zip(&self.is_held).take(self.count);
        both.filter(|(_, is_held)| **is_held)
            .map(|(address, _)| *address)
    }
}
