//! Memory nodes (ASPLOS 2013): where pages lie, which worker scavenges which node's objects, and what is counted of that.

pub mod locality;
pub(super) mod lockstep;
mod pages;
pub(super) mod segregated;
