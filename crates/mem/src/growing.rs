//! Memory that begins with nothing and is committed from its start as it is used, up to the most it can hold.
//!
//! What is not committed cannot be written, so it is no data to the system, which may limit that (`RLIMIT_DATA`,
//! `vm.overcommit_memory=2`). Its addresses are reserved for the most it can hold; but where addresses are limited
//! (`RLIMIT_AS`) it lies apart from all else and takes them as it grows. Growing calls no allocator. One thread grows it at a
//! time.

use core::ptr::NonNull;

use gleaner_os::memory::{self, Access, NotMapped};

/// Bytes by which it grows.
const STEP: usize = 64 << 10;
/// How many places apart are tried.
const PLACES: usize = 8;

/// The memory. It reads as zero where nothing was written.
#[derive(Debug)]
pub struct Growing {
    start: NonNull<u8>,
    most: usize,
    committed: usize,
    is_reserved: bool,
}

// SAFETY: it owns its memory, and hands out no reference to it.
unsafe impl Send for Growing {}

impl Growing {
    /// At most `bytes`, and none yet; `None` when the system gives no addresses.
    pub fn new(bytes: usize) -> Option<Growing> {
        let most = memory::whole_pages(bytes)?;
        let apart = memory::address_limit().and_then(|_| Growing::apart(most));
        apart.or_else(|| {
            Some(Growing {
                start: memory::reserve(most, memory::page_size())?,
                most,
                committed: 0,
                is_reserved: true,
            })
        })
    }

    /// The same at a place apart, with a first step mapped there: if it can be, the place is free.
    fn apart(most: usize) -> Option<Growing> {
        let first = STEP.min(most);
        for _ in 0..PLACES {
            let start = memory::place_apart(most)?;
            match memory::map_at(start, first, Access::Write) {
                Ok(()) => {
                    return Some(Growing {
                        start,
                        most,
                        committed: first,
                        is_reserved: false,
                    });
                }
                Err(NotMapped::Taken) => {}
                Err(NotMapped::Refused) => break,
            }
        }
        None
    }

    /// Where it begins. Nothing moves as it grows.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Makes the first `bytes` bytes usable; false when the system refuses, or when this can never hold as many.
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        if bytes <= self.committed {
            return true;
        }
        let wanted = bytes.next_multiple_of(STEP).min(self.most);
        let grown = bytes <= wanted && self.commit(wanted - self.committed);
        if grown {
            self.committed = wanted;
        }
        grown
    }

    /// Commits `bytes` more bytes.
    fn commit(&self, bytes: usize) -> bool {
        // SAFETY: not above the most that it can hold.
        let start = unsafe { self.start.add(self.committed) };
        if self.is_reserved {
            // SAFETY: behind what is committed, inside the reservation, whole pages.
            unsafe { memory::commit(start, bytes) }
        } else {
            memory::map_at(start, bytes, Access::Write).is_ok()
        }
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        let bytes = if self.is_reserved {
            self.most
        } else {
            self.committed
        };
        // SAFETY: reserved by `new` or mapped since; the owner uses it no more.
        unsafe { memory::unmap(self.start, bytes) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_grows_to_the_most_it_can_hold_and_no_further() {
        grows(Growing::new(STEP + 1).unwrap());
        grows(Growing::apart(2 * STEP).unwrap());
        assert!(Growing::new(usize::MAX).is_none());
    }

    /// It holds 64 KB and a page at least.
    fn grows(mut memory: Growing) {
        let most = memory.most;
        for bytes in [0, 1, STEP, STEP + 1, most, 1] {
            assert!(memory.grow_to(bytes), "{bytes}");
            if bytes > 0 {
                // SAFETY: `grow_to` made these bytes usable, and the memory is this test's alone.
                unsafe { memory.start().add(bytes - 1).write(1) };
            }
        }
        assert!(!memory.grow_to(most + 1));
    }
}
