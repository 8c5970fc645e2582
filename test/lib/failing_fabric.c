/*
 * A libfabric whose calls fail, for tests of what becomes of that: put in front of it by
 * LD_PRELOAD.
 *
 * FAILING_FABRIC is CALL:FIRST:COUNT:ERROR[:TASK]: calls number FIRST to FIRST+COUNT-1 of CALL
 * (counted from 1 in each process; COUNT 0: all from then on) fail with -ERROR, a number, in the
 * process of TASK (PMI_RANK; all of them if not given). A call is one of
 *
 *     getinfo fabric domain cq av endpoint bind enable getname mr
 *     insert inject send recv read write    cqread
 *     sent readdone writedone came      completions of those, which become errors
 *
 * FAILING_FABRIC_LOG, if set, is a file to which each process says at its end how often each call
 * was made.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define EXPORT __attribute__((visibility("default")))

enum call {
    GETINFO,
    FABRIC,
    DOMAIN,
    CQ,
    AV,
    ENDPOINT,
    BIND,
    ENABLE,
    GETNAME,
    MR,
    INSERT,
    INJECT,
    SEND,
    RECV,
    READ,
    WRITE,
    CQREAD,
    SENT,
    READDONE,
    WRITEDONE,
    CAME,
    CALLS
};

static const char *const names[CALLS] = {
    "getinfo", "fabric",  "domain", "cq",     "av",       "endpoint",  "bind",
    "enable",  "getname", "mr",     "insert", "inject",   "send",      "recv",
    "read",    "write",   "cqread", "sent",   "readdone", "writedone", "came",
};

static atomic_ulong made[CALLS], failed;
static struct {
    enum call call;
    unsigned long first, count;
    int error;
} plan = {.call = CALLS};
static _Thread_local int inside; /* libfabric itself calls, for a provider below another */

/* What the provider below has, and what the program gets; set once. */
static struct {
    struct fi_ops_fabric *fabric;
    struct fi_ops_domain *domain;
    struct fi_ops_mr *mr;
    struct fi_ops_msg *msg;
    struct fi_ops_rma *rma;
    struct fi_ops_cq *cq;
    struct fi_ops_av *av;
    struct fi_ops_cm *cm;
    struct fi_ops *ep;
} real;
static struct {
    struct fi_ops_fabric fabric;
    struct fi_ops_domain domain;
    struct fi_ops_mr mr;
    struct fi_ops_msg msg;
    struct fi_ops_rma rma;
    struct fi_ops_cq cq;
    struct fi_ops_av av;
    struct fi_ops_cm cm;
    struct fi_ops ep;
} ours;

/* Completions that were turned into errors, and not read yet. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct fid_cq *cq;
    struct fi_cq_err_entry entry;
} turned[64];
static unsigned turned_count;

static void *real_function(const char *name)
{
    void *library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    void *function = library != NULL ? dlsym(library, name) : NULL;

    if (function == NULL) {
        fprintf(stderr, "failing_fabric: no %s\n", name);
        abort();
    }
    return function;
}

__attribute__((constructor)) static void read_plan(void)
{
    const char *text = getenv("FAILING_FABRIC"), *rank = getenv("PMI_RANK");
    char name[32];
    int task = -1, count;

    if (text == NULL)
        return;
    count =
        sscanf(text, "%31[a-z]:%lu:%lu:%d:%d", name, &plan.first, &plan.count, &plan.error, &task);
    if (count < 4) {
        fprintf(stderr, "failing_fabric: what is '%s'?\n", text);
        abort();
    }
    if (count == 5 && (rank == NULL || atoi(rank) != task))
        return;
    for (int i = 0; i < CALLS; i++)
        if (strcmp(names[i], name) == 0)
            plan.call = (enum call)i;
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("FAILING_FABRIC_LOG");
    FILE *file = path != NULL && real.fabric != NULL ? fopen(path, "a") : NULL;

    if (file == NULL)
        return;
    for (int i = 0; i < CALLS; i++)
        fprintf(file, "%s=%lu ", names[i], made[i]);
    fprintf(file, "failed=%lu\n", failed);
    fclose(file);
}

/* 0, or the error that this call is to have. */
static int fails(enum call call)
{
    unsigned long number = atomic_fetch_add(&made[call], 1) + 1;

    if (call != plan.call || number < plan.first ||
        (plan.count != 0 && number >= plan.first + plan.count))
        return 0;
    failed++;
    return -plan.error;
}

