/*
 * pami_perf: how fast messages are here, and from which size on the rendezvous protocol pays.
 *
 * Task 0 measures, with the first other task of its node and with the first one of another node.
 * All others only answer: a PING comes back as it is, the last message of a STREAM is answered. To
 * compare protocols there are two clients, which differ in PAMI_RNDV_BYTES; their turns alternate,
 * and of several turns the quickest counts, as whatever else runs here only adds.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pami/pami.h>

#include "util/option.h"

enum {
    ID_PING = 1,
    ID_PONG,
    ID_STREAM, /* header: is it the last one? */
    ID_STREAM_DONE,
    ID_STOP,
    TURNS = 5,
    TURN_LEAST = 5, /* exchanges of a turn at least */
    STREAM_WINDOW = 64,
    SIZES_MOST = 48
};

/* How the two clients send; without --calibrate there is only the first, as options say. */
enum way {
    EAGER,
    RENDEZVOUS,
    WAYS
};

struct lane {
    pami_client_t client;
    pami_context_t context;
    size_t pongs, streams_done, under_way;
    char *out, *in;
};

static struct lane lanes[WAYS];
static size_t ways = 1;
static size_t task, tasks;
static size_t low = 8, high = (size_t)1 << 20;
static double seconds = 0.02; /* of one turn */
static bool calibrating, stopped;

static void die(const char *what)
{
    char text[256];

    PAMI_Error_text(text, sizeof(text));
    fprintf(stderr, "pami_perf: %s: %s\n", what, text);
    exit(1);
}

static void need(pami_result_t result, const char *what)
{
    if (result != PAMI_SUCCESS)
        die(what);
}

static size_t attribute(pami_client_t client, pami_attribute_name_t name)
{
    pami_configuration_t query = {.name = name};

    need(PAMI_Client_query(client, &query, 1), "PAMI_Client_query");
    return query.value.intval;
}

static void progress(void)
{
    for (size_t i = 0; i < ways; i++)
        PAMI_Context_advance(lanes[i].context, 1);
}

/* ---- messages ---- */

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    struct lane *lane = cookie;

    (void)context;
    if (result != PAMI_SUCCESS)
        die("a message is lost");
    lane->under_way--;
}

static void send_message(struct lane *lane, size_t id, pami_endpoint_t dest, const void *data,
                         size_t bytes, bool last)
{
    char mark = (char)last;
    pami_send_t send = {
        .send = {.header = {&mark, 1},
                 .data = {(void *)(uintptr_t)data, bytes},
                 .dispatch = id,
                 .dest = dest},
        .events = {.cookie = lane, .local_fn = on_sent},
    };

    lane->under_way++;
    need(PAMI_Send(lane->context, &send), "PAMI_Send");
}

struct arrival {
    struct lane *lane;
    size_t id, bytes;
    pami_endpoint_t origin;
    bool last;
};

static void answer(const struct arrival *arrival)
{
    struct lane *lane = arrival->lane;

    switch (arrival->id) {
    case ID_PING:
        send_message(lane, ID_PONG, arrival->origin, lane->in, arrival->bytes, true);
        break;
    case ID_PONG:
        lane->pongs++;
        break;
    case ID_STREAM:
        if (arrival->last)
            send_message(lane, ID_STREAM_DONE, arrival->origin, NULL, 0, true);
        break;
    case ID_STREAM_DONE:
        lane->streams_done++;
        break;
    default:
        stopped = true;
    }
}

static void on_received(pami_context_t context, void *cookie, pami_result_t result)
{
    struct arrival *arrival = cookie;

    (void)context;
    if (result != PAMI_SUCCESS)
        die("a message has not arrived");
    answer(arrival);
    free(arrival);
}

/* Ids are the same on both lanes; which lane it is the context tells. */
static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    struct lane *lane = context == lanes[0].context ? &lanes[0] : &lanes[1];
    struct arrival arrival = {
        .lane = lane,
        .id = (uintptr_t)cookie,
        .bytes = bytes,
        .origin = origin,
        .last = header_bytes == 1 && *(const char *)header != 0,
    };

    if (recv == NULL) {
        memcpy(lane->in, data, bytes);
        answer(&arrival);
        return;
    }
    recv->cookie = malloc(sizeof(arrival));
    if (recv->cookie == NULL)
        die("out of memory");
    memcpy(recv->cookie, &arrival, sizeof(arrival));
    recv->local_fn = on_received;
    recv->addr = lane->in;
}

/* ---- measuring ---- */

/* What is sent has been written a moment ago, as in programs. */
static void rewrite(char *data, size_t bytes, size_t round)
{
    for (size_t i = 0; i < bytes; i += 64)
        data[i] = (char)(round + i);
}

