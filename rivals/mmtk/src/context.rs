//! The mutator's side: allocation, stores and roots, as a compiler for this virtual machine would inline them.
//!
//! A bump pointer of MMTk's is kept here as a copy, as its guide to porting recommends, and given back before each call
//! into MMTk and each stop, and fetched after it: only there can a collection take it away. What a plan needs inline is
//! known at compile time (`Mode`), as it is to a compiler that knows the plan. `post_alloc` does nothing for objects that
//! are not large, in all these plans, and is left out for them.
//!
//! A mutator stops where it polls, and where the bump pointer has come to its limit. Free lists have no limit that comes
//! soon, so there each allocation is a poll. A mutator that is alone needs none (`Alone`).
//!
//! Each mutator has a context, which its thread alone uses.

use std::cell::Cell;
use std::marker::PhantomData;
use std::slice;
use std::sync::atomic::{AtomicU8, Ordering};

use mmtk::plan::BarrierSelector;
use mmtk::util::alloc::{
    Allocator, AllocatorInfo, AllocatorSelector, BumpPointer, FreeListAllocator,
};
use mmtk::util::metadata::MetadataSpec;
use mmtk::util::metadata::side_metadata::SideMetadataSpec;
use mmtk::util::{Address, OpaquePointer, VMMutatorThread, VMThread};
use mmtk::vm::ObjectModel;
use mmtk::{AllocationSemantics, MMTK, Mutator, MutatorContext, memory_manager};

use crate::binding::Vm;
use crate::object::{
    BYTES, DOUBLES, ELEMENTS, FIELDS, NODE, Place, QUAD, REFERENCES, References, WORDS,
    array_bytes, initialize, length, reference, set_length,
};
use crate::weak::{Ephemeron, create};
use crate::world::{self, Frame, Thread};

/// What a plan has inline.
pub trait Mode: 'static {
    /// A bump pointer.
    const BUMP: bool;
    /// An object barrier.
    const BARRIER: bool;
    /// There is one mutator: it stops where it asks for a collection, and nowhere else.
    const ALONE: bool = false;
}

/// Generational plans.
pub struct Generational;
/// Plans that bump and have no barrier.
pub struct Bumping;
/// A plan that allocates from free lists.
pub struct Listing;
/// The same for one mutator.
pub struct Alone<M>(PhantomData<M>);

impl Mode for Generational {
    const BUMP: bool = true;
    const BARRIER: bool = true;
}

impl Mode for Bumping {
    const BUMP: bool = true;
    const BARRIER: bool = false;
}

impl Mode for Listing {
    const BUMP: bool = false;
    const BARRIER: bool = false;
}

impl<M: Mode> Mode for Alone<M> {
    const BUMP: bool = M::BUMP;
    const BARRIER: bool = M::BARRIER;
    const ALONE: bool = true;
}

/// Where the unlogged bits are: one for each 8 bytes.
fn unlogged_bits<R: References>() -> SideMetadataSpec {
    match *<Vm<R> as ObjectModel<Vm<R>>>::GLOBAL_LOG_BIT_SPEC {
        MetadataSpec::OnSide(spec) => {
            assert_eq!((spec.log_num_of_bits, spec.log_bytes_in_region), (0, 3));
            spec
        }
        MetadataSpec::InHeader(_) => unreachable!("it is declared to be on the side"),
    }
}

/// What an array of numbers may have: any pattern of bits is one of them.
pub trait Number: Copy {}

impl Number for u8 {}
impl Number for u32 {}

/// A mutator.
#[repr(C)]
pub struct Context<R: References, M: Mode> {
    /// First, since its address is the thread's name.
    thread: Thread,
    mmtk: &'static MMTK<Vm<R>>,
    cursor: usize,
    limit: usize,
    /// Where the unlogged bits of address 0 would be.
    unlogged: usize,
    /// MMTk's bump pointer, inside `mutator`; null where there is none.
    bump: *mut BumpPointer,
    /// MMTk's free lists, inside `mutator`; null where there is a bump pointer.
    lists: *mut FreeListAllocator<Vm<R>>,
    mutator: *mut Mutator<Vm<R>>,
    /// Larger objects are allocated as such.
    largest: usize,
    mode: PhantomData<M>,
}

