//! What the last sweep found of each block, in a byte: how much of it is in use, or that nothing lives there.
//!
//! # Invariants
//! - A vacant block is in no list of blocks with holes. While the space has lines, vacant blocks and those at the top of the
//!   region are taken with the lock held. So it is exact how many bytes are in use then.
//! - `vacant` and `released` count the blocks in these states; `released` ones are vacant, too.
//! - Vacant blocks that hold memory are taken before those that do not: so memory comes only when all that is held is in use.
//!   The first kind lies at `held_from` or above, the other at `released_from` or above.
//! - States are set by workers of the sweep, each those of its own blocks; otherwise of a block with holes by the holder
//!   of the lock for such blocks, and of a vacant one with this lock.

use gleaner_base::contexts::{AllocatorLocked, WorldStopped};
use gleaner_base::sync::{AtomicU8, AtomicUsize, Ordering, RawLock};
use gleaner_mem::Address;
use gleaner_mem::side::Side;

use super::lines::LINE_BYTES;
use crate::precise::bump::BumpRegion;
use crate::precise::tenured::BLOCK_BYTES;

/// In how many steps it is told how much of a block is in use.
pub const LEVELS: usize = 16;
const BLOCK_SHIFT: u32 = BLOCK_BYTES.ilog2();

/// The state of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It has an owner or had one since the sweep, or it has no hole, or was never swept.
    Other,
    /// Nothing lives there. Its memory is held.
    Vacant,
    /// Nothing lives there, and its memory went back to the system.
    Released,
    /// What lives there is evacuated.
    Candidate,
    /// It was given back with holes by an owner that it had since the sweep.
    Given,
    /// It has an owner or had one since the sweep, and new objects may lie in its lines.
    New,
    /// It has holes and had no owner since the sweep, and at most so many of its [`LEVELS`] parts are in use: 1 at least.
    Sparse(usize),
}

const SPARSE: u8 = 16;

impl State {
    /// Of a block of which `free` bytes are free.
    pub fn of_free(free: usize) -> State {
        match free {
            0 => State::Other,
            BLOCK_BYTES => State::Vacant,
            _ => State::Sparse((BLOCK_BYTES - free).div_ceil(BLOCK_BYTES / LEVELS)),
        }
    }

    const fn byte(self) -> u8 {
        match self {
            State::Other => 0,
            State::Vacant => 1,
            State::Released => 2,
            State::Candidate => CANDIDATE,
            State::Given => 4,
            State::New => 5,
            State::Sparse(level) => SPARSE + level as u8,
        }
    }

    const fn of(byte: u8) -> State {
        match byte {
            0 => State::Other,
            1 => State::Vacant,
            2 => State::Released,
            CANDIDATE => State::Candidate,
            4 => State::Given,
            5 => State::New,
            level => State::Sparse((level - SPARSE) as usize),
        }
    }
}

const CANDIDATE: u8 = 3;

/// The states of the blocks of a space.
pub struct BlockTable {
    states: Side<AtomicU8>,
    lock: RawLock,
    /// See the invariants. Written with the lock, or by the leader.
    held_from: AtomicUsize,
    released_from: AtomicUsize,
    vacant: AtomicUsize,
    released: AtomicUsize,
}

impl BlockTable {
    /// Nothing was swept; `None` when the system gives no memory.
    pub fn new(start: Address, bytes: usize) -> Option<BlockTable> {
        Some(BlockTable {
            states: Side::new(start, bytes, BLOCK_SHIFT)?,
            lock: RawLock::new(),
            held_from: AtomicUsize::new(0),
            released_from: AtomicUsize::new(0),
            vacant: AtomicUsize::new(0),
            released: AtomicUsize::new(0),
        })
    }

    /// The number of the block in which `at` lies.
    pub fn number(&self, at: Address) -> usize {
        self.states.index(at)
    }

    /// Where a block begins.
    pub fn start(&self, number: usize) -> Address {
        self.states.address(number)
    }

    /// The state of a block.
    pub fn get(&self, number: usize) -> State {
        State::of(self.states.get(number).load(Ordering::Relaxed))
    }

    /// Sets the state of a block.
    pub fn set(&self, number: usize, state: State) {
        self.states
            .get(number)
            .store(state.byte(), Ordering::Relaxed);
    }

    /// Whether what lives in the block of `object` is evacuated.
    #[inline(always)]
    pub fn is_candidate(&self, object: Address) -> bool {
        let state = self.states.get(self.states.index(object));
        state.load(Ordering::Relaxed) == CANDIDATE
    }

    /// How many blocks are vacant.
    pub fn vacant(&self) -> usize {
        self.vacant.load(Ordering::Relaxed)
    }

    /// How many of these hold no memory.
    pub fn released(&self) -> usize {
        self.released.load(Ordering::Relaxed)
    }

