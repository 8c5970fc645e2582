/*
 * A task is killed in every phase of a collective: before its first store to shared memory, before
 * its second one, and so on until it has done its part (phases/stores.h). On all others the
 * collective ends within seconds, well or with an error that names the task, and well only with the
 * right data; what is started later in that geometry ends with an error; a geometry without it
 * works; and nothing is left of the one that it was a member of.
 *
 *     phases --row NAME --type N [--words N] [--rank N] [--root N] [--nodes N] [--late] [--calm]
 *            [--cold] [--twice] [--by-other] [--from K]
 *
 * The first two tasks of each node survive. Each of the others has a geometry with those, in which
 * its rank is --rank, and dies there, one before the store after the one where the task before it
 * died, beginning with --from. The last one only counts the stores.
 *
 *     --late      the victim begins when the others wait for it already; else the others begin late
 *     --calm      shared memory is used as on a machine with a processor for each task
 *     --cold      it is the first collective of the geometry
 *     --twice     another one of that type is under way behind it
 *     --by-other  the victim is killed by task 0, before a store of that one
 *
 * phases.sh starts it and knows which phases there are; by itself it does nothing.
 */
#include <signal.h>

#include <pamix.h>

#include "api/coll_run.h"
#include "fault/phases/places.h"

enum {
    ID_GO = 1,
    TASKS_MAX = 64,
    FLIGHTS = 2,
    DEATHS_MAX = 64,
    LIMIT = 10 /* seconds, on a machine with a lot else to do; it takes some milliseconds */
};

/* Until a collective that somebody dies in had ended, seconds; most do so in less than one. */
static struct {
    double seconds[DEATHS_MAX];
    size_t count;
} deaths;

/* A geometry with one that is to die. */
struct group {
    size_t victim, size, self;
    pami_task_t tasks[TASKS_MAX];
    pami_geometry_t geometry;
};

static struct {
    const char *row;
    pami_xfer_type_t type;
    size_t words, rank, root, nodes;
    long from;
    bool late, calm, cold, twice, by_other;
} options = {.row = "Auto", .nodes = 1, .from = 1, .words = 2};

static struct job job;
static struct group group[TASKS_MAX]; /* of the task, if that is not one of those who survive */
static pami_geometry_t rest;
static size_t survivors;
static bool told_to_go;
static long order;    /* of a victim: where to die; 0: nowhere, -1: the end */
static size_t target; /* whom this task kills */

static bool survives(size_t task)
{
    return task % (job.tasks / options.nodes) < 2;
}

/* ---- geometries ---- */

static void make_group(struct group *g, size_t victim, unsigned id)
{
    *g = (struct group){.victim = victim};
    for (size_t i = 0; i < job.tasks; i++)
        if (survives(i))
            g->tasks[g->size++] = (pami_task_t)i;
    memmove(&g->tasks[options.rank + 1], &g->tasks[options.rank],
            (g->size - options.rank) * sizeof g->tasks[0]);
    g->tasks[options.rank] = (pami_task_t)victim;
    g->size++;
    while (g->self < g->size && g->tasks[g->self] != job.task)
        g->self++;
    if (g->self < g->size)
        create_list(&job, &g->geometry, NULL, id, g->tasks, g->size, 0);
}

static void make_groups(void)
{
    pami_task_t tasks[TASKS_MAX];

    for (size_t i = 0; i < job.tasks; i++)
        if (survives(i))
            tasks[survivors++] = (pami_task_t)i;
    if (survives(job.task))
        create_list(&job, &rest, NULL, 1, tasks, survivors, 0);
    for (size_t i = 0; i < job.tasks; i++)
        if (!survives(i) && (survives(job.task) || i == job.task))
            make_group(&group[i], i, (unsigned)(10 + i));
}

static pami_algorithm_t handle_of(pami_geometry_t geometry)
{
    pami_algorithm_t handle = algorithm_named(geometry, options.type, options.row);

    if (handle == PAMI_ALGORITHM_NULL)
        FAIL("type %d has no algorithm %s", (int)options.type, options.row);
    return handle;
}

static struct op *begin(const struct group *g, uint64_t seed)
{
    struct op *o = NULL;
    uint64_t state;

    do
        state = ++seed;
    while (op_below(&state, g->size) != options.root % g->size);
    op_upwards = true;
    o = op_make(options.type, g->size, g->self, options.words, seed, true);
    o->name = options.row;
    op_start(o, job.context[0], handle_of(g->geometry), job_endpoint(&job, g->tasks[o->root], 0),
             NULL, 0);
    return o;
}

static void end_well(struct op *o)
{
    WAIT(&job, o->told.count != 0);
    op_check(o);
    op_free(o);
}

/* ---- the victim ---- */

