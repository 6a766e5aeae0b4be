//! Types that the embedder describes by functions: where the slots of an instance are, and how large it is.
//!
//! # Invariants
//! What the functions of a type promise, and the collector relies on:
//! - They run while the world is stopped, on several threads at once, also for an object that is dead and was not
//!   reclaimed yet. They allocate nothing, in this heap or by malloc, and take no lock that a stopped thread may hold.
//! - They read of the object what is no slot, and not its first 8 bytes: a slot may already hold where its referent
//!   will be. Nor do they follow pointers to what a finalizer frees.
//! - As long as the world is stopped they say the same: the same size, the same slots, each once, inside the object and
//!   aligned. The size never changes after the first poll behind the allocation, and is that of the allocation.
//! - They do not unwind.

use crate::Address;
use crate::object_layout::{GRANULE, LENGTH, tailed_bytes};

/// What visits the slot that a function of the embedder's names.
type VisitSlot = unsafe extern "C" fn(*mut Visitor, *mut u8);
/// What visits a base and the words that were derived from it: `count` places.
type VisitDerived = unsafe extern "C" fn(*mut Visitor, *mut u8, *const *mut u8, usize);

/// What a trace function calls for each slot, and a function that visits [roots](crate::root) for each root.
#[derive(Debug)]
#[repr(C)]
pub struct Visitor {
    visit: VisitSlot,
    slot: VisitSlot,
    derived: VisitDerived,
}

impl Visitor {
    pub(crate) fn new(visit: VisitSlot, slot: VisitSlot, derived: VisitDerived) -> Visitor {
        Visitor {
            visit,
            slot,
            derived,
        }
    }

    /// Visits the slot at `slot`: of an object, in the format of the heap's slots; a root, of 8 bytes.
    ///
    /// # Safety
    /// The visitor was given to the running function, and a slot of its object, or one of its roots, lies there.
    #[inline(always)]
    pub unsafe fn visit(visitor: *mut Visitor, slot: *mut u8) {
        // SAFETY: the visitor was given to the running function, so it is alive, and a slot lies there, as asked.
        unsafe { ((*visitor).visit)(visitor, slot) };
    }

    /// Visits the slot at `slot`, a root in the format of the heap's slots.
    ///
    /// # Safety
    /// As for [`Visitor::visit`].
    #[inline(always)]
    pub unsafe fn visit_slot(visitor: *mut Visitor, slot: *mut u8) {
        // SAFETY: the visitor was given to the running function, so it is alive, and a slot lies there, as asked.
        unsafe { ((*visitor).slot)(visitor, slot) };
    }

    /// Visits the root slot of 8 bytes at `base`, and keeps the words at `derived` at their offsets from it. A base is
    /// visited once, with all that was derived from it.
    ///
    /// # Safety
    /// The visitor was given to a running function that visits roots. The base holds a value, and if it refers to an
    /// object, words of pointers into that object, or to its end, lie at the places.
    #[inline(always)]
    pub unsafe fn visit_derived(visitor: *mut Visitor, base: *mut u8, derived: &[*mut u8]) {
        // SAFETY: the visitor was given to the running function, so it is alive; the places are as asked.
        unsafe { ((*visitor).derived)(visitor, base, derived.as_ptr(), derived.len()) };
    }

    /// Runs `body` with a visitor that calls `visit`.
    #[inline(always)]
    pub fn with<V: FnMut(Address)>(visit: V, body: impl FnOnce(*mut Visitor)) {
        /// The visitor comes first, so that its address is that of both.
        #[repr(C)]
        struct Calling<V> {
            visitor: Visitor,
            visit: V,
        }
        unsafe extern "C" fn call<V: FnMut(Address)>(visitor: *mut Visitor, slot: *mut u8) {
            // SAFETY: `with` below made the visitor as the first field of a `Calling<V>`, which lives until it returns.
            unsafe { ((*visitor.cast::<Calling<V>>()).visit)(Address::of(slot)) };
        }
        unsafe extern "C" fn none(_: *mut Visitor, base: *mut u8, _: *const *mut u8, _: usize) {
            panic!(
                "a trace function visits a derived pointer of the base at {base:?}: objects have none, only roots are \
                 derived"
            );
        }
        let mut calling = Calling {
            visitor: Visitor::new(call::<V>, call::<V>, none),
            visit,
        };
        body((&raw mut calling).cast());
    }
}

/// Visits every slot of the object: `function(data, object, visitor)`.
pub type TraceFunction = unsafe extern "C" fn(*mut (), *mut u8, *mut Visitor);

/// The bytes of the object, its header included: `function(data, object)`.
pub type SizeFunction = unsafe extern "C" fn(*mut (), *const u8) -> usize;

/// How a traced type finds its slots.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    /// Visits them.
    pub function: TraceFunction,
    /// What the functions of the type are given first. Whatever it leads to outlives the heap.
    pub data: *mut (),
}

impl Trace {
    /// Visits the slots of the object.
    ///
    /// # Safety
    /// An object of the type lies there, in a stopped world.
    #[inline]
    pub(crate) unsafe fn run(&self, object: Address, visit: impl FnMut(Address)) {
        Visitor::with(visit, |visitor| {
            // SAFETY: an object of the type lies there in a stopped world, as asked, and the function keeps the
            // invariants of this module with the data that it was registered with.
            unsafe { (self.function)(self.data, object.ptr(), visitor) };
        });
    }
}

/// How large the instances of a traced type are.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    /// All have this many bytes, the header included.
    Fixed(usize),
    /// As many elements as the length says, which lies where that of an array does, behind a head of at least 16 bytes.
    Tailed {
        /// Bytes of the head.
        head: usize,
        /// Bytes of an element.
        element: usize,
    },
    /// What this says.
    Function(SizeFunction),
}

impl Size {
    /// The bytes of the object.
    ///
    /// # Safety
    /// An object of the type lies there, and its size is written.
    pub(crate) unsafe fn of(&self, data: *mut (), object: Address) -> usize {
        match *self {
            Size::Fixed(bytes) => bytes.next_multiple_of(GRANULE),
            Size::Tailed { head, element } => {
                // SAFETY: an object of the type lies there and its length is written, as asked.
                let length = unsafe { object.add(LENGTH).ptr::<u32>().read() };
                tailed_bytes(head, length, element)
            }
            // SAFETY: an object of the type lies there and its size is written, as asked; `size` and `data` were
            // registered together.
            Size::Function(size) => unsafe { size(data, object.ptr()) }.next_multiple_of(GRANULE),
        }
    }
}
