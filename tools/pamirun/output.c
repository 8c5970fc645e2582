/*
 * Tagged output and messages, see output.h.
 *
 * A socket that poll calls writable takes PIPE_BUF bytes without blocking; so writes are of that
 * size at most.  A pipe does not when tasks fill it between the look and the write, and a terminal
 * is called writable when there is room for a byte: these are opened anew, with O_NONBLOCK.  The
 * flags of the stream itself are left alone: others share them.
 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "say.h"

/* Of one line; what is longer is broken up. */
#define LINE_BYTES_MAX ((size_t)1 << 20)
/* Bytes kept for a stream before its sources have to wait, and after which they may go on. */
#define KEEP_HIGH ((size_t)4 << 20)
#define KEEP_LOW ((size_t)1 << 20)
#define READ_BYTES 65536

/* Room for `more` further bytes. */
static int make_room(char **bytes, size_t *room, size_t have, size_t more)
{
    size_t wanted = have + more, larger = *room == 0 ? 256 : *room;
    char *moved;

    if (wanted <= *room)
        return 0;
    while (larger < wanted)
        larger *= 2;
    moved = realloc(*bytes, larger);
    if (moved == NULL)
        return -ENOMEM;
    *bytes = moved;
    *room = larger;
    return 0;
}

static void sources_pause(struct sink *sink, bool pause)
{
    struct output *output = sink->output;
    uint32_t i;

    if (sink->paused == pause)
        return;
    sink->paused = pause;
    for (i = 0; i < output->tasks * 2; i++) {
        struct source *source = &output->sources[i];

        if (source->sink != sink || source->watch.fd < 0)
            continue;
        if (pause)
            loop_remove(output->loop, &source->watch);
        else
            loop_add(output->loop, &source->watch, EPOLLIN);
    }
}

static void source_close(struct source *source)
{
    loop_close(source->output->loop, &source->watch);
    source->output->open--;
}

/* The reader has gone, or nothing can be written: let the writers know in the usual way. */
static void sink_shut(struct sink *sink, int error)
{
    struct output *output = sink->output;
    uint32_t i;

    sink->closed = true;
    sink->have = 0;
    if (error != EPIPE && output->tasks > 0) {
        output->failed = true;
        say("cannot write the output of the tasks: %s", strerror(error));
    }
    for (i = 0; i < output->tasks * 2; i++)
        if (output->sources[i].sink == sink && output->sources[i].watch.fd >= 0)
            source_close(&output->sources[i]);
}

static bool sink_writable(const struct sink *sink)
{
    struct pollfd poller = {.fd = sink->watch.fd, .events = POLLOUT};

    return sink->plain || (poll(&poller, 1, 0) == 1 && poller.revents != 0);
}

static void sink_wait(struct sink *sink, bool wait)
{
    if (wait == sink->waiting || sink->plain)
        return;
    sink->waiting = wait;
    if (!wait)
        loop_remove(sink->output->loop, &sink->watch);
    else if (loop_add(sink->output->loop, &sink->watch, EPOLLOUT) != 0)
        sink->plain = true; /* cannot be waited for: a file */
}

/* Writes as much as the stream takes now, and arranges for the rest. */
static void sink_flush(struct sink *sink)
{
    size_t done = 0;

    while (done < sink->have && sink_writable(sink)) {
        size_t part = sink->have - done;
        ssize_t written;

        if (!sink->plain && part > PIPE_BUF)
            part = PIPE_BUF;
        written = write(sink->watch.fd, sink->bytes + done, part);
        if (written > 0) {
            done += (size_t)written;
        } else if (written == 0 || errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            sink_shut(sink, errno);
            done = 0;
        }
    }
    if (done > 0 && done < sink->have)
        memmove(sink->bytes, sink->bytes + done, sink->have - done);
    sink->have -= done;
    sink_wait(sink, sink->have > 0);
    if (sink->have > KEEP_HIGH)
        sources_pause(sink, true);
    else if (sink->have < KEEP_LOW)
        sources_pause(sink, false);
}

static void sink_ready(struct watch *watch, uint32_t events)
{
    (void)events;
    sink_flush((struct sink *)(void *)watch); /* watch is the first member */
}

static void sink_add(struct sink *sink, const char *bytes, size_t count)
{
    if (sink->closed || make_room(&sink->bytes, &sink->room, sink->have, count) != 0)
        return;
    memcpy(sink->bytes + sink->have, bytes, count);
    sink->have += count;
}

/* Passes the source's line on, which has no newline. */
static void source_emit(struct source *source)
{
    char tag[24];
    int length = snprintf(tag, sizeof tag, "[%u] ", source->task);

    sink_add(source->sink, tag, (size_t)length);
    sink_add(source->sink, source->line, source->have);
    sink_add(source->sink, "\n", 1);
    source->have = 0;
}

static void source_take(struct source *source, const char *bytes, size_t count)
{
    while (count > 0) {
        const char *newline = memchr(bytes, '\n', count);
        size_t part = newline == NULL ? count : (size_t)(newline - bytes);

        if (make_room(&source->line, &source->room, source->have, part) == 0 && part > 0) {
            memcpy(source->line + source->have, bytes, part);
            source->have += part;
        }
        if (newline != NULL || source->have >= LINE_BYTES_MAX)
            source_emit(source);
        part += newline != NULL;
        bytes += part;
        count -= part;
    }
}

