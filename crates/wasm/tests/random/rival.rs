//! A process that says what modules do on another machine: it reads each as its length in four bytes, little end first, and its
//! bytes, and then its plan in the same way. It prints a line for each call, and at last a point.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread;

use crate::outcomes::Outcome;
use crate::plan::Plan;

/// The process.
pub struct Rival {
    pub name: String,
    child: Child,
    /// To a thread that writes: the process may not read until its own output is read.
    input: Sender<Vec<u8>>,
    lines: BufReader<ChildStdout>,
}

impl Rival {
    /// Starts the program at this place.
    pub fn start(program: &OsStr) -> Rival {
        let name = program.display().to_string();
        let mut child = Command::new(program)
            .arg("--outcomes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}: make rivals-wasm builds it"));
        let mut pipe = child.stdin.take().unwrap();
        let (input, questions) = mpsc::channel::<Vec<u8>>();
        thread::spawn(move || {
            // That the process ended is found by who reads.
            while let Ok(question) = questions.recv()
                && pipe.write_all(&question).is_ok()
            {}
        });
        let lines = BufReader::new(child.stdout.take().unwrap());
        Rival {
            name,
            child,
            input,
            lines,
        }
    }

    /// Asks what a module does there, and does not wait for the answer.
    pub fn ask(&self, bytes: &[u8], plan: &Plan) {
        let mut question = Vec::new();
        for part in [bytes, plan.text().as_bytes()] {
            let length = u32::try_from(part.len()).unwrap();
            question.extend(length.to_le_bytes());
            question.extend(part);
        }
        // The thread ends when the process does.
        let _ = self.input.send(question);
    }

    /// What the module does that was asked about first, of those without an answer.
    pub fn outcome(&mut self) -> Outcome {
        let mut found = Vec::new();
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).unwrap();
            assert!(read > 0, "{} ended: {:?}", self.name, self.child.wait());
            match line.trim_end() {
                "." => return found,
                line => found.push(line.to_string()),
            }
        }
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // It has nothing to do any more, and no result that counts.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
