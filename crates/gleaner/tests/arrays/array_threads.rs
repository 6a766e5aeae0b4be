//! Mutators that race for the elements of shared arrays, under every way to cut arrays: no store is lost, swaps add up, and
//! a thread that reads finds what was there before or what was written. There are more mutators than processors, and
//! collections in between.
//!
//! Each case runs in a child. A failure says how to repeat it; which one of the racing threads is faster, no seed says.
//! `GLEANER_ARRAY_RACES` is how many seeds there are for each set of options.

mod copies;
mod erasers;
mod owners;
mod readers;
mod shared;
mod shrinkers;
mod swaps;
mod together;

use crate::again::path;
use crate::cases::in_a_child;
use readers::Copies;
use shared::Case;

/// How arrays are cut, and what else differs: each has a seed of its own.
const OPTIONS: [&str; 19] = [
    "arrays=contiguous,workers=3,stress=60,verify=edges",
    "arrays=zray,first-n=64,arraylet=256,workers=1",
    "arrays=zray,first-n=64,arraylet=256,workers=3,refs=compressed,verify=edges,poison=on",
    "arrays=zray,first-n=64,arraylet=1024,stress=40,poison=on,verify=edges,tenure=0",
    "arrays=zray,first-n=64,arraylet=4096,refs=compressed,old=mark-sweep,stress=64,workers=3",
    "arrays=zray,refs=compressed,stress=30,poison=on",
    "arrays=zray,first-n=64,arraylet=256,zero-compression=off,fast-copy=off,stress=50,verify=edges",
    "arrays=zray,first-n=64,arraylet=256,old=mark-sweep,quarantine=2,stress=200",
    "arrays=zray,first-n=64,arraylet=512,refs=compressed,zeroing=concurrent,young=1m,tlab=64,stress=70",
    "arrays=zray,first-n=64,arraylet=256,plan=naps,topology=node:4 core:2,stress=90,workers=3,poison=on",
    "arrays=perf-zray,first-n=128,stress=35,generations=never,verify=edges",
    "arrays=zray,first-n=64,array-kinds=references,stress=40,poison=on",
    "arrays=zray,first-n=64,array-kinds=primitives,refs=compressed,stress=40,poison=on",
    "arrays=naive,stress=80,workers=3,poison=on,verify=edges",
    "arrays=zray,first-n=64,arraylet=256,array-guard=on,stress=70,workers=3,poison=on,verify=edges",
    "arrays=naive-a,refs=compressed,stress=50,verify=edges,poison=on",
    "arrays=naive-b,copy-on-write=on,old=mark-sweep,stress=60",
    "arrays=zray,first-n=64,arraylet=256,old=mark-region,stress=40,workers=3,verify=edges,poison=on",
    "arrays=contiguous,refs=compressed,old=mark-region,stress=50,workers=3,verify=edges,poison=on",
];

/// A test with this name, for all of them.
fn all(test: &str, body: impl Fn(&Case)) {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let more = (2 * processors + 1).min(12);
    let runs = std::env::var("GLEANER_ARRAY_RACES").map_or(1, |runs| runs.parse().unwrap());
    let line = |seed: usize| {
        let (threads, options) = ([more, 2, 3][seed % 3], OPTIONS[seed % OPTIONS.len()]);
        format!("seed={seed} threads={threads} options={options}")
    };
    let lines: Vec<String> = (0..runs * OPTIONS.len()).map(line).collect();
    in_a_child(&path(module_path!(), test), &lines, |line| {
        body(&Case::parse(line))
    });
}

#[test]
fn no_number_is_lost_by_threads_that_write_one_part_at_the_same_time() {
    let test = "no_number_is_lost_by_threads_that_write_one_part_at_the_same_time";
    all(test, together::numbers);
}

#[test]
fn no_reference_is_lost_by_threads_that_write_one_part_at_the_same_time() {
    let test = "no_reference_is_lost_by_threads_that_write_one_part_at_the_same_time";
    all(test, together::references);
}

