//! The phase engine under real threads, more of them than processors.
#![cfg(not(loom))]

mod parkings;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::options::{Parking, TaskQueue};
use gleaner_work::mailbox::BatchMemory;
use gleaner_work::{
    Crew, Deque, MAX_WORKERS, Mailboxes, Outbox, Phase, Steal, Synchronisation, Verdict, Worker,
};
use parkings::Policies;

parkings::tests! {
    a_crew_without_helpers_works_alone,
    thousands_of_short_phases_on_sixteen_workers,
    the_largest_crew_runs_and_a_larger_one_is_cut,
    a_failed_spawn_leaves_fewer_helpers,
    indices_are_given_in_order_and_again_after_a_failure_and_a_fork,
    helpers_that_never_arrive_are_not_waited_for,
    every_wanted_helper_is_called_and_joins_an_open_phase,
    all_come_where_all_are_awaited_also_after_phases_without_them,
    a_child_of_fork_forgets_its_helpers_and_makes_new_ones,
    a_panic_in_the_leaders_share_waits_for_the_helpers,
    sixteen_workers_mark_every_node_of_many_small_graphs,
    three_workers_mark_every_node_of_larger_graphs,
    thirty_two_workers_mark_with_tiny_deques,
    a_panic_in_the_leaders_share_gives_up_its_mail,
    a_worker_that_forgets_its_mail_is_told;
    with_tasks:
        letters_arrive_with_48_workers_on_8_nodes,
        letters_arrive_where_nodes_have_no_worker,
        every_task_is_taken_once,
        late_helpers_take_no_task_of_another_phase,
        counts_are_exact_when_the_leader_is_alone,
        tasks_locks_and_wakeups_of_helpers_are_counted
}

/// A crew whose helper threads are joined at the end of the test.
struct Team {
    crew: &'static Crew,
    threads: Vec<JoinHandle<()>>,
}

/// Starts helper `index` of `crew`: called once for each index that the crew gives out.
fn helper(crew: &'static Crew, index: usize) -> JoinHandle<()> {
    // SAFETY: the crew gave out the index, and this thread alone was started for it.
    thread::spawn(move || unsafe { crew.serve(index) })
}

impl Team {
    fn of(policies: Policies, workers: usize) -> Self {
        let mut team = Self {
            crew: policies.crew(),
            threads: Vec::new(),
        };
        assert_eq!(team.grow(workers - 1), workers - 1);
        team
    }

