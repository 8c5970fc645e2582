/*
 * Random one-sided transfers and fences between simulated tasks: every byte arrives where it
 * belongs and nowhere else, callbacks come once and in order, puts do not overtake one another, a
 * fence is no earlier than what it covers. Some tasks may die in the middle.
 *
 * Run: args="--seeds 1500" timeout=120
 * Run: args="--seed 50000 --seeds 1500" timeout=120
 */
#include "trouble.h"

#define GUARD 32u
#define GUARD_BYTE 0x6b
#define TYPES 5
#define MESSAGE_ID 3

struct program {
    struct sim_job job;
    struct dice dice;
    size_t contexts, left, begun;
    bool mortal[70];
    pami_type_t type[TYPES];
    struct transfer *transfers;
    struct fence *fences;
    struct message *messages;
    struct starter *starters;
    uint64_t *counter; /* [from * contexts + to]: a word of `to` that `from` counts up in */
    uint64_t *counted; /* the last value put there */
    struct count *counts;
};

struct transfer {
    struct transfer *next;
    struct program *program;
    size_t from, to; /* contexts */
    size_t number;
    bool put, wrong, regions;
    size_t bytes;
    pami_type_t local_type, remote_type;
    char *local, *remote;
    size_t local_room, remote_room;
    pami_memregion_t mr[2];
    unsigned done, rdone;
    pami_result_t result;
};

struct fence {
    struct fence *next;
    struct program *program;
    size_t from, number; /* covers transfers with smaller numbers */
    size_t to;           /* all contexts when it is program->contexts */
    unsigned done;
};

/* A send without remote_fn: only a fence tells its origin that it has arrived. */
struct message {
    struct message *next;
    struct program *program;
    size_t from, to, number, bytes;
    char *data, *buffer;
    bool arrived;
};

struct starter {
    pami_work_t work;
    struct program *program;
    size_t self, bursts;
};

struct count {
    struct count *next;
    struct program *program;
    size_t pair;
    uint64_t value;
};

static size_t task_of(const struct program *program, size_t context)
{
    return context / program->job.contexts;
}

static bool is_mortal(const struct program *program, size_t context)
{
    return program->mortal[task_of(program, context)];
}

static pami_endpoint_t endpoint_of(const struct program *program, size_t context)
{
    return job_endpoint(&program->job, task_of(program, context), context % program->job.contexts);
}

static void move(char *to, pami_type_t to_type, char *from, pami_type_t from_type, size_t bytes)
{
    CALL(PAMI_Type_transform_data(from, from_type, 0, to, to_type, 0, bytes, PAMI_DATA_COPY, NULL));
}

/* Room for `bytes` through a type, filled with the guard. */
static char *room_for(pami_type_t type, size_t bytes, size_t *room)
{
    pami_configuration_t query[2] = {{.name = PAMI_TYPE_DATA_SIZE},
                                     {.name = PAMI_TYPE_DATA_EXTENT}};
    char *memory;

    CALL(PAMI_Type_query(type, query, 2));
    *room = (bytes / query[0].value.intval + 1) * query[1].value.intval + 2 * GUARD;
    memory = malloc(*room);
    CHECK(memory != NULL);
    memset(memory, GUARD_BYTE, *room);
    return memory;
}

/* Exactly the data through the type is there, and the guard everywhere else. */
static bool holds(const char *memory, size_t room, pami_type_t type, size_t bytes, uint64_t key)
{
    char *data = malloc(bytes + 1);
    char *expected = malloc(room);
    bool same;

    pattern_fill(data, bytes, key);
    memset(expected, GUARD_BYTE, room);
    if (bytes != 0)
        move(expected + GUARD, type, data, PAMI_TYPE_BYTE, bytes);
    same = memcmp(expected, memory, room) == 0;
    free(data);
    free(expected);
    return same;
}

