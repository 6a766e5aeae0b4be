//! `index`: the same queries on maps.

use std::collections::BTreeMap;

use super::random::{Random, chained, hash_of, scattered};

/// What 300 queries come to, over texts with their names in the order in which they are read.
pub fn index(texts: &[(String, String)]) -> u64 {
    let mut postings: BTreeMap<String, BTreeMap<usize, u32>> = BTreeMap::new();
    for (number, (_, text)) in texts.iter().enumerate() {
        for word in words(text) {
            let documents = postings.entry(word.to_lowercase()).or_default();
            *documents.entry(number).or_default() += 1;
        }
    }
    let mut random = Random::new(12_000);
    let mut sum = 0u64;
    for number in 0..300u64 {
        let text = &texts[random.below(texts.len() as u32) as usize].1;
        let from = random.below(text.len() as u32) as usize;
        let count = 1 + random.below(3) as usize;
        let query: Vec<&str> = words(&text[from..]).into_iter().take(count).collect();
        let least = if random.below(2) == 0 { query.len() } else { 1 };
        let found = best(texts, &postings, &query, least);
        sum = sum.wrapping_add(scattered(found ^ number << 32));
    }
    chained(sum, postings.len() as u64)
}

fn words(text: &str) -> Vec<&str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| (2..=32).contains(&word.len()))
        .collect()
}

fn best(
    texts: &[(String, String)],
    postings: &BTreeMap<String, BTreeMap<usize, u32>>,
    query: &[&str],
    least: usize,
) -> u64 {
    let mut hits: BTreeMap<usize, (usize, u32)> = BTreeMap::new();
    for word in query {
        // The first word of a query may be the end of one.
        let Some(documents) = postings.get(&word.to_lowercase()) else {
            continue;
        };
        let rare = 1 + (texts.len() / documents.len()).ilog2();
        for (&number, frequency) in documents {
            let length = words(&texts[number].1).len() as u32;
            let hit = hits.entry(number).or_default();
            hit.0 += 1;
            hit.1 += 1024 * frequency * rare / (64 + length / 16);
        }
    }
    // No words at all: every document has all of them.
    let mut hits: Vec<(u32, usize)> = match query {
        [] if least == 0 => (0..texts.len()).map(|number| (0, number)).collect(),
        _ => hits
            .into_iter()
            .filter(|(_, (count, _))| *count >= least)
            .map(|(number, (_, score))| (score, number))
            .collect(),
    };
    hits.sort_by_key(|&(score, number)| (std::cmp::Reverse(score), number));
    hits.truncate(10);
    hits.iter()
        .fold(hits.len() as u64, |sum, &(score, number)| {
            chained(
                chained(sum, hash_of(texts[number].0.as_bytes())),
                u64::from(score),
            )
        })
}
