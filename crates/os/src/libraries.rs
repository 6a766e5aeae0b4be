//! The writable data segments of the program and its libraries: the static roots.
//!
//! Reading the list takes a lock of the loader, which a stopped thread may hold. So it is read before the stop, and
//! after the stop a fingerprint of the loader's own list, taken without the lock, tells whether the list is still
//! right. If not, the world runs again and the reading is repeated, by the thread that stops it.
//!
//! There are two cases in which the two may never agree. The calling thread itself may be in the middle of loading (the
//! loader calls the program's `malloc`); then the list is right, because the loader lets no second thread in. Or the
//! code is in a name space of `dlmopen`, which the unlocked list does not show.
//!
//! What the loader made read-only after relocation (RELRO) is left out: nothing of the heap is stored
//! there. Only the name space of the caller is seen (`dlmopen` makes others).

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;

/// A writable piece of a loaded object.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Where the object is loaded: the difference between its addresses in memory and in its file.
    pub object_base: usize,
    /// Where its dynamic section is; 0 if it has none.
    pub dynamic: usize,
    /// The first byte, a multiple of 8.
    pub low: usize,
    /// The byte after the last, a multiple of 8.
    pub high: usize,
    /// Whether the object is the program itself.
    pub is_main: bool,
    /// The loader's string with the object's path, empty for the program; it lives as long as the object is
    /// loaded.
    pub name: *const c_char,
}

// SAFETY: the addresses are only numbers until they are followed under the contract above.
unsafe impl Send for Segment {}
// SAFETY: the addresses are only numbers until they are followed under the contract above.
unsafe impl Sync for Segment {}

impl Segment {
    /// A piece of nothing, to fill buffers with.
    pub const EMPTY: Segment = Segment {
        object_base: 0,
        dynamic: 0,
        low: 0,
        high: 0,
        is_main: false,
        name: ptr::null(),
    };

    /// The object's path as the loader knows it.
    ///
    /// # Safety
    /// The object is still loaded.
    pub unsafe fn path(&self) -> &CStr {
        if self.name.is_null() {
            return c"";
        }
        // SAFETY: the loader's string lives while the object is loaded.
        unsafe { CStr::from_ptr(self.name) }
    }
}

/// Which objects are loaded, in which order, at which addresses and under which names, in short.
///
/// Two readings with the same fingerprint saw the same list. The one thing that it cannot tell is an object
/// that was closed, replaced on disk by another of the same name and opened again at the same address with
/// its dynamic section in the same place: [`Counters`] tell that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    objects: u32,
    hash: u64,
}

impl Fingerprint {
    /// The fingerprint of no object at all.
    pub const EMPTY: Fingerprint = Fingerprint {
        objects: 0,
        hash: 0xcbf2_9ce4_8422_2325,
    };

    /// Adds an object: its base, where its dynamic section is, and its name.
    ///
    /// # Safety
    /// The name is null or a string.
    pub(crate) unsafe fn add(&mut self, base: usize, dynamic: usize, name: *const c_char) {
        self.objects += 1;
        for word in [base, dynamic, name as usize] {
            self.mix(word as u64);
        }
        if !name.is_null() {
            // SAFETY: not null, so it is a string, as asked.
            for &byte in unsafe { CStr::from_ptr(name) }.to_bytes() {
                self.mix(u64::from(byte));
            }
        }
    }

    fn mix(&mut self, word: u64) {
        let spread = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash = spread ^ spread >> 29;
    }
}

/// How many objects the loader has added and removed since the program started. Equal counters: nothing
/// changed at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Objects added.
    pub added: u64,
    /// Objects removed.
    pub removed: u64,
}

/// A successful reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// How many entries of the buffer were filled.
    pub segments: usize,
    /// What was loaded at that moment.
    pub fingerprint: Fingerprint,
    /// The loader's counters at that moment.
    pub counters: Counters,
}

