/*
 * From cells to choices; see judge.h.
 *
 * An algorithm has to be a tenth faster than what Auto takes without a table, and a fifth where it
 * will be used on other machines. Where none is, the table says what Auto takes: so it is complete,
 * and stays what it is when the library's own choice changes.
 */
#include "judge.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "coll/collective.h"
#include "coll/explain.h"
#include "coll/select.h"
#include "device/network.h"
#include "sizes.h"
#include "util/option.h"

#define FASTER 0.9
#define FASTER_BUILT_IN 0.8

/* Sizes that follow one another and have the same algorithm. */
struct run {
    const struct algorithm *row;
    uint64_t low, high;
    const struct cell *cell; /* where it gains most over Auto; NULL: it is what Auto takes */
};

/* Those of a type and a number of tasks. */
struct column {
    struct run runs[SIZES_MAX];
    size_t count;
    double faster; /* than Auto, to count */
};

static int by_bytes(const void *a, const void *b)
{
    uint64_t x = ((const struct cell *)a)->bytes, y = ((const struct cell *)b)->bytes;

    return (x > y) - (x < y);
}

bool judge_has_network(void)
{
    return option_choice(OPT_NETWORK) == NETWORK_OFI;
}

static enum choice_nodes nodes_of(uint32_t nodes)
{
    if (nodes == 1)
        return NODES_ONE;
    return judge_has_network() ? NODES_NETWORK : NODES_MEMORY;
}

/* What Auto takes without a table. */
static const struct algorithm *usual_row(const struct select_table *usual, const struct cell *cell)
{
    const struct explain_question question = {
        .type = cell->type,
        .bytes = cell->bytes,
        .members = cell->tasks,
        .nodes = cell->nodes,
        .pretended = !judge_has_network(),
    };

    return explain(usual, &question, NULL, NULL);
}

/* From which size on the second of two measured ones is the nearer. */
static uint64_t boundary(uint64_t low, uint64_t high)
{
    double middle = sqrt((double)low * (double)high);
    uint64_t power = 1;

    while ((double)power * 2 <= middle)
        power *= 2;
    return power > low && power <= high ? power : high;
}

static void add_cell(struct column *column, const struct cell *cell, const struct algorithm *usual,
                     uint64_t low)
{
    bool gains =
        cell->best != NULL && cell->best != usual && cell->best_us < column->faster * cell->auto_us;
    const struct algorithm *row = gains || usual == NULL ? cell->best : usual;
    struct run *run = column->count != 0 ? &column->runs[column->count - 1] : NULL;

    if (row == NULL)
        return;
    if (run != NULL)
        run->high = low - 1;
    if (run == NULL || run->row != row) {
        run = &column->runs[column->count++];
        *run = (struct run){.row = row, .low = low};
    }
    run->high = CHOICE_BYTES_MAX;
    if (gains && (run->cell == NULL ||
                  cell->best_us * run->cell->auto_us < run->cell->best_us * cell->auto_us))
        run->cell = cell;
}

/* `room` has space for the cells of a column. */
static void make_column(struct column *column, const struct results *results,
                        const struct select_table *usual, const struct job *job, struct cell *room)
{
    size_t count = 0;

    column->count = 0;
    for (size_t i = 0; i < results->count && count < SIZES_MAX; i++) {
        const struct cell *cell = &results->cells[i];

        if (cell->type == job->type && cell->tasks == job->tasks && cell->nodes == job->nodes)
            room[count++] = *cell;
    }
    qsort(room, count, sizeof(*room), by_bytes);
    for (size_t i = 0; i < count; i++)
        add_cell(column, &room[i], usual_row(usual, &room[i]),
                 i == 0 ? 0 : boundary(room[i - 1].bytes, room[i].bytes));
}

static bool is_same(const struct column *a, const struct column *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->runs[i].row != b->runs[i].row || a->runs[i].low != b->runs[i].low ||
            a->runs[i].high != b->runs[i].high)
            return false;
    return true;
}

/* ---- lines ---- */

static void write_built_in(FILE *to, const struct choice *choice)
{
    char high[32] = "CHOICE_BYTES_MAX", type[32];

    snprintf(type, sizeof(type), "%s", collective_name(choice->row->type));
    for (char *c = type; *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
    if (choice->bytes_max != CHOICE_BYTES_MAX)
        snprintf(high, sizeof(high), "%" PRIu64, choice->bytes_max);
    fprintf(to, "MEASURED(%s, \"%s\", %" PRIu64 ", %s, %u, %u, %s)\n", type, choice->row->name,
            choice->bytes_min, high, choice->members_min, choice->members_max,
            choice->nodes == NODES_ONE      ? "ONE"
            : choice->nodes == NODES_MEMORY ? "MEMORY"
                                            : "NETWORK");
}

static void write_line(FILE *to, const struct choice *choice, const struct cell *cell)
{
    char text[CHOICE_TEXT_MAX];

    choice_format(choice, ' ', text, sizeof(text));
    fprintf(to, "%s", text);
    if (cell != NULL)
        fprintf(to, "  # %" PRIu64 " bytes, %u tasks: %.2f us instead of %.2f", cell->bytes,
                cell->tasks, cell->best_us, cell->auto_us);
    fputc('\n', to);
}

static int write_column(FILE *to, const struct column *column, uint32_t low, uint32_t high,
                        uint32_t nodes, bool built_in)
{
    for (size_t i = 0; i < column->count; i++) {
        const struct run *run = &column->runs[i];
        const struct choice choice = {
            .row = run->row,
            .bytes_min = run->low,
            .bytes_max = run->high,
            .members_min = low,
            .members_max = high,
            .nodes = (uint8_t)nodes_of(nodes),
        };

        if (built_in)
            write_built_in(to, &choice);
        else
            write_line(to, &choice, run->cell);
    }
    return (int)column->count;
}

/* Columns that follow one another and say the same become one. */
static int write_type(FILE *to, const struct column *columns, const uint32_t *tasks, size_t count,
                      uint32_t nodes, bool built_in)
{
    size_t first = 0;
    int lines = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t high = i + 1 < count ? tasks[i + 1] - 1 : 2 * tasks[i] - 1;

        if (i + 1 < count && is_same(&columns[i], &columns[i + 1]))
            continue;
        lines += write_column(to, &columns[first], tasks[first], high, nodes, built_in);
        first = i + 1;
    }
    return lines;
}

int judge_write(FILE *to, const struct results *results, const uint32_t *tasks, size_t count,
                uint32_t nodes, bool built_in)
{
    struct column *columns = calloc(count, sizeof(*columns));
    struct cell *room = calloc(count * SIZES_MAX, sizeof(*room));
    struct select_table usual;
    int lines = 0;

    if (columns == NULL || room == NULL || select_table_init(&usual, NULL, false) != 0) {
        free(columns);
        free(room);
        return -1;
    }
    for (size_t t = 0; t < tuned_type_count; t++) {
        for (size_t i = 0; i < count; i++) {
            const struct job job = {tuned_types[t], tasks[i], nodes};

            columns[i].faster = built_in ? FASTER_BUILT_IN : FASTER;
            make_column(&columns[i], results, &usual, &job, room + i * SIZES_MAX);
        }
        lines += write_type(to, columns, tasks, count, nodes, built_in);
    }
    select_table_finish(&usual);
    free(columns);
    free(room);
    return lines;
}
