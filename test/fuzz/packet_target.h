/*
 * What the packet fuzzers share: a job of one task with two contexts, functions that take whatever
 * is dispatched, and a stream of valid messages that must arrive whole whatever else happens.
 *
 * Context 0 is the target of everything hostile. Context 1 gets valid messages only, from
 * itself and from context 0: it must not notice. Each program is one translation unit.
 */
#ifndef LIBPAMI_FUZZ_PACKET_TARGET_H
#define LIBPAMI_FUZZ_PACKET_TARGET_H

#include <pami/pami.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "basics.h"
#include "context/context.h"
#include "device/packet.h"
#include "p2p/p2p.h"

enum {
    TARGET_CONTEXTS = 2,
    ID_TAKE = 1,    /* into a buffer */
    ID_DISCARD,     /* no buffer */
    ID_TYPED,       /* through a strided type */
    ID_FUNCTION,    /* through a data function */
    ID_NEVER,       /* never immediate */
    ID_CLEAN,       /* the valid stream, context 1 only */
    ID_UNKNOWN,     /* registered now and then */
    ID_UNKNOWN_TOO, /* never registered */
    IDS,
    LANDING_MOST = 1 << 20 /* larger messages are discarded */
};

struct landing {
    struct landing *next;
    void *memory;
};

struct target {
    pami_client_t client;
    pami_context_t handle[TARGET_CONTEXTS];
    struct context *context[TARGET_CONTEXTS];
    pami_type_t strided;
    struct landing *landings; /* freed with the contexts: nobody says when they are not needed */
    unsigned long dispatches, completions;
    unsigned long clean_sent, clean_arrived, clean_done;
};

static struct target target;
static _Thread_local uint64_t random_state;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* Packets ask for any amount of memory: malloc says no, as it does without a sanitizer. */
const char *__asan_default_options(void) __attribute__((visibility("default")));
const char *__tsan_default_options(void) __attribute__((visibility("default")));

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=4096";
}

const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}
#endif

static inline void check(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "packet fuzzer: %s\n", what);
        abort();
    }
}

static inline uint64_t next(void)
{
    return test_random(&random_state);
}

static inline size_t below(size_t limit)
{
    return (size_t)(next() % limit);
}

static inline bool one_in(size_t n)
{
    return below(n) == 0;
}

/* Read and write every byte: a sanitizer sees what does not belong to the message. */
static inline void touch(void *memory, size_t bytes)
{
    volatile unsigned char *p = memory;

    for (size_t i = 0; i < bytes; i++)
        p[i] = (unsigned char)(p[i] + 1);
}

static inline void on_event(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
    target.completions++;
}

static inline void on_data(void *to, void *from, size_t bytes, void *cookie)
{
    (void)cookie;
    memcpy(to, from, bytes);
}

static inline void *landing_new(size_t bytes)
{
    struct landing *landing = malloc(sizeof *landing);

    check(landing != NULL, "no memory");
    landing->memory = malloc(bytes);
    landing->next = target.landings;
    target.landings = landing;
    return landing->memory;
}

static inline void on_any(pami_context_t context, void *cookie, const void *header,
                          size_t header_bytes, const void *data, size_t bytes,
                          pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t id = (size_t)(uintptr_t)cookie;
    size_t room = id == ID_TYPED ? 2 * bytes + 16 : bytes;

    (void)context, (void)origin;
    target.dispatches++;
    check((recv == NULL) == (data != NULL), "neither immediate nor asynchronous");
    check((uintptr_t)header % 8 == 0, "an unaligned header");
    touch((void *)header, header_bytes);
    if (recv == NULL) {
        touch((void *)data, bytes);
        return;
    }
    recv->local_fn = on_event;
    if (id == ID_DISCARD || bytes > LANDING_MOST)
        return;
    recv->addr = landing_new(room);
    if (id == ID_TYPED)
        recv->type = target.strided;
    if (id == ID_FUNCTION)
        recv->data_fn = on_data;
}

/* ---- the valid stream ---- */

static inline void on_clean_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    unsigned char *memory = cookie;
    size_t bytes;

    (void)context;
    check(result == PAMI_SUCCESS, "a valid message failed");
    memcpy(&bytes, memory, sizeof bytes);
    for (size_t i = sizeof bytes; i < bytes; i++)
        check(memory[i] == (unsigned char)(i * 31), "a valid message is damaged");
    free(memory);
    target.clean_arrived++;
}

