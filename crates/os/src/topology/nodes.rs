//! The memory nodes that a heap uses, and to which each processor belongs: a table, so that the question where a thread
//! is costs a load.
//!
//! Nodes have indices here, from 0 without gaps, in the order of the kernel's numbers. A node is used if it has memory
//! that the process may use; the processors of any other belong to the nearest one that is. Beyond [`MOST_NODES`] nodes
//! are not used either. The system's files are read behind a path that is empty for the machine itself, so that tests
//! can lay out another.

use core::ffi::CStr;
use core::fmt::{self, Write};

use gleaner_base::events::LineBuffer;
use gleaner_base::options::MOST_NODES;

use crate::procfs;
use crate::sets::{NODES_MAX, NodeSet, NumberSet, PROCESSORS_MAX, ProcessorSet};

/// Nodes and processors, as they were when the table was made.
#[derive(Clone, Copy)]
pub(super) struct Nodes {
    /// How many nodes are used, at least 1.
    count: u8,
    /// The kernel's number of each.
    numbers: [u16; MOST_NODES],
    /// For each node all of them, the nearest first: itself.
    nearest: [[u8; MOST_NODES]; MOST_NODES],
    /// The index of each processor's node, or `UNKNOWN`.
    of_processor: [u8; PROCESSORS_MAX],
}

/// No node: the machine did not list the processor when the table was made.
const UNKNOWN: u8 = u8::MAX;

impl fmt::Debug for Nodes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.numbers()).finish()
    }
}

impl Nodes {
    /// `nodes` nodes with `processors_of_each` processors each, numbered node after node. All distances between two
    /// nodes are the same.
    pub(super) const fn alike(nodes: usize, processors_of_each: usize) -> Nodes {
        let mut table = Nodes::one(0);
        table.count = nodes as u8;
        let mut node = 0;
        while node < nodes {
            table.numbers[node] = node as u16;
            let mut step = 0;
            while step < nodes {
                table.nearest[node][step] = ((node + step) % nodes) as u8;
                step += 1;
            }
            node += 1;
        }
        let mut processor = 0;
        while processor < PROCESSORS_MAX {
            let node = processor / processors_of_each;
            table.of_processor[processor] = if node < nodes { node as u8 } else { UNKNOWN };
            processor += 1;
        }
        table
    }

    /// The only node, which all processors belong to.
    const fn one(number: u16) -> Nodes {
        Nodes {
            count: 1,
            numbers: [number; MOST_NODES],
            nearest: [[0; MOST_NODES]; MOST_NODES],
            of_processor: [0; PROCESSORS_MAX],
        }
    }

    /// What the files say. A system that says nothing has one node.
    pub(super) fn read(files: Files<'_>) -> Nodes {
        let with_memory = files.nodes("has_memory");
        let used = match with_memory.count() {
            0 | 1 => with_memory,
            _ => {
                let allowed = with_memory.intersection(&files.allowed_nodes());
                if allowed.is_empty() {
                    with_memory
                } else {
                    allowed
                }
            }
        };
        if used.count() < 2 {
            return Nodes::one(used.iter().next().unwrap_or(0) as u16);
        }
        let mut table = Nodes::alike(used.count().min(MOST_NODES), 1);
        for (kept, number) in table.numbers.iter_mut().zip(used.iter()) {
            *kept = number as u16;
        }
        table.of_processor = [UNKNOWN; PROCESSORS_MAX];
        let online = files.nodes("online");
        for number in online.iter() {
            let order = table.by_distance(number, &files.distances(number, &online));
            for processor in files.processors(number).iter() {
                table.of_processor[processor] = order[0];
            }
            if let Some(index) = table.index(number) {
                table.nearest[index] = order;
            }
        }
        table
    }

    /// The nodes in the order of their distances from the node of that number; of those as far away, the next ones
    /// come first, so that the nodes do not all turn to the same one.
    fn by_distance(&self, from: usize, distances: &Distances) -> [u8; MOST_NODES] {
        let count = self.count();
        let start = self.index(from).unwrap_or(0);
        let mut order: [u8; MOST_NODES] = core::array::from_fn(|step| {
            let index = if step < count {
                (start + step) % count
            } else {
                0
            };
            index as u8
        });
        let far = |index: u8| {
            let number = self.numbers[usize::from(index)];
            let step = (usize::from(index) + count - start) % count;
            (usize::from(number) != from, distances.to(number), step)
        };
        order[..count].sort_unstable_by_key(|&index| far(index));
        order
    }

