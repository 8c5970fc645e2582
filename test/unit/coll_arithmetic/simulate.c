/*
 * The simulation (simulate.h).
 */
#include "simulate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A phase that has been asked for and is not complete. */
struct active {
    struct phase phase;
    uint32_t index, send_number, recv_number;
    bool started, sent, posted, arrived, complete;
};

struct message {
    struct message *next;
    struct value *values;
    uint64_t count;
    uint32_t number;
    struct active *sender; /* NULL: completed already */
    uint64_t *known;       /* whom the sender had heard of, where that is asked for */
};

struct progress {
    uint32_t phases, asked, done; /* done: all phases below it are complete */
    uint32_t window;
    struct active *active; /* ring of `window` */
    struct message **incoming;
    uint32_t *sent, *received;         /* number of the next message to and from each peer */
    uint32_t *send_needs, *recv_needs; /* the latest, for each peer */
    uint64_t *heard;                   /* by phase, whom its message told about: `words` each */
    bool slow;
    bool idle; /* nothing to do before somebody sends or receives */
};

struct simulation {
    struct run *run;
    struct progress *members;
    uint64_t random;
    uint32_t words; /* of a set of members; 0: nobody asks */
    bool failed;
};

static uint64_t mix(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

#define SEQUENCE_BASE UINT64_C(0x5851f42d4c957f2d)

struct value value_leaf(uint64_t name)
{
    return (struct value){mix(name), SEQUENCE_BASE, mix(name ^ 0x5e7), mix(name ^ 0x7ee)};
}

struct value value_combine(struct value low, struct value high)
{
    return (struct value){
        .sequence = low.sequence * high.power + high.sequence,
        .power = low.power * high.power,
        .set = low.set + high.set,
        .tree = mix(mix(low.tree) * 3 + high.tree),
    };
}

void memory_init(struct memory *memory, uint64_t count)
{
    memory->count = count;
    memory->cells = calloc(count + 1, sizeof(*memory->cells));
    memory->readers = calloc(count + 1, sizeof(*memory->readers));
    memory->writers = calloc(count + 1, sizeof(*memory->writers));
}

void memory_finish(struct memory *memory)
{
    free(memory->cells);
    free(memory->readers);
    free(memory->writers);
}

static void fail(struct simulation *simulation, uint32_t rank, uint32_t index, const char *format,
                 ...)
{
    char *text = simulation->run->error;
    size_t room = sizeof(simulation->run->error);
    va_list list;
    int length;

    if (simulation->failed)
        return;
    simulation->failed = true;
    length = snprintf(text, room, "member %u phase %u: ", rank, index);
    va_start(list, format);
    vsnprintf(text + length, room - (size_t)length, format, list);
    va_end(list);
}

static uint64_t draw(struct simulation *simulation, uint64_t bound)
{
    simulation->random = mix(simulation->random);
    return simulation->random % bound;
}

struct cells {
    struct memory *memory;
    uint64_t first, count;
};

/* Where a span lies; fails when it lies outside of its area. */
static struct cells resolve(struct simulation *simulation, uint32_t rank, uint32_t index,
                            const struct span *span)
{
    struct member *member = &simulation->run->members[rank];
    uint64_t unit = simulation->run->unit, offset = span->offset / unit;
    uint64_t count = span->bytes / unit, room;
    struct view *view = span->area == AREA_SEND ? &member->send : &member->recv;

    if (span->bytes == 0)
        return (struct cells){0};
    if (span->bytes % unit || span->offset % unit) {
        fail(simulation, rank, index, "span is cut inside an element");
        return (struct cells){0};
    }
    if (span->area == AREA_TEMP) {
        if (span->block != 0 || offset > member->temp.count ||
            count > member->temp.count - offset) {
            fail(simulation, rank, index, "span outside of temporary memory");
            return (struct cells){0};
        }
        return (struct cells){&member->temp, offset, count};
    }
    if (span->area > AREA_TEMP || !view->memory || span->block >= view->blocks) {
        fail(simulation, rank, index, "no block %u of area %d", span->block, (int)span->area);
        return (struct cells){0};
    }
    room = view->cells[span->block];
    for (uint32_t i = span->block + 1; view->dense && i < view->blocks; i++)
        room += view->cells[i];
    if (offset > room || count > room - offset) {
        fail(simulation, rank, index, "span outside of block %u of area %d", span->block,
             (int)span->area);
        return (struct cells){0};
    }
    return (struct cells){view->memory, view->start[span->block] + offset, count};
}

static void check_readable(struct simulation *simulation, uint32_t rank, uint32_t index,
                           const struct cells *cells)
{
    for (uint64_t i = cells->first; i < cells->first + cells->count; i++) {
        if (cells->memory->writers[i])
            fail(simulation, rank, index, "reads what is being received");
        else if (cells->memory->cells[i].power == 0)
            fail(simulation, rank, index, "reads what was never written");
    }
}

static void check_writable(struct simulation *simulation, uint32_t rank, uint32_t index,
                           const struct cells *cells)
{
    for (uint64_t i = cells->first; i < cells->first + cells->count; i++) {
        if (cells->memory->writers[i])
            fail(simulation, rank, index, "writes what is being received");
        else if (cells->memory->readers[i])
            fail(simulation, rank, index, "writes what is being sent");
    }
}

static void run_local(struct simulation *simulation, uint32_t rank, uint32_t index,
                      const struct local *local)
{
    struct cells source, target;

    if (local->kind == LOCAL_NONE)
        return;
    source = resolve(simulation, rank, index, &local->source);
    target = resolve(simulation, rank, index, &local->target);
    if (simulation->failed)
        return;
    if (source.count != target.count || source.count == 0) {
        fail(simulation, rank, index, "local step of unequal or no bytes");
        return;
    }
    if (source.memory == target.memory && source.first < target.first + target.count &&
        target.first < source.first + source.count)
        fail(simulation, rank, index, "local step on overlapping spans");
    check_readable(simulation, rank, index, &source);
    check_writable(simulation, rank, index, &target);
    if (local->kind == LOCAL_COMBINE)
        check_readable(simulation, rank, index, &target);
    for (uint64_t i = 0; i < source.count && !simulation->failed; i++) {
        struct value *to = &target.memory->cells[target.first + i];
        struct value from = source.memory->cells[source.first + i];

        *to = local->kind == LOCAL_COPY ? from : value_combine(from, *to);
    }
}

static void run_locals(struct simulation *simulation, uint32_t rank, uint32_t index,
                       const struct local *locals)
{
    for (int i = 0; i < PHASE_LOCALS && !simulation->failed; i++)
        run_local(simulation, rank, index, &locals[i]);
}

/* Asks for the next phase and sees that it keeps the rules. */
static void ask(struct simulation *simulation, uint32_t rank)
{
    struct progress *progress = &simulation->members[rank];
    struct member *member = &simulation->run->members[rank];
    uint32_t index = progress->asked++, size = simulation->run->size;
    struct active *active = &progress->active[index % progress->window];
    struct phase *phase = &active->phase;

    memset(active, 0, sizeof(*active));
    phase->to = phase->from = NOBODY;
    phase->send_needs = phase->recv_needs = index;
    simulation->run->ops->phase(&member->shape, index, phase);
    active->index = index;
    active->sent = phase->to == NOBODY;
    active->posted = active->arrived = phase->from == NOBODY;
    if ((phase->to != NOBODY && (phase->to >= size || phase->to == rank)) ||
        (phase->from != NOBODY && (phase->from >= size || phase->from == rank)))
        fail(simulation, rank, index, "sends to %u, receives from %u", phase->to, phase->from);
    if (phase->send_needs > index || phase->recv_needs > index)
        fail(simulation, rank, index, "needs itself: %u %u", phase->send_needs, phase->recv_needs);
    if (simulation->failed)
        return;
    if (phase->to != NOBODY) {
        active->send_number = progress->sent[phase->to]++;
        if (phase->send_needs < progress->send_needs[phase->to])
            fail(simulation, rank, index, "send_needs decrease");
        progress->send_needs[phase->to] = phase->send_needs;
    }
    if (phase->from != NOBODY) {
        active->recv_number = progress->received[phase->from]++;
        if (phase->recv_needs < progress->recv_needs[phase->from])
            fail(simulation, rank, index, "recv_needs decrease");
        progress->recv_needs[phase->from] = phase->recv_needs;
    }
}

static void complete_send(struct simulation *simulation, uint32_t rank, struct active *active)
{
    struct cells cells = resolve(simulation, rank, active->index, &active->phase.send);

    for (uint64_t i = 0; i < cells.count; i++)
        cells.memory->readers[cells.first + i]--;
    active->sent = true;
}

/* Whom a member knows to have come when its first `phases` phases are complete. */
static uint64_t *known_after(const struct simulation *simulation, uint32_t rank, uint32_t phases)
{
    const struct progress *progress = &simulation->members[rank];
    uint64_t *known = calloc(simulation->words + 1, sizeof(*known));

    for (uint32_t i = 0; i < phases * simulation->words; i++)
        known[i % simulation->words] |= progress->heard[i];
    if (simulation->words)
        known[rank / 64] |= UINT64_C(1) << rank % 64;
    return known;
}

static void start_send(struct simulation *simulation, uint32_t rank, struct active *active)
{
    struct progress *target;
    struct message *message;
    struct cells cells;

    active->started = true;
    run_locals(simulation, rank, active->index, active->phase.before);
    if (active->phase.to == NOBODY || simulation->failed)
        return;
    target = &simulation->members[active->phase.to];
    cells = resolve(simulation, rank, active->index, &active->phase.send);
    check_readable(simulation, rank, active->index, &cells);
    if (simulation->failed)
        return;
    message = calloc(1, sizeof(*message));
    message->values = malloc((cells.count + 1) * sizeof(*message->values));
    if (cells.count)
        memcpy(message->values, cells.memory->cells + cells.first,
               cells.count * sizeof(*message->values));
    for (uint64_t i = 0; i < cells.count; i++)
        cells.memory->readers[cells.first + i]++;
    message->count = cells.count;
    message->number = active->send_number;
    message->sender = active;
    message->known = known_after(simulation, rank, active->phase.send_needs);
    message->next = target->incoming[rank];
    target->incoming[rank] = message;
    target->idle = false;
    simulation->run->messages++;
}

static void post_receive(struct simulation *simulation, uint32_t rank, struct active *active)
{
    struct cells cells = resolve(simulation, rank, active->index, &active->phase.recv);

    active->posted = true;
    if (simulation->failed)
        return;
    check_writable(simulation, rank, active->index, &cells);
    for (uint64_t i = 0; i < cells.count; i++)
        cells.memory->writers[cells.first + i]++;
}

/* Whether the message was there. */
static bool deliver(struct simulation *simulation, uint32_t rank, struct active *active)
{
    struct progress *progress = &simulation->members[rank];
    struct message **link = &progress->incoming[active->phase.from], *message;
    struct cells cells;

    while (*link && (*link)->number != active->recv_number)
        link = &(*link)->next;
    if (!*link)
        return false;
    message = *link;
    *link = message->next;
    cells = resolve(simulation, rank, active->index, &active->phase.recv);
    if (cells.count != message->count)
        fail(simulation, rank, active->index, "receives %llu cells, %llu were sent by %u",
             (unsigned long long)cells.count, (unsigned long long)message->count,
             active->phase.from);
    for (uint64_t i = 0; i < cells.count && !simulation->failed; i++) {
        cells.memory->cells[cells.first + i] = message->values[i];
        cells.memory->writers[cells.first + i]--;
    }
    if (message->sender) {
        complete_send(simulation, active->phase.from, message->sender);
        simulation->members[active->phase.from].idle = false;
    }
    active->arrived = true;
    for (uint32_t i = 0; i < simulation->words; i++)
        progress->heard[active->index * simulation->words + i] = message->known[i];
    free(message->known);
    free(message->values);
    free(message);
    return true;
}

/* Whether a send completes before it arrives: all of them, none, or some, by the seed. */
static bool early_send(uint64_t seed, uint32_t rank, uint32_t index)
{
    if (seed % 3 < 2)
        return seed % 3;
    return mix(seed ^ mix(rank ^ (uint64_t)index << 20)) & 1;
}

/* Completes a send that has not arrived, where it may. */
static bool complete_early(struct simulation *simulation, uint32_t rank, struct active *active)
{
    struct message *message = simulation->members[active->phase.to].incoming[rank];

    while (message && message->sender != active)
        message = message->next;
    if (!message || !early_send(simulation->run->seed, rank, active->index))
        return false;
    message->sender = NULL;
    complete_send(simulation, rank, active);
    return true;
}

/* Does one thing for a phase that can be done; false: nothing. */
static bool advance_phase(struct simulation *simulation, uint32_t rank, struct active *active)
{
    struct progress *progress = &simulation->members[rank];
    bool receive_first = draw(simulation, 2);

    if (active->complete)
        return false;
    if (receive_first && !active->posted && progress->done >= active->phase.recv_needs) {
        post_receive(simulation, rank, active);
        return true;
    }
    if (!active->started && progress->done >= active->phase.send_needs) {
        start_send(simulation, rank, active);
        return true;
    }
    if (!active->posted && progress->done >= active->phase.recv_needs) {
        post_receive(simulation, rank, active);
        return true;
    }
    if (active->posted && !active->arrived && deliver(simulation, rank, active))
        return true;
    if (active->started && !active->sent && complete_early(simulation, rank, active))
        return true;
    if (active->started && active->sent && active->posted && active->arrived) {
        run_locals(simulation, rank, active->index, active->phase.after);
        active->complete = true;
        return true;
    }
    return false;
}

/* One thing for a member; false: nothing could be done. */
static bool advance_member(struct simulation *simulation, uint32_t rank)
{
    struct progress *progress = &simulation->members[rank];
    uint32_t under_way, from;

    if (progress->idle)
        return false;
    while (progress->done < progress->asked &&
           progress->active[progress->done % progress->window].complete)
        progress->done++;
    if (progress->asked < progress->phases && progress->asked - progress->done < progress->window) {
        ask(simulation, rank);
        return true;
    }
    under_way = progress->asked - progress->done;
    if (under_way == 0)
        return false;
    from = (uint32_t)draw(simulation, under_way);
    for (uint32_t i = 0; i < under_way; i++)
        if (advance_phase(
                simulation, rank,
                &progress->active[(progress->done + (from + i) % under_way) % progress->window]))
            return true;
    progress->idle = true;
    return false;
}

static void prepare_members(struct simulation *simulation)
{
    struct run *run = simulation->run;
    uint32_t size = run->size;

    for (uint32_t i = 0; i < size; i++) {
        struct member *member = &run->members[i];
        struct progress *progress = &simulation->members[i];

        if (draw(simulation, 2) == 0)
            member->shape.mark = &member->mark;
        progress->phases = run->ops->prepare(&member->shape);
        progress->window = member->shape.window ? member->shape.window : 8;
        if (progress->window > progress->phases)
            progress->window = progress->phases + !progress->phases;
        progress->active = calloc(progress->window, sizeof(*progress->active));
        progress->incoming = calloc(size, sizeof(*progress->incoming));
        progress->sent = calloc((size_t)size * 4, sizeof(*progress->sent));
        progress->received = progress->sent + size;
        progress->send_needs = progress->received + size;
        progress->recv_needs = progress->send_needs + size;
        progress->heard =
            calloc((size_t)progress->phases * simulation->words + 1, sizeof(*progress->heard));
        progress->slow = draw(simulation, 4) == 0;
        memory_init(&member->temp, member->shape.temp_bytes / run->unit);
        if (member->shape.temp_bytes % run->unit)
            fail(simulation, i, 0, "temporary memory ends inside an element");
        if (progress->phases > run->phases_most)
            run->phases_most = progress->phases;
        if (member->shape.temp_bytes > run->temp_most)
            run->temp_most = member->shape.temp_bytes;
    }
}

static void check_known(struct simulation *simulation, uint32_t rank)
{
    uint64_t *known = known_after(simulation, rank, simulation->members[rank].phases);

    for (uint32_t i = 0; simulation->words && i < simulation->run->size; i++)
        if (!(known[i / 64] >> i % 64 & 1))
            fail(simulation, rank, 0, "passed the barrier before %u came", i);
    free(known);
}

static void finish_members(struct simulation *simulation)
{
    for (uint32_t i = 0; i < simulation->run->size; i++) {
        struct progress *progress = &simulation->members[i];

        if (progress->done < progress->phases)
            fail(simulation, i, progress->done, "deadlock (%u phases)", progress->phases);
        check_known(simulation, i);
        for (uint32_t from = 0; from < simulation->run->size; from++)
            while (progress->incoming[from]) {
                struct message *message = progress->incoming[from];

                fail(simulation, i, 0, "message of %u was never received", from);
                progress->incoming[from] = message->next;
                free(message->known);
                free(message->values);
                free(message);
            }
        free(progress->active);
        free(progress->incoming);
        free(progress->sent);
        free(progress->heard);
    }
    free(simulation->members);
}

int simulate(struct run *run)
{
    struct simulation simulation = {.run = run, .random = run->seed};
    bool moved = true;

    simulation.members = calloc(run->size, sizeof(*simulation.members));
    simulation.words = run->barrier ? (run->size + 63) / 64 : 0;
    run->error[0] = '\0';
    prepare_members(&simulation);
    while (moved && !simulation.failed) {
        uint32_t first = (uint32_t)draw(&simulation, run->size);

        moved = false;
        for (uint32_t i = 0; i < run->size && !simulation.failed; i++) {
            uint32_t rank = (first + i) % run->size;
            unsigned turns = 1 + (unsigned)draw(&simulation, 8);

            /* The slow ones move when nobody else can, or seldom. */
            if (simulation.members[rank].slow && draw(&simulation, 16) != 0)
                continue;
            while (turns-- > 0 && !simulation.failed && advance_member(&simulation, rank))
                moved = true;
        }
        for (uint32_t i = 0; !moved && i < run->size && !simulation.failed; i++)
            moved = advance_member(&simulation, i);
    }
    finish_members(&simulation);
    return simulation.failed ? -1 : 0;
}
