/*
 * What a context counts, shown by PAMI_STATS when it is destroyed. The first rows are the
 * device's (enum device_counter), in its order.
 */
#ifndef LIBPAMI_CONTEXT_COUNTERS_H
#define LIBPAMI_CONTEXT_COUNTERS_H

#include "device/device.h"

/* COUNTER(id, "what is shown") */
#define CONTEXT_COUNTERS(COUNTER)                                                                  \
    COUNTER(SEND_IMMEDIATE, "sends: one packet, delivered immediately")                            \
    COUNTER(SEND_EAGER, "sends: eager")                                                            \
    COUNTER(SEND_PULL, "sends: rendezvous, pulled by the receiver")                                \
    COUNTER(SEND_PUSH, "sends: rendezvous, pushed in packets")                                     \
    COUNTER(SEND_BYTES, "sends: data bytes, but of short immediate ones")                          \
    COUNTER(SEND_QUEUED, "sends: queued for want of room")                                         \
    COUNTER(PUT_HEAP, "puts: load and store")                                                      \
    COUNTER(PUT_COPY, "puts: single copy")                                                         \
    COUNTER(PUT_PACKETS, "puts: packets")                                                          \
    COUNTER(PUT_HEAP_BYTES, "puts: load and store: bytes")                                         \
    COUNTER(PUT_COPY_BYTES, "puts: single copy: bytes")                                            \
    COUNTER(PUT_PACKETS_BYTES, "puts: packets: bytes")                                             \
    COUNTER(GET_HEAP, "gets: load and store")                                                      \
    COUNTER(GET_COPY, "gets: single copy")                                                         \
    COUNTER(GET_PACKETS, "gets: packets")                                                          \
    COUNTER(GET_HEAP_BYTES, "gets: load and store: bytes")                                         \
    COUNTER(GET_COPY_BYTES, "gets: single copy: bytes")                                            \
    COUNTER(GET_PACKETS_BYTES, "gets: packets: bytes")                                             \
    COUNTER(RMW_DIRECT, "atomics: done at once, on memory that is mapped")                         \
    COUNTER(RMW_SENT, "atomics: sent to the target")                                               \
    COUNTER(RMW_SERVED, "atomics: executed for others")                                            \
    COUNTER(DISPATCHES, "dispatches")                                                              \
    COUNTER(HELD, "messages held for a dispatch id not registered")                                \
    COUNTER(CALLBACKS, "completion callbacks")                                                     \
    COUNTER(POSTED, "posted functions finished")                                                   \
    COUNTER(PASSES, "passes")                                                                      \
    COUNTER(YIELDS, "yields")                                                                      \
    COUNTER(SLEEPS, "sleeps")                                                                      \
    COUNTER(LOST, "messages lost for want of memory")                                              \
    COUNTER(FOREIGN, "packets refused as malformed or foreign")

#define COUNTER_ID(id, text) COUNTER_##id,

enum context_counter {
    COUNTER_DEVICE_LAST = DEVICE_COUNTERS - 1,
    CONTEXT_COUNTERS(COUNTER_ID) COUNTER_COUNT
};

#endif
