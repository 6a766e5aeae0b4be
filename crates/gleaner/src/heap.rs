//! A heap: its setup, and what all threads share.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use gleaner_base::options::{OldPolicy, Parking, Prefetch, TraceOrder, Verify};
use gleaner_mem::object_model::{Shape, TypeId};
use gleaner_mem::slot::{Compressed, SlotFormat, Wide};
use gleaner_os::threads;
use gleaner_plans::scavenge::mutator::Mutator as Record;
use gleaner_plans::scavenge::{Config, CreateError, Scavenge, Totals};

use crate::crew::Helpers;
use crate::mutator::Mutator;
use crate::types::{
    Array, Elements, Id, MOST_STRUCTURE_BYTES, ReferenceArray, Structure, Type, TypeError,
};

/// How wide references in objects are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum References {
    /// 8 bytes.
    #[default]
    Wide,
    /// 4 bytes; the heap is at most 16 GB.
    Compressed,
}

/// The heap is full: collecting everything did not make room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// Bytes of the object that found no room.
    pub bytes: usize,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "out of memory: no room for an object of {} bytes after collecting everything; drop what is not needed, \
             or build the heap with a higher limit",
            self.bytes
        )
    }
}

impl std::error::Error for OutOfMemory {}

/// The heap behind its handles: either slot format.
pub(crate) enum Kind {
    Wide(Box<Scavenge<Wide>>),
    Compressed(Box<Scavenge<Compressed>>),
}

/// Runs the same code on either kind.
macro_rules! with_heap {
    ($kind:expr, $heap:ident => $body:expr) => {
        match $kind {
            $crate::heap::Kind::Wide($heap) => $body,
            $crate::heap::Kind::Compressed($heap) => $body,
        }
    };
}
pub(crate) use with_heap;

/// How many heaps were made.
static HEAPS: AtomicU32 = AtomicU32::new(0);

/// What heaps, mutators and handles share.
pub(crate) struct Shared {
    /// No other heap of the process has it: types remember it.
    pub(crate) number: u32,
    /// Before the helpers: it is dropped first.
    pub(crate) kind: Kind,
    _helpers: Helpers,
}

/// A heap of precise objects. A process may have any number; clones are the same heap. It ends with its last clone,
/// mutator and handle.
#[derive(Clone)]
pub struct Heap {
    pub(crate) shared: Arc<Shared>,
}

impl fmt::Debug for Heap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Heap")
            .field("limit", &self.limit())
            .field("used", &self.used())
            .finish_non_exhaustive()
    }
}

impl Heap {
    /// A heap to be set up. Without a limit it gets a quarter of the machine's memory, at most 8 GB.
    pub fn builder() -> Builder {
        Builder {
            config: Config {
                limit: 0,
                young: 0,
                resize: true,
                workers: threads::processors().clamp(1, 16),
                parking: Parking::Futex,
                tenure: 1,
                tlab: 32 << 10,
                old: OldPolicy::MarkCompact,
                trace_order: TraceOrder::Depth,
                prefetch: Prefetch::Edges,
                verify: Verify::Off,
                stress: 0,
                poison: false,
            },
            references: References::Wide,
        }
    }

    /// Registers a type with a fixed size.
    pub fn structure(&self, shape: Structure) -> Result<Type, TypeError> {
        let layout = shape.layout(self.slot_bytes());
        if layout.total > MOST_STRUCTURE_BYTES {
            return Err(TypeError::Size(layout.total));
        }
        let references: Vec<u32> = layout.offsets().collect();
        let id = self.register_own(Shape::Structure {
            bytes: layout.total,
            references: &references,
        })?;
        Ok(Type { id, layout })
    }

    /// Registers a type of arrays of references.
    pub fn reference_array(&self) -> Result<ReferenceArray, TypeError> {
        Ok(ReferenceArray(self.register_own(Shape::References)?))
    }

    /// Registers a type of arrays without references.
    pub fn array(&self, elements: Elements) -> Result<Array, TypeError> {
        let id = self.register_own(Shape::Primitives {
            log2: elements as u32,
        })?;
        Ok(Array(id, elements))
    }

    pub(crate) fn register(&self, shape: Shape<'_>) -> Result<TypeId, TypeError> {
        with_heap!(&self.shared.kind, heap => heap.register(shape))
    }

    fn register_own(&self, shape: Shape<'_>) -> Result<Id, TypeError> {
        Ok(Id {
            heap: self.shared.number,
            number: self.register(shape)?,
        })
    }

    /// The calling thread becomes a mutator. A thread that is one of this heap already waits for ever if another wants
    /// to collect meanwhile: it attaches once, or attaches inside [`Mutator::blocking`].
    /// A thread that is a mutator of two heaps uses the one inside `blocking` of the other, or two such threads may wait
    /// for each other. Fails when the system gives no memory for its roots.
    pub fn attach(&self) -> Result<Mutator, OutOfMemory> {
        let record: Option<NonNull<Record>> = with_heap!(&self.shared.kind, heap => heap.attach());
        let bytes = size_of::<Record>();
        let record = record.ok_or(OutOfMemory { bytes })?;
        Ok(Mutator::new(self.shared.clone(), record))
    }

