//! The types of option values: one enum for each choice, and a path of fixed size.
#![forbid(unsafe_code)]

use core::fmt;

use super::accepted::{OptionValue, Problem, Shown};

/// Declares an enum whose variants are the values of an option, with the text of each.
macro_rules! choice {
    (
        $(#[$doc:meta])* $name:ident { $( $(#[$variant_doc:meta])* $variant:ident = $text:literal, )+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $( $(#[$variant_doc])* $variant, )+ }

        impl $name {
            /// The texts of the values, in declaration order.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// The text of this value.
            pub const fn as_str(self) -> &'static str {
                match self { $( $name::$variant => $text, )+ }
            }
        }

        impl OptionValue for $name {
            fn parse<'a>(text: &'a str, _: &super::Accepted) -> Result<$name, Problem<'a>> {
                match text {
                    $( $text => Ok($name::$variant), )+
                    _ => Err(Problem::UnknownValue),
                }
            }
            fn shown(&self) -> Shown<'_> {
                Shown::Word(self.as_str())
            }
        }
    };
}

choice! {
    /// Whether the collector of the precise heap asks the cache for an object that it will look at.
    Prefetch {
        /// Never.
        None = "none",
        /// When a reference to it is found (ISMM 2007).
        Edges = "edges",
    }
}

choice! {
    /// When the marker asks the cache for an object (ISMM 2000, section 4; `Edges`: ISMM 2007).
    MarkPrefetch {
        /// Never.
        None = "none",
        /// As soon as a word looks like a pointer, before it is checked, as in the paper.
        OnGrey = "on-grey",
        /// When an object turns grey; a short queue then keeps it from being scanned at once.
        Fifo = "fifo",
        /// When a word is found that leads to an object, together with the object's mark, which is checked later.
        Edges = "edges",
        /// As edges or as fifo, whichever marked faster lately.
        Auto = "auto",
    }
}

choice! {
    /// Which caches a prefetch fills (ISMM 2000, appendix A).
    PrefetchHint {
        /// All levels.
        T0 = "t0",
        /// As little of the cache as the processor can: the data is used once.
        Nta = "nta",
    }
}

choice! {
    /// In which order the pointers of one object are pushed (ISMM 2000, section 4).
    PushOrder {
        /// As they lie in the object.
        Natural = "natural",
        /// So that the pointer pushed last, which is scanned first, was prefetched first.
        Permuted = "permuted",
    }
}

choice! {
    /// When unmarked objects become free cells (ISMM 2000, section 5).
    Sweep {
        /// All of them, before the threads resume.
        Eager = "eager",
        /// Block by block, when an allocation finds its free list empty.
        Lazy = "lazy",
    }
}

choice! {
    /// Where the cells go that a thread frees explicitly while its own list has enough of them.
    FreedCells {
        /// Into a magazine of the thread, which goes to all threads when it is full (Bonwick and Adams, USENIX ATC 2001).
        Magazines = "magazines",
        /// To all threads, each under the lock.
        Shared = "shared",
    }
}

choice! {
    /// How wide references in objects are.
    #[derive(Default)]
    References {
        /// 8 bytes.
        #[default]
        Wide = "wide",
        /// 4 bytes; the heap is at most 13 GB.
        Compressed = "compressed",
    }
}

choice! {
    /// How the old generation is collected.
    OldPolicy {
        /// What lives is slid together (ASPLOS 2013, section 2.4).
        MarkCompact = "mark-compact",
        /// Nothing moves; the holes between what lives are filled one by one (ISMM 2000, section 5).
        MarkSweep = "mark-sweep",
        /// Free lines of blocks are filled, and what lives in sparse blocks is moved together (Immix, PLDI 2008).
        MarkRegion = "mark-region",
    }
}

choice! {
    /// Where new objects lie, and how they are collected by themselves.
    NurseryPolicy {
        /// In a space of their own, from which what lives is copied (ASPLOS 2013, section 2.1).
        Copying = "copy",
        /// In free lines of the old space, where what lives stays: marks say what is old (Immix, PLDI 2008).
        InPlace = "in-place",
        /// Either, as measurements say behind collections of everything.
        Auto = "auto",
    }
}

choice! {
    /// Whether the young generation is collected by itself.
    Generations {
        /// While that costs less than to collect everything each time.
        Auto = "auto",
        /// Whenever it can be.
        Always = "always",
        /// Every collection is of everything.
        Never = "never",
    }
}

