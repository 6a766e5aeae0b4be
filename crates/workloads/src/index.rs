//! An inverted index over real text, in the manner of luindex and lusearch: built by one thread, queried by all.
//!
//! Terms, postings and documents are objects. Building makes a string for each word of the texts, most of which die at
//! once, and postings that grow in chunks and stay. A query looks up a few words, adds the scores of the documents
//! that have them, and keeps the ten best. It reuses its arrays; `--wasteful` makes all of them anew for each query,
//! and a hit for each document that matches, which the original was known for. Both find the same.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use gleaner::raw::{Address, Value};
use gleaner::{Handle, Heap, Mutator, OutOfMemory};

use super::mutators::Mutators;
use super::objects::{
    Allocated, Code, Numbers, Record, Slots, address, frame, object, shared, value,
};
use super::random::{Random, chained, hash_of, scattered};
use super::texts::{self, Text, words};
use super::{Facts, Prepared, Scale, Workload, failed};

/// Places of the table of terms, at first.
const FIRST_PLACES: usize = 1024;
/// Postings of the first chunk of a term and of its largest one.
const CHUNK: (usize, usize) = (4, 512);
/// Words of a query, at most.
const WORDS: u32 = 3;
/// Hits that a query gives.
const BEST: u64 = 10;
/// Documents whose scores are looked at at once.
const BLOCK: usize = 128;
/// Queries that a thread takes at a time.
const BATCH: usize = 16;

/// Words to look for: any of them, or all.
struct Query {
    text: Vec<u8>,
    all: bool,
}

struct Index<F> {
    texts: Vec<Text>,
    queries: Vec<Query>,
    wasteful: bool,
    /// The next term in its place, the word, the first and the last chunk; hash and count of documents.
    term: Record<F, 4, 8>,
    /// The next chunk, the entries (document and frequency in turn); how many.
    chunk: Record<F, 2, 4>,
    /// The name; its number and its count of words.
    document: Record<F, 1, 8>,
    /// The next hit, the document; the score.
    hit: Record<F, 2, 8>,
    slots: Slots<F>,
    bytes: Numbers<F, u8>,
    numbers: Numbers<F, u32>,
}

/// What was built. The roots are an array of the table of terms and the documents.
struct Built {
    roots: Handle,
    terms: usize,
}

/// What a thread reuses from one query to the next.
struct Arrays<'a> {
    /// `[i]`: the score of document i.
    scores: &'a Cell<Value>,
    /// `[i]`: how many of the words document i has.
    counts: &'a Cell<Value>,
}

/// 12 MB of text and 60,000 queries, or 192 KB and 300.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    let texts = texts::read(scale, "index")?;
    Ok(Box::new(Index::<F> {
        queries: queries(&texts, scale.of(60_000, 300)),
        texts,
        wasteful: scale.wasteful,
        term: Record::register(heap).map_err(failed)?,
        chunk: Record::register(heap).map_err(failed)?,
        document: Record::register(heap).map_err(failed)?,
        hit: Record::register(heap).map_err(failed)?,
        slots: Slots::register(heap).map_err(failed)?,
        bytes: Numbers::register(heap).map_err(failed)?,
        numbers: Numbers::register(heap).map_err(failed)?,
    }))
}

/// Queries made of words that follow one another somewhere in the texts.
fn queries(texts: &[Text], count: usize) -> Vec<Query> {
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
    (0..count).map(query).collect()
}

impl<F: Code> Workload for Index<F> {
    /// A number made of the hits of all queries.
    fn run(
        &self,
        mutator: &mut Mutator,
        mutators: &Mutators,
        facts: &mut Facts,
    ) -> Result<u64, OutOfMemory> {
        let started = Instant::now();
        let built = self.build(mutator)?;
        let build_s = started.elapsed().as_secs_f64();
        let allocated = |mutator: &Mutator| {
            mutator.allocated_bytes() + mutators.allocated.load(Ordering::Relaxed)
        };
        let (before, started) = (allocated(mutator), Instant::now());
        let next = AtomicUsize::new(0);
        let sums = mutators.run(mutator, |mutator, _| self.search(mutator, &built, &next))?;
        let query_s = started.elapsed().as_secs_f64();
        let bytes: usize = self.texts.iter().map(|text| text.bytes.len()).sum();
        let each = (allocated(mutator) - before) / self.queries.len() as u64;
        facts.insert("files".into(), self.texts.len().into());
        facts.insert("bytes".into(), bytes.into());
        facts.insert("terms".into(), built.terms.into());
        facts.insert("build_s".into(), build_s.into());
        facts.insert(
            "queries_per_s".into(),
            (self.queries.len() as f64 / query_s).into(),
        );
        facts.insert("bytes_per_query".into(), each.into());
        self.check(mutator, &built);
        let sum = sums.into_iter().fold(0, u64::wrapping_add);
        Ok(chained(sum, built.terms as u64))
    }
}

