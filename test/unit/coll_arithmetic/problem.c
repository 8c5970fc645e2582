/*
 * Set-up, expectation and comparison (problem.h).
 *
 * Every memory has a twin that holds what must be in it afterwards: what was there before, with the
 * results laid over it. So nothing outside of the results may change, gaps and sources included.
 */
#include "problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct setup {
    const struct problem *problem;
    struct run run;
    struct value **expected; /* of memory 0 and 1 of each member */
    uint64_t unit;
};

bool type_reduces(pami_xfer_type_t type)
{
    return type == PAMI_XFER_ALLREDUCE || type == PAMI_XFER_REDUCE || type == PAMI_XFER_SCAN ||
           type == PAMI_XFER_REDUCE_SCATTER;
}

bool type_varies(pami_xfer_type_t type)
{
    return type == PAMI_XFER_ALLGATHERV || type == PAMI_XFER_GATHERV ||
           type == PAMI_XFER_SCATTERV || type == PAMI_XFER_ALLTOALLV;
}

static uint64_t scramble(uint64_t value)
{
    return value_leaf(value).sequence;
}

/* Cells of the block for `to` from `from`; only alltoall knows both, others give 0 for one. */
static uint64_t cells_of(const struct problem *problem, uint32_t from, uint32_t to)
{
    uint64_t hash;

    if (problem->algorithm->type == PAMI_XFER_REDUCE_SCATTER && !problem->varied)
        return problem->cells / problem->size;
    if (!problem->varied)
        return problem->cells;
    hash = scramble(problem->seed ^ (uint64_t)from << 32 ^ (uint64_t)to << 1);
    return hash % 3 == 0 ? 0 : hash / 3 % (problem->cells + 1);
}

static struct value leaf(uint64_t rank, uint64_t block, uint64_t cell)
{
    return value_leaf(rank << 42 | block << 24 | cell);
}

static bool is_in_place(const struct problem *problem, uint32_t rank)
{
    if (problem->in_place == IN_PLACE_SOME)
        return scramble(problem->seed + rank) & 1;
    return problem->in_place == IN_PLACE_ALL;
}

static uint64_t layout_length(uint32_t blocks, const uint64_t *cells)
{
    uint64_t total = 2 + blocks;

    for (uint32_t i = 0; i < blocks; i++)
        total += cells[i];
    return total;
}

/* Blocks in order without gaps, or backwards with gaps. Takes over `cells`. */
static void view_init(struct view *view, struct memory *memory, uint32_t blocks, uint64_t *cells,
                      bool scattered)
{
    uint64_t at = 1;

    view->memory = memory;
    view->blocks = blocks;
    view->cells = cells;
    view->start = calloc(blocks + 1, sizeof(*view->start));
    view->dense = !scattered;
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t block = scattered ? blocks - 1 - i : i;

        view->start[block] = at;
        at += cells[block] + scattered;
    }
}

/* One block inside of another view. */
static void view_inside(struct view *view, const struct view *outer, uint32_t block, uint64_t cells)
{
    uint64_t *own = calloc(1, sizeof(*own));

    *own = cells;
    view_init(view, outer->memory, 1, own, false);
    view->start[0] = outer->start[block];
}

static uint64_t *block_cells(const struct problem *problem, uint32_t blocks, uint32_t rank,
                             bool sends)
{
    uint64_t *cells = calloc(blocks + 1, sizeof(*cells));
    bool both = problem->algorithm->type == PAMI_XFER_ALLTOALLV;

    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t block = blocks == 1 ? rank : i;

        cells[i] = !both   ? cells_of(problem, 0, block)
                   : sends ? cells_of(problem, rank, i)
                           : cells_of(problem, i, rank);
    }
    return cells;
}

