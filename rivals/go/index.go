package main

import (
	"math/bits"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
)

const (
	firstPlaces   = 1024 // of the table of terms
	firstPostings = 4    // of the first chunk of a term
	mostPostings  = 512  // of its largest one
	queryWords    = 3
	bestHits      = 10
	queryBatch    = 16 // queries that a mutator takes at a time
)

type term struct {
	next            *term
	word            string
	first, last     *chunk
	hash, documents uint32
}

type chunk struct {
	next *chunk
	// As many as are used; there is room for more.
	postings []posting
}

type posting struct{ document, frequency uint32 }

type document struct {
	name           string
	number, length uint32
}

type hit struct {
	next     *hit
	document *document
	score    uint64
}

// query: words to look for, any of them, or all. It is outside of the heap, as its text.
type query struct {
	text []byte
	all  bool
}

// index: what is read, and what is built of it.
type index struct {
	texts     []text
	queries   []query
	wasteful  bool
	table     []*term
	documents []*document
	terms     int
}

// searcher: what a mutator reuses from one query to the next. What it makes anew is here, too, and so on the heap.
type searcher struct {
	*index
	// Of each document, its score and how many of the words it has.
	scores []uint32
	counts []uint8
	text   string
	word   string
	titles []string
}

// prepareIndex: an inverted index over real text that is built by one mutator and queried by all.
func prepareIndex(what chosen) (work, error) {
	texts, err := readTexts(what)
	if err != nil {
		return nil, err
	}
	count := 60_000
	if what.tiny {
		count = 300
	}
	queries, err := queriesOf(texts, count)
	if err != nil {
		return nil, err
	}
	debug.FreeOSMemory()
	return func(out *facts) uint64 {
		x := &index{texts: texts, queries: queries, wasteful: what.wasteful}
		return x.run(what.threads, out)
	}, nil
}

// queriesOf makes queries of words that follow one another somewhere in the texts.
func queriesOf(texts []text, count int) ([]query, error) {
	queries, err := outside[query](count)
	if err != nil {
		return nil, err
	}
	room, err := outside[byte](count * queryWords * (longest + 1))
	if err != nil {
		return nil, err
	}
	random := random(12_000)
	for i := range queries {
		text := texts[random.below(uint32(len(texts)))].bytes
		from := int(random.below(uint32(len(text))))
		words := room[:0]
		for left := 1 + random.below(queryWords); left > 0; left-- {
			word, end := nextWord(text, from)
			if word == nil {
				break
			}
			if len(words) > 0 {
				words = append(words, ' ')
			}
			words = append(words, word...)
			from = end
		}
		room = room[len(words):]
		queries[i] = query{words, random.below(2) == 0}
	}
	return queries, nil
}

func (x *index) run(threads int, out *facts) uint64 {
	x.build()
	started := time.Now()
	var next atomic.Int64
	sums := mutate(threads, func(int) uint64 { return x.search(&next) })
	out.QueriesPerS = float64(len(x.queries)) / time.Since(started).Seconds()
	x.check()
	return chained(added(sums), uint64(x.terms))
}

func (x *index) build() {
	x.table = make([]*term, firstPlaces)
	x.documents = make([]*document, len(x.texts))
	for number, text := range x.texts {
		length := uint32(0)
		for word, at := nextWord(text.bytes, 0); word != nil; word, at = nextWord(text.bytes, at) {
			x.findOrAdd(lower(word)).post(uint32(number))
			length++
		}
		x.documents[number] = &document{strings.Clone(text.name), uint32(number), length}
	}
}

// lower is a fresh word in lower case.
func lower[T string | []byte](word T) string {
	var buffer [longest]byte
	fresh := buffer[:len(word)]
	for i := range fresh {
		letter := word[i]
		if 'A' <= letter && letter <= 'Z' {
			letter += 'a' - 'A'
		}
		fresh[i] = letter
	}
	return string(fresh)
}

// find is the term of a word, or nil.
func (x *index) find(word string, hash uint32) *term {
	t := x.table[int(hash)&(len(x.table)-1)]
	for t != nil && !(t.hash == hash && t.word == word) {
		t = t.next
	}
	return t
}

func (x *index) findOrAdd(word string) *term {
	hash := uint32(hashOf(word))
	if found := x.find(word, hash); found != nil {
		return found
	}
	t := &term{word: word, hash: hash}
	x.terms++
	if x.terms > len(x.table) {
		x.grow()
	}
	insert(x.table, t)
	return t
}

func insert(table []*term, t *term) {
	place := int(t.hash) & (len(table) - 1)
	t.next = table[place]
	table[place] = t
}

// grow makes the table twice as long.
func (x *index) grow() {
	larger := make([]*term, 2*len(x.table))
	for _, t := range x.table {
		for t != nil {
			next := t.next
			insert(larger, t)
			t = next
		}
	}
	x.table = larger
}

