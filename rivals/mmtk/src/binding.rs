//! The binding: what MMTk asks of a virtual machine with one mutator and nothing weak.
//!
//! The mutator stops where it allocates: MMTk asks for a collection only there, and then calls `block_for_gc` on the
//! mutator's thread, which waits in `World` until the workers let it go. Roots are in frames on the mutator's stack,
//! each with its number of roots, and are scanned precisely.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mmtk::util::alloc::AllocationError;
use mmtk::util::{
    Address, ObjectReference, OpaquePointer, VMMutatorThread, VMThread, VMWorkerThread,
};
use mmtk::vm::slot::UnimplementedMemorySlice;
use mmtk::vm::{
    ActivePlan, Collection, GCThreadContext, ReferenceGlue, RootsWorkFactory, Scanning,
    SlotVisitor, VMBinding,
};
use mmtk::{MMTK, Mutator, memory_manager};

use crate::object::{Place, References, places};

/// The virtual machine, for references of one width.
#[derive(Default)]
pub struct Vm<R>(PhantomData<R>);

impl<R: References> VMBinding for Vm<R> {
    type VMObjectModel = Self;
    type VMScanning = Self;
    type VMCollection = Self;
    type VMActivePlan = Self;
    type VMReferenceGlue = Self;
    type VMSlot = Place<R>;
    type VMMemorySlice = UnimplementedMemorySlice<Place<R>>;

    // Everything is a multiple of 8 bytes, so nothing needs to be aligned.
    const MIN_ALIGNMENT: usize = 8;
    const MAX_ALIGNMENT: usize = 8;
    const USE_ALLOCATION_OFFSET: bool = false;
}

/// What precedes the roots of a call, on the stack of the mutator.
#[repr(C)]
pub struct Frame {
    /// The frame of the caller.
    pub previous: *mut Frame,
    /// How many roots follow.
    pub count: usize,
}

/// What the collector knows of the mutator's thread: MMTk's name for the thread is the address of this.
#[repr(C)]
pub struct Thread {
    /// The innermost frame.
    pub frames: *mut Frame,
}

/// The only MMTk, set once before there are workers.
static MMTK_ADDRESS: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
/// The only mutator, set once before it allocates.
static MUTATOR: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Makes this the MMTk of the process.
pub fn set_mmtk<R: References>(mmtk: &'static MMTK<Vm<R>>) {
    MMTK_ADDRESS.store((&raw const *mmtk).cast_mut().cast(), Ordering::Release);
}

/// Makes this the mutator of the process.
pub fn set_mutator<R: References>(mutator: *mut Mutator<Vm<R>>) {
    MUTATOR.store(mutator.cast(), Ordering::Release);
}

fn mutator<R: References>() -> &'static mut Mutator<Vm<R>> {
    let mutator: *mut Mutator<Vm<R>> = MUTATOR.load(Ordering::Acquire).cast();
    // SAFETY: it is never freed; MMTk asks for it while it is stopped, or on its own thread.
    unsafe { &mut *mutator }
}

/// Whether the mutator stands still, and for how long it did.
#[derive(Default)]
struct World {
    stopped: bool,
    pauses: Pauses,
}

/// What collections cost the mutator.
#[derive(Clone, Copy, Default)]
pub struct Pauses {
    /// How many there were.
    pub collections: u64,
    /// How long it stood still.
    pub total: Duration,
    /// The longest time of them.
    pub longest: Duration,
}

static WORLD: Mutex<World> = Mutex::new(World {
    stopped: false,
    pauses: Pauses {
        collections: 0,
        total: Duration::ZERO,
        longest: Duration::ZERO,
    },
});
static CHANGED: Condvar = Condvar::new();

fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait_until(stopped: bool) -> MutexGuard<'static, World> {
    CHANGED
        .wait_while(world(), |world| world.stopped != stopped)
        .unwrap_or_else(PoisonError::into_inner)
}

fn change(stopped: bool) {
    world().stopped = stopped;
    CHANGED.notify_all();
}

/// What collections cost so far.
pub fn pauses() -> Pauses {
    world().pauses
}

