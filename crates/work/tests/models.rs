//! The phase engine under loom: the shipped code, through the sync facade, in every interleaving
//! (up to a number of preemptions where stated). Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p gleaner-work --release --test models`.
#![cfg(loom)]

mod parkings;

use std::sync::Arc;

use gleaner_base::options;
use gleaner_base::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering, UnsafeCell};
use gleaner_work::mailbox::BatchMemory;
use gleaner_work::termination::{PhaseNumber, Termination};
use gleaner_work::{Crew, Deque, Mailboxes, Phase, Prefix, Steal, TaskQueue, Verdict, Worker};
use loom::thread::{self, JoinHandle};
use parkings::Policies;

fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

/// How many preemptions the largest models have: `long` where they may take minutes (`make test-loom-long`).
fn at_length(short: usize, long: usize) -> Option<usize> {
    Some(if std::env::var_os("GLEANER_LONG").is_some() {
        long
    } else {
        short
    })
}

fn ring(length: usize) -> &'static [AtomicU32] {
    Box::leak((0..length).map(|_| AtomicU32::new(0)).collect())
}

// The crew, under each way of parking.

parkings::tests! {
    crew_traces_two_phases,
    crew_calls_back_who_stood_by,
    crew_wakes_a_sleeping_leader,
    crew_announces_to_who_stands_by,
    crew_delivers_all_mail;
    with_tasks: crew_survives_a_late_helper_over_two_phases
}

struct Team {
    crew: &'static Crew,
    threads: Vec<JoinHandle<()>>,
}

impl Team {
    fn of(policies: Policies, workers: usize) -> Self {
        let crew = policies.crew();
        let mut threads = Vec::new();
        crew.ensure_helpers(workers - 1, &mut |index| {
            // SAFETY: the crew gave out the index, and this thread alone was started for it.
            threads.push(thread::spawn(move || unsafe { crew.serve(index) }));
            true
        });
        Self { crew, threads }
    }

