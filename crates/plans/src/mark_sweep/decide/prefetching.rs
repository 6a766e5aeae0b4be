//! What the marker prefetches under `prefetch=auto`: the marks of what it finds (`edges`), or only what it will scan (`fifo`).
//!
//! Where the heap lies in memory as it is marked, or in the caches, marks are there already, and the queue of edges costs more than it
//! saves; elsewhere every mark is a miss. No count of the marker's tells the two apart beforehand: so it is tried
//! ([`crate::shared::trials`]).

use gleaner_spaces::mark_sweep::prefetch::Prefetch;

use crate::shared::trials::{FASTEST, TRIAL, Trials};

/// The ways that are tried, the one that is taken as long as nothing is known last.
const WAYS: [Prefetch; 2] = [Prefetch::Fifo, Prefetch::Edges];

/// The other way must be better by one part in this many. Where it is better, it mostly is by more, and collections are
/// not alike.
const MARGIN: u64 = 8;

/// What is known of the collections of one heap.
#[derive(Clone, Debug)]
pub struct Prefetching {
    trials: Trials<{ WAYS.len() + 1 }>,
    /// The way of the collection that is under way, if its marking is to be compared with that of others.
    compared: Option<usize>,
    tries: bool,
}

impl Default for Prefetching {
    fn default() -> Prefetching {
        Prefetching::new()
    }
}

impl Prefetching {
    /// Of a heap that was not collected yet.
    pub const fn new() -> Prefetching {
        Prefetching {
            trials: Trials::new(MARGIN),
            compared: None,
            tries: false,
        }
    }

    /// How the collection that begins prefetches, and why. It is `compared` with others if it marks everything in one go, and if
    /// nothing else is tried in it.
    pub fn decide(&mut self, is_compared: bool) -> (Prefetch, &'static str) {
        let (way, reason) = match is_compared {
            true => self.trials.choose(),
            false => (self.trials.best(), FASTEST),
        };
        self.compared = is_compared.then_some(way);
        self.tries = reason == TRIAL;
        let reason = match (WAYS[way - 1], self.tries) {
            (Prefetch::Fifo, true) => "fifo, a trial",
            (Prefetch::Fifo, false) => "fifo, the fastest lately",
            (_, true) => "edges, a trial",
            (_, false) => "edges, the fastest lately",
        };
        (WAYS[way - 1], reason)
    }

    /// Whether this collection is a trial, so that what it takes says nothing of anything else.
    pub fn tries(&self) -> bool {
        self.tries
    }

    /// What marking has taken in the collection that was decided about last, for the bytes that it found.
    pub fn note(&mut self, found: usize, took_ns: u64) {
        if let Some(way) = self.compared.take() {
            self.trials.note(way, found, took_ns);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::shared::trials::EARLY;

    /// Makes `count` collections of a MB each, which take `fifo` or `edges` nanoseconds by the way that was chosen.
    /// Gives how many were with `fifo`.
    fn collect(prefetching: &mut Prefetching, count: usize, fifo: u64, edges: u64) -> usize {
        let mut with_fifo = 0;
        for _ in 0..count {
            let (prefetch, _) = prefetching.decide(true);
            let is_fifo = prefetch == Prefetch::Fifo;
            with_fifo += usize::from(is_fifo);
            prefetching.note(1 << 20, if is_fifo { fifo } else { edges });
        }
        with_fifo
    }

    #[test]
    fn the_faster_is_taken_and_the_other_tried_now_and_then() {
        let mut prefetching = Prefetching::new();
        let early = EARLY as usize;
        assert_eq!(collect(&mut prefetching, early, 500_000, 1_000_000), 0);
        collect(&mut prefetching, 20, 500_000, 1_000_000);
        let with_fifo = collect(&mut prefetching, 200, 500_000, 1_000_000);
        assert!((190..200).contains(&with_fifo), "{with_fifo}");
        // The program changes.
        collect(&mut prefetching, 400, 1_200_000, 1_000_000);
        let with_fifo = collect(&mut prefetching, 200, 1_200_000, 1_000_000);
        assert!((1..10).contains(&with_fifo), "{with_fifo}");
    }

    #[test]
    fn a_tie_stays_with_edges() {
        let mut prefetching = Prefetching::new();
        let with_fifo = collect(&mut prefetching, 500, 900_000, 1_000_000);
        assert!((1..20).contains(&with_fifo), "{with_fifo}");
        assert_eq!(
            prefetching.decide(false),
            (Prefetch::Edges, "edges, the fastest lately")
        );
    }

    #[test]
    fn what_is_not_alike_is_neither_tried_nor_compared() {
        let mut prefetching = Prefetching::new();
        for _ in 0..100 {
            assert_eq!(prefetching.decide(false).0, Prefetch::Edges);
            prefetching.note(1 << 20, 1);
        }
        assert_eq!(prefetching.trials.cost(2), 0);
        // What is noted twice, as by a second marking of the same collection, counts once.
        prefetching.decide(true);
        prefetching.note(1 << 20, 1_000_000);
        prefetching.note(1 << 10, 1_000_000);
        assert_eq!(prefetching.trials.cost(2), 1_000_000);
        collect(&mut prefetching, EARLY as usize - 1, 1, 1_000_000);
        assert!(!prefetching.tries());
        prefetching.decide(true);
        assert!(prefetching.tries());
        prefetching.decide(false);
        assert!(!prefetching.tries());
    }
}
