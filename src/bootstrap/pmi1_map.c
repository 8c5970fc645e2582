/*
 * Reading and writing PMI_process_mapping, see pmi1_map.h.
 *
 * Work is bounded by the length of the text plus the number of tasks: a block without tasks ends
 * the parse with an error, so a repetition always gives at least one more task its node.
 */
#include "bootstrap/pmi1_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct reader {
    const char *at;
};

static void skip_spaces(struct reader *reader)
{
    reader->at += strspn(reader->at, " ");
}

static bool take(struct reader *reader, const char *word)
{
    size_t length = strlen(word);

    skip_spaces(reader);
    if (strncmp(reader->at, word, length) != 0)
        return false;
    reader->at += length;
    return true;
}

static bool take_number(struct reader *reader, uint32_t *number)
{
    uint64_t value = 0;
    const char *start;

    skip_spaces(reader);
    for (start = reader->at; *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        value = value * 10 + (uint64_t)(*reader->at - '0');
        if (value > INT32_MAX)
            return false;
    }
    *number = (uint32_t)value;
    return reader->at != start;
}

static bool take_block(struct reader *reader, uint32_t *first, uint32_t *nodes, uint32_t *each)
{
    return take(reader, "(") && take_number(reader, first) && take(reader, ",") &&
           take_number(reader, nodes) && take(reader, ",") && take_number(reader, each) &&
           take(reader, ")") && *nodes > 0 && *each > 0;
}

/* Deals one block's tasks from `task` on; returns the next task without a node. */
static uint32_t deal(uint32_t first, uint32_t nodes, uint32_t each, uint32_t task, uint32_t tasks,
                     uint32_t *ids)
{
    uint32_t node, i;

    for (node = 0; node < nodes && task < tasks; node++)
        for (i = 0; i < each && task < tasks; i++)
            ids[task++] = first + node;
    return task;
}

int pmi1_map_parse(const char *text, uint32_t tasks, uint32_t *ids)
{
    struct reader reader = {text};
    const char *blocks;
    uint32_t first, nodes, each, task = 0;

    if (!take(&reader, "(") || !take(&reader, "vector"))
        return -EPROTO;
    blocks = reader.at;
    do {
        reader.at = blocks;
        while (take(&reader, ",")) {
            if (!take_block(&reader, &first, &nodes, &each))
                return -EPROTO;
            task = deal(first, nodes, each, task, tasks, ids);
        }
        if (!take(&reader, ")") || *reader.at != '\0' || task == 0)
            return -EPROTO;
    } while (task < tasks);
    return 0;
}

bool pmi1_map_read(const char *text, struct pmi1_map *map)
{
    struct reader reader = {text};
    uint64_t tasks = 0, nodes = 0;

    map->blocks = 0;
    if (!take(&reader, "(") || !take(&reader, "vector"))
        return false;
    while (take(&reader, ",")) {
        struct pmi1_block *block = &map->block[map->blocks];

        if (map->blocks == PMI1_MAP_BLOCKS ||
            !take_block(&reader, &block->node, &block->nodes, &block->each) || block->node != nodes)
            return false;
        block->task = (uint32_t)tasks;
        tasks += (uint64_t)block->nodes * block->each;
        nodes += block->nodes;
        if (tasks > INT32_MAX || nodes > INT32_MAX)
            return false;
        map->blocks++;
    }
    map->round = (uint32_t)tasks;
    map->nodes = (uint32_t)nodes;
    return take(&reader, ")") && *reader.at == '\0' && tasks != 0;
}

uint32_t pmi1_map_node(const struct pmi1_map *map, uint32_t task)
{
    const struct pmi1_block *block = &map->block[map->blocks - 1];

    task %= map->round;
    while (block->task > task)
        block--;
    return block->node + (task - block->task) / block->each;
}

uint32_t pmi1_map_run(const struct pmi1_map *map)
{
    for (uint32_t i = 1; i < map->blocks; i++)
        if (map->block[i].each != map->block[0].each)
            return 0;
    return map->block[0].each;
}

uint32_t pmi1_map_local(const struct pmi1_map *map, uint32_t node, uint32_t tasks, uint32_t *list)
{
    const struct pmi1_block *block = &map->block[map->blocks - 1];
    uint32_t count = 0;
    uint64_t first;

    while (block->node > node)
        block--;
    first = block->task + (uint64_t)(node - block->node) * block->each;
    for (; first < tasks; first += map->round)
        for (uint64_t task = first; task < first + block->each && task < tasks; task++) {
            if (list != NULL)
                list[count] = (uint32_t)task;
            count++;
        }
    return count;
}

int pmi1_map_format(uint32_t tasks, uint32_t nodes, char *text, size_t size)
{
    uint32_t each = tasks / nodes, longer = tasks % nodes;
    int length;

    if (longer == 0)
        length = snprintf(text, size, "(vector,(0,%u,%u))", nodes, each);
    else
        length = snprintf(text, size, "(vector,(0,%u,%u),(%u,%u,%u))", longer, each + 1, longer,
                          nodes - longer, each);
    return length < 0 || (size_t)length >= size ? -ENOBUFS : 0;
}
