//! Charts of long series of numbers: most element accesses are far into large arrays.
//!
//! A chart has several series, each a random walk, which is smoothed by a running mean and binned by columns of the
//! picture. The picture is one array of pixels, row by row. It has a background and a grid, the area below each series
//! mixed with what is there, and its line from the least to the greatest number of each column. It also has a histogram
//! of all numbers, which were counted in one more array. Then the picture is made half as wide and half as high; the
//! last few of these are kept.
//!
//! Sequential loops have cursors; pixels of columns of pixels and the counts are single elements.

use std::cell::Cell;

use gleaner::raw::{Address, Value};
use gleaner::{Heap, Mutator, OutOfMemory};

use super::objects::{Code, Numbers, Slots, frame, object, put, value};
use super::random::{Random, chained};
use super::{Own, Prepared, Scale, failed};

const BACKGROUND: u32 = 0xff_ff_ff;
const GRID: u32 = 0xdd_dd_dd;
const BARS: u32 = 0x88_88_88;
/// The colour of each series.
const COLOURS: [u32; 3] = [0xcc_22_22, 0x22_aa_22, 0x22_22_cc];
/// Pictures that are kept.
const KEPT: usize = 4;
/// Bins of the histogram.
const BINS: usize = 1 << 14;

#[derive(Clone, Copy)]
struct Charts<F> {
    reals: Numbers<F, f64>,
    words: Numbers<F, u32>,
    slots: Slots<F>,
    samples: usize,
    width: usize,
    height: usize,
    charts: usize,
}

/// 120 charts of 120,000 samples a series and 1600 by 1000 pixels, or six of 3000, and 120 by 80.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    let charts = Charts::<F> {
        reals: Numbers::register(heap).map_err(failed)?,
        words: Numbers::register(heap).map_err(failed)?,
        slots: Slots::register(heap).map_err(failed)?,
        samples: scale.of(120_000, 3000),
        width: scale.of(1600, 120),
        height: scale.of(1000, 80),
        charts: scale.of(120, 6),
    };
    Ok(Box::new(Own(move |mutator: &mut Mutator, number| {
        charts.run(mutator, Random::new(18_000 + u64::from(number)))
    })))
}

/// Half of each colour of one pixel and half of another's.
fn mixed(one: u32, other: u32) -> u32 {
    (one >> 1 & 0x7f_7f_7f) + (other >> 1 & 0x7f_7f_7f)
}

impl<F: Code> Charts<F> {
    /// A number made of all pictures.
    fn run(&self, mutator: &mut Mutator, mut random: Random) -> Result<u64, OutOfMemory> {
        let kept = self.slots.fresh(mutator, KEPT)?;
        frame(mutator, [kept], |mutator, [kept]| {
            let (mut sum, mut hashes) = (0, [None; KEPT]);
            for number in 0..self.charts {
                let small = self.chart(mutator, &mut random)?;
                self.slots
                    .set(mutator, object(kept), number % KEPT, small)?;
                for (index, hash) in hashes.iter_mut().enumerate() {
                    let picture = self.slots.get(mutator, object(kept), index);
                    if index == number % KEPT {
                        *hash = Some(self.hash(mutator, picture));
                        sum = chained(sum, hash.unwrap_or(0));
                    } else if number + 1 == self.charts && picture != Address::NULL {
                        assert_eq!(*hash, Some(self.hash(mutator, picture)), "pictures stay");
                    }
                }
            }
            Ok(sum)
        })
    }

    fn hash(&self, mutator: &Mutator, picture: Address) -> u64 {
        let count = self.words.length(mutator, picture);
        let pixels = self.words.cursor(mutator, picture, 0, count);
        pixels.fold(0, |sum, pixel| chained(sum, u64::from(pixel)))
    }

    /// A picture of half the size.
    fn chart(&self, mutator: &mut Mutator, random: &mut Random) -> Result<Address, OutOfMemory> {
        let picture = self.background(mutator)?;
        let counts = [picture, Address::NULL, Address::NULL, Address::NULL];
        frame(
            mutator,
            counts,
            |mutator, [picture, counts, raw, smooth]| {
                counts.set(value(self.words.fresh(mutator, BINS)?));
                for (number, colour) in COLOURS.into_iter().enumerate() {
                    raw.set(value(self.walk(mutator, random)?));
                    self.count(mutator, counts, raw)?;
                    let reach = 10 + 40 * number;
                    smooth.set(value(self.smoothed(mutator, raw, reach)?));
                    self.draw(mutator, picture, smooth, colour)?;
                }
                self.draw_histogram(mutator, picture, counts)?;
                self.shrunk(mutator, picture)
            },
        )
    }

    /// An empty picture with a grid.
    fn background(&self, mutator: &mut Mutator) -> Result<Address, OutOfMemory> {
        let (width, height) = (self.width, self.height);
        let picture = self.words.fresh(mutator, width * height)?;
        frame(mutator, [picture], |mutator, [picture]| {
            self.words
                .fill(mutator, object(picture), 0, width * height, BACKGROUND)?;
            for line in 1..8 {
                let row = line * height / 8;
                self.words
                    .fill(mutator, object(picture), row * width, width, GRID)?;
                for row in 0..height {
                    let place = row * width + line * width / 8;
                    self.words.set(mutator, object(picture), place, GRID)?;
                }
            }
            Ok(object(picture))
        })
    }

    /// A series.
    fn walk(&self, mutator: &mut Mutator, random: &mut Random) -> Result<Address, OutOfMemory> {
        let series = self.reals.fresh(mutator, self.samples)?;
        let mut at = 0.0;
        frame(mutator, [series], |mutator, [series]| {
            let mut numbers = self
                .reals
                .cursor_mut(mutator, object(series), 0, self.samples)?;
            for _ in 0..self.samples {
                at += f64::from(random.below(201)) - 100.0;
                put(&mut numbers, at);
            }
            Ok(object(series))
        })
    }