static inline void on_clean(pami_context_t context, void *cookie, const void *header,
                            size_t header_bytes, const void *data, size_t bytes,
                            pami_endpoint_t origin, pami_recv_t *recv)
{
    unsigned char *memory = malloc(bytes);

    (void)cookie, (void)header, (void)header_bytes, (void)origin;
    check(context == target.handle[1] && memory != NULL, "a valid message went astray");
    if (recv == NULL) {
        memcpy(memory, data, bytes);
        on_clean_landed(context, memory, PAMI_SUCCESS);
        return;
    }
    recv->addr = memory;
    recv->cookie = memory;
    recv->local_fn = on_clean_landed;
}

static inline void on_clean_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    check(result == PAMI_SUCCESS, "a valid send failed");
    free(cookie);
    target.clean_done++;
}

/* One valid message from context 1 to itself, and enough advances to get it. */
static inline void clean_message(void)
{
    size_t bytes = sizeof bytes + below(one_in(20) ? 100000 : 3000);
    unsigned char *memory = malloc(bytes);
    pami_send_t message = {
        .send = {.data = {.iov_base = memory, .iov_len = bytes}, .dispatch = ID_CLEAN},
        .events = {.cookie = memory, .remote_fn = on_clean_sent},
    };

    check(memory != NULL, "no memory");
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (unsigned char)(i * 31);
    memcpy(memory, &bytes, sizeof bytes);
    message.send.dest = target.context[1]->endpoint;
    check(PAMI_Send(target.handle[1], &message) == PAMI_SUCCESS, "a valid send was refused");
    target.clean_sent++;
    for (int i = 0; i < 1000 && target.clean_done < target.clean_sent; i++)
        PAMI_Context_advance(target.handle[1], 1);
    check(target.clean_arrived == target.clean_sent && target.clean_done == target.clean_sent,
          "a valid message did not arrive");
}

/* ---- the job ---- */

static inline void set(size_t context, size_t id, pami_dispatch_p2p_function function,
                       pami_dispatch_hint_t hints)
{
    pami_dispatch_callback_function callback = {.p2p = function};

    check(PAMI_Dispatch_set(target.handle[context], id, callback, (void *)(uintptr_t)id, hints) ==
              PAMI_SUCCESS,
          "cannot register an id");
}

static inline void target_open_contexts(void)
{
    pami_dispatch_hint_t usual = {.consistency = PAMI_HINT_ENABLE};
    pami_dispatch_hint_t never = {.recv_immediate = PAMI_HINT_DISABLE};

    check(PAMI_Context_createv(target.client, NULL, 0, target.handle, TARGET_CONTEXTS) ==
              PAMI_SUCCESS,
          "cannot create contexts");
    for (size_t i = 0; i < TARGET_CONTEXTS; i++)
        target.context[i] = target.handle[i];
    for (size_t id = ID_TAKE; id < ID_NEVER; id++) {
        set(0, id, on_any, usual);
        set(1, id, on_any, usual);
    }
    set(0, ID_NEVER, on_any, never);
    set(1, ID_CLEAN, on_clean, usual);
}

static inline void target_close_contexts(void)
{
    check(PAMI_Context_destroyv(target.handle, TARGET_CONTEXTS) == PAMI_SUCCESS,
          "cannot destroy contexts");
    while (target.landings != NULL) {
        struct landing *landing = target.landings;

        target.landings = landing->next;
        free(landing->memory);
        free(landing);
    }
}

static inline void target_open(void)
{
    /* A small limit, so that a context often holds too much; no wait for what will never come. */
    setenv("PAMI_BOOTSTRAP", "single", 1);
    setenv("PAMI_HOLD_BYTES", "1M", 1);
    setenv("PAMI_DRAIN_TIMEOUT", "0", 1);
    setenv("PAMI_NUM_CONTEXTS", "4", 1);
    setenv("PAMI_LOG", "error", 0);
    check(PAMI_Client_create("fuzz", &target.client, NULL, 0) == PAMI_SUCCESS, "no client");
    check(PAMI_Type_create(&target.strided) == PAMI_SUCCESS &&
              PAMI_Type_add_simple(target.strided, 8, 0, 1, 16) == PAMI_SUCCESS &&
              PAMI_Type_complete(target.strided, 1) == PAMI_SUCCESS,
          "no type");
    target_open_contexts();
}

static inline void target_close(void)
{
    target_close_contexts();
    check(PAMI_Type_destroy(&target.strided) == PAMI_SUCCESS, "cannot destroy the type");
    check(PAMI_Client_destroy(&target.client) == PAMI_SUCCESS, "cannot destroy the client");
}

static inline uint64_t refused_so_far(void)
{
    const uint64_t *counters = target.context[0]->counters;

    return counters[COUNTER_FOREIGN] + counters[DEVICE_DROPPED];
}

#endif