static void fill_source(char *memory, pami_type_t type, size_t bytes, uint64_t key)
{
    char *data = malloc(bytes + 1);

    pattern_fill(data, bytes, key);
    if (bytes != 0)
        move(memory + GUARD, type, data, PAMI_TYPE_BYTE, bytes);
    free(data);
}

static void check_target(const struct transfer *transfer)
{
    if (transfer->put)
        CHECK(holds(transfer->remote, transfer->remote_room, transfer->remote_type, transfer->bytes,
                    transfer->number));
    else
        CHECK(holds(transfer->local, transfer->local_room, transfer->local_type, transfer->bytes,
                    transfer->number));
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct transfer *transfer = cookie;
    struct program *program = transfer->program;

    CHECK(context == program->job.context[transfer->from]);
    CHECK(transfer->done++ == 0 && transfer->rdone == 0);
    transfer->result = result;
    CHECK(result == PAMI_SUCCESS || transfer->wrong || is_mortal(program, transfer->to));
    if (transfer->wrong && !transfer->put)
        CHECK(result != PAMI_SUCCESS);
    if (transfer->put && result == PAMI_SUCCESS)
        memset(transfer->local, 0x11, transfer->local_room);
    if (!transfer->put && result == PAMI_SUCCESS)
        check_target(transfer);
}

static void on_rdone(pami_context_t context, void *cookie, pami_result_t result)
{
    struct transfer *transfer = cookie;

    CHECK(context == transfer->program->job.context[transfer->from]);
    CHECK(transfer->done == 1 && transfer->rdone++ == 0);
    CHECK(result == PAMI_SUCCESS || transfer->wrong || is_mortal(transfer->program, transfer->to));
    CHECK(!(transfer->wrong && result == PAMI_SUCCESS));
    transfer->result = result;
    if (result == PAMI_SUCCESS)
        check_target(transfer);
}

static void on_count(pami_context_t context, void *cookie, pami_result_t result)
{
    struct count *count = cookie;

    (void)context;
    if (result == PAMI_SUCCESS)
        CHECK(count->program->counter[count->pair] >= count->value);
    else
        CHECK(is_mortal(count->program, count->pair % count->program->contexts));
}

static void on_fence(pami_context_t context, void *cookie, pami_result_t result)
{
    struct fence *fence = cookie;
    struct program *program = fence->program;

    CHECK(context == program->job.context[fence->from]);
    CHECK(fence->done++ == 0);
    (void)result;
    for (struct transfer *transfer = program->transfers; transfer; transfer = transfer->next)
        if (transfer->from == fence->from && transfer->number < fence->number &&
            (fence->to == program->contexts || fence->to == transfer->to))
            CHECK(transfer->done == 1 && (!transfer->put || transfer->rdone == 1));
    for (struct message *message = program->messages; message; message = message->next)
        if (message->from == fence->from && message->number < fence->number &&
            !is_mortal(program, message->to) &&
            (fence->to == program->contexts || fence->to == message->to))
            CHECK(message->arrived);
}

static void on_received(pami_context_t context, void *cookie, pami_result_t result)
{
    struct message *message = cookie;

    (void)context;
    if (result == PAMI_SUCCESS) {
        CHECK(pattern_is(message->buffer, message->bytes, message->number));
        message->arrived = true;
    }
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    struct message *message;

    (void)context;
    (void)cookie;
    (void)origin;
    CHECK(header_bytes == sizeof(message));
    memcpy(&message, header, sizeof(message));
    CHECK(bytes == message->bytes);
    if (recv == NULL) {
        CHECK(pattern_is(data, bytes, message->number));
        message->arrived = true;
        return;
    }
    recv->addr = message->buffer;
    recv->local_fn = on_received;
    recv->cookie = message;
}