/// Building.
impl<F: Code> Index<F> {
    fn root(&self, mutator: &Mutator, built: &Built, index: usize) -> Address {
        self.slots
            .get(mutator, address(built.roots.get_raw()), index)
    }

    fn set_root(
        &self,
        mutator: &mut Mutator,
        built: &Built,
        index: usize,
        to: Address,
    ) -> Result<(), OutOfMemory> {
        self.slots
            .set(mutator, address(built.roots.get_raw()), index, to)
    }

    fn build(&self, mutator: &mut Mutator) -> Result<Built, OutOfMemory> {
        let roots = self.slots.fresh(mutator, 2)?;
        let mut built = Built {
            roots: shared(mutator, roots),
            terms: 0,
        };
        let table = self.slots.fresh(mutator, FIRST_PLACES)?;
        self.set_root(mutator, &built, 0, table)?;
        let documents = self.slots.fresh(mutator, self.texts.len())?;
        self.set_root(mutator, &built, 1, documents)?;
        for (number, text) in self.texts.iter().enumerate() {
            let mut length = 0;
            for word in words(&text.bytes) {
                let word = self.lower(mutator, word)?;
                let term = self.find_or_add(mutator, &mut built, word)?;
                self.post(mutator, term, number as u32)?;
                length += 1;
            }
            self.add_document(mutator, &built, number, length)?;
        }
        Ok(built)
    }

    /// A word in lower case.
    fn lower(&self, mutator: &mut Mutator, word: &[u8]) -> Allocated {
        self.bytes.filled(mutator, word.len(), |_, bytes| {
            bytes.copy_from_slice(word);
            bytes.make_ascii_lowercase();
        })
    }

    fn add_document(
        &self,
        mutator: &mut Mutator,
        built: &Built,
        number: usize,
        length: u32,
    ) -> Result<(), OutOfMemory> {
        let name = self
            .bytes
            .copied(mutator, self.texts[number].name.as_bytes())?;
        frame(mutator, [name], |mutator, [name]| {
            let document = self.document.fresh(mutator)?;
            self.document.set(mutator, document, 0, object(name));
            self.document.set_number(document, 0, number as u32);
            self.document.set_number(document, 1, length);
            let documents = self.root(mutator, built, 1);
            self.slots.set(mutator, documents, number, document)
        })
    }

    /// The term of a word, or null.
    fn find(&self, mutator: &Mutator, table: Address, word: Address) -> Address {
        let hash = self.bytes.look(mutator, word, hash_of) as u32;
        let place = hash as usize & (self.slots.length(mutator, table) - 1);
        let mut term = self.slots.get(mutator, table, place);
        while term != Address::NULL {
            let same = self.term.number(term, 0) == hash
                && self.bytes.look(mutator, word, |word| {
                    let own = self.term.get(mutator, term, 1);
                    self.bytes.look(mutator, own, |own| own == word)
                });
            if same {
                break;
            }
            term = self.term.get(mutator, term, 0);
        }
        term
    }

    fn find_or_add(&self, mutator: &mut Mutator, built: &mut Built, word: Address) -> Allocated {
        let found = self.find(mutator, self.root(mutator, built, 0), word);
        if found != Address::NULL {
            return Ok(found);
        }
        frame(mutator, [word, Address::NULL], |mutator, [word, term]| {
            term.set(value(self.term.fresh(mutator)?));
            let hash = self.bytes.look(mutator, object(word), hash_of) as u32;
            self.term.set(mutator, object(term), 1, object(word));
            self.term.set_number(object(term), 0, hash);
            built.terms += 1;
            self.grow(mutator, built)?;
            let table = self.root(mutator, built, 0);
            self.insert(mutator, table, object(term))?;
            Ok(object(term))
        })
    }

