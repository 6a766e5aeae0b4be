//! When bytes outside of the heap, which its objects hold, call for a collection.
//!
//! An object of 16 bytes may hold a megabyte that `malloc` gave. The heap sees the 16 bytes, so it would collect when
//! the program is long out of memory. The embedder tells how many bytes there are outside, and these count as if they
//! lay in the heap. The young generation is collected when as many bytes were added as it has itself. Everything is
//! collected when as many were added since the last time as lived then, in the heap and outside of it; so the work
//! of collecting stays in proportion to what the program allocates. Bytes that were given back since a collection are
//! those that it freed, so they lower what is compared with.

use super::generation_sizes::SMALL;

/// What is known of the heap behind a collection. All are bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measurements {
    /// In the heap after the last collection of everything, holes left out.
    pub filled: usize,
    /// The size of the young generation, if that is collected by itself; otherwise as much as can be.
    pub young: usize,
    /// The most that the heap may hold.
    pub limit: usize,
}

/// How many bytes there are outside of the heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outside {
    /// Now.
    pub now: usize,
    /// The least that there were since the last collection: what that left.
    pub least: usize,
    /// The least that there were since the last collection of everything.
    pub least_since_full: usize,
}

/// What is collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// The young generation.
    Young,
    /// Everything.
    Everything,
}

impl Due {
    /// Why.
    pub fn reason(self) -> &'static str {
        match self {
            Due::Young => {
                "bytes outside of the heap were added, as many as the young generation has"
            }
            Due::Everything => {
                "as many bytes were added outside of the heap as lived in it and outside of it"
            }
        }
    }
}

/// Fewer bytes outside are worth no scavenge.
const LEAST: usize = 1 << 20;

/// Whether a collection is due because of what was added.
pub fn due(heap: &Measurements, outside: &Outside) -> Option<Due> {
    let lived = heap.filled.saturating_add(outside.least_since_full);
    let everything = lived.max(SMALL.min(heap.limit));
    let young = heap.young.max(LEAST);
    if outside.now.saturating_sub(outside.least_since_full) >= everything {
        Some(Due::Everything)
    } else if outside.now.saturating_sub(outside.least) >= young {
        Some(Due::Young)
    } else {
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const KB: usize = 1 << 10;
    const MB: usize = 1 << 20;

    fn usual() -> Measurements {
        Measurements {
            filled: 0,
            young: 64 * MB,
            limit: 1 << 30,
        }
    }

    /// How many bytes may be added before everything is collected, and before the young generation is, to what the last
    /// collections left.
    fn rooms(heap: &Measurements, left: usize) -> (usize, usize) {
        let first = |wanted: &[Option<Due>]| {
            let added = (0..2000 * MB).step_by(512 * KB);
            let mut due = added.map(|added| {
                let outside = Outside {
                    now: left + added,
                    least: left,
                    least_since_full: left,
                };
                (added, due(heap, &outside))
            });
            due.find(|(_, due)| wanted.contains(due)).unwrap().0
        };
        let everything = first(&[Some(Due::Everything)]);
        (
            everything,
            first(&[Some(Due::Young), Some(Due::Everything)]),
        )
    }

    #[test]
    fn the_room_grows_with_what_lives_in_the_heap_and_outside() {
        let mut heap = usual();
        assert_eq!(rooms(&heap, 0), (SMALL, 64 * MB));
        heap.filled = 50 * MB;
        assert_eq!(rooms(&heap, 300 * MB), (350 * MB, 64 * MB));
        (heap.limit, heap.filled, heap.young) = (16 * MB, MB, 256 * KB);
        assert_eq!(rooms(&heap, MB), (16 * MB, MB));
        heap.young = usize::MAX;
        assert_eq!(
            rooms(&heap, MB),
            (16 * MB, 16 * MB),
            "each collection is of everything"
        );
    }

    /// What a program comes to whose objects each hold `held` bytes outside: collections of the young generation and of
    /// everything, and the most bytes that there were outside. Of each hundred objects `kept` live on; the others are
    /// finalized behind a collection.
    fn simulate(
        heap: &Measurements,
        (objects, held, kept): (usize, usize, usize),
    ) -> (usize, usize, usize) {
        let (mut dead, mut live) = (0, 0);
        let (mut least, mut least_since_full) = (0, 0);
        let (mut young, mut full, mut most) = (0, 0, 0);
        for object in 0..objects {
            if object % 100 < kept {
                live += held;
            } else {
                dead += held;
            }
            let now: usize = dead + live;
            most = most.max(now);
            let outside = Outside {
                now,
                least,
                least_since_full,
            };
            let Some(what) = due(heap, &outside) else {
                continue;
            };
            (dead, least) = (0, live);
            if what == Due::Everything {
                (full, least_since_full) = (full + 1, live);
            } else {
                young += 1;
            }
        }
        (young, full, most)
    }

    /// The program that allocates 20,000 objects with 100 KB each, of which none lives.
    #[test]
    fn what_dies_is_freed_when_the_young_generation_would_be_full_of_it() {
        let (young, full, most) = simulate(&usual(), (20_000, 100 * KB, 0));
        assert_eq!((young, full), (20_000 * 100 * KB / (64 * MB + 64 * KB), 0));
        assert!(most < 65 * MB, "{most}");
        let never = Measurements {
            young: usize::MAX,
            limit: 64 * MB,
            ..usual()
        };
        let (young, full, most) = simulate(&never, (20_000, 100 * KB, 0));
        assert!(
            young == 0 && full == 30 && most < 65 * MB,
            "{young}, {full}, {most}"
        );
    }

    /// Where all of it lives, collections of everything become rarer as there is more.
    #[test]
    fn what_lives_is_collected_ever_more_rarely() {
        let (young, full, most) = simulate(&usual(), (200_000, 100 * KB, 100));
        assert_eq!(most, 200_000 * 100 * KB);
        assert!((5..=9).contains(&full), "{full}");
        assert!(young < most / (64 * MB) + 1, "{young}");
    }
}
