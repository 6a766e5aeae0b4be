//! The libgc door has the interface of Boehm's collector, version 8.2.2, over Gleaner's mark-sweep plan.
//!
//! One file per public header, `gc.h` cut by subject. This crate is the only owner of a global heap.
//!
//! # In the client's process
//! Nothing happens before the first GC call: no thread, no handler, no reservation. Memory of our own comes from a
//! mapped arena, never from malloc. The thread-local state is one initial-exec word. Frames that call client code
//! hold no guard that `pthread_exit`, cancellation, an exception or `longjmp` could skip.

#![allow(
    non_snake_case,
    non_upper_case_globals,
    reason = "the interface's names are fixed"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the contracts of exported functions are those of libgc's headers"
)]

extern crate alloc;

mod allocate;
mod blocking;
mod callbacks;
mod collect;
mod cycle_helper;
mod debug;
mod debug_check;
mod debug_header;
mod dump;
mod environment;
mod finalize;
mod fork;
mod gc_disclaim;
mod gc_gcj;
mod gc_mark;
mod gc_pthread_redirects;
mod gc_typed;
mod idle;
mod incremental;
mod leaks;
mod lock;
mod message;
mod messages_api;
mod non_gc_bytes;
mod pointer_checks;
mod records;
mod registration;
mod release;
mod report;
mod settings;
mod settings_api;
mod snapshot;
mod start;
mod state;
mod static_roots;
mod statistics;
mod suspension;
mod variables;
mod wanted;

#[global_allocator]
static ARENA: gleaner_mem::arena::Arena = gleaner_mem::arena::Arena::new();

/// What [`state`] calls in a forked child, with the allocator lock, before anything else is done there with the heap.
static BEGIN_IN_CHILD: fn(&mut gleaner_plans::mark_sweep::Heap) = fork::begin_in_child;

/// What [`start`] calls, in this order, once the heap has started: each may call malloc or the client.
static SERVICES: [fn(); 6] = [
    records::install_hooks,
    fork::install_hooks,
    collect::expect_roots,
    environment::warn_of_malformed,
    collect::watch_exit,
    snapshot::watch,
];
