/* The workloads of `gleaner-bench native` in C; one line of JSON at the end.
 *
 * The same objects, stores and numbers in the same order. The memory manager is
 * a file that is included (see memory.h). Where it frees by hand, a tree is
 * freed when it was built or counted, a node of the queue when it was taken, an
 * element of the array when it was replaced, a block of the key stream when it
 * was added, a message when it was compared, and the rest at the end of an
 * iteration. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include MEMORY

enum { MOST_ITERATIONS = 1000 };

struct chosen {
    const char *name;
    size_t heap;
    int workers, tiny, iterations;
};

static void *allocated(void *object)
{
    if (object == NULL) {
        fprintf(stderr, "out of memory: a larger --heap may do\n");
        exit(2);
    }
    return object;
}

static void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "broken: %s\n", what);
        abort();
    }
}

static uint64_t mixed(uint64_t sum, uint32_t number)
{
    return sum * 31 + number;
}

/* ---- gcbench and holes ---- */

struct forest {
    int holes;
    uint32_t next;
};

static inline struct node *forest_node(struct forest *forest)
{
    struct node *node;

    if (forest->holes) {
        struct node *hole = memory_node();

        /* The compiler may not leave it out. */
        __asm__ volatile("" : : "r"(hole) : "memory");
        memory_free(hole);
    }
    node = memory_node();
    node->number[0] = ++forest->next;
    return node;
}

static void grow(struct forest *forest, struct node *node, int height)
{
    if (height == 0)
        return;
    for (int side = 0; side < 2; side++)
        node->side[side] = forest_node(forest);
    for (int side = 0; side < 2; side++)
        grow(forest, node->side[side], height - 1);
}

static struct node *bottom_up(struct forest *forest, int height)
{
    struct node *left, *right, *node;

    if (height == 0)
        return forest_node(forest);
    left = bottom_up(forest, height - 1);
    right = bottom_up(forest, height - 1);
    node = forest_node(forest);
    node->side[0] = left;
    node->side[1] = right;
    return node;
}

static void fell(struct node *node)
{
    if (!memory_by_hand || node == NULL)
        return;
    fell(node->side[0]);
    fell(node->side[1]);
    memory_free(node);
}

static uint64_t count(const struct node *node, uint64_t *numbers)
{
    uint64_t nodes = 1;

    *numbers = mixed(*numbers, node->number[0]);
    for (int side = 0; side < 2; side++)
        if (node->side[side] != NULL)
            nodes += count(node->side[side], numbers);
    return nodes;
}

static uint64_t gcbench(const struct chosen *chosen, int holes)
{
    struct forest forest = { .holes = holes };
    int most = chosen->tiny ? 8 : 18;
    size_t doubles = chosen->tiny ? 500 : 500000;
    struct node *kept = forest_node(&forest);
    uint64_t nodes, numbers = 0;
    double *array;

    grow(&forest, kept, most);
    array = memory_numbers(doubles * sizeof *array);
    for (size_t i = 0; i < doubles; i++)
        array[i] = 1.0 / (double)(i + 1);
    for (int height = 4; height <= most; height += 2) {
        uint64_t trees = 2 * (((uint64_t)8 << most) - 1) / (((uint64_t)2 << height) - 1);

        for (uint64_t i = 0; i < trees; i++) {
            struct node *root = forest_node(&forest);

            grow(&forest, root, height);
            fell(root);
        }
        for (uint64_t i = 0; i < trees; i++)
            fell(bottom_up(&forest, height));
    }
    require(array[99] == 0.01, "the array is as it was filled");
    nodes = count(kept, &numbers);
    require(nodes == ((uint64_t)2 << most) - 1, "the tree that stays is whole");
    fell(kept);
    memory_free(array);
    return nodes ^ numbers << 24;
}

static uint64_t plain_gcbench(const struct chosen *chosen)
{
    return gcbench(chosen, 0);
}

static uint64_t holes(const struct chosen *chosen)
{
    return gcbench(chosen, 1);
}

