//! How much memory the control groups' limits leave, as of the last time that they were asked.
//!
//! Asking reads a few small files by descriptors that are kept open. It is done at the end of each collection. It is
//! also done before the heap grows, once the heap has grown by an eighth of what was left the last time. So the answer
//! is never far from the truth, and a heap with much room hardly ever asks. Where nothing limits the process nobody
//! asks anything.
//!
//! Runs under the allocator lock, while the world runs.

mod heed;
mod state;

pub use state::Room;
