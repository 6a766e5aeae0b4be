//! The setup of a heap: options by name from the one table, or by method.
//!
//! In rising order of weight: defaults, what the embedder sets on the builder, `GLEANER_OPTIONS` of the environment. So
//! the user of a program has the last word, as with the libgc heap. An option that serves the libgc heap alone is an
//! error on the builder; in the environment it is left to that heap. A program that runs with more rights than its user
//! has no environment, and an embedder may refuse it ([`Builder::ignore_environment`]).

use std::fs::File;

use gleaner_base::faults::FaultPlan;
use gleaner_base::options::{
    Crew, Foreign, Generations, HeapKind, NurseryPolicy, OldPages, OldPolicy, Options, Pages,
    Parking, Plan, Prefetch, References, TABLE, TaskQueue, TraceOrder, Verify, Zeroing,
};
use gleaner_os::topology::Topology;
use gleaner_plans::scavenge::Config;

use crate::build_error::BuildError;
use crate::environment::{self, OutsideLayout, Settled};
use crate::heap::Heap;
use crate::threads::{Factory, Join, NewThread};

/// The options of a heap that is to be built. A method accepts every value; [`Builder::build`] refuses those that the
/// option of that name does not accept, with the same message. `GLEANER_OPTIONS` in the environment overrides what is
/// set here, unless the environment is [ignored](Builder::ignore_environment).
#[derive(Clone, Debug)]
pub struct Builder {
    options: Options,
    ignores_environment: bool,
    outside_layout: Option<OutsideLayout>,
    factory: Factory,
}

