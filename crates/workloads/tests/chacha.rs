//! The cipher beside its standard. The file of it alone: the library is each workload, compiled for each kind of heap.

#[path = "../src/chacha.rs"]
mod chacha;

/// The example of RFC 8439, section 2.3.2, and the text of section 2.4.2 as far as one block enciphers it.
#[test]
fn the_key_stream_is_that_of_the_standard() {
    let key: [u32; 8] = std::array::from_fn(|index| {
        u32::from_le_bytes([0, 1, 2, 3].map(|byte| byte + 4 * index as u8))
    });
    let mut stream = [0; chacha::STATE];
    chacha::fill(&mut stream, &key, 1, [0x0900_0000, 0x4a00_0000, 0]);
    assert_eq!(
        stream[..4],
        [0xe4e7_f110, 0x1559_3bd1, 0x1fdd_0f50, 0xc471_20a3]
    );
    assert_eq!(
        stream[12..],
        [0xd19c_12b5, 0xb94e_16de, 0xe883_d0cb, 0x4e3c_50a2]
    );
    chacha::fill(&mut stream, &key, 1, [0, 0x4a00_0000, 0]);
    let mut text = *b"Ladies and Gentlemen of the class of '99: If I could offer you o";
    chacha::add(&mut text, &stream);
    assert_eq!(text[..8], [0x6e, 0x2e, 0x35, 0x9a, 0x25, 0x68, 0xf9, 0x80]);
}
