//! Blocking regions and active sections (`GC_do_blocking`, `GC_call_with_gc_active`), and calls with the lock held.
//!
//! A thread in a blocking region is not stopped: its stack is scanned from where it entered, and it comes back through
//! the allocator lock, which a collection holds. Meanwhile its thread word makes every allocation take the slow path,
//! which notices if the region was left by `longjmp` or an exception: inside, the thread may not use the heap.
//!
//! An active section inside a region makes the thread one that is stopped and scanned; when it ends, the region goes on
//! as before. A section begins only in a region that was not left, which a mark in the region's frame tells.

use core::ffi::c_void;

use gleaner_mem::Address;
use gleaner_os::threads;
use gleaner_os::threads::SavedRegisters;
use gleaner_plans::mark_sweep::mutator::{ActiveSection, Mutator, SLOW};
use gleaner_plans::mark_sweep::stop::signal::here;

use crate::lock::Section;
use crate::records::reenter;
use crate::start::start;
use crate::state::{Locked, Started, WORLD, is_locked};

/// `GC_fn_type`.
pub type Function = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// What `GC_do_blocking` leaves in its frame, where the scan of the thread's stack starts.
#[repr(C)]
struct Region {
    /// `Region::mark_for` the address of this word as long as the region was not left by its own function.
    mark: usize,
    registers: SavedRegisters,
}

impl Region {
    fn mark_for(at: Address) -> usize {
        at.word() ^ 0x5265_6769_6f6e_2101
    }

    /// Whether the region entered at `at` was not left: neither properly, nor by a jump to an older frame, nor by one
    /// after which newer frames were written over it.
    fn is_live(at: Address) -> bool {
        // SAFETY: the address lies in the calling thread's stack, where the region was entered.
        here() < at && unsafe { at.ptr::<usize>().read_volatile() } == Region::mark_for(at)
    }
}

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
    let heap = start();
    let record = Mutator::current();
    if record.is_null() {
        // SAFETY: `function` is callable with `argument`, as asked.
        return unsafe { function(argument) };
    }
    // libgc finds the argument on the stack, too.
    let mut region = Region {
        mark: 0,
        registers: SavedRegisters::keeping(argument as usize),
    };
    region.registers.save();
    let at = Address::of(&raw const region);
    // SAFETY: a word of this frame.
    unsafe { (&raw mut region.mark).write_volatile(Region::mark_for(at)) };
    check_regions(heap);
    let sections = enter_blocking(heap, record, at);
    // SAFETY: `function` is callable with `argument`, as asked; this frame holds no guard.
    let result = unsafe { function(argument) };
    // SAFETY: a word of this frame. The result must be found if the thread is held on its way out.
    unsafe { (&raw mut region.mark).write_volatile(0) };
    region.registers.keep(result as usize);
    leave_blocking(heap, record, sections);
    region.registers.address();
    result
}

/// Returns how many active sections lie around the region.
fn enter_blocking(heap: Started, record: *mut Mutator, at: Address) -> usize {
    let heap = heap.lock();
    threads::set_thread_word(record as usize | SLOW);
    // SAFETY: the calling thread's own record, under the lock.
    let sections = unsafe {
        let thread = &mut *record;
        thread.blocked_at = at;
        thread.active.len()
    };
    crate::idle::state::stir();
    heap.unlock();
    sections
}

fn leave_blocking(heap: Started, record: *mut Mutator, sections: usize) {
    let heap = heap.lock(); // Waits for the end of a collection.
    // SAFETY: the calling thread's own record, under the lock. Sections inside the region were left by a jump.
    unsafe {
        let thread = &mut *record;
        thread.blocked_at = Address::NULL;
        thread.active.truncate(sections);
    }
    reenter(&heap, record);
    heap.unlock();
    stay_if_held(record);
}

/// In a blocking region a thread gets no signal: if it was told to hold meanwhile, it holds here.
fn stay_if_held(record: *mut Mutator) {
    // SAFETY: the calling thread's own record; the station is made for this.
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
    let heap = start();
    let record = Mutator::current();
    // SAFETY: the calling thread's own record; `blocked_at` is written by its thread alone.
    if record.is_null() || !Region::is_live(unsafe { (*record).blocked_at }) {
        check_regions(heap);
        widen_stack(heap, record);
        // SAFETY: `function` is callable with `argument`, as asked; this frame holds no guard.
        return unsafe { function(argument) };
    }
    let mark = 0usize;
    let frame = Address::of(&raw const mark);
    let (sections, blocked_at) = begin_section(heap, record, frame);
    // SAFETY: `function` is callable with `argument`, as asked; this frame holds no guard.
    let result = unsafe { function(argument) };
    end_section(heap, record, sections, blocked_at);
    core::hint::black_box(&mark);
    result
}

