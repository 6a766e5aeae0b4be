//! Guard mode: a raw access to an array in pieces ends the process with a report, on every form of heap and whatever
//! collections the array has survived; accesses through the accessors do not. (tests/capi/guard.c makes raw accesses in
//! C, and `array_programs` all others.)

use crate::again::path;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use gleaner::raw::{
    Address, Arrays, CutArrays, Fresh, In, NewObject, Shape, TypeId, Value, Wide, array_bytes,
};
use gleaner::{Heap, Mutator, References};

/// What a child does.
const CASE: &str = "GLEANER_GUARD_CASE";
/// What it prints before.
const PLACE: &str = "place: ";

fn heap(options: &str) -> Heap {
    Heap::builder().options(options).unwrap().build().unwrap()
}

/// How arrays are cut, of heaps in which raw accesses are made.
const HEAPS: [&str; 8] = [
    "arrays=zray,first-n=64,arraylet=256",
    "arrays=zray,refs=compressed",
    "arrays=perf-zray,old=mark-sweep,arraylet=4096",
    "arrays=naive,refs=compressed,old=mark-sweep",
    "arrays=naive-b,generations=never",
    "arrays=zray,poison=on,quarantine=2",
    "arrays=naive-a,resize=off,poison=on,refs=compressed",
    "arrays=zray,array-kinds=references,lazy-arraylets=off",
];

fn options(cut: &str) -> String {
    format!("{cut},array-guard=on,heap-limit=16m,workers=2,verify=edges")
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    References,
    Numbers,
}

const LENGTH: u32 = 5003;

fn element_bytes(heap: &Heap, kind: Kind) -> usize {
    match (kind, heap.references()) {
        (Kind::References, References::Compressed) => 4,
        (Kind::References, References::Wide) => 8,
        (Kind::Numbers, _) => 2,
    }
}

fn array_type(heap: &Heap, kind: Kind) -> TypeId {
    let shape = match kind {
        Kind::References => Shape::References,
        Kind::Numbers => Shape::Primitives { log2: 1 },
    };
    heap.register_raw(shape).unwrap()
}

fn allocate(mutator: &mut Mutator, id: TypeId, length: u32, element: usize) -> Address {
    let bytes = array_bytes(length, element.trailing_zeros());
    // SAFETY: a type of this heap, with elements of so many bytes; no other reference is held outside of a root.
    unsafe { mutator.allocate_raw(NewObject::array(id, length, bytes), Fresh::Zeroed) }.unwrap()
}

/// Stores and loads elements at the ends of all pieces.
fn use_elements(mutator: &mut Mutator, array: Address, kind: Kind) -> Address {
    // SAFETY: an array of such elements, which has so many; it is in a root while something may collect.
    unsafe {
        let with = |mutator: &mut Mutator, [array]: &[std::cell::Cell<Value>; 1]| {
            let at = |value: &std::cell::Cell<Value>| Address::new(value.get().bits() as usize);
            for index in (0..LENGTH as usize).step_by(61).chain([5002]) {
                match kind {
                    Kind::References => {
                        let value = Value::reference(at(array));
                        mutator.store_element_raw(at(array), index, value).unwrap();
                        let now = mutator.load_element_raw(at(array), index);
                        assert_eq!(now, Value::reference(at(array)));
                    }
                    Kind::Numbers => {
                        let number = index as u16 + 1;
                        mutator
                            .store_element_in::<u16>(at(array), index, number)
                            .unwrap();
                        assert_eq!(mutator.load_element_in::<u16>(at(array), index), number);
                    }
                }
            }
            at(array)
        };
        mutator.with_roots([Value::reference(array)], with)
    }
}

