/*
 * The members of an arena of shared memory (coll/shared), all in this process: what tests of its
 * collectives begin with.
 */
#ifndef LIBPAMI_TEST_UNIT_SHARED_TEAM_H
#define LIBPAMI_TEST_UNIT_SHARED_TEAM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coll/shared/shared.h"
#include "geometry/state.h"
#include "util/list.h"

enum {
    MEMBERS_MAX = 9,
    BUFFER = 4096
};

/* Of a member in a slice. */
static inline size_t buffer_of(uint32_t size, bool crowded)
{
    return arena_is_wide(crowded, size) ? size * ARENA_WIDE * (size_t)BUFFER : BUFFER;
}

/* One member, as a task would have it. */
struct member {
    struct context *context;
    struct shared shared;
    struct arena arena;
};

struct team {
    uint32_t size;
    char *memory;
    struct member member[MEMBERS_MAX];
};

/* Of contexts that know no geometry. */
static struct geometry_context no_geometry = {.world.identity = UINT64_MAX};

static inline void team_open(struct team *team, uint32_t size, uint32_t slices, bool crowded)
{
    size_t bytes = arena_bytes(buffer_of(size, crowded), size);

    team->size = size;
    team->memory = aligned_alloc(4096, bytes);
    assert_non_null(team->memory);
    memset(team->memory, 0, bytes);
    for (uint32_t i = 0; i < size; i++) {
        struct member *member = &team->member[i];

        memset(member, 0, sizeof(*member));
        member->context = aligned_alloc(CACHE_LINE, sizeof(struct context));
        memset(member->context, 0, sizeof(struct context));
        list_init(&member->context->retries);
        member->context->geometry = &no_geometry;
        member->shared.context = member->context;
        member->shared.spreads = true;
        member->shared.buffer_bytes = BUFFER;
        member->shared.wide_most = ARENA_WIDE * BUFFER;
        member->shared.arena_bytes = SIZE_MAX;
        member->shared.scratch[0] = aligned_alloc(CACHE_LINE, ARENA_WIDE * BUFFER);
        member->shared.scratch[1] = aligned_alloc(CACHE_LINE, ARENA_WIDE * BUFFER);
        list_init(&member->shared.arenas);
        list_init(&member->shared.offers);
        shared_machines_init(&member->shared);
        member->arena.shared = &member->shared;
        member->arena.state = ARENA_READY;
        member->arena.rank = i;
        member->arena.size = size;
        arena_set_slices(&member->arena, slices - 1);
        member->arena.room = BUFFER / size;
        member->arena.buffer_bytes = buffer_of(size, crowded);
        member->arena.crowded = crowded;
        member->arena.memory = team->memory;
        member->arena.tree.radix = 1 + size % 4;
        arena_make_tree(&member->arena);
        list_init(&member->arena.machines);
        list_init(&member->arena.holds);
        list_init(&member->arena.active);
        list_init(&member->arena.link);
    }
}

static inline void team_close(struct team *team)
{
    for (uint32_t i = 0; i < team->size; i++) {
        free(team->member[i].context);
        free(team->member[i].arena.races);
        free(team->member[i].arena.spare);
        free(team->member[i].shared.scratch[0]);
        free(team->member[i].shared.scratch[1]);
    }
    free(team->memory);
}

/* Of its context, as far as this arena goes. */
static inline void pass(struct member *member)
{
    struct retry *retry = &member->shared.retry;

    if (!list_empty(&retry->link))
        retry->run(retry, member->context);
}

#endif