/// Returns how many sections lie around the new one, and where the region around it was entered.
fn begin_section(heap: Started, record: *mut Mutator, frame: Address) -> (usize, Address) {
    let heap = heap.lock(); // Waits for the end of a collection.
    // SAFETY: the calling thread's own record, under the lock.
    let outer = unsafe {
        let thread = &mut *record;
        forget_left_sections(thread, frame);
        let blocked_at = core::mem::replace(&mut thread.blocked_at, Address::NULL);
        let sections = thread.active.len();
        thread.active.push(ActiveSection { frame, blocked_at });
        (sections, blocked_at)
    };
    reenter(&heap, record);
    heap.unlock();
    stay_if_held(record);
    outer
}

fn end_section(heap: Started, record: *mut Mutator, sections: usize, blocked_at: Address) {
    let heap = heap.lock();
    threads::set_thread_word(record as usize | SLOW);
    // SAFETY: the calling thread's own record, under the lock. Newer sections than ours were left without returning.
    unsafe {
        let thread = &mut *record;
        thread.active.truncate(sections);
        thread.blocked_at = blocked_at;
    }
    heap.unlock();
}

/// A thread that calls from frames above its registered stack base has more stack than we knew.
fn widen_stack(heap: Started, record: *mut Mutator) {
    let frame = here();
    if record.is_null() {
        return;
    }
    // SAFETY: the calling thread's own record.
    let base = unsafe { (*record).stack_base };
    if base < frame && threads::stack_top() > frame.word() {
        let heap = heap.lock();
        // SAFETY: the calling thread's own record, under the lock.
        unsafe { (*record).stack_base = Address::new(threads::stack_top()) };
        heap.unlock();
    }
}

/// Notices that blocking regions or active sections of the calling thread were left by `longjmp` or an exception.
#[inline]
pub fn check_regions(heap: Started) {
    let record = Mutator::current();
    if record.is_null() || is_locked() {
        return; // Where the lock is held, a region was left already, or the client is about to hear of it.
    }
    // SAFETY: the calling thread's own record.
    let thread = unsafe { &*record };
    if thread.is_blocked() || !thread.active.is_empty() {
        leave_stale_regions(heap, record);
    }
}

/// Forgets regions and sections whose frames are gone. Called when the thread uses the heap, which it may not do in a
/// blocking region: so it is in none any more, whatever the depth of its stack.
#[cold]
fn leave_stale_regions(heap: Started, record: *mut Mutator) {
    let frame = here();
    let heap = heap.lock();
    // SAFETY: the calling thread's own record, under the lock.
    unsafe {
        let thread = &mut *record;
        thread.blocked_at = Address::NULL;
        forget_left_sections(thread, frame);
    }
    reenter(&heap, record);
    heap.unlock();
}

/// Takes away the sections whose frames lie below `frame`: they were left by `longjmp` or an exception.
fn forget_left_sections(thread: &mut Mutator, frame: Address) {
    while thread
        .active
        .last()
        .is_some_and(|section| section.frame < frame)
    {
        thread.active.pop();
    }
}

/// As in gc.h.
///
/// # Safety
/// `function` must be callable with `argument`. It may allocate in a program with one thread, and nothing collects
/// then.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_call_with_alloc_lock(
    function: Function,
    argument: *mut c_void,
) -> *mut c_void {
    let mut heap = start().lock_beside_turn();
    // SAFETY: `function` is callable with `argument`, as asked.
    let result = heap.run_client(|| unsafe { function(argument) });
    heap.unlock_behind_client();
    result
}

/// As in gc.h of the development branch: what only reads holds the lock as well, which nobody shares here.
///
/// # Safety
/// `function` must be callable with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_call_with_reader_lock(
    function: Function,
    argument: *mut c_void,
    _release: core::ffi::c_int,
) -> *mut c_void {
    // SAFETY: `function` is callable with `argument`, as asked.
    unsafe { GC_call_with_alloc_lock(function, argument) }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_alloc_lock() {
    start().lock_beside_turn().leave_to_client(Section::Client);
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_alloc_unlock() {
    // SAFETY: the calling thread holds the lock since `GC_alloc_lock`, in the section that this opened.
    unsafe { Locked::by_contract() }.end_of_client();
}