/// What a raw access does: `history` is which collections the array survives, by letters.
fn make_access(case: &str) {
    let fields: Vec<&str> = case.split(' ').collect();
    let [cut, kind, history, access, index] = fields[..] else {
        panic!("no case: {case}");
    };
    let heap = heap(&options(cut));
    assert_eq!(heap.fast_paths().arrays, Arrays::Guarded);
    assert_eq!(heap.fast_paths().first_n, 0);
    let kind = if kind == "references" {
        Kind::References
    } else {
        Kind::Numbers
    };
    let (id, index) = (array_type(&heap, kind), index.parse::<usize>().unwrap());
    let element = element_bytes(&heap, kind);
    let mut mutator = heap.attach().unwrap();
    let array = allocate(&mut mutator, id, LENGTH, element);
    let array = use_elements(&mut mutator, array, kind);
    let collect = |mutator: &mut Mutator, [array]: &[std::cell::Cell<Value>; 1]| {
        for everything in history.chars().map(|letter| letter == 'f') {
            // Garbage on both sides, which dies.
            let pieces = allocate(mutator, id, LENGTH, element);
            assert_ne!(Value::reference(pieces), array.get());
            mutator.collect(everything);
        }
        Address::new(array.get().bits() as usize)
    };
    // SAFETY: the array is valid, and nothing else is used again.
    let array = unsafe { mutator.with_roots([Value::reference(array)], collect) };
    let array = use_elements(&mut mutator, array, kind);
    let at = array.word() + 16 + index * element;
    let function: unsafe fn(*mut u8) = if access == "write" { write } else { read };
    println!(
        "{PLACE}{:#x} {} {element} {:#x}",
        array.word(),
        id.get(),
        function as usize
    );
    // SAFETY: it is not sound: this is the mistake that is to be reported.
    unsafe { function(at as *mut u8) };
}

#[inline(never)]
unsafe fn write(at: *mut u8) {
    // SAFETY: the caller's mistake.
    unsafe { at.write_volatile(1) };
}

#[inline(never)]
unsafe fn read(at: *mut u8) {
    // SAFETY: the caller's mistake.
    unsafe { at.read_volatile() };
}

/// Runs one test of this file in a child, with this case.
fn child(test: &str, case: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &path(module_path!(), test)]);
    command.args(["--nocapture", "--test-threads=1"]);
    command.env(CASE, case).env_remove("GLEANER_OPTIONS");
    command.output().unwrap()
}

#[test]
fn a_raw_access_is_reported() {
    let this = "a_raw_access_is_reported";
    if let Ok(case) = std::env::var(CASE) {
        return make_access(&case);
    }
    let histories = ["", "y", "yyy", "f", "yf", "fyff"];
    for (number, cut) in HEAPS.iter().enumerate() {
        for kind in ["references", "numbers"] {
            if kind == "numbers" && cut.contains("array-kinds=references") {
                continue;
            }
            for (turn, index) in [0, 1, 700, 5002, 5003].into_iter().enumerate() {
                let access = ["write", "read"][(number + turn) % 2];
                let history = histories[(number + turn) % histories.len()];
                let case = format!("{cut} {kind} {history} {access} {index}");
                let case = case.replace("  ", " - ");
                check_report(&child(this, &case), &case);
            }
        }
    }
}

fn check_report(output: &Output, case: &str) {
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    let all = format!("{case}\n{said}\n{error}\n{}", output.status);
    assert_eq!(output.status.signal(), Some(11), "{all}");
    let place = said
        .lines()
        .find_map(|line| line.split_once(PLACE))
        .unwrap()
        .1;
    let place: Vec<&str> = place.split(' ').collect();
    let [array, id, element, function] = place[..] else {
        panic!("{all}");
    };
    let fields: Vec<&str> = case.split(' ').collect();
    let (kind, access, index) = (fields[1], fields[3], fields[4].parse::<usize>().unwrap());
    let way = if access == "write" {
        "write to"
    } else {
        "read of"
    };
    let plural = if element == "1" { "" } else { "s" };
    let offset = index * element.parse::<usize>().unwrap();
    let behind = if index < LENGTH as usize {
        ""
    } else {
        ", behind its last element"
    };
    let expected = format!(
        "gleaner: a raw {way} an array in pieces (array-guard=on): array at {array}, type {id} ({kind} of {element} \
         byte{plural}), length {LENGTH}, index {index} (offset {offset}){behind}, accessed by 0x"
    );
    let (_, rest) = error
        .split_once(&expected)
        .unwrap_or_else(|| panic!("no {expected}\n{all}"));
    let digits: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
    let instruction = usize::from_str_radix(&digits, 16).unwrap();
    let function = usize::from_str_radix(function.trim_start_matches("0x"), 16).unwrap();
    assert!((function..function + 64).contains(&instruction), "{all}");
    let program = std::env::current_exe().unwrap();
    let program = program.file_name().unwrap().to_str().unwrap();
    assert!(
        rest.contains(&format!("/{program}+0x")),
        "the file of the instruction: {all}"
    );
    assert!(rest.contains("\nlast events:\n"), "{all}");
    if fields[2] != "-" {
        assert!(rest.contains("end"), "{all}");
    }
}

