//! Random numbers that are the same everywhere, and sums in which order does not count.

/// A linear congruential generator (Knuth's multiplier), of which the upper half is used.
pub struct Random(u64);

impl Random {
    /// One sequence for each seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number of 31 bits.
    #[inline(always)]
    pub fn draw(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    /// The next number below a bound.
    #[inline(always)]
    pub fn below(&mut self, bound: u32) -> u32 {
        self.draw() % bound
    }
}

/// A number scattered over 64 bits (the finalizer of splitmix64), so that sums of them tell sets apart.
#[inline(always)]
pub fn scattered(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// One more number of a sequence, in which order does count.
#[inline(always)]
pub fn chained(sum: u64, number: u64) -> u64 {
    sum.wrapping_mul(31).wrapping_add(number)
}

/// The number of no bytes.
pub const NO_BYTES: u64 = 0xcbf2_9ce4_8422_2325;

/// The number of some bytes that follow those which a number was made of (FNV-1a).
#[inline(always)]
pub fn hash_on(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The number of some bytes.
#[inline(always)]
pub fn hash_of(bytes: &[u8]) -> u64 {
    hash_on(NO_BYTES, bytes)
}
