//! Snapshots of a precise heap: what lives, and what keeps it, as a text that `gleaner heap` reads (option `snapshot`, or
//! on request).
//!
//! One is written at the end of a collection of everything, while the world is stopped: every object that there is then
//! lives. It has first the roots with the objects that they lead to, then each object with those that it refers to. An
//! array in pieces has the bytes of its spine and of the arraylets that it alone has, and refers to what their slots do.
//!
//! The leader writes it, in the collector's own memory (I1), and takes no lock: names of types are read without one.

use core::fmt::{self, Write};
use core::ops::Range;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::{LineBuffer, Phase};
use gleaner_mem::Address;
use gleaner_mem::header::Header;
use gleaner_mem::object_model::{Shape, TypeId, WeakSlot};
use gleaner_mem::root::Root;
use gleaner_mem::slot::{SlotFormat, Wide};

use super::counts::Count;
use crate::scavenge::allocate::Request;
use crate::scavenge::collect::Extent;
use crate::scavenge::mutator::Mutator;
use crate::scavenge::walk::{Edge, Found};
use crate::scavenge::{Scavenge, State, Totals};
use crate::shared::log_ends;
use crate::shared::record::Record;
use crate::shared::snapshot::{NOT_WRITTEN, News, PATH, Snapshots, Writer};

/// The kind of types whose numbers a snapshot has no room for.
const OTHER_TYPES: u32 = u16::MAX as u32;

/// Why there is no snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotError {
    /// The path is longer than this many bytes, or has a byte 0.
    Path(usize),
    /// The file could not be written.
    NotWritten,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Path(most) => write!(
                out,
                "the path of a snapshot has at most {most} bytes, none of which is 0: choose another"
            ),
            SnapshotError::NotWritten => {
                write!(out, "the snapshot cannot be written: {NOT_WRITTEN}")
            }
        }
    }
}

impl core::error::Error for SnapshotError {}

/// What there is to tell of a heap in the end.
pub struct LastWords {
    /// What collections have done.
    pub totals: Totals,
    /// How many snapshots the options had written; `None` if they ask for none.
    pub snapshots: Option<u32>,
    /// What became of the last one, if nobody was told.
    pub news: Option<News>,
}

impl<F: SlotFormat> Scavenge<F> {
    /// Collects everything, and writes a snapshot to the file at `path`. What it has. A mutator inside the gate calls it.
    pub fn snapshot(&self, mutator: &Mutator, path: &str) -> Result<Count, SnapshotError> {
        let mut name = LineBuffer::<PATH>::new();
        let _ = name.write_str(path);
        // Room for what is behind it meanwhile.
        const MOST: usize = PATH - 8;
        if path.len() > MOST || path.contains('\0') {
            return Err(SnapshotError::Path(MOST));
        }
        let mut out = Writer::new();
        let mut written = None;
        self.collect_and(
            mutator,
            (Extent::Full, "a snapshot"),
            (None, Request::NOTHING),
            Some(&mut |state, world, record| {
                record.step(Phase::Snapshot, |event| {
                    let mut found = Count::default();
                    let is_whole = out.write_file(&name, |out| {
                        found = self.write_snapshot(out, state, world, "a snapshot was asked for");
                    });
                    (event.objects, event.bytes) = (found.objects, found.bytes);
                    written = is_whole.then_some(found);
                });
            }),
        );
        written.ok_or(SnapshotError::NotWritten)
    }

    /// Before the heap is shared: snapshots are written as the options say.
    pub fn set_snapshots(&self, snapshots: Option<alloc::boxed::Box<Snapshots>>) {
        self.collecting
            .with(&self.gate, |state| state.snapshots = snapshots);
    }

    /// Collects everything for the snapshot that the options have for this moment, if they have. A mutator inside the gate calls it.
    pub fn write_wanted_snapshot(&self, mutator: &Mutator, reason: &'static str) {
        self.collect_and(
            mutator,
            (Extent::Full, reason),
            (None, Request::NOTHING),
            Some(&mut |state, world, record| {
                self.take_snapshot(state, world, record, (reason, true))
            }),
        );
    }

    /// What became of the last snapshot, once, if it is wanted. The caller is no mutator inside the gate.
    pub fn snapshot_news(&self, is_wanted: impl FnOnce(&News) -> bool) -> Option<News> {
        let take = |state: &mut State| state.snapshots.as_mut()?.take_news(is_wanted);
        self.collecting.with(&self.gate, take)
    }