/// Where no access is possible, by whom a system call would read.
fn is_fenced(array: Address, bytes: usize) -> bool {
    let first = array.word() + 16;
    assert!(first.is_multiple_of(4096));
    (first..first + bytes)
        .step_by(4096)
        .all(|page| gleaner_os::memory::readable_end(page, page + 1) == page)
}

#[test]
fn a_fence_lies_behind_an_array_as_long_as_it_lives() {
    for cut in HEAPS {
        let heap = heap(&options(cut));
        let id = array_type(&heap, Kind::References);
        let element = element_bytes(&heap, Kind::References);
        let bytes = LENGTH as usize * element;
        let mut mutator = heap.attach().unwrap();
        let array = allocate(&mut mutator, id, LENGTH, element);
        assert!(is_fenced(array, bytes), "{cut}");
        let body = |mutator: &mut Mutator, [root]: &[std::cell::Cell<Value>; 1]| {
            for number in 0..40 {
                let other = allocate(mutator, id, LENGTH, element);
                assert!(is_fenced(other, bytes) && is_fenced(array, bytes));
                mutator.collect(number % 3 == 2);
                assert_eq!(root.get(), Value::reference(array), "it never moves");
                assert!(is_fenced(array, bytes), "{cut}");
            }
        };
        // SAFETY: the array is valid, and it is used in the root alone.
        unsafe { mutator.with_roots([Value::reference(array)], body) };
        // It dies: what lies there later is another array, or nothing; the pages can be used.
        mutator.collect(true);
        mutator.collect(true);
        assert!(!is_fenced(array, bytes), "{cut}");
    }
}

#[test]
fn arrays_that_are_not_cut_are_as_they_were() {
    let heap = heap("arrays=zray,array-guard=on,heap-limit=16m");
    assert_eq!(heap.cut_arrays(), Some((0, 1024)));
    assert!(!heap.cuts_all_arrays());
    assert_eq!(heap.fast_paths().whole_bytes, 16 + 4096);
    let id = array_type(&heap, Kind::Numbers);
    let whole = heap
        .register_whole_raw(Shape::Primitives { log2: 1 })
        .unwrap();
    let mut mutator = heap.attach().unwrap();
    for (id, length, is_cut) in [(id, 2048, false), (id, 2049, true), (whole, 9000, false)] {
        let array = allocate(&mut mutator, id, length, 2);
        assert_eq!(mutator.is_cut(array), is_cut);
        if !is_cut {
            // SAFETY: an array in one piece, which has this element, and which nothing has moved since.
            unsafe {
                let at = Address::new(array.word() + 16 + 2 * (length as usize - 1));
                at.ptr::<u16>().write(7);
                let index = length as usize - 1;
                assert_eq!(mutator.load_element_in::<u16>(array, index), 7);
            }
        }
    }
}

/// Code that is compiled for arrays of which nothing lies in the spine is for guard mode, too.
#[test]
fn code_for_naive_arrays_finds_their_elements() {
    type Compiled = In<CutArrays<Wide, 0, 1024>, u16>;
    let heap = heap("arrays=naive,array-guard=on,heap-limit=16m,verify=edges");
    assert!(heap.cuts_all_arrays());
    let id = array_type(&heap, Kind::Numbers);
    let mut mutator = heap.attach().unwrap();
    let array = allocate(&mut mutator, id, LENGTH, 2);
    // SAFETY: an array of such numbers; naive arrays have all arraylets, so a store collects nothing.
    unsafe {
        for index in 0..LENGTH as usize {
            let stored = mutator.store_element_in::<Compiled>(array, index, index as u16);
            stored.unwrap();
        }
        for (index, number) in mutator.cursor::<u16>(array, 0, LENGTH as usize).enumerate() {
            assert_eq!(usize::from(number), index);
            assert_eq!(mutator.load_element_in::<Compiled>(array, index), number);
        }
    }
}

