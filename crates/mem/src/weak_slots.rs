//! Slots that a trace does not follow by themselves: weak ones, and the keys and values of ephemerons.
//!
//! A type of `Shape::Weak` says which of its slots are strong, which are weak, and
//! which are ephemerons. A weak slot becomes null when nothing else keeps its referent. An ephemeron is two slots side
//! by side, a key and a value: the value is kept as far as the key lives, and both become null when it does not.
//! An immediate lives for ever, as a referent and as a key; with a null key the value is not kept, and becomes null.

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use crate::Address;
use crate::offsets::check;

/// The slots of a head, or of an element behind it: offsets from its start, each list in ascending order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slots<'a> {
    /// Slots that keep their referents.
    pub references: &'a [u32],
    /// Slots that do not.
    pub weak: &'a [u32],
    /// The keys of ephemerons. The value is in the slot behind.
    pub ephemerons: &'a [u32],
}

/// What a trace has to decide about when it knows what lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WeakSlot {
    /// A weak slot.
    Weak(Address),
    /// An ephemeron.
    Ephemeron {
        /// The slot of its key.
        key: Address,
        /// The slot of its value.
        value: Address,
    },
}

impl WeakSlot {
    /// Visits the slot, or both.
    #[inline(always)]
    pub fn visit(self, visit: &mut impl FnMut(Address)) {
        match self {
            WeakSlot::Weak(slot) => visit(slot),
            WeakSlot::Ephemeron { key, value } => {
                visit(key);
                visit(value);
            }
        }
    }
}

/// The slots of a head, or of an element, as the collector keeps them.
pub(crate) struct Part {
    weak: Box<[u32]>,
    ephemerons: Box<[u32]>,
    /// Of all slots, the strong ones among them, in ascending order.
    pub(crate) all: Box<[u32]>,
}

impl Part {
    fn new(slots: Slots<'_>, within: Range<usize>, slot: usize) -> Result<Part, u32> {
        check(slots.references, within.clone(), slot)?;
        check(slots.weak, within.clone(), slot)?;
        check(slots.ephemerons, within.clone(), slot)?;
        let values = slots.ephemerons.iter().map(|key| key + slot as u32);
        let strong = slots.references.iter().copied();
        let mut all: Vec<u32> = strong.chain(slots.weak.iter().copied()).collect();
        all.extend(slots.ephemerons.iter().copied().chain(values));
        all.sort_unstable();
        // No two overlap, and the last value ends inside.
        check(&all, within, slot)?;
        Ok(Part {
            weak: slots.weak.into(),
            ephemerons: slots.ephemerons.into(),
            all: all.into(),
        })
    }

    /// As the embedder gave them.
    pub(crate) fn slots<'a>(&'a self, references: &'a [u32]) -> Slots<'a> {
        Slots {
            references,
            weak: &self.weak,
            ephemerons: &self.ephemerons,
        }
    }

    fn visit(&self, start: Address, slot: usize, visit: &mut impl FnMut(WeakSlot)) {
        for &offset in &self.weak {
            visit(WeakSlot::Weak(start.add(offset as usize)));
        }
        for &offset in &self.ephemerons {
            let key = start.add(offset as usize);
            let value = key.add(slot);
            visit(WeakSlot::Ephemeron { key, value });
        }
    }
}

/// What is weak in the objects of a type.
pub(crate) struct WeakParts {
    pub(crate) head: Part,
    pub(crate) element: Part,
}

impl WeakParts {
    /// Of a head whose slots lie in `within`, with elements of `element` bytes behind it. The error is the first offset that
    /// does not do.
    pub(crate) fn new(
        (head, within): (Slots<'_>, Range<usize>),
        (slots, element): (Slots<'_>, usize),
        slot: usize,
    ) -> Result<WeakParts, u32> {
        Ok(WeakParts {
            head: Part::new(head, within, slot)?,
            element: Part::new(slots, 0..element, slot)?,
        })
    }

    /// The number of ephemerons in these elements, and in the head if the range begins there.
    pub(crate) fn ephemerons(&self, elements: &Range<u32>) -> usize {
        let head = if elements.start == 0 {
            self.head.ephemerons.len()
        } else {
            0
        };
        head + elements.len() * self.element.ephemerons.len()
    }

    /// Visits what is weak in these elements of an object, and in its head if the range begins there.
    pub(crate) fn visit(
        &self,
        object: Address,
        (head, element): (usize, usize),
        elements: Range<u32>,
        slot: usize,
        mut visit: impl FnMut(WeakSlot),
    ) {
        if elements.start == 0 {
            self.head.visit(object, slot, &mut visit);
        }
        let mut start = object.add(head + elements.start as usize * element);
        for _ in elements {
            self.element.visit(start, slot, &mut visit);
            start = start.add(element);
        }
    }
}