/* Which blocks a member has: 0, 1 or all. */
static uint32_t blocks_of(const struct problem *problem, uint32_t rank, bool sends)
{
    bool root = rank == problem->root;

    switch (problem->algorithm->type) {
    case PAMI_XFER_BARRIER:
        return 0;
    case PAMI_XFER_REDUCE:
        return sends || root;
    case PAMI_XFER_ALLGATHER:
    case PAMI_XFER_ALLGATHERV:
        return sends ? 1 : problem->size;
    case PAMI_XFER_GATHER:
    case PAMI_XFER_GATHERV:
        return sends ? 1 : root ? problem->size : 0;
    case PAMI_XFER_SCATTER:
    case PAMI_XFER_SCATTERV:
        return !sends ? 1 : root ? problem->size : 0;
    case PAMI_XFER_ALLTOALL:
    case PAMI_XFER_ALLTOALLV:
        return problem->size;
    case PAMI_XFER_REDUCE_SCATTER:
        return sends ? problem->size : 1;
    default:
        return 1;
    }
}

static void setup_areas(struct setup *setup, uint32_t rank)
{
    const struct problem *problem = setup->problem;
    struct member *member = &setup->run.members[rank];
    uint32_t send_blocks = blocks_of(problem, rank, true);
    uint32_t recv_blocks = blocks_of(problem, rank, false);
    uint64_t *send_cells = block_cells(problem, send_blocks, rank, true);
    uint64_t *recv_cells = block_cells(problem, recv_blocks, rank, false);
    uint64_t send_length = layout_length(send_blocks, send_cells);
    uint64_t recv_length = layout_length(recv_blocks, recv_cells);
    bool same = member->shape.in_place;
    uint64_t longest = send_length > recv_length ? send_length : recv_length;

    memory_init(&member->memory[0], longest);
    memory_init(&member->memory[1], longest);
    if (!same || send_blocks == recv_blocks) {
        view_init(&member->send, &member->memory[0], send_blocks, send_cells,
                  problem->scattered && send_blocks > 1);
        view_init(&member->recv, &member->memory[same ? 0 : 1], recv_blocks, recv_cells,
                  problem->scattered && recv_blocks > 1);
    } else if (send_blocks > recv_blocks) {
        view_init(&member->send, &member->memory[0], send_blocks, send_cells, problem->scattered);
        view_inside(&member->recv, &member->send,
                    problem->algorithm->type == PAMI_XFER_REDUCE_SCATTER ? 0 : rank, *recv_cells);
        free(recv_cells);
    } else {
        view_init(&member->recv, &member->memory[1], recv_blocks, recv_cells, problem->scattered);
        view_inside(&member->send, &member->recv, rank, *send_cells);
        free(send_cells);
    }
    if (send_blocks == 0)
        member->send.memory = NULL;
    if (recv_blocks == 0)
        member->recv.memory = NULL;
}

static uint64_t *in_bytes(const struct setup *setup, const struct view *view)
{
    uint64_t *bytes = calloc(view->blocks + 1, sizeof(*bytes));

    for (uint32_t i = 0; i < view->blocks; i++)
        bytes[i] = view->cells[i] * setup->unit;
    return bytes;
}

static void setup_shape(struct setup *setup, uint32_t rank)
{
    const struct problem *problem = setup->problem;
    struct member *member = &setup->run.members[rank];
    struct shape *shape = &member->shape;
    pami_xfer_type_t type = problem->algorithm->type;
    bool rooted = type == PAMI_XFER_REDUCE || type == PAMI_XFER_GATHER ||
                  type == PAMI_XFER_GATHERV || type == PAMI_XFER_SCATTER ||
                  type == PAMI_XFER_SCATTERV;

    shape->rank = rank;
    shape->size = problem->size;
    shape->root = problem->root;
    shape->commutative = !problem->ordered;
    shape->exclusive = problem->exclusive;
    shape->element = type_reduces(type) ? (uint32_t)setup->unit : 1;
    shape->radix = problem->radix;
    shape->segment = problem->segment;
    shape->window = problem->window;
    shape->dense = !problem->scattered;
    shape->in_place = is_in_place(problem, rank) && (!rooted || rank == problem->root);
    if (type == PAMI_XFER_BROADCAST)
        shape->in_place = true;
    shape->receives = blocks_of(problem, rank, false) > 0;
    setup_areas(setup, rank);
    shape->bytes = type_varies(type) ? 0 : problem->cells * setup->unit;
    if (type == PAMI_XFER_REDUCE_SCATTER) {
        shape->bytes = layout_length(problem->size, member->send.cells) - 2 - problem->size;
        shape->bytes *= setup->unit;
        if (problem->varied)
            shape->send_bytes = in_bytes(setup, &member->send);
    } else if (type_varies(type)) {
        if (member->send.blocks > 1)
            shape->send_bytes = in_bytes(setup, &member->send);
        if (member->recv.blocks > 1 || type == PAMI_XFER_ALLGATHERV)
            shape->recv_bytes = in_bytes(setup, &member->recv);
        if (problem->size == 1 && !shape->send_bytes)
            shape->send_bytes = in_bytes(setup, &member->send);
        if (problem->size == 1 && !shape->recv_bytes)
            shape->recv_bytes = in_bytes(setup, &member->recv);
        shape->own_bytes = cells_of(problem, 0, rank) * setup->unit;
    }
}

