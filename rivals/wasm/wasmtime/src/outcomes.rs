//! What random modules do on wasmtime, as lines: see `crates/wasm/tests/random/`.
//!
//! Each comes as its length in four bytes, little end first, and its bytes, and then its plan in the same way. The answer to each
//! call is a line, and the last one is a point.

use std::io::{self, Read, Write};

use wasmtime::{
    AnyRef, Engine, Error, Extern, Instance, Module, Rooted, Store, StoreLimits,
    StoreLimitsBuilder, ThrownException, Trap, Val, ValType,
};

/// A line that says that memory or the stack was used up.
const RESOURCES: &str = "resources";
/// The most bytes of a module's heap.
const HEAP: usize = 64 << 20;

/// Answers until there are no more modules.
pub fn serve(engine: &Engine) -> wasmtime::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    while let Ok(bytes) = part(&mut input) {
        let plan = String::from_utf8(part(&mut input)?)?;
        for line in outcome(engine, &bytes, &plan) {
            writeln!(output, "{line}")?;
        }
        writeln!(output, ".")?;
        output.flush()?;
    }
    Ok(())
}

fn part(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn outcome(engine: &Engine, bytes: &[u8], plan: &str) -> Vec<String> {
    let module = match Module::new(engine, bytes) {
        Ok(module) => module,
        Err(error) => return vec![format!("refused: {error:#}").replace('\n', " ")],
    };
    let (calls, looks): (Vec<&str>, Vec<&str>) =
        plan.lines().partition(|step| step.starts_with("call "));
    if calls.is_empty() {
        return vec![answer(engine, &module, None, &looks)];
    }
    let calls = calls.into_iter();
    calls
        .map(|call| answer(engine, &module, Some(call), &looks))
        .collect()
}

/// The line of a call in an instance of its own.
fn answer(engine: &Engine, module: &Module, call: Option<&str>, looks: &[&str]) -> String {
    let mut store = Store::new(engine, StoreLimitsBuilder::new().memory_size(HEAP).build());
    store.limiter(|limits| limits);
    let instance = match Instance::new(&mut store, module, &[]) {
        Ok(instance) => instance,
        Err(error) => return trapped(&mut store, &error),
    };
    let exports: Vec<Extern> = module
        .exports()
        .filter_map(|export| instance.get_export(&mut store, export.name()))
        .collect();
    let mut line = String::from("instantiated");
    for step in call.into_iter().chain(looks.iter().copied()) {
        match said(&mut store, &exports, step) {
            resources if resources == RESOURCES => return resources,
            said => line = format!("{line}; {said}"),
        }
    }
    line
}

/// What a step comes to.
fn said(store: &mut Store<StoreLimits>, exports: &[Extern], step: &str) -> String {
    let mut words = step.split_whitespace();
    let (Some(_), Some(number)) = (words.next(), words.next()) else {
        return format!("no step: {step}");
    };
    match number
        .parse()
        .ok()
        .and_then(|number: usize| exports.get(number))
    {
        Some(Extern::Func(function)) => {
            let ty = function.ty(&*store);
            let arguments: Option<Vec<Val>> = ty.params().zip(words).map(argument).collect();
            let mut results = vec![Val::I32(0); ty.results().len()];
            match function.call(&mut *store, &arguments.unwrap_or_default(), &mut results) {
                Ok(()) => format!("returned{}", texts(store, &results)),
                Err(error) => trapped(store, &error),
            }
        }
        Some(Extern::Global(global)) => {
            let value = global.get(&mut *store);
            format!("global{}", texts(store, &[value]))
        }
        Some(Extern::Memory(memory)) => {
            let bytes = memory.data(&*store);
            format!("memory {} {}", bytes.len(), hash(bytes))
        }
        _ => format!("no step: {step}"),
    }
}

/// An argument of a type by its word.
fn argument((ty, word): (ValType, &str)) -> Option<Val> {
    if let ValType::Ref(reference) = ty {
        return Some(Val::null_ref(reference.heap_type()));
    }
    let number: i32 = word.split_once(':')?.1.parse().ok()?;
    Some(match ty {
        ValType::I32 => Val::I32(number),
        ValType::I64 => Val::I64(number.into()),
        ValType::F32 => Val::F32((number as f32).to_bits()),
        _ => Val::F64(f64::from(number).to_bits()),
    })
}

fn trapped(store: &mut Store<StoreLimits>, error: &Error) -> String {
    if error.is::<ThrownException>() {
        store.take_pending_exception();
        return "an exception".into();
    }
    let name = match error.downcast_ref::<Trap>() {
        // What is no trap says that the heap cannot grow.
        Some(Trap::StackOverflow | Trap::AllocationTooLarge) | None => return RESOURCES.into(),
        Some(Trap::TableOutOfBounds) => "bounds of a table",
        Some(Trap::MemoryOutOfBounds) => "bounds of a memory",
        Some(Trap::ArrayOutOfBounds) => "bounds of an array",
        Some(Trap::IndirectCallToNull | Trap::BadSignature) => "indirect call",
        Some(Trap::NullReference) => "null",
        Some(Trap::CastFailure) => "cast",
        Some(Trap::IntegerDivisionByZero) => "division by zero",
        Some(Trap::IntegerOverflow | Trap::BadConversionToInteger) => "overflow",
        Some(Trap::UnreachableCodeReached) => "unreachable",
        Some(trap) => return trap.to_string(),
    };
    format!("trap: {name}")
}

fn texts(store: &mut Store<StoreLimits>, values: &[Val]) -> String {
    values
        .iter()
        .map(|value| format!(" {}", text(store, value)))
        .collect()
}

fn text(store: &mut Store<StoreLimits>, value: &Val) -> String {
    match value {
        Val::I32(number) => number.to_string(),
        Val::I64(number) => number.to_string(),
        Val::F32(bits) if f32::from_bits(*bits).is_nan() => "nan".into(),
        Val::F64(bits) if f64::from_bits(*bits).is_nan() => "nan".into(),
        Val::F32(bits) => format!("{bits:x}"),
        Val::F64(bits) => format!("{bits:x}"),
        Val::FuncRef(Some(_)) => "function".into(),
        Val::AnyRef(Some(object)) => object_text(store, *object),
        Val::ExternRef(Some(object)) => match AnyRef::convert_extern(&mut *store, *object) {
            Ok(object) => object_text(store, object),
            Err(error) => error.to_string(),
        },
        Val::FuncRef(None) | Val::AnyRef(None) | Val::ExternRef(None) => "null".into(),
        Val::ExnRef(_) | Val::V128(_) | Val::ContRef(_) => "a value that no plan has".into(),
    }
}

fn object_text(store: &Store<StoreLimits>, object: Rooted<AnyRef>) -> String {
    match object.as_i31(store) {
        Ok(Some(number)) => format!("i31:{}", number.get_i32()),
        _ => "object".into(),
    }
}

/// FNV-1a of 32 bits, by words of four bytes: there are megabytes to go over.
fn hash(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(4).fold(0x811c_9dc5, |hash, word| {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        (hash ^ word).wrapping_mul(0x0100_0193)
    })
}