    /// How many clones, mutators and handles keep this heap beside this value.
    pub fn other_holders(&self) -> usize {
        Arc::strong_count(&self.shared) - 1
    }

    /// Bytes that all objects together may have.
    pub fn limit(&self) -> usize {
        with_heap!(&self.shared.kind, heap => heap.config.limit)
    }

    /// Bytes in use, by objects dead or alive and by buffers.
    pub fn used(&self) -> usize {
        with_heap!(&self.shared.kind, heap => heap.used())
    }

    /// Bytes of the collector's tables beside the heap; they do not count toward the limit.
    pub fn metadata_bytes(&self) -> usize {
        with_heap!(&self.shared.kind, heap => heap.metadata_bytes())
    }

    /// What collections did so far. Not to be called by a mutator outside of [`Mutator::blocking`], or a collection
    /// that another thread wants would wait for this one for ever; a mutator asks [`Mutator::totals`].
    pub fn totals(&self) -> Totals {
        with_heap!(&self.shared.kind, heap => heap.totals())
    }

    /// How wide references in objects are.
    pub fn references(&self) -> References {
        match &self.shared.kind {
            Kind::Wide(_) => References::Wide,
            Kind::Compressed(_) => References::Compressed,
        }
    }

    pub(crate) fn slot_bytes(&self) -> usize {
        match self.references() {
            References::Wide => Wide::BYTES,
            References::Compressed => Compressed::BYTES,
        }
    }
}

/// The setup of a heap.
#[derive(Clone, Debug)]
pub struct Builder {
    config: Config,
    references: References,
}

impl Builder {
    /// Bytes that all spaces together may have; at least 1 MB, rounded to 64 KB.
    pub fn limit(mut self, bytes: usize) -> Self {
        self.config.limit = bytes;
        self
    }

    /// Bytes of the young generation at first; a third of the limit unless given, at most 64 MB.
    pub fn young(mut self, bytes: usize) -> Self {
        self.config.young = bytes;
        self
    }

    /// Whether the generations change their sizes as the program needs; they do unless told otherwise.
    pub fn resize(mut self, resize: bool) -> Self {
        self.config.resize = resize;
        self
    }

    /// Threads that collect, the one that asks for a collection included; one a processor unless given, at most 16.
    pub fn workers(mut self, workers: usize) -> Self {
        self.config.workers = workers;
        self
    }

    /// How the threads that collect wait for work: each on a futex of its own unless told otherwise.
    pub fn parking(mut self, parking: Parking) -> Self {
        self.config.parking = parking;
        self
    }

    /// How wide references in objects are.
    pub fn references(mut self, references: References) -> Self {
        self.references = references;
        self
    }

    /// How many collections an object survives before the next one makes it old; 1 unless given, at most 15.
    pub fn tenure(mut self, collections: u32) -> Self {
        self.config.tenure = collections.min(gleaner_mem::header::Header::OLDEST);
        self
    }

    /// Bytes of the buffer in which a mutator allocates; 32 KB unless given.
    pub fn tlab(mut self, bytes: usize) -> Self {
        self.config.tlab = bytes.next_multiple_of(8).max(64);
        self
    }

    /// How the old generation is collected: `mark-compact` unless given.
    pub fn old(mut self, policy: OldPolicy) -> Self {
        self.config.old = policy;
        self
    }

    /// Which grey object is scanned next.
    pub fn trace_order(mut self, order: TraceOrder) -> Self {
        self.config.trace_order = order;
        self
    }

    /// Whether the collector prefetches what it will look at.
    pub fn prefetch(mut self, prefetch: bool) -> Self {
        self.config.prefetch = if prefetch {
            Prefetch::Edges
        } else {
            Prefetch::None
        };
        self
    }

    /// For testing: checks the heap's invariants before and after each collection.
    pub fn verify(mut self, verify: bool) -> Self {
        self.config.verify = if verify { Verify::Edges } else { Verify::Off };
        self
    }

    /// For testing: collects at every n-th allocation of each mutator; 0 for never.
    pub fn stress(mut self, every: u32) -> Self {
        self.config.stress = every;
        self
    }

    /// For testing: overwrites what is freed.
    pub fn poison(mut self, poison: bool) -> Self {
        self.config.poison = poison;
        self
    }

    /// Makes the heap.
    pub fn build(self) -> Result<Heap, CreateError> {
        let mut config = self.config;
        if config.limit == 0 {
            let physical = gleaner_os::memory::physical_memory() as usize;
            config.limit = (physical / 4).min(8 << 30);
        }
        let helpers = Helpers::new(config.workers.saturating_sub(1), config.parking);
        let kind = match self.references {
            References::Wide => Kind::Wide(Scavenge::new(config, helpers.crew())?),
            References::Compressed => Kind::Compressed(Scavenge::new(config, helpers.crew())?),
        };
        Ok(Heap {
            shared: Arc::new(Shared {
                number: HEAPS.fetch_add(1, Ordering::Relaxed),
                kind,
                _helpers: helpers,
            }),
        })
    }
}
