/*
 * The table behind Auto, and the options that overrule it; see select.h.
 *
 * PAMI_COLL_<TYPE> holds entries separated by commas, each NAME or NAME:LOW-HIGH with sizes in
 * bytes (suffix K, M, G; HIGH may be missing). They come before what is built in; one that makes no
 * sense gets a warning and is left out.
 */
#include "coll/select.h"

#include <string.h>

#include "coll/machine.h"
#include "util/log.h"
#include "util/minmax.h"
#include "util/option.h"

#define ALL_SIZES CHOICE_BYTES_MAX
#define ALL_MEMBERS CHOICE_MEMBERS_MAX
#define K UINT64_C(1024)

/* Most preferences are for any nodes. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct preference {
    pami_xfer_type_t type;
    const char *name;
    uint64_t bytes_max;
    uint32_t members_max;
    enum choice_nodes nodes;
    uint64_t bytes_min;
    uint32_t members_min;
};

/*
 * Measured with 2 and 4 tasks of one node on 2 cores; for more members the usual order of costs.
 * The last of a type needs nothing. Where pami_tune has found another row to be faster,
 * measured.def says so and comes first.
 */
static const struct preference preferences[] = {
    {PAMI_XFER_BARRIER, "Shared", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_BROADCAST, "Shared", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_REDUCE, "Shared", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_ALLREDUCE, "Shared", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_GATHER, "Shared", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_SCATTER, "Shared", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_ALLGATHER, "Shared", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_ALLGATHERV, "Shared", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_ALLTOALL, "Shared", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_GATHERV, "Shared", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_SCATTERV, "Shared", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_ALLTOALLV, "Shared", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_SCAN, "Shared", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_REDUCE_SCATTER, "Shared", ALL_SIZES, ALL_MEMBERS},
    /* A message between nodes costs more than all that is done in a node (bench/RESULTS.md). */
    {PAMI_XFER_BARRIER, "Hierarchical", ALL_SIZES, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_BROADCAST, "Hierarchical", ALL_SIZES, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_REDUCE, "Hierarchical", ALL_SIZES, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_ALLREDUCE, "Hierarchical", ALL_SIZES, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_GATHER, "Hierarchical", ALL_SIZES, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_SCATTER, "Hierarchical", ALL_SIZES, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_ALLGATHER, "Hierarchical", ALL_SIZES, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_ALLGATHERV, "Hierarchical", ALL_SIZES, ALL_MEMBERS, NODES_NETWORK},
    /* Long ones of few members go from rank to rank, so once from node to node, in segments. */
    {PAMI_XFER_SCAN, "Hierarchical", 16 * K, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_SCAN, "RecursiveDoubling", 16 * K, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_SCAN, "Linear", ALL_SIZES, 8, NODES_NETWORK},
    {PAMI_XFER_SCAN, "Hierarchical", ALL_SIZES, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_REDUCE_SCATTER, "Hierarchical", ALL_SIZES, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_ALLTOALL, "Hierarchical", 1 * K, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_ALLTOALL, "Spread", ALL_SIZES, 8, NODES_NETWORK},
    {PAMI_XFER_ALLTOALL, "Bruck", 256, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_ALLTOALL, "Spread", ALL_SIZES, ALL_MEMBERS, NODES_NETWORK},
    /* One member on each node: a root's messages follow one another at once, and a step down a tree
     * costs what ten of them do. */
    {PAMI_XFER_BROADCAST, "Flat", 4 * K, 16, NODES_NETWORK},
    {PAMI_XFER_REDUCE, "Flat", 4 * K, 16, NODES_NETWORK},
    {PAMI_XFER_REDUCE, "HalvedBinomial", 256 * K, 8, NODES_NETWORK},
    {PAMI_XFER_GATHER, "Flat", 4 * K, 16, NODES_NETWORK},
    {PAMI_XFER_SCATTER, "Flat", 4 * K, 16, NODES_NETWORK},
    /* Pretended nodes: a message costs as much as in a node, and who waits for a leader waits for
     * its turn. With two tasks on each a leader saves few copies, and makes some of its own. 4, 8
     * and 16 tasks on 2 and 4 of them and 2 cores (doc/collectives.md). */
    {PAMI_XFER_BARRIER, "Dissemination", ALL_SIZES, 4, NODES_MEMORY},
    {PAMI_XFER_BARRIER, "Tree8", ALL_SIZES, 16, NODES_MEMORY},
    {PAMI_XFER_BROADCAST, "Flat", 4 * K, 16, NODES_MEMORY},
    {PAMI_XFER_BROADCAST, "Hierarchical", 48 * K, ALL_MEMBERS, NODES_MEMORY},
    {PAMI_XFER_BROADCAST, "MultiLeader", 256 * K, 8, NODES_MEMORY},
    {PAMI_XFER_REDUCE, "Flat", 4 * K, 16, NODES_MEMORY},
    {PAMI_XFER_REDUCE, "HalvedBinomial", 32 * K, 16, NODES_PAIRS},
    {PAMI_XFER_REDUCE, "HalvedBinomial", 256 * K, 8, NODES_PAIRS},
    {PAMI_XFER_REDUCE, "Hierarchical", ALL_SIZES, ALL_MEMBERS, NODES_MEMORY},
    {PAMI_XFER_ALLREDUCE, "LastSpeaks", 1 * K, 8, NODES_MEMORY},
    {PAMI_XFER_ALLREDUCE, "MultiLeader", 32 * K, 8, NODES_PAIRS},
    {PAMI_XFER_ALLREDUCE, "RecursiveDoubling", 16 * K, 8, NODES_PAIRS},
    {PAMI_XFER_ALLREDUCE, "Ring", 128 * K, 8, NODES_PAIRS},
    {PAMI_XFER_ALLREDUCE, "MultiLeader", ALL_SIZES, 8, NODES_PAIRS},
    {PAMI_XFER_REDUCE_SCATTER, "LastSpeaks", 512, 8, NODES_MEMORY},
    {PAMI_XFER_REDUCE_SCATTER, "Ring", ALL_SIZES, 2, NODES_PAIRS},
    {PAMI_XFER_REDUCE_SCATTER, "RecursiveHalving", 512, 8, NODES_PAIRS},
    {PAMI_XFER_REDUCE_SCATTER, "Ring", ALL_SIZES, 16, NODES_PAIRS},
    {PAMI_XFER_REDUCE_SCATTER, "Hierarchical", ALL_SIZES, ALL_MEMBERS, NODES_MEMORY},
    {PAMI_XFER_SCAN, "LastSpeaks", 1 * K, 16, NODES_MEMORY},
    {PAMI_XFER_SCAN, "RecursiveDoubling", 1 * K, 16, NODES_MEMORY},
    {PAMI_XFER_SCAN, "Linear", ALL_SIZES, 16, NODES_MEMORY},
    {PAMI_XFER_ALLGATHER, "LastSpeaks", 512, 16, NODES_MEMORY},
    {PAMI_XFER_ALLGATHER, "Linear", ALL_SIZES, 16, NODES_PAIRS},
    {PAMI_XFER_ALLGATHER, "Hierarchical", ALL_SIZES, ALL_MEMBERS, NODES_MEMORY},
    {PAMI_XFER_ALLGATHERV, "LastSpeaks", 512, 16, NODES_MEMORY},
    {PAMI_XFER_ALLGATHERV, "Linear", 4 * K, 8, NODES_MEMORY},
    {PAMI_XFER_ALLGATHERV, "Linear", ALL_SIZES, 16, NODES_PAIRS},
    {PAMI_XFER_ALLGATHERV, "Hierarchical", ALL_SIZES, ALL_MEMBERS, NODES_MEMORY},
    {PAMI_XFER_ALLTOALL, "Spread", 4 * K, 16, NODES_PAIRS},
    {PAMI_XFER_ALLTOALL, "LastSpeaks", 16, 8, NODES_MEMORY},
    {PAMI_XFER_ALLTOALL, "Spread", 4 * K, 16, NODES_MEMORY},
    {PAMI_XFER_ALLTOALL, "Direct", ALL_SIZES, ALL_MEMBERS, NODES_MEMORY},
    {PAMI_XFER_GATHER, "Flat", 4 * K, 16, NODES_MEMORY},
    {PAMI_XFER_SCATTER, "Flat", 4 * K, 16, NODES_MEMORY},
    {PAMI_XFER_SCATTER, "Direct", ALL_SIZES, 16, NODES_MEMORY},
    /* What these cannot do: fewer steps one after the other. */
    {PAMI_XFER_BARRIER, "Dissemination", ALL_SIZES, 8},
    {PAMI_XFER_ALLREDUCE, "RecursiveDoubling", 1 * K, 8},
    {PAMI_XFER_BARRIER, "Hierarchical", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_BROADCAST, "Hierarchical", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_ALLREDUCE, "Hierarchical", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_BARRIER, "Dissemination", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_BROADCAST, "Flat", 4 * K, 4},
    {PAMI_XFER_BROADCAST, "Binomial", 32 * K, ALL_MEMBERS},
    {PAMI_XFER_BROADCAST, "Flat", ALL_SIZES, 2},
    {PAMI_XFER_BROADCAST, "ScatterRing", ALL_SIZES, 16},
    {PAMI_XFER_BROADCAST, "PipelinedBinomial", 64 * K, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_BROADCAST, "TwoTrees", ALL_SIZES, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_BROADCAST, "ScatterRing", ALL_SIZES, 64},
    {PAMI_XFER_BROADCAST, "PipelinedBinomial", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_BROADCAST, "Binomial", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_REDUCE, "Binomial", 32 * K, ALL_MEMBERS},
    {PAMI_XFER_REDUCE, "Rabenseifner", 128 * K, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_REDUCE, "Rabenseifner", 512 * K, 16, NODES_UNEVEN},
    {PAMI_XFER_REDUCE, "PipelinedChain", ALL_SIZES, 16, NODES_UNEVEN},
    {PAMI_XFER_REDUCE, "Rabenseifner", ALL_SIZES, 16, NODES_NETWORK},
    {PAMI_XFER_REDUCE, "TwoTrees", ALL_SIZES, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_REDUCE, "Rabenseifner", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_REDUCE, "Binomial", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_ALLREDUCE, "RecursiveDoubling", 16 * K, ALL_MEMBERS},
    {PAMI_XFER_ALLREDUCE, "Circulant", ALL_SIZES, ALL_MEMBERS, NODES_UNEVEN},
    {PAMI_XFER_ALLREDUCE, "Rabenseifner", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_ALLREDUCE, "RecursiveDoubling", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_SCAN, "RecursiveDoubling", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_REDUCE_SCATTER, "Circulant", ALL_SIZES, ALL_MEMBERS, NODES_UNEVEN},
    {PAMI_XFER_REDUCE_SCATTER, "RecursiveHalving", ALL_SIZES, ALL_MEMBERS, NODES_NETWORK},
    {PAMI_XFER_REDUCE_SCATTER, "RecursiveHalving", 64 * K, ALL_MEMBERS},
    {PAMI_XFER_REDUCE_SCATTER, "Pairwise", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_ALLGATHER, "RecursiveDoubling", 16 * K, ALL_MEMBERS},
    {PAMI_XFER_ALLGATHER, "Bruck", 16 * K, ALL_MEMBERS},
    {PAMI_XFER_ALLGATHER, "Ring", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_ALLGATHERV, "Bruck", 16 * K, ALL_MEMBERS},
    {PAMI_XFER_ALLGATHERV, "Ring", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_GATHER, "Binomial", 4 * K, ALL_MEMBERS},
    {PAMI_XFER_GATHER, "Direct", ALL_SIZES, ALL_MEMBERS, NODES_SEVERAL},
    {PAMI_XFER_GATHER, "Flat", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_GATHERV, "Flat", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_SCATTER, "Binomial", 4 * K, ALL_MEMBERS},
    {PAMI_XFER_SCATTER, "Flat", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_SCATTERV, "Flat", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_ALLTOALL, "Spread", ALL_SIZES, 8},
    {PAMI_XFER_ALLTOALL, "Bruck", 256, ALL_MEMBERS},
    {PAMI_XFER_ALLTOALL, "Spread", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_ALLTOALLV, "Spread", ALL_SIZES, ALL_MEMBERS},
};

