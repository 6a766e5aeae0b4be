//! Heaps as most tests have them: slot formats, policies of the old generation, and a heap that checks itself.

use gleaner::{Builder, Crew, Heap, OldPolicy, References};

/// Both slot formats.
pub const FORMATS: [References; 2] = [References::Wide, References::Compressed];

/// A slot format, and what the old generation does.
pub type Setup = (References, OldPolicy);

/// Each slot format with each policy.
pub const SETUPS: [Setup; 6] = [
    (References::Wide, OldPolicy::MarkCompact),
    (References::Compressed, OldPolicy::MarkCompact),
    (References::Wide, OldPolicy::MarkSweep),
    (References::Compressed, OldPolicy::MarkSweep),
    (References::Wide, OldPolicy::MarkRegion),
    (References::Compressed, OldPolicy::MarkRegion),
];

/// A heap of that limit that verifies and poisons, and whose two workers take part in each collection.
pub fn checked(limit: usize) -> Builder {
    Heap::builder()
        .limit(limit)
        .workers(2)
        .crew(Crew::All)
        .verify(true)
        .poison(true)
}

/// The same under a setup.
pub fn checked_under((references, old): Setup, limit: usize) -> Builder {
    checked(limit).references(references).old(old)
}