    fn grow(&mut self, wanted: usize) -> usize {
        let Team { crew, threads } = self;
        crew.ensure_helpers(wanted, &mut |index| {
            threads.push(helper(crew, index));
            true
        })
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.crew.dismiss();
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// Divides `total` units by a cursor; nobody offers.
struct Count {
    next: AtomicUsize,
    total: usize,
    done: AtomicUsize,
}

impl Count {
    fn new(total: usize) -> Self {
        Self {
            next: AtomicUsize::new(0),
            total,
            done: AtomicUsize::new(0),
        }
    }
}

impl Phase for Count {
    fn work(&self, _worker: &Worker<'_>) {
        while self.next.fetch_add(1, Ordering::Relaxed) < self.total {
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn a_crew_without_helpers_works_alone(policies: Policies) {
    let crew = policies.crew();
    for _ in 0..100 {
        let count = Count::new(10);
        crew.run(MAX_WORKERS, &count);
        assert_eq!(count.done.load(Ordering::Relaxed), 10);
    }
}

fn thousands_of_short_phases_on_sixteen_workers(policies: Policies) {
    let team = Team::of(policies, 16);
    for phase in 0..10_000 {
        let count = Count::new(50);
        team.crew.run(1 + phase % 17, &count);
        assert_eq!(count.done.load(Ordering::Relaxed), 50);
    }
}

fn the_largest_crew_runs_and_a_larger_one_is_cut(policies: Policies) {
    let mut team = Team::of(policies, MAX_WORKERS);
    assert_eq!(team.grow(1_000), MAX_WORKERS - 1);
    for _ in 0..50 {
        let count = Count::new(500);
        team.crew.run(1_000, &count);
        assert_eq!(count.done.load(Ordering::Relaxed), 500);
    }
}

/// Takes tasks, announces while some are left, and offers, as a trace does.
struct Tasks {
    taken: Vec<AtomicU32>,
}

impl Phase for Tasks {
    fn tasks(&self) -> usize {
        self.taken.len()
    }

    fn work(&self, worker: &Worker<'_>) {
        loop {
            while let Some(task) = worker.take_task() {
                self.taken[task].fetch_add(1, Ordering::Relaxed);
                if worker.has_tasks() {
                    worker.announce();
                }
            }
            if worker.offer(|| worker.has_tasks()) != Verdict::WorkAgain {
                return;
            }
        }
    }
}

fn every_task_is_taken_once(policies: Policies) {
    let team = Team::of(policies, 16);
    let tasks = Tasks {
        taken: (0..300).map(|_| AtomicU32::new(0)).collect(),
    };
    for phase in 1..=3_000 {
        team.crew.run(16, &tasks);
        assert!(
            tasks
                .taken
                .iter()
                .all(|count| count.load(Ordering::Relaxed) == phase)
        );
    }
}

/// Takes this many tasks of three more.
struct Part(usize);

impl Phase for Part {
    fn tasks(&self) -> usize {
        self.0 + 3
    }

    fn work(&self, worker: &Worker<'_>) {
        for task in 0..self.0 {
            assert_eq!(worker.take_task(), Some(task));
        }
    }
}

fn counts_are_exact_when_the_leader_is_alone(policies: Policies) {
    let crew = policies.crew();
    let mut counts = Synchronisation {
        phases: 0,
        tasks: 0,
        wakeups: 0,
        lock_acquisitions: 0,
        failed_cas: 0,
        task_queue: policies.tasks,
        parking: policies.parking,
    };
    assert_eq!(crew.synchronisation(), counts);
    let all = Tasks {
        taken: (0..5).map(|_| AtomicU32::new(0)).collect(),
    };
    let phases: [(&dyn Phase, u64); 4] = [(&all, 5), (&Part(4), 4), (&Count::new(9), 0), (&all, 5)];
    for (phase, tasks) in phases {
        crew.run(MAX_WORKERS, phase);
        counts.phases += 1;
        counts.tasks += tasks;
        if policies.tasks == TaskQueue::Locked {
            counts.lock_acquisitions += 1 + tasks; // the fill's first
        }
        assert_eq!(crew.synchronisation(), counts);
    }
}

/// Phases with pauses between them in which helpers fall asleep, until one of them was asleep.
fn tasks_locks_and_wakeups_of_helpers_are_counted(policies: Policies) {
    let team = Team::of(policies, 5);
    let tasks = Tasks {
        taken: (0..20).map(|_| AtomicU32::new(0)).collect(),
    };
    let mut phases = 0;
    while phases < 30 || phases < 20_000 && team.crew.synchronisation().wakeups == 0 {
        team.crew.run(5, &tasks);
        phases += 1;
        thread::sleep(Duration::from_millis(1));
    }
    let counts = team.crew.synchronisation();
    assert_eq!((counts.phases, counts.tasks), (phases, 20 * phases));
    assert!(counts.wakeups > 0);
    match (policies.tasks, policies.parking) {
        (TaskQueue::Locked, _) => {
            assert!(counts.lock_acquisitions >= counts.tasks + phases);
            assert_eq!(counts.failed_cas, 0);
        }
        (TaskQueue::LockFree, Parking::Monitor) => assert!(counts.lock_acquisitions >= phases),
        (TaskQueue::LockFree, Parking::Futex) => assert_eq!(counts.lock_acquisitions, 0),
    }
}

/// One of the next helpers that come or go is late, unless one was told to be and was not yet.
fn arm_late_worker() {
    if faults::left(FaultPoint::WorkerLate) == 0 {
        faults::arm(FaultPoint::WorkerLate, 30);
    }
}

/// Helpers are held up on their way into phases and out of them, while the leader goes on: with tasks that differ from
/// phase to phase, each is done in its own phase.
fn late_helpers_take_no_task_of_another_phase(policies: Policies) {
    let team = Team::of(policies, 48);
    for phase in 0..300 {
        arm_late_worker();
        let tasks = Tasks {
            taken: (0..phase % 70).map(|_| AtomicU32::new(0)).collect(),
        };
        team.crew.run(48, &tasks);
        let once = |count: &AtomicU32| count.load(Ordering::Relaxed) == 1;
        assert!(tasks.taken.iter().all(once), "phase {phase}");
    }
}

fn a_failed_spawn_leaves_fewer_helpers(policies: Policies) {
    let mut team = Team::of(policies, 3);
    assert_eq!(team.crew.ensure_helpers(8, &mut |_| false), 2);
    assert_eq!(team.grow(3), 3);
    let count = Count::new(50);
    team.crew.run(8, &count);
    assert_eq!(count.done.load(Ordering::Relaxed), 50);
}

fn indices_are_given_in_order_and_again_after_a_failure_and_a_fork(policies: Policies) {
    let crew = policies.crew();
    // The indices that are asked for when the thread of `refused` is not started.
    let indices = |wanted, refused| {
        let mut asked = Vec::new();
        crew.ensure_helpers(wanted, &mut |index| {
            asked.push(index);
            index != refused
        });
        asked
    };
    assert_eq!(indices(5, 3), [1, 2, 3]);
    assert_eq!(indices(4, 0), [3, 4]);
    assert_eq!(indices(5, 0), [5]);
    crew.forget_helpers_after_fork();
    assert_eq!(indices(2, 0), [1, 2]);
}

/// Runs phases with helpers that never get a processor: they must not be waited for.
fn helpers_that_never_arrive_are_not_waited_for(policies: Policies) {
    let crew = policies.crew();
    let mut kept = None;
    crew.ensure_helpers(1, &mut |index| {
        kept = Some(index);
        true
    });
    for _ in 0..100 {
        let count = Count::new(10);
        crew.run(2, &count);
        assert_eq!(count.done.load(Ordering::Relaxed), 10);
    }
    // The thread comes to life long after: it finds a closed phase, then its dismissal.
    let late = helper(crew, kept.unwrap());
    crew.dismiss();
    late.join().unwrap();
}

/// A worker that came into the phase waits there until all have come.
struct Assembly {
    wanted: usize,
    present: AtomicUsize,
}

impl Phase for Assembly {
    fn work(&self, _worker: &Worker<'_>) {
        self.present.fetch_add(1, Ordering::AcqRel);
        while self.present.load(Ordering::Acquire) < self.wanted {
            thread::yield_now();
        }
    }
}

/// Helpers sleep through phases that are over at once, and are awaited in the next one, and sent home in their sleep.
fn all_come_where_all_are_awaited_also_after_phases_without_them(policies: Policies) {
    for workers in [2, 3, 9, 33] {
        let team = Team::of(policies, workers);
        for round in 0..20 {
            thread::sleep(Duration::from_millis(1));
            for wanted in [1, 1, workers] {
                let assembly = Assembly {
                    wanted: if round == 19 { 1 } else { wanted },
                    present: AtomicUsize::new(0),
                };
                team.crew.run(workers, &assembly);
            }
        }
    }
}

fn every_wanted_helper_is_called_and_joins_an_open_phase(policies: Policies) {
    let team = Team::of(policies, 8);
    for phase in 0..300 {
        let wanted = 1 + phase % 8;
        let assembly = Assembly {
            wanted,
            present: AtomicUsize::new(0),
        };
        team.crew.run(wanted, &assembly);
        assert_eq!(assembly.present.load(Ordering::Relaxed), wanted);
    }
}

fn a_child_of_fork_forgets_its_helpers_and_makes_new_ones(policies: Policies) {
    // What the child does, played in a process whose old helpers are gone: they have all been there.
    let parent = Team::of(policies, 4);
    let crew = parent.crew;
    let assemble = || {
        let assembly = Assembly {
            wanted: 4,
            present: AtomicUsize::new(0),
        };
        crew.run(4, &assembly);
        assert_eq!(assembly.present.load(Ordering::Relaxed), 4);
    };
    assemble();
    drop(parent);
    crew.forget_helpers_after_fork();
    // As if they had not gone.
    crew.ensure_helpers(3, &mut |_| true);
    crew.run(4, &Count::new(10));
    crew.forget_helpers_after_fork();
    assert_eq!(crew.helpers(), 0);
    crew.run(4, &Count::new(10));
    let mut team = Team {
        crew,
        threads: Vec::new(),
    };
    assert_eq!(team.grow(3), 3);
    assemble();
}

fn a_panic_in_the_leaders_share_waits_for_the_helpers(policies: Policies) {
    struct Fails(AtomicUsize);
    impl Phase for Fails {
        fn work(&self, worker: &Worker<'_>) {
            if worker.is_leader() {
                while self.0.load(Ordering::Acquire) == 0 {
                    thread::yield_now();
                }
                panic!("meant to happen");
            }
            self.0.store(1, Ordering::Release);
            for _ in 0..100 {
                thread::yield_now();
            }
            self.0.store(2, Ordering::Release);
        }
    }
    let team = Team::of(policies, 2);
    let fails = Fails(AtomicUsize::new(0));
    let run = std::panic::AssertUnwindSafe(|| team.crew.run(2, &fails));
    assert!(std::panic::catch_unwind(run).is_err());
    assert_eq!(fails.0.load(Ordering::Acquire), 2);
    let count = Count::new(10);
    team.crew.run(2, &count);
    assert_eq!(count.done.load(Ordering::Relaxed), 10);
}

/// Marks a graph: node i has the successors `edges[i]`; every reachable node must be visited.
struct Mark<'a> {
    edges: &'a [[u32; 3]],
    visited: Vec<AtomicBool>,
    scans: AtomicUsize,
    deques: Vec<Deque<'a, AtomicU32>>,
    /// Set when the run has returned: a worker that sees it came too late.
    over: AtomicBool,
}

impl Mark<'_> {
    fn scan(&self, worker: &Worker<'_>, stack: &mut Vec<u32>, node: u32) {
        self.scans.fetch_add(1, Ordering::Relaxed);
        for &next in &self.edges[node as usize] {
            if !self.visited[next as usize].swap(true, Ordering::Relaxed) {
                match self.deques[worker.index()].push(next) {
                    Ok(()) => worker.announce(),
                    Err(next) => stack.push(next),
                }
            }
        }
    }

    fn take(&self, worker: &Worker<'_>, stack: &mut Vec<u32>) -> Option<u32> {
        if let Some(node) = stack.pop().or_else(|| self.deques[worker.index()].pop()) {
            return Some(node);
        }
        let count = self.deques.len();
        for step in 0..count {
            let victim = &self.deques[(worker.index() + step) % count];
            loop {
                match victim.steal() {
                    Steal::Taken(node) => return Some(node),
                    Steal::Empty => break,
                    Steal::Retry => {}
                }
            }
        }
        None
    }
}

impl Phase for Mark<'_> {
    fn work(&self, worker: &Worker<'_>) {
        let mut stack = Vec::new();
        loop {
            while let Some(node) = self.take(worker, &mut stack) {
                self.scan(worker, &mut stack, node);
            }
            let verdict = worker.offer(|| self.deques.iter().any(|deque| !deque.is_empty()));
            assert!(
                !self.over.load(Ordering::Relaxed),
                "a worker outlived its phase"
            );
            match verdict {
                Verdict::WorkAgain => {}
                Verdict::Finished => {
                    assert!(
                        self.deques.iter().all(Deque::is_empty),
                        "finished with work left"
                    );
                    return;
                }
                Verdict::StandBy => return,
            }
        }
    }
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn mark_graphs(policies: Policies, workers: usize, nodes: usize, runs: usize, ring: usize) {
    let team = Team::of(policies, workers);
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..runs {
        // A tree, so that all is reachable, with one random edge a node; sometimes a thin chain,
        // on which idle workers starve, stand by, and are called back where it branches.
        let chain = random(&mut seed).is_multiple_of(3);
        let edges: Vec<[u32; 3]> = (0..nodes)
            .map(|i| {
                let left = if chain && i % 64 != 0 {
                    i + 1
                } else {
                    2 * i + 1
                };
                let right = if chain && i % 64 != 0 { i } else { 2 * i + 2 };
                let any = random(&mut seed) as usize % nodes;
                [left, right, any].map(|n| if n < nodes { n as u32 } else { i as u32 })
            })
            .collect();
        let rings: Vec<Vec<AtomicU32>> = (0..workers)
            .map(|_| (0..ring).map(|_| AtomicU32::new(0)).collect())
            .collect();
        let mark = Mark {
            edges: &edges,
            visited: (0..nodes).map(|_| AtomicBool::new(false)).collect(),
            scans: AtomicUsize::new(0),
            deques: rings.iter().map(|ring| Deque::new(ring)).collect(),
            over: AtomicBool::new(false),
        };
        mark.visited[0].store(true, Ordering::Relaxed);
        mark.deques[0].push(0).unwrap();
        team.crew.run(workers, &mark);
        mark.over.store(true, Ordering::Relaxed);
        let reachable = reachable(&edges);
        assert_eq!(
            mark.scans.load(Ordering::Relaxed),
            reachable,
            "each node is scanned once"
        );
        assert!(mark.deques.iter().all(Deque::is_empty));
    }
}

fn reachable(edges: &[[u32; 3]]) -> usize {
    let mut seen = vec![false; edges.len()];
    let mut stack = vec![0];
    seen[0] = true;
    let mut count = 0;
    while let Some(node) = stack.pop() {
        count += 1;
        for &next in &edges[node as usize] {
            if !std::mem::replace(&mut seen[next as usize], true) {
                stack.push(next);
            }
        }
    }
    count
}

fn sixteen_workers_mark_every_node_of_many_small_graphs(policies: Policies) {
    mark_graphs(policies, 16, 200, 5_000, 8);
}

fn three_workers_mark_every_node_of_larger_graphs(policies: Policies) {
    mark_graphs(policies, 3, 20_000, 40, 1 << 10);
}

fn thirty_two_workers_mark_with_tiny_deques(policies: Policies) {
    mark_graphs(policies, 32, 3_000, 300, 2);
}

/// Letters that go from node to node: each task starts one, which is sent on [`HOPS`] times.
struct Letters<'a> {
    mail: Mailboxes<'a>,
    letters: usize,
    /// `[i]`: the letters that arrived on node i, summed up.
    arrived: Vec<AtomicU64>,
}

const HOPS: u64 = 20;

/// A letter: its number, the node that it goes to, and how often it is sent on from there.
fn letter(number: u64, hops: u64, nodes: usize) -> u64 {
    let mut seed = (number << 8 | hops) + 1;
    random(&mut seed);
    number << 16 | (random(&mut seed) % nodes as u64) << 8 | hops
}

fn node(letter: u64) -> usize {
    (letter >> 8) as usize & 0xff
}

impl Letters<'_> {
    /// A letter has arrived; what is sent on.
    fn read(&self, word: u64) -> Option<u64> {
        self.arrived[node(word)].fetch_add(word, Ordering::Relaxed);
        let hops = word & 0xff;
        (hops > 0).then(|| letter(word >> 16, hops - 1, self.mail.nodes()))
    }

    fn expected(&self) -> Vec<u64> {
        let nodes = self.mail.nodes();
        let mut sums = vec![0; nodes];
        for number in 0..self.letters as u64 {
            for word in (0..=HOPS).map(|hops| letter(number, hops, nodes)) {
                sums[node(word)] += word;
            }
        }
        sums
    }
}

impl Phase for Letters<'_> {
    fn tasks(&self) -> usize {
        self.letters
    }

