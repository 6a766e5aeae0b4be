/*
 * Arrays in pieces through gleaner.h: random accesses around the boundaries of
 * pieces, each against a model in plain memory, under every way to cut arrays
 * that this program is compiled for (GLEANER_ARRAYS_WHOLE, GLEANER_FIRST_N); the
 * others are refused. ARRAYS_SEED=NUMBER in the environment: other accesses.
 */
#include "cuts.h"

/* ---- chance -------------------------------------------------------------- */

static uint64_t chance_state;

static uint64_t chance(void)
{
    uint64_t mixed = chance_state += 0x9e3779b97f4a7c15;

    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
}
static uint32_t below(uint32_t end)
{
    return end == 0 ? 0 : (uint32_t)(chance() % end);
}

/* ---- arrays and their models --------------------------------------------- */

enum kind { SLOTS, U8, U16, U32, U64, F32, F64, KINDS };
/* Two arrays of each kind, and a root beside them. */
enum { EACH = 2, ARRAYS = KINDS * EACH, EXTRA = ARRAYS, ROOTS };
enum { MOST_BYTES = 12 << 10 };

struct play {
    struct stage stage;
    gleaner_mutator *m;
    gleaner_type types[KINDS];
    size_t bytes[KINDS]; /* of an element */
    gleaner_value *roots;
    struct {
        uint32_t length;
        /* The bits of a number; of a value twice a node's number, or an integer
           with a low bit 1. */
        uint64_t model[MOST_BYTES];
    } arrays[ARRAYS];
    uint64_t nodes;
};

static void *array_of(const struct play *p, int which)
{
    return gleaner_object(p->roots[which]);
}

/* A boundary between pieces, in elements, or near one. */
static uint32_t near_a_boundary(const struct play *p, enum kind kind,
                                uint32_t most)
{
    bool cut = p->m->first_n != UINTPTR_MAX;
    size_t first = cut ? p->m->first_n : 64;
    size_t arraylet = cut ? (size_t)1 << p->m->arraylet_shift : 256;
    int64_t at = (int64_t)((first + below(5) * arraylet) / p->bytes[kind]);

    if (below(6) == 0)
        at = below(most + 1);
    at += (int64_t)below(7) - 3;
    return at < 0 ? 0 : at > most ? most : (uint32_t)at;
}

struct range {
    uint32_t index, count;
};
static struct range a_range(const struct play *p, int which)
{
    uint32_t length = p->arrays[which].length;
    enum kind kind = (enum kind)(which / EACH);
    uint32_t a = near_a_boundary(p, kind, length);
    uint32_t b = below(3) == 0 ? a : near_a_boundary(p, kind, length);
    struct range range;

    range.index = a < b ? a : b;
    range.count = a < b ? b - a : a - b;
    return range;
}

static uint64_t some_bits(void)
{
    switch (below(5)) {
    case 0:
    case 1:
        return 0;
    case 2:
        return (uint64_t)1 << (8 * (1 + below(8)) - 1); /* -0.0, too */
    default:
        return chance();
    }
}

/* ---- values of slots ----------------------------------------------------- */

static uint64_t a_value(struct play *p)
{
    switch (below(4)) {
    case 0:
        return 0;
    case 1:
        return (uint64_t)below(1000) << 1 | 1;
    default:
        return ++p->nodes << 1;
    }
}
/* What a model says, as a value, in the extra root: a node is allocated. */
static void make_value(struct play *p, uint64_t model)
{
    p->roots[EXTRA] = 0;
    if ((model & 1) != 0)
        p->roots[EXTRA] = gleaner_integer((int64_t)(model >> 1));
    else if (model != 0)
        p->roots[EXTRA] = new_node(&p->stage, model >> 1);
}
static bool is_value(const struct play *p, gleaner_value value, uint64_t model)
{
    if (gleaner_is_integer(value))
        return gleaner_number(value) == (int64_t)(model >> 1)
               && (model & 1) != 0;
    if (value == 0)
        return model == 0;
    return *number_of(&p->stage, value) == model >> 1 && (model & 1) == 0;
}

/* ---- one step of each kind ----------------------------------------------- */

