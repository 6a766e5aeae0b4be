//! Instances: imports are linked, storage is made, constant expressions are evaluated, segments are copied, and the start
//! function runs.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

use gleaner::Totals;

use crate::constants;
use crate::context::{ContextLayout, ENGINE, FuncRecord, INSTANCE};
use crate::error::{InstantiateError, Trap};
use crate::instance::{Extern, Instance, InstanceId};
use crate::module::{
    Constant, Declarations, GlobalType, Import, ItemType, Limits, Mode, TableType,
};
use crate::runtime::{Active, memories, tables};
use crate::state::{Ending, Engine, Loaded, Module, State};
use crate::storage::{Global, MOST_ELEMENTS, Memory, Segment, Table};
use crate::types::{HeapType, Number, RefType, ValType};
use crate::values::Value;

impl Engine {
    /// Makes an instance of a module. `resolve` is asked for each import, by module and name.
    ///
    /// If the start function or an initializer traps, what was written until then stays written.
    ///
    /// # Panics
    /// If the module, or what is imported, belongs to another engine.
    pub fn instantiate(
        &mut self,
        module: &Module,
        resolve: &dyn Fn(&str, &str) -> Option<Extern>,
    ) -> Result<InstanceId, InstantiateError> {
        self.instantiate_with(module, resolve, &mut |_, _| ())
    }

    /// As [`Engine::instantiate`]. `made` is called when the instance has its storage, and before any of its code runs: host
    /// functions that work on the memory of an instance can look for it there.
    pub fn instantiate_with(
        &mut self,
        module: &Module,
        resolve: &dyn Fn(&str, &str) -> Option<Extern>,
        made: &mut dyn FnMut(&mut Engine, InstanceId),
    ) -> Result<InstanceId, InstantiateError> {
        let loaded = &module.0;
        self.state().id.check(loaded.owner, "a module");
        let imports = self
            .state()
            .link(&loaded.declarations.imports, resolve)
            .map_err(InstantiateError::Link)?;
        let number = self.state().new_instance(loaded, &imports)?;
        made(self, InstanceId(number));
        self.initialize(loaded, number)
            .map_err(InstantiateError::Trap)?;
        Ok(InstanceId(number))
    }

    fn initialize(&mut self, loaded: &Loaded, number: usize) -> Result<(), Trap> {
        let declarations = &loaded.declarations;
        for (index, &init) in declarations.global_inits.iter().enumerate() {
            let index = declarations.imported_globals() + index;
            let bits = self.constant(loaded, number, init)?;
            let state = self.state();
            let global = state.instances[number].globals[index];
            // SAFETY: the global's own slot, and a value of its type.
            unsafe { state.globals[global].place().write(bits) };
        }
        for (index, &init) in declarations.table_inits.iter().enumerate() {
            let index = declarations.imported_tables() + index;
            let bits = self.constant(loaded, number, init)?;
            let state = self.state();
            let table = state.instances[number].tables[index];
            state.tables[table].fill(bits);
        }
        self.make_segments(loaded, number)?;
        self.copy_segments(loaded, number)?;
        match declarations.start {
            Some(start) => {
                let record = self.state().instances[number].functions[start as usize];
                let start = self.state().function(record);
                self.call(start, &[]).map(drop)
            }
            None => Ok(()),
        }
    }

    /// Evaluates the elements of all segments. Each segment is a root of the heap from its first element on.
    fn make_segments(&mut self, loaded: &Loaded, number: usize) -> Result<(), Trap> {
        for element in &loaded.declarations.elements {
            let state = self.state();
            let is_managed = state.registry.is_managed(ValType::Ref(element.ty));
            let segment =
                Segment::new(&mut state.mutator, vec![0; element.items.len()], is_managed);
            state.instances[number].elements.push(segment);
            let segment = state.instances[number].elements.len() - 1;
            for (index, &item) in element.items.iter().enumerate() {
                let bits = self.constant(loaded, number, item)?;
                let record = self.state().instances[number].elements[segment].record();
                // SAFETY: the segment has this element.
                unsafe { record.base.add(index).write(bits) };
            }
        }
        Ok(())
    }

