//! A word of the embedder's for each type: where a runtime finds its own description of the objects that it sees.
//!
//! # Invariants
//! - The table does not move. Words of registered types are committed and written before the number of the type is
//!   handed out, so compiled code may load them without a call.
//! - A word is stored with Release and loaded with Acquire: a thread that finds a description finds it complete.

use core::ptr::NonNull;

use gleaner_base::sync::{AtomicUsize, Ordering, UnsafeCell};

use crate::Address;
use crate::growing::Growing;

/// The words of one heap's types.
pub(crate) struct TypeData {
    words: NonNull<AtomicUsize>,
    /// Where the words are. Grown by the thread that registers a type.
    memory: UnsafeCell<Growing>,
}

impl TypeData {
    /// No words yet, and `most` at most; `None` when the system gives no addresses.
    pub(crate) fn new(most: usize) -> Option<TypeData> {
        let memory = Growing::new(most * size_of::<AtomicUsize>())?;
        Some(TypeData {
            words: memory.start().cast(),
            memory: UnsafeCell::new(memory),
        })
    }

    /// Where the word of type 0 lies, or would lie.
    pub(crate) fn start(&self) -> Address {
        Address::of(self.words.as_ptr())
    }

    /// Makes a null word for the next type; false when there is no room.
    ///
    /// # Safety
    /// One thread calls this at a time, with ascending numbers, and nobody was told the number yet.
    pub(crate) unsafe fn add(&self, number: usize) -> bool {
        let bytes = (number + 1) * size_of::<AtomicUsize>();
        // SAFETY: one thread at a time comes here, as asked, and the memory is used here only.
        let fits = self
            .memory
            .with_mut(|memory| unsafe { &mut *memory }.grow_to(bytes));
        if fits {
            let null = AtomicUsize::new(0);
            // SAFETY: the word was committed just now, and nobody was told the number yet, as asked.
            unsafe { self.words.add(number).write(null) };
        }
        fits
    }

    /// The word of the type of that number.
    ///
    /// # Safety
    /// The word was added.
    pub(crate) unsafe fn get(&self, number: usize) -> Address {
        // SAFETY: the word was added, as asked, and the table does not move.
        Address::new(unsafe { self.words.add(number).as_ref() }.load(Ordering::Acquire))
    }

    /// Sets the word of the type of that number.
    ///
    /// # Safety
    /// The word was added.
    pub(crate) unsafe fn set(&self, number: usize, data: Address) {
        // SAFETY: the word was added, as asked, and the table does not move.
        unsafe { self.words.add(number).as_ref() }.store(data.word(), Ordering::Release);
    }
}
