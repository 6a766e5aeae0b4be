//! Ephemerons in chains: the value of one is the key of the next, and each value refers back to its key.
//!
//! An array keeps the first key of each chain and nothing else, so a whole chain lives exactly as long as its first key
//! is in that array, although each key after it is reached through an ephemeron alone. The ephemerons of a chain are one
//! table, which a second array keeps. Chains are replaced at random. At the end of a round everything is collected, and
//! exactly the chains in the array have survived. The ephemerons lie in their table in either order, so that the
//! collector meets them in the good order and in the bad one.

use std::cell::Cell;
use std::marker::PhantomData;

use gleaner::raw::{self, Address, Fresh, NewObject, Shape, TypeId, Value, tailed_bytes};
use gleaner::{Heap, Mutator, OutOfMemory, TypeError};

use super::objects::{Allocated, Code, Numbers, Record, Slots, frame, object, value};
use super::random::{Random, scattered};
use super::{Own, Prepared, Scale, failed};

const ROUNDS: u32 = 5;
/// Chains have from 1 to this many ephemerons. One chain in 64 has eight times as many as were drawn.
const LONGEST: u32 = 8;

/// A type of tables of ephemerons, in a heap of `F`.
struct Pairs<F> {
    id: TypeId,
    slots: PhantomData<fn() -> F>,
}

impl<F> Clone for Pairs<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Pairs<F> {}

impl<F: Code> Pairs<F> {
    /// Header and length.
    const HEAD: usize = 16;
    const PAIR: usize = 2 * F::SLOT_BYTES;

    fn register(heap: &Heap) -> Result<Self, TypeError> {
        let id = heap.register_raw(Shape::Weak {
            head: Self::HEAD,
            slots: raw::Slots::default(),
            element: Self::PAIR,
            element_slots: raw::Slots {
                ephemerons: &[0],
                ..raw::Slots::default()
            },
        })?;
        Ok(Pairs {
            id,
            slots: PhantomData,
        })
    }

    /// A fresh table, all null.
    fn fresh(&self, mutator: &mut Mutator, length: u32) -> Allocated {
        let bytes = tailed_bytes(Self::HEAD, length, Self::PAIR);
        // SAFETY: the type, and the bytes that follow from it.
        unsafe { mutator.allocate_raw(NewObject::array(self.id, length, bytes), Fresh::Zeroed) }
    }

    /// Key and value of an ephemeron.
    fn get(&self, mutator: &Mutator, pairs: Address, index: u32) -> [Address; 2] {
        let offset = Self::HEAD + index as usize * Self::PAIR;
        [0, F::SLOT_BYTES].map(|slot| {
            // SAFETY: the workload passes a valid table, which has this ephemeron.
            unsafe { mutator.load_reference_in::<F::Slot>(pairs, offset + slot) }
        })
    }

    /// Sets an ephemeron.
    fn set(&self, mutator: &Mutator, pairs: Address, index: u32, pair: [Address; 2]) {
        let offset = Self::HEAD + index as usize * Self::PAIR;
        for (slot, to) in [0, F::SLOT_BYTES].into_iter().zip(pair) {
            // SAFETY: the workload passes a valid table, which has this ephemeron, and valid objects.
            unsafe { mutator.store_reference_in::<F::Slot>(pairs, offset + slot, to) };
        }
    }
}

/// The types: a key refers to the one before it and to a few bytes, and has a number.
#[derive(Clone, Copy)]
struct Types<F> {
    key: Record<F, 2, 8>,
    slots: Slots<F>,
    bytes: Numbers<F, u8>,
    pairs: Pairs<F>,
}

/// A chain as it was made.
#[derive(Clone, Copy)]
struct Chain {
    /// The number of its first key.
    first: u64,
    length: u32,
    /// Whether its ephemerons lie in its table with the last one first.
    backward: bool,
}

impl Chain {
    /// Where an ephemeron of it lies in its table.
    fn place(&self, link: u32) -> u32 {
        if self.backward {
            self.length - 1 - link
        } else {
            link
        }
    }
}

