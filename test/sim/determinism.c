/*
 * The same seed gives the same run, bit for bit, also in small steps; another seed gives another
 * one.
 *
 * Run: args="--seeds 500"
 */
#include "traffic.h"
#include "trouble.h"

struct outcome {
    uint64_t digest;
    double time;
    size_t sent;
    pamix_sim_counters_t counters;
};

static void settle_in_steps(const struct sim_job *job, size_t events)
{
    pami_result_t result;

    do
        result = PAMIX_Sim_run(job->client[0], NULL, NULL, events, 0);
    while (result == PAMI_OTHER);
    CALL(result);
}

/* `program` decides what is sent, `network` what happens to it; `step` in events, 0: all. */
static struct outcome run(uint64_t program, uint64_t network, size_t step)
{
    static const bool mortal[70] = {[1] = true, [4] = true};
    static const uint32_t dead[] = {1, 4};
    struct dice dice = {program};
    pamix_sim_config_t config = trouble_config(&dice, network);
    size_t tasks = 2 + dice_below(&dice, 30);
    struct traffic_limits limits = {
        .messages = 200, .header = 600, .data = 50000, .burst = 3, .reply_in = 2};
    struct traffic traffic;
    struct outcome outcome;

    config.jitter = 1e-6; /* something for the seed to decide */
    config.dead = dead;
    config.dead_count = tasks > 4 ? 2 : 1;
    config.dead_time = 10e-6;
    traffic_create(&traffic, &config, tasks, 2, mortal, &limits, program);
    traffic_start(&traffic);
    settle_in_steps(&traffic.job, step);
    outcome = (struct outcome){
        .digest = PAMIX_Sim_digest(traffic.job.client[0]),
        .time = PAMIX_Sim_time(traffic.job.client[0]),
        .sent = traffic.sent,
        .counters = job_counters(&traffic.job),
    };
    traffic_finish(&traffic);
    return outcome;
}

static bool is_same(const struct outcome *a, const struct outcome *b)
{
    return a->digest == b->digest && a->time == b->time && a->sent == b->sent &&
           memcmp(&a->counters, &b->counters, sizeof(a->counters)) == 0;
}

int main(int argc, char **argv)
{
    struct test_arguments arguments = test_arguments(argc, argv, 100);

    for (uint64_t i = 0; i < arguments.seeds; i++) {
        struct outcome first, again, other, steps;
        void *shift;

        test_seed = arguments.seed + i;
        first = run(test_seed, 7, 0);
        /* Other addresses must make no difference. */
        shift = malloc(100000 + test_seed * 4096 % 1000000);
        again = run(test_seed, 7, 0);
        free(shift);
        other = run(test_seed, 8, 0);
        CHECK(first.sent != 0 && first.digest != 0);
        CHECK(is_same(&first, &again));
        CHECK(first.digest != other.digest);
        steps = run(test_seed, 7, 1 + test_seed % 5);
        CHECK(is_same(&first, &steps));
    }
    return 0;
}
