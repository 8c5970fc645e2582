/*
 * A job from start to end, see job.h: start the tasks, serve their PMI sessions, pass on signals,
 * collect their statuses.
 *
 * One thread, one epoll set; signals arrive through a signalfd and are blocked otherwise, so that
 * nothing is ever interrupted.  Signals that pamirun was started with as ignored stay ignored.
 */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/pmi1_map.h"
#include "say.h"
#include "util/clock.h"
#include "util/list.h"

/* Descriptors of pamirun that do not depend on the number of tasks. */
#define FILES_EXTRA 64
/* Between two looks whether the terminal can be read again. */
#define INPUT_SECONDS 0.2

static void status_raise(struct job *job, int status)
{
    if (status > job->status)
        job->status = status;
}

/* ---- PMI sessions ---- */

static void task_flush(struct task *task)
{
    struct job *job = task->job;
    struct peer *peer = &job->server.peers[task->number];
    bool choked = false;

    while (peer->answer_have > 0) {
        ssize_t sent = task->pmi.fd < 0 ? -1
                                        : send(task->pmi.fd, peer->answers, peer->answer_have,
                                               MSG_DONTWAIT | MSG_NOSIGNAL);

        if (sent < 0 && task->pmi.fd >= 0 && errno == EINTR)
            continue;
        if (sent < 0 && task->pmi.fd >= 0 && errno == EAGAIN) {
            choked = true;
            break;
        }
        /* Whom we cannot reach has gone, which will be noticed by reading. */
        server_sent(&job->server, task->number, sent < 0 ? peer->answer_have : (size_t)sent);
    }
    if (choked != task->choked && task->pmi.fd >= 0)
        loop_change(&job->loop, &task->pmi, choked ? EPOLLOUT : EPOLLIN);
    task->choked = choked;
}

static void task_hang_up(struct task *task)
{
    if (task->pmi.fd < 0)
        return;
    loop_close(&task->job->loop, &task->pmi);
    server_gone(&task->job->server, task->number);
}

/* Reads once; false when there is nothing now or nothing more. */
static bool task_read(struct task *task)
{
    static char bytes[PMI1_LINE_MAX]; /* no stack is too small for it */
    ssize_t count = recv(task->pmi.fd, bytes, sizeof bytes, MSG_DONTWAIT);

    if (count > 0) {
        server_input(&task->job->server, task->number, bytes, (size_t)count);
        return true;
    }
    if (count == 0 || (errno != EAGAIN && errno != EINTR))
        task_hang_up(task);
    return false;
}

static void task_ready(struct watch *watch, uint32_t events)
{
    struct task *task = container_of(watch, struct task, pmi);

    if (events & EPOLLOUT)
        task_flush(task);
    if (!task->choked && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        task_read(task);
    else if (events & (EPOLLHUP | EPOLLERR))
        task_hang_up(task);
}

static void server_answers(void *cookie, uint32_t number)
{
    struct job *job = cookie;

    task_flush(&job->tasks[number]);
}

static void server_aborts(void *cookie, uint32_t number, int code)
{
    struct job *job = cookie;
    int status = code == 0 || (code & 0xff) != 0 ? code & 0xff : 0xff;

    if (job->phase != PHASE_RUN)
        return;
    say("task %u (pid %d) has aborted the job with status %d", number, (int)job->tasks[number].pid,
        code);
    status_raise(job, status);
    ending_begin(job);
}

static void server_breaks(void *cookie, uint32_t number, const char *why)
{
    struct job *job = cookie;
    char text[64];
    size_t i;

    if (job->phase != PHASE_RUN)
        return;
    for (i = 0; why[i] != '\0' && i + 1 < sizeof text; i++)
        text[i] = why[i] == '_' ? ' ' : why[i];
    text[i] = '\0';
    say("task %u (pid %d) does not keep to the PMI protocol: %s", number,
        (int)job->tasks[number].pid, text);
    status_raise(job, 1);
    ending_begin(job);
}

static const struct server_events server_events = {
    .answer = server_answers,
    .abort = server_aborts,
    .broken = server_breaks,
};

/* ---- ends of tasks ---- */

static void note_dead(struct job *job, uint32_t number)
{
    char list[sizeof job->dead];
    int length =
        snprintf(list, sizeof list, "%u%s%s", number, job->dead[0] == '\0' ? "" : ",", job->dead);

    if (length < (int)sizeof list)
        memcpy(job->dead, list, sizeof list);
    server_card(&job->server, "PMI_dead_processes", job->dead);
}

static void say_failure(const struct job *job, const struct task *task, int wait_status)
{
    if (WIFEXITED(wait_status)) {
        say("task %u (pid %d) ended with status %d", task->number, (int)task->pid,
            WEXITSTATUS(wait_status));
    } else if (WTERMSIG(wait_status) != job->forwarded || job->options->verbose) {
        say("task %u (pid %d) was killed by signal %d (%s)%s", task->number, (int)task->pid,
            WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)),
            WCOREDUMP(wait_status) ? ", core dumped" : "");
    }
}

