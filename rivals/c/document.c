/* Expat is the source of events; here they become what a tree is built of.
 *
 * White space alone is no text, and an attribute that only the document type
 * gives is none. Comments, instructions and the document type are passed over.
 * What expat and the text that is pending need is not the rival's memory. */
#include <errno.h>
#include <expat.h>
#include <stdbool.h>
#include <string.h>

#include "document.h"

/* Expat copies what it is given; so much stays in the caches. */
enum { PIECE = 1 << 16 };

struct parse {
    const struct document *document;
    const struct visitor *visitor;
    void *context;
    XML_Parser parser;
    /* The text since the last tag. */
    char *pending;
    size_t length, room;
    size_t elements;
    /* How deep in an element that is one too many. */
    size_t skipped;
};

/* How many bytes of white space, as Unicode has it, some text begins with. */
static size_t space(const unsigned char *text, size_t length)
{
    if (text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r'))
        return 1;
    if (length >= 2 && text[0] == 0xc2 && (text[1] == 0x85 || text[1] == 0xa0))
        return 2;
    if (length < 3)
        return 0;
    switch (text[0] << 16 | text[1] << 8 | text[2]) {
    case 0xe19a80: case 0xe280a8: case 0xe280a9: case 0xe280af: case 0xe2819f: case 0xe38080:
        return 3;
    }
    return text[0] == 0xe2 && text[1] == 0x80 && text[2] >= 0x80 && text[2] <= 0x8a ? 3 : 0;
}

/* A tag begins: what came before it is a text. */
static void flush(struct parse *parse)
{
    size_t at = 0, more;

    while (at < parse->length
           && (more = space((unsigned char *)parse->pending + at, parse->length - at)) > 0)
        at += more;
    if (at < parse->length)
        parse->visitor->text(parse->context, parse->pending, parse->length);
    parse->length = 0;
}

static void XMLCALL on_start(void *data, const XML_Char *name, const XML_Char **attributes)
{
    struct parse *parse = data;
    int given;

    if (parse->skipped > 0) {
        parse->skipped++;
        return;
    }
    flush(parse);
    if (parse->elements == parse->document->most) {
        parse->skipped = 1;
        return;
    }
    parse->elements++;
    parse->visitor->element(parse->context, name);
    given = XML_GetSpecifiedAttributeCount(parse->parser);
    for (int i = 0; i < given; i += 2)
        parse->visitor->attribute(parse->context, attributes[i], attributes[i + 1]);
}

static void XMLCALL on_end(void *data, const XML_Char *name)
{
    struct parse *parse = data;

    (void)name;
    if (parse->skipped > 0) {
        parse->skipped--;
        return;
    }
    flush(parse);
    parse->visitor->end(parse->context);
}

static void XMLCALL on_text(void *data, const XML_Char *text, int length)
{
    struct parse *parse = data;
    size_t more = (size_t)length;

    if (parse->skipped > 0)
        return;
    if (parse->length + more > parse->room) {
        parse->room = 2 * (parse->length + more);
        parse->pending = allocated(realloc(parse->pending, parse->room));
    }
    memcpy(parse->pending + parse->length, text, more);
    parse->length += more;
}

const char *visit_parts(const struct document *document, const struct visitor *visitor,
                        void *context)
{
    struct parse parse = { .document = document, .visitor = visitor, .context = context };
    const char *problem = NULL;
    size_t from = 0, to = 0;

    parse.parser = allocated(XML_ParserCreate("UTF-8"));
    XML_SetUserData(parse.parser, &parse);
    XML_SetElementHandler(parse.parser, on_start, on_end);
    XML_SetCharacterDataHandler(parse.parser, on_text);
    do {
        from = to;
        to = document->length - from < PIECE ? document->length : from + PIECE;
        if (XML_Parse(parse.parser, document->text + from, (int)(to - from),
                      to == document->length) != XML_STATUS_OK)
            problem = XML_ErrorString(XML_GetErrorCode(parse.parser));
    } while (problem == NULL && to < document->length);
    XML_ParserFree(parse.parser);
    free(parse.pending);
    return problem;
}

/* ---- reading it ---- */

static void count_element(void *context, const char *name)
{
    size_t *elements = context;

    (void)name;
    ++*elements;
}

static void ignore_attribute(void *context, const char *name, const char *value)
{
    (void)context, (void)name, (void)value;
}

static void ignore_text(void *context, const char *text, size_t length)
{
    (void)context, (void)text, (void)length;
}

static void ignore_end(void *context)
{
    (void)context;
}

static const char *place(void)
{
    static const char *const places[] = {
        "/usr/share/mime/packages/freedesktop.org.xml",
        "/usr/share/xml/iso-codes/iso_639-3.xml",
    };

    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (access(places[i], R_OK) == 0)
            return places[i];
    give_up("xml: neither %s nor %s is there: install the package shared-mime-info or iso-codes, "
            "or name a document with --input", places[0], places[1]);
}

struct document read_document(const struct chosen *chosen)
{
    static const struct visitor counting = {
        count_element, ignore_attribute, ignore_text, ignore_end,
    };
    const char *path = chosen->input != NULL ? chosen->input : place(), *problem;
    struct document document = { .most = chosen->tiny ? 300 : SIZE_MAX };
    FILE *file = fopen(path, "rb");
    long length = -1;

    if (file != NULL && fseek(file, 0, SEEK_END) == 0)
        length = ftell(file);
    if (length < 0)
        give_up("%s: %s", path, strerror(errno));
    rewind(file);
    document.text = allocated(malloc((size_t)length + 1));
    document.length = fread(document.text, 1, (size_t)length, file);
    fclose(file);
    problem = visit_parts(&document, &counting, &document.elements);
    if (problem != NULL)
        give_up("%s: %s; name another with --input", path, problem);
    return document;
}
