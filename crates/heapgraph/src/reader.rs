//! Reads a snapshot as a stream, line by line, into arrays.
//!
//! References are addresses until all objects are known; then they become numbers of objects. A file that was cut off,
//! since its program was killed or the disk was full, is read as far as it goes. A line that says nothing is another
//! matter: this is no snapshot, or somebody changed it, so nothing is said about it.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, Read as _};

use crate::addresses::Addresses;
use crate::line::{Record, Words, parse};
use crate::snapshot::{Ending, NO_SITE, Root, Section, Snapshot, Word};

/// With what a snapshot begins; the version comes next.
const TITLE: &[u8] = b"gleaner-heap ";
/// The version that is read.
const VERSION: &[u8] = b"1";
/// The first line is not longer, nor is that of a log of which something is kept.
const LONGEST_TITLE: u64 = 64;
/// An object that refers to tens of millions of others has as long a line.
const LONGEST_LINE: u64 = 2 << 30;
/// With what each line of an event log begins.
const EVENT: &[u8] = b"{\"event\":";
/// Objects and words are numbered with 32 bits, and a few numbers have a meaning.
const MOST: usize = u32::MAX as usize - 1024;

/// Why there is no snapshot.
#[derive(Debug)]
pub enum ReadError {
    /// The system says why.
    Io(io::Error),
    /// There is nothing in it.
    Empty,
    /// It was cut off in or after that line, before its first object.
    CutEarly {
        /// From 1.
        line: u64,
    },
    /// It is a log with a line of JSON for each event, which begins like this.
    EventLog(String),
    /// It is anything else.
    NoSnapshot,
    /// The snapshot has this version, which this reader does not read.
    Version(String),
    /// A line says nothing that a snapshot has.
    Broken {
        /// From 1.
        line: u64,
        /// Why, for people.
        why: String,
    },
    /// More than four thousand million of something.
    TooMany(&'static str),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Io(error)
    }
}

/// Reads a snapshot from its beginning to its end.
pub fn read(mut input: impl BufRead) -> Result<Snapshot, ReadError> {
    let mut reading = Reading::default();
    if !read_title(&mut input)? {
        return reading.finish(Ending::Cut { line: 1 });
    }
    let mut line = Vec::new();
    let mut number = 1;
    let mut ending = Ending::Cut { line: number };
    loop {
        line.clear();
        number += 1;
        let mut part = (&mut input).take(LONGEST_LINE);
        let read = part.read_until(b'\n', &mut line)? as u64;
        if read == 0 {
            return reading.finish(ending);
        }
        let broken = |why| ReadError::Broken { line: number, why };
        if !matches!(ending, Ending::Cut { .. }) {
            return Err(broken(
                "it stands behind the line 'end', which is the last one".into(),
            ));
        }
        ending = Ending::Cut { line: number };
        if line.pop_if(|letter| *letter == b'\n').is_none() {
            if read == LONGEST_LINE {
                return Err(broken("it is longer than 2 GiB".into()));
            }
            return reading.finish(ending);
        }
        match parse(&line).map_err(broken)? {
            Record::End { objects, edges } => ending = reading.ending(objects, edges),
            record => reading.add(record).map_err(broken)?,
        }
        reading.check_counts()?;
    }
}

