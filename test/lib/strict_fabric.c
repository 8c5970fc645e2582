/*
 * A libfabric that is as particular about memory as providers of hardware are, for tests where only
 * software ones run: put in front of it by LD_PRELOAD. What it says it wants, it insists on: the
 * program is aborted, with the reason, that sends, receives, reads or writes memory in a way that
 * such a provider would not take.
 *
 * STRICT_FABRIC is a list of words:
 *
 *     local       FI_MR_LOCAL: memory on this side has to be registered, too
 *     virtual     FI_MR_VIRT_ADDR: memory on the other side goes by its address, not by an offset
 *     allocated   FI_MR_ALLOCATED: what is registered has to be there, hence never the whole space
 *     key         FI_MR_PROV_KEY: the provider chooses keys
 *     endpoint    FI_MR_ENDPOINT: a registration has to be bound to its endpoint and enabled
 *     short       keys have four bytes
 *     count=N     a domain has room for N registrations
 *     opx         a provider of that name answers, too, where no order is asked for; for looks only
 *     cxi         two adapters of a provider of that name answer, too; for looks only
 *
 * STRICT_FABRIC_LOG, if set, is a file to which each process says at its end what it has seen.
 *
 * Functions that libpami does not use are left out.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "fabric.h"

/* A registration; its descriptor is itself. */
struct region {
    struct fid_mr mr;
    struct fid_mr *real; /* NULL: not enabled yet */
    struct fid_domain *domain;
    struct fid_ep *ep; /* that it is bound to */
    struct fi_ops ops;
    const char *memory;
    size_t bytes;
    uint64_t access, key;
};

static int wanted; /* FI_MR_... */
static bool short_keys, with_opx, with_cxi;
static long room = -1;

/* By their places among what is known. */
static const void *known_domains[OBJECTS], *known_endpoints[OBJECTS];
static atomic_long domain_regions[OBJECTS];
static const struct fid_domain *endpoint_domains[OBJECTS];
static atomic_ulong seen_regions, seen_refused, seen_messages, seen_remote;
static bool take_word(const char *word)
{
    static const struct {
        const char *name;
        int mode;
        bool *flag;
    } words[] = {
        {"local", .mode = FI_MR_LOCAL},
        {"virtual", .mode = FI_MR_VIRT_ADDR},
        {"allocated", .mode = FI_MR_ALLOCATED},
        {"key", .mode = FI_MR_PROV_KEY},
        {"endpoint", .mode = FI_MR_ENDPOINT},
        {"short", .flag = &short_keys},
        {"opx", .flag = &with_opx},
        {"cxi", .flag = &with_cxi},
    };

    if (strncmp(word, "count=", 6) == 0) {
        room = strtol(word + 6, NULL, 10);
        return true;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i].name) == 0) {
            wanted |= words[i].mode;
            if (words[i].flag != NULL)
                *words[i].flag = true;
            return true;
        }
    return false;
}

__attribute__((constructor)) static void start(void)
{
    read_words("STRICT_FABRIC", take_word);
}

__attribute__((destructor)) static void tell(void)
{
    FILE *file = real.msg != NULL ? open_log("STRICT_FABRIC_LOG") : NULL;

    if (file == NULL)
        return;
    fprintf(file, "registrations=%lu refused=%lu messages=%lu remote=%lu\n", seen_regions,
            seen_refused, seen_messages, seen_remote);
    fclose(file);
}

/* ---- who is whose ---- */

static atomic_long *regions_of(const struct fid_domain *domain)
{
    return &domain_regions[place_of(known_domains, domain, false)];
}

static const struct fid_domain *domain_of(const struct fid_ep *ep)
{
    return endpoint_domains[place_of(known_endpoints, ep, false)];
}

/* ---- registrations ---- */

static bool is_there(const char *memory, size_t bytes)
{
    unsigned char pages[256];
    uintptr_t at = (uintptr_t)memory & ~(uintptr_t)4095, end = (uintptr_t)memory + bytes;

    if (end < (uintptr_t)memory || bytes == SIZE_MAX)
        return false;
    for (; at < end; at += sizeof pages * 4096) {
        size_t part = end - at < sizeof pages * 4096 ? end - at : sizeof pages * 4096;

        if (mincore((void *)at, part, pages) != 0)
            return false;
    }
    return true;
}

/* Addresses of the program's are, for a provider that takes offsets, offsets from 0. */
static int enable(struct region *region)
{
    bool whole = (wanted & FI_MR_VIRT_ADDR) != 0;

    return real.mr->reg(&region->domain->fid, whole ? NULL : region->memory,
                        whole ? SIZE_MAX : region->bytes, region->access, 0, region->key, 0,
                        &region->real, NULL);
}

static int region_close(struct fid *fid)
{
    struct region *region = (struct region *)(void *)fid;
    int error = region->real != NULL ? region->real->fid.ops->close(&region->real->fid) : 0;

    if (error != 0)
        return error;
    atomic_fetch_sub(regions_of(region->domain), 1);
    free(region);
    return 0;
}

