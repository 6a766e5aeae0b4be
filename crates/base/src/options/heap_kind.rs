//! The kinds of heaps that an option may serve.
#![forbid(unsafe_code)]

/// The kinds of heaps that a process may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeapKind {
    /// The one behind `libgc.so.1`.
    Libgc,
    /// Those of the native door.
    Precise,
}

impl HeapKind {
    /// The name that the docs use.
    pub const fn as_str(self) -> &'static str {
        match self {
            HeapKind::Libgc => "libgc",
            HeapKind::Precise => "precise",
        }
    }
}

/// Which heaps an option serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Serves {
    /// The libgc heap alone.
    Libgc,
    /// The precise heap alone.
    Precise,
    /// Either.
    Both,
}

impl Serves {
    /// The name that the docs use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Serves::Libgc => HeapKind::Libgc.as_str(),
            Serves::Precise => HeapKind::Precise.as_str(),
            Serves::Both => "both",
        }
    }

    /// Whether heaps of that kind are served.
    pub const fn includes(self, kind: HeapKind) -> bool {
        match self {
            Serves::Libgc => matches!(kind, HeapKind::Libgc),
            Serves::Precise => matches!(kind, HeapKind::Precise),
            Serves::Both => true,
        }
    }

    /// Whether heaps of that kind are served; any for `None`.
    pub(super) const fn is_for(self, kind: Option<HeapKind>) -> bool {
        match kind {
            Some(kind) => self.includes(kind),
            None => true,
        }
    }
}
