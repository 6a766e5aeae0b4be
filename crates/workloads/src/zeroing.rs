//! Small arrays that die at once, written in three ways: what zeroing costs by itself, and what it does to the caches
//! (OOPSLA 2011, figure 1 and section 3.1).
//!
//! All three allocate 64 million arrays of eight numbers of 4 bytes; each takes the place of the one before in a root.
//! `initnone` does nothing else. `initfresh` writes each array as soon as it is allocated: so says the paper's text; in
//! its listing the loop that writes comes after the one that allocates, and ought to be inside. `initstale` writes one
//! old array as often instead: the same work without the traffic. An array has 48 bytes: a header of 8, the length,
//! which is padded to 8, and 32 of elements. The paper's has 44.
//!
//! The compiler of this knows the length, so allocation is a few instructions with constants, as a compiler's code
//! would have them. It must not know more: that nobody reads an array, or that all of it is overwritten, would let it
//! leave out stores. So the address of each array goes through [`black_box`]. As far as the compiler knows, the array
//! is read there, so it is complete by then; and later stores go anywhere.
//!
//! What zeroing pushes out of a cache costs nothing unless it is needed again. So each mutator may have a working set:
//! an old array, of which it reads one number for each array that it allocates. The number says where the next one is.
//! They are a cycle through all cache lines of the working set, in random order, so each read waits for the one before.
//!
//! Now and then a fresh array is looked at, before it is written: it is zero, whichever thread zeroed it and when
//! (invariant I2).

use std::hint::black_box;

use gleaner::raw::{Address, array_bytes};
use gleaner::{Heap, Mutator, OutOfMemory};

use super::objects::{Allocated, Code, Numbers, frame, object, value};
use super::random::{Random, chained};
use super::{Own, Prepared, Scale, failed};

/// Numbers of an array.
const LENGTH: usize = 8;
/// Numbers in a cache line.
const LINE: usize = 16;

const _: () = assert!(array_bytes(LENGTH as u32, 2) == 48);

/// What runs. `W` says which array is written, given the fresh one and the stale one.
struct Arrays<F, W> {
    numbers: Numbers<F, u32>,
    count: u32,
    /// One array in this many is looked at. The number is a prime: so these are at all places of an allocation buffer.
    between: u32,
    /// Cache lines of the working set.
    lines: usize,
    written: W,
}

/// No array is written.
pub fn initnone<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    prepare::<F, _>(heap, scale, |_, _| None)
}

/// The fresh one is.
pub fn initfresh<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    prepare::<F, _>(heap, scale, |fresh, _| Some(fresh))
}

/// The stale one is.
pub fn initstale<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    prepare::<F, _>(heap, scale, |_, stale| Some(stale))
}

/// 64 million arrays, or a thousandth.
fn prepare<F: Code, W>(heap: &Heap, scale: &Scale, written: W) -> Prepared
where
    W: Fn(Address, Address) -> Option<Address> + Sync + 'static,
{
    let arrays: Arrays<F, W> = Arrays {
        numbers: Numbers::register(heap).map_err(failed)?,
        count: scale.of(1 << 26, 1 << 16),
        between: scale.of(1021, 7),
        lines: scale.working_set * 1024 / (4 * LINE),
        written,
    };
    Ok(Box::new(Own(move |mutator: &mut Mutator, number| {
        arrays.run(mutator, Random::new(13_000 + u64::from(number)))
    })))
}

impl<F: Code, W: Fn(Address, Address) -> Option<Address>> Arrays<F, W> {
    /// A number made of which arrays were looked at, of the last one and the stale one, and of where the reading ended.
    fn run(&self, mutator: &mut Mutator, random: Random) -> Result<u64, OutOfMemory> {
        let stale = self.numbers.fresh(mutator, LENGTH)?;
        let roots = [stale, Address::NULL, Address::NULL];
        frame(mutator, roots, |mutator, [stale, fresh, cycle]| {
            if self.lines > 0 {
                cycle.set(value(self.cycle(mutator, random)?));
            }
            // Whatever is young now is old afterwards.
            mutator.collect(true);
            let (mut sum, mut looked_at, mut place) = (0, 0, 0);
            for number in 0..self.count {
                let array = black_box(self.numbers.fresh(mutator, LENGTH)?);
                fresh.set(value(array));
                if number == looked_at {
                    self.is_zero(mutator, array);
                    sum = chained(sum, u64::from(number));
                    looked_at += self.between;
                }
                if let Some(array) = (self.written)(array, object(stale)) {
                    self.write(mutator, array)?;
                }
                if self.lines > 0 {
                    place = self.numbers.get(mutator, object(cycle), place as usize);
                }
            }
            for array in [fresh, stale] {
                sum = self.numbers.look(mutator, object(array), |elements| {
                    let add = |sum, &element| chained(sum, u64::from(element));
                    elements.iter().fold(sum, add)
                });
            }
            Ok(chained(sum, u64::from(place)))
        })
    }

    /// A working set. The first number of each cache line is where that of another lies (Sattolo's shuffle: all lines
    /// are in one cycle).
    fn cycle(&self, mutator: &mut Mutator, mut random: Random) -> Allocated {
        self.numbers.filled(mutator, LINE * self.lines, |_, next| {
            for first in (0..next.len()).step_by(LINE) {
                next[first] = first as u32;
            }
            for line in (1..self.lines).rev() {
                let other = random.below(line as u32) as usize;
                next.swap(LINE * line, LINE * other);
            }
        })
    }

    #[inline(always)]
    fn write(&self, mutator: &mut Mutator, array: Address) -> Result<(), OutOfMemory> {
        self.numbers.change(mutator, array, |_, elements| {
            for (index, element) in elements[..LENGTH].iter_mut().enumerate() {
                *element = index as u32;
            }
        })
    }

    #[cold]
    #[inline(never)]
    fn is_zero(&self, mutator: &Mutator, array: Address) {
        self.numbers.look(mutator, array, |elements| {
            assert_eq!(elements, [0; LENGTH], "a fresh array is zero");
        });
    }
}