    fn mail(&self) -> Option<&Mailboxes<'_>> {
        Some(&self.mail)
    }

    fn work(&self, worker: &Worker<'_>) {
        let (mut outbox, mut kept) = (Outbox::default(), Vec::new());
        loop {
            while let Some(batch) = worker.receive() {
                kept.extend(batch.words().filter_map(|word| self.read(word)));
            }
            if let Some(word) = kept.pop() {
                if outbox.put(worker, &self.mail, node(word), word).is_err() {
                    kept.push(word);
                    outbox.flush(worker);
                    thread::yield_now();
                }
            } else if let Some(task) = worker.take_task() {
                kept.push(letter(task as u64, HOPS, self.mail.nodes()));
                if worker.has_tasks() {
                    worker.announce();
                }
            } else if !outbox.flush(worker) {
                thread::yield_now();
            } else {
                match worker.offer(|| worker.has_tasks()) {
                    Verdict::WorkAgain => {}
                    Verdict::Finished | Verdict::StandBy => return,
                }
            }
        }
    }
}

fn send_letters(policies: Policies, workers: usize, batches: usize, letters: usize, runs: usize) {
    let team = Team::of(policies, workers);
    let memory: Vec<BatchMemory> = (0..batches).map(|_| BatchMemory::new()).collect();
    let mut mail = Mailboxes::new(&memory, 8);
    for run in 0..runs {
        arm_late_worker();
        mail.set_home(0, run % 8); // the leader runs anywhere
        let phase = Letters {
            mail,
            letters,
            arrived: (0..8).map(|_| AtomicU64::new(0)).collect(),
        };
        team.crew.run(workers, &phase);
        let arrived = phase.arrived.iter();
        let arrived: Vec<u64> = arrived.map(|sum| sum.load(Ordering::Relaxed)).collect();
        assert_eq!(arrived, phase.expected(), "run {run}");
        mail = phase.mail;
        let free: Vec<_> = std::iter::from_fn(|| mail.batch()).collect();
        assert_eq!(free.len(), batches, "run {run}");
    }
}

