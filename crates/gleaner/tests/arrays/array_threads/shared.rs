//! What the tests of racing mutators share: a case, numbers of any width, and the threads.

use std::sync::Barrier;

use crate::random::Rng;
use gleaner::raw::Address;
use gleaner::{Elements, Handle, Heap, Local, Mutator, Number, Scope, Structure, Type};

/// What a test runs with.
pub struct Case {
    pub seed: u64,
    pub threads: usize,
    options: String,
}

impl Case {
    /// Reads a line. Panics if it is none.
    pub fn parse(line: &str) -> Case {
        let (front, options) = line.split_once(" options=").expect("options=");
        let mut words = front
            .split(' ')
            .map(|word| word.split_once('=').expect("a word").1);
        let mut number = || words.next().expect("a word").parse().expect("a number");
        Case {
            seed: number() as u64,
            threads: number(),
            options: options.into(),
        }
    }

    /// The same with arrays cut in another way, and under nothing that shares more than it has to.
    pub fn with(&self, arrays: &str) -> Case {
        Case {
            options: format!("arrays={arrays},workers=2,verify=edges,poison=on"),
            ..*self
        }
    }

    /// Whether copies of arrays of numbers share arraylets: where they are cut, and copied on write.
    pub fn shares_numbers(&self) -> bool {
        let has = |option: &str| self.options.contains(option);
        let is_cut = has("arrays=") && !has("contiguous") && !has("array-kinds=references");
        is_cut && (has("arrays=zray") || has("copy-on-write=on"))
    }

    pub fn heap(&self) -> Heap {
        let options = format!("heap-limit=24m,{}", self.options);
        Heap::builder().options(&options).unwrap().build().unwrap()
    }

    /// Numbers for a round, the same in every run.
    pub fn random(&self, round: u64) -> Rng {
        Rng::new(self.seed << 20 | round << 8)
    }

    /// Numbers for a thread in a round.
    pub fn random_of(&self, round: u64, thread: usize) -> Rng {
        Rng::new(self.seed << 20 | round << 8 | (thread as u64 + 1))
    }

    /// Runs `body` on so many threads, which are mutators and begin at the same time; what they return.
    pub fn race<R: Send>(
        &self,
        heap: &Heap,
        main: &mut Mutator,
        body: impl Fn(&mut Mutator, usize) -> R + Sync,
    ) -> Vec<R> {
        let (barrier, body) = (&Barrier::new(self.threads), &body);
        main.blocking(|| {
            std::thread::scope(|threads| {
                let begin = |thread: usize| {
                    threads.spawn(move || {
                        let mut mutator = heap.attach().unwrap();
                        mutator.blocking(|| barrier.wait());
                        body(&mut mutator, thread)
                    })
                };
                let all: Vec<_> = (0..self.threads).map(begin).collect();
                all.into_iter()
                    .map(|thread| thread.join().unwrap())
                    .collect()
            })
        })
    }
}

/// Numbers that are made of 64 bits.
pub trait Bits: Number + PartialEq + std::fmt::Debug + Send + Sync {
    const KIND: Elements;
    /// The low bits.
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! bits {
    ($($number:ty, $elements:ident;)+) => {
        $(
            impl Bits for $number {
                const KIND: Elements = Elements::$elements;

                fn of(bits: u64) -> $number {
                    bits as $number
                }

                fn bits(self) -> u64 {
                    self.into()
                }
            }
        )+
    };
}

bits! { u8, Bytes; u16, Halves; u32, Words; u64, Doubles; }

/// Mixes bits.
pub fn mixed(bits: u64) -> u64 {
    Rng::new(bits).next()
}

/// A box holds a number.
pub fn box_type(heap: &Heap) -> Type {
    heap.structure(Structure {
        references: 1,
        bytes: 8,
    })
    .unwrap()
}

/// What is in an array of references.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    Null,
    Immediate(i64),
    Boxed(u64),
}

impl Item {
    /// The item as a new local.
    pub fn make<'s>(self, scope: &mut Scope<'s>, boxed: Type) -> Local<'s> {
        match self {
            Item::Null => scope.null(),
            Item::Immediate(number) => scope.integer(number).unwrap(),
            Item::Boxed(number) => {
                let made = scope.allocate(boxed).unwrap();
                scope.write_u64(made, 0, number).unwrap();
                made
            }
        }
    }

    /// Element `index` of an array. Panics if it is none of the three.
    pub fn read(scope: &mut Scope<'_>, array: Local<'_>, index: usize, boxed: Type) -> Item {
        scope.nested(|scope| {
            let found = scope.get(array, index);
            match scope.as_integer(found) {
                Some(number) => Item::Immediate(number),
                None if scope.is_null(found) => Item::Null,
                None => {
                    assert!(scope.is_a(found, boxed), "element {index} is no box");
                    Item::Boxed(scope.read_u64(found, 0))
                }
            }
        })
    }
}

/// Where the array of a handle is now.
pub fn address(handle: &Handle) -> Address {
    handle.get_raw().as_object().expect("an array")
}

/// A part of an array, and the thread that alone uses it.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub first: usize,
    pub count: usize,
    pub owner: usize,
}

/// Cuts an array of so many elements of `bytes` bytes: most blocks are small, so that several threads have elements of
/// the same arraylet; some have several arraylets.
pub fn blocks(random: &mut Rng, length: usize, bytes: usize, threads: usize) -> Vec<Block> {
    let (mut all, mut first) = (Vec::new(), 0);
    while first < length {
        let most = [1, 7, 40, 300, 3000][random.below(5)] / bytes + 1;
        let count = (1 + random.below(most)).min(length - first);
        let owner = random.below(threads);
        all.push(Block {
            first,
            count,
            owner,
        });
        first += count;
    }
    all
}
