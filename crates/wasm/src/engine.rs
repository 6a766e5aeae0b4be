//! The engine as the host uses it: it is made, loads modules, and is called.

use std::collections::HashMap;
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use gleaner::raw::{Fresh, NewObject, Record, Shape};
use gleaner::{Builder, OutsideLayout};

use crate::builtin::Builtin;
use crate::code::CodeMap;
use crate::code_memory::CodeMemory;
use crate::compile::Compiler;
use crate::context::FuncRecord;
use crate::decode;
use crate::error::{EngineError, LoadError, Trap, TrapKind};
use crate::frames::{self, Activation};
use crate::registry::{Kind, Registry, describe};
use crate::runtime::stubs;
use crate::settings::{Compilation, Compile, MOST_CODE_BYTES, Settings};
use crate::state::{Ending, Engine, Module, State};
use crate::translate::Target;
use crate::types::Signature;
use crate::values::{EngineId, Function, Object, ObjectKind, Value};

/// So many bytes of the stack stay free below compiled code: for the frame of one function and for the runtime.
const STACK_RESERVE: usize = 256 << 10;

impl Engine {
    /// An engine on a heap with these options. With `checks` each function is verified when it is compiled: by the rules of
    /// the code generator, and by the proof that no reference is out of sight of the collector across a call.
    pub fn new(heap: Builder, checks: bool) -> Result<Engine, EngineError> {
        let settings = Settings {
            checks,
            ..Settings::default()
        };
        Engine::with_settings(heap, settings)
    }

    /// An engine on a heap with these options, which compiles as the settings say.
    pub fn with_settings(heap: Builder, settings: Settings) -> Result<Engine, EngineError> {
        let heap = heap
            .outside_layout(OutsideLayout::Followed)
            .build()
            .map_err(EngineError::Heap)?;
        let memory = CodeMemory::new(settings.code_limit.min(MOST_CODE_BYTES));
        let code = Box::new(CodeMap::new(memory));
        // SAFETY: the map outlives the heap's collections, which end with its only mutator.
        unsafe { heap.set_root_visitor(Some(frames::root_visitor(&raw const *code))) };
        let full = |error: &dyn fmt::Display| EngineError::Full(error.to_string());
        let mut mutator = heap.attach().map_err(|error| full(&error))?;
        let record = NonNull::new(mutator.published()).expect("an attached mutator has a record");
        let target = Target {
            fast: heap.fast_paths(),
            stack_limit: Box::new(stack_start() + STACK_RESERVE),
            builtins: Builtin::ALL
                .iter()
                .map(|&builtin| stubs::address(builtin))
                .collect(),
        };
        let host_description = describe(Kind::Host, u32::MAX, &[]);
        let shape = Shape::Structure {
            bytes: 16,
            references: &[],
        };
        let host_type = heap.register_raw(shape).map_err(|error| full(&error))?;
        heap.set_type_data(host_type, host_description.as_ptr().cast_mut().cast());
        let state = State {
            id: EngineId::next(),
            mutator,
            record,
            heap,
            registry: Registry::default(),
            exceptions: HashMap::new(),
            host_type,
            descriptions: vec![host_description],
            code,
            compiler: Compiler::new(settings.checks)?,
            settings,
            modules: Vec::new(),
            functions: 0,
            compiled: 0,
            target,
            instances: Vec::new(),
            memories: Vec::new(),
            tables: Vec::new(),
            globals: Vec::new(),
            tags: Vec::new(),
            hosts: Vec::new(),
            host_contexts: Vec::new(),
            host_records: Vec::new(),
            entries: HashMap::new(),
            exits: HashMap::new(),
            ending: None,
        };
        Ok(Engine(NonNull::from(Box::leak(Box::new(state)))))
    }

    /// Decodes and validates a module, and compiles its functions if that is not left to their first calls.
    pub fn load(&mut self, bytes: &[u8]) -> Result<Module, LoadError> {
        let state = self.state();
        let declarations = decode::decode(bytes, &mut |group| state.intern(group))?;
        for &number in &declarations.tags {
            state.exception_type(number)?;
        }
        let declarations = Arc::new(declarations);
        let loaded = match state.settings.compile {
            Compile::Lazy => state.load_lazily(bytes, &declarations)?,
            Compile::Eager => state.load_eagerly(bytes, &declarations)?,
        };
        state.functions += declarations.bodies.len();
        Ok(Module(loaded))
    }