    fn copy_segments(&mut self, loaded: &Loaded, number: usize) -> Result<(), Trap> {
        for (segment, element) in loaded.declarations.elements.iter().enumerate() {
            if let Mode::Active { index, offset } = element.mode {
                let to = self.constant(loaded, number, offset)? as u32;
                let range = [to, 0, element.items.len() as u32];
                let mut active = Active {
                    state: self.state(),
                    number,
                };
                tables::init_table(&mut active, index, segment as u32, range).map_err(trap)?;
            }
            if element.mode != Mode::Passive {
                let state = self.state();
                state.instances[number].elements[segment].clear(&mut state.mutator);
            }
        }
        for (segment, data) in loaded.declarations.datas.iter().enumerate() {
            if let Mode::Active { index, offset } = data.mode {
                let to = self.constant(loaded, number, offset)? as u32;
                let range = [to, 0, data.bytes.len() as u32];
                let mut active = Active {
                    state: self.state(),
                    number,
                };
                memories::init_memory(&mut active, index, segment as u32, range).map_err(trap)?;
                self.state().instances[number].datas[segment] = [].into();
            }
        }
        Ok(())
    }

    /// The bits of a constant. A reference among them is valid until the engine next runs or allocates.
    fn constant(
        &mut self,
        loaded: &Loaded,
        number: usize,
        constant: Constant,
    ) -> Result<u64, Trap> {
        let state = self.state();
        let instance = &state.instances[number];
        Ok(match constant {
            Constant::Bits(bits) => bits,
            Constant::Func(index) => instance.functions[index as usize].as_ptr() as u64,
            Constant::Global(index) => {
                let global = instance.globals[index as usize];
                state.globals[global].bits()
            }
            Constant::Expression(index) => {
                let declarations = &loaded.declarations;
                let expression = &declarations.expressions[index];
                constants::evaluate(state, declarations, number, expression)?
            }
        })
    }

    /// What an instance exports by a name.
    pub fn export(&mut self, instance: InstanceId, name: &str) -> Option<Extern> {
        let state = self.state();
        let instance = &state.instances[instance.0];
        let export = instance
            .declarations
            .exports
            .iter()
            .find(|export| export.name == name)?;
        Some(instance.item(export.item, state.id))
    }

    /// All that an instance exports, by names.
    pub fn exports(&mut self, instance: InstanceId) -> Vec<(String, Extern)> {
        let state = self.state();
        let instance = &state.instances[instance.0];
        let exports = instance.declarations.exports.iter();
        exports
            .map(|export| (export.name.clone(), instance.item(export.item, state.id)))
            .collect()
    }

    /// The value of a global.
    pub fn global(&mut self, global: usize) -> Result<Value, Trap> {
        let state = self.state();
        let (ty, bits) = (
            state.globals[global].ty.content,
            state.globals[global].bits(),
        );
        state.value(ty, bits)
    }

    /// A global of the host with a number.
    pub fn new_global(
        &mut self,
        content: ValType,
        mutable: bool,
        value: &Value,
    ) -> Result<Extern, Trap> {
        let state = self.state();
        state.check_values("the global has", std::slice::from_ref(value), &[content])?;
        let is_managed = state.registry.is_managed(content);
        let ty = GlobalType { content, mutable };
        let global = Global::new(&mut state.mutator, ty, is_managed, value.bits());
        state.globals.push(global);
        Ok(Extern::Global(state.globals.len() - 1))
    }

    /// A memory of the host, of so many pages at least and at most. `None` where the system gives none.
    pub fn new_memory(&mut self, least: u64, most: Option<u64>) -> Option<Extern> {
        let state = self.state();
        state.memories.push(Memory::new(Limits { least, most })?);
        Some(Extern::Memory(state.memories.len() - 1))
    }

