/*
 * Numbers of messages between two tasks, so that one that was sent to several contexts is taken
 * once.
 *
 * Every message to a task has a number, one after another. Its copies may arrive at any time and in
 * any order, some of them when everything they are about is long over. What has been seen is a
 * number up to which all were, and a few ranges above; each context that is advanced closes gaps.
 */
#ifndef LIBPAMI_GEOMETRY_NEIGHBOUR_H
#define LIBPAMI_GEOMETRY_NEIGHBOUR_H

#include <stdint.h>

#include "util/hash.h"

/* The number of the next message to the task, from 1 on; 0 without memory. `map` is by task. */
uint64_t neighbour_next(struct u64map *map, uint32_t task);

/* 1: the message with this number has not been seen before, and there is room to note it; 0: it
 * has; -ENOMEM. */
int neighbour_is_new(struct u64map *map, uint32_t task, uint64_t number);

/* It has now: right after neighbour_is_new said that it had not. */
void neighbour_seen(struct u64map *map, uint32_t task, uint64_t number);

void neighbours_free(struct u64map *map);

#endif
