/*
 * The two ends of handoff.h. The joiner says which member it is, the maker answers with one byte
 * that carries the descriptor.
 */
#include "device/shm/handoff.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/log.h"

/* Between two attempts to connect to a socket whose queue is full, us. */
#define CONNECT_PAUSE_US 1000u

struct hello {
    uint32_t magic;
    uint32_t member;
};

#define HELLO_MAGIC 0x70616d31u

static socklen_t abstract_address(struct sockaddr_un *address, const char *name)
{
    size_t length = strnlen(name, sizeof(address->sun_path) - 1);

    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static bool same_user(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

/* Wait until `fd` has something to read, or the moment `end` of clock_now. */
static int wait_readable(int fd, double end)
{
    for (;;) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        double left = end - clock_now();
        int count = poll(&item, 1, left > 0 ? (int)(left * 1000) + 1 : 0);

        if (count > 0)
            return 0;
        if (count < 0 && errno != EINTR)
            return -errno;
        if (count == 0 && left <= 0)
            return -ETIMEDOUT;
    }
}

int handoff_listen(const char *name)
{
    struct sockaddr_un address;
    socklen_t length = abstract_address(&address, name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, SOMAXCONN) != 0) {
        int error = -errno;

        close(fd);
        return error;
    }
    return fd;
}

/* A message of one byte with room for one descriptor. */
struct descriptor_message {
    char byte;
    struct iovec part;
    struct msghdr message;
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
};

static void descriptor_message_init(struct descriptor_message *of)
{
    memset(of, 0, sizeof(*of));
    of->byte = 1;
    of->part = (struct iovec){.iov_base = &of->byte, .iov_len = 1};
    of->message = (struct msghdr){
        .msg_iov = &of->part,
        .msg_iovlen = 1,
        .msg_control = of->control.bytes,
        .msg_controllen = sizeof(of->control.bytes),
    };
}

static int send_descriptor(int to, int fd)
{
    struct descriptor_message of;
    struct cmsghdr *head;

    descriptor_message_init(&of);
    head = CMSG_FIRSTHDR(&of.message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    return sendmsg(to, &of.message, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

static int receive_descriptor(int from, int *fd)
{
    struct descriptor_message of;
    struct cmsghdr *head;
    ssize_t count;

    descriptor_message_init(&of);
    count = recvmsg(from, &of.message, MSG_CMSG_CLOEXEC);
    if (count <= 0)
        return count < 0 ? -errno : -ECONNRESET;
    if ((of.message.msg_flags & MSG_CTRUNC) != 0) /* it could not be given a number here */
        return -EMFILE;
    head = CMSG_FIRSTHDR(&of.message);
    if (head == NULL || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(int)))
        return -EPROTO;
    memcpy(fd, CMSG_DATA(head), sizeof(*fd));
    return 0;
}

/* Serve one connection; the member that now has the descriptor, or negative errno. */
static int64_t serve_one(int connection, int fd, uint32_t members, double end)
{
    struct hello hello = {0};
    int error;

    if (!same_user(connection))
        return -EPERM;
    error = wait_readable(connection, end);
    if (error != 0)
        return error;
    if (recv(connection, &hello, sizeof(hello), 0) != sizeof(hello) || hello.magic != HELLO_MAGIC ||
        hello.member == 0 || hello.member >= members)
        return -EPROTO;
    error = send_descriptor(connection, fd);
    return error != 0 ? error : (int64_t)hello.member;
}

static uint32_t first_missing(const bool *served, uint32_t members)
{
    uint32_t member = 1;

    while (member < members && served[member])
        member++;
    return member;
}

int handoff_serve(int listener, int fd, uint32_t members, double seconds, uint32_t *missing)
{
    double end = clock_now() + seconds;
    bool *served = calloc(members, sizeof(*served));
    uint32_t left = members - 1;
    int error = served != NULL ? 0 : -ENOMEM;

    while (error == 0 && left != 0) {
        int connection;
        int64_t member;

        error = wait_readable(listener, end);
        if (error != 0)
            break;
        connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0) {
            /* Who left before being heard. Anything else would be the same again at once. */
            if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN)
                error = -errno;
            continue;
        }
        member = serve_one(connection, fd, members, end);
        if (member > 0 && !served[member]) {
            served[member] = true;
            left--;
        } else {
            log_warn("shared memory: sent a stranger away (%s)",
                     member < 0 ? strerror((int)-member) : "second visit of one task");
        }
        close(connection);
    }
    if (error != 0 && served != NULL)
        *missing = first_missing(served, members);
    free(served);
    close(listener);
    return error;
}

int handoff_fetch(const char *name, uint32_t self, double seconds, int *fd)
{
    struct sockaddr_un address;
    socklen_t length = abstract_address(&address, name);
    struct hello hello = {.magic = HELLO_MAGIC, .member = self};
    double end = clock_now() + seconds;
    int error = 0;
    int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (connection < 0)
        return -errno;
    while (connect(connection, (struct sockaddr *)&address, length) != 0) {
        if (errno != EINTR && errno != EAGAIN) /* the maker has been listening since the fence */
            error = -errno;
        else if (clock_now() > end)
            error = -ETIMEDOUT;
        if (error != 0)
            break;
        usleep(CONNECT_PAUSE_US);
    }
    if (error == 0 && !same_user(connection))
        error = -EPERM;
    if (error == 0 &&
        send(connection, &hello, sizeof(hello), MSG_NOSIGNAL) != (ssize_t)sizeof(hello))
        error = -errno;
    if (error == 0)
        error = wait_readable(connection, end);
    if (error == 0)
        error = receive_descriptor(connection, fd);
    close(connection);
    return error;
}
