//! A heap: what all threads share.

use std::fmt;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use gleaner_base::events::Event;
use gleaner_base::options::References;
use gleaner_mem::object_model::{self, LEAST_BYTES, Shape, TypeId};
use gleaner_mem::slot::{Compressed, SlotFormat, Wide};
use gleaner_os::log_file::LogFile;
use gleaner_os::numa::Refusal;
use gleaner_os::output::Fd;
use gleaner_os::refusal::Limit;
use gleaner_plans::scavenge::locality::Sums as Locality;
use gleaner_plans::scavenge::{Config, CreateError, Totals};
use gleaner_plans::shared::log_ends;
use gleaner_plans::shared::snapshot::Snapshots;
use gleaner_work::Synchronisation;

use crate::body::{Body, Kind, Shared, with_heap};
use crate::build_error::BuildError;
use crate::crew::Helpers;
use crate::fields::{Fields, Slots};
use crate::listeners::{Collection, Listeners};
use crate::members::{Callback, Runs};
use crate::threads::Factory;
use crate::types::{
    Array, Elements, EphemeronTable, Id, MOST_STRUCTURE_BYTES, ReferenceArray, Structure, Tail,
    Tailed, Type, TypeError, WeakArray,
};
use crate::wanted::Wanted;
use crate::zeroers::Zeroers;
use crate::{exit, fork, members};

/// The error of [`Heap::close`] where the heap is still in use.
#[derive(Debug)]
pub struct StillInUse {
    /// The heap, which can be closed later.
    pub heap: Heap,
    /// The number of attached mutators.
    pub mutators: usize,
    /// The number of handles, weak references, ephemerons, and other clones of the heap.
    pub others: usize,
}

impl fmt::Display for StillInUse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "the heap is in use, so it is not closed: attached mutators: {}; handles, weak references, ephemerons and \
             other clones of it: {}; drop them first",
            self.mutators, self.others
        )
    }
}

impl std::error::Error for StillInUse {}

/// How many heaps were made.
static HEAPS: AtomicU32 = AtomicU32::new(0);

impl Drop for Body {
    fn drop(&mut self) {
        // Before any of it is gone.
        fork::remove(self);
        self.end();
        // SAFETY: nobody has the heap any more, so it has no mutators.
        let report = with_heap!(&self.kind, heap => unsafe { heap.last_array_report() });
        // A heap in which nothing was allocated was refused by the program, or of no use to it.
        if let Some(report) = report.filter(|report| report.allocated > 0) {
            eprint!("{report}");
        }
    }
}

/// A heap of objects whose references the collector knows precisely. A process may have any number of heaps. Clones of
/// this value are the same heap.
///
/// The heap ends when the last of its clones, mutators, handles, weak references and ephemerons is dropped, on
/// whichever thread that happens. Then its threads end, and its memory goes back to the system. So it is safe to drop a
/// heap that is in use; that frees nothing yet. A caller who wants to know calls [`Heap::close`].
///
/// A forked child has the heap as it was, with the mutators of the thread that forked. Objects of these mutators do not
/// move in the fork. Mutators of other threads are gone, and so are their roots. Clones and handles that other threads
/// held remain allocated, as does all memory of those threads. The child's first collection starts the heap's threads
/// again. A fork waits until each other mutator polls, allocates on the slow path, or blocks.
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

/// Says once for the process why pages do not lie where the options would have them.
fn say_where_pages_lie(is_left: bool, refusal: Option<Refusal>) {
    static WAS_SAID: AtomicBool = AtomicBool::new(false);
    let text = match refusal {
        Some(refusal) => refusal.to_string(),
        None if is_left => "a memory policy was set from outside (numactl), so plan=naps leaves pages to it; options \
                            pages and old-pages place them nevertheless"
            .to_string(),
        None => return,
    };
    if !WAS_SAID.swap(true, Ordering::Relaxed) {
        eprintln!("gleaner: {text}");
    }
}

