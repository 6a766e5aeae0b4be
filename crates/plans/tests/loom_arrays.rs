//! Arrays in pieces under loom (I6): the shipped steps in which pointers of spines change (`scavenge::parts`), the
//! claims of arraylets, the lock under which arraylets are shared, and the gate. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p gleaner-plans --release --test loom_arrays`.
//!
//! A spine has one part here. The words of an arraylet are atomics, accessed relaxed: loom lets a thread read any value
//! that nothing orders before another one, so what is not published by a pointer may be seen as it was before. For each
//! protocol there are models of it as it must not be, which loom has to find wrong.
#![cfg(loom)]

use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use gleaner_base::contexts::{AllocatorLocked, WorldStopped};
use gleaner_base::sync::{AtomicU32, AtomicU64, Ordering, RawLock, UnsafeCell};
use gleaner_mem::Address;
use gleaner_mem::cards::{CARD_BYTES, CardTable};
use gleaner_mem::spine::{Pieces, Pointer};
use gleaner_os::memory;
use gleaner_plans::scavenge::parts::{Part, Target, Writable};
use gleaner_plans::scavenge::stop::collecting::Collecting;
use gleaner_plans::scavenge::stop::poll::PollGate;
use gleaner_spaces::precise::arraylets::{ArrayletBuffer, Arraylets, CHUNK_BYTES, Claim, Contents};
use loom::thread;

/// Larger arraylets than any heap has, so that there are few: two in a chunk.
const SHIFT: u32 = 13;
const CHUNKS: usize = 4;
const ARRAYLETS: usize = (CHUNKS * CHUNK_BYTES) >> SHIFT;
/// Words of an arraylet that are modelled.
const WORDS: usize = 2;
/// What unused arraylets hold.
const STALE: u64 = 4711;

/// A spine: N is 0, so its pointer, which is as wide as a slot, lies where elements begin.
#[repr(C)]
struct Spine<P> {
    header_and_length: [u64; 2],
    pointer: P,
}

impl<P> Spine<P> {
    fn new(pointer: P) -> Spine<P> {
        Spine {
            header_and_length: [0; 2],
            pointer,
        }
    }
}

/// Two spines of a heap.
enum Spines {
    Wide([Spine<AtomicU64>; 2]),
    Compressed([Spine<AtomicU32>; 2]),
}

impl Spines {
    fn new(slot_bytes: usize, zero: Pointer) -> Spines {
        let wide = |_| Spine::new(AtomicU64::new(zero.word()));
        let compressed = |_| Spine::new(AtomicU32::new(zero.word() as u32));
        match slot_bytes {
            8 => Spines::Wide(core::array::from_fn(wide)),
            _ => Spines::Compressed(core::array::from_fn(compressed)),
        }
    }

    fn address(&self, spine: usize) -> Address {
        match self {
            Spines::Wide(spines) => Address::of(&raw const spines[spine].header_and_length),
            Spines::Compressed(spines) => Address::of(&raw const spines[spine].header_and_length),
        }
    }
}

/// Addresses for arraylets. Loom runs a model thousands of times, so they are given back.
struct Memory(NonNull<u8>);

impl Memory {
    /// What the space takes.
    const SPACE: usize = Arraylets::range(CHUNKS * CHUNK_BYTES);
    /// And room to align it.
    const BYTES: usize = Self::SPACE + CHUNK_BYTES;

    fn start(&self) -> Address {
        Address::of(self.0.as_ptr()).align_up(CHUNK_BYTES)
    }
}

// SAFETY: no thread of a model reads or writes the memory; the address alone may be known to any.
unsafe impl Send for Memory {}
// SAFETY: a shared reference gives nothing but the address.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: nobody uses the range any more, which `map` gave.
        unsafe { memory::unmap(self.0, Self::BYTES) };
    }
}

struct Stage {
    pieces: Pieces,
    arraylets: Arraylets,
    /// The lock for allocation beside the TLABs.
    beside: RawLock,
    spines: Spines,
    /// What arraylets hold. Both words of the zero arraylet are zero.
    words: [[AtomicU64; WORDS]; ARRAYLETS],
    gate: PollGate,
    /// How many mutators are attached.
    collecting: Collecting<usize>,
    _memory: Memory,
}

