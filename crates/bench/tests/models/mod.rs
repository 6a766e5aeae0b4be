//! What the workloads come to, computed without a heap.

pub mod cipher;
pub mod index;
pub mod jbb;
#[path = "../../src/native/random.rs"]
pub mod random;
pub mod render;
pub mod shared;
pub mod trees;
pub mod zeroing;
