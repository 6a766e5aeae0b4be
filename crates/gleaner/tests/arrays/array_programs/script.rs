//! Programs over arrays: a seed and the places where arrays are cut say which steps there are. The heap has no say,
//! so a program is the same under all options that cut arrays alike, and under contiguous arrays.

use super::model::{Array, Kind, Known, Model, ROOTS};
use crate::random::Rng;

/// Where arrays are cut: bytes in front of the arraylets, and bytes of an arraylet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cuts {
    pub first_n: usize,
    pub arraylet: usize,
}

/// How an array is allocated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    Zeroed,
    /// Zeroed, and never moves.
    Pinned,
    /// Zeroed, and lives as long as the heap.
    Immortal,
    /// Its elements are given: to a view of all of them,
    With,
    /// or one after the other,
    By,
    /// or by initializing stores into an array that nobody zeroed.
    Initialized,
}

impl Way {
    pub const ALL: [Way; 6] = [
        Way::Zeroed,
        Way::Pinned,
        Way::Immortal,
        Way::With,
        Way::By,
        Way::Initialized,
    ];

    pub fn is_given(self) -> bool {
        matches!(self, Way::With | Way::By | Way::Initialized)
    }
}

/// How elements are read or written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Through {
    /// From or to a buffer of the program's.
    Buffer,
    Window,
    Cursor,
    /// One by one.
    Elements,
}

impl Through {
    pub const ALL: [Through; 4] = [
        Through::Buffer,
        Through::Window,
        Through::Cursor,
        Through::Elements,
    ];
}

/// An element to be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pick {
    /// A number, null or an immediate.
    Bits(u64),
    /// What this root refers to.
    Root(usize),
}

/// Many elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    pub style: Style,
    seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Style {
    /// Zero, or null.
    Zero,
    /// Zero but for one in a hundred.
    Sparse,
    Mixed,
    /// The upper bit alone: of a float, the zero that is no zero.
    UpperBit,
}

impl Pattern {
    fn draw(rng: &mut Rng) -> Pattern {
        use Style::*;
        Pattern {
            style: [Zero, Sparse, Mixed, Mixed, Mixed, UpperBit][rng.below(6)],
            seed: rng.next(),
        }
    }

    pub fn pick(self, kind: Kind, index: usize, slot_bytes: usize) -> Pick {
        let word = Rng::new(self.seed ^ (index as u64).wrapping_mul(0x2545_f491_4f6c_dd1d)).next();
        let bits = 8 * kind.bytes(slot_bytes) as u32;
        let is_zero = match self.style {
            Style::Zero => true,
            Style::Sparse => !word.is_multiple_of(100),
            Style::Mixed | Style::UpperBit => false,
        };
        match kind {
            _ if is_zero => Pick::Bits(0),
            // A few immediates, which fit either format.
            Kind::Values if word & 4096 == 0 => {
                Pick::Bits(((self.seed as i64 % 1000 + (word & 7) as i64 - 300) as u64) << 1 | 1)
            }
            Kind::Values | Kind::Objects => Pick::Root((word >> 16) as usize % ROOTS),
            _ if self.style == Style::UpperBit => Pick::Bits(1 << (bits - 1)),
            _ => Pick::Bits(word >> (64 - bits)),
        }
    }
}

