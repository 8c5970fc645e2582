/*
 * Tasks destroy their contexts and create them again, as often as one another but not at the same
 * time, held together by a barrier in each life alone. What is sent in one life arrives in the same
 * life of the other task, whether that is a life behind, between two, or there, and nobody waits
 * for the time after which a task that is behind would count as one that stays. One that does stay
 * gets what is for it then.
 *
 * Run: timeout=120
 */
#include "trouble.h"

enum {
    ID = 1,
    LIVES = 8,
    MESSAGES = 5,
    MOST = 100000
};

struct member {
    struct scene *scene;
    size_t self, life, contexts;
    pami_context_t context[2];
    size_t arrived, sent, done; /* messages in, messages out, collectives and atomics */
    bool is_last;               /* the barrier has begun */
    bool exists, is_over;
    int in, out;
    uint64_t word, one, before;
};

struct scene {
    struct dice dice;
    struct sim_job job;
    struct member *member;
    size_t left; /* members that have lives to come */
};

static char memory[MOST], received[MOST];

static void advance_life(struct member *m);

static void on_arrived(pami_context_t context, void *cookie, pami_result_t result)
{
    struct member *m = cookie;

    (void)context;
    CHECK(result == PAMI_SUCCESS);
    m->arrived++;
    advance_life(m);
}

static void on_message(pami_context_t context, void *cookie, const void *header, size_t header_size,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct member *m = cookie;
    size_t life;

    (void)data, (void)origin;
    CHECK(header_size == sizeof(life) && bytes <= MOST);
    memcpy(&life, header, sizeof(life));
    if (life != m->life)
        FAIL("a message of life %zu in life %zu of task %zu", life, m->life, m->self);
    if (recv == NULL) {
        on_arrived(context, m, PAMI_SUCCESS);
        return;
    }
    recv->addr = received;
    recv->cookie = m;
    recv->local_fn = on_arrived;
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    struct member *m = cookie;

    (void)context;
    CHECK(result == PAMI_SUCCESS);
    m->sent++;
    advance_life(m);
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct member *m = cookie;

    (void)context;
    CHECK(result == PAMI_SUCCESS);
    m->done++;
    advance_life(m);
}

static void send(struct member *m)
{
    struct scene *s = m->scene;
    size_t next = (m->self + 1) % s->job.tasks;
    pami_send_t send = {
        .send = {.header = {.iov_base = (char *)&m->life, .iov_len = sizeof(m->life)},
                 .data = {.iov_base = memory, .iov_len = dice_size(&s->dice, MOST)},
                 .dispatch = ID,
                 .dest = job_endpoint(&s->job, next, 0)},
        .events = {.cookie = m, .remote_fn = on_sent},
    };

    CALL(PAMI_Send(m->context[0], &send));
}

static void add(struct member *m)
{
    struct scene *s = m->scene;
    size_t next = (m->self + 1) % s->job.tasks;
    pami_rmw_t rmw = {
        .dest = job_endpoint(&s->job, next, 0),
        .cookie = m,
        .done_fn = on_done,
        .local = &m->before,
        .remote = &s->member[next].word,
        .value = &m->one,
        .operation = PAMI_ATOMIC_FETCH_ADD,
        .type = PAMI_TYPE_UNSIGNED_LONG_LONG,
    };

    CALL(PAMI_Rmw(m->context[0], &rmw));
}

static void collective(struct member *m, pami_xfer_type_t type)
{
    pami_xfer_t xfer = {.cb_done = on_done, .cookie = m};
    pami_metadata_t metadata;
    pami_geometry_t world;

    CALL(PAMI_Geometry_world(m->scene->job.client[m->self], &world));
    CALL(PAMI_Geometry_algorithms_query(world, type, &xfer.algorithm, &metadata, 1, NULL, NULL, 0));
    m->in = (int)(m->self + m->life);
    if (type == PAMI_XFER_ALLREDUCE)
        xfer.cmd.xfer_allreduce = (pami_allreduce_t){.sndbuf = (char *)&m->in,
                                                     .stype = PAMI_TYPE_SIGNED_INT,
                                                     .stypecount = 1,
                                                     .rcvbuf = (char *)&m->out,
                                                     .rtype = PAMI_TYPE_SIGNED_INT,
                                                     .rtypecount = 1,
                                                     .op = PAMI_DATA_SUM,
                                                     .commutative = 1};
    CALL(PAMI_Collective(m->context[0], &xfer));
}

/* What comes after this: the barrier when all else is there, the end when that is over. */
static void advance_life(struct member *m)
{
    size_t tasks = m->scene->job.tasks;

    if (m->arrived != MESSAGES || m->sent != MESSAGES || m->done < 2)
        return;
    if (!m->is_last) {
        CHECK(m->out == (int)(tasks * (tasks - 1) / 2 + tasks * m->life));
        CHECK(m->before == m->life);
        m->is_last = true;
        collective(m, PAMI_XFER_BARRIER);
    } else if (m->done == 3) {
        m->is_over = true;
    }
}

