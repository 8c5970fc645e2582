/*
 * Ids of active-message collectives, and the parts that wait for them; see am.h.
 *
 * By geometry and then by id, so that what waits for one id costs the messages of another one
 * nothing, and is looked at once for each geometry. Whether a geometry is known here only changes
 * once, from no to yes; what was known and is not any more is over.
 */
#include <errno.h>
#include <stdlib.h>

#include "coll/am.h"
#include "util/log.h"
#include "util/option.h"

/* ---- what is known of a geometry ---- */

static struct am_ids *ids_find(const struct am *am, uint64_t identity)
{
    return u64map_get(&am->ids, identity);
}

/* The geometry may have become known: what waits does so for the program. */
static void look(struct am_ids *ids)
{
    struct context *context = ids->am->context;

    if (!ids->early || !geometry_is_known(context, ids->identity))
        return;
    ids->early = false;
    ids->am->early_bytes -= ids->bytes;
    message_held(context, ids->bytes);
}

static bool is_over(const struct am_ids *ids)
{
    if (ids->early)
        return geometry_is_over(ids->am->context, ids->identity);
    return ids->over || (ids->group == NULL && !geometry_is_known(ids->am->context, ids->identity));
}

bool am_is_over(const struct am *am, uint64_t identity)
{
    const struct am_ids *ids = ids_find(am, identity);

    return ids != NULL ? is_over(ids) : geometry_is_over(am->context, identity);
}

static struct am_ids *ids_get(struct am *am, uint64_t identity)
{
    struct am_ids *ids = ids_find(am, identity);

    if (ids != NULL)
        return ids;
    ids = calloc(1, sizeof(*ids));
    if (ids == NULL)
        return NULL;
    if (u64map_put(&am->ids, identity, ids) != 0) {
        free(ids);
        return NULL;
    }
    list_init(&ids->link);
    ids->am = am;
    ids->identity = identity;
    ids->early = !geometry_is_known(am->context, identity);
    return ids;
}

static void ids_free(struct am_ids *ids)
{
    struct am_row *row;
    struct list *item;
    size_t cursor = 0;

    while ((row = u64map_next(&ids->rows, &cursor)) != NULL) {
        while ((item = list_first(&row->held)) != NULL)
            am_part_free(list_entry(item, struct am_part, link));
        free(row);
    }
    list_remove(&ids->link);
    u64map_finish(&ids->rows);
    free(ids);
}

void am_ids_reap(struct am_ids *ids)
{
    if (ids->group != NULL || ids->parts != 0 || ids->over)
        return;
    u64map_remove(&ids->am->ids, ids->identity);
    ids_free(ids);
}

/* ---- ids ---- */

struct am_row *am_row_find(const struct am *am, uint64_t identity, uint64_t id)
{
    const struct am_ids *ids = ids_find(am, identity);

    return ids != NULL ? u64map_get(&ids->rows, id) : NULL;
}

struct am_row *am_row_get(struct am *am, uint64_t identity, uint64_t id)
{
    struct am_ids *ids = ids_get(am, identity);
    struct am_row *row = ids != NULL ? u64map_get(&ids->rows, id) : NULL;

    if (ids == NULL || row != NULL)
        return row;
    row = calloc(1, sizeof(*row));
    if (row == NULL || u64map_put(&ids->rows, id, row) != 0) {
        free(row);
        am_ids_reap(ids);
        return NULL;
    }
    list_init(&row->ready);
    list_init(&row->held);
    row->ids = ids;
    row->id = id;
    return row;
}

static void settle_later(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)result;
    am_run_ready(cookie);
    am_drop_over(cookie);
}

/* From advance: runs what is ready and drops what is over. Where there is no memory for that,
 * am_sweep tries again. */
static void settle_soon(struct am *am)
{
    am->late = context_complete(am->context, settle_later, am, PAMI_SUCCESS) != 0;
}

int am_set(struct group *group, uint64_t id, pami_dispatch_callback_function fn, void *cookie)
{
    struct am *am = group->context->am;
    struct am_row *row = am_row_get(am, group->identity, id);

    if (row == NULL)
        return -ENOMEM;
    row->ids->group = group;
    row->set = true;
    row->function = fn;
    row->cookie = cookie;
    if (!list_empty(&row->held) && list_empty(&row->ready)) {
        list_push_back(&am->ready, &row->ready);
        settle_soon(am);
    }
    return 0;
}

