//! Objects of the heap's [own types](super::own_types), which mutators make, and their slots.

use gleaner_mem::Address;
use gleaner_mem::object_model::{FIELDS, Shape, Slots, TypeId, whole_granules};
use gleaner_mem::slot::{SlotFormat, Value};

use super::own_types::OwnType;
use crate::scavenge::Scavenge;

impl<F: SlotFormat> Scavenge<F> {
    /// The bytes of an object of a type of the heap's own.
    pub fn own_bytes(&self, of: OwnType) -> usize {
        own_bytes::<F>(of)
    }

    /// A type of the heap's own, which is registered when it is first asked for; `None` if the heap has no room for another
    /// type.
    pub fn own_type(&self, of: OwnType) -> Option<TypeId> {
        let known = self.weak.own_types.get(of);
        known.or_else(|| self.register_own(of))
    }

    #[cold]
    fn register_own(&self, of: OwnType) -> Option<TypeId> {
        let [first, second, third] = [0, 1, 2].map(|index| (FIELDS + index * F::BYTES) as u32);
        let (first, others) = ([first], [second, third]);
        let slots = match of {
            OwnType::Weak => Slots {
                weak: &first,
                ..Slots::default()
            },
            OwnType::Ephemeron => Slots {
                ephemerons: &first,
                ..Slots::default()
            },
            OwnType::Finalizer => Slots {
                references: &others,
                weak: &first,
                ..Slots::default()
            },
        };
        let shape = Shape::Weak {
            head: self.own_bytes(of),
            slots,
            element: 0,
            element_slots: Slots::default(),
        };
        let id = self.model.types.register_sealed(shape, F::BYTES).ok()?;
        // Without memory for it the type stays without a name.
        self.model.types.set_name(id, of.name());
        Some(self.weak.own_types.set(of, id))
    }

    /// Whether the embedder registered a type of this number.
    pub fn has_type(&self, id: TypeId) -> bool {
        self.model.types.has(id) && !self.weak.own_types.has(id)
    }

    /// Slot `index` of an object of a type of the heap's own.
    pub(super) fn own_place(&self, object: Address, index: usize) -> Address {
        object.add(FIELDS + index * F::BYTES)
    }

    /// What slot `index` of an object of a type of the heap's own holds. The caller is a mutator inside the gate, or the
    /// collector.
    pub fn own_slot(&self, object: Address, index: usize) -> Value {
        // SAFETY: a slot of the object, as the callers know its type.
        unsafe { F::load(self.own_place(object, index), self.model.base) }
    }

    /// Sets a slot of an object that is fresh, or to what is no young object.
    pub(super) fn set_own_slot(&self, object: Address, index: usize, value: Value) {
        // SAFETY: a slot of the object, as the callers know its type; the value is valid.
        unsafe { F::store(self.own_place(object, index), self.model.base, value) };
    }

    /// Sets a slot through the barrier.
    pub(super) fn store_own_slot(&self, object: Address, index: usize, to: Address) {
        self.set_own_slot(object, index, Value::reference(to));
        self.cards.dirty(self.own_place(object, index));
    }

    /// A mutator inside the gate: the slots of its fresh object hold these values from now on.
    pub fn begin_own(&self, object: Address, values: impl IntoIterator<Item = Value>) {
        for (index, value) in values.into_iter().enumerate() {
            self.set_own_slot(object, index, value);
        }
    }
}

/// [`Scavenge::own_bytes`] where there is no heap yet.
pub fn own_bytes<F: SlotFormat>(of: OwnType) -> usize {
    whole_granules(FIELDS + of.slots() * F::BYTES)
}