impl Stage {
    fn new() -> Stage {
        Stage::with_slots(8)
    }

    fn with_slots(slot_bytes: usize) -> Stage {
        let memory = Memory(memory::map(Memory::BYTES).unwrap());
        let start = memory.start();
        let zero = Arraylets::zero_of(start);
        let pieces = Pieces::new(0, SHIFT, slot_bytes, start, zero);
        Stage {
            pieces,
            arraylets: Arraylets::new(start, Memory::SPACE, SHIFT).unwrap(),
            beside: RawLock::new(),
            spines: Spines::new(slot_bytes, pieces.zero),
            words: core::array::from_fn(|_| core::array::from_fn(|_| AtomicU64::new(STALE))),
            gate: PollGate::new(),
            collecting: Collecting::new(0),
            _memory: memory,
        }
    }

    fn part(&self, spine: usize) -> Part<'_> {
        Part {
            pieces: &self.pieces,
            arraylets: &self.arraylets,
            spine: self.spines.address(spine),
            number: 0,
        }
    }

    fn pointer(&self, spine: usize) -> Pointer {
        // SAFETY: a spine with one part lies there.
        unsafe { self.pieces.load(self.part(spine).spine, 0) }
    }

    /// Sets a pointer before other threads know the spine.
    fn point(&self, spine: usize, arraylet: Address) {
        let pointer = self.pieces.pointer_to(arraylet);
        // SAFETY: a spine with one part lies there, which only this thread knows.
        unsafe { self.pieces.store(self.part(spine).spine, 0, pointer) };
    }

    fn words_of(&self, arraylet: Address) -> &[AtomicU64; WORDS] {
        &self.words[arraylet.offset_from(self.arraylets.start()) >> SHIFT]
    }

    fn word(&self, arraylet: Address, word: usize) -> u64 {
        if self.arraylets.contains(arraylet) {
            self.words_of(arraylet)[word].load(Ordering::Relaxed)
        } else {
            0
        }
    }

    fn set(&self, arraylet: Address, word: usize, value: u64) {
        self.words_of(arraylet)[word].store(value, Ordering::Relaxed);
    }

    /// What a mutator reads.
    fn read(&self, spine: usize, word: usize) -> u64 {
        self.word(self.pieces.target(self.pointer(spine)), word)
    }

    /// An arraylet of the stock, filled with what the tainted pointer leads to.
    fn filled(&self, arraylet: Address, before: Pointer) -> Address {
        let from = self.pieces.target(before);
        (0..WORDS).for_each(|word| self.set(arraylet, word, self.word(from, word)));
        arraylet
    }

    /// A mutator, inside the gate, makes a part writable, with an arraylet of its stock that `fill` fills. Where it is
    /// then.
    fn instantiate_with(
        &self,
        spine: usize,
        is_old: bool,
        fill: impl FnOnce(Pointer) -> Address,
    ) -> Address {
        // SAFETY: the spine has this part, and nothing points at what is in the stock.
        match unsafe { self.part(spine).instantiate(is_old, fill, |_| ()) } {
            Writable::Already(at) | Writable::Installed(at) | Writable::Others { at, .. } => at,
        }
    }

    fn instantiate(&self, spine: usize, is_old: bool, stock: Address) -> Address {
        self.instantiate_with(spine, is_old, |before| self.filled(stock, before))
    }

    fn write(&self, spine: usize, word: usize, value: u64, stock: Address) {
        let at = self.instantiate(spine, false, stock);
        self.set(at, word, value);
    }

    /// A mutator takes an arraylet into its stock.
    fn take(&self, buffer: &ArrayletBuffer) -> Address {
        let take = || self.arraylets.allocate(buffer);
        let taken = take().or_else(|| {
            self.beside.lock();
            // SAFETY: the lock is held until the chunk was given.
            let mut locked = unsafe { AllocatorLocked::begin() };
            let found = self
                .arraylets
                .refill(&mut locked, buffer, Contents::Primitives, |_, _| true);
            self.beside.unlock();
            found.then(take).flatten()
        });
        taken.expect("an arraylet").0
    }

    fn attach(&self) {
        let add = |count: &mut usize| {
            *count += 1;
            Some(())
        };
        self.collecting.attach(&self.gate, add).unwrap();
    }

    fn detach(&self) {
        self.gate.leave();
        self.collecting.detach(&self.gate, |count| *count -= 1);
    }
}

