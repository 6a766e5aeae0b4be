//! What a mutator of the precise heap has to itself: its allocation buffer, poll word and roots.
//!
//! The record lies at a fixed address as long as the mutator is attached, and its first fields are at published
//! offsets, so that compiled code may use them ([`offsets`]).
//!
//! # Invariants
//! - The owner touches the record while it is inside the gate; the collector while the world is stopped. The poll word
//!   is written by the stopper at any time. So nobody has an exclusive reference to a record that is attached: what
//!   changes is in cells and atomics.
//! - Slots of frames and locals hold wide values that are valid at every poll and allocation. So do those that the
//!   embedder's [`RootVisitor`] finds, each in the format in which it is visited.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::{Cell, UnsafeCell};
use core::ptr::{self, NonNull};

use gleaner_base::sync::{AtomicU32, Ordering, model_size};
use gleaner_mem::Address;
use gleaner_mem::root::Root;
use gleaner_mem::slot::Value;
use gleaner_mem::spine::Pieces;
use gleaner_mem::traced::Visitor;
use gleaner_os::memory;
use gleaner_spaces::precise::arraylets::{ArrayletBuffer, Contents};
use gleaner_spaces::precise::bump::LocalBuffer;

use super::arrays::ArrayCounts;
use super::checks::Last;
use super::in_place::state::Blocks;
use super::stop::collecting::INTERRUPT;
use super::stop::handshake::{Partner, Post};
use super::stop::whereabouts::Whereabouts;
use super::tally::Tally;
use super::zeroing::Zeroed;

/// A frame of a shadow stack: `count` values follow it in memory.
#[derive(Debug)]
#[repr(C)]
pub struct Frame {
    /// The frame of the caller, or null.
    pub previous: *mut Frame,
    /// How many values follow.
    pub count: usize,
}

impl Frame {
    /// What `count` is once the frame was left.
    pub const LEFT: usize = usize::MAX;

    /// The first value.
    pub fn values(frame: *mut Frame) -> Address {
        Address::of(frame).add(size_of::<Frame>())
    }
}

/// Where compiled code was left: written by it on its way out, before it calls what may poll. All 0 when no compiled
/// code is on the stack. The collector only hands it to the embedder's [`RootVisitor`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Anchor {
    /// The frame pointer.
    pub frame_pointer: usize,
    /// Where execution will go on, which is what a stack map is looked up by.
    pub program_counter: usize,
    /// The stack pointer.
    pub stack_pointer: usize,
}

/// A function of the embedder that knows a compiler's stack maps: `function(data, record, visitor)` visits each root in
/// the compiled frames of a mutator: slots of 8 bytes, slots in the heap's format, and bases with what was derived from
/// them.
///
/// It runs while the world is stopped, several times in a collection, and on several threads at once, each with another
/// mutator. It keeps what [`traced`](gleaner_mem::traced) asks of trace functions: it allocates nothing, takes no lock
/// that a stopped thread may hold, does not look at what slots refer to, and visits the same slots each time.
#[derive(Clone, Copy, Debug)]
pub struct RootVisitor {
    /// The function.
    pub function: unsafe extern "C" fn(*mut (), *const Mutator, *mut Visitor),
    /// What it is given first. Whatever it leads to outlives the heap.
    pub data: *mut (),
}

/// Where a heap has its visitor. Written by the holder of `collecting`, read in stopped worlds.
#[derive(Debug, Default)]
pub struct RootVisitorPlace(UnsafeCell<Option<RootVisitor>>);

impl RootVisitorPlace {
    /// Sets the visitor.
    ///
    /// # Safety
    /// The caller holds `collecting`, and the function keeps what [`RootVisitor`] asks.
    pub unsafe fn set(&self, visitor: Option<RootVisitor>) {
        // SAFETY: the caller holds `collecting`, as asked, which a collection that reads the visitor holds, too.
        unsafe { *self.0.get() = visitor };
    }
}

