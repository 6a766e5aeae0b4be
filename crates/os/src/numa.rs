//! Where the kernel places pages: on which memory nodes those of a range are to lie, and on which they do.
//!
//! A policy is of a range of addresses and takes effect when a page is touched first; pages that are there already stay
//! where they are, unless they are released before (`memory::release`). A range with a policy of its own is a mapping of
//! its own, and their number is limited (`vm.max_map_count`), so ranges are whole regions of a heap and not pieces.
//!
//! Huge pages: a page lies on one node whatever its size, so a range that is interleaved in huge pages changes nodes
//! every 2 MB and not every 4 KB. Regions that are smaller than that times the number of nodes lie on some of them
//! only, unless they ask for small pages (`hugepages::unadvise`). A preferred node is tried for a huge page first, then
//! for small ones, before another node is.
//!
//! The only file that makes these calls. A system may refuse them all, so each gives the refusal as a value that says
//! what helps. Any thread, any state of the world.

use core::fmt;
use core::ptr::NonNull;

use crate::memory::page_size;
use crate::syscall::{Errno, call};
use crate::topology::{NODES_MAX, NodeNumber, NodeSet};

/// The modes of the kernel's `mempolicy.h`.
mod mode {
    pub const DEFAULT: usize = 0;
    pub const PREFERRED: usize = 1;
    pub const BIND: usize = 2;
    pub const INTERLEAVE: usize = 3;
    pub const LOCAL: usize = 4;
    pub const PREFERRED_MANY: usize = 5;
    pub const WEIGHTED_INTERLEAVE: usize = 6;
    /// Bits beside the mode that say how the nodes follow a change of the cpuset.
    pub const FLAGS: usize = 0xe000;
}

/// Asks for the policy of an address (`MPOL_F_ADDR`).
const OF_ADDRESS: usize = 1 << 1;

/// On which nodes the kernel places pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Whatever the next outer policy says: that of a range, of the thread, of the system, which is the node of the
    /// thread that touches the page first.
    Default,
    /// The node of the thread that touches the page first.
    Local,
    /// These nodes while they have memory, then others.
    Preferred(NodeSet),
    /// These nodes and no others.
    Bind(NodeSet),
    /// These nodes in turns.
    Interleave(NodeSet),
    /// A mode that this knows nothing of, by the kernel's number.
    Other(usize),
}

impl Policy {
    /// Whether it is that of a thread which was given none.
    pub fn is_own_node(self) -> bool {
        matches!(self, Policy::Default | Policy::Local)
    }
}

/// What was asked of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// To set the policy of a range (`mbind`).
    Place,
    /// To tell a policy (`get_mempolicy`).
    AskPolicy,
    /// To tell the nodes of pages (`move_pages`).
    AskPages,
}

impl Request {
    const fn as_str(self) -> &'static str {
        match self {
            Request::Place => "place pages on memory nodes (mbind)",
            Request::AskPolicy => "tell on which memory nodes pages are placed (get_mempolicy)",
            Request::AskPages => "tell on which memory nodes pages lie (move_pages)",
        }
    }
}

/// Why the kernel refused, by its error number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// `EPERM`: a container's filter of system calls, as some set it.
    Forbidden,
    /// `ENOSYS`: a kernel without memory nodes, or another such filter.
    Unknown,
    /// `EINVAL`: no such node, one without memory, or none that the cpuset allows.
    Nodes,
    /// `EFAULT`: the range is not wholly mapped.
    Range,
    /// `ENOMEM`: no memory for it, or too many mappings.
    Memory,
    /// Any other number.
    Other(i32),
}

/// A refusal. Prints with what helps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// What was asked.
    pub request: Request,
    /// Why it was refused.
    pub reason: Reason,
}

impl Refusal {
    fn new(request: Request, Errno(number): Errno) -> Refusal {
        let reason = match number {
            libc::EPERM | libc::EACCES => Reason::Forbidden,
            libc::ENOSYS => Reason::Unknown,
            libc::EINVAL => Reason::Nodes,
            libc::EFAULT => Reason::Range,
            libc::ENOMEM => Reason::Memory,
            number => Reason::Other(number),
        };
        Refusal { request, reason }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the system does not {}: ", self.request.as_str())?;
        match self.reason {
            Reason::Forbidden => out.write_str(
                "a sandbox forbids it (EPERM); give the container the capability SYS_NICE, or leave pages where they \
                 are touched first (pages=first-touch,old-pages=first-touch)",
            ),
            Reason::Unknown => out.write_str(
                "its kernel has no memory nodes, or a sandbox hides them (ENOSYS); leave pages where they are touched \
                 first (pages=first-touch,old-pages=first-touch)",
            ),
            Reason::Nodes => out.write_str(
                "a node has no memory that the process may use (EINVAL); Mems_allowed_list in /proc/self/status names \
                 those that it may, and the cpuset or numactl --membind that started it decides",
            ),
            Reason::Range => out.write_str("the range has addresses without memory (EFAULT)"),
            Reason::Memory => out.write_str(
                "it has no memory for that, or the process too many mappings (ENOMEM); raise vm.max_map_count with \
                 sysctl",
            ),
            Reason::Other(number) => write!(out, "error {number}"),
        }
    }
}

