//! Questions ahead of a stop: the kernel is asked in pieces, while the program runs, which pages were written.
//!
//! The question in the stop ([`super::sticky`]) is about all blocks as ever. It finds what was written since the piece was asked
//! about, so the kernel has few pages to name and to protect: that is what takes most of the time.
//!
//! Only a mechanism that names and protects a page at once can be asked so. Where that takes two calls, a write in between is lost
//! unless the world is stopped.
//!
//! Runs under the allocator lock, between steps.

use gleaner_mem::Address;
use gleaner_os::written::{Mechanism, PAGE_BYTES, Reason};

use super::scan::MarkContext;
use super::space::MarkSweep;
use super::sticky::{Asked, Runs};
use crate::mark_sweep::block::{BLOCK_BYTES, BlockIndex, LARGE_BYTES, State, WATCHED};

/// Bytes of the heap about which is asked at once. Where all of it was written that takes about half a millisecond.
const PIECE_BYTES: usize = 16 << 20;

impl MarkSweep {
    /// Whether the kernel can be asked while the program runs.
    pub fn can_be_asked_ahead(&self) -> bool {
        let written = self.written.as_ref();
        written.is_some_and(|written| written.watch.mechanism() == Mechanism::PageScan)
    }

    /// Asks the kernel about the pages of a piece of the heap, whose first block is `from`. Pages that were written count as that from
    /// then on, and what is written later counts for the next question. Returns the first block of the next piece, or nothing behind
    /// the last one. After an error nothing is known.
    pub fn ask_ahead(
        &self,
        context: &MarkContext,
        asked: Asked,
        from: BlockIndex,
    ) -> Result<Option<BlockIndex>, Reason> {
        let Some(written) = &self.written else {
            return Ok(None);
        };
        let round = self.begin_round(written)?;
        let mut result = Ok(());
        let mut runs = Runs::new(|low: Address, high: Address| {
            if result.is_ok() {
                result = match asked {
                    Asked::Begun if !self.verified => round.begin(low.word(), high.word()),
                    _ => round.take(low.word(), high.word(), &mut |from, to| {
                        self.for_each_with_pointers(context, (from, to), |from, to| {
                            written.note_ahead(from, to)
                        })
                    }),
                };
            }
        });
        let (small_end, large_start) = (self.pool.frontier(), self.layout.table.large_start);
        let next = match from < small_end {
            true => {
                let end = small_end.min(from + (PIECE_BYTES / BLOCK_BYTES) as BlockIndex);
                self.extend_by_small(from..end, context, asked, &mut runs);
                if end < small_end { end } else { large_start }
            }
            false => {
                let from = from.max(large_start);
                let most = from + (PIECE_BYTES / LARGE_BYTES) as BlockIndex;
                let end = self.large_frontier().min(most);
                self.extend_by_large(from..end, context, asked, &mut runs);
                end
            }
        };
        runs.finish();
        result?;
        round.finish()?;
        Ok((next < self.large_frontier()).then_some(next))
    }

    fn extend_by_small<V: FnMut(Address, Address)>(
        &self,
        blocks: core::ops::Range<BlockIndex>,
        context: &MarkContext,
        asked: Asked,
        runs: &mut Runs<V>,
    ) {
        for index in blocks {
            let block = self.block(index);
            if block.state != State::Small || !asked.may_run_over(block) {
                continue;
            }
            let wanted = self.is_watched(block, context, asked);
            if runs.reach(self.start(index), self.start(index + 1), wanted) {
                block.set_flag(WATCHED);
            }
        }
    }

    /// The pages of large objects, or parts of them, on these blocks.
    fn extend_by_large<V: FnMut(Address, Address)>(
        &self,
        blocks: core::ops::Range<BlockIndex>,
        context: &MarkContext,
        asked: Asked,
        runs: &mut Runs<V>,
    ) {
        let mut index = blocks.start;
        while index < blocks.end {
            let next = self.next_to_look_at(index).min(blocks.end);
            let head = match self.block(index).state {
                State::LargeRest => index - self.block(index).inverse,
                _ => index,
            };
            let block = self.block(head);
            // What is no first block any more leads to none that reaches so far.
            let is_there = block.state == State::LargeHead && index < head + block.next;
            if is_there && self.is_watched(block, context, asked) {
                block.set_flag(WATCHED);
                let end = self.start(head).add(block.bytes).align_up(PAGE_BYTES);
                runs.extend(self.start(index), self.start(next).min(end));
            }
            index = next;
        }
    }
}
