//! Types that are unregistered when they have no instance: a program that loads code and unloads it again needs no more
//! types than are in use.

use gleaner_mem::object_model::TypeId;

use crate::body::with_heap;
use crate::mutator::Mutator;

impl Mutator {
    /// Unregisters those of these types that have no instance, after a collection of everything, and takes them out of
    /// `types`: what is left there is in use. Their numbers may be handed out again, and their data are null. It panics if
    /// a type is not registered with this heap.
    ///
    /// This collects, and visits every object while all other mutators are stopped: unregister many types at once. An
    /// object that waits to be finalized, and one that only a weak reference or a pinned place has kept, is an instance.
    ///
    /// # Safety
    /// No thread allocates an object of these types from now on, unless they are left in `types` and the call is over.
    pub unsafe fn unregister_types(&mut self, types: &mut Vec<TypeId>) {
        for &id in &*types {
            let known = with_heap!(&self.shared.kind, heap => heap.has_type(id));
            assert!(
                known,
                "a type is unregistered that this heap has not: {}",
                id.get()
            );
        }
        self.collect(true);
        let in_use = self.types_in_use(types);
        let mut places = in_use.iter();
        types.retain(|&id| {
            let is_in_use = places.next().is_none_or(|&is_in_use| is_in_use);
            // What is listed twice went with its first place.
            if !is_in_use && with_heap!(&self.shared.kind, heap => heap.has_type(id)) {
                // SAFETY: the walk found no instance, and nobody has made one since, as the caller promises.
                with_heap!(&self.shared.kind, heap => unsafe { heap.model.types.unregister(id) });
                with_heap!(&self.shared.kind, heap => heap.forget_type(id));
            }
            is_in_use
        });
    }

    /// Of each of these types, whether the heap has an object of it.
    fn types_in_use(&mut self, types: &[TypeId]) -> Vec<bool> {
        let highest = types.iter().map(|id| id.get() as usize).max();
        let mut found = vec![false; highest.map_or(0, |highest| highest + 1)];
        self.walk(&mut |object| {
            if let Some(found) = found.get_mut(object.header.type_id().get() as usize) {
                *found = true;
            }
        });
        types.iter().map(|id| found[id.get() as usize]).collect()
    }
}
