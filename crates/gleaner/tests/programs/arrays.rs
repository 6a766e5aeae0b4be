//! Steps over arrays of all shapes: of numbers of every type and of references, as long as where something about arrays
//! in pieces changes, written, filled, compared and exchanged, copied and read in ranges that begin and end there.
//!
//! Where the heap cuts its arrays is what it publishes; where it does not, lengths are as if it did as `zray`.

use std::cell::Cell;

use gleaner::raw::{Address, FastPaths, Value};
use gleaner::{Local, Mutator, OutOfMemory, Scope};

use super::bits::Bits;
use super::{Did, Held, Known, Program, Source, Transfer, Types};

/// Where arrays are cut.
#[derive(Clone, Copy, Debug)]
pub struct Cuts {
    /// Whether any is.
    pub cut: bool,
    first_n: usize,
    arraylet: usize,
    slot: usize,
}

impl Cuts {
    pub fn of(paths: &FastPaths) -> Cuts {
        let cut = paths.first_n != u64::MAX;
        Cuts {
            cut,
            first_n: if cut { paths.first_n as usize } else { 4096 },
            arraylet: if cut { 1 << paths.arraylet_shift } else { 1024 },
            slot: paths.slot_bytes as usize,
        }
    }
}

/// More bytes than these are many for an array.
const MANY: usize = 12 << 10;

/// An array of numbers, as the oracle sees it.
pub struct Numbers {
    log2: usize,
    /// All elements.
    bytes: Vec<u8>,
    /// Where its elements lie if it never moves.
    place: Option<usize>,
}

/// Calls a method of `$of` for numbers of a size, of which there are several types.
macro_rules! with_numbers {
    ($of:ident, ($log2:expr, $variety:expr), $method:ident($($argument:expr),* $(,)?)) => {
        match ($log2, $variety) {
            (0, 0) => $of.$method::<u8>($($argument),*),
            (0, _) => $of.$method::<i8>($($argument),*),
            (1, 0) => $of.$method::<u16>($($argument),*),
            (1, _) => $of.$method::<i16>($($argument),*),
            (2, 0) => $of.$method::<u32>($($argument),*),
            (2, 1) => $of.$method::<i32>($($argument),*),
            (2, _) => $of.$method::<f32>($($argument),*),
            (_, 0) => $of.$method::<u64>($($argument),*),
            (_, 1) => $of.$method::<i64>($($argument),*),
            _ => $of.$method::<f64>($($argument),*),
        }
    };
}

impl Numbers {
    fn length(&self) -> usize {
        self.bytes.len() >> self.log2
    }

    /// The bits of an element.
    fn at(&self, index: usize) -> u64 {
        let mut word = [0; 8];
        let size = 1 << self.log2;
        word[..size].copy_from_slice(&self.bytes[index * size..][..size]);
        u64::from_ne_bytes(word)
    }

    fn set<T: Bits>(&mut self, index: usize, numbers: &[T]) {
        let size = 1 << self.log2;
        for (into, number) in self.bytes[index * size..].chunks_mut(size).zip(numbers) {
            into.copy_from_slice(&number.bits().to_ne_bytes()[..size]);
        }
    }

    /// The array is as it was.
    pub fn compare(&self, scope: &mut Scope<'_>, array: Local<'_>) {
        assert_eq!(scope.length(array) as usize, self.length());
        with_numbers!(
            self,
            (self.log2, 0),
            compare_range(scope, array, 0, self.length())
        );
        let place = scope
            .pinned_elements(array)
            .map(|(start, bytes)| (start.addr().get(), bytes));
        assert_eq!(place, self.place.map(|place| (place, self.bytes.len())));
    }

    fn compare_range<T: Bits>(
        &self,
        scope: &mut Scope<'_>,
        array: Local<'_>,
        index: usize,
        count: usize,
    ) {
        let mut found = vec![T::of(0); count];
        scope.read_elements(array, index, &mut found);
        for (number, index) in found.into_iter().zip(index..) {
            assert_eq!(number.bits(), self.at(index), "element {index}");
        }
    }
}

