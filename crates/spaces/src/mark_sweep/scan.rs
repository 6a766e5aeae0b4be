//! Scanning: from a mark-stack entry to the objects it refers to.
//!
//! An entry is an address and a descriptor in libgc's format (`gc_mark.h`): a length to scan conservatively, a bitmap,
//! a client's mark procedure, or a reference to the descriptor in the object. A word is a candidate if it lies in the
//! heap's span; `BlockTable::resolve` finds the object, and an interior pointer counts if the rule for its source says
//! so: always from stacks and registers, otherwise under `all_interior_pointers` or for registered displacements.
//!
//! Greying is a relaxed check and a plain store of the mark byte; two markers may both push an object, which costs
//! time but is harmless (I4). Markers run in the stopped world, or beside the program while the collecting thread holds the
//! allocator lock, or in a turn of a helper ([`super::beside`]). Either way no memory goes away that an entry describes, and no
//! block changes that has objects: that is what contracts here mean by a stopped world. Words may change meanwhile, so they are
//! read as atomics, and what is written is found by the next stop.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gleaner_mem::Address;
use gleaner_mem::address::CACHE_LINE;

use super::allocate::cookie;
use super::edge_queue::EdgeQueue;
pub use super::entry::{Entry, FROM_HEAP, FROM_STACK};
use super::entry::{PROC_ENTRIES, read_halves};
use super::lines::LineFilter;
use super::object_descriptors::ObjectDescriptors;
use super::prefetch::{Plain, Policy, Prefetch};
use super::{MARKED, POISON, WHITE};
use crate::mark_sweep::block::{BLOCK_BYTES, BlockTable, RESCAN, Resolved};
use crate::mark_sweep::kinds::descriptor;

/// A client's mark procedure (`GC_mark_proc`): object, top of the mark stack, its limit, environment.
pub type MarkProc =
    unsafe extern "C-unwind" fn(*mut usize, *mut Entry, *mut Entry, usize) -> *mut Entry;

/// The most mark procedures there can be.
pub const MAX_PROCS: usize = 1 << descriptor::LOG_MAX_PROCS;

/// Objects longer than this are scanned in pieces, so that other workers can take the rest. Bytes.
pub(super) const PIECE: usize = 4096;

/// What every marker reads. Written under the allocator lock while no marker runs.
pub struct MarkContext {
    /// Where objects are.
    pub table: BlockTable,
    /// Whether any pointer into an object counts.
    pub all_interior: bool,
    /// `displacements[d]` says whether a pointer `d` bytes into an object counts.
    pub displacements: [bool; BLOCK_BYTES / 2],
    /// The clients' mark procedures.
    pub procs: [Option<MarkProc>; MAX_PROCS],
    /// Whether mark procedures may run on helper threads.
    pub procs_on_helpers: bool,
    /// Whether the world is stopped until everything is marked.
    pub mode: MarkMode,
    /// Whether objects are asked what they refer to, and nothing is greyed ([`super::targets`]).
    pub observes: bool,
    /// Whether free cells hold poison.
    pub poison: bool,
    /// Bit `i` is set if procedure `i` is one of the collector's own, which may run on any thread in any case.
    pub own_procs: u64,
    /// Set when grey objects were dropped because a mark stack was full; their blocks carry `RESCAN`.
    pub overflowed: AtomicBool,
    /// Entries dropped, over the whole collection.
    pub dropped: AtomicUsize,
    /// Set when the client changed marks, or what counts as a reference, outside of a collection: what is marked is not
    /// to be built on.
    pub disturbed: AtomicBool,
    /// What is known of the descriptors that objects bring along.
    pub descriptors: ObjectDescriptors,
}

/// When markers run, and until when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarkMode {
    /// In a stopped world, until everything is marked.
    Whole,
    /// In a stopped world that may go on before everything is marked: then nothing but objects of the heap may be left grey,
    /// so ranges of roots, and what a client's mark procedure pushes, are scanned as they are pushed.
    MayPause,
    /// In a step of a cycle, beside threads of the program, and until its time is over: besides, nothing is read but the
    /// words of objects and the types to which their first words lead. What a client's mark procedure would lead to is looked
    /// at in the next stop.
    Beside,
    /// The same in a turn of a helper, in a program whose steps call the client's mark procedures: what needs one waits for a step.
    BesideSteps,
}

