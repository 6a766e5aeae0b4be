//! An inverted index over real text, step by step as in `gleaner-bench native`: built by one thread, queried by all.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::context::{Context, Mode};
use crate::failure::Result;
use crate::handles::Handle;
use crate::mutators;
use crate::object::{References, length};
use crate::records::{Record, copied};
use crate::shared::Scale;
use crate::shared::random::{Random, chained, hash_of, scattered};
use crate::shared::texts::{self, Text, words};

/// Places of the table of terms, at first.
const FIRST_PLACES: usize = 1024;
/// Postings of the first chunk of a term and of its largest one.
const CHUNK: (usize, usize) = (4, 512);
/// Words of a query, at most.
const WORDS: u32 = 3;
/// Hits that a query gives.
const BEST: u64 = 10;
/// Queries that a thread takes at a time.
const BATCH: usize = 16;

/// The next term in its place, the word, the first and the last chunk; hash and count of documents.
const TERM: Record = Record::new(4, 8);
/// The next chunk, the entries (document and frequency in turn); how many.
const POSTINGS: Record = Record::new(2, 4);
/// The name; its number and its count of words.
const DOCUMENT: Record = Record::new(1, 8);
/// The next hit, the document; the score.
const HIT: Record = Record::new(2, 8);

/// Words to look for: any of them, or all.
struct Query {
    text: Vec<u8>,
    all: bool,
}

/// What is indexed and looked for.
pub struct Input {
    texts: Vec<Text>,
    queries: Vec<Query>,
}

/// The index. The roots are an array of the table of terms and the documents.
struct Index<'a, R, M> {
    input: &'a Input,
    wasteful: bool,
    roots: Handle,
    terms: usize,
    kinds: PhantomData<fn(R, M)>,
}

/// What a thread reuses from one query to the next.
struct Arrays<'a> {
    /// `[i]`: the score of document i.
    scores: &'a Cell<usize>,
    /// `[i]`: how many of the words document i has.
    counts: &'a Cell<usize>,
}

impl Input {
    /// Reads the texts, and makes queries of words that follow one another somewhere in them.
    pub fn read(scale: &Scale) -> Result<Input> {
        let texts = texts::read(scale, "index")?;
        let mut random = Random::new(12_000);
        let query = |_| {
            let text = &texts[random.below(texts.len() as u32) as usize].bytes;
            let from = random.below(text.len() as u32) as usize;
            let count = 1 + random.below(WORDS) as usize;
            let found: Vec<&[u8]> = words(&text[from..]).take(count).collect();
            Query {
                text: found.join(&b' '),
                all: random.below(2) == 0,
            }
        };
        let queries = (0..scale.of(60_000, 300)).map(query).collect();
        Ok(Input { texts, queries })
    }
}

/// Runs once; a number made of the hits of all queries, and how many queries there were in a second.
pub fn index<R: References, M: Mode>(
    context: &mut Context<R, M>,
    threads: u32,
    input: &Input,
    wasteful: bool,
) -> (u64, f64) {
    let index = Index::build(context, input, wasteful);
    let started = Instant::now();
    let next = AtomicUsize::new(0);
    let sum = mutators::own(context, threads, |context, _| index.search(context, &next));
    let query_s = started.elapsed().as_secs_f64();
    index.check(context);
    let sum = chained(sum, index.terms as u64);
    (sum, input.queries.len() as f64 / query_s)
}

