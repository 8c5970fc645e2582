/*
 * Active-message collectives: only the initiator calls, the others take part by advancing. Every
 * listed algorithm, every root, several at once, data and headers of many sizes.
 *
 * Run: tasks=1,2,3,5,8
 * Run: tasks=4 nodes=2
 * Run: tasks=3 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=0"
 * Run: tasks=3 env="PAMI_SHM_SINGLE_COPY=off"
 */
#include "api_test.h"

enum {
    LARGEST = 70000,
    HEADER_LARGEST = 300,
    LISTED_MAX = 32
};

/* Ids are any size_t, and not those of point-to-point messages. */
#define ID_ONE ((size_t)1)
#define ID_LARGE (SIZE_MAX - 7)
#define ID_LATE ((size_t)1 << 40)

static struct job job;
static pami_geometry_t world;

/* What an initiator tells the others in its header. */
struct note {
    uint32_t root, round, bytes;
};

/* One operation as this task sees it. */
struct part {
    struct part *next;
    struct note note;
    unsigned char data[];
};

static size_t dispatched, landed, finished;
static struct part *parts;

static const size_t sizes[] = {0, 1, 100, 513, 5000, LARGEST};

enum {
    SIZES = sizeof sizes / sizeof sizes[0]
};

struct listed {
    size_t count;
    pami_algorithm_t algorithm[LISTED_MAX];
    pami_metadata_t metadata[LISTED_MAX];
};

/* Both lists: programs without special arguments may use either. */
static struct listed list_of(pami_xfer_type_t type)
{
    struct listed listed = {0};
    size_t lengths[2];

    CHECK_OK(PAMI_Geometry_algorithms_num(world, type, lengths));
    CHECK(lengths[0] >= 1 && lengths[0] + lengths[1] <= LISTED_MAX);
    CHECK_OK(PAMI_Geometry_algorithms_query(world, type, listed.algorithm, listed.metadata,
                                            lengths[0], listed.algorithm + lengths[0],
                                            listed.metadata + lengths[0], lengths[1]));
    listed.count = lengths[0] + lengths[1];
    return listed;
}

static void never(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
    FAIL("cb_done was called");
}

static size_t seed_of(const struct note *note, size_t task)
{
    return note->root * 1000 + note->round * 10 + task;
}

static struct part *part_new(const void *header, size_t header_bytes, size_t bytes,
                             pami_endpoint_t origin, pami_geometry_t geometry)
{
    struct part *part = test_zalloc(sizeof *part + bytes);

    CHECK_CALLBACK();
    CHECK(header_bytes >= sizeof part->note && geometry == world);
    memcpy(&part->note, header, sizeof part->note);
    CHECK_SIZE(test_origin(origin), part->note.root);
    CHECK_SIZE(bytes, part->note.bytes);
    CHECK_SIZE(test_differs((const char *)header + sizeof part->note,
                            header_bytes - sizeof part->note, part->note.root, 0),
               header_bytes - sizeof part->note);
    part->next = parts;
    parts = part;
    dispatched++;
    return part;
}

static void part_free(struct part *part)
{
    struct part **link = &parts;

    while (*link != part)
        link = &(*link)->next;
    *link = part->next;
    free(part);
}

static void check_fresh(const void *pipe, const pami_recv_t *recv)
{
    CHECK(pipe == NULL && recv != NULL);
    CHECK(recv->cookie == NULL && recv->local_fn == NULL && recv->addr == NULL);
    CHECK(recv->type == PAMI_TYPE_BYTE && recv->offset == 0);
}

/* ---- ambroadcast and amscatter ---- */

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    struct part *part = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[0] && result == PAMI_SUCCESS);
    CHECK_SIZE(test_differs(part->data, part->note.bytes, seed_of(&part->note, 0), 0),
               part->note.bytes);
    part_free(part);
    landed++;
}

static void on_scattered(pami_context_t context, void *cookie, pami_result_t result)
{
    struct part *part = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[0] && result == PAMI_SUCCESS);
    CHECK_SIZE(test_differs(part->data, part->note.bytes, seed_of(&part->note, job.task), 0),
               part->note.bytes);
    finished += part->note.root == job.task;
    part_free(part);
    landed++;
}

