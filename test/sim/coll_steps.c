/*
 * A member dies at every step of collectives, in arenas and over messages: a few random ones run
 * once, and the time of each event is noted; then they run again, the same in all, for each of
 * these times, at which one member dies. Survivors end, well with what they must have or with
 * PAMI_ERROR, and do not touch their buffers any more; see coll_call.h.
 *
 * Run: args="--seeds 60" timeout=120
 * Run: args="--seeds 40 --seed 5390" env="PAMI_RNDV_BYTES=64 PAMI_COLL_SEGMENT=256" timeout=120
 * Run: args="--seeds 40 --seed 7000" env="PAMI_COLL_LEVELS=node:2,core:2" timeout=120
 * Run: args="--seeds 40 --seed 9000" env="PAMI_COLL_SHARED_TREE=3" timeout=120
 */
#include "coll_call.h"
#include "trouble.h"

enum {
    FEW = 3,           /* operations */
    STEPS_MOST = 4096, /* that are noted, */
    STEPS_RUN = 100    /* and of those with which a member dies, at most */
};

static double steps[STEPS_MOST];
static size_t step_count;

/* The same for the same seed. One node and no trouble for two seeds of three: there it is the
 * collectives that matter. */
static pamix_sim_config_t setting(struct scene *s, uint64_t seed, size_t tasks)
{
    pamix_sim_config_t config;

    *s = (struct scene){.dice = {seed}};
    if (seed % 3 == 0) {
        config = trouble_config(&s->dice, seed);
    } else {
        PAMIX_Sim_default(&config);
        config.seed = seed;
        config.tasks_per_node = 1 + (uint32_t)dice_below(&s->dice, 8);
        config.copy = (int)dice_below(&s->dice, PAMIX_SIM_COPY_MIXED + 1);
    }
    s->members = tasks != 0 ? tasks : 2 + dice_below(&s->dice, 5);
    return config;
}

static void begin(struct scene *s, const pamix_sim_config_t *config)
{
    scene_create(s, config, FEW);
    coll_start_all(&s->job, &s->dice, s->operations, start, s);
}

/* All live. Returns when all have begun. */
static double note_steps(uint64_t seed, size_t tasks)
{
    struct scene s;
    pamix_sim_config_t config = setting(&s, seed, tasks);
    pami_result_t result;
    double begun;

    begin(&s, &config);
    begun = PAMIX_Sim_time(s.job.client[0]);
    step_count = 0;
    do {
        double now;

        result = PAMIX_Sim_run(s.job.client[0], NULL, NULL, 1, 0);
        now = PAMIX_Sim_time(s.job.client[0]);
        if (step_count < STEPS_MOST && (step_count == 0 || now > steps[step_count - 1]))
            steps[step_count++] = now;
    } while (result == PAMI_OTHER);
    CHECK(result == PAMI_SUCCESS);
    scene_check(&s);
    scene_destroy(&s);
    return begun;
}

static void die_at(uint64_t seed, size_t tasks, double time, struct dice *dice)
{
    struct scene s;
    pamix_sim_config_t config = setting(&s, seed, tasks);
    uint32_t dead = (uint32_t)dice_below(dice, s.members);

    config.dead_count = 1;
    config.dead = &dead;
    config.dead_time = time;
    config.dead_detect = trouble_time(dice, 50e-6);
    s.deadly = s.dead[dead] = true;
    begin(&s, &config);
    job_settle(&s.job);
    CHECK(job_counters(&s.job).deaths == 1);
    scene_check(&s);
    scene_destroy(&s);
}

static void run(uint64_t seed, size_t tasks)
{
    struct dice dice = {~seed};
    double begun;
    size_t stride;

    begun = note_steps(seed, tasks);
    stride = (step_count + STEPS_RUN - 1) / STEPS_RUN;
    die_at(seed, tasks, 0, &dice);
    die_at(seed, tasks, begun * dice_unit(&dice), &dice);
    for (size_t i = dice_below(&dice, stride); i < step_count; i += stride)
        die_at(seed, tasks, steps[i], &dice);
}

int main(int argc, char **argv)
{
    struct test_arguments given = test_arguments(argc, argv, 20);

    test_each_seed(&given, run);
    return 0;
}
