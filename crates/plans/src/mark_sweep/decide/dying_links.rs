//! What disappearing links that are about to be cleared cost, in bytes of allocation.
//!
//! A program that registers links for objects that soon die keeps their entries in tables of its own, which it clears
//! when the collector has cleared the links. Until then each look into such a table passes dead entries. So what a
//! collection saves there is more than the memory that it frees, and the heap hears of it. A link that was registered
//! since the last collection counts as some bytes that were allocated, times the part of such links that the last
//! collections cleared. A program whose links stay pays nothing.

/// Links that came and went, the latest collection counting most.
#[derive(Clone, Copy, Debug, Default)]
pub struct DyingLinks {
    /// Links that the last collection left.
    left: usize,
    /// Links that were registered between two collections.
    came: usize,
    /// Links that a collection cleared or dropped.
    went: usize,
    /// Links that the last collection cleared or dropped.
    last: usize,
}

/// What a link that dies counts for, beside the objects that it belongs to.
const BYTES: usize = 256;

impl DyingLinks {
    /// Notes that a collection found `found` links and left `left` of them.
    pub fn note(&mut self, found: usize, left: usize) {
        self.last = found.saturating_sub(left);
        self.came = (self.came / 2).saturating_add(found.saturating_sub(self.left));
        self.went = (self.went / 2).saturating_add(self.last);
        self.left = left;
    }

    /// What those counted for that went when the last collection was run.
    pub fn last_bytes(&self) -> usize {
        self.last.saturating_mul(BYTES)
    }

    /// What the links count for that were registered since, if there are `links` now.
    pub fn bytes(&self, links: usize) -> usize {
        let new = links.saturating_sub(self.left) as u128;
        let die = new * self.went.min(self.came) as u128 / self.came.max(1) as u128;
        usize::try_from(die * BYTES as u128).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_count_as_far_as_the_last_ones_died() {
        let mut links = DyingLinks::default();
        assert_eq!(links.bytes(1000), 0, "nothing is known yet");
        links.note(1000, 1000);
        assert_eq!(links.bytes(3000), 0, "all of them live");
        links.note(3000, 2000);
        // 2500 came, of which the earlier half count half; 1000 went.
        assert_eq!(links.last_bytes(), 1000 * BYTES);
        assert_eq!(links.bytes(2250), 250 * 1000 / 2500 * BYTES);
        for _ in 0..20 {
            links.note(4000, 2000);
        }
        assert_eq!(links.bytes(2500), 500 * BYTES);
        assert_eq!(links.bytes(2000), 0);
        assert_eq!(links.bytes(1000), 0, "fewer than there were");
    }

    #[test]
    fn old_links_that_die_are_no_reason() {
        let mut links = DyingLinks::default();
        links.note(5000, 5000);
        links.note(5000, 0);
        assert_eq!(
            links.bytes(100),
            100 * BYTES,
            "but those that come then are"
        );
        for _ in 0..16 {
            links.note(1000, 1000);
            links.note(1000, 1000);
        }
        assert_eq!(links.bytes(2000), 0);
        links.note(usize::MAX, 0);
        assert!(links.bytes(usize::MAX) > 0);
    }
}
