/* Reads the files and runs them; scheme.h says what the language has. */
#include "scheme.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gleaner_heap *heap;

/* The text of a file; to be freed. */
static char *read_file(const char *name, size_t *length)
{
    FILE *in = fopen(name, "r");
    char *text = NULL;
    size_t room = 0, got = 1;

    if (in == NULL)
        fail("%s cannot be opened", name);
    for (*length = 0; got > 0; *length += got) {
        if (room < *length + 4096) {
            room = 2 * room + 4096;
            text = realloc(text, room);
            if (text == NULL)
                abort();
        }
        got = fread(text + *length, 1, room - *length, in);
    }
    fclose(in);
    return text;
}

static void run_text(struct reader reader)
{
    gleaner_value form;

    while (read_next(&reader, &form)) {
        form = expand(form);
        evaluate(form);
    }
}

static void run_file(const char *name)
{
    size_t length;
    struct catch here;
    char *volatile text = read_file(name, &length);

    begin_catch(&here);
    if (setjmp(here.where) != 0) {
        end_catch(&here);
        free(text);
        fail("%s", message);
    }
    run_text((struct reader){ text, text + length });
    end_catch(&here);
    free(text);
}

static void run_all(char **files)
{
    make_types(heap);
    make_shared();
    define_syntax();
    define_primitives();
    while (*files != NULL)
        run_file(*files++);
}

/* The answer is whether it failed. */
static bool run_and_report(char **files)
{
    struct catch here;

    begin_catch(&here);
    if (setjmp(here.where) == 0) {
        run_all(files);
        end_catch(&here);
        return false;
    }
    end_catch(&here);
    fflush(stdout);
    fprintf(stderr, "scheme: %s\n", message);
    return true;
}

int main(int argc, char **argv)
{
    struct gleaner_options options = {
        .limit = 64 << 20, .outside_layout = GLEANER_LAYOUT_FOLLOWED
    };
    char said[200];
    bool failed;

    (void)argc;
    heap = gleaner_heap_new(&options, said, sizeof said);
    if (heap == NULL) {
        fprintf(stderr, "scheme: %s\n", said);
        return 1;
    }
    m = gleaner_attach(heap);
    if (m == NULL)
        return 1; /* a line says why */
    {
        GLEANER_FRAME(m, frame, ROOTS);
        use_roots(frame.values);
        failed = run_and_report(argv + 1);
        join_all();
        GLEANER_LEAVE(m, frame);
    }
    free_weak_tables();
    free_shared();
    gleaner_detach(m);
    free(message);
    free(scratch.bytes);
    if (!gleaner_heap_free(heap)) {
        fprintf(stderr, "scheme: something still holds the heap\n");
        return 1;
    }
    return failed;
}
