/*
 * A libfabric whose calls fail, for tests of what becomes of that: put in front of it by
 * LD_PRELOAD.
 *
 * FAILING_FABRIC is CALL:FIRST:COUNT:ERROR[:TASK]: calls number FIRST to FIRST+COUNT-1 of CALL
 * (counted from 1 in each process; COUNT 0: all from then on) fail with -ERROR, a number, in the
 * process of TASK (PMI_RANK; all of them if not given). A call is one of
 *
 *     getinfo fabric domain cq av endpoint bind enable getname setopt mr
 *     insert inject send recv read write    cqread
 *     sent readdone writedone came      completions of those, which become errors
 *
 * FAILING_FABRIC_LOG, if set, is a file to which each process says at its end how often each call
 * was made.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "fabric.h"

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
    SETOPT,
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
    "getinfo", "fabric", "domain", "cq",       "av",        "endpoint", "bind", "enable",
    "getname", "setopt", "mr",     "insert",   "inject",    "send",     "recv", "read",
    "write",   "cqread", "sent",   "readdone", "writedone", "came",
};

static atomic_ulong made[CALLS], failed;
static struct {
    enum call call;
    unsigned long first, count;
    int error;
} plan = {.call = CALLS};

/* Completions that were turned into errors, and not read yet. */
static struct {
    struct fid_cq *cq;
    struct fi_cq_err_entry entry;
} turned[64];
static unsigned turned_count;

__attribute__((constructor)) static void read_plan(void)
{
    const char *text = getenv("FAILING_FABRIC"), *rank = getenv("PMI_RANK");
    char name[32];
    int task = -1, count;

    if (text == NULL)
        return;
    count =
        sscanf(text, "%31[a-z]:%lu:%lu:%d:%d", name, &plan.first, &plan.count, &plan.error, &task);
    if (count < 4)
        wrong("FAILING_FABRIC: what is '%s'?", text);
    if (count == 5 && (rank == NULL || atoi(rank) != task))
        return;
    for (int i = 0; i < CALLS; i++)
        if (strcmp(names[i], name) == 0)
            plan.call = (enum call)i;
}

__attribute__((destructor)) static void tell(void)
{
    FILE *file = made[GETINFO] != 0 ? open_log("FAILING_FABRIC_LOG") : NULL;

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
        wrong("too many errors that nobody reads");
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

static int our_setopt(struct fid *fid, int level, int name, const void *value, size_t bytes)
{
    int error = fails(SETOPT);

    return error != 0 ? error : real.options->setopt(fid, level, name, value, bytes);
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
        real.options = (*ep)->ops;
        ours.options = *real.options;
        ours.options.setopt = our_setopt;
    }
    pthread_mutex_unlock(&lock);
    (*ep)->msg = &ours.msg;
    (*ep)->rma = &ours.rma;
    (*ep)->cm = &ours.cm;
    (*ep)->fid.ops = &ours.ep;
    (*ep)->ops = &ours.options;
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
    int error = inside == 0 ? fails(FABRIC) : 0;

    return error != 0 ? error : open_fabric(attributes, fabric, context, our_domain);
}

EXPORT int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                      const struct fi_info *hints, struct fi_info **list)
{
    int error = inside == 0 ? fails(GETINFO) : 0;

    return error != 0 ? error : get_info(version, node, service, flags, hints, list);
}
