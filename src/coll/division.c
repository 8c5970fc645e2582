/*
 * Divisions of groups into domains: when they are regular, and the tables where they are not; see
 * division.h.
 */
#include "coll/division.h"

#include <errno.h>
#include <stdlib.h>

#include "util/hash.h"
#include "util/minmax.h"

/* ---- regular ones ---- */

/* Runs of `run` ranks, `lead` of them missing in front, for so many domains at most. */
static bool set_regular(struct division *division, uint32_t size, uint64_t run, uint64_t lead,
                        uint32_t most)
{
    uint64_t runs = (lead + size + run - 1) / run;

    if (runs == 1 || most == 1) {
        run = size;
        lead = 0;
        runs = 1;
    }
    if (runs > most && lead != 0)
        return false;
    *division = (struct division){
        .size = size,
        .domains = (uint32_t)(runs < most ? runs : most),
        .ordered = runs <= most,
        .run = (uint32_t)run,
        .lead = (uint32_t)lead,
    };
    division->rounds = (uint32_t)((lead + size) / (run * division->domains));
    division->rest = (uint32_t)((lead + size) % (run * division->domains));
    return true;
}

bool division_init_regular(struct division *division, const struct topology *topology, uint32_t run,
                           uint32_t places)
{
    uint32_t stride =
        (uint32_t)(topology->stride < 0 ? -(int64_t)topology->stride : (int64_t)topology->stride);
    uint64_t contexts = topology->contexts;
    uint32_t lead;

    if (topology->kind != TOPOLOGY_STRIDE || topology->size == 0)
        return false;
    if (run % stride == 0) {
        lead = topology->first % run;
        if (topology->stride < 0)
            lead = run - 1 - lead;
        return set_regular(division, topology->size, run / stride * contexts,
                           lead / stride * contexts, places);
    }
    /* Each task is in a run of its own, so many places behind the one before. */
    if (stride % run != 0)
        return false;
    return set_regular(division, topology->size, contexts, 0,
                       places / common_divisor(places, stride / run));
}

/* ---- tables ---- */

/* The number of each rank's domain in `domain`. 0 or -ENOMEM. */
static int number_domains(struct division *division,
                          uint32_t (*place)(const void *cookie, uint32_t rank), const void *cookie)
{
    struct u64map numbers = {0}; /* by place: where in `domain` there is one of its members */
    uint32_t last = 0;
    int error = 0;

    for (uint32_t rank = 0; rank < division->size && error == 0; rank++) {
        uint32_t here = place(cookie, rank);
        uint32_t *known;

        if (rank != 0 && here == last) {
            division->domain[rank] = division->domain[rank - 1];
            continue;
        }
        last = here;
        known = u64map_get(&numbers, here);
        if (known != NULL) {
            division->domain[rank] = *known;
            continue;
        }
        division->domain[rank] = division->domains++;
        error = u64map_put(&numbers, here, &division->domain[rank]);
    }
    u64map_finish(&numbers);
    return error;
}

/* Everything else, by counting. */
static void fill_tables(struct division *division)
{
    uint32_t *start = division->start;

    for (uint32_t rank = 0; rank < division->size; rank++)
        division->index[rank] = start[division->domain[rank] + 1]++;
    for (uint32_t domain = 0; domain < division->domains; domain++)
        start[domain + 1] += start[domain];
    division->ordered = true;
    for (uint32_t rank = 0; rank < division->size; rank++) {
        uint32_t at = start[division->domain[rank]] + division->index[rank];

        division->order[at] = rank;
        division->ordered = division->ordered && at == rank;
    }
}

int division_init_tables(struct division *division, uint32_t size,
                         uint32_t (*place)(const void *cookie, uint32_t rank), const void *cookie)
{
    uint32_t *memory = calloc(4 * (size_t)size + 1, sizeof(*memory)), *fitting;
    int error;

    if (memory == NULL)
        return -ENOMEM;
    *division = (struct division){
        .size = size,
        .order = memory,
        .domain = memory + size,
        .index = memory + 2 * (size_t)size,
        .start = memory + 3 * (size_t)size,
    };
    error = number_domains(division, place, cookie);
    if (error != 0) {
        division_finish(division);
        return error;
    }
    fill_tables(division);
    fitting = realloc(memory, (3 * (size_t)size + division->domains + 1) * sizeof(*memory));
    if (fitting != NULL) {
        division->order = fitting;
        division->domain = fitting + size;
        division->index = fitting + 2 * (size_t)size;
        division->start = fitting + 3 * (size_t)size;
    }
    return 0;
}

void division_finish(struct division *division)
{
    free(division->order);
    *division = (struct division){.size = 0};
}

void division_extremes(const struct division *division, uint32_t *least, uint32_t *most)
{
    uint32_t step = 1;

    /* Of regular ones the first, those between, which are all alike or descend, and the last. */
    if (division->run != 0 && division->domains > 3)
        step = division->domains - 2;
    *least = UINT32_MAX;
    *most = 0;
    for (uint32_t domain = 0; domain < division->domains; domain += domain == 0 ? 1 : step) {
        uint32_t count = division_count(division, domain);

        *least = count < *least ? count : *least;
        *most = count > *most ? count : *most;
    }
}