/* Reads once; false when there is nothing now or nothing more. */
static bool source_read(struct source *source)
{
    static char bytes[READ_BYTES];
    ssize_t count = read(source->watch.fd, bytes, sizeof bytes);

    if (count > 0) {
        source_take(source, bytes, (size_t)count);
        return true;
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (source->have > 0)
        source_emit(source);
    source_close(source);
    return false;
}

static void source_ready(struct watch *watch, uint32_t events)
{
    struct source *source = (struct source *)(void *)watch; /* watch is the first member */

    (void)events;
    source_read(source);
    sink_flush(source->sink);
}

static void say_line(void *cookie, const char *line, size_t length)
{
    struct output *output = cookie;
    struct sink *sink = output->sinks[1].output == NULL ? &output->sinks[0] : &output->sinks[1];

    sink_add(sink, line, length);
    sink_flush(sink);
}

static bool same_file(int a, int b)
{
    struct stat left, right;

    return fstat(a, &left) == 0 && fstat(b, &right) == 0 && left.st_dev == right.st_dev &&
           left.st_ino == right.st_ino && left.st_rdev == right.st_rdev;
}

/*
 * A descriptor of the same pipe or terminal that does not block; -1: it is neither, or cannot be
 * opened.  The other end of a pseudo-terminal makes a new one when it is opened: its number tells.
 */
static int open_anew(int stream)
{
    unsigned number, found;
    bool is_terminal = ioctl(stream, TIOCGDEV, &number) == 0;
    struct stat status;
    char path[32];
    int fd;

    if (!is_terminal && (fstat(stream, &status) != 0 || !S_ISFIFO(status.st_mode)))
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", stream);
    fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 && is_terminal && (ioctl(fd, TIOCGDEV, &found) != 0 || found != number)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void sink_open(struct output *output, int stream)
{
    struct sink *sink = &output->sinks[stream - STDOUT_FILENO];
    int fd = open_anew(stream);

    *sink = (struct sink){.watch = {fd < 0 ? stream : fd, sink_ready}, .output = output};
}

static void sink_close(struct sink *sink)
{
    if (sink->watch.fd > STDERR_FILENO)
        close(sink->watch.fd);
    free(sink->bytes);
}

int output_open(struct output *output, struct loop *loop, uint32_t tasks)
{
    uint32_t i;

    *output = (struct output){.loop = loop, .tasks = tasks};
    output->sources = calloc(tasks + 1, 2 * sizeof *output->sources);
    if (output->sources == NULL)
        return -ENOMEM;
    for (i = 0; i < tasks * 2; i++)
        output->sources[i].watch.fd = -1;
    if (tasks > 0)
        sink_open(output, STDOUT_FILENO);
    if (tasks == 0 || !same_file(STDOUT_FILENO, STDERR_FILENO))
        sink_open(output, STDERR_FILENO);
    say_through(say_line, output);
    return 0;
}

static int source_open(struct output *output, uint32_t task, int stream, int *writing)
{
    struct source *source = &output->sources[task * 2 + (uint32_t)stream];
    int ends[2], err;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    /* Only this end must not block: the other one belongs to the task. */
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *source = (struct source){
        .watch = {ends[0], source_ready},
        .output = output,
        .sink = &output->sinks[output->sinks[1].output == NULL ? 0 : stream],
        .task = task,
    };
    err = loop_add(output->loop, &source->watch, EPOLLIN);
    if (err != 0) {
        source->watch.fd = -1;
        close(ends[0]);
        close(ends[1]);
        return err;
    }
    output->open++;
    *writing = ends[1];
    return 0;
}

int output_pipes(struct output *output, uint32_t task, int *out, int *err)
{
    int failed = source_open(output, task, 0, out);

    if (failed != 0)
        return failed;
    failed = source_open(output, task, 1, err);
    if (failed != 0)
        close(*out);
    return failed;
}

void output_finish(struct output *output)
{
    uint32_t i;

    for (i = 0; i < output->tasks * 2 && output->open > 0; i++) {
        struct source *source = &output->sources[i];

        if (source->watch.fd < 0 || source->sink->paused)
            continue;
        while (source->watch.fd >= 0 && source_read(source))
            sink_flush(source->sink);
        if (source->watch.fd >= 0) {
            if (source->have > 0)
                source_emit(source);
            source_close(source);
        }
        sink_flush(source->sink);
    }
}

bool output_idle(const struct output *output)
{
    return output->open == 0 && output->sinks[0].have == 0 && output->sinks[1].have == 0;
}

void output_close(struct output *output)
{
    uint32_t i;

    say_through(NULL, NULL);
    for (i = 0; i < output->tasks * 2; i++) {
        if (output->sources[i].watch.fd >= 0)
            close(output->sources[i].watch.fd);
        free(output->sources[i].line);
    }
    free(output->sources);
    sink_close(&output->sinks[0]);
    sink_close(&output->sinks[1]);
}
