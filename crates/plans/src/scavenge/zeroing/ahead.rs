//! What zeroing threads and mutators agree on: rounds of blocks that are zeroed ahead of the mutators, by threads of
//! their own (OOPSLA 2011, section 6.2). What a block is, and how it is zeroed, [`super`] says.
//!
//! # Invariants
//! - A round begins in a stopped world. A zeroing thread is inside the gate while it looks whether its round goes on,
//!   claims a block and zeroes it; so nobody zeroes after a collection what was begun before it. It holds no lock.
//! - A block is zeroed by the one that has claimed it, before anything in it is used ([`gleaner_work::Claims`]).
//! - A thread that is far enough ahead sleeps outside of the gate.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::{AtomicU8, AtomicUsize, Ordering};
use gleaner_work::{Claims, Cursor, Done, Drowsy, Lead, Rounds, Spinning, Turn};

use crate::scavenge::stop::poll::PollGate;

/// Rounds of spinning, some microseconds, that a zeroing thread is given to come to a block.
const PATIENCE: u32 = 60;

/// How zeroing threads share the blocks, and how far ahead they keep.
#[derive(Clone, Copy, Debug)]
pub struct Design {
    /// How many threads there are.
    pub threads: usize,
    /// Whether each thread has every n-th block for itself, rather than the next that nobody has taken.
    pub is_static: bool,
    /// Whether the threads keep a bounded lead, so that mutators tell them of each buffer.
    pub has_lead: bool,
    /// Rounds in which one that is far enough ahead spins before it sleeps.
    pub spins: u32,
}

/// How often a zeroing thread was far enough ahead.
#[derive(Clone, Copy, Default, Debug)]
pub struct Rests {
    /// It slept.
    pub sleeps: u64,
    /// Mutators took a buffer while it spun, so that it need not sleep.
    pub spared: u64,
}

/// What a zeroing thread does with blocks.
pub trait Blocks {
    /// Whether this block is farther ahead of the mutators than they need.
    fn is_far(&self, block: usize) -> bool;
    /// Zeroes a block that the thread has claimed. False if it did not; then another thread may.
    fn zero(&mut self, block: usize, rests: Rests) -> bool;
    /// Whether the thread is to end after a round, as a fault that is injected.
    fn ends(&self) -> bool;
}

/// What both sides share.
#[derive(Debug)]
pub struct Ahead {
    design: Design,
    /// What zeroing threads sleep on from one collection to the next.
    rounds: Rounds,
    /// Where racing threads are.
    cursor: Cursor,
    /// The first block that this round leaves alone. Written in stopped worlds.
    end: AtomicUsize,
    /// Where threads that keep a bounded lead sleep until buffers are taken.
    taken: Lead,
}

/// What a zeroing thread does next.
enum Next<'a> {
    Block,
    /// It is far enough ahead, and spins first: this many steps were made before it looked.
    Spin(u32),
    /// It has spun in vain, or spinning lately was.
    Sleep(Drowsy<'a>),
    Nothing,
}

/// A zeroing thread is inside the gate; it waited while the world was stopped.
struct Inside<'a>(&'a PollGate);

impl Inside<'_> {
    fn new(gate: &PollGate) -> Inside<'_> {
        gate.enter();
        Inside(gate)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Ahead {
    /// Before the first round.
    pub fn new(design: Design) -> Ahead {
        Ahead {
            design,
            rounds: Rounds::new(),
            cursor: Cursor::new(),
            end: AtomicUsize::new(0),
            taken: Lead::new(),
        }
    }

    /// How the threads share the blocks.
    pub fn design(&self) -> Design {
        self.design
    }

    /// Whether no round has begun yet.
    pub fn is_first(&self) -> bool {
        self.rounds.is_first()
    }

    /// From now on the blocks from the first to before the second are zeroed ahead, or nothing is.
    pub fn begin(
        &self,
        _: &mut WorldStopped<'_>,
        states: &[AtomicU8],
        blocks: Option<(usize, usize)>,
    ) {
        if let Some((first, end)) = blocks {
            self.end.store(end, Ordering::Relaxed);
            Claims::new(states).open();
            self.cursor.begin(first);
        }
        self.rounds.begin(blocks.is_some());
    }

    /// Wakes the zeroing threads for the round; the world runs again.
    pub fn wake(&self) {
        self.rounds.announce();
        self.note_taken();
    }

    /// Zeroing threads end. The caller joins them.
    pub fn dismiss(&self) {
        self.rounds.dismiss();
        self.taken.dismiss();
    }

    /// In a forked child: the zeroing threads exist in the parent only. They were outside of the gate, so they had
    /// claimed no block.
    pub fn forget_threads_after_fork(&self) {
        self.taken.forget_sleepers_after_fork();
    }

    /// A mutator has taken a buffer: threads that keep a lead may go on.
    pub fn note_taken(&self) {
        if self.design.has_lead {
            self.taken.step();
        }
    }

    /// A mutator needs a block that it has taken: when this returns, it is zero, if need be by `zero`.
    pub fn ensure(&self, states: &[AtomicU8], block: usize, zero: impl FnOnce()) -> Done {
        Claims::new(states).ensure(block, PATIENCE, zero)
    }

    /// What a zeroing thread does as long as the heap exists: the `index`-th, from 0. Returns when they are dismissed.
    pub fn run(
        &self,
        gate: &PollGate,
        states: &[AtomicU8],
        index: usize,
        blocks: &mut impl Blocks,
    ) {
        let (mut seen, mut rests, mut spinning) = (None, Rests::default(), Spinning::default());
        while let Some(round) = self.rounds.next(seen) {
            seen = Some(round);
            let inside = Inside::new(gate);
            let mut turn = if self.design.is_static {
                self.cursor.part(index, self.design.threads)
            } else {
                Turn::Racing
            };
            drop(inside);
            let mut has_spun = false;
            loop {
                let inside = Inside::new(gate);
                let next = if self.rounds.is(round) {
                    self.next(states, &mut turn, has_spun, rests, blocks)
                } else {
                    Next::Nothing
                };
                drop(inside);
                match next {
                    Next::Block => has_spun = false,
                    Next::Nothing => break,
                    Next::Spin(seen) => {
                        has_spun = true;
                        if spinning.is_due() {
                            let spared = self.taken.spin(seen, self.design.spins);
                            spinning.note(spared);
                            rests.spared += u64::from(spared);
                            has_spun = !spared;
                        }
                    }
                    Next::Sleep(drowsy) => {
                        drowsy.sleep();
                        rests.sleeps += 1;
                        has_spun = false;
                    }
                }
            }
            if blocks.ends() {
                return;
            }
        }
    }

    /// Zeroes a block of the round, inside the gate.
    fn next(
        &self,
        states: &[AtomicU8],
        turn: &mut Turn,
        has_spun: bool,
        rests: Rests,
        blocks: &mut impl Blocks,
    ) -> Next<'_> {
        let end = self.end.load(Ordering::Relaxed);
        let ahead = turn.peek(&self.cursor);
        if ahead >= end {
            return Next::Nothing;
        }
        let seen = self.taken.steps();
        if blocks.is_far(ahead) {
            if !has_spun && self.design.spins > 0 {
                return Next::Spin(seen);
            }
            let drowsy = self.taken.drowse();
            if blocks.is_far(ahead) {
                return Next::Sleep(drowsy);
            }
        }
        let block = turn.take(&self.cursor);
        if block >= end {
            return Next::Nothing;
        }
        if let Some(claim) = Claims::new(states).claim(block)
            && blocks.zero(block, rests)
        {
            claim.finish();
        }
        Next::Block
    }
}
