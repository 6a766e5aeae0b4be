//! What a user can say about placement, as `NAME=VALUE`.

use std::fmt;

use crate::words::words;
use crate::{Processors, Role, Roles, Slow};

/// Which policy answers where a thread runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// The system decides.
    None,
    /// The paper's baseline (section 3.3): one socket, application and collector threads pinned one to a core, the
    /// others free on it.
    #[default]
    Paper,
    /// Threads of some roles are pinned one to a core of the whole machine, the others free (section 4.5).
    Pinned,
    /// Threads of some roles run on another socket, cluster or half of the cores than the rest (section 4.2).
    Isolated,
    /// An application and a collector thread make a pair; the pairs are spread over the sockets (section 4.4).
    Paired,
    /// A thread of some roles is pinned when the kernel moves it often, and let go when it waits (sections 4.5 and 6).
    Auto,
}

impl Placement {
    const ALL: [(&str, Placement); 6] = [
        ("none", Placement::None),
        ("paper", Placement::Paper),
        ("pinned", Placement::Pinned),
        ("isolated", Placement::Isolated),
        ("paired", Placement::Paired),
        ("auto", Placement::Auto),
    ];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        let found = Placement::ALL.iter().find(|(_, it)| *it == self);
        found.map_or("", |(name, _)| name)
    }
}

/// What an isolated role gets for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// The largest of those below of which the machine has two.
    #[default]
    Auto,
    /// A socket.
    Socket,
    /// The cores that share a last-level cache.
    Cluster,
    /// Half of the cores.
    Cores,
}

impl Unit {
    const ALL: [(&str, Unit); 4] = [
        ("auto", Unit::Auto),
        ("socket", Unit::Socket),
        ("cluster", Unit::Cluster),
        ("cores", Unit::Cores),
    ];
}

/// What a user has chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `placement`: the policy.
    pub placement: Placement,
    /// `processors`: only these, of those that the program may use; `None` is all of them.
    pub processors: Option<Processors>,
    /// `sockets`: how many at most; 0 is one for `paper` and all for the others.
    pub sockets: usize,
    /// `pin`: threads of these roles are pinned one to a core.
    pub pin: Roles,
    /// `first-core`: the core that the first pinned thread gets, counted from 0.
    pub first_core: usize,
    /// `isolate`: the roles that `isolated` sets apart.
    pub isolate: Roles,
    /// `isolate-on`: what they get.
    pub isolate_on: Unit,
    /// `collectors`: how many collector threads are asked of the runtime; 0 leaves it the choice.
    pub collectors: usize,
    /// `effort`: what following the program takes at most, in thousandths of one processor; from 1 to 1000.
    pub effort: u32,
    /// `slow` and others: which roles run slowly, and how.
    pub slow: Slow,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            placement: Placement::default(),
            processors: None,
            sockets: 0,
            pin: Roles::from([Role::Application, Role::Collector]),
            first_core: 0,
            isolate: Roles::from([Role::Collector]),
            isolate_on: Unit::default(),
            collectors: 0,
            effort: 4,
            slow: Slow::default(),
        }
    }
}

/// Why an item makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError(String);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingsError {}

impl Settings {
    /// The names of all settings; `gleaner place --help` says what each does.
    pub const NAMES: [&str; 14] = [
        "placement",
        "processors",
        "sockets",
        "pin",
        "first-core",
        "isolate",
        "isolate-on",
        "collectors",
        "effort",
        "slow",
        "speed",
        "slow-by",
        "slow-when",
        "warm-after",
    ];
    /// The most collector threads that can be asked for.
    pub const MOST_COLLECTORS: usize = 1024;

    /// Sets one `NAME=VALUE`. An error changes nothing.
    pub fn set(&mut self, item: &str) -> Result<(), SettingsError> {
        let (name, value) = item.split_once('=').unwrap_or((item, ""));
        let (name, value) = (name.trim(), value.trim());
        self.set_value(name, value).map_err(SettingsError)
    }

    /// Whether threads are placed at all: `none` leaves them where they are, unless only some processors are to be used.
    pub fn places(&self) -> bool {
        self.placement != Placement::None || self.processors.is_some() || self.sockets > 0
    }

