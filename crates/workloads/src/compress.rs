//! Real files compressed and expanded by LZW with codes of growing width, as `compress` does.
//!
//! Each file has fresh tables, made for as many codes as there can be: a hash table from a code and a byte to the code of
//! both, and, to expand, the two parts of each code and a stack. Its output is written to a buffer for the worst case, of
//! which most is not used, and then copied to an array of the right length. All compressed files are kept, and expanded
//! in random order; each must be what it was.
//!
//! Input is read, and output written, through a small buffer. Accesses to tables are of single elements: where the next one
//! is depends on what was read.

use std::cell::Cell;

use gleaner::raw::{Address, Value};
use gleaner::{Heap, Mutator, OutOfMemory};

use super::objects::{Allocated, Code, Numbers, Slots, copy, frame, object, value};
use super::random::{Random, chained};
use super::texts::{self, Text};
use super::{Own, Prepared, Scale, failed};

/// The code that says that all codes but those of bytes are free again.
const CLEAR: u32 = 256;
/// A place of the hash table that is not used.
const FREE: u32 = 0;

#[derive(Clone, Copy)]
struct Packer<F> {
    bytes: Numbers<F, u8>,
    shorts: Numbers<F, u16>,
    words: Numbers<F, u32>,
    slots: Slots<F>,
    /// Codes are below this, a power of two.
    codes: u32,
    /// Places of the hash table: a prime.
    places: u32,
    passes: u32,
}

/// 12 MB of texts six times, with codes of 16 bits; or 192 KB twice, with codes of 12.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    let texts = texts::read(scale, "compress")?;
    let packer = Packer::<F> {
        bytes: Numbers::register(heap).map_err(failed)?,
        shorts: Numbers::register(heap).map_err(failed)?,
        words: Numbers::register(heap).map_err(failed)?,
        slots: Slots::register(heap).map_err(failed)?,
        codes: scale.of(1 << 16, 1 << 12),
        places: scale.of(69_001, 5003),
        passes: scale.of(6, 2),
    };
    Ok(Box::new(Own(move |mutator: &mut Mutator, number| {
        packer.run(mutator, &texts, Random::new(17_000 + u64::from(number)))
    })))
}

/// Bytes that are read or written at once.
const BUFFER: usize = 512;

/// Bytes of an array that are read or written in order.
struct Stream {
    buffer: [u8; BUFFER],
    /// The next byte of the buffer.
    next: usize,
    /// Bytes in the buffer, if it is read.
    filled: usize,
    /// Where in the array the buffer begins, if it is written, or ends.
    at: usize,
}

impl Default for Stream {
    fn default() -> Stream {
        Stream {
            buffer: [0; BUFFER],
            next: 0,
            filled: 0,
            at: 0,
        }
    }
}

impl Stream {
    /// The next byte, of which there is one.
    #[inline(always)]
    fn byte<F: Code>(&mut self, bytes: &Numbers<F, u8>, mutator: &Mutator, array: Address) -> u8 {
        if self.next == self.filled {
            let left = bytes.length(mutator, array) - self.at;
            (self.next, self.filled) = (0, left.min(BUFFER));
            bytes.read(mutator, array, self.at, &mut self.buffer[..self.filled]);
            self.at += self.filled;
        }
        let byte = self.buffer[self.next];
        self.next += 1;
        byte
    }

    /// Writes one more byte.
    #[inline(always)]
    fn put<F: Code>(
        &mut self,
        bytes: &Numbers<F, u8>,
        mutator: &mut Mutator,
        array: &Cell<Value>,
        byte: u8,
    ) -> Result<(), OutOfMemory> {
        self.buffer[self.next] = byte;
        self.next += 1;
        if self.next == BUFFER {
            self.flush(bytes, mutator, array)?;
        }
        Ok(())
    }

