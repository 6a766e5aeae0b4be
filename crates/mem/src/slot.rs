//! Slots: places that may hold a reference, 8 bytes wide or 4.
//!
//! A value is null (0), a reference to an object (low bit 0), or an immediate (low bit 1, never followed: small
//! integers). In a compressed slot a reference is (address - base) / 4: objects are 8-aligned, so its low bit is 0,
//! and the span is 16 GB. The base is the start of the span, or 0 if the whole span lies below 16 GB: then a reference is
//! its slot's word, shifted. The first granule of a span is never allocated, so no object has the offset 0.
//!
//! Tracing code is written once over [`SlotFormat`]. Mutators may race for a slot, and then either value is there. A
//! store releases and a load acquires, so a thread that finds a reference finds the object as it was when it was
//! stored.

use gleaner_base::sync::{AtomicU32, AtomicU64, Ordering};

use crate::Address;

/// What a slot holds, in its wide form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Value(u64);

impl Value {
    /// The null reference.
    pub const NULL: Value = Value(0);

    /// A reference to the object at `object`.
    #[inline(always)]
    pub const fn reference(object: Address) -> Value {
        Value(object.word() as u64)
    }

    /// An immediate; of the number, the upper bit is lost (it must fit the slot format, see [`SlotFormat::fits`]).
    #[inline(always)]
    pub const fn immediate(number: i64) -> Value {
        Value((number << 1) as u64 | 1)
    }

    /// The value with this bit pattern.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Value {
        Value(bits)
    }

    /// The bit pattern.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The object, unless this is null or an immediate.
    #[inline(always)]
    pub const fn as_object(self) -> Option<Address> {
        if self.0 & 1 == 0 && self.0 != 0 {
            Some(Address::new(self.0 as usize))
        } else {
            None
        }
    }

    /// The number, if this is an immediate.
    #[inline(always)]
    pub const fn as_immediate(self) -> Option<i64> {
        if self.0 & 1 == 1 {
            Some(self.0 as i64 >> 1)
        } else {
            None
        }
    }

    /// Whether this is null.
    #[inline(always)]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}

/// How wide slots are and how they hold references.
pub trait SlotFormat: Copy + Send + Sync + 'static {
    /// Bytes of a slot, and its alignment.
    const BYTES: usize;
    /// The largest span of a heap.
    const SPAN: usize;

    /// Reads a slot of a heap whose slots count from `base`.
    ///
    /// # Safety
    /// A slot of this format, aligned to its bytes, must lie at `at`.
    unsafe fn load(at: Address, base: Address) -> Value;

    /// Writes a slot. The value must be null, fit (see [`SlotFormat::fits`]) or refer to an object of the heap.
    ///
    /// # Safety
    /// As for [`SlotFormat::load`].
    unsafe fn store(at: Address, base: Address, value: Value);

    /// Reads a slot that holds no immediate: an object or null. Programs with static types know such slots, and save a
    /// test.
    ///
    /// # Safety
    /// As for [`SlotFormat::load`].
    unsafe fn load_reference(at: Address, base: Address) -> Address;

    /// Writes an object of the heap, or null, to a slot.
    ///
    /// # Safety
    /// As for [`SlotFormat::load`].
    unsafe fn store_reference(at: Address, base: Address, object: Address);

    /// Writes `new` to a slot if it holds `expected`; else the error is what it holds. As an acquire and a release.
    ///
    /// # Safety
    /// As for [`SlotFormat::load`]; for `new` as for [`SlotFormat::store`].
    unsafe fn compare_exchange(
        at: Address,
        base: Address,
        expected: Value,
        new: Value,
    ) -> Result<(), Value>;

    /// Whether an immediate keeps its number in this format.
    fn fits(number: i64) -> bool;
}

/// Slots of 8 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Wide;

impl SlotFormat for Wide {
    const BYTES: usize = 8;
    const SPAN: usize = 1 << 43;

    #[inline(always)]
    unsafe fn load(at: Address, _: Address) -> Value {
        // SAFETY: a slot of 8 bytes, aligned to them, lies at `at`, as asked.
        Value(unsafe { &*at.ptr::<AtomicU64>() }.load(Ordering::Acquire))
    }

    #[inline(always)]
    unsafe fn store(at: Address, _: Address, value: Value) {
        // SAFETY: a slot of 8 bytes, aligned to them, lies at `at`, as asked.
        unsafe { &*at.ptr::<AtomicU64>() }.store(value.0, Ordering::Release);
    }

    #[inline(always)]
    unsafe fn load_reference(at: Address, base: Address) -> Address {
        // SAFETY: a slot of this format lies at `at`, as asked.
        Address::new(unsafe { Wide::load(at, base) }.0 as usize)
    }

    #[inline(always)]
    unsafe fn store_reference(at: Address, base: Address, object: Address) {
        // SAFETY: a slot of this format lies at `at`, as asked.
        unsafe { Wide::store(at, base, Value::reference(object)) };
    }

