/* Objects with explicit layouts: bitmaps short and long, arrays. */
#include "harness.h"
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>

static void *volatile root[MANY];

/* Watches `words` fields of an object: each field gets an object of its own;
 * the field's link is number base + field. */
static GC_word watched[400 * 200];

static void fill_fields(void **object, int words, int base)
{
    for (int w = 0; w < words; w++) {
        object[w] = GC_malloc(16);
        watched[base + w] = GC_HIDE_POINTER(object[w]);
        GC_general_register_disappearing_link((void **)&watched[base + w],
                                              object[w]);
    }
}

enum { OBJECTS = 50 };
static int words_each, element_words;
static GC_descr descr;
static int how;

static NOINLINE void make_typed(void)
{
    for (int i = 0; i < OBJECTS; i++) {
        size_t bytes = (size_t)words_each * sizeof(GC_word);
        void **p = how == 0 ? GC_malloc_explicitly_typed(bytes, descr)
                   : how == 1
                       ? GC_malloc_explicitly_typed_ignore_off_page(bytes, descr)
                       : GC_calloc_explicitly_typed(
                           (size_t)(words_each / element_words),
                           (size_t)element_words * sizeof(GC_word), descr);
        REQUIRE(p != NULL);
        CHECK(all_zero(p, bytes));
        CHECK_PTR(GC_base(p), p);
        fill_fields(p, words_each, i * words_each);
        root[i] = p;
    }
}

/* In all objects every field that the bitmap names is traced, and most of
 * the others are not. `period` repeats the bitmap (arrays). */
static void check_layout(const GC_word *bitmap, int bits, int period)
{
    GC_INIT();
    for (int round = 0; round < 2; round++) {
        deep(make_typed);
        collect();
        collect();
        int lost = 0, freed = 0, plain = 0;
        for (int i = 0; i < OBJECTS; i++)
            for (int w = 0; w < words_each; w++) {
                int b = period ? w % period : w;
                int traced = b < bits && GC_get_bit(bitmap, b);
                int cleared = watched[i * words_each + w] == 0;
                if (traced)
                    lost += cleared;
                else
                    plain++, freed += cleared;
            }
        CHECK_EQ(lost, 0);
        CHECK_GE(freed, MOST(plain));
        for (int k = 0; k < OBJECTS * words_each; k++)
            GC_unregister_disappearing_link((void **)&watched[k]);
    }
}

static void one_object(const GC_word *bitmap, int bits, int words)
{
    for (int w = 0; w < 2; w++) {
        GC_INIT();
        descr = GC_make_descriptor(bitmap, (size_t)bits);
        words_each = words;
        how = w;
        check_layout(bitmap, bits, 0);
    }
}

static void short_bitmap(void)
{
    GC_word bm[1] = {0x5};
    one_object(bm, 4, 4);
}

static void first_only(void)
{
    GC_word bm[1] = {1};
    one_object(bm, 3, 8);
}

static void last_only(void)
{
    GC_word bm[1] = {1u << 7};
    one_object(bm, 8, 8);
}

static void no_pointers(void)
{
    GC_word bm[1] = {0};
    one_object(bm, 8, 8);
}

static void all_pointers(void)
{
    GC_word bm[1] = {0xff};
    one_object(bm, 8, 8);
}

/* A prefix of pointers can be described by a length. */
static void leading_pointers(void)
{
    GC_word bm[1] = {0x7};
    one_object(bm, 20, 20);
}

/* Around the most that one word can describe. */
static void sixty_bits(void)
{
    GC_word bm[1] = {0x0aaaaaaaaaaaaaaaul & ~0ul};
    one_object(bm, 60, 60);
}

static void sixty_four_bits(void)
{
    GC_word bm[1] = {0x8000000100010004ul};
    one_object(bm, 64, 64);
}