static void on_broadcast(pami_context_t context, void *cookie, const void *header,
                         size_t header_bytes, const void *pipe, size_t bytes,
                         pami_endpoint_t origin, pami_geometry_t geometry, pami_recv_t *recv)
{
    struct part *part = part_new(header, header_bytes, bytes, origin, geometry);

    CHECK(context == job.context[0] && cookie == &job && part->note.root != job.task);
    check_fresh(pipe, recv);
    recv->addr = part->data;
    recv->cookie = part;
    recv->local_fn = on_landed;
}

static void on_scatter(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *pipe, size_t bytes, pami_endpoint_t origin,
                       pami_geometry_t geometry, pami_recv_t *recv)
{
    struct part *part = part_new(header, header_bytes, bytes, origin, geometry);

    CHECK(context == job.context[0] && cookie == &job);
    check_fresh(pipe, recv);
    recv->addr = part->data;
    recv->cookie = part;
    recv->local_fn = on_scattered;
}

static void on_finished(pami_context_t context, void *cookie, pami_result_t result)
{
    CHECK_CALLBACK();
    CHECK(context == job.context[0] && cookie == &finished && result == PAMI_SUCCESS);
    finished++;
}

static void set(pami_xfer_type_t type, size_t id, pami_dispatch_callback_function fn)
{
    struct listed listed = list_of(type);
    pami_collective_hint_t hints = {0};

    CHECK_OK(TEST_CALL(
        PAMI_AMCollective_dispatch_set(job.context[0], listed.algorithm[0], id, fn, &job, hints)));
}

/* Headers of all tasks, `headerlen` apart. */
static char *headers_of(const struct note *note, size_t headerlen, size_t count)
{
    char *headers = test_alloc(headerlen * count);

    for (size_t i = 0; i < count; i++) {
        memcpy(headers + i * headerlen, note, sizeof *note);
        test_fill(headers + i * headerlen + sizeof *note, headerlen - sizeof *note, note->root, 0);
    }
    return headers;
}

static pami_xfer_t xfer_of(pami_algorithm_t algorithm, pami_event_function done)
{
    pami_xfer_t xfer;

    memset(&xfer, 0xa5, sizeof xfer);
    xfer.cb_done = done;
    xfer.cookie = &finished;
    xfer.algorithm = algorithm;
    return xfer;
}

static void start(pami_xfer_t *xfer)
{
    CHECK_OK(TEST_CALL(PAMI_Collective(job.context[0], xfer)));
    memset(xfer, 0x5a, sizeof *xfer);
}

static void broadcast(pami_algorithm_t algorithm, size_t id, size_t headerlen, size_t bytes,
                      unsigned char *data, char **headers)
{
    const struct note note = {.root = (uint32_t)job.task, .round = 1, .bytes = (uint32_t)bytes};
    pami_xfer_t xfer = xfer_of(algorithm, on_finished);

    *headers = headers_of(&note, headerlen, 1);
    test_fill(data, bytes, seed_of(&note, 0), 0);
    xfer.cmd.xfer_ambroadcast = (pami_ambroadcast_t){.dispatch = id,
                                                     .user_header = *headers,
                                                     .headerlen = headerlen,
                                                     .sndbuf = data,
                                                     .stype = PAMI_TYPE_BYTE,
                                                     .stypecount = bytes};
    start(&xfer);
}

static void scatter(pami_algorithm_t algorithm, size_t id, size_t headerlen, size_t bytes,
                    unsigned char *data, char **headers)
{
    const struct note note = {.root = (uint32_t)job.task, .round = 2, .bytes = (uint32_t)bytes};
    pami_xfer_t xfer = xfer_of(algorithm, never);

    *headers = headers_of(&note, headerlen, job.tasks);
    for (size_t i = 0; i < job.tasks; i++)
        test_fill(data + i * bytes, bytes, seed_of(&note, i), 0);
    xfer.cmd.xfer_amscatter = (pami_amscatter_t){.dispatch = id,
                                                 .headers = *headers,
                                                 .headerlen = headerlen,
                                                 .sndbuf = data,
                                                 .stype = PAMI_TYPE_BYTE,
                                                 .stypecount = bytes};
    start(&xfer);
}

