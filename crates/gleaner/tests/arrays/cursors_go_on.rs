//! Long loops that poll: behind each poll another cursor goes on with the rest, wherever a collection has moved the array,
//! and whatever was written, shared or taken back meanwhile.

use gleaner::raw::Address;
use gleaner::{Elements, Handle, Heap, Mutator};

const LENGTH: usize = 20_000;

fn heap(options: &str) -> Heap {
    let builder = Heap::builder()
        .limit(16 << 20)
        .workers(2)
        .ignore_environment();
    let options = format!("{options},verify=edges,poison=on");
    builder.options(&options).unwrap().build().unwrap()
}

fn address(handle: &Handle) -> Address {
    Address::new(handle.get_raw().bits() as usize)
}

/// An array of words, all zero, and another one.
fn arrays(heap: &Heap, mutator: &mut Mutator) -> [Handle; 2] {
    let words = heap.array(Elements::Words).unwrap();
    [(); 2].map(|()| {
        mutator.scope(|scope| {
            let array = scope.allocate_array(words, LENGTH as u32).unwrap();
            scope.handle(array).unwrap()
        })
    })
}

/// What may happen between two pieces of a loop that is at `at`: the array and what it should hold change.
fn disturb(
    mutator: &mut Mutator,
    [array, other]: [&Handle; 2],
    expected: &mut [u32],
    (step, at): (usize, usize),
) {
    mutator.scope(|scope| {
        let (array, other) = (scope.open(array), scope.open(other));
        match step % 6 {
            0 => scope.collect(false),
            1 => scope.collect(true),
            2 => scope.poll(),
            3 => {
                // What comes next is shared, and then taken from the other array.
                scope.copy_elements(array, 0..LENGTH, other, 0).unwrap();
                scope.fill_numbers(other, at, LENGTH - at, 0_u32).unwrap();
            }
            4 => {
                scope
                    .fill_numbers(array, at, LENGTH - at, step as u32)
                    .unwrap();
                expected[at..].fill(step as u32);
            }
            _ => {
                // Nothing but zeros, which a collection takes back.
                let count = (LENGTH - at) / 2;
                scope.fill_numbers(array, at, count, 0_u32).unwrap();
                expected[at..at + count].fill(0);
                scope.collect(true);
            }
        }
    });
}

#[test]
fn loads_go_on_behind_polls() {
    for options in WAYS {
        let heap = heap(options);
        let mut mutator = heap.attach().unwrap();
        let [array, other] = arrays(&heap, &mut mutator);
        let mut expected = vec![0_u32; LENGTH];
        let (mut rest, mut found) = (0..LENGTH, Vec::new());
        for step in 0.. {
            if rest.is_empty() {
                break;
            }
            // SAFETY: an array of words with this range, whose address is read anew.
            let mut cursor =
                unsafe { mutator.cursor::<u32>(address(&array), rest.start, rest.len()) };
            let count = 1 + step * 37 % 700;
            found.extend(cursor.by_ref().take(count));
            rest = cursor.rest();
            assert_eq!(rest, found.len()..LENGTH, "{options}");
            assert_eq!(found, expected[..found.len()], "{options}, step {step}");
            disturb(
                &mut mutator,
                [&array, &other],
                &mut expected,
                (step, rest.start),
            );
        }
        assert_eq!(found.len(), LENGTH, "{options}");
    }
}

#[test]
fn stores_go_on_behind_polls() {
    for options in WAYS {
        let heap = heap(options);
        let mut mutator = heap.attach().unwrap();
        let [array, other] = arrays(&heap, &mut mutator);
        let mut expected = vec![0_u32; LENGTH];
        let mut rest = 0..LENGTH;
        for step in 0.. {
            if rest.is_empty() {
                break;
            }
            // SAFETY: an array of words with this range, whose address is read anew.
            let mut cursor =
                unsafe { mutator.cursor_mut::<u32>(address(&array), rest.start, rest.len()) }
                    .unwrap();
            for index in rest.clone().take(1 + step * 41 % 700) {
                // A zero now and then, which need not be written where all is zero.
                let number = if index / 300 % 3 == 0 {
                    0
                } else {
                    index as u32
                };
                assert_eq!(
                    cursor.load(),
                    Some(expected[index]),
                    "{options}, element {index}"
                );
                // SAFETY: any number is valid.
                assert!(unsafe { cursor.store(number) });
                expected[index] = number;
            }
            let end = rest.end.min(rest.start + 1 + step * 41 % 700);
            rest = cursor.rest();
            assert_eq!(rest, end..LENGTH, "{options}");
            disturb(
                &mut mutator,
                [&array, &other],
                &mut expected,
                (step, rest.start),
            );
        }
        // SAFETY: an array of words.
        let found = unsafe { mutator.cursor::<u32>(address(&array), 0, LENGTH) };
        assert!(found.eq(expected), "{options}");
    }
}

/// How arrays may lie.
const WAYS: [&str; 5] = [
    "arrays=contiguous",
    "arrays=naive",
    "arrays=zray",
    "arrays=zray,first-n=64,arraylet=256,old=mark-sweep",
    "arrays=perf-zray,generations=never",
];