    /// Nothing is left in the buffer; how many bytes there are in all.
    fn flush<F: Code>(
        &mut self,
        bytes: &Numbers<F, u8>,
        mutator: &mut Mutator,
        array: &Cell<Value>,
    ) -> Result<usize, OutOfMemory> {
        bytes.write(mutator, object(array), self.at, &self.buffer[..self.next])?;
        self.at += self.next;
        self.next = 0;
        Ok(self.at)
    }
}

/// How many codes there were since all were free, and bits that are not yet whole bytes or not yet codes.
#[derive(Default)]
struct Bits {
    codes: u32,
    bits: u64,
    count: u32,
    stream: Stream,
}

impl Bits {
    /// Bits of the next code: those of the largest one that may come.
    fn width(&self) -> u32 {
        (CLEAR + self.codes).ilog2() + 1
    }

    fn pass(&mut self, code: u32) {
        self.codes = if code == CLEAR { 0 } else { self.codes + 1 };
    }
}

impl<F: Code> Packer<F> {
    /// A number made of all compressed files.
    fn run(
        &self,
        mutator: &mut Mutator,
        texts: &[Text],
        mut random: Random,
    ) -> Result<u64, OutOfMemory> {
        frame(mutator, [Address::NULL], |mutator, [packed]| {
            let mut sum = 0;
            for _ in 0..self.passes {
                packed.set(value(self.slots.fresh(mutator, texts.len())?));
                for (number, text) in texts.iter().enumerate() {
                    let file = self.compressed(mutator, &text.bytes)?;
                    sum = chained(sum, self.bytes.hash(mutator, file));
                    self.slots.set(mutator, object(packed), number, file)?;
                }
                for _ in 0..texts.len() {
                    let number = random.below(texts.len() as u32) as usize;
                    let text = &texts[number].bytes;
                    let file = self.slots.get(mutator, object(packed), number);
                    let expanded = self.expanded(mutator, file, text.len())?;
                    let mut bytes = self.bytes.cursor(mutator, expanded, 0, text.len());
                    assert!(
                        text.iter().all(|&byte| bytes.next() == Some(byte)),
                        "{} is what it was",
                        texts[number].name
                    );
                }
            }
            Ok(sum)
        })
    }

    fn compressed(&self, mutator: &mut Mutator, text: &[u8]) -> Allocated {
        let input = self.bytes.copied(mutator, text)?;
        let roots = [input, Address::NULL, Address::NULL, Address::NULL];
        frame(mutator, roots, |mutator, [input, keys, codes, output]| {
            keys.set(value(self.words.fresh(mutator, self.places as usize)?));
            codes.set(value(self.shorts.fresh(mutator, self.places as usize)?));
            output.set(value(self.bytes.fresh(mutator, 2 * text.len() + 8)?));
            let (mut source, mut bits) = (Stream::default(), Bits::default());
            let mut prefix = u32::from(source.byte(&self.bytes, mutator, object(input)));
            for _ in 1..text.len() {
                let byte = u32::from(source.byte(&self.bytes, mutator, object(input)));
                let key = (prefix << 8 | byte) + 1;
                let (place, is_there) = self.find(mutator, object(keys), key);
                if is_there {
                    prefix = u32::from(self.shorts.get(mutator, object(codes), place));
                    continue;
                }
                let fresh = CLEAR + 1 + bits.codes;
                self.emit(mutator, output, &mut bits, prefix)?;
                self.words.set(mutator, object(keys), place, key)?;
                self.shorts
                    .set(mutator, object(codes), place, fresh as u16)?;
                if fresh == self.codes - 1 {
                    self.emit(mutator, output, &mut bits, CLEAR)?;
                    let places = self.places as usize;
                    self.words.fill(mutator, object(keys), 0, places, FREE)?;
                }
                prefix = byte;
            }
            self.emit(mutator, output, &mut bits, prefix)?;
            let stream = &mut bits.stream;
            if bits.count > 0 {
                stream.put(&self.bytes, mutator, output, bits.bits as u8)?;
            }
            let count = stream.flush(&self.bytes, mutator, output)?;
            let packed = self.bytes.fresh(mutator, count)?;
            frame(mutator, [packed], |mutator, [packed]| {
                copy(mutator, (object(output), 0), (object(packed), 0), count)?;
                Ok(object(packed))
            })
        })
    }

