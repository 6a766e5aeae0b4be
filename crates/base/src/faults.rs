//! Fault points: named places in the collector where a test can make something fail.
//!
//! A place asks [`armed`] each time it is reached, which is one load and one branch when nothing is armed. Option
//! `fault=commit-memory@3+start-worker@1` arms points before the heap starts: the named point fails once, at its n-th
//! visit counted from then on.
//!
//! Invariants: an armed point fires exactly once, at exactly its n-th visit, also when several threads visit it at the
//! same time. Any thread may visit or arm. The counters are plain `core` atomics and not those of the facade: they are
//! no part of a protocol, and loom's cannot stand in a static.
#![forbid(unsafe_code)]

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

/// A place that can be told to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultPoint {
    /// The system refuses to back reserved addresses with memory.
    CommitMemory,
    /// The system refuses to reserve addresses.
    ReserveMemory,
    /// The system refuses to start a worker thread.
    StartWorker,
    /// A worker finds its mark stack full.
    MarkStackFull,
    /// A thread acknowledges a suspend request late.
    SuspendAckLate,
    /// A library is loaded or closed between reading the list and the stop.
    LibraryListChanged,
    /// An allocation finds no memory although it may collect.
    Allocation,
    /// The old space has no room for an object that is promoted.
    Promotion,
    /// There is no free block for an object that is evacuated.
    Evacuation,
    /// A zeroing thread is held up with a block that it has claimed, and gives it up.
    ZeroingLate,
    /// A zeroing thread ends.
    ZeroingThread,
    /// There is no memory for the table of ephemerons that wait for their keys.
    EphemeronTable,
    /// A thread is held up while it has the lock of the collector's own arena.
    ArenaHeld,
    /// A helper is held up on its way into a phase, or to sleep.
    WorkerLate,
    /// A thread is held up when it has given back the allocator lock behind a section of the client's.
    SectionEndLate,
    /// The system refuses to take access to memory away behind an array.
    FenceMemory,
    /// The system does not say any more which pages were written.
    WatchWrites,
    /// Marking that may go on later finds its time over.
    MarkTimeOver,
    /// The system breaks off a file in which it tells of itself, of the process, or of its memory.
    ReadSystemFile,
}

impl FaultPoint {
    /// How many points there are.
    pub const COUNT: usize = 19;

    /// Every point, in declaration order.
    pub const ALL: [FaultPoint; FaultPoint::COUNT] = [
        FaultPoint::CommitMemory,
        FaultPoint::ReserveMemory,
        FaultPoint::StartWorker,
        FaultPoint::MarkStackFull,
        FaultPoint::SuspendAckLate,
        FaultPoint::LibraryListChanged,
        FaultPoint::Allocation,
        FaultPoint::Promotion,
        FaultPoint::Evacuation,
        FaultPoint::ZeroingLate,
        FaultPoint::ZeroingThread,
        FaultPoint::EphemeronTable,
        FaultPoint::ArenaHeld,
        FaultPoint::WorkerLate,
        FaultPoint::SectionEndLate,
        FaultPoint::FenceMemory,
        FaultPoint::WatchWrites,
        FaultPoint::MarkTimeOver,
        FaultPoint::ReadSystemFile,
    ];

    /// The names, in the same order.
    pub const NAMES: [&'static str; FaultPoint::COUNT] = [
        "commit-memory",
        "reserve-memory",
        "start-worker",
        "mark-stack-full",
        "suspend-ack-late",
        "library-list-changed",
        "allocation",
        "promotion",
        "evacuation",
        "zeroing-late",
        "zeroing-thread",
        "ephemeron-table",
        "arena-held",
        "worker-late",
        "section-end-late",
        "fence-memory",
        "watch-writes",
        "mark-time-over",
        "read-system-file",
    ];

