/*
 * Recording and writing traces; see trace.h. The format is Chrome's "trace event format": a process
 * is a task, a thread is a context, collectives are asynchronous events of the process.
 */
#include "context/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "context/context.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/option.h"

#define EVENTS_AT_FIRST 1024u

/* What ends the file; more events go before it. */
static const char array_end[] = "\n]\n";

struct trace {
    struct trace_event *events;
    size_t count, room, most;
    uint64_t dropped; /* beyond the most */
};

/* ---- recording ---- */

void trace_open(struct context *context)
{
    struct trace *trace;

    if (option_string(OPT_TRACE)[0] == '\0' || context->core->simulated)
        return;
    trace = calloc(1, sizeof(*trace));
    if (trace == NULL)
        return;
    trace->most = (size_t)option_int(OPT_TRACE_EVENTS);
    context->trace = trace;
}

static bool grow(struct trace *trace)
{
    size_t room = trace->room == 0 ? EVENTS_AT_FIRST : 2 * trace->room;
    struct trace_event *events;

    if (room > trace->most)
        room = trace->most;
    if (room == trace->room)
        return false;
    events = realloc(trace->events, room * sizeof(*events));
    if (events == NULL)
        return false;
    trace->events = events;
    trace->room = room;
    return true;
}

void trace_add(struct context *context, enum trace_kind kind, const char *name, uint64_t begin,
               uint64_t id, uint32_t peer, uint64_t bytes)
{
    struct trace *trace = context->trace;
    uint64_t now = clock_now_ns();

    if (trace->count == trace->room && !grow(trace)) {
        trace->dropped++;
        return;
    }
    trace->events[trace->count++] = (struct trace_event){
        .begin = begin != 0 ? begin : now,
        .end = now,
        .name = name,
        .id = id,
        .bytes = bytes,
        .peer = peer,
        .kind = kind,
    };
}

/* ---- writing ---- */

struct writer {
    FILE *file;
    uint32_t task;
    unsigned thread;
};

/* "peer": "task.context" */
static void write_peer(const struct writer *writer, const char *what,
                       const struct trace_event *event)
{
    fprintf(writer->file, ",\"args\":{\"%s\":\"%u.%u\",\"bytes\":%" PRIu64 "}", what,
            endpoint_task(event->peer), endpoint_offset(event->peer), event->bytes);
}

static void write_event(const struct writer *writer, const struct trace_event *event)
{
    static const char *const categories[] = {"message",    "message",    "callback",
                                             "collective", "collective", "collective"};
    static const char phases[] = "iXXbne";
    FILE *file = writer->file;
    uint64_t span = event->end - event->begin;

    fprintf(file, ",\n{\"name\":\"%s", event->name);
    if (event->kind == TRACE_SEND || event->kind == TRACE_DISPATCH)
        fprintf(file, " %" PRIu64, event->id);
    fprintf(file, "\",\"cat\":\"%s\",\"ph\":\"%c\",\"pid\":%u,\"tid\":%u,\"ts\":%" PRIu64 ".%03u",
            categories[event->kind], phases[event->kind], writer->task, writer->thread,
            event->begin / 1000, (unsigned)(event->begin % 1000));
    if (event->kind == TRACE_DISPATCH || event->kind == TRACE_CALLBACK)
        fprintf(file, ",\"dur\":%" PRIu64 ".%03u", span / 1000, (unsigned)(span % 1000));
    if (event->kind == TRACE_SEND)
        fprintf(file, ",\"s\":\"t\"");
    if (event->kind >= TRACE_BEGIN)
        fprintf(file, ",\"id2\":{\"local\":\"%#" PRIx64 "\"}", event->id);
    if (event->kind == TRACE_SEND)
        write_peer(writer, "to", event);
    else if (event->kind == TRACE_DISPATCH)
        write_peer(writer, "from", event);
    else if (event->kind == TRACE_STEP)
        fprintf(file, ",\"args\":{\"phase\":%" PRIu64 "}", event->bytes);
    else if (event->kind == TRACE_BEGIN)
        fprintf(file, ",\"args\":{\"bytes\":%" PRIu64 "}", event->bytes);
    fputc('}', file);
}

/* Names for the viewer, and how much is missing. */
static void write_names(const struct writer *writer, const struct context *context,
                        const char *client)
{
    const struct bootstrap *bootstrap = context->core->bootstrap;
    char name[64];
    size_t length = 0;

    for (; *client != '\0' && length + 1 < sizeof(name); client++)
        name[length++] =
            *client < ' ' || *client > '~' || *client == '"' || *client == '\\' ? '_' : *client;
    name[length] = '\0';
    fprintf(writer->file,
            ",\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":0,"
            "\"args\":{\"name\":\"task %u of %u, node %u\"}}",
            writer->task, writer->task, context->core->tasks, bootstrap->node);
    fprintf(writer->file,
            ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,"
            "\"args\":{\"name\":\"%s context %u\"}}",
            writer->task, writer->thread, name, context->offset);
    if (context->trace->dropped != 0)
        log_warn("PAMI_TRACE: %" PRIu64 " events of context %u are missing (PAMI_TRACE_EVENTS)",
                 context->trace->dropped, context->offset);
}

/* Others may write for long, and signals of the program come meanwhile. */
static bool lock_file(int fd)
{
    while (flock(fd, LOCK_EX) != 0)
        if (errno != EINTR)
            return false;
    return true;
}

/* The locked file, standing where the next event goes; what is not of this job is dropped. */
static FILE *open_file(const char *path, const char *job)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    FILE *file = fd >= 0 && lock_file(fd) ? fdopen(fd, "r+") : NULL;
    char first[256], there[256];
    char end[sizeof(array_end) - 1];
    off_t size;
    int length =
        snprintf(first, sizeof(first),
                 "[\n{\"name\":\"job\",\"ph\":\"M\",\"pid\":0,\"args\":{\"name\":\"%s\"}}", job);

    if (file == NULL) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    size = lseek(fd, 0, SEEK_END) - (off_t)sizeof(end);
    if (size > 0 && pread(fd, there, (size_t)length, 0) == length &&
        memcmp(there, first, (size_t)length) == 0) {
        if (pread(fd, end, sizeof(end), size) != (ssize_t)sizeof(end) ||
            memcmp(end, array_end, sizeof(end)) != 0)
            size += (off_t)sizeof(end);
        fseeko(file, size, SEEK_SET);
    } else if (ftruncate(fd, 0) == 0) {
        rewind(file);
        fwrite(first, 1, (size_t)length, file);
    }
    return file;
}

void trace_close(struct context *context, const char *client, unsigned instance)
{
    struct trace *trace = context->trace;
    const char *path = option_string(OPT_TRACE);
    struct writer writer = {
        .task = context->core->task,
        .thread = instance * ENDPOINT_OFFSETS_MAX + context->offset,
    };

    if (trace == NULL)
        return;
    writer.file = open_file(path, context->core->bootstrap->job);
    if (writer.file == NULL) {
        log_warn("PAMI_TRACE: %s: %s", path, strerror(errno));
    } else {
        bool failed;

        write_names(&writer, context, client);
        for (size_t i = 0; i < trace->count; i++)
            write_event(&writer, &trace->events[i]);
        fputs(array_end, writer.file);
        failed = ferror(writer.file) != 0;
        if (fclose(writer.file) != 0 || failed)
            log_warn("PAMI_TRACE: %s: not written whole: %s", path, strerror(errno));
    }
    free(trace->events);
    free(trace);
    context->trace = NULL;
}
