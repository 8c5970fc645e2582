/*
 * A task of the host that writes nonsense into the shared segment: well-formed slots with hostile
 * contents, noise over everything that a context has there, and noise while the context works.
 * Calls return, nothing outside of the segment is touched, other contexts do not notice.
 *
 * Run: args="--seed 1" timeout=60
 * Run: args="--seed 2" timeout=60
 */
#include <pthread.h>

#include "device/shm/shm.h"
#include "fuzz/packet_target.h"

#define SECONDS_EACH 1.0
/* Another task takes no longer than this to notice that nothing can be sent. */
#define CALL_SECONDS 5.0

static struct shm_port *port_of(size_t context)
{
    return container_of(target.context[context]->ports[0], struct shm_port, port);
}

static const struct segment *segment_of(size_t context)
{
    return port_of(context)->device->segment;
}

/* Calls that have to come back, whatever they find. */
static void use_context(void)
{
    static unsigned char data[40000];
    double start = test_now();

    for (int i = 0; i < 20; i++) {
        size_t bytes = below(one_in(3) ? sizeof data : 200);
        pami_send_t message = {
            .send = {.data = {.iov_base = data, .iov_len = bytes}, .dispatch = ID_TAKE},
            .events = {.local_fn = on_event, .remote_fn = on_event},
        };

        message.send.dest = target.context[0]->endpoint;
        PAMI_Send(target.handle[below(2)], &message);
        PAMI_Context_advance(target.handle[0], 1 + below(3));
        PAMI_Context_advance(target.handle[1], 1);
    }
    check(test_now() - start < CALL_SECONDS, "calls take too long");
}

/* ---- slots as a task of the host would write them ---- */

static uint64_t random_chunk(void)
{
    const struct segment *segment = segment_of(0);
    /* Of a context that does not exist: what is released early there hurts nobody. */
    char *chunk = (char *)segment_chunk(segment, segment->self, 3, (uint32_t)below(8));

    switch (below(6)) {
    case 0:
        return next();
    case 1:
        return segment->layout.bytes - below(100000);
    case 2:
        return below(100000);
    case 3:
        return (uint64_t)(chunk - segment->base) + below(64);
    case 4:
        return below((size_t)segment->layout.bytes) / 64 * 64;
    default:
        return (uint64_t)(chunk - segment->base);
    }
}

static void hostile_slot(struct inbox_sender *sender)
{
    struct slot *slot = inbox_claim(sender);
    struct packet_header head = {
        .protocol = (uint8_t)(one_in(10) ? next() : below(PROTOCOL_COUNT)),
        .meta_words = (uint8_t)(one_in(10) ? next() : below(4)),
        .dispatch = (uint16_t)(one_in(10) ? next() : below(IDS)),
        .header_bytes = (uint16_t)(one_in(10) ? next() : below(60)),
        .payload_bytes = (uint16_t)(one_in(4) ? next() : below(60)),
        .origin = endpoint_make(0, (uint32_t)below(4)),
        .aux = (uint32_t)(one_in(2) ? next() : below(300)),
    };

    if (slot == NULL)
        return;
    slot->head = head;
    if (!one_in(10)) /* for this context, not for one before it */
        slot->head.words[1] |= port_of(0)->life;
    for (size_t i = 0; i < sizeof slot->body; i++)
        slot->body[i] = (char)next();
    if (packet_body_bytes(&head) > SLOT_INLINE)
        slot->chunk = random_chunk();
    inbox_publish(sender, slot);
}

static void hostile_slots(void)
{
    double end = test_now() + SECONDS_EACH;
    unsigned long rounds = 0;
    uint64_t refused = 0;

    target_open();
    while (test_now() < end) {
        struct inbox_sender sender = {
            .inbox = port_of(0)->reader.inbox,
            .slots = port_of(0)->reader.slots,
            .self = segment_of(0)->self,
        };

        for (int i = 0; i < 100; i++)
            hostile_slot(&sender);
        use_context();
        clean_message();
        refused += refused_so_far() != 0;
        if (++rounds % 10 == 0) {
            target_close_contexts();
            target_open_contexts();
        }
    }
    check(rounds > 10, "too slow to be worth it");
    check(refused > rounds / 2, "nothing is refused");
    printf("%lu rounds of hostile slots\n", rounds);
    target_close();
}

