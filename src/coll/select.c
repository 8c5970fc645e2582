/*
 * The table behind Auto, and the options that overrule it; see select.h.
 *
 * PAMI_COLL_<TYPE> holds entries separated by commas, each NAME or NAME:LOW-HIGH with sizes in
 * bytes (suffix K, M, G; HIGH may be missing). They come before what is built in; one that makes no
 * sense gets a warning and is left out.
 */
#include "coll/select.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/option.h"

#define ALL_SIZES UINT64_MAX
#define ALL_MEMBERS UINT32_MAX
#define K UINT64_C(1024)

struct preference {
    pami_xfer_type_t type;
    const char *name;
    uint64_t bytes_max;
    uint32_t members_max;
};

/*
 * Measured with 2 and 4 tasks of one node on 2 cores; for more members the usual order of costs.
 * The last of a type needs nothing.
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
    {PAMI_XFER_SCAN, "Shared", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_REDUCE_SCATTER, "Shared", ALL_SIZES, ALL_MEMBERS},
    /* Few members on several nodes: fewer steps one after the other (4 tasks on two pretended nodes
     * and 2 cores: barrier 8.2 us, by levels 13-17; allreduce of 8 bytes 12.7, by levels 15.1). */
    {PAMI_XFER_BARRIER, "Dissemination", ALL_SIZES, 8},
    {PAMI_XFER_ALLREDUCE, "RecursiveDoubling", 1 * K, 8},
    {PAMI_XFER_BARRIER, "Hierarchical", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_BROADCAST, "Hierarchical", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_ALLREDUCE, "Hierarchical", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_BARRIER, "Dissemination", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_BROADCAST, "Flat", 4 * K, 4},
    {PAMI_XFER_BROADCAST, "Binomial", 32 * K, ALL_MEMBERS},
    {PAMI_XFER_BROADCAST, "Flat", ALL_SIZES, 2},
    {PAMI_XFER_BROADCAST, "ScatterRing", ALL_SIZES, 64},
    {PAMI_XFER_BROADCAST, "PipelinedBinomial", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_BROADCAST, "Binomial", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_REDUCE, "Binomial", 32 * K, ALL_MEMBERS},
    {PAMI_XFER_REDUCE, "Rabenseifner", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_REDUCE, "Binomial", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_ALLREDUCE, "RecursiveDoubling", 16 * K, ALL_MEMBERS},
    {PAMI_XFER_ALLREDUCE, "Rabenseifner", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_ALLREDUCE, "RecursiveDoubling", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_SCAN, "RecursiveDoubling", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_REDUCE_SCATTER, "RecursiveHalving", 64 * K, ALL_MEMBERS},
    {PAMI_XFER_REDUCE_SCATTER, "Pairwise", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_ALLGATHER, "RecursiveDoubling", 16 * K, ALL_MEMBERS},
    {PAMI_XFER_ALLGATHER, "Bruck", 16 * K, ALL_MEMBERS},
    {PAMI_XFER_ALLGATHER, "Ring", ALL_SIZES, ALL_MEMBERS},
    {PAMI_XFER_ALLGATHERV, "Bruck", 16 * K, ALL_MEMBERS},
    {PAMI_XFER_ALLGATHERV, "Ring", ALL_SIZES, ALL_MEMBERS},

    {PAMI_XFER_GATHER, "Binomial", 4 * K, ALL_MEMBERS},
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

/* A size at *text, which is moved behind it. */
static bool parse_size(const char **text, uint64_t *size)
{
    char *end;

    if (!isdigit((unsigned char)**text))
        return false;
    *size = strtoull(*text, &end, 10);
    switch (toupper((unsigned char)*end)) {
    case 'G':
        *size *= K; /* fall through */
    case 'M':
        *size *= K; /* fall through */
    case 'K':
        *size *= K;
        end++;
        break;
    default:
        break;
    }
    *text = end;
    return true;
}

/* ":LOW-HIGH" or nothing. */
static bool parse_sizes(const char *text, struct select_choice *choice)
{
    choice->bytes_min = 0;
    choice->bytes_max = ALL_SIZES;
    if (*text == '\0')
        return true;
    if (*text++ != ':' || !parse_size(&text, &choice->bytes_min))
        return false;
    if (*text++ != '-')
        return false;
    if (*text == '\0')
        return true;
    return parse_size(&text, &choice->bytes_max) && *text == '\0' &&
           choice->bytes_min <= choice->bytes_max;
}