    #[inline(always)]
    unsafe fn compare_exchange(
        at: Address,
        _: Address,
        expected: Value,
        new: Value,
    ) -> Result<(), Value> {
        // SAFETY: a slot of 8 bytes, aligned to them, lies at `at`, as asked.
        unsafe { &*at.ptr::<AtomicU64>() }
            .compare_exchange(expected.0, new.0, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
            .map_err(Value)
    }

    fn fits(number: i64) -> bool {
        number << 1 >> 1 == number
    }
}

/// Slots of 4 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Compressed;

impl Compressed {
    /// The word of a slot that holds `value`.
    #[inline(always)]
    fn encode(value: Value, base: Address) -> u32 {
        match value.as_object() {
            Some(object) => (object.offset_from(base) / 4) as u32,
            None => value.0 as u32,
        }
    }

    /// What a slot with this word holds.
    #[inline(always)]
    fn decode(word: u32, base: Address) -> Value {
        if word & 1 == 1 {
            Value(word as i32 as i64 as u64)
        } else if word == 0 {
            Value::NULL
        } else {
            Value::reference(base.add(word as usize * 4))
        }
    }
}

impl SlotFormat for Compressed {
    const BYTES: usize = 4;
    const SPAN: usize = 1 << 34;

    #[inline(always)]
    unsafe fn load(at: Address, base: Address) -> Value {
        // SAFETY: a slot of 4 bytes, aligned to them, lies at `at`, as asked.
        Compressed::decode(
            unsafe { &*at.ptr::<AtomicU32>() }.load(Ordering::Acquire),
            base,
        )
    }

    #[inline(always)]
    unsafe fn store(at: Address, base: Address, value: Value) {
        // SAFETY: a slot of 4 bytes, aligned to them, lies at `at`, as asked.
        unsafe { &*at.ptr::<AtomicU32>() }
            .store(Compressed::encode(value, base), Ordering::Release);
    }

    #[inline(always)]
    unsafe fn compare_exchange(
        at: Address,
        base: Address,
        expected: Value,
        new: Value,
    ) -> Result<(), Value> {
        let [expected, new] = [expected, new].map(|value| Compressed::encode(value, base));
        // SAFETY: a slot of 4 bytes, aligned to them, lies at `at`, as asked.
        unsafe { &*at.ptr::<AtomicU32>() }
            .compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
            .map_err(|word| Compressed::decode(word, base))
    }

    #[inline(always)]
    unsafe fn load_reference(at: Address, base: Address) -> Address {
        // SAFETY: a slot of 4 bytes, aligned to them, lies at `at`, as asked.
        match unsafe { &*at.ptr::<AtomicU32>() }.load(Ordering::Acquire) {
            0 => Address::NULL,
            word => base.add(word as usize * 4),
        }
    }

    #[inline(always)]
    unsafe fn store_reference(at: Address, base: Address, object: Address) {
        let word = if object == Address::NULL {
            0
        } else {
            (object.offset_from(base) / 4) as u32
        };
        // SAFETY: a slot of 4 bytes, aligned to them, lies at `at`, as asked.
        unsafe { &*at.ptr::<AtomicU32>() }.store(word, Ordering::Release);
    }

    fn fits(number: i64) -> bool {
        number << 33 >> 33 == number
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn keeps<F: SlotFormat>(value: Value) {
        let mut place = [0u64; 2];
        let at = Address::of(&raw mut place[1]);
        let base = Address::new(0x7000_1234_0000);
        // SAFETY: the place is this test's and wide enough for either format.
        unsafe {
            F::store(at, base, value);
            assert_eq!(F::load(at, base), value, "{value:?}");
            if value.as_immediate().is_none() {
                let object = Address::new(value.bits() as usize);
                assert_eq!(F::load_reference(at, base), object, "{value:?}");
                F::store(at, base, Value::immediate(1));
                F::store_reference(at, base, object);
                assert_eq!(F::load(at, base), value, "{value:?}");
            }
            let other = Value::immediate(77);
            assert_eq!(F::compare_exchange(at, base, other, value), Err(value));
            assert_eq!(F::compare_exchange(at, base, value, other), Ok(()));
            assert_eq!(F::compare_exchange(at, base, value, other), Err(other));
            assert_eq!(F::compare_exchange(at, base, other, value), Ok(()));
            assert_eq!(F::load(at, base), value, "{value:?}");
        }
        assert_eq!(place[0], 0);
    }

    #[test]
    fn both_formats_keep_null_references_and_immediates() {
        let base = 0x7000_1234_0000;
        for value in [
            Value::NULL,
            Value::reference(Address::new(base + 8)),
            Value::reference(Address::new(base + Compressed::SPAN - 8)),
            Value::immediate(0),
            Value::immediate(-1),
            Value::immediate((1 << 30) - 1),
            Value::immediate(-(1 << 30)),
        ] {
            keeps::<Wide>(value);
            keeps::<Compressed>(value);
        }
        keeps::<Wide>(Value::immediate(i64::MAX >> 1));
    }

    #[test]
    fn what_fits_is_known() {
        assert!(Compressed::fits(-(1 << 30)) && !Compressed::fits(1 << 30));
        assert!(Wide::fits(i64::MAX >> 1) && !Wide::fits(i64::MAX));
    }

    #[test]
    fn an_immediate_is_no_object_and_an_object_no_immediate() {
        let number = Value::immediate(-7);
        assert_eq!(
            (number.as_object(), number.as_immediate()),
            (None, Some(-7))
        );
        let object = Value::reference(Address::new(64));
        assert_eq!(
            (object.as_object(), object.as_immediate()),
            (Some(Address::new(64)), None)
        );
        assert!(Value::NULL.is_null() && Value::NULL.as_object().is_none());
    }
}
