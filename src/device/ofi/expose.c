/*
 * Memory that the provider knows: registrations, and what a slot has exposed to others.
 *
 * Where a provider takes the whole address space at once (slot.c) nothing more is to be done.
 * Elsewhere each exposure is a registration of its own under a key of its own, made and ended by
 * the slot's owner: a context that conceals what another one has exposed leaves a note.
 */
#include <errno.h>
#include <stdlib.h>

#include "device/ofi/ofi.h"
#include "util/log.h"

/* Attempts to find a key that is not in use. */
#define ATTEMPTS 3

int ofi_region_register(struct ofi_slot *slot, void *memory, size_t bytes, uint64_t access,
                        uint64_t key, struct ofi_region *region)
{
    int error = fi_mr_reg(slot->domain, memory, bytes, access, 0, key, 0, &region->mr, NULL);

    if (error != 0) {
        region->mr = NULL;
        return error;
    }
    if (slot->device->provider.info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
        error = fi_mr_bind(region->mr, &slot->ep->fid, 0);
        if (error == 0)
            error = fi_mr_enable(region->mr);
    }
    if (error != 0)
        ofi_region_release(region);
    else
        region->descriptor = fi_mr_desc(region->mr);
    return error;
}

void ofi_region_release(struct ofi_region *region)
{
    int cancel = ofi_enter();

    if (region->mr != NULL)
        fi_close(&region->mr->fid);
    region->mr = NULL;
    ofi_leave(cancel);
}

static int expose(struct ofi_slot *slot, void *memory, size_t bytes, uint64_t access,
                  struct ofi_region *region, uint64_t *key)
{
    size_t key_bytes = slot->device->provider.info->domain_attr->mr_key_size;
    int error = -FI_ENOKEY;

    for (int i = 0; i < ATTEMPTS && error == -FI_ENOKEY; i++) {
        if (!proof_random(key, sizeof(*key)))
            return -FI_EOTHER;
        if (key_bytes < sizeof(*key))
            *key &= (UINT64_C(1) << (8 * key_bytes)) - 1;
        error = ofi_region_register(slot, memory, bytes, access, *key, region);
    }
    if (error == 0)
        *key = fi_mr_key(region->mr);
    return error;
}

int ofi_region_expose(struct ofi_slot *slot, void *memory, size_t bytes, uint64_t access,
                      struct ofi_region *region, uint64_t *key)
{
    int cancel = ofi_enter();
    int error = expose(slot, memory, bytes, access, region, key);

    ofi_leave(cancel);
    return error;
}

/* ---- exposures ---- */

static struct ofi_slot *slot_of(struct port *port)
{
    return container_of(port, struct ofi_port, port)->slot;
}

/* Twice as many places, the new ones free, the lowest first. 0 or -ENOMEM. */
static int make_places(struct ofi_slot *slot)
{
    uint32_t room = slot->exposed_room == 0 ? 16 : 2 * slot->exposed_room;
    struct ofi_exposed *more = realloc(slot->exposed, room * sizeof(*more));

    if (more == NULL)
        return -ENOMEM;
    for (uint32_t i = room; i-- > slot->exposed_room; slot->exposed_free = i + 1)
        more[i] = (struct ofi_exposed){.below = slot->exposed_free};
    slot->exposed = more;
    slot->exposed_room = room;
    return 0;
}

int ofi_expose(struct port *port, void *address, size_t bytes, bool written,
               struct exposure *exposure)
{
    const uint64_t all = FI_REMOTE_READ | FI_REMOTE_WRITE | FI_READ | FI_WRITE;
    struct ofi_slot *slot = slot_of(port);
    struct ofi_exposed *place;
    uint64_t key;
    int error;

    if (!slot->device->provider.remote)
        return -EOPNOTSUPP;
    if (slot->all.mr != NULL) {
        *exposure = (struct exposure){.id = EXPOSURE_ALL, .offset = slot->offset};
        return 0;
    }
    if (slot->exposed_free == 0 && make_places(slot) != 0)
        return -ENOMEM;
    place = &slot->exposed[slot->exposed_free - 1];
    error = ofi_region_expose(slot, address, bytes, written ? all : FI_REMOTE_READ, &place->region,
                              &key);
    if (error != 0) {
        log_info("ofi: %zu bytes cannot be registered: %s", bytes, fi_strerror(-error));
        return -EOPNOTSUPP;
    }
    *exposure = (struct exposure){.key = key, .id = slot->exposed_free, .offset = slot->offset};
    slot->exposed_free = place->below;
    return 0;
}

void ofi_conceal_own(struct ofi_slot *slot, uint32_t id)
{
    struct ofi_exposed *place;

    if (id == 0 || id > slot->exposed_room || slot->exposed[id - 1].region.mr == NULL)
        return;
    place = &slot->exposed[id - 1];
    ofi_region_release(&place->region);
    place->below = slot->exposed_free;
    slot->exposed_free = id;
}

void ofi_conceal(struct port *port, const struct exposure *exposure)
{
    struct ofi_slot *slot = slot_of(port);
    struct ofi_device *device = slot->device;
    struct ofi_notice *notice;

    if (exposure->id == EXPOSURE_ALL || exposure->offset >= device->contexts)
        return;
    if (exposure->offset == slot->offset) {
        ofi_conceal_own(slot, exposure->id);
        return;
    }
    notice = calloc(1, sizeof(*notice));
    if (notice == NULL) {
        log_error("ofi: out of memory: a memory region stays registered");
        return;
    }
    notice->kind = NOTICE_CONCEAL;
    notice->endpoint = exposure->id;
    pthread_mutex_lock(&device->lock);
    slot = device->slots[exposure->offset];
    if (slot != NULL) {
        list_push_back(&slot->notices, &notice->link);
        atomic_store_explicit(&slot->news, 1, memory_order_relaxed);
    } else {
        free(notice);
    }
    pthread_mutex_unlock(&device->lock);
}

/* What the provider wants to hear of local memory; NULL: the exposure is none of the slot's. */
void *ofi_exposure_descriptor(const struct ofi_slot *slot, const struct exposure *exposure)
{
    if (exposure->id == 0 || exposure->id > slot->exposed_room ||
        exposure->offset != slot->offset || slot->exposed[exposure->id - 1].region.mr == NULL)
        return NULL;
    return slot->exposed[exposure->id - 1].region.descriptor;
}

void ofi_exposures_free(struct ofi_slot *slot)
{
    for (uint32_t i = 0; i < slot->exposed_room; i++)
        ofi_region_release(&slot->exposed[i].region);
    free(slot->exposed);
    slot->exposed = NULL;
    slot->exposed_room = slot->exposed_free = 0;
}
