/*
 * Making, joining and mapping the node segment. See segment.h for what is in it.
 *
 * Two fences: after the first the maker listens, after the second everybody's page of facts is
 * there. Between them each task needs one connection: nothing grows with the tasks' square.
 */
#include "device/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "device/shm/chunk.h"
#include "device/shm/handoff.h"
#include "device/shm/joint.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/minmax.h"
#include "util/option.h"
#include "util/procfs.h"

#define SEGMENT_MAGIC UINT64_C(0x70616d6973656731)
#define SEGMENT_VERSION 12u

/* Slots and chunks by default: shared among few tasks the rings are deep, among many they are
 * short, so that a task that has talked to all of 64 keeps to a few MiB. A window of 64 packets
 * needs more chunks: they come back after the callbacks, and what finds none is cut up. */
#define SLOTS_TOTAL 8192u
#define SLOTS_LEAST 64u
#define SLOTS_MOST 512u
#define CHUNKS_TOTAL 4096u
#define CHUNKS_MOST 128u
#define CHUNKS_LEAST 32u

/* What the heaps of a host take of the address space at most, and how they are aligned. */
#define HEAPS_MOST ((uint64_t)16 << 40)
#define HEAP_ALIGN ((uint64_t)HEAP_ALIGNMENT_MOST)
/* Of a heap under memcheck, unless an option says otherwise. It looks for pointers in all that is
 * mapped when a program ends that has not destroyed its clients, and makes all pages by that. */
#define HEAP_WATCHED ((uint64_t)256 << 20)

/* Pages are taken so many bytes at a time. A call that a signal interrupts gives all of its pages
 * back (Linux 6.1), so where signals come by a timer a long one would never end. */
#define TAKE_BYTES ((size_t)1 << 20)

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static uint32_t power_of_two_up(uint32_t value)
{
    uint32_t power = 1;

    while (power < value)
        power *= 2;
    return power;
}

static uint32_t clamp(uint32_t value, uint32_t least, uint32_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* A limit of the process, as a number of bytes. */
static uint64_t limit_of(int resource)
{
    struct rlimit limit;

    return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur
                                                                               : UINT64_MAX;
}

bool segment_is_watched(void)
{
    const char *preloaded = getenv("LD_PRELOAD"); /* valgrind loads a library of its own */

    return preloaded != NULL && strstr(preloaded, "vgpreload") != NULL;
}

/* Bytes of one heap: as the option says, else main memory, within what the system allows. */
static uint64_t heap_size(uint64_t segment_bytes, uint32_t members)
{
    uint64_t bytes = option_bytes(OPT_HEAP_BYTES);
    uint64_t file = limit_of(RLIMIT_FSIZE);
    uint64_t most = HEAPS_MOST / members;

    if (bytes == 0 && segment_is_watched())
        bytes = HEAP_WATCHED;
    else if (bytes == 0)
        bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    file = file > segment_bytes ? (file - segment_bytes) / members : 0;
    most = most < file ? most : file;
    return (bytes < most ? round_up(bytes, HEAP_ALIGN) : most) / HEAP_ALIGN * HEAP_ALIGN;
}

static void layout_init(struct segment_layout *layout, const struct segment_params *params)
{
    uint32_t slots = (uint32_t)option_int(OPT_SHM_RING_SLOTS);
    uint32_t chunks = (uint32_t)option_int(OPT_SHM_CHUNKS);
    uint32_t members = params->member_count;

    if (slots == 0)
        slots = clamp(SLOTS_TOTAL / members, SLOTS_LEAST, SLOTS_MOST);
    if (chunks == 0)
        chunks = clamp(CHUNKS_TOTAL / members, CHUNKS_LEAST, CHUNKS_MOST);
    *layout = (struct segment_layout){
        .magic = SEGMENT_MAGIC,
        .version = SEGMENT_VERSION,
        .members = members,
        .contexts = params->contexts,
        .slots = power_of_two_up(slots < 4 ? 4 : slots),
        .chunks = chunks,
        .lanes = (uint32_t)option_int(OPT_SHM_LANES),
        .chunk_bytes =
            (uint32_t)round_up(option_bytes(OPT_SHM_CHUNK_BYTES) + CACHE_LINE, CACHE_LINE),
    };
    layout->chunk_stride = round_up(sizeof(struct chunk) + layout->chunk_bytes, CACHE_LINE);
    layout->joint_offset = sizeof(struct inbox) + (uint64_t)layout->slots * SLOT_BYTES;
    layout->lane_offset =
        round_up(layout->joint_offset + JOINT_BERTHS * sizeof(struct joint_berth), SEGMENT_PAGE);
    layout->chunk_offset =
        round_up(layout->lane_offset + layout->lanes * sizeof(struct lane), SEGMENT_PAGE);
    layout->context_stride =
        round_up(layout->chunk_offset + layout->chunks * layout->chunk_stride, SEGMENT_PAGE);
    layout->member_stride = SEGMENT_PAGE + layout->contexts * layout->context_stride;
    layout->bytes = round_up(SEGMENT_PAGE + layout->members * layout->member_stride, HEAP_ALIGN);
    layout->heap_stride = heap_size(layout->bytes, members);
    layout->file_bytes = layout->bytes + layout->members * layout->heap_stride;
}

/* fallocate(3) is a cancellation point, and sends come here. */
static int take_pages(int fd, uint64_t offset, size_t bytes)
{
    while (bytes != 0) {
        size_t part = smaller(bytes, TAKE_BYTES);

        if (syscall(SYS_fallocate, fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)part) == 0) {
            offset += part;
            bytes -= part;
        } else if (errno != EINTR) {
            return errno == ENOSPC ? -ENOSPC : 0;
        }
    }
    return 0;
}

