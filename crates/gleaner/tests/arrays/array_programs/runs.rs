//! Runs: a layer, a seed, a number of steps and the options of a heap; as a line of text, so that one can be repeated.

use std::fmt;

use super::layer::{Types, run};
use super::raw::with_raw;
use super::safe::with_safe;
use super::script::{Cuts, Script};
use crate::random::Rng;
use gleaner::raw::{Compressed, Wide};
use gleaner::{Heap, References};

#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Whether it is the raw layer that is used.
    pub is_raw: bool,
    pub seed: u64,
    pub steps: usize,
    /// Whether there are arrays whose spines are large objects.
    pub has_large: bool,
    pub options: String,
}

impl fmt::Display for Run {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layer = if self.is_raw { "raw" } else { "safe" };
        let large = if self.has_large { "on" } else { "off" };
        let Run {
            seed,
            steps,
            options,
            ..
        } = self;
        write!(
            out,
            "layer={layer} seed={seed} steps={steps} large={large} options={options}"
        )
    }
}

impl Run {
    /// Reads a line. Panics if it is none.
    pub fn parse(line: &str) -> Run {
        let (front, options) = line.split_once(" options=").expect("options=");
        let value = |name: &str| {
            let mut words = front.split(' ').filter_map(|word| word.split_once('='));
            let found = words.find(|(word, _)| *word == name);
            found.unwrap_or_else(|| panic!("no {name}= in {line:?}")).1
        };
        Run {
            is_raw: value("layer") == "raw",
            seed: value("seed").parse().expect("a seed"),
            steps: value("steps").parse().expect("steps"),
            has_large: value("large") == "on",
            options: options.into(),
        }
    }

    fn option(&self, name: &str) -> Option<&str> {
        let mut all = self.options.split(',').rev();
        all.find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }

    /// Where the options cut arrays; for contiguous ones as zray does.
    pub fn cuts(&self) -> Cuts {
        let (first_n, arraylet) = match self.option("arrays") {
            Some("naive" | "naive-a") => (0, 1 << 10),
            Some("naive-b") => (0, 2 << 10),
            _ => (4 << 10, 1 << 10),
        };
        let given = |name: &str, otherwise: usize| {
            let given = self.option(name).map(|value| value.parse().unwrap());
            given.filter(|&value| value != 0).unwrap_or(otherwise)
        };
        Cuts {
            first_n: given("first-n", first_n),
            arraylet: given("arraylet", arraylet),
        }
    }

    /// Runs it; a hash of what the program leaves.
    pub fn execute(&self, cuts: Cuts, traces: bool) -> u64 {
        let builder = Heap::builder().options(&self.options).unwrap();
        let heap = builder.build().unwrap();
        let types = Types::register(&heap);
        let mut mutator = heap.attach().unwrap();
        let script = Script::new(self.seed, cuts, self.has_large, self.is_raw);
        let references = heap.references();
        match (self.is_raw, references) {
            (true, References::Wide) => with_raw::<Wide, _>(&mut mutator, types, |layer| {
                run(layer, script, self.steps, 8, traces)
            }),
            (true, References::Compressed) => {
                with_raw::<Compressed, _>(&mut mutator, types, |layer| {
                    run(layer, script, self.steps, 4, traces)
                })
            }
            (false, _) => {
                let slot_bytes = if references == References::Wide { 8 } else { 4 };
                with_safe(&mut mutator, types, slot_bytes, |layer| {
                    run(layer, script, self.steps, slot_bytes, traces)
                })
            }
        }
    }

    /// The same program under contiguous arrays.
    pub fn contiguous(&self) -> Run {
        let references = self.option("refs").unwrap_or("wide");
        Run {
            options: format!("heap-limit={},refs={references}", limit(self.has_large)),
            ..self.clone()
        }
    }
}

fn limit(has_large: bool) -> &'static str {
    if has_large { "32m" } else { "10m" }
}

/// How arrays are cut: the six policies; with three sizes of arraylets and two of what is in front of them all
/// optimisations, none, each alone, and all but one; and the five that cut, in guard mode.
pub fn configurations() -> Vec<String> {
    let policies = [
        "contiguous",
        "naive",
        "naive-a",
        "naive-b",
        "zray",
        "perf-zray",
    ];
    let mut all: Vec<String> = policies.map(|policy| format!("arrays={policy}")).into();
    let switches = [
        "lazy-arraylets",
        "zero-compression",
        "fast-copy",
        "copy-on-write",
    ];
    for first_n in [64, 4096] {
        for arraylet in [256, 1024, 4096] {
            for (policy, others, one) in [("naive", "off", "on"), ("zray", "on", "off")] {
                for chosen in [None, Some(0), Some(1), Some(2), Some(3)] {
                    let value = |number| if Some(number) == chosen { one } else { others };
                    let switches: Vec<String> = (0..4)
                        .map(|number| format!(",{}={}", switches[number], value(number)))
                        .collect();
                    let cuts = format!("arrays={policy},first-n={first_n},arraylet={arraylet}");
                    all.push(cuts + &switches.concat());
                }
            }
        }
    }
    all.extend(
        policies[1..]
            .iter()
            .map(|policy| format!("arrays={policy},array-guard=on")),
    );
    all
}

