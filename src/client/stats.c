/*
 * PAMI_STATS: what a context did, printed when it goes.
 */
#include <inttypes.h>
#include <stdio.h>

#include "client/client.h"

#define COUNTER_TEXT(id, text) text,

static const char *const counter_text[COUNTER_COUNT] = {
    [DEVICE_SENT] = "packets sent",         [DEVICE_SENT_BYTES] = "packets sent: bytes",
    [DEVICE_RECEIVED] = "packets received", [DEVICE_REFUSED] = "packets refused for want of room",
    [DEVICE_COPIED] = "single copy: bytes", [DEVICE_DROPPED] = "packets dropped as malformed",
    CONTEXT_COUNTERS(COUNTER_TEXT)};

void stats_print(const struct context *context)
{
    char text[8192];
    size_t used = 0;

    for (size_t i = 0; i < COUNTER_COUNT && used < sizeof(text) - 1; i++) {
        uint64_t value = i == COUNTER_PASSES ? context->passes : context->counters[i];

        if (value != 0)
            used += (size_t)snprintf(text + used, sizeof(text) - used,
                                     "pami[%u] context %u: %-52s %16" PRIu64 "\n",
                                     context->core->task, context->offset, counter_text[i], value);
    }
    if (used > sizeof(text) - 1)
        used = sizeof(text) - 1;
    fwrite(text, 1, used, stderr);
}