    fn finish(self) {
        self.crew.dismiss();
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

/// Each task touches its data, without offering: if the helper comes late, the leader does all.
struct Touch {
    data: [UnsafeCell<u32>; 2],
}

// SAFETY: each element is accessed by the worker that took the task of its number, and by the leader after the
// phase; loom checks that.
unsafe impl Sync for Touch {}

impl Touch {
    fn new() -> Self {
        Self {
            data: [UnsafeCell::new(0), UnsafeCell::new(0)],
        }
    }

    fn total(&self) -> u32 {
        // SAFETY: the phase is over.
        self.data
            .iter()
            .map(|data| data.with_mut(|data| unsafe { *data }))
            .sum()
    }
}

impl Phase for Touch {
    fn tasks(&self) -> usize {
        self.data.len()
    }

    fn work(&self, worker: &Worker<'_>) {
        while let Some(task) = worker.take_task() {
            // SAFETY: this worker alone took this task.
            self.data[task].with_mut(|data| unsafe { *data += 1 });
        }
    }
}

/// Two phases whose objects die after each run, with a helper that is late by any amount: into the
/// first, between them, into the second, after both. Each task is done, once, and counted; a race that a worker lost is
/// counted, too.
fn crew_survives_a_late_helper_over_two_phases(policies: Policies) {
    let lost = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let lost_here = lost.clone();
    check(at_length(2, 3), move || {
        let team = Team::of(policies, 2);
        for _ in 0..2 {
            let touch = Touch::new();
            team.crew.run(2, &touch);
            assert_eq!(touch.total(), 2);
        }
        let counts = team.crew.synchronisation();
        assert_eq!((counts.phases, counts.tasks), (2, 4));
        lost_here.fetch_add(counts.failed_cas, std::sync::atomic::Ordering::Relaxed);
        team.finish();
    });
    assert_eq!(
        lost.load(std::sync::atomic::Ordering::Relaxed) > 0,
        policies.tasks == options::TaskQueue::LockFree
    );
}

/// How often, over all executions of a model, a helper was called back into a phase after it stood
/// by, and the leader worked again after an offer: the models must reach both.
#[derive(Default)]
struct Reached {
    called_back: std::sync::atomic::AtomicUsize,
    leader_again: std::sync::atomic::AtomicUsize,
}

/// A small trace with publication in mid-phase: item n stands for a node with the children
/// n - 1 and n - 2 (none below 1). A node is scanned while "in use".
struct Trace {
    deques: [Deque<'static, AtomicU32>; 2],
    in_use: AtomicUsize,
    scanned: AtomicUsize,
    /// Whether the helper stood by before (not part of the model).
    stood_by: std::sync::atomic::AtomicBool,
    reached: Arc<Reached>,
}

impl Trace {
    fn new(root: u32, reached: Arc<Reached>) -> Self {
        let trace = Self {
            deques: [Deque::new(ring(4)), Deque::new(ring(4))],
            in_use: AtomicUsize::new(0),
            scanned: AtomicUsize::new(0),
            stood_by: Default::default(),
            reached,
        };
        trace.deques[0].push(root).unwrap();
        trace
    }

    fn scan(&self, worker: &Worker<'_>, node: u32) {
        self.in_use.fetch_add(1, Ordering::Relaxed);
        self.scanned.fetch_add(1, Ordering::Relaxed);
        for child in [node.saturating_sub(1), node.saturating_sub(2)] {
            if child > 0 {
                self.deques[worker.index()].push(child).unwrap();
                worker.announce();
            }
        }
        self.in_use.fetch_sub(1, Ordering::Relaxed);
    }

    fn take(&self, worker: &Worker<'_>) -> Option<u32> {
        self.deques[worker.index()].pop().or_else(|| {
            loop {
                match self.deques[1 - worker.index()].steal() {
                    Steal::Taken(node) => return Some(node),
                    Steal::Empty => return None,
                    Steal::Retry => thread::yield_now(),
                }
            }
        })
    }
}

impl Phase for Trace {
    fn work(&self, worker: &Worker<'_>) {
        if !worker.is_leader() && self.stood_by.load(Ordering::Relaxed) {
            self.reached.called_back.fetch_add(1, Ordering::Relaxed);
        }
        loop {
            while let Some(node) = self.take(worker) {
                self.scan(worker, node);
            }
            let deques = &self.deques;
            match worker.offer(|| deques.iter().any(|deque| !deque.is_empty())) {
                Verdict::WorkAgain if worker.is_leader() => {
                    self.reached.leader_again.fetch_add(1, Ordering::Relaxed);
                }
                Verdict::WorkAgain => {}
                Verdict::StandBy => return self.stood_by.store(true, Ordering::Relaxed),
                Verdict::Finished => {
                    assert_eq!(
                        self.in_use.load(Ordering::Relaxed),
                        0,
                        "left a working phase"
                    );
                    assert!(
                        deques.iter().all(Deque::is_empty),
                        "finished with work left"
                    );
                    return;
                }
            }
        }
    }
}

fn trace_phases(
    policies: Policies,
    preemptions: usize,
    phases: &'static [u32],
    scans: &'static [usize],
) -> Arc<Reached> {
    let all = Arc::new(Reached::default());
    let reached = all.clone();
    check(Some(preemptions), move || {
        let team = Team::of(policies, 2);
        for (&root, &scans) in phases.iter().zip(scans) {
            let trace = Trace::new(root, reached.clone());
            team.crew.run(2, &trace);
            assert_eq!(trace.scanned.load(Ordering::Relaxed), scans);
            assert_eq!(trace.in_use.load(Ordering::Relaxed), 0);
        }
        team.finish();
    });
    all
}

/// Termination, parking, dynamic join and announcements over two phases together.
fn crew_traces_two_phases(policies: Policies) {
    trace_phases(policies, 2, &[1, 2], &[1, 2]);
}

/// One phase with more in it: standing by and being called back.
fn crew_calls_back_who_stood_by(policies: Policies) {
    let reached = trace_phases(policies, 2, &[3], &[4]);
    assert_ne!(reached.called_back.load(Ordering::Relaxed), 0);
    assert_ne!(reached.leader_again.load(Ordering::Relaxed), 0);
}

/// Of a worker that announces and one that stands by, one sees the other: the leader goes on only when the helper has
/// seen what was published.
fn crew_announces_to_who_stands_by(policies: Policies) {
    #[derive(Default)]
    struct Hint {
        published: AtomicBool,
        seen: AtomicBool,
    }
    impl Phase for Hint {
        fn work(&self, worker: &Worker<'_>) {
            let is_published = || self.published.load(Ordering::Relaxed);
            if worker.is_leader() {
                self.published.store(true, Ordering::Relaxed);
                worker.announce();
                while !self.seen.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                return;
            }
            while !is_published() {
                if worker.offer(is_published) != Verdict::WorkAgain {
                    return;
                }
            }
            self.seen.store(true, Ordering::Relaxed);
        }
    }
    check(Some(2), move || {
        let team = Team::of(policies, 2);
        team.crew.run(2, &Hint::default());
        team.finish();
    });
}

/// The helper holds the last work while the leader sleeps in its offer: the leader is woken, by the
/// announcement or by the end.
fn crew_wakes_a_sleeping_leader(policies: Policies) {
    struct Handover {
        taken: AtomicBool,
        deque: Deque<'static, AtomicU32>,
        done: AtomicUsize,
    }
    impl Phase for Handover {
        fn work(&self, worker: &Worker<'_>) {
            // One worker draws the task, which publishes an item; the worker that gets it finishes it.
            if !self.taken.swap(true, Ordering::AcqRel) {
                self.deque.push(9).unwrap();
                worker.announce();
                if self.deque.pop().is_some() {
                    self.done.fetch_add(1, Ordering::Relaxed);
                }
            }
            loop {
                if let Steal::Taken(9) = self.deque.steal() {
                    self.done.fetch_add(1, Ordering::Relaxed);
                }
                if worker.offer(|| !self.deque.is_empty()) != Verdict::WorkAgain {
                    return;
                }
            }
        }
    }
    check(Some(3), move || {
        let team = Team::of(policies, 2);
        let handover = Handover {
            taken: AtomicBool::new(false),
            deque: Deque::new(ring(2)),
            done: AtomicUsize::new(0),
        };
        team.crew.run(2, &handover);
        assert_eq!(handover.done.load(Ordering::Relaxed), 1);
        team.finish();
    });
}

// Mail.

fn batches(count: usize) -> &'static [BatchMemory] {
    Box::leak((0..count).map(|_| BatchMemory::new()).collect())
}

/// The leader, on node 0, sends two numbers to the helper's node; the number n is answered by n - 1 until it is 1.
struct Letters {
    mail: Mailboxes<'static>,
    begun: AtomicBool,
    received: AtomicUsize,
    /// Whether the helper stood by before (not part of the model).
    stood_by: std::sync::atomic::AtomicBool,
    reached: Arc<Reached>,
}

impl Letters {
    fn send(&self, worker: &Worker<'_>, node: usize, number: u64) -> bool {
        let Some(mut batch) = self.mail.batch() else {
            return false;
        };
        batch.push(number).unwrap();
        worker.send(node, batch).is_ok()
    }
}

impl Phase for Letters {
    fn mail(&self) -> Option<&Mailboxes<'_>> {
        Some(&self.mail)
    }

    fn work(&self, worker: &Worker<'_>) {
        if !worker.is_leader() && self.stood_by.load(Ordering::Relaxed) {
            self.reached.called_back.fetch_add(1, Ordering::Relaxed);
        }
        let mut to_send = Vec::new();
        if worker.is_leader() && !self.begun.swap(true, Ordering::Relaxed) {
            to_send.extend([1, 2]);
        }
        loop {
            while let Some(batch) = worker.receive() {
                assert_eq!(batch.len(), 1);
                let answers = batch.words().filter(|&number| number > 1);
                to_send.extend(answers.map(|number| number - 1));
                self.received.fetch_add(1, Ordering::Relaxed);
            }
            // In a model one may be on its way at a time, and two batches are all that there are.
            if let Some(number) = to_send.pop() {
                if !self.send(worker, 1 - worker.index(), number) {
                    to_send.push(number);
                    thread::yield_now();
                }
                continue;
            }
            match worker.offer(|| false) {
                Verdict::WorkAgain if worker.is_leader() => {
                    self.reached.leader_again.fetch_add(1, Ordering::Relaxed);
                }
                Verdict::WorkAgain => {}
                Verdict::StandBy => return self.stood_by.store(true, Ordering::Relaxed),
                Verdict::Finished => {
                    let received = self.received.load(Ordering::Relaxed);
                    assert_eq!(received, 3, "finished with mail in a box");
                    return;
                }
            }
        }
    }
}

/// No batch is lost, the phase is not finished while one is on its way, and each receiver is woken: a helper that never
/// joined, one that stood by, and a leader that sleeps.
fn crew_delivers_all_mail(policies: Policies) {
    let all = Arc::new(Reached::default());
    let reached = all.clone();
    check(at_length(1, 2), move || {
        let team = Team::of(policies, 2);
        let letters = Letters {
            mail: Mailboxes::new(batches(2), 2),
            begun: AtomicBool::new(false),
            received: AtomicUsize::new(0),
            stood_by: Default::default(),
            reached: reached.clone(),
        };
        team.crew.run(2, &letters);
        assert_eq!(letters.received.load(Ordering::Relaxed), 3);
        team.finish();
        let free: Vec<_> = std::iter::from_fn(|| letters.mail.batch()).collect();
        assert_eq!(free.len(), 2);
    });
    assert_ne!(all.called_back.load(Ordering::Relaxed), 0);
    assert_ne!(all.leader_again.load(Ordering::Relaxed), 0);
}

/// When a batch is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    BeforePosting,
    AfterPosting,
    Never,
}