fn letters_arrive_with_48_workers_on_8_nodes(policies: Policies) {
    send_letters(policies, 48, 512, 2_000, 15);
    // Fewer batches than workers: most senders have to wait.
    send_letters(policies, 48, 10, 200, 15);
}

fn letters_arrive_where_nodes_have_no_worker(policies: Policies) {
    send_letters(policies, 3, 64, 500, 30);
    send_letters(policies, 1, 64, 500, 3);
}

/// The leader leaves by a panic while helpers send to its node. The phase ends, and the next one is whole.
fn a_panic_in_the_leaders_share_gives_up_its_mail(policies: Policies) {
    struct Fails<'a> {
        mail: Mailboxes<'a>,
        sent: AtomicUsize,
    }
    impl Phase for Fails<'_> {
        fn mail(&self) -> Option<&Mailboxes<'_>> {
            Some(&self.mail)
        }
        fn work(&self, worker: &Worker<'_>) {
            if worker.is_leader() {
                while self.sent.load(Ordering::Relaxed) < 3 {
                    thread::yield_now();
                }
                panic!("meant to happen");
            }
            for _ in 0..20 {
                let batch = loop {
                    match self.mail.batch() {
                        Some(batch) => break batch,
                        None => thread::yield_now(),
                    }
                };
                worker.send(0, batch).unwrap();
                self.sent.fetch_add(1, Ordering::Relaxed);
            }
            while worker.offer(|| false) == Verdict::WorkAgain {}
        }
    }
    let team = Team::of(policies, 3);
    let memory: Vec<BatchMemory> = (0..8).map(|_| BatchMemory::new()).collect();
    let fails = Fails {
        mail: Mailboxes::new(&memory, 3),
        sent: AtomicUsize::new(0),
    };
    let run = std::panic::AssertUnwindSafe(|| team.crew.run(3, &fails));
    assert!(std::panic::catch_unwind(run).is_err());
    let free: Vec<_> = std::iter::from_fn(|| fails.mail.batch()).collect();
    assert_eq!(free.len(), memory.len());
    let count = Count::new(10);
    team.crew.run(3, &count);
    assert_eq!(count.done.load(Ordering::Relaxed), 10);
}

