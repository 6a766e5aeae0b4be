//! `bulk`: bytes of arrays through the safe layer, which other threads may use at the same moment, against the same
//! operations on slices, which are calls of the C library.
//!
//! A round runs each operation on both, and what comes first changes from round to round; the ratio of a round is that
//! of the two times beside each other.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use clap::Args;
use gleaner::{Array, Elements, Heap, Local, Scope};
use gleaner_workloads::failed;
use gleaner_workloads::failure::Result;
use serde::Serialize;

use crate::quantities::{Spread, array_size, size};
use crate::say::say;

/// Arguments of `bulk`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gleaner-bench bulk                   a line of JSON for each operation on 16,000 bytes
  gleaner-bench bulk --bytes 64        on short arrays")]
pub struct Bulk {
    /// Bytes of each array
    #[arg(long, value_name = "SIZE", value_parser = array_size, default_value = "16000")]
    pub bytes: usize,
    /// Each operation goes through this many bytes in a measurement
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "32m")]
    pub work: usize,
    /// How often everything is measured
    #[arg(long, value_name = "COUNT", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,
}

/// What is measured.
struct Ground<'a, 's> {
    scope: &'a mut Scope<'s>,
    of: Array,
    /// Two arrays, and two slices, of the same bytes.
    arrays: [Local<'s>; 2],
    slices: [Vec<u8>; 2],
}

/// An operation on both sides.
struct Operation {
    name: &'static str,
    ours: fn(&mut Ground<'_, '_>),
    theirs: fn(&mut Ground<'_, '_>),
}

const FULL: &str = "the heap holds two arrays";

const OPERATIONS: [Operation; 7] = [
    Operation {
        name: "read",
        ours: |on| {
            on.scope
                .read_elements(on.arrays[0], 0, black_box(&mut on.slices[1][..]))
        },
        theirs: copy_slice,
    },
    Operation {
        name: "write",
        ours: |on| {
            let written = on
                .scope
                .write_elements(on.arrays[1], 0, black_box(&on.slices[0][..]));
            written.expect(FULL);
        },
        theirs: copy_slice,
    },
    Operation {
        name: "copy",
        ours: |on| {
            let all = 0..black_box(on.slices[0].len());
            let copied = on.scope.copy_elements(on.arrays[0], all, on.arrays[1], 0);
            copied.expect(FULL);
        },
        theirs: copy_slice,
    },
    Operation {
        name: "copy-within",
        ours: |on| {
            let [array, _] = on.arrays;
            let range = 0..black_box(on.slices[0].len()) - 1;
            on.scope.copy_elements(array, range, array, 1).expect(FULL);
        },
        theirs: |on| {
            let last = black_box(on.slices[0].len()) - 1;
            black_box(&mut on.slices[0]).copy_within(0..last, 1);
        },
    },
    Operation {
        name: "compare",
        ours: |on| {
            let [one, other] = on.arrays;
            let all = 0..black_box(on.slices[0].len());
            assert_eq!(on.scope.compare_elements(one, all, other, 0), None);
        },
        theirs: |on| {
            let [one, other] = &on.slices;
            assert!(black_box(&one[..]) == black_box(&other[..]));
        },
    },
    Operation {
        name: "fill",
        ours: |on| {
            let count = black_box(on.slices[0].len());
            let filled = on
                .scope
                .fill_numbers(on.arrays[0], 0, count, black_box(0_u8));
            filled.expect(FULL);
        },
        theirs: |on| black_box(&mut on.slices[0][..]).fill(black_box(0)),
    },
    Operation {
        name: "allocate-with",
        ours: |on| {
            let (of, bytes) = (on.of, &on.slices[0]);
            on.scope.nested(|scope| {
                let made = scope.allocate_array_with(of, black_box(bytes));
                black_box(made.expect(FULL));
            });
        },
        theirs: |on| drop(black_box(black_box(&on.slices[0][..]).to_vec())),
    },
];

fn copy_slice(on: &mut Ground<'_, '_>) {
    let [from, to] = &mut on.slices;
    black_box(&mut to[..]).copy_from_slice(black_box(&from[..]));
}

/// The line. Times are nanoseconds of one operation.
#[derive(Serialize)]
struct Line {
    operation: &'static str,
    bytes: usize,
    gleaner_ns: f64,
    c_ns: f64,
    ratio_least: f64,
    ratio_median: f64,
    ratio_most: f64,
}

/// How many nanoseconds one of `times` operations takes.
fn timed(on: &mut Ground<'_, '_>, times: usize, operation: fn(&mut Ground<'_, '_>)) -> f64 {
    let start = Instant::now();
    for _ in 0..times {
        operation(on);
    }
    start.elapsed().as_nanos() as f64 / times as f64
}

fn measure(on: &mut Ground<'_, '_>, operation: &Operation, chosen: &Bulk) -> Line {
    let times = (chosen.work / chosen.bytes).max(1);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..chosen.rounds {
        if round % 2 == 0 {
            ours.push(timed(on, times, operation.ours));
        }
        theirs.push(timed(on, times, operation.theirs));
        if round % 2 == 1 {
            ours.push(timed(on, times, operation.ours));
        }
    }
    let ratios: Vec<f64> = ours
        .iter()
        .zip(&theirs)
        .map(|(one, other)| one / other)
        .collect();
    let ratio = Spread::of(&ratios);
    Line {
        operation: operation.name,
        bytes: chosen.bytes,
        gleaner_ns: Spread::of(&ours).median,
        c_ns: Spread::of(&theirs).median,
        ratio_least: ratio.least,
        ratio_median: ratio.median,
        ratio_most: ratio.most,
    }
}

/// Measures all operations.
pub fn run(chosen: &Bulk) -> Result<bool> {
    let limit = (chosen.bytes * 16).max(64 << 20);
    let heap = Heap::builder().limit(limit).build().map_err(failed)?;
    let of = heap.array(Elements::Bytes).map_err(failed)?;
    heap.attach().map_err(failed)?.scope(|scope| {
        let slices = [0, 1].map(|_| vec![0; chosen.bytes]);
        let mut array = || scope.allocate_array_with(of, &slices[0]).map_err(failed);
        let arrays = [array()?, array()?];
        let mut ground = Ground {
            scope,
            of,
            arrays,
            slices,
        };
        for operation in &OPERATIONS {
            let line = measure(&mut ground, operation, chosen);
            say(serde_json::to_string(&line).map_err(failed)?)?;
        }
        Ok(true)
    })
}
