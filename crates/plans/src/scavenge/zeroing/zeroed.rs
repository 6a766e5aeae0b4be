//! What zeroing came to.

/// Bytes of a block that is zeroed at once: as many as a TLAB has, unless told otherwise.
pub const BLOCK: usize = 32 << 10;
/// What zeroing came to. What each allocation zeroes by itself is not counted: that would take longer than zeroing.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Zeroed {
    /// Bytes that mutators zeroed in blocks, buffers and windows.
    pub bytes: u64,
    /// Bytes that zeroing threads zeroed.
    pub ahead_bytes: u64,
    /// Processor time of mutators for that, in nanoseconds, sampled (`time`); its share of all processor time
    /// is DirectZeroingCost (OOPSLA 2011, section 4.3).
    pub time: u64,
    /// Processor time of zeroing threads.
    pub ahead_time: u64,
    /// Bytes that `time` is of; the last of `bytes` may wait for the next sample.
    pub timed: u64,
    /// Bytes that `ahead_time` is of.
    pub ahead_timed: u64,
    /// How long mutators waited for zeroing threads, by the clock: in ticks of the time-stamp counter, or in
    /// nanoseconds where totals are given out.
    pub stalled_time: u64,
    /// How often they did.
    pub stalls: u64,
    /// How often zeroing threads that keep a bounded lead slept.
    pub sleeps: u64,
    /// How often a buffer was taken while they spun, so that they need not.
    pub spared_sleeps: u64,
}

impl Zeroed {
    /// What zeroing threads did.
    pub(in crate::scavenge) fn ahead(&self) -> [u64; 5] {
        [
            self.ahead_bytes,
            self.ahead_time,
            self.ahead_timed,
            self.sleeps,
            self.spared_sleeps,
        ]
    }

    /// The last pieces of a nursery were not timed: they took what the timed ones took.
    pub(in crate::scavenge) fn extend_to_all(&mut self) {
        let extend = |time: &mut u64, timed: &mut u64, bytes: u64| {
            if *timed > 0 {
                *time = (u128::from(*time) * u128::from(bytes) / u128::from(*timed)) as u64;
                *timed = bytes;
            }
        };
        extend(&mut self.time, &mut self.timed, self.bytes);
        extend(
            &mut self.ahead_time,
            &mut self.ahead_timed,
            self.ahead_bytes,
        );
    }

    /// Adds what came since.
    pub fn add(&mut self, more: Zeroed) {
        self.bytes += more.bytes;
        self.ahead_bytes += more.ahead_bytes;
        self.time += more.time;
        self.ahead_time += more.ahead_time;
        self.timed += more.timed;
        self.ahead_timed += more.ahead_timed;
        self.stalled_time += more.stalled_time;
        self.stalls += more.stalls;
        self.sleeps += more.sleeps;
        self.spared_sleeps += more.spared_sleeps;
    }
}
