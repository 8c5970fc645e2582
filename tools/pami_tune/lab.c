/*
 * Running collectives in a job of pami_tune; see lab.h.
 */
#include "lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sizes.h"

#define WORD sizeof(uint64_t)
#define PASSES 32

/* Not exit(): with peers alive nobody is to wait for anybody. */
static void die(const char *what)
{
    char text[256] = "";

    PAMI_Error_text(text, sizeof(text));
    fprintf(stderr, "pami_tune: %s: %s\n", what, text);
    _exit(1);
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct lab *lab = cookie;

    (void)context;
    if (result != PAMI_SUCCESS)
        die("a collective failed");
    lab->done = true;
}

static void wait_for(struct lab *lab)
{
    while (!lab->done) {
        pami_result_t result = PAMI_Context_advance(lab->context, PASSES);

        if (result != PAMI_SUCCESS && result != PAMI_EAGAIN)
            die("PAMI_Context_advance");
    }
}

/* ---- arguments ---- */

static void fill_reduction(const struct lab *lab, pami_xfer_type_t type, uint64_t bytes,
                           pami_endpoint_t root, pami_collective_t *cmd)
{
    const pami_type_t word = PAMI_TYPE_UNSIGNED_LONG_LONG;
    size_t words = bytes / WORD;

    if (type == PAMI_XFER_REDUCE)
        cmd->xfer_reduce = (pami_reduce_t){root, lab->send, word,          words, lab->recv,
                                           word, words,     PAMI_DATA_SUM, NULL,  1};
    else if (type == PAMI_XFER_ALLREDUCE)
        cmd->xfer_allreduce = (pami_allreduce_t){lab->send, word,          words, lab->recv, word,
                                                 words,     PAMI_DATA_SUM, NULL,  1};
    else if (type == PAMI_XFER_SCAN)
        cmd->xfer_scan =
            (pami_scan_t){lab->send, word, words, lab->recv, word, words, PAMI_DATA_SUM, NULL, 0};
    else
        cmd->xfer_reduce_scatter = (pami_reduce_scatter_t){
            lab->send, word, words, lab->recv, word, lab->counts, PAMI_DATA_SUM, NULL, 1};
}

static void fill_move(const struct lab *lab, pami_xfer_type_t type, uint64_t bytes,
                      pami_endpoint_t root, pami_collective_t *cmd)
{
    const pami_type_t byte = PAMI_TYPE_BYTE;

    if (type == PAMI_XFER_BROADCAST)
        cmd->xfer_broadcast = (pami_broadcast_t){
            root, root == lab->endpoints[lab->task] ? lab->send : lab->recv, byte, bytes};
    else if (type == PAMI_XFER_GATHER)
        cmd->xfer_gather = (pami_gather_t){root, lab->send, byte, bytes, lab->recv, byte, bytes};
    else if (type == PAMI_XFER_SCATTER)
        cmd->xfer_scatter = (pami_scatter_t){root, lab->send, byte, bytes, lab->recv, byte, bytes};
    else if (type == PAMI_XFER_ALLGATHER)
        cmd->xfer_allgather = (pami_allgather_t){lab->send, byte, bytes, lab->recv, byte, bytes};
    else if (type == PAMI_XFER_ALLTOALL)
        cmd->xfer_alltoall = (pami_alltoall_t){lab->send, byte, bytes, lab->recv, byte, bytes};
    else
        cmd->xfer_allgatherv = (pami_allgatherv_t){
            lab->send, byte, bytes, lab->recv, byte, lab->counts, lab->displacements};
}

/* Counts of the forms with lists: equal ones. */
static void set_counts(struct lab *lab, pami_xfer_type_t type, uint64_t bytes)
{
    for (uint32_t i = 0; i < lab->tasks; i++) {
        lab->counts[i] = type == PAMI_XFER_REDUCE_SCATTER ? bytes / WORD / lab->tasks : bytes;
        lab->displacements[i] = i * bytes;
    }
}

/* Two at a time: one by one takes as long as some of the collectives that are measured. */
typedef uint64_t words_t __attribute__((vector_size(16), may_alias));

static void rewrite(struct lab *lab, pami_xfer_type_t type, uint64_t bytes, bool is_root)
{
    words_t *pairs = (void *)lab->send;
    words_t value = {lab->rounds, lab->rounds + 1};
    size_t count = (bytes * type_send_blocks(type, lab->tasks) + sizeof(value) - 1) / sizeof(value);

    if (!is_root && (type == PAMI_XFER_BROADCAST || type == PAMI_XFER_SCATTER))
        return;
    for (size_t i = 0; i < count; i++, value += 2)
        pairs[i] = value;
}

