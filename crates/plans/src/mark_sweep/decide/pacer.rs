//! The pacer: when a cycle of marking in steps begins, and how fast its steps follow each other, so that it ends before the
//! memory is used up for which a collection in a stop would have waited.
//!
//! A collection in a stop begins when the program has allocated what it may between two collections and the heap has no
//! room any more ([`super::heap_size`]). What can be allocated until then is the *room* ([`Pacer::room`]). A cycle needs memory,
//! too: what the program allocates until it has ended, its *allowance*. So it begins when the room is no more than the
//! allowance with a margin ([`Pacer::decide`]). Steps are paid in proportion to allocation: when a part of the allowance
//! was allocated, the same part of what is to be scanned has been scanned ([`super::cycle::is_step_due`]). So it does not
//! matter for memory whether marking is as fast as it was measured; slow marking only takes more of the time.
//!
//! The allowance is what the program allocates while marking takes a quarter of the time, at its own speed and that of the
//! markings before. The time is the processor's: how long a program waits says nothing of how fast it allocates when it goes
//! on. The allowance is bounded. What has been marked and dies during the cycle stays until the next one, and that is up
//! to what is allocated meanwhile. So the allowance is no more than an eighth of what is allocated between two collections,
//! unless that is too little for all steps: there is one at most for each time that a thread takes cells. A program that
//! allocates faster than that waits longer for steps, and its heap does not grow.
//!
//! The margin is for what no measurement foresees: that more lives than expected, or that the last stop puts off what it
//! has found. It is learned from what earlier cycles took beyond their allowances, and forgotten slowly.
//!
//! A pure object: it reads no clock and no heap, so tests give it whole programs (`crates/plans/tests/pacing`).

use gleaner_base::events::reasons::IN_TIME;

use super::cycle::Progress;
use super::heap_size::LEAST_GROWTH;

/// Programs get this many times the time that marking takes, as long as the bounds of the allowance permit it.
const PROGRAM_TIMES: f64 = 3.0;
/// The allowance is at most this part of what is allocated between two collections.
const SHARE: usize = 8;
/// Steps scan at least this many bytes for each that is allocated, so that each round of a cycle leaves less than the
/// one before.
const PACE: usize = 4;
/// The share and the pace where a helper marks beside the program, which takes no time from it: the longer a cycle, the less is
/// left to steps.
const SHARE_HELPED: usize = 2;
/// See [`SHARE_HELPED`].
const PACE_HELPED: usize = 1;
/// A helper marks without pauses, whatever the allowance is. What it does not need makes the cycle begin, and so end, early: this
/// is for two threads that allocate, or for one and a helper that half of the time does not have the lock.
const PROGRAM_TIMES_HELPED: f64 = 2.0;
/// Where there is little to scan, steps need not follow each other faster than this many allocated bytes would have it.
const LEAST_ALLOWANCE: usize = 256 << 10;
/// Cycles do not follow each other without this part of the interval between them, and allow no more for their steps.
pub const LEAST_PART: usize = 4;
/// No cycle begins early whose steps would take more than this part of the interval.
const MOST_PART: usize = 2;
/// Allowances for which a cycle begins early: of programs about which nothing is known, at the least and at the most.
const FIRST_MARGIN: f64 = 1.5;
const LEAST_MARGIN: f64 = 1.25;
const MOST_MARGIN: f64 = 3.0;
/// What earlier cycles say of the margin counts for this much after each further one.
const FORGETTING: f64 = 0.75;
/// Bytes that are allocated between two looks, or two steps, at the least: what threads take at a time.
pub const LEAST_WAIT: usize = 32 << 10;
/// Nanoseconds that marking a byte takes, until it was measured.
const USUAL_RATE: f64 = 1.0;
/// A measurement of fewer bytes says nothing.
const WORTH_MEASURING: usize = 256 << 10;