    fn insert(
        &self,
        mutator: &mut Mutator,
        table: Address,
        term: Address,
    ) -> Result<(), OutOfMemory> {
        let hash = self.term.number(term, 0) as usize;
        let place = hash & (self.slots.length(mutator, table) - 1);
        self.term
            .set(mutator, term, 0, self.slots.get(mutator, table, place));
        self.slots.set(mutator, table, place, term)
    }

    /// Makes the table twice as long when there are more terms than places.
    fn grow(&self, mutator: &mut Mutator, built: &Built) -> Result<(), OutOfMemory> {
        let length = self.slots.length(mutator, self.root(mutator, built, 0));
        if built.terms <= length {
            return Ok(());
        }
        let larger = self.slots.fresh(mutator, 2 * length)?;
        let table = self.root(mutator, built, 0);
        let roots = [larger, table, Address::NULL];
        frame(mutator, roots, |mutator, [larger, table, next]| {
            for place in 0..length {
                let mut term = self.slots.get(mutator, object(table), place);
                while term != Address::NULL {
                    next.set(value(self.term.get(mutator, term, 0)));
                    self.insert(mutator, object(larger), term)?;
                    term = object(next);
                }
            }
            self.set_root(mutator, built, 0, object(larger))
        })
    }

    /// A document has a term once more.
    fn post(&self, mutator: &mut Mutator, term: Address, document: u32) -> Result<(), OutOfMemory> {
        let mut chunk = self.term.get(mutator, term, 3);
        let mut capacity;
        if chunk != Address::NULL {
            let used = self.chunk.number(chunk, 0) as usize;
            let entries = self.chunk.get(mutator, chunk, 1);
            capacity = self.numbers.length(mutator, entries) / 2;
            if self.numbers.get(mutator, entries, 2 * used - 2) == document {
                let frequency = self.numbers.get(mutator, entries, 2 * used - 1);
                return self
                    .numbers
                    .set(mutator, entries, 2 * used - 1, frequency + 1);
            }
            if used < capacity {
                capacity = 0;
            }
        } else {
            capacity = CHUNK.0 / 2;
        }
        let mut term = term;
        if capacity > 0 {
            (term, chunk) = self.add_chunk(mutator, term, (2 * capacity).min(CHUNK.1))?;
        }
        let used = self.chunk.number(chunk, 0);
        let entries = self.chunk.get(mutator, chunk, 1);
        self.chunk.set_number(chunk, 0, used + 1);
        let documents = self.term.number(term, 1);
        self.term.set_number(term, 1, documents + 1);
        self.numbers
            .write(mutator, entries, 2 * used as usize, &[document, 1])
    }

    /// A term gets another chunk; where both are now.
    fn add_chunk(
        &self,
        mutator: &mut Mutator,
        term: Address,
        capacity: usize,
    ) -> Result<(Address, Address), OutOfMemory> {
        frame(
            mutator,
            [term, Address::NULL],
            |mutator, [term, entries]| {
                entries.set(value(self.numbers.fresh(mutator, 2 * capacity)?));
                let chunk = self.chunk.fresh(mutator)?;
                self.chunk.set(mutator, chunk, 1, object(entries));
                let last = self.term.get(mutator, object(term), 3);
                if last == Address::NULL {
                    self.term.set(mutator, object(term), 2, chunk);
                } else {
                    self.chunk.set(mutator, last, 0, chunk);
                }
                self.term.set(mutator, object(term), 3, chunk);
                Ok((object(term), chunk))
            },
        )
    }

    /// The postings come to all words of all documents.
    fn check(&self, mutator: &Mutator, built: &Built) {
        let (table, documents) = (self.root(mutator, built, 0), self.root(mutator, built, 1));
        let (mut terms, mut posted, mut expected) = (0, 0, 0);
        for place in 0..self.slots.length(mutator, table) {
            let mut term = self.slots.get(mutator, table, place);
            while term != Address::NULL {
                let mut count = 0;
                self.postings(mutator, term, |_, frequency| {
                    count += 1;
                    posted += u64::from(frequency);
                });
                assert_eq!(count, self.term.number(term, 1), "a term has its documents");
                terms += 1;
                term = self.term.get(mutator, term, 0);
            }
        }
        for number in 0..self.texts.len() {
            let document = self.slots.get(mutator, documents, number);
            expected += u64::from(self.document.number(document, 1));
        }
        assert_eq!(terms, built.terms, "the table has all terms");
        assert_eq!(posted, expected, "each word is posted once");
    }
}

