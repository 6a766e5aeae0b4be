//! How the addresses of a precise heap are cut into spaces, when it is made.
//!
//! The limit is what all spaces may use together; ranges are larger where a space may grow at the cost of others. One
//! reservation holds them all; but where the system limits addresses those of large objects, which lie above all others
//! then, are taken as they are used.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::options::NurseryPolicy;
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
    /// What addresses are left for, and 0 if none are.
    pub constants: usize,
    pub pinned: usize,
    pub old: usize,
    pub eden: usize,
    pub survivor: usize,
    pub large: usize,
    /// 0 where no array is cut.
    pub arraylets: usize,
    /// How many places each fragment of the nursery has: one more than collections that pass before one is used again.
    turns: usize,
    /// How much is allocated between two collections at first, where new objects lie in the old space; 0 elsewhere.
    pub in_place: usize,
    /// How each space of the nursery is cut.
    cut: Cut,
    /// Whether the addresses of large objects are taken as they are used, and are not among those that are reserved.
    pub as_used: bool,
}

/// Constants have as many bytes of addresses as this, or an eighth of the limit, unless others would lack them.
const LEAST_CONSTANTS: usize = 16 << 20;

/// The largest young generation that a heap with changing sizes begins with.
const FIRST_YOUNG: usize = 64 << 20;

/// Fenced arrays take as many addresses as all their elements would: this many times the limit, and at least
/// [`LEAST_FENCED`] bytes.
const FENCED_LIMITS: usize = 16;
const LEAST_FENCED: usize = 8 << 30;

fn round(bytes: usize) -> usize {
    round_down(bytes).max(REGION_GRANULE)
}

fn round_down(bytes: usize) -> usize {
    bytes / REGION_GRANULE * REGION_GRANULE
}

impl Sizes {
    /// The sizes of a heap that may take `reach` bytes of addresses, since its references reach no further or the system
    /// gives no more. First come large objects, which may then be all that is not young; then small pinned objects, which
    /// may be, too; then the young generation may grow. As addresses become fewer these have less, in the reverse order:
    /// no kind of object loses much by a little more of a limit.
    pub fn within(config: &Config, reach: usize) -> Result<Sizes, CreateError> {
        Ok(Sizes::least_within(config, reach)?.grown(config, reach, reach))
    }

    fn least_within(config: &Config, reach: usize) -> Result<Sizes, CreateError> {
        let limit = config.limit;
        if limit > reach {
            return Err(Sizes::too_large(config, reach, limit, 1));
        }
        let least = Sizes::fixed(config)?.least();
        if least.span() > reach {
            let ranges = least.cut.nodes * least.turns;
            return Err(Sizes::too_large(config, reach, least.span(), ranges));
        }
        Ok(least)
    }

    /// The same, of which `most` bytes are to be reserved, or the fewest that can be; large objects may have more.
    pub fn as_used(config: &Config, reach: usize, most: usize) -> Result<Sizes, CreateError> {
        let least = Sizes {
            large: 0,
            as_used: true,
            ..Sizes::least_within(config, reach)?
        };
        Ok(least.grown(config, most.clamp(least.span(), reach), reach))
    }

    /// Makes ranges larger than the least: up to `most` bytes in all, or up to `reach` with those of large objects that are
    /// taken as they are used.
    fn grown(self, config: &Config, most: usize, reach: usize) -> Sizes {
        let (least, limit) = (self, config.limit);
        let is_fenced = config.cutting.is_some_and(|cutting| cutting.guard);
        let range = if is_fenced {
            FENCED_LIMITS.saturating_mul(limit).max(LEAST_FENCED)
        } else {
            2 * limit
        };
        let mut sizes = least.with_least_constants(most);
        if !least.as_used {
            sizes = sizes.with_large(least.limit, most);
        }
        if config.options.resize {
            let more = round(sizes.limit - sizes.least_young()).max(sizes.old) - sizes.old;
            sizes.old += more.min(round_down(most - sizes.span()));
        }
        sizes.pinned += round_down(most - sizes.span()).min(sizes.old - sizes.pinned);
        if config.options.resize {
            sizes = sizes.changing(most);
        }
        sizes = sizes.with_large(range, if least.as_used { reach } else { most });
        let more = round_down(most.saturating_sub(sizes.reserved()));
        sizes.constants = round(limit / 8).min(sizes.constants + more);
        sizes
    }

