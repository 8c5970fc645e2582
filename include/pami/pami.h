/*
 * pami.h - the Parallel Active Message Interface.
 *
 * A program creates a client, the client creates contexts, and contexts exchange active messages,
 * one-sided transfers and collectives between endpoints (task, context offset). Operations do
 * not block; they complete through callbacks that run while a context is advanced.
 *
 * Conventions of this header:
 *  - "Owns the context": the caller must make sure that no other thread uses the context at the
 *    same time, by PAMI_Context_lock or by any scheme of its own. Callbacks own the context they
 *    are given. Functions without such a remark may be called by any thread at any time.
 *  - A parameter structure is read during the call and may be re-used when the call returns. The
 *    memory it points to (headers, data, types) stays with the library until the completion
 *    callback named in the description.
 *  - Sizes, offsets and displacements are bytes unless said otherwise.
 *  - Every event function may be NULL: the completion is then not announced. An operation that
 *    returned an error never calls its callbacks.
 *  - Every pami_result_t other than PAMI_SUCCESS and PAMI_EAGAIN leaves a text for
 *    PAMI_Error_text. PAMI_INVAL: an argument is wrong; nothing was done. PAMI_ENOMEM, out of
 *    memory, may come from every call that has to keep something, also where it is not listed.
 *  - Clients and contexts belong to the process that made them. A child made by fork may execute
 *    another program, end, and destroy its copies, none of which harms the parent; it gets no
 *    client of its own. An advance in the child would take what has come for the parent.
 */
#ifndef __pami_h__
#define __pami_h__

#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "pami_sys.h"