/* ---- amgather and amreduce ---- */

static void on_given(pami_context_t context, void *cookie, pami_result_t result)
{
    struct part *part = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[0] && result == PAMI_SUCCESS);
    /* A contribution stays as it was. */
    CHECK_SIZE(test_differs(part->data, part->note.bytes, seed_of(&part->note, job.task), 0),
               part->note.bytes);
    finished += part->note.root == job.task;
    part_free(part);
    landed++;
}

static void on_gather(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      size_t bytes, pami_endpoint_t origin, pami_geometry_t geometry,
                      pami_recv_t *send)
{
    struct part *part = part_new(header, header_bytes, bytes, origin, geometry);

    CHECK(context == job.context[0] && cookie == &job);
    check_fresh(NULL, send);
    test_fill(part->data, bytes, seed_of(&part->note, job.task), 0);
    send->addr = part->data;
    send->cookie = part;
    send->local_fn = on_given;
}

static void on_reduce(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      size_t bytes, pami_endpoint_t origin, pami_geometry_t geometry,
                      pami_data_function *op, pami_recv_t *send)
{
    on_gather(context, cookie, header, header_bytes, bytes, origin, geometry, send);
    send->type = PAMI_TYPE_UNSIGNED_CHAR;
    *op = PAMI_DATA_SUM;
}

/* x -> a x + b modulo 256: composing such maps does not commute. */
static void compose(void *target, void *source, size_t bytes, void *cookie)
{
    unsigned char *t = target;
    const unsigned char *s = source;

    CHECK(cookie == &job && bytes % 2 == 0);
    for (size_t i = 0; i + 1 < bytes; i += 2) {
        unsigned char a = (unsigned char)(s[i] * t[i]);
        unsigned char b = (unsigned char)(s[i] * t[i + 1] + s[i + 1]);

        t[i] = a;
        t[i + 1] = b;
    }
}

static pami_type_t pairs;

static void on_compose(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, size_t bytes, pami_endpoint_t origin,
                       pami_geometry_t geometry, pami_data_function *op, pami_recv_t *send)
{
    on_gather(context, cookie, header, header_bytes, bytes, origin, geometry, send);
    send->type = pairs;
    *op = compose;
}

static void gather(pami_algorithm_t algorithm, size_t id, size_t headerlen, size_t bytes,
                   unsigned char *data, char **headers)
{
    const struct note note = {.root = (uint32_t)job.task, .round = 3, .bytes = (uint32_t)bytes};
    pami_xfer_t xfer = xfer_of(algorithm, never);

    *headers = headers_of(&note, headerlen, job.tasks);
    memset(data, 0xee, bytes * job.tasks);
    xfer.cmd.xfer_amgather = (pami_amgather_t){.dispatch = id,
                                               .headers = *headers,
                                               .headerlen = headerlen,
                                               .rcvbuf = data,
                                               .rtype = PAMI_TYPE_BYTE,
                                               .rtypecount = bytes};
    start(&xfer);
}

static void reduce(pami_algorithm_t algorithm, size_t id, size_t headerlen, size_t bytes,
                   unsigned char *data, char **headers)
{
    const struct note note = {.root = (uint32_t)job.task, .round = 4, .bytes = (uint32_t)bytes};
    pami_xfer_t xfer = xfer_of(algorithm, never);

    *headers = headers_of(&note, headerlen, 1);
    memset(data, 0xee, bytes);
    xfer.cmd.xfer_amreduce = (pami_amreduce_t){.dispatch = id,
                                               .user_header = *headers,
                                               .headerlen = headerlen,
                                               .rcvbuf = data,
                                               .rtype = PAMI_TYPE_BYTE,
                                               .rtypecount = bytes,
                                               .data_cookie = &job,
                                               .commutative = 0};
    start(&xfer);
}

