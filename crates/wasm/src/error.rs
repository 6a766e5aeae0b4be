//! What can go wrong: with a module's bytes, with its imports, and while it runs.

use std::fmt;

use gleaner::BuildError;

use crate::values::Object;

/// Why a module is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// The bytes are no valid module.
    Invalid {
        /// What is wrong.
        message: String,
        /// Where, in bytes from the start of the module.
        offset: u64,
    },
    /// It uses a proposal that this engine does not have.
    Unsupported {
        /// The proposal's name.
        proposal: &'static str,
        /// Where, in bytes from the start of the module.
        offset: u64,
    },
    /// It is a component, which has modules inside.
    Component,
    /// It exceeds a limit of this engine.
    TooLarge(String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Invalid { message, offset } => {
                write!(
                    out,
                    "not a valid WebAssembly module: {message} (at offset {offset:#x}); compile it anew, or copy it whole"
                )
            }
            LoadError::Unsupported { proposal, offset } => write!(
                out,
                "the module uses {proposal} (at offset {offset:#x}), which this engine does not have: compile it \
                 without"
            ),
            LoadError::Component => out.write_str(
                "it is a component (WASI 0.2), and this engine runs modules (WASI preview 1): compile it for wasm32-wasip1, \
                 or wasm-wasi in Kotlin",
            ),
            LoadError::TooLarge(what) => {
                write!(out, "the module exceeds a limit of this engine: {what}")
            }
        }
    }
}

impl std::error::Error for LoadError {}

/// Why an engine is not made.
#[derive(Debug)]
pub enum EngineError {
    /// The heap's options are wrong, or the system refused its memory.
    Heap(BuildError),
    /// The options of the heap ask for something that compiled code does not follow.
    Options(String),
    /// The heap has no room for its first mutator or types.
    Full(String),
}

impl fmt::Display for EngineError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineError::Heap(error) => error.fmt(out),
            EngineError::Options(message) | EngineError::Full(message) => out.write_str(message),
        }
    }
}

impl std::error::Error for EngineError {}

/// Why a module is not instantiated.
#[derive(Debug)]
pub enum InstantiateError {
    /// Imports are missing or of another type: one line for each.
    Link(Vec<String>),
    /// The system gives no memory for a memory or table of the module.
    NoMemory(String),
    /// An initializer or the start function trapped.
    Trap(Trap),
}

impl fmt::Display for InstantiateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstantiateError::Link(lines) => {
                write!(out, "imports do not fit: {}", lines.join("; "))
            }
            InstantiateError::NoMemory(what) => write!(out, "no memory for {what}"),
            InstantiateError::Trap(trap) => trap.fmt(out),
        }
    }
}

impl std::error::Error for InstantiateError {}

/// Declares the kinds of traps with their texts; compiled code passes a kind by its number.
macro_rules! trap_kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)+) => {
        /// Why a program was stopped.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u32)]
        pub enum TrapKind { $($(#[$doc])* $name,)+ }

        impl TrapKind {
            const ALL: &'static [TrapKind] = &[$(TrapKind::$name,)+];

            /// What the specification's tests call it.
            pub fn text(self) -> &'static str {
                match self { $(TrapKind::$name => $text,)+ }
            }
        }
    };
}

trap_kinds! {
    /// An `unreachable` instruction was reached.
    Unreachable = "unreachable",
    /// An integer was divided by zero.
    DivisionByZero = "integer divide by zero",
    /// The result of an integer operation does not fit.
    IntegerOverflow = "integer overflow",
    /// A NaN was converted to an integer.
    InvalidConversion = "invalid conversion to integer",
    /// An access to a linear memory, or a data segment, ends beyond its end.
    MemoryBounds = "out of bounds memory access",
    /// An access to a table, or an element segment, ends beyond its end.
    TableBounds = "out of bounds table access",
    /// An indirect call of an element that a table does not have.
    UndefinedElement = "undefined element",
    /// An indirect call of a null element.
    UninitializedElement = "uninitialized element",
    /// An indirect call of a function of another type.
    IndirectCallType = "indirect call type mismatch",
    /// Access to a structure, array, function or exception through null.
    NullReference = "null reference",
    /// A reference was cast to a type that its object does not have.
    CastFailure = "cast failure",
    /// An access to an array ends beyond its end.
    ArrayBounds = "out of bounds array access",
    /// The thread's stack is used up.
    StackOverflow = "call stack exhausted",
    /// The heap is full after collecting everything.
    OutOfMemory = "out of memory",
}

impl TrapKind {
    /// The kind with this number, as compiled code passed it.
    pub(crate) fn from_number(number: u32) -> TrapKind {
        TrapKind::ALL[number as usize]
    }
}

/// An exception that nothing caught.
#[derive(Clone, Debug)]
pub struct Thrown {
    /// The exception, with its payload.
    pub exception: Object,
    /// The text that its payload leads to, if there is one: in Kotlin, the message.
    pub text: Option<String>,
    /// The functions that were active, innermost first.
    pub backtrace: Vec<String>,
}

impl fmt::Display for Thrown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an exception was not caught")?;
        if let Some(text) = &self.text {
            write!(out, ": {text}")?;
        }
        self.backtrace
            .iter()
            .try_for_each(|function| write!(out, "\n    in {function}"))
    }
}

/// How a call ended that did not return.
#[derive(Clone, Debug)]
pub enum Trap {
    /// The program did what traps.
    Program {
        /// What it did.
        kind: TrapKind,
        /// Where, in bytes from the start of the module; `None` where no instruction did it.
        offset: Option<u32>,
        /// The functions that were active, innermost first.
        backtrace: Vec<String>,
    },
    /// An exception that nothing caught.
    Exception(Thrown),
    /// The program ended itself by a host function, with this status.
    Exit(u32),
    /// A host function answered with an error, a call from the host does not fit, or a function that was called for the first
    /// time exceeds a limit of the engine.
    Host(String),
}

impl Trap {
    /// A trap that no instruction caused.
    pub(crate) fn outside(kind: TrapKind) -> Trap {
        Trap::Program {
            kind,
            offset: None,
            backtrace: Vec::new(),
        }
    }

    /// What the program did, if it was the program.
    pub fn kind(&self) -> Option<TrapKind> {
        match self {
            Trap::Program { kind, .. } => Some(*kind),
            Trap::Exception(_) | Trap::Exit(_) | Trap::Host(_) => None,
        }
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trap::Program {
                kind,
                offset,
                backtrace,
            } => {
                write!(out, "trap: {}", kind.text())?;
                if let Some(offset) = offset {
                    write!(out, " (at offset {offset:#x})")?;
                }
                backtrace
                    .iter()
                    .try_for_each(|function| write!(out, "\n    in {function}"))
            }
            Trap::Exception(thrown) => thrown.fmt(out),
            Trap::Exit(status) => write!(out, "the program ended itself with status {status}"),
            Trap::Host(message) => out.write_str(message),
        }
    }
}

impl std::error::Error for Trap {}
