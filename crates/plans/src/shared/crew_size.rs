//! How many workers collect, where the user does not say (after OOPSLA 2012, section 4.6: more than there is work for
//! cost time, and no number is right for all programs).
//!
//! One worker does what is over before another would be awake. Of more there are no more than processors that are idle
//! or this process's own; and of the numbers that are halves of that, the one under which collections lately took the
//! least time for what they found ([`super::trials`]). What is known of a number stays while the processors that are free
//! change.

use gleaner_work::MAX_WORKERS;

use super::trials::{Trials, average};

/// The most workers where the user says nothing; more gain little on one heap.
pub const MOST: usize = 16;

/// Live bytes below which one worker marks a heap that is marked whole each time, unless that takes long: roots, and objects
/// without pointers, do not count as live here.
const ALONE_BELOW: usize = 1 << 20;
/// Nanoseconds from which collections take long, until they take less than a quarter of that.
const LONG_NS: u64 = 200_000;
/// Nanoseconds below which a collection is over before a second worker has gained anything.
const ALONE_BELOW_NS: u64 = 60_000;
/// Another number of workers must be better by one part in this many.
const MARGIN: u64 = 16;

/// The most workers, when `wanted` are wanted: 0 for one for each of `processors`, which is asked where it matters.
pub fn most(wanted: usize, processors: impl FnOnce() -> usize) -> usize {
    match wanted {
        0 => processors().clamp(1, MOST),
        wanted => wanted,
    }
}

/// The most workers of a collection that finds `expected` bytes, where those before took long or not; otherwise as [`most`].
pub fn most_for(
    expected: usize,
    took_long: bool,
    wanted: usize,
    processors: impl FnOnce() -> usize,
) -> usize {
    match is_small(wanted, expected) && !took_long {
        true => 1,
        false => most(wanted, processors),
    }
}

fn is_small(wanted: usize, expected: usize) -> bool {
    wanted != 1 && expected < ALONE_BELOW
}

/// What is known of the collections of one kind, and what follows from it.
#[derive(Clone, Debug)]
pub struct CrewSize {
    /// Whether the last decision was left open by the configuration.
    is_open: bool,
    /// How long a collection lately took.
    took_ns: u64,
    /// Whether that is long, whatever they find.
    pub(crate) takes_long: bool,
    /// What is known of each number of workers.
    trials: Trials<{ MAX_WORKERS + 1 }>,
}

impl Default for CrewSize {
    fn default() -> CrewSize {
        CrewSize::new()
    }
}

impl CrewSize {
    /// Of a heap that was not collected yet.
    pub const fn new() -> CrewSize {
        CrewSize {
            is_open: false,
            took_ns: 0,
            takes_long: false,
            trials: Trials::new(MARGIN),
        }
    }

    /// How many work in the collection that begins, and why: `wanted`, or as many as pay if it is 0. `expected` are the
    /// bytes that will be found, `usize::MAX` where nobody knows; `free` is asked for the processors to be had, where it
    /// matters, and gives no more than there may be.
    pub fn decide(
        &mut self,
        wanted: usize,
        expected: usize,
        free: impl FnOnce() -> usize,
    ) -> (usize, &'static str) {
        self.trials.end();
        self.is_open = wanted == 0;
        if is_small(wanted, expected) && !self.takes_long {
            return (1, "a small heap");
        }
        if wanted > 0 {
            return (wanted, "as configured");
        }
        let limit = free().clamp(1, MAX_WORKERS);
        self.trials.limit_to(limit);
        if limit == 1 {
            return (1, "one processor is free");
        }
        let best = self.trials.cost(self.trials.best());
        let more_pay = self.trials.cost(1) > best && best > 0;
        if (1..ALONE_BELOW_NS).contains(&self.took_ns) && !more_pay {
            return (1, "collections are short");
        }
        self.trials.choose()
    }

