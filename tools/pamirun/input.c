/*
 * Copying a terminal's input, see input.h.
 *
 * Invariant: the terminal is waited for when have == sent and not `background`, the pipe when
 * have > sent.  Read from the background, a terminal gives EIO
 * (SIGTTIN is blocked), and a shell does not tell a running job that it has come to the foreground:
 * so in the background the terminal is left alone, and looked at again from time to time.
 */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "util/list.h"

static void input_end(struct input *input)
{
    if (input->terminal.fd >= 0)
        loop_remove(input->loop, &input->terminal);
    input->terminal.fd = -1; /* standard input itself stays open */
    loop_close(input->loop, &input->pipe);
}

/* Passes on what was read; then reads the terminal again, or waits for the pipe. */
static void input_flush(struct input *input)
{
    while (input->sent < input->have) {
        ssize_t count =
            write(input->pipe.fd, input->bytes + input->sent, input->have - input->sent);

        if (count < 0 && errno == EAGAIN) {
            loop_change(input->loop, &input->terminal, 0);
            loop_change(input->loop, &input->pipe, EPOLLOUT);
            return;
        }
        if (count < 0 && errno != EINTR) {
            input_end(input);
            return;
        }
        if (count > 0)
            input->sent += (size_t)count;
    }
    loop_change(input->loop, &input->pipe, 0);
    loop_change(input->loop, &input->terminal, EPOLLIN);
}

static void pipe_ready(struct watch *watch, uint32_t events)
{
    struct input *input = container_of(watch, struct input, pipe);

    if (events & (EPOLLERR | EPOLLHUP))
        input_end(input);
    else
        input_flush(input);
}

static void terminal_ready(struct watch *watch, uint32_t events)
{
    struct input *input = container_of(watch, struct input, terminal);
    ssize_t count = events & EPOLLHUP ? 0 : read(watch->fd, input->bytes, sizeof input->bytes);

    if (count > 0) {
        input->have = (size_t)count;
        input->sent = 0;
        input_flush(input);
    } else if (count < 0 && errno == EIO && tcgetpgrp(watch->fd) != getpgrp()) {
        input->background = true;
        loop_change(input->loop, watch, 0);
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
        input_end(input);
    }
}

void input_resume(struct input *input)
{
    if (!input->background || input->terminal.fd < 0 || tcgetpgrp(input->terminal.fd) != getpgrp())
        return;
    input->background = false;
    loop_change(input->loop, &input->terminal, EPOLLIN);
}

int input_open(struct input *input, struct loop *loop, int *reading)
{
    int ends[2], err;

    *input = (struct input){
        .loop = loop, .terminal = {STDIN_FILENO, terminal_ready}, .pipe = {-1, pipe_ready}};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    input->pipe.fd = ends[1];
    err = loop_add(loop, &input->pipe, 0);
    if (err == 0)
        err = loop_add(loop, &input->terminal, EPOLLIN);
    if (err != 0) {
        close(ends[0]);
        close(ends[1]);
        return err;
    }
    *reading = ends[0];
    return 0;
}
