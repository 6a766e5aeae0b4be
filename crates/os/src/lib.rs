//! The port layer: the only crate that calls `libc` or knows Linux.
//!
//! Everything above asks this crate for memory, threads, signals, the list of loaded libraries and time, in terms that
//! another system could serve too. The code runs inside the user's process and partly inside a stopped world. So each
//! function says whether it may allocate with the process's `malloc`, whether it may take a lock of the C library, and
//! whether a signal handler may call it. Where nothing is said: no allocation, no lock, safe in a handler, `errno`
//! untouched.
//!
//! To keep `errno` untouched, system calls are made directly (`syscall`), except where the C library keeps
//! state of its own about the matter: signal handlers, threads, keys, fork hooks, the loader.
#![cfg_attr(not(any(test, loom)), no_std)]

#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux",
    target_env = "gnu"
)))]
compile_error!("the port layer knows Linux with glibc on x86-64 and 64-bit Arm only");

mod kept_file;
mod pages;
#[cfg(target_arch = "aarch64")]
#[path = "path_calls/aarch64.rs"]
mod path_calls;
#[cfg(target_arch = "x86_64")]
#[path = "path_calls/x86_64.rs"]
mod path_calls;
mod places;
#[cfg(target_arch = "aarch64")]
#[path = "processor/aarch64.rs"]
mod processor;
#[cfg(target_arch = "x86_64")]
#[path = "processor/x86_64.rs"]
mod processor;
mod procfs;
mod sets;
mod spawn;
mod stacks;
mod syscall;
#[cfg(all(test, not(loom)))]
mod test_tree;
mod thread_exit;
mod thread_word;

pub mod access;
pub mod cgroup;
pub mod children;
pub mod clock;
pub mod contention;
pub mod counters;
pub mod environment;
pub mod fork;
pub mod headroom;
pub mod hugepages;
pub mod libraries;
pub mod log_file;
pub mod mappings;
pub mod memory;
pub mod numa;
pub mod output;
pub mod own_ranges;
pub mod pressure;
pub mod program;
pub mod refusal;
pub mod residency;
pub mod signals;
pub mod threads;
pub mod topology;
pub mod written;
