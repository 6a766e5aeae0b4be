/*
 * malloc_free [procedures] [pages]
 *
 * A program written for malloc and free, linked with the collector (ISMM 2000,
 * section 6: ptc and ghostscript).  It frees by hand most of what it
 * allocates, and builds one large structure that lives to the end.
 *
 * The first part is a translator: it makes up a program of nested statements,
 * keeps its syntax tree and its growing symbol table for ever, and frees its
 * token texts and output buffers at once.  Without pages it is all there is,
 * and stands in for ptc.  The second part is a renderer: it draws pages as
 * lists of paths with many small segments and a few large rasters, frees most
 * of them by hand and drops the rest.
 */
#include "measure.h"

#include <gc.h>
#include <stdio.h>
#include <string.h>

enum { SEED = 2000 };

static uint64_t random_state;
static uint64_t sum;

static size_t random_below(size_t limit)
{
    return (size_t)(next_random(&random_state) % limit);
}

static void *get(size_t size)
{
    void *object = GC_MALLOC(size);

    require(object != NULL, "an object was allocated");
    return object;
}

static void *get_text(size_t size)
{
    void *object = GC_MALLOC_ATOMIC(size);

    require(object != NULL, "a text was allocated");
    return object;
}

/* ---- the translator ---------------------------------------------------- */

enum kind { NAME, NUMBER, CALL, ASSIGN, IF, WHILE, BLOCK, KINDS };

struct syntax {
    enum kind kind;
    unsigned children;
    const char *text;      /* of a name: owned by the symbol table */
    struct syntax **child; /* an array of its own */
};

/* Names in order of appearance; the array doubles by GC_REALLOC. */
struct symbols {
    const char **names;
    size_t used, room;
};

static struct symbols symbols;

static const char *intern(const char *token)
{
    char *kept;

    if (symbols.used > 8 && random_below(4) != 0)
        return symbols.names[random_below(symbols.used)];
    if (symbols.used == symbols.room) {
        symbols.room = symbols.room == 0 ? 16 : 2 * symbols.room;
        symbols.names = GC_REALLOC((void *)symbols.names,
                                   symbols.room * sizeof(char *));
        require(symbols.names != NULL, "the symbol table grows");
    }
    kept = get_text(strlen(token) + 1);
    strcpy(kept, token);
    symbols.names[symbols.used++] = kept;
    return kept;
}

/* A token lives for one call: this is where most objects are freed. */
static char *read_token(void)
{
    size_t length = 1 + random_below(30), i;
    char *token = get_text(length + 1);

    for (i = 0; i < length; i++)
        token[i] = (char)('a' + random_below(26));
    token[length] = '\0';
    return token;
}

static struct syntax *parse(unsigned depth)
{
    static const unsigned arity[KINDS] = { 0, 0, 3, 2, 3, 2, 5 };
    struct syntax *tree = get(sizeof *tree);
    char *token = read_token();
    unsigned i;

    tree->kind = depth == 0 ? (enum kind)random_below(2)
                            : (enum kind)(CALL + random_below(KINDS - CALL));
    tree->children = arity[tree->kind];
    if (tree->kind == NAME || tree->kind == CALL)
        tree->text = intern(token);
    GC_FREE(token);
    if (tree->children == 0)
        return tree;
    tree->child = get(tree->children * sizeof *tree->child);
    for (i = 0; i < tree->children; i++)
        tree->child[i] = parse(depth - 1);
    return tree;
}

/* Output text of a tree: each level joins its children's buffers and frees
   them. */
static char *translate(const struct syntax *tree)
{
    static const char *const words[KINDS]
        = { "n", "0", "call", "=", "if", "while", "{}" };
    char *out, *part;
    size_t used;
    unsigned i;

    if (tree->text != NULL && tree->children == 0) {
        out = get_text(strlen(tree->text) + 1);
        return strcpy(out, tree->text);
    }
    out = get_text(16);
    used = (size_t)snprintf(out, 16, "%s(", words[tree->kind]);
    for (i = 0; i < tree->children; i++) {
        size_t length;

        part = translate(tree->child[i]);
        length = strlen(part);
        out = GC_REALLOC(out, used + length + 3);
        require(out != NULL, "an output buffer grows");
        memcpy(out + used, part, length);
        used += length;
        out[used++] = ' ';
        GC_FREE(part);
    }
    out[used++] = ')';
    out[used] = '\0';
    return out;
}