static void check_gathered(const unsigned char *data, size_t bytes)
{
    const struct note note = {.root = (uint32_t)job.task, .round = 3};

    for (size_t i = 0; i < job.tasks; i++)
        CHECK_SIZE(test_differs(data + i * bytes, bytes, seed_of(&note, i), 0), bytes);
}

static void check_reduced(const unsigned char *data, size_t bytes, bool composed)
{
    const struct note note = {.root = (uint32_t)job.task, .round = 4};
    unsigned char *expected = test_alloc(bytes), *next = test_alloc(bytes);

    test_fill(expected, bytes, seed_of(&note, job.tasks - 1), 0);
    for (size_t i = job.tasks - 1; i-- > 0;) {
        test_fill(next, bytes, seed_of(&note, i), 0);
        if (composed)
            compose(expected, next, bytes, &job);
        for (size_t k = 0; !composed && k < bytes; k++)
            expected[k] = (unsigned char)(expected[k] + next[k]);
    }
    CHECK(bytes == 0 || memcmp(expected, data, bytes) == 0);
    free(expected);
    free(next);
}

/* ---- rounds ---- */

typedef void operation(pami_algorithm_t algorithm, size_t id, size_t headerlen, size_t bytes,
                       unsigned char *data, char **headers);

/* The tasks of `from` to `to` each initiate one; everybody takes part in all. */
static void together(operation *begin, pami_algorithm_t algorithm, pami_xfer_type_t type, size_t id,
                     size_t from, size_t to, size_t headerlen, size_t bytes)
{
    size_t blocks = type == PAMI_XFER_AMBROADCAST || type == PAMI_XFER_AMREDUCE ? 1 : job.tasks;
    bool mine = job.task >= from && job.task < to;
    size_t expected = to - from - (mine && type == PAMI_XFER_AMBROADCAST);
    unsigned char *data = test_alloc(bytes * blocks);
    char *headers = NULL;

    if (mine)
        begin(algorithm, id, headerlen, bytes, data, &headers);
    WAIT(&job, landed == expected && finished == mine);
    CHECK_SIZE(dispatched, expected);
    if (mine && type == PAMI_XFER_AMGATHER)
        check_gathered(data, bytes);
    if (mine && type == PAMI_XFER_AMREDUCE)
        check_reduced(data, bytes, id == ID_LARGE);
    free(headers);
    free(data);
    job_barrier(&job);
    CHECK(parts == NULL && landed == expected);
    dispatched = landed = finished = 0;
    job_barrier(&job);
}

static void all_of(operation *begin, pami_xfer_type_t type, size_t id)
{
    struct listed listed = list_of(type);

    for (size_t i = 0; i < listed.count; i++) {
        CHECK(strncmp(listed.metadata[i].name, "I0:", 3) == 0);
        for (size_t k = 0; k < SIZES; k++) {
            size_t header = sizeof(struct note) + (k % 2 ? HEADER_LARGEST : 0);
            size_t bytes =
                id == ID_LARGE && type == PAMI_XFER_AMREDUCE ? sizes[k] & ~(size_t)1 : sizes[k];
            size_t root = (i + k) % job.tasks;

            together(begin, listed.algorithm[i], type, id, root, root + 1, header, bytes);
            together(begin, listed.algorithm[i], type, id, 0, job.tasks, header, bytes);
        }
    }
}

/* ---- ids ---- */

static void hold_until_set(void)
{
    struct listed listed = list_of(PAMI_XFER_AMBROADCAST);
    unsigned char data[100];
    char *headers = NULL;

    if (job.task == 0) {
        set(PAMI_XFER_AMBROADCAST, ID_LATE,
            (pami_dispatch_callback_function){.ambroadcast = on_broadcast});
        broadcast(listed.algorithm[0], ID_LATE, sizeof(struct note), sizeof data, data, &headers);
        WAIT(&job, finished == 1);
    }
    job_barrier(&job);
    job_linger(&job, 0.01);
    CHECK_SIZE(dispatched, 0);
    if (job.task != 0) {
        set(PAMI_XFER_AMBROADCAST, ID_LATE,
            (pami_dispatch_callback_function){.ambroadcast = on_broadcast});
        WAIT(&job, landed == 1);
    }
    free(headers);
    job_barrier(&job);
    dispatched = landed = finished = 0;
}

