/* An inverted index over real text, in the manner of luindex and lusearch: built
 * by one thread, queried by all.
 *
 * By hand, a word of the texts is freed when its term is there already, the table
 * of terms when a larger one takes its place, words and text of a query when they
 * were looked up, a hit when it is none of the ten best, the others and their
 * titles when they were shown; with `--wasteful` also the arrays of each query.
 * The index is freed at the end. */
#include <stdatomic.h>
#include <stdbool.h>

#include "texts.h"

enum {
    /* Places of the table of terms, at first. */
    FIRST_PLACES = 1024,
    /* Postings of the first chunk of a term and of its largest one. */
    SMALLEST_CHUNK = 4,
    LARGEST_CHUNK = 512,
    /* Words of a query, at most, and the bytes that they can have. */
    WORDS = 3,
    QUERY_BYTES = 33 * WORDS,
    /* Hits that a query gives. */
    BEST = 10,
    /* Queries that a thread takes at a time. */
    BATCH = 16,
};

/* Words to look for: any of them, or all. */
struct query {
    bool all;
    unsigned char length, text[QUERY_BYTES];
};

struct posting {
    uint32_t document, frequency;
};

struct postings {
    uint32_t capacity;
    struct posting at[];
};

struct chunk {
    struct chunk *next;
    struct postings *postings;
    uint32_t used;
};

struct term {
    struct term *next;
    struct bytes *word;
    struct chunk *first, *last;
    uint32_t hash, documents;
};

struct document {
    struct bytes *name;
    uint32_t number, words;
};

struct hit {
    struct hit *next;
    struct document *document;
    uint64_t score;
};

struct built {
    struct term **table;
    struct document **documents;
    size_t places, terms;
};

/* What a thread reuses from one query to the next: of each document its score,
 * and how many of the words it has. */
struct arrays {
    uint32_t *scores;
    unsigned char *counts;
};

struct search {
    const struct built *built;
    atomic_size_t next;
    bool wasteful;
};

static struct texts texts;
static struct query *queries;
static size_t query_count;

/* Words that follow one another somewhere in the texts. */
static struct query new_query(struct random *random)
{
    const struct text *text = &texts.text[below(random, (uint32_t)texts.count)];
    size_t at = below(random, (uint32_t)text->length), length;
    uint32_t count = 1 + below(random, WORDS);
    struct query query = { 0 };

    while (count-- > 0 && (length = next_word(text->bytes, text->length, &at)) > 0) {
        if (query.length > 0)
            query.text[query.length++] = ' ';
        memcpy(query.text + query.length, text->bytes + at - length, length);
        query.length += (unsigned char)length;
    }
    query.all = below(random, 2) == 0;
    return query;
}

void prepare_index(const struct chosen *chosen)
{
    struct random random = { 12000 };

    texts = read_texts(chosen);
    query_count = chosen->tiny ? 300 : 60000;
    queries = allocated(malloc(query_count * sizeof *queries));
    for (size_t i = 0; i < query_count; i++)
        queries[i] = new_query(&random);
}

/* ---- building ---- */

/* The term of a word, or null. */
static struct term *find(const struct built *built, const struct bytes *word, uint32_t hash)
{
    struct term *term = built->table[hash & (built->places - 1)];

    while (term != NULL
           && (term->hash != hash || term->word->length != word->length
               || memcmp(term->word->at, word->at, word->length) != 0))
        term = term->next;
    return term;
}

static void insert(struct term **table, size_t places, struct term *term)
{
    struct term **place = &table[term->hash & (places - 1)];

    term->next = *place;
    *place = term;
}

/* Makes the table twice as long when there are more terms than places. */
static void grow(struct built *built)
{
    struct term **larger;

    if (built->terms <= built->places)
        return;
    larger = (void *)memory_references(2 * built->places);
    for (size_t i = 0; i < built->places; i++)
        for (struct term *term = built->table[i], *next; term != NULL; term = next) {
            next = term->next;
            insert(larger, 2 * built->places, term);
        }
    memory_free(built->table);
    built->table = larger;
    built->places *= 2;
}

/* The term of a word, which belongs to the index from now on. */
static struct term *find_or_add(struct built *built, struct bytes *word)
{
    uint32_t hash = (uint32_t)hash_of(word);
    struct term *term = find(built, word, hash);

    if (term != NULL) {
        memory_free(word);
        return term;
    }
    term = memory_object(sizeof *term);
    *term = (struct term){ .word = word, .hash = hash };
    built->terms++;
    grow(built);
    insert(built->table, built->places, term);
    return term;
}

