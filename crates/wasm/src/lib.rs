//! WebAssembly with garbage collection, on Gleaner's precise heap.
//!
//! An [`Engine`] decodes, validates and compiles modules of WebAssembly 3.0 for x86-64 Linux, and runs their instances on a
//! heap of its own. Structures and arrays are objects of that heap: compiled code allocates them inline, and tells the
//! collector of its references by stack maps.
//!
//! Vectors, 64-bit memories and threads are refused when a module is loaded.
//!
//! ```
//! use gleaner_wasm::{Engine, Extern, Value};
//!
//! // (module (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))
//! let bytes = b"\0asm\x01\0\0\0\x01\x07\x01\x60\x02\x7f\x7f\x01\x7f\x03\x02\x01\0\x07\x07\x01\x03add\0\0\
//!     \x0a\x09\x01\x07\0\x20\0\x20\x01\x6a\x0b";
//! let mut engine = Engine::new(gleaner::Heap::builder().limit(16 << 20), false).unwrap();
//! let module = engine.load(bytes).unwrap();
//! let instance = engine.instantiate(&module, &|_, _| None).unwrap();
//! let Some(Extern::Function(add)) = engine.export(instance, "add") else { panic!() };
//! let sum = engine.call(add, &[Value::I32(20), Value::I32(22)]).unwrap();
//! assert!(matches!(sum[..], [Value::I32(42)]));
//! ```

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "gleaner-wasm makes code for x86-64 only: elsewhere, build the command without its feature `wasm`"
);

mod builtin;
mod check;
mod code;
mod code_memory;
mod compile;
mod constants;
mod context;
mod decode;
mod engine;
mod error;
mod frames;
mod instance;
mod instantiate;
mod layout;
mod lazy;
mod module;
mod registry;
mod runtime;
mod settings;
mod stack;
mod state;
mod storage;
mod thrown;
mod trampolines;
mod translate;
mod types;
mod values;
pub mod wasi;
mod words;

pub use error::{EngineError, InstantiateError, LoadError, Thrown, Trap, TrapKind};
pub use instance::{Extern, InstanceId};
pub use settings::{Compilation, Compile, Settings};
pub use state::{Engine, HostBody, Module};
pub use types::{HeapType, RefType, Signature, ValType};
pub use values::{Function, Object, ObjectKind, Value};
