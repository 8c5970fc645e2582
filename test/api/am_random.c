/*
 * A random program of active-message collectives on overlapping geometries of every kind, several
 * of one task's endpoints among the members, each of which is driven by a thread of its own: what
 * coll_random does for the others. Any initiator, several at once with one id; headers of any
 * length, one for each member; every mix of layouts and offsets, buffers that only their types
 * know; operators that do not commute; ids that are set while messages wait for them.
 *
 *     am_random [--seed N] [--contexts N] [--steps N]
 *
 * Run: tasks=1,2,3,5 nodes=1,2 timeout=60
 * Run: tasks=2,3 nodes=1,2 args="--contexts 3 --seed 2" timeout=60
 * Run: tasks=3 args="--contexts 2 --seed 3" env="PAMI_RNDV_BYTES=0" timeout=60
 * Run: tasks=3 args="--contexts 2 --seed 4" env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 */
#include <pthread.h>

#include "coll_places.h"

enum {
    FLIGHTS = 6, /* initiated by one endpoint and not complete */
    LATE = 100,  /* added to ids that are set when half of the program is over */
    SHIFT_MAX = 3
};

/* One operation; all but the member's own choices follow from its number. */
struct step {
    size_t number, initiator; /* rank */
    const struct place *place;
    pami_xfer_type_t type;
    size_t id, words, unit, header_bytes;
    pami_data_function op;
};

/* A member's buffer: `words` words from instance `first` of the layout on. */
struct part {
    struct driver *driver;
    struct step step;
    size_t self; /* rank */
    struct op_side side;
    size_t first;
};

/* What the initiator keeps until it is complete. */
struct mine {
    struct driver *driver;
    struct step step;
    struct op_side side;
    char *headers;
};

struct driver {
    size_t offset;
    pami_context_t context;
    pami_endpoint_t self;
    struct mine *mine[FLIGHTS];
    size_t under_way, landed, expected;
    bool set[PLACES_MAX][2];
    uint64_t random;
};

static struct step step_of(size_t number)
{
    static const pami_xfer_type_t types[] = {PAMI_XFER_AMBROADCAST, PAMI_XFER_AMSCATTER,
                                             PAMI_XFER_AMGATHER, PAMI_XFER_AMREDUCE};
    uint64_t state = seed * 1000003 + number * 7919;
    struct step step = {.number = number};

    step.place = &places[op_below(&state, place_count)];
    step.type = types[op_below(&state, 4)];
    step.initiator = op_below(&state, step.place->size);
    step.id = (size_t)step.type + (op_below(&state, 3) == 0 ? LATE : 0);
    step.unit = op_below(&state, 3) == 0 ? 3 : 1;
    step.words = op_below(&state, 12) == 0 ? op_below(&state, 20000) : op_below(&state, 300);
    step.words = step.words / step.unit * step.unit;
    step.header_bytes = sizeof(step.number) + op_below(&state, 3) * op_below(&state, 400);
    step.op = op_below(&state, 2) == 0   ? op_user
              : op_below(&state, 2) == 0 ? PAMI_DATA_SUM
                                         : PAMI_DATA_BXOR;
    return step;
}

static bool is_gathering(const struct step *step)
{
    return step->type == PAMI_XFER_AMGATHER || step->type == PAMI_XFER_AMREDUCE;
}

static bool has_blocks(const struct step *step)
{
    return step->type == PAMI_XFER_AMSCATTER || step->type == PAMI_XFER_AMGATHER;
}

/* Word x of the block of a member; of what all get where they all get the same. */
static uint32_t value(const struct step *step, size_t rank, size_t x)
{
    uint64_t state = seed + step->number * 70001 + rank * 13;

    return (uint32_t)test_random(&state) + (uint32_t)x * 0x9e3779b1u;
}

static size_t self_of(const struct step *step, pami_endpoint_t endpoint)
{
    size_t rank = 0;

    while (rank < step->place->size && step->place->member[rank] != endpoint)
        rank++;
    return rank;
}

static void choose_layout(struct driver *driver, const struct step *step, struct op_side *side,
                          bool kind)
{
    do
        side->layout = &op_layouts[op_below(&driver->random, OP_LAYOUTS)];
    while (step->unit % side->layout->unit != 0 || (kind && !side->layout->kind));
}

static void side_free(struct op_side *side)
{
    if (side->absolute != NULL)
        CHECK_OK(PAMI_Type_destroy(&side->absolute));
    free(side->memory);
    free(side->expected);
}

