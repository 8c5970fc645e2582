/*
 * The inbox's ring with one thread, where every step can be looked at, and with many: order per
 * sender, no loss, no overwriting before the consumer has said so, rings of four slots, indices
 * that are large.
 *
 * Run: timeout=120
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "inbox_model.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define PACKETS 5000u
#else
#define PACKETS 40000u
#endif

/* ---- one thread ---- */

static void empty_and_full(void **state)
{
    struct inbox *inbox = inbox_make(8, 0);
    struct inbox_sender a = sender_of(inbox, 8, 3), b = sender_of(inbox, 8, 4);
    struct inbox_reader reader = reader_of(inbox, 8);
    struct books books = {0};

    (void)state;
    assert_null(inbox_ready(&reader));
    assert_int_equal(inbox_stuck(&reader), -1);
    for (uint32_t i = 0; i < 8; i++)
        assert_true(packet_send(i % 2 ? &a : &b, i / 2));
    assert_null(inbox_claim(&a));
    assert_null(inbox_claim(&b));
    for (int i = 0; i < 8; i++)
        assert_true(packet_take(&reader, &books));
    assert_false(packet_take(&reader, &books));
    assert_int_equal(books.count, 8);
    assert_int_equal(books.damaged + books.disordered, 0);
    assert_true(packet_send(&a, 4));
    assert_true(packet_send(&b, 4));
    inbox_unmake(inbox, 8);
}

/* What has been read may be overwritten only once the consumer has published its head. */
static void head_is_published(void **state)
{
    struct inbox *inbox = inbox_make(16, 0);
    struct inbox_sender sender = sender_of(inbox, 16, 0);
    struct inbox_reader reader = reader_of(inbox, 16);
    struct books books = {0};

    (void)state;
    for (uint32_t i = 0; i < 16; i++)
        assert_true(packet_send(&sender, i));
    for (int i = 0; i < 3; i++) {
        assert_true(packet_take(&reader, &books));
        assert_null(inbox_claim(&sender));
    }
    assert_true(packet_take(&reader, &books)); /* a quarter of the ring */
    for (uint32_t i = 16; i < 20; i++)
        assert_true(packet_send(&sender, i));
    assert_null(inbox_claim(&sender));
    assert_true(packet_take(&reader, &books));
    inbox_release(&reader); /* or when it has nothing else to do */
    assert_true(packet_send(&sender, 20));
    assert_null(inbox_claim(&sender));
    while (packet_take(&reader, &books))
        continue;
    assert_int_equal(books.count, 21);
    assert_int_equal(books.damaged + books.disordered, 0);
    inbox_unmake(inbox, 16);
}

static void many_laps(uint32_t slots, uint64_t first)
{
    struct inbox *inbox = inbox_make(slots, first);
    struct inbox_sender senders[3];
    struct inbox_reader reader = reader_of(inbox, slots);
    struct books books = {0};
    uint32_t sent[3] = {0}, random = 12345;
    uint64_t refused = 0;

    for (uint32_t i = 0; i < 3; i++)
        senders[i] = sender_of(inbox, slots, i);
    for (int i = 0; i < 20000; i++) {
        random = random * 1664525u + 1013904223u;
        if (random >> 31) {
            uint32_t who = (random >> 20) % 3;

            if (packet_send(&senders[who], sent[who]))
                sent[who]++;
            else
                refused++;
        } else {
            packet_take(&reader, &books);
        }
    }
    while (packet_take(&reader, &books))
        continue;
    assert_int_equal(books.count, sent[0] + sent[1] + sent[2]);
    assert_int_equal(books.damaged + books.disordered, 0);
    assert_int_equal(reader.head, first + books.count);
    assert_true(slots > 64 || refused > 0);
    inbox_unmake(inbox, slots);
}

static void laps(void **state)
{
    (void)state;
    many_laps(4, 0);
    many_laps(8, 0);
    many_laps(512, 0);
}

static void large_indices(void **state)
{
    (void)state;
    many_laps(4, (UINT64_C(1) << 32) - 8);
    many_laps(16, UINT64_C(1) << 40);
    many_laps(16, (UINT64_C(1) << 48) - (UINT64_C(1) << 20));
}