/* A term gets another chunk. */
static struct chunk *add_chunk(struct term *term, uint32_t capacity)
{
    struct postings *postings = memory_numbers(sizeof *postings + capacity * sizeof *postings->at);
    struct chunk *chunk = memory_object(sizeof *chunk);

    postings->capacity = capacity;
    *chunk = (struct chunk){ .postings = postings };
    if (term->last == NULL)
        term->first = chunk;
    else
        term->last->next = chunk;
    term->last = chunk;
    return chunk;
}

/* A document has a term once more. */
static void post(struct term *term, uint32_t document)
{
    struct chunk *chunk = term->last;

    if (chunk == NULL) {
        chunk = add_chunk(term, SMALLEST_CHUNK);
    } else {
        struct posting *last = &chunk->postings->at[chunk->used - 1];
        uint32_t capacity = chunk->postings->capacity;

        if (last->document == document) {
            last->frequency++;
            return;
        }
        if (chunk->used == capacity)
            chunk = add_chunk(term, 2 * capacity < LARGEST_CHUNK ? 2 * capacity : LARGEST_CHUNK);
    }
    chunk->postings->at[chunk->used++] = (struct posting){ document, 1 };
    term->documents++;
}

static struct document *new_document(uint32_t number, uint32_t words)
{
    const char *name = texts.text[number].name;
    struct bytes *copy = copied_bytes(name, strlen(name));
    struct document *document = memory_object(sizeof *document);

    *document = (struct document){ .name = copy, .number = number, .words = words };
    return document;
}

static void build(struct built *built)
{
    built->places = FIRST_PLACES;
    built->table = (void *)memory_references(FIRST_PLACES);
    built->documents = (void *)memory_references(texts.count);
    for (uint32_t number = 0; number < texts.count; number++) {
        const struct text *text = &texts.text[number];
        size_t at = 0, length;
        uint32_t words = 0;

        while ((length = next_word(text->bytes, text->length, &at)) > 0) {
            struct bytes *word = lower_bytes(text->bytes + at - length, length);

            post(find_or_add(built, word), number);
            words++;
        }
        built->documents[number] = new_document(number, words);
    }
}

/* The postings come to all words of all documents. */
static void check(const struct built *built)
{
    uint64_t terms = 0, posted = 0, expected = 0;

    for (size_t place = 0; place < built->places; place++)
        for (const struct term *term = built->table[place]; term != NULL; term = term->next) {
            uint32_t count = 0;

            for (const struct chunk *chunk = term->first; chunk != NULL; chunk = chunk->next) {
                count += chunk->used;
                for (uint32_t i = 0; i < chunk->used; i++)
                    posted += chunk->postings->at[i].frequency;
            }
            require(count == term->documents, "a term has its documents");
            terms++;
        }
    for (size_t number = 0; number < texts.count; number++)
        expected += built->documents[number]->words;
    require(terms == built->terms, "the table has all terms");
    require(posted == expected, "each word is posted once");
}

static void free_term(struct term *term)
{
    for (struct chunk *chunk = term->first, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        memory_free(chunk->postings);
        memory_free(chunk);
    }
    memory_free(term->word);
    memory_free(term);
}

static void free_index(struct built *built)
{
    for (size_t place = 0; place < built->places; place++)
        for (struct term *term = built->table[place], *next; term != NULL; term = next) {
            next = term->next;
            free_term(term);
        }
    for (size_t number = 0; number < texts.count; number++) {
        memory_free(built->documents[number]->name);
        memory_free(built->documents[number]);
    }
    memory_free(built->table);
    memory_free(built->documents);
}

/* ---- querying ---- */

static struct arrays fresh_arrays(void)
{
    uint32_t *scores = memory_zeros(texts.count * sizeof *scores);

    return (struct arrays){ .scores = scores, .counts = memory_zeros(texts.count) };
}

static void free_arrays(struct arrays arrays)
{
    memory_free(arrays.scores);
    memory_free(arrays.counts);
}

/* Adds to the scores of the documents that have a word. */
static void score(const struct built *built, const struct bytes *word, struct arrays arrays)
{
    const struct term *term = find(built, word, (uint32_t)hash_of(word));
    uint32_t rare;

    if (term == NULL)
        return;
    rare = 32 - (uint32_t)__builtin_clz((uint32_t)texts.count / term->documents);
    for (const struct chunk *chunk = term->first; chunk != NULL; chunk = chunk->next)
        for (uint32_t i = 0; i < chunk->used; i++) {
            struct posting posting = chunk->postings->at[i];
            uint32_t words = built->documents[posting.document]->words;

            arrays.scores[posting.document] += 1024 * posting.frequency * rare / (64 + words / 16);
            arrays.counts[posting.document]++;
        }
}

