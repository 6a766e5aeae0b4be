/* What a child does that may end in a signal, and what it says meanwhile. */

#ifndef CHILD_H
#define CHILD_H

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs `body` on `of` in a child of fork; its standard error as `text`, of up to so many bytes, and how it ended. */
static int said_by_child(void (*body)(const void *of), const void *of,
                         char *text, size_t bytes)
{
    int ends[2], status;
    size_t length = 0;
    ssize_t got;
    pid_t child;

    fflush(stdout);
    if (pipe(ends) != 0 || (child = fork()) < 0)
        return -1;
    if (child == 0) {
        dup2(ends[1], 2);
        alarm(60);
        body(of);
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], text + length, bytes - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = 0;
    close(ends[0]);
    waitpid(child, &status, 0);
    return status;
}

#endif
