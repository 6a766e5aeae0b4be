//! After how long without an allocation a heap counts as idle, and how that is written: `off`, a time such as `1s`, or `collect`.
//!
//! A time prints with the largest unit that loses nothing, and reads back as the same time.
#![forbid(unsafe_code)]

use core::fmt;

/// What is done in idle time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idle {
    /// Nothing.
    Off,
    /// After this time without an allocation unused memory goes back, and where nobody notices it the heap is collected.
    After(Time),
    /// As well, even where the program can notice it.
    Collect(Time),
}

impl Idle {
    /// Reads `off`, a time, `collect`, or `collect@` and a time.
    pub fn parse(text: &str) -> Result<Idle, IdleError> {
        match text {
            "off" => Ok(Idle::Off),
            COLLECT => Ok(Idle::Collect(Time::USUAL)),
            text => match text
                .strip_prefix(COLLECT)
                .and_then(|it| it.strip_prefix('@'))
            {
                Some(time) => Time::parse(time).map(Idle::Collect),
                None => Time::parse(text).map(Idle::After),
            },
        }
    }

    /// How many nanoseconds without an allocation make a program idle; `None` if nobody asks.
    pub const fn after_ns(self) -> Option<u64> {
        match self {
            Idle::Off => None,
            Idle::After(Time(milliseconds)) | Idle::Collect(Time(milliseconds)) => {
                Some(milliseconds as u64 * 1_000_000)
            }
        }
    }
}

impl fmt::Display for Idle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Idle::Off => out.write_str("off"),
            Idle::After(time) => time.fmt(out),
            Idle::Collect(Time::USUAL) => out.write_str(COLLECT),
            Idle::Collect(time) => write!(out, "{COLLECT}@{time}"),
        }
    }
}

const COLLECT: &str = "collect";

/// Why a text is no time of idleness.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdleError {
    /// It has no digits, no unit, or something else.
    NotATime,
    /// More than can be represented.
    Overflow,
    /// Less than [`Time::LEAST`] or more than [`Time::MOST`].
    OutOfRange(Time),
}

/// A time in milliseconds, from [`Time::LEAST`] to [`Time::MOST`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Time(pub u32);

/// The units and their milliseconds, the largest first. Text is read in the opposite order, since `ms` ends as `s` does.
const UNITS: [(&str, u32); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

impl Time {
    /// Shorter times are hardly told from the pauses of a busy program.
    pub const LEAST: Time = Time(20);
    /// What `collect` alone means.
    pub const USUAL: Time = Time(1000);
    /// An hour.
    pub const MOST: Time = Time(3_600_000);

    fn parse(text: &str) -> Result<Time, IdleError> {
        let (digits, unit) = UNITS
            .iter()
            .rev()
            .find_map(|&(unit, milliseconds)| Some((text.strip_suffix(unit)?, milliseconds)))
            .ok_or(IdleError::NotATime)?;
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(IdleError::NotATime);
        }
        let number: u32 = digits.parse().map_err(|_| IdleError::Overflow)?;
        let time = Time(number.checked_mul(unit).ok_or(IdleError::Overflow)?);
        if (Time::LEAST..=Time::MOST).contains(&time) {
            Ok(time)
        } else {
            Err(IdleError::OutOfRange(time))
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS
            .iter()
            .find(|&&(_, unit)| self.0 != 0 && self.0.is_multiple_of(unit));
        let (name, milliseconds) = unit.unwrap_or(&("ms", 1));
        write!(out, "{}{name}", self.0 / milliseconds)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn times_print_with_the_largest_unit_and_read_back() {
        for (text, milliseconds, shown) in [
            ("20ms", 20, "20ms"),
            ("1s", 1000, "1s"),
            ("1500ms", 1500, "1500ms"),
            ("90s", 90_000, "90s"),
            ("120s", 120_000, "2m"),
            ("60m", 3_600_000, "1h"),
        ] {
            let idle = Idle::parse(text).unwrap();
            assert_eq!(idle, Idle::After(Time(milliseconds)), "{text}");
            assert_eq!(idle.after_ns(), Some(u64::from(milliseconds) * 1_000_000));
            assert_eq!(idle.to_string(), shown);
            assert_eq!(Idle::parse(shown), Ok(idle));
        }
        for (text, milliseconds) in [("collect", 1000), ("collect@20ms", 20), ("collect@2h", 0)] {
            let expected = match milliseconds {
                0 => Err(IdleError::OutOfRange(Time(7_200_000))),
                _ => Ok(Idle::Collect(Time(milliseconds))),
            };
            assert_eq!(Idle::parse(text), expected);
            assert!(expected.is_err() || expected.unwrap().to_string() == text);
        }
        assert_eq!(Idle::parse("collect@1s").unwrap().to_string(), "collect");
        assert_eq!(Idle::parse("off"), Ok(Idle::Off));
        assert_eq!(Idle::Off.after_ns(), None);
        assert_eq!(Idle::Off.to_string(), "off");
    }

    #[test]
    fn what_is_no_time_is_told_from_times_that_are_too_short_or_too_long() {
        let bad = ["0", "1", "on", "s", "-1s", "1.5s", "1 s", "+1s", "1S", "1d"];
        let worse = ["collect@", "collect@1", "collect1s", "collects", "@1s"];
        for text in bad.into_iter().chain(worse) {
            assert_eq!(Idle::parse(text), Err(IdleError::NotATime), "{text}");
        }
        assert_eq!(Idle::parse("0s"), Err(IdleError::OutOfRange(Time(0))));
        assert_eq!(Idle::parse("19ms"), Err(IdleError::OutOfRange(Time(19))));
        assert_eq!(
            Idle::parse("2h"),
            Err(IdleError::OutOfRange(Time(7_200_000)))
        );
        assert_eq!(Idle::parse("99999999999s"), Err(IdleError::Overflow));
        assert_eq!(Idle::parse("4294967295s"), Err(IdleError::Overflow));
    }
}