    /// Counts the vacant blocks among the first `count`; those above are in no particular state from now on.
    pub fn settle(&self, _: &mut WorldStopped<'_>, count: usize, swept: usize) {
        let (mut vacant, mut released) = (0, 0);
        for number in 0..count {
            match self.get(number) {
                State::Vacant => vacant += 1,
                State::Released => (vacant, released) = (vacant + 1, released + 1),
                _ => {}
            }
        }
        (count..swept).for_each(|number| self.set(number, State::Other));
        self.held_from.store(0, Ordering::Relaxed);
        self.released_from.store(0, Ordering::Relaxed);
        self.vacant.store(vacant, Ordering::Relaxed);
        self.released.store(released, Ordering::Relaxed);
    }

    /// Takes a block that is free as a whole, with its bytes: the lowest vacant one of those that hold memory, or of the
    /// others, or what is left of the one at the top of the region. No more than `most` bytes are in use then: none is taken,
    /// or a part of the one at the top.
    pub fn take_free(&self, region: &BumpRegion, most: usize) -> Option<(Address, usize)> {
        self.lock.lock();
        let taken = self.take_locked(region, most);
        self.lock.unlock();
        taken
    }

    fn take_locked(&self, region: &BumpRegion, most: usize) -> Option<(Address, usize)> {
        let (used, vacant) = (region.used(), self.vacant());
        let left = most.saturating_sub(used - vacant * BLOCK_BYTES);
        if vacant == 0 {
            return region.take(1, left.min(BLOCK_BYTES - used % BLOCK_BYTES));
        }
        (left >= BLOCK_BYTES).then(|| (self.take_lowest(), BLOCK_BYTES))
    }

    /// With the lock; some block is vacant.
    fn take_lowest(&self) -> Address {
        let is_held = self.vacant() > self.released();
        let (state, from) = match is_held {
            true => (State::Vacant, &self.held_from),
            false => (State::Released, &self.released_from),
        };
        let mut number = from.load(Ordering::Relaxed);
        while self.get(number) != state {
            number += 1;
        }
        if !is_held {
            self.released.fetch_sub(1, Ordering::Relaxed);
        }
        self.set(number, State::Other);
        self.vacant.fetch_sub(1, Ordering::Relaxed);
        from.store(number + 1, Ordering::Relaxed);
        self.start(number)
    }

    /// Gives `release` the memory of up to `most` vacant blocks among the first `count`, the highest first, blocks that
    /// lie side by side at once. It says whether the memory went back; blocks whose memory did not are as before. How many
    /// blocks went back. Nobody takes blocks meanwhile.
    pub fn release(
        &self,
        _: &mut AllocatorLocked<'_>,
        (count, most): (usize, usize),
        mut release: impl FnMut(Address, Address) -> bool,
    ) -> usize {
        let (mut end, mut left) = (count, most);
        while end > 0 && left > 0 {
            let mut first = end;
            while first > 0 && end - first < left && self.get(first - 1) == State::Vacant {
                first -= 1;
            }
            if first < end && release(self.start(first), self.start(end)) {
                (first..end).for_each(|number| self.set(number, State::Released));
                self.released.fetch_add(end - first, Ordering::Relaxed);
                left -= end - first;
            }
            end = first.min(end - 1);
        }
        most - left
    }

    /// How many of the first `count` blocks hold no memory.
    pub fn released_among(&self, count: usize) -> usize {
        (0..count)
            .filter(|&number| self.get(number) == State::Released)
            .count()
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        self.states.bytes()
    }
}