impl core::error::Error for Refusal {}

/// Pages of the range lie on that node while it has memory, then on the nearest one that has.
///
/// That is `MPOL_PREFERRED`. Under `MPOL_BIND` the kernel would kill the process, or another one, when this one node is
/// full and others are not.
///
/// # Safety
/// The range is whole pages of the caller's.
pub unsafe fn bind(start: NonNull<u8>, bytes: usize, node: NodeNumber) -> Result<(), Refusal> {
    let nodes = [usize::from(node.0)].into_iter().collect();
    // SAFETY: whole pages of the caller's, as asked.
    unsafe { place(start, bytes, mode::PREFERRED, &nodes) }
}

/// Pages of the range lie on those nodes in turns, by their addresses; on another one where one has no memory.
///
/// # Safety
/// The range is whole pages of the caller's.
pub unsafe fn interleave(start: NonNull<u8>, bytes: usize, nodes: &NodeSet) -> Result<(), Refusal> {
    // SAFETY: whole pages of the caller's, as asked.
    unsafe { place(start, bytes, mode::INTERLEAVE, nodes) }
}

/// Pages of the range lie where the thread's policy says: as if nothing had been said of the range.
///
/// # Safety
/// The range is whole pages of the caller's.
pub unsafe fn default(start: NonNull<u8>, bytes: usize) -> Result<(), Refusal> {
    // SAFETY: whole pages of the caller's, as asked.
    unsafe { place(start, bytes, mode::DEFAULT, &NodeSet::EMPTY) }
}

/// Sets the policy of a range.
///
/// # Safety
/// The range is whole pages of the caller's.
unsafe fn place(
    start: NonNull<u8>,
    bytes: usize,
    mode: usize,
    nodes: &NodeSet,
) -> Result<(), Refusal> {
    let mask = nodes.words().as_ptr() as usize;
    // The kernel leaves out the last of the bits that it is told of.
    let arguments = [start.as_ptr() as usize, bytes, mode, mask, NODES_MAX + 1, 0];
    // SAFETY: a policy for pages that are touched later changes no contents and takes no access; the kernel reads
    // `NODES_MAX` bits of the set, which has as many.
    let done = unsafe { call(libc::SYS_mbind, arguments) };
    done.map(drop)
        .map_err(|errno| Refusal::new(Request::Place, errno))
}

/// The policy that holds at an address: that of the range, or that of the calling thread if the range has none.
pub fn policy_of(address: NonNull<u8>) -> Result<Policy, Refusal> {
    ask(address.as_ptr() as usize, OF_ADDRESS)
}

/// The policy of the calling thread, which it has from the thread or program that started it. One that is not
/// [`Policy::is_own_node`] was given from outside, by `numactl` or the embedder, and a heap leaves its pages to it
/// unless told otherwise.
pub fn process_policy() -> Result<Policy, Refusal> {
    ask(0, 0)
}

fn ask(address: usize, flags: usize) -> Result<Policy, Refusal> {
    let mut mode = 0u32;
    let mut nodes = NodeSet::EMPTY;
    let places = [
        &raw mut mode as usize,
        nodes.words_mut().as_mut_ptr() as usize,
    ];
    let arguments = [places[0], places[1], NODES_MAX + 1, address, flags, 0];
    // SAFETY: the kernel fills the number and at most as many bits as the set has; it only looks the address up.
    let told = unsafe { call(libc::SYS_get_mempolicy, arguments) };
    told.map_err(|errno| Refusal::new(Request::AskPolicy, errno))?;
    Ok(match mode as usize & !mode::FLAGS {
        mode::DEFAULT => Policy::Default,
        mode::LOCAL => Policy::Local,
        // Without nodes it is how kernels before 5.14 tell of `MPOL_LOCAL`.
        mode::PREFERRED if nodes.is_empty() => Policy::Local,
        mode::PREFERRED | mode::PREFERRED_MANY => Policy::Preferred(nodes),
        mode::BIND => Policy::Bind(nodes),
        mode::INTERLEAVE | mode::WEIGHTED_INTERLEAVE => Policy::Interleave(nodes),
        other => Policy::Other(other),
    })
}

/// How many pages the kernel is asked about at a time.
const ASKED: usize = 128;

