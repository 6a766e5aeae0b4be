/* Mistakes, each of which ends a child with one line that names it. */

#ifndef MISTAKE_H
#define MISTAKE_H

#include "child.h"
#include "stage.h"

#include <signal.h>

struct mistake {
    const char *message;
    void (*make)(struct stage *s);
};

/* A mistake, on a stage. */
struct made {
    const struct mistake *mistake;
    struct stage *stage;
};

static void make(const void *of)
{
    const struct made *made = (const struct made *)of;

    made->mistake->make(made->stage);
}

static inline void expect_messages(const struct mistake *mistakes, size_t count,
                                   bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    size_t i;

    unsetenv("RUST_BACKTRACE");
    new_node(&s, 1);
    for (i = 0; i < count; i++) {
        struct made of = { &mistakes[i], &s };
        char said[8192];
        int status = said_by_child(make, &of, said, sizeof said);

        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        /* One line, and nothing else. */
        if (strncmp(said, "gleaner: ", 9) != 0
            || strstr(said, mistakes[i].message) == NULL
            || strchr(said, '\n') != said + strlen(said) - 1) {
            printf("not '%s' alone: %s\n", mistakes[i].message, said);
            CHECK(!"the message");
        }
    }
    tear_down(&s);
}

#endif