    /// The name that the option `fault` uses.
    pub const fn as_str(self) -> &'static str {
        FaultPoint::NAMES[self as usize]
    }

    /// The point of that name.
    pub fn from_name(name: &str) -> Option<FaultPoint> {
        FaultPoint::ALL
            .into_iter()
            .find(|point| point.as_str() == name)
    }
}

/// Which points fail and at which visit: the value of option `fault`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultPlan {
    /// The visit at which each point fails; 0 never.
    visits: [u32; FaultPoint::COUNT],
}

/// What is wrong with the text of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultError<'a> {
    /// This is no fault point.
    UnknownPoint(&'a str),
    /// This item does not end in `@` and a number from 1 to 4294967295.
    BadVisit(&'a str),
}

impl FaultPlan {
    /// Nothing fails.
    pub const NONE: FaultPlan = FaultPlan {
        visits: [0; FaultPoint::COUNT],
    };

    /// Reads `none` or `name@n` items joined by `+`.
    pub fn parse(text: &str) -> Result<FaultPlan, FaultError<'_>> {
        let mut plan = FaultPlan::NONE;
        if text == "none" {
            return Ok(plan);
        }
        for item in text.split('+') {
            let (name, visit) = item.split_once('@').unwrap_or((item, ""));
            let point = FaultPoint::from_name(name).ok_or(FaultError::UnknownPoint(name))?;
            plan.visits[point as usize] = parse_visit(visit).ok_or(FaultError::BadVisit(item))?;
        }
        Ok(plan)
    }

    /// The visit at which `point` fails; 0 never.
    pub fn visit(&self, point: FaultPoint) -> u32 {
        self.visits[point as usize]
    }

    /// Arms the points of this plan for the whole process.
    pub fn arm(&self) {
        for point in FaultPoint::ALL {
            if self.visit(point) != 0 {
                arm(point, self.visit(point));
            }
        }
    }
}

/// A visit number: decimal digits only, not 0.
fn parse_visit(text: &str) -> Option<u32> {
    let digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&visit| digits_only && visit != 0)
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for point in FaultPoint::ALL {
            if self.visit(point) != 0 {
                write!(out, "{separator}{}@{}", point.as_str(), self.visit(point))?;
                separator = "+";
            }
        }
        if separator.is_empty() {
            out.write_str("none")?;
        }
        Ok(())
    }
}

/// The countdowns of all points. The process has one ([`arm`], [`armed`]); tests make their own.
pub struct Countdowns {
    /// Bit p is set while point p is armed. A hint that keeps the unarmed path short: a visit that reads it just
    /// before another thread arms the point is not counted, which no ordering could decide otherwise.
    armed: AtomicU32,
    /// Visits left until the point fails, the failing one included; 0 is unarmed. Changed by read-modify-write only,
    /// so that exactly one visit takes it from 1 to 0.
    left: [AtomicU32; FaultPoint::COUNT],
}

impl Default for Countdowns {
    fn default() -> Self {
        Countdowns::new()
    }
}

impl Countdowns {
    /// Nothing is armed.
    pub const fn new() -> Countdowns {
        Countdowns {
            armed: AtomicU32::new(0),
            left: [const { AtomicU32::new(0) }; FaultPoint::COUNT],
        }
    }

