//! Ephemerons in chains, step by step as in `gleaner-bench native`: the value of one is the key of the next, and a table
//! keeps the first key of each chain and nothing else.

use std::cell::Cell;

use crate::context::{Context, Mode};
use crate::mutators;
use crate::object::References;
use crate::records::{Record, copied};
use crate::shared::Scale;
use crate::shared::random::{Random, scattered};
use crate::weak::Ephemeron;

const ROUNDS: u32 = 5;
/// Chains have from 1 to this many ephemerons. One chain in 64 has eight times as many as were drawn.
const LONGEST: u32 = 8;

/// A key refers to the one before it and to a few bytes, and has a number.
const KEY: Record = Record::new(2, 8);

/// A chain as it was made.
struct Chain {
    first: u64,
    links: Vec<Ephemeron>,
}

/// What one mutator makes chains from.
struct Maker {
    random: Random,
    /// The number of the next key.
    next: u64,
}

/// Runs once, 20,000 chains, each of which is replaced about once a round, or a hundred; a number made of the survivors
/// of each round.
pub fn ephemerons<R: References, M: Mode>(
    context: &mut Context<R, M>,
    threads: u32,
    scale: &Scale,
) -> u64 {
    let count = scale.of(20_000, 100);
    mutators::own(context, threads, |context, number| {
        let maker = Maker {
            random: Random::new(4000 + u64::from(number)),
            next: u64::from(number) << 40,
        };
        rounds(context, count, maker)
    })
}

fn rounds<R: References, M: Mode>(
    context: &mut Context<R, M>,
    count: usize,
    mut maker: Maker,
) -> u64 {
    let firsts = context.references(count);
    context.with_roots([firsts], |context, [firsts]| {
        // `[i]`: the chain whose first key is element i of the table.
        let (mut chains, mut dropped) = (Vec::new(), Vec::new());
        for index in 0..count {
            let chain = maker.chain(context);
            context.set_element(firsts.get(), index, chain.links[0].key());
            chains.push(chain);
        }
        let mut sum = 0u64;
        for _ in 0..ROUNDS {
            for _ in 0..count {
                let index = maker.random.below(count as u32) as usize;
                let chain = maker.chain(context);
                context.set_element(firsts.get(), index, chain.links[0].key());
                dropped.push(std::mem::replace(&mut chains[index], chain));
                let other = maker.random.below(count as u32) as usize;
                sum = sum.wrapping_add(chains[other].survivor(context));
            }
            context.collect();
            for chain in dropped.drain(..) {
                for link in &chain.links {
                    let gone = link.key() == 0 && link.value() == 0;
                    assert!(gone, "a chain whose first key is dead is dead");
                }
            }
            for (index, chain) in chains.iter().enumerate() {
                let first = context.element(firsts.get(), index);
                let key = chain.links[0].key();
                assert!(first == key, "the first key is the one of the table");
                chain.check(context);
                sum = sum.wrapping_add(chain.survivor(context));
            }
        }
        sum
    })
}

impl Maker {
    /// A new chain. Its first key lives as long as nothing is allocated; the caller puts it into the table.
    fn chain<R: References, M: Mode>(&mut self, context: &mut Context<R, M>) -> Chain {
        let mut length = 1 + self.random.below(LONGEST) as usize;
        if self.random.below(64) == 0 {
            length *= 8;
        }
        let backward = self.random.below(2) == 0;
        let first = self.next;
        let keys = context.references(length + 1);
        context.with_roots([keys], |context, [keys]| {
            for index in 0..=length {
                self.key(context, keys, index);
            }
            let link = |link| {
                let [key, value] = [link, link + 1].map(|at| context.element(keys.get(), at));
                context.ephemeron(key, value)
            };
            let links = if backward {
                let mut links: Vec<_> = (0..length).rev().map(link).collect();
                links.reverse();
                links
            } else {
                (0..length).map(link).collect()
            };
            Chain { first, links }
        })
    }

    /// A fresh key for a place in an array of keys; it refers to the one before it.
    fn key<R: References, M: Mode>(
        &mut self,
        context: &mut Context<R, M>,
        keys: &Cell<usize>,
        index: usize,
    ) {
        let content = copied(context, self.next.to_le_bytes().repeat(8).as_slice());
        context.with_roots([content], |context, [content]| {
            let fresh = KEY.fresh(context);
            KEY.set_long(context, fresh, 0, self.next);
            self.next += 1;
            context.set(fresh, 1, content.get());
            if index > 0 {
                context.set(fresh, 0, context.element(keys.get(), index - 1));
            }
            context.set_element(keys.get(), index, fresh);
        });
    }
}

impl Chain {
    /// A number made of a chain that lives.
    fn survivor<R: References, M: Mode>(&self, context: &Context<R, M>) -> u64 {
        let (first, last) = (&self.links[0], &self.links[self.links.len() - 1]);
        let (first, end) = (first.key(), last.value());
        assert!(first != 0 && end != 0, "it lives");
        scattered(KEY.long(context, first, 0) ^ KEY.long(context, end, 0) << 20)
    }

    /// Each link of a chain that lives is whole.
    fn check<R: References, M: Mode>(&self, context: &Context<R, M>) {
        for (index, link) in self.links.iter().enumerate() {
            let (from, to) = (link.key(), link.value());
            assert!(from != 0 && to != 0, "it lives");
            let number = self.first + index as u64;
            assert_eq!(
                KEY.long(context, from, 0),
                number,
                "the key is the one that was made"
            );
            assert_eq!(KEY.long(context, to, 0), number + 1, "so is the value");
            assert!(context.get(to, 0) == from, "the value refers to the key");
            let content = context.get(from, 1);
            let whole = context.look(content, |all: &[u8]| all[56..] == number.to_le_bytes());
            assert!(whole, "the key has its bytes");
            if let Some(next) = self.links.get(index + 1) {
                assert!(next.key() == to, "it is the key of the next");
            }
        }
    }
}
