//! Compiling a function when it is first called.
//!
//! Each function of a module that is not compiled yet has a *stub*. Where code looks for the function, it finds the stub's
//! address: in the word of the context through which direct calls go, and in the function's record, which references lead
//! to. The stub passes the function's number to [`compile_stub`], which keeps the arguments of the call, compiles,
//! publishes the code, and goes on there as if it had been called. The stub's frame is gone then.
//!
//! # Publication
//! The address of the code goes to [`Loaded::functions`], from which later instances take it, and to the context and the
//! record of each instance. An engine stays on one thread ([`Engine`](crate::Engine) is neither `Send` nor `Sync`, as its
//! documentation proves), which compiles, publishes and calls. So the writes need no order. An address of a stub that code
//! has read before stays good: the stub finds that the function was compiled.
//!
//! # Invariants
//! - Nothing is allocated in the heap while a function is compiled. The arguments of the call that waits are in no stack map.
//! - What a stub leads to exists as long as the engine: [`State::modules`] keeps it.

use std::arch::naked_asm;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use crate::code_memory::{ALIGNMENT, FILLER};
use crate::error::{LoadError, Trap};
use crate::frames;
use crate::module::Declarations;
use crate::runtime::end_with;
use crate::state::{Ending, Loaded, Source, State};

/// What all stubs of a module share comes first.
const HEAD_BYTES: usize = 2 * ALIGNMENT;

/// The address of the stub of the module's own function with this number.
fn stub(of: &Source, own: usize) -> *const u8 {
    of.stubs.get().wrapping_add(HEAD_BYTES + own * ALIGNMENT)
}

/// The stubs of a module with so many functions of its own, in machine code. Each takes one unit of [`ALIGNMENT`].
fn stubs(module: *const Loaded, functions: usize) -> Vec<u8> {
    let mut image = Vec::with_capacity(HEAD_BYTES + functions * ALIGNMENT);
    // mov rax, module
    image.extend_from_slice(&[0x48, 0xb8]);
    image.extend_from_slice(&(module as u64).to_le_bytes());
    // mov r11, compile_stub
    image.extend_from_slice(&[0x49, 0xbb]);
    image.extend_from_slice(&(compile_stub as *const () as u64).to_le_bytes());
    // jmp r11
    image.extend_from_slice(&[0x41, 0xff, 0xe3]);
    image.resize(HEAD_BYTES, FILLER);
    for own in 0..functions as u32 {
        // mov r10d, own
        image.extend_from_slice(&[0x41, 0xba]);
        image.extend_from_slice(&own.to_le_bytes());
        // jmp to the head: the distance counts from the end of this instruction.
        image.push(0xe9);
        let end = image.len() + 4;
        image.extend_from_slice(&(-(end as i32)).to_le_bytes());
        image.resize(image.len().next_multiple_of(ALIGNMENT), FILLER);
    }
    image
}

/// Where stubs go: `rax` has the module, `r10` the number of one of its functions, and all else is as its caller left it.
/// It keeps the registers that hold arguments in Cranelift's calling convention `tail`, none of which is a vector. The
/// anchor stays what it was: nothing looks at the frames of compiled code before the function runs.
#[unsafe(naked)]
unsafe extern "C" fn compile_stub() {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 64",
        "movsd [rsp], xmm0",
        "movsd [rsp + 8], xmm1",
        "movsd [rsp + 16], xmm2",
        "movsd [rsp + 24], xmm3",
        "movsd [rsp + 32], xmm4",
        "movsd [rsp + 40], xmm5",
        "movsd [rsp + 48], xmm6",
        "movsd [rsp + 56], xmm7",
        "mov rdi, rax",
        "mov esi, r10d",
        "call {compile}",
        "movsd xmm0, [rsp]",
        "movsd xmm1, [rsp + 8]",
        "movsd xmm2, [rsp + 16]",
        "movsd xmm3, [rsp + 24]",
        "movsd xmm4, [rsp + 32]",
        "movsd xmm5, [rsp + 40]",
        "movsd xmm6, [rsp + 48]",
        "movsd xmm7, [rsp + 56]",
        "add rsp, 64",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rbp",
        "jmp rax",
        compile = sym compile,
    )
}

/// Compiles a function of a module: where its code lies. What goes wrong ends the newest entry into compiled code.
///
/// # Safety
/// A stub of the module was called.
unsafe extern "C" fn compile(module: *const Loaded, own: u32) -> *const u8 {
    // SAFETY: modules and the state exist as long as the engine, whose compiled code called. Nothing else borrows the state
    // while that runs.
    let (module, state) = unsafe {
        let module = &*module;
        let source = module.source.as_ref().expect("a module with stubs has it");
        (module, &mut *source.state)
    };
    let compiled = catch_unwind(AssertUnwindSafe(|| state.compile_own(module, own as usize)));
    let ending = match compiled {
        Ok(Ok(code)) => return code,
        Ok(Err(error)) => Ending::Trap(Trap::Host(error.to_string())),
        Err(payload) => Ending::Panic(payload),
    };
    // SAFETY: compiled code is active, since it called; of this function nothing is left.
    unsafe {
        let stack_pointer = end_with(state, ending);
        frames::leave(stack_pointer)
    }
}

