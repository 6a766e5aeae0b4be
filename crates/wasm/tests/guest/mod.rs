//! A module whose functions are those of WASI, so that tests can call each with any arguments.

#[path = "../assembly/mod.rs"]
mod assembly;

use std::fs;
use std::path::{Path, PathBuf};

pub use assembly::assemble;
use gleaner::Heap;
use gleaner_wasm::wasi::{self, Setup};
use gleaner_wasm::{Engine, Extern, InstanceId, Value};

/// What the functions take: `i` has 32 bits, `l` 64.
pub const FUNCTIONS: [(&str, &str); 44] = [
    ("args_get", "ii"),
    ("args_sizes_get", "ii"),
    ("environ_get", "ii"),
    ("environ_sizes_get", "ii"),
    ("clock_res_get", "ii"),
    ("clock_time_get", "ili"),
    ("random_get", "ii"),
    ("sched_yield", ""),
    ("fd_advise", "illi"),
    ("fd_allocate", "ill"),
    ("fd_close", "i"),
    ("fd_renumber", "ii"),
    ("fd_fdstat_set_flags", "ii"),
    ("fd_fdstat_set_rights", "ill"),
    ("fd_fdstat_get", "ii"),
    ("fd_filestat_get", "ii"),
    ("fd_filestat_set_size", "il"),
    ("fd_read", "iiii"),
    ("fd_pread", "iiili"),
    ("fd_pwrite", "iiili"),
    ("fd_sync", "i"),
    ("fd_datasync", "i"),
    ("fd_seek", "ilii"),
    ("fd_tell", "ii"),
    ("fd_write", "iiii"),
    ("fd_prestat_get", "ii"),
    ("fd_prestat_dir_name", "iii"),
    ("fd_readdir", "iiili"),
    ("path_open", "iiiiillii"),
    ("path_filestat_get", "iiiii"),
    ("path_create_directory", "iii"),
    ("path_remove_directory", "iii"),
    ("fd_filestat_set_times", "illi"),
    ("path_filestat_set_times", "iiiilli"),
    ("path_link", "iiiiiii"),
    ("path_symlink", "iiiii"),
    ("path_readlink", "iiiiii"),
    ("path_unlink_file", "iii"),
    ("path_rename", "iiiiii"),
    ("poll_oneoff", "iiii"),
    ("sock_accept", "iii"),
    ("sock_recv", "iiiiii"),
    ("sock_send", "iiiii"),
    ("sock_shutdown", "ii"),
];

pub fn engine() -> Engine {
    Engine::new(Heap::builder().limit(4 << 20), true).unwrap()
}

pub fn import(name: &str, letters: &str) -> String {
    let params: String = letters
        .chars()
        .map(|letter| match letter {
            'i' => " i32",
            _ => " i64",
        })
        .collect();
    format!(
        r#"(import "wasi_snapshot_preview1" "{name}" (func ${name} (param{params}) (result i32)))"#
    )
}

/// An instance that exports each function of WASI as it imports it, so that tests can call them.
pub struct Guest {
    pub engine: Engine,
    pub instance: InstanceId,
}

impl Guest {
    pub fn new(setup: Setup) -> Guest {
        let mut text = String::from("(module ");
        for (name, letters) in FUNCTIONS {
            text.push_str(&import(name, letters));
            text.push_str(&format!(r#"(export "{name}" (func ${name}))"#));
        }
        text.push_str(r#"(memory (export "memory") 1))"#);
        let mut engine = engine();
        let module = engine.load(&assemble(&text)).unwrap();
        let instance = wasi::instantiate(&mut engine, &module, setup).unwrap();
        Guest { engine, instance }
    }

    pub fn call(&mut self, name: &str, arguments: &[i64]) -> i32 {
        let letters = FUNCTIONS
            .iter()
            .find(|(known, _)| *known == name)
            .unwrap()
            .1;
        assert_eq!(letters.len(), arguments.len(), "{name}");
        let values: Vec<Value> = letters
            .chars()
            .zip(arguments)
            .map(|(letter, &number)| match letter {
                'i' => Value::I32(number as i32),
                _ => Value::I64(number),
            })
            .collect();
        let Some(Extern::Function(function)) = self.engine.export(self.instance, name) else {
            panic!("{name} is not exported");
        };
        match self.engine.call(function, &values).unwrap()[..] {
            [Value::I32(number)] => number,
            ref other => panic!("{name} returned {other:?}"),
        }
    }

    pub fn memory(&mut self) -> usize {
        match self.engine.export(self.instance, "memory") {
            Some(Extern::Memory(memory)) => memory,
            other => panic!("the memory is {other:?}"),
        }
    }

    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        let memory = self.memory();
        self.engine.with_memory(memory, |all| {
            all[at..at + bytes.len()].copy_from_slice(bytes);
        });
    }

    pub fn get(&mut self, at: usize, count: usize) -> Vec<u8> {
        let memory = self.memory();
        self.engine
            .with_memory(memory, |all| all[at..at + count].to_vec())
    }

    pub fn u32(&mut self, at: usize) -> u32 {
        u32::from_le_bytes(self.get(at, 4).try_into().unwrap())
    }

    pub fn u64(&mut self, at: usize) -> u64 {
        u64::from_le_bytes(self.get(at, 8).try_into().unwrap())
    }

    /// Puts a path at 1000: its address and length.
    pub fn path(&mut self, path: &str) -> [i64; 2] {
        self.put(1000, path.as_bytes());
        [1000, path.len() as i64]
    }

    /// Opens a path below directory 3 with rights to read, and to write if asked: the answer, and the number of the file.
    pub fn open(&mut self, path: &str, how: i64, writes: bool) -> (i32, i64) {
        let [at, count] = self.path(path);
        let rights = if writes { 0x42 } else { 2 };
        let answer = self.call("path_open", &[3, 1, at, count, how, rights, 0, 0, 900]);
        (answer, i64::from(self.u32(900)))
    }

    /// Writes a text to a file: the answer, and how much was written.
    pub fn write(&mut self, file: i64, text: &str) -> (i32, u32) {
        self.put(2000, text.as_bytes());
        let mut stretch = 2000u32.to_le_bytes().to_vec();
        stretch.extend((text.len() as u32).to_le_bytes());
        self.put(1900, &stretch);
        (
            self.call("fd_write", &[file, 1900, 1, 1950]),
            self.u32(1950),
        )
    }

    /// Reads at most 100 bytes of a file.
    pub fn read(&mut self, file: i64) -> Result<Vec<u8>, i32> {
        let stretches = [2000u32, 0, 2000, 100].map(u32::to_le_bytes).concat();
        self.put(1900, &stretches);
        match self.call("fd_read", &[file, 1900, 2, 1950]) {
            0 => {
                let count = self.u32(1950) as usize;
                Ok(self.get(2000, count))
            }
            error => Err(error),
        }
    }
}

/// An empty directory for one test.
pub fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("wasi-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// A guest with a directory `/data`, which is `root` in a new directory; beside it lies a file `secret`.
pub fn guest_with_directory(name: &str) -> (Guest, PathBuf) {
    let outside = directory(name);
    fs::write(outside.join("secret"), "secret").unwrap();
    let root = outside.join("root");
    fs::create_dir(&root).unwrap();
    let mut setup = Setup::new().unwrap();
    setup.directory(&root, "/data").unwrap();
    (Guest::new(setup), root)
}
