/*
 * PAMI_STATS: what a context did, printed when it goes.
 */
#include <inttypes.h>
#include <stdio.h>

#include "client/client.h"
#include "coll/report.h"

#define COUNTER_TEXT(id, text) text,

static const char *const counter_text[COUNTER_COUNT] = {
    [DEVICE_SENT] = "packets sent",         [DEVICE_SENT_BYTES] = "packets sent: bytes",
    [DEVICE_RECEIVED] = "packets received", [DEVICE_REFUSED] = "packets refused for want of room",
    [DEVICE_COPIED] = "single copy: bytes", [DEVICE_DROPPED] = "packets dropped as malformed",
    CONTEXT_COUNTERS(COUNTER_TEXT)};

struct stats_text {
    const struct context *context;
    char text[16384];
    size_t used;
};

static void add(void *cookie, const char *what, uint64_t count)
{
    struct stats_text *stats = cookie;
    size_t room = sizeof(stats->text) - stats->used;
    int length =
        snprintf(stats->text + stats->used, room, "pami[%u] context %u: %-52s %16" PRIu64 "\n",
                 stats->context->core->task, stats->context->offset, what, count);

    if (length > 0 && (size_t)length < room)
        stats->used += (size_t)length;
}

void stats_print(const struct context *context)
{
    struct stats_text stats = {.context = context};

    for (size_t i = 0; i < COUNTER_COUNT; i++) {
        uint64_t value = i == COUNTER_PASSES ? context->passes : context->counters[i];

        if (value != 0)
            add(&stats, counter_text[i], value);
    }
    report_ran(context, add, &stats);
    fwrite(stats.text, 1, stats.used, stderr);
}
