//! How long the machine code of a function of this program is, as its own table of symbols has it.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::Path;

use gleaner_workloads::failed;

use gleaner_workloads::failure::{Failure, Result};

/// The functions of this program: bytes of code, by address.
pub struct CodeSizes {
    /// Where the program was loaded.
    base: u64,
    sizes: HashMap<u64, u64>,
}

impl CodeSizes {
    /// Reads the file of this program (ELF, 64 bits, little-endian), which must not be stripped.
    pub fn read() -> Result<CodeSizes> {
        let program = env::current_exe().map_err(failed)?;
        let file = fs::read(&program).map_err(|error| Failure::at(&program, error))?;
        let sizes = symbols(&file)
            .filter(|sizes| !sizes.is_empty())
            .ok_or_else(|| Failure::at(&program, "no table of symbols; it was stripped"))?;
        let maps = Path::new("/proc/self/maps");
        let text = fs::read_to_string(maps).map_err(|error| Failure::at(maps, error))?;
        let base = base_of(&text, &program.to_string_lossy())
            .ok_or_else(|| Failure::at(maps, "this program is not there"))?;
        Ok(CodeSizes { base, sizes })
    }

    /// Bytes of the function that begins at an address.
    pub fn of(&self, address: usize) -> Option<u64> {
        self.sizes.get(&(address as u64 - self.base)).copied()
    }
}

/// Where the first part of a file is mapped.
fn base_of(maps: &str, file: &str) -> Option<u64> {
    let line = maps.lines().find(|line| line.ends_with(file))?;
    u64::from_str_radix(line.split('-').next()?, 16).ok()
}

/// The sizes of all functions by their addresses; `None` if the file has no sections, or is cut off.
fn symbols(file: &[u8]) -> Option<HashMap<u64, u64>> {
    const SYMBOLS: u64 = 2;
    const FUNCTION: u64 = 2;
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(file.get(at..at + bytes)?);
        Some(u64::from_le_bytes(word))
    };
    // The header: where the sections' table is, the bytes of a row, and the rows.
    let (table, row, rows) = (number(0x28, 8)?, number(0x3a, 2)?, number(0x3c, 2)?);
    let mut found = HashMap::new();
    for section in (0..rows).map(|index| (table + index * row) as usize) {
        if number(section + 4, 4)? != SYMBOLS {
            continue;
        }
        let (start, bytes) = (number(section + 0x18, 8)?, number(section + 0x20, 8)?);
        for symbol in (start..start + bytes)
            .step_by(24)
            .map(|symbol| symbol as usize)
        {
            if number(symbol + 4, 1)? & 0xf == FUNCTION {
                found.insert(number(symbol + 8, 8)?, number(symbol + 16, 8)?);
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[inline(never)]
    fn little(number: u64) -> u64 {
        black_box(number) + 1
    }

    #[inline(never)]
    fn more(number: u64) -> u64 {
        let mut sum = 0;
        for factor in [3, 5, 7, 11, 13, 17] {
            sum = black_box(sum + factor * number) ^ black_box(number);
        }
        sum
    }

    #[test]
    fn longer_functions_have_more_bytes() {
        assert!(little(1) < more(1));
        let sizes = CodeSizes::read().unwrap();
        let [little, more] = [little as fn(u64) -> u64, more].map(|function| {
            let size = sizes.of(function as usize);
            size.expect("a function of this program")
        });
        assert!(0 < little && little < more, "{little}, {more}");
    }

    #[test]
    fn a_file_that_is_cut_off_has_no_symbols() {
        let file = fs::read(env::current_exe().unwrap()).unwrap();
        assert!(symbols(&file[..0x30]).is_none());
        assert!(symbols(&file[..file.len() / 2]).is_none());
    }

    #[test]
    fn the_first_mapping_of_a_file_counts() {
        let maps = "\
55d0-55d4 r--p 00000000 08:01 77 /bin/other
7f00-7f10 r--p 00000000 08:01 78 /bin/this
7f10-7f40 r-xp 00010000 08:01 78 /bin/this
";
        assert_eq!(base_of(maps, "/bin/this"), Some(0x7f00));
        assert_eq!(base_of(maps, "/bin/that"), None);
    }
}
