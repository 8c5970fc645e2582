/*
 * Hostile input at the door of the network device: what strangers say before they have proved that
 * they belong to the job, and what members say afterwards. The real connection.c and reception.c,
 * over a pair of sockets.
 *
 *     ofi_handshake [ROUNDS [SEED]]
 *
 * Nobody without the key gets in, whatever bits of a right conversation he flips, repeats or sends
 * in which pieces; who has it does get in, by the same means. Best under a sanitizer.
 *
 * Run: args="2000" env="PAMI_LOG=error" timeout=120
 */
#if !__has_include(<rdma/fabric.h>)
#include <stdio.h>

int main(void)
{
    puts("SKIP: libfabric is missing");
    return 77;
}
#else

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "device/ofi/reception.h"
#include "fuzz/rounds.h"

enum {
    TASKS = 5,
    CONTEXTS = 3,
    STREAM_MAX = 4096
};

/* One end of a conversation: a task of the job, or somebody with another key. */
struct end {
    struct bootstrap bootstrap;
    struct ofi_device device;
    struct connection *connection;
    unsigned messages;
    bool refuses;
};

static void noise(void *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = (unsigned char)pick(256);
}

static void end_init(struct end *end, uint32_t task, uint8_t key)
{
    memset(end, 0, sizeof(*end));
    end->bootstrap.task = task;
    end->bootstrap.tasks = TASKS;
    end->device.bootstrap = &end->bootstrap;
    end->device.contexts = CONTEXTS;
    end->device.peer_timeout_ms = 5000;
    memset(end->device.key.bytes, key, sizeof(end->device.key.bytes));
}

static void count_message(void *cookie, struct connection *connection,
                          const struct message *message)
{
    struct end *end = cookie;

    (void)connection;
    CHECK(message->kind == MESSAGE_ASK && message->count == 77);
    end->messages++;
}

/* One direction of a conversation, which goes through our hands. */
struct flow {
    int from, to;
    size_t carried, secret; /* bytes; of them, from the start, those of the handshake */
    bool damage, damaged;
};