int segment_back(const struct segment *segment, uint64_t offset, size_t bytes)
{
    return segment->layout.backed != 0 ? take_pages(segment_file(segment), offset, bytes) : 0;
}

struct inbox *segment_take_inbox(const struct segment *segment, uint32_t member, uint32_t context,
                                 bool whole)
{
    struct inbox *inbox = segment_inbox(segment, member, context);
    size_t bytes = whole ? segment->layout.context_stride : sizeof(*inbox);

    return segment_back(segment, (uint64_t)((char *)inbox - segment->base), bytes) == 0 ? inbox
                                                                                        : NULL;
}

/* The header page, and those of facts. */
static int take_first_pages(const struct segment_layout *layout, int fd)
{
    int error = take_pages(fd, 0, SEGMENT_PAGE);

    for (uint32_t i = 0; i < layout->members && error == 0; i++)
        error = take_pages(fd, SEGMENT_PAGE + i * layout->member_stride, SEGMENT_PAGE);
    return error;
}

/* Where the kernel gives no memory file: one without a name. The directory may be small, so the
 * heaps are to fit, and leave half of it to contexts, and others may fill it later. */
static int open_nameless(struct segment_layout *layout)
{
    int fd = open("/dev/shm", O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    struct statvfs status;
    uint64_t room;

    if (fd < 0 || fstatvfs(fd, &status) != 0)
        return fd;
    room = (uint64_t)status.f_bavail * status.f_frsize;
    if (room < layout->members * (SEGMENT_PAGE + layout->context_stride)) { /* one context each */
        close(fd);
        errno = ENOSPC;
        return -1;
    }
    room = (room - smaller(layout->bytes, room / 2)) / layout->members / HEAP_ALIGN * HEAP_ALIGN;
    if (layout->heap_stride > room)
        layout->heap_stride = room;
    layout->file_bytes = layout->bytes + layout->members * layout->heap_stride;
    layout->backed = 1;
    return fd;
}

/* Make the file and write its header page. The descriptor or negative errno. */
static int make_file(struct segment_layout *layout)
{
    struct segment_layout header;
    int fd;

    if (layout->file_bytes > limit_of(RLIMIT_FSIZE))
        return -EFBIG; /* by the call itself, SIGXFSZ would end the process */
    fd = memfd_create("pami-segment", MFD_CLOEXEC);
    if (fd < 0) {
        log_info("no memory file: %s; the segment is in /dev/shm", strerror(errno));
        fd = open_nameless(layout);
    }
    if (fd < 0)
        return -errno;
    header = *layout; /* with threads sanitized gcc takes *layout for its first field */
    if (ftruncate(fd, (off_t)layout->file_bytes) != 0 ||
        (layout->backed != 0 && take_first_pages(layout, fd) != 0) ||
        pwrite(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header)) {
        int error = errno != 0 ? -errno : -EIO;

        close(fd);
        return error;
    }
    return fd;
}

/* Read and check the header page of a file that somebody gave us. */
static int read_layout(int fd, const struct segment_params *params, struct segment_layout *layout)
{
    struct stat status;

    if (pread(fd, layout, sizeof(*layout), 0) != (ssize_t)sizeof(*layout) ||
        fstat(fd, &status) != 0)
        return -EIO;
    if (layout->magic != SEGMENT_MAGIC || layout->version != SEGMENT_VERSION ||
        layout->members != params->member_count || layout->contexts != params->contexts ||
        (uint64_t)status.st_size != layout->file_bytes)
        return -EPROTO;
    return 0;
}

/* After mlockall the kernel makes all pages of what is mapped, if it is readable. */
static bool pages_are_made(void)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char made = 0;

    if (at == MAP_FAILED)
        return false;
    if (mincore(at, bytes, &made) != 0)
        made = 0;
    munmap(at, bytes);
    return (made & 1) != 0;
}

