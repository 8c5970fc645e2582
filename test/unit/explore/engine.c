/*
 * The explorer's engine: runs a scenario again and again, each time with other choices.
 *
 * The threads of a scenario are coroutines of one thread of the system. Their thread-local
 * variables are those of real threads, which only sleep: with the stack the thread pointer changes.
 *
 * Choices are numbered as they come, and the trail says what was taken. The next run repeats it up
 * to the last choice that has another alternative. So all is tried that deviates from the plainest
 * run so many times at most; first what deviates seldom, which makes failing runs short.
 *
 * Each exploration has a process of its own, so that what crashes is found like anything else.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <asm/prctl.h>
#endif

#include "internal.h"

enum {
    TRAIL_MOST = 20000,
    STEPS_MOST = 60000, /* of a run: more is for ever */
    TURN_MOST = 5000,   /* steps of one thread in a row: it waits for another one */
    RUNS_MOST = 3000000,
    ARENA_BYTES = 4 << 20,
    STACK_BYTES = 256 << 10,
    SECONDS_MOST = 300
};

struct choice {
    uint8_t kind, taken, count;
};

enum state {
    CAN_RUN,
    YIELDED,  /* until something is stored by another one */
    SLEEPING, /* on `addresses` */
    ENDED,
};

struct thread {
    ucontext_t place;
    _Atomic(void *) pointer; /* to its thread-local variables */
    char *stack;
    int number;
    enum state state;
    const void *addresses[SLEEP_MOST];
    unsigned count;
    bool limited, timed_out;
    bool dead;
    bool naps; /* time will wake it as well */
    bool news; /* since it yielded last something has been stored, or it saw what was old */
};

_Thread_local int engine_self = -1;
_Thread_local bool engine_inside;
bool engine_in_run;

static const struct explore_scenario *scenario;
static struct explore_bounds bounds;
static struct engine_result *result; /* shared with the parent */
static bool loud;

static struct thread threads[EXPLORE_THREADS];
static unsigned thread_count;
static struct thread main_thread;

static struct choice trail[TRAIL_MOST];
static size_t trail_length, depth;
static unsigned deviations, preemptions, stale;

static unsigned steps, turn;
static uint64_t now; /* ns */

static char arena[ARENA_BYTES] __attribute__((aligned(4096)));
static size_t arena_used;

int explore_self(void)
{
    return engine_self;
}

void *explore_alloc(size_t bytes, size_t alignment)
{
    void *memory;

    arena_used = (arena_used + alignment - 1) & ~(alignment - 1);
    if (arena_used + bytes > sizeof(arena))
        explore_fail("the explorer's arena is too small");
    memory = arena + arena_used;
    memset(memory, 0, bytes);
    arena_used += bytes;
    return memory;
}

bool explore_owns(const void *memory)
{
    return (const char *)memory >= arena && (const char *)memory < arena + sizeof(arena);
}

uint64_t engine_time(void)
{
    return now += 1000;
}

void explore_fail(const char *format, ...)
{
    va_list arguments;

    engine_self = -1;
    engine_in_run = false;
    va_start(arguments, format);
    vsnprintf(result->text, sizeof(result->text), format, arguments);
    va_end(arguments);
    result->failed = true;
    if (loud)
        engine_show_run();
    fflush(stdout);
    _exit(1);
}

/* ---- choices ---- */

bool engine_may_choose(enum choice_kind kind)
{
    if (kind == CHOICE_NEXT || kind == CHOICE_USER)
        return true;
    if (deviations >= bounds.total)
        return false;
    if (kind == CHOICE_PREEMPT)
        return preemptions < bounds.preemptions;
    return kind == CHOICE_DEATH || stale < bounds.stale;
}

unsigned engine_choose(enum choice_kind kind, unsigned count)
{
    unsigned taken = 0;

    if (count == 1 || !engine_may_choose(kind))
        return 0;
    if (depth == TRAIL_MOST)
        explore_fail("too many choices");
    if (depth < trail_length) {
        if (trail[depth].kind != kind || trail[depth].count != count)
            explore_fail("runs differ although their choices do not: %d of %u, now %d of %u",
                         trail[depth].kind, trail[depth].count, kind, count);
        taken = trail[depth].taken;
    } else {
        trail[trail_length++] = (struct choice){.kind = (uint8_t)kind, .count = (uint8_t)count};
    }
    depth++;
    if (taken != 0 && kind != CHOICE_NEXT && kind != CHOICE_USER) {
        deviations++;
        preemptions += kind == CHOICE_PREEMPT;
        stale += kind == CHOICE_STALE;
    }
    return taken;
}

unsigned explore_choose(unsigned count)
{
    unsigned taken;

    engine_inside = true;
    taken = engine_choose(CHOICE_USER, count);
    engine_inside = false;
    return taken;
}

/* To the next run. False: there is none. */
static bool next_trail(void)
{
    while (trail_length > 0 && trail[trail_length - 1].taken + 1 >= trail[trail_length - 1].count)
        trail_length--;
    if (trail_length == 0)
        return false;
    trail[trail_length - 1].taken++;
    return true;
}

