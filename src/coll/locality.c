/*
 * Where the members of groups are; see locality.h.
 */
#include "coll/locality.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "coll/coll.h"
#include "coll/machine.h"
#include "geometry/state.h"
#include "util/hash.h"
#include "util/option.h"

/* Larger groups have no levels where these are not arithmetic: finding them takes time and memory
 * for each member. */
#define LEVELS_MEMBERS_MAX 8192u
#define LEAVES_MAX (1u << 20)

/* ---- the option ---- */

static const char *const level_names[LEVELS] = {"node", "package", "numa", "cache", "core"};

/* "NAME" or "NAME:COUNT" for a level from `from` on; the level, or LEVELS. */
static unsigned read_word(const char *word, size_t length, unsigned from, uint32_t *count)
{
    size_t name = strcspn(word, ": ,");
    unsigned level = from;
    char *end = NULL;

    while (level < LEVELS &&
           (strlen(level_names[level]) != name || strncmp(level_names[level], word, name) != 0))
        level++;
    *count = 0;
    if (name < length && word[name] == ':') {
        unsigned long value = strtoul(word + name + 1, &end, 10);

        if (end != word + length || value == 0 || value > LEAVES_MAX)
            return LEVELS;
        *count = (uint32_t)value;
    }
    return level;
}

static int read_text(struct locality *locality, const char *text)
{
    unsigned from = LEVEL_NODE;

    for (text += strspn(text, ", "); *text != '\0'; text += strspn(text, ", ")) {
        size_t length = strcspn(text, ", ");
        uint32_t count;
        unsigned level = read_word(text, length, from, &count);

        /* What a task is bound to is known on its own node only: no level of made-up ones. */
        if (level == LEVELS || (uint64_t)locality->leaves * (count + !count) > LEAVES_MAX ||
            (count == 0 && locality->count[LEVEL_NODE] != 0))
            return -EINVAL;
        locality->wanted[level] = true;
        locality->count[level] = count;
        locality->leaves *= count + !count;
        from = level + 1;
        text += length;
    }
    return 0;
}

int locality_read(struct locality *locality, const struct client_core *core)
{
    int error;
    bool asks = false;

    *locality = (struct locality){.bootstrap = core->bootstrap, .leaves = 1};
    error = read_text(locality, option_string(OPT_COLL_LEVELS));
    if (error != 0)
        *locality = (struct locality){.bootstrap = core->bootstrap, .leaves = 1};
    locality->wanted[LEVEL_NODE] = true;
    for (unsigned level = LEVELS, inner = 1; level-- > 0;) {
        locality->inner[level] = inner;
        inner *= locality->count[level] + !locality->count[level];
        asks =
            asks || (level != LEVEL_NODE && locality->wanted[level] && locality->count[level] == 0);
    }
    if (asks)
        locality->machine = machine_places(core);
    return error;
}

uint32_t locality_domain(const struct locality *locality, unsigned level, uint32_t task)
{
    uint32_t node = UINT32_MAX;

    if (locality->count[level] != 0)
        return task % locality->leaves / locality->inner[level];
    if (level == LEVEL_NODE) {
        bootstrap_node_of(locality->bootstrap, task, &node);
        return node;
    }
    return locality->machine == NULL ? 0 : machine_domain(locality->machine, level, task);
}

bool locality_divide(const struct locality *locality, unsigned level,
                     const struct topology *topology, struct division *division)
{
    const struct bootstrap *bootstrap = locality->bootstrap;

    if (locality->count[level] != 0)
        return division_init_regular(division, topology, locality->inner[level],
                                     locality->leaves / locality->inner[level]);
    if (level != LEVEL_NODE)
        return locality->machine == NULL && division_init_regular(division, topology, 1, 1);
    return bootstrap->run != 0 &&
           division_init_regular(division, topology, bootstrap->run, bootstrap->nodes);
}

/* ---- groups ---- */

/* What is remembered: PLACES_KNOWN, whether all are on one node, whether a network is between them,
 * whether a node has two of them or fewer, whether the domains into which it divides have
 * consecutive ranks, and above PLACES_LEVEL the level at which it does, plus 1. */
enum places {
    PLACES_KNOWN = 1,
    PLACES_ONE_NODE = 2,
    PLACES_NETWORK = 4,
    PLACES_CONSECUTIVE = 8,
    PLACES_PAIRS = 16,
    PLACES_LEVEL = 32,
};

static uint32_t domain_of(const struct locality *locality, unsigned level,
                          const struct topology *topology, uint32_t rank)
{
    return locality_domain(locality, level, endpoint_task(topology_endpoint(topology, rank)));
}

