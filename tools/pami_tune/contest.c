/*
 * The contest between the algorithms of a type, for one size after the other.
 *
 * Auto takes part, and stands for what would run without a table. Each round gives everybody the
 * same calls, with the same roots, so that what disturbs the machine for a while disturbs all; who
 * is far behind is left out of later rounds. A figure is the median of a contender's rounds. Before
 * the best one counts as better than Auto, both run as many rounds again; by how much it is better
 * is the median of what the rounds say, as the machine may change from one to the next.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "coll/choice.h"
#include "coll/collective.h"
#include "lab.h"
#include "results.h"
#include "sizes.h"
#include "util/cpu.h"

#define CONTENDERS_MAX 64
#define ROUNDS_MAX 16
#define SLICE 2000.0         /* us, of a contender in a round */
#define SLICE_CROWDED 4000.0 /* tasks take turns of the scheduler's */
#define FAR_BEHIND 4.0       /* after the first look */
#define BEHIND 1.4           /* after a round */
#define CALLS_MAX 1000u      /* in a round */
#define WARM 4u /* calls that are not timed: shared memory has four buffers for each member */

struct contender {
    char name[48];
    pami_algorithm_t algorithm;
    double us[ROUNDS_MAX];
    unsigned rounds;
};

struct contest {
    struct lab *lab;
    pami_xfer_type_t type;
    uint64_t bytes;
    struct contender contenders[CONTENDERS_MAX];
    unsigned count;
    uint64_t in;    /* a bit for each that is still taking part; the same on all tasks */
    uint64_t calls; /* in a round */
    bool quick;
};

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(const struct contender *contender)
{
    double sorted[ROUNDS_MAX];
    unsigned count = contender->rounds;

    memcpy(sorted, contender->us, sizeof(sorted));
    qsort(sorted, count, sizeof(sorted[0]), compare);
    return count % 2 != 0 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* ---- who takes part ---- */

/* "I0:NAME:..." */
static void take_name(struct contender *contender, const char *full)
{
    const char *start = strchr(full, ':');
    size_t length;

    start = start != NULL ? start + 1 : full;
    length = strcspn(start, ":");
    if (length >= sizeof(contender->name))
        length = sizeof(contender->name) - 1;
    memcpy(contender->name, start, length);
    contender->name[length] = '\0';
}

static int invite(struct contest *contest)
{
    struct lab *lab = contest->lab;
    pami_algorithm_t handles[2][CONTENDERS_MAX];
    pami_metadata_t about[2][CONTENDERS_MAX];
    size_t lengths[2];

    if (PAMI_Geometry_algorithms_num(lab->world, contest->type, lengths) != PAMI_SUCCESS ||
        lengths[0] + lengths[1] > CONTENDERS_MAX ||
        PAMI_Geometry_algorithms_query(lab->world, contest->type, handles[0], about[0], lengths[0],
                                       handles[1], about[1], lengths[1]) != PAMI_SUCCESS)
        return 1;
    for (unsigned list = 0; list < 2; list++)
        for (size_t i = 0; i < lengths[list]; i++) {
            struct contender *contender = &contest->contenders[contest->count];

            /* Auto comes first, and may have more names. */
            if (contest->count != 0 && handles[list][i] == handles[0][0])
                continue;
            contest->count++;
            take_name(contender, about[list][i].name);
            contender->algorithm = handles[list][i];
        }
    return 0;
}

/* ---- rounds ---- */

/* False: it refuses. */
static bool call(struct contest *contest, const struct contender *contender, uint64_t calls)
{
    struct lab *lab = contest->lab;

    for (uint64_t i = 0; i < calls; i++) {
        if (!lab_run(lab, contest->type, contender->algorithm, contest->bytes, i))
            return false;
        if (type_is_loose(contest->type))
            lab_meet(lab);
    }
    return true;
}

/* Microseconds of a call; negative: it refuses. */
static double time_calls(struct contest *contest, const struct contender *contender, uint64_t warm,
                         uint64_t calls)
{
    double start;

    lab_meet(contest->lab);
    if (!call(contest, contender, warm))
        return -1;
    lab_meet(contest->lab);
    start = now_us();
    call(contest, contender, calls);
    return (now_us() - start) / (double)calls;
}

/* So many, or a few more: everybody is the root equally often. */
static uint64_t even_calls(const struct contest *contest, uint64_t calls)
{
    uint64_t turn = type_has_root(contest->type) ? contest->lab->tasks : 1;

    return (calls + turn - 1) / turn * turn;
}

static double least(const struct contest *contest)
{
    double best = 1e18;

    for (unsigned i = 0; i < contest->count; i++)
        if (contest->in >> i & 1 && median(&contest->contenders[i]) < best)
            best = median(&contest->contenders[i]);
    return best;
}

/* Contender 0, Auto, stays. */
static void leave_out(struct contest *contest, double behind)
{
    double limit = least(contest) * behind;

    for (unsigned i = 1; i < contest->count; i++)
        if (contest->in >> i & 1 && median(&contest->contenders[i]) > limit)
            contest->in &= ~(UINT64_C(1) << i);
    contest->in = lab_tell(contest->lab, contest->in);
}

static void look(struct contest *contest)
{
    double slice = contest->quick                          ? 300.0
                   : cpu_available() < contest->lab->tasks ? SLICE_CROWDED
                                                           : SLICE;
    uint64_t calls = even_calls(contest, WARM);
    double best;

    contest->in = 0;
    for (unsigned i = 0; i < contest->count; i++) {
        struct contender *contender = &contest->contenders[i];

        contender->rounds = 1;
        contender->us[0] = time_calls(contest, contender, calls, calls);
        if (contender->us[0] >= 0)
            contest->in |= UINT64_C(1) << i;
    }
    best = least(contest);
    leave_out(contest, FAR_BEHIND);
    contest->calls = slice / best < CALLS_MAX ? (uint64_t)(slice / best) : CALLS_MAX;
    contest->calls = contest->calls < 3 ? 3 : contest->calls;
    contest->calls = lab_tell(contest->lab, even_calls(contest, contest->calls));
    for (unsigned i = 0; i < contest->count; i++)
        contest->contenders[i].rounds = 0;
}

static void run_round(struct contest *contest)
{
    for (unsigned i = 0; i < contest->count; i++) {
        struct contender *contender = &contest->contenders[i];

        if (contest->in >> i & 1 && contender->rounds < ROUNDS_MAX)
            contender->us[contender->rounds++] = time_calls(contest, contender, 1, contest->calls);
    }
}

/* The best one but Auto. */
static unsigned winner(const struct contest *contest)
{
    unsigned best = 0;

    for (unsigned i = 1; i < contest->count; i++)
        if (contest->in >> i & 1 &&
            (best == 0 || median(&contest->contenders[i]) < median(&contest->contenders[best])))
            best = i;
    return best;
}

/* A lead over Auto that is not there in most rounds is none. */
static double figure(const struct contest *contest, unsigned best)
{
    const struct contender *usual = &contest->contenders[0], *other = &contest->contenders[best];
    struct contender ratio = {.rounds = 0};
    unsigned ahead = 0;

    for (; ratio.rounds < usual->rounds && ratio.rounds < other->rounds; ratio.rounds++) {
        ratio.us[ratio.rounds] = other->us[ratio.rounds] / usual->us[ratio.rounds];
        ahead += ratio.us[ratio.rounds] < 1;
    }
    if (ahead * 10 >= ratio.rounds * 8 || median(&ratio) > 1)
        return median(&ratio) * median(usual);
    return median(usual);
}

/* Not for the table: pami_tune -v shows it. */
static void show_rows(const struct contest *contest)
{
    for (unsigned i = 0; i < contest->count; i++) {
        const struct contender *contender = &contest->contenders[i];

        if (contender->rounds != 0)
            printf("row %s %u %llu %s %.3f\n", collective_name(contest->type), contest->lab->tasks,
                   (unsigned long long)contest->bytes, contender->name, median(contender));
    }
}

static void run_size(struct contest *contest)
{
    unsigned rounds = contest->quick ? 2 : 5, best;

    look(contest);
    for (unsigned i = 0; i < rounds; i++) {
        run_round(contest);
        leave_out(contest, BEHIND);
    }
    best = (unsigned)lab_tell(contest->lab, winner(contest));
    contest->in = UINT64_C(1) | UINT64_C(1) << best;
    for (unsigned i = 0; i < rounds && best != 0; i++)
        run_round(contest);
    if (contest->lab->task != 0)
        return;
    show_rows(contest);
    printf(CELL_FORMAT "\n", collective_name(contest->type), contest->lab->tasks,
           (unsigned long long)contest->bytes, contest->contenders[best].name,
           figure(contest, best), median(&contest->contenders[0]));
    fflush(stdout);
}

int contest_main(const char *name, bool quick)
{
    static struct contest contest;
    struct lab lab;
    uint64_t sizes[SIZES_MAX];
    int type = choice_type(name, NULL);
    size_t count;

    if (type < 0)
        return 2;
    lab_open(&lab);
    count = type_sizes((pami_xfer_type_t)type, lab.tasks, quick, sizes);
    lab_room(&lab, (pami_xfer_type_t)type, sizes[count - 1]);
    contest.lab = &lab;
    contest.type = (pami_xfer_type_t)type;
    contest.quick = quick;
    if (invite(&contest) != 0)
        return 1;
    for (size_t i = 0; i < count; i++) {
        contest.bytes = sizes[i];
        run_size(&contest);
    }
    lab_close(&lab);
    return 0;
}
