//! The state of an engine: its heap with the only mutator, the types and code of all modules, and the instances.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use gleaner::raw::{Record, TypeId};
use gleaner::{Heap, Mutator, TypeError};

use crate::builtin::Builtin;
use crate::code::CodeMap;
use crate::compile::{Compiled, Compiler};
use crate::context::{ContextLayout, FuncRecord};
use crate::error::{LoadError, Trap, TrapKind};
use crate::instance::Instance;
use crate::layout::{Form, Layout};
use crate::module::Declarations;
use crate::registry::{Kind, Registry, describe, description};
use crate::settings::Settings;
use crate::storage::{Global, Memory, Table};
use crate::trampolines;
use crate::translate::{self, Environment, ExceptionType, Target};
use crate::types::{
    Composite, Field, HeapType, Number, RefType, Signature, Storage, SubType, ValType,
};
use crate::values::{EngineId, Function, Object, ObjectKind, Value};

/// How compiled code was left without a return.
pub(crate) enum Ending {
    Trap(Trap),
    /// A host function panicked.
    Panic(Box<dyn std::any::Any + Send>),
}

/// A module that was loaded: decoded, validated and compiled. It belongs to the engine that loaded it.
#[derive(Clone)]
pub struct Module(pub(crate) Rc<Loaded>);

impl fmt::Debug for Module {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Module")
            .field("imports", &self.0.declarations.imports.len())
            .finish_non_exhaustive()
    }
}

impl Module {
    /// What it imports: the names of module and item, in order.
    pub fn imports(&self) -> impl Iterator<Item = (&str, &str)> {
        let imports = self.0.declarations.imports.iter();
        imports.map(|import| (import.module.as_str(), import.name.as_str()))
    }
}

pub(crate) struct Loaded {
    /// The engine that loaded it.
    pub(crate) owner: EngineId,
    pub(crate) declarations: Arc<Declarations>,
    /// Where the code of the module's own functions lies, or that of their stubs. Changed by [`crate::lazy`] alone, on the
    /// engine's thread.
    pub(crate) functions: Box<[Cell<*const u8>]>,
    /// What functions are compiled from when they are first called; `None` if all were compiled when the module was loaded.
    pub(crate) source: Option<Source>,
}

/// What functions that are not compiled yet are compiled from. Fields that change belong to the engine's thread.
pub(crate) struct Source {
    /// The engine's, which stays where it is.
    pub(crate) state: *mut State,
    /// The bodies of all functions, one behind the other, as they lie in the module.
    pub(crate) bodies: Box<[u8]>,
    /// Where the first of them begins in the module.
    pub(crate) start: usize,
    /// Where the stubs lie.
    pub(crate) stubs: Cell<*const u8>,
    /// The instances, by their numbers in the engine.
    pub(crate) instances: RefCell<Vec<usize>>,
}

impl Source {
    /// The body of a function.
    pub(crate) fn body(&self, range: &std::ops::Range<usize>) -> &[u8] {
        &self.bodies[range.start - self.start..range.end - self.start]
    }
}

/// What a host function does.
pub type HostBody = dyn Fn(&mut Engine, &[Value]) -> Result<Vec<Value>, Trap>;

#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) signature: Rc<Signature>,
    pub(crate) body: Rc<HostBody>,
}

/// What an engine has.
///
/// # Invariants
/// - It stays where it is: contexts lead to it.
/// - Compiled code reaches it through contexts. So nothing borrows it while compiled code is entered.
pub(crate) struct State {
    pub(crate) id: EngineId,
    pub(crate) mutator: Mutator,
    pub(crate) record: NonNull<Record>,
    pub(crate) heap: Heap,
    pub(crate) registry: Registry,
    pub(crate) exceptions: HashMap<Number, ExceptionType>,
    pub(crate) host_type: TypeId,
    /// Of the types that are no types of WebAssembly.
    pub(crate) descriptions: Vec<Box<[u32]>>,
    // The heap's root visitor knows the map by its address.
    pub(crate) code: Box<CodeMap>,
    pub(crate) compiler: Compiler,
    pub(crate) settings: Settings,
    /// All modules with stubs, which lead to them.
    pub(crate) modules: Vec<Rc<Loaded>>,
    /// Of all modules that were loaded.
    pub(crate) functions: usize,
    /// Those of them that were compiled.
    pub(crate) compiled: usize,
    pub(crate) target: Target,
    pub(crate) instances: Vec<Instance>,
    pub(crate) memories: Vec<Memory>,
    pub(crate) tables: Vec<Table>,
    pub(crate) globals: Vec<Global>,
    /// The types of tags, by their numbers in the engine.
    pub(crate) tags: Vec<Number>,
    pub(crate) hosts: Vec<Host>,
    /// Of host functions: what their code takes first.
    pub(crate) host_contexts: Vec<Box<[u64]>>,
    /// Of host functions.
    pub(crate) host_records: Vec<Box<[FuncRecord]>>,
    pub(crate) entries: HashMap<Number, *const u8>,
    pub(crate) exits: HashMap<Number, *const u8>,
    pub(crate) ending: Option<Ending>,
}