/* Locked memory becomes readable when it is locked no more. Else it is so at once: memcheck takes
 * hours and gigabytes for an mprotect of so much. */
int segment_map(int fd, uint64_t offset, size_t bytes, void *fixed, void **mapped)
{
    int flags = MAP_SHARED | MAP_NORESERVE | (fixed != NULL ? MAP_FIXED : 0);
    bool locked = pages_are_made();
    void *at =
        mmap(fixed, bytes, locked ? PROT_NONE : PROT_READ | PROT_WRITE, flags, fd, (off_t)offset);

    if (at == MAP_FAILED)
        return -errno;
    if (locked)
        munlock(at, bytes);
    if (locked && mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) {
        int error = -errno;

        if (fixed == NULL)
            munmap(at, bytes);
        return error;
    }
    *mapped = at;
    return 0;
}

static int map(struct segment *segment, int fd)
{
    void *base = NULL;
    struct stat status;
    int error = fstat(fd, &status) != 0 ? -errno : 0;

    if (error == 0)
        error = segment_map(fd, 0, segment->layout.bytes, NULL, &base);
    if (error != 0)
        return error;
    segment->base = base;
    segment->fd = fd;
    segment->device = status.st_dev;
    segment->inode = status.st_ino;
    return 0;
}

int segment_file(const struct segment *segment)
{
    struct stat status;

    return segment->fd >= 0 && fstat(segment->fd, &status) == 0 &&
                   status.st_dev == segment->device && status.st_ino == segment->inode
               ? segment->fd
               : -1;
}