static bool is_server(const struct task *task)
{
    return task->number >= task->job->options->tasks;
}

/* A server ends when the job does. If it ends before, the tasks find out and do without it. */
static void server_ended(struct task *task, int wait_status)
{
    const struct job *job = task->job;

    task->live = false;
    task_hang_up(task);
    if (job->phase != PHASE_RUN || job->live == 0)
        return;
    if (WIFEXITED(wait_status))
        say("server %u (pid %d) ended with status %d", task->number - job->options->tasks,
            (int)task->pid, WEXITSTATUS(wait_status));
    else
        say("server %u (pid %d) was killed by signal %d (%s)", task->number - job->options->tasks,
            (int)task->pid, WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
}

/* Returns whether the job must end. */
static bool task_ended(struct task *task, int wait_status)
{
    struct job *job = task->job;
    int status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);

    if (is_server(task)) {
        server_ended(task, wait_status);
        return false;
    }
    task->live = false;
    job->live--;
    /* What it said before it ended still counts, above all an abort. */
    while (task->pmi.fd >= 0 && task_read(task))
        continue;
    if (job->options->keep_going && status != 0)
        note_dead(job, task->number);
    task_hang_up(task);
    if (job->options->verbose && status == 0)
        say("task %u (pid %d) ended", task->number, (int)task->pid);
    if (status == 0 || job->phase != PHASE_RUN)
        return false;
    /* One failure tends to bring others with it: the first is the one to know. */
    if (job->status == 0 || job->options->keep_going || job->options->verbose)
        say_failure(job, task, wait_status);
    status_raise(job, status);
    return !job->options->keep_going;
}

static struct task *task_by_pid(struct job *job, pid_t pid)
{
    uint32_t i;

    for (i = 0; i < options_processes(job->options); i++)
        if (job->tasks[i].live && job->tasks[i].pid == pid)
            return &job->tasks[i];
    return NULL;
}

/* All that have ended by now, so that the worst status of several is found. */
static void reap(struct job *job)
{
    bool end = false;
    int wait_status;
    pid_t pid;

    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        struct task *task = task_by_pid(job, pid);

        if (task != NULL && task_ended(task, wait_status))
            end = true;
    }
    if (end)
        ending_begin(job);
}

/* ---- signals ---- */

/* INT, TERM and QUIT reach the tasks once; whoever asks again wants an end. */
static void interrupt(struct job *job, int signal)
{
    job->interrupts++;
    if (job->live == 0)
        job->give_up = true;
    if (job->interrupts == 1 && job->phase == PHASE_RUN && job->live > 0) {
        job->forwarded = signal;
        ending_signal_tasks(job, signal);
        return;
    }
    if (!job->options->tag)
        job->give_up = true; /* there are only our own messages */
    if (job->phase != PHASE_KILL)
        say("killing the job");
    status_raise(job, 128 + signal);
    ending_kill(job);
}

static void signal_run(struct job *job, int signal)
{
    switch (signal) {
    case SIGCHLD:
        reap(job);
        break;
    case SIGINT:
    case SIGTERM:
    case SIGQUIT:
        interrupt(job, signal);
        break;
    case SIGTSTP:
        ending_signal_tasks(job, SIGTSTP);
        kill(getpid(), SIGSTOP);
        break;
    case SIGCONT:
        ending_signal_tasks(job, SIGCONT);
        break;
    case SIGHUP:
        job->forwarded = signal;
        ending_signal_tasks(job, signal);
        break;
    case SIGUSR1:
    case SIGUSR2:
        ending_signal_tasks(job, signal);
        break;
    default: /* SIGPIPE, SIGTTIN, SIGTTOU: seen as errors where they come from */
        break;
    }
}

static void signals_ready(struct watch *watch, uint32_t events)
{
    struct job *job = container_of(watch, struct job, signals);
    struct signalfd_siginfo info;

    (void)events;
    while (read(watch->fd, &info, sizeof info) == (ssize_t)sizeof info)
        signal_run(job, (int)info.ssi_signo);
}

