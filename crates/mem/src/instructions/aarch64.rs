//! What a 64-bit Arm processor does by one or a few instructions that the language does not name: prefetches, loads that
//! race with stores, comparisons of many bytes or words at once.
//!
//! Any thread.

use core::arch::aarch64::{
    uint8x16_t, uint32x4_t, vandq_u8, vandq_u32, vceqq_u8, vcgtq_u32, vdupq_n_u8, vdupq_n_u32,
    vgetq_lane_u64, vld1q_u8, vminvq_u32, vpaddq_u8, vreinterpretq_u64_u8, vsubq_u32, vuzp2q_u32,
};
use core::arch::asm;

use crate::Address;

/// Asks the cache for the line at an address.
#[inline(always)]
pub fn prefetch(at: Address) {
    // SAFETY: a prefetch never faults, and changes neither memory nor flags.
    unsafe {
        asm!("prfm pldl1keep, [{}]", in(reg) at.word(), options(nostack, preserves_flags, readonly));
    }
}

/// Asks the cache for the line at an address, which is used once.
#[inline(always)]
pub fn prefetch_once(at: Address) {
    // SAFETY: a prefetch never faults, and changes neither memory nor flags.
    unsafe {
        asm!("prfm pldl1strm, [{}]", in(reg) at.word(), options(nostack, preserves_flags, readonly));
    }
}

/// Asks the cache for the line at an address, which is written.
#[inline(always)]
pub fn prefetch_for_write(at: Address) {
    // SAFETY: a prefetch never faults, and changes neither memory nor flags.
    unsafe {
        asm!("prfm pstl1keep, [{}]", in(reg) at.word(), options(nostack, preserves_flags, readonly));
    }
}

/// Copies the words at 0 and `last`, which others may write meanwhile.
///
/// # Safety
/// Both ranges are memory of `last + 8` bytes, `to` is the caller's alone, and they do not overlap.
#[inline(always)]
pub unsafe fn copy_two_words(from: Address, to: Address, last: usize) {
    let (low, high): (u64, u64);
    // SAFETY: both ranges have at least `last + 8` bytes, and `to` is the caller's alone, as asked; the instructions may
    // read what another thread writes.
    unsafe {
        asm!("ldr {low}, [{from}]", "ldr {high}, [{from}, {last}]",
             from = in(reg) from.word(), last = in(reg) last,
             low = out(reg) low, high = lateout(reg) high,
             options(nostack, preserves_flags, readonly));
        to.ptr::<u64>().write(low);
        to.add(last).ptr::<u64>().write(high);
    }
}

/// Copies the 16 bytes at 0 and at `last`, which others may write meanwhile.
///
/// # Safety
/// As for [`copy_two_words`], with `last + 16` bytes.
#[inline(always)]
pub unsafe fn copy_two_pairs(from: Address, to: Address, last: usize) {
    let (low, high): (uint8x16_t, uint8x16_t);
    // SAFETY: both ranges have at least `last + 16` bytes, and `to` is the caller's alone, as asked; the instructions may
    // read what another thread writes.
    unsafe {
        asm!("ldr {low:q}, [{from}]", "ldr {high:q}, [{from}, {last}]",
             from = in(reg) from.word(), last = in(reg) last,
             low = out(vreg) low, high = out(vreg) high,
             options(nostack, preserves_flags, readonly));
        to.ptr::<uint8x16_t>().write_unaligned(low);
        to.add(last).ptr::<uint8x16_t>().write_unaligned(high);
    }
}

