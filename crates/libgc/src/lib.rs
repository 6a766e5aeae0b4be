//! The libgc door.
