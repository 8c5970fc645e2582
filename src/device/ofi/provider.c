/*
 * Choosing a libfabric provider: what is asked for, in steps from all that helps to the least that
 * will do, and which of those that answer any is taken.
 *
 * What a provider claims is not believed where it matters: order and completeness of packets are
 * checked by our own numbers (link.c), remote reads by a registration that must succeed (slot.c).
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "device/ofi/ofi.h"
#include "util/log.h"
#include "util/option.h"

#define API_VERSION FI_VERSION(1, 11)

/* Adapters of a kind that are told apart. */
#define ADAPTERS_MAX 64u

struct step {
    uint64_t caps;
    uint64_t order;
    bool multi_receive, remote;
    const char *without; /* what this step does without */
};

static const struct step steps[] = {
    {FI_MSG | FI_RMA | FI_MULTI_RECV, FI_ORDER_SAS, true, true, ""},
    {FI_MSG | FI_MULTI_RECV, FI_ORDER_SAS, true, false, ", without remote reads"},
    {FI_MSG | FI_RMA, FI_ORDER_SAS, false, true, ", without multi-receive"},
    {FI_MSG | FI_RMA | FI_MULTI_RECV, 0, true, true, ", without order"},
    {FI_MSG, 0, false, false, ", messages only"},
};

#define STEPS (sizeof(steps) / sizeof(steps[0]))

/*
 * How welcome a provider is; 0: only when asked for by name. Those that are not listed come after
 * hardware and before nothing.
 */
struct preference {
    const char *name;
    int value;
    const char *why;
};

static const struct preference preferences[] = {
    {"cxi", 100, "hardware"},
    {"efa", 95, "hardware"},
    {"verbs;ofi_rxm", 90, "hardware"},
    {"psm3", 85, "hardware"},
    {"opx", 80, "hardware"},
    {"psm2", 75, "hardware"},
    {"tcp", 56, "sockets"}, /* with endpoints of its own kind from libfabric 1.18 on */
    {"net", 55, "sockets"}, /* what became that */
    {"tcp;ofi_rxm", 50, "sockets, another layer between"},
    {"udp;ofi_rxd", 20, "datagrams; slow, messages only, and a dead peer is not noticed by it"},
    {"sockets", 10, "sockets by helper threads; slow on few processors"},
    {"net;ofi_rxm", 0, "one layer too many"},
    {"shm", 0, "reaches this node only"},
};

static struct preference preference_of(const char *name)
{
    for (size_t i = 0; i < sizeof(preferences) / sizeof(preferences[0]); i++)
        if (strcmp(preferences[i].name, name) == 0)
            return preferences[i];
    if (strncmp(name, "ofi_hook", 8) == 0)
        return (struct preference){name, 0, "a hook"};
    return (struct preference){name, 5, "unknown to us"};
}

static void set_default(const char *name, unsigned long value)
{
    char text[32];

    snprintf(text, sizeof(text), "%lu", value);
    setenv(name, text, 0);
}

/*
 * What a buffer of ofi_rxm's own is to take, where our messages are of `message` bytes with its
 * headers. It makes them by 1024 for each endpoint, for sending and for receiving, and clears them
 * all when it needs the first: 66 MiB each time, if they take our messages. Over tcp it sends from
 * our memory and receives into it, or into memory that it makes for one message where there is none
 * of ours; so from libfabric 1.17 on (earlier ones have not been tried), where that limit is apart,
 * its buffers have to take its own messages only. 8000 messages of 2000 bytes, one way, cost 0.6 s
 * of processor time then, and not 4.1; of 64 KiB 1.5 s, and not 3.3 (Xeon, 2026-11-28).
 */
static unsigned long rxm_buffer(unsigned long message)
{
    bool direct = strcmp(option_string(OPT_OFI_PROVIDER), "tcp;ofi_rxm") == 0;

    return direct && fi_version() >= FI_VERSION(1, 17) && message > 512 ? 512 : message;
}

/*
 * Before the first call of libfabric that looks at providers. What the user has set stays. ofi_rxd
 * (1.17) sends each peer 128 datagrams before it waits for an answer: more than a socket takes that
 * nobody reads, by net.core.rmem_default, and of what it sends anew some never gets there.
 */