void *segment_reserve(size_t bytes)
{
    char *at = mmap(NULL, bytes + HEAP_ALIGN, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *aligned;

    if (at == MAP_FAILED)
        return NULL;
    aligned = at + (round_up((uint64_t)(uintptr_t)at, HEAP_ALIGN) - (uint64_t)(uintptr_t)at);
    if (aligned != at)
        munmap(at, (size_t)(aligned - at));
    munmap(aligned + bytes, (size_t)(at + HEAP_ALIGN - aligned));
    return aligned;
}

/* The addresses of my heap, as many as there are. A process with limited address space keeps most
 * of it for other purposes. */
static void reserve_heap(struct segment *segment)
{
    const struct segment_layout *layout = &segment->layout;
    uint64_t space = limit_of(RLIMIT_AS);
    uint64_t bytes = layout->heap_stride;

    if (space != UINT64_MAX && bytes > space / 4 / layout->members)
        bytes = space / 4 / layout->members / HEAP_ALIGN * HEAP_ALIGN;
    for (; bytes != 0; bytes = bytes / 2 / HEAP_ALIGN * HEAP_ALIGN) {
        segment->heap = segment_reserve(bytes);
        if (segment->heap == NULL)
            continue;
        segment->heap_bytes = bytes;
        return;
    }
    log_info("no addresses for a shared heap of %llu bytes",
             (unsigned long long)layout->heap_stride);
}

/* The abstract name, which must not be guessable by what runs beside us: it has the time in it. */
static void choose_name(char *name, size_t size, const struct segment_params *params)
{
    snprintf(name, size, "pami-%s-%s-%llx", params->bootstrap->job, params->client,
             (unsigned long long)clock_now_ns());
}

/* It fails where a task leaves before it or comes too late, or the launcher is out of reach. */
static int meet(const struct segment_params *params, char *why, size_t size)
{
    int error = bootstrap_fence(params->bootstrap);

    if (error != 0)
        snprintf(why, size, "the tasks did not meet during start-up: %s",
                 error == -ECONNABORTED ? "one has left" : strerror(-error));
    return error;
}

static int make(const struct segment_params *params, struct segment *segment, const char *key,
                char *why, size_t size)
{
    double seconds = option_seconds(OPT_BOOTSTRAP_TIMEOUT);
    uint32_t missing = 0;
    char name[108];
    int listener = -1, met = 0;
    int error;
    int fd;

    layout_init(&segment->layout, params);
    fd = make_file(&segment->layout);
    if (fd < 0) {
        snprintf(why, size, "cannot make a segment of %llu bytes%s: %s",
                 (unsigned long long)segment->layout.bytes,
                 fd == -EFBIG ? ", as ulimit -f allows no such file"
                              : " as a memory file, nor in /dev/shm",
                 strerror(-fd));
        return fd;
    }
    error = map(segment, fd);
    if (error != 0) {
        close(fd);
        snprintf(why, size,
                 "cannot map a segment of %llu bytes: %s (PAMI_NUM_CONTEXTS, PAMI_SHM_RING_SLOTS "
                 "and PAMI_SHM_CHUNKS make it smaller)",
                 (unsigned long long)segment->layout.bytes, strerror(-error));
        return error;
    }
    if (params->member_count > 1) {
        choose_name(name, sizeof(name), params);
        listener = handoff_listen(name);
        error = listener < 0 ? listener : bootstrap_put(params->bootstrap, key, name);
    }
    if (error == 0)
        error = met = meet(params, why, size);
    if (error == 0 && listener >= 0)
        error = handoff_serve(listener, fd, params->member_count, seconds, &missing);
    else if (listener >= 0)
        close(listener);
    if (segment->fd != fd)
        close(fd);
    if (error == -ETIMEDOUT && met == 0)
        snprintf(why, size, "task %u did not join the segment within %g s",
                 params->members[missing], seconds);
    else if (error != 0 && met == 0)
        snprintf(why, size, "cannot share the segment: %s", strerror(-error));
    return error;
}

/* What a failure to join means. */
static const char *join_hint(const struct segment_layout *layout, int error)
{
    if (error == -ECONNREFUSED)
        return "; it has ended, or is in another network namespace";
    if (error == -EPERM)
        return "; it is another user's, or a filter keeps the two apart";
    if (error != -EPROTO)
        return "";
    return layout->magic == SEGMENT_MAGIC && layout->version == SEGMENT_VERSION
               ? "; its PAMI_NUM_CONTEXTS is another"
               : "; it has another version of the library";
}

static int join(const struct segment_params *params, struct segment *segment, const char *key,
                char *why, size_t size)
{
    double seconds = option_seconds(OPT_BOOTSTRAP_TIMEOUT);
    char name[108];
    int fd = -1;
    int error = meet(params, why, size);

    if (error != 0)
        return error;
    error = bootstrap_get(params->bootstrap, key, name, sizeof(name));
    if (error == 0)
        error = handoff_fetch(name, params->self, seconds, &fd);
    if (error == 0)
        error = read_layout(fd, params, &segment->layout);
    if (error == 0)
        error = map(segment, fd);
    if (fd >= 0 && segment->fd != fd)
        close(fd);
    if (error != 0)
        snprintf(why, size, "cannot join the segment of task %u: %s%s", params->members[0],
                 strerror(-error), join_hint(&segment->layout, error));
    return error;
}

/* The namespace that process ids of this process are of; 0: not known. */
static uint64_t pid_space(void)
{
    struct stat status;

    return stat("/proc/self/ns/pid", &status) == 0 ? (uint64_t)status.st_ino : 0;
}

/* When a process began, in ticks since the system did; 0: not known. No cancellation point, as
 * sends and advances come here. */
static uint64_t start_of(int32_t pid)
{
    char path[64], line[1024];
    const char *at;
    ssize_t count = -1;
    uint64_t start = 0;
    int fd, state;

    if (procfs_depth() != 1)
        return 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        count = read(fd, line, sizeof(line) - 1);
        close(fd);
    }
    pthread_setcancelstate(state, NULL);
    if (count <= 0)
        return 0;
    line[count] = '\0';
    at = strrchr(line, ')'); /* the end of field 2, the name; this is field 22 */
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at != NULL)
        start = strtoull(at, NULL, 10);
    return start;
}

