//! How the addresses of a precise heap are cut into spaces, when it is made.
//!
//! The limit is what all spaces may use together; ranges are larger where a space may grow at the cost of others. One
//! reservation holds them all.

use gleaner_mem::Address;
use gleaner_spaces::precise::arraylets::Arraylets;
use gleaner_spaces::precise::fragmented::Cut;
use gleaner_spaces::precise::nursery::Nursery;
use gleaner_spaces::precise::regions::Kind;

use super::{Config, CreateError, LEAST_LIMIT, REGION_GRANULE};
use crate::scavenge::decide::generation_sizes;

/// Sizes of the spaces, and of their ranges of addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// What counts toward the limit.
    pub limit: usize,
    /// Eden and a survivor space, at first.
    first: (usize, usize),
    pub pinned: usize,
    pub old: usize,
    pub eden: usize,
    pub survivor: usize,
    pub large: usize,
    /// 0 where no array is cut.
    pub arraylets: usize,
    /// How many places each fragment of the nursery has: one more than collections that pass before one is used again.
    turns: usize,
    /// How each space of the nursery is cut.
    cut: Cut,
}

/// The largest young generation that a heap with changing sizes begins with.
const FIRST_YOUNG: usize = 64 << 20;

/// Fenced arrays take as many addresses as all their elements would: so many times the limit, and at least so many bytes.
const FENCED_LIMITS: usize = 16;
const LEAST_FENCED: usize = 8 << 30;

fn round(bytes: usize) -> usize {
    (bytes / REGION_GRANULE * REGION_GRANULE).max(REGION_GRANULE)
}

impl Sizes {
    /// The sizes to try for a heap whose references reach `reach` bytes, the best first. Where they reach less, or the
    /// system gives less, sizes change less, and large and pinned objects have smaller ranges.
    pub fn candidates(config: &Config, reach: usize) -> Result<[Option<Sizes>; 5], CreateError> {
        let limit = config.limit;
        if limit > reach {
            return Err(CreateError::Span {
                asked: limit,
                reach,
                ranges: 1,
            });
        }
        let fixed = Sizes::fixed(config)?;
        let is_fenced = config.cutting.is_some_and(|cutting| cutting.guard);
        let range = if is_fenced {
            FENCED_LIMITS.saturating_mul(limit).max(LEAST_FENCED)
        } else {
            2 * limit
        };
        let least = fixed.with_large(0, fixed.old / 2, reach);
        let dense = fixed.dense().with_large(range, fixed.old / 8, reach)?;
        let changing = config.options.resize.then(|| fixed.changing().all_pinned());
        let with_large = |sizes: Sizes| sizes.with_large(range, sizes.old / 2, reach).ok();
        Ok([
            changing.and_then(with_large),
            with_large(fixed.all_pinned()),
            with_large(fixed),
            least.ok(),
            Some(dense),
        ])
    }

    /// Nearly all is for objects that may move and are not large.
    fn dense(self) -> Sizes {
        Sizes {
            pinned: round(self.old / 32),
            ..self
        }
    }

    /// All that is not young may be pinned.
    fn all_pinned(self) -> Sizes {
        Sizes {
            pinned: self.old,
            ..self
        }
    }

    /// A survivor space is an eighth of the young generation, as in Parallel Scavenge.
    fn fixed(config: &Config) -> Result<Sizes, CreateError> {
        let limit = config.limit;
        if limit < LEAST_LIMIT {
            return Err(CreateError::TooSmall(limit));
        }
        let young = match config.options.young {
            0 if config.options.resize => (limit / 3).min(FIRST_YOUNG),
            0 => limit / 3,
            young => young,
        };
        let survivor = round(young / 8);
        let eden = round(young - young.min(2 * survivor));
        let young = eden + 2 * survivor;
        if young > limit / 10 * 9 {
            return Err(CreateError::Young { young, limit });
        }
        Ok(Sizes {
            limit: young + round(limit - young),
            first: (eden, survivor),
            pinned: round((limit - young) / 4),
            old: round(limit - young),
            eden,
            survivor,
            large: 0,
            arraylets: config.cutting.map_or(0, |_| {
                Arraylets::range(limit).next_multiple_of(REGION_GRANULE)
            }),
            turns: 1 + config.options.quarantine as usize,
            cut: config.cut,
        })
    }