    /// What the collection that was decided about last has taken, with `workers`, for the bytes that it found.
    pub fn note(&mut self, workers: usize, found: usize, took_ns: u64) {
        self.took_ns = average(self.took_ns, took_ns);
        let long_ns = if self.takes_long {
            LONG_NS / 4
        } else {
            LONG_NS
        };
        self.takes_long = self.took_ns >= long_ns;
        if !self.is_open || workers > MAX_WORKERS {
            return;
        }
        self.trials.note(workers, found, took_ns);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::trials::{EARLY, FIRST, SELDOM};
    use super::*;

    /// Runs `count` collections of a MB each, of which one with `workers` takes `ns(workers)`; gives what was chosen.
    fn collect(
        size: &mut CrewSize,
        count: usize,
        free: usize,
        ns: impl Fn(usize) -> u64,
    ) -> Vec<usize> {
        (0..count)
            .map(|_| {
                let (workers, _) = size.decide(0, usize::MAX, || free);
                size.note(workers, 1 << 20, ns(workers));
                workers
            })
            .collect()
    }

    fn share(chosen: &[usize], workers: usize) -> f64 {
        let count = chosen.iter().filter(|&&it| it == workers).count();
        count as f64 / chosen.len() as f64
    }

    #[test]
    fn what_is_configured_is_taken_unless_the_heap_is_small() {
        let free = || unreachable!();
        let mut size = CrewSize::new();
        assert_eq!(size.decide(0, 100 << 10, free).0, 1);
        assert_eq!(size.decide(4, 100 << 10, free).0, 1);
        assert_eq!(size.decide(4, 8 << 20, free).0, 4);
        assert_eq!(size.decide(64, usize::MAX, free).0, 64);
        assert_eq!(size.decide(1, 100 << 10, free), (1, "as configured"));
        size.note(1, 1 << 20, 10);
        assert_eq!(size.decide(8, 8 << 20, free), (8, "as configured"));
        let known = (1..=MAX_WORKERS).any(|workers| size.trials.cost(workers) > 0);
        assert!(!known, "and nothing is learned of it");
        let most_of = |bytes, took_long| most_for(bytes, took_long, 0, || 5);
        assert_eq!((most_of(8 << 20, false), most_of(8, true)), (5, 5));
        assert_eq!(most_for(8, false, 0, free), 1);
        assert_eq!((most(0, || 64), most(0, || 3), most(20, || 1)), (16, 3, 20));
    }

    /// Live objects with pointers are few, but there are roots, and objects without pointers.
    #[test]
    fn many_work_in_a_small_heap_whose_collections_take_long() {
        for wanted in [0, 2] {
            let mut size = CrewSize::new();
            let mut next = |ns: u64| {
                let (workers, reason) = size.decide(wanted, 100 << 10, || 2);
                size.note(workers, 100 << 10, ns / workers as u64);
                (workers, reason)
            };
            assert_eq!(next(150_000), (1, "a small heap"));
            assert_eq!(next(150_000), (1, "a small heap"));
            for _ in 0..10 {
                next(400_000);
            }
            // Two take half as long, which is no reason for one again.
            let alone =
                (0..20).filter(|_| matches!(next(300_000), (1, reason) if reason != "a trial"));
            assert_eq!(alone.count(), 0);
            for _ in 0..20 {
                next(80_000);
            }
            assert_eq!(next(80_000), (1, "a small heap"));
        }
    }

    #[test]
    fn no_more_work_than_processors_are_free() {
        let mut size = CrewSize::new();
        assert_eq!(size.decide(0, usize::MAX, || 0).0, 1);
        assert_eq!(size.decide(0, usize::MAX, || 3).0, 3);
        assert_eq!(size.decide(0, usize::MAX, || 99).0, 64);
        assert_eq!(
            size.decide(0, usize::MAX, || 1),
            (1, "one processor is free")
        );
    }

    #[test]
    fn short_collections_are_left_to_one() {
        let mut size = CrewSize::new();
        let chosen = collect(&mut size, 20, 8, |_| 20_000);
        assert_eq!((chosen[0], share(&chosen[1..], 1)), (8, 1.0));
        // They grow longer: after a few, all work again.
        let chosen = collect(&mut size, 20, 8, |workers| 4_000_000 / workers as u64);
        assert!(share(&chosen, 8) > 0.5, "{chosen:?}");
    }

    #[test]
    fn many_work_where_that_is_faster() {
        let mut size = CrewSize::new();
        let chosen = collect(&mut size, 500, 8, |workers| 8_000_000 / workers as u64);
        assert!(share(&chosen, 8) > 0.95, "{chosen:?}");
        assert!(share(&chosen, 4) > 0.0, "and now and then fewer are tried");
    }

    #[test]
    fn fewer_work_where_that_is_faster() {
        for (fastest, free) in [(1, 2), (1, 8), (2, 8), (4, 16), (3, 5), (2, 3)] {
            let mut size = CrewSize::new();
            let away = |workers: usize| workers.abs_diff(fastest) as u64;
            let took = |workers| 1_000_000 * (2 + away(workers));
            collect(&mut size, 200, free, took);
            let chosen = collect(&mut size, 200, free, took);
            assert!(
                share(&chosen, fastest) > 0.9,
                "{fastest} of {free}: {chosen:?}"
            );
        }
    }

    #[test]
    fn it_follows_when_another_number_becomes_faster() {
        let mut size = CrewSize::new();
        collect(&mut size, 300, 2, |workers| 1_000_000 * workers as u64);
        let chosen = collect(&mut size, 400, 2, |workers| 2_000_000 / workers as u64);
        assert!(share(&chosen[300..], 2) > 0.9, "{chosen:?}");
    }

    #[test]
    fn one_odd_collection_decides_nothing() {
        let mut size = CrewSize::new();
        let mut count = 0;
        for _ in 0..400 {
            let (workers, reason) = size.decide(0, usize::MAX, || 2);
            count += usize::from(reason == "a trial");
            // Every third trial is fast by chance.
            let luck = reason == "a trial" && count % 3 == 0;
            size.note(workers, 1 << 20, if luck { 500_000 } else { 1_000_000 });
        }
        assert_eq!(size.trials.best().min(2), 2);
        assert!((6..60).contains(&count), "{count} trials");
    }

    #[test]
    fn a_number_that_is_faster_is_found_upwards_too() {
        let mut size = CrewSize::new();
        collect(&mut size, 300, 8, |workers| {
            1_000_000 * (2 + workers.abs_diff(2) as u64)
        });
        assert_eq!(size.trials.best(), 2);
        let chosen = collect(&mut size, 600, 8, |workers| 8_000_000 / workers as u64);
        assert!(share(&chosen[400..], 8) > 0.9, "{chosen:?}");
    }

    #[test]
    fn trials_go_on_while_the_free_processors_change() {
        let mut size = CrewSize::new();
        let mut alone = 0;
        for round in 0..1000 {
            let (workers, _) = size.decide(0, usize::MAX, || 3 + round % 2);
            size.note(workers, 1 << 20, 1_000_000 * workers as u64);
            alone += usize::from(round >= 300 && workers == 1);
        }
        assert!(alone > 630, "{alone} of 700");
    }

    #[test]
    fn where_many_make_collections_short_many_go_on() {
        let mut size = CrewSize::new();
        let took = |workers| if workers == 1 { 300_000 } else { 50_000 };
        let chosen = collect(&mut size, 200, 2, took);
        assert!(share(&chosen, 2) > 0.9, "{chosen:?}");
    }

    #[test]
    fn one_collection_that_took_long_does_not_condemn_the_usual_number() {
        let mut size = CrewSize::new();
        collect(&mut size, 4, 2, |workers| {
            2_000_000 - 500_000 * workers as u64
        });
        let chosen = collect(&mut size, 1, 2, |_| 100_000_000);
        assert_eq!(chosen.len(), 1);
        let chosen = collect(&mut size, 60, 2, |workers| {
            2_000_000 - 500_000 * workers as u64
        });
        assert!(share(&chosen, 2) > 0.7, "{chosen:?}");
        assert_eq!(size.trials.best().min(2), 2);
    }

    #[test]
    fn two_collections_that_took_long_do_not_make_another_number_the_best() {
        let usual = |workers| 1_400_000 - 200_000 * workers as u64;
        // Whether a trial is near or not.
        for before in 1..40 {
            let mut size = CrewSize::new();
            collect(&mut size, before, 2, usual);
            collect(&mut size, 2, 2, |_| 100_000_000);
            for _ in 0..30 {
                collect(&mut size, 1, 2, usual);
                assert_eq!(size.trials.best().min(2), 2, "behind {before}");
            }
        }
    }

    /// Neither is clearly slower: both are tried by turns.
    #[test]
    fn more_are_tried_where_fewer_are_hardly_slower() {
        let mut size = CrewSize::new();
        let away = |workers: usize| workers.abs_diff(2) as u64;
        collect(&mut size, 300, 3, |workers| {
            1_000_000 + 200_000 * away(workers)
        });
        assert_eq!(size.trials.best(), 2);
        let chosen = collect(&mut size, 600, 3, |workers| {
            1_000_000 + 200_000 * away(workers.min(2)) - 400_000 * u64::from(workers == 3)
        });
        assert!(share(&chosen[400..], 3) > 0.9, "{chosen:?}");
    }

    #[test]
    fn small_differences_of_large_heaps_count() {
        let mut size = CrewSize::new();
        for _ in 0..200 {
            let (workers, _) = size.decide(0, usize::MAX, || 2);
            size.note(workers, 2 << 30, 2_100_000 * workers as u64);
        }
        assert_eq!(size.trials.best(), 1);
    }

    #[test]
    fn collections_that_find_nothing_are_compared_by_their_time() {
        let mut size = CrewSize::new();
        let mut alone = 0;
        for round in 0..400 {
            let (workers, _) = size.decide(0, usize::MAX, || 8);
            size.note(workers, 100, 65_000 + 8_000 * workers as u64);
            alone += usize::from(round >= 200 && workers == 1);
        }
        assert!(alone > 180, "{alone} of 200");
    }

    /// Makes the next collections with `free` processors until one is a trial, and gives with how many workers that was
    /// and how many came before it.
    fn next_trial(size: &mut CrewSize, free: usize, ns: impl Fn(usize) -> u64) -> (usize, usize) {
        for before in 0..1000 {
            let (workers, reason) = size.decide(0, usize::MAX, || free);
            if reason == "a trial" {
                return (workers, before);
            }
            size.note(workers, 1 << 20, ns(workers));
        }
        unreachable!("no trial in a thousand collections");
    }

    #[test]
    fn a_number_that_is_hardly_faster_is_not_taken() {
        for (faster, is_taken) in [(40_000, false), (60_000, false), (90_000, true)] {
            let mut size = CrewSize::new();
            collect(&mut size, 500, 2, |workers| match workers {
                1 => 1_000_000 - faster,
                _ => 1_000_000,
            });
            assert_eq!(
                size.trials.best().min(2) == 1,
                is_taken,
                "by {faster} of a million"
            );
        }
    }

    #[test]
    fn good_trials_of_different_numbers_are_not_added_up() {
        let mut size = CrewSize::new();
        let usual = |_| 1_000_000;
        // Of four processors two are tried, of two one: each is good in turn.
        for round in 0..12 {
            let free = if round % 2 == 0 { 4 } else { 2 };
            let (workers, _) = next_trial(&mut size, free, usual);
            assert_eq!(workers, free / 2);
            size.note(workers, 1 << 20, 700_000);
        }
        assert_eq!(size.trials.best(), 2, "{size:?}");
    }

    #[test]
    fn a_trial_that_was_not_good_puts_the_next_one_off() {
        let usual = |_| 1_000_000;
        for took in [1_000_000, 1_200_000] {
            let mut size = CrewSize::new();
            assert_eq!(next_trial(&mut size, 2, usual), (1, EARLY as usize));
            size.note(1, 1 << 20, took);
            let (_, before) = next_trial(&mut size, 2, usual);
            assert_eq!(before, 2 * FIRST as usize, "a trial took {took}");
        }
        // And never more than `SELDOM` collections lie between two trials.
        let mut size = CrewSize::new();
        for _ in 0..10 {
            let (workers, before) = next_trial(&mut size, 2, usual);
            assert!(before <= SELDOM as usize);
            size.note(workers, 1 << 20, 1_200_000);
        }
        assert_eq!(next_trial(&mut size, 2, usual).1, SELDOM as usize);
    }

    /// The program waits for the trial: with half of the workers it may take twice as long.
    #[test]
    fn fewer_that_are_clearly_slower_are_tried_again_when_that_may_have_changed() {
        let slower = || {
            let mut size = CrewSize::new();
            let (workers, _) = next_trial(&mut size, 2, |_| 1_000_000);
            size.note(workers, 1 << 20, 2_000_000);
            size
        };
        // Two take as long as before: one is not tried until what is known of it is old.
        let mut size = slower();
        let trials = |size: &mut CrewSize, ns: u64| {
            let tried = |_: &usize| {
                let (workers, reason) = size.decide(0, usize::MAX, || 2);
                size.note(workers, 1 << 20, ns * (3 - workers as u64));
                reason == "a trial"
            };
            (0..200).filter(tried).count()
        };
        assert_eq!(trials(&mut size, 1_000_000), 0);
        let (_, before) = next_trial(&mut size, 2, |_| 1_000_000);
        assert!((1..1000).contains(&before), "{before}");
        // Two take nearly as long as one did.
        let mut size = slower();
        assert!(trials(&mut size, 1_800_000) > 0);
        // More are tried as before: a collection in which they are slower is a small one.
        let mut size = CrewSize::new();
        collect(&mut size, 300, 2, |workers| 1_000_000 * workers as u64);
        assert_eq!(size.trials.best(), 1);
        for _ in 0..3 {
            let (workers, before) = next_trial(&mut size, 2, |_| 1_000_000);
            assert!(workers == 2 && before <= SELDOM as usize);
            size.note(workers, 1 << 20, 2_000_000);
        }
        // Of three processors, where two are the fastest, three are still tried.
        let mut size = CrewSize::new();
        let took = |workers: usize| 1_000_000 * (1 + 2 * workers.abs_diff(2) as u64);
        collect(&mut size, 400, 3, took);
        assert_eq!(size.trials.best(), 2);
        let tried = collect(&mut size, 400, 3, took);
        assert!(tried.contains(&3) && !tried.contains(&1), "{tried:?}");
    }

    #[test]
    fn what_is_known_of_fewer_is_old_after_a_thousand_collections() {
        const MIB: usize = 1 << 20;
        // The only trial, what two took before it, and what each takes afterwards, where one is faster.
        for (what, found, two, trial, after) in [
            (
                "one odd trial",
                MIB,
                1_000_000,
                100_000_000,
                [700_000, 1_000_000],
            ),
            (
                "a heap that shrinks into the caches",
                MIB,
                1_000_000,
                2_000_000,
                [200_000, 300_000],
            ),
            (
                "costs next to none",
                16 << 30,
                100_000,
                200_000,
                [50_000, 100_000],
            ),
        ] {
            let mut size = CrewSize::new();
            for _ in 0..EARLY {
                assert_eq!(size.decide(0, usize::MAX, || 2).0, 2, "{what}");
                size.note(2, found, two);
            }
            assert_eq!(size.decide(0, usize::MAX, || 2), (1, "a trial"), "{what}");
            size.note(1, found, trial);
            for _ in 0..1000 {
                let (workers, _) = size.decide(0, usize::MAX, || 2);
                size.note(workers, found, after[workers - 1]);
            }
            assert_eq!(size.trials.best(), 1, "{what}: {size:?}");
        }
    }

    #[test]
    fn collections_after_a_trial_are_none() {
        let mut size = CrewSize::new();
        assert_eq!(next_trial(&mut size, 2, |_| 100_000).0, 1);
        size.note(1, 1 << 20, 70_000);
        // Nothing is tried while little lives.
        for _ in 0..8 {
            assert_eq!(size.decide(0, 1000, || 2), (1, "a small heap"));
            size.note(1, 1 << 20, 70_000);
        }
        assert_eq!(size.decide(0, usize::MAX, || 2), (2, "the fastest lately"));
    }

    #[test]
    fn fewer_are_not_slower_than_what_is_not_known() {
        let mut size = CrewSize::new();
        collect(&mut size, EARLY as usize, 2, |_| 1_000_000);
        // Two more processors are free when a trial is due.
        assert_eq!(size.decide(0, usize::MAX, || 4), (2, "a trial"));
        assert_eq!(size.trials.cost(2), 1_000_000);
    }

    /// The first trials are of a small heap, in which one is hardly slower.
    #[test]
    fn a_heap_that_outgrows_the_caches_is_known_anew() {
        let mut size = CrewSize::new();
        collect(&mut size, 6, 2, |workers| 300_000 - 50_000 * workers as u64);
        let chosen = collect(&mut size, 600, 2, |workers| 2_000_000 / workers as u64);
        let alone = chosen.iter().filter(|&&workers| workers == 1).count();
        assert!((1..=2).contains(&alone), "{alone}");
    }

    #[test]
    fn the_next_number_upwards_is_tried_and_not_the_largest() {
        let mut size = CrewSize::new();
        collect(&mut size, 300, 16, |workers| 1_000_000 * workers as u64);
        assert_eq!(size.trials.best(), 1);
        let mut tried = Vec::new();
        for _ in 0..4 {
            let (workers, _) = next_trial(&mut size, 16, |_| 1_000_000);
            tried.push(workers);
            size.note(workers, 1 << 20, 3_000_000);
        }
        assert_eq!(tried, [2; 4], "from one, of sixteen");
    }

    #[test]
    fn short_collections_stay_with_one_whatever_is_not_known_of_others() {
        let mut size = CrewSize::new();
        // One worker alone was ever seen, for one processor was free; two may be had now.
        collect(&mut size, 4, 1, |_| 20_000);
        assert_eq!(size.trials.cost(2), 0);
        size.note(1, 1 << 20, 20_000);
        size.decide(0, usize::MAX, || 2);
        size.note(1, 1 << 20, 20_000);
        assert_eq!(
            size.decide(0, usize::MAX, || 2),
            (1, "collections are short")
        );
    }

    #[test]
    fn what_a_collection_costs_is_for_what_it_found() {
        let mut size = CrewSize::new();
        let mut alone = 0;
        for round in 0..600 {
            let (workers, reason) = size.decide(0, usize::MAX, || 2);
            // With one worker it takes longer for a MB, and trials happen to find a fourth.
            let megabytes = if reason == "a trial" { 2 } else { 8 };
            let each = if workers == 1 { 1_500_000 } else { 1_000_000 };
            size.note(workers, megabytes << 20, megabytes as u64 * each);
            alone += usize::from(round >= 200 && workers == 1);
        }
        assert_eq!(size.trials.best().min(2), 2, "{size:?}");
        assert!(alone < 20, "{alone} of 400");
    }

    #[test]
    fn one_short_collection_does_not_make_collections_short() {
        let mut size = CrewSize::new();
        collect(&mut size, 5, 2, |_| 1_000_000);
        collect(&mut size, 1, 2, |_| 10_000);
        assert_eq!(size.decide(0, usize::MAX, || 2).0, 2);
    }
}