/// What can still be allocated, and what bounds it. Bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Supply {
    /// Until enough is allocated that a collection in a stop pays.
    pub until_due: usize,
    /// Capacity that is not in use.
    pub unused: usize,
    /// Dead cells of blocks that wait to be swept.
    pub unswept: usize,
    /// What the heap's limit leaves beyond what is in use; `usize::MAX` without one.
    pub limit: usize,
    /// What limits of control groups leave; `None` where there are none.
    pub left: Option<usize>,
    /// What a collection may find dead: allocated since the last one, and old objects that have died.
    pub gained: usize,
}

/// What a program allocates, what is to be marked, and how long that takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measurements {
    /// Bytes that are expected to be scanned.
    pub expected: usize,
    /// Bytes that the last marking in a stop scanned, and how long it took; 0 if there was none.
    pub scanned: usize,
    /// See `scanned`.
    pub took_ns: u64,
    /// Bytes that were allocated since the last collection, and in how many nanoseconds of the processor's time.
    pub allocated: usize,
    /// See `allocated`.
    pub cpu_ns: u64,
    /// Bytes that are allocated between two collections in stops, if limits permit that.
    pub interval: usize,
    /// How long a step takes.
    pub step_ns: u64,
    /// Whether a helper is expected to mark beside the program.
    pub helped: bool,
}

/// How a cycle is to go that begins now. Bytes that the program allocates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Until it has ended.
    pub allowance: usize,
    /// The same if nobody but steps marks beside the program: what is taken where it begins too late for more.
    pub least: usize,
    /// Until a collection in a stop would begin: the room that a cycle is begun with.
    pub lead: usize,
}

impl Plan {
    /// The first round of a cycle in which `expected` bytes are to be scanned, and that begins where `room` bytes can be
    /// allocated, of the `interval` between two collections. Where that is used up it may take half an interval more.
    pub fn first_round(&self, expected: usize, room: usize, interval: usize) -> Progress {
        let allowance = self.allowance.min(room.max(self.least));
        let room = room.max(allowance);
        Progress {
            expected,
            allowance,
            room,
            most: room.saturating_add((interval / 2).max(LEAST_GROWTH)),
            ..Progress::default()
        }
    }

    /// Another round, in which `expected` bytes are to be scanned, after the one `before`: it leaves some of the room to
    /// what its last stop may put off.
    pub fn next_round(&self, expected: usize, before: &Progress) -> Progress {
        let rest = before.room.saturating_sub(before.in_all) / 2;
        Progress {
            expected,
            allowance: self.allowance.min(rest.max(LEAST_ALLOWANCE)),
            room: before.room,
            most: before.most,
            ..Progress::default()
        }
    }
}

/// Whether a cycle begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Not before this many bytes were allocated; then this is to be asked again.
    Wait(usize),
    /// Now, and why.
    Begin(&'static str),
}

/// What a cycle took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// Bytes that its first plan allowed to be allocated.
    pub allowance: usize,
    /// Bytes that were allocated until it ended.
    pub allocated: usize,
    /// Bytes that its steps scanned, and in how many nanoseconds.
    pub scanned: usize,
    /// See `scanned`.
    pub took_ns: u64,
}

/// What is remembered of earlier cycles and shortages.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    /// In allowances.
    margin: f64,
    /// Nanoseconds for each byte that steps scanned in the last cycle; 0 before there was one.
    step_rate: f64,
    /// Bytes of dead cells that waited to be swept when the heap had no room for what the program wanted.
    stranded: usize,
}

impl Pacer {
    /// Nothing is known yet.
    pub const fn new() -> Pacer {
        Pacer {
            margin: FIRST_MARGIN,
            step_rate: 0.0,
            stranded: 0,
        }
    }

    /// What can be allocated until a collection in a stop would begin. Bytes. Dead cells that nobody took when memory was
    /// short are of sizes that the program does not allocate.
    pub fn room(&self, s: &Supply) -> usize {
        let unswept = s.unswept.saturating_sub(self.stranded);
        let held = s.unused.saturating_add(unswept);
        let room = s.until_due.max(held);
        let room = room.min(s.limit.saturating_add(unswept));
        match s.left {
            // What is allocated from now on is no longer left, and it is more to collect: the two meet half way.
            Some(left) => room.min(left.saturating_sub(s.gained) / 2),
            None => room,
        }
    }

