/*
 * pamix.h - what this library offers beyond the PAMI interface. Every name here starts with
 * PAMIX_ or pamix_; programs that use only pami.h stay portable to other PAMI libraries.
 *
 *   ending a job              all tasks, because of one                      PAMIX_Client_abort
 *   waiting                   sleep until a context has something to do      PAMIX_Context_wait
 *   asynchronous progress     threads that advance contexts                  PAMIX_Context_async_*
 *   shared heap               memory that the tasks of a node share          PAMIX_Mem_*
 *   composed collectives      chains and pipelines of collectives            PAMIX_Machine_*, ...
 *   communication servers     threads and processes that inject transfers    PAMIX_Servers_*
 *   simulation                many tasks in one process, in virtual time     PAMIX_Sim_*
 *
 * The conventions of pami.h hold here as well, and outputs are written on success only. A comment
 * ends with the results that the call can have besides PAMI_SUCCESS; PAMI_INVAL without a remark
 * means that an argument is wrong.
 */
#ifndef __pamix_h__
#define __pamix_h__

#include <pami/pami.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* ----------------------------------------------------------------------------- ending a job -- */

/*
 * Asks the launcher to end all tasks of the job, as MPI_Abort has to. Returns at once: the launcher
 * soon ends this task too, but where there is none it lives on. Any thread, also from callbacks.
 *   status  of the job, 1..255, as far as the launcher passes it on
 *   why     one line, which is printed; NULL: no reason
 * PAMI_INVAL: also the client of a simulation, which has PAMIX_Sim_kill.
 */
pami_result_t PAMIX_Client_abort(pami_client_t client, int status, const char *why);

/* ---------------------------------------------------------------------------------- waiting -- */

/*
 * Blocks until an advance of the context would find something, or the time is over. Uses no
 * processor time while it sleeps. Does not advance. The caller owns the context. A context of a
 * simulation does not block: no time would pass.
 *   maximum_us  longest time to block, microseconds
 * PAMI_SUCCESS: an advance may find something. PAMI_EAGAIN: the time is over, or another thread
 * ends the process or destroys the context. PAMI_INVAL.
 */
pami_result_t PAMIX_Context_wait(pami_context_t context, size_t maximum_us);

/* -------------------------------------------------------------------- asynchronous progress -- */

/*
 * Progress while the program does something else: threads of the library advance contexts for it.
 *
 * The threads of a client are started when the first of its contexts is enabled, and end before
 * the first is destroyed. Context number i belongs to thread i modulo their number, for good: all
 * callbacks that do not run inside an advance of the program's run on that thread. A thread sleeps
 * while there is nothing to do and is woken by messages and posts.
 *
 * A context stays single-threaded. The thread takes the context lock by trylock and gives it up
 * after the pass that it is in when somebody wants it. So a program may
 *   - post only, and send from callbacks: no lock is needed;
 *   - lock the context around everything it does with it. While it holds the lock nothing
 *     advances but what it advances itself;
 *   - advance or wait without the lock; but nothing else: sends and other calls on an enabled
 *     context need the lock unless they are made from callbacks.
 * Threads of the library do not keep the process alive: it ends with the last of the program's own,
 * whatever callbacks would still have to do.
 *
 * EXT_async_progress (PAMI_Extension_open) offers the same by the names other libraries use.
 */
typedef struct {
    size_t threads;   /* 0: PAMI_ASYNC_THREADS, by default as many as there are cores to spare */
    const char *cpus; /* as PAMI_ASYNC_CPUS: thread t runs on the t-th of the list; NULL: that */
} pamix_context_async_t;

/*
 * From now on these contexts of one client are advanced; those that were already go on. Any thread.
 *   how  read during the call; only the first call for a client can decide. NULL: the options.
 *        Threads that may not run on a processor of the list run where the system puts them
 * PAMI_INVAL: not a context, or of a simulation; cpus is no list. PAMI_ENOMEM. PAMI_ERROR: a
 * thread could not be started. None of the contexts is enabled then that was not before.
 */
pami_result_t PAMIX_Context_async_enable(pami_context_t contexts[], size_t count,
                                         const pamix_context_async_t *how);

/*
 * From now on these contexts are not advanced any more. When the call returns the thread has left
 * them. When it is made in a callback, the thread leaves what that belongs to once the callback has
 * returned; so do others that are in callbacks which wait for it by such a call of their own. Any
 * thread. PAMI_INVAL: all stay as they were.
 */
