//! Objects that keep their places for a while: those that the program has pinned, and those that words of native code lead
//! to, its conservative roots.
//!
//! A pin keeps the place of an object and not its life; pins of one object are counted. A conservative word keeps both, for
//! one collection, and may point anywhere into an object. When the world has stopped and before anything moves, the leader
//! looks up what all words lead to (`words`). Together with what is pinned these objects are *kept*, in a sorted list
//! that workers ask ([`table`]). Then
//!
//! - a scavenge forwards a kept object of the nursery to itself, and copies all around it. What is free between such
//!   objects afterwards are gaps of eden, where mutators go on (`stayed`), and eden grows by what they take;
//! - a block of lines in which a kept object lies is not evacuated, but filled line by line as others are;
//! - a collection of new objects in place moves nothing anyway;
//! - nothing is slid. A collection of everything under `old=mark-compact` frees in place, as under `old=mark-sweep`, or, in a
//!   forked child whose holes are free lines, as under `old=mark-region`. What finds no room stays in the nursery, since
//!   there is no sliding that would make some.
//!
//! A word keeps the object that it hits in its place, and not all of the page (as in Bartlett's WRL 88/2); start bits are the object
//! map of Shahriyar, Blackburn and McKinley (OOPSLA 2014).
//!
//! An object that never moves needs no entry. While an object is kept in a survivor space, scavenges promote everything.
//!
//! # Invariants
//! - A kept object has the same address before and after each collection.
//! - Pins of objects that died are forgotten in the collection that finds them dead: before another object lies there.

pub mod errors;
mod sorted;
mod stayed;
pub mod table;
mod words;