enum way {
    STORE,
    SWAP,
    FILL,
    COPY,
    CURSOR,
    MIXED_CURSOR,
    WRITE,
    WINDOW,
    FRESH,
    WAYS
};

static void make_model(struct play *p, int which, uint32_t index, uint32_t count,
                       uint64_t bits)
{
    while (count-- > 0)
        p->arrays[which].model[index++] = bits;
}

static void copy_some(struct play *p, int which)
{
    int to = which / EACH * EACH + (int)below(EACH);
    struct range from = a_range(p, which);
    uint32_t length = p->arrays[to].length;
    uint32_t index
        = near_a_boundary(p, (enum kind)(which / EACH), length);

    if (below(3) == 0 && from.index <= length)
        index = from.index; /* whole pieces fit each other */
    if (from.count > length - index)
        from.count = length - index;
    CHECK(gleaner_copy_elements(p->m, array_of(p, which), from.index,
                                array_of(p, to), index, from.count));
    memmove(p->arrays[to].model + index, p->arrays[which].model + from.index,
            from.count * sizeof *p->arrays[to].model);
}

static uint32_t a_length(struct play *p, enum kind kind)
{
    uint32_t most = (uint32_t)(MOST_BYTES / p->bytes[kind]);

    return near_a_boundary(p, kind, most);
}

static void step_slots(struct play *p, int which, enum way way)
{
    struct range range = a_range(p, which);
    uint64_t *model = p->arrays[which].model;
    struct gleaner_cursor cursor;
    uint64_t value = a_value(p);
    gleaner_value expected;
    uint32_t i;

    make_value(p, value);
    switch (way) {
    case STORE:
        if (range.index == p->arrays[which].length)
            return;
        CHECK(gleaner_store_element(p->m, array_of(p, which), range.index,
                                    p->roots[EXTRA]));
        model[range.index] = value;
        return;
    case SWAP:
        if (range.index == p->arrays[which].length)
            return;
        expected = gleaner_load_element(p->m, array_of(p, which), range.index);
        CHECK(is_value(p, expected, model[range.index]));
        if (below(2) == 0) {
            expected = gleaner_integer(-1);
            CHECK(gleaner_swap_element(p->m, array_of(p, which), range.index,
                                       &expected, p->roots[EXTRA])
                  == GLEANER_NOT_SWAPPED);
            CHECK(is_value(p, expected, model[range.index]));
        } else {
            CHECK(gleaner_swap_element(p->m, array_of(p, which), range.index,
                                       &expected, p->roots[EXTRA])
                  == GLEANER_SWAPPED);
            model[range.index] = value;
        }
        return;
    case FILL:
    case WRITE:
        CHECK(gleaner_fill_elements(p->m, array_of(p, which), range.index,
                                    range.count, p->roots[EXTRA]));
        make_model(p, which, range.index, range.count, value);
        return;
    case COPY:
        copy_some(p, which);
        return;
    case CURSOR:
    case MIXED_CURSOR:
        CHECK(gleaner_cursor_begin_writing(&cursor, p->m, array_of(p, which),
                                           range.index, range.count,
                                           p->m->slot_bytes));
        for (i = range.index; gleaner_cursor_more(&cursor); i++) {
            uint64_t other = (uint64_t)i << 1 | 1;

            CHECK(cursor.index == i);
            if (way == MIXED_CURSOR && below(3) == 0) {
                CHECK(is_value(p, gleaner_cursor_load(&cursor, p->m), model[i]));
            } else if (below(4) == 0) {
                gleaner_cursor_store(&cursor, p->m, gleaner_integer(i));
                model[i] = other;
            } else {
                gleaner_cursor_store(&cursor, p->m, p->roots[EXTRA]);
                model[i] = value;
            }
        }
        CHECK(i == range.index + range.count);
        return;
    default: {
        uint32_t length = a_length(p, SLOTS);
        void *array = gleaner_allocate_array_initialized(
            p->m, p->types[SLOTS], length, p->m->slot_bytes);

        CHECK(array != NULL);
        p->roots[which] = gleaner_reference(array);
        p->arrays[which].length = length;
        for (i = 0; i < length; i++) {
            model[i] = i % 3 == 0 ? 0 : value;
            gleaner_initialize_element(p->m, array, i,
                                       i % 3 == 0 ? 0 : p->roots[EXTRA]);
        }
        return;
    }
    }
}