impl Heap {
    /// A builder with default options. Without a limit, a heap gets a quarter of the machine's memory, at most 8 GB.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder {
            options: Options::DEFAULT,
            ignores_environment: false,
            outside_layout: None,
            factory: Factory::default(),
        }
    }

    /// Sets the option `name`, as documented in docs/options.md.
    ///
    /// ```
    /// use gleaner::Heap;
    ///
    /// let heap = Heap::builder().option("heap-limit", "16m")?.options("refs=compressed,workers=2")?.build()?;
    /// assert_eq!(heap.references(), gleaner::References::Compressed);
    ///
    /// let error = Heap::builder().option("heap-limt", "16m").unwrap_err();
    /// assert!(error.to_string().starts_with("unknown option 'heap-limt'; the nearest is 'heap-limit'"));
    /// # Ok::<(), gleaner::BuildError>(())
    /// ```
    pub fn option(mut self, name: &str, value: &str) -> Result<Self, BuildError> {
        let set = self.options.set_of(HeapKind::Precise, name, value);
        set.map_err(BuildError::refused)?;
        Ok(self)
    }

    /// Sets the options of a list such as `heap-limit=1g,young=64m`. Whether the options fit together is checked when
    /// the heap is built, since another list may complete this one.
    pub fn options(mut self, list: &str) -> Result<Self, BuildError> {
        self.options
            .read_list_of(HeapKind::Precise, Foreign::Refused, list)
            .map_err(BuildError::refused)?;
        Ok(self)
    }

    /// The most bytes that all spaces together may take: at least 1 MB, rounded to 64 KB. Option `heap-limit`. It is also the
    /// most that [`Mutator::set_limit`](crate::Mutator::set_limit) can make it later.
    pub fn limit(mut self, bytes: usize) -> Self {
        self.options.heap_limit = bytes;
        self
    }

    /// The initial size in bytes of the young generation: by default a third of the limit, at most 64 MB. Option
    /// `young`.
    pub fn young(mut self, bytes: usize) -> Self {
        self.options.young = bytes;
        self
    }

    /// Whether the generations change their sizes as the program needs; true by default. Option `resize`.
    pub fn resize(mut self, resize: bool) -> Self {
        self.options.resize = resize;
        self
    }

    /// How the old generation is collected; `mark-compact` by default. Option `old`.
    pub fn old(mut self, policy: OldPolicy) -> Self {
        self.options.old = policy;
        self
    }

    /// Where new objects lie; `copy`, in a space of their own, by default. Option `nursery`.
    pub fn nursery(mut self, policy: NurseryPolicy) -> Self {
        self.options.nursery = policy;
        self
    }

    /// Whether the young generation is collected on its own. By default it is, while that costs less than collecting
    /// everything. Option `generations`.
    pub fn generations(mut self, generations: Generations) -> Self {
        self.options.generations = generations;
        self
    }

    /// When the memory of new objects is zeroed, and by which threads. Option `zeroing`.
    pub fn zeroing(mut self, zeroing: Zeroing) -> Self {
        self.options.zeroing = zeroing;
        self
    }

    /// Which grey object a worker scans next. Option `trace-order`.
    pub fn trace_order(mut self, order: TraceOrder) -> Self {
        self.options.trace_order = order;
        self
    }

    /// Whether the collector prefetches the objects that it will scan; true by default. Option `prefetch`.
    pub fn prefetch(mut self, prefetch: bool) -> Self {
        self.options.prefetch = if prefetch {
            Prefetch::Edges
        } else {
            Prefetch::None
        };
        self
    }

    /// The most threads that collect, including the thread that asks for a collection. By default there is one for each
    /// processor and each MB of the limit, and at most 16. Option `workers`.
    pub fn workers(mut self, workers: usize) -> Self {
        self.options.workers = workers.try_into().unwrap_or(u32::MAX);
        self
    }

    /// How many of the [`Builder::workers`] take part in a collection; by default as many as pay off. Option `crew`.
    pub fn crew(mut self, crew: Crew) -> Self {
        self.options.crew = crew;
        self
    }

    /// How collecting threads wait for work; by default each on a futex of its own. Option `parking`.
    pub fn parking(mut self, parking: Parking) -> Self {
        self.options.parking = parking;
        self
    }

    /// How collecting threads take the tasks of a phase; by default without a lock. Option `task-queue`.
    pub fn task_queue(mut self, queue: TaskQueue) -> Self {
        self.options.task_queue = queue;
        self
    }

    /// Whether the heap places its pages on the memory nodes of the machine. Option `plan`.
    pub fn plan(mut self, plan: Plan) -> Self {
        self.options.plan = plan;
        self
    }

    /// On which memory nodes the young generation lies; by default as the plan chooses. Option `pages`.
    pub fn pages(mut self, pages: Pages) -> Self {
        self.options.pages = pages;
        self
    }

    /// On which memory nodes the other spaces lie; by default as the plan chooses. Option `old-pages`.
    pub fn old_pages(mut self, pages: OldPages) -> Self {
        self.options.old_pages = pages;
        self
    }

    /// The width of references in objects. Option `refs`.
    pub fn references(mut self, references: References) -> Self {
        self.options.refs = references;
        self
    }

    /// How many collections an object survives before the next one makes it old: 1 by default, at most 15. Option
    /// `tenure`.
    pub fn tenure(mut self, collections: u32) -> Self {
        self.options.tenure = collections;
        self
    }

    /// How many locals the scopes of a mutator may hold at a time: 1,048,576 by default. Each takes 8 bytes of
    /// addresses. Option `locals`.
    pub fn locals(mut self, most: u32) -> Self {
        self.options.locals = most;
        self
    }

    /// The size in bytes of the buffer in which a mutator allocates, its TLAB; 32 KB by default. Option `tlab`.
    pub fn tlab(mut self, bytes: usize) -> Self {
        self.options.tlab = bytes;
        self
    }

    /// For testing: whether the heap's invariants are checked before and after each collection. Option `verify`.
    pub fn verify(mut self, verify: bool) -> Self {
        self.options.verify = if verify { Verify::Edges } else { Verify::Off };
        self
    }

    /// For testing: collects at every `every`-th allocation of each mutator; 0 for never. Option `stress`.
    pub fn stress(mut self, every: u32) -> Self {
        self.options.stress = every;
        self
    }

    /// For testing: whether freed memory is overwritten. Option `poison`.
    pub fn poison(mut self, poison: bool) -> Self {
        self.options.poison = poison;
        self
    }

    /// For testing: memory that eden and the survivor spaces leave in a collection cannot be accessed during the next
    /// `collections` collections, so that a stale reference faults. Allocations are checked, too. 0 turns both off.
    /// Option `quarantine`.
    pub fn quarantine(mut self, collections: u32) -> Self {
        self.options.quarantine = collections;
        self
    }

    /// For testing and counting: one thread does the work of all workers, in turns of `objects` objects each. With 0
    /// all workers run at the same time. Option `lockstep`; option `lockstep-seed` sets the order of the turns.
    pub fn lockstep(mut self, objects: u32) -> Self {
        self.options.lockstep = objects;
        self
    }

    /// Who makes the heap's threads: those that work in collections, and those that zero memory. `factory` starts a
    /// thread that calls [`NewThread::run`] once, and answers how to wait for its end; `None` if it has no thread, so
    /// that the heap does without. By default the system makes them.
    ///
    /// Such a thread names itself, and runs where the factory starts it. It should have 2 MB of stack, and block the
    /// signals that the program handles. The factory is called when the heap is built, and in a forked child when a
    /// collection needs threads again. It must not use this heap.
    ///
    /// ```
    /// let heap = gleaner::Heap::builder().limit(1 << 20).workers(2).thread_factory(|thread| {
    ///     let started = std::thread::Builder::new().name(thread.name().into()).spawn(|| thread.run());
    ///     let started = started.ok()?;
    ///     Some(Box::new(move || drop(started.join())))
    /// });
    /// heap.build()?.attach()?.collect(true);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn thread_factory(
        mut self,
        factory: impl Fn(NewThread) -> Option<Join> + Send + Sync + 'static,
    ) -> Self {
        self.factory = Factory::new(factory);
        self
    }

    /// Ignores `GLEANER_OPTIONS`. A program that runs with more rights than its user (setuid, file capabilities)
    /// ignores it in any case.
    ///
    /// ```
    /// # // SAFETY: this program has one thread.
    /// # unsafe { std::env::set_var("GLEANER_OPTIONS", "heap-limit=8m") };
    /// let heap = gleaner::Heap::builder().limit(16 << 20).build()?;
    /// assert_eq!(heap.limit(), 8 << 20);
    /// let heap = gleaner::Heap::builder().limit(16 << 20).ignore_environment().build()?;
    /// assert_eq!(heap.limit(), 16 << 20);
    /// # Ok::<(), gleaner::BuildError>(())
    /// ```
    pub fn ignore_environment(mut self) -> Self {
        self.ignores_environment = true;
        self
    }

    /// What becomes of options in the environment that change how objects lie in memory: `refs`, `arrays`, and what says
    /// how arrays are cut. A program that uses the safe layer alone need not say it: such options are followed. On the raw
    /// layer it has to be said. Otherwise a heap with such an option from outside refuses types of the raw layer.
    ///
    /// ```
    /// use gleaner::{Heap, OutsideLayout, References};
    ///
    /// # // SAFETY: this program has one thread.
    /// # unsafe { std::env::set_var("GLEANER_OPTIONS", "refs=compressed") };
    /// let heap = Heap::builder().limit(1 << 20).outside_layout(OutsideLayout::LeftOut).build()?;
    /// assert_eq!(heap.references(), References::Wide);
    /// let error = Heap::builder().outside_layout(OutsideLayout::Refused).build().unwrap_err();
    /// assert!(error.to_string().starts_with("in GLEANER_OPTIONS: refs=compressed, which changes how objects lie"));
    /// # Ok::<(), gleaner::BuildError>(())
    /// ```
    pub fn outside_layout(mut self, layout: OutsideLayout) -> Self {
        self.outside_layout = Some(layout);
        self
    }

    /// Reads the environment and makes the heap. Option `fault` arms its fault points for the whole process.
    pub fn build(self) -> Result<Heap, BuildError> {
        self.check_methods()?;
        let settled =
            environment::settle(self.options, self.ignores_environment, self.outside_layout)?;
        let Settled {
            options,
            unknown_layout,
        } = &settled;
        let log = open_log(options)?;
        if options.fault != FaultPlan::NONE {
            options.fault.arm();
        }
        Heap::create(
            Config::new(options, Topology::of(options.topology)),
            options.refs,
            log,
            *unknown_layout,
            self.factory.clone(),
        )
    }

    /// Refuses what a method set and the option of that name does not accept: its text is read as if it were written.
    fn check_methods(&self) -> Result<(), BuildError> {
        for info in TABLE {
            let text = (info.value)(&self.options).to_string();
            let mut read = Options::DEFAULT;
            read.set(info.name, &text).map_err(BuildError::refused)?;
        }
        Ok(())
    }
}

fn open_log(options: &Options) -> Result<Option<File>, BuildError> {
    let Some(path) = options.log.as_str() else {
        return Ok(None);
    };
    let opened = File::options().append(true).create(true).open(path);
    opened
        .map(Some)
        .map_err(|error| BuildError::Log(path.into(), error))
}
