//! What a heap asks the system for, and what it says when it gets none. A process of its own for each, since the limits
//! and counts are those of the process.

use std::process::Command;

use gleaner::{Heap, References};

unsafe extern "C" {
    fn setrlimit(which: i32, limit: &[u64; 2]) -> i32;
}

const DATA: i32 = 2;
const ADDRESSES: i32 = 9;

/// A count of this process in bytes, such as `VmData`.
fn count(label: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(label));
    let kib = line.unwrap().trim_start_matches(':').trim_end_matches("kB");
    kib.trim().parse::<usize>().unwrap() << 10
}

/// Runs this test again in a process of its own, which is left in `body`.
fn alone(name: &str, body: impl FnOnce()) {
    const VARIABLE: &str = "GLEANER_ALONE";
    if std::env::var(VARIABLE).is_ok_and(|one| one == name) {
        return body();
    }
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(VARIABLE, name)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn a_heap_of_1_mb_takes_less_than_32_mb_of_addresses() {
    alone("a_heap_of_1_mb_takes_less_than_32_mb_of_addresses", || {
        for references in [References::Wide, References::Compressed] {
            let before = count("VmSize");
            let builder = Heap::builder().limit(1 << 20).references(references);
            let heap = builder.build().unwrap();
            let mutator = heap.attach().unwrap();
            let more = count("VmSize") - before;
            println!("{references:?}: {} KB", more >> 10);
            assert!(more < 32 << 20, "{references:?}: {} KB", more >> 10);
            drop(mutator);
        }
    });
}

#[test]
fn a_heap_of_1_mb_has_a_type_for_each_of_its_smallest_objects() {
    let heap = Heap::builder().limit(1 << 20).workers(1).build().unwrap();
    let made = (0..1 << 20).take_while(|_| heap.array(gleaner::Elements::Bytes).is_ok());
    // Two are the collector's own.
    assert_eq!(made.count(), (1 << 20) / 16 - 2);
    let refused = heap.array(gleaner::Elements::Bytes).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("one for each 16 bytes of its limit"),
        "{refused}"
    );
}

#[test]
fn tables_of_handles_and_types_are_no_data_before_they_are_used() {
    alone(
        "tables_of_handles_and_types_are_no_data_before_they_are_used",
        || {
            let before = count("VmData");
            let heap = Heap::builder().limit(4 << 20).workers(1).build().unwrap();
            let more = count("VmData") - before;
            assert!(more < 40 << 20, "{} KB", more >> 10);
            // And they are there when they are.
            let bytes = heap.array(gleaner::Elements::Bytes).unwrap();
            heap.attach().unwrap().scope(|scope| {
                let object = scope.allocate_array(bytes, 8).unwrap();
                let handles: Vec<_> = (0..100_000)
                    .map(|_| scope.handle(object).unwrap())
                    .collect();
                scope.collect(true);
                for handle in &handles {
                    let other = scope.open(handle);
                    assert!(scope.same(object, other));
                    scope.nested(|_| ());
                }
            });
            for _ in 0..5000 {
                heap.array(gleaner::Elements::Bytes).unwrap();
            }
        },
    );
}

fn message_under(which: i32, more: usize) -> String {
    let label = if which == DATA { "VmData" } else { "VmSize" };
    let limit = (count(label) + more) as u64;
    // SAFETY: this process is the test's own.
    assert_eq!(unsafe { setrlimit(which, &[limit, limit]) }, 0);
    let refused = Heap::builder().limit(64 << 20).workers(2).build();
    refused.unwrap_err().to_string()
}

#[test]
fn the_limit_on_addresses_is_named() {
    alone("the_limit_on_addresses_is_named", || {
        let said = message_under(ADDRESSES, 40 << 20);
        assert!(
            said.contains("(RLIMIT_AS): raise the limit with ulimit -v"),
            "{said}"
        );
    });
}

#[test]
fn the_limit_is_named_whatever_it_refuses() {
    alone("the_limit_is_named_whatever_it_refuses", || {
        let mut refused = Vec::new();
        let now = count("VmSize");
        for more in (1..200).map(|step| step << 21) {
            let limit = [(now + more) as u64, u64::MAX];
            // SAFETY: this process is the test's own.
            assert_eq!(unsafe { setrlimit(ADDRESSES, &limit) }, 0);
            match Heap::builder().limit(32 << 20).workers(8).build() {
                Ok(_) => break,
                Err(error) => refused.push(error.to_string()),
            }
        }
        for said in &refused {
            assert!(
                said.contains("(RLIMIT_AS): raise the limit with ulimit -v"),
                "{said}"
            );
        }
        refused.dedup();
        assert!(refused.len() > 2, "too few places: {refused:?}");
    });
}