    /// As the process exits: collects everything, for a snapshot in any case or if one is due then. A mutator inside the
    /// gate calls it.
    pub fn snapshot_at_exit(&self, mutator: &Mutator, is_asked: bool) {
        let reason = "the process exits";
        match is_asked {
            true => self.write_wanted_snapshot(mutator, reason),
            false => self.collect(mutator, Extent::Full, reason),
        }
    }

    /// When the heap ends or the process does: the log has its last line. `None` if another thread is at work on the
    /// state.
    pub fn last_words(&self) -> Option<LastWords> {
        self.collecting.try_with(|state| {
            let allocated = self.used().saturating_sub(state.lately.used) as u64;
            let totals = Totals {
                allocated_bytes: state.totals.allocated_bytes + allocated,
                ..state.totals
            };
            let which = (state.number, self.epoch());
            log_ends::write_exit(&mut state.log, which, totals.allocated_bytes, "");
            state.log = None;
            let snapshots = state.snapshots.as_mut();
            LastWords {
                totals,
                snapshots: snapshots.as_ref().map(|snapshots| snapshots.written()),
                news: snapshots.and_then(|snapshots| snapshots.take_news(|_| true)),
            }
        })
    }

    /// Behind a collection of everything: writes a snapshot, if the options call for one.
    pub(in crate::scavenge) fn take_snapshot(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
        (reason, is_asked): (&'static str, bool),
    ) {
        let Some(mut snapshots) = state.snapshots.take() else {
            return;
        };
        // Holes are few behind sliding, and not counted otherwise.
        let live = self.used() - self.old_holes();
        if is_asked || snapshots.is_due(live) {
            record.step(Phase::Snapshot, |event| {
                snapshots.write(live, |out| {
                    let found = self.write_snapshot(out, state, world, reason);
                    (event.objects, event.bytes) = (found.objects, found.bytes);
                    (found.objects, 0)
                });
            });
        }
        state.snapshots = Some(snapshots);
    }

    /// Writes all of one; what it has.
    fn write_snapshot(
        &self,
        out: &mut Writer,
        state: &State,
        world: &mut WorldStopped<'_>,
        reason: &str,
    ) -> Count {
        let capacity = self.nursery.capacity() + self.old_used();
        out.head(self.epoch() + 1, reason, capacity);
        out.line(format_args!("precise"));
        self.write_kinds(out);
        self.write_roots(out, state, world);
        self.write_constants(out, world);
        let (mut all, mut edges) = (Count::default(), 0);
        self.for_each_object(world, Edge::After, &mut |found| {
            self.write_object(out, found, &mut all, &mut edges)
        });
        out.end(all.objects, edges);
        all
    }

    fn write_kinds(&self, out: &mut Writer) {
        let types = self.model.types.count();
        for number in 0..types.min(OTHER_TYPES) {
            let id = TypeId::new(number);
            if !self.model.types.has(id) {
                continue;
            }
            let Some(name) = self.model.types.name(id) else {
                let what = self.model.shape(id).map_or("", shape_name);
                out.line(format_args!("kind {number} type {number} ({what})"));
                continue;
            };
            // A name is one line.
            out.line(format_args!(
                "kind {number} {}",
                name.lines().next().unwrap_or_default()
            ));
        }
        if types > OTHER_TYPES {
            out.line(format_args!(
                "kind {OTHER_TYPES} types from number {OTHER_TYPES} on"
            ));
        }
    }

    fn write_roots(&self, out: &mut Writer, state: &State, world: &WorldStopped<'_>) {
        let target = |out: &mut Writer, slot: Address| {
            // SAFETY: root slots are wide, and their owners do not run.
            if let Some(object) = unsafe { Wide::load(slot, Address::NULL) }.as_object() {
                out.target(object);
            }
        };
        for mutator in state.mutators.stopped(world).iter() {
            out.line(format_args!("root roots of mutator {}", mutator.number));
            // SAFETY: the mutator does not run, and the root visitor is set by the holder of `collecting`, which the leader is.
            unsafe { mutator.visit_roots(|root| self.write_root(out, root)) };
        }
        out.line(format_args!("root roots of the heap"));
        self.heap_roots.visit_all(|root| self.write_root(out, root));
        self.pins.visit(0..self.pins.slots(), |slot| {
            self.write_root(out, Root::Value(slot));
        });
        out.line(format_args!("root handles"));
        for number in 0..self.handles.prepare() {
            target(out, self.handles.slot(number as u32));
        }
        let finalizers = &self.weak.finalizers;
        for (are_ready, name) in [(false, "wait"), (true, "are ready")] {
            out.line(format_args!("root finalizers that {name}"));
            let positions = 0..finalizers.listed();
            for position in positions.filter(|&at| finalizers.is_ready(at) == are_ready) {
                finalizers.visit_strong(position, false, |slot| target(out, slot));
            }
        }
    }

    fn write_root(&self, out: &mut Writer, root: Root<'_>) {
        // SAFETY: a root, whose owner does not run.
        let value = unsafe {
            match root {
                Root::Value(slot) | Root::Derived(slot, _) => Wide::load(slot, Address::NULL),
                Root::Slot(slot) => F::load(slot, self.model.base),
            }
        };
        if let Some(object) = value.as_object() {
            out.target(object);
        }
    }

    /// Nothing has to lead to a constant: it lives as long as the heap.
    fn write_constants(&self, out: &mut Writer, world: &mut WorldStopped<'_>) {
        if self.constants.used() > 0 {
            out.line(format_args!("root constants"));
            self.for_each_object(world, Edge::After, &mut |found| {
                if self.constants.contains(found.object) {
                    out.target(found.object);
                }
            });
        }
    }

    fn write_object(&self, out: &mut Writer, found: &Found, all: &mut Count, edges: &mut u64) {
        let (object, header) = (found.object, found.header);
        let kind = header.type_id().get().min(OTHER_TYPES);
        let bytes = found.bytes + self.own_arraylets(found, &mut |_| {});
        let _ = write!(out, "o {:x} {bytes} {kind}", object.word());
        all.objects += 1;
        all.bytes += bytes as u64;
        let base = self.model.base;
        let mut refers = |slot: Address| {
            // SAFETY: a slot of an object that lives, in a stopped world.
            if let Some(referent) = unsafe { F::load(slot, base) }.as_object() {
                *edges += 1;
                let _ = write!(out, " {:x}", referent.word());
            }
        };
        // SAFETY: the object was walked over.
        if let Some(elements) = unsafe { self.model.scan(header, object, &mut refers) } {
            self.kept_by_weak(header, object, elements, &mut refers);
        }
        self.own_arraylets(found, &mut refers);
        out.line(format_args!(""));
    }

    /// Weak slots keep nothing, so they are no edges. An ephemeron keeps its value as long as its key lives, which it does
    /// here unless it was cleared.
    fn kept_by_weak(
        &self,
        header: Header,
        object: Address,
        elements: Range<u32>,
        refers: &mut dyn FnMut(Address),
    ) {
        // SAFETY: the object was walked over, and has these elements. Its slots hold valid values, in a stopped world.
        unsafe {
            self.model.scan_weak(header, object, elements, |weak| {
                if let WeakSlot::Ephemeron { key, value } = weak
                    && !F::load(key, self.model.base).is_null()
                {
                    refers(value);
                }
            });
        }
    }

    /// Bytes of the arraylets that an array in pieces has to itself, and each slot of all that it has.
    fn own_arraylets(&self, found: &Found, visit: &mut dyn FnMut(Address)) -> usize {
        if !found.header.is_spine() {
            return 0;
        }
        let pieces = self.model.pieces;
        // SAFETY: the spine was walked over.
        let (count, slots) = unsafe {
            let (bytes, slots) = self.model.spine_elements(found.header, found.object);
            (pieces.beyond(found.object, bytes).arraylets, slots)
        };
        let mut own = 0;
        for number in 0..count {
            // SAFETY: the spine has a pointer of this number.
            let pointer = unsafe { pieces.load(found.object, number) };
            if pointer == pieces.zero {
                continue;
            }
            if !pointer.is_tainted() {
                own += pieces.arraylet_bytes();
            }
            if slots {
                self.slots_of(pieces.target(pointer)).for_each(&mut *visit);
            }
        }
        own
    }
}

/// What an embedder registered that has not named it.
fn shape_name(shape: Shape<'_>) -> &'static str {
    match shape {
        Shape::Structure { .. } => "structure",
        Shape::References => "array of references",
        Shape::Primitives { .. } => "array of numbers",
        Shape::Tailed { .. } => "structure with a tail",
        Shape::Weak { .. } => "with weak slots",
        Shape::Traced { .. } => "with a trace function",
    }
}
