//! Memory whose addresses are reserved for the most it can hold, and that is committed from its start as it is used.
//!
//! What is not committed cannot be written, so it is no data to the system, which may limit that (`RLIMIT_DATA`,
//! `vm.overcommit_memory=2`). Growing calls no allocator. One thread grows it at a time.

use core::ptr::NonNull;

use gleaner_os::memory;

/// Bytes by which it grows.
const STEP: usize = 64 << 10;

/// The memory. It reads as zero where nothing was written.
#[derive(Debug)]
pub struct Growing {
    start: NonNull<u8>,
    reserved: usize,
    committed: usize,
}

// SAFETY: it owns its memory, and hands out no reference to it.
unsafe impl Send for Growing {}

impl Growing {
    /// At most `bytes`, and none yet; `None` when the system gives no addresses.
    pub fn new(bytes: usize) -> Option<Growing> {
        let reserved = memory::whole_pages(bytes)?;
        Some(Growing {
            start: memory::reserve(reserved, memory::page_size())?,
            reserved,
            committed: 0,
        })
    }

    /// Where it begins. Nothing moves as it grows.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Makes the first `bytes` usable; false when the system refuses, or it can never hold so much.
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        if bytes <= self.committed {
            return true;
        }
        let wanted = bytes.next_multiple_of(STEP).min(self.reserved);
        // SAFETY: behind what is committed, inside the reservation, whole pages.
        let grown = bytes <= wanted
            && unsafe { memory::commit(self.start.add(self.committed), wanted - self.committed) };
        if grown {
            self.committed = wanted;
        }
        grown
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        // SAFETY: reserved by `new`; the owner uses it no more.
        unsafe { memory::unmap(self.start, self.reserved) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_grows_to_what_was_reserved_and_no_further() {
        let mut memory = Growing::new(STEP + 1).unwrap();
        for bytes in [0, 1, STEP, STEP + 1, STEP + 4096, 1] {
            assert!(memory.grow_to(bytes), "{bytes}");
            if bytes > 0 {
                // SAFETY: `grow_to` made these bytes usable, and the memory is this test's alone.
                unsafe { memory.start().add(bytes - 1).write(1) };
            }
        }
        assert!(!memory.grow_to(STEP + 4097));
        assert!(Growing::new(usize::MAX).is_none());
    }
}
