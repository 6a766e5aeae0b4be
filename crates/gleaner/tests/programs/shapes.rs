//! Objects that only the raw layer makes: with elements behind a head, and with a trace function.
//!
//! Every instance has its length at offset 8, a number of its own at 16, and its first slot at 24. What is no slot holds
//! numbers that look like references, so a slot too many is found as surely as one too few.

use std::sync::atomic::{AtomicUsize, Ordering};

use gleaner::raw::{
    self, Address, FIELDS, LENGTH, NewObject, Shape, Size, Trace, TypeId, Value, Visitor,
    tailed_bytes,
};
use gleaner::{Heap, Mutator, OutOfMemory, References};

/// How many types there are.
pub const KINDS: usize = 6;
/// A head, and elements of a slot between two numbers.
pub const PAIRS: usize = 0;
/// A head of two slots, and elements that are slots.
pub const SLOTS: usize = 1;
/// A head, and elements of three bytes.
pub const NUMBERS: usize = 2;
/// A trace function, a head, and elements of a slot or a number with a tag that says which.
pub const TAGGED: usize = 3;
/// A trace function, and seven words; the set bits of the length are those that are slots, and the first is one.
pub const MAPPED: usize = 4;
/// Functions that say where the slots are, one more than the length, and how large it is.
pub const SIZED: usize = 5;

/// Where the first slot lies.
pub const FIRST: usize = 24;
const NUMBER: usize = 16;
const MAPPED_WORDS: usize = 7;
const TAGGED_BYTES: usize = 16;

/// Looks like a reference into nowhere.
const GARBAGE: u64 = 0x1234_5678_9abc_def0;

/// The heap's slot width, which is the data of the functions.
static WIDTHS: [usize; 2] = [8, 4];

unsafe extern "C" fn trace_tagged(_: *mut (), object: *mut u8, visitor: *mut Visitor) {
    // SAFETY: the collector gives an object of this type.
    unsafe {
        Visitor::visit(visitor, object.add(FIRST));
        for index in 0..object.add(LENGTH).cast::<u32>().read() as usize {
            let element = object.add(32 + index * TAGGED_BYTES);
            if element.add(8).cast::<u64>().read() == 1 {
                Visitor::visit(visitor, element);
            }
        }
    }
}

pub unsafe extern "C" fn trace_mapped(_: *mut (), object: *mut u8, visitor: *mut Visitor) {
    // SAFETY: the collector gives an object of this type, whose first word is the map of its slots.
    unsafe {
        let map = object.add(LENGTH).cast::<u64>().read() | 1;
        for index in (0..MAPPED_WORDS).filter(|index| map & 1 << index != 0) {
            Visitor::visit(visitor, object.add(FIRST + index * 8));
        }
    }
}

unsafe extern "C" fn trace_sized(width: *mut (), object: *mut u8, visitor: *mut Visitor) {
    // SAFETY: the collector gives an object of this type, which has one slot more than its first word says, and the data
    // of the type: a width, which is a static.
    unsafe {
        for index in 0..=object.add(LENGTH).cast::<u64>().read() as usize {
            Visitor::visit(visitor, object.add(FIRST + index * *width.cast::<usize>()));
        }
    }
}

/// How often a heap asked for the size of one.
pub static SIZES_ASKED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn size_of_sized(width: *mut (), object: *const u8) -> usize {
    SIZES_ASKED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the collector gives an object of this type, whose first word was written before the next allocation, and
    // the data of the type: a width, which is a static.
    unsafe {
        FIRST + (object.add(LENGTH).cast::<u64>().read() as usize + 1) * *width.cast::<usize>()
    }
}

/// What one object is like, but for what its slots hold.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Its type, below [`KINDS`].
    pub kind: usize,
    /// How many elements it has, or what its kind makes of that.
    pub length: u32,
    /// Its own number.
    pub number: u64,
}

impl Form {
    /// Whether a tagged element is a slot.
    fn tags_slot(self, index: usize) -> bool {
        self.number.wrapping_add(index as u64).is_multiple_of(2)
    }

    /// What the four bytes at an offset hold that are of no slot.
    fn plain(self, offset: usize) -> u32 {
        let tag = self.kind == TAGGED
            && offset >= 40
            && offset % TAGGED_BYTES >= 8
            && self.tags_slot((offset - 32) / TAGGED_BYTES);
        let word = if tag { 1 } else { GARBAGE };
        (word >> (offset % 8 * 8)) as u32
    }
}

/// Who writes the fields of a fresh object, and where it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fresh {
    Zeroed,
    Unwritten,
    Pinned,
}

fn at<T>(object: Address, offset: usize) -> *mut T {
    object.add(offset).ptr()
}

/// The number of an object of any of the types.
///
/// # Safety
/// It is one, and a valid reference.
pub unsafe fn number(object: Address) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { at::<u64>(object, NUMBER).read() }
}

/// The types, registered in one heap.
#[derive(Clone, Copy)]
pub struct Shapes {
    kinds: [TypeId; KINDS],
    slot: usize,
}