/* ---- threads ---- */

/* Who can go on, in turn behind the one that runs. */
static unsigned candidates(unsigned *list, bool others_only)
{
    unsigned count = 0, first = (unsigned)(engine_self + 1);

    for (unsigned k = 0; k < thread_count; k++) {
        unsigned i = (first + k) % thread_count;

        if (threads[i].state == CAN_RUN && !(others_only && (int)i == engine_self))
            list[count++] = i;
    }
    return count;
}

/* Another one than whose turn it is deviates, where threads only wait for something to do: there is
 * no end to how they could do that. */
static enum choice_kind next_kind(void)
{
    return engine_self >= 0 && threads[engine_self].state != ENDED ? CHOICE_PREEMPT : CHOICE_NEXT;
}

#if defined(__x86_64__)
static void *thread_pointer(void)
{
    void *pointer;

    __asm__("mov %%fs:0, %0" : "=r"(pointer));
    return pointer;
}

static void set_thread_pointer(void *pointer)
{
    __real_syscall(SYS_arch_prctl, ARCH_SET_FS, pointer);
}
#elif defined(__aarch64__)
static void *thread_pointer(void)
{
    return __builtin_thread_pointer();
}

static void set_thread_pointer(void *pointer)
{
    __asm__ volatile("msr tpidr_el0, %0" : : "r"(pointer) : "memory");
}
#else
static void *thread_pointer(void)
{
    return NULL; /* see main */
}

static void set_thread_pointer(void *pointer)
{
    (void)pointer;
}
#endif

static void switch_between(struct thread *from, struct thread *to)
{
    if (from == to)
        return;
    turn = 0;
    set_thread_pointer(to->pointer);
    swapcontext(&from->place, &to->place);
}

static struct thread *self_thread(void)
{
    return engine_self >= 0 ? &threads[engine_self] : &main_thread;
}

static void hand_over(unsigned to)
{
    switch_between(self_thread(), &threads[to]);
}

void engine_point(void)
{
    unsigned list[EXPLORE_THREADS], count, taken;

    if (!engine_may_choose(CHOICE_PREEMPT))
        return;
    count = candidates(list, true);
    taken = engine_choose(CHOICE_PREEMPT, 1 + count);
    if (taken != 0)
        hand_over(list[taken - 1]);
}

static unsigned wake_limited(unsigned *list)
{
    unsigned count = 0;

    for (unsigned i = 0; i < thread_count; i++)
        if ((threads[i].state == YIELDED && threads[i].naps) ||
            (threads[i].state == SLEEPING && threads[i].limited && scenario->timeouts))
            list[count++] = i;
    return count;
}

/* Nobody runs: who is next? */
static void go_on(void)
{
    unsigned list[EXPLORE_THREADS], count = candidates(list, false), taken;
    bool ended = true;

    if (count == 0) {
        count = wake_limited(list);
        for (unsigned i = 0; i < thread_count; i++)
            ended = ended && threads[i].state == ENDED;
        if (ended) {
            switch_between(self_thread(), &main_thread);
            return;
        }
        if (count == 0)
            explore_fail("nobody can go on: threads sleep or wait for one another for ever");
    }
    taken = list[engine_choose(next_kind(), count)];
    threads[taken].timed_out = threads[taken].state != CAN_RUN;
    if (threads[taken].timed_out)
        now += 1000000000;
    threads[taken].state = CAN_RUN;
    hand_over(taken);
}

bool engine_sleep(const void *const *addresses, unsigned count, bool limited)
{
    struct thread *thread = &threads[engine_self];

    engine_note("sleep", addresses[0], count, NULL);
    thread->state = SLEEPING;
    for (unsigned i = 0; i < count; i++)
        thread->addresses[i] = addresses[i];
    thread->count = count;
    thread->limited = limited;
    thread->timed_out = false;
    go_on();
    engine_note(thread->timed_out ? "timeout" : "woken", addresses[0], 0, NULL);
    return !thread->timed_out;
}

void engine_wake(const void *address)
{
    engine_note("wake", address, 0, NULL);
    for (unsigned i = 0; i < thread_count; i++)
        for (unsigned k = 0; threads[i].state == SLEEPING && k < threads[i].count; k++)
            if (threads[i].addresses[k] == address)
                threads[i].state = CAN_RUN;
}

void engine_stored(void)
{
    for (unsigned i = 0; i < thread_count; i++) {
        if ((int)i == engine_self)
            continue;
        threads[i].news = true;
        if (threads[i].state == YIELDED)
            threads[i].state = CAN_RUN;
    }
}

void engine_missed(void)
{
    threads[engine_self].news = true;
}

/* What one has not seen yet is news; others go first all the same. */
void engine_yield(void)
{
    unsigned list[EXPLORE_THREADS], count = candidates(list, true);
    bool news = threads[engine_self].news;

    threads[engine_self].news = false;
    memory_catch_up();
    engine_step();
    engine_note("yield", NULL, 0, NULL);
    if (!news) {
        threads[engine_self].state = YIELDED;
        go_on();
    } else if (count != 0) {
        hand_over(list[engine_choose(CHOICE_PREEMPT, count)]);
    }
}

