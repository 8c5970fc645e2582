/*
 * spread.c - messages spread over contexts, each with a thread of the library.
 *
 * The helper spread.h does it all: the main thread produces and waits, the contexts belong to
 * threads of asynchronous progress, and nobody takes a lock. Each message carries its number among
 * those of its pair of tasks, by which its order is checked. There are several rounds; each ends
 * by waiting until everything sent by anybody has come.
 *
 *     pamirun -n 4 spread [--messages N] [--contexts N] [--rounds N]
 */
#include "spread.h"

#include <pamix.h>

enum {
    DISPATCH = 1
};

/* Of one context; used by whoever advances it. */
struct order {
    _Alignas(64) uint64_t *next; /* number expected of each source */
};

static struct spread spread;
static struct order order[SPREAD_CONTEXTS];
static pami_context_t context[SPREAD_CONTEXTS];
static size_t contexts = 2, messages = 20000, rounds = 3;

static void deliver(void *cookie, size_t on, size_t source, const void *data, size_t bytes)
{
    uint64_t number;

    (void)cookie, (void)bytes;
    memcpy(&number, data, sizeof(number));
    if (order[on].next[source]++ != number) {
        fprintf(stderr, "spread: a message of task %zu came out of order\n", source);
        exit(EXIT_FAILURE);
    }
}

static void *memory(size_t count, size_t bytes)
{
    void *at = calloc(count, bytes);

    if (at == NULL)
        exit(EXIT_FAILURE);
    return at;
}

/* Every task gets its share from every other one. */
static void produce(uint64_t *number)
{
    for (size_t i = 0; i < messages; i++) {
        size_t destination = (i * 7 + spread.task) % spread.tasks;

        spread_send(&spread, destination, &number[destination], sizeof(number[destination]));
        number[destination]++;
    }
}

/* 0: it is none. */
static size_t number_of(const char *text)
{
    char *end;
    size_t number = text != NULL && *text != '-' ? strtoul(text, &end, 10) : 0;

    return number != 0 && *end == '\0' ? number : 0;
}

static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        size_t value = number_of(argv[i + 1]);

        if (strcmp(argv[i], "--messages") == 0 && value != 0) {
            messages = value;
        } else if (strcmp(argv[i], "--rounds") == 0 && value != 0) {
            rounds = value;
        } else if (strcmp(argv[i], "--contexts") == 0 && value != 0 && value <= SPREAD_CONTEXTS) {
            contexts = value;
        } else {
            printf("Usage: spread [--messages N] [--contexts 1..%d] [--rounds N]\n",
                   SPREAD_CONTEXTS);
            exit(EXIT_FAILURE);
        }
    }
}

int main(int argc, char **argv)
{
    pami_client_t client;
    uint64_t *number, arrived = 0;

    read_options(argc, argv);
    SPREAD_CHECK(PAMI_Client_create("spread", &client, NULL, 0));
    SPREAD_CHECK(PAMI_Context_createv(client, NULL, 0, context, contexts));
    spread_open(&spread, client, context, contexts, DISPATCH, deliver, NULL);
    for (size_t i = 0; i < contexts; i++)
        order[i].next = memory(spread.tasks, sizeof(uint64_t));
    number = memory(spread.tasks, sizeof(*number));
    SPREAD_CHECK(PAMIX_Context_async_enable(context, contexts, NULL));
    for (size_t i = 0; i < rounds; i++) {
        produce(number);
        arrived += spread_wait_all(&spread);
    }
    printf("task %zu: %zu messages sent, %llu received in order over %zu contexts\n", spread.task,
           rounds * messages, (unsigned long long)arrived, contexts);
    SPREAD_CHECK(PAMIX_Context_async_disable(context, contexts));
    SPREAD_CHECK(PAMI_Context_destroyv(context, contexts));
    SPREAD_CHECK(PAMI_Client_destroy(&client));
    spread_close(&spread);
    for (size_t i = 0; i < contexts; i++)
        free(order[i].next);
    free(number);
    return 0;
}
