/*
 * What PAMI_Rmw does to a word, with the processor's atomic instructions.
 *
 * This is all that makes it atomic, whoever executes it: the initiator where the word is mapped,
 * the target's advance elsewhere. So all ways are atomic against one another, and against what the
 * program does to the word by itself. Sequentially consistent.
 */
#ifndef LIBPAMI_P2P_ATOMIC_H
#define LIBPAMI_P2P_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#include <pami/pami.h>

/* The bits of pami_atomic_t that say what is stored. */
#define ATOMIC_MODIFY 0x1cu

/* One operation; the words are in the low `width` bytes. */
struct atomic_request {
    uint64_t value, test;
    uint16_t operation; /* valid: see atomic_is_valid */
    uint16_t width;     /* 4 or 8 */
    uint32_t unused;    /* 0: requests are sent as they are */
};

static inline bool atomic_is_valid(unsigned operation)
{
    return operation == PAMI_ATOMIC_FETCH ||
           (operation >= PAMI_ATOMIC_SET && operation <= PAMI_ATOMIC_FETCH_COMPARE_XOR);
}

/* What a word becomes that was `old`. */
static inline uint64_t atomic_result(unsigned operation, uint64_t old, uint64_t value)
{
    switch (operation & ATOMIC_MODIFY) {
    case PAMI_ATOMIC_SET:
        return value;
    case PAMI_ATOMIC_ADD:
        return old + value;
    case PAMI_ATOMIC_OR:
        return old | value;
    case PAMI_ATOMIC_AND:
        return old & value;
    case PAMI_ATOMIC_XOR:
        return old ^ value;
    default:
        return old;
    }
}

/*
 * Without FETCH the old value is not asked for, so that the compiler can do without the loops that
 * logical operations with a result need; the value returned is then of no use.
 */
#define ATOMIC_APPLY(name, type)                                                                   \
    static inline uint64_t name(type *word, const struct atomic_request *request)                  \
    {                                                                                              \
        type value = (type)request->value;                                                         \
        type test = (type)request->test;                                                           \
                                                                                                   \
        switch (request->operation) {                                                              \
        case PAMI_ATOMIC_FETCH:                                                                    \
            return __atomic_load_n(word, __ATOMIC_SEQ_CST);                                        \
        case PAMI_ATOMIC_SET:                                                                      \
            __atomic_store_n(word, value, __ATOMIC_SEQ_CST);                                       \
            return 0;                                                                              \
        case PAMI_ATOMIC_FETCH_SET:                                                                \
            return __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);                             \
        case PAMI_ATOMIC_ADD:                                                                      \
            (void)__atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);                               \
            return 0;                                                                              \
        case PAMI_ATOMIC_FETCH_ADD:                                                                \
            return __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);                              \
        case PAMI_ATOMIC_OR:                                                                       \
            (void)__atomic_fetch_or(word, value, __ATOMIC_SEQ_CST);                                \
            return 0;                                                                              \
        case PAMI_ATOMIC_FETCH_OR:                                                                 \
            return __atomic_fetch_or(word, value, __ATOMIC_SEQ_CST);                               \
        case PAMI_ATOMIC_AND:                                                                      \
            (void)__atomic_fetch_and(word, value, __ATOMIC_SEQ_CST);                               \
            return 0;                                                                              \
        case PAMI_ATOMIC_FETCH_AND:                                                                \
            return __atomic_fetch_and(word, value, __ATOMIC_SEQ_CST);                              \
        case PAMI_ATOMIC_XOR:                                                                      \
            (void)__atomic_fetch_xor(word, value, __ATOMIC_SEQ_CST);                               \
            return 0;                                                                              \
        case PAMI_ATOMIC_FETCH_XOR:                                                                \
            return __atomic_fetch_xor(word, value, __ATOMIC_SEQ_CST);                              \
        default: /* it was `test`, or nothing happens */                                           \
            value = (type)atomic_result(request->operation, request->test, request->value);        \
            __atomic_compare_exchange_n(word, &test, value, false, __ATOMIC_SEQ_CST,               \
                                        __ATOMIC_SEQ_CST);                                         \
            return test;                                                                           \
        }                                                                                          \
    }

ATOMIC_APPLY(atomic_apply4, uint32_t)
ATOMIC_APPLY(atomic_apply8, uint64_t)

/* `word` is aligned to the width. The old value. */
static inline uint64_t atomic_apply(void *word, const struct atomic_request *request)
{
    return request->width == 8 ? atomic_apply8((uint64_t *)word, request)
                               : atomic_apply4((uint32_t *)word, request);
}

#endif
