//! A heap in numbers: what a program has allocated and what of that lives, collected in stops or in cycles of steps, as the
//! deciders say. Nothing is marked or swept, and no clock is read.

use gleaner_plans::mark_sweep::decide::cycle::{self, Marking, Progress};
use gleaner_plans::mark_sweep::decide::heap_size::{
    self, Decision, LEAST_GROWTH, least_between_collections,
};
use gleaner_plans::mark_sweep::decide::pacer::{self, Measurements, Pacer, Plan, Supply, Taken};

pub const MIB: usize = 1 << 20;
/// What the program allocates at a time.
pub const TICK: usize = 32 << 10;
const ROOTS: usize = MIB;
/// The time limit of a stop: the usual one.
const LIMIT_NS: u64 = 50_000_000;
/// `free-space-divisor`.
const DIVISOR: usize = 3;

/// A program, by what it has allocated so far.
pub trait Program {
    /// Bytes that it allocates in all.
    fn ends_at(&self) -> usize;
    /// Bytes that live when `at` bytes have been allocated.
    fn lives(&self, at: usize) -> usize;
    /// Bytes that it allocates in a nanosecond.
    fn rate(&self, at: usize) -> f64;
    /// Of what dies, the share that is older than the cycle.
    fn old_share(&self) -> f64;
}

/// How fast marking is, in bytes scanned in a nanosecond.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// In stops.
    pub in_stops: f64,
    /// In steps.
    pub in_steps: f64,
    /// Whether there are steps at all: a program may allocate where none can be made.
    pub makes_steps: bool,
}

impl Machine {
    pub fn of(rate: f64) -> Machine {
        Machine {
            in_stops: rate,
            in_steps: rate,
            makes_steps: true,
        }
    }
}

/// A cycle that has ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ended {
    /// What had been allocated when it began, since the collection before it ended.
    pub began_at: usize,
    /// What could be allocated when it began until a collection in a stop would have begun.
    pub room: usize,
    /// What was allocated until it ended.
    pub allocated: usize,
    /// What its first plan allowed.
    pub allowance: usize,
    /// What it might allocate at the most.
    pub most: usize,
    /// Whether the pacer began it.
    pub is_paced: bool,
    /// Whether its rest was marked in a stop.
    pub is_cut_short: bool,
    /// What was allocated between two collections when it began.
    pub interval: usize,
}

/// What became of a program.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The most bytes that were in use.
    pub peak: usize,
    /// Collections, the cycles among them.
    pub collections: usize,
    pub cycles: Vec<Ended>,
}

struct Running {
    progress: Progress,
    plan: Plan,
    began_at: usize,
    room: usize,
    handed_first: usize,
    is_paced: bool,
    /// Bytes that are to be scanned in truth.
    whole: f64,
    /// Bytes of objects that were marked and have died since.
    floating: f64,
    step_ns: u64,
    interval: usize,
    /// The heap's capacity when it began, to which it returns.
    capacity: usize,
}

/// The heap.
struct Heap<'a> {
    program: &'a dyn Program,
    machine: Machine,
    limit: usize,
    cycles: bool,
    pacer: Pacer,
    at: usize,
    now_ns: f64,
    ended_ns: f64,
    capacity: usize,
    used: usize,
    allocated: usize,
    /// What the last collection found alive, and how much of that is taken for dead.
    census: usize,
    lost: usize,
    /// What the last marking scanned, and how long it took.
    marked: (usize, u64),
    look_at: usize,
    running: Option<Running>,
    outcome: Outcome,
}

/// Runs a program in a heap of at most `limit` bytes, 0 for any number, which is collected in stops alone or in `cycles`,
/// too.
pub fn run(program: &dyn Program, machine: Machine, limit: usize, cycles: bool) -> Outcome {
    let mut heap = Heap {
        program,
        machine,
        limit,
        cycles,
        pacer: Pacer::new(),
        at: 0,
        now_ns: 0.0,
        ended_ns: 0.0,
        capacity: LEAST_GROWTH,
        used: 0,
        allocated: 0,
        census: 0,
        lost: 0,
        marked: (0, 0),
        look_at: 0,
        running: None,
        outcome: Outcome::default(),
    };
    while heap.at < program.ends_at() {
        heap.tick();
    }
    heap.outcome
}

