//! Under sticky marks: whether a collection keeps the marks of the one before, or is of everything.
//!
//! What a collection of new objects leaves is old, and old objects that die stay until everything is collected. As much may
//! have died as the old objects have grown by. So that counts as allocated: the next collection comes the sooner, and the
//! heap is no larger than without sticky marks. When it is half of what the program allocates between two collections,
//! or would be after a collection of new objects, everything is collected. How much such a collection leaves, the last
//! ones tell; that is forgotten a little with each collection of everything, so that others are tried again.
//!
//! Roots are scanned in either case. Where little lives beside them, everything costs hardly more than what is new. And
//! a page that is watched takes a fault when it is written. So each run of collections that keep marks is weighed
//! against the collection of everything that ends it. Where the run did not pay, marks are not kept, and nothing is
//! watched, for some collections. After each attempt that failed these are twice as many.

/// What is known when a collection begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measurements {
    /// Whether everything was asked for: by the program, or because memory is short.
    pub everything_asked: bool,
    /// Whether the program asked for a cycle of steps.
    pub cycle_asked: bool,
    /// Whether marks of a collection before are there to build on, and all writes since were seen.
    pub marks_hold: bool,
    /// Whether marks were made in steps, and all writes since were seen.
    pub stepped: bool,
    /// Whether those steps added to marks that were kept.
    pub stepped_new: bool,
    /// Whether the program changed marks since, or what counts as a reference.
    pub disturbed: bool,
    /// Whether leaks are looked for: each collection is to report all of them.
    pub finds_leaks: bool,
    /// Bytes with pointers that lived after the last collection, among them old objects that may be dead by now.
    pub composite: usize,
    /// Bytes of roots.
    pub roots: usize,
    /// Whether marks are kept also where that cannot pay: for tests.
    pub even_if_small: bool,
    /// Bytes that are allocated between two collections.
    pub interval: usize,
    /// Bytes of old objects that may be dead.
    pub lost: usize,
    /// Bytes that a collection of new objects is expected to leave of these.
    pub surviving: usize,
    /// Collections of everything that are still to pass before marks are kept again ([`rest_after`]).
    pub rest: u32,
    /// Collections since the last one of everything.
    pub kept: usize,
    /// How many there may be (`GC_full_freq`).
    pub most_kept: usize,
}

