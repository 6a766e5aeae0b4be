//! A database in memory: records in a list that grows by copying, sorted, looked up, changed and removed.
//!
//! Each round adds records and sorts references to all of them into an index, by merging, from one array to another and
//! back. It looks names up in the index by halves, changes what it finds, and takes records out of the list, so that
//! those behind them go forward. Names are arrays of bytes, compared byte by byte.

use std::cell::Cell;
use std::cmp::Ordering;

use gleaner::raw::{Address, Value};
use gleaner::{Heap, Mutator, OutOfMemory};

use super::objects::{Allocated, Code, Numbers, Record, copy, frame, object, value};
use super::random::{Random, chained, hash_on};
use super::vector::Vector;
use super::{Own, Prepared, Scale, failed};

/// What names are made of.
const SYLLABLES: &[u8; 32] = b"bakodelumirasotefinugahepivowyzu";

#[derive(Clone, Copy)]
struct Database<F> {
    /// Its name and its town; its number, its balance.
    record: Record<F, 2, 8>,
    bytes: Numbers<F, u8>,
    vector: Vector<F>,
    rounds: u32,
    /// Records that each round adds.
    more: u32,
}

/// Sixteen rounds that add 6000 records each, or six of 400.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    let database = Database::<F> {
        record: Record::register(heap).map_err(failed)?,
        bytes: Numbers::register(heap).map_err(failed)?,
        vector: Vector::register(heap).map_err(failed)?,
        rounds: scale.of(16, 6),
        more: scale.of(6000, 400),
    };
    Ok(Box::new(Own(move |mutator: &mut Mutator, number| {
        database.run(mutator, Random::new(19_000 + u64::from(number)))
    })))
}

/// A name of `syllables` syllables.
fn name(random: &mut Random, syllables: u32) -> Vec<u8> {
    let syllable = |_| {
        let from = 2 * random.below(16) as usize;
        &SYLLABLES[from..from + 2]
    };
    (0..syllables).flat_map(syllable).copied().collect()
}

impl<F: Code> Database<F> {
    /// A number made of what was found, and of all records in the end.
    fn run(&self, mutator: &mut Mutator, mut random: Random) -> Result<u64, OutOfMemory> {
        let list = self.vector.fresh(mutator)?;
        frame(mutator, [list, Address::NULL], |mutator, [list, index]| {
            let mut sum = 0;
            for round in 0..self.rounds {
                for number in 0..self.more {
                    let record = self.made(mutator, &mut random, round * self.more + number)?;
                    self.vector.push(mutator, list, record)?;
                }
                index.set(value(self.sorted(mutator, list)?));
                for _ in 0..2 * self.more {
                    let found = self.look_up(mutator, index, &name(&mut random, 3))?;
                    sum = chained(sum, found);
                }
                for _ in 0..self.more / 8 {
                    let length = self.vector.length(object(list)) as u32;
                    let place = random.below(length) as usize;
                    self.vector.remove(mutator, list, place)?;
                }
            }
            let count = self.vector.length(object(list));
            index.set(value(self.sorted(mutator, list)?));
            for array in [self.vector.array(mutator, object(list)), object(index)] {
                let records = self.vector.slots.cursor(mutator, array, 0, count);
                sum = records.fold(sum, |sum, record| self.hash(mutator, sum, record));
            }
            Ok(sum)
        })
    }

    fn made(&self, mutator: &mut Mutator, random: &mut Random, number: u32) -> Allocated {
        let letters = self.bytes.copied(mutator, &name(random, 3))?;
        frame(
            mutator,
            [letters, Address::NULL],
            |mutator, [letters, town]| {
                town.set(value(self.bytes.copied(mutator, &name(random, 8))?));
                let record = self.record.fresh(mutator)?;
                self.record.initialize(mutator, record, 0, object(letters));
                self.record.initialize(mutator, record, 1, object(town));
                self.record.set_number(record, 0, number);
                Ok(record)
            },
        )
    }

    fn hash(&self, mutator: &Mutator, sum: u64, record: Address) -> u64 {
        let mut sum = sum;
        for index in 0..2 {
            let bytes = self.record.get(mutator, record, index);
            sum = self.bytes.look(mutator, bytes, |bytes| hash_on(sum, bytes));
        }
        [0, 1].iter().fold(sum, |sum, &index| {
            chained(sum, u64::from(self.record.number(record, index)))
        })
    }

