//! Grey objects: items, and the stacks on which workers keep theirs, in segments of one arena.
//!
//! The arena has room for every object once, whichever worker makes it grey; so the stacks of all workers together take
//! as much memory as one of them might need. A worker takes a segment when its last one is full and keeps it until the
//! phase is over.
//!
//! `trace-order` says which item comes next: the newest (`depth`), the oldest (`breadth`), or the oldest of the newest
//! segment (`hierarchical`). The last makes each segment a queue and the chain of them a stack: what an item leads to is
//! copied in the order of finding, level by level, until a segment is full; each item in that begins a cluster of its
//! own in the segment above. So objects lie beside what they refer to (hierarchical decomposition: Wilson, Lam and
//! Moher, PLDI 1991; in parallel: Siegwart and Hirzel, ISMM 2006), and are scanned while the cache has them.
//!
//! # Invariants
//! - An object is made grey once, by the worker that won it. An item is pushed again only after it was stolen from a
//!   deque: one at a time, onto an empty stack, which begins in its first segment again. So the arena is never
//!   exhausted.
//! - A segment belongs to the worker that took it. The leader takes all of them back between phases.
//! - Hierarchical: a segment is left for the one above when it is full and has items, so those below the top one are
//!   never empty, and hold what lies between their `oldest` and their end.

use core::ptr::{self, NonNull};

use gleaner_base::options::TraceOrder;
use gleaner_base::sync::{AtomicU64, AtomicUsize, Ordering};
use gleaner_mem::Address;
use gleaner_mem::object_model::GRANULE;
use gleaner_mem::slot::{SlotFormat, Wide};
use gleaner_os::memory;
use gleaner_work::Deque;

/// Items of a segment: so many objects of two or three references, with their old places, are in the second cache
/// together.
pub(in crate::scavenge) const SEGMENT_ITEMS: usize = 1021;
/// The most items that are moved to the deque at once.
const MOST_SHARED: usize = 256;
/// With fewer items on its stack a worker shares nothing.
const FEW_ITEMS: usize = 8;
/// How many bytes of memory the arena keeps after a collection for each worker.
const KEPT_BYTES: usize = 1 << 20;

/// A grey object, or a chunk of a grey array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Item(pub(in crate::scavenge) u64);

const CHUNK_SHIFT: u32 = 40;

/// Every object of the largest span has an item.
const _: () = assert!(Wide::SPAN / GRANULE <= 1 << CHUNK_SHIFT);

impl Item {
    /// The object at `object` in the span from `base`.
    #[inline(always)]
    pub fn object(object: Address, base: Address) -> Item {
        Item((object.offset_from(base) / GRANULE) as u64)
    }

    /// The chunk of that number, from 1, of the same array.
    #[inline(always)]
    pub fn chunk(self, number: usize) -> Item {
        Item(self.0 | (number as u64) << CHUNK_SHIFT)
    }

    /// The object, and the number of its chunk: 0 stands for the object as such, with its first chunk.
    #[inline(always)]
    pub fn get(self, base: Address) -> (Address, usize) {
        let offset = self.0 & ((1 << CHUNK_SHIFT) - 1);
        (
            base.add(offset as usize * GRANULE),
            (self.0 >> CHUNK_SHIFT) as usize,
        )
    }
}

/// A piece of a stack: 8 KB.
#[repr(C)]
struct Segment {
    previous: *mut Segment,
    /// The one above, which is used again; null for the last.
    next: *mut Segment,
    /// Hierarchical, of a segment that was left for the one above: its oldest item.
    oldest: *mut u64,
    items: [u64; SEGMENT_ITEMS],
}

/// The memory of all stacks of a heap.
pub struct Arena {
    segments: NonNull<Segment>,
    count: usize,
    workers: usize,
    /// Segments below were taken in this phase. Relaxed: a segment is its taker's alone.
    taken: AtomicUsize,
}

// SAFETY: segments are handed out once each, by an atomic counter.
unsafe impl Sync for Arena {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Arena {}

impl Arena {
    /// For `items` items on the stacks of `workers` workers, of which each has one for spines beside the other; `None`
    /// when the system gives no memory.
    pub fn new(workers: usize, items: usize) -> Option<Arena> {
        let count = items.div_ceil(SEGMENT_ITEMS) + 2 * workers;
        Some(Arena {
            segments: memory::map(count * size_of::<Segment>())?.cast(),
            count,
            workers,
            taken: AtomicUsize::new(0),
        })
    }

