//! Values as the host sees them.

use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use gleaner::raw::Value as Slot;
use gleaner::{Handle, Mutator};

use crate::context::FuncRecord;

/// The number of an engine, which no other engine of this process has, nor had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EngineId(u64);

impl EngineId {
    /// Of a new engine.
    pub(crate) fn next() -> EngineId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        EngineId(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// # Panics
    /// If what belongs to `owner` is used with this engine, and that is another one.
    pub(crate) fn check(self, owner: EngineId, what: &str) {
        assert!(self == owner, "{what} of another engine is used");
    }
}

/// An object of the heap, an integer of 31 bits, or a value of the host, which the engine keeps alive as long as this exists.
/// To use it with another engine is a panic.
#[derive(Clone)]
pub struct Object {
    handle: Rc<Handle>,
    owner: EngineId,
}

impl Object {
    /// Keeps what has these bits; `None` if the heap has no more handles.
    pub(crate) fn new(mutator: &mut Mutator, owner: EngineId, bits: u64) -> Option<Object> {
        // SAFETY: callers have the bits of a reference that is valid now.
        let handle = unsafe { mutator.handle_raw(Slot::from_bits(bits)) };
        handle.map(|handle| Object {
            handle: Rc::new(handle),
            owner,
        })
    }

    /// The reference, until the engine next runs or allocates.
    pub(crate) fn bits(&self) -> u64 {
        self.handle.get_raw().bits()
    }

    /// The engine that it belongs to.
    pub(crate) fn owner(&self) -> EngineId {
        self.owner
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Object")
    }
}

/// A function of an engine, by its record. To use it with another engine is a panic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    pub(crate) place: NonNull<FuncRecord>,
    pub(crate) owner: EngineId,
}

impl Function {
    /// What the engine has of it.
    ///
    /// # Panics
    /// If it is a function of another engine.
    pub(crate) fn record(self, engine: EngineId) -> FuncRecord {
        engine.check(self.owner, "a function");
        // SAFETY: records exist as long as their engine, which is this one.
        unsafe { self.place.read() }
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
            Value::Function(function) => function.place.as_ptr() as u64,
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
