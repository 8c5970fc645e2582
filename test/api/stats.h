/*
 * What a job says of itself when it ends, with PAMI_STATS=1.
 */
#ifndef LIBPAMI_API_STATS_H
#define LIBPAMI_API_STATS_H

#include "api_test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ends the job, by job_finish or what calls it; returns the sum of the numbers behind `what` in the
 * lines that its contexts write. */
static inline unsigned long long stats_at_end(struct job *job, void (*end)(struct job *job),
                                              const char *what)
{
    unsigned long long sum = 0;
    FILE *text = tmpfile();
    int before = dup(STDERR_FILENO);
    char line[256];

    CHECK(text != NULL && before >= 0);
    CHECK(dup2(fileno(text), STDERR_FILENO) >= 0);
    end(job);
    CHECK(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    rewind(text);
    while (fgets(line, sizeof line, text) != NULL) {
        const char *at = strstr(line, what);

        if (at != NULL)
            sum += strtoull(at + strlen(what), NULL, 10);
    }
    fclose(text);
    return sum;
}

#endif
