/* A snapshot of the heap as its file has it, line by line: crates/heapgraph reads the same lines. */
#ifndef SNAPSHOT_FILE_H
#define SNAPSHOT_FILE_H

#include "harness.h"

#include <sys/stat.h>

/* As it was read. */
static char *text;
static size_t text_length;

static void read_snapshot(const char *path)
{
    FILE *file = fopen(path, "r");
    struct stat status;

    REQUIRE(file != NULL);
    CHECK_EQ(fstat(fileno(file), &status), 0);
    free(text);
    text_length = (size_t)status.st_size;
    text = malloc(text_length + 1);
    CHECK_EQ(fread(text, 1, text_length, file), text_length);
    text[text_length] = '\0';
    fclose(file);
}

/* The line that begins with `start`, or NULL. */
static const char *line(const char *start)
{
    size_t length = strlen(start);
    const char *at = text;

    while (at != NULL && *at != '\0') {
        if (strncmp(at, start, length) == 0)
            return at;
        at = strchr(at, '\n');
        if (at != NULL)
            at++;
    }
    return NULL;
}

/* Whether the line of the object at `base` has that target. */
static int refers(const void *base, const void *target)
{
    char start[64], wanted[64];
    const char *found, *end;

    snprintf(start, sizeof start, "o %lx ", (unsigned long)base);
    snprintf(wanted, sizeof wanted, " %lx", (unsigned long)target);
    found = line(start);
    if (found == NULL)
        return 0;
    end = strchr(found, '\n');
    found = strstr(found + strlen(start), wanted);
    return found != NULL && found < end;
}

static int has_object(const void *base)
{
    char start[64];
    snprintf(start, sizeof start, "o %lx ", (unsigned long)base);
    return line(start) != NULL;
}

static int has_word(const void *slot, const void *base, size_t offset)
{
    char start[96];
    snprintf(start, sizeof start, "w %lx %lx %zu\n", (unsigned long)slot, (unsigned long)base, offset);
    return line(start) != NULL;
}

#endif
