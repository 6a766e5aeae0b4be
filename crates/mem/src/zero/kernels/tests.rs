//! Each kernel on all small ranges and on some large ones. What this processor lacks is emulated if that can be done,
//! and skipped with its name if not.

use super::super::{Processor, choose};
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
pub(super) fn check(name: &str, sizes: impl Iterator<Item = usize>, zero: &dyn Fn(Address, usize)) {
    for bytes in sizes {
        let mut place = Place::of(bytes);
        for offset in (0..LINE).step_by(8) {
            place.check(zero, offset, bytes, name);
        }
    }
}

pub(super) fn small() -> impl Iterator<Item = usize> {
    (0..=1040).step_by(8)
}

fn large() -> impl Iterator<Item = usize> {
    [4 << 10, 32 << 10, 1 << 20]
        .into_iter()
        .flat_map(|size| [size - 8, size, size + 24])
}

/// Whether this processor has what the kernel needs; says so if not.
pub(super) fn here(kernel: Kernel) -> bool {
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
fn names_are_those_of_the_option() {
    let names: Vec<_> = Kernel::ALL.iter().map(|kernel| kernel.name()).collect();
    assert_eq!(ZeroingKernel::NAMES, [&["auto"], &names[..]].concat());
}