pami_result_t PAMIX_Context_async_disable(pami_context_t contexts[], size_t count);

/*
 * From now on the client's threads, those that carry servers too, run elsewhere.
 *   cpus  as in pamix_context_async_t; "any": wherever the calling thread may run;
 *         "auto": there, but not where the program runs
 * Any thread. PAMI_INVAL: no such list, or a thread may not run there, and all stay where they are;
 * PAMI_EAGAIN: there are none yet.
 */
pami_result_t PAMIX_Client_async_place(pami_client_t client, const char *cpus);

typedef struct {
    int enabled;
    int thread;       /* number of its thread among the client's, -1: was never enabled */
    int cpu;          /* the processor that thread is bound to, -1: the system decides */
    unsigned threads; /* threads of the client */
    uint64_t events;  /* of this context that its thread has handled */
} pamix_context_async_status_t;

/* Fills *status, for an enabled context or not. Any thread. PAMI_INVAL. */
pami_result_t PAMIX_Context_async_query(pami_context_t context,
                                        pamix_context_async_status_t *status);

/* ----------------------------------------------------------------------------- shared heap -- */

/*
 * Memory that the tasks of a node share. Each task allocates in a heap of its own, and the others
 * of its node can reach all of it with plain loads and stores, after casting: turning an address of
 * the owner into one of their own. PAMI calls that are given such addresses find out by themselves
 * and go straight to the memory; so do large messages from there, and long collectives of buffers
 * there, with one copy and without the kernel.
 *
 * Heaps are per client, have no name in any file system, and are gone with the processes. Pages
 * appear when they are touched and are given back some time after they were freed. PAMI_HEAP_BYTES
 * limits the heap of each task; by default main memory does. Tasks of different nodes cannot cast
 * to each other's heaps, also where the launcher only pretends the nodes; PAMI calls work on heap
 * memory all the same.
 *
 * A heap that has been used, or a neighbour's, is mapped as a whole, and collectives use heaps as
 * well: mlockall(MCL_CURRENT) makes all of its pages. Programs lock memory before they create their
 * first client, or with MCL_ONFAULT, or set PAMI_HEAP_BYTES.
 */

/* Where memory should lie; or the number of a NUMA node as the operating system counts. */
#define PAMIX_MEM_LOCAL (-1) /* on the node of the processor that the call runs on */
#define PAMIX_MEM_ANY (-2)   /* each page where it is touched first, by whomever */

#define PAMIX_MEM_ALIGNMENT_MOST 2097152u /* bytes */

/*
 * Allocates memory with undefined content in the caller's heap. Any thread.
 *   bytes      not 0; there is no limit but the heap's
 *   alignment  bytes, a power of two up to PAMIX_MEM_ALIGNMENT_MOST; 0: as malloc. The same holds
 *              for the addresses that neighbours cast to.
 *   node       a NUMA node or PAMIX_MEM_*. A wish: where the node is full, another one is used.
 *              Less than a page lies with its neighbours unless a node is named. Without effect on
 *              machines with one node.
 *   address    written on success only; freed by PAMIX_Mem_free, at the latest with the client
 * PAMI_INVAL; PAMI_ENOMEM: no room, the text says where the limit comes from.
 */
pami_result_t PAMIX_Mem_alloc(pami_client_t client, size_t bytes, size_t alignment, int node,
                              void **address);

/*
 * Frees a block of the caller's heap. Any thread of the task that allocated it. Neighbours must not
 * use it any more: nothing stops them, and they would find other data there. NULL: nothing to do.
 * PAMI_INVAL: not the start of a block that is allocated; nothing was done.
 */
pami_result_t PAMIX_Mem_free(pami_client_t client, void *address);

/* Where a task's heap is, for casting; see PAMIX_Mem_view. To be used by PAMIX_Mem_cast only. */
typedef struct {
    uint64_t remote; /* in the task that owns it */
    char *local;     /* here */
    size_t bytes;
} pamix_heap_view_t;

/*
 * Fills *view with where the heap of `task` (which may be the caller itself) is mapped here, and
 * maps it if it was not. A heap neither moves nor grows: once for each task is enough, for instance
 * right after PAMI_Client_create. Valid until the client is destroyed, even when the task has died.
 * Any thread.
 * PAMI_ERROR: the task shares no memory with this one; PAMI_INVAL.
 */
pami_result_t PAMIX_Mem_view(pami_client_t client, pami_task_t task, pamix_heap_view_t *view);

