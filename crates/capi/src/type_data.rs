//! User data of types, and types that are unregistered.

use gleaner::Heap;
use gleaner::raw::{Record, TypeId};

use crate::cells::Name;
use crate::checks::heap_of;
use crate::mutator;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_set_type_data(heap: Name<Heap>, id: u32, data: *mut ()) {
    // SAFETY: a heap of the caller's.
    unsafe { heap_of(heap) }.set_type_data(TypeId::new(id), data);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_type_data(heap: Name<Heap>, id: u32) -> *mut () {
    // SAFETY: a heap of the caller's.
    unsafe { heap_of(heap) }.type_data(TypeId::new(id))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_unregister_types(
    record: *mut Record,
    types: *mut u32,
    count: usize,
) -> usize {
    if count == 0 {
        return 0;
    }
    assert!(
        !types.is_null(),
        "{count} types are to be unregistered, and their numbers are NULL"
    );
    // SAFETY: not null, so `count` numbers of the caller's lie there, as gleaner.h asks.
    let types = unsafe { std::slice::from_raw_parts_mut(types, count) };
    let mut left: Vec<TypeId> = types.iter().copied().map(TypeId::new).collect();
    // SAFETY: the calling thread's mutator; nobody allocates objects of the types, as gleaner.h asks.
    unsafe { mutator(record, "types are unregistered").unregister_types(&mut left) };
    for id in types.iter_mut() {
        if !left.contains(&TypeId::new(*id)) {
            *id = 0;
        }
    }
    count - left.len()
}
