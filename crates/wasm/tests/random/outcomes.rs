//! What a module does under Gleaner's engine, as lines: one for each call of its plan.
//! `rivals/wasm/wasmtime/src/outcomes.rs` and `rivals/wasm/node/outcomes.cjs` make the same lines.

use gleaner::{Heap, References};
use gleaner_wasm::{
    Compile, Engine, Extern, InstantiateError, LoadError, Module, ObjectKind, Settings, Trap,
    TrapKind, Value,
};

use crate::plan::{Argument, Plan, Step};

/// The lines of a module.
pub type Outcome = Vec<String>;

/// A line that says that memory or the stack was used up: when that happens is left to the engine.
pub const RESOURCES: &str = "resources";

/// How a module is run.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The format of slots.
    pub references: References,
    /// Further options of the heap.
    pub options: &'static str,
    /// When functions are compiled.
    pub compile: Compile,
}

/// What a module does in an engine of its own.
pub fn outcome(bytes: &[u8], plan: &Plan, setting: &Setting) -> Outcome {
    let heap = Heap::builder()
        .limit(32 << 20)
        .references(setting.references);
    let settings = Settings {
        checks: true,
        compile: setting.compile,
        ..Settings::default()
    };
    let heap = heap.options(setting.options).unwrap();
    let mut engine = Engine::with_settings(heap, settings).unwrap();
    let module = match engine.load(bytes) {
        Ok(module) => module,
        Err(LoadError::TooLarge(_)) => return vec![RESOURCES.into()],
        Err(error) => return vec![format!("refused: {error}")],
    };
    if plan.calls.is_empty() {
        return vec![answer(&mut engine, &module, None, &plan.looks)];
    }
    let calls = plan.calls.iter();
    calls
        .map(|call| answer(&mut engine, &module, Some(call), &plan.looks))
        .collect()
}

/// The line of a call in an instance of its own.
fn answer(engine: &mut Engine, module: &Module, call: Option<&Step>, looks: &[Step]) -> String {
    let instance = match engine.instantiate(module, &|_, _| None) {
        Ok(instance) => instance,
        Err(InstantiateError::NoMemory(_)) => return RESOURCES.into(),
        Err(InstantiateError::Trap(trap)) => return trapped(&trap),
        Err(error) => return format!("not linked: {error}"),
    };
    let exports = engine.exports(instance);
    let mut line = String::from("instantiated");
    for step in call.into_iter().chain(looks) {
        match said(engine, &exports, step) {
            resources if resources == RESOURCES => return resources,
            said => line = format!("{line}; {said}"),
        }
    }
    line
}

/// What a step comes to.
fn said(engine: &mut Engine, exports: &[(String, Extern)], step: &Step) -> String {
    match step {
        Step::Call(export, arguments, _) => {
            let Extern::Function(function) = exports[*export].1 else {
                panic!("export {export} is no function");
            };
            let arguments: Vec<Value> = arguments.iter().map(value).collect();
            match engine.call(function, &arguments) {
                Ok(values) => format!("returned{}", texts(engine, &values)),
                Err(trap) => trapped(&trap),
            }
        }
        Step::Global(export, _) => {
            let Extern::Global(global) = exports[*export].1 else {
                panic!("export {export} is no global");
            };
            let value = engine.global(global).unwrap();
            format!("global{}", texts(engine, &[value]))
        }
        Step::Memory(export) => {
            let Extern::Memory(memory) = exports[*export].1 else {
                panic!("export {export} is no memory");
            };
            engine.with_memory(memory, |bytes| {
                format!("memory {} {}", bytes.len(), hash(bytes))
            })
        }
    }
}

fn value(argument: &Argument) -> Value {
    match *argument {
        Argument::Null => Value::Null,
        Argument::I32(number) => Value::I32(number),
        Argument::I64(number) => Value::I64(number),
        Argument::F32(number) => Value::F32((number as f32).to_bits()),
        Argument::F64(number) => Value::F64(f64::from(number).to_bits()),
    }
}

/// The first lines of two outcomes that are not the same. What used up memory or the stack anywhere is like any other line.
pub fn difference<'a>(one: &'a Outcome, other: &'a Outcome) -> Option<(&'a str, &'a str)> {
    let line = |of: &'a Outcome, number: usize| of.get(number).map_or("nothing", String::as_str);
    for number in 0..one.len().max(other.len()) {
        let (first, second) = (line(one, number), line(other, number));
        if first != second && first != RESOURCES && second != RESOURCES {
            return Some((first, second));
        }
    }
    None
}

/// Whether a line says that a call returned.
pub fn is_return(line: &str) -> bool {
    line.contains("; returned")
}

/// The line of what did not return. Machines tell some kinds of traps apart that others do not.
fn trapped(trap: &Trap) -> String {
    let kind = match trap {
        Trap::Exception(_) => return "an exception".into(),
        Trap::Program { kind, .. } => *kind,
        // A function that is compiled when it is first called may exceed a limit.
        Trap::Host(message) if message.contains("limit of this engine") => return RESOURCES.into(),
        Trap::Exit(_) | Trap::Host(_) => return trap.to_string(),
    };
    let name = match kind {
        TrapKind::StackOverflow | TrapKind::OutOfMemory => return RESOURCES.into(),
        TrapKind::TableBounds | TrapKind::UndefinedElement => "bounds of a table",
        TrapKind::MemoryBounds => "bounds of a memory",
        TrapKind::ArrayBounds => "bounds of an array",
        TrapKind::UninitializedElement | TrapKind::IndirectCallType => "indirect call",
        TrapKind::NullReference => "null",
        TrapKind::CastFailure => "cast",
        TrapKind::DivisionByZero => "division by zero",
        TrapKind::IntegerOverflow | TrapKind::InvalidConversion => "overflow",
        TrapKind::Unreachable => "unreachable",
    };
    format!("trap: {name}")
}

fn texts(engine: &Engine, values: &[Value]) -> String {
    let text = |value: &Value| match value {
        Value::I32(number) => format!(" {number}"),
        Value::I64(number) => format!(" {number}"),
        Value::F32(bits) if f32::from_bits(*bits).is_nan() => " nan".into(),
        Value::F64(bits) if f64::from_bits(*bits).is_nan() => " nan".into(),
        Value::F32(bits) => format!(" {bits:x}"),
        Value::F64(bits) => format!(" {bits:x}"),
        Value::Null => " null".into(),
        Value::Function(_) => " function".into(),
        Value::Object(object) => match engine.kind_of(object) {
            ObjectKind::I31(number) => format!(" i31:{number}"),
            _ => " object".into(),
        },
    };
    values.iter().map(text).collect()
}

/// FNV-1a of 32 bits, by words of four bytes: there are megabytes to go over.
fn hash(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(4).fold(0x811c_9dc5, |hash, word| {
        let word = u32::from_le_bytes(word.try_into().unwrap());
        (hash ^ word).wrapping_mul(0x0100_0193)
    })
}