/// What came of a model in one order of events or another.
type Seen<T> = Arc<Mutex<BTreeSet<T>>>;

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

// The first write to a part.

/// How a mutator installs an arraylet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Install {
    Shipped,
    /// With what was in it.
    Unfilled,
    /// By a store.
    Stored,
}

impl Stage {
    fn install(&self, how: Install, spine: usize, is_old: bool, stock: Address) -> Address {
        let before = self.pointer(spine);
        match how {
            Install::Shipped => self.instantiate(spine, is_old, stock),
            Install::Unfilled => self.instantiate_with(spine, is_old, |_| stock),
            Install::Stored if before.is_tainted() => {
                self.point(spine, self.filled(stock, before));
                stock
            }
            Install::Stored => self.pieces.target(before),
        }
    }
}

/// Two mutators are the first to write to a part, each to a word of its own, and a third one reads both: what was there
/// or what was written, and nothing else. The part is the zero arraylet at first, or one that is shared.
fn first_writers(how: Install, slot_bytes: usize, is_old: bool, is_shared: bool) {
    let all = Seen::default();
    let seen = all.clone();
    check(3, move || {
        let stage = Arc::new(Stage::with_slots(slot_bytes));
        let buffer = ArrayletBuffer::default();
        let [shared, stock @ ..] = [(); 3].map(|()| stage.take(&buffer));
        if is_shared {
            (0..WORDS).for_each(|word| stage.set(shared, word, 5));
            stage.point(1, shared);
            // SAFETY: only this thread knows the spines.
            unsafe { stage.part(0).share(stage.part(1), is_old, |_| ()) };
            assert_eq!(stage.arraylets.is_old(shared), is_old);
        }
        let before = if is_shared { 5 } else { 0 };
        let write = move |stage: &Stage, own: usize| {
            let at = stage.install(how, 0, is_old, stock[own]);
            stage.set(at, own, 10 + own as u64);
        };
        let writer = {
            let stage = stage.clone();
            thread::spawn(move || write(&stage, 1))
        };
        let reader = {
            let stage = stage.clone();
            thread::spawn(move || {
                for word in 0..WORDS {
                    let read = stage.read(0, word);
                    let is_known = read == before || read == 10 + word as u64;
                    assert!(is_known, "a reader finds what lay there");
                }
            })
        };
        write(&stage, 0);
        writer.join().unwrap();
        reader.join().unwrap();
        for word in 0..WORDS {
            assert_eq!(stage.read(0, word), 10 + word as u64, "a write is lost");
            if is_shared {
                assert_eq!(stage.read(1, word), 5, "a write is seen by a sharer");
            }
        }
        // The loser has its arraylet back, young.
        let own = stage.pieces.target(stage.pointer(0));
        let others = stock.into_iter().find(|&one| one != own).unwrap();
        let is_old_now = [own, others].map(|one| stage.arraylets.is_old(one));
        assert_eq!(is_old_now, [is_old, false]);
        assert!(stage.arraylets.is_live(own) && stage.arraylets.is_live(others));
        seen.lock().unwrap().insert(own == stock[0]);
    });
    assert_eq!(all.lock().unwrap().len(), 2, "either mutator wins");
}

#[test]
fn first_writers_agree_on_one_arraylet() {
    first_writers(Install::Shipped, 8, false, false);
    first_writers(Install::Shipped, 4, false, false);
}

#[test]
fn first_writers_of_an_old_array_agree_on_one_arraylet() {
    first_writers(Install::Shipped, 8, true, false);
}

#[test]
fn first_writers_of_a_shared_part_agree_on_one_copy() {
    first_writers(Install::Shipped, 8, false, true);
    first_writers(Install::Shipped, 4, true, true);
}

#[test]
#[should_panic(expected = "a reader finds what lay there")]
fn an_arraylet_that_is_not_filled_shows_what_lay_there() {
    first_writers(Install::Unfilled, 8, false, false);
}