    #[cold]
    #[inline(never)]
    fn take(&self, previous: *mut Segment) -> *mut Segment {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        assert!(
            number < self.count,
            "phase trace: all {} segments of the stacks are full, which have room for every object",
            self.count
        );
        // SAFETY: below the count, so inside of the mapping; nobody else is given this segment.
        unsafe {
            let segment = self.segments.add(number).as_ptr();
            (*segment).previous = previous;
            (*segment).next = ptr::null_mut();
            if !previous.is_null() {
                (*previous).next = segment;
            }
            segment
        }
    }

    /// Takes all segments back, and gives memory back that a deep trace took. Between phases; each stack begins anew.
    pub fn release(&self) {
        let taken = self.taken.swap(0, Ordering::Relaxed).min(self.count);
        let (used, kept) = (taken * size_of::<Segment>(), self.workers * KEPT_BYTES);
        if used > kept {
            // SAFETY: whole pages of the mapping, and no stack uses them.
            unsafe { memory::release(self.segments.cast::<u8>().add(kept), used - kept) };
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let bytes = memory::whole_pages(self.count * size_of::<Segment>()).unwrap_or(0);
        // SAFETY: `new` mapped room for `count` segments, and no stack uses them any more.
        unsafe { memory::unmap(self.segments.cast(), bytes) };
    }
}

/// Where one end of a stack is: in a segment.
#[derive(Clone, Copy)]
struct End {
    /// Where the next item goes, or the oldest one is.
    at: *mut u64,
    /// The items of the segment.
    first: *mut u64,
    limit: *mut u64,
    segment: *mut Segment,
}

impl End {
    const NOWHERE: End = End {
        at: ptr::null_mut(),
        first: ptr::null_mut(),
        limit: ptr::null_mut(),
        segment: ptr::null_mut(),
    };

    /// At the start of a segment.
    ///
    /// # Safety
    /// The segment is the calling worker's.
    unsafe fn start(segment: *mut Segment) -> End {
        // SAFETY: the segment exists; the address of a field, and one past an array.
        unsafe {
            let first = (&raw mut (*segment).items).cast::<u64>();
            End {
                at: first,
                first,
                limit: first.add(SEGMENT_ITEMS),
                segment,
            }
        }
    }
}

/// What a worker has that is grey. Spines are scanned before other objects, so that what an array in pieces refers to is
/// copied in the array's order, as it is of a large array in one piece.
pub(in crate::scavenge) struct Stacks {
    spines: Stack,
    others: Stack,
}

impl Stacks {
    pub fn new(order: TraceOrder) -> Stacks {
        Stacks {
            spines: Stack::new(order),
            others: Stack::new(order),
        }
    }

    /// The segments were taken back.
    pub fn forget(&mut self) {
        self.spines.forget();
        self.others.forget();
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.others.is_empty() && self.spines.is_empty()
    }

    #[inline(always)]
    pub fn push(&mut self, arena: &Arena, item: Item) {
        self.others.push(arena, item);
    }

    pub fn push_spine(&mut self, arena: &Arena, spine: Item) {
        self.spines.push(arena, spine);
    }

    #[inline(always)]
    pub fn pop(&mut self) -> Option<Item> {
        if !self.spines.is_empty() {
            return self.spines.pop();
        }
        self.others.pop()
    }

    /// Moves items to the deque, where others steal them; whether there were enough.
    #[cold]
    #[inline(never)]
    pub fn share(&mut self, deque: &Deque<'_, AtomicU64>) -> bool {
        self.others.share(deque) || self.spines.share(deque)
    }
}

/// A worker's stack of items, or queue, or stack of queues (`trace-order`).
pub(in crate::scavenge) struct Stack {
    top: End,
    /// Items below were moved to the deque, or taken as the oldest. Hierarchical: in the top segment.
    bottom: End,
    /// The first segment that was taken in this phase, or null.
    begin: *mut Segment,
    order: TraceOrder,
    /// Hierarchical: how many segments with items are below the top one.
    below: usize,
    /// Hierarchical: the lowest of them.
    lowest: *mut Segment,
}

// SAFETY: the segments belong to the stack, whichever thread has it.
unsafe impl Send for Stack {}

impl Stack {
    pub fn new(order: TraceOrder) -> Stack {
        Stack {
            top: End::NOWHERE,
            bottom: End::NOWHERE,
            begin: ptr::null_mut(),
            order,
            below: 0,
            lowest: ptr::null_mut(),
        }
    }

    /// The segments were taken back.
    pub fn forget(&mut self) {
        debug_assert!(self.is_empty());
        (self.top, self.bottom) = (End::NOWHERE, End::NOWHERE);
        self.begin = ptr::null_mut();
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.top.at == self.bottom.at && self.below == 0
    }