/// Copies the 32 bytes at 0 and at `last`, which others may write meanwhile.
///
/// # Safety
/// As for [`copy_two_words`], with `last + 32` bytes.
#[inline(always)]
pub unsafe fn copy_four_pairs(from: Address, to: Address, last: usize) {
    let (low, low_next, high, high_next): (uint8x16_t, uint8x16_t, uint8x16_t, uint8x16_t);
    // SAFETY: both ranges have at least `last + 32` bytes, and `to` is the caller's alone, as asked; the instructions may
    // read what another thread writes.
    unsafe {
        asm!("ldp {low:q}, {low_next:q}, [{from}]", "ldp {high:q}, {high_next:q}, [{behind}]",
             from = in(reg) from.word(), behind = in(reg) from.add(last).word(),
             low = out(vreg) low, low_next = out(vreg) low_next,
             high = out(vreg) high, high_next = out(vreg) high_next,
             options(nostack, preserves_flags, readonly));
        to.ptr::<[uint8x16_t; 2]>().write_unaligned([low, low_next]);
        to.add(last)
            .ptr::<[uint8x16_t; 2]>()
            .write_unaligned([high, high_next]);
    }
}

/// Which of 64 bytes are `sought`, a bit for each.
///
/// # Safety
/// The bytes are readable, at a multiple of 16, and nobody changes them meanwhile.
#[inline(always)]
pub unsafe fn equal_of_64(bytes: *const u8, sought: u8) -> u64 {
    const BIT_OF_EACH: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
    // SAFETY: every 64-bit Arm processor that Linux runs on has these; the bytes are readable and unchanged, as asked.
    unsafe {
        let (sought, bits) = (vdupq_n_u8(sought), vld1q_u8(BIT_OF_EACH.as_ptr()));
        let found = |part: usize| vandq_u8(vceqq_u8(vld1q_u8(bytes.add(part)), sought), bits);
        // Sums of neighbours: of 16 bytes with a bit each, 8 bytes with two, and so on.
        let low = vpaddq_u8(found(0), found(16));
        let high = vpaddq_u8(found(32), found(48));
        let all = vpaddq_u8(low, high);
        vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(all, all)))
    }
}

/// A span of addresses, as the upper halves of words are compared with it, four at a time.
#[derive(Clone, Copy)]
pub struct UpperHalves {
    /// What is subtracted from upper halves.
    first: uint32x4_t,
    /// The greatest difference that lies in the span.
    reach: uint32x4_t,
}

impl UpperHalves {
    /// Of the addresses whose upper halves are `first` to `first + reach`.
    #[inline(always)]
    pub fn new(first: u32, reach: u32) -> UpperHalves {
        // SAFETY: every 64-bit Arm processor that Linux runs on has this.
        let all = |half: u32| unsafe { vdupq_n_u32(half) };
        UpperHalves {
            first: all(first),
            reach: all(reach),
        }
    }

    /// Whether none of the eight words of a line lies in the span, by its upper half. The words are compared as they are
    /// found: others may write there.
    ///
    /// # Safety
    /// 64 readable bytes lie there, at a multiple of 64.
    #[inline(always)]
    pub unsafe fn none_of_line(&self, line: Address) -> bool {
        // SAFETY: the line is readable and aligned, as asked; every 64-bit Arm processor that Linux runs on has these.
        unsafe {
            let outside = vandq_u32(self.outside(line), self.outside(line.add(32)));
            vminvq_u32(outside) != 0
        }
    }

    /// All ones for each of the four words of a half line that lies outside of the span.
    ///
    /// # Safety
    /// As for [`UpperHalves::none_of_line`], with half of a line.
    #[inline(always)]
    unsafe fn outside(&self, half: Address) -> uint32x4_t {
        let (low, high): (uint32x4_t, uint32x4_t);
        // SAFETY: the half line is readable and aligned, as asked. This is no load of the language, since the program may
        // write there: in a step, or where it lent memory to the system. The words are compared as they are found.
        unsafe {
            asm!(
                "ldp {low:q}, {high:q}, [{half}]",
                low = out(vreg) low,
                high = out(vreg) high,
                half = in(reg) half.word(),
                options(nostack, readonly, pure, preserves_flags)
            );
        }
        // SAFETY: every 64-bit Arm processor that Linux runs on has these.
        unsafe { vcgtq_u32(vsubq_u32(vuzp2q_u32(low, high), self.first), self.reach) }
    }
}
