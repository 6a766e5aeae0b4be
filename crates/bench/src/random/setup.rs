//! What a seed stands for: a heap with its options, mutators, and programs with their lengths.
//!
//! Every choice is drawn from the seed alone, so that one number repeats a run as far as the interleaving of threads
//! allows. Most seeds take long programs that rarely ask for a collection, in heaps where most collections come from
//! allocation; a few take short ones under pressure.
#![forbid(unsafe_code)]

use gleaner_base::faults::{FaultPlan, FaultPoint};

use super::conservative::harness::rng::Rng;
use super::programs::Rarely;

/// Which generator of programs this is. It gets another number with each change of what seeds stand for, here or in the
/// steps of the programs: a range of seeds is one of this generator.
pub const GENERATOR: u32 = 19;

/// What a seed stands for.
#[derive(Debug)]
pub enum Seed {
    /// Programs on the precise heap: seven seeds of eight.
    Precise(Setup),
    /// A program on the libgc heap.
    Libgc(OfLibgc),
}

impl Seed {
    /// What this seed stands for.
    pub fn of(seed: u64) -> Seed {
        // Mixed once more: neighbours must not be the same numbers, shifted by one.
        let mut rng = Rng::new(Rng::new(seed ^ 0x676c_6561_6e65_7221).next());
        if rng.one_in(8) {
            Seed::Libgc(OfLibgc::of(&mut rng))
        } else {
            Seed::Precise(Setup::of(&mut rng))
        }
    }
}

/// Programs on the precise heap.
#[derive(Debug)]
pub struct Setup {
    /// For the builder of the heap.
    pub options: String,
    /// What fails, and at which visit.
    pub faults: FaultPlan,
    /// Programs that run at once, each with a mutator of its own.
    pub mutators: usize,
    /// Roots of each program.
    pub roots: usize,
    /// Steps of each program.
    pub steps: usize,
    /// What the programs do rarely.
    pub rarely: Rarely,
}

/// The points that a precise heap can meet, and up to which visit it is likely to.
const POINTS: [(FaultPoint, usize); 10] = [
    (FaultPoint::CommitMemory, 12),
    (FaultPoint::ReserveMemory, 12),
    (FaultPoint::StartWorker, 4),
    (FaultPoint::Allocation, 400),
    (FaultPoint::Promotion, 2000),
    (FaultPoint::Evacuation, 200),
    (FaultPoint::ZeroingLate, 60),
    (FaultPoint::ZeroingThread, 60),
    (FaultPoint::EphemeronTable, 30),
    (FaultPoint::WorkerLate, 100),
];

fn one_of<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len())]
}

/// A number from `least` on, whose length in bits is what is equally likely.
fn of_any_size(rng: &mut Rng, least: usize, doublings: usize) -> usize {
    let power = least << rng.below(doublings);
    power + rng.below(power)
}

impl Setup {
    fn of(rng: &mut Rng) -> Setup {
        let limit = of_any_size(rng, 1 << 20, 6);
        let stress = if rng.one_in(16) {
            of_any_size(rng, 1, 8)
        } else {
            0
        };
        let verify = rng.one_in(6);
        let slow = stress != 0 || verify;
        Setup {
            options: options(rng, limit, stress, verify),
            faults: faults(rng, &POINTS),
            mutators: one_of(rng, &[1, 1, 2, 2, 3, 4]),
            roots: if rng.one_in(16) {
                1 + rng.below(400)
            } else {
                of_any_size(rng, 4, 4)
            },
            steps: of_any_size(rng, if slow { 64 } else { 2048 }, 5),
            rarely: Rarely {
                collect: of_any_size(rng, 1, 8),
                region: of_any_size(rng, 1, 10),
                large: of_any_size(rng, 1, 9),
            },
        }
    }
}

fn options(rng: &mut Rng, limit: usize, stress: usize, verify: bool) -> String {
    let young = match rng.below(3) {
        0 => 0,
        _ => (192 << 10) + rng.below(limit / 2),
    };
    let tlab = of_any_size(rng, 64, 12);
    let window = of_any_size(rng, 64, 6);
    let lead = if rng.one_in(2) {
        0
    } else {
        of_any_size(rng, 64 << 10, 4)
    };
    let on = |rng: &mut Rng, n: usize| if rng.one_in(n) { "on" } else { "off" };
    let mut list = vec![
        format!("heap-limit={limit},young={young},tlab={tlab},stress={stress}"),
        format!("zeroing-window={window},zeroing-lead={lead}"),
        format!("verify={}", if verify { "edges" } else { "off" }),
        // Each collection overwrites all that is free: in a large heap that takes longer than all else.
        format!("poison={}", on(rng, if limit < 4 << 20 { 2 } else { 16 })),
        format!("resize={}", on(rng, 2)),
        format!("tenure={}", one_of(rng, &[0, 0, 1, 1, 2, 3, 7, 15])),
        format!("workers={}", one_of(rng, &[1, 1, 2, 2, 3, 4])),
        format!("zeroing-threads={}", 1 + rng.below(3)),
    ];
    for (name, values) in CHOICES {
        list.push(format!("{name}={}", one_of(rng, values)));
    }
    if rng.one_in(2) {
        list.push(format!("arrays={}", one_of(rng, &ARRAYS)));
        for (name, values) in CUT_CHOICES {
            list.push(format!("{name}={}", one_of(rng, values)));
        }
    }
    if rng.one_in(6) {
        for (name, values) in IN_PLACE {
            let before = format!("{name}=");
            list.retain(|option| !option.starts_with(&before));
            list.push(format!("{name}={}", one_of(rng, values)));
        }
    }
    list.join(",")
}