impl State {
    /// A module whose functions are compiled when they are first called.
    pub(crate) fn load_lazily(
        &mut self,
        bytes: &[u8],
        declarations: &Arc<Declarations>,
    ) -> Result<Rc<Loaded>, LoadError> {
        let start = declarations.bodies.first().map_or(0, |body| body.start);
        let end = declarations.bodies.last().map_or(0, |body| body.end);
        let source = Source {
            state: self,
            bodies: bytes[start..end].into(),
            start,
            stubs: Cell::new(std::ptr::null()),
            instances: RefCell::default(),
        };
        let none = Cell::new(std::ptr::null());
        let loaded = Rc::new(Loaded {
            owner: self.id,
            declarations: Arc::clone(declarations),
            functions: vec![none; declarations.bodies.len()].into(),
            source: Some(source),
        });
        let source = loaded.source.as_ref().expect("it was given");
        let image = stubs(Rc::as_ptr(&loaded), loaded.functions.len());
        source.stubs.set(self.code.add_stubs(&image)?);
        for (own, function) in loaded.functions.iter().enumerate() {
            function.set(stub(source, own));
        }
        self.modules.push(Rc::clone(&loaded));
        Ok(loaded)
    }

    /// Compiles a function, unless that was done before: where its code lies.
    fn compile_own(&mut self, module: &Loaded, own: usize) -> Result<*const u8, LoadError> {
        let source = module.source.as_ref().expect("a module with stubs has it");
        let known = module.functions[own].get();
        if known != stub(source, own) {
            return Ok(known);
        }
        let declarations = &module.declarations;
        let range = &declarations.bodies[own];
        let compiled = self.compile_function(declarations, own, source.body(range))?;
        let index = (declarations.imported_funcs + own) as u32;
        let functions = [(Some(index), compiled)];
        let code = self.code.add(&functions, Some(declarations))?[0];
        self.publish(module, own, code);
        Ok(code)
    }

    /// Writes where a function's code lies to all places in which code looks for it.
    fn publish(&mut self, module: &Loaded, own: usize, code: *const u8) {
        module.functions[own].set(code);
        let index = module.declarations.imported_funcs + own;
        let source = module.source.as_ref().expect("a module with stubs has it");
        for &number in source.instances.borrow().iter() {
            let instance = &mut self.instances[number];
            let layout = instance.layout;
            let word = layout.code(index as u32).expect("the module has stubs") / 8;
            instance.context[word as usize] = code as u64;
            let record: NonNull<_> = instance.functions[index];
            // SAFETY: the record of the instance, which exists as long as the engine, and of which nothing is borrowed.
            unsafe { (*record.as_ptr()).code = code };
        }
    }
}

#[cfg(test)]
mod tests {
    use gleaner::Heap;

    use super::*;
    use crate::instance::{Extern, InstanceId};
    use crate::state::Engine;
    use crate::types::Signature;

    #[test]
    fn code_is_made_once_and_published_to_all_instances() {
        let text = r#"(module (import "host" "function" (func)) (func) (func) (func))"#;
        let buffer = wast::parser::ParseBuffer::new(text).unwrap();
        let module = wast::parser::parse::<wast::Wat<'_>>(&buffer)
            .unwrap()
            .encode();
        let mut engine = Engine::new(Heap::builder().limit(4 << 20), true).unwrap();
        let module = engine.load(&module.unwrap()).unwrap();
        let nothing = Signature {
            params: Vec::new(),
            results: Vec::new(),
        };
        let host = engine
            .host_function(nothing, |_, _| Ok(Vec::new()))
            .unwrap();
        let instance = |engine: &mut Engine| -> InstanceId {
            let made = engine.instantiate(&module, &|_, _| Some(Extern::Function(host)));
            made.unwrap()
        };
        let mut instances = vec![instance(&mut engine), instance(&mut engine)];
        let code = engine.state().compile_own(&module.0, 1).unwrap();
        assert_eq!(engine.state().compile_own(&module.0, 1).unwrap(), code);
        assert_eq!(engine.compilation().compiled, 1);
        instances.push(instance(&mut engine));
        let source = module.0.source.as_ref().unwrap();
        let expected = [stub(source, 0), code, stub(source, 2)];
        for InstanceId(number) in instances {
            let instance = &engine.state().instances[number];
            for (own, expected) in expected.into_iter().enumerate() {
                let word = instance.layout.code(own as u32 + 1).unwrap() / 8;
                assert_eq!(instance.context[word as usize], expected as u64);
                // SAFETY: a record of an instance whose engine exists.
                let record = unsafe { instance.functions[own + 1].read() };
                assert_eq!(record.code, expected);
            }
        }
    }

    #[test]
    fn each_stub_has_its_number_and_leads_to_the_head() {
        let module: *const Loaded = std::ptr::without_provenance(0x1234_5678_9abc_def0);
        let image = stubs(module, 300);
        assert_eq!(image.len(), HEAD_BYTES + 300 * ALIGNMENT);
        assert_eq!(image[2..10], 0x1234_5678_9abc_def0_u64.to_le_bytes());
        for own in 0..300 {
            let start = HEAD_BYTES + own * ALIGNMENT;
            let stub = &image[start..start + ALIGNMENT];
            assert_eq!(stub[2..6], (own as u32).to_le_bytes());
            let distance = i32::from_le_bytes(stub[7..11].try_into().unwrap());
            assert_eq!(start as i32 + 11 + distance, 0);
            assert!(stub[11..].iter().all(|&byte| byte == FILLER));
        }
    }
}
