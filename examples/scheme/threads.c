/* Threads of the program: each is a mutator of the one heap, and runs a machine
   of its own. */
#include "scheme.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern gleaner_heap *heap;

/* Threads that were started. The holder of the lock neither allocates nor
   polls: a collection that waits for its holder must not wait for a thread that
   wants it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct started {
    pthread_t thread;
    bool is_joined;
} *started;
static size_t count;

/* What `slot` of a thread's object is. */
enum { OUTCOME, NUMBER, FAILED };

/* Calls a function; the answer is whether it failed. Its value, or the message,
   takes its place in `outcome`. */
static bool call_in_thread(gleaner_value *outcome)
{
    struct catch here;
    gleaner_value text;

    begin_catch(&here);
    if (setjmp(here.where) == 0) {
        *outcome = call(*outcome);
        end_catch(&here);
        return false;
    }
    end_catch(&here);
    text = string_if_room(message, strlen(message));
    *outcome = text != 0 ? text : roots[UNSPECIFIED];
    return true;
}

static void *run(void *data)
{
    gleaner_handle *handle = data;
    bool failed;

    m = gleaner_attach(heap);
    if (m == NULL)
        exit(1); /* a line says why */
    {
        GLEANER_FRAME(m, frame, ROOTS + 2);
        gleaner_value *thread = &frame.values[ROOTS],
                      *outcome = &frame.values[ROOTS + 1];

        use_roots(frame.values);
        *thread = gleaner_handle_get(handle);
        gleaner_handle_free(handle);
        *outcome = get(*thread, OUTCOME);
        failed = call_in_thread(outcome);
        set(*thread, OUTCOME, *outcome);
        set(*thread, FAILED, gleaner_integer(failed));
        GLEANER_LEAVE(m, frame);
    }
    gleaner_detach(m);
    free(message);
    free(scratch.bytes);
    return NULL;
}

/* Starts the thread of a handle. Its number, or -1. */
static int64_t start(gleaner_handle *handle)
{
    struct started *more;
    int64_t number = -1;

    pthread_mutex_lock(&lock);
    more = realloc(started, (count + 1) * sizeof *started);
    if (more != NULL) {
        started = more;
        started[count].is_joined = false;
        if (pthread_create(&started[count].thread, NULL, run, handle) == 0)
            number = (int64_t)count++;
    }
    pthread_mutex_unlock(&lock);
    return number;
}

gleaner_value spawn(void)
{
    gleaner_value made = make(THREAD, (gleaner_value[]){ argument(0),
                                                         gleaner_integer(0),
                                                         gleaner_integer(0) });
    /* A handle goes to the other thread: there is no frame that both have. */
    gleaner_handle *handle = gleaner_handle_new(m, made);
    int64_t number;

    if (handle == NULL)
        fail("no room for a handle");
    number = start(handle);
    if (number < 0) {
        gleaner_handle_free(handle);
        fail("no thread can be started");
    }
    set(made, NUMBER, gleaner_integer(number));
    return made;
}

/* Waits for a thread, if nobody has done so; collections go on meanwhile. */
static bool wait_for(size_t number)
{
    pthread_t thread;
    bool is_first;

    pthread_mutex_lock(&lock);
    is_first = !started[number].is_joined;
    started[number].is_joined = true;
    thread = started[number].thread;
    pthread_mutex_unlock(&lock);
    if (is_first) {
        gleaner_blocking_begin(m);
        pthread_join(thread, NULL);
        gleaner_blocking_end(m);
    }
    return is_first;
}

gleaner_value join(void)
{
    gleaner_value thread;

    if (!is(argument(0), THREAD))
        fail("join of what is no thread");
    if (!wait_for((size_t)gleaner_number(get(argument(0), NUMBER))))
        fail("a thread is joined once");
    thread = argument(0); /* it may have moved */
    if (gleaner_number(get(thread, FAILED)) == 0)
        return get(thread, OUTCOME);
    text_clear();
    show(get(thread, OUTCOME));
    fail("%s", scratch.bytes);
}

/* Also for threads that these start. */
void join_all(void)
{
    size_t number = 0;
    bool is_there = true;

    while (is_there) {
        pthread_mutex_lock(&lock);
        is_there = number < count;
        pthread_mutex_unlock(&lock);
        if (is_there)
            wait_for(number++);
    }
    free(started);
}