// post: a document has a term once more.
func (t *term) post(document uint32) {
	last := t.last
	if last == nil {
		last = t.addChunk(firstPostings)
	} else {
		if latest := &last.postings[len(last.postings)-1]; latest.document == document {
			latest.frequency++
			return
		}
		if capacity := cap(last.postings); len(last.postings) == capacity {
			last = t.addChunk(2 * capacity)
		}
	}
	last.postings = append(last.postings, posting{document, 1})
	t.documents++
}

// addChunk gives a term another chunk.
func (t *term) addChunk(capacity int) *chunk {
	if capacity > mostPostings {
		capacity = mostPostings
	}
	fresh := &chunk{postings: make([]posting, 0, capacity)}
	if t.last == nil {
		t.first = fresh
	} else {
		t.last.next = fresh
	}
	t.last = fresh
	return fresh
}

// check: the postings come to all words of all documents.
func (x *index) check() {
	terms, posted, expected := 0, uint64(0), uint64(0)
	for _, t := range x.table {
		for ; t != nil; t = t.next {
			count := 0
			for chunk := t.first; chunk != nil; chunk = chunk.next {
				count += len(chunk.postings)
				for _, posting := range chunk.postings {
					posted += uint64(posting.frequency)
				}
			}
			require(count == int(t.documents), "a term has its documents")
			terms++
		}
	}
	for _, document := range x.documents {
		expected += uint64(document.length)
	}
	require(terms == x.terms, "the table has all terms")
	require(posted == expected, "each word is posted once")
}

// search does queries until there are no more; the sum of what they found.
func (x *index) search(next *atomic.Int64) uint64 {
	s := &searcher{index: x}
	s.renew()
	sum := uint64(0)
	for {
		end := int(next.Add(queryBatch))
		number := end - queryBatch
		if number >= len(x.queries) {
			return sum
		}
		if end > len(x.queries) {
			end = len(x.queries)
		}
		for ; number < end; number++ {
			if x.wasteful {
				s.renew()
			}
			sum += scattered(s.query(&x.queries[number]) ^ uint64(number)<<32)
		}
	}
}

func (s *searcher) renew() {
	s.scores = make([]uint32, len(s.texts))
	s.counts = make([]uint8, len(s.texts))
}

// query is a number made of the best hits of a query.
func (s *searcher) query(q *query) uint64 {
	s.text = string(q.text)
	words := uint8(0)
	for rest := s.text; rest != ""; words++ {
		var word string
		word, rest, _ = strings.Cut(rest, " ")
		s.word = lower(word)
		s.score(s.word)
	}
	if q.all {
		return s.best(words)
	}
	return s.best(1)
}

// score adds to the scores of the documents that have a word.
func (s *searcher) score(word string) {
	t := s.find(word, uint32(hashOf(word)))
	if t == nil {
		return
	}
	rare := uint32(bits.Len32(uint32(len(s.texts)) / t.documents))
	scores, counts, documents := s.scores, s.counts, s.documents
	for chunk := t.first; chunk != nil; chunk = chunk.next {
		for _, posting := range chunk.postings {
			length := documents[posting.document].length
			scores[posting.document] += 1024 * posting.frequency * rare / (64 + length/16)
			counts[posting.document]++
		}
	}
}

// best collects the hits, the best first, and clears the arrays.
func (s *searcher) best(least uint8) uint64 {
	var list *hit
	kept, worst := uint64(0), uint64(0)
	counts := s.counts
	scores := s.scores[:len(counts)]
	for number, count := range counts {
		score := uint64(scores[number])
		counts[number], scores[number] = 0, 0
		if count < least {
			continue
		}
		better := kept < bestHits || score > worst
		if better || s.wasteful {
			h := &hit{document: s.documents[number], score: score}
			if better {
				list, kept, worst = keep(list, h)
			}
		}
	}
	return s.shown(list, kept)
}

// keep puts a hit into a list, behind those that are as good; the list, how many there are then, and the score of the
// last.
func keep(list, h *hit) (first *hit, count, worst uint64) {
	var before *hit
	after := list
	count = 1
	for after != nil && after.score >= h.score {
		before, after = after, after.next
		count++
	}
	h.next = after
	if before == nil {
		list = h
	} else {
		before.next = h
	}
	last := h
	for after != nil && count < bestHits {
		last, after = after, after.next
		count++
	}
	last.next = nil
	return list, count, last.score
}

// shown is what is shown of the hits: a number made of titles and scores.
func (s *searcher) shown(h *hit, count uint64) uint64 {
	s.titles = make([]string, count)
	sum := count
	for i := range s.titles {
		title := strings.Clone(h.document.name)
		s.titles[i] = title
		sum = chained(chained(sum, hashOf(title)), h.score)
		h = h.next
	}
	require(h == nil, "the list has so many hits")
	return sum
}
