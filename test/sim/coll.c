/*
 * Random collectives, several in flight, on a simulated network with trouble: every type, every
 * algorithm of both lists, layouts of any kind on either side, in place both ways, rotating roots,
 * zero counts, a user's operator that does not commute, insignificant arguments that hold garbage,
 * members that come late. The whole buffer of each member is compared with what it must hold, gaps
 * included. In every fourth run members die; in half of these, who gets an error starts nothing any
 * more. Who learns that a collective has failed uses its buffers for something else at once, which
 * must neither reach those who end well nor be overwritten.
 *
 * Run: args="--seeds 400" timeout=120
 * Run: args="--seeds 300 --seed 5300" env="PAMI_RNDV_BYTES=64 PAMI_COLL_SEGMENT=256" timeout=120
 * Run: args="--seeds 600 --seed 600700" timeout=120
 * Run: args="--seeds 100 --seed 107000" timeout=120
 * Run: args="--seeds 300 --seed 7000" env="PAMI_COLL_LEVELS=node:2,package:2,core:2" timeout=120
 * Run: args="--seeds 300 --seed 8000" env="PAMI_COLL_LEVELS=cache:3 PAMI_COLL_LEADERS=first"
 * Run: args="--seeds 200 --seed 9000" env="PAMI_COLL_SLICES=1" timeout=120
 * Run: args="--seeds 200 --seed 9500" env="PAMI_COLL_SLICES=2 PAMI_COLL_LEVELS=node:2,core:2"
 * Run: args="--seeds 200 --seed 9900" env="PAMI_COLL_SHARED_TREE=3 PAMI_COLL_SHARED_RADIX=2"
 * Run: args="--seeds 100 --seed 9930300" env="PAMI_COLL_SHARED_DIRECT=1 PAMI_COLL_SHARED_BUFFER=4K"
 */
#include "coll_call.h"
#include "trouble.h"

/* Some of the members die; who needs them learns of it, nobody waits for ever. */
static void let_die(struct scene *s, pamix_sim_config_t *config, uint32_t *dead)
{
    s->deadly = true;
    trouble_deaths(config, &s->dice, s->members, (s->members + 3) / 4, 300e-6, dead, s->dead);
}

/* What those that have stopped would have read stays in arenas, and what is to be said there waits:
 * so the run does not end well, and may have more to ask. */
static void settle(const struct scene *s)
{
    for (int i = 0; i < 60 && s->stops; i++)
        if (PAMIX_Sim_run(s->job.client[0], NULL, NULL, 0, 0) == PAMI_SUCCESS)
            return;
    if (!s->stops)
        job_settle(&s->job);
}

static void run(uint64_t seed, size_t tasks)
{
    uint32_t dead[70];
    struct scene s = {.dice = {seed}};
    pamix_sim_config_t config = trouble_config(&s.dice, seed);

    s.members = tasks != 0 ? tasks : trouble_tasks(&s.dice);
    if (seed % 4 == 0)
        let_die(&s, &config, dead);
    s.stops = seed % 8 == 0;
    scene_create(&s, &config, OPERATIONS);
    coll_start_all(&s.job, &s.dice, s.operations, start, &s);
    settle(&s);
    scene_check(&s);
    scene_destroy(&s);
}

int main(int argc, char **argv)
{
    struct test_arguments given = test_arguments(argc, argv, 100);

    test_each_seed(&given, run);
    return 0;
}
