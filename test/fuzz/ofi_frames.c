/*
 * The network device over a network that misbehaves: a libfabric provider of our own, in this
 * process, delays, re-orders and doubles frames, is full now and then, and has a member of the job
 * and strangers put in frames of their own. Two contexts send each other packets meanwhile: each
 * arrives once, whole and in order.
 *
 *     ofi_frames [ROUNDS [SEED]]
 *
 * Frames are not lost: reliable datagrams are what the device asks providers for. (Networks below
 * providers lose them: test/net/bad_network.sh.) Best under SANITIZE=address,undefined.
 *
 * Run: args="40" env="PAMI_LOG=error" timeout=120
 * Run: args="40 2" env="PAMI_LOG=error PAMI_OFI_CREDITS=4 PAMI_OFI_SEND_BUFFERS=4" timeout=120
 */
#if !__has_include(<rdma/fabric.h>)
#include <stdio.h>

int main(void)
{
    puts("SKIP: libfabric is missing");
    return 77;
}
#else

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "device/ofi/ofi.h"
#include "fuzz/ofi_reception.h"
#include "fuzz/rounds.h"
#include "util/log.h"

enum {
    SLOTS = 2,
    MEMBER = 2, /* the hostile one */
    TASKS = 3,
    POSTED_MAX = 256,
    SENDS_MAX = 1024,
    FLIGHT_MAX = 4096,
    PACKETS = 2000, /* of each slot in a round */
    REORDER = 24    /* a frame overtakes so many at most */
};

/* ---- the provider ---- */

struct frame {
    size_t bytes;
    char data[];
};

struct posted {
    char *at;
    size_t room, least;
    void *context;
};

/* A domain with the one of everything that a slot opens in it. */
struct node {
    struct fid_domain domain;
    struct fid_cq cq;
    struct fid_av av;
    struct fid_ep ep;
    uint64_t number;
    size_t least; /* FI_OPT_MIN_MULTI_RECV */
    struct posted posted[POSTED_MAX];
    void *sends[SENDS_MAX]; /* to be completed */
    struct frame *flight[FLIGHT_MAX];
    uint32_t posted_count, send_count, flight_count;
};

static struct node *nodes[SLOTS];
static uint32_t node_count;
static bool running; /* else it is being set up, where nothing may fail */

static int no_close(struct fid *fid)
{
    (void)fid;
    return 0;
}

static int no_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)fid, (void)other, (void)flags;
    return 0;
}

static int control(struct fid *fid, int command, void *argument)
{
    (void)fid, (void)argument;
    return command == FI_GETWAIT ? -FI_ENOSYS : 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops), .close = no_close, .bind = no_bind, .control = control};

static void fly(struct node *to, const void *data, size_t bytes)
{
    struct frame *frame = malloc(sizeof(*frame) + bytes);

    CHECK(frame != NULL);
    if (to->flight_count == FLIGHT_MAX) {
        free(frame);
        return; /* only hostile frames are so many */
    }
    frame->bytes = bytes;
    memcpy(frame->data, data, bytes);
    to->flight[to->flight_count++] = frame;
}

static bool is_full(const struct node *to)
{
    return to->flight_count > FLIGHT_MAX / 2 || pick(16) == 0;
}

static ssize_t send_one(struct fid_ep *ep, const void *data, size_t bytes, fi_addr_t address,
                        void *context, bool completes)
{
    struct node *from = container_of(ep, struct node, ep);
    struct node *to = nodes[address];

    CHECK(address < SLOTS);
    if (is_full(to) || from->send_count == SENDS_MAX)
        return -FI_EAGAIN;
    fly(to, data, bytes);
    if (pick(20) == 0)
        fly(to, data, bytes);
    if (completes)
        from->sends[from->send_count++] = context;
    return 0;
}

static ssize_t do_send(struct fid_ep *ep, const void *data, size_t bytes, void *descriptor,
                       fi_addr_t address, void *context)
{
    (void)descriptor;
    return send_one(ep, data, bytes, address, context, true);
}

static ssize_t do_inject(struct fid_ep *ep, const void *data, size_t bytes, fi_addr_t address)
{
    return send_one(ep, data, bytes, address, NULL, false);
}

