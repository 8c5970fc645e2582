/*
 * samplesort.c - sorts keys that are spread over all tasks; all-gather, all-to-all, all-to-all-v.
 *
 * Every task makes its share of random keys and sorts it. From regular samples of all shares, which
 * an all-gather brings to everybody, each task computes the same splitters; an all-to-all tells how
 * many keys every task will get from every other one, an all-to-all with counts and displacements
 * moves them, and a last sort puts each task's keys in order. Then the keys of task i are not above
 * those of task i + 1: the tasks prove it to each other, and that no key was lost or changed.
 *
 * Build:  cc samplesort.c $(pkg-config --cflags --libs pami) -o samplesort
 * Run:    pamirun -n 4 ./samplesort 1000000      (keys of each task)
 */
#define PROGRAM "samplesort"
#include "collective.h"

#define KEYS_MOST ((size_t)1 << 40) /* of each task; sizes in bytes stay in range */

enum {
    SAMPLES = 64 /* of each task */
};

/* ---- collectives ---- */

/* `count` keys of each task, to everybody. */
static void gather_keys(struct job *job, const uint64_t *mine, uint64_t *all, size_t count)
{
    run(job, PAMI_XFER_ALLGATHER,
        (pami_collective_t){.xfer_allgather = {.sndbuf = (char *)(uintptr_t)mine,
                                               .stype = PAMI_TYPE_UNSIGNED_LONG,
                                               .stypecount = count,
                                               .rcvbuf = (char *)all,
                                               .rtype = PAMI_TYPE_UNSIGNED_LONG,
                                               .rtypecount = count}});
}

/* Number i of `to` to task i; number i of `from` comes from task i. */
static void exchange_counts(struct job *job, size_t *to, size_t *from)
{
    run(job, PAMI_XFER_ALLTOALL,
        (pami_collective_t){.xfer_alltoall = {.sndbuf = (char *)to,
                                              .stype = PAMI_TYPE_UNSIGNED_LONG,
                                              .stypecount = 1,
                                              .rcvbuf = (char *)from,
                                              .rtype = PAMI_TYPE_UNSIGNED_LONG,
                                              .rtypecount = 1}});
}

static void exchange_keys(struct job *job, uint64_t *out, size_t *to, size_t *to_start,
                          uint64_t *in, size_t *from, size_t *from_start)
{
    run(job, PAMI_XFER_ALLTOALLV,
        (pami_collective_t){.xfer_alltoallv = {.sndbuf = (char *)out,
                                               .stype = PAMI_TYPE_UNSIGNED_LONG,
                                               .stypecounts = to,
                                               .sdispls = to_start,
                                               .rcvbuf = (char *)in,
                                               .rtype = PAMI_TYPE_UNSIGNED_LONG,
                                               .rtypecounts = from,
                                               .rdispls = from_start}});
}

static void sum_over_all(struct job *job, uint64_t *values, size_t count)
{
    run(job, PAMI_XFER_ALLREDUCE,
        (pami_collective_t){.xfer_allreduce = {.sndbuf = (char *)values,
                                               .stype = PAMI_TYPE_UNSIGNED_LONG,
                                               .stypecount = count,
                                               .rcvbuf = (char *)values, /* in place */
                                               .rtype = PAMI_TYPE_UNSIGNED_LONG,
                                               .rtypecount = count,
                                               .op = PAMI_DATA_SUM,
                                               .commutative = 1}});
}

/* ---- keys ---- */

/* Bijective on 64 bits, so that the keys of one task are all different. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x7fb5d329728ea185);
    x = (x ^ x >> 27) * UINT64_C(0x81dadef4bc2dd44d);
    return x ^ x >> 33;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void sort(uint64_t *keys, size_t count)
{
    qsort(keys, count, sizeof(*keys), compare);
}

/* Sums over all keys that a lost, doubled or changed key would disturb. */
static void fingerprint(const uint64_t *keys, size_t count, uint64_t sum[3])
{
    sum[0] = count;
    sum[1] = sum[2] = 0;
    for (size_t i = 0; i < count; i++) {
        sum[1] += keys[i];
        sum[2] += mix(keys[i]);
    }
}

/* ---- the sort ---- */

