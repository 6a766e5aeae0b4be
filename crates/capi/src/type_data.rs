//! User data of types.

use gleaner::Heap;
use gleaner::raw::TypeId;

use crate::checks::heap_of;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_set_type_data(heap: *const Heap, id: u32, data: *mut ()) {
    // SAFETY: a heap of the caller's.
    unsafe { heap_of(heap) }.set_type_data(TypeId::new(id), data);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_type_data(heap: *const Heap, id: u32) -> *mut () {
    // SAFETY: a heap of the caller's.
    unsafe { heap_of(heap) }.type_data(TypeId::new(id))
}