/* A claim that is not published holds up what comes later, names its sender and can be skipped. */
static void claimed_and_not_published(void **state)
{
    struct inbox *inbox = inbox_make(8, 0);
    struct inbox_sender slow = sender_of(inbox, 8, 6), quick = sender_of(inbox, 8, 7);
    struct inbox_reader reader = reader_of(inbox, 8);
    struct books books = {0};
    struct slot *slot;

    (void)state;
    assert_true(packet_send(&slow, 0));
    slot = inbox_claim(&slow);
    assert_non_null(slot);
    assert_int_equal(inbox_stuck(&reader), -1); /* there is something to read before it */
    for (uint32_t i = 0; i < 6; i++)
        assert_true(packet_send(&quick, i));
    assert_null(inbox_claim(&quick));
    assert_true(packet_take(&reader, &books));
    assert_false(packet_take(&reader, &books));
    assert_int_equal(inbox_stuck(&reader), 6);
    /* It comes after all. */
    packet_write(slot, 6, 1);
    inbox_publish(&slow, slot);
    assert_int_equal(inbox_stuck(&reader), -1);
    for (int i = 0; i < 7; i++)
        assert_true(packet_take(&reader, &books));
    /* It does not come at all. */
    slot = inbox_claim(&slow);
    assert_non_null(slot);
    assert_true(packet_send(&quick, 6));
    assert_int_equal(inbox_stuck(&reader), 6);
    inbox_skip(&reader);
    assert_int_equal(inbox_stuck(&reader), -1);
    assert_true(packet_take(&reader, &books));
    for (uint32_t i = 7; i < 100; i++) {
        assert_true(packet_send(&quick, i));
        assert_true(packet_take(&reader, &books));
    }
    assert_int_equal(books.damaged + books.disordered, 0);
    inbox_unmake(inbox, 8);
}

/* The shared hint for the tail may be old; a sender that has slept through many laps comes back. */
static void old_hints(void **state)
{
    struct inbox *inbox = inbox_make(8, 0);
    struct inbox_sender sleeper = sender_of(inbox, 8, 1), busy = sender_of(inbox, 8, 2);
    struct inbox_reader reader = reader_of(inbox, 8);
    struct books books = {0};
    uint32_t number = 0, seldom = 0;

    (void)state;
    for (uint32_t i = 1; i < 200; i++) {
        for (uint32_t k = 0; k < i; k++) {
            assert_true(packet_send(&busy, number++));
            assert_true(packet_take(&reader, &books));
            inbox_release(&reader);
        }
        atomic_store(&inbox->tail, atomic_load(&inbox->tail) / (1 + i % 3));
        assert_true(packet_send(&sleeper, seldom++));
        assert_true(packet_take(&reader, &books));
        inbox_release(&reader);
    }
    assert_int_equal(books.damaged + books.disordered, 0);
    inbox_unmake(inbox, 8);
}

/* Words that no sender writes: a claim comes back empty-handed instead of never. */
static void corrupt_words(void **state)
{
    const uint64_t words[] = {1, 0xffff, UINT64_MAX, inbox_word(1000), inbox_word(7) | 3};

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct inbox *inbox = inbox_make(8, 0);
        struct inbox_sender sender = sender_of(inbox, 8, 0);

        for (int k = 0; k < 8; k++)
            atomic_store(&inbox->slots[k].word, words[i]);
        assert_null(inbox_claim(&sender));
        assert_null(inbox_claim(&sender));
        inbox_unmake(inbox, 8);
    }
}

/* ---- threads ---- */

struct producer {
    struct inbox_sender sender;
    pthread_t thread;
    uint64_t refused;
};

static void *produce(void *argument)
{
    struct producer *producer = argument;

    for (uint32_t i = 0; i < PACKETS;) {
        if (packet_send(&producer->sender, i)) {
            i++;
        } else {
            producer->refused++;
            sched_yield();
        }
    }
    return NULL;
}

static void stress(size_t count, uint32_t slots)
{
    struct inbox *inbox = inbox_make(slots, 0);
    struct inbox_reader reader = reader_of(inbox, slots);
    static struct producer producers[SENDERS_MOST];
    struct books books = {0};

    for (size_t i = 0; i < count; i++) {
        producers[i] = (struct producer){.sender = sender_of(inbox, slots, (uint32_t)i)};
        assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    while (books.count < count * PACKETS)
        if (!packet_take(&reader, &books))
            sched_yield();
    for (size_t i = 0; i < count; i++)
        pthread_join(producers[i].thread, NULL);
    assert_false(packet_take(&reader, &books));
    assert_int_equal(inbox_stuck(&reader), -1);
    assert_int_equal(books.damaged, 0);
    assert_int_equal(books.disordered, 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(books.expected[i], PACKETS);
    inbox_unmake(inbox, slots);
}

static void tiny_ring(void **state)
{
    (void)state;
    stress(1, 4);
    stress(2, 4);
    stress(4, 4);
    stress(8, 4);
}

static void usual_ring(void **state)
{
    (void)state;
    stress(1, 512);
    stress(2, 512);
    stress(4, 512);
    stress(8, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_and_full),
        cmocka_unit_test(head_is_published),
        cmocka_unit_test(laps),
        cmocka_unit_test(large_indices),
        cmocka_unit_test(claimed_and_not_published),
        cmocka_unit_test(old_hints),
        cmocka_unit_test(corrupt_words),
        cmocka_unit_test(tiny_ring),
        cmocka_unit_test(usual_ring),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
