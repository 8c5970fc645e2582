/*
 * Slots: a libfabric endpoint with its own domain, address vector, completion queue and buffers.
 *
 * Each slot has a domain of its own because providers that are told FI_THREAD_DOMAIN lock nothing
 * within a domain, and contexts belong to different threads.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "device/ofi/buffers.h"
#include "device/ofi/errors.h"
#include "util/log.h"
#include "util/option.h"

/* Packets of the largest size that a receive buffer holds. */
#define PACKETS_PER_BUFFER 16u
/* Descriptors that another task may take, as each end may make a connection: between receptions,
 * between two contexts. And those of the rest of the process. */
#define FILES_TASK 2u
#define FILES_CONTEXT 2u
#define FILES_PROGRAM 512u

/* A call of libfabric that failed; named in the log, once. What is lacking the program can give. */
static int failed(const char *call, long error)
{
    log_error("ofi: %s: %s", call, fi_strerror((int)-error));
    return error == -FI_ENOMEM || ofi_is_lack((int)-error) ? (int)error : -EIO;
}

/*
 * What tells when the queue has something. The descriptor of some providers (net) is ready all the
 * time, but it still wakes who waits for it at every change: an epoll set that listens for edges
 * tells those apart. It is made at the first sleep, for it makes every message a little slower.
 */
void ofi_slot_edges(struct ofi_slot *slot)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    int fd;

    if (slot->sleeps || slot->cq_fd < 0)
        return;
    slot->sleeps = true;
    fd = epoll_create1(EPOLL_CLOEXEC);
    slot->edges = fd >= 0 && epoll_ctl(fd, EPOLL_CTL_ADD, slot->cq_fd, &event) == 0;
    if (slot->edges)
        slot->cq_fd = fd;
    else if (fd >= 0)
        close(fd);
}

static int open_queue(struct ofi_slot *slot)
{
    struct fi_cq_attr attributes = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD};
    int error = fi_cq_open(slot->domain, &attributes, &slot->cq, NULL);

    if (error == 0) {
        if (fi_control(&slot->cq->fid, FI_GETWAIT, &slot->cq_fd) != 0)
            slot->cq_fd = -1;
        return 0;
    }
    attributes.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(slot->domain, &attributes, &slot->cq, NULL);
}

/* The shared heap stays where it is, with all its pages, as long as anybody may ask for it. */
static void tell_heap(struct ofi_slot *slot)
{
    struct device *device = slot->device->heap;
    struct heap_view view;

    if (device == NULL || device->ops->heap_view(device, slot->device->bootstrap->task, &view) != 0)
        return;
    slot->name.heap = view.remote;
    slot->name.heap_bytes = view.bytes;
}

/*
 * The whole address space under one key that nobody can guess, so that any memory can be read and
 * written by those who were told the key. Software providers can; where it fails, or where every
 * piece of memory has to be registered by itself, that is done for what is exposed (expose.c).
 */
static void register_everything(struct ofi_slot *slot)
{
    const struct fi_info *info = slot->device->provider.info;
    uint64_t key;
    int error;

    if (!slot->device->provider.remote || option_choice(OPT_OFI_RMA) != RMA_ANY_MEMORY ||
        (info->domain_attr->mr_mode & (FI_MR_LOCAL | FI_MR_ENDPOINT)) != 0)
        return;
    error =
        ofi_region_expose(slot, NULL, SIZE_MAX, FI_REMOTE_READ | FI_REMOTE_WRITE, &slot->all, &key);
    if (error != 0) {
        log_info("ofi: remote access to regions only: %s", fi_strerror(-error));
        return;
    }
    slot->name.readable = true;
    slot->name.key = key;
    tell_heap(slot);
}

/*
 * Providers whose addresses are texts (shm) take what they were asked about for the name of every
 * endpoint; each slot needs one of its own. To be freed.
 */