/* The operand of `rank` in a cell of a block of AREA_SEND. */
static void fill(struct setup *setup, uint32_t rank)
{
    const struct problem *problem = setup->problem;
    struct member *member = &setup->run.members[rank];
    struct view *view = &member->send;

    for (int i = 0; i < 2; i++)
        for (uint64_t cell = 0; cell < member->memory[i].count; cell++)
            member->memory[i].cells[cell] = value_leaf(UINT64_MAX - cell);
    for (uint32_t block = 0; member->recv.memory && block < member->recv.blocks; block++)
        memset(member->recv.memory->cells + member->recv.start[block], 0,
               member->recv.cells[block] * sizeof(struct value));
    if (!view->memory || (problem->algorithm->type == PAMI_XFER_BROADCAST && rank != problem->root))
        return;
    for (uint32_t block = 0; block < view->blocks; block++)
        for (uint64_t cell = 0; cell < view->cells[block]; cell++)
            view->memory->cells[view->start[block] + cell] = leaf(rank, block, cell);
}

/* Operands of the ranks first .. last, combined. */
static struct value fold(uint32_t first, uint32_t last, uint64_t block, uint64_t cell)
{
    struct value value = leaf(first, block, cell);

    for (uint32_t rank = first + 1; rank <= last; rank++)
        value = value_combine(value, leaf(rank, block, cell));
    return value;
}

static struct value result(const struct problem *problem, uint32_t rank, uint32_t block,
                           uint64_t cell)
{
    switch (problem->algorithm->type) {
    case PAMI_XFER_BROADCAST:
        return leaf(problem->root, 0, cell);
    case PAMI_XFER_ALLREDUCE:
    case PAMI_XFER_REDUCE:
        return fold(0, problem->size - 1, 0, cell);
    case PAMI_XFER_SCAN:
        return fold(0, rank - problem->exclusive, 0, cell);
    case PAMI_XFER_SCATTER:
    case PAMI_XFER_SCATTERV:
        return leaf(problem->root, rank, cell);
    case PAMI_XFER_ALLTOALL:
    case PAMI_XFER_ALLTOALLV:
        return leaf(block, rank, cell);
    case PAMI_XFER_REDUCE_SCATTER:
        return fold(0, problem->size - 1, rank, cell);
    default:
        return leaf(block, 0, cell);
    }
}

static void expect(struct setup *setup, uint32_t rank)
{
    const struct problem *problem = setup->problem;
    struct member *member = &setup->run.members[rank];
    struct view *view = &member->recv;

    for (int i = 0; i < 2; i++) {
        struct memory *memory = &member->memory[i];
        struct value *twin = calloc(memory->count + 1, sizeof(*twin));

        memcpy(twin, memory->cells, memory->count * sizeof(*twin));
        setup->expected[2 * rank + (uint32_t)i] = twin;
        if (view->memory != memory ||
            (problem->algorithm->type == PAMI_XFER_SCAN && problem->exclusive && rank == 0))
            continue;
        for (uint32_t block = 0; block < view->blocks; block++)
            for (uint64_t cell = 0; cell < view->cells[block]; cell++)
                twin[view->start[block] + cell] = result(problem, rank, block, cell);
    }
}

