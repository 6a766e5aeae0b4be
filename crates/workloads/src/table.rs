//! The table of the workloads: a row each, from which command lines take names, help, defaults and refusals.

use std::thread;

use gleaner::raw::{
    AnyArrays, Compressed, Counted, CutArrays, Layout, SlotFormat, WholeArrays, Wide,
};
use gleaner::{Heap, References};

use crate::objects::{Code, For};
use crate::{
    Prepared, Scale, agents, bigmap, chart, cipher, compiler, compress, costs, db, ephemerons,
    finalizers, gcbench, index, jbb, matrix, producer, quads, queue, refarray, render, scopes,
    snapshots, strings, tiny, xml, zeroing,
};

/// What some workloads take; the others have no use for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extra {
    /// [`Scale::wasteful`]
    Wasteful,
    /// [`Scale::input`]
    Input,
    /// [`Scale::working_set`]
    WorkingSet,
    /// [`Scale::seed`]
    Seed,
    /// [`Scale::transactions`]
    Transactions,
}

/// A workload: a row of the table.
pub struct Entry {
    /// As it is written.
    pub name: &'static str,
    /// What it does, as a line of help.
    pub about: &'static str,
    threads: fn() -> u32,
    /// MB of heap for all mutators together, and for each.
    heap_mb: (usize, usize),
    takes: &'static [Extra],
    wide: Compiled,
    compressed: Compiled,
    /// With wide references, for arrays that are cut in any way or in none, and accesses that are counted.
    counted: Prepare,
}

type Prepare = fn(&Heap, &Scale) -> Prepared;

/// A workload compiled for one format of slots.
struct Compiled {
    /// For arrays in one piece.
    whole: Prepare,
    /// For arrays that are all cut so: bytes in the spine, and of an arraylet (PLDI 2010, section 7.1.1).
    cut: &'static [((usize, usize), Prepare)],
    /// For arrays that are cut in any way.
    any: Prepare,
}

/// The layout for which code is compiled where this one is known. Where this crate has debug assertions, as for tests, each workload
/// is compiled once for all: that is fast enough for them, and the others would take the longest of all to compile.
trait Build {
    type As: Layout;
}

impl<L: Layout> Build for L {
    #[cfg(debug_assertions)]
    type As = AnyArrays;
    #[cfg(not(debug_assertions))]
    type As = L;
}

type Built<L> = <L as Build>::As;

impl Entry {
    /// How many mutators it has unless told.
    pub fn threads(&self) -> u32 {
        (self.threads)()
    }

    /// MB of heap unless told: about three times what lives with wide references, as docs/workloads.md lists it.
    /// `working_set` is that of [`Scale`].
    pub fn heap_mb(&self, threads: u32, working_set: usize) -> usize {
        let (whole, each) = self.heap_mb;
        whole + (each + (3 * working_set).div_ceil(1024)) * threads as usize
    }

    /// Whether it has a use for that.
    pub fn takes(&self, extra: Extra) -> bool {
        self.takes.contains(&extra)
    }

    /// Registers its types and reads its input, compiled for the heap's format of slots and layout of arrays; if a report
    /// on arrays is made and references are wide, so that accesses are counted.
    ///
    /// # Errors
    ///
    /// Its input cannot be read, or is not what it needs; the heap has no place for more types.
    pub fn prepare(&self, heap: &Heap, scale: &Scale) -> Prepared {
        let compiled = match heap.references() {
            References::Wide if heap.reports_arrays() => return (self.counted)(heap, scale),
            References::Wide => &self.wide,
            References::Compressed => &self.compressed,
        };
        let prepare = match heap.cut_arrays() {
            _ if scale.any_arrays => compiled.any,
            None => compiled.whole,
            Some(sizes) => {
                let mut cut = compiled.cut.iter().filter(|_| heap.cuts_all_arrays());
                cut.find(|(known, _)| *known == sizes)
                    .map_or(compiled.any, |(_, prepare)| *prepare)
            }
        };
        prepare(heap, scale)
    }
}

/// The workload of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| entry.name == name)
}