static void side_check(const struct step *step, size_t self, const struct op_side *side,
                       const char *which)
{
    for (size_t i = 0; i < side->words; i++)
        if (side->memory[i] != side->expected[i])
            FAIL("step %zu, type %d, member %zu of %zu, initiator %zu, %zu words, layout %d: %s "
                 "buffer: word %zu is %#x, expected %#x",
                 step->number, (int)step->type, self, step->place->size, step->initiator,
                 step->words, (int)(side->layout - op_layouts), which, i, side->memory[i],
                 side->expected[i]);
}

/* ---- a member ---- */

static struct mine **mine_of(struct driver *driver, size_t number)
{
    for (size_t i = 0; i < FLIGHTS; i++)
        if (driver->mine[i] != NULL && driver->mine[i]->step.number == number)
            return &driver->mine[i];
    FAIL("a part of an operation that is over, or was not begun");
}

static void mine_end(struct driver *driver, size_t number)
{
    struct mine **place = mine_of(driver, number), *mine = *place;

    side_check(&mine->step, mine->step.initiator, &mine->side, "initiator's");
    side_free(&mine->side);
    free(mine->headers);
    free(mine);
    *place = NULL;
    driver->under_way--;
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    struct part *part = cookie;
    struct driver *driver = part->driver;

    CHECK_CALLBACK();
    CHECK(context == driver->context);
    if (result != PAMI_SUCCESS)
        FAIL("step %zu ended with %d: %s", part->step.number, (int)result, test_text());
    side_check(&part->step, part->self, &part->side, "member's");
    driver->landed++;
    if (part->self == part->step.initiator)
        mine_end(driver, part->step.number);
    side_free(&part->side);
    free(part);
}

static struct part *part_new(struct driver *driver, pami_context_t context, const void *header,
                             size_t header_bytes, size_t bytes, pami_endpoint_t origin,
                             pami_geometry_t geometry, const pami_recv_t *recv)
{
    struct part *part = test_zalloc(sizeof(*part));
    size_t number;

    CHECK_CALLBACK();
    CHECK(context == driver->context && header_bytes >= sizeof(number));
    memcpy(&number, header, sizeof(number));
    CHECK(number < steps);
    part->driver = driver;
    part->step = step_of(number);
    part->self = self_of(&part->step, driver->self);
    CHECK(part->self < part->step.place->size);
    CHECK(part->self != part->step.initiator || part->step.type != PAMI_XFER_AMBROADCAST);
    CHECK(geometry == part->step.place->geometry);
    CHECK(origin == part->step.place->member[part->step.initiator]);
    CHECK_SIZE(header_bytes, part->step.header_bytes);
    CHECK_SIZE(bytes, part->step.words * sizeof(uint32_t));
    header_bytes -= sizeof(number);
    CHECK_SIZE(test_differs((const char *)header + sizeof(number), header_bytes,
                            number + (has_blocks(&part->step) ? part->self : 0), 0),
               header_bytes);
    CHECK(recv->cookie == NULL && recv->local_fn == NULL && recv->addr == NULL);
    CHECK(recv->type == PAMI_TYPE_BYTE && recv->offset == 0 && recv->data_fn == PAMI_DATA_COPY);
    part->first = op_below(&driver->random, SHIFT_MAX);
    return part;
}

static void part_give(struct part *part, pami_recv_t *recv)
{
    const struct op_layout *layout = part->side.layout;

    recv->addr = op_buffer(&part->side);
    recv->type = op_type(&part->side);
    recv->offset = part->first * layout->unit * sizeof(uint32_t);
    recv->local_fn = on_landed;
    recv->cookie = part;
}

static void part_allocate(struct part *part, bool kind)
{
    choose_layout(part->driver, &part->step, &part->side, kind);
    op_allocate(&part->side, part->first + part->step.words / part->side.layout->unit);
}

static void on_data(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *pipe, size_t bytes, pami_endpoint_t origin,
                    pami_geometry_t geometry, pami_recv_t *recv)
{
    struct driver *driver = cookie;
    struct part *part =
        part_new(driver, context, header, header_bytes, bytes, origin, geometry, recv);
    const struct step *step = &part->step;
    size_t what = op_below(&driver->random, 5);

    CHECK(pipe == NULL);
    part_allocate(part, what == 0);
    part_give(part, recv);
    recv->data_fn = what == 0 ? PAMI_DATA_SUM : what == 1 ? PAMI_DATA_NOOP : PAMI_DATA_COPY;
    for (size_t x = 0; x < step->words && what != 1; x++)
        *op_word(part->side.expected, &part->side, part->first, x) =
            value(step, has_blocks(step) ? part->self : 0, x) + (what == 0 ? 0xeeeeeeeeu : 0);
}