impl Shapes {
    pub fn register(heap: &Heap) -> Shapes {
        let width = &WIDTHS[usize::from(heap.references() == References::Compressed)];
        let traced = |size, function| Shape::Traced {
            size,
            trace: Trace {
                function,
                data: (&raw const *width).cast_mut().cast(),
            },
        };
        let tagged = Size::Tailed {
            head: 32,
            element: TAGGED_BYTES,
        };
        let tailed = |head, references, element, element_references| Shape::Tailed {
            head,
            references,
            element,
            element_references,
        };
        let kinds = [
            tailed(32, &[24], 24, &[8]),
            tailed(40, &[24, 32], *width, &[0]),
            tailed(32, &[24], 3, &[]),
            traced(tagged, trace_tagged),
            traced(Size::Fixed(FIRST + MAPPED_WORDS * 8), trace_mapped),
            traced(Size::Function(size_of_sized), trace_sized),
        ];
        Shapes {
            kinds: kinds.map(|shape| heap.register_raw(shape).unwrap()),
            slot: *width,
        }
    }

    /// The bytes of an object.
    pub fn bytes(&self, form: Form) -> usize {
        match form.kind {
            PAIRS => tailed_bytes(32, form.length, 24),
            SLOTS => tailed_bytes(40, form.length, self.slot),
            NUMBERS => tailed_bytes(32, form.length, 3),
            TAGGED => tailed_bytes(32, form.length, TAGGED_BYTES),
            MAPPED => FIRST + MAPPED_WORDS * 8,
            SIZED => tailed_bytes(FIRST, form.length + 1, self.slot),
            kind => unreachable!("no kind is {kind}"),
        }
    }

    /// The offsets of its slots, in ascending order.
    pub fn slots(&self, form: Form) -> Vec<usize> {
        let elements = 0..form.length as usize;
        match form.kind {
            PAIRS => [FIRST]
                .into_iter()
                .chain(elements.map(|index| 40 + index * 24))
                .collect(),
            SLOTS => [FIRST, 32]
                .into_iter()
                .chain(elements.map(|index| 40 + index * self.slot))
                .collect(),
            NUMBERS => vec![FIRST],
            TAGGED => [FIRST]
                .into_iter()
                .chain(
                    elements
                        .filter(|&index| form.tags_slot(index))
                        .map(|index| 32 + index * TAGGED_BYTES),
                )
                .collect(),
            MAPPED => (0..MAPPED_WORDS)
                .filter(|index| (form.length | 1) & 1 << index != 0)
                .map(|index| FIRST + index * 8)
                .collect(),
            SIZED => (0..=form.length as usize)
                .map(|index| FIRST + index * self.slot)
                .collect(),
            kind => unreachable!("no kind is {kind}"),
        }
    }

    /// Calls `each` with the offset of every four bytes behind the number that are of no slot.
    fn plain(&self, form: Form, mut each: impl FnMut(usize)) {
        let (mut offset, end) = (FIRST, self.bytes(form));
        for slot in self.slots(form).into_iter().chain([end]) {
            (offset..slot).step_by(4).for_each(&mut each);
            offset = slot + self.slot;
        }
    }

    /// A new object whose slots are null. What is no slot is written.
    ///
    /// # Safety
    /// The mutator has what it needs in roots.
    pub unsafe fn allocate(
        &self,
        mutator: &mut Mutator,
        form: Form,
        fresh: Fresh,
    ) -> Result<Address, OutOfMemory> {
        let (id, bytes) = (self.kinds[form.kind], self.bytes(form));
        let Form { length, number, .. } = form;
        let has_tail = form.kind < MAPPED;
        // SAFETY: type and size fit each other; every byte is written below.
        unsafe {
            let new = if has_tail {
                NewObject::array(id, length, bytes)
            } else {
                NewObject::structure(id, bytes)
            };
            let object = match fresh {
                Fresh::Zeroed => mutator.allocate_raw(new, raw::Fresh::Zeroed),
                Fresh::Unwritten => mutator.allocate_raw(new, raw::Fresh::Unwritten),
                Fresh::Pinned => mutator.allocate_pinned_raw(new),
            }?;
            if fresh == Fresh::Unwritten {
                for slot in self.slots(form) {
                    mutator.store_raw(object, slot, Value::NULL);
                }
            } else {
                let start = if has_tail { NUMBER } else { FIELDS };
                assert!(
                    (start..bytes)
                        .step_by(8)
                        .all(|offset| at::<u64>(object, offset).read() == 0)
                );
            }
            if !has_tail {
                at::<u64>(object, LENGTH).write(length.into());
            }
            at::<u64>(object, NUMBER).write(number);
            self.plain(form, |offset| {
                at::<u32>(object, offset).write(form.plain(offset));
            });
            Ok(object)
        }
    }

    /// The object is as it was made, whatever its slots hold.
    ///
    /// # Safety
    /// It is an object of this heap, and a valid reference.
    pub unsafe fn check(&self, mutator: &Mutator, object: Address, form: Form) {
        // SAFETY: the caller's promise, and then the type.
        unsafe {
            assert_eq!(mutator.type_raw(object), self.kinds[form.kind], "{form:?}");
            assert_eq!(mutator.length_raw(object), form.length, "{form:?}");
            assert_eq!(number(object), form.number, "{form:?}");
            self.plain(form, |offset| {
                let found = at::<u32>(object, offset).read();
                assert_eq!(found, form.plain(offset), "{form:?} at {offset}");
            });
        }
    }
}