impl Heap {
    /// Makes a heap; the log is open.
    pub(crate) fn create(
        config: Config,
        references: References,
        log: Option<File>,
        unknown_layout: Option<&'static str>,
        factory: Factory,
    ) -> Result<Heap, BuildError> {
        let helpers = Helpers::new(&config, &factory);
        let mut kind = Kind::new(references, config, helpers.crew())?;
        let number = HEAPS.fetch_add(1, Ordering::Relaxed);
        if let Some(log) = &log {
            let mut log = Some(LogFile::new(Fd(log.as_raw_fd())));
            log_ends::write_start(&mut log, &config.options, &config.topology, number + 1);
            with_heap!(&kind, heap => heap.set_log(log, number + 1));
        }
        let wanted = Wanted::new(&config.options);
        let snapshots = Snapshots::from_options(&config.options, number);
        with_heap!(&kind, heap => heap.set_snapshots(snapshots));
        if wanted.any() || log.is_some() || config.options.stats {
            exit::watch();
        }
        let listeners = Listeners::new();
        let told = listeners.clone();
        let refusal = with_heap!(&kind, heap => heap.refusal);
        say_where_pages_lie(config.leaves_pages, refusal);
        with_heap!(&mut kind, heap => {
            heap.set_stand_aside(fork::stand_aside, number);
            heap.ended = Some(Box::new(move || members::bury(number)));
            heap.leading = Some(Box::new(move |lead| {
                // The thread has left the gate as this mutator.
                let member = members::inside(number);
                let _runs = member.map(|member| Runs::new(member, Callback::Collection));
                lead();
            }));
            heap.listener = Some(Box::new(move |events| {
                // The thread that led is outside of the gate.
                let member = members::inside(number);
                let runs = member.map(|member| Runs::new(member, Callback::Listener));
                told.tell(events);
                let (what, remedy) = (
                    "the end of a listener",
                    "drop the second mutator in the listener",
                );
                members::assert_no_second(number, what, remedy);
                runs.inspect(|runs| runs.assert_no_region(what));
            }));
        });
        // SAFETY: the heap is in a box, and dropped after its threads.
        let zeroers = with_heap!(&kind, heap => unsafe { Zeroers::new(&**heap, factory) });
        let mut body = Box::new(Body {
            listeners,
            wanted,
            is_over: AtomicBool::new(false),
            lost_its_threads: AtomicBool::new(false),
            zeroers,
            mutators: AtomicUsize::new(0),
            number,
            kind,
            helpers,
            unknown_layout,
            _log: log,
        });
        let place = &raw const *body as usize;
        if body.wanted.any() {
            body.listeners.add(Arc::new(move |_: &Collection<'_>| {
                // SAFETY: the body is in a box, and who collects has a reference to it.
                unsafe { &*(place as *const Body) }.tell_of_snapshots();
            }));
        }
        with_heap!(&mut body.kind, heap => heap.before_collection = Some(Box::new(move || {
            // SAFETY: the body is in a box, and who collects has a reference to it.
            unsafe { &*(place as *const Body) }.find_threads();
        })));
        body.zeroers.start();
        if !fork::add(&body) {
            return Err(CreateError::Memory("its fork handlers", Limit::Other).into());
        }
        Ok(Heap {
            shared: Arc::new(Shared(body)),
        })
    }

    /// Registers a type whose objects have a fixed size.
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

    /// Registers a structure whose layout the program knows when it is compiled: see [`Fields`].
    ///
    /// It fails if the heap has other slots than the program knows of: set
    /// [`Builder::outside_layout`](crate::Builder::outside_layout) where it does.
    pub fn fields<const REFERENCES: usize, const BYTES: usize, F: Slots>(
        &self,
    ) -> Result<Fields<REFERENCES, BYTES, F>, TypeError> {
        const { assert!(REFERENCES < MOST_STRUCTURE_BYTES && BYTES < MOST_STRUCTURE_BYTES) };
        if F::BYTES.is_some_and(|bytes| bytes != self.slot_bytes()) {
            return Err(TypeError::Slots(self.slot_bytes()));
        }
        let of = self.structure(Fields::<REFERENCES, BYTES, F>::STRUCTURE)?;
        Ok(Fields::new(of.id))
    }

    /// Registers a type of objects with elements behind a head.
    ///
    /// ```
    /// use gleaner::{Heap, InTail, OutOfMemory, Structure, Tailed};
    ///
    /// let heap = Heap::builder().limit(1 << 20).build().unwrap();
    /// // Code, and captured values with a count each.
    /// let closure = heap.tailed(Tailed {
    ///     head: Structure { references: 1, bytes: 0 },
    ///     element: Structure { references: 1, bytes: 8 },
    /// }).unwrap();
    /// heap.attach().unwrap().scope(|scope| {
    ///     let adder = scope.allocate_tailed(closure, 2)?;
    ///     let second = InTail { element: 1, index: 0 };
    ///     scope.set(adder, second, adder)?;
    ///     scope.write_u64(adder, second, 7)?;
    ///     let found = scope.get(adder, second);
    ///     assert!(scope.same(found, adder) && scope.read_u64(found, second) == 7);
    ///     Ok::<(), OutOfMemory>(())
    /// }).unwrap();
    /// ```
    pub fn tailed(&self, shape: Tailed) -> Result<Tail, TypeError> {
        let layout = shape.layout(self.slot_bytes());
        if layout.0 > MOST_STRUCTURE_BYTES {
            return Err(TypeError::Size(layout.0));
        }
        if layout.1 > MOST_STRUCTURE_BYTES {
            return Err(TypeError::Tail(layout.1));
        }
        let [references, element_references] = shape.offsets(self.slot_bytes());
        let id = self.register_own(Shape::Tailed {
            head: layout.0,
            references: &references,
            element: layout.1,
            element_references: &element_references,
        })?;
        Ok(Tail { id, layout })
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

    /// Registers a type of arrays of weak references.
    pub fn weak_array(&self) -> Result<WeakArray, TypeError> {
        let weak = object_model::Slots {
            weak: &[0],
            ..object_model::Slots::default()
        };
        Ok(WeakArray(self.register_weak(1, weak)?))
    }

    /// Registers a type of tables of ephemerons.
    ///
    /// ```
    /// let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
    /// let (table, array) = (heap.ephemeron_table().unwrap(), heap.reference_array().unwrap());
    /// heap.attach().unwrap().scope(|scope| {
    ///     let pairs = scope.allocate_ephemeron_table(table, 100).unwrap();
    ///     let key = scope.allocate_references(array, 1).unwrap();
    ///     // Reference 2 * i is key i, and the one behind it is its value: here the table itself.
    ///     scope.set(pairs, 0, key).unwrap();
    ///     scope.set(pairs, 1, pairs).unwrap();
    ///     scope.collect(true);
    ///     let value = scope.get(pairs, 1);
    ///     assert!(scope.same(value, pairs));
    /// });
    /// ```
    pub fn ephemeron_table(&self) -> Result<EphemeronTable, TypeError> {
        let pair = object_model::Slots {
            ephemerons: &[0],
            ..object_model::Slots::default()
        };
        Ok(EphemeronTable(self.register_weak(2, pair)?))
    }

    /// A type of arrays whose elements have so many slots.
    fn register_weak(
        &self,
        slots: usize,
        element_slots: object_model::Slots<'_>,
    ) -> Result<Id, TypeError> {
        self.register_own(Shape::Weak {
            // Header and length.
            head: LEAST_BYTES,
            slots: object_model::Slots::default(),
            element: slots * self.slot_bytes(),
            element_slots,
        })
    }

    pub(crate) fn register(&self, shape: Shape<'_>) -> Result<TypeId, TypeError> {
        with_heap!(&self.shared.kind, heap => heap.register(shape))
    }

    fn register_own(&self, shape: Shape<'_>) -> Result<Id, TypeError> {
        Ok(Id {
            heap: self.shared.number,
            number: self.register(shape)?,
            pinned: false,
        })
    }

    /// Ends the heap. When this returns, the heap's threads have ended and its memory is free. It fails while something
    /// else keeps the heap, and then leaves the heap as it is.
    pub fn close(self) -> Result<(), StillInUse> {
        let shared = match Arc::try_unwrap(self.shared) {
            Ok(shared) => shared,
            Err(shared) => {
                let heap = Heap { shared };
                let mutators = heap.shared.mutators.load(Ordering::Relaxed);
                return Err(StillInUse {
                    mutators,
                    others: heap.other_holders().saturating_sub(mutators),
                    heap,
                });
            }
        };
        drop(shared);
        Ok(())
    }

    /// Calls `listener` with each event of each collection, in order, when the collection is over. A listener stays as
    /// long as the heap does. A listener that holds a clone of the heap keeps the heap for ever. A listener
    /// should not panic. If one does, a line on standard error says so, the other listeners are told, and then the
    /// panic propagates out of the call that led the collection, such as an allocation.
    pub fn add_listener(&self, listener: impl Fn(&Event) + Send + Sync + 'static) {
        self.add_collection_listener(move |collection| {
            collection.events.iter().for_each(&listener)
        });
    }

    /// As [`Heap::add_listener`], but called once for each collection, with a summary of it.
    ///
    /// ```
    /// # let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
    /// heap.add_collection_listener(|collection| {
    ///     println!("{}: stopped {} ns, {}", collection.number, collection.stopped_ns, collection.reason);
    ///     for (phase, ns) in collection.phases() {
    ///         println!("    {} {ns} ns", phase.as_str());
    ///     }
    /// });
    /// ```
    pub fn add_collection_listener(
        &self,
        listener: impl Fn(&Collection<'_>) + Send + Sync + 'static,
    ) {
        self.shared.listeners.add(Arc::new(listener));
    }

    /// The number of clones, mutators, handles, weak references and ephemerons that keep this heap, beside this value.
    pub fn other_holders(&self) -> usize {
        Arc::strong_count(&self.shared) - 1
    }

    /// The most bytes that all objects together may take. [`Mutator::set_limit`](crate::Mutator::set_limit) changes it.
    pub fn limit(&self) -> usize {
        with_heap!(&self.shared.kind, heap => heap.limit())
    }

    /// The number of threads that collect, including the thread that asks for a collection.
    pub fn workers(&self) -> usize {
        with_heap!(&self.shared.kind, heap => heap.config.workers)
    }

    /// The number of bytes in use: by objects, dead or alive, and by buffers.
    pub fn used(&self) -> usize {
        with_heap!(&self.shared.kind, heap => heap.used())
    }

    /// The size in bytes of the collector's tables beside the heap. They do not count toward the limit.
    pub fn metadata_bytes(&self) -> usize {
        with_heap!(&self.shared.kind, heap => heap.metadata_bytes())
    }

    /// What collections have done so far.
    ///
    /// A thread with a mutator of this heap calls [`Mutator::totals`](crate::Mutator::totals) instead, or calls this
    /// inside [`Mutator::blocking`](crate::Mutator::blocking). Otherwise a collection that another thread wants would
    /// wait for the calling thread for ever.
    pub fn totals(&self) -> Totals {
        members::assert_world_runs(self.shared.number, "totals are asked for");
        with_heap!(&self.shared.kind, heap => heap.totals())
    }

    /// Which memory nodes the workers were busy on. This is counted on a synthetic machine with several nodes (option
    /// `topology`); elsewhere it is `None`. A thread with a mutator of this heap calls it inside
    /// [`Mutator::blocking`](crate::Mutator::blocking), for the reason given at [`Heap::totals`].
    pub fn locality(&self) -> Option<Box<Locality>> {
        members::assert_world_runs(self.shared.number, "locality is asked for");
        with_heap!(&self.shared.kind, heap => heap.locality())
    }

    /// How the collecting threads have synchronised in all collections so far: phases, tasks, wake-ups, locks. A thread
    /// with a mutator of this heap calls it inside [`Mutator::blocking`](crate::Mutator::blocking), for the reason
    /// given at [`Heap::totals`].
    pub fn synchronisation(&self) -> Synchronisation {
        members::assert_world_runs(self.shared.number, "synchronisation is asked for");
        with_heap!(&self.shared.kind, heap => heap.synchronisation())
    }

    /// The width of references in objects.
    pub fn references(&self) -> References {
        self.shared.kind.references()
    }

    /// How arrays are cut: the number of bytes of an array that lie in its spine, and the number of bytes of an
    /// arraylet. Under `array-guard` the first number is 0. `None` where every array lies in one piece. Code that is
    /// compiled for fixed numbers checks these and [`Heap::cuts_all_arrays`] before it uses the heap.
    pub fn cut_arrays(&self) -> Option<(usize, usize)> {
        let pieces = with_heap!(&self.shared.kind, heap => *heap.pieces());
        pieces
            .cut()
            .then(|| (pieces.first_n, pieces.arraylet_bytes()))
    }

    /// Whether every array is cut that has more bytes than lie in a spine ([`Heap::cut_arrays`]). Pinned arrays and
    /// those of [`Heap::register_whole_raw`] are never cut, and do not count here. False where only arrays of one kind
    /// are cut, and under `array-guard`. Code for [`CutArrays`](crate::raw::CutArrays) checks this before it uses the
    /// heap.
    pub fn cuts_all_arrays(&self) -> bool {
        let (cutting, first_n) = with_heap!(&self.shared.kind, heap => {
            (heap.config.cutting, heap.pieces().first_n)
        });
        cutting.is_some_and(|cutting| {
            cutting.cuts(true) && cutting.cuts(false) && cutting.first_n == first_n
        })
    }

    /// Whether a report on arrays is made (option `array-report`).
    pub fn reports_arrays(&self) -> bool {
        with_heap!(&self.shared.kind, heap => heap.config.options.array_report > 0)
    }

    pub(crate) fn slot_bytes(&self) -> usize {
        match self.references() {
            References::Wide => Wide::BYTES,
            References::Compressed => Compressed::BYTES,
        }
    }
}
