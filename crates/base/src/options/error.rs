//! The error of a bad option: it names the input, the nearest valid name or value, and what is accepted.
#![forbid(unsafe_code)]

use core::fmt;

use super::accepted::{Problem, Size};
use super::idle::{IdleError, Time};
use super::{Accepted, HeapKind, Pages, TABLE, rows};
use crate::faults::{FaultError, FaultPoint};

/// Why an option was refused. It borrows the refused text and prints without allocating.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionError<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a str,
    /// The heap that it was for, if that was said.
    pub(super) kind: Option<HeapKind>,
    pub(super) problem: Problem<'a>,
}

impl<'a> OptionError<'a> {
    /// The option's name as it was given.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// What is wrong, without the list of accepted values.
    fn complaint(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value) = (self.name, self.value);
        match self.problem {
            Problem::UnknownName => write!(out, "unknown option '{name}'"),
            Problem::OtherHeap(kind) => write!(
                out,
                "option {name} does not serve the {} heap; leave it out here (`gleaner options` says which heap an \
                 option serves)",
                kind.as_str()
            ),
            Problem::NoValue => write!(out, "option {name} needs a value: write {name}=VALUE"),
            Problem::UnknownValue if self.cuts_the_old_space() => write!(
                out,
                "option {name} cannot be '{value}': old objects slide together, across the borders of all fragments"
            ),
            Problem::UnknownValue => write!(out, "option {name} cannot be '{value}'"),
            Problem::NotANumber => {
                write!(out, "option {name}: '{value}' is not a whole number")
            }
            Problem::NotASize => write!(
                out,
                "option {name}: '{value}' is not a size (digits, then k, m, g, t or nothing)"
            ),
            Problem::Idle(IdleError::NotATime) => write!(
                out,
                "option {name}: '{value}' is not a time (digits, then ms, s, m or h)"
            ),
            Problem::Overflow | Problem::Idle(IdleError::Overflow) => {
                write!(out, "option {name}: {value} is too large to represent")
            }
            Problem::Number(number) => write!(out, "option {name}: {number} is out of range"),
            Problem::Bytes(bytes) => {
                write!(out, "option {name}: {bytes} bytes is out of range")
            }
            Problem::Idle(IdleError::OutOfRange(time)) => {
                write!(out, "option {name}: {time} is out of range")
            }
            Problem::NotAPowerOfTwo(number) => {
                write!(out, "option {name}: {number} is not a power of two")
            }
            Problem::PathTooLong => {
                write!(out, "option {name}: this path has {} bytes", value.len())
            }
            Problem::PathCharacter => write!(
                out,
                "option {name}: '{value}' has a comma, which separates options"
            ),
            Problem::Fault(FaultError::UnknownPoint(point)) => {
                write!(out, "option {name}: unknown fault point '{point}'")
            }
            Problem::Fault(FaultError::BadVisit(item)) => write!(
                out,
                "option {name}: '{item}' needs @ and a visit number from 1 to {}",
                u32::MAX
            ),
            Problem::Machine(error) => write!(out, "option {name}: {error}"),
            Problem::OfPieces => write!(
                out,
                "option {name} has no effect where all arrays are in one piece (arrays=contiguous): leave it out, or \
                 choose how arrays are cut with arrays=zray, perf-zray or naive"
            ),
            Problem::Exceeds {
                value,
                other,
                limit,
            } => write!(
                out,
                "option {name}={} ({value} bytes) exceeds {other}={} ({limit} bytes)",
                Size(value),
                Size(limit)
            ),
        }
    }

    /// Whether a policy that the young spaces have was asked for where there is none.
    fn cuts_the_old_space(&self) -> bool {
        self.name == "old-pages" && Pages::NAMES.contains(&self.value)
    }

    /// What the option accepts, for each heap that it could be for; nothing when the name is unknown.
    fn accepted(&self) -> impl Iterator<Item = Accepted> {
        rows(self.name, self.kind).map(|info| info.accepted)
    }

    /// The valid text that is nearest to the bad one.
    fn nearest(&self) -> Option<Nearest> {
        let words = self.accepted().flat_map(|accepted| match accepted {
            Accepted::Choice(words) => words,
            _ => &[],
        });
        match (self.problem, self.accepted().next()) {
            (Problem::UnknownName, _) => {
                nearest(self.name, TABLE.iter().map(|info| info.name)).map(Nearest::Word)
            }
            (Problem::UnknownValue, Some(Accepted::Choice(_))) if !self.cuts_the_old_space() => {
                nearest(self.value, words.copied()).map(Nearest::Word)
            }
            (Problem::Fault(FaultError::UnknownPoint(point)), _) => {
                nearest(point, FaultPoint::NAMES.into_iter()).map(Nearest::Word)
            }
            (Problem::Number(number), Some(Accepted::Number { least, most, .. })) => {
                Some(Nearest::Number(number.clamp(least, most)))
            }
            (Problem::NotAPowerOfTwo(number), Some(Accepted::Number { most, .. })) => {
                Some(Nearest::Number(nearest_power_of_two(number, most)))
            }
            (Problem::Bytes(bytes), Some(Accepted::Size { least, most, .. })) => {
                Some(Nearest::Bytes(bytes.clamp(least, most)))
            }
            (Problem::Idle(IdleError::OutOfRange(time)), _) => {
                Some(Nearest::Time(time.clamp(Time::LEAST, Time::MOST)))
            }
            _ => None,
        }
    }
}

