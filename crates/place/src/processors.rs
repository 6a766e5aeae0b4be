//! Sets of processors, in the form that the kernel writes and reads them (`0-3,8`).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Processors, by the kernel's numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processors(BTreeSet<usize>);

impl Processors {
    /// The highest number that a set for the kernel can have, plus one.
    pub const END: usize = rustix::thread::CpuSet::MAX_CPU;

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `processor` is one of them.
    pub fn contains(&self, processor: usize) -> bool {
        self.0.contains(&processor)
    }

    /// Adds a processor.
    pub fn insert(&mut self, processor: usize) {
        self.0.insert(processor);
    }

    /// Those of both.
    pub fn intersection(&self, other: &Processors) -> Processors {
        self.0.intersection(&other.0).copied().collect()
    }

    /// Those that are not in `other`.
    pub fn difference(&self, other: &Processors) -> Processors {
        self.0.difference(&other.0).copied().collect()
    }

    /// Their numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }
}

impl FromIterator<usize> for Processors {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        Processors(numbers.into_iter().collect())
    }
}

/// Reads `0-3,8`; an empty text is the empty set. The error is the part that is wrong.
impl FromStr for Processors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut set = BTreeSet::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.trim().parse::<usize>().ok();
            match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last && last < Self::END => {
                    set.extend(first..=last);
                }
                _ => return Err(part.to_string()),
            }
        }
        Ok(Processors(set))
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = numbers.next() {
            let mut last = first;
            while numbers.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for (text, written) in [
            ("", ""),
            ("0", "0"),
            ("0-3,8\n", "0-3,8"),
            ("8,0,1", "0-1,8"),
            ("2-2", "2"),
        ] {
            assert_eq!(text.parse::<Processors>().unwrap().to_string(), written);
        }
        for (text, wrong) in [
            ("a", "a"),
            ("0,3-1", "3-1"),
            ("1-", "1-"),
            ("5,99999999", "99999999"),
        ] {
            assert_eq!(text.parse::<Processors>(), Err(wrong.to_string()));
        }
    }
}
