//! Messages that are enciphered and deciphered with ChaCha20 (RFC 8439): arrays of numbers that die young.
//!
//! A message has a fresh key, a fresh array for each block of the key stream, and one each for its plain text, what is
//! sent and what is read. Nothing outlives its message, and there is next to nothing to trace: what counts is
//! allocation, and the zeroing of what is allocated.

use gleaner::raw::Address;
use gleaner::{Heap, Mutator, OutOfMemory};

use super::chacha::{STATE, add, fill};
use super::objects::{Allocated, Code, Numbers, frame, object, value};
use super::random::{Random, chained};
use super::{Own, Prepared, Scale, failed};

/// Bytes of a message.
const MESSAGE: usize = 4096;

/// The types.
#[derive(Clone, Copy)]
struct Types<F> {
    bytes: Numbers<F, u8>,
    words: Numbers<F, u32>,
}

/// 40,000 messages, or forty.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    let types: Types<F> = Types {
        bytes: Numbers::register(heap).map_err(failed)?,
        words: Numbers::register(heap).map_err(failed)?,
    };
    let messages = scale.of(40_000, 40);
    Ok(Box::new(Own(move |mutator: &mut Mutator, number| {
        types.run(mutator, messages, Random::new(7000 + u64::from(number)))
    })))
}

impl<F: Code> Types<F> {
    /// A number made of what was sent.
    fn run(
        &self,
        mutator: &mut Mutator,
        messages: u32,
        mut random: Random,
    ) -> Result<u64, OutOfMemory> {
        let mut sum = 0;
        for number in 0..messages {
            let key: [u32; 8] = std::array::from_fn(|_| random.draw());
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
        self.bytes.filled(mutator, MESSAGE, |_, bytes| {
            for (index, byte) in bytes.iter_mut().enumerate() {
                *byte = (index as u32 ^ number) as u8;
            }
        })
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
            [key, text, Address::NULL, Address::NULL],
            |mutator, [key, text, result, stream]| {
                result.set(value(self.bytes.fresh(mutator, MESSAGE)?));
                for block in 0..MESSAGE / 64 {
                    stream.set(value(self.words.filled(
                        mutator,
                        STATE,
                        |mutator, stream| {
                            self.words.look(mutator, object(key), |key| {
                                fill(stream, key, 1 + block as u32, [0, 0, nonce]);
                            });
                        },
                    )?));
                    self.bytes
                        .change(mutator, object(result), |mutator, result| {
                            let at = 64 * block;
                            self.bytes.look(mutator, object(text), |text| {
                                result[at..at + 64].copy_from_slice(&text[at..at + 64]);
                            });
                            self.words.look(mutator, object(stream), |stream| {
                                add(&mut result[at..at + 64], stream);
                            });
                        })?;
                }
                Ok(object(result))
            },
        )
    }
}
