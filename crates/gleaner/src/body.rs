//! What the handles of a heap share: the collector in either slot format, its threads, and who listens.

use std::fmt;
use std::fs::File;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gleaner_base::options::References;
#[cfg(feature = "compressed")]
use gleaner_mem::slot::Compressed;
use gleaner_mem::slot::Wide;
use gleaner_plans::scavenge::{Config, Scavenge};
use gleaner_work::crew::Crew;

use crate::build_error::BuildError;
use crate::crew::Helpers;
use crate::listeners::Listeners;
use crate::wanted::Wanted;
use crate::zeroers::Zeroers;

/// The heap is full: collecting everything did not make enough room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// The size in bytes of the object for which there was no room; 0 if there was none for a local.
    pub bytes: usize,
}

impl OutOfMemory {
    /// A mutator has as many locals as it may.
    pub(crate) const OF_LOCALS: OutOfMemory = OutOfMemory { bytes: 0 };

    /// Whether it is no object for which there was no room, but a local: a mutator has as many as option `locals` says.
    pub fn is_of_locals(&self) -> bool {
        *self == OutOfMemory::OF_LOCALS
    }
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_of_locals() {
            return write!(
                out,
                "no room for another local: use nested scopes inside loops, or build the heap with a higher value of \
                 option locals"
            );
        }
        write!(
            out,
            "out of memory: no room for an object of {} bytes after collecting everything; drop what is not needed, \
             or build the heap with a higher limit",
            self.bytes
        )
    }
}

impl std::error::Error for OutOfMemory {}

/// The heap behind its handles: either slot format. A library without feature `compressed` has one collector only.
pub(crate) enum Kind {
    Wide(Box<Scavenge<Wide>>),
    #[cfg(feature = "compressed")]
    Compressed(Box<Scavenge<Compressed>>),
}

impl Kind {
    pub(crate) fn new(
        references: References,
        config: Config,
        crew: &'static Crew,
    ) -> Result<Kind, BuildError> {
        match references {
            References::Wide => Ok(Kind::Wide(Scavenge::new(config, crew)?)),
            #[cfg(feature = "compressed")]
            References::Compressed => Ok(Kind::Compressed(Scavenge::new(config, crew)?)),
            #[cfg(not(feature = "compressed"))]
            References::Compressed => Err(BuildError::Option(
                "refs=compressed: the library was built without feature compressed, so its slots have 8 bytes; build it \
                 with that feature, or set refs=wide"
                    .into(),
            )),
        }
    }

    pub(crate) fn references(&self) -> References {
        match self {
            Kind::Wide(_) => References::Wide,
            #[cfg(feature = "compressed")]
            Kind::Compressed(_) => References::Compressed,
        }
    }
}

/// Runs the same code on either kind.
macro_rules! with_heap {
    ($kind:expr, $heap:ident => $body:expr) => {
        match $kind {
            $crate::body::Kind::Wide($heap) => $body,
            #[cfg(feature = "compressed")]
            $crate::body::Kind::Compressed($heap) => $body,
        }
    };
}
pub(crate) use with_heap;

/// What heaps, mutators and handles share: a box, so that it can be taken out of a reference count and stays in place.
pub(crate) struct Shared(pub(crate) Box<Body>);

impl Deref for Shared {
    type Target = Body;

    #[inline(always)]
    fn deref(&self) -> &Body {
        &self.0
    }
}

/// What is shared. It stays in place as long as it exists: its threads, and a thread that forks, know where it is.
pub(crate) struct Body {
    /// No other heap of the process has it: types remember it.
    pub(crate) number: u32,
    /// How many mutators there are. Relaxed: it is a number for people, and a hint.
    pub(crate) mutators: AtomicUsize,
    pub(crate) listeners: Listeners,
    /// The snapshots that options ask for.
    pub(crate) wanted: Wanted,
    /// Whether the user was told of the end. Relaxed: the exchange decides who tells.
    pub(crate) is_over: AtomicBool,
    /// An option from outside that changed the layout of objects while the program did not say that its code follows.
    pub(crate) unknown_layout: Option<&'static str>,
    /// Whether this process was forked, and the heap has had no threads since. Relaxed: it is set while there is one
    /// thread, and the exchange decides between those that see it.
    pub(crate) lost_its_threads: AtomicBool,
    /// Before the heap: they are dropped in this order.
    pub(crate) zeroers: Zeroers,
    /// Before the helpers.
    pub(crate) kind: Kind,
    pub(crate) helpers: Helpers,
    /// Events are written to it; closed after the heap.
    pub(crate) _log: Option<File>,
}

/// The body of a heap, in one step, for a mutator: that has a reference to the heap.
pub(crate) struct BodyOfMutator(NonNull<Body>);

impl BodyOfMutator {
    /// # Safety
    /// The heap lasts longer than this value.
    pub(crate) unsafe fn new(body: &Body) -> BodyOfMutator {
        BodyOfMutator(NonNull::from(body))
    }
}

impl Deref for BodyOfMutator {
    type Target = Body;

    #[inline(always)]
    fn deref(&self) -> &Body {
        // SAFETY: the promise of `new`'s caller; a body stays in place.
        unsafe { self.0.as_ref() }
    }
}

impl Body {
    /// In a forked child, which has `mutators` mutators: threads are started again when a collection needs them.
    pub(crate) fn note_forked(&self, mutators: usize) {
        self.mutators.store(mutators, Ordering::Relaxed);
        self.lost_its_threads.store(true, Ordering::Relaxed);
    }

    /// Before a collection: starts the threads that a fork has left behind in the parent.
    pub(crate) fn find_threads(&self) {
        if self.lost_its_threads.load(Ordering::Relaxed)
            && self.lost_its_threads.swap(false, Ordering::Relaxed)
        {
            self.helpers.start();
            self.zeroers.start();
        }
    }
}
