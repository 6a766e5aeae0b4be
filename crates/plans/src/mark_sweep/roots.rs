//! Static roots: data segments of the program and its libraries, and ranges that the client named.
//!
//! The list of libraries is read before the world is stopped, by the thread that is going to collect and without the
//! allocator lock, since reading takes a lock of the loader (I1); it is checked after the stop. Everything else is
//! guarded by the allocator lock.

use alloc::vec::Vec;
use core::ffi::c_char;

use gleaner_base::contexts::WorldStopped;
use gleaner_mem::Address;
use gleaner_os::libraries::{self, Fingerprint, Segment};
use gleaner_os::{clock, memory};

/// A range of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// First byte.
    pub low: Address,
    /// Byte after the last.
    pub high: Address,
}

impl Range {
    /// Bytes of the range.
    pub fn bytes(&self) -> usize {
        self.high.offset_from(self.low)
    }

    fn covers(&self, other: &Range) -> bool {
        self.low <= other.low && other.high <= self.high
    }

    fn touches(&self, other: &Range) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// The data segments as read before a stop.
pub struct LibraryList {
    segments: Vec<Segment>,
    /// Where all objects were loaded, and where their dynamic sections are.
    objects: Vec<(usize, usize)>,
    /// What was loaded; of nothing where segments were left out since.
    fingerprint: Fingerprint,
    /// Stands for what chose the segments: a list that something else chose is another one.
    chosen_by: usize,
    /// When reading began, in nanoseconds of the monotonic clock, and how long it took; 0 if nothing was read.
    pub(crate) read_at_ns: u64,
    pub(crate) read_for_ns: u64,
}

impl LibraryList {
    /// Reads the list of what `keep` chooses, for which `chosen_by` stands. Takes a lock of the loader and may allocate: no
    /// lock may be held, the world must run.
    pub fn read(chosen_by: usize, keep: impl Fn(&Segment) -> bool) -> LibraryList {
        let began = clock::monotonic_ns();
        let mut segments: Vec<Segment> = Vec::new();
        let mut room = 64;
        loop {
            segments.clear();
            segments.resize(room, Segment::EMPTY);
            match libraries::read(&mut segments) {
                Ok(list) => {
                    segments.truncate(list.segments);
                    let mut objects: Vec<_> = segments
                        .iter()
                        .map(|it| (it.object_base, it.dynamic))
                        .collect();
                    objects.dedup();
                    segments.retain(|segment| segment.low < segment.high && keep(segment));
                    return LibraryList {
                        segments,
                        objects,
                        fingerprint: list.fingerprint,
                        chosen_by,
                        read_at_ns: began,
                        read_for_ns: clock::monotonic_ns() - began,
                    };
                }
                Err(overflow) => room = overflow.needed + 16,
            }
        }
    }

    /// How many data segments were read.
    pub(crate) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// No libraries at all.
    pub const fn empty() -> LibraryList {
        LibraryList {
            segments: Vec::new(),
            objects: Vec::new(),
            fingerprint: Fingerprint::EMPTY,
            chosen_by: 0,
            read_at_ns: 0,
            read_for_ns: 0,
        }
    }

    /// Leaves out what cannot be read, for the case that the list could not be confirmed.
    fn keep_readable(&mut self, _: &WorldStopped<'_>) {
        self.segments
            .retain(|segment| memory::is_readable(segment.low, segment.high - segment.low));
        self.fingerprint = Fingerprint::EMPTY;
    }

    /// Whether everything that is loaded now was so when this was read. Where the collector itself is in a name space that the
    /// loader does not show (`dlmopen`), nobody knows, and this is true.
    fn lacks_nothing(&self, _: &WorldStopped<'_>) -> bool {
        let (mut lacks, mut shows_own) = (false, false);
        // SAFETY: the world is stopped, so nobody changes the list meanwhile.
        let is_whole = unsafe {
            libraries::objects_unlocked(|base, dynamic| {
                lacks |= !self.objects.contains(&(base, dynamic));
                shows_own |= base == libraries::own_base();
            })
        };
        !is_whole || !shows_own || !lacks
    }

