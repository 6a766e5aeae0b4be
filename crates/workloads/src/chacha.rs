//! ChaCha20 (RFC 8439) on plain memory. The rival on MMTk uses this file, too: what a compiler makes of it is the same.

/// Numbers of the state of the cipher.
pub const STATE: usize = 16;

/// Adds a block of the key stream to a block of text.
pub fn add(text: &mut [u8], stream: &[u32]) {
    for (part, word) in text.chunks_exact_mut(4).zip(stream) {
        for (byte, key) in part.iter_mut().zip(word.to_le_bytes()) {
            *byte ^= key;
        }
    }
}

/// A block of the key stream (RFC 8439, section 2.3).
pub fn fill(stream: &mut [u32], key: &[u32], counter: u32, nonce: [u32; 3]) {
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