/* A slot that names memory which is no chunk is dropped, and counted. */
static void wrong_chunks(void)
{
    struct packet_header head = {.dispatch = ID_TAKE, .payload_bytes = 4000};
    const struct segment *segment = (target_open(), segment_of(0));
    uint64_t chunk = (uint64_t)((char *)segment_chunk(segment, 0, 0, 3) - segment->base);
    uint64_t chunks = (uint64_t)((char *)segment_chunk(segment, 0, 0, 0) - segment->base);
    uint64_t beyond =
        (uint64_t)((char *)segment_chunk(segment, segment->layout.members, 0, 0) - segment->base);
    uint64_t last = beyond < segment->layout.bytes
                        ? (segment->layout.bytes - 1 - beyond) / segment->layout.chunk_stride
                        : 0;
    const uint64_t wrong[] = {
        0,
        1,
        64,
        SEGMENT_PAGE,
        2 * SEGMENT_PAGE,
        chunk + 1,
        chunk + 64,
        chunks - 64,
        chunks + segment->layout.chunks * segment->layout.chunk_stride,
        segment->layout.bytes - segment->layout.chunk_stride + 64,
        beyond,
        beyond + last * segment->layout.chunk_stride, /* begins within what is mapped */
        segment->layout.bytes,
        segment->layout.bytes + chunk,
        (uint64_t)1 << 63,
        UINT64_MAX - 63,
        UINT64_MAX,
    };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint64_t before = target.context[0]->counters[DEVICE_DROPPED];
        struct inbox_sender sender = {
            .inbox = port_of(0)->reader.inbox,
            .slots = port_of(0)->reader.slots,
        };
        struct slot *slot = inbox_claim(&sender);

        check(slot != NULL, "no slot");
        slot->head = head;
        slot->chunk = wrong[i];
        inbox_publish(&sender, slot);
        PAMI_Context_advance(target.handle[0], 1);
        check(target.context[0]->counters[DEVICE_DROPPED] == before + 1, "not counted as dropped");
    }
    target_close();
}

/* ---- noise ---- */

static uint64_t noise_word(uint64_t old)
{
    switch (below(5)) {
    case 0:
        return next();
    case 1:
        return old + below(5) - 2;
    case 2:
        return old ^ (uint64_t)1 << below(64);
    case 3:
        return 0;
    default:
        return next() >> below(64);
    }
}

/* Some words of context 0's part of the segment, most of them where the control is. */
static void noise(size_t words)
{
    const struct segment *segment = segment_of(0);
    char *base = segment_context(segment, segment->self, 0);

    while (words-- > 0) {
        uint64_t where = below(one_in(2) ? sizeof(struct inbox) + 4 * SLOT_BYTES
                                         : (size_t)segment->layout.chunk_offset);
        _Atomic uint64_t *word;

        if (one_in(20))
            where = segment->layout.chunk_offset +
                    below(segment->layout.chunks) * segment->layout.chunk_stride;
        word = (_Atomic uint64_t *)(void *)(base + where / 8 * 8);
        atomic_store_explicit(word, noise_word(atomic_load_explicit(word, memory_order_relaxed)),
                              memory_order_relaxed);
    }
}

static void noisy_rounds(void)
{
    double end = test_now() + SECONDS_EACH;
    unsigned long rounds = 0;

    for (; test_now() < end; rounds++) {
        target_open();
        use_context();
        noise(1 + below(one_in(4) ? 3000 : 10));
        use_context();
        clean_message();
        target_close();
    }
    printf("%lu rounds of noise\n", rounds);
}

#ifndef __SANITIZE_THREAD__

static atomic_bool over;

static void *make_noise(void *argument)
{
    random_state = (uint64_t)(uintptr_t)argument;
    while (!atomic_load(&over))
        noise(1);
    return NULL;
}

/* What was checked may change before it is used. */
static void noise_meanwhile(void)
{
    double end = test_now() + SECONDS_EACH;
    unsigned long rounds = 0;

    for (; test_now() < end; rounds++) {
        pthread_t thread;

        target_open();
        use_context();
        atomic_store(&over, false);
        check(pthread_create(&thread, NULL, make_noise, (void *)(uintptr_t)next()) == 0,
              "no thread");
        for (int i = 0; i < 5; i++)
            use_context();
        atomic_store(&over, true);
        pthread_join(thread, NULL);
        clean_message();
        target_close();
    }
    printf("%lu rounds with noise going on\n", rounds);
}

#endif

int main(int argc, char **argv)
{
    random_state = 1234;
    if (argc == 3 && strcmp(argv[1], "--seed") == 0)
        random_state += strtoull(argv[2], NULL, 10) << 32;
    alarm(50); /* a hang is an end by signal */
    wrong_chunks();
    hostile_slots();
    noisy_rounds();
#ifndef __SANITIZE_THREAD__
    noise_meanwhile();
#endif
    return 0;
}