    /// The same at first, with ranges for the largest sizes there may be.
    fn changing(self) -> Sizes {
        Sizes {
            old: round(self.limit - self.least_young()),
            eden: round(self.limit / 10 * 9),
            survivor: round(self.limit / 4),
            ..self
        }
    }

    /// Large objects have `wanted` bytes of addresses or what is left of the reach, and at least `least`.
    fn with_large(self, wanted: usize, least: usize, reach: usize) -> Result<Sizes, CreateError> {
        let others = self.span();
        let least = round(least);
        let asked = others + least;
        if asked > reach {
            return Err(CreateError::Span {
                asked,
                reach,
                ranges: self.cut.nodes * self.turns,
            });
        }
        let large = wanted.max(least).min(reach - others);
        Ok(Sizes { large, ..self })
    }

    /// Bytes of addresses of a space, all its fragments together.
    pub fn range(&self, kind: Kind) -> usize {
        let fragments = self.cut.nodes * self.turns;
        match kind {
            Kind::Pinned => self.pinned,
            Kind::Old => self.old,
            Kind::Eden => fragments * self.eden,
            Kind::Survivor(_) => fragments * self.survivor,
            Kind::Large => self.large,
            Kind::Arraylets => self.arraylets,
        }
    }

    /// Bytes of addresses. The first granule is never allocated: no object is at offset 0.
    pub fn span(&self) -> usize {
        let ranges = Kind::ALL.into_iter().map(|kind| self.range(kind));
        REGION_GRANULE + ranges.sum::<usize>()
    }

    /// Where a space begins in a heap whose addresses begin at `base`.
    pub fn start(&self, base: Address, kind: Kind) -> Address {
        let below = Kind::ALL.into_iter().take_while(|&below| below < kind);
        let bytes: usize = below.map(|below| self.range(below)).sum();
        base.add(REGION_GRANULE + bytes)
    }

    /// The nursery of a heap whose addresses begin at `base`.
    pub fn nursery(&self, base: Address) -> Nursery {
        let start = self.start(base, Kind::Eden);
        let nursery = Nursery::new(start, self.eden, self.survivor, self.turns, self.cut);
        nursery.resize(self.first.0, self.first.1);
        nursery
    }

    /// Bytes of the young generation at first.
    pub fn first_young(&self) -> usize {
        self.first.0 + 2 * self.first.1
    }

    /// Bytes of eden at first.
    pub fn first_eden(&self) -> usize {
        self.first.0
    }

    /// The least young generation that makes sense.
    pub fn least_young(&self) -> usize {
        (self.limit / 64)
            .clamp(LEAST_YOUNG, MOST_LEAST_YOUNG)
            .min(self.first_young())
    }

    /// Up to which the old generation is filled before everything is collected for the first time.
    pub fn first_old_target(&self) -> usize {
        let beside = self.limit - self.first_young();
        beside.min(generation_sizes::SMALL)
    }
}

const LEAST_YOUNG: usize = 256 << 10;
const MOST_LEAST_YOUNG: usize = 8 << 20;

