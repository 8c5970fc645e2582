/*
 * What the tests of the inbox share: rings in ordinary or shared memory, and packets that say who
 * sent them, in which order, and whether they are whole. Each program is one translation unit.
 */
#ifndef LIBPAMI_UNIT_INBOX_MODEL_H
#define LIBPAMI_UNIT_INBOX_MODEL_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/shm/inbox.h"

#define SENDERS_MOST 16

/* An inbox whose next packet has index `first`, a multiple of `slots`; shared with children. */
static inline struct inbox *inbox_make(uint32_t slots, uint64_t first)
{
    size_t bytes = sizeof(struct inbox) + slots * sizeof(struct slot);
    struct inbox *inbox =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (inbox == MAP_FAILED)
        abort();
    atomic_init(&inbox->head, first);
    atomic_init(&inbox->tail, first);
    for (uint32_t i = 0; i < slots && first != 0; i++)
        atomic_init(&inbox->slots[i].word, inbox_word(first - slots + i));
    return inbox;
}

static inline void inbox_unmake(struct inbox *inbox, uint32_t slots)
{
    munmap(inbox, sizeof(struct inbox) + slots * sizeof(struct slot));
}

static inline struct inbox_sender sender_of(struct inbox *inbox, uint32_t slots, uint32_t self)
{
    return (struct inbox_sender){.inbox = inbox, .slots = slots, .self = self};
}

static inline struct inbox_reader reader_of(struct inbox *inbox, uint32_t slots)
{
    uint64_t head = atomic_load(&inbox->head);

    return (struct inbox_reader){.inbox = inbox, .slots = slots, .head = head, .published = head};
}

/* Fill all of a slot but its word. */
static inline void packet_write(struct slot *slot, uint32_t self, uint32_t number)
{
    slot->head.origin = self;
    slot->head.aux = number;
    memset(slot->body, (int)(self * 31 + number), sizeof slot->body);
}

/* False when the ring is full. */
static inline bool packet_send(struct inbox_sender *sender, uint32_t number)
{
    struct slot *slot = inbox_claim(sender);

    if (slot == NULL)
        return false;
    packet_write(slot, sender->self, number);
    inbox_publish(sender, slot);
    return true;
}

/* All of the packet is from one sender and of one number. */
static inline bool packet_whole(const struct slot *slot)
{
    unsigned char value = (unsigned char)(slot->head.origin * 31 + slot->head.aux);

    for (size_t i = 0; i < sizeof slot->body; i++)
        if ((unsigned char)slot->body[i] != value)
            return false;
    return true;
}

/* What the consumer knows of each sender. */
struct books {
    uint32_t expected[SENDERS_MOST]; /* next number */
    uint64_t count, damaged, disordered;
};

/* Take the next packet, if there is one, and check it. */
static inline bool packet_take(struct inbox_reader *reader, struct books *books)
{
    struct slot *slot = inbox_ready(reader);

    if (slot == NULL) {
        inbox_release(reader);
        return false;
    }
    if (slot->head.origin >= SENDERS_MOST || !packet_whole(slot))
        books->damaged++;
    else if (slot->head.aux != books->expected[slot->head.origin]++)
        books->disordered++;
    books->count++;
    inbox_consume(reader);
    return true;
}

#endif
