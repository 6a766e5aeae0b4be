/* A real XML document is read into objects, transformed, and written again,
 * several times.
 *
 * By hand, the children that were sorted are freed when they were transformed,
 * the second tree when it was written, each buffer when it was hashed, the first
 * tree when it was checked, and the names, which both trees share, with it. The
 * text of an attribute is the first tree's, though a node of the second one
 * refers to it, too. */
#include <stdbool.h>

#include "document.h"
#include "numbers.h"

enum {
    /* Places of the table of names. */
    PLACES = 256,
    /* Bytes of a buffer that is written to. */
    BUFFER = 4096,
    /* Up to this many children are sorted by insertion. */
    FEW = 20,
};

struct xml_node {
    struct xml_node *next, *parent;
    /* A name, or, of a text, its letters. */
    struct bytes *content;
    struct attribute *attributes;
    struct xml_node *first, *last;
    bool is_element, owns_content;
    uint32_t children;
};

struct attribute {
    struct attribute *next;
    struct bytes *name, *value;
};

struct name {
    struct name *next;
    struct bytes *letters;
};

struct buffer {
    struct buffer *next;
    unsigned char *bytes;
    uint32_t used;
};

/* While a document is read: the innermost element, its last attribute, the
 * outermost one, and the names. */
struct reading {
    struct xml_node *at, *root;
    struct attribute *last;
    struct name **names;
};

static struct document document;

void prepare_xml(const struct chosen *chosen)
{
    document = read_document(chosen);
}

static void append(struct xml_node *parent, struct xml_node *node)
{
    node->parent = parent;
    if (parent->last == NULL)
        parent->first = node;
    else
        parent->last->next = node;
    parent->last = node;
    parent->children++;
}

static struct xml_node *new_element(struct bytes *name)
{
    struct xml_node *node = memory_object(sizeof *node);

    *node = (struct xml_node){ .content = name, .is_element = true };
    return node;
}

static struct xml_node *new_text(struct bytes *text, bool owns_content)
{
    struct xml_node *node = memory_object(sizeof *node);

    *node = (struct xml_node){ .content = text, .owns_content = owns_content };
    return node;
}

/* How many elements a tree has, in which each node knows its parent. */
static size_t elements_of(const struct xml_node *node, const struct xml_node *parent)
{
    size_t elements = node->is_element;

    require(node->parent == parent, "a node knows its parent");
    for (const struct xml_node *child = node->first; child != NULL; child = child->next)
        elements += elements_of(child, node);
    return elements;
}

static void fell(struct xml_node *node)
{
    for (struct attribute *attribute = node->attributes, *next; attribute != NULL;
         attribute = next) {
        next = attribute->next;
        memory_free(attribute->value);
        memory_free(attribute);
    }
    for (struct xml_node *child = node->first, *next; child != NULL; child = next) {
        next = child->next;
        fell(child);
    }
    if (node->owns_content)
        memory_free(node->content);
    memory_free(node);
}

/* ---- reading ---- */

/* The letters of a name, the same object for the same name. */
static struct bytes *letters_of(struct name **names, const char *text)
{
    size_t length = strlen(text);
    uint64_t hash = hash_on(NO_BYTES, (const unsigned char *)text, length);
    struct name **place = &names[hash % PLACES], *name;
    struct bytes *letters;

    for (name = *place; name != NULL; name = name->next)
        if (name->letters->length == length && memcmp(name->letters->at, text, length) == 0)
            return name->letters;
    letters = copied_bytes(text, length);
    name = memory_object(sizeof *name);
    *name = (struct name){ .next = *place, .letters = letters };
    *place = name;
    return letters;
}

static void free_names(struct name **names)
{
    for (int place = 0; place < PLACES; place++)
        for (struct name *name = names[place], *next; name != NULL; name = next) {
            next = name->next;
            memory_free(name->letters);
            memory_free(name);
        }
    memory_free(names);
}

static void read_element(void *context, const char *name)
{
    struct reading *reading = context;
    struct xml_node *element = new_element(letters_of(reading->names, name));

    if (reading->at != NULL)
        append(reading->at, element);
    else
        reading->root = element;
    reading->at = element;
    reading->last = NULL;
}

/* An attribute of the innermost element, behind the last one. */
static void read_attribute(void *context, const char *name, const char *value)
{
    struct reading *reading = context;
    struct bytes *letters = letters_of(reading->names, name);
    struct bytes *text = copied_bytes(value, strlen(value));
    struct attribute *attribute = memory_object(sizeof *attribute);

    *attribute = (struct attribute){ .name = letters, .value = text };
    if (reading->last == NULL)
        reading->at->attributes = attribute;
    else
        reading->last->next = attribute;
    reading->last = attribute;
}

static void read_text(void *context, const char *text, size_t length)
{
    struct reading *reading = context;

    append(reading->at, new_text(copied_bytes(text, length), true));
}

static void read_end(void *context)
{
    struct reading *reading = context;

    reading->at = reading->at->parent;
}

/* ---- transforming ---- */

/* By name, texts first. */
static int compared(const struct xml_node *left, const struct xml_node *right)
{
    const struct bytes *a = left->content, *b = right->content;
    int order;

    if (!left->is_element || !right->is_element)
        return left->is_element - right->is_element;
    order = memcmp(a->at, b->at, a->length < b->length ? a->length : b->length);
    return order != 0 ? order : (a->length > b->length) - (a->length < b->length);
}

