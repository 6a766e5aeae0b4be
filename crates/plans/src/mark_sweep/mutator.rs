//! Mutators: what the collector knows of each thread that uses the heap.
//!
//! A thread reaches its record through its thread word, which holds the record's address. The top bit is set while the
//! thread must take the slow path: in a blocking region, or when thread-local allocation is off. So one signed
//! comparison on the fast path covers "no record" and "slow".
//!
//! Records are never unmapped while the process lives, because a late suspend signal may still read one; records of
//! threads that ended are used again. All fields are guarded by the allocator lock, except the cache (its thread
//! alone), the station (see `stop::protocol`) and what says otherwise.

use alloc::vec::Vec;

use gleaner_base::contexts::WorldStopped;
use gleaner_mem::Address;
use gleaner_os::threads::{self, ThreadId};
use gleaner_spaces::mark_sweep::cache::Cache;

use crate::mark_sweep::stack_bounds::ProbedStack;
use crate::mark_sweep::stop::protocol::{Station, World};

/// Set in the thread word while the thread must take the slow path.
pub const SLOW: usize = 1 << 63;

/// Frames that use the heap, between two parts of a stack that do not (`GC_call_with_gc_active`). Kept in the record
/// and not on the stack, since the frame may be left by `longjmp` and written over.
#[derive(Clone, Copy, Debug)]
pub struct ActiveSection {
    /// The frame that began the section: newer frames lie below.
    pub frame: Address,
    /// Where the older blocking region was entered: frames above (older) are scanned from here.
    pub blocked_at: Address,
}

/// A second stack that a thread told us of (`GC_register_altstack`).
#[derive(Clone, Copy, Default, Debug)]
pub struct AltStack {
    /// Lowest address of the thread's normal stack.
    pub normal_low: Address,
    /// Lowest address of the alternate stack.
    pub low: Address,
    /// Bytes of the alternate stack.
    pub bytes: usize,
}

/// One thread.
#[repr(C)]
pub struct Mutator {
    /// Free lists; first, so that the fast path adds nothing to the record's address.
    pub cache: Cache,
    /// Words by which the thread is stopped.
    pub station: Station,
    /// The world that the thread belongs to.
    pub world: *const World,
    /// Kernel's number of the thread.
    pub tid: ThreadId,
    /// The C library's number of the thread.
    pub pthread: usize,
    /// Cold end of the stack.
    pub stack_base: Address,
    /// Where the thread entered a blocking region; null while it is active.
    pub blocked_at: Address,
    /// Sections of frames behind blocking regions, the newest last.
    pub active: Vec<ActiveSection>,
    /// Alternate stack.
    pub alt_stack: AltStack,
    /// What is known of the stack's memory.
    pub probed: ProbedStack,
    /// Whether the thread was stopped on a stack that is not known, and the program has named none of its stacks since.
    pub shows_unknown: bool,
    /// Whether the client registered the thread by itself.
    pub explicit: bool,
    /// Whether the thread is detached: it will not be joined.
    pub detached: bool,
    /// Whether the record stands for a thread.
    pub in_use: bool,
    /// Whether the kernel says that the thread has ended without unregistering.
    pub gone: bool,
    /// Frame that runs finalizers on this thread now, so that none is run inside; null if none does.
    pub finalizer_frame: Address,
    /// Next record of the list.
    pub next: *mut Mutator,
}

impl Mutator {
    /// The record of the calling thread, whether or not it must take the slow path; null if it has none.
    #[inline(always)]
    pub fn current() -> *mut Mutator {
        (threads::thread_word() & !SLOW) as *mut Mutator
    }

    /// The record of the calling thread if it may use the fast path, else null.
    #[inline(always)]
    pub fn current_fast() -> *mut Mutator {
        let word = threads::thread_word() as isize;
        if word > 0 {
            word as *mut Mutator
        } else {
            core::ptr::null_mut()
        }
    }

    /// Whether the thread is in a blocking region.
    pub fn is_blocked(&self) -> bool {
        !self.blocked_at.is_null()
    }
}

/// All records of a heap.
pub struct Mutators {
    first: *mut Mutator,
    count: usize,
}

// SAFETY: records are reached under the allocator lock.
unsafe impl Send for Mutators {}

impl Mutators {
    /// No records.
    pub const fn new() -> Mutators {
        Mutators {
            first: core::ptr::null_mut(),
            count: 0,
        }
    }

    /// Whether a thread other than the calling one may run: it is in no blocking region, and has not ended. One that is in
    /// a region leaves it with the allocator lock.
    pub fn others_run(&self) -> bool {
        let own = threads::current_tid();
        self.find(|thread| !thread.gone && thread.tid != own && !thread.is_blocked())
            .is_some()
    }

    /// How many threads may run, as in [`Mutators::others_run`].
    pub fn running(&self) -> usize {
        let mut running = 0;
        self.find(|thread| {
            running += usize::from(!thread.gone && !thread.is_blocked());
            false
        });
        running
    }

    /// How many threads are registered.
    pub fn count(&self) -> usize {
        self.count
    }

    /// A record of the list that stands for no thread.
    pub fn unused(&mut self) -> Option<*mut Mutator> {
        let mut record = self.first;
        while !record.is_null() {
            // SAFETY: records in the list stay mapped.
            unsafe {
                if !(*record).in_use {
                    return Some(record);
                }
                record = (*record).next;
            }
        }
        None
    }

