//! Versions of a ledger: large arrays that are copied whole again and again, with few elements written in each copy.
//!
//! A version has an array of balances and one of references to the owners of accounts. The next version is a copy of both
//! in which a few balances beside each other, a few all over, and an owner change; nobody writes to an older version. So
//! many versions are kept; now and then the next one comes from an older one, as after an undo, and two are compared.

use std::cell::Cell;

use gleaner::raw::{Address, Value};
use gleaner::{Heap, Mutator, OutOfMemory};

use super::objects::{Code, Numbers, Record, Slots, copy, frame, object, put, value};
use super::random::{Random, chained};
use super::{Own, Prepared, Scale, failed};

/// The references of a version.
const BALANCES: usize = 0;
const OWNERS: usize = 1;

#[derive(Clone, Copy)]
struct Ledger<F> {
    /// See the constants; its number.
    version: Record<F, 2, 4>,
    /// A number.
    owner: Record<F, 0, 8>,
    numbers: Numbers<F, u64>,
    slots: Slots<F>,
    balances: usize,
    owners: usize,
    kept: u32,
    steps: u32,
}

/// 32,000 balances, 16,000 owners, 4000 versions of which 24 are kept; or 1500, 700, 80 and 8.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    let ledger = Ledger::<F> {
        version: Record::register(heap).map_err(failed)?,
        owner: Record::register(heap).map_err(failed)?,
        numbers: Numbers::register(heap).map_err(failed)?,
        slots: Slots::register(heap).map_err(failed)?,
        balances: scale.of(32_000, 1500),
        owners: scale.of(16_000, 700),
        kept: scale.of(24, 8),
        steps: scale.of(4000, 80),
    };
    Ok(Box::new(Own(move |mutator: &mut Mutator, number| {
        ledger.run(mutator, Random::new(16_000 + u64::from(number)))
    })))
}

impl<F: Code> Ledger<F> {
    /// A number made of the differences that were found, and of all versions in the end.
    fn run(&self, mutator: &mut Mutator, mut random: Random) -> Result<u64, OutOfMemory> {
        let kept = self.slots.fresh(mutator, self.kept as usize)?;
        frame(mutator, [kept, Address::NULL], |mutator, [kept, next]| {
            next.set(value(self.first(mutator)?));
            for index in 0..self.kept as usize {
                self.slots.set(mutator, object(kept), index, object(next))?;
            }
            let (mut sum, mut newest) = (0, 0);
            for step in 1..=self.steps {
                let from = if random.below(16) == 0 {
                    random.below(self.kept) as usize
                } else {
                    newest
                };
                next.set(value(self.slots.get(mutator, object(kept), from)));
                next.set(value(self.copied(mutator, next, step)?));
                self.change(mutator, next, step, &mut random)?;
                newest = (step % self.kept) as usize;
                self.slots
                    .set(mutator, object(kept), newest, object(next))?;
                if step % 8 == 0 {
                    let other = random.below(self.kept) as usize;
                    let other = self.slots.get(mutator, object(kept), other);
                    sum = chained(sum, self.difference(mutator, object(next), other));
                }
            }
            for index in 0..self.kept as usize {
                let version = self.slots.get(mutator, object(kept), index);
                sum = chained(sum, self.hash(mutator, version));
            }
            Ok(sum)
        })
    }

    /// A version with empty arrays.
    fn fresh(&self, mutator: &mut Mutator, step: u32) -> Result<Address, OutOfMemory> {
        frame(
            mutator,
            [Address::NULL; 2],
            |mutator, [balances, owners]| {
                balances.set(value(self.numbers.fresh(mutator, self.balances)?));
                owners.set(value(self.slots.fresh(mutator, self.owners)?));
                let version = self.version.fresh(mutator)?;
                let set = |index, to| self.version.initialize(mutator, version, index, object(to));
                set(BALANCES, balances);
                set(OWNERS, owners);
                self.version.set_number(version, 0, step);
                Ok(version)
            },
        )
    }