void ofi_environment(struct bootstrap *bootstrap)
{
    unsigned long message = ofi_message_bytes(option_bytes(OPT_OFI_PACKET_BYTES)) + 64;

    set_default("FI_OFI_RXM_USE_SRX", 0);
    set_default("FI_OFI_RXM_CM_PROGRESS_INTERVAL", 500);
    set_default("FI_OFI_RXM_TX_SIZE", 512);
    set_default("FI_OFI_RXM_RX_SIZE", 512);
    /* Packets shall never be its rendezvous. Without tcp this counts no more than the next. */
    set_default("FI_OFI_RXM_EAGER_LIMIT", message);
    set_default("FI_OFI_RXM_BUFFER_SIZE", rxm_buffer(message));
    set_default("FI_OFI_RXM_MSG_RX_SIZE", 32);
    set_default("FI_OFI_RXD_MAX_UNACKED", 8);
    set_default("FI_UNIVERSE_SIZE", bootstrap->tasks < 256 ? 256 : bootstrap->tasks);
}

static struct fi_info *hints_for(const struct step *step)
{
    struct fi_info *hints = fi_allocinfo();

    if (hints == NULL)
        return NULL;
    hints->caps = step->caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_ASYNC_IOV;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = step->order;
    return hints;
}

static bool has_internet_address(const struct fi_info *info)
{
    return info->addr_format == FI_SOCKADDR_IN || info->addr_format == FI_SOCKADDR_IN6 ||
           info->addr_format == FI_SOCKADDR;
}

static bool is_over_sockets(const struct fi_info *info)
{
    return has_internet_address(info) && strncmp(info->fabric_attr->prov_name, "verbs", 5) != 0;
}

/*
 * Whether a receive buffer can take many messages. FI_MULTI_RECV should come with the last
 * completion of a buffer. With net and tcp;ofi_rxm (libfabric 1.17) it comes with the message that
 * was begun last, while earlier ones are still being read from other connections: a buffer that is
 * posted again then is written twice. What goes over sockets has a buffer for each message.
 */
static bool can_multi_receive(const struct fi_info *info, const struct step *step)
{
    return step->multi_receive && !is_over_sockets(info);
}

/* With udp;ofi_rxd (libfabric 1.17) reads under load may never complete, and all behind them waits:
 * 9 of 30 runs of a stream of messages. */
static bool can_rma(const struct fi_info *info, const struct step *step)
{
    return step->remote && strcmp(info->fabric_attr->prov_name, "udp;ofi_rxd") != 0;
}

/* All that answer: on the interface, and those that know no interfaces. Appends to *list. */
static void ask(const struct step *step, const char *node, struct fi_info **list)
{
    struct fi_info *hints = hints_for(step);
    struct fi_info *found = NULL;

    if (hints != NULL && fi_getinfo(API_VERSION, node, NULL, FI_SOURCE, hints, &found) == 0)
        *list = found;
    found = NULL;
    while (*list != NULL)
        list = &(*list)->next;
    if (hints != NULL && fi_getinfo(API_VERSION, NULL, NULL, 0, hints, &found) == 0)
        *list = found;
    if (hints != NULL)
        fi_freeinfo(hints);
}

/* It would use the interface we were told to, or has none of that kind. */
static bool is_on_interface(const struct fi_info *info, const union ofi_address *interface)
{
    return !is_over_sockets(info) ||
           (info->src_addr != NULL && ofi_address_same_host(info->src_addr, interface));
}

/* NULL when it will do; else why not. */
static const char *refusal(const struct fi_info *info, const union ofi_address *interface)
{
    const char *provider = option_string(OPT_OFI_PROVIDER);
    const char *domain = option_string(OPT_OFI_DOMAIN);
    const char *name = info->fabric_attr->prov_name;

    if (*provider != '\0' && strcmp(provider, name) != 0)
        return "PAMI_OFI_PROVIDER names another";
    if (*domain != '\0' && strcmp(domain, info->domain_attr->name) != 0)
        return "PAMI_OFI_DOMAIN names another";
    if (!is_on_interface(info, interface))
        return "another interface is used";
    if (*provider == '\0' && preference_of(name).value == 0)
        return preference_of(name).why;
    if (info->ep_attr->max_msg_size < ofi_message_bytes(option_bytes(OPT_OFI_PACKET_BYTES)))
        return "its messages are smaller than PAMI_OFI_PACKET_BYTES";
    return NULL;
}

/* name: of the provider; NULL: any. */
static struct fi_info *best_of(struct fi_info *list, const union ofi_address *interface,
                               const char *name)
{
    struct fi_info *best = NULL;

    for (struct fi_info *info = list; info != NULL; info = info->next)
        if (refusal(info, interface) == NULL &&
            (name == NULL || strcmp(info->fabric_attr->prov_name, name) == 0) &&
            (best == NULL || preference_of(info->fabric_attr->prov_name).value >
                                 preference_of(best->fabric_attr->prov_name).value))
            best = info;
    return best;
}

/* ---- several adapters ---- */