const _: () = assert!(BLOCK_BYTES / LEVELS >= LINE_BYTES && LEVELS + (SPARSE as usize) < 256);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::precise::single_thread::{locked, stopped};
    use std::vec::Vec;

    const BASE: Address = Address::new(0x100_0000);

    fn table(states: &[State]) -> BlockTable {
        let table = BlockTable::new(BASE, states.len() * BLOCK_BYTES).unwrap();
        for (number, &state) in states.iter().enumerate() {
            table.set(number, state);
            assert_eq!(table.get(number), state);
        }
        table.settle(&mut stopped(), states.len(), states.len());
        table
    }

    #[test]
    fn a_state_says_at_most_how_much_is_in_use() {
        assert_eq!(State::of_free(0), State::Other);
        assert_eq!(State::of_free(BLOCK_BYTES), State::Vacant);
        assert_eq!(State::of_free(BLOCK_BYTES - LINE_BYTES), State::Sparse(1));
        assert_eq!(State::of_free(LINE_BYTES), State::Sparse(LEVELS));
        let quarter = BLOCK_BYTES / 4;
        assert_eq!(State::of_free(3 * quarter), State::Sparse(LEVELS / 4));
        assert_eq!(
            State::of_free(3 * quarter - LINE_BYTES),
            State::Sparse(LEVELS / 4 + 1)
        );
    }

    #[test]
    fn blocks_with_memory_are_taken_first_and_as_far_as_they_may_be_in_use() {
        use State::*;
        let table = table(&[Other, Released, Sparse(3), Vacant, Vacant, Candidate]);
        assert_eq!((table.vacant(), table.released()), (3, 1));
        assert!(table.is_candidate(BASE.add(5 * BLOCK_BYTES + 8)));
        assert!(!table.is_candidate(BASE.add(5 * BLOCK_BYTES - 8)));
        let region = BumpRegion::new(BASE, 9 * BLOCK_BYTES);
        region.take(8, 6 * BLOCK_BYTES + 64).unwrap();
        // Three blocks are in use, and a little of the one at the top.
        let take = |blocks| table.take_free(&region, blocks * BLOCK_BYTES + 64);
        assert_eq!(take(3), None);
        assert_eq!(take(4), Some((table.start(3), BLOCK_BYTES)));
        assert_eq!(take(4), None);
        assert_eq!(take(6), Some((table.start(4), BLOCK_BYTES)));
        assert_eq!((table.vacant(), table.released()), (1, 1));
        assert_eq!(take(6), Some((table.start(1), BLOCK_BYTES)));
        assert_eq!((table.vacant(), table.released()), (0, 0));
        assert_eq!(take(6), None);
        let rest = table.start(6).add(64);
        assert_eq!(take(7), Some((rest, BLOCK_BYTES - 64)));
        assert_eq!(take(9), Some((table.start(7), BLOCK_BYTES)));
        // A part of the last one.
        assert_eq!(take(8), Some((table.start(8), 64)));
        assert_eq!(take(8), None);
        assert_eq!(table.get(2), Sparse(3));
    }

    #[test]
    fn the_highest_vacant_blocks_go_back_and_neighbours_go_together() {
        use State::*;
        let table = table(&[Vacant, Vacant, Other, Vacant, Vacant, Vacant, Other]);
        let mut gone = Vec::new();
        let mut release = |count, most| {
            gone.clear();
            let blocks = table.release(&mut locked(), (count, most), |low, high| {
                gone.push((table.number(low), table.number(high)));
                true
            });
            assert_eq!(blocks, gone.iter().map(|run| run.1 - run.0).sum());
            gone.clone()
        };
        assert!(release(7, 0).is_empty());
        assert_eq!(release(7, 2), [(4, 6)]);
        assert_eq!(release(7, 2), [(3, 4), (1, 2)]);
        assert_eq!(table.released(), 4);
        assert_eq!(release(7, 9), [(0, 1)]);
        assert_eq!((table.vacant(), table.released()), (5, 5));
        assert_eq!(
            [1, 2, 3, 7].map(|count| table.released_among(count)),
            [1, 2, 2, 5]
        );
    }

    #[test]
    fn blocks_that_the_system_does_not_take_back_hold_memory_still() {
        use State::*;
        let table = table(&[Vacant, Other, Vacant, Vacant, Other, Vacant]);
        let locked_pages = [table.start(3), table.start(5)];
        let mut offered = Vec::new();
        let mut release = |most| {
            offered.clear();
            let blocks = table.release(&mut locked(), (6, most), |low, high| {
                offered.push((table.number(low), table.number(high)));
                !locked_pages.iter().any(|&page| low <= page && page < high)
            });
            (blocks, offered.clone())
        };
        assert_eq!(release(6), (1, [(5, 6), (2, 4), (0, 1)].to_vec()));
        assert_eq!((table.vacant(), table.released()), (4, 1));
        assert_eq!(
            [0, 2, 3, 5].map(|number| table.get(number)),
            [Released, Vacant, Vacant, Vacant]
        );
        // One block at a time, until one goes back.
        assert_eq!(release(1), (1, [(5, 6), (3, 4), (2, 3)].to_vec()));
        assert_eq!((table.get(2), table.released()), (Released, 2));
    }
}

/// The shipped code under loom.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::thread;
    use std::sync::Arc;

    const BASE: Address = Address::new(0x100_0000);

    struct Space {
        table: BlockTable,
        region: BumpRegion,
    }

    impl Space {
        fn take(&self, most: usize) -> Option<Address> {
            let taken = self.table.take_free(&self.region, most * BLOCK_BYTES);
            taken.map(|(start, _)| start)
        }
    }

    /// Two threads take two free blocks each, a vacant one and others at the top, of which there may be three: no block is
    /// taken twice, and one thread gets one less.
    #[test]
    fn a_block_is_taken_once_and_no_more_than_may_be_in_use() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let space = Arc::new(Space {
                table: BlockTable::new(BASE, 6 * BLOCK_BYTES).unwrap(),
                region: BumpRegion::new(BASE, 6 * BLOCK_BYTES),
            });
            space.region.take_block(BLOCK_BYTES).unwrap();
            space.table.set(0, State::Vacant);
            // SAFETY: there is only this thread.
            let mut world = unsafe { WorldStopped::begin() };
            space.table.settle(&mut world, 1, 1);
            let other = {
                let space = space.clone();
                thread::spawn(move || [space.take(3), space.take(3)])
            };
            let own = [space.take(3), space.take(3)];
            let others = other.join().unwrap();
            let mut taken: std::vec::Vec<Address> =
                own.into_iter().chain(others).flatten().collect();
            taken.sort();
            let expected = [0, 1, 2].map(|number| BASE.add(number * BLOCK_BYTES));
            assert_eq!(taken, expected);
        });
    }
}
