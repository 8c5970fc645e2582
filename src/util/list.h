/*
 * Intrusive doubly linked list: the link lives inside the element, the head is a link too.
 *
 * An empty head points at itself.  A link that list_remove has taken out points at itself as
 * well, so removing it again is harmless.  No locking, no allocation.
 */
#ifndef LIBPAMI_UTIL_LIST_H
#define LIBPAMI_UTIL_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

/* The structure of type `type` whose member `member` is `pointer` points at. */
#define container_of(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#define LIST_INITIALIZER(head)                                                                     \
    {                                                                                              \
        &(head), &(head)                                                                           \
    }

static inline void list_init(struct list *head)
{
    head->next = head;
    head->prev = head;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_insert_after(struct list *where, struct list *item)
{
    item->prev = where;
    item->next = where->next;
    where->next->prev = item;
    where->next = item;
}

static inline void list_push_front(struct list *head, struct list *item)
{
    list_insert_after(head, item);
}

static inline void list_push_back(struct list *head, struct list *item)
{
    list_insert_after(head->prev, item);
}

static inline void list_remove(struct list *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    list_init(item);
}

/* The first link, or NULL. */
static inline struct list *list_first(const struct list *head)
{
    return list_empty(head) ? NULL : head->next;
}

/* Takes the first link out; NULL when there is none. */
static inline struct list *list_pop_front(struct list *head)
{
    struct list *item = list_first(head);

    if (item != NULL)
        list_remove(item);
    return item;
}

/* Moves all of `from` to the end of `head`; `from` is empty afterwards. */
static inline void list_splice_back(struct list *head, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->prev = head->prev;
    head->prev->next = from->next;
    from->prev->next = head;
    head->prev = from->prev;
    list_init(from);
}

/* The list must not change while it is walked. */
#define list_for_each(item, head)                                                                  \
    for ((item) = (head)->next; (item) != (head); (item) = (item)->next)

/* The same when the body may take `item` (and nothing else) out; `following` is scratch. */
#define list_for_each_safe(item, following, head)                                                  \
    for ((item) = (head)->next, (following) = (item)->next; (item) != (head);                      \
         (item) = (following), (following) = (item)->next)

#define list_entry(item, type, member) container_of(item, type, member)

#endif