/// The buffer was too small for the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// How many entries it would have taken.
    pub needed: usize,
}

/// Reads the writable segments of every loaded object into `buffer`, the program's first. An object without any has an empty
/// one.
///
/// Takes the loader's list lock, which other threads hold while they call back into the program
/// (`dl_iterate_phdr`): not in a stopped world, not in a handler, and with no lock held that such a
/// callback may want, the allocator's included. Does not allocate.
pub fn read(buffer: &mut [Segment]) -> Result<List, Overflow> {
    let mut reader = Reader {
        buffer,
        segments: 0,
        fingerprint: Fingerprint::EMPTY,
        counters: Counters::default(),
    };
    // SAFETY: the callback gets the reader, which outlives the call and is not used by anyone else
    // meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(read_object), (&raw mut reader).cast()) };
    if reader.segments > reader.buffer.len() {
        return Err(Overflow {
            needed: reader.segments,
        });
    }
    Ok(List {
        segments: reader.segments,
        fingerprint: reader.fingerprint,
        counters: reader.counters,
    })
}

/// The loader's counters, cheaper than a reading; the same lock and the same conditions as [`read`].
pub fn counters() -> Counters {
    let mut counters = Counters::default();
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> c_int {
        // SAFETY: the loader's record is valid during the callback; `to` is the local above.
        unsafe { *to.cast::<Counters>() = counters_of(&*info) };
        1
    }
    // SAFETY: the callback writes the local, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut counters).cast()) };
    counters
}

fn counters_of(info: &libc::dl_phdr_info) -> Counters {
    Counters {
        added: info.dlpi_adds,
        removed: info.dlpi_subs,
    }
}

/// A reading in progress.
struct Reader<'b> {
    buffer: &'b mut [Segment],
    /// How many were found, also beyond the buffer's end.
    segments: usize,
    fingerprint: Fingerprint,
    counters: Counters,
}

unsafe extern "C" fn read_object(
    info: *mut libc::dl_phdr_info,
    _: usize,
    reader: *mut c_void,
) -> c_int {
    // SAFETY: the loader's record and its program headers are valid during the callback; the reader is
    // `read`'s.
    unsafe {
        let (info, reader) = (&*info, &mut *reader.cast::<Reader>());
        let headers = match info.dlpi_phdr.is_null() {
            true => &[],
            false => core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize),
        };
        let base = info.dlpi_addr as usize;
        let dynamic = bounds_of(headers, libc::PT_DYNAMIC, base).map_or(0, |d| d.0);
        let object = Segment {
            object_base: base,
            dynamic,
            is_main: reader.fingerprint.objects == 0,
            name: info.dlpi_name,
            ..Segment::EMPTY
        };
        reader.counters = counters_of(info);
        reader.fingerprint.add(base, dynamic, object.name);
        let before = reader.segments;
        reader.add_object(object, headers);
        if reader.segments == before {
            reader.put(object);
        }
    }
    0
}

/// The addresses that the first header of this kind covers.
fn bounds_of(headers: &[libc::Elf64_Phdr], kind: u32, base: usize) -> Option<(usize, usize)> {
    headers
        .iter()
        .find(|header| header.p_type == kind)
        .map(|header| bounds(header, base))
}

fn bounds(header: &libc::Elf64_Phdr, base: usize) -> (usize, usize) {
    let low = base.wrapping_add(header.p_vaddr as usize);
    (low, low.wrapping_add(header.p_memsz as usize))
}

