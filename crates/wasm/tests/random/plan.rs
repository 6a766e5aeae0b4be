//! What is done with a module: a line for each of its exports, in order. All machines get the same lines. A machine answers each
//! call by one line: it makes a new instance, calls, and looks at all globals and memories. Without a call, it only looks.
//!
//! ```text
//! call 0 i32:-1 null > i64 ref      calls export 0 with these arguments; it returns these types
//! global 1 f32                      reads export 1, of this type
//! memory 2                          takes the size and a hash of export 2
//! ```

use wasmparser::{ExternalKind, HeapType, Parser, Payload, ValType, Validator, WasmFeatures};

/// A line of the plan.
pub enum Step {
    /// Calls an export with arguments, for results of these types.
    Call(usize, Vec<Argument>, Vec<&'static str>),
    /// Reads a global of this type.
    Global(usize, &'static str),
    /// Looks at a memory.
    Memory(usize),
}

/// What is passed: null, or a number of this type.
pub enum Argument {
    Null,
    I32(i32),
    I64(i64),
    F32(i32),
    F64(i32),
}

impl Step {
    /// The line.
    pub fn text(&self) -> String {
        match self {
            Step::Call(export, arguments, results) => {
                let arguments: String = arguments.iter().map(Argument::text).collect();
                format!("call {export}{arguments} > {}", results.join(" "))
            }
            Step::Global(export, ty) => format!("global {export} {ty}"),
            Step::Memory(export) => format!("memory {export}"),
        }
    }
}

impl Argument {
    fn text(&self) -> String {
        match self {
            Argument::Null => " null".into(),
            Argument::I32(number) => format!(" i32:{number}"),
            Argument::I64(number) => format!(" i64:{number}"),
            Argument::F32(number) => format!(" f32:{number}"),
            Argument::F64(number) => format!(" f64:{number}"),
        }
    }

    /// Numbers by their places, and null. `None` where null is not allowed, or JavaScript has no such value.
    fn of((place, ty): (usize, &ValType)) -> Option<Argument> {
        let number = 3 * place as i32 - 1;
        match name_of(ty)? {
            "i32" => Some(Argument::I32(number)),
            "i64" => Some(Argument::I64(number.into())),
            "f32" => Some(Argument::F32(number)),
            "f64" => Some(Argument::F64(number)),
            _ => ty
                .as_reference_type()?
                .is_nullable()
                .then_some(Argument::Null),
        }
    }
}

/// A type in a line; `None` for one that JavaScript has no value of.
fn name_of(ty: &ValType) -> Option<&'static str> {
    match ty {
        ValType::I32 => Some("i32"),
        ValType::I64 => Some("i64"),
        ValType::F32 => Some("f32"),
        ValType::F64 => Some("f64"),
        ValType::V128 => None,
        ValType::Ref(reference) => match reference.heap_type() {
            HeapType::Abstract { ty, .. } => {
                use wasmparser::AbstractHeapType::{Exn, NoExn};
                (!matches!(ty, Exn | NoExn)).then_some("ref")
            }
            _ => Some("ref"),
        },
    }
}

/// What is done with a module.
pub struct Plan {
    /// The calls.
    pub calls: Vec<Step>,
    /// What is looked at after each.
    pub looks: Vec<Step>,
}

impl Plan {
    /// The lines.
    pub fn text(&self) -> String {
        let steps = self.calls.iter().chain(&self.looks);
        steps.map(|step| step.text() + "\n").collect()
    }
}

/// Makes the plan of a module.
pub fn plan(bytes: &[u8]) -> Plan {
    let features = WasmFeatures::default() | WasmFeatures::GC | WasmFeatures::EXCEPTIONS;
    let types = Validator::new_with_features(features)
        .validate_all(bytes)
        .expect("wasm-smith makes valid modules");
    let types = types.as_ref();
    let (mut calls, mut looks) = (Vec::new(), Vec::new());
    for payload in Parser::new(0).parse_all(bytes) {
        let Payload::ExportSection(section) = payload.unwrap() else {
            continue;
        };
        for (number, export) in section.into_iter().enumerate() {
            let export = export.unwrap();
            match export.kind {
                ExternalKind::Func => {
                    let ty = types[types.core_function_at(export.index)].unwrap_func();
                    let arguments = ty.params().iter().enumerate().map(Argument::of).collect();
                    let results = ty.results().iter().map(name_of).collect();
                    if let (Some(arguments), Some(results)) = (arguments, results) {
                        calls.push(Step::Call(number, arguments, results));
                    }
                }
                ExternalKind::Global => {
                    let ty = types.global_at(export.index).content_type;
                    looks.extend(name_of(&ty).map(|ty| Step::Global(number, ty)));
                }
                ExternalKind::Memory => looks.push(Step::Memory(number)),
                _ => {}
            }
        }
    }
    Plan { calls, looks }
}
