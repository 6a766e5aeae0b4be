//! Runs the scripts of the specification's tests: each command has a verdict, and verdicts are counted.

use std::collections::HashMap;

use gleaner_wasm::{
    Engine, Extern, InstanceId, InstantiateError, LoadError, Module, Object, ObjectKind, Signature,
    Trap, TrapKind, ValType, Value,
};
use wast::core::{NanPattern, WastArgCore, WastRetCore};
use wast::parser::ParseBuffer;
use wast::token::Id;
use wast::{QuoteWat, Wast, WastArg, WastDirective, WastExecute, WastInvoke, WastRet, Wat};

/// What became of a script: how many commands were as they should be, and what was wrong with the others.
#[derive(Default, Debug)]
pub struct Verdicts {
    /// Commands that were as they should be.
    pub passed: usize,
    /// The others, with lines.
    pub failed: Vec<String>,
}

struct Runner {
    engine: Engine,
    current: Option<InstanceId>,
    named: HashMap<String, InstanceId>,
    registered: HashMap<String, InstanceId>,
    definitions: HashMap<String, Module>,
    last_definition: Option<Module>,
    spectest: HashMap<&'static str, Extern>,
}

/// Runs a script on an engine of its own.
pub fn run(text: &str, engine: Engine) -> Verdicts {
    let mut lexer = wast::lexer::Lexer::new(text);
    lexer.allow_confusing_unicode(true);
    let buffer = ParseBuffer::new_with_lexer(lexer).expect("the script is readable");
    let script = wast::parser::parse::<Wast<'_>>(&buffer).expect("the script is well formed");
    let mut runner = Runner::new(engine);
    let mut verdicts = Verdicts::default();
    for directive in script.directives {
        let (line, _) = directive.span().linecol_in(text);
        match runner.directive(directive) {
            Ok(()) => verdicts.passed += 1,
            Err(reason) => verdicts.failed.push(format!("line {}: {reason}", line + 1)),
        }
    }
    verdicts
}

type Verdict = Result<(), String>;

