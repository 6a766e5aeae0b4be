//! Text without allocation: a buffer of fixed size that truncates, and the escaping of JSON strings.
#![forbid(unsafe_code)]

use core::fmt;

/// A buffer of `N` bytes to format into. What does not fit is dropped, at a character's edge, and remembered by
/// [`LineBuffer::is_truncated`]; from then on everything is dropped, so the text has no hole in it. Writing never
/// fails.
#[derive(Clone, Copy)]
pub struct LineBuffer<const N: usize> {
    /// The first `length` bytes are UTF-8: whole pieces of `str` put one after another.
    bytes: [u8; N],
    length: usize,
    truncated: bool,
}

impl<const N: usize> Default for LineBuffer<N> {
    fn default() -> Self {
        LineBuffer::new()
    }
}

impl<const N: usize> LineBuffer<N> {
    /// An empty buffer.
    pub const fn new() -> LineBuffer<N> {
        LineBuffer {
            bytes: [0; N],
            length: 0,
            truncated: false,
        }
    }

    /// What was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// What was written, as text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or("")
    }

    /// True when something did not fit.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Empties the buffer.
    pub fn clear(&mut self) {
        self.length = 0;
        self.truncated = false;
    }
}

impl<const N: usize> fmt::Write for LineBuffer<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.truncated {
            return Ok(());
        }
        let room = N - self.length;
        let mut taken = text.len().min(room);
        while !text.is_char_boundary(taken) {
            taken -= 1;
        }
        self.bytes[self.length..self.length + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        self.truncated = taken < text.len();
        Ok(())
    }
}

/// Writes `text` as a JSON string with its quotes.
pub fn write_json_string(out: &mut dyn fmt::Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    for character in text.chars() {
        match character {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\0'..='\x1f' | '\x7f' => write!(out, "\\u{:04x}", character as u32)?,
            _ => out.write_char(character)?,
        }
    }
    out.write_char('"')
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::fmt::Write;

    #[test]
    fn a_full_buffer_truncates_at_a_character() {
        let mut buffer = LineBuffer::<4>::new();
        buffer.write_str("abc").unwrap();
        assert!(!buffer.is_truncated());
        buffer.write_str("\u{e9}").unwrap();
        assert_eq!((buffer.as_str(), buffer.is_truncated()), ("abc", true));
        buffer.write_str("x").unwrap();
        assert_eq!(buffer.as_str(), "abc", "a hole");
        buffer.clear();
        buffer.write_str("wxyz").unwrap();
        assert_eq!((buffer.as_str(), buffer.is_truncated()), ("wxyz", false));
    }

    #[test]
    fn an_empty_buffer_takes_nothing() {
        let mut buffer = LineBuffer::<0>::new();
        write!(buffer, "{}", 5).unwrap();
        assert_eq!((buffer.as_str(), buffer.is_truncated()), ("", true));
    }

    #[test]
    fn strings_are_escaped() {
        let mut text = String::new();
        write_json_string(&mut text, "a\"b\\c\n\t\0\x1f\x7f\u{e9}\u{1f600}").unwrap();
        assert_eq!(
            text,
            "\"a\\\"b\\\\c\\u000a\\u0009\\u0000\\u001f\\u007f\u{e9}\u{1f600}\""
        );
    }
}
