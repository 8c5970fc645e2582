/*
 * The node segment: one anonymous memory file per client and host, mapped by all its tasks there.
 *
 *   header page | per task: one page of facts, then per context an inbox, berths,
 *               |           lanes and chunks
 *               | per task: its heap, which nobody maps before it is used (shared_heap.h)
 *
 * Pages are touched by whoever first needs them, so an unused context costs address space only.
 * The file has no name anywhere: the task with the lowest id on the host makes it and hands it to
 * the others over an abstract socket, after checking that they run as the same user. Nothing can be
 * left behind. The layout is fixed by the maker and read by the others from the header page.
 */
#ifndef LIBPAMI_DEVICE_SHM_SEGMENT_H
#define LIBPAMI_DEVICE_SHM_SEGMENT_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "device/shm/inbox.h"
#include "device/shm/lane.h"

#define SEGMENT_PAGE 4096u

struct segment_layout {
    uint64_t magic;
    uint32_t version;
    uint32_t members;     /* tasks of this host */
    uint32_t contexts;    /* per task */
    uint32_t slots;       /* per inbox, a power of two */
    uint32_t chunks;      /* per context */
    uint32_t chunk_bytes; /* of a chunk: data, with a line for what goes before it in a packet */
    uint64_t chunk_stride;
    uint32_t lanes;        /* per inbox */
    uint32_t backed;       /* not 0: pages are taken before they are touched, see segment_back */
    uint64_t joint_offset; /* from a context's inbox, its first byte; in this order */
    uint64_t lane_offset;
    uint64_t chunk_offset;
    uint64_t context_stride;
    uint64_t member_stride;
    uint64_t bytes;       /* of everything but the heaps: what is mapped at once */
    uint64_t heap_stride; /* from one task's heap to the next one's; the first is at `bytes` */
    uint64_t file_bytes;
};

enum member_state {
    MEMBER_ABSENT,
    MEMBER_PRESENT,
    MEMBER_LEFT,
};

/* What a task tells the others of its host. */
struct segment_member {
    _Atomic uint32_t state; /* enum member_state */
    int32_t pid;            /* ... which means this task in its own namespace only: */
    uint64_t pid_space;     /* which one that is; 0: not known */
    uint64_t start;         /* when that began, as /proc tells it; 0: not known */
    uint32_t locked;        /* it holds the lock that segment_member_ended looks at */
    uint32_t barriers;      /* membarriers of others reach it */
    uint32_t task;
    uint32_t node;
    uint64_t probe_address;  /* of a word in this task's private memory ... */
    uint64_t probe_value;    /* ... and what stands there: peers read it to try single copy */
    cpu_set_t cpus;          /* the task's affinity */
    uint64_t heap_address;   /* where it has its own heap */
    uint64_t heap_bytes;     /* 0: it has none */
    _Atomic uint32_t ending; /* how often the first of all contexts was destroyed, ... */
    _Atomic uint32_t ended;  /* ... and the last of them */
    _Atomic uint32_t left;   /* there will be no more of them */
};

struct segment {
    struct segment_layout layout;
    char *base;
    uint32_t self; /* my index among the members */
    int fd;        /* see segment_file */
    uint64_t device, inode;
    uint64_t probe; /* in private memory; different in each task of the host */
    char *heap;     /* my own, closed to everybody until it is used; NULL: no room for it */
    size_t heap_bytes;
};

struct segment_params {
    struct bootstrap *bootstrap;
    const char *client;
    const uint32_t *members; /* tasks of this host, ascending */
    uint32_t member_count;
    uint32_t self; /* my index among them */
    uint32_t contexts;
    bool barriers; /* my part of segment_has_barriers */
};

/*
 * Collective over the job: makes or joins the host's segment and fills in my member page. On
 * return all members of the host are present. `why` gets a sentence when it fails.
 */
int segment_open(const struct segment_params *params, struct segment **segment, char *why,
                 size_t size);
void segment_close(struct segment *segment);

/*
 * The descriptor of the segment's file, or -1: the program has closed it, as some close all that
 * they do not know, and the number may be another file's by now.
 */
int segment_file(const struct segment *segment);

/* Whether a member's pid means the same process here; false where that is not known. */
bool segment_knows_pid(const struct segment *segment, uint32_t index);

/* Whether membarriers reach all members: each may have a kernel's filter of its own. */
bool segment_has_barriers(const struct segment *segment);

/*
 * The process of a member has ended, by what the kernel says of a lock that it took on the
 * segment's file. For where it has no number here, or nothing tells of the end of that: a program
 * that closes descriptors which are not its own loses the lock as well.
 */
bool segment_member_ended(const struct segment *segment, uint32_t index);

/*
 * The same, where a process of the member's number is running: the number has been given to another
 * one, which began at another time. A member that has lost its lock still has its beginning.
 */
bool segment_member_is_other(const struct segment *segment, uint32_t index);

/* Whether this process runs under memcheck, which believes what it has seen the process do. */
bool segment_is_watched(void);

/*
 * Addresses for a heap, aligned to HEAP_ALIGNMENT_MOST and not accessible, so that locking all
 * memory or writing a core touches nothing. To be mapped over, and unmapped by the caller. Or NULL.
 */
void *segment_reserve(size_t bytes);

/* Maps a part of the file, over `fixed` if that is not NULL. Pages come when they are touched, even
 * in a program that has locked all its memory. 0 or negative errno. */
int segment_map(int fd, uint64_t offset, size_t bytes, void *fixed, void **mapped);

/*
 * Takes the pages of a part of the file before they are touched, where the file is in a directory
 * that others may fill: who touches a page that there is no room for dies by that. 0 or -ENOSPC.
 */
int segment_back(const struct segment *segment, uint64_t offset, size_t bytes);

/* The inbox of a context, with its pages, and those of all that the context has if `whole`; NULL:
 * there is no room for them. */
struct inbox *segment_take_inbox(const struct segment *segment, uint32_t member, uint32_t context,
                                 bool whole);

static inline struct segment_member *segment_member(const struct segment *segment, uint32_t index)
{
    return (struct segment_member *)(void *)(segment->base + SEGMENT_PAGE +
                                             index * segment->layout.member_stride);
}

static inline char *segment_context(const struct segment *segment, uint32_t index, uint32_t offset)
{
    return (char *)segment_member(segment, index) + SEGMENT_PAGE +
           offset * segment->layout.context_stride;
}

static inline struct inbox *segment_inbox(const struct segment *segment, uint32_t index,
                                          uint32_t offset)
{
    return (struct inbox *)(void *)segment_context(segment, index, offset);
}

static inline struct joint_berth *segment_berths(const struct segment *segment, uint32_t index,
                                                 uint32_t offset)
{
    return (struct joint_berth *)(void *)(segment_context(segment, index, offset) +
                                          segment->layout.joint_offset);
}

static inline struct lane *segment_lane(const struct segment *segment, uint32_t index,
                                        uint32_t offset, uint32_t lane)
{
    return (struct lane *)(void *)(segment_context(segment, index, offset) +
                                   segment->layout.lane_offset) +
           lane;
}

static inline struct chunk *segment_chunk(const struct segment *segment, uint32_t index,
                                          uint32_t offset, uint32_t chunk)
{
    return (struct chunk *)(void *)(segment_context(segment, index, offset) +
                                    segment->layout.chunk_offset +
                                    chunk * segment->layout.chunk_stride);
}

#endif
