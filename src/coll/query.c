/*
 * The lists of algorithms that programs see: which rows, their handles, names and metadata.
 *
 * The lists depend on the type and the number of members only, so the same position means the same
 * algorithm on all members. List 0 starts with Auto, under other names too; a row that
 * needs something of the arguments is in list 1, one that can never work with so many members in
 * none.
 */
#include <pthread.h>
#include <stdio.h>
#include <strings.h>

#include "coll/coll.h"
#include "coll/collective.h"
#include "coll/handle.h"
#include "coll/machine.h"
#include "geometry/state.h"
#include "util/error.h"

#define NAME_BYTES 64

static char row_names[COLL_ROWS_MAX][NAME_BYTES];
static char auto_name[] = "I0:Auto:AM:AM";
static pthread_once_t names_once = PTHREAD_ONCE_INIT;

/* The type whose rows serve a type: the *_INT types have those of the types without. */
static pami_xfer_type_t row_type(pami_xfer_type_t type)
{
    switch (type) {
    case PAMI_XFER_ALLGATHERV_INT:
        return PAMI_XFER_ALLGATHERV;
    case PAMI_XFER_SCATTERV_INT:
        return PAMI_XFER_SCATTERV;
    case PAMI_XFER_GATHERV_INT:
        return PAMI_XFER_GATHERV;
    case PAMI_XFER_ALLTOALLV_INT:
        return PAMI_XFER_ALLTOALLV;
    default:
        return type;
    }
}

/* Existing programs look for these first, and only then take the first one: all mean Auto. */
struct alias {
    pami_xfer_type_t type; /* PAMI_XFER_COUNT: any, in geometries of one member */
    char name[28];
};

static struct alias aliases[] = {
    {PAMI_XFER_COUNT, "I0:OneTask:AUTO:AUTO"},
    {PAMI_XFER_BARRIER, "I0:MultiSync:AUTO:AUTO"},
    {PAMI_XFER_ALLREDUCE, "I0:Binomial:AUTO:AUTO"},
    {PAMI_XFER_ALLGATHER, "I0:Binomial:AUTO:AUTO"},
    {PAMI_XFER_SCATTER, "I0:Binomial:AUTO:AUTO"},
    {PAMI_XFER_ALLTOALL, "I0:Ring:AUTO:AUTO"},
    {PAMI_XFER_ALLTOALLV, "I0:M2MComposite:AUTO:AUTO"},
};

#define ALIASES (sizeof(aliases) / sizeof(aliases[0]))

static bool has_alias(const struct geometry *geometry, pami_xfer_type_t type, size_t i)
{
    return aliases[i].type == PAMI_XFER_COUNT ? geometry->topology.size == 1
                                              : aliases[i].type == row_type(type);
}

static void make_names(void)
{
    for (size_t i = 0; i < algorithm_count && i < COLL_ROWS_MAX; i++)
        snprintf(row_names[i], NAME_BYTES, "I0:%s:%s", algorithm_table[i].name,
                 algorithm_table[i].make == shared_make ? "SHMEM:SHMEM" : "AM:AM");
}

/* ---- rows ---- */

/* The needs that no arguments can meet with these members. */
static unsigned unmet_by_members(const struct algorithm *row, const struct group *group)
{
    uint32_t size = group->size;
    unsigned unmet = 0;

    if ((row->needs & NEEDS_POWER_OF_TWO) && (size & (size - 1)) != 0)
        unmet |= NEEDS_POWER_OF_TWO;
    if ((row->needs & NEEDS_EVEN) && size % 2 != 0)
        unmet |= NEEDS_EVEN;
    if ((row->needs & NEEDS_ONE_NODE) && !group_on_one_node(group))
        unmet |= NEEDS_ONE_NODE;
    if ((row->needs & NEEDS_LEVELS) && !group_has_levels(group))
        unmet |= NEEDS_LEVELS;
    if ((row->needs & NEEDS_CONSECUTIVE) && !group_is_consecutive(group))
        unmet |= NEEDS_CONSECUTIVE;
    if ((row->needs & NEEDS_ORDER) && group->channel != 0)
        unmet |= NEEDS_ORDER;
    return unmet;
}