static struct fi_info *info_for(const struct ofi_slot *slot, uint32_t number)
{
    struct fi_info *info = fi_dupinfo(slot->device->provider.info);
    char name[80];

    if (info == NULL || info->addr_format != FI_ADDR_STR)
        return info;
    snprintf(name, sizeof(name), "fi_shm://%ld:%s:%u", (long)getpid(), slot->device->client,
             slot->offset + number * slot->device->contexts);
    free(info->src_addr);
    info->src_addr = strdup(name);
    info->src_addrlen = strlen(name) + 1;
    return info;
}

static void close_object(struct fid *fid)
{
    int error = fi_close(fid);

    if (error != 0)
        log_debug("ofi: fi_close: %s", fi_strerror(-error));
}

/* The endpoint of packets, number 0, or another one. *ep is NULL when it fails. */
static int open_one(struct ofi_slot *slot, uint32_t number, struct fid_ep **ep)
{
    struct fi_info *info = info_for(slot, number);
    const char *call = "fi_endpoint";
    int error = -FI_ENOMEM;

    *ep = NULL;
    if (info != NULL) {
        error = fi_endpoint(slot->domain, info, ep, NULL);
        fi_freeinfo(info);
    }
    if (error == 0) {
        call = "fi_enable";
        error = fi_ep_bind(*ep, &slot->cq->fid, FI_TRANSMIT | FI_RECV);
        if (error == 0)
            error = fi_ep_bind(*ep, &slot->av->fid, 0);
        if (error == 0)
            error = fi_enable(*ep);
    }
    if (error == 0)
        return 0;
    if (*ep != NULL)
        close_object(&(*ep)->fid);
    *ep = NULL;
    return failed(call, error);
}

/* Memory is bound to one endpoint and cannot be used through another. */
static bool has_one_rail(const struct ofi_slot *slot)
{
    const int bound = FI_MR_LOCAL | FI_MR_ENDPOINT;

    return (slot->device->provider.info->domain_attr->mr_mode & bound) == bound;
}

bool ofi_rails_are_apart(const struct ofi_slot *slot)
{
    return slot->device->provider.apart && !has_one_rail(slot);
}

/*
 * The endpoints of remote reads and writes: others, whose names nobody has to know, unless they
 * are costly, or there can be but one. Where they cannot be had packets have to do, in this life of
 * the context: from that of packets nothing could be taken back.
 */
bool ofi_rails_open(struct ofi_slot *slot)
{
    uint32_t count = has_one_rail(slot) ? 1 : (uint32_t)option_int(OPT_OFI_RAILS);
    int cancel;

    if (slot->no_rails)
        return false;
    cancel = ofi_enter();
    if (!ofi_rails_are_apart(slot))
        slot->rails[slot->rail_count++] = slot->ep;
    while (slot->rail_count < count &&
           open_one(slot, slot->rail_count + 1, &slot->rails[slot->rail_count]) == 0)
        slot->rail_count++;
    slot->no_rails = slot->rail_count == 0;
    ofi_leave(cancel);
    return !slot->no_rails;
}

/* What is under way there ends, and touches no memory any more. */
void ofi_rails_close(struct ofi_slot *slot)
{
    int cancel = ofi_enter();

    while (slot->rail_count != 0)
        if (slot->rails[--slot->rail_count] != slot->ep)
            close_object(&slot->rails[slot->rail_count]->fid);
    ofi_leave(cancel);
}

