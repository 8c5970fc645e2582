/*
 * PMI_process_mapping: which node each task runs on, as launchers write it.
 *
 *     (vector,(0,2,4),(2,1,3))
 *
 * A block (first node, nodes, tasks per node) deals its tasks out node by node, in the order of
 * their ids; after the last block the first one starts again, until every task has a node.
 * Pure: text in, node ids out. The usual maps are kept as they are, see struct pmi1_map: nothing
 * is done for each task of the job.
 */
#ifndef LIBPAMI_BOOTSTRAP_PMI1_MAP_H
#define LIBPAMI_BOOTSTRAP_PMI1_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PMI1_MAP_BLOCKS 32

struct pmi1_block {
    uint32_t task, node; /* first ones */
    uint32_t nodes, each;
};

/* A map whose nodes are numbered by their first tasks: it answers without a table. */
struct pmi1_map {
    struct pmi1_block block[PMI1_MAP_BLOCKS];
    uint32_t blocks;
    uint32_t round; /* tasks of all blocks, then they start again */
    uint32_t nodes;
};

/* False: not such a map, or one with too many blocks; pmi1_map_parse knows. */
bool pmi1_map_read(const char *text, struct pmi1_map *map);

uint32_t pmi1_map_node(const struct pmi1_map *map, uint32_t task);

/* How many tasks in turn each node gets, where that is the same for all; else 0. */
uint32_t pmi1_map_run(const struct pmi1_map *map);

/* The tasks below `tasks` on a node, ascending; returns their number. `list` NULL: only that. */
uint32_t pmi1_map_local(const struct pmi1_map *map, uint32_t node, uint32_t tasks, uint32_t *list);

/* Writes the launcher's node id of each task.  -EPROTO when the text is not such a map. */
int pmi1_map_parse(const char *text, uint32_t tasks, uint32_t *ids);

/*
 * Writes the map that spreads tasks over nodes (1 <= nodes <= tasks) in runs whose lengths differ
 * by one at most, the longer ones first.  -ENOBUFS.
 */
int pmi1_map_format(uint32_t tasks, uint32_t nodes, char *text, size_t size);

#endif
