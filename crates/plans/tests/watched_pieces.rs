//! A heap under an address limit whose pages the kernel watches. The limit holds for the whole process: hence a program of
//! its own.

#![cfg(not(loom))]

mod harness;

use core::ffi::c_int;

use gleaner_base::events::Phase;
use gleaner_mem::Address;
use gleaner_plans::mark_sweep::collect::Outcome;
use gleaner_spaces::mark_sweep::kinds::NORMAL;
use harness::Bench;

unsafe extern "C" {
    fn getrlimit(resource: c_int, limits: *mut [u64; 2]) -> c_int;
    fn setrlimit(resource: c_int, limits: *const [u64; 2]) -> c_int;
}
const RLIMIT_AS: c_int = 9;

const OBJECTS: usize = 20_000;

fn limit_addresses(bytes: u64) {
    let mut limits = [0; 2];
    // SAFETY: a place for two numbers.
    assert_eq!(unsafe { getrlimit(RLIMIT_AS, &mut limits) }, 0);
    limits[0] = limits[0].min(bytes);
    // SAFETY: two numbers.
    assert_eq!(unsafe { setrlimit(RLIMIT_AS, &limits) }, 0);
}

fn store(object: Address, word: usize, value: usize) {
    // SAFETY: an object of the test, and `word` is inside it.
    unsafe { object.add(word * 8).store(value) };
}

/// An object that lives, outside of which nothing keeps it.
fn hidden(bench: &mut Bench, holder: Address, word: usize, bytes: usize) -> usize {
    let object = bench.allocate(NORMAL, bytes).unwrap();
    store(holder, word, object.word());
    !object.word()
}

/// A collection of new objects, which finds an object that an old one was made to refer to.
fn collect_new(bench: &mut Bench, old: Address) {
    let young = hidden(bench, old, 1, 24);
    store(Address::new(!young), 0, 77);
    assert_eq!(bench.collect_new("new"), Outcome::Done);
    bench.verify_collected();
    let event = *bench.events(Phase::Written).last().expect("a question");
    assert!(event.reason.starts_with("new objects"), "{}", event.reason);
    // The old object's page, and few of the others.
    assert!((1..200).contains(&event.objects), "{}", event.objects);
    // SAFETY: the object lives.
    assert_eq!(unsafe { Address::new(!young).load() }, 77);
    assert!(bench.heap.space.written.is_some());
}

/// Small and large blocks are mapped piece by piece after the watch began; so they are watched piece by piece.
#[test]
fn what_is_mapped_later_is_watched() {
    limit_addresses(2 << 30);
    let mut bench = Bench::new("generations=sticky,stress=1000000,verify=edges,reserve=2g");
    assert!(bench.heap.space.layout.is_in_pieces());
    if let Some(unavailable) = bench.heap.unwatched {
        assert!(
            !unavailable.to_string().contains("(error 22)"),
            "{unavailable}"
        );
        eprintln!("not tested: {unavailable}");
        return;
    }
    let all = bench.allocate(NORMAL, OBJECTS * 8).unwrap();
    bench.keep(all);
    let mut pieces = bench.heap.space.layout.pieces();
    for round in 0..4 {
        let objects = round * (OBJECTS / 4)..(round + 1) * (OBJECTS / 4);
        let hidden: Vec<_> = objects
            .map(|number| {
                let bytes = if number % 100 == 0 { 20_000 } else { 200 };
                hidden(&mut bench, all, number, bytes)
            })
            .collect();
        let mapped = bench.heap.space.layout.pieces();
        assert!(mapped > pieces, "the heap has grown");
        pieces = mapped;
        bench.collect();
        // Old objects are not handed out since, and nobody writes them.
        assert_eq!(bench.collect_new("new"), Outcome::Done);
        for number in [0, 1] {
            collect_new(&mut bench, Address::new(!hidden[number]));
        }
    }
}

/// Addresses that went back before the watch began are not watched, and are when they are mapped anew.
#[test]
fn a_watch_begins_in_a_heap_with_holes() {
    limit_addresses(2 << 30);
    let mut bench = Bench::new("generations=asked,stress=1000000,verify=edges,reserve=2g");
    assert!(bench.heap.space.layout.is_in_pieces());
    let all = bench.allocate(NORMAL, 200 * 8).unwrap();
    bench.keep(all);
    let make = |bench: &mut Bench, bytes| {
        for number in 0..4000 {
            let object = hidden(bench, all, number % 200, bytes);
            if number < 200 {
                assert_ne!(object, 0);
            }
        }
    };
    make(&mut bench, 4000);
    make(&mut bench, 20_000);
    bench.collect();
    assert!(bench.heap.space.give_back_between(), "there are holes");
    match bench.heap.enable_incremental() {
        Ok(is_watched) => assert!(is_watched),
        Err(unavailable) => {
            assert!(
                !unavailable.to_string().contains("(error 22)"),
                "{unavailable}"
            );
            eprintln!("not tested: {unavailable}");
            return;
        }
    }
    bench.collect();
    assert!(bench.heap.space.written.is_some());
    make(&mut bench, 4000);
    make(&mut bench, 20_000);
    bench.collect();
    assert_eq!(bench.collect_new("new"), Outcome::Done); // Its question is the first about these objects.
    // SAFETY: the array lives, and its first word is a reference.
    let old = Address::new(unsafe { all.load() });
    collect_new(&mut bench, old);
}
