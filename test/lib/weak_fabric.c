/*
 * A libfabric that can do less than the providers which run where tests do: put in front of it by
 * LD_PRELOAD. It insists on its limits: the program that asks for more is aborted, with the reason.
 *
 * WEAK_FABRIC is a list of words:
 *
 *     disorder    messages overtake one another, as with opx; and blind. What is late moves on only
 *                 while the queue is looked at: for programs that advance until all has come
 *     messages    nothing but messages: no remote access, no receive buffers for many, no order
 *     inject=N    that many bytes can be injected; 16 as with opx
 *     vague       what a write has done at the other end is never known
 *     contexts    FI_CONTEXT and FI_CONTEXT2: each operation has 64 bytes that the provider uses
 *     blind       no wait object: a queue has to be looked at
 *
 * WEAK_FABRIC_LOG, if set, is a file to which each process says at its end what it has seen.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "fabric.h"

/* Messages of an endpoint that are late at a time. */
#define LATE_MOST 8u

/* A message that others overtake. */
struct late {
    void *copy; /* of what was injected, or NULL */
    const void *memory;
    size_t bytes;
    void *descriptor, *context;
    fi_addr_t to;
};

/* An endpoint belongs to one thread at a time, as all of its domain does. */
struct endpoint {
    struct fid_ep *ep;
    const struct fid_domain *domain;
    unsigned count;
    struct late late[LATE_MOST];
};

static bool disorder, messages_only, vague, with_contexts, blind;
static size_t inject_most = SIZE_MAX;

/* By their places among what is known. */
static const void *known_endpoints[OBJECTS], *known_queues[OBJECTS];
static struct endpoint endpoints[OBJECTS];
static const struct fid_domain *queue_domains[OBJECTS];
static atomic_ulong seen_messages, seen_injected, seen_late, seen_remote, seen_vague;
static bool take_word(const char *word)
{
    static const struct {
        const char *name;
        bool *flag;
    } words[] = {
        {"disorder", &disorder}, {"messages", &messages_only},
        {"vague", &vague},       {"contexts", &with_contexts},
        {"blind", &blind},
    };

    if (strncmp(word, "inject=", 7) == 0) {
        inject_most = strtoul(word + 7, NULL, 10);
        return true;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i].name) == 0) {
            *words[i].flag = true;
            return true;
        }
    return false;
}

__attribute__((constructor)) static void start(void)
{
    read_words("WEAK_FABRIC", take_word);
    blind = blind || disorder;
}

__attribute__((destructor)) static void tell(void)
{
    FILE *file = real.msg != NULL ? open_log("WEAK_FABRIC_LOG") : NULL;

    if (file == NULL)
        return;
    fprintf(file, "messages=%lu injected=%lu late=%lu remote=%lu vague=%lu\n", seen_messages,
            seen_injected, seen_late, seen_remote, seen_vague);
    fclose(file);
}

static void note_endpoint(struct fid_ep *ep, const struct fid_domain *domain)
{
    struct endpoint *endpoint = &endpoints[place_of(known_endpoints, ep, true)];

    for (unsigned i = 0; i < endpoint->count; i++)
        free(endpoint->late[i].copy);
    *endpoint = (struct endpoint){.ep = ep, .domain = domain};
}

/* ---- messages ---- */

static unsigned chance(unsigned of)
{
    static _Thread_local uint64_t state;

    if (state == 0)
        state = (uint64_t)getpid() * UINT64_C(0x9e3779b97f4a7c15);
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 32) % of;
}

static void use_context(const char *call, void *context)
{
    if (!with_contexts)
        return;
    if (context == NULL)
        wrong("%s: no context", call);
    memset(context, 0xa5, sizeof(struct fi_context2));
}

/* One of those that wait goes; false: not now. Whom it cannot be sent to has gone. */
static bool release_one(struct endpoint *endpoint)
{
    unsigned which = chance(endpoint->count);
    struct late late = endpoint->late[which];
    ssize_t error;

    error = late.copy != NULL ? real.msg->inject(endpoint->ep, late.copy, late.bytes, late.to)
                              : real.msg->send(endpoint->ep, late.memory, late.bytes,
                                               late.descriptor, late.to, late.context);
    if (error == -FI_EAGAIN)
        return false;
    free(late.copy);
    endpoint->late[which] = endpoint->late[--endpoint->count];
    return true;
}

/* It waits here for a while; false: it does not. */
static bool keep(struct fid_ep *ep, const struct late *late)
{
    struct endpoint *endpoint = disorder ? &endpoints[place_of(known_endpoints, ep, false)] : NULL;
    struct late *place;

    if (endpoint == NULL || endpoint->count == LATE_MOST || chance(3) != 0)
        return false;
    place = &endpoint->late[endpoint->count];
    *place = *late;
    if (late->copy != NULL) {
        place->copy = malloc(late->bytes + 1);
        if (place->copy == NULL)
            return false;
        memcpy(place->copy, late->memory, late->bytes);
    }
    endpoint->count++;
    seen_late++;
    return true;
}

static ssize_t weak_send(struct fid_ep *ep, const void *memory, size_t bytes, void *descriptor,
                         fi_addr_t to, void *context)
{
    const struct late late = {
        .memory = memory, .bytes = bytes, .descriptor = descriptor, .context = context, .to = to};

    ssize_t error;

    use_context("fi_send", context);
    error = keep(ep, &late) ? 0 : real.msg->send(ep, memory, bytes, descriptor, to, context);
    seen_messages += error == 0;
    return error;
}

