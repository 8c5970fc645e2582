/*
 * What the explored code calls. It has been compiled for the thread sanitizer, which replaces each
 * access to memory by a call; these are the functions that the sanitizer's library would have. What
 * it calls of the system, or to wait, has been renamed by the linker (--wrap).
 */
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

#define HERE __builtin_return_address(0)
#define HOOK __attribute__((noinline, visibility("default")))

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

static inline bool is_explored(void)
{
    return engine_self >= 0 && !engine_inside;
}

static inline void plain(const void *address, size_t size, bool write, const void *pc)
{
    if (!is_explored())
        return;
    engine_inside = true;
    races_plain(address, size, write, pc);
    engine_inside = false;
}

/* ---- plain accesses ---- */

#define PLAIN(name, size, write)                                                                   \
    HOOK void __tsan_##name(void *address);                                                        \
    HOOK void __tsan_##name(void *address)                                                         \
    {                                                                                              \
        plain(address, size, write, HERE);                                                         \
    }

#define PLAINS(size)                                                                               \
    PLAIN(read##size, size, false)                                                                 \
    PLAIN(write##size, size, true)                                                                 \
    PLAIN(unaligned_read##size, size, false)                                                       \
    PLAIN(unaligned_write##size, size, true)                                                       \
    PLAIN(volatile_read##size, size, false)                                                        \
    PLAIN(volatile_write##size, size, true)

PLAINS(1)
PLAINS(2)
PLAINS(4)
PLAINS(8)
PLAINS(16)

#define NOTHING(name)                                                                              \
    HOOK void name(void *unused);                                                                  \
    HOOK void name(void *unused)                                                                   \
    {                                                                                              \
        (void)unused;                                                                              \
    }

NOTHING(__tsan_func_entry)
NOTHING(__tsan_func_exit)
NOTHING(__tsan_init)
NOTHING(__tsan_acquire) /* util/tsan.h: the orders themselves have to do */
NOTHING(__tsan_release)

HOOK void __tsan_read_range(void *address, size_t size);
HOOK void __tsan_read_range(void *address, size_t size)
{
    plain(address, size, false, HERE);
}

HOOK void __tsan_write_range(void *address, size_t size);
HOOK void __tsan_write_range(void *address, size_t size)
{
    plain(address, size, true, HERE);
}

/* ---- atomic ones ---- */

#define RMW(bits, type, name, how)                                                                 \
    HOOK type __tsan_atomic##bits##_##name(void *address, type value, int order);                  \
    HOOK type __tsan_atomic##bits##_##name(void *address, type value, int order)                   \
    {                                                                                              \
        type before;                                                                               \
                                                                                                   \
        if (!is_explored())                                                                        \
            return BARE_##how((type *)address, value);                                             \
        engine_inside = true;                                                                      \
        before = (type)memory_rmw(address, sizeof(type), how, value, order, HERE);                 \
        engine_inside = false;                                                                     \
        return before;                                                                             \
    }

#define BARE_RMW_EXCHANGE(address, value) __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST)
#define BARE_RMW_ADD(address, value) __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST)
#define BARE_RMW_SUB(address, value) __atomic_fetch_sub(address, value, __ATOMIC_SEQ_CST)
#define BARE_RMW_AND(address, value) __atomic_fetch_and(address, value, __ATOMIC_SEQ_CST)
#define BARE_RMW_OR(address, value) __atomic_fetch_or(address, value, __ATOMIC_SEQ_CST)
#define BARE_RMW_XOR(address, value) __atomic_fetch_xor(address, value, __ATOMIC_SEQ_CST)

static inline bool exchange(void *address, unsigned size, uint64_t *expected, uint64_t desired,
                            int order, int failure, bool weak, const void *pc)
{
    bool done;

    engine_inside = true;
    done = memory_cas(address, size, expected, desired, order, failure, weak, pc);
    engine_inside = false;
    return done;
}

#define CAS(bits, type, name, weak)                                                                \
    HOOK int __tsan_atomic##bits##_compare_exchange_##name(void *address, void *expected,          \
                                                           type desired, int order, int failure);  \
    HOOK int __tsan_atomic##bits##_compare_exchange_##name(void *address, void *expected,          \
                                                           type desired, int order, int failure)   \
    {                                                                                              \
        uint64_t value = *(type *)expected;                                                        \
        int done;                                                                                  \
                                                                                                   \
        if (!is_explored())                                                                        \
            return __atomic_compare_exchange_n((type *)address, (type *)expected, desired, false,  \
                                               __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                \
        done = exchange(address, sizeof(type), &value, desired, order, failure, weak, HERE);       \
        *(type *)expected = (type)value;                                                           \
        return done;                                                                               \
    }

/* clang's form of both: what was there. */
#define CAS_VALUE(bits, type)                                                                      \
    HOOK type __tsan_atomic##bits##_compare_exchange_val(void *address, type expected,             \
                                                         type desired, int order, int failure);    \
    HOOK type __tsan_atomic##bits##_compare_exchange_val(void *address, type expected,             \
                                                         type desired, int order, int failure)     \
    {                                                                                              \
        uint64_t value = expected;                                                                 \
                                                                                                   \
        if (is_explored()) {                                                                       \
            exchange(address, sizeof(type), &value, desired, order, failure, false, HERE);         \
            return (type)value;                                                                    \
        }                                                                                          \
        __atomic_compare_exchange_n((type *)address, &expected, desired, false, __ATOMIC_SEQ_CST,  \
                                    __ATOMIC_SEQ_CST);                                             \
        return expected;                                                                           \
    }

#define ATOMICS(bits, type)                                                                        \
    HOOK type __tsan_atomic##bits##_load(const void *address, int order);                          \
    HOOK type __tsan_atomic##bits##_load(const void *address, int order)                           \
    {                                                                                              \
        type value;                                                                                \
                                                                                                   \
        if (!is_explored())                                                                        \
            return __atomic_load_n((const type *)address, __ATOMIC_SEQ_CST);                       \
        engine_inside = true;                                                                      \
        value = (type)memory_load(address, sizeof(type), order, HERE);                             \
        engine_inside = false;                                                                     \
        return value;                                                                              \
    }                                                                                              \
                                                                                                   \
    HOOK void __tsan_atomic##bits##_store(void *address, type value, int order);                   \
    HOOK void __tsan_atomic##bits##_store(void *address, type value, int order)                    \
    {                                                                                              \
        if (!is_explored()) {                                                                      \
            __atomic_store_n((type *)address, value, __ATOMIC_SEQ_CST);                            \
            return;                                                                                \
        }                                                                                          \
        engine_inside = true;                                                                      \
        memory_store(address, sizeof(type), value, order, HERE);                                   \
        engine_inside = false;                                                                     \
    }                                                                                              \
    RMW(bits, type, exchange, RMW_EXCHANGE)                                                        \
    RMW(bits, type, fetch_add, RMW_ADD)                                                            \
    RMW(bits, type, fetch_sub, RMW_SUB)                                                            \
    RMW(bits, type, fetch_and, RMW_AND)                                                            \
    RMW(bits, type, fetch_or, RMW_OR)                                                              \
    RMW(bits, type, fetch_xor, RMW_XOR)                                                            \
    CAS(bits, type, strong, false)                                                                 \
    CAS(bits, type, weak, true)                                                                    \
    CAS_VALUE(bits, type)

ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

HOOK void __tsan_atomic_thread_fence(int order);
HOOK void __tsan_atomic_thread_fence(int order)
{
    if (!is_explored())
        return;
    engine_inside = true;
    memory_fence(order, HERE);
    engine_inside = false;
}

HOOK void __tsan_atomic_signal_fence(int order);
HOOK void __tsan_atomic_signal_fence(int order)
{
    (void)order;
}

/* ---- the C library ---- */

void __wrap_free(void *memory);

#define WRAP(type, name, ...)                                                                      \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

WRAP(void *, memcpy, void *to, const void *from, size_t bytes)
{
    plain(from, bytes, false, HERE);
    plain(to, bytes, true, HERE);
    return __real_memcpy(to, from, bytes);
}

WRAP(void *, memmove, void *to, const void *from, size_t bytes)
{
    plain(from, bytes, false, HERE);
    plain(to, bytes, true, HERE);
    return __real_memmove(to, from, bytes);
}

WRAP(void *, memset, void *to, int value, size_t bytes)
{
    plain(to, bytes, true, HERE);
    return __real_memset(to, value, bytes);
}

/* Memory comes from the arena, each piece with its size before it, and never comes again. */
enum {
    PIECE_HEAD = 64
};

static void *piece(size_t bytes, size_t alignment)
{
    char *memory;
    bool inside = engine_inside;

    engine_inside = true;
    if (alignment < PIECE_HEAD)
        alignment = PIECE_HEAD;
    memory = explore_alloc(bytes + alignment, alignment);
    memory += alignment;
    *(size_t *)(void *)(memory - PIECE_HEAD) = bytes;
    engine_inside = inside;
    return memory;
}

/* Setting up as well, so that addresses are the same in each run. */
static bool is_in_run(void)
{
    return engine_in_run && !engine_inside;
}

WRAP(void *, malloc, size_t bytes)
{
    return is_in_run() ? piece(bytes, 16) : __real_malloc(bytes);
}

WRAP(void *, calloc, size_t count, size_t bytes)
{
    return is_in_run() ? piece(count * bytes, 16) : __real_calloc(count, bytes);
}

WRAP(void *, aligned_alloc, size_t alignment, size_t bytes)
{
    return is_in_run() ? piece(bytes, alignment) : __real_aligned_alloc(alignment, bytes);
}

WRAP(void *, realloc, void *memory, size_t bytes)
{
    size_t before;
    void *other;

    if (!is_in_run())
        return __real_realloc(memory, bytes);
    other = __wrap_malloc(bytes);
    if (memory != NULL) {
        before = *(size_t *)(void *)((char *)memory - PIECE_HEAD);
        __wrap_memcpy(other, memory, before < bytes ? before : bytes);
        __wrap_free(memory);
    }
    return other;
}

WRAP(void, free, void *memory)
{
    if (!is_explored()) {
        if (!explore_owns(memory))
            __real_free(memory);
        return;
    }
    if (memory == NULL)
        return;
    if (!explore_owns(memory))
        explore_fail("memory is freed that was not allocated in the run");
    engine_inside = true;
    races_freed(memory, *(size_t *)(void *)((char *)memory - PIECE_HEAD));
    engine_inside = false;
}

/* ---- the system ---- */

struct waiter {
    uint64_t value, address;
    uint32_t flags, reserved;
};

static long sleep_on(const struct waiter *waiters, unsigned count, bool limited)
{
    const void *addresses[SLEEP_MOST];

    engine_step();
    engine_point();
    for (unsigned i = 0; i < count; i++) {
        addresses[i] = (const void *)(uintptr_t)waiters[i].address;
        if (memory_newest(addresses[i]) != waiters[i].value) {
            engine_note("no sleep", addresses[i], waiters[i].value, NULL);
            errno = EAGAIN;
            return -1;
        }
    }
    if (engine_sleep(addresses, count, limited))
        return 0;
    errno = ETIMEDOUT;
    return -1;
}

static long futex(const long *arguments)
{
    const void *address = (const void *)arguments[0];
    const struct waiter one = {.value = (uint32_t)arguments[2], .address = (uint64_t)arguments[0]};

    switch ((int)arguments[1] & ~FUTEX_PRIVATE_FLAG) {
    case FUTEX_WAIT:
        return sleep_on(&one, 1, arguments[3] != 0);
    case FUTEX_WAKE:
        engine_step();
        engine_point();
        engine_wake(address);
        return 1;
    default:
        explore_fail("an unknown futex operation");
    }
}

static long explored_call(long number, const long *arguments, const void *pc)
{
    switch (number) {
    case SYS_futex:
        return futex(arguments);
    case SYS_futex_waitv:
        return sleep_on((const struct waiter *)arguments[0], (unsigned)arguments[1],
                        arguments[3] != 0);
    case SYS_membarrier:
        if ((int)arguments[0] == MEMBARRIER_CMD_GLOBAL_EXPEDITED)
            memory_barrier_all(pc);
        return 0;
    case SYS_nanosleep:
        engine_yield();
        return 0;
    case SYS_ppoll:
        return 0;
    case SYS_write: /* of the log */
        return arguments[2];
    default:
        explore_fail("system call %ld", number);
    }
}

long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long arguments[6], result;
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    if (!is_explored())
        return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
                              arguments[4], arguments[5]);
    engine_inside = true;
    result = explored_call(number, arguments, HERE);
    engine_inside = false;
    return result;
}

WRAP(int, sched_yield, void)
{
    if (!is_explored())
        return __real_sched_yield();
    explore_yield();
    return 0;
}

WRAP(void, yield_again, uint32_t tries)
{
    if (is_explored())
        explore_yield();
    else
        __real_yield_again(tries);
}

/* ---- time: a microsecond for each look at it ---- */

WRAP(uint64_t, clock_now_ns, void)
{
    return engine_in_run ? engine_time() : __real_clock_now_ns();
}

WRAP(uint64_t, clock_ticks_slow, void)
{
    return engine_in_run ? engine_time() : __real_clock_ticks_slow();
}

WRAP(double, clock_now, void)
{
    return engine_in_run ? (double)engine_time() * 1e-9 : __real_clock_now();
}

WRAP(double, clock_ticks_per_us, void)
{
    return 1000;
}

/* ---- mutexes: the first word is 0 while it is free ---- */

static bool take_mutex(void *mutex, const void *pc)
{
    uint64_t free = 0;

    return memory_cas(mutex, 4, &free, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED, false, pc);
}

WRAP(int, pthread_mutex_lock, pthread_mutex_t *mutex)
{
    const void *address = mutex;

    if (!is_explored())
        return __real_pthread_mutex_lock(mutex);
    engine_inside = true;
    while (!take_mutex(mutex, NULL))
        if (memory_newest(mutex) != 0)
            engine_sleep(&address, 1, false);
    engine_inside = false;
    return 0;
}

WRAP(int, pthread_mutex_trylock, pthread_mutex_t *mutex)
{
    bool taken;

    if (!is_explored())
        return __real_pthread_mutex_trylock(mutex);
    engine_inside = true;
    taken = take_mutex(mutex, NULL);
    engine_inside = false;
    return taken ? 0 : EBUSY;
}

WRAP(int, pthread_mutex_unlock, pthread_mutex_t *mutex)
{
    if (!is_explored())
        return __real_pthread_mutex_unlock(mutex);
    engine_inside = true;
    memory_store(mutex, 4, 0, __ATOMIC_RELEASE, NULL);
    engine_wake(mutex);
    engine_inside = false;
    return 0;
}
