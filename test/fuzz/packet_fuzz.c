/*
 * Random and forged packets for the protocols of a context. Whatever a packet says, it is either a
 * message or refused and counted: no crash, no access outside of its body, no leak, no hang, and
 * nothing happens to others.
 *
 * Packets go in where a device delivers them. Their bodies are allocations of exactly the size that
 * the header promises, so that a sanitizer sees a read too far.
 *
 * Compiled with -DFUZZ_LIBFUZZER it is an entry for libFuzzer instead (clang -fsanitize=fuzzer).
 *
 * Run: args="--seed 1" timeout=60
 * Run: args="--seed 2" timeout=60
 */
#include "fuzz/packet_target.h"

#define SECONDS_MAX 3.0
#define PACKETS_MAX 2000000ul

static unsigned char readable[1 << 20]; /* what good addresses point into */

static void deliver(const struct packet_header *head, const void *body)
{
    struct port *port = target.context[0]->ports[0];
    uint32_t bytes = packet_body_bytes(head);
    void *exact = malloc(bytes);

    check(exact != NULL, "no memory");
    memcpy(exact, body, bytes);
    port->params.deliver(port->params.context, head, exact);
    free(exact);
}

/* ---- known to be refused ---- */

static void must_refuse(struct packet_header head, const void *meta, const char *what)
{
    static unsigned char body[1 << 18];
    uint64_t before = refused_so_far();

    memset(body, 0, sizeof body);
    if (meta != NULL)
        memcpy(body, meta, packet_meta_bytes(&head));
    deliver(&head, body);
    if (refused_so_far() != before + 1) {
        fprintf(stderr, "not counted as refused: %s\n", what);
        abort();
    }
}

static void refuse_messages(void)
{
    const struct packet_header head = {.protocol = PROTOCOL_MESSAGE,
                                       .meta_words = sizeof(struct message_meta) / 8,
                                       .dispatch = ID_TAKE,
                                       .header_bytes = 8};
    const struct message_meta good = {
        .data_bytes = 5000, .header_bytes = 8, .mode = MESSAGE_STREAM};
    struct message_meta meta;
    struct packet_header other;

    other = head, other.meta_words = 2;
    must_refuse(other, &good, "MESSAGE with a short description");
    other = head, other.meta_words = 255;
    must_refuse(other, NULL, "MESSAGE with a long description");
    other = head, other.dispatch = 4096;
    must_refuse(other, &good, "MESSAGE for an id that cannot be");
    other = head, other.dispatch = 65535;
    must_refuse(other, &good, "MESSAGE for the last id");
    meta = good, meta.mode = MESSAGE_MODES;
    must_refuse(head, &meta, "MESSAGE of an unknown mode");
    meta = good, meta.header_bytes = 7;
    must_refuse(head, &meta, "MESSAGE with more header than announced");
    meta = good, meta.data_bytes = UINT64_MAX;
    must_refuse(head, &meta, "MESSAGE with too much data");
    other = head, other.payload_bytes = 5001;
    must_refuse(other, &good, "MESSAGE with more data than announced");
    other = head, other.payload_bytes = 1;
    meta = good, meta.header_bytes = 9;
    must_refuse(other, &meta, "MESSAGE with data ahead of the header's end");
    meta = good, meta.mode = MESSAGE_PULL;
    must_refuse(head, &meta, "MESSAGE to be pulled that wants no answer");
    other = head, other.aux = 5, other.payload_bytes = 1;
    must_refuse(other, &meta, "MESSAGE to be pulled with data");
    other.payload_bytes = 0, meta.lead = meta.data_bytes;
    must_refuse(other, &meta, "MESSAGE to be pulled whose data all come");
    meta = good, meta.lead = 1;
    must_refuse(head, &meta, "MESSAGE with a lead and nothing behind it");
}

