//! What objects look like to MMTk: one header word, references of 8 or 4 bytes, and where MMTk's own bits are.
//!
//! Word 0 is the header: the kind of the object above two bits that MMTk uses while it forwards; once the object was
//! copied, the forwarding pointer takes the whole word of the old copy. An array has its length in word 1. Mark bits,
//! unlogged bits and the bits of large objects are in side metadata, so a node is as wide as Gleaner's: 32 bytes with
//! wide references, 24 with compressed ones. Objects of other shapes are records, whose headers say what they have.
//!
//! A compressed reference is the low half of an address: MMTk's heap then lies below 4 GB, so that decoding is a load
//! of 4 bytes and nothing else. Roots are words of 8 bytes whose upper half is zero there; that is why one type of slot
//! does for roots, too.
//!
//! Read by MMTk's workers while the mutators are stopped, and by the mutators.

use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use mmtk::util::copy::{CopySemantics, GCWorkerCopyContext};
use mmtk::util::{Address, ObjectReference};
use mmtk::vm::slot::Slot;
use mmtk::vm::{
    ObjectModel, VMGlobalLogBitSpec, VMLocalForwardingBitsSpec, VMLocalForwardingPointerSpec,
    VMLocalLOSMarkNurserySpec, VMLocalMarkBitSpec,
};

use crate::binding::Vm;

/// Kind of an object with two references and two numbers of 4 bytes.
pub const NODE: usize = 1 << 2;
/// Kind of an array of references.
pub const REFERENCES: usize = 2 << 2;
/// Kind of an array of numbers of 8 bytes.
pub const DOUBLES: usize = 3 << 2;
/// Kind of an object with four references and two numbers of 4 bytes.
pub const QUAD: usize = 4 << 2;
/// Kind of an array of numbers of 4 bytes.
pub const WORDS: usize = 5 << 2;
/// Kind of an array of bytes.
pub const BYTES: usize = 6 << 2;
/// Kind of an object with any number of references, then bytes; the header says how many of both. No other kind has this
/// bit: so it is tested apart, and scanning the others is no jump through a table.
const RECORD: usize = 1 << 7;
/// The bits of the header that are the kind. The two below are MMTk's.
const KIND: usize = 0xfc;
/// Where the header of a record has its number of references, in 8 bits.
const COUNT: u32 = 8;
/// Where the header of a record has its size in words.
const SIZE: u32 = 16;

/// Offset of the first field.
pub const FIELDS: usize = 8;
/// Offset of an array's length.
const LENGTH: usize = 8;
/// Offset of an array's first element.
pub const ELEMENTS: usize = 16;

/// How references lie in objects.
pub trait References: Copy + Debug + Default + Eq + Hash + Send + Sync + 'static {
    /// Bytes of a reference.
    const BYTES: usize;
    /// Offset of a node's first number.
    const NUMBERS: usize = FIELDS + 2 * Self::BYTES;
    /// Bytes of a node.
    const NODE_BYTES: usize = Self::NUMBERS + 8;
    /// Offset of a quad's first number.
    const QUAD_NUMBERS: usize = FIELDS + 4 * Self::BYTES;
    /// Bytes of a quad.
    const QUAD_BYTES: usize = Self::QUAD_NUMBERS + 8;

    /// Reads one; 0 is null.
    ///
    /// # Safety
    /// A reference is there.
    unsafe fn load(place: usize) -> usize;

    /// Writes one.
    ///
    /// # Safety
    /// A reference is there, and the value is one.
    unsafe fn store(place: usize, value: usize);
}

/// References of 8 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wide;

/// References of 4 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Compressed;

impl References for Wide {
    const BYTES: usize = 8;

    #[inline(always)]
    unsafe fn load(place: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { (*(place as *const AtomicUsize)).load(Ordering::Relaxed) }
    }

    #[inline(always)]
    unsafe fn store(place: usize, value: usize) {
        // SAFETY: the caller's promise.
        unsafe { (*(place as *const AtomicUsize)).store(value, Ordering::Relaxed) }
    }
}

impl References for Compressed {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn load(place: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { (*(place as *const AtomicU32)).load(Ordering::Relaxed) as usize }
    }

