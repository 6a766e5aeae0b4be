//! The binding: what MMTk asks of a virtual machine.
//!
//! Roots are in frames on the mutators' stacks, each with its number of roots, and in global handles; they are scanned
//! precisely. Finalizers are MMTk's own, ephemerons are settled when it asks the virtual machine for what is weak.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

use mmtk::scheduler::GCWorker;
use mmtk::util::alloc::AllocationError;
use mmtk::util::{
    Address, ObjectReference, OpaquePointer, VMMutatorThread, VMThread, VMWorkerThread,
};
use mmtk::vm::slot::UnimplementedMemorySlice;
use mmtk::vm::{
    ActivePlan, Collection, GCThreadContext, ObjectTracerContext, ReferenceGlue, RootsWorkFactory,
    Scanning, SlotVisitor, VMBinding,
};
use mmtk::{MMTK, Mutator, memory_manager};

use crate::object::{Place, References, places};
use crate::world::{self, Thread};
use crate::{handles, weak};

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

/// The only MMTk, set once before there are workers.
static MMTK_ADDRESS: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Makes this the MMTk of the process.
pub fn set_mmtk<R: References>(mmtk: &'static MMTK<Vm<R>>) {
    MMTK_ADDRESS.store((&raw const *mmtk).cast_mut().cast(), Ordering::Release);
}

fn mmtk<R: References>() -> &'static MMTK<Vm<R>> {
    let mmtk: *const MMTK<Vm<R>> = MMTK_ADDRESS.load(Ordering::Acquire).cast();
    // SAFETY: it was set before anybody asks, and is never freed.
    unsafe { &*mmtk }
}

/// Workers have odd names, mutators the addresses of their threads.
const WORKER: usize = 1;

/// What is known of a mutator's thread.
fn thread(name: VMMutatorThread) -> *const Thread {
    name.0.0.to_address().to_ptr()
}

fn mutator<'a, R: References>(name: VMMutatorThread) -> &'a mut Mutator<Vm<R>> {
    // SAFETY: the thread and the mutator are there while the thread is in the world; MMTk asks for them while it is
    // stopped, or on its own thread.
    unsafe { &mut *(*thread(name)).mutator.cast() }
}

impl<R: References> Collection<Vm<R>> for Vm<R> {
    fn stop_all_mutators<F>(_tls: VMWorkerThread, visit: F)
    where
        F: FnMut(&'static mut Mutator<Vm<R>>),
    {
        world::stop().into_iter().map(mutator).for_each(visit);
    }

    fn resume_mutators(_tls: VMWorkerThread) {
        let generational = mmtk::<R>().get_plan().generational();
        world::resume(generational.is_none_or(|plan| plan.last_collection_full_heap()));
    }

    fn block_for_gc(_tls: VMMutatorThread) {
        world::await_collection();
    }

    fn spawn_gc_thread(_tls: VMThread, context: GCThreadContext<Self>) {
        let GCThreadContext::Worker(worker) = context;
        std::thread::spawn(move || {
            let here = OpaquePointer::from_address(Address::from_ref(&*worker) + WORKER);
            memory_manager::start_worker(mmtk(), VMWorkerThread(VMThread(here)), worker);
        });
    }

    fn out_of_memory(_tls: VMThread, error: AllocationError) {
        eprintln!("out of memory: {error:?}: a larger --heap may do");
        std::process::exit(2);
    }
}

impl<R: References> ActivePlan<Vm<R>> for Vm<R> {
    fn is_mutator(tls: VMThread) -> bool {
        let name = tls.0.to_address().as_usize();
        name != 0 && name & WORKER == 0
    }

    fn mutator(tls: VMMutatorThread) -> &'static mut Mutator<Vm<R>> {
        mutator(tls)
    }

    fn mutators<'a>() -> Box<dyn Iterator<Item = &'a mut Mutator<Vm<R>>> + 'a> {
        Box::new(world::threads().into_iter().map(mutator))
    }

    fn number_of_mutators() -> usize {
        world::count()
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
        // SAFETY: the thread is in the world.
        let mut frame = unsafe { (*thread(mutator.mutator_tls)).frames };
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

    fn scan_vm_specific_roots(_tls: VMWorkerThread, mut factory: impl RootsWorkFactory<Place<R>>) {
        let places = handles::places();
        if !places.is_empty() {
            factory.create_process_roots_work(places);
        }
    }

    fn supports_return_barrier() -> bool {
        false
    }

    fn prepare_for_roots_re_scanning() {}

    /// All plans here forward while they trace, so there is nothing to do in `forward_weak_refs`.
    fn process_weak_refs(
        worker: &mut GCWorker<Vm<R>>,
        context: impl ObjectTracerContext<Vm<R>>,
    ) -> bool {
        let generational = mmtk::<R>().get_plan().generational();
        let young = generational.is_some_and(|plan| plan.is_current_gc_nursery());
        context.with_tracer(worker, |tracer| weak::process(tracer, young))
    }
}

/// Finalizable objects are nothing but objects. There are no weak objects, so nothing else of this is called.
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
