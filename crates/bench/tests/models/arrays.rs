//! The workloads whose arrays are large, at the scale of `--tiny`.

use std::collections::BTreeMap;

use super::random::{Random, chained, hash_of, hash_on, scattered};

pub fn bigmap(thread: u32) -> u64 {
    /// A tenant: what its keys are made of, how many it gave out, and the step that made each entry.
    struct Tenant(u32, u32, BTreeMap<u32, u32>);

    impl Tenant {
        fn key(&self, number: u32) -> u32 {
            match self.0 % 2 {
                0 => 1 + self.0 * 256 + number,
                _ => scattered((u64::from(self.0) << 32) + u64::from(number)) as u32 | 1,
            }
        }

        fn all(&self) -> u64 {
            let entries = self.2.iter();
            let numbers = entries.map(|(&key, &step)| (u64::from(key) << 32) + u64::from(step));
            numbers.map(scattered).fold(0, u64::wrapping_add)
        }
    }

    let mut random = Random::new(14_000 + u64::from(thread));
    let mut arrived = 0..;
    // A plan is how large the table is, which changes nothing.
    let mut fresh = |random: &mut Random| {
        random.below(4);
        Tenant(arrived.next().unwrap(), 0, BTreeMap::new())
    };
    let mut tenants: Vec<Tenant> = (0..16).map(|_| fresh(&mut random)).collect();
    let mut sum = 0;
    for step in 0..6000 {
        if step % 100 == 99 {
            let index = random.below(16) as usize;
            sum = chained(sum, tenants[index].all());
            tenants[index] = fresh(&mut random);
        }
        let bound = random.below(16) + 1;
        let tenant = &mut tenants[random.below(bound) as usize];
        let what = random.below(16);
        if what < 6 {
            let key = tenant.key(tenant.1);
            tenant.1 += 1;
            tenant.2.insert(key, step);
            sum = chained(sum, 0);
            continue;
        }
        let key = tenant.key(random.below(tenant.1 + 1));
        let found = tenant.2.get(&key).copied();
        sum = chained(sum, found.map_or(1, u64::from));
        match (found, what) {
            (Some(_), 14) => drop(tenant.2.insert(key, step)),
            (Some(_), 15) => drop(tenant.2.remove(&key)),
            _ => {}
        }
    }
    tenants
        .iter()
        .fold(sum, |sum, tenant| chained(sum, tenant.all()))
}

/// A matrix of integers: what is asked of the factors is checked here by their definition.
type Matrix = Vec<Vec<i64>>;

pub fn matrix(thread: u32) -> u64 {
    let mut random = Random::new(15_000 + u64::from(thread));
    let hash = |matrix: &Matrix| {
        let numbers = matrix.iter().flatten();
        numbers.fold(0, |sum, &number| {
            chained(sum, (number as f64).to_bits().swap_bytes())
        })
    };
    let mut sum = 0;
    for _ in 0..8 {
        let lower = factor(&mut random, false);
        let upper = factor(&mut random, true);
        let product = times(&lower, &upper);
        let wide = dense(&mut random, 40);
        let small = dense(&mut random, 20);
        let made = [
            &product,
            &upper,
            &lower,
            &times(&product, &wide),
            &times(&small, &small),
        ];
        let round = made
            .into_iter()
            .fold(0, |sum, matrix| chained(sum, hash(matrix)));
        sum = chained(sum, round);
    }
    sum
}

fn number(random: &mut Random) -> i64 {
    i64::from(random.below(9)) - 4
}

/// Ten blocks of four rows, and four columns.
fn factor(random: &mut Random, is_upper: bool) -> Matrix {
    let mut made = vec![vec![0; 40]; 40];
    for down in (0..40).step_by(4) {
        for across in (0..40).step_by(4) {
            let is_wanted = if is_upper {
                across > down
            } else {
                across < down
            };
            if down != across && !(is_wanted && random.below(8) == 0) {
                continue;
            }
            for (row, numbers) in made.iter_mut().enumerate().skip(down).take(4) {
                for (column, place) in numbers.iter_mut().enumerate().skip(across).take(4) {
                    let drawn = number(random);
                    if down != across || (is_upper && column > row || !is_upper && column < row) {
                        *place = drawn;
                    }
                }
                if down == across {
                    let sign = if is_upper { random.below(2) } else { 1 };
                    numbers[row] = 2 * i64::from(sign) - 1;
                }
            }
        }
    }
    made
}

