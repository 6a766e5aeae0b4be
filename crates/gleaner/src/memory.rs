//! Memory that the program decides on: bytes that its objects hold outside of the heap, a limit that changes, memory
//! that is given back, and what there is of each type.

use gleaner_mem::object_model::TypeId;
use gleaner_plans::scavenge::memory::counts::Count;

use crate::body::with_heap;
use crate::heap::Heap;
use crate::members;
use crate::mutator::Mutator;
use crate::scope::Scope;

pub use gleaner_plans::scavenge::LimitError;

/// What there is of a type ([`Mutator::census`]). Of an array in pieces its spine counts.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TypeCount {
    /// The type.
    pub id: TypeId,
    /// What the program calls it ([`Heap::name_type`]); empty if it has not said that.
    pub name: String,
    /// What lives.
    pub live: Count,
    /// What was allocated since the heap was made; `None` without option `count-types`.
    pub allocated: Option<Count>,
}

impl Heap {
    /// Tells that objects of this heap hold `change` more bytes outside of it, or with a negative number that they hold
    /// fewer: what `malloc` gave for them, a mapped file, a texture. Such bytes make collections come earlier. The
    /// young generation is collected when as many were added as it has itself, and everything when as many were added
    /// as lived in the heap and outside of it. They do not count toward the limit.
    ///
    /// Any thread may call this, and it collects nothing: a collection that is due comes with the calling thread's next
    /// allocation, or with one of another thread. Tell of bytes that are freed, too, as a rule where a finalizer was
    /// handed out ([`Scope::next_finalizer`]). A total below 0 counts as 0; event `external` of the log says so. One
    /// beyond `isize::MAX` counts as that many.
    ///
    /// ```
    /// # let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
    /// let buffer = vec![0_u8; 100_000];
    /// heap.note_external(buffer.len() as isize);
    /// assert_eq!(heap.external(), 100_000);
    /// heap.note_external(-(buffer.len() as isize));
    /// drop(buffer);
    /// ```
    pub fn note_external(&self, change: isize) {
        let is_due = with_heap!(&self.shared.kind, heap => heap.external.note(change));
        if is_due {
            members::allocate_slowly_next(self.shared.number);
        }
    }

    /// How many bytes objects of this heap hold outside of it, as the program has told ([`Heap::note_external`]).
    pub fn external(&self) -> usize {
        with_heap!(&self.shared.kind, heap => heap.external.bytes())
    }

    /// How many bytes of memory the spaces of the heap hold, as far as the heap knows: what was used once and was not
    /// given back to the system. It is more than the limit only where the system does not take memory back, since it is
    /// locked. The collector's tables are not among them ([`Heap::metadata_bytes`]).
    pub fn resident(&self) -> usize {
        with_heap!(&self.shared.kind, heap => heap.resident())
    }

    /// Bytes of constants that there is room for yet ([`Mutator::allocate_constant_raw`]), if what else lives leaves as many
    /// below the limit. The place for constants does not grow. It has an eighth of the limit that the heap was made with. It
    /// has less where addresses are fewer, in large heaps with compressed references and where the system limits them: 16 MB
    /// at least, unless a system that limits addresses leaves too few for all other objects.
    pub fn constants_left(&self) -> usize {
        with_heap!(&self.shared.kind, heap => heap.constants_left())
    }

    /// Calls a type by a name, which censuses and snapshots show. Call it when the type is registered. It panics if the
    /// heap has no type of that number.
    ///
    /// ```
    /// # use gleaner::{Heap, Structure};
    /// # let heap = Heap::builder().limit(1 << 20).build().unwrap();
    /// let pair = heap.structure(Structure { references: 2, bytes: 0 })?;
    /// heap.name_type(pair.id(), "pair");
    /// assert_eq!(heap.type_name(pair.id()).as_deref(), Some("pair"));
    /// # Ok::<(), gleaner::TypeError>(())
    /// ```
    pub fn name_type(&self, id: TypeId, name: &str) {
        // Without memory for it the type stays without a name.
        with_heap!(&self.shared.kind, heap => heap.model.types.set_name(id, name));
    }

    /// What the program calls a type.
    pub fn type_name(&self, id: TypeId) -> Option<String> {
        let types = with_heap!(&self.shared.kind, heap => &heap.model.types);
        types.name(id).map(str::to_owned)
    }
}

impl Mutator {
    /// Changes the limit. The heap keeps addresses for the limit that it was made with, which is the most that it can
    /// have; a program that wants to raise the limit later makes the heap with the largest one and lowers that at once.
    /// A lower limit collects everything. If what lives does not fit, the limit stays as it was.
    ///
    /// ```
    /// # let heap = gleaner::Heap::builder().limit(64 << 20).ignore_environment().build().unwrap();
    /// let mut mutator = heap.attach()?;
    /// mutator.set_limit(16 << 20)?;
    /// assert_eq!(heap.limit(), 16 << 20);
    /// assert!(mutator.set_limit(65 << 20).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_limit(&mut self, bytes: usize) -> Result<(), LimitError> {
        self.assert_may_collect("a change of the limit");
        with_heap!(&self.shared.kind, heap => heap.set_limit(self.record(), bytes))
    }

    /// Collects everything, slides what lives together, and gives all other memory back to the system. How many bytes
    /// fewer the heap holds. Memory comes back as it is used, at the price of a page fault for each page: a program
    /// calls this when it expects to allocate little for a while.
    pub fn trim(&mut self) -> usize {
        self.assert_may_collect("giving memory back");
        with_heap!(&self.shared.kind, heap => heap.trim(self.record()))
    }

    /// Collects everything, and counts what lives of each type, and what was allocated of it if option `count-types` is
    /// on. Types of which there is nothing are left out; those with most live bytes come first.
    pub fn census(&mut self) -> Vec<TypeCount> {
        self.assert_may_collect("a census");
        let census = with_heap!(&self.shared.kind, heap => heap.census(self.record()));
        let heap = self.heap();
        let counts = census.live.iter().enumerate().map(|(number, &live)| {
            let id = TypeId::new(number as u32);
            let allocated = census.allocated.get(number).copied();
            TypeCount {
                id,
                name: heap.type_name(id).unwrap_or_default(),
                live,
                allocated: (!census.allocated.is_empty()).then(|| allocated.unwrap_or_default()),
            }
        });
        let is_there =
            |of: &TypeCount| of.live.objects + of.allocated.unwrap_or_default().objects > 0;
        let mut counts: Vec<_> = counts.filter(is_there).collect();
        counts.sort_by_key(|of| std::cmp::Reverse(of.live.bytes));
        counts
    }
}

impl Scope<'_> {
    /// See [`Mutator::set_limit`].
    pub fn set_limit(&mut self, bytes: usize) -> Result<(), LimitError> {
        self.mutator().set_limit(bytes)
    }

    /// See [`Mutator::trim`].
    pub fn trim(&mut self) -> usize {
        self.mutator().trim()
    }

    /// See [`Mutator::census`].
    pub fn census(&mut self) -> Vec<TypeCount> {
        self.mutator().census()
    }
}
