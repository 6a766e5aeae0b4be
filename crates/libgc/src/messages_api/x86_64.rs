//! Arguments as a `va_list` on x86-64 (System V ABI, x86-64, section 3.5.7).

/// The body of a naked function: calls another with the first argument, and with a `va_list` of those behind it.
macro_rules! call_with_arguments {
    ($target:ident) => {
        // The frame: the va_list at 0 (24 bytes), its register area at 32 (176 bytes), 8 bytes to align the
        // stack. The arguments on the stack begin above the return address, at 224.
        core::arch::naked_asm!(
            ".cfi_startproc",
            "sub rsp, 216",
            ".cfi_def_cfa_offset 224",
            "mov [rsp + 40], rsi",
            "mov [rsp + 48], rdx",
            "mov [rsp + 56], rcx",
            "mov [rsp + 64], r8",
            "mov [rsp + 72], r9",
            "test al, al",
            "je 2f",
            "movaps [rsp + 80], xmm0",
            "movaps [rsp + 96], xmm1",
            "movaps [rsp + 112], xmm2",
            "movaps [rsp + 128], xmm3",
            "movaps [rsp + 144], xmm4",
            "movaps [rsp + 160], xmm5",
            "movaps [rsp + 176], xmm6",
            "movaps [rsp + 192], xmm7",
            "2:",
            "mov dword ptr [rsp], 8",
            "mov dword ptr [rsp + 4], 48",
            "lea rax, [rsp + 224]",
            "mov [rsp + 8], rax",
            "lea rax, [rsp + 32]",
            "mov [rsp + 16], rax",
            "mov rsi, rsp",
            "call {target}",
            "add rsp, 216",
            ".cfi_def_cfa_offset 8",
            "ret",
            ".cfi_endproc",
            target = sym $target,
        )
    };
}

pub(super) use call_with_arguments;