impl<R: References, M: Mode> Context<R, M> {
    /// Binds the calling thread, while no collection is under way.
    pub fn bind(mmtk: &'static MMTK<Vm<R>>) -> Box<Context<R, M>> {
        let constraints = mmtk.get_plan().constraints();
        assert_eq!(
            constraints.barrier,
            if M::BARRIER {
                BarrierSelector::ObjectBarrier
            } else {
                BarrierSelector::NoBarrier
            },
            "the barrier is the plan's"
        );
        let mut context = Box::new(Context {
            thread: Thread {
                frames: std::ptr::null_mut(),
                mutator: std::ptr::null_mut(),
            },
            mmtk,
            cursor: 0,
            limit: 0,
            unlogged: unlogged_bits::<R>().get_starting_address().as_usize(),
            bump: std::ptr::null_mut(),
            lists: std::ptr::null_mut(),
            mutator: std::ptr::null_mut(),
            largest: constraints.max_non_los_default_alloc_bytes,
            mode: PhantomData,
        });
        let name = context.name();
        world::enter();
        let mutator = Box::into_raw(memory_manager::bind_mutator(mmtk, name));
        context.mutator = mutator;
        context.thread.mutator = mutator.cast();
        world::add(name);
        let default = memory_manager::get_allocator_mapping(mmtk, AllocationSemantics::Default);
        // SAFETY: MMTk says that they are so far inside.
        unsafe {
            match (AllocatorInfo::new::<Vm<R>>(default), default) {
                (
                    AllocatorInfo::BumpPointer {
                        bump_pointer_offset,
                    },
                    _,
                ) if M::BUMP => context.bump = mutator.byte_add(bump_pointer_offset).cast(),
                (_, AllocatorSelector::FreeList(_)) if !M::BUMP => {
                    let offset = Mutator::<Vm<R>>::get_allocator_base_offset(default);
                    context.lists = mutator.byte_add(offset).cast();
                }
                _ => panic!("the plan allocates in another way"),
            }
        }
        context
    }

    /// What MMTk calls the thread.
    fn name(&self) -> VMMutatorThread {
        let name = OpaquePointer::from_address(Address::from_ref(&self.thread));
        VMMutatorThread(VMThread(name))
    }

