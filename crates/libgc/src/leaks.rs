//! Leak finding (`GC_find_leak`): a collection reports what is unreachable and was never freed.
//!
//! Every collectable kind gets a disclaim procedure, which is asked about each dead object and keeps the first few. For
//! such kinds the space knows which cells are free, so a cell that is merely free is never taken for a leak. What was
//! kept is printed after the collection, without the lock, and then freed; of the others only the sum is printed. Each
//! leak is reported once, and none outlives the collection that found it.
//!
//! The mode must be chosen before the heap starts, as libgc's documentation demands: objects allocated without it
//! cannot be told from free cells. All threads take the locked path then.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

use gleaner_base::events::LineBuffer;
use gleaner_mem::Address;
use gleaner_plans::mark_sweep::Heap;
use gleaner_spaces::mark_sweep::kinds::Kind;

use crate::debug_header::AnyObject;
use crate::message::{die, say, warn, write_error};
use crate::settings::CLIENT;
use crate::state::{guarded, table};
use crate::variables::GC_find_leak;

/// The most leaks that are listed after one collection; the others are counted, and freed at once.
const MOST_LISTED: usize = 64;

#[derive(Clone, Copy)]
struct Found {
    listed: [Address; MOST_LISTED],
    count: usize,
    /// Bytes of those that are not listed.
    more_bytes: usize,
}

impl Found {
    const NOTHING: Found = Found {
        listed: [Address::NULL; MOST_LISTED],
        count: 0,
        more_bytes: 0,
    };
}

struct FoundCell(UnsafeCell<Found>);
// SAFETY: used under the allocator lock.
unsafe impl Sync for FoundCell {}

static FOUND: FoundCell = FoundCell(UnsafeCell::new(Found::NOTHING));

/// Whether the mode was chosen before the start. Set once, before other threads use the heap.
static ARMED: AtomicBool = AtomicBool::new(false);
static WARNED: AtomicBool = AtomicBool::new(false);

/// Whether leaks can be told from free cells; then no thread may use the unlocked path.
pub fn is_armed() -> bool {
    ARMED.load(Ordering::Relaxed)
}

/// Prepares the heap, which is just starting.
pub fn prepare(heap: &mut Heap) {
    if GC_find_leak.get() == 0 {
        return;
    }
    ARMED.store(true, Ordering::Relaxed);
    for number in 0..heap.space.kinds.count() {
        if let Some(kind) = heap.space.kinds.get_mut(number) {
            adapt(kind);
        }
    }
}

/// Makes a kind one whose dead objects are reported, if leaks are looked for.
pub fn adapt(kind: &mut Kind) {
    if is_armed() && !kind.uncollectable && kind.disclaim.is_none() {
        kind.disclaim = Some(note_leak);
        kind.unlocked = false;
    }
}

/// The disclaim procedure: under the lock, in the running world.
unsafe extern "C-unwind" fn note_leak(object: *mut c_void) -> c_int {
    if GC_find_leak.get() == 0 {
        return 0;
    }
    // SAFETY: disclaim procedures are called under the lock.
    let found = unsafe { &mut *FOUND.0.get() };
    let place = found.listed.get_mut(found.count);
    found.count += 1;
    if let Some(place) = place {
        *place = Address::of(object);
        return 1;
    }
    // SAFETY: a resolved object's block.
    let bytes = table()
        .resolve_checked(object as usize)
        .map_or(0, |found| unsafe { (*found.block).bytes });
    found.more_bytes += bytes;
    0
}

/// Lists and frees what the last collection found. Without the lock.
pub fn report() {
    if !is_armed() {
        warn_if_late();
        return;
    }
    // SAFETY: the lock is held: `guarded` takes it.
    let found = guarded(|_| unsafe { core::mem::replace(&mut *FOUND.0.get(), Found::NOTHING) });
    if found.count == 0 {
        return;
    }
    say(format_args!("found {} leaked objects:", found.count));
    for object in found.listed.iter().take(found.count) {
        print_leak(*object);
        let _ = guarded(|heap| heap.map(|heap| heap.space.free(*object)));
    }
    if let Some(more @ 1..) = found.count.checked_sub(MOST_LISTED) {
        say(format_args!(
            "  and {more} more, {} bytes together",
            found.more_bytes
        ));
    }
    if CLIENT.aborts_on_leak.get() != 0 {
        die(format_args!(
            "stopped because of leaked objects (GC_ABORT_ON_LEAK)"
        ));
    }
}

fn print_leak(object: Address) {
    use core::fmt::Write;
    // SAFETY: a resolved object's block; the object is kept until it is freed here.
    let block = table()
        .resolve_checked(object.word())
        .map(|found| unsafe { &*found.block });
    let Some(block) = block else { return };
    let known = AnyObject {
        base: object,
        bytes: block.bytes,
        kind: usize::from(block.kind),
    };
    let mut line = LineBuffer::<512>::new();
    let _ = write!(line, "gleaner:   leaked object {known}");
    let _ = writeln!(line);
    write_error(line.as_bytes());
}

fn warn_if_late() {
    if GC_find_leak.get() != 0 && !WARNED.swap(true, Ordering::Relaxed) {
        warn(
            format_args!("GC_find_leak was set after the heap started: leaks are not found"),
            0,
        );
    }
}