    /// Calls `body` with the bytes of a memory, outside of the heap's gate: it may block, and collections do not wait for it.
    /// It must not use the engine's heap.
    ///
    /// # Panics
    /// If the engine has no memory with this number.
    pub fn with_memory<R>(&mut self, memory: usize, body: impl FnOnce(&mut [u8]) -> R) -> R {
        let State {
            mutator, memories, ..
        } = self.state();
        let bytes = memories[memory].bytes_mut();
        mutator.blocking(|| body(bytes))
    }

    /// What collections have done so far.
    pub fn totals(&mut self) -> Totals {
        self.state().mutator.totals()
    }

    /// A table of the host for functions, of so many elements at least and at most. `None` where that is too large.
    pub fn new_function_table(&mut self, least: u64, most: Option<u64>) -> Option<Extern> {
        let state = self.state();
        let element = RefType {
            nullable: true,
            heap: HeapType::Func,
        };
        let ty = TableType {
            element,
            limits: Limits { least, most },
        };
        let table = Table::new(&mut state.mutator, ty, false)?;
        state.tables.push(table);
        Some(Extern::Table(state.tables.len() - 1))
    }
}

fn trap(ending: Ending) -> Trap {
    match ending {
        Ending::Trap(trap) => trap,
        Ending::Panic(payload) => std::panic::resume_unwind(payload),
    }
}

impl State {
    fn link(
        &self,
        imports: &[Import],
        resolve: &dyn Fn(&str, &str) -> Option<Extern>,
    ) -> Result<Vec<Extern>, Vec<String>> {
        let (mut found, mut problems) = (Vec::with_capacity(imports.len()), Vec::new());
        for Import { module, name, ty } in imports {
            match resolve(module, name) {
                None => problems.push(format!("{module}.{name} is missing")),
                Some(item) if !self.is_importable(item, *ty) => {
                    let (found, wanted) = (self.found_in_words(item), self.wanted_in_words(*ty));
                    problems.push(format!(
                        "{module}.{name} is {found}, where the module wants {wanted}"
                    ));
                }
                Some(item) => found.push(item),
            }
        }
        if problems.is_empty() {
            Ok(found)
        } else {
            Err(problems)
        }
    }

    fn is_importable(&self, item: Extern, as_type: ItemType) -> bool {
        match (item, as_type) {
            (Extern::Function(function), ItemType::Func(number)) => {
                let of = HeapType::Concrete(function.record(self.id).number);
                self.registry
                    .is_heap_subtype(of, HeapType::Concrete(number))
            }
            (Extern::Table(table), ItemType::Table(ty)) => {
                let of = self.tables[table].ty();
                of.element == ty.element && fit(of.limits, ty.limits)
            }
            (Extern::Memory(memory), ItemType::Memory(limits)) => {
                fit(self.memories[memory].limits(), limits)
            }
            (Extern::Global(global), ItemType::Global(ty)) => {
                let of = self.globals[global].ty;
                of.mutable == ty.mutable
                    && (of.content == ty.content
                        || !ty.mutable && self.registry.is_subtype(of.content, ty.content))
            }
            (Extern::Tag(tag), ItemType::Tag(number)) => self.tags[tag] == number,
            _ => false,
        }
    }

    /// An instance whose storage is there and zero.
    fn new_instance(
        &mut self,
        loaded: &Loaded,
        imports: &[Extern],
    ) -> Result<usize, InstantiateError> {
        let declarations = &loaded.declarations;
        let number = self.instances.len();
        let layout = ContextLayout::new(declarations, self.settings.compile);
        let mut instance = Instance {
            declarations: Arc::clone(declarations),
            layout,
            context: vec![0; layout.words()].into(),
            functions: Vec::new(),
            records: Box::default(),
            tables: Vec::new(),
            memories: Vec::new(),
            globals: Vec::new(),
            tags: Vec::new(),
            elements: Vec::new(),
            datas: declarations
                .datas
                .iter()
                .map(|data| Arc::clone(&data.bytes))
                .collect(),
        };
        for &import in imports {
            match import {
                Extern::Function(function) => instance.functions.push(function.place),
                Extern::Table(table) => instance.tables.push(table),
                Extern::Memory(memory) => instance.memories.push(memory),
                Extern::Global(global) => instance.globals.push(global),
                Extern::Tag(tag) => instance.tags.push(tag),
            }
        }
        self.make_storage(declarations, &mut instance)?;
        let records = self.ownrecords(loaded, instance.context.as_ptr());
        let mut records = records.into_boxed_slice();
        instance
            .functions
            .extend(records.iter_mut().map(NonNull::from));
        instance.records = records;
        self.write_context(loaded, &mut instance, number);
        self.instances.push(instance);
        if let Some(source) = &loaded.source {
            source.instances.borrow_mut().push(number);
        }
        Ok(number)
    }

