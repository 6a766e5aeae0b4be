/* Debian's licences and documentation, or a directory that the user names.
 *
 * The selection is the same for the same files: in the order of their paths, each
 * content once, up to a bound. A text is a file, plain or `.gz`, without a zero
 * byte; links, what is too large and what cannot be read are left out. */
#include <fts.h>
#include <stdbool.h>
#include <zlib.h>

#include "texts.h"

/* Bytes of one text, at most, and one more. */
enum { LARGEST = 512 << 10, TOO_LARGE = LARGEST + 1 };

/* Reads a file; how much there was, at most so much as there is room for. */
static size_t read_plain(FILE *file, unsigned char *into)
{
    size_t length = fread(into, 1, TOO_LARGE, file);

    return ferror(file) ? 0 : length;
}

/* The same, decompressed, one part of the file after the other; 0 where it is not
 * well-formed. */
static size_t read_compressed(FILE *file, unsigned char *into)
{
    unsigned char from[1 << 14];
    z_stream stream = { .next_out = into, .avail_out = TOO_LARGE };
    int result = Z_STREAM_END;

    if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
        return 0;
    while (stream.avail_out > 0 && (result == Z_OK || result == Z_STREAM_END)) {
        if (stream.avail_in == 0) {
            stream.next_in = from;
            stream.avail_in = (uInt)fread(from, 1, sizeof from, file);
        }
        if (stream.avail_in == 0)
            break;
        if (result == Z_STREAM_END)
            inflateReset(&stream);
        result = inflate(&stream, Z_NO_FLUSH);
    }
    inflateEnd(&stream);
    if (stream.avail_out > 0 && result != Z_STREAM_END)
        return 0;
    return TOO_LARGE - stream.avail_out;
}

/* The content of a file, if it is a text. */
static bool read_text(const FTSENT *entry, struct text *text)
{
    static unsigned char read[TOO_LARGE];
    const char *end = strrchr(entry->fts_name, '.');
    FILE *file = fopen(entry->fts_accpath, "rb");
    size_t length;

    if (file == NULL)
        return false;
    if (end != NULL && end != entry->fts_name && strcmp(end, ".gz") == 0)
        length = read_compressed(file, read);
    else
        length = read_plain(file, read);
    fclose(file);
    if (length < 1 || length > LARGEST || memchr(read, 0, length) != NULL)
        return false;
    *text = (struct text){
        .name = strdup(entry->fts_path),
        .bytes = memcpy(allocated(malloc(length)), read, length),
        .length = length,
        .hash = hash_on(NO_BYTES, read, length),
    };
    return true;
}

static bool is_known(const struct texts *texts, const struct text *text)
{
    for (size_t i = 0; i < texts->count; i++)
        if (texts->text[i].length == text->length && texts->text[i].hash == text->hash)
            return true;
    return false;
}

static int by_name(const FTSENT **left, const FTSENT **right)
{
    return strcmp((*left)->fts_name, (*right)->fts_name);
}

/* Adds the texts below a directory; whether there are enough. */
static bool add_below(struct texts *texts, char *place, size_t most)
{
    char *places[] = { place, NULL };
    FTS *files = fts_open(places, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
    bool enough = false;

    for (FTSENT *entry; !enough && files != NULL && (entry = fts_read(files)) != NULL;) {
        struct text text;

        if (entry->fts_info != FTS_F || entry->fts_level == 0 || !read_text(entry, &text))
            continue;
        if (texts->bytes + text.length > most || is_known(texts, &text)) {
            free(text.name);
            free(text.bytes);
            continue;
        }
        if ((texts->count & (texts->count - 1)) == 0)
            texts->text = allocated(realloc(texts->text,
                                            (2 * texts->count + 1) * sizeof *texts->text));
        texts->text[texts->count++] = text;
        texts->bytes += text.length;
        enough = texts->bytes > most - most / 16;
    }
    if (files != NULL)
        fts_close(files);
    return enough;
}

struct texts read_texts(const struct chosen *chosen)
{
    static char licences[] = "/usr/share/common-licenses", documentation[] = "/usr/share/doc";
    size_t most = chosen->tiny ? 192 << 10 : 12 << 20;
    size_t least = chosen->tiny ? 64 << 10 : 4 << 20;
    struct texts texts = { 0 };

    if (chosen->input != NULL) {
        char *place = strdup(chosen->input);

        least = 1;
        add_below(&texts, place, most);
        free(place);
    } else if (!add_below(&texts, licences, most)) {
        add_below(&texts, documentation, most);
    }
    if (texts.bytes < least)
        give_up("index: %zu bytes of text in %s, and %zu are needed: install packages that "
                "bring documentation, or name a directory with --input",
                texts.bytes,
                chosen->input != NULL ? chosen->input
                                      : "/usr/share/common-licenses and /usr/share/doc",
                least);
    return texts;
}