/*
 * The address here of `bytes` bytes at `remote` in the heap of `task`, or NULL when that is not
 * memory of its heap or cannot be reached from here. Any thread. Programs that cast often keep
 * views and use PAMIX_Mem_cast.
 */
void *PAMIX_Mem_local_address(pami_client_t client, pami_task_t task, const void *remote,
                              size_t bytes);

/* The same with a view: a subtraction and two compares. */
static __inline__ void *PAMIX_Mem_cast(const pamix_heap_view_t *view, const void *remote,
                                       size_t bytes)
{
    uint64_t offset = (uintptr_t)remote - view->remote;

    if (offset >= view->bytes || bytes > view->bytes - offset)
        return NULL;
    return view->local + offset;
}

/*
 * Access to memory that has been cast, or is one's own. Nothing is left to be waited for when it
 * returns. Words are aligned to their size. Stores release and loads acquire: what was written
 * before the store of a flag is seen after a load of the flag. A store may still be on its way
 * while later loads are made: who stores one word and then looks at another one that somebody else
 * stores, as each of two tasks does that want to find out who came first, needs a fence in between
 * (atomic_thread_fence, sequentially consistent). The operations that read and write are atomic
 * and totally ordered, among themselves, with PAMI_Rmw from anywhere, and with sequentially
 * consistent atomics of the program on the same words.
 */
static __inline__ void PAMIX_Mem_put8(void *cast, uint64_t value)
{
    __atomic_store_n((uint64_t *)cast, value, __ATOMIC_RELEASE);
}

static __inline__ uint64_t PAMIX_Mem_get8(const void *cast)
{
    return __atomic_load_n((const uint64_t *)cast, __ATOMIC_ACQUIRE);
}

static __inline__ void PAMIX_Mem_put4(void *cast, uint32_t value)
{
    __atomic_store_n((uint32_t *)cast, value, __ATOMIC_RELEASE);
}

static __inline__ uint32_t PAMIX_Mem_get4(const void *cast)
{
    return __atomic_load_n((const uint32_t *)cast, __ATOMIC_ACQUIRE);
}

#if defined(__SANITIZE_THREAD__) && defined(__GNUC__) && __GNUC__ >= 11
#pragma GCC diagnostic push /* the sanitizer does not see fences, and says so */
#pragma GCC diagnostic ignored "-Wtsan"
#endif

/* Any number of bytes, not atomic; ordered as if a release stood before and behind a put, and an
 * acquire before and behind a get. Source and target do not overlap. */
