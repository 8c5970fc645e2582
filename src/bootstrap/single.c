/*
 * The back end without a launcher: one task, its own cards in a list.
 *
 * Also what a program gets under a launcher that offers no connection we can use: each process
 * then runs as a job of one.  That is said at level info, as it may not be what was meant.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "bootstrap/backend.h"
#include "util/clock.h"
#include "util/log.h"

struct card {
    struct card *next;
    char *value;
    char key[BOOTSTRAP_KEY_MAX + 1];
};

struct single {
    struct bootstrap base;
    pthread_mutex_t lock; /* of cards */
    struct card *cards;
};

static struct single *single_of(struct bootstrap *bootstrap)
{
    return (struct single *)bootstrap; /* base is the first member */
}

static struct card *card_find(struct single *single, const char *key)
{
    struct card *card = single->cards;

    while (card != NULL && strcmp(card->key, key) != 0)
        card = card->next;
    return card;
}

static int single_put(struct bootstrap *bootstrap, const char *key, const char *value)
{
    struct single *single = single_of(bootstrap);
    struct card *card = calloc(1, sizeof *card);
    int err = 0;

    if (card == NULL || (card->value = strdup(value)) == NULL) {
        free(card);
        return -ENOMEM;
    }
    snprintf(card->key, sizeof card->key, "%s", key);
    pthread_mutex_lock(&single->lock);
    if (card_find(single, key) != NULL) {
        err = -EEXIST;
    } else {
        card->next = single->cards;
        single->cards = card;
    }
    pthread_mutex_unlock(&single->lock);
    if (err != 0) {
        free(card->value);
        free(card);
    }
    return err;
}

static int single_get(struct bootstrap *bootstrap, const char *key, char *value, size_t size)
{
    struct single *single = single_of(bootstrap);
    struct card *card;

    pthread_mutex_lock(&single->lock);
    card = card_find(single, key); /* cards never change or go away */
    pthread_mutex_unlock(&single->lock);
    if (card == NULL)
        return -ENOENT;
    if (strlen(card->value) >= size)
        return -ENOBUFS;
    snprintf(value, size, "%s", card->value);
    return 0;
}

static void single_close(struct bootstrap *bootstrap)
{
    (void)bootstrap; /* at process exit, when other threads may still look at cards */
}

static const struct bootstrap_ops single_ops = {
    .name = "single",
    .put = single_put,
    .get = single_get,
    .close = single_close,
};

/* Says so when the environment is that of a launcher which expects more than one task. */
static void explain_launcher(void)
{
    static const struct {
        const char *variable, *launcher, *advice;
    } hints[] = {
        {"OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun", "libpmix installed, or with pamirun,"},
        {"SLURM_PROCID", "Slurm", "srun --mpi=pmix or pmi2"},
        {"PMIX_NAMESPACE", "a PMIx launcher", "libpmix installed, or with pamirun,"},
    };
    size_t i;

    for (i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        if (getenv(hints[i].variable) != NULL) {
            log_info("started by %s without a connection to it: running as one task; "
                     "start with %s for a job of several",
                     hints[i].launcher, hints[i].advice);
            return;
        }
    }
    log_info("no launcher in the environment: running as one task");
}

static bool single_present(void)
{
    return true;
}

static int single_connect(struct bootstrap **out)
{
    struct single *single = calloc(1, sizeof *single);
    uint32_t *ids = calloc(1, sizeof *ids);
    uint64_t random = 0;
    char name[48];

    if (single == NULL || ids == NULL) {
        free(single);
        free(ids);
        return -ENOMEM;
    }
    pthread_mutex_init(&single->lock, NULL);
    single->base.ops = &single_ops;
    single->base.tasks = 1;
    if (bootstrap_set_nodes(&single->base, ids) != 0) {
        free(single);
        return -ENOMEM;
    }
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
        random = clock_now_ns();
    snprintf(name, sizeof name, "single-%ld-%016" PRIx64, (long)getpid(), random);
    bootstrap_set_job(&single->base, name);
    explain_launcher();
    *out = &single->base;
    return 0;
}

const struct bootstrap_backend bootstrap_single = {
    .name = "single",
    .present = single_present,
    .connect = single_connect,
};
