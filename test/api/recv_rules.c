/*
 * What a dispatch function may ask for: an offset, nothing at all, no copy, another type, the same
 * few bytes over and over; what it leaves out; what it must not see. Bytes around and between the
 * places asked for stay as they are.
 *
 * Run: tasks=1,2,3
 * Run: tasks=4 nodes=2
 * Run: tasks=1,2 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=0"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=0 PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=1G"
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 */
#include "api_test.h"

enum {
    ID = 1,
    NEVER_ID = 2, /* recv_immediate = DISABLE */
    OFFSET = 1000,
    LARGEST = 300000,
    ROOM = 2 * LARGEST + 4 * OFFSET
};

enum how {
    PLAIN,
    AT_OFFSET,
    NOWHERE,      /* addr NULL */
    NOT_TOUCHED,  /* data_fn NOOP */
    LEFT_ALONE,   /* recv as it came */
    OTHER_TYPE,   /* contiguous pieces of another predefined type, at an offset */
    STRIDED,      /* 8 of every 24 bytes */
    RING,         /* the same 64 bytes again and again */
    INCOMPLETE,   /* a type that cannot be used: the message is dropped */
    NULL_DATA_FN, /* means a copy */
    ZEROED,       /* with no type either */
    HOWS
};

static struct job job;
static unsigned char room[ROOM];
static pami_type_t strided, ring, incomplete;
static enum how how_now;
static size_t bytes_now, dispatched, landed;
static pami_result_t landed_result;

static const size_t sizes[] = {520, 1000, 5000, 16384, 32768, 32776, 100000, LARGEST};

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    CHECK_CALLBACK();
    CHECK(context == job.context[0] && cookie == &room);
    landed++;
    landed_result = result;
}

static void ask(pami_recv_t *recv)
{
    recv->cookie = &room;
    recv->local_fn = on_landed;
    recv->addr = room + OFFSET;
    switch (how_now) {
    case AT_OFFSET:
        recv->offset = 24;
        break;
    case NOWHERE:
        recv->addr = NULL;
        break;
    case NOT_TOUCHED:
        recv->data_fn = PAMI_DATA_NOOP;
        break;
    case OTHER_TYPE:
        recv->type = PAMI_TYPE_DOUBLE;
        recv->offset = 24;
        recv->data_fn = PAMI_DATA_COPY;
        break;
    case STRIDED:
        recv->type = strided;
        recv->offset = 12; /* in the middle of the second piece */
        break;
    case RING:
        recv->type = ring;
        break;
    case INCOMPLETE:
        recv->type = incomplete;
        break;
    case NULL_DATA_FN:
        recv->data_fn = NULL;
        recv->data_cookie = (void *)1L;
        break;
    case ZEROED:
        memset(recv, 0, sizeof *recv);
        recv->cookie = &room;
        recv->local_fn = on_landed;
        recv->addr = room + OFFSET;
        break;
    default:
        break;
    }
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    CHECK_CALLBACK();
    (void)cookie, (void)header, (void)header_bytes;
    CHECK(context == job.context[0] && recv != NULL && data == NULL);
    CHECK_SIZE(bytes, bytes_now);
    CHECK(test_origin(origin) == (job.task + job.tasks - 1) % job.tasks);
    CHECK(recv->cookie == NULL && recv->local_fn == NULL && recv->addr == NULL);
    CHECK(recv->type == PAMI_TYPE_BYTE && recv->offset == 0 && recv->data_cookie == NULL);
    dispatched++;
    if (how_now != LEFT_ALONE)
        ask(recv);
}

/* What the room must look like: byte x of the message goes where the model says. */
static void verify(void)
{
    unsigned char *model = test_alloc(ROOM), *at = model + OFFSET;
    size_t x;

    memset(model, 0xcd, ROOM);
    for (x = 0; x < bytes_now; x++) {
        unsigned char byte = test_byte(1, x);

        switch (how_now) {
        case PLAIN:
        case NULL_DATA_FN:
        case ZEROED:
            at[x] = byte;
            break;
        case AT_OFFSET:
        case OTHER_TYPE:
            at[24 + x] = byte;
            break;
        case STRIDED:
            at[(12 + x) / 8 * 24 + (12 + x) % 8] = byte;
            break;
        case RING:
            at[x % 64] = byte;
            break;
        default:
            break;
        }
    }
    for (x = 0; x < ROOM; x++)
        if (model[x] != room[x])
            FAIL("way %d, %zu bytes: room is wrong at %ld", (int)how_now, bytes_now,
                 (long)x - OFFSET);
    free(model);
}

static void one(size_t id, enum how how, size_t bytes)
{
    static unsigned char source[LARGEST];
    size_t before_dispatch = dispatched, before_landed = landed;
    pami_send_event_t events = {0};

    if (how == STRIDED && bytes > 100000)
        bytes = 100000; /* what the room holds */
    how_now = how;
    bytes_now = bytes;
    memset(room, 0xcd, sizeof room);
    test_fill(source, bytes, 1, 0);
    job_barrier(&job);
    test_send(job.context[0], job_endpoint(&job, (job.task + 1) % job.tasks, 0), id, "h", 1, source,
              bytes, events);
    WAIT(&job, dispatched == before_dispatch + 1);
    if (how != LEFT_ALONE) {
        WAIT(&job, landed == before_landed + 1);
        CHECK(landed_result == (how == INCOMPLETE ? PAMI_INVAL : PAMI_SUCCESS));
        verify();
    }
    job_barrier(&job);
    if (how == LEFT_ALONE)
        verify();
}

/* A message without data that must not be immediate: local_fn in the same advance. */
static void no_data(void)
{
    size_t before = landed;

    how_now = PLAIN;
    bytes_now = 0;
    memset(room, 0xcd, sizeof room);
    job_barrier(&job);
    test_send_immediate(job.context[0], job_endpoint(&job, (job.task + 1) % job.tasks, 0), NEVER_ID,
                        "h", 1, NULL, 0);
    WAIT(&job, dispatched == before + 1);
    CHECK_SIZE(landed, before + 1);
    verify();
    job_barrier(&job);
}

int main(void)
{
    pami_dispatch_hint_t never = {.recv_immediate = PAMI_HINT_DISABLE,
                                  .consistency = PAMI_HINT_ENABLE};
    enum how how;
    size_t i;

    CHECK_OK(PAMI_Type_create(&strided));
    CHECK_OK(PAMI_Type_add_simple(strided, 8, 0, 2, 24));
    CHECK_OK(PAMI_Type_complete(strided, 1));
    CHECK_OK(PAMI_Type_create(&ring));
    CHECK_OK(PAMI_Type_add_simple(ring, 64, 0, 1, 0));
    CHECK_OK(PAMI_Type_complete(ring, 1));
    CHECK_OK(PAMI_Type_create(&incomplete));
    CHECK_OK(PAMI_Type_add_simple(incomplete, 64, 0, 1, 64));

    job_start(&job, "recv_rules", 1);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    test_dispatch(job.context[0], NEVER_ID, on_message, NULL, never);
    no_data();
    for (how = PLAIN; how < HOWS; how++) {
        if (how != LEFT_ALONE) {
            one(NEVER_ID, how, 8);
            one(NEVER_ID, how, 200);
        }
        for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            one(ID, how, sizes[i]);
        if (how == LEFT_ALONE)
            landed = dispatched;
    }
    CHECK_OK(PAMI_Type_destroy(&strided));
    CHECK_OK(PAMI_Type_destroy(&ring));
    CHECK_OK(PAMI_Type_destroy(&incomplete));
    job_finish(&job);
    return 0;
}