static unsigned unmet_by_operator(unsigned needs, pami_data_function op, bool commutative)
{
    unsigned unmet = 0;

    if ((needs & NEEDS_COMMUTATIVE) && !commutative)
        unmet |= NEEDS_COMMUTATIVE;
    if ((needs & NEEDS_PREDEFINED) && operator_is_user(op))
        unmet |= NEEDS_PREDEFINED;
    return unmet;
}

unsigned algorithm_unmet(const struct algorithm *row, const struct collective *collective,
                         const struct group *group)
{
    return unmet_by_members(row, group) |
           unmet_by_operator(row->needs, collective->op, collective->commutative);
}

const struct algorithm *algorithm_find(pami_xfer_type_t type, const char *name)
{
    for (size_t i = 0; i < algorithm_count; i++)
        if (algorithm_table[i].type == type && strcasecmp(algorithm_table[i].name, name) == 0)
            return &algorithm_table[i];
    return NULL;
}

/* What remains to be asked of the arguments when the members fit. */
static unsigned needs_of_arguments(const struct algorithm *row)
{
    return row->needs & (NEEDS_COMMUTATIVE | NEEDS_PREDEFINED);
}

/* The geometry as a group, for questions about members. */
static struct group group_of_all(struct geometry *geometry)
{
    return (struct group){
        .geometry = geometry, .topology = &geometry->topology, .size = geometry->topology.size};
}

/* Which list a row is in: 0, 1, or -1 for none. `group` is of all members. */
static int list_of(const struct algorithm *row, pami_xfer_type_t type, const struct group *group)
{
    if (row->type != row_type(type) || unmet_by_members(row, group) != 0)
        return -1;
    return needs_of_arguments(row) != 0;
}

struct geometry *algorithm_handle_geometry(pami_algorithm_t handle)
{
    uint64_t mark = handle >> (HANDLE_ROW_BITS + HANDLE_TYPE_BITS) & 7;
    size_t number = handle & ((1u << HANDLE_ROW_BITS) - 1);
    pami_xfer_type_t type = algorithm_handle_type(handle);
    struct geometry *geometry;
    struct group group;

    if (mark != HANDLE_MARK || type >= PAMI_XFER_COUNT || number > algorithm_count)
        return NULL;
    geometry = geometry_from_handle((pami_geometry_t)(uintptr_t)(handle >> HANDLE_LOW_BITS << 4));
    if (geometry == NULL || number == 0)
        return geometry;
    group = group_of_all(geometry);
    return list_of(&algorithm_table[number - 1], type, &group) >= 0 ? geometry : NULL;
}

/* ---- metadata ---- */

/* The arguments as one of this task's members would give them: which one is not known here, and of
 * the world each context has one, among those of its offset. That they suit none of them is an
 * answer, which leaves the text of the latest failure as it is. */
static bool read_arguments(struct collective *collective, struct group *group,
                           struct topology *members, const struct pami_xfer_t *in)
{
    const struct client_core *core = group->geometry->client->core;
    pami_xfer_type_t type = algorithm_handle_type(in->algorithm);
    char text[ERROR_TEXT_MAX];

    PAMI_Error_text(text, sizeof(text));
    for (uint32_t offset = 0; offset < core->contexts_max; offset++) {
        if (group->geometry->is_world)
            members->offset = offset;
        group->rank = topology_rank(members, endpoint_make(core->task, offset));
        if (group->rank == TOPOLOGY_NO_RANK)
            continue;
        if (collective_read(collective, type, group, &in->cmd) == PAMI_SUCCESS)
            return true;
        error_set(PAMI_SUCCESS, "%s", text);
    }
    return false;
}

