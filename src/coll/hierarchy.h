/*
 * What the files hierarchy*.c share: building a collective of a group that divides into domains
 * (levels.h) out of links in its sub-groups.
 */
#ifndef LIBPAMI_COLL_HIERARCHY_H
#define LIBPAMI_COLL_HIERARCHY_H

#include "coll/collective.h"
#include "coll/flow.h"
#include "coll/levels.h"

/* What is made for the segments of a collective. */
struct build {
    struct group *group;
    const struct levels *levels;
    struct flow_links segments[FLOW_SEGMENTS_MAX];
    uint32_t count;  /* segments with links */
    bool sliced;     /* by several leaders of each domain */
    bool voices;     /* who comes last speaks for a domain */
    bool direct;     /* nobody stands between a source and a destination */
    bool aggregated; /* leaders by aggregation nodes: those of the first set, one tree for all */
    struct flow_memory *memory;
    int error; /* the first one; nothing is added any more */
};

/* Where a root is, and who leads towards it. */
struct way {
    struct group *leaders; /* NULL: this member does not lead */
    uint32_t domain;       /* the root's */
    uint32_t index;        /* the root's, among the members of its domain */
    uint32_t leader;       /* of this domain, among its members */
    bool here;             /* this is the root's domain */
    bool direct;           /* the root leads its domain */
};

struct way hierarchy_way(const struct build *build, uint32_t root);

static inline uint32_t build_locals(const struct build *build)
{
    return build->levels->local->size;
}

/* The only member of its domain: that level is left out. */
static inline bool build_is_alone(const struct build *build)
{
    return build_locals(build) == 1;
}

static inline bool build_is_root(const struct build *build, const struct way *way)
{
    return way->here && build->levels->local->rank == way->index;
}

/* Memory that lives as long as the links. NULL: there is none, and the build has failed. */
void *hierarchy_memory(struct build *build, uint64_t bytes);

/* So many zeros. */
uint64_t *hierarchy_numbers(struct build *build, uint32_t count);

/* A link of another type with the same buffers and operator; types are held once more. */
struct collective hierarchy_like(const struct collective *from, pami_xfer_type_t type,
                                 uint32_t root);

/* Another buffer in a link. */
void hierarchy_replace(struct area_map *map, const struct area_map *with);

/* Add a link in a group; *collective is taken over. */
void hierarchy_add(struct build *build, struct group *group, struct collective *collective);

/* The same by a row of one's own choice. */
void hierarchy_add_row(struct build *build, struct group *group, const struct algorithm *row,
                       struct collective *collective);

/* Add a link that only does something here. */
void hierarchy_act(struct build *build, void (*run)(void *cookie), void *cookie);

/* Plain memory, as one block, as equal ones, as blocks that begin where `starts` says. */
struct area_map hierarchy_plain(char *memory);
struct area_map hierarchy_equal(char *memory, uint64_t bytes);
struct area_map hierarchy_packed(const struct area_map *map, const uint64_t *starts);

/* Blocks that follow one another as one. */
static inline struct area_map hierarchy_as_one(const struct area_map *map)
{
    struct area_map one = *map;

    one.blocks = BLOCKS_ONE;
    return one;
}

/* Where the blocks of all members lie while they travel: hierarchy_store.c */
struct store {
    const struct levels *levels;
    struct area_map user;  /* as given, of a block for each member; the flow keeps its type */
    struct area_map map;   /* `user`, or memory of ours: domain after domain */
    bool own;              /* memory of ours */
    uint64_t bytes;        /* of all blocks */
    uint64_t equal;        /* of a block ... */
    const uint64_t *sizes; /* ... or of each, by rank; NULL: equal */
    uint64_t *starts;      /* [domains + 1]: data bytes in front of each domain */
};

#define FIRST_NONE UINT32_MAX

/*
 * `user` NULL: none here. `first`: the domain that lies in front of the others, which is memory of
 * ours then. NULL: the build has failed.
 */
struct store *hierarchy_store(struct build *build, const struct area_map *user, uint64_t equal,
                              const uint64_t *sizes, uint32_t first);

/* As one block, as a block for each domain, as the equal blocks of one domain's members. */
struct area_map store_all(const struct store *store);
struct area_map store_domains(const struct store *store);
struct area_map store_domain(const struct store *store, uint32_t domain);

/* Links: from the user's buffer to memory of ours, and back. */
void store_pack(struct build *build, struct store *store);
void store_unpack(struct build *build, struct store *store);

/* A link that copies a block; the flow keeps the types. */
void hierarchy_copy(struct build *build, const struct area_map *from, const struct area_map *to,
                    uint64_t bytes);

/* Add a link among the members of the domain; where there is one only, its block is copied, unless
 * it is in place. *collective is taken over. */
void hierarchy_add_inside(struct build *build, struct collective *collective, uint64_t bytes);

/* A broadcast from member `root` of one of the groups to its others. */
void hierarchy_broadcast(struct build *build, struct group *group, const struct collective *from,
                         uint32_t root);

/* Links of one collective: hierarchy_gather.c, hierarchy_all.c, hierarchy_scan.c,
 * hierarchy_slices.c, hierarchy_direct.c, hierarchy_voices.c */
void hierarchy_gather(struct build *build, const struct collective *from);
void hierarchy_scatter(struct build *build, const struct collective *from);
void hierarchy_allgather(struct build *build, const struct collective *from);
void hierarchy_alltoall(struct build *build, const struct collective *from);
void hierarchy_scan(struct build *build, const struct collective *from);
void hierarchy_reduce_scatter(struct build *build, const struct collective *from);
void hierarchy_slices(struct build *build, const struct collective *from);
void hierarchy_direct(struct build *build, const struct collective *from);
void hierarchy_voices(struct build *build, const struct collective *from);

#endif
