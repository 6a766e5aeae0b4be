//! `phases`: what it costs to enter and leave a parallel phase in which nothing is done (ASPLOS 2013, sections 2.3 and
//! 3.1), by the number of threads, the way in which they wait and the way in which they take tasks.
//!
//! Each combination has a crew of its own; its phase begins with one empty task for each thread, as the paper's begin
//! with a steal task for each. Two kinds of phases are measured. *All join*: a worker that came takes a task and waits
//! until all have come, then they stop. That is the price of calling everybody, taking tasks at the same time, and the
//! end. *Any*: nobody waits, so the leader mostly does all before a helper is awake, and the price is that of calls in
//! vain. The combinations of one number of threads are measured one directly after the other, and every other round goes
//! backwards, so that what else the machine does falls on all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use clap::Args;
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use gleaner_base::options::{Parking, TaskQueue};
use gleaner_work::{Crew, MAX_WORKERS, Phase, Verdict, Worker};
use serde::Serialize;

use crate::process;
use crate::progress;
use crate::say::say;
use gleaner_workloads::failure::{Failure, Result};

/// Arguments of `phases`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gleaner-bench phases                               all combinations, a minute or so
  gleaner-bench phases --threads 2,48 --json         a line of JSON for each, for a script
  gleaner-bench phases --parking monitor --task-queue locked     the paper's baseline alone
  strace -f -c -e futex gleaner-bench phases --threads 16 --parking futex --rounds 1
                                                     futex calls; the times are strace's then

In the table, times are microseconds for a phase, the median of all. `switches` are context switches of the whole
process for a phase, `lost` compare-and-swaps on the task queue that failed in a phase, `came` the workers in a phase,
the leader included. Options `parking` and `task-queue` choose the same policies for a heap.")]
pub struct Phases {
    /// Numbers of threads, the one that leads included
    #[arg(
        long,
        value_name = "COUNT",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=MAX_WORKERS as i64),
        default_value = "1,2,4,8,16,32,48"
    )]
    pub threads: Vec<u32>,
    /// Ways to wait: futex, monitor; both unless given
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parking_named)]
    pub parking: Vec<Parking>,
    /// Ways to take tasks: lock-free, locked; both unless given
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = task_queue_named)]
    pub task_queue: Vec<TaskQueue>,
    /// Phases of each combination and kind in a round, after a tenth as many that do not count
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub phases: u32,
    /// How often everything is measured
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Prints a line of JSON for each combination and kind, not a table
    #[arg(long)]
    pub json: bool,
}

const PARKINGS: [Parking; 2] = [Parking::Futex, Parking::Monitor];
const TASK_QUEUES: [TaskQueue; 2] = [TaskQueue::LockFree, TaskQueue::Locked];

fn parking_named(name: &str) -> std::result::Result<Parking, String> {
    let found = PARKINGS.into_iter().find(|value| value.as_str() == name);
    found.ok_or_else(|| {
        format!(
            "the values are {}",
            PARKINGS.map(Parking::as_str).join(", ")
        )
    })
}

fn task_queue_named(name: &str) -> std::result::Result<TaskQueue, String> {
    let found = TASK_QUEUES.into_iter().find(|value| value.as_str() == name);
    let names = || TASK_QUEUES.map(TaskQueue::as_str).join(", ");
    found.ok_or_else(|| format!("the values are {}", names()))
}

/// A crew with its threads, which end with it.
struct Team {
    crew: Arc<Crew>,
    threads: Vec<JoinHandle<()>>,
}

