//! The stubs of the builtins: each leaves the caller's place in the anchor, and goes on in the function as if compiled code
//! had called it.
//!
//! A stub writes frame pointer, return address and stack pointer of compiled code to the anchor of the record in r15.

use std::arch::naked_asm;

use gleaner::raw::offsets;

use super::{answer, arrays, calls, memories, tables};
use crate::builtin::Builtin;
use crate::error::TrapKind;

/// Declares a stub for each builtin.
macro_rules! stubs {
    ($($name:ident = $stub:ident($function:path);)+) => {
        /// Where the stub of a builtin lies.
        pub(crate) fn address(of: Builtin) -> usize {
            match of { $(Builtin::$name => $stub as *const () as usize,)+ }
        }

        $(
            #[unsafe(naked)]
            unsafe extern "C" fn $stub() {
                naked_asm!(
                    "mov [r15 + {anchor}], rbp",
                    "mov rax, [rsp]",
                    "mov [r15 + {anchor} + 8], rax",
                    "lea rax, [rsp + 8]",
                    "mov [r15 + {anchor} + 16], rax",
                    "jmp {function}",
                    anchor = const offsets::ANCHOR,
                    function = sym $function,
                )
            }
        )+
    };
}

stubs! {
    Trap = trap_stub(trap);
    Throw = throw_stub(calls::throw);
    CallHost = call_host_stub(calls::call_host);
    Allocate = allocate_stub(arrays::allocate);
    ArrayNew = array_new_stub(arrays::new);
    ArrayNewDefault = array_new_default_stub(arrays::new_default);
    ArrayNewData = array_new_data_stub(arrays::new_data);
    ArrayNewElement = array_new_element_stub(arrays::new_element);
    ArrayFill = array_fill_stub(arrays::fill);
    ArrayCopy = array_copy_stub(arrays::copy);
    ArrayInitData = array_init_data_stub(arrays::init_data);
    ArrayInitElement = array_init_element_stub(arrays::init_element);
    MemoryGrow = memory_grow_stub(memories::grow);
    MemoryFill = memory_fill_stub(memories::fill);
    MemoryCopy = memory_copy_stub(memories::copy);
    MemoryInit = memory_init_stub(memories::init);
    DataDrop = data_drop_stub(memories::drop_data);
    TableGrow = table_grow_stub(tables::grow);
    TableFill = table_fill_stub(tables::fill);
    TableCopy = table_copy_stub(tables::copy);
    TableInit = table_init_stub(tables::init);
    ElementDrop = element_drop_stub(tables::drop_element);
}

unsafe extern "C" fn trap(context: *const u64, kind: u32, offset: u32) {
    // SAFETY: compiled code passes its context.
    unsafe {
        answer(context, |active| {
            Err::<(), _>(active.trap_at(TrapKind::from_number(kind), Some(offset)))
        })
    }
}