#[test]
#[should_panic(expected = "a write is lost")]
fn an_arraylet_that_is_installed_by_a_store_loses_a_write() {
    first_writers(Install::Stored, 8, false, false);
}

// Sharing.

/// When a mutator shares an arraylet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    Shipped,
    /// Also while others are attached.
    Always,
    /// When it was alone a moment before.
    Late,
}

impl Stage {
    /// Whether the first spine's arraylet is that of the second, too.
    fn share(&self, when: Share) -> bool {
        let body = || {
            // SAFETY: both spines have a part; the first way asks for no other mutator, and the others are wrong.
            unsafe { self.part(1).share(self.part(0), false, |_| ()) };
        };
        match when {
            Share::Shipped => self.collecting.while_alone(|&count| count, body),
            Share::Always => {
                body();
                true
            }
            Share::Late => {
                let is_alone = self.collecting.while_alone(|&count| count, || ());
                if is_alone {
                    body();
                }
                is_alone
            }
        }
    }
}

/// A mutator copies an array by sharing while another one comes, writes to the original, and goes: it may have read the
/// pointer before that was tainted. What it writes is not seen in the copy, and what is written to the copy not in the
/// original.
fn a_writer_comes_and_goes(when: Share) -> BTreeSet<Option<u64>> {
    let all = Seen::default();
    let seen = all.clone();
    check(3, move || {
        let stage = Arc::new(Stage::new());
        let buffer = ArrayletBuffer::default();
        let [original, stock @ ..] = [(); 3].map(|()| stage.take(&buffer));
        stage.set(original, 0, 1);
        stage.point(0, original);
        stage.attach();
        let writer = {
            let stage = stage.clone();
            thread::spawn(move || {
                stage.attach();
                stage.write(0, 0, 2, stock[1]);
                stage.detach();
            })
        };
        let copied = stage.share(when).then(|| stage.read(1, 0));
        seen.lock().unwrap().insert(copied);
        // The write to the copy: all of it is there before.
        if let Some(copied) = copied {
            let at = stage.instantiate(1, false, stock[0]);
            let found = stage.word(at, 0);
            assert_eq!(found, copied, "a write is seen through the copy");
            stage.set(at, 0, 3);
        }
        stage.detach();
        writer.join().unwrap();
        assert_eq!(stage.read(0, 0), 2, "a write to the original is lost");
        if copied.is_some() {
            assert_eq!(stage.read(1, 0), 3, "a write to the copy is lost");
        }
    });
    all.lock().unwrap().clone()
}

#[test]
fn a_writer_that_comes_and_goes_writes_to_one_array() {
    let seen = a_writer_comes_and_goes(Share::Shipped);
    // It was there meanwhile, came later, and was gone before.
    assert_eq!(seen, [None, Some(1), Some(2)].into());
}

#[test]
#[should_panic(expected = "a write is seen through the copy")]
fn a_writer_that_is_attached_writes_through_what_is_shared() {
    a_writer_comes_and_goes(Share::Always);
}

#[test]
#[should_panic(expected = "a write is seen through the copy")]
fn a_writer_that_comes_when_the_lock_is_free_again_writes_through_what_is_shared() {
    a_writer_comes_and_goes(Share::Late);
}

// Compression.

/// What a mutator does with the place that it writes to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Nothing,
    /// It keeps it over a poll.
    Place,
    /// It keeps none, but writes the first value outside of the gate.
    Gate,
}

/// A scavenge, by a thread outside of the gate; then that thread is a mutator that writes to an array of its own.
fn scavenge_and_write(stage: &Stage) {
    stage.collecting.with(&stage.gate, |_| {
        stage.gate.close();
        stage.gate.drain();
        // SAFETY: nobody is inside the gate, and this thread is the one at work.
        unsafe {
            let mut world = WorldStopped::begin();
            stage.arraylets.begin_scavenge(&mut world);
            let is_zero = |at| (0..WORDS).all(|word| stage.word(at, word) == 0);
            if let Target::Arraylet(arraylet) = stage.part(0).target(is_zero) {
                assert_eq!(stage.arraylets.claim(arraylet, false), Claim::Won);
            }
            stage.arraylets.finish_scavenge(&mut world, |_| ());
        }
        stage.gate.open();
    });
    stage.attach();
    stage.write(1, 0, 9, stage.take(&ArrayletBuffer::default()));
    stage.detach();
}