fn text_of(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Runner {
    fn new(mut engine: Engine) -> Runner {
        let spectest = spectest(&mut engine);
        Runner {
            engine,
            current: None,
            named: HashMap::new(),
            registered: HashMap::new(),
            definitions: HashMap::new(),
            last_definition: None,
            spectest,
        }
    }

    fn directive(&mut self, directive: WastDirective<'_>) -> Verdict {
        match directive {
            WastDirective::Module(mut module) => {
                let name = module.name().map(|id| id.name().to_string());
                let loaded = self.load(&mut module)?;
                let instance = self.instantiate(&loaded).map_err(text_of)?;
                self.name_instance(name, instance);
                Ok(())
            }
            WastDirective::ModuleDefinition(mut module) => {
                let name = module.name().map(|id| id.name().to_string());
                let loaded = self.load(&mut module)?;
                if let Some(name) = name {
                    self.definitions.insert(name, loaded.clone());
                }
                self.last_definition = Some(loaded);
                Ok(())
            }
            WastDirective::ModuleInstance {
                instance, module, ..
            } => {
                let loaded = match module {
                    Some(id) => self.definitions.get(id.name()).cloned(),
                    None => self.last_definition.clone(),
                };
                let made = self
                    .instantiate(&loaded.ok_or("no such definition")?)
                    .map_err(text_of)?;
                self.name_instance(instance.map(|id| id.name().to_string()), made);
                Ok(())
            }
            WastDirective::Register { name, module, .. } => {
                let instance = self.instance(module)?;
                self.registered.insert(name.into(), instance);
                Ok(())
            }
            WastDirective::AssertMalformed { module, .. }
            | WastDirective::AssertInvalid { module, .. } => self.refused(module),
            WastDirective::AssertUnlinkable { mut module, .. } => {
                let bytes = module.encode().map_err(text_of)?;
                let loaded = self.engine.load(&bytes).map_err(text_of)?;
                match self.instantiate(&loaded) {
                    Err(InstantiateError::Link(_)) => Ok(()),
                    Err(other) => Err(format!("not linked because of: {other}")),
                    Ok(_) => Err("linked".into()),
                }
            }
            WastDirective::Invoke(invoke) => self.invoke(&invoke)?.map(drop).map_err(text_of),
            WastDirective::AssertReturn { exec, results, .. } => {
                let values = self.execute(exec)?.map_err(text_of)?;
                self.compare(&values, &results)
            }
            WastDirective::AssertTrap { exec, message, .. } => match self.execute(exec)? {
                Err(trap) => traps_with(&trap, message),
                Ok(values) => Err(format!(
                    "returned {values:?}, where it should trap: {message}"
                )),
            },
            WastDirective::AssertExhaustion { call, .. } => match self.invoke(&call)? {
                Err(trap) if trap.kind() == Some(TrapKind::StackOverflow) => Ok(()),
                other => Err(format!("{other:?}, where the stack should be used up")),
            },
            WastDirective::AssertException { exec, .. } => match self.execute(exec)? {
                Err(Trap::Exception(_)) => Ok(()),
                other => Err(format!("{other:?}, where it should throw")),
            },
            _ => Err("a command that the runner does not know".into()),
        }
    }

    fn name_instance(&mut self, name: Option<String>, instance: InstanceId) {
        self.current = Some(instance);
        if let Some(name) = name {
            self.named.insert(name, instance);
        }
    }

    fn instance(&self, id: Option<Id<'_>>) -> Result<InstanceId, String> {
        match id {
            Some(id) => self
                .named
                .get(id.name())
                .copied()
                .ok_or_else(|| format!("no instance {}", id.name())),
            None => self.current.ok_or_else(|| "no instance".into()),
        }
    }

    fn load(&mut self, module: &mut QuoteWat<'_>) -> Result<Module, String> {
        let bytes = module.encode().map_err(text_of)?;
        self.engine.load(&bytes).map_err(text_of)
    }

    fn instantiate(&mut self, module: &Module) -> Result<InstanceId, InstantiateError> {
        let mut exports = HashMap::new();
        for (name, &instance) in &self.registered {
            for export in self.engine.exports(instance) {
                exports.insert((name.clone(), export.0), export.1);
            }
        }
        let spectest = &self.spectest;
        self.engine
            .instantiate(module, &|module, name| match module {
                "spectest" => spectest.get(name).copied(),
                _ => exports
                    .get(&(module.to_string(), name.to_string()))
                    .copied(),
            })
    }

    /// A module that must not be loaded.
    fn refused(&mut self, mut module: QuoteWat<'_>) -> Verdict {
        let Ok(bytes) = module.encode() else {
            return Ok(());
        };
        match self.engine.load(&bytes) {
            Err(LoadError::Invalid { .. } | LoadError::Unsupported { .. }) => Ok(()),
            Err(other) => Err(format!("refused because of: {other}")),
            Ok(_) => Err("loaded, where it should be refused".into()),
        }
    }

    fn execute(&mut self, what: WastExecute<'_>) -> Result<Result<Vec<Value>, Trap>, String> {
        match what {
            WastExecute::Invoke(invoke) => self.invoke(&invoke),
            WastExecute::Get { module, global, .. } => {
                let instance = self.instance(module)?;
                match self.engine.export(instance, global) {
                    Some(Extern::Global(global)) => {
                        Ok(self.engine.global(global).map(|value| vec![value]))
                    }
                    other => Err(format!("{other:?} is no global")),
                }
            }
            WastExecute::Wat(Wat::Module(mut module)) => {
                let bytes = module.encode().map_err(text_of)?;
                let loaded = self.engine.load(&bytes).map_err(text_of)?;
                match self.instantiate(&loaded) {
                    Ok(_) => Ok(Ok(Vec::new())),
                    Err(InstantiateError::Trap(trap)) => Ok(Err(trap)),
                    Err(other) => Err(text_of(other)),
                }
            }
            WastExecute::Wat(Wat::Component(_)) => Err("a component".into()),
        }
    }

    fn invoke(&mut self, invoke: &WastInvoke<'_>) -> Result<Result<Vec<Value>, Trap>, String> {
        let instance = self.instance(invoke.module)?;
        let Some(Extern::Function(function)) = self.engine.export(instance, invoke.name) else {
            return Err(format!("{} is no function", invoke.name));
        };
        let mut arguments = Vec::new();
        for argument in &invoke.args {
            arguments.push(self.argument(argument)?);
        }
        Ok(self.engine.call(function, &arguments))
    }

    fn argument(&mut self, argument: &WastArg<'_>) -> Result<Value, String> {
        let WastArg::Core(argument) = argument else {
            return Err("an argument of a component".into());
        };
        Ok(match argument {
            WastArgCore::I32(number) => Value::I32(*number),
            WastArgCore::I64(number) => Value::I64(*number),
            WastArgCore::F32(number) => Value::F32(number.bits),
            WastArgCore::F64(number) => Value::F64(number.bits),
            WastArgCore::RefNull(_) => Value::Null,
            WastArgCore::RefExtern(number) | WastArgCore::RefHost(number) => Value::Object(
                self.engine
                    .host_object(u64::from(*number))
                    .map_err(text_of)?,
            ),
            other => return Err(format!("an argument {other:?}")),
        })
    }

    fn compare(&self, values: &[Value], results: &[WastRet<'_>]) -> Verdict {
        if values.len() != results.len() {
            return Err(format!(
                "{} results, where {} are expected",
                values.len(),
                results.len()
            ));
        }
        for (value, result) in values.iter().zip(results) {
            let WastRet::Core(result) = result else {
                return Err("a result of a component".into());
            };
            if !self.is_as_expected(value, result) {
                return Err(format!("{value:x?}, where {result:x?} is expected"));
            }
        }
        Ok(())
    }

    fn kind(&self, object: &Object) -> ObjectKind {
        self.engine.kind_of(object)
    }

    fn is_as_expected(&self, value: &Value, result: &WastRetCore<'_>) -> bool {
        match (value, result) {
            (Value::I32(number), WastRetCore::I32(expected)) => number == expected,
            (Value::I64(number), WastRetCore::I64(expected)) => number == expected,
            (Value::F32(bits), WastRetCore::F32(expected)) => match expected {
                NanPattern::CanonicalNan => bits & 0x7fff_ffff == 0x7fc0_0000,
                NanPattern::ArithmeticNan => bits & 0x7fc0_0000 == 0x7fc0_0000,
                NanPattern::Value(expected) => *bits == expected.bits,
            },
            (Value::F64(bits), WastRetCore::F64(expected)) => match expected {
                NanPattern::CanonicalNan => bits & (u64::MAX >> 1) == 0x7ff8 << 48,
                NanPattern::ArithmeticNan => bits & (0x7ff8 << 48) == 0x7ff8 << 48,
                NanPattern::Value(expected) => *bits == expected.bits,
            },
            (Value::Null, WastRetCore::RefNull(_)) => true,
            (Value::Function(_), WastRetCore::RefFunc(_)) => true,
            (Value::Object(_), WastRetCore::RefAny | WastRetCore::RefExtern(None)) => true,
            (
                Value::Object(object),
                WastRetCore::RefExtern(Some(number)) | WastRetCore::RefHost(number),
            ) => self.kind(object) == ObjectKind::Host(u64::from(*number)),
            (Value::Object(object), WastRetCore::RefEq) => {
                matches!(
                    self.kind(object),
                    ObjectKind::I31(_) | ObjectKind::Struct | ObjectKind::Array
                )
            }
            (Value::Object(object), WastRetCore::RefI31) => {
                matches!(self.kind(object), ObjectKind::I31(_))
            }
            (Value::Object(object), WastRetCore::RefStruct) => {
                self.kind(object) == ObjectKind::Struct
            }
            (Value::Object(object), WastRetCore::RefArray) => {
                self.kind(object) == ObjectKind::Array
            }
            (_, WastRetCore::Either(all)) => all.iter().any(|one| self.is_as_expected(value, one)),
            _ => false,
        }
    }
}

/// Whether a trap is the one that a script expects. The scripts name what null was taken for; the engine does not.
fn traps_with(trap: &Trap, message: &str) -> Verdict {
    let text = trap.kind().map_or("no trap", TrapKind::text);
    let is_null = message.starts_with("null") && trap.kind() == Some(TrapKind::NullReference);
    if is_null || message.starts_with(text) {
        return Ok(());
    }
    Err(format!("{trap}, where {message} is expected"))
}

/// The module that the scripts import from.
fn spectest(engine: &mut Engine) -> HashMap<&'static str, Extern> {
    use ValType::{F32, F64, I32, I64};
    let mut module = HashMap::new();
    let printers: [(&str, &[ValType]); 7] = [
        ("print", &[]),
        ("print_i32", &[I32]),
        ("print_i64", &[I64]),
        ("print_f32", &[F32]),
        ("print_f64", &[F64]),
        ("print_i32_f32", &[I32, F32]),
        ("print_f64_f64", &[F64, F64]),
    ];
    for (name, params) in printers {
        let signature = Signature {
            params: params.to_vec(),
            results: Vec::new(),
        };
        let function = engine
            .host_function(signature, |_, _| Ok(Vec::new()))
            .unwrap();
        module.insert(name, Extern::Function(function));
    }
    let globals = [
        ("global_i32", I32, Value::I32(666)),
        ("global_i64", I64, Value::I64(666)),
        ("global_f32", F32, Value::F32(666.6_f32.to_bits())),
        ("global_f64", F64, Value::F64(666.6_f64.to_bits())),
    ];
    for (name, ty, value) in globals {
        module.insert(name, engine.new_global(ty, false, &value).unwrap());
    }
    module.insert("table", engine.new_function_table(10, Some(20)).unwrap());
    module.insert("memory", engine.new_memory(1, Some(2)).unwrap());
    module
}
