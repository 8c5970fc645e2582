/*
 * Senders of an inbox in processes of their own, and their sudden ends: a process killed anywhere,
 * also between claiming a slot and publishing it, costs the packet that it was writing and nothing
 * else.
 *
 * Run: timeout=120
 */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "inbox_model.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define PACKETS 5000u
#define ROUNDS 20
#else
#define PACKETS 30000u
#define ROUNDS 60
#endif

/* In a child: be killed while sending, most likely between claiming and publishing. */
__attribute__((noreturn)) static void be_victim(struct inbox *inbox, uint32_t slots)
{
    struct inbox_sender sender = sender_of(inbox, slots, 0);

    for (uint32_t i = 0;; i++) {
        struct slot *slot;

        while ((slot = inbox_claim(&sender)) == NULL)
            cpu_relax();
        packet_write(slot, 0, i);
        for (int k = 0; k < 100; k++)
            cpu_relax();
        inbox_publish(&sender, slot);
    }
}

/* In a child: send `packets` and leave. */
__attribute__((noreturn)) static void be_sender(struct inbox *inbox, uint32_t slots, uint32_t self,
                                                uint32_t packets)
{
    struct inbox_sender sender = sender_of(inbox, slots, self);

    for (uint32_t i = 0; i < packets;) {
        if (packet_send(&sender, i))
            i++;
        else
            sched_yield();
    }
    _exit(0);
}

/* packets == UINT32_MAX: a victim. */
static pid_t start(struct inbox *inbox, uint32_t slots, uint32_t self, uint32_t packets)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (packets == UINT32_MAX)
        be_victim(inbox, slots);
    be_sender(inbox, slots, self, packets);
}

static void processes(uint32_t count, uint32_t slots)
{
    struct inbox *inbox = inbox_make(slots, 0);
    struct inbox_reader reader = reader_of(inbox, slots);
    struct books books = {0};
    pid_t pids[SENDERS_MOST];
    int status;

    for (uint32_t i = 0; i < count; i++)
        pids[i] = start(inbox, slots, i, PACKETS);
    while (books.count < (uint64_t)count * PACKETS)
        if (!packet_take(&reader, &books))
            sched_yield();
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
        assert_int_equal(books.expected[i], PACKETS);
    }
    assert_false(packet_take(&reader, &books));
    assert_int_equal(books.damaged + books.disordered, 0);
    inbox_unmake(inbox, slots);
}

static void several_processes(void **state)
{
    (void)state;
    processes(1, 64);
    processes(2, 64);
    processes(4, 4);
    processes(4, 256);
}

/* Exactly in between, with one and with two contexts of the dead process. */
static void killed_after_the_claim(void **state)
{
    (void)state;
    for (int claims = 1; claims <= 2; claims++) {
        struct inbox *inbox = inbox_make(8, 0);
        struct inbox_reader reader = reader_of(inbox, 8);
        struct inbox_sender living = sender_of(inbox, 8, 1);
        struct books books = {0};
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
            struct inbox_sender first = sender_of(inbox, 8, 5), second = first;

            packet_send(&first, 0);
            inbox_claim(&first);
            if (claims == 2)
                inbox_claim(&second);
            kill(getpid(), SIGKILL);
        }
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        for (uint32_t i = 0; i < 4; i++)
            assert_true(packet_send(&living, i));
        assert_true(packet_take(&reader, &books));
        for (int i = 0; i < claims; i++) {
            assert_false(packet_take(&reader, &books));
            assert_int_equal(inbox_stuck(&reader), 5);
            inbox_skip(&reader);
        }
        for (uint32_t i = 4; i < 500; i++) {
            assert_true(packet_take(&reader, &books));
            inbox_release(&reader);
            assert_true(packet_send(&living, i));
        }
        assert_int_equal(books.damaged + books.disordered, 0);
        inbox_unmake(inbox, 8);
    }
}

/* Read until nothing comes; step over what dead senders have left. True when it had to. */
static bool read_up(struct inbox_reader *reader, struct books *books, uint32_t dead)
{
    bool skipped = false;

    for (;;) {
        while (packet_take(reader, books))
            continue;
        if (inbox_stuck(reader) < 0)
            return skipped;
        assert_int_equal(inbox_stuck(reader), dead);
        inbox_skip(reader);
        skipped = true;
    }
}

/* One sender of three is killed when so many packets of it have come. Returns whether it left a
 * claim behind. */
static bool killed_at_work(uint32_t slots, uint32_t wait)
{
    struct inbox *inbox = inbox_make(slots, 0);
    struct inbox_reader reader = reader_of(inbox, slots);
    struct books books = {0};
    pid_t victim = start(inbox, slots, 0, UINT32_MAX);
    pid_t others[2] = {start(inbox, slots, 1, 3000), start(inbox, slots, 2, 3000)};
    bool dead = false, skipped = false;

    while (!dead || books.expected[1] < 3000 || books.expected[2] < 3000) {
        for (int i = 0; i < 200; i++)
            packet_take(&reader, &books);
        if (!dead && books.expected[0] >= wait) {
            kill(victim, SIGKILL);
            assert_int_equal(waitpid(victim, NULL, 0), victim);
            dead = true;
        } else if (dead && inbox_stuck(&reader) == 0) {
            inbox_skip(&reader);
            skipped = true;
        } else if (inbox_ready(&reader) == NULL) {
            sched_yield();
        }
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(waitpid(others[i], NULL, 0), others[i]);
    skipped = read_up(&reader, &books, 0) || skipped;
    assert_int_equal(books.damaged + books.disordered, 0);
    assert_int_equal(books.expected[1], 3000);
    assert_int_equal(books.expected[2], 3000);
    inbox_unmake(inbox, slots);
    return skipped;
}

static void killed_anywhere(void **state)
{
    unsigned skipped = 0;

    (void)state;
    for (int round = 0; round < ROUNDS; round++)
        skipped += killed_at_work(round % 2 ? 16 : 256, 1 + (uint32_t)(round * 37 % 500));
    print_message("%u of %d senders died between claim and publication\n", skipped, ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_processes),
        cmocka_unit_test(killed_after_the_claim),
        cmocka_unit_test(killed_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