static void refuse_others(void)
{
    const uint32_t nobody = target.context[0]->core->tasks;
    const uint32_t outside = target.context[0]->core->contexts_max;
    const uint64_t clear = 17;

    must_refuse((struct packet_header){.protocol = PROTOCOL_COUNT}, NULL, "unknown protocol");
    must_refuse((struct packet_header){.protocol = 254}, NULL, "protocol 254");
    must_refuse((struct packet_header){.origin = nobody}, NULL, "a task outside the job");
    must_refuse((struct packet_header){.origin = endpoint_make(0, outside)}, NULL,
                "a context that cannot be");
    must_refuse((struct packet_header){.origin = UINT32_MAX}, NULL, "no endpoint at all");
    must_refuse((struct packet_header){.protocol = PROTOCOL_IMMEDIATE, .dispatch = 4096}, NULL,
                "IMMEDIATE for an id that cannot be");
    must_refuse((struct packet_header){.protocol = PROTOCOL_IMMEDIATE,
                                       .dispatch = ID_TAKE,
                                       .meta_words = 1},
                NULL, "IMMEDIATE with a description");
    must_refuse((struct packet_header){.protocol = PROTOCOL_STREAM, .payload_bytes = 10}, NULL,
                "STREAM of nothing");
    must_refuse((struct packet_header){.protocol = PROTOCOL_CLEAR, .meta_words = 1, .aux = 1},
                &clear, "CLEAR of nothing");
    must_refuse((struct packet_header){.protocol = PROTOCOL_DATA, .payload_bytes = 9, .aux = 77},
                NULL, "DATA of nothing");
    must_refuse((struct packet_header){.protocol = PROTOCOL_ACK}, NULL, "ACK without a handle");
    must_refuse((struct packet_header){.protocol = PROTOCOL_ACK, .aux = UINT32_MAX}, NULL,
                "ACK of a handle that cannot be");
}

/* ---- random packets ---- */

static uint16_t random_length(void)
{
    if (one_in(40))
        return (uint16_t)next();
    return (uint16_t)below(one_in(8) ? 5000 : 40);
}

static uint32_t random_endpoint(void)
{
    if (one_in(30))
        return (uint32_t)next();
    return endpoint_make(0, (uint32_t)below(one_in(4) ? 4 : 2));
}

/* Of a live operation, of one that has ended, or nonsense. */
static uint32_t random_handle(void)
{
    const struct handle_table *table = &target.context[0]->p2p->handles;

    if (table->count != 0 && !one_in(4)) {
        uint32_t index =
            (uint32_t)below(table->used + 2 < table->count ? table->used + 2 : table->count);

        return (table->rows[index].generation - one_in(8)) << HANDLE_INDEX_BITS | index;
    }
    return one_in(3) ? 0 : (uint32_t)next();
}

static uint64_t random_address(void)
{
    switch (below(4)) {
    case 0:
        return next() >> below(64);
    case 1:
        return (uint64_t)(uintptr_t)target.context[0] + below(100000) - 50000;
    default:
        return (uint64_t)(uintptr_t)readable + below(sizeof readable);
    }
}

static uint64_t random_size(void)
{
    switch (below(30)) {
    case 0:
        return next() | (uint64_t)1 << 61;
    case 1:
        return (uint64_t)1 << (42 + below(20));
    case 2:
        return below(3 << 20);
    default:
        return below(one_in(4) ? 100000 : 2000);
    }
}

static void fill_meta(struct packet_header *head, unsigned char *body)
{
    struct message_meta meta = {
        .data_bytes = random_size(),
        .address = random_address(),
        .lead = one_in(4) ? random_size() : 0,
        .header_bytes = one_in(4) ? (uint32_t)random_size() % (1 << 20) : head->header_bytes,
        .mode = (uint16_t)below(4),
        .immediate = one_in(4),
    };
    struct clear_meta clear = {.receive = random_handle()};
    const uint64_t ask[2] = {random_address(), random_size()};

    if (head->protocol == PROTOCOL_MESSAGE) {
        if (meta.mode == MESSAGE_STREAM && one_in(2))
            meta.data_bytes = head->payload_bytes;
        else if (meta.mode != MESSAGE_STREAM && !one_in(4))
            head->payload_bytes = 0;
        memcpy(body, &meta, sizeof meta);
    } else if (head->protocol == PROTOCOL_CLEAR) {
        memcpy(body, &clear, sizeof clear);
    } else if (head->protocol == PROTOCOL_ASK) {
        memcpy(body, ask, sizeof ask);
    }
}

static void random_packet(void)
{
    static unsigned char body[1 << 18];
    static const uint8_t words[PROTOCOL_COUNT] = {
        [PROTOCOL_MESSAGE] = sizeof(struct message_meta) / 8,
        [PROTOCOL_CLEAR] = sizeof(struct clear_meta) / 8,
        [PROTOCOL_ASK] = 2,
    };
    struct packet_header head = {
        .protocol = (uint8_t)below(one_in(50) ? 256 : PROTOCOL_COUNT),
        .dispatch = (uint16_t)(one_in(40) ? next() : below(IDS)),
        .header_bytes = random_length(),
        .payload_bytes = random_length(),
        .origin = random_endpoint(),
        .aux = random_handle(),
    };
    uint64_t noise = next();

    if (head.protocol < PROTOCOL_COUNT)
        head.meta_words = words[head.protocol];
    if (one_in(40))
        head.meta_words = (uint8_t)next();
    if (head.protocol == PROTOCOL_DATA && !one_in(8))
        head.header_bytes = 0;
    memset(body, (int)noise, 64 + below(200));
    fill_meta(&head, body);
    deliver(&head, body);
}