impl MarkMode {
    /// Whether the world may run before everything is marked.
    #[inline(always)]
    pub fn may_pause(self) -> bool {
        self != MarkMode::Whole
    }

    /// Whether it runs.
    #[inline(always)]
    pub fn world_runs(self) -> bool {
        matches!(self, MarkMode::Beside | MarkMode::BesideSteps)
    }

    /// Whether what needs a mark procedure of the client's waits for another phase.
    #[inline(always)]
    pub fn leaves_procs(self) -> bool {
        self == MarkMode::BesideSteps
    }
}

impl MarkContext {
    /// The object that `word` refers to under the rule for interior pointers.
    #[inline(always)]
    pub(super) fn find(&self, word: usize, lax: bool) -> Option<Resolved> {
        let found = self.table.resolve(word)?;
        if found.displacement != 0
            && !lax
            && !self.all_interior
            && !self.is_registered(found.displacement)
        {
            return None;
        }
        Some(found)
    }

    /// The unmarked object that `word` refers to, marked now; nothing if there is none.
    #[inline(always)]
    pub fn grey(&self, word: usize, lax: bool) -> Option<Resolved> {
        let found = self.find(word, lax)?;
        // SAFETY: the mark of a resolved object.
        let mark = unsafe { &*found.mark };
        // Relaxed: two markers may both find it white; both push it (I4).
        if mark.load(Ordering::Relaxed) != WHITE {
            return None;
        }
        mark.store(MARKED, Ordering::Relaxed);
        Some(found)
    }

    /// Whether the mark procedure of a descriptor may run on helper threads.
    #[inline]
    fn may_run_on_helpers(&self, descriptor: usize) -> bool {
        self.procs_on_helpers || self.is_own_proc(descriptor)
    }

    /// Whether the client has mark procedures.
    pub fn has_client_procs(&self) -> bool {
        let mut procs = self.procs.iter().enumerate();
        procs.any(|(index, proc)| proc.is_some() && self.own_procs >> index & 1 == 0)
    }

    /// Whether the mark procedure of a descriptor is one of the collector's own, which read nothing but the object.
    #[inline]
    pub fn is_own_proc(&self, descriptor: usize) -> bool {
        self.own_procs >> ((descriptor >> 2) & (MAX_PROCS - 1)) & 1 != 0
    }

    /// Whether a descriptor names a mark procedure of the client's, which may read any memory.
    #[inline]
    pub fn is_client_proc(&self, descriptor: usize) -> bool {
        descriptor & descriptor::TAGS == descriptor::PROC && !self.is_own_proc(descriptor)
    }

    /// Whether an entry is an object of the heap with the descriptor that its block has.
    pub(super) fn is_object(&self, entry: Entry) -> bool {
        let found = self.table.resolve_checked(entry.start);
        // SAFETY: a resolved object's block.
        found.is_some_and(|found| unsafe {
            found.base.word() == entry.start && (*found.block).descriptor == entry.descriptor
        })
    }

    #[inline]
    fn is_registered(&self, displacement: usize) -> bool {
        self.displacements
            .get(displacement)
            .copied()
            .unwrap_or(false)
    }