/* Puts a hit into the list, behind those that are as good; how many there are
 * then, and the score of the last. */
static unsigned keep(struct hit **list, struct hit *hit, uint32_t *worst)
{
    struct hit **place = list, *last = hit;
    unsigned count = 1;

    for (; *place != NULL && (*place)->score >= hit->score; place = &(*place)->next)
        count++;
    hit->next = *place;
    *place = hit;
    for (; last->next != NULL && count < BEST; last = last->next)
        count++;
    memory_free(last->next);
    last->next = NULL;
    *worst = (uint32_t)last->score;
    return count;
}

/* What is shown of the hits: a number made of titles and scores. */
static uint64_t shown(struct hit *hit, unsigned count)
{
    struct bytes **titles = memory_object(count * sizeof *titles);
    uint64_t sum = count;

    for (unsigned i = 0; i < count; i++) {
        const struct bytes *name = hit->document->name;
        struct hit *next = hit->next;

        titles[i] = copied_bytes(name->at, name->length);
        sum = chained(sum, hash_of(titles[i]));
        sum = chained(sum, hit->score);
        memory_free(hit);
        hit = next;
    }
    require(hit == NULL, "the list has so many hits");
    for (unsigned i = 0; memory_by_hand && i < count; i++)
        memory_free(titles[i]);
    memory_free(titles);
    return sum;
}

/* Collects the hits, the best first, and clears the arrays. */
static uint64_t best(const struct search *search, unsigned least, struct arrays arrays)
{
    const struct built *built = search->built;
    struct hit *list = NULL;
    unsigned kept = 0;
    uint32_t worst = 0;

    for (size_t number = 0; number < texts.count; number++) {
        unsigned count = arrays.counts[number];
        uint32_t score = arrays.scores[number];
        struct hit *hit;
        bool better;

        arrays.counts[number] = 0;
        arrays.scores[number] = 0;
        if (count < least)
            continue;
        better = kept < BEST || score > worst;
        if (!better && !search->wasteful)
            continue;
        hit = memory_object(sizeof *hit);
        *hit = (struct hit){ .document = built->documents[number], .score = score };
        if (better) {
            kept = keep(&list, hit, &worst);
        } else {
            observe(hit);
            memory_free(hit);
        }
    }
    return shown(list, kept);
}

/* A number made of the best hits of a query. */
static uint64_t answer(const struct search *search, const struct query *query,
                       struct arrays arrays)
{
    struct bytes *text = copied_bytes(query->text, query->length);
    unsigned count = 0;

    for (size_t from = 0, length; from < text->length; from += length + 1) {
        const unsigned char *space = memchr(text->at + from, ' ', text->length - from);
        struct bytes *word;

        length = (space != NULL ? (size_t)(space - text->at) : text->length) - from;
        word = lower_bytes(text->at + from, length);
        score(search->built, word, arrays);
        memory_free(word);
        count++;
    }
    memory_free(text);
    return best(search, query->all ? count : 1, arrays);
}

/* Does queries until there are no more; the sum of what they found. */
static uint64_t run_search(void *context, unsigned thread)
{
    struct search *search = context;
    struct arrays arrays = fresh_arrays();
    uint64_t sum = 0;
    size_t first;

    (void)thread;
    while ((first = atomic_fetch_add_explicit(&search->next, BATCH, memory_order_relaxed))
           < query_count)
        for (size_t number = first; number < first + BATCH && number < query_count; number++) {
            if (search->wasteful) {
                free_arrays(arrays);
                arrays = fresh_arrays();
            }
            sum += scattered(answer(search, &queries[number], arrays) ^ (uint64_t)number << 32);
        }
    free_arrays(arrays);
    return sum;
}

uint64_t text_index(const struct chosen *chosen)
{
    struct built built = { 0 };
    struct search search = { .built = &built, .wasteful = chosen->wasteful };
    double started;
    uint64_t sum;

    build(&built);
    started = seconds();
    sum = run_mutators(chosen->mutators, run_search, &search);
    facts.queries_per_s = (double)query_count / (seconds() - started);
    check(&built);
    sum = chained(sum, built.terms);
    if (memory_by_hand)
        free_index(&built);
    return sum;
}
