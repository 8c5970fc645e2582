/*
 * Everything at once but collectives, on several clients and contexts: messages of all sorts with
 * answers, one-sided transfers between random layouts, regions that live as long as one transfer,
 * atomics, fences, posted functions that want to be called again, ids that are registered late and
 * anew. Operations are started by the program and by callbacks of any kind, from one thread or from
 * a thread for each context. What happens is drawn from a seed that all tasks know, so that each
 * of them knows what must come to it: all that once, in order, every byte and no other. Contexts
 * are created again between the rounds.
 *
 * Run: tasks=1,2,3,5 args="1"
 * Run: tasks=4 nodes=2 args="2"
 * Run: tasks=2,3 nodes=2 args="3" env="PAMI_NETWORK=ofi"
 * Run: tasks=3 args="4" env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 args="5" env="PAMI_SHM_SINGLE_COPY=off PAMI_SHM_LANES=1"
 * Run: tasks=2 args="6" env="PAMI_RNDV_BYTES=0"
 */
#include "torture_messages.h"

#include <pamix.h>
#include <pthread.h>

/* ------------------------------------------------------------------------------ one-sided -- */

struct transfer {
    struct rma rma;
    struct actor *actor;
    struct rma_typed typed;
    size_t index, bytes;
    unsigned char *memory;
    pami_memregion_t region;
    bool has_region;
};

/* A put fits into its room; else it is one of ROOM / 2 bytes that are not typed. */
static struct rma_typed put_of(const struct plan *plan)
{
    struct rma_typed t = rma_typed_random(plan->key, 700);

    if (t.to.room <= ROOM)
        return t;
    rma_typed_free(&t);
    t.to.shape = t.from.shape = shapes[0];
    t.to.base = t.from.base = RMA_GUARD;
    t.to.type = shape_type(&shapes[0]);
    t.to.room = t.from.room = ROOM / 2 + 2 * RMA_GUARD;
    t.bytes = ROOM / 2;
    t.from.type = shape_type(&shapes[0]);
    return t;
}

static void check_room(const struct plan *plan, const unsigned char *memory)
{
    struct rma_typed t = put_of(plan);

    rma_typed_verify(&t, memory, plan->key);
    rma_typed_free(&t);
}

static unsigned char *room_of(struct actor *actor, size_t index, const struct plan *plan)
{
    return place_of(actor->client, plan->to)->area + (actor->number * PLANS + index) * ROOM;
}

static void transfer_end(struct rma *rma)
{
    struct transfer *t = rma->of;
    struct actor *actor = t->actor;

    if (t->has_region)
        CHECK_OK(TEST_CALL(PAMI_Memregion_destroy(actor->context, &t->region)));
    rma_typed_free(&t->typed);
    free(t->memory);
    free(t);
    actor->ended++;
    meddle(actor);
}

static struct transfer *transfer_new(struct actor *actor, size_t index, size_t bytes)
{
    struct transfer *t = test_zalloc(sizeof *t);

    t->actor = actor;
    t->index = index;
    t->bytes = bytes;
    t->memory = test_alloc(bytes);
    t->rma.of = t;
    t->rma.then = transfer_end;
    actor->begun++;
    return t;
}

static void start_put(struct actor *actor, size_t index, const struct plan *plan)
{
    struct rma_typed typed = put_of(plan);
    struct transfer *t = transfer_new(actor, index, typed.from.room);

    t->typed = typed;
    test_fill(t->memory, t->bytes, typed.seed, 0);
    t->rma.spoil = t->memory;
    t->rma.spoil_bytes = t->bytes;
    rma_put_typed(
        &t->rma, actor->context, endpoint_of(actor->client, plan->to),
        (pami_rma_addr_t){t->memory + typed.from.base, room_of(actor, index, plan) + typed.to.base},
        (pami_rma_typed_t){typed.from.type, typed.to.type}, typed.bytes);
}

static void on_got(struct rma *rma)
{
    struct transfer *t = rma->of;
    struct plan plan = plan_of(t->actor->client, t->actor->number, t->index);

    CHECK_SIZE(test_differs(t->memory, plan.bytes, plan.to / contexts[t->actor->client], 0),
               plan.bytes);
    transfer_end(rma);
}

