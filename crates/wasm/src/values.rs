//! Values as the host sees them.

use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;

use gleaner::raw::Value as Slot;
use gleaner::{Handle, Mutator};

use crate::context::FuncRecord;

/// An object of the heap, an integer of 31 bits, or a value of the host, which the engine keeps alive as long as this exists.
#[derive(Clone)]
pub struct Object(Rc<Handle>);

impl Object {
    /// Keeps what has these bits; `None` if the heap has no more handles.
    pub(crate) fn new(mutator: &mut Mutator, bits: u64) -> Option<Object> {
        // SAFETY: callers have the bits of a reference that is valid now.
        let handle = unsafe { mutator.handle_raw(Slot::from_bits(bits)) };
        handle.map(|handle| Object(Rc::new(handle)))
    }

    /// The reference, until the engine next runs or allocates.
    pub(crate) fn bits(&self) -> u64 {
        self.0.get_raw().bits()
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Object")
    }
}

/// A function of an engine, by its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function(pub(crate) NonNull<FuncRecord>);

impl Function {
    pub(crate) fn record(self) -> FuncRecord {
        // SAFETY: records exist as long as their engine, and a function is used with its engine alone.
        unsafe { self.0.read() }
    }
}

/// A value. Numbers with a point are given by their bits, so that each NaN stays what it is.
#[derive(Clone, Debug)]
pub enum Value {
    /// An integer of 32 bits.
    I32(i32),
    /// An integer of 64 bits.
    I64(i64),
    /// The bits of a number of 32 bits.
    F32(u32),
    /// The bits of a number of 64 bits.
    F64(u64),
    /// The null reference of any type.
    Null,
    /// A reference to a function.
    Function(Function),
    /// A reference to anything else.
    Object(Object),
}

impl Value {
    /// What compiled code has for it, in 8 bytes.
    pub(crate) fn bits(&self) -> u64 {
        match self {
            Value::I32(number) => u64::from(*number as u32),
            Value::I64(number) => *number as u64,
            Value::F32(bits) => u64::from(*bits),
            Value::F64(bits) => *bits,
            Value::Null => 0,
            Value::Function(function) => function.0.as_ptr() as u64,
            Value::Object(object) => object.bits(),
        }
    }
}

/// What an [`Object`] is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectKind {
    /// An integer.
    I31(i32),
    /// A structure.
    Struct,
    /// An array.
    Array,
    /// A value of the host, by its number.
    Host(u64),
    /// An exception.
    Exception,
}