/* What is there now, in pieces of any size, with bits of the handshake flipped. True: something. */
static bool carry(struct flow *flow)
{
    unsigned char bytes[STREAM_MAX];
    ssize_t count = recv(flow->from, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (count <= 0)
        return false;
    if (flow->damage && flow->carried < flow->secret && pick(2) == 0) {
        size_t most = flow->secret - flow->carried;

        if (most > (size_t)count)
            most = (size_t)count;
        bytes[pick((uint32_t)most)] ^= (unsigned char)(1u << pick(8));
        flow->damaged = true;
    }
    flow->carried += (size_t)count;
    for (size_t sent = 0; sent < (size_t)count;) {
        size_t piece = 1 + pick((uint32_t)((size_t)count - sent));

        if (send(flow->to, bytes + sent, piece, MSG_NOSIGNAL) < 0)
            break;
        sent += piece;
    }
    return true;
}

static void pair(int fd[2])
{
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
}

/* Who has proved that he belongs to the job is let in, unless he is to be refused. */
static void progress(struct end *end)
{
    if (end->connection->state != CONNECTION_FAILED)
        connection_progress(&end->device, end->connection, count_message, end);
    if (end->connection->state == CONNECTION_PROVEN)
        connection_open(&end->device, end->connection, !end->refuses);
}

/*
 * A client and a server talk through somebody who may flip bits. Both get in and hear each other
 * only if their keys are equal, nothing was flipped and the server wants to.
 */
static void converse(bool same_key, bool damage, bool refuses)
{
    const struct message message = {.kind = MESSAGE_ASK, .count = 77};
    struct end client, server;
    struct flow forth, back;
    int a[2], b[2];

    pair(a);
    pair(b);
    end_init(&client, pick(TASKS), 1);
    end_init(&server, pick(TASKS), same_key ? 1 : 2);
    server.refuses = refuses;
    server.connection = connection_from(&server.device, b[1]);
    client.connection = connection_over(&client.device, server.bootstrap.task, pick(3), a[1]);
    CHECK(client.connection != NULL && server.connection != NULL);
    CHECK(connection_send(client.connection, &message) == 0);
    CHECK(connection_send(server.connection, &message) == 0);
    forth =
        (struct flow){a[0], b[0], 0, sizeof(struct hello) + sizeof(struct proof), damage, false};
    back = (struct flow){b[0],   a[0], 0, sizeof(struct challenge) + sizeof(struct proof),
                         damage, false};
    for (int idle = 0; idle < 3; idle++) {
        progress(&client);
        idle = carry(&forth) ? 0 : idle;
        progress(&server);
        idle = carry(&back) ? 0 : idle;
    }
    if (same_key && !forth.damaged && !back.damaged && !refuses) {
        CHECK(client.connection->state == CONNECTION_OPEN && client.messages == 1);
        CHECK(server.connection->state == CONNECTION_OPEN && server.messages == 1);
        CHECK(server.connection->task == client.bootstrap.task);
    } else {
        CHECK(client.messages == 0 && client.connection->state != CONNECTION_OPEN);
        CHECK(server.messages == 0 || server.connection->state == CONNECTION_OPEN);
    }
    CHECK(server.connection->state != CONNECTION_OPEN || (same_key && !forth.damaged && !refuses));
    connection_free(client.connection);
    connection_free(server.connection);
    close(a[0]);
    close(b[0]);
}

/* Noise, of which the beginning may be right, to a server or to a client. */
static void shout(bool at_server)
{
    unsigned char bytes[STREAM_MAX];
    size_t count = 1 + pick(sizeof(bytes) - 1);
    struct hello hello = {.magic = HELLO_MAGIC, .from = pick(TASKS + 1), .to = pick(TASKS)};
    struct end end;
    int a[2];

    pair(a);
    end_init(&end, pick(TASKS), 1);
    end.connection = at_server ? connection_from(&end.device, a[1])
                               : connection_over(&end.device, pick(TASKS), pick(3), a[1]);
    CHECK(end.connection != NULL);
    noise(bytes, count);
    if (pick(2) == 0 && count >= sizeof(hello))
        memcpy(bytes, &hello, sizeof(hello));
    for (size_t sent = 0; sent < count;) {
        size_t piece = 1 + pick((uint32_t)(count - sent));

        if (send(a[0], bytes + sent, piece, MSG_NOSIGNAL) < 0)
            break;
        sent += piece;
        progress(&end);
    }
    progress(&end);
    CHECK(end.connection->state != CONNECTION_OPEN && end.messages == 0);
    connection_free(end.connection);
    close(a[0]);
}

/* What a right client has once said, once more. */
static void replay(void)
{
    struct end client, server[2];
    unsigned char said[STREAM_MAX], answer[STREAM_MAX];
    size_t bytes = 0;
    int a[2], b[2], c[2];
    ssize_t count;

    pair(a);
    pair(b);
    pair(c);
    end_init(&client, 1, 1);
    end_init(&server[0], 2, 1);
    end_init(&server[1], 2, 1);
    client.connection = connection_over(&client.device, 2, 0, a[1]);
    server[0].connection = connection_from(&server[0].device, b[1]);
    server[1].connection = connection_from(&server[1].device, c[1]);
    for (int i = 0; i < 4; i++) {
        progress(&client);
        count = recv(a[0], said + bytes, sizeof(said) - bytes, 0);
        if (count > 0) {
            CHECK(send(b[0], said + bytes, (size_t)count, 0) == count);
            bytes += (size_t)count;
        }
        progress(&server[0]);
        count = recv(b[0], answer, sizeof(answer), 0);
        if (count > 0)
            CHECK(send(a[0], answer, (size_t)count, 0) == count);
    }
    CHECK(server[0].connection->state == CONNECTION_OPEN);
    CHECK(send(c[0], said, bytes, 0) == (ssize_t)bytes);
    progress(&server[1]);
    CHECK(server[1].connection->state == CONNECTION_FAILED);
    connection_free(client.connection);
    connection_free(server[0].connection);
    connection_free(server[1].connection);
    close(a[0]);
    close(b[0]);
    close(c[0]);
}

/* Cards come from the launcher, which others may have written to as well. */
static void card(struct end *end)
{
    static const char *const words[] = {"3/",  "tcp",   "+ofi_rxm", "/",  "127.0.0.1",
                                        "::1", "65535", "65536",    "-1", "999999999999999999999",
                                        "%s",  "2/"};
    char text[OFI_CARD_MAX], why[256];
    size_t length = 0;
    struct place to;

    while (length < sizeof(text) - 32 && pick(8) != 0) {
        if (pick(6) == 0)
            text[length++] = (char)(1 + pick(255));
        else
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%s",
                                       words[pick(sizeof(words) / sizeof(words[0]))]);
    }
    text[length] = '\0';
    reception_card_read(&end->device, text, &to, why, sizeof(why));
    reception_card_write(&end->device, (uint16_t)pick(65536), (uint16_t)pick(65536), text,
                         sizeof(text));
    CHECK(reception_card_read(&end->device, text, &to, why, sizeof(why)));
}