static bool parse_entry(pami_xfer_type_t type, char *entry, struct select_choice *choice)
{
    size_t length = strcspn(entry, ":");
    char name[64];

    if (length == 0 || length >= sizeof(name))
        return false;
    memcpy(name, entry, length);
    name[length] = '\0';
    choice->members_min = 1;
    choice->members_max = ALL_MEMBERS;
    choice->row = algorithm_find(type, name);
    return choice->row != NULL && parse_sizes(entry + length, choice);
}

static size_t add_overrides(struct select_table *table, size_t count, const struct override *from)
{
    const char *text = option_string(from->option);

    while (text != NULL && *text != '\0' && count < SELECT_CHOICES_MAX) {
        char entry[128];
        size_t length = strcspn(text, ",");
        size_t copied = length < sizeof(entry) - 1 ? length : sizeof(entry) - 1;

        memcpy(entry, text, copied);
        entry[copied] = '\0';
        if (parse_entry(from->type, entry, &table->choices[count]))
            count++;
        else
            log_warn("%s: '%s' is no algorithm of this type with sizes LOW-HIGH",
                     option_info(from->option)->name, entry);
        text += length;
        text += *text == ',';
    }
    return count;
}

/* ---- the table ---- */

static size_t add_preferences(struct select_table *table, size_t count, pami_xfer_type_t type)
{
    for (size_t i = 0; i < PREFERENCES && count < SELECT_CHOICES_MAX; i++) {
        const struct preference *from = &preferences[i];
        const struct algorithm *row = from->type == type ? algorithm_find(type, from->name) : NULL;

        if (row != NULL)
            table->choices[count++] = (struct select_choice){
                .row = row,
                .bytes_max = from->bytes_max,
                .members_min = 1,
                .members_max = from->members_max,
            };
    }
    return count;
}

void select_table_init(struct select_table *table)
{
    size_t count = 0;

    for (unsigned type = 0; type < PAMI_XFER_COUNT; type++) {
        table->first[type] = (uint16_t)count;
        for (size_t i = 0; i < OVERRIDES; i++)
            if (overrides[i].type == (pami_xfer_type_t)type)
                count = add_overrides(table, count, &overrides[i]);
        count = add_preferences(table, count, (pami_xfer_type_t)type);
    }
    table->first[PAMI_XFER_COUNT] = (uint16_t)count;
}

const char *select_option_name(pami_xfer_type_t type)
{
    for (size_t i = 0; i < OVERRIDES; i++)
        if (overrides[i].type == type)
            return option_info(overrides[i].option)->name;
    return "";
}

uint64_t select_bytes(const struct collective *collective, uint32_t members)
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

/* What to fall back on: any row that works here, the earliest of the table. */
static const struct algorithm *any_row(const struct collective *collective,
                                       const struct group *group)
{
    for (size_t i = 0; i < algorithm_count; i++) {
        const struct algorithm *row = &algorithm_table[i];

        if (row->type == collective->type && row->make == NULL &&
            algorithm_unmet(row, collective, group) == 0)
            return row;
    }
    return NULL;
}

static const struct algorithm *first_choice(const struct select_table *table,
                                            const struct group *group,
                                            const struct collective *collective, bool messages)
{
    uint64_t bytes = select_bytes(collective, group->size);

    for (size_t i = table->first[collective->type]; i < table->first[collective->type + 1]; i++) {
        const struct select_choice *choice = &table->choices[i];

        if (bytes < choice->bytes_min || bytes > choice->bytes_max ||
            group->size < choice->members_min || group->size > choice->members_max ||
            (messages && choice->row->make != NULL))
            continue;
        if (likely(choice->row->needs == 0) || algorithm_unmet(choice->row, collective, group) == 0)
            return choice->row;
    }
    return any_row(collective, group);
}

const struct algorithm *select_row(const struct select_table *table, const struct group *group,
                                   const struct collective *collective)
{
    return first_choice(table, group, collective, false);
}

const struct algorithm *select_row_of_messages(const struct select_table *table,
                                               const struct group *group,
                                               const struct collective *collective)
{
    return first_choice(table, group, collective, true);
}
