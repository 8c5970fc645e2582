/*
 * dht.c - a hash table that is spread over all tasks and that nobody serves.
 *
 * The slots of the table are numbered through all tasks; a key's hash says where the search for it
 * begins, and a slot that another key has taken sends it on to the next one. Everything is done by
 * the task that inserts or looks up, with one-sided operations on the owner's memory:
 *
 *   compare-and-swap  claims a slot for a key, if it is free, and says who has it otherwise
 *   put               leaves a note in a slot that was just claimed: which task it was
 *   fetch-and-add     adds to the key's sum; the old sum tells the first one from the others
 *   get               reads a whole slot, to look a key up
 *
 * Many keys are under way at a time, each a small state machine whose callbacks start its next
 * operation. At last task 0 inserts the same keys into a table of its own, one by one, and
 * compares.
 *
 * Build:  cc dht.c $(pkg-config --cflags --libs pami) -o dht
 * Run:    pamirun -n 4 ./dht
 */
#include "together.h"

#include <pamix.h> /* for --shared only */

static const char help[] =
    "Usage: pamirun -n TASKS dht [--keys N] [--range N] [--window N] [--seed S] [--shared 0|1]\n"
    "A distributed hash table: put, get, compare-and-swap and fetch-and-add.\n"
    "\n"
    "  --keys N     every task inserts this many keys (default 20000) ...\n"
    "  --range N    ... out of so many different ones (default 8 for every 10 inserted)\n"
    "  --window N   keys that a task has under way at a time (default 64)\n"
    "  --seed S     of the keys (default 1)\n"
    "  --shared 1   keep the table in memory that the tasks of a node share: the same calls are\n"
    "               faster there (default 0: ordinary memory)\n";

struct slot {
    uint64_t key; /* 0: free */
    uint64_t sum;
    uint64_t finder; /* task that claimed the slot, plus 1 */
};

struct walker;

struct dht {
    struct together all;
    struct slot *mine;
    uint64_t *base; /* address of each task's slots */
    size_t slots;   /* of one task */
    size_t keys, range, window;
    uint64_t seed;
    size_t shared;
    void (*next)(struct walker *w); /* what a walker does when its key is done */
    size_t begun, ended;            /* keys, of this phase */
    uint64_t claimed, first, found, hops;
};

/* A key on its way through the table. */
struct walker {
    struct dht *dht;
    uint64_t key, weight;
    size_t at; /* slot, counted through all tasks */
    uint64_t zero, old, finder;
    struct slot copy;
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Key number i of a task: never 0, and often one that others have as well. */
static uint64_t key_of(const struct dht *dht, size_t task, size_t i)
{
    return 1 + mix(mix(dht->seed + task) + i) % dht->range;
}

static uint64_t weight_of(size_t task, size_t i)
{
    return 1 + (task * 31 + i) % 1000;
}

/* ---- where things are ---- */

static size_t total_slots(const struct dht *dht)
{
    return dht->slots * dht->all.tasks;
}

static pami_endpoint_t owner(const struct walker *w)
{
    return w->dht->all.endpoint[w->at / w->dht->slots];
}

static struct slot *address(const struct walker *w)
{
    struct slot *slots = (struct slot *)(uintptr_t)w->dht->base[w->at / w->dht->slots];

