/*
 * Data functions of point-to-point messages: the user's own at the sender and at the receiver, with
 * their cookies and whole atoms only, at addresses that suit these whatever the header's length is;
 * the predefined reductions into typed receive buffers, also of types that come to the same place
 * again; what does not fit together is refused.
 *
 * Run: tasks=1,2
 * Run: tasks=2 nodes=2
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=0"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=0 PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=1G"
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 env="PAMI_SHM_CHUNK_BYTES=1K PAMI_RNDV_BYTES=1G"
 */
#include "api_test.h"

#include <limits.h>
#include <stddef.h>

enum {
    ID = 1,
    COUNT = 20001, /* elements of a reduction, at most */
    ATOM = 24
};

/* How the next message shall be received. */
struct wish {
    void *addr;
    pami_type_t type;
    size_t offset;
    pami_data_function data_fn;
    void *data_cookie;
};

struct tally { /* of a user's function */
    size_t bytes, calls;
    unsigned char *low, *high; /* its user memory */
};

static struct job job;
static struct wish wish;
static size_t landed;
static pami_result_t landed_result;
static bool remote;

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    landed_result = result;
    landed++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin;
    CHECK_CALLBACK();
    CHECK(recv != NULL);
    recv->local_fn = on_landed;
    recv->addr = wish.addr;
    recv->type = wish.type;
    recv->offset = wish.offset;
    recv->data_fn = wish.data_fn;
    recv->data_cookie = wish.data_cookie;
}

static void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
    CHECK_CALLBACK();
    CHECK(!remote);
    remote = true;
}

/* To the next task and into `wish` there; the result of the receive. */
static pami_result_t transfer(const void *source, pami_type_t type, size_t offset, size_t bytes,
                              pami_data_function data_fn, void *data_cookie)
{
    pami_send_typed_t send = {.events = {.remote_fn = on_remote}};
    size_t before = landed;

    job_barrier(&job);
    remote = false;
    send.send = test_message(job_endpoint(&job, (job.task + 1) % job.tasks, 0), ID, "odd", 3,
                             source, bytes);
    send.typed.type = type;
    send.typed.offset = offset;
    send.typed.data_fn = data_fn;
    send.typed.data_cookie = data_cookie;
    CHECK_OK(TEST_CALL(PAMI_Send_typed(job.context[0], &send)));
    WAIT(&job, landed == before + 1 && remote);
    job_barrier(&job);
    return landed_result;
}

static void note(struct tally *tally, unsigned char *memory, const void *stream, size_t bytes)
{
    CHECK((uintptr_t)stream % 8 == 0); /* as the atom's size allows */
    CHECK(bytes != 0 && bytes % ATOM == 0 && tally != NULL);
    CHECK(memory >= tally->low && memory + bytes <= tally->high);
    tally->bytes += bytes;
    tally->calls++;
}

/* At the sender: target is the packed stream, source the user's memory. */
static void pack_inverted(void *target, void *source, size_t bytes, void *cookie)
{
    unsigned char *to = target, *from = source;
    size_t i;

    note(cookie, from, to, bytes);
    for (i = 0; i < bytes; i++)
        to[i] = (unsigned char)~from[i];
}

/* At the receiver: target is the user's memory, source the stream. */
static void unpack_added(void *target, void *source, size_t bytes, void *cookie)
{
    unsigned char *to = target, *from = source;
    size_t i;

    note(cookie, to, from, bytes);
    for (i = 0; i < bytes; i++)
        to[i] = (unsigned char)(to[i] + from[i]);
}

/* Two atoms and a gap, two instances shown: AA..AA..  */
static pami_type_t two_atoms(void)
{
    pami_type_t type;

    CHECK_OK(PAMI_Type_create(&type));
    CHECK_OK(PAMI_Type_add_simple(type, 2 * ATOM, 0, 1, 80));
    CHECK_OK(PAMI_Type_complete(type, ATOM));
    return type;
}