/// Tells for each of the pages on which node it lies, in the order of the addresses; nothing of a page that was not
/// touched yet, that has only been read, or that is not the process's. The shorter of the two slices counts.
pub fn nodes_of_pages(
    pages: &[NonNull<u8>],
    nodes: &mut [Option<NodeNumber>],
) -> Result<(), Refusal> {
    for (pages, nodes) in pages.chunks(ASKED).zip(nodes.chunks_mut(ASKED)) {
        let mut statuses = [-1i32; ASKED];
        let count = pages.len().min(nodes.len());
        let places = [pages.as_ptr() as usize, statuses.as_mut_ptr() as usize];
        // Of this process, to nowhere: only told.
        let arguments = [0, count, places[0], 0, places[1], 0];
        // SAFETY: the kernel reads `count` addresses, of which it only looks the pages up, and fills as many numbers.
        let told = unsafe { call(libc::SYS_move_pages, arguments) };
        told.map_err(|errno| Refusal::new(Request::AskPages, errno))?;
        for (node, status) in nodes.iter_mut().zip(&statuses[..count]) {
            *node = u16::try_from(*status).ok().map(NodeNumber);
        }
    }
    Ok(())
}

/// As [`nodes_of_pages`], for the pages of a range in turn, without memory for all of them: calls `each` with the index
/// of each page and its node.
pub fn nodes_of_range(
    start: NonNull<u8>,
    pages: usize,
    mut each: impl FnMut(usize, Option<NodeNumber>),
) -> Result<(), Refusal> {
    let mut addresses = [start; ASKED];
    let mut nodes = [None; ASKED];
    for first in (0..pages).step_by(ASKED) {
        let count = ASKED.min(pages - first);
        for (step, address) in addresses[..count].iter_mut().enumerate() {
            let page = start.as_ptr().wrapping_add((first + step) * page_size());
            *address = NonNull::new(page).unwrap_or(start);
        }
        nodes_of_pages(&addresses[..count], &mut nodes[..count])?;
        for (step, node) in nodes[..count].iter().enumerate() {
            each(first + step, *node);
        }
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory;
    use crate::topology::Topology;

    fn all_bytes() -> usize {
        64 * page_size()
    }

    /// The first node that can be used, unless this system does not place pages at all.
    fn first_node() -> Option<NodeNumber> {
        match process_policy() {
            Ok(_) => Topology::host().number(0),
            Err(refusal) => {
                eprintln!("not tried: {refusal}");
                None
            }
        }
    }

    fn set(nodes: &[usize]) -> NodeSet {
        nodes.iter().copied().collect()
    }

    #[test]
    fn a_range_has_the_policy_that_it_was_given() {
        let Some(node) = first_node() else { return };
        let its = set(&[usize::from(node.0)]);
        let start = memory::reserve(all_bytes(), page_size()).unwrap();
        // SAFETY: the reservation is this test's, 64 pages long.
        unsafe {
            let last = start.add(all_bytes() - 1);
            assert!(policy_of(start).unwrap().is_own_node());
            bind(start, all_bytes(), node).unwrap();
            assert_eq!(policy_of(last), Ok(Policy::Preferred(its)));
            interleave(start, all_bytes() / 2, &its).unwrap();
            assert_eq!(policy_of(start), Ok(Policy::Interleave(its)));
            assert_eq!(policy_of(last), Ok(Policy::Preferred(its)));
            assert!(memory::commit(start, all_bytes()));
            assert_eq!(policy_of(start), Ok(Policy::Interleave(its)));
            default(start, all_bytes()).unwrap();
            assert_eq!(policy_of(start), Ok(Policy::Default));
            assert!(memory::unmap(start, all_bytes()));
        }
    }

    #[test]
    fn pages_that_were_touched_have_a_node() {
        let Some(node) = first_node() else { return };
        const PAGES: usize = 300;
        let start = memory::map(PAGES * page_size()).unwrap();
        // SAFETY: the mapping is this test's, 300 pages long, with small pages.
        unsafe {
            let _ = crate::hugepages::unadvise(start, PAGES * page_size());
            bind(start, PAGES * page_size(), node).unwrap();
            for page in (0..PAGES).step_by(3) {
                start.add(page * page_size()).write(1);
            }
            let mut seen = 0;
            nodes_of_range(start, PAGES, |page, on| {
                assert_eq!((page, on.is_some()), (seen, page % 3 == 0));
                seen += 1;
            })
            .unwrap();
            assert_eq!(seen, PAGES);
            let pages = [start, start.add(page_size()), start.add(3 * page_size())];
            let mut nodes = [Some(NodeNumber(77)); 2];
            nodes_of_pages(&pages, &mut nodes).unwrap();
            assert!(nodes[0].is_some() && nodes[1].is_none());
            assert!(memory::unmap(start, PAGES * page_size()));
        }
    }

    #[test]
    fn what_the_kernel_refuses_is_said_with_the_remedy() {
        let Some(node) = first_node() else { return };
        let start = memory::map(all_bytes()).unwrap();
        // SAFETY: the mapping is this test's; refused calls change nothing.
        unsafe {
            let refused = bind(start, all_bytes(), NodeNumber(1023)).unwrap_err();
            assert_eq!(
                (refused.request, refused.reason),
                (Request::Place, Reason::Nodes)
            );
            assert!(
                refused.to_string().contains("Mems_allowed_list"),
                "{refused}"
            );
            let nothing = interleave(start, all_bytes(), &NodeSet::EMPTY).unwrap_err();
            assert_eq!(nothing.reason, Reason::Nodes);
            assert_eq!(policy_of(start), Ok(Policy::Default));
            assert!(memory::unmap(start, all_bytes()));
            let range = bind(start, all_bytes(), node).unwrap_err();
            assert_eq!(range.reason, Reason::Range);
        }
        for (number, remedy) in [
            (libc::EPERM, "SYS_NICE"),
            (libc::ENOSYS, "pages=first-touch"),
            (libc::ENOMEM, "vm.max_map_count"),
            (libc::EIO, "error 5"),
        ] {
            let text = Refusal::new(Request::AskPages, Errno(number)).to_string();
            assert!(text.starts_with("the system does not tell on which memory nodes"));
            assert!(text.contains(remedy), "{text}");
        }
    }

    #[test]
    fn a_policy_that_was_set_from_outside_is_seen() {
        let Some(node) = first_node() else { return };
        let its = set(&[usize::from(node.0)]);
        let asked = move || {
            let words = its.words().as_ptr() as usize;
            for (mode, policy) in [
                (mode::BIND, Policy::Bind(its)),
                (mode::INTERLEAVE, Policy::Interleave(its)),
                (mode::PREFERRED, Policy::Preferred(its)),
            ] {
                // SAFETY: concerns this thread alone; the kernel reads the set.
                let done = unsafe {
                    call(
                        libc::SYS_set_mempolicy,
                        [mode, words, NODES_MAX + 1, 0, 0, 0],
                    )
                };
                assert!(done.is_ok());
                assert_eq!(process_policy(), Ok(policy));
                assert!(!policy.is_own_node());
                let inherited = std::thread::spawn(process_policy).join().unwrap();
                assert_eq!(inherited, Ok(policy));
            }
        };
        std::thread::spawn(asked).join().unwrap();
        assert!(process_policy().is_ok());
    }

    /// Runs `test` in a child in which the system calls of this file fail with that error.
    fn in_a_sandbox(errno: i32, test: fn() -> bool) -> bool {
        let statement = |code: u32, k: u32, jt: u8| libc::sock_filter {
            code: code as u16,
            jt,
            jf: 0,
            k,
        };
        let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        let answer = libc::BPF_RET | libc::BPF_K;
        let filter = [
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            statement(equals, libc::SYS_mbind as u32, 3),
            statement(equals, libc::SYS_get_mempolicy as u32, 2),
            statement(equals, libc::SYS_move_pages as u32, 1),
            statement(answer, libc::SECCOMP_RET_ALLOW, 0),
            statement(answer, libc::SECCOMP_RET_ERRNO | errno as u32, 0),
        ];
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_ptr().cast_mut(),
        };
        // SAFETY: the child makes system calls only, then leaves; the filter outlives the call that installs it.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                let mode = libc::SECCOMP_MODE_FILTER;
                let installed = libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) == 0;
                libc::_exit(if installed && test() { 0 } else { 1 });
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
            status == 0
        }
    }

    #[test]
    fn a_sandbox_that_refuses_everything_is_survived() {
        fn all_are(reason: Reason) -> bool {
            let Some(start) = memory::map(all_bytes()) else {
                return false;
            };
            let refused = |request| Err(Refusal { request, reason });
            // SAFETY: the mapping is this test's.
            let placed = unsafe {
                bind(start, all_bytes(), NodeNumber(0)) == refused(Request::Place)
                    && interleave(start, all_bytes(), &NodeSet::range(0, 1))
                        == refused(Request::Place)
                    && default(start, all_bytes()) == refused(Request::Place)
            };
            placed
                && policy_of(start).err() == refused(Request::AskPolicy).err()
                && process_policy().err() == refused(Request::AskPolicy).err()
                && nodes_of_pages(&[start], &mut [None]) == refused(Request::AskPages)
        }
        assert!(in_a_sandbox(libc::EPERM, || all_are(Reason::Forbidden)));
        assert!(in_a_sandbox(libc::ENOSYS, || all_are(Reason::Unknown)));
    }
}