    /// Whether the loader's list is still the one that was read.
    pub fn is_current(&self, _: &WorldStopped<'_>) -> bool {
        // SAFETY: the world is stopped, so nobody changes the list meanwhile.
        let now = unsafe { libraries::fingerprint_unlocked() };
        now == Some(self.fingerprint)
    }
}

/// What is scanned besides stacks and the heap itself.
pub struct Roots {
    ranges: Vec<Range>,
    excluded: Vec<Range>,
    libraries: LibraryList,
}

impl Roots {
    /// No roots.
    pub const fn new() -> Roots {
        Roots {
            ranges: Vec::new(),
            excluded: Vec::new(),
            libraries: LibraryList::empty(),
        }
    }

    /// Adds a range; ranges that overlap or touch are joined.
    pub fn add(&mut self, range: Range) {
        if range.high <= range.low || self.ranges.iter().any(|old| old.covers(&range)) {
            return;
        }
        let mut joined = range;
        self.ranges.retain(|old| {
            let touching = old.touches(&joined);
            if touching {
                joined.low = joined.low.min(old.low);
                joined.high = joined.high.max(old.high);
            }
            !touching
        });
        self.ranges.push(joined);
    }

    /// Removes the ranges that lie fully inside `range`.
    pub fn remove(&mut self, range: Range) {
        self.ranges.retain(|old| !range.covers(old));
    }

    /// Forgets all added ranges and the libraries until the next collection reads them again.
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.libraries.segments.clear();
        self.libraries.fingerprint = Fingerprint::EMPTY;
    }

    /// Leaves a range out of scanning.
    pub fn exclude(&mut self, range: Range) {
        if range.high <= range.low {
            return;
        }
        let at = self.excluded.partition_point(|old| old.low < range.low);
        self.excluded.insert(at, range);
    }

    /// Forgets what was left out.
    pub fn clear_excluded(&mut self) {
        self.excluded.clear();
    }

    /// Puts a newly read list of libraries in place, and returns the old one, which must be dropped without the lock.
    pub fn replace_libraries(&mut self, list: &mut LibraryList) {
        core::mem::swap(&mut self.libraries, list);
    }

    /// Takes the list in place out again, as one that cost no reading: a stop finds out whether it is current. One that
    /// something else chose is not.
    pub fn take_libraries(&mut self, chosen_by: usize) -> LibraryList {
        let mut list = core::mem::replace(&mut self.libraries, LibraryList::empty());
        // Where it is not read again, that takes no time now.
        (list.read_at_ns, list.read_for_ns) = (gleaner_os::clock::monotonic_ns(), 0);
        if list.chosen_by != chosen_by {
            list.fingerprint = Fingerprint::EMPTY;
        }
        list
    }

    /// Whether the list in place is still current.
    pub fn libraries_are_current(&self, world: &WorldStopped<'_>) -> bool {
        self.libraries.is_current(world)
    }

    /// Makes the best of a list that could not be confirmed: leaves out what cannot be read. False if something was loaded since:
    /// then nothing may be collected, since objects may have their only references there.
    pub fn settle_libraries(&mut self, world: &WorldStopped<'_>) -> bool {
        self.libraries.keep_readable(world);
        self.libraries.lacks_nothing(world)
    }

    /// Bytes of all static roots.
    pub fn bytes(&self) -> usize {
        let mut bytes = 0;
        self.for_each(|range| bytes += range.bytes());
        bytes
    }

    /// Whether an address lies in a static root.
    pub fn contains(&self, address: Address) -> bool {
        let mut found = false;
        self.for_each(|range| found |= range.low <= address && address < range.high);
        found
    }

    /// Calls `visit` with each range to scan.
    pub fn for_each(&self, mut visit: impl FnMut(Range)) {
        self.visit(|range, _| visit(range));
    }

    /// Calls `visit` with each range to scan, and the path of the library that it is of: empty for the program itself, null
    /// for what the client registered. The path can be read while nobody closes the library.
    pub fn for_each_named(&self, _: &WorldStopped<'_>, visit: impl FnMut(Range, *const c_char)) {
        self.visit(visit);
    }

