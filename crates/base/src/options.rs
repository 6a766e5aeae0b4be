//! The one option table. The struct, the parser, the errors, `gleaner options` and the docs page all come from it, so an
//! option cannot be half there.
//!
//! An option has a name, a type, a default, what it accepts, a tier, one line of documentation and, when a paper
//! describes it, the section. [`Options`] is a plain value: whoever starts a heap copies it in.
//!
//! Invariants: a refused name or value changes nothing; the text of a value reads back as the same value; sizes fit in
//! `usize`. The module allocates nothing and forbids unsafe code, so it can run first thing in any process.
#![forbid(unsafe_code)]

mod accepted;
mod error;
mod types;

use core::fmt;

use crate::faults::FaultPlan;
pub use accepted::{Accepted, Shown, Size};
use accepted::{OptionValue, Problem, SWITCH};
pub use error::OptionError;
pub use types::{
    HugePages, LogPath, OldPolicy, Parking, Prefetch, PrefetchHint, PushOrder, Sweep, TraceOrder,
    Verify,
};

/// Whom an option is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tier {
    /// Whoever runs a program.
    User,
    /// Whoever measures; the defaults are meant to be good.
    Tuning,
    /// Whoever looks for a bug.
    Testing,
}

impl Tier {
    /// Every tier.
    pub const ALL: [Tier; 3] = [Tier::User, Tier::Tuning, Tier::Testing];

    /// The name that the docs use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Tier::User => "user",
            Tier::Tuning => "tuning",
            Tier::Testing => "testing",
        }
    }
}

/// One row of the table.
pub struct OptionInfo {
    /// The name, as users write it.
    pub name: &'static str,
    /// What it accepts; prints as text.
    pub accepted: Accepted,
    /// Whom it is for.
    pub tier: Tier,
    /// One line of documentation.
    pub doc: &'static str,
    /// The paper and section it comes from.
    pub paper: Option<&'static str>,
    /// Its value in some options, to print.
    pub value: fn(&Options) -> Shown<'_>,
}

impl OptionInfo {
    /// The default value, to print.
    pub fn default(&self) -> Shown<'static> {
        (self.value)(&Options::DEFAULT)
    }
}

/// The row of that name.
pub fn find(name: &str) -> Option<&'static OptionInfo> {
    TABLE.iter().find(|info| info.name == name)
}

/// A whole number of that range whose 0 has a meaning of its own.
const fn number(least: u32, most: u32, zero: &'static str) -> Accepted {
    Accepted::Number {
        least,
        most,
        power_of_two: false,
        zero,
    }
}

/// A size of at least `least` bytes, or 0.
const fn size(least: usize, zero: &'static str) -> Accepted {
    Accepted::Size {
        least,
        most: MOST_BYTES,
        zero,
    }
}

/// The largest size: what half of a process's addresses can hold.
const MOST_BYTES: usize = 64 << 40;

/// Declares the table: the struct with its default, the setter and the rows.
macro_rules! option_table {
    ($(
        #[doc = $doc:literal]
        $field:ident: $type:ty = $default:expr, $name:literal, $tier:ident, $paper:expr, $accepted:expr;
    )+) => {
        /// The value of every option.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct Options {
            $( #[doc = $doc] pub $field: $type, )+
        }

        impl Options {
            /// Every option at its default.
            pub const DEFAULT: Options = Options { $( $field: $default, )+ };

            /// Reads `value` into the option `name`, or says what is wrong with it.
            fn read<'a>(&mut self, name: &str, value: &'a str) -> Result<(), Problem<'a>> {
                match name {
                    $( $name => self.$field = OptionValue::parse(value, &$accepted)?, )+
                    _ => return Err(Problem::UnknownName),
                }
                Ok(())
            }
        }

        /// Every option, the order being that of the docs.
        pub static TABLE: &[OptionInfo] = &[ $( OptionInfo {
            name: $name,
            accepted: $accepted,
            tier: Tier::$tier,
            doc: $doc.trim_ascii(),
            paper: $paper,
            value: |options| options.$field.shown(),
        }, )+ ];
    };
}

