//! A thread that uses a heap.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use gleaner_base::options::References;
use gleaner_mem::Address;
use gleaner_mem::slot::Value;
use gleaner_mem::types::TypeTable;
use gleaner_plans::scavenge::Totals;
use gleaner_plans::scavenge::arrays::ArrayCounts;
use gleaner_plans::scavenge::collect::Extent;
use gleaner_plans::scavenge::mutator::Mutator as Record;
use gleaner_plans::scavenge::report::ArrayReport;
use gleaner_plans::scavenge::stop::whereabouts::Passage;
use gleaner_plans::scavenge::walk::Found;

use crate::body::{BodyOfMutator, OutOfMemory, Shared, with_heap};
use crate::heap::Heap;
use crate::local::Local;
use crate::members::{self, Callback, Member, Runs};

/// A thread's use of a heap. A mutator stays on the thread that attached it, and detaches when it is dropped.
///
/// The compiler refuses a mutator on another thread, and one that was dropped:
///
/// ```compile_fail,E0277
/// let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
/// let mut mutator = heap.attach().unwrap();
/// std::thread::scope(|threads| {
///     threads.spawn(|| mutator.collect(true));
/// });
/// ```
/// ```compile_fail,E0382
/// let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
/// let mut mutator = heap.attach().unwrap();
/// drop(mutator);
/// mutator.collect(true);
/// ```
///
/// A mutator keeps its heap alive, even after every [`Heap`] value was dropped. The heap then ends with its last
/// mutator.
pub struct Mutator {
    /// Counted with the member: [`members::remove`] takes both.
    pub(crate) counted: ManuallyDrop<Arc<Shared>>,
    /// What that leads to.
    pub(crate) shared: BodyOfMutator,
    /// What the collector sees of it. The stopper may write its poll word at any time: no exclusive reference to it.
    record: NonNull<Record>,
    pub(crate) compressed: bool,
    /// The number of the heap, which its types have.
    pub(crate) heap_number: u32,
    /// The types of the heap, which has them in one place.
    types: NonNull<TypeTable>,
    /// Where the table of locals begins, and how many bytes it has.
    pub(crate) first_local: Address,
    pub(crate) locals_bytes: usize,
    hash_state: u64,
    /// What this thread knows of it: whether it is inside the gate.
    member: NonNull<Member>,
    /// What it does when it is interrupted.
    pub(crate) on_interrupt: Option<Handler>,
    not_send: PhantomData<*mut ()>,
}

/// What is said where a mutator is detached whose frames the collector would have to look at.
pub(crate) const IN_A_FRAME: &str = "detaching inside an open frame: its values are no roots any more; leave all frames \
                                     first (GLEANER_LEAVE, Mutator::set_frame)";

/// What a mutator does when it is interrupted.
pub(crate) type Handler = Box<dyn FnMut(&mut Mutator)>;

impl fmt::Debug for Mutator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Mutator")
            .field("number", &self.record().number)
            .finish_non_exhaustive()
    }
}

impl Heap {
    /// Makes the calling thread a mutator of this heap. It fails when the system gives no memory for the mutator's
    /// roots.
    ///
    /// It panics if the thread already is a mutator of this heap and outside of [`Mutator::blocking`]: each collection
    /// would wait for the second mutator for ever. A thread with mutators of two heaps uses one inside `blocking` of
    /// the other; otherwise two such threads may wait for each other.
    pub fn attach(&self) -> Result<Mutator, OutOfMemory> {
        members::assert_world_runs(self.shared.number, "attaching");
        assert!(
            members::inside(self.shared.number).is_none(),
            "this thread is a mutator of this heap already, so collections would wait for it for ever: use that mutator, \
             drop it first, or attach inside its blocking region"
        );
        let record: Option<NonNull<Record>> = with_heap!(&self.shared.kind, heap => heap.attach());
        let bytes = size_of::<Record>();
        let record = record.ok_or(OutOfMemory { bytes })?;
        Ok(Mutator::new(&self.shared, record))
    }
}

