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
    COUNTER(SEND_BYTES, "sends: data bytes")                                                       \
    COUNTER(SEND_QUEUED, "sends: queued for want of room")                                         \
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