impl Team {
    fn new(parking: Parking, queue: TaskQueue, workers: usize) -> Result<Team> {
        let crew = Arc::new(Crew::with_policies(parking, queue));
        let mut threads = Vec::new();
        let helpers = crew.ensure_helpers(workers - 1, &mut |index| {
            let crew = crew.clone();
            // SAFETY: the crew gave out the index, and this thread alone is started for it.
            let serve = move || unsafe { crew.serve(index) };
            let started = thread::Builder::new().spawn(serve);
            started.map(|thread| threads.push(thread)).is_ok()
        });
        let team = Team { crew, threads };
        if helpers + 1 < workers {
            let message =
                format!("the system starts no more than {helpers} threads; see --threads");
            return Err(Failure::new(message));
        }
        Ok(team)
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.crew.dismiss();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A phase in which nothing is done.
struct Empty {
    tasks: usize,
    /// Each worker waits until this many workers have come.
    awaited: usize,
    came: AtomicUsize,
}

impl Phase for Empty {
    fn tasks(&self) -> usize {
        self.tasks
    }

    fn work(&self, worker: &Worker<'_>) {
        worker.take_task();
        self.came.fetch_add(1, Ordering::Relaxed);
        for round in 0.. {
            if self.came.load(Ordering::Relaxed) >= self.awaited {
                break;
            }
            if round < 100 {
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
        loop {
            while worker.take_task().is_some() {}
            if worker.offer(|| worker.has_tasks()) != Verdict::WorkAgain {
                break;
            }
        }
    }
}

/// One combination, and what it gave.
struct Cell {
    parking: Parking,
    queue: TaskQueue,
    threads: usize,
    all_join: bool,
    /// Of each phase.
    nanoseconds: Vec<u64>,
    /// Of all phases together.
    came: usize,
    lost: u64,
    switches: process::Switches,
}

/// A line of JSON.
#[derive(Serialize)]
struct Line {
    parking: &'static str,
    task_queue: &'static str,
    threads: usize,
    /// Whether each phase waited for all threads.
    all_join: bool,
    phases: usize,
    least_ns: u64,
    median_ns: u64,
    /// Nine of ten phases took no longer.
    p90_ns: u64,
    /// For a phase: the workers that took part.
    came: f64,
    /// For a phase: compare-and-swaps on the task queue that failed.
    lost_races: f64,
    /// For a phase: context switches of this process, of a thread that waited.
    voluntary_switches: f64,
    /// For a phase: context switches of this process, of a thread whose time was up.
    involuntary_switches: f64,
}

impl Cell {
    /// Runs phases, of which the first tenth does not count.
    fn measure(&mut self, team: &Team, phases: u32) {
        let counts = || (process::own_switches(), team.crew.synchronisation());
        let mut before = counts();
        for number in 0..phases + phases.div_ceil(10) {
            let is_counted = number >= phases.div_ceil(10);
            if number == phases.div_ceil(10) {
                before = counts();
            }
            let empty = Empty {
                tasks: self.threads,
                awaited: if self.all_join { self.threads } else { 1 },
                came: AtomicUsize::new(0),
            };
            let start = Instant::now();
            team.crew.run(self.threads, &empty);
            let took = start.elapsed();
            if is_counted {
                self.nanoseconds.push(took.as_nanos() as u64);
                self.came += empty.came.into_inner();
            }
        }
        let after = counts();
        self.switches.voluntary += after.0.voluntary - before.0.voluntary;
        self.switches.involuntary += after.0.involuntary - before.0.involuntary;
        self.lost += after.1.failed_cas - before.1.failed_cas;
    }

    fn line(&self) -> Line {
        let mut sorted = self.nanoseconds.clone();
        sorted.sort_unstable();
        let last = sorted.len() - 1;
        let each = |total: u64| total as f64 / sorted.len() as f64;
        Line {
            parking: self.parking.as_str(),
            task_queue: self.queue.as_str(),
            threads: self.threads,
            all_join: self.all_join,
            phases: sorted.len(),
            least_ns: sorted[0],
            median_ns: sorted[last / 2],
            p90_ns: sorted[last * 9 / 10],
            came: each(self.came as u64),
            lost_races: each(self.lost),
            voluntary_switches: each(self.switches.voluntary),
            involuntary_switches: each(self.switches.involuntary),
        }
    }
}

/// Measures and prints; true, for nothing can turn out wrong.
pub fn run(chosen: &Phases) -> Result<bool> {
    let parkings = all_unless(&chosen.parking, &PARKINGS);
    let queues = all_unless(&chosen.task_queue, &TASK_QUEUES);
    let each = parkings.len() * queues.len();
    let progress = progress::bar(chosen.threads.len() * each * chosen.rounds as usize);
    let mut cells = Vec::new();
    for &threads in &chosen.threads {
        let threads = threads as usize;
        let mut measured = Vec::new();
        for &parking in parkings {
            for &queue in queues {
                let cell = |all_join| Cell {
                    parking,
                    queue,
                    threads,
                    all_join,
                    nanoseconds: Vec::new(),
                    came: 0,
                    lost: 0,
                    switches: process::Switches::default(),
                };
                measured.push((
                    Team::new(parking, queue, threads)?,
                    [cell(true), cell(false)],
                ));
            }
        }
        for _ in 0..chosen.rounds {
            progress.set_message(format!("{threads} threads"));
            for (team, both) in &mut measured {
                both.iter_mut()
                    .for_each(|cell| cell.measure(team, chosen.phases));
                progress.inc(1);
            }
            measured.reverse();
        }
        if chosen.rounds % 2 == 1 {
            measured.reverse();
        }
        cells.extend(measured.into_iter().map(|(_, both)| both));
    }
    progress.finish_and_clear();
    if chosen.json {
        for cell in cells.iter().flatten() {
            let line = serde_json::to_string(&cell.line());
            say(line.map_err(|error| Failure::new(format!("JSON: {error}")))?)?;
        }
    } else {
        say(format_args!(
            "An empty phase in microseconds, median of {}; the rest for a phase",
            chosen.phases * chosen.rounds
        ))?;
        say(table(&cells))?;
    }
    Ok(true)
}

/// What was chosen, or all.
fn all_unless<'a, T>(chosen: &'a [T], all: &'a [T]) -> &'a [T] {
    if chosen.is_empty() { all } else { chosen }
}

/// The cells for people: a row for each combination, with both kinds of phases.
fn table(cells: &[[Cell; 2]]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header([
        "threads",
        "parking",
        "task-queue",
        "all join",
        "switches",
        "lost",
        "any",
        "switches",
        "came",
    ]);
    for [all, any] in cells {
        let (all, any) = (all.line(), any.line());
        let micros = |line: &Line| format!("{:.1}", line.median_ns as f64 * 1e-3);
        let switches =
            |line: &Line| format!("{:.1}", line.voluntary_switches + line.involuntary_switches);
        table.add_row([
            all.threads.to_string(),
            all.parking.into(),
            all.task_queue.into(),
            micros(&all),
            switches(&all),
            format!("{:.2}", all.lost_races),
            micros(&any),
            switches(&any),
            format!("{:.1}", any.came),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_come_when_they_are_waited_for() {
        for parking in PARKINGS {
            for queue in TASK_QUEUES {
                let team = Team::new(parking, queue, 5).unwrap();
                let mut cell = Cell {
                    parking,
                    queue,
                    threads: 5,
                    all_join: true,
                    nanoseconds: Vec::new(),
                    came: 0,
                    lost: 0,
                    switches: process::Switches::default(),
                };
                cell.measure(&team, 20);
                let line = cell.line();
                assert_eq!((line.phases, line.came), (20, 5.0));
                assert!(line.least_ns <= line.median_ns && line.median_ns <= line.p90_ns);
            }
        }
    }

    #[test]
    fn policies_have_the_names_of_the_options() {
        assert_eq!(PARKINGS.map(Parking::as_str).len(), Parking::NAMES.len());
        assert_eq!(
            TASK_QUEUES.map(TaskQueue::as_str).len(),
            TaskQueue::NAMES.len()
        );
        assert!(parking_named("monitor").is_ok() && task_queue_named("locked").is_ok());
        assert!(
            parking_named("mutex")
                .unwrap_err()
                .contains("futex, monitor")
        );
        assert!(
            task_queue_named("")
                .unwrap_err()
                .contains("lock-free, locked")
        );
    }
}
