//! Bump allocation: a region that hands out pieces to many threads, and the buffer in which one thread allocates.
//!
//! Eden, the survivor spaces and the old space of the precise heap are regions; a mutator's TLAB and a worker's PLAB
//! are buffers (ASPLOS 2013, section 2.2). A buffer that is given up is filled, so that its region stays walkable.

use core::cell::Cell;

use gleaner_base::contexts::{AllocatorLocked, WorldStopped};
use gleaner_base::sync::{AtomicUsize, Ordering};
use gleaner_mem::{Address, object_model};

/// A range of addresses that is handed out from its start.
#[derive(Debug)]
pub struct BumpRegion {
    /// Set in a stopped world, while nothing is in use.
    start: AtomicUsize,
    /// No piece ends above. Lowered in a stopped world; raised also by threads that take
    /// pieces. Relaxed: a thread that does not see it raised finds no room, and asks again or elsewhere.
    end: AtomicUsize,
    /// What lies below was handed out. Advanced by compare-and-swap; set in a stopped world. Relaxed:
    /// the thread that gets a piece is the only one that touches it.
    top: AtomicUsize,
}

impl BumpRegion {
    /// An empty region.
    pub fn new(start: Address, bytes: usize) -> BumpRegion {
        BumpRegion {
            start: AtomicUsize::new(start.word()),
            end: AtomicUsize::new(start.add(bytes).word()),
            top: AtomicUsize::new(start.word()),
        }
    }

    /// Where it begins.
    #[inline(always)]
    pub fn start(&self) -> Address {
        Address::new(self.start.load(Ordering::Relaxed))
    }

    /// The region, of which nothing is in use, lies at `start` from now on, with as many bytes. The memory there is the
    /// caller's.
    pub fn move_to(&self, _: &mut WorldStopped<'_>, start: Address) {
        debug_assert_eq!(self.used(), 0);
        let end = start.add(self.bytes());
        self.start.store(start.word(), Ordering::Relaxed);
        self.top.store(start.word(), Ordering::Relaxed);
        self.end.store(end.word(), Ordering::Relaxed);
    }

    /// Where it ends.
    #[inline(always)]
    pub fn end(&self) -> Address {
        Address::new(self.end.load(Ordering::Relaxed))
    }

    /// The region ends at `end` from now on, or at its top if that is higher. While workers take pieces `end` is not
    /// lower than before. The memory up to there is the caller's.
    pub fn set_end(&self, _: &mut AllocatorLocked<'_>, end: Address) {
        let end = if end < self.top() { self.top() } else { end };
        self.end.store(end.word(), Ordering::Relaxed);
    }

    /// The region ends `bytes` bytes higher from now on; the memory there is the caller's. Others may take pieces and
    /// raise the end meanwhile.
    pub fn raise_end(&self, bytes: usize) {
        self.end.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What lies below is in use.
    #[inline]
    pub fn top(&self) -> Address {
        Address::new(self.top.load(Ordering::Relaxed))
    }

    /// Sets the top.
    pub fn set_top(&self, _: &mut WorldStopped<'_>, top: Address) {
        debug_assert!(self.start() <= top && top <= self.end());
        self.top.store(top.word(), Ordering::Relaxed);
    }

    /// All of it is free again.
    pub fn reset(&self, world: &mut WorldStopped<'_>) {
        self.set_top(world, self.start());
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.top().offset_from(self.start())
    }

    /// Bytes that are left.
    pub fn free(&self) -> usize {
        // In this order: others may take pieces and raise the end meanwhile.
        let top = self.top();
        self.end().offset_from(top)
    }

    /// All bytes.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.end().offset_from(self.start())
    }

    /// Whether it contains an address.
    #[inline(always)]
    pub fn contains(&self, at: Address) -> bool {
        at.offset_from(self.start()) < self.bytes()
    }

    /// Takes `wanted` bytes, or what is left if that is at least `least`. All are multiples of 8.
    pub fn take(&self, least: usize, wanted: usize) -> Option<(Address, usize)> {
        self.advance(least, |_| wanted)
    }

    /// Takes what is left of the block at the top; blocks are `block` bytes from the start of the region.
    pub fn take_block(&self, block: usize) -> Option<(Address, usize)> {
        self.advance(1, |used| block - used % block)
    }

