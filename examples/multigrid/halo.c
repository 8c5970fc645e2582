/*
 * Points are told from points of the layer by their number: -1 and size are in the layer.
 */
#include "halo.h"

/* ---- arrivals: on whichever thread advances the context ---- */

static void count_arrival(struct halo_side *side, uint64_t number)
{
    atomic_fetch_add_explicit(&side->arrived[number % 2], 1, memory_order_release);
}

/* One place has one message at a time, so a function for each will do. */
static void on_even(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)result;
    count_arrival(cookie, 0);
}

static void on_odd(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)result;
    count_arrival(cookie, 1);
}

static void on_message(pami_context_t context, void *cookie, const void *header, size_t header_size,
                       const void *data, size_t data_size, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    struct halos *halos = cookie;
    struct halo_note note;
    struct halo_side *side;

    (void)context, (void)origin, (void)header_size;
    memcpy(&note, header, sizeof(note));
    side = &halos->level[note.level]->side[note.direction];
    if (recv == NULL) {
        memcpy(side->came[note.number % 2], data, data_size);
        count_arrival(side, note.number);
        return;
    }
    recv->addr = side->came[note.number % 2];
    recv->cookie = side;
    recv->local_fn = note.number % 2 == 0 ? on_even : on_odd;
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    struct halo *halo = cookie;

    (void)context;
    together_check(halo->background->all, result, "PAMI_Send_typed");
    atomic_fetch_sub_explicit(&halo->sending, 1, memory_order_release);
}

/* ---- making ---- */

void halos_start(struct halos *halos, const struct background *background)
{
    pami_dispatch_callback_function fn = {.p2p = on_message};
    pami_dispatch_hint_t hints = {0};

    *halos = (struct halos){.background = background};
    TOGETHER(background->all,
             PAMI_Dispatch_set(background->all->context, HALO_DISPATCH, fn, halos, hints));
}

/* Rows of rows, `size` points of a grid. */
static pami_type_t make_type(const struct together *all, const struct grid *grid,
                             const size_t size[3])
{
    size_t line = (grid->block.size[0] + 2) * sizeof(double);
    pami_type_t type, plane;

    TOGETHER(all, PAMI_Type_create(&plane));
    TOGETHER(all, PAMI_Type_add_simple(plane, size[0] * sizeof(double), 0, size[1], line));
    TOGETHER(all, PAMI_Type_complete(plane, sizeof(double)));
    TOGETHER(all, PAMI_Type_create(&type));
    TOGETHER(all, PAMI_Type_add_typed(type, plane, 0, size[2], (grid->block.size[1] + 2) * line));
    TOGETHER(all, PAMI_Type_complete(type, sizeof(double)));
    TOGETHER(all, PAMI_Type_destroy(&plane));
    return type;
}

static size_t points_of(const struct halo_side *side)
{
    return side->size[0] * side->size[1] * side->size[2];
}

/* The neighbour in a direction: steps of -1, 0 or 1, which are the digits of its number. */
static void find_side(struct halo *halo, unsigned direction, const size_t tasks[3])
{
    const struct together *all = halo->background->all;
    struct halo_side *side = &halo->side[direction];
    size_t steps[3] = {direction % 3, direction / 3 % 3, direction / 9}; /* plus 1 each */
    size_t task = 0, rest = all->task, width = 1;
    unsigned sideways = 0;

    for (int d = 0; d < 3; d++) {
        size_t at = rest % tasks[d], size = halo->grid->block.size[d];

        if (at + steps[d] == 0 || at + steps[d] == tasks[d] + 1)
            return;
        task += (at + steps[d] - 1) * width;
        rest /= tasks[d];
        width *= tasks[d];
        sideways += steps[d] != 1;
        side->size[d] = steps[d] == 1 ? size : 1;
        side->low[d] = steps[d] == 2 ? size - 1 : 0;
        side->layer[d] = steps[d] == 0 ? (size_t)-1 : steps[d] == 2 ? size : 0;
    }
    if (sideways == 0)
        return;
    side->exists = true;
    side->is_face = sideways == 1;
    side->to = all->endpoint[task];
    side->type = make_type(all, halo->grid, side->size);
    for (int i = 0; i < 2; i++)
        side->came[i] = together_memory(all, points_of(side), sizeof(double));
}