static ssize_t weak_inject(struct fid_ep *ep, const void *memory, size_t bytes, fi_addr_t to)
{
    const struct late late = {.copy = &seen_injected, .memory = memory, .bytes = bytes, .to = to};

    ssize_t error;

    if (bytes > inject_most)
        wrong("fi_inject: %zu bytes", bytes);
    error = keep(ep, &late) ? 0 : real.msg->inject(ep, memory, bytes, to);
    seen_messages += error == 0;
    seen_injected += error == 0;
    return error;
}

static ssize_t weak_recvmsg(struct fid_ep *ep, const struct fi_msg *message, uint64_t flags)
{
    use_context("fi_recvmsg", message->context);
    if (messages_only && (flags & FI_MULTI_RECV) != 0)
        wrong("fi_recvmsg: a buffer for many messages");
    return real.msg->recvmsg(ep, message, flags);
}

/* ---- remote access ---- */

static ssize_t weak_readmsg(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags)
{
    ssize_t error;

    use_context("fi_readmsg", message->context);
    if (messages_only)
        wrong("fi_readmsg");
    error = real.rma->readmsg(ep, message, flags);
    seen_remote += error == 0;
    return error;
}

static ssize_t weak_writemsg(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags)
{
    ssize_t error;

    use_context("fi_writemsg", message->context);
    if (messages_only)
        wrong("fi_writemsg");
    if (vague && (flags & (FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE)) != 0) {
        seen_vague++;
        return -FI_EOPNOTSUPP;
    }
    error = real.rma->writemsg(ep, message, flags);
    seen_remote += error == 0;
    return error;
}

/* ---- the queue ---- */

/* Of the queue's endpoints. Sooner or later all go that wait. */
static void release_some(const struct fid_cq *cq)
{
    const struct fid_domain *domain = queue_domains[place_of(known_queues, cq, false)];

    for (unsigned i = 0; i < OBJECTS; i++)
        while (endpoints[i].domain == domain && endpoints[i].count != 0 && chance(2) == 0)
            if (!release_one(&endpoints[i]))
                break;
}

static ssize_t weak_read(struct fid_cq *cq, void *to, size_t count)
{
    if (disorder)
        release_some(cq);
    return real.cq->read(cq, to, count);
}

/* ---- what is opened ---- */

static int weak_cq(struct fid_domain *domain, struct fi_cq_attr *attributes, struct fid_cq **cq,
                   void *context)
{
    int error = blind && attributes->wait_obj != FI_WAIT_NONE ? -FI_ENOSYS : 0;

    if (error == 0)
        error = real.domain->cq_open(domain, attributes, cq, context);
    if (error != 0)
        return error;
    queue_domains[place_of(known_queues, *cq, true)] = domain;
    pthread_mutex_lock(&lock);
    if (real.cq == NULL) {
        real.cq = (*cq)->ops;
        ours.cq = *real.cq;
        ours.cq.read = weak_read;
    }
    pthread_mutex_unlock(&lock);
    (*cq)->ops = &ours.cq;
    return 0;
}

static int weak_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                         void *context)
{
    int error = real.domain->endpoint(domain, info, ep, context);

    /* Some make endpoints of other kinds for themselves. */
    if (error != 0 || info->ep_attr->type != FI_EP_RDM)
        return error;
    note_endpoint(*ep, domain);
    pthread_mutex_lock(&lock);
    if (real.msg == NULL) {
        real.msg = (*ep)->msg;
        real.rma = (*ep)->rma;
        ours.msg = (struct fi_ops_msg){.size = sizeof ours.msg,
                                       .recvmsg = weak_recvmsg,
                                       .send = weak_send,
                                       .inject = weak_inject};
        ours.rma = (struct fi_ops_rma){
            .size = sizeof ours.rma, .readmsg = weak_readmsg, .writemsg = weak_writemsg};
    }
    pthread_mutex_unlock(&lock);
    (*ep)->msg = &ours.msg;
    (*ep)->rma = &ours.rma;
    return 0;
}

static int weak_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    int error = real.fabric->domain(fabric, info, domain, context);

    if (error != 0)
        return error;
    pthread_mutex_lock(&lock);
    if (real.domain == NULL) {
        real.domain = (*domain)->ops;
        ours.domain = *real.domain;
        ours.domain.endpoint = weak_endpoint;
        ours.domain.cq_open = weak_cq;
    }
    pthread_mutex_unlock(&lock);
    (*domain)->ops = &ours.domain;
    return 0;
}

EXPORT int fi_fabric(struct fi_fabric_attr *attributes, struct fid_fabric **fabric, void *context)
{
    return open_fabric(attributes, fabric, context, weak_domain);
}

/* A provider answers whom it can give all that he asks for. */
static bool asks_too_much(const struct fi_info *hints)
{
    if ((disorder || messages_only) && hints->tx_attr->msg_order != 0)
        return true;
    return messages_only && (hints->caps & ~FI_MSG) != 0;
}

EXPORT int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                      const struct fi_info *hints, struct fi_info **list)
{
    int error;

    if (inside == 0 && hints == NULL)
        wrong("fi_getinfo: no hints");
    if (inside == 0 && asks_too_much(hints))
        return -FI_ENODATA;
    if (inside == 0 && with_contexts && (hints->mode & FI_CONTEXT2) == 0)
        wrong("fi_getinfo: the program does not offer contexts");
    error = get_info(version, node, service, flags, hints, list);
    if (error != 0 || inside != 0)
        return error;
    for (struct fi_info *info = *list; info != NULL; info = info->next) {
        if (info->tx_attr->inject_size > inject_most)
            info->tx_attr->inject_size = inject_most;
        if (disorder)
            info->tx_attr->msg_order = info->rx_attr->msg_order = 0;
    }
    return 0;
}
