//! A mark-sweep space by itself: no collector, the test sets the marks.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gleaner_mem::Address;
use gleaner_spaces::mark_sweep::MarkSweep;
use gleaner_spaces::mark_sweep::SweepMode;
use gleaner_spaces::mark_sweep::block::BLOCK_BYTES;
use gleaner_spaces::mark_sweep::cache::Cache;
use gleaner_spaces::mark_sweep::layout::Layout;
use gleaner_spaces::mark_sweep::object_descriptors::ObjectDescriptors;
use gleaner_spaces::mark_sweep::reclaim::Ageing;
use gleaner_spaces::mark_sweep::scan::{MAX_PROCS, MarkContext, MarkMode};
use gleaner_spaces::mark_sweep::settle::Waiting;

/// Bytes of a small reservation.
pub const SPAN: usize = 32 << 20;

/// A reserved range that is taken back at the end.
pub struct Reserved(pub Layout);

impl Reserved {
    pub fn new() -> Reserved {
        Reserved(Layout::reserve(SPAN, false).expect("32 MiB of addresses"))
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        unmap(&mut self.0);
    }
}

fn unmap(layout: &mut Layout) {
    // SAFETY: the test's own reservation, which nobody uses any more; no test gives addresses back.
    unsafe { layout.unmap() };
}

/// A space whose capacity is no limit.
pub struct Space(pub MarkSweep);

impl Space {
    pub fn new(mode: SweepMode, poison: bool) -> Space {
        // A heap that starts while another one opens the file knows nothing of pages.
        static OPENED: std::sync::Once = std::sync::Once::new();
        OPENED.call_once(gleaner_os::residency::watch_pages);
        Space::over(Layout::reserve(SPAN, false), mode, poison)
    }

    /// One whose addresses are short.
    pub fn in_pieces() -> Space {
        let layout = Layout::in_pieces(SPAN, false).ok_or("the system has no addresses");
        Space::over(layout, SweepMode::Lazy, false)
    }

    fn over<E: std::fmt::Debug>(layout: Result<Layout, E>, mode: SweepMode, poison: bool) -> Space {
        let layout = layout.expect("32 MiB of addresses");
        let mut space = MarkSweep::new(layout, mode, poison);
        space.capacity = SPAN;
        Space(space)
    }

    pub fn large(&mut self, kind: usize, bytes: usize) -> Address {
        self.0.allocate_large(kind, bytes, 16, false).unwrap()
    }

    pub fn mark_of(&self, object: Address) -> u8 {
        let found = self.0.object_base(object.word()).expect("an object");
        // SAFETY: the mark of a resolved object.
        unsafe { (*found.mark).load(Ordering::Relaxed) }
    }

    pub fn set_mark(&self, object: Address, mark: u8) {
        let found = self.0.object_base(object.word()).expect("an object");
        // SAFETY: `object_base` found the object, so its mark byte is mapped.
        unsafe { (*found.mark).store(mark, Ordering::Relaxed) };
    }

    /// A collection that finds exactly `live` reachable.
    pub fn collect(&mut self, live: impl IntoIterator<Item = Address>) {
        self.collect_beside(&Cache::new(), live);
    }

    /// As `collect`, while a stopped thread has these lists.
    pub fn collect_beside(&mut self, cache: &Cache, live: impl IntoIterator<Item = Address>) {
        self.0.clear_marks(Waiting::TakenBack);
        // SAFETY: the test's own cache, whose lists nobody changes meanwhile.
        unsafe { self.0.keep_listed_cells(cache) };
        for object in live {
            self.set_mark(object, gleaner_spaces::mark_sweep::MARKED);
        }
        self.0.reclaim(Ageing::ReleaseAfter(0));
        self.0.sweep_all();
        self.verify();
    }

    pub fn verify(&self) {
        self.0
            .verify_structure()
            .unwrap_or_else(|fault| panic!("{fault:?}"));
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        unmap(&mut self.0.layout);
    }
}

/// What scanning a space goes by, where nothing is particular about it.
pub fn context(space: &Space) -> MarkContext {
    MarkContext {
        table: space.0.layout.table,
        all_interior: true,
        displacements: [false; BLOCK_BYTES / 2],
        procs: [None; MAX_PROCS],
        procs_on_helpers: false,
        poison: false,
        own_procs: 0,
        mode: MarkMode::Whole,
        observes: false,
        overflowed: AtomicBool::new(false),
        dropped: AtomicUsize::new(0),
        disturbed: AtomicBool::new(false),
        descriptors: ObjectDescriptors::new(),
    }
}

/// Whether the kernel backs memory with pages before it is written: not before 5.14.
pub fn can_populate() -> bool {
    let page = gleaner_os::memory::map(4096).unwrap();
    // SAFETY: the page is this function's, and nobody uses it later.
    unsafe {
        let can = gleaner_os::memory::populate(page, 4096);
        assert!(gleaner_os::memory::unmap(page, 4096));
        can
    }
}
