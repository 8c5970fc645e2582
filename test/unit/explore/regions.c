/*
 * Scenarios of the table of memory regions: no two that live have one slot, and one that has been
 * destroyed is known to be.
 */
#include <string.h>

#include "context/context.h"

#include "explore.h"

enum {
    SLOTS_MOST = 8,
    SLOT_AT = 28 /* in the region's bytes */
};

static struct context *contexts;
static unsigned *owners; /* of slots, plain: who gets one knows of who had it */
static char *area;

static struct context *own_context(void)
{
    return &contexts[explore_self() < 0 ? 0 : explore_self()];
}

static uint32_t slot_of(const pami_memregion_t *region)
{
    uint32_t slot;

    memcpy(&slot, (const char *)region + SLOT_AT, sizeof(slot));
    return slot;
}

static void create(pami_memregion_t *region)
{
    size_t bytes;

    REQUIRE(PAMI_Memregion_create(own_context(), area, 8, &bytes, region) == PAMI_SUCCESS);
    REQUIRE(slot_of(region) < SLOTS_MOST && owners[slot_of(region)] == 0);
    owners[slot_of(region)] = 1;
}

static void destroy(pami_memregion_t *region)
{
    owners[slot_of(region)] = 0;
    REQUIRE(PAMI_Memregion_destroy(own_context(), region) == PAMI_SUCCESS);
}

static void make_table(void)
{
    struct client_core *core = explore_alloc(sizeof(*core), CACHE_LINE);

    contexts = explore_alloc(EXPLORE_THREADS * sizeof(*contexts), CACHE_LINE);
    owners = explore_alloc(SLOTS_MOST * sizeof(*owners), 64);
    area = explore_alloc(8, 64);
    for (int i = 0; i < EXPLORE_THREADS; i++) {
        contexts[i].magic = CONTEXT_MAGIC;
        contexts[i].core = core;
    }
}

/* Two slots are free again. */
static void make_used_table(void)
{
    pami_memregion_t regions[2];

    make_table();
    for (int i = 0; i < 2; i++)
        create(&regions[i]);
    for (int i = 0; i < 2; i++)
        destroy(&regions[i]);
}

static void take_two_give_one(void)
{
    pami_memregion_t regions[2];

    create(&regions[0]);
    create(&regions[1]);
    destroy(&regions[0]);
}

static void take_two(void)
{
    pami_memregion_t regions[2];

    create(&regions[0]);
    create(&regions[1]);
}

static void take_and_give(void)
{
    pami_memregion_t region, copy;

    create(&region);
    memcpy(&copy, &region, sizeof(copy));
    destroy(&region);
    REQUIRE(PAMI_Memregion_destroy(own_context(), &copy) == PAMI_INVAL);
}

const struct explore_scenario explore_regions[] = {
    {
        .name = "regions: the first ones",
        .setup = make_table,
        .threads = {take_two, take_and_give},
        .bounds = {2, 2, 2},
    },
    {
        .name = "regions: slots that come again",
        .setup = make_used_table,
        .threads = {take_two, take_two_give_one, take_and_give},
        .bounds = {1, 1, 1},
        .orders = 2,
    },
    {.name = NULL},
};
