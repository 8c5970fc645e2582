/*
 * Ending a job so that no process of it is left.
 *
 * Every task leads a process group, which gets TERM and, a second later, KILL.  A process that has
 * left its group, or whose task has ended, becomes pamirun's child (it is a subreaper) when its
 * parent dies, and is found among the children.  A process id is only signalled while it is an
 * unreaped child of ours, so it cannot have become somebody else's.
 *
 * After an ordinary end of all tasks, what they left behind has a moment to end by itself: it may
 * be a filter that has just lost its input.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "children.h"
#include "job.h"
#include "say.h"
#include "util/clock.h"

#define GRACE_SECONDS 1.0  /* from TERM to KILL */
#define LINGER_SECONDS 1.0 /* for leftovers of a job that went well */
#define AGAIN_SECONDS 0.02 /* from one round of KILL to the next */
#define HOPELESS_SECONDS 5.0
#define LEFTOVERS_MAX 256 /* handled in one round; the others in the next */
#define FOREIGN_USUAL 64

int ending_note_foreign(struct job *job)
{
    size_t room = FOREIGN_USUAL;

    while (children_exist()) {
        pid_t *list = reallocarray(job->foreign, room, sizeof *list);

        if (list == NULL)
            return -ENOMEM;
        job->foreign = list;
        job->foreign_count = children_list(list, room, NULL, 0);
        if (job->foreign_count < room)
            break;
        room *= 2;
    }
    return 0;
}

/* Children that are neither tasks (none is live) nor foreign. */
static size_t leftovers_list(const struct job *job, pid_t list[LEFTOVERS_MAX])
{
    return children_list(list, LEFTOVERS_MAX, job->foreign, job->foreign_count);
}

static bool leftovers_exist(const struct job *job)
{
    pid_t list[LEFTOVERS_MAX];

    if (!children_exist())
        return false;
    return job->foreign_count == 0 || leftovers_list(job, list) > 0;
}

/* The task that leads, or led, this process group. */
static struct task *task_of_group(const struct job *job, pid_t group)
{
    uint32_t i;

    for (i = 0; i < options_processes(job->options); i++)
        if (job->tasks[i].pid == group)
            return &job->tasks[i];
    return NULL;
}

static void group_signal(struct task *task, int signal)
{
    if (signal == SIGTERM)
        task->told = clock_now();
    kill(-task->pid, signal);
}

/* Whoever has just had a TERM may be in its handler, and is to have no second one. */
static bool is_told(const struct task *task)
{
    return task->told != 0 && clock_now() < task->told + GRACE_SECONDS;
}

static void leftovers_signal(const struct job *job, int signal)
{
    pid_t list[LEFTOVERS_MAX];
    size_t i, count = leftovers_list(job, list);

    for (i = 0; i < count; i++) {
        pid_t group = getpgid(list[i]);
        struct task *task = group > 1 ? task_of_group(job, group) : NULL;
        pid_t whom = task != NULL || (group == list[i] && group > 1) ? -group : list[i];

        if (task == NULL && group != list[i] && children_contain(list, count, group))
            continue; /* it is told with its leader's group */
        if (task == NULL)
            kill(whom, signal);
        else if (signal != SIGTERM || !is_told(task))
            group_signal(task, signal);
        kill(whom, SIGCONT);
    }
}

void ending_signal_tasks(struct job *job, int signal)
{
    uint32_t i;

    for (i = 0; i < options_processes(job->options); i++)
        if (job->tasks[i].live)
            group_signal(&job->tasks[i], signal);
}

void ending_begin(struct job *job)
{
    uint32_t i;

    if (job->phase != PHASE_RUN)
        return;
    job->phase = PHASE_TERM;
    job->deadline = clock_now() + GRACE_SECONDS;
    for (i = 0; i < options_processes(job->options); i++)
        if (job->tasks[i].live && !is_told(&job->tasks[i]))
            group_signal(&job->tasks[i], SIGTERM);
    ending_signal_tasks(job, SIGCONT);
}

void ending_kill(struct job *job)
{
    if (job->phase != PHASE_KILL)
        job->deadline = clock_now() + HOPELESS_SECONDS;
    job->phase = PHASE_KILL;
    ending_signal_tasks(job, SIGKILL);
    if (job->live == 0)
        leftovers_signal(job, SIGKILL);
}

/* Servers owe nobody anything once there are no tasks. */
static void servers_end(struct job *job)
{
    uint32_t i;

    for (i = job->options->tasks; i < options_processes(job->options); i++)
        if (job->tasks[i].live)
            kill(-job->tasks[i].pid, SIGKILL);
}

/* All tasks have ended; other processes have not. */
static void leftovers_check(struct job *job)
{
    servers_end(job);
    if (job->phase == PHASE_RUN && job->deadline == 0)
        job->deadline = clock_now() + LINGER_SECONDS;
    else if (job->phase == PHASE_RUN && clock_now() >= job->deadline)
        ending_begin(job);
    if (job->phase == PHASE_TERM && !job->told) {
        job->told = true;
        leftovers_signal(job, SIGTERM);
    }
    if (job->phase == PHASE_KILL)
        leftovers_signal(job, SIGKILL);
}

bool ending_check(struct job *job)
{
    if (job->live == 0 && !leftovers_exist(job))
        return true;
    if (job->live == 0)
        leftovers_check(job);
    if (job->phase == PHASE_TERM && clock_now() >= job->deadline) {
        ending_kill(job);
    } else if (job->phase == PHASE_KILL && clock_now() >= job->deadline) {
        say("some processes of the job cannot be killed");
        return true;
    }
    return false;
}

double ending_wake(const struct job *job)
{
    return job->phase == PHASE_KILL ? clock_now() + AGAIN_SECONDS : job->deadline;
}