/* The same as count_domains, slowly, without memory: all members have to find the same. */
static uint32_t count_slowly(const struct locality *locality, unsigned level,
                             const struct topology *topology)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < topology->size; rank++) {
        uint32_t domain = domain_of(locality, level, topology, rank), first = 0;

        while (domain_of(locality, level, topology, first) != domain)
            first++;
        count += first == rank;
        if (rank > LEVELS_MEMBERS_MAX && count > 1)
            return 0;
    }
    return count;
}

/* Domains of a level among the members; 0: too many members to look. */
static uint32_t count_domains(const struct locality *locality, unsigned level,
                              const struct topology *topology)
{
    static char present;
    struct u64map domains = {0};
    struct division division;
    uint32_t rank = 0, count;
    int error = 0;

    if (locality_divide(locality, level, topology, &division))
        return division.domains;
    for (; rank < topology->size; rank++) {
        error = u64map_put(&domains, domain_of(locality, level, topology, rank), &present);
        if (error != 0 || (rank > LEVELS_MEMBERS_MAX && domains.count > 1))
            break;
    }
    count = rank == topology->size ? (uint32_t)domains.count : 0;
    u64map_finish(&domains);
    return error == 0 ? count : count_slowly(locality, level, topology);
}

/* The outermost level that is neither one domain nor one for each member. */
static unsigned find_level(const struct locality *locality, const struct topology *topology)
{
    for (unsigned level = LEVEL_NODE; level < LEVELS; level++) {
        uint32_t domains = locality->wanted[level] ? count_domains(locality, level, topology) : 1;

        if (domains == 1)
            continue;
        return domains == 0 || domains == topology->size ? LEVELS : level;
    }
    return LEVELS;
}

/* The rank after a domain's last one begins a domain that was not there before. */
static bool is_consecutive(const struct locality *locality, unsigned level,
                           const struct topology *topology)
{
    uint32_t changes = 0, last = 0;
    struct division division;

    if (locality_divide(locality, level, topology, &division))
        return division.ordered;
    for (uint32_t rank = 0; rank < topology->size; rank++) {
        uint32_t domain = domain_of(locality, level, topology, rank);

        changes += rank == 0 || domain != last;
        last = domain;
    }
    return changes == count_domains(locality, level, topology);
}

static int find_places(const struct client_core *core, const struct topology *topology)
{
    struct locality locality, truth = {.bootstrap = core->bootstrap};
    uint32_t nodes = count_domains(&truth, LEVEL_NODE, topology);
    unsigned level;
    int places = PLACES_KNOWN;

    locality_read(&locality, core);
    level = find_level(&locality, topology);
    if (nodes == 1)
        places |= PLACES_ONE_NODE;
    else if (core->network)
        places |= PLACES_NETWORK;
    if (nodes > 1 && topology->size <= 2 * nodes)
        places |= PLACES_PAIRS;
    if (level == LEVELS)
        return places;
    if (is_consecutive(&locality, level, topology))
        places |= PLACES_CONSECUTIVE;
    return places + PLACES_LEVEL * (int)(level + 1);
}

/* Sub-groups of leaders do not divide again: what would is their domains. */
static int places_of(const struct group *group)
{
    struct geometry *geometry = group->geometry;
    int known;

    if (group->channel != 0) {
        if (group->state->places == 0)
            group->state->places = find_places(geometry->client->core, group->topology);
        return group->state->places;
    }
    known = atomic_load_explicit(&geometry->places, memory_order_relaxed);
    if (known == 0) {
        known = find_places(geometry->client->core, &geometry->topology);
        atomic_store_explicit(&geometry->places, known, memory_order_relaxed);
    }
    return known;
}

int group_places_like(uint32_t members, uint32_t nodes, bool network)
{
    int places = PLACES_KNOWN | PLACES_CONSECUTIVE | (network ? PLACES_NETWORK : 0);

    if (nodes == 1)
        return PLACES_KNOWN | PLACES_ONE_NODE;
    if (members <= 2 * nodes)
        places |= PLACES_PAIRS;
    return nodes == members ? places : places + PLACES_LEVEL * (LEVEL_NODE + 1);
}

bool group_on_one_node(const struct group *group)
{
    return (places_of(group) & PLACES_ONE_NODE) != 0;
}

bool group_over_network(const struct group *group)
{
    return (places_of(group) & PLACES_NETWORK) != 0;
}

bool group_is_pairs(const struct group *group)
{
    return (places_of(group) & PLACES_PAIRS) != 0;
}

unsigned group_level(const struct group *group)
{
    int places = places_of(group);

    if (places < PLACES_LEVEL || group->channel >= COLL_CHANNEL_INNER)
        return LEVELS;
    return (unsigned)(places / PLACES_LEVEL) - 1;
}

bool group_is_consecutive(const struct group *group)
{
    return (places_of(group) & PLACES_CONSECUTIVE) != 0;
}

bool group_has_levels(const struct group *group)
{
    return group_level(group) != LEVELS;
}
