//! Types for the words of a heap, so that no bare `usize` address crosses a module.

use core::fmt;

use gleaner_base::sync::load_shared;

use crate::instructions;

/// Bytes that one prefetch brings, at least: some Arm processors have lines of two of these.
pub const CACHE_LINE: usize = 64;

/// A machine word that is used as an address. It may point anywhere; code that dereferences it must know why it may.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Address(usize);

impl Address {
    /// The null address.
    pub const NULL: Address = Address(0);

    /// The address with this bit pattern.
    #[inline(always)]
    pub const fn new(word: usize) -> Address {
        Address(word)
    }

    /// The address that `pointer` holds.
    #[inline(always)]
    pub fn of<T>(pointer: *const T) -> Address {
        Address(pointer as usize)
    }

    /// The bit pattern.
    #[inline(always)]
    pub const fn word(self) -> usize {
        self.0
    }

    /// This address as a pointer to `T`.
    #[inline(always)]
    pub const fn ptr<T>(self) -> *mut T {
        self.0 as *mut T
    }

    /// True for the null address.
    #[inline(always)]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The address `bytes` further up.
    #[inline(always)]
    pub const fn add(self, bytes: usize) -> Address {
        Address(self.0.wrapping_add(bytes))
    }

    /// The address of the item at an index, of those of `bytes` bytes that begin here: 1, 2, 4 or 8. Compilers let the access
    /// itself scale the index; a product they would keep in a register of its own.
    #[inline(always)]
    pub fn item(self, index: usize, bytes: usize) -> Address {
        match bytes {
            1 => Address::of(self.ptr::<u8>().wrapping_add(index)),
            2 => Address::of(self.ptr::<u16>().wrapping_add(index)),
            4 => Address::of(self.ptr::<u32>().wrapping_add(index)),
            _ => Address::of(self.ptr::<u64>().wrapping_add(index)),
        }
    }

    /// The address `bytes` further down.
    #[inline(always)]
    pub const fn sub(self, bytes: usize) -> Address {
        Address(self.0.wrapping_sub(bytes))
    }

    /// Bytes from `base` up to this address (wrapping, so that one comparison checks a range).
    #[inline(always)]
    pub const fn offset_from(self, base: Address) -> usize {
        self.0.wrapping_sub(base.0)
    }

    /// Rounded down to a multiple of `alignment`, a power of two.
    #[inline(always)]
    pub const fn align_down(self, alignment: usize) -> Address {
        Address(self.0 & !(alignment - 1))
    }

    /// Rounded up to a multiple of `alignment`, a power of two.
    #[inline(always)]
    pub const fn align_up(self, alignment: usize) -> Address {
        Address(self.0.wrapping_add(alignment - 1) & !(alignment - 1))
    }

    /// Asks the cache for the line at this address; any address will do.
    #[inline(always)]
    pub fn prefetch(self) {
        instructions::prefetch(self);
    }

    /// As [`Address::prefetch`], for a line that is used once: it is not kept.
    #[inline(always)]
    pub fn prefetch_once(self) {
        instructions::prefetch_once(self);
    }

    /// As [`Address::prefetch`], for a thread that will write: no other core keeps the line.
    #[inline(always)]
    pub fn prefetch_for_write(self) {
        instructions::prefetch_for_write(self);
    }

    /// Loads the word stored here.
    ///
    /// # Safety
    /// Eight readable bytes must stand at this address, and it must be 8-aligned.
    #[inline(always)]
    pub unsafe fn load(self) -> usize {
        // SAFETY: eight readable bytes stand at this 8-aligned address, as asked.
        unsafe { self.ptr::<usize>().read() }
    }

    /// The word that stands here, which another thread may write at the same moment. The address need not be aligned.
    ///
    /// # Safety
    /// Eight readable bytes must stand at this address.
    #[inline(always)]
    pub unsafe fn load_shared(self) -> usize {
        // SAFETY: eight readable bytes stand at this address, as asked. Relaxed: a write that is missed
        // here is found by the pages that were written.
        unsafe { load_shared(self.ptr::<usize>()) }
    }

    /// Stores `word` here.
    ///
    /// # Safety
    /// Eight writable bytes must stand at this address, and it must be 8-aligned.
    #[inline(always)]
    pub unsafe fn store(self, word: usize) {
        // SAFETY: eight writable bytes stand at this 8-aligned address, as asked.
        unsafe { self.ptr::<usize>().write(word) }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
