//! Ephemerons in chains: the value of one is the key of the next, and each value refers back to its key.
//!
//! A table keeps the first key of each chain and nothing else, so a whole chain lives exactly as long as its first key
//! is in the table, although each key after it is reached through an ephemeron alone. Chains are replaced at random. At
//! the end of a round everything is collected, and exactly the chains in the table have survived. The ephemerons of a
//! chain are made in either order, so that the collector meets them in the good order and in the bad one.

use gleaner::raw::Address;
use gleaner::{Ephemeron, Heap, Mutator, OutOfMemory};

use super::objects::{Code, Numbers, Record, Slots, address, frame, object, value};
use super::random::{Random, scattered};
use super::{Own, Prepared, Scale, failed};

const ROUNDS: u32 = 5;
/// Chains have from 1 to this many ephemerons. One chain in 64 has eight times as many as were drawn.
const LONGEST: u32 = 8;

/// The types: a key refers to the one before it and to a few bytes, and has a number.
#[derive(Clone, Copy)]
struct Types<F> {
    key: Record<F, 2, 8>,
    slots: Slots<F>,
    bytes: Numbers<F, u8>,
}

/// A chain as it was made.
struct Chain {
    first: u64,
    links: Vec<Ephemeron>,
}

/// What one mutator does.
struct Table<F> {
    types: Types<F>,
    random: Random,
    /// The number of the next key.
    next: u64,
    /// `[i]`: the chain whose first key is element i of the table.
    chains: Vec<Chain>,
    dropped: Vec<Chain>,
}

/// 20,000 chains, each of which is replaced about once a round, or a hundred.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    let types = Types::<F> {
        key: Record::register(heap).map_err(failed)?,
        slots: Slots::register(heap).map_err(failed)?,
        bytes: Numbers::register(heap).map_err(failed)?,
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
        let firsts = self.types.slots.fresh(mutator, count)?;
        frame(mutator, [firsts], |mutator, [firsts]| {
            for index in 0..count {
                let chain = self.chain(mutator)?;
                let first = address(chain.links[0].key_raw());
                self.types
                    .slots
                    .set(mutator, object(firsts), index, first)?;
                self.chains.push(chain);
            }
            let mut sum = 0u64;
            for _ in 0..ROUNDS {
                for _ in 0..count {
                    let index = self.random.below(count as u32) as usize;
                    let chain = self.chain(mutator)?;
                    let first = address(chain.links[0].key_raw());
                    self.types
                        .slots
                        .set(mutator, object(firsts), index, first)?;
                    self.dropped
                        .push(std::mem::replace(&mut self.chains[index], chain));
                    let other = self.random.below(count as u32) as usize;
                    sum = sum.wrapping_add(self.survivor(&self.chains[other]));
                }
                mutator.collect(true);
                for chain in self.dropped.drain(..) {
                    for link in &chain.links {
                        let gone = link.key_raw().is_null() && link.value_raw().is_null();
                        assert!(gone, "a chain whose first key is dead is dead");
                    }
                }
                for (index, chain) in self.chains.iter().enumerate() {
                    let first = self.types.slots.get(mutator, object(firsts), index);
                    let key = address(chain.links[0].key_raw());
                    assert!(first == key, "the first key is the one of the table");
                    self.check(mutator, chain);
                    sum = sum.wrapping_add(self.survivor(chain));
                }
            }
            Ok(sum)
        })
    }

    /// A new chain. Its first key lives as long as nothing is allocated; the caller puts it into the table.
    fn chain(&mut self, mutator: &mut Mutator) -> Result<Chain, OutOfMemory> {
        let mut length = 1 + self.random.below(LONGEST);
        if self.random.below(64) == 0 {
            length *= 8;
        }
        let backward = self.random.below(2) == 0;
        let first = self.next;
        let keys = self.types.slots.fresh(mutator, length as usize + 1)?;
        frame(mutator, [keys], |mutator, [keys]| {
            for index in 0..=length as usize {
                self.key(mutator, keys, index)?;
            }
            let mut links: Vec<Option<Ephemeron>> = (0..length).map(|_| None).collect();
            for step in 0..length as usize {
                let link = if backward {
                    length as usize - 1 - step
                } else {
                    step
                };
                let [key, value] =
                    [link, link + 1].map(|at| self.types.slots.get(mutator, object(keys), at));
                // SAFETY: both are keys that were just read.
                links[link] = unsafe { mutator.ephemeron_raw(key, value) };
            }
            let links = links
                .into_iter()
                .map(|link| link.expect("a heap can have more ephemerons than this"))
                .collect();
            Ok(Chain { first, links })
        })
    }

    /// A fresh key for a place in an array of keys; it refers to the one before it.
    fn key(
        &mut self,
        mutator: &mut Mutator,
        keys: &std::cell::Cell<gleaner::raw::Value>,
        index: usize,
    ) -> Result<(), OutOfMemory> {
        let Types { key, slots, bytes } = self.types;
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

    /// A number made of a chain that lives.
    fn survivor(&self, chain: &Chain) -> u64 {
        let key = self.types.key;
        let last = chain.links.len() - 1;
        let [first, end] = [chain.links[0].key_raw(), chain.links[last].value_raw()].map(address);
        assert!(first != Address::NULL && end != Address::NULL, "it lives");
        scattered(key.long(first, 0) ^ key.long(end, 0) << 20)
    }

    /// Each link of a chain that lives is whole.
    fn check(&self, mutator: &Mutator, chain: &Chain) {
        let Types { key, bytes, .. } = self.types;
        for (index, link) in chain.links.iter().enumerate() {
            let [from, to] = [link.key_raw(), link.value_raw()].map(address);
            assert!(from != Address::NULL && to != Address::NULL, "it lives");
            let number = chain.first + index as u64;
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
            if let Some(next) = chain.links.get(index + 1) {
                assert!(next.key_raw() == value(to), "it is the key of the next");
            }
        }
    }
}
