/*
 * The limits of a libfabric provider between two processes, with nothing of ours in between.
 *
 *     limit_ofi NAME...       latency bandwidth rate rma (none: all); further options as for the
 *                             loops of pingpong.h, stream.h and onesided.h
 *
 * The least that a program can do with reliable-datagram endpoints: fi_inject as long as it is
 * allowed and fi_send above, each message received where it belongs (rate: into a buffer for many),
 * one queue that is polled all the time, fi_writemsg and fi_read of memory registered once.
 *
 * PAMI_OFI_PROVIDER names the provider, else it is the one that the ofi device takes where there is
 * no hardware; PAMI_OFI_INTERFACE is the name of an interface or an address (default 127.0.0.1).
 * BENCH_NAMESPACES=FILE,FILE: the network namespaces of the two processes.
 */
#include "onesided.h"
#include "pair.h"
#include "pingpong.h"
#include "stream.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define NAME_MAX_BYTES 128
#define SLOTS 64
#define EVENTS 16
#define MEMORY_KEY 0x6c696d6974
/* The rate test: as am_rate.c, with two buffers for many messages each. */
#define RATE_BATCHES 5
/* Less than those of ours, which go together: here each takes several system calls. */
#define RATE_MESSAGES (64u * 1024u)
#define RATE_BURST 64u
#define RATE_ACK 1024u
#define RATE_CREDIT 8192u
#define RATE_BUFFER ((size_t)256 << 10)

struct side {
    BENCH_ALIGNED _Atomic size_t name_bytes;
    char name[NAME_MAX_BYTES];
    uint64_t window, key;
    BENCH_ALIGNED _Atomic uint64_t told; /* notes */
    double note;
};

struct shared {
    struct side side[2];
    int argc;
    char **argv;
};

struct operation {
    struct fi_context2 context; /* first */
    bool busy;
};

static struct {
    struct side *mine, *theirs;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_mr *memory;
    fi_addr_t peer;
    uint64_t target, key; /* the other's window */
    struct operation receive[SLOTS], send[SLOTS], many[2];
    char *many_buffer[2];
    void *expected;
    uint64_t told, heard;
    uint64_t arrived; /* messages in the buffers for many */
    size_t started;   /* one-sided operations */
} transport;

static void check(const char *call, long result)
{
    if (result < 0) {
        bench_die("%s: %s", call, fi_strerror((int)-result));
    }
}

/* ---- the endpoint ---------------------------------------------------------------------------- */

static void enter_namespace(int rank)
{
    const char *list = getenv("BENCH_NAMESPACES");
    char first[256] = "", second[256] = "";
    int file;

    if (list == NULL) {
        return;
    }
    if (sscanf(list, "%255[^,],%255s", first, second) != 2) {
        bench_die("BENCH_NAMESPACES: not two files: %s", list);
    }
    file = open(rank == 0 ? first : second, O_RDONLY | O_CLOEXEC);
    if (file < 0 || setns(file, CLONE_NEWNET) != 0) {
        bench_die("cannot enter a namespace of %s: %s", list, strerror(errno));
    }
    close(file);
}

/* The IPv4 address of the interface that has that name, else what it says. */
static void own_address(char *text, size_t size)
{
    const char *wanted = getenv("PAMI_OFI_INTERFACE");
    struct ifaddrs *all = NULL;

    snprintf(text, size, "%s", wanted != NULL && *wanted != '\0' ? wanted : "127.0.0.1");
    if (getifaddrs(&all) != 0) {
        return;
    }
    for (struct ifaddrs *entry = all; entry != NULL && wanted != NULL; entry = entry->ifa_next) {
        if (entry->ifa_addr != NULL && entry->ifa_addr->sa_family == AF_INET &&
            strcmp(entry->ifa_name, wanted) == 0) {
            getnameinfo(entry->ifa_addr, sizeof(struct sockaddr_in), text, (socklen_t)size, NULL, 0,
                        NI_NUMERICHOST);
        }
    }
    freeifaddrs(all);
}

static struct fi_info *find_provider(const char *name)
{
    char address[64];
    struct fi_info *hints = fi_allocinfo(), *found = NULL;