static void check_slots(const struct play *p, int which)
{
    struct gleaner_cursor cursor;
    uint32_t i, length = p->arrays[which].length;

    CHECK(gleaner_length(array_of(p, which)) == length);
    for (i = 0; i < length; i++)
        CHECK(is_value(p, gleaner_load_element(p->m, array_of(p, which), i),
                       p->arrays[which].model[i]));
    gleaner_cursor_begin(&cursor, p->m, array_of(p, which), 0, length,
                         p->m->slot_bytes);
    for (i = 0; gleaner_cursor_more(&cursor); i++)
        CHECK(is_value(p, gleaner_cursor_load(&cursor, p->m),
                       p->arrays[which].model[i]));
    CHECK(i == length);
}

/* The same of numbers; what their models hold is their bits. */
#define NUMBERS(name, type, kind)                                              \
    static type name##_of(uint64_t bits)                                       \
    {                                                                          \
        type number;                                                           \
                                                                               \
        memcpy(&number, &bits, sizeof number);                                 \
        return number;                                                         \
    }                                                                          \
    static uint64_t bits_of_##name(type number)                                \
    {                                                                          \
        uint64_t bits = 0;                                                     \
                                                                               \
        memcpy(&bits, &number, sizeof number);                                 \
        return bits;                                                           \
    }                                                                          \
    static void step_##name(struct play *p, int which, enum way way)           \
    {                                                                          \
        static type buffer[MOST_BYTES / sizeof(type)];                         \
        struct range range = a_range(p, which);                                \
        uint64_t *model = p->arrays[which].model;                              \
        uint64_t bits = bits_of_##name(name##_of(some_bits()));                \
        struct gleaner_cursor cursor;                                          \
        struct gleaner_window window;                                          \
        type expected, *view;                                                  \
        uint32_t i;                                                            \
                                                                               \
        switch (way) {                                                         \
        case STORE:                                                            \
            if (range.index == p->arrays[which].length)                        \
                return;                                                        \
            CHECK(gleaner_store_##name(p->m, array_of(p, which), range.index,  \
                                       name##_of(bits)));                      \
            model[range.index] = bits;                                         \
            return;                                                            \
        case SWAP:                                                             \
            if (range.index == p->arrays[which].length)                        \
                return;                                                        \
            expected = name##_of(model[range.index] ^ below(2));               \
            if (bits_of_##name(expected) == model[range.index]) {              \
                CHECK(gleaner_swap_##name(p->m, array_of(p, which),            \
                                          range.index, &expected,              \
                                          name##_of(bits))                     \
                      == GLEANER_SWAPPED);                                     \
                model[range.index] = bits;                                     \
            } else {                                                           \
                CHECK(gleaner_swap_##name(p->m, array_of(p, which),            \
                                          range.index, &expected,              \
                                          name##_of(bits))                     \
                      == GLEANER_NOT_SWAPPED);                                 \
                CHECK(bits_of_##name(expected) == model[range.index]);         \
            }                                                                  \
            return;                                                            \
        case FILL:                                                             \
            CHECK(gleaner_fill_##name(p->m, array_of(p, which), range.index,   \
                                      range.count, name##_of(bits)));          \
            make_model(p, which, range.index, range.count, bits);              \
            return;                                                            \
        case COPY:                                                             \
            copy_some(p, which);                                               \
            return;                                                            \
        case CURSOR:                                                           \
        case MIXED_CURSOR:                                                     \
            CHECK(gleaner_cursor_begin_writing(                                \
                &cursor, p->m, array_of(p, which), range.index, range.count,   \
                sizeof(type)));                                                \
            for (i = range.index; gleaner_cursor_more(&cursor); i++) {         \
                CHECK(cursor.index == i);                                      \
                if (way == MIXED_CURSOR && below(3) == 0) {                    \
                    CHECK(bits_of_##name(gleaner_cursor_load_##name(&cursor))  \
                          == model[i]);                                        \
                } else {                                                       \
                    model[i] = below(4) == 0 ? 0 : bits;                       \
                    gleaner_cursor_store_##name(&cursor, name##_of(model[i])); \
                }                                                              \
            }                                                                  \
            CHECK(i == range.index + range.count);                             \
            return;                                                            \
        case WRITE:                                                            \
            for (i = 0; i < range.count; i++) {                                \
                model[range.index + i] = i % 5 == 0 ? bits : 0;                \
                buffer[i] = name##_of(model[range.index + i]);                 \
            }                                                                  \
            CHECK(gleaner_write_##name(p->m, array_of(p, which), range.index,  \
                                       buffer, range.count));                  \
            return;                                                            \
        case WINDOW:                                                           \
            view = (type *)gleaner_window_begin_writing(                       \
                &window, p->m, array_of(p, which), range.index, range.count,   \
                sizeof(type));                                                 \
            CHECK(view != NULL && p->m->windows == 1);                         \
            for (i = 0; i < range.count; i++) {                                \
                CHECK(bits_of_##name(view[i]) == model[range.index + i]);      \
                if (i % 7 == 0) {                                              \
                    view[i] = name##_of(bits);                                 \
                    model[range.index + i] = bits;                             \
                }                                                              \
            }                                                                  \
            gleaner_window_end(&window, p->m);                                 \
            CHECK(p->m->windows == 0);                                         \
            return;                                                            \
        default: {                                                             \
            uint32_t length = a_length(p, kind);                               \
            void *array = gleaner_allocate_array_initialized(                  \
                p->m, p->types[kind], length, sizeof(type));                   \
                                                                               \
            CHECK(array != NULL);                                              \
            p->roots[which] = gleaner_reference(array);                        \
            p->arrays[which].length = length;                                  \
            for (i = 0; i < length; i++) {                                     \
                model[i] = bits_of_##name(name##_of(bits + i));                \
                buffer[i] = name##_of(model[i]);                               \
            }                                                                  \
            gleaner_initialize_##name(p->m, array, 0, buffer, length / 2);     \
            gleaner_initialize_##name(p->m, array, length / 2,                 \
                                      buffer + length / 2,                     \
                                      length - length / 2);                    \
            return;                                                            \
        }                                                                      \
        }                                                                      \
    }                                                                          \
    static void check_##name(const struct play *p, int which)                  \
    {                                                                          \
        static type buffer[MOST_BYTES / sizeof(type)];                         \
        const uint64_t *model = p->arrays[which].model;                        \
        uint32_t i, length = p->arrays[which].length;                          \
        struct range range = a_range(p, which);                                \
        struct gleaner_cursor cursor;                                          \
        struct gleaner_window window;                                          \
        const type *view;                                                      \
                                                                               \
        CHECK(gleaner_length(array_of(p, which)) == length);                   \
        for (i = 0; i < length; i++)                                           \
            CHECK(bits_of_##name(                                              \
                      gleaner_load_##name(p->m, array_of(p, which), i))        \
                  == model[i]);                                                \
        gleaner_read_##name(p->m, array_of(p, which), range.index, buffer,     \
                            range.count);                                      \
        view = (const type *)gleaner_window_begin(                             \
            &window, p->m, array_of(p, which), range.index, range.count,       \
            sizeof(type));                                                     \
        CHECK(view != NULL);                                                   \
        for (i = 0; i < range.count; i++) {                                    \
            CHECK(bits_of_##name(buffer[i]) == model[range.index + i]);        \
            CHECK(bits_of_##name(view[i]) == model[range.index + i]);          \
        }                                                                      \
        gleaner_window_end(&window, p->m);                                     \
        gleaner_cursor_begin(&cursor, p->m, array_of(p, which), range.index,   \
                             range.count, sizeof(type));                       \
        for (i = range.index; gleaner_cursor_more(&cursor); i++)               \
            CHECK(bits_of_##name(gleaner_cursor_load_##name(&cursor))          \
                  == model[i]);                                                \
        CHECK(i == range.index + range.count);                                 \
    }

NUMBERS(u8, uint8_t, U8)
NUMBERS(u16, uint16_t, U16)
NUMBERS(u32, uint32_t, U32)
NUMBERS(u64, uint64_t, U64)
NUMBERS(f32, float, F32)
NUMBERS(f64, double, F64)

static const struct {
    void (*step)(struct play *p, int which, enum way way);
    void (*check)(const struct play *p, int which);
} kinds[KINDS] = {
    { step_slots, check_slots }, { step_u8, check_u8 },
    { step_u16, check_u16 },     { step_u32, check_u32 },
    { step_u64, check_u64 },     { step_f32, check_f32 },
    { step_f64, check_f64 },
};

/* An array of zeros. */
static void begin_array(struct play *p, int which)
{
    enum kind kind = (enum kind)(which / EACH);
    uint32_t length = a_length(p, kind);
    void *array = gleaner_allocate_array(p->m, p->types[kind], length,
                                         p->bytes[kind]);

    CHECK(array != NULL);
    p->roots[which] = gleaner_reference(array);
    p->arrays[which].length = length;
    make_model(p, which, 0, length, 0);
}

/* An array loses the elements behind a boundary, or near one. */
static void shrink_array(struct play *p, int which)
{
    enum kind kind = (enum kind)(which / EACH);
    uint32_t length = near_a_boundary(p, kind, p->arrays[which].length);

    gleaner_shrink(p->m, array_of(p, which), length);
    p->arrays[which].length = length;
}

static void one_step(struct play *p)
{
    int which = (int)below(ARRAYS);

    switch (below(16)) {
    case 0:
        begin_array(p, which);
        return;
    case 1:
        gleaner_collect(p->m, below(3) == 0);
        return;
    case 2:
        kinds[which / EACH].check(p, which);
        return;
    case 3:
        shrink_array(p, which);
        return;
    default:
        kinds[which / EACH].step(p, which, (enum way)below(WAYS));
    }
}

static void play(const char *cut, const char *more, bool compressed,
                 uint64_t seed, int steps)
{
    static struct play p;
    gleaner_heap *heap = cut_heap(cut, more, 4 << 20, compressed, NULL, 0);
    int i, failures = failed;

    CHECK(heap != NULL);
    if (heap == NULL)
        return;
    memset(&p, 0, sizeof p);
    p.stage = set_up_in(heap, compressed);
    p.m = p.stage.m;
    GLEANER_FRAME(p.m, frame, ROOTS);
    p.roots = frame.values;
    chance_state = seed;
    for (i = 0; i < KINDS; i++) {
        static const size_t bytes[] = { 0, 1, 2, 4, 8, 4, 8 };

        p.bytes[i] = i == SLOTS ? p.m->slot_bytes : bytes[i];
        p.types[i] = i == SLOTS ? p.stage.list
                                : gleaner_primitives(heap, bytes[i]);
    }
    for (i = 0; i < ARRAYS; i++)
        begin_array(&p, i);
    for (i = 0; i < steps && failed == failures; i++)
        one_step(&p);
    for (i = 0; i < ARRAYS; i++)
        kinds[i / EACH].check(&p, i);
    if (failed != failures)
        printf("with %s%s, seed %llu, at step %d\n", cut, more,
               (unsigned long long)seed, i);
    GLEANER_LEAVE(p.m, frame);
    tear_down(&p.stage);
}

static void accesses_leave_what_a_model_says(bool compressed)
{
    const char *given = getenv("ARRAYS_SEED");
    uint64_t seed = given == NULL ? 1 : strtoull(given, NULL, 10);
    size_t i;

    for (i = 0; i < CUTS; i++)
        if (is_for(cuts[i])) {
            play(cuts[i], ",tenure=1", compressed, seed + i, 2000);
            play(cuts[i], ",stress=3", compressed, seed + 100 + i, 500);
            play(cuts[i], ",old=mark-sweep,stress=5", compressed,
                 seed + 200 + i, 500);
            play(cuts[i], ",quarantine=4,stress=2", compressed, seed + 300 + i,
                 200);
        }
}

int main(void)
{
    static const struct stage_case cases[] = {
        { "accesses leave what a model says", accesses_leave_what_a_model_says },
    };

    return run_cases(cases, sizeof cases / sizeof *cases);
}
