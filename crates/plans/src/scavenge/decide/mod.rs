//! What the collector of the precise heap decides by itself, as pure functions from measurements to a decision and its
//! reason.

#![forbid(unsafe_code)]

pub mod alone;
pub mod collection;
pub mod evacuation;
pub mod external;
pub mod generation_sizes;
pub mod generations;
pub mod giving_back;
pub mod in_place;
pub mod nursery;
pub mod sharing;
pub mod sliding;
pub mod unused;
pub mod young_size;
pub mod zeroing;
