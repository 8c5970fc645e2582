/*
 * The PMI-1 server, see server.h.  A request is a row of the table `requests`.
 *
 * Two kinds of fault: a request that cannot be granted (a key that is not there, a value that is
 * too long) is answered with rc=-1; a request that is not PMI-1 breaks the session.
 * A key may be put once, except by a program that runs after another one in the same task.
 */
#include "server.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Task number of cards that the launcher put. */
#define BY_LAUNCHER UINT32_MAX

__attribute__((format(printf, 3, 4))) static void answer(struct server *server, uint32_t task,
                                                         const char *format, ...)
{
    struct peer *peer = &server->peers[task];
    size_t room = peer->answer_have + PMI1_LINE_MAX;
    va_list arguments;
    int length;

    if (peer->gone)
        return;
    if (peer->answer_room < room) {
        char *larger = realloc(peer->answers, room + PMI1_LINE_MAX);

        if (larger == NULL) {
            peer->broken = true;
            server->events->broken(server->cookie, task, strerror(ENOMEM));
            return;
        }
        peer->answers = larger;
        peer->answer_room = room + PMI1_LINE_MAX;
    }
    va_start(arguments, format);
    length = vsnprintf(peer->answers + peer->answer_have, PMI1_LINE_MAX, format, arguments);
    va_end(arguments);
    if (length > 0 && length < PMI1_LINE_MAX)
        peer->answer_have += (size_t)length;
    server->events->answer(server->cookie, task);
}

static void session_break(struct server *server, uint32_t task, const char *why)
{
    server->peers[task].broken = true;
    answer(server, task, "cmd=protocol_error rc=-1 msg=%s\n", why);
    server->events->broken(server->cookie, task, why);
}