/// What to collect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// What was allocated since the last collection, and why.
    New(&'static str),
    /// Everything, and why.
    Everything(&'static str),
    /// Everything, of which most was marked in steps beside the program, and why.
    Stepped(&'static str),
    /// What was allocated since the last collection, of which most was marked in steps, and why.
    SteppedNew(&'static str),
}

impl Extent {
    /// Whether there are marks to be built on.
    pub fn keeps_marks(self) -> bool {
        !matches!(self, Extent::Everything(_))
    }

    /// Whether old objects keep marks of the collection before.
    pub fn is_of_new(self) -> bool {
        matches!(self, Extent::New(_) | Extent::SteppedNew(_))
    }

    /// Why it was decided so, for the event log.
    pub fn reason(self) -> &'static str {
        match self {
            Extent::New(reason)
            | Extent::Everything(reason)
            | Extent::Stepped(reason)
            | Extent::SteppedNew(reason) => reason,
        }
    }
}

/// Everything is collected when as much may be dead as this part of the interval.
const LOST_PART: usize = 2;

/// Decides what to collect.
pub fn decide(m: &Measurements) -> Extent {
    let small = m.composite < m.roots / 2 && !m.even_if_small;
    let surviving = if m.even_if_small { 0 } else { m.surviving };
    let lost = m.lost.saturating_add(surviving);
    let freed_too_little = lost >= (m.interval / LOST_PART).max(1);
    match () {
        () if m.rest > 0 && !m.stepped => {
            Extent::Everything("everything: collections of new objects cost hardly less")
        }
        () if !m.marks_hold && !m.stepped => {
            Extent::Everything("everything: there are no marks to keep")
        }
        () if m.everything_asked => Extent::Everything("everything: asked for"),
        () if m.finds_leaks => Extent::Everything("everything: leaks are looked for"),
        () if m.disturbed => Extent::Everything("everything: the program changed marks"),
        () if m.cycle_asked && !m.stepped => Extent::Everything("everything: asked for, in steps"),
        () if m.stepped && m.stepped_new => Extent::SteppedNew("new objects: marked in steps"),
        () if m.stepped => Extent::Stepped("everything: marked in steps"),
        () if small => Extent::Everything("everything: little lives beside the roots"),
        () if freed_too_little => {
            Extent::Everything("everything: collections of new objects have freed too little")
        }
        () if m.kept >= m.most_kept => {
            Extent::Everything("everything: there were many collections of new objects")
        }
        () => Extent::New("new objects: what the last collections left has not grown much"),
    }
}

/// What a run of collections that kept marks has cost, and the collection of everything that ended it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// How many kept marks.
    pub kept: usize,
    /// Bytes that these scanned.
    pub scanned_new: usize,
    /// Bytes of watched pages that were written meanwhile.
    pub written: usize,
    /// Bytes that the collection of everything scanned.
    pub scanned_everything: usize,
}

/// A fault in the kernel takes about as long as scanning the page this many times. Measured were 0.5 to 1.5
/// microseconds for a fault, and 0.2 to 0.5 nanoseconds for each byte that is scanned.
const FAULT: usize = 1;
/// Collections of everything after the first run that did not pay, and after many of them.
const FIRST_REST: u32 = 8;
const LONGEST_REST: u32 = 128;

/// How many collections of everything pass before marks are kept again; `before` is what this said of the last run.
pub fn rest_after(run: &Run, before: u32) -> u32 {
    let kept = run
        .scanned_new
        .saturating_add(run.written.saturating_mul(FAULT));
    let instead = run.scanned_everything.saturating_mul(run.kept);
    if run.kept == 0 {
        before
    } else if kept > instead / 4 * 3 {
        before.saturating_mul(2).clamp(FIRST_REST, LONGEST_REST)
    } else {
        0
    }
}

/// Whether a collection of everything in a stop asks what was written, so that the next one has to look only at what is
/// written from then on.
pub fn is_built_on(rest: u32) -> bool {
    rest <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual() -> Measurements {
        Measurements {
            marks_hold: true,
            composite: 80,
            roots: 160,
            interval: 50,
            lost: 5,
            kept: 3,
            most_kept: 19,
            ..Measurements::default()
        }
    }

    fn is_of_everything(m: &Measurements) -> bool {
        matches!(decide(m), Extent::Everything(_))
    }

    #[test]
    fn new_objects_are_collected_until_the_old_ones_have_grown() {
        assert!(!is_of_everything(&usual()));
        let grown = |lost, surviving| Measurements {
            lost,
            surviving,
            ..usual()
        };
        assert!(!is_of_everything(&grown(24, 0)) && is_of_everything(&grown(25, 0)));
        // They would have after a collection of new objects.
        assert!(!is_of_everything(&grown(10, 14)) && is_of_everything(&grown(10, 15)));
        let tested = Measurements {
            even_if_small: true,
            ..grown(10, 15)
        };
        assert!(!is_of_everything(&tested));
    }

    #[test]
    fn everything_is_collected_where_marks_cannot_be_built_on() {
        let changes: [fn(&mut Measurements); 7] = [
            |m| m.everything_asked = true,
            |m| m.cycle_asked = true,
            |m| m.marks_hold = false,
            |m| m.disturbed = true,
            |m| m.finds_leaks = true,
            |m| m.kept = 19,
            |m| m.composite = 79,
        ];
        let mut reasons = std::vec::Vec::new();
        for change in changes {
            let mut measured = usual();
            change(&mut measured);
            let Extent::Everything(reason) = decide(&measured) else {
                panic!("{measured:?}")
            };
            assert!(!reasons.contains(&reason), "{reason}");
            reasons.push(reason);
        }
    }

    #[test]
    fn a_cycle_ends_with_its_marks_unless_they_are_of_no_use() {
        let stepped = Measurements {
            stepped: true,
            marks_hold: false,
            lost: 1000,
            composite: 0,
            kept: 19,
            ..usual()
        };
        assert!(matches!(decide(&stepped), Extent::Stepped(_)));
        let new = Measurements {
            stepped_new: true,
            ..stepped
        };
        assert!(matches!(decide(&new), Extent::SteppedNew(_)));
        let changes: [fn(&mut Measurements); 4] = [
            |m| m.everything_asked = true,
            |m| m.disturbed = true,
            |m| m.finds_leaks = true,
            |m| m.stepped = false,
        ];
        for change in changes {
            let mut measured = stepped;
            change(&mut measured);
            assert!(is_of_everything(&measured), "{measured:?}");
        }
    }

    #[test]
    fn marks_are_not_kept_for_a_while_where_that_did_not_pay() {
        let rests = Measurements { rest: 1, ..usual() };
        let Extent::Everything(reason) = decide(&rests) else {
            panic!("{rests:?}")
        };
        assert!(reason.contains("cost hardly less"), "{reason}");
        // Nor need there be any.
        let unasked = Measurements {
            marks_hold: false,
            ..rests
        };
        assert_eq!(decide(&unasked), decide(&rests));
        let stepped = Measurements {
            stepped: true,
            ..unasked
        };
        assert!(matches!(decide(&stepped), Extent::Stepped(_)));
        assert!(is_built_on(0) && is_built_on(1) && !is_built_on(2));
    }

    #[test]
    fn a_run_pays_that_scans_clearly_less_faults_included() {
        let run = |scanned_new, written| Run {
            kept: 4,
            scanned_new,
            written,
            scanned_everything: 100,
        };
        assert_eq!(rest_after(&run(300, 0), 16), 0);
        assert_eq!(rest_after(&run(200, 100), 16), 0);
        assert_eq!(rest_after(&run(301, 0), 0), FIRST_REST);
        assert_eq!(rest_after(&run(200, 101), FIRST_REST), 2 * FIRST_REST);
        assert_eq!(rest_after(&run(0, usize::MAX), u32::MAX), LONGEST_REST);
        // A collection of everything after another says nothing.
        let none = Run {
            kept: 0,
            ..run(0, 50)
        };
        assert_eq!(rest_after(&none, 16), 16);
    }

    #[test]
    fn a_test_may_have_marks_kept_where_little_lives() {
        assert!(!is_of_everything(&Measurements {
            composite: 0,
            even_if_small: true,
            ..usual()
        }));
    }
}
