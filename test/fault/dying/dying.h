/*
 * What the files of the program dying share.
 *
 *   dying.c       command line, the table of ways to die, the phases of a task
 *   common.c      failing, time, random numbers, who is dead
 *   traffic.c     operations of every protocol, each with its books
 *   incoming.c    what arrives, checked byte by byte
 *   victim.c      the task that dies
 *   survivor.c    the tasks that must not notice more than they have to
 *   everybody.c   ways in which all tasks end at once
 *
 * One task, the victim, comes to its end in the way that was named; all others are survivors. It
 * is a whole process of one small test, so its state is global.
 */
#ifndef LIBPAMI_FAULT_DYING_H
#define LIBPAMI_FAULT_DYING_H

#include <pami.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "basics.h"

enum {
    TASKS_MAX = 16,
    CONTEXTS = 3, /* the survivors use the first only */
    FAILED = 255, /* exit status of a failed check: above that of any death */

    ID_HELLO = 1,
    ID_DATA,
    ID_DONE,

    FAREWELL_MESSAGES = 600 /* from a victim that leaves in order: more than an inbox holds */
};

/* The protocols of the library, seen from outside. */
enum kind {
    KIND_IMMEDIATE, /* PAMI_Send_immediate, no events */
    KIND_SMALL,     /* one packet */
    KIND_EAGER,     /* one packet in a chunk */
    KIND_STREAM,    /* several packets */
    KIND_PULL,      /* rendezvous, contiguous */
    KIND_PUSH,      /* rendezvous, strided */
    KIND_FILL,      /* typed with a data function of ours */
    KINDS
};

/* Where the victim may die: after a call, or in a function that the library calls. */
enum point {
    POINT_NONE,
    POINT_SENT,
    POINT_ADVANCED,
    POINT_DISPATCH,
    POINT_LOCAL,
    POINT_REMOTE,
    POINT_LANDED,
    POINT_WORK,
    POINT_FILL,
};

enum flags {
    FLOOD = 1,           /* the victim sends and does not advance */
    IMMEDIATES = 2,      /* ... nothing but immediates */
    DEAF = 4,            /* the victim does not advance, the others send what they can */
    QUIET = 8,           /* survivors do not advance until the victim is dead */
    LATE = 16,           /* survivors have nothing to do with the victim until it is dead */
    UNKNOWN = 32,        /* the victim says nothing at all before it dies */
    FAREWELL = 64,       /* all that the victim sent has to arrive */
    RETURNS = 128,       /* the victim does not die: it goes on when it is told to */
    LEAVES = 256,        /* the victim destroys its contexts long before it ends */
    START = 512,         /* it happens during start-up: creating a client may fail */
    EVERYBODY = 1024,    /* all tasks do it */
    ENDLESS = 2048,      /* nobody dies, traffic goes on until somebody ends the job */
    ALONE_IN_CALL = 4096 /* while it is away the survivors' inboxes may be blocked */
};

struct way {
    const char *name;
    int status;       /* of the victim, as pamirun reports it */
    unsigned flags;   /* enum flags */
    enum point point; /* where `act` happens, after a number of times that the seed chooses */
    void (*act)(void);
    void (*victim)(void); /* instead of traffic: what the victim does from start to end */
};

/* Traffic of this task with one other task. */
struct flow {
    size_t issued, local, good, bad; /* operations with events, and what became of them */
    size_t sent;                     /* messages accepted, of all kinds */
    size_t arrived, landed, lost;    /* dispatched; complete; ended with an error */
    size_t done;                     /* DONE messages */
    size_t announced;                /* messages that DONE promised */
    bool refused;                    /* a call has said that the task has gone */
};

struct dying {
    const struct way *way;
    uint64_t seed;
    double factor;    /* TEST_FACTOR */
    unsigned slow_us; /* sleep after each advance */
    bool victim_first;

    pami_client_t client;
    pami_context_t context[CONTEXTS];
    pami_endpoint_t endpoint[TASKS_MAX];
    pami_type_t strided;
    size_t task, tasks, victim;
    pid_t pid[TASKS_MAX]; /* 0: no HELLO yet */
    int pidfd[TASKS_MAX]; /* -1: was gone when we looked */
    struct flow flow[TASKS_MAX];
    bool dead_known;  /* the victim was dead when later operations were issued */
    bool lossy;       /* what the victim has sent us may die with it, on its way */
    bool orderly;     /* anybody may leave: operations with all may fail */
    size_t countdown; /* visits of way->point until way->act */
    sigset_t noticed; /* queued for a victim that leaves, by each survivor */
};

extern struct dying dying;

/* common.c */
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);
void check_result(pami_result_t result, pami_result_t expected, const char *call);
uint64_t random_next(void);
size_t random_below(size_t limit);
bool is_dead(size_t task);
bool is_victim(void);
void point_reached(enum point point);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail("%s:%d: not true: %s", __FILE__, __LINE__, #condition);                           \
    } while (0)
#define CHECK_OK(call) check_result(call, PAMI_SUCCESS, #call)

/* What travels ahead of the data. */
struct mark {
    uint32_t kind, bytes;
    uint64_t seed;
};

unsigned char pattern(uint64_t seed, size_t position);

/* traffic.c */
void traffic_open(void);
bool send_one(size_t task, enum kind kind); /* false: the task has gone */
void send_some(size_t task, size_t count, size_t window);
void send_control(size_t task, size_t id, uint64_t value);
size_t outstanding(size_t task);
void advance(void);
void step(void);

/* incoming.c */
void incoming_open(pami_context_t context);

/* victim.c */
void act_kill(void), act_abort(void), act_fault(void), act_term(void), act_exit(void),
    act_exit_3(void), act_quick_exit(void), act_stop(void), act_leave(void);
void farewell_exit(void), farewell_destroy(void), late_kill(void);
void few_exit(void), few_destroy(void), few_kill(void);
void exit_in_advance(void), exit_locked(void), exit_waiting_for_lock(void), exit_sending(void);
void kill_by_thread(void), leave_unread(void), leave_unread_and_exit(void);

/* survivor.c */
void survive(void);
void exchange_and_part(void);

/* everybody.c */
void all_destroy(void), all_destroy_client(void), all_exit(void), all_quick_exit(void),
    all_destroy_rendezvous(void);

#endif