/// A worker that does not offer before it leaves would miss what is sent to it.
fn a_worker_that_forgets_its_mail_is_told(policies: Policies) {
    struct Forgets<'a>(Mailboxes<'a>);
    impl Phase for Forgets<'_> {
        fn mail(&self) -> Option<&Mailboxes<'_>> {
            Some(&self.0)
        }
        fn work(&self, _: &Worker<'_>) {}
    }
    let memory = [BatchMemory::new()];
    let forgets = Forgets(Mailboxes::new(&memory, 1));
    let crew = policies.crew();
    let run = std::panic::AssertUnwindSafe(|| crew.run(1, &forgets));
    let panic = std::panic::catch_unwind(run).unwrap_err();
    let message = panic.downcast_ref::<String>().map_or("", String::as_str);
    assert!(message.contains("without a last offer"), "{message:?}");
}

#[test]
fn thieves_and_owner_share_every_item_once() {
    const ITEMS: usize = 200_000;
    let ring: Vec<AtomicU32> = (0..16).map(|_| AtomicU32::new(0)).collect();
    let deque = Deque::new(&ring);
    let seen: Vec<AtomicU32> = (0..ITEMS).map(|_| AtomicU32::new(0)).collect();
    let over = AtomicBool::new(false);
    let take = |item: u32| seen[item as usize].fetch_add(1, Ordering::Relaxed);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    match deque.steal() {
                        Steal::Taken(item) => drop(take(item)),
                        Steal::Empty => thread::yield_now(),
                        Steal::Retry => {}
                    }
                }
            });
        }
        for item in 0..ITEMS as u32 {
            let mut item = item;
            while let Err(back) = deque.push(item) {
                item = back;
                deque.pop().map(take);
            }
            if item % 3 == 0 {
                deque.pop().map(take);
            }
        }
        while let Some(item) = deque.pop() {
            take(item);
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
}