/* ---- queue ---- */

static uint64_t queue(const struct chosen *chosen)
{
    uint32_t length = chosen->tiny ? 1000 : 1000000;
    uint32_t steps = chosen->tiny ? 16000 : 16000000;
    struct node *head = memory_node(), *tail = head;
    uint64_t sum = 0;
    uint32_t left = 0;

    for (uint32_t number = 1; number <= steps; number++) {
        struct node *node = memory_node();

        node->number[0] = number;
        tail->side[0] = node;
        tail = node;
        if (number > length) {
            struct node *taken = head;

            sum = mixed(sum, taken->number[0]);
            head = taken->side[0];
            memory_free(taken);
        }
    }
    while (head != NULL) {
        struct node *next = head->side[0];

        left++;
        memory_free(head);
        head = next;
    }
    require(left == length + 1, "the list is whole");
    return sum;
}

/* ---- refarray ---- */

static uint64_t refarray(const struct chosen *chosen)
{
    uint32_t length = chosen->tiny ? 1000 : 1000000;
    uint32_t steps = chosen->tiny ? 10000 : 10000000;
    struct node **array = memory_references(length);
    uint64_t random = 2000, sum = 0;

    for (uint32_t i = 0; i < length; i++) {
        array[i] = memory_node();
        array[i]->number[0] = i;
    }
    for (uint32_t number = 0; number < steps; number++) {
        struct node *node;
        uint32_t i;

        random = random * 6364136223846793005u + 1442695040888963407u;
        i = (uint32_t)((random >> 33) % length);
        node = memory_node();
        node->number[0] = number;
        memory_free(array[i]);
        array[i] = node;
    }
    for (uint32_t i = 0; i < length; i++) {
        sum = mixed(sum, array[i]->number[0]);
        memory_free(array[i]);
    }
    memory_free(array);
    return sum;
}

/* ---- quads ---- */

enum { SHALLOW = 3 };

/* From the root down, the quads numbered in that order. */
static struct quad *plant(int depth, uint32_t *next)
{
    struct quad *quad = memory_quad();

    quad->number[0] = ++*next;
    for (int corner = 0; depth > 0 && corner < 4; corner++)
        quad->corner[corner] = plant(depth - 1, next);
    return quad;
}

static void uproot(struct quad *quad)
{
    if (!memory_by_hand || quad == NULL)
        return;
    for (int corner = 0; corner < 4; corner++)
        uproot(quad->corner[corner]);
    memory_free(quad);
}

static uint64_t count_quads(const struct quad *quad, uint64_t *sum)
{
    uint64_t quads = 1;

    *sum = mixed(*sum, quad->number[0]);
    for (int corner = 0; corner < 4; corner++)
        if (quad->corner[corner] != NULL)
            quads += count_quads(quad->corner[corner], sum);
    return quads;
}

/* How many quads a tree of some depth has. */
static uint64_t quads_of(int depth)
{
    return (((uint64_t)4 << 2 * depth) - 1) / 3;
}

static uint64_t quads(const struct chosen *chosen)
{
    int depth = chosen->tiny ? 5 : 10, trees = chosen->tiny ? 400 : 400000;
    uint32_t next = 0;
    uint64_t sum = 0;
    struct quad *kept = plant(depth, &next);

    for (int i = 0; i < trees; i++) {
        struct quad *dropped = plant(SHALLOW, &next);

        require(count_quads(dropped, &sum) == quads_of(SHALLOW), "a shallow tree is whole");
        uproot(dropped);
    }
    require(count_quads(kept, &sum) == quads_of(depth), "the tree that stays is whole");
    uproot(kept);
    return sum;
}

/* ---- cipher ---- */

enum { MESSAGE = 4096, STATE = 16 };

static uint32_t turned(uint32_t word, int by)
{
    return word << by | word >> (32 - by);
}

