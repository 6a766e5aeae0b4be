//! Modules as text.

/// The bytes of a module whose text is right.
pub fn assemble(text: &str) -> Vec<u8> {
    let buffer = wast::parser::ParseBuffer::new(text).unwrap();
    wast::parser::parse::<wast::Wat<'_>>(&buffer)
        .unwrap()
        .encode()
        .unwrap()
}
