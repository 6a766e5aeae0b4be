//! Tests of topologies: the host's, synthetic ones, and machines laid out as files.

use super::*;
use gleaner_base::options::Options;

#[test]
fn a_thread_bound_to_one_processor_says_nothing_of_the_others() {
    let mut topology = Topology::host();
    std::thread::spawn(move || {
        let (all, before) = (topology.allowed(), topology.processors);
        assert!(all.count() >= before && before >= 1);
        let last = all.iter().last().unwrap();
        // SAFETY: binds this thread alone, to a processor it may use.
        unsafe {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(last, &mut one);
            assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &one), 0);
        }
        assert_eq!(topology.processors, before);
        assert_eq!((topology.refresh(), topology.processors), (before, before));
        let mut bound = Topology::host();
        assert_eq!((bound.processors, bound.refresh()), (1, 1));
        assert_eq!(topology.allowed(), ProcessorSet::range(last, last + 1));
        let place = topology.place();
        assert_eq!(place.processor, last);
        assert!(topology.processors_of_node(place.node).contains(last));
        // More processors are seen when they may be used.
        // SAFETY: lets this thread alone run where it could before; the kernel reads as many bytes as it is told.
        let set = unsafe {
            let words = all.words();
            libc::sched_setaffinity(0, size_of_val(words), words.as_ptr().cast())
        };
        assert_eq!((set, bound.refresh()), (0, before));
    })
    .join()
    .unwrap();
}

#[test]
fn a_quota_bounds_the_processors() {
    let mut topology = Topology::host();
    topology.quota = 1;
    assert_eq!((topology.refresh(), topology.processors), (1, 1));
}

#[test]
fn every_allowed_processor_is_on_some_node() {
    let topology = Topology::host();
    for processor in topology.allowed().iter() {
        let is_home = |node: &usize| topology.processors_of_node(*node).contains(processor);
        assert_eq!((0..topology.nodes()).filter(is_home).count(), 1);
    }
    assert_eq!(topology.processors_of_node(999_999), ProcessorSet::EMPTY);
}

#[test]
fn an_option_names_the_machine() {
    let named = |text| {
        let mut options = Options::DEFAULT;
        options.set("topology", text).unwrap();
        Topology::of(options.topology)
    };
    let machine = named("node:3 core:2 pu:2");
    assert_eq!((machine.nodes(), machine.processors), (3, 12));
    assert_eq!(machine.processors_of_node(2), ProcessorSet::range(8, 12));
    assert_eq!(named("host").allowed(), Topology::host().allowed());
}

#[test]
fn a_synthetic_machine_is_what_it_is_said_to_be() {
    let mut topology = Topology::synthetic(3, 4);
    assert_eq!((topology.refresh(), topology.nodes()), (12, 3));
    assert_eq!(topology.allowed(), ProcessorSet::parse(b"0-11"));
    assert_eq!(topology.processors_of_node(1), ProcessorSet::parse(b"4-7"));
    assert_eq!(topology.processors_of_node(3), ProcessorSet::EMPTY);
    let Place { processor, node } = topology.place();
    assert!(topology.processors_of_node(node).contains(processor));
}

#[test]
fn the_nearest_nodes_of_a_synthetic_machine_are_the_next_ones() {
    let topology = Topology::synthetic(4, 1);
    assert_eq!(nearest(&topology, 0), [1, 2, 3]);
    assert_eq!(nearest(&topology, 2), [3, 0, 1]);
    assert_eq!(nearest(&Topology::synthetic(1, 9), 0), [0usize; 0]);
    assert_eq!((topology.number(3), topology.numbers()), (None, None));
    assert_eq!(topology.node_of_processor(4), None);
    let nodes: Vec<Node> = topology.usable_nodes().collect();
    assert_eq!(nodes.len(), 4);
    assert_eq!((nodes[3].index, nodes[3].processors.count()), (3, 1));
}

