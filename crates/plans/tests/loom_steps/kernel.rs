//! The kernel of the models, and the TLBs of the processors (see `main.rs` for why Linux answers like this).

use gleaner_base::sync::{Ordering, store_shared};
use gleaner_mem::Address;
use gleaner_os::written::{KernelModel, PAGE_BYTES, Reason};

/// Mutators, each on a processor of its own.
pub const MUTATORS: usize = 2;

/// How the kernel answers. The last three are wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answers {
    /// As page scan.
    AtOnce,
    /// As soft-dirty bits.
    InTwoCalls,
    /// It protects what it named when the next question comes, which is after a step has scanned that: as if scanning
    /// came before asking.
    ProtectsLate,
    /// It flushes no TLB.
    LeavesTlbs,
    /// In stops it does not name the page of this object.
    Omits(usize),
}

/// The page table, in which a page is writable if it counts as written, and the TLBs.
pub struct Kernel {
    answers: Answers,
    /// The pages that are modelled, by their numbers.
    pages: Vec<usize>,
    /// The page that stops do not hear of.
    omitted: Option<usize>,
    /// Of each page whether it counts as written; its lock is that of the page table.
    table: loom::sync::Mutex<Vec<bool>>,
    /// Of each processor which pages it may write to without a fault. It stores with the lock held: a flush comes before
    /// or after.
    tlbs: Vec<loom::sync::Mutex<Vec<bool>>>,
    /// Which pages wait to be protected.
    late: loom::sync::Mutex<Vec<bool>>,
    /// Whether the world is stopped. For the collecting thread alone, hence no atomic of loom.
    pub is_stopped: core::sync::atomic::AtomicBool,
}

impl Kernel {
    pub fn new(answers: Answers, pages: Vec<usize>, omitted: Option<usize>) -> Kernel {
        let none = || loom::sync::Mutex::new(vec![false; pages.len()]);
        Kernel {
            answers,
            omitted,
            // What was never protected counts as written.
            table: loom::sync::Mutex::new(vec![true; pages.len()]),
            tlbs: (0..MUTATORS).map(|_| none()).collect(),
            late: none(),
            is_stopped: Default::default(),
            pages,
        }
    }

    fn index(&self, page: usize) -> usize {
        let found = self.pages.iter().position(|&other| other == page);
        found.expect("a page that is modelled")
    }

    /// A store of a mutator to a word of the heap.
    pub fn store(&self, processor: usize, place: Address, value: usize) {
        let page = self.index(place.word() / PAGE_BYTES);
        loop {
            let may_write = self.tlbs[processor].lock().unwrap();
            if may_write[page] {
                store_shared(place.word(), value);
                return;
            }
            drop(may_write);
            // The fault, and the walk of the page table after it.
            let mut table = self.table.lock().unwrap();
            table[page] = true;
            self.tlbs[processor].lock().unwrap()[page] = true;
        }
    }

    /// Protects a page, under the table's lock.
    fn protect(&self, table: &mut [bool], page: usize) {
        table[page] = false;
        if self.answers != Answers::LeavesTlbs {
            for tlb in &self.tlbs {
                tlb.lock().unwrap()[page] = false;
            }
        }
    }
}

impl Kernel {
    /// The pages of `low..high` that count as written, by their first bytes. Is it `taken`, they count so until now.
    fn ask(&self, low: usize, high: usize, taken: bool) -> Vec<usize> {
        let mut table = self.table.lock().unwrap();
        if self.answers == Answers::ProtectsLate {
            for (page, waits) in self.late.lock().unwrap().iter_mut().enumerate() {
                if core::mem::take(waits) {
                    self.protect(&mut table, page);
                }
            }
        }
        let mut named = Vec::new();
        for (page, &number) in self.pages.iter().enumerate() {
            let start = number * PAGE_BYTES;
            if !(low..high).contains(&start) || !table[page] {
                continue;
            }
            match self.answers {
                _ if !taken => {}
                Answers::ProtectsLate => self.late.lock().unwrap()[page] = true,
                Answers::InTwoCalls => {}
                _ => self.protect(&mut table, page),
            }
            let is_omitted =
                self.omitted == Some(number) && self.is_stopped.load(Ordering::Relaxed);
            if !is_omitted {
                named.push(start);
            }
        }
        drop(table);
        named.sort_unstable();
        named
    }
}

/// Calls `visit` with each of the pages.
fn name(pages: &[usize], visit: &mut dyn FnMut(usize, usize)) {
    pages
        .iter()
        .for_each(|&start| visit(start, start + PAGE_BYTES));
}

impl KernelModel for Kernel {
    fn take(
        &self,
        low: usize,
        high: usize,
        visit: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Reason> {
        name(&self.ask(low, high, true), visit);
        Ok(())
    }

    fn begin(&self, low: usize, high: usize) -> Result<(), Reason> {
        self.ask(low, high, true);
        Ok(())
    }

    fn read(
        &self,
        low: usize,
        high: usize,
        visit: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Reason> {
        name(&self.ask(low, high, false), visit);
        Ok(())
    }

    fn finish(&self) -> Result<(), Reason> {
        if self.answers == Answers::InTwoCalls {
            let mut table = self.table.lock().unwrap();
            (0..self.pages.len()).for_each(|page| self.protect(&mut table, page));
        }
        Ok(())
    }

    fn release(&self, low: usize, high: usize) {
        let mut table = self.table.lock().unwrap();
        for (page, &number) in self.pages.iter().enumerate() {
            table[page] |= (low..high).contains(&(number * PAGE_BYTES));
        }
    }
}
