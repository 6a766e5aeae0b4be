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
use gleaner::raw::{AnyArrays, In, Shape, TypeId, Value, array_bytes};
use gleaner::{Builder, Handle, Heap, Mutator, OutOfMemory};
use gleaner_workloads::failed;
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::quantities::size;
use crate::say;

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
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64k")]
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
    /// That, of what is not alive.
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

/// The elements of all arrays of numbers here.
type Bytes = In<AnyArrays, u8>;

/// A heap with holes.
struct Holes {
    mutator: Mutator,
    bytes: TypeId,
    /// An array of references to what leaves holes, and to what does not.
    kept: Handle,
}

/// Measures and prints; true, for nothing can turn out wrong.
pub fn run(chosen: &Fragmentation) -> Result<bool> {
    let limit = (chosen.heap as usize) << 20;
    let builder = Heap::builder().limit(limit).workers(chosen.workers);
    let mut lists = chosen.options.iter();
    let heap = lists
        .try_fold(builder, |builder, list| builder.options(list))
        .and_then(Builder::build)
        .map_err(failed)?;
    let count = (limit as u64 * u64::from(chosen.fill) / 100) as usize / chosen.holes;
    let mut holes = Holes::new(&heap, count)?;
    for index in 0..count {
        if let Err(full) = holes.fill(index, chosen.holes) {
            return Err(Failure::new(format!("--fill {}: {full}", chosen.fill)));
        }
    }
    let live = holes.drop_every_other(count).map_err(failed)? * chosen.holes;
    let largest = holes.largest(limit)?;
    let totals = holes.mutator.totals();
    let (collection_s, copy_s) = holes.times_of(largest)?;
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
    /// Nothing yet, and room for references to so many arrays, and one more.
    fn new(heap: &Heap, count: usize) -> Result<Holes> {
        let bytes = heap.register_raw(Shape::Primitives { log2: 0 });
        let references = heap.register_whole_raw(Shape::References).map_err(failed)?;
        let mut mutator = heap.attach().map_err(failed)?;
        let log2 = match heap.references() {
            gleaner::References::Wide => 3,
            gleaner::References::Compressed => 2,
        };
        let length = count as u32 + 1;
        // SAFETY: the type is one of arrays of references, from whose slots the bytes follow; the array is given to a
        // handle at once.
        let kept = unsafe {
            let array = mutator.allocate_array_raw(references, length, array_bytes(length, log2));
            let value = Value::reference(array.map_err(failed)?);
            mutator.handle_raw(value)
        };
        Ok(Holes {
            mutator,
            bytes: bytes.map_err(failed)?,
            kept: kept.ok_or_else(|| Failure::new("the heap has no room for a handle"))?,
        })
    }

    /// Makes an array of so many bytes, all 1, and keeps it at an index.
    fn fill(&mut self, index: usize, bytes: usize) -> std::result::Result<(), OutOfMemory> {
        let length = bytes as u32;
        // SAFETY: the type is one of arrays of bytes. The fresh array is in a root while it is filled, and then stored
        // into one that has this index; no other reference is held outside of handles.
        unsafe {
            let array =
                self.mutator
                    .allocate_array_raw(self.bytes, length, array_bytes(length, 0))?;
            let kept = &self.kept;
            self.mutator
                .with_roots([Value::reference(array)], |mutator, [root]| {
                    let array = reference(root.get());
                    mutator.fill_elements_in::<Bytes>(array, 0, bytes, 1)?;
                    let kept = reference(kept.get_raw());
                    mutator.store_element_raw(kept, index, root.get())
                })
        }
    }

    /// Drops what is kept at an index.
    fn drop_at(&mut self, index: usize) -> std::result::Result<(), OutOfMemory> {
        let kept = reference(self.kept.get_raw());
        // SAFETY: an array of references that has this index; the address is not used again.
        unsafe { self.mutator.store_element_raw(kept, index, Value::NULL) }
    }

    /// Leaves holes; how many arrays are left.
    fn drop_every_other(&mut self, count: usize) -> std::result::Result<usize, OutOfMemory> {
        for index in (0..count).step_by(2) {
            self.drop_at(index)?;
        }
        self.mutator.collect(true);
        Ok(count / 2)
    }

    /// Where the array is kept that is asked for.
    fn last(&self) -> usize {
        let kept = reference(self.kept.get_raw());
        // SAFETY: a valid array.
        unsafe { self.mutator.length_raw(kept) as usize - 1 }
    }

    /// Whether there is memory for an array of so many bytes; it is dropped.
    fn fits(&mut self, bytes: usize) -> Result<bool> {
        let place = self.last();
        let fits = self.fill(place, bytes).is_ok();
        self.drop_at(place).map_err(failed)?;
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

    /// How long it takes to collect everything beside an array of so many bytes, and to copy one half of it to the
    /// other.
    fn times_of(&mut self, bytes: usize) -> Result<(f64, f64)> {
        let place = self.last();
        self.fill(place, bytes).map_err(failed)?;
        let start = Instant::now();
        self.mutator.collect(true);
        let collection = start.elapsed().as_secs_f64();
        let half = bytes / 2;
        let kept = reference(self.kept.get_raw());
        let start = Instant::now();
        // SAFETY: the array of references has this index, and what it holds there is an array of so many bytes;
        // addresses are not used again.
        unsafe {
            let array = reference(self.mutator.load_element_raw(kept, place));
            let half = half as u32;
            self.mutator.copy_elements_raw(array, 0, array, half, half)
        }
        .map_err(failed)?;
        Ok((collection, start.elapsed().as_secs_f64()))
    }
}

/// The object that a value refers to.
fn reference(value: Value) -> gleaner::raw::Address {
    gleaner::raw::Address::new(value.bits() as usize)
}