/* What lacks of a message under way, or some of it: most messages would never end otherwise. */
static void go_on(void)
{
    static const unsigned char body[1 << 16];
    struct packet_header head = {.protocol = PROTOCOL_STREAM, .origin = random_endpoint()};
    const struct peer *peer = u64map_get(&target.context[0]->p2p->peers, head.origin);
    const struct receive *receive = peer != NULL ? peer->incoming : NULL;
    size_t left;

    if (receive == NULL)
        return;
    left = receive->header_bytes - receive->header_got + receive->lead - receive->lead_got;
    if (receive->mode == MESSAGE_STREAM)
        left += receive->data_bytes - receive->data_got;
    if (one_in(3))
        left = below(left);
    head.payload_bytes = (uint16_t)(left < 65535 ? left : 65535);
    deliver(&head, body);
}

/* ---- operations for answers to belong to ---- */

static void valid_send(void)
{
    static unsigned char data[1 << 17];
    pami_send_typed_t message = {
        .send = {.header = {.iov_base = data, .iov_len = below(100)},
                 .data = {.iov_base = data, .iov_len = below(one_in(3) ? sizeof data / 2 : 900)},
                 .dispatch = ID_TAKE + below(ID_NEVER)},
        .events = {.local_fn = on_event, .remote_fn = one_in(3) ? NULL : on_event},
        .typed = {.type = target.strided},
    };
    pami_send_t plain = {.send = message.send, .events = message.events};

    message.send.dest = plain.send.dest = target.context[below(2)]->endpoint;
    if (one_in(3))
        PAMI_Send_typed(target.handle[0], &message);
    else
        PAMI_Send(target.handle[0], &plain);
}

static void now_and_then(unsigned long count)
{
    go_on();
    if (one_in(6))
        valid_send();
    if (one_in(4))
        PAMI_Context_advance(target.handle[0], 1);
    if (one_in(200))
        set(0, ID_UNKNOWN, on_any, (pami_dispatch_hint_t){0});
    if (one_in(100))
        clean_message();
    if (count % 500 == 499) {
        target_close_contexts();
        target_open_contexts();
        refuse_others();
        refuse_messages();
    }
}

#ifdef FUZZ_LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A sequence of packets, each a header and what it promises; the last one may lack zeros. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char body[1 << 18];

    if (target.client == NULL)
        target_open();
    while (size > sizeof(struct packet_header)) {
        struct packet_header head;
        size_t bytes;

        memcpy(&head, data, sizeof head);
        data += sizeof head, size -= sizeof head;
        bytes = packet_body_bytes(&head) < size ? packet_body_bytes(&head) : size;
        memset(body, 0, sizeof body);
        memcpy(body, data, bytes);
        data += bytes, size -= bytes;
        deliver(&head, body);
        PAMI_Context_advance(target.handle[0], 1);
    }
    target_close_contexts();
    target_open_contexts();
    clean_message();
    return 0;
}

#else

int main(int argc, char **argv)
{
    unsigned long packets = 0;
    double start = test_now();
    uint64_t refused = 0;

    random_state = 4321;
    if (argc == 3 && strcmp(argv[1], "--seed") == 0)
        random_state += strtoull(argv[2], NULL, 10) << 32;
    alarm(50); /* a hang is an end by signal */
    target_open();
    refuse_others();
    refuse_messages();
    while (packets < PACKETS_MAX && test_now() - start < SECONDS_MAX) {
        uint64_t before = refused_so_far();

        random_packet();
        refused += refused_so_far() - before;
        now_and_then(packets++);
    }
    target_close();
    printf("%lu packets, %llu refused, %lu dispatched, %lu completions, %lu valid messages\n",
           packets, (unsigned long long)refused, target.dispatches, target.completions,
           target.clean_arrived);
    check(target.dispatches > packets / 50 && refused > packets / 50, "the mixture is out of date");
    return 0;
}

#endif
