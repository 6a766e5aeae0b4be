//! Handles: roots that all threads share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::object::Place;

/// The addresses of the roots of all handles. A collection finds it unlocked, since no thread stops with the lock.
static ROOTS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn roots() -> MutexGuard<'static, Vec<usize>> {
    ROOTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A root. It has a place of its own, which stays where it is.
pub struct Handle(Box<AtomicUsize>);

impl Handle {
    /// One that holds an object.
    pub fn new(object: usize) -> Handle {
        let root = Box::new(AtomicUsize::new(object));
        roots().push(root.as_ptr().addr());
        Handle(root)
    }

    /// The object.
    #[inline(always)]
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let own = self.0.as_ptr().addr();
        roots().retain(|&root| root != own);
    }
}

/// The roots of all handles.
pub fn places<R>() -> Vec<Place<R>> {
    roots().iter().map(|&root| Place::at(root)).collect()
}