static void start_message(struct program *program, size_t from, size_t to)
{
    struct message *message = calloc(1, sizeof(*message));
    pami_send_t send = {.send = {.header = {&message, sizeof(message)}, .dispatch = MESSAGE_ID}};

    CHECK(message != NULL);
    message->next = program->messages;
    program->messages = message;
    message->program = program;
    message->from = from;
    message->to = to;
    message->number = program->begun++;
    message->bytes = dice_size(&program->dice, 200000);
    message->data = malloc(message->bytes + 1);
    message->buffer = malloc(message->bytes + 1);
    CHECK(message->data != NULL && message->buffer != NULL);
    pattern_fill(message->data, message->bytes, message->number);
    send.send.data = (struct iovec){message->data, message->bytes};
    send.send.dest = endpoint_of(program, to);
    CALL(PAMI_Send(program->job.context[from], &send));
}

static void start_fence(struct program *program, size_t from)
{
    struct fence *fence = calloc(1, sizeof(*fence));
    pami_context_t context = program->job.context[from];

    CHECK(fence != NULL);
    fence->next = program->fences;
    program->fences = fence;
    fence->program = program;
    fence->from = from;
    fence->number = program->begun;
    fence->to = program->contexts;
    if (dice_one_in(&program->dice, 2)) {
        CALL(PAMI_Fence_all(context, on_fence, fence));
        return;
    }
    fence->to = dice_below(&program->dice, program->contexts);
    CALL(PAMI_Fence_endpoint(context, on_fence, fence, endpoint_of(program, fence->to)));
}

/* Counts up in a word: later puts must not be overtaken by earlier ones. */
static void start_count(struct program *program, size_t from, size_t to)
{
    size_t pair = from * program->contexts + to;
    struct count *count = malloc(sizeof(*count));
    pami_put_simple_t put = {
        .rma = {.dest = endpoint_of(program, to), .bytes = sizeof(count->value), .cookie = count},
        .addr = {.local = &count->value, .remote = &program->counter[pair]},
        .put = {.rdone_fn = on_count},
    };

    *count = (struct count){program->counts, program, pair, ++program->counted[pair]};
    program->counts = count;
    put.rma.hints.use_shmem = dice_below(&program->dice, 4);
    CALL(PAMI_Put(program->job.context[from], &put));
}

static void start_regions(struct program *program, struct transfer *transfer, bool typed)
{
    pami_context_t context = program->job.context[transfer->from];
    pami_context_t other = program->job.context[transfer->to];
    const pami_rma_t rma = {.dest = endpoint_of(program, transfer->to),
                            .bytes = transfer->bytes,
                            .cookie = transfer,
                            .done_fn = on_done};
    const pami_rdma_t rdma = {{&transfer->mr[0], GUARD}, {&transfer->mr[1], GUARD}};
    const pami_rma_typed_t type = {transfer->local_type, transfer->remote_type};
    const pami_rma_put_t last = {on_rdone};
    pami_rput_simple_t rput = {rma, rdma, last};
    pami_rget_simple_t rget = {rma, rdma};
    pami_rput_typed_t tput = {rma, rdma, type, last};
    pami_rget_typed_t tget = {rma, rdma, type};
    size_t bytes;

    CALL(PAMI_Memregion_create(context, transfer->local, transfer->local_room, &bytes,
                               &transfer->mr[0]));
    CALL(PAMI_Memregion_create(other, transfer->remote, transfer->remote_room, &bytes,
                               &transfer->mr[1]));
    if (transfer->put && typed)
        CALL(PAMI_Rput_typed(context, &tput));
    else if (transfer->put)
        CALL(PAMI_Rput(context, &rput));
    else if (typed)
        CALL(PAMI_Rget_typed(context, &tget));
    else
        CALL(PAMI_Rget(context, &rget));
}

