//! Sticky marks: a collection that keeps the marks of the one before, so that it reclaims only what was allocated since
//! (ISMM 2000, section 6, *incremental*: "most collections do not reset the mark bit state").
//!
//! What was marked is old. An old object can refer to an unmarked one only if it was written after it was scanned, so
//! besides the roots only old objects on written pages are scanned again. Which pages were written, the kernel tells
//! ([`gleaner_os::written`]); it is asked once a collection, in the stopped world and before anything is scanned, about
//! blocks with pointers alone. Of a block that was handed out since the last collection it is not asked: most of those hold
//! little that lives, and are written soon; whatever they hold counts as written at the next question.
//!
//! Objects are born unmarked and thereby young. Cells that were freed explicitly keep their mark and are handed out with
//! it: such an object is old from birth, and on a written page.
//!
//! Of some kinds all old objects are scanned each time. Uncollectable ones and those marked unconditionally are roots.
//! A client's mark procedure may read memory that is not watched. What a disclaim procedure kept may refer to what is gone.
//! Of kinds whose objects bring their descriptors along, all are scanned where these may have changed otherwise than by a
//! write to the object ([`super::object_descriptors`]).
//!
//! # Invariants
//! - `pages` has what is still to be scanned: bit `n` of the byte of 16 KiB says that page `n` of these counts as written. Blocks
//!   of the large part have one page, so a byte may be about several objects, and each worker takes the bits of its own. A question sets bits, the worker that looks through a block takes them. They are 0 for blocks without pointers, and all
//!   ones after a question where all objects are scanned or the kernel was not asked.
//! - A page that the kernel watches is in use, and its block, or the first block of its large object, is flagged `WATCHED`.
//! - The shared lists outlive such a collection, except of kinds that mark free cells: those are found by sweeping.
//!   Without that, cells that were freed explicitly and are marked would be lost until marks are cleared.
//!
//! Runs on the collecting thread under the allocator lock, in the stopped world or between steps; blocks are looked
//! through by all workers of a phase, each by one.

use core::ops::Range;

use gleaner_base::sync::{AtomicU32, Ordering};
use gleaner_mem::Address;
use gleaner_mem::side::Side;
use gleaner_os::written::{Filters, Mechanism, PAGE_BYTES, Reason, Round, Unavailable, Watch};

use super::cache::LEADS_BACK;
use super::kinds::{Kind, descriptor};
use super::mark_counts::count_marks;
use super::marks::MARKED;
use super::pool;
use super::scan::MarkContext;
use super::settle::Waiting;
use super::space::MarkSweep;
use super::written_pages::{ALL_PAGES, Ages, PAGE_SHIFT, WrittenPages, age};
use crate::mark_sweep::block::{
    BLOCK_BYTES, BLOCK_SHIFT, Block, BlockIndex, FREED, FRESH, RESCAN, State, WATCHED,
};
use crate::mark_sweep::size_classes::{CELL_BYTES, GRANULE};

/// Blocks whose watch ends at once when the first is swept: what is not written before the next question is scanned for nothing.
const UNWATCHED_AT_ONCE: BlockIndex = 16;

/// Neighbouring blocks that became free: who writes to them is of no interest any more. One request ends the watch of
/// them all. Otherwise each page would take a fault when it is handed out again.
#[derive(Default)]
pub(super) struct Unwatched {
    low: usize,
    high: usize,
}

impl Unwatched {
    /// Adds `blocks` blocks from `first` on, which become free, if they are watched.
    pub(super) fn extend(&mut self, space: &MarkSweep, first: BlockIndex, blocks: BlockIndex) {
        if !space.block(first).has_flag(WATCHED) {
            return;
        }
        let (low, high) = (
            space.start(first).word(),
            space.start(first + blocks).word(),
        );
        if self.high != low {
            self.flush(space);
            self.low = low;
        }
        self.high = high;
    }

    /// Ends the watch of the blocks that were added last.
    pub(super) fn finish(mut self, space: &MarkSweep) {
        self.flush(space);
    }

    fn flush(&mut self, space: &MarkSweep) {
        if let Some(written) = &space.written
            && self.low < self.high
        {
            written.watch.release(self.low, self.high);
        }
    }
}

/// Bytes of blocks without interest that a question runs over, where others follow: a call takes longer than looking at their pages.
const MOST_BRIDGED: usize = 16 * BLOCK_BYTES;

/// Neighbouring pages about which the kernel is asked in one call.
pub(super) struct Runs<V> {
    low: Address,
    high: Address,
    /// How far blocks that are in use follow.
    reach: Address,
    visit: V,
}

