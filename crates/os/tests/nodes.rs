//! Where pages and threads are on a machine with several memory nodes, as the kernel tells it. On a machine with one
//! node all is about that one; tests/qemu boots others, and names them in `GLEANER_MACHINE`.

use std::ffi::{CString, c_void};
use std::ptr::NonNull;
use std::sync::mpsc::{Sender, channel};

use gleaner_os::numa::{self, Policy, Reason};
use gleaner_os::threads::{Placement, Role, spawn};
use gleaner_os::topology::{Node, NodeNumber, NodeSet, Place, ProcessorSet, Topology};
use gleaner_os::{hugepages, memory};

/// The machine that was booted for this test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Machine {
    /// None: the tests run where they are.
    Here,
    /// Nodes in a ring: how many, and how many processors each has.
    Ring(usize, usize),
    /// Node 0 has processors 0 and 1; node 1 has 2 and 3 and no memory, and node 2 is the nearest to it; node 2 has 4 and
    /// 5, of which 5 is offline; node 3 has memory alone. (The kernel numbers nodes with processors first.)
    Uneven,
}

fn machine() -> Machine {
    let Ok(name) = std::env::var("GLEANER_MACHINE") else {
        return Machine::Here;
    };
    if name == "uneven" {
        return Machine::Uneven;
    }
    let counts = name
        .strip_prefix("ring:")
        .and_then(|counts| counts.split_once('x'));
    let (nodes, processors) = counts.unwrap_or_else(|| panic!("GLEANER_MACHINE={name}"));
    Machine::Ring(nodes.parse().unwrap(), processors.parse().unwrap())
}

/// The nodes to use, unless this system does not place pages at all.
fn nodes() -> Vec<Node> {
    match numa::process_policy() {
        Ok(_) => Topology::host().usable_nodes().collect(),
        Err(refusal) if machine() == Machine::Here => {
            eprintln!("not tried: {refusal}");
            Vec::new()
        }
        Err(refusal) => panic!("{refusal}"),
    }
}

fn number(node: &Node) -> NodeNumber {
    node.number.expect("a node of the host")
}

fn set(nodes: &[Node]) -> NodeSet {
    nodes
        .iter()
        .map(|node| usize::from(number(node).0))
        .collect()
}

/// Mapped memory with small pages.
struct Pages {
    start: NonNull<u8>,
    count: usize,
}

impl Pages {
    fn new(count: usize) -> Pages {
        let start = memory::map(count * memory::page_size()).expect("memory");
        let pages = Pages { start, count };
        // SAFETY: whole pages of this mapping. A kernel without huge pages refuses, and has small ones.
        let _ = unsafe { hugepages::unadvise(start, pages.bytes()) };
        pages
    }

    fn bytes(&self) -> usize {
        self.count * memory::page_size()
    }

    fn bind(&self, node: NodeNumber) {
        // SAFETY: whole pages of this mapping.
        unsafe { numa::bind(self.start, self.bytes(), node) }.unwrap();
    }

    fn touch(&self) {
        for page in 0..self.count {
            // SAFETY: inside the mapping, whose bytes only tests write.
            unsafe { self.start.add(page * memory::page_size()).write_volatile(1) };
        }
    }

    fn release(&self) {
        // SAFETY: whole pages of this mapping, whose contents nobody needs.
        assert!(unsafe { memory::release(self.start, self.bytes()) });
    }

    /// The node of each page.
    fn nodes(&self) -> Vec<Option<NodeNumber>> {
        let mut nodes = Vec::new();
        numa::nodes_of_range(self.start, self.count, |_, node| nodes.push(node)).unwrap();
        nodes
    }

    fn are_on(&self, node: NodeNumber) -> bool {
        self.nodes().iter().all(|&on| on == Some(node))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this mapping, which nobody uses any more.
        unsafe { memory::unmap(self.start, self.bytes()) };
    }
}

/// What a thread sees of where it is.
struct Seen {
    place: Place,
    processors: ProcessorSet,
    page: Option<NodeNumber>,
}

extern "C" fn look(argument: *mut c_void) -> *mut c_void {
    // SAFETY: the box that `seen_on` made for this thread.
    let say = unsafe { Box::from_raw(argument.cast::<Sender<Seen>>()) };
    let topology = Topology::host();
    let page = Pages::new(1);
    page.touch();
    let seen = Seen {
        place: topology.place(),
        processors: topology.allowed(),
        page: page.nodes()[0],
    };
    say.send(seen).unwrap();
    std::ptr::null_mut()
}

/// What a thread of the collector's sees that is to run on these processors.
fn seen_on(processors: &ProcessorSet) -> Seen {
    let (say, hear) = channel();
    let argument = Box::into_raw(Box::new(say));
    let placement = Placement::On(processors);
    let thread = spawn(Role::Worker, placement, look, argument.cast()).expect("a thread");
    assert!(thread.is_placed());
    thread.join();
    hear.recv().unwrap()
}

