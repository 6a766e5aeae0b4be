//! How threads that work ahead of time go through the pieces of a round: the next thread takes the next one, or each
//! has every n-th piece for itself (OOPSLA 2011, section 6.2).
//!
//! # Invariants
//! - Each piece is taken at most once in a round, by one thread. Whether another thread has done it by then,
//!   [`crate::Claims`] says.
//! - A round is prepared while no thread takes pieces.

use gleaner_base::sync::{AtomicUsize, Ordering};

/// The next piece that racing threads come to. It may pass the last piece.
#[derive(Debug)]
pub struct Cursor(AtomicUsize);

/// How one thread goes on in its round.
#[derive(Clone, Copy, Debug)]
pub enum Turn {
    /// With the next piece that nobody has taken.
    Racing,
    /// With every `step`-th piece: the paper's static partition.
    Static {
        /// The piece that is next.
        next: usize,
        /// How many threads there are.
        step: usize,
    },
}

impl Default for Cursor {
    fn default() -> Self {
        Self::new()
    }
}

impl Cursor {
    gleaner_base::sync_const_fn! {
        /// At piece 0.
        pub fn new() -> Self {
            Self(AtomicUsize::new(0))
        }
    }

    /// A round begins with this piece. Nobody takes pieces.
    pub fn begin(&self, piece: usize) {
        self.0.store(piece, Ordering::Relaxed);
    }

    /// The turn of thread `index` of `threads`, each of which has pieces of its own. It begins where the round does, so
    /// it is for rounds in which nobody races.
    pub fn part(&self, index: usize, threads: usize) -> Turn {
        Turn::Static {
            next: self.0.load(Ordering::Relaxed) + index,
            step: threads,
        }
    }
}

impl Turn {
    /// The piece that comes next; others may take it first.
    pub fn peek(&self, cursor: &Cursor) -> usize {
        match self {
            Turn::Racing => cursor.0.load(Ordering::Relaxed),
            Turn::Static { next, .. } => *next,
        }
    }

    /// Takes the next piece, which may be beyond the last one.
    pub fn take(&mut self, cursor: &Cursor) -> usize {
        match self {
            Turn::Racing => cursor.0.fetch_add(1, Ordering::Relaxed),
            Turn::Static { next, step } => {
                let piece = *next;
                *next += *step;
                piece
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    const PIECES: usize = 10_000;

    fn taken(turns: impl Iterator<Item = Turn>, cursor: &Cursor) -> Vec<usize> {
        let mut taken: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = turns
                .map(|mut turn| {
                    scope.spawn(move || {
                        let mut own = Vec::new();
                        while turn.peek(cursor) < PIECES {
                            own.push(turn.take(cursor));
                        }
                        own
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .filter(|&piece| piece < PIECES)
                .collect()
        });
        taken.sort_unstable();
        taken
    }

    #[test]
    fn each_piece_is_taken_once_however_many_go() {
        let cursor = Cursor::new();
        for threads in 1..6 {
            cursor.begin(7);
            let parts: Vec<Turn> = (0..threads)
                .map(|index| cursor.part(index, threads))
                .collect();
            let all: Vec<usize> = (7..PIECES).collect();
            assert_eq!(taken(parts.into_iter(), &cursor), all);
            assert_eq!(taken((0..threads).map(|_| Turn::Racing), &cursor), all);
        }
    }
}
