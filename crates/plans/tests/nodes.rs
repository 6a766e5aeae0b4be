//! Where the kernel puts the pages of a precise heap under each page policy. On a machine with one node there is little
//! to see; `make test-qemu` boots others.

#![cfg(not(loom))]

mod lists;

use std::ptr::NonNull;

use gleaner_base::options::{OldPages, Options, Pages, Zeroing};
use gleaner_mem::Address;
use gleaner_mem::slot::Wide;
use gleaner_os::numa::{self, Policy};
use gleaner_os::topology::{NodeNumber, NodeSet, Topology};
use gleaner_plans::scavenge::{Config, Scavenge};
use gleaner_spaces::precise::regions::Kind;

fn at(address: Address) -> NonNull<u8> {
    NonNull::new(address.ptr()).unwrap()
}

/// The numbers of the nodes to use; none where the system places no pages.
fn numbers() -> Vec<NodeNumber> {
    match numa::process_policy() {
        Ok(_) => {
            let topology = Topology::host();
            let nodes = topology.usable_nodes();
            nodes.filter_map(|node| node.number).collect()
        }
        Err(refusal) => {
            assert!(std::env::var("GLEANER_MACHINE").is_err(), "{refusal}");
            eprintln!("not tried: {refusal}");
            Vec::new()
        }
    }
}

fn set(numbers: &[NodeNumber]) -> NodeSet {
    numbers.iter().map(|number| usize::from(number.0)).collect()
}

/// The nodes of the pages of a region that were touched.
fn touched(start: Address, end: Address) -> Vec<(usize, NodeNumber)> {
    let pages = end.offset_from(start).div_ceil(4096);
    let mut found = Vec::new();
    let each = |page, node: Option<NodeNumber>| found.extend(node.map(|node| (page, node)));
    numa::nodes_of_range(at(start), pages, each).unwrap();
    found
}

/// Pages of an interleaved region: as many are on each node, and the next page is on the next one.
fn check_turns(pages: &[(usize, NodeNumber)], nodes: &[NodeNumber]) {
    let place = |number| nodes.iter().position(|&node| node == number).unwrap();
    for pair in pages.windows(2) {
        let [(first, here), (second, there)] = [pair[0], pair[1]];
        let step = (second - first) % nodes.len();
        assert_eq!((place(here) + step) % nodes.len(), place(there));
    }
}

fn check(heap: &Scavenge<Wide>, nodes: &[NodeNumber]) {
    let options = &heap.config.options;
    let is_placed = nodes.len() > 1;
    assert_eq!(heap.refusal, None);
    for region in heap.nursery.regions().iter() {
        let space = region.space;
        let policy = numa::policy_of(at(space.start())).unwrap();
        // What is free may be there, too.
        let pages = touched(space.start(), space.end());
        match options.pages {
            Pages::Interleaved if is_placed => {
                assert_eq!(policy, Policy::Interleave(set(nodes)));
                check_turns(&pages, nodes);
            }
            Pages::Fragmented | Pages::FragmentedFixed | Pages::Segregated if is_placed => {
                let own = nodes[region.node];
                assert_eq!(policy, Policy::Preferred(set(&[own])));
                for (page, node) in pages {
                    assert_eq!(node, own, "{:?}, page {page}", region.kind);
                }
            }
            _ => assert_eq!(policy, Policy::Default),
        }
    }
    let eden = heap.nursery.regions();
    assert!(eden.iter().any(|region| region.kind == Kind::Eden));
    for space in [&heap.old.region, &heap.pinned.region] {
        let policy = numa::policy_of(at(space.start())).unwrap();
        if options.old_pages == OldPages::Interleaved && is_placed {
            assert_eq!(policy, Policy::Interleave(set(nodes)));
            check_turns(&touched(space.start(), space.top()), nodes);
        } else {
            assert_eq!(policy, Policy::Default);
        }
    }
}

fn run(workers: u32, zeroing: Zeroing) {
    let nodes = numbers();
    if nodes.is_empty() {
        return;
    }
    for (pages, old_pages) in [
        (Pages::FirstTouch, OldPages::FirstTouch),
        (Pages::FirstTouch, OldPages::Interleaved),
        (Pages::Interleaved, OldPages::Interleaved),
        (Pages::Fragmented, OldPages::Interleaved),
        (Pages::FragmentedFixed, OldPages::FirstTouch),
        (Pages::Segregated, OldPages::Interleaved),
    ] {
        let options = Options {
            pages,
            old_pages,
            workers,
            zeroing,
            // An emulated machine is slow: few steps, and collections nevertheless.
            stress: 60,
            ..lists::options()
        };
        let config = Config::new(&options, Topology::host());
        lists::run::<Wide, _>(config, 3, 400, |heap| check(heap, &nodes));
    }
}

#[test]
fn pages_lie_where_their_policy_says() {
    run(8, Zeroing::HotPath);
}

#[test]
fn the_same_with_many_workers_and_zeroing_threads() {
    run(48, Zeroing::Concurrent);
}
