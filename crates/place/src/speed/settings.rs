//! What a user can say about the speed of cores, as `NAME=VALUE`.

use crate::words::words;
use crate::{Role, Roles};

/// How cores are made slower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowBy {
    /// By frequency where the kernel controls it, by bandwidth elsewhere.
    #[default]
    Auto,
    /// A lower maximum frequency of the processors.
    Frequency,
    /// A share of processor time for the threads: a stand-in where the frequency cannot be changed.
    Bandwidth,
}

/// When they are slower (OOPSLA 2012, section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowWhen {
    /// From the start to the end.
    #[default]
    Always,
    /// After the program's start-up.
    Warm,
    /// Except while the threads of these roles run.
    Idle,
}

/// Which roles run slowly, how slowly, by which means and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// `slow`: threads of these roles.
    pub roles: Roles,
    /// `speed`: how many percent of full speed.
    pub percent: u64,
    /// `slow-by`: the means.
    pub by: SlowBy,
    /// `slow-when`: when.
    pub when: SlowWhen,
    /// `warm-after`: how many seconds start-up takes.
    pub warm_after: u64,
}

impl Default for Slow {
    fn default() -> Slow {
        Slow {
            roles: Roles::default(),
            percent: 50,
            by: SlowBy::default(),
            when: SlowWhen::default(),
            warm_after: 10,
        }
    }
}

const MEANS: [(&str, SlowBy); 3] = [
    ("auto", SlowBy::Auto),
    ("frequency", SlowBy::Frequency),
    ("bandwidth", SlowBy::Bandwidth),
];
const TIMES: [(&str, SlowWhen); 3] = [
    ("always", SlowWhen::Always),
    ("warm", SlowWhen::Warm),
    ("idle", SlowWhen::Idle),
];
/// The longest start-up, in seconds.
const LONGEST_START: u64 = 86_400;

impl Slow {
    /// Sets one. `None`: there is no such name.
    pub(crate) fn set_value(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
        let done = match name {
            "slow" => value.parse().map(|roles| self.roles = roles),
            "speed" => number(value, 1, 100).map(|percent| self.percent = percent),
            "slow-by" => one_of(&MEANS, value).map(|by| self.by = by),
            "slow-when" => one_of(&TIMES, value).map(|when| self.when = when),
            "warm-after" => number(value, 0, LONGEST_START).map(|after| self.warm_after = after),
            _ => return None,
        };
        Some(done.map_err(|error| format!("{name}={value}: {error}")))
    }

    /// The words among which the setting of that name is a choice.
    pub(crate) fn words(name: &str) -> Vec<&'static str> {
        match name {
            "slow-by" => words(&MEANS),
            "slow-when" => words(&TIMES),
            _ => Vec::new(),
        }
    }

    /// Whether what was said makes sense together.
    pub(crate) fn check(&self) -> Result<(), String> {
        let usual = Slow::default();
        if self.roles.is_empty() && *self != usual {
            return Err(
                "speed, slow-by, slow-when and warm-after are about slow roles: slow=ROLE+ROLE is wanted".into(),
            );
        }
        if self.when != SlowWhen::Warm && self.warm_after != usual.warm_after {
            return Err("warm-after is about slow-when=warm".into());
        }
        if self.when == SlowWhen::Idle && self.by == SlowBy::Bandwidth {
            return Err(IDLE_BY_BANDWIDTH.into());
        }
        Ok(())
    }

    /// Whether threads of this role run slowly.
    pub fn is_slow(&self, role: Role) -> bool {
        self.roles.contain(role)
    }

    /// Whether there are slow roles.
    pub fn is_any(&self) -> bool {
        !self.roles.is_empty()
    }
}

/// Why `slow-when=idle` is refused.
pub(crate) const IDLE_BY_BANDWIDTH: &str = "slow-when=idle wants slow-by=frequency: bandwidth control takes time from threads that run, \
     and at those times the cores are to be fast";

fn number(value: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = value.parse().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("a number from {least} to {most} is wanted"))
}

fn one_of<T: Copy>(table: &[(&str, T)], value: &str) -> Result<T, String> {
    let found = table.iter().find(|(name, _)| *name == value);
    found.map(|&(_, it)| it).ok_or_else(|| {
        let names: Vec<_> = table.iter().map(|(name, _)| *name).collect();
        format!("{} is wanted", names.join(", "))
    })
}

impl std::fmt::Display for SlowWhen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let found = TIMES.iter().find(|(_, it)| it == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}
