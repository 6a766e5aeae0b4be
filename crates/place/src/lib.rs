//! Which threads of a managed program run on which processors (Sartor and Eeckhout, OOPSLA 2012).
//!
//! Every thread of a runtime has a [`Role`]. A policy is a pure function, [`decide`], of a [`Machine`], the threads and
//! the [`Settings`]: it answers with the processors of each thread and the reason. [`Follower`] finds the threads of a
//! program that knows nothing of this, recognises their roles by the names that the kernel keeps, and applies what was
//! decided.
#![forbid(unsafe_code)]

mod energy;
mod files;
mod follow;
mod habits;
#[cfg(test)]
mod likeness;
mod machine;
mod policy;
mod processors;
mod roles;
mod runtimes;
mod settings;
mod speed;
mod usage;
mod words;

pub use energy::Energy;
pub use files::Files;
pub use follow::{
    Follower, Placed, Refusals, confined, has_children, put_back_threads, put_back_threads_left,
    release,
};
pub use habits::Habit;
pub use machine::{Machine, Processor};
pub use policy::{Decision, Plan, Thread, ThreadId, decide, lack, within_limits};
pub use processors::Processors;
pub use roles::{Naming, Role, Roles};
pub use runtimes::{Hotspot, Told, keep_count, told};
pub use settings::{Placement, Settings, SettingsError, Unit};
pub use speed::{
    Change, Domain, Frequencies, Seen, Share, Slow, SlowBy, SlowWhen, Speed, Writer, frequencies,
    put_back, put_back_left, share,
};
pub use usage::{Usage, Usages, seconds_of_ended, time_of_process};
