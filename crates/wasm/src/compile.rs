//! CLIF to machine code: the settings of Cranelift, one function at a time, and what is kept of each beside its bytes.

use std::time::{Duration, Instant};

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{ExternalName, Function, Value};
use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{Context, FinalizedMachExceptionHandler, FinalizedRelocTarget};
use cranelift_frontend::FunctionBuilderContext;

use crate::check;
use crate::error::{EngineError, LoadError};
use crate::stack::Stack;

/// A function's frame may have so many bytes: what the reserve behind the limit of the stack has room for, with the
/// runtime's own frames.
const MOST_FRAME_BYTES: u32 = 64 << 10;

/// Which values in a frame are references while a call is active.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StackMap {
    /// Of the return address, from the start of the function.
    pub(crate) offset: u32,
    /// How far below the frame pointer the slots lie, in bytes.
    pub(crate) slots: Box<[u32]>,
}

/// Where an exception that leaves a call is caught.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handler {
    /// Of the return address, from the start of the function.
    pub(crate) offset: u32,
    /// Of the landing block, from the start of the function.
    pub(crate) landing: u32,
    /// How far the stack pointer lies below the frame pointer there.
    pub(crate) frame_bytes: u32,
}

/// A compiled function. Offsets count from its start.
pub(crate) struct Compiled {
    pub(crate) bytes: Vec<u8>,
    /// Where the distance to another function of the module, by its index, is to be written.
    pub(crate) calls: Vec<(u32, u32)>,
    /// By ascending offset.
    pub(crate) maps: Vec<StackMap>,
    /// By ascending offset.
    pub(crate) handlers: Vec<Handler>,
    /// Where each instruction begins, and the offset in the module of what it was made from; ascending.
    pub(crate) places: Vec<(u32, u32)>,
}

/// Compiles functions, one after the other, on a stack of its own.
pub(crate) struct Compiler {
    stack: Stack,
    generator: Generator,
    /// How long it has run.
    time: Duration,
}

struct Generator {
    isa: OwnedTargetIsa,
    context: Context,
    scratch: FunctionBuilderContext,
    checks: bool,
}