fn dense(random: &mut Random, rows: usize) -> Matrix {
    let mut row = || (0..20).map(|_| number(random)).collect();
    (0..rows).map(|_| row()).collect()
}

fn times(left: &Matrix, right: &Matrix) -> Matrix {
    let element = |row: &[i64], column: usize| {
        let pairs = row.iter().zip(right);
        pairs.map(|(number, other)| number * other[column]).sum()
    };
    let columns = right[0].len();
    left.iter()
        .map(|row| (0..columns).map(|column| element(row, column)).collect())
        .collect()
}

pub fn snapshots(thread: u32) -> u64 {
    let mut random = Random::new(16_000 + u64::from(thread));
    // A number, balances, owners.
    let balances = (0..1500).map(|index| 1000 + index).collect();
    let first: (u64, Vec<u64>, Vec<u64>) = (0, balances, (0..700).collect());
    let mut kept = vec![first; 8];
    let (mut sum, mut newest) = (0, 0);
    for step in 1..=80 {
        let from = match random.below(16) {
            0 => random.below(8) as usize,
            _ => newest,
        };
        let mut next = kept[from].clone();
        next.0 = step;
        let together = random.below(1500 - 8) as usize;
        for index in together..together + 8 {
            next.1[index] = chained(next.1[index], step);
        }
        for _ in 0..4 {
            let index = random.below(1500) as usize;
            next.1[index] = chained(next.1[index], step);
        }
        next.2[random.below(700) as usize] = 700 + step;
        newest = step as usize % 8;
        kept[newest] = next;
        if step % 8 == 0 {
            let other = &kept[random.below(8) as usize];
            let mut difference = 0;
            for (index, place) in (0..2200).enumerate() {
                let [left, right] = [&kept[newest], other]
                    .map(|version| version.1.iter().chain(&version.2).nth(index).unwrap());
                // Each owner is an object of its own, with a number of its own.
                if left != right {
                    difference = chained(difference, place);
                }
            }
            sum = chained(sum, difference);
        }
    }
    for version in kept {
        let all = version.1.into_iter().chain(version.2);
        sum = chained(sum, all.fold(version.0, chained));
    }
    sum
}

pub fn chart(thread: u32) -> u64 {
    let (samples, width, height) = (3000, 120, 80);
    let mut random = Random::new(18_000 + u64::from(thread));
    let mut sum = 0;
    for _ in 0..6 {
        let mut picture = vec![vec![0xff_ff_ff; width]; height];
        for line in 1..8 {
            picture[line * height / 8] = vec![0xdd_dd_dd; width];
            for row in &mut picture {
                row[line * width / 8] = 0xdd_dd_dd;
            }
        }
        let mut counts = vec![0; 1 << 14];
        for (colour, reach) in [(0xcc_22_22, 10), (0x22_aa_22, 50), (0x22_22_cc, 90)] {
            let mut at = 0;
            let mut step = || {
                at += i64::from(random.below(201)) - 100;
                at
            };
            let raw: Vec<i64> = (0..samples).map(|_| step()).collect();
            raw.iter()
                .for_each(|number| counts[(number & 0x3fff) as usize] += 1);
            let mean = |index: usize| {
                let near = &raw[index.saturating_sub(reach)..samples.min(index + reach + 1)];
                near.iter().sum::<i64>() as f64 / near.len() as f64
            };
            let smooth: Vec<f64> = (0..samples).map(mean).collect();
            draw(&mut picture, &smooth, colour);
        }
        let each = counts.len() / height;
        for (row, bins) in picture.iter_mut().zip(counts.chunks(each)) {
            let bar = bins.iter().sum::<usize>() * height / samples;
            row[..bar.min(width) / 2].fill(0x88_88_88);
        }
        let small = picture.chunks(2).flat_map(|rows| {
            (0..width / 2).map(|column| {
                let [upper, lower] =
                    [0, 1].map(|row| half(rows[row][2 * column], rows[row][2 * column + 1]));
                half(upper, lower)
            })
        });
        sum = chained(sum, small.map(u64::from).fold(0, chained));
    }
    sum
}

fn half(one: u32, other: u32) -> u32 {
    let part = |shift: u32| ((one >> shift & 0xff) / 2 + (other >> shift & 0xff) / 2) << shift;
    part(0) | part(8) | part(16)
}