#ifdef __cplusplus
extern "C" {
#endif

/* long long is used knowingly, also where the language version of the program predates it. */
#pragma GCC visibility push(default)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wlong-long"

/* --------------------------------------------------------------------- handles and constants -- */

/* Result of a call or of an operation. */
typedef enum {
    PAMI_SUCCESS = 0,
    PAMI_NERROR = -1,     /* negated PAMI_ERROR */
    PAMI_ERROR = 1,       /* failed for a reason the text explains */
    PAMI_INVAL = 2,       /* an argument is not valid */
    PAMI_UNIMPL = 3,      /* not available */
    PAMI_EAGAIN = 4,      /* nothing done now; try again later */
    PAMI_ENOMEM = 5,      /* out of memory */
    PAMI_SHUTDOWN = 6,    /* the operation cannot complete: the peer or the client went away */
    PAMI_CHECK_ERRNO = 7, /* errno says more */
    PAMI_OTHER = 8,
    PAMI_RESULT_EXT = 1000 /* results of extensions start here */
} pami_result_t;

typedef void *pami_client_t;
typedef void *pami_context_t;
typedef void *pami_type_t;
typedef void *pami_geometry_t;
typedef void *pami_extension_t;
typedef size_t pami_algorithm_t;
typedef uint32_t pami_task_t;     /* 0 .. number of tasks - 1 */
typedef uint32_t pami_endpoint_t; /* a (task, context offset) pair; equal on every task */

typedef char *pami_user_key_t;
typedef char *pami_user_value_t;

typedef struct {
    pami_user_key_t key;
    pami_user_value_t value;
} pami_user_config_t;

/* Caller-provided storage of one posted work item; see PAMI_Context_post. */
typedef uintptr_t pami_work_t[PAMI_WORK_SIZE_STATIC / sizeof(uintptr_t)];

/* A registered memory region as plain bytes, which may be copied and sent to peers. */
typedef uintptr_t pami_memregion_t[PAMI_CLIENT_MEMREGION_SIZE_STATIC / sizeof(uintptr_t)];

/* These are variables with fixed values, set when the program is loaded; never assign to them. */
extern pami_client_t PAMI_CLIENT_NULL;
extern pami_context_t PAMI_CONTEXT_NULL;
extern pami_geometry_t PAMI_GEOMETRY_NULL;
extern pami_algorithm_t PAMI_ALGORITHM_NULL;
extern pami_endpoint_t PAMI_ENDPOINT_NULL;
extern size_t PAMI_ALL_CONTEXTS; /* as context_offset of a geometry: every context of each task */

/* As a collective's send (or scatter's receive) buffer: my data is already in place. */
#define PAMI_IN_PLACE ((void *)-1L)

/* The client argument of PAMI_Extension_open for extensions of the whole process. */
#ifndef PAMI_VOID_CLIENT
#define PAMI_VOID_CLIENT NULL
#endif

/* ---------------------------------------------------------------------------- callback types -- */

/* Completion of an operation. `context` is the one the operation was started on (or, for a
 * receive, the receiving one); `result` is PAMI_SUCCESS or why the operation failed. */
typedef void (*pami_event_function)(pami_context_t context, void *cookie, pami_result_t result);

/* Posted work. PAMI_EAGAIN: call me again in a later pass; anything else: done with the item. */
typedef pami_result_t (*pami_work_function)(pami_context_t context, void *cookie);

/* Copies or combines `bytes` contiguous bytes of data from `source` into `target`. `bytes` is a
 * multiple of the atom of the type in use. What is not the program's own memory is aligned as far
 * as the atom's size is, up to 16 bytes. */
typedef void (*pami_data_function)(void *target, void *source, size_t bytes, void *cookie);

/* -------------------------------------------------------------------------------- attributes -- */

typedef enum {
    /* Client */
    PAMI_CLIENT_CLOCK_MHZ = 100,           /* Q intval: processor clock, MHz */
    PAMI_CLIENT_CONST_CONTEXTS = 101,      /* Q intval: 1 if NUM_CONTEXTS is equal on all tasks */
    PAMI_CLIENT_HWTHREADS_AVAILABLE = 102, /* Q intval: processors this process may use */
    PAMI_CLIENT_MEMREGION_SIZE = 103,      /* Q intval: bytes really used of a memregion */
    PAMI_CLIENT_MEM_SIZE = 104,            /* Q intval: main memory, MiB */
    PAMI_CLIENT_NUM_TASKS = 105,           /* Q intval: tasks of the job */
    PAMI_CLIENT_NUM_LOCAL_TASKS = 106,     /* Q intval: tasks on this node, self included */
    PAMI_CLIENT_LOCAL_TASKS = 107,         /* Q intarray: their ids, NUM_LOCAL_TASKS entries */
    PAMI_CLIENT_NUM_CONTEXTS = 108,        /* Q intval: contexts this process may create */
    PAMI_CLIENT_PROCESSOR_NAME = 109,      /* Q chararray: a name unique to the process */
    PAMI_CLIENT_TASK_ID = 110,             /* Q intval: my task id */
    PAMI_CLIENT_WTIMEBASE_MHZ = 111,       /* Q intval: PAMI_Wtimebase ticks per microsecond */
    PAMI_CLIENT_WTICK = 112,               /* Q doubleval: resolution of PAMI_Wtime, seconds */
    PAMI_CLIENT_NONCONTIG = 113,           /* QU intval: accepted, without effect */
    PAMI_CLIENT_MEMORY_OPTIMIZE = 114,     /* QU intval: accepted, without effect */
    /* Context */
    PAMI_CONTEXT_DISPATCH_ID_MAX = 200, /* Q intval: largest dispatch id */
    /* Dispatch */
    PAMI_DISPATCH_RECV_IMMEDIATE_MAX = 300, /* Q intval: header + data received immediately */
    PAMI_DISPATCH_SEND_IMMEDIATE_MAX = 301, /* Q intval: header + data of PAMI_Send_immediate */
    PAMI_DISPATCH_ATOM_SIZE_MAX = 302,      /* Q intval: largest atom of a type to send with */
    /* Geometry */
    PAMI_GEOMETRY_OPTIMIZE = 400,        /* QU intval: non-zero: aggregation ahead of use */
    PAMI_GEOMETRY_NONCONTIG = 401,       /* QU intval: accepted, without effect */
    PAMI_GEOMETRY_MEMORY_OPTIMIZE = 402, /* QU intval: accepted, without effect */
    /* Type */
    PAMI_TYPE_DATA_SIZE = 500,   /* Q intval: bytes of data in one instance */
    PAMI_TYPE_DATA_EXTENT = 501, /* Q intval: distance of two instances, may be "negative" */
    PAMI_TYPE_ATOM_SIZE = 502,   /* Q intval: atom given to PAMI_Type_complete */

    PAMI_ATTRIBUTE_NAME_EXT = 1000 /* attributes of extensions start here */
} pami_attribute_name_t;

/* The member in use depends on the name. Strings and arrays from a query belong to the library,
 * are read-only, and live until the client is destroyed. */
typedef union {
    size_t intval;
    double doubleval;
    const char *chararray;
    const size_t *intarray;
} pami_attribute_value_t;

typedef struct {
    pami_attribute_name_t name;   /* set by the caller */
    pami_attribute_value_t value; /* set by a query, read by an update */
} pami_configuration_t;

/* ------------------------------------------------------------------------------------- hints -- */

typedef enum {
    PAMI_HINT_DEFAULT = 0,
    PAMI_HINT_ENABLE = 1,
    PAMI_HINT_DISABLE = 2,
    PAMI_HINT_INVALID = 3
} pami_hint_t;

/* Hard hints of one dispatch id: honoured, or PAMI_Dispatch_set fails. Members hold pami_hint_t
 * values and must agree on all tasks. */
typedef struct {
    unsigned multicontext : 2;          /* DISABLE: only contexts in use need to be advanced */
    unsigned long_header : 2;           /* DISABLE: headers never exceed RECV_IMMEDIATE_MAX */
    unsigned recv_contiguous : 2;       /* ENABLE: receive type and offset are not looked at */
    unsigned recv_copy : 2;             /* ENABLE: receive data_fn is not looked at */
    unsigned recv_immediate : 2;        /* ENABLE: every receive immediate; DISABLE: none */
    unsigned consistency : 2;           /* ENABLE: dispatches run in send order per pair */
    unsigned buffer_registered : 2;     /* ENABLE: all buffers lie in memory regions */
    unsigned remote_async_progress : 2; /* without effect; see PAMIX_Context_async_enable */
    unsigned use_rdma : 2;              /* ENABLE: may use, DISABLE: must not use RDMA */
    unsigned use_shmem : 2;             /* ENABLE: only, DISABLE: never shared memory */
    unsigned queue_immediate : 2;       /* DISABLE: Send_immediate returns EAGAIN when full */
} pami_dispatch_hint_t;

/* Soft hints of one operation, at the bit positions of the hard ones; never a cause of failure. */
typedef struct {
    unsigned reserved0 : 12;
    unsigned buffer_registered : 2;
    unsigned remote_async_progress : 2;
    unsigned use_rdma : 2;
    unsigned use_shmem : 2;
    unsigned reserved1 : 2;
} pami_send_hint_t;

typedef struct {
    unsigned multicontext : 2;
    unsigned reserved0 : 20;
} pami_collective_hint_t;

/* ------------------------------------------------------------------------------------ client -- */

/*
 * Create a client: join the job as one middleware, e.g. "MPI". All tasks create the same clients
 * in the same order; clients of one name talk to each other and to nobody else.
 *   name           a free string; copied
 *   client         out: the handle
 *   configuration  num_configs attributes; may be NULL when num_configs is 0
 * PAMI_INVAL: name or client is NULL, or an attribute is not one of a client; PAMI_ERROR: the
 * process could not join. One thread at a time.
 */
pami_result_t PAMI_Client_create(const char *name, pami_client_t *client,
                                 pami_configuration_t configuration[], size_t num_configs);

/*
 * Destroy a client and set *client to NULL. Contexts that still exist are destroyed as by
 * PAMI_Context_destroyv. PAMI_INVAL: not a client. One thread at a time.
 */
pami_result_t PAMI_Client_destroy(pami_client_t *client);

/*
 * Fill in configuration[0..num_configs-1].value for the names given there. Valid from the
 * creation of the client on, before any context exists. PAMI_INVAL: a name is not a client
 * attribute; the others are filled all the same.
 */
pami_result_t PAMI_Client_query(pami_client_t client, pami_configuration_t configuration[],
                                size_t num_configs);

/* Change client attributes. PAMI_INVAL for every attribute that is read-only or unknown. */
pami_result_t PAMI_Client_update(pami_client_t client, pami_configuration_t configuration[],
                                 size_t num_configs);

/* ---------------------------------------------------------------------------------- contexts -- */

/*
 * Create all contexts of a client, once, by one thread. Local, and nobody has to advance; those
 * that take the place of others are there when the tasks of other nodes that knew these have heard
 * of it, or have not for PAMI_DRAIN_TIMEOUT (2 s): whoever knows by then sends to the new ones.
 *   configuration  num_configs attributes; accepted and not used
 *   context        out: ncontexts handles; the index is the context offset of endpoints
 * PAMI_INVAL: ncontexts is 0 or above PAMI_CLIENT_NUM_CONTEXTS; PAMI_ERROR: the client has
 * contexts already.
 */
pami_result_t PAMI_Context_createv(pami_client_t client, pami_configuration_t configuration[],
                                   size_t num_configs, pami_context_t context[], size_t ncontexts);

/*
 * Destroy all contexts that PAMI_Context_createv made and set every contexts[i] to NULL. Work
 * still posted is dropped. PAMI_INVAL: not the complete array of live contexts of one client.
 * No other thread may use any of them, but for advances and waits: those that are made at the time
 * end, and later ones answer PAMI_INVAL until another context is created.
 * Messages already accepted leave first; a peer that does not advance is given PAMI_DRAIN_TIMEOUT
 * (2 s). To peers that have destroyed theirs less often the endpoints have gone: until the contexts
 * are created again, sends to them end with PAMI_ERROR. Peers that have done so as often may go on,
 * as tasks that create and destroy contexts in step do: what they send is held for the next
 * contexts; and what they send to a task that still has the earlier ones, until that has destroyed
 * these, or for PAMI_BEHIND_TIMEOUT (1 s), after which it goes to them. Nothing that was sent to
 * the old contexts reaches the new ones.
 */
pami_result_t PAMI_Context_destroyv(pami_context_t *contexts, size_t ncontexts);

/* Query and change attributes of a context; see PAMI_Client_query. Update owns the context. */
pami_result_t PAMI_Context_query(pami_context_t context, pami_configuration_t configuration[],
                                 size_t num_configs);
pami_result_t PAMI_Context_update(pami_context_t context, pami_configuration_t configuration[],
                                  size_t num_configs);

/*
 * Run fn(context, cookie) from a later advance of the context.
 *   work    storage for the library's bookkeeping, owned by the caller, not to be touched until
 *           fn has returned something other than PAMI_EAGAIN; fn itself may free or re-post it
 *           before such a return
 *   fn      PAMI_EAGAIN keeps the item queued for one call per further pass
 * PAMI_INVAL: an argument is NULL. Any thread, any number at once, also from callbacks; needs no
 * lock. Items of one thread are first called in the order of posting. fn may be called, and what it
 * leads to may be the end of the context, before this call has returned in another thread.
 */
pami_result_t PAMI_Context_post(pami_context_t context, pami_work_t *work, pami_work_function fn,
                                void *cookie);

/*
 * Make progress: at most `maximum` passes over posted work and devices; returns after the first
 * pass that did something. PAMI_SUCCESS: something happened; PAMI_EAGAIN: nothing did, or the
 * call came from inside a callback of the same context. Owns the context. Takes less than 8 KiB of
 * stack beside what callbacks take; over a network up to 20 KiB, most of it libfabric's.
 */
pami_result_t PAMI_Context_advance(pami_context_t context, size_t maximum);

/* The same over count contexts; a pass looks at each of them once. Owns all of them. */
pami_result_t PAMI_Context_advancev(pami_context_t context[], size_t count, size_t maximum);

/*
 * As PAMI_Context_advancev, but each context is locked around its own share of a pass, and skipped
 * when another thread holds it. PAMI_EAGAIN also when every context was held.
 */
pami_result_t PAMI_Context_trylock_advancev(pami_context_t context[], size_t count, size_t maximum);

/*
 * The lock of a context, for clients that want one. Of the library only
 * PAMI_Context_trylock_advancev and threads of asynchronous progress take it, both by trylock.
 * Recursive for the thread that holds it. trylock: PAMI_EAGAIN when another thread holds the lock.
 * unlock: PAMI_INVAL when the caller does not.
 */
pami_result_t PAMI_Context_lock(pami_context_t context);
pami_result_t PAMI_Context_trylock(pami_context_t context);
pami_result_t PAMI_Context_unlock(pami_context_t context);

/* --------------------------------------------------------------------------------- endpoints -- */

/*
 * *endpoint = the name of context number `offset` of `task`. Local arithmetic: the result is the
 * same on every task and may be kept in shared memory; that of offset 0 equals the task id.
 * PAMI_INVAL: no such task, or the offset is beyond PAMI_CLIENT_NUM_CONTEXTS.
 */
pami_result_t PAMI_Endpoint_create(pami_client_t client, pami_task_t task, size_t offset,
                                   pami_endpoint_t *endpoint);

/* The inverse of PAMI_Endpoint_create. */
pami_result_t PAMI_Endpoint_query(pami_endpoint_t endpoint, pami_task_t *task, size_t *offset);

/* ------------------------------------------------------------------ types and data functions -- */

/*
 * A type says where data lies: an ordered list of (bytes, displacement) buffers, built by moving
 * a cursor that starts at 0 and wraps, so that (size_t)-n moves it back. The data size is the sum
 * of the buffers; the extent is the final cursor. Applied to memory at some base a type repeats
 * for ever, instance k at base + k * extent. "offset" arguments of transfers count data bytes
 * into that endless stream.
 *
 * Types belong to no client and may be used before one exists. Building one type is for one
 * thread at a time; complete types never change and are shared freely.
 */
extern pami_type_t PAMI_TYPE_NULL;

/* Predefined types: contiguous, size = extent = atom = the size of the C type. */
extern pami_type_t PAMI_TYPE_BYTE; /* unsigned 8-bit integer for reductions */
extern pami_type_t PAMI_TYPE_SIGNED_CHAR;
extern pami_type_t PAMI_TYPE_UNSIGNED_CHAR;
extern pami_type_t PAMI_TYPE_SIGNED_SHORT;
extern pami_type_t PAMI_TYPE_UNSIGNED_SHORT;
extern pami_type_t PAMI_TYPE_SIGNED_INT;
extern pami_type_t PAMI_TYPE_UNSIGNED_INT;
extern pami_type_t PAMI_TYPE_SIGNED_LONG;
extern pami_type_t PAMI_TYPE_UNSIGNED_LONG;
extern pami_type_t PAMI_TYPE_SIGNED_LONG_LONG;
extern pami_type_t PAMI_TYPE_UNSIGNED_LONG_LONG;
extern pami_type_t PAMI_TYPE_FLOAT;
extern pami_type_t PAMI_TYPE_DOUBLE;
extern pami_type_t PAMI_TYPE_LONG_DOUBLE;
extern pami_type_t PAMI_TYPE_LOGICAL1; /* truth values in uint8_t ... uint64_t */
extern pami_type_t PAMI_TYPE_LOGICAL2;
extern pami_type_t PAMI_TYPE_LOGICAL4;
extern pami_type_t PAMI_TYPE_LOGICAL8;
extern pami_type_t PAMI_TYPE_SINGLE_COMPLEX; /* {float re, im} */
extern pami_type_t PAMI_TYPE_DOUBLE_COMPLEX; /* {double re, im} */
extern pami_type_t PAMI_TYPE_LOC_2INT;       /* {value, index} structures, C padding counted */
extern pami_type_t PAMI_TYPE_LOC_2FLOAT;
extern pami_type_t PAMI_TYPE_LOC_2DOUBLE;
extern pami_type_t PAMI_TYPE_LOC_SHORT_INT;
extern pami_type_t PAMI_TYPE_LOC_FLOAT_INT;
extern pami_type_t PAMI_TYPE_LOC_DOUBLE_INT;
extern pami_type_t PAMI_TYPE_LOC_LONG_INT;
extern pami_type_t PAMI_TYPE_LOC_LONGDOUBLE_INT;

/*
 * Predefined data functions, target := target o source element by element. They are names to pass
 * and compare, not functions to call. NULL means PAMI_DATA_COPY.
 */
extern pami_data_function PAMI_DATA_COPY; /* every type */
extern pami_data_function PAMI_DATA_NOOP; /* every type; the target stays as it is */
extern pami_data_function PAMI_DATA_MAX;  /* integers, floats */
extern pami_data_function PAMI_DATA_MIN;
extern pami_data_function PAMI_DATA_SUM; /* integers, floats, complex */
extern pami_data_function PAMI_DATA_PROD;
extern pami_data_function PAMI_DATA_LAND; /* integers, logicals; the result is 0 or 1 */
extern pami_data_function PAMI_DATA_LOR;
extern pami_data_function PAMI_DATA_LXOR;
extern pami_data_function PAMI_DATA_BAND; /* integers */
extern pami_data_function PAMI_DATA_BOR;
extern pami_data_function PAMI_DATA_BXOR;
extern pami_data_function PAMI_DATA_MAXLOC; /* pairs; of equal values the smaller index wins */
extern pami_data_function PAMI_DATA_MINLOC;

/* *type = a new, empty, incomplete type; the caller destroys it. PAMI_ENOMEM, PAMI_INVAL. */
pami_result_t PAMI_Type_create(pami_type_t *type);

/*
 * Move the cursor by `offset`, then `count` times: place a buffer of `bytes` at the cursor and move
 * it by `stride`. bytes or count 0 only moves the cursor. PAMI_INVAL: not an incomplete type, or
 * the data size would pass the largest object size; PAMI_ENOMEM. The type is unchanged on error.
 */
pami_result_t PAMI_Type_add_simple(pami_type_t type, size_t bytes, size_t offset, size_t count,
                                   size_t stride);

/*
 * The same with the buffers of `subtype` (complete) placed relative to the cursor each time. The
 * layout is captured here: the subtype may be destroyed at once. A type made only from one
 * predefined kind keeps that kind, so that arithmetic data functions work on it.
 */
pami_result_t PAMI_Type_add_typed(pami_type_t type, pami_type_t subtype, size_t offset,
                                  size_t count, size_t stride);

/*
 * Freeze the type. atom_size, 1..128, is the unit that data functions of the caller are never
 * given a part of; it must divide every contiguous piece. PAMI_INVAL otherwise, or when the type
 * is complete already.
 */
pami_result_t PAMI_Type_complete(pami_type_t type, size_t atom_size);

/*
 * Give the handle back and set *type to NULL. Transfers under way are not affected. PAMI_INVAL:
 * not a type, or a predefined one.
 */
pami_result_t PAMI_Type_destroy(pami_type_t *type);

/*
 * *address, *size = the complete type as plain bytes. The buffer belongs to the library and lives
 * as long as the type; every call gives the same one. PAMI_INVAL: incomplete; PAMI_ENOMEM.
 */
pami_result_t PAMI_Type_serialize(pami_type_t type, void **address, size_t *size);

/*
 * *type = a new, complete type like the one that was serialized into address[0..size-1], on this
 * or on another task; the caller destroys it. The bytes are copied. PAMI_INVAL: not such bytes.
 */
pami_result_t PAMI_Type_deserialize(pami_type_t *type, void *address, size_t size);

/*
 * Copy `size` data bytes on the spot, from data offset src_offset of src_type at src_addr to data
 * offset dst_offset of dst_type at dst_addr, applying data_fn to one contiguous piece of the
 * destination after the other. The caller's own gets whole atoms of one piece at a time, and a
 * piece in several calls where the source is in pieces itself. The two areas must not overlap.
 * PAMI_INVAL: a type is incomplete or empty, or data_fn does not fit the kind of dst_type, or size
 * or dst_offset would split an element (an atom, if data_fn is the caller's own).
 */
pami_result_t PAMI_Type_transform_data(void *src_addr, pami_type_t src_type, size_t src_offset,
                                       void *dst_addr, pami_type_t dst_type, size_t dst_offset,
                                       size_t size, pami_data_function data_fn, void *cookie);

/* Fill in PAMI_TYPE_* attributes. PAMI_INVAL: incomplete, or not an attribute of a type. */
pami_result_t PAMI_Type_query(pami_type_t type, pami_configuration_t configuration[],
                              size_t num_configs);

/* --------------------------------------------------------------------------- active messages -- */

typedef struct {
    struct iovec header; /* delivered whole to the dispatch function; base may be NULL if empty */
    struct iovec data;   /* typed sends: base of the type, and number of data bytes */
    size_t dispatch;     /* id set by PAMI_Dispatch_set on both sides */
    pami_send_hint_t hints;
    pami_endpoint_t dest;
} pami_send_immediate_t;

/*
 * What the receiver makes of a message is told to remote_fn only: PAMI_INVAL, it cannot take the
 * data as its own dispatch function wants to; PAMI_ENOMEM; PAMI_SHUTDOWN, it has closed. local_fn
 * has PAMI_SUCCESS all the same, with a remote_fn or without. A destination that is found to have
 * gone is PAMI_ERROR for what has not run yet.
 */
typedef struct {
    void *cookie;                  /* for both functions */
    pami_event_function local_fn;  /* header and data may be changed again */
    pami_event_function remote_fn; /* the data is in the target's final buffer; after local_fn */
} pami_send_event_t;

typedef struct {
    pami_send_immediate_t send;
    pami_send_event_t events;
} pami_send_t;

typedef struct {
    pami_send_immediate_t send;
    pami_send_event_t events;
    struct {
        pami_type_t type;
        size_t offset;              /* data bytes to skip first */
        pami_data_function data_fn; /* target: the packed stream; source: user memory. Of the
                                     * predefined ones only PAMI_DATA_COPY */
        void *data_cookie;
    } typed;
} pami_send_typed_t;

/* What a dispatch function wants done with the data; on entry everything is zero, the type is
 * PAMI_TYPE_BYTE. */
typedef struct {
    void *cookie;
    pami_event_function local_fn; /* the data has arrived; the buffer is the caller's again */
    void *addr;                   /* NULL discards the data */
    pami_type_t type;             /* NULL means PAMI_TYPE_BYTE */
    size_t offset;                /* data bytes into the type at which the message starts */
    pami_data_function data_fn;   /* target: user memory; source: the message */
    void *data_cookie;
} pami_recv_t;

/*
 * A message has come in on `context`.
 *   header_addr  header_size bytes, 8-byte aligned, valid until the function returns
 *   pipe_addr    not NULL: the data_size bytes of data, valid until the function returns, and
 *                recv is NULL (immediate receive)
 *   recv         not NULL: to be filled in before returning; data_size bytes will come
 */
typedef void (*pami_dispatch_p2p_function)(pami_context_t context, void *cookie,
                                           const void *header_addr, size_t header_size,
                                           const void *pipe_addr, size_t data_size,
                                           pami_endpoint_t origin, pami_recv_t *recv);

/* Broadcast to this member: as above; pipe_addr is NULL and recv is not. */
typedef void (*pami_dispatch_ambroadcast_function)(pami_context_t context, void *cookie,
                                                   const void *header_addr, size_t header_size,
                                                   const void *pipe_addr, size_t data_size,
                                                   pami_endpoint_t origin, pami_geometry_t geometry,
                                                   pami_recv_t *recv);

/* One block of a scatter to this member. */
typedef void (*pami_dispatch_amscatter_function)(pami_context_t context, void *cookie,
                                                 const void *header_addr, size_t header_size,
                                                 const void *pipe_addr, size_t data_size,
                                                 pami_endpoint_t origin, pami_geometry_t geometry,
                                                 pami_recv_t *recv);

/* A gather asks this member for its block of data_size bytes: send->addr, type, offset say where
 * it lies, send->local_fn tells when it may be changed again. */
typedef void (*pami_dispatch_amgather_function)(pami_context_t context, void *cookie,
                                                const void *header_addr, size_t header_size,
                                                size_t data_size, pami_endpoint_t origin,
                                                pami_geometry_t geometry, pami_recv_t *send);

/* A reduction asks for this member's contribution, as a gather does, and for the operator to be
 * used, in *op; the kind of send->type selects the arithmetic. The contribution stays as it is. */
typedef void (*pami_dispatch_amreduce_function)(pami_context_t context, void *cookie,
                                                const void *header_addr, size_t header_size,
                                                size_t data_size, pami_endpoint_t origin,
                                                pami_geometry_t geometry, pami_data_function *op,
                                                pami_recv_t *send);

typedef union {
    pami_dispatch_p2p_function p2p;
    pami_dispatch_ambroadcast_function ambroadcast;
    pami_dispatch_amscatter_function amscatter;
    pami_dispatch_amgather_function amgather;
    pami_dispatch_amreduce_function amreduce;
} pami_dispatch_callback_function;

/*
 * Register fn.p2p for messages with this id on this context; needed before sending with the id,
 * and before messages with it are delivered here (earlier ones wait). Setting an id again
 * replaces it.
 *   dispatch  0 .. PAMI_CONTEXT_DISPATCH_ID_MAX
 *   cookie    handed to fn
 *   options   hard hints, equal on all tasks
 * PAMI_INVAL: id, function or hint value, or buffer_registered enabled and use_rdma disabled. Owns
 * the context.
 */
pami_result_t PAMI_Dispatch_set(pami_context_t context, size_t dispatch,
                                pami_dispatch_callback_function fn, void *cookie,
                                pami_dispatch_hint_t options);

/* Query and change attributes of a registered id; PAMI_INVAL when it is not set. */
pami_result_t PAMI_Dispatch_query(pami_context_t context, size_t dispatch,
                                  pami_configuration_t configuration[], size_t num_configs);
pami_result_t PAMI_Dispatch_update(pami_context_t context, size_t dispatch,
                                   pami_configuration_t configuration[], size_t num_configs);

/*
 * Send a contiguous message. Header and data stay untouched until events.local_fn (or, if only that
 * one is given, remote_fn) has run. No callback and no dispatch runs inside the call.
 * What cannot leave at once does so in advances of this context. To another node that goes for the
 * first message, as its destination has to be found: a task that sends and then computes without an
 * advance may not have sent. Destroying the contexts or the client, and exit, send it off.
 * PAMI_INVAL: destination, sizes or hints; PAMI_ERROR: the id is not set on this context. Owns the
 * context.
 */
pami_result_t PAMI_Send(pami_context_t context, pami_send_t *parameters);

/*
 * Send a small message: header + data at most PAMI_DISPATCH_SEND_IMMEDIATE_MAX bytes, both free for
 * re-use on return. PAMI_EAGAIN: only with queue_immediate = DISABLE, when there is no room now, or
 * something else to the destination waits for room; nothing was kept. What several packets are
 * needed for is accepted when nothing waits, and may itself wait then. Other errors as PAMI_Send.
 * Owns the context.
 */
pami_result_t PAMI_Send_immediate(pami_context_t context, pami_send_immediate_t *parameters);

/*
 * Send data gathered through a type: send.data.iov_len data bytes from data offset typed.offset of
 * typed.type applied at send.data.iov_base. The type must be complete and stay alive until
 * local_fn. Errors as PAMI_Send. Owns the context.
 */
pami_result_t PAMI_Send_typed(pami_context_t context, pami_send_typed_t *parameters);

/* ----------------------------------------------------------------------- one-sided transfers -- */

/* Common part: `bytes` of data between this task and the task of `dest`. done_fn: puts, the local
 * source may be changed; gets, the data is in the local buffer. */
typedef struct {
    pami_endpoint_t dest;
    pami_send_hint_t hints;
    size_t bytes;
    void *cookie;
    pami_event_function done_fn;
} pami_rma_t;

/* Virtual addresses in this process and in the target process. */
typedef struct {
    void *local;
    void *remote;
} pami_rma_addr_t;

/* Both are handles of this process; the layout travels with the operation. */
typedef struct {
    pami_type_t local;
    pami_type_t remote;
} pami_rma_typed_t;

/* rdone_fn: all bytes are visible in the target's memory. After done_fn, same cookie, called on
 * the context that started the put. */
typedef struct {
    pami_event_function rdone_fn;
} pami_rma_put_t;

typedef struct {
    pami_memregion_t *mr;
    size_t offset; /* from the start of the region */
} pami_rma_mr_t;

/* remote.mr points to a copy of the memory region that the target created. */
typedef struct {
    pami_rma_mr_t local;
    pami_rma_mr_t remote;
} pami_rdma_t;

typedef struct {
    pami_rma_t rma;
    pami_rma_addr_t addr;
    pami_rma_put_t put;
} pami_put_simple_t;

typedef struct {
    pami_rma_t rma;
    pami_rma_addr_t addr;
    pami_rma_typed_t type;
    pami_rma_put_t put;
} pami_put_typed_t;

typedef struct {
    pami_rma_t rma;
    pami_rma_addr_t addr;
} pami_get_simple_t;

typedef struct {
    pami_rma_t rma;
    pami_rma_addr_t addr;
    pami_rma_typed_t type;
} pami_get_typed_t;

typedef struct {
    pami_rma_t rma;
    pami_rdma_t rdma;
    pami_rma_put_t put;
} pami_rput_simple_t;

typedef struct {
    pami_rma_t rma;
    pami_rdma_t rdma;
    pami_rma_typed_t type;
    pami_rma_put_t put;
} pami_rput_typed_t;

typedef struct {
    pami_rma_t rma;
    pami_rdma_t rdma;
} pami_rget_simple_t;

typedef struct {
    pami_rma_t rma;
    pami_rdma_t rdma;
    pami_rma_typed_t type;
} pami_rget_typed_t;

/*
 * One-sided write (put) and read (get) by address, and by memory region (rput, rget). Typed forms
 * stream rma.bytes data bytes from one layout into the other; types repeat by their extent and
 * live until done_fn. Nothing is called at the target, which may have to advance though. There
 * is no order among operations other than by rdone_fn and fences. bytes 0 moves nothing and
 * completes. PAMI_INVAL: destination, region, range or type. All own the context.
 */
pami_result_t PAMI_Put(pami_context_t context, pami_put_simple_t *parameters);
pami_result_t PAMI_Put_typed(pami_context_t context, pami_put_typed_t *parameters);
pami_result_t PAMI_Get(pami_context_t context, pami_get_simple_t *parameters);
pami_result_t PAMI_Get_typed(pami_context_t context, pami_get_typed_t *parameters);
pami_result_t PAMI_Rput(pami_context_t context, pami_rput_simple_t *parameters);
pami_result_t PAMI_Rput_typed(pami_context_t context, pami_rput_typed_t *parameters);
pami_result_t PAMI_Rget(pami_context_t context, pami_rget_simple_t *parameters);
pami_result_t PAMI_Rget_typed(pami_context_t context, pami_rget_typed_t *parameters);

/*
 * Make address[0..bytes_in-1] reachable by rput and rget, from every context of the client.
 *   bytes_out  out: how many bytes, from the start, are usable
 *   memregion  out: plain bytes, to be copied and sent to peers as they are
 * PAMI_INVAL: NULL or no bytes; PAMI_EAGAIN: no resources now. Local. Owns the context.
 */
pami_result_t PAMI_Memregion_create(pami_context_t context, void *address, size_t bytes_in,
                                    size_t *bytes_out, pami_memregion_t *memregion);

/*
 * Withdraw a region this task created and clear the handle; no transfer may be using it. Only this
 * task forgets it: peers with a copy of the handle are not told, and must not use it any more. The
 * context may be another one than it was created with. Owns the context.
 */
pami_result_t PAMI_Memregion_destroy(pami_context_t context, pami_memregion_t *memregion);

/* Bit 0: fetch the old value, bit 1: compare first, bits 2..4: what to store. */
typedef enum {
    PAMI_ATOMIC_FETCH = 1,
    PAMI_ATOMIC_COMPARE = 2,
    PAMI_ATOMIC_SET = 1 << 2,
    PAMI_ATOMIC_ADD = 2 << 2,
    PAMI_ATOMIC_OR = 3 << 2,
    PAMI_ATOMIC_AND = 4 << 2,
    PAMI_ATOMIC_XOR = 5 << 2,

    PAMI_ATOMIC_FETCH_SET = PAMI_ATOMIC_FETCH | PAMI_ATOMIC_SET,
    PAMI_ATOMIC_FETCH_ADD = PAMI_ATOMIC_FETCH | PAMI_ATOMIC_ADD,
    PAMI_ATOMIC_FETCH_OR = PAMI_ATOMIC_FETCH | PAMI_ATOMIC_OR,
    PAMI_ATOMIC_FETCH_AND = PAMI_ATOMIC_FETCH | PAMI_ATOMIC_AND,
    PAMI_ATOMIC_FETCH_XOR = PAMI_ATOMIC_FETCH | PAMI_ATOMIC_XOR,
    PAMI_ATOMIC_COMPARE_SET = PAMI_ATOMIC_COMPARE | PAMI_ATOMIC_SET,
    PAMI_ATOMIC_COMPARE_ADD = PAMI_ATOMIC_COMPARE | PAMI_ATOMIC_ADD,
    PAMI_ATOMIC_COMPARE_OR = PAMI_ATOMIC_COMPARE | PAMI_ATOMIC_OR,
    PAMI_ATOMIC_COMPARE_AND = PAMI_ATOMIC_COMPARE | PAMI_ATOMIC_AND,
    PAMI_ATOMIC_COMPARE_XOR = PAMI_ATOMIC_COMPARE | PAMI_ATOMIC_XOR,
    PAMI_ATOMIC_FETCH_COMPARE_SET = PAMI_ATOMIC_FETCH | PAMI_ATOMIC_COMPARE_SET,
    PAMI_ATOMIC_FETCH_COMPARE_ADD = PAMI_ATOMIC_FETCH | PAMI_ATOMIC_COMPARE_ADD,
    PAMI_ATOMIC_FETCH_COMPARE_OR = PAMI_ATOMIC_FETCH | PAMI_ATOMIC_COMPARE_OR,
    PAMI_ATOMIC_FETCH_COMPARE_AND = PAMI_ATOMIC_FETCH | PAMI_ATOMIC_COMPARE_AND,
    PAMI_ATOMIC_FETCH_COMPARE_XOR = PAMI_ATOMIC_FETCH | PAMI_ATOMIC_COMPARE_XOR
} pami_atomic_t;

typedef struct {
    pami_endpoint_t dest;
    pami_send_hint_t hints;
    void *cookie;
    pami_event_function done_fn; /* done at the target, and *local written if fetching */
    void *local;                 /* where the old value goes; may be NULL without FETCH */
    void *remote;                /* address at the target, naturally aligned */
    void *value;                 /* operand; read during the call */
    void *test;                  /* operand of COMPARE; read during the call */
    pami_atomic_t operation;
    pami_type_t type; /* a predefined (un)signed int, long or long long type */
} pami_rmw_t;

/*
 * Atomic read-modify-write of one integer at the target, atomic with respect to other PAMI_Rmw from
 * anywhere and to atomic instructions of the target's program: unless COMPARE is asked for and
 * *remote differs from *test, *remote becomes *remote o *value. FETCH stores the old value in
 * *local either way. An address that the target cannot access is PAMI_ERROR for done_fn. In no
 * order with anything else. Owns the context.
 */
pami_result_t PAMI_Rmw(pami_context_t context, pami_rmw_t *parameters);

/* ---------------------------------------------------------------------- fence, purge, resume -- */

/* Open and close the region of operations that fences wait for. Local; regions do not nest:
 * PAMI_INVAL for a second begin or a stray end. Own the context. */
pami_result_t PAMI_Fence_begin(pami_context_t context);
pami_result_t PAMI_Fence_end(pami_context_t context);

/*
 * Call done_fn when every operation started earlier on this context, to any endpoint or to
 * `target`, has completed at its target; outside of a region, too. One-sided, does not block.
 * PAMI_ERROR for done_fn: some of it may be lost, as messages to a context that was destroyed are
 * even if it was created again. PAMI_INVAL: no such endpoint. Own the context.
 */
pami_result_t PAMI_Fence_all(pami_context_t context, pami_event_function done_fn, void *cookie);
pami_result_t PAMI_Fence_endpoint(pami_context_t context, pami_event_function done_fn, void *cookie,
                                  pami_endpoint_t target);

/*
 * Forget (purge) and re-establish (resume) the connections to dest[0..count-1], whose tasks leave
 * or are being checkpointed; the caller has fenced and agreed on it with them. Local. PAMI_INVAL:
 * one of them is this endpoint or does not exist. Own the context.
 */
pami_result_t PAMI_Purge(pami_context_t context, pami_endpoint_t *dest, size_t count);
pami_result_t PAMI_Resume(pami_context_t context, pami_endpoint_t *dest, size_t count);

/* ---------------------------------------------------------------------- geometries: metadata -- */

/* Kinds of collectives. */
typedef enum {
    PAMI_XFER_BROADCAST = 0,
    PAMI_XFER_ALLREDUCE,
    PAMI_XFER_REDUCE,
    PAMI_XFER_ALLGATHER,
    PAMI_XFER_ALLGATHERV,
    PAMI_XFER_ALLGATHERV_INT,
    PAMI_XFER_SCATTER,
    PAMI_XFER_SCATTERV,
    PAMI_XFER_SCATTERV_INT,
    PAMI_XFER_GATHER,
    PAMI_XFER_GATHERV,
    PAMI_XFER_GATHERV_INT,
    PAMI_XFER_BARRIER,
    PAMI_XFER_ALLTOALL,
    PAMI_XFER_ALLTOALLV,
    PAMI_XFER_ALLTOALLV_INT,
    PAMI_XFER_SCAN,
    PAMI_XFER_REDUCE_SCATTER,
    PAMI_XFER_AMBROADCAST,
    PAMI_XFER_AMSCATTER,
    PAMI_XFER_AMGATHER,
    PAMI_XFER_AMREDUCE,
    PAMI_XFER_COUNT,
    PAMI_XFER_TYPE_EXT = 1000
} pami_xfer_type_t;

struct pami_xfer_t;
typedef struct pami_xfer_t *xfer_p;

/* Why an algorithm cannot take a call; 0: it can. */
typedef union metadata_result_t {
    unsigned bitmask;
    struct {
        unsigned unspecified : 1;
        unsigned range : 1;
        unsigned align_send_buffer : 1;
        unsigned align_recv_buffer : 1;
        unsigned datatype_op : 1;
        unsigned contiguous_send : 1;
        unsigned contiguous_recv : 1;
        unsigned continuous_send : 1;
        unsigned continuous_recv : 1;
        unsigned nonlocal : 1;
    } check;
} metadata_result_t;

/* Asks an algorithm whether it can take this call. */
typedef metadata_result_t (*pami_metadata_function)(struct pami_xfer_t *in);

/* What an algorithm needs. `name` lives as long as the client. */
typedef struct {
    char *name;
    unsigned version;
    pami_metadata_function check_fn; /* may be NULL: look at the bits below */
    size_t range_lo;                 /* bytes, when rangeminmax */
    size_t range_hi;
    unsigned send_min_align; /* bytes, when sendminalign */
    unsigned recv_min_align; /* bytes, when recvminalign */
    union {
        unsigned bitmask_correct;
        struct {
            unsigned checkrequired : 1; /* call check_fn before every use */
            unsigned nonlocal : 1;      /* members must combine their answers */
            unsigned rangeminmax : 1;
            unsigned sendminalign : 1;
            unsigned recvminalign : 1;
            unsigned alldtop : 1;      /* every valid pair of operator and type */
            unsigned contigsflags : 1; /* the send type must be contiguous */
            unsigned contigrflags : 1; /* the receive type must be contiguous */
            unsigned continsflags : 1; /* blocks of the send vector must be adjacent */
            unsigned continrflags : 1; /* blocks of the receive vector must be adjacent */
            unsigned blocking : 1;     /* may block inside PAMI_Collective */
            unsigned inplace : 1;      /* send and receive buffer may be the same */
            unsigned asyncflowctl : 1; /* throttle with barriers now and then */
            unsigned oneatatime : 1;   /* one call outstanding */
            unsigned global_order : 4; /* same order of starting in all geometries */
        } values;
    } check_correct;
    union {
        unsigned bitmask_perf;
        struct {
            unsigned hw_accel : 1;
        } values;
    } check_perf;
    size_t range_lo_perf; /* bytes in which the algorithm does well */
    size_t range_hi_perf;
    unsigned min_align_perf;
} pami_metadata_t;

/* -------------------------------------------------------------------------------- geometries -- */

/* Tasks lo .. hi, both included. */
typedef struct {
    pami_task_t lo;
    pami_task_t hi;
} pami_geometry_range_t;

/*
 * *world_geometry = the geometry of all tasks (context offset 0), id 0, which exists as long as the
 * client. Local.
 */
pami_result_t PAMI_Geometry_world(pami_client_t client, pami_geometry_t *world_geometry);

/*
 * Create a geometry: an ordered group of endpoints. Does not block: *geometry is set on return and
 * becomes usable when fn(context, cookie, result) has run, once all members have called.
 *   context_offset  which context of each task takes part, or PAMI_ALL_CONTEXTS
 *   configuration   num_configs of PAMI_GEOMETRY_OPTIMIZE, _NONCONTIG, _MEMORY_OPTIMIZE
 *   parent          a geometry whose members all call, or NULL: only the new members call
 *   id              positive, equal on all members, unique among live geometries sharing tasks
 *   task_slices     slice_count ranges, tasks, or endpoints: the members in rank order, equal on
 *                   all members; copied
 *   context         where fn runs; it and all member contexts must be advanced until then
 * Callers outside the new group pass geometry = NULL with a parent; their list is not looked at.
 * PAMI_INVAL: list, id or attribute; PAMI_ENOMEM. Own the context.
 */
pami_result_t PAMI_Geometry_create_taskrange(pami_client_t client, size_t context_offset,
                                             pami_configuration_t configuration[],
                                             size_t num_configs, pami_geometry_t *geometry,
                                             pami_geometry_t parent, unsigned id,
                                             pami_geometry_range_t *task_slices, size_t slice_count,
                                             pami_context_t context, pami_event_function fn,
                                             void *cookie);
pami_result_t PAMI_Geometry_create_tasklist(pami_client_t client, size_t context_offset,
                                            pami_configuration_t configuration[],
                                            size_t num_configs, pami_geometry_t *geometry,
                                            pami_geometry_t parent, unsigned id, pami_task_t *tasks,
                                            size_t task_count, pami_context_t context,
                                            pami_event_function fn, void *cookie);
/* The same for any endpoints, without duplicates; each task calls once for all of its own. */
pami_result_t PAMI_Geometry_create_endpointlist(pami_client_t client,
                                                pami_configuration_t configuration[],
                                                size_t num_configs, pami_geometry_t *geometry,
                                                unsigned id, pami_endpoint_t *endpoints,
                                                size_t endpoint_count, pami_context_t context,
                                                pami_event_function fn, void *cookie);

/*
 * Leave a geometry; called by all members after their last collective on it. *geometry becomes NULL
 * on return; the id may be used again when fn has run on `context`. The world geometry is only
 * forgotten, not destroyed. Owns the context.
 */
pami_result_t PAMI_Geometry_destroy(pami_client_t client, pami_geometry_t *geometry,
                                    pami_context_t context, pami_event_function fn, void *cookie);

/* Fill in geometry attributes; see PAMI_Client_query. */
pami_result_t PAMI_Geometry_query(pami_geometry_t geometry, pami_configuration_t configuration[],
                                  size_t num_configs);

/*
 * Change geometry attributes; called by all members, in the same order relative to their
 * collectives. When fn has run on `context`, the algorithm lists must be queried again. Local, does
 * not wait for others. Owns the context, which is the one that takes part.
 *
 * Each update of PAMI_GEOMETRY_OPTIMIZE lets go of the resources that the geometry was granted,
 * when its collectives that use them have ended. With 1 it asks for them again, also where they
 * were refused before; after 0 algorithms that need them do without. Members whose values differ
 * are refused together. Without effect, but for asking with 1, where a task has several members.
 */
pami_result_t PAMI_Geometry_update(pami_geometry_t geometry, pami_configuration_t configuration[],
                                   size_t num_configs, pami_context_t context,
                                   pami_event_function fn, void *cookie);

/*
 * lists_lengths[0] = number of algorithms of this kind that take any call, [1] = number of those
 * whose metadata must be consulted. PAMI_INVAL: no such kind. Local, any thread.
 */
pami_result_t PAMI_Geometry_algorithms_num(pami_geometry_t geometry, pami_xfer_type_t coll_type,
                                           size_t *lists_lengths);

/*
 * Fill in handles and metadata of the first num0 always-usable and the first num1 must-query
 * algorithms, best first; the same position means the same algorithm on all members. An array that
 * is NULL is not wanted, whatever its length. Handles are good on every context of the task that is
 * a member, until the geometry is destroyed or updated. Local, any thread.
 */
pami_result_t PAMI_Geometry_algorithms_query(pami_geometry_t geometry, pami_xfer_type_t colltype,
                                             pami_algorithm_t *algs0, pami_metadata_t *mdata0,
                                             size_t num0, pami_algorithm_t *algs1,
                                             pami_metadata_t *mdata1, size_t num1);

/* ------------------------------------------------------------------------------- collectives -- */

/*
 * Counts are instances of the type given; displacements are multiples of its extent. Block i of a
 * regular operation starts i * count * extent behind the buffer. Ranks are positions in the
 * geometry; roots are endpoints. Buffers, arrays and types live until cb_done.
 */
typedef struct {
    pami_endpoint_t root;
    char *buf; /* typecount instances; read at the root, written elsewhere */
    pami_type_t type;
    size_t typecount;
} pami_broadcast_t;

typedef struct {
    char *sndbuf;
    pami_type_t stype; /* its kind selects the arithmetic */
    size_t stypecount;
    char *rcvbuf;
    pami_type_t rtype;
    size_t rtypecount;
    pami_data_function op; /* predefined, or the caller's: target := source o target */
    void *data_cookie;
    int commutative; /* 0: combine in rank order */
} pami_allreduce_t;

typedef struct {
    pami_endpoint_t root;
    char *sndbuf;
    pami_type_t stype;
    size_t stypecount;
    char *rcvbuf; /* looked at by the root only */
    pami_type_t rtype;
    size_t rtypecount;
    pami_data_function op;
    void *data_cookie;
    int commutative;
} pami_reduce_t;

typedef struct {
    char *sndbuf;
    pami_type_t stype;
    size_t stypecount;
    char *rcvbuf;
    pami_type_t rtype;
    size_t rtypecount;
    pami_data_function op;
    void *data_cookie;
    int exclusive; /* non-zero: without the own contribution; rank 0 receives nothing */
} pami_scan_t;

typedef struct {
    char *sndbuf;
    pami_type_t stype;
    size_t stypecount; /* the sum of rcounts */
    char *rcvbuf;
    pami_type_t rtype;
    size_t *rcounts; /* one per member, in instances of stype */
    pami_data_function op;
    void *data_cookie;
    int commutative;
} pami_reduce_scatter_t;

typedef struct {
    char *sndbuf; /* one block */
    pami_type_t stype;
    size_t stypecount;
    char *rcvbuf; /* one block per member */
    pami_type_t rtype;
    size_t rtypecount; /* of one block */
} pami_allgather_t;

typedef struct {
    char *sndbuf; /* one block per member */
    pami_type_t stype;
    size_t stypecount; /* of one block */
    char *rcvbuf;      /* one block per member */
    pami_type_t rtype;
    size_t rtypecount;
} pami_alltoall_t;

typedef struct {
    pami_endpoint_t root;
    char *sndbuf;
    pami_type_t stype;
    size_t stypecount;
    char *rcvbuf; /* one block per member; looked at by the root only */
    pami_type_t rtype;
    size_t rtypecount;
} pami_gather_t;

typedef struct {
    pami_endpoint_t root;
    char *sndbuf; /* one block per member; looked at by the root only */
    pami_type_t stype;
    size_t stypecount;
    char *rcvbuf;
    pami_type_t rtype;
    size_t rtypecount;
} pami_scatter_t;

/* Vector forms: one count and one displacement per member. */
typedef struct {
    char *sndbuf;
    pami_type_t stype;
    size_t stypecount;
    char *rcvbuf;
    pami_type_t rtype;
    size_t *rtypecounts;
    size_t *rdispls;
} pami_allgatherv_t;

typedef struct {
    char *sndbuf;
    pami_type_t stype;
    int stypecount;
    char *rcvbuf;
    pami_type_t rtype;
    int *rtypecounts;
    int *rdispls;
} pami_allgatherv_int_t;

typedef struct {
    pami_endpoint_t root;
    char *sndbuf;
    pami_type_t stype;
    size_t stypecount;
    char *rcvbuf;
    pami_type_t rtype;
    size_t *rtypecounts;
    size_t *rdispls;
} pami_gatherv_t;

typedef struct {
    pami_endpoint_t root;
    char *sndbuf;
    pami_type_t stype;
    int stypecount;
    char *rcvbuf;
    pami_type_t rtype;
    int *rtypecounts;
    int *rdispls;
} pami_gatherv_int_t;

typedef struct {
    pami_endpoint_t root;
    char *sndbuf;
    pami_type_t stype;
    size_t *stypecounts;
    size_t *sdispls;
    char *rcvbuf;
    pami_type_t rtype;
    size_t rtypecount;
} pami_scatterv_t;

typedef struct {
    pami_endpoint_t root;
    char *sndbuf;
    pami_type_t stype;
    int *stypecounts;
    int *sdispls;
    char *rcvbuf;
    pami_type_t rtype;
    int rtypecount;
} pami_scatterv_int_t;

typedef struct {
    char *sndbuf;
    pami_type_t stype;
    size_t *stypecounts;
    size_t *sdispls;
    char *rcvbuf;
    pami_type_t rtype;
    size_t *rtypecounts;
    size_t *rdispls;
} pami_alltoallv_t;

typedef struct {
    char *sndbuf;
    pami_type_t stype;
    int *stypecounts;
    int *sdispls;
    char *rcvbuf;
    pami_type_t rtype;
    int *rtypecounts;
    int *rdispls;
} pami_alltoallv_int_t;

/* Without members: size 0 in C, 1 in C++. */
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wc++-compat"
#pragma clang diagnostic ignored "-Wextern-c-compat"
#endif
__extension__ typedef struct {
} pami_barrier_t;
#ifdef __clang__
#pragma clang diagnostic pop
#endif

/* Active-message collectives: only the initiator calls; the other members' dispatch functions say
 * where data lies. One header of headerlen bytes, or one per member. */
typedef struct {
    size_t dispatch; /* id set by PAMI_AMCollective_dispatch_set */
    void *user_header;
    size_t headerlen;
    void *sndbuf;
    pami_type_t stype;
    size_t stypecount;
} pami_ambroadcast_t;

typedef struct {
    size_t dispatch;
    void *headers; /* header i at i * headerlen */
    size_t headerlen;
    void *sndbuf; /* block i at i * stypecount * extent */
    pami_type_t stype;
    size_t stypecount;
} pami_amscatter_t;

typedef struct {
    size_t dispatch;
    void *headers;
    size_t headerlen;
    void *rcvbuf; /* block i at i * rtypecount * extent */
    pami_type_t rtype;
    size_t rtypecount;
} pami_amgather_t;

typedef struct {
    size_t dispatch;
    void *user_header;
    size_t headerlen;
    void *rcvbuf;
    pami_type_t rtype;
    size_t rtypecount;
    void *data_cookie;
    int commutative;
} pami_amreduce_t;

typedef union {
    pami_allreduce_t xfer_allreduce;
    pami_broadcast_t xfer_broadcast;
    pami_reduce_t xfer_reduce;
    pami_allgather_t xfer_allgather;
    pami_allgatherv_t xfer_allgatherv;
    pami_allgatherv_int_t xfer_allgatherv_int;
    pami_scatter_t xfer_scatter;
    pami_scatterv_t xfer_scatterv;
    pami_scatterv_int_t xfer_scatterv_int;
    pami_gather_t xfer_gather;
    pami_gatherv_t xfer_gatherv;
    pami_gatherv_int_t xfer_gatherv_int;
    pami_alltoall_t xfer_alltoall;
    pami_alltoallv_t xfer_alltoallv;
    pami_alltoallv_int_t xfer_alltoallv_int;
    pami_ambroadcast_t xfer_ambroadcast;
    pami_amscatter_t xfer_amscatter;
    pami_amgather_t xfer_amgather;
    pami_amreduce_t xfer_amreduce;
    pami_scan_t xfer_scan;
    pami_barrier_t xfer_barrier;
    pami_reduce_scatter_t xfer_reduce_scatter;
} pami_collective_t;

/* One call of PAMI_Collective; the algorithm implies which member of cmd is used. */
typedef struct pami_xfer_t {
    pami_event_function cb_done;
    void *cookie;
    pami_algorithm_t algorithm;
    pami_collective_hint_t options;
    pami_collective_t cmd;
} pami_xfer_t;

/*
 * Start a collective. Every member calls on its own context, in the same order per geometry. When
 * cb_done runs, this member's result is in place and its buffers are free; only a barrier says
 * anything about the others. The active-message kinds are called by the initiator alone, which
 * learns of their end by cb_done (ambroadcast) or by local_fn of its own dispatch (the others),
 * which the next advance runs, like everybody's.
 * PAMI_INVAL: context, algorithm or arguments, among them an active-message id that is not set on
 * this context. Owns the context.
 */
pami_result_t PAMI_Collective(pami_context_t context, pami_xfer_t *cmd);

/*
 * Register a function for active-message collectives with this id on the geometry the algorithm
 * belongs to, for this context and all algorithms. Any id; setting it again replaces it.
 * PAMI_INVAL: not an active-message algorithm, or no function. Owns the context.
 */
pami_result_t PAMI_AMCollective_dispatch_set(pami_context_t context, pami_algorithm_t algorithm,
                                             size_t dispatch, pami_dispatch_callback_function fn,
                                             void *cookie, pami_collective_hint_t options);

/* ------------------------------------------------------------- time, error texts, extensions -- */

/* Seconds since some instant in the past; never goes back. */
double PAMI_Wtime(pami_client_t client);

/* The same in ticks; PAMI_CLIENT_WTIMEBASE_MHZ of them are one microsecond. */
unsigned long long PAMI_Wtimebase(pami_client_t client);

/*
 * Copy the text of the calling thread's latest PAMI failure into string[0..length-1], cut if need
 * be, with a final NUL. Returns the number of characters before the NUL, 0 without a failure. In a
 * callback that is told of a failure it is the text of that one.
 */
size_t PAMI_Error_text(char *string, size_t length);

/*
 * *extension = a handle of the extension with exactly this name; NULL on failure. `client` may be
 * NULL for extensions of the whole process. PAMI_UNIMPL: unknown; PAMI_ERROR: known, not usable
 * here. One thread at a time.
 */
pami_result_t PAMI_Extension_open(pami_client_t client, const char *name,
                                  pami_extension_t *extension);

/* Close a handle; symbols stay usable. One thread at a time. */
pami_result_t PAMI_Extension_close(pami_extension_t extension);

/* The function or datum of this name, in upper or lower case; NULL if there is none. */
void *PAMI_Extension_symbol(pami_extension_t extension, const char *name);

#pragma GCC diagnostic pop
#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#include "pami_sys.h"

#endif /* __pami_h__ */
