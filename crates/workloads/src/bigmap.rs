//! Hash tables that are made for more than they will hold: large arrays of which few parts are ever touched.
//!
//! Tenants of a service come and go. Each has a table from keys to records with open addressing, made at once for as
//! many entries as its plan allows; most use little of it. Half of the tenants number their entries one after the
//! other, so that these lie together: a key's place is the key itself with its halves mixed, as in several languages'
//! tables. The keys of the others are random, and lie all over. A table that is three quarters full grows. Entries are
//! added, looked up, replaced and removed at random, one element at a time; when a tenant goes, its whole table is
//! read.

use std::cell::Cell;

use gleaner::raw::{Address, Value};
use gleaner::{Heap, Mutator, OutOfMemory};

use super::objects::{Code, Numbers, Record, Slots, frame, object, value};
use super::random::{Random, chained, scattered};
use super::{Own, Prepared, Scale, failed};

/// The references of a table.
const KEYS: usize = 0;
const VALUES: usize = 1;
/// Its numbers: entries; keys given out; what the keys are made of.
const COUNT: usize = 0;
const ISSUED: usize = 1;
const TENANT: usize = 2;

/// A key of no entry.
const FREE: u32 = 0;

#[derive(Clone, Copy)]
struct Service<F> {
    /// See the constants.
    table: Record<F, 2, 12>,
    /// An entry: its key, the step that made it.
    entry: Record<F, 0, 8>,
    keys: Numbers<F, u32>,
    slots: Slots<F>,
    tenants: u32,
    /// How many places the smallest plan has, as a logarithm; there are four, each twice as large as the one before.
    smallest: u32,
    steps: u32,
    /// After how many steps a tenant goes.
    between: u32,
}

/// 64 tenants and ten million steps, or 16 and 6000.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    let service = Service::<F> {
        table: Record::register(heap).map_err(failed)?,
        entry: Record::register(heap).map_err(failed)?,
        keys: Numbers::register(heap).map_err(failed)?,
        slots: Slots::register(heap).map_err(failed)?,
        tenants: scale.of(64, 16),
        smallest: scale.of(12, 8),
        steps: scale.of(10_000_000, 6000),
        between: scale.of(2000, 100),
    };
    Ok(Box::new(Own(move |mutator: &mut Mutator, number| {
        service.run(mutator, Random::new(14_000 + u64::from(number)))
    })))
}

/// The `number`-th key of a tenant.
fn key(tenant: u32, number: u32) -> u32 {
    if tenant.is_multiple_of(2) {
        1 + (tenant << 8) + number
    } else {
        scattered(u64::from(tenant) << 32 | u64::from(number)) as u32 | 1
    }
}

/// Where a key is unless others are there.
fn home(key: u32, mask: usize) -> usize {
    (key ^ key >> 16) as usize & mask
}

impl<F: Code> Service<F> {
    /// A number made of all that was found, and of all tables in the end.
    fn run(&self, mutator: &mut Mutator, mut random: Random) -> Result<u64, OutOfMemory> {
        let tenants = self.slots.fresh(mutator, self.tenants as usize)?;
        let roots = [tenants, Address::NULL];
        frame(mutator, roots, |mutator, [tenants, table]| {
            let mut arrived = 0;
            let mut replace = |mutator: &mut Mutator, random: &mut Random, index| {
                let plan = self.smallest + random.below(4);
                let fresh = self.fresh(mutator, 1 << plan, arrived)?;
                arrived += 1;
                self.slots.set(mutator, object(tenants), index, fresh)
            };
            for index in 0..self.tenants as usize {
                replace(mutator, &mut random, index)?;
            }
            let mut sum = 0;
            for step in 0..self.steps {
                if step % self.between == self.between - 1 {
                    let index = random.below(self.tenants) as usize;
                    let gone = self.slots.get(mutator, object(tenants), index);
                    sum = chained(sum, self.all(mutator, gone));
                    replace(mutator, &mut random, index)?;
                }
                // The first tenants are the busiest.
                let index = random.below(self.tenants);
                let index = random.below(index + 1) as usize;
                table.set(value(self.slots.get(mutator, object(tenants), index)));
                sum = chained(sum, self.step(mutator, table, step, &mut random)?);
            }
            for index in 0..self.tenants as usize {
                let table = self.slots.get(mutator, object(tenants), index);
                sum = chained(sum, self.all(mutator, table));
            }
            Ok(sum)
        })
    }

    /// One of the things that are done to a table; a number made of what was found.
    fn step(
        &self,
        mutator: &mut Mutator,
        table: &Cell<Value>,
        step: u32,
        random: &mut Random,
    ) -> Result<u64, OutOfMemory> {
        let what = random.below(16);
        let [issued, tenant] =
            [ISSUED, TENANT].map(|index| self.table.number(object(table), index));
        if what < 6 {
            self.table.set_number(object(table), ISSUED, issued + 1);
            self.put(mutator, table, key(tenant, issued), step)?;
            return Ok(0);
        }
        // The last of these is not there.
        let key = key(tenant, random.below(issued + 1));
        let (place, is_there) = self.find(mutator, object(table), key);
        if !is_there {
            return Ok(1);
        }
        let values = self.table.get(mutator, object(table), VALUES);
        let entry = self.slots.get(mutator, values, place);
        assert_eq!(self.entry.number(entry, 0), key, "an entry has its key");
        let found = u64::from(self.entry.number(entry, 1));
        match what {
            14 => self.put(mutator, table, key, step)?,
            15 => self.remove(mutator, table, place)?,
            _ => {}
        }
        Ok(found)
    }