static void on_gather(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      size_t bytes, pami_endpoint_t origin, pami_geometry_t geometry,
                      pami_recv_t *send)
{
    struct part *part =
        part_new(cookie, context, header, header_bytes, bytes, origin, geometry, send);
    const struct step *step = &part->step;

    part_allocate(part, step->type == PAMI_XFER_AMREDUCE && step->op != op_user);
    for (size_t x = 0; x < step->words; x++)
        *op_word(part->side.memory, &part->side, part->first, x) = value(step, part->self, x);
    op_keep(&part->side);
    if (op_below(&part->driver->random, 4) == 0)
        op_make_absolute(&part->side);
    part_give(part, send);
}

static void on_reduce(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      size_t bytes, pami_endpoint_t origin, pami_geometry_t geometry,
                      pami_data_function *op, pami_recv_t *send)
{
    size_t number;

    on_gather(context, cookie, header, header_bytes, bytes, origin, geometry, send);
    memcpy(&number, header, sizeof(number));
    *op = step_of(number).op;
}

/* ---- the initiator ---- */

static void on_broadcast_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct mine *mine = cookie;

    CHECK_CALLBACK();
    CHECK(context == mine->driver->context && result == PAMI_SUCCESS);
    mine_end(mine->driver, mine->step.number);
}

static void never(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
    FAIL("cb_done was called");
}

/* Headers of all members, or the one that all get. */
static char *make_headers(const struct step *step)
{
    size_t count = has_blocks(step) ? step->place->size : 1;
    char *headers = test_alloc(count * step->header_bytes);

    for (size_t i = 0; i < count; i++) {
        char *at = headers + i * step->header_bytes;

        memcpy(at, &step->number, sizeof(step->number));
        test_fill(at + sizeof(step->number), step->header_bytes - sizeof(step->number),
                  step->number + i, 0);
    }
    return headers;
}

/* What the members combined have in word x. */
static uint32_t folded(const struct step *step, size_t x)
{
    const struct op o = {.op = step->op};
    uint32_t all = value(step, 0, x);

    for (size_t i = 1; i < step->place->size; i++)
        all = op_combine(&o, all, value(step, i, x));
    return all;
}

/* A source holds its contents, a destination is to. */
static void fill_side(const struct step *step, struct op_side *side)
{
    uint32_t *memory;
    size_t blocks = has_blocks(step) ? step->place->size : 1;
    size_t instances = step->words / side->layout->unit;

    op_allocate(side, blocks * instances);
    memory = is_gathering(step) ? side->expected : side->memory;
    for (size_t i = 0; i < blocks; i++)
        for (size_t x = 0; x < step->words; x++)
            *op_word(memory, side, i * instances, x) =
                step->type == PAMI_XFER_AMREDUCE ? folded(step, x) : value(step, i, x);
    if (!is_gathering(step))
        op_keep(side);
}

static void arguments(const struct mine *mine, pami_collective_t *to)
{
    const struct step *step = &mine->step;
    size_t count = op_instances(&mine->side, step->words);
    void *buffer = step->words != 0 ? op_buffer(&mine->side) : NULL;
    pami_type_t type = op_type(&mine->side);

    if (step->type == PAMI_XFER_AMBROADCAST)
        to->xfer_ambroadcast =
            (pami_ambroadcast_t){step->id, mine->headers, step->header_bytes, buffer, type, count};
    else if (step->type == PAMI_XFER_AMSCATTER)
        to->xfer_amscatter =
            (pami_amscatter_t){step->id, mine->headers, step->header_bytes, buffer, type, count};
    else if (step->type == PAMI_XFER_AMGATHER)
        to->xfer_amgather =
            (pami_amgather_t){step->id, mine->headers, step->header_bytes, buffer, type, count};
    else
        to->xfer_amreduce = (pami_amreduce_t){step->id, mine->headers, step->header_bytes, buffer,
                                              type,     count,         &op_layouts,        0};
}

