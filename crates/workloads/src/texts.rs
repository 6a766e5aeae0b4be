//! Real text to be indexed, compressed or split, from Debian's licences and documentation or a directory of the user's.
//!
//! The selection is the same for the same files: in the order of their paths, each content once, up to a bound. A text
//! is a file, plain or `.gz`, without a zero byte; links, what is too large and what cannot be read are left out.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::Scale;
use super::random::hash_of;
use crate::failure::{Failure, Result};

/// Where Debian has texts.
const PLACES: [&str; 2] = ["/usr/share/common-licenses", "/usr/share/doc"];
/// Bytes of one text, at most.
const LARGEST: u64 = 512 << 10;

/// A text.
pub struct Text {
    /// Its path.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The texts for a run of a workload; an error when there are too few.
pub fn read(scale: &Scale, workload: &str) -> Result<Vec<Text>> {
    let (least, most) = scale.of((4 << 20, 12 << 20), (64 << 10, 192 << 10));
    let places: Vec<PathBuf> = match &scale.input {
        Some(place) => vec![place.clone()],
        None => PLACES.map(PathBuf::from).to_vec(),
    };
    let least = if scale.input.is_some() { 1 } else { least };
    let texts = select(&places, most);
    let found: usize = texts.iter().map(|text| text.bytes.len()).sum();
    if found >= least {
        return Ok(texts);
    }
    let places: Vec<_> = places
        .iter()
        .map(|place| place.display().to_string())
        .collect();
    Err(Failure::new(format!(
        "{workload}: {} bytes of text in {}, and {least} are needed: install packages that bring documentation (git and \
         python3-doc do; where the system leaves out /usr/share/doc, see /etc/dpkg/dpkg.cfg.d), or name a directory \
         with --input",
        found,
        places.join(" and ")
    )))
}

fn select(places: &[PathBuf], most: usize) -> Vec<Text> {
    let (mut texts, mut seen, mut found) = (Vec::new(), HashSet::new(), 0);
    for place in places {
        let mut files = Vec::new();
        list(place, &mut files);
        files.sort();
        for path in files {
            let Some(bytes) = text(&path) else { continue };
            if found + bytes.len() > most || !seen.insert((bytes.len(), hash_of(&bytes))) {
                continue;
            }
            found += bytes.len();
            texts.push(Text {
                name: path.display().to_string(),
                bytes,
            });
            if found > most - most / 16 {
                return texts;
            }
        }
    }
    texts
}

/// All files below a directory, without following links.
fn list(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => list(&entry.path(), files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}

/// The content of a file, if it is a text.
fn text(path: &Path) -> Option<Vec<u8>> {
    let file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    let read = if path.extension().is_some_and(|end| end == "gz") {
        MultiGzDecoder::new(file)
            .take(LARGEST + 1)
            .read_to_end(&mut bytes)
    } else {
        file.take(LARGEST + 1).read_to_end(&mut bytes)
    };
    let fits = 1..=LARGEST as usize;
    (read.is_ok() && fits.contains(&bytes.len()) && !bytes.contains(&0)).then_some(bytes)
}

/// The words of a text: letters and digits of ASCII, two to thirty-two of them.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| !byte.is_ascii_alphanumeric())
        .filter(|word| (2..=32).contains(&word.len()))
}