    own_address(address, sizeof(address));
    hints->caps = FI_MSG | FI_RMA | FI_MULTI_RECV;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->fabric_attr->prov_name = strdup(name);
    if (fi_getinfo(FI_VERSION(1, 11), address, NULL, FI_SOURCE, hints, &found) != 0) {
        found = NULL;
    }
    fi_freeinfo(hints);
    return found;
}

static void choose_provider(void)
{
    static const char *const usual[] = {"net", "tcp;ofi_rxm", "tcp"};
    const char *wanted = getenv("PAMI_OFI_PROVIDER");

    if (wanted != NULL && *wanted != '\0') {
        transport.info = find_provider(wanted);
    }
    for (size_t i = 0; i < 3 && (wanted == NULL || *wanted == '\0') && !transport.info; i++) {
        transport.info = find_provider(usual[i]);
    }
    if (transport.info == NULL) {
        bench_skip("libfabric has no such provider");
    }
}

static void exchange_names(void)
{
    size_t bytes = NAME_MAX_BYTES;

    check("fi_getname", fi_getname(&transport.ep->fid, transport.mine->name, &bytes));
    atomic_store(&transport.mine->name_bytes, bytes);
    while (atomic_load(&transport.theirs->name_bytes) == 0) {
        sched_yield();
    }
    if (fi_av_insert(transport.av, transport.theirs->name, 1, &transport.peer, 0, NULL) != 1) {
        bench_die("fi_av_insert");
    }
}

static void open_endpoint(int rank, struct shared *s)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr av = {.type = FI_AV_UNSPEC, .count = 2};
    struct fi_info *info;

    enter_namespace(rank);
    transport.mine = &s->side[rank];
    transport.theirs = &s->side[1 - rank];
    choose_provider();
    info = transport.info;
    check("fi_fabric", fi_fabric(info->fabric_attr, &transport.fabric, NULL));
    check("fi_domain", fi_domain(transport.fabric, info, &transport.domain, NULL));
    check("fi_cq_open", fi_cq_open(transport.domain, &cq, &transport.cq, NULL));
    check("fi_av_open", fi_av_open(transport.domain, &av, &transport.av, NULL));
    check("fi_endpoint", fi_endpoint(transport.domain, info, &transport.ep, NULL));
    check("fi_ep_bind", fi_ep_bind(transport.ep, &transport.cq->fid, FI_TRANSMIT | FI_RECV));
    check("fi_ep_bind", fi_ep_bind(transport.ep, &transport.av->fid, 0));
    check("fi_enable", fi_enable(transport.ep));
    exchange_names();
}

static void close_endpoint(void)
{
    if (transport.memory != NULL) {
        fi_close(&transport.memory->fid);
    }
    fi_close(&transport.ep->fid);
    fi_close(&transport.cq->fid);
    fi_close(&transport.av->fid);
    fi_close(&transport.domain->fid);
    fi_close(&transport.fabric->fid);
    fi_freeinfo(transport.info);
}

/* ---- progress -------------------------------------------------------------------------------- */

static void post_many(size_t which)
{
    struct iovec vector = {transport.many_buffer[which], RATE_BUFFER};
    struct fi_msg message = {
        .msg_iov = &vector,
        .iov_count = 1,
        .addr = FI_ADDR_UNSPEC,
        .context = &transport.many[which],
    };

    check("fi_recvmsg", fi_recvmsg(transport.ep, &message, FI_MULTI_RECV));
}

static void progress(void)
{
    struct fi_cq_data_entry entries[EVENTS];
    ssize_t count = fi_cq_read(transport.cq, entries, EVENTS);

    if (count == -FI_EAGAIN) {
        return;
    }
    check("fi_cq_read", count);
    for (ssize_t i = 0; i < count; i++) {
        struct operation *operation = entries[i].op_context;
        size_t which = (size_t)(operation - transport.many);
        if (which >= 2) {
            operation->busy = false;
            continue;
        }
        transport.arrived += entries[i].len != 0;
        if (entries[i].flags & FI_MULTI_RECV) {
            post_many(which);
        }
    }
}

static void wait_for(const struct operation *operation)
{
    while (operation->busy) {
        progress();
    }
}

static void start_receive(struct operation *operation, void *buffer, size_t bytes)
{
    operation->busy = true;
    check("fi_recv",
          fi_recv(transport.ep, buffer, bytes, NULL, FI_ADDR_UNSPEC, &operation->context));
}

