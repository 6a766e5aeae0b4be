//! What an option accepts: kinds of values, how their text is read, and how they print.
//!
//! Text that prints is text that can be read back: `Shown` of a value parses to the same value.
#![forbid(unsafe_code)]

use core::fmt;

use super::heap_kind::HeapKind;
use super::idle::{Idle, IdleError, Time};
use super::machine::{MOST_NODES, MOST_PROCESSORS, Machine, MachineError, synthetic};
use crate::faults::{FaultError, FaultPlan, FaultPoint};

/// The values that an option accepts. Prints as the docs and the errors show them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accepted {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number.
    Number {
        /// The least value besides a 0 that has a meaning.
        least: u32,
        /// The greatest value.
        most: u32,
        /// Only powers of two.
        power_of_two: bool,
        /// What 0 means; empty when it means itself.
        zero: &'static str,
    },
    /// A number of bytes, with a suffix k, m, g or t for powers of 1024; 0 is always accepted.
    Size {
        /// The least value besides 0.
        least: usize,
        /// The greatest value.
        most: usize,
        /// What 0 means.
        zero: &'static str,
    },
    /// `none`, or a file's path of at most this many bytes.
    Path(usize),
    /// `none`, or fault points with visit numbers.
    Faults,
    /// `host`, or a synthetic machine in hwloc's notation.
    Machine,
    /// `off`, a time without allocations, or `collect`.
    Idle,
}

impl fmt::Display for Accepted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Accepted::Choice(words) => write_joined(out, words, "|"),
            Accepted::Number {
                least,
                most,
                power_of_two,
                zero,
            } => {
                write!(out, "{least}..{most}")?;
                if power_of_two {
                    out.write_str(", a power of two")?;
                }
                if !zero.is_empty() {
                    write!(out, " (0: {zero})")?;
                }
                Ok(())
            }
            Accepted::Size { least, most, zero } => {
                write!(out, "{}..{} or 0 (0: {zero})", Size(least), Size(most))
            }
            Accepted::Path(longest) => write!(out, "none|PATH of at most {longest} bytes"),
            Accepted::Faults => {
                out.write_str("none|NAME@VISIT+... with NAME one of ")?;
                write_joined(out, &FaultPoint::NAMES, ", ")
            }
            Accepted::Machine => write!(
                out,
                "host|node:N core:C pu:P with N at most {MOST_NODES}, N*C*P at most {MOST_PROCESSORS}, and 1 for what \
                 is left out"
            ),
            Accepted::Idle => {
                let (least, most) = (Time::LEAST, Time::MOST);
                write!(
                    out,
                    "off|TIME|collect|collect@TIME with TIME from {least} to {most}, such as 1s"
                )
            }
        }
    }
}

/// Writes the words with `separator` between them.
pub(super) fn write_joined(
    out: &mut fmt::Formatter<'_>,
    words: &[&str],
    separator: &str,
) -> fmt::Result {
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            out.write_str(separator)?;
        }
        out.write_str(word)?;
    }
    Ok(())
}

/// A number of bytes that prints with the largest suffix that loses nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size(pub usize);

/// The suffixes and what they multiply by (as a shift), largest first.
const SUFFIXES: [(char, u32); 4] = [('t', 40), ('g', 30), ('m', 20), ('k', 10)];

impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (suffix, shift) in SUFFIXES {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(out, "{}{suffix}", self.0 >> shift);
            }
        }
        write!(out, "{}", self.0)
    }
}

/// The value of an option, to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown<'a> {
    /// A word or a path.
    Word(&'a str),
    /// A number.
    Number(u32),
    /// A number of bytes.
    Bytes(Size),
    /// Fault points.
    Faults(FaultPlan),
    /// A machine.
    Machine(Machine),
    /// What is done in idle time.
    Idle(Idle),
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shown::Word(word) => out.pad(word),
            Shown::Number(number) => number.fmt(out),
            Shown::Bytes(size) => size.fmt(out),
            Shown::Faults(plan) => plan.fmt(out),
            Shown::Machine(machine) => machine.fmt(out),
            Shown::Idle(idle) => idle.fmt(out),
        }
    }
}

