//! Whether a copy stops all mutators so that it can share arraylets (PLDI 2010, section 4.7) instead of copying them.
//!
//! Arraylets that were shared before are shared again without a stop. A stop is for those that only one array has: it
//! costs every mutator that runs as long as it takes, whatever the number of arraylets, and a copy costs the more the
//! longer it is. What is copied stays unshared, so the next copy of the same array has it again. So bytes that were copied
//! for lack of a stop are added up over copies; when they have cost as much as a stop does, the next copy stops. So all
//! that is copied and all stops together never cost much more than twice what copying alone does.

/// What is known when elements are copied.
#[derive(Clone, Copy, Debug)]
pub struct Measurements {
    /// Bytes of arraylets that could be shared in a stop only.
    pub bytes: usize,
    /// Such bytes that were copied since the last stop.
    pub copied: usize,
    /// Other mutators that run.
    pub others: usize,
    /// What stops took lately, in nanoseconds, by [`lately`].
    pub stop_ns: u64,
}

/// What a copy takes for each KB: the arraylet itself, its share of a collection, and the copying.
const COPY_NS_PER_KB: u64 = 200;
/// A stop takes this long where no other mutator runs: a lock, and a system call.
const LEAST_STOP_NS: u64 = 2_000;
/// What a stop is taken to cost before there was one.
pub const FIRST_STOP_NS: u64 = 20_000;
/// A copy of fewer bytes does not stop: another one has to gain more by it.
const LEAST_BYTES: usize = 8 << 10;

/// Whether the copy stops the others.
pub fn stops(found: &Measurements) -> bool {
    let copying = ((found.bytes + found.copied) as u64 >> 10) * COPY_NS_PER_KB;
    let stopping = match found.others {
        0 => LEAST_STOP_NS,
        others => found.stop_ns * (others as u64 + 1),
    };
    found.bytes >= LEAST_BYTES && copying >= stopping
}

/// What stops took lately, after one that took `ns`.
pub fn lately(before: u64, ns: u64) -> u64 {
    before - before / 4 + ns / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUND: Measurements = Measurements {
        bytes: 64 << 10,
        copied: 0,
        others: 1,
        stop_ns: FIRST_STOP_NS,
    };

    #[test]
    fn a_large_copy_stops_and_a_small_one_does_not() {
        assert!(!stops(&FOUND));
        let bytes = 256 << 10;
        assert!(stops(&Measurements { bytes, ..FOUND }));
        let stop_ns = 100 * FIRST_STOP_NS;
        let slow = Measurements {
            bytes,
            stop_ns,
            ..FOUND
        };
        assert!(!stops(&slow), "others do not poll for long");
        let others = 7;
        let many = Measurements {
            bytes,
            others,
            ..FOUND
        };
        assert!(!stops(&many), "many would stand still");
    }

    #[test]
    fn small_copies_add_up_to_a_stop() {
        let copied = 200 << 10;
        assert!(stops(&Measurements { copied, ..FOUND }));
        let bytes = LEAST_BYTES - 1;
        let tiny = Measurements {
            bytes,
            copied,
            ..FOUND
        };
        assert!(!stops(&tiny), "it gains nothing itself");
    }

    #[test]
    fn nobody_waits_where_no_other_mutator_runs() {
        let (bytes, others) = (16 << 10, 0);
        assert!(stops(&Measurements {
            bytes,
            others,
            ..FOUND
        }));
        assert!(!stops(&Measurements {
            bytes: 8 << 10,
            others,
            ..FOUND
        }));
    }

    #[test]
    fn what_stops_take_follows_what_they_took() {
        let mut ns = FIRST_STOP_NS;
        (0..40).for_each(|_| ns = lately(ns, 1_000_000));
        assert!((990_000..=1_000_000).contains(&ns));
        (0..40).for_each(|_| ns = lately(ns, 8_000));
        assert!((8_000..9_000).contains(&ns));
    }
}