/// Building.
impl<'a, R: References, M: Mode> Index<'a, R, M> {
    fn build(context: &mut Context<R, M>, input: &'a Input, wasteful: bool) -> Index<'a, R, M> {
        let mut index = Index {
            input,
            wasteful,
            roots: Handle::new(context.references(2)),
            terms: 0,
            kinds: PhantomData,
        };
        let table = context.references(FIRST_PLACES);
        context.set_element(index.roots.get(), 0, table);
        let documents = context.references(input.texts.len());
        context.set_element(index.roots.get(), 1, documents);
        for (number, text) in input.texts.iter().enumerate() {
            let mut length = 0;
            for word in words(&text.bytes) {
                let word = lower(context, word);
                let term = index.find_or_add(context, word);
                post(context, term, number as u32);
                length += 1;
            }
            index.add_document(context, number, length);
        }
        index
    }

    fn table(&self, context: &Context<R, M>) -> usize {
        context.element(self.roots.get(), 0)
    }

    fn documents(&self, context: &Context<R, M>) -> usize {
        context.element(self.roots.get(), 1)
    }

    fn add_document(&self, context: &mut Context<R, M>, number: usize, length: u32) {
        let name = copied(context, self.input.texts[number].name.as_bytes());
        context.with_roots([name], |context, [name]| {
            let document = DOCUMENT.fresh(context);
            context.set(document, 0, name.get());
            DOCUMENT.set_number(context, document, 0, number as u32);
            DOCUMENT.set_number(context, document, 1, length);
            context.set_element(self.documents(context), number, document);
        });
    }

    fn find_or_add(&mut self, context: &mut Context<R, M>, word: usize) -> usize {
        let found = find(context, self.table(context), word);
        if found != 0 {
            return found;
        }
        context.with_roots([word, 0], |context, [word, term]| {
            term.set(TERM.fresh(context));
            let hash = context.look(word.get(), hash_of) as u32;
            context.set(term.get(), 1, word.get());
            TERM.set_number(context, term.get(), 0, hash);
            self.terms += 1;
            self.grow(context);
            insert(context, self.table(context), term.get());
            term.get()
        })
    }

    /// Makes the table twice as long when there are more terms than places.
    fn grow(&self, context: &mut Context<R, M>) {
        let places = length(self.table(context));
        if self.terms <= places {
            return;
        }
        let larger = context.references(2 * places);
        let table = self.table(context);
        for place in 0..places {
            let mut term = context.element(table, place);
            while term != 0 {
                let next = context.get(term, 0);
                insert(context, larger, term);
                term = next;
            }
        }
        context.set_element(self.roots.get(), 0, larger);
    }

    /// The postings come to all words of all documents.
    fn check(&self, context: &Context<R, M>) {
        let (table, documents) = (self.table(context), self.documents(context));
        let (mut terms, mut posted, mut expected) = (0, 0, 0);
        for place in 0..length(table) {
            let mut term = context.element(table, place);
            while term != 0 {
                let mut count = 0;
                postings(context, term, |_, frequency| {
                    count += 1;
                    posted += u64::from(frequency);
                });
                assert_eq!(
                    count,
                    TERM.number(context, term, 1),
                    "a term has its documents"
                );
                terms += 1;
                term = context.get(term, 0);
            }
        }
        for number in 0..self.input.texts.len() {
            let document = context.element(documents, number);
            expected += u64::from(DOCUMENT.number(context, document, 1));
        }
        assert_eq!(terms, self.terms, "the table has all terms");
        assert_eq!(posted, expected, "each word is posted once");
    }
}

/// A word in lower case.
fn lower<R: References, M: Mode>(context: &mut Context<R, M>, word: &[u8]) -> usize {
    let fresh = copied(context, word);
    context.change(fresh, |bytes: &mut [u8]| bytes.make_ascii_lowercase());
    fresh
}

/// The term of a word, or 0.
fn find<R: References, M: Mode>(context: &Context<R, M>, table: usize, word: usize) -> usize {
    context.look(word, |word: &[u8]| {
        let hash = hash_of(word) as u32;
        let mut term = context.element(table, hash as usize & (length(table) - 1));
        while term != 0 {
            let same = TERM.number(context, term, 0) == hash
                && context.look(context.get(term, 1), |own: &[u8]| own == word);
            if same {
                break;
            }
            term = context.get(term, 0);
        }
        term
    })
}

fn insert<R: References, M: Mode>(context: &mut Context<R, M>, table: usize, term: usize) {
    let hash = TERM.number(context, term, 0) as usize;
    let place = hash & (length(table) - 1);
    context.set(term, 0, context.element(table, place));
    context.set_element(table, place, term);
}

/// A document has a term once more.
fn post<R: References, M: Mode>(context: &mut Context<R, M>, term: usize, document: u32) {
    let mut chunk = context.get(term, 3);
    let mut capacity = 0;
    if chunk != 0 {
        let used = POSTINGS.number(context, chunk, 0) as usize;
        let again = context.change(context.get(chunk, 1), |entries: &mut [u32]| {
            capacity = entries.len() / 2;
            let again = entries[2 * used - 2] == document;
            entries[2 * used - 1] += u32::from(again);
            again
        });
        if again {
            return;
        }
        if used < capacity {
            capacity = 0;
        }
    } else {
        capacity = CHUNK.0 / 2;
    }
    let mut term = term;
    if capacity > 0 {
        (term, chunk) = add_chunk(context, term, (2 * capacity).min(CHUNK.1));
    }
    let used = POSTINGS.number(context, chunk, 0);
    context.change(context.get(chunk, 1), |entries: &mut [u32]| {
        entries[2 * used as usize..][..2].copy_from_slice(&[document, 1]);
    });
    POSTINGS.set_number(context, chunk, 0, used + 1);
    let documents = TERM.number(context, term, 1);
    TERM.set_number(context, term, 1, documents + 1);
}

/// A term gets another chunk; where both are now.
fn add_chunk<R: References, M: Mode>(
    context: &mut Context<R, M>,
    term: usize,
    capacity: usize,
) -> (usize, usize) {
    context.with_roots([term, 0], |context, [term, entries]| {
        entries.set(context.words(2 * capacity));
        let chunk = POSTINGS.fresh(context);
        context.set(chunk, 1, entries.get());
        let last = context.get(term.get(), 3);
        if last == 0 {
            context.set(term.get(), 2, chunk);
        } else {
            context.set(last, 0, chunk);
        }
        context.set(term.get(), 3, chunk);
        (term.get(), chunk)
    })
}

/// Each document of a term, with its frequency.
#[inline(always)]
fn postings<R: References, M: Mode>(
    context: &Context<R, M>,
    term: usize,
    mut each: impl FnMut(usize, u32),
) {
    let mut chunk = context.get(term, 2);
    while chunk != 0 {
        let used = POSTINGS.number(context, chunk, 0) as usize;
        context.look(context.get(chunk, 1), |entries: &[u32]| {
            for entry in entries[..2 * used].chunks_exact(2) {
                each(entry[0] as usize, entry[1]);
            }
        });
        chunk = context.get(chunk, 0);
    }
}

/// Querying.
impl<R: References, M: Mode> Index<'_, R, M> {
    /// Does queries until there are no more; the sum of what they found.
    fn search(&self, context: &mut Context<R, M>, next: &AtomicUsize) -> u64 {
        let queries = &self.input.queries;
        context.with_roots([0, 0], |context, [scores, counts]| {
            let arrays = &Arrays { scores, counts };
            self.fresh_arrays(context, arrays);
            let mut sum = 0u64;
            loop {
                let first = next.fetch_add(BATCH, Ordering::Relaxed);
                if first >= queries.len() {
                    return sum;
                }
                let last = (first + BATCH).min(queries.len());
                for (number, query) in (first..last).zip(&queries[first..last]) {
                    if self.wasteful {
                        self.fresh_arrays(context, arrays);
                    }
                    let found = self.query(context, query, arrays);
                    sum = sum.wrapping_add(scattered(found ^ (number as u64) << 32));
                }
            }
        })
    }

