/*
 * Which accesses race: plain ones of two threads to the same bytes, one of them a store, neither
 * before the other by what the threads know of one another (memory.c), and plain ones beside atomic
 * ones; and accesses to memory that has been freed.
 */
#include <string.h>

#include "internal.h"

enum {
    CELLS = 16384,
    CELL_BYTES = 8
};

/* What has been done to eight bytes in this run; times are the doers' clocks, 0: not at all. */
struct cell {
    uintptr_t address;
    uint32_t run;
    uint8_t freed, writer[CELL_BYTES];
    uint16_t written[CELL_BYTES];
    uint16_t read[EXPLORE_THREADS][CELL_BYTES];
    uint16_t atomic_read[EXPLORE_THREADS][CELL_BYTES];
    uint16_t atomic_write[EXPLORE_THREADS][CELL_BYTES];
};

static struct cell cells[CELLS];
static uint32_t run;

void races_begin_run(void)
{
    run++;
}

static struct cell *cell_at(uintptr_t address)
{
    size_t at = memory_hash((const void *)address) % CELLS;

    for (unsigned i = 0; i < CELLS; i++, at = (at + 1) % CELLS) {
        struct cell *cell = &cells[at];

        if (cell->run == run && cell->address == address)
            return cell;
        if (cell->run != run) {
            memset(cell, 0, sizeof(*cell));
            cell->run = run;
            cell->address = address;
            return cell;
        }
    }
    explore_fail("a run touches too much memory");
}

static bool is_behind(unsigned other, uint16_t time)
{
    return (int)other != engine_self && time > memory_clock(other);
}

static void race(const char *what, const char *before, unsigned other, const void *address,
                 const void *pc)
{
    engine_note("race", address, other, pc);
    explore_fail("%s of thread %d races with %s of thread %u", what, engine_self, before, other);
}

static void check_byte(struct cell *cell, unsigned byte, bool write, bool atomic,
                       const void *address, const void *pc)
{
    const char *what = atomic  ? write ? "an atomic store" : "an atomic load"
                       : write ? "a plain store"
                               : "a plain load";

    if (cell->freed)
        explore_fail("%s of thread %d to memory that has been freed", what, engine_self);
    if (cell->written[byte] != 0 && is_behind(cell->writer[byte], cell->written[byte]))
        race(what, "a plain store", cell->writer[byte], address, pc);
    for (unsigned i = 0; i < EXPLORE_THREADS; i++) {
        if (write && is_behind(i, cell->read[i][byte]))
            race(what, "a plain load", i, address, pc);
        if (!atomic && is_behind(i, cell->atomic_write[i][byte]))
            race(what, "an atomic store", i, address, pc);
        if (!atomic && write && is_behind(i, cell->atomic_read[i][byte]))
            race(what, "an atomic load", i, address, pc);
    }
}

void races_touch(const void *address, size_t size, bool write, bool atomic, const void *pc)
{
    uintptr_t at = (uintptr_t)address, end = at + size;
    unsigned self = (unsigned)engine_self;
    uint16_t time = memory_clock(self);
    struct cell *cell = NULL;

    for (; at < end; at++) {
        unsigned byte = at % CELL_BYTES;

        if (cell == NULL || byte == 0)
            cell = cell_at(at - byte);
        check_byte(cell, byte, write, atomic, address, pc);
        if (write && !atomic) {
            cell->written[byte] = time;
            cell->writer[byte] = (uint8_t)self;
        } else if (write) {
            cell->atomic_write[self][byte] = time;
        } else if (atomic) {
            cell->atomic_read[self][byte] = time;
        } else {
            cell->read[self][byte] = time;
        }
    }
}

/* Not of the thread's own stack: what others do there they may. */
void races_plain(const void *address, size_t size, bool write, const void *pc)
{
    if (engine_on_stack(address))
        return;
    races_touch(address, size, write, false, pc);
}

void races_freed(const void *address, size_t size)
{
    races_plain(address, size, true, NULL);
    for (uintptr_t at = (uintptr_t)address; at < (uintptr_t)address + size; at += CELL_BYTES)
        cell_at(at - at % CELL_BYTES)->freed = 1;
}