#[test]
fn the_limit_on_data_is_named() {
    alone("the_limit_on_data_is_named", || {
        let said = message_under(DATA, 20 << 20);
        assert!(
            said.contains("(RLIMIT_DATA): raise the limit with ulimit -d"),
            "{said}"
        );
    });
}

/// So many bytes of arrays of 1 MB a heap with this limit holds.
fn most_of_arrays(limit: usize) -> usize {
    let heap = Heap::builder().limit(limit).workers(1).build().unwrap();
    let (bytes, list) = (
        heap.array(gleaner::Elements::Bytes).unwrap(),
        heap.reference_array().unwrap(),
    );
    heap.attach().unwrap().scope(|scope| {
        let kept = scope.allocate_references(list, 3000).unwrap();
        (0..3000)
            .take_while(|&index| {
                scope.nested(|scope| {
                    let array = scope.allocate_array(bytes, 1 << 20);
                    array.is_ok_and(|array| scope.set(kept, index, array).is_ok())
                })
            })
            .count()
            << 20
    })
}

#[test]
fn a_heap_without_a_limit_of_its_own_fits_the_addresses() {
    alone(
        "a_heap_without_a_limit_of_its_own_fits_the_addresses",
        || {
            let limit = [(count("VmSize") + (600 << 20)) as u64, u64::MAX];
            // SAFETY: this process is the test's own.
            assert_eq!(unsafe { setrlimit(ADDRESSES, &limit) }, 0);
            let heap = Heap::builder().workers(1).build().unwrap();
            let bytes = heap.array(gleaner::Elements::Bytes).unwrap();
            heap.attach().unwrap().scope(|scope| {
                for _ in 0..100 {
                    scope
                        .nested(|scope| scope.allocate_array(bytes, 20 << 20).map(|_| ()))
                        .unwrap();
                }
            });
        },
    );
}

#[test]
fn where_addresses_are_limited_a_larger_heap_holds_more() {
    alone(
        "where_addresses_are_limited_a_larger_heap_holds_more",
        || {
            let limit = [(count("VmSize") + (1150 << 20)) as u64, u64::MAX];
            // SAFETY: this process is the test's own.
            assert_eq!(unsafe { setrlimit(ADDRESSES, &limit) }, 0);
            for limit in [100, 150, 200, 205, 230, 256, 300, 350].map(|mb| mb << 20) {
                let held = most_of_arrays(limit);
                assert!(held > limit - limit / 20, "{held} of {limit}");
            }
            // More than what large objects may take yet is left.
            let _heap = Heap::builder().limit(200 << 20).build().unwrap();
            assert!(limit[0] as usize - count("VmSize") > 350 << 20);
        },
    );
}

/// Prints a table: `cargo test -p gleaner --release --test addresses -- --ignored --nocapture table`. Without a limit of the
/// heap's own that is met, what is left to the program beside a heap of a quarter of the addresses, and the largest heap
/// that large objects may fill.
#[test]
#[ignore = "a measurement"]
fn table_of_what_fits() {
    for left in [300usize, 600, 1200, 2400] {
        let mut fits = 0;
        for limit in (left / 20..left).step_by(left / 40) {
            let name = format!("{left}-{limit}");
            let done = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "one_row",
                    "--ignored",
                    "--nocapture",
                    "--test-threads=1",
                ])
                .env("GLEANER_ROW", &name)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&done.stdout).into_owned();
            let row = said.lines().find_map(|line| line.split("fits: ").nth(1));
            let row: Vec<usize> = row
                .map(|row| row.split(' ').map(|word| word.parse().unwrap()).collect())
                .unwrap_or_default();
            if let [held, free] = row[..] {
                if held > limit - limit / 20 {
                    fits = limit;
                }
                if limit == left / 20 + 8 * (left / 40) {
                    println!("{left} MB: a heap of {limit} MB leaves {free} MB");
                }
            }
        }
        println!("{left} MB: large objects fill a heap of {fits} MB");
    }
}

#[test]
#[ignore = "a part of the table"]
fn one_row() {
    let Ok(row) = std::env::var("GLEANER_ROW") else {
        return;
    };
    let (left, limit) = row.split_once('-').unwrap();
    let [left, limit] = [left, limit].map(|mb| mb.parse::<usize>().unwrap() << 20);
    let most = count("VmSize") + left;
    // SAFETY: this process is the test's own.
    assert_eq!(unsafe { setrlimit(ADDRESSES, &[most as u64, u64::MAX]) }, 0);
    let free = match Heap::builder().limit(limit).workers(2).build() {
        Ok(_heap) => most - count("VmSize"),
        Err(_) => return,
    };
    println!("fits: {} {}", most_of_arrays(limit) >> 20, free >> 20);
}
