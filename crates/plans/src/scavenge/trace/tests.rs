use super::*;
use crate::scavenge::nodes::lockstep::Lockstep;
use gleaner_base::options::Options;
use gleaner_os::topology::Topology;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Turns of `lockstep` objects.
fn in_turns(lockstep: u32) -> Lockstep {
    let options = Options {
        lockstep,
        ..Options::DEFAULT
    };
    Lockstep::of(&options).unwrap()
}

/// Each task greys a tree of items: item n has the children 2n and 2n+1 below a bound.
struct Trees(Mutex<Vec<u64>>);

impl Trace for Trees {
    fn task(&self, local: &mut WorkerState, _: usize) {
        local.grey(Item(1));
    }
    fn item(&self, local: &mut WorkerState, item: Item) {
        self.0.lock().unwrap().push(item.0);
        for child in [item.0 * 2, item.0 * 2 + 1] {
            if child < 3000 {
                local.grey(Item(child));
            }
        }
    }
}

#[test]
fn every_item_is_scanned_once() {
    static CREW: Crew = Crew::new();
    CREW.ensure_helpers(3, &mut |index| {
        // SAFETY: the crew gave out the index, and this thread alone was started for it.
        std::thread::spawn(move || unsafe { CREW.serve(index) });
        true
    });
    for order in [
        TraceOrder::Depth,
        TraceOrder::Breadth,
        TraceOrder::Hierarchical,
    ] {
        let mut engine =
            Engine::new(4, Homes::new(&Topology::synthetic(2, 2)), 1 << 16, order).unwrap();
        for round in 0..20 {
            if round == 10 {
                engine.take_turns(in_turns(3));
            }
            let trees = Trees(Mutex::new(Vec::new()));
            engine.run(&CREW, 4, 5, &trees);
            let mut seen = trees.0.into_inner().unwrap();
            seen.sort_unstable();
            let expected: Vec<u64> = (1..3000).flat_map(|item| [item; 5]).collect();
            assert_eq!(seen, expected);
        }
    }
    CREW.dismiss();
}

/// One task greys a tree; which worker scans which item.
struct Shares(Mutex<Vec<(usize, u64)>>);

impl Trace for Shares {
    fn task(&self, local: &mut WorkerState, _: usize) {
        local.grey(Item(1));
    }
    fn item(&self, local: &mut WorkerState, item: Item) {
        self.0.lock().unwrap().push((local.node, item.0));
        for child in [item.0 * 2, item.0 * 2 + 1] {
            if child < 3000 {
                local.grey(Item(child));
            }
        }
    }
}

#[test]
fn workers_that_take_turns_share_the_work_and_do_the_same_each_time() {
    static CREW: Crew = Crew::new();
    let shares = |objects: u32| {
        let homes = Homes::new(&Topology::synthetic(4, 1));
        let mut engine = Engine::new(4, homes, 1 << 16, TraceOrder::Depth).unwrap();
        engine.take_turns(in_turns(objects));
        let shares = Shares(Mutex::new(Vec::new()));
        engine.run(&CREW, 4, 1, &shares);
        shares.0.into_inner().unwrap()
    };
    let all = shares(8);
    assert_eq!(all, shares(8));
    assert_ne!(all, shares(9));
    for worker in 0..4 {
        let own = all.iter().filter(|(by, _)| *by == worker).count();
        assert!((500..1000).contains(&own), "worker {worker}: {own}");
    }
    // Turns of one worker come next to each other at the edge of two rounds, and while nobody else has work.
    let turns = all.chunk_by(|(one, _), (other, _)| one == other);
    let turns: Vec<usize> = turns.map(<[_]>::len).collect();
    let long = turns.iter().filter(|&&objects| objects > 8).count();
    assert!(turns.len() > 250 && long * 3 < turns.len(), "{turns:?}");
}

/// Each task greys a tree, whose items have the number of its worker's node in front; who scanned them.
struct Apart(Mutex<Vec<(usize, usize)>>);

impl Trace for Apart {
    fn task(&self, local: &mut WorkerState, _: usize) {
        local.grey(Item((local.node as u64) << 32 | 1));
    }
    fn item(&self, local: &mut WorkerState, item: Item) {
        let (node, number) = (item.0 >> 32, item.0 & 0xffff_ffff);
        self.0.lock().unwrap().push((node as usize, local.node));
        for child in [number * 2, number * 2 + 1] {
            if child < 3000 {
                local.grey(Item(node << 32 | child));
            }
        }
    }
    fn is_segregated(&self) -> bool {
        true
    }
}