    /// Whether all that was set makes sense together.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.slow.check().map_err(SettingsError)
    }

    /// The words among which the setting of that name is a choice, in their order; none for one that is no such choice.
    pub fn words(name: &str) -> Vec<&'static str> {
        match name {
            "placement" => words(&Placement::ALL),
            "isolate-on" => words(&Unit::ALL),
            _ => Slow::words(name),
        }
    }

    fn set_value(&mut self, name: &str, value: &str) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("{name}={value}: {what}"));
        let number = |most: usize| {
            let number = value.parse::<usize>().ok().filter(|&number| number <= most);
            number.ok_or_else(|| format!("{name}={value}: a number from 0 to {most} is wanted"))
        };
        match name {
            "placement" => match find(&Placement::ALL, value) {
                Some(placement) => self.placement = placement,
                None => return wrong("none, paper, pinned, isolated, paired or auto is wanted"),
            },
            "processors" => match value.replace('+', ",").parse::<Processors>() {
                Ok(set) if !set.is_empty() => self.processors = Some(set),
                Ok(_) => return wrong("at least one processor is wanted, such as 0 or 0-3+8"),
                Err(part) => {
                    return wrong(&format!(
                        "'{part}' names no processors; wanted are numbers below {}, such as 0-3+8",
                        Processors::END
                    ));
                }
            },
            "sockets" => self.sockets = number(Processors::END)?,
            "pin" => self.pin = roles(name, value)?,
            "first-core" => self.first_core = number(Processors::END - 1)?,
            "isolate" => self.isolate = roles(name, value)?,
            "isolate-on" => match find(&Unit::ALL, value) {
                Some(unit) => self.isolate_on = unit,
                None => return wrong("auto, socket, cluster or cores is wanted"),
            },
            "collectors" => self.collectors = number(Self::MOST_COLLECTORS)?,
            "effort" => match value.parse() {
                Ok(effort @ 1..=1000) => self.effort = effort,
                _ => {
                    return wrong(
                        "a number from 1 to 1000 is wanted, in thousandths of one processor",
                    );
                }
            },
            _ if Self::NAMES.contains(&name) => {
                return self.slow.set_value(name, value).unwrap_or(Ok(()));
            }
            _ => {
                let names = Self::NAMES.join(", ");
                let hint = match name.parse::<Processors>() {
                    Ok(_) if !name.is_empty() => {
                        "; lists of processors have '+' in them, such as 0-3+8"
                    }
                    _ => "",
                };
                return Err(format!(
                    "'{name}' is no option of placement; there are {names}{hint}"
                ));
            }
        }
        Ok(())
    }
}

fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    let found = table.iter().find(|(it, _)| *it == name);
    found.map(|&(_, value)| value)
}

fn roles(name: &str, value: &str) -> Result<Roles, String> {
    value
        .parse()
        .map_err(|error: String| format!("{name}={value}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_threads_stay_the_processors_that_are_to_be_used_still_count() {
        let places = |items: &[&str]| {
            let mut settings = Settings::default();
            items.iter().for_each(|item| settings.set(item).unwrap());
            settings.places()
        };
        assert!(!places(&["placement=none"]));
        assert!(places(&["placement=none", "processors=0"]));
        assert!(places(&["placement=none", "sockets=1"]));
    }

    #[test]
    fn each_name_is_read() {
        let mut settings = Settings::default();
        for item in [
            "placement=isolated",
            "processors=0-3+8",
            "sockets=1",
            "pin=collector",
            "first-core=1",
            "isolate=jvm",
            "isolate-on=cores",
            "collectors=2",
            "effort=20",
            "slow=jvm",
            "speed=25",
            "slow-by=bandwidth",
            "slow-when=warm",
            "warm-after=3",
        ] {
            let before = settings.clone();
            settings.set(item).unwrap();
            assert_ne!(settings, before, "{item}");
            let (name, _) = item.split_once('=').unwrap();
            assert!(Settings::NAMES.contains(&name));
        }
        assert_eq!(settings.placement.name(), "isolated");
        assert_eq!(settings.processors.unwrap().to_string(), "0-3,8");
    }

    #[test]
    fn each_word_is_read() {
        let mut choices = 0;
        for name in Settings::NAMES {
            for word in Settings::words(name) {
                Settings::default().set(&format!("{name}={word}")).unwrap();
                choices += 1;
            }
        }
        assert_eq!(choices, 16);
        assert_eq!(Settings::words("slow-when"), ["always", "warm", "idle"]);
        assert!(Settings::words("sockets").is_empty());
    }

    #[test]
    fn what_is_wrong_is_named_with_the_remedy() {
        let mut settings = Settings::default();
        for (item, remedy) in [
            ("placement=best", "paired"),
            ("place=paper", "placement"),
            ("7", "0-3+8"),
            ("processors=", "0-3+8"),
            ("processors=x", "'x'"),
            ("sockets=two", "from 0"),
            ("pin=gc", "collector"),
            ("isolate=", "jvm"),
            ("isolate-on=node", "cluster"),
            ("collectors=-1", "1024"),
            ("first-core", "from 0"),
            ("effort=0", "from 1 to 1000"),
            ("effort=1001", "thousandths"),
            ("slow=fast", "collector"),
            ("speed=0", "from 1 to 100"),
            ("speed=101", "from 1 to 100"),
            ("slow-by=magic", "bandwidth"),
            ("slow-when=later", "warm, idle"),
            ("warm-after=-1", "from 0"),
        ] {
            let error = settings.set(item).unwrap_err().to_string();
            assert!(error.contains(remedy), "{item}: {error}");
        }
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn what_makes_no_sense_together_is_refused() {
        for (items, remedy) in [
            ("speed=20", Some("slow=ROLE")),
            ("slow-when=idle", Some("slow=ROLE")),
            ("slow=collector,warm-after=3", Some("slow-when=warm")),
            (
                "slow=collector,slow-when=idle,slow-by=bandwidth",
                Some("slow-by=frequency"),
            ),
            ("slow=collector,slow-when=idle", None),
            ("slow=none", None),
            ("slow=collector,slow-when=warm,warm-after=3,speed=1", None),
        ] {
            let mut settings = Settings::default();
            items
                .split(',')
                .for_each(|item| settings.set(item).unwrap());
            let error = settings.check().err().map(|error| error.to_string());
            assert_eq!(error.is_some(), remedy.is_some(), "{items}: {error:?}");
            assert!(error.is_none_or(|error| error.contains(remedy.unwrap())));
        }
    }
}
