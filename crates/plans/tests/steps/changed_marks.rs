//! Marks that the program changes between collections are not built on, and what it takes them from lives on.

use std::collections::BTreeSet;

use gleaner_plans::mark_sweep::collect::Outcome;
use gleaner_plans::mark_sweep::decide::extent::Extent;
use gleaner_spaces::mark_sweep::kinds::NORMAL;

use crate::{Begun, OBJECTS, store};

pub fn one_whose_marks_changed_is_given_up() {
    let Some(mut begun) = Begun::new("stress=1000000") else {
        return;
    };
    begun.bench.heap.step();
    begun.disturb();
    assert!(matches!(begun.end(), Extent::Everything(_)));
    assert!(begun.all_live());
}

/// Also where their blocks wait to be swept: by an allocator, or while the next cycle is under way.
pub fn objects_whose_marks_were_taken_away_live_on() {
    for cycle in [false, true] {
        let Some(mut begun) = Begun::before("stress=1000000") else {
            return;
        };
        // Every other object dies.
        let left = || (1..OBJECTS).step_by(2);
        left()
            .skip(1)
            .for_each(|number| store(begun.object(number), 0, begun.object(number - 2).word()));
        store(begun.object(1), 0, 0);
        begun.bench.collect();
        assert!(left().all(|number| begun.bench.is_marked(begun.object(number))));
        for number in left() {
            let found = begun
                .bench
                .heap
                .space
                .object_base(begun.object(number).word());
            begun.bench.heap.space.clear_mark(&found.unwrap());
        }
        begun.disturb();
        begun.bench.verify();
        if cycle {
            assert_eq!(begun.bench.begin(), Outcome::Begun);
        }
        let addresses: BTreeSet<usize> = left().map(|number| begun.object(number).word()).collect();
        let collections = begun.bench.heap.collections;
        for _ in 0..OBJECTS / 4 {
            let object = begun.bench.allocate(NORMAL, 100).unwrap();
            assert!(
                !addresses.contains(&object.word()),
                "a cell was handed out twice"
            );
        }
        assert_eq!(begun.bench.heap.collections, collections);
        if cycle {
            begun.mark();
            begun.end();
        } else {
            begun.bench.collect();
        }
        assert!(left().all(|number| begun.bench.is_marked(begun.object(number))));
    }
}
