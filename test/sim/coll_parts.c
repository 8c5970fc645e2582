/*
 * Reduce-scatters and allreduces among members whose number is no power of two: the time does not
 * jump where the parts of a step come to the size from which on messages are announced first. Twice
 * the bytes take at most JUMP_MOST of the time anywhere.
 */
#include "sim_test.h"

enum {
    MEMBERS_MOST = 17,
    LEAST = 4 << 10, /* bytes of each member, ... */
    MOST = 256 << 10,
    WHOLE_LEAST = 64 << 10, /* ... and of an allreduce's message */
    WHOLE_MOST = 1 << 20
};

#define JUMP_MOST 2.25

static const size_t members[] = {5, 6, 7, 12, MEMBERS_MOST};

static size_t ended, counts[MEMBERS_MOST];
static double last;
static unsigned char *in, *out[MEMBERS_MOST];

static void on_ended(pami_context_t context, void *cookie, pami_result_t result)
{
    double now = PAMI_Wtime(cookie);

    (void)context;
    CHECK(result == PAMI_SUCCESS);
    ended++;
    last = now > last ? now : last;
}

static void fill(pami_xfer_t *xfer, pami_xfer_type_t type, size_t self, size_t tasks, size_t bytes)
{
    if (type == PAMI_XFER_ALLREDUCE)
        xfer->cmd.xfer_allreduce = (pami_allreduce_t){.sndbuf = (char *)in,
                                                      .stype = PAMI_TYPE_UNSIGNED_CHAR,
                                                      .stypecount = bytes,
                                                      .rcvbuf = (char *)out[self],
                                                      .rtype = PAMI_TYPE_UNSIGNED_CHAR,
                                                      .rtypecount = bytes,
                                                      .op = PAMI_DATA_SUM,
                                                      .commutative = 1};
    else
        xfer->cmd.xfer_reduce_scatter = (pami_reduce_scatter_t){.sndbuf = (char *)in,
                                                                .stype = PAMI_TYPE_UNSIGNED_CHAR,
                                                                .stypecount = tasks * bytes,
                                                                .rcvbuf = (char *)out[self],
                                                                .rtype = PAMI_TYPE_UNSIGNED_CHAR,
                                                                .rcounts = counts,
                                                                .op = PAMI_DATA_SUM,
                                                                .commutative = 1};
}

/* Seconds of virtual time. */
static double run_once(struct sim_job *job, pami_xfer_type_t type, size_t bytes)
{
    double begin;

    for (size_t i = 0; i < job->tasks; i++)
        counts[i] = bytes;
    ended = 0;
    last = begin = PAMIX_Sim_time(job->client[0]);
    for (size_t i = 0; i < job->tasks; i++) {
        pami_xfer_t xfer = {.cb_done = on_ended, .cookie = job->client[i]};
        pami_geometry_t world;

        CALL(PAMI_Geometry_world(job->client[i], &world));
        CALL(PAMI_Geometry_algorithms_query(world, type, &xfer.algorithm, NULL, 1, NULL, NULL, 0));
        fill(&xfer, type, i, job->tasks, bytes);
        CALL(PAMI_Collective(job_context(job, i, 0), &xfer));
    }
    job_settle(job);
    CHECK(ended == job->tasks);
    for (size_t i = 0; i < job->tasks; i++)
        CHECK(out[i][0] == job->tasks && out[i][bytes - 1] == job->tasks);
    return last - begin;
}

static void run_sizes(struct sim_job *job, pami_xfer_type_t type, size_t least, size_t most)
{
    double before = 0;

    for (size_t bytes = least; bytes <= most; bytes *= 2) {
        double now;

        run_once(job, type, bytes); /* makes what is kept */
        now = run_once(job, type, bytes);
        if (before != 0 && now > JUMP_MOST * before)
            FAIL("%zu members, type %d, %zu bytes: %.1f us, half as much %.1f us", job->tasks,
                 (int)type, bytes, 1e6 * now, 1e6 * before);
        before = now;
    }
}

static void run(size_t tasks)
{
    pamix_sim_config_t config;
    struct sim_job job;

    PAMIX_Sim_default(&config);
    config.contexts = 1;
    config.tasks_per_node = 1;
    job_create(&job, &config, tasks, 1);
    run_sizes(&job, PAMI_XFER_REDUCE_SCATTER, LEAST, MOST);
    run_sizes(&job, PAMI_XFER_ALLREDUCE, WHOLE_LEAST, WHOLE_MOST);
    job_destroy(&job);
}

int main(void)
{
    in = malloc(MEMBERS_MOST * MOST);
    CHECK(in != NULL);
    memset(in, 1, MEMBERS_MOST * MOST);
    for (size_t i = 0; i < MEMBERS_MOST; i++) {
        out[i] = malloc(WHOLE_MOST);
        CHECK(out[i] != NULL);
    }
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        run(members[i]);
    for (size_t i = 0; i < MEMBERS_MOST; i++)
        free(out[i]);
    free(in);
    return 0;
}
