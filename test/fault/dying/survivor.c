/*
 * The tasks that go on: whatever they had to do with the victim ends, once and in time, and among
 * themselves everything works as before.
 */
#include "fault/dying/dying.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* A death is noticed, and everything with the victim has ended, after so long at most; who gets no
 * processor may take longer for so many advances. */
#define NOTICE_SECONDS 1.0
#define NOTICE_ADVANCES 500
/* From a death to the first contact of those who come late: its launcher has reaped it by then. */
#define LATE_SECONDS 0.15
#define STOPPED_SECONDS 0.15
#define EXCHANGE_EACH 2

static const struct flow *with_victim(void)
{
    return &dying.flow[dying.victim];
}

static bool all_ended(void)
{
    const struct flow *flow = with_victim();

    return outstanding(dying.victim) == 0 && flow->local == flow->issued &&
           flow->arrived == flow->landed + flow->lost;
}

static void step_without_victim(void)
{
    for (size_t task = 0; task < dying.tasks; task++)
        if (task != dying.victim)
            send_some(task, 1, 6);
    advance();
}

/* Whatever there is to do until the victim is dead. */
static void until_death(void)
{
    unsigned flags = dying.way->flags;

    while (!is_dead(dying.victim)) {
        if (flags & QUIET)
            test_sleep(0.0005);
        else if (flags & (LATE | FAREWELL))
            step_without_victim();
        else if (flags & DEAF)
            send_some(dying.victim, 20, 200), step_without_victim();
        else
            step();
    }
    if (flags & LATE) {
        double end = test_now() + LATE_SECONDS;

        while (test_now() < end)
            step_without_victim();
    }
}

/* The victim is dead: the library has to notice, and to end everything. */
static void until_noticed(void)
{
    double start = test_now();
    double next = start;

    dying.dead_known = true;
    for (size_t i = 0; !with_victim()->refused || !all_ended(); i++) {
        double time = test_now();

        if (time > start + NOTICE_SECONDS * dying.factor && i > NOTICE_ADVANCES)
            fail("%.2f s after its death the victim is %s, %zu operations have not ended, %zu "
                 "messages neither",
                 time - start, with_victim()->refused ? "known to be dead" : "not missed",
                 outstanding(dying.victim),
                 with_victim()->arrived - with_victim()->landed - with_victim()->lost);
        if (!with_victim()->refused && time >= next) {
            send_one(dying.victim, (enum kind)random_below(KINDS));
            next = time + 0.001;
        }
        advance();
    }
}

/* The victim's contexts go while the victim lives on. */
static void until_left(void)
{
    while (!with_victim()->refused || !all_ended()) {
        if (dying.way->flags & DEAF)
            send_some(dying.victim, 20, 200), step_without_victim();
        else if (dying.way->flags & FAREWELL)
            step_without_victim(), send_some(dying.victim, 1, 1);
        else
            step();
    }
    CHECK(!is_dead(dying.victim));
    kill(dying.pid[dying.victim], SIGRTMIN);
}

static void check_farewell(void)
{
    const struct flow *flow = with_victim();

    if (flow->done == 0 && dying.lossy)
        return;
    CHECK(flow->done == 1);
    if (flow->lost != 0 || flow->landed != flow->announced)
        fail("of %zu messages that the victim left, %zu have arrived and %zu were lost",
             flow->announced, flow->landed, flow->lost);
}

/* ---- a victim that comes back ---- */

static bool is_stopped(pid_t pid)
{
    char name[32], text[256];
    size_t length;
    FILE *file;
    const char *end = NULL;

    snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
    file = fopen(name, "r");
    CHECK(file != NULL);
    length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    for (size_t i = 0; i < length; i++)
        if (text[i] == ')')
            end = text + i;
    return end != NULL && end + 2 < text + length && end[2] == 'T';
}

static size_t good_with_survivors(void)
{
    size_t good = 0;

    for (size_t task = 0; task < dying.tasks; task++)
        if (task != dying.victim && task != dying.task)
            good += dying.flow[task].good;
    return good;
}

/* The first survivor looks after the victim, the others just go on for a while. That something is
 * done with them has no time limit but that of the whole. */
static void while_stopped(void)
{
    bool has_others = dying.tasks > 2 && !(dying.way->flags & ALONE_IN_CALL);
    size_t first = dying.victim == 0 ? 1 : 0;
    double end = test_now() + 2 * STOPPED_SECONDS * dying.factor;
    size_t good;

    if (dying.task == first) {
        while (!is_stopped(dying.pid[dying.victim]))
            step();
        end = test_now() + STOPPED_SECONDS * dying.factor;
    }
    good = good_with_survivors();
    while (test_now() < end)
        step();
    if (dying.task != first)
        return;
    while (has_others && good_with_survivors() == good)
        step();
    kill(dying.pid[dying.victim], SIGCONT);
}

/* ---- the end ---- */

static bool takes_part(size_t task)
{
    return task != dying.victim || (dying.way->flags & RETURNS);
}

static bool all_done(void)
{
    for (size_t task = 0; task < dying.tasks; task++) {
        const struct flow *flow = &dying.flow[task];

        if (takes_part(task) && (flow->done == 0 || flow->landed != flow->announced ||
                                 outstanding(task) != 0 || flow->local != flow->issued))
            return false;
    }
    return true;
}

/* All that are left exchange messages of every kind, and part in order. */
void exchange_and_part(void)
{
    for (int i = 0; i < EXCHANGE_EACH; i++)
        for (int kind = 0; kind < KINDS; kind++)
            for (size_t task = 0; task < dying.tasks; task++)
                if (takes_part(task))
                    CHECK(send_one(task, (enum kind)kind));
    for (size_t task = 0; task < dying.tasks; task++)
        if (takes_part(task))
            send_control(task, ID_DONE, dying.flow[task].sent);
    while (!all_done())
        advance();
    CHECK_OK(PAMI_Context_destroyv(dying.context, CONTEXTS));
    CHECK_OK(PAMI_Client_destroy(&dying.client));
}

void survive(void)
{
    unsigned flags = dying.way->flags;

    if (flags & RETURNS) {
        while_stopped();
        exchange_and_part();
        return;
    }
    if (flags & LEAVES)
        until_left();
    else if (!(flags & UNKNOWN) && dying.pid[dying.victim] != 0)
        until_death();
    if (!(flags & LEAVES))
        until_noticed();
    if (flags & FAREWELL)
        check_farewell();
    exchange_and_part();
}