    fn ownrecords(&self, loaded: &Loaded, context: *const u64) -> Vec<FuncRecord> {
        let types = &loaded.declarations.funcs[loaded.declarations.imported_funcs..];
        let record = |(code, &number): (&Cell<*const u8>, &Number)| {
            let description = self.registry.get(number).description();
            FuncRecord {
                code: code.get(),
                context,
                number,
                description,
            }
        };
        loaded.functions.iter().zip(types).map(record).collect()
    }

    /// Makes the module's own tables, memories, globals and tags.
    fn make_storage(
        &mut self,
        of: &Declarations,
        instance: &mut Instance,
    ) -> Result<(), InstantiateError> {
        for &ty in &of.tables[instance.tables.len()..] {
            let is_managed = self.registry.is_managed(ValType::Ref(ty.element));
            let table = Table::new(&mut self.mutator, ty, is_managed);
            let none = || {
                InstantiateError::NoMemory(format!(
                    "a table of {} elements: {MOST_ELEMENTS} is the most that this engine's tables have",
                    ty.limits.least
                ))
            };
            self.tables.push(table.ok_or_else(none)?);
            instance.tables.push(self.tables.len() - 1);
        }
        for &limits in &of.memories[instance.memories.len()..] {
            let none = || {
                InstantiateError::NoMemory(format!(
                    "a memory of {} pages of 64 KiB: the system gives no such room; raise the limit with ulimit -v, if there is one",
                    limits.least
                ))
            };
            self.memories.push(Memory::new(limits).ok_or_else(none)?);
            instance.memories.push(self.memories.len() - 1);
        }
        for &ty in &of.globals[instance.globals.len()..] {
            let is_managed = self.registry.is_managed(ty.content);
            self.globals
                .push(Global::new(&mut self.mutator, ty, is_managed, 0));
            instance.globals.push(self.globals.len() - 1);
        }
        for &number in &of.tags[instance.tags.len()..] {
            instance.tags.push(self.new_tag(number));
        }
        Ok(())
    }

    /// Writes the words of the context in the order that [`ContextLayout`] has.
    fn write_context(&mut self, loaded: &Loaded, instance: &mut Instance, number: usize) {
        let mut words = vec![0; 2];
        words[ENGINE] = std::ptr::from_mut(self) as u64;
        words[INSTANCE] = number as u64;
        words.extend(
            instance
                .functions
                .iter()
                .map(|record| record.as_ptr() as u64),
        );
        words.extend(
            instance
                .tables
                .iter()
                .map(|&table| std::ptr::from_ref(self.tables[table].record()) as u64),
        );
        words.extend(
            instance
                .memories
                .iter()
                .map(|&of| std::ptr::from_ref(self.memories[of].record()) as u64),
        );
        for &global in &instance.globals {
            words.push(self.globals[global].place().as_ptr() as u64);
        }
        words.extend(instance.tags.iter().map(|&tag| tag as u64));
        if loaded.source.is_some() {
            words.extend(loaded.functions.iter().map(|code| code.get() as u64));
        }
        instance.context.copy_from_slice(&words);
    }
}

/// Whether something with limits may be imported where others are asked for.
fn fit(of: Limits, asked: Limits) -> bool {
    of.least >= asked.least
        && asked
            .most
            .is_none_or(|asked| of.most.is_some_and(|most| most <= asked))
}