/// A mutator writes one value, polls, and writes another one, while everything that is zero is taken back and used for
/// another array.
fn writes_around_a_collection(first: u64, keeps: Keeps) -> BTreeSet<bool> {
    let all = Seen::default();
    let seen = all.clone();
    check(3, move || {
        let stage = Arc::new(Stage::new());
        stage.attach();
        let collector = {
            let stage = stage.clone();
            thread::spawn(move || scavenge_and_write(&stage))
        };
        let stock = stage.take(&ArrayletBuffer::default());
        let at = stage.instantiate(0, false, stock);
        if keeps == Keeps::Gate {
            stage.gate.leave();
        }
        stage.set(at, 0, first);
        assert_eq!(stage.read(0, 0), first, "a write is lost");
        if keeps != Keeps::Gate {
            stage.gate.leave();
        }
        // Here a collection empties the stock.
        stage.gate.enter();
        assert_eq!(stage.read(0, 0), first, "a write is lost");
        seen.lock().unwrap().insert(stage.pointer(0).is_tainted());
        let at = match keeps {
            Keeps::Nothing | Keeps::Gate => {
                stage.instantiate(0, false, stage.take(&ArrayletBuffer::default()))
            }
            Keeps::Place => at,
        };
        stage.set(at, 0, 7);
        stage.detach();
        collector.join().unwrap();
        assert_eq!(stage.read(0, 0), 7, "a write is lost");
        assert_eq!(stage.read(1, 0), 9, "a write reaches another array");
        let targets = [0, 1].map(|spine| stage.pieces.target(stage.pointer(spine)));
        assert_ne!(targets[0], targets[1], "two arrays have one arraylet");
        assert!(targets.iter().all(|&at| stage.arraylets.is_live(at)));
    });
    all.lock().unwrap().clone()
}

#[test]
fn what_is_written_before_and_after_a_compression_is_there() {
    // The collection comes in between, or before or after.
    let seen = writes_around_a_collection(0, Keeps::Nothing);
    assert_eq!(seen, [false, true].into());
    let seen = writes_around_a_collection(6, Keeps::Nothing);
    assert_eq!(seen, [false].into());
}

#[test]
#[should_panic(expected = "a write is lost")]
fn a_place_that_is_kept_over_a_poll_is_no_longer_the_array_s() {
    writes_around_a_collection(0, Keeps::Place);
}

#[test]
#[should_panic(expected = "a write is lost")]
fn a_write_outside_of_the_gate_is_lost() {
    writes_around_a_collection(6, Keeps::Gate);
}

// Claims.

/// What a worker does with a claim.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claims {
    Shipped,
    /// It looks first, and claims then.
    LooksFirst,
    /// It leaves the cards of what it made old.
    LeavesCards,
    /// It dirties the card first, and claims then.
    DirtiesFirst,
}

/// Two workers reach an arraylet that two spines share.
struct Shared {
    stage: Stage,
    arraylet: Address,
    /// The first card of the arraylet, on which its only slot lies. That refers to a young object.
    cards: CardTable,
    /// How often the slot was scanned by a worker that won the claim: loom checks that there is one at a time.
    scanned: UnsafeCell<usize>,
    /// Whether the card has been dirtied. Not an atomic of loom's: it is set in the same step.
    dirtied: core::sync::atomic::AtomicBool,
}

// SAFETY: the claim decides who may scan; loom checks that it does.
unsafe impl Sync for Shared {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Shared {}

impl Shared {
    fn dirty(&self) {
        self.cards.dirty(self.arraylet);
        self.dirtied.store(true, Ordering::Relaxed);
    }

    fn claim(&self, old: bool, how: Claims) -> Claim {
        let arraylets = &self.stage.arraylets;
        match how {
            Claims::LooksFirst if arraylets.is_live(self.arraylet) => Claim::Lost,
            Claims::LooksFirst => {
                arraylets.make_young(self.arraylet);
                Claim::Won
            }
            Claims::DirtiesFirst if old => {
                self.dirty();
                arraylets.claim(self.arraylet, old)
            }
            _ => arraylets.claim(self.arraylet, old),
        }
    }

