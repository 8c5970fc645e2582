/*
 * PMI_process_mapping: which node each task runs on, as launchers write it.
 *
 *     (vector,(0,2,4),(2,1,3))
 *
 * A block (first node, nodes, tasks per node) deals its tasks out node by node, in the order of
 * their ids; after the last block the first one starts again, until every task has a node.
 * Pure: text in, node ids out.
 */
#ifndef LIBPAMI_BOOTSTRAP_PMI1_MAP_H
#define LIBPAMI_BOOTSTRAP_PMI1_MAP_H

#include <stddef.h>
#include <stdint.h>

/* Writes the launcher's node id of each task.  -EPROTO when the text is not such a map. */
int pmi1_map_parse(const char *text, uint32_t tasks, uint32_t *ids);

/*
 * Writes the map that spreads tasks over nodes (1 <= nodes <= tasks) in runs whose lengths differ
 * by one at most, the longer ones first.  -ENOBUFS.
 */
int pmi1_map_format(uint32_t tasks, uint32_t nodes, char *text, size_t size);

#endif
