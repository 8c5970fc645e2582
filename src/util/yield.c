#include "util/yield.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/cpu.h"

static _Thread_local struct {
    uint32_t tries;
    uint64_t rest_at;
} row __attribute__((tls_model("initial-exec"))) = {.tries = UINT32_MAX / 2}; /* nobody's next */

static uint64_t rest_ticks(void)
{
    return (uint64_t)(YIELD_REST_US * clock_ticks_per_us());
}

static void rest(void)
{
    static const struct timespec moment = {.tv_nsec = 1};

    syscall(SYS_nanosleep, &moment, NULL); /* no cancellation point */
    row.rest_at = clock_ticks() + rest_ticks();
}

HOT void yield_again(uint32_t tries)
{
    uint64_t now = clock_ticks();

    if (tries - row.tries - 1 >= YIELD_STEP_MOST)
        row.rest_at = now + rest_ticks();
    row.tries = tries;
    if (unlikely(now >= row.rest_at))
        rest();
    else
        sched_yield();
}