static void inject(const void *buffer, size_t bytes)
{
    ssize_t error;

    while ((error = fi_inject(transport.ep, buffer, bytes, transport.peer)) == -FI_EAGAIN) {
        progress();
    }
    check("fi_inject", error);
}

static void start_send(struct operation *operation, const void *buffer, size_t bytes)
{
    ssize_t error;

    if (bytes <= transport.info->tx_attr->inject_size) {
        inject(buffer, bytes);
        return;
    }
    operation->busy = true;
    while ((error = fi_send(transport.ep, buffer, bytes, NULL, transport.peer,
                            &operation->context)) == -FI_EAGAIN) {
        progress();
    }
    check("fi_send", error);
}

/* ---- behind pingpong.h and stream.h ---------------------------------------------------------- */

void *transport_alloc(size_t bytes)
{
    return bench_alloc(bytes);
}

/* Posted before it can come: the next one comes after we have sent, and into the same place. */
void transport_expect(void *buffer)
{
    transport.expected = buffer;
    start_receive(&transport.receive[0], buffer, PINGPONG_LARGEST);
}

void transport_send(const void *buffer, size_t bytes)
{
    start_send(&transport.send[0], buffer, bytes);
    wait_for(&transport.send[0]);
}

void transport_receive(void *buffer, size_t bytes)
{
    (void)buffer, (void)bytes;
    wait_for(&transport.receive[0]);
    start_receive(&transport.receive[0], transport.expected, PINGPONG_LARGEST);
}

void transport_tell(double value)
{
    transport.mine->note = value;
    atomic_store(&transport.mine->told, ++transport.told);
}

double transport_hear(void)
{
    uint64_t number = ++transport.heard;

    while (atomic_load(&transport.theirs->told) < number) {
        progress();
    }
    return transport.theirs->note;
}

void transport_meet(void)
{
    transport_tell(0);
    (void)transport_hear();
}

void transport_post_receive(size_t slot, void *buffer, size_t bytes)
{
    start_receive(&transport.receive[slot], buffer, bytes);
}

void transport_wait_receive(size_t slot)
{
    wait_for(&transport.receive[slot]);
}

void transport_start_send(size_t slot, const void *buffer, size_t bytes)
{
    start_send(&transport.send[slot], buffer, bytes);
}

void transport_wait_send(size_t slot)
{
    wait_for(&transport.send[slot]);
}

/* ---- behind onesided.h ----------------------------------------------------------------------- */

static struct operation *next_operation(void)
{
    struct operation *operation = &transport.send[transport.started++ % SLOTS];

    wait_for(operation);
    operation->busy = true;
    return operation;
}

void transport_put(const void *source, size_t at, size_t bytes)
{
    struct operation *operation = next_operation();
    struct iovec vector = {(void *)(uintptr_t)source, bytes};
    struct fi_rma_iov remote = {transport.target + at, bytes, transport.key};
    struct fi_msg_rma message = {
        .msg_iov = &vector,
        .iov_count = 1,
        .addr = transport.peer,
        .rma_iov = &remote,
        .rma_iov_count = 1,
        .context = &operation->context,
    };
    ssize_t error;

    while ((error = fi_writemsg(transport.ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE)) ==
           -FI_EAGAIN) {
        progress();
    }
    check("fi_writemsg", error);
}

void transport_get(void *target, size_t at, size_t bytes)
{
    struct operation *operation = next_operation();
    ssize_t error;

    while ((error = fi_read(transport.ep, target, bytes, NULL, transport.peer,
                            transport.target + at, transport.key, &operation->context)) ==
           -FI_EAGAIN) {
        progress();
    }
    check("fi_read", error);
}

void transport_flush(void)
{
    for (size_t i = 0; i < SLOTS; i++) {
        wait_for(&transport.send[i]);
    }
}

void transport_fetch_add(uint64_t *old, size_t at)
{
    (void)old, (void)at;
}

void transport_put_strided(const void *source, size_t at, size_t block, size_t bytes)
{
    (void)source, (void)at, (void)block, (void)bytes;
}

/* ---- roles ----------------------------------------------------------------------------------- */

