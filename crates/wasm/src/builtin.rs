//! What compiled code calls: the functions of the runtime by name, with what they take and return. They take the context
//! first.

use cranelift_codegen::ir::{AbiParam, Signature, Type, types};
use cranelift_codegen::isa::CallConv;

/// Declares the builtins: what compiled code passes behind the context, and what it gets.
macro_rules! builtins {
    ($($(#[$doc:meta])* $name:ident($($param:ident),*) $(-> $result:ident)?;)+) => {
        /// A function of the runtime.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub(crate) enum Builtin { $($(#[$doc])* $name,)+ }

        impl Builtin {
            /// All, in the order of their numbers.
            pub(crate) const ALL: &'static [Builtin] = &[$(Builtin::$name),+];

            fn types(self) -> (&'static [Type], &'static [Type]) {
                match self { $(Builtin::$name => (&[$(types::$param),*], &[$(types::$result)?]),)+ }
            }
        }
    };
}

builtins! {
    /// Traps: kind, and place in the module.
    Trap(I32, I32);
    /// Throws an exception.
    Throw(I64);
    /// Calls a host function with a buffer of values.
    CallHost(I64);
    /// A structure: type of the heap, bytes. Its fields hold anything.
    Allocate(I32, I32) -> I64;
    /// An array: type, the bits of each element, length.
    ArrayNew(I32, I64, I32) -> I64;
    /// An array of zeros or nulls: type, length.
    ArrayNewDefault(I32, I32) -> I64;
    /// An array of numbers: type, data segment, offset there, length.
    ArrayNewData(I32, I32, I32, I32) -> I64;
    /// An array of references: type, element segment, index there, length.
    ArrayNewElement(I32, I32, I32, I32) -> I64;
    /// Fills: type, array, index, bits, count.
    ArrayFill(I32, I64, I32, I64, I32);
    /// Copies: to, index, from, index, count.
    ArrayCopy(I64, I32, I64, I32, I32);
    /// Copies numbers into an array: type, data segment, array, index, offset in the segment, count.
    ArrayInitData(I32, I32, I64, I32, I32, I32);
    /// Copies references into an array: type, element segment, array, index, index in the segment, count.
    ArrayInitElement(I32, I32, I64, I32, I32, I32);
    /// Grows a memory by so many pages: the pages it had, or -1.
    MemoryGrow(I32, I32) -> I32;
    /// Fills: memory, start, byte, count.
    MemoryFill(I32, I32, I32, I32);
    /// Copies: to memory, start, from memory, start, count.
    MemoryCopy(I32, I32, I32, I32, I32);
    /// Copies from a data segment: memory, segment, start, offset in the segment, count.
    MemoryInit(I32, I32, I32, I32, I32);
    /// Drops a data segment.
    DataDrop(I32);
    /// Grows a table: table, value, count: the elements it had, or -1.
    TableGrow(I32, I64, I32) -> I32;
    /// Fills: table, start, value, count.
    TableFill(I32, I32, I64, I32);
    /// Copies: to table, start, from table, start, count.
    TableCopy(I32, I32, I32, I32, I32);
    /// Copies from an element segment: table, segment, start, index in the segment, count.
    TableInit(I32, I32, I32, I32, I32);
    /// Drops an element segment.
    ElementDrop(I32);
}

impl Builtin {
    /// How compiled code calls it: the context first.
    pub(crate) fn signature(self) -> Signature {
        let (params, results) = self.types();
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params.push(AbiParam::new(types::I64));
        signature
            .params
            .extend(params.iter().copied().map(AbiParam::new));
        signature
            .returns
            .extend(results.iter().copied().map(AbiParam::new));
        signature
    }
}