static void start_get(struct actor *actor, size_t index, const struct plan *plan)
{
    struct transfer *t = transfer_new(actor, index, plan->bytes);
    struct place *place = place_of(actor->client, plan->to);
    pami_endpoint_t to = endpoint_of(actor->client, plan->to);

    t->rma.then = on_got;
    if (dice(actor) % 2 == 0) {
        rma_get(&t->rma, actor->context, to, t->memory, place->source, plan->bytes);
        return;
    }
    rma_region(actor->context, t->memory, plan->bytes, &t->region);
    t->has_region = true;
    rma_rget(&t->rma, actor->context, to, (pami_rma_mr_t){&t->region, 0},
             (pami_rma_mr_t){&place->source_region, 0}, plan->bytes);
}

static void on_back(struct rma *rma)
{
    struct transfer *t = rma->of;
    struct plan plan = plan_of(t->actor->client, t->actor->number, t->index);

    check_room(&plan, t->memory);
    transfer_end(rma);
}

/* `index` operations had been started before the fence; the last put of those is there. */
static void on_fence(pami_context_t context, void *cookie, pami_result_t result)
{
    struct transfer *fence = cookie, *t;
    struct actor *actor = fence->actor;
    struct plan plan;
    struct rma_typed typed;
    size_t i = fence->index;

    CHECK_CALLBACK();
    CHECK(context == actor->context && result == PAMI_SUCCESS);
    transfer_end(&fence->rma);
    while (i-- > 0) {
        plan = plan_of(actor->client, actor->number, i);
        if (plan.kind != PUT)
            continue;
        typed = put_of(&plan);
        t = transfer_new(actor, i, typed.to.room);
        rma_typed_free(&typed);
        t->rma.then = on_back;
        rma_get(&t->rma, actor->context, endpoint_of(actor->client, plan.to), t->memory,
                room_of(actor, i, &plan), t->bytes);
        return;
    }
}

struct counting {
    struct actor *actor;
    struct plan plan;
    uint64_t old, guess;
};

static void count_once(struct counting *c);

static void on_counted(pami_context_t context, void *cookie, pami_result_t result)
{
    struct counting *c = cookie;
    struct actor *actor = c->actor;

    CHECK_CALLBACK();
    CHECK(context == actor->context && result == PAMI_SUCCESS);
    if (c->plan.kind == COMPARE && (uint32_t)c->old != c->guess) {
        CHECK((uint32_t)c->old > c->guess && c->old >> 32 == 0);
        c->guess = (uint32_t)c->old;
        count_once(c);
        return;
    }
    free(c);
    actor->ended++;
    meddle(actor);
}

/* Adds something to a word of 64 bits, or one to a word of 32 bits unless others were faster. */
static void count_once(struct counting *c)
{
    struct actor *actor = c->actor;
    uint64_t value = c->plan.key;
    uint32_t test = (uint32_t)c->guess, next = test + 1;
    bool add = c->plan.kind == ADD;
    pami_rmw_t rmw = {
        .dest = endpoint_of(actor->client, c->plan.to),
        .hints = test_garbage_hints(),
        .cookie = c,
        .done_fn = on_counted,
        .local = &c->old,
        .remote = place_of(actor->client, c->plan.to)->words + !add,
        .value = add ? (void *)&value : (void *)&next,
        .test = add ? NULL : &test,
        .operation = add ? PAMI_ATOMIC_FETCH_ADD : PAMI_ATOMIC_FETCH_COMPARE_SET,
        .type = add ? PAMI_TYPE_UNSIGNED_LONG : PAMI_TYPE_SIGNED_INT,
    };

    CHECK_OK(TEST_CALL(PAMI_Rmw(actor->context, &rmw)));
    memset(&rmw, 0x5a, sizeof rmw);
}

static void start_count(struct actor *actor, const struct plan *plan)
{
    struct counting *c = test_zalloc(sizeof *c);

    c->actor = actor;
    c->plan = *plan;
    actor->begun++;
    count_once(c);
}

/* ------------------------------------------------------------------------------- driving -- */