/* ---- what goes wrong ---- */

static void on_bad_ended(pami_context_t context, void *cookie, pami_result_t result)
{
    CHECK_CALLBACK();
    CHECK(context == job.context[0] && cookie == &job && result != PAMI_SUCCESS);
    landed++;
}

static pami_type_t incomplete;

/* The last task names nothing, or nothing of a type. */
static void on_bad_gather(pami_context_t context, void *cookie, const void *header,
                          size_t header_bytes, size_t bytes, pami_endpoint_t origin,
                          pami_geometry_t geometry, pami_recv_t *send)
{
    static unsigned char data[64];
    bool bad = job.task == job.tasks - 1;

    (void)context, (void)header, (void)header_bytes, (void)origin, (void)geometry;
    CHECK_SIZE(bytes, sizeof data);
    send->addr = bad && cookie == NULL ? NULL : data;
    send->type = bad && cookie != NULL ? incomplete : PAMI_TYPE_UNSIGNED_CHAR;
    send->cookie = &job;
    send->local_fn = bad || job.task == 0 ? on_bad_ended : NULL;
}

static void on_bad_reduce(pami_context_t context, void *cookie, const void *header,
                          size_t header_bytes, size_t bytes, pami_endpoint_t origin,
                          pami_geometry_t geometry, pami_data_function *op, pami_recv_t *send)
{
    on_bad_gather(context, cookie, header, header_bytes, bytes, origin, geometry, send);
    *op = PAMI_DATA_SUM;
}

/* It hears of it, and so does the initiator, which does not wait for more. */
static void contribute_nothing(pami_xfer_type_t type, pami_dispatch_callback_function fn,
                               void *cookie)
{
    struct listed listed = list_of(type);
    pami_xfer_t xfer = xfer_of(listed.algorithm[0], never);
    pami_collective_hint_t hints = {0};
    unsigned char *data = test_zalloc(64 * job.tasks);

    CHECK_OK(PAMI_AMCollective_dispatch_set(job.context[0], listed.algorithm[0], ID_ONE, fn, cookie,
                                            hints));
    landed = 0;
    job_barrier(&job);
    if (type == PAMI_XFER_AMGATHER)
        xfer.cmd.xfer_amgather = (pami_amgather_t){
            .dispatch = ID_ONE, .rcvbuf = data, .rtype = PAMI_TYPE_BYTE, .rtypecount = 64};
    else
        xfer.cmd.xfer_amreduce = (pami_amreduce_t){
            .dispatch = ID_ONE, .rcvbuf = data, .rtype = PAMI_TYPE_BYTE, .rtypecount = 64};
    if (job.task == 0)
        start(&xfer);
    WAIT(&job, landed == (job.task == 0 || job.task == job.tasks - 1));
    job_barrier(&job);
    free(data);
}

