/*
 * See stores.h.
 */
#include "fault/phases/stores.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    RANGES = 256,
    OPEN = 4, /* pages that one instruction may write to */
    PAGE = 4096,
    SINGLE_STEP = 0x100
};

static struct {
    char *begin, *end;
} range[RANGES];
static size_t ranges;

static char *open_page[OPEN];
static size_t open_pages;
static long count, limit;
static bool watching;
static const char *last_data; /* the store before was to such a place ... */
static char *filled[2];       /* ... and these pages are left open until there is one elsewhere */
static struct store_place (*place_of)(const void *address);
static void (*on_limit)(const char *name);

#ifdef __x86_64__

bool stores_work(void)
{
    return true;
}

static void die(const char *what)
{
    (void)!write(STDERR_FILENO, what, strlen(what));
    _exit(255);
}

static void protect_all(int protection)
{
    for (size_t i = 0; i < ranges; i++)
        if (mprotect(range[i].begin, (size_t)(range[i].end - range[i].begin), protection) != 0)
            die("stores: mprotect\n");
}

static void open_page_of(char *page)
{
    if (mprotect(page, PAGE, PROT_READ | PROT_WRITE) != 0)
        die("stores: mprotect\n");
}

static void close_page(char *page)
{
    if (page != NULL && mprotect(page, PAGE, PROT_READ) != 0)
        die("stores: mprotect\n");
}

static void close_filled(void)
{
    close_page(filled[0]);
    close_page(filled[1]);
    filled[0] = filled[1] = NULL;
}

/* May its page be left open? */
static bool count_store(const void *address)
{
    struct store_place place = place_of(address);

    if (place.kind != STORE_FILL)
        close_filled();
    if ((place.kind == STORE_SIGNAL || last_data != place.name) && ++count == limit)
        on_limit(place.name);
    last_data = place.kind != STORE_SIGNAL ? place.name : NULL;
    return place.kind == STORE_FILL;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    ucontext_t *at = context;
    char *address = info->si_addr, *page;
    size_t i = 0;

    (void)number;
    while (i < ranges && !(address >= range[i].begin && address < range[i].end))
        i++;
    if (i == ranges || open_pages == OPEN)
        die("stores: a fault that is none of ours\n");
    page = (char *)((uintptr_t)address & ~(uintptr_t)(PAGE - 1));
    if (open_pages == 0 && count_store(address) && count != limit) {
        open_page_of(page);
        /* Two, as one store may be to both. */
        close_page(filled[0]);
        filled[0] = filled[1];
        filled[1] = page;
        return;
    }
    if (open_pages == 0 && count == limit) { /* that was it */
        watching = false;
        protect_all(PROT_READ | PROT_WRITE);
        return;
    }
    open_page_of(page);
    open_page[open_pages++] = page;
    at->uc_mcontext.gregs[REG_EFL] |= SINGLE_STEP;
}

static void on_step(int number, siginfo_t *info, void *context)
{
    ucontext_t *at = context;

    (void)number, (void)info;
    at->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)SINGLE_STEP;
    for (; open_pages != 0; open_pages--)
        close_page(open_page[open_pages - 1]);
}

/* All memory that may be written to and is shared. */
static void find_ranges(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], rights[8];
    unsigned long begin, end;

    ranges = 0;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        if (sscanf(line, "%lx-%lx %7s", &begin, &end, rights) == 3 && strcmp(rights, "rw-s") == 0 &&
            ranges < RANGES) {
            range[ranges].begin = (char *)(uintptr_t)begin;
            range[ranges++].end = (char *)(uintptr_t)end;
        }
    if (maps == NULL || ranges == 0 || ranges == RANGES)
        die("stores: no list of shared memory\n");
    fclose(maps);
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

    sigemptyset(&action.sa_mask);
    if (sigaction(number, &action, NULL) != 0)
        die("stores: sigaction\n");
}

void stores_watch(long stop, struct store_place (*place)(const void *address),
                  void (*reached)(const char *name))
{
    count = 0;
    limit = stop;
    last_data = NULL;
    filled[0] = filled[1] = NULL;
    place_of = place;
    on_limit = reached;
    find_ranges();
    handle(SIGSEGV, on_fault);
    handle(SIGTRAP, on_step);
    watching = true;
    protect_all(PROT_READ);
}

long stores_unwatch(void)
{
    watching = false;
    protect_all(PROT_READ | PROT_WRITE);
    signal(SIGSEGV, SIG_DFL);
    signal(SIGTRAP, SIG_DFL);
    return count;
}

bool stores_count(void)
{
    if (!watching)
        return false;
    close_filled();
    last_data = NULL;
    return ++count == limit;
}

void stores_reach(const char *name)
{
    watching = false;
    protect_all(PROT_READ | PROT_WRITE);
    on_limit(name);
}

#else

bool stores_work(void)
{
    return false;
}

void stores_watch(long stop, struct store_place (*place)(const void *address),
                  void (*reached)(const char *name))
{
    (void)stop, (void)place, (void)reached;
}

long stores_unwatch(void)
{
    return 0;
}

bool stores_count(void)
{
    return false;
}

void stores_reach(const char *name)
{
    (void)name;
}

#endif