    #[inline(always)]
    unsafe fn store(place: usize, value: usize) {
        // SAFETY: the caller's promise.
        unsafe { (*(place as *const AtomicU32)).store(value as u32, Ordering::Relaxed) }
    }
}

/// Where a reference lies, for MMTk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place<R>(usize, PhantomData<R>);

impl<R> Place<R> {
    /// The slot at an address.
    #[inline(always)]
    pub fn at(address: usize) -> Place<R> {
        Place(address, PhantomData)
    }
}

impl<R: References> Slot for Place<R> {
    #[inline(always)]
    fn load(&self) -> Option<ObjectReference> {
        // SAFETY: slots are made of places with references.
        unsafe { reference(R::load(self.0)) }
    }

    #[inline(always)]
    fn store(&self, object: ObjectReference) {
        // SAFETY: slots are made of places with references.
        unsafe { R::store(self.0, object.to_raw_address().as_usize()) }
    }
}

/// The object at an address; none at 0.
///
/// # Safety
/// The address is 0 or an object's.
#[inline(always)]
pub unsafe fn reference(address: usize) -> Option<ObjectReference> {
    // SAFETY: the caller's promise.
    ObjectReference::from_raw_address(unsafe { Address::from_usize(address) })
}

/// The header of an object that is not forwarded.
#[inline(always)]
fn header(object: usize) -> usize {
    // SAFETY: an object has a header.
    unsafe { (*(object as *const AtomicUsize)).load(Ordering::Relaxed) }
}

/// The kind of an object that is not forwarded.
#[inline(always)]
fn kind(object: usize) -> usize {
    header(object) & KIND
}

/// The header of a record with `references` references, and `bytes` bytes in all.
pub const fn record_header(references: usize, bytes: usize) -> usize {
    assert!(references < 1 << (SIZE - COUNT) && bytes.is_multiple_of(8));
    RECORD | references << COUNT | (bytes / 8) << SIZE
}

/// The length of an array.
#[inline(always)]
pub fn length(array: usize) -> usize {
    // SAFETY: an array has a length.
    unsafe { (array as *const usize).byte_add(LENGTH).read() }
}

/// Writes the header of a fresh object, whose other words are zero: its kind, or what [`record_header`] gives.
///
/// # Safety
/// The memory is fresh, and large enough for the kind.
#[inline(always)]
pub unsafe fn initialize(object: usize, header: usize) {
    // SAFETY: the caller's promise.
    unsafe { (object as *mut usize).write(header) };
}

/// Writes the length of a fresh array.
///
/// # Safety
/// The memory is fresh, and large enough.
pub unsafe fn set_length(array: usize, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { (array as *mut usize).byte_add(LENGTH).write(length) };
}

/// Bytes of an array of `length` elements with `element` bytes each.
pub fn array_bytes(length: usize, element: usize) -> usize {
    (ELEMENTS + length * element).next_multiple_of(8)
}

/// Bytes of an object.
#[inline(always)]
fn bytes<R: References>(object: usize) -> usize {
    match kind(object) {
        NODE => R::NODE_BYTES,
        QUAD => R::QUAD_BYTES,
        REFERENCES => array_bytes(length(object), R::BYTES),
        BYTES => array_bytes(length(object), 1),
        WORDS => array_bytes(length(object), 4),
        kind if kind & RECORD != 0 => (header(object) >> SIZE) * 8,
        _ => array_bytes(length(object), 8),
    }
}

/// Calls `visit` with each place in an object that holds a reference.
#[inline(always)]
pub fn places<R: References>(object: usize, mut visit: impl FnMut(Place<R>)) {
    match kind(object) {
        NODE => {
            visit(Place::at(object + FIELDS));
            visit(Place::at(object + FIELDS + R::BYTES));
        }
        QUAD => {
            for corner in 0..4 {
                visit(Place::at(object + FIELDS + corner * R::BYTES));
            }
        }
        REFERENCES => {
            for index in 0..length(object) {
                visit(Place::at(object + ELEMENTS + index * R::BYTES));
            }
        }
        kind if kind & RECORD != 0 => {
            for index in 0..header(object) >> COUNT & 0xff {
                visit(Place::at(object + FIELDS + index * R::BYTES));
            }
        }
        _ => {}
    }
}

