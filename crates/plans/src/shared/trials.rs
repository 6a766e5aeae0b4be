//! Which of several ways to do the work of collections is the fastest, found out by doing it.
//!
//! The ways are numbered, so that neighbours are alike; the way that was fastest for what it found is taken. Now and then a
//! collection is made in the next way down or up, to see whether it is faster by now; the less often, the longer it was not. One bad
//! trial is enough against a way, and several good ones in a row are needed for it, for collections are not alike; one that took very
//! long counts as twice as long as usual.
//!
//! A trial takes as long as the way takes, and the program may be stopped for that. So the first one comes early, while the heap is
//! small; and where a lower way is known to cost clearly more than the best one does now, it is not tried again as long as that
//! is so. What is known of it fades each time, from twice what the best one costs at most: the trial may have taken long by chance,
//! or all ways may have become faster since.

/// Bytes that are next to none: a collection takes about as long for fewer.
const LEAST_FOUND: usize = 16 << 10;
/// How many collections come before the first trial.
pub const EARLY: u32 = 2;
/// How many lie between two trials: at least after one that was not good, after a good one (`SOON`), and at most ([`SELDOM`]).
pub const FIRST: u32 = 8;
const SOON: u32 = 2;
/// See [`FIRST`].
pub const SELDOM: u32 = 128;
/// How many trials in a row must be good before their way is taken.
const NEEDED: u32 = 4;

/// A way costs clearly more that costs so much more than another, in parts of that.
const CLEAR: u64 = 4;
/// What is known of a way that is not tried, since it costs clearly more, fades by one part in this many.
const FADING: u64 = 16;

/// Why another way is taken than the fastest.
pub const TRIAL: &str = "a trial";
/// Why the fastest is taken.
pub const FASTEST: &str = "the fastest lately";

/// What is known of ways 1 up to `WAYS` less 1, of which the last is the best as long as nothing is known.
#[derive(Clone, Debug)]
pub struct Trials<const WAYS: usize> {
    /// A way is better than the best if it is by at least one part in this many: a tie does not count.
    margin: u64,
    /// For each way the nanoseconds for a MB that was found, lately; 0 where that is not known.
    costs: [u64; WAYS],
    /// The way that is fastest as far as is known; more than there can be at first.
    best: usize,
    /// The last way that there could be when it was decided last.
    limit: usize,
    /// The way that is being tried, if this collection is a trial.
    trial: Option<usize>,
    /// The way that was tried last, and how many trials of it in a row were good.
    good: (usize, u32),
    /// Whether the next trials are of ways below.
    lower: bool,
    /// Collections between two trials, and until the next.
    interval: u32,
    until_trial: u32,
}

impl<const WAYS: usize> Trials<WAYS> {
    /// Of a heap that was not collected yet. Another way is taken if it is better by one part in `margin`.
    pub const fn new(margin: u64) -> Self {
        Trials {
            margin,
            costs: [0; WAYS],
            best: usize::MAX,
            limit: WAYS - 1,
            trial: None,
            good: (0, 0),
            lower: true,
            interval: FIRST,
            until_trial: EARLY,
        }
    }

    /// Says up to which way there are any now.
    pub fn limit_to(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The fastest way as far as is known.
    pub fn best(&self) -> usize {
        self.best.min(self.limit)
    }

    /// What a way costs for what it finds, to be compared with others; 0 where that is not known.
    pub fn cost(&self, way: usize) -> u64 {
        self.costs[way]
    }

    /// No trial is under way any more.
    pub fn end(&mut self) {
        self.trial = None;
    }

    /// The way of the collection that begins, and why.
    pub fn choose(&mut self) -> (usize, &'static str) {
        self.end();
        let best = self.best();
        if self.until_trial > 0 {
            self.until_trial -= 1;
            return (best, FASTEST);
        }
        let other = self.neighbour(best);
        if other < best && is_clear(self.costs[other], self.costs[best]) {
            let known = self.costs[other].min(self.costs[best].saturating_mul(2));
            self.costs[other] = known - known.div_ceil(FADING);
            // Ways above are tried nevertheless.
            self.lower = false;
            self.try_less_often();
            self.until_trial = self.interval;
            return (best, FASTEST);
        }
        self.until_trial = self.interval;
        self.trial = Some(other);
        (other, TRIAL)
    }

    /// The way to be tried beside `best`: that half as far up as the last, as that, and so on.
    fn neighbour(&self, best: usize) -> usize {
        let lower = (self.lower || best == self.limit) && best > 1;
        if lower {
            return best.div_ceil(2);
        }
        let mut more = self.limit;
        while more.div_ceil(2) > best {
            more = more.div_ceil(2);
        }
        more
    }

    fn try_less_often(&mut self) {
        self.interval = (self.interval.max(FIRST) * 2).min(SELDOM);
    }

    /// What a collection in this way has taken for the bytes that it found.
    pub fn note(&mut self, way: usize, found: usize, took_ns: u64) {
        let kilobytes = found.max(LEAST_FOUND) as u64 / 1024;
        let cost = (took_ns.saturating_mul(1024) / kilobytes).max(1);
        self.costs[way] = average(self.costs[way], cost);
        let usual = self.costs[self.best()];
        if self.trial != Some(way) || usual == 0 {
            return;
        }
        if cost >= usual - usual / self.margin {
            (self.good, self.lower) = ((0, 0), !self.lower);
            // What it was in a heap of another size says less than this.
            self.costs[way] = cost;
            self.try_less_often();
        } else {
            let before = if self.good.0 == way { self.good.1 } else { 0 };
            (self.good, self.interval) = ((way, before + 1), SOON);
            if self.good.1 == NEEDED {
                (self.good, self.best) = ((0, 0), way);
            }
        }
        self.until_trial = self.interval;
    }
}

/// Whether `cost` is clearly more than `other`, which is known.
fn is_clear(cost: u64, other: u64) -> bool {
    other > 0 && cost >= other.saturating_add(other / CLEAR)
}

/// The average with a new value that weighs a quarter, and counts as twice the average at most; the first counts whole.
pub fn average(average: u64, value: u64) -> u64 {
    match average {
        0 => value,
        _ => average - average / 4 + value.min(average.saturating_mul(2)) / 4,
    }
}
