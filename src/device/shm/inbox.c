/*
 * The rare parts: claiming a slot, what has been claimed. See inbox.h for the protocol.
 */
#include "device/shm/inbox.h"

#include <stddef.h>

/* Move the sender's idea of the tail forward by what the ring tells; a tail is never too high. */
static bool catch_up(struct inbox_sender *sender)
{
    const struct inbox *inbox = sender->inbox;
    uint64_t head = atomic_load_explicit(&inbox->head, memory_order_acquire); /* I4 */
    uint64_t tail = atomic_load_explicit(&inbox->tail, memory_order_acquire); /* I6 */
    uint64_t before = sender->tail;

    sender->head = head;
    if (sender->tail < tail)
        sender->tail = tail;
    if (sender->tail < head)
        sender->tail = head;
    return sender->tail != before;
}

struct slot *inbox_claim_slow(struct inbox_sender *sender)
{
    uint32_t slots = sender->slots;

    catch_up(sender);
    for (uint32_t tries = 0; tries < 4 * slots; tries++) {
        uint64_t tail = sender->tail;
        uint64_t word = inbox_word_before(tail, slots);
        struct slot *slot = &sender->inbox->slots[tail & (slots - 1)];

        if (tail - sender->head >= slots)
            return NULL;
        if (atomic_compare_exchange_strong_explicit(&slot->word, &word,
                                                    inbox_word(tail) | (sender->self + 1),
                                                    memory_order_relaxed, memory_order_relaxed))
            return slot;
        /* Another sender has it. If even the next lap has passed, start over from the hints. */
        if ((word & ~UINT64_C(0xffff)) == inbox_word(tail))
            sender->tail++;
        else if (!catch_up(sender))
            return NULL;
        if (sender->tail - sender->head >= slots)
            catch_up(sender);
    }
    return NULL;
}

uint64_t inbox_end(const struct inbox *inbox, uint32_t slots)
{
    uint64_t head = atomic_load_explicit(&inbox->head, memory_order_relaxed);
    uint64_t end = head;

    while (end - head < slots) {
        const struct slot *slot = &inbox->slots[end & (slots - 1)];
        uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);

        if ((word & ~UINT64_C(0xffff)) != inbox_word(end))
            break;
        end++;
    }
    return end;
}
