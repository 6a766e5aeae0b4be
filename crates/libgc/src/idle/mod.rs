//! What is done when the program has not allocated for a while (option `idle`): unused memory goes back to the system, and garbage is
//! collected where nobody could notice, or where the option asks for it.
//!
//! A thread of the collector's looks whether the program is idle. It is made behind the first helper that marks, so a program that has
//! no thread of ours gets none unless the option asks for it. The program's own calls for memory look whether they become rare.

pub mod calls;
pub mod state;
pub mod watcher;
pub mod who;
