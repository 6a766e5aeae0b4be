//! A precise, moving, generational garbage collector to embed in a language runtime.
//!
#![doc = include_str!("../README.md")]
//!
//! # In a few words
//!
//! A [`Heap`] holds objects of registered [types]. Threads attach to it as [`Mutator`]s. A mutator works in a [`Scope`]:
//! it allocates there, and every reference that it holds is a [`Local`]. The collector knows all locals, and updates them
//! when objects move. A [`Handle`] keeps an object alive beyond scopes, and may be sent to other threads. A [`Weak`]
//! reference does not keep its object alive, nor does an [`Ephemeron`] its key. An object with a finalizer is
//! [handed out](Scope::next_finalizer) when it has become unreachable.
//!
//! A type that is [`pinned`](Type::pinned) makes objects that never move; [`Scope::pin`] keeps any object in its place for a
//! while. [`Mutator::walk`] visits every object.
//!
//! The layer below, [`raw`], is for code that a compiler generates. There, references are plain addresses, roots are
//! frames of a shadow stack, and the fast paths are inlined.
//!
//! A collection can stop a mutator only where the mutator allocates or [polls](Scope::poll). Calls that block belong
//! inside [`Mutator::blocking`]; otherwise every collection waits for them.

mod access;
mod allocate;
mod body;
mod build_error;
mod builder;
mod collectors;
mod crew;
mod elements;
mod environment;
mod exchange;
mod exit;
mod fast_paths;
mod fields;
mod filling;
mod finalizers;
mod fork;
mod guarded;
mod handle;
mod heap;
mod heap_roots;
mod index;
mod interrupts;
mod known;
mod listeners;
mod local;
mod members;
mod memory;
mod mutator;
mod new_object;
mod pins;
pub mod raw;
mod roles;
mod scope;
mod shrink;
mod snapshots;
mod threads;
mod type_data;
pub mod types;
mod unregister;
mod values;
mod wanted;
mod weak;
mod zeroers;

/// What the report on arrays is made of: [`Mutator::array_report`].
pub mod report {
    pub use gleaner_plans::scavenge::report::{
        ArrayType, Composition, Footprint, Geometry, Living, Savings,
    };
    pub use gleaner_plans::scavenge::tally::{Access, Allocated, ByPosition, Tally};
}

pub use body::OutOfMemory;
pub use build_error::BuildError;
pub use builder::Builder;
pub use elements::{Cursor, Number};
pub use environment::OutsideLayout;
pub use fields::{AnySlots, Fields, Slots};
pub use filling::New;
pub use finalizers::{Finalizing, Ready};
pub use gleaner_base::options::{
    Crew, Generations, NurseryPolicy, OldPages, OldPolicy, Pages, Parking, Plan, References,
    TaskQueue, TraceOrder, Zeroing,
};
pub use gleaner_plans::scavenge::arrays::ArrayCounts;
pub use gleaner_plans::scavenge::locality::{ByNode, Counts, Sums as Locality};
pub use gleaner_plans::scavenge::memory::counts::Count;
pub use gleaner_plans::scavenge::pins::errors::PinError;
pub use gleaner_plans::scavenge::report::ArrayReport;
pub use gleaner_plans::scavenge::walk::Found;
pub use gleaner_plans::scavenge::{CreateError, Totals};
pub use gleaner_work::Synchronisation;
pub use handle::Handle;
pub use heap::{Heap, StillInUse};
pub use index::{InTail, Index};
pub use interrupts::Interrupter;
pub use known::{FitsInto, Holds, ObjectType};
pub use listeners::{Collection, Event, Phase};
pub use local::{Any, Local};
pub use memory::{LimitError, TypeCount};
pub use mutator::Mutator;
pub use roles::{Role, set_thread_role};
pub use scope::Scope;
pub use snapshots::SnapshotError;
pub use threads::{Join, NewThread};
pub use types::{
    Array, Elements, EphemeronTable, ReferenceArray, Registered, Structure, Tail, Tailed, Type,
    TypeError, WeakArray,
};
pub use weak::{Ephemeron, Weak};
