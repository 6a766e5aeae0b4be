//! Comparisons that are made up, of which the truth is known.

use super::*;
use crate::compare::statistics::paired_ratio;

/// Comparisons of each kind. With 1,000 of them, 5 % are hardly ever 7 %: three standard deviations.
const COMPARISONS: usize = 1_000;
const MOST_WRONG: usize = COMPARISONS * 7 / 100;
/// Rounds for which a comparison has time.
const ROUNDS: usize = 93;

/// Numbers as if at random, the same in each run (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (one, other) = (self.uniform(), self.uniform());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    }

    fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    fn chance(&mut self, probability: f64) -> f64 {
        f64::from(u8::from(self.uniform() < probability))
    }
}

/// What a run takes beyond its own time, as a logarithm; the place of the run among all is given.
type Noise = fn(&mut Random, usize) -> f64;

const NOISES: [(&str, Noise); 8] = [
    ("a quiet machine", |random, _| 0.02 * random.normal()),
    ("a noisy machine", |random, _| 0.15 * random.normal()),
    ("skewed noise", |random, _| 0.1 * random.exponential()),
    ("noise with a long tail", |random, _| {
        (1.2 * random.normal() - 3.0).exp()
    }),
    ("two speeds", |random, _| {
        0.4 * random.chance(0.5) + 0.01 * random.normal()
    }),
    ("a speed that lasts for some runs", |random, place| {
        0.4 * f64::from(u8::from(place / 7 % 2 == 1)) + 0.01 * random.normal()
    }),
    ("rare disturbances", |random, _| {
        random.chance(0.05) + 0.01 * random.normal()
    }),
    ("a machine that becomes slower", |random, place| {
        0.02 * random.normal() + 0.03 * place as f64
    }),
];

/// The verdict on sides of which one takes `truth` of the other's time, and after how many rounds.
fn compare(random: &mut Random, noise: Noise, truth: f64, looks: Looks) -> (Verdict, usize) {
    let (mut top, mut bottom) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        let is_first = crate::compare::rounds::is_first(random.0, round);
        let mut run = |place: usize| noise(random, 2 * round + place).exp();
        let (one, other) = (run(usize::from(!is_first)), run(usize::from(is_first)));
        top.push(truth * one);
        bottom.push(other);
        if looks.are_due(round) || round == ROUNDS {
            let ratio = paired_ratio(&top, &bottom, looks.confidence()).unwrap();
            let verdict = Verdict::of(&ratio);
            if verdict != Verdict::Undecided {
                return (verdict, round);
            }
        }
    }
    (Verdict::Undecided, ROUNDS)
}

/// Whether a verdict contradicts the truth.
fn is_wrong(verdict: Verdict, truth: f64) -> bool {
    match verdict {
        Verdict::Faster => truth >= 1.0,
        Verdict::Slower => truth <= 1.0,
        Verdict::Same => !(1.0 / SAME..=SAME).contains(&truth),
        Verdict::Undecided => false,
    }
}

#[test]
fn few_verdicts_are_wrong_whatever_the_noise() {
    let looks = Looks::UntilDecided { first: FIRST_LOOK };
    for (name, noise) in NOISES {
        for truth in [1.0, 0.97, 1.3] {
            let mut random = Random(0x5EED_0000_0001);
            let wrong = (0..COMPARISONS)
                .filter(|_| is_wrong(compare(&mut random, noise, truth, looks).0, truth))
                .count();
            assert!(
                wrong <= MOST_WRONG,
                "{wrong} of {COMPARISONS} are wrong on {name}, the truth being {truth}"
            );
        }
    }
}

/// The test above can see what it is to see: looks at 95 % each are wrong too often.
#[test]
fn looks_that_take_no_account_of_each_other_are_wrong_too_often() {
    let mut random = Random(0x5EED_0000_0001);
    let wrong = (0..COMPARISONS).filter(|_| {
        let (mut top, mut bottom) = (Vec::new(), Vec::new());
        (1..=40).any(|_| {
            top.push((0.15 * random.normal()).exp());
            bottom.push((0.15 * random.normal()).exp());
            let ratio = paired_ratio(&top, &bottom, 0.95).unwrap();
            is_wrong(Verdict::of(&ratio), 1.0)
        })
    });
    let wrong = wrong.count();
    assert!(wrong > 2 * MOST_WRONG, "{wrong}");
}

#[test]
fn what_is_clear_is_decided_at_the_first_look() {
    let mut random = Random(0x5EED_0000_0002);
    let looks = Looks::UntilDecided { first: FIRST_LOOK };
    let mut count = |truth, expected| {
        (0..100)
            .filter(|_| compare(&mut random, NOISES[0].1, truth, looks) == (expected, FIRST_LOOK))
            .count()
    };
    let (faster, slower) = (count(0.7, Verdict::Faster), count(1.4, Verdict::Slower));
    assert!(faster > 90 && slower > 90, "{faster} and {slower} of 100");
}

#[test]
fn sides_that_are_the_same_are_found_to_be() {
    let mut random = Random(0x5EED_0000_0003);
    let looks = Looks::UntilDecided { first: FIRST_LOOK };
    let same = (0..100)
        .filter(|_| compare(&mut random, NOISES[0].1, 1.0, looks).0 == Verdict::Same)
        .count();
    assert!(same > 80, "{same} of 100");
}

#[test]
fn looks_come_at_growing_distances() {
    let looks = Looks::UntilDecided { first: 5 };
    let due: Vec<usize> = (0..500).filter(|&rounds| looks.are_due(rounds)).collect();
    assert_eq!(due, [5, 8, 12, 18, 27, 41, 62, 93, 140, 210, 315, 473]);
    assert_eq!(looks.last(), 473);
    assert!((looks.confidence() - (1.0 - 0.05 / 12.0)).abs() < 1e-12);
    let once = Looks::Once { rounds: 20 };
    assert!(once.are_due(20) && !once.are_due(19) && once.last() == 20);
    assert!((once.confidence() - 0.95).abs() < 1e-12);
}

#[test]
fn two_rounds_decide_nothing() {
    let ratio = paired_ratio(&[1.0, 1.0], &[2.0, 2.0], 0.95).unwrap();
    assert_eq!(Verdict::of(&ratio), Verdict::Undecided);
}