    /// Constants come before all that may grow, up to [`LEAST_CONSTANTS`]: they cannot lie anywhere else. Half of the
    /// addresses beyond the least are left to others.
    fn with_least_constants(self, most: usize) -> Sizes {
        let half = most.saturating_sub(self.reserved()) / 2;
        let wanted = LEAST_CONSTANTS.min(self.limit / 8);
        Sizes {
            constants: round_down(wanted.min(half)),
            ..self
        }
    }

    fn too_large(config: &Config, reach: usize, asked: usize, ranges: usize) -> CreateError {
        CreateError::Span {
            asked,
            reach,
            ranges,
            most: Sizes::most_limit(config, reach),
        }
    }

    /// The fewest addresses that a heap can have.
    pub fn least_span(config: &Config) -> Result<usize, CreateError> {
        Ok(Sizes::fixed(config)?.least().span())
    }

    /// The largest limit of a heap with these options that may take `reach` bytes of addresses, in whole megabytes; 0 if
    /// there is none.
    pub fn most_limit(config: &Config, reach: usize) -> usize {
        let fits = |megabytes: usize| {
            let limit = megabytes << 20;
            let span = Sizes::least_span(&Config { limit, ..*config });
            // A limit that is too small for another reason is not too large.
            span.map_or(true, |span| span <= reach)
        };
        let (mut fitting, mut too_many) = (0, (reach >> 20) + 1);
        while too_many - fitting > 1 {
            let middle = fitting.midpoint(too_many);
            if fits(middle) {
                fitting = middle;
            } else {
                too_many = middle;
            }
        }
        fitting << 20
    }

