//! Messages that are enciphered and deciphered with ChaCha20 (RFC 8439): arrays of numbers that die young.
//!
//! A message has a fresh key, a fresh array for each block of the key stream, and one each for its plain text, what is
//! sent and what is read. Nothing outlives its message, and there is next to nothing to trace: what counts is
//! allocation, and the zeroing of what is allocated.

use gleaner::raw::Address;
use gleaner::{Heap, Mutator, OutOfMemory};

use super::objects::{Allocated, Numbers, frame, object, value};
use super::random::{Random, chained};
use super::{Own, Prepared, Scale, failed};

/// Bytes of a message.
const MESSAGE: usize = 4096;
/// Numbers of the state of the cipher.
const STATE: usize = 16;

/// The types.
#[derive(Clone, Copy)]
struct Types {
    bytes: Numbers<u8>,
    words: Numbers<u32>,
}

/// 40,000 messages, or forty.
pub fn prepare(heap: &Heap, scale: &Scale) -> Prepared {
    let types = Types {
        bytes: Numbers::register(heap).map_err(failed)?,
        words: Numbers::register(heap).map_err(failed)?,
    };
    let messages = scale.of(40_000, 40);
    Ok(Box::new(Own(move |mutator: &mut Mutator, number| {
        types.run(mutator, messages, Random::new(7000 + u64::from(number)))
    })))
}

impl Types {
    /// A number made of what was sent.
    fn run(
        &self,
        mutator: &mut Mutator,
        messages: u32,
        mut random: Random,
    ) -> Result<u64, OutOfMemory> {
        let mut sum = 0;
        for number in 0..messages {
            let key: [u32; 8] = std::array::from_fn(|_| random.next());
            let key = self.words.copied(mutator, &key)?;
            frame(mutator, [key, Address::NULL], |mutator, [key, plain]| {
                plain.set(value(self.plain(mutator, number)?));
                let sent = self.ciphered(mutator, object(key), object(plain), number)?;
                self.bytes.look(mutator, sent, |sent| {
                    for part in sent.chunks_exact(8) {
                        let part: [u8; 8] = part.try_into().expect("eight bytes");
                        sum = chained(sum, u64::from_le_bytes(part));
                    }
                });
                let read = self.ciphered(mutator, object(key), sent, number)?;
                let same = self.bytes.look(mutator, read, |read| {
                    self.bytes
                        .look(mutator, object(plain), |plain| read == plain)
                });
                assert!(same, "what is read is what was sent");
                Ok(())
            })?;
        }
        Ok(sum)
    }

    /// The text of a message.
    fn plain(&self, mutator: &mut Mutator, number: u32) -> Allocated {
        let text = self.bytes.fresh(mutator, MESSAGE)?;
        self.bytes.change(mutator, text, |bytes| {
            for (index, byte) in bytes.iter_mut().enumerate() {
                *byte = (index as u32 ^ number) as u8;
            }
        });
        Ok(text)
    }

    /// A text with the key stream added.
    fn ciphered(
        &self,
        mutator: &mut Mutator,
        key: Address,
        text: Address,
        nonce: u32,
    ) -> Allocated {
        frame(
            mutator,
            [key, text, Address::NULL],
            |mutator, [key, text, result]| {
                result.set(value(self.bytes.fresh(mutator, MESSAGE)?));
                for block in 0..MESSAGE / 64 {
                    let stream = self.words.fresh(mutator, STATE)?;
                    self.words.look(mutator, object(key), |key| {
                        self.words.change(mutator, stream, |stream| {
                            fill(stream, key, 1 + block as u32, [0, 0, nonce]);
                        });
                    });
                    self.bytes.look(mutator, object(text), |text| {
                        self.bytes.change(mutator, object(result), |result| {
                            let at = 64 * block;
                            result[at..at + 64].copy_from_slice(&text[at..at + 64]);
                            self.words.look(mutator, stream, |stream| {
                                add(&mut result[at..at + 64], stream);
                            });
                        });
                    });
                }
                Ok(object(result))
            },
        )
    }
}

/// Adds a block of the key stream to a block of text.
fn add(text: &mut [u8], stream: &[u32]) {
    for (part, word) in text.chunks_exact_mut(4).zip(stream) {
        for (byte, key) in part.iter_mut().zip(word.to_le_bytes()) {
            *byte ^= key;
        }
    }
}

/// A block of the key stream (RFC 8439, section 2.3).
fn fill(stream: &mut [u32], key: &[u32], counter: u32, nonce: [u32; 3]) {
    let mut state = [0; STATE];
    state[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
    state[4..12].copy_from_slice(key);
    state[12] = counter;
    state[13..].copy_from_slice(&nonce);
    let mut mixed = state;
    for _ in 0..10 {
        for column in 0..4 {
            quarter(&mut mixed, [column, 4 + column, 8 + column, 12 + column]);
        }
        for first in 0..4 {
            let place = |row: usize| 4 * row + (first + row) % 4;
            quarter(&mut mixed, [place(0), place(1), place(2), place(3)]);
        }
    }
    for (word, (mixed, state)) in stream.iter_mut().zip(mixed.iter().zip(state)) {
        *word = mixed.wrapping_add(state);
    }
}

/// A quarter round (RFC 8439, section 2.1).
fn quarter(state: &mut [u32; STATE], [a, b, c, d]: [usize; 4]) {
    let mut step = |to: usize, from: usize, turned: usize, by: u32| {
        state[to] = state[to].wrapping_add(state[from]);
        state[turned] = (state[turned] ^ state[to]).rotate_left(by);
    };
    step(a, b, d, 16);
    step(c, d, b, 12);
    step(a, b, d, 8);
    step(c, d, b, 7);
}

#[cfg(test)]
mod tests {
    use super::{STATE, fill};

    /// The example of RFC 8439, section 2.3.2.
    #[test]
    fn the_key_stream_is_that_of_the_standard() {
        let key: [u32; 8] = std::array::from_fn(|index| {
            u32::from_le_bytes([0, 1, 2, 3].map(|byte| byte + 4 * index as u8))
        });
        let mut stream = [0; STATE];
        fill(&mut stream, &key, 1, [0x0900_0000, 0x4a00_0000, 0]);
        assert_eq!(
            stream[..4],
            [0xe4e7_f110, 0x1559_3bd1, 0x1fdd_0f50, 0xc471_20a3]
        );
        assert_eq!(
            stream[12..],
            [0xd19c_12b5, 0xb94e_16de, 0xe883_d0cb, 0x4e3c_50a2]
        );
    }
}
