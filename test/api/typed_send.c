/*
 * PAMI_Send_typed from every layout into every layout, at offsets that cut pieces and in lengths
 * that repeat the type many times; the gaps of the receiver stay untouched, and both types may be
 * destroyed as soon as they have been given to the library. So may little data of which nobody is
 * told. Many that are little wait for room without losing what they hold.
 *
 * Run: tasks=1,2,3
 * Run: tasks=2 nodes=2
 * Run: tasks=1,2 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=0"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=0 PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=1G"
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 */
#include "shapes.h"

enum {
    ID = 1,
    MANY_ID = 2,
    MANY = 500, /* more than an inbox has room for */
    GUARD = 64,
    COPIED_BYTES = 512 /* at the call, when nobody is told */
};

struct request { /* the header: into which shape to receive */
    size_t shape, offset, number;
};

static struct job job;
static unsigned char *room;
static pami_type_t received;
static size_t room_bytes, landed, dispatched, local, remote, recv_max;

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    landed++;
}

static void on_local(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS && local == remote);
    local++;
}

static void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS && local == remote + 1);
    remote++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    struct request request;
    const struct shape *shape;
    pami_type_t type;

    (void)context, (void)origin;
    CHECK_CALLBACK();
    CHECK_SIZE(header_bytes, sizeof request);
    memcpy(&request, header, sizeof request);
    shape = &shapes[request.shape];
    CHECK((recv == NULL) == (header_bytes + bytes <= recv_max || bytes == 0));
    dispatched++;
    room_bytes = shape_room(shape, request.offset + bytes) + 2 * GUARD;
    room = test_alloc(room_bytes);
    memset(room, 0xcd, room_bytes);
    type = shape_type(shape);
    if (recv == NULL) {
        CHECK_OK(PAMI_Type_transform_data((void *)data, PAMI_TYPE_BYTE, 0, room + GUARD, type,
                                          request.offset, bytes, PAMI_DATA_COPY, NULL));
        landed++;
    } else {
        recv->addr = room + GUARD;
        recv->type = type;
        recv->offset = request.offset;
        recv->local_fn = on_landed;
    }
    CHECK(cookie == &job);
    received = type; /* destroyed after the dispatch */
}

static void verify(const struct request *request, size_t bytes)
{
    unsigned char *model = test_alloc(room_bytes);
    size_t x;

    memset(model, 0xcd, room_bytes);
    for (x = 0; x < bytes; x++)
        model[GUARD + shape_at(&shapes[request->shape], request->offset + x)] =
            test_byte(request->number, x);
    for (x = 0; x < room_bytes; x++)
        if (model[x] != room[x])
            FAIL("%zu bytes into \"%s\" at %zu: wrong at %ld", bytes, shapes[request->shape].name,
                 request->offset, (long)x - GUARD);
    free(model);
    free(room);
    room = NULL;
}

/* All tasks do the same, each with its successor. */
static void one(const struct shape *from, size_t from_offset, size_t to, size_t to_offset,
                size_t bytes)
{
    static size_t number, silent;
    struct request request = {to, to_offset, ++number};
    bool unheard = bytes <= COPIED_BYTES && number % 3 == 0;
    size_t x, source_bytes = shape_room(from, from_offset + bytes);
    unsigned char *source = test_alloc(source_bytes);
    pami_type_t type = shape_type(from);
    pami_send_typed_t send = {.events = {&job, on_local, on_remote}};

    memset(source, 0x3c, source_bytes);
    for (x = 0; x < bytes; x++)
        source[shape_at(from, from_offset + x)] = test_byte(number, x);
    send.send = test_message(job_endpoint(&job, (job.task + 1) % job.tasks, 0), ID, &request,
                             sizeof request, bytes == 0 ? NULL : source, bytes);
    send.typed.type = type;
    send.typed.offset = from_offset;
    if (number % 2)
        send.typed.data_fn = PAMI_DATA_COPY;
    if (unheard)
        send.events = (pami_send_event_t){.cookie = &job};
    CHECK_OK(TEST_CALL(PAMI_Send_typed(job.context[0], &send)));
    if (unheard) {
        silent++;
        memset(source, 0x11, source_bytes);
    }
    memset(&send, 0x5a, sizeof send);
    CHECK_OK(PAMI_Type_destroy(&type)); /* transfers under way hold on to it */
    WAIT(&job, dispatched == number);
    CHECK_OK(PAMI_Type_destroy(&received));
    WAIT(&job, landed == number && remote + silent == number);
    CHECK(local == remote);
    verify(&request, bytes);
    free(source);
    job_barrier(&job);
}

/* ---- many: nobody reads meanwhile ---- */

static void on_many(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t number;

    (void)context, (void)cookie, (void)origin;
    CHECK_CALLBACK();
    CHECK(recv == NULL && header_bytes == sizeof number);
    memcpy(&number, header, sizeof number);
    CHECK_SIZE(number, dispatched);
    CHECK_SIZE(bytes, 8 * (1 + number % 40));
    CHECK_SIZE(test_differs(data, bytes, number, 0), bytes);
    dispatched++;
}

static void on_many_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    local++;
}

static void many(void)
{
    const struct shape *shape = &shapes[1];
    pami_type_t type = shape_type(shape);
    size_t x, number, room_of_one = shape_room(shape, 8 * 40);
    unsigned char *sources = test_alloc(MANY * room_of_one);

    dispatched = local = remote = 0;
    job_barrier(&job);
    for (number = 0; number < MANY; number++) {
        unsigned char *source = sources + number * room_of_one;
        size_t bytes = 8 * (1 + number % 40);
        pami_send_typed_t send = {.events = {&job, on_many_sent, NULL}, .typed.type = type};

        for (x = 0; x < bytes; x++)
            source[shape_at(shape, x)] = test_byte(number, x);
        send.send = test_message(job_endpoint(&job, (job.task + 1) % job.tasks, 0), MANY_ID,
                                 &number, sizeof number, source, bytes);
        CHECK_OK(TEST_CALL(PAMI_Send_typed(job.context[0], &send)));
    }
    CHECK_OK(PAMI_Type_destroy(&type));
    WAIT(&job, dispatched == MANY && local == MANY);
    free(sources);
    job_barrier(&job);
}

int main(void)
{
    static const size_t sizes[] = {0, 8, 104, 472, 496, 5000, 32768, 33000, 120000};
    size_t from, to, i;

    job_start(&job, "typed_send", 1);
    test_dispatch(job.context[0], ID, on_message, &job, test_ordered());
    test_dispatch(job.context[0], MANY_ID, on_many, &job, test_ordered());
    recv_max = dispatch_attribute(job.context[0], ID, PAMI_DISPATCH_RECV_IMMEDIATE_MAX);
    for (from = 0; from < SHAPES; from++)
        for (to = 0; to < SHAPES; to++)
            one(&shapes[from], 0, to, 0, sizes[(from + 3 * to) % 9]);
    for (i = 0; i < 9; i++) {
        for (from = 0; from < SHAPES; from++) {
            one(&shapes[from], 5, (from + i) % SHAPES, 0, sizes[i]);
            one(&shapes[from], 1000, (from + i) % SHAPES, 13, sizes[i]);
            one(&shapes[0], 0, from, 24 * i, sizes[i]);
        }
    }
    many();
    job_finish(&job);
    return 0;
}