    /// Counts the numbers of a series.
    fn count(
        &self,
        mutator: &mut Mutator,
        counts: &Cell<Value>,
        series: &Cell<Value>,
    ) -> Result<(), OutOfMemory> {
        for index in 0..self.samples {
            let number = self.reals.get(mutator, object(series), index);
            let bin = (number as i64).rem_euclid(BINS as i64) as usize;
            self.words
                .update(mutator, object(counts), bin, |count| count + 1)?;
        }
        Ok(())
    }

    /// The mean of each number of a series and of the `reach` numbers before and behind it.
    fn smoothed(
        &self,
        mutator: &mut Mutator,
        series: &Cell<Value>,
        reach: usize,
    ) -> Result<Address, OutOfMemory> {
        let samples = self.samples;
        let made = self.reals.fresh(mutator, samples)?;
        frame(mutator, [made], |mutator, [made]| {
            let mut means = self.reals.cursor_mut(mutator, object(made), 0, samples)?;
            let reader = means.mutator();
            let mut ahead = self.reals.cursor(reader, object(series), 0, samples);
            let mut behind = self.reals.cursor(reader, object(series), 0, samples);
            let mut count = reach.min(samples);
            let mut sum: f64 = ahead.by_ref().take(count).sum();
            for index in 0..samples {
                if let Some(number) = ahead.next() {
                    sum += number;
                    count += 1;
                }
                if index > reach {
                    sum -= behind.next().unwrap_or(0.0);
                    count -= 1;
                }
                put(&mut means, sum / count as f64);
            }
            Ok(object(made))
        })
    }

    /// Draws a series.
    fn draw(
        &self,
        mutator: &mut Mutator,
        picture: &Cell<Value>,
        series: &Cell<Value>,
        colour: u32,
    ) -> Result<(), OutOfMemory> {
        let lows = self.reals.fresh(mutator, self.width)?;
        frame(mutator, [lows, Address::NULL], |mutator, [lows, highs]| {
            highs.set(value(self.reals.fresh(mutator, self.width)?));
            let (lowest, highest) = self.bin(mutator, series, lows, highs)?;
            let scale = (self.height - 1) as f64 / (highest - lowest).max(1.0);
            for column in 0..self.width {
                let [low, high] = [lows, highs]
                    .map(|bins| self.reals.get(mutator, object(bins), column))
                    .map(|number| self.height - 1 - ((number - lowest) * scale) as usize);
                for row in high..self.height {
                    let place = row * self.width + column;
                    self.words
                        .update(mutator, object(picture), place, |before| {
                            if row <= low {
                                colour
                            } else {
                                mixed(before, colour)
                            }
                        })?;
                }
            }
            Ok(())
        })
    }

    /// The least and the greatest number of each column, and of all.
    fn bin(
        &self,
        mutator: &mut Mutator,
        series: &Cell<Value>,
        lows: &Cell<Value>,
        highs: &Cell<Value>,
    ) -> Result<(f64, f64), OutOfMemory> {
        let (mut lowest, mut highest) = (f64::MAX, f64::MIN);
        for column in 0..self.width {
            let start = column * self.samples / self.width;
            let end = (column + 1) * self.samples / self.width;
            let numbers = self
                .reals
                .cursor(mutator, object(series), start, end - start);
            let (mut low, mut high) = (f64::MAX, f64::MIN);
            for number in numbers {
                (low, high) = (low.min(number), high.max(number));
            }
            self.reals.set(mutator, object(lows), column, low)?;
            self.reals.set(mutator, object(highs), column, high)?;
            (lowest, highest) = (lowest.min(low), highest.max(high));
        }
        Ok((lowest, highest))
    }

    /// Draws bars from the left, one for the bins of each row.
    fn draw_histogram(
        &self,
        mutator: &mut Mutator,
        picture: &Cell<Value>,
        counts: &Cell<Value>,
    ) -> Result<(), OutOfMemory> {
        let counted = self.words.cursor(mutator, object(counts), 0, BINS);
        let counted: u64 = counted.map(u64::from).sum();
        assert_eq!(
            counted,
            (COLOURS.len() * self.samples) as u64,
            "all numbers are counted"
        );
        let each = BINS / self.height;
        for row in 0..self.height {
            let bins = self.words.cursor(mutator, object(counts), row * each, each);
            let count: usize = bins.map(|count| count as usize).sum();
            let bar = (count * self.height / self.samples).min(self.width) / 2;
            self.words
                .fill(mutator, object(picture), row * self.width, bar, BARS)?;
        }
        Ok(())
    }

    /// The picture, half as wide and half as high.
    fn shrunk(&self, mutator: &mut Mutator, picture: &Cell<Value>) -> Result<Address, OutOfMemory> {
        let (width, height) = (self.width / 2, self.height / 2);
        let made = self.words.fresh(mutator, width * height)?;
        frame(mutator, [made], |mutator, [made]| {
            let mut pixels = self
                .words
                .cursor_mut(mutator, object(made), 0, width * height)?;
            let reader = pixels.mutator();
            for row in 0..height {
                let [mut upper, mut lower] = [2 * row, 2 * row + 1].map(|row| {
                    let first = row * self.width;
                    self.words.cursor(reader, object(picture), first, 2 * width)
                });
                while let (Some(a), Some(b), Some(c), Some(d)) =
                    (upper.next(), upper.next(), lower.next(), lower.next())
                {
                    put(&mut pixels, mixed(mixed(a, b), mixed(c, d)));
                }
            }
            Ok(object(made))
        })
    }
}
