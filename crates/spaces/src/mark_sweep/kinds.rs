//! Object kinds: what the collector knows of the objects of a block (libgc's `GC_new_kind`).
//!
//! Kinds are few, are added under the allocator lock and never removed.

/// Kind of objects without pointers.
pub const PTRFREE: usize = 0;
/// Kind of objects that are scanned conservatively.
pub const NORMAL: usize = 1;
/// Kind of objects that are scanned and never collected.
pub const UNCOLLECTABLE: usize = 2;
/// Kind of objects without pointers that are never collected.
pub const ATOMIC_UNCOLLECTABLE: usize = 3;
/// The most kinds there can be, as in libgc.
pub const MAX_KINDS: usize = 16;

/// Low bits of a mark descriptor that say what it is (`gc_mark.h`).
pub mod descriptor {
    /// Mask of the tag bits.
    pub const TAGS: usize = 3;
    /// The descriptor is a length in bytes, all of it scanned.
    pub const LENGTH: usize = 0;
    /// The upper 62 bits are a bitmap, the most significant for the first word.
    pub const BITMAP: usize = 1;
    /// A mark procedure: index in the next 6 bits, environment above.
    pub const PROC: usize = 2;
    /// The descriptor stands in the object, or in what its first word points to.
    pub const PER_OBJECT: usize = 3;
    /// Bits that hold the index of a mark procedure.
    pub const LOG_MAX_PROCS: usize = 6;
    /// Bias of indirect per-object descriptors.
    pub const INDIRECT_BIAS: usize = 0x10;
}

/// A client's disclaim procedure: nonzero keeps the object for this cycle (`gc_disclaim.h`).
pub type DisclaimProc = unsafe extern "C-unwind" fn(*mut core::ffi::c_void) -> core::ffi::c_int;

/// Whether threads allocate objects of a kind from lists of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadLists {
    /// No.
    None,
    /// Yes.
    Plain,
    /// Yes, and what is taken off a list gets a mark, since `FREE` says that it is there. Cells of other blocks than the one
    /// that the thread owns are marked while they are listed, so that no sweep lists them again.
    Marked,
    /// As `Marked`, and what is taken is counted.
    Uncollectable,
}

/// One kind.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Descriptor template.
    pub descriptor: usize,
    /// Whether the object's size is added to the template.
    pub add_size: bool,
    /// Whether new objects must read as zero.
    pub clear: bool,
    /// Whether objects live until they are freed explicitly.
    pub uncollectable: bool,
    /// Called for each object about to be reclaimed.
    pub disclaim: Option<DisclaimProc>,
    /// Whether what unmarked objects of this kind refer to is kept alive for the disclaim procedure.
    pub mark_unconditionally: bool,
    /// Whether threads take and give back cells without the lock and without asking about the kind, so that free
    /// cells bear no mark.
    pub unlocked: bool,
}

impl Kind {
    const fn standard(add_size: bool, uncollectable: bool) -> Kind {
        Kind {
            descriptor: descriptor::LENGTH,
            add_size,
            clear: add_size,
            uncollectable,
            disclaim: None,
            mark_unconditionally: false,
            unlocked: !uncollectable,
        }
    }

    /// Whether objects of this kind are scanned.
    pub fn is_scanned(&self) -> bool {
        self.descriptor != 0 || self.add_size
    }

    /// Whether scanning takes the words of an object for more than candidates, so that a stale link could mislead it.
    pub fn has_exact_layout(&self) -> bool {
        self.descriptor & descriptor::TAGS != descriptor::LENGTH
    }

    /// Whether each free cell of this kind has the mark `FREE`, which tells it from a dead object.
    #[inline]
    pub fn marks_free_cells(&self) -> bool {
        self.uncollectable || (self.disclaim.is_some() && !self.unlocked)
    }

    /// How threads allocate objects of this kind.
    #[inline]
    pub fn thread_lists(&self) -> ThreadLists {
        match () {
            () if self.uncollectable => ThreadLists::Uncollectable,
            () if self.disclaim.is_none() => ThreadLists::Plain,
            () if self.unlocked => ThreadLists::None,
            () => ThreadLists::Marked,
        }
    }

    /// The mark descriptor of an object of `bytes` bytes; 0 if it holds no pointers.
    #[inline]
    pub fn descriptor_for(&self, bytes: usize) -> usize {
        if self.add_size {
            self.descriptor.wrapping_add(bytes)
        } else {
            self.descriptor
        }
    }
}

/// All kinds of a heap.
pub struct Kinds {
    pub(crate) table: [Kind; MAX_KINDS],
    pub(crate) count: usize,
}

impl Kinds {
    /// The four kinds that every heap has.
    pub const fn new() -> Kinds {
        let mut table = [Kind::standard(false, false); MAX_KINDS];
        table[NORMAL] = Kind::standard(true, false);
        table[UNCOLLECTABLE] = Kind::standard(true, true);
        table[ATOMIC_UNCOLLECTABLE] = Kind::standard(false, true);
        Kinds { table, count: 4 }
    }

    /// Adds a kind and returns its number, or nothing when there are too many.
    pub fn add(&mut self, kind: Kind) -> Option<usize> {
        let number = self.count;
        *self.table.get_mut(number)? = kind;
        self.count += 1;
        Some(number)
    }

    /// The kind with this number, if it was defined.
    pub fn get(&self, number: usize) -> Option<&Kind> {
        self.table[..self.count].get(number)
    }

    /// The kind with this number, to change it.
    pub fn get_mut(&mut self, number: usize) -> Option<&mut Kind> {
        self.table[..self.count].get_mut(number)
    }

    /// How many kinds there are.
    pub fn count(&self) -> usize {
        self.count
    }
}

impl Default for Kinds {
    fn default() -> Self {
        Kinds::new()
    }
}