/// What the numbers of a range become.
fn pattern<T: Bits>(style: usize, seed: u64, count: usize) -> Vec<T> {
    let bits = 8 * size_of::<T>();
    let number = |index: usize| {
        let word = (seed ^ index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match style {
            0 => 0,
            // Zero but for one in 64.
            1 if word >> 58 != 0 => 0,
            // Of a float, the zero that is no zero.
            2 => 1 << (bits - 1),
            _ => word >> (64 - bits),
        }
    };
    (0..count).map(|index| T::of(number(index))).collect()
}

/// A range of an array of numbers.
#[derive(Clone, Copy)]
struct Range {
    root: usize,
    index: usize,
    count: usize,
}

impl<S: Source> Program<S> {
    /// One step over arrays. `kind` is below 22.
    pub(super) fn step_arrays(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        types: Types,
        (root, other, kind): (usize, usize, usize),
    ) -> Result<(), OutOfMemory> {
        match kind {
            0..5 => self.allocate_numbers(scope, roots, root, types),
            5 => {
                let length = self.new_length(types.cuts, types.cuts.slot);
                self.new_list(scope, roots, root, types, length)
            }
            6 => self.snapshot(scope, roots, (root, other), types),
            7 | 8 => self.copy_numbers(scope, roots, (root, other), types.cuts),
            9 => {
                let Some(copy) = self.choose_copy(root, other) else {
                    return Ok(());
                };
                let copy = self.whole_parts(copy, types.cuts, types.cuts.slot);
                let ([from, to], [from_at, to_at]) = (copy.roots, copy.at);
                scope.copy_elements(
                    roots[from],
                    from_at..from_at + copy.count,
                    roots[to],
                    to_at,
                )?;
                self.copied(&copy);
                Ok(())
            }
            10 => self.fill_list(scope, roots, (root, other), types.cuts),
            _ => {
                let Some((range, log2)) = self.choose_numbers(root, types.cuts) else {
                    return Ok(());
                };
                let variety = self.random.below(3);
                with_numbers!(self, (log2, variety), change(scope, roots, range, kind))
            }
        }
    }

    /// Numbers of one array in a range are written, read or exchanged.
    fn change<T: Bits>(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        range: Range,
        kind: usize,
    ) -> Result<(), OutOfMemory> {
        let Range { root, index, count } = range;
        let (style, seed) = (self.random.below(6), self.random.next());
        let new = pattern::<T>(style, seed, count);
        match kind {
            11..15 => scope.write_elements(roots[root], index, &new)?,
            15..17 => {
                let one = T::of(new.first().map_or(0, |number| number.bits()));
                scope.fill_numbers(roots[root], index, count, one)?;
                self.numbers_mut(root).set(index, &vec![one; count]);
                self.did(Did::FillNumbers);
                return Ok(());
            }
            17 | 18 if count > 0 => {
                // Most find what they expect.
                let old = self.numbers_mut(root).at(index);
                let expected = if seed % 4 == 0 { old ^ 1 } else { old };
                let new = new[0];
                let array = roots[root];
                let found = scope.compare_exchange_number(array, index, T::of(expected), new)?;
                assert_eq!(
                    found.map_err(|found| found.bits()).err(),
                    (expected != old).then_some(old)
                );
                if expected == old {
                    self.numbers_mut(root).set(index, &[new]);
                }
                self.did(Did::SwapNumbers);
                return Ok(());
            }
            _ => {
                let numbers = self.numbers_mut(root);
                numbers.compare_range::<T>(scope, roots[root], index, count);
                return Ok(());
            }
        }
        self.numbers_mut(root).set(index, &new);
        self.did(Did::WriteNumbers);
        Ok(())
    }

    /// One step of the raw layer: numbers are written in one of its ways.
    pub(super) fn write_numbers_raw(
        &mut self,
        mutator: &mut Mutator,
        roots: &[Cell<Value>],
        root: usize,
        cuts: Cuts,
    ) -> Result<(), OutOfMemory> {
        let Some((range, log2)) = self.choose_numbers(root, cuts) else {
            return Ok(());
        };
        let array = roots[range.root].get().as_object().expect("an array");
        let variety = self.random.below(3);
        with_numbers!(self, (log2, variety), write_raw(mutator, array, range))
    }

    fn write_raw<T: Bits>(
        &mut self,
        mutator: &mut Mutator,
        array: Address,
        Range { root, index, count }: Range,
    ) -> Result<(), OutOfMemory> {
        let (style, seed) = (self.random.below(6), self.random.next());
        let mut new = pattern::<T>(style, seed, count);
        // SAFETY: the range lies in the array, which is a root's, of such numbers; no other thread knows it.
        unsafe {
            match self.random.below(4) {
                0 => mutator.write_elements(array, index, &new)?,
                1 => {
                    let one = T::of(new.first().map_or(0, |number| number.bits()));
                    mutator.fill_elements_in::<T>(array, index, count, one)?;
                    new.fill(one);
                }
                2 => mutator.window_mut::<T, _>(array, index, count, |_, view| {
                    view.copy_from_slice(&new);
                })?,
                _ => {
                    // It may stop before its end.
                    new.truncate(self.random.below(count + 1));
                    let mut cursor = mutator.cursor_mut::<T>(array, index, count)?;
                    new.iter().for_each(|&number| assert!(cursor.store(number)));
                }
            }
        }
        self.numbers_mut(root).set(index, &new);
        self.did(Did::RawNumbers);
        Ok(())
    }

    fn numbers_mut(&mut self, root: usize) -> &mut Numbers {
        let object = self.object(root).expect("an array");
        match &mut self.objects[object] {
            Known::Numbers(numbers) => numbers,
            _ => unreachable!("root {root} was chosen as an array of numbers"),
        }
    }

    /// An array of numbers, a range of it, and the size of its elements.
    fn choose_numbers(&mut self, root: usize, cuts: Cuts) -> Option<(Range, usize)> {
        let root = self.first(root, |known| matches!(known, Known::Numbers(_)))?;
        let numbers = self.numbers_mut(root);
        let (log2, length) = (numbers.log2, numbers.length());
        let index = self.near(cuts, 1 << log2, length);
        let end = match self.random.below(4) {
            0 => length,
            1 => (index + 1).min(length),
            _ => self.near(cuts, 1 << log2, length),
        };
        let (index, end) = (index.min(end), index.max(end));
        let count = end - index;
        Some((Range { root, index, count }, log2))
    }

    /// A number up to `most`, most often of elements in front of where a piece of an array begins or ends.
    fn near(&mut self, cuts: Cuts, bytes: usize, most: usize) -> usize {
        let (first, piece) = (cuts.first_n / bytes, cuts.arraylet / bytes);
        let pieces = most.saturating_sub(first) / piece;
        let number = match self.random.below(8) {
            0 => 0,
            1 => first,
            2..5 => first + self.random.below(pieces + 1) * piece,
            5 => (first + self.random.below(pieces + 1) * piece).saturating_sub(1),
            6 => first + self.random.below(pieces + 1) * piece + 1,
            _ => self.random.below(most + 1),
        };
        number.min(most)
    }

    /// How many elements a new array has.
    fn new_length(&mut self, cuts: Cuts, bytes: usize) -> usize {
        if self.random.below(4) == 0 {
            return self.random.below(40);
        }
        let most = (cuts.first_n + 5 * cuts.arraylet) / bytes;
        let length = self.near(cuts, bytes, most);
        if length * bytes > MANY && !self.once_in(self.rarely.large) {
            self.random.below(40)
        } else {
            length
        }
    }

    /// An array of numbers, some of which never move.
    fn allocate_numbers(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        root: usize,
        types: Types,
    ) -> Result<(), OutOfMemory> {
        let (log2, pinned) = (self.random.below(4), self.random.below(8) == 0);
        let length = self.new_length(types.cuts, 1 << log2);
        let place = self.new_numbers(scope, roots[root], types, (log2, pinned), length)?;
        let bytes = vec![0; length << log2];
        self.found(root, Known::Numbers(Numbers { log2, bytes, place }));
        Ok(())
    }

    /// A new array of zeros. Where its elements lie, if it never moves.
    fn new_numbers(
        &mut self,
        scope: &mut Scope<'_>,
        into: Local<'_>,
        types: Types,
        (log2, pinned): (usize, bool),
        length: usize,
    ) -> Result<Option<usize>, OutOfMemory> {
        let place = scope.nested(|scope| {
            let of = types.numbers[log2];
            let of = if pinned { of.pinned() } else { of };
            let array = scope.allocate_array(of, length as u32)?;
            scope.assign(into, array);
            let elements = scope.pinned_elements(array);
            assert!(elements.is_some() || !pinned, "pinned elements");
            Ok(elements.map(|(start, _)| start.addr().get()))
        })?;
        if types.cuts.cut && place.is_none() && length << log2 > types.cuts.first_n {
            self.did(Did::LongArray);
        }
        Ok(place)
    }

    /// A list of nulls, which becomes the root.
    pub(super) fn new_list(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        root: usize,
        types: Types,
        length: usize,
    ) -> Result<(), OutOfMemory> {
        scope.nested(|scope| {
            let object = scope.allocate_references(types.list, length as u32)?;
            scope.assign(roots[root], object);
            Ok(())
        })?;
        self.found(root, Known::List(vec![Held::Null; length]));
        Ok(())
    }

    /// A new array of numbers as long as another one, to which all of that is copied.
    fn snapshot(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        (from, to): (usize, usize),
        types: Types,
    ) -> Result<(), OutOfMemory> {
        let Some(from) = self.first(from, |known| matches!(known, Known::Numbers(_))) else {
            return Ok(());
        };
        let numbers = self.numbers_mut(from);
        let (log2, bytes) = (numbers.log2, numbers.bytes.clone());
        let length = bytes.len() >> log2;
        scope.nested(|scope| {
            let copy = scope.null();
            let place = self.new_numbers(scope, copy, types, (log2, false), length)?;
            scope.copy_elements(roots[from], 0..length, copy, 0)?;
            scope.assign(roots[to], copy);
            self.found(to, Known::Numbers(Numbers { log2, bytes, place }));
            Ok(())
        })?;
        self.did(Did::Snapshot);
        Ok(())
    }

    /// Numbers go from an array to another one of the same size, or to the same one.
    fn copy_numbers(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        (root, other): (usize, usize),
        cuts: Cuts,
    ) -> Result<(), OutOfMemory> {
        let Some(from) = self.first(root, |known| matches!(known, Known::Numbers(_))) else {
            return Ok(());
        };
        let log2 = self.numbers_mut(from).log2;
        let is_such =
            |known: &Known| matches!(known, Known::Numbers(numbers) if numbers.log2 == log2);
        let to = self.first(other, is_such).expect("the first one is such");
        let to = if self.random.below(3) == 0 { from } else { to };
        let lengths = [from, to].map(|root| self.numbers_mut(root).length());
        let at = lengths.map(|length| self.near(cuts, 1 << log2, length));
        let most = (lengths[0] - at[0]).min(lengths[1] - at[1]);
        let count = if self.random.below(2) == 0 {
            most
        } else {
            self.random.below(most + 1)
        };
        let copy = Transfer {
            roots: [from, to],
            objects: [from, to].map(|root| self.object(root).expect("an array")),
            at,
            count,
        };
        let copy = if self.random.below(2) == 0 {
            self.whole_parts(copy, cuts, 1 << log2)
        } else {
            copy
        };
        let ([from_at, to_at], count) = (copy.at, copy.count);
        scope.copy_elements(roots[from], from_at..from_at + count, roots[to], to_at)?;
        let range = |at: usize| at << log2..(at + count) << log2;
        let copied = self.numbers_mut(from).bytes[range(from_at)].to_vec();
        self.numbers_mut(to).bytes[range(to_at)].copy_from_slice(&copied);
        if count > 0 {
            self.did(Did::CopyNumbers);
        }
        Ok(())
    }

    /// The same copy, from where a piece of an array begins to where one begins, as far as there are such places.
    fn whole_parts(&self, copy: Transfer, cuts: Cuts, bytes: usize) -> Transfer {
        let (first, piece) = (cuts.first_n / bytes, cuts.arraylet / bytes);
        let end = [0, 1].map(|side| copy.at[side] + copy.count);
        let at = copy.at.map(|at| {
            let pieces = at.saturating_sub(first).div_ceil(piece);
            first + pieces * piece
        });
        if at[0] > end[0] || at[1] > end[1] {
            return copy;
        }
        let count = (end[0] - at[0]).min(end[1] - at[1]);
        Transfer { at, count, ..copy }
    }

    /// Elements of a list become what another root is.
    fn fill_list(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        (root, other): (usize, usize),
        cuts: Cuts,
    ) -> Result<(), OutOfMemory> {
        let Some(root) = self.first(root, |known| matches!(known, Known::List(_))) else {
            return Ok(());
        };
        let object = self.object(root).expect("a list");
        let length = self.objects[object].slots().len();
        let ends = [(); 2].map(|()| self.near(cuts, cuts.slot, length));
        let range = ends[0].min(ends[1])..ends[0].max(ends[1]);
        scope.fill(roots[root], range.start, range.len(), roots[other])?;
        let held = self.roots[other];
        if let Known::List(slots) = &mut self.objects[object] {
            slots[range].fill(held);
        }
        self.did(Did::FillList);
        Ok(())
    }
}
