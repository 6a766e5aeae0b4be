//! `pauses`: how long scavenges stop a program that has large arrays.
//!
//! Arrays that are *old* were there at the last collection of everything. Before each scavenge fresh objects are made
//! that survive, and references to them are stored into the arrays, here and there. So the scavenge has as many cards
//! to look at as there were stores. Arrays that are *young* are all made anew before each scavenge, which keeps them.
//! What the scavenge takes is measured, and nothing else.

use std::time::Instant;

use clap::{Args, ValueEnum};
use gleaner::raw::Value;
use gleaner_workloads::failed;
use gleaner_workloads::random::Random;
use serde::Serialize;

use crate::kept::{Allocated, Bytes, Kept};
use crate::quantities::{Spread, array_size, size};
use crate::say::say;
use gleaner_workloads::failure::{Failure, Result};

/// Arguments of `pauses`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gleaner-bench pauses --opt arrays=zray             scavenges beside old arrays of references
  gleaner-bench pauses --opt arrays=zray --young     scavenges of the arrays themselves
  gleaner-bench pauses --kind numbers --young        of numbers, in one piece

It prints a line of JSON; times are in seconds.")]
pub struct Pauses {
    /// Whether the arrays are made anew before each scavenge
    #[arg(long)]
    pub young: bool,
    /// What their elements are
    #[arg(long, value_enum, default_value_t = Kind::References)]
    pub kind: Kind,
    /// Bytes of all arrays together
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "8m")]
    pub arrays: usize,
    /// Bytes of one array
    #[arg(long, value_name = "SIZE", value_parser = array_size, default_value = "256k")]
    pub each: usize,
    /// Elements of old arrays that are stored into before each scavenge
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub stores: u32,
    /// Scavenges that are measured
    #[arg(long, value_name = "COUNT", default_value_t = 101, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Size of the heap in MB
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..=65536))]
    pub heap: u32,
    /// Threads that collect
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub workers: usize,
    /// Options of the heap, as in GLEANER_OPTIONS, which weighs more; may be repeated
    #[arg(long = "opt", value_name = "NAME=VALUE")]
    pub options: Vec<String>,
}

/// What the elements of the arrays are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Kind {
    References,
    /// Of one byte
    Numbers,
}

/// The line.
#[derive(Serialize)]
struct Line {
    arrays: usize,
    least_s: f64,
    median_s: f64,
    most_s: f64,
}

/// Scavenges that are not measured.
const FIRST: u32 = 3;

/// A program with arrays.
struct Program<'a> {
    kept: Kept,
    count: usize,
    random: Random,
    chosen: &'a Pauses,
}

/// Measures and prints; true, for nothing can turn out wrong.
pub fn run(chosen: &Pauses) -> Result<bool> {
    let count = chosen.arrays / chosen.each;
    if count == 0 {
        let (all, each) = (chosen.arrays, chosen.each);
        let message = format!("--arrays {all} has no room for one array of --each {each}");
        return Err(Failure::new(message));
    }
    let mut program = Program {
        kept: Kept::new(
            chosen.heap,
            chosen.workers,
            &chosen.options,
            count + chosen.stores as usize,
        )?,
        count,
        random: Random::new(1),
        chosen,
    };
    program.make_arrays().map_err(failed)?;
    program.kept.mutator.collect(true);
    let mut times = Vec::new();
    for round in 0..FIRST + chosen.rounds {
        let time = program.scavenged()?;
        if round >= FIRST {
            times.push(time);
        }
    }
    let spread = Spread::of(&times);
    let line = Line {
        arrays: count,
        least_s: spread.least,
        median_s: spread.median,
        most_s: spread.most,
    };
    say(serde_json::to_string(&line).map_err(failed)?)?;
    Ok(true)
}

impl Program<'_> {
    /// How long a scavenge takes.
    fn scavenged(&mut self) -> Result<f64> {
        if self.chosen.young {
            // What was made for the last scavenge is dead then, and there is as much room as before it.
            self.kept.mutator.collect(true);
        }
        let before = self.kept.mutator.totals().scavenges;
        let prepared = if self.chosen.young {
            self.make_arrays()
        } else {
            self.store_here_and_there()
        };
        prepared.map_err(failed)?;
        if self.kept.mutator.totals().scavenges != before {
            let message = "the heap scavenged before it was asked to: it needs smaller --arrays, fewer --stores or a \
                           larger --heap";
            return Err(Failure::new(message));
        }
        let start = Instant::now();
        self.kept.mutator.collect(false);
        Ok(start.elapsed().as_secs_f64())
    }

    /// Makes all arrays anew.
    fn make_arrays(&mut self) -> Allocated<()> {
        let bytes = self.chosen.each;
        for index in 0..self.count {
            let fresh = match self.chosen.kind {
                Kind::Numbers => self.kept.numbers(bytes)?,
                Kind::References => self.kept.references(bytes)?,
            };
            self.kept.put(index, fresh)?;
        }
        Ok(())
    }

    /// Makes objects that survive, and stores into elements of old arrays: of references, those objects.
    fn store_here_and_there(&mut self) -> Allocated<()> {
        let length = match self.chosen.kind {
            Kind::Numbers => self.chosen.each,
            Kind::References => self.kept.references_in(self.chosen.each),
        };
        for number in 0..self.chosen.stores as usize {
            let array = self.random.below(self.count as u32) as usize;
            let index = self.random.below(length as u32) as usize;
            let object = self.kept.numbers(8)?;
            let kept = self.count + number;
            self.kept.put(kept, object)?;
            let (array, object) = (self.kept.at(array), self.kept.at(kept));
            // SAFETY: an array that has this index, and nothing could collect since it was found; no address is used
            // again.
            unsafe {
                let mutator = &mut self.kept.mutator;
                match self.chosen.kind {
                    Kind::Numbers => mutator.store_element_in::<Bytes>(array, index, 2)?,
                    Kind::References => {
                        mutator.store_element_raw(array, index, Value::reference(object))?;
                    }
                }
            }
        }
        Ok(())
    }
}