/* Looks at the arguments as PAMI_Collective would. */
static metadata_result_t check_arguments(const struct pami_xfer_t *in, const struct algorithm *row,
                                         struct geometry *geometry)
{
    metadata_result_t answer = {.bitmask = 0};
    struct collective collective;
    struct topology members = geometry->topology;
    struct group group = group_of_all(geometry);

    group.topology = &members;
    if (!read_arguments(&collective, &group, &members, in)) {
        answer.check.unspecified = 1;
        return answer;
    }
    answer.check.datatype_op = algorithm_unmet(row, &collective, &group) != 0;
    collective_release(&collective);
    return answer;
}

/* All that rows of list 1 need of arguments is said of the operator. */
static metadata_result_t check_operator(unsigned needs, pami_data_function op, int commutative)
{
    metadata_result_t answer = {.bitmask = 0};

    answer.check.datatype_op =
        op == PAMI_DATA_COPY || op == PAMI_DATA_NOOP ||
        unmet_by_operator(needs, op, !operator_is_user(op) || commutative != 0) != 0;
    return answer;
}

/* The row and geometry of a handle of list 1, when it is one of such a row. */
static const struct algorithm *row_asked(pami_algorithm_t handle, pami_xfer_type_t type,
                                         unsigned needs, struct geometry **geometry)
{
    const struct algorithm *row;

    *geometry = algorithm_handle_geometry(handle);
    row = *geometry != NULL ? algorithm_handle_row(handle) : NULL;
    return row != NULL && row->type == type && needs_of_arguments(row) == needs ? row : NULL;
}

/*
 * check_fn of list 1: one for each type, and for what rows need. Which one is called says what is
 * asked, for some programs name the algorithm only when they have the answer, and the structure
 * still holds another one, or anything.
 */
#define CHECK_FUNCTION(name, xfer_type, member, row_needs)                                         \
    static metadata_result_t name(struct pami_xfer_t *in)                                          \
    {                                                                                              \
        struct geometry *geometry;                                                                 \
        const struct algorithm *row;                                                               \
                                                                                                   \
        if (in == NULL)                                                                            \
            return (metadata_result_t){.check.unspecified = 1};                                    \
        row = row_asked(in->algorithm, xfer_type, row_needs, &geometry);                           \
        if (row != NULL)                                                                           \
            return check_arguments(in, row, geometry);                                             \
        return check_operator(row_needs, in->cmd.member.op, in->cmd.member.commutative);           \
    }

#define NEEDS_BOTH (NEEDS_COMMUTATIVE | NEEDS_PREDEFINED)

CHECK_FUNCTION(check_reduce, PAMI_XFER_REDUCE, xfer_reduce, NEEDS_COMMUTATIVE)
CHECK_FUNCTION(check_reduce_both, PAMI_XFER_REDUCE, xfer_reduce, NEEDS_BOTH)
CHECK_FUNCTION(check_allreduce, PAMI_XFER_ALLREDUCE, xfer_allreduce, NEEDS_COMMUTATIVE)
CHECK_FUNCTION(check_allreduce_both, PAMI_XFER_ALLREDUCE, xfer_allreduce, NEEDS_BOTH)
CHECK_FUNCTION(check_reduce_scatter, PAMI_XFER_REDUCE_SCATTER, xfer_reduce_scatter,
               NEEDS_COMMUTATIVE)

static pami_metadata_function check_function(const struct algorithm *row)
{
    bool both = needs_of_arguments(row) == NEEDS_BOTH;

    switch ((int)row->type) {
    case PAMI_XFER_REDUCE:
        return both ? check_reduce_both : check_reduce;
    case PAMI_XFER_ALLREDUCE:
        return both ? check_allreduce_both : check_allreduce;
    default:
        return check_reduce_scatter;
    }
}