    /// Remembers that the grey object at `base` could not be pushed.
    #[cold]
    #[inline(never)]
    pub fn drop_grey(&self, base: Address) {
        let block = self.table.block(self.table.index_of(base));
        // SAFETY: the block of an object of the heap.
        unsafe { (*block).set_flag(RESCAN) };
        // Relaxed: read after the phase has ended.
        self.overflowed.store(true, Ordering::Relaxed);
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// libgc's `GC_mark_and_push`: greys the object at `object` and pushes it above `top`.
    ///
    /// # Safety
    /// `top` and `limit` must be those that a mark procedure was given, or derived from them.
    pub unsafe fn mark_and_push(
        &self,
        object: usize,
        top: *mut Entry,
        limit: *mut Entry,
    ) -> *mut Entry {
        if !self.table.contains(object) {
            return top;
        }
        let found = match self.observes {
            false => self.grey(object, FROM_HEAP),
            true => self.find(object, FROM_HEAP),
        };
        let Some(found) = found else {
            return top;
        };
        // SAFETY: a resolved object's block.
        let descriptor = unsafe { (*found.block).descriptor };
        if descriptor == 0 && !self.observes {
            return top;
        }
        let next = top.wrapping_add(1);
        if next >= limit {
            match self.observes {
                false => self.drop_grey(found.base),
                true => self.miss_target(),
            }
            return top;
        }
        // SAFETY: `next` lies below the limit of the stack.
        unsafe {
            next.write(Entry {
                start: found.base.word(),
                descriptor,
            })
        };
        next
    }
}

/// The private mark stack of one worker and what it needs while scanning.
///
/// [`super::edges`] has the methods of its edge queue.
pub struct Scanner {
    /// Shared, read-only while markers run.
    pub context: *const MarkContext,
    /// Oldest entry.
    pub bottom: *mut Entry,
    /// Next free entry.
    pub top: *mut Entry,
    /// First entry of the stack's memory.
    pub base: *mut Entry,
    /// Behind the last entry that the stack has room for now.
    pub limit: *mut Entry,
    /// Behind the last entry that it can ever have room for.
    pub end: *mut Entry,
    /// What was found and not yet checked, under `prefetch=edges`.
    pub edges: EdgeQueue,
    /// Cache lines to look ahead.
    pub look_ahead: usize,
    /// Objects scanned by this worker in this collection.
    pub scanned: usize,
    /// Bytes of them.
    pub scanned_bytes: usize,
    /// Of them, objects that a step leaves to the next stop.
    pub passed_over: usize,
}

/// What [`Scanner::scan_entry`] did with an entry.
#[derive(PartialEq, Eq)]
pub enum Scanned {
    /// It was scanned.
    Done,
    /// It needs a mark procedure that this worker may not run.
    NeedsLeader,
}

impl Scanner {
    #[inline(always)]
    pub(super) fn context(&self) -> &MarkContext {
        // SAFETY: set up by the collector before any worker runs; the context outlives the collection.
        unsafe { &*self.context }
    }

    /// Entries on the stack.
    #[inline(always)]
    pub fn depth(&self) -> usize {
        (self.top as usize - self.bottom as usize) / size_of::<Entry>()
    }

    /// Takes the newest entry.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Entry> {
        if self.top == self.bottom {
            self.top = self.base;
            self.bottom = self.base;
            return None;
        }
        // SAFETY: the stack is not empty, so the entry below `top` is ours.
        unsafe {
            self.top = self.top.sub(1);
            Some(read_halves(self.top))
        }
    }

    /// Pushes an entry; false if the stack is full.
    #[inline(always)]
    pub fn push(&mut self, entry: Entry) -> bool {
        if self.top == self.limit && !self.grow() {
            return false;
        }
        // SAFETY: `top` is below the limit of the stack, which is committed up to there.
        unsafe {
            self.top.write(entry);
            self.top = self.top.add(1);
        }
        true
    }

    /// Greys what `word` refers to and pushes it if it must be scanned, now or after a while in the edge queue.
    #[inline(always)]
    fn visit<P: Policy>(&mut self, word: usize, lax: bool) {
        if P::OBSERVES {
            self.observe(word, lax);
        } else if P::PREFETCH == Prefetch::Edges {
            if let Some(found) = self.context().find(word, lax) {
                self.enqueue::<P>(found);
            }
        } else {
            self.visit_now(word, lax);
        }
    }

    #[inline(always)]
    fn visit_now(&mut self, word: usize, lax: bool) {
        let Some(found) = self.context().grey(word, lax) else {
            return;
        };
        // SAFETY: a resolved object's block.
        let descriptor = unsafe { (*found.block).descriptor };
        if descriptor != 0
            && !self.push(Entry {
                start: found.base.word(),
                descriptor,
            })
        {
            self.context().drop_grey(found.base);
        }
    }

    /// Greys and pushes at once what `word` refers to under the lax rule, if it is an address of the heap at all.
    pub fn visit_any(&mut self, word: usize) {
        match self.context().table.contains(word) {
            true if self.context().observes => self.observe(word, FROM_STACK),
            true => self.visit_now(word, FROM_STACK),
            false => {}
        }
    }

