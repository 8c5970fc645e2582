/*
 * The ofi device: tasks of other nodes, through libfabric.
 */
#include "device/ofi/ofi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "device/network.h"
#include "device/ofi/door.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/option.h"

/* Relative costs for reach: between nodes, and inside one where nothing else is. */
#define COST_NETWORK 50
#define COST_LOCAL 1000
/* How long a look at the network is put off, at least, while other devices are busy. */
#define BUSY_REST_US 20

static void ofi_close(struct device *base)
{
    struct ofi_device *device = container_of(base, struct ofi_device, device);

    if (device->reception != NULL)
        reception_close(device->reception);
    for (uint32_t i = 0; device->slots != NULL && i < device->contexts; i++)
        if (device->slots[i] != NULL)
            ofi_slot_free(device->slots[i]);
    ofi_provider_release(&device->provider);
    pthread_mutex_destroy(&device->lock);
    free(device->slots);
    free(device);
}

/* Task 0 makes the key; the others find it after the fence. */
static int publish(struct ofi_device *device, const char *card)
{
    struct bootstrap *bootstrap = device->bootstrap;
    char text[2 * PROOF_KEY_BYTES + 1];
    char name[BOOTSTRAP_KEY_MAX + 1];
    int error = 0;

    snprintf(name, sizeof(name), "ofi.%s.key", device->client);
    if (bootstrap->task == 0) {
        if (!proof_random(&device->key, sizeof(device->key)))
            return -EIO;
        proof_key_format(&device->key, text);
        error = bootstrap_put(bootstrap, name, text);
    }
    snprintf(name, sizeof(name), "ofi.%s.%u", device->client, bootstrap->task);
    return error == 0 ? bootstrap_put(bootstrap, name, card) : error;
}

static int learn_key(struct ofi_device *device)
{
    char text[2 * PROOF_KEY_BYTES + 2];
    char name[BOOTSTRAP_KEY_MAX + 1];
    int error;

    if (device->bootstrap->task == 0)
        return 0;
    snprintf(name, sizeof(name), "ofi.%s.key", device->client);
    error = bootstrap_get(device->bootstrap, name, text, sizeof(text));
    if (error == 0 && !proof_key_parse(text, &device->key))
        error = -EPROTO;
    return error;
}

/* Everything that is local; the provider's name is in the card. */
static int prepare(struct ofi_device *device, char *card, char *why, size_t size)
{
    bool host_only = network_is_pretended(device->bootstrap);
    int error =
        ofi_interface(option_string(OPT_OFI_INTERFACE), host_only, &device->interface, why, size);

    if (error != 0)
        return error;
    ofi_environment(device->bootstrap);
    error = ofi_provider_choose(device, why, size);
    if (error != 0)
        return error;
    return reception_open(device, card, OFI_CARD_MAX, why, size);
}

/* Whatever happens here, all tasks make the one fence: without a card a task is not reached. */
static int connect_job(struct ofi_device *device, char *why, size_t size)
{
    char card[OFI_CARD_MAX];
    int error = prepare(device, card, why, size);
    int published = error;
    int fenced;

    if (published == 0) {
        published = publish(device, card);
        if (published != 0)
            snprintf(why, size, "cannot publish the card: %s", strerror(-published));
    }
    fenced = bootstrap_fence(device->bootstrap);
    if (fenced != 0)
        snprintf(why, size, "the tasks did not meet during start-up: %s",
                 fenced == -ECONNABORTED ? "one has left" : strerror(-fenced));
    if (fenced != 0 || published != 0)
        return fenced != 0 ? fenced : published;
    log_info("ofi: the others find this task at %s", card);
    error = learn_key(device);
    if (error != 0) {
        snprintf(why, size, "the job has no key: %s", strerror(-error));
        return error;
    }
    error = reception_start(device->reception);
    if (error != 0)
        snprintf(why, size, "cannot start a thread: %s", strerror(-error));
    return error;
}

static int ofi_open(const struct device_params *params, struct device **out, char *why, size_t size)
{
    struct ofi_device *device = calloc(1, sizeof(*device));
    int error;

    if (device == NULL) {
        snprintf(why, size, "out of memory");
        return -ENOMEM;
    }
    device->device.ops = &ofi_device_ops;
    device->bootstrap = params->bootstrap;
    device->contexts = params->contexts;
    device->heap = params->heap;
    device->peer_timeout_ms = (uint32_t)(option_seconds(OPT_PEER_TIMEOUT) * 1e3);
    device->rest_ticks = (uint64_t)(clock_ticks_per_us() * BUSY_REST_US);
    snprintf(device->client, sizeof(device->client), "%s", params->client);
    pthread_mutex_init(&device->lock, NULL);
    device->slots = calloc(params->contexts, sizeof(struct ofi_slot *));
    error = device->slots == NULL ? -ENOMEM : connect_job(device, why, size);
    if (error != 0) {
        ofi_close(&device->device);
        return error;
    }
    *out = &device->device;
    return 0;
}

static int ofi_reach(struct device *base, uint32_t task)
{
    const struct ofi_device *device = container_of(base, struct ofi_device, device);
    uint32_t node;

    if (bootstrap_node_of(device->bootstrap, task, &node) != 0)
        return 0;
    return node != device->bootstrap->node ? COST_NETWORK : COST_LOCAL;
}

static void ofi_explain(struct bootstrap *bootstrap, device_explain_function *say, void *cookie)
{
    struct ofi_device device = {.bootstrap = bootstrap};
    char why[256];

    ofi_environment(bootstrap);
    if (ofi_interface(option_string(OPT_OFI_INTERFACE), network_is_pretended(bootstrap),
                      &device.interface, why, sizeof(why)) == 0)
        ofi_provider_explain(&device, say, cookie);
    else
        say(cookie, why);
}

/* For all of them at once, as others hear of them at the same time, or do not. */
static void ofi_made(struct device *base)
{
    reception_await(container_of(base, struct ofi_device, device)->reception);
}

const struct device_ops ofi_device_ops = {
    .name = "ofi",
    .description = "libfabric, between nodes",
    .open = ofi_open,
    .close = ofi_close,
    .reach = ofi_reach,
    .port_open = ofi_port_open,
    .port_close = ofi_port_close,
    .path_open = ofi_path_open,
    .revive = ofi_revive,
    .get = ofi_get,
    .expose = ofi_expose,
    .conceal = ofi_conceal,
    .remote = ofi_remote,
    .advance = ofi_advance,
    .interrupt = ofi_interrupt,
    .put_back = ofi_put_back,
    .flush = ofi_flush,
    .pending = ofi_pending,
    .stalled = ofi_stalled,
    .arm = ofi_arm,
    .disarm = ofi_disarm,
    .listen = ofi_listen,
    .tend = ofi_tend,
    .settled = ofi_settled,
    .explain = ofi_explain,
    .made = ofi_made,
};