    fn fresh_arrays(&self, context: &mut Context<R, M>, arrays: &Arrays<'_>) {
        let count = self.input.texts.len();
        arrays.scores.set(context.words(count));
        arrays.counts.set(context.bytes(count));
    }

    /// A number made of the best hits of a query.
    fn query(&self, context: &mut Context<R, M>, query: &Query, arrays: &Arrays<'_>) -> u64 {
        let text = copied(context, &query.text);
        let count = context.with_roots([text], |context, [text]| {
            let (mut count, mut from) = (0, 0);
            loop {
                let length = context.look(text.get(), |text: &[u8]| {
                    let rest = text.get(from..).unwrap_or_default();
                    let end = rest.iter().position(|&byte| byte == b' ');
                    end.unwrap_or(rest.len())
                });
                if length == 0 {
                    return count;
                }
                let word = part(context, text, from, length);
                self.score(context, word, arrays);
                from += length + 1;
                count += 1;
            }
        });
        self.best(context, if query.all { count } else { 1 }, arrays)
    }

    /// Adds to the scores of the documents that have a word.
    fn score(&self, context: &Context<R, M>, word: usize, arrays: &Arrays<'_>) {
        let term = find(context, self.table(context), word);
        if term == 0 {
            return;
        }
        let rare = 1 + (self.input.texts.len() as u32 / TERM.number(context, term, 1)).ilog2();
        let documents = self.documents(context);
        context.change(arrays.scores.get(), |scores: &mut [u32]| {
            context.change(arrays.counts.get(), |counts: &mut [u8]| {
                postings(context, term, |number, frequency| {
                    let document = context.element(documents, number);
                    let length = DOCUMENT.number(context, document, 1);
                    let more = 1024 * frequency * rare / (64 + length / 16);
                    scores[number] = scores[number].wrapping_add(more);
                    counts[number] += 1;
                });
            });
        });
    }