    /// A function of the host that modules can import.
    pub fn host_function(
        &mut self,
        signature: Signature,
        body: impl Fn(&mut Engine, &[Value]) -> Result<Vec<Value>, Trap> + 'static,
    ) -> Result<Function, LoadError> {
        self.state().new_host(signature, Rc::new(body))
    }

    /// A reference that stands for a value of the host, by a number that the host chooses.
    pub fn host_object(&mut self, number: u64) -> Result<Object, Trap> {
        let state = self.state();
        let new = NewObject::structure(state.host_type, 16);
        let full = || Trap::outside(TrapKind::OutOfMemory);
        // SAFETY: a structure of 16 bytes, whose field is written at once.
        let object = unsafe {
            let object = state
                .mutator
                .allocate_raw(new, Fresh::Unwritten)
                .map_err(|_| full())?;
            object.add(8).ptr::<u64>().write(number);
            object
        };
        Object::new(&mut state.mutator, state.id, object.word() as u64).ok_or_else(full)
    }

    /// What an object is.
    ///
    /// # Panics
    /// If it is an object of another engine.
    pub fn kind_of(&self, object: &Object) -> ObjectKind {
        self.state_ref().kind(object).0
    }

    /// What was compiled so far.
    pub fn compilation(&self) -> Compilation {
        let state = self.state_ref();
        Compilation {
            functions: state.functions,
            compiled: state.compiled,
            time: state.compiler.time(),
        }
    }

    /// Collects everything.
    pub fn collect(&mut self) {
        self.state().mutator.collect(true);
    }

    /// Calls a function of this engine.
    ///
    /// # Panics
    /// If the function or an argument belongs to another engine, or if a host function that it calls panics.
    pub fn call(&mut self, function: Function, arguments: &[Value]) -> Result<Vec<Value>, Trap> {
        let state = self.state();
        let record = function.record(state.id);
        let signature = state.registry.get(record.number).signature().clone();
        state.check_values("the call has", arguments, &signature.params)?;
        let words = signature.params.len().max(signature.results.len());
        let mut buffer = vec![0; words];
        for (place, argument) in buffer.iter_mut().zip(arguments) {
            *place = argument.bits();
        }
        self.enter(record, &mut buffer)?;
        let state = self.state();
        let results = signature.results.iter().zip(&buffer);
        results.map(|(&ty, &bits)| state.value(ty, bits)).collect()
    }

    /// Calls code of a function type with a buffer for arguments and results.
    pub(crate) fn enter(&mut self, record: FuncRecord, buffer: &mut [u64]) -> Result<(), Trap> {
        let state = self.state();
        let trampoline = state
            .entry(record.number)
            .map_err(|error| Trap::Host(error.to_string()))?;
        let mutator: *const Record = state.record();
        // SAFETY: the trampoline is one for the type of the code, and the buffer has room for its values. The activation
        // lies here until the entry ends. Nothing borrows the state while compiled code runs.
        let left = unsafe {
            let mut activation = Activation::begin(&*mutator);
            let place = &raw mut activation;
            (*mutator).embedder.set(place.cast());
            let left = frames::enter(
                trampoline,
                record.context,
                buffer.as_mut_ptr(),
                mutator,
                place,
                record.code,
            );
            place.read().end(&*mutator);
            left
        };
        if left == 0 {
            return Ok(());
        }
        match self
            .state()
            .ending
            .take()
            .expect("who leaves compiled code says why")
        {
            Ending::Trap(trap) => Err(trap),
            Ending::Panic(payload) => std::panic::resume_unwind(payload),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if !self.state().record().embedder.get().is_null() {
            // A host function took the engine that called it, and compiled code goes on when it returns.
            return;
        }
        // SAFETY: the state was leaked when the engine was made, and compiled code does not run any more.
        let state = unsafe { Box::from_raw(self.0.as_ptr()) };
        let State { mutator, heap, .. } = *state;
        drop(mutator);
        // SAFETY: without a visitor nothing is visited. Objects that the host still holds keep the heap, whose roots in
        // compiled code are gone.
        unsafe { heap.set_root_visitor(None) };
    }
}

/// Where the stack of this thread begins: its lowest address.
fn stack_start() -> usize {
    // SAFETY: the attributes are those of this thread, and are written before they are read.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let (mut start, mut bytes) = (std::ptr::null_mut(), 0);
        let read = libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes);
        assert!(
            read == 0,
            "the system does not say where this thread's stack is"
        );
        libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut bytes);
        libc::pthread_attr_destroy(&raw mut attributes);
        start as usize
    }
}