impl<V: FnMut(Address, Address)> Runs<V> {
    pub(super) fn new(visit: V) -> Runs<V> {
        Runs {
            low: Address::NULL,
            high: Address::NULL,
            reach: Address::NULL,
            visit,
        }
    }

    /// Adds a block that is in use, in the order of their addresses: for its own sake if it is `wanted`, else only to get to one
    /// that is. Whether the kernel may be asked about it.
    pub(super) fn reach(&mut self, low: Address, high: Address, wanted: bool) -> bool {
        let bridged = self.reach == low && low.word() - self.high.word() <= MOST_BRIDGED;
        if wanted {
            if !bridged {
                self.finish();
                self.low = low;
            }
            self.high = high;
        }
        self.reach = high;
        wanted || bridged
    }

    /// Adds pages, in the order of their addresses.
    pub(super) fn extend(&mut self, low: Address, high: Address) {
        if self.high != low {
            self.finish();
            self.low = low;
        }
        self.high = high;
    }

    /// Visits what was added last.
    pub(super) fn finish(&mut self) {
        if self.low < self.high {
            (self.visit)(self.low, self.high);
        }
        (self.low, self.high) = (Address::NULL, Address::NULL);
    }
}

/// About which blocks the kernel is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The blocks that were not handed out since the last collection.
    Old,
    /// All: what they hold is about to be marked beside the program.
    All,
    /// All, for the same; what was written before does not matter, since everything is marked.
    Begun,
    /// The blocks that were not handed out since the last collection, for the last time: nobody is going to ask what is written
    /// from now on.
    Last,
}

impl Asked {
    fn is_about_all(self) -> bool {
        matches!(self, Asked::All | Asked::Begun)
    }

    /// Whether the kernel may be asked about a block for the sake of its neighbours. It may not where a later question trusts that
    /// it never was.
    pub(super) fn may_run_over(self, block: &Block) -> bool {
        self.is_about_all() || self == Asked::Last || !block.has_flag(FRESH)
    }
}

/// How blocks of a kind are dealt with when marks are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Care {
    /// Nothing there is scanned.
    None,
    /// Old objects on written pages are scanned.
    Written,
    /// All old objects are scanned.
    All,
    /// All objects are roots in any collection.
    Roots,
}

/// How the objects of a block with this descriptor and kind, which has this `number`, are found.
fn care_for(described: usize, kind: &Kind, number: usize, context: &MarkContext) -> Care {
    if described == 0 {
        return Care::None;
    }
    if kind.uncollectable || kind.mark_unconditionally {
        return Care::Roots;
    }
    let is_asked = context.is_client_proc(described) || kind.disclaim.is_some();
    if is_asked || context.descriptors.is_scanned_again(number) {
        Care::All
    } else {
        Care::Written
    }
}

impl MarkSweep {
    /// Has the kernel watch which pages are written, by the mechanism named or the first that works. `filters` says whether it does
    /// where a filter of system calls is in force.
    pub fn watch_writes(
        &mut self,
        named: Option<Mechanism>,
        filters: Filters,
    ) -> Result<(), Unavailable> {
        // SAFETY: parts of the heap that hold blocks, or will. They stay mapped while there is a watch: addresses go back
        // only without one, or if they were never committed (`give_back_between`, `give_back_end`, `give_back_addresses`).
        self.watch_by(|ranges| unsafe { Watch::start(named, filters, ranges) })
    }

    /// As [`MarkSweep::watch_writes`], by the watch that `start` makes of the ranges that hold blocks. Where addresses are
    /// limited, these are what is mapped of them, and the watch begins with none.
    pub fn watch_by(
        &mut self,
        start: impl FnOnce(&[Range<usize>]) -> Result<Watch, Unavailable>,
    ) -> Result<(), Unavailable> {
        // A watch that is there ends first: the kernel has one of an address at a time.
        let pages = self.written.take().map(|before| before.pages);
        let table = self.layout.table;
        let range = |first, end| self.start(first).word()..self.start(end).word();
        let ranges = [
            range(0, self.layout.small_end()),
            range(table.large_start, self.layout.end()),
        ];
        let watch = match self.layout.is_in_pieces() {
            true => start(&[])?,
            false => start(&ranges)?,
        };
        let mechanism = watch.mechanism();
        if self.layout.is_in_pieces() {
            self.watch_mapped(&watch).map_err(|reason| Unavailable {
                reasons: Mechanism::ALL.map(|one| (one == mechanism).then_some(reason)),
            })?;
        }
        let pages = pages.or_else(|| Side::new(table.heap, table.span, BLOCK_SHIFT as u32));
        let ages = if self.verified {
            Ages::new(&self.layout)
        } else {
            None
        };
        match pages {
            Some(pages) if ages.is_some() == self.verified => {
                self.written = Some(WrittenPages {
                    watch,
                    pieces: AtomicU32::new(self.layout.pieces()),
                    table,
                    pages,
                    ages,
                    kept: false,
                });
                Ok(())
            }
            _ => Err(Unavailable {
                reasons: [Some(Reason::Memory); Mechanism::ALL.len()],
            }),
        }
    }

