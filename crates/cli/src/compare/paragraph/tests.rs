//! Whatever was measured, each sentence agrees with the numbers below it.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::compare::found::{Both, Figures};
use crate::compare::process::Digest;
use crate::compare::sequential::Looks;
use crate::compare::table;

fn figures(scale: f64) -> impl Strategy<Value = Figures> {
    (0.0..1.0f64, 0.0..1.0f64, 1u64..1 << 32).prop_map(move |(wall, cpu, peak)| Figures {
        // Rounds that are near each other and rounds that are not.
        wall: (wall * scale).exp(),
        cpu: cpu * scale,
        peak,
    })
}

/// Rounds of which one side takes about `ratio` of the other's time.
fn rounds() -> impl Strategy<Value = Vec<Both<Figures>>> {
    let ratio = prop_oneof![Just(1.0), 0.01..100.0f64];
    let scale = prop_oneof![Just(0.001), 0.0..3.0f64];
    (ratio, scale).prop_flat_map(|(ratio, scale)| {
        let round = [figures(scale), figures(scale)].prop_map(move |[mut own, baseline]| {
            own.wall *= ratio;
            [own, baseline]
        });
        prop::collection::vec(round, 0..40)
    })
}

fn pauses() -> impl Strategy<Value = Option<Pauses>> {
    let advice = prop_oneof![
        Just(""),
        Just("3 % of the time went to collections: a larger heap would save little."),
        Just("A heap of 26 MiB from the start (--opt initial-heap=26m) would need about 2."),
    ];
    prop::option::of(
        (0u64..1 << 40, 0u64..100, advice).prop_map(|(longest, count, advice)| Pauses {
            longest,
            all: longest * count,
            count,
            advice: advice.into(),
        }),
    )
}

fn outputs() -> impl Strategy<Value = BTreeSet<Digest>> {
    let digest = (0u64..2).prop_map(|hash| Digest { bytes: 1, hash });
    prop::collection::btree_set(digest, 1..3)
}

fn found() -> impl Strategy<Value = Found> {
    let looks = prop_oneof![
        Just(Looks::UntilDecided { first: 5 }),
        Just(Looks::Once { rounds: 9 })
    ];
    let ending = prop_oneof![
        Just(Ending::Looked),
        Just(Ending::Budget),
        Just(Ending::Interrupted)
    ];
    let own = Side::Gleaner {
        named: String::new(),
        list: String::new(),
    };
    (
        looks,
        rounds(),
        [pauses(), pauses()],
        [outputs(), outputs()],
        ending,
        0u64..1 << 31,
        0.0..1e4f64,
    )
        .prop_map(
            move |(looks, rounds, pauses, outputs, ending, floor, round_takes)| Found {
                sides: [own.clone(), Side::Stock],
                looks,
                rounds,
                pauses,
                outputs,
                ending,
                floor,
                round_takes,
            },
        )
}

/// The numbers of "0.5 [0.4, 0.6]", wherever such a thing stands in a text.
fn intervals(text: &str) -> Vec<[f64; 3]> {
    let number = |text: &str| text.trim().parse().ok();
    let mut found = Vec::new();
    for (at, _) in text.match_indices('[') {
        let value = text[..at].split_whitespace().next_back().and_then(number);
        let ends = text[at + 1..]
            .split_once(']')
            .and_then(|(ends, _)| ends.split_once(','));
        if let (Some(value), Some((low, high))) = (value, ends)
            && let (Some(low), Some(high)) = (number(low), number(high))
        {
            found.push([value, low, high]);
        }
    }
    found
}

