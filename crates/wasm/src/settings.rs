//! How an engine compiles, and what it has compiled.

use std::time::Duration;

/// When functions are compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compile {
    /// Each function when it is first called. Direct calls go through a table of addresses.
    #[default]
    Lazy,
    /// All functions when their module is loaded. Direct calls within a module know where they lead.
    Eager,
}

/// How an engine compiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Whether each function is verified when it is compiled: by the rules of the code generator, and by the proof that no
    /// reference is out of sight of the collector across a call. A function that fails ends with a panic.
    pub checks: bool,
    /// When functions are compiled.
    pub compile: Compile,
    /// The most bytes of compiled code: 1 GiB by default, and at most. A module that needs more when it is loaded is
    /// refused; a call whose function finds no more room ends with [`Trap::Host`](crate::Trap::Host).
    pub code_limit: usize,
}

/// What any code can take: distances within it have 32 bits.
pub(crate) const MOST_CODE_BYTES: usize = 1 << 30;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            checks: false,
            compile: Compile::default(),
            code_limit: MOST_CODE_BYTES,
        }
    }
}

/// What an engine has compiled so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compilation {
    /// Functions of the modules that were loaded. What they import does not count.
    pub functions: usize,
    /// Those of them that were compiled.
    pub compiled: usize,
    /// How long the compiler ran, also for calls between host and program.
    pub time: Duration,
}
