//! What a copy between arrays copies: ranges of bytes, and what the elements in them are.

use super::element::Number;

/// What is copied, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Copied {
    /// Slots.
    Slots,
    /// Numbers of 2^this bytes, which no other thread uses meanwhile.
    Numbers(u32),
    /// Numbers of 2^this bytes, which other threads may use: they find the old value or the new.
    SharedNumbers(u32),
}

impl Copied {
    /// Numbers that no other thread uses.
    pub const fn numbers<T: Number>() -> Copied {
        Copied::Numbers(T::BYTES.trailing_zeros())
    }

    /// Numbers that other threads may use.
    pub const fn shared_numbers<T: Number>() -> Copied {
        Copied::SharedNumbers(T::BYTES.trailing_zeros())
    }
}

/// `bytes` bytes, from offset `from` of one array to offset `to` of another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub from: usize,
    pub to: usize,
    pub bytes: usize,
}

impl Range {
    /// The part that begins `before` bytes behind its start and has `bytes` bytes.
    pub fn part(self, (before, bytes): (usize, usize)) -> Range {
        Range {
            from: self.from + before,
            to: self.to + before,
            bytes,
        }
    }

    /// What lies before a part, and behind it.
    pub fn without(self, part: Option<(usize, usize)>) -> [Range; 2] {
        let (before, bytes) = part.unwrap_or((self.bytes, 0));
        let behind = before + bytes;
        [(0, before), (behind, self.bytes - behind)].map(|part| self.part(part))
    }
}
