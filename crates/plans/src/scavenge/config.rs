//! How a precise heap is set up, and why one cannot be made.

use core::fmt;

use gleaner_base::options::{
    NurseryPolicy, OldPages, OldPolicy, Options, Pages, Plan, Size, Zeroing,
};
use gleaner_mem::object_model::whole_granules;
use gleaner_mem::slot::{SlotFormat, Wide};
use gleaner_os::memory;
use gleaner_os::numa;
use gleaner_os::refusal::Limit;
use gleaner_os::topology::Topology;
use gleaner_spaces::precise::fragmented::Cut;
use gleaner_spaces::precise::regions::MOST_NODES;

use super::arrays::{Cutting, Geometry};

/// Regions are multiples of this: whole pages, cards and words of mark bits.
pub const REGION_GRANULE: usize = 64 << 10;
/// The smallest heap.
pub const LEAST_LIMIT: usize = 1 << 20;
/// Larger objects have pages of their own and never move. Code that allocates from a TLAB compares with this first; a
/// larger object that was allocated there is collected correctly, but not promoted without sliding.
pub const LARGE_BYTES: usize = 16 << 10;

/// How a heap is set up.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The options, with what they leave open decided where it does not depend on the machine.
    pub options: Options,
    /// Bytes of all spaces together.
    pub limit: usize,
    /// Workers that collect.
    pub workers: usize,
    /// The machine, as of when the heap is made.
    pub topology: Topology,
    /// How the spaces of the nursery are cut for the machine's memory nodes.
    pub cut: Cut,
    /// Which of them each worker belongs to.
    pub homes: Homes,
    /// How arrays are cut, if they are.
    pub cutting: Option<Cutting>,
    /// How a report on arrays takes them to be cut.
    pub report: Geometry,
    /// Whether the plan would place pages and leaves that to a policy from outside.
    pub leaves_pages: bool,
}

/// The memory nodes that workers belong to: round robin those that have processors (ASPLOS 2013, section 3.2.3).
#[derive(Clone, Copy, Debug)]
pub struct Homes {
    nodes: [u8; MOST_NODES],
    count: usize,
}

impl Homes {
    /// Of a machine. One of whose processors nothing is known has its threads on the first node.
    pub fn new(topology: &Topology) -> Homes {
        let nodes = topology.usable_nodes();
        Homes::among(nodes.map(|node| !node.processors.is_empty()))
    }

    /// Among nodes that have processors or have not.
    fn among(nodes: impl IntoIterator<Item = bool>) -> Homes {
        let mut homes = Homes {
            nodes: [0; MOST_NODES],
            count: 0,
        };
        for (node, has_processors) in nodes.into_iter().enumerate() {
            if has_processors {
                homes.nodes[homes.count] = node as u8;
                homes.count += 1;
            }
        }
        homes.count = homes.count.max(1);
        homes
    }

    /// The node of a worker.
    pub fn of_worker(&self, index: usize) -> usize {
        usize::from(self.nodes[index % self.count])
    }
}

impl Config {
    /// Whether each memory node has its own objects, which its own workers trace (`pages=segregated`).
    pub fn is_segregated(&self) -> bool {
        self.options.pages == Pages::Segregated && self.cut.nodes > 1
    }

    /// What the options say, and what they leave to the collector decided for this machine: that of option `topology`,
    /// unless the caller has another.
    pub fn new(options: &Options, topology: Topology) -> Config {
        let limit = match options.heap_limit {
            0 => (memory::physical_memory() as usize / 4).min(MOST_UNASKED),
            limit => limit,
        };
        let workers = match options.workers {
            0 => {
                (topology.processors.min(limit / LIMIT_OF_A_WORKER)).clamp(1, MOST_WORKERS_UNASKED)
            }
            workers => workers as usize,
        };
        let mut options = *options;
        options.tlab = whole_granules(options.tlab.min(limit));
        options.zeroing_window = match options.zeroing_window {
            0 => 512,
            bytes => whole_granules(bytes),
        };
        if options.quarantine > 0 {
            // Each allocation is looked at, and zeroes what it takes.
            options.zeroing = Zeroing::HotPath;
        }
        if options.old == OldPolicy::MarkRegion && options.child_old == OldPolicy::MarkSweep {
            // Either leaves what lives where it is, and holes are free lines already.
            options.child_old = OldPolicy::MarkRegion;
        }
        let leaves_pages = options.plan == Plan::Naps && is_placed_from_outside(&topology);
        (options.pages, options.old_pages) = pages(&options, leaves_pages);
        Config {
            options,
            limit,
            workers,
            topology,
            cut: cut(options.pages, &topology),
            homes: Homes::new(&topology),
            cutting: Cutting::of(&options),
            report: Geometry::of(&options),
            leaves_pages,
        }
    }

