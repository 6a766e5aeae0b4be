//! WASI preview 1: what a program asks of its host, as functions of the host.
//!
//! The imports of a module decide which functions are made; what is not here is named when the module is instantiated. Here are
//! arguments, environment, clocks, random bytes, streams, files below directories that the host opens, waiting, and the exit. No
//! descriptor is a socket for a program. Signals are not here.
//!
//! A call leaves the heap's gate while it runs, so that it may block.
//!
//! ```no_run
//! use gleaner_wasm::Engine;
//! use gleaner_wasm::wasi::{self, Setup};
//!
//! let mut engine = Engine::new(gleaner::Heap::builder(), false)?;
//! let module = engine.load(&std::fs::read("app.wasm")?)?;
//! let mut setup = Setup::new()?;
//! setup.argument("app.wasm")?;
//! setup.directory("data".as_ref(), "/data")?;
//! let status = wasi::run(&mut engine, &module, setup)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clocks;
mod context;
mod descriptors;
mod directories;
mod errno;
mod files;
mod guest;
mod links;
mod poll;
mod resolve;
mod streams;
mod strings;
mod times;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use crate::error::{InstantiateError, LoadError, Trap};
use crate::instance::{Extern, InstanceId};
use crate::state::{Engine, Module};
use crate::types::{Signature, ValType};
use crate::values::{Function, Value};
use context::{Context, Descriptor};
use errno::Answer;
use guest::{Arguments, Guest};

/// The module that programs import these functions from.
pub const MODULE: &str = "wasi_snapshot_preview1";

type Body = fn(&mut Context, &mut Guest<'_>, &Arguments<'_>) -> Answer;

/// The functions by names, with their parameters: `i` has 32 bits, `l` 64. Each returns an error number.
const FUNCTIONS: [(&str, &str, Body); 44] = [
    ("args_get", "ii", strings::args_get),
    ("args_sizes_get", "ii", strings::args_sizes_get),
    ("environ_get", "ii", strings::environ_get),
    ("environ_sizes_get", "ii", strings::environ_sizes_get),
    ("clock_res_get", "ii", clocks::clock_res_get),
    ("clock_time_get", "ili", clocks::clock_time_get),
    ("random_get", "ii", clocks::random_get),
    ("sched_yield", "", clocks::sched_yield),
    ("fd_advise", "illi", descriptors::fd_advise),
    ("fd_allocate", "ill", descriptors::fd_allocate),
    ("fd_close", "i", descriptors::fd_close),
    ("fd_renumber", "ii", descriptors::fd_renumber),
    ("fd_fdstat_get", "ii", descriptors::fd_fdstat_get),
    (
        "fd_fdstat_set_flags",
        "ii",
        descriptors::fd_fdstat_set_flags,
    ),
    (
        "fd_fdstat_set_rights",
        "ill",
        descriptors::fd_fdstat_set_rights,
    ),
    ("fd_filestat_get", "ii", streams::fd_filestat_get),
    ("fd_filestat_set_size", "il", streams::fd_filestat_set_size),
    (
        "fd_filestat_set_times",
        "illi",
        times::fd_filestat_set_times,
    ),
    ("fd_read", "iiii", streams::fd_read),
    ("fd_pread", "iiili", streams::fd_pread),
    ("fd_pwrite", "iiili", streams::fd_pwrite),
    ("fd_sync", "i", streams::fd_sync),
    ("fd_datasync", "i", streams::fd_datasync),
    ("fd_seek", "ilii", streams::fd_seek),
    ("fd_tell", "ii", streams::fd_tell),
    ("fd_write", "iiii", streams::fd_write),
    ("fd_prestat_get", "ii", directories::fd_prestat_get),
    (
        "fd_prestat_dir_name",
        "iii",
        directories::fd_prestat_dir_name,
    ),
    ("fd_readdir", "iiili", directories::fd_readdir),
    ("path_open", "iiiiillii", files::path_open),
    ("path_filestat_get", "iiiii", files::path_filestat_get),
    ("path_create_directory", "iii", files::path_create_directory),
    ("path_remove_directory", "iii", files::path_remove_directory),
    (
        "path_filestat_set_times",
        "iiiilli",
        times::path_filestat_set_times,
    ),
    ("path_link", "iiiiiii", links::path_link),
    ("path_symlink", "iiiii", links::path_symlink),
    ("path_readlink", "iiiiii", links::path_readlink),
    ("path_unlink_file", "iii", files::path_unlink_file),
    ("path_rename", "iiiiii", files::path_rename),
    ("poll_oneoff", "iiii", poll::poll_oneoff),
    ("sock_accept", "iii", descriptors::no_socket),
    ("sock_recv", "iiiiii", descriptors::no_socket),
    ("sock_send", "iiiii", descriptors::no_socket),
    ("sock_shutdown", "ii", descriptors::no_socket),
];