    /// The version that the others come from.
    fn first(&self, mutator: &mut Mutator) -> Result<Address, OutOfMemory> {
        let version = self.fresh(mutator, 0)?;
        frame(mutator, [version], |mutator, [version]| {
            let balances = self.version.get(mutator, object(version), BALANCES);
            let mut numbers = self
                .numbers
                .cursor_mut(mutator, balances, 0, self.balances)?;
            for number in 0..self.balances as u64 {
                put(&mut numbers, 1000 + number);
            }
            for index in 0..self.owners {
                self.set_owner(mutator, version, index, index as u32)?;
            }
            Ok(object(version))
        })
    }

    fn set_owner(
        &self,
        mutator: &mut Mutator,
        version: &Cell<Value>,
        index: usize,
        number: u32,
    ) -> Result<(), OutOfMemory> {
        let owner = self.owner.fresh(mutator)?;
        self.owner.set_number(owner, 0, number);
        let owners = self.version.get(mutator, object(version), OWNERS);
        self.slots.set(mutator, owners, index, owner)
    }

    fn copied(
        &self,
        mutator: &mut Mutator,
        from: &Cell<Value>,
        step: u32,
    ) -> Result<Address, OutOfMemory> {
        let made = self.fresh(mutator, step)?;
        frame(mutator, [made], |mutator, [made]| {
            for (array, count) in [(BALANCES, self.balances), (OWNERS, self.owners)] {
                let [from, to] =
                    [from, made].map(|version| self.version.get(mutator, object(version), array));
                copy(mutator, (from, 0), (to, 0), count)?;
            }
            Ok(object(made))
        })
    }

    /// Changes a few elements of a version that is not yet kept.
    fn change(
        &self,
        mutator: &mut Mutator,
        version: &Cell<Value>,
        step: u32,
        random: &mut Random,
    ) -> Result<(), OutOfMemory> {
        let together = random.below(self.balances as u32 - 8) as usize;
        for number in 0..12 {
            let index = if number < 8 {
                together + number
            } else {
                random.below(self.balances as u32) as usize
            };
            let balances = self.version.get(mutator, object(version), BALANCES);
            let balance = self.numbers.get(mutator, balances, index);
            let balance = chained(balance, u64::from(step));
            self.numbers.set(mutator, balances, index, balance)?;
        }
        let index = random.below(self.owners as u32) as usize;
        self.set_owner(mutator, version, index, self.owners as u32 + step)
    }

    /// A number made of where two versions differ.
    fn difference(&self, mutator: &Mutator, one: Address, other: Address) -> u64 {
        let arrays = |array| [one, other].map(|version| self.version.get(mutator, version, array));
        let [left, right] =
            arrays(BALANCES).map(|array| self.numbers.cursor(mutator, array, 0, self.balances));
        let balances = left.zip(right).map(|(left, right)| left != right);
        let [left, right] =
            arrays(OWNERS).map(|array| self.slots.cursor(mutator, array, 0, self.owners));
        let owners = left.zip(right).map(|(left, right)| left != right);
        let places = balances.chain(owners).enumerate();
        let different = places.filter_map(|(place, is_different)| is_different.then_some(place));
        different.fold(0, |sum, place| chained(sum, place as u64))
    }

    /// A number made of a whole version.
    fn hash(&self, mutator: &Mutator, version: Address) -> u64 {
        let balances = self.version.get(mutator, version, BALANCES);
        let balances = self.numbers.cursor(mutator, balances, 0, self.balances);
        let owners = self.version.get(mutator, version, OWNERS);
        let owners = self.slots.cursor(mutator, owners, 0, self.owners);
        let owners = owners.map(|owner| u64::from(self.owner.number(owner, 0)));
        let sum = u64::from(self.version.number(version, 0));
        balances.chain(owners).fold(sum, chained)
    }
}
