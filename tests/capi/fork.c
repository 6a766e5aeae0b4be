/*
 * gleaner.h over fork: the child has the heap, uses it, collects and frees it.
 */
#include "stage.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

/* A heap with several workers and a zeroing thread. */
static struct stage set_up_with_threads(bool compressed)
{
    struct gleaner_options options;

    memset(&options, 0, sizeof options);
    options.outside_layout = GLEANER_LAYOUT_FOLLOWED;
    options.limit = 8 << 20;
    options.workers = 3;
    options.compressed = compressed;
    options.verify = true;
    options.list = "zeroing=concurrent";
    return set_up_in(gleaner_heap_new(&options, NULL, 0), compressed);
}

/* The child does `body`, and says how many checks failed. A child that hangs is
   ended by the alarm. */
static void in_child(struct stage *s, void (*body)(struct stage *s))
{
    int status = -1;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        alarm(300);
        failed = 0;
        body(s);
        fflush(stdout);
        _exit(failed != 0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

static void use(struct stage *s)
{
    uint64_t i;
    GLEANER_FRAME(s->m, frame, 1);

    frame.values[0] = new_node(s, 77);
    for (i = 0; i < 400000; i++)
        new_node(s, i);
    gleaner_collect(s->m, true);
    CHECK(*number_of(s, frame.values[0]) == 77);
    GLEANER_LEAVE(s->m, frame);
}

static void use_and_free(struct stage *s)
{
    use(s);
    tear_down(s);
}

static void a_child_uses_and_frees_the_heap(bool compressed)
{
    struct stage s = set_up_with_threads(compressed);
    int i;

    use(&s);
    for (i = 0; i < 5; i++) {
        in_child(&s, use_and_free);
        in_child(&s, tear_down);
    }
    use_and_free(&s);
}

static bool over;

static void *work(void *place)
{
    struct stage s = *(struct stage *)place;
    int i = 0;

    s.m = gleaner_attach(s.heap);
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        new_node(&s, 1);
        if (++i % 1000 == 0)
            gleaner_collect(s.m, i % 4000 == 0);
    }
    gleaner_detach(s.m);
    return NULL;
}

static void *come_and_go(void *place)
{
    struct stage s = *(struct stage *)place;

    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        s.m = gleaner_attach(s.heap);
        new_node(&s, 1);
        gleaner_detach(s.m);
    }
    return NULL;
}

/* The node whose address the forking thread has in a variable. */
static void *kept;

static void find_it_where_it_was(struct stage *s)
{
    gleaner_value node = gleaner_reference(kept);

    CHECK(*number_of(s, node) == 4711);
    {
        GLEANER_FRAME(s->m, frame, 1);
        frame.values[0] = node;
        use(s);
        CHECK(*number_of(s, frame.values[0]) == 4711);
        GLEANER_LEAVE(s->m, frame);
    }
    /* The mutators of the parent's other threads are no obstacle. */
    tear_down(s);
}

static void others_are_gone_in_the_child(bool compressed)
{
    struct stage s = set_up_with_threads(compressed);
    pthread_t threads[3];
    int i;

    over = false;
    CHECK(pthread_create(&threads[0], NULL, work, &s) == 0);
    CHECK(pthread_create(&threads[1], NULL, work, &s) == 0);
    CHECK(pthread_create(&threads[2], NULL, come_and_go, &s) == 0);
    for (i = 0; i < 20; i++) {
        kept = gleaner_object(new_node(&s, 4711));
        in_child(&s, find_it_where_it_was);
        CHECK(*number_of(&s, gleaner_reference(kept)) == 4711);
        gleaner_poll(s.m);
    }
    gleaner_blocking_begin(s.m);
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    for (i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    gleaner_blocking_end(s.m);
    use_and_free(&s);
}

static void end_the_region(struct stage *s)
{
    gleaner_blocking_end(s->m);
    use_and_free(s);
}

static void a_fork_in_a_blocking_region(bool compressed)
{
    struct stage s = set_up_with_threads(compressed);

    new_node(&s, 1);
    gleaner_blocking_begin(s.m);
    in_child(&s, end_the_region);
    end_the_region(&s);
}

int main(void)
{
    static const struct stage_case cases[] = {
        { "a child uses and frees the heap", a_child_uses_and_frees_the_heap },
        { "others are gone in the child", others_are_gone_in_the_child },
        { "a fork in a blocking region", a_fork_in_a_blocking_region },
    };

    return run_cases(cases, sizeof cases / sizeof *cases);
}
