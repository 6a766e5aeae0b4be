//! What an exception that nothing caught says in words.
//!
//! An exception's payload is what the program's language makes of it. In Kotlin it is one object, among whose fields is the
//! message: a structure around an array of 16-bit units. Such a text is looked for by the types alone, so that it is found
//! whatever the compiler calls them and whichever fields an optimiser has left.

use gleaner::raw::Address;

use crate::layout::{Cell, Layout, Place};
use crate::registry::{Kind, description};
use crate::state::State;
use crate::types::{Composite, HeapType, Number, RefType, Storage, ValType};

/// A text has so many units at most; of a longer one the rest is left out.
const MOST_UNITS: usize = 2000;
/// A text was put together from so many at most; of a longer one the first are left out.
const MOST_PARTS: usize = 1000;

impl State {
    /// The first text among the fields of the objects that an exception carries.
    ///
    /// # Safety
    /// It is a valid reference to an exception, and nothing is collected meanwhile.
    pub(crate) unsafe fn text_of_exception(&self, exception: u64) -> Option<String> {
        let exception = Address::new(exception as usize);
        // SAFETY: the exception is valid, as the caller promises.
        let heap = unsafe { self.mutator.type_raw(exception) };
        let (&number, kind) = self.exceptions.iter().find(|(_, kind)| kind.heap == heap)?;
        let Layout::Struct { places, .. } = &kind.layout else {
            return None;
        };
        let params = self.registry.get(number).signature().params.iter();
        let fields = places[1..].iter().zip(params);
        fields
            .filter(|(_, ty)| matches!(ty, ValType::Ref(_)))
            .find_map(|(&place, _)| self.first_text(self.reference(exception, place)?))
    }

    /// The first text among the fields of a structure.
    fn first_text(&self, object: Address) -> Option<String> {
        let mut fields = self.fields(self.structure(object)?);
        fields.find_map(|(place, _)| self.text(self.reference(object, place)?))
    }

    /// The text that a structure is: it has a field for an array of 16-bit units, and may have one for a text of its own type that
    /// comes before it.
    fn text(&self, object: Address) -> Option<String> {
        let number = self.structure(object)?;
        let field_of = |is_it: &dyn Fn(Number) -> bool| {
            let mut fields = self.fields(number);
            fields.find_map(|(place, ty)| match ty {
                HeapType::Concrete(of) if is_it(of) => Some(place),
                _ => None,
            })
        };
        let units = field_of(&|of| self.is_array_of_units(of))?;
        let before = field_of(&|of| of == number);
        let mut parts = vec![object];
        while parts.len() < MOST_PARTS
            && let Some(part) = before.and_then(|place| self.reference(*parts.last()?, place))
        {
            parts.push(part);
        }
        let mut all: Vec<u16> = Vec::new();
        for &part in parts.iter().rev() {
            let Some(array) = self.reference(part, units) else {
                continue;
            };
            // SAFETY: by its type the field has an array of such units, and it is not null.
            unsafe {
                let length = self.mutator.length_raw(array) as usize;
                let start = all.len();
                all.resize(MOST_UNITS.min(start + length), 0);
                self.mutator.read_elements(array, 0, &mut all[start..]);
            }
        }
        Some(String::from_utf16_lossy(&all))
    }

    /// The number of an object's type, if it is a structure.
    fn structure(&self, object: Address) -> Option<Number> {
        // SAFETY: the object is valid, and its type has a description of such words.
        let (kind, number) = unsafe {
            let of = self.mutator.type_raw(object);
            let words = self.heap.type_data(of).cast::<u32>();
            (
                words.read(),
                words.add(description::NUMBER as usize / 4).read(),
            )
        };
        (kind == Kind::Struct as u32).then_some(number)
    }

    /// The fields of a structure type that hold references, with their types.
    fn fields(&self, number: Number) -> impl Iterator<Item = (Place, HeapType)> {
        let entry = self.registry.get(number);
        let (Layout::Struct { places, .. }, Composite::Struct(fields)) =
            (entry.layout(), &entry.sub.composite)
        else {
            unreachable!("type {number} is a structure");
        };
        let fields = places.iter().zip(fields);
        fields.filter_map(|(&place, field)| match field.storage {
            Storage::Val(ValType::Ref(RefType { heap, .. })) => Some((place, heap)),
            _ => None,
        })
    }

    fn is_array_of_units(&self, number: Number) -> bool {
        match &self.registry.get(number).sub.composite {
            Composite::Array(element) => element.storage == Storage::I16,
            _ => false,
        }
    }

    /// The object that a field refers to, if it is one.
    fn reference(&self, object: Address, place: Place) -> Option<Address> {
        let Cell::Slot { .. } = place.cell else {
            return None;
        };
        // SAFETY: the object is valid, and a slot lies there by its layout.
        let bits = unsafe { self.mutator.load_raw(object, place.offset as usize) }.bits();
        (bits != 0 && bits & 1 == 0).then(|| Address::new(bits as usize))
    }
}
