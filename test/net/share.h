/*
 * Memory that the tasks of a job, which have one parent, share without the library: all zero at
 * first.
 */
#ifndef LIBPAMI_NET_SHARE_H
#define LIBPAMI_NET_SHARE_H

#include "api/api_test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static inline void share_name(const char *what, char *name, size_t size)
{
    snprintf(name, size, "/dev/shm/%s-%ld", what, (long)getppid());
}

static inline void *share_open(const char *what, size_t bytes)
{
    char name[64];
    void *memory;
    int fd;

    share_name(what, name, sizeof name);
    fd = open(name, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0);
    CHECK(ftruncate(fd, (off_t)bytes) == 0);
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(memory != MAP_FAILED);
    close(fd);
    return memory;
}

/* All have opened it. */
static inline void share_forget(const char *what)
{
    char name[64];

    share_name(what, name, sizeof name);
    unlink(name);
}

#endif