/// Options of heaps whose new objects lie in the old space, instead of those that other heaps have.
const IN_PLACE: &[(&str, &[&str])] = &[
    ("nursery", &["in-place", "auto"]),
    ("old", &["mark-region"]),
    ("plan", &["scavenge"]),
    ("pages", &["first-touch", "interleaved"]),
    (
        "zeroing",
        &["hot-path", "hot-path", "bulk", "non-temporal", "window"],
    ),
];

/// How arrays are cut, where they are.
const ARRAYS: [&str; 5] = ["naive", "naive-a", "naive-b", "zray", "perf-zray"];

/// Options of arrays that are cut, of which each value is equally likely.
const CUT_CHOICES: &[(&str, &[&str])] = &[
    // From 16384 on spines are large objects.
    (
        "first-n",
        &[
            "0", "64", "64", "128", "512", "1024", "4096", "16384", "65536", "262144",
        ],
    ),
    (
        "arraylet",
        &["0", "256", "256", "512", "1024", "2048", "4096"],
    ),
    ("array-kinds", &["all", "all", "references", "primitives"]),
    ("lazy-arraylets", &["auto", "on", "off"]),
    ("zero-compression", &["auto", "on", "off"]),
    ("fast-copy", &["auto", "on", "off"]),
    ("copy-on-write", &["auto", "on", "off"]),
    ("array-guard", &["off", "off", "off", "on"]),
];

/// Options of which each value is equally likely.
const CHOICES: &[(&str, &[&str])] = &[
    ("refs", &["wide", "compressed"]),
    ("crew", &["all", "all", "auto"]),
    ("old", &["mark-compact", "mark-sweep", "mark-region"]),
    ("generations", &["auto", "always", "never"]),
    (
        "zeroing",
        &[
            "hot-path",
            "bulk",
            "non-temporal",
            "window",
            "concurrent",
            "concurrent-static",
            "concurrent-racing",
            "adaptive",
            "auto",
        ],
    ),
    // One that the processor lacks is replaced by another.
    (
        "zeroing-kernel",
        &[
            "auto",
            "memset",
            "immediate",
            "string",
            "vector",
            "movnti",
            "movntdq",
            "wide-non-temporal",
            "line-zero",
        ],
    ),
    (
        "topology",
        &[
            "host",
            "host",
            "node:2",
            "node:4 core:2",
            "node:8 core:6",
            "node:16",
        ],
    ),
    ("plan", &["scavenge", "naps"]),
    (
        "pages",
        &[
            "auto",
            "first-touch",
            "interleaved",
            "fragmented",
            "fragmented-fixed",
            "segregated",
        ],
    ),
    ("old-pages", &["auto", "first-touch", "interleaved"]),
    ("lockstep", &["0", "0", "0", "1", "64"]),
    ("trace-order", &["depth", "breadth", "hierarchical"]),
    ("parking", &["futex", "monitor"]),
    ("task-queue", &["lock-free", "locked"]),
    ("prefetch", &["none", "edges"]),
    ("huge-pages", &["off", "on", "auto"]),
];

/// A program on the libgc heap.
#[derive(Debug)]
pub struct OfLibgc {
    /// Options of the heap.
    pub options: String,
    /// What fails, and at which visit.
    pub faults: FaultPlan,
    /// How many threads are stopped for a collection, the one that runs the program included.
    pub mutators: usize,
    /// Threads that mark.
    pub markers: usize,
    /// Whether each worker has a mark stack of one page.
    pub tiny_stacks: bool,
    /// Steps of the program.
    pub steps: usize,
}

/// The points that the libgc heap can meet when it is there.
const LIBGC_POINTS: [(FaultPoint, usize); 8] = [
    (FaultPoint::CommitMemory, 12),
    (FaultPoint::StartWorker, 3),
    (FaultPoint::MarkStackFull, 300),
    (FaultPoint::SuspendAckLate, 12),
    (FaultPoint::LibraryListChanged, 12),
    (FaultPoint::ArenaHeld, 12),
    (FaultPoint::WatchWrites, 12),
    (FaultPoint::MarkTimeOver, 300),
];

