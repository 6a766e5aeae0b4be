//! Objects of the heap's [own types](super::own_types), which mutators make, and their slots.

use gleaner_mem::Address;
use gleaner_mem::object_model::{FIELDS, Shape, Slots, TypeId, whole_granules};
use gleaner_mem::slot::{SlotFormat, Value};

use super::own_types::OwnType;
use crate::scavenge::Scavenge;

impl<F: SlotFormat> Scavenge<F> {
    /// The bytes of an object of a type of the heap's own.
    pub fn own_bytes(&self, of: OwnType) -> usize {
        whole_granules(FIELDS + of.slots() * F::BYTES + of.words() * size_of::<u64>())
    }

    /// A type of the heap's own, which is registered when it is first asked for; `None` if the heap has no room for another
    /// type.
    pub fn own_type(&self, of: OwnType) -> Option<TypeId> {
        let known = self.weak.own_types.get(of);
        known.or_else(|| self.register_own(of))
    }

    #[cold]
    fn register_own(&self, of: OwnType) -> Option<TypeId> {
        let first = [FIELDS as u32];
        let bytes = self.own_bytes(of);
        let weak = |slots| Shape::Weak {
            head: bytes,
            slots,
            element: 0,
            element_slots: Slots::default(),
        };
        let types = &self.model.types;
        let id = match of {
            OwnType::Weak => {
                let slots = Slots {
                    weak: &first,
                    ..Slots::default()
                };
                types.register(weak(slots), F::BYTES)
            }
            OwnType::Ephemeron => {
                let slots = Slots {
                    ephemerons: &first,
                    ..Slots::default()
                };
                types.register(weak(slots), F::BYTES)
            }
            OwnType::Finalizer => types.register_sealed(bytes),
        };
        let id = id.ok()?;
        // Without memory for it the type stays without a name.
        types.set_name(id, of.name());
        Some(self.weak.own_types.set(of, id))
    }

    /// Whether the embedder registered a type of this number.
    pub fn has_type(&self, id: TypeId) -> bool {
        self.model.types.has(id) && !self.weak.own_types.has(id)
    }

    /// Slot `index` of an object of a type of the heap's own.
    fn own_place(&self, object: Address, index: usize) -> Address {
        object.add(FIELDS + index * F::BYTES)
    }

    /// What slot `index` of an object of a type of the heap's own holds. The caller is a mutator inside the gate, or the
    /// collector.
    pub fn own_slot(&self, object: Address, index: usize) -> Value {
        // SAFETY: a slot of the object, as the callers know its type.
        unsafe { F::load(self.own_place(object, index), self.model.base) }
    }

    /// A mutator inside the gate: the slots of its fresh object hold these values from now on.
    pub fn begin_own(&self, object: Address, values: impl IntoIterator<Item = Value>) {
        for (index, value) in values.into_iter().enumerate() {
            // SAFETY: a slot of the fresh object, as the callers know its type; the value is valid.
            unsafe { F::store(self.own_place(object, index), self.model.base, value) };
        }
    }
}
