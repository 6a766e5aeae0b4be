//! Goes through a log line by line, and says which lines are no events.
//!
//! A log may have anything in it: the last line is cut off if its program was killed or the disk was full, and the next
//! program to append to it then begins in the middle of a line. A file that is no log at all may have no end of a line,
//! and no end. So a line has a longest length, and reading gives up where a long way has no event in it.

use std::io::{self, BufRead, Read as _};

use crate::Event;

/// No event is a tenth as long.
const LONGEST_LINE: u64 = 64 << 10;
/// How far to look for the first event.
const FIRST_EVENT_WITHIN: u64 = 1 << 20;
/// With what each event begins that a heap writes.
const BEGINNING: &[u8] = b"{\"event\":";
/// Bytes that are kept of a line that is no event.
const BEGINNING_KEPT: usize = 256;
/// Letters of a message that are kept.
const LONGEST_MESSAGE: usize = 160;

/// What a log has next.
#[derive(Debug)]
pub enum Line<'a> {
    /// An event.
    Event(Event<'a>),
    /// A line that is none.
    Unreadable(Unreadable),
    /// There was no event for so long that this is no log. Nothing follows.
    NoLog,
}

/// A line that is no event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// From 1.
    pub number: u64,
    /// Why, for people.
    pub why: String,
    /// How it begins.
    pub beginning: String,
    /// It is the last one and has no end: who wrote it was stopped in the middle.
    pub is_cut: bool,
}

/// A log that is read as a stream.
pub struct Reader<R> {
    input: R,
    line: Vec<u8>,
    /// Where an event begins in the line that was said to be unreadable.
    rest: Option<usize>,
    number: u64,
    events: u64,
    bytes: u64,
    given_up: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads from the beginning of `input`.
    pub fn new(input: R) -> Reader<R> {
        Reader {
            input,
            line: Vec::new(),
            rest: None,
            number: 0,
            events: 0,
            bytes: 0,
            given_up: false,
        }
    }

    /// Lines that were read, blank ones among them.
    pub fn lines(&self) -> u64 {
        self.number
    }

    /// Events that were read.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Bytes that were read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What comes next; nothing at the end. Blank lines are passed over.
    #[allow(clippy::should_implement_trait)] // What is returned borrows from the reader.
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        if self.given_up {
            return Ok(None);
        }
        if !self.may_be_log() {
            self.given_up = true;
            return Ok(Some(Line::NoLog));
        }
        if let Some(from) = self.rest.take()
            && serde_json::from_slice::<Event>(&self.line[from..]).is_ok()
        {
            self.events += 1;
            let event = serde_json::from_slice(&self.line[from..])?;
            return Ok(Some(Line::Event(event)));
        }
        let mut is_whole = self.fill()?;
        while self.is_blank() && self.may_be_log() {
            is_whole = self.fill()?;
        }
        if self.line.is_empty() {
            return Ok(None);
        }
        if self.is_blank() {
            self.given_up = true;
            return Ok(Some(Line::NoLog));
        }
        if !is_whole {
            let why = format!("longer than {} KiB", LONGEST_LINE >> 10);
            return Ok(Some(Line::Unreadable(self.unreadable(why, false))));
        }
        Ok(Some(self.parse()))
    }

    /// The line as an event, or as none.
    fn parse(&mut self) -> Line<'_> {
        match serde_json::from_slice::<Event>(&self.line) {
            Ok(event) => {
                self.events += 1;
                Line::Event(event)
            }
            Err(error) => {
                let later = self.line.windows(BEGINNING.len()).skip(1);
                self.rest = later
                    .rev()
                    .position(|bytes| bytes == BEGINNING)
                    .map(|back| self.line.len() - BEGINNING.len() - back);
                let is_cut = !self.line.ends_with(b"\n");
                Line::Unreadable(self.unreadable(message(&error), is_cut))
            }
        }
    }

    fn is_blank(&self) -> bool {
        !self.line.is_empty() && self.line.iter().all(u8::is_ascii_whitespace)
    }

    fn may_be_log(&self) -> bool {
        self.events > 0 || self.bytes <= FIRST_EVENT_WITHIN
    }

    fn unreadable(&self, why: String, is_cut: bool) -> Unreadable {
        let kept = &self.line[..self.line.len().min(BEGINNING_KEPT)];
        Unreadable {
            number: self.number,
            why,
            beginning: String::from_utf8_lossy(kept).into_owned(),
            is_cut,
        }
    }

    /// Reads the next line into `line`; false if it is too long: then it is passed over, as far as it is worth it.
    fn fill(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut part = self.input.by_ref().take(LONGEST_LINE);
        let read = part.read_until(b'\n', &mut self.line)? as u64;
        self.bytes += read;
        self.number += u64::from(read > 0);
        if read < LONGEST_LINE || self.line.ends_with(b"\n") {
            return Ok(true);
        }
        while self.may_be_log() {
            let buffer = self.input.fill_buf()?;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let passed = end.map_or(buffer.len(), |at| at + 1);
            self.input.consume(passed);
            self.bytes += passed as u64;
            if end.is_some() || passed == 0 {
                break;
            }
        }
        Ok(false)
    }
}