/// The numbers of "spans 0.90 to 1.10".
fn spanned(text: &str) -> Option<[f64; 2]> {
    let (_, rest) = text.split_once("spans ")?;
    let mut words = rest.split_whitespace();
    let low = words.next()?.parse().ok()?;
    let high = words.nth(1)?.trim_end_matches('.').parse().ok()?;
    Some([low, high])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sentences_agree_with_the_numbers(found in found()) {
        let numbers = table::text(&found);
        // As one line: where a line ends is chance.
        let sentences = text(&found).replace('\n', " ");
        for [value, low, high] in intervals(&numbers).into_iter().chain(intervals(&sentences)) {
            prop_assert!(0.0 <= low && low <= value && value <= high, "{numbers}{sentences}");
        }
        let row = numbers.lines().find(|line| line.trim_start().starts_with("time "));
        let ratio = row.and_then(|row| intervals(row).first().copied());
        prop_assert_eq!(intervals(&sentences).first().copied(), ratio);
        let says = |words: &str| sentences.contains(words);
        let [is_same, is_faster, is_slower] = match ratio {
            Some([_, low, high]) if found.rounds.len() >= 3 => {
                let is_same = low > 0.98039 && high < 1.02;
                [is_same, high < 1.0 && !is_same, low > 1.0 && !is_same]
            }
            _ => [false; 3],
        };
        prop_assert_eq!(says("take the same time within 2 %"), is_same, "{}{}", numbers, sentences);
        prop_assert_eq!(sentences.starts_with("Gleaner is faster"), is_faster, "{}{}", numbers, sentences);
        prop_assert_eq!(sentences.starts_with("Gleaner is slower"), is_slower, "{}{}", numbers, sentences);
        let is_decided = is_same || is_faster || is_slower;
        prop_assert_eq!(says("Undecided"), !is_decided);
        prop_assert!(!says("would decide") || !is_decided);
        let row = numbers.lines().find(|line| line.trim_start().starts_with("processor time"));
        let processor = row.and_then(|row| intervals(row).first().copied());
        for (words, is_so) in [
            ("takes less than", processor.is_some_and(|[_, _, high]| high < 1.0)),
            ("takes more than", processor.is_some_and(|[_, low, _]| low > 1.0)),
        ] {
            prop_assert!(!says(words) || is_so && !is_decided, "{numbers}{sentences}");
        }
    }

    #[test]
    fn the_machine_is_as_the_baseline_spans(found in found()) {
        let sentences = text(&found).replace('\n', " ");
        let says = |words: &str| sentences.contains(words);
        let Some([low, high]) = spanned(&sentences) else {
            prop_assert!(!says("a quiet machine.") && !says("busy"), "{}", sentences);
            return Ok(());
        };
        prop_assert!(low <= high);
        // Within a tenth, of which the reciprocal is a little less.
        let is_quiet = low >= 0.91 && high <= 1.10;
        prop_assert_eq!(says("a quiet machine."), is_quiet, "{}", sentences);
        prop_assert_eq!(says("too busy"), low < 0.8 || high > 1.25, "{}", sentences);
        prop_assert_eq!(says("a busy machine."), says("too busy"), "{}", sentences);
        let is_restless = !is_quiet && !says("too busy");
        prop_assert_eq!(says("a restless machine."), is_restless, "{}", sentences);
    }

    #[test]
    fn other_outputs_and_unknown_pauses_are_said(found in found()) {
        let sentences = text(&found).replace('\n', " ");
        let [own, baseline] = &found.outputs;
        let varies = own.len() > 1 || baseline.len() > 1;
        prop_assert_eq!(sentences.contains("from run to run, so it"), varies);
        prop_assert_eq!(sentences.contains("Beware"), !varies && own != baseline);
        let is_unknown = found.pauses.iter().any(Option::is_none);
        prop_assert_eq!(sentences.contains("not known"), is_unknown);
        prop_assert_eq!(table::text(&found).contains("longest pause"), found.pauses != [None, None]);
    }

    #[test]
    fn what_is_switched_on_was_advised(found in found()) {
        let lines = commands(&found, "bin/gleaner".as_ref(), &["a b".into()]);
        let advised = found.pauses[OWN].as_ref().is_some_and(|pauses| pauses.advice.contains("--opt"));
        prop_assert_eq!(lines.contains("--against '' --opt initial-heap=26m -- 'a b'"), advised);
        prop_assert_eq!(
            lines.contains("To use it:  bin/gleaner exec -- 'a b'"),
            found.verdict() == Verdict::Faster
        );
    }
}

#[test]
fn a_clear_case_in_words() {
    let run = |wall: f64, peak: u64| Figures {
        wall,
        cpu: 2.0 * wall,
        peak: peak << 20,
    };
    let paused = |longest: u64, count: u64| {
        Some(Pauses {
            longest,
            all: longest * count,
            count,
            advice: String::new(),
        })
    };
    let found = Found {
        sides: against_stock(),
        looks: Looks::UntilDecided { first: 5 },
        rounds: [1.0, 1.01, 1.02, 0.99, 1.0]
            .map(|noise| [run(0.5, 30), run(noise, 20)])
            .to_vec(),
        pauses: [paused(2_000_000, 9), paused(20_000_000, 9)],
        outputs: [BTreeSet::new(), BTreeSet::new()],
        ending: Ending::Looked,
        floor: 0,
        round_takes: 1.5,
    };
    assert_eq!(
        text(&found),
        "Gleaner is faster than libgc: it takes 0.500 [0.483, 0.514] of the time, 0.100 of the longest pause (one run\n\
         each) and 1.500 of the peak memory; 5 rounds, a quiet machine. The noise: libgc against itself, from one round\n\
         to the next, spans 0.97 to 1.02. The log of Gleaner advises nothing to switch on.\n"
    );
    assert!(
        table::text(&found).contains(
            "  time              500 ms    1.00 s  0.500 [0.483, 0.514]\n  processor time    1.00 s    2.00 s"
        ),
        "{}",
        table::text(&found)
    );
    assert!(
        table::text(&found).contains("  longest pause    2.00 ms   20.0 ms  0.100\n"),
        "{}",
        table::text(&found)
    );
}

/// Gleaner as it comes, and libgc.
fn against_stock() -> [Side; 2] {
    let [named, list] = [String::new(), String::new()];
    [Side::Gleaner { named, list }, Side::Stock]
}

/// A comparison whose rounds have these ratios, and take a second.
fn undecided_after(ratios: &[f64]) -> Found {
    let run = |wall: f64| Figures {
        wall,
        cpu: wall,
        peak: 1 << 24,
    };
    Found {
        sides: against_stock(),
        looks: Looks::UntilDecided { first: 5 },
        rounds: ratios.iter().map(|&ratio| [run(ratio), run(1.0)]).collect(),
        pauses: [None, None],
        outputs: [BTreeSet::new(), BTreeSet::new()],
        ending: Ending::Budget,
        floor: 0,
        round_takes: 1.0,
    }
}

#[test]
fn how_many_rounds_would_decide_is_not_estimated_from_too_few() {
    let ratios = [0.95, 0.99, 0.90, 1.05];
    for (rounds, made) in [
        (1, "1 round tells"),
        (2, "2 rounds tell"),
        (3, "3 rounds tell"),
    ] {
        let said = text(&undecided_after(&ratios[..rounds])).replace('\n', " ");
        let expected = format!(
            "The budget is used up: {made} too little of the noise to say how many would decide. 5 rounds can tell that, \
             in 5.00 s (--rounds 5)."
        );
        assert!(said.contains(&expected), "{said}");
        assert!(!said.contains("about"), "{said}");
    }
    let said = text(&undecided_after(&ratios)).replace('\n', " ");
    assert!(said.contains("The budget is used up: about "), "{said}");
    assert!(said.contains(" rounds would decide, in "), "{said}");
}