#define PREFERENCES (sizeof(preferences) / sizeof(preferences[0]))

/* Written by pami_tune --built-in. */
#define MEASURED(type, name, bytes_min, bytes_max, members_min, members_max, nodes)                \
    {PAMI_XFER_##type, name, bytes_max, members_max, NODES_##nodes, bytes_min, members_min},
static const struct preference measurements[] = {
#include "coll/measured.def"
};
#undef MEASURED

#define MEASUREMENTS (sizeof(measurements) / sizeof(measurements[0]))

/* The option of each type; the *_INT types follow the types without. */
struct override {
    pami_xfer_type_t type;
    enum option_id option;
};

static const struct override overrides[] = {
    {PAMI_XFER_BARRIER, OPT_COLL_BARRIER},     {PAMI_XFER_BROADCAST, OPT_COLL_BROADCAST},
    {PAMI_XFER_REDUCE, OPT_COLL_REDUCE},       {PAMI_XFER_ALLREDUCE, OPT_COLL_ALLREDUCE},
    {PAMI_XFER_SCAN, OPT_COLL_SCAN},           {PAMI_XFER_REDUCE_SCATTER, OPT_COLL_REDUCE_SCATTER},
    {PAMI_XFER_ALLGATHER, OPT_COLL_ALLGATHER}, {PAMI_XFER_ALLGATHERV, OPT_COLL_ALLGATHERV},
    {PAMI_XFER_GATHER, OPT_COLL_GATHER},       {PAMI_XFER_GATHERV, OPT_COLL_GATHERV},
    {PAMI_XFER_SCATTER, OPT_COLL_SCATTER},     {PAMI_XFER_SCATTERV, OPT_COLL_SCATTERV},
    {PAMI_XFER_ALLTOALL, OPT_COLL_ALLTOALL},   {PAMI_XFER_ALLTOALLV, OPT_COLL_ALLTOALLV},
};

#define OVERRIDES (sizeof(overrides) / sizeof(overrides[0]))

/* ---- options ---- */

/* NAME or NAME:LOW-HIGH. Whether it makes sense. */
static bool parse_entry(const struct override *from, char *entry, struct choice *choice, bool warn)
{
    const char *option = option_info(from->option)->name;
    char *sizes = strchr(entry, ':');
    const char *nearest;

    if (sizes != NULL)
        *sizes++ = '\0';
    *choice = (struct choice){
        .row = algorithm_find(from->type, entry),
        .bytes_max = ALL_SIZES,
        .members_min = 1,
        .members_max = ALL_MEMBERS,
        .origin = CHOICE_OPTION,
    };
    if (choice->row == NULL && warn) {
        nearest = choice_nearest(from->type, entry);
        log_warn("%s: '%s' is not an algorithm of this type%s%s%s", option, entry,
                 nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
                 nearest != NULL ? "?" : "");
    }
    if (choice->row == NULL)
        return false;
    if (sizes == NULL ||
        choice_parse_range(sizes, ALL_SIZES, &choice->bytes_min, &choice->bytes_max))
        return true;
    if (warn)
        log_warn("%s: %s: '%s' is not a range of sizes such as 0-4K or 64K-", option, entry, sizes);
    return false;
}

static int add_overrides(struct choice_list *list, const struct override *from, bool warn)
{
    const char *text = option_string(from->option);
    int error = 0;

    while (text != NULL && *text != '\0' && error == 0) {
        char entry[128];
        size_t length = strcspn(text, ",");
        size_t copied = length < sizeof(entry) - 1 ? length : sizeof(entry) - 1;
        struct choice choice;

        memcpy(entry, text, copied);
        entry[copied] = '\0';
        if (parse_entry(from, entry, &choice, warn))
            error = choice_add(list, &choice);
        text += length;
        text += *text == ',';
    }
    return error;
}

/* ---- the table ---- */

static int add_tuned(struct choice_list *list, const struct choice_list *tuned,
                     pami_xfer_type_t type)
{
    int error = 0;

    for (size_t i = 0; tuned != NULL && i < tuned->count && error == 0; i++)
        if (tuned->choices[i].row->type == type)
            error = choice_add(list, &tuned->choices[i]);
    return error;
}

static int add_preferences(struct choice_list *list, pami_xfer_type_t type,
                           const struct preference *from, size_t count)
{
    int error = 0;

    for (const struct preference *end = from + count; from != end && error == 0; from++) {
        const struct choice choice = {
            .row = from->type == type ? algorithm_find(type, from->name) : NULL,
            .bytes_min = from->bytes_min,
            .bytes_max = from->bytes_max,
            .members_min = (uint32_t)larger(from->members_min, 1),
            .members_max = from->members_max,
            .nodes = (uint8_t)from->nodes,
            .origin = CHOICE_BUILT_IN,
        };

        if (choice.row != NULL)
            error = choice_add(list, &choice);
    }
    return error;
}

int select_table_init(struct select_table *table, const struct choice_list *tuned, bool warn)
{
    struct choice_list *list = &table->list;
    int error = 0;

    *table = (struct select_table){.list = {NULL, 0, 0}};
    for (unsigned i = 0; i < PAMI_XFER_COUNT && error == 0; i++) {
        pami_xfer_type_t type = (pami_xfer_type_t)i;

        table->first[i] = (uint32_t)list->count;
        for (size_t k = 0; k < OVERRIDES && error == 0; k++)
            if (overrides[k].type == type)
                error = add_overrides(list, &overrides[k], warn);
        error = error != 0 ? error : add_tuned(list, tuned, type);
        error = error != 0 ? error : add_preferences(list, type, measurements, MEASUREMENTS);
        error = error != 0 ? error : add_preferences(list, type, preferences, PREFERENCES);
    }
    table->first[PAMI_XFER_COUNT] = (uint32_t)list->count;
    if (error != 0)
        select_table_finish(table);
    return error;
}

void select_table_finish(struct select_table *table)
{
    choice_list_finish(&table->list);
}

const char *select_option_name(pami_xfer_type_t type)
{
    for (size_t i = 0; i < OVERRIDES; i++)
        if (overrides[i].type == type)
            return option_info(overrides[i].option)->name;
    return "";
}

/* The size that choices look at: of the message, or of a block (on average where they differ). */
static uint64_t select_bytes(const struct collective *collective, uint32_t members)
{
    uint64_t total = 0;

    switch (collective->type) {
    case PAMI_XFER_ALLGATHERV:
        for (uint32_t i = 0; i < members; i++)
            total += collective->recv_bytes[i];
        return total / members;
    case PAMI_XFER_GATHERV:
    case PAMI_XFER_SCATTERV:
    case PAMI_XFER_ALLTOALLV:
        return 0; /* not known to all */
    default:
        return collective->bytes;
    }
}

static bool nodes_fit(const struct choice *choice, const struct group *group)
{
    bool one = group_on_one_node(group), network = group_over_network(group);

    switch (choice->nodes) {
    case NODES_ONE:
        return one;
    case NODES_NETWORK:
        return network;
    case NODES_MEMORY:
        return !one && !network;
    case NODES_PAIRS:
        return !network && group_is_pairs(group);
    case NODES_UNEVEN:
        return network && (group->size & (group->size - 1)) != 0;
    default:
        return !one;
    }
}

static inline enum select_verdict try_choice(const struct choice *choice,
                                             const struct collective *collective,
                                             const struct group *group, uint64_t bytes,
                                             bool messages)
{
    if (bytes < choice->bytes_min || bytes > choice->bytes_max)
        return SELECT_BYTES;
    if (group->size < choice->members_min || group->size > choice->members_max)
        return SELECT_MEMBERS;
    if (messages && choice->row->make != NULL)
        return SELECT_NO_MESSAGES;
    if (choice->nodes != NODES_ANY && !nodes_fit(choice, group))
        return SELECT_NODES;
    if (choice->row->needs != 0 && algorithm_unmet(choice->row, collective, group) != 0)
        return SELECT_NEEDS;
    return SELECT_TAKEN;
}

enum select_verdict select_try(const struct choice *choice, const struct collective *collective,
                               const struct group *group, uint64_t bytes, bool messages)
{
    return try_choice(choice, collective, group, bytes, messages);
}

static const struct algorithm *first_choice(const struct select_table *table,
                                            const struct group *group,
                                            const struct collective *collective, bool messages,
                                            bool one_run)
{
    const struct choice *choice = table->list.choices + table->first[collective->type];
    uint64_t bytes = select_bytes(collective, group->size);

    /* The last one of each type is taken in any case. */
    while ((one_run && choice->row->make != NULL && choice->row->make != shared_make) ||
           try_choice(choice, collective, group, bytes, messages) != SELECT_TAKEN)
        choice++;
    return choice->row;
}

const struct algorithm *select_row(const struct select_table *table, const struct group *group,
                                   const struct collective *collective)
{
    return first_choice(table, group, collective, false, false);
}

const struct algorithm *select_row_of_messages(const struct select_table *table,
                                               const struct group *group,
                                               const struct collective *collective)
{
    return first_choice(table, group, collective, true, false);
}

const struct algorithm *select_row_of_one_run(const struct select_table *table,
                                              const struct group *group,
                                              const struct collective *collective)
{
    return first_choice(table, group, collective, false, true);
}