fn draw(picture: &mut [Vec<u32>], smooth: &[f64], colour: u32) {
    let (width, height) = (picture[0].len(), picture.len());
    let least = |numbers: &[f64]| numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |numbers: &[f64]| numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let lowest = least(smooth);
    let scale = (height - 1) as f64 / (most(smooth) - lowest).max(1.0);
    for column in 0..width {
        let bin = &smooth[column * smooth.len() / width..(column + 1) * smooth.len() / width];
        let row_of = |number: f64| height - 1 - ((number - lowest) * scale) as usize;
        let (low, high) = (row_of(least(bin)), row_of(most(bin)));
        for (row, pixels) in picture.iter_mut().enumerate().skip(high) {
            let below = half(pixels[column], colour);
            pixels[column] = if row <= low { colour } else { below };
        }
    }
}

/// Codes of at most 12 bits, as strings of bytes.
pub fn compress(texts: &[(String, String)]) -> u64 {
    let pass = |sum| {
        let packed = texts
            .iter()
            .map(|(_, text)| hash_of(&packed(text.as_bytes())));
        packed.fold(sum, chained)
    };
    pass(pass(0))
}

fn packed(text: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    let mut known: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let mut written = 0_u32;
    let mut write = |code: usize| {
        let width = (256 + written).ilog2() + 1;
        output.extend((0..width).map(|bit| code >> bit & 1 == 1));
        written = if code == 256 { 0 } else { written + 1 };
    };
    let code_of = |known: &BTreeMap<Vec<u8>, usize>, string: &[u8]| match string {
        [byte] => usize::from(*byte),
        _ => known[string],
    };
    let mut string = vec![text[0]];
    for &byte in &text[1..] {
        let mut longer = string.clone();
        longer.push(byte);
        if known.contains_key(&longer) {
            string = longer;
            continue;
        }
        write(code_of(&known, &string));
        known.insert(longer, 257 + known.len());
        if 257 + known.len() == 4096 {
            write(256);
            known.clear();
        }
        string = vec![byte];
    }
    write(code_of(&known, &string));
    let byte = |bits: &[bool]| (0..).zip(bits).map(|(at, &bit)| u8::from(bit) << at).sum();
    output.chunks(8).map(byte).collect()
}

pub fn db(thread: u32) -> u64 {
    /// A name, a town, a number, a balance.
    struct Record(Vec<u8>, Vec<u8>, u32, u32);

    let mut random = Random::new(19_000 + u64::from(thread));
    let letters = b"bakodelumirasotefinugahepivowyzu";
    let word = |random: &mut Random, syllables| {
        let drawn = (0..syllables).map(|_| &letters.as_chunks::<2>().0[random.below(16) as usize]);
        drawn.flatten().copied().collect::<Vec<u8>>()
    };
    let mut list: Vec<Record> = Vec::new();
    let mut sum = 0;
    for round in 0..6 {
        for number in 0..400 {
            let name = word(&mut random, 3);
            let town = word(&mut random, 8);
            list.push(Record(name, town, round * 400 + number, 0));
        }
        for _ in 0..800 {
            let name = word(&mut random, 3);
            // The list is in the order of the numbers.
            let mut found = 0;
            for record in list.iter_mut().filter(|record| record.0 == name) {
                found = chained(found, (u64::from(record.2) << 32) + u64::from(record.3));
                record.3 = record.3.wrapping_mul(3).wrapping_add(1);
                record.1.clone_from(&name);
            }
            sum = chained(sum, found);
        }
        for _ in 0..50 {
            list.remove(random.below(list.len() as u32) as usize);
        }
    }
    for _ in 0..2 {
        for Record(name, town, number, balance) in &list {
            sum = hash_on(hash_on(sum, name), town);
            sum = chained(chained(sum, u64::from(*number)), u64::from(*balance));
        }
        list.sort_by(|one, other| (&one.0, one.2).cmp(&(&other.0, other.2)));
    }
    sum
}

pub fn strings(texts: &[(String, String)], thread: u32) -> u64 {
    let mut random = Random::new(20_000 + u64::from(thread));
    let mut sum = 0;
    for (_, text) in texts.iter().chain(texts) {
        let rest = &text[random.below(text.len() as u32) as usize..];
        let mut words = rest.split(|letter: char| !letter.is_ascii_alphanumeric());
        let word = words.find(|word| (2..=32).contains(&word.len()));
        let lines: Vec<&str> = text.split('\n').rev().collect();
        let made = lines.join("\n").replace(word.unwrap_or("none"), "<here>");
        sum = chained(sum, hash_of(made.as_bytes()));
    }
    sum
}