impl Heap<'_> {
    fn tick(&mut self) {
        if self.running.is_some() {
            self.step();
        } else if self.cycles && self.allocated >= self.look_at {
            self.look();
        }
        self.make_room();
        let before = self.program.lives(self.at);
        self.at += TICK;
        self.used += TICK;
        self.allocated += TICK;
        self.now_ns += TICK as f64 / self.program.rate(self.at);
        let died = (before + TICK).saturating_sub(self.program.lives(self.at));
        if let Some(cycle) = &mut self.running {
            let done = (cycle.progress.scanned as f64 / cycle.whole.max(1.0)).min(1.0);
            cycle.floating += died as f64 * self.program.old_share() * done;
        }
        self.outcome.peak = self.outcome.peak.max(self.used);
    }

    fn measure(&self, needed: usize) -> heap_size::Measurements {
        heap_size::Measurements {
            capacity: self.capacity,
            used: self.used,
            needed,
            allocated: self.allocated,
            lost: self.lost,
            composite: self.census,
            roots: ROOTS,
            limit: self.limit,
            divisor: DIVISOR,
            may_collect: true,
            may_grow: true,
            retries: 2,
            ..heap_size::Measurements::default()
        }
    }

    fn interval(&self) -> usize {
        let least = least_between_collections(&self.measure(0));
        least.min(self.allocated + self.room())
    }

    fn room(&self) -> usize {
        let due = self.allocated + self.lost;
        self.pacer.room(&Supply {
            until_due: heap_size::until_due(&self.measure(0)),
            unused: self.capacity.saturating_sub(self.used),
            limit: self.room_under_limit(),
            gained: due,
            ..Supply::default()
        })
    }

    fn room_under_limit(&self) -> usize {
        match self.limit {
            0 => usize::MAX,
            limit => limit.saturating_sub(self.used),
        }
    }

    fn pace(&self) -> Measurements {
        Measurements {
            expected: self.census,
            scanned: self.marked.0,
            took_ns: self.marked.1,
            allocated: self.allocated,
            cpu_ns: (self.now_ns - self.ended_ns) as u64,
            interval: self.interval(),
            step_ns: cycle::step_ns(LIMIT_NS),
            helped: false,
        }
    }

    fn is_marked_in_steps(&self) -> bool {
        let marking = cycle::begin(&cycle::Measurements {
            limit_ns: Some(LIMIT_NS),
            expected: self.census,
            at_most: self.census + self.allocated,
            scanned: self.marked.0,
            took_ns: self.marked.1,
            possible: self.room_under_limit() >= self.pacer.plan(&self.pace()).allowance,
            ..cycle::Measurements::default()
        });
        self.cycles && marking == Marking::For(0)
    }

    fn look(&mut self) {
        let room = self.room();
        let wait = match self.is_marked_in_steps() {
            false => room / 4,
            true => match self.pacer.decide(&self.pace(), room) {
                pacer::Decision::Wait(bytes) => bytes,
                pacer::Decision::Begin(_) => {
                    self.begin(true);
                    return;
                }
            },
        };
        self.look_at = self.allocated + wait.max(1);
    }

    fn begin(&mut self, is_paced: bool) {
        let (plan, room) = (self.pacer.plan(&self.pace()), self.room());
        self.running = Some(Running {
            progress: plan.first_round(self.census, room, self.interval()),
            plan,
            began_at: self.allocated,
            room,
            handed_first: self.allocated,
            is_paced,
            whole: self.program.lives(self.at) as f64 + ROOTS as f64,
            floating: 0.0,
            step_ns: 0,
            interval: self.interval(),
            capacity: self.capacity,
        });
    }

    /// A step, if one is due, and the end of the cycle.
    fn step(&mut self) {
        let Some(cycle) = &mut self.running else {
            return;
        };
        let allocated = self.allocated - cycle.handed_first;
        cycle.progress.allocated = allocated;
        cycle.progress.in_all = allocated;
        if self.machine.makes_steps && cycle::is_step_due(&cycle.progress) {
            let quantum = cycle::step_ns(LIMIT_NS);
            cycle.progress.scanned += (quantum as f64 * self.machine.in_steps) as usize;
            cycle.step_ns += quantum;
            self.now_ns += quantum as f64;
        }
        let is_overdue = cycle::is_overdue(&cycle.progress);
        if cycle.progress.scanned as f64 >= cycle.whole {
            self.end(false);
        } else if is_overdue {
            self.end(true);
        }
    }

    fn end(&mut self, is_cut_short: bool) {
        let Some(cycle) = self.running.take() else {
            return;
        };
        let allocated = self.allocated - cycle.handed_first;
        let scanned = cycle.progress.scanned;
        self.outcome.cycles.push(Ended {
            began_at: cycle.began_at,
            room: cycle.room,
            allocated,
            allowance: cycle.plan.allowance,
            most: cycle.progress.most,
            is_paced: cycle.is_paced,
            is_cut_short,
            interval: cycle.interval,
        });
        self.pacer.note_cycle(&Taken {
            allowance: cycle.plan.allowance,
            allocated,
            scanned,
            took_ns: cycle.step_ns,
        });
        let lives = self.program.lives(self.at);
        let floating = (cycle.floating as usize).min(lives);
        self.capacity = cycle.capacity.max(lives + floating + LEAST_GROWTH);
        self.reclaim(lives + floating, allocated.min(scanned) / 2);
    }

    fn stop(&mut self) {
        let lives = self.program.lives(self.at);
        let scanned = lives + ROOTS;
        let took = (scanned as f64 / self.machine.in_stops) as u64;
        self.now_ns += took as f64;
        self.marked = (scanned, cycle::remember(scanned, took, self.marked));
        self.reclaim(lives, 0);
    }

    fn reclaim(&mut self, found: usize, lost: usize) {
        self.outcome.collections += 1;
        self.pacer.note_collection();
        (self.census, self.lost) = (found, lost);
        self.used = found;
        (self.allocated, self.look_at) = (0, 0);
        self.ended_ns = self.now_ns;
    }

    /// Grows or collects until a tick fits.
    fn make_room(&mut self) {
        let mut attempts = 0;
        while self.used + TICK > self.capacity {
            let mut measured = heap_size::Measurements {
                attempts,
                ..self.measure(TICK)
            };
            if let Some(cycle) = &self.running {
                let mut progress = cycle.progress;
                progress.in_all = self.allocated - cycle.handed_first;
                measured.may_collect = false;
                match heap_size::decide(&measured) {
                    Decision::Grow(to, _) if !cycle::is_overdue(&progress) => self.capacity = to,
                    _ => self.end(true),
                }
                continue;
            }
            match heap_size::decide(&measured) {
                Decision::Grow(to, _) => self.capacity = to,
                Decision::GiveUp(reason) => panic!("{reason}: {measured:?}"),
                Decision::CollectEverything(_) => self.stop(),
                Decision::Collect(_) if self.is_marked_in_steps() => self.begin(false),
                Decision::Collect(_) => self.stop(),
            }
            attempts += 1;
        }
    }
}