    /// Nanoseconds that scanning a byte takes, by the faster and by the slower of what was measured in stops and in steps. A
    /// machine that others use makes markings seem slow.
    fn rates(&self, m: &Measurements) -> (f64, f64) {
        let in_stops = match m.scanned {
            0 => 0.0,
            scanned => m.took_ns as f64 / scanned as f64,
        };
        let slower = in_stops.max(self.step_rate);
        match in_stops.min(self.step_rate) {
            _ if slower <= 0.0 => (USUAL_RATE, USUAL_RATE),
            faster if faster > 0.0 => (faster, slower),
            _ => (slower, slower),
        }
    }

    /// Bytes that are allocated while all steps are made, at the least.
    fn for_steps(&self, m: &Measurements) -> usize {
        let marking_ns = m.expected as f64 * self.rates(m).0;
        (marking_ns / m.step_ns.max(1) as f64 * LEAST_WAIT as f64) as usize
    }

    /// How a cycle would go that began now.
    pub fn plan(&self, m: &Measurements) -> Plan {
        let least = self.allowance(m, (SHARE, PACE), PROGRAM_TIMES);
        let allowance = match m.helped {
            true => self.allowance(m, (SHARE_HELPED, PACE_HELPED), PROGRAM_TIMES_HELPED),
            false => least,
        };
        let margin = match m.helped {
            true => self.margin / LEAST_MARGIN,
            false => self.margin,
        };
        Plan {
            allowance,
            // It needs some time, also where a cycle begins too late.
            least: match m.helped {
                true => least.max(allowance / 2),
                false => least,
            }
            .min(allowance),
            lead: ((allowance as f64 * margin) as usize).saturating_add(LEAST_WAIT),
        }
    }

    /// What is allocated until a cycle has ended, within these bounds, if the program gets so many times the time of marking.
    fn allowance(&self, m: &Measurements, (share, pace): (usize, usize), times: f64) -> usize {
        let most = (m.interval / share).max(LEAST_ALLOWANCE.min(m.interval / 2));
        let keeps_pace = (m.expected / pace).max(LEAST_ALLOWANCE);
        let marking_ns = m.expected as f64 * self.rates(m).1;
        let by_time = match m.cpu_ns {
            0 => most,
            cpu_ns => {
                let allocates = m.allocated as f64 / cpu_ns as f64;
                (times * marking_ns * allocates) as usize
            }
        };
        by_time
            .max(LEAST_ALLOWANCE)
            .min(most)
            .min(keeps_pace)
            .max(self.for_steps(m).min(m.interval / LEAST_PART))
            .max(1)
    }

    /// Whether a cycle begins now, where `room` bytes can be allocated until a collection in a stop would begin.
    pub fn decide(&self, m: &Measurements, room: usize) -> Decision {
        let lead = self.plan(m).lead;
        if self.for_steps(m) > m.interval / MOST_PART {
            return Decision::Wait(room.max(LEAST_WAIT));
        }
        let too_soon = (m.interval / LEAST_PART).saturating_sub(m.allocated);
        if too_soon > 0 {
            return Decision::Wait(too_soon.max(LEAST_WAIT));
        }
        if room <= lead {
            return Decision::Begin(IN_TIME);
        }
        // Half way: by then the program may allocate faster.
        Decision::Wait(((room - lead) / 2).max(LEAST_WAIT))
    }

    /// The heap had no room for a block, while `unswept` bytes of dead cells were waiting to be swept.
    pub fn note_shortage(&mut self, unswept: usize) {
        self.stranded = unswept;
    }

    /// A collection has ended, and what waits to be swept is not what it was.
    pub fn note_collection(&mut self) {
        self.stranded = (self.stranded as f64 * FORGETTING) as usize;
    }

