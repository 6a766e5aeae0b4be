//! Types as a module declares them, with canonical numbers for those that it defines.

/// The canonical number of a type.
pub(crate) type Number = u32;

/// In the text of a recursion group: the number counts from the start of the group.
const WITHIN: Number = 1 << 31;

/// What a reference refers to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HeapType {
    /// Anything within the program.
    Any,
    /// What can be compared.
    Eq,
    /// An integer of 31 bits.
    I31,
    /// Any structure.
    Struct,
    /// Any array.
    Array,
    /// Nothing within the program.
    None,
    /// Any function.
    Func,
    /// No function.
    NoFunc,
    /// What a host gave.
    Extern,
    /// Nothing that a host gave.
    NoExtern,
    /// An exception.
    Exn,
    /// No exception.
    NoExn,
    /// The type with this canonical number.
    Concrete(u32),
}

/// The type of a reference.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RefType {
    /// Whether it may be null.
    pub nullable: bool,
    /// What it refers to.
    pub heap: HeapType,
}

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ValType {
    /// An integer of 32 bits.
    I32,
    /// An integer of 64 bits.
    I64,
    /// A number of 32 bits.
    F32,
    /// A number of 64 bits.
    F64,
    /// A reference.
    Ref(RefType),
}

/// The type of a field or an element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Storage {
    I8,
    I16,
    /// 16 bytes, in structures alone: no instruction makes or takes a vector but those that copy fields.
    V128,
    Val(ValType),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Field {
    pub(crate) storage: Storage,
    pub(crate) mutable: bool,
}

/// Parameters and results of a function.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Signature {
    /// What it takes.
    pub params: Vec<ValType>,
    /// What it returns.
    pub results: Vec<ValType>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Composite {
    Func(Signature),
    Struct(Vec<Field>),
    Array(Field),
}

/// A type of a recursion group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SubType {
    pub(crate) is_final: bool,
    pub(crate) supertype: Option<Number>,
    pub(crate) composite: Composite,
}

/// Type `index` of the group that is being written.
pub(crate) fn within(index: u32) -> Number {
    index | WITHIN
}

impl SubType {
    /// The same with canonical numbers, where the first type of its group has this one.
    pub(crate) fn resolved(self, first: Number) -> SubType {
        let number = |number: Number| {
            if number & WITHIN != 0 {
                first + (number & !WITHIN)
            } else {
                number
            }
        };
        let val = |ty: ValType| match ty {
            ValType::Ref(RefType {
                nullable,
                heap: HeapType::Concrete(of),
            }) => ValType::Ref(RefType {
                nullable,
                heap: HeapType::Concrete(number(of)),
            }),
            other => other,
        };
        let field = |field: Field| match field.storage {
            Storage::Val(ty) => Field {
                storage: Storage::Val(val(ty)),
                ..field
            },
            _ => field,
        };
        SubType {
            is_final: self.is_final,
            supertype: self.supertype.map(number),
            composite: match self.composite {
                Composite::Func(Signature { params, results }) => Composite::Func(Signature {
                    params: params.into_iter().map(val).collect(),
                    results: results.into_iter().map(val).collect(),
                }),
                Composite::Struct(fields) => {
                    Composite::Struct(fields.into_iter().map(field).collect())
                }
                Composite::Array(element) => Composite::Array(field(element)),
            },
        }
    }
}
