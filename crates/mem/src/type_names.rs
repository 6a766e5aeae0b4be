//! What an embedder calls its types, for people: censuses and snapshots show the names.
//!
//! # Invariants
//! - A name is read without a lock, also in a stopped world: names are never freed as long as the table lives, and a type
//!   that is called anew keeps its former names, too.

extern crate alloc;

use alloc::boxed::Box;

use gleaner_base::sync::{AtomicPtr, AtomicU32, Ordering, UnsafeCell};

use crate::growing::Growing;

/// A name, and what the type was called before.
struct Name {
    text: Box<str>,
    before: *mut Name,
}

type Entry = AtomicPtr<Name>;

/// The names of the types of one heap, by number.
pub(crate) struct TypeNames {
    /// Where the entries are; null where a type has no name.
    memory: UnsafeCell<Growing>,
    start: *const Entry,
    /// How many entries there are. Release in `set` partners Acquire in `get`.
    count: AtomicU32,
}

impl TypeNames {
    /// No names, and `most` at most; `None` when the system gives no addresses.
    pub(crate) fn new(most: usize) -> Option<TypeNames> {
        let memory = Growing::new(most * size_of::<Entry>())?;
        Some(TypeNames {
            start: memory.start().as_ptr().cast(),
            memory: UnsafeCell::new(memory),
            count: AtomicU32::new(0),
        })
    }

    /// The entry of a type below `count`.
    fn entry(&self, number: u32) -> &Entry {
        // SAFETY: the memory was committed up to there, and reads as zero, a null pointer, before it is written.
        unsafe { &*self.start.add(number as usize) }
    }

    /// Calls the type of that number by a name. False when the system gives no memory.
    ///
    /// # Safety
    /// No other thread does so meanwhile.
    pub(crate) unsafe fn set(&self, number: u32, name: &str) -> bool {
        let bytes = (number as usize + 1) * size_of::<Entry>();
        // SAFETY: no other thread is here, as the caller promises.
        let fits = self
            .memory
            .with_mut(|memory| unsafe { &mut *memory }.grow_to(bytes));
        if !fits {
            return false;
        }
        let count = self.count.load(Ordering::Relaxed).max(number + 1);
        self.count.store(count, Ordering::Release);
        let entry = self.entry(number);
        let name = Box::into_raw(Box::new(Name {
            text: name.into(),
            before: entry.load(Ordering::Relaxed),
        }));
        entry.store(name, Ordering::Release);
        true
    }

    /// The number is that of another type from now on, which has no name.
    ///
    /// # Safety
    /// As for [`TypeNames::set`].
    pub(crate) unsafe fn forget(&self, number: u32) {
        if self.get(number).is_some() {
            // SAFETY: as the caller promises.
            unsafe { self.set(number, "") };
        }
    }

    /// What the type of that number is called; an empty name is none.
    pub(crate) fn get(&self, number: u32) -> Option<&str> {
        if number >= self.count.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: null, or a name, which lives as long as this.
        let name = unsafe { self.entry(number).load(Ordering::Acquire).as_ref() };
        name.map(|name| &*name.text).filter(|text| !text.is_empty())
    }
}

impl Drop for TypeNames {
    fn drop(&mut self) {
        for number in 0..self.count.load(Ordering::Relaxed) {
            let mut at = self.entry(number).load(Ordering::Relaxed);
            while !at.is_null() {
                // SAFETY: `set` made the box, and it is in one chain.
                at = unsafe { Box::from_raw(at) }.before;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_the_last_of_its_names() {
        let names = TypeNames::new(1 << 17).unwrap();
        assert_eq!(names.get(2), None);
        // SAFETY: this thread is the only one.
        unsafe {
            assert!(names.set(2, "pair") && names.set(70_000, "far away"));
            let before = names.get(2).unwrap();
            assert!(names.set(2, "cons"));
            assert_eq!((before, names.get(2)), ("pair", Some("cons")));
        }
        assert_eq!((names.get(3), names.get(70_000)), (None, Some("far away")));
        // SAFETY: as above.
        assert!(!unsafe { names.set(1 << 17, "beyond") });
    }
}