static void do_init(struct server *server, uint32_t task, const struct pmi1_line *line)
{
    long version;

    if (pmi1_line_number(line, "pmi_version", 0, 99, &version) != 0 || version != 1) {
        answer(server, task,
               "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1 "
               "msg=only_PMI_1_is_spoken_here\n");
        return;
    }
    server->peers[task].era++;
    answer(server, task, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
}

static void do_get_maxes(struct server *server, uint32_t task, const struct pmi1_line *line)
{
    (void)line;
    answer(server, task, "cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d rc=0\n",
           PMI1_KVSNAME_MAX, PMI1_KEY_MAX, PMI1_VALUE_MAX);
}

static void do_get_appnum(struct server *server, uint32_t task, const struct pmi1_line *line)
{
    (void)line;
    answer(server, task, "cmd=appnum appnum=0 rc=0\n");
}

static void do_get_my_kvsname(struct server *server, uint32_t task, const struct pmi1_line *line)
{
    (void)line;
    answer(server, task, "cmd=my_kvsname kvsname=%s rc=0\n", server->space);
}

static void do_get_universe_size(struct server *server, uint32_t task, const struct pmi1_line *line)
{
    (void)line;
    answer(server, task, "cmd=universe_size size=%u rc=0\n", server->tasks);
}

/* Key or value of a request; NULL, or why not. */
static const char *take(const struct pmi1_line *line, const char *name, char *text, size_t size)
{
    const struct pmi1_field *field = pmi1_line_find(line, name);

    if (field == NULL || field->value == NULL)
        return "incomplete_request";
    return pmi1_line_text(line, name, text, size) == 0 ? NULL : "too_long";
}

static void barrier_release(struct server *server, const char *text)
{
    uint32_t i;

    server->waiting = 0;
    for (i = 0; i < server->tasks; i++) {
        if (!server->peers[i].waiting)
            continue;
        server->peers[i].waiting = false;
        answer(server, i, "%s", text);
    }
}

/* Servers that wait for the first client end with the job: they need not hear that none comes. */
static bool has_waiting_task(const struct server *server)
{
    for (uint32_t i = 0; i < server->helpers; i++)
        if (server->peers[i].waiting)
            return true;
    return false;
}

/* A barrier that can complete does so; one that no longer can fails for all who wait, once a task
 * does. */
static void barrier_check(struct server *server)
{
    char text[96];

    if (server->waiting == 0)
        return;
    if (server->waiting + server->excused == server->tasks) {
        barrier_release(server, "cmd=barrier_out rc=0\n");
    } else if (server->gone < server->tasks && !server->peers[server->gone].waiting &&
               has_waiting_task(server)) {
        if (server->gone < server->helpers)
            snprintf(text, sizeof text, "cmd=barrier_out rc=-1 msg=task_%u_has_left_the_job\n",
                     server->gone);
        else
            snprintf(text, sizeof text,
                     "cmd=barrier_out rc=-1 msg=communication_server_%u_has_ended\n",
                     server->gone - server->helpers);
        barrier_release(server, text);
    }
}

static void excuse(struct server *server, uint32_t task)
{
    if (server->peers[task].excused)
        return;
    server->peers[task].excused = true;
    server->excused++;
    barrier_check(server);
}

static void do_put(struct server *server, uint32_t task, const struct pmi1_line *line)
{
    char key[PMI1_KEY_MAX], value[PMI1_VALUE_MAX];
    uint32_t era = server->peers[task].era;
    const char *why = take(line, "key", key, sizeof key);
    const struct card *old;

    if (why == NULL && key[0] == '\0')
        why = "empty_key";
    if (why == NULL)
        why = take(line, "value", value, sizeof value);
    if (why == NULL && !pmi1_line_is(line, "kvsname", server->space))
        why = "unknown_kvsname";
    if (why == NULL) {
        old = cards_find(&server->cards, key);
        if (old != NULL && (old->task != task || old->era == era))
            why = "duplicate_key";
        else if (cards_put(&server->cards, key, value, task, era) != 0)
            why = "no_room";
    }
    answer(server, task, "cmd=put_result rc=%d msg=%s\n", why == NULL ? 0 : -1,
           why == NULL ? "success" : why);
    if (why == NULL && strncmp(key, SERVER_EXCUSE, strlen(SERVER_EXCUSE)) == 0)
        excuse(server, task);
}

static void do_get(struct server *server, uint32_t task, const struct pmi1_line *line)
{
    char key[PMI1_KEY_MAX];
    const char *why = take(line, "key", key, sizeof key);
    const struct card *card = NULL;

    if (why == NULL && !pmi1_line_is(line, "kvsname", server->space))
        why = "unknown_kvsname";
    if (why == NULL) {
        card = cards_find(&server->cards, key);
        if (card == NULL)
            why = "key_not_found";
    }
    if (why == NULL)
        answer(server, task, "cmd=get_result rc=0 msg=success value=%s\n", card->value);
    else
        answer(server, task, "cmd=get_result rc=-1 msg=%s value=unknown\n", why);
}

static void do_getbyidx(struct server *server, uint32_t task, const struct pmi1_line *line)
{
    const struct card *card;
    long i;

    if (pmi1_line_number(line, "idx", 0, INT32_MAX, &i) != 0 || (size_t)i >= server->cards.count) {
        answer(server, task, "cmd=getbyidx_results rc=-1 reason=no_more_keyvals\n");
        return;
    }
    card = &server->cards.list[i];
    answer(server, task, "cmd=getbyidx_results rc=0 nextidx=%ld key=%s val=%s\n", i + 1, card->key,
           card->value);
}

static void do_barrier_in(struct server *server, uint32_t task, const struct pmi1_line *line)
{
    (void)line;
    if (server->peers[task].excused) {
        session_break(server, task, "excused_from_barriers");
        return;
    }
    server->peers[task].waiting = true;
    server->waiting++;
    barrier_check(server);
}

static void do_publish_name(struct server *server, uint32_t task, const struct pmi1_line *line)
{
    char service[PMI1_VALUE_MAX], port[PMI1_VALUE_MAX];
    const char *why = take(line, "service", service, sizeof service);
    const struct card *old;

    if (why == NULL)
        why = take(line, "port", port, sizeof port);
    if (why == NULL) {
        old = cards_find(&server->services, service);
        if (old != NULL && old->value[0] != '\0')
            why = "service_already_published";
        else if (cards_put(&server->services, service, port, task, 0) != 0)
            why = "no_room";
    }
    answer(server, task, "cmd=publish_result info=%s rc=%d msg=%s\n", why == NULL ? "ok" : "error",
           why == NULL ? 0 : -1, why == NULL ? "success" : why);
}

/* The published port, or NULL; an unpublished service has an empty one. */
static const char *service_find(const struct server *server, const struct pmi1_line *line,
                                char service[PMI1_VALUE_MAX])
{
    const struct card *card;

    if (take(line, "service", service, PMI1_VALUE_MAX) != NULL)
        return NULL;
    card = cards_find(&server->services, service);
    return card == NULL || card->value[0] == '\0' ? NULL : card->value;
}

static void do_lookup_name(struct server *server, uint32_t task, const struct pmi1_line *line)
{
    char service[PMI1_VALUE_MAX];
    const char *port = service_find(server, line, service);

    if (port == NULL)
        answer(server, task, "cmd=lookup_result info=error rc=-1 msg=service_not_found\n");
    else
        answer(server, task, "cmd=lookup_result info=ok rc=0 msg=success port=%s\n", port);
}

static void do_unpublish_name(struct server *server, uint32_t task, const struct pmi1_line *line)
{
    char service[PMI1_VALUE_MAX];

    if (service_find(server, line, service) == NULL ||
        cards_put(&server->services, service, "", task, 0) != 0)
        answer(server, task, "cmd=unpublish_result info=error rc=-1 msg=service_not_found\n");
    else
        answer(server, task, "cmd=unpublish_result info=ok rc=0 msg=success\n");
}

static void do_finalize(struct server *server, uint32_t task, const struct pmi1_line *line)
{
    (void)line;
    answer(server, task, "cmd=finalize_ack rc=0\n");
}

static void do_abort(struct server *server, uint32_t task, const struct pmi1_line *line)
{
    long code;

    if (pmi1_line_number(line, "exitcode", INT32_MIN, INT32_MAX, &code) != 0)
        code = 1;
    server->events->abort(server->cookie, task, (int)code);
}

static const struct request {
    const char *name;
    void (*run)(struct server *server, uint32_t task, const struct pmi1_line *line);
    bool any_time; /* also before init and inside a barrier */
} requests[] = {
    {"init", do_init, false},
    {"get_maxes", do_get_maxes, false},
    {"get_appnum", do_get_appnum, false},
    {"get_my_kvsname", do_get_my_kvsname, false},
    {"get_universe_size", do_get_universe_size, false},
    {"put", do_put, false},
    {"get", do_get, false},
    {"getbyidx", do_getbyidx, false},
    {"barrier_in", do_barrier_in, false},
    {"publish_name", do_publish_name, false},
    {"lookup_name", do_lookup_name, false},
    {"unpublish_name", do_unpublish_name, false},
    {"finalize", do_finalize, true},
    {"abort", do_abort, true},
};

static void request_run(struct server *server, uint32_t task, const struct pmi1_line *line)
{
    const struct pmi1_field *command = pmi1_line_find(line, "cmd");
    const struct peer *peer = &server->peers[task];
    size_t i;

    if (command != &line->fields[0] || command->value == NULL) {
        session_break(server, task, "no_cmd_in_request");
        return;
    }
    for (i = 0; i < sizeof requests / sizeof requests[0]; i++)
        if (pmi1_line_is(line, "cmd", requests[i].name))
            break;
    if (i == sizeof requests / sizeof requests[0])
        answer(server, task, "cmd=result rc=-1 msg=unknown_command\n");
    else if (peer->waiting && !requests[i].any_time)
        session_break(server, task, "request_inside_a_barrier");
    else if (peer->era == 0 && !requests[i].any_time && requests[i].run != do_init)
        session_break(server, task, "request_before_init");
    else
        requests[i].run(server, task, line);
}

/* One line without its newline. */
static void line_input(struct server *server, uint32_t task, const char *text, size_t length)
{
    struct peer *peer = &server->peers[task];
    struct pmi1_line line;

    if (peer->spawning) {
        if (length != strlen("endcmd") || memcmp(text, "endcmd", length) != 0)
            return;
        peer->spawning = false;
        answer(server, task, "cmd=spawn_result rc=-1 status=-1 msg=pamirun_starts_no_more_tasks\n");
        return;
    }
    if (pmi1_line_parse(text, length, &line) != 0)
        session_break(server, task, "not_a_PMI_1_request");
    else if (pmi1_line_is(&line, "mcmd", "spawn"))
        peer->spawning = true;
    else
        request_run(server, task, &line);
}

void server_input(struct server *server, uint32_t task, const char *bytes, size_t count)
{
    struct peer *peer = &server->peers[task];

    while (count > 0 && !peer->broken && !peer->gone) {
        const char *newline = memchr(bytes, '\n', count);
        size_t part = newline == NULL ? count : (size_t)(newline - bytes);

        if (part >= sizeof peer->line - peer->have) {
            session_break(server, task, "request_too_long");
            return;
        }
        memcpy(peer->line + peer->have, bytes, part);
        peer->have += part;
        if (newline == NULL)
            return;
        part++;
        bytes += part;
        count -= part;
        line_input(server, task, peer->line, peer->have);
        peer->have = 0;
    }
}

void server_gone(struct server *server, uint32_t task)
{
    struct peer *peer = &server->peers[task];

    if (peer->gone)
        return;
    peer->gone = true;
    if (peer->excused)
        return;
    /* Its arrival in a barrier under way still counts; the next one can never complete. */
    if (server->gone == server->tasks || server->peers[server->gone].waiting)
        server->gone = task;
    barrier_check(server);
}

void server_sent(struct server *server, uint32_t task, size_t count)
{
    struct peer *peer = &server->peers[task];

    peer->answer_have -= count;
    memmove(peer->answers, peer->answers + count, peer->answer_have);
}

int server_card(struct server *server, const char *key, const char *value)
{
    return cards_put(&server->cards, key, value, BY_LAUNCHER, 0);
}

int server_open(struct server *server, uint32_t tasks, const char *space, const char *map,
                const struct server_events *events, void *cookie)
{
    *server = (struct server){
        .tasks = tasks, .helpers = tasks, .gone = tasks, .events = events, .cookie = cookie};
    snprintf(server->space, sizeof server->space, "%s", space);
    server->peers = calloc(tasks, sizeof *server->peers);
    if (server->peers == NULL || server_card(server, "PMI_process_mapping", map) != 0) {
        server_close(server);
        return -ENOMEM;
    }
    return 0;
}

void server_close(struct server *server)
{
    uint32_t i;

    for (i = 0; server->peers != NULL && i < server->tasks; i++)
        free(server->peers[i].answers);
    free(server->peers);
    server->peers = NULL;
    cards_finish(&server->cards);
    cards_finish(&server->services);
}