static void start_one(struct actor *actor)
{
    size_t index = actor->next;
    struct plan plan;

    if (index == PLANS)
        return;
    actor->next++;
    plan = plan_of(actor->client, actor->number, index);
    if (plan.kind <= OFFER)
        start_message(actor, actor->number, index, 0);
    else if (plan.kind == PUT)
        start_put(actor, index, &plan);
    else if (plan.kind == GET)
        start_get(actor, index, &plan);
    else if (plan.kind == FENCE)
        CHECK_OK(
            TEST_CALL(PAMI_Fence_all(actor->context, on_fence, transfer_new(actor, index, 0))));
    else
        start_count(actor, &plan);
}

struct work {
    pami_work_t work;
    struct actor *actor;
    size_t number;
    unsigned left;
};

static pami_result_t on_work(pami_context_t context, void *cookie)
{
    struct work *work = cookie;
    struct actor *actor = work->actor;

    CHECK_CALLBACK();
    CHECK(context == actor->context);
    if (work->left-- > 0)
        return PAMI_EAGAIN;
    memset(work, 0xcc, sizeof *work);
    free(work);
    actor->ran++;
    start_next(actor);
    return PAMI_SUCCESS;
}

static void on_last_fence(pami_context_t context, void *cookie, pami_result_t result)
{
    struct actor *actor = cookie;

    CHECK(context == actor->context && result == PAMI_SUCCESS);
    CHECK(actor->begun == actor->ended && actor->arrived == actor->expected);
    atomic_store(&actor->done, true);
}

static void step(struct actor *actor)
{
    struct work *work;

    if (actor->next < PLANS && dice(actor) % 4 == 0) {
        work = test_zalloc(sizeof *work);
        work->actor = actor;
        work->left = dice(actor) % 3;
        actor->posted++;
        CHECK_OK(PAMI_Context_post(actor->context, &work->work, on_work, work));
    }
    for (size_t i = dice(actor) % 5; i > 0; i--)
        start_next(actor);
    if (!actor->late && dice(actor) % 16 == 0)
        register_id(actor, ID_LATE);
    test_advance(actor->context, 1 + dice(actor) % 20);
    if (actor->next < PLANS || actor->begun != actor->ended || actor->posted != actor->ran ||
        actor->arrived != actor->expected || actor->fencing)
        return;
    actor->fencing = true;
    CHECK_OK(TEST_CALL(PAMI_Fence_all(actor->context, on_last_fence, actor)));
}

static void *drive(void *actor)
{
    while (!atomic_load(&over))
        step(actor);
    return NULL;
}

static void drive_all(void)
{
    for (size_t client = 0; client < CLIENTS; client++)
        for (size_t i = 0; i < contexts[client]; i++)
            step(&actors[client][i]);
}

static bool all_done(void)
{
    for (size_t client = 0; client < CLIENTS; client++)
        for (size_t i = 0; i < contexts[client]; i++)
            if (!atomic_load(&actors[client][i].done))
                return false;
    return true;
}

/* Until all are done, on all tasks. */
static void run(bool threads)
{
    pthread_t thread[CLIENTS * CONTEXTS];
    size_t count = 0;

    atomic_store(&over, false);
    control.advance_too = threads ? NULL : drive_all;
    for (size_t client = 0; client < CLIENTS && threads; client++)
        for (size_t i = 0; i < contexts[client]; i++)
            CHECK(pthread_create(&thread[count++], NULL, drive, &actors[client][i]) == 0);
    WAIT(&control, all_done());
    job_barrier(&control);
    atomic_store(&over, true);
    control.advance_too = NULL;
    while (count > 0)
        CHECK(pthread_join(thread[--count], NULL) == 0);
}

/* ------------------------------------------------------------------------------- rounds -- */

static void actor_begin(struct actor *actor, size_t client, size_t offset)
{
    uint64_t random = mix(mix(seed, number_of_round), client * CONTEXTS + offset + control.task);

    *actor = (struct actor){.client = client, .random = random};
    actor->number = control.task * contexts[client] + offset;
    actor->context = jobs[client].context[offset];
    for (size_t origin = 0; origin < actors_of(client); origin++)
        for (size_t i = 0; i < PLANS; i++) {
            struct plan plan = plan_of(client, origin, i);

            for (size_t depth = 0; depth <= plan.answers && plan.kind <= OFFER; depth++)
                actor->expected += receiver(&plan, origin, depth) == actor->number;
        }
    for (int id = ID_PLAIN; id < ID_LATE; id++)
        register_id(actor, (enum id)id);
}

