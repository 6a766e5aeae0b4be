/* Patterns of several threads: producer, agents, tiny.
 *
 * By hand, who consumes a batch frees it, who reads the notes of a cell frees
 * them, and a list is freed when it was replaced. */
#include <pthread.h>
#include <stdbool.h>

#include "numbers.h"

/* ---- producer ---- */

enum {
    /* Places of the ring. */
    PLACES = 64,
    /* Messages of a batch. */
    BATCH = 16,
    /* Bytes of a message, at most. */
    LARGEST = 1024,
};

struct message {
    struct message *next;
    struct bytes *bytes;
    uint64_t number;
};

/* What the threads share: batches from `first` on. */
struct exchange {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct message **places;
    unsigned first, count;
    /* No more will come. */
    bool over;
    uint64_t batches;
    bool alone;
    uint64_t consumed[MOST_MUTATORS];
};

/* A list of messages. */
static struct message *new_batch(uint64_t batch)
{
    struct message *list = NULL;

    for (uint64_t number = batch * BATCH; number < (batch + 1) * BATCH; number++) {
        size_t length = scattered(number) % LARGEST;
        struct bytes *bytes = fresh_bytes(length);
        struct message *message;

        for (size_t i = 0; i < length; i++)
            bytes->at[i] = (unsigned char)(number + i);
        message = memory_object(sizeof *message);
        *message = (struct message){ .next = list, .bytes = bytes, .number = number };
        list = message;
    }
    return list;
}

/* A number made of the messages of a batch; adds how many there are. */
static uint64_t consumed(struct message *message, uint64_t *count)
{
    uint64_t sum = 0;

    for (struct message *next; message != NULL; message = next) {
        next = message->next;
        sum += scattered(hash_of(message->bytes) + message->number);
        ++*count;
        memory_free(message->bytes);
        memory_free(message);
    }
    return sum;
}

/* Takes the first batch; there is one. The lock is given back. */
static struct message *taken(struct exchange *exchange)
{
    struct message *batch = exchange->places[exchange->first];

    exchange->places[exchange->first] = NULL;
    exchange->first = (exchange->first + 1) % PLACES;
    exchange->count--;
    pthread_mutex_unlock(&exchange->lock);
    pthread_cond_broadcast(&exchange->changed);
    return batch;
}

/* Consumes until no more will come. */
static uint64_t consume_all(struct exchange *exchange, uint64_t *count)
{
    uint64_t sum = 0;

    for (;;) {
        pthread_mutex_lock(&exchange->lock);
        while (exchange->count == 0 && !exchange->over)
            pthread_cond_wait(&exchange->changed, &exchange->lock);
        if (exchange->count == 0)
            break;
        sum += consumed(taken(exchange), count);
    }
    pthread_mutex_unlock(&exchange->lock);
    return sum;
}

/* Puts a batch into the ring when there is a place; what was consumed for that. */
static uint64_t put(struct exchange *exchange, struct message *batch, uint64_t *count)
{
    uint64_t sum = 0;

    pthread_mutex_lock(&exchange->lock);
    while (exchange->count == PLACES) {
        if (exchange->alone) {
            sum += consumed(taken(exchange), count);
            pthread_mutex_lock(&exchange->lock);
        } else {
            pthread_cond_wait(&exchange->changed, &exchange->lock);
        }
    }
    exchange->places[(exchange->first + exchange->count) % PLACES] = batch;
    exchange->count++;
    pthread_mutex_unlock(&exchange->lock);
    pthread_cond_broadcast(&exchange->changed);
    return sum;
}

/* The first thread makes all batches, the others consume them. */
static uint64_t produce_or_consume(void *context, unsigned number)
{
    struct exchange *exchange = context;
    uint64_t count = 0, sum = 0;

    for (uint64_t batch = 0; number == 0 && batch < exchange->batches; batch++)
        sum += put(exchange, new_batch(batch), &count);
    if (number == 0) {
        pthread_mutex_lock(&exchange->lock);
        exchange->over = true;
        pthread_mutex_unlock(&exchange->lock);
        pthread_cond_broadcast(&exchange->changed);
    }
    if (number > 0 || exchange->alone)
        sum += consume_all(exchange, &count);
    exchange->consumed[number] = count;
    return sum;
}

uint64_t producer(const struct chosen *chosen)
{
    struct exchange exchange = {
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
        .places = (void *)memory_references(PLACES),
        .batches = chosen->tiny ? 640 : 64000,
        .alone = chosen->mutators == 1,
    };
    uint64_t sum = run_mutators(chosen->mutators, produce_or_consume, &exchange), messages = 0;

    for (unsigned i = 0; i < chosen->mutators; i++)
        messages += exchange.consumed[i];
    require(messages == exchange.batches * BATCH, "each message was consumed once");
    memory_free(exchange.places);
    return sum;
}

/* ---- agents ---- */

enum {
    /* Threads share the agents among them. */
    AGENTS = 16,
    CELLS = 1024,
    LOCKS = 32,
    /* Registers of an agent. */
    REGISTERS = 64,
    /* Steps from one post to the next. */
    BETWEEN_POSTS = 4,
    /* Posts from one note to the next. */
    BETWEEN_NOTES = 4,
    /* Notes of a cell before they are taken. */
    MOST_NOTES = 8,
};

struct note {
    struct note *next;
    uint64_t number;
};

struct cell {
    struct note *newest;
    /* The sum of all posts, and how many notes there are. */
    uint64_t sum, notes;
};