void halo_make(struct halos *halos, uint32_t level, struct halo *halo, const struct grid *grid,
               const size_t tasks[3])
{
    memset(halo, 0, sizeof(*halo));
    halo->background = halos->background;
    halo->grid = grid;
    for (unsigned i = 0; i < HALO_DIRECTIONS; i++) {
        find_side(halo, i, tasks);
        halo->side[i].note =
            (struct halo_note){.level = level, .direction = HALO_DIRECTIONS - 1 - i};
    }
    halos->level[level] = halo;
}

void halo_free(struct halo *halo)
{
    for (unsigned i = 0; i < HALO_DIRECTIONS; i++) {
        struct halo_side *side = &halo->side[i];

        if (!side->exists)
            continue;
        TOGETHER(halo->background->all, PAMI_Type_destroy(&side->type));
        free(side->came[0]);
        free(side->came[1]);
    }
}

/* ---- exchanging ---- */

static bool takes_part(const struct halo_side *side, enum halo_reach reach)
{
    return side->exists && (reach == HALO_ALL || side->is_face);
}

static void send_side(struct halo *halo, struct halo_side *side, double *field)
{
    pami_send_typed_t send = {
        .send = {.header = {.iov_base = &side->note, .iov_len = sizeof(side->note)},
                 .data = {.iov_base =
                              field + grid_at(halo->grid, side->low[0], side->low[1], side->low[2]),
                          .iov_len = points_of(side) * sizeof(double)},
                 .dispatch = HALO_DISPATCH,
                 .dest = side->to},
        .events = {.cookie = halo, .local_fn = on_sent},
        .typed = {.type = side->type},
    };

    atomic_fetch_add_explicit(&halo->sending, 1, memory_order_relaxed);
    TOGETHER(halo->background->all, PAMI_Send_typed(halo->background->all->context, &send));
}

void halo_begin(struct halo *halo, double *field, enum halo_reach reach)
{
    background_lock(halo->background);
    for (unsigned i = 0; i < HALO_DIRECTIONS; i++)
        if (takes_part(&halo->side[i], reach))
            send_side(halo, &halo->side[i], field);
    background_unlock(halo->background);
}

/* What has come goes into the layer. */
static void unpack(const struct halo *halo, const struct halo_side *side, const double *from,
                   double *field)
{
    for (size_t z = 0; z < side->size[2]; z++)
        for (size_t y = 0; y < side->size[1]; y++) {
            double *to =
                field + grid_at(halo->grid, side->layer[0], side->layer[1] + y, side->layer[2] + z);

            memcpy(to, from, side->size[0] * sizeof(double));
            from += side->size[0];
        }
}

void halo_end(struct halo *halo, double *field, enum halo_reach reach)
{
    for (unsigned i = 0; i < HALO_DIRECTIONS; i++) {
        struct halo_side *side = &halo->side[i];
        uint64_t number = side->note.number;

        if (!takes_part(side, reach))
            continue;
        while (atomic_load_explicit(&side->arrived[number % 2], memory_order_acquire) <= number / 2)
            background_poll(halo->background, 100);
        unpack(halo, side, side->came[number % 2], field);
    }
    while (atomic_load_explicit(&halo->sending, memory_order_acquire) != 0)
        background_poll(halo->background, 100);
    for (unsigned i = 0; i < HALO_DIRECTIONS; i++) /* the notes are ours again */
        if (takes_part(&halo->side[i], reach))
            halo->side[i].note.number++;
}