    /// Nearly all is for objects that may move and are not large.
    fn least(self) -> Sizes {
        Sizes {
            pinned: round(self.old / 32),
            large: round(self.old / 8),
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
        if config.options.nursery == NurseryPolicy::InPlace {
            return Sizes::in_place(config, young);
        }
        let survivor = round(young / 8);
        let eden = round(young - young.min(2 * survivor));
        let young = eden + 2 * survivor;
        if young > limit / 10 * 9 {
            return Err(CreateError::Young { young, limit });
        }
        let old = match config.options.nursery {
            // While new objects lie in the old space, it may have all.
            NurseryPolicy::Auto => young + round(limit - young),
            _ => round(limit - young),
        };
        Ok(Sizes {
            limit: young + round(limit - young),
            first: (eden, survivor),
            constants: 0,
            pinned: round((limit - young) / 4),
            old,
            eden,
            survivor,
            large: 0,
            arraylets: config.cutting.map_or(0, |_| {
                Arraylets::range(limit).next_multiple_of(REGION_GRANULE)
            }),
            turns: 1 + config.options.quarantine as usize,
            in_place: 0,
            cut: config.cut,
            as_used: false,
        })
    }

    /// Eden and the survivor spaces have few addresses, and no bytes: all is the old space's.
    fn in_place(config: &Config, young: usize) -> Result<Sizes, CreateError> {
        let limit = round(config.limit);
        if young > limit / 10 * 9 {
            return Err(CreateError::Young { young, limit });
        }
        Ok(Sizes {
            limit,
            first: (0, 0),
            constants: 0,
            pinned: round(limit / 4),
            old: limit,
            eden: REGION_GRANULE,
            survivor: REGION_GRANULE,
            large: 0,
            arraylets: config.cutting.map_or(0, |_| {
                Arraylets::range(limit).next_multiple_of(REGION_GRANULE)
            }),
            turns: 1,
            in_place: young,
            cut: config.cut,
            as_used: false,
        })
    }

    /// The same at first, with ranges for the largest young generation there may be, as far as addresses reach.
    fn changing(self, reach: usize) -> Sizes {
        let mut sizes = self;
        if self.in_place > 0 {
            return sizes;
        }
        let (eden, survivor) = (round(self.limit / 10 * 9), round(self.limit / 4));
        let (eden, survivor) = (eden.max(self.eden), survivor.max(self.survivor));
        let more = (eden - self.eden) + 2 * (survivor - self.survivor);
        let left = (reach - sizes.span()) / (self.cut.nodes * self.turns);
        let part = |bytes: usize| match more {
            0 => 0,
            // All or the same share of each.
            _ => round_down((bytes as u128 * left.min(more) as u128 / more as u128) as usize),
        };
        sizes.eden += part(eden - self.eden);
        sizes.survivor += part(survivor - self.survivor);
        sizes
    }

    /// Large objects have `wanted` bytes of addresses or what is left of the reach, and at least what they have.
    fn with_large(self, wanted: usize, reach: usize) -> Sizes {
        let left = round_down(reach - self.span());
        let large = self.large + wanted.saturating_sub(self.large).min(left);
        Sizes { large, ..self }
    }

    /// Bytes of addresses of a space, all its fragments together.
    pub fn range(&self, kind: Kind) -> usize {
        let fragments = self.cut.nodes * self.turns;
        match kind {
            Kind::Constants => self.constants,
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

    /// Bytes of addresses that are reserved.
    pub fn reserved(&self) -> usize {
        self.span() - if self.as_used { self.large } else { 0 }
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
        // SAFETY: nobody else has the nursery yet.
        let mut world = unsafe { WorldStopped::begin() };
        nursery.resize(&mut world, self.first.0, self.first.1);
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
        least_young(self.limit).min(self.first_young() + self.in_place)
    }

    /// Up to which the old generation is filled before everything is collected for the first time.
    pub fn first_old_target(&self) -> usize {
        let beside = self.limit - self.first_young();
        beside.min(generation_sizes::SMALL)
    }
}

/// The least young generation that makes sense in a heap of that limit.
pub(super) fn least_young(limit: usize) -> usize {
    (limit / 64).clamp(LEAST_YOUNG, MOST_LEAST_YOUNG)
}

const LEAST_YOUNG: usize = 256 << 10;
const MOST_LEAST_YOUNG: usize = 8 << 20;

#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    use super::*;
    use gleaner_base::options::{Arrays, HugePages, Options};
    use gleaner_mem::slot::{Compressed, SlotFormat, Wide};
    use gleaner_os::topology::Topology;
    use gleaner_work::Crew;

    use crate::scavenge::Scavenge;

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
        Sizes::within(&config(limit, young, resize), reach)
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
                assert_eq!(sizes.constants, round(limit / 8));
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
        assert!(middle.span() <= Compressed::SPAN && middle.large >= middle.limit);
        for limit in [9, 12, 13] {
            let dense = sizes(limit << 30, 0, true, Compressed::SPAN).unwrap();
            assert!(dense.span() <= Compressed::SPAN && dense.limit > (limit << 30) - MB);
            assert!(dense.large >= dense.limit / 9 && dense.pinned >= dense.limit / 34);
        }
        for limit in [15 << 30, 17 << 30, usize::MAX] {
            let refused = sizes(limit, 0, true, Compressed::SPAN).unwrap_err();
            assert!(matches!(refused, CreateError::Span { .. }));
            let text = std::format!("{refused}");
            let Some((_, most)) = text.rsplit_once("choose a limit of at most ") else {
                panic!("{text}");
            };
            let most = most.strip_suffix("m, or refs=wide").unwrap();
            let most: usize = most.parse().unwrap();
            assert!(sizes(most << 20, 0, true, Compressed::SPAN).is_ok());
            assert!(sizes((most + 1) << 20, 0, true, Compressed::SPAN).is_err());
        }
        let refused = sizes(usize::MAX, 0, true, Wide::SPAN).unwrap_err();
        assert!(matches!(refused, CreateError::Span { .. }));
        assert!(std::format!("{refused}").contains("choose a limit of at most "));
    }

    /// What the header says of compressed references.
    #[test]
    fn all_may_be_large_or_pinned_as_far_as_addresses_reach() {
        for resize in [true, false] {
            let mut before: Option<Sizes> = None;
            for limit in (128..13 << 10).step_by(50).map(|mb| mb * MB) {
                let young = if resize { 0 } else { 64 * MB };
                let sizes = sizes(limit, young, resize, Compressed::SPAN).unwrap();
                assert!(sizes.span() <= Compressed::SPAN && sizes.old >= sizes.limit - 65 * MB);
                let large_most = limit <= (78 << 30) / 10;
                assert!(!large_most || sizes.large >= sizes.limit, "{sizes:?}");
                let beside = Compressed::SPAN - sizes.limit - sizes.limit / 32;
                assert!(sizes.large >= sizes.limit.min(beside - 100 * MB));
                assert!(limit > 5 << 30 || sizes.pinned >= sizes.limit - 65 * MB);
                assert!(limit > 7 << 30 || sizes.pinned >= sizes.limit / 4);
                assert!(sizes.constants >= (limit / 8).min(16 * MB));
                if let Some(before) = before {
                    // A limit that is a little larger takes a little away.
                    let grown = sizes.limit - before.limit;
                    assert!(large_most || sizes.large + 2 * grown >= before.large);
                    assert!(sizes.pinned + 3 * grown >= before.pinned);
                    assert!(sizes.eden + 10 * grown >= before.eden);
                }
                before = Some(sizes);
            }
        }
    }

    #[test]
    fn where_the_system_gives_fewer_addresses_large_objects_lose_last() {
        let config = config(256 * MB, 0, true);
        let least = Sizes::least_span(&config).unwrap();
        assert!(Sizes::within(&config, least - 1).is_err());
        let mut before = Sizes::within(&config, least).unwrap();
        for reach in (least..8 * 256 * MB).step_by(7 * MB + 4096) {
            let sizes = Sizes::within(&config, reach).unwrap();
            assert!(sizes.span() <= reach);
            let unused = sizes.large < 2 * config.limit;
            assert!(!unused || reach - sizes.span() < 8 * REGION_GRANULE);
            assert!(sizes.pinned >= before.pinned && sizes.eden >= before.eden);
            // What is rounded off elsewhere is left to large objects.
            assert!(sizes.large + 8 * REGION_GRANULE >= before.large);
            let small_grew = sizes.pinned > before.pinned || sizes.eden > before.eden;
            assert!(!small_grew || sizes.large >= sizes.limit);
            before = sizes;
        }
    }

    #[test]
    fn in_pieces_arrays_have_addresses_of_their_own() {
        for limit in (128..7 << 10).step_by(50).map(|mb| mb * MB) {
            let options = Options {
                arrays: Arrays::ZRay,
                heap_limit: limit,
                ..Options::DEFAULT
            };
            let config = Config::new(&options, Topology::synthetic(1, 1));
            let sizes = Sizes::within(&config, Compressed::SPAN).unwrap();
            assert!(sizes.span() <= Compressed::SPAN && sizes.arraylets >= sizes.limit);
            assert!(limit > 5 << 30 || sizes.large >= sizes.limit);
            assert!(limit > 7 << 29 || sizes.pinned >= sizes.limit - 65 * MB);
            assert!(limit > 9 << 29 || sizes.pinned >= sizes.limit / 4);
        }
    }

    #[test]
    fn a_limit_that_nobody_chose_is_one_that_the_options_can_have() {
        static CREW: Crew = Crew::new();
        let options = |heap_limit| Options {
            arrays: Arrays::ZRay,
            workers: 1,
            heap_limit,
            ..Options::DEFAULT
        };
        let config = |asked| Config {
            // That of a large machine.
            limit: 8 << 30,
            ..Config::new(&options(asked), Topology::synthetic(1, 1))
        };
        let heap = Scavenge::<Compressed>::new(config(0), &CREW).unwrap();
        let limit = heap.config.limit;
        assert!(limit > 7 << 30 && limit < 8 << 30, "{limit}");
        let refused = Scavenge::<Compressed>::new(config(8 << 30), &CREW);
        let text = std::format!("{}", refused.err().unwrap());
        let most = std::format!("at most {}m, or refs=wide", limit.div_ceil(MB));
        assert!(text.ends_with(&most), "{text}");
    }

    #[test]
    fn the_largest_limit_is_that_of_the_options() {
        let most = |list: &str| {
            let mut options = Options::DEFAULT;
            options.parse_list(list).unwrap();
            let config = Config::new(&options, Topology::synthetic(1, 1));
            let most = Sizes::most_limit(&config, Compressed::SPAN);
            for (limit, fits) in [(most, true), (most + MB, false)] {
                let sizes = Sizes::within(&Config { limit, ..config }, Compressed::SPAN);
                assert_eq!(sizes.is_ok(), fits, "{list}");
            }
            most >> 30
        };
        assert_eq!(most(""), 13);
        assert_eq!(most("arrays=zray"), 7);
        assert_eq!(most("plan=naps"), 13);
        assert_eq!(most("young=2g"), 14);
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
            Sizes::within(&config, reach).unwrap()
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