static void on_go(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                  const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)data, (void)bytes, (void)origin, (void)recv;
    CHECK(header_bytes == sizeof order);
    memcpy(&order, header, sizeof order);
    told_to_go = true;
}

static void say(const char *name)
{
    char text[128];
    int length = snprintf(text, sizeof text, "phase %s\n", name);

    (void)!write(STDOUT_FILENO, text, (size_t)length);
}

static void die(const char *name)
{
    say(name);
    raise(SIGKILL);
}

static void kill_target(const char *name)
{
    say(name);
    kill(places_process(target), SIGKILL);
}

/* Both are over. */
static bool ended(struct op *const *o)
{
    return o[0]->told.count != 0 && (o[1] == NULL || o[1]->told.count != 0);
}

/* One life of a victim, or the end of it. */
static void live(const struct group *g)
{
    struct op *o[FLIGHTS] = {NULL, NULL};
    long stores = 0;

    if (!options.cold)
        end_well(begin(g, 1));
    if (options.late)
        test_sleep(0.003);
    if (!options.by_other)
        stores_watch(order, places_of, die);
    o[0] = begin(g, 2);
    if (options.twice)
        o[1] = begin(g, 3);
    WAIT(&job, ended(o));
    if (!options.by_other)
        stores = stores_unwatch();
    op_check(o[0]);
    if (options.twice)
        op_check(o[1]);
    if (options.by_other && order != 0)
        WAIT(&job, false); /* to be killed */
    if (order != 0)
        die("complete");
    test_send_immediate(job.context[0], job_endpoint(&job, 0, 0), ID_GO, &stores, sizeof stores,
                        NULL, 0);
}

static void victim(void)
{
    while (order >= 0) {
        while (!told_to_go) {
            PAMIX_Context_wait(job.context[0], 100000);
            job_advance(&job);
        }
        told_to_go = false;
        if (order >= 0)
            live(&group[job.task]);
    }
    destroy_geometry(&job, &group[job.task].geometry);
}

/* ---- those who survive ---- */

static void tell(size_t task, long what)
{
    if (job.task == 0)
        test_send_immediate(job.context[0], job_endpoint(&job, task, 0), ID_GO, &what, sizeof what,
                            NULL, 0);
}

/* Does every member need something of every other one? */
static bool all_need_all(void)
{
    return options.type == PAMI_XFER_BARRIER || options.type == PAMI_XFER_ALLREDUCE ||
           options.type == PAMI_XFER_ALLGATHER || options.type == PAMI_XFER_ALLTOALL;
}

/* Of an error: it names the one that has died, not another that has died before it. */
static void check_text(void)
{
    char named[32];

    snprintf(named, sizeof named, "task %zu", target);
    if (strstr(test_text(), named) == NULL)
        FAIL("the error is '%s', without %s", test_text(), named);
}

static void check_end(struct op *o, long stop, double start)
{
    double took = test_now() - start;

    if (took > LIMIT * test_factor())
        FAIL("%s of type %d, death before store %ld: ends after %.2f s", o->name, (int)o->type,
             stop, took);
    if (stop != 0 && deaths.count < DEATHS_MAX)
        deaths.seconds[deaths.count++] = took;
    if (o->told.result == PAMI_SUCCESS)
        op_check(o);
    else if (o->told.result != PAMI_ERROR || stop == 0)
        FAIL("%s of type %d, death before store %ld: result %d: %s", o->name, (int)o->type, stop,
             (int)o->told.result, test_text());
    if (o->told.result == PAMI_ERROR)
        check_text();
    if (stop == 1 && !options.by_other && all_need_all() && o->told.result == PAMI_SUCCESS)
        FAIL("%s of type %d ends well without one that has not begun", o->name, (int)o->type);
    op_free(o);
}

static long accompany(const struct group *g, long stop)
{
    struct op *o[FLIGHTS] = {NULL, NULL};
    bool kills = options.by_other && job.task == 0;
    long stores = 0;
    double start;

    target = g->victim;
    tell(g->victim, stop);
    if (!options.cold)
        end_well(begin(g, 1));
    if (!options.late)
        test_sleep(0.003);
    if (kills)
        stores_watch(stop, places_of, kill_target);
    start = test_now();
    o[0] = begin(g, 2);
    if (options.twice)
        o[1] = begin(g, 3);
    WAIT(&job, ended(o));
    if (kills)
        stores = stores_unwatch();
    if (kills && stop != 0 && stores < stop)
        kill_target("complete");
    check_end(o[0], stop, start);
    if (options.twice)
        check_end(o[1], stop, start);
    return stores;
}