static int region_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct region *region = (struct region *)(void *)fid;
    struct fid_ep *ep = (struct fid_ep *)(void *)other;

    (void)flags;
    if (other->fclass != FI_CLASS_EP || domain_of(ep) != region->domain)
        wrong("a registration is bound to what is no endpoint of its domain");
    if (region->ep != NULL || region->real != NULL)
        wrong("a registration is bound twice, or too late");
    region->ep = ep;
    return 0;
}

static int region_control(struct fid *fid, int command, void *argument)
{
    struct region *region = (struct region *)(void *)fid;

    (void)argument;
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    if (region->ep == NULL || region->real != NULL)
        wrong("a registration is enabled that is not bound, or twice");
    return enable(region);
}

static uint64_t chosen_key(void)
{
    static _Atomic uint64_t last;
    uint64_t key = atomic_fetch_add(&last, 1) + ((uint64_t)getpid() << 20);

    key = (key ^ (key >> 27)) * UINT64_C(0x9e3779b97f4a7c15);
    return short_keys ? key >> 32 : key;
}

static struct region *region_new(const void *memory, size_t bytes, uint64_t access, uint64_t key)
{
    struct region *region = calloc(1, sizeof *region);

    if (region == NULL)
        return NULL;
    region->memory = memory;
    region->bytes = bytes;
    region->access = access;
    region->key = (wanted & FI_MR_PROV_KEY) != 0 ? chosen_key() : key;
    region->ops = (struct fi_ops){.size = sizeof region->ops,
                                  .close = region_close,
                                  .bind = region_bind,
                                  .control = region_control};
    region->mr.fid = (struct fid){.fclass = FI_CLASS_MR, .ops = &region->ops};
    region->mr.mem_desc = region;
    region->mr.key = region->key;
    return region;
}

static int refuse(int error)
{
    seen_refused++;
    return error;
}

static int strict_reg(struct fid *fid, const void *memory, size_t bytes, uint64_t access,
                      uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr,
                      void *context)
{
    struct fid_domain *domain = (struct fid_domain *)(void *)fid;
    atomic_long *regions = regions_of(domain);
    struct region *region;
    int error = 0;

    (void)context;
    if (offset != 0 || flags != 0)
        return refuse(-FI_EINVAL);
    if ((wanted & FI_MR_ALLOCATED) != 0 && !is_there(memory, bytes))
        return refuse(-FI_EINVAL);
    if ((wanted & FI_MR_PROV_KEY) == 0 && short_keys && key > UINT32_MAX)
        return refuse(-FI_EKEYREJECTED);
    if (atomic_fetch_add(regions, 1) >= room && room >= 0) {
        atomic_fetch_sub(regions, 1);
        return refuse(-FI_ENOMEM);
    }
    region = region_new(memory, bytes, access, key);
    if (region != NULL) {
        region->domain = domain;
        error = (wanted & FI_MR_ENDPOINT) != 0 ? 0 : enable(region);
    }
    if (region == NULL || error != 0) {
        atomic_fetch_sub(regions, 1);
        free(region);
        return refuse(region == NULL ? -FI_ENOMEM : error);
    }
    seen_regions++;
    *mr = &region->mr;
    return 0;
}

/* ---- their use ---- */

/* What the provider below has to hear. */
static void *check(struct fid_ep *ep, const char *call, const void *memory, size_t bytes,
                   void *descriptor, uint64_t access)
{
    const struct region *region = descriptor;
    const char *from = memory;

    if ((wanted & FI_MR_LOCAL) == 0)
        return NULL;
    if (region == NULL)
        wrong("%s: memory that is not registered", call);
    if (region->domain != domain_of(ep))
        wrong("%s: memory that is registered with another domain", call);
    if ((wanted & FI_MR_ENDPOINT) != 0 && region->ep != ep)
        wrong("%s: memory that is bound to another endpoint", call);
    if (region->real == NULL)
        wrong("%s: memory that is not enabled", call);
    if (from < region->memory || from + bytes > region->memory + region->bytes)
        wrong("%s: memory beside what is registered", call);
    if ((region->access & access) == 0)
        wrong("%s: memory that is not registered for this", call);
    return region->real->mem_desc;
}

static ssize_t strict_send(struct fid_ep *ep, const void *memory, size_t bytes, void *descriptor,
                           fi_addr_t to, void *context)
{
    seen_messages++;
    descriptor = check(ep, "fi_send", memory, bytes, descriptor, FI_SEND);
    return real.msg->send(ep, memory, bytes, descriptor, to, context);
}

static ssize_t strict_recvmsg(struct fid_ep *ep, const struct fi_msg *message, uint64_t flags)
{
    struct fi_msg same = *message;
    void *descriptor = check(ep, "fi_recvmsg", message->msg_iov->iov_base,
                             message->msg_iov->iov_len, message->desc[0], FI_RECV);

    same.desc = &descriptor;
    return real.msg->recvmsg(ep, &same, flags);
}