static void own_functions(size_t atoms, bool sender_gaps, bool receiver_gaps)
{
    size_t bytes = atoms * ATOM, room = atoms * 40 + 200, i;
    unsigned char *source = test_alloc(room), *target = test_alloc(room);
    struct tally packed = {0, 0, source, source + room}, unpacked = {0, 0, target, target + room};
    pami_type_t gaps = two_atoms(), dense;

    CHECK_OK(PAMI_Type_create(&dense));
    CHECK_OK(PAMI_Type_add_simple(dense, ATOM, 0, 1, ATOM));
    CHECK_OK(PAMI_Type_complete(dense, ATOM));
    for (i = 0; i < room; i++)
        source[i] = 7;
    for (i = 0; i < bytes; i++)
        source[sender_gaps ? i / 48 * 80 + i % 48 : i] = test_byte(5, i);
    memset(target, 100, room);
    wish = (struct wish){target, receiver_gaps ? gaps : dense, 0, unpack_added, &unpacked};
    CHECK_OK(transfer(source, sender_gaps ? gaps : dense, 0, bytes, pack_inverted, &packed));
    CHECK_SIZE(packed.bytes, bytes);
    CHECK_SIZE(unpacked.bytes, bytes);
    for (i = 0; i < bytes; i++)
        CHECK(target[receiver_gaps ? i / 48 * 80 + i % 48 : i] ==
              (unsigned char)(100 + (unsigned char)~test_byte(5, i)));
    for (i = 48; receiver_gaps && i < 80; i++)
        CHECK(target[i] == 100);
    CHECK_OK(PAMI_Type_destroy(&gaps));
    CHECK_OK(PAMI_Type_destroy(&dense));
    free(source), free(target);
}