/* ---- messages, reads and writes ---- */

static ssize_t our_send(struct fid_ep *ep, const void *memory, size_t bytes, void *descriptor,
                        fi_addr_t to, void *context)
{
    int error = fails(SEND);

    return error != 0 ? error : real.msg->send(ep, memory, bytes, descriptor, to, context);
}

static ssize_t our_inject(struct fid_ep *ep, const void *memory, size_t bytes, fi_addr_t to)
{
    int error = fails(INJECT);

    return error != 0 ? error : real.msg->inject(ep, memory, bytes, to);
}

static ssize_t our_recvmsg(struct fid_ep *ep, const struct fi_msg *message, uint64_t flags)
{
    int error = fails(RECV);

    return error != 0 ? error : real.msg->recvmsg(ep, message, flags);
}

static ssize_t our_readmsg(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags)
{
    int error = fails(READ);

    return error != 0 ? error : real.rma->readmsg(ep, message, flags);
}

static ssize_t our_writemsg(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags)
{
    int error = fails(WRITE);

    return error != 0 ? error : real.rma->writemsg(ep, message, flags);
}

/* ---- the queue ---- */

static enum call kind_of(uint64_t flags)
{
    if (flags & FI_RECV)
        return CAME;
    if (flags & FI_READ)
        return READDONE;
    return flags & FI_WRITE ? WRITEDONE : SENT;
}

static bool is_turned(struct fid_cq *cq)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < turned_count; i++)
        found = found || turned[i].cq == cq;
    pthread_mutex_unlock(&lock);
    return found;
}

static void turn(struct fid_cq *cq, const struct fi_cq_data_entry *entry, int error)
{
    pthread_mutex_lock(&lock);
    if (turned_count == 64)
        abort();
    turned[turned_count].cq = cq;
    turned[turned_count++].entry = (struct fi_cq_err_entry){
        .op_context = entry->op_context, .flags = entry->flags, .err = -error};
    pthread_mutex_unlock(&lock);
}

static ssize_t our_read(struct fid_cq *cq, void *to, size_t count)
{
    struct fi_cq_data_entry *entries = to;
    int error = fails(CQREAD);
    ssize_t got, kept = 0;

    if (error != 0)
        return error;
    if (is_turned(cq))
        return -FI_EAVAIL;
    got = real.cq->read(cq, to, count);
    for (ssize_t i = 0; i < got && to != NULL; i++) {
        error = fails(kind_of(entries[i].flags));
        if (error != 0)
            turn(cq, &entries[i], error);
        else
            entries[kept++] = entries[i];
    }
    return got > 0 && to != NULL ? (kept != 0 ? kept : -FI_EAGAIN) : got;
}

static ssize_t our_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < turned_count && !found; i++)
        if (turned[i].cq == cq) {
            *entry = turned[i].entry;
            memmove(&turned[i], &turned[i + 1], (--turned_count - i) * sizeof turned[0]);
            found = true;
        }
    pthread_mutex_unlock(&lock);
    return found ? 1 : real.cq->readerr(cq, entry, flags);
}

/* ---- what is opened ---- */

static int our_insert(struct fid_av *av, const void *name, size_t count, fi_addr_t *address,
                      uint64_t flags, void *context)
{
    int error = fails(INSERT);

    return error != 0 ? error : real.av->insert(av, name, count, address, flags, context);
}

static int our_av(struct fid_domain *domain, struct fi_av_attr *attributes, struct fid_av **av,
                  void *context)
{
    int error = fails(AV);

    if (error == 0)
        error = real.domain->av_open(domain, attributes, av, context);
    if (error != 0 || inside != 0)
        return error;
    pthread_mutex_lock(&lock);
    if (real.av == NULL) {
        real.av = (*av)->ops;
        ours.av = *real.av;
        ours.av.insert = our_insert;
    }
    pthread_mutex_unlock(&lock);
    (*av)->ops = &ours.av;
    return 0;
}

static int our_cq(struct fid_domain *domain, struct fi_cq_attr *attributes, struct fid_cq **cq,
                  void *context)
{
    int error = fails(CQ);

    if (error == 0)
        error = real.domain->cq_open(domain, attributes, cq, context);
    if (error != 0)
        return error;
    pthread_mutex_lock(&lock);
    if (real.cq == NULL) {
        real.cq = (*cq)->ops;
        ours.cq = *real.cq;
        ours.cq.read = our_read;
        ours.cq.readerr = our_readerr;
    }
    pthread_mutex_unlock(&lock);
    (*cq)->ops = &ours.cq;
    return 0;
}