/// A census looks at the pointers where they are.
#[test]
fn a_report_finds_the_arraylets_that_there_are() {
    let heap = heap("arrays=zray,array-guard=on,array-report=1g,heap-limit=16m,verify=edges");
    let id = array_type(&heap, Kind::Numbers);
    let mut mutator = heap.attach().unwrap();
    let array = allocate(&mut mutator, id, LENGTH, 2);
    let body = |mutator: &mut Mutator, [root]: &[std::cell::Cell<Value>; 1]| {
        let array = root.get().as_object().unwrap();
        // SAFETY: it has these elements, and never moves.
        unsafe {
            mutator.store_element_in::<u16>(array, 600, 1).unwrap();
            mutator.store_element_in::<u16>(array, 5002, 1).unwrap();
        }
        mutator.collect(true);
        let report = mutator.array_report().unwrap();
        let (found, times) = (report.living_of(|_| true), report.censuses);
        // 10,006 bytes are 9 arraylets and a remainder.
        assert_eq!((found.arrays, found.large), (times, times));
        let parts = [found.arraylets, found.absent, found.zero];
        assert_eq!(parts, [9, 8, 8].map(|count| count * times));
    };
    // SAFETY: the array is valid, and used in the root alone.
    unsafe { mutator.with_roots([Value::reference(array)], body) };
}

#[test]
fn what_guards_nothing_is_refused() {
    for options in ["array-guard=on", "arrays=contiguous,array-guard=on"] {
        let built = Heap::builder()
            .options(options)
            .and_then(gleaner::Builder::build);
        let error = built.map(drop).expect_err(options).to_string();
        assert!(
            error.contains("array-guard") && error.contains("arrays"),
            "{error}"
        );
    }
}

#[test]
fn a_fence_that_is_refused_once_comes_after_a_collection() {
    let this = "a_fence_that_is_refused_once_comes_after_a_collection";
    if std::env::var(CASE).is_err() {
        let output = child(this, "refused");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        let refused = "gleaner: array-guard=on: the system refuses";
        assert_eq!(error.matches(refused).count(), 1, "{error}");
        assert!(error.contains("larger first-n"), "{error}");
        return;
    }
    let heap = heap(&format!("{},fault=fence-memory@3", options("arrays=zray")));
    let id = array_type(&heap, Kind::Numbers);
    let mut mutator = heap.attach().unwrap();
    for _ in 0..5 {
        let array = allocate(&mut mutator, id, LENGTH, 2);
        assert!(is_fenced(array, 2 * LENGTH as usize));
        use_elements(&mut mutator, array, Kind::Numbers);
    }
    let totals = mutator.totals();
    assert!(totals.scavenges + totals.full_collections >= 1);
}

/// As many arrays as the system has mappings for, and no more; then it is said what helps.
#[test]
fn a_process_without_mappings_is_told_so() {
    let this = "a_process_without_mappings_is_told_so";
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let most: usize = limit.trim().parse().unwrap();
    if most > 100_000 {
        println!("skipped: the process may have {most} mappings");
        return;
    }
    if std::env::var(CASE).is_err() {
        let output = child(this, "mappings");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        assert!(error.contains("vm.max_map_count"), "{error}");
        return;
    }
    let heap = heap("arrays=naive-a,array-guard=on,heap-limit=1g,workers=1");
    let id = array_type(&heap, Kind::References);
    let mut mutator = heap.attach().unwrap();
    let body = |mutator: &mut Mutator, [root]: &[std::cell::Cell<Value>; 1]| {
        let mut count = 0;
        loop {
            // SAFETY: a type of this heap; the list so far is in the root, and the array is not lost by the store.
            unsafe {
                let Ok(array) = mutator
                    .allocate_raw(NewObject::array(id, 1, array_bytes(1, 3)), Fresh::Unwritten)
                else {
                    return count;
                };
                mutator.initialize_element_in::<Wide>(array, 0, root.get());
                root.set(Value::reference(array));
            }
            count += 1;
        }
    };
    // SAFETY: nothing is used but what is in the root.
    let count = unsafe { mutator.with_roots([Value::NULL], body) };
    assert!(count > most / 4 && count < most, "{count}");
    // All of them die, and there is room again.
    mutator.collect(true);
    allocate(&mut mutator, id, 100, 8);
}
