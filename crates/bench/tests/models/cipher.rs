//! `cipher`: ChaCha20 over whole messages.

use super::random::{Random, chained};

pub fn cipher(thread: u32) -> u64 {
    let mut random = Random::new(7000 + u64::from(thread));
    let mut sum = 0;
    for number in 0..40u32 {
        let key: Vec<u32> = (0..8).map(|_| random.draw()).collect();
        let mut sent: Vec<u8> = (0..4096u32).map(|index| (index ^ number) as u8).collect();
        for (block, text) in sent.chunks_mut(64).enumerate() {
            let stream = block_of(&key, 1 + block as u32, number);
            for (byte, key) in text.iter_mut().zip(stream) {
                *byte ^= key;
            }
        }
        for part in sent.chunks(8) {
            sum = chained(
                sum,
                part.iter()
                    .rev()
                    .fold(0, |word, &byte| word << 8 | u64::from(byte)),
            );
        }
    }
    sum
}

/// 64 bytes of the key stream.
fn block_of(key: &[u32], counter: u32, nonce: u32) -> Vec<u8> {
    let mut first = Vec::new();
    for word in b"expand 32-byte k".chunks(4) {
        first.push(u32::from_le_bytes(word.try_into().unwrap()));
    }
    first.extend(key);
    first.extend([counter, 0, 0, nonce]);
    let mut state = first.clone();
    const ROUNDS: [[usize; 4]; 8] = [
        [0, 4, 8, 12],
        [1, 5, 9, 13],
        [2, 6, 10, 14],
        [3, 7, 11, 15],
        [0, 5, 10, 15],
        [1, 6, 11, 12],
        [2, 7, 8, 13],
        [3, 4, 9, 14],
    ];
    for [a, b, c, d] in ROUNDS.into_iter().cycle().take(80) {
        for (left, right) in [(16, 12), (8, 7)] {
            state[a] = state[a].wrapping_add(state[b]);
            state[d] = (state[d] ^ state[a]).rotate_left(left);
            state[c] = state[c].wrapping_add(state[d]);
            state[b] = (state[b] ^ state[c]).rotate_left(right);
        }
    }
    let mixed = state.iter().zip(&first);
    mixed
        .flat_map(|(mixed, first)| mixed.wrapping_add(*first).to_le_bytes())
        .collect()
}
