//! What `--stats` prints when the program has ended.

use std::fmt::Write as _;
use std::time::Duration;

use gleaner_place::{Energy, Machine, Placement, Usages};
use rustix::time::{ClockId, clock_gettime};

/// A line for each role, what was not seen, and what placing took itself, with `guarding`, what the guard took. `total` is
/// the processor time of the processes that have ended, in seconds.
pub(super) fn table(
    placement: Placement,
    usages: &Usages,
    total: Option<f64>,
    wall: Duration,
    guarding: Duration,
) -> String {
    let processors = Machine::host().processors().len();
    let mut text = format!(
        "gleaner place: placement={}, {:.2} s on {processors} processors\n  {:12} {:>7} {:>10} {:>9} {:>9} {:>9}  {}\n",
        placement.name(),
        wall.as_secs_f64(),
        "role",
        "threads",
        "time, s",
        "waited",
        "preempted",
        "moved",
        "seen on",
    );
    let mut seen = 0.0;
    for (role, usage) in usages {
        seen += usage.seconds();
        let moved = usage
            .migrations
            .map_or("-".to_string(), |count| count.to_string());
        let _ = writeln!(
            text,
            "  {:12} {:>7} {:>10.2} {:>9} {:>9} {:>9}  {}",
            role.name(),
            usage.threads,
            usage.seconds(),
            usage.voluntary,
            usage.involuntary,
            moved,
            usage.processors
        );
    }
    if let Some(total) = total {
        let unseen = (total - seen).max(0.0);
        let _ = writeln!(
            text,
            "  {:12} {:>7} {unseen:>10.2}  since the last look at a thread, and of threads between two looks",
            "not seen", ""
        );
    }
    let own = clock_gettime(ClockId::ProcessCPUTime);
    let own = own.tv_sec as f64 + own.tv_nsec as f64 * 1e-9 + guarding.as_secs_f64();
    let share = own / (wall.as_secs_f64() * processors.max(1) as f64);
    let _ = writeln!(
        text,
        "  {:12} {:>7} {own:>10.3}  {:.2} % of wall time x processors",
        "placing",
        "",
        share * 100.0
    );
    text
}

/// A line about what the processors took.
pub(super) fn energy(energy: &Energy) -> String {
    format!(
        "  {:12} {:>7} {:>10.2}  J, of {} processor packages, with all that ran on them\n",
        "energy",
        "",
        energy.joules(),
        energy.packages()
    )
}