    #[inline(always)]
    pub fn push(&mut self, arena: &Arena, item: Item) {
        if self.top.at == self.top.limit {
            self.grow(arena);
        }
        // SAFETY: below the limit of a segment of this stack.
        unsafe {
            self.top.at.write(item.0);
            self.top.at = self.top.at.add(1);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, arena: &Arena) {
        let full = self.top.segment;
        if self.order == TraceOrder::Hierarchical && !full.is_null() {
            if self.bottom.at == self.bottom.limit {
                return self.enter_empty(full);
            }
            self.leave();
        }
        // SAFETY: the segments of the chain are this stack's.
        unsafe {
            let above = match full.is_null() {
                true => ptr::null_mut(),
                false => (*full).next,
            };
            let segment = match above.is_null() {
                true => arena.take(full),
                false => above,
            };
            let was_empty = self.is_empty();
            if full.is_null() {
                self.begin = segment;
            }
            if was_empty || self.below > 0 {
                return self.enter_empty(segment);
            }
            self.top = End::start(segment);
        }
    }

    /// A segment of this stack, in which nothing is any more, is the top one.
    fn enter_empty(&mut self, segment: *mut Segment) {
        // SAFETY: the segment is this stack's.
        self.top = unsafe { End::start(segment) };
        self.bottom = self.top;
    }

    /// Hierarchical: the top segment, which is full and has items, is left for the one above.
    fn leave(&mut self) {
        let segment = self.top.segment;
        if self.below == 0 {
            self.lowest = segment;
        }
        self.below += 1;
        // SAFETY: the segment is this stack's.
        unsafe { (*segment).oldest = self.bottom.at };
    }

    /// Hierarchical: nothing is left in the top segment, so the one below is the top one again.
    #[cold]
    #[inline(never)]
    fn descend(&mut self) {
        debug_assert!(self.below > 0);
        self.below -= 1;
        // SAFETY: the segments of the chain are this stack's, and there is one below.
        unsafe {
            let below = (*self.top.segment).previous;
            self.enter_empty(below);
            self.top.at = self.top.limit;
            self.bottom.at = (*below).oldest;
        }
    }

    #[inline(always)]
    pub fn pop(&mut self) -> Option<Item> {
        if self.is_empty() {
            self.begin_again();
            return None;
        }
        if self.order != TraceOrder::Depth {
            if self.bottom.at == self.top.at {
                self.descend();
            }
            return Some(self.oldest());
        }
        // SAFETY: not empty, so an item lies below the top, in this segment or the one below.
        unsafe {
            if self.top.at == self.top.first {
                self.retreat();
            }
            self.top.at = self.top.at.sub(1);
            Some(Item(self.top.at.read()))
        }
    }

    /// Nothing is left: the first segment is in the cache, as a rule.
    #[inline(always)]
    fn begin_again(&mut self) {
        if !self.begin.is_null() {
            self.enter_empty(self.begin);
        }
    }

    /// The top goes to the end of the segment below.
    ///
    /// # Safety
    /// The top is at the start of a segment, and the stack is not empty.
    #[cold]
    #[inline(never)]
    unsafe fn retreat(&mut self) {
        // SAFETY: the stack is not empty, so there is a segment below, which is this stack's.
        unsafe {
            self.top = End::start((*self.top.segment).previous);
            self.top.at = self.top.limit;
        }
    }

    /// Takes the oldest item, of the top segment if hierarchical; that is not empty.
    #[inline(always)]
    fn oldest(&mut self) -> Item {
        // SAFETY: between bottom and top, so it was written; a segment that the bottom has left behind has one above
        // it, which the top is in or above.
        unsafe {
            let item = Item(self.bottom.at.read());
            self.bottom.at = self.bottom.at.add(1);
            if self.bottom.at == self.bottom.limit && self.bottom.segment != self.top.segment {
                self.bottom = End::start((*self.bottom.segment).next);
            }
            item
        }
    }

    /// About how many items there are: what is in segments between the first and the last does not count.
    fn items(&self) -> usize {
        let between = |low: *mut u64, high: *mut u64| (high as usize - low as usize) / 8;
        if self.below > 0 {
            let (oldest, limit) = self.lowest();
            return between(oldest, limit) + between(self.bottom.at, self.top.at);
        }
        if self.bottom.segment == self.top.segment {
            return between(self.bottom.at, self.top.at);
        }
        between(self.bottom.at, self.bottom.limit) + between(self.top.first, self.top.at)
    }

    /// Hierarchical: the items of the lowest segment, which is below the top one.
    fn lowest(&self) -> (*mut u64, *mut u64) {
        // SAFETY: the segments of the chain are this stack's.
        unsafe { ((*self.lowest).oldest, End::start(self.lowest).limit) }
    }

    /// The item that was pushed first.
    fn first(&self) -> u64 {
        let at = match self.below {
            0 => self.bottom.at,
            _ => self.lowest().0,
        };
        // SAFETY: the stack is not empty, and so is each segment below the top one.
        unsafe { at.read() }
    }

    /// Takes away the item that was pushed first.
    fn drop_first(&mut self) {
        if self.below == 0 {
            self.oldest();
            return;
        }
        let (oldest, limit) = self.lowest();
        // SAFETY: the segments of the chain are this stack's; the lowest one has an item, and one above it.
        unsafe {
            (*self.lowest).oldest = oldest.add(1);
            if (*self.lowest).oldest == limit {
                self.lowest = (*self.lowest).next;
                self.below -= 1;
            }
        }
    }

    /// Moves the older half to the deque, or some of it; whether anything was moved.
    pub fn share(&mut self, deque: &Deque<'_, AtomicU64>) -> bool {
        let count = self.items();
        if count < FEW_ITEMS {
            return false;
        }
        for _ in 0..(count / 2).min(MOST_SHARED) {
            if deque.push(self.first()).is_err() {
                break;
            }
            self.drop_first();
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use gleaner_work::Steal;
    use std::collections::VecDeque;
    use std::vec::Vec;

    #[test]
    fn items_keep_object_and_chunk() {
        let base = Address::new(0x7000_0000_0000);
        let object = base.add((1 << 42) - 8);
        let item = Item::object(object, base);
        assert_eq!(item.get(base), (object, 0));
        assert_eq!(item.chunk(9_000_000).get(base), (object, 9_000_000));
    }

    #[test]
    fn there_is_a_segment_for_each_stack_beside_those_of_all_items() {
        let arena = Arena::new(3, SEGMENT_ITEMS).unwrap();
        // Two for each worker.
        let mut stacks = [(); 6].map(|()| Stack::new(TraceOrder::Depth));
        let (last, others) = stacks.split_last_mut().unwrap();
        for stack in others.iter_mut() {
            stack.push(&arena, Item(1));
        }
        for number in others.len() as u64..SEGMENT_ITEMS as u64 {
            last.push(&arena, Item(number));
        }
        // The others have given theirs away, and keep the segments that they began.
        for stack in others.iter_mut() {
            stack.pop();
            last.push(&arena, Item(0));
        }
        last.push(&arena, Item(0));
    }

    #[test]
    fn what_a_deep_trace_took_beyond_what_is_kept_reads_as_zero() {
        let deep = 3 * KEPT_BYTES / size_of::<Segment>();
        let arena = Arena::new(1, deep * SEGMENT_ITEMS).unwrap();
        let mut stack = Stack::new(TraceOrder::Depth);
        for _ in 0..deep * SEGMENT_ITEMS {
            stack.push(&arena, Item(7));
        }
        // SAFETY: segments of the arena, below its count, which nobody uses meanwhile.
        let last = |number: usize| unsafe {
            let items = &raw const (*arena.segments.add(number).as_ptr()).items;
            items.cast::<u64>().add(SEGMENT_ITEMS - 1).read()
        };
        assert_eq!((last(0), last(deep - 1)), (7, 7));
        while stack.pop().is_some() {}
        stack.forget();
        arena.release();
        assert_eq!((last(0), last(deep - 1)), (7, 0));
    }

    /// What a stack is to do, with queues of the standard library for its segments.
    struct Model {
        order: TraceOrder,
        /// Each with how many items it has taken; but for `Hierarchical` one, which is never full.
        segments: Vec<(usize, VecDeque<u64>)>,
    }

    impl Model {
        fn new(order: TraceOrder) -> Model {
            Model {
                order,
                segments: Vec::from([(0, VecDeque::new())]),
            }
        }

        fn push(&mut self, item: u64) {
            let (taken, items) = self.segments.last_mut().unwrap();
            let full = self.order == TraceOrder::Hierarchical && *taken == SEGMENT_ITEMS;
            if full && !items.is_empty() {
                return self.segments.push((1, VecDeque::from([item])));
            }
            *taken = if full { 1 } else { *taken + 1 };
            items.push_back(item);
        }

        fn pop(&mut self) -> Option<u64> {
            while self.segments.len() > 1 && self.segments.last().unwrap().1.is_empty() {
                self.segments.pop();
            }
            let (taken, items) = self.segments.last_mut().unwrap();
            match self.order {
                TraceOrder::Depth => items.pop_back(),
                TraceOrder::Breadth => items.pop_front(),
                TraceOrder::Hierarchical => {
                    if items.is_empty() {
                        *taken = 0;
                    }
                    items.pop_front()
                }
            }
        }

        fn is_empty(&self) -> bool {
            self.segments.iter().all(|(_, items)| items.is_empty())
        }

        /// Takes what was pushed first.
        fn steal(&mut self) -> Option<u64> {
            let mut lists = self.segments.iter_mut().map(|(_, items)| items);
            lists.find_map(VecDeque::pop_front)
        }
    }

    const ORDERS: [TraceOrder; 3] = [
        TraceOrder::Depth,
        TraceOrder::Breadth,
        TraceOrder::Hierarchical,
    ];

    /// Pushes and pops in bursts around the bounds of segments; in half of the cases items are shared.
    #[test]
    fn a_stack_has_the_items_of_a_model_over_many_segments() {
        for (order, shares) in ORDERS.into_iter().flat_map(|o| [(o, false), (o, true)]) {
            let arena = Arena::new(2, 20 * SEGMENT_ITEMS).unwrap();
            let ring: Vec<_> = (0..1024).map(|_| AtomicU64::new(0)).collect();
            let deque = Deque::new(&ring);
            let (mut stack, mut model) = (Stack::new(order), Model::new(order));
            let mut number = 0;
            let bursts = [
                3,
                SEGMENT_ITEMS,
                5,
                3 * SEGMENT_ITEMS - 1,
                1,
                2 * SEGMENT_ITEMS,
            ];
            for (round, burst) in bursts.into_iter().cycle().take(12).enumerate() {
                for _ in 0..burst {
                    stack.push(&arena, Item(number));
                    model.push(number);
                    number += 1;
                }
                // Some of them, or as long as the stack gives any: through all segments but the top one.
                let most = if round % 2 == 0 { 700 } else { usize::MAX };
                let mut given = 0;
                while shares && given < most && stack.share(&deque) {
                    while let Steal::Taken(item) = deque.steal() {
                        assert_eq!(Some(item), model.steal(), "{order:?} {round} shared");
                        given += 1;
                    }
                }
                let pops = if round % 3 == 2 {
                    usize::MAX
                } else {
                    burst - burst / 3
                };
                for _ in 0..pops {
                    let expected = model.pop();
                    assert_eq!(
                        stack.pop().map(|item| item.0),
                        expected,
                        "{order:?} {round}"
                    );
                    if expected.is_none() {
                        break;
                    }
                }
            }
            while let Some(item) = stack.pop() {
                assert_eq!(
                    (Some(item.0), stack.is_empty()),
                    (model.pop(), model.is_empty())
                );
            }
            stack.forget();
            arena.release();
            stack.push(&arena, Item(7));
            assert_eq!((stack.pop(), stack.pop()), (Some(Item(7)), None));
        }
    }

    /// The numbers of a tree of five children each, as a trace finds them: no more than a segment waits between an item
    /// and its children.
    #[test]
    fn a_hierarchical_trace_of_a_tree_takes_few_segments() {
        let arena = Arena::new(1, 100 * SEGMENT_ITEMS).unwrap();
        let (mut stack, mut seen, nodes) = (Stack::new(TraceOrder::Hierarchical), 0, 300_000);
        stack.push(&arena, Item(0));
        while let Some(Item(number)) = stack.pop() {
            seen += 1;
            let children = 5 * number + 1..5 * number + 6;
            children
                .filter(|&child| child < nodes)
                .for_each(|child| stack.push(&arena, Item(child)));
        }
        let segments = arena.taken.load(Ordering::Relaxed);
        assert_eq!(seen, nodes);
        assert!(segments < 10, "{segments}");
    }

    #[test]
    fn a_hierarchical_trace_of_a_list_takes_one_segment() {
        let arena = Arena::new(1, 9 * SEGMENT_ITEMS).unwrap();
        let mut stack = Stack::new(TraceOrder::Hierarchical);
        for number in 0..3 * SEGMENT_ITEMS as u64 {
            stack.push(&arena, Item(number));
            assert_eq!(stack.pop(), Some(Item(number)));
            assert!(stack.is_empty());
        }
        assert_eq!(arena.taken.load(Ordering::Relaxed), 1);
    }
}