static int signals_open(struct job *job)
{
    static const int wanted[] = {SIGINT,  SIGTERM, SIGQUIT, SIGHUP,  SIGUSR1, SIGUSR2,
                                 SIGTSTP, SIGCONT, SIGPIPE, SIGTTIN, SIGTTOU, SIGCHLD};
    struct sigaction action;
    sigset_t set;
    size_t i;

    signal(SIGCHLD, SIG_DFL); /* ignored, it would hide the tasks' statuses */
    sigemptyset(&set);
    for (i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (sigaction(wanted[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&set, wanted[i]);
    sigprocmask(SIG_BLOCK, &set, &job->launch.mask);
    job->signals.ready = signals_ready;
    job->signals.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return job->signals.fd < 0 ? -errno : loop_add(&job->loop, &job->signals, EPOLLIN);
}

/* ---- start ---- */

/* Descriptors 0 to 2 must be what they are taken for. */
static void standard_streams_open(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* Room for a socket per task, and for its pipes. */
static void files_raise(struct job *job)
{
    rlim_t wanted = options_processes(job->options) * (job->options->tag ? 3 : 1) + FILES_EXTRA;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    job->launch.files = limit;
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < wanted) {
        if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < wanted)
            limit.rlim_max = wanted; /* allowed to some */
        limit.rlim_cur = wanted;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
            limit = job->launch.files;
            limit.rlim_cur = limit.rlim_max;
            setrlimit(RLIMIT_NOFILE, &limit);
        }
    }
}

static int server_start(struct job *job)
{
    const struct options *options = job->options;
    char name[64], map[96];
    uint64_t random = 0;
    int err;

    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
        random = clock_now_ns();
    snprintf(name, sizeof name, "pamirun-%d-%016" PRIx64, (int)getpid(), random);
    err = pmi1_map_format(options->tasks, options->nodes, map, sizeof map);
    if (err != 0)
        return err;
    if (options->servers > 0) /* the map ends with a parenthesis, behind the last block */
        snprintf(map + strlen(map) - 1, sizeof map - strlen(map) + 1, ",(0,%u,%u))", options->nodes,
                 options->servers);
    err = server_open(&job->server, options_processes(options), name, map, &server_events, job);
    job->server.helpers = options->tasks;
    /* Tasks of pretended nodes may reach each other through one segment; see the shm device. */
    if (err == 0 && options->nodes > 1)
        err = server_card(&job->server, "pamirun-pretended-nodes", "yes");
    return err;
}

/* Where task number `task` stands in the blocks of pmi1_map_format. */
static void place_on_node(const struct options *options, uint32_t task, struct launch_task *place)
{
    uint32_t each = options->tasks / options->nodes, longer = options->tasks % options->nodes;
    uint32_t first = longer * (each + 1); /* of the shorter blocks */

    if (task >= options->tasks) {
        place->local_count = options->servers;
        place->local_index = (task - options->tasks) % options->servers;
        return;
    }
    place->local_count = task < first ? each + 1 : each;
    place->local_index = task < first ? task % (each + 1) : (task - first) % each;
}

/* Makes the task's descriptors; those it gets are to be closed by task_start. */
static int task_connect(struct task *task, struct launch_task *place)
{
    struct job *job = task->job;
    int ends[2], err;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -errno;
    task->pmi.fd = ends[0];
    place->pmi = ends[1];
    err = loop_add(&job->loop, &task->pmi, EPOLLIN);
    if (err == 0 && job->options->tag)
        err = output_pipes(&job->output, task->number, &place->out, &place->err);
    if (err != 0)
        close(place->pmi);
    return err;
}

static int task_start(struct task *task, int in)
{
    struct job *job = task->job;
    struct launch_task place = {
        .task = task->number, .in = in, .out = STDOUT_FILENO, .err = STDERR_FILENO};
    const char *step = "connect";
    char cpus[64];
    int err;

    place_on_node(job->options, task->number, &place);
    place.program = is_server(task) ? job->launch.server : job->options->program;
    place.cpus = bind_of(&job->bind, task->number);
    place.cpus_size = job->bind.size;
    err = task_connect(task, &place);
    if (err == 0) {
        err = launch_start(&job->launch, &place, &task->pid, &step);
        close(place.pmi);
        if (job->options->tag) {
            close(place.out);
            close(place.err);
        }
    }
    if (err == 0) {
        task->live = true;
        job->live += !is_server(task);
        if (job->options->verbose)
            say("task %u: pid %d%s%s", task->number, (int)task->pid,
                place.cpus == NULL ? "" : ", bound to processors ",
                bind_text(&job->bind, task->number, cpus, sizeof cpus));
        return 0;
    }
    if (strcmp(step, "run") == 0)
        say("%s: %s", place.program[0], strerror(-err));
    else
        say("cannot %s task %u: %s", step, task->number, strerror(-err));
    status_raise(job, strcmp(step, "run") != 0 ? STATUS_TROUBLE
                      : err == -ENOENT         ? STATUS_NOT_FOUND
                                               : STATUS_CANNOT_RUN);
    return err;
}

/* Starts the tasks in order, up to the first that fails. */
static void tasks_start(struct job *job)
{
    long reader = job->options->stdin_task;
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC), terminal = -1;
    uint32_t i;
    int err = nothing < 0 ? -errno : 0;

    if (err == 0 && reader >= 0 && isatty(STDIN_FILENO))
        err = input_open(&job->input, &job->loop, &terminal);
    if (err != 0) {
        say("cannot give the tasks their input%s: %s", nothing < 0 ? ", /dev/null" : "",
            strerror(-err));
        status_raise(job, STATUS_TROUBLE);
    }
    for (i = 0; i < options_processes(job->options) && job->status == 0; i++) {
        int in = (long)i != reader ? nothing : terminal >= 0 ? terminal : STDIN_FILENO;

        if (task_start(&job->tasks[i], in) != 0)
            ending_kill(job);
    }
    if (nothing >= 0)
        close(nothing);
    if (terminal >= 0)
        close(terminal);
}

