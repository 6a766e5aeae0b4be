//! A process that says what modules do on another machine: it reads each as its length in four bytes, little end first, and its
//! bytes, and then its plan in the same way. It prints a line for each call, and at last a point.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::outcomes::Outcome;
use crate::plan::Plan;

/// The process.
pub struct Rival {
    pub name: String,
    child: Child,
    input: ChildStdin,
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
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Rival {
            name,
            child,
            input,
            lines,
        }
    }

    /// What a module does there.
    pub fn outcome(&mut self, bytes: &[u8], plan: &Plan) -> Outcome {
        for part in [bytes, plan.text().as_bytes()] {
            let length = u32::try_from(part.len()).unwrap();
            self.input.write_all(&length.to_le_bytes()).unwrap();
            self.input.write_all(part).unwrap();
        }
        self.input.flush().unwrap();
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
