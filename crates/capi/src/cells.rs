//! What C knows by a pointer of which it may keep copies: handles and heaps. A pointer to what was freed is noticed,
//! whatever lies there now.
//!
//! The value lies in a cell whose memory is never given back. What C has is a [`Name`]: the address of the cell, and
//! above it, in the 16 bits that no address uses, the cell's generation when the value was put there. To free the value
//! raises the generation, so that no name of before fits.
//!
//! # Invariants
//! - A cell exists as long as the process, so any name that was ever handed out leads to one.
//! - A cell has a value exactly while a name with its generation is handed out and not freed.
//! - A cell whose generation is the last is never used again: no two values have the same name.
//! - Cells for reuse are taken under a lock, by mutators inside the gate of a heap, so no thread has the lock when the
//!   process forks. They are put back without one, by any thread.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Where an address ends and the generation begins.
const GENERATION_SHIFT: u32 = 48;
const ADDRESS: usize = (1 << GENERATION_SHIFT) - 1;
/// The first generation is 1, so that no name is an address.
const FIRST: u64 = 1;
const LAST: u64 = (1 << (64 - GENERATION_SHIFT)) - 1;
/// Cells that are made at a time.
const CHUNK_CELLS: usize = 64;

/// Room for one value.
pub struct Cell<T> {
    /// Raised (AcqRel) by the thread that frees the value, before it takes the value out. Acquire in `get` partners
    /// the Release with which another thread handed the name on.
    generation: AtomicU64,
    /// The next cell in a list of free ones.
    next: AtomicPtr<Cell<T>>,
    value: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Cell<T> {
    fn empty() -> Cell<T> {
        Cell {
            generation: AtomicU64::new(FIRST),
            next: AtomicPtr::new(ptr::null_mut()),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Puts a value into a cell that is the caller's alone; the name.
    fn fill(&'static self, value: T) -> Name<T> {
        // SAFETY: no name fits this cell, so nobody looks at the value.
        unsafe { (*self.value.get()).write(value) };
        let generation = self.generation.load(Ordering::Relaxed) as usize;
        let cell = ptr::from_ref(self).cast_mut();
        Name(cell.map_addr(|address| address | generation << GENERATION_SHIFT))
    }
}

/// What C has for a value. Null where there is none.
#[repr(transparent)]
pub struct Name<T>(*mut Cell<T>);

impl<T> Clone for Name<T> {
    fn clone(&self) -> Name<T> {
        *self
    }
}

impl<T> Copy for Name<T> {}

impl<T: 'static> Name<T> {
    /// No value.
    pub const NULL: Name<T> = Name(ptr::null_mut());

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The cell, and which generation of it this names.
    ///
    /// # Safety
    /// Not null, and handed out as a name of this type, freed or not.
    unsafe fn cell(self) -> (&'static Cell<T>, u64) {
        let generation = self.0.addr() >> GENERATION_SHIFT;
        // SAFETY: handed out, as the caller promises, so a cell lies at the address, for ever.
        let cell = unsafe { &*self.0.map_addr(|address| address & ADDRESS) };
        (cell, generation as u64)
    }

    /// The value; `None` if it was freed.
    ///
    /// # Safety
    /// As for [`Name::cell`]; no other thread frees the value while it is used.
    #[inline]
    pub unsafe fn get<'a>(self) -> Option<&'a T> {
        // SAFETY: handed out, as the caller promises.
        let (cell, generation) = unsafe { self.cell() };
        let fits = cell.generation.load(Ordering::Acquire) == generation;
        // SAFETY: the generation fits, so the cell has the value that was put there with this name.
        fits.then(|| unsafe { (*cell.value.get()).assume_init_ref() })
    }

    /// Takes the value out: this name fits no more. The cell, and the value; `None` if it was freed before.
    ///
    /// # Safety
    /// As for [`Name::get`].
    unsafe fn empty(self) -> Option<(&'static Cell<T>, T)> {
        // SAFETY: handed out, as the caller promises.
        let (cell, generation) = unsafe { self.cell() };
        let (order, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let raised = cell
            .generation
            .compare_exchange(generation, generation + 1, order, failure);
        // SAFETY: the generation fitted, so the value is there, and the exchange made it this thread's alone.
        let value = || unsafe { (*cell.value.get()).assume_init_read() };
        raised.ok().map(|_| (cell, value()))
    }

    /// Takes the value out of a cell that is not used again; `None` if it was freed before.
    ///
    /// # Safety
    /// As for [`Name::get`], and made by [`Kept::put`].
    pub unsafe fn take(self) -> Option<T> {
        // SAFETY: the promise of this function's caller.
        unsafe { self.empty() }.map(|(_, value)| value)
    }
}

/// Cells of one value each, which are never used again: for values of which there are few. All of them, so that tools that look for
/// lost memory find them: names are no addresses. Pushed to by compare-and-swap (Release), by any thread, and never read.
pub struct Kept<T: 'static>(AtomicPtr<Cell<T>>);

impl<T: Send + Sync> Kept<T> {
    pub const fn new() -> Kept<T> {
        Kept(AtomicPtr::new(ptr::null_mut()))
    }

    /// A name for a value.
    pub fn put(&self, value: T) -> Name<T> {
        let cell: &'static Cell<T> = Box::leak(Box::new(Cell::empty()));
        push(&self.0, cell);
        cell.fill(value)
    }
}

/// Puts a cell that is in no list before those of a list.
fn push<T>(list: &AtomicPtr<Cell<T>>, cell: &'static Cell<T>) {
    let place = ptr::from_ref(cell).cast_mut();
    let link = |first| {
        cell.next.store(first, Ordering::Relaxed);
        Some(place)
    };
    // `link` never refuses.
    let _ = list.fetch_update(Ordering::Release, Ordering::Relaxed, link);
}

/// Cells that are used again, for values of one type.
pub struct Cells<T: 'static> {
    /// Pushed to by compare-and-swap (Release), emptied by a swap (Acquire).
    freed: AtomicPtr<Cell<T>>,
    ready: Mutex<Ready<T>>,
}

/// What the holder of the lock has.
struct Ready<T: 'static> {
    free: *mut Cell<T>,
    /// All chunks, so that tools that look for lost memory find them: names are no addresses.
    chunks: Vec<&'static [Cell<T>]>,
}

// SAFETY: the list belongs to the holder of the lock, and its cells have no values.
unsafe impl<T> Send for Ready<T> {}

impl<T: Send + Sync> Cells<T> {
    pub const fn new() -> Cells<T> {
        Cells {
            freed: AtomicPtr::new(ptr::null_mut()),
            ready: Mutex::new(Ready {
                free: ptr::null_mut(),
                chunks: Vec::new(),
            }),
        }
    }

