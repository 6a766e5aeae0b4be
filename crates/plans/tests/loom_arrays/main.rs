//! Arrays in pieces under loom (I6): the shipped steps in which pointers of spines change (`scavenge::parts`), the
//! claims of arraylets, the lock under which arraylets are shared, and the gate. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p gleaner-plans --release --test loom_arrays`.
//!
//! A spine has one part here. The words of an arraylet are atomics, accessed relaxed: loom lets a thread read any value
//! that nothing orders before another one, so what is not published by a pointer may be seen as it was before. For each
//! protocol there are models of it as it must not be, which loom has to find wrong.
#![cfg(loom)]

mod claims;
mod compression;
mod sharing;
mod stage;
mod writes;
