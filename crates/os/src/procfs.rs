//! Reading the kernel's small text files without allocation.
//!
//! A file is read whole into a caller's buffer, or line by line through a small one. Any thread, any state
//! of the world.

use crate::output::{Fd, open_read};
use core::ffi::CStr;
use gleaner_base::faults::{self, FaultPoint};

/// Reads as much of the file as fits into `buffer`.
pub(crate) fn read<'b>(path: &CStr, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    let file = open_read(path)?;
    let length = fill(file, buffer);
    file.close();
    Some(&buffer[..length?])
}

/// Reads until the buffer is full or the file ends: the kernel may hand a file out in pieces.
fn fill(file: Fd, buffer: &mut [u8]) -> Option<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match read_piece(file, &mut buffer[length..])? {
            0 => break,
            more => length += more,
        }
    }
    Some(length)
}

/// Reads the next piece; 0 bytes at the end.
fn read_piece(file: Fd, into: &mut [u8]) -> Option<usize> {
    if faults::armed(FaultPoint::ReadSystemFile) {
        return None;
    }
    file.read(into)
}

/// Calls `each` with every line of the file, without its end, until it returns false.
///
/// A line longer than the internal buffer comes in pieces. False when the file cannot be read, or not to its end.
pub(crate) fn lines(path: &CStr, mut each: impl FnMut(&[u8]) -> bool) -> bool {
    let Some(file) = open_read(path) else {
        return false;
    };
    let mut buffer = [0u8; 4096];
    let mut held = 0;
    let whole = loop {
        let Some(more) = read_piece(file, &mut buffer[held..]) else {
            break false;
        };
        let length = held + more;
        let mut start = 0;
        let mut wanted = true;
        while let Some(end) = buffer[start..length].iter().position(|&b| b == b'\n') {
            wanted = each(&buffer[start..start + end]);
            start += end + 1;
            if !wanted {
                break;
            }
        }
        if !wanted {
            break true;
        }
        let rest = length - start;
        if rest > 0 && (more == 0 || rest == buffer.len()) {
            wanted = each(&buffer[start..length]);
            held = 0;
        } else {
            buffer.copy_within(start..length, 0);
            held = rest;
        }
        if more == 0 || !wanted {
            break true;
        }
    };
    file.close();
    whole
}

/// The decimal number at the start of `text`, spaces skipped.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let mut value: u64 = 0;
    for &digit in &text[..digits] {
        value = value
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
    }
    (digits > 0).then_some(value)
}

/// The hexadecimal number at the start of `text`, and what follows it.
pub(crate) fn hexadecimal(text: &[u8]) -> Option<(usize, &[u8])> {
    let digits = text.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let mut value: usize = 0;
    for &digit in &text[..digits] {
        let digit = (digit as char).to_digit(16)? as usize;
        value = value.checked_mul(16)?.checked_add(digit)?;
    }
    (digits > 0).then_some((value, &text[digits..]))
}

/// The number after `label` at the start of a line.
pub(crate) fn labelled(line: &[u8], label: &[u8]) -> Option<u64> {
    number(line.strip_prefix(label)?)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn file(name: &str, text: &[u8]) -> std::ffi::CString {
        let path =
            std::env::temp_dir().join(format!("gleaner-procfs-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        std::ffi::CString::new(path.to_str().unwrap()).unwrap()
    }

    #[test]
    fn lines_of_any_length_come_in_order() {
        let long = "x".repeat(9000);
        let path = file("lines", format!("one\n\n{long}\nlast").as_bytes());
        let mut seen: Vec<Vec<u8>> = Vec::new();
        assert!(lines(&path, |line| {
            seen.push(line.to_vec());
            true
        }));
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
        assert_eq!((&seen[0][..], &seen[1][..]), (&b"one"[..], &b""[..]));
        assert_eq!(seen.last().unwrap(), b"last");
        let middle: usize = seen[2..seen.len() - 1].iter().map(Vec::len).sum();
        assert_eq!(middle, 9000);
    }

    #[test]
    fn reading_stops_when_told_and_at_the_buffers_end() {
        let path = file("stop", b"a\nb\nc\n");
        let mut count = 0;
        assert!(lines(&path, |_| {
            count += 1;
            count < 2
        }));
        assert_eq!(count, 2);
        let mut small = [0; 3];
        assert_eq!(read(&path, &mut small), Some(&b"a\nb"[..]));
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
        assert!(!lines(c"/nowhere/at/all", |_| true));
    }

    #[test]
    fn numbers_are_read_and_overflow_is_refused() {
        assert_eq!(number(b"  42 kB"), Some(42));
        assert_eq!(number(b"kB"), None);
        assert_eq!(number(b"99999999999999999999"), None);
        assert_eq!(hexadecimal(b"7f00-8"), Some((0x7f00, &b"-8"[..])));
        assert_eq!(hexadecimal(b"ffffffffffffffffff"), None);
        assert_eq!(labelled(b"VmHWM:\t 12 kB", b"VmHWM:"), Some(12));
        assert_eq!(labelled(b"VmRSS:\t 12 kB", b"VmHWM:"), None);
    }
}