#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    use super::*;
    use gleaner_base::options::{Arrays, HugePages, Options};
    use gleaner_mem::slot::{Compressed, SlotFormat, Wide};
    use gleaner_os::topology::Topology;

    const MB: usize = 1 << 20;

    /// Of a heap for tests, also in other files.
    pub fn config(limit: usize, young: usize, resize: bool) -> Config {
        let options = Options {
            heap_limit: limit,
            young,
            resize,
            workers: 1,
            tlab: 4096,
            huge_pages: HugePages::Off,
            ..Options::DEFAULT
        };
        Config::new(&options, Topology::synthetic(1, 1))
    }

    fn sizes(limit: usize, young: usize, resize: bool, reach: usize) -> Result<Sizes, CreateError> {
        let candidates = Sizes::candidates(&config(limit, young, resize), reach)?;
        Ok(candidates.into_iter().flatten().next().unwrap())
    }

    #[test]
    fn what_is_used_at_first_is_the_limit() {
        for resize in [true, false] {
            for limit in [1, 2, 7, 100, 1000].map(|mb| mb * MB) {
                let sizes = sizes(limit, 0, resize, Wide::SPAN).unwrap();
                assert!(sizes.limit <= limit && limit - sizes.limit < 3 * REGION_GRANULE);
                let (eden, survivor) = sizes.first;
                assert!(eden <= sizes.eden && survivor <= sizes.survivor);
                assert!(sizes.least_young() <= sizes.first_young());
                assert!(sizes.old >= sizes.limit - sizes.first_young());
                assert_eq!(sizes.large, 2 * limit);
                assert_eq!(
                    sizes.pinned, sizes.old,
                    "all that is not young may be pinned"
                );
            }
        }
    }

    #[test]
    fn where_references_reach_less_sizes_change_less() {
        let small = sizes(2 << 30, 0, true, Compressed::SPAN).unwrap();
        assert_eq!(small.large, 4 << 30);
        let middle = sizes(7 << 30, 0, true, Compressed::SPAN).unwrap();
        assert_eq!((middle.eden, middle.survivor), middle.first);
        assert!(middle.span() <= Compressed::SPAN && middle.large >= middle.old / 2);
        for limit in [9, 12, 13] {
            let dense = sizes(limit << 30, 0, true, Compressed::SPAN).unwrap();
            assert!(dense.span() <= Compressed::SPAN && dense.limit > (limit << 30) - MB);
            assert!(dense.large >= dense.limit / 9 && dense.pinned >= dense.limit / 34);
        }
        for limit in [15 << 30, 17 << 30, usize::MAX] {
            let refused = sizes(limit, 0, true, Compressed::SPAN).unwrap_err();
            assert!(matches!(refused, CreateError::Span { .. }));
            assert!(std::format!("{refused}").ends_with("limit, or refs=wide"));
        }
        let refused = sizes(usize::MAX, 0, true, Wide::SPAN).unwrap_err();
        assert!(matches!(refused, CreateError::Span { .. }));
        assert!(std::format!("{refused}").ends_with("choose a smaller limit"));
    }

    #[test]
    fn fences_have_addresses() {
        let guarded = |limit: usize, reach| {
            let options = Options {
                arrays: Arrays::ZRay,
                array_guard: true,
                heap_limit: limit,
                ..Options::DEFAULT
            };
            let config = Config::new(&options, Topology::synthetic(1, 1));
            let candidates = Sizes::candidates(&config, reach).unwrap();
            candidates.into_iter().flatten().next().unwrap()
        };
        assert_eq!(guarded(64 * MB, Wide::SPAN).large, 8 << 30);
        assert_eq!(guarded(1 << 30, Wide::SPAN).large, 16 << 30);
        let small = guarded(64 * MB, Compressed::SPAN);
        assert!(small.large == 8 << 30 && small.span() <= Compressed::SPAN);
        let middle = guarded(4 << 30, Compressed::SPAN);
        assert!(middle.large >= 4 << 30 && middle.span() <= Compressed::SPAN);
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        assert!(matches!(
            sizes(1000, 0, true, Wide::SPAN),
            Err(CreateError::TooSmall(1000))
        ));
        let young = sizes(10 * MB, 10 * MB, true, Wide::SPAN);
        assert!(matches!(young, Err(CreateError::Young { .. })));
    }
}