static void expect_failure(const struct group *g)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm_of(g->geometry, PAMI_XFER_BARRIER), &told);
    double start = test_now();

    coll_start(job.context[0], &xfer);
    WAIT(&job, told.count != 0);
    CHECK_RESULT(told.result, PAMI_ERROR);
    if (test_now() - start > LIMIT * test_factor())
        FAIL("a barrier takes %.2f s to fail", test_now() - start);
}

static int compare_seconds(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void check_deaths(void)
{
    double median;

    if (options.cold) /* it takes the victim seconds to clear new memory, store by store */
        return;
    CHECK(deaths.count != 0);
    qsort(deaths.seconds, deaths.count, sizeof(deaths.seconds[0]), compare_seconds);
    median = deaths.seconds[deaths.count / 2];
    if (median >= test_factor())
        FAIL("half of %zu collectives with a death take more than %.2f s", deaths.count, median);
    printf("they end after %.0f ms, %.0f ms at most\n", 1e3 * median,
           1e3 * deaths.seconds[deaths.count - 1]);
}

/* How many stores there are, from the one who only counts. */
static long count_stores(size_t counter)
{
    long stores = accompany(&group[counter], 0);

    if (job.task == 0) {
        WAIT(&job, told_to_go);
        stores = options.by_other ? stores : order;
        CHECK(stores >= 0); /* none, where it only had to take what was there */
    }
    return coll_total(&job, rest, job.task == 0 ? (int)stores : 0);
}

static void survive(size_t counter)
{
    long stores = count_stores(counter), stop = options.from;

    for (size_t i = 0; i < counter; i++) {
        if (survives(i))
            continue;
        if (stop <= stores + 1 || stop == options.from) {
            accompany(&group[i], stop);
            CHECK(coll_total(&job, rest, 1) == (int)survivors);
            expect_failure(&group[i]);
            stop++;
        } else {
            tell(i, -1);
        }
        destroy_geometry(&job, &group[i].geometry);
    }
    tell(counter, -1);
    destroy_geometry(&job, &group[counter].geometry);
    CHECK(coll_total(&job, rest, 1) == (int)survivors);
    WAIT(&job, places_arenas() == 0);
    check_deaths();
    if (job.task == 0)
        printf("stores %ld\n", stores);
    printf("task %zu done\n", job.task);
}

/* ---- */

static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        long number = i + 1 < argc ? strtol(argv[i + 1], NULL, 10) : 0;

        if (strcmp(name, "--late") == 0)
            options.late = true;
        else if (strcmp(name, "--calm") == 0)
            options.calm = true;
        else if (strcmp(name, "--cold") == 0)
            options.cold = true;
        else if (strcmp(name, "--twice") == 0)
            options.twice = true;
        else if (strcmp(name, "--by-other") == 0)
            options.by_other = true;
        else if (++i == argc)
            FAIL("%s: what?", name);
        else if (strcmp(name, "--row") == 0)
            options.row = argv[i];
        else if (strcmp(name, "--type") == 0)
            options.type = (pami_xfer_type_t)number;
        else if (strcmp(name, "--words") == 0)
            options.words = (size_t)number;
        else if (strcmp(name, "--rank") == 0)
            options.rank = (size_t)number;
        else if (strcmp(name, "--root") == 0)
            options.root = (size_t)number;
        else if (strcmp(name, "--nodes") == 0)
            options.nodes = (size_t)number;
        else if (strcmp(name, "--from") == 0)
            options.from = number;
        else
            FAIL("%s: what?", name);
    }
}

/* Heaps are mapped before stores are watched. */
static void map_heaps(void)
{
    pamix_heap_view_t view;
    void *block;

    CHECK_OK(PAMIX_Mem_alloc(job.client, 65536, 64, -1, &block));
    job_barrier(&job);
    for (size_t i = 0; i < job.tasks; i++)
        (void)PAMIX_Mem_view(job.client, (pami_task_t)i, &view);
    CHECK_OK(PAMIX_Mem_free(job.client, block));
}

int main(int argc, char **argv)
{
    size_t counter;

    if (argc < 2)
        test_skip("its jobs are those of phases.sh");
    if (!stores_work())
        test_skip("x86-64 only");
    job_start(&job, "phases", 1);
    read_options(argc, argv);
    CHECK(job.tasks <= TASKS_MAX && job.tasks >= options.nodes * 2 + 2);
    test_dispatch(job.context[0], ID_GO, on_go, NULL, test_ordered());
    places_init(job.context[0]);
    if (options.calm)
        places_calm();
    op_begin();
    map_heaps();
    make_groups();
    for (counter = job.tasks - 1; survives(counter);)
        counter--;
    job_barrier(&job);
    if (survives(job.task))
        survive(counter);
    else
        victim();
    op_end();
    if (rest != NULL)
        destroy_geometry(&job, &rest);
    job_destroy(&job);
    return 0;
}
