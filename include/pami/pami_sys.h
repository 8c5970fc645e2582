/*
 * pami_sys.h - platform constants of the PAMI interface.
 *
 * May be included alone, in C (C89 and later) and in C++ (C++98 and later). pami.h includes it
 * twice, before its first and after its last declaration, so that a platform could override
 * macros at the end; this platform has nothing to override.
 */
#ifndef __pami_sys_h__
#define __pami_sys_h__

#include <stdint.h>

/* Bytes of storage behind a pami_memregion_t and a pami_work_t: 64 on a 64-bit platform. */
#define PAMI_CLIENT_MEMREGION_SIZE_STATIC (8 * sizeof(uintptr_t))
#define PAMI_WORK_SIZE_STATIC (8 * sizeof(uintptr_t))

/* Left over from early drafts of the interface; nothing uses it. */
#define PAMI_REQUEST_NQUADS 512

#endif /* __pami_sys_h__ */