    /// Collects the hits, the best first, and clears the arrays.
    fn best(&self, context: &mut Context<R, M>, least: u32, arrays: &Arrays<'_>) -> u64 {
        context.with_roots([0], |context, [list]| {
            let (mut kept, mut worst) = (0, 0);
            for number in 0..self.input.texts.len() {
                let count = context.change(arrays.counts.get(), |counts: &mut [u8]| {
                    std::mem::take(&mut counts[number])
                });
                let score = context.change(arrays.scores.get(), |scores: &mut [u32]| {
                    std::mem::take(&mut scores[number])
                });
                if u32::from(count) < least {
                    continue;
                }
                let better = kept < BEST || score > worst;
                if better || self.wasteful {
                    let hit = HIT.fresh(context);
                    let document = context.element(self.documents(context), number);
                    context.set(hit, 1, document);
                    HIT.set_long(context, hit, 0, u64::from(score));
                    if better {
                        (kept, worst) = keep(context, list, hit);
                    }
                }
            }
            shown(context, list.get(), kept)
        })
    }
}

/// A word of a text, in lower case.
fn part<R: References, M: Mode>(
    context: &mut Context<R, M>,
    text: &Cell<usize>,
    from: usize,
    length: usize,
) -> usize {
    let word = context.bytes(length);
    context.look(text.get(), |text: &[u8]| {
        context.change(word, |word: &mut [u8]| {
            word.copy_from_slice(&text[from..from + length]);
            word.make_ascii_lowercase();
        });
    });
    word
}

/// What is shown of the hits: a number made of titles and scores.
fn shown<R: References, M: Mode>(context: &mut Context<R, M>, hits: usize, count: u64) -> u64 {
    context.with_roots([hits, 0], |context, [hit, titles]| {
        titles.set(context.references(count as usize));
        let mut sum = count;
        for index in 0..count as usize {
            let document = context.get(hit.get(), 1);
            let title = copy(context, context.get(document, 0));
            context.set_element(titles.get(), index, title);
            sum = chained(sum, context.look(title, hash_of));
            sum = chained(sum, HIT.long(context, hit.get(), 0));
            hit.set(context.get(hit.get(), 0));
        }
        assert!(hit.get() == 0, "the list has so many hits");
        sum
    })
}

/// A fresh string with the same bytes.
fn copy<R: References, M: Mode>(context: &mut Context<R, M>, from: usize) -> usize {
    context.with_roots([from], |context, [from]| {
        let fresh = context.bytes(length(from.get()));
        context.look(from.get(), |bytes: &[u8]| {
            context.change(fresh, |copy: &mut [u8]| copy.copy_from_slice(bytes));
        });
        fresh
    })
}

/// Puts a hit into the list, behind those that are as good; how many there are then, and the score of the last.
fn keep<R: References, M: Mode>(
    context: &mut Context<R, M>,
    list: &Cell<usize>,
    hit: usize,
) -> (u64, u32) {
    let score = HIT.long(context, hit, 0);
    let (mut before, mut after, mut count) = (0, list.get(), 1);
    while after != 0 && HIT.long(context, after, 0) >= score {
        (before, after) = (after, context.get(after, 0));
        count += 1;
    }
    context.set(hit, 0, after);
    if before == 0 {
        list.set(hit);
    } else {
        context.set(before, 0, hit);
    }
    let mut last = hit;
    while after != 0 && count < BEST {
        (last, after) = (after, context.get(after, 0));
        count += 1;
    }
    context.set(last, 0, 0);
    (count, HIT.long(context, last, 0) as u32)
}