    /// Asks the kernel which pages of blocks with pointers were written since this was asked last, and begins anew:
    /// what is written from now on counts for the next time. Returns how many of old objects are to be scanned. After an
    /// error nothing is known.
    pub fn ask_written(&self, context: &MarkContext, asked: Asked) -> Result<usize, Reason> {
        let Some(written) = &self.written else {
            return Ok(0);
        };
        // The verifier wants to know what was written when.
        let asked = match asked {
            Asked::Begun if self.verified => Asked::All,
            asked => asked,
        };
        context.look_at_types(&self.kinds);
        self.set_all_pages(written, context, asked);
        let round = self.begin_round(written)?;
        let mut result = Ok(());
        self.for_each_watched(context, asked, |low, high| {
            let (low, high) = (low.word(), high.word());
            let mut note = |from, to| {
                self.for_each_with_pointers(context, (from, to), |from, to| written.note(from, to))
            };
            if result.is_ok() {
                result = match asked {
                    Asked::Begun => round.begin(low, high),
                    Asked::Last => round.read(low, high, &mut note),
                    Asked::Old | Asked::All => round.take(low, high, &mut note),
                };
            }
        });
        result?;
        if asked != Asked::Last {
            round.finish()?;
        }
        self.note_ages(written);
        let pages = self.count_written(written, context);
        context.descriptors.note_question();
        Ok(pages)
    }