/// The function that ends the program. It alone returns nothing.
const EXIT: &str = "proc_exit";

/// What a program gets: arguments, environment, standard streams and directories.
#[derive(Debug)]
pub struct Setup {
    arguments: Vec<CString>,
    environment: Vec<CString>,
    streams: [OwnedFd; 3],
    directories: Vec<(OwnedFd, Vec<u8>)>,
}

impl Setup {
    /// No arguments, no environment, no directories, and the standard streams of this process.
    pub fn new() -> io::Result<Setup> {
        let streams = [
            io::stdin().as_fd().try_clone_to_owned()?,
            io::stdout().as_fd().try_clone_to_owned()?,
            io::stderr().as_fd().try_clone_to_owned()?,
        ];
        Ok(Setup {
            arguments: Vec::new(),
            environment: Vec::new(),
            streams,
            directories: Vec::new(),
        })
    }

    /// Adds an argument. The first is what the program calls itself. It fails if the text has a zero byte.
    pub fn argument(&mut self, text: impl Into<Vec<u8>>) -> io::Result<()> {
        self.arguments.push(CString::new(text)?);
        Ok(())
    }

    /// Adds a variable, as `NAME=VALUE`. It fails if the text has a zero byte.
    pub fn variable(&mut self, text: impl Into<Vec<u8>>) -> io::Result<()> {
        self.environment.push(CString::new(text)?);
        Ok(())
    }

    /// Has the program read or write this file as standard stream 0, 1 or 2.
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn stream(&mut self, number: usize, file: OwnedFd) {
        self.streams[number] = file;
    }

    /// Opens a directory for the program, which calls it `guest_name`. It fails if there is none, or if the kernel lacks
    /// `openat2`, without which paths could lead out of it.
    pub fn directory(&mut self, path: &Path, guest_name: &str) -> io::Result<()> {
        let root = resolve::open_root(path)?;
        self.directories.push((root, guest_name.into()));
        Ok(())
    }

    fn into_context(self) -> Context {
        let mut descriptors: Vec<_> = self.streams.map(Descriptor::new).into();
        for (root, name) in self.directories {
            let mut descriptor = Descriptor::new(root);
            descriptor.guest_name = Some(name);
            descriptors.push(descriptor);
        }
        Context::new(self.arguments, self.environment, descriptors)
    }
}

/// Why a program did not end by itself.
#[derive(Debug)]
pub enum RunError {
    /// A function of the host could not be made.
    Host(LoadError),
    /// Its imports do not fit, or there is no memory for it.
    Instantiate(InstantiateError),
    /// It exports neither `_start` nor `_initialize`.
    NoStart,
    /// It exports one of the two as something else than a function without parameters: what it is.
    WrongStart(String),
    /// It trapped, or an exception was not caught.
    Trap(Trap),
}

impl fmt::Display for RunError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Host(error) => error.fmt(out),
            RunError::Instantiate(error @ InstantiateError::Link(_)) => write!(
                out,
                "{error}; programs get WASI preview 1 alone ({MODULE}): compile for that"
            ),
            RunError::Instantiate(error) => error.fmt(out),
            RunError::NoStart => out.write_str(
                "the module exports neither _start nor _initialize: it is a library and no program; compile it as one, with \
                 a main function",
            ),
            RunError::WrongStart(what) => write!(
                out,
                "{what}, where a program has a function () -> (): compile the module as a program, with a main function"
            ),
            RunError::Trap(trap) => trap.fmt(out),
        }
    }
}