static bool equal(const struct problem *problem, struct value found, struct value expected)
{
    if (found.power != expected.power || found.set != expected.set)
        return false;
    if (!type_reduces(problem->algorithm->type))
        return found.tree == expected.tree;
    return !problem->ordered || found.sequence == expected.sequence;
}

static void describe(const struct problem *problem, const char *text)
{
    print_error("%s (type %d) of %u, root %u: %s\n", problem->algorithm->name,
                (int)problem->algorithm->type, problem->size, problem->root, text);
    print_error("cells %llu%s of %llu bytes, segment %llu, radix %u, window %u, in place %d%s%s%s,"
                " seed %llu\n",
                (unsigned long long)problem->cells, problem->varied ? " varied" : "",
                (unsigned long long)problem->unit, (unsigned long long)problem->segment,
                problem->radix, problem->window, (int)problem->in_place,
                problem->scattered ? ", scattered" : "", problem->ordered ? ", ordered" : "",
                problem->exclusive ? ", exclusive" : "", (unsigned long long)problem->seed);
    fail();
}

static void compare(struct setup *setup)
{
    const struct problem *problem = setup->problem;
    char text[120];

    for (uint32_t rank = 0; rank < problem->size; rank++) {
        struct member *member = &setup->run.members[rank];

        for (uint32_t i = 0; i < 2; i++)
            for (uint64_t cell = 0; cell < member->memory[i].count; cell++)
                if (!equal(problem, member->memory[i].cells[cell],
                           setup->expected[2 * rank + i][cell])) {
                    snprintf(text, sizeof(text), "member %u: wrong value in memory %u cell %llu",
                             rank, i, (unsigned long long)cell);
                    describe(problem, text);
                }
        if (problem->algorithm->type != PAMI_XFER_ALLREDUCE)
            continue;
        for (uint64_t cell = 0; cell < problem->cells; cell++) {
            struct view *here = &member->recv, *there = &setup->run.members[0].recv;

            if (here->memory->cells[here->start[0] + cell].tree !=
                there->memory->cells[there->start[0] + cell].tree) {
                snprintf(text, sizeof(text), "member %u: other bits than member 0", rank);
                describe(problem, text);
            }
        }
    }
}

static void release(struct setup *setup)
{
    for (uint32_t rank = 0; rank < setup->problem->size; rank++) {
        struct member *member = &setup->run.members[rank];

        for (int i = 0; i < 2; i++) {
            memory_finish(&member->memory[i]);
            free(setup->expected[2 * rank + (uint32_t)i]);
        }
        memory_finish(&member->temp);
        free(member->send.start);
        free(member->send.cells);
        free(member->recv.start);
        free(member->recv.cells);
        free((void *)(uintptr_t)member->shape.send_bytes);
        free((void *)(uintptr_t)member->shape.recv_bytes);
    }
    free(setup->expected);
    free(setup->run.members);
}

void problem_run(const struct problem *problem, struct figures *figures)
{
    struct setup setup = {.problem = problem};

    setup.unit = problem->unit ? problem->unit : type_reduces(problem->algorithm->type) ? 4 : 1;
    setup.run = (struct run){.ops = problem->algorithm->schedule,
                             .size = problem->size,
                             .unit = setup.unit,
                             .seed = problem->seed,
                             .barrier = problem->algorithm->type == PAMI_XFER_BARRIER};
    setup.run.members = calloc(problem->size, sizeof(*setup.run.members));
    setup.expected = calloc(2 * (size_t)problem->size, sizeof(*setup.expected));
    for (uint32_t rank = 0; rank < problem->size; rank++) {
        setup_shape(&setup, rank);
        fill(&setup, rank);
        expect(&setup, rank);
    }
    if (simulate(&setup.run))
        describe(problem, setup.run.error);
    compare(&setup);
    if (figures) {
        figures->phases = setup.run.phases_most;
        figures->temp = setup.run.temp_most;
        figures->messages = setup.run.messages;
    }
    release(&setup);
}
