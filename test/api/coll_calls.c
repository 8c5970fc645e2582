/*
 * Around the call: what metadata say, when and where cb_done runs, collectives started from
 * callbacks and from posted work, handles of the world used with other contexts, garbage in what
 * does not matter.
 *
 * Run: tasks=1,2,3,5 nodes=1,2 timeout=60
 */
#include "coll_run.h"

enum {
    CONTEXTS = 3,
    LINKS = 60
};

static struct job job;

/* ---- metadata ---- */

/* Nothing of a call is to be looked at: programs look at ranges, alignments and bits themselves. */
static void takes_any_call(const pami_metadata_t *m)
{
    pami_metadata_t needs = *m;

    CHECK(m->version == 1 && m->check_fn == NULL);
    CHECK(m->range_lo == 0 && m->range_hi == SIZE_MAX);
    CHECK(m->send_min_align <= 1 && m->recv_min_align <= 1);
    CHECK(m->check_correct.values.alldtop && m->check_correct.values.inplace);
    needs.check_correct.values.alldtop = needs.check_correct.values.inplace = 0;
    needs.check_correct.values.sendminalign = needs.check_correct.values.recvminalign = 0;
    needs.check_correct.values.rangeminmax = 0;
    CHECK(needs.check_correct.bitmask_correct == 0);
    CHECK(m->range_lo_perf <= m->range_hi_perf);
}

static void names_of(pami_xfer_type_t type)
{
    struct algorithms all = algorithms_of(world_of(&job), type);
    struct algorithms again = algorithms_of(world_of(&job), type);
    pami_algorithm_t broadcast = algorithm_of(world_of(&job), PAMI_XFER_BROADCAST);

    for (int list = 0; list < 2; list++)
        for (size_t i = 0; i < all.count[list]; i++) {
            pami_metadata_t *m = &all.metadata[list][i];
            char name[100] = "";
            struct told told;
            pami_xfer_t xfer = coll_xfer(broadcast, &told);

            CHECK(m->name != NULL && strlen(m->name) < sizeof name);
            CHECK(strncmp(m->name, "I0:", 3) == 0 || strncmp(m->name, "X0:", 3) == 0);
            CHECK(all.handle[list][i] != PAMI_ALGORITHM_NULL);
            CHECK(again.handle[list][i] == all.handle[list][i]);
            CHECK(strcmp(again.metadata[list][i].name, m->name) == 0);
            CHECK(!m->check_correct.values.checkrequired == (m->check_fn == NULL));
            if (list == 0) {
                takes_any_call(m);
            } else {
                CHECK(m->check_correct.values.checkrequired);
            }
            /* The same algorithm at this position everywhere. */
            snprintf(name, sizeof name, "%s", m->name);
            xfer.cmd.xfer_broadcast =
                (pami_broadcast_t){job_endpoint(&job, 0, 0), name, PAMI_TYPE_BYTE, sizeof name};
            coll_run(&job, job.context[0], &xfer);
            CHECK(strcmp(name, m->name) == 0);
        }
    CHECK(strstr(all.metadata[0][0].name, "X0") == NULL);
    algorithms_free(&all);
    algorithms_free(&again);
}

/* Programs take the first name with such a beginning: it means the same as the first one. */
static void beginnings(void)
{
    static const struct {
        pami_xfer_type_t type;
        const char *beginning;
    } wanted[] = {
        {PAMI_XFER_ALLGATHER, "I0:Binomial:"},     {PAMI_XFER_ALLREDUCE, "I0:Binomial:"},
        {PAMI_XFER_SCATTER, "I0:Binomial:"},       {PAMI_XFER_ALLTOALL, "I0:Ring:"},
        {PAMI_XFER_ALLTOALLV, "I0:M2MComposite:"}, {PAMI_XFER_ALLTOALLV_INT, "I0:M2MComposite:"},
        {PAMI_XFER_BARRIER, "I0:MultiSync"},
    };

    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        struct algorithms all = algorithms_of(world_of(&job), wanted[i].type);
        size_t place = 0;

        while (place < all.count[0] &&
               strstr(all.metadata[0][place].name, wanted[i].beginning) == NULL)
            place++;
        CHECK(place < all.count[0] && all.handle[0][place] == all.handle[0][0]);
        algorithms_free(&all);
    }
}