    /// How many nodes are used.
    pub(super) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The kernel's number of each node.
    pub(super) fn numbers(&self) -> &[u16] {
        &self.numbers[..self.count()]
    }

    /// The index of the node of that number, if it is used.
    pub(super) fn index(&self, number: usize) -> Option<usize> {
        self.numbers()
            .iter()
            .position(|&its| usize::from(its) == number)
    }

    /// The nodes, the nearest to that one first: itself.
    pub(super) fn nearest(&self, node: usize) -> &[u8] {
        &self.nearest[node][..self.count()]
    }

    /// The node of a processor that was listed when the table was made.
    pub(super) fn of_processor(&self, processor: usize) -> Option<usize> {
        let node = self.of_processor.get(processor).copied();
        node.filter(|&node| node != UNKNOWN).map(usize::from)
    }
}

/// How far the nodes are from one of them.
struct Distances {
    /// By the kernel's number; a node that is not listed is as far away as can be.
    from: [u16; NODES_MAX],
}

impl Distances {
    fn to(&self, number: u16) -> u16 {
        self.from[usize::from(number)]
    }
}

/// Where the system's files lie: in `{root}/sys` and `{root}/proc`.
#[derive(Clone, Copy)]
pub(super) struct Files<'r> {
    pub(super) root: &'r str,
}

impl Files<'_> {
    /// Runs `with` on the path of a file.
    fn at<R>(self, path: fmt::Arguments<'_>, with: impl FnOnce(&CStr) -> R) -> Option<R> {
        let mut text = LineBuffer::<512>::new();
        // A buffer that truncates takes everything; without its zero the path is none.
        let _ = write!(text, "{}{path}\0", self.root);
        let path = CStr::from_bytes_until_nul(text.as_bytes()).ok()?;
        Some(with(path))
    }

    /// Reads a list of numbers; no number where there is no file.
    fn list<const WORDS: usize>(self, path: fmt::Arguments<'_>) -> NumberSet<WORDS> {
        let mut buffer = [0u8; 4096];
        let set = self.at(path, |path| {
            procfs::read(path, &mut buffer).map(NumberSet::parse)
        });
        set.flatten().unwrap_or(NumberSet::EMPTY)
    }

    /// The nodes of that kind.
    fn nodes(self, kind: &str) -> NodeSet {
        self.list(format_args!("/sys/devices/system/node/{kind}"))
    }

    /// The processors of a node that are online.
    fn processors(self, node: usize) -> ProcessorSet {
        self.list(format_args!("/sys/devices/system/node/node{node}/cpulist"))
    }

    /// How far the nodes are from one of them; the file has a number for each that is online.
    fn distances(self, node: usize, online: &NodeSet) -> Distances {
        let mut from = [u16::MAX; NODES_MAX];
        let mut buffer = [0u8; 4096];
        let path = format_args!("/sys/devices/system/node/node{node}/distance");
        let text = self
            .at(path, |path| procfs::read(path, &mut buffer))
            .flatten();
        let words = text.unwrap_or_default().split(u8::is_ascii_whitespace);
        let numbers = words.filter_map(procfs::number);
        for (to, distance) in online.iter().zip(numbers) {
            from[to] = distance.min(u64::from(u16::MAX)) as u16;
        }
        Distances { from }
    }

    /// The nodes whose memory the process may use; all where the system does not say.
    fn allowed_nodes(self) -> NodeSet {
        let mut allowed = NodeSet::range(0, NODES_MAX);
        self.at(format_args!("/proc/self/status"), |path| {
            procfs::lines(path, |line| {
                let list = line.strip_prefix(b"Mems_allowed_list:");
                if let Some(list) = list {
                    allowed = NodeSet::parse(list);
                }
                list.is_none()
            })
        });
        allowed
    }
}
