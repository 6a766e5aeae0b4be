//! How arrays are cut, or would be.

use gleaner_base::options::{ArrayKinds, Arrays, Optimisation, Options};

/// How the arrays of a heap are cut, and which optimisations are made (PLDI 2010, section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cutting {
    /// Bytes of an array that lie in its spine.
    pub first_n: usize,
    /// The logarithm of an arraylet's bytes.
    pub arraylet_shift: u32,
    /// Which arrays are cut.
    pub kinds: ArrayKinds,
    /// An arraylet is allocated when something is written to it.
    pub lazy: bool,
    /// The collector takes back arraylets of zeros.
    pub zero_compression: bool,
    /// Elements are copied piece by piece.
    pub fast_copy: bool,
    /// Whole arraylets that are copied are shared.
    pub copy_on_write: bool,
    /// Spines are fenced: all elements lie in arraylets, and what is up to `first_n` bytes lies in one piece.
    pub guard: bool,
}

impl Cutting {
    /// What the options say; `None` where all arrays lie in one piece.
    pub fn of(options: &Options) -> Option<Cutting> {
        let (first_n, arraylet, made) = match options.arrays {
            Arrays::Contiguous => return None,
            Arrays::Naive => (0, 1024, [false; 4]),
            Arrays::NaiveA => (0, 1024, [true, false, false, false]),
            Arrays::NaiveB => (0, 2048, [false; 4]),
            Arrays::ZRay => (4096, 1024, [true; 4]),
            Arrays::PerfZRay => (4096, 1024, [true, true, true, false]),
        };
        let given = [
            options.lazy_arraylets,
            options.zero_compression,
            options.fast_copy,
            options.copy_on_write,
        ];
        let is_made = |index: usize| match given[index] {
            Optimisation::Auto => made[index],
            Optimisation::On => true,
            Optimisation::Off => false,
        };
        let or = |given: u32, named: usize| if given == 0 { named } else { given as usize };
        Some(Cutting {
            first_n: or(options.first_n, first_n),
            arraylet_shift: or(options.arraylet, arraylet).trailing_zeros(),
            kinds: options.array_kinds,
            lazy: is_made(0),
            zero_compression: is_made(1),
            fast_copy: is_made(2),
            copy_on_write: is_made(3),
            guard: options.array_guard,
        })
    }

    /// Whether arrays of slots, or of numbers, are cut.
    pub fn cuts(&self, slots: bool) -> bool {
        match self.kinds {
            ArrayKinds::All => true,
            ArrayKinds::References => slots,
            ArrayKinds::Primitives => !slots,
        }
    }
}

/// How arrays are cut, or would be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Bytes of an array that lie in its spine.
    pub first_n: usize,
    /// The logarithm of an arraylet's bytes.
    pub arraylet_shift: u32,
    /// Whether they are.
    pub is_made: bool,
}

impl Geometry {
    /// As the options have it.
    pub(in crate::scavenge) fn of(options: &Options) -> Geometry {
        let is_made = options.arrays != Arrays::Contiguous;
        let mut options = *options;
        if !is_made {
            options.arrays = Arrays::ZRay;
        }
        let cutting = Cutting::of(&options).expect("arrays=zray cuts arrays");
        Geometry {
            first_n: cutting.first_n,
            arraylet_shift: cutting.arraylet_shift,
            is_made,
        }
    }

    /// Bytes of the whole arraylets in a range of one array that are copied to whole arraylets of another.
    pub(super) fn shareable(&self, from: usize, to: usize, bytes: usize) -> usize {
        let arraylet = 1 << self.arraylet_shift;
        if !from.abs_diff(to).is_multiple_of(arraylet) {
            return 0;
        }
        // What is below N in one of them is copied.
        let low = from.min(to);
        let first = low.max(self.first_n) - self.first_n;
        let end = (low + bytes).max(self.first_n) - self.first_n;
        let whole = (end >> self.arraylet_shift).saturating_sub(first.div_ceil(arraylet));
        whole << self.arraylet_shift
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn cutting(list: &str) -> Option<Cutting> {
        let mut options = Options::DEFAULT;
        options.parse_list(list).unwrap();
        Cutting::of(&options)
    }

    #[test]
    fn a_name_stands_for_sizes_and_optimisations_and_each_can_be_changed() {
        assert_eq!(cutting(""), None);
        let naive = cutting("arrays=naive").unwrap();
        assert_eq!((naive.first_n, naive.arraylet_shift), (0, 10));
        assert!(!naive.lazy && !naive.zero_compression && !naive.fast_copy);
        let naive_a = Cutting {
            lazy: true,
            ..naive
        };
        assert_eq!(cutting("arrays=naive-a"), Some(naive_a));
        let naive_b = Cutting {
            arraylet_shift: 11,
            ..naive
        };
        assert_eq!(cutting("arrays=naive-b"), Some(naive_b));
        let zray = cutting("arrays=zray").unwrap();
        assert_eq!((zray.first_n, zray.arraylet_shift), (4096, 10));
        assert!(zray.lazy && zray.zero_compression && zray.fast_copy && zray.copy_on_write);
        let perf = Cutting {
            copy_on_write: false,
            ..zray
        };
        assert_eq!(cutting("arrays=perf-zray"), Some(perf));
        assert_eq!(cutting("arrays=zray,copy-on-write=off"), Some(perf));
        let other = cutting("arrays=perf-zray,copy-on-write=on,first-n=64,arraylet=256").unwrap();
        let expected = Cutting {
            first_n: 64,
            arraylet_shift: 8,
            ..zray
        };
        assert_eq!(other, expected);
        let guarded = cutting("arrays=zray,array-guard=on").unwrap();
        assert_eq!(
            guarded,
            Cutting {
                guard: true,
                ..zray
            }
        );
        let kinds = cutting("arrays=zray,array-kinds=references").unwrap();
        assert!(kinds.cuts(true) && !kinds.cuts(false));
    }
}
