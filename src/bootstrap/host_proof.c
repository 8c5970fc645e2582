/*
 * Evidence of where this process runs, for comparing with a peer's before memory is shared.
 *
 * The kernel's boot id tells machines (and reboots) apart; the namespaces tell containers apart:
 * uts and net as hosts, ipc and pid because shared segments and process ids do not cross them.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "bootstrap/digest.h"

static int digest_add_file(struct digest *digest, const char *path)
{
    char text[64];
    ssize_t bytes;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -ENOENT;
    bytes = read(fd, text, sizeof text);
    close(fd);
    if (bytes <= 0)
        return -ENOENT;
    digest_add(digest, text, (size_t)bytes);
    return 0;
}

static int digest_add_link(struct digest *digest, const char *path)
{
    char text[64];
    ssize_t bytes = readlink(path, text, sizeof text);

    if (bytes <= 0)
        return -ENOENT;
    digest_add(digest, text, (size_t)bytes);
    return 0;
}

int bootstrap_host_proof(char *buf, size_t size)
{
    static const char *const spaces[] = {
        "/proc/thread-self/ns/uts",
        "/proc/thread-self/ns/ipc",
        "/proc/thread-self/ns/net",
        "/proc/thread-self/ns/pid",
    };
    struct digest digest;
    char text[DIGEST_TEXT_MAX];
    size_t i;

    digest_init(&digest);
    if (digest_add_file(&digest, "/proc/sys/kernel/random/boot_id") != 0)
        return -ENOENT;
    for (i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
        if (digest_add_link(&digest, spaces[i]) != 0)
            return -ENOENT;
    digest_text(&digest, text);
    if (size < sizeof text)
        return -ENOBUFS;
    memcpy(buf, text, sizeof text);
    return 0;
}
