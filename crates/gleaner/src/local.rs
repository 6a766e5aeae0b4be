//! Locals: the places of references that a program holds, which the collector updates. What is known of such a reference
//! when the program is compiled is part of the local's type, and need not be looked for at each access.
//!
//! # Invariants
//! - The slot of a [`Local`] lies in the table of its mutator as long as its scope lasts, which is its lifetime.
//! - A local of [`Fields`](crate::Fields) refers to an object with that layout. Such a local is made for a fresh object, or after a
//!   look at the object's type; and nothing else is put there, since no other local has its slot.

use std::fmt;
use std::marker::PhantomData;

use gleaner_mem::Address;

/// A reference, null or a small integer in a scope. A copy of a local denotes the same place. A local cannot leave its
/// scope:
///
/// ```compile_fail
/// let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
/// let mut leaked = None;
/// heap.attach().unwrap().scope(|scope| leaked = Some(scope.null()));
/// ```
///
/// nor may it go from an inner scope to an outer one:
///
/// ```compile_fail
/// # let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
/// heap.attach().unwrap().scope(|scope| {
///     let mut outer = scope.null();
///     scope.nested(|scope| outer = scope.null());
/// });
/// ```
///
/// `T` is what is known of the value: nothing ([`Any`]), or that it is an object with the layout
/// [`Fields`](crate::Fields). Nothing
/// else can be put into such a local:
///
/// ```compile_fail
/// # let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
/// # let pair: gleaner::Fields<2, 0> = heap.fields().unwrap();
/// heap.attach().unwrap().scope(|scope| {
///     let known = scope.allocate(pair).unwrap();
///     let any = scope.null();
///     scope.assign(known, any);
/// });
/// ```
///
/// and an access beyond the layout panics, as with other locals:
///
/// ```should_panic
/// # let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
/// # let pair: gleaner::Fields<2, 0> = heap.fields().unwrap();
/// heap.attach().unwrap().scope(|scope| {
///     let known = scope.allocate(pair).unwrap();
///     scope.get(known, 2);
/// });
/// ```
#[derive(Clone, Copy)]
pub struct Local<'s, T = Any> {
    pub(crate) slot: Address,
    /// Locals of outer scopes may stand where those of inner ones are wanted, and never the other way round: an inner
    /// scope's lifetime is known to nobody outside.
    brand: PhantomData<(&'s (), T)>,
}

impl<T> Local<'_, T> {
    /// # Safety
    /// The slot is that of a local of the mutator, whose scope has the lifetime, and it holds what `T` says.
    #[inline(always)]
    pub(crate) unsafe fn at(slot: Address) -> Self {
        Local {
            slot,
            brand: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Local<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Local({:?})", self.slot)
    }
}

/// Nothing is known of the value: it is an object of any type, a small integer, or null.
#[derive(Clone, Copy, Debug)]
pub enum Any {}
