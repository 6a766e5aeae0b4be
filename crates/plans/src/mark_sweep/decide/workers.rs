//! How many workers mark: a small heap is marked faster by one than by several that must first wake up.

/// Live bytes to scan below which the collecting thread marks alone.
const ALONE_BELOW: usize = 1 << 20;

/// The most workers that are chosen by themselves; more gain little on one heap.
const MOST: usize = 16;

/// The most workers, when `wanted` are wanted: 0 for one for each of `processors`, which is asked where it matters.
pub fn most(wanted: usize, processors: impl FnOnce() -> usize) -> usize {
    match wanted {
        0 => processors().clamp(1, MOST),
        wanted => wanted,
    }
}

/// Workers to use, [`most`] or one, and why: for a heap of `composite` live bytes with pointers at the last collection,
/// or `used` bytes if there was none yet.
pub fn workers(
    wanted: usize,
    processors: impl FnOnce() -> usize,
    composite: usize,
    used: usize,
) -> (usize, &'static str) {
    let expected = if composite == 0 { used } else { composite };
    if wanted != 1 && expected < ALONE_BELOW {
        return (1, "a small heap");
    }
    (most(wanted, processors), "as configured")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_heaps_are_marked_alone_and_large_ones_by_all() {
        assert_eq!(workers(0, || unreachable!(), 100 << 10, 1 << 20).0, 1);
        assert_eq!(workers(0, || 8, 8 << 20, 16 << 20).0, 8);
        assert_eq!(workers(0, || 64, 8 << 20, 16 << 20).0, 16);
        assert_eq!(workers(4, || 2, 8 << 20, 16 << 20).0, 4);
        assert_eq!(workers(1, || 8, 8 << 20, 16 << 20).0, 1);
    }
}