    /// The name of a record and another.
    fn compare(&self, mutator: &Mutator, record: Address, other: Address) -> Ordering {
        let own = self.record.get(mutator, record, 0);
        self.bytes.look(mutator, own, |own| {
            self.bytes.look(mutator, other, |other| own.cmp(other))
        })
    }

    /// Records by their names, and then by their numbers.
    fn order(&self, mutator: &Mutator, one: Address, other: Address) -> Ordering {
        let names = self.compare(mutator, one, self.record.get(mutator, other, 0));
        let numbers = || {
            self.record
                .number(one, 0)
                .cmp(&self.record.number(other, 0))
        };
        names.then_with(numbers)
    }

    /// References to all records of a list, in their order.
    fn sorted(&self, mutator: &mut Mutator, list: &Cell<Value>) -> Allocated {
        let slots = &self.vector.slots;
        let count = self.vector.length(object(list));
        let from = slots.fresh(mutator, count)?;
        frame(mutator, [from, Address::NULL], |mutator, [from, to]| {
            to.set(value(slots.fresh(mutator, count)?));
            let array = self.vector.array(mutator, object(list));
            copy(mutator, (array, 0), (object(from), 0), count)?;
            let mut run = 1;
            while run < count {
                for start in (0..count).step_by(2 * run) {
                    let middle = count.min(start + run);
                    let end = count.min(start + 2 * run);
                    self.merge(mutator, from, to, [start, middle, end])?;
                }
                from.swap(to);
                run *= 2;
            }
            let records = slots.cursor(mutator, object(from), 0, count);
            let is_ordered = |&one: &Address, &other: &Address| {
                self.order(mutator, one, other) == Ordering::Less
            };
            assert!(records.is_sorted_by(is_ordered), "an index is sorted");
            Ok(object(from))
        })
    }

    /// Merges two neighbouring runs of an array into another.
    fn merge(
        &self,
        mutator: &mut Mutator,
        from: &Cell<Value>,
        to: &Cell<Value>,
        [start, middle, end]: [usize; 3],
    ) -> Result<(), OutOfMemory> {
        let slots = &self.vector.slots;
        let (mut left, mut right, mut at) = (start, middle, start);
        while left < middle && right < end {
            let [one, other] = [left, right].map(|index| slots.get(mutator, object(from), index));
            let next = if self.order(mutator, other, one) == Ordering::Less {
                right += 1;
                other
            } else {
                left += 1;
                one
            };
            slots.set(mutator, object(to), at, next)?;
            at += 1;
        }
        let rest = middle - left;
        copy(mutator, (object(from), left), (object(to), at), rest)?;
        copy(
            mutator,
            (object(from), right),
            (object(to), at + rest),
            end - right,
        )
    }

    /// Looks a name up, and then changes what it found: its town is the name, its balance grows. A number made of which
    /// records they are.
    fn look_up(
        &self,
        mutator: &mut Mutator,
        index: &Cell<Value>,
        name: &[u8],
    ) -> Result<u64, OutOfMemory> {
        let name = self.bytes.copied(mutator, name)?;
        frame(mutator, [name, Address::NULL], |mutator, [name, found]| {
            found.set(value(self.found(mutator, index, name)?));
            let mut sum = 0;
            for place in 0..self.vector.length(object(found)) {
                let record = self.vector.get(mutator, object(found), place);
                let [number, balance] = [0, 1].map(|index| self.record.number(record, index));
                self.record
                    .set_number(record, 1, balance.wrapping_mul(3).wrapping_add(1));
                self.record.set(mutator, record, 1, object(name));
                sum = chained(sum, u64::from(number) << 32 | u64::from(balance));
            }
            Ok(sum)
        })
    }

    /// A list of the records of a name.
    fn found(&self, mutator: &mut Mutator, index: &Cell<Value>, name: &Cell<Value>) -> Allocated {
        let found = self.vector.fresh(mutator)?;
        frame(mutator, [found], |mutator, [found]| {
            let slots = &self.vector.slots;
            let count = slots.length(mutator, object(index));
            let (mut low, mut high) = (0, count);
            while low < high {
                let middle = low.midpoint(high);
                let record = slots.get(mutator, object(index), middle);
                match self.compare(mutator, record, object(name)) {
                    Ordering::Less => low = middle + 1,
                    _ => high = middle,
                }
            }
            for place in low..count {
                let record = slots.get(mutator, object(index), place);
                if self.compare(mutator, record, object(name)) != Ordering::Equal {
                    break;
                }
                self.vector.push(mutator, found, record)?;
            }
            Ok(object(found))
        })
    }
}
