//! Messages that are enciphered and deciphered with ChaCha20 (RFC 8439): arrays of numbers that die young, step by step
//! as in `gleaner-bench native`.

use crate::context::{Context, Mode};
use crate::object::References;
use crate::shared::chacha::{STATE, add, fill};

/// Bytes of a message.
const MESSAGE: usize = 4096;

/// Runs once; a number made of what was sent. Each mutator has random numbers of its own.
pub fn cipher<R: References, M: Mode>(
    context: &mut Context<R, M>,
    tiny: bool,
    mutator: u32,
) -> u64 {
    let messages = if tiny { 40 } else { 40_000 };
    let (mut random, mut sum) = (7000 + u64::from(mutator), 0u64);
    for number in 0..messages {
        let numbers: [u32; 8] = std::array::from_fn(|_| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as u32
        });
        let key = context.words(numbers.len());
        context.change(key, |key: &mut [u32]| key.copy_from_slice(&numbers));
        context.with_roots([key, 0], |context, [key, plain]| {
            plain.set(text(context, number));
            let sent = ciphered(context, key.get(), plain.get(), number);
            context.look(sent, |sent: &[u8]| {
                for part in sent.chunks_exact(8) {
                    let part: [u8; 8] = part.try_into().expect("eight bytes");
                    sum = sum.wrapping_mul(31).wrapping_add(u64::from_le_bytes(part));
                }
            });
            let read = ciphered(context, key.get(), sent, number);
            let same = context.look(read, |read: &[u8]| {
                context.look(plain.get(), |plain: &[u8]| read == plain)
            });
            assert!(same, "what is read is what was sent");
        });
    }
    sum
}

/// The text of a message.
fn text<R: References, M: Mode>(context: &mut Context<R, M>, number: u32) -> usize {
    let text = context.bytes(MESSAGE);
    context.change(text, |bytes: &mut [u8]| {
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = (index as u32 ^ number) as u8;
        }
    });
    text
}

/// A text with the key stream added.
fn ciphered<R: References, M: Mode>(
    context: &mut Context<R, M>,
    key: usize,
    text: usize,
    nonce: u32,
) -> usize {
    context.with_roots([key, text, 0], |context, [key, text, result]| {
        result.set(context.bytes(MESSAGE));
        for block in 0..MESSAGE / 64 {
            let stream = context.words(STATE);
            context.look(key.get(), |key: &[u32]| {
                context.change(stream, |stream: &mut [u32]| {
                    fill(stream, key, 1 + block as u32, [0, 0, nonce]);
                });
            });
            context.look(text.get(), |text: &[u8]| {
                context.change(result.get(), |result: &mut [u8]| {
                    let part = &mut result[64 * block..64 * (block + 1)];
                    part.copy_from_slice(&text[64 * block..64 * (block + 1)]);
                    context.look(stream, |stream: &[u32]| add(part, stream));
                });
            });
        }
        result.get()
    })
}