static ssize_t do_sendmsg(struct fid_ep *ep, const struct fi_msg *message, uint64_t flags)
{
    char all[65536 + 4096];
    size_t bytes = 0;

    (void)flags;
    for (size_t i = 0; i < message->iov_count; i++) {
        CHECK(bytes + message->msg_iov[i].iov_len <= sizeof(all));
        memcpy(all + bytes, message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
        bytes += message->msg_iov[i].iov_len;
    }
    return send_one(ep, all, bytes, message->addr, message->context, true);
}

static ssize_t do_recvmsg(struct fid_ep *ep, const struct fi_msg *message, uint64_t flags)
{
    struct node *node = container_of(ep, struct node, ep);

    CHECK(node->posted_count < POSTED_MAX && message->iov_count == 1);
    if (running && pick(16) == 0)
        return -FI_EAGAIN;
    node->posted[node->posted_count++] =
        (struct posted){message->msg_iov->iov_base, message->msg_iov->iov_len,
                        (flags & FI_MULTI_RECV) != 0 ? node->least : SIZE_MAX, message->context};
    return 0;
}

static struct fi_ops_msg msg_ops = {.size = sizeof(struct fi_ops_msg),
                                    .recvmsg = do_recvmsg,
                                    .send = do_send,
                                    .sendmsg = do_sendmsg,
                                    .inject = do_inject};

static int do_setopt(struct fid *fid, int level, int name, const void *value, size_t bytes)
{
    struct node *node = container_of(fid, struct node, ep.fid);

    (void)level;
    if (name == FI_OPT_MIN_MULTI_RECV && bytes == sizeof(node->least))
        memcpy(&node->least, value, bytes);
    return 0;
}

static struct fi_ops_ep ep_ops = {.size = sizeof(struct fi_ops_ep), .setopt = do_setopt};

static int do_getname(struct fid *fid, void *name, size_t *bytes)
{
    const struct node *node = container_of(fid, struct node, ep.fid);

    memcpy(name, &node->number, sizeof(node->number));
    *bytes = sizeof(node->number);
    return 0;
}

static struct fi_ops_cm cm_ops = {.size = sizeof(struct fi_ops_cm), .getname = do_getname};

/* Into the first buffer, which is given back when less than a frame is left, or at once. */
static void land(struct node *node, struct fi_cq_data_entry *entry)
{
    uint32_t which = pick(node->flight_count < REORDER ? node->flight_count : REORDER);
    struct frame *frame = node->flight[which];
    struct posted *posted = &node->posted[0];

    CHECK(frame->bytes <= posted->room);
    memcpy(posted->at, frame->data, frame->bytes);
    *entry = (struct fi_cq_data_entry){.op_context = posted->context,
                                       .flags = FI_RECV | FI_MSG,
                                       .len = frame->bytes,
                                       .buf = posted->at};
    posted->at += frame->bytes;
    posted->room -= frame->bytes;
    if (posted->room < posted->least) {
        entry->flags |= FI_MULTI_RECV;
        memmove(posted, posted + 1, --node->posted_count * sizeof(*posted));
    }
    memmove(&node->flight[which], &node->flight[which + 1],
            (--node->flight_count - which) * sizeof(struct frame *));
    free(frame);
}

static ssize_t do_read(struct fid_cq *cq, void *to, size_t count)
{
    struct node *node = container_of(cq, struct node, cq);
    struct fi_cq_data_entry *entries = to;
    size_t taken = 0;

    while (taken < count && pick(8) != 0) {
        struct fi_cq_data_entry *entry = &entries[taken];

        if (node->send_count != 0 && pick(2) == 0) {
            *entry = (struct fi_cq_data_entry){.op_context = node->sends[--node->send_count],
                                               .flags = FI_SEND | FI_MSG};
        } else if (node->flight_count != 0 && node->posted_count != 0) {
            land(node, entry);
        } else {
            continue;
        }
        taken++;
    }
    return taken == 0 ? -FI_EAGAIN : (ssize_t)taken;
}

static struct fi_ops_cq cq_ops = {.size = sizeof(struct fi_ops_cq), .read = do_read};

static int do_insert(struct fid_av *av, const void *name, size_t count, fi_addr_t *address,
                     uint64_t flags, void *context)
{
    uint64_t number;

    (void)av, (void)flags, (void)context;
    memcpy(&number, name, sizeof(number));
    *address = number;
    return (int)count;
}

static struct fi_ops_av av_ops = {.size = sizeof(struct fi_ops_av), .insert = do_insert};

static int open_av(struct fid_domain *domain, struct fi_av_attr *attributes, struct fid_av **av,
                   void *context)
{
    (void)attributes, (void)context;
    *av = &container_of(domain, struct node, domain)->av;
    return 0;
}

static int open_cq(struct fid_domain *domain, struct fi_cq_attr *attributes, struct fid_cq **cq,
                   void *context)
{
    (void)attributes, (void)context;
    *cq = &container_of(domain, struct node, domain)->cq;
    return 0;
}

static int open_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                   void *context)
{
    (void)info, (void)context;
    *ep = &container_of(domain, struct node, domain)->ep;
    return 0;
}