    /// Visits the candidates among the words of `low..high`, both 8-aligned.
    ///
    /// # Safety
    /// The range must be readable.
    #[inline(always)]
    pub unsafe fn scan_words<P: Policy>(&mut self, low: Address, high: Address, lax: bool) {
        if P::KEEPS_WORDS && lax == FROM_HEAP {
            // SAFETY: `low..high` is readable, as asked.
            unsafe { self.keep_words::<P>(low.word(), high.word()) };
            return;
        }
        let (heap, span) = (self.context().table.heap.word(), self.context().table.span);
        let (mut low, mut high) = (low.word(), high.word());
        let mut held_back = 0;
        if P::PERMUTED {
            while high > low {
                high -= 8;
                // SAFETY: `low..high` is readable, as asked.
                let word = unsafe { Address::new(high).load_shared() };
                if word.wrapping_sub(heap) < span {
                    if P::PREFETCH == Prefetch::OnGrey {
                        P::touch(word);
                    }
                    held_back = word;
                    break;
                }
            }
        }
        while low < high {
            // SAFETY: `low..high` is readable, as asked.
            let word = unsafe { Address::new(low).load_shared() };
            low += 8;
            if word.wrapping_sub(heap) < span {
                if P::PREFETCH == Prefetch::OnGrey {
                    P::touch(word);
                }
                self.visit::<P>(word, lax);
            }
        }
        if P::PERMUTED && held_back != 0 {
            self.visit::<P>(held_back, lax);
        }
    }

    /// Scans what an entry describes.
    ///
    /// # Safety
    /// The entry must describe readable memory of this heap or a root range; the world must be stopped.
    #[inline(always)]
    pub unsafe fn scan_entry<P: Policy>(&mut self, entry: Entry, leader: bool) -> Scanned {
        let Entry { start, descriptor } = entry;
        if descriptor & descriptor::TAGS != descriptor::LENGTH {
            // SAFETY: the entry describes readable memory and the world is stopped, as asked.
            return unsafe { self.scan_described::<P>(entry, leader) };
        }
        // SAFETY: the entry describes readable memory and the world is stopped, as asked.
        unsafe { self.scan_range::<P>(start, descriptor) };
        Scanned::Done
    }

    /// # Safety
    /// The `bytes` bytes from `start` must be readable.
    #[inline(always)]
    unsafe fn scan_range<P: Policy>(&mut self, start: usize, bytes: usize) {
        let mut bytes = bytes;
        self.scanned += 1;
        // What is put off needs room on the stack; a popped entry left some, others may find none.
        if bytes > PIECE
            && self.push(Entry {
                start: start + PIECE,
                descriptor: bytes - PIECE,
            })
        {
            bytes = PIECE;
        }
        self.scanned_bytes += bytes;
        // An element of a typed array may begin within a word; then its words do not begin with lines.
        if self.look_ahead != 0 && bytes > CACHE_LINE && start.is_multiple_of(8) {
            // SAFETY: the `bytes` bytes from `start` are readable, as asked.
            unsafe { self.scan_with_look_ahead::<P>(start, bytes) };
            return;
        }
        // SAFETY: the `bytes` bytes from `start` are readable, as asked.
        unsafe {
            self.scan_words::<P>(
                Address::new(start),
                Address::new(start + (bytes & !7)),
                FROM_HEAP,
            )
        };
    }

    /// Scans line by line, prefetching `look_ahead` lines ahead (ISMM 2000, section 4, second refinement).
    ///
    /// # Safety
    /// As for [`Scanner::scan_range`].
    unsafe fn scan_with_look_ahead<P: Policy>(&mut self, start: usize, bytes: usize) {
        let filter = LineFilter::new(self.context().table.heap.word(), self.context().table.span);
        let ahead = self.look_ahead * CACHE_LINE;
        let end = start + (bytes & !7);
        let mut low = start;
        while low < end {
            let high = (low & !(CACHE_LINE - 1)) + CACHE_LINE;
            if P::PREFETCH != Prefetch::None {
                P::touch(low + ahead);
            }
            // SAFETY: the `bytes` bytes from `start` are readable, as asked.
            unsafe {
                if high - low == CACHE_LINE && high <= end && !P::PERMUTED {
                    self.scan_line::<P>(Address::new(low), filter);
                } else {
                    self.scan_words::<P>(Address::new(low), Address::new(high.min(end)), FROM_HEAP);
                }
            }
            low = high;
        }
    }