    /// `wanted` says from the bytes in use how many to take.
    #[inline(always)]
    fn advance(&self, least: usize, wanted: impl Fn(usize) -> usize) -> Option<(Address, usize)> {
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            let left = self.end.load(Ordering::Relaxed).saturating_sub(top);
            let bytes = wanted(top - self.start().word()).min(left);
            if bytes < least || bytes == 0 {
                return None;
            }
            match self.top.compare_exchange_weak(
                top,
                top + bytes,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some((Address::new(top), bytes)),
                Err(now) => top = now,
            }
        }
    }
}

/// A piece of a region in which one thread allocates. Its fields are cells: a mutator's buffer is part of a record that
/// others may refer to at the same time.
#[derive(Debug, Default)]
#[repr(C)]
pub struct LocalBuffer {
    /// Where the next object goes.
    pub cursor: Cell<Address>,
    /// Where the buffer ends.
    pub limit: Cell<Address>,
}

impl LocalBuffer {
    /// Uses the piece of a region.
    pub fn refill(&self, (start, bytes): (Address, usize)) {
        self.cursor.set(start);
        self.limit.set(start.add(bytes));
    }

    /// Room for an object.
    #[inline(always)]
    pub fn allocate(&self, bytes: usize) -> Option<Address> {
        let start = self.cursor.get();
        if bytes <= self.left() {
            self.cursor.set(start.add(bytes));
            Some(start)
        } else {
            None
        }
    }

    /// Takes back the object that was allocated last.
    #[inline]
    pub fn retract(&self, start: Address) {
        debug_assert!(start < self.cursor.get());
        self.cursor.set(start);
    }

    /// Bytes that are left.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.limit.get().offset_from(self.cursor.get())
    }

    /// Fills what is left and gives the buffer up; where the filler is, if there is one.
    ///
    /// # Safety
    /// The buffer is the calling thread's, or its owner is stopped.
    pub unsafe fn retire(&self) -> Option<(Address, usize)> {
        let (start, bytes) = (self.cursor.get(), self.left());
        self.refill((Address::NULL, 0));
        if bytes == 0 {
            return None;
        }
        // SAFETY: what is left of a buffer is unused memory of the heap.
        unsafe { object_model::fill(start, bytes) };
        Some((start, bytes))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::precise::single_thread::{locked, stopped};

    #[test]
    fn pieces_do_not_overlap_and_the_last_may_be_short() {
        let region = BumpRegion::new(Address::new(0x1000), 100 * 8);
        assert_eq!(region.take(8, 400), Some((Address::new(0x1000), 400)));
        assert_eq!(region.take(8, 640), Some((Address::new(0x1000 + 400), 400)));
        assert_eq!(region.take(8, 8), None);
        assert_eq!((region.used(), region.free()), (800, 0));
        region.reset(&mut stopped());
        assert_eq!(region.take(808, 1000), None);
        assert!(region.contains(Address::new(0x1000)) && !region.contains(region.end()));
    }

    #[test]
    fn a_block_is_taken_up_to_its_end() {
        let region = BumpRegion::new(Address::new(0x1000), 0x250);
        region.take(8, 0x18).unwrap();
        assert_eq!(region.take_block(0x100), Some((Address::new(0x1018), 0xe8)));
        assert_eq!(
            region.take_block(0x100),
            Some((Address::new(0x1100), 0x100))
        );
        assert_eq!(region.take_block(0x100), Some((Address::new(0x1200), 0x50)));
        assert_eq!(region.take_block(0x100), None);
        region.set_end(&mut locked(), Address::new(0x1100));
        assert_eq!((region.end(), region.free()), (region.top(), 0));
    }

    #[test]
    fn a_buffer_gives_out_what_it_has() {
        let buffer = LocalBuffer::default();
        assert_eq!(buffer.allocate(8), None);
        buffer.refill((Address::new(0x2000), 32));
        assert_eq!(buffer.allocate(24), Some(Address::new(0x2000)));
        assert_eq!(buffer.allocate(16), None);
        buffer.retract(Address::new(0x2000));
        assert_eq!(buffer.allocate(32), Some(Address::new(0x2000)));
        // SAFETY: nothing is left, so nothing is written.
        assert_eq!(unsafe { buffer.retire() }, None);
    }
}