/* Arrays may be missing, also for lists that have entries, or shorter than the lists. */
static void short_arrays(pami_xfer_type_t type)
{
    struct algorithms all = algorithms_of(world_of(&job), type);
    pami_algorithm_t two[2] = {0x77, 0x77};
    pami_metadata_t metadata;

    CHECK_OK(PAMI_Geometry_algorithms_query(world_of(&job), type, NULL, NULL, 0, NULL, NULL, 0));
    CHECK_OK(PAMI_Geometry_algorithms_query(world_of(&job), type, two, NULL, 1, NULL, NULL, 0));
    CHECK(two[0] == all.handle[0][0] && two[1] == 0x77);
    CHECK_OK(
        PAMI_Geometry_algorithms_query(world_of(&job), type, two, &metadata, 1, NULL, NULL, 0));
    CHECK(strcmp(metadata.name, all.metadata[0][0].name) == 0);
    memset(&metadata, 0, sizeof metadata);
    CHECK_OK(PAMI_Geometry_algorithms_query(world_of(&job), type, NULL, &metadata, 1, NULL, NULL,
                                            all.count[1]));
    CHECK(strcmp(metadata.name, all.metadata[0][0].name) == 0);
    CHECK_OK(PAMI_Geometry_algorithms_query(world_of(&job), type, NULL, NULL, all.count[0], NULL,
                                            NULL, all.count[1]));
    algorithms_free(&all);
}

/* "No" is an answer of check_fn, no failure: a text that is there stays, and none comes. */
static void check_without_text(pami_xfer_type_t type)
{
    struct algorithms all = algorithms_of(world_of(&job), type);
    struct told told;
    char before[512];

    CHECK_RESULT(PAMI_Geometry_algorithms_num(NULL, type, all.count), PAMI_INVAL);
    snprintf(before, sizeof before, "%s", test_text());
    for (size_t i = 0; i < all.count[1]; i++) {
        pami_xfer_t xfer = coll_xfer(all.handle[1][i], &told);

        memset(&xfer.cmd, 0, sizeof xfer.cmd); /* no operator */
        CHECK(all.metadata[1][i].check_fn(&xfer).bitmask != 0);
        CHECK(strcmp(test_text(), before) == 0);
    }
    algorithms_free(&all);
}

static void own_operator(void *target, void *source, size_t bytes, void *cookie)
{
    (void)target, (void)source, (void)bytes, (void)cookie;
    FAIL("an operator that was only asked about");
}

static pami_collective_t one_long(pami_xfer_type_t type, pami_data_function op, int commutative)
{
    static long from[TEST_CONTEXTS_MAX], into;
    static size_t ones[TEST_CONTEXTS_MAX] = {[0 ... TEST_CONTEXTS_MAX - 1] = 1};
    const pami_type_t t = PAMI_TYPE_SIGNED_LONG;
    char *s = (char *)from, *r = (char *)&into;
    pami_collective_t cmd;

    if (type == PAMI_XFER_REDUCE)
        cmd.xfer_reduce = (pami_reduce_t){0, s, t, 1, r, t, 1, op, NULL, commutative};
    else if (type == PAMI_XFER_ALLREDUCE)
        cmd.xfer_allreduce = (pami_allreduce_t){s, t, 1, r, t, 1, op, NULL, commutative};
    else
        cmd.xfer_reduce_scatter =
            (pami_reduce_scatter_t){s, t, job.tasks, r, t, ones, op, NULL, commutative};
    return cmd;
}

/* Some programs name the algorithm only when they have the answer: until then the structure holds
 * none, that of the call before, or what was on the stack. */
static void check_without_algorithm(pami_xfer_type_t type)
{
    struct algorithms all = algorithms_of(world_of(&job), type);
    const pami_algorithm_t strange[] = {PAMI_ALGORITHM_NULL,
                                        ~(pami_algorithm_t)0,
                                        0x7fff5a5a5a58,
                                        all.handle[0][0],
                                        all.handle[0][all.count[0] - 1],
                                        algorithm_of(world_of(&job), PAMI_XFER_BARRIER)};
    const pami_data_function operators[] = {PAMI_DATA_SUM, PAMI_DATA_MAX, own_operator};
    struct told told;

    for (size_t i = 0; i < 6 * all.count[1]; i++) {
        pami_metadata_function check = all.metadata[1][i / 6].check_fn;
        pami_data_function op = operators[i % 3];
        pami_xfer_t xfer = coll_xfer(all.handle[1][i / 6], &told);
        unsigned answer;

        xfer.cmd = one_long(type, op, i % 2);
        answer = check(&xfer).bitmask;
        CHECK(answer == 0 || op == own_operator);
        CHECK(answer != 0 || op != own_operator || i % 2 != 0);
        for (size_t j = 0; j < sizeof strange / sizeof strange[0]; j++) {
            xfer.algorithm = strange[j];
            CHECK_SIZE(check(&xfer).bitmask, answer);
        }
    }
    algorithms_free(&all);
}

/* ---- other contexts ---- */

/* The world's handles with every context of the task, advancing that context alone. */
static void other_contexts(void)
{
    for (size_t i = 0; i < OP_TYPES; i++) {
        struct algorithms all = algorithms_of(world_of(&job), op_types[i]);

        for (size_t a = 0; a < all.count[0]; a++)
            for (size_t offset = 0; offset < CONTEXTS; offset++) {
                struct op *o = op_make(op_types[i], job.tasks, job.task, 100 * (a % 3),
                                       a * 100 + i * 10 + offset, false);

                o->name = all.metadata[0][a].name;
                op_start(o, job.context[offset], all.handle[0][a],
                         job_endpoint(&job, o->root, offset), NULL, 0);
                WAIT_WITH(test_advance(job.context[offset], 10), o->told.count != 0);
                op_check(o);
                op_free(o);
            }
        algorithms_free(&all);
    }
    job_barrier(&job);
}