fn nearest(topology: &Topology, node: usize) -> Vec<usize> {
    topology.nearest(node).collect()
}

#[test]
fn the_machine_is_the_one_that_was_booted() {
    let topology = Topology::host();
    let numbers: Vec<u16> = topology
        .usable_nodes()
        .map(|node| number(&node).0)
        .collect();
    match machine() {
        Machine::Here => {}
        Machine::Ring(nodes, processors) => {
            assert_eq!(topology.processors, nodes * processors);
            assert_eq!(numbers.len(), nodes);
            for node in topology.usable_nodes() {
                assert_eq!(usize::from(number(&node).0), node.index);
                let first = node.index * processors;
                assert_eq!(
                    node.processors,
                    ProcessorSet::range(first, first + processors)
                );
                // One step on, one back, two steps on, and so round the ring.
                let steps = (1..nodes).map(|turn| match turn % 2 {
                    1 => turn.div_ceil(2),
                    _ => nodes - turn / 2,
                });
                let round: Vec<usize> = steps.map(|step| (node.index + step) % nodes).collect();
                assert_eq!(nearest(&topology, node.index), round);
            }
        }
        Machine::Uneven => {
            assert_eq!(numbers, [0, 2, 3]);
            assert_eq!(topology.processors, 5);
            assert_eq!(topology.processors_of_node(0), ProcessorSet::range(0, 2));
            assert_eq!(topology.processors_of_node(1), ProcessorSet::range(2, 5));
            assert_eq!(topology.processors_of_node(2), ProcessorSet::EMPTY);
            assert_eq!(topology.node_of_processor(5), None);
            assert_eq!(nearest(&topology, 0), [2, 1]);
            assert_eq!(nearest(&topology, 1), [2, 0]);
        }
    }
}

#[test]
fn bound_pages_lie_on_their_node() {
    for node in nodes() {
        let pages = Pages::new(200);
        pages.bind(number(&node));
        assert_eq!(pages.nodes(), vec![None; 200]);
        pages.touch();
        assert!(pages.are_on(number(&node)));
        let its = set(&[node]);
        assert_eq!(numa::policy_of(pages.start), Ok(Policy::Preferred(its)));
    }
}

#[test]
fn interleaved_pages_lie_on_the_nodes_in_turns() {
    let nodes = nodes();
    let pages = Pages::new(16 * nodes.len().max(1));
    let its = set(&nodes);
    if nodes.is_empty() {
        return;
    }
    // SAFETY: whole pages of this mapping.
    unsafe { numa::interleave(pages.start, pages.bytes(), &its) }.unwrap();
    assert_eq!(numa::policy_of(pages.start), Ok(Policy::Interleave(its)));
    pages.touch();
    let on = pages.nodes();
    for node in &nodes {
        assert_eq!(on.iter().filter(|&&on| on == node.number).count(), 16);
    }
    for turn in on.windows(nodes.len() + 1) {
        assert_eq!(turn.first(), turn.last());
    }
}

/// The node of each of `count` huge pages that follow each other; nothing of one whose small pages lie apart.
fn nodes_of_huge_pages(nodes: &NodeSet, count: usize) -> Vec<Option<NodeNumber>> {
    const HUGE: usize = 2 << 20;
    let start = memory::reserve(count * HUGE, HUGE).expect("addresses");
    let pages = Pages {
        start,
        count: count * HUGE / memory::page_size(),
    };
    // SAFETY: whole pages of this reservation.
    unsafe {
        assert!(memory::commit(start, pages.bytes()));
        assert!(hugepages::advise(start, pages.bytes()));
        numa::interleave(start, pages.bytes(), nodes).unwrap();
    }
    pages.touch();
    let on = pages.nodes();
    let one = |pages: &[Option<NodeNumber>]| {
        pages[0].filter(|&node| pages.iter().all(|&on| on == Some(node)))
    };
    on.chunks(HUGE / memory::page_size()).map(one).collect()
}

#[test]
fn a_huge_page_is_one_turn() {
    if machine() == Machine::Here {
        return;
    }
    let nodes = nodes();
    let huge = nodes_of_huge_pages(&set(&nodes), 2 * nodes.len());
    for node in &nodes {
        assert_eq!(
            huge.iter().filter(|&&on| on == node.number).count(),
            2,
            "{huge:?}"
        );
    }
    assert_eq!(huge[..nodes.len()], huge[nodes.len()..]);
}

#[test]
fn pages_that_were_touched_stay_until_they_are_released() {
    let nodes = nodes();
    for (from, to) in nodes.iter().zip(nodes.iter().rev()) {
        let pages = Pages::new(32);
        pages.bind(number(from));
        pages.touch();
        pages.bind(number(to));
        pages.touch();
        assert!(pages.are_on(number(from)));
        pages.release();
        pages.touch();
        assert!(pages.are_on(number(to)));
    }
}