fn nearest(topology: &Topology, node: usize) -> Vec<usize> {
    topology.nearest(node).collect()
}

/// Files of a machine in a folder of their own, which goes with them.
struct Laid(String);

impl Laid {
    /// Nodes, as kernel number, processors, distances to those that are listed; the nodes with memory, those allowed.
    fn new(name: &str, nodes: &[(usize, &str, &str)], memory: &str, allowed: &str) -> Laid {
        let root =
            std::env::temp_dir().join(format!("gleaner-machine-{}-{name}", std::process::id()));
        let machine = Laid(root.to_str().unwrap().to_owned());
        let online: Vec<String> = nodes.iter().map(|node| node.0.to_string()).collect();
        machine.write("sys/devices/system/node/online", &online.join(","));
        machine.write("sys/devices/system/node/has_memory", memory);
        let listed =
            format!("Name:\tx\nMems_allowed:\t0,f\nMems_allowed_list:\t{allowed}\nThreads:\t1\n");
        machine.write("proc/self/status", &listed);
        for (number, processors, distances) in nodes {
            let folder = format!("sys/devices/system/node/node{number}");
            machine.write(&format!("{folder}/cpulist"), processors);
            machine.write(&format!("{folder}/distance"), distances);
        }
        machine
    }

    fn write(&self, path: &str, line: &str) {
        let path = std::path::Path::new(&self.0).join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{line}\n")).unwrap();
    }

    fn topology(&self) -> Topology {
        Topology {
            is_host: true,
            nodes: Nodes::read(Files { root: &self.0 }),
            allowed: 1,
            quota: usize::MAX,
            processors: 1,
        }
    }
}