/// A leader that posts a batch to the helper's node, and a helper that comes once, by hand.
fn post_by_hand(counted: Counted) {
    struct Shared {
        termination: Termination,
        mail: Mailboxes<'static>,
    }
    check(Some(3), move || {
        let phase = PhaseNumber::NONE.next();
        let shared = Arc::new(Shared {
            termination: Termination::new(),
            mail: Mailboxes::new(batches(1), 2),
        });
        shared.mail.open(2);
        shared.termination.begin(phase);
        let helper = {
            let shared = shared.clone();
            thread::spawn(move || {
                if !shared.termination.join(phase) {
                    return;
                }
                // SAFETY: the boxes are open, and this thread alone takes as worker 1.
                if let Some(batch) = unsafe { shared.mail.take(1) } {
                    assert_eq!(batch.words().collect::<Vec<_>>(), [7]);
                    let counted = shared.termination.deliver(phase);
                    assert!(counted, "a batch is received before it is counted");
                }
                shared.termination.leave(phase, true);
            })
        };
        let mut batch = shared.mail.batch().unwrap();
        batch.push(7).unwrap();
        if counted == Counted::BeforePosting {
            assert!(shared.termination.dispatch(phase));
        }
        shared.mail.post(1, batch);
        if counted == Counted::AfterPosting {
            assert!(shared.termination.dispatch(phase));
        }
        shared.termination.step_down(phase);
        if shared.termination.is_finished(phase) {
            assert!(!shared.mail.has_mail(1), "finished with mail in a box");
        }
        helper.join().unwrap();
    });
}