/// A step.
#[derive(Clone, Debug)]
pub enum Op {
    Allocate {
        root: usize,
        kind: Kind,
        length: usize,
        way: Way,
        pattern: Pattern,
    },
    /// A new array as long as another one, and a copy of all its elements.
    Snapshot {
        from: usize,
        to: usize,
    },
    Drop {
        root: usize,
    },
    Alias {
        from: usize,
        to: usize,
    },
    /// A new box that refers to what the root did.
    Box {
        root: usize,
    },
    Unbox {
        root: usize,
    },
    /// An element of an array of references that is no immediate.
    LoadInto {
        from: usize,
        index: usize,
        to: usize,
    },
    Store {
        root: usize,
        index: usize,
        pick: Pick,
    },
    /// A compare-and-swap that finds what it expects, or does not.
    Exchange {
        root: usize,
        index: usize,
        hits: bool,
        pick: Pick,
    },
    Fill {
        root: usize,
        index: usize,
        count: usize,
        pick: Pick,
    },
    Read {
        root: usize,
        index: usize,
        count: usize,
        through: Through,
    },
    /// Writes `stop` elements; by a cursor that could write `count`.
    Write {
        root: usize,
        index: usize,
        count: usize,
        stop: usize,
        through: Through,
        pattern: Pattern,
    },
    Copy {
        from: usize,
        from_index: usize,
        to: usize,
        to_index: usize,
        count: usize,
    },
    Collect {
        everything: bool,
    },
    Poll,
    /// An array that nobody keeps.
    Garbage {
        kind: Kind,
        length: usize,
    },
    /// An array has only its first elements from now on.
    Shrink {
        root: usize,
        length: usize,
    },
}

impl Op {
    /// The root of the array that is written.
    pub fn written(&self) -> Option<usize> {
        match *self {
            Op::Allocate { root, .. }
            | Op::Store { root, .. }
            | Op::Exchange { root, .. }
            | Op::Fill { root, .. }
            | Op::Write { root, .. }
            | Op::Shrink { root, .. } => Some(root),
            Op::Snapshot { to, .. } | Op::Copy { to, .. } => Some(to),
            _ => None,
        }
    }
}

/// The steps of a program.
pub struct Script {
    rng: Rng,
    cuts: Cuts,
    /// Whether there are arrays whose spines are large objects.
    pub has_large: bool,
    /// Whether arrays shrink: those of the raw layer do.
    pub shrinks: bool,
    /// Steps to come that clear a root each.
    drops: usize,
    /// Bytes of immortal arrays that there may be yet.
    immortal: usize,
}

/// Bytes of all immortal arrays of a program.
const IMMORTAL: usize = 256 << 10;

/// Where something begins or ends, and how much it is.
struct Range {
    index: usize,
    count: usize,
}

impl Script {
    pub fn new(seed: u64, cuts: Cuts, has_large: bool, shrinks: bool) -> Script {
        Script {
            rng: Rng::new(seed),
            cuts,
            has_large,
            shrinks,
            drops: 0,
            immortal: IMMORTAL,
        }
    }

