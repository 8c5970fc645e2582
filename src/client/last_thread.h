/*
 * A process ends when its last thread does, by whatever means; threads of the library do not count.
 */
#ifndef LIBPAMI_CLIENT_LAST_THREAD_H
#define LIBPAMI_CLIENT_LAST_THREAD_H

#include <stdbool.h>
#include <sys/types.h>

/* The calling thread has created a client: when it ends others may be the last. */
void last_thread_watch(void);

/* client.c: whether this is a thread of the library. Any thread; true only if it is for sure. */
bool clients_have_thread(pid_t id);

/* client.c: whether this process has any. Any thread; false only if it is for sure. */
bool clients_exist(void);

#endif