#[test]
fn mail_that_is_counted_before_it_is_posted_keeps_the_phase_open() {
    post_by_hand(Counted::BeforePosting);
}

#[test]
#[should_panic(expected = "a batch is received before it is counted")]
fn mail_that_is_counted_after_it_is_posted_is_received_before() {
    post_by_hand(Counted::AfterPosting);
}

#[test]
#[should_panic(expected = "finished with mail in a box")]
fn mail_that_is_not_counted_is_left_over() {
    post_by_hand(Counted::Never);
}

/// Two threads take batches and give them back, so that the list of free ones comes to look as it did: neither has what
/// the other has. Loom fails the model if both write to one.
#[test]
fn mail_has_one_holder_for_each_batch() {
    check(Some(3), || {
        let mail = Arc::new(Mailboxes::new(batches(2), 1));
        let other = {
            let mail = mail.clone();
            thread::spawn(move || {
                let taken = [mail.batch(), mail.batch()];
                let [first, second] = taken;
                drop(first);
                for mut batch in [mail.batch(), second].into_iter().flatten() {
                    batch.push(1).unwrap();
                }
            })
        };
        let mut own = [mail.batch(), mail.batch()];
        for batch in own.iter_mut().flatten() {
            batch.push(2).unwrap();
        }
        other.join().unwrap();
    });
}