static void start_plain(struct program *program, struct transfer *transfer, bool typed)
{
    pami_context_t context = program->job.context[transfer->from];
    pami_rma_t rma = {.dest = endpoint_of(program, transfer->to),
                      .bytes = transfer->bytes,
                      .cookie = transfer,
                      .done_fn = on_done};
    pami_rma_addr_t addr = {transfer->local + GUARD, transfer->remote + GUARD};
    const pami_rma_typed_t type = {transfer->local_type, transfer->remote_type};
    const pami_rma_put_t last = {on_rdone};

    rma.hints.use_shmem = dice_below(&program->dice, 4);
    transfer->wrong = transfer->bytes != 0 && dice_one_in(&program->dice, 40);
    if (transfer->wrong) {
        rma.hints.use_shmem = PAMI_HINT_DISABLE;
        addr.remote = (void *)(uintptr_t)4096;
    }
    pami_put_simple_t put = {rma, addr, last};
    pami_get_simple_t get = {rma, addr};
    pami_put_typed_t tput = {rma, addr, type, last};
    pami_get_typed_t tget = {rma, addr, type};

    if (transfer->put && typed)
        CALL(PAMI_Put_typed(context, &tput));
    else if (transfer->put)
        CALL(PAMI_Put(context, &put));
    else if (typed)
        CALL(PAMI_Get_typed(context, &tget));
    else
        CALL(PAMI_Get(context, &get));
}

static void start_transfer(struct program *program, size_t from, size_t to)
{
    struct dice *dice = &program->dice;
    struct transfer *transfer = calloc(1, sizeof(*transfer));
    bool typed = dice_one_in(dice, 2);

    CHECK(transfer != NULL);
    transfer->next = program->transfers;
    program->transfers = transfer;
    transfer->program = program;
    transfer->from = from;
    transfer->to = to;
    transfer->number = program->begun++;
    transfer->put = dice_one_in(dice, 2);
    transfer->bytes = dice_size(dice, dice_one_in(dice, 50) ? 3000000 : 50000);
    transfer->local_type = typed ? program->type[dice_below(dice, TYPES)] : PAMI_TYPE_BYTE;
    transfer->remote_type = typed ? program->type[dice_below(dice, TYPES)] : PAMI_TYPE_BYTE;
    if (typed)
        transfer->bytes =
            transfer->bytes / 8 * (dice_one_in(dice, 30) ? 1 : 0) + dice_size(dice, 3000);
    transfer->local = room_for(transfer->local_type, transfer->bytes, &transfer->local_room);
    transfer->remote = room_for(transfer->remote_type, transfer->bytes, &transfer->remote_room);
    if (transfer->put)
        fill_source(transfer->local, transfer->local_type, transfer->bytes, transfer->number);
    else
        fill_source(transfer->remote, transfer->remote_type, transfer->bytes, transfer->number);
    transfer->regions = dice_one_in(dice, 3);
    if (transfer->regions)
        start_regions(program, transfer, typed);
    else
        start_plain(program, transfer, typed);
}

static pami_result_t on_burst(pami_context_t context, void *cookie)
{
    struct starter *starter = cookie;
    struct program *program = starter->program;

    (void)context;
    for (size_t i = 1 + dice_below(&program->dice, 5); i > 0 && program->left > 0; i--) {
        size_t to = dice_below(&program->dice, program->contexts);

        program->left--;
        if (dice_one_in(&program->dice, 8))
            start_fence(program, starter->self);
        else if (dice_one_in(&program->dice, 6))
            start_message(program, starter->self, to);
        else if (dice_one_in(&program->dice, 4))
            start_count(program, starter->self, to);
        else
            start_transfer(program, starter->self, to);
    }
    return starter->bursts-- > 0 && program->left > 0 ? PAMI_EAGAIN : PAMI_SUCCESS;
}