#[test]
fn a_deque_is_last_in_first_out_for_its_owner_and_first_in_first_out_for_thieves() {
    let ring: Vec<AtomicU32> = (0..4).map(|_| AtomicU32::new(0)).collect();
    let deque = Deque::new(&ring);
    for item in 1..=4 {
        deque.push(item).unwrap();
    }
    assert_eq!(deque.push(5), Err(5));
    assert_eq!(deque.steal(), Steal::Taken(1));
    assert_eq!(deque.pop(), Some(4));
    deque.push(6).unwrap();
    deque.push(7).unwrap();
    assert_eq!((deque.len(), deque.capacity()), (4, 4));
    assert_eq!(deque.steal(), Steal::Taken(2));
    assert_eq!(deque.pop(), Some(7));
    assert_eq!(deque.pop(), Some(6));
    assert_eq!(deque.pop(), Some(3));
    assert_eq!(deque.pop(), None);
    assert_eq!(deque.steal(), Steal::Empty);
}

#[test]
fn a_deque_without_a_ring_is_full_and_empty() {
    let deque: Deque<'_, AtomicU32> = Deque::new(&[]);
    assert_eq!(deque.push(1), Err(1));
    assert_eq!(deque.pop(), None);
    assert_eq!(deque.steal(), Steal::Empty);
}
