//! `fragmentation`: how large an array can be in a heap full of holes, and how long what is done to it stops the
//! program.
//!
//! A heap is filled with arrays of one size, up to a share of its limit, and every other one is dropped: what is free
//! then lies in holes. Arrays in one piece need holes as large as they are, or objects that move out of the way; arrays
//! in pieces do not (PLDI 2010, section 7.2.2). So ever larger arrays are asked for and written, one at a time, until
//! there is no memory, and the bound is halved in on. The largest is held then while everything is collected, and is
//! copied.

use std::time::Instant;

use clap::Args;
use gleaner::raw::Value;
use gleaner_workloads::failed;
use serde::Serialize;

use crate::kept::{Allocated, Kept};
use crate::quantities::array_size;
use crate::say::say;
use gleaner_workloads::failure::{Failure, Result};

/// Arguments of `fragmentation`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gleaner-bench fragmentation --opt arrays=contiguous,old=mark-sweep
  gleaner-bench fragmentation --opt arrays=zray,old=mark-sweep
  gleaner-bench fragmentation --heap 1024 --holes 8k     holes in the old space, not among large objects

It prints a line of JSON.")]
pub struct Fragmentation {
    /// Size of the heap in MB
    #[arg(long, value_name = "MB", default_value_t = 128, value_parser = clap::value_parser!(u32).range(8..=65536))]
    pub heap: u32,
    /// Bytes of an array that leaves a hole
    #[arg(long, value_name = "SIZE", value_parser = array_size, default_value = "64k")]
    pub holes: usize,
    /// Percent of the heap's limit that these arrays fill before every other one is dropped
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=90))]
    pub fill: u32,
    /// Threads that collect
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub workers: usize,
    /// Options of the heap, as in GLEANER_OPTIONS, which weighs more; may be repeated
    #[arg(long = "opt", value_name = "NAME=VALUE")]
    pub options: Vec<String>,
}

/// The line. Times are in seconds.
#[derive(Serialize)]
struct Line {
    limit_bytes: usize,
    /// What lives beside the holes.
    live_bytes: usize,
    /// The largest array that there was memory for.
    largest_bytes: usize,
    /// Its share of what is not alive.
    largest_share: f64,
    /// How long it took to collect everything while it was alive.
    collection_s: f64,
    /// How long it took to copy one half of it to the other.
    copy_s: f64,
    /// The longest pause until it had been found.
    longest_pause_s: f64,
    collections: u64,
    full_collections: u64,
}

/// A heap with holes.
struct Holes {
    kept: Kept,
    /// Where the array is kept that is asked for.
    last: usize,
}

/// Measures and prints; true, for nothing can turn out wrong.
pub fn run(chosen: &Fragmentation) -> Result<bool> {
    let limit = (chosen.heap as usize) << 20;
    let count = (limit as u64 * u64::from(chosen.fill) / 100) as usize / chosen.holes;
    if count < 2 {
        let (fill, heap, holes) = (chosen.fill, chosen.heap, chosen.holes);
        let message = format!(
            "--fill {fill} percent of --heap {heap} MB has no room for two arrays of --holes {holes} bytes"
        );
        return Err(Failure::new(message));
    }
    let mut holes = Holes {
        kept: Kept::new(chosen.heap, chosen.workers, &chosen.options, count + 1)?,
        last: count,
    };
    for index in 0..count {
        if let Err(full) = holes.fill(index, chosen.holes) {
            return Err(Failure::new(format!("--fill {}: {full}", chosen.fill)));
        }
    }
    let live = holes.drop_every_other(count).map_err(failed)? * chosen.holes;
    let largest = holes.largest(limit)?;
    let totals = holes.kept.mutator.totals();
    let (collection_s, copy_s) = holes.times_of(largest).map_err(failed)?;
    let line = Line {
        limit_bytes: limit,
        live_bytes: live,
        largest_bytes: largest,
        largest_share: largest as f64 / (limit - live) as f64,
        collection_s,
        copy_s,
        longest_pause_s: totals.longest_stop_ns as f64 * 1e-9,
        collections: totals.scavenges + totals.full_collections,
        full_collections: totals.full_collections,
    };
    say(serde_json::to_string(&line).map_err(failed)?)?;
    Ok(true)
}

impl Holes {
    /// Makes an array of `bytes` bytes and keeps it at an index.
    fn fill(&mut self, index: usize, bytes: usize) -> Allocated<()> {
        let array = self.kept.numbers(bytes)?;
        self.kept.put(index, array)
    }

    /// Leaves holes; how many arrays are left.
    fn drop_every_other(&mut self, count: usize) -> Allocated<usize> {
        for index in (0..count).step_by(2) {
            self.kept.put(index, Value::NULL)?;
        }
        self.kept.mutator.collect(true);
        Ok(count / 2)
    }

    /// Whether there is memory for an array of `bytes` bytes; it is dropped.
    fn fits(&mut self, bytes: usize) -> Result<bool> {
        let fits = self.fill(self.last, bytes).is_ok();
        self.kept.put(self.last, Value::NULL).map_err(failed)?;
        Ok(fits)
    }

    /// The largest array that there is memory for, within a hundredth: no larger one had, of those that were tried.
    fn largest(&mut self, limit: usize) -> Result<usize> {
        let (mut least, mut most) = (0, limit);
        let mut next = 1 << 16;
        while most - least > (most / 100).max(1 << 10) {
            if self.fits(next)? {
                least = next;
            } else {
                most = next;
            }
            // Ever larger ones first.
            next = if most == limit {
                (2 * next).min((least + most) / 2 + 8)
            } else {
                (least + most) / 2
            };
        }
        Ok(least)
    }

    /// How long it takes to collect everything beside an array of `bytes` bytes, and to copy one half of the array to
    /// the other.
    fn times_of(&mut self, bytes: usize) -> Allocated<(f64, f64)> {
        self.fill(self.last, bytes)?;
        let start = Instant::now();
        self.kept.mutator.collect(true);
        let collection = start.elapsed().as_secs_f64();
        let (array, half) = (self.kept.at(self.last), (bytes / 2) as u32);
        let start = Instant::now();
        // SAFETY: an array of `bytes` bytes; the address is not used again.
        unsafe {
            self.kept
                .mutator
                .copy_elements_raw(array, 0, array, half, half)
        }?;
        Ok((collection, start.elapsed().as_secs_f64()))
    }
}