impl std::error::Error for RunError {}

/// Instantiates a module and runs it as a program: `_initialize`, then `_start`, as far as it exports them. Returns its exit
/// status: what it gave to `proc_exit`, or 0 if it returns.
pub fn run(engine: &mut Engine, module: &Module, setup: Setup) -> Result<u32, RunError> {
    match run_to_end(engine, module, setup) {
        Err(
            RunError::Trap(Trap::Exit(status))
            | RunError::Instantiate(InstantiateError::Trap(Trap::Exit(status))),
        ) => Ok(status),
        Err(RunError::Instantiate(InstantiateError::Trap(trap))) => Err(RunError::Trap(trap)),
        Err(error) => Err(error),
        Ok(()) => Ok(0),
    }
}

fn run_to_end(engine: &mut Engine, module: &Module, setup: Setup) -> Result<(), RunError> {
    let instance = instantiate(engine, module, setup)?;
    let mut is_program = false;
    for name in ["_initialize", "_start"] {
        let Some(export) = engine.export(instance, name) else {
            continue;
        };
        let state = engine.state();
        let function = match export {
            Extern::Function(function) if state.params(function).is_empty() => function,
            other => {
                let what = state.found_in_words(other);
                return Err(RunError::WrongStart(format!("{name} is {what}")));
            }
        };
        is_program = true;
        engine.call(function, &[]).map_err(RunError::Trap)?;
    }
    match is_program {
        true => Ok(()),
        false => Err(RunError::NoStart),
    }
}

/// Instantiates a module with the functions that it imports. They work on the memory that it exports by the name `memory`.
pub fn instantiate(
    engine: &mut Engine,
    module: &Module,
    setup: Setup,
) -> Result<InstanceId, RunError> {
    let context = Rc::new(RefCell::new(setup.into_context()));
    let names: Vec<String> = module
        .imports()
        .filter(|(from, _)| *from == MODULE)
        .map(|(_, name)| name.to_string())
        .collect();
    let mut made: HashMap<String, Function> = HashMap::new();
    for name in names {
        if let Some(function) = host_function(engine, &name, &context).map_err(RunError::Host)? {
            made.insert(name, function);
        }
    }
    let resolve = |from: &str, name: &str| match from {
        MODULE => made.get(name).copied().map(Extern::Function),
        _ => None,
    };
    let mut find_memory = |engine: &mut Engine, instance| {
        if let Some(Extern::Memory(memory)) = engine.export(instance, "memory") {
            context.borrow_mut().memory = Some(memory);
        }
    };
    engine
        .instantiate_with(module, &resolve, &mut find_memory)
        .map_err(RunError::Instantiate)
}

/// The function of the host with this name, if it is one of those that are here.
fn host_function(
    engine: &mut Engine,
    name: &str,
    context: &Rc<RefCell<Context>>,
) -> Result<Option<Function>, LoadError> {
    if name == EXIT {
        let signature = Signature {
            params: vec![ValType::I32],
            results: Vec::new(),
        };
        let exit = |_: &mut Engine, values: &[Value]| Err(Trap::Exit(Arguments(values).u32(0)));
        return engine.host_function(signature, exit).map(Some);
    }
    let Some(&(name, params, body)) = FUNCTIONS.iter().find(|(known, ..)| *known == name) else {
        return Ok(None);
    };
    let of_letter = |letter| match letter {
        b'i' => ValType::I32,
        _ => ValType::I64,
    };
    let signature = Signature {
        params: params.bytes().map(of_letter).collect(),
        results: vec![ValType::I32],
    };
    let context = Rc::clone(context);
    let call = move |engine: &mut Engine, values: &[Value]| {
        let mut context = context.borrow_mut();
        let memory = context.memory.ok_or_else(|| {
            Trap::Host(format!(
                "{name} was called, and the module exports no memory by the name 'memory'"
            ))
        })?;
        let answer = engine.with_memory(memory, |bytes| {
            body(&mut context, &mut Guest(bytes), &Arguments(values))
        });
        let number = answer.map_or_else(|error| error.0, |()| 0);
        Ok(vec![Value::I32(i32::from(number))])
    };
    engine.host_function(signature, call).map(Some)
}
