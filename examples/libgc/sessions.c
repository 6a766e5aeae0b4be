/* A server that never forgets a session (docs/heap.md). */
#include <gc.h>
struct session { struct session *next; char *name; void *buffer; };
static struct session *sessions; /* nobody ever takes one out */

int main(void)
{
    GC_INIT();
    for (int number = 0; number < 4000 || GC_get_gc_no() < 7; number++) {
        struct session *session = GC_MALLOC(sizeof *session);
        session->name = GC_STRDUP("a user");
        session->buffer = GC_MALLOC_ATOMIC(2000 + number % 3 * 1000);
        session->next = sessions;
        sessions = session;
        /* What a request needs is garbage when it is answered. */
        for (int request = 0; request < 20; request++)
            GC_MALLOC_ATOMIC(1000);
    }
    return 0;
}