// The queue of tasks by itself.

/// Two phases of two tasks each, a worker of the first that is late by any amount, and a leader that does not wait for
/// it, and goes on with a task left as after a panic. The worker gets tasks of its phase and sees what they stand for; it takes none of the next phase.
fn queue_gives_a_late_worker_nothing_of_the_next_phase(policy: options::TaskQueue) {
    struct Shared {
        queue: TaskQueue,
        /// What the tasks of each phase stand for: written before the fill.
        data: [UnsafeCell<u32>; 2],
    }
    // SAFETY: the data of a phase is written before its tasks are published and read by threads that took one; loom
    // checks that.
    unsafe impl Sync for Shared {}
    impl Shared {
        fn take(&self, phase: PhaseNumber, most: usize) -> Vec<usize> {
            let taken = std::iter::from_fn(|| self.queue.take(phase)).take(most);
            let taken = taken.inspect(|_| {
                // SAFETY: this thread took a task of that phase.
                let data = self.data[phase.get() as usize - 1].with(|data| unsafe { *data });
                assert_eq!(data, phase.get());
            });
            taken.collect()
        }
    }
    check(Some(3), move || {
        let shared = Arc::new(Shared {
            queue: TaskQueue::new(policy),
            data: [UnsafeCell::new(0), UnsafeCell::new(0)],
        });
        let first = PhaseNumber::NONE.next();
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || shared.take(first, 2))
        };
        let taken = [first, first.next()].map(|phase| {
            // SAFETY: no task of the phase is published yet.
            let data = &shared.data[phase.get() as usize - 1];
            data.with_mut(|data| unsafe { *data = phase.get() });
            shared.queue.fill(phase, 2);
            shared.take(phase, phase.get() as usize)
        });
        let of_first = [worker.join().unwrap(), taken[0].clone()].concat();
        assert!(of_first.len() <= 2 && (0..of_first.len()).all(|task| of_first.contains(&task)));
        assert_eq!(taken[1], [0, 1]);
    });
}

#[test]
fn queue_lock_free_gives_a_late_worker_nothing_of_the_next_phase() {
    queue_gives_a_late_worker_nothing_of_the_next_phase(options::TaskQueue::LockFree);
}

#[test]
fn queue_locked_gives_a_late_worker_nothing_of_the_next_phase() {
    queue_gives_a_late_worker_nothing_of_the_next_phase(options::TaskQueue::Locked);
}

// The paper's protocols, which must fail.

/// ASPLOS 2013, 3.1.1: tasks are dequeued by compare-and-swap, and put there without synchronisation.
struct PlainlyFilled {
    next: AtomicUsize,
    end: AtomicUsize,
    /// The task, by the phase that it belongs to.
    task: AtomicU32,
}

