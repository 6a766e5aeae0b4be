/* An XML document, and its parts one after the other. */
#ifndef RIVALS_DOCUMENT_H
#define RIVALS_DOCUMENT_H

#include "rival.h"

/* A document that was read once and is well-formed. */
struct document {
    char *text;
    size_t length;
    /* How many elements are read at most, from the first on, with all that they are in. */
    size_t most;
    /* How many elements are read. */
    size_t elements;
};

/* What is done with each part, in the order of the document. */
struct visitor {
    void (*element)(void *context, const char *name);
    /* Of the element that has just begun. */
    void (*attribute)(void *context, const char *name, const char *value);
    void (*text)(void *context, const char *text, size_t length);
    /* The innermost element ends. */
    void (*end)(void *context);
};

/* The document for a run; ends the program when there is none. */
struct document read_document(const struct chosen *chosen);

/* Gives all parts to `visitor`; why that failed, or NULL. */
const char *visit_parts(const struct document *document, const struct visitor *visitor,
                        void *context);

#endif
