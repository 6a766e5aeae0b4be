//! User data of types: a word for each, by which a runtime comes from an object to its own description of the object.

use gleaner_mem::Address;
use gleaner_mem::object_model::TypeId;

use crate::body::with_heap;
use crate::heap::Heap;

impl Heap {
    /// The data of a type, which [`Heap::set_type_data`] set; null before. It panics if the heap has no such type.
    ///
    /// ```
    /// # use gleaner::{Heap, Structure};
    /// # let heap = Heap::builder().limit(1 << 20).build().unwrap();
    /// static NAME: &str = "pair";
    /// let pair = heap.structure(Structure { references: 2, bytes: 0 }).unwrap();
    /// heap.set_type_data(pair.id(), (&raw const NAME).cast_mut().cast());
    /// assert_eq!(heap.type_data(pair.id()), (&raw const NAME).cast_mut().cast());
    /// ```
    pub fn type_data(&self, of: TypeId) -> *mut () {
        let data = with_heap!(&self.shared.kind, heap => heap.model.types.data(of));
        data.unwrap_or_else(|| no_type(of)).ptr()
    }

    /// Sets the data of a type: a word that the collector does not look at. Any thread may set it at any time; one that
    /// finds it finds what was written before. It panics if the heap has no such type.
    pub fn set_type_data(&self, of: TypeId, data: *mut ()) {
        let data = Address::of(data);
        let set = with_heap!(&self.shared.kind, heap => heap.model.types.set_data(of, data));
        set.unwrap_or_else(|| no_type(of));
    }
}

#[cold]
fn no_type(of: TypeId) -> ! {
    panic!(
        "the data of type {}, which this heap has not: register the type first",
        of.get()
    )
}