static struct fi_ops_domain domain_ops = {.size = sizeof(struct fi_ops_domain),
                                          .av_open = open_av,
                                          .cq_open = open_cq,
                                          .endpoint = open_ep};

static int open_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    struct node *node = calloc(1, sizeof(*node));

    (void)fabric, (void)info, (void)context;
    CHECK(node != NULL && node_count < SLOTS);
    node->domain.fid.ops = node->cq.fid.ops = node->av.fid.ops = node->ep.fid.ops = &fid_ops;
    node->domain.ops = &domain_ops;
    node->cq.ops = &cq_ops;
    node->av.ops = &av_ops;
    node->ep.ops = &ep_ops;
    node->ep.cm = &cm_ops;
    node->ep.msg = &msg_ops;
    node->number = node_count;
    nodes[node_count++] = node;
    *domain = &node->domain;
    return 0;
}

static struct fi_ops_fabric fabric_ops = {.size = sizeof(struct fi_ops_fabric),
                                          .domain = open_domain};

/* The few functions of libfabric that are no calls of a provider; the library is not linked. */
struct fi_info *fi_dupinfo(const struct fi_info *info)
{
    struct fi_info *copy = malloc(sizeof(*copy));

    CHECK(copy != NULL);
    *copy = *info;
    return copy;
}

void fi_freeinfo(struct fi_info *info)
{
    free(info);
}

const char *fi_strerror(int error)
{
    return strerror(error);
}

/* ---- two tasks ---- */

struct task {
    struct bootstrap bootstrap;
    struct ofi_device device;
    struct ofi_slot *slots[1];
    struct port *port;
    struct path *path; /* to the other */
    uint64_t counters[DEVICE_COUNTERS];
    uint32_t sent, came;
};

static struct task tasks[SLOTS];

static void tell(uint32_t to, uint32_t about)
{
    struct ofi_slot *slot = tasks[to].slots[0];
    struct ofi_notice *notice = calloc(1, sizeof(*notice));

    CHECK(notice != NULL);
    notice->kind = NOTICE_NAME;
    notice->endpoint = about;
    notice->name = tasks[about].slots[0]->name;
    list_push_back(&slot->notices, &notice->link);
    atomic_store(&slot->news, 1);
}

/* In place of the reception, everybody knows everybody. */
int reception_ask(struct reception *reception, uint32_t from, uint32_t to, uint32_t as)
{
    (void)reception, (void)as;
    tell(from, to);
    tell(to, from);
    return 0;
}

static char content(uint32_t number, uint32_t at)
{
    return (char)(number * 131 + at * 7 + (at >> 8));
}

static void deliver(void *cookie, const struct packet_header *head, void *body)
{
    struct task *task = cookie;
    const char *bytes = body;

    if (head->origin == MEMBER)
        return;
    CHECK(head->origin == 1 - task->bootstrap.task);
    CHECK(head->aux == task->came);
    CHECK(((uintptr_t)body & 7) == 0);
    for (uint32_t i = 0; i < packet_body_bytes(head); i++)
        CHECK(bytes[i] == content(task->came, i));
    task->came++;
}

static void wake(void *cookie)
{
    (void)cookie;
}

static void gone(void *cookie, uint32_t endpoint)
{
    (void)cookie, (void)endpoint;
    CHECK(false);
}

static void send_packet(struct task *task)
{
    static char body[65536];
    uint32_t bytes = pick(3) == 0 ? pick(task->path->packet_max + 1) : pick(200);
    struct packet packet = {.payload = body};
    int error;

    for (uint32_t i = 0; i < bytes; i++)
        body[i] = content(task->sent, i);
    packet.head = packet_header_short(1, 5, 0, bytes, task->bootstrap.task, task->sent);
    error = task->path->am(task->path, &packet);
    CHECK(error == 0 || error == -EAGAIN || error == -ENOBUFS);
    task->sent += error == 0;
}

/* ---- the others ---- */

static uint64_t token(uint32_t from, uint32_t to)
{
    const uint32_t pair[3] = {from, to, UINT32_C(0x70616972)};

    return proof_hash(&tasks[to].device.key, pair, sizeof(pair));
}