/// What is combined pair by pair. A value that has options of its own is written out.
pub const FACTORS: &[(&str, &[&str])] = &[
    ("arrays", &["naive", "zray"]),
    ("first-n", &["0", "64", "4096", "16384"]),
    ("arraylet", &["0", "256", "1024", "4096"]),
    ("lazy-arraylets", &["off", "on"]),
    ("zero-compression", &["off", "on"]),
    ("fast-copy", &["off", "on"]),
    ("copy-on-write", &["off", "on"]),
    ("array-kinds", &["all", "references", "primitives"]),
    ("array-guard", &["off", "on"]),
    ("refs", &["wide", "compressed"]),
    ("old", &["mark-compact", "mark-sweep", "mark-region"]),
    ("workers", &["1", "3"]),
    ("stress", &["0", "0", "1", "7"]),
    ("verify", &["off", "edges"]),
    ("poison", &["off", "on"]),
    ("quarantine", &["0", "2"]),
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
        ],
    ),
    (
        "topology",
        &[
            "host",
            "node:2 core:2,pages=fragmented",
            "node:4 core:2,plan=naps",
            "node:8 core:6,plan=naps,lockstep=16",
        ],
    ),
    ("tenure", &["0", "1", "3"]),
    ("tlab", &["64", "32k"]),
    ("young", &["0", "1m"]),
    ("generations", &["auto", "always", "never"]),
    ("trace-order", &["depth", "breadth", "hierarchical"]),
    ("resize", &["off", "on"]),
];

/// One value of each factor.
pub type Row = Vec<usize>;

/// Rows in which each pair of values of different factors occurs. Each row begins with a pair that no other has; the
/// other values are those, one after the other, that add most pairs.
pub fn rows() -> Vec<Row> {
    let mut rng = Rng::new(17);
    let mut missing: Vec<(usize, usize, usize, usize)> = Vec::new();
    for (one, (_, values)) in FACTORS.iter().enumerate() {
        for (other, (_, others)) in FACTORS.iter().enumerate().skip(one + 1) {
            for value in 0..values.len() {
                missing.extend((0..others.len()).map(|second| (one, value, other, second)));
            }
        }
    }
    let mut rows = Vec::new();
    while !missing.is_empty() {
        let (one, value, other, second) = missing[rng.below(missing.len())];
        let mut row: Vec<Option<usize>> = vec![None; FACTORS.len()];
        (row[one], row[other]) = (Some(value), Some(second));
        for factor in 0..FACTORS.len() {
            if row[factor].is_some() {
                continue;
            }
            let gain = |value: usize| {
                let is_gained = |&&(one, first, other, second): &&(usize, usize, usize, usize)| {
                    (one == factor && first == value && row[other] == Some(second))
                        || (other == factor && second == value && row[one] == Some(first))
                };
                missing.iter().filter(is_gained).count()
            };
            let count = FACTORS[factor].1.len();
            let begin = rng.below(count);
            let values = (0..count).map(|value| (value + begin) % count);
            row[factor] = values.max_by_key(|&value| gain(value));
        }
        let row: Row = row
            .into_iter()
            .map(|value| value.expect("chosen"))
            .collect();
        missing.retain(|&(one, first, other, second)| row[one] != first || row[other] != second);
        rows.push(row);
    }
    rows
}

/// The options of a row.
pub fn options(row: &Row) -> String {
    let named = FACTORS.iter().zip(row);
    let options = named.map(|((name, values), &value)| format!("{name}={}", values[value]));
    options.collect::<Vec<_>>().join(",")
}

/// A run under these options, in a heap that has room for it.
pub fn run_of(is_raw: bool, seed: u64, has_large: bool, options: &str) -> Run {
    let is_slow = has_large || options.contains("stress=1");
    Run {
        is_raw,
        seed,
        steps: if is_slow { 120 } else { 300 },
        has_large,
        options: format!("heap-limit={},{options}", limit(has_large)),
    }
}
