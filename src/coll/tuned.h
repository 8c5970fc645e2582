/*
 * The table of choices that PAMI_COLL_TABLE names: one for all tasks of a job.
 *
 * Members that choose differently would wait for each other for ever, and files and environments
 * may differ between tasks. So only task 0 reads its file; it publishes what made sense of it as a
 * card when it creates the client, and all tasks use that card. A task's own file, or that it has
 * none, does not matter.
 */
#ifndef LIBPAMI_COLL_TUNED_H
#define LIBPAMI_COLL_TUNED_H

#include "coll/choice.h"

struct client_core;

/* What makes sense in a file is added to the list; what does not gets a warning each, naming file,
 * line and reason. 0, -ENOMEM, or the error that keeps it from being read, also with a warning. */
int tuned_read(const char *path, struct choice_list *list);

/* At client create, `key` being the client's name of the job: before the fences of the devices, and
 * after them. 0 or an error with a text. */
int tuned_offer(struct client_core *core, const char *key);
int tuned_join(struct client_core *core, const char *key);

void tuned_finish(struct client_core *core);

#endif