struct field {
    struct cell **cells;
    /* Cell i is protected by lock i modulo their number. */
    pthread_mutex_t locks[LOCKS];
    /* Steps of the first agent. */
    uint32_t steps;
    unsigned mutators;
    uint64_t notes[MOST_MUTATORS];
};

/* A number made of the notes of a list; adds how many there are. */
static uint64_t read_notes(struct note *note, uint64_t *count)
{
    uint64_t sum = 0;

    for (struct note *next; note != NULL; note = next) {
        next = note->next;
        sum += scattered(note->number);
        ++*count;
        memory_free(note);
    }
    return sum;
}

/* Posts a number to a cell; a number made of the notes that are taken. */
static uint64_t post(struct field *field, uint32_t index, uint64_t number, bool with_note,
                     uint64_t *count)
{
    struct note *note = with_note ? memory_object(sizeof *note) : NULL, *all = NULL;
    struct cell *cell = field->cells[index];
    pthread_mutex_t *lock = &field->locks[index % LOCKS];

    pthread_mutex_lock(lock);
    cell->sum += number;
    if (with_note) {
        *note = (struct note){ .next = cell->newest, .number = number };
        cell->newest = note;
        if (++cell->notes == MOST_NOTES) {
            all = cell->newest;
            cell->newest = NULL;
            cell->notes = 0;
        }
    }
    pthread_mutex_unlock(lock);
    return read_notes(all, count);
}

/* All steps of an agent; a number made of the notes that it takes. */
static uint64_t act(struct field *field, uint32_t agent, uint64_t *count)
{
    struct random random = { 8000 + agent };
    uint32_t *registers = memory_zeros(REGISTERS * sizeof *registers);
    uint64_t sum = 0;

    for (uint32_t step = 1; step <= field->steps * (agent + 1); step++) {
        uint32_t last = step ^ agent;

        for (int i = 0; i < REGISTERS; i++)
            last = registers[i] = registers[i] * 5 + last;
        if (step % BETWEEN_POSTS == 0) {
            bool with_note = step % (BETWEEN_POSTS * BETWEEN_NOTES) == 0;

            sum += post(field, below(&random, CELLS), last, with_note, count);
        }
    }
    memory_free(registers);
    return sum;
}

static uint64_t act_in_turn(void *context, unsigned number)
{
    struct field *field = context;
    uint64_t sum = 0, count = 0;

    for (uint32_t agent = number; agent < AGENTS; agent += field->mutators)
        sum += act(field, agent, &count);
    field->notes[number] = count;
    return sum;
}

uint64_t agents(const struct chosen *chosen)
{
    struct field field = {
        .cells = (void *)memory_references(CELLS),
        .steps = chosen->tiny ? 3000 : 200000,
        .mutators = chosen->mutators,
    };
    uint64_t sum, notes = 0, expected = 0;

    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&field.locks[i], NULL);
    for (int i = 0; i < CELLS; i++) {
        field.cells[i] = memory_object(sizeof *field.cells[i]);
        *field.cells[i] = (struct cell){ 0 };
    }
    sum = run_mutators(chosen->mutators, act_in_turn, &field);
    for (unsigned i = 0; i < chosen->mutators; i++)
        notes += field.notes[i];
    for (int i = 0; i < CELLS; i++) {
        struct cell *cell = field.cells[i];
        uint64_t count = 0;

        sum += read_notes(cell->newest, &count) + cell->sum;
        require(count == cell->notes, "a cell has its notes");
        notes += count;
        memory_free(cell);
    }
    for (uint32_t share = 1; share <= AGENTS; share++)
        expected += field.steps * share / BETWEEN_POSTS / BETWEEN_NOTES;
    require(notes == expected, "no note is lost");
    memory_free(field.cells);
    return sum;
}

/* ---- tiny ---- */

enum {
    /* Lists of each thread. */
    LISTS = 64,
    /* Nodes of a list, at most. */
    LONGEST = 16,
};

struct link {
    struct link *next;
    uint64_t number;
};

/* The numbers of a list that is not needed any more. */
static uint64_t added(struct link *link)
{
    uint64_t sum = 0;

    for (struct link *next; link != NULL; link = next) {
        next = link->next;
        sum = chained(sum, link->number);
        memory_free(link);
    }
    return sum;
}

/* A number made of all lists, when they are dropped or left. */
static uint64_t replace_lists(void *context, unsigned number)
{
    const struct chosen *chosen = context;
    struct link **lists = (void *)memory_references(LISTS);
    struct random random = { 6000 + number };
    uint32_t steps = chosen->tiny ? 2000 : 1000000;
    uint64_t sum = 0;

    for (uint32_t step = 0; step < steps; step++) {
        uint32_t length = 1 + below(&random, LONGEST), index;
        struct link *list = NULL;

        for (uint32_t i = 0; i < length; i++) {
            struct link *link = memory_object(sizeof *link);

            *link = (struct link){ .next = list, .number = (uint64_t)step << 8 | i };
            list = link;
        }
        index = below(&random, LISTS);
        sum = chained(sum, added(lists[index]));
        lists[index] = list;
    }
    for (int i = 0; i < LISTS; i++)
        sum = chained(sum, added(lists[i]));
    memory_free(lists);
    return sum;
}

uint64_t tiny(const struct chosen *chosen)
{
    return run_mutators(chosen->mutators, replace_lists, (void *)chosen);
}