/* Task i gets the keys from splitter i - 1 (inclusive) to splitter i. */
static void find_splitters(struct job *job, const uint64_t *keys, size_t count, uint64_t *splitter)
{
    uint64_t *all = allocate(SAMPLES * job->tasks, sizeof(*all));
    uint64_t mine[SAMPLES];

    for (size_t i = 0; i < SAMPLES; i++)
        mine[i] = count > 0 ? keys[count * i / SAMPLES] : 0;
    gather_keys(job, mine, all, SAMPLES);
    sort(all, SAMPLES * job->tasks);
    for (size_t i = 0; i + 1 < job->tasks; i++)
        splitter[i] = all[SAMPLES * (i + 1)];
    free(all);
}

static size_t starts_of(const size_t *counts, size_t *starts, size_t tasks)
{
    size_t total = 0;

    for (size_t i = 0; i < tasks; i++) {
        starts[i] = total;
        total += counts[i];
    }
    return total;
}

/* Replaces *keys by this task's part of all keys in order; returns how many they are. */
static size_t sample_sort(struct job *job, uint64_t **keys, size_t count)
{
    size_t *to = allocate(4 * job->tasks, sizeof(size_t));
    size_t *from = to + job->tasks, *to_start = from + job->tasks;
    size_t *from_start = to_start + job->tasks;
    uint64_t *splitter = allocate(job->tasks, sizeof(*splitter));
    size_t task = 0, total;
    uint64_t *sorted;

    sort(*keys, count);
    find_splitters(job, *keys, count, splitter);
    for (size_t i = 0; i < count; i++) {
        while (task + 1 < job->tasks && (*keys)[i] >= splitter[task])
            task++;
        to[task]++;
    }
    starts_of(to, to_start, job->tasks);
    exchange_counts(job, to, from);
    total = starts_of(from, from_start, job->tasks);
    sorted = allocate(total, sizeof(*sorted));
    exchange_keys(job, *keys, to, to_start, sorted, from, from_start);
    sort(sorted, total);
    free(*keys);
    free(splitter);
    free(to);
    *keys = sorted;
    return total;
}

/* ---- proof ---- */

/* The first and last keys of all tasks, in order, must be in order; empty tasks say nothing. */
static bool ordered(struct job *job, const uint64_t *keys, size_t count)
{
    uint64_t mine[3] = {count, count > 0 ? keys[0] : 0, count > 0 ? keys[count - 1] : 0};
    uint64_t *all = allocate(3 * job->tasks, sizeof(*all)), last = 0;
    bool right = true;

    gather_keys(job, mine, all, 3);
    for (size_t task = 0; task < job->tasks; task++)
        if (all[3 * task] > 0) {
            right = right && all[3 * task + 1] >= last;
            last = all[3 * task + 2];
        }
    for (size_t i = 1; i < count; i++)
        right = right && keys[i - 1] <= keys[i];
    free(all);
    return right;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    size_t count = argc > 1 ? strtoull(argv[1], &end, 10) : 1000000;
    uint64_t before[3], after[3], wrong[1];
    struct job job = {0};

    if (argc > 2 || (argc == 2 && (end == argv[1] || *end != '\0')) || count > KEYS_MOST) {
        fprintf(stderr, "Usage: pamirun -n TASKS samplesort [KEYS OF A TASK]\n");
        return EXIT_FAILURE;
    }
    join(&job);
    uint64_t *keys = allocate(count, sizeof(*keys));
    for (size_t i = 0; i < count; i++)
        keys[i] = mix(job.task * UINT64_C(0x9e3779b97f4a7c15) + i);
    fingerprint(keys, count, before);
    sum_over_all(&job, before, 3);

    double start = PAMI_Wtime(job.client);
    size_t mine = sample_sort(&job, &keys, count);
    double seconds = PAMI_Wtime(job.client) - start;

    fingerprint(keys, mine, after);
    sum_over_all(&job, after, 3);
    wrong[0] = !ordered(&job, keys, mine) || memcmp(before, after, sizeof(before)) != 0;
    sum_over_all(&job, wrong, 1);
    if (job.task == 0)
        printf("%zu keys, %zu tasks: %.3f s, %.1f million keys a second, %s\n", (size_t)before[0],
               job.tasks, seconds, (double)before[0] / seconds / 1e6,
               wrong[0] == 0 ? "verified" : "WRONG");
    free(keys);
    leave(&job);
    return wrong[0] == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