#[test]
fn in_segregated_spaces_workers_take_items_of_their_own_node_alone() {
    static CREW: Crew = Crew::new();
    let mut engine = segregated(4);
    engine.take_turns(in_turns(8));
    // One node has all the work.
    let apart = Apart(Mutex::new(Vec::new()));
    engine.run(&CREW, 4, 1, &apart);
    let all = apart.0.into_inner().unwrap();
    assert_eq!(all.len(), 2999);
    assert!(all.iter().all(|(of, by)| of == by));
    let own: u64 = engine
        .worker_states()
        .map(|local| local.counts.stolen[local.node])
        .sum();
    assert!(own > 0, "the other worker of the node helps");
}

/// Each task sends `count` messages to the other node, and each message makes an item grey there.
struct Letters {
    count: u64,
    scanned: AtomicUsize,
}

impl Trace for Letters {
    fn task(&self, local: &mut WorkerState, _: usize) {
        let other = 1 - local.node as u64;
        for number in 0..self.count {
            let place = Address::new(((number * 2 + other) * 8) as usize);
            if !local.send(Message::Slot(place, false)) {
                local.grey(Item(1));
            }
        }
    }
    fn item(&self, _: &mut WorkerState, _: Item) {
        self.scanned.fetch_add(1, Ordering::Relaxed);
    }
    fn is_segregated(&self) -> bool {
        true
    }
    fn node_of(&self, message: Message) -> usize {
        match message {
            Message::Slot(place, _) => place.word() / 8 % 2,
            Message::Root(_) => unreachable!("none is sent"),
        }
    }
    fn receive(&self, local: &mut WorkerState, _: Message) {
        local.grey(Item(1));
    }
}

/// Room as a heap of 4 MB has for `workers` workers on two nodes.
fn segregated(workers: usize) -> Engine {
    let homes = Homes::new(&Topology::synthetic(2, 2));
    let items = (4 << 20) / 16 + workers * MOST_WAITING;
    let mut engine = Engine::new(workers, homes, items, TraceOrder::Depth).unwrap();
    engine.segregate(2).unwrap();
    engine
}

#[test]
fn every_letter_is_answered_also_when_no_batch_is_free() {
    static CREW: Crew = Crew::new();
    CREW.ensure_helpers(1, &mut |index| {
        // SAFETY: the crew gave out the index, and this thread alone was started for it.
        std::thread::spawn(move || unsafe { CREW.serve(index) });
        true
    });
    let mut engine = segregated(2);
    for round in 0..2000 {
        if round == 1000 {
            engine.take_turns(in_turns(1));
        }
        let (count, scanned) = (500 + round % 1000, AtomicUsize::new(0));
        let letters = Letters { count, scanned };
        engine.run(&CREW, 2, 6, &letters);
        assert_eq!(
            letters.scanned.into_inner() as u64,
            6 * count,
            "round {round}"
        );
    }
    CREW.dismiss();
}

/// The last ones are sent in a round in which nobody finds anything, also to a worker that had its turn.
#[test]
fn letters_of_the_last_round_are_received() {
    static CREW: Crew = Crew::new();
    let mut engine = segregated(2);
    engine.take_turns(in_turns(64));
    // Each phase has another order.
    for round in 0..64 {
        let (count, scanned) = (3, AtomicUsize::new(0));
        let letters = Letters { count, scanned };
        engine.run(&CREW, 2, 1, &letters);
        assert_eq!(letters.scanned.into_inner(), 3, "round {round}");
    }
}

#[test]
fn a_task_may_have_more_letters_than_there_is_room_for() {
    static CREW: Crew = Crew::new();
    let (count, scanned) = (200_000, AtomicUsize::new(0));
    let letters = Letters { count, scanned };
    let mut engine = segregated(2);
    engine.run(&CREW, 1, 1, &letters);
    assert_eq!(letters.scanned.swap(0, Ordering::Relaxed), 200_000);
    // Also where another worker receives in its turn.
    engine.take_turns(in_turns(64));
    engine.run(&CREW, 2, 1, &letters);
    assert_eq!(letters.scanned.into_inner(), 200_000);
}
