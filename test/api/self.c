/*
 * One task talks to itself: all message sizes to the same context, and every pair of its contexts,
 * each received in one piece and into a layout with gaps, which stay as they are. The dispatch
 * runs from a later advance of the receiving context and names the sending endpoint.
 *
 * Run:
 * Run: tasks=1,2
 * Run: tasks=2 nodes=2
 * Run: env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: env="PAMI_SHM_SINGLE_COPY=off PAMI_RNDV_BYTES=0"
 * Run: env="PAMI_YIELD=always"
 */
#include "api_test.h"

enum {
    PAIR = 3,
    LARGE = 5000000, /* several steps */
    PIECE = 8        /* of a layout, with a gap as long behind each */
};

struct note {
    size_t from, to, bytes;
    bool gaps;
};

static struct job job;
static pami_type_t layout;
static unsigned char *source;
static size_t arrived, landed, done_local, done_remote;

static const size_t sizes[] = {0, 1, 100, 512, 513, 5000, 8192, 8193, 32769, 65537, LARGE};

static void check_gaps(const unsigned char *memory, const struct note *note)
{
    for (size_t i = 0; i < note->bytes; i++) {
        const unsigned char *place = memory + i / PIECE * 2 * PIECE + i % PIECE;

        CHECK(place[0] == test_byte(note->from, i) && place[PIECE] == 0);
    }
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    unsigned char *block = cookie;
    struct note note;

    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    memcpy(&note, block, sizeof note);
    CHECK(context == job.context[note.to]);
    if (note.gaps)
        check_gaps(block + sizeof note, &note);
    else
        CHECK_SIZE(test_differs(block + sizeof note, note.bytes, note.from, 0), note.bytes);
    landed++;
    free(block);
}

static void on_pair(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct note note;

    CHECK_CALLBACK();
    CHECK(header_bytes == sizeof note && cookie == &source);
    memcpy(&note, header, sizeof note);
    CHECK(context == job.context[note.to] && bytes == note.bytes);
    CHECK(origin == job_endpoint(&job, job.task, note.from));
    arrived++;
    if (recv == NULL) {
        CHECK_SIZE(test_differs(data, bytes, note.from, 0), bytes);
        landed++;
        return;
    }
    if (note.gaps)
        recv->type = layout;
    recv->cookie = memcpy(test_zalloc(sizeof note + 2 * (bytes + PIECE)), &note, sizeof note);
    recv->addr = (unsigned char *)recv->cookie + sizeof note;
    recv->local_fn = on_landed;
}

static void on_local(pami_context_t context, void *cookie, pami_result_t result)
{
    const struct note *note = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[note->from] && result == PAMI_SUCCESS);
    done_local++;
}

static void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    const struct note *note = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[note->from] && result == PAMI_SUCCESS);
    done_remote++;
    CHECK(done_remote <= done_local && done_remote <= landed);
}

static void one_pair(size_t from, size_t to, size_t bytes, bool gaps)
{
    struct note note = {from, to, bytes, gaps};
    size_t before = arrived;
    pami_send_event_t events = {&note, on_local, on_remote};

    test_fill(source, bytes, from, 0);
    test_send(job.context[from], job_endpoint(&job, job.task, to), PAIR, &note, sizeof note, source,
              bytes, events);
    CHECK(arrived == before);
    WAIT(&job, landed == before + 1 && done_remote == before + 1);
}

/* A context makes progress by its own advance alone: others may be advanced as often as one likes.
 * */
static void only_by_itself(void)
{
    size_t i, before = arrived;
    struct note note = {0, 1, 0, false};

    test_send_immediate(job.context[0], job_endpoint(&job, job.task, 1), PAIR, &note, sizeof note,
                        NULL, 0);
    for (i = 0; i < 2000; i++) {
        test_advance(job.context[0], 1);
        CHECK(arrived == before);
    }
    WAIT_WITH(test_advance(job.context[1], 1), arrived == before + 1);
    done_local++, done_remote++; /* count as the others */
}

int main(void)
{
    size_t i, from, to, contexts = 4;

    source = test_alloc(LARGE);
    CHECK_OK(PAMI_Type_create(&layout));
    CHECK_OK(PAMI_Type_add_simple(layout, PIECE, 0, 1, 2 * PIECE));
    CHECK_OK(PAMI_Type_complete(layout, 1));
    job_start(&job, "self", contexts);
    for (i = 0; i < contexts; i++)
        test_dispatch(job.context[i], PAIR, on_pair, &source, test_ordered());
    for (from = 0; from < contexts; from++)
        for (to = 0; to < contexts; to++)
            for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                one_pair(from, to, sizes[i], false);
                one_pair(from, to, sizes[i], true);
            }
    only_by_itself();
    CHECK(done_local == arrived && done_remote == arrived && landed == arrived);
    CHECK_OK(PAMI_Type_destroy(&layout));
    job_finish(&job);
    free(source);
    return 0;
}