    /// Makes the `n`-th visit of `point` from now on fail; 0 disarms it.
    pub fn arm(&self, point: FaultPoint, n: u32) {
        let bit = 1 << point as u32;
        // Relaxed: the counters order nothing but themselves.
        self.left[point as usize].store(n, Ordering::Relaxed);
        if n == 0 {
            self.armed.fetch_and(!bit, Ordering::Relaxed);
        } else {
            self.armed.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// How many visits of `point` are left until it fails, the failing one included; 0 when it is not armed, or has
    /// failed.
    pub fn left(&self, point: FaultPoint) -> u32 {
        // Relaxed: see the field.
        self.left[point as usize].load(Ordering::Relaxed)
    }

    /// Visits `point`; true when this visit is the one that must fail.
    #[inline(always)]
    pub fn armed(&self, point: FaultPoint) -> bool {
        // Relaxed: see the field.
        self.armed.load(Ordering::Relaxed) & (1 << point as u32) != 0 && self.count_down(point)
    }

    #[cold]
    fn count_down(&self, point: FaultPoint) -> bool {
        // Relaxed: one word, changed by read-modify-write.
        self.left[point as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(1)
        }) == Ok(1)
    }
}

/// The countdowns of this process.
static PROCESS: Countdowns = Countdowns::new();

/// Makes the `n`-th visit of `point` from now on fail; 0 disarms it.
pub fn arm(point: FaultPoint, n: u32) {
    PROCESS.arm(point, n);
}

/// How many visits of `point` are left until it fails; 0 when it is not armed, or has failed.
pub fn left(point: FaultPoint) -> u32 {
    PROCESS.left(point)
}

/// Visits `point`; true when this visit is the one that must fail.
#[inline(always)]
pub fn armed(point: FaultPoint) -> bool {
    PROCESS.armed(point)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn fires_once_at_the_nth_visit() {
        let faults = Countdowns::new();
        faults.arm(FaultPoint::StartWorker, 3);
        let fired: Vec<(u32, bool)> = (0..5)
            .map(|_| {
                let left = faults.left(FaultPoint::StartWorker);
                (left, faults.armed(FaultPoint::StartWorker))
            })
            .collect();
        assert_eq!(
            fired,
            [(3, false), (2, false), (1, true), (0, false), (0, false)]
        );
        assert!(!faults.armed(FaultPoint::CommitMemory));
    }

    #[test]
    fn can_be_disarmed() {
        let faults = Countdowns::new();
        faults.arm(FaultPoint::MarkStackFull, 1);
        faults.arm(FaultPoint::MarkStackFull, 0);
        assert!(!faults.armed(FaultPoint::MarkStackFull));
    }

    #[test]
    fn exactly_one_of_many_threads_sees_it() {
        let faults = Countdowns::new();
        faults.arm(FaultPoint::CommitMemory, 1000);
        let visit_often = || {
            (0..500)
                .filter(|_| faults.armed(FaultPoint::CommitMemory))
                .count()
        };
        let fired: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(visit_often)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(fired, 1);
    }

    #[test]
    fn plan_round_trips() {
        let text = "commit-memory@3+library-list-changed@1";
        let plan = FaultPlan::parse(text).unwrap();
        assert_eq!(plan.visit(FaultPoint::CommitMemory), 3);
        assert_eq!(plan.visit(FaultPoint::StartWorker), 0);
        assert_eq!(plan.to_string(), text);
        assert_eq!(FaultPlan::NONE.to_string(), "none");
        assert_eq!(FaultPlan::parse("none"), Ok(FaultPlan::NONE));
    }

    #[test]
    fn plan_refuses_bad_text() {
        use FaultError::*;
        assert_eq!(FaultPlan::parse("commit@1"), Err(UnknownPoint("commit")));
        assert_eq!(FaultPlan::parse(""), Err(UnknownPoint("")));
        for text in [
            "start-worker",
            "start-worker@",
            "start-worker@0",
            "start-worker@+1",
            "start-worker@4294967296",
        ] {
            let item = text.split('+').next().unwrap();
            assert_eq!(FaultPlan::parse(text), Err(BadVisit(item)), "{text}");
        }
    }

    #[test]
    fn a_plan_arms_the_process() {
        FaultPlan::parse("suspend-ack-late@2").unwrap().arm();
        assert!(!armed(FaultPoint::SuspendAckLate));
        assert!(armed(FaultPoint::SuspendAckLate));
        assert!(!armed(FaultPoint::SuspendAckLate));
    }

    #[test]
    fn names_and_points_agree() {
        for point in FaultPoint::ALL {
            assert_eq!(FaultPoint::from_name(point.as_str()), Some(point));
        }
    }
}