    /// Why new objects cannot lie in the old space with these options, if they are to.
    pub(super) fn check_nursery(&self) -> Result<(), CreateError> {
        let options = &self.options;
        if options.nursery == NurseryPolicy::Copying {
            return Ok(());
        }
        let refuse = |option, reason, instead| {
            Err(CreateError::InPlace {
                nursery: options.nursery.as_str(),
                option,
                reason,
                instead,
            })
        };
        if options.old != OldPolicy::MarkRegion {
            let reason = "new objects lie in free lines, which this old space does not have";
            return refuse("old", reason, "old=mark-region");
        }
        if !matches!(options.pages, Pages::FirstTouch | Pages::Interleaved) {
            let reason = "there is no space for new objects that could be cut for memory nodes";
            return refuse("pages", reason, "pages=first-touch");
        }
        if options.quarantine > 0 {
            let reason = "new objects stay where they are, so that no place can be left empty";
            return refuse("quarantine", reason, "quarantine=0");
        }
        match options.zeroing {
            Zeroing::HotPath | Zeroing::Bulk | Zeroing::NonTemporal | Zeroing::Window => Ok(()),
            _ => {
                let reason = "threads that zero go through eden, and there is none";
                refuse("zeroing", reason, "zeroing=bulk")
            }
        }
    }

    /// Whether threads of the collector's are to run on the memory nodes that they belong to.
    pub fn places_threads(&self) -> bool {
        self.topology.nodes() > 1
            && !self.topology.is_synthetic()
            && self.options.pages != Pages::FirstTouch
    }
}

/// Whether the process was started with a memory policy of its own (`numactl`).
fn is_placed_from_outside(topology: &Topology) -> bool {
    let policy = || numa::process_policy().unwrap_or(numa::Policy::Default);
    !topology.is_synthetic()
        && topology.nodes() > 1
        && !matches!(policy(), numa::Policy::Default | numa::Policy::Local)
}

/// The page policies of a plan, where no option has another (ASPLOS 2013, section 4.3).
fn pages(options: &Options, leaves_pages: bool) -> (Pages, OldPages) {
    let (young, old) = match options.plan {
        Plan::Scavenge => (Pages::FirstTouch, OldPages::FirstTouch),
        Plan::Naps if leaves_pages => (Pages::FirstTouch, OldPages::FirstTouch),
        Plan::Naps => (Pages::Fragmented, OldPages::Interleaved),
    };
    let either = |given, plan| if given == Pages::Auto { plan } else { given };
    let either_old = |given, plan| if given == OldPages::Auto { plan } else { given };
    (
        either(options.pages, young),
        either_old(options.old_pages, old),
    )
}

fn cut(pages: Pages, topology: &Topology) -> Cut {
    if matches!(pages, Pages::Auto | Pages::FirstTouch | Pages::Interleaved) {
        return Cut::WHOLE;
    }
    let mut cut = Cut {
        shares: pages == Pages::FragmentedFixed && topology.nodes() > 1,
        ..Cut::in_turn(topology.nodes())
    };
    for node in 0..cut.nodes {
        for (place, near) in topology.nearest(node).enumerate() {
            cut.nearest[node][place + 1] = near as u8;
        }
    }
    cut
}

/// The largest limit that is chosen for a heap whose options have none.
const MOST_UNASKED: usize = 8 << 30;
/// The most workers that a heap has whose options do not say how many.
const MOST_WORKERS_UNASKED: usize = 16;
/// Such a heap has no more workers than its limit has of these: the stack of a worker takes twice as many addresses, and
/// a smaller heap has no work for more.
const LIMIT_OF_A_WORKER: usize = 1 << 20;

/// Why a heap cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CreateError {
    /// Less than [`LEAST_LIMIT`].
    TooSmall(usize),
    /// The references do not reach so far.
    Span {
        /// Bytes that the spaces need.
        asked: usize,
        /// Bytes that references reach.
        reach: usize,
        /// How often the young generation has its addresses: for each memory node and each place under quarantine.
        ranges: usize,
        /// The largest limit that the options can have; 0 for none.
        most: usize,
    },
    /// The young generation leaves nothing for the old one.
    Young {
        /// Bytes of the young generation.
        young: usize,
        /// Bytes of the heap.
        limit: usize,
    },
    /// New objects cannot lie in the old space: an option, why it keeps them from it, and what to choose instead.
    InPlace {
        /// The value of option `nursery`, by which they are to lie there, or may.
        nursery: &'static str,
        /// The option.
        option: &'static str,
        /// Why new objects in the old space and the value of this do not fit together.
        reason: &'static str,
        /// Another value of it.
        instead: &'static str,
    },
    /// The system gives no memory for this, for that reason.
    Memory(&'static str, Limit),
}