void explore_yield(void)
{
    engine_inside = true;
    engine_yield();
    engine_inside = false;
}

void explore_nap(void)
{
    struct thread *thread = &threads[engine_self];

    thread->naps = true;
    explore_yield();
    thread->naps = false;
}

void engine_step(void)
{
    unsigned list[EXPLORE_THREADS];

    if (++steps > STEPS_MOST)
        explore_fail("a run does not end");
    if (++turn <= TURN_MOST || candidates(list, true) == 0)
        return;
    memory_catch_up();
    hand_over(list[0]);
}

static void play(int number)
{
    struct thread *thread = &threads[number];

    for (;;) {
        engine_self = number;
        engine_inside = false;
        scenario->threads[number]();
        engine_note("end", NULL, 0, NULL);
        thread->state = ENDED;
        go_on();
    }
}

/* Where it is in its code is forgotten. What it has stored is there for who hears of its death. */
static void die(struct thread *thread)
{
    engine_note("dies", NULL, 0, NULL);
    thread->dead = true;
    engine_inside = false;
    scenario->died();
    thread->state = ENDED;
    go_on();
}

void engine_last_chance(void)
{
    struct thread *thread = &threads[engine_self];

    if (engine_self + 1 == (int)scenario->mortal && !thread->dead &&
        engine_choose(CHOICE_DEATH, 2) != 0)
        die(thread);
}

bool engine_on_stack(const void *address)
{
    const char *stack = threads[engine_self].stack;

    return (const char *)address >= stack && (const char *)address < stack + STACK_BYTES;
}

/* Lends its thread-local variables. */
static void *lend(void *cookie)
{
    struct thread *thread = cookie;

    atomic_store(&thread->pointer, thread_pointer());
    for (;;)
        pause();
    return NULL;
}

/* At the beginning of play. */
static void thread_begin(struct thread *thread)
{
    getcontext(&thread->place);
    thread->place.uc_stack.ss_sp = thread->stack;
    thread->place.uc_stack.ss_size = STACK_BYTES;
    makecontext(&thread->place, (void (*)(void))play, 1, thread->number);
    thread->dead = false;
}

static void thread_make(int number)
{
    struct thread *thread = &threads[number];
    pthread_t lender;

    thread->number = number;
    if (pthread_create(&lender, NULL, lend, thread) != 0)
        explore_fail("no thread can be started");
    while (atomic_load(&thread->pointer) == NULL)
        sched_yield();
    thread->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (thread->stack == MAP_FAILED)
        explore_fail("no memory for a stack");
    thread_begin(thread);
}

/* ---- runs ---- */

static void run_once(void)
{
    arena_used = 0;
    depth = 0;
    deviations = preemptions = stale = 0;
    steps = 0;
    now = 1000000000;
    engine_forget_notes();
    for (unsigned i = 0; i < thread_count; i++) {
        threads[i].state = CAN_RUN;
        threads[i].news = false;
        if (threads[i].dead)
            thread_begin(&threads[i]);
    }
    engine_in_run = true;
    scenario->setup();
    memory_begin_run();
    go_on();
    if (scenario->check != NULL)
        scenario->check();
    engine_in_run = false;
    result->runs++;
}

/* All runs with up to `total` deviations, again if it turns out that more memory is shared. */
static bool run_all(unsigned total, const struct explore_bounds *most)
{
    bounds = *most;
    bounds.total = total;
    do {
        trail_length = 0;
        do {
            run_once();
            if (result->runs >= RUNS_MOST)
                return false;
        } while (next_trail());
    } while (memory_new_shared());
    return true;
}

static void on_signal(int number)
{
    result->failed = true;
    snprintf(result->text, sizeof(result->text), "signal %d", number);
    engine_self = -1;
    if (loud && number != SIGALRM)
        engine_show_run();
    fflush(stdout);
    _exit(1);
}

static void child(const struct explore_bounds *most)
{
    signal(SIGSEGV, on_signal);
    signal(SIGBUS, on_signal);
    signal(SIGABRT, on_signal);
    signal(SIGFPE, on_signal);
    alarm(SECONDS_MOST);
    main_thread.pointer = thread_pointer();
    while (thread_count < EXPLORE_THREADS && scenario->threads[thread_count] != NULL)
        thread_make((int)thread_count++);
    for (unsigned total = 0; total <= most->total && !result->cut; total++)
        result->cut = !run_all(total, most);
    fflush(stdout);
    _exit(0);
}

void engine_explore(const struct explore_scenario *what, const struct explore_bounds *most,
                    bool is_loud, struct engine_result *out)
{
    pid_t pid;
    int status;

    result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (result == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    scenario = what;
    loud = is_loud;
    fflush(stdout);
    pid = fork();
    if (pid == 0)
        child(most);
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        perror("fork");
        exit(1);
    }
    if (!(WIFEXITED(status) && WEXITSTATUS(status) == 0) && !result->failed) {
        result->failed = true;
        snprintf(result->text, sizeof(result->text), "ended with status %#x", status);
    }
    *out = *result;
    munmap(result, sizeof(*result));
}
