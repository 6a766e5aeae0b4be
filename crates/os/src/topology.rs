//! The machine as a heap sees it: which processors its threads may use, and to which memory node each belongs.
//!
//! A [`Topology`] is a value that a heap is set up with. That of the host asks the kernel when it is made: nodes,
//! processors and distances stay as they were then, and the number of processors until [`Topology::refresh`]. A
//! synthetic one is the same on every machine, so that what depends on processors and nodes can be tested.
//!
//! Nodes are those that a heap can place memory on, with indices from 0 without gaps. Nodes without memory, and those
//! whose memory the process may not use (a cpuset), do not count; their processors belong to the nearest node that
//! does. A node may be without processors. A machine without nodes has one.

mod nodes;

use gleaner_base::options::{MOST_NODES, Machine};

use crate::cgroup;
pub use crate::sets::{NODES_MAX, NodeSet, PROCESSORS_MAX, ProcessorSet};
use crate::syscall::call;
use nodes::{Files, Nodes};

/// Processors and memory nodes.
#[derive(Clone, Copy, Debug)]
pub struct Topology {
    /// Whether it is the machine's that this runs on, as far as the process may use it.
    is_host: bool,
    nodes: Nodes,
    /// How many processors the thread that made it could use, whatever the quota.
    allowed: usize,
    /// The control group's quota of processor time, in processors, rounded up. It lies in a dozen files, so it counts as it
    /// was when this was made: a program may not open files later.
    quota: usize,
    /// How many threads can really run at once, as of the last [`Topology::refresh`]; at least 1.
    pub processors: usize,
}

/// A memory node by the kernel's number, which is not its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeNumber(pub u16);

/// A memory node that a heap can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Below [`Topology::nodes`].
    pub index: usize,
    /// The kernel's number; none on a synthetic machine, which the kernel knows nothing of.
    pub number: Option<NodeNumber>,
    /// Its processors that the calling thread may run on, and those of the unusable nodes nearest to it; may be empty.
    pub processors: ProcessorSet,
}

/// Where a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the processor.
    pub processor: usize,
    /// The index of its memory node.
    pub node: usize,
}

impl Topology {
    /// That of the machine that the options name.
    pub fn of(machine: Machine) -> Topology {
        match machine {
            Machine::Host => Topology::host(),
            Machine::Synthetic(it) => Topology::synthetic(it.nodes(), it.processors_of_each()),
        }
    }

    /// That of the machine, as the calling thread may use it now.
    pub fn host() -> Topology {
        let allowed = allowed_processors().count().max(1);
        let quota = cgroup::processor_limit().map_or(usize::MAX, |limit| limit as usize);
        Topology {
            is_host: true,
            nodes: Nodes::read(Files { root: "" }),
            allowed,
            quota,
            processors: allowed.min(quota),
        }
    }

    /// One of `nodes` memory nodes, from 1 to [`MOST_NODES`], each with `processors_of_each`, at least 1, and
    /// [`PROCESSORS_MAX`] together at most. Processors are numbered node after node.
    pub const fn synthetic(nodes: usize, processors_of_each: usize) -> Topology {
        let processors = nodes * processors_of_each;
        assert!(nodes <= MOST_NODES && 0 < processors && processors <= PROCESSORS_MAX);
        Topology {
            is_host: false,
            nodes: Nodes::alike(nodes, processors_of_each),
            allowed: processors,
            quota: usize::MAX,
            processors,
        }
    }

    /// Whether it is another machine than the one that this runs on.
    pub fn is_synthetic(&self) -> bool {
        !self.is_host
    }

    /// Asks anew how many processors the calling thread may use, which changes while a process runs. Gives the number of those
    /// to use: never fewer than at first, for a calling thread that is pinned says nothing of the others.
    pub fn refresh(&mut self) -> usize {
        if self.is_host {
            let allowed = allowed_processors().count();
            self.processors = allowed.max(self.allowed).min(self.quota);
        }
        self.processors
    }