/// One mutator for each processor.
fn processors() -> u32 {
    thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// A row: the line of help; the name, the function that prepares it for a heap of `F`, its mutators, the MB of
/// heap for all of them together and for each, and what it takes beside what all do.
macro_rules! table {
    ($(
        #[doc = $about:literal]
        $name:literal: $prepare:expr, $threads:expr, ($whole:expr, $each:expr), [$($extra:ident),*];
    )+) => {
        /// Every workload, the order being that of the help.
        pub static TABLE: &[Entry] = &[ $( {
            #[allow(
                clippy::extra_unused_type_parameters,
                reason = "some workloads have no references of a format"
            )]
            fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
                $prepare(heap, scale)
            }
            /// Compiled for such arrays.
            const fn cut<F: SlotFormat, const FIRST_N: usize, const ARRAYLET: usize>()
            -> ((usize, usize), Prepare) {
                let prepare = prepare::<For<F, Built<CutArrays<F, FIRST_N, ARRAYLET>>>>;
                ((FIRST_N, ARRAYLET), prepare)
            }
            const fn compiled<F: SlotFormat>(cut: &'static [((usize, usize), Prepare)]) -> Compiled {
                Compiled {
                    whole: prepare::<For<F, Built<WholeArrays>>>,
                    cut,
                    any: prepare::<For<F, AnyArrays>>,
                }
            }
            Entry {
                name: $name,
                about: $about.trim_ascii(),
                threads: || $threads,
                heap_mb: ($whole, $each),
                takes: &[$(Extra::$extra),*],
                wide: compiled::<Wide>(&[
                    cut::<Wide, 4096, 1024>(),
                    cut::<Wide, 0, 1024>(),
                    cut::<Wide, 0, 2048>(),
                ]),
                compressed: compiled::<Compressed>(&[cut::<Compressed, 4096, 1024>()]),
                counted: prepare::<For<Wide, Counted>>,
            }
        }, )+ ];
    };
}

table! {
    /// Binary trees that come and go beside one that stays
    "gcbench": gcbench::gcbench::<F>, 1, (0, 113), [];
    /// The same with dead objects between the live ones
    "holes": gcbench::holes::<F>, 1, (0, 113), [];
    /// The trees of gcbench through the safe Rust layer
    "scopes": scopes::prepare, 1, (0, 113), [];
    /// A list of a million nodes with sixteen million appends and pops
    "queue": queue::prepare::<F>, 1, (0, 113), [];
    /// A million references in one old array, replaced at random by fresh nodes
    "refarray": refarray::prepare::<F>, 1, (0, 113), [];
    /// A quad tree of depth 10 that stays, beside trees of depth 3 that come and go
    "quads": quads::prepare::<F>, 1, (0, 200), [];
    /// Chains of ephemerons whose first keys come and go; full collections, with exactly the right survivors
    "ephemerons": ephemerons::prepare::<F>, 1, (0, 48), [];
    /// Objects with finalizers that are replaced at random, taken when they are ready, and now and then kept
    "finalizers": finalizers::prepare::<F>, 1, (0, 18), [];
    /// Warehouses that take orders, payments and deliveries, in the manner of pjbb2005 with fixed work
    "jbb": jbb::prepare::<F>, 2, (0, 34), [Seed, Transactions];
    /// An inverted index that is built over Debian's texts and then queried, in the manner of luindex and lusearch
    "index": index::prepare::<F>, 2, (48, 0), [Wasteful, Input];
    /// An XML document of Debian's that is read, transformed and written again
    "xml": xml::prepare::<F>, 1, (0, 75), [Input];
    /// Programs parsed, resolved, folded, translated and run, unit by unit, of which the last ones stay
    "compiler": compiler::prepare::<F>, 1, (0, 36), [];
    /// One thread allocates messages, the others consume them
    "producer": producer::prepare::<F>, 4, (4, 0), [];
    /// Many unequal threads that share data and allocate little
    "agents": agents::prepare::<F>, 16, (3, 0), [];
    /// A ray tracer that keeps all processors busy with objects that die at once
    "render": render::prepare::<F>, processors(), (12, 0), [];
    /// Messages enciphered and deciphered: arrays of numbers that die young
    "cipher": cipher::prepare::<F>, 1, (0, 3), [];
    /// Sixteen threads that allocate in a heap of a few MB
    "tiny": tiny::prepare::<F>, 16, (4, 0), [];
    /// Debian's texts compressed and expanded by LZW, with tables made for the largest
    "compress": compress::prepare::<F>, 1, (0, 18), [Input];
    /// Charts of long series of numbers, smoothed, binned and drawn into an array of pixels
    "chart": chart::prepare::<F>, 1, (0, 48), [];
    /// Records sorted, looked up, changed and removed, in lists that grow by copying
    "db": db::prepare::<F>, 1, (0, 24), [];
    /// Hash tables made for more than they hold: large arrays of which few parts are touched
    "bigmap": bigmap::prepare::<F>, 1, (0, 51), [];
    /// Dense and sparse matrices multiplied and eliminated, with stretches of zeros
    "matrix": matrix::prepare::<F>, 1, (0, 45), [];
    /// Debian's texts split into lines, joined by a builder that grows, searched and replaced
    "strings": strings::prepare::<F>, 1, (0, 12), [Input];
    /// Large arrays copied whole again and again, with few elements written in each copy
    "snapshots": snapshots::prepare::<F>, 1, (0, 30), [];
    /// What it costs to make a heap, and to store once into a huge old array
    "costs": costs::prepare::<F>, 1, (200, 0), [];
    /// Allocates 64 million arrays of eight numbers
    "initnone": zeroing::initnone::<F>, 1, (3, 0), [WorkingSet];
    /// The same, and writes each
    "initfresh": zeroing::initfresh::<F>, 1, (3, 0), [WorkingSet];
    /// The same, and writes an old array instead
    "initstale": zeroing::initstale::<F>, 1, (3, 0), [WorkingSet];
}
