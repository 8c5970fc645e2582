/*
 * For the thread sanitizer, which sees one process only: memory that two threads of this process
 * hand to one another through another process is handed over properly all the same. Nothing in
 * ordinary builds.
 */
#ifndef LIBPAMI_UTIL_TSAN_H
#define LIBPAMI_UTIL_TSAN_H

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define TSAN_RELEASE(address) __tsan_release(address)
#define TSAN_ACQUIRE(address) __tsan_acquire(address)
#else
#define TSAN_RELEASE(address) ((void)(address))
#define TSAN_ACQUIRE(address) ((void)(address))
#endif

#endif
