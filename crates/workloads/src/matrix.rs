//! Dense and sparse matrices of numbers of 8 bytes, each in one array, row by row.
//!
//! Each round makes two triangular factors of which most blocks are zero, and multiplies them. Gaussian elimination of a
//! copy of the product gives the factors back, and their product subtracted from another copy leaves nothing but zeros. So
//! there are stretches of zeros that nobody wrote, and others that held other numbers before. The product is brought into
//! compressed sparse rows and multiplied by a dense matrix; two dense matrices are multiplied, too. The upper triangle and
//! the zeros of a round stay until the next one is over.
//!
//! All numbers are integers, and so small that each operation is exact: the factors and the zeros are checked to the bit,
//! and the other products by a vector (Freivalds).

use std::cell::Cell;

use gleaner::raw::{Address, Value};
use gleaner::{Heap, Mutator, OutOfMemory};

use super::objects::{Code, Numbers, copy, frame, object, put, value};
use super::random::{Random, chained};
use super::{Own, Prepared, Scale, failed};

/// Blocks in a row of a factor.
const BLOCKS: usize = 10;

#[derive(Clone, Copy)]
struct Matrices<F> {
    reals: Numbers<F, f64>,
    words: Numbers<F, u32>,
    /// Rows and columns of a large matrix.
    size: usize,
    rounds: u32,
}

/// 500 rows and 24 rounds, or 40 and eight.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    let matrices: Matrices<F> = Matrices {
        reals: Numbers::register(heap).map_err(failed)?,
        words: Numbers::register(heap).map_err(failed)?,
        size: scale.of(500, 40),
        rounds: scale.of(24, 8),
    };
    Ok(Box::new(Own(move |mutator: &mut Mutator, number| {
        matrices.run(mutator, Random::new(15_000 + u64::from(number)))
    })))
}

/// What a round leaves for the next one, in roots.
struct Left<'a> {
    /// The eliminated product.
    upper: &'a Cell<Value>,
    /// The zeros.
    zeros: &'a Cell<Value>,
}

/// Compressed sparse rows, in roots.
struct Sparse<'a> {
    numbers: &'a Cell<Value>,
    /// The column of each number.
    columns: &'a Cell<Value>,
    /// Where the numbers of each row begin, and where those of the last one end.
    starts: &'a Cell<Value>,
}

/// A number of a matrix: -4 to 4.
fn drawn(random: &mut Random) -> f64 {
    f64::from(random.below(9)) - 4.0
}

impl<F: Code> Matrices<F> {
    /// A number made of all matrices but those that must be zero.
    fn run(&self, mutator: &mut Mutator, mut random: Random) -> Result<u64, OutOfMemory> {
        frame(mutator, [Address::NULL; 2], |mutator, [upper, zeros]| {
            let left = Left { upper, zeros };
            let mut sum = 0;
            for _ in 0..self.rounds {
                sum = chained(sum, self.round(mutator, &left, &mut random)?);
            }
            Ok(sum)
        })
    }

    fn round(
        &self,
        mutator: &mut Mutator,
        left: &Left<'_>,
        random: &mut Random,
    ) -> Result<u64, OutOfMemory> {
        let size = self.size;
        let small = size / 2;
        let roots = [Address::NULL; 5];
        frame(
            mutator,
            roots,
            |mutator, [lower, upper, product, work, found]| {
                lower.set(value(self.factor(mutator, random, false)?));
                upper.set(value(self.factor(mutator, random, true)?));
                product.set(value(self.multiply(mutator, lower, upper, size)?));
                work.set(value(self.copied(mutator, product)?));
                found.set(value(self.eliminate(mutator, work)?));
                assert!(self.are_equal(mutator, work, upper), "one factor is back");
                assert!(self.are_equal(mutator, found, lower), "so is the other");
                let mut sum = [product, work, found]
                    .iter()
                    .fold(0, |sum, matrix| chained(sum, self.hash(mutator, matrix)));

                // The factors have done their work: these two roots are for others.
                lower.set(value(self.dense(mutator, random, size * small)?));
                upper.set(value(self.multiply_sparse(mutator, product, lower, small)?));
                self.check_product(mutator, [product, lower, upper], size, small);
                sum = chained(sum, self.hash(mutator, upper));

                lower.set(value(self.dense(mutator, random, small * small)?));
                upper.set(value(self.multiply(mutator, lower, lower, small)?));
                self.check_product(mutator, [lower, lower, upper], small, small);
                sum = chained(sum, self.hash(mutator, upper));

                self.check_left(mutator, left);
                left.upper.set(work.get());
                lower.set(value(self.copied(mutator, product)?));
                for row in 0..size {
                    self.add_products(mutator, lower, row, found, work, size, -1.0)?;
                }
                left.zeros.set(lower.get());
                Ok(sum)
            },
        )
    }

