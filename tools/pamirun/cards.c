/*
 * The map of cards.h: a list, and a table of indexes into it that is at most half full.
 */
#include "cards.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX ((size_t)256 << 20)

static size_t hash(const char *key)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (; *key != '\0'; key++)
        h = (h ^ (unsigned char)*key) * UINT64_C(0x100000001b3);
    return (size_t)(h ^ (h >> 32));
}

struct card *cards_find(const struct cards *cards, const char *key)
{
    size_t i;

    if (cards->slots == NULL)
        return NULL;
    for (i = hash(key) & cards->mask; cards->slots[i] != 0; i = (i + 1) & cards->mask)
        if (strcmp(cards->list[cards->slots[i] - 1].key, key) == 0)
            return &cards->list[cards->slots[i] - 1];
    return NULL;
}

static void slot_take(struct cards *cards, size_t index)
{
    size_t i = hash(cards->list[index].key) & cards->mask;

    while (cards->slots[i] != 0)
        i = (i + 1) & cards->mask;
    cards->slots[i] = (uint32_t)index + 1;
}

/* Makes room for one more entry. */
static int grow(struct cards *cards)
{
    size_t room = cards->room == 0 ? 64 : cards->room * 2;
    struct card *list;
    uint32_t *slots;
    size_t i;

    if (cards->count < cards->room)
        return 0;
    list = realloc(cards->list, room * sizeof *list);
    if (list == NULL)
        return -ENOMEM;
    cards->list = list;
    slots = calloc(room * 2, sizeof *slots);
    if (slots == NULL)
        return -ENOMEM;
    free(cards->slots);
    cards->slots = slots;
    cards->mask = room * 2 - 1;
    cards->room = room;
    for (i = 0; i < cards->count; i++)
        slot_take(cards, i);
    return 0;
}

int cards_put(struct cards *cards, const char *key, const char *value, uint32_t task, uint32_t era)
{
    size_t key_bytes = strlen(key) + 1, value_bytes = strlen(value) + 1;
    struct card *card = cards_find(cards, key);
    char *text;

    if (cards->bytes + key_bytes + value_bytes > BYTES_MAX || (card == NULL && grow(cards) != 0))
        return -ENOMEM;
    text = malloc(key_bytes + value_bytes);
    if (text == NULL)
        return -ENOMEM;
    memcpy(text, key, key_bytes);
    memcpy(text + key_bytes, value, value_bytes);
    cards->bytes += key_bytes + value_bytes;
    if (card != NULL) {
        cards->bytes -= strlen(card->key) + strlen(card->value) + 2;
        free(card->key);
        *card = (struct card){text, text + key_bytes, task, era};
    } else {
        cards->list[cards->count] = (struct card){text, text + key_bytes, task, era};
        slot_take(cards, cards->count++);
    }
    return 0;
}

void cards_finish(struct cards *cards)
{
    size_t i;

    for (i = 0; i < cards->count; i++)
        free(cards->list[i].key);
    free(cards->list);
    free(cards->slots);
    *cards = (struct cards){0};
}