    /// From now on roots are cleared, until none holds anything.
    pub fn clear(&mut self) {
        self.drops = ROOTS;
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.rng.below(choices.len())]
    }

    /// The next step.
    pub fn next(&mut self, model: &Model) -> Op {
        if self.drops > 0 {
            self.drops -= 1;
            return Op::Drop { root: self.drops };
        }
        let root = self.rng.below(ROOTS);
        let choice = self.rng.below(100);
        match choice {
            0..11 => return self.allocate(model, root),
            11..14 => return Op::Drop { root },
            14..16 => {
                let to = self.rng.below(ROOTS);
                return Op::Alias { from: root, to };
            }
            16..19 => return Op::Box { root },
            19..22 => {
                let everything = self.rng.one_in(2);
                return Op::Collect { everything };
            }
            22 => return Op::Poll,
            23 => {
                let (kind, length) = self.shape(model);
                return Op::Garbage { kind, length };
            }
            24..27 => {
                let is_box = |&root: &usize| {
                    let code = model.roots[root];
                    code != 0 && matches!(model.object(code), Known::Boxed(_))
                };
                if let Some(root) = (0..ROOTS).find(is_box) {
                    return Op::Unbox { root };
                }
            }
            _ => {}
        }
        let arrays: Vec<usize> = (0..ROOTS)
            .filter(|&root| model.array(root).is_some())
            .collect();
        if arrays.is_empty() {
            return self.allocate(model, root);
        }
        let root = self.one_of(&arrays);
        let array = model.array(root).expect("chosen so");
        let length = array.elements.len();
        match choice {
            24..31 => {
                let to = self.rng.below(ROOTS);
                Op::Snapshot { from: root, to }
            }
            31..35 if self.shrinks => {
                let length = self.index(array, model.slot_bytes);
                Op::Shrink { root, length }
            }
            31..52 => self.copy(model, root, &arrays),
            _ if length == 0 => self.allocate(model, root),
            52..57 if !array.kind.is_number() => {
                let index = self.index(array, model.slot_bytes).min(length - 1);
                let to = self.rng.below(ROOTS);
                match array.elements[index] & 1 {
                    0 => Op::LoadInto {
                        from: root,
                        index,
                        to,
                    },
                    _ => Op::Drop { root: to },
                }
            }
            52..68 => {
                let index = self.index(array, model.slot_bytes).min(length - 1);
                let pick = self.pick(array, index, model.slot_bytes);
                Op::Store { root, index, pick }
            }
            68..76 => {
                let index = self.index(array, model.slot_bytes).min(length - 1);
                let pick = self.pick(array, index, model.slot_bytes);
                let hits = !self.rng.one_in(3);
                Op::Exchange {
                    root,
                    index,
                    hits,
                    pick,
                }
            }
            76..84 => {
                let Range { index, count } = self.range(array, model.slot_bytes);
                let pick = self.pick(array, index, model.slot_bytes);
                Op::Fill {
                    root,
                    index,
                    count,
                    pick,
                }
            }
            84..88 => {
                let Range { index, count } = self.range(array, model.slot_bytes);
                let through = self.one_of(&Through::ALL);
                Op::Read {
                    root,
                    index,
                    count,
                    through,
                }
            }
            _ => {
                let Range { index, count } = self.range(array, model.slot_bytes);
                let through = self.one_of(&Through::ALL);
                let stop = match through {
                    Through::Cursor if self.rng.one_in(3) => self.rng.below(count + 1),
                    _ => count,
                };
                let pattern = Pattern::draw(&mut self.rng);
                Op::Write {
                    root,
                    index,
                    count,
                    stop,
                    through,
                    pattern,
                }
            }
        }
    }

    fn pick(&mut self, array: &Array, index: usize, slot_bytes: usize) -> Pick {
        Pattern::draw(&mut self.rng).pick(array.kind, index, slot_bytes)
    }

    fn allocate(&mut self, model: &Model, root: usize) -> Op {
        let (kind, length) = self.shape(model);
        let mut way = match self.rng.one_in(2) {
            true => Way::Zeroed,
            false => self.one_of(&Way::ALL),
        };
        if way == Way::Immortal {
            match self
                .immortal
                .checked_sub(length * kind.bytes(model.slot_bytes))
            {
                Some(left) => self.immortal = left,
                None => way = Way::Zeroed,
            }
        }
        Op::Allocate {
            root,
            kind,
            length,
            way,
            pattern: Pattern::draw(&mut self.rng),
        }
    }

    /// A kind and a length, which is often one where something about arrays changes.
    fn shape(&mut self, model: &Model) -> (Kind, usize) {
        let kind = match self.rng.one_in(3) {
            true => self.one_of(&[Kind::Values, Kind::Objects]),
            false => self.one_of(&Kind::ALL),
        };
        let bytes = kind.bytes(model.slot_bytes);
        let (first, piece) = (self.cuts.first_n / bytes, self.cuts.arraylet / bytes);
        let pieces = self.rng.below(5) * piece;
        let length = match self.rng.below(13) {
            0 => 0,
            1 => 1,
            2 => first.saturating_sub(1),
            3 => first,
            4 => first + 1,
            5 => (first + pieces).saturating_sub(1),
            6 => first + pieces,
            7 => first + pieces + 1,
            8 | 9 => first + pieces + self.rng.below(piece),
            10 => self.rng.below(40),
            11 if self.has_large && bytes >= 4 && self.rng.one_in(2) => self.large(model, bytes),
            _ => self.rng.below(first + 4 * piece),
        };
        (kind, length)
    }

    /// The length of an array whose spine takes more than 16 KB, unless that is more than 1.7 MB.
    fn large(&mut self, model: &Model, bytes: usize) -> usize {
        let Cuts { first_n, arraylet } = self.cuts;
        let pieces = (16_usize << 10).saturating_sub(first_n) / model.slot_bytes + 1;
        let length = (first_n + pieces * arraylet) / bytes + self.rng.below(2 * arraylet / bytes);
        length.min((1700 << 10) / bytes)
    }

    /// An index up to the length, which is often one where a piece begins or ends.
    fn index(&mut self, array: &Array, slot_bytes: usize) -> usize {
        let (length, bytes) = (array.elements.len(), array.kind.bytes(slot_bytes));
        let (first, piece) = (self.cuts.first_n / bytes, self.cuts.arraylet / bytes);
        let pieces = length.saturating_sub(first) / piece;
        let index = match self.rng.below(8) {
            0 => 0,
            1 => length,
            2 => first.saturating_sub(1),
            // Where the remainder begins.
            3 => (first + pieces * piece).saturating_sub(self.rng.below(2)),
            4 | 5 => first + self.rng.below(pieces + 1) * piece,
            6 => (first + self.rng.below(pieces + 1) * piece).saturating_sub(1),
            _ => self.rng.below(length + 1),
        };
        index.min(length)
    }

    fn range(&mut self, array: &Array, slot_bytes: usize) -> Range {
        let index = self.index(array, slot_bytes);
        let left = array.elements.len() - index;
        let piece = self.cuts.arraylet / array.kind.bytes(slot_bytes);
        let count = match self.rng.below(6) {
            0 => self.rng.below(9),
            1 | 2 => piece * (1 + self.rng.below(3)),
            3 => self.index(array, slot_bytes).saturating_sub(index),
            4 => left,
            _ => self.rng.below(left + 1),
        };
        Range {
            index,
            count: count.min(left),
        }
    }

    /// A copy into the array of root `to`.
    fn copy(&mut self, model: &Model, to: usize, arrays: &[usize]) -> Op {
        let target = model.array(to).expect("an array");
        let fits = |&root: &usize| {
            let kind = model.array(root).expect("an array").kind;
            kind.copies_to(target.kind)
        };
        let sources: Vec<usize> = arrays.iter().copied().filter(fits).collect();
        let from = match self.rng.one_in(3) {
            true => to,
            false => self.one_of(&sources),
        };
        let source = model.array(from).expect("an array");
        let bytes = target.kind.bytes(model.slot_bytes);
        let (first, piece) = (self.cuts.first_n / bytes, self.cuts.arraylet / bytes);
        let lengths = [source, target].map(|array| array.elements.len());
        let whole = lengths.map(|length| length.saturating_sub(first) / piece);
        let op = |from_index, to_index, count| Op::Copy {
            from,
            from_index,
            to,
            to_index,
            count,
        };
        match self.rng.below(6) {
            // Whole arraylets.
            0..3 if whole[0] > 0 && whole[1] > 0 => {
                let begins = whole.map(|pieces| self.rng.below(pieces));
                let left = (whole[0] - begins[0]).min(whole[1] - begins[1]);
                let [from_index, to_index] = begins.map(|begin| first + begin * piece);
                op(from_index, to_index, (1 + self.rng.below(left)) * piece)
            }
            // As aligned, but with a little at either end.
            3 => {
                let Range { index, count } = self.range(source, model.slot_bytes);
                match lengths[1].saturating_sub(index) {
                    0 => op(index, lengths[1], 0),
                    left => op(index, index, count.min(left)),
                }
            }
            _ => {
                let Range { index, count } = self.range(source, model.slot_bytes);
                let to_index = self.index(target, model.slot_bytes);
                op(index, to_index, count.min(lengths[1] - to_index))
            }
        }
    }
}
