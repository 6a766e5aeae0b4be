//! Workloads whose mutators each have data of their own, at the scale of `--tiny`.

pub use super::random::chained;
use super::random::{Random, scattered};

/// A tree of `gcbench`.
struct Tree(u32, Vec<Tree>);

impl Tree {
    /// Both children get their numbers before either gets its own children.
    fn grow(&mut self, height: u32, next: &mut u32) {
        if height > 0 {
            for _ in 0..2 {
                *next += 1;
                self.1.push(Tree(*next, Vec::new()));
            }
            for child in &mut self.1 {
                child.grow(height - 1, next);
            }
        }
    }

    fn sum(&self, sum: u64) -> u64 {
        let sum = chained(sum, u64::from(self.0));
        self.1.iter().fold(sum, |sum, child| child.sum(sum))
    }
}

pub fn gcbench(_: u32) -> u64 {
    let mut kept = Tree(1, Vec::new());
    kept.grow(8, &mut 1);
    511 ^ kept.sum(0) << 24
}

pub fn queue(_: u32) -> u64 {
    (0..15_000).fold(0, chained)
}

pub fn refarray(thread: u32) -> u64 {
    let mut random = Random::new(2000 + u64::from(thread));
    let mut array: Vec<u64> = (0..1000).collect();
    for number in 0..10_000 {
        array[random.below(1000) as usize] = number;
    }
    array.into_iter().fold(0, chained)
}

pub fn quads(_: u32) -> u64 {
    // A tree is numbered in the order in which it is read.
    let (kept, dropped) = (1365, 400 * 85);
    (kept + 1..=kept + dropped).chain(1..=kept).fold(0, chained)
}

pub fn ephemerons(thread: u32) -> u64 {
    let mut random = Random::new(4000 + u64::from(thread));
    let mut next = u64::from(thread) << 40;
    // What a chain that survives comes to.
    let mut chain = |random: &mut Random| {
        let mut length = 1 + u64::from(random.below(8));
        if random.below(64) == 0 {
            length *= 8;
        }
        random.draw();
        let first = next;
        next += length + 1;
        scattered(first ^ (first + length) << 20)
    };
    let mut chains: Vec<u64> = (0..100).map(|_| chain(&mut random)).collect();
    let mut sum = 0u64;
    for _ in 0..5 {
        for _ in 0..100 {
            let index = random.below(100) as usize;
            chains[index] = chain(&mut random);
            sum = sum.wrapping_add(chains[random.below(100) as usize]);
        }
        sum = chains
            .iter()
            .fold(sum, |sum, &chain| sum.wrapping_add(chain));
    }
    sum
}

pub fn finalizers(thread: u32) -> u64 {
    let mut random = Random::new(5000 + u64::from(thread));
    let (length, steps) = (1000, 30_000);
    let mut table = vec![None; length as usize];
    let mut sum = 0u64;
    for step in 0..length + steps {
        let index = if step < length {
            step
        } else {
            random.below(length)
        };
        let number = u64::from(thread * (length + steps) + step);
        if let Some(replaced) = table[index as usize].replace(number) {
            sum = sum.wrapping_add(scattered(replaced));
        }
    }
    sum
}

pub fn tiny(thread: u32) -> u64 {
    let mut random = Random::new(6000 + u64::from(thread));
    let mut lists = vec![0; 64];
    let mut sum = 0;
    for step in 0..2000 {
        let length = u64::from(1 + random.below(16));
        let list = (0..length)
            .rev()
            .fold(0, |sum, number| chained(sum, step << 8 | number));
        let index = random.below(64) as usize;
        sum = chained(sum, std::mem::replace(&mut lists[index], list));
    }
    lists.into_iter().fold(sum, chained)
}