static ssize_t strict_readmsg(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags)
{
    struct fi_msg_rma same = *message;
    void *descriptor = check(ep, "fi_readmsg", message->msg_iov->iov_base,
                             message->msg_iov->iov_len, message->desc[0], FI_READ);

    seen_remote++;
    same.desc = &descriptor;
    return real.rma->readmsg(ep, &same, flags);
}

static ssize_t strict_writemsg(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags)
{
    struct fi_msg_rma same = *message;
    void *descriptor = check(ep, "fi_writemsg", message->msg_iov->iov_base,
                             message->msg_iov->iov_len, message->desc[0], FI_WRITE);

    seen_remote++;
    same.desc = &descriptor;
    return real.rma->writemsg(ep, &same, flags);
}

/* ---- what is opened ---- */

/* For the provider, which shall hear nothing of all this. */
static struct fi_info plain_info(const struct fi_info *info, struct fi_domain_attr *domain)
{
    struct fi_info plain = *info;

    *domain = *info->domain_attr;
    domain->mr_mode &= ~wanted;
    domain->mr_key_size = sizeof(uint64_t);
    plain.domain_attr = domain;
    return plain;
}

static int strict_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                           void *context)
{
    struct fi_domain_attr attributes;
    struct fi_info plain = plain_info(info, &attributes);
    int error = real.domain->endpoint(domain, &plain, ep, context);

    /* Some make endpoints of other kinds for themselves. */
    if (error != 0 || info->ep_attr->type != FI_EP_RDM)
        return error;
    endpoint_domains[place_of(known_endpoints, *ep, true)] = domain;
    pthread_mutex_lock(&lock);
    if (real.msg == NULL) {
        real.msg = (*ep)->msg;
        real.rma = (*ep)->rma;
        ours.msg = (struct fi_ops_msg){.size = sizeof ours.msg,
                                       .recvmsg = strict_recvmsg,
                                       .send = strict_send,
                                       .inject = real.msg->inject};
        ours.rma = (struct fi_ops_rma){
            .size = sizeof ours.rma, .readmsg = strict_readmsg, .writemsg = strict_writemsg};
    }
    pthread_mutex_unlock(&lock);
    (*ep)->msg = &ours.msg;
    (*ep)->rma = &ours.rma;
    return 0;
}

static int strict_domain(struct fid_fabric *fabric, struct fi_info *info,
                         struct fid_domain **domain, void *context)
{
    struct fi_domain_attr attributes;
    struct fi_info plain = plain_info(info, &attributes);
    int error = real.fabric->domain(fabric, &plain, domain, context);

    if (error != 0)
        return error;
    domain_regions[place_of(known_domains, *domain, true)] = 0;
    pthread_mutex_lock(&lock);
    if (real.domain == NULL) {
        real.domain = (*domain)->ops;
        ours.domain = *real.domain;
        ours.domain.endpoint = strict_endpoint;
        real.mr = (*domain)->mr;
        ours.mr = (struct fi_ops_mr){.size = sizeof ours.mr, .reg = strict_reg};
    }
    pthread_mutex_unlock(&lock);
    (*domain)->ops = &ours.domain;
    (*domain)->mr = &ours.mr;
    return 0;
}

EXPORT int fi_fabric(struct fi_fabric_attr *attributes, struct fid_fabric **fabric, void *context)
{
    return open_fabric(attributes, fabric, context, strict_domain);
}

/* The first answer once more, by other names, at the end. */
static void add(struct fi_info *list, const char *provider, const char *domain)
{
    struct fi_info *(*copy)(const struct fi_info *);
    struct fi_info *more;

    *(void **)&copy = real_function("fi_dupinfo");
    more = list != NULL ? copy(list) : NULL;
    if (more == NULL)
        return;
    free(more->fabric_attr->prov_name);
    more->fabric_attr->prov_name = strdup(provider);
    free(more->domain_attr->name);
    more->domain_attr->name = strdup(domain);
    while (list->next != NULL)
        list = list->next;
    list->next = more;
}

EXPORT int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                      const struct fi_info *hints, struct fi_info **list)
{
    int error = get_info(version, node, service, flags, hints, list);

    if (error != 0 || inside != 0)
        return error;
    if (hints == NULL || (hints->domain_attr->mr_mode & wanted) != wanted)
        wrong("fi_getinfo: the program does not offer what the provider wants");
    for (struct fi_info *info = *list; info != NULL; info = info->next) {
        info->domain_attr->mr_mode |= wanted;
        if (short_keys)
            info->domain_attr->mr_key_size = 4;
    }
    if (with_opx && hints->tx_attr->msg_order == 0)
        add(*list, "opx", "opx");
    if (with_cxi) {
        add(*list, "cxi", "cxi0");
        add(*list, "cxi", "cxi1");
    }
    return 0;
}
