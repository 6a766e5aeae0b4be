//! Each test waits for the others: soft-dirty bits are one for the process.

use super::*;
use crate::output::Identity;
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A private mapping of written pages, each of which begins with its number.
struct Pages {
    start: NonNull<u8>,
    count: usize,
}

impl Pages {
    fn new(count: usize) -> Pages {
        let pages = Pages::untouched(count);
        (0..count).for_each(|page| pages.write(page));
        pages
    }

    /// Not yet written.
    fn untouched(count: usize) -> Pages {
        let start = memory::map(count * PAGE_BYTES).unwrap();
        Pages { start, count }
    }

    fn low(&self) -> usize {
        self.start.as_ptr() as usize
    }

    fn high(&self) -> usize {
        self.low() + self.count * PAGE_BYTES
    }

    fn range(&self) -> Range<usize> {
        self.low()..self.high()
    }

    fn at(&self, page: usize) -> *mut u8 {
        assert!(page < self.count);
        self.start.as_ptr().wrapping_add(page * PAGE_BYTES)
    }

    fn write(&self, page: usize) {
        // SAFETY: a page of the mapping, which is this test's alone.
        unsafe { self.at(page).write_volatile(page as u8) };
    }

    fn watch(&self, mechanism: Mechanism) -> Watch {
        // SAFETY: the mapping lasts longer than the watch in each test.
        unsafe { self.start_watch(mechanism, Filters::Ignored) }.unwrap()
    }

    /// # Safety
    /// The watch must end before this does.
    unsafe fn start_watch(
        &self,
        mechanism: Mechanism,
        filters: Filters,
    ) -> Result<Watch, Unavailable> {
        // SAFETY: the mapping is this value's, and lasts longer, as asked.
        unsafe { Watch::start(Some(mechanism), filters, slice::from_ref(&self.range())) }
    }

    /// The pages that a round finds.
    fn written(&self, watch: &Watch) -> Vec<usize> {
        let round = watch.round().unwrap();
        let found = self.named(|visit| round.take(self.low(), self.high(), visit));
        round.finish().unwrap();
        found
    }

    /// The pages that a question names.
    fn named(
        &self,
        ask: impl FnOnce(&mut dyn FnMut(usize, usize)) -> Result<(), Reason>,
    ) -> Vec<usize> {
        let mut found = Vec::new();
        let mut visit = |from: usize, to: usize| {
            assert!(from < to && from.is_multiple_of(PAGE_BYTES) && to.is_multiple_of(PAGE_BYTES));
            found.extend((from - self.low()) / PAGE_BYTES..(to - self.low()) / PAGE_BYTES);
        };
        ask(&mut visit).unwrap();
        found
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's.
        unsafe { memory::unmap(self.start, self.count * PAGE_BYTES) };
    }
}

/// The mechanisms that work here. A machine of the emulation is known to have soft-dirty bits, the other one is made
/// sure of by [`what_this_kernel_must_have`].
fn here() -> Vec<Mechanism> {
    Mechanism::ALL
        .into_iter()
        .filter(|&mechanism| trial(mechanism).is_ok())
        .collect()
}

fn kernel() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().unwrap().parse().unwrap();
    (next(), next())
}

#[test]
fn what_this_kernel_must_have() {
    let _alone = alone();
    match trial(Mechanism::PageScan) {
        Ok(_) => assert!(kernel() >= (6, 7)),
        // A container's filter may deny the call, so that only the reason can be checked.
        Err(reason) if kernel() >= (6, 7) => assert!(
            matches!(reason, Reason::Forbidden | Reason::NoUserfaultfd),
            "{reason:?}"
        ),
        Err(reason) => assert!(
            matches!(
                reason,
                Reason::OldKernel | Reason::Forbidden | Reason::NoUserfaultfd
            ),
            "{reason:?}"
        ),
    }
    if std::env::var_os("GLEANER_MACHINE").is_some() {
        assert_eq!(trial(Mechanism::SoftDirty).map(|_| ()), Ok(()));
    }
}

