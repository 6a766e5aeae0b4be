//! The facade over loom: the same names, run by the model checker.
//!
//! A futex is modelled as the kernel makes it. One lock guards all wait queues, a queue belongs to one address, and the
//! word is compared under the lock. What a waker stored before it takes the lock is seen by that comparison. Each
//! address has a condition variable of its own, so that a wake on one word cannot hide the loss of a wake on another.
//! Runs inside `loom::model` only.
//!
//! A word of plain memory that threads read and write without order has an atomic of its own, too, found by its address:
//! the collector reads objects at addresses, where an atomic of loom has no room.

use std::collections::BTreeMap;
use std::sync::Arc;

use loom::sync::{Condvar, Mutex};

pub use loom::cell::UnsafeCell;
pub use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// The sleepers on one address, each by a number of its own: a wake belongs to the threads that slept when it came, as
/// in the kernel, and a thread that falls asleep later cannot take it.
#[derive(Default)]
struct Queue {
    next: u32,
    sleepers: Vec<u32>,
    condition: Arc<Condvar>,
}

loom::lazy_static! {
    static ref QUEUES: Mutex<BTreeMap<usize, Queue>> = Mutex::new(BTreeMap::new());
}

/// A word of plain memory.
struct SharedWord {
    value: AtomicUsize,
    /// Raised by each access. To find the accesses that it should try in another order, loom remembers only the last
    /// access to each object. So a thread that loads from a word and then stores to it would hide that another thread
    /// loaded from it before (loom's issue 166). Relaxed, so it orders nothing in the model.
    accesses: AtomicUsize,
}

loom::lazy_static! {
    /// Words of plain memory by their addresses. The lock is no part of the model and orders nothing in it: it is free
    /// whenever another thread may run.
    static ref WORDS: std::sync::Mutex<BTreeMap<usize, Arc<SharedWord>>> = Default::default();
}

fn shared_word(address: usize) -> Option<Arc<SharedWord>> {
    let word = WORDS.lock().unwrap().get(&address).cloned()?;
    word.accesses.fetch_add(1, Ordering::Relaxed);
    Some(word)
}

/// From now on the word at `address` is an atomic, which holds `value`. Before other threads know the address.
pub fn share_word(address: usize, value: usize) {
    let word = Arc::new(SharedWord {
        value: AtomicUsize::new(value),
        accesses: AtomicUsize::new(0),
    });
    WORDS.lock().unwrap().insert(address, word);
}

/// Stores to such a word, relaxed.
pub fn store_shared(address: usize, value: usize) {
    let word = shared_word(address).expect("a word that is shared");
    word.value.store(value, Ordering::Relaxed);
}

/// The word that stands there: that of the atomic, or what lies there in plain memory.
///
/// # Safety
/// Eight readable bytes stand there.
pub unsafe fn load_shared(word: *const usize) -> usize {
    match shared_word(word as usize) {
        Some(shared) => shared.value.load(Ordering::Relaxed),
        // SAFETY: eight readable bytes stand there, as asked.
        None => unsafe { word.read_unaligned() },
    }
}

/// Lets the model run another thread: a spinning thread waits for another one.
pub fn spin_hint() {
    loom::thread::yield_now();
}

/// A bounded spin makes no round in a model: the outcome "spun in vain" is the general one.
pub const fn spin_rounds(_rounds: u32) -> u32 {
    0
}

/// A table size: `small` in a model, where every atomic costs.
pub const fn model_size(_full: usize, small: usize) -> usize {
    small
}

/// Lets the model run another thread.
pub fn yield_now() {
    loom::thread::yield_now();
}

/// Sleeps while `word` holds `expected`.
pub fn futex_wait(word: &AtomicU32, expected: u32) {
    let address = word as *const AtomicU32 as usize;
    let mut queues = QUEUES.lock().unwrap();
    if word.load(Ordering::Relaxed) != expected {
        return;
    }
    let queue = queues.entry(address).or_default();
    let own = queue.next;
    queue.next += 1;
    queue.sleepers.push(own);
    let condition = queue.condition.clone();
    while queues[&address].sleepers.contains(&own) {
        queues = condition.wait(queues).unwrap();
    }
}

/// Under loom there is no clock: a timed wait may end at any moment, so it ends at once; but the longest one never ends
/// by itself.
pub fn futex_wait_timeout(word: &AtomicU32, expected: u32, nanoseconds: u64) {
    if nanoseconds == u64::MAX {
        futex_wait(word, expected);
    } else {
        loom::thread::yield_now();
    }
}

/// Wakes at most `count` sleepers on `word`.
pub fn futex_wake(word: &AtomicU32, count: u32) {
    let mut queues = QUEUES.lock().unwrap();
    if let Some(queue) = queues.get_mut(&(word as *const AtomicU32 as usize)) {
        let woken = queue.sleepers.len().min(count as usize);
        queue.sleepers.drain(..woken);
        if woken > 0 {
            queue.condition.notify_all();
        }
    }
}
