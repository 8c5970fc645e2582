/*
 * A task gets its first message from another one together with more connections than its reception
 * lets in at a time.
 *
 *     crowd             It is stopped while they come, so all wait at the door, the task of the job
 *                       before the others. That one is not sent away in their place.
 *     crowd slow        The task of the job gets no processor after it was let in, and is sent away
 *                       as one of the crowd. It comes again, and is at rest afterwards, though a
 *                       child of its has the socket, too, that has ended.
 *     crowd slow both   Meanwhile the other one has something to say to it, too.
 *     crowd full        It is stopped for longer than the peer timeout, and there is no room at the
 *                       door. The task of the job waits for some, and does not take it for dead.
 *     crowd full dies   Nor for alive when it dies then.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi" args="slow"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi" args="slow both"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_PEER_TIMEOUT=1" args="full"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_PROVIDER=tcp;ofi_rxm" args="slow"
 */
#include <errno.h>
#include <pami.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "basics.h"
#include "net/net.h"
#include "net/ports.h"

enum {
    HELLO = 1,
    STRANGERS = 100,
    STRANGERS_MAX = 5000, /* more than a system lets wait at a door */
    PORTS_MAX = 16,
    SLOW_S = 3, /* who is a stranger for so long makes room for others */
    FULL_S = 4,
};

static bool arrived, ended;
static volatile sig_atomic_t asked;
static pami_result_t result;
static int strangers[STRANGERS_MAX];
static unsigned stranger_count;

static void on_hello(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *pipe, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)pipe, (void)bytes, (void)origin, (void)recv;
    arrived = true;
}

static void on_end(pami_context_t context, void *cookie, pami_result_t how)
{
    (void)context, (void)cookie;
    result = how;
    ended = true;
}

static void on_signal(int number)
{
    (void)number;
    asked = 1;
}

static void rest(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};

    time.tv_nsec = (long)(1e9 * (seconds - (double)time.tv_sec));
    while (nanosleep(&time, &time) != 0)
        continue;
}

/* The launcher's other child; 0: not found. */
static pid_t find_other(void)
{
    char path[80];
    FILE *file;
    int pid = 0;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)getppid(), (int)getppid());
    file = fopen(path, "r");
    while (file != NULL && fscanf(file, "%d", &pid) == 1 && pid == getpid())
        pid = 0;
    if (file != NULL)
        fclose(file);
    return pid;
}

static void crowd(struct sockaddr_in *address, unsigned port, unsigned count)
{
    address->sin_port = htons((uint16_t)port);
    while (count-- > 0 && stranger_count < STRANGERS_MAX) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0 || (connect(fd, (struct sockaddr *)address, sizeof *address) != 0 &&
                       errno != EINPROGRESS)) {
            puts("a stranger does not get to the door");
            exit(2);
        }
        strangers[stranger_count++] = fd;
    }
}

static void crowd_leaves(void)
{
    while (stranger_count > 0)
        close(strangers[--stranger_count]);
}

static int somaxconn(void)
{
    FILE *file = fopen("/proc/sys/net/core/somaxconn", "r");
    int count = 4096;

    if (file == NULL || fscanf(file, "%d", &count) != 1)
        count = 4096;
    if (file != NULL)
        fclose(file);
    return count < 1024 ? count : 1024;
}

/* So many that no more can wait at the door. */
static unsigned whole_crowd(unsigned ports)
{
    struct rlimit limit;
    unsigned count = (unsigned)somaxconn() + STRANGERS;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= (rlim_t)ports * count + 100 && ports * count <= STRANGERS_MAX)
        return count;
    puts("SKIP: too few descriptors for a crowd");
    exit(77);
}

/* The other one is awake again while this one is stopped, and says something if it is to. */
static void change_over(pid_t other, bool both)
{
    pid_t self = getpid();
    pid_t child = fork();

    if (child == 0) {
        kill(self, SIGSTOP);
        rest(0.2); /* until all its threads have stopped */
        if (both)
            kill(other, SIGUSR1);
        kill(other, SIGCONT);
        rest(SLOW_S);
        kill(self, SIGCONT);
        rest(SLOW_S); /* with a socket that is over */
        _exit(0);
    }
    rest(0.5); /* or more: until it is this one's turn again */
}

