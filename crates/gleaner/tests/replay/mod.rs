//! Random programs whose decisions are bytes: what the fuzzer runs, and the test that replays what it found.
//!
//! The first five bytes set up the heap; each decision then takes as few bytes as its bound needs, so that a change of one
//! byte changes little. The program ends with its bytes.

use gleaner::{Generations, Heap, OldPolicy, References, TraceOrder, Zeroing};

use crate::programs::{Outcome, Program, Source, Types};

/// Bytes that decide.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    /// The next `count` bytes as a number; missing ones are 0.
    fn take(&mut self, count: usize) -> u64 {
        let (now, later) = self.0.split_at(count.min(self.0.len()));
        self.0 = later;
        now.iter()
            .rev()
            .fold(0, |number, &byte| number << 8 | u64::from(byte))
    }
}

impl Source for Bytes<'_> {
    /// Two bytes, spread over the word.
    fn next(&mut self) -> u64 {
        self.take(2).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bytes = [1 << 8, 1 << 16, 1 << 24]
            .iter()
            .take_while(|&&most| bound > most)
            .count();
        (self.take(bytes + 1) % bound as u64) as usize
    }

    fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}

/// The designs, which about a ninth of the inputs have each.
const ZEROING: [Zeroing; 9] = [
    Zeroing::HotPath,
    Zeroing::Window,
    Zeroing::Concurrent,
    Zeroing::Bulk,
    Zeroing::Auto,
    Zeroing::ConcurrentRacing,
    Zeroing::NonTemporal,
    Zeroing::ConcurrentStatic,
    Zeroing::Adaptive,
];

/// How arrays are cut, or not, which about a seventeenth of the inputs have each. With the last one, spines are large
/// objects.
const ARRAYS: [&str; 17] = [
    "arrays=contiguous",
    "arrays=naive",
    "arrays=naive-a",
    "arrays=naive-b",
    "arrays=zray",
    "arrays=perf-zray",
    "arrays=zray,first-n=64,arraylet=256",
    "arrays=perf-zray,first-n=64,arraylet=256",
    "arrays=zray,first-n=128,arraylet=512,lazy-arraylets=off",
    "arrays=zray,first-n=64,arraylet=256,zero-compression=off",
    "arrays=zray,first-n=256,arraylet=2048,fast-copy=off",
    "arrays=naive,first-n=64,arraylet=256,zero-compression=on",
    "arrays=naive,first-n=64,arraylet=256,copy-on-write=on",
    "arrays=naive,first-n=64,arraylet=4096,fast-copy=on",
    "arrays=zray,first-n=64,arraylet=256,array-kinds=references",
    "arrays=zray,first-n=64,arraylet=256,array-kinds=primitives",
    "arrays=zray,first-n=16384,arraylet=256",
];

/// Runs the program that the bytes are; panics when the heap and the oracle differ. How it went, and what collections
/// there were.
pub fn replay(data: &[u8]) -> (Outcome, gleaner::Totals) {
    let mut bytes = Bytes(data);
    let (setup, pages) = (bytes.take(1), bytes.take(1) as usize);
    let ages = bytes.take(1) as u32;
    let (tenure, generations) = (ages % 5, ages / 5 % 3);
    let arrays = ARRAYS[(ages as usize / 15).min(ARRAYS.len() - 1)];
    let stress = bytes.take(1) as u32;
    let rest = bytes.take(1) as usize;
    let (roots, zeroing) = (1 + rest % 29 * 2, ZEROING[rest / 29]);
    let references = match setup % 2 {
        0 => References::Wide,
        _ => References::Compressed,
    };
    let old = match (setup >> 5 & 1, pages % 2) {
        (0, _) => OldPolicy::MarkCompact,
        (_, 0) => OldPolicy::MarkSweep,
        _ => OldPolicy::MarkRegion,
    };
    let trace_order = match (setup >> 6 & 1, old) {
        (0, _) => TraceOrder::Hierarchical,
        (_, OldPolicy::MarkCompact) => TraceOrder::Depth,
        (_, OldPolicy::MarkSweep | OldPolicy::MarkRegion) => TraceOrder::Breadth,
    };
    let heap = Heap::builder()
        .options(arrays)
        .expect("ways to cut arrays")
        .references(references)
        .old(old)
        .trace_order(trace_order)
        .zeroing(zeroing)
        .generations(match generations {
            0 => Generations::Auto,
            1 => Generations::Always,
            _ => Generations::Never,
        })
        .resize(setup >> 7 == 0)
        .limit((1 << 20) + pages * (16 << 10))
        .workers(1 + (setup as usize >> 1) % 3)
        .crew(gleaner::Crew::All)
        .tlab([64, 512, 4 << 10, 32 << 10][(setup as usize >> 3) % 4])
        .tenure(tenure)
        .stress(stress)
        .verify(true)
        .poison(true)
        .build()
        .expect("a setup in the range of what is accepted");
    let types = Types::register(&heap);
    let mut mutator = heap.attach().expect("memory for a mutator");
    let outcome = Program::from(bytes, roots).run(&mut mutator, types, usize::MAX);
    (outcome, mutator.totals())
}
