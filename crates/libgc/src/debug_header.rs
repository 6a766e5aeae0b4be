//! Debug objects: what stands around the client's part, and how damage is found.
//!
//! ```text
//! base   +8            +16    +24    +32 = the client's object   + size            end of the cell
//! file   line, check   size   flag   client's bytes ...          pattern, byte by byte, to the end
//! ```
//! Flag and pattern depend on the address, so they are found in no other object by accident. `check` is a sum over
//! file, line and size. An object that was given up keeps its header, with another flag, and is filled, so that a
//! later write to it shows.
//!
//! # Invariants
//! - The second word is never 0 in a debug object. Allocation clears it, and it is stored last, so a thread that is
//!   stopped while it makes one leaves none, whatever the memory held before.
//! - The flag is stored last when an object is given up.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

use gleaner_mem::Address;
use gleaner_spaces::mark_sweep::allocate::cookie;
use gleaner_spaces::mark_sweep::kinds::{
    ATOMIC_UNCOLLECTABLE, MAX_KINDS, NORMAL, PTRFREE, UNCOLLECTABLE,
};
use gleaner_spaces::mark_sweep::targets::MarkedObject;

/// Bytes in front of the client's part.
pub const HEADER: usize = 32;
/// Bytes behind it, at least.
pub const TRAILER: usize = 8;

const WORD: usize = size_of::<usize>();
// The top bits make these no plausible address, whatever address they are combined with.
const LIVE: usize = 0xf16e_aa5c_93d1_47b3;
const GIVEN_UP: usize = 0xe95b_0c36_6fd2_a81d;
const TAIL: usize = 0xd7c2_59b8_2ea4_f165;
const FILL: u8 = 0xdf;

/// As in gc_mark.h.
#[unsafe(no_mangle)]
pub static GC_debug_header_size: usize = HEADER;

/// As in gc_mark.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_debug_header_size() -> usize {
    HEADER
}

/// Where in the client's sources something was allocated.
#[derive(Clone, Copy)]
pub struct Origin {
    /// The file's name, or null.
    pub file: *const c_char,
    /// The line.
    pub line: c_int,
}

impl Origin {
    /// Not known.
    pub const UNKNOWN: Origin = Origin {
        file: core::ptr::null(),
        line: 0,
    };
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.file.is_null() {
            return f.write_str("unknown place");
        }
        // SAFETY: clients pass string literals; the header's sum guards against a damaged pointer.
        let file = unsafe { CStr::from_ptr(self.file) };
        write!(f, "{}:{}", file.to_str().unwrap_or("?"), self.line)
    }
}

/// What an address that should be a debug object is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// Whole.
    Sound,
    /// It was given up before, and not written since.
    GivenUp,
    /// It was given up, and written later, here.
    WrittenAfterFree(Address),
    /// Something was written over this address around it.
    Smashed(Address),
    /// Not a debug object.
    Plain,
}

/// A debug object, by its base and the size of its cell.
#[derive(Clone, Copy)]
pub struct DebugObject {
    base: Address,
    cell: usize,
}

impl DebugObject {
    /// The debug object that may stand in this cell.
    pub fn new(base: Address, cell: usize) -> Option<DebugObject> {
        (cell >= HEADER + TRAILER).then_some(DebugObject { base, cell })
    }

    /// The client's part.
    pub fn body(self) -> Address {
        self.base.add(HEADER)
    }

    fn word(self, index: usize) -> usize {
        // SAFETY: the header lies in the cell.
        unsafe { self.base.add(index * WORD).load() }
    }

    fn set_word(self, index: usize, word: usize) {
        // SAFETY: the header lies in the cell; its object is just being made or given up, so only the calling thread
        // uses it.
        unsafe {
            self.base
                .add(index * WORD)
                .ptr::<usize>()
                .write_volatile(word)
        };
    }

    /// The size that the client asked for.
    pub fn size(self) -> usize {
        self.word(2).min(self.cell - HEADER - TRAILER)
    }

    /// Where it was allocated, if the header is whole.
    pub fn origin(self) -> Origin {
        if self.is_header_whole() {
            Origin {
                file: self.word(0) as *const c_char,
                line: self.word(1) as u32 as c_int,
            }
        } else {
            Origin::UNKNOWN
        }
    }

    fn is_header_whole(self) -> bool {
        let (file, line, size) = (self.word(0), self.word(1) as u32, self.word(2));
        self.word(1) >> 32 == sum(file, line, size) && size <= self.cell - HEADER - TRAILER
    }

    /// Makes a fresh object a debug object.
    pub fn write(self, size: usize, origin: Origin) {
        let (file, line) = (origin.file as usize, origin.line as u32);
        self.set_word(0, file);
        self.set_word(2, size);
        self.set_word(3, LIVE ^ self.body().word());
        for at in HEADER + size..self.cell {
            // SAFETY: behind the client's part and inside the cell.
            unsafe { self.base.add(at).ptr::<u8>().write(self.tail_byte(at)) };
        }
        compiler_fence(Ordering::SeqCst);
        self.set_word(1, sum(file, line, size) << 32 | line as usize);
    }

    /// Marks the object as given up and fills it.
    pub fn give_up(self) {
        // SAFETY: the client's part lies in the cell and is no longer used.
        unsafe { self.body().ptr::<u8>().write_bytes(FILL, self.size()) };
        compiler_fence(Ordering::SeqCst);
        self.set_word(3, GIVEN_UP ^ self.body().word());
    }

    /// The byte that belongs at an offset behind the client's part; cells end at a multiple of a word.
    fn tail_byte(self, at: usize) -> u8 {
        (TAIL ^ self.body().word()).to_le_bytes()[at % WORD]
    }