/* Seconds of half a round trip. */
static double ping_pong(struct lane *lane, pami_endpoint_t dest, size_t bytes)
{
    double begin = PAMI_Wtime(lane->client), now;
    size_t round = 0;

    do {
        size_t before = lane->pongs;

        rewrite(lane->out, bytes, round++);
        send_message(lane, ID_PING, dest, lane->out, bytes, true);
        while (lane->pongs == before || lane->under_way != 0)
            progress();
        now = PAMI_Wtime(lane->client);
    } while (round < TURN_LEAST || now - begin < seconds);
    return (now - begin) / (double)round / 2;
}

/* Bytes a second, one way. */
static double stream(struct lane *lane, pami_endpoint_t dest, size_t bytes)
{
    size_t before = lane->streams_done, round = 0;
    double begin = PAMI_Wtime(lane->client), now;
    bool last;

    do {
        now = PAMI_Wtime(lane->client);
        last = round + 1 >= TURN_LEAST && now - begin >= seconds;
        send_message(lane, ID_STREAM, dest, lane->out, bytes, last);
        round++;
        while (lane->under_way >= STREAM_WINDOW)
            progress();
    } while (!last);
    while (lane->streams_done == before || lane->under_way != 0)
        progress();
    return (double)round * (double)bytes / (PAMI_Wtime(lane->client) - begin);
}

static void table(pami_endpoint_t dest)
{
    printf("%12s %14s %14s\n", "bytes", "half trip, us", "one way, MB/s");
    for (size_t bytes = low; bytes <= high; bytes *= 2) {
        double trip = INFINITY, rate = 0;

        for (int turn = 0; turn < TURNS; turn++) {
            trip = fmin(trip, ping_pong(&lanes[0], dest, bytes));
            rate = fmax(rate, stream(&lanes[0], dest, bytes));
        }
        printf("%12zu %14.3f %14.1f\n", bytes, trip * 1e6, rate * 1e-6);
    }
}

/* The threshold with which all sizes together lose least; 0: every size by rendezvous. */
static size_t judge(const size_t *sizes, double times[][WAYS], size_t count)
{
    size_t best = 0;
    double best_cost = INFINITY;

    for (size_t eager = 0; eager <= count; eager++) {
        double cost = 0;

        for (size_t i = 0; i < count; i++)
            cost += log(times[i][i < eager ? EAGER : RENDEZVOUS]);
        if (cost < best_cost) {
            best_cost = cost;
            best = eager;
        }
    }
    return best != 0 ? sizes[best - 1] : 0;
}

static void calibrate(pami_endpoint_t dest)
{
    size_t sizes[SIZES_MOST], count = 0, best;
    double times[SIZES_MOST][WAYS];

    printf("%12s %14s %14s\n", "bytes", "eager, us", "rendezvous, us");
    for (size_t bytes = low; bytes <= high && count < SIZES_MOST; bytes *= 2, count++) {
        sizes[count] = bytes;
        times[count][EAGER] = times[count][RENDEZVOUS] = INFINITY;
        for (int turn = 0; turn < TURNS; turn++)
            for (size_t way = 0; way < WAYS; way++)
                times[count][way] = fmin(times[count][way], ping_pong(&lanes[way], dest, bytes));
        printf("%12zu %14.3f %14.3f\n", bytes, times[count][EAGER] * 1e6,
               times[count][RENDEZVOUS] * 1e6);
    }
    best = judge(sizes, times, count);
    if (best == 0)
        printf("rendezvous is quicker with all of these\n");
    else if (best == sizes[count - 1])
        printf("eager is quicker with all of these\n");
    printf("PAMI_RNDV_BYTES=%zu\n", best);
}

static bool is_local(size_t other)
{
    pami_configuration_t query = {.name = PAMI_CLIENT_LOCAL_TASKS};
    size_t count = attribute(lanes[0].client, PAMI_CLIENT_NUM_LOCAL_TASKS);

    need(PAMI_Client_query(lanes[0].client, &query, 1), "PAMI_Client_query");
    for (size_t i = 0; i < count; i++)
        if (query.value.intarray[i] == other)
            return true;
    return false;
}

static pami_endpoint_t endpoint_of(size_t other)
{
    pami_endpoint_t endpoint;

    need(PAMI_Endpoint_create(lanes[0].client, (pami_task_t)other, 0, &endpoint),
         "PAMI_Endpoint_create");
    return endpoint;
}

static void measure(void)
{
    for (int local = 1; local >= 0; local--) {
        size_t other = 1;

        while (other < tasks && is_local(other) != (local != 0))
            other++;
        if (other == tasks)
            continue;
        printf("with task %zu, %s:\n", other, local ? "on the same node" : "on another node");
        if (calibrating)
            calibrate(endpoint_of(other));
        else
            table(endpoint_of(other));
        fflush(stdout);
    }
    for (size_t other = 1; other < tasks; other++)
        send_message(&lanes[0], ID_STOP, endpoint_of(other), NULL, 0, true);
    while (lanes[0].under_way != 0)
        progress();
}

/* ---- the rest ---- */