impl Mutator {
    pub(crate) fn new(shared: &Arc<Shared>, record: NonNull<Record>) -> Mutator {
        shared.mutators.fetch_add(1, Ordering::Relaxed);
        let (member, counted) = members::add(shared, record);
        // SAFETY: just attached.
        let of_plan = unsafe { record.as_ref() };
        Mutator {
            heap_number: shared.number,
            types: with_heap!(&shared.kind, heap => NonNull::from(&heap.model.types)),
            first_local: of_plan.first_local(),
            locals_bytes: of_plan.locals_end.offset_from(of_plan.first_local()),
            compressed: shared.kind.references() == References::Compressed,
            // SAFETY: the mutator has a reference that is counted until it is dropped.
            shared: unsafe { BodyOfMutator::new(&counted) },
            counted,
            hash_state: u64::from(of_plan.number) << 32,
            record,
            member,
            on_interrupt: None,
            not_send: PhantomData,
        }
    }

    fn member(&self) -> &Member {
        // SAFETY: it exists as long as this.
        unsafe { self.member.as_ref() }
    }

    /// The record.
    #[inline(always)]
    pub(crate) fn record(&self) -> &Record {
        // SAFETY: it exists as long as this. The collector changes its cells only while this thread is in one of its
        // calls, and the poll word is an atomic.
        unsafe { self.record.as_ref() }
    }

    /// The types of the heap.
    #[inline(always)]
    pub(crate) fn types(&self) -> &TypeTable {
        // SAFETY: the table is a part of the heap, which stays in place and outlives its mutators.
        unsafe { self.types.as_ref() }
    }

    /// The slot of a local, which is one of this mutator's.
    #[inline(always)]
    pub(crate) fn slot_of<T>(&self, local: Local<'_, T>) -> *mut Value {
        if local.slot.offset_from(self.first_local) >= self.locals_bytes {
            foreign_local();
        }
        local.slot.ptr()
    }

    /// Bytes of a slot.
    #[inline(always)]
    pub(crate) fn slot_bytes(&self) -> usize {
        if self.compressed { 4 } else { 8 }
    }

    /// What a local holds.
    #[inline(always)]
    pub(crate) fn value_of<T>(&self, local: Local<'_, T>) -> Value {
        // SAFETY: a slot of this mutator's table, which nobody else uses while the mutator runs; its scope exists, by
        // its brand.
        unsafe { self.slot_of(local).read() }
    }

    /// Where the record lies.
    #[inline(always)]
    pub(crate) fn record_place(&self) -> NonNull<Record> {
        self.record
    }

    /// The heap of this mutator.
    pub fn heap(&self) -> Heap {
        Heap {
            shared: Arc::clone(&self.counted),
        }
    }

    /// A blocking region begins, or `what` needs one. In one already, it only ends later.
    pub(crate) fn leave(&mut self, what: &str) {
        self.assert_no_window(what);
        let regions = self.member().outside.get();
        self.member().outside.set(regions + 1);
        if regions == 0 {
            self.hide_buffer();
            with_heap!(&self.shared.kind, heap => heap.leave(self.record(), Passage::Region));
        }
    }

    /// A blocking region begins whose end nothing sees to. Panics where this thread has stopped the world.
    pub(crate) fn leave_openly(&mut self) {
        let what = "a blocking region";
        members::assert_world_runs(self.shared.number, what);
        self.leave(what);
    }

    /// A blocking region ends; the outermost goes into the gate again.
    pub(crate) fn enter(&mut self) {
        let regions = self.member().outside.get();
        assert!(
            regions > 0,
            "the end of a blocking region that was not begun"
        );
        if regions == 1 {
            let what = "the end of a blocking region";
            self.member().callback.get().assert_none(what);
            members::assert_world_runs(self.shared.number, what);
            let remedy = "drop the second mutator inside the region";
            members::assert_no_second(self.shared.number, what, remedy);
            with_heap!(&self.shared.kind, heap => heap.enter(self.record(), Passage::Region));
            self.show_buffer();
        }
        self.member().outside.set(regions - 1);
    }