static void fill_metadata(pami_metadata_t *metadata, const struct algorithm *row, char *name)
{
    *metadata = (pami_metadata_t){
        .name = row != NULL ? row_names[row - algorithm_table] : name,
        .version = 1,
        .range_hi = SIZE_MAX,
        .send_min_align = 1,
        .recv_min_align = 1,
        .range_hi_perf = SIZE_MAX,
        .min_align_perf = 1,
    };
    metadata->check_correct.values.sendminalign = 1;
    metadata->check_correct.values.recvminalign = 1;
    metadata->check_correct.values.alldtop = 1;
    metadata->check_correct.values.inplace = 1;
    if (row == NULL || needs_of_arguments(row) == 0)
        return;
    metadata->check_fn = check_function(row);
    metadata->check_correct.values.checkrequired = 1;
}

/* ---- the calls ---- */

/* A geometry and a type of transfer, or an error with a text. */
static pami_result_t check(const char *function, pami_geometry_t handle, pami_xfer_type_t type,
                           struct geometry **geometry)
{
    *geometry = geometry_from_handle(handle);
    if (*geometry == NULL)
        return error_set(PAMI_INVAL, "%s: geometry: not a geometry", function);
    if ((unsigned)type >= PAMI_XFER_COUNT)
        return error_set(PAMI_INVAL, "%s: colltype: %d is not a type of transfer", function,
                         (int)type);
    pthread_once(&names_once, make_names);
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Geometry_algorithms_num(pami_geometry_t handle, pami_xfer_type_t coll_type,
                                           size_t *lists_lengths)
{
    struct geometry *geometry;
    struct group group;
    size_t lengths[2] = {1, 0};
    pami_result_t result = check("PAMI_Geometry_algorithms_num", handle, coll_type, &geometry);

    if (result == PAMI_SUCCESS && lists_lengths == NULL)
        result = error_set(PAMI_INVAL, "PAMI_Geometry_algorithms_num: lists_lengths: NULL");
    if (result != PAMI_SUCCESS)
        return result;
    for (size_t i = 0; i < ALIASES; i++)
        lengths[0] += has_alias(geometry, coll_type, i);
    group = group_of_all(geometry);
    for (size_t i = 0; i < algorithm_count; i++) {
        int list = list_of(&algorithm_table[i], coll_type, &group);

        if (list >= 0)
            lengths[list]++;
    }
    lists_lengths[0] = lengths[0];
    lists_lengths[1] = lengths[1];
    return PAMI_SUCCESS;
}

/* One of the two lists, as far as the caller has room. */
struct filling {
    pami_algorithm_t *handles;
    pami_metadata_t *metadata;
    size_t room, used;
};

/* `name` when it is no row. */
static void put(struct filling *list, pami_geometry_t geometry, pami_xfer_type_t type,
                const struct algorithm *row, char *name)
{
    if (list->used == list->room)
        return;
    if (list->handles != NULL)
        list->handles[list->used] = algorithm_handle_make(geometry, type, row);
    if (list->metadata != NULL)
        fill_metadata(&list->metadata[list->used], row, name);
    list->used++;
}

pami_result_t PAMI_Geometry_algorithms_query(pami_geometry_t handle, pami_xfer_type_t colltype,
                                             pami_algorithm_t *algs0, pami_metadata_t *mdata0,
                                             size_t num0, pami_algorithm_t *algs1,
                                             pami_metadata_t *mdata1, size_t num1)
{
    struct filling lists[2] = {{algs0, mdata0, num0, 0}, {algs1, mdata1, num1, 0}};
    struct geometry *geometry;
    struct group group;
    pami_result_t result = check("PAMI_Geometry_algorithms_query", handle, colltype, &geometry);

    if (result != PAMI_SUCCESS)
        return result;
    put(&lists[0], handle, colltype, NULL, auto_name);
    for (size_t i = 0; i < ALIASES; i++)
        if (has_alias(geometry, colltype, i))
            put(&lists[0], handle, colltype, NULL, aliases[i].name);
    group = group_of_all(geometry);
    for (size_t i = 0; i < algorithm_count; i++) {
        int list = list_of(&algorithm_table[i], colltype, &group);

        if (list >= 0)
            put(&lists[list], handle, colltype, &algorithm_table[i], NULL);
    }
    return PAMI_SUCCESS;
}