    /// Adds the memory of a new record to the list.
    ///
    /// # Safety
    /// `record` must be memory that is valid for a record as long as the process lives.
    #[cold]
    #[inline(never)] // A record is large, and would be built on the stack of each thread that registers itself.
    pub unsafe fn add(&mut self, record: *mut Mutator) {
        // SAFETY: the memory is valid for a record and stays so, as asked.
        unsafe {
            record.write(Mutator {
                cache: Cache::new(),
                station: Station::new(),
                world: core::ptr::null(),
                tid: ThreadId(0),
                pthread: 0,
                stack_base: Address::NULL,
                blocked_at: Address::NULL,
                active: Vec::new(),
                alt_stack: AltStack::default(),
                probed: ProbedStack::default(),
                shows_unknown: false,
                explicit: false,
                detached: false,
                in_use: false,
                gone: false,
                finalizer_frame: Address::NULL,
                next: self.first,
            });
        }
        self.first = record;
    }

    /// Makes `record` stand for the calling thread.
    ///
    /// # Safety
    /// `record` must come from this list and be unused.
    pub unsafe fn occupy(
        &mut self,
        record: *mut Mutator,
        world: *const World,
        stack_base: Address,
        explicit: bool,
    ) {
        let own = threads::current_tid();
        // The kernel gave this thread the number of one that has ended without unregistering.
        self.for_each(|other| {
            // SAFETY: records in the list stay mapped, and the lock guards these fields.
            unsafe { (*other).gone |= (*other).tid == own };
        });
        // SAFETY: the record comes from this list and is unused, as asked, so no thread has a reference to it.
        let record = unsafe { &mut *record };
        record.world = world;
        record.station = Station::new(); // A hold of the thread before, never answered, is not this thread's.
        record.tid = own;
        record.probed = ProbedStack::default();
        record.shows_unknown = false;
        record.pthread = threads::current_pthread().0;
        record.stack_base = stack_base;
        record.blocked_at = Address::NULL;
        record.active.clear();
        record.alt_stack = AltStack::default();
        record.explicit = explicit;
        record.finalizer_frame = Address::NULL;
        record.detached = false;
        record.gone = false;
        record.in_use = true;
        self.count += 1;
    }

    /// Ends a record's use; its cache must be empty by now.
    ///
    /// # Safety
    /// `record` must come from this list.
    pub unsafe fn vacate(&mut self, record: *mut Mutator) {
        // SAFETY: the record comes from this list, as asked, so it stays mapped.
        unsafe {
            (*record).in_use = false;
            (*record).active.clear();
        }
        self.count -= 1;
    }

    /// The record in use that follows `record`, or the first one after null. Records that others add or vacate in
    /// between do no harm: none is ever taken off the list.
    ///
    /// # Safety
    /// `record` is null, or comes from this list.
    pub unsafe fn after(&self, record: *mut Mutator) -> Option<*mut Mutator> {
        let mut next = if record.is_null() {
            self.first
        } else {
            // SAFETY: the record comes from this list, as asked, so it stays mapped.
            unsafe { (*record).next }
        };
        // SAFETY: records in the list stay mapped.
        while !next.is_null() && unsafe { !(*next).in_use } {
            // SAFETY: records in the list stay mapped.
            next = unsafe { (*next).next };
        }
        (!next.is_null()).then_some(next)
    }

    /// Calls `visit` with each record in use.
    pub fn for_each(&self, mut visit: impl FnMut(*mut Mutator)) {
        let mut record = self.first;
        while !record.is_null() {
            // SAFETY: records in the list stay mapped.
            let (next, in_use) = unsafe { ((*record).next, (*record).in_use) };
            if in_use {
                visit(record);
            }
            record = next;
        }
    }

    /// Calls `visit` with each thread, none of which runs but the calling one and those that are blocked.
    /// Those run outside of the heap, and read and write words of their records; so these are no references.
    pub fn for_each_stopped(&self, _: &WorldStopped<'_>, visit: impl FnMut(*mut Mutator)) {
        self.for_each(visit);
    }

    /// As [`Mutators::for_each`], for a thread that does not hold the lock: a record that comes or goes meanwhile may
    /// be visited or not.
    ///
    /// # Safety
    /// `mutators` must stay mapped, and `visit` must make no reference to a record.
    pub unsafe fn for_each_without_lock(
        mutators: *const Mutators,
        mut visit: impl FnMut(*const Mutator),
    ) {
        // SAFETY: the list stays mapped, as asked. Records stay mapped and are added at its front, complete.
        unsafe {
            let mut record = (&raw const (*mutators).first).read_volatile();
            while !record.is_null() {
                if (&raw const (*record).in_use).read_volatile() {
                    visit(record);
                }
                record = (&raw const (*record).next).read_volatile();
            }
        }
    }

    /// The record in use for which `wanted` holds.
    pub fn find(&self, mut wanted: impl FnMut(&Mutator) -> bool) -> Option<*mut Mutator> {
        let mut found = None;
        self.for_each(|record| {
            // SAFETY: records in the list stay mapped.
            if found.is_none() && wanted(unsafe { &*record }) {
                found = Some(record);
            }
        });
        found
    }
}

impl Default for Mutators {
    fn default() -> Self {
        Mutators::new()
    }
}
