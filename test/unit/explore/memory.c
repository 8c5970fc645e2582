/*
 * The explorer's model of memory: what C11 lets a load see.
 *
 * Every atomic location has its history: the values stored so far, in the order of the run. A
 * thread's view says of each location from which value on it may read, and, as a vector clock, what
 * of the other threads' doings happened before. A store with release takes the view along, a load
 * with acquire that reads it takes it over; fences, read-modify-writes that go on with a release
 * sequence, and sequentially consistent operations as C11 has them. So a load may see an older
 * value as long as nothing orders it behind a newer one, on whatever processor.
 *
 * A store that nothing orders behind the newest one may be overwritten by that at once. Not
 * modelled: loads that see what is stored later (load buffering).
 *
 * Memory itself holds the newest values. What has been stored there by plain stores, or before the
 * run, is noticed when the location is next looked at.
 */
#include <stdatomic.h>
#include <string.h>

#include "internal.h"

enum {
    LOCATIONS_MOST = 256,
    HISTORY = 8,    /* values of a location that a load may still see */
    OLDER_MOST = 3, /* of those, other than the newest */
    TABLE = 4096,   /* entries of hash tables, powers of two */
    LOOPS = 256
};

struct view {
    uint16_t seen[LOCATIONS_MOST];
    uint16_t clock[EXPLORE_THREADS];
};

struct message {
    uint64_t value;
    bool has_view, follows; /* follows: of a read-modify-write, right behind what it read */
    struct view view;
};

struct location {
    const void *address;
    unsigned size;
    uint16_t newest; /* number of the newest message, from 0 */
    bool shared;
    struct message history[HISTORY];
};

/* Over all runs of an exploration: who uses a location? Only where several threads do, and one
 * stores, it matters who goes first. */
struct use {
    const void *address;
    uint8_t readers, writers;
    bool shared; /* as the present runs believe */
};

/* A place that a thread has been at, and nothing has been stored since. */
struct loop {
    const void *pc, *address;
    uint32_t run, stored;
    unsigned count;
};

struct thread_view {
    struct view now;
    struct view acquired; /* by loads without acquire: of the next fence */
    struct view fenced;   /* as of the last release fence */
    bool has_fenced;
    struct loop loops[LOOPS];
};

struct mutant memory_mutant;
struct memory_sites *memory_sites;

static struct location locations[LOCATIONS_MOST];
static unsigned location_count;
static struct {
    uint32_t run;
    uint16_t index;
} location_table[TABLE];
static struct use uses[TABLE];
static struct thread_view views[EXPLORE_THREADS];
static uint16_t total_view[LOCATIONS_MOST];
static uint32_t run = 0, stored;
static bool new_shared;

/* ---- views ---- */

static void join_seen(uint16_t *to, const uint16_t *from)
{
    for (unsigned i = 0; i < location_count; i++)
        if (to[i] < from[i])
            to[i] = from[i];
}

static void join(struct view *to, const struct view *from)
{
    join_seen(to->seen, from->seen);
    for (unsigned i = 0; i < EXPLORE_THREADS; i++)
        if (to->clock[i] < from->clock[i])
            to->clock[i] = from->clock[i];
}

static void copy_view(struct view *to, const struct view *from)
{
    memcpy(to->seen, from->seen, location_count * sizeof(to->seen[0]));
    memset(to->seen + location_count, 0, (LOCATIONS_MOST - location_count) * sizeof(to->seen[0]));
    memcpy(to->clock, from->clock, sizeof(to->clock));
}

void memory_begin_run(void)
{
    run++;
    races_begin_run();
    stored = 0;
    location_count = 0;
    memset(total_view, 0, sizeof(total_view));
    for (unsigned i = 0; i < EXPLORE_THREADS; i++) {
        memset(&views[i].now, 0, sizeof(views[i].now));
        memset(&views[i].acquired, 0, sizeof(views[i].acquired));
        views[i].has_fenced = false;
        views[i].now.clock[i] = 1;
    }
}

bool memory_new_shared(void)
{
    bool any = new_shared;

    for (unsigned i = 0; i < TABLE && any; i++)
        uses[i].shared = uses[i].shared || ((uses[i].readers | uses[i].writers) &
                                            ((uses[i].readers | uses[i].writers) - 1)) != 0;
    new_shared = false;
    return any;
}

