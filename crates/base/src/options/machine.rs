//! The machine that an option describes: that which the process runs on, or a synthetic one of memory nodes, cores and
//! hardware threads, as hwloc writes it.
//!
//! A machine prints as `host` or `node:N core:C pu:P`, and that text reads back as the same machine. Read is what
//! hwloc's programs read for these three levels: names in any case, `numanode` for `node`, and names cut short after
//! two letters or more. A level that is left out has one of its kind in each of the level above.
#![forbid(unsafe_code)]

use core::fmt;

/// The most memory nodes that a heap uses.
pub const MOST_NODES: usize = 16;
/// The most processors that a machine may have.
pub const MOST_PROCESSORS: usize = 4096;

/// The machine that a heap is set up for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Machine {
    /// The one that the process runs on.
    Host,
    /// One that exists only in the heap's accounts.
    Synthetic(Synthetic),
}

/// A machine whose nodes are all alike: at least one of each, at most [`MOST_NODES`] nodes and [`MOST_PROCESSORS`]
/// hardware threads together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Synthetic {
    /// How many memory nodes.
    nodes: u32,
    /// How many cores each node has.
    cores: u32,
    /// How many hardware threads, hwloc's processing units, each core has.
    pus: u32,
}

impl Synthetic {
    /// How many memory nodes there are.
    pub const fn nodes(self) -> usize {
        self.nodes as usize
    }

    /// How many hardware threads each node has.
    pub const fn processors_of_each(self) -> usize {
        (self.cores * self.pus) as usize
    }
}

/// A level of the notation, outermost first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Level {
    Node,
    Core,
    Pu,
}

impl Level {
    /// The level of that name, whole or cut short.
    fn named(text: &str) -> Option<Level> {
        let names = [
            ("node", Level::Node),
            ("numanode", Level::Node),
            ("core", Level::Core),
            ("pu", Level::Pu),
        ];
        let begins = |name: &str| {
            let start = name.get(..text.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(text))
        };
        let found = names.iter().find(|(name, _)| begins(name));
        found.filter(|_| text.len() >= 2).map(|&(_, level)| level)
    }

    const fn as_str(self) -> &'static str {
        match self {
            Level::Node => "node",
            Level::Core => "core",
            Level::Pu => "pu",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Why a text names no machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MachineError<'a> {
    /// No level that a heap knows.
    UnknownLevel(&'a str),
    /// A level without a number behind a colon.
    NoNumber(&'a str),
    /// What is behind the colon is no whole number that can be represented.
    NotANumber(&'a str),
    /// None of that level.
    Zero(&'a str),
    /// The level stands behind one that it should precede, or twice.
    Order(&'a str, Level),
    /// The first level is not that of the nodes.
    NoNodes(&'a str),
    /// More nodes than a heap uses.
    Nodes(u32),
    /// More hardware threads than a machine may have.
    Processors([u32; 3]),
}

impl fmt::Display for MachineError<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MachineError::UnknownLevel(item) => write!(
                out,
                "'{item}' is no level that a heap knows, nor host: leave packages, groups and caches out, and say how \
                 many cores each node has"
            ),
            MachineError::NoNumber(item) => {
                write!(
                    out,
                    "'{item}' has no number: write a colon and how many, as in {item}:2"
                )
            }
            MachineError::NotANumber(item) => {
                write!(
                    out,
                    "'{item}' has no whole number below 4294967296 behind its colon"
                )
            }
            MachineError::Zero(item) => write!(out, "'{item}' is none: each level has at least 1"),
            MachineError::Order(item, before) => write!(
                out,
                "'{item}' stands behind {before}: the levels are node, core, pu, each once and in this order"
            ),
            MachineError::NoNodes(item) => write!(
                out,
                "'{item}' is not on a memory node: begin with node:N, as in node:1 {item}"
            ),
            MachineError::Nodes(nodes) => {
                write!(
                    out,
                    "{nodes} memory nodes are more than the {MOST_NODES} that a heap uses"
                )
            }
            MachineError::Processors([nodes, cores, pus]) => write!(
                out,
                "{nodes} * {cores} * {pus} processors are more than {MOST_PROCESSORS}"
            ),
        }
    }
}

/// Reads one level and how many of it.
fn level(item: &str) -> Result<(Level, u32), MachineError<'_>> {
    let (name, number) = item.split_once(':').unwrap_or((item, ""));
    let level = Level::named(name).ok_or(MachineError::UnknownLevel(item))?;
    if number.is_empty() {
        return Err(MachineError::NoNumber(name));
    }
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(MachineError::NotANumber(item));
    }
    match number.parse() {
        Ok(0) => Err(MachineError::Zero(item)),
        Ok(number) => Ok((level, number)),
        Err(_) => Err(MachineError::NotANumber(item)),
    }
}

/// Reads a synthetic machine. The text has at least one item.
pub(super) fn synthetic(text: &str) -> Result<Synthetic, MachineError<'_>> {
    let mut counts = [1u32; 3];
    let mut before = None;
    for item in text.split_ascii_whitespace() {
        let (level, count) = level(item)?;
        match before {
            None if level != Level::Node => return Err(MachineError::NoNodes(item)),
            Some(before) if level <= before => return Err(MachineError::Order(item, before)),
            _ => {}
        }
        counts[level as usize] = count;
        before = Some(level);
    }
    let [nodes, cores, pus] = counts;
    if nodes as usize > MOST_NODES {
        return Err(MachineError::Nodes(nodes));
    }
    let processors = counts
        .iter()
        .try_fold(1u32, |product, &count| product.checked_mul(count));
    if processors.is_none_or(|processors| processors as usize > MOST_PROCESSORS) {
        return Err(MachineError::Processors(counts));
    }
    Ok(Synthetic { nodes, cores, pus })
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Machine::Host => out.pad("host"),
            Machine::Synthetic(Synthetic { nodes, cores, pus }) => {
                write!(out, "node:{nodes} core:{cores} pu:{pus}")
            }
        }
    }
}