    /// Visits the candidates among the words of a cache line. What is one nobody can predict: so all eight words are compared
    /// before there is a branch.
    ///
    /// # Safety
    /// The line must be readable.
    #[inline(always)]
    unsafe fn scan_line<P: Policy>(&mut self, line: Address, filter: LineFilter) {
        // SAFETY: the line is readable, as asked.
        if unsafe { filter.is_passed_over(line) } {
            return;
        }
        if P::KEEPS_WORDS {
            // SAFETY: the line is readable, as asked.
            unsafe { self.keep_words::<P>(line.word(), line.add(CACHE_LINE).word()) };
            return;
        }
        let (heap, span) = (self.context().table.heap.word(), self.context().table.span);
        let mut candidates = 0u32;
        for at in 0..CACHE_LINE / 8 {
            // SAFETY: the line is readable, as asked.
            let word = unsafe { line.add(at * 8).load_shared() };
            candidates |= u32::from(word.wrapping_sub(heap) < span) << at;
        }
        while candidates != 0 {
            let at = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            // SAFETY: the line is readable, as asked.
            let word = unsafe { line.add(at * 8).load_shared() };
            // In a step the program may have written another word meanwhile.
            if word.wrapping_sub(heap) < span {
                if P::PREFETCH == Prefetch::OnGrey {
                    P::touch(word);
                }
                self.visit::<P>(word, FROM_HEAP);
            }
        }
    }

    /// # Safety
    /// As for [`Scanner::scan_entry`].
    #[inline(never)]
    unsafe fn scan_described<P: Policy>(&mut self, entry: Entry, leader: bool) -> Scanned {
        let settles = self.context().mode.may_pause();
        // SAFETY: the entry describes readable memory and the world is stopped, as asked.
        unsafe { self.follow::<P>(entry, leader, settles) }
    }

    /// Scans what has another descriptor than a length. If it `settles`, what a client's mark procedure pushes is settled.
    ///
    /// # Safety
    /// As for [`Scanner::scan_entry`].
    pub(super) unsafe fn follow<P: Policy>(
        &mut self,
        entry: Entry,
        leader: bool,
        settles: bool,
    ) -> Scanned {
        let Entry {
            start,
            mut descriptor,
        } = entry;
        if descriptor & descriptor::TAGS == descriptor::PER_OBJECT {
            // SAFETY: the entry is of an object that brings its descriptor along, readable as asked.
            let Some(found) = (unsafe { self.descriptor_of(start, descriptor) }) else {
                return Scanned::Done;
            };
            descriptor = found;
        }
        if descriptor & descriptor::TAGS != descriptor::LENGTH {
            self.scanned_bytes += self.context().described_bytes(entry, descriptor);
        }
        if self.context().is_client_proc(descriptor) {
            self.context().scan_again(start);
            let mode = self.context().mode;
            if mode.leaves_procs() {
                return Scanned::NeedsLeader;
            }
            if mode.world_runs() {
                self.passed_over += 1;
                return Scanned::Done;
            }
        }
        match descriptor & descriptor::TAGS {
            descriptor::LENGTH => {
                // SAFETY: the entry describes readable memory and the world is stopped, as asked.
                unsafe { self.scan_range::<P>(start, descriptor) };
                Scanned::Done
            }
            descriptor::BITMAP => {
                // SAFETY: the entry describes readable memory and the world is stopped, as asked.
                unsafe { self.scan_bitmap::<P>(start, descriptor & !descriptor::TAGS) };
                Scanned::Done
            }
            descriptor::PROC if leader || self.context().may_run_on_helpers(descriptor) => {
                // SAFETY: the entry describes readable memory and the world is stopped, as asked.
                unsafe { self.call_proc(start, descriptor, settles) };
                Scanned::Done
            }
            descriptor::PROC => Scanned::NeedsLeader,
            // A per-object descriptor that leads to another one describes nothing.
            _ => Scanned::Done,
        }
    }

    /// Whether a word says that it is of a free cell. Where these hold no poison, a program may fill objects with the same.
    pub(super) fn is_poison(&self, word: usize) -> bool {
        word == POISON && self.context().poison
    }