static bool is_at_rest(void)
{
    clock_t before = clock();

    rest(1);
    return clock() - before < CLOCKS_PER_SEC / 10;
}

static int greet(pami_context_t context, pami_endpoint_t other, bool slow, bool full, bool more)
{
    bool dies = full && more;
    struct sockaddr_in address = {.sin_family = AF_INET};
    pami_send_t send = {.send = {.dispatch = HELLO, .dest = other}, .events.remote_fn = on_end};
    pid_t pid = find_other();
    unsigned ports[PORTS_MAX];
    unsigned count, each = STRANGERS;
    double start = test_now();
    bool lives;

    if (pid == 0) {
        puts("the other task is not a child of the launcher");
        return 2;
    }
    count = listening_ports(pid, &address.sin_addr, ports, PORTS_MAX);
    if (full)
        each = whole_crowd(count);
    kill(pid, SIGSTOP);
    for (unsigned i = 0; full && i < count; i++)
        crowd(&address, ports[i], each);
    if (PAMI_Send(context, &send) != PAMI_SUCCESS)
        return 2;
    rest(0.3); /* while it connects */
    for (unsigned i = 0; !full && i < count; i++)
        crowd(&address, ports[i], each);
    if (slow)
        change_over(pid, more);
    while (full && test_now() - start < FULL_S && !ended)
        PAMI_Context_advance(context, 10);
    if (ended)
        puts("the message to a task that lives has ended");
    lives = !ended;
    if (full && !dies)
        crowd_leaves();
    kill(pid, dies ? SIGKILL : SIGCONT);
    start = test_now();
    while (!ended || (slow && more && !arrived))
        PAMI_Context_advance(context, 10);
    if (dies)
        printf("the death was noticed after %.1f s\n", test_now() - start);
    else if (result != PAMI_SUCCESS)
        puts("the message to a task that lives has failed");
    if (slow && !is_at_rest()) {
        puts("a thread of the library does not rest");
        return 1;
    }
    return lives && (result == PAMI_SUCCESS) != dies ? 0 : 1;
}

static int be_greeted(pami_context_t context, pami_endpoint_t other)
{
    pami_send_immediate_t send = {.dispatch = HELLO, .dest = other};

    while (!arrived) {
        PAMI_Context_advance(context, 10);
        if (!asked)
            continue;
        asked = 0;
        if (PAMI_Send_immediate(context, &send) != PAMI_SUCCESS)
            return 2;
    }
    return 0;
}

int main(int argc, char **argv)
{
    bool slow = argc > 1 && strcmp(argv[1], "slow") == 0;
    bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    pami_configuration_t query = {.name = PAMI_CLIENT_TASK_ID};
    pami_dispatch_callback_function function = {.p2p = on_hello};
    pami_client_t client;
    pami_context_t context;
    pami_endpoint_t other;
    int status;

    signal(SIGUSR1, on_signal);
    if (PAMI_Client_create("crowd", &client, NULL, 0) != PAMI_SUCCESS ||
        PAMI_Client_query(client, &query, 1) != PAMI_SUCCESS ||
        PAMI_Context_createv(client, NULL, 0, &context, 1) != PAMI_SUCCESS ||
        PAMI_Dispatch_set(context, HELLO, function, NULL, (pami_dispatch_hint_t){0}) !=
            PAMI_SUCCESS)
        return 2;
    need_module();
    PAMI_Endpoint_create(client, (pami_task_t)(1 - query.value.intval), 0, &other);
    if (query.value.intval == 0)
        status = be_greeted(context, other);
    else
        status = greet(context, other, slow, full, argc > 2);
    PAMI_Context_destroyv(&context, 1);
    PAMI_Client_destroy(&client);
    return status;
}