    fn visit(&self, mut visit: impl FnMut(Range, *const c_char)) {
        for range in &self.ranges {
            self.without_excluded(*range, &mut |part| visit(part, core::ptr::null()));
        }
        for segment in &self.libraries.segments {
            let range = Range {
                low: Address::new(segment.low),
                high: Address::new(segment.high),
            };
            self.without_excluded(range, &mut |part| visit(part, segment.name));
        }
    }

    fn without_excluded(&self, range: Range, visit: &mut impl FnMut(Range)) {
        let mut low = range.low;
        for hole in &self.excluded {
            if hole.high <= low || hole.low >= range.high {
                continue;
            }
            if hole.low > low {
                visit(Range {
                    low,
                    high: hole.low,
                });
            }
            low = hole.high;
        }
        if low < range.high {
            visit(Range {
                low,
                high: range.high,
            });
        }
    }
}

impl Default for Roots {
    fn default() -> Self {
        Roots::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn stopped() -> WorldStopped<'static> {
        // SAFETY: no thread of a test opens or closes a library.
        unsafe { WorldStopped::begin() }
    }

    fn range(low: usize, high: usize) -> Range {
        Range {
            low: Address::new(low),
            high: Address::new(high),
        }
    }

    fn visited(roots: &Roots) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        roots.for_each(|range| all.push((range.low.word(), range.high.word())));
        all.sort_unstable();
        all
    }

    /// Reading the list is an event, which a log has at the time of the collection: also where nothing is read, as in a child.
    #[test]
    fn a_list_that_is_taken_is_of_now() {
        let before = gleaner_os::clock::monotonic_ns();
        let list = Roots::new().take_libraries(0);
        assert!(before > 0 && list.read_at_ns >= before);
    }

    #[test]
    fn ranges_join_and_are_removed_when_covered() {
        let mut roots = Roots::new();
        roots.add(range(100, 200));
        roots.add(range(300, 400));
        roots.add(range(180, 300));
        roots.add(range(120, 130));
        assert_eq!(visited(&roots), [(100, 400)]);
        roots.add(range(500, 600));
        roots.remove(range(450, 600));
        roots.remove(range(100, 399));
        assert_eq!(visited(&roots), [(100, 400)]);
    }

    #[test]
    fn excluded_parts_are_cut_out() {
        let mut roots = Roots::new();
        roots.add(range(100, 400));
        roots.exclude(range(350, 500));
        roots.exclude(range(150, 200));
        roots.exclude(range(50, 110));
        assert_eq!(visited(&roots), [(110, 150), (200, 350)]);
        assert_eq!(roots.bytes(), 190);
        assert!(roots.contains(Address::new(110)) && !roots.contains(Address::new(160)));
    }

    #[test]
    fn the_list_of_libraries_is_current_until_it_changes() {
        let list = LibraryList::read(0, |_| true);
        assert!(!list.segments.is_empty());
        assert!(list.is_current(&stopped()));
        assert!(!LibraryList::empty().is_current(&stopped()));
    }

    /// Where the list cannot be confirmed: a library may have been closed since.
    #[test]
    fn what_cannot_be_read_is_left_out() {
        let mut list = LibraryList::read(0, |_| true);
        let before: Vec<_> = list.segments.iter().map(|it| it.low).collect();
        // Nothing is mapped in the first page.
        list.segments.push(Segment {
            low: 8,
            high: 64,
            ..Segment::EMPTY
        });
        let mut roots = Roots::new();
        roots.replace_libraries(&mut list);
        assert!(roots.settle_libraries(&stopped()));
        let left = roots.libraries.segments.iter().map(|it| it.low);
        assert_eq!(left.collect::<Vec<_>>(), before);
        assert!(!roots.libraries_are_current(&stopped()), "it is read again");
    }

    /// Another library was opened where one was closed.
    #[test]
    fn a_library_in_the_place_of_another_is_a_new_one() {
        let mut list = LibraryList::read(0, |_| true);
        assert!(list.lacks_nothing(&stopped()));
        let (_, dynamic) = list.objects.last_mut().unwrap();
        *dynamic += 8;
        assert!(!list.lacks_nothing(&stopped()));
    }
}
