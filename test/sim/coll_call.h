/*
 * Random collectives on simulated tasks: which, starting them, and what must be there in the end,
 * for which each member has its part of api/coll_oracle.h. Who learns that a collective has failed
 * uses its buffers for something else at once.
 */
#ifndef LIBPAMI_SIM_COLL_CALL_H
#define LIBPAMI_SIM_COLL_CALL_H

#include "coll_start.h"

/* What cb_done has told. */
struct told {
    unsigned count;
    pami_result_t result;
};

#include "api/coll_oracle.h"

enum {
    OPERATIONS = 12,
    USED_AGAIN = 0x5a
};

struct operation {
    pami_xfer_type_t type;
    struct choice choice;
    size_t words;
    uint64_t seed;
    bool friendly;
    struct op **part; /* of each member; NULL: it has not started it */
};

struct scene {
    struct sim_job job;
    size_t members;
    bool deadly, dead[70];
    bool stops; /* who gets an error starts nothing any more */
    struct dice dice;
    size_t operations;
    struct operation operation[OPERATIONS];
};

static bool has_failed(const struct op *part)
{
    return part->told.count != 0 && part->told.result != PAMI_SUCCESS;
}

/* The buffers of a collective that has failed are the program's again. */
static void use_again(struct op_side *side)
{
    memset(side->memory, USED_AGAIN, side->words * sizeof(uint32_t));
}

static bool is_as_used(const struct op_side *side)
{
    const unsigned char *bytes = (const unsigned char *)side->memory;

    return bytes[0] == USED_AGAIN &&
           memcmp(bytes, bytes + 1, side->words * sizeof(uint32_t) - 1) == 0;
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct op *part = cookie;

    (void)context;
    CHECK(part->told.count == 0);
    part->told = (struct told){1, result};
    if (result != PAMI_SUCCESS) {
        use_again(&part->send);
        use_again(&part->recv);
    }
}

/* One of the operations before this one has failed on the member, as far as it knows. */
static bool has_stopped(const struct scene *s, size_t operation, size_t self)
{
    for (size_t i = 0; i < operation; i++)
        if (s->operation[i].part[self] == NULL || has_failed(s->operation[i].part[self]))
            return true;
    return false;
}

static void start(void *cookie, size_t operation, size_t self)
{
    struct scene *s = cookie;
    struct operation *o = &s->operation[operation];
    pami_xfer_t xfer = {.cb_done = on_done};
    struct op *part;

    if (s->stops && has_stopped(s, operation, self))
        return;
    part = op_make(o->type, s->members, self, o->words, o->seed, o->friendly);
    o->part[self] = part;
    xfer.cookie = part;
    op_arguments(part, job_endpoint(&s->job, part->root, 0), &xfer.cmd);
    part->name = coll_set_algorithm(&s->job, self, o->type, o->choice, &xfer);
    CALL(PAMI_Collective(job_context(&s->job, self, 0), &xfer));
    memset(&xfer, 0xdd, sizeof(xfer));
}

static void check_part(const struct scene *s, size_t self, struct op *part)
{
    bool failed = has_failed(part);

    if (failed && (!is_as_used(&part->send) || !is_as_used(&part->recv)))
        FAIL("%s of type %d, root %zu, member %zu of %zu: a buffer is written to after the end",
             part->name, (int)part->type, part->root, self, s->members);
    if (s->dead[self] || (s->deadly && failed && part->told.result == PAMI_ERROR))
        return;
    if (part->told.count == 0)
        FAIL("%s of type %d, root %zu, member %zu of %zu: not done", part->name, (int)part->type,
             part->root, self, s->members);
    op_check(part);
}

/* ---- scenes ---- */

/* Clients, and `count` operations. */
static inline void scene_create(struct scene *s, const pamix_sim_config_t *config, size_t count)
{
    job_create(&s->job, config, s->members, 1);
    op_begin();
    s->operations = count;
    for (size_t i = 0; i < count; i++) {
        struct operation *o = &s->operation[i];

        o->type = op_types[dice_below(&s->dice, OP_TYPES)];
        o->words = dice_size(&s->dice, 30000);
        o->seed = dice_next(&s->dice);
        o->choice = coll_choose(&s->job, &s->dice, o->type);
        o->friendly = o->choice.list == 1 && dice_one_in(&s->dice, 2);
        o->part = test_zalloc(s->members * sizeof(*o->part));
    }
}

static inline void scene_check(const struct scene *s)
{
    for (size_t i = 0; i < s->operations; i++)
        for (size_t self = 0; self < s->members; self++)
            if (s->operation[i].part[self] != NULL)
                check_part(s, self, s->operation[i].part[self]);
}

static inline void scene_destroy(struct scene *s)
{
    job_destroy(&s->job);
    for (size_t i = 0; i < s->operations; i++) {
        for (size_t self = 0; self < s->members; self++)
            if (s->operation[i].part[self] != NULL)
                op_free(s->operation[i].part[self]);
        free(s->operation[i].part);
    }
    op_end();
}

#endif
