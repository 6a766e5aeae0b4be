//! What is done when the program has not allocated for a while (option `idle`): unused memory goes back to the system.
//!
//! A thread of the collector's looks whether the program is idle. It is made behind the first helper that marks, so a program that has
//! no thread of ours gets none. There the program's own calls for memory look whether they become rare.

pub mod state;
pub mod watcher;