option_table! {
    /// The heap never holds more than so many bytes; when it is full, the program is told that memory is out.
    heap_limit: usize = 0, "heap-limit", User, None, size(1 << 20, "no limit");
    /// The heap starts with so many bytes, and no collection happens before they are used.
    initial_heap: usize = 0, "initial-heap", User, None, size(1, "grows from nothing");
    /// Between two collections the program allocates about the live heap divided by this: 1 is fast, 10 is small.
    free_space_divisor: u32 = 3, "free-space-divisor", User, None, number(1, 1000, "");
    /// How many threads mark in parallel.
    markers: u32 = 0, "markers", User, None, number(0, 64, "one per processor, at most 16");
    /// After how many collections an unused block of memory goes back to the system.
    release_after: u32 = 6, "release-after", User, None, number(0, 1000, "never");
    /// Whether the heap asks the system for huge pages.
    huge_pages: HugePages = HugePages::Auto, "huge-pages", User, None, Accepted::Choice(HugePages::NAMES);
    /// Prints one block of statistics when the program ends.
    stats: bool = false, "stats", User, None, SWITCH;
    /// Appends one JSON line per phase of each collection to this file.
    log: LogPath = LogPath::NONE, "log", User, None, Accepted::Path(LogPath::LONGEST);
    /// When the marker asks the cache for an object that it will scan.
    prefetch: Prefetch = Prefetch::Edges, "prefetch", Tuning, Some("ISMM 2000, section 4"), Accepted::Choice(Prefetch::NAMES);
    /// Which caches a prefetch fills: all levels, or as little as possible.
    prefetch_hint: PrefetchHint = PrefetchHint::T0, "prefetch-hint", Tuning, Some("ISMM 2000, appendix A"), Accepted::Choice(PrefetchHint::NAMES);
    /// Whether the pointer pushed last, and so scanned first, is the one prefetched first.
    push_order: PushOrder = PushOrder::Natural, "push-order", Tuning, Some("ISMM 2000, section 4"), Accepted::Choice(PushOrder::NAMES);
    /// So many cache lines ahead of the scan of an object are prefetched.
    look_ahead: u32 = 1, "look-ahead", Tuning, Some("ISMM 2000, section 4"), number(0, 16, "off");
    /// How many grey objects wait in the queue of prefetch=fifo.
    fifo_length: u32 = 16, "fifo-length", Tuning, None, Accepted::Number { least: 1, most: 64, power_of_two: true, zero: "" };
    /// How many unchecked objects wait in the queue of prefetch=edges.
    edges_length: u32 = 64, "edges-length", Tuning, Some("ISMM 2007, edge enqueuing"), Accepted::Number { least: 2, most: 64, power_of_two: true, zero: "" };
    /// When unmarked objects become free cells: before the program resumes, or when an allocation needs them.
    sweep: Sweep = Sweep::Lazy, "sweep", Tuning, Some("ISMM 2000, section 5"), Accepted::Choice(Sweep::NAMES);
    /// The mark stacks together never hold more than so many bytes; a full stack costs a re-scan.
    mark_arena: usize = 0, "mark-arena", Tuning, None, size(64 << 10, "chosen from the heap's size");
    /// Small objects come from free lists that belong to the thread, without a lock.
    thread_lists: bool = true, "thread-lists", Tuning, None, SWITCH;
    /// So many bytes of addresses are reserved for the heap.
    reserve: usize = 0, "reserve", Tuning, None, size(16 << 20, "chosen from the limit and the machine");
    /// Checks the heap's invariants at the edges between phases.
    verify: Verify = Verify::Off, "verify", Testing, None, Accepted::Choice(Verify::NAMES);
    /// Collects at every n-th allocation.
    stress: u32 = 0, "stress", Testing, None, number(0, u32::MAX, "off");
    /// So many allocations pass before `stress` begins to count: some runtimes cannot stand a collection earlier.
    stress_after: u32 = 64, "stress-after", Testing, None, number(0, u32::MAX, "at once");
    /// Overwrites what is freed, so that a use after free shows.
    poison: bool = false, "poison", Testing, None, SWITCH;
    /// Makes the named places fail, each once, at their n-th visit.
    fault: FaultPlan = FaultPlan::NONE, "fault", Testing, None, Accepted::Faults;
}

impl Default for Options {
    fn default() -> Self {
        Options::DEFAULT
    }
}

impl Options {
    /// Sets one option. A refused name or value changes nothing. Options that contradict each other are found by
    /// [`Options::check`], since the second of them may be on its way.
    pub fn set<'a>(&mut self, name: &'a str, value: &'a str) -> Result<(), OptionError<'a>> {
        let read = if value.is_empty() && find(name).is_some() {
            Err(Problem::NoValue)
        } else {
            self.read(name, value)
        };
        read.map_err(|problem| OptionError {
            name,
            value,
            problem,
        })
    }

    /// Sets the options of a list such as `heap-limit=1g,sweep=eager` (the form of `GLEANER_OPTIONS`) and checks the
    /// result. Later items win; blanks around an item and empty items are ignored. An error changes nothing.
    pub fn parse_list<'a>(&mut self, list: &'a str) -> Result<(), OptionError<'a>> {
        let mut options = *self;
        for item in list.split(',').map(str::trim) {
            if !item.is_empty() {
                let (name, value) = item.split_once('=').unwrap_or((item, ""));
                options.set(name, value)?;
            }
        }
        options.check()?;
        *self = options;
        Ok(())
    }

    /// Finds options that cannot hold together.
    pub fn check(&self) -> Result<(), OptionError<'static>> {
        self.check_order(
            "initial-heap",
            self.initial_heap,
            "heap-limit",
            self.heap_limit,
        )?;
        self.check_order("initial-heap", self.initial_heap, "reserve", self.reserve)?;
        self.check_order("heap-limit", self.heap_limit, "reserve", self.reserve)
    }

    /// Refuses `value > limit`, unless either is 0 and so left to the collector.
    fn check_order(
        &self,
        name: &'static str,
        value: usize,
        other: &'static str,
        limit: usize,
    ) -> Result<(), OptionError<'static>> {
        if value <= limit || limit == 0 {
            return Ok(());
        }
        Err(OptionError {
            name,
            value: "",
            problem: Problem::Exceeds {
                value,
                other,
                limit,
            },
        })
    }

    /// Writes the options that differ from the default as a list that [`Options::parse_list`] reads.
    pub fn write_list(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let mut separator = "";
        for info in TABLE {
            let value = (info.value)(self);
            if value != info.default() {
                write!(out, "{separator}{}={value}", info.name)?;
                separator = ",";
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