impl Drop for Laid {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn numbers(topology: &Topology) -> Vec<u16> {
    topology.nodes.numbers().to_vec()
}

fn processors(topology: &Topology, node: usize) -> Vec<usize> {
    (0..PROCESSORS_MAX)
        .filter(|&processor| topology.node_of_processor(processor) == Some(node))
        .collect()
}

#[test]
fn nodes_processors_and_distances_are_read() {
    let machine = Laid::new(
        "plain",
        &[
            (0, "0-1,8", "10 16 22 16"),
            (1, "2-3", "16 10 16 22"),
            (2, "4-5", "22 16 10 16"),
            (3, "6-7", "16 22 16 10"),
        ],
        "0-3",
        "0-3",
    );
    let topology = machine.topology();
    assert_eq!(numbers(&topology), [0, 1, 2, 3]);
    assert_eq!(processors(&topology, 0), [0, 1, 8]);
    assert_eq!(processors(&topology, 3), [6, 7]);
    assert_eq!(nearest(&topology, 0), [1, 3, 2]);
    assert_eq!(nearest(&topology, 1), [2, 0, 3]);
    assert_eq!(nearest(&topology, 3), [0, 2, 1]);
    assert_eq!(topology.number(2), Some(NodeNumber(2)));
    assert_eq!(topology.node_of_processor(9), None, "it is offline");
}

#[test]
fn nodes_without_memory_or_processors_are_respected() {
    // Node 1 has processors alone, node 2 memory alone, and numbers are left out, as firmware may do.
    let machine = Laid::new(
        "lame",
        &[
            (0, "0-1", "10 30 20 40"),
            (1, "2-3", "30 10 40 20"),
            (8, "", "20 40 10 40"),
            (252, "4", "40 20 40 10"),
        ],
        "0,8,252",
        "0-1023",
    );
    let topology = machine.topology();
    assert_eq!(numbers(&topology), [0, 8, 252]);
    assert_eq!(processors(&topology, 0), [0, 1]);
    assert_eq!(processors(&topology, 1), [0usize; 0]);
    assert_eq!(processors(&topology, 2), [2, 3, 4], "252 is nearest to 1");
    assert_eq!(nearest(&topology, 2), [0, 1]);
    assert_eq!(topology.number(1), Some(NodeNumber(8)));
    assert_eq!(topology.numbers(), Some(NodeSet::parse(b"0,8,252")));
    assert_eq!(topology.usable_nodes().count(), 3);
}

#[test]
fn memory_that_a_cpuset_forbids_is_not_used() {
    let nodes = [
        (0, "0", "10 20 30"),
        (1, "1", "20 10 20"),
        (2, "2", "30 20 10"),
    ];
    let machine = Laid::new("cpuset", &nodes, "0-2", "1-2");
    let topology = machine.topology();
    assert_eq!(numbers(&topology), [1, 2]);
    assert_eq!(processors(&topology, 0), [0, 1]);
    machine.write("proc/self/status", "Mems_allowed_list:\t2");
    let topology = machine.topology();
    assert_eq!(numbers(&topology), [2]);
    assert_eq!(processors(&topology, 0).len(), PROCESSORS_MAX);
    for nonsense in ["Name:\tx", "Mems_allowed_list:\t", "Mems_allowed_list:\t7"] {
        machine.write("proc/self/status", nonsense);
        assert_eq!(numbers(&machine.topology()), [0, 1, 2], "{nonsense}");
    }
}

#[test]
fn a_heap_uses_sixteen_nodes_and_the_processors_of_all() {
    let lists: Vec<String> = (0..20).map(|node| node.to_string()).collect();
    let distances: Vec<String> = (0..20usize)
        .map(|from| {
            let row = (0..20usize).map(|to| (10 + from.abs_diff(to)).to_string());
            row.collect::<Vec<_>>().join(" ")
        })
        .collect();
    let nodes: Vec<_> = (0..20)
        .map(|node| (node, &*lists[node], &*distances[node]))
        .collect();
    let topology = Laid::new("large", &nodes, "0-19", "0-19").topology();
    assert_eq!(topology.nodes(), MOST_NODES);
    assert_eq!(processors(&topology, 15), [15, 16, 17, 18, 19]);
    assert_eq!(nearest(&topology, 5)[..4], [6, 4, 7, 3]);
}

#[test]
fn a_system_that_does_not_tell_has_one_node() {
    let nothing = Nodes::read(Files {
        root: "/nowhere/at/all",
    });
    assert_eq!(nothing.numbers(), [0]);
    assert_eq!(nothing.of_processor(PROCESSORS_MAX - 1), Some(0));
    let long = "x".repeat(600);
    assert_eq!(Nodes::read(Files { root: &long }).numbers(), [0]);
    let machine = Laid::new("silent", &[(0, "0-1", ""), (1, "2-3", "10")], "0-1", "0-1");
    let topology = machine.topology();
    assert_eq!(
        (nearest(&topology, 0), nearest(&topology, 1)),
        (vec![1], vec![0])
    );
    machine.write("sys/devices/system/node/has_memory", "1");
    assert_eq!(numbers(&machine.topology()), [1]);
}

#[test]
fn the_host_is_what_its_files_say() {
    let topology = Topology::host();
    let online = std::fs::read_to_string("/sys/devices/system/node/has_memory");
    let memory = online.map_or(NodeSet::range(0, 1), |text| NodeSet::parse(text.as_bytes()));
    for node in topology.usable_nodes() {
        assert!(memory.contains(usize::from(node.number.unwrap().0)));
        assert_eq!(nearest(&topology, node.index).len(), topology.nodes() - 1);
    }
    for processor in topology.allowed().iter() {
        let bound = move || {
            let one = ProcessorSet::range(processor, processor + 1);
            // SAFETY: binds this thread alone; the kernel reads as many bytes as it is told.
            let set = unsafe {
                let words = one.words();
                libc::sched_setaffinity(0, size_of_val(words), words.as_ptr().cast())
            };
            assert_eq!(set, 0);
            topology.place()
        };
        let place = std::thread::spawn(bound).join().unwrap();
        assert_eq!(place.processor, processor);
        assert_eq!(Some(place.node), topology.node_of_processor(processor));
    }
}
