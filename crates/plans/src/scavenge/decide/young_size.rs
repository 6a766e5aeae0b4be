//! Proposes a size for the young generation, which `generation_sizes` decides: another size is tried, judged by what it
//! cost, and remembered.
//!
//! A larger young generation is collected less often, and what dies in between is not copied. But it takes the room
//! that the old one fills between two full collections; and where as much of each byte survives whatever the size, it
//! saves no copying at all. Which of the two a program is cannot be known before. So the cost of a size is what
//! scavenges take for each MB that is allocated, and the share of a full collection for what they promote meanwhile.
//! Another size is tried only if it would be cheaper in the best case: a larger one copies no more each time, a smaller
//! one no more of each MB. It is left again if it was not cheaper when it had been measured. Then it is long until the
//! next trial, and longer each time.

/// What is known after a scavenge. Sizes are in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Measurements {
    /// The young generation.
    pub young: usize,
    /// The largest that there is room for.
    pub most: usize,
    /// The least that makes sense.
    pub least: usize,
    /// Both generations together.
    pub limit: usize,
    /// What the old generation holds, holes left out.
    pub filled: usize,
    /// What a full collection takes, in nanoseconds, as far as that is known.
    pub full_ns: u64,
    /// Whether scavenges take much of the time.
    pub busy: bool,
    /// How many full collections there were. One is no habit: many programs fill the old generation once, when they
    /// begin.
    pub full_collections: u64,
}

/// What scavenges came to at one size.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Sums {
    scavenges: u64,
    ns: u64,
    allocated: u64,
    promoted: u64,
}

/// A size that is being left for another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Former {
    young: usize,
    cost: u64,
}

/// What is remembered of sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct YoungSize {
    /// The size that the sums are for; 0 before the first scavenge.
    young: usize,
    sums: Sums,
    trial: Option<Former>,
    /// Scavenges until the next trial.
    wait: u64,
    /// Scavenges to wait after the next trial that fails.
    patience: u64,
}

/// This many scavenges tell what a size costs.
const JUDGED: u64 = 4;
/// This many are enough to try a larger one: many programs are over soon.
const SEEN: u64 = 1;
/// Sums over more are halved, so that what is long past fades.
const REMEMBERED: u64 = 16;
/// A size has to cost at most this many hundredths of another one to be better.
const BETTER: u64 = 97;
const FIRST_PATIENCE: u64 = 16;
const LONGEST_PATIENCE: u64 = 4096;