static int our_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    int error = fails(BIND);

    return error != 0 ? error : real.ep->bind(fid, other, flags);
}

static int our_control(struct fid *fid, int command, void *argument)
{
    int error = command == FI_ENABLE ? fails(ENABLE) : 0;

    return error != 0 ? error : real.ep->control(fid, command, argument);
}

static int our_getname(struct fid *fid, void *name, size_t *bytes)
{
    int error = fails(GETNAME);

    return error != 0 ? error : real.cm->getname(fid, name, bytes);
}

static int our_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                        void *context)
{
    bool ours_too = info->ep_attr->type == FI_EP_RDM; /* or a connection of the provider's */
    int error = ours_too ? fails(ENDPOINT) : 0;

    if (error == 0)
        error = real.domain->endpoint(domain, info, ep, context);
    if (error != 0 || !ours_too)
        return error;
    pthread_mutex_lock(&lock);
    if (real.msg == NULL) {
        real.msg = (*ep)->msg;
        real.rma = (*ep)->rma;
        real.cm = (*ep)->cm;
        real.ep = (*ep)->fid.ops;
        ours.msg = *real.msg;
        ours.msg.send = our_send;
        ours.msg.inject = our_inject;
        ours.msg.recvmsg = our_recvmsg;
        ours.rma = *real.rma;
        ours.rma.readmsg = our_readmsg;
        ours.rma.writemsg = our_writemsg;
        ours.cm = *real.cm;
        ours.cm.getname = our_getname;
        ours.ep = *real.ep;
        ours.ep.bind = our_bind;
        ours.ep.control = our_control;
    }
    pthread_mutex_unlock(&lock);
    (*ep)->msg = &ours.msg;
    (*ep)->rma = &ours.rma;
    (*ep)->cm = &ours.cm;
    (*ep)->fid.ops = &ours.ep;
    return 0;
}

static int our_reg(struct fid *fid, const void *memory, size_t bytes, uint64_t access,
                   uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
    int error = fails(MR);

    return error != 0 ? error
                      : real.mr->reg(fid, memory, bytes, access, offset, key, flags, mr, context);
}

static int our_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                      void *context)
{
    int error = fails(DOMAIN);

    if (error == 0)
        error = real.fabric->domain(fabric, info, domain, context);
    if (error != 0)
        return error;
    pthread_mutex_lock(&lock);
    if (real.domain == NULL) {
        real.domain = (*domain)->ops;
        ours.domain = *real.domain;
        ours.domain.endpoint = our_endpoint;
        ours.domain.cq_open = our_cq;
        ours.domain.av_open = our_av;
        real.mr = (*domain)->mr;
        ours.mr = *real.mr;
        ours.mr.reg = our_reg;
    }
    pthread_mutex_unlock(&lock);
    (*domain)->ops = &ours.domain;
    (*domain)->mr = &ours.mr;
    return 0;
}

EXPORT int fi_fabric(struct fi_fabric_attr *attributes, struct fid_fabric **fabric, void *context)
{
    int (*open)(struct fi_fabric_attr *, struct fid_fabric **, void *);
    int error = inside == 0 ? fails(FABRIC) : 0;

    *(void **)&open = real_function("fi_fabric");
    inside++;
    if (error == 0)
        error = open(attributes, fabric, context);
    inside--;
    if (error != 0 || inside != 0)
        return error;
    pthread_mutex_lock(&lock);
    if (real.fabric == NULL) {
        real.fabric = (*fabric)->ops;
        ours.fabric = *real.fabric;
        ours.fabric.domain = our_domain;
    }
    pthread_mutex_unlock(&lock);
    (*fabric)->ops = &ours.fabric;
    return 0;
}

EXPORT int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                      const struct fi_info *hints, struct fi_info **list)
{
    int (*get)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
               struct fi_info **);
    int error = inside == 0 ? fails(GETINFO) : 0;

    *(void **)&get = real_function("fi_getinfo");
    inside++;
    if (error == 0)
        error = get(version, node, service, flags, hints, list);
    inside--;
    return error;
}