static void open_lane(struct lane *lane, const char *rendezvous_bytes)
{
    pami_dispatch_callback_function function = {.p2p = on_message};
    pami_dispatch_hint_t hints = {0};

    if (rendezvous_bytes != NULL)
        option_set(OPT_RNDV_BYTES, rendezvous_bytes);
    need(PAMI_Client_create("pami_perf", &lane->client, NULL, 0), "PAMI_Client_create");
    need(PAMI_Context_createv(lane->client, NULL, 0, &lane->context, 1), "PAMI_Context_createv");
    lane->out = calloc(1, high);
    lane->in = calloc(1, high);
    if (lane->out == NULL || lane->in == NULL)
        die("out of memory");
    for (size_t id = ID_PING; id <= ID_STOP; id++)
        need(PAMI_Dispatch_set(lane->context, id, function, (void *)(uintptr_t)id, hints),
             "PAMI_Dispatch_set");
}

static void close_lane(struct lane *lane)
{
    need(PAMI_Context_destroyv(&lane->context, 1), "PAMI_Context_destroyv");
    need(PAMI_Client_destroy(&lane->client), "PAMI_Client_destroy");
    free(lane->out);
    free(lane->in);
}

static const char usage[] =
    "Usage: pamirun -n TASKS pami_perf [OPTION]...\n"
    "Measures messages from task 0 to the first other task of its node, and to the first one of\n"
    "another node.\n"
    "  --calibrate       from which size on the rendezvous protocol pays: PAMI_RNDV_BYTES\n"
    "  --bytes LOW-HIGH  sizes, each twice the one before; suffixes K, M, G (default 8-1M)\n"
    "  --seconds S       length of a turn, of which each number takes five (default 0.02)\n"
    "  --help            this text\n"
    "  --version         the version\n";

/* `value`, where it is not NULL, is what is wrong with the option. */
static int wrong(const char *option, const char *value, const char *what)
{
    const char *quote = value != NULL ? "'" : "";

    fprintf(stderr, "pami_perf: %s: %s%s%s%s%s; pami_perf --help lists the options\n", option,
            quote, value != NULL ? value : "", quote, value != NULL ? " " : "", what);
    return 2;
}

/* The exit status of who only prints. */
static int printed(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    fprintf(stderr, "pami_perf: the output could not be written\n");
    return 1;
}

/* A number with K, M or G, up to 1024G; 0: not one. */
static size_t read_bytes(const char *text, char **end)
{
    unsigned long long number = strtoull(text, end, 10);
    const char *suffix = **end != '\0' ? strchr("KMG", **end) : NULL;
    long shift = suffix != NULL ? 10 * (suffix - "KMG" + 1) : 0;

    *end += suffix != NULL;
    return number <= (unsigned long long)1 << (40 - shift) ? (size_t)number << shift : 0;
}

static bool read_seconds(const char *text)
{
    char *end;

    seconds = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(seconds) && seconds > 0;
}

static bool read_range(const char *text)
{
    char *end;

    low = high = read_bytes(text, &end);
    if (*end == '-')
        high = read_bytes(end + 1, &end);
    return *end == '\0' && low != 0 && low <= high;
}

/* -1 to go on, or the exit status. */
static int parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i], *value = argv[i + 1];
        bool is_bytes = strcmp(option, "--bytes") == 0;

        if (strcmp(option, "--help") == 0) {
            fputs(usage, stdout);
            return printed();
        }
        if (strcmp(option, "--version") == 0) {
            puts("pami_perf (libpami) " PAMI_VERSION_TEXT);
            return printed();
        }
        if (strcmp(option, "--calibrate") == 0) {
            calibrating = true;
            continue;
        }
        if (!is_bytes && strcmp(option, "--seconds") != 0)
            return wrong(option, NULL, "unknown argument");
        if (value == NULL)
            return wrong(option, NULL, "needs an argument");
        if (is_bytes ? !read_range(value) : !read_seconds(value))
            return wrong(option, value,
                         is_bytes ? "is not a range of bytes, as 8-1M" : "is not a time above 0");
        i++;
    }
    return -1;
}

int main(int argc, char **argv)
{
    int status = parse(argc, argv);

    if (status >= 0)
        return status;
    ways = calibrating ? WAYS : 1;
    open_lane(&lanes[EAGER], calibrating ? "1000000G" : NULL);
    if (calibrating)
        open_lane(&lanes[RENDEZVOUS], "0");
    task = attribute(lanes[0].client, PAMI_CLIENT_TASK_ID);
    tasks = attribute(lanes[0].client, PAMI_CLIENT_NUM_TASKS);
    if (tasks < 2)
        fprintf(stderr, "pami_perf: needs two tasks at least, as in: pamirun -n 2 pami_perf\n");
    else if (task == 0)
        measure();
    else
        while (!stopped)
            progress();
    for (size_t i = 0; i < ways; i++)
        close_lane(&lanes[i]);
    status = printed();
    return tasks < 2 ? 1 : status;
}