/// Querying.
impl<F: Code> Index<F> {
    /// Does queries until there are no more; the sum of what they found.
    fn search(
        &self,
        mutator: &mut Mutator,
        built: &Built,
        next: &AtomicUsize,
    ) -> Result<u64, OutOfMemory> {
        frame(mutator, [Address::NULL; 2], |mutator, [scores, counts]| {
            let arrays = &Arrays { scores, counts };
            self.fresh_arrays(mutator, arrays)?;
            let mut sum = 0u64;
            loop {
                let first = next.fetch_add(BATCH, Ordering::Relaxed);
                if first >= self.queries.len() {
                    return Ok(sum);
                }
                for number in first..(first + BATCH).min(self.queries.len()) {
                    if self.wasteful {
                        self.fresh_arrays(mutator, arrays)?;
                    }
                    let found = self.query(mutator, built, &self.queries[number], arrays)?;
                    sum = sum.wrapping_add(scattered(found ^ (number as u64) << 32));
                }
            }
        })
    }

    fn fresh_arrays(&self, mutator: &mut Mutator, arrays: &Arrays<'_>) -> Result<(), OutOfMemory> {
        let count = self.texts.len();
        arrays
            .scores
            .set(value(self.numbers.fresh(mutator, count)?));
        arrays.counts.set(value(self.bytes.fresh(mutator, count)?));
        Ok(())
    }

    /// A number made of the best hits of a query.
    fn query(
        &self,
        mutator: &mut Mutator,
        built: &Built,
        query: &Query,
        arrays: &Arrays<'_>,
    ) -> Result<u64, OutOfMemory> {
        let text = self.bytes.copied(mutator, &query.text)?;
        let count = frame(mutator, [text], |mutator, [text]| {
            let (mut count, mut from) = (0, 0);
            loop {
                let length = self.bytes.look(mutator, object(text), |text| {
                    let rest = text.get(from..).unwrap_or_default();
                    rest.iter()
                        .position(|&byte| byte == b' ')
                        .unwrap_or(rest.len())
                });
                if length == 0 {
                    return Ok(count);
                }
                let word = self.part(mutator, text, from, length)?;
                self.score(mutator, built, word, arrays)?;
                from += length + 1;
                count += 1;
            }
        })?;
        self.best(mutator, built, if query.all { count } else { 1 }, arrays)
    }

    /// A word of a text, in lower case.
    fn part(
        &self,
        mutator: &mut Mutator,
        text: &Cell<Value>,
        from: usize,
        length: usize,
    ) -> Allocated {
        self.bytes.filled(mutator, length, |mutator, word| {
            self.bytes.look(mutator, object(text), |text| {
                word.copy_from_slice(&text[from..from + length]);
            });
            word.make_ascii_lowercase();
        })
    }

    /// Adds to the scores of the documents that have a word.
    fn score(
        &self,
        mutator: &mut Mutator,
        built: &Built,
        word: Address,
        arrays: &Arrays<'_>,
    ) -> Result<(), OutOfMemory> {
        let term = self.find(mutator, self.root(mutator, built, 0), word);
        if term == Address::NULL {
            return Ok(());
        }
        let rare = 1 + (self.texts.len() as u32 / self.term.number(term, 1)).ilog2();
        let roots = [
            self.root(mutator, built, 1),
            self.term.get(mutator, term, 2),
            Address::NULL,
        ];
        frame(mutator, roots, |mutator, [documents, chunk, entries]| {
            while object(chunk) != Address::NULL {
                entries.set(value(self.chunk.get(mutator, object(chunk), 1)));
                for entry in 0..self.chunk.number(object(chunk), 0) as usize {
                    let number = self.numbers.get(mutator, object(entries), 2 * entry) as usize;
                    let frequency = self.numbers.get(mutator, object(entries), 2 * entry + 1);
                    let document = self.slots.get(mutator, object(documents), number);
                    let length = self.document.number(document, 1);
                    let more = 1024 * frequency * rare / (64 + length / 16);
                    self.numbers
                        .update(mutator, object(arrays.scores), number, |score| {
                            score.wrapping_add(more)
                        })?;
                    self.bytes
                        .update(mutator, object(arrays.counts), number, |count| count + 1)?;
                }
                chunk.set(value(self.chunk.get(mutator, object(chunk), 0)));
            }
            Ok(())
        })
    }

