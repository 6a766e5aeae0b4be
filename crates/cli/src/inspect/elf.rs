//! The facts of an ELF file that matter for preloading, read from the parts that the loader itself uses (program
//! headers and the dynamic section), so that stripped files are read as well.

use object::elf::{self, FileHeader64};
use object::read::elf::ElfFile64;
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSegment as _, ObjectSymbol as _};

type Header = FileHeader64<Endianness>;

/// What an ELF file says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Elf {
    /// The processor it is for (`EM_...`).
    pub(crate) machine: u16,
    /// True for a shared object or a position-independent program.
    pub(crate) is_shared: bool,
    /// True for a program that the loader starts; false for a static one and for most libraries.
    pub(crate) has_interpreter: bool,
    /// The name that others are linked against.
    pub(crate) soname: Option<String>,
    /// The libraries it asks for, in order.
    pub(crate) needed: Vec<String>,
    /// Where to look for them, before `LD_LIBRARY_PATH`; inherited by the libraries found.
    pub(crate) rpath: Option<String>,
    /// Where to look for them, after `LD_LIBRARY_PATH`.
    pub(crate) runpath: Option<String>,
}

/// Reads a 64-bit ELF file. The error says what is wrong with it, to follow the file's name.
pub(crate) fn read(data: &[u8]) -> Result<Elf, String> {
    if data.get(4) == Some(&elf::ELFCLASS32) {
        return Err("is a 32-bit file; Gleaner's library is a 64-bit one".into());
    }
    parse(data).map_err(|error| format!("is a damaged ELF file ({error})"))
}

/// The number that an exported variable of four bytes has in the file.
pub(crate) fn number(data: &[u8], variable: &str) -> Option<u32> {
    let file = ElfFile64::<Endianness>::parse(data).ok()?;
    let symbol = file
        .dynamic_symbols()
        .find(|symbol| symbol.is_definition() && symbol.name() == Ok(variable))?;
    file.segments().find_map(|segment| {
        let bytes = segment.data_range(symbol.address(), 4).ok()??;
        bytes.try_into().ok().map(u32::from_le_bytes)
    })
}

fn parse(data: &[u8]) -> Result<Elf, Box<dyn std::error::Error>> {
    let header = Header::parse(data)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, data)?;
    let mut found = Elf {
        machine: header.e_machine(endian),
        is_shared: header.e_type(endian) == elf::ET_DYN,
        ..Elf::default()
    };
    for segment in segments {
        if segment.p_type(endian) == elf::PT_LOAD && segment.data(endian, data).is_err() {
            return Err("it is cut short".into());
        }
        found.has_interpreter |= segment.p_type(endian) == elf::PT_INTERP;
        if let Some(entries) = segment.dynamic(endian, data)? {
            let strings = strings(endian, segments, entries, data)?;
            read_dynamic(&mut found, endian, entries, strings);
        }
    }
    Ok(found)
}

/// The dynamic string table, found by its address.
fn strings<'a>(
    endian: Endianness,
    segments: &[elf::ProgramHeader64<Endianness>],
    entries: &[elf::Dyn64<Endianness>],
    data: &'a [u8],
) -> Result<&'a [u8], Box<dyn std::error::Error>> {
    let value = |tag: u32| {
        entries
            .iter()
            .find(|entry| entry.tag32(endian) == Some(tag))
            .map(|entry| entry.d_val(endian))
    };
    let (Some(address), Some(size)) = (value(elf::DT_STRTAB), value(elf::DT_STRSZ)) else {
        return Ok(&[]);
    };
    let table = segments
        .iter()
        .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
        .find_map(|segment| segment.data_range(endian, data, address, size).ok()?);
    table.ok_or_else(|| "its strings lie outside of it".into())
}

fn read_dynamic(
    found: &mut Elf,
    endian: Endianness,
    entries: &[elf::Dyn64<Endianness>],
    strings: &[u8],
) {
    for entry in entries {
        let text = || {
            let tail = strings.get(entry.d_val(endian) as usize..)?;
            let end = tail.iter().position(|&byte| byte == 0)?;
            Some(String::from_utf8_lossy(&tail[..end]).into_owned())
        };
        match entry.tag32(endian) {
            Some(elf::DT_NULL) => break,
            Some(elf::DT_NEEDED) => found.needed.extend(text()),
            Some(elf::DT_SONAME) => found.soname = text(),
            Some(elf::DT_RPATH) => found.rpath = text(),
            Some(elf::DT_RUNPATH) => found.runpath = text(),
            _ => {}
        }
    }
    // The loader ignores an rpath beside a runpath.
    if found.runpath.is_some() {
        found.rpath = None;
    }
}

#[cfg(test)]
mod tests {
    use object::U64;

    use super::*;

    fn of(path: &str) -> Elf {
        read(&std::fs::read(path).unwrap()).unwrap()
    }

    #[test]
    fn reads_a_program_and_a_library() {
        let shell = of("/bin/sh");
        assert!(shell.has_interpreter);
        assert!(shell.needed.iter().any(|name| name == "libc.so.6"));
        let nix = of("/usr/bin/nix-instantiate");
        assert_eq!(nix.runpath.as_deref(), Some("/usr/lib/nix"));
        let libgc = of("/lib/x86_64-linux-gnu/libgc.so.1");
        assert_eq!(libgc.soname.as_deref(), Some("libgc.so.1"));
        assert!(libgc.is_shared && !libgc.has_interpreter);
        assert_eq!(libgc.machine, shell.machine);
    }

    #[test]
    fn says_what_is_wrong() {
        let whole = std::fs::read("/bin/sh").unwrap();
        assert!(
            read(&whole[..whole.len() / 2])
                .unwrap_err()
                .contains("damaged")
        );
        for length in 0..64 {
            assert!(read(&whole[..length]).is_err());
        }
        let mut narrow = whole;
        narrow[4] = 1;
        assert!(read(&narrow).unwrap_err().contains("32-bit"));
    }

    /// The end of the last segment that is loaded holds nothing that is read here, but must be there.
    #[test]
    fn says_that_a_file_is_cut_short() {
        let whole = std::fs::read("/bin/sh").unwrap();
        let header = Header::parse(&*whole).unwrap();
        let endian = header.endian().unwrap();
        let segments = header.program_headers(endian, &*whole).unwrap().iter();
        let end = segments
            .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
            .map(|segment| segment.p_offset(endian) + segment.p_filesz(endian))
            .max()
            .unwrap() as usize;
        assert!(read(&whole[..end]).is_ok());
        let said = read(&whole[..end - 1]).unwrap_err();
        assert!(said.contains("cut short"), "{said}");
    }

    #[test]
    fn a_runpath_hides_an_rpath_and_nothing_else_does() {
        let little = Endianness::Little;
        let entry = |tag: u32, value: u64| elf::Dyn64 {
            d_tag: U64::new(little, tag.into()),
            d_val: U64::new(little, value),
        };
        let read = |entries: &[elf::Dyn64<Endianness>]| {
            let mut found = Elf::default();
            read_dynamic(&mut found, little, entries, b"\0/old\0/new\0");
            (found.rpath, found.runpath)
        };
        let (rpath, runpath) = (entry(elf::DT_RPATH, 1), entry(elf::DT_RUNPATH, 6));
        let (old, new) = (Some("/old".to_string()), Some("/new".to_string()));
        assert_eq!(read(&[rpath]), (old, None));
        assert_eq!(read(&[rpath, runpath]), (None, new.clone()));
        assert_eq!(read(&[runpath, rpath]), (None, new));
    }
}