static struct flock lock_of(uint32_t index)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = index, .l_len = 1};
}

bool segment_knows_pid(const struct segment *segment, uint32_t index)
{
    uint64_t mine = segment_member(segment, segment->self)->pid_space;

    return mine != 0 && segment_member(segment, index)->pid_space == mine;
}

bool segment_has_barriers(const struct segment *segment)
{
    for (uint32_t i = 0; i < segment->layout.members; i++)
        if (segment_member(segment, i)->barriers == 0)
            return false;
    return true;
}

bool segment_member_ended(const struct segment *segment, uint32_t index)
{
    const struct segment_member *member = segment_member(segment, index);
    struct flock lock = lock_of(index);

    return index != segment->self && member->locked != 0 &&
           syscall(SYS_fcntl, segment_file(segment), F_GETLK, &lock) == 0 &&
           lock.l_type == F_UNLCK &&
           atomic_load_explicit(&member->state, memory_order_acquire) == MEMBER_PRESENT;
}

bool segment_member_is_other(const struct segment *segment, uint32_t index)
{
    const struct segment_member *member = segment_member(segment, index);
    uint64_t start = segment_member_ended(segment, index) ? start_of(member->pid) : 0;

    return start != 0 && member->start != 0 && start != member->start;
}

static void introduce_myself(const struct segment_params *params, struct segment *segment)
{
    struct segment_member *me = segment_member(segment, segment->self);
    struct flock lock = lock_of(segment->self);

    me->pid = (int32_t)getpid();
    me->pid_space = pid_space();
    me->start = start_of(me->pid);
    me->locked = fcntl(segment->fd, F_SETLK, &lock) == 0;
    me->barriers = params->barriers;
    segment->probe = clock_now_ns() << 16 ^ segment->self;
    me->task = params->bootstrap->task;
    me->node = params->bootstrap->node;
    me->probe_address = (uint64_t)(uintptr_t)&segment->probe;
    me->probe_value = segment->probe;
    if (sched_getaffinity(0, sizeof(me->cpus), &me->cpus) != 0)
        CPU_ZERO(&me->cpus);
    reserve_heap(segment);
    me->heap_address = (uint64_t)(uintptr_t)segment->heap;
    me->heap_bytes = segment->heap_bytes;
    atomic_store_explicit(&me->state, MEMBER_PRESENT, memory_order_release);
}

int segment_open(const struct segment_params *params, struct segment **out, char *why, size_t size)
{
    struct segment *segment = calloc(1, sizeof(*segment));
    char key[BOOTSTRAP_KEY_MAX + 1];
    int error;

    if (segment == NULL) {
        snprintf(why, size, "out of memory");
        return -ENOMEM;
    }
    segment->self = params->self;
    segment->fd = -1;
    snprintf(key, sizeof(key), "shm.%s.%u", params->client, params->members[0]);
    error = params->self == 0 ? make(params, segment, key, why, size)
                              : join(params, segment, key, why, size);
    if (error == 0) {
        introduce_myself(params, segment);
        error = meet(params, why, size);
    }
    if (error != 0) {
        segment_close(segment);
        return error;
    }
    *out = segment;
    return 0;
}

void segment_close(struct segment *segment)
{
    int fd = segment_file(segment);

    if (segment->base != NULL) {
        atomic_store_explicit(&segment_member(segment, segment->self)->state, MEMBER_LEFT,
                              memory_order_release);
        munmap(segment->base, segment->layout.bytes);
    }
    if (segment->heap != NULL)
        munmap(segment->heap, segment->heap_bytes);
    if (fd >= 0)
        close(fd);
    free(segment);
}