impl PlainlyFilled {
    fn fill(&self, phase: u32) {
        self.task.store(phase, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
        self.end.store(1, Ordering::Relaxed);
    }

    fn take(&self) -> Option<u32> {
        let next = self.next.load(Ordering::Acquire);
        if next >= self.end.load(Ordering::Acquire) {
            return None;
        }
        let exchange =
            self.next
                .compare_exchange(next, next + 1, Ordering::AcqRel, Ordering::Relaxed);
        exchange.ok().map(|_| self.task.load(Ordering::Relaxed))
    }
}

/// With the final barrier removed as in 3.1.2, a worker that is late in the first phase still looks for a task when the
/// queue is filled for the second, which is not open yet.
#[test]
#[should_panic(expected = "a worker of the first phase has a task of the second")]
fn a_queue_filled_as_published_gives_a_late_worker_a_task_of_the_next_phase() {
    check(Some(3), || {
        let queue = Arc::new(PlainlyFilled {
            next: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            task: AtomicU32::new(0),
        });
        queue.fill(1);
        let worker = {
            let queue = queue.clone();
            thread::spawn(move || {
                while let Some(phase) = queue.take() {
                    assert_eq!(
                        phase, 1,
                        "a worker of the first phase has a task of the second"
                    );
                }
            })
        };
        while queue.take().is_some() {}
        // All queues look empty: the first phase is over.
        queue.fill(2);
        worker.join().unwrap();
    });
}

/// ASPLOS 2013, 2.3.3 with the barrier of the final task removed as in 3.1.2. A worker leaves when the counter has
/// reached the number of workers, *or when all queues look empty*. The first to leave takes the final task and lets the
/// mutators run.
struct AsPublished {
    queue: Deque<'static, AtomicU32>,
    terminating: AtomicUsize,
    /// Workers in the middle of an object.
    in_use: AtomicUsize,
    final_task: AtomicBool,
}

const PAPER_WORKERS: usize = 2;

impl AsPublished {
    fn new() -> Self {
        let queue = Deque::new(ring(2));
        queue.push(1).unwrap();
        Self {
            queue,
            terminating: AtomicUsize::new(0),
            in_use: AtomicUsize::new(0),
            final_task: AtomicBool::new(true),
        }
    }

    /// Whether this worker, having left the protocol, found another one still in the heap when it
    /// let the mutators run.
    fn worker(&self) -> bool {
        loop {
            self.in_use.fetch_add(1, Ordering::AcqRel);
            let found = self.queue.steal();
            if found == Steal::Taken(1) {
                thread::yield_now(); // here the object is copied and its fields are pushed
            }
            self.in_use.fetch_sub(1, Ordering::AcqRel);
            self.terminating.fetch_add(1, Ordering::AcqRel);
            if self.terminating.load(Ordering::Acquire) == PAPER_WORKERS || self.queue.is_empty() {
                break;
            }
            self.terminating.fetch_sub(1, Ordering::AcqRel);
            thread::yield_now();
        }
        self.final_task.swap(false, Ordering::AcqRel) && self.in_use.load(Ordering::Acquire) != 0
    }
}

#[test]
#[should_panic(expected = "the mutators run while a worker copies")]
fn the_protocol_as_published_lets_mutators_run_too_early() {
    check(Some(3), || {
        let phase = Arc::new(AsPublished::new());
        let other = {
            let phase = phase.clone();
            thread::spawn(move || phase.worker())
        };
        let early = phase.worker() | other.join().unwrap();
        assert!(!early, "the mutators run while a worker copies");
    });
}

// Tasks in order.

/// Tasks on two workers: each sees what those below wrote that it needs, each is done once, and nobody sleeps for ever.
fn tasks_in_order(needs: fn(usize) -> usize) {
    check(Some(3), move || {
        let finished: &'static [_] = Box::leak((0..3).map(|_| AtomicU8::new(0)).collect());
        let prefix: &'static Prefix<'static> = Box::leak(Box::new(Prefix::new(finished)));
        let places: &'static [_] = Box::leak((0..3).map(|_| UnsafeCell::new(0)).collect());
        let worker = move || {
            prefix.run(needs, |task| {
                let sum: u32 = places[..needs(task)]
                    .iter()
                    // SAFETY: those tasks are finished.
                    .map(|place| place.with(|place| unsafe { *place }))
                    .sum();
                assert_eq!(sum as usize, needs(task));
                // SAFETY: the place is this task's until it is finished.
                places[task].with_mut(|place| unsafe { *place += 1 });
            })
        };
        let other = thread::spawn(worker);
        worker();
        other.join().unwrap();
        let done = |place: &UnsafeCell<u32>| place.with(|place| unsafe { *place }); // SAFETY: both workers have ended.
        assert!(places.iter().all(|place| done(place) == 1));
    });
}

#[test]
fn a_task_sees_those_below_that_it_needs() {
    tasks_in_order(|task| task / 2 * 2);
}

#[test]
fn a_chain_below_is_done_in_order() {
    tasks_in_order(|task| task);
}