#[test]
fn a_round_names_what_was_written_since_the_round_before() {
    let _alone = alone();
    for mechanism in here() {
        let pages = Pages::new(2000);
        let watch = pages.watch(mechanism);
        assert_eq!(watch.mechanism(), mechanism);
        pages.written(&watch);
        assert_eq!(pages.written(&watch), []);
        (0..2000).for_each(|page| pages.write(page));
        assert_eq!(pages.written(&watch), (0..2000).collect::<Vec<_>>());
        // More runs than fit into one answer.
        let odd: Vec<usize> = (1..2000).step_by(2).collect();
        odd.iter().for_each(|&page| pages.write(page));
        assert_eq!(pages.written(&watch), odd);
        pages.write(1999);
        pages.write(0);
        assert_eq!(pages.written(&watch), [0, 1999]);
        assert_eq!(pages.written(&watch), []);
        for page in 0..2000 {
            // SAFETY: a page of the mapping.
            assert_eq!(unsafe { pages.at(page).read_volatile() }, page as u8);
        }
    }
}

#[test]
fn system_calls_write_to_watched_pages_and_are_seen() {
    let _alone = alone();
    let path = std::env::temp_dir().join(format!("gleaner-written-{}", std::process::id()));
    std::fs::write(&path, [7u8; 3 * PAGE_BYTES]).unwrap();
    let name = CString::new(path.to_str().unwrap()).unwrap();
    for mechanism in here() {
        let pages = Pages::new(16);
        let watch = pages.watch(mechanism);
        pages.written(&watch);
        let file = open_read(&name).unwrap();
        // SAFETY: three pages of the mapping, which nobody else uses.
        let into = unsafe { core::slice::from_raw_parts_mut(pages.at(4), 3 * PAGE_BYTES) };
        assert_eq!(file.read(into), Some(3 * PAGE_BYTES));
        assert!(into.iter().all(|&byte| byte == 7));
        file.close();
        // SAFETY: the kernel writes some bytes to a page of the mapping.
        let random = unsafe { call(libc::SYS_getrandom, [pages.at(9) as usize, 16, 0, 0, 0, 0]) };
        assert_eq!(random, Ok(16));
        assert_eq!(pages.written(&watch), [4, 5, 6, 9]);
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn pages_that_a_round_left_out_or_that_were_given_back_are_seen() {
    let _alone = alone();
    for mechanism in here() {
        let pages = Pages::new(8);
        let watch = pages.watch(mechanism);
        pages.written(&watch);
        let round = watch.round().unwrap();
        // Half of the range.
        let middle = pages.low() + 4 * PAGE_BYTES;
        round.take(pages.low(), middle, &mut |_, _| {}).unwrap();
        round.finish().unwrap();
        pages.write(6);
        assert_eq!(pages.written(&watch), [6]);
        let third = NonNull::new(pages.at(3)).unwrap();
        // SAFETY: a page of the mapping, whose contents nobody needs.
        assert!(unsafe { memory::release(third, PAGE_BYTES) });
        pages.write(3);
        assert_eq!(pages.written(&watch), [3]);
    }
}

/// Also of pages that nobody has touched before: what is written to those afterwards is named.
#[test]
fn a_round_that_begins_watches_all_and_names_nothing() {
    let _alone = alone();
    for mechanism in here() {
        let pages = Pages::untouched(600);
        let watch = pages.watch(mechanism);
        // More runs than fit into one answer.
        (0..400).step_by(2).for_each(|page| pages.write(page));
        let round = watch.round().unwrap();
        round.begin(pages.low(), pages.high()).unwrap();
        round.finish().unwrap();
        // Nothing of what was written before.
        assert_eq!(pages.written(&watch), [], "{mechanism:?}");
        let later = [0, 1, 300, 401, 599];
        later.iter().for_each(|&page| pages.write(page));
        assert_eq!(pages.written(&watch), later, "{mechanism:?}");
    }
}

/// What was written before is not forgotten there.
#[test]
fn a_round_that_begins_leaves_out_what_it_is_not_asked_about() {
    let _alone = alone();
    if trial(Mechanism::PageScan).is_err() {
        return;
    }
    let pages = Pages::new(16);
    let watch = pages.watch(Mechanism::PageScan);
    let round = watch.round().unwrap();
    let at = |page: usize| pages.low() + page * PAGE_BYTES;
    round.begin(at(4), at(8)).unwrap();
    round.finish().unwrap();
    let expected: Vec<usize> = (0..4).chain(8..16).collect();
    assert_eq!(pages.written(&watch), expected);
}

/// As often as it is asked; the next round takes it.
#[test]
fn a_round_that_reads_leaves_pages_as_they_are() {
    let _alone = alone();
    for mechanism in here() {
        let pages = Pages::new(1000);
        let watch = pages.watch(mechanism);
        pages.written(&watch);
        // More runs than fit into one answer.
        let written: Vec<usize> = (1..1000).step_by(3).collect();
        written.iter().for_each(|&page| pages.write(page));
        for _ in 0..2 {
            let round = watch.round().unwrap();
            let found = pages.named(|visit| round.read(pages.low(), pages.high(), visit));
            assert_eq!(found, written, "{mechanism:?}");
            // It is not finished.
        }
        pages.write(0);
        let round = watch.round().unwrap();
        let found = pages.named(|visit| round.read(pages.low(), pages.at(2) as usize, visit));
        assert_eq!(found, [0, 1], "{mechanism:?}");
        drop(round);
        let all: Vec<usize> = [0].into_iter().chain(written).collect();
        assert_eq!(pages.written(&watch), all, "{mechanism:?}");
        assert_eq!(pages.written(&watch), [], "{mechanism:?}");
    }
}

/// Nothing is protected that the next write to it would take a fault for.
#[test]
fn pages_that_were_read_are_written_without_a_fault() {
    let _alone = alone();
    for mechanism in here() {
        let pages = Pages::new(256);
        let watch = pages.watch(mechanism);
        pages.written(&watch);
        let writes = || {
            let before = faults_of_this_thread();
            (0..256).for_each(|page| pages.write(page));
            faults_of_this_thread() - before
        };
        assert!(writes() >= 256, "{mechanism:?}: watched pages take faults");
        let round = watch.round().unwrap();
        round
            .read(pages.low(), pages.high(), &mut |_, _| {})
            .unwrap();
        drop(round);
        let faults = writes();
        assert!(faults < 128, "{mechanism:?}: {faults} faults");
    }
}

fn faults_of_this_thread() -> i64 {
    // SAFETY: numbers, all of which may be zero; the call fills them.
    unsafe {
        let mut usage: libc::rusage = core::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
        usage.ru_minflt
    }
}

#[test]
fn one_watch_at_a_time_has_the_soft_dirty_bits() {
    let _alone = alone();
    let first = SoftDirty::claim().ok().unwrap();
    assert_eq!(SoftDirty::claim().err(), Some(Reason::Taken));
    assert_eq!(trial(Mechanism::SoftDirty), Err(Reason::Taken));
    drop(first);
    assert!(SoftDirty::claim().is_ok());
}

#[test]
fn a_child_must_start_anew_and_does_not_disturb_its_parent() {
    let _alone = alone();
    for mechanism in here() {
        let pages = Pages::new(8);
        let watch = pages.watch(mechanism);
        pages.written(&watch);
        pages.write(2);
        // SAFETY: the child makes system calls alone and leaves without running anything of its parent's.
        let child = unsafe { libc::fork() };
        if child == 0 {
            pages.write(5);
            let refused = watch.round().err() == Some(Reason::Forked);
            drop(watch);
            let own = pages.watch(mechanism);
            let first = pages.written(&own);
            pages.write(6);
            // What it wrote before its own watch began, it must not rely on.
            let known = mechanism == Mechanism::SoftDirty || first.contains(&5);
            let right = refused && known && pages.written(&own) == [6];
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!right)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "{mechanism:?}");
        pages.write(4);
        assert_eq!(pages.written(&watch), [2, 4], "{mechanism:?}");
    }
}

/// A program may close every descriptor, and open files of its own under their numbers.
#[test]
fn a_file_that_the_program_closed_is_opened_anew() {
    let _alone = alone();
    for mechanism in here() {
        let pages = Pages::new(8);
        let watch = pages.watch(mechanism);
        pages.written(&watch);
        let number = watch.pages.file;
        assert!(number.0 > 2);
        // SAFETY: the descriptor is the watch's, which finds another file there.
        let replaced = unsafe {
            let other = libc::open(c"/proc/self/comm".as_ptr(), libc::O_RDONLY);
            libc::dup2(other, number.0);
            libc::close(other);
            number.0
        };
        if let Means::SoftDirty(bits) = &*watch.means {
            bits.forget();
        }
        for page in [3, 5] {
            pages.write(page);
            assert_eq!(pages.written(&watch), [page], "{mechanism:?}");
        }
        drop(watch);
        // SAFETY: the test's own file, which the watch must not have closed.
        assert_eq!(unsafe { libc::close(replaced) }, 0, "{mechanism:?}");
    }
}

/// As a daemon does: it closes what it does not know, and opens files of its own.
#[test]
fn a_watch_that_the_program_closed_is_known_to_be_lost_and_its_number_is_the_programs() {
    let _alone = alone();
    let pages = Pages::new(8);
    if trial(Mechanism::PageScan).is_err() {
        return;
    }
    let watch = pages.watch(Mechanism::PageScan);
    pages.written(&watch);
    let Means::PageScan(scan) = &*watch.means else {
        unreachable!()
    };
    let number = scan.descriptor();
    assert!(
        number.0 >= 96,
        "out of the way of the program's: {number:?}"
    );
    // SAFETY: another userfaultfd, of the program's, under the number of the watch's, which nobody else knows. It watches nothing.
    let other = unsafe {
        let other = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | 1) as i32;
        assert_eq!(libc::dup2(other, number.0), number.0);
        libc::close(other);
        Identity::of(number)
    };
    let round = watch.round().unwrap();
    let answer = round.take(pages.low(), pages.high(), &mut |_, _| {});
    assert_eq!(answer, Err(Reason::Refused(libc::EPERM)));
    drop(round);
    // Asked for nothing: it would answer that it was not set up (EINVAL).
    let all = pages.low()..pages.high();
    // SAFETY: the range is that of the watch.
    let added = unsafe { watch.add(&all) };
    assert_eq!(added, Err(Reason::Refused(libc::EPERM)));
    watch.release(pages.low(), pages.high());
    drop(watch);
    assert!(other.is_some() && Identity::of(number) == other, "closed");
    number.close();
}