/* ---- members that send nonsense ---- */

static bool complete(int fd, void *to, size_t bytes)
{
    return recv(fd, to, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

/* As task 1 to the reception at this address. -1: refused. */
static int enter(const struct end *me, const struct place *to)
{
    struct {
        struct hello hello;
        uint8_t nonce[16];
    } transcript = {.hello = {.magic = HELLO_MAGIC, .from = 1, .to = 0}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct challenge challenge;
    struct proof proof;

    CHECK(fd >= 0);
    transcript.hello.life = pick(4) == 0 ? pick(20) : 0;
    noise(transcript.hello.nonce, sizeof(transcript.hello.nonce));
    if (connect(fd, &to->door.any, sizeof(to->door.v4)) == 0 &&
        send(fd, &transcript.hello, sizeof(transcript.hello), MSG_NOSIGNAL) > 0 &&
        complete(fd, &challenge, sizeof(challenge))) {
        memcpy(transcript.nonce, challenge.nonce, sizeof(transcript.nonce));
        proof = proof_make(&me->device.key, PURPOSE_CLIENT, &transcript, sizeof(transcript));
        if (send(fd, &proof, sizeof(proof), MSG_NOSIGNAL) > 0 &&
            complete(fd, &proof, sizeof(proof)))
            return fd;
    }
    close(fd);
    return -1;
}

static void make_message(struct message *message)
{
    if (pick(8) == 0) {
        noise(message, sizeof(*message));
        return;
    }
    *message = (struct message){
        .kind = 1 + pick(7),
        .from = 1 + (pick(CONTEXTS) << 24),
        .to = pick(CONTEXTS) << 24,
        .count = pick(5) * UINT32_C(0x33333333),
        .name = {.key = pick(1000), .bytes = pick(OFI_NAME_MAX + 1), .readable = pick(2) == 0},
    };
}

static ssize_t read_nothing(struct fid_cq *cq, void *to, size_t count)
{
    (void)cq, (void)to, (void)count;
    return -FI_EAGAIN;
}

/* A reception with its thread, one open context, one closed and one that never was. */
static void nonsense(long rounds)
{
    struct fi_fabric_attr fabric = {.prov_name = (char *)(uintptr_t) "fuzz;provider"};
    struct fi_info info = {.fabric_attr = &fabric};
    struct ofi_slot *slots[CONTEXTS] = {NULL};
    struct fi_ops_cq ops = {.size = sizeof(ops), .read = read_nothing};
    struct fid_cq cq = {.ops = &ops};
    struct ofi_slot open = {.open = true, .cq = &cq}, closed = {.offset = 1, .cq = &cq};
    struct place to;
    char text[OFI_CARD_MAX], why[256];
    struct list *item;
    struct end me;

    end_init(&me, 0, 1);
    me.device.interface.v4.sin_family = AF_INET;
    me.device.interface.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    me.device.provider.info = &info;
    me.device.slots = slots;
    pthread_mutex_init(&me.device.lock, NULL);
    list_init(&open.notices);
    list_init(&closed.notices);
    slots[0] = &open;
    slots[1] = &closed;
    for (long i = 0; i < 10 * rounds; i++)
        card(&me);
    CHECK(reception_open(&me.device, text, sizeof(text), why, sizeof(why)) == 0);
    CHECK(reception_card_read(&me.device, text, &to, why, sizeof(why)));
    CHECK(reception_start(me.device.reception) == 0);
    for (current = 0; current < rounds; current++) {
        int fd = enter(&me, &to);

        for (uint32_t i = fd < 0 ? 0 : pick(30); i > 0; i--) {
            struct message message;

            make_message(&message);
            if (send(fd, &message, pick(20) == 0 ? pick(sizeof(message)) : sizeof(message),
                     MSG_NOSIGNAL) < 0)
                break;
        }
        if (fd >= 0)
            close(fd);
    }
    reception_close(me.device.reception);
    while ((item = list_pop_front(&open.notices)) != NULL)
        free(list_entry(item, struct ofi_notice, link));
    CHECK(list_empty(&closed.notices));
    pthread_mutex_destroy(&me.device.lock);
}

int main(int argc, char **argv)
{
    long rounds = rounds_wanted(argc, argv, 4000);

    for (current = 0; current < rounds; current++) {
        converse(true, false, pick(4) == 0);
        converse(true, true, false);
        converse(false, pick(2) == 0, false);
        shout(true);
        shout(false);
        replay();
    }
    nonsense(rounds / 20);
    return 0;
}

#endif