static double role_latency(int rank, int count, struct pair *group, void *shared)
{
    struct shared *s = shared;

    (void)count, (void)group;
    open_endpoint(rank, s);
    pingpong_run("latency_ofi", rank, s->argc, s->argv);
    transport_meet();
    close_endpoint();
    return 0;
}

static double role_bandwidth(int rank, int count, struct pair *group, void *shared)
{
    struct shared *s = shared;

    (void)count, (void)group;
    open_endpoint(rank, s);
    stream_run("bandwidth_ofi", false, rank, s->argc, s->argv);
    transport_meet();
    close_endpoint();
    return 0;
}

static void rate_send(uint64_t messages)
{
    uint64_t start = transport.arrived;

    for (uint64_t number = 0; number < messages; number++) {
        inject(&number, sizeof(number));
        while ((number + 1) % RATE_BURST == 0 &&
               number - (transport.arrived - start) * RATE_ACK > RATE_CREDIT) {
            progress();
        }
        if ((number + 1) % RATE_BURST == 0) {
            progress();
        }
    }
    while ((transport.arrived - start) * RATE_ACK < messages) {
        progress();
    }
}

static double rate_receive(uint64_t messages)
{
    uint64_t begin = transport.arrived, acknowledged = 0, start = bench_now();

    while (transport.arrived - begin < messages) {
        progress();
        while (transport.arrived - begin - acknowledged >= RATE_ACK) {
            acknowledged += RATE_ACK;
            inject(&acknowledged, sizeof(acknowledged));
        }
    }
    return (double)messages * 1e3 / (double)(bench_now() - start);
}

static double role_rate(int rank, int count, struct pair *group, void *shared)
{
    double each[RATE_BATCHES];
    size_t least = 64;

    (void)count, (void)group;
    open_endpoint(rank, shared);
    fi_setopt(&transport.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least));
    for (size_t i = 0; i < 2; i++) {
        transport.many_buffer[i] = bench_alloc(RATE_BUFFER);
        post_many(i);
    }
    for (int b = 0; b < RATE_BATCHES; b++) {
        transport_meet();
        if (rank == 0) {
            each[b] = rate_receive(RATE_MESSAGES);
        } else {
            rate_send(RATE_MESSAGES);
        }
    }
    transport_meet();
    if (rank == 0) {
        bench_emit("rate_ofi", 1, "M/s", bench_median(each, RATE_BATCHES));
    }
    close_endpoint();
    return 0;
}

static double role_rma(int rank, int count, struct pair *group, void *shared)
{
    struct shared *s = shared;
    struct onesided o = {.rank = rank};

    (void)count, (void)group;
    open_endpoint(rank, s);
    o.window = bench_alloc(ONESIDED_WINDOW);
    check("fi_mr_reg",
          fi_mr_reg(transport.domain, o.window, ONESIDED_WINDOW, FI_REMOTE_READ | FI_REMOTE_WRITE,
                    0, MEMORY_KEY, 0, &transport.memory, NULL));
    transport.mine->window = 0;
    if (transport.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) {
        transport.mine->window = (uint64_t)(uintptr_t)o.window;
    }
    transport.mine->key = fi_mr_key(transport.memory);
    transport_meet();
    transport.target = transport.theirs->window;
    transport.key = transport.theirs->key;
    onesided_run(&o, s->argc, s->argv);
    transport_meet();
    close_endpoint();
    return 0;
}

static void measure(struct shared *s, pair_role *role)
{
    memset(s->side, 0, sizeof(s->side));
    memset(&transport, 0, sizeof(transport));
    (void)pair_run(role, s, 2, PAIR_APART);
}

int main(int argc, char **argv)
{
    struct shared *s = bench_shared(sizeof(*s));

    bench_pin_default();
    /* As the device does: its defaults are large, and no faster. */
    setenv("FI_OFI_RXM_USE_SRX", "0", 0);
    s->argc = argc;
    s->argv = argv;
    if (bench_wanted(argc, argv, "latency")) {
        measure(s, role_latency);
    }
    if (bench_wanted(argc, argv, "bandwidth")) {
        measure(s, role_bandwidth);
    }
    if (bench_wanted(argc, argv, "rate")) {
        measure(s, role_rate);
    }
    if (bench_wanted(argc, argv, "rma")) {
        measure(s, role_rma);
    }
    return 0;
}