    /// A table with `places` places, a power of two.
    fn fresh(
        &self,
        mutator: &mut Mutator,
        places: usize,
        tenant: u32,
    ) -> Result<Address, OutOfMemory> {
        frame(mutator, [Address::NULL; 2], |mutator, [keys, values]| {
            keys.set(value(self.keys.fresh(mutator, places)?));
            values.set(value(self.slots.fresh(mutator, places)?));
            let table = self.table.fresh(mutator)?;
            self.table.initialize(mutator, table, KEYS, object(keys));
            self.table
                .initialize(mutator, table, VALUES, object(values));
            self.table.set_number(table, TENANT, tenant);
            Ok(table)
        })
    }

    /// Where a key is, or where it would be; whether it is there.
    fn find(&self, mutator: &Mutator, table: Address, key: u32) -> (usize, bool) {
        let keys = self.table.get(mutator, table, KEYS);
        let mask = self.keys.length(mutator, keys) - 1;
        let mut place = home(key, mask);
        loop {
            match self.keys.get(mutator, keys, place) {
                FREE => return (place, false),
                found if found == key => return (place, true),
                _ => place = (place + 1) & mask,
            }
        }
    }

    /// Makes an entry for a key, in the place of the one that it may have.
    fn put(
        &self,
        mutator: &mut Mutator,
        table: &Cell<Value>,
        key: u32,
        step: u32,
    ) -> Result<(), OutOfMemory> {
        let entry = self.entry.fresh(mutator)?;
        self.entry.set_number(entry, 0, key);
        self.entry.set_number(entry, 1, step);
        frame(mutator, [entry], |mutator, [entry]| {
            let (mut place, is_there) = self.find(mutator, object(table), key);
            if !is_there {
                let count = self.table.number(object(table), COUNT) + 1;
                self.table.set_number(object(table), COUNT, count);
                let keys = self.table.get(mutator, object(table), KEYS);
                let places = self.keys.length(mutator, keys);
                if 4 * count as usize > 3 * places {
                    self.grow(mutator, table, 2 * places)?;
                    place = self.find(mutator, object(table), key).0;
                }
            }
            self.set(mutator, table, place, key, entry)
        })
    }

    /// Writes a place.
    fn set(
        &self,
        mutator: &mut Mutator,
        table: &Cell<Value>,
        place: usize,
        key: u32,
        entry: &Cell<Value>,
    ) -> Result<(), OutOfMemory> {
        let keys = self.table.get(mutator, object(table), KEYS);
        self.keys.set(mutator, keys, place, key)?;
        let values = self.table.get(mutator, object(table), VALUES);
        self.slots.set(mutator, values, place, object(entry))
    }

    /// Gives a table other arrays.
    fn grow(
        &self,
        mutator: &mut Mutator,
        table: &Cell<Value>,
        places: usize,
    ) -> Result<(), OutOfMemory> {
        let fresh = self.fresh(mutator, places, 0)?;
        frame(
            mutator,
            [fresh, Address::NULL],
            |mutator, [fresh, entry]| {
                for place in 0..places / 2 {
                    let keys = self.table.get(mutator, object(table), KEYS);
                    let key = self.keys.get(mutator, keys, place);
                    if key != FREE {
                        let values = self.table.get(mutator, object(table), VALUES);
                        entry.set(value(self.slots.get(mutator, values, place)));
                        let (to, _) = self.find(mutator, object(fresh), key);
                        self.set(mutator, fresh, to, key, entry)?;
                    }
                }
                for array in [KEYS, VALUES] {
                    let grown = self.table.get(mutator, object(fresh), array);
                    self.table.set(mutator, object(table), array, grown);
                }
                Ok(())
            },
        )
    }

    /// Removes the entry of a place. Those behind it that could be nearer to their homes go forward, so that no search
    /// ends too early.
    fn remove(
        &self,
        mutator: &mut Mutator,
        table: &Cell<Value>,
        mut hole: usize,
    ) -> Result<(), OutOfMemory> {
        frame(mutator, [Address::NULL], |mutator, [entry]| {
            let mut place = hole;
            loop {
                let keys = self.table.get(mutator, object(table), KEYS);
                let mask = self.keys.length(mutator, keys) - 1;
                place = (place + 1) & mask;
                let key = self.keys.get(mutator, keys, place);
                if key == FREE {
                    break;
                }
                let from_home = |place: usize| place.wrapping_sub(home(key, mask)) & mask;
                if from_home(hole) < from_home(place) {
                    let values = self.table.get(mutator, object(table), VALUES);
                    entry.set(value(self.slots.get(mutator, values, place)));
                    self.set(mutator, table, hole, key, entry)?;
                    hole = place;
                }
            }
            entry.set(value(Address::NULL));
            self.set(mutator, table, hole, FREE, entry)?;
            let count = self.table.number(object(table), COUNT);
            self.table.set_number(object(table), COUNT, count - 1);
            Ok(())
        })
    }

    /// A number made of all entries of a table, wherever they are.
    fn all(&self, mutator: &Mutator, table: Address) -> u64 {
        let [keys, values] = [KEYS, VALUES].map(|index| self.table.get(mutator, table, index));
        let places = self.keys.length(mutator, keys);
        let values = self.slots.cursor(mutator, values, 0, places);
        let keys = self.keys.cursor(mutator, keys, 0, places);
        let (mut sum, mut count) = (0u64, 0);
        for (key, entry) in keys.zip(values) {
            if key == FREE {
                assert!(entry == Address::NULL, "a free place has no entry");
                continue;
            }
            assert_eq!(self.entry.number(entry, 0), key, "an entry has its key");
            let step = u64::from(self.entry.number(entry, 1));
            sum = sum.wrapping_add(scattered(u64::from(key) << 32 | step));
            count += 1;
        }
        assert_eq!(
            count,
            self.table.number(table, COUNT),
            "all entries are there"
        );
        sum
    }
}