/// What the processor has, by Cranelift's names.
fn processor_features() -> [(&'static str, bool); 12] {
    [
        ("has_sse3", is_x86_feature_detected!("sse3")),
        ("has_ssse3", is_x86_feature_detected!("ssse3")),
        ("has_cmpxchg16b", is_x86_feature_detected!("cmpxchg16b")),
        ("has_sse41", is_x86_feature_detected!("sse4.1")),
        ("has_sse42", is_x86_feature_detected!("sse4.2")),
        ("has_avx", is_x86_feature_detected!("avx")),
        ("has_avx2", is_x86_feature_detected!("avx2")),
        ("has_fma", is_x86_feature_detected!("fma")),
        ("has_popcnt", is_x86_feature_detected!("popcnt")),
        ("has_bmi1", is_x86_feature_detected!("bmi1")),
        ("has_bmi2", is_x86_feature_detected!("bmi2")),
        ("has_lzcnt", is_x86_feature_detected!("lzcnt")),
    ]
}

impl Compiler {
    /// With `checks` each function is verified: Cranelift's rules, and the safety check.
    pub(crate) fn new(checks: bool) -> Result<Compiler, EngineError> {
        let refused = |error: &dyn std::fmt::Display| {
            EngineError::Options(format!("no code generator: {error}"))
        };
        if !is_x86_feature_detected!("sse4.1") {
            return Err(refused(&"a processor with SSE 4.1 is needed"));
        }
        let mut flags = settings::builder();
        for (name, value) in [
            ("opt_level", "speed"),
            ("preserve_frame_pointers", "true"),
            ("enable_pinned_reg", "true"),
            ("enable_multi_ret_implicit_sret", "true"),
            ("enable_probestack", "false"),
            ("unwind_info", "false"),
            ("enable_verifier", if checks { "true" } else { "false" }),
        ] {
            flags.set(name, value).map_err(|error| refused(&error))?;
        }
        let mut isa =
            isa::lookup_by_name("x86_64-unknown-linux-gnu").map_err(|error| refused(&error))?;
        for (name, _) in processor_features().into_iter().filter(|&(_, has)| has) {
            isa.enable(name).map_err(|error| refused(&error))?;
        }
        let isa = isa
            .finish(settings::Flags::new(flags))
            .map_err(|error| refused(&error))?;
        let stack = Stack::new();
        let no_stack = |error| EngineError::Full(format!("no stack for the compiler: {error}"));
        Ok(Compiler {
            stack: stack.map_err(no_stack)?,
            generator: Generator {
                isa,
                context: Context::new(),
                scratch: FunctionBuilderContext::new(),
                checks,
            },
            time: Duration::ZERO,
        })
    }

    pub(crate) fn frontend(&self) -> cranelift_codegen::isa::TargetFrontendConfig {
        self.generator.isa.frontend_config()
    }

    /// How long it has run since it was made.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// Compiles what `translate` writes, whose result are the values that are references; `name` is what a message calls it.
    pub(crate) fn compile(
        &mut self,
        name: &dyn Fn() -> String,
        translate: impl FnOnce(
            &mut Function,
            &mut FunctionBuilderContext,
        ) -> Result<Vec<Value>, LoadError>,
    ) -> Result<Compiled, LoadError> {
        let start = Instant::now();
        let Compiler {
            stack, generator, ..
        } = self;
        let compiled = stack.run(|| generator.compile(name, translate));
        self.time += start.elapsed();
        compiled
    }
}

impl Generator {
    fn compile(
        &mut self,
        name: &dyn Fn() -> String,
        translate: impl FnOnce(
            &mut Function,
            &mut FunctionBuilderContext,
        ) -> Result<Vec<Value>, LoadError>,
    ) -> Result<Compiled, LoadError> {
        self.context.clear();
        let references = translate(&mut self.context.func, &mut self.scratch)?;
        if self.checks {
            let unsafe_values = check::check(&self.context.func, &references);
            assert!(
                unsafe_values.is_empty(),
                "{}: {unsafe_values:?}\n{}",
                name(),
                self.context.func.display()
            );
        }
        if let Err(error) = self
            .context
            .compile(&*self.isa, &mut ControlPlane::default())
        {
            return Err(LoadError::TooLarge(format!("{}: {}", name(), error.inner)));
        }
        let code = self.context.compiled_code().expect("it was compiled");
        let buffer = &code.buffer;
        let frame_bytes = buffer
            .frame_layout()
            .map_or(0, |layout| layout.frame_to_fp_offset);
        if frame_bytes > MOST_FRAME_BYTES {
            let message = format!(
                "{} needs {frame_bytes} bytes of stack, of {MOST_FRAME_BYTES}",
                name()
            );
            return Err(LoadError::TooLarge(message));
        }
        let maps = buffer.user_stack_maps().iter();
        let maps = maps.map(|(offset, span, map)| StackMap {
            offset: *offset,
            slots: map
                .entries()
                .map(|(_, from_stack_pointer)| span - from_stack_pointer)
                .collect(),
        });
        let mut handlers = Vec::new();
        for site in buffer.call_sites() {
            for handler in site.exception_handlers {
                if let FinalizedMachExceptionHandler::Default(landing) = *handler {
                    let frame_bytes = site.frame_offset.unwrap_or(frame_bytes);
                    handlers.push(Handler {
                        offset: site.ret_addr,
                        landing,
                        frame_bytes,
                    });
                }
            }
        }
        let places = buffer.get_srclocs_sorted().iter();
        Ok(Compiled {
            bytes: buffer.data().to_vec(),
            calls: calls(buffer.relocs(), &self.context.func),
            maps: maps.collect(),
            handlers,
            places: places
                .filter(|place| !place.loc.is_default())
                .map(|place| (place.start, place.loc.bits()))
                .collect(),
        })
    }
}

/// The calls of other functions of the module, which are the only relocations.
fn calls(relocs: &[cranelift_codegen::FinalizedMachReloc], function: &Function) -> Vec<(u32, u32)> {
    let call = |reloc: &cranelift_codegen::FinalizedMachReloc| {
        let FinalizedRelocTarget::ExternalName(ExternalName::User(name)) = &reloc.target else {
            panic!("a relocation to {:?}", reloc.target);
        };
        assert!(
            reloc.kind == Reloc::X86CallPCRel4 && reloc.addend == -4,
            "a relocation of kind {:?}",
            reloc.kind
        );
        (
            reloc.offset,
            function.params.user_named_funcs()[*name].index,
        )
    };
    relocs.iter().map(call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trampolines;
    use crate::types::Signature;

    #[test]
    fn the_compiler_runs_on_its_own_stack() {
        let mut compiler = Compiler::new(true).unwrap();
        let frontend = compiler.frontend();
        let signature = Signature {
            params: Vec::new(),
            results: Vec::new(),
        };
        let mut place: *const u8 = std::ptr::null();
        let compiled = compiler.compile(&|| "an entry".into(), |into, scratch| {
            let here = 0;
            place = &raw const here;
            Ok(trampolines::entry(&signature, frontend, into, scratch))
        });
        assert!(!compiled.unwrap().bytes.is_empty());
        assert!(compiler.time() > Duration::ZERO);
        assert!(compiler.stack.holds(place));
        let here = 0;
        assert!(!compiler.stack.holds(&raw const here));
    }
}
