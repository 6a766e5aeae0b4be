//! Each kernel on all small ranges and on some large ones. What this processor lacks is emulated if that can be done,
//! and skipped with its name if not.

use core::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use gleaner_os::signals::{Information, install_suspend_handler};

use super::super::choose;
use super::*;

/// Memory at a multiple of the line, with a line before and after the range.
#[repr(align(64))]
#[derive(Clone)]
struct Line([usize; LINE / 8]);

struct Place(Vec<Line>);

impl Place {
    fn of(bytes: usize) -> Place {
        Place(vec![Line([!0; LINE / 8]); bytes.div_ceil(LINE) + 3])
    }

    fn words(&self) -> impl Iterator<Item = usize> {
        self.0.iter().flat_map(|line| line.0)
    }

    /// Zeroes `bytes` bytes at an offset in the second line and looks at all; then all is as before.
    fn check(&mut self, zero: &dyn Fn(Address, usize), offset: usize, bytes: usize, name: &str) {
        let start = LINE + offset;
        zero(Address::of(self.0.as_ptr()).add(start), bytes);
        let range = start / 8..(start + bytes) / 8;
        for (index, word) in self.words().enumerate() {
            let expected = if range.contains(&index) { 0 } else { !0 };
            assert_eq!(
                word, expected,
                "{name}: {bytes} bytes at {offset}, word {index}"
            );
        }
        self.0.fill(Line([!0; LINE / 8]));
    }
}

/// Each size at each offset in a line.
fn check(name: &str, sizes: impl Iterator<Item = usize>, zero: &dyn Fn(Address, usize)) {
    for bytes in sizes {
        let mut place = Place::of(bytes);
        for offset in (0..LINE).step_by(8) {
            place.check(zero, offset, bytes, name);
        }
    }
}

fn small() -> impl Iterator<Item = usize> {
    (0..=1040).step_by(8)
}

fn large() -> impl Iterator<Item = usize> {
    [4 << 10, 32 << 10, 1 << 20]
        .into_iter()
        .flat_map(|size| [size - 8, size, size + 24])
}

/// Whether this processor has what the kernel needs; says so if not.
fn here(kernel: Kernel) -> bool {
    let here = kernel
        .needs()
        .is_none_or(|feature| Processor::detect().has(feature));
    if !here {
        println!("skipped: {}", kernel.name());
    }
    here
}

/// The kernel, or what is used instead of it.
fn check_kernel(kernel: Kernel, sizes: impl Iterator<Item = usize>) {
    here(kernel);
    let used = choose(kernel.option(), true, &Processor::detect()).kernel;
    check(used.name(), sizes, &|start, bytes| {
        // SAFETY: the range is the test's; the processor has what is needed, or another kernel was chosen.
        unsafe { used.zero(start, bytes) }
    });
}

#[test]
fn small_ranges_are_zero_and_nothing_beside_them_changed() {
    for kernel in Kernel::ALL {
        check_kernel(kernel, small());
    }
}

#[test]
fn large_ranges_too() {
    for kernel in Kernel::ALL {
        check_kernel(kernel, large());
    }
}

#[test]
fn wide_stores_are_right_in_both_widths() {
    if !here(Kernel::WideNonTemporal) {
        return;
    }
    let by = |stores: unsafe fn(Lines)| {
        move |start, bytes| {
            // SAFETY: the range is the test's; the processor was asked.
            unsafe { stores(zero_edges(start, bytes)) }
        }
    };
    check("32 bytes", small(), &by(non_temporal_32));
    if Processor::detect().avx512 {
        check("64 bytes", small(), &by(non_temporal_64));
    }
}

/// How many instructions were emulated.
static EMULATED: AtomicUsize = AtomicUsize::new(0);

/// Does what `clzero` does where a processor does not know it.
extern "C" fn emulate_line_zero(_: c_int, _: *mut Information, context: *mut c_void) {
    // Where the kernel keeps the interrupted registers, and their order (`ucontext_t`).
    const REGISTERS: usize = 40;
    const RAX: usize = REGISTERS + 13 * 8;
    const RIP: usize = REGISTERS + 16 * 8;
    const INSTRUCTION: [u8; 3] = [0x0f, 0x01, 0xfc];
    let context = Address::of(context);
    // SAFETY: the registers are where the kernel puts them; the instruction pointer points to code; the line is what
    // the instruction would write.
    unsafe {
        let at = Address::new(context.add(RIP).load());
        if at.ptr::<[u8; 3]>().read() != INSTRUCTION {
            std::process::abort();
        }
        let line = Address::new(context.add(RAX).load()).align_down(LINE);
        line.ptr::<[u8; LINE]>().write([0; LINE]);
        context.add(RIP).store(at.word() + INSTRUCTION.len());
    }
    EMULATED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn lines_are_zeroed_by_the_processor_or_by_its_emulation() {
    const ILLEGAL_INSTRUCTION: c_int = 4;
    assert!(install_suspend_handler(
        ILLEGAL_INSTRUCTION,
        emulate_line_zero
    ));
    check("line-zero", small(), &|start, bytes| {
        // SAFETY: the range is the test's; the instruction is there, or emulated.
        unsafe { Kernel::LineZero.zero(start, bytes) }
    });
    let emulated = EMULATED.load(Ordering::Relaxed);
    assert_eq!(emulated > 0, !Processor::detect().line_zero);
}

#[test]
fn names_are_those_of_the_option() {
    let names: Vec<_> = Kernel::ALL.iter().map(|kernel| kernel.name()).collect();
    assert_eq!(ZeroingKernel::NAMES, [&["auto"], &names[..]].concat());
}
