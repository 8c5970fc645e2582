/*
 * team.c - start-up, barrier and all-reduce over active messages.
 *
 * The barrier is a dissemination: in round i a task sends a token to the task 2^i further and waits
 * for the one from 2^i before it; after ceil(log2 n) rounds everybody has heard of everybody, for
 * any n. Tokens are only counted, so a token of the next barrier may come early.
 *
 * The all-reduce goes up and down a binomial tree rooted at task 0. Each edge of the tree has a
 * slot of its own. A child cannot fill its slot again before its parent has emptied it: it gets the
 * result of this all-reduce only afterwards.
 */
#include "team.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLOT_RESULT = TEAM_ROUNDS
};

void team_die(const struct team *team, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "bfs: task %" PRIu32 ": %s\n", team->task, text);
    exit(EXIT_FAILURE);
}

void team_check(const struct team *team, pami_result_t result, const char *call)
{
    char text[256];

    if (result == PAMI_SUCCESS)
        return;
    PAMI_Error_text(text, sizeof(text));
    team_die(team, "%s: result %d: %s", call, (int)result, text);
}

void *team_alloc(const struct team *team, void *old, size_t bytes)
{
    void *memory = realloc(old, bytes > 0 ? bytes : 1);

    if (memory == NULL)
        team_die(team, "no memory for %zu bytes", bytes);
    return memory;
}

void team_advance(const struct team *team)
{
    pami_result_t result = PAMI_Context_advance(team->context, 1);

    if (result != PAMI_EAGAIN)
        team_check(team, result, "PAMI_Context_advance");
}

double team_time(const struct team *team)
{
    return PAMI_Wtime(team->client);
}

pami_endpoint_t team_endpoint(const struct team *team, uint32_t task)
{
    pami_endpoint_t endpoint;

    team_check(team, PAMI_Endpoint_create(team->client, task, 0, &endpoint),
               "PAMI_Endpoint_create");
    return endpoint;
}

void team_dispatch(const struct team *team, size_t id, pami_dispatch_p2p_function fn, void *cookie,
                   pami_dispatch_hint_t hints)
{
    pami_dispatch_callback_function callback = {.p2p = fn};

    team_check(team, PAMI_Dispatch_set(team->context, id, callback, cookie, hints),
               "PAMI_Dispatch_set");
}

static void send(const struct team *team, uint32_t task, size_t dispatch, uint32_t slot,
                 const uint64_t *words, size_t count)
{
    pami_send_immediate_t message = {
        .header = {.iov_base = &slot, .iov_len = sizeof(slot)},
        .data = {.iov_base = (void *)words, .iov_len = count * sizeof(*words)},
        .dispatch = dispatch,
        .dest = team_endpoint(team, task),
    };

    team_check(team, PAMI_Send_immediate(team->context, &message), "PAMI_Send_immediate");
}

/* The header of both kinds of message is the number of a round or a slot. */
static uint32_t slot_of(const struct team *team, const void *header, size_t size, uint32_t limit)
{
    uint32_t slot = UINT32_MAX;

    if (size == sizeof(slot))
        memcpy(&slot, header, sizeof(slot));
    if (slot >= limit)
        team_die(team, "malformed control message");
    return slot;
}

static void on_token(pami_context_t context, void *cookie, const void *header, size_t header_size,
                     const void *data, size_t size, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct team *team = cookie;

    (void)context, (void)data, (void)size, (void)origin, (void)recv;
    team->tokens[slot_of(team, header, header_size, TEAM_ROUNDS)]++;
}

static void on_words(pami_context_t context, void *cookie, const void *header, size_t header_size,
                     const void *data, size_t size, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct team *team = cookie;
    uint32_t index = slot_of(team, header, header_size, SLOT_RESULT + 1);
    struct team_slot *slot = index == SLOT_RESULT ? &team->result : &team->child[index];

    (void)context, (void)origin, (void)recv;
    if (size > sizeof(slot->word) || slot->full)
        team_die(team, "unexpected all-reduce message");
    memcpy(slot->word, data, size);
    slot->full = true;
}