/// Copies an object; a node or a quad by a known number of words.
///
/// # Safety
/// `to` has room for it.
#[inline(always)]
unsafe fn copy_words<R: References>(from: usize, to: usize, bytes: usize) {
    let (from, to) = (from as *const usize, to as *mut usize);
    // SAFETY: the caller's promise.
    unsafe {
        if bytes == R::NODE_BYTES {
            to.copy_from_nonoverlapping(from, R::NODE_BYTES / 8);
        } else if bytes == R::QUAD_BYTES {
            to.copy_from_nonoverlapping(from, R::QUAD_BYTES / 8);
        } else {
            to.copy_from_nonoverlapping(from, bytes / 8);
        }
    }
}

impl<R: References> ObjectModel<Vm<R>> for Vm<R> {
    const GLOBAL_LOG_BIT_SPEC: VMGlobalLogBitSpec = VMGlobalLogBitSpec::side_first();
    const LOCAL_FORWARDING_POINTER_SPEC: VMLocalForwardingPointerSpec =
        VMLocalForwardingPointerSpec::in_header(0);
    const LOCAL_FORWARDING_BITS_SPEC: VMLocalForwardingBitsSpec =
        VMLocalForwardingBitsSpec::in_header(0);
    const LOCAL_MARK_BIT_SPEC: VMLocalMarkBitSpec = VMLocalMarkBitSpec::side_first();
    const LOCAL_LOS_MARK_NURSERY_SPEC: VMLocalLOSMarkNurserySpec =
        VMLocalLOSMarkNurserySpec::side_after(Self::LOCAL_MARK_BIT_SPEC.as_spec());

    const UNIFIED_OBJECT_REFERENCE_ADDRESS: bool = true;
    const OBJECT_REF_OFFSET_LOWER_BOUND: isize = 0;
    const VM_WORST_CASE_COPY_EXPANSION: f64 = 1.0;

    #[inline(always)]
    fn copy(
        from: ObjectReference,
        semantics: CopySemantics,
        context: &mut GCWorkerCopyContext<Self>,
    ) -> ObjectReference {
        let old = from.to_raw_address().as_usize();
        let bytes = bytes::<R>(old);
        let new = context.alloc_copy(from, bytes, 8, 0, semantics);
        // SAFETY: `bytes` bytes were just allocated, for an object.
        let to = unsafe {
            copy_words::<R>(old, new.as_usize(), bytes);
            ObjectReference::from_raw_address_unchecked(new)
        };
        context.post_copy(to, bytes, semantics);
        to
    }

    fn copy_to(from: ObjectReference, to: ObjectReference, _region: Address) -> Address {
        let (old, new) = (from.to_raw_address(), to.to_raw_address());
        let bytes = bytes::<R>(old.as_usize());
        // SAFETY: both are objects of `bytes` bytes, which may overlap.
        unsafe { std::ptr::copy(old.to_ptr::<u8>(), new.to_mut_ptr(), bytes) };
        new + bytes
    }

    fn get_reference_when_copied_to(_from: ObjectReference, to: Address) -> ObjectReference {
        // SAFETY: an object starts with its header.
        unsafe { ObjectReference::from_raw_address_unchecked(to) }
    }

    #[inline(always)]
    fn get_current_size(object: ObjectReference) -> usize {
        bytes::<R>(object.to_raw_address().as_usize())
    }

    #[inline(always)]
    fn get_size_when_copied(object: ObjectReference) -> usize {
        Self::get_current_size(object)
    }

    #[inline(always)]
    fn get_align_when_copied(_object: ObjectReference) -> usize {
        8
    }

    #[inline(always)]
    fn get_align_offset_when_copied(_object: ObjectReference) -> usize {
        0
    }

    fn get_type_descriptor(_object: ObjectReference) -> &'static [i8] {
        &[]
    }

    #[inline(always)]
    fn ref_to_object_start(object: ObjectReference) -> Address {
        object.to_raw_address()
    }

    #[inline(always)]
    fn ref_to_header(object: ObjectReference) -> Address {
        object.to_raw_address()
    }

    fn dump_object(object: ObjectReference) {
        let address = object.to_raw_address();
        eprintln!("{address}: kind {}", kind(address.as_usize()));
    }
}