    /// A cycle has ended with all of its marks.
    pub fn note_cycle(&mut self, taken: &Taken) {
        let needed = taken.allocated as f64 / taken.allowance.max(1) as f64 * LEAST_MARGIN;
        let forgotten = LEAST_MARGIN + (self.margin - LEAST_MARGIN) * FORGETTING;
        self.margin = needed.max(forgotten).clamp(LEAST_MARGIN, MOST_MARGIN);
        if taken.scanned >= WORTH_MEASURING {
            self.step_rate = taken.took_ns as f64 / taken.scanned as f64;
        }
    }
}

impl Default for Pacer {
    fn default() -> Pacer {
        Pacer::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// 60 MB are marked in 60 ms, and 40 MB allocated between two collections, in 100 ms so far.
    fn usual() -> Measurements {
        Measurements {
            expected: 60 * MIB,
            scanned: 60 * MIB,
            took_ns: 60_000_000,
            allocated: 20 * MIB,
            cpu_ns: 1_000_000_000,
            interval: 40 * MIB,
            step_ns: 3_125_000,
            helped: false,
        }
    }

    #[test]
    fn the_room_ends_where_a_collection_in_a_stop_begins() {
        let supply = Supply {
            until_due: 10 * MIB,
            unused: 2 * MIB,
            unswept: 3 * MIB,
            limit: usize::MAX,
            ..Supply::default()
        };
        let pacer = Pacer::new();
        assert_eq!(pacer.room(&supply), 10 * MIB);
        // A heap that is larger than it has to be is used up first.
        let large = Supply {
            unused: 20 * MIB,
            ..supply
        };
        assert_eq!(pacer.room(&large), 23 * MIB);
        let mut knows = pacer;
        knows.note_shortage(2 * MIB);
        assert_eq!(knows.room(&large), 21 * MIB);
        knows.note_collection();
        assert_eq!(knows.room(&large), 21 * MIB + MIB / 2);
        knows.note_shortage(MIB);
        assert_eq!(knows.room(&large), 22 * MIB);
        let limited = Supply {
            limit: 4 * MIB,
            ..supply
        };
        assert_eq!(pacer.room(&limited), 7 * MIB);
        let scarce = Supply {
            left: Some(12 * MIB),
            gained: 8 * MIB,
            ..supply
        };
        assert_eq!(pacer.room(&scarce), 2 * MIB);
        let plenty = Supply {
            left: Some(100 * MIB),
            ..scarce
        };
        assert_eq!(pacer.room(&plenty), 10 * MIB);
    }

    #[test]
    fn the_allowance_is_what_is_allocated_while_marking_takes_a_quarter_of_the_time() {
        let plan = |m: &Measurements| Pacer::new().plan(m);
        // 20 MB a second, and three times as long as 63 ms.
        let slow = plan(&usual()).allowance;
        assert!(slow > 3 * MIB && slow < 4 * MIB, "{slow}");
        let lead = (slow as f64 * FIRST_MARGIN) as usize + LEAST_WAIT;
        assert_eq!(plan(&usual()).lead, lead);
        let fast = Measurements {
            cpu_ns: 10_000_000,
            ..usual()
        };
        assert_eq!(plan(&fast).allowance, 40 * MIB / SHARE);
        let little = Measurements {
            expected: MIB,
            ..fast
        };
        assert_eq!(plan(&little).allowance, LEAST_ALLOWANCE);
        let idle = Measurements {
            allocated: 0,
            ..usual()
        };
        // What all steps take, each of which waits until a thread takes cells.
        let for_steps = plan(&idle).allowance;
        assert!(for_steps.abs_diff(LEAST_WAIT * 96 / 5) < 10, "{for_steps}");
        let unknown = Measurements {
            allocated: 0,
            cpu_ns: 0,
            ..usual()
        };
        assert_eq!(plan(&unknown).allowance, 40 * MIB / SHARE);
        let unmeasured = Measurements {
            scanned: 0,
            took_ns: 0,
            ..usual()
        };
        let guessed = plan(&unmeasured).allowance;
        assert!(guessed > slow && guessed < 4 * MIB, "{guessed}");
        let finely = Measurements {
            step_ns: 250_000,
            ..fast
        };
        let for_steps = plan(&finely).allowance;
        assert!(for_steps.abs_diff(240 * LEAST_WAIT) <= 1, "{for_steps}");
        // A small heap does not get more than it allocates between two collections.
        let small = Measurements {
            interval: 100_000,
            expected: 100_000,
            ..fast
        };
        assert_eq!(plan(&small).allowance, 50_000);
    }

    #[test]
    fn a_helper_has_more_time_than_steps() {
        let plan = |helped, m: &Measurements| {
            let m = Measurements { helped, ..*m };
            Pacer::new().plan(&m).allowance
        };
        // Where there is time enough, its cycles are shorter: it marks all the time.
        assert_eq!(plan(true, &usual()), plan(false, &usual()) / 3 * 2);
        // Where the program allocates too fast for steps that are to take no more than a quarter of the time.
        let fast = Measurements {
            cpu_ns: 10_000_000,
            ..usual()
        };
        assert_eq!(plan(false, &fast), 40 * MIB / SHARE);
        assert_eq!(plan(true, &fast), 40 * MIB / SHARE_HELPED);
        let little = Measurements {
            expected: 6 * MIB,
            ..fast
        };
        assert_eq!(plan(false, &little), 6 * MIB / PACE);
        assert_eq!(plan(true, &little), 6 * MIB / PACE_HELPED);
    }

    #[test]
    fn rounds_share_the_room_of_a_cycle() {
        let plan = Plan {
            allowance: 4 * MIB,
            least: 4 * MIB,
            lead: 6 * MIB,
        };
        let first = plan.first_round(60 * MIB, 6 * MIB, 40 * MIB);
        assert_eq!((first.allowance, first.room), (4 * MIB, 6 * MIB));
        assert_eq!(first.most, 26 * MIB);
        // One that was asked for, or began too late, grows the heap by its allowance.
        let late = plan.first_round(60 * MIB, 0, MIB / 8);
        assert_eq!((late.allowance, late.room), (4 * MIB, 4 * MIB));
        assert_eq!(late.most, 4 * MIB + LEAST_GROWTH);
        // With a helper it takes what there is of its longer time, and grows the heap by no more than steps would.
        let helped = Plan { least: MIB, ..plan };
        let begun = helped.first_round(60 * MIB, 6 * MIB, 40 * MIB);
        assert_eq!((begun.allowance, begun.room), (first.allowance, first.room));
        for (room, allowance) in [(2 * MIB, 2 * MIB), (0, MIB)] {
            let late = helped.first_round(60 * MIB, room, 40 * MIB);
            assert_eq!((late.allowance, late.room), (allowance, allowance));
        }
        let ended = Progress {
            in_all: 4 * MIB,
            ..first
        };
        let next = plan.next_round(9 * MIB, &ended);
        assert_eq!((next.expected, next.allowance), (9 * MIB, MIB));
        assert_eq!((next.room, next.most), (first.room, first.most));
        let early = Progress {
            room: 20 * MIB,
            ..first
        };
        assert_eq!(plan.next_round(9 * MIB, &early).allowance, 4 * MIB);
        let used_up = Progress {
            in_all: 9 * MIB,
            ..first
        };
        assert_eq!(plan.next_round(MIB, &used_up).allowance, LEAST_ALLOWANCE);
    }

    #[test]
    fn steps_that_were_slow_count() {
        let mut pacer = Pacer::new();
        let before = pacer.plan(&usual()).allowance;
        let taken = Taken {
            allowance: MIB,
            allocated: MIB,
            scanned: 10 * MIB,
            took_ns: 12 * MIB as u64,
        };
        pacer.note_cycle(&taken);
        let slower = pacer.plan(&usual()).allowance;
        assert!(slower > before + before / 10, "{before} {slower}");
        // For how many steps there are it is the faster that counts.
        let idle = Measurements {
            allocated: 0,
            ..usual()
        };
        let for_steps = Pacer::new().plan(&idle).allowance;
        assert_eq!(pacer.plan(&idle).allowance, for_steps);
        // What hardly scanned anything is no measurement.
        let mut other = pacer;
        other.note_cycle(&Taken {
            scanned: 1000,
            took_ns: 1,
            ..taken
        });
        assert_eq!(other.plan(&usual()).allowance, slower);
    }

    #[test]
    fn a_cycle_begins_when_the_room_is_its_lead() {
        let pacer = Pacer::new();
        let lead = pacer.plan(&usual()).lead;
        assert_eq!(pacer.decide(&usual(), lead), Decision::Begin(IN_TIME));
        assert_eq!(pacer.decide(&usual(), 0), Decision::Begin(IN_TIME));
        assert_eq!(pacer.decide(&usual(), lead + 1), Decision::Wait(LEAST_WAIT));
        assert_eq!(
            pacer.decide(&usual(), lead + 10 * MIB),
            Decision::Wait(5 * MIB)
        );
        // Not as soon as another has ended, however little room there is.
        let soon = Measurements {
            allocated: 4 * MIB,
            ..usual()
        };
        assert_eq!(pacer.decide(&soon, 0), Decision::Wait(6 * MIB));
        // Not where all steps do not fit between two collections.
        let tight = Measurements {
            interval: MIB,
            ..usual()
        };
        assert_eq!(pacer.decide(&tight, MIB / 4), Decision::Wait(MIB / 4));
        // But where they take a third of what is allocated between two.
        let narrow = Measurements {
            interval: 2 * MIB,
            ..usual()
        };
        assert_eq!(pacer.decide(&narrow, 0), Decision::Begin(IN_TIME));
    }

    #[test]
    fn the_margin_is_learned_and_forgotten() {
        let lead = |pacer: &Pacer| {
            let plan = pacer.plan(&usual());
            (plan.lead - LEAST_WAIT) as f64 / plan.allowance as f64
        };
        let taken = |allocated| Taken {
            allowance: MIB,
            allocated,
            ..Taken::default()
        };
        let mut pacer = Pacer::new();
        pacer.note_cycle(&taken(2 * MIB));
        assert!((lead(&pacer) - 2.5).abs() < 0.01, "{pacer:?}");
        for _ in 0..20 {
            let before = lead(&pacer);
            pacer.note_cycle(&taken(MIB));
            assert!(lead(&pacer) <= before);
        }
        assert!((lead(&pacer) - 1.25).abs() < 0.01, "{pacer:?}");
        pacer.note_cycle(&taken(usize::MAX));
        assert!((lead(&pacer) - 3.0).abs() < 0.01, "{pacer:?}");
    }

    #[test]
    fn extreme_numbers_have_an_answer() {
        let pacer = Pacer::new();
        let most = Measurements {
            expected: usize::MAX,
            scanned: usize::MAX,
            took_ns: u64::MAX,
            allocated: usize::MAX,
            cpu_ns: u64::MAX,
            interval: usize::MAX,
            step_ns: u64::MAX,
            helped: false,
        };
        for m in [most, Measurements::default()] {
            let plan = pacer.plan(&m);
            assert!(plan.allowance >= 1 && plan.lead >= plan.allowance);
            let Decision::Wait(bytes) = pacer.decide(&m, usize::MAX) else {
                panic!("{m:?}")
            };
            assert!(bytes >= LEAST_WAIT);
            // No time for a step at all.
            let impossible = Measurements { step_ns: 0, ..m };
            assert!(pacer.plan(&impossible).lead >= plan.lead);
            assert!(pacer.plan(&impossible).allowance <= (m.interval / LEAST_PART).max(1));
        }
    }
}