choice! {
    /// Whether collections of the libgc heap may keep the marks of the one before (ISMM 2000, section 6).
    MarkGenerations {
        /// What the program asks for by GC_enable_incremental: incremental, or none.
        Asked = "asked",
        /// Every collection is of everything.
        None = "none",
        /// What is marked stays so until a decider wants everything collected.
        Sticky = "sticky",
        /// The same, and everything is marked in steps beside the program where that takes longer than the time limit.
        Incremental = "incremental",
        /// Sticky where measurements say that it pays, incremental if the program asks for it, none elsewhere.
        Auto = "auto",
    }
}

choice! {
    /// By what rule the libgc heap decides how much is allocated between two collections.
    HeapSizing {
        /// By `free-space-divisor`, as libgc documents.
        Divisor = "divisor",
        /// Memory is traded for time at `heap-price`, within what the machine has left.
        Balanced = "balanced",
    }
}

choice! {
    /// What tells which pages of the libgc heap were written.
    WriteWatch {
        /// The first that works.
        Auto = "auto",
        /// Pages protected through a userfaultfd, in one call a round (Linux 6.7).
        PageScan = "page-scan",
        /// Soft-dirty bits of the page table, cleared for the whole process.
        SoftDirty = "soft-dirty",
    }
}

choice! {
    /// When the memory of fresh objects is zeroed, and by whom (OOPSLA 2011).
    Zeroing {
        /// Each object as it is allocated (section 5.1).
        HotPath = "hot-path",
        /// Each buffer as it is taken (section 5.2).
        Bulk = "bulk",
        /// The same with stores that pass the caches by (section 6.1).
        NonTemporal = "non-temporal",
        /// A few cache lines ahead of the object that is allocated.
        Window = "window",
        /// By a thread of its own, from the end of each collection of the young generation on (section 6.2).
        Concurrent = "concurrent",
        /// By several threads, each of which has its own blocks.
        ConcurrentStatic = "concurrent-static",
        /// By several threads that race for blocks.
        ConcurrentRacing = "concurrent-racing",
        /// Concurrent while fewer mutators allocate than there are processors, else non-temporal (section 6.3).
        Adaptive = "adaptive",
        /// What was measured to be best.
        Auto = "auto",
    }
}

choice! {
    /// What zeroes a block of memory.
    ZeroingKernel {
        /// What suits the design and the processor.
        Auto = "auto",
        /// The C library's.
        Memset = "memset",
        /// Stores of 4-byte constants, 16 bytes a turn (OOPSLA 2011, section 5.1).
        Immediate = "immediate",
        /// The processor's string instruction.
        String = "string",
        /// Vector stores of 32 bytes.
        Vector = "vector",
        /// Non-temporal stores of 8 bytes.
        Movnti = "movnti",
        /// Non-temporal stores of 16 bytes (section 6.1).
        Movntdq = "movntdq",
        /// Non-temporal stores of 64 bytes.
        WideNonTemporal = "wide-non-temporal",
        /// The processor's instruction that zeroes a cache line.
        LineZero = "line-zero",
    }
}

choice! {
    /// Which grey object is scanned next (ASPLOS 2013, section 2.3.2).
    TraceOrder {
        /// The one that was found last.
        Depth = "depth",
        /// The one that was found first.
        Breadth = "breadth",
        /// The one that was found first of the segment that was begun last, so that what lies together is a cluster.
        Hierarchical = "hierarchical",
    }
}

choice! {
    /// How the threads that collect wait for work (ASPLOS 2013, sections 2.3.3 and 3.1.2).
    Parking {
        /// All on one monitor, whose lock guards the tasks too if they are locked.
        Monitor = "monitor",
        /// Each on a futex of its own.
        Futex = "futex",
    }
}

choice! {
    /// How many of the threads that collect take part in a collection (OOPSLA 2012, section 4.6).
    Crew {
        /// As many as pay; the others sleep.
        Auto = "auto",
        /// All of them.
        All = "all",
    }
}

choice! {
    /// How the threads that collect take the tasks of a phase (ASPLOS 2013, sections 2.3.3 and 3.1.1).
    TaskQueue {
        /// By compare-and-swap.
        LockFree = "lock-free",
        /// Under one lock: the monitor's, if they wait on one.
        Locked = "locked",
    }
}

choice! {
    /// Where a thread of the collector's marks beside the program.
    CycleHelper {
        /// Nowhere.
        Off = "off",
        /// Wherever marking may go on beside the program.
        On = "on",
        /// Under `generations=auto`, where it pays.
        Auto = "auto",
    }
}

choice! {
    /// Whether the heap asks the system for huge pages.
    HugePages {
        /// Asks not to have them.
        Off = "off",
        /// Asks to have them.
        On = "on",
        /// Leaves it to a rule that looks at the system's setting and the size of the heap.
        Auto = "auto",
    }
}

