//! One thread allocates messages, the others consume them, through a ring of a few batches.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::context::{Context, Mode};
use crate::handles::Handle;
use crate::mutators::{self, lock, wait};
use crate::object::References;
use crate::records::Record;
use crate::shared::Scale;
use crate::shared::random::{hash_of, scattered};

/// Places of the ring.
const PLACES: usize = 64;
/// Messages of a batch.
const BATCH: u64 = 16;
/// Bytes of a message, at most.
const LARGEST: u64 = 1024;

/// The next message, the bytes; its number.
const MESSAGE: Record = Record::new(2, 8);

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

/// How many messages were consumed, and a number made of them.
#[derive(Default)]
struct Consumed {
    messages: u64,
    sum: u64,
}

impl Consumed {
    fn add(&mut self, more: Consumed) {
        self.messages += more.messages;
        self.sum = self.sum.wrapping_add(more.sum);
    }
}

/// Runs once, 64,000 batches, or 640; a number made of all messages, whichever thread consumed them.
pub fn producer<R: References, M: Mode>(
    context: &mut Context<R, M>,
    threads: u32,
    scale: &Scale,
) -> u64 {
    let batches = scale.of(64_000, 640);
    let exchange = Exchange {
        ring: Mutex::new(Ring {
            first: 0,
            count: 0,
            over: false,
        }),
        places: Handle::new(context.references(PLACES)),
        changed: Condvar::new(),
    };
    let parts = mutators::run(context, threads, |context, number| match number {
        0 => produce(context, &exchange, batches, threads == 1),
        _ => consume_all(context, &exchange),
    });
    let mut all = Consumed::default();
    for part in parts {
        all.add(part);
    }
    assert_eq!(
        all.messages,
        batches * BATCH,
        "each message was consumed once"
    );
    all.sum
}

/// Makes all batches; what it consumed by itself.
fn produce<R: References, M: Mode>(
    context: &mut Context<R, M>,
    exchange: &Exchange,
    batches: u64,
    alone: bool,
) -> Consumed {
    let mut consumed = Consumed::default();
    for batch in 0..batches {
        let batch = new_batch(context, batch);
        context.with_roots([batch], |context, [batch]| {
            put(context, exchange, batch, alone, &mut consumed);
        });
    }
    lock(context, &exchange.ring).over = true;
    exchange.changed.notify_all();
    if alone {
        consumed.add(consume_all(context, exchange));
    }
    consumed
}

/// Puts a batch into the ring when there is a place.
fn put<R: References, M: Mode>(
    context: &mut Context<R, M>,
    exchange: &Exchange,
    batch: &Cell<usize>,
    alone: bool,
    consumed: &mut Consumed,
) {
    let mut ring = lock(context, &exchange.ring);
    while ring.count == PLACES {
        if alone {
            let taken = take(context, exchange, ring);
            consumed.add(consume(context, taken));
            ring = lock(context, &exchange.ring);
        } else {
            ring = wait(context, &exchange.changed, ring);
        }
    }
    let place = (ring.first + ring.count) % PLACES;
    context.set_element(exchange.places.get(), place, batch.get());
    ring.count += 1;
    drop(ring);
    exchange.changed.notify_all();
}

/// Takes the first batch; there is one.
fn take<R: References, M: Mode>(
    context: &mut Context<R, M>,
    exchange: &Exchange,
    mut ring: MutexGuard<'_, Ring>,
) -> usize {
    let places = exchange.places.get();
    let batch = context.element(places, ring.first);
    context.set_element(places, ring.first, 0);
    ring.first = (ring.first + 1) % PLACES;
    ring.count -= 1;
    drop(ring);
    exchange.changed.notify_all();
    batch
}

/// A list of messages.
fn new_batch<R: References, M: Mode>(context: &mut Context<R, M>, batch: u64) -> usize {
    context.with_roots([0, 0], |context, [list, bytes]| {
        for number in batch * BATCH..(batch + 1) * BATCH {
            let length = scattered(number) % LARGEST;
            bytes.set(context.bytes(length as usize));
            context.change(bytes.get(), |bytes: &mut [u8]| {
                for (index, byte) in bytes.iter_mut().enumerate() {
                    *byte = number.wrapping_add(index as u64) as u8;
                }
            });
            let message = MESSAGE.fresh(context);
            MESSAGE.set_long(context, message, 0, number);
            context.set(message, 0, list.get());
            context.set(message, 1, bytes.get());
            list.set(message);
        }
        list.get()
    })
}

/// Consumes until no more will come.
fn consume_all<R: References, M: Mode>(
    context: &mut Context<R, M>,
    exchange: &Exchange,
) -> Consumed {
    let mut all = Consumed::default();
    loop {
        let mut ring = lock(context, &exchange.ring);
        while ring.count == 0 {
            if ring.over {
                return all;
            }
            ring = wait(context, &exchange.changed, ring);
        }
        let batch = take(context, exchange, ring);
        all.add(consume(context, batch));
    }
}

/// Consumes a batch.
fn consume<R: References, M: Mode>(context: &Context<R, M>, mut message: usize) -> Consumed {
    let mut all = Consumed::default();
    while message != 0 {
        let hash = context.look(context.get(message, 1), hash_of);
        let number = MESSAGE.long(context, message, 0);
        all.add(Consumed {
            messages: 1,
            sum: scattered(hash.wrapping_add(number)),
        });
        message = context.get(message, 0);
    }
    all
}
