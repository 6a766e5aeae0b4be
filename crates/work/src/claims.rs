//! Pieces of work that anybody may do ahead of time, each of them once: fresh blocks are zeroed by threads of their
//! own, or by the mutator that needs one before they have come to it (OOPSLA 2011, section 6.2).
//!
//! # Invariants
//! - A piece goes from open to claimed to done, or back to open when the one that claimed it gives up. One thread at a
//!   time has it claimed.
//! - Release by the thread that has done a piece partners Acquire by one that needs it: what was done is seen, and
//!   nothing of it happens later.
//! - Pieces are opened again while nobody else uses them.

use gleaner_base::sync::{AtomicU8, Ordering, spin_hint, spin_rounds, yield_now};

const OPEN: u8 = 0;
const CLAIMED: u8 = 1;
const DONE: u8 = 2;

/// The states of the pieces: one byte each, open when 0.
#[derive(Clone, Copy)]
pub struct Claims<'a>(&'a [AtomicU8]);

/// How a piece came to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    /// It was when it was needed.
    Before,
    /// The caller waited for another thread.
    Waited,
    /// The caller did it.
    Here,
}

/// A piece that the holder is to do. It is open again if the holder drops this instead of finishing.
#[must_use]
pub struct Claim<'a>(&'a AtomicU8);

impl Claim<'_> {
    /// The piece is done.
    pub fn finish(self) {
        self.0.store(DONE, Ordering::Release);
        core::mem::forget(self);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.store(OPEN, Ordering::Release);
    }
}

impl<'a> Claims<'a> {
    /// The pieces with these states.
    pub fn new(states: &'a [AtomicU8]) -> Claims<'a> {
        Claims(states)
    }

    /// Opens all pieces. Nobody else uses them.
    pub fn open(&self) {
        for state in self.0 {
            state.store(OPEN, Ordering::Relaxed);
        }
    }

    /// Whether a piece is done; if so, all of it is seen.
    pub fn is_done(&self, piece: usize) -> bool {
        self.0[piece].load(Ordering::Acquire) == DONE
    }

    /// Claims a piece that is open.
    pub fn claim(&self, piece: usize) -> Option<Claim<'a>> {
        let state = &self.0[piece];
        // Acquire: the one that gave the piece up has written, too.
        state
            .compare_exchange(OPEN, CLAIMED, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        Some(Claim(state))
    }

    /// Returns when a piece is done. While it is open, the caller spins for `patience` rounds in case another thread
    /// claims it, then does it itself. It waits for a thread that has claimed it.
    pub fn ensure(&self, piece: usize, patience: u32, work: impl FnOnce()) -> Done {
        let state = &self.0[piece];
        if state.load(Ordering::Acquire) == DONE {
            return Done::Before;
        }
        let mut rounds = spin_rounds(patience);
        loop {
            match state.load(Ordering::Acquire) {
                DONE => return Done::Waited,
                OPEN if rounds == 0 => {
                    if let Some(claim) = self.claim(piece) {
                        work();
                        claim.finish();
                        return Done::Here;
                    }
                }
                _ if rounds > 0 => {
                    rounds -= 1;
                    spin_hint();
                }
                // The thread that claimed it may wait for this processor.
                _ => yield_now(),
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::vec::Vec;

    #[test]
    fn a_piece_is_done_when_it_is_finished() {
        let states = [const { AtomicU8::new(0) }; 2];
        let claims = Claims::new(&states);
        for gives_up in [true, false] {
            let claim = claims.claim(1).unwrap();
            assert!(!claims.is_done(1) && claims.claim(1).is_none());
            if gives_up {
                drop(claim);
            } else {
                claim.finish();
            }
            assert_eq!(claims.is_done(1), !gives_up);
        }
        assert!(!claims.is_done(0));
    }

    #[test]
    fn each_piece_is_done_once_if_some_give_up() {
        const PIECES: usize = 3000;
        let states: Vec<AtomicU8> = (0..PIECES).map(|_| AtomicU8::new(0)).collect();
        let (claims, done) = (Claims::new(&states), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for ahead in 0..3 {
                let done = &done;
                scope.spawn(move || {
                    for piece in (0..PIECES).step_by(ahead + 1) {
                        let Some(claim) = claims.claim(piece) else {
                            continue;
                        };
                        if piece % 5 == ahead {
                            drop(claim);
                        } else {
                            done.fetch_add(1, Relaxed);
                            claim.finish();
                        }
                    }
                });
            }
            for patience in [0, 1, 100] {
                let done = &done;
                scope.spawn(move || {
                    for piece in 0..PIECES {
                        claims.ensure(piece, patience, || {
                            done.fetch_add(1, Relaxed);
                        });
                        assert!(claims.is_done(piece) && claims.claim(piece).is_none());
                    }
                });
            }
        });
        assert_eq!(done.load(Relaxed), PIECES);
        assert_eq!(claims.ensure(7, 0, || unreachable!()), Done::Before);
        claims.open();
        assert_eq!(claims.ensure(7, 0, || ()), Done::Here);
    }

    #[test]
    fn who_panics_with_a_piece_gives_it_up() {
        let states = [AtomicU8::new(0)];
        let claims = Claims::new(&states);
        let panicked = std::panic::catch_unwind(|| {
            let _claim = claims.claim(0);
            panic!("with a claim");
        });
        assert!(panicked.is_err() && !claims.is_done(0));
        assert_eq!(claims.ensure(0, 0, || ()), Done::Here);
    }
}