    /// Where a key is, or where it would be, and whether it is there.
    fn find(&self, mutator: &Mutator, keys: Address, key: u32) -> (usize, bool) {
        let mut place = key.wrapping_mul(0x9e37_79b1) % self.places;
        loop {
            let found = self.words.get(mutator, keys, place as usize);
            if found == FREE || found == key {
                return (place as usize, found == key);
            }
            place = (place + 1) % self.places;
        }
    }

    /// Writes a code.
    fn emit(
        &self,
        mutator: &mut Mutator,
        output: &Cell<Value>,
        bits: &mut Bits,
        code: u32,
    ) -> Result<(), OutOfMemory> {
        bits.bits |= u64::from(code) << bits.count;
        bits.count += bits.width();
        bits.pass(code);
        while bits.count >= 8 {
            bits.stream
                .put(&self.bytes, mutator, output, bits.bits as u8)?;
            bits.bits >>= 8;
            bits.count -= 8;
        }
        Ok(())
    }

    /// Reads a code.
    fn next(&self, mutator: &Mutator, input: Address, bits: &mut Bits) -> u32 {
        let width = bits.width();
        while bits.count < width {
            let byte = bits.stream.byte(&self.bytes, mutator, input);
            bits.bits |= u64::from(byte) << bits.count;
            bits.count += 8;
        }
        let code = (bits.bits & ((1 << width) - 1)) as u32;
        bits.bits >>= width;
        bits.count -= width;
        bits.pass(code);
        code
    }

    /// The text of `length` bytes that was compressed.
    fn expanded(&self, mutator: &mut Mutator, file: Address, length: usize) -> Allocated {
        let roots = [
            file,
            Address::NULL,
            Address::NULL,
            Address::NULL,
            Address::NULL,
        ];
        frame(
            mutator,
            roots,
            |mutator, [file, prefixes, suffixes, stack, output]| {
                let codes = self.codes as usize;
                prefixes.set(value(self.shorts.fresh(mutator, codes)?));
                suffixes.set(value(self.bytes.fresh(mutator, codes)?));
                stack.set(value(self.bytes.fresh(mutator, codes)?));
                output.set(value(self.bytes.fresh(mutator, length)?));
                let (mut bits, mut made) = (Bits::default(), Stream::default());
                let (mut at, mut before, mut first) = (0, CLEAR, 0);
                while at < length {
                    let code = self.next(mutator, object(file), &mut bits);
                    if code == CLEAR {
                        before = CLEAR;
                        continue;
                    }
                    let fresh = CLEAR + bits.codes - 1;
                    // A code that is not known yet is the one before and its first byte.
                    let (mut rest, mut depth) = (code, 0);
                    if before != CLEAR && code == fresh {
                        self.bytes.set(mutator, object(stack), depth, first)?;
                        (rest, depth) = (before, 1);
                    }
                    while rest > CLEAR {
                        let part = rest as usize;
                        let suffix = self.bytes.get(mutator, object(suffixes), part);
                        self.bytes.set(mutator, object(stack), depth, suffix)?;
                        rest = u32::from(self.shorts.get(mutator, object(prefixes), part));
                        depth += 1;
                    }
                    first = rest as u8;
                    made.put(&self.bytes, mutator, output, first)?;
                    for index in (0..depth).rev() {
                        let byte = self.bytes.get(mutator, object(stack), index);
                        made.put(&self.bytes, mutator, output, byte)?;
                    }
                    at += 1 + depth;
                    if before != CLEAR {
                        let fresh = fresh as usize;
                        self.bytes.set(mutator, object(suffixes), fresh, first)?;
                        self.shorts
                            .set(mutator, object(prefixes), fresh, before as u16)?;
                    }
                    before = code;
                }
                made.flush(&self.bytes, mutator, output)?;
                Ok(object(output))
            },
        )
    }
}