static void set(struct driver *driver, const struct place *place, bool late)
{
    static const struct {
        pami_xfer_type_t type;
        pami_dispatch_callback_function fn;
    } rows[] = {{PAMI_XFER_AMBROADCAST, {.ambroadcast = on_data}},
                {PAMI_XFER_AMSCATTER, {.amscatter = on_data}},
                {PAMI_XFER_AMGATHER, {.amgather = on_gather}},
                {PAMI_XFER_AMREDUCE, {.amreduce = on_reduce}}};
    struct driver *cookie = driver;

    if (driver->set[place - places][late])
        return;
    driver->set[place - places][late] = true;
    for (size_t i = 0; i < 4; i++) /* through any of the algorithms */
        CHECK_OK(TEST_CALL(PAMI_AMCollective_dispatch_set(
            driver->context, algorithm_of(place->geometry, rows[(i + driver->offset) % 4].type),
            (size_t)rows[i].type + (late ? LATE : 0), rows[i].fn, cookie,
            (pami_collective_hint_t){0})));
}

static void initiate(struct driver *driver, const struct step *step)
{
    struct algorithms all = algorithms_of(step->place->geometry, step->type);
    struct mine *mine = test_zalloc(sizeof(*mine));
    size_t place = 0;
    pami_xfer_t xfer;

    WAIT_WITH(test_advance(driver->context, 10), driver->under_way < FLIGHTS);
    while (driver->mine[place] != NULL)
        place++;
    driver->mine[place] = mine;
    driver->under_way++;
    mine->driver = driver;
    mine->step = *step;
    mine->headers = make_headers(step);
    choose_layout(driver, step, &mine->side, false);
    fill_side(step, &mine->side);
    if (op_below(&driver->random, 4) == 0)
        op_make_absolute(&mine->side);
    set(driver, step->place, step->id >= LATE);
    memset(&xfer, 0xa5, sizeof(xfer));
    xfer.algorithm = all.handle[0][op_below(&driver->random, all.count[0])];
    xfer.cb_done = step->type == PAMI_XFER_AMBROADCAST ? on_broadcast_done : never;
    xfer.cookie = mine;
    arguments(mine, &xfer.cmd);
    CHECK_OK(TEST_CALL(PAMI_Collective(driver->context, &xfer)));
    memset(&xfer, 0x5a, sizeof(xfer));
    algorithms_free(&all);
}

/* ---- the program ---- */

static bool is_member(const struct place *place, pami_endpoint_t endpoint)
{
    for (size_t i = 0; i < place->size; i++)
        if (place->member[i] == endpoint)
            return true;
    return false;
}

static void set_all(struct driver *driver, bool late)
{
    for (size_t i = 0; i < place_count; i++)
        if (is_member(&places[i], driver->self))
            set(driver, &places[i], late);
}

static void *drive(void *argument)
{
    struct driver *driver = argument;

    set_all(driver, false);
    for (size_t number = 0; number < steps; number++) {
        struct step step = step_of(number);
        size_t self = self_of(&step, driver->self);

        if (number == steps / 2)
            set_all(driver, true);
        if (self == step.place->size)
            continue;
        driver->expected += self != step.initiator || step.type != PAMI_XFER_AMBROADCAST;
        if (self == step.initiator)
            initiate(driver, &step);
        if (op_below(&driver->random, 3) == 0)
            test_advance(driver->context, 1 + op_below(&driver->random, 5));
        if (op_below(&driver->random, 100) == 0)
            test_sleep(0.003);
    }
    WAIT_WITH(test_advance(driver->context, 10),
              driver->landed == driver->expected && driver->under_way == 0);
    return NULL;
}

int main(int argc, char **argv)
{
    static struct driver drivers[CONTEXTS_MAX];
    pthread_t thread[CONTEXTS_MAX];

    places_begin(argc, argv, "am-random", 200);
    for (size_t i = 0; i < contexts; i++)
        drivers[i] = (struct driver){.offset = i,
                                     .context = job.context[i],
                                     .self = job_endpoint(&job, job.task, i),
                                     .random = seed ^ (job.task * 64 + i + 1) * 0x51ed270b7u};
    for (size_t i = 1; i < contexts; i++)
        CHECK(pthread_create(&thread[i], NULL, drive, &drivers[i]) == 0);
    drive(&drivers[0]);
    for (size_t i = 1; i < contexts; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    places_end();
    return 0;
}