impl fmt::Display for OptionError<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.complaint(out)?;
        match self.nearest() {
            Some(Nearest::Word(word)) => write!(out, "; the nearest is '{word}'")?,
            Some(Nearest::Number(number)) => write!(out, "; the nearest is {number}")?,
            Some(Nearest::Time(time)) => write!(out, "; the nearest is {time}")?,
            Some(Nearest::Bytes(bytes)) => {
                write!(out, "; the nearest is {} ({bytes} bytes)", Size(bytes))?
            }
            None => {}
        }
        match self.problem {
            Problem::UnknownName => {
                out.write_str("; `gleaner options --all` and docs/options.md have all names")
            }
            Problem::Exceeds { .. } | Problem::OtherHeap(_) | Problem::OfPieces => Ok(()),
            _ => {
                let mut separator = "; accepted: ";
                for accepted in self.accepted() {
                    write!(out, "{separator}{accepted}")?;
                    separator = ", or for the other heap ";
                }
                Ok(())
            }
        }
    }
}

impl core::error::Error for OptionError<'_> {}

/// A suggestion.
enum Nearest {
    Word(&'static str),
    Number(u32),
    Bytes(usize),
    Time(Time),
}

/// The power of two nearest to `number` and not above `most`; the smaller one when both are as near.
fn nearest_power_of_two(number: u32, most: u32) -> u32 {
    let above = number.next_power_of_two();
    let below = (above / 2).max(1);
    if above > most || number.abs_diff(below) <= above - number {
        below
    } else {
        above
    }
}

/// The word with the least edit distance to `text`; the first of them when several are as near.
pub fn nearest<'w>(text: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    words.min_by_key(|word| edit_distance(text.as_bytes(), word.as_bytes()))
}

/// Longest text that is compared; what is beyond counts as one edit a byte.
const COMPARED: usize = 40;

/// How many bytes must be inserted, removed or replaced to turn `from` into `to` (two rows of the usual table). Upper and lower case
/// are the same.
fn edit_distance(from: &[u8], to: &[u8]) -> usize {
    let beyond = from.len().saturating_sub(COMPARED) + to.len().saturating_sub(COMPARED);
    let from = &from[..from.len().min(COMPARED)];
    let to = &to[..to.len().min(COMPARED)];
    let mut row: [usize; COMPARED + 1] = core::array::from_fn(|column| column);
    for (index, byte) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for column in 0..to.len() {
            let replaced = diagonal + usize::from(!byte.eq_ignore_ascii_case(&to[column]));
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()] + beyond
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_counts_edits() {
        assert_eq!(edit_distance(b"Tree", b"tREES"), 1);
        assert_eq!(edit_distance(b"", b"abc"), 3);
        assert_eq!(edit_distance(b"kitten", b"sitting"), 3);
        assert_eq!(edit_distance(b"same", b"same"), 0);
        assert_eq!(edit_distance(&[b'a'; 100], b""), 100);
    }

    #[test]
    fn nearest_power_of_two_stays_in_range() {
        assert_eq!(nearest_power_of_two(3, 64), 2);
        assert_eq!(nearest_power_of_two(7, 64), 8);
        assert_eq!(nearest_power_of_two(12, 64), 8);
        assert_eq!(nearest_power_of_two(63, 32), 32);
    }
}