/// The size that is wanted next, in bytes, and why.
pub type Decision = (usize, &'static str);

impl YoungSize {
    /// Nothing is known of any size.
    pub fn new() -> YoungSize {
        YoungSize {
            young: 0,
            sums: Sums::default(),
            trial: None,
            wait: 0,
            patience: FIRST_PATIENCE,
        }
    }

    /// Notes a scavenge that found room for everything. It took `ns` nanoseconds, after `allocated` bytes were
    /// allocated, and promoted `promoted` bytes.
    pub fn note_scavenge(&mut self, ns: u64, allocated: usize, promoted: usize) {
        let sums = &mut self.sums;
        sums.scavenges += 1;
        sums.ns += ns;
        sums.allocated += allocated as u64;
        sums.promoted += promoted as u64;
        self.wait = self.wait.saturating_sub(1);
    }

    /// Which size is best as far as is known.
    pub fn decide(&mut self, found: &Measurements) -> Decision {
        if self.young == 0 {
            self.young = found.young;
        }
        if found.young != self.young {
            // The old generation needed the room, or gave some.
            self.trial = None;
            self.begin(found.young);
            return (found.young, "the young generation has a new size");
        }
        let cost = self.cost(found, found.young);
        let seen = self.sums.scavenges;
        if let Some(former) = self.trial {
            if seen < JUDGED {
                return (found.young, "a size is being tried");
            }
            self.trial = None;
            if cost.saturating_mul(100) <= former.cost.saturating_mul(BETTER) {
                self.patience = FIRST_PATIENCE;
                return (found.young, "the size that was tried costs less");
            }
            self.wait = self.patience;
            self.patience = (2 * self.patience).min(LONGEST_PATIENCE);
            let young = former.young.clamp(found.least, found.most);
            self.begin(young);
            return (young, "the size that was tried costs no less");
        }
        self.fade();
        if self.wait > 0 {
            return (found.young, "another size cost no less");
        }
        let larger = self.larger(found);
        let smaller = self.smaller(found);
        let Some((expected, young, reason)) = larger.into_iter().chain(smaller).min() else {
            return (found.young, "the sizes do");
        };
        if expected.saturating_mul(100) > cost.saturating_mul(BETTER) {
            return (found.young, "no other size can cost less");
        }
        self.trial = Some(Former {
            young: found.young,
            cost,
        });
        self.begin(young);
        (young, reason)
    }

    /// What a larger young generation would cost at best, and its size.
    fn larger(&self, found: &Measurements) -> Option<(u64, usize, &'static str)> {
        let young = found.young.saturating_mul(2).min(found.most);
        let worth = self.sums.scavenges >= SEEN && found.busy && young > found.young / 8 * 9;
        let reason = "scavenges take more than a tenth of the time";
        let scavenges =
            self.scavenge_cost() * (found.young >> 10) as u64 / (young >> 10).max(1) as u64;
        worth.then(|| (scavenges + self.full_cost(found, young), young, reason))
    }

    /// What a smaller one would cost at best, and its size.
    fn smaller(&self, found: &Measurements) -> Option<(u64, usize, &'static str)> {
        let young = found.young / 3 * 2;
        let worth =
            self.sums.scavenges >= JUDGED && found.full_collections > 1 && young >= found.least;
        let reason = "full collections come often";
        worth.then(|| {
            (
                self.scavenge_cost() + self.full_cost(found, young),
                young,
                reason,
            )
        })
    }

    fn begin(&mut self, young: usize) {
        self.young = young;
        self.sums = Sums::default();
    }

    fn fade(&mut self) {
        let sums = &mut self.sums;
        if sums.scavenges > REMEMBERED {
            for sum in [
                &mut sums.scavenges,
                &mut sums.ns,
                &mut sums.allocated,
                &mut sums.promoted,
            ] {
                *sum /= 2;
            }
        }
    }

    /// Nanoseconds for each MB that is allocated.
    fn cost(&self, found: &Measurements, young: usize) -> u64 {
        self.scavenge_cost() + self.full_cost(found, young)
    }

    fn scavenge_cost(&self) -> u64 {
        self.sums.ns / (self.sums.allocated >> 20).max(1)
    }

    /// A full collection comes when what is promoted has filled the room that a young generation of that size leaves.
    fn full_cost(&self, found: &Measurements, young: usize) -> u64 {
        let room = found.limit.saturating_sub(found.filled + young);
        let room = room.max(found.limit / 64) as u128;
        let promoted = u128::from(self.sums.promoted / (self.sums.allocated >> 20).max(1));
        (u128::from(found.full_ns) * promoted / room) as u64
    }
}

impl Default for YoungSize {
    fn default() -> YoungSize {
        YoungSize::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    const MB: usize = 1 << 20;

    /// What a scavenge of such a program copies, and of that promotes, in bytes, by the bytes that were allocated
    /// before.
    type Program = fn(usize) -> (usize, usize);

    /// The sizes of the young generation, in MB, after each of `scavenges` scavenges of a program with 15 MB that live.
    fn simulate(program: Program, first: usize, scavenges: usize) -> Vec<usize> {
        let mut size = YoungSize::new();
        let mut young = first * MB;
        let mut filled = 15 * MB;
        let mut full_collections = 0;
        let mut sizes = Vec::new();
        for _ in 0..scavenges {
            let limit = 68 * MB;
            let eden = young / 8 * 7;
            let (copied, promoted) = program(eden);
            // Two milliseconds, and two and a half for each MB.
            size.note_scavenge(2_000_000 + copied as u64 * 5 / 2, eden, promoted);
            filled += promoted;
            if filled + young > limit {
                filled = 15 * MB;
                full_collections += 1;
            }
            young = size
                .decide(&Measurements {
                    young,
                    most: limit / 2,
                    least: 2 * MB,
                    limit,
                    filled: 15 * MB,
                    full_ns: 50_000_000,
                    busy: true,
                    full_collections,
                })
                .0;
            sizes.push(young / MB);
        }
        sizes
    }

    fn share_at(sizes: &[usize], mb: impl Fn(usize) -> bool) -> usize {
        100 * sizes.iter().filter(|&&size| mb(size)).count() / sizes.len()
    }

    /// What is in use at the time of the scavenge is copied, however long it was since the one before.
    fn the_same_each_time(_: usize) -> (usize, usize) {
        (4 * MB, MB / 2)
    }

    /// Each byte lives for so long that the size makes no difference.
    fn the_same_of_each_byte(eden: usize) -> (usize, usize) {
        (eden / 5, eden / 10)
    }

    #[test]
    fn it_grows_where_scavenges_copy_no_more_for_it() {
        let sizes = simulate(the_same_each_time, 16, 400);
        let settled = sizes.iter().position(|&size| size == 32);
        assert!(settled.is_some_and(|scavenges| scavenges <= 4), "{sizes:?}");
        assert!(share_at(&sizes, |size| size > 28) > 90, "{sizes:?}");
    }

    #[test]
    fn it_leaves_the_room_to_the_old_generation_where_nothing_is_gained() {
        for first in [34, 22] {
            let sizes = simulate(the_same_of_each_byte, first, 400);
            assert!(share_at(&sizes[40..], |size| size <= 23) > 85, "{sizes:?}");
        }
    }

    #[test]
    fn it_is_not_left_in_the_worse_size() {
        for program in [the_same_each_time, the_same_of_each_byte] as [Program; 2] {
            let cost = |young: usize| {
                let (copied, promoted) = program(young / 8 * 7);
                let eden = young / 8 * 7;
                let full = 50_000_000 * promoted / (53 * MB - young).max(MB);
                (2_000_000 + copied * 5 / 2 + full) as f64 / eden as f64
            };
            let best = (4..=34).map(|mb| cost(mb * MB)).fold(f64::MAX, f64::min);
            for first in [8, 16, 22, 34] {
                let sizes = simulate(program, first, 2000);
                let mean = sizes.iter().map(|&mb| cost(mb * MB)).sum::<f64>() / 2000.0;
                assert!(mean < 1.25 * best, "{first}: {mean} against {best}");
            }
        }
    }

    #[test]
    fn failed_trials_become_rare() {
        let sizes = simulate(the_same_of_each_byte, 22, 2000);
        let changes = |sizes: &[usize]| sizes.windows(2).filter(|two| two[0] != two[1]).count();
        assert!(changes(&sizes[1000..]) <= 8, "{sizes:?}");
    }

    #[test]
    fn what_others_decided_is_no_trial() {
        let mut size = YoungSize::new();
        let mut found = Measurements {
            young: 20 * MB,
            most: 34 * MB,
            least: 2 * MB,
            limit: 68 * MB,
            filled: 15 * MB,
            full_ns: 0,
            busy: true,
            full_collections: 0,
        };
        for _ in 0..2 {
            size.note_scavenge(10_000_000, 16 * MB, 0);
            found.young = size.decide(&found).0;
        }
        assert_eq!(found.young, 34 * MB, "tried");
        found.young = 10 * MB;
        assert_eq!(size.decide(&found).0, 10 * MB);
        assert_eq!(size.decide(&found).0, 10 * MB);
        assert!(size.trial.is_none());
    }
}
