/*
 * Bells and sleeping on several of them, see async_sleep.h.
 */
#include "client/async_sleep.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* As in <linux/futex.h> of Linux 5.16 and later. */
struct waiter {
    uint64_t value;
    uint64_t address;
    uint32_t flags;
    uint32_t reserved;
};
#define WAITER_32 2u
#define WAITER_PRIVATE 128u

/* Longest sleep that hears one of its bells only, ns. */
#define DEAF_SLEEP_NS 1000000u

void async_bell_ring(struct async_bell *bell)
{
    atomic_fetch_add_explicit(&bell->word, 1, memory_order_release);
    syscall(SYS_futex, &bell->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

uint32_t async_bell_hear(const struct async_bell *bell)
{
    return atomic_load_explicit(&bell->word, memory_order_acquire);
}

void async_sleep_begin(struct async_sleep *sleep, struct async_bell *bell, uint32_t heard)
{
    sleep->bell = bell;
    sleep->heard = heard;
    sleep->count = 0;
}

void async_sleep_add(struct async_sleep *sleep, atomic_uint *doorbell)
{
    sleep->doorbells[sleep->count++] = doorbell;
}

static struct timespec time_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
}

/* False when the kernel cannot. */
static bool sleep_on_all(const struct async_sleep *sleep, uint64_t until)
{
    struct waiter waiters[ASYNC_SLEEP_MOST];
    struct timespec limit = time_of(until);

    waiters[0] = (struct waiter){.value = sleep->heard,
                                 .address = (uint64_t)(uintptr_t)&sleep->bell->word,
                                 .flags = WAITER_32 | WAITER_PRIVATE};
    for (size_t i = 0; i < sleep->count; i++)
        waiters[i + 1] = (struct waiter){
            .value = 1, .address = (uint64_t)(uintptr_t)sleep->doorbells[i], .flags = WAITER_32};
    return syscall(SYS_futex_waitv, waiters, sleep->count + 1, 0,
                   until == UINT64_MAX ? NULL : &limit, CLOCK_MONOTONIC) >= 0 ||
           (errno != ENOSYS && errno != EPERM);
}

static void sleep_on_one(const struct async_sleep *sleep, uint64_t until)
{
    uint64_t now = clock_now_ns();
    struct timespec limit;

    if (sleep->count != 0 && until > now + DEAF_SLEEP_NS)
        until = now + DEAF_SLEEP_NS;
    if (until <= now)
        return;
    limit = time_of(until - now);
    if (sleep->count == 1)
        syscall(SYS_futex, sleep->doorbells[0], FUTEX_WAIT, 1, &limit, NULL, 0);
    else
        syscall(SYS_futex, &sleep->bell->word, FUTEX_WAIT_PRIVATE, sleep->heard,
                until == UINT64_MAX ? NULL : &limit, NULL, 0);
}

void async_sleep(const struct async_sleep *sleep, uint64_t until)
{
    if (!sleep_on_all(sleep, until))
        sleep_on_one(sleep, until);
}
