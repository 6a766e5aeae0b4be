//! What became of arrays in pieces.

/// What became of arrays in pieces, over the life of a heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArrayCounts {
    /// Arrays in pieces that were allocated.
    pub spines: u64,
    /// How many arraylets they would have if each had all of them.
    pub parts: u64,
    /// Arraylets that a spine was made to point at, when they were written or when the array was allocated.
    pub instantiated: u64,
    /// How often a part that was all zero, without memory of its own, became something else: it was written, or shared.
    pub touched: u64,
    /// Arraylets that a collection took back because all in them was zero.
    pub compressed: u64,
    /// Arraylets that a copy shared.
    pub shared: u64,
    /// How often a copy stopped all other mutators to share arraylets.
    pub sharing_stops: u64,
    /// Bytes that copies wrote beyond the first N bytes of an array.
    pub copied_bytes: u64,
}

impl ArrayCounts {
    /// Adds other counts.
    pub fn add(&mut self, other: ArrayCounts) {
        self.spines += other.spines;
        self.parts += other.parts;
        self.instantiated += other.instantiated;
        self.touched += other.touched;
        self.compressed += other.compressed;
        self.shared += other.shared;
        self.sharing_stops += other.sharing_stops;
        self.copied_bytes += other.copied_bytes;
    }
}

/// What a fresh arraylet holds when a spine points at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filling {
    /// What was there before.
    Same,
    /// Anything: the caller writes all of it.
    Unwritten,
}