    /// Each document of a term, with its frequency.
    fn postings(&self, mutator: &Mutator, term: Address, mut each: impl FnMut(usize, u32)) {
        let mut chunk = self.term.get(mutator, term, 2);
        while chunk != Address::NULL {
            let used = self.chunk.number(chunk, 0) as usize;
            let entries = self.chunk.get(mutator, chunk, 1);
            self.numbers.look(mutator, entries, |entries| {
                for entry in entries[..2 * used].chunks_exact(2) {
                    each(entry[0] as usize, entry[1]);
                }
            });
            chunk = self.chunk.get(mutator, chunk, 0);
        }
    }

    /// Collects the hits, the best first, and clears the arrays.
    fn best(
        &self,
        mutator: &mut Mutator,
        built: &Built,
        least: u32,
        arrays: &Arrays<'_>,
    ) -> Result<u64, OutOfMemory> {
        frame(mutator, [Address::NULL], |mutator, [list]| {
            let (mut kept, mut worst) = (0, 0);
            let (mut counts, mut scores) = ([0; BLOCK], [0; BLOCK]);
            for first in (0..self.texts.len()).step_by(BLOCK) {
                let these = BLOCK.min(self.texts.len() - first);
                self.bytes
                    .read(mutator, object(arrays.counts), first, &mut counts[..these]);
                self.numbers
                    .read(mutator, object(arrays.scores), first, &mut scores[..these]);
                self.bytes
                    .fill(mutator, object(arrays.counts), first, these, 0)?;
                self.numbers
                    .fill(mutator, object(arrays.scores), first, these, 0)?;
                for (offset, (&count, &score)) in counts[..these].iter().zip(&scores).enumerate() {
                    if u32::from(count) < least {
                        continue;
                    }
                    let better = kept < BEST || score > worst;
                    if better || self.wasteful {
                        let hit = self.hit.fresh(mutator)?;
                        let documents = self.root(mutator, built, 1);
                        let document = self.slots.get(mutator, documents, first + offset);
                        self.hit.set(mutator, hit, 1, document);
                        self.hit.set_long(hit, 0, u64::from(score));
                        if better {
                            (kept, worst) = self.keep(mutator, list, hit);
                        }
                    }
                }
            }
            self.shown(mutator, object(list), kept)
        })
    }

    /// What is shown of the hits: a number made of titles and scores.
    fn shown(&self, mutator: &mut Mutator, hits: Address, count: u64) -> Result<u64, OutOfMemory> {
        frame(mutator, [hits, Address::NULL], |mutator, [hit, titles]| {
            titles.set(value(self.slots.fresh(mutator, count as usize)?));
            let mut sum = count;
            for index in 0..count as usize {
                let document = self.hit.get(mutator, object(hit), 1);
                let title = self.copy(mutator, self.document.get(mutator, document, 0))?;
                sum = chained(sum, self.bytes.look(mutator, title, hash_of));
                sum = chained(sum, self.hit.long(object(hit), 0));
                self.slots.set(mutator, object(titles), index, title)?;
                hit.set(value(self.hit.get(mutator, object(hit), 0)));
            }
            assert!(object(hit) == Address::NULL, "the list has so many hits");
            Ok(sum)
        })
    }

    /// A fresh string with the same bytes.
    fn copy(&self, mutator: &mut Mutator, from: Address) -> Allocated {
        frame(mutator, [from], |mutator, [from]| {
            let length = self.bytes.length(mutator, object(from));
            self.bytes.filled(mutator, length, |mutator, copy| {
                self.bytes
                    .look(mutator, object(from), |bytes| copy.copy_from_slice(bytes));
            })
        })
    }

    /// Puts a hit into the list, behind those that are as good; how many there are then, and the score of the last.
    fn keep(&self, mutator: &Mutator, list: &Cell<Value>, hit: Address) -> (u64, u32) {
        let score = self.hit.long(hit, 0);
        let (mut before, mut after, mut count) = (Address::NULL, object(list), 1);
        while after != Address::NULL && self.hit.long(after, 0) >= score {
            (before, after) = (after, self.hit.get(mutator, after, 0));
            count += 1;
        }
        self.hit.set(mutator, hit, 0, after);
        if before == Address::NULL {
            list.set(value(hit));
        } else {
            self.hit.set(mutator, before, 0, hit);
        }
        let mut last = hit;
        while after != Address::NULL && count < BEST {
            (last, after) = (after, self.hit.get(mutator, after, 0));
            count += 1;
        }
        self.hit.set(mutator, last, 0, Address::NULL);
        (count, self.hit.long(last, 0) as u32)
    }
}