    /// A name for a value; `None` if the system gives no memory for more cells. The caller is a mutator inside a gate.
    pub fn put(&self, value: T) -> Option<Name<T>> {
        self.take_cell().map(|cell| cell.fill(value))
    }

    fn take_cell(&self) -> Option<&'static Cell<T>> {
        let mut ready = self.ready.lock().expect("a panic here ends the process");
        if ready.free.is_null() {
            ready.free = self.freed.swap(ptr::null_mut(), Ordering::Acquire);
        }
        if ready.free.is_null() {
            let mut chunk = Vec::new();
            chunk.try_reserve_exact(CHUNK_CELLS).ok()?;
            ready.chunks.try_reserve(1).ok()?;
            chunk.extend((0..CHUNK_CELLS).map(|_| Cell::empty()));
            let chunk: &'static [Cell<T>] = chunk.leak();
            ready.chunks.push(chunk);
            for cell in chunk {
                cell.next.store(ready.free, Ordering::Relaxed);
                ready.free = ptr::from_ref(cell).cast_mut();
            }
        }
        // SAFETY: not null, so a cell, which exists for ever.
        let cell = unsafe { &*ready.free };
        ready.free = cell.next.load(Ordering::Relaxed);
        Some(cell)
    }

    /// Takes a value out; `None` if it was freed before.
    ///
    /// # Safety
    /// As for [`Name::get`], and made by [`Cells::put`] of these cells.
    pub unsafe fn take(&self, name: Name<T>) -> Option<T> {
        // SAFETY: the promise of this function's caller.
        let (cell, value) = unsafe { name.empty() }?;
        if cell.generation.load(Ordering::Relaxed) < LAST {
            push(&self.freed, cell);
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_values_have_the_same_name_where_a_cell_wears_out() {
        let cells = Cells::new();
        let mut names = HashSet::new();
        let mut put_and_take = |round| {
            let put: Vec<_> = (0..CHUNK_CELLS)
                .map(|at| cells.put((round, at)).unwrap())
                .collect();
            for (at, name) in put.iter().enumerate() {
                assert!(names.insert(name.0), "a second value has that name");
                // SAFETY: made by these cells.
                let value = unsafe { name.get() };
                assert_eq!(value, Some(&(round, at)));
            }
            for &name in &put {
                // SAFETY: made by these cells, and nothing uses the value.
                assert!(unsafe { cells.take(name) }.is_some());
                // SAFETY: as in the line above.
                assert!(unsafe { name.get() }.is_none());
            }
            put[0]
        };
        let name = put_and_take(0);
        // SAFETY: made by these cells.
        let (worn, _) = unsafe { name.cell() };
        // As if so many values had been there: one more has a name.
        worn.generation.store(LAST - 1, Ordering::Relaxed);
        for round in 1..6 {
            put_and_take(round);
        }
    }
}
