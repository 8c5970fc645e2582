/*
 * Speaks PMI-1 without the library: a whole conversation with every request, and, for the shell
 * tests beside this file, anything else that can be sent.
 *
 *     pmi_raw --converse           every request and its answer
 *     pmi_raw --flood N            N requests in a row before the first answer is read
 *     pmi_raw --fuzz SEED          a few hundred lines of more and less nonsense
 *     pmi_raw WORD...              "<" reads a line and prints it, "!" waits for ever, "." closes
 *                                  the socket, anything else is sent as a line
 *
 * Run: tasks=1,2,5 args=--converse timeout=20
 * Run: tasks=1,3 args="--flood 20000" timeout=20
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int fd, rank, size;

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "task %d: %s: %s\n", rank, what, detail);
    exit(1);
}

static void say(const char *text)
{
    size_t length = strlen(text);

    while (length > 0) {
        ssize_t sent = send(fd, text, length, MSG_NOSIGNAL);

        if (sent < 0)
            fail("cannot send", text);
        text += sent;
        length -= (size_t)sent;
    }
}

/* The next line without its newline; NULL at the end. */
static const char *hear(void)
{
    static char buffer[1 << 16], line[1 << 16];
    static size_t have;
    char *newline;

    while ((newline = memchr(buffer, '\n', have)) == NULL) {
        ssize_t got = recv(fd, buffer + have, sizeof buffer - have, 0);

        if (got <= 0)
            return NULL;
        have += (size_t)got;
    }
    *newline = '\0';
    memcpy(line, buffer, (size_t)(newline - buffer) + 1);
    have -= (size_t)(newline - buffer) + 1;
    memmove(buffer, newline + 1, have);
    return line;
}

/* Sends the request and expects an answer that begins so. */
static const char *ask(const char *request, const char *expected)
{
    const char *answer;

    say(request);
    say("\n");
    answer = hear();
    if (answer == NULL)
        fail("no answer to", request);
    if (strncmp(answer, expected, strlen(expected)) != 0) {
        fprintf(stderr, "expected %s\n", expected);
        fail(request, answer);
    }
    return answer;
}

static char space[300];

/* ask, with %s standing for the name of the key space and %d for a task. */
static const char *askf(const char *format, int task, const char *expected)
{
    char request[4096], *at;
    char number[16];
    size_t used = 0;

    snprintf(number, sizeof number, "%d", task);
    for (at = (char *)format; *at != '\0' && used < sizeof request - 512; at++) {
        const char *insert = strncmp(at, "%s", 2) == 0   ? space
                             : strncmp(at, "%d", 2) == 0 ? number
                                                         : NULL;

        if (insert == NULL) {
            request[used++] = *at;
            continue;
        }
        memcpy(request + used, insert, strlen(insert));
        used += strlen(insert);
        at++;
    }
    request[used] = '\0';
    return ask(request, expected);
}