/// What is wrong with a value, or with an option's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Problem<'a> {
    UnknownName,
    /// The option does not serve heaps of this kind.
    OtherHeap(HeapKind),
    NoValue,
    UnknownValue,
    NotANumber,
    NotASize,
    Overflow,
    Number(u32),
    Bytes(usize),
    Idle(IdleError),
    NotAPowerOfTwo(u32),
    PathTooLong,
    PathCharacter,
    Fault(FaultError<'a>),
    Machine(MachineError<'a>),
    /// The option says something of arrays in pieces, and all arrays are in one.
    OfPieces,
    /// The value, in bytes, exceeds that of another option, so both cannot hold.
    Exceeds {
        value: usize,
        other: &'static str,
        limit: usize,
    },
}

/// A type that an option's value can have.
pub(super) trait OptionValue: Sized {
    fn parse<'a>(text: &'a str, accepted: &Accepted) -> Result<Self, Problem<'a>>;
    fn shown(&self) -> Shown<'_>;
}

/// Accepted values of a switch.
pub(super) const SWITCH: Accepted = Accepted::Choice(&["off", "on"]);

impl OptionValue for bool {
    fn parse<'a>(text: &'a str, _: &Accepted) -> Result<bool, Problem<'a>> {
        match text {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(Problem::UnknownValue),
        }
    }

    fn shown(&self) -> Shown<'_> {
        Shown::Word(if *self { "on" } else { "off" })
    }
}

impl OptionValue for u32 {
    fn parse<'a>(text: &'a str, accepted: &Accepted) -> Result<u32, Problem<'a>> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Problem::NotANumber);
        }
        let value: u32 = text.parse().map_err(|_| Problem::Overflow)?;
        match *accepted {
            Accepted::Number { zero, .. } if value == 0 && !zero.is_empty() => Ok(value),
            Accepted::Number { least, most, .. } if value < least || value > most => {
                Err(Problem::Number(value))
            }
            Accepted::Number {
                power_of_two: true, ..
            } if !value.is_power_of_two() => Err(Problem::NotAPowerOfTwo(value)),
            _ => Ok(value),
        }
    }

    fn shown(&self) -> Shown<'_> {
        Shown::Number(*self)
    }
}

impl OptionValue for usize {
    fn parse<'a>(text: &'a str, accepted: &Accepted) -> Result<usize, Problem<'a>> {
        let value = parse_size(text)?;
        match *accepted {
            Accepted::Size { least, most, .. } if value != 0 && (value < least || value > most) => {
                Err(Problem::Bytes(value))
            }
            _ => Ok(value),
        }
    }

    fn shown(&self) -> Shown<'_> {
        Shown::Bytes(Size(*self))
    }
}

impl OptionValue for Machine {
    fn parse<'a>(text: &'a str, _: &Accepted) -> Result<Machine, Problem<'a>> {
        match text.trim_ascii() {
            "host" => Ok(Machine::Host),
            "" => Err(Problem::NoValue),
            text => synthetic(text)
                .map(Machine::Synthetic)
                .map_err(Problem::Machine),
        }
    }

    fn shown(&self) -> Shown<'_> {
        Shown::Machine(*self)
    }
}

impl OptionValue for Idle {
    fn parse<'a>(text: &'a str, _: &Accepted) -> Result<Idle, Problem<'a>> {
        Idle::parse(text).map_err(Problem::Idle)
    }

    fn shown(&self) -> Shown<'_> {
        Shown::Idle(*self)
    }
}

impl OptionValue for FaultPlan {
    fn parse<'a>(text: &'a str, _: &Accepted) -> Result<FaultPlan, Problem<'a>> {
        FaultPlan::parse(text).map_err(Problem::Fault)
    }

    fn shown(&self) -> Shown<'_> {
        Shown::Faults(*self)
    }
}

/// Reads digits with an optional suffix in either case.
fn parse_size<'a>(text: &str) -> Result<usize, Problem<'a>> {
    let (digits, shift) = SUFFIXES
        .iter()
        .find_map(|&(suffix, shift)| {
            let upper = suffix.to_ascii_uppercase();
            text.strip_suffix([suffix, upper]).map(|rest| (rest, shift))
        })
        .unwrap_or((text, 0));
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::NotASize);
    }
    let number: usize = digits.parse().map_err(|_| Problem::Overflow)?;
    number.checked_mul(1 << shift).ok_or(Problem::Overflow)
}