    /// Finds out what has become of it.
    pub fn health(self) -> Health {
        if self.word(1) == 0 {
            return Health::Plain;
        }
        let flag = self.word(3) ^ self.body().word();
        let last = self.word(self.cell / WORD - 1) == TAIL ^ self.body().word();
        match flag {
            LIVE | GIVEN_UP if !self.is_header_whole() => return Health::Smashed(self.base),
            LIVE | GIVEN_UP => {}
            _ if self.word(1) == cookie(self.base) => return Health::GivenUp,
            _ if last => return Health::Smashed(self.base.add(3 * WORD)),
            _ => return Health::Plain,
        }
        if let Some(place) =
            self.first_unlike(HEADER + self.size()..self.cell, |at| self.tail_byte(at))
        {
            return Health::Smashed(place);
        }
        if flag == LIVE {
            return Health::Sound;
        }
        self.first_unlike(HEADER..HEADER + self.size(), |_| FILL)
            .map_or(Health::GivenUp, Health::WrittenAfterFree)
    }

    fn first_unlike(
        self,
        mut range: core::ops::Range<usize>,
        wanted: impl Fn(usize) -> u8,
    ) -> Option<Address> {
        // SAFETY: the range lies in the cell.
        let at =
            range.find(|at| unsafe { self.base.add(*at).ptr::<u8>().read() } != wanted(*at))?;
        Some(self.base.add(at))
    }

    /// The object in words, for messages.
    pub fn describe(self, kind: usize) -> Description {
        Description { object: self, kind }
    }
}

/// Half a word that depends on every bit of the header; not 0.
fn sum(file: usize, line: u32, size: usize) -> usize {
    let mixed =
        (file ^ size.rotate_left(29) ^ (line as usize) << 7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed >> 32 | 1
}

/// A debug object in words.
pub struct Description {
    object: DebugObject,
    kind: usize,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DebugObject { base, cell } = self.object;
        let body = self.object.body();
        if !self.object.is_header_whole() {
            return write!(
                f,
                "{body:?} (its header is damaged, at most {} bytes)",
                cell - HEADER - TRAILER
            );
        }
        let (origin, size) = (self.object.origin(), self.object.size());
        write!(
            f,
            "{body:?} (allocated at {origin}, {size} bytes, {})",
            TypeOf {
                base,
                kind: self.kind
            }
        )
    }
}

/// Any object in words, with what a debug header tells of it.
pub struct AnyObject {
    /// Its base.
    pub base: Address,
    /// Bytes of its cell.
    pub bytes: usize,
    /// Its kind.
    pub kind: usize,
}

impl fmt::Display for AnyObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AnyObject { base, bytes, kind } = *self;
        match DebugObject::new(base, bytes).filter(|object| object.health() != Health::Plain) {
            Some(object) => object.describe(kind).fmt(f),
            None => write!(f, "{base:?} ({bytes} bytes, {})", TypeOf { base, kind }),
        }
    }
}

/// The type of an object in words: by the client's function for its kind, or by the kind.
pub struct TypeOf {
    /// Base of the object.
    pub base: Address,
    /// Its kind.
    pub kind: usize,
}

/// Length of the buffer that a describing function is given.
const TYPE_BYTES: usize = 40;

impl fmt::Display for TypeOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = DESCRIBERS
            .get(self.kind)
            .map_or(0, |function| function.load(Ordering::Relaxed));
        if function != 0 {
            let mut text = [0u8; TYPE_BYTES + 1];
            // SAFETY: the client registered this function for objects of this kind; it fills at most the buffer.
            unsafe {
                let describe = core::mem::transmute::<usize, DescribeFn>(function);
                describe(self.base.ptr(), text.as_mut_ptr().cast());
            }
            text[TYPE_BYTES] = 0;
            let text = CStr::from_bytes_until_nul(&text)
                .ok()
                .and_then(|text| text.to_str().ok());
            return f.write_str(text.unwrap_or("?"));
        }
        match self.kind {
            PTRFREE => f.write_str("atomic"),
            NORMAL => f.write_str("ordinary"),
            UNCOLLECTABLE => f.write_str("uncollectable"),
            ATOMIC_UNCOLLECTABLE => f.write_str("atomic uncollectable"),
            other => write!(f, "kind {other}"),
        }
    }
}

/// Writes where a debug object was allocated, or the type that the client's function for its kind tells; false if neither
/// is known.
pub fn describe_briefly(object: &MarkedObject, out: &mut dyn fmt::Write) -> bool {
    let debug = DebugObject::new(object.base, object.bytes)
        .filter(|debug| matches!(debug.health(), Health::Sound));
    if let Some(debug) = debug {
        return write!(out, "{}", debug.origin()).is_ok();
    }
    let has_name = |function: &AtomicUsize| function.load(Ordering::Relaxed) != 0;
    let (base, kind) = (object.base, object.kind);
    DESCRIBERS.get(kind).is_some_and(has_name) && write!(out, "{}", TypeOf { base, kind }).is_ok()
}

/// `GC_describe_type_fn`.
pub type DescribeFn = unsafe extern "C-unwind" fn(*mut c_void, *mut c_char);

/// The describing functions of the kinds, as words. Relaxed: a thread that reads one needs nothing else.
static DESCRIBERS: [AtomicUsize; MAX_KINDS] = [const { AtomicUsize::new(0) }; MAX_KINDS];

/// As in gc_mark.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_register_describe_type_fn(kind: c_int, function: Option<DescribeFn>) {
    match DESCRIBERS.get(kind as usize) {
        Some(place) => place.store(
            function.map_or(0, |function| function as usize),
            Ordering::Relaxed,
        ),
        None => crate::message::die(format_args!(
            "GC_register_describe_type_fn: {kind} is no object kind"
        )),
    }
}
