//! How many workers take part in a collection under `crew=auto` and `crew=all`, as the events tell.

use std::sync::{Arc, Mutex};

use gleaner::{Builder, Crew, Event, Heap, OutOfMemory, Phase, Structure};

/// Lists that live through a scavenge or two come and go; gives the phases of all collections that are `phase`.
fn phases_of(builder: Builder, phase: Phase, lists: usize) -> Vec<Event> {
    let heap = builder.limit(16 << 20).build().unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let listened = told.clone();
    heap.add_listener(move |event| {
        if event.phase == phase {
            listened.lock().unwrap().push(*event);
        }
    });
    let node = heap
        .structure(Structure {
            references: 1,
            bytes: 24,
        })
        .unwrap();
    heap.attach().unwrap().scope(|scope| {
        for _ in 0..lists {
            scope
                .nested(|scope| {
                    let mut last = scope.allocate(node)?;
                    for _ in 0..40_000 {
                        let next = scope.allocate(node)?;
                        scope.set(next, 0, last)?;
                        last = next;
                    }
                    Ok::<(), OutOfMemory>(())
                })
                .unwrap();
        }
    });
    drop(heap);
    let told = told.lock().unwrap();
    told.clone()
}

fn workers(events: &[Event]) -> Vec<u32> {
    assert!(events.len() > 10, "{} collections", events.len());
    events.iter().map(|event| event.workers).collect()
}

#[test]
fn all_take_part_where_all_are_to() {
    let builder = Heap::builder().workers(5).crew(Crew::All);
    let events = phases_of(builder, Phase::Copy, 100);
    assert!(workers(&events).iter().all(|&workers| workers == 5));
    assert!(events.iter().all(|event| event.reason == "as configured"));
}

#[test]
fn no_more_take_part_than_there_are_processors() {
    let builder = Heap::builder()
        .options("topology=node:1 core:2,workers=8")
        .unwrap();
    let events = phases_of(builder, Phase::Copy, 100);
    let workers = workers(&events);
    assert_eq!(workers[0], 2);
    assert!(workers.iter().all(|&workers| (1..=2).contains(&workers)));
    // One alone is tried after some collections.
    let tried = events.iter().find(|event| event.reason == "a trial");
    assert_eq!(tried.map(|event| event.workers), Some(1), "{events:?}");
}

#[test]
fn no_more_take_part_than_there_may_be() {
    let list = "topology=node:1 core:8,workers=3";
    for (more, phase) in [
        (",old=mark-sweep,generations=never", Phase::Mark),
        (",old=mark-region,generations=never", Phase::Mark),
        ("", Phase::Copy),
    ] {
        let builder = Heap::builder().options(&format!("{list}{more}")).unwrap();
        let workers = workers(&phases_of(builder, phase, 100));
        assert_eq!(workers[0], 3);
        assert!(workers.iter().all(|&workers| (1..=3).contains(&workers)));
        assert!(workers.contains(&2), "the next smaller number is tried");
    }
}

/// Nobody is woken where one is enough.
#[test]
fn who_takes_no_part_sleeps() {
    let list = "topology=node:1 core:1,workers=4,limit=16m";
    let list = list.replace("limit", "heap-limit");
    for (crew, sleeps) in [(Crew::Auto, true), (Crew::All, false)] {
        let heap = Heap::builder().options(&list).unwrap().crew(crew);
        let heap = heap.build().unwrap();
        let mut mutator = heap.attach().unwrap();
        let mut collections = 0;
        while collections < 1000 && heap.synchronisation().wakeups == 0 {
            mutator.collect(collections % 2 == 1);
            // A helper that has not gone to sleep yet is not woken.
            std::thread::sleep(std::time::Duration::from_micros(200));
            collections += 1;
        }
        let synchronisation = heap.synchronisation();
        assert_eq!(synchronisation.wakeups == 0, sleeps, "{synchronisation:?}");
    }
}

/// Each of them holds what is another's.
#[test]
fn all_take_part_in_segregated_spaces() {
    let list = "topology=node:2 core:1,workers=4,plan=naps,pages=segregated";
    let builder = Heap::builder().options(list).unwrap();
    let events = phases_of(builder, Phase::Copy, 100);
    assert!(workers(&events).iter().all(|&workers| workers == 4));
}