    /// A worker has reached a spine that will be `old`.
    fn reach(&self, old: bool, how: Claims) {
        match self.claim(old, how) {
            Claim::Won => {
                // SAFETY: the claim is this worker's.
                self.scanned.with_mut(|scanned| unsafe { *scanned += 1 });
                if old {
                    self.dirty();
                }
            }
            Claim::MadeOld if how != Claims::LeavesCards => self.dirty(),
            Claim::MadeOld | Claim::Lost => {}
        }
    }

    /// A worker has the strip of cards. Whose dirtying it takes away, it sees old.
    fn take_dirty(&self) {
        let (low, high) = (self.arraylet, self.arraylet.add(CARD_BYTES));
        self.cards.take_dirty(low, high, |low, high| {
            let taken = self.dirtied.load(Ordering::Relaxed);
            let found = self.stage.arraylets.old_in(low, high).count();
            assert!(found == 1 || !taken, "a young object is forgotten");
            // The slot still refers to a young object.
            if found == 1 {
                self.dirty();
            }
        });
    }
}

/// Workers with spines that will be old, or not, reach one arraylet, in a scavenge or when everything is marked.
fn workers_claim(spines: [bool; 2], is_marking: bool, how: Claims) {
    check(3, move || {
        let stage = Stage::new();
        let arraylet = stage.take(&ArrayletBuffer::default());
        let shared = Arc::new(Shared {
            arraylet,
            cards: CardTable::new(arraylet, CARD_BYTES).unwrap(),
            scanned: UnsafeCell::new(0),
            dirtied: Default::default(),
            stage,
        });
        let arraylets = &shared.stage.arraylets;
        if is_marking {
            // What `begin_marking` makes of all of them by clearing bytes; loom's atomics are more than bytes.
            arraylets.free(arraylet);
        } else {
            // SAFETY: there is only this thread.
            unsafe { arraylets.begin_scavenge(&mut WorldStopped::begin()) };
        }
        assert!(!arraylets.is_live(arraylet));
        // Without a reason, so that the card is scanned in any case.
        shared.cards.dirty(arraylet);
        let workers = spines.map(|old| {
            let shared = shared.clone();
            thread::spawn(move || shared.reach(old, how))
        });
        shared.take_dirty();
        for worker in workers {
            worker.join().unwrap();
        }
        let scanned = shared.scanned.with(|scanned| {
            // SAFETY: the workers are done.
            unsafe { *scanned }
        });
        assert_eq!(scanned, 1, "an arraylet is scanned once");
        let is_old = spines.contains(&true);
        assert_eq!(arraylets.is_old(arraylet), is_old);
        assert!(arraylets.is_live(arraylet));
        let dirtied = shared.dirtied.load(Ordering::Relaxed);
        assert_eq!(dirtied, is_old, "a young object is forgotten");
    });
}

#[test]
fn one_worker_scans_what_two_young_arrays_share() {
    workers_claim([false, false], false, Claims::Shipped);
}

#[test]
fn what_a_young_and_a_promoted_array_share_is_old_and_its_card_dirty() {
    workers_claim([false, true], false, Claims::Shipped);
}

#[test]
fn one_worker_scans_what_two_promoted_arrays_share() {
    workers_claim([true, true], false, Claims::Shipped);
}

#[test]
fn one_worker_scans_a_shared_arraylet_when_everything_is_marked() {
    for spines in [[false, false], [false, true], [true, true]] {
        workers_claim(spines, true, Claims::Shipped);
    }
}

#[test]
#[should_panic(expected = "Concurrent write accesses")]
fn a_claim_that_looks_first_has_two_winners() {
    workers_claim([false, false], false, Claims::LooksFirst);
}

#[test]
#[should_panic(expected = "a young object is forgotten")]
fn cards_of_what_was_made_old_must_be_dirtied() {
    workers_claim([false, true], false, Claims::LeavesCards);
}

#[test]
#[should_panic(expected = "a young object is forgotten")]
fn cards_that_are_dirtied_before_the_claim_are_cleaned() {
    workers_claim([false, true], false, Claims::DirtiesFirst);
}
