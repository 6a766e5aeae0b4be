//! What the threads of a managed program are for.

use core::fmt;
use core::str::FromStr;

/// What a thread of a managed program is for (OOPSLA 2012, sections 3.1 and 4.2, with the roles that other runtimes have).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Runs the program. What is not recognised as anything else has this role.
    Application,
    /// Runs the program's `main`.
    Main,
    /// Collects garbage, in the stopped world or beside the program.
    Collector,
    /// Zeroes memory before it is allocated.
    Zeroing,
    /// Compiles.
    Compiler,
    /// Decides what is compiled, and replaces what runs.
    Organizer,
    /// Takes samples.
    Profiler,
    /// Wakes at times.
    Timer,
    /// Runs finalizers and what is done with references.
    Finalizer,
    /// Serves the runtime otherwise: its operations, signals, agents.
    Vm,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 10] = [
        Role::Application,
        Role::Main,
        Role::Collector,
        Role::Zeroing,
        Role::Compiler,
        Role::Organizer,
        Role::Profiler,
        Role::Timer,
        Role::Finalizer,
        Role::Vm,
    ];

    /// Its name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Application => "application",
            Role::Main => "main",
            Role::Collector => "collector",
            Role::Zeroing => "zeroing",
            Role::Compiler => "compiler",
            Role::Organizer => "organizer",
            Role::Profiler => "profiler",
            Role::Timer => "timer",
            Role::Finalizer => "finalizer",
            Role::Vm => "vm",
        }
    }

    /// The name of threads that registered it, as far as the kernel keeps one, with zeroes behind it: `gleaner-compile`.
    pub fn thread_name(self) -> [u8; 16] {
        let mut name = *b"gleaner-\0\0\0\0\0\0\0\0";
        name[8..].copy_from_slice(&ENDS[self as usize]);
        name
    }

    /// The role of a thread by its name: one that it registered, or that of the program.
    pub fn of_thread_name(name: &str) -> Role {
        let named = |role: &Role| {
            let kept = role.thread_name();
            kept[..].starts_with(name.as_bytes())
                && kept[name.len()..].iter().all(|&byte| byte == 0)
        };
        let found = Role::ALL.into_iter().find(named);
        found.unwrap_or(Role::Application)
    }
}

/// What the kernel keeps of the names of roles behind `gleaner-`; small, for embedders that are.
const ENDS: [[u8; 8]; Role::ALL.len()] = {
    let mut ends = [[0; 8]; Role::ALL.len()];
    let mut role = 0;
    while role < ends.len() {
        let name = Role::ALL[role].name().as_bytes();
        let mut byte = 0;
        while byte < name.len() && byte < 7 {
            ends[role][byte] = name[byte];
            byte += 1;
        }
        role += 1;
    }
    ends
};

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Role, UnknownRole> {
        let found = Role::ALL.into_iter().find(|role| role.name() == text);
        found.ok_or(UnknownRole)
    }
}

/// A name that no role has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownRole;

impl fmt::Display for UnknownRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such role; there are ")?;
        for (index, role) in Role::ALL.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{role}")?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownRole {}
