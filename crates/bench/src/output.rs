//! What a client printed, reduced to what must not depend on the collector.
//!
//! Outputs can be tens of megabytes, so files are compared piece by piece.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::catalogue::Compare;
use gleaner_workloads::failure::{Failure, Result};

/// Length and hash of what counts in an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest {
    /// Its bytes.
    pub length: u64,
    hash: u64,
}

impl std::fmt::Display for Digest {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{} bytes, {:016x}", self.length, self.hash)
    }
}

/// The digest of an output file.
pub fn digest(path: &Path, compare: Compare) -> Result<Digest> {
    let mut file = File::open(path).map_err(|error| Failure::at(path, error))?;
    let mut hasher = DefaultHasher::new();
    if compare == Compare::Result {
        let result = result_field(&mut file);
        hasher.write(result.as_bytes());
        return Ok(Digest {
            length: result.len() as u64,
            hash: hasher.finish(),
        });
    }
    let mut length = 0;
    let mut piece = vec![0; 1 << 16];
    loop {
        let count = file
            .read(&mut piece)
            .map_err(|error| Failure::at(path, error))?;
        if count == 0 {
            return Ok(Digest {
                length,
                hash: hasher.finish(),
            });
        }
        hasher.write(&piece[..count]);
        length += count as u64;
    }
}

/// Bytes of the end of an output that are read at once.
const END: u64 = 16 << 20;

/// The end of an output, from the first whole line on if its beginning is missing.
fn end_of(file: &mut File, most: u64) -> std::io::Result<Vec<u8>> {
    let length = file.seek(SeekFrom::End(0))?;
    let missing = length.saturating_sub(most);
    file.seek(SeekFrom::Start(missing))?;
    let mut end = Vec::new();
    file.take(most).read_to_end(&mut end)?;
    if missing > 0 {
        let whole = end.iter().position(|byte| *byte == b'\n');
        end.drain(..whole.map_or(end.len(), |at| at + 1));
    }
    Ok(end)
}

/// The field `result` of the last line that is JSON; empty when there is none.
fn result_field(file: &mut File) -> String {
    String::from_utf8_lossy(&end_of(file, END).unwrap_or_default())
        .lines()
        .rev()
        .find_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .and_then(|value| value["result"].as_str().map(String::from))
        .unwrap_or_default()
}

/// The first line in which two outputs differ, for a message.
pub fn first_difference(left: &Path, right: &Path) -> String {
    let lines = |path: &Path| File::open(path).map(|file| BufReader::new(file).split(b'\n'));
    let (Ok(mut left), Ok(mut right)) = (lines(left), lines(right)) else {
        return "an output is missing".into();
    };
    for number in 1.. {
        let next =
            |side: &mut std::io::Split<BufReader<File>>| side.next().and_then(std::io::Result::ok);
        let (one, other) = (next(&mut left), next(&mut right));
        if one != other {
            let show = |line: Option<Vec<u8>>| match line {
                None => "nothing".to_string(),
                Some(line) => format!("{:.100?}", String::from_utf8_lossy(&line)),
            };
            return format!("line {number}: {} against {}", show(one), show(other));
        }
        if one.is_none() {
            break;
        }
    }
    "no line differs".into()
}

/// The last lines of a file, for a message.
pub fn tail(path: &Path, lines: usize) -> String {
    let read = File::open(path).and_then(|mut file| end_of(&mut file, END));
    let text = read.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> std::path::PathBuf {
        let path =
            std::env::temp_dir().join(format!("gleaner-output-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn equal_outputs_have_equal_digests() {
        let (a, b, c) = (
            file("a", "one\ntwo\n"),
            file("b", "one\ntwo\n"),
            file("c", "one\ntwx\n"),
        );
        let digest = |path| digest(path, Compare::Stdout).unwrap();
        assert_eq!(digest(&a), digest(&b));
        assert_ne!(digest(&a), digest(&c));
        assert_eq!(first_difference(&a, &c), "line 2: \"two\" against \"twx\"");
        assert_eq!(first_difference(&a, &b), "no line differs");
        [a, b, c]
            .iter()
            .for_each(|path| std::fs::remove_file(path).unwrap());
    }

    #[test]
    fn of_a_long_output_only_the_end_is_read_and_its_first_line_is_whole() {
        let path = file("long", "cut off\nwhole\nlast\n");
        let end = |most| end_of(&mut File::open(&path).unwrap(), most).unwrap();
        assert_eq!(end(14), b"whole\nlast\n");
        assert_eq!(end(4), b"");
        assert_eq!(end(100), b"cut off\nwhole\nlast\n");
        std::fs::write(&path, "a line without an end").unwrap();
        assert_eq!(end(6), b"");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn of_a_benchmark_only_the_result_counts() {
        let (a, b) = (
            file("r1", "{\"result\":\"7\",\"wall\":1}\n"),
            file("r2", "{\"result\":\"7\",\"wall\":2}\n"),
        );
        let digest = |path| digest(path, Compare::Result).unwrap();
        assert_eq!(digest(&a), digest(&b));
        [a, b]
            .iter()
            .for_each(|path| std::fs::remove_file(path).unwrap());
    }
}
