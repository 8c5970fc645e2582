/*
 * A map from short texts to short texts that remembers the order of insertion.
 *
 * Entries never go away; their addresses change when one is added.
 */
#ifndef PAMIRUN_CARDS_H
#define PAMIRUN_CARDS_H

#include <stddef.h>
#include <stdint.h>

struct card {
    char *key, *value;  /* one allocation, at key */
    uint32_t task, era; /* whoever put it, see server.c */
};

struct cards {
    struct card *list; /* in order of insertion */
    size_t count, room;
    uint32_t *slots; /* open addressing: 1 + index into list, 0: free; mask + 1 of them */
    size_t mask;
    size_t bytes; /* of all keys and values */
};

struct card *cards_find(const struct cards *cards, const char *key);

/* Adds or replaces.  -ENOMEM, also when the map would pass 256 MiB. */
int cards_put(struct cards *cards, const char *key, const char *value, uint32_t task, uint32_t era);

void cards_finish(struct cards *cards);

#endif
