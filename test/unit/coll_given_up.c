/*
 * Barriers and short all-reduces in an arena that one member gives up because of something
 * elsewhere, before it has come or afterwards, whoever is the last: all that depends on it fails
 * for the same reason, and the next collective is not touched. Who gives it up because a member has
 * gone says which, also where it only says that it will not run. And what waits for a member that
 * has never used the arena, as the leader has gone before it said that there is one, ends when that
 * member says so.
 */
#include "coll/coll.h"
#include "shared_team.h"

enum {
    SIZE = 3,
    NEXT = ARENA_SLICES /* the next collective uses the same lines */
};

/* Not one of them. */
static const pami_result_t running = PAMI_EAGAIN;

struct operation {
    struct shared_machine machine;
    pami_result_t result;
    int mine, sum;
};

static struct team team;
static struct operation operation[SIZE];

static void on_done(struct shared_machine *machine, pami_result_t result)
{
    container_of(machine, struct operation, machine)->result = result;
}

static void prepare(uint32_t rank, enum shared_kind kind, uint64_t tick)
{
    struct operation *own = &operation[rank];
    struct shared_call call = {.kind = kind, .unit = 1, .root = SIZE - 1};

    *own = (struct operation){.result = running, .mine = 1 + (int)rank};
    if (kind != SHARED_BARRIER) {
        call.bytes = call.unit = sizeof(own->mine);
        call.op = PAMI_DATA_SUM;
        call.element = TYPE_KIND_SIGNED_INT;
        call.send.base = (char *)&own->mine;
        call.recv.base = (char *)&own->sum;
    }
    shared_reset(&own->machine, &team.member[rank].arena, &call, tick, on_done);
}

static void pass_all(void)
{
    for (int i = 0; i < 2 * SIZE; i++)
        for (uint32_t rank = 0; rank < SIZE; rank++)
            pass(&team.member[rank]);
}

static void all_end_with(uint32_t except, pami_result_t result)
{
    for (uint32_t rank = 0; rank < SIZE; rank++)
        if (rank != except)
            assert_int_equal(operation[rank].result, result);
}

/* Member `place` of those that come, one after the other, gives it up, maybe when it has come. */
static void give_up(bool crowded, enum shared_kind kind, uint32_t place, pami_result_t why,
                    bool after)
{
    team_open(&team, SIZE, ARENA_SLICES, crowded);
    for (uint32_t rank = 0; rank < SIZE; rank++)
        prepare(rank, kind, 0);
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        if (rank != place || after)
            shared_start(&operation[rank].machine);
        if (rank == place)
            shared_abandon(&operation[rank].machine, why);
        pass(&team.member[rank]);
    }
    pass_all();
    assert_int_equal(operation[place].result, why);
    /* What has come to a barrier cannot be taken back. */
    all_end_with(place, after && crowded && kind == SHARED_BARRIER ? PAMI_SUCCESS : why);
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        prepare(rank, kind, NEXT);
        shared_start(&operation[rank].machine);
    }
    pass_all();
    all_end_with(SIZE, PAMI_SUCCESS);
    for (uint32_t rank = 0; rank < SIZE && kind == SHARED_ALLREDUCE; rank++)
        assert_int_equal(operation[rank].sum, SIZE * (SIZE + 1) / 2);
    team_close(&team);
}

static void by_place(void **unused)
{
    static const enum shared_kind kinds[] = {SHARED_BARRIER, SHARED_ALLREDUCE};
    static const pami_result_t reasons[] = {PAMI_ERROR, PAMI_INVAL};

    (void)unused;
    for (int crowded = 0; crowded < 2; crowded++)
        for (size_t kind = 0; kind < 2; kind++)
            for (size_t why = 0; why < 2; why++)
                for (uint32_t place = 0; place < SIZE; place++) {
                    give_up(crowded, kinds[kind], place, reasons[why], false);
                    /* The last one's is over by then. */
                    if (place != SIZE - 1)
                        give_up(crowded, kinds[kind], place, reasons[why], true);
                }
}

/* The first member has heard that the last one has gone, and the other has not. */
static void names(bool runs)
{
    struct arena *arena = &team.member[0].arena;
    uint32_t endpoints[SIZE] = {0, 1, 2};
    bool left[SIZE] = {false, false, true};

    team_open(&team, SIZE, ARENA_SLICES, false);
    arena->endpoints = endpoints;
    arena->left = left;
    arena->lost = true;
    prepare(1, SHARED_BARRIER, 0);
    shared_start(&operation[1].machine);
    if (runs) {
        prepare(0, SHARED_BARRIER, 0);
        shared_abandon(&operation[0].machine, PAMI_ERROR);
    } else {
        shared_skip_missed(arena, 1);
    }
    pass_all();
    assert_int_equal(operation[1].result, PAMI_ERROR);
    assert_int_equal(arena_gone(&team.member[1].arena), endpoint_task(endpoints[2]) + 1);
    team_close(&team);
}

static void by_name(void **unused)
{
    (void)unused;
    names(true);
    names(false);
}

/* Two of three reduce to the third, and one of them comes to these lines again. */
static void lost_without_leader(void **unused)
{
    struct coll coll = {0};
    struct arena *arena = &team.member[1].arena;
    uint32_t endpoints[SIZE] = {0, 1, 2};
    bool left[SIZE] = {false};

    (void)unused;
    team_open(&team, SIZE, ARENA_SLICES, false);
    team.member[1].context->coll = &coll;
    arena->endpoints = endpoints;
    arena->left = left;
    for (uint32_t rank = 0; rank < 2; rank++) {
        prepare(rank, SHARED_REDUCE, 0);
        shared_start(&operation[rank].machine);
        assert_int_equal(operation[rank].result, PAMI_SUCCESS);
    }
    prepare(1, SHARED_BARRIER, NEXT);
    shared_start(&operation[1].machine);
    pass_all();
    assert_int_equal(operation[1].result, running);
    arena_member_is_lost(arena, 2);
    pass(&team.member[1]);
    assert_int_equal(operation[1].result, PAMI_ERROR);
    assert_int_equal(arena_gone(arena), endpoint_task(endpoints[0]) + 1);
    team_close(&team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_place), cmocka_unit_test(by_name),
                                       cmocka_unit_test(lost_without_leader)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