    /// What the round before left is as it was.
    fn check_left(&self, mutator: &Mutator, left: &Left<'_>) {
        if object(left.zeros) == Address::NULL {
            return;
        }
        let size = self.size;
        let mut zeros = self
            .reals
            .cursor(mutator, object(left.zeros), 0, size * size);
        assert!(zeros.all(|number| number == 0.0), "nothing is left");
        for row in 0..size {
            let mut below = self
                .reals
                .cursor(mutator, object(left.upper), row * size, row);
            assert!(below.all(|number| number == 0.0), "one triangle is zero");
        }
    }

    /// A triangular matrix: ones on its diagonal, of the upper one with either sign, and one in eight blocks beside those
    /// on the diagonal.
    fn factor(
        &self,
        mutator: &mut Mutator,
        random: &mut Random,
        is_upper: bool,
    ) -> Result<Address, OutOfMemory> {
        let size = self.size;
        let edge = size / BLOCKS;
        let made = self.reals.fresh(mutator, size * size)?;
        frame(mutator, [made], |mutator, [made]| {
            let mut numbers = vec![0.0; edge];
            for (down, across) in (0..BLOCKS * BLOCKS).map(|block| (block / BLOCKS, block % BLOCKS))
            {
                let is_diagonal = down == across;
                let is_inside = if is_upper {
                    down < across
                } else {
                    down > across
                };
                if !is_diagonal && (!is_inside || random.below(8) > 0) {
                    continue;
                }
                for line in 0..edge {
                    numbers.fill_with(|| drawn(random));
                    if is_diagonal {
                        let outside = if is_upper { 0..line } else { line + 1..edge };
                        numbers[outside].fill(0.0);
                        let is_negative = is_upper && random.below(2) == 0;
                        numbers[line] = if is_negative { -1.0 } else { 1.0 };
                    }
                    let at = (down * edge + line) * size + across * edge;
                    self.reals.write(mutator, object(made), at, &numbers)?;
                }
            }
            Ok(object(made))
        })
    }

    /// An array of `count` numbers.
    fn dense(
        &self,
        mutator: &mut Mutator,
        random: &mut Random,
        count: usize,
    ) -> Result<Address, OutOfMemory> {
        let made = self.reals.fresh(mutator, count)?;
        frame(mutator, [made], |mutator, [made]| {
            let mut numbers = self.reals.cursor_mut(mutator, object(made), 0, count)?;
            for _ in 0..count {
                put(&mut numbers, drawn(random));
            }
            Ok(object(made))
        })
    }

    fn copied(&self, mutator: &mut Mutator, from: &Cell<Value>) -> Result<Address, OutOfMemory> {
        let count = self.reals.length(mutator, object(from));
        let made = self.reals.fresh(mutator, count)?;
        frame(mutator, [made], |mutator, [made]| {
            copy(mutator, (object(from), 0), (object(made), 0), count)?;
            Ok(object(made))
        })
    }

    /// The product of two matrices with `size` rows and columns.
    fn multiply(
        &self,
        mutator: &mut Mutator,
        left: &Cell<Value>,
        right: &Cell<Value>,
        size: usize,
    ) -> Result<Address, OutOfMemory> {
        let made = self.reals.fresh(mutator, size * size)?;
        frame(mutator, [made], |mutator, [made]| {
            for row in 0..size {
                self.add_products(mutator, made, row, left, right, size, 1.0)?;
            }
            Ok(object(made))
        })
    }

