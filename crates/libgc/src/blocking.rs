//! Blocking regions and active sections (`GC_do_blocking`, `GC_call_with_gc_active`), and calls with the lock held.
//!
//! A thread in a blocking region is not stopped: its stack is scanned from where it entered, and it comes back through
//! the allocator lock, which a collection holds. Meanwhile its thread word makes every allocation take the slow path,
//! which notices if the region was left by `longjmp` or an exception: inside, the thread may not use the heap.

use core::ffi::c_void;

use gleaner_mem::Address;
use gleaner_os::threads;
use gleaner_os::threads::SavedRegisters;
use gleaner_plans::mutator::{ActiveSection, Mutator, SLOW};
use gleaner_plans::stop::signal::here;

use crate::state::{LOCK, WORLD, heap, start};

/// `GC_fn_type`.
pub type Function = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// As in gc.h.
///
/// # Safety
/// `function` must be callable with `argument` and leave the heap alone.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C-unwind" fn GC_do_blocking(
    function: Function,
    argument: *mut c_void,
) -> *mut c_void {
    start();
    let record = Mutator::current();
    // libgc finds the argument on the stack, too.
    let mut registers = SavedRegisters::keeping(argument as usize);
    let frame = Address::new(registers.save());
    if !record.is_null() {
        crate::registration::check_regions();
        enter_blocking(record, frame);
    }
    // SAFETY: the caller vouches for the function; this frame holds no guard.
    let result = unsafe { function(argument) };
    if !record.is_null() {
        leave_blocking(record);
    }
    registers.address();
    result
}

fn enter_blocking(record: *mut Mutator, at: Address) {
    LOCK.lock();
    threads::set_thread_word(record as usize | SLOW);
    // SAFETY: the calling thread's own record, under the lock.
    unsafe { (*record).blocked_at = at };
    LOCK.unlock();
}

fn leave_blocking(record: *mut Mutator) {
    LOCK.lock(); // Waits for the end of a collection.
    // SAFETY: the calling thread's own record, under the lock.
    unsafe {
        (*record).blocked_at = Address::NULL;
        forget_stale_sections(&mut *record, here());
    }
    crate::registration::reenter(heap(), record);
    LOCK.unlock();
    // In the region the thread got no signal; if it was told to hold meanwhile, it holds here.
    // SAFETY: as above; the station is made for this.
    unsafe {
        if (*record).station.is_on_hold() {
            WORLD.stop_here(&(*record).station, here().word());
        }
    }
}

/// As in gc.h.
///
/// # Safety
/// `function` must be callable with `argument`.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C-unwind" fn GC_call_with_gc_active(
    function: Function,
    argument: *mut c_void,
) -> *mut c_void {
    start();
    let record = Mutator::current();
    crate::registration::check_regions();
    // SAFETY: the calling thread's own record.
    if record.is_null() || unsafe { !(*record).is_blocked() } {
        widen_stack(record);
        // SAFETY: the caller vouches for the function; this frame holds no guard.
        return unsafe { function(argument) };
    }
    let mark = 0usize;
    let frame = Address::of(&raw const mark);
    LOCK.lock(); // Waits for the end of a collection.
    // SAFETY: the calling thread's own record, under the lock.
    let blocked_at = unsafe {
        let thread = &mut *record;
        let blocked_at = core::mem::replace(&mut thread.blocked_at, Address::NULL);
        thread.active.push(ActiveSection { frame, blocked_at });
        blocked_at
    };
    crate::registration::reenter(heap(), record);
    LOCK.unlock();
    // SAFETY: the caller vouches for the function; this frame holds no guard.
    let result = unsafe { function(argument) };
    LOCK.lock();
    threads::set_thread_word(record as usize | SLOW);
    // SAFETY: as above. Newer sections than ours were left without returning.
    unsafe {
        let thread = &mut *record;
        while thread
            .active
            .last()
            .is_some_and(|section| section.frame <= frame)
        {
            thread.active.pop();
        }
        thread.blocked_at = blocked_at;
    }
    LOCK.unlock();
    core::hint::black_box(&mark);
    result
}

/// A thread that calls from frames above its registered stack base has more stack than we knew.
fn widen_stack(record: *mut Mutator) {
    let frame = here();
    if record.is_null() {
        return;
    }
    // SAFETY: the calling thread's own record.
    let base = unsafe { (*record).stack_base };
    if base < frame && threads::stack_top() > frame.word() {
        LOCK.lock();
        // SAFETY: as above, under the lock.
        unsafe { (*record).stack_base = Address::new(threads::stack_top()) };
        LOCK.unlock();
    }
}

/// Forgets regions and sections whose frames are gone. Called when the thread uses the heap, which it may not do in a
/// blocking region: so it is in none any more, whatever the depth of its stack.
#[cold]
pub fn leave_stale_regions(record: *mut Mutator) {
    let frame = here();
    LOCK.lock();
    // SAFETY: the calling thread's own record, under the lock.
    let left = unsafe {
        let thread = &mut *record;
        thread.blocked_at = Address::NULL;
        forget_stale_sections(thread, frame);
        !thread.is_blocked()
    };
    if left {
        crate::registration::reenter(heap(), record);
    }
    LOCK.unlock();
}

/// Takes away the sections whose frames lie below `frame`; the thread is then in the blocking region around the last
/// of them, if that region was not left as well.
fn forget_stale_sections(thread: &mut Mutator, frame: Address) {
    while let Some(section) = thread.active.last().copied()
        && section.frame < frame
    {
        thread.active.pop();
        thread.blocked_at = if section.blocked_at >= frame {
            section.blocked_at
        } else {
            Address::NULL
        };
    }
    if thread.is_blocked() {
        threads::set_thread_word(core::ptr::from_mut(thread) as usize | SLOW);
    }
}

/// As in gc.h.
///
/// # Safety
/// `function` must be callable with `argument`, and must not allocate.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_call_with_alloc_lock(
    function: Function,
    argument: *mut c_void,
) -> *mut c_void {
    start();
    LOCK.lock();
    // SAFETY: the caller vouches for the function.
    let result = unsafe { function(argument) };
    LOCK.unlock();
    result
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_alloc_lock() {
    start();
    LOCK.lock();
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_alloc_unlock() {
    LOCK.unlock();
}