impl State {
    pub(crate) fn record(&self) -> &Record {
        // SAFETY: the mutator's record exists as long as the mutator does. The collector changes its cells only while this
        // thread is in a call of the heap.
        unsafe { self.record.as_ref() }
    }

    /// The number of a function type that stands alone.
    pub(crate) fn function_type(&mut self, signature: Signature) -> Result<Number, LoadError> {
        let sub = SubType {
            is_final: true,
            supertype: None,
            composite: Composite::Func(signature),
        };
        self.intern(vec![sub])
    }

    pub(crate) fn intern(&mut self, group: Vec<SubType>) -> Result<Number, LoadError> {
        let slot_bytes = self.target.fast.slot_bytes;
        let heap = &self.heap;
        let number = self
            .registry
            .intern(group, slot_bytes, &mut |layout, description| {
                register(heap, layout, description)
                    .map_err(|error| LoadError::TooLarge(error.to_string()))
            })?;
        Ok(number)
    }

    /// Makes the type of the objects that hold what a tag of this type carries.
    pub(crate) fn exception_type(&mut self, number: Number) -> Result<(), LoadError> {
        if self.exceptions.contains_key(&number) {
            return Ok(());
        }
        let field = |ty| Field {
            storage: Storage::Val(ty),
            mutable: false,
        };
        let params = &self.registry.get(number).signature().params;
        let fields: Vec<Field> = std::iter::once(ValType::I64)
            .chain(params.iter().copied())
            .map(field)
            .collect();
        let registry = &self.registry;
        let is_function = |heap: HeapType| registry.is_function(heap);
        let form = Form {
            slot_bytes: self.target.fast.slot_bytes,
            is_function: &is_function,
        };
        let layout = Layout::structure(&fields, form);
        let description = describe(Kind::Exception, u32::MAX, &[]);
        let heap = register(&self.heap, &layout, description.as_ptr());
        let heap = heap.map_err(|error| LoadError::TooLarge(error.to_string()))?;
        self.descriptions.push(description);
        self.exceptions
            .insert(number, ExceptionType { heap, layout });
        Ok(())
    }

    /// A new tag: its number in the engine.
    pub(crate) fn new_tag(&mut self, number: Number) -> usize {
        self.tags.push(number);
        self.tags.len() - 1
    }