static __inline__ void PAMIX_Mem_put(void *cast, const void *source, size_t bytes)
{
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __builtin_memcpy(cast, source, bytes);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static __inline__ void PAMIX_Mem_get(void *target, const void *cast, size_t bytes)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    __builtin_memcpy(target, cast, bytes);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

#if defined(__SANITIZE_THREAD__) && defined(__GNUC__) && __GNUC__ >= 11
#pragma GCC diagnostic pop
#endif

/* Adds; returns what was there before. */
static __inline__ uint64_t PAMIX_Mem_fetch_add8(void *cast, uint64_t value)
{
    return __atomic_fetch_add((uint64_t *)cast, value, __ATOMIC_SEQ_CST);
}

static __inline__ uint32_t PAMIX_Mem_fetch_add4(void *cast, uint32_t value)
{
    return __atomic_fetch_add((uint32_t *)cast, value, __ATOMIC_SEQ_CST);
}

/* Stores `value` if `test` is there; returns what was there before. */
static __inline__ uint64_t PAMIX_Mem_compare_swap8(void *cast, uint64_t test, uint64_t value)
{
    __atomic_compare_exchange_n((uint64_t *)cast, &test, value, 0, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    return test;
}

static __inline__ uint32_t PAMIX_Mem_compare_swap4(void *cast, uint32_t test, uint32_t value)
{
    __atomic_compare_exchange_n((uint32_t *)cast, &test, value, 0, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    return test;
}

/* ---------------------------------------------------------------------- composed collectives -- */

/*
 * Machines: collectives to be built from collectives. A machine is one member's part of a
 * collective, as a state machine: reset binds it to arguments and communicates nothing, start
 * returns in bounded time whatever other members do, and a function is called when this member's
 * part is complete. Chains and pipelines of machines are machines again.
 *
 *     PAMIX_Machine_create(context, reduce, &link[0]);
 *     PAMIX_Machine_create(context, broadcast, &link[1]);
 *     PAMIX_Machine_reset(link[0], &reduce_arguments);
 *     PAMIX_Machine_reset(link[1], &broadcast_arguments);
 *     PAMIX_Chain_create(context, link, 2, &allreduce);
 *     PAMIX_Machine_start(allreduce, on_done, cookie);
 *
 * Machines of one composition may belong to different geometries, so hierarchies are built this
 * way: reduce among the members of a node, allreduce among one of each, broadcast in the node. A
 * member leaves out machines of geometries that it is not a member of; otherwise all members build
 * the same, and start their machines, and call PAMI_Collective, in the same order for each
 * geometry. A machine may be started again when its function has run, with the same arguments or
 * after another reset.
 *
 * What is started counts as one collective in each of its geometries, however many links it has
 * there, and takes its place among them when it is started. Members that build something else, or
 * start it in another order, end with an error, and agree again about what comes next, as long as
 * it has at most 256 runs in a geometry; one by an algorithm that is itself a pipeline of others
 * (PipelinedReduceBroadcast) counts as 128.
 *
 * Machines run in shared memory where the algorithm does, and Auto takes it where PAMI_Collective
 * would; hierarchical and aggregated algorithms are for PAMI_Collective only. Runs in the shared
 * memory of a geometry follow one another, links in their order, segment after segment. So what is
 * started later on that geometry, a plain collective too, waits for all runs of a composition
 * there, and for all that these wait for in other geometries: do not start a composition and then
 * do something by collectives of one of its geometries that another member needs to start its own
 * part. Stages of a pipeline whose links are in one geometry take turns there; a second geometry of
 * the same members lets reduces of the next segment go on beside broadcasts of this one.
 *
 * A geometry that is destroyed while a machine runs on it goes when that is complete; the machine
 * cannot be started afterwards, but must be destroyed. All calls: own the context, which must
 * outlive the machine. Wrong arguments are PAMI_INVAL with a text.
 */
typedef void *pamix_machine_t;

/*
 * A machine for an algorithm of a geometry that the context is a member of. It has no arguments
 * yet. PAMI_INVAL; PAMI_ENOMEM.
 */
pami_result_t PAMIX_Machine_create(pami_context_t context, pami_algorithm_t algorithm,
                                   pamix_machine_t *machine);

/*
 * Bind it to arguments, as in PAMI_Collective: *cmd is read during the call, what it points to
 * lives until the machine is complete. Also for links and stages of compositions, while they do not
 * run. The first reset chooses the algorithm. PAMI_EAGAIN: it runs, or has failed and still has
 * something under way: advance and try again.
 */
pami_result_t PAMIX_Machine_reset(pamix_machine_t machine, const pami_collective_t *cmd);

/*
 * Start it; fn(context, cookie, result) runs from advance when it is complete. PAMI_INVAL: it, or a
 * link or stage, has no arguments, its geometry has been destroyed, or it is part of a composition;
 * PAMI_EAGAIN: it runs, or has failed and still has something under way; PAMI_ENOMEM.
 */
pami_result_t PAMIX_Machine_start(pamix_machine_t machine, pami_event_function fn, void *cookie);

/* Destroy it, with all that a composition has; *machine becomes NULL. PAMI_EAGAIN: it runs. */
pami_result_t PAMIX_Machine_destroy(pamix_machine_t *machine);

/*
 * A machine that runs `count` others one after the other; they become its own: they can be reset
 * but not be started or destroyed by themselves any more. When one fails the rest is given up on
 * all members.
 */
pami_result_t PAMIX_Chain_create(pami_context_t context, pamix_machine_t links[], size_t count,
                                 pamix_machine_t *chain);

/* Resets a stage to segment `index`; anything but PAMI_SUCCESS ends the pipeline with it. Called
 * more than once for a segment. */
typedef pami_result_t (*pamix_segment_function)(pamix_machine_t stage, size_t index, void *cookie);

/*
 * A machine that runs segments 0, 1, ... of a long operation, segment i on stages[i % count]: so at
 * most `count` are in flight. All stages are built alike; they become its own. The number of
 * segments is set by PAMIX_Pipeline_reset, which binds the stages to the first ones; it is the same
 * on all members, and stays while a composition around the pipeline runs.
 */
pami_result_t PAMIX_Pipeline_create(pami_context_t context, pamix_machine_t stages[], size_t count,
                                    pamix_segment_function segment, void *cookie,
                                    pamix_machine_t *pipeline);
pami_result_t PAMIX_Pipeline_reset(pamix_machine_t pipeline, size_t segments);

/* ------------------------------------------------------------------- communication servers -- */

/*
 * Servers carry out puts, gets and sends that the program's contexts hand to them, so that one
 * thread's stream of operations is injected by several. doc/servers.md says when that pays.
 *
 * The program creates contexts for the servers along with its own, registers on them the dispatch
 * ids that are to be sent through them, and hands them over. From then on they are the library's:
 * nobody sends to them, advances them or calls anything with them until PAMIX_Servers_destroy.
 * Destroy servers before the contexts.
 *
 *     PAMI_Context_createv(client, NULL, 0, context, 3);
 *     PAMIX_Servers_create(&context[1], 2, NULL, &servers);
 *     PAMIX_Servers_start(servers);
 *     PAMIX_Servers_put(servers, context[0], &put, 0);
 *
 * The calls take the structures of PAMI_Put, PAMI_Get, PAMI_Send and PAMI_Send_immediate, read them
 * during the call, and keep their rules: header, data and memory stay the user's until the callback
 * that says so, nothing is copied but what the PAMI call would copy (the header, and data that
 * nobody waits for). The caller owns `context`; all callbacks run on it, from its advance, each
 * exactly once. Several contexts may be used by several threads at once.
 *
 * What differs from the PAMI calls:
 *   - the endpoint that a message comes from is a server's; its task is this one;
 *   - there is no order among requests, unless they say PAMIX_SERVERS_ORDERED: those from one
 *     context to one endpoint take effect in the order of the calls, as PAMI has it for the kind of
 *     operation. Start makes no promise about what was sent before it; stop does;
 *   - what the PAMI call would refuse may be reported by the callbacks instead;
 *   - PAMI_EAGAIN: no room just now; nothing was done. Advance and try again;
 *   - PAMI_Fence_* on the context knows nothing of servers: use PAMIX_Servers_fence.
 */
typedef void *pamix_servers_t;

/* What may go through servers; bits. */
#define PAMIX_SERVERS_PUT 1u
#define PAMIX_SERVERS_GET 2u
#define PAMIX_SERVERS_SEND 4u
#define PAMIX_SERVERS_FETCH 8u
/* PAMIX_SERVERS_FETCH needs no request: the data of large messages that contexts of the program are
 * to fetch, those of collectives too. Not in the policy unless PAMI_SERVERS_FETCH puts it there. */

/* flags of requests */
#define PAMIX_SERVERS_ORDERED 1u

typedef struct {
    size_t queue;     /* requests that may wait for each server, rounded up; 0: 1024 */
    const char *cpus; /* as PAMI_ASYNC_CPUS: where servers run; NULL: that */
} pamix_servers_config_t;

/* Any member may be changed while servers run; each request sees the values of its own time. */
typedef struct {
    unsigned operations;            /* PAMIX_SERVERS_* that are forwarded */
    size_t bytes_least, bytes_most; /* and only these sizes; the header counts */
    unsigned batch;                 /* requests in a row for one server, at least 1 */
    unsigned few;                   /* a context with fewer requests outstanding carries the next
                                       one by itself; 0: never */
    unsigned in_flight;             /* operations of one server at a time, but for immediate
                                       messages and those of 64 KiB and more; 0: any number */
    int active;                     /* nonzero: the context takes turns as if it were a server, and
                                       carries what queues have no room for */
    int learn;                      /* nonzero: forward those kinds and sizes for which the program
                                       turns out to be faster that way, with the context taking
                                       turns or not, whatever `active` says. Not immediate messages,
                                       nor up to 512 bytes of the shared heap: the context carries
                                       these faster than it could hand them over */
    size_t split;                   /* unordered puts and gets go in pieces of at least so many
                                       bytes to servers, and to the context if that takes turns,
                                       one to each at most; 0: never */
    unsigned servers;               /* so many of them, the first ones, get requests that are not
                                       ordered; 0: all */
} pamix_servers_policy_t;

typedef struct {
    unsigned servers;
    int running;
    uint64_t puts, gets, sends; /* begun by servers */
    uint64_t bytes;             /* of those */
    uint64_t failed;            /* of those */
    /* Times that a server's queue was no longer empty, or its turn had been long enough. */
    uint64_t wakes;
    unsigned in_flight_most; /* at one server, if that is a thread */
    unsigned lost;           /* servers that have died */
    /* Requests of all contexts: to servers; carried there, without immediate messages and puts and
       gets of up to 512 bytes in the shared heap that were not asked about. */
    uint64_t forwarded, direct;
    uint64_t refused; /* PAMI_EAGAIN */
} pamix_servers_status_t;

#define PAMIX_SERVERS_ALL (-1)

/*
 * Makes a server of each context; they do not run yet. The policy is: all requests, of any size, in
 * batches of 4, 256 in flight, pieces of 256 KiB and more, passive contexts, no learning.
 *   config  read during the call; NULL: the defaults
 * PAMI_Resume is for one context: a task on another node that was taken for dead is reached by
 * servers again when it has been called for their contexts too, while they are stopped.
 * PAMI_INVAL; PAMI_ENOMEM.
 */
pami_result_t PAMIX_Servers_create(pami_context_t contexts[], size_t count,
                                   const pamix_servers_config_t *config, pamix_servers_t *servers);

/*
 * The same, but the servers are processes that `pamirun --servers K` has started: those of this
 * task's domain, which they serve along with the other tasks of it (PAMI_SERVERS_DOMAINS). Only the
 * first client of a program has them. Data of requests should be in the shared heap
 * (PAMIX_Mem_alloc): what is not is sent along when it is short, and else carried by the context.
 *
 * What differs from servers that are threads:
 *   - the endpoint that a message comes from belongs to no task of the job;
 *   - a server that dies is done without. Its gets begin again, its puts and sends end with
 *     PAMI_ERROR, though they may have taken place, or still will. The next fence behind these has
 *     PAMI_ERROR too, or the stop if there has been none;
 *   - config->cpus has no meaning: pamirun --bind places the processes;
 *   - they do not resume a task on another node that they have taken for dead;
 *   - a stop also needs advances of the other contexts that have requests there;
 *   - PAMIX_Servers_destroy touches the contexts that have used them: do not advance them then;
 *   - contexts may be destroyed and created again meanwhile, but for one that stops them. What was
 *     under way may take place or not, and has no callback;
 *   - nothing waits for tasks that destroy and create contexts in step (PAMI_Context_destroyv):
 *     what goes to a task that has not created its next ones goes to those it has, or fails. Hear
 *     from a context before it is sent anything through servers.
 * A context uses those of one attach. PAMI_INVAL; PAMI_ENOMEM; PAMI_ERROR: there are none.
 */
pami_result_t PAMIX_Servers_attach(pami_client_t client, const pamix_servers_config_t *config,
                                   pamix_servers_t *servers);

/*
 * Gives the contexts back, if they have not been destroyed, and sets *servers to NULL. No other
 * thread makes calls with the servers any more; it may still advance its contexts. PAMI_EAGAIN:
 * they are not stopped, or callbacks of requests have not run.
 */
pami_result_t PAMIX_Servers_destroy(pamix_servers_t *servers);

/*
 * From now on requests are forwarded, by threads of asynchronous progress: those that the client
 * has, and if there are none yet, one for each server. One thread starts and stops. PAMI_EAGAIN: a
 * stop is under way; else as PAMIX_Context_async_enable.
 */
pami_result_t PAMIX_Servers_start(pamix_servers_t servers);

/*
 * From now on nothing is forwarded: contexts carry requests by themselves, ordered ones get
 * PAMI_EAGAIN until the servers have stopped. fn runs when all that was forwarded is complete at
 * its destination, and the threads have left, also where the program had enabled asynchronous
 * progress of the servers' contexts before. Any other thread may go on making requests.
 * PAMI_EAGAIN: they do not run; PAMI_ENOMEM; PAMI_INVAL.
 */
pami_result_t PAMIX_Servers_stop(pamix_servers_t servers, pami_context_t context,
                                 pami_event_function fn, void *cookie);

/* Requests, see above. PAMI_INVAL; PAMI_ENOMEM; PAMI_EAGAIN. */
pami_result_t PAMIX_Servers_put(pamix_servers_t servers, pami_context_t context,
                                const pami_put_simple_t *parameters, unsigned flags);
pami_result_t PAMIX_Servers_get(pamix_servers_t servers, pami_context_t context,
                                const pami_get_simple_t *parameters, unsigned flags);
pami_result_t PAMIX_Servers_send(pamix_servers_t servers, pami_context_t context,
                                 const pami_send_t *parameters, unsigned flags);
pami_result_t PAMIX_Servers_send_immediate(pamix_servers_t servers, pami_context_t context,
                                           const pami_send_immediate_t *parameters, unsigned flags);

/*
 * fn runs from advance of the context when everything that it has started before, by itself or
 * through servers, is complete at its destination. It gets PAMI_ERROR where something is lost, and
 * where a request has failed that has no callbacks. PAMI_EAGAIN: servers are being stopped;
 * PAMI_INVAL; PAMI_ENOMEM.
 */
pami_result_t PAMIX_Servers_fence(pamix_servers_t servers, pami_context_t context,
                                  pami_event_function fn, void *cookie);

/* Any thread, any time. policy NULL: that of create. PAMI_INVAL. */
pami_result_t PAMIX_Servers_set_policy(pamix_servers_t servers,
                                       const pamix_servers_policy_t *policy);
pami_result_t PAMIX_Servers_get_policy(pamix_servers_t servers, pamix_servers_policy_t *policy);

/* Counters of one server, or of PAMIX_SERVERS_ALL. Any thread; a snapshot only. PAMI_INVAL. */
pami_result_t PAMIX_Servers_query(pamix_servers_t servers, int server,
                                  pamix_servers_status_t *status);

/* ------------------------------------------------------------------------------- simulation -- */

/*
 * Many tasks in the calling process, joined by a simulated network with a time of its own.
 *
 * PAMIX_Sim_create makes n ordinary clients, one per task: queries answer per task, contexts come
 * from PAMI_Context_createv and everything works as it does between processes, but that nothing
 * arrives until PAMIX_Sim_run lets time pass. One thread creates, runs and destroys a simulation;
 * several simulations may run in several threads. PAMI_Wtime of such a client is the task's
 * virtual time. doc/sim.md describes the model and how to write tests with it.
 *
 * The same configuration, seed and program give the same run, bit for bit.
 */

/* How close two tasks are; rows of pamix_sim_config_t.level. */
typedef enum {
    PAMIX_SIM_CORE = 0,   /* the same core, and a task to itself */
    PAMIX_SIM_NODE = 1,   /* the same node: they share memory */
    PAMIX_SIM_SWITCH = 2, /* the network, below one switch */
    PAMIX_SIM_SYSTEM = 3, /* the network, anywhere else */
    PAMIX_SIM_LEVELS = 4
} pamix_sim_level_name_t;

/* What a packet costs between tasks of one level (the parameters of LogGP); times in seconds. */
typedef struct {
    double latency;      /* L: from the sender's port to the receiver's */
    double overhead;     /* o: processor time per packet, at the sender and at the receiver */
    double gap;          /* g: a port takes this long per packet at least */
    double gap_per_byte; /* G: and this long per byte of header and body */
    int single_copy;     /* nonzero: the device reads and writes the memory of such tasks */
} pamix_sim_level_t;

/* How single copies complete. */
typedef enum {
    PAMIX_SIM_COPY_LATER = 0, /* after the time that the network needs */
    PAMIX_SIM_COPY_NOW = 1,   /* inside the call, which may move less than was asked for */
    PAMIX_SIM_COPY_MIXED = 2  /* one or the other, by seed */
} pamix_sim_copy_t;

/*
 * Probabilities are in 0..1. Times are virtual seconds, at most 1000. What is drawn "by seed" is
 * uniform. Zero switches any kind of trouble off. Fill the structure with PAMIX_Sim_default and
 * change what is to be different.
 */
typedef struct {
    size_t size; /* of this structure, as PAMIX_Sim_default has set it */
    uint64_t seed;
    uint32_t contexts; /* what PAMI_CLIENT_NUM_CONTEXTS is, at most 64 */

    /* The machine: consecutive tasks share cores, nodes and switches. */
    uint32_t tasks_per_core;
    uint32_t tasks_per_node; /* a multiple of tasks_per_core */
    uint32_t nodes_per_switch;
    pamix_sim_level_t level[PAMIX_SIM_LEVELS];
    int node_ports;        /* nonzero: the contexts of a node share one port to the network */
    uint32_t packet_bytes; /* largest packet body, 128..65528 */
    uint32_t queue;        /* packets that may be on their way to one context; 0: no limit */

    /* Delays: the order within a pair of endpoints always stays. */
    double jitter;        /* each packet takes up to this much longer */
    double reorder;       /* probability that a packet is held up, ... */
    double reorder_delay; /* ... by up to this much */
    double slow;          /* probability that a task is a slow one, which ... */
    double slow_delay;    /* ... after each of its turns pauses for up to this long */

    /* Refusals. */
    double refuse;       /* probability that a port refuses although it has room, each time */
    double retry;        /* after such a refusal the context gets its next turn: 0.1 us at least */
    int copy;            /* how single copies complete: pamix_sim_copy_t */
    double copy_failure; /* probability that a single copy fails and packets must do */

    /* Deaths: a dead task gets no turns any more and nothing arrives there; of its packets that
     * are under way those of some pairs arrive and those of others are lost, by seed. */
    size_t dead_count;
    const uint32_t *dead; /* dead_count tasks, read by PAMIX_Sim_create; NULL: chosen by seed */
    double dead_time;     /* when they die, ... */
    double dead_spread;   /* ... each by up to this much later */
    double dead_detect;   /* others know after this time or up to twice as much, each by seed */
} pamix_sim_config_t;

/* What has happened so far in a simulation. */
typedef struct {
    uint64_t events;    /* of the network: arrivals, ends of copies, turns, deaths */
    uint64_t turns;     /* a context was advanced */
    uint64_t packets;   /* delivered */
    uint64_t bytes;     /* in the bodies of those */
    uint64_t copies;    /* single copies that completed, ... */
    uint64_t copied;    /* ... and their bytes */
    uint64_t full;      /* refusals because too many packets were on their way, ... */
    uint64_t refused;   /* ... and because of `refuse` */
    uint64_t reordered; /* packets held up because of `reorder` */
    uint64_t lost;      /* packets to or from tasks and contexts that have gone */
    uint64_t deaths;
} pamix_sim_counters_t;

/* Everything on, no trouble: nodes of 16 tasks, a network of 2 us and 12.5 GB/s, seed 1. NULL is
 * only named by the error text. */
void PAMIX_Sim_default(pamix_sim_config_t *config);

/*
 * Makes a simulation of `ntasks` (1 .. 2^24) tasks; clients[i] becomes the client of task i.
 *   config   read during the call; NULL: the default
 *   clients  room for ntasks handles, written on success only
 * PAMI_INVAL: the text names the member at fault; PAMI_ENOMEM.
 */
pami_result_t PAMIX_Sim_create(const pamix_sim_config_t *config, size_t ntasks,
                               pami_client_t clients[]);

/*
 * Lets time go on: delivers what is due and advances the contexts that have something to do, until
 * one of these:
 *   PAMI_SUCCESS  `done` returned nonzero; or `done` is NULL, nothing can happen any more and no
 *                 context waits for anything
 *   PAMI_EAGAIN   nothing can happen any more; the text says who waits for what. Posted functions
 *                 that for a virtual minute do nothing but ask to be called again count as nothing.
 *   PAMI_OTHER    a limit was reached; call again to go on
 *   PAMI_INVAL    not a client of a simulation, or called from inside a callback
 *
 *   client           any client of the simulation
 *   done             called before the first turn of a context and after each one; should only
 *                    look: what it starts on a context may be noticed late. May be NULL.
 *   maximum_events   as in pamix_sim_counters_t; 0: no limit
 *   maximum_seconds  virtual time from now; 0: no limit
 */
pami_result_t PAMIX_Sim_run(pami_client_t client, int (*done)(void *cookie), void *cookie,
                            size_t maximum_events, double maximum_seconds);

/* Virtual time of the network, seconds since it was created; negative: not of a simulation. */
double PAMIX_Sim_time(pami_client_t client);

/*
 * A hash of all deliveries so far (time, from, to, kind, bytes), in their order: equal for equal
 * runs, and hardly ever equal for others. 0: not a client of a simulation.
 */
uint64_t PAMIX_Sim_digest(pami_client_t client);

/* Fills *counters. PAMI_INVAL. */
pami_result_t PAMIX_Sim_counters(pami_client_t client, pamix_sim_counters_t *counters);

/* The client's task dies now; also from inside a callback. PAMI_INVAL. */
pami_result_t PAMIX_Sim_kill(pami_client_t client);

/*
 * Destroys the clients, with what contexts they still have, and sets each handle to NULL. Entries
 * that are NULL already are skipped; PAMI_Client_destroy, one by one, is as good. What is under
 * way is lost: run until nothing can happen before, if it must not be. Not from inside a callback.
 * PAMI_INVAL: one is not a client of a simulation; nothing was destroyed.
 */
pami_result_t PAMIX_Sim_destroy(pami_client_t clients[], size_t ntasks);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* __pamix_h__ */