static void fold_text(const char *text)
{
    for (; *text != '\0'; text++)
        sum = sum * 31 + (unsigned char)*text;
}

static void run_translator(struct syntax **program, size_t procedures)
{
    size_t i;

    for (i = 0; i < procedures; i++) {
        char *out;

        program[i] = parse(2 + (unsigned)random_below(4));
        out = translate(program[i]);
        fold_text(out);
        GC_FREE(out);
    }
}

/* ---- the renderer ------------------------------------------------------ */

struct segment {
    struct segment *next;
    int x, y;
};

struct path {
    struct path *next;
    struct segment *segments;
    unsigned char *raster;
    size_t raster_bytes;
};

static struct path *draw_path(struct path *next)
{
    struct path *path = get(sizeof *path);
    size_t segments = 5 + random_below(60);

    path->next = next;
    while (segments-- > 0) {
        struct segment *segment = get(sizeof *segment);

        segment->x = (int)random_below(1000);
        segment->y = (int)random_below(1000);
        segment->next = path->segments;
        path->segments = segment;
    }
    if (random_below(20) == 0) {
        path->raster_bytes = 1000 + random_below(40000);
        path->raster = get_text(path->raster_bytes);
        memset(path->raster, (int)path->raster_bytes & 0xff,
               path->raster_bytes);
    }
    return path;
}

static void render(const struct path *path)
{
    const struct segment *segment;

    for (; path != NULL; path = path->next) {
        for (segment = path->segments; segment; segment = segment->next)
            sum = sum * 31 + (uint64_t)(segment->x ^ segment->y);
        if (path->raster != NULL)
            sum += path->raster[path->raster_bytes / 2];
    }
}

/* Frees all of a page except, in every eighth path, the segments: those were
   forgotten by the program and are left to the collector. */
static void free_page(struct path *path)
{
    size_t forgotten = 0;

    while (path != NULL) {
        struct path *next = path->next;
        struct segment *segment = path->segments;

        while (segment != NULL && forgotten % 8 != 0) {
            struct segment *after = segment->next;

            GC_FREE(segment);
            segment = after;
        }
        forgotten++;
        if (path->raster != NULL)
            GC_FREE(path->raster);
        GC_FREE(path);
        path = next;
    }
}

static void run_renderer(size_t pages)
{
    size_t i, paths;

    for (i = 0; i < pages; i++) {
        struct path *page = NULL;

        for (paths = 200 + random_below(400); paths > 0; paths--)
            page = draw_path(page);
        render(page);
        free_page(page);
    }
}

/* ------------------------------------------------------------------------ */

/* The tree must still say what it said when it was built. */
static void fold_tree(const struct syntax *tree)
{
    unsigned i;

    sum = sum * 31 + (uint64_t)tree->kind;
    if (tree->text != NULL)
        fold_text(tree->text);
    for (i = 0; i < tree->children; i++)
        fold_tree(tree->child[i]);
}

struct work {
    size_t procedures, pages;
};

static uint64_t translate_and_render(const void *scale)
{
    const struct work *work = scale;
    struct syntax **program;
    size_t i;

    sum = 0;
    random_state = SEED;
    memset(&symbols, 0, sizeof symbols);
    program = get(work->procedures * sizeof *program);
    run_translator(program, work->procedures);
    run_renderer(work->pages);
    for (i = 0; i < work->procedures; i++)
        fold_tree(program[i]);
    return sum;
}

int main(int argc, char **argv)
{
    struct work work;

    measure_start();
    work.procedures = scale_argument(argc, argv, 1, 20000, 1, 10000000);
    work.pages = scale_argument(argc, argv, 2, 2000, 0, 10000000);
    measure("malloc_free", translate_and_render, &work);
    return 0;
}
