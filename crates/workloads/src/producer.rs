//! One thread allocates messages, the others consume them.
//!
//! Batches of messages go through a ring of a few places. All allocation is one thread's, all reading is the others':
//! what one processor wrote another one reads, and consumers hold on to nothing. A producer that is alone consumes what
//! finds no place.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard};

use gleaner::raw::{Address, Value};
use gleaner::{Handle, Heap, Mutator, OutOfMemory};

use super::mutators::{Mutators, lock, wait};
use super::objects::{
    Allocated, Code, Numbers, Record, Slots, address, frame, object, shared, value,
};
use super::random::{hash_of, scattered};
use super::{Facts, Prepared, Scale, Workload, failed};

/// Places of the ring.
const PLACES: usize = 64;
/// Messages of a batch.
const BATCH: u64 = 16;
/// Bytes of a message, at most.
const LARGEST: u64 = 1024;

struct Producer<F> {
    /// The next message, the bytes; its number.
    message: Record<F, 2, 8>,
    bytes: Numbers<F, u8>,
    slots: Slots<F>,
    batches: u64,
}

/// The ring: batches from `first` on.
struct Ring {
    first: usize,
    count: usize,
    /// No more will come.
    over: bool,
}

/// What the threads share.
struct Exchange {
    ring: Mutex<Ring>,
    places: Handle,
    changed: Condvar,
}

/// 64,000 batches, or 640.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    Ok(Box::new(Producer::<F> {
        message: Record::register(heap).map_err(failed)?,
        bytes: Numbers::register(heap).map_err(failed)?,
        slots: Slots::register(heap).map_err(failed)?,
        batches: scale.of(64_000, 640),
    }))
}

impl<F: Code> Workload for Producer<F> {
    /// A number made of all messages, whichever thread consumed them.
    fn run(
        &self,
        mutator: &mut Mutator,
        mutators: &Mutators,
        facts: &mut Facts,
    ) -> Result<u64, OutOfMemory> {
        let places = self.slots.fresh(mutator, PLACES)?;
        let exchange = Exchange {
            ring: Mutex::new(Ring {
                first: 0,
                count: 0,
                over: false,
            }),
            places: shared(mutator, places),
            changed: Condvar::new(),
        };
        let alone = mutators.threads == 1;
        let sums = mutators.run(mutator, |mutator, number| match number {
            0 => self.produce(mutator, &exchange, alone),
            _ => self.consume_all(mutator, &exchange),
        })?;
        let [messages, sum] = sums
            .into_iter()
            .fold([0u64; 2], |[all, sum], [more, part]| {
                [all + more, sum.wrapping_add(part)]
            });
        assert_eq!(
            messages,
            self.batches * BATCH,
            "each message was consumed once"
        );
        facts.insert("messages".into(), messages.into());
        Ok(sum)
    }
}

/// Says that no more will come, even if the producer ran out of memory.
struct Over<'a>(&'a Exchange);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        // A panic is its own message.
        if let Ok(mut ring) = self.0.ring.lock() {
            ring.over = true;
        }
        self.0.changed.notify_all();
    }
}

impl<F: Code> Producer<F> {
    /// Makes all batches; what it consumed by itself.
    fn produce(
        &self,
        mutator: &mut Mutator,
        exchange: &Exchange,
        alone: bool,
    ) -> Result<[u64; 2], OutOfMemory> {
        let mut consumed = [0; 2];
        let made = {
            let made = (0..self.batches).try_for_each(|batch| {
                let batch = self.batch(mutator, batch)?;
                frame(mutator, [batch], |mutator, [batch]| {
                    self.put(mutator, exchange, batch, alone, &mut consumed)
                })
            });
            // Takes the lock while nobody who has it waits for this thread.
            mutator.blocking(|| drop(Over(exchange)));
            made
        };
        made?;
        if alone {
            add(&mut consumed, self.consume_all(mutator, exchange)?);
        }
        Ok(consumed)
    }

    /// Puts a batch into the ring when there is a place.
    fn put(
        &self,
        mutator: &mut Mutator,
        exchange: &Exchange,
        batch: &Cell<Value>,
        alone: bool,
        consumed: &mut [u64; 2],
    ) -> Result<(), OutOfMemory> {
        let mut ring = lock(mutator, &exchange.ring);
        while ring.count == PLACES {
            if alone {
                let taken = self.taken(mutator, exchange, ring)?;
                add(consumed, self.consumed(mutator, taken));
                ring = lock(mutator, &exchange.ring);
            } else {
                ring = wait(mutator, &exchange.changed, ring);
            }
        }
        let place = (ring.first + ring.count) % PLACES;
        let places = address(exchange.places.get_raw());
        self.slots.set(mutator, places, place, object(batch))?;
        ring.count += 1;
        drop(ring);
        exchange.changed.notify_all();
        Ok(())
    }

    /// Takes the first batch; there is one.
    fn taken(
        &self,
        mutator: &mut Mutator,
        exchange: &Exchange,
        mut ring: MutexGuard<'_, Ring>,
    ) -> Allocated {
        let places = || address(exchange.places.get_raw());
        let batch = self.slots.get(mutator, places(), ring.first);
        frame(mutator, [batch], |mutator, [batch]| {
            self.slots
                .set(mutator, places(), ring.first, Address::NULL)?;
            ring.first = (ring.first + 1) % PLACES;
            ring.count -= 1;
            drop(ring);
            exchange.changed.notify_all();
            Ok(object(batch))
        })
    }

    /// A list of messages.
    fn batch(&self, mutator: &mut Mutator, batch: u64) -> Allocated {
        frame(mutator, [Address::NULL; 2], |mutator, [list, bytes]| {
            for number in batch * BATCH..(batch + 1) * BATCH {
                let length = scattered(number) % LARGEST;
                bytes.set(value(self.bytes.filled(
                    mutator,
                    length as usize,
                    |_, bytes| {
                        for (index, byte) in bytes.iter_mut().enumerate() {
                            *byte = number.wrapping_add(index as u64) as u8;
                        }
                    },
                )?));
                let message = self.message.fresh(mutator)?;
                self.message.set_long(message, 0, number);
                self.message.set(mutator, message, 0, object(list));
                self.message.set(mutator, message, 1, object(bytes));
                list.set(value(message));
            }
            Ok(object(list))
        })
    }

    /// Consumes until no more will come.
    fn consume_all(
        &self,
        mutator: &mut Mutator,
        exchange: &Exchange,
    ) -> Result<[u64; 2], OutOfMemory> {
        let mut all = [0; 2];
        loop {
            let mut ring = lock(mutator, &exchange.ring);
            while ring.count == 0 {
                if ring.over {
                    return Ok(all);
                }
                ring = wait(mutator, &exchange.changed, ring);
            }
            let batch = self.taken(mutator, exchange, ring)?;
            add(&mut all, self.consumed(mutator, batch));
        }
    }

    /// How many messages a batch has, and a number made of them.
    fn consumed(&self, mutator: &Mutator, mut message: Address) -> [u64; 2] {
        let mut all = [0; 2];
        while message != Address::NULL {
            let bytes = self.message.get(mutator, message, 1);
            let hash = self.bytes.look(mutator, bytes, hash_of);
            let number = self.message.long(message, 0);
            add(&mut all, [1, scattered(hash.wrapping_add(number))]);
            message = self.message.get(mutator, message, 0);
        }
        all
    }
}

fn add(sum: &mut [u64; 2], more: [u64; 2]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum = sum.wrapping_add(more);
    }
}