    /// The processors that the calling thread may run on; empty when the kernel does not say.
    pub fn allowed(&self) -> ProcessorSet {
        if self.is_host {
            allowed_processors()
        } else {
            ProcessorSet::range(0, self.processors)
        }
    }

    /// How many memory nodes there are to use, from 1 to [`MOST_NODES`].
    pub fn nodes(&self) -> usize {
        self.nodes.count()
    }

    /// The memory nodes to use, in the order of their indices.
    pub fn usable_nodes(&self) -> impl Iterator<Item = Node> + '_ {
        let allowed = self.allowed();
        (0..self.nodes()).map(move |index| Node {
            index,
            number: self.number(index),
            processors: self.processors_among(&allowed, index),
        })
    }

    /// The kernel's number of a node; none on a synthetic machine, for which the kernel is not to be asked for anything.
    pub fn number(&self, node: usize) -> Option<NodeNumber> {
        self.is_host.then(|| NodeNumber(self.nodes.numbers()[node]))
    }

    /// The kernel's numbers of all nodes to use; none on a synthetic machine.
    pub fn numbers(&self) -> Option<NodeSet> {
        let numbers = self.nodes.numbers().iter().copied().map(usize::from);
        self.is_host.then(|| numbers.collect())
    }

    /// The processors of a node that the calling thread may run on; may be empty.
    pub fn processors_of_node(&self, node: usize) -> ProcessorSet {
        self.processors_among(&self.allowed(), node)
    }

    fn processors_among(&self, allowed: &ProcessorSet, node: usize) -> ProcessorSet {
        let is_home = |&processor: &usize| self.node_of_processor(processor) == Some(node);
        allowed.iter().filter(is_home).collect()
    }

    /// The other nodes, the nearest first; of those as far away, the next ones first.
    pub fn nearest(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        self.nodes.nearest(node)[1..]
            .iter()
            .map(|&node| usize::from(node))
    }

    /// The node that a processor belongs to; none of one that was offline when this was made, or does not exist.
    pub fn node_of_processor(&self, processor: usize) -> Option<usize> {
        self.nodes.of_processor(processor)
    }

    /// Where the calling thread runs at this moment. The machine's processors take turns in standing for those of a
    /// synthetic one. Makes no system call, unless the processor came online since this was made.
    pub fn place(&self) -> Place {
        let host = current_processor();
        let processor = if self.is_host {
            host
        } else {
            host % self.processors
        };
        let node = self.node_of_processor(processor);
        Place {
            processor,
            node: node.unwrap_or_else(|| self.nodes.index(current_node()).unwrap_or(0)),
        }
    }
}

/// The processors that the calling thread may run on; empty when the kernel does not say.
pub(crate) fn allowed_processors() -> ProcessorSet {
    let mut set = ProcessorSet::EMPTY;
    let words = set.words_mut();
    let (bytes, start) = (size_of_val(words), words.as_mut_ptr() as usize);
    // SAFETY: the kernel fills at most the bytes given.
    let _ = unsafe { call(libc::SYS_sched_getaffinity, [0, bytes, start, 0, 0, 0]) };
    set
}

/// The processor that the calling thread runs on, as the C library knows it without a system call.
fn current_processor() -> usize {
    // SAFETY: takes nothing, and fails only on kernels without the call, whose processor counts as 0.
    let processor = unsafe { libc::sched_getcpu() };
    processor.max(0) as usize
}

/// The kernel's number of the node that the calling thread runs on.
fn current_node() -> usize {
    let mut node = 0u32;
    // SAFETY: the kernel fills the number; a null pointer asks for no processor.
    let _ = unsafe { call(libc::SYS_getcpu, [0, &raw mut node as usize, 0, 0, 0, 0]) };
    node as usize
}

#[cfg(all(test, not(loom)))]
mod tests;