/* A stranger makes noise, or repeats a frame with another token; the member says what it likes. */
static void disturb(uint32_t to)
{
    struct node *node = nodes[to];
    char data[sizeof(struct ofi_frame) + 2048];
    struct ofi_frame frame;
    size_t bytes = 1 + pick(sizeof(data) - 1);

    for (size_t i = 0; i < bytes; i++)
        data[i] = (char)pick(256);
    if (pick(2) == 0 && node->flight_count != 0) {
        const struct frame *other = node->flight[pick(node->flight_count)];

        bytes = other->bytes < sizeof(data) ? other->bytes : sizeof(data);
        memcpy(data, other->data, bytes);
        data[pick(8)] ^= (char)(1 << pick(8)); /* the token comes first */
    } else if (pick(2) == 0 && bytes >= sizeof(frame)) {
        memcpy(&frame, data, sizeof(frame));
        frame.token = token(MEMBER, to);
        frame.sequence = pick(200);
        frame.head.origin = pick(8) == 0 ? pick(TASKS + 1) : MEMBER;
        if (pick(4) != 0) {
            frame.head.meta_words = (uint8_t)pick(4);
            frame.head.header_bytes = (uint16_t)pick(64);
            frame.head.payload_bytes = (uint16_t)pick(1500);
            bytes = ofi_frame_bytes(packet_body_bytes(&frame.head));
        }
        memcpy(data, &frame, sizeof(frame));
    }
    fly(node, data, bytes);
}

static void start(struct task *task, struct ofi_provider *provider, uint32_t number)
{
    struct port_params params = {.endpoint = number,
                                 .context = task,
                                 .deliver = deliver,
                                 .wake = wake,
                                 .counters = task->counters};

    memset(task, 0, sizeof(*task));
    task->bootstrap.task = number;
    task->bootstrap.tasks = TASKS;
    task->device.bootstrap = &task->bootstrap;
    task->device.contexts = 1;
    task->device.provider = *provider;
    task->device.slots = task->slots;
    memset(task->device.key.bytes, 7, sizeof(task->device.key.bytes));
    pthread_mutex_init(&task->device.lock, NULL);
    CHECK(ofi_port_open(&task->device.device, &params, &task->port) == 0);
}

static void stop(struct task *task)
{
    ofi_port_close(task->port);
    ofi_slot_free(task->slots[0]);
    pthread_mutex_destroy(&task->device.lock);
}

static void traffic(bool disturbed)
{
    for (long step = 0; tasks[0].came < PACKETS || tasks[1].came < PACKETS; step++) {
        struct task *task = &tasks[pick(SLOTS)];

        CHECK(step < 40L * 1000 * PACKETS);
        for (uint32_t burst = pick(8) == 0 ? pick(60) : pick(2); burst > 0 && task->sent < PACKETS;
             burst--)
            send_packet(task);
        ofi_advance(task->port);
        if (disturbed && pick(6) == 0)
            disturb(pick(SLOTS));
        if (pick(64) == 0)
            ofi_tend(task->port, gone);
    }
    for (long step = 0;; step++) {
        bool settled = ofi_settled(tasks[0].port);

        settled = ofi_settled(tasks[1].port) && settled;
        if (settled)
            return;
        CHECK(step < 1000000);
        ofi_advance(tasks[step % SLOTS].port);
    }
}

static void one_round(struct ofi_provider *provider, bool disturbed)
{
    node_count = 0;
    for (uint32_t i = 0; i < SLOTS; i++)
        start(&tasks[i], provider, i);
    for (uint32_t i = 0; i < SLOTS; i++)
        CHECK(ofi_path_open(tasks[i].port, 1 - i, 0, &tasks[i].path) == 0);
    running = true;
    traffic(disturbed);
    running = false;
    for (uint32_t i = 0; i < SLOTS; i++)
        stop(&tasks[i]);
    for (uint32_t i = 0; i < SLOTS; i++) {
        while (nodes[i]->flight_count != 0)
            free(nodes[i]->flight[--nodes[i]->flight_count]);
        free(nodes[i]);
    }
}

int main(int argc, char **argv)
{
    struct fi_tx_attr tx = {.inject_size = 128};
    struct fi_domain_attr domain = {.mr_key_size = 8};
    struct fi_fabric_attr attributes = {.prov_name = (char *)(uintptr_t) "fake"};
    struct fi_info info = {.caps = FI_MSG | FI_MULTI_RECV,
                           .tx_attr = &tx,
                           .domain_attr = &domain,
                           .fabric_attr = &attributes};
    struct fid_fabric fabric = {.fid.ops = &fid_ops, .ops = &fabric_ops};
    struct ofi_provider provider = {.info = &info, .fabric = &fabric, .multi_receive = true};
    long rounds = rounds_wanted(argc, argv, 40);

    for (current = 0; current < rounds; current++) {
        tx.inject_size = current % 3 == 0 ? 0 : 128;
        provider.multi_receive = current % 4 < 2;
        one_round(&provider, current % 2 == 1);
    }
    return 0;
}

#endif
