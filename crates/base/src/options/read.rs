//! Reading options: one, or a list of them, and what cannot hold together.
#![forbid(unsafe_code)]

use core::fmt;

use super::accepted::Problem;
use super::{
    ArrayKinds, Arrays, Foreign, HeapKind, Optimisation, OptionError, Options, Shown, TABLE, rows,
};

/// An option with its new value.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The option's name.
    pub name: &'static str,
    value: Shown<'a>,
}

impl fmt::Display for Change<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}={}", self.name, self.value)
    }
}

impl Options {
    /// Sets one option. A refused name or value changes nothing. Options that contradict each other are found by
    /// [`Options::check`], since the second of them may be on its way.
    pub fn set<'a>(&mut self, name: &'a str, value: &'a str) -> Result<(), OptionError<'a>> {
        self.set_for(name, value, None)
    }

    /// Sets one option of a heap of that kind; any option for `None`.
    fn set_for<'a>(
        &mut self,
        name: &'a str,
        value: &'a str,
        kind: Option<HeapKind>,
    ) -> Result<(), OptionError<'a>> {
        let exists = rows(name, None).next().is_some();
        let read = if let Some(kind) = kind
            && exists
            && rows(name, Some(kind)).next().is_none()
        {
            Err(Problem::OtherHeap(kind))
        } else if value.is_empty() && exists {
            Err(Problem::NoValue)
        } else {
            self.read(name, value, kind)
        };
        read.map_err(|problem| OptionError {
            name,
            value,
            kind,
            problem,
        })
    }

    /// As [`Options::set`], for a heap of that kind: an option that serves the other kind alone is refused.
    pub fn set_of<'a>(
        &mut self,
        kind: HeapKind,
        name: &'a str,
        value: &'a str,
    ) -> Result<(), OptionError<'a>> {
        self.set_for(name, value, Some(kind))
    }

    /// Sets the options of a list such as `heap-limit=1g,sweep=eager` (the form of `GLEANER_OPTIONS`) and checks the
    /// result. Later items win; blanks around an item and empty items are ignored. An error changes nothing.
    pub fn parse_list<'a>(&mut self, list: &'a str) -> Result<(), OptionError<'a>> {
        let mut options = *self;
        items(list).try_for_each(|(name, value)| options.set(name, value))?;
        options.check()?;
        *self = options;
        Ok(())
    }

    /// As [`Options::parse_list`], for a heap of that kind.
    pub fn parse_list_of<'a>(
        &mut self,
        kind: HeapKind,
        foreign: Foreign,
        list: &'a str,
    ) -> Result<(), OptionError<'a>> {
        let mut options = *self;
        options.read_list_of(kind, foreign, list)?;
        options.check()?;
        *self = options;
        Ok(())
    }

    /// As [`Options::read_list_of`], of a list that has the last word on what a program has chosen: where it has all arrays
    /// in one piece, the program's choice how they are cut is none any more.
    pub fn read_last_word_of<'a>(
        &mut self,
        kind: HeapKind,
        foreign: Foreign,
        list: &'a str,
    ) -> Result<(), OptionError<'a>> {
        let mut options = *self;
        if items(list).filter(|&(name, _)| name == "arrays").last()
            == Some(("arrays", "contiguous"))
        {
            options.cut_arrays_as(&Options::DEFAULT);
        }
        options.read_list_of(kind, foreign, list)?;
        *self = options;
        Ok(())
    }

    /// As [`Options::parse_list_of`], without the check: more may be on its way. Compiled once, for embedders that are small.
    #[inline(never)]
    pub fn read_list_of<'a>(
        &mut self,
        kind: HeapKind,
        foreign: Foreign,
        list: &'a str,
    ) -> Result<(), OptionError<'a>> {
        let mut options = *self;
        for (name, value) in items(list) {
            let set = options.set_of(kind, name, value);
            if foreign == Foreign::Ignored && set.is_err() {
                // For the other heap? A mistyped value is to be reported, whichever heap comes first.
                Options::default().set(name, value)?;
            } else {
                set?;
            }
        }
        *self = options;
        Ok(())
    }

    /// Takes over how arrays are cut, if they are.
    fn cut_arrays_as(&mut self, other: &Options) {
        let Options {
            array_kinds,
            first_n,
            arraylet,
            lazy_arraylets,
            zero_compression,
            fast_copy,
            copy_on_write,
            array_guard,
            ..
        } = *other;
        *self = Options {
            array_kinds,
            first_n,
            arraylet,
            lazy_arraylets,
            zero_compression,
            fast_copy,
            copy_on_write,
            array_guard,
            ..*self
        };
    }

    /// Takes over all that says how objects lie in memory: what compiled code may have been made for.
    pub fn take_layout_of(&mut self, other: &Options) {
        self.refs = other.refs;
        self.arrays = other.arrays;
        self.cut_arrays_as(other);
    }

    /// The first option by which objects lie otherwise in memory under `other`, with its value there.
    pub fn changed_layout<'a>(&self, other: &'a Options) -> Option<Change<'a>> {
        let mut alike = *other;
        alike.take_layout_of(self);
        TABLE.iter().find_map(|info| {
            let value = (info.value)(other);
            ((info.value)(&alike) != value).then_some(Change {
                name: info.name,
                value,
            })
        })
    }

    /// Finds options that cannot hold together.
    #[inline(never)]
    pub fn check(&self) -> Result<(), OptionError<'static>> {
        self.check_order(
            "initial-heap",
            self.initial_heap,
            "heap-limit",
            self.heap_limit,
        )?;
        self.check_order("initial-heap", self.initial_heap, "reserve", self.reserve)?;
        self.check_order("heap-limit", self.heap_limit, "reserve", self.reserve)?;
        self.check_arrays()
    }

    /// Refuses what would change arrays that are not in one piece where all of them are. A report says what cutting them
    /// would do, so it has a use for sizes.
    fn check_arrays(&self) -> Result<(), OptionError<'static>> {
        let auto = Optimisation::Auto;
        let reports = self.array_report != 0;
        let given = [
            ("array-kinds", self.array_kinds != ArrayKinds::All),
            ("first-n", self.first_n != 0 && !reports),
            ("arraylet", self.arraylet != 0 && !reports),
            ("lazy-arraylets", self.lazy_arraylets != auto),
            ("zero-compression", self.zero_compression != auto),
            ("fast-copy", self.fast_copy != auto),
            ("copy-on-write", self.copy_on_write != auto),
            ("array-guard", self.array_guard),
        ];
        match given.into_iter().find(|&(_, given)| given) {
            Some((name, _)) if self.arrays == Arrays::Contiguous => Err(OptionError {
                name,
                value: "",
                kind: None,
                problem: Problem::OfPieces,
            }),
            _ => Ok(()),
        }
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
            kind: None,
            problem: Problem::Exceeds {
                value,
                other,
                limit,
            },
        })
    }
}

/// The items of a list, as names and values.
fn items(list: &str) -> impl Iterator<Item = (&str, &str)> {
    list.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(|item| item.split_once('=').unwrap_or((item, "")))
}