    /// Before the gate is left: nothing fits into the buffer, so that an allocation is refused.
    fn hide_buffer(&mut self) {
        let buffer = &self.record().tlab;
        let limit = buffer.limit.replace(buffer.cursor.get());
        self.member().limit.set(limit);
    }

    /// Inside the gate again: the buffer is what it was, unless a collection took it.
    fn show_buffer(&mut self) {
        let limit = self.member().limit.get();
        let buffer = &self.record().tlab;
        if buffer.cursor.get() != Address::NULL {
            buffer.limit.set(limit);
        }
    }

    /// Panics outside of the gate, where others may collect meanwhile: `what` is not done there.
    #[inline(always)]
    pub(crate) fn assert_inside(&self, what: &str) {
        if !self.member().is_inside() {
            self.refuse(what);
        }
    }

    /// As [`Mutator::assert_inside`], in debug builds: `what` is inlined where it is called.
    #[inline(always)]
    pub(crate) fn debug_assert_inside(&self, what: &str) {
        if cfg!(debug_assertions) {
            self.assert_inside(what);
        }
    }

    /// As [`Mutator::assert_inside`], and panics while a window of the C interface shows elements of an array, which may
    /// move: `what` may collect.
    #[inline(always)]
    pub(crate) fn assert_may_collect(&self, what: &str) {
        self.assert_inside(what);
        self.assert_no_window(what);
    }

    #[inline(always)]
    fn assert_no_window(&self, what: &str) {
        assert!(
            self.record().windows.get() == 0,
            "{what} inside a window, whose elements may move: end it first"
        );
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self, what: &str) -> ! {
        self.member().callback.get().assert_none(what);
        panic!(
            "{what} inside a blocking region, or by a mutator that was detached: collections do not wait for this \
             thread there; end the region first"
        );
    }

    /// Visits every object; see [`Mutator::walk`].
    pub(crate) fn walk_outside(&mut self, visit: &mut dyn FnMut(&Found)) {
        let _runs = Runs::new(self.member(), Callback::Walk);
        with_heap!(&self.shared.kind, heap => heap.walk(self.record(), visit));
    }

    /// Whether interrupts may be requested of this mutator from now on: who polls for it calls its handler.
    pub(crate) fn take_interrupts(&self, takes: bool) {
        members::take_interrupts(self.member(), takes);
    }

    /// Whether frames are open on the shadow stack.
    pub(crate) fn has_frames(&self) -> bool {
        !self.record().frames.get().is_null()
    }

    /// Stops all other mutators and calls `body`, which must not use the heap nor wait for another thread. This begins
    /// with a poll: another thread may collect first.
    pub fn stop_and_call<R>(&mut self, body: impl FnOnce() -> R) -> R {
        self.assert_may_collect("a stop of all mutators");
        let _runs = Runs::new(self.member(), Callback::Stop);
        with_heap!(&self.shared.kind, heap => heap.stop_and_call(self.record(), body))
    }

    /// As [`Mutator::handshake`], with the records of the mutators.
    ///
    /// # Safety
    /// The function only reads the record, which may be that of another thread's mutator.
    pub unsafe fn handshake_raw(&mut self, function: impl Fn(&Record) + Sync) {
        self.assert_may_collect("a handshake");
        let _runs = Runs::new(self.member(), Callback::Stop);
        let serve = |record: &Record| members::serve(record, &function);
        with_heap!(&self.shared.kind, heap => heap.handshake(self.record(), &serve));
    }

    /// Nothing but its drop follows: it is outside of the gate then, without roots.
    pub(crate) fn leave_for_good(&mut self) {
        if self.member().is_inside() {
            self.member().outside.set(1);
            let record = self.record;
            // SAFETY: the heap gave the record, which is not used again but to detach it.
            with_heap!(&self.shared.kind, heap => unsafe { heap.leave_for_good(record) });
        }
    }

