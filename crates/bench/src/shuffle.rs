//! Random order from a seed, so that a run of the tool can be repeated.

/// A sequence of pseudo-random numbers (splitmix64).
pub struct Shuffle(u64);

impl Shuffle {
    /// The sequence of that seed.
    pub fn new(seed: u64) -> Shuffle {
        Shuffle(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The numbers below `count` in random order.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_occurs_and_a_seed_repeats() {
        let orders = |seed| {
            let mut shuffle = Shuffle::new(seed);
            (0..200).map(|_| shuffle.order(3)).collect::<Vec<_>>()
        };
        let mut seen = orders(1);
        assert_eq!(seen, orders(1));
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 6);
    }
}
