/*
 * The faster of two ways, see race.h.
 */
#include "util/race.h"

#include "util/clock.h"
#include "util/minmax.h"

/* A trial is won by less than this part of what the way in use costs, in 16ths, and lost without
 * more by more than that; in streams a block may have suffered from the change of ways. */
#define WINS 15u
#define LOSES 20u
#define LOSES_STREAM 32u

/* Pauses get so many times as long while trials are lost. */
#define LONGER 4u

/* The cost has changed: by a quarter. */
#define CHANGED(now, before) ((now) > (before) + (before) / 4 || (now) + (now) / 4 < (before))

/* In use, but for trials. */
static enum race_way standing(const struct race *race)
{
    return race_way(race->turn + (race->trial != 0));
}

static void block_begin(struct race *race)
{
    race->ends = 0;
    race->wanted = RACE_BLOCK + race->active;
    race->busy = 0;
    race->gaps = 0;
    race->bytes = 0;
}

/* What comes now goes the other way, at first beside the rest of what went this way. */
static void turn(struct race *race)
{
    race->turn++;
    race->before = race->active;
    race->warm = false;
    block_begin(race);
}

void race_init(struct race *race, const struct race *like)
{
    *race = (struct race){
        .pause = RACE_PAUSE_LEAST,
        .rest = RACE_FIRST,
        .patience = (uint64_t)(RACE_PATIENCE_US * clock_ticks_per_us()),
    };
    if (like != NULL) {
        race->turn = standing(like);
        race->cost[race->turn] = like->cost[race->turn];
    }
    block_begin(race);
}

struct race *race_in(struct race *row, size_t sizes, size_t size)
{
    struct race *race = &row[size];
    const struct race *like = NULL;

    if (race_is_known(race))
        return race;
    if (size != 0 && race_is_known(race - 1))
        like = race - 1;
    else if (size + 1 != sizes && race_is_known(race + 1))
        like = race + 1;
    race_init(race, like);
    return race;
}

/* Much makes work slow, another program or a new page, but nothing makes it fast: a faster block
 * counts for more. */
static void note(uint32_t *mean, uint32_t cost)
{
    if (*mean == 0)
        *mean = cost;
    else if (cost < *mean)
        *mean = (*mean + 3 * cost) / 4;
    else
        *mean = (7 * *mean + (cost < 2 * *mean ? cost : 2 * *mean)) / 8;
    if (*mean == 0)
        *mean = 1;
}

static void trial_begin(struct race *race)
{
    turn(race);
    race->trial = RACE_TRIAL;
    race->best = UINT32_MAX;
}

static void pause_next(struct race *race, bool longer)
{
    if (longer)
        race->pause = (uint16_t)smaller(LONGER * race->pause, RACE_PAUSE_MOST);
    else
        race->pause = RACE_PAUSE_LEAST;
    race->rest = race->pause;
    race->compared = race->cost[standing(race)];
}

static void trial_end(struct race *race)
{
    enum race_way tried = race_way(race->turn);
    bool wins = (uint64_t)race->best * 16 < (uint64_t)race->cost[!tried] * WINS;

    race->cost[tried] = race->best;
    race->trial = 0;
    if (wins) {
        block_begin(race);
    } else {
        turn(race);
        race->falls = 0;
    }
    pause_next(race, !wins);
}

static bool has_lost(const struct race *race, uint32_t cost)
{
    uint64_t more = race->wanted == RACE_BLOCK ? LOSES : LOSES_STREAM;

    return (uint64_t)cost * 16 > race->cost[standing(race)] * more;
}

static void block_end(struct race *race, uint32_t cost)
{
    uint32_t *mean = &race->cost[standing(race)];

    if (race->trial != 0) {
        race->best = cost < race->best ? cost : race->best;
        if (race->trial == 1 || has_lost(race, cost)) {
            trial_end(race);
        } else {
            race->trial--;
            block_begin(race);
        }
        return;
    }
    note(mean, cost);
    if (race->rest != 0)
        race->rest--;
    if (race->rest > RACE_PAUSE_LEAST && CHANGED(*mean, race->compared))
        race->rest = RACE_PAUSE_LEAST;
    block_begin(race);
}

static uint32_t cost_of(const struct race *race, uint64_t ticks)
{
    return (uint32_t)smaller((ticks << 10) / (race->bytes | 1), UINT32_MAX / 16);
}

/* This block takes much too long, without the time in which nothing was to be done. */
static bool has_failed(const struct race *race, uint32_t known)
{
    uint64_t ticks = race->busy - race->gaps;

    return ticks > race->patience && cost_of(race, ticks) > (uint64_t)RACE_FAILED * known;
}

/* The other end, which the other way needs, is not there. In its use that may have been another
 * program that had the processor: it is tried soon, the first time. */
static void give_up(struct race *race)
{
    bool used = race->trial == 0;

    race->trial = 0;
    turn(race);
    pause_next(race, !used);
    if (used) {
        race->rest = (uint16_t)smaller(RACE_FIRST << race->falls, RACE_PAUSE_MOST);
        if (race->falls < RACE_FALLS_MOST)
            race->falls++;
    }
}

uint32_t race_begin(struct race *race, uint64_t ticks)
{
    if (race->trial == 0 && race->rest == 0 && race->cost[standing(race)] != 0)
        trial_begin(race);
    if (race->active++ == 0) {
        race->began = ticks;
        if (ticks > race->follows)
            race->since = ticks;
    }
    return race->turn;
}

/* False: with this end no time that counts is over. */
static bool counts(struct race *race, uint32_t ticket)
{
    if (ticket != race->turn) {
        if (race->before != 0)
            race->before--;
        return false;
    }
    if (race->before != 0)
        return false;
    if (race->warm)
        return true;
    race->warm = true;
    block_begin(race);
    return false;
}

void race_end(struct race *race, uint32_t ticket, uint64_t ticks, size_t bytes)
{
    const uint32_t known = race->cost[standing(race)];

    race->active--;
    if (counts(race, ticket)) {
        race->busy += ticks - race->since;
        if (race->began > race->since)
            race->gaps += race->began - race->since;
        race->bytes += bytes;
        if (race_way(ticket) == RACE_OTHER && known != 0 && has_failed(race, known))
            give_up(race);
        else if (++race->ends >= race->wanted)
            block_end(race, cost_of(race, race->busy));
    }
    race->since = ticks;
    race->follows = ticks + (uint64_t)(bytes >> 10) * RACE_GAP_NS * race->patience /
                                (1000 * (uint64_t)RACE_PATIENCE_US);
}

void race_cancel(struct race *race, uint32_t ticket)
{
    race->active--;
    if (ticket != race->turn && race->before != 0)
        race->before--;
}