/* Each adapter of a host reaches all those of others. Those of verbs may have several networks. */
static bool has_alike_adapters(const struct fi_info *info)
{
    return strcmp(info->fabric_attr->prov_name, "cxi") == 0 ||
           strcmp(info->fabric_attr->prov_name, "efa") == 0;
}

/* The processors that the system says are next to it; none: it says nothing. */
static void find_processors(const struct fi_info *info, cpu_set_t *cpus)
{
    const struct fi_bus_attr *bus = info->nic != NULL ? info->nic->bus_attr : NULL;
    unsigned first, last;
    char path[80];
    FILE *file;

    CPU_ZERO(cpus);
    if (bus == NULL || bus->bus_type != FI_BUS_PCI)
        return;
    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/local_cpulist",
             bus->attr.pci.domain_id, bus->attr.pci.bus_id, bus->attr.pci.device_id,
             bus->attr.pci.function_id);
    file = fopen(path, "re");
    while (file != NULL && fscanf(file, "%u", &first) == 1) {
        if (fscanf(file, "-%u", &last) != 1)
            last = first;
        for (; first <= last && first < CPU_SETSIZE; first++)
            CPU_SET(first, cpus);
        fgetc(file); /* the comma */
    }
    if (file != NULL)
        fclose(file);
}

static bool overlap(const cpu_set_t *a, const cpu_set_t *b)
{
    cpu_set_t both;

    CPU_AND(&both, a, b);
    return CPU_COUNT(&both) != 0;
}

/*
 * Tasks of the host before this one that share adapters with it: those that may run near the same
 * ones, whichever these tasks are. Launchers fill one part of a host after the other, or deal tasks
 * out to the parts by turns.
 */
static uint32_t turn_of(const struct ofi_device *device, const cpu_set_t *near)
{
    const struct bootstrap *job = device->bootstrap;
    bool known = CPU_COUNT(near) != 0 && device->heap != NULL && device->heap->ops->bound != NULL;
    uint32_t turn = 0;

    for (uint32_t i = 0; i < job->local_index; i++) {
        cpu_set_t cpus;

        CPU_ZERO(&cpus);
        if (known)
            device->heap->ops->bound(device->heap, job->local_tasks[i], &cpus);
        turn += !known || overlap(&cpus, near);
    }
    return turn;
}

/* Another one of best's kind than the `count` of `all`. */
static bool is_another(const struct fi_info *info, const struct fi_info *best,
                       struct fi_info *const *all, uint32_t count)
{
    if (strcmp(info->fabric_attr->prov_name, best->fabric_attr->prov_name) != 0 ||
        strcmp(info->fabric_attr->name, best->fabric_attr->name) != 0)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(info->domain_attr->name, all[i]->domain_attr->name) == 0)
            return false;
    return true;
}

/* The tasks of a host take the adapters that are near to them by turns. */
static struct fi_info *share_out(const struct ofi_device *device, struct fi_info *list,
                                 struct fi_info *best)
{
    struct fi_info *all[ADAPTERS_MAX];
    uint32_t count = 0, near = 0;
    cpu_set_t ours, local, around;

    if (best == NULL || !has_alike_adapters(best))
        return best;
    CPU_ZERO(&around);
    if (sched_getaffinity(0, sizeof(ours), &ours) != 0)
        CPU_ZERO(&ours);
    for (struct fi_info *info = list; info != NULL && count < ADAPTERS_MAX; info = info->next) {
        if (refusal(info, &device->interface) != NULL || !is_another(info, best, all, count))
            continue;
        all[count++] = info;
        find_processors(info, &local);
        if (overlap(&local, &ours)) {
            all[count - 1] = all[near];
            all[near++] = info;
            CPU_OR(&around, &around, &local);
        }
    }
    return all[turn_of(device, &around) % (near != 0 ? near : count)];
}

/* ---- the choice ---- */

/*
 * The most welcome provider, as it answers the first step that it answers; NULL: none will do. One
 * that cannot do everything, as opx has no order, is not passed over for a less welcome one that
 * can. The last step asks for the least, so all answer it. *list: what answers *step, to be freed.
 */
static struct fi_info *choose(const struct ofi_device *device, const char *node,
                              struct fi_info **list, const struct step **step)
{
    const union ofi_address *interface = &device->interface;
    struct fi_info *all = NULL;
    struct fi_info *best, *found = NULL;

    ask(&steps[STEPS - 1], node, &all);
    best = best_of(all, interface, NULL);
    for (*step = steps; best != NULL && *step < &steps[STEPS - 1]; (*step)++) {
        *list = NULL;
        ask(*step, node, list);
        found = best_of(*list, interface, best->fabric_attr->prov_name);
        if (found != NULL) {
            fi_freeinfo(all);
            return share_out(device, *list, found);
        }
        if (*list != NULL)
            fi_freeinfo(*list);
    }
    *step = &steps[STEPS - 1];
    *list = all;
    return share_out(device, all, best);
}

