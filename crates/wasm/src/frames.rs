//! The stack: how compiled code is entered and left, and the walk over its frames.
//!
//! Each entry from the host makes an [`Activation`], and the mutator's record leads to the newest. Compiled code that calls
//! the runtime leaves its place in the record's anchor ([`crate::runtime::stubs`]). From there frames are linked by frame
//! pointers up to the entry. The activation has the anchor of the stretch of compiled code before it, so that the walk goes
//! on over the frames of host functions between.
//!
//! # Invariants
//! - While host code runs, the anchor is that of the newest stretch of compiled code, or zero if none is active.
//! - A call without a stack map has no live reference, and the walk goes on over its frame.
//! - Register r15 holds the mutator's record while compiled code runs.

use std::arch::naked_asm;
use std::ops::ControlFlow;

use gleaner::raw::{Anchor, Record, RootVisitor, Visitor};

use crate::code::{CodeBlock, CodeMap};

/// An entry into compiled code.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Activation {
    /// Where [`leave`] goes back to. Written by [`enter`].
    stack_pointer: usize,
    previous: *const Activation,
    /// Of the stretch of compiled code before this entry.
    anchor: Anchor,
}

impl Activation {
    /// Begins an entry, and links it into the record.
    pub(crate) fn begin(record: &Record) -> Activation {
        Activation {
            stack_pointer: 0,
            previous: record.embedder.get().cast(),
            anchor: record.anchor.replace(Anchor::default()),
        }
    }

    /// Ends an entry, after compiled code returned or was left.
    pub(crate) fn end(self, record: &Record) {
        record.anchor.set(self.anchor);
        record.embedder.set(self.previous.cast_mut().cast());
    }

    pub(crate) fn stack_pointer(&self) -> usize {
        self.stack_pointer
    }
}

/// Calls a trampoline with a context, a buffer for arguments and results, and the code that it calls. The result is 0, or 1
/// if [`leave`] ended it.
///
/// # Safety
/// The trampoline is one for the code's type, the buffer has room for arguments and results, and the activation is linked.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn enter(
    trampoline: *const u8,
    context: *const u64,
    values: *mut u64,
    record: *const Record,
    activation: *mut Activation,
    code: *const u8,
) -> u32 {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "mov [r8], rsp",
        "mov r15, rcx",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, r9",
        "call rax",
        "xor eax, eax",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Ends the entry whose stack pointer this is: [`enter`] returns 1. All frames between are gone.
///
/// # Safety
/// The entry is active on this thread, and no frame between has anything left to do.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn leave(stack_pointer: usize) -> ! {
    naked_asm!(
        "mov rsp, rdi",
        "mov eax, 1",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Goes on in compiled code that catches an exception.
///
/// # Safety
/// The frame is that of a compiled function that is active on this thread, the code is its landing block, the record is the
/// mutator's, and no frame below has anything left to do.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn land(
    stack_pointer: usize,
    frame_pointer: usize,
    exception: u64,
    landing: usize,
    record: *const Record,
) -> ! {
    naked_asm!(
        "mov rsp, rdi",
        "mov rbp, rsi",
        "mov rax, rdx",
        // The runtime's functions below used it for something else.
        "mov r15, r8",
        "jmp rcx",
    )
}

/// A frame of compiled code.
pub(crate) struct Frame<'a> {
    pub(crate) frame_pointer: usize,
    /// Where the call that is active returns to.
    pub(crate) return_address: usize,
    pub(crate) block: &'a CodeBlock,
}

/// Visits the frames of the newest stretch of compiled code, innermost first.
///
/// # Safety
/// The anchor is that of a stretch on a stack that stands still, whose code the map knows.
pub(crate) unsafe fn walk_stretch<B>(
    code: &CodeMap,
    anchor: Anchor,
    visit: &mut dyn FnMut(&Frame<'_>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let (mut frame_pointer, mut return_address) = (anchor.frame_pointer, anchor.program_counter);
    while let Some(block) = code.find(return_address) {
        visit(&Frame {
            frame_pointer,
            return_address,
            block,
        })?;
        let frame = frame_pointer as *const usize;
        // SAFETY: compiled code keeps frame pointers: the caller's, and behind it the return address.
        (frame_pointer, return_address) = unsafe { (*frame, *frame.add(1)) };
    }
    ControlFlow::Continue(())
}

/// Visits all frames of compiled code of a mutator, innermost first.
///
/// # Safety
/// The mutator is the calling one or stands still, and the map knows its code.
pub(crate) unsafe fn walk<B>(
    code: &CodeMap,
    record: &Record,
    visit: &mut dyn FnMut(&Frame<'_>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let mut anchor = record.anchor.get();
    let mut activation: *const Activation = record.embedder.get().cast();
    loop {
        // SAFETY: the anchor is the record's or an activation's, of a stack that stands still.
        unsafe { walk_stretch(code, anchor, visit)? };
        if activation.is_null() {
            return ControlFlow::Continue(());
        }
        // SAFETY: activations lie in frames of entries that are active.
        unsafe { (anchor, activation) = ((*activation).anchor, (*activation).previous) };
    }
}

/// What tells the heap of the references in compiled frames; the code map outlives the heap.
pub(crate) fn root_visitor(code: *const CodeMap) -> RootVisitor {
    RootVisitor {
        function: visit_roots,
        data: code.cast_mut().cast(),
    }
}

unsafe extern "C" fn visit_roots(code: *mut (), record: *const Record, visitor: *mut Visitor) {
    // SAFETY: the map outlives the heap, and changes only while its only mutator runs.
    let (code, record) = unsafe { (&*code.cast::<CodeMap>(), &*record) };
    let mut visit = |frame: &Frame<'_>| {
        for &below in frame
            .block
            .map(frame.return_address)
            .map_or(&[][..], |map| &map.slots)
        {
            let slot = (frame.frame_pointer - below as usize) as *mut u8;
            // SAFETY: the stack map says that a reference lies there while this call is active.
            unsafe { Visitor::visit(visitor, slot) };
        }
        ControlFlow::<()>::Continue(())
    };
    // SAFETY: the world is stopped.
    let _ = unsafe { walk(code, record, &mut visit) };
}
