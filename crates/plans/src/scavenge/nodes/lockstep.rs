//! Workers in lockstep (option `lockstep`): one thread does the work of all workers of a trace, in turns of some
//! objects each, in an order that a seed decides. So what is counted of 48 workers by memory node is what a page policy
//! does, the same in each run, and not what the scheduler of a host with two processors makes of it.
//!
//! A turn is what a worker does of its own (`scavenge/trace`), cut off after as many objects as the option says; a task
//! is a turn whatever it holds. Helpers are not called: no two workers race for an object. What the workers do outside
//! of traces, sliding for one, is done as ever.
//!
//! The leader runs it.

use gleaner_base::options::Options;
use gleaner_work::MAX_WORKERS;

/// How the workers take turns.
#[derive(Clone, Copy, Debug)]
pub struct Lockstep {
    /// Objects of a turn.
    pub(in crate::scavenge) objects: u32,
    /// Decides the order, together with the number of the phase.
    seed: u64,
    /// How many phases began.
    phases: u64,
}

impl Lockstep {
    /// As the options have it, if they do.
    pub fn of(options: &Options) -> Option<Lockstep> {
        (options.lockstep > 0).then_some(Lockstep {
            objects: options.lockstep,
            seed: u64::from(options.lockstep_seed),
            phases: 0,
        })
    }

    /// A phase begins.
    pub(in crate::scavenge) fn begin(&mut self) {
        self.phases += 1;
    }

    pub(in crate::scavenge) fn order(&self, workers: usize) -> Order {
        Order {
            next: (self.seed << 32).wrapping_add(self.phases << 8),
            workers: core::array::from_fn(|index| index as u8),
            count: workers,
        }
    }
}

/// In which order workers take turns, round for round.
pub(in crate::scavenge) struct Order {
    /// The state of a sequence (SplitMix64).
    next: u64,
    workers: [u8; MAX_WORKERS],
    count: usize,
}

impl Order {
    /// Each worker once, in another order each time.
    pub(in crate::scavenge) fn round(&mut self) -> impl Iterator<Item = usize> + use<> {
        for last in (1..self.count).rev() {
            let other = self.number() % (last as u64 + 1);
            self.workers.swap(last, other as usize);
        }
        self.workers.into_iter().take(self.count).map(usize::from)
    }

    fn number(&mut self) -> u64 {
        self.next = self.next.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.next ^ self.next >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn each_worker_has_a_turn_in_each_round_and_the_order_is_the_seeds() {
        let rounds = |seed: u64, phases: u64| {
            let lockstep = Lockstep {
                objects: 1,
                seed,
                phases,
            };
            let mut order = lockstep.order(48);
            let mut all = Vec::new();
            for _ in 0..3 {
                let round: Vec<usize> = order.round().collect();
                let mut sorted = round.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..48));
                all.push(round);
            }
            assert!(all[0] != all[1] && all[1] != all[2]);
            all
        };
        assert_eq!(rounds(1, 7), rounds(1, 7));
        assert_ne!(rounds(1, 7), rounds(2, 7));
        assert_ne!(rounds(1, 7), rounds(1, 8));
    }
}