/// The record of one mutator. Cells are the owner's and the collector's in turn (see the invariants).
#[derive(Debug)]
#[repr(C)]
pub struct Mutator {
    /// The TLAB: cursor and limit.
    pub tlab: LocalBuffer,
    /// Not 0 when the mutator is to call `poll`.
    pub poll: AtomicU32,
    /// Bytes of a slot: 8, or 4 where references are compressed.
    pub slot_bytes: u32,
    /// What compressed references count from.
    pub base: Address,
    /// The card of address a is at this plus a / 512.
    pub cards: usize,
    /// The frame of the function that runs, or null.
    pub frames: Cell<*mut Frame>,
    /// Where compiled code was left.
    pub anchor: Cell<Anchor>,
    /// For the embedder's own use.
    pub embedder: Cell<*mut ()>,
    /// Not 0 when code that allocates in the buffer zeroes each object.
    pub zeroes: Cell<u32>,
    /// How many windows of the C interface show elements of arrays. Nothing may collect meanwhile.
    pub windows: Cell<u32>,
    /// How arrays are cut.
    pub pieces: Pieces,
    /// Larger arrays are not allocated in the buffer by the code that is inlined: the object has more bytes.
    pub whole_bytes: usize,
    /// The number of this mutator, which no other of the heap has or had.
    pub number: u32,
    /// Where it takes arraylets, of references and of numbers.
    pub(super) arraylets: [ArrayletBuffer; 2],
    /// Arraylets that are about to be used, of references and of numbers, and whether each reads as zero.
    stock: UnsafeCell<[Vec<(Address, bool)>; 2]>,
    /// What it did about arrays in pieces.
    pub(super) array_counts: Cell<ArrayCounts>,
    /// How many arraylets that it used last had to be zero, one after the other.
    pub(super) zeros_in_a_row: Cell<u32>,
    /// Where it gets pieces to allocate in, where new objects lie in the old space.
    pub(super) blocks: Blocks,
    /// Where the buffer ends; its limit may be less.
    pub(super) tlab_end: Cell<Address>,
    /// What this mutator zeroed since the last collection.
    pub(super) zeroed: Cell<Zeroed>,
    /// What `allocated_bytes` was at the last collection.
    pub(super) allocated_before: Cell<u64>,
    /// The visitor of what lies behind the anchor; `None` once the roots are forgotten. It is the heap's, and outlives
    /// the record.
    root_visitor: Cell<Option<NonNull<RootVisitorPlace>>>,
    /// Values of the safe interface, from the first; the collector reads those below `free_local`.
    locals: NonNull<Value>,
    /// The first that is not in use.
    pub free_local: Cell<Address>,
    /// Where they end (option `locals`).
    pub locals_end: Address,
    /// For the door's own use.
    pub door: Cell<*mut ()>,
    /// Allocations until the next collection under `stress`.
    pub stress_left: Cell<u32>,
    /// Bytes of the buffers that were taken, without what was given back.
    pub allocated_bytes: Cell<u64>,
    /// Under `quarantine`, what it allocated last.
    pub(super) last: Cell<Last>,
    /// What it does with arrays, where a report is made.
    tally: Option<Box<UnsafeCell<Tally>>>,
    /// Where it is, for the thread that waits for it.
    pub whereabouts: Whereabouts,
    /// Where it finds the note of a handshake.
    post: Post,
    /// What `allocated_bytes` was when this mutator last told how much it has allocated.
    told_bytes: Cell<u64>,
}