/* ---- what waits ---- */

/* Counts it, as waiting for the program or for a creation. */
static void count(struct am_part *part)
{
    struct am_ids *ids = part->row->ids;
    struct am *am = part->am;

    part->counted = sizeof(*part) + part->header_bytes;
    if (part->deferred != NULL)
        part->counted += message_deferred_bytes(part->deferred);
    else if (part->data != NULL)
        part->counted += part->wire.bytes;
    am->context->counters[COUNTER_HELD]++;
    ids->bytes += part->counted;
    if (!ids->early) {
        message_held(am->context, part->counted);
        return;
    }
    if (am->early_bytes <= am->early_limit && am->early_bytes + part->counted > am->early_limit)
        log_warn("PAMI_HOLD_BYTES: %zu bytes of active-message collectives wait for geometries "
                 "that are being created; receiving goes on",
                 am->early_bytes + part->counted);
    am->early_bytes += part->counted;
}

void am_part_wait(struct am_part *part, struct am_row *row)
{
    struct am_ids *ids = row->ids;
    bool waits = !row->set || !list_empty(&row->held);

    look(ids);
    if (ids->parts++ == 0)
        list_push_back(&ids->am->waiting, &ids->link);
    part->row = row;
    list_push_back(&row->held, &part->link);
    if (waits) {
        count(part);
        return;
    }
    list_push_back(&ids->am->ready, &row->ready);
    settle_soon(ids->am);
}

void am_part_wait_no_more(struct am_part *part)
{
    struct am_row *row = part->row;
    struct am_ids *ids;

    if (row == NULL)
        return;
    ids = row->ids;
    part->row = NULL;
    list_remove(&part->link);
    if (list_empty(&row->held))
        list_remove(&row->ready);
    if (--ids->parts == 0 && !ids->over)
        list_remove(&ids->link);
    ids->bytes -= part->counted;
    if (ids->early)
        ids->am->early_bytes -= part->counted;
    else if (part->counted != 0)
        message_held_less(ids->am->context, part->counted);
    part->counted = 0;
}

/* ---- groups ---- */

static void set_over(struct am_ids *ids)
{
    ids->over = true;
    list_remove(&ids->link);
    list_push_back(&ids->am->over, &ids->link);
}

void am_group_opened(struct group *group)
{
    struct am_ids *ids = ids_find(group->context->am, group->identity);

    if (ids != NULL)
        look(ids);
}

/* Others are told when this has returned: the context may be about to go. */
void am_group_closed(struct group *group)
{
    struct am *am = group->context->am;
    struct am_ids *ids = ids_find(am, group->identity);
    struct am_row *row;
    size_t cursor = 0;

    am_start_group_closed(am, group);
    if (ids == NULL)
        return;
    ids->group = NULL;
    if (ids->parts == 0) {
        am_ids_reap(ids);
        return;
    }
    while ((row = u64map_next(&ids->rows, &cursor)) != NULL) {
        row->set = false;
        list_remove(&row->ready);
    }
    set_over(ids);
    settle_soon(am);
}

size_t am_sweep(struct context *context)
{
    struct am *am = context->am;
    struct list *item, *following;
    size_t done = 0;

    if (am->late) {
        settle_soon(am);
        done += !am->late;
    }
    list_for_each_safe (item, following, &am->waiting) {
        struct am_ids *ids = list_entry(item, struct am_ids, link);

        look(ids);
        if (is_over(ids))
            set_over(ids);
    }
    return done + am_drop_over(am);
}

/* ---- contexts ---- */

void am_ids_init(struct am *am)
{
    am->early_limit = option_bytes(OPT_HOLD_BYTES);
    list_init(&am->waiting);
    list_init(&am->over);
    list_init(&am->ready);
}

void am_ids_finish(struct am *am)
{
    struct am_ids *ids;
    size_t cursor = 0;

    while ((ids = u64map_next(&am->ids, &cursor)) != NULL)
        ids_free(ids);
    u64map_finish(&am->ids);
}
