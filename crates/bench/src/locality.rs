//! What a heap on a synthetic machine counted by memory node, as JSON: of each pair of nodes how much workers of the
//! first did on the second.

use gleaner::{ByNode, Counts, Locality};
use serde::Serialize;

/// A row for each node of a worker, a column for each node of what it worked on.
type Matrix = Vec<Vec<u64>>;

fn bytes_of(mut messages: Matrix) -> Matrix {
    let words = messages.iter_mut().flatten();
    words.for_each(|words| *words *= size_of::<u64>() as u64);
    messages
}

/// The counts of one run.
#[derive(Serialize)]
pub struct Line {
    nodes: usize,
    workers: usize,
    /// Objects whose references were visited.
    scanned: Matrix,
    /// The scanned objects that are in the young spaces.
    scanned_young: Matrix,
    /// Objects copied within the young generation, by where they lay.
    copied_from: Matrix,
    /// Objects copied within the young generation, by where they lie afterwards.
    copied: Matrix,
    /// Objects promoted, by where they lie afterwards.
    promoted: Matrix,
    /// Slots that got the new place of what they refer to.
    updated: Matrix,
    /// Items taken from the deques of workers of the other node.
    stolen: Matrix,
    /// Slots sent to workers of the other node under `pages=segregated`, and the bytes of the words.
    messages: Matrix,
    message_bytes: Matrix,
    /// Pages in use, summed over collections: of eden before, of the others after.
    eden_pages: Vec<u64>,
    survivor_pages: Vec<u64>,
    old_pages: Vec<u64>,
}

impl Line {
    /// Of a heap that `workers` workers collected.
    pub fn new(all: &Locality, workers: usize) -> Line {
        let row = |of: &ByNode| of[..all.nodes].to_vec();
        let matrix = |part: fn(&Counts) -> &ByNode| {
            let workers = all.by_worker[..all.nodes].iter();
            workers.map(|counts| row(part(counts))).collect()
        };
        Line {
            nodes: all.nodes,
            workers,
            scanned: matrix(|counts| &counts.scanned),
            scanned_young: matrix(|counts| &counts.scanned_young),
            copied_from: matrix(|counts| &counts.copied_from),
            copied: matrix(|counts| &counts.copied),
            promoted: matrix(|counts| &counts.promoted),
            updated: matrix(|counts| &counts.updated),
            stolen: matrix(|counts| &counts.stolen),
            message_bytes: bytes_of(matrix(|counts| &counts.messages)),
            messages: matrix(|counts| &counts.messages),
            eden_pages: row(&all.eden_pages),
            survivor_pages: row(&all.survivor_pages),
            old_pages: row(&all.old_pages),
        }
    }
}