static void make_types(pami_type_t *type)
{
    for (int i = 0; i < TYPES; i++)
        CALL(PAMI_Type_create(&type[i]));
    CALL(PAMI_Type_add_simple(type[0], 3, 0, 1, 5));
    CALL(PAMI_Type_add_simple(type[1], 64, 8, 4, 100));
    CALL(PAMI_Type_add_simple(type[2], 1, 0, 2, 3));
    CALL(PAMI_Type_add_simple(type[2], 40, 7, 1, 50));
    CALL(PAMI_Type_complete(type[0], 1));
    CALL(PAMI_Type_complete(type[1], 1));
    CALL(PAMI_Type_complete(type[2], 1));
    CALL(PAMI_Type_add_typed(type[3], type[2], 4, 5, 90));
    CALL(PAMI_Type_add_typed(type[3], type[0], 0, 3, 9));
    CALL(PAMI_Type_complete(type[3], 1));
    CALL(PAMI_Type_add_simple(type[4], 1000, 0, 1, 1000));
    CALL(PAMI_Type_complete(type[4], 1));
}

static void finish(struct program *program)
{
    struct transfer *transfer;
    struct fence *fence;
    struct message *message;
    struct count *count;

    for (size_t i = 0; i < program->contexts * program->contexts; i++)
        if (!is_mortal(program, i / program->contexts) &&
            !is_mortal(program, i % program->contexts))
            CHECK(program->counter[i] == program->counted[i]);
    job_destroy(&program->job);
    while ((message = program->messages) != NULL) {
        program->messages = message->next;
        CHECK(message->arrived || is_mortal(program, message->from) ||
              is_mortal(program, message->to));
        free(message->data);
        free(message->buffer);
        free(message);
    }
    while ((count = program->counts) != NULL) {
        program->counts = count->next;
        free(count);
    }
    while ((transfer = program->transfers) != NULL) {
        program->transfers = transfer->next;
        if (!is_mortal(program, transfer->from)) {
            CHECK(transfer->done == 1);
            CHECK(!transfer->put || transfer->rdone == 1);
        }
        if (transfer->done == 1 && transfer->result == PAMI_SUCCESS &&
            transfer->put == transfer->rdone)
            check_target(transfer);
        free(transfer->local);
        free(transfer->remote);
        free(transfer);
    }
    while ((fence = program->fences) != NULL) {
        program->fences = fence->next;
        CHECK(fence->done == 1 || is_mortal(program, fence->from));
        free(fence);
    }
}

static void run_seed(uint64_t seed, size_t tasks)
{
    static struct program program;
    pamix_sim_config_t config;
    uint32_t dead[70];

    memset(&program, 0, sizeof(program));
    program.dice.state = seed;
    config = trouble_config(&program.dice, seed);
    if (tasks == 0)
        tasks = 1 + dice_below(&program.dice, 6);
    if (dice_one_in(&program.dice, 3))
        trouble_deaths(&config, &program.dice, tasks, tasks, 30e-6, dead, program.mortal);
    job_create(&program.job, &config, tasks, 1 + dice_below(&program.dice, 2));
    program.contexts = tasks * program.job.contexts;
    program.left = 30 + dice_below(&program.dice, 120);
    program.counter = calloc(program.contexts * program.contexts, sizeof(uint64_t));
    program.counted = calloc(program.contexts * program.contexts, sizeof(uint64_t));
    program.starters = calloc(program.contexts, sizeof(*program.starters));
    make_types(program.type);
    job_dispatch(&program.job, MESSAGE_ID, on_message, NULL, (pami_dispatch_hint_t){0});
    for (size_t i = 0; i < program.contexts; i++) {
        struct starter *starter = &program.starters[i];

        starter->program = &program;
        starter->self = i;
        starter->bursts = 100;
        CALL(PAMI_Context_post(program.job.context[i], &starter->work, on_burst, starter));
    }
    job_settle(&program.job);
    finish(&program);
    for (int i = 0; i < TYPES; i++)
        CALL(PAMI_Type_destroy(&program.type[i]));
    free(program.counter);
    free(program.counted);
    free(program.starters);
}

int main(int argc, char **argv)
{
    struct test_arguments arguments = test_arguments(argc, argv, 500);

    test_each_seed(&arguments, run_seed);
    return 0;
}