static bool acquires(int order)
{
    return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME || order == __ATOMIC_ACQ_REL ||
           order == __ATOMIC_SEQ_CST;
}

static bool releases(int order)
{
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

/* ---- locations ---- */

static uint64_t value_at(const void *address, unsigned size)
{
    uint64_t value = 0;

    memcpy(&value, address, size); /* little-endian, or compared with its own kind only */
    return value;
}

static void note_use(struct location *location, bool write)
{
    size_t at = memory_hash(location->address) % TABLE;
    struct use *use;
    uint8_t all;

    while (uses[at].address != NULL && uses[at].address != location->address)
        at = (at + 1) % TABLE;
    use = &uses[at];
    use->address = location->address;
    use->readers |= (uint8_t)(1u << engine_self);
    use->writers |= (uint8_t)((unsigned)write << engine_self);
    all = use->readers | use->writers;
    location->shared = use->shared;
    if (!use->shared && use->writers != 0 && (all & (all - 1)) != 0)
        new_shared = true;
}

bool memory_is_shared(const void *address)
{
    size_t at = memory_hash(address) % TABLE;

    while (uses[at].address != NULL && uses[at].address != address)
        at = (at + 1) % TABLE;
    return uses[at].address == NULL || uses[at].shared;
}

static struct message *append(struct location *location, uint64_t value)
{
    struct message *message = &location->history[++location->newest % HISTORY];

    if (location->newest == UINT16_MAX)
        explore_fail("too many stores to one location");
    message->value = value;
    message->has_view = message->follows = false;
    return message;
}

static struct location *locate(const void *address, unsigned size)
{
    size_t at = memory_hash(address) % TABLE;
    uint64_t value = value_at(address, size);
    struct location *location;

    while (location_table[at].run == run && locations[location_table[at].index].address != address)
        at = (at + 1) % TABLE;
    if (location_table[at].run == run) {
        location = &locations[location_table[at].index];
        if (location->size != size)
            explore_fail("atomic operations on one location differ in size");
        if (value != location->history[location->newest % HISTORY].value) {
            append(location, value); /* by plain stores, which do not race with this */
            for (unsigned i = 0; i < EXPLORE_THREADS; i++)
                views[i].now.seen[location - locations] = location->newest;
        }
        return location;
    }
    if (location_count == LOCATIONS_MOST)
        explore_fail("too many atomic locations");
    location_table[at].run = run;
    location_table[at].index = (uint16_t)location_count;
    location = &locations[location_count++];
    location->address = address;
    location->size = size;
    location->newest = 0;
    location->history[0] = (struct message){.value = value};
    return location;
}

/* ---- mutants ---- */

static void note_site(const void *pc, int order, bool rmw, bool fence, bool barrier)
{
    struct memory_sites *sites = memory_sites;

    if (sites == NULL)
        return;
    for (unsigned i = 0; i < sites->count; i++)
        if (sites->site[i].pc == pc)
            return;
    if (sites->count < SITES_MOST)
        sites->site[sites->count++] = (struct memory_site){pc, order, rmw, fence, barrier};
}

static int mutated(int order, const void *pc)
{
    return memory_mutant.kind == MUTANT_ORDER && memory_mutant.pc == pc ? memory_mutant.order
                                                                        : order;
}

/* ---- operations ---- */

/* False: the same load, and nothing has been stored since: as if it had not been made. */
static bool is_news(const void *address, const void *pc)
{
    struct loop *loop = &views[engine_self].loops[(memory_hash(address) ^ memory_hash(pc)) % LOOPS];

    if (loop->run != run || loop->pc != pc || loop->address != address || loop->stored != stored) {
        *loop = (struct loop){.pc = pc, .address = address, .run = run, .stored = stored};
        return true;
    }
    return loop->count++ < 1;
}

uint16_t memory_clock(unsigned of)
{
    return views[engine_self].now.clock[of];
}

/* Others may go first, if they have to do with it. */
static void point(const void *address, unsigned size, bool write, const void *pc)
{
    struct location *location = locate(address, size);

    engine_step();
    note_use(location, write);
    if (location->shared && (write || is_news(address, pc)))
        engine_point();
    if (location->shared && write)
        engine_last_chance();
}

static void stored_by_self(void)
{
    stored++;
    engine_stored();
}

static void take_over(const struct message *message, int order)
{
    struct thread_view *view = &views[engine_self];

    if (!message->has_view)
        return;
    join(acquires(order) ? &view->now : &view->acquired, &message->view);
}

/* `message` is a store of the thread's, perhaps the end of a read-modify-write of `before`. */
static void give_view(struct location *location, struct message *message,
                      const struct message *before, int order)
{
    struct thread_view *view = &views[engine_self];
    size_t index = (size_t)(location - locations);

    view->now.seen[index] = location->newest;
    if (releases(order)) {
        copy_view(&message->view, &view->now);
        message->has_view = true;
    } else if (view->has_fenced) {
        copy_view(&message->view, &view->fenced);
        message->view.seen[index] = location->newest;
        message->has_view = true;
    }
    if (before != NULL && before->has_view) {
        if (!message->has_view)
            copy_view(&message->view, &before->view);
        else
            join(&message->view, &before->view);
        message->has_view = true;
    }
    if (order == __ATOMIC_SEQ_CST)
        total_view[index] = location->newest;
    view->now.clock[engine_self]++;
    stored_by_self();
}

/* Which of the values a load may see it sees; `avoid`: not this one, if it is old. */
static struct message *choose_message(struct location *location, int order, const uint64_t *avoid)
{
    size_t index = (size_t)(location - locations);
    uint16_t *seen = &views[engine_self].now.seen[index];
    uint16_t oldest = *seen, list[OLDER_MOST + 1], number = location->newest;
    unsigned count = 0;

    if (order == __ATOMIC_SEQ_CST && oldest < total_view[index])
        oldest = total_view[index];
    if (location->newest - oldest >= HISTORY)
        oldest = (uint16_t)(location->newest - HISTORY + 1);
    list[count++] = number;
    while (engine_may_choose(CHOICE_STALE) && number-- > oldest && count <= OLDER_MOST)
        if (avoid == NULL || location->history[number % HISTORY].value != *avoid)
            list[count++] = number;
    number = list[engine_choose(CHOICE_STALE, count)];
    if (number != location->newest)
        engine_missed();
    *seen = number > *seen ? number : *seen;
    return &location->history[number % HISTORY];
}

uint64_t memory_load(const void *address, unsigned size, int order, const void *pc)
{
    struct location *location;
    struct message *message;

    note_site(pc, order, false, false, false);
    order = mutated(order, pc);
    point(address, size, false, pc);
    races_touch(address, size, false, true, pc);
    location = locate(address, size);
    message = choose_message(location, order, NULL);
    take_over(message, order);
    engine_note(message == &location->history[location->newest % HISTORY] ? "load" : "load old",
                address, message->value, pc);
    return message->value;
}

static void put(struct location *location, void *address, unsigned size, uint64_t value, int order,
                const struct message *before)
{
    struct message copy, *message;

    if (before != NULL)
        copy = *before; /* whose place may be needed */
    message = append(location, value);
    message->follows = before != NULL;
    memcpy(address, &value, size);
    give_view(location, message, before != NULL ? &copy : NULL, order);
}

/* Nothing orders the store behind the newest one: it may come before that, and be overwritten. */
static bool may_be_lost(const struct location *location, int order)
{
    size_t index = (size_t)(location - locations);
    uint16_t seen = views[engine_self].now.seen[index], number = location->newest;

    if (order == __ATOMIC_SEQ_CST && seen < total_view[index])
        seen = total_view[index];
    while (number > seen && location->newest - number < HISTORY &&
           location->history[number % HISTORY].follows)
        number--;
    return number > seen && location->newest - number < HISTORY;
}

void memory_store(void *address, unsigned size, uint64_t value, int order, const void *pc)
{
    struct location *location;

    note_site(pc, order, false, false, false);
    order = mutated(order, pc);
    point(address, size, true, pc);
    races_touch(address, size, true, true, pc);
    location = locate(address, size);
    if (may_be_lost(location, order) && engine_choose(CHOICE_STALE, 2) != 0) {
        engine_note("lost store", address, value, pc);
        views[engine_self].now.seen[location - locations] = location->newest;
        views[engine_self].now.clock[engine_self]++;
        return;
    }
    engine_note("store", address, value, pc);
    put(location, address, size, value, order, NULL);
}

static uint64_t cut(uint64_t value, unsigned size)
{
    return size == 8 ? value : value & ((UINT64_C(1) << 8 * size) - 1);
}

static uint64_t combine(enum rmw how, uint64_t before, uint64_t operand)
{
    switch (how) {
    case RMW_ADD:
        return before + operand;
    case RMW_SUB:
        return before - operand;
    case RMW_AND:
        return before & operand;
    case RMW_OR:
        return before | operand;
    case RMW_XOR:
        return before ^ operand;
    case RMW_NAND:
        return ~(before & operand);
    default:
        return operand;
    }
}

static bool is_split(const void *pc)
{
    return memory_mutant.kind == MUTANT_SPLIT && memory_mutant.pc == pc;
}

uint64_t memory_rmw(void *address, unsigned size, enum rmw how, uint64_t operand, int order,
                    const void *pc)
{
    struct location *location;
    struct message *message;
    uint64_t before;

    note_site(pc, order, true, false, false);
    order = mutated(order, pc);
    point(address, size, true, pc);
    races_touch(address, size, true, true, pc);
    location = locate(address, size);
    message = &location->history[location->newest % HISTORY];
    take_over(message, order);
    before = message->value;
    if (is_split(pc)) {
        engine_point();
        message = NULL;
    }
    engine_note("exchange", address, before, pc);
    put(location, address, size, cut(combine(how, before, operand), size), order, message);
    return before;
}

/* It has failed: a load. */
static bool see(const struct location *location, const struct message *message, uint64_t *expected,
                int order, const void *pc)
{
    take_over(message, order);
    engine_note("fails", location->address, message->value, pc);
    *expected = message->value;
    return false;
}

bool memory_cas(void *address, unsigned size, uint64_t *expected, uint64_t desired, int order,
                int failure, bool weak, const void *pc)
{
    struct location *location;
    struct message *message;

    note_site(pc, order, true, false, false);
    if (mutated(order, pc) != order)
        failure = acquires(mutated(order, pc)) ? failure : __ATOMIC_RELAXED;
    order = mutated(order, pc);
    point(address, size, true, pc);
    races_touch(address, size, true, true, pc);
    location = locate(address, size);
    message = choose_message(location, failure, expected);
    if (message->value != *expected)
        return see(location, message, expected, failure, pc);
    if (weak && engine_choose(CHOICE_STALE, 2) != 0)
        return see(location, message, expected, failure, pc);
    take_over(message, order);
    if (is_split(pc)) {
        engine_point();
        message = NULL;
    }
    engine_note("exchanges", address, desired, pc);
    put(location, address, size, cut(desired, size), order, message);
    return true;
}

/* ---- fences ---- */

static void fence_of(struct thread_view *view, int self, int order)
{
    if (acquires(order))
        join(&view->now, &view->acquired);
    if (order == __ATOMIC_SEQ_CST) {
        join_seen(view->now.seen, total_view);
        join_seen(total_view, view->now.seen);
    }
    if (releases(order)) {
        copy_view(&view->fenced, &view->now);
        view->has_fenced = true;
        view->now.clock[self]++;
    }
}

static bool is_skipped(const void *pc)
{
    return memory_mutant.kind == MUTANT_SKIP && memory_mutant.pc == pc;
}

void memory_fence(int order, const void *pc)
{
    note_site(pc, order, false, true, false);
    if (is_skipped(pc))
        return;
    engine_step();
    if (order == __ATOMIC_SEQ_CST)
        engine_point();
    engine_note("fence", NULL, (uint64_t)order, pc);
    fence_of(&views[engine_self], engine_self, order);
}

/* Of all threads, somewhere in between. */
void memory_barrier_all(const void *pc)
{
    note_site(pc, __ATOMIC_SEQ_CST, false, true, true);
    if (is_skipped(pc))
        return;
    engine_step();
    engine_point();
    engine_note("membarrier", NULL, 0, pc);
    for (int twice = 0; twice < 2; twice++)
        for (int i = 0; i < EXPLORE_THREADS; i++)
            fence_of(&views[i], i, __ATOMIC_SEQ_CST);
}

uint32_t memory_newest(const void *address)
{
    return (uint32_t)locate(address, 4)->history[locate(address, 4)->newest % HISTORY].value;
}

void memory_catch_up(void)
{
    for (unsigned i = 0; i < location_count; i++)
        views[engine_self].now.seen[i] = locations[i].newest;
}
