//! Random graphs with weak slots, ephemerons and finalizers: what is cleared is what an oracle says, in both slot formats,
//! under each old generation, with several workers, and with a collection at every few allocations.

use crate::random::at_length;
use crate::setups::{SETUPS, Setup, checked_under};
use crate::weak_graph::{Done, run};
use gleaner::Builder;

fn builder(setup: Setup, workers: usize) -> Builder {
    checked_under(setup, 16 << 20)
        .young(1 << 20)
        .workers(workers)
}

/// Something of everything happened.
fn assert_busy(done: Done) {
    let Done {
        cleared,
        kept,
        pairs_cleared,
        pairs_kept,
        single,
        handed_out,
        full,
    } = done;
    assert!(cleared > 20 && kept > 20, "{done:?}");
    assert!(pairs_cleared > 20 && pairs_kept > 20, "{done:?}");
    assert!(single > 3 && handed_out > 10 && full > 5, "{done:?}");
}

#[test]
fn weak_slots_are_cleared_as_the_oracle_says() {
    for setup in SETUPS {
        for workers in [1, 4] {
            for seed in 0..at_length(4, 40) {
                assert_busy(run(builder(setup, workers), 100 + seed, 3000));
            }
        }
    }
}

#[test]
fn under_stress_and_with_prefetching_and_early_promotion() {
    for setup in SETUPS {
        for seed in 0..at_length(2, 20) {
            assert_busy(run(builder(setup, 2).stress(7), 200 + seed, 1500));
            assert_busy(run(builder(setup, 3).prefetch(true), 300 + seed, 3000));
            assert_busy(run(builder(setup, 2).tenure(0), 400 + seed, 3000));
        }
    }
}

#[test]
fn under_quarantine_no_reference_is_stale() {
    for setup in SETUPS {
        assert_busy(run(builder(setup, 2).quarantine(3), 500, 2000));
    }
}