static void greet(void)
{
    ask("cmd=init pmi_version=1 pmi_subversion=1",
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
    if (sscanf(ask("cmd=get_my_kvsname", "cmd=my_kvsname kvsname="), "cmd=my_kvsname kvsname=%299s",
               space) != 1)
        fail("kvsname", "missing");
}

static void converse_cards(void)
{
    char text[4096], key[128], *end;
    const char *answer;
    int i, keys = 0, index = 0;

    askf("cmd=get kvsname=%s key=PMI_process_mapping", 0,
         "cmd=get_result rc=0 msg=success value=(vector,");
    askf("cmd=put kvsname=%s key=k%d value=v=%d,~", rank, "cmd=put_result rc=0");
    askf("cmd=put kvsname=%s key=k%d value=again", rank, "cmd=put_result rc=-1 msg=duplicate_key");
    askf("cmd=put kvsname=other key=o%d value=x", rank, "cmd=put_result rc=-1");
    askf("cmd=put kvsname=%s key= value=x", rank, "cmd=put_result rc=-1");
    askf("cmd=put kvsname=%s value=x", rank, "cmd=put_result rc=-1");
    askf("cmd=put kvsname=%s key=x%d", rank, "cmd=put_result rc=-1");
    askf("cmd=put kvsname=%s key=empty%d value=", rank, "cmd=put_result rc=0");
    askf("cmd=get kvsname=%s key=empty%d", rank, "cmd=get_result rc=0 msg=success value=");
    memset(key, 'k', sizeof key);
    snprintf(key + 64 - 8, 9, "%08d", rank); /* 64 characters: one too many */
    snprintf(text, sizeof text, "cmd=put kvsname=%s key=%s value=x", space, key);
    ask(text, "cmd=put_result rc=-1 msg=too_long");
    end = text + snprintf(text, sizeof text, "cmd=put kvsname=%s key=%s value=", space, key + 1);
    memset(end, 'v', 1024);
    end[1024] = '\0';
    ask(text, "cmd=put_result rc=-1 msg=too_long");
    end[1023] = '\0';
    ask(text, "cmd=put_result rc=0");
    ask("cmd=barrier_in", "cmd=barrier_out");
    for (i = 0; i < size; i++) {
        snprintf(text, sizeof text, "cmd=get_result rc=0 msg=success value=v=%d,~", i);
        if (strcmp(askf("cmd=get kvsname=%s key=k%d", i, "cmd=get_result"), text) != 0)
            fail("wrong value", text);
    }
    askf("cmd=get kvsname=%s key=k%d", size, "cmd=get_result rc=-1");
    while (snprintf(text, sizeof text, "cmd=getbyidx kvsname=%s idx=%d", space, index),
           answer = ask(text, "cmd=getbyidx_results rc="),
           sscanf(answer, "cmd=getbyidx_results rc=0 nextidx=%d", &index) == 1)
        keys++;
    if (keys < 1 + 3 * size)
        fail("getbyidx", answer);
    ask("cmd=barrier_in", "cmd=barrier_out");
}

static void converse_services(void)
{
    askf("cmd=lookup_name service=s%d", rank, "cmd=lookup_result info=error rc=-1");
    askf("cmd=publish_name service=s%d port=tag#0$port#%d$", rank,
         "cmd=publish_result info=ok rc=0");
    askf("cmd=publish_name service=s%d port=b", rank, "cmd=publish_result info=error rc=-1");
    ask("cmd=barrier_in", "cmd=barrier_out");
    askf("cmd=lookup_name service=s%d", (rank + 1) % size, "cmd=lookup_result info=ok rc=0");
    ask("cmd=barrier_in", "cmd=barrier_out");
    askf("cmd=unpublish_name service=s%d", rank, "cmd=unpublish_result info=ok rc=0");
    askf("cmd=unpublish_name service=s%d", rank, "cmd=unpublish_result info=error rc=-1");
    askf("cmd=lookup_name service=s%d", rank, "cmd=lookup_result info=error rc=-1");
    askf("cmd=publish_name service=s%d port=b", rank, "cmd=publish_result info=ok rc=0");
}

static void converse(void)
{
    char text[64];
    int i;

    ask("cmd=init pmi_version=2 pmi_subversion=0", "cmd=response_to_init pmi_version=1 "
                                                   "pmi_subversion=1 rc=-1");
    greet();
    ask("cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024");
    ask("cmd=get_appnum", "cmd=appnum appnum=0");
    snprintf(text, sizeof text, "cmd=universe_size size=%d", size);
    ask("cmd=get_universe_size", text);
    converse_cards();
    converse_services();
    ask("mcmd=spawn\nnprocs=2\nexecname=true\n = x\nendcmd", "cmd=spawn_result rc=-1");
    ask("cmd=no_such_request key=x", "cmd=result rc=-1");
    for (i = 0; i < 50; i++)
        ask("cmd=barrier_in", "cmd=barrier_out");
    ask("cmd=finalize", "cmd=finalize_ack");
    /* Another program of the same task: a new session, in which its keys may be put again. */
    greet();
    askf("cmd=put kvsname=%s key=k%d value=new", rank, "cmd=put_result rc=0");
    ask("cmd=barrier_in", "cmd=barrier_out");
    askf("cmd=get kvsname=%s key=k%d", (rank + 1) % size,
         "cmd=get_result rc=0 msg=success value=new");
    ask("cmd=finalize", "cmd=finalize_ack");
}

static void flood(int count)
{
    const char *answer;
    int i;

    greet();
    if (fork() == 0) { /* reads nothing; keeps writing although nobody takes the answers */
        for (i = 0; i < count; i++)
            say("cmd=get_maxes\n");
        _exit(0);
    }
    usleep(100000);
    for (i = 0; i < count; i++)
        if ((answer = hear()) == NULL || strncmp(answer, "cmd=maxes ", 10) != 0)
            fail("flood", answer == NULL ? "the end" : answer);
    ask("cmd=barrier_in", "cmd=barrier_out");
}

static uint64_t seed;

static unsigned pick(unsigned below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % below;
}

/* Requests of the protocol with a byte changed here and there, cut, joined, and plain noise. */
static void fuzz(void)
{
    static const char *const words[] = {
        "cmd=init pmi_version=1 pmi_subversion=1\n",
        "cmd=put kvsname=x key=a value=b\n",
        "cmd=get kvsname=x key=PMI_process_mapping\n",
        "cmd=getbyidx kvsname=x idx=0\n",
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
        "cmd=abort exitcode=x\n",
        " ",
        "\n",
        "=",
        "cmd=",
        "idx=-1 ",
        "key=%s%n ",
        "\0",
        "value=",
        "rc=99999999999999999999 ",
    };
    char text[20000];
    int round, i, noisy = (int)pick(4);

    say(words[0]);
    for (round = 0; round < 300; round++) {
        const char *word = words[pick(sizeof words / sizeof words[0])];
        size_t length = strlen(word) + (word[0] == '\0');

        memcpy(text, word, length);
        for (i = 0; i < noisy && pick(8) == 0; i++)
            text[pick((unsigned)length)] = (char)pick(256);
        if (pick(400) == 0) {
            length = 1 + pick(sizeof text - 1);
            memset(text, 'A' + (int)pick(26), length);
        }
        if (send(fd, text, length, MSG_NOSIGNAL) < 0)
            return;
        while (recv(fd, text, sizeof text, MSG_DONTWAIT) > 0)
            continue;
    }
}

static void speak(int count, char **words)
{
    int i;

    for (i = 0; i < count; i++) {
        const char *line;

        if (strcmp(words[i], "!") == 0)
            pause();
        else if (strcmp(words[i], ".") == 0)
            close(fd);
        else if (strcmp(words[i], "<") != 0) {
            say(words[i]);
            say("\n");
        } else if ((line = hear()) != NULL) {
            printf("%s\n", line);
            fflush(stdout);
        } else {
            printf("closed\n");
            exit(3);
        }
    }
}

int main(int argc, char **argv)
{
    if (getenv("PMI_FD") == NULL || getenv("PMI_RANK") == NULL || getenv("PMI_SIZE") == NULL) {
        printf("SKIP: no PMI-1 launcher\n");
        return 77;
    }
    fd = atoi(getenv("PMI_FD"));
    rank = atoi(getenv("PMI_RANK"));
    size = atoi(getenv("PMI_SIZE"));
    if (argc == 2 && strcmp(argv[1], "--converse") == 0) {
        converse();
    } else if (argc == 3 && strcmp(argv[1], "--flood") == 0) {
        flood(atoi(argv[2]));
    } else if (argc == 3 && strcmp(argv[1], "--fuzz") == 0) {
        seed = strtoull(argv[2], NULL, 10) * 4096 + (uint64_t)rank;
        pick(1);
        fuzz();
    } else {
        speak(argc - 1, argv + 1);
    }
    return 0;
}