/* A quarter round (RFC 8439, section 2.1). */
static inline void quarter(uint32_t *state, int a, int b, int c, int d)
{
    state[a] += state[b], state[d] = turned(state[d] ^ state[a], 16);
    state[c] += state[d], state[b] = turned(state[b] ^ state[c], 12);
    state[a] += state[b], state[d] = turned(state[d] ^ state[a], 8);
    state[c] += state[d], state[b] = turned(state[b] ^ state[c], 7);
}

/* A block of the key stream (RFC 8439, section 2.3). */
static void fill(uint32_t *stream, const uint32_t *key, uint32_t counter, uint32_t nonce)
{
    const uint32_t state[STATE] = {
        0x61707865, 0x3320646e, 0x79622d32, 0x6b206574,
        key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7],
        counter, 0, 0, nonce,
    };
    uint32_t mixed[STATE];

    memcpy(mixed, state, sizeof mixed);
    for (int round = 0; round < 10; round++) {
        quarter(mixed, 0, 4, 8, 12);
        quarter(mixed, 1, 5, 9, 13);
        quarter(mixed, 2, 6, 10, 14);
        quarter(mixed, 3, 7, 11, 15);
        quarter(mixed, 0, 5, 10, 15);
        quarter(mixed, 1, 6, 11, 12);
        quarter(mixed, 2, 7, 8, 13);
        quarter(mixed, 3, 4, 9, 14);
    }
    for (int i = 0; i < STATE; i++)
        stream[i] = mixed[i] + state[i];
}

/* A text with the key stream added. */
static unsigned char *ciphered(const uint32_t *key, const unsigned char *text, uint32_t nonce)
{
    unsigned char *result = memory_numbers(MESSAGE);

    for (uint32_t block = 0; block < MESSAGE / 64; block++) {
        uint32_t *stream = memory_numbers(STATE * sizeof *stream);
        unsigned char *part = result + 64 * block;

        fill(stream, key, 1 + block, nonce);
        memcpy(part, text + 64 * block, 64);
        for (int i = 0; i < STATE; i++) {
            uint32_t word;

            memcpy(&word, part + 4 * i, sizeof word);
            word ^= htole32(stream[i]);
            memcpy(part + 4 * i, &word, sizeof word);
        }
        memory_free(stream);
    }
    return result;
}

static uint64_t cipher(const struct chosen *chosen)
{
    uint32_t messages = chosen->tiny ? 40 : 40000;
    uint64_t random = 7000, sum = 0;

    for (uint32_t number = 0; number < messages; number++) {
        uint32_t *key = memory_numbers(8 * sizeof *key);
        unsigned char *plain, *sent, *read;

        for (int i = 0; i < 8; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            key[i] = (uint32_t)(random >> 33);
        }
        plain = memory_numbers(MESSAGE);
        for (uint32_t i = 0; i < MESSAGE; i++)
            plain[i] = (unsigned char)(i ^ number);
        sent = ciphered(key, plain, number);
        for (int at = 0; at < MESSAGE; at += 8) {
            uint64_t part;

            memcpy(&part, sent + at, sizeof part);
            sum = sum * 31 + le64toh(part);
        }
        read = ciphered(key, sent, number);
        memory_free(key);
        memory_free(sent);
        require(memcmp(read, plain, MESSAGE) == 0, "what is read is what was sent");
        memory_free(read);
        memory_free(plain);
    }
    return sum;
}

static const struct workload {
    const char *name;
    uint64_t (*run)(const struct chosen *chosen);
} workloads[] = {
    { "gcbench", plain_gcbench },
    { "holes", holes },
    { "queue", queue },
    { "refarray", refarray },
    { "quads", quads },
    { "cipher", cipher },
};

/* ---- arguments ---- */

static _Noreturn void refuse(const char *word, const char *expected)
{
    fprintf(stderr, "%s: expected %s\n", word, expected);
    exit(2);
}

