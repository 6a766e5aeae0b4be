//! Why a pin, or a range of conservative words, is refused.

use core::fmt;

use gleaner_mem::Address;

/// Words of native code, each of which may point into an object: a native stack, or saved registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordRange {
    /// The first word.
    pub start: Address,
    /// How many there are, of 8 bytes.
    pub words: usize,
    /// Where the program keeps the address of the lowest word that counts, as a stack pointer, or null if all do. It is read in
    /// each collection; below the start it means the start, behind the end no word.
    pub lowest: Address,
}

impl WordRange {
    /// Bytes of a word.
    pub const WORD: usize = 8;
}

/// Why a pin is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PinError {
    /// The value is null or an immediate.
    NoObject,
    /// No object of this heap can lie there.
    Foreign,
    /// The array lies in pieces.
    Pieces,
    /// Option `quarantine` moves all objects of the nursery away from where they were.
    Quarantine,
    /// There is no pin that could be taken back.
    NotPinned,
    /// The system gives no memory for another pin.
    Memory,
}

impl fmt::Display for PinError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            PinError::NoObject => "null and integers are no objects, and cannot be pinned",
            PinError::Foreign => "the address is not that of an object of this heap",
            PinError::Pieces => {
                "an array in pieces has no one address that could be kept: allocate it with a type that is excluded from \
                 being cut, or as a pinned one"
            }
            PinError::Quarantine => {
                "under quarantine every young object moves: pin only in runs without this option, or allocate the object \
                 as a pinned one"
            }
            PinError::NotPinned => "the object is not pinned: each pin is taken back once",
            PinError::Memory => "the system gives no memory for another pin",
        })
    }
}

impl core::error::Error for PinError {}

/// Why a range of words is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordRangeError {
    /// It begins at null, has no words, or reaches beyond the addresses that there are.
    Empty,
    /// Its start or `lowest` is not aligned to words.
    Unaligned,
    /// Another range begins there.
    Twice,
    /// No range begins there.
    Unknown,
    /// Option `quarantine` is set.
    Quarantine,
    /// The heap cuts arrays.
    Pieces,
    /// The system gives no memory for what the words may lead to.
    Memory,
}

impl fmt::Display for WordRangeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            WordRangeError::Empty => {
                "a range of words has a start that is not null and at least one word, and ends at an address"
            }
            WordRangeError::Unaligned => {
                "the start of a range of words, and the place of its lowest word's address, are multiples of 8"
            }
            WordRangeError::Twice => {
                "a range of words that begins there is registered already: unregister that one first"
            }
            WordRangeError::Unknown => {
                "no registered range of words begins there: it was never registered, or was unregistered already"
            }
            WordRangeError::Quarantine => {
                "under quarantine every young object moves, so none can stay for a word: run without this option"
            }
            WordRangeError::Pieces => {
                "a word that leads into a piece of an array does not tell which array: use arrays=contiguous"
            }
            WordRangeError::Memory => {
                "the system gives no memory for what the words of another range may lead to"
            }
        })
    }
}

impl core::error::Error for WordRangeError {}