/// Offsets of the fields that compiled code uses, from the start of the record. They change only with
/// [`header::VERSION`](gleaner_mem::header::VERSION).
pub mod offsets {
    use super::Mutator;
    /// The allocation cursor, 8 bytes.
    pub const CURSOR: usize = core::mem::offset_of!(Mutator, tlab.cursor);
    /// The allocation limit, 8 bytes.
    pub const LIMIT: usize = core::mem::offset_of!(Mutator, tlab.limit);
    /// The poll word, 4 bytes.
    pub const POLL: usize = core::mem::offset_of!(Mutator, poll);
    /// The bytes of a slot, 4 bytes.
    pub const SLOT_BYTES: usize = core::mem::offset_of!(Mutator, slot_bytes);
    /// The base of compressed references, 8 bytes.
    pub const BASE: usize = core::mem::offset_of!(Mutator, base);
    /// The biased start of the card table, 8 bytes.
    pub const CARDS: usize = core::mem::offset_of!(Mutator, cards);
    /// The newest frame of the shadow stack, 8 bytes.
    pub const FRAMES: usize = core::mem::offset_of!(Mutator, frames);
    /// The anchor: frame pointer, program counter, stack pointer, 8 bytes each.
    pub const ANCHOR: usize = core::mem::offset_of!(Mutator, anchor);
    /// The embedder's own word, 8 bytes.
    pub const EMBEDDER: usize = core::mem::offset_of!(Mutator, embedder);
    /// Whether allocation zeroes, 4 bytes.
    pub const ZEROES: usize = core::mem::offset_of!(Mutator, zeroes);
    /// How many windows are open, 4 bytes.
    pub const WINDOWS: usize = core::mem::offset_of!(Mutator, windows);
    /// How many bytes of an array lie in its spine, 8 bytes.
    pub const FIRST_N: usize = core::mem::offset_of!(Mutator, pieces.first_n);
    /// The logarithm of an arraylet's bytes, 4 bytes.
    pub const ARRAYLET_SHIFT: usize = core::mem::offset_of!(Mutator, pieces.arraylet_shift);
    /// The logarithm of the bytes of a spine's pointers, 4 bytes. Not in guard mode, where compiled code reads no pointer:
    /// two of the bytes are `fenced`.
    pub const POINTER_SHIFT: usize = core::mem::offset_of!(Mutator, pieces.pointer_shift);
    /// What a spine's pointers of 4 bytes count from, 8 bytes; null for wide ones.
    pub const POINTER_BASE: usize = core::mem::offset_of!(Mutator, pieces.base);
    /// Larger arrays are not allocated by inlined code, 8 bytes.
    pub const WHOLE_BYTES: usize = core::mem::offset_of!(Mutator, whole_bytes);
}

/// In a model atomics have other sizes.
const PUBLISHED: bool = model_size(1, 0) == 1;
const _: () = assert!(offsets::CURSOR == 0 && offsets::LIMIT == 8 && offsets::POLL == 16);
const _: () =
    assert!(!PUBLISHED || offsets::BASE == 24 && offsets::CARDS == 32 && offsets::FRAMES == 40);
const _: () = assert!(
    !PUBLISHED || offsets::ANCHOR == 48 && offsets::EMBEDDER == 72 && offsets::ZEROES == 80
);
const _: () = assert!(!PUBLISHED || offsets::WINDOWS == 84 && offsets::FIRST_N == 88);
const _: () = assert!(
    !PUBLISHED
        || offsets::ARRAYLET_SHIFT == 96
            && offsets::POINTER_SHIFT == 100
            && offsets::POINTER_BASE == 104
            && offsets::WHOLE_BYTES == 120
);