    /// Runs `body`, which may block and must not use the heap. Collections go on meanwhile, and do not wait for this
    /// thread. In a scope, [`Scope::blocking`](crate::Scope::blocking) does the same.
    ///
    /// The compiler refuses uses of this mutator in `body`:
    ///
    /// ```compile_fail,E0499
    /// let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
    /// let pair = heap.structure(gleaner::Structure { references: 1, bytes: 8 }).unwrap();
    /// heap.attach().unwrap().scope(|scope| {
    ///     let one = scope.allocate(pair).unwrap();
    ///     scope.blocking(|| scope.write_u64(one, 0, 7));
    /// });
    /// ```
    ///
    /// # Panics
    /// `body` may attach to the same heap again. If that mutator is still attached when the region ends, this panics:
    /// each collection would wait for the second mutator for ever.
    pub fn blocking<R>(&mut self, body: impl FnOnce() -> R) -> R {
        self.outside("a blocking region", body)
    }

    /// A blocking region of `what`.
    fn outside<R>(&mut self, what: &str, body: impl FnOnce() -> R) -> R {
        struct Region<'a>(&'a mut Mutator);
        impl Drop for Region<'_> {
            fn drop(&mut self) {
                let heap = self.0.shared.number;
                // A second panic would end the process: the mutator stays outside, and says so when it is used.
                if !thread::panicking() || members::inside(heap).is_none() {
                    self.0.enter();
                }
            }
        }
        self.leave(what);
        let region = Region(self);
        let result = body();
        drop(region);
        result
    }

    /// What collections have done so far. This is a poll: other threads may collect meanwhile.
    pub fn totals(&mut self) -> Totals {
        let heap = self.heap();
        self.outside("a question for totals", || heap.totals())
    }

    /// What happened to arrays in pieces so far. This is a poll: other threads may collect meanwhile.
    pub fn array_counts(&mut self) -> ArrayCounts {
        self.assert_may_collect("a question for counts");
        with_heap!(&self.shared.kind, heap => heap.array_counts(self.record()))
    }

    /// The report on arrays that option `array-report` asks for; `None` without that option. It collects everything
    /// first, so that the last census shows the present. Objects that are in no root may move or die.
    pub fn array_report(&mut self) -> Option<ArrayReport> {
        self.assert_may_collect("a question for a report");
        with_heap!(&self.shared.kind, heap => {
            if heap.config.options.array_report == 0 {
                return None;
            }
            heap.collect(self.record(), Extent::Full, "a report on arrays");
            heap.array_report(self.record())
        })
    }

    /// The number of bytes that this mutator has allocated.
    pub fn allocated_bytes(&self) -> u64 {
        self.record().allocated_bytes.get() - self.record().tlab_left() as u64
    }

    /// The next number of a sequence that is this mutator's (splitmix64).
    pub(crate) fn next_hash(&mut self) -> u32 {
        self.hash_state = self.hash_state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.hash_state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as u32
    }
}

impl Drop for Mutator {
    fn drop(&mut self) {
        let what = "detaching";
        self.member().callback.get().assert_none(what);
        members::assert_world_runs(self.shared.number, what);
        let checked = with_heap!(&self.shared.kind, heap => heap.checks_use());
        let in_frame = checked && self.has_frames() && !thread::panicking();
        members::take_interrupts(self.member(), false);
        self.leave_for_good();
        let record = self.record;
        // SAFETY: the heap gave the record, and nobody uses it after this.
        with_heap!(&self.shared.kind, heap => unsafe { heap.detach(record) });
        self.shared.mutators.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: taken once, here, and not used afterwards.
        let counted = unsafe { ManuallyDrop::take(&mut self.counted) };
        // A heap that ends here takes locks of its own: not under that of the members.
        drop(members::remove(self.member, counted));
        // At last, so that no collection waits for a mutator that is gone.
        assert!(!in_frame, "{IN_A_FRAME}");
    }
}

#[cold]
#[inline(never)]
fn foreign_local() -> ! {
    panic!("a local of another mutator: locals are used by the mutator whose scope made them")
}
