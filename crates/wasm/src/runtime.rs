//! The runtime that compiled code calls.
//!
//! # Invariants
//! - A builtin runs on the thread of its engine, inside the heap's gate. The engine's state is reached by the context, and no
//!   other borrow of it is in use meanwhile: the caller that entered compiled code holds none.
//! - References that a builtin was given are valid until it allocates; across that it keeps them in roots.

pub(crate) mod arrays;
pub(crate) mod calls;
pub(crate) mod memories;
pub(crate) mod stubs;
pub(crate) mod tables;

use std::ops::ControlFlow;

use gleaner::OutOfMemory;

use crate::context;
use crate::error::{Trap, TrapKind};
use crate::frames;
use crate::instance::Instance;
use crate::state::{Ending, State};

/// What a builtin knows: the engine, and the number of the instance whose code called it.
pub(crate) struct Active<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) number: usize,
}

impl Active<'_> {
    pub(crate) fn instance(&mut self) -> &mut Instance {
        &mut self.state.instances[self.number]
    }

    /// The functions that are active, and where the newest of them called.
    pub(crate) fn backtrace(&self) -> (Vec<String>, Option<u32>) {
        let (mut backtrace, mut place) = (Vec::new(), None);
        let mut visit = |frame: &frames::Frame<'_>| {
            place = place.or_else(|| frame.block.place(frame.return_address));
            backtrace.extend(frame.block.name(frame.return_address));
            match backtrace.len() {
                MOST_NAMED.. => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        };
        // SAFETY: this thread's mutator, whose code called the runtime.
        let _ = unsafe { frames::walk(&self.state.code, self.state.record(), &mut visit) };
        (backtrace, place)
    }

    /// A trap of the code that called, with the functions that are active.
    pub(crate) fn trap_at(&self, kind: TrapKind, offset: Option<u32>) -> Ending {
        let (backtrace, place) = self.backtrace();
        Ending::Trap(Trap::Program {
            kind,
            offset: offset.or(place),
            backtrace,
        })
    }

    /// A trap at the instruction that called.
    pub(crate) fn trap(&self, kind: TrapKind) -> Ending {
        self.trap_at(kind, None)
    }

    pub(crate) fn full(&self, _: OutOfMemory) -> Ending {
        self.trap(TrapKind::OutOfMemory)
    }
}

/// A backtrace names so many functions at most.
const MOST_NAMED: usize = 50;

/// Runs the body of a builtin. An error ends the newest entry into compiled code.
///
/// # Safety
/// Compiled code called the builtin with its context.
pub(crate) unsafe fn answer<R>(
    context: *const u64,
    body: impl FnOnce(&mut Active<'_>) -> Result<R, Ending>,
) -> R {
    // SAFETY: a context begins with the addresses of its engine's state and the number of its instance; nothing else
    // borrows the state while compiled code runs.
    let result = unsafe {
        let state = &mut *(*context.add(context::ENGINE) as *mut State);
        body(&mut Active {
            state,
            number: *context.add(context::INSTANCE) as usize,
        })
    };
    match result {
        Ok(value) => value,
        // SAFETY: compiled code is active, since it called. What the body had is dropped.
        Err(ending) => unsafe {
            let state = &mut *(*context.add(context::ENGINE) as *mut State);
            let stack_pointer = end_with(state, ending);
            frames::leave(stack_pointer)
        },
    }
}

/// Keeps the ending for who entered: the stack pointer of the entry.
///
/// # Safety
/// Compiled code of the engine is active.
pub(crate) unsafe fn end_with(state: &mut State, ending: Ending) -> usize {
    state.ending = Some(ending);
    let activation: *const frames::Activation = state.record().embedder.get().cast();
    // SAFETY: the activation is that of the newest entry, which is active.
    unsafe { (*activation).stack_pointer() }
}

/// Whether `start..start + count` lies in `0..length`.
pub(crate) fn lies_in(start: u32, count: u32, length: u64) -> bool {
    u64::from(start) + u64::from(count) <= length
}