/* Every other element of the target, starting at the third; gaps must not change. */
#define REDUCE(NAME, TYPE, KIND, OP, RESULT)                                                       \
    static void NAME(size_t count)                                                                 \
    {                                                                                              \
        static TYPE source[COUNT], target[2 * COUNT + 8];                                          \
        pami_type_t type;                                                                          \
        size_t i;                                                                                  \
                                                                                                   \
        for (i = 0; i < count; i++)                                                                \
            source[i] = (TYPE)(i * 7 % 13 + 1);                                                    \
        for (i = 0; i < 2 * COUNT + 8; i++)                                                        \
            target[i] = (TYPE)(i % 11 + 1);                                                        \
        CHECK_OK(PAMI_Type_create(&type));                                                         \
        CHECK_OK(PAMI_Type_add_typed(type, KIND, 0, 1, 2 * sizeof(TYPE)));                         \
        CHECK_OK(PAMI_Type_complete(type, sizeof(TYPE)));                                          \
        wish = (struct wish){target, type, 3 * sizeof(TYPE), OP, NULL};                            \
        CHECK_OK(transfer(source, PAMI_TYPE_BYTE, 0, count * sizeof(TYPE), NULL, NULL));           \
        for (i = 0; i < 2 * COUNT + 8; i++) {                                                      \
            size_t e = i / 2 - 3;                                                                  \
            TYPE t = (TYPE)(i % 11 + 1), expected = t;                                             \
                                                                                                   \
            if (i % 2 == 0 && e < count) {                                                         \
                TYPE s = (TYPE)(e * 7 % 13 + 1);                                                   \
                expected = (TYPE)(RESULT);                                                         \
            }                                                                                      \
            if (target[i] != expected)                                                             \
                FAIL(#OP " of " #KIND ", %zu elements: wrong at %zu", count, i);                   \
        }                                                                                          \
        CHECK_OK(PAMI_Type_destroy(&type));                                                        \
    }

REDUCE(sum_double, double, PAMI_TYPE_DOUBLE, PAMI_DATA_SUM, t + s)
REDUCE(prod_float, float, PAMI_TYPE_FLOAT, PAMI_DATA_PROD, t *s)
REDUCE(max_int, int, PAMI_TYPE_SIGNED_INT, PAMI_DATA_MAX, t > s ? t : s)
REDUCE(min_short, short, PAMI_TYPE_SIGNED_SHORT, PAMI_DATA_MIN, t < s ? t : s)
REDUCE(sum_byte, unsigned char, PAMI_TYPE_BYTE, PAMI_DATA_SUM, t + s)
REDUCE(bxor_long, unsigned long, PAMI_TYPE_UNSIGNED_LONG, PAMI_DATA_BXOR, t ^ s)
REDUCE(band_int, unsigned, PAMI_TYPE_UNSIGNED_INT, PAMI_DATA_BAND, t &s)
REDUCE(bor_char, unsigned char, PAMI_TYPE_UNSIGNED_CHAR, PAMI_DATA_BOR, t | s)
REDUCE(land_logical, uint32_t, PAMI_TYPE_LOGICAL4, PAMI_DATA_LAND, t &&s)
REDUCE(sum_long_double, long double, PAMI_TYPE_LONG_DOUBLE, PAMI_DATA_SUM, t + s)

static void maxloc(size_t count)
{
    struct pair {
        double value;
        int index;
    };
    static struct pair source[COUNT], target[COUNT];
    size_t i;

    for (i = 0; i < count; i++) {
        source[i] = (struct pair){(double)(i % 3), (int)i};
        target[i] = (struct pair){1.0, (int)(i / 2 + 1)};
    }
    wish = (struct wish){target, PAMI_TYPE_LOC_DOUBLE_INT, 0, PAMI_DATA_MAXLOC, NULL};
    CHECK_OK(transfer(source, PAMI_TYPE_LOC_DOUBLE_INT, 0, count * sizeof source[0], NULL, NULL));
    for (i = 0; i < count; i++) {
        int kept = (int)(i / 2 + 1), least = kept < (int)i ? kept : (int)i;

        CHECK(target[i].value == (i % 3 == 2 ? 2.0 : 1.0));
        CHECK(target[i].index == (i % 3 == 0 ? kept : i % 3 == 2 ? (int)i : least));
    }
}

/* Windows of two elements, each an element further on: inner elements get two of the source. */
static void windows(size_t count)
{
    static long source[COUNT], target[COUNT];
    pami_type_t place, window;
    size_t i;

    CHECK_OK(PAMI_Type_create(&place));
    CHECK_OK(PAMI_Type_add_typed(place, PAMI_TYPE_SIGNED_LONG, 0, 1, 0));
    CHECK_OK(PAMI_Type_complete(place, sizeof(long)));
    CHECK_OK(PAMI_Type_create(&window));
    CHECK_OK(PAMI_Type_add_typed(window, PAMI_TYPE_SIGNED_LONG, 0, 2, sizeof(long)));
    CHECK_OK(PAMI_Type_add_simple(window, 0, (size_t) - (ptrdiff_t)sizeof(long), 1, 0));
    CHECK_OK(PAMI_Type_complete(window, sizeof(long)));
    count -= count % 2;
    for (i = 0; i < count; i++)
        source[i] = (long)i + 1;
    memset(target, 0, sizeof target);
    wish = (struct wish){target, window, 0, PAMI_DATA_SUM, NULL};
    CHECK_OK(transfer(source, PAMI_TYPE_BYTE, 0, count * sizeof(long), NULL, NULL));
    CHECK(target[0] == 1 && target[count / 2] == (long)count && target[count / 2 + 1] == 0);
    for (i = 1; i < count / 2; i++)
        CHECK(target[i] == source[2 * i - 1] + source[2 * i]);
    /* A type that does not move: everything comes together. */
    target[1] = 1;
    wish = (struct wish){target + 1, place, 0, PAMI_DATA_SUM, NULL};
    CHECK_OK(transfer(source, PAMI_TYPE_BYTE, 0, count * sizeof(long), NULL, NULL));
    CHECK(target[1] == 1 + (long)(count * (count + 1) / 2));
    CHECK(target[0] == 1 && target[2] == source[3] + source[4]);
    CHECK_OK(PAMI_Type_destroy(&place));
    CHECK_OK(PAMI_Type_destroy(&window));
}

/* The receive completes with INVAL, the buffer stays as it is, the sender hears of it. */
static void misfits(void)
{
    static unsigned char source[40000], target[40000];
    pami_type_t gaps = two_atoms();
    const struct {
        pami_type_t type;
        pami_data_function op;
    } pairs[] = {{gaps, PAMI_DATA_SUM},
                 {PAMI_TYPE_DOUBLE, PAMI_DATA_BXOR},
                 {PAMI_TYPE_DOUBLE_COMPLEX, PAMI_DATA_MAX},
                 {PAMI_TYPE_LOC_2INT, PAMI_DATA_SUM},
                 {PAMI_TYPE_SIGNED_INT, PAMI_DATA_MAXLOC}};
    size_t i;

    for (i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        memset(target, 0x42, sizeof target);
        wish = (struct wish){target, pairs[i].type, 0, pairs[i].op, NULL};
        CHECK_RESULT(transfer(source, PAMI_TYPE_BYTE, 0, i % 2 ? 960 : 39984, NULL, NULL),
                     PAMI_INVAL);
        CHECK(test_all(target, sizeof target, 0x42));
    }
    CHECK_OK(PAMI_Type_destroy(&gaps));
}

static void refused_types(void)
{
    static char data[1000];
    pami_send_typed_t send = {.events = {.remote_fn = on_remote}};
    pami_type_t incomplete, empty;
    pami_type_t wrong[3];
    size_t i;

    CHECK_OK(PAMI_Type_create(&incomplete));
    CHECK_OK(PAMI_Type_add_simple(incomplete, 8, 0, 1, 8));
    CHECK_OK(PAMI_Type_create(&empty));
    CHECK_OK(PAMI_Type_complete(empty, 1));
    wrong[0] = incomplete, wrong[1] = empty, wrong[2] = PAMI_TYPE_NULL;
    remote = false;
    for (i = 0; i < 3; i++) {
        send.send = test_message(job_endpoint(&job, job.task, 0), ID, NULL, 0, data, sizeof data);
        send.typed.type = wrong[i];
        CHECK_REFUSED(PAMI_Send_typed(job.context[0], &send), PAMI_INVAL, "type");
    }
    job_linger(&job, 0.005);
    CHECK(!remote);
    CHECK_OK(PAMI_Type_destroy(&incomplete));
    CHECK_OK(PAMI_Type_destroy(&empty));
}

int main(void)
{
    static const size_t atoms[] = {1, 5, 22, 100, 683, 1366, 5000};
    static const size_t counts[] = {600, 4097, COUNT};
    pami_dispatch_hint_t hints = test_ordered();
    size_t i;

    job_start(&job, "data_fn", 1);
    hints.recv_immediate = PAMI_HINT_DISABLE;
    test_dispatch(job.context[0], ID, on_message, NULL, hints);
    for (i = 0; i < sizeof atoms / sizeof atoms[0]; i++) {
        own_functions(atoms[i], false, false);
        own_functions(atoms[i], true, false);
        own_functions(atoms[i], false, true);
        own_functions(atoms[i], true, true);
    }
    for (i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        sum_double(counts[i]), prod_float(counts[i]), max_int(counts[i]), min_short(counts[i]);
        sum_byte(counts[i]), bxor_long(counts[i]), band_int(counts[i]), bor_char(counts[i]);
        land_logical(counts[i]), sum_long_double(counts[i]), maxloc(counts[i]);
        windows(counts[i]);
    }
    misfits();
    refused_types();
    job_finish(&job);
    return 0;
}
