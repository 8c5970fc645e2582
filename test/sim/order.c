/*
 * Messages of one pair arrive in the order of the calls, whatever overtakes them; those of
 * different pairs do overtake one another. Small and large, header only and not, along both kinds
 * of paths, with nothing but the order checked.
 *
 * Run: args="--seeds 300"
 */
#include "sim_test.h"
#include "trouble.h"

#define MESSAGES 40
#define ID_ANY 1
#define ID_PACKETS 2 /* not by shared memory: another path to the same context */

struct receiver {
    struct scene *scene;
    uint32_t self;
};

struct scene {
    struct sim_job job;
    struct receiver *receivers;
    uint32_t *next;   /* [from * tasks + to]: number of the next message */
    uint64_t last;    /* of the message dispatched last at task 0: when it was sent */
    size_t overtaken; /* dispatches at task 0 of messages sent before the one before */
    size_t arrived;
    char *data;
};

struct number {
    uint32_t number;
    uint64_t sent; /* calls made before this one, in the whole job */
};

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t data_bytes,
                       pami_endpoint_t origin, pami_recv_t *recv)
{
    const struct receiver *receiver = cookie;
    struct scene *scene = receiver->scene;
    uint32_t *next = &scene->next[origin * scene->job.tasks + receiver->self];
    struct number number;

    (void)context;
    (void)data;
    (void)data_bytes;
    CHECK(header_bytes >= sizeof(number));
    memcpy(&number, header, sizeof(number));
    CHECK(number.number == *next);
    ++*next;
    scene->arrived++;
    if (receiver->self == 0) {
        scene->overtaken += number.sent < scene->last;
        scene->last = number.sent;
    }
    if (recv != NULL)
        recv->addr = NULL;
}

static void send_one(struct scene *scene, struct dice *dice, uint32_t from, uint32_t to,
                     struct number number)
{
    char header[300] = {0};
    pami_send_t send = {
        .send = {.header = {.iov_base = header, .iov_len = sizeof(number)},
                 .data = {.iov_base = scene->data, .iov_len = dice_size(dice, 40000)},
                 .dispatch = dice_one_in(dice, 3) ? ID_PACKETS : ID_ANY,
                 .dest = to},
    };

    if (dice_one_in(dice, 4))
        send.send.header.iov_len = sizeof(header);
    memcpy(header, &number, sizeof(number));
    if (send.send.header.iov_len + send.send.data.iov_len <= 4096 && dice_one_in(dice, 2))
        CALL(PAMI_Send_immediate(job_context(&scene->job, from, 0), &send.send));
    else
        CALL(PAMI_Send(job_context(&scene->job, from, 0), &send));
}

static void prepare(struct scene *scene, const pamix_sim_config_t *config, size_t tasks)
{
    const pami_dispatch_hint_t packets = {.use_shmem = PAMI_HINT_DISABLE};
    pami_dispatch_callback_function callback = {.p2p = on_message};

    job_create(&scene->job, config, tasks, 1);
    scene->receivers = calloc(tasks, sizeof(*scene->receivers));
    scene->next = calloc(tasks * tasks, sizeof(*scene->next));
    scene->data = calloc(1, 40000);
    CHECK(scene->receivers != NULL && scene->next != NULL && scene->data != NULL);
    for (size_t i = 0; i < tasks; i++) {
        scene->receivers[i] = (struct receiver){scene, (uint32_t)i};
        CALL(PAMI_Dispatch_set(scene->job.context[i], ID_ANY, callback, &scene->receivers[i],
                               (pami_dispatch_hint_t){0}));
        CALL(PAMI_Dispatch_set(scene->job.context[i], ID_PACKETS, callback, &scene->receivers[i],
                               packets));
    }
}

/* Returns how often a message was overtaken on the way to task 0. */
static size_t run_seed(uint64_t seed)
{
    struct dice dice = {seed};
    pamix_sim_config_t config = trouble_config(&dice, seed);
    size_t tasks = 3 + dice_below(&dice, 8);
    uint32_t numbers[100] = {0};
    struct scene scene = {.arrived = 0};
    uint64_t sent = 0;

    config.reorder = 0.5;
    config.reorder_delay = 100e-6;
    prepare(&scene, &config, tasks);
    for (size_t i = 0; i < tasks * MESSAGES; i++) {
        uint32_t from = (uint32_t)dice_below(&dice, tasks);
        uint32_t to = dice_one_in(&dice, 2) ? 0 : (uint32_t)dice_below(&dice, tasks);
        struct number number = {numbers[from * 10 + to]++, sent++};

        send_one(&scene, &dice, from, to, number);
        if (dice_one_in(&dice, 8))
            (void)PAMIX_Sim_run(scene.job.client[0], NULL, NULL, dice_below(&dice, 50) + 1, 0);
    }
    job_settle(&scene.job);
    CHECK(scene.arrived == tasks * MESSAGES);
    job_destroy(&scene.job);
    free(scene.receivers);
    free(scene.next);
    free(scene.data);
    return scene.overtaken;
}

int main(int argc, char **argv)
{
    struct test_arguments arguments = test_arguments(argc, argv, 300);

    for (uint64_t i = 0; i < arguments.seeds; i++) {
        test_seed = arguments.seed + i;
        CHECK(run_seed(test_seed) > 0);
    }
    return 0;
}