/// Options of the libgc heap of which each value is equally likely.
const LIBGC_CHOICES: &[(&str, &[&str])] = &[
    ("prefetch", &["none", "on-grey", "fifo", "edges", "auto"]),
    ("prefetch-hint", &["t0", "nta"]),
    ("push-order", &["natural", "permuted"]),
    ("look-ahead", &["0", "1", "2", "7"]),
    ("sweep", &["lazy", "eager"]),
    ("sweep-ahead", &["0", "64", "2048"]),
    ("populate-ahead", &["0", "16384", "1048576"]),
    ("generations", &["none", "sticky"]),
    ("poison", &["off", "off", "on"]),
    ("zeroing-kernel", &["auto", "memset", "movntdq"]),
    ("release-after", &["0", "1", "6"]),
];

impl OfLibgc {
    fn of(rng: &mut Rng) -> OfLibgc {
        let markers = 1 + rng.below(4);
        let mut list = vec![format!("markers={markers}")];
        for (name, values) in LIBGC_CHOICES {
            list.push(format!("{name}={}", one_of(rng, values)));
        }
        OfLibgc {
            options: list.join(","),
            faults: faults(rng, &LIBGC_POINTS),
            mutators: 1 + rng.below(4),
            markers,
            tiny_stacks: rng.one_in(3),
            steps: of_any_size(rng, 256, 5),
        }
    }
}

/// A third of the seeds have one or two points that fail.
fn faults(rng: &mut Rng, points: &[(FaultPoint, usize)]) -> FaultPlan {
    if !rng.one_in(3) {
        return FaultPlan::NONE;
    }
    let mut items = Vec::new();
    for _ in 0..1 + rng.below(2) {
        let (point, most) = one_of(rng, points);
        items.push(format!("{}@{}", point.as_str(), 1 + rng.below(most)));
    }
    FaultPlan::parse(&items.join("+")).expect("names and visits")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use gleaner::Heap;
    use gleaner_base::options::Options;

    #[test]
    fn every_seed_is_a_setup_that_the_builder_takes() {
        let mut seen = HashSet::new();
        for seed in 0..4000 {
            let setup = match Seed::of(seed) {
                Seed::Precise(setup) => setup,
                Seed::Libgc(setup) => {
                    let mut options = Options::DEFAULT;
                    options.parse_list(&setup.options).expect("options");
                    for (point, _) in LIBGC_POINTS {
                        if setup.faults.visit(point) != 0 {
                            seen.insert((0, format!("libgc {}", point.as_str())));
                        }
                    }
                    continue;
                }
            };
            Heap::builder().options(&setup.options).expect("options");
            assert!((1..=4).contains(&setup.mutators));
            assert!((1..=400).contains(&setup.roots));
            seen.insert((setup.mutators, String::new()));
            seen.extend(setup.options.split(',').map(|option| (0, option.into())));
            for (point, _) in POINTS {
                if setup.faults.visit(point) != 0 {
                    seen.insert((0, point.as_str().into()));
                }
            }
        }
        for name in ARRAYS {
            assert!(seen.contains(&(0, format!("arrays={name}"))), "{name}");
        }
        for (name, values) in CHOICES.iter().chain(CUT_CHOICES).chain(IN_PLACE) {
            for value in *values {
                assert!(
                    seen.contains(&(0, format!("{name}={value}"))),
                    "{name}={value}"
                );
            }
        }
        for (point, _) in POINTS {
            assert!(seen.contains(&(0, point.as_str().into())), "{point:?}");
        }
        for (point, _) in LIBGC_POINTS {
            assert!(
                seen.contains(&(0, format!("libgc {}", point.as_str()))),
                "{point:?}"
            );
        }
        for point in FaultPoint::ALL {
            let of = |points: &[(FaultPoint, usize)]| points.iter().any(|&(one, _)| one == point);
            // The doors' own points are met by none of these programs, and none runs in guard mode.
            // Nor is the list of mappings read: no stack is unknown.
            let elsewhere = [
                FaultPoint::SectionEndLate,
                FaultPoint::FenceMemory,
                FaultPoint::ReadSystemFile,
            ];
            let is_armed = of(&POINTS) || of(&LIBGC_POINTS);
            assert!(
                is_armed || elsewhere.contains(&point),
                "{point:?} is never armed"
            );
        }
        assert!((1..=4).all(|count| seen.contains(&(count, String::new()))));
    }

    #[test]
    fn what_seeds_stand_for_changes_with_the_number_of_the_generator() {
        // FNV-1a, which is the same everywhere and always.
        let text: String = (0..200)
            .map(|seed| format!("{:?}", Seed::of(seed)))
            .collect();
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        assert_eq!((GENERATOR, hash), (19, 222_599_762_908_865_516));
    }

    #[test]
    fn a_seed_is_always_the_same() {
        let text = |seed| format!("{:?}", Seed::of(seed));
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
    }
}
