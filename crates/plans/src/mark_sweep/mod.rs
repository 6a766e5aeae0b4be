//! The collector of the libgc heap: conservative mark-sweep in parallel, in a world that signals stop (ISMM 2000).
//!
//! - [`heap`]: the space and everything that a collection of it needs; [`view`]: what may be seen of it without the
//!   lock
//! - [`collect`]: a collection, step by step; [`stop`]: how threads are stopped; [`history`]: totals and events
//! - [`generations`]: collections that keep marks; [`cycle`]: marking in steps beside the program
//! - [`mutator`]: what is known of each thread; [`stacks`], [`roots`]: where marking begins
//! - [`room`]: what the limits of control groups leave; [`idle`]: what goes back to the system in idle time
//! - [`weak`]: links, finalizers and toggle references
//! - [`decide`]: when to collect, how large the heap may be, how many workers mark

pub mod collect;
pub mod cycle;
pub mod decide;
pub mod generations;
pub mod heap;
pub mod history;
pub mod idle;
pub mod mutator;
pub mod request;
pub mod room;
pub mod roots;
pub mod snapshot;
pub mod stack_bounds;
pub mod stacks;
pub mod stop;
mod tracing;
mod unnamed_stacks;
mod verify;
pub mod view;
pub mod weak;

pub use heap::Heap;