void team_barrier(struct team *team)
{
    team->barriers++;
    for (uint32_t round = 0; ((uint64_t)1 << round) < team->tasks; round++) {
        uint64_t next = (uint64_t)team->task + ((uint64_t)1 << round);

        send(team, (uint32_t)(next % team->tasks), DISPATCH_TOKEN, round, NULL, 0);
        while (team->tokens[round] < team->barriers)
            team_advance(team);
    }
}

static void take(const struct team *team, struct team_slot *slot)
{
    while (!slot->full)
        team_advance(team);
    slot->full = false;
}

void team_reduce(struct team *team, enum team_op op, uint64_t *words, size_t count)
{
    uint32_t task = team->task, round = 0;

    /* Up: collect from the children, nearest first, until the bit that leads to the parent. */
    for (; (uint64_t)1 << round < team->tasks && !(task >> round & 1); round++) {
        struct team_slot *slot = &team->child[round];

        if ((uint64_t)task + ((uint64_t)1 << round) >= team->tasks)
            continue;
        take(team, slot);
        for (size_t i = 0; i < count; i++) {
            if (op == TEAM_SUM)
                words[i] += slot->word[i];
            else if (slot->word[i] > words[i])
                words[i] = slot->word[i];
        }
    }
    if (task != 0) {
        send(team, task - ((uint32_t)1 << round), DISPATCH_WORDS, round, words, count);
        take(team, &team->result);
        memcpy(words, team->result.word, count * sizeof(*words));
    }
    /* Down: the farthest child first, it has the largest subtree. */
    while (round-- > 0)
        if ((uint64_t)task + ((uint64_t)1 << round) < team->tasks)
            send(team, task + ((uint32_t)1 << round), DISPATCH_WORDS, SLOT_RESULT, words, count);
}

int64_t team_first(struct team *team, bool is)
{
    uint64_t word = is ? team->tasks - team->task : 0;

    team_reduce(team, TEAM_MAX, &word, 1);
    return word == 0 ? -1 : (int64_t)(team->tasks - word);
}

void team_start(struct team *team)
{
    pami_dispatch_hint_t hints = {.recv_immediate = PAMI_HINT_ENABLE,
                                  .multicontext = PAMI_HINT_DISABLE};
    pami_configuration_t query[] = {{.name = PAMI_CLIENT_TASK_ID},
                                    {.name = PAMI_CLIENT_NUM_TASKS},
                                    {.name = PAMI_CLIENT_NUM_LOCAL_TASKS},
                                    {.name = PAMI_CLIENT_LOCAL_TASKS}};

    memset(team, 0, sizeof(*team));
    team_check(team, PAMI_Client_create("bfs", &team->client, NULL, 0), "PAMI_Client_create");
    team_check(team, PAMI_Client_query(team->client, query, 4), "PAMI_Client_query");
    team->task = (uint32_t)query[0].value.intval;
    team->tasks = (uint32_t)query[1].value.intval;
    team_check(team, PAMI_Context_createv(team->client, NULL, 0, &team->context, 1),
               "PAMI_Context_createv");
    team_dispatch(team, DISPATCH_TOKEN, on_token, team, hints);
    team_dispatch(team, DISPATCH_WORDS, on_words, team, hints);

    /* The lowest task of each node stands for it. */
    uint64_t leader = 1;
    for (size_t i = 0; i < query[2].value.intval; i++)
        if (query[3].value.intarray[i] < team->task)
            leader = 0;
    team_reduce(team, TEAM_SUM, &leader, 1);
    team->nodes = (uint32_t)leader;
}

void team_finish(struct team *team)
{
    team_barrier(team);
    team_check(team, PAMI_Context_destroyv(&team->context, 1), "PAMI_Context_destroyv");
    team_check(team, PAMI_Client_destroy(&team->client), "PAMI_Client_destroy");
}