    /// The compiler, and what the functions of a module are translated with.
    pub(crate) fn compiler_of<'a>(
        &'a mut self,
        declarations: &'a Declarations,
    ) -> (&'a mut Compiler, Environment<'a>) {
        let environment = Environment {
            declarations,
            registry: &self.registry,
            exceptions: &self.exceptions,
            target: &self.target,
            context: ContextLayout::new(declarations, self.settings.compile),
            frontend: self.compiler.frontend(),
        };
        (&mut self.compiler, environment)
    }

    /// A module whose functions are compiled now.
    pub(crate) fn load_eagerly(
        &mut self,
        bytes: &[u8],
        declarations: &Arc<Declarations>,
    ) -> Result<Rc<Loaded>, LoadError> {
        let mut functions = Vec::new();
        for (own, range) in declarations.bodies.iter().enumerate() {
            let compiled = self.compile_function(declarations, own, &bytes[range.clone()])?;
            let index = declarations.imported_funcs + own;
            functions.push((Some(index as u32), compiled));
        }
        let addresses = self.code.add(&functions, Some(declarations))?;
        Ok(Rc::new(Loaded {
            owner: self.id,
            declarations: Arc::clone(declarations),
            functions: addresses.into_iter().map(Cell::new).collect(),
            source: None,
        }))
    }

    /// Compiles one of the module's own functions from its body.
    pub(crate) fn compile_function(
        &mut self,
        declarations: &Declarations,
        own: usize,
        body: &[u8],
    ) -> Result<Compiled, LoadError> {
        let index = (declarations.imported_funcs + own) as u32;
        let name = || declarations.function_name(index);
        let start = declarations.bodies[own].start;
        let (compiler, environment) = self.compiler_of(declarations);
        let compiled = compiler.compile(&name, |into, scratch| {
            translate::function(&environment, index, (body, start), into, scratch)
        })?;
        self.compiled += 1;
        Ok(compiled)
    }

    /// The trampoline by which the host calls functions of a type.
    pub(crate) fn entry(&mut self, number: Number) -> Result<*const u8, LoadError> {
        if let Some(&entry) = self.entries.get(&number) {
            return Ok(entry);
        }
        let signature = self.registry.get(number).signature();
        let frontend = self.compiler.frontend();
        let name = || "the entry of a function type".to_string();
        let compiled = self.compiler.compile(&name, |into, scratch| {
            Ok(trampolines::entry(signature, frontend, into, scratch))
        })?;
        let address = self.place(compiled)?;
        self.entries.insert(number, address);
        Ok(address)
    }

    /// The code by which compiled code calls host functions of a type.
    fn exit(&mut self, number: Number) -> Result<*const u8, LoadError> {
        if let Some(&exit) = self.exits.get(&number) {
            return Ok(exit);
        }
        let signature = self.registry.get(number).signature();
        let frontend = self.compiler.frontend();
        let call_host = self.target.builtins[Builtin::CallHost as usize];
        let name = || "the exit of a function type".to_string();
        let compiled = self.compiler.compile(&name, |into, scratch| {
            Ok(trampolines::exit(
                signature, call_host, frontend, into, scratch,
            ))
        })?;
        let address = self.place(compiled)?;
        self.exits.insert(number, address);
        Ok(address)
    }

    fn place(&mut self, compiled: Compiled) -> Result<*const u8, LoadError> {
        Ok(self.code.add(&[(None, compiled)], None)?[0])
    }

    pub(crate) fn new_host(
        &mut self,
        signature: Signature,
        body: Rc<HostBody>,
    ) -> Result<Function, LoadError> {
        let number = self.function_type(signature.clone())?;
        let code = self.exit(number)?;
        let context: Box<[u64]> =
            Box::new([std::ptr::from_mut(self) as u64, self.hosts.len() as u64]);
        self.hosts.push(Host {
            signature: Rc::new(signature),
            body,
        });
        let description = self.registry.get(number).description();
        let record = FuncRecord {
            code,
            context: context.as_ptr(),
            number,
            description,
        };
        let mut records: Box<[FuncRecord]> = Box::new([record]);
        let function = NonNull::from(&mut records[0]);
        self.host_contexts.push(context);
        self.host_records.push(records);
        Ok(self.function(function))
    }

    // --- values ----------------------------------------------------------------------------------------------------

    /// What has these bits, as the host sees it. It is kept alive.
    pub(crate) fn value(&mut self, ty: ValType, bits: u64) -> Result<Value, Trap> {
        Ok(match ty {
            ValType::I32 => Value::I32(bits as i32),
            ValType::I64 => Value::I64(bits as i64),
            ValType::F32 => Value::F32(bits as u32),
            ValType::F64 => Value::F64(bits),
            ValType::Ref(_) if bits == 0 => Value::Null,
            ValType::Ref(of) if self.registry.is_function(of.heap) => Value::Function(
                self.function(NonNull::new(bits as *mut FuncRecord).expect("it is not null")),
            ),
            ValType::Ref(_) => {
                let object = Object::new(&mut self.mutator, self.id, bits);
                Value::Object(object.ok_or_else(|| Trap::outside(TrapKind::OutOfMemory))?)
            }
        })
    }

    /// A function of this engine.
    pub(crate) fn function(&self, place: NonNull<FuncRecord>) -> Function {
        Function {
            place,
            owner: self.id,
        }
    }

    /// What a function of this engine takes.
    pub(crate) fn params(&self, function: Function) -> &[ValType] {
        let number = function.record(self.id).number;
        &self.registry.get(number).signature().params
    }

    /// What an object is, and the number of its type if that is one of WebAssembly.
    ///
    /// # Panics
    /// If it is an object of another engine.
    pub(crate) fn kind(&self, object: &Object) -> (ObjectKind, Option<Number>) {
        self.id.check(object.owner(), "an object");
        let bits = object.bits();
        if bits & 1 == 1 {
            return (ObjectKind::I31(bits as u32 as i32 >> 1), None);
        }
        let address = gleaner::raw::Address::new(bits as usize);
        // SAFETY: a handle keeps a valid object, whose type has a description of such words.
        unsafe {
            let of = self.mutator.type_raw(address);
            let words: *const u32 = self.heap.type_data(of).cast::<u32>();
            let (kind, number) = (*words, *words.add(description::NUMBER as usize / 4));
            match kind {
                _ if kind == Kind::Struct as u32 => (ObjectKind::Struct, Some(number)),
                _ if kind == Kind::Array as u32 => (ObjectKind::Array, Some(number)),
                _ if kind == Kind::Host as u32 => {
                    (ObjectKind::Host(address.add(8).ptr::<u64>().read()), None)
                }
                _ => (ObjectKind::Exception, None),
            }
        }
    }

    fn fits(&self, value: &Value, ty: ValType) -> bool {
        match (value, ty) {
            (Value::I32(_), ValType::I32)
            | (Value::I64(_), ValType::I64)
            | (Value::F32(_), ValType::F32)
            | (Value::F64(_), ValType::F64) => true,
            (Value::Null, ValType::Ref(of)) => of.nullable,
            (Value::Function(function), ValType::Ref(of)) => self
                .registry
                .is_heap_subtype(HeapType::Concrete(function.record(self.id).number), of.heap),
            (Value::Object(object), ValType::Ref(of)) => self.object_fits(object, of),
            _ => false,
        }
    }

    fn object_fits(&self, object: &Object, of: RefType) -> bool {
        match self.kind(object) {
            (ObjectKind::Exception, _) => of.heap == HeapType::Exn,
            _ if of.heap == HeapType::Extern => true,
            (ObjectKind::Host(_), _) => of.heap == HeapType::Any,
            (ObjectKind::I31(_), _) => self.registry.is_heap_subtype(HeapType::I31, of.heap),
            (_, Some(number)) => self
                .registry
                .is_heap_subtype(HeapType::Concrete(number), of.heap),
            (_, None) => false,
        }
    }

    /// Whether values have the types; `what` begins the message of the error.
    pub(crate) fn check_values(
        &self,
        what: &str,
        values: &[Value],
        types: &[ValType],
    ) -> Result<(), Trap> {
        if values.len() != types.len() {
            return Err(Trap::Host(format!(
                "{what} {} values, where {} are wanted",
                values.len(),
                types.len()
            )));
        }
        match values
            .iter()
            .zip(types)
            .position(|(value, &ty)| !self.fits(value, ty))
        {
            Some(index) => Err(Trap::Host(format!(
                "{what} {:?}, where {:?} is wanted",
                values[index], types[index]
            ))),
            None => Ok(()),
        }
    }
}

