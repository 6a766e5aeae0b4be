//! Real texts as arrays of bytes: split, searched, built anew and joined.
//!
//! Each text is split into its lines, each an array of its own in a list that grows by copying. A builder, an array that
//! grows by copying, joins them from the last to the first; a word of the text is searched for in the result (Horspool),
//! and another builder takes the result with the word replaced. What it holds is copied to an array of the right length,
//! of which the last few are kept.
//!
//! Searches for the end of a line have cursors, and what is appended is copied whole; the search for a word reads single
//! elements.

use std::cell::Cell;

use gleaner::raw::{Address, Value};
use gleaner::{Heap, Mutator, OutOfMemory};

use super::objects::{Allocated, Code, Numbers, Record, Slots, copy, frame, object, value};
use super::random::{Random, chained};
use super::texts::{self, Text, words};
use super::vector::Vector;
use super::{Own, Prepared, Scale, failed};

/// Results that are kept.
const KEPT: usize = 16;
/// Bytes of a builder's first array.
const FIRST: usize = 64;
/// What stands for the word.
const REPLACEMENT: &[u8] = b"<here>";

#[derive(Clone, Copy)]
struct Strings<F> {
    bytes: Numbers<F, u8>,
    slots: Slots<F>,
    vector: Vector<F>,
    /// Its array; how many of the bytes are used.
    builder: Record<F, 1, 4>,
    passes: u32,
}

/// 12 MB of texts sixteen times, or 192 KB twice.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    let texts = texts::read(scale, "strings")?;
    let strings = Strings::<F> {
        bytes: Numbers::register(heap).map_err(failed)?,
        slots: Slots::register(heap).map_err(failed)?,
        vector: Vector::register(heap).map_err(failed)?,
        builder: Record::register(heap).map_err(failed)?,
        passes: scale.of(16, 2),
    };
    Ok(Box::new(Own(move |mutator: &mut Mutator, number| {
        strings.run(mutator, &texts, Random::new(20_000 + u64::from(number)))
    })))
}

impl<F: Code> Strings<F> {
    /// A number made of all results.
    fn run(
        &self,
        mutator: &mut Mutator,
        texts: &[Text],
        mut random: Random,
    ) -> Result<u64, OutOfMemory> {
        let kept = self.slots.fresh(mutator, KEPT)?;
        frame(mutator, [kept], |mutator, [kept]| {
            let (mut sum, mut hashes) = (0, [None; KEPT]);
            for pass in 0..self.passes as usize {
                for (number, text) in texts.iter().enumerate() {
                    let from = random.below(text.bytes.len() as u32) as usize;
                    // Near the end there may be none.
                    let word = words(&text.bytes[from..]).next().unwrap_or(b"none");
                    let made = self.made(mutator, &text.bytes, word)?;
                    let hash = self.bytes.hash(mutator, made);
                    let place = (pass * texts.len() + number) % KEPT;
                    self.slots.set(mutator, object(kept), place, made)?;
                    hashes[place] = Some(hash);
                    sum = chained(sum, hash);
                }
            }
            for (index, hash) in hashes.into_iter().enumerate() {
                let kept = self.slots.get(mutator, object(kept), index);
                let now = (kept != Address::NULL).then(|| self.bytes.hash(mutator, kept));
                assert_eq!(now, hash, "results stay");
            }
            Ok(sum)
        })
    }

    /// A text from its last line to its first, with a word replaced.
    fn made(&self, mutator: &mut Mutator, text: &[u8], word: &[u8]) -> Allocated {
        let text = self.bytes.copied(mutator, text)?;
        let roots = [text, Address::NULL, Address::NULL];
        frame(mutator, roots, |mutator, [text, lines, word_of]| {
            word_of.set(value(self.bytes.copied(mutator, word)?));
            lines.set(value(self.lines(mutator, text)?));
            let length = self.bytes.length(mutator, object(text));
            text.set(value(self.joined(mutator, lines)?));
            let joined = self.bytes.length(mutator, object(text));
            assert_eq!(joined, length, "no byte is lost");
            self.replaced(mutator, text, word_of)
        })
    }

    /// What is between the ends of lines: one more than there are ends.
    fn lines(&self, mutator: &mut Mutator, text: &Cell<Value>) -> Allocated {
        let list = self.vector.fresh(mutator)?;
        frame(mutator, [list], |mutator, [list]| {
            let length = self.bytes.length(mutator, object(text));
            let mut start = 0;
            loop {
                let rest = length - start;
                let mut bytes = self.bytes.cursor(mutator, object(text), start, rest);
                let end = bytes.position(|byte| byte == b'\n');
                let end = end.map_or(length, |offset| start + offset);
                let line = self.bytes.fresh(mutator, end - start)?;
                frame(mutator, [line], |mutator, [line]| {
                    let (from, to) = ((object(text), start), (object(line), 0));
                    copy(mutator, from, to, end - start)?;
                    self.vector.push(mutator, list, object(line))
                })?;
                if end == length {
                    return Ok(object(list));
                }
                start = end + 1;
            }
        })
    }