/* In each life something else comes first. */
static void begin(struct member *m)
{
    pami_dispatch_callback_function callback = {.p2p = on_message};

    m->contexts = 1 + m->life % 2;
    CALL(PAMI_Context_createv(m->scene->job.client[m->self], NULL, 0, m->context, m->contexts));
    CALL(PAMI_Dispatch_set(m->context[0], ID, callback, m, (pami_dispatch_hint_t){0}));
    m->exists = true;
    m->arrived = m->sent = m->done = 0;
    m->is_last = m->is_over = false;
    for (size_t i = 0; i < 3; i++)
        switch ((i + m->life) % 3) {
        case 0:
            for (size_t k = 0; k < MESSAGES; k++)
                send(m);
            break;
        case 1:
            collective(m, PAMI_XFER_ALLREDUCE);
            break;
        default:
            add(m);
        }
}

static void end(struct member *m)
{
    CALL(PAMI_Context_destroyv(m->context, m->contexts));
    m->exists = m->is_over = false;
    if (++m->life == LIVES)
        m->scene->left--;
}

static int is_anybody_over(void *cookie)
{
    struct scene *s = cookie;

    for (size_t i = 0; i < s->job.tasks; i++)
        if (s->member[i].is_over)
            return 1;
    return 0;
}

/* Some go on at once, others keep everybody waiting. */
static void step(struct scene *s)
{
    pami_result_t result =
        PAMIX_Sim_run(s->job.client[0], is_anybody_over, s, 0, 1e-7 + dice_unit(&s->dice) * 20e-6);
    size_t moved = result != PAMI_EAGAIN;

    for (size_t i = 0; i < s->job.tasks; i++) {
        struct member *m = &s->member[i];

        if (m->is_over && dice_one_in(&s->dice, 2))
            end(m), moved++;
        else if (!m->exists && m->life < LIVES && dice_one_in(&s->dice, 2))
            begin(m), moved++;
        else if (m->is_over || (!m->exists && m->life < LIVES))
            moved++;
    }
    if (moved == 0)
        FAIL("%s", test_text());
}

static void scene_create(struct scene *s, const pamix_sim_config_t *config, size_t tasks)
{
    s->left = s->job.tasks = tasks;
    s->member = calloc(tasks, sizeof(*s->member));
    s->job.client = calloc(tasks, sizeof(*s->job.client));
    CHECK(s->member != NULL && s->job.client != NULL);
    CALL(PAMIX_Sim_create(config, tasks, s->job.client));
    for (size_t i = 0; i < tasks; i++)
        s->member[i] = (struct member){.scene = s, .self = i, .one = 1};
}

static void scene_destroy(struct scene *s)
{
    CALL(PAMIX_Sim_destroy(s->job.client, s->job.tasks));
    free(s->job.client);
    free(s->member);
}

static void in_step(uint64_t seed, size_t tasks)
{
    struct scene s = {.dice = {seed}};
    pamix_sim_config_t config = trouble_config(&s.dice, seed);

    config.queue = 0; /* what ends between runs cannot wait for room */
    scene_create(&s, &config, tasks != 0 ? tasks : 1 + dice_below(&s.dice, 9));
    while (s.left != 0)
        step(&s);
    CHECK(PAMIX_Sim_time(s.job.client[0]) < 1);
    scene_destroy(&s);
}

/* One task has a second life, the other one stays in its first. */
static void alone(void)
{
    struct scene s = {.dice = {1}};
    struct member *m;

    scene_create(&s, NULL, 2);
    for (size_t i = 0; i < 3; i++) {
        m = &s.member[i % 2];
        m->contexts = 1;
        CALL(PAMI_Context_createv(s.job.client[m->self], NULL, 0, m->context, 1));
        CALL(PAMI_Dispatch_set(m->context[0], ID,
                               (pami_dispatch_callback_function){.p2p = on_message}, m,
                               (pami_dispatch_hint_t){0}));
        if (i == 0)
            CALL(PAMI_Context_destroyv(m->context, 1));
    }
    send(&s.member[0]);
    job_settle(&s.job);
    CHECK(s.member[0].sent == 1 && s.member[1].arrived == 1);
    CHECK(PAMIX_Sim_time(s.job.client[0]) >= 1);
    for (size_t i = 0; i < 2; i++)
        CALL(PAMI_Context_destroyv(s.member[i].context, 1));
    scene_destroy(&s);
}

int main(int argc, char **argv)
{
    struct test_arguments given = test_arguments(argc, argv, 60);

    alone();
    test_each_seed(&given, in_step);
    return 0;
}