    /// # Safety
    /// As for [`Scanner::scan_entry`].
    unsafe fn scan_bitmap<P: Policy>(&mut self, start: usize, bitmap: usize) {
        let (heap, span) = (self.context().table.heap.word(), self.context().table.span);
        self.scanned += 1;
        let mut bits = bitmap;
        while bits != 0 {
            let index = bits.leading_zeros() as usize;
            bits &= !(1 << (63 - index));
            let place = Address::new(start).add(index * 8);
            if P::KEEPS_WORDS {
                // SAFETY: the client promised that the object has a word here.
                unsafe { self.keep_words::<P>(place.word(), place.word() + 8) };
                continue;
            }
            // SAFETY: the client promised that the object has a word here.
            let word = unsafe { place.load_shared() };
            if word.wrapping_sub(heap) < span {
                if P::PREFETCH == Prefetch::OnGrey {
                    P::touch(word);
                }
                self.visit::<P>(word, FROM_HEAP);
            }
        }
    }

    /// # Safety
    /// As for [`Scanner::scan_entry`].
    #[inline(never)]
    unsafe fn call_proc(&mut self, start: usize, descriptor: usize, settles: bool) {
        let context = self.context();
        let index = (descriptor >> 2) & (MAX_PROCS - 1);
        let environment = descriptor >> (2 + descriptor::LOG_MAX_PROCS);
        let Some(proc) = context.procs[index] else {
            return;
        };
        // SAFETY: the second word of a cell is readable.
        let second = unsafe { Address::new(start).add(8).load_shared() };
        if self.is_poison(second) || second == cookie(Address::new(start)) {
            // A free cell: procedures rely on such cells being cleared behind their first word (`gc_mark.h`).
            return;
        }
        self.scanned += 1;
        while self.room() < PROC_ENTRIES && self.grow() {}
        let depth = self.depth();
        // SAFETY: the client registered this procedure; `top - 1` is the newest entry in libgc's convention, and a
        // popped entry left at least one free. This frame holds no guard.
        let top = unsafe {
            proc(
                start as *mut usize,
                self.top.wrapping_sub(1),
                self.limit,
                environment,
            )
        };
        self.top = top.wrapping_add(1);
        if settles && !self.context().is_own_proc(descriptor) {
            // SAFETY: the procedure pushed what describes readable memory, and the world is stopped, as asked.
            unsafe { self.settle(depth) };
        }
    }

    /// Scans those of the entries above the first `depth` that are not of objects of the heap as their blocks describe
    /// them: a mark procedure may push any memory that is readable in the stop. What they refer to is visited at once.
    ///
    /// # Safety
    /// As for [`Scanner::scan_entry`], of the entries above.
    #[cold]
    #[inline(never)]
    unsafe fn settle(&mut self, depth: usize) {
        let mut at = depth;
        while at < self.depth() {
            // SAFETY: `at` is below the depth of the stack.
            let place = unsafe { self.bottom.add(at) };
            // SAFETY: `place` holds an entry of the stack.
            let entry = unsafe { place.read() };
            if self.context().is_object(entry) {
                at += 1;
                continue;
            }
            if let Some(newest) = self.pop()
                && at < self.depth()
            {
                // SAFETY: `at` is below the depth of the stack still.
                unsafe { place.write(newest) };
            }
            if entry.descriptor & descriptor::TAGS == descriptor::LENGTH {
                let low = Address::new(entry.start);
                let high = low.add(entry.descriptor & !7);
                self.scanned_bytes += entry.descriptor;
                // SAFETY: the entry describes readable memory, as asked.
                unsafe { self.scan_words::<Plain>(low, high, FROM_HEAP) };
            } else {
                // SAFETY: the entry describes readable memory, as asked. What it pushes comes to its turn here.
                unsafe { self.follow::<Plain>(entry, true, false) };
            }
        }
    }

    /// Pushes a root range to be scanned with the rule of the heap; false if it has to be scanned at once, because the stack
    /// is full or the world may run before it is scanned.
    pub(super) fn push_range(&mut self, low: Address, high: Address) -> bool {
        if high <= low {
            return true;
        }
        let entry = Entry {
            start: low.word(),
            descriptor: high.offset_from(low),
        };
        !self.context().mode.may_pause() && self.push(entry)
    }
}