#[test]
fn what_does_not_work_is_said_by_name() {
    let _alone = alone();
    let pages = Pages::new(8);
    for mechanism in Mechanism::ALL {
        let Err(reason) = trial(mechanism) else {
            continue;
        };
        // SAFETY: the mapping lasts longer than what is refused.
        let refused = unsafe { pages.start_watch(mechanism, Filters::Ignored) };
        let text = refused.err().unwrap().to_string();
        assert!(text.starts_with(mechanism.as_str()), "{text}");
        assert!(text.contains(reason.as_str()), "{text}");
    }
    let both = Unavailable {
        reasons: [Some(Reason::Forbidden), Some(Reason::Refused(22))],
    };
    assert_eq!(
        both.to_string(),
        "page-scan: the system call userfaultfd is not permitted; soft-dirty: the kernel refused the request (error 22)"
    );
}

#[test]
fn a_watch_costs_something_and_says_so() {
    let _alone = alone();
    for mechanism in here() {
        let cost = trial(mechanism).unwrap();
        assert!(cost.write_ns > 0, "{cost:?}");
    }
}

/// Those pages count as written, and the rest is watched as before.
#[test]
fn what_was_released_counts_as_written_and_nothing_else() {
    let _alone = alone();
    for mechanism in here() {
        let pages = Pages::new(16);
        let watch = pages.watch(mechanism);
        pages.written(&watch);
        pages.write(12);
        watch.release(pages.at(4) as usize, pages.at(8) as usize);
        let found = pages.written(&watch);
        match mechanism {
            Mechanism::PageScan => assert_eq!(found, [4, 5, 6, 7, 12]),
            Mechanism::SoftDirty => assert_eq!(found, [12]),
        }
        pages.write(5);
        pages.write(9);
        assert_eq!(pages.written(&watch), [5, 9]);
        // Where nothing is watched nothing happens.
        watch.release(pages.low(), pages.high() + (64 << 20));
        watch.release(pages.low(), pages.low());
        pages.write(3);
        assert!(pages.written(&watch).contains(&3));
    }
}