/// What is wrong with a line. The place in it is counted by column alone, since each line is parsed by itself.
fn message(error: &serde_json::Error) -> String {
    let text = error
        .to_string()
        .replace(" at line 1 column ", " at column ");
    let text = text.replace(" at line 2 column 0", " at its end");
    let letters = text.chars().filter(|letter| !letter.is_control());
    letters.take(LONGEST_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in a log, in short.
    fn read(text: &[u8]) -> Vec<String> {
        let mut reader = Reader::new(text);
        let mut found = Vec::new();
        while let Some(line) = reader.next().unwrap() {
            found.push(match line {
                Line::Event(event) => format!("{} {}", event.name, event.pid),
                Line::Unreadable(line) if line.is_cut => format!("cut {}", line.number),
                Line::Unreadable(line) => format!("unreadable {}", line.number),
                Line::NoLog => "no log".into(),
            });
        }
        found
    }

    #[test]
    fn lines_are_told_apart() {
        let log = b"{\"event\":\"mark\",\"pid\":1}\n\nnonsense\n{\"event\":\"mark\"}\n\
            {\"event\":\"roots\",\"pid\":-1}\n{\"event\":\"weak\",\"pid\":2}\n{\"event\":\"ma";
        let expected = [
            "mark 1",
            "unreadable 3",
            "unreadable 4",
            "unreadable 5",
            "weak 2",
            "cut 7",
        ];
        assert_eq!(read(log), expected);
    }

    #[test]
    fn a_last_line_that_is_whole_needs_no_end() {
        assert_eq!(read(b"{\"event\":\"mark\",\"pid\":1}"), ["mark 1"]);
        assert_eq!(read(b""), [""; 0]);
        assert_eq!(read(b"\n \n"), [""; 0]);
    }

    #[test]
    fn an_event_that_begins_in_a_line_that_was_cut_off_is_read() {
        let log = b"{\"event\":\"mark\",\"pi{\"event\":\"start\",\"pid\":2}\n{\"event\":\"end\",\"pid\":2}\n";
        assert_eq!(read(log), ["unreadable 1", "start 2", "end 2"]);
        let log = b"{\"event\":\"mark\",\"pi{\"event\":\"sta\n{\"event\":\"end\",\"pid\":2}\n";
        assert_eq!(read(log), ["unreadable 1", "end 2"]);
    }

    #[test]
    fn a_line_may_be_too_long_and_a_file_no_log() {
        let mut log = b"{\"event\":\"mark\",\"pid\":1}\n".to_vec();
        log.extend(vec![b'x'; 3 << 20]);
        log.extend(b"\n{\"event\":\"end\",\"pid\":1}\n");
        assert_eq!(read(&log), ["mark 1", "unreadable 2", "end 1"]);
        for byte in [0, b'\n'] {
            let endless = io::repeat(byte).take(u64::MAX);
            let mut reader = Reader::new(io::BufReader::new(endless));
            let mut last = false;
            while let Some(line) = reader.next().unwrap() {
                last = matches!(line, Line::NoLog);
            }
            assert!(last && reader.bytes() < 4 << 20, "{}", reader.bytes());
        }
    }

    #[test]
    fn a_message_names_the_column_and_is_short() {
        let why = |text: &str| message(&serde_json::from_str::<Event>(text).unwrap_err());
        assert!(why("{\"event\":\"a\" 5").ends_with("at column 14"));
        assert!(why(&format!("{{\"pid\":\"{}\"}}", "x".repeat(900))).len() <= LONGEST_MESSAGE);
    }
}