#[test]
fn no_number_of_its_owner_is_lost() {
    all("no_number_of_its_owner_is_lost", |case| {
        owners::numbers::<u8>(case);
        owners::numbers::<u16>(case);
        owners::numbers::<u32>(case);
        owners::numbers::<u64>(case);
    });
}

#[test]
fn no_reference_of_its_owner_is_lost() {
    all("no_reference_of_its_owner_is_lost", owners::references);
}

/// All arraylets are shared by several arrays when the threads begin to write them.
#[test]
fn writers_of_shared_arraylets_get_their_own() {
    all("writers_of_shared_arraylets_get_their_own", |case| {
        owners::copies_of_numbers(case);
        owners::copies_of_references(case);
    });
}

#[test]
fn swaps_of_numbers_add_up() {
    all("swaps_of_numbers_add_up", |case| {
        swaps::numbers::<u8>(case);
        swaps::numbers::<u16>(case);
        swaps::numbers::<u32>(case);
        swaps::numbers::<u64>(case);
    });
}

#[test]
fn swaps_of_references_add_up() {
    all("swaps_of_references_add_up", |case| {
        swaps::immediates(case);
        swaps::lists(case);
    });
}

/// What threads read that race with others.
fn read_numbers(case: &Case, copies: Copies) {
    readers::numbers::<u8>(case, copies);
    readers::numbers::<u16>(case, copies);
    readers::numbers::<u32>(case, copies);
    readers::numbers::<u64>(case, copies);
}

#[test]
fn readers_find_a_number_that_was_or_is_there() {
    all("readers_find_a_number_that_was_or_is_there", |case| {
        read_numbers(case, Copies::None);
    });
}

/// The safe layer copies each number as a whole where others may use them.
#[test]
fn readers_find_a_number_that_was_or_is_there_while_it_is_copied_over() {
    let test = "readers_find_a_number_that_was_or_is_there_while_it_is_copied_over";
    all(test, |case| read_numbers(case, Copies::Into));
}

#[test]
fn copies_have_a_number_that_was_or_is_there() {
    let test = "copies_have_a_number_that_was_or_is_there";
    all(test, |case| read_numbers(case, Copies::From));
}

#[test]
fn readers_find_a_reference_that_was_or_is_there() {
    let test = "readers_find_a_reference_that_was_or_is_there";
    all(test, |case| readers::references(case, Copies::None));
}

#[test]
fn readers_find_a_reference_that_was_or_is_there_while_it_is_copied_over() {
    let test = "readers_find_a_reference_that_was_or_is_there_while_it_is_copied_over";
    all(test, |case| readers::references(case, Copies::Into));
}

#[test]
fn copies_have_a_reference_that_was_or_is_there() {
    let test = "copies_have_a_reference_that_was_or_is_there";
    all(test, |case| readers::references(case, Copies::From));
}

#[test]
fn readers_find_a_number_that_was_or_is_there_in_a_new_copy() {
    let test = "readers_find_a_number_that_was_or_is_there_in_a_new_copy";
    all(test, readers::fresh);
}

#[test]
fn copies_of_what_others_write_stay_what_they_were() {
    let test = "copies_of_what_others_write_stay_what_they_were";
    all(test, copies::of_what_is_written);
}

/// One run per seed, of which the options are those of the test.
#[test]
fn threads_that_copy_from_each_other_leave_what_arrays_in_one_piece_do() {
    let test = "threads_that_copy_from_each_other_leave_what_arrays_in_one_piece_do";
    all(test, copies::leave_the_same);
}

#[test]
fn an_array_shrinks_while_others_use_what_is_left() {
    let test = "an_array_shrinks_while_others_use_what_is_left";
    all(test, shrinkers::numbers);
}

#[test]
fn an_array_is_filled_with_nulls_while_others_copy_to_it() {
    let test = "an_array_is_filled_with_nulls_while_others_copy_to_it";
    all(test, erasers::fill);
}

#[test]
fn nulls_are_copied_to_an_array_while_others_copy_to_it() {
    let test = "nulls_are_copied_to_an_array_while_others_copy_to_it";
    all(test, erasers::copy_nulls);
}