static void actor_end(struct actor *actor)
{
    struct sending *sending;

    while ((sending = actor->silent) != NULL) {
        actor->silent = sending->next;
        free(sending->data);
        free(sending);
    }
}

static size_t area_bytes(size_t client)
{
    return actors_of(client) * PLANS * ROOM;
}

static void verify(size_t client)
{
    struct place *mine = &places[client][control.task];
    uint64_t sum = 0, count = 0;

    for (size_t origin = 0; origin < actors_of(client); origin++)
        for (size_t i = 0; i < PLANS; i++) {
            struct plan plan = plan_of(client, origin, i);

            if (plan.to / contexts[client] != control.task)
                continue;
            if (plan.kind == PUT)
                check_room(&plan, mine->area + (origin * PLANS + i) * ROOM);
            sum += plan.kind == ADD ? plan.key : 0;
            count += plan.kind == COMPARE;
        }
    CHECK(mine->words[0] == sum && mine->words[1] == count);
    CHECK_SIZE(test_differs(mine->source, SOURCE, control.task, 0), SOURCE);
}

/* In memory that neighbours share, or not. */
static void *place_memory(size_t client, bool shared, size_t bytes)
{
    void *memory;

    if (!shared)
        return test_alloc(bytes);
    CHECK_OK(PAMIX_Mem_alloc(jobs[client].client, bytes, 0, PAMIX_MEM_ANY, &memory));
    return memory;
}

static void place_end(size_t client, bool shared)
{
    void *memory[] = {places[client][control.task].area, places[client][control.task].source,
                      places[client][control.task].words};

    for (size_t i = 0; i < 3; i++)
        if (shared)
            CHECK_OK(PAMIX_Mem_free(jobs[client].client, memory[i]));
        else
            free(memory[i]);
}

static void one_round(void)
{
    struct place mine[CLIENTS], all[ACTORS_MAX * CLIENTS];

    for (size_t client = 0; client < CLIENTS; client++) {
        struct place *place = &places[client][control.task];

        job_create_contexts(&jobs[client], contexts[client]);
        memset(place->area, RMA_GUARD_BYTE, area_bytes(client));
        memset(place->words, 0, WORDS * sizeof *place->words);
        rma_region(jobs[client].context[0], place->source, SOURCE, &place->source_region);
        mine[client] = *place;
        for (size_t i = 0; i < contexts[client]; i++)
            actor_begin(&actors[client][i], client, i);
    }
    rma_share(&control, mine, sizeof mine, all);
    for (size_t i = 0; i < control.tasks * CLIENTS; i++)
        places[i % CLIENTS][i / CLIENTS] = all[i];
    run(mix(seed, number_of_round) % 2);
    for (size_t client = 0; client < CLIENTS; client++) {
        struct place *place = &places[client][control.task];

        verify(client);
        for (size_t i = 0; i < contexts[client]; i++)
            actor_end(&actors[client][i]);
        CHECK_OK(PAMI_Memregion_destroy(jobs[client].context[0], &place->source_region));
        job_destroy_contexts(&jobs[client]);
    }
}

int main(int argc, char **argv)
{
    seed = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    start_next = start_one;
    job_start(&control, "control", 1);
    rma_open(&control);
    CHECK(control.tasks <= ACTORS_MAX / CONTEXTS);
    for (size_t client = 0; client < CLIENTS; client++) {
        struct place *place = &places[client][control.task];
        bool shared = mix(seed, client) % 2;

        contexts[client] = 1 + mix(seed, client + CLIENTS) % CONTEXTS;
        job_create_client(&jobs[client], "torture");
        place->area = place_memory(client, shared, area_bytes(client));
        place->source = place_memory(client, shared, SOURCE);
        place->words = place_memory(client, shared, WORDS * sizeof *place->words);
        test_fill(place->source, SOURCE, control.task, 0);
    }
    for (number_of_round = 0; number_of_round < ROUNDS; number_of_round++)
        one_round();
    for (size_t client = 0; client < CLIENTS; client++) {
        place_end(client, mix(seed, client) % 2);
        job_destroy(&jobs[client]);
    }
    rma_close(&control);
    return 0;
}