int ofi_provider_choose(struct ofi_device *device, char *why, size_t size)
{
    struct ofi_provider *provider = &device->provider;
    const char *wanted = option_string(OPT_OFI_PROVIDER);
    const char *domain = option_string(OPT_OFI_DOMAIN);
    const char *allowed = getenv("FI_PROVIDER"); /* to libfabric itself */
    char node[INET6_ADDRSTRLEN];
    const struct step *step;
    struct fi_info *list, *best;
    int error = -FI_ENODATA;

    ofi_address_format(&device->interface, node, sizeof(node));
    best = choose(device, node, &list, &step);
    if (best != NULL) {
        provider->info = fi_dupinfo(best);
        provider->multi_receive = can_multi_receive(best, step);
        provider->lazy = strcmp(best->fabric_attr->prov_name, "sockets") == 0;
        provider->remote = can_rma(best, step) && option_choice(OPT_OFI_RMA) != RMA_NEVER;
        provider->apart = is_over_sockets(best);
    }
    if (list != NULL)
        fi_freeinfo(list);
    if (provider->info != NULL)
        log_info("ofi: provider %s, domain %s, on %s%s", provider->info->fabric_attr->prov_name,
                 provider->info->domain_attr->name, node, step->without);
    if (provider->info != NULL)
        error = fi_fabric(provider->info->fabric_attr, &provider->fabric, NULL);
    if (error == 0)
        return 0;
    snprintf(
        why, size,
        "no usable libfabric provider on %s%s%.32s%s%.32s%s%.32s: %s (pami_info --devices lists "
        "them)",
        node, *wanted != '\0' ? ", PAMI_OFI_PROVIDER=" : "", wanted,
        *domain != '\0' ? ", PAMI_OFI_DOMAIN=" : "", domain,
        allowed != NULL ? ", FI_PROVIDER=" : "", allowed != NULL ? allowed : "",
        fi_strerror(-error));
    ofi_provider_release(provider);
    return -ENODEV;
}

void ofi_provider_release(struct ofi_provider *provider)
{
    if (provider->fabric != NULL)
        fi_close(&provider->fabric->fid);
    if (provider->info != NULL)
        fi_freeinfo(provider->info);
    *provider = (struct ofi_provider){0};
}

/* ---- for people ---- */

/* `no`: why it is not taken; NULL: it is, or another one that will do is better. */
static void say_one(const struct fi_info *info, const char *no, bool chosen, const char *without,
                    device_explain_function *say, void *cookie)
{
    const char *name = info->fabric_attr->prov_name;
    char line[256];

    snprintf(line, sizeof(line), "%-14s %-10s %s%s%s", name, info->domain_attr->name,
             chosen       ? "chosen: "
             : no != NULL ? ""
                          : "usable, but another is better: ",
             no != NULL ? no : preference_of(name).why, chosen ? without : "");
    say(cookie, line);
}

static bool seen_before(const struct fi_info *list, const struct fi_info *info)
{
    for (; list != info; list = list->next)
        if (strcmp(list->fabric_attr->prov_name, info->fabric_attr->prov_name) == 0 &&
            strcmp(list->domain_attr->name, info->domain_attr->name) == 0)
            return true;
    return false;
}

void ofi_provider_explain(const struct ofi_device *device, device_explain_function *say,
                          void *cookie)
{
    const union ofi_address *interface = &device->interface;
    char node[INET6_ADDRSTRLEN];
    char line[256];
    const struct fi_info *chosen;
    const struct step *step;
    struct fi_info *list;

    ofi_address_format(interface, node, sizeof(node));
    snprintf(line, sizeof(line), "libfabric %u.%u, interface %s", FI_MAJOR(fi_version()),
             FI_MINOR(fi_version()), node);
    say(cookie, line);
    chosen = choose(device, node, &list, &step);
    for (const struct fi_info *info = list; info != NULL; info = info->next) {
        const char *no = refusal(info, interface);

        if (info == chosen)
            say_one(info, NULL, true, step->without, say, cookie);
        else if (!seen_before(list, info) &&
                 (chosen == NULL ||
                  strcmp(info->fabric_attr->prov_name, chosen->fabric_attr->prov_name) != 0 ||
                  no != NULL))
            say_one(info, no, false, "", say, cookie);
    }
    if (list != NULL)
        fi_freeinfo(list);
    if (chosen == NULL)
        say(cookie, "none is usable");
}
