//! A model heap: numbered objects of a few slots each, a word area outside, and a tracer that pushes one object at a
//! time.
//!
//! The idea: slots hold words as in a conservative heap, an address anywhere inside an object standing for the object,
//! so that links can be real words and clearing one removes an edge of the graph. The mark stack is reserved in
//! advance: whatever allocates during weak processing is weak processing itself.

use gleaner_mem::address::Address;
use gleaner_plans::mark_sweep::weak::{Outcome, Settings, Tracer, Weak};

/// Slots of an object.
pub const SLOTS: usize = 3;

const OBJECT_BYTES: usize = SLOTS * 8;
const HEAP: usize = 0x10_0000;
const OUTSIDE: usize = 0x1000;

/// Settles all requests, as a collection does that is not put off.
pub fn process(weak: &mut Weak, heap: &mut Heap, settings: Settings) -> Outcome {
    let mut outcome = weak.decide(heap, settings);
    heap.drain();
    weak.settle(heap, &mut outcome);
    outcome
}

/// The heap, its mark bits and its mark stack.
#[derive(Clone)]
pub struct Heap {
    words: Vec<usize>,
    outside: Vec<usize>,
    marked: Vec<bool>,
    stack: Vec<usize>,
}

impl Heap {
    /// `count` objects and as many words outside, all null.
    pub fn new(count: usize) -> Heap {
        Heap {
            words: vec![0; count * SLOTS],
            outside: vec![0; count],
            marked: vec![false; count],
            stack: Vec::with_capacity(count),
        }
    }

    pub fn len(&self) -> usize {
        self.marked.len()
    }

    /// The start of object `n`.
    pub fn object(&self, n: usize) -> Address {
        Address::new(HEAP + n * OBJECT_BYTES)
    }

    /// The number of the object in which `address` lies.
    pub fn number(&self, address: Address) -> Option<usize> {
        let offset = address.word().checked_sub(HEAP)?;
        Some(offset / OBJECT_BYTES).filter(|n| *n < self.len())
    }

    /// The address of a slot of object `n`.
    pub fn slot(&self, n: usize, slot: usize) -> Address {
        self.object(n).add(slot * 8)
    }

    /// The address of a word outside the heap.
    pub fn outside(&self, n: usize) -> Address {
        Address::new(OUTSIDE + n * 8)
    }

    /// The word stored at a slot or outside word.
    pub fn word(&mut self, address: Address) -> &mut usize {
        match address.word().checked_sub(HEAP) {
            Some(offset) => &mut self.words[offset / 8],
            None => &mut self.outside[(address.word() - OUTSIDE) / 8],
        }
    }

    /// Makes a slot of `from` refer to `to`.
    pub fn point(&mut self, from: usize, slot: usize, to: usize) {
        let target = self.object(to).word();
        *self.word(self.slot(from, slot)) = target;
    }

    /// All words, for comparison with another heap.
    pub fn contents(&self) -> (&[usize], &[usize]) {
        (&self.words, &self.outside)
    }

    /// The objects that `n` refers to.
    pub fn children(&self, n: usize) -> impl Iterator<Item = usize> {
        self.words[n * SLOTS..][..SLOTS]
            .iter()
            .filter_map(|word| self.number(Address::new(*word)))
    }

    /// Marks everything reachable from the given words, as a collection does before weak processing.
    pub fn trace(&mut self, roots: impl IntoIterator<Item = Address>) {
        self.marked.fill(false);
        for root in roots {
            self.grey(self.number(root));
        }
        self.drain();
    }

    /// The numbers of the marked objects.
    pub fn marks(&self) -> &[bool] {
        &self.marked
    }

    /// Frees what is unmarked: its words become null, and its number stands for a fresh object.
    pub fn sweep(&mut self) {
        for n in 0..self.len() {
            if !self.marked[n] {
                self.words[n * SLOTS..][..SLOTS].fill(0);
            }
        }
    }

    fn grey(&mut self, n: Option<usize>) {
        if let Some(n) = n.filter(|n| !self.marked[*n]) {
            self.marked[n] = true;
            assert!(self.stack.len() < self.stack.capacity());
            self.stack.push(n);
        }
    }

    fn grey_children(&mut self, n: usize, except: Option<usize>) {
        for slot in 0..SLOTS {
            let word = Address::new(self.words[n * SLOTS + slot]);
            self.grey(self.number(word).filter(|child| Some(*child) != except));
        }
    }
}

impl Tracer for Heap {
    fn is_marked(&self, object: Address) -> bool {
        self.number(object).is_none_or(|n| self.marked[n])
    }

    fn base(&self, address: Address) -> Option<Address> {
        self.number(address).map(|n| self.object(n))
    }

    fn mark(&mut self, object: Address) {
        self.grey(self.number(object));
    }

    fn trace_children(&mut self, object: Address) {
        if let Some(n) = self.number(object) {
            self.grey_children(n, None);
        }
    }

    fn trace_children_except_self(&mut self, object: Address) {
        if let Some(n) = self.number(object) {
            self.grey_children(n, Some(n));
        }
    }

    fn drain(&mut self) {
        while let Some(n) = self.stack.pop() {
            self.grey_children(n, None);
        }
    }

    fn clear_link(&mut self, link: Address) {
        *self.word(link) = 0;
    }
}
