/*
 * The table of pami_tune --servers: what the job prints becomes the file, once it is whole.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "servers.h"
#include "util/cpu.h"

struct table {
    FILE *file;
    unsigned lines, cells;
    bool verbose;
};

static void on_line(void *cookie, const char *text)
{
    struct table *table = cookie;

    table->cells++;
    table->lines += text[0] != '#';
    fprintf(table->file, "%s\n", text);
    if (table->verbose)
        printf("%s\n", text);
}

static void write_head(FILE *to)
{
    char host[65] = "unknown", date[32];
    time_t t = time(NULL);
    struct tm tm;

    gethostname(host, sizeof(host) - 1);
    strftime(date, sizeof(date), "%Y-%m-%d", localtime_r(&t, &tm));
    fprintf(to,
            "# Where communication servers were faster on %s (%u processors).\n"
            "# Written by pami_tune %s --servers on %s; PAMI_SERVERS_TABLE names this file to\n"
            "# libpami. Lines with \"no\" say what else was measured.\n"
            "# operation bytes outstanding servers\n",
            host, cpu_available(), PAMI_VERSION_TEXT, date);
}

int servers_tune(struct start *start, uint32_t nodes, const char *output, bool verbose)
{
    const struct job job = {.tasks = 2, .nodes = nodes};
    struct table table = {.verbose = verbose};
    char path[4096 + 8];
    int status;

    if (start_init(start) != 0)
        return 1;
    snprintf(path, sizeof(path), "%s.new", output);
    table.file = fopen(path, "we");
    if (table.file == NULL) {
        fprintf(stderr, "pami_tune: %s: %s\n", path, strerror(errno));
        return 1;
    }
    write_head(table.file);
    start->contest = SERVERS_CONTEST;
    status = start_job(start, &job, on_line, &table);
    if (status != 0)
        fprintf(stderr, "pami_tune: the job ended with status %d\n", status);
    if (fclose(table.file) != 0 || (status == 0 && rename(path, output) != 0)) {
        fprintf(stderr, "pami_tune: %s: %s\n", output, strerror(errno));
        status = 1;
    }
    if (status != 0) {
        unlink(path);
        return 1;
    }
    printf("%s: servers pay in %u of %u cells\n", output, table.lines, table.cells);
    return 0;
}