static int open_endpoint(struct ofi_slot *slot)
{
    const struct ofi_provider *provider = &slot->device->provider;
    struct fi_av_attr av = {.type = FI_AV_UNSPEC, .count = 64};
    size_t bytes = OFI_NAME_MAX;
    int error = fi_domain(provider->fabric, provider->info, &slot->domain, NULL);

    if (error != 0)
        return failed("fi_domain", error);
    error = open_queue(slot);
    if (error != 0)
        return failed("fi_cq_open", error);
    error = fi_av_open(slot->domain, &av, &slot->av, NULL);
    if (error != 0)
        return failed("fi_av_open", error);
    error = open_one(slot, 0, &slot->ep);
    if (error != 0)
        return error;
    error = fi_getname(&slot->ep->fid, slot->name.name, &bytes);
    if (error != 0 || bytes > OFI_NAME_MAX)
        return failed("fi_getname", error != 0 ? error : -FI_ETOOSMALL);
    slot->name.bytes = (uint32_t)bytes;
    return 0;
}

/* ---- buffers ---- */

/*
 * A buffer takes many messages where the provider gives it back before what is left of it is too
 * little for the next one, which it would cut short. After fi_enable: the shm provider crashes when
 * it is told before.
 */
static bool takes_many(const struct ofi_slot *slot)
{
    int error;

    if (!slot->device->provider.multi_receive)
        return false;
    error = fi_setopt(&slot->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &slot->message_max,
                      sizeof(slot->message_max));
    if (error != 0)
        log_info("ofi: a buffer for each message: FI_OPT_MIN_MULTI_RECV: %s", fi_strerror(-error));
    return error == 0;
}

int ofi_slot_post(struct ofi_slot *slot, struct ofi_receive *receive)
{
    struct iovec vector = {.iov_base = receive->memory, .iov_len = slot->receive_bytes};
    void *descriptor = slot->receive_region.descriptor;
    struct fi_msg message = {
        .msg_iov = &vector,
        .desc = &descriptor,
        .iov_count = 1,
        .addr = FI_ADDR_UNSPEC,
        .context = &receive->context,
    };
    int cancel = ofi_enter();
    ssize_t error = fi_recvmsg(slot->ep, &message, slot->multi_receive ? FI_MULTI_RECV : 0);

    ofi_leave(cancel);
    receive->posted = error == 0;
    return error == 0 ? 0 : error == -FI_EAGAIN ? -EAGAIN : failed("fi_recvmsg", error);
}

static int make_receives(struct ofi_slot *slot)
{
    bool multi = slot->multi_receive;
    uint32_t buffers = (uint32_t)option_int(OPT_OFI_RECEIVE_BUFFERS);

    slot->receive_count = multi ? buffers : buffers * PACKETS_PER_BUFFER;
    slot->receive_bytes = multi ? slot->message_max * PACKETS_PER_BUFFER : slot->message_max;
    slot->receives = calloc(slot->receive_count, sizeof(*slot->receives));
    slot->straight = malloc(slot->message_max);
    slot->receive_memory =
        aligned_alloc(4096, (slot->receive_count * slot->receive_bytes + 4095) & ~(size_t)4095);
    if (slot->receives == NULL || slot->receive_memory == NULL || slot->straight == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < slot->receive_count; i++)
        slot->receives[i].memory = slot->receive_memory + i * slot->receive_bytes;
    return 0;
}

static int register_receives(struct ofi_slot *slot)
{
    size_t bytes = slot->receive_count * slot->receive_bytes;
    int error;

    if ((slot->device->provider.info->domain_attr->mr_mode & FI_MR_LOCAL) == 0)
        return 0;
    error =
        ofi_region_register(slot, slot->receive_memory, bytes, FI_RECV, 1, &slot->receive_region);
    return error == 0 ? 0 : failed("fi_mr_reg", error);
}

static int make_buffers(struct ofi_slot *slot)
{
    int error = ofi_buffers_make(slot, (uint32_t)option_int(OPT_OFI_SEND_BUFFERS));

    return error == 0 ? 0 : failed("send buffers", error);
}

static int post_all(struct ofi_slot *slot)
{
    int error = 0;

    for (uint32_t i = 0; i < slot->receive_count && error == 0; i++) {
        error = ofi_slot_post(slot, &slot->receives[i]);
        if (error == -EAGAIN && i != 0)
            return 0; /* the provider takes no more at a time */
    }
    return error;
}

