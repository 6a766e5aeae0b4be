//! Types, canonical across the modules of an engine.
//!
//! Two recursion groups that are written the same way are one: [`Registry::intern`] looks a group up by its text, in which
//! references within the group count from the group's start and all others are canonical numbers. So equality of types is
//! equality of numbers, and a subtype has the number of its supertype in its *display*: the chain of supertypes, from the
//! oldest to itself.
//!
//! Each structure and array type has a type of the heap. The heap's word for a type leads to a [`description`], in which
//! compiled code finds the display.

use std::collections::HashMap;

use gleaner::raw::TypeId;

use crate::layout::{Form, Layout};
use crate::types::{Composite, HeapType, Number, Signature, SubType, ValType};

/// What the instances of a type are; in its description for compiled code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Kind {
    Struct = 1,
    Array = 2,
    Func = 3,
    /// An object that stands for a value of the host.
    Host = 4,
    /// The payload of an exception.
    Exception = 5,
}

/// How compiled code finds what a type is: words of 4 bytes.
pub(crate) mod description {
    /// The [`Kind`](super::Kind).
    pub(crate) const KIND: u32 = 0;
    /// How many types the display has.
    pub(crate) const DEPTH: u32 = 4;
    /// The type's own number.
    pub(crate) const NUMBER: u32 = 8;
    /// The display.
    pub(crate) const DISPLAY: u32 = 12;
    /// So many places each display has at least, those beyond its depth with a number that no type has. A test for a type
    /// that is less deep compares no depth.
    pub(crate) const PLACES: usize = 8;
}

/// A type that is known to the engine.
pub(crate) struct Entry {
    pub(crate) sub: SubType,
    /// The supertypes, from the oldest to the type itself.
    pub(crate) display: Vec<Number>,
    /// How instances lie in the heap; `None` for functions.
    pub(crate) layout: Option<Layout>,
    /// The type of instances in the heap; `None` for functions.
    pub(crate) heap: Option<TypeId>,
    description: Box<[u32]>,
}

impl Entry {
    /// Where its description lies, as long as the engine does.
    pub(crate) fn description(&self) -> *const u32 {
        self.description.as_ptr()
    }

    pub(crate) fn signature(&self) -> &Signature {
        match &self.sub.composite {
            Composite::Func(signature) => signature,
            other => unreachable!("validation asks for a function type, not {other:?}"),
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        self.layout
            .as_ref()
            .expect("validation asks for a structure or an array")
    }

    pub(crate) fn heap(&self) -> TypeId {
        self.heap
            .expect("validation asks for a structure or an array")
    }
}

/// The words of a description.
pub(crate) fn describe(kind: Kind, number: Number, display: &[Number]) -> Box<[u32]> {
    let mut words = vec![kind as u32, display.len() as u32, number];
    words.extend_from_slice(display);
    words.resize(words.len().max(3 + description::PLACES), u32::MAX);
    words.into()
}

/// All types of an engine.
#[derive(Default)]
pub(crate) struct Registry {
    entries: Vec<Entry>,
    groups: HashMap<Vec<SubType>, Number>,
}

impl Registry {
    pub(crate) fn get(&self, number: Number) -> &Entry {
        &self.entries[number as usize]
    }

    /// The number of the first type of a group. References within the group have `WITHIN` set ([`within`]).
    /// `register` makes the heap's type for a layout.
    pub(crate) fn intern<E>(
        &mut self,
        group: Vec<SubType>,
        slot_bytes: u32,
        register: &mut dyn FnMut(&Layout, *const u32) -> Result<TypeId, E>,
    ) -> Result<Number, E> {
        if let Some(&first) = self.groups.get(&group) {
            return Ok(first);
        }
        let first = self.entries.len() as Number;
        for (index, sub) in group.iter().enumerate() {
            let is_function = |heap: HeapType| match heap {
                HeapType::Concrete(number) if number >= first => {
                    matches!(
                        group[(number - first) as usize].composite,
                        Composite::Func(_)
                    )
                }
                _ => self.is_function(heap),
            };
            let form = Form {
                slot_bytes,
                is_function: &is_function,
            };
            let entry = self.entry(first, index as Number, sub.clone(), form, register)?;
            self.entries.push(entry);
        }
        self.groups.insert(group, first);
        Ok(first)
    }

    fn entry<E>(
        &self,
        first: Number,
        index: Number,
        sub: SubType,
        form: Form<'_>,
        register: &mut dyn FnMut(&Layout, *const u32) -> Result<TypeId, E>,
    ) -> Result<Entry, E> {
        let sub = sub.resolved(first);
        let number = first + index;
        let mut display = sub
            .supertype
            .map_or_else(Vec::new, |of| self.get(of).display.clone());
        display.push(number);
        let (kind, layout) = match &sub.composite {
            Composite::Func(_) => (Kind::Func, None),
            Composite::Struct(fields) => (Kind::Struct, Some(Layout::structure(fields, form))),
            Composite::Array(element) => (Kind::Array, Some(Layout::array(element, form))),
        };
        let description = describe(kind, number, &display);
        let heap = layout
            .as_ref()
            .map(|layout| register(layout, description.as_ptr()))
            .transpose()?;
        Ok(Entry {
            sub,
            display,
            layout,
            heap,
            description,
        })
    }

    /// Whether each value of `one` is a value of `other`.
    pub(crate) fn is_heap_subtype(&self, one: HeapType, other: HeapType) -> bool {
        use HeapType::{
            Any, Array, Concrete, Eq, Exn, Extern, Func, I31, NoExn, NoExtern, NoFunc, None, Struct,
        };
        match (one, other) {
            _ if one == other => true,
            (Concrete(one), Concrete(other)) => self.get(one).display.contains(&other),
            (Concrete(one), _) => match self.get(one).sub.composite {
                Composite::Func(_) => other == Func,
                Composite::Struct(_) => matches!(other, Any | Eq | Struct),
                Composite::Array(_) => matches!(other, Any | Eq | Array),
            },
            (None, Concrete(other)) => !matches!(self.get(other).sub.composite, Composite::Func(_)),
            (NoFunc, Concrete(other)) => {
                matches!(self.get(other).sub.composite, Composite::Func(_))
            }
            (None, Any | Eq | I31 | Struct | Array)
            | (NoFunc, Func)
            | (NoExtern, Extern)
            | (NoExn, Exn) => true,
            (I31 | Struct | Array, Eq | Any) | (Eq, Any) => true,
            _ => false,
        }
    }

    /// Whether each value of `one` is a value of `other`.
    pub(crate) fn is_subtype(&self, one: ValType, other: ValType) -> bool {
        match (one, other) {
            (ValType::Ref(one), ValType::Ref(other)) => {
                (other.nullable || !one.nullable) && self.is_heap_subtype(one.heap, other.heap)
            }
            _ => one == other,
        }
    }

    /// Whether values of the type are functions, which are no objects of the heap.
    pub(crate) fn is_function(&self, heap: HeapType) -> bool {
        match heap {
            HeapType::Func | HeapType::NoFunc => true,
            HeapType::Concrete(number) => {
                matches!(self.get(number).sub.composite, Composite::Func(_))
            }
            _ => false,
        }
    }

    /// Whether the collector has to know where values of the type are.
    pub(crate) fn is_managed(&self, ty: ValType) -> bool {
        matches!(ty, ValType::Ref(of) if !self.is_function(of.heap))
    }
}
