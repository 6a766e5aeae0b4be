//! How much is allocated between two collections where memory is traded for time at a stated price
//! (`heap-sizing=balanced`), after Kirisame, Shenoy and Panchekha, "Optimal heap limits for reducing browser memory use",
//! OOPSLA 2022.
//!
//! A heap in which `L` bytes live and `E` more are allocated between two collections is collected `g / E` times a second, if
//! the program allocates `g` bytes a second. Each collection takes `L / s` seconds where `s` bytes are marked a second. So
//! another byte saves `g L / (s E E)` of a processor, and is worth its price until that is `p`: `E` is the root of
//! `g L / (s p)`. A heap twice as large has thus 1.4 times the room and not twice as much, one that marks slowly has more,
//! and one whose program has come to rest has less.
//!
//! What that gives is bounded by what the machine or the control group has left, since what others need is no matter of
//! price. `GC_free_space_divisor` still does what it says: a heap has half the room if it is twice the usual one.

/// Bytes and the nanoseconds that they took, the latest counting most.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    bytes: f64,
    nanoseconds: f64,
}

/// What an interval counts for when the next one has passed.
const FORGETTING: f64 = 0.5;

impl Rate {
    fn note(&mut self, bytes: u64, nanoseconds: u64) {
        self.bytes = self.bytes * FORGETTING + bytes as f64;
        self.nanoseconds = self.nanoseconds * FORGETTING + nanoseconds.max(1) as f64;
    }

    /// Bytes in a nanosecond; nothing as long as nothing was measured.
    fn get(&self) -> Option<f64> {
        (self.bytes > 0.0).then(|| self.bytes / self.nanoseconds)
    }
}

/// How fast a program allocates, and how fast its heap is marked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    allocation: Rate,
    marking: Rate,
}

impl Rates {
    /// Nothing is known.
    pub const fn new() -> Rates {
        const NONE: Rate = Rate {
            bytes: 0.0,
            nanoseconds: 0.0,
        };
        Rates {
            allocation: NONE,
            marking: NONE,
        }
    }

    /// Notes that the program ran for `nanoseconds` between two collections and allocated `bytes` bytes.
    pub fn note_allocation(&mut self, bytes: u64, nanoseconds: u64) {
        self.allocation.note(bytes, nanoseconds);
    }

    /// Notes that a stop in which `bytes` bytes were found alive took `nanoseconds`.
    pub fn note_marking(&mut self, bytes: u64, nanoseconds: u64) {
        self.marking.note(bytes, nanoseconds);
    }

    /// Bytes that are to be allocated before the next collection where `live` bytes live. `None` as long as it is not
    /// known how fast the program allocates and how fast marking is.
    pub fn interval(&self, live: usize, price: &Price) -> Option<usize> {
        let allocated = self.allocation.get()?;
        let marked = self.marking.get()?;
        let paid = f64::from(price.hundredths_for_gigabyte) / 100.0 / f64::from(1 << 30);
        let room = square_root(allocated / marked * live as f64 / paid);
        let room = room * USUAL_DIVISOR / price.divisor.max(1) as f64;
        Some((room as usize).clamp(LEAST_ROOM, (price.left / 2).max(LEAST_ROOM)))
    }
}

/// The divisor at which the price is as stated.
const USUAL_DIVISOR: f64 = 3.0;
/// A heap has this room at least.
const LEAST_ROOM: usize = 1 << 20;

/// What memory is worth, and how much of it there is.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    /// Hundredths of a processor that a gigabyte is to save.
    pub hundredths_for_gigabyte: u32,
    /// `GC_free_space_divisor`.
    pub divisor: usize,
    /// Bytes that the machine and the control group have left.
    pub left: usize,
}

/// By Newton's rule, since the core library has no other.
fn square_root(of: f64) -> f64 {
    if !of.is_finite() || of <= 0.0 {
        return 0.0;
    }
    // Half the exponent: within a factor of two.
    let mut root = f64::from_bits((of.to_bits() >> 1) + (1023 << 51));
    for _ in 0..4 {
        root = 0.5 * (root + of / root);
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price = Price {
        hundredths_for_gigabyte: 100,
        divisor: 3,
        left: usize::MAX,
    };
    const MB: usize = 1 << 20;

    /// A gigabyte is allocated a second, and marked.
    fn rates() -> Rates {
        let mut rates = Rates::new();
        rates.note_allocation(1 << 30, 1_000_000_000);
        rates.note_marking(1 << 30, 1_000_000_000);
        rates
    }

    fn is_about(bytes: Option<usize>, megabytes: usize) {
        let got = bytes.unwrap();
        let about = megabytes * MB;
        assert!(
            got > about / 100 * 99 && got < about / 100 * 101,
            "{got} is not about {about}"
        );
    }

    #[test]
    fn four_times_the_live_heap_has_twice_the_room() {
        // 16 MB are a 64th of a gigabyte, whose root is an eighth.
        is_about(rates().interval(16 * MB, &PRICE), 128);
        is_about(rates().interval(64 * MB, &PRICE), 256);
        is_about(rates().interval(1024 * MB, &PRICE), 1024);
    }

    #[test]
    fn what_memory_costs_and_how_much_there_is_counts() {
        let dear = Price {
            hundredths_for_gigabyte: 400,
            ..PRICE
        };
        is_about(rates().interval(16 * MB, &dear), 64);
        let small = Price {
            divisor: 6,
            ..PRICE
        };
        is_about(rates().interval(16 * MB, &small), 64);
        let scarce = Price {
            left: 50 * MB,
            ..PRICE
        };
        is_about(rates().interval(16 * MB, &scarce), 25);
        let none = Price { left: 0, ..PRICE };
        assert_eq!(rates().interval(16 * MB, &none), Some(LEAST_ROOM));
    }

    #[test]
    fn fast_allocation_and_slow_marking_get_more_room_and_rest_gets_less() {
        let mut rates = rates();
        rates.note_marking(1 << 30, 9_000_000_000);
        assert!(rates.interval(16 * MB, &PRICE) > Some(250 * MB));
        for _ in 0..8 {
            rates.note_allocation(1 << 20, 1_000_000_000);
        }
        assert!(rates.interval(16 * MB, &PRICE) < Some(50 * MB));
    }

    #[test]
    fn nothing_is_decided_before_both_are_known() {
        let mut rates = Rates::new();
        assert_eq!(rates.interval(MB, &PRICE), None);
        rates.note_allocation(100, 0);
        assert_eq!(rates.interval(MB, &PRICE), None);
        rates.note_marking(100, 0);
        assert_eq!(rates.interval(0, &PRICE), Some(LEAST_ROOM));
        assert!(rates.interval(usize::MAX, &PRICE).is_some());
    }

    #[test]
    fn roots_are_roots() {
        for of in [1.0, 2.0, 9.0, 1e-12, 1e30, 0.25, 1e300, f64::MIN_POSITIVE] {
            let root = square_root(of);
            assert!((root * root / of - 1.0).abs() < 1e-9, "{of}: {root}");
        }
        assert_eq!(square_root(0.0), 0.0);
        assert_eq!(square_root(f64::INFINITY), 0.0);
        assert_eq!(square_root(-1.0), 0.0);
    }
}