    /// Begins a round of questions about what is mapped by now.
    pub(super) fn begin_round<'a>(&self, written: &'a WrittenPages) -> Result<Round<'a>, Reason> {
        let pieces = self.layout.pieces();
        if written.pieces.load(Ordering::Relaxed) != pieces {
            self.watch_mapped(&written.watch)?;
            // Relaxed: under the allocator lock.
            written.pieces.store(pieces, Ordering::Relaxed);
        }
        written.watch.round()
    }

    /// Where addresses are limited: adds all blocks that are mapped to a watch. The allocator lock protects what is mapped.
    fn watch_mapped(&self, watch: &Watch) -> Result<(), Reason> {
        let mut result = Ok(());
        self.for_each_mapped(|low, high| {
            if result.is_ok() {
                // SAFETY: whole pages of the heap's own mappings. They stay mapped while there is a watch: addresses go back
                // only without one, or if they were never committed (`give_back_between`, `give_back_end`).
                result = unsafe { watch.add(&(low.word()..high.word())) };
            }
        });
        result
    }

    /// Calls `visit` with the runs of neighbouring blocks that are mapped, where addresses are limited.
    fn for_each_mapped(&self, mut visit: impl FnMut(Address, Address)) {
        let layout = &self.layout;
        let mut first = 0;
        // What lies before a hole and behind the one before it is mapped.
        let mut hole = |from: BlockIndex, to: BlockIndex| {
            if first < from {
                visit(self.start(first), self.start(from));
            }
            first = to;
        };
        for index in 0..self.pool.frontier() {
            if pool::is_away(layout, index) {
                hole(index, index + 1);
            }
        }
        hole(layout.small_committed(), layout.table.large_start);
        self.large.for_each_run(layout, |index| {
            let block = self.block(index);
            if block.state == State::Free && block.is_torn() {
                hole(index, index + block.next);
            }
        });
        hole(layout.large_committed(), layout.end());
    }

    fn count_written(&self, written: &WrittenPages, context: &MarkContext) -> usize {
        let count =
            |index: BlockIndex, block: &Block| match self.is_watched(block, context, Asked::Old) {
                true => written.of(index).count_ones() as usize,
                false => 0,
            };
        let mut pages = 0;
        self.for_each_small_block(|index, block| pages += count(index, block));
        self.for_each_large(|index, block| {
            pages += (index..index + block.next)
                .map(|rest| count(rest, block))
                .sum::<usize>();
        });
        pages
    }

    fn note_ages(&self, written: &WrittenPages) {
        let Some(ages) = &written.ages else { return };
        ages.question.fetch_add(1, Ordering::Relaxed);
        self.for_each_small_block(|index, block| written.note_age(index, block));
        self.for_each_large(|index, block| {
            (index..index + block.next).for_each(|rest| written.note_age(rest, block));
        });
    }

    /// Sets the bytes of the blocks about which the kernel is not asked. Those of others keep what was not looked at yet.
    fn set_all_pages(&self, written: &WrittenPages, context: &MarkContext, asked: Asked) {
        let known = |block: &Block| match self.care(block, context) {
            Care::None => Some(false),
            _ if self.is_watched(block, context, asked) => None,
            _ => Some(true),
        };
        let set = |index: BlockIndex, is_written: Option<bool>| {
            if let Some(is_written) = is_written {
                written.set(index, is_written);
            }
        };
        for index in 0..self.pool.frontier() {
            let block = self.block(index);
            let is_written = match block.state {
                State::Small => known(block),
                _ => Some(false),
            };
            set(index, is_written);
        }
        self.for_each_large(|index, block| {
            let is_written = known(block);
            (index..index + block.next).for_each(|rest| set(rest, is_written));
        });
    }

    /// Forgets what was written, where marks are cleared.
    pub(super) fn forget_written(&self) {
        let Some(written) = &self.written else { return };
        for index in 0..self.pool.frontier() {
            written.set(index, false);
        }
        self.for_each_large(|index, block| {
            (index..index + block.next).for_each(|rest| written.set(rest, false));
        });
    }

    /// Whether the kernel is asked about a block.
    pub(super) fn is_watched(&self, block: &Block, context: &MarkContext, asked: Asked) -> bool {
        (asked.is_about_all() || !block.has_flag(FRESH))
            && self.care(block, context) == Care::Written
    }

    fn care(&self, block: &Block, context: &MarkContext) -> Care {
        let number = usize::from(block.kind);
        match self.kinds.get(number) {
            Some(kind) => care_for(block.descriptor, kind, number, context),
            None => Care::None,
        }
    }

    /// Calls `visit` with the runs of neighbouring pages about which the kernel is asked, and flags their blocks.
    fn for_each_watched(
        &self,
        context: &MarkContext,
        asked: Asked,
        visit: impl FnMut(Address, Address),
    ) {
        let mut runs = Runs::new(visit);
        self.for_each_small_block(|index, block| {
            let wanted = self.is_watched(block, context, asked);
            if !asked.may_run_over(block) {
                return;
            }
            if runs.reach(self.start(index), self.start(index + 1), wanted) {
                block.set_flag(WATCHED);
            }
        });
        runs.finish();
        self.for_each_large(|index, block| {
            if self.is_watched(block, context, asked) {
                block.set_flag(WATCHED);
                let start = self.start(index);
                runs.extend(start, start.add(block.bytes).align_up(PAGE_BYTES));
            }
        });
        runs.finish();
    }

    /// Calls `visit` with those of the pages `from..to`, which the kernel has named, that belong to blocks with pointers: a question
    /// runs over others.
    pub(super) fn for_each_with_pointers(
        &self,
        context: &MarkContext,
        (from, to): (usize, usize),
        mut visit: impl FnMut(usize, usize),
    ) {
        if from >= self.start(self.layout.table.large_start).word() {
            return visit(from, to);
        }
        let mut at = from;
        while at < to {
            let index = self.layout.table.index_of(Address::new(at));
            let end = self.start(index + 1).word().min(to);
            if self.care(self.block(index), context) != Care::None {
                visit(at, end);
            }
            at = end;
        }
    }

    /// Says whether the collection that begins keeps marks.
    pub(super) fn set_kept(&mut self, kept: bool) {
        if let Some(written) = &mut self.written {
            written.kept = kept;
        }
    }

    /// Begins a collection that keeps the marks: what waits to be swept is taken back or stays, as in
    /// [`MarkSweep::clear_marks`].
    pub fn keep_marks(&mut self, waiting: Waiting) {
        self.set_kept(true);
        self.keep_shared_lists();
        self.empty_queues();
        for index in 0..self.pool.frontier() {
            if self.block(index).state == State::Small && !self.leave_queued(index, waiting, true) {
                self.take_back(index);
            }
        }
    }

    fn keep_shared_lists(&mut self) {
        let mut dropped = 0;
        for kind in 0..self.kinds.count() {
            if !self.kinds.get(kind).is_some_and(Kind::marks_free_cells) {
                continue;
            }
            for (class, &bytes) in CELL_BYTES.iter().enumerate() {
                dropped += self.count_shared(kind, class) * usize::from(bytes);
                self.drop_shared_list(kind, class);
            }
        }
        self.account.drop_shared(dropped);
        // SAFETY: the shared lists change under the lock alone.
        unsafe { self.keep_listed_cells(&raw const self.shared) };
    }

    /// Cells on a shared list.
    fn count_shared(&self, kind: usize, class: usize) -> usize {
        let (mut cell, mut cells) = (self.shared.heads[kind][class], 0);
        while !cell.is_null() {
            cells += 1;
            assert!(cells <= self.account.shared_bytes / GRANULE, "{LEADS_BACK}");
            // SAFETY: a listed cell links to the next in its first word.
            cell = unsafe { Address::new(cell.load()) };
        }
        cells
    }

    /// Calls `visit` with a range or object, and its descriptor, for the marked objects of a block that have to be
    /// scanned again. These are the ones on pages that count as written, which do not any more afterwards. Where some
    /// were `dropped`, all are scanned again.
    pub(super) fn visit_again(
        &self,
        index: BlockIndex,
        context: &MarkContext,
        mut visit: impl FnMut(Address, usize),
    ) {
        // SAFETY: the table covers the span; while markers run only flags and marks change.
        let block: &Block = unsafe { &*self.layout.table.block(index) };
        let dropped = block.has_flag(RESCAN);
        if dropped {
            block.clear_flag(RESCAN);
        }
        match block.state {
            State::Small => {
                let written = self.take_written(index, block, context);
                let pages = if dropped { ALL_PAGES } else { written };
                if pages != 0 && block.descriptor != 0 {
                    self.visit_cells_again(index, block, pages, &mut visit);
                }
            }
            State::LargeHead => self.visit_large_again(index, block, dropped, context, &mut visit),
            _ => {}
        }
    }

    /// Whether [`MarkSweep::visit_again`] has something to do in a block. What is written of a large object is an affair of
    /// its first block.
    pub(super) fn is_to_be_looked_at(&self, index: BlockIndex) -> bool {
        // SAFETY: the table covers the span; while markers run only flags and marks change.
        let block: &Block = unsafe { &*self.layout.table.block(index) };
        let is_written = |at: BlockIndex| {
            let written = self.written.as_ref();
            written.is_some_and(|written| written.of(at) != 0)
        };
        match block.state {
            State::Small => block.has_flag(RESCAN) || is_written(index),
            State::LargeHead => {
                block.has_flag(RESCAN) || (index..index + block.next).any(is_written)
            }
            _ => false,
        }
    }

    /// The block behind this one, or behind the large object that it belongs to, of whose other blocks nothing is to be looked at.
    pub(super) fn next_to_look_at(&self, index: BlockIndex) -> BlockIndex {
        // SAFETY: the table covers the span; while markers run only flags and marks change.
        let block = |index| unsafe { &*self.layout.table.block(index) };
        let found: &Block = block(index);
        let head = match found.state {
            State::LargeHead => index,
            State::LargeRest => index - found.inverse,
            _ => return index + 1,
        };
        // Inside of a free run what is no first block any more leads to none that reaches so far.
        let object: &Block = block(head);
        match object.state {
            State::LargeHead => (head + object.next).max(index + 1),
            _ => index + 1,
        }
    }

    /// The pages of a block that count as written, once. The kinds whose objects are roots in any collection are left to
    /// those.
    fn take_written(&self, index: BlockIndex, block: &Block, context: &MarkContext) -> u8 {
        match &self.written {
            Some(written) if written.of(index) != 0 => {
                let pages = written.take(index);
                if self.care(block, context) == Care::Roots {
                    return 0;
                }
                pages
            }
            _ => 0,
        }
    }

    /// Neighbouring marked cells that are scanned word by word come as one range.
    fn visit_cells_again(
        &self,
        index: BlockIndex,
        block: &Block,
        pages: u8,
        visit: &mut impl FnMut(Address, usize),
    ) {
        let (start, marks) = (self.start(index), self.layout.table.marks_of(index));
        if count_marks(marks, usize::from(block.objects)).marked == 0 {
            return; // As in most blocks that were handed out since the last collection.
        }
        let joins = block.descriptor == block.bytes;
        let mut run: Range<usize> = 0..0;
        for object in 0..usize::from(block.objects) {
            let offset = object * block.bytes;
            let touched = pages_of(offset..offset + block.bytes);
            // SAFETY: `object` is below the number of cells.
            let mark = unsafe { (*marks.add(object)).load(Ordering::Relaxed) };
            if pages & touched == 0 || mark != MARKED {
                continue;
            }
            if !joins {
                visit(start.add(offset), block.descriptor);
                continue;
            }
            if run.end != offset {
                visit_run(start, &run, visit);
                run.start = offset;
            }
            run.end = offset + block.bytes;
        }
        visit_run(start, &run, visit);
    }

    /// Neighbouring pages of an object that is scanned word by word come as one range.
    fn visit_large_again(
        &self,
        index: BlockIndex,
        block: &Block,
        dropped: bool,
        context: &MarkContext,
        visit: &mut impl FnMut(Address, usize),
    ) {
        let start = self.start(index);
        // Asked before the pages are gone through: what a dead object refers to is not found through any of them.
        let is_scanned = block.large_mark.load(Ordering::Relaxed) == MARKED
            && block.descriptor != 0
            && !block.has_flag(FREED);
        let is_range = block.descriptor & descriptor::TAGS == descriptor::LENGTH;
        let by_pages =
            is_scanned && is_range && !dropped && self.care(block, context) == Care::Written;
        let mut any = false;
        let mut run: Range<usize> = 0..0;
        for rest in 0..block.next {
            let is_written = self.take_written(index + rest, block, context) != 0;
            any |= is_written;
            if !by_pages || !is_written {
                continue;
            }
            let low = (rest as usize * PAGE_BYTES).min(block.descriptor);
            if run.end != low {
                visit_run(start, &run, visit);
                run.start = low;
            }
            run.end = (low + PAGE_BYTES).min(block.descriptor);
        }
        if by_pages {
            visit_run(start, &run, visit);
        } else if is_scanned && (dropped || any) {
            visit(start, block.descriptor);
        }
    }

    /// Whether a word at `place` that looks like a reference to the object at `to` cannot be one.
    pub(super) fn cannot_refer(&self, place: Address, to: Address) -> bool {
        let Some(WrittenPages {
            ages: Some(ages),
            kept: true,
            ..
        }) = &self.written
        else {
            return false;
        };
        match (ages.part(place), ages.part(to)) {
            (Some(of), Some(of_block)) => {
                let cell = match ages.has_cell(to) {
                    true => age(&ages.cells, to),
                    false => 0,
                };
                age(&of.written, place) < age(&of_block.handed_out, to).max(cell)
            }
            _ => true,
        }
    }

    /// Ends the watch of a block that is about to be swept for its cells, and of neighbours that will be next: they are about to be
    /// written, and each page would take a fault. All of them count as written at the next question.
    pub(super) fn unwatch_ahead(&self, first: BlockIndex) {
        let mut end = first;
        while end - first < UNWATCHED_AT_ONCE && self.block(end).has_flag(WATCHED) {
            self.block(end).clear_flag(WATCHED);
            end += 1;
            if self.block(end - 1).next != end {
                break;
            }
        }
        if let Some(written) = &self.written
            && first < end
        {
            let (low, high) = (self.start(first).word(), self.start(end).word());
            written.watch.release(low, high);
        }
    }

    /// From now on all blocks count as handed out before the last collection.
    pub fn forget_fresh(&self) {
        self.for_each_small_block(|_, block| block.clear_flag(FRESH));
        self.for_each_large(|_, block| block.clear_flag(FRESH));
    }
}

/// The pages of a block that a part of it touches.
fn pages_of(part: Range<usize>) -> u8 {
    let (first, last) = (part.start >> PAGE_SHIFT, (part.end - 1) >> PAGE_SHIFT);
    ((2u32 << last) - (1 << first)) as u8
}

fn visit_run(start: Address, run: &Range<usize>, visit: &mut impl FnMut(Address, usize)) {
    if !run.is_empty() {
        visit(start.add(run.start), run.len());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_part_touches_the_pages_that_it_lies_on() {
        assert_eq!(pages_of(0..16), 0b0001);
        assert_eq!(pages_of(4080..4096), 0b0001);
        assert_eq!(pages_of(4080..4112), 0b0011);
        assert_eq!(pages_of(4096..8192), 0b0010);
        assert_eq!(pages_of(12288..16384), 0b1000);
        assert_eq!(pages_of(0..16384), ALL_PAGES);
    }
}