bool lab_run(struct lab *lab, pami_xfer_type_t type, pami_algorithm_t algorithm, uint64_t bytes,
             uint64_t turn)
{
    uint32_t root = type_has_root(type) ? (uint32_t)(turn % lab->tasks) : 0;
    pami_xfer_t xfer;

    memset(&xfer, 0, sizeof(xfer));
    xfer.cb_done = on_done;
    xfer.cookie = lab;
    xfer.algorithm = algorithm;
    lab->rounds++;
    rewrite(lab, type, bytes, root == lab->task);
    if (type == PAMI_XFER_REDUCE || type == PAMI_XFER_ALLREDUCE || type == PAMI_XFER_SCAN ||
        type == PAMI_XFER_REDUCE_SCATTER)
        fill_reduction(lab, type, bytes, lab->endpoints[root], &xfer.cmd);
    else if (type != PAMI_XFER_BARRIER)
        fill_move(lab, type, bytes, lab->endpoints[root], &xfer.cmd);
    if (type == PAMI_XFER_REDUCE_SCATTER || type == PAMI_XFER_ALLGATHERV)
        set_counts(lab, type, bytes);
    lab->done = false;
    if (PAMI_Collective(lab->context, &xfer) != PAMI_SUCCESS)
        return false;
    wait_for(lab);
    return true;
}

void lab_meet(struct lab *lab)
{
    if (!lab_run(lab, PAMI_XFER_BARRIER, lab->barrier, 0, 0))
        die("barrier");
}

uint64_t lab_tell(struct lab *lab, uint64_t value)
{
    pami_xfer_t xfer;

    memset(&xfer, 0, sizeof(xfer));
    xfer.cb_done = on_done;
    xfer.cookie = lab;
    xfer.algorithm = lab->broadcast;
    xfer.cmd.xfer_broadcast =
        (pami_broadcast_t){lab->endpoints[0], (char *)&value, PAMI_TYPE_BYTE, sizeof(value)};
    lab->done = false;
    if (PAMI_Collective(lab->context, &xfer) != PAMI_SUCCESS)
        die("broadcast");
    wait_for(lab);
    return value;
}

/* ---- beginning and end ---- */

static pami_algorithm_t first_of(struct lab *lab, pami_xfer_type_t type)
{
    pami_algorithm_t algorithm;

    if (PAMI_Geometry_algorithms_query(lab->world, type, &algorithm, NULL, 1, NULL, NULL, 0) !=
        PAMI_SUCCESS)
        die("PAMI_Geometry_algorithms_query");
    return algorithm;
}

static char *buffer(size_t bytes)
{
    void *memory = NULL;

    if (posix_memalign(&memory, 4096, bytes + sizeof(words_t)) != 0)
        return NULL;
    memset(memory, 0, bytes + sizeof(words_t));
    return memory;
}

static int find_places(struct lab *lab)
{
    pami_configuration_t query[2] = {{.name = PAMI_CLIENT_TASK_ID},
                                     {.name = PAMI_CLIENT_NUM_TASKS}};

    if (PAMI_Client_query(lab->client, query, 2) != PAMI_SUCCESS)
        return 1;
    lab->task = (uint32_t)query[0].value.intval;
    lab->tasks = (uint32_t)query[1].value.intval;
    lab->endpoints = calloc(lab->tasks, sizeof(*lab->endpoints));
    lab->counts = calloc(lab->tasks, sizeof(*lab->counts));
    lab->displacements = calloc(lab->tasks, sizeof(*lab->displacements));
    if (lab->endpoints == NULL || lab->counts == NULL || lab->displacements == NULL)
        return 1;
    for (uint32_t i = 0; i < lab->tasks; i++)
        if (PAMI_Endpoint_create(lab->client, i, 0, &lab->endpoints[i]) != PAMI_SUCCESS)
            return 1;
    return 0;
}

void lab_open(struct lab *lab)
{
    memset(lab, 0, sizeof(*lab));
    if (PAMI_Client_create("pami_tune", &lab->client, NULL, 0) != PAMI_SUCCESS ||
        PAMI_Context_createv(lab->client, NULL, 0, &lab->context, 1) != PAMI_SUCCESS ||
        PAMI_Geometry_world(lab->client, &lab->world) != PAMI_SUCCESS || find_places(lab) != 0)
        die("cannot start");
    lab->barrier = first_of(lab, PAMI_XFER_BARRIER);
    lab->broadcast = first_of(lab, PAMI_XFER_BROADCAST);
    lab_meet(lab);
}

void lab_room(struct lab *lab, pami_xfer_type_t type, uint64_t bytes)
{
    lab->send = buffer(bytes * type_send_blocks(type, lab->tasks));
    lab->recv = buffer(bytes * type_recv_blocks(type, lab->tasks));
    if (lab->send == NULL || lab->recv == NULL)
        die("out of memory");
}

void lab_close(struct lab *lab)
{
    lab_meet(lab);
    free(lab->endpoints);
    free(lab->counts);
    free(lab->displacements);
    free(lab->send);
    free(lab->recv);
    PAMI_Context_destroyv(&lab->context, 1);
    PAMI_Client_destroy(&lab->client);
}
