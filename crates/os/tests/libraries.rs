//! The list of libraries against the real loader, in a process of its own: other tests load things too.
//!
//! One test, because the loader's list is one for the whole process.

use gleaner_os::libraries::{self, Overflow, Segment};
use gleaner_os::signals::{self, Delivery};
use gleaner_os::threads::{ThreadId, current_tid, yield_now};
use std::ffi::{CString, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// Static data of the program that a reading must cover.
static mut INITIALISED: u64 = 7;
static mut ZERO: [u64; 1000] = [0; 1000];

fn build(directory: &Path, name: &str, source: &str) -> PathBuf {
    let (c, so) = (directory.join("source.c"), directory.join(name));
    std::fs::write(&c, source).unwrap();
    let built = Command::new("gcc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&so, &c])
        .status()
        .expect("gcc");
    assert!(built.success());
    so
}

fn open(path: &Path) -> *mut c_void {
    let name = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the libraries are this test's and have no constructors.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    handle
}

fn close(handle: *mut c_void) {
    // SAFETY: opened by `open`, closed once.
    assert_eq!(unsafe { libc::dlclose(handle) }, 0);
}

fn symbol(handle: *mut c_void, name: &str) -> usize {
    let name = CString::new(name).unwrap();
    // SAFETY: an open handle and a string.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) } as usize;
    assert_ne!(address, 0);
    address
}

fn read() -> (Vec<Segment>, libraries::List) {
    let mut buffer = [Segment::EMPTY; 256];
    let list = libraries::read(&mut buffer).unwrap();
    (buffer[..list.segments].to_vec(), list)
}

fn unlocked() -> Option<libraries::Fingerprint> {
    // SAFETY: no other thread of this test loads anything at the moment, or it is stopped.
    unsafe { libraries::fingerprint_unlocked() }
}

fn home(segments: &[Segment], address: usize) -> Option<&Segment> {
    segments
        .iter()
        .find(|s| s.low <= address && address < s.high)
}

#[test]
fn the_list_follows_the_loader() {
    let directory = std::env::temp_dir().join(format!("gleaner-libraries-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let source = "long data = 5; long zero[4000]; int f(void){return 1;} \
                  int (*const sealed[600])(void) = {f, f};";
    let one = build(&directory, "libgleaner-one.so", source);
    let two = build(&directory, "libgleaner-two.so", source);
    the_program_comes_first_and_the_buffer_may_be_too_small();
    opening_and_closing_show(&one);
    another_library_at_the_same_address_shows(&one, &two);
    a_thread_that_loads_while_it_is_stopped_is_noticed(&one);
    std::fs::remove_dir_all(&directory).unwrap();
}

fn the_program_comes_first_and_the_buffer_may_be_too_small() {
    let (segments, list) = read();
    assert_eq!(Some(list.fingerprint), unlocked());
    assert_eq!(list.counters, libraries::counters());
    for address in [
        &raw const INITIALISED as usize,
        &raw const ZERO as usize + 4000,
    ] {
        assert!(home(&segments, address).unwrap().is_main);
    }
    assert!(segments[0].is_main);
    // SAFETY: the objects are still loaded.
    let paths: Vec<_> = segments.iter().map(|s| unsafe { s.path() }).collect();
    assert!(paths[0].is_empty());
    assert!(
        paths
            .iter()
            .any(|p| p.to_str().unwrap().ends_with("libc.so.6"))
    );
    let needed = segments.len();
    for room in [0, 1, needed - 1] {
        let mut small = vec![Segment::EMPTY; room];
        assert_eq!(libraries::read(&mut small), Err(Overflow { needed }));
    }
}

fn opening_and_closing_show(library: &Path) {
    let (_, before) = read();
    let handle = open(library);
    let (segments, with) = read();
    assert_ne!(before.fingerprint, with.fingerprint);
    assert_eq!(with.counters.added, before.counters.added + 1);
    assert_eq!(Some(with.fingerprint), unlocked());
    let segment = home(&segments, symbol(handle, "data")).unwrap();
    assert!(!segment.is_main);
    // SAFETY: the library is open.
    let path = unsafe { segment.path() };
    assert_eq!(path.to_str().unwrap(), library.to_str().unwrap());
    assert!(home(&segments, symbol(handle, "zero") + 31_999 / 8 * 8).is_some());
    assert!(
        home(&segments, symbol(handle, "sealed")).is_none(),
        "became read-only"
    );
    close(handle);
    let (_, after) = read();
    assert_eq!(after.fingerprint, before.fingerprint);
    assert_eq!(after.counters.removed, before.counters.removed + 1);
    assert_eq!(Some(after.fingerprint), unlocked());
}

fn another_library_at_the_same_address_shows(one: &Path, two: &Path) {
    let mut same_place = 0;
    for _ in 0..20 {
        let first = open(one);
        let (place, (_, list)) = (symbol(first, "data"), read());
        close(first);
        let second = open(two);
        assert_ne!(read().1.fingerprint, list.fingerprint);
        assert_ne!(unlocked(), Some(list.fingerprint));
        same_place += u32::from(symbol(second, "data") == place);
        close(second);
    }
    assert!(
        same_place > 0,
        "the kernel gave the hole to the next library"
    );
}

static STOP: AtomicBool = AtomicBool::new(false);
static PARKED: AtomicU32 = AtomicU32::new(0);
static LOADER_THREAD: AtomicI32 = AtomicI32::new(0);
static OVER: AtomicBool = AtomicBool::new(false);

extern "C" fn park(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    PARKED.store(1, Ordering::Release);
    while STOP.load(Ordering::Acquire) {
        yield_now();
    }
    PARKED.store(0, Ordering::Release);
}

fn a_thread_that_loads_while_it_is_stopped_is_noticed(library: &Path) {
    assert!(signals::install_suspend_handler(
        signals::DEFAULT_SUSPEND,
        park
    ));
    let path = library.to_owned();
    let loader = std::thread::spawn(move || {
        LOADER_THREAD.store(current_tid().0, Ordering::Release);
        while !OVER.load(Ordering::Acquire) {
            close(open(&path));
        }
    });
    while LOADER_THREAD.load(Ordering::Acquire) == 0 {
        yield_now();
    }
    let thread = ThreadId(LOADER_THREAD.load(Ordering::Acquire));
    let stop = || {
        STOP.store(true, Ordering::Release);
        assert_eq!(
            signals::send(thread, signals::DEFAULT_SUSPEND),
            Delivery::Sent
        );
        while PARKED.load(Ordering::Acquire) == 0 {
            yield_now();
        }
    };
    let resume = || {
        STOP.store(false, Ordering::Release);
        while PARKED.load(Ordering::Acquire) == 1 {
            yield_now();
        }
    };
    let (mut confirmed, mut changed, mut sum) = (0, 0, 0u64);
    while confirmed < 200 || changed == 0 {
        let (segments, list) = read();
        stop();
        // The one other thread that loads is stopped now.
        if unlocked() == Some(list.fingerprint) {
            confirmed += 1;
            for segment in segments {
                for address in (segment.low..segment.high).step_by(4096) {
                    // SAFETY: the list is right, so the segment is there: this faults if it is not.
                    sum = sum.wrapping_add(unsafe { (address as *const u64).read_volatile() });
                }
            }
        } else {
            changed += 1;
        }
        resume();
        yield_now();
    }
    std::hint::black_box(sum);
    OVER.store(true, Ordering::Release);
    loader.join().unwrap();
}
