//! What the models share: a heap of three spines with one part each, whose arraylets have two words.

use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use gleaner_base::contexts::AllocatorLocked;
use gleaner_base::sync::{AtomicU32, AtomicU64, Ordering, RawLock};
use gleaner_mem::Address;
use gleaner_mem::spine::{Pieces, Pointer};
use gleaner_os::memory;
use gleaner_plans::scavenge::parts::{Part, Writable};
use gleaner_plans::scavenge::stop::collecting::Collecting;
use gleaner_plans::scavenge::stop::poll::PollGate;
use gleaner_spaces::precise::arraylets::{ArrayletBuffer, Arraylets, CHUNK_BYTES, Contents};

/// Larger arraylets than any heap has, so that there are few: two in a chunk.
pub const SHIFT: u32 = 13;
pub const CHUNKS: usize = 4;
pub const ARRAYLETS: usize = (CHUNKS * CHUNK_BYTES) >> SHIFT;
/// Words of an arraylet that are modelled.
pub const WORDS: usize = 2;
/// What unused arraylets hold.
pub const STALE: u64 = 4711;

/// A spine: N is 0, so its pointer, which is as wide as a slot, lies where elements begin.
#[repr(C)]
pub struct Spine<P> {
    header_and_length: [u64; 2],
    pointer: P,
}

impl<P> Spine<P> {
    pub fn new(pointer: P) -> Spine<P> {
        Spine {
            header_and_length: [0; 2],
            pointer,
        }
    }
}

/// Spines of a heap.
pub enum Spines {
    Wide([Spine<AtomicU64>; 3]),
    Compressed([Spine<AtomicU32>; 3]),
}

impl Spines {
    pub fn new(slot_bytes: usize, zero: Pointer) -> Spines {
        let wide = |_| Spine::new(AtomicU64::new(zero.word()));
        let compressed = |_| Spine::new(AtomicU32::new(zero.word() as u32));
        match slot_bytes {
            8 => Spines::Wide(core::array::from_fn(wide)),
            _ => Spines::Compressed(core::array::from_fn(compressed)),
        }
    }

    pub fn address(&self, spine: usize) -> Address {
        match self {
            Spines::Wide(spines) => Address::of(&raw const spines[spine].header_and_length),
            Spines::Compressed(spines) => Address::of(&raw const spines[spine].header_and_length),
        }
    }
}

/// Addresses for arraylets. Loom runs a model thousands of times, so they are given back.
pub struct Memory(NonNull<u8>);

impl Memory {
    /// What the space takes.
    pub const SPACE: usize = Arraylets::range(CHUNKS * CHUNK_BYTES);
    /// And room to align it.
    pub const BYTES: usize = Self::SPACE + CHUNK_BYTES;

    pub fn start(&self) -> Address {
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

pub struct Stage {
    pub pieces: Pieces,
    pub arraylets: Arraylets,
    /// The lock for allocation beside the TLABs.
    pub beside: RawLock,
    pub spines: Spines,
    /// What arraylets hold. Both words of the zero arraylet are zero.
    pub words: [[AtomicU64; WORDS]; ARRAYLETS],
    pub gate: PollGate,
    /// How many mutators are attached.
    pub collecting: Collecting<usize>,
    _memory: Memory,
}

impl Stage {
    pub fn new() -> Stage {
        Stage::with_slots(8)
    }

    pub fn with_slots(slot_bytes: usize) -> Stage {
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

    pub fn part(&self, spine: usize) -> Part<'_> {
        Part {
            pieces: &self.pieces,
            arraylets: &self.arraylets,
            spine: self.spines.address(spine),
            number: 0,
        }
    }

    pub fn pointer(&self, spine: usize) -> Pointer {
        // SAFETY: a spine with one part lies there.
        unsafe { self.pieces.load(self.part(spine).spine, 0) }
    }

    /// Sets a pointer before other threads know the spine.
    pub fn point(&self, spine: usize, arraylet: Address) {
        let pointer = self.pieces.pointer_to(arraylet);
        // SAFETY: a spine with one part lies there, which only this thread knows.
        unsafe { self.pieces.store(self.part(spine).spine, 0, pointer) };
    }

    pub fn words_of(&self, arraylet: Address) -> &[AtomicU64; WORDS] {
        &self.words[arraylet.offset_from(self.arraylets.start()) >> SHIFT]
    }

    pub fn word(&self, arraylet: Address, word: usize) -> u64 {
        if self.arraylets.contains(arraylet) {
            self.words_of(arraylet)[word].load(Ordering::Relaxed)
        } else {
            0
        }
    }

    pub fn set(&self, arraylet: Address, word: usize, value: u64) {
        self.words_of(arraylet)[word].store(value, Ordering::Relaxed);
    }

    /// What a mutator reads.
    pub fn read(&self, spine: usize, word: usize) -> u64 {
        self.word(self.pieces.target(self.pointer(spine)), word)
    }

    /// An arraylet of the stock, filled with what the tainted pointer leads to.
    pub fn filled(&self, arraylet: Address, before: Pointer) -> Address {
        let from = self.pieces.target(before);
        (0..WORDS).for_each(|word| self.set(arraylet, word, self.word(from, word)));
        arraylet
    }

    /// A mutator, inside the gate, makes a part writable, with an arraylet of its stock that `fill` fills. Where it is
    /// then.
    pub fn instantiate_with(
        &self,
        spine: usize,
        is_old: bool,
        mut fill: impl FnMut(Pointer) -> Address,
    ) -> Address {
        loop {
            // SAFETY: the spine has this part, and nothing points at what is in the stock.
            match unsafe { self.part(spine).instantiate(is_old, &mut fill, |_| ()) } {
                Writable::Already(at) | Writable::Installed(at) | Writable::Others { at, .. } => {
                    return at;
                }
                Writable::Led { .. } => {}
            }
        }
    }

    pub fn instantiate(&self, spine: usize, is_old: bool, stock: Address) -> Address {
        self.instantiate_with(spine, is_old, |before| self.filled(stock, before))
    }

    pub fn write(&self, spine: usize, word: usize, value: u64, stock: Address) {
        let at = self.instantiate(spine, false, stock);
        self.set(at, word, value);
    }

    /// A mutator takes an arraylet into its stock.
    pub fn take(&self, buffer: &ArrayletBuffer) -> Address {
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

    pub fn attach(&self) {
        let add = |count: &mut usize| {
            *count += 1;
            Some(())
        };
        self.collecting.attach(&self.gate, add).unwrap();
    }

    pub fn detach(&self) {
        self.gate.leave();
        self.collecting.detach(&self.gate, |count| *count -= 1);
    }
}

/// What came of a model in one order of events or another.
pub type Seen<T> = Arc<Mutex<BTreeSet<T>>>;

pub fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
