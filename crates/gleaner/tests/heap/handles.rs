//! More handles, weak references, ephemerons and finalizers than one task of a collection looks at: each is looked at.
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::finalized::{finalize, next_finalized};
use gleaner::{Ephemeron, Handle, Heap, Local, OldPolicy, Scope, Structure, Type, Weak};

/// Handles of one task, and a few tasks with a rest.
const TASK: usize = 4096;
const COUNT: usize = 3 * TASK + 5;

fn node<'s>(scope: &mut Scope<'s>, of: Type, number: usize) -> Local<'s> {
    let node = scope.allocate(of).unwrap();
    scope.write_u64(node, 0, number as u64).unwrap();
    node
}

/// Everything that refers to the objects, by number. Keys and weak references are kept by the handles alone.
struct Table {
    handles: Vec<Handle>,
    weak: Vec<Weak>,
    ephemerons: Vec<Ephemeron>,
}

impl Table {
    fn new(scope: &mut Scope<'_>, of: Type) -> Table {
        let mut table = Table {
            handles: Vec::new(),
            weak: Vec::new(),
            ephemerons: Vec::new(),
        };
        for number in 0..COUNT {
            scope.nested(|scope| {
                let object = node(scope, of, number);
                let value = node(scope, of, 2 * number);
                table.handles.push(scope.handle(object).unwrap());
                table.weak.push(scope.weak(object).unwrap());
                let ephemeron = scope.ephemeron(object, value).unwrap();
                table.ephemerons.push(ephemeron);
                let dead = node(scope, of, 3 * number);
                finalize(scope, dead);
            });
        }
        table
    }

    fn check(&self, scope: &mut Scope<'_>, when: &str) {
        for number in 0..COUNT {
            scope.nested(|scope| {
                let object = scope.open(&self.handles[number]);
                assert_eq!(
                    scope.read_u64(object, 0),
                    number as u64,
                    "{when}: handle {number}"
                );
                let weak = scope.upgrade(&self.weak[number]);
                assert!(scope.same(object, weak), "{when}: weak {number}");
                let key = scope.key(&self.ephemerons[number]);
                assert!(scope.same(object, key), "{when}: key {number}");
                let value = scope.value_of(&self.ephemerons[number]);
                assert_eq!(
                    scope.read_u64(value, 0),
                    2 * number as u64,
                    "{when}: value {number}"
                );
            });
        }
    }
}

#[test]
fn the_last_of_each_task_is_looked_at_like_all_others() {
    for old in [
        OldPolicy::MarkCompact,
        OldPolicy::MarkSweep,
        OldPolicy::MarkRegion,
    ] {
        for workers in [1, 3] {
            let heap = Heap::builder()
                .limit(32 << 20)
                .young(8 << 20)
                .workers(workers)
                .crew(gleaner::Crew::All)
                .old(old)
                .poison(true)
                .build()
                .unwrap();
            let of = heap
                .structure(Structure {
                    references: 1,
                    bytes: 8,
                })
                .unwrap();
            heap.attach().unwrap().scope(|scope| {
                let table = Table::new(scope, of);
                // Copied twice, then promoted, then marked.
                for round in 0..3 {
                    scope.collect(false);
                    table.check(scope, &format!("scavenge {round}, {workers} workers"));
                }
                for round in 0..2 {
                    scope.collect(true);
                    table.check(scope, &format!("full {round}, {old:?}, {workers} workers"));
                }
                // Each dead object is handed out once.
                let mut found = vec![false; COUNT];
                while scope.nested(|scope| {
                    let Some(object) = next_finalized(scope) else {
                        return false;
                    };
                    let number = scope.read_u64(object, 0) as usize;
                    assert!(number.is_multiple_of(3) && !found[number / 3]);
                    found[number / 3] = true;
                    true
                }) {}
                assert!(found.iter().all(|&found| found), "finalizers are lost");
                // When the handles are gone, all else is cleared.
                let Table {
                    handles,
                    weak,
                    ephemerons,
                } = table;
                drop(handles);
                scope.collect(true);
                for number in 0..COUNT {
                    scope.nested(|scope| {
                        let weak = scope.upgrade(&weak[number]);
                        let key = scope.key(&ephemerons[number]);
                        let value = scope.value_of(&ephemerons[number]);
                        assert!(
                            scope.is_null(weak) && scope.is_null(key) && scope.is_null(value),
                            "{number}"
                        );
                    });
                }
            });
        }
    }
}

/// Each way to look at a handle is told of another heap's, before it reads anything.
#[test]
fn what_belongs_to_another_heap_is_refused() {
    let shape = Structure {
        references: 0,
        bytes: 8,
    };
    let [own, other] = [(); 2].map(|()| Heap::builder().limit(1 << 20).build().unwrap());
    let of = other.structure(shape).unwrap();
    let (handle, weak, ephemeron) = other.attach().unwrap().scope(|scope| {
        let object = node(scope, of, 7);
        (
            scope.handle(object).unwrap(),
            scope.weak(object).unwrap(),
            scope.ephemeron(object, object).unwrap(),
        )
    });
    type Look<'a> = &'a dyn Fn(&mut Scope<'_>);
    let looks: [Look<'_>; 4] = [
        &|scope| _ = scope.open(&handle),
        &|scope| _ = scope.upgrade(&weak),
        &|scope| _ = scope.key(&ephemeron),
        &|scope| _ = scope.value_of(&ephemeron),
    ];
    for look in looks {
        other.attach().unwrap().scope(|scope| look(scope));
        let mut mutator = own.attach().unwrap();
        let refused = catch_unwind(AssertUnwindSafe(|| mutator.scope(|scope| look(scope))));
        let said = refused.unwrap_err();
        assert_eq!(
            said.downcast_ref::<&str>(),
            Some(&"a handle of another heap")
        );
    }
}