impl Reader<'_> {
    /// Adds what is writable in an object: its writable segments without the part that became read-only.
    fn add_object(&mut self, object: Segment, headers: &[libc::Elf64_Phdr]) {
        let base = object.object_base;
        let (sealed_low, sealed_high) = match bounds_of(headers, libc::PT_GNU_RELRO, base) {
            // The loader protects whole pages; what follows on the last, partial page stays writable.
            Some((low, high)) => (low, high & !(crate::memory::page_size() - 1)),
            None => (0, 0),
        };
        for header in headers {
            if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W == 0 {
                continue;
            }
            let (low, high) = bounds(header, base);
            if sealed_low >= sealed_high || sealed_high <= low || high <= sealed_low {
                self.add_piece(object, low, high);
            } else {
                self.add_piece(object, low, sealed_low);
                self.add_piece(object, sealed_high, high);
            }
        }
    }

    /// Adds the whole words of a range, if there are any.
    fn add_piece(&mut self, object: Segment, low: usize, high: usize) {
        let (low, high) = (low.next_multiple_of(8), high & !7);
        if low >= high {
            return;
        }
        self.put(Segment {
            low,
            high,
            ..object
        });
    }

    fn put(&mut self, segment: Segment) {
        if let Some(place) = self.buffer.get_mut(self.segments) {
            *place = segment;
        }
        self.segments += 1;
    }
}

/// An entry of the loader's list, in the layout that debuggers rely on (link.h).
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: usize,
    next: *const LinkMap,
}

/// The loader's record for debuggers (link.h).
#[repr(C)]
struct LoaderRecord {
    version: c_int,
    first: *const LinkMap,
    hook: usize,
    state: c_int,
}

/// The list is whole: no object is being added or removed.
const CONSISTENT: c_int = 0;

/// More objects than any program loads: a list that goes on is not to be trusted.
const OBJECTS_MAX: u32 = 1 << 20;

unsafe extern "C" {
    #[link_name = "_r_debug"]
    static LOADER_RECORD: LoaderRecord;
}

/// The fingerprint of the loader's list without its lock; None while the loader is changing the list.
///
/// It equals the fingerprint of a [`read`] that saw the same list. No lock, no allocation.
///
/// # Safety
/// Every thread that could load or close a library, other than the caller, is stopped.
pub unsafe fn fingerprint_unlocked() -> Option<Fingerprint> {
    let record = &raw const LOADER_RECORD;
    // SAFETY: the record is the loader's, and nobody changes it now. Volatile, because it changes otherwise
    // unseen by the compiler.
    if unsafe { (&raw const (*record).state).read_volatile() } != CONSISTENT {
        return None;
    }
    let mut fingerprint = Fingerprint::EMPTY;
    // SAFETY: in a consistent list every entry and its name are valid, and nobody changes it now, as asked.
    let is_whole =
        unsafe { each_unlocked(|entry| fingerprint.add(entry.base, entry.dynamic, entry.name)) };
    is_whole.then_some(fingerprint)
}

unsafe extern "C" {
    /// The start of the image that this code is linked into; defined by the linker.
    static __ehdr_start: u8;
}

/// Where the object that this code belongs to is loaded, unless it is a program with fixed addresses.
pub fn own_base() -> usize {
    (&raw const __ehdr_start).addr()
}

/// Calls `visit` with where each object is loaded that the loader lists, and where its dynamic section is; false if the list
/// has no end. No lock, no allocation. While the loader is changing the list, what it is adding may be there or not.
///
/// # Safety
/// As for [`fingerprint_unlocked`].
pub unsafe fn objects_unlocked(mut visit: impl FnMut(usize, usize)) -> bool {
    // SAFETY: nobody changes the list now, as asked; an entry is complete before it is linked.
    unsafe { each_unlocked(|entry| visit(entry.base, entry.dynamic)) }
}