/// The calls by which pages are watched, and by which a watch ends.
const CALLS_OF_A_WATCH: [i64; 6] = [
    libc::SYS_userfaultfd,
    libc::SYS_ioctl,
    libc::SYS_openat,
    libc::SYS_pread64,
    libc::SYS_fstat,
    libc::SYS_close,
];

/// Confines the calling thread: those calls are answered so.
fn confine(calls: &[i64], with: u32) {
    let statement = |code, k, jump| libc::sock_filter {
        code: code as u16,
        jt: jump,
        jf: 0,
        k,
    };
    let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let mut filter = vec![statement(
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        0, // The number of the call.
        0,
    )];
    for (index, call) in calls.iter().enumerate() {
        filter.push(statement(equals, *call as u32, (calls.len() - index) as u8));
    }
    filter.push(statement(answer, libc::SECCOMP_RET_ALLOW, 0));
    filter.push(statement(answer, with, 0));
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the filter outlives the call that installs it, and is the calling thread's alone.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program),
            0
        );
    }
}

/// Where a filter would end the process for it, nothing is asked and nothing is closed, and pages can be written.
#[test]
fn a_watch_that_heeds_filters_makes_no_call_that_may_be_forbidden() {
    let _alone = alone();
    assert!(!threads::is_filtered());
    for mechanism in here() {
        let confined = std::thread::spawn(move || {
            let pages = Pages::new(16);
            // SAFETY: the mapping lasts longer than the watch.
            let start = || unsafe { pages.start_watch(mechanism, Filters::Heeded) };
            let watch = start().unwrap();
            pages.written(&watch);
            pages.write(3);
            assert_eq!(pages.written(&watch), [3]);
            confine(&CALLS_OF_A_WATCH, libc::SECCOMP_RET_KILL_PROCESS);
            assert!(threads::is_filtered());
            assert_eq!(watch.round().err(), Some(Reason::Filtered));
            // SAFETY: a range that is watched.
            let added = unsafe { watch.add(&pages.range()) };
            assert_eq!(added, Err(Reason::Filtered));
            watch.release(pages.low(), pages.high());
            assert_eq!(start().err(), Some(Unavailable::FILTERED));
            drop(watch);
            // The kernel resolves the faults of what is protected although nobody listens.
            for page in 0..16 {
                pages.write(page);
                // SAFETY: a page of the mapping, which is this test's alone.
                assert_eq!(unsafe { pages.at(page).read_volatile() }, page as u8);
            }
        });
        confined.join().unwrap();
    }
}

#[test]
fn a_filter_that_refuses_the_question_is_one() {
    let confined = std::thread::spawn(|| {
        confine(
            &[libc::SYS_prctl],
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        );
        assert!(threads::is_filtered());
    });
    confined.join().unwrap();
}
