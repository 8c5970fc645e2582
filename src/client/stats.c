/*
 * PAMI_STATS: what a context did, printed when it goes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/client.h"
#include "coll/report.h"

#define COUNTER_TEXT(id, text) text,

static const char *const counter_text[COUNTER_COUNT] = {
    [DEVICE_SENT] = "packets sent",
    [DEVICE_SENT_BYTES] = "packets sent over a network: bytes",
    [DEVICE_RECEIVED] = "packets received",
    [DEVICE_REFUSED] = "packets refused for want of room",
    [DEVICE_COPIED] = "single copy: bytes",
    [DEVICE_HELPED] = "single copy: bytes for others",
    [DEVICE_DROPPED] = "packets dropped as malformed",
    [DEVICE_STALE] = "packets for an earlier context",
    CONTEXT_COUNTERS(COUNTER_TEXT)};

struct stats_text {
    const struct context *context;
    FILE *stream;
};

static void add(void *cookie, const char *what, uint64_t count)
{
    const struct stats_text *stats = cookie;

    fprintf(stats->stream, "pami[%u] context %u: %-52s %16" PRIu64 "\n", stats->context->core->task,
            stats->context->offset, what, count);
}

/* The whole text of a context in one write, so that those of several tasks do not mix; line by line
 * where there is no memory for that. */
void stats_print(const struct context *context)
{
    char *text = NULL;
    size_t bytes = 0;
    struct stats_text stats = {.context = context, .stream = open_memstream(&text, &bytes)};

    if (stats.stream == NULL)
        stats.stream = stderr;

    for (size_t i = 0; i < COUNTER_COUNT; i++) {
        uint64_t value = i == COUNTER_PASSES ? context->passes : context->counters[i];

        if (value != 0)
            add(&stats, counter_text[i], value);
    }
    report_ran(context, add, &stats);
    if (stats.stream == stderr)
        return;
    if (fclose(stats.stream) == 0)
        fwrite(text, 1, bytes, stderr);
    free(text);
}