#[test]
fn pages_without_a_policy_lie_where_they_are_touched() {
    let nodes = nodes();
    for node in &nodes {
        let Some(processor) = node.processors.iter().next() else {
            continue;
        };
        let (nodes, home) = (nodes.clone(), number(node));
        let touched_here = move || {
            bind_this_thread(processor);
            let pages = Pages::new(16);
            nodes.iter().for_each(|other| pages.bind(number(other)));
            // SAFETY: whole pages of this mapping.
            unsafe { numa::default(pages.start, pages.bytes()) }.unwrap();
            assert_eq!(numa::policy_of(pages.start), Ok(Policy::Default));
            pages.touch();
            assert!(pages.are_on(home));
        };
        std::thread::spawn(touched_here).join().unwrap();
    }
}

#[test]
fn every_thread_is_where_it_was_placed() {
    let nodes = nodes();
    let mut placed = 0;
    for node in &nodes {
        for processor in node.processors.iter() {
            placed += 1;
            let seen = seen_on(&node.processors);
            assert_eq!(seen.processors, node.processors);
            assert!(node.processors.contains(seen.place.processor));
            assert_eq!(seen.place.node, node.index);
            let one = ProcessorSet::range(processor, processor + 1);
            let seen = seen_on(&one);
            assert_eq!(
                seen.place,
                Place {
                    processor,
                    node: node.index
                }
            );
            assert_eq!(seen.page, node.number);
        }
    }
    let places: usize = nodes.iter().map(|node| node.processors.count()).sum();
    assert_eq!(placed, places);
}

#[test]
fn a_node_whose_processors_are_forbidden_has_none() {
    for node in nodes() {
        for processor in node.processors.iter() {
            let seen = move || {
                bind_this_thread(processor);
                let nodes: Vec<Node> = Topology::host().usable_nodes().collect();
                let may_run = nodes.iter().map(|node| node.processors.count());
                may_run.collect::<Vec<usize>>()
            };
            let may_run = std::thread::spawn(seen).join().unwrap();
            assert_eq!((may_run[node.index], may_run.iter().sum()), (1, 1));
        }
    }
}

/// Nodes of the machines in tests/qemu have 128 MB.
#[test]
fn a_full_node_turns_to_others_and_kills_nobody() {
    if machine() == Machine::Here {
        return;
    }
    let nodes = nodes();
    let last = nodes.last().unwrap();
    let pages = Pages::new(160 << 20 >> 12);
    pages.bind(number(last));
    pages.touch();
    let on = pages.nodes();
    let home = on.iter().filter(|&&on| on == last.number).count();
    assert!(on.iter().all(Option::is_some));
    assert!((1..on.len()).contains(&home), "{home} of {}", on.len());
}

#[test]
fn a_processor_that_comes_online_later_has_its_node() {
    if machine() != Machine::Uneven {
        return;
    }
    let topology = Topology::host();
    let switch = "/sys/devices/system/cpu/cpu5/online";
    std::fs::write(switch, "1").unwrap();
    let place = move || {
        bind_this_thread(5);
        topology.place()
    };
    let place = std::thread::spawn(place).join().unwrap();
    std::fs::write(switch, "0").unwrap();
    assert_eq!(
        place,
        Place {
            processor: 5,
            node: 1
        }
    );
}

fn bind_this_thread(processor: usize) {
    // SAFETY: binds the calling thread alone.
    unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &one), 0);
    }
}

/// The last in the order of names, since it moves the whole process.
#[test]
fn zz_memory_that_a_cpuset_forbids_is_not_used() {
    if machine() == Machine::Here {
        return;
    }
    let all = nodes();
    let root = "/tmp/cgroup";
    std::fs::create_dir_all(root).unwrap();
    let [folder, kind] = [root, "cgroup2"].map(|text| CString::new(text).unwrap());
    // SAFETY: strings that outlive the call.
    let mounted = unsafe {
        let (folder, kind) = (folder.as_ptr(), kind.as_ptr());
        libc::mount(kind, folder, kind, 0, std::ptr::null())
    };
    assert_eq!(mounted, 0, "{}", std::io::Error::last_os_error());
    let write = |path: &str, text: &str| std::fs::write(format!("{root}/{path}"), text).unwrap();
    write("cgroup.subtree_control", "+cpuset");
    std::fs::create_dir(format!("{root}/some")).unwrap();
    let (first, last) = (number(&all[0]), number(all.last().unwrap()));
    write("some/cpuset.mems", &last.0.to_string());
    write("some/cgroup.procs", "0");
    let topology = Topology::host();
    assert_eq!((topology.nodes(), topology.number(0)), (1, Some(last)));
    assert_eq!(topology.place().node, 0);
    let pages = Pages::new(8);
    // SAFETY: whole pages of this mapping.
    let refused = unsafe { numa::bind(pages.start, pages.bytes(), first) }.unwrap_err();
    assert_eq!(refused.reason, Reason::Nodes);
    pages.touch();
    assert!(pages.are_on(last));
    write("cgroup.procs", "0");
    assert_eq!(Topology::host().nodes(), all.len());
}