    /// Adds a row of the product of two matrices, times `factor`, to that row of another.
    #[allow(
        clippy::too_many_arguments,
        reason = "three matrices, their size, a row and a factor"
    )]
    fn add_products(
        &self,
        mutator: &mut Mutator,
        into: &Cell<Value>,
        row: usize,
        left: &Cell<Value>,
        right: &Cell<Value>,
        size: usize,
        factor: f64,
    ) -> Result<(), OutOfMemory> {
        for inner in 0..size {
            let number = self.reals.get(mutator, object(left), row * size + inner);
            if number != 0.0 {
                let to = (into, row * size);
                self.add_row(mutator, to, factor * number, (right, inner * size), size)?;
            }
        }
        Ok(())
    }

    /// Adds `count` numbers of one matrix, times `factor`, to as many of another, or of the same one elsewhere.
    #[inline(always)]
    fn add_row(
        &self,
        mutator: &mut Mutator,
        (into, at): (&Cell<Value>, usize),
        factor: f64,
        (from, from_at): (&Cell<Value>, usize),
        count: usize,
    ) -> Result<(), OutOfMemory> {
        let mut into = self.reals.cursor_mut(mutator, object(into), at, count)?;
        let from = self
            .reals
            .cursor(into.mutator(), object(from), from_at, count);
        for number in from {
            let Some(before) = into.load() else { break };
            put(&mut into, before + factor * number);
        }
        Ok(())
    }

    /// Makes a matrix upper triangular; the factors that it took, which are the other triangle.
    fn eliminate(
        &self,
        mutator: &mut Mutator,
        matrix: &Cell<Value>,
    ) -> Result<Address, OutOfMemory> {
        let size = self.size;
        let found = self.reals.fresh(mutator, size * size)?;
        frame(mutator, [found], |mutator, [found]| {
            for column in 0..size {
                let diagonal = column * size + column;
                let pivot = self.reals.get(mutator, object(matrix), diagonal);
                self.reals.set(mutator, object(found), diagonal, 1.0)?;
                for row in column + 1..size {
                    let at = row * size + column;
                    let factor = self.reals.get(mutator, object(matrix), at) / pivot;
                    if factor != 0.0 {
                        self.reals.set(mutator, object(found), at, factor)?;
                        let from = (matrix, diagonal);
                        self.add_row(mutator, (matrix, at), -factor, from, size - column)?;
                    }
                }
            }
            Ok(object(found))
        })
    }

    /// The product of a large matrix, of which only what is not zero counts, and one with `width` columns.
    fn multiply_sparse(
        &self,
        mutator: &mut Mutator,
        left: &Cell<Value>,
        right: &Cell<Value>,
        width: usize,
    ) -> Result<Address, OutOfMemory> {
        let made = self.reals.fresh(mutator, self.size * width)?;
        let roots = [made, Address::NULL, Address::NULL, Address::NULL];
        frame(
            mutator,
            roots,
            |mutator, [made, numbers, columns, starts]| {
                let sparse = Sparse {
                    numbers,
                    columns,
                    starts,
                };
                self.compress(mutator, left, &sparse)?;
                for row in 0..self.size {
                    let [start, end] = [row, row + 1]
                        .map(|row| self.words.get(mutator, object(starts), row) as usize);
                    for index in start..end {
                        let number = self.reals.get(mutator, object(numbers), index);
                        let column = self.words.get(mutator, object(columns), index) as usize;
                        let to = (made, row * width);
                        self.add_row(mutator, to, number, (right, column * width), width)?;
                    }
                }
                Ok(object(made))
            },
        )
    }

    /// Brings a large matrix into compressed sparse rows.
    fn compress(
        &self,
        mutator: &mut Mutator,
        from: &Cell<Value>,
        into: &Sparse<'_>,
    ) -> Result<(), OutOfMemory> {
        let size = self.size;
        let all = self.reals.cursor(mutator, object(from), 0, size * size);
        let count = all.filter(|&number| number != 0.0).count();
        into.numbers.set(value(self.reals.fresh(mutator, count)?));
        into.columns.set(value(self.words.fresh(mutator, count)?));
        into.starts.set(value(self.words.fresh(mutator, size + 1)?));
        let mut next = 0;
        for row in 0..size {
            for column in 0..size {
                let number = self.reals.get(mutator, object(from), row * size + column);
                if number != 0.0 {
                    self.reals
                        .set(mutator, object(into.numbers), next, number)?;
                    self.words
                        .set(mutator, object(into.columns), next, column as u32)?;
                    next += 1;
                }
            }
            self.words
                .set(mutator, object(into.starts), row + 1, next as u32)?;
        }
        Ok(())
    }

    fn are_equal(&self, mutator: &Mutator, one: &Cell<Value>, other: &Cell<Value>) -> bool {
        let count = self.size * self.size;
        let [one, other] = [one, other]
            .map(|matrix| self.reals.cursor(mutator, object(matrix), 0, count))
            .map(|numbers| numbers.map(f64::to_bits));
        one.eq(other)
    }

    /// Checks a product of a square matrix, with `size` rows, and one with `width` columns: both sides do the same to a
    /// vector.
    fn check_product(
        &self,
        mutator: &Mutator,
        [left, right, product]: [&Cell<Value>; 3],
        size: usize,
        width: usize,
    ) {
        let vector: Vec<f64> = (0..width).map(|index| (index % 7) as f64 - 3.0).collect();
        let through = self.times(mutator, left, &self.times(mutator, right, &vector));
        let direct = self.times(mutator, product, &vector);
        assert_eq!(direct.len(), size, "a product has all rows");
        assert!(direct == through, "a product does what its factors do");
    }

    /// A matrix times a vector.
    fn times(&self, mutator: &Mutator, matrix: &Cell<Value>, vector: &[f64]) -> Vec<f64> {
        let width = vector.len();
        let rows = self.reals.length(mutator, object(matrix)) / width;
        let row = |row| {
            self.reals
                .cursor(mutator, object(matrix), row * width, width)
        };
        let product = |at| row(at).zip(vector).fold(0.0, |sum, (a, b)| sum + a * b);
        (0..rows).map(product).collect()
    }

    fn hash(&self, mutator: &Mutator, matrix: &Cell<Value>) -> u64 {
        let count = self.reals.length(mutator, object(matrix));
        let numbers = self.reals.cursor(mutator, object(matrix), 0, count);
        numbers.fold(0, |sum, number| chained(sum, number.to_bits().swap_bytes()))
    }
}
