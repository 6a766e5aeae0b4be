//! Arguments as a `va_list` on 64-bit Arm (Procedure Call Standard, appendix "Variable argument lists"). A function that takes
//! one by value gets its address, since it is larger than 16 bytes.

/// The body of a naked function: calls another with the first argument, and with a `va_list` of those behind it.
macro_rules! call_with_arguments {
    ($target:ident) => {
        // The frame: frame pointer and link register at 0, the va_list at 16 (32 bytes), the general registers at 48 (64
        // bytes), the vector registers at 112 (128 bytes). The arguments on the stack begin behind it, at 240. The list
        // counts from the ends of both areas; of the general registers the first is no argument of it.
        core::arch::naked_asm!(
            ".cfi_startproc",
            "stp x29, x30, [sp, -240]!",
            ".cfi_def_cfa_offset 240",
            ".cfi_offset x29, -240",
            ".cfi_offset x30, -232",
            "stp x0, x1, [sp, 48]",
            "stp x2, x3, [sp, 64]",
            "stp x4, x5, [sp, 80]",
            "stp x6, x7, [sp, 96]",
            "stp q0, q1, [sp, 112]",
            "stp q2, q3, [sp, 144]",
            "stp q4, q5, [sp, 176]",
            "stp q6, q7, [sp, 208]",
            "add x8, sp, 240",
            "add x9, sp, 112",
            "stp x8, x9, [sp, 16]",
            "str x8, [sp, 32]",
            "mov w9, -56",
            "mov w10, -128",
            "stp w9, w10, [sp, 40]",
            "add x1, sp, 16",
            "bl {target}",
            "ldp x29, x30, [sp], 240",
            ".cfi_restore x29",
            ".cfi_restore x30",
            ".cfi_def_cfa_offset 0",
            "ret",
            ".cfi_endproc",
            target = sym $target,
        )
    };
}

pub(super) use call_with_arguments;
