//! One word of storage per thread.
//!
//! The collector keeps a pointer to its record of the thread there. The word is a thread-local symbol of the
//! *initial-exec* kind: its offset from the thread pointer is fixed when the library is loaded. So reading it is two
//! loads, never a call into the loader and never an allocation, and it works in a signal handler. Stable Rust cannot
//! declare such a variable, so assembly does; the symbol is hidden, so each library that contains this crate has its
//! own. A new thread's word is 0, and no destructor runs.

use crate::processor;

/// The calling thread's word; 0 until it is set.
#[inline(always)]
pub fn thread_word() -> usize {
    processor::thread_word()
}

/// Sets the calling thread's word: one store, so a signal handler sees the old value or the new one.
#[inline(always)]
pub fn set_thread_word(word: usize) {
    processor::set_thread_word(word);
}

/// The address of the calling thread's word, valid while that thread lives.
#[inline(always)]
pub fn thread_word_address() -> *mut usize {
    processor::thread_word_address()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_word_that_starts_at_zero() {
        set_thread_word(11);
        let address = thread_word_address() as usize;
        let other = std::thread::spawn(move || {
            let first = thread_word();
            set_thread_word(22);
            (first, thread_word(), thread_word_address() as usize)
        });
        let (first, second, elsewhere) = other.join().unwrap();
        assert_eq!((first, second), (0, 22));
        assert_ne!(address, elsewhere);
        assert_eq!(thread_word(), 11);
        // SAFETY: the address is this thread's own word.
        unsafe {
            assert_eq!(thread_word_address().read(), 11);
            thread_word_address().write(12);
        }
        assert_eq!(thread_word_address() as usize % 8, 0);
        let mut sum = 0;
        for i in 0..10 {
            set_thread_word(i);
            sum += thread_word();
        }
        assert_eq!(sum, 45);
    }
}