/* ---- from callbacks and from work ---- */

struct chain {
    pami_algorithm_t algorithm;
    size_t done, started;
    long sum[LINKS], mine[LINKS];
    bool from_work;
    pami_work_t work;
};

static void on_link(pami_context_t context, void *cookie, pami_result_t result);

static pami_result_t start_link(pami_context_t context, void *cookie)
{
    struct chain *chain = cookie;
    size_t i = chain->started++;
    pami_xfer_t xfer;

    memset(&xfer, 0xa5, sizeof xfer);
    xfer.cb_done = on_link;
    xfer.cookie = chain;
    xfer.algorithm = chain->algorithm;
    chain->mine[i] = (long)(i + job.task);
    xfer.cmd.xfer_allreduce =
        (pami_allreduce_t){(char *)&chain->mine[i], PAMI_TYPE_SIGNED_LONG, 1,
                           (char *)&chain->sum[i],  PAMI_TYPE_SIGNED_LONG, 1,
                           PAMI_DATA_SUM,           (void *)0x5a5a,        0x5a5a};
    CHECK_OK(TEST_CALL(PAMI_Collective(context, &xfer)));
    memset(&xfer, 0x5a, sizeof xfer);
    return PAMI_SUCCESS;
}

static void on_link(pami_context_t context, void *cookie, pami_result_t result)
{
    struct chain *chain = cookie;
    long tasks = (long)job.tasks;
    size_t i = chain->done++;

    CHECK_CALLBACK();
    CHECK(context == job.context[0] && result == PAMI_SUCCESS);
    CHECK(chain->sum[i] == tasks * (long)i + tasks * (tasks - 1) / 2);
    if (chain->started == LINKS)
        return;
    if (chain->from_work)
        CHECK_OK(PAMI_Context_post(context, &chain->work, start_link, chain));
    else
        start_link(context, chain);
}

static void from_callbacks(void)
{
    struct algorithms all = algorithms_of(world_of(&job), PAMI_XFER_ALLREDUCE);

    for (size_t a = 0; a < all.count[0]; a++)
        for (int from_work = 0; from_work < 2; from_work++) {
            struct chain chain = {.algorithm = all.handle[0][a], .from_work = from_work != 0};

            start_link(job.context[0], &chain);
            WAIT(&job, chain.done == LINKS);
        }
    algorithms_free(&all);
}

/* Without anybody to tell. */
static void no_callback(void)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm_of(world_of(&job), PAMI_XFER_BARRIER), &told);

    for (int i = 0; i < 5; i++) {
        xfer.cb_done = NULL;
        xfer.cookie = NULL;
        CHECK_OK(TEST_CALL(PAMI_Collective(job.context[0], &xfer)));
    }
    xfer = coll_xfer(algorithm_of(world_of(&job), PAMI_XFER_BARRIER), &told);
    coll_run(&job, job.context[0], &xfer);
}

/* A context that is no member of the geometry. */
static void no_member(void)
{
    pami_task_t *tasks = test_alloc(job.tasks * sizeof *tasks);
    pami_geometry_t geometry;
    struct told told;
    pami_xfer_t xfer;

    for (size_t i = 0; i < job.tasks; i++)
        tasks[i] = (pami_task_t)i;
    create_list(&job, &geometry, NULL, 3, tasks, job.tasks, 1);
    for (size_t i = 0; i < OP_TYPES; i++) {
        xfer = coll_xfer(algorithm_of(geometry, op_types[i]), &told);
        CHECK_REFUSED(PAMI_Collective(job.context[0], &xfer), PAMI_INVAL, "context");
        CHECK_REFUSED(PAMI_Collective(job.context[2], &xfer), PAMI_INVAL, "context");
    }
    xfer = coll_xfer(algorithm_of(geometry, PAMI_XFER_BARRIER), &told);
    told.context = job.context[1];
    coll_start(job.context[1], &xfer);
    WAIT(&job, told.count != 0);
    destroy_geometry(&job, &geometry);
    free(tasks);
}

int main(void)
{
    job_start(&job, "coll-calls", CONTEXTS);
    op_begin();
    beginnings();
    for (size_t i = 0; i < OP_TYPES; i++) {
        names_of(op_types[i]);
        short_arrays(op_types[i]);
        check_without_text(op_types[i]);
    }
    check_without_algorithm(PAMI_XFER_REDUCE);
    check_without_algorithm(PAMI_XFER_ALLREDUCE);
    check_without_algorithm(PAMI_XFER_REDUCE_SCATTER);
    other_contexts();
    from_callbacks();
    no_callback();
    no_member();
    job_barrier(&job);
    op_end();
    job_finish(&job);
    return 0;
}
