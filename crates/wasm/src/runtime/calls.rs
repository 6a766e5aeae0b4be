//! Builtins for exceptions, and the call of a host function.

use std::mem::ManuallyDrop;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::answer;
use crate::context;
use crate::error::{Thrown, Trap, TrapKind};
use crate::frames;
use crate::state::{Ending, Engine, State};
use crate::types::ValType;
use crate::values::{Object, ObjectKind, Value};

/// Throws: compiled code goes on in the nearest handler of the newest stretch, which otherwise ends with the exception.
pub(super) unsafe extern "C" fn throw(context: *const u64, exception: u64) {
    // SAFETY: compiled code calls this with an exception; nothing of this function is left when another frame goes on.
    unsafe {
        if let ControlFlow::Break([stack_pointer, frame_pointer, landing]) = find_handler(context) {
            let state = &*(*context.add(context::ENGINE) as *const State);
            frames::land(
                stack_pointer,
                frame_pointer,
                exception,
                landing,
                state.record(),
            );
        }
        answer(context, |active| {
            let text = active.state.text_of_exception(exception);
            let ending = match Object::new(&mut active.state.mutator, active.state.id, exception) {
                Some(exception) => Ending::Trap(Trap::Exception(Thrown {
                    exception,
                    text,
                    backtrace: active.backtrace().0,
                })),
                None => active.trap(TrapKind::OutOfMemory),
            };
            Err::<(), _>(ending)
        });
    }
}

/// Stack pointer, frame pointer and landing block of the nearest handler in the newest stretch of compiled code.
///
/// # Safety
/// Compiled code called a builtin with this context.
unsafe fn find_handler(context: *const u64) -> ControlFlow<[usize; 3]> {
    // SAFETY: as for `answer`; the anchor was left by the stub of the builtin.
    unsafe {
        let state = &*(*context.add(context::ENGINE) as *const State);
        frames::walk_stretch(
            &state.code,
            state.record().anchor.get(),
            &mut |frame| match frame.block.handler(frame.return_address) {
                Some((landing, bytes)) => {
                    ControlFlow::Break([frame.frame_pointer - bytes, frame.frame_pointer, landing])
                }
                None => ControlFlow::Continue(()),
            },
        )
    }
}

/// Calls a host function: its arguments are in the buffer, and its results are to be written there.
pub(super) unsafe extern "C" fn call_host(context: *const u64, buffer: u64) {
    // SAFETY: compiled code calls this with the context of a host function and a buffer for its values.
    let result = unsafe { run_host(context, buffer as *mut u64) };
    let Err(ending) = result else { return };
    // SAFETY: as above.
    unsafe {
        match ending {
            Ending::Trap(Trap::Exception(thrown)) => {
                let bits = thrown.exception.bits();
                drop(thrown);
                throw(context, bits);
            }
            other => answer(context, |_| Err::<(), _>(other)),
        }
    }
}

/// # Safety
/// As for [`call_host`].
unsafe fn run_host(context: *const u64, buffer: *mut u64) -> Result<(), Ending> {
    // SAFETY: the context leads to the engine's state, which nothing else borrows while compiled code runs. The buffer has a
    // word for each argument and each result.
    unsafe {
        let state = *context.add(context::ENGINE) as *mut State;
        let number = *context.add(context::INSTANCE) as usize;
        let function = (&(*state).hosts)[number].clone();
        let mut arguments = Vec::with_capacity(function.signature.params.len());
        for (index, &ty) in function.signature.params.iter().enumerate() {
            arguments.push(
                (*state)
                    .value(ty, *buffer.add(index))
                    .map_err(Ending::Trap)?,
            );
        }
        let mut engine = ManuallyDrop::new(Engine::of(state));
        let called = catch_unwind(AssertUnwindSafe(|| {
            let answer = (function.body)(&mut engine, &arguments);
            (*state).check_answer(answer, &function.signature.results)
        }));
        drop(arguments);
        let results = called.map_err(Ending::Panic)?.map_err(Ending::Trap)?;
        for (index, value) in results.iter().enumerate() {
            *buffer.add(index) = value.bits();
        }
        Ok(())
    }
}

impl State {
    /// What a host function answered, if it is of this engine, and compiled code can go on with it.
    fn check_answer(
        &self,
        answer: Result<Vec<Value>, Trap>,
        types: &[ValType],
    ) -> Result<Vec<Value>, Trap> {
        match &answer {
            Ok(results) => self.check_values("a host function returned", results, types)?,
            Err(Trap::Exception(thrown))
                if self.kind(&thrown.exception).0 != ObjectKind::Exception =>
            {
                let message = "a host function threw an object that is no exception";
                return Err(Trap::Host(message.into()));
            }
            Err(_) => (),
        }
        answer
    }
}