    /// Lines from the last to the first.
    fn joined(&self, mutator: &mut Mutator, lines: &Cell<Value>) -> Allocated {
        let builder = self.fresh_builder(mutator)?;
        let roots = [builder, Address::NULL];
        frame(mutator, roots, |mutator, [builder, line]| {
            for index in (0..self.vector.length(object(lines))).rev() {
                line.set(value(self.vector.get(mutator, object(lines), index)));
                let length = self.bytes.length(mutator, object(line));
                self.append(mutator, builder, line, 0, length)?;
                if index > 0 {
                    let at = self.reserve(mutator, builder, 1)?;
                    let bytes = self.builder.get(mutator, object(builder), 0);
                    self.bytes.set(mutator, bytes, at, b'\n')?;
                }
            }
            self.finished(mutator, builder)
        })
    }

    /// A text with a word replaced wherever it is.
    fn replaced(&self, mutator: &mut Mutator, text: &Cell<Value>, word: &Cell<Value>) -> Allocated {
        let builder = self.fresh_builder(mutator)?;
        let roots = [builder, Address::NULL];
        frame(mutator, roots, |mutator, [builder, replacement]| {
            replacement.set(value(self.bytes.copied(mutator, REPLACEMENT)?));
            let length = self.bytes.length(mutator, object(text));
            let shifts = self.shifts(mutator, object(word));
            let mut start = 0;
            while let Some(found) = self.find(mutator, object(text), start, object(word), &shifts) {
                self.append(mutator, builder, text, start, found - start)?;
                self.append(mutator, builder, replacement, 0, REPLACEMENT.len())?;
                start = found + self.bytes.length(mutator, object(word));
            }
            self.append(mutator, builder, text, start, length - start)?;
            self.finished(mutator, builder)
        })
    }

    /// How far the search goes on, by the byte below the word's last one.
    fn shifts(&self, mutator: &Mutator, word: Address) -> [usize; 256] {
        self.bytes.look(mutator, word, |word| {
            let mut shifts = [word.len(); 256];
            for (index, &byte) in word[..word.len() - 1].iter().enumerate() {
                shifts[usize::from(byte)] = word.len() - 1 - index;
            }
            shifts
        })
    }

    /// Where a word is next in a text.
    fn find(
        &self,
        mutator: &Mutator,
        text: Address,
        start: usize,
        word: Address,
        shifts: &[usize; 256],
    ) -> Option<usize> {
        let [length, count] = [text, word].map(|bytes| self.bytes.length(mutator, bytes));
        let mut at = start;
        while at + count <= length {
            let is_here = |index| {
                self.bytes.get(mutator, text, at + index) == self.bytes.get(mutator, word, index)
            };
            if (0..count).rev().all(is_here) {
                return Some(at);
            }
            at += shifts[usize::from(self.bytes.get(mutator, text, at + count - 1))];
        }
        None
    }

    fn fresh_builder(&self, mutator: &mut Mutator) -> Allocated {
        let bytes = self.bytes.fresh(mutator, FIRST)?;
        frame(mutator, [bytes], |mutator, [bytes]| {
            let builder = self.builder.fresh(mutator)?;
            self.builder.initialize(mutator, builder, 0, object(bytes));
            Ok(builder)
        })
    }

    /// Makes room for `count` more bytes; where they begin.
    fn reserve(
        &self,
        mutator: &mut Mutator,
        builder: &Cell<Value>,
        count: usize,
    ) -> Result<usize, OutOfMemory> {
        let used = self.builder.number(object(builder), 0) as usize;
        let bytes = self.builder.get(mutator, object(builder), 0);
        let room = self.bytes.length(mutator, bytes);
        if used + count > room {
            let grown = self.bytes.fresh(mutator, (used + count).max(2 * room))?;
            frame(mutator, [grown], |mutator, [grown]| {
                let bytes = self.builder.get(mutator, object(builder), 0);
                copy(mutator, (bytes, 0), (object(grown), 0), used)?;
                self.builder.set(mutator, object(builder), 0, object(grown));
                Ok(())
            })?;
        }
        self.builder
            .set_number(object(builder), 0, (used + count) as u32);
        Ok(used)
    }

    /// Appends `count` bytes of an array from `start` on.
    fn append(
        &self,
        mutator: &mut Mutator,
        builder: &Cell<Value>,
        from: &Cell<Value>,
        start: usize,
        count: usize,
    ) -> Result<(), OutOfMemory> {
        let at = self.reserve(mutator, builder, count)?;
        let bytes = self.builder.get(mutator, object(builder), 0);
        copy(mutator, (object(from), start), (bytes, at), count)
    }

    /// What a builder holds.
    fn finished(&self, mutator: &mut Mutator, builder: &Cell<Value>) -> Allocated {
        let used = self.builder.number(object(builder), 0) as usize;
        let made = self.bytes.fresh(mutator, used)?;
        frame(mutator, [made], |mutator, [made]| {
            let bytes = self.builder.get(mutator, object(builder), 0);
            copy(mutator, (bytes, 0), (object(made), 0), used)?;
            Ok(object(made))
        })
    }
}