impl Mutator {
    /// A record without roots; `None` when the system gives no memory for locals.
    pub fn new(
        number: u32,
        slot_bytes: u32,
        base: Address,
        cards: usize,
        (pieces, whole_bytes): (Pieces, usize),
        (stress, most_locals): (u32, u32),
        root_visitor: NonNull<RootVisitorPlace>,
    ) -> Option<Mutator> {
        let locals_bytes = most_locals as usize * size_of::<Value>();
        let locals: NonNull<Value> = memory::map(locals_bytes)?.cast();
        Some(Mutator {
            tlab: LocalBuffer::default(),
            poll: AtomicU32::new(0),
            slot_bytes,
            base,
            cards,
            frames: Cell::new(ptr::null_mut()),
            anchor: Cell::new(Anchor::default()),
            embedder: Cell::new(ptr::null_mut()),
            root_visitor: Cell::new(Some(root_visitor)),
            locals,
            free_local: Cell::new(Address::of(locals.as_ptr())),
            locals_end: Address::of(locals.as_ptr()).add(locals_bytes),
            door: Cell::new(ptr::null_mut()),
            zeroes: Cell::new(1),
            windows: Cell::new(0),
            pieces,
            whole_bytes,
            arraylets: Default::default(),
            stock: UnsafeCell::default(),
            array_counts: Cell::default(),
            zeros_in_a_row: Cell::default(),
            number,
            blocks: Blocks::default(),
            tlab_end: Cell::new(Address::NULL),
            zeroed: Cell::new(Zeroed::default()),
            allocated_before: Cell::new(0),
            stress_left: Cell::new(stress),
            allocated_bytes: Cell::new(0),
            last: Cell::new(Last::default()),
            tally: None,
            whereabouts: Whereabouts::of_calling_thread(),
            post: Post::new(),
            told_bytes: Cell::new(0),
        })
    }

