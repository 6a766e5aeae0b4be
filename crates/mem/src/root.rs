//! Roots: places outside of the heap that hold references, as an embedder's function names them to the collector.
//!
//! A derived pointer leads into an object or to its end, and is no reference: the object is found by its base. Both
//! lie in root slots. When the base changes, the derived pointer keeps its offset from the base.

use crate::Address;
use crate::traced::Visitor;

/// A root.
#[derive(Clone, Copy, Debug)]
pub enum Root<'a> {
    /// A slot of 8 bytes, whatever the format of the heap's slots.
    Value(Address),
    /// A slot of the heap's own format.
    Slot(Address),
    /// A slot of 8 bytes that holds the base, and the places of words that were derived from it.
    Derived(Address, &'a [Address]),
}

impl Visitor {
    /// Runs `body` with a visitor that calls `visit` for each root.
    #[inline(always)]
    pub fn with_roots<V: FnMut(Root<'_>)>(visit: V, body: impl FnOnce(*mut Visitor)) {
        /// The visitor comes first, so that its address is that of both.
        #[repr(C)]
        struct Calling<V> {
            visitor: Visitor,
            visit: V,
        }
        /// # Safety
        /// The visitor is the first field of a `Calling<V>`, which is used for nothing else meanwhile.
        unsafe fn call<V: FnMut(Root<'_>)>(visitor: *mut Visitor, root: Root<'_>) {
            // SAFETY: the first field of a `Calling<V>`, as asked.
            unsafe { ((*visitor.cast::<Calling<V>>()).visit)(root) };
        }
        unsafe extern "C" fn value<V: FnMut(Root<'_>)>(visitor: *mut Visitor, slot: *mut u8) {
            // SAFETY: `with_roots` below made the visitor as the first field of a `Calling<V>`.
            unsafe { call::<V>(visitor, Root::Value(Address::of(slot))) };
        }
        unsafe extern "C" fn slot<V: FnMut(Root<'_>)>(visitor: *mut Visitor, slot: *mut u8) {
            // SAFETY: `with_roots` below made the visitor as the first field of a `Calling<V>`.
            unsafe { call::<V>(visitor, Root::Slot(Address::of(slot))) };
        }
        unsafe extern "C" fn derived<V: FnMut(Root<'_>)>(
            visitor: *mut Visitor,
            base: *mut u8,
            derived: *const *mut u8,
            count: usize,
        ) {
            let places = match count {
                0 => &[],
                // SAFETY: the running function names `count` places; an address is a pointer's word.
                _ => unsafe { core::slice::from_raw_parts(derived.cast::<Address>(), count) },
            };
            let root = Root::Derived(Address::of(base), places);
            // SAFETY: `with_roots` below made the visitor as the first field of a `Calling<V>`.
            unsafe { call::<V>(visitor, root) };
        }
        let mut calling = Calling {
            visitor: Visitor::new(value::<V>, slot::<V>, derived::<V>),
            visit,
        };
        body((&raw mut calling).cast());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::string::{String, ToString};
    use std::vec::Vec;

    #[test]
    fn a_function_names_roots_of_each_kind() {
        let mut said: Vec<String> = Vec::new();
        let visit = |root: Root<'_>| {
            said.push(match root {
                Root::Value(slot) => std::format!("value {:#x}", slot.word()),
                Root::Slot(slot) => std::format!("slot {:#x}", slot.word()),
                Root::Derived(base, derived) => {
                    let places: Vec<usize> = derived.iter().map(|place| place.word()).collect();
                    std::format!("base {:#x} of {places:?}", base.word())
                }
            });
        };
        let place = |address: usize| core::ptr::without_provenance_mut::<u8>(address);
        Visitor::with_roots(visit, |visitor| {
            let derived = [place(3), place(4)];
            // SAFETY: the visitor of the running function; nothing reads the places.
            unsafe {
                Visitor::visit(visitor, place(0x10));
                Visitor::visit_slot(visitor, place(0x20));
                Visitor::visit_derived(visitor, place(0x30), &derived);
                Visitor::visit_derived(visitor, place(0x40), &[]);
            }
        });
        let expected = [
            "value 0x10",
            "slot 0x20",
            "base 0x30 of [3, 4]",
            "base 0x40 of []",
        ];
        assert_eq!(said, expected.map(|text| text.to_string()));
    }
}