static void refuse(void)
{
    struct listed listed = list_of(PAMI_XFER_AMBROADCAST);
    pami_xfer_t xfer = xfer_of(listed.algorithm[0], on_finished);
    pami_dispatch_callback_function fn = {.ambroadcast = NULL};
    pami_collective_hint_t hints = {0};
    const size_t impossible[] = {SIZE_MAX, SIZE_MAX - 8, SIZE_MAX / 2, ((size_t)1 << 62) + 1};

    xfer.cmd.xfer_ambroadcast = (pami_ambroadcast_t){.dispatch = 4711, .stype = PAMI_TYPE_BYTE};
    CHECK_REFUSED(PAMI_Collective(job.context[0], &xfer), PAMI_INVAL, "dispatch");
    xfer.cmd.xfer_ambroadcast =
        (pami_ambroadcast_t){.dispatch = ID_ONE, .headerlen = 8, .stype = PAMI_TYPE_BYTE};
    CHECK_REFUSED(PAMI_Collective(job.context[0], &xfer), PAMI_INVAL, "header");
    xfer.cmd.xfer_ambroadcast =
        (pami_ambroadcast_t){.dispatch = ID_ONE, .stype = PAMI_TYPE_BYTE, .stypecount = 3};
    CHECK_REFUSED(PAMI_Collective(job.context[0], &xfer), PAMI_INVAL, "sndbuf");
    xfer.cmd.xfer_ambroadcast = (pami_ambroadcast_t){.dispatch = ID_ONE, .stypecount = 1};
    CHECK_REFUSED(PAMI_Collective(job.context[0], &xfer), PAMI_INVAL, "type");
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
        xfer.cmd.xfer_ambroadcast = (pami_ambroadcast_t){.dispatch = ID_ONE,
                                                         .sndbuf = &hints,
                                                         .stype = PAMI_TYPE_BYTE,
                                                         .stypecount = impossible[i]};
        CHECK_REFUSED(PAMI_Collective(job.context[0], &xfer), PAMI_INVAL, "stypecount");
    }
    CHECK_REFUSED(
        PAMI_AMCollective_dispatch_set(job.context[0], listed.algorithm[0], 1, fn, NULL, hints),
        PAMI_INVAL, "fn");
    fn.ambroadcast = on_broadcast;
    CHECK_REFUSED(PAMI_AMCollective_dispatch_set(NULL, listed.algorithm[0], 1, fn, NULL, hints),
                  PAMI_INVAL, "context");
    CHECK_REFUSED(
        PAMI_AMCollective_dispatch_set(job.context[0], PAMI_ALGORITHM_NULL, 1, fn, NULL, hints),
        PAMI_INVAL, "algorithm");
}

int main(void)
{
    static const struct {
        pami_xfer_type_t type;
        operation *begin;
        pami_dispatch_callback_function fn;
    } rows[] = {
        {PAMI_XFER_AMBROADCAST, broadcast, {.ambroadcast = on_broadcast}},
        {PAMI_XFER_AMSCATTER, scatter, {.amscatter = on_scatter}},
        {PAMI_XFER_AMGATHER, gather, {.amgather = on_gather}},
        {PAMI_XFER_AMREDUCE, reduce, {.amreduce = on_reduce}},
    };

    job_start(&job, "am-collectives", 1);
    CHECK_OK(PAMI_Geometry_world(job.client, &world));
    CHECK_OK(PAMI_Type_create(&pairs));
    CHECK_OK(PAMI_Type_add_simple(pairs, 2, 0, 1, 2));
    CHECK_OK(PAMI_Type_complete(pairs, 2));
    /* One table for all types: an id set through one algorithm is set for all of them, and setting
     * it again replaces the function. */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        set(rows[(i + 1) % 4].type, ID_ONE, rows[i].fn);
        job_barrier(&job);
        all_of(rows[i].begin, rows[i].type, ID_ONE);
    }
    set(PAMI_XFER_AMREDUCE, ID_LARGE, (pami_dispatch_callback_function){.amreduce = on_compose});
    job_barrier(&job);
    all_of(reduce, PAMI_XFER_AMREDUCE, ID_LARGE);
    hold_until_set();
    refuse();
    CHECK_OK(PAMI_Type_create(&incomplete));
    for (int i = 0; i < 2; i++) {
        void *cookie = i == 0 ? NULL : &job;

        contribute_nothing(PAMI_XFER_AMGATHER,
                           (pami_dispatch_callback_function){.amgather = on_bad_gather}, cookie);
        contribute_nothing(PAMI_XFER_AMREDUCE,
                           (pami_dispatch_callback_function){.amreduce = on_bad_reduce}, cookie);
    }
    CHECK_OK(PAMI_Type_destroy(&pairs));
    CHECK_OK(PAMI_Type_destroy(&incomplete));
    job_finish(&job);
    return 0;
}
