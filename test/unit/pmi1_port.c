/*
 * The PMI-1 client where the launcher offers a port: it connects, says which process it is, and is
 * told its place in the job, or something else.
 *
 * The client runs in a child process; the test plays the launcher.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/wait.h>

#include "bootstrap/bootstrap.h"
#include "pmi1_script.h"

/* Runs `client` as process 7 of the script's launcher; it must exit with status 0. */
static void run_by_port(const struct step *steps, void (*client)(void))
{
    struct sockaddr_in place = {.sin_family = AF_INET};
    socklen_t length = sizeof place;
    int listener = socket(AF_INET, SOCK_STREAM, 0), status;
    struct pollfd poller = {.fd = listener, .events = POLLIN};
    char address[32];
    pid_t child;

    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(listener, (struct sockaddr *)&place, sizeof place), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&place, &length), 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(place.sin_port));
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        unsetenv("PMI_FD");
        unsetenv("PMI_RANK");
        unsetenv("PMI_SIZE");
        setenv("PMI_PORT", address, 1);
        setenv("PMI_ID", "7", 1);
        close(listener);
        client();
        exit(0);
    }
    assert_int_equal(poll(&poller, 1, 5000), 1);
    play(accept(listener, NULL, NULL), steps);
    close(listener);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        fail_msg("the client ended with wait status 0x%x", status);
}

static void client_has_a_place(void)
{
    struct bootstrap *bootstrap;

    CHECK(bootstrap_open(&bootstrap) == 0);
    CHECK(bootstrap->task == 1 && bootstrap->tasks == 3 && bootstrap->local_count == 2);
    CHECK(bootstrap_put(bootstrap, "k", "v") == 0);
}

/* A launcher further up has left its traces. What this process executes has no place of its own. */
static void client_is_below_another(void)
{
    setenv("PMI_FD", "99", 1);
    setenv("PMI_RANK", "5", 1);
    setenv("PMI_SIZE", "9", 1);
    client_has_a_place();
    CHECK(getenv("PMI_ID") == NULL);
}

static void client_is_refused(void)
{
    struct bootstrap *bootstrap;

    CHECK(bootstrap_open(&bootstrap) == -EPROTO);
}

/* Its socket had the lowest number that was free. */
static void client_is_turned_away(void)
{
    struct bootstrap *bootstrap;
    int next = dup(0), after;

    close(next);
    CHECK(bootstrap_open(&bootstrap) != 0);
    after = dup(0);
    CHECK(next >= 0 && after == next);
}

static void client_is_left(void)
{
    struct bootstrap *bootstrap;

    CHECK(bootstrap_open(&bootstrap) == -ECONNRESET);
}

#define ACK(size, rank)                                                                            \
    {                                                                                              \
        "cmd=initack pmiid=7\n",                                                                   \
            "cmd=initack\ncmd=set size=" size "\ncmd=set rank=" rank "\ncmd=set debug=0\n"         \
    }

static void test_port(void **state)
{
    static const struct step good[] = {
        ACK("3", "1"),
        GREETING,
        {"cmd=put kvsname=kvs_1 key=k value=v\n", "cmd=put_result rc=0 msg=success\n"},
        FINALIZE,
        END};
    static const struct step places[][2] = {
        {ACK("3", "3"), END}, {ACK("0", "0"), END}, {ACK("x", "1"), END}, {ACK("3", "-1"), END}};
    static const struct step few[] = {
        {"cmd=initack pmiid=7\n", "cmd=initack\ncmd=set size=3\ncmd=maxes rank=1\n"}, END};
    static const struct step turns_away[] = {
        ACK("3", "1"), {"cmd=init pmi_version=1 ", "cmd=response_to_init rc=-1\n"}, END};
    static const struct step leaves[] = {{"cmd=initack pmiid=7\n", NULL}, END};
    size_t i;

    (void)state;
    run_by_port(good, client_has_a_place);
    run_by_port(good, client_is_below_another);
    dribble = true;
    run_by_port(good, client_has_a_place);
    dribble = false;
    for (i = 0; i < sizeof places / sizeof places[0]; i++)
        run_by_port(places[i], client_is_refused);
    run_by_port(few, client_is_refused);
    run_by_port(turns_away, client_is_turned_away);
    run_by_port(leaves, client_is_left);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_port)};

    unsetenv("PAMI_BOOTSTRAP");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
