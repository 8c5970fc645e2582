/*
 * The end of a process whose threads end one by one, by pthread_exit, without any exit.
 *
 * The system ends such a process with its last thread, but threads of the library would keep it
 * alive. So when a thread ends that has created a client, another one begins to look whether only
 * threads of the library are left, and calls exit(0) when that is so, as the last thread would do.
 * Threads are told apart by their ids: one that the library does not know counts as the program's.
 */
#include "client/last_thread.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/log.h"
#include "util/procfs.h"

/* Between two looks, each of which takes some 40 us. */
#define LOOK_NS 100000000

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;
static atomic_int watched; /* the process (a child of fork has no such thread), 0: none yet */

/* Those that have ended and are not gone, as the first one of a process never is, do not count. One
 * that cannot be looked at, as the process has no descriptor or no memory left for that, may run.
 */
static bool has_ended(const char *thread)
{
    char path[64], text[256];
    const char *name_end;
    FILE *file;
    size_t bytes;

    snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", thread);
    file = fopen(path, "re");
    if (file == NULL)
        return errno == ENOENT;
    bytes = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[bytes] = '\0';
    name_end = strrchr(text, ')');
    return name_end == NULL || strchr("ZX", name_end[1] != '\0' ? name_end[2] : 'Z') != NULL;
}

/* What this process knows the thread by; 0: not known. */
static pid_t number_of(const char *thread, unsigned depth)
{
    char path[64];

    if (depth == 1)
        return (pid_t)strtol(thread, NULL, 10);
    snprintf(path, sizeof(path), "/proc/self/task/%.20s", thread);
    return procfs_number(path, depth);
}

static bool others_run(void)
{
    unsigned depth = procfs_depth();
    DIR *threads = opendir("/proc/self/task");
    const struct dirent *entry;
    bool found = threads == NULL;

    while (!found && (entry = readdir(threads)) != NULL) {
        pid_t id;

        if (entry->d_name[0] == '.')
            continue;
        id = number_of(entry->d_name, depth);
        found =
            (id == 0 || (id != gettid() && !clients_have_thread(id))) && !has_ended(entry->d_name);
    }
    if (threads != NULL)
        closedir(threads);
    return found;
}

/* Without clients there are no threads of the library, and nothing to wait for. */
static bool has_nothing_to_watch(void)
{
    int none = 0;

    if (clients_exist())
        return false;
    atomic_store(&watched, 0);
    /* Somebody who has created one since and ended may have found it watched. */
    return !clients_exist() || !atomic_compare_exchange_strong(&watched, &none, getpid());
}

static void *watch(void *cookie)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};

    (void)cookie;
    do {
        if (has_nothing_to_watch())
            return NULL;
        nanosleep(&pause, NULL);
    } while (others_run());
    exit(0);
}

/* Nothing but the exit itself shall be interrupted, and that runs functions of the program. */
static void thread_ends(void *value)
{
    int none = 0, before = atomic_load(&watched);
    pthread_t thread;

    (void)value;
    if (!clients_exist())
        return;
    if (before != getpid())
        none = before;
    if (!atomic_compare_exchange_strong(&watched, &none, getpid()))
        return;
    if (pthread_create(&thread, NULL, watch, NULL) == 0) {
        pthread_setname_np(thread, "pami-last");
        pthread_detach(thread);
        return;
    }
    log_warn("threads of the library will keep this process alive: no thread can be started");
    atomic_store(&watched, 0);
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, thread_ends) == 0;
}

void last_thread_watch(void)
{
    pthread_once(&once, make_key);
    if (has_key)
        pthread_setspecific(key, &key);
}