/* ---- the whole ---- */

static int job_open(struct job *job, const struct options *options)
{
    uint32_t i;
    int err;

    *job = (struct job){.options = options, .signals.fd = -1};
    job->tasks = calloc(options_processes(options), sizeof *job->tasks);
    err = job->tasks == NULL ? -ENOMEM : loop_open(&job->loop);
    for (i = 0; err == 0 && i < options_processes(options); i++)
        job->tasks[i] = (struct task){.job = job, .number = i, .pmi = {-1, task_ready}};
    if (err == 0)
        err = launch_open(&job->launch, options); /* before --bind changes the environment */
    if (err == 0)
        err = signals_open(job);
    files_raise(job);
    if (err == 0)
        err = server_start(job);
    if (err == 0)
        err = output_open(&job->output, &job->loop, options->tag ? options_processes(options) : 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return err == 0 ? ending_note_foreign(job) : err;
}

/* Seconds until something is due; negative: nothing is.  After the end only the limit counts. */
static double job_wake(const struct job *job, bool ended)
{
    double now = clock_now(), wake = ended ? 0 : ending_wake(job);

    if (job->limit > 0 && (job->phase == PHASE_RUN || ended) && (wake == 0 || job->limit < wake))
        wake = job->limit;
    if (job->input.background && (wake == 0 || now + INPUT_SECONDS < wake))
        wake = now + INPUT_SECONDS;
    if (wake == 0)
        return -1;
    return wake > now ? wake - now : 0;
}

static void limit_check(struct job *job, bool ended)
{
    if (job->limit == 0 || clock_now() < job->limit)
        return;
    if (job->live > 0 && job->phase == PHASE_RUN) {
        say("the job has exceeded its time limit of %g s", job->options->timeout);
        job->status = STATUS_TIMEOUT;
        ending_begin(job);
    }
    if (ended)
        job->give_up = true; /* nobody reads the output */
}

static void job_serve(struct job *job)
{
    bool ended = false;

    while (!ended || !(job->give_up || output_idle(&job->output))) {
        int err = loop_wait(&job->loop, job_wake(job, ended));

        if (err != 0) {
            say("cannot wait for events: %s", strerror(-err));
            status_raise(job, STATUS_TROUBLE);
            ending_kill(job);
        }
        if (job->input.background)
            input_resume(&job->input);
        limit_check(job, ended);
        ended = ended || ending_check(job);
        if (ended && job->output.open > 0)
            output_finish(&job->output);
    }
}

static void job_close(struct job *job)
{
    if (job->output.sources != NULL)
        output_close(&job->output);
    bind_close(&job->bind);
    server_close(&job->server);
    launch_close(&job->launch);
    free(job->foreign);
    free(job->tasks);
}

int job_run(const struct options *options)
{
    static struct job job; /* no stack is too small for it */
    int err;

    standard_streams_open();
    err = job_open(&job, options);
    if (err != 0) {
        say("cannot set up the job: %s", strerror(-err));
        job.status = STATUS_TROUBLE;
    } else if (bind_open(&job.bind, options) != 0) {
        job.status = STATUS_TROUBLE;
    } else {
        if (options->timeout > 0)
            job.limit = clock_now() + options->timeout;
        tasks_start(&job);
        if (!ending_check(&job) || !output_idle(&job.output))
            job_serve(&job);
        if (job.output.failed)
            status_raise(&job, STATUS_TROUBLE);
    }
    job_close(&job);
    return job.status;
}