    return &slots[w->at % w->dht->slots];
}

/* ---- insertion ---- */

static void claim(struct walker *w);
static void insert_next(struct walker *w);

/* An atomic operation on a word of the walker's slot; the old value comes to w->old. */
static void atomically(struct walker *w, pami_atomic_t operation, uint64_t *word, uint64_t *value,
                       pami_event_function done)
{
    pami_rmw_t rmw = {
        .dest = owner(w),
        .cookie = w,
        .done_fn = done,
        .local = &w->old,
        .remote = word,
        .value = value,
        .test = &w->zero,
        .operation = operation,
        .type = PAMI_TYPE_UNSIGNED_LONG,
    };

    TOGETHER(&w->dht->all, PAMI_Rmw(w->dht->all.context, &rmw));
}

static void on_added(pami_context_t context, void *cookie, pami_result_t result)
{
    struct walker *w = cookie;

    (void)context;
    together_check(&w->dht->all, result, "fetch-and-add");
    w->dht->first += w->old == 0;
    w->dht->ended++;
    insert_next(w);
}

static void on_claimed(pami_context_t context, void *cookie, pami_result_t result)
{
    struct walker *w = cookie;
    struct dht *dht = w->dht;

    (void)context;
    together_check(&dht->all, result, "compare-and-swap");
    if (w->old != 0 && w->old != w->key) { /* another key is there */
        w->at = (w->at + 1) % total_slots(dht);
        dht->hops++;
        claim(w);
        return;
    }
    if (w->old == 0) {
        /* Nobody waits for this one: the fence at the end of the phase does. */
        pami_put_simple_t put = {
            .rma = {.dest = owner(w), .bytes = sizeof(w->finder)},
            .addr = {.local = &w->finder, .remote = &address(w)->finder},
        };

        TOGETHER(&dht->all, PAMI_Put(dht->all.context, &put));
        dht->claimed++;
    }
    atomically(w, PAMI_ATOMIC_FETCH_ADD, &address(w)->sum, &w->weight, on_added);
}

static void claim(struct walker *w)
{
    atomically(w, PAMI_ATOMIC_FETCH_COMPARE_SET, &address(w)->key, &w->key, on_claimed);
}

static void insert_next(struct walker *w)
{
    struct dht *dht = w->dht;
    size_t i = dht->begun;

    if (i == dht->keys)
        return;
    dht->begun++;
    w->key = key_of(dht, dht->all.task, i);
    w->weight = weight_of(dht->all.task, i);
    w->at = mix(w->key) % total_slots(dht);
    claim(w);
}

/* ---- looking up ---- */

static void look_next(struct walker *w);

static void look(struct walker *w);

static void on_looked(pami_context_t context, void *cookie, pami_result_t result)
{
    struct walker *w = cookie;
    struct dht *dht = w->dht;

    (void)context;
    together_check(&dht->all, result, "get");
    if (w->copy.key != 0 && w->copy.key != w->key) {
        w->at = (w->at + 1) % total_slots(dht);
        look(w);
        return;
    }
    dht->found += w->copy.key == w->key;
    dht->ended++;
    look_next(w);
}

static void look(struct walker *w)
{
    pami_get_simple_t get = {
        .rma = {.dest = owner(w), .bytes = sizeof(w->copy), .cookie = w, .done_fn = on_looked},
        .addr = {.local = &w->copy, .remote = address(w)},
    };

    TOGETHER(&w->dht->all, PAMI_Get(w->dht->all.context, &get));
}

/* The keys that the next task has inserted; they must all be there. */
static void look_next(struct walker *w)
{
    struct dht *dht = w->dht;
    size_t i = dht->begun;

    if (i == dht->keys)
        return;
    dht->begun++;
    w->key = key_of(dht, (dht->all.task + 1) % dht->all.tasks, i);
    w->at = mix(w->key) % total_slots(dht);
    look(w);
}

/* ---- phases ---- */

static void on_fence(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)result;
    *(int *)cookie = 1;
}

/* Starts `window` walkers and returns the seconds until all tasks are done with all keys. */
static double run(struct dht *dht, void (*next)(struct walker *))
{
    struct walker *walkers = together_memory(&dht->all, dht->window, sizeof(*walkers));
    int fenced = 0;
    double start;

    dht->begun = dht->ended = 0;
    together_barrier(&dht->all);
    start = PAMI_Wtime(dht->all.client);
    for (size_t i = 0; i < dht->window; i++) {
        walkers[i].dht = dht;
        walkers[i].finder = dht->all.task + 1;
        next(&walkers[i]);
    }
    while (dht->ended < dht->keys)
        together_advance(&dht->all);
    TOGETHER(&dht->all, PAMI_Fence_all(dht->all.context, on_fence, &fenced));
    while (!fenced)
        together_advance(&dht->all);
    together_barrier(&dht->all);
    free(walkers);
    return PAMI_Wtime(dht->all.client) - start;
}

/* ---- the same, one by one ---- */

static void on_part(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)result;
    --*(size_t *)cookie;
}

static struct slot *whole_table(struct dht *dht)
{
    struct slot *table = together_memory(&dht->all, total_slots(dht), sizeof(*table));
    size_t missing = dht->all.tasks;

    for (size_t i = 0; i < dht->all.tasks; i++) {
        pami_get_simple_t get = {
            .rma = {.dest = dht->all.endpoint[i],
                    .bytes = dht->slots * sizeof(*table),
                    .cookie = &missing,
                    .done_fn = on_part},
            .addr = {.local = table + i * dht->slots, .remote = (void *)(uintptr_t)dht->base[i]},
        };

        TOGETHER(&dht->all, PAMI_Get(dht->all.context, &get));
    }
    while (missing > 0)
        together_advance(&dht->all);
    return table;
}

