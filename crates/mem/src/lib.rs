//! Words and memory of the collector: addresses, slots, headers, the layout of precise objects, side metadata, the
//! arena for the collector's own data, zeroing.
#![cfg_attr(not(any(test, loom)), no_std)]

#[cfg(test)]
extern crate std;

pub mod address;
pub mod arena;
pub mod cards;
pub mod growing;
pub mod header;
#[cfg(target_arch = "aarch64")]
#[path = "instructions/aarch64.rs"]
pub mod instructions;
#[cfg(target_arch = "x86_64")]
#[path = "instructions/x86_64.rs"]
pub mod instructions;
pub mod mapped_list;
pub mod object_bits;
pub mod object_layout;
pub mod object_model;
mod offsets;
pub mod places;
pub mod root;
pub mod shared_bytes;
pub mod side;
pub mod slot;
pub mod speculative;
pub mod spine;
pub mod traced;
mod type_data;
mod type_names;
pub mod types;
pub mod weak_slots;
pub mod zero;

pub use address::Address;