/* Sorts nodes, those that are equal in the order that they have. */
static void sort(struct xml_node **nodes, size_t count, struct xml_node **spare)
{
    size_t half = count / 2, left = 0, right = half, at = 0;

    if (count <= FEW) {
        for (size_t i = 1; i < count; i++) {
            struct xml_node *node = nodes[i];
            size_t to = i;

            for (; to > 0 && compared(nodes[to - 1], node) > 0; to--)
                nodes[to] = nodes[to - 1];
            nodes[to] = node;
        }
        return;
    }
    sort(nodes, half, spare);
    sort(nodes + half, count - half, spare);
    if (compared(nodes[half - 1], nodes[half]) <= 0)
        return;
    memcpy(spare, nodes, half * sizeof *nodes);
    while (left < half && right < count)
        nodes[at++] = compared(spare[left], nodes[right]) <= 0 ? spare[left++] : nodes[right++];
    memcpy(nodes + at, spare + left, (half - left) * sizeof *nodes);
}

/* The children of a node, sorted. */
static struct xml_node **sorted_children(const struct xml_node *node)
{
    struct xml_node **children = (void *)memory_references(node->children);
    size_t count = 0;

    for (struct xml_node *child = node->first; child != NULL; child = child->next)
        children[count++] = child;
    if (count <= FEW) {
        sort(children, count, NULL);
    } else {
        struct xml_node **spare = allocated(malloc(count / 2 * sizeof *spare));

        sort(children, count, spare);
        free(spare);
    }
    return children;
}

static struct bytes *upper_bytes(const struct bytes *text)
{
    struct bytes *fresh = fresh_bytes(text->length);

    for (size_t i = 0; i < text->length; i++)
        fresh->at[i] = upper(text->at[i]);
    return fresh;
}

/* The transformed tree of a tree: attributes are elements, texts are upper case,
 * and elements are sorted. */
static struct xml_node *transformed(const struct xml_node *node)
{
    struct xml_node *fresh, **children;

    if (!node->is_element)
        return new_text(upper_bytes(node->content), true);
    fresh = new_element(node->content);
    for (const struct attribute *attribute = node->attributes; attribute != NULL;
         attribute = attribute->next) {
        struct xml_node *element = new_element(attribute->name);

        append(fresh, element);
        append(element, new_text(attribute->value, false));
    }
    children = sorted_children(node);
    for (uint32_t i = 0; i < node->children; i++)
        append(fresh, transformed(children[i]));
    memory_free(children);
    return fresh;
}

/* ---- writing ---- */

static struct buffer *new_buffer(void)
{
    unsigned char *bytes = memory_numbers(BUFFER);
    struct buffer *buffer = memory_object(sizeof *buffer);

    *buffer = (struct buffer){ .bytes = bytes };
    return buffer;
}

static void write_bytes(struct buffer **last, const void *text, size_t length)
{
    const unsigned char *from = text;

    while (length > 0) {
        struct buffer *buffer = *last;
        size_t room = BUFFER - buffer->used, now = length < room ? length : room;

        if (room == 0) {
            *last = buffer->next = new_buffer();
            continue;
        }
        memcpy(buffer->bytes + buffer->used, from, now);
        buffer->used += (uint32_t)now;
        from += now;
        length -= now;
    }
}

/* How XML writes a letter that it needs for itself, or NULL. */
static inline const char *escaped(unsigned char letter)
{
    switch (letter) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    }
    return NULL;
}

/* A name or a text, with what XML needs escaped. */
static void write_content(struct buffer **last, const struct bytes *content)
{
    uint32_t from = 0;

    for (uint32_t at = 0; at < content->length; at++) {
        const char *escape = escaped(content->at[at]);

        if (escape == NULL)
            continue;
        write_bytes(last, content->at + from, at - from);
        write_bytes(last, escape, strlen(escape));
        from = at + 1;
    }
    write_bytes(last, content->at + from, content->length - from);
}

static void write_node(struct buffer **last, const struct xml_node *node)
{
    if (!node->is_element) {
        write_content(last, node->content);
        return;
    }
    write_bytes(last, "<", 1);
    write_content(last, node->content);
    write_bytes(last, ">", 1);
    for (const struct xml_node *child = node->first; child != NULL; child = child->next)
        write_node(last, child);
    write_bytes(last, "</", 2);
    write_content(last, node->content);
    write_bytes(last, ">", 1);
}

/* The number of a tree as it is written. */
static uint64_t written(const struct xml_node *tree)
{
    struct buffer *first = new_buffer(), *last = first;
    uint64_t hash = NO_BYTES;

    write_node(&last, tree);
    for (struct buffer *buffer = first, *next; buffer != NULL; buffer = next) {
        next = buffer->next;
        hash = hash_on(hash, buffer->bytes, buffer->used);
        memory_free(buffer->bytes);
        memory_free(buffer);
    }
    return hash;
}

static uint64_t pass(void)
{
    static const struct visitor visitor = { read_element, read_attribute, read_text, read_end };
    struct reading reading = { .names = (void *)memory_references(PLACES) };
    const char *problem = visit_parts(&document, &visitor, &reading);
    struct xml_node *other;
    uint64_t hash;

    require(problem == NULL, "it was read before");
    other = transformed(reading.root);
    hash = written(other);
    if (memory_by_hand)
        fell(other);
    require(elements_of(reading.root, NULL) == document.elements, "the tree is whole");
    if (memory_by_hand) {
        fell(reading.root);
        free_names(reading.names);
    }
    return hash;
}

static uint64_t do_passes(void *context, unsigned number)
{
    const struct chosen *chosen = context;
    uint64_t sum = 0;

    (void)number;
    for (int passes = chosen->tiny ? 2 : 8; passes > 0; passes--)
        sum = chained(sum, pass());
    return sum;
}

uint64_t xml(const struct chosen *chosen)
{
    return run_mutators(chosen->mutators, do_passes, (void *)chosen);
}