impl fmt::Display for CreateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateError::TooSmall(limit) => write!(
                out,
                "option heap-limit: {limit} bytes; the smallest is {LEAST_LIMIT}"
            ),
            CreateError::Span {
                asked,
                reach,
                ranges,
                most,
            } => {
                write!(
                    out,
                    "option heap-limit: the heap needs {asked} bytes of addresses, and its references reach {reach}: "
                )?;
                if *ranges > 1 {
                    write!(
                        out,
                        "its young generation has {ranges} times its addresses, for each memory node (options pages and \
                         topology) and each place (option quarantine): choose fewer, "
                    )?;
                }
                let wide = if *reach < Wide::SPAN {
                    ", or refs=wide"
                } else {
                    ""
                };
                match most {
                    0 => write!(out, "choose other options{wide}"),
                    most => write!(out, "choose a limit of at most {}{wide}", Size(*most)),
                }
            }
            CreateError::Young { young, limit } => write!(
                out,
                "option young: a young generation of {} ({young} bytes) in a heap of {} ({limit} bytes, option heap-limit): \
                 it takes at most nine tenths",
                Size(*young),
                Size(*limit)
            ),
            CreateError::InPlace {
                nursery,
                option,
                reason,
                instead,
            } => write!(
                out,
                "option nursery: {nursery} does not go with this value of option {option}: {reason}: choose {instead}, or \
                 nursery=copy"
            ),
            CreateError::Memory(what, limit) => write!(
                out,
                "the system gives no memory for {what}: {}{} choose a smaller heap (option heap-limit)",
                limit.text(),
                // The other texts end with a remedy.
                if *limit == Limit::Other { ":" } else { ", or" }
            ),
        }
    }
}

impl core::error::Error for CreateError {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_memory_reads_as_one_sentence() {
        let text = |limit| std::format!("{}", CreateError::Memory("its cards", limit));
        assert_eq!(
            text(Limit::Other),
            "the system gives no memory for its cards: the system has no more memory: choose a smaller heap (option heap-limit)"
        );
        assert!(
            text(Limit::Addresses)
                .ends_with("ulimit -v, or choose a smaller heap (option heap-limit)")
        );
    }

    #[test]
    fn a_plan_says_where_pages_lie_unless_an_option_does() {
        let policies = |list: &str| {
            let mut options = Options::DEFAULT;
            options.parse_list(list).unwrap();
            let config = Config::new(&options, Topology::synthetic(4, 2));
            let Options {
                pages, old_pages, ..
            } = config.options;
            (pages, old_pages, config.cut.nodes, config.cut.shares)
        };
        let plain = (Pages::FirstTouch, OldPages::FirstTouch, 1, false);
        assert_eq!(policies(""), plain);
        let naps = (Pages::Fragmented, OldPages::Interleaved, 4, false);
        assert_eq!(policies("plan=naps"), naps);
        let either = (Pages::Interleaved, OldPages::Interleaved, 1, false);
        assert_eq!(policies("pages=interleaved,plan=naps"), either);
        let shares = (Pages::FragmentedFixed, OldPages::FirstTouch, 4, true);
        assert_eq!(policies("pages=fragmented-fixed"), shares);
        let old = (Pages::FirstTouch, OldPages::Interleaved, 1, false);
        assert_eq!(policies("old-pages=interleaved"), old);
    }

    #[test]
    fn workers_belong_to_the_nodes_in_turns() {
        let homes = Homes::new(&Topology::synthetic(3, 2));
        assert!(
            (0..8)
                .map(|worker| homes.of_worker(worker))
                .eq([0, 1, 2, 0, 1, 2, 0, 1])
        );
        assert_eq!(Homes::among([false, true, false, true]).of_worker(3), 3);
        assert_eq!(Homes::among([false, false]).of_worker(9), 0);
    }

    #[test]
    fn each_processor_of_the_machine_has_a_worker_unless_a_number_is_given_or_the_heap_is_small() {
        let of_limit = |heap_limit, workers, topology| {
            let mut options = Options::DEFAULT;
            (options.heap_limit, options.workers) = (heap_limit, workers);
            Config::new(&options, topology).workers
        };
        let workers = |workers, topology| of_limit(1 << 30, workers, topology);
        assert_eq!(workers(0, Topology::synthetic(2, 3)), 6);
        assert_eq!(workers(0, Topology::synthetic(8, 64)), 16);
        assert_eq!(workers(9, Topology::synthetic(2, 3)), 9);
        assert_eq!(of_limit(1 << 20, 0, Topology::synthetic(2, 3)), 1);
        assert_eq!(of_limit(5 << 20, 0, Topology::synthetic(2, 3)), 5);
        assert_eq!(of_limit(1 << 20, 9, Topology::synthetic(2, 3)), 9);
    }
}
