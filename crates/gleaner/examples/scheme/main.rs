//! A Scheme on the safe layer of the precise heap: the same language as `examples/scheme`, which is written in C.
//!
//!     cargo run --release -p gleaner --example scheme -- examples/scheme/programs/prelude.scm FILE...
//!
//! It has integers of 64 bits, symbols, strings, vectors, closures, tail calls, continuations, errors that a program
//! handles, tables with weak keys, and threads that share the heap. It reads and runs the files one after the other.

#![forbid(unsafe_code)]

mod expander;
mod machine;
mod objects;
mod primitives;
mod reader;
mod threads;
mod weak_tables;
mod writer;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use gleaner::{Heap, Scope};

use machine::Machine;
use objects::{Failure, Scheme, World};
use reader::Reader;

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scheme: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(files: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let heap = Heap::builder().limit(64 << 20).build()?;
    heap.attach()?.scope(|scope| {
        let world = World::new(&heap, scope)?;
        let scheme = Scheme::new(Arc::clone(&world), scope);
        let done = scope.nested(|scope| {
            expander::define_syntax(&scheme, scope)?;
            primitives::define(&scheme, scope)?;
            for file in files {
                run_file(&scheme, scope, &file)?;
            }
            Ok(())
        });
        world.threads.join_all(scope);
        done
    })
}

fn run_file(scheme: &Scheme<'_>, scope: &mut Scope<'_>, file: &str) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let mut reader = Reader::new(&text);
    while scope.nested(|scope| run_form(scheme, scope, &mut reader))? {}
    Ok(())
}

/// Reads and runs the next form; false if there is none.
fn run_form(
    scheme: &Scheme<'_>,
    scope: &mut Scope<'_>,
    reader: &mut Reader<'_>,
) -> Result<bool, Failure> {
    let form = scope.null();
    if !reader.read(scheme, scope, form)? {
        return Ok(false);
    }
    expander::expand(scheme, scope, form, form)?;
    let machine = Machine::new(scheme, scope);
    machine.evaluate(scope, form, form)?;
    Ok(true)
}