/// What the frame of a mutator holds: arrays of first keys, of the tables of all chains, and of the tables of those that were
/// dropped in a round; and the table that was made last.
type Held = [Cell<Value>; 4];
const FIRSTS: usize = 0;
const TABLES: usize = 1;
const DROPPED: usize = 2;
const MADE: usize = 3;

/// What one mutator does.
struct Table<F> {
    types: Types<F>,
    random: Random,
    /// The number of the next key.
    next: u64,
    /// `[i]`: the chain whose first key is element i of the array of those.
    chains: Vec<Chain>,
    /// `[i]`: the chain whose table is element i of the array of dropped ones.
    dropped: Vec<Chain>,
}

/// 20,000 chains, each of which is replaced about once a round, or a hundred.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    let types = Types::<F> {
        key: Record::register(heap).map_err(failed)?,
        slots: Slots::register(heap).map_err(failed)?,
        bytes: Numbers::register(heap).map_err(failed)?,
        pairs: Pairs::register(heap).map_err(failed)?,
    };
    let chains = scale.of(20_000, 100);
    Ok(Box::new(Own(move |mutator: &mut Mutator, number| {
        let table = Table {
            types,
            random: Random::new(4000 + u64::from(number)),
            next: u64::from(number) << 40,
            chains: Vec::new(),
            dropped: Vec::new(),
        };
        table.run(mutator, chains)
    })))
}

impl<F: Code> Table<F> {
    /// A number made of the survivors of each round.
    fn run(mut self, mutator: &mut Mutator, count: usize) -> Result<u64, OutOfMemory> {
        frame(mutator, [Address::NULL; 4], |mutator, held| {
            for array in [FIRSTS, TABLES, DROPPED] {
                let fresh = self.types.slots.fresh(mutator, count)?;
                held[array].set(value(fresh));
            }
            for index in 0..count {
                self.replace(mutator, held, index)?;
            }
            let mut sum = 0u64;
            for _ in 0..ROUNDS {
                for _ in 0..count {
                    let index = self.random.below(count as u32) as usize;
                    self.replace(mutator, held, index)?;
                    let other = self.random.below(count as u32) as usize;
                    sum = sum.wrapping_add(self.survivor(mutator, held, other));
                }
                mutator.collect(true);
                self.forget_dropped(mutator, held)?;
                for index in 0..count {
                    self.check(mutator, held, index);
                    sum = sum.wrapping_add(self.survivor(mutator, held, index));
                }
            }
            Ok(sum)
        })
    }

    /// Puts a new chain in place of another, or behind the last. The table of the other one is kept until the round is over.
    fn replace(
        &mut self,
        mutator: &mut Mutator,
        held: &Held,
        index: usize,
    ) -> Result<(), OutOfMemory> {
        let Types { slots, pairs, .. } = self.types;
        let chain = self.chain(mutator, &held[MADE])?;
        // Nothing was allocated since, so its keys are there.
        let [first, _] = pairs.get(mutator, object(&held[MADE]), chain.place(0));
        slots.set(mutator, object(&held[FIRSTS]), index, first)?;
        match self.chains.get_mut(index) {
            Some(place) => {
                let table = slots.get(mutator, object(&held[TABLES]), index);
                let end = self.dropped.len();
                slots.set(mutator, object(&held[DROPPED]), end, table)?;
                self.dropped.push(std::mem::replace(place, chain));
            }
            None => self.chains.push(chain),
        }
        slots.set(mutator, object(&held[TABLES]), index, object(&held[MADE]))
    }