/* A pointer in the last field alone, at each length around one word's end. */
static void last_of_each_length(void)
{
    for (int bits = 57; bits <= 67; bits++) {
        GC_word bm[2] = {0, 0};
        GC_set_bit(bm, bits - 1);
        one_object(bm, bits, bits);
    }
}

static void long_bitmap(void)
{
    GC_word bm[4] = {0x8421842184218421ul, 0, 0x1, 0x8000000000000000ul};
    one_object(bm, 256, 256);
}

static void long_sparse(void)
{
    GC_word bm[5] = {0, 0, 0, 0, 4};
    one_object(bm, 300, 300);
}

static void large_object(void)
{
    GC_word bm[1] = {0x3};
    one_object(bm, 2, 1000);
}

/* ---- arrays ---- */

static void array(const GC_word *bitmap, int bits, int element, int count)
{
    GC_INIT();
    descr = GC_make_descriptor(bitmap, (size_t)bits);
    element_words = element;
    words_each = element * count;
    how = 2;
    check_layout(bitmap, bits, element);
}

static void array_of_pairs(void)
{
    GC_word bm[1] = {1};
    array(bm, 2, 2, 50);
}

static void array_of_three(void)
{
    GC_word bm[1] = {2};
    array(bm, 3, 3, 100);
}

static void array_one_element(void)
{
    GC_word bm[1] = {5};
    array(bm, 3, 4, 1);
}

/* Arrays whose every field has its bit in one word, of elements that are not
 * pointers from their beginning on: a bitmap that repeats. */
static void array_in_one_word(void)
{
    GC_word bm[1] = {2};
    array(bm, 3, 3, 20);
    array(bm, 2, 2, 31);
}

static void array_long(void)
{
    GC_word bm[1] = {2};
    array(bm, 2, 2, 500);
}

static void array_of_atoms(void)
{
    GC_word bm[1] = {0};
    array(bm, 2, 2, 50);
}

static void array_of_wide(void)
{
    GC_word bm[3] = {0x8000000000000001ul, 0, 0x10};
    array(bm, 150, 150, 4);
}

static void array_empty(void)
{
    GC_word bm[1] = {1};
    GC_INIT();
    GC_descr d = GC_make_descriptor(bm, 2);
    CHECK(GC_calloc_explicitly_typed(0, 16, d) != NULL);
}

/* Many layouts: their tables grow. */
static void many_descriptors(void)
{
    GC_INIT();
    static void **volatile objects[500];
    for (int i = 0; i < 500; i++) {
        GC_word bm[4] = {0, 0, 0, 0};
        int bit = i % 200;
        GC_set_bit(bm, bit);
        GC_descr d = GC_make_descriptor(bm, 200);
        objects[i] = GC_malloc_explicitly_typed(200 * 8, d);
        objects[i][bit] = GC_malloc_atomic(16);
        *(int *)objects[i][bit] = i;
    }
    for (int r = 0; r < 3; r++) {
        collect();
        churn(4 << 20, 16);
        for (int i = 0; i < 4000; i++)
            memset(GC_malloc_atomic(16), 0xff, 16);
    }
    for (int i = 0; i < 500; i++)
        CHECK_EQ(*(int *)objects[i][i % 200], i);
}

/* A structure through the documented macros. */
struct sample {
    long a;
    void *p;
    double b;
    void *q;
};

static void by_macros(void)
{
    GC_word bm[GC_BITMAP_SIZE(struct sample)] = {0};
    GC_set_bit(bm, GC_WORD_OFFSET(struct sample, p));
    GC_set_bit(bm, GC_WORD_OFFSET(struct sample, q));
    CHECK_EQ(GC_get_bit(bm, 1), 1);
    CHECK_EQ(GC_get_bit(bm, 2), 0);
    one_object(bm, GC_WORD_LEN(struct sample), 4);
}

