/*
 * Topology: an ordered set of endpoints, and the two questions that collectives ask of it: which
 * endpoint is rank r, and which rank is this endpoint.
 *
 * Kept as small as the set allows: an arithmetic sequence of tasks with one context offset, the
 * same with several offsets per task, or a list. Only a list takes memory per member. A topology
 * does not change once it is made, and may be read by any thread.
 */
#ifndef LIBPAMI_GEOMETRY_TOPOLOGY_H
#define LIBPAMI_GEOMETRY_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#define TOPOLOGY_NO_RANK UINT32_MAX

enum topology_kind {
    TOPOLOGY_STRIDE, /* member r: task first + (r / contexts) * stride, offset + r % contexts */
    TOPOLOGY_LIST,   /* member r: endpoints[r] */
};

struct topology {
    enum topology_kind kind;
    uint32_t size;     /* members */
    uint32_t first;    /* stride: the first task, ... */
    int32_t stride;    /* ... distance of two, negative when tasks descend, ... */
    uint32_t contexts; /* ... endpoints per task, offset .. offset + contexts - 1 */
    uint32_t offset;
    uint32_t *endpoints; /* list: owned */
    uint32_t *index;     /* list: hash of endpoints to ranks, owned; made with the list */
    uint32_t index_mask;
};

/* Tasks first, first + stride, ...: `tasks` of them with `contexts` endpoints each. */
void topology_init_stride(struct topology *topology, uint32_t first, int32_t stride, uint32_t tasks,
                          uint32_t offset, uint32_t contexts);

/*
 * Copies the list; becomes a stride when the list is one. 0, -ENOMEM, or -EEXIST when an endpoint
 * is in it twice.
 */
int topology_init_list(struct topology *topology, const uint32_t *endpoints, uint32_t size);

/* Members first, first + step, ... of another one: `count` of them, all below its size. False where
 * that needs a list. */
bool topology_init_part(struct topology *topology, const struct topology *whole, uint32_t first,
                        uint32_t step, uint32_t count);

void topology_finish(struct topology *topology);

/* rank < size */
uint32_t topology_endpoint(const struct topology *topology, uint32_t rank);

/* TOPOLOGY_NO_RANK: not a member. */
uint32_t topology_rank(const struct topology *topology, uint32_t endpoint);

/* A hash of the members and their order, the same on all tasks. */
uint64_t topology_digest(const struct topology *topology);

#endif
