//! What the workloads come to, computed without a heap.

pub mod arrays;
pub mod cipher;
pub mod compiler;
pub mod index;
pub mod jbb;
pub mod render;
pub mod shared;
pub mod trees;
pub mod zeroing;

pub use gleaner_workloads::random;