/* Freed like others. */
static void free_typed(void)
{
    GC_INIT();
    GC_word bm[3] = {1, 0, 1};
    GC_descr d = GC_make_descriptor(bm, 130);
    for (int i = 0; i < 10000; i++) {
        void **p = GC_malloc_explicitly_typed(130 * 8, d);
        CHECK(all_zero(p, 130 * 8));
        p[0] = p[128] = p;
        GC_free(p);
        p = GC_calloc_explicitly_typed(7, 130 * 8, d);
        p[0] = p;
        GC_free(p);
    }
    check_alive();
}

/* Elements that do not end with a word: those that follow begin within one. What all of them refer to is kept, and nothing goes
 * wrong behind the last. */
static void odd_elements(void)
{
    enum { ARRAYS = 20, ELEMENTS = 5 };
    GC_INIT();
    for (size_t words = 2; words <= 40; words += 2) {
        GC_word bm[1] = {((GC_word)1 << words) - 1};
        GC_descr d = GC_make_descriptor(bm, words);
        size_t bytes = words * sizeof(void *) + 4;
        char **arrays = GC_malloc(ARRAYS * sizeof(char *));
        for (int i = 0; i < ARRAYS; i++) {
            arrays[i] = GC_calloc_explicitly_typed(ELEMENTS, bytes, d);
            REQUIRE(arrays[i] != NULL);
            for (size_t e = 0; e < ELEMENTS; e++)
                for (size_t w = 0; w < words; w++) {
                    void *p = GC_malloc_atomic(32);
                    memset(p, (int)(i + e + w), 32);
                    memcpy(arrays[i] + e * bytes + w * sizeof p, &p, sizeof p);
                }
        }
        collect();
        for (int i = 0; i < 20000; i++)
            memset(GC_malloc_atomic(32), 0xee, 32);
        for (int i = 0; i < ARRAYS; i++)
            for (size_t e = 0; e < ELEMENTS; e++)
                for (size_t w = 0; w < words; w++) {
                    unsigned char *p;
                    memcpy(&p, arrays[i] + e * bytes + w * sizeof p, sizeof p);
                    CHECK(p[31] == (unsigned char)(i + e + w));
                }
    }
}

/* Typed objects in threads, with collections. */
static GC_descr pair;
static void *typed_thread(void *arg)
{
    void **list = NULL;
    for (int i = 0; i < 50000; i++) {
        void **p = GC_malloc_explicitly_typed(4 * 8, pair);
        p[0] = list;
        p[1] = (void *)(uintptr_t)i;
        list = p;
        if (i % 1000 == 999) {
            for (int j = i; j > i - 1000; j--, list = list[0])
                if (list[1] != (void *)(uintptr_t)j)
                    return NULL;
            list = NULL;
        }
    }
    return arg;
}

static void typed_in_threads(void)
{
    pthread_t t[8];
    GC_word bm[1] = {1};
    GC_INIT();
    pair = GC_make_descriptor(bm, 4);
    for (int i = 0; i < 8; i++)
        REQUIRE(pthread_create(&t[i], NULL, typed_thread, &pair) == 0);
    for (int i = 0; i < 10; i++)
        GC_gcollect();
    for (int i = 0; i < 8; i++) {
        void *r = NULL;
        pthread_join(t[i], &r);
        CHECK_PTR(r, &pair);
    }
}

MAIN_BEGIN
    RUN(short_bitmap);
    RUN(first_only);
    RUN(last_only);
    RUN(no_pointers);
    RUN(all_pointers);
    RUN(leading_pointers);
    RUN(sixty_bits);
    RUN(sixty_four_bits);
    RUN(last_of_each_length);
    RUN(long_bitmap);
    RUN(long_sparse);
    RUN(large_object);
    RUN(array_of_pairs);
    RUN(array_of_three);
    RUN(array_one_element);
    RUN(array_in_one_word);
    RUN(array_long);
    RUN(array_of_atoms);
    RUN(array_of_wide);
    RUN(array_empty);
    RUN(many_descriptors);
    RUN(by_macros);
    RUN(free_typed);
    RUN(odd_elements);
    RUN(typed_in_threads);
MAIN_END
