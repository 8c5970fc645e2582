/*
 * The part of the PMIx interface that the pmix back end uses, declared here so that the library can
 * be built without PMIx and use what a site has.
 *
 * Sizes, offsets and numbers are those of the PMIx Standard's binary interface, which OpenPMIx has
 * kept since version 2 (soname libpmix.so.2); test/launch/pmix_abi.sh compares them with the
 * headers where these are installed. The sizes matter as well as the offsets, as infos are passed
 * in arrays; values are read by their type.
 */
#ifndef LIBPAMI_BOOTSTRAP_PMIX_ABI_H
#define LIBPAMI_BOOTSTRAP_PMIX_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PMIX_ABI_KEY_BYTES 512
#define PMIX_ABI_NAMESPACE_BYTES 256

enum pmix_abi_status {
    PMIX_ABI_SUCCESS = 0,
    PMIX_ABI_ERR_TIMEOUT = -24,
    PMIX_ABI_ERR_UNREACH = -25,
    PMIX_ABI_ERR_NOMEM = -32,
    PMIX_ABI_ERR_NOT_FOUND = -46,
    PMIX_ABI_ERR_LOST_CONNECTION = -61,
    PMIX_ABI_ERR_LOST_CONNECTION_TO_SERVER = -101, /* its name before version 4 */
    PMIX_ABI_OPERATION_SUCCEEDED = -157,           /* done already, there will be no callback */
    PMIX_ABI_EVENT_ACTION_COMPLETE = -334,
};

/* Types of values; those above BOOL that are read are integers and strings. */
enum pmix_abi_type {
    PMIX_ABI_BOOL = 1,
    PMIX_ABI_STRING = 3,
    PMIX_ABI_SIZE = 4,
    PMIX_ABI_INT = 6,
    PMIX_ABI_INT32 = 9,
    PMIX_ABI_INT64 = 10,
    PMIX_ABI_UINT = 11,
    PMIX_ABI_UINT16 = 13,
    PMIX_ABI_UINT32 = 14,
    PMIX_ABI_UINT64 = 15,
    PMIX_ABI_PROC_RANK = 40,
};

#define PMIX_ABI_RANK_WILDCARD (UINT32_MAX - 1)
#define PMIX_ABI_GLOBAL 3 /* scope: everybody of the job */

struct pmix_abi_proc {
    char nspace[PMIX_ABI_NAMESPACE_BYTES];
    uint32_t rank;
};

struct pmix_abi_value {
    uint16_t type;
    union {
        bool flag;
        char *string;
        size_t size;
        int integer;
        int32_t int32;
        int64_t int64;
        uint16_t uint16;
        uint32_t uint32;
        uint64_t uint64;
        char room[24];
    } data;
};

struct pmix_abi_info {
    char key[PMIX_ABI_KEY_BYTES];
    uint32_t flags;
    struct pmix_abi_value value;
};

typedef void pmix_abi_op_fn(int status, void *cookie);
typedef void pmix_abi_event_done_fn(int status, struct pmix_abi_info *results, size_t count,
                                    pmix_abi_op_fn *done, void *done_cookie, void *cookie);
typedef void pmix_abi_event_fn(size_t id, int status, const struct pmix_abi_proc *source,
                               struct pmix_abi_info *infos, size_t count,
                               struct pmix_abi_info *results, size_t result_count,
                               pmix_abi_event_done_fn *done, void *cookie);

/* The functions: CALL(member, symbol, result, parameters) */
#define PMIX_ABI_CALLS(CALL)                                                                       \
    CALL(init, PMIx_Init, int, (struct pmix_abi_proc *, struct pmix_abi_info *, size_t))           \
    CALL(finalize, PMIx_Finalize, int, (const struct pmix_abi_info *, size_t))                     \
    CALL(put, PMIx_Put, int, (uint8_t scope, const char *key, struct pmix_abi_value *))            \
    CALL(commit, PMIx_Commit, int, (void))                                                         \
    CALL(fence, PMIx_Fence_nb, int,                                                                \
         (const struct pmix_abi_proc *, size_t, const struct pmix_abi_info *, size_t,              \
          pmix_abi_op_fn *, void *))                                                               \
    CALL(get, PMIx_Get, int,                                                                       \
         (const struct pmix_abi_proc *, const char *key, const struct pmix_abi_info *, size_t,     \
          struct pmix_abi_value **))                                                               \
    CALL(abort, PMIx_Abort, int, (int, const char *, struct pmix_abi_proc *, size_t))              \
    CALL(listen, PMIx_Register_event_handler, int,                                                 \
         (int *codes, size_t, struct pmix_abi_info *, size_t, pmix_abi_event_fn *,                 \
          void (*registered)(int, size_t, void *), void *))                                        \
    CALL(error_string, PMIx_Error_string, const char *, (int))                                     \
    CALL(version, PMIx_Get_version, const char *, (void))

#define PMIX_ABI_MEMBER(member, symbol, result, parameters) result(*member) parameters;

struct pmix_library {
    PMIX_ABI_CALLS(PMIX_ABI_MEMBER)
};

/* A true boolean, as attributes of calls are. */
static inline struct pmix_abi_info pmix_flag(const char *key)
{
    struct pmix_abi_info info = {.value = {.type = PMIX_ABI_BOOL, .data.flag = true}};

    snprintf(info.key, sizeof info.key, "%s", key);
    return info;
}

/* pmix_fence.c: a fence of the whole job that collects all cards. Its status, or
 * PMIX_ABI_ERR_TIMEOUT. */
int pmix_library_fence(const struct pmix_library *library, double seconds);

/* pmix_library.c: opens libpmix for good. 0, or -ENOENT with the reason in `why`. */
int pmix_library_open(struct pmix_library *library, char *why, size_t size);

#endif