/// Registers a type of objects. Arrays lie in one piece, whatever the heap's options say.
pub(crate) fn register(
    heap: &Heap,
    layout: &Layout,
    description: *const u32,
) -> Result<TypeId, TypeError> {
    let of = match layout {
        Layout::Struct { .. } => heap.register_raw(layout.shape())?,
        Layout::Array { .. } => heap.register_whole_raw(layout.shape())?,
    };
    heap.set_type_data(of, description.cast_mut().cast());
    Ok(of)
}

/// Loads modules, and runs their instances on a heap of its own. It stays on the thread that made it:
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<gleaner_wasm::Engine>();
/// ```
/// ```compile_fail,E0277
/// fn is_sync<T: Sync>() {}
/// is_sync::<gleaner_wasm::Engine>();
/// ```
///
/// Its functions, objects and modules stay there, too.
pub struct Engine(pub(crate) NonNull<State>);

impl fmt::Debug for Engine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Engine")
            .field("instances", &self.state_ref().instances.len())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// The engine with this state, which must not be dropped.
    ///
    /// # Safety
    /// The state is that of an engine, and nothing else borrows it while the result is used.
    pub(crate) unsafe fn of(state: *mut State) -> Engine {
        // SAFETY: an engine's state is not null.
        Engine(unsafe { NonNull::new_unchecked(state) })
    }

    pub(crate) fn state(&mut self) -> &mut State {
        // SAFETY: the state is the engine's, which is borrowed; no compiled code runs, since that is entered in calls alone.
        unsafe { self.0.as_mut() }
    }

    pub(crate) fn state_ref(&self) -> &State {
        // SAFETY: as above.
        unsafe { self.0.as_ref() }
    }
}
