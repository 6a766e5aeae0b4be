//! The sync facade: every atomic, futex and yield of the collector goes through here.
//!
//! The idea: concurrent code above this crate names only these items. An ordinary build maps them
//! to `core` and to three raw system calls; a build with `--cfg loom` maps the same names to the
//! loom model checker, so that the models explore the code that ships. This is the only place of
//! the project with a `cfg(loom)`.
//!
//! Invariants: nothing here touches `errno`, a lock of libc, the heap or a thread-local, so every
//! function may be called in a signal handler, in a stopped world and in a forked child.
//! Any thread runs it.

#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux"
)))]
compile_error!(
    "gleaner's sync facade speaks Linux on x86-64 and 64-bit Arm only: it makes raw system calls"
);

mod counter;
mod gate;
mod held_lock;
mod raw_lock;
mod turns;

#[cfg(loom)]
#[path = "model.rs"]
mod imp;
#[cfg(not(loom))]
#[path = "native.rs"]
mod imp;

#[cfg(all(target_arch = "aarch64", not(loom)))]
#[path = "processor/aarch64.rs"]
mod processor;
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[path = "processor/x86_64.rs"]
mod processor;

pub use counter::Counter;
pub use gate::Gate;
pub use held_lock::HeldLock;
pub use imp::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, UnsafeCell,
    fence, futex_wait, futex_wait_timeout, futex_wake, load_shared, model_size, spin_hint,
    spin_rounds, yield_now,
};
#[cfg(loom)]
pub use imp::{share_word, store_shared};
pub use raw_lock::RawLock;
pub use turns::Turns;

/// Declares a constructor that is `const` in ordinary builds. Loom's atomics register themselves
/// with the running model, so under loom the same constructor is a plain function.
#[cfg(not(loom))]
#[macro_export]
macro_rules! sync_const_fn {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty $body:block) => {
        $(#[$meta])* $vis const fn $name($($arg: $ty),*) -> $ret $body
    };
}

/// Declares a constructor that is `const` in ordinary builds. Loom's atomics register themselves
/// with the running model, so under loom the same constructor is a plain function.
#[cfg(loom)]
#[macro_export]
macro_rules! sync_const_fn {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty $body:block) => {
        $(#[$meta])* $vis fn $name($($arg: $ty),*) -> $ret $body
    };
}

/// An array of fresh values that hold atomics, usable in a constructor made by [`sync_const_fn!`].
#[cfg(not(loom))]
#[macro_export]
macro_rules! sync_array {
    ($value:expr; $len:expr) => {
        [const { $value }; $len]
    };
}

/// An array of fresh values that hold atomics, usable in a constructor made by [`sync_const_fn!`].
#[cfg(loom)]
#[macro_export]
macro_rules! sync_array {
    ($value:expr; $len:expr) => {
        ::core::array::from_fn::<_, { $len }, _>(|_| $value)
    };
}