    /// A new chain, whose table is in `made` from now on. Its first key lives as long as nothing is allocated.
    fn chain(&mut self, mutator: &mut Mutator, made: &Cell<Value>) -> Result<Chain, OutOfMemory> {
        let Types { slots, pairs, .. } = self.types;
        let mut length = 1 + self.random.below(LONGEST);
        if self.random.below(64) == 0 {
            length *= 8;
        }
        let chain = Chain {
            first: self.next,
            length,
            backward: self.random.below(2) == 0,
        };
        let keys = slots.fresh(mutator, length as usize + 1)?;
        frame(mutator, [keys], |mutator, [keys]| {
            for index in 0..=length as usize {
                self.key(mutator, keys, index)?;
            }
            let table = pairs.fresh(mutator, length)?;
            for link in 0..length {
                let pair = [link, link + 1].map(|at| slots.get(mutator, object(keys), at as usize));
                pairs.set(mutator, table, chain.place(link), pair);
            }
            made.set(value(table));
            Ok(chain)
        })
    }

    /// A fresh key for a place in an array of keys; it refers to the one before it.
    fn key(
        &mut self,
        mutator: &mut Mutator,
        keys: &Cell<Value>,
        index: usize,
    ) -> Result<(), OutOfMemory> {
        let Types {
            key, slots, bytes, ..
        } = self.types;
        let content = bytes.copied(mutator, &self.next.to_le_bytes().repeat(8))?;
        frame(mutator, [content], |mutator, [content]| {
            let fresh = key.fresh(mutator)?;
            key.set_long(fresh, 0, self.next);
            self.next += 1;
            key.set(mutator, fresh, 1, object(content));
            if index > 0 {
                let before = slots.get(mutator, object(keys), index - 1);
                key.set(mutator, fresh, 0, before);
            }
            slots.set(mutator, object(keys), index, fresh)
        })
    }

    /// After a collection of everything: the chains that were dropped in the round are dead.
    fn forget_dropped(&mut self, mutator: &mut Mutator, held: &Held) -> Result<(), OutOfMemory> {
        let Types { slots, pairs, .. } = self.types;
        for (index, chain) in self.dropped.drain(..).enumerate() {
            let table = slots.get(mutator, object(&held[DROPPED]), index);
            for link in 0..chain.length {
                let gone = pairs.get(mutator, table, link) == [Address::NULL; 2];
                assert!(gone, "a chain whose first key is dead is dead");
            }
            slots.set(mutator, object(&held[DROPPED]), index, Address::NULL)?;
        }
        Ok(())
    }

    /// A number made of a chain that lives.
    fn survivor(&self, mutator: &Mutator, held: &Held, index: usize) -> u64 {
        let Types {
            key, slots, pairs, ..
        } = self.types;
        let chain = self.chains[index];
        let table = slots.get(mutator, object(&held[TABLES]), index);
        let [first, _] = pairs.get(mutator, table, chain.place(0));
        let [_, end] = pairs.get(mutator, table, chain.place(chain.length - 1));
        assert!(first != Address::NULL && end != Address::NULL, "it lives");
        scattered(key.long(first, 0) ^ key.long(end, 0) << 20)
    }

    /// Each link of a chain that lives is whole.
    fn check(&self, mutator: &Mutator, held: &Held, index: usize) {
        let Types {
            key,
            slots,
            bytes,
            pairs,
        } = self.types;
        let chain = self.chains[index];
        let table = slots.get(mutator, object(&held[TABLES]), index);
        let mut expected = slots.get(mutator, object(&held[FIRSTS]), index);
        for link in 0..chain.length {
            let [from, to] = pairs.get(mutator, table, chain.place(link));
            assert!(from != Address::NULL && to != Address::NULL, "it lives");
            assert!(
                from == expected,
                "the first key is the one of the array, and each other one the value before it"
            );
            let number = chain.first + u64::from(link);
            assert_eq!(
                key.long(from, 0),
                number,
                "the key is the one that was made"
            );
            assert_eq!(key.long(to, 0), number + 1, "so is the value");
            assert!(
                key.get(mutator, to, 0) == from,
                "the value refers to the key"
            );
            let content = key.get(mutator, from, 1);
            let whole = bytes.look(mutator, content, |all| all[56..] == number.to_le_bytes());
            assert!(whole, "the key has its bytes");
            expected = to;
        }
    }
}