static long number(const char *word, const char *text, long low, long high)
{
    char *end = NULL;
    long value = text == NULL ? 0 : strtol(text, &end, 10);

    if (text == NULL || end == text || *end != '\0' || value < low || value > high) {
        fprintf(stderr, "%s: expected a number from %ld to %ld\n", word, low, high);
        exit(2);
    }
    return value;
}

static const struct workload *find(const char *name)
{
    size_t i;

    for (i = 0; name != NULL && i < sizeof workloads / sizeof *workloads; i++)
        if (strcmp(name, workloads[i].name) == 0)
            return &workloads[i];
    refuse(name == NULL ? "the first argument" : name,
           "gcbench, holes, queue, refarray, quads or cipher");
}

static struct chosen chosen_by(char **words)
{
    const char *iterations = getenv("ITERATIONS");
    struct chosen chosen = { .name = words[1], .heap = 113, .workers = 2, .iterations = 1 };

    if (iterations != NULL)
        chosen.iterations = (int)number("ITERATIONS", iterations, 1, MOST_ITERATIONS);
    find(chosen.name);
    for (char **word = words + 2; *word != NULL; word++) {
        if (strcmp(*word, "--tiny") == 0)
            chosen.tiny = 1;
        else if (strcmp(*word, "--compressed") == 0)
            refuse(*word, "no such thing: a pointer of C has 8 bytes");
        else if (strcmp(*word, "--heap") == 0)
            chosen.heap = (size_t)number(word[0], word[1], 1, 1 << 20), word++;
        else if (strcmp(*word, "--workers") == 0)
            chosen.workers = (int)number(word[0], word[1], 1, 1024), word++;
        else if (strcmp(*word, "--iterations") == 0)
            chosen.iterations = (int)number(word[0], word[1], 1, MOST_ITERATIONS), word++;
        else
            refuse(*word, "--heap MB, --workers N, --iterations K or --tiny");
    }
    return chosen;
}

/* ---- measuring ---- */

struct moment {
    double wall_s, cpu_s;
};

static struct moment now(void)
{
    struct timespec t;
    struct rusage used;

    clock_gettime(CLOCK_MONOTONIC, &t);
    getrusage(RUSAGE_SELF, &used);
    return (struct moment){
        .wall_s = (double)t.tv_sec + (double)t.tv_nsec * 1e-9,
        .cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec)
            + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6,
    };
}

static void print_between(struct moment from, struct moment to)
{
    printf("\"wall_s\":%.6f,\"cpu_s\":%.6f", to.wall_s - from.wall_s, to.cpu_s - from.cpu_s);
}

/* The kernel's high-water mark of resident memory, in KB; 0 if unknown. */
static long peak_kb(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long kb = 0;

    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "VmHWM: %ld kB", &kb) == 1)
            break;
    if (status != NULL)
        fclose(status);
    return kb;
}

int main(int argc, char **argv)
{
    static struct moment after[MOST_ITERATIONS + 1];
    struct chosen chosen = chosen_by(argv);
    const struct workload *workload = find(chosen.name);
    uint64_t result = 0;

    (void)argc;
    memory_start(chosen.heap << 20, chosen.workers);
    after[0] = now();
    for (int i = 1; i <= chosen.iterations; i++) {
        result = workload->run(&chosen);
        after[i] = now();
    }
    printf("{\"benchmark\":\"%s\",\"result\":\"%016llx\",", chosen.name,
           (unsigned long long)result);
    print_between(after[0], after[chosen.iterations]);
    printf(",\"peak_kb\":%ld", peak_kb());
    if (memory_collections() >= 0)
        printf(",\"collections\":%ld,\"total_pause_s\":%.6f", memory_collections(),
               memory_pause_s());
    for (int i = 1; chosen.iterations > 1 && i <= chosen.iterations; i++) {
        printf(i == 1 ? ",\"iterations\":[{" : "},{");
        print_between(after[i - 1], after[i]);
    }
    printf(chosen.iterations > 1 ? "}]}\n" : "}\n");
    return 0;
}
