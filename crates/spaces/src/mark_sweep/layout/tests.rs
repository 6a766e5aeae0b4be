//! The layout of a heap: what is reserved, what is mapped, and what is given back.

use super::*;
use crate::mark_sweep::block::State;
use crate::mark_sweep::large_runs::LargeSpace;
use crate::mark_sweep::pool::{Backing, FreePool};

#[test]
fn what_is_reserved_by_itself_shares_no_upper_half_of_a_word_with_others() {
    for span in [0, 8 << 30, 12 << 30] {
        let mut layout = Layout::reserve(span, false).unwrap();
        let BlockTable {
            heap, span: got, ..
        } = layout.table;
        let start = heap.word() - layout.ahead;
        assert!(
            start.is_multiple_of(GRAIN) && layout.reserved.is_multiple_of(GRAIN),
            "{heap:?}, {got:#x} bytes"
        );
        assert_eq!(layout.ahead, AHEAD, "addresses with small lower halves");
        assert!(span == 0 || got == span);
        // SAFETY: a heap that nobody uses.
        unsafe { layout.unmap() };
    }
    let mut small = Layout::reserve(SMALLEST_SPAN, false).unwrap();
    assert_eq!((small.table.span, small.ahead), (SMALLEST_SPAN, 0));
    // SAFETY: a heap that nobody uses.
    unsafe { small.unmap() };
}

/// Whether any word of the small part can be looked up, whatever is there: one of each page of descriptors, and the last.
/// And any word that leads to what is committed of the large part.
fn leads_to_descriptors(layout: &Layout) -> bool {
    let blocks = layout.table.large_start;
    let step = memory::page_size() / size_of::<Block>();
    let small = (0..blocks).step_by(step).chain([blocks - 1]);
    let mut all = small.chain(blocks..layout.large_committed);
    all.all(|index| memory::is_readable(layout.table.block(index) as usize, size_of::<Block>()))
}

#[test]
fn addresses_are_given_back_once_and_taken_again_in_pieces() {
    // No thread of another test gets an arena of malloc's own, which might come to lie where addresses were given back.
    // SAFETY: it changes a number of the C library's.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    let mut layout = Layout::reserve(8 << 30, false).unwrap();
    assert!(layout.commit_small(1) && layout.commit_large(layout.table.large_start + 1000));
    let table = layout.table;
    assert!(leads_to_descriptors(&layout));
    layout.give_back_addresses();
    let whose = [
        table.heap.sub(AHEAD),
        table.heap.add(layout.reserved),
        table.start(layout.small_committed),
        table.start(layout.large_committed),
        layout.table_end,
        Address::of(table.marks_of(layout.marks_committed)),
    ];
    for place in whose {
        // SAFETY: the test's own mapping, where nothing is.
        let mapped = unsafe {
            libc::mmap(
                place.ptr(),
                memory::page_size(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
                -1,
                0,
            )
        };
        assert_eq!(Address::of(mapped), place, "not given back");
    }
    assert!(leads_to_descriptors(&layout));
    layout.give_back_addresses();
    for place in whose {
        // SAFETY: mapped above.
        unsafe { place.store(1) };
    }
    // What is somebody else's by now ends the part; elsewhere it goes on.
    assert!(!layout.commit_small(layout.small_committed + 1));
    for place in whose {
        let place = core::ptr::NonNull::new(place.ptr()).unwrap();
        // SAFETY: mapped above.
        assert!(unsafe { memory::unmap(place, memory::page_size()) });
    }
    let (small, large) = (layout.small_committed + 1000, layout.large_committed + 1000);
    assert!(layout.commit_small(small) && layout.commit_large(large));
    for block in [small - 1, large - 1] {
        let last = table.start(block);
        assert!(last.word().is_multiple_of(memory::page_size()));
        // SAFETY: committed just now.
        unsafe { last.store(1) };
    }
    assert_eq!(
        table.described_at(table.start(large - 1).word()),
        Some(large - 1)
    );
}

/// A heap that is mapped in pieces, of which `most_torn` free runs may be torn.
fn in_pieces(most_torn: usize) -> Layout {
    let mut layout = Layout::in_pieces(SMALLEST_SPAN, false).unwrap();
    layout.most_torn = most_torn;
    layout
}

fn is_mapped(layout: &Layout, block: BlockIndex) -> bool {
    memory::is_readable(layout.table.start(block).word(), 1)
}

#[test]
fn descriptors_are_mapped_with_their_blocks() {
    let mut layout = in_pieces(0);
    let (table, end) = (layout.table, layout.end());
    let last = table.start(end - 1).word();
    let descriptor = Address::of(table.block(end - 1)).word();
    assert_eq!(table.described_at(last), None);
    assert!(!memory::is_readable(descriptor, size_of::<Block>()));
    assert!(leads_to_descriptors(&layout));
    for _ in 0..2 {
        assert!(layout.commit_large(end));
        assert_eq!(table.described_at(last), Some(end - 1));
        for index in table.large_start..end {
            // SAFETY: the descriptor of a committed block, which the test alone uses.
            unsafe { (*table.block(index)).state = State::Free };
        }
        layout.uncommit_large(table.large_start + 1);
        assert!(!memory::is_readable(last, 1));
    }
}

/// Each hole makes two mappings of one, and the kernel limits the number of mappings.
#[test]
fn the_longest_free_runs_are_torn_and_no_more_than_may_be() {
    let mut layout = in_pieces(2);
    let mut large = LargeSpace::new(&layout);
    let lengths = [3, 3, 3, 3, 3, 3, 9, 3];
    let mut fresh = |blocks| large.take_fresh(&mut layout, blocks).unwrap();
    let runs = lengths.map(&mut fresh);
    let given = [runs[0], runs[2], runs[4], runs[6]];
    given.iter().for_each(|run| large.give(&layout, *run));
    let mapped = |layout: &Layout| given.map(|run| is_mapped(layout, run.first));
    assert!(large.tear(&layout));
    assert!(!mapped(&layout)[3], "the longest");
    let count = |layout: &Layout| mapped(layout).iter().filter(|it| **it).count();
    assert_eq!(count(&layout), 2);
    assert!(!large.tear(&layout), "nothing more");
    // What is mapped anew leaves room for another.
    let mut run = large.take_free(&layout, 9).unwrap();
    assert!(large.mend(&layout, &mut run) && mapped(&layout)[3]);
    assert!(large.tear(&layout));
    assert_eq!(count(&layout), 2);
}

#[test]
fn the_longest_runs_of_free_small_blocks_go_and_no_more_than_may() {
    let mut layout = in_pieces(8);
    assert_eq!(layout.most_small_holes(), 2);
    let mut pool = FreePool::new();
    let free = [1, 3, 5, 7].into_iter().chain(9..30);
    for index in 0..31 {
        assert_eq!(pool.take_clean(&mut layout, 0).unwrap().index, index);
        // SAFETY: a descriptor below the frontier, which the test alone uses.
        unsafe { (*layout.table.block(index)).state = State::Small };
    }
    free.for_each(|index| pool.put(&layout, index, Backing::Dirty));
    assert!(pool.give_addresses_back(&layout));
    assert_eq!((pool.away(), pool.dirty()), (22, 3));
    let away = (0..31).filter(|block| !is_mapped(&layout, *block));
    assert_eq!(away.clone().count(), 22);
    assert!((9..30).all(|block| away.clone().any(|it| it == block)));
    assert!(!pool.give_addresses_back(&layout), "nothing more");
}