static struct slot *find(struct slot *table, size_t slots, uint64_t key)
{
    size_t at = mix(key) % slots;

    while (table[at].key != 0 && table[at].key != key)
        at = (at + 1) % slots;
    return &table[at];
}

/* Slots of the distributed table that a sequential run does not confirm. */
static uint64_t compare(struct dht *dht)
{
    struct slot *table = whole_table(dht);
    size_t slots = total_slots(dht), used = 0, expected = 0;
    struct slot *plain = together_memory(&dht->all, slots, sizeof(*plain));
    uint64_t wrong = 0;

    for (size_t task = 0; task < dht->all.tasks; task++)
        for (size_t i = 0; i < dht->keys; i++) {
            uint64_t key = key_of(dht, task, i);
            struct slot *slot = find(plain, slots, key);

            expected += slot->key == 0;
            slot->key = key;
            slot->sum += weight_of(task, i);
        }
    for (size_t i = 0; i < slots; i++) {
        if (table[i].key == 0)
            continue;
        used++;
        wrong += find(plain, slots, table[i].key)->sum != table[i].sum ||
                 find(table, slots, table[i].key) != &table[i] || table[i].finder == 0 ||
                 table[i].finder > dht->all.tasks;
    }
    wrong += used != expected;
    free(table);
    free(plain);
    return wrong;
}

static struct slot *new_table(const struct dht *dht)
{
    size_t bytes = dht->slots * sizeof(struct slot);
    void *table;

    if (!dht->shared)
        return together_memory(&dht->all, dht->slots, sizeof(struct slot));
    TOGETHER(&dht->all, PAMIX_Mem_alloc(dht->all.client, bytes, 0, PAMIX_MEM_ANY, &table));
    return memset(table, 0, bytes);
}

static int read_options(struct dht *dht, int argc, char **argv)
{
    static const char *const names[] = {"--keys", "--range",  "--window",
                                        "--seed", "--shared", NULL};
    int bad = 0;

    dht->keys = together_option(argc, argv, "--keys", 20000, &bad);
    dht->range = together_option(argc, argv, "--range", 0, &bad);
    dht->window = together_option(argc, argv, "--window", 64, &bad);
    dht->seed = together_option(argc, argv, "--seed", 1, &bad);
    dht->shared = together_option(argc, argv, "--shared", 0, &bad);
    return !bad && together_knows(argc, argv, names) && dht->keys > 0 && dht->window > 0 &&
           dht->keys < (size_t)1 << 32;
}

int main(int argc, char **argv)
{
    struct dht dht = {0};
    double inserting, looking;
    uint64_t all, claimed, first, found, hops, wrong;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return EXIT_SUCCESS;
    }
    if (!read_options(&dht, argc, argv)) {
        fputs(help, stderr);
        return EXIT_FAILURE;
    }
    together_start(&dht.all, "dht");
    if (dht.range == 0)
        dht.range = 1 + dht.keys * dht.all.tasks / 10 * 8;
    dht.slots = 2 * dht.keys;
    dht.mine = new_table(&dht);
    dht.base = together_memory(&dht.all, dht.all.tasks, sizeof(*dht.base));
    together_words(&dht.all, (uintptr_t)dht.mine, dht.base);

    inserting = run(&dht, insert_next);
    looking = run(&dht, look_next);

    all = dht.keys * dht.all.tasks;
    claimed = together_sum(&dht.all, dht.claimed);
    first = together_sum(&dht.all, dht.first);
    found = together_sum(&dht.all, dht.found);
    hops = together_sum(&dht.all, dht.hops);
    wrong = dht.all.task == 0 ? compare(&dht) : 0;
    wrong += (claimed != first) + (found != all);
    if (dht.all.task == 0) {
        printf("%zu tasks inserted %llu keys, %llu different ones, %.2f hops each\n", dht.all.tasks,
               (unsigned long long)all, (unsigned long long)claimed, (double)hops / (double)all);
        printf("%.3f million insertions and %.3f million look-ups a second\n",
               (double)all / inserting / 1e6, (double)all / looking / 1e6);
        printf("result: %s\n", wrong == 0 ? "as in a sequential run" : "WRONG");
    }
    together_barrier(&dht.all); /* task 0 has compared */
    if (dht.shared)
        TOGETHER(&dht.all, PAMIX_Mem_free(dht.all.client, dht.mine));
    else
        free(dht.mine);
    together_finish(&dht.all);
    free(dht.base);
    return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