impl<R: References> Collection<Vm<R>> for Vm<R> {
    fn stop_all_mutators<F>(_tls: VMWorkerThread, mut visit: F)
    where
        F: FnMut(&'static mut Mutator<Vm<R>>),
    {
        drop(wait_until(true));
        visit(mutator());
    }

    fn resume_mutators(_tls: VMWorkerThread) {
        change(false);
    }

    fn block_for_gc(_tls: VMMutatorThread) {
        let started = Instant::now();
        change(true);
        let mut world = wait_until(false);
        let time = started.elapsed();
        world.pauses.collections += 1;
        world.pauses.total += time;
        world.pauses.longest = world.pauses.longest.max(time);
    }

    fn spawn_gc_thread(_tls: VMThread, context: GCThreadContext<Self>) {
        let GCThreadContext::Worker(worker) = context;
        let mmtk: *const MMTK<Vm<R>> = MMTK_ADDRESS.load(Ordering::Acquire).cast();
        // SAFETY: it was set before, and is never freed.
        let mmtk: &'static MMTK<Vm<R>> = unsafe { &*mmtk };
        std::thread::spawn(move || {
            let here = OpaquePointer::from_address(Address::from_ref(&*worker));
            memory_manager::start_worker(mmtk, VMWorkerThread(VMThread(here)), worker);
        });
    }

    fn out_of_memory(_tls: VMThread, error: AllocationError) {
        eprintln!("out of memory: {error:?}: a larger --heap may do");
        std::process::exit(2);
    }
}

impl<R: References> ActivePlan<Vm<R>> for Vm<R> {
    fn is_mutator(tls: VMThread) -> bool {
        !MUTATOR.load(Ordering::Acquire).is_null() && mutator::<R>().mutator_tls.0 == tls
    }

    fn mutator(_tls: VMMutatorThread) -> &'static mut Mutator<Vm<R>> {
        mutator()
    }

    fn mutators<'a>() -> Box<dyn Iterator<Item = &'a mut Mutator<Vm<R>>> + 'a> {
        Box::new(std::iter::once(mutator()))
    }

    fn number_of_mutators() -> usize {
        1
    }
}

impl<R: References> Scanning<Vm<R>> for Vm<R> {
    #[inline(always)]
    fn scan_object<V: SlotVisitor<Place<R>>>(
        _tls: VMWorkerThread,
        object: ObjectReference,
        visitor: &mut V,
    ) {
        places(object.to_raw_address().as_usize(), |place| {
            visitor.visit_slot(place);
        });
    }

    fn notify_initial_thread_scan_complete(_partial: bool, _tls: VMWorkerThread) {}

    fn scan_roots_in_mutator_thread(
        _tls: VMWorkerThread,
        mutator: &'static mut Mutator<Vm<R>>,
        mut factory: impl RootsWorkFactory<Place<R>>,
    ) {
        let thread: *const Thread = mutator.mutator_tls.0.0.to_address().to_ptr();
        // SAFETY: the name of the mutator's thread is such an address.
        let mut frame = unsafe { (*thread).frames };
        let mut found = Vec::new();
        while !frame.is_null() {
            // SAFETY: the mutator stands still, its frames are whole, and the roots lie behind each.
            unsafe {
                let roots = frame.add(1) as usize;
                found.extend((0..(*frame).count).map(|index| Place::at(roots + index * 8)));
                frame = (*frame).previous;
            }
        }
        factory.create_process_roots_work(found);
    }

    fn scan_vm_specific_roots(_tls: VMWorkerThread, _factory: impl RootsWorkFactory<Place<R>>) {}

    fn supports_return_barrier() -> bool {
        false
    }

    fn prepare_for_roots_re_scanning() {}
}

/// Nothing is weak and nothing is finalized, so none of this is called.
impl<R: References> ReferenceGlue<Vm<R>> for Vm<R> {
    type FinalizableType = ObjectReference;

    fn clear_referent(_reference: ObjectReference) {
        unreachable!("nothing is weak");
    }

    fn get_referent(_reference: ObjectReference) -> Option<ObjectReference> {
        unreachable!("nothing is weak");
    }

    fn set_referent(_reference: ObjectReference, _referent: ObjectReference) {
        unreachable!("nothing is weak");
    }

    fn enqueue_references(_references: &[ObjectReference], _tls: VMWorkerThread) {}
}