choice! {
    /// What the verifier checks.
    Verify {
        /// Nothing.
        Off = "off",
        /// The invariants, at the edges between phases.
        Edges = "edges",
    }
}

/// The path of a log or a snapshot, kept without allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FilePath {
    /// The first `length` bytes are the path, in UTF-8; the rest is 0.
    bytes: [u8; FilePath::LONGEST],
    length: u8,
}

impl FilePath {
    /// The longest path in bytes.
    pub const LONGEST: usize = 255;

    /// No file.
    pub const NONE: FilePath = FilePath {
        bytes: [0; FilePath::LONGEST],
        length: 0,
    };

    /// The path, or nothing when there is no file.
    pub fn as_str(&self) -> Option<&str> {
        let path = &self.bytes[..usize::from(self.length)];
        core::str::from_utf8(path)
            .ok()
            .filter(|path| !path.is_empty())
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(out)
    }
}

impl OptionValue for FilePath {
    fn parse<'a>(text: &'a str, _: &super::Accepted) -> Result<FilePath, Problem<'a>> {
        if text == "none" {
            return Ok(FilePath::NONE);
        }
        if text.len() > FilePath::LONGEST {
            return Err(Problem::PathTooLong);
        }
        if text.contains([',', '\0']) {
            return Err(Problem::PathCharacter);
        }
        let mut path = FilePath::NONE;
        path.bytes[..text.len()].copy_from_slice(text.as_bytes());
        path.length = text.len() as u8;
        Ok(path)
    }

    fn shown(&self) -> Shown<'_> {
        Shown::Word(self.as_str().unwrap_or("none"))
    }
}

choice! {
    /// When a snapshot of the heap is written.
    SnapshotAt {
        /// In a collection that finds a quarter more than the last snapshot has.
        Peak = "peak",
        /// When the program ends.
        Exit = "exit",
        /// In the first collection after the signal SIGUSR2, which then is called for.
        Signal = "signal",
        /// In each collection.
        Collection = "collection",
    }
}

choice! {
    /// Which plan collects a precise heap: where memory lies that no option places.
    Plan {
        /// Where the kernel puts it (ASPLOS 2013, section 2).
        Scavenge = "scavenge",
        /// Fragmented young spaces, the others interleaved (ASPLOS 2013, section 4.3).
        Naps = "naps",
    }
}

choice! {
    /// On which memory nodes the pages of the young spaces lie (ASPLOS 2013, sections 3.2 and 3.3).
    Pages {
        /// As the plan has it.
        Auto = "auto",
        /// On the node of the thread that touches them first.
        FirstTouch = "first-touch",
        /// Round robin over the nodes.
        Interleaved = "interleaved",
        /// A range for each node, which may have all of the space.
        Fragmented = "fragmented",
        /// A range for each node with an equal share of the space: Parallel Scavenge's own.
        FragmentedFixed = "fragmented-fixed",
        /// As fragmented, and workers copy and scan objects of their own node alone.
        Segregated = "segregated",
    }
}

choice! {
    /// On which memory nodes the pages of the old, the pinned and the large space lie (ASPLOS 2013, section 3.2).
    OldPages {
        /// As the plan has it.
        Auto = "auto",
        /// On the node of the thread that touches them first.
        FirstTouch = "first-touch",
        /// Round robin over the nodes.
        Interleaved = "interleaved",
    }
}

choice! {
    /// How arrays lie in memory (PLDI 2010, section 7.1.1): in one piece, or in a spine and arraylets with some of the
    /// five optimisations. The sizes that a name stands for are those of the paper, where it has them.
    Arrays {
        /// In one piece.
        Contiguous = "contiguous",
        /// Arraylets of 1 KB, allocated with the array, and nothing of it in the spine but the remainder.
        Naive = "naive",
        /// The same with lazy allocation, after Chen et al.
        NaiveA = "naive-a",
        /// As naive with arraylets of 2 KB, after Metronome.
        NaiveB = "naive-b",
        /// The first 4 KB in the spine, arraylets of 1 KB, and all five optimisations.
        ZRay = "zray",
        /// As zray without copy-on-write.
        PerfZRay = "perf-zray",
    }
}

choice! {
    /// Which arrays are not in one piece.
    ArrayKinds {
        /// All.
        All = "all",
        /// Those of references.
        References = "references",
        /// Those without.
        Primitives = "primitives",
    }
}

choice! {
    /// Whether one optimisation of arrays is made.
    Optimisation {
        /// As option `arrays` has it.
        Auto = "auto",
        /// It is.
        On = "on",
        /// It is not.
        Off = "off",
    }
}