/// # Safety
/// As for [`fingerprint_unlocked`].
unsafe fn each_unlocked(mut visit: impl FnMut(&LinkMap)) -> bool {
    let record = &raw const LOADER_RECORD;
    // SAFETY: the record is the loader's, and nobody changes it now, as asked. Volatile, since the loader writes to it.
    let mut object = unsafe { (&raw const (*record).first).read_volatile() };
    for _ in 0..OBJECTS_MAX {
        if object.is_null() {
            return true;
        }
        // SAFETY: an entry of the list, which nobody changes now.
        let entry = unsafe { &*object };
        visit(entry);
        object = entry.next;
    }
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn header(kind: u32, flags: u32, low: u64, bytes: u64) -> libc::Elf64_Phdr {
        libc::Elf64_Phdr {
            p_type: kind,
            p_flags: flags,
            p_offset: 0,
            p_vaddr: low,
            p_paddr: 0,
            p_filesz: 0,
            p_memsz: bytes,
            p_align: 4096,
        }
    }

    /// The pieces of an object that is loaded at 0x10000.
    fn pieces(headers: &[libc::Elf64_Phdr]) -> Vec<(usize, usize)> {
        let mut buffer = [Segment::EMPTY; 8];
        let mut reader = Reader {
            buffer: &mut buffer,
            segments: 0,
            fingerprint: Fingerprint::EMPTY,
            counters: Counters::default(),
        };
        let object = Segment {
            object_base: 0x10000,
            ..Segment::EMPTY
        };
        reader.add_object(object, headers);
        let found = reader.segments;
        buffer[..found].iter().map(|s| (s.low, s.high)).collect()
    }

    #[test]
    fn read_only_and_sealed_parts_are_left_out() {
        let write = libc::PF_R | libc::PF_W;
        let code = header(libc::PT_LOAD, libc::PF_R | libc::PF_X, 0, 0x2000);
        let data = header(libc::PT_LOAD, write, 0x3df0, 0x1210);
        assert_eq!(pieces(&[code, data]), [(0x13df0, 0x15000)]);
        let at_start = header(libc::PT_GNU_RELRO, libc::PF_R, 0x3df0, 0x210);
        assert_eq!(pieces(&[code, data, at_start]), [(0x14000, 0x15000)]);
        let within = header(libc::PT_GNU_RELRO, libc::PF_R, 0x4000, 0x800);
        assert_eq!(pieces(&[data, within]), [(0x13df0, 0x15000)]);
        let middle = header(libc::PT_LOAD, write, 0x3003, 0x3005);
        let sealed = header(libc::PT_GNU_RELRO, libc::PF_R, 0x4000, 0x1000);
        assert_eq!(
            pieces(&[middle, sealed]),
            [(0x13008, 0x14000), (0x15000, 0x16008)]
        );
        let whole = header(libc::PT_GNU_RELRO, libc::PF_R, 0x3000, 0x5000);
        assert_eq!(pieces(&[data, whole]), []);
        let elsewhere = header(libc::PT_GNU_RELRO, libc::PF_R, 0x9000, 0x1000);
        assert_eq!(pieces(&[data, elsewhere]), [(0x13df0, 0x15000)]);
    }

    #[test]
    fn a_fingerprint_depends_on_every_part_and_on_the_order() {
        let print = |objects: &[(usize, usize, &'static CStr)]| {
            let mut fingerprint = Fingerprint::EMPTY;
            for &(base, dynamic, name) in objects {
                // SAFETY: the name is a string.
                unsafe { fingerprint.add(base, dynamic, name.as_ptr()) };
            }
            fingerprint
        };
        let (a, b) = ((1, 2, c"a"), (3, 4, c"b"));
        assert_eq!(print(&[a, b]), print(&[a, b]));
        assert_ne!(print(&[a, b]), print(&[b, a]));
        assert_ne!(print(&[a, b]), print(&[a]));
        assert_ne!(print(&[a]), print(&[(9, 2, c"a")]));
        assert_ne!(print(&[a]), print(&[(1, 9, c"a")]));
        // The same place in memory with another text: the loader reuses freed strings.
        let mut text = *b"lib1\0";
        let mut prints = [Fingerprint::EMPTY; 2];
        for fingerprint in &mut prints {
            // SAFETY: the text ends with a zero byte.
            unsafe { fingerprint.add(1, 2, text.as_ptr().cast()) };
            text[3] = b'2';
        }
        assert_ne!(prints[0], prints[1]);
    }
}