    /// What takes part in handshakes.
    pub(super) fn partner(&self) -> Partner<'_> {
        Partner {
            poll: &self.poll,
            whereabouts: &self.whereabouts,
            post: &self.post,
            mutator: ptr::from_ref(self).cast(),
        }
    }

    /// Any thread: the mutator is to be interrupted at its next poll.
    pub fn request_interrupt(&self) {
        // Relaxed: what the handler looks at, the embedder orders.
        self.poll.fetch_or(INTERRUPT, Ordering::Relaxed);
    }

    /// The owner: whether an interrupt was requested, which is delivered then.
    pub fn take_interrupt(&self) -> bool {
        let is_requested = |poll| poll & INTERRUPT != 0;
        is_requested(self.poll.load(Ordering::Relaxed))
            && is_requested(self.poll.fetch_and(!INTERRUPT, Ordering::Relaxed))
    }

    /// Bytes that are left of the buffer.
    #[inline(always)]
    pub fn tlab_left(&self) -> usize {
        self.tlab_end.get().offset_from(self.tlab.cursor.get())
    }

    /// Fills what is left of the buffer and gives it up.
    ///
    /// # Safety
    /// The buffer is the calling thread's, or its owner is stopped.
    pub(super) unsafe fn retire_tlab(&self) {
        let used = self.allocated_bytes.get() - self.tlab_left() as u64;
        self.allocated_bytes.set(used);
        self.tlab.limit.set(self.tlab_end.get());
        // SAFETY: the buffer is the calling thread's, or its owner is stopped, as asked.
        unsafe { self.tlab.retire() };
        self.tlab_end.set(Address::NULL);
    }

    /// Forgets its chunks of arraylets and the stock: nothing points at what is in it. Not with each TLAB, nor for a walk:
    /// what is left of a chunk is found again behind the next collection alone.
    pub(super) fn retire_arraylets(&self) {
        self.arraylets.iter().for_each(ArrayletBuffer::retire);
        for contents in [Contents::References, Contents::Primitives] {
            self.with_stock(contents, Vec::clear);
        }
    }

    /// Counts what this mutator does about arrays in pieces.
    pub fn count_arrays(&self, count: impl FnOnce(&mut ArrayCounts)) {
        let mut counts = self.array_counts.get();
        count(&mut counts);
        self.array_counts.set(counts);
    }

    /// Before anybody else knows the record: it counts what it does with arrays, if there is a tally.
    pub(super) fn set_tally(&mut self, tally: Option<Tally>) {
        self.tally = tally.map(|tally| Box::new(UnsafeCell::new(tally)));
    }

    /// Lends the tally, if there is one; `note` does not come here again.
    pub fn tally(&self, note: impl FnOnce(&mut Tally)) {
        if let Some(tally) = &self.tally {
            // SAFETY: the tally is the owner's, or it is stopped (see the invariants), and `note` has the only reference.
            note(unsafe { &mut *tally.get() });
        }
    }

    /// Whether this mutator counts what it does with arrays.
    #[inline(always)]
    pub fn has_tally(&self) -> bool {
        self.tally.is_some()
    }

    /// Bytes of the buffers that were taken since this was last asked.
    pub(super) fn newly_allocated(&self) -> u64 {
        let allocated = self.allocated_bytes.get();
        allocated.saturating_sub(self.told_bytes.replace(allocated))
    }

    /// Lends the stock of arraylets; `body` does not come here again.
    pub(super) fn with_stock<R>(
        &self,
        contents: Contents,
        body: impl FnOnce(&mut Vec<(Address, bool)>) -> R,
    ) -> R {
        // SAFETY: the stock is the owner's alone, or it is stopped, and `body` has the only reference.
        body(unsafe { &mut (&mut *self.stock.get())[contents as usize] })
    }

    /// Notes that bytes of a buffer were taken, or of an object that has none.
    pub(super) fn note_allocated(&self, bytes: usize) {
        self.allocated_bytes
            .set(self.allocated_bytes.get() + bytes as u64);
    }

    /// Counts what this mutator did about zeroing. `note` does not come here again.
    #[inline(always)]
    pub(super) fn note_zeroed(&self, note: impl FnOnce(&mut Zeroed)) {
        // SAFETY: the calling thread alone touches the cell now (see the invariants), and `note` has the only
        // reference.
        note(unsafe { &mut *self.zeroed.as_ptr() });
    }

    /// The slot of the first local.
    pub fn first_local(&self) -> Address {
        Address::of(self.locals.as_ptr())
    }

    /// The mutator has no roots from now on: its stack may be gone, and so may the frames on it.
    pub(super) fn forget_roots(&self) {
        self.frames.set(ptr::null_mut());
        self.anchor.set(Anchor::default());
        self.root_visitor.set(None);
        self.free_local.set(self.first_local());
    }

    /// Visits each root.
    ///
    /// # Safety
    /// The mutator is stopped, or it is the caller; and nobody sets the heap's root visitor meanwhile.
    pub unsafe fn visit_roots(&self, mut visit: impl FnMut(Root<'_>)) {
        let mut local = self.first_local();
        while local < self.free_local.get() {
            visit(Root::Value(local));
            local = local.add(size_of::<Value>());
        }
        let mut frame = self.frames.get();
        while !frame.is_null() {
            // SAFETY: the embedder's frames are linked while their functions run (contract of `frames`).
            let (count, previous) = unsafe { ((*frame).count, (*frame).previous) };
            assert!(
                count != Frame::LEFT,
                "the shadow stack has a frame that was left, at {frame:?}: frames were not left in the reverse order in \
                 which they were entered"
            );
            for index in 0..count {
                let slot = Frame::values(frame).add(index * size_of::<Value>());
                visit(Root::Value(slot));
            }
            frame = previous;
        }
        let Some(place) = self.root_visitor.get() else {
            return;
        };
        // SAFETY: the heap outlives its mutators, and nobody sets the visitor meanwhile, as asked.
        if let Some(RootVisitor { function, data }) = unsafe { *place.as_ref().0.get() } {
            // SAFETY: the function keeps what [`RootVisitor`] asks, and what `data` leads to outlives the heap.
            Visitor::with_roots(visit, |visitor| unsafe { function(data, self, visitor) });
        }
    }
}

impl Drop for Mutator {
    fn drop(&mut self) {
        let bytes = self.locals_end.offset_from(self.first_local());
        // SAFETY: `new` mapped so many bytes, and nobody uses the mutator any more.
        unsafe { memory::unmap(self.locals.cast(), bytes) };
    }
}