    /// The MMTk that it is bound to.
    pub fn mmtk(&self) -> &'static MMTK<Vm<R>> {
        self.mmtk
    }

    /// Memory for an object that is not large.
    #[inline(always)]
    fn allocate(&mut self, bytes: usize) -> usize {
        if !M::BUMP {
            self.poll();
            // The collector reads the frames, of which the compiler sees nothing in what follows.
            std::hint::black_box(&mut self.thread);
            // SAFETY: the lists lie in the mutator, which is this thread's.
            return unsafe { (*self.lists).alloc(bytes, 8, 0) }.as_usize();
        }
        let (start, end) = (self.cursor, self.cursor + bytes);
        if end > self.limit {
            return self.refill(bytes);
        }
        self.cursor = end;
        start
    }

    /// The slow path. MMTk looks for holes in used blocks only in `alloc`, not in `alloc_slow`.
    #[cold]
    #[inline(never)]
    fn refill(&mut self, bytes: usize) -> usize {
        self.call(bytes, AllocationSemantics::Default)
    }

    fn call(&mut self, bytes: usize, semantics: AllocationSemantics) -> usize {
        self.poll();
        self.outside(|context| {
            // SAFETY: the mutator is this thread's.
            let mutator = unsafe { &mut *context.mutator };
            let start = memory_manager::alloc(mutator, bytes, 8, 0, semantics);
            // SAFETY: MMTk gives out addresses of objects.
            if let Some(object) = unsafe { reference(start.as_usize()) } {
                memory_manager::post_alloc(mutator, object, bytes, semantics);
            }
            start.as_usize()
        })
    }

    /// Runs `body` while the bump pointer is MMTk's.
    fn outside<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> T {
        if !M::BUMP {
            return body(self);
        }
        // SAFETY: the bump pointer lies in the mutator, which lives as long as this.
        unsafe {
            *self.bump = BumpPointer {
                cursor: Address::from_usize(self.cursor),
                limit: Address::from_usize(self.limit),
            };
        }
        let result = body(self);
        // SAFETY: the bump pointer lies in the mutator, which lives as long as this.
        let now = unsafe { *self.bump };
        (self.cursor, self.limit) = (now.cursor.as_usize(), now.limit.as_usize());
        result
    }

    /// Lets a collection come, if one waits for this mutator.
    #[inline(always)]
    pub fn poll(&mut self) {
        if !M::ALONE && world::is_stopping() {
            self.stop();
        }
    }

    #[cold]
    #[inline(never)]
    fn stop(&mut self) {
        self.blocking(|| ());
    }

    /// Runs `body`, which touches nothing of the heap: no collection waits for it.
    pub fn blocking<T>(&mut self, body: impl FnOnce() -> T) -> T {
        self.outside(|_| {
            world::leave();
            let result = body();
            world::enter();
            result
        })
    }

    /// Collects everything.
    pub fn collect(&mut self) {
        let name = self.name();
        self.outside(|context| {
            // If a young collection was about to start, the request came too late for it.
            let before = world::pauses().full;
            while world::pauses().full == before {
                context
                    .mmtk
                    .handle_user_collection_request(name, true, true);
            }
        });
    }

    /// An object is to be finalized when nothing else refers to it.
    pub fn add_finalizer(&self, object: usize) {
        // SAFETY: the workloads give valid objects.
        let object = unsafe { reference(object) }.expect("an object");
        memory_manager::add_finalizer(self.mmtk, object);
    }

    /// Takes an object that is ready to be finalized.
    pub fn next_finalizable(&self) -> Option<usize> {
        let object = memory_manager::get_finalized_object(self.mmtk)?;
        Some(object.to_raw_address().as_usize())
    }

    /// A fresh ephemeron.
    pub fn ephemeron(&self, key: usize, value: usize) -> Ephemeron {
        create(key, value)
    }

    #[inline(always)]
    fn array(&mut self, kind: usize, length: usize, element: usize) -> usize {
        let bytes = array_bytes(length, element);
        let array = if bytes <= self.largest {
            self.allocate(bytes)
        } else {
            self.call(bytes, AllocationSemantics::Los)
        };
        // SAFETY: fresh memory of that size.
        unsafe {
            initialize(array, kind);
            set_length(array, length);
        }
        array
    }

    /// A fresh node.
    #[inline(always)]
    pub fn node(&mut self) -> usize {
        let node = self.allocate(R::NODE_BYTES);
        // SAFETY: fresh memory of that size.
        unsafe { initialize(node, NODE) };
        node
    }

    /// A fresh quad.
    #[inline(always)]
    pub fn quad(&mut self) -> usize {
        let quad = self.allocate(R::QUAD_BYTES);
        // SAFETY: fresh memory of that size.
        unsafe { initialize(quad, QUAD) };
        quad
    }

    /// A fresh object of `bytes` bytes, with that header.
    #[inline(always)]
    pub fn object(&mut self, header: usize, bytes: usize) -> usize {
        let object = self.allocate(bytes);
        // SAFETY: fresh memory of that size.
        unsafe { initialize(object, header) };
        object
    }

    /// A fresh array of references.
    pub fn references(&mut self, length: usize) -> usize {
        self.array(REFERENCES, length, R::BYTES)
    }

    /// A fresh array of numbers of 8 bytes.
    pub fn doubles(&mut self, length: usize) -> usize {
        self.array(DOUBLES, length, 8)
    }

    /// A fresh array of numbers of 4 bytes.
    #[inline(always)]
    pub fn words(&mut self, length: usize) -> usize {
        self.array(WORDS, length, 4)
    }

    /// A fresh array of bytes.
    #[inline(always)]
    pub fn bytes(&mut self, length: usize) -> usize {
        self.array(BYTES, length, 1)
    }

    #[inline(always)]
    fn store(&mut self, object: usize, offset: usize, value: usize) {
        // SAFETY: the workloads give valid objects and values.
        unsafe { R::store(object + offset, value) };
        if M::BARRIER {
            let bits = (self.unlogged + (object >> 6)) as *const AtomicU8;
            // SAFETY: each object has its bit there, and only other mutators could change the byte meanwhile.
            let bits = unsafe {
                if M::ALONE {
                    bits.cast::<u8>().read()
                } else {
                    (*bits).load(Ordering::Relaxed)
                }
            };
            if bits >> ((object >> 3) & 7) & 1 != 0 {
                self.log(object, offset, value);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn log(&mut self, object: usize, offset: usize, value: usize) {
        // SAFETY: the mutator is this thread's, and the workloads give valid objects and values.
        unsafe {
            if let Some(source) = reference(object) {
                let place = Place::at(object + offset);
                let barrier = (*self.mutator).barrier();
                barrier.object_reference_write_slow(source, place, reference(value));
            }
        }
    }

    /// A reference of a node, a quad or a record, from 0 on.
    #[inline(always)]
    pub fn get(&self, node: usize, side: usize) -> usize {
        // SAFETY: the workloads give valid nodes.
        unsafe { R::load(node + FIELDS + side * R::BYTES) }
    }

    /// Sets a reference of a node, a quad or a record.
    #[inline(always)]
    pub fn set(&mut self, node: usize, side: usize, value: usize) {
        self.store(node, FIELDS + side * R::BYTES, value);
    }

    /// Sets a reference of a fresh node: nothing was allocated since. What is fresh needs no barrier, in any plan here.
    #[inline(always)]
    pub fn initialize(&mut self, node: usize, side: usize, value: usize) {
        // SAFETY: the workloads give valid nodes and values.
        unsafe { R::store(node + FIELDS + side * R::BYTES, value) };
    }

    /// An element of an array of references.
    #[inline(always)]
    pub fn element(&self, array: usize, index: usize) -> usize {
        // SAFETY: the workloads give valid arrays and indices.
        unsafe { R::load(array + ELEMENTS + index * R::BYTES) }
    }

    /// Sets an element of an array of references.
    #[inline(always)]
    pub fn set_element(&mut self, array: usize, index: usize, value: usize) {
        self.store(array, ELEMENTS + index * R::BYTES, value);
    }

    /// The first number of a node.
    #[inline(always)]
    pub fn number(&self, node: usize) -> u32 {
        // SAFETY: the workloads give valid nodes.
        unsafe { ((node + R::NUMBERS) as *const u32).read() }
    }

    /// Sets the first number of a node.
    #[inline(always)]
    pub fn set_number(&self, node: usize, number: u32) {
        // SAFETY: the workloads give valid nodes.
        unsafe { ((node + R::NUMBERS) as *mut u32).write(number) };
    }

    /// The first number of a quad.
    #[inline(always)]
    pub fn quad_number(&self, quad: usize) -> u32 {
        // SAFETY: the workloads give valid quads.
        unsafe { ((quad + R::QUAD_NUMBERS) as *const u32).read() }
    }

    /// Sets the first number of a quad.
    #[inline(always)]
    pub fn set_quad_number(&self, quad: usize, number: u32) {
        // SAFETY: the workloads give valid quads.
        unsafe { ((quad + R::QUAD_NUMBERS) as *mut u32).write(number) };
    }

    /// Looks at the elements of an array of numbers of `T`, which nobody changes meanwhile.
    #[inline(always)]
    pub fn look<T: Number, O>(&self, array: usize, look: impl FnOnce(&[T]) -> O) -> O {
        let first = (array + ELEMENTS) as *const T;
        // SAFETY: the workloads give valid arrays, which stay in place until the context is used exclusively.
        look(unsafe { slice::from_raw_parts(first, length(array)) })
    }

    /// Changes the elements of an array of numbers of `T`, which nobody else looks at meanwhile.
    #[inline(always)]
    pub fn change<T: Number, O>(&self, array: usize, change: impl FnOnce(&mut [T]) -> O) -> O {
        let first = (array + ELEMENTS) as *mut T;
        // SAFETY: the workloads give valid arrays, which stay in place until the context is used exclusively, and look
        // at the elements nowhere else meanwhile.
        change(unsafe { slice::from_raw_parts_mut(first, length(array)) })
    }

    /// Runs `body` with roots that hold `values`.
    #[inline(always)]
    pub fn with_roots<const N: usize, T>(
        &mut self,
        values: [usize; N],
        body: impl FnOnce(&mut Self, &[Cell<usize>; N]) -> T,
    ) -> T {
        /// A frame with its roots behind it, as the collector expects them.
        #[repr(C)]
        struct Rooted<const N: usize> {
            frame: Frame,
            values: [Cell<usize>; N],
        }
        let previous = self.thread.frames;
        let mut rooted = Rooted {
            frame: Frame { previous, count: N },
            values: values.map(Cell::new),
        };
        let here = &raw mut rooted;
        self.thread.frames = here.cast();
        // SAFETY: the roots are cells, which the collector may change while they are borrowed.
        let result = body(self, unsafe { &(*here).values });
        // A panic ends the process, so nothing comes by here but this.
        self.thread.frames = previous;
        result
    }
}

impl<R: References, M: Mode> Drop for Context<R, M> {
    /// The thread is a mutator no more.
    fn drop(&mut self) {
        // SAFETY: it was made by `bind`, which made it from a box; the world is not stopped while this thread is in it.
        let mut mutator = unsafe { Box::from_raw(self.mutator) };
        memory_manager::destroy_mutator(&mut mutator);
        world::remove(self.name());
    }
}
