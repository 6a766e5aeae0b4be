//! Types of the heap's own: of what programs have of finalizers, and of the objects behind weak references and ephemerons
//! that programs have by handles.
//!
//! Each is registered when the first object of it is made, so a heap without such objects has the types of its program
//! alone. The program cannot unregister them.

use gleaner_base::sync::{AtomicU32, Ordering};
use gleaner_mem::object_model::TypeId;

/// A type of the heap's own. Its objects have slots, or a word that is the heap's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnType {
    /// A weak slot.
    Weak,
    /// A key and a value.
    Ephemeron,
    /// The word says which of the [`finalizers`](super::finalizers) it is.
    Finalizer,
}

impl OwnType {
    /// What censuses and snapshots call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            OwnType::Weak => "weak reference",
            OwnType::Ephemeron => "ephemeron",
            OwnType::Finalizer => "finalizer",
        }
    }

    /// How many slots an object has.
    pub(super) const fn slots(self) -> usize {
        match self {
            OwnType::Weak => 1,
            OwnType::Ephemeron => 2,
            OwnType::Finalizer => 0,
        }
    }

    /// How many words that are no slots.
    pub(super) const fn words(self) -> usize {
        match self {
            OwnType::Weak | OwnType::Ephemeron => 0,
            OwnType::Finalizer => 1,
        }
    }
}

/// Their numbers; 0 for those that were not registered yet. Release partners Acquire.
#[derive(Default)]
pub(super) struct OwnTypes([AtomicU32; 3]);

impl OwnTypes {
    /// The number of a type, if it was registered.
    pub(super) fn get(&self, of: OwnType) -> Option<TypeId> {
        let number = self.0[of as usize].load(Ordering::Acquire);
        (number != 0).then(|| TypeId::new(number))
    }

    /// A type was registered: its number, or the one that another thread has registered meanwhile.
    pub(super) fn set(&self, of: OwnType, id: TypeId) -> TypeId {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let place = &self.0[of as usize];
        match place.compare_exchange(0, id.get(), success, failure) {
            Ok(_) => id,
            Err(number) => TypeId::new(number),
        }
    }

    /// Whether that is the number of one of them.
    pub(super) fn has(&self, id: TypeId) -> bool {
        [OwnType::Weak, OwnType::Ephemeron, OwnType::Finalizer]
            .iter()
            .any(|&of| self.get(of) == Some(id))
    }
}