/*
 * Descriptors for all tasks that this one may have to do with, if they have as many contexts as it
 * has now. A process may open 1024 unless somebody has seen to it, as select knows no more, though
 * the system allows it many times that.
 */
static void allow_descriptors(const struct ofi_device *device)
{
    const struct bootstrap *job = device->bootstrap;
    rlim_t endpoints = (rlim_t)option_int(OPT_OFI_RAILS) + device->provider.apart;
    rlim_t contexts = 1, wanted;
    struct rlimit limit;

    for (uint32_t i = 0; i < device->contexts; i++)
        contexts += device->slots[i] != NULL;
    wanted = FILES_CONTEXT * endpoints * contexts * contexts;
    wanted = FILES_PROGRAM + (FILES_TASK + wanted) * (job->tasks + job->servers);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int ofi_slot_new(struct ofi_device *device, uint32_t offset, struct ofi_slot **out)
{
    struct ofi_slot *slot = calloc(1, sizeof(*slot));
    const struct fi_info *info = device->provider.info;
    int error;

    if (slot == NULL)
        return -ENOMEM;
    allow_descriptors(device);
    slot->device = device;
    slot->offset = offset;
    slot->packet_max = option_bytes(OPT_OFI_PACKET_BYTES) & ~(size_t)7;
    slot->credits = (uint32_t)option_int(OPT_OFI_CREDITS) * ofi_units(slot->packet_max, true);
    for (slot->window = 1; slot->window < slot->credits;)
        slot->window *= 2;
    slot->inject_max = info->tx_attr->inject_size;
    slot->cq_fd = -1;
    slot->message_max = ofi_message_bytes(slot->packet_max);
    slot->gather_frame = ofi_gather_frame(slot->packet_max);
    slot->gather_max = slot->message_max < OFI_GATHER_BYTES ? slot->message_max : OFI_GATHER_BYTES;
    list_init(&slot->blocks);
    list_init(&slot->free);
    list_init(&slot->gathering);
    list_init(&slot->links);
    list_init(&slot->owing);
    list_init(&slot->blocked);
    list_init(&slot->remotes);
    list_init(&slot->orphans);
    list_init(&slot->spare);
    list_init(&slot->notices);
    error = open_endpoint(slot);
    slot->multi_receive = error == 0 && takes_many(slot);
    if (error == 0)
        error = make_receives(slot);
    if (error == 0)
        error = make_buffers(slot);
    if (error == 0)
        error = register_receives(slot);
    if (error == 0)
        error = post_all(slot);
    if (error != 0) {
        ofi_slot_free(slot);
        return error;
    }
    register_everything(slot);
    *out = slot;
    return 0;
}

/* Nobody advances it any more, and the reception knows it no longer. */
void ofi_slot_free(struct ofi_slot *slot)
{
    struct list *item;

    ofi_region_release(&slot->all);
    ofi_exposures_free(slot);
    ofi_rails_close(slot);
    if (slot->ep != NULL)
        close_object(&slot->ep->fid);
    ofi_remotes_finish(slot);
    ofi_region_release(&slot->receive_region);
    ofi_buffers_free(slot);
    if (slot->edges)
        close(slot->cq_fd);
    if (slot->cq != NULL)
        close_object(&slot->cq->fid);
    if (slot->av != NULL)
        close_object(&slot->av->fid);
    if (slot->domain != NULL)
        close_object(&slot->domain->fid);
    while ((item = list_pop_front(&slot->links)) != NULL)
        ofi_link_free(list_entry(item, struct ofi_link, link));
    while ((item = list_pop_front(&slot->notices)) != NULL)
        free(list_entry(item, struct ofi_notice, link));
    u64map_finish(&slot->map);
    free(slot->straight);
    free(slot->receives);
    free(slot->receive_memory);
    free(slot);
}
