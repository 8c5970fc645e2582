/*
 * The PMI-1 server of pamirun against tasks that send anything, cut anywhere, and leave at any
 * moment: no crash, bounded memory, and the barrier keeps its promises.
 *
 *     pmi1_server [ROUNDS [SEED]]
 *
 * The server is part of a tool and in no library, so its sources are included here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/pamirun/cards.c"
#include "../../tools/pamirun/server.c"

#include "fuzz/rounds.h"

#define TASKS 4

static long answered, broken, aborted;
static unsigned noise; /* one piece in so many is spoilt; 0: none */
static struct server server;

/* Takes some of the answers, which must be whole lines of the protocol. */
static void on_answer(void *cookie, uint32_t task)
{
    struct peer *peer = &server.peers[task];

    CHECK(cookie == &server && task < TASKS && !peer->gone);
    CHECK(peer->answer_have > 0 && peer->answers[peer->answer_have - 1] == '\n');
    CHECK(memchr(peer->answers, '\0', peer->answer_have) == NULL);
    answered++;
    if (pick(3) != 0)
        server_sent(&server, task, 1 + pick((unsigned)peer->answer_have));
}

static void on_abort(void *cookie, uint32_t task, int code)
{
    (void)cookie, (void)code;
    CHECK(task < TASKS);
    aborted++;
}

static void on_broken(void *cookie, uint32_t task, const char *why)
{
    (void)cookie;
    CHECK(task < TASKS && server.peers[task].broken && why[0] != '\0');
    broken++;
}

static const struct server_events counting = {on_answer, on_abort, on_broken};

static size_t make(char *text, size_t room)
{
    static const char *const words[] = {
        "cmd=init pmi_version=1 pmi_subversion=1\n",
        "cmd=init pmi_version=2 pmi_subversion=0\n",
        "cmd=put kvsname=job key=a value=1\n",
        "cmd=put kvsname=job key=b value=2\n",
        "cmd=get kvsname=job key=a\n",
        "cmd=get kvsname=job key=PMI_process_mapping\n",
        "cmd=getbyidx kvsname=job idx=0\n",
        "cmd=getbyidx kvsname=job idx=2147483647\n",
        "cmd=get_maxes\n",
        "cmd=get_my_kvsname\n",
        "cmd=get_universe_size\n",
        "cmd=get_appnum\n",
        "cmd=publish_name service=s port=p\n",
        "cmd=lookup_name service=s\n",
        "cmd=unpublish_name service=s\n",
        "mcmd=spawn\nnprocs=1\n",
        "endcmd\n",
        "cmd=finalize\n",
        "cmd=barrier_in\n",
        "cmd=abort exitcode=7\n",
        "cmd=abort\n",
    };
    const char *word = words[pick(sizeof words / sizeof words[0])];
    size_t length = strlen(word);

    memcpy(text, word, length);
    if (noise != 0 && pick(noise) == 0)
        text[pick((unsigned)length)] = (char)pick(256);
    if (noise != 0 && pick(noise * 20) == 0) {
        length = 1 + pick((unsigned)room);
        memset(text, 'a' + (int)pick(26), length);
    }
    if (noise != 0 && pick(noise * 2) == 0)
        length = 1 + pick((unsigned)length);
    return length;
}

static void check_server(void)
{
    uint32_t i, waiting = 0;

    for (i = 0; i < TASKS; i++) {
        waiting += server.peers[i].waiting;
        CHECK(server.peers[i].have < PMI1_LINE_MAX);
    }
    CHECK(waiting == server.waiting && waiting < TASKS);
    for (i = 0; i < TASKS; i++)
        CHECK(waiting == 0 || !server.peers[i].gone || server.peers[i].waiting);
}

/* One job: a few hundred pieces of input, until all tasks have gone. */
static void play(void)
{
    static const unsigned noises[] = {0, 400, 10};
    static const char *const init = "cmd=init pmi_version=1 pmi_subversion=1\n";
    char text[20000];
    int i;

    CHECK(server_open(&server, TASKS, "job", "(vector,(0,1,4))", &counting, &server) == 0);
    noise = noises[pick(3)];
    for (i = 0; i < TASKS && noise != 10; i++)
        server_input(&server, (uint32_t)i, init, strlen(init));
    for (i = 0; i < 400; i++) {
        uint32_t task = pick(TASKS);
        size_t length = make(text, sizeof text);
        char *exact;

        if (noise == 0 && server.peers[task].waiting)
            continue;
        exact = malloc(length);
        CHECK(exact != NULL);
        memcpy(exact, text, length);
        server_input(&server, task, exact, length);
        free(exact);
        check_server();
        if (pick(300) == 0)
            server_gone(&server, task);
        check_server();
    }
    server_close(&server);
}

int main(int argc, char **argv)
{
    long rounds = rounds_wanted(argc, argv, 3000);

    for (current = 0; current < rounds; current++)
        play();
    printf("%ld jobs: %ld answers, %ld broken sessions, %ld aborts\n", rounds, answered, broken,
           aborted);
    return answered > 0 && broken > 0 && aborted > 0 ? 0 : 1;
}