/// Reads the first line; false if it has no end.
fn read_title(input: &mut impl BufRead) -> Result<bool, ReadError> {
    let mut line = Vec::new();
    input.take(LONGEST_TITLE).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(ReadError::Empty);
    }
    if line.starts_with(EVENT) {
        return Err(ReadError::EventLog(
            String::from_utf8_lossy(&line).into_owned(),
        ));
    }
    let is_whole = line.pop_if(|letter| *letter == b'\n').is_some();
    if line.starts_with(TITLE) && line.ends_with(b"\r") {
        return Err(ReadError::Broken {
            line: 1,
            why: "it ends in CR LF, so the file was copied as text: copy it again byte by byte"
                .into(),
        });
    }
    match line.strip_prefix(TITLE) {
        Some(VERSION) if is_whole => Ok(true),
        Some(b"" | VERSION) => Ok(false),
        Some(version) => Err(ReadError::Version(lossy(version))),
        None => Err(ReadError::NoSnapshot),
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// What has been read.
#[derive(Default)]
struct Reading {
    snapshot: Snapshot,
    /// Which root of the snapshot each is.
    roots: HashMap<Root, u32>,
    /// The object of a word is not known by number yet.
    words: Vec<(Word, u64)>,
    /// What objects refer to, as addresses.
    targets: Vec<u64>,
    sites: HashMap<Vec<u8>, u32>,
    /// Places inside of objects that objects refer to, as far as words of roots lead there.
    held: HashSet<u64>,
}

impl Reading {
    fn add(&mut self, record: Record<'_>) -> Result<(), String> {
        let snapshot = &mut self.snapshot;
        match record {
            Record::Process { pid, name } => (snapshot.process, snapshot.name) = (pid, lossy(name)),
            Record::When(when) => snapshot.when = lossy(when),
            Record::Heap(bytes) => snapshot.capacity = bytes,
            Record::Precise => snapshot.is_precise = true,
            Record::Kind { number, name } => {
                snapshot.kinds.insert(number, lossy(name));
            }
            Record::Static { low, path: b"" } => {
                self.begin_root(Root::Registered { low }, Some(low))
            }
            Record::Static { low, path } => {
                let path = lossy(path);
                self.begin_root(Root::Static { path }, Some(low));
            }
            Record::Stack { thread, low, name } => {
                let name = lossy(name);
                self.begin_root(Root::Stack { thread, name }, Some(low));
            }
            Record::Root(name) => self.begin_root(Root::Other(lossy(name)), None),
            Record::Word { slot, base, offset } => self.add_word(Some(slot), base, offset)?,
            Record::Target(base) => self.add_word(None, base, 0)?,
            Record::Object {
                base,
                bytes,
                kind,
                targets,
            } => return self.add_object(base, bytes, kind, targets),
            Record::Site(site) => return self.add_site(site),
            Record::Held(address) => {
                self.held.insert(address);
            }
            Record::End { .. } => {}
        }
        Ok(())
    }

    fn begin_root(&mut self, root: Root, low: Option<u64>) {
        let snapshot = &mut self.snapshot;
        let next = snapshot.roots.len() as u32;
        let number = *self.roots.entry(root.clone()).or_insert(next);
        if number == next {
            snapshot.roots.push(root);
        }
        snapshot.sections.push(Section { root: number, low });
    }

    fn add_word(&mut self, slot: Option<u64>, base: u64, offset: u64) -> Result<(), String> {
        let sections = &self.snapshot.sections;
        let Some(last) = sections.last() else {
            return Err("it belongs to a root, and there is none above it".into());
        };
        if last.low.is_some() != slot.is_some() {
            return Err("the root above it has the other kind of lines".into());
        }
        let word = Word {
            section: sections.len() as u32 - 1,
            slot,
            object: 0,
            offset,
            is_held: false,
        };
        self.words.push((word, base));
        Ok(())
    }

    fn add_object(
        &mut self,
        base: u64,
        bytes: u64,
        kind: u16,
        mut targets: Words<'_>,
    ) -> Result<(), String> {
        while let Some(target) = targets.target()? {
            self.targets.push(target);
        }
        let snapshot = &mut self.snapshot;
        snapshot.bases.push(base);
        snapshot.sizes.push(u64::from(kind) << 48 | bytes);
        // Whether it fits is checked before the next one.
        snapshot.starts.push(self.targets.len() as u32);
        Ok(())
    }

    fn add_site(&mut self, site: &[u8]) -> Result<(), String> {
        let snapshot = &mut self.snapshot;
        if snapshot.bases.is_empty() {
            return Err("it belongs to an object, and there is none above it".into());
        }
        let number = match self.sites.get(site) {
            Some(number) => *number,
            None => {
                let number = snapshot.site_names.len() as u32;
                snapshot.site_names.push(lossy(site));
                self.sites.insert(site.to_vec(), number);
                number
            }
        };
        snapshot.sites.resize(snapshot.bases.len(), NO_SITE);
        if let Some(last) = snapshot.sites.last_mut() {
            *last = number;
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<(), ReadError> {
        if self.snapshot.bases.len() + self.words.len() + self.snapshot.roots.len() > MOST {
            return Err(ReadError::TooMany("objects and words of roots"));
        }
        if self.targets.len() > MOST {
            return Err(ReadError::TooMany("references"));
        }
        Ok(())
    }

    fn ending(&self, objects: u64, edges: u64) -> Ending {
        let found = (self.snapshot.bases.len() as u64, self.targets.len() as u64);
        if found == (objects, edges) {
            Ending::Whole
        } else {
            Ending::Differs { objects, edges }
        }
    }

    /// Turns addresses into numbers of objects.
    fn finish(mut self, ending: Ending) -> Result<Snapshot, ReadError> {
        if let (Ending::Cut { line }, true) = (ending, self.snapshot.bases.is_empty()) {
            return Err(ReadError::CutEarly { line });
        }
        let mut snapshot = self.snapshot;
        snapshot.ending = ending;
        let addresses = Addresses::new(snapshot.bases.clone());
        snapshot.repeated = addresses.repeated();
        snapshot.edges.reserve_exact(self.targets.len());
        let mut from = 0;
        for end in &mut snapshot.starts {
            let to = *end as usize;
            // Where those of the object begin, until the last end is put behind all.
            *end = snapshot.edges.len() as u32;
            let found = self.targets[from..to].iter();
            snapshot
                .edges
                .extend(found.filter_map(|target| addresses.exact(*target)));
            from = to;
        }
        snapshot.starts.push(snapshot.edges.len() as u32);
        snapshot.lost_edges = (self.targets.len() - snapshot.edges.len()) as u64;
        drop(self.targets);
        let sections = &snapshot.sections;
        self.words
            .sort_by_key(|(word, _)| sections[word.section as usize].root);
        for (mut word, base) in self.words {
            word.is_held = self.held.contains(&base.saturating_add(word.offset));
            match addresses.exact(base) {
                Some(object) => snapshot.words.push(Word { object, ..word }),
                None => snapshot.lost_words += 1,
            }
        }
        snapshot.addresses = addresses;
        Ok(snapshot)
    }
}
