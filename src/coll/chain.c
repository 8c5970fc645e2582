/*
 * Chains: machines one after the other. See compose.h.
 *
 * A link may complete inside its start; a loop takes care of that, so that the stack does not grow
 * with the number of links.
 */
#include <stdlib.h>

#include "coll/coll.h"
#include "coll/compose.h"

struct chain {
    struct machine machine;
    bool running, inside, again;
    uint32_t next; /* link to start */
    uint32_t count;
    pami_result_t result;
    struct machine *links[];
};

static const struct machine_ops chain_ops;

static struct chain *chain_of(struct machine *machine)
{
    return container_of(machine, struct chain, machine);
}

static void give_up_from(struct chain *chain, uint32_t first, pami_result_t result)
{
    for (uint32_t i = first; i < chain->count; i++)
        chain->links[i]->ops->give_up(chain->links[i], result);
}

static void end(struct chain *chain)
{
    chain->running = false;
    coll_ends(chain->machine.group);
    chain->machine.done(&chain->machine, chain->result);
}

/* Start links until one does not complete at once. */
static void go_on(struct chain *chain)
{
    chain->inside = true;
    do {
        chain->again = false;
        if (chain->result != PAMI_SUCCESS) {
            uint32_t from = chain->next;
            char *text = compose_text();

            chain->next = chain->count;
            give_up_from(chain, from, chain->result);
            compose_say(chain->result, text);
        }
        if (chain->next == chain->count) {
            chain->inside = false;
            end(chain);
            return;
        }
        chain->next++;
        chain->links[chain->next - 1]->ops->start(chain->links[chain->next - 1]);
    } while (chain->again);
    chain->inside = false;
}

static void link_done(struct machine *machine, pami_result_t result)
{
    struct chain *chain = machine->cookie;

    if (result != PAMI_SUCCESS)
        chain->result = result;
    if (chain->inside)
        chain->again = true;
    else
        go_on(chain);
}

static void reserve(struct machine *machine, uint32_t runs)
{
    struct chain *chain = chain_of(machine);

    for (uint32_t i = 0; i < chain->count; i++)
        chain->links[i]->ops->reserve(chain->links[i], runs);
    machine->numbers = runs; /* reserved by somebody above */
}

static void start(struct machine *machine)
{
    struct chain *chain = chain_of(machine);

    compose_number(machine);
    chain->running = true;
    chain->next = 0;
    chain->result = PAMI_SUCCESS;
    coll_runs(machine->group);
    go_on(chain);
}

static void give_up(struct machine *machine, pami_result_t result)
{
    struct chain *chain = chain_of(machine);

    if (!chain->running) {
        compose_number(machine);
        give_up_from(chain, 0, result);
    } else if (chain->next != 0) {
        struct machine *link = chain->links[chain->next - 1];

        link->ops->give_up(link, result);
    }
}

static void release(struct machine *machine)
{
    struct chain *chain = chain_of(machine);

    for (uint32_t i = 0; i < chain->count; i++)
        chain->links[i]->ops->release(chain->links[i]);
    free(chain);
}

static bool is_running(struct machine *machine)
{
    return chain_of(machine)->running;
}

static const struct machine_ops chain_ops = {
    .reserve = reserve,
    .start = start,
    .release = release,
    .give_up = give_up,
    .is_running = is_running,
};

struct machine *chain_make(struct group *group, struct machine *const links[], uint32_t count)
{
    struct chain *chain = calloc(1, sizeof(*chain) + count * sizeof(chain->links[0]));

    if (chain == NULL)
        return NULL;
    machine_init(&chain->machine, &chain_ops, group);
    chain->count = count;
    for (uint32_t i = 0; i < count; i++) {
        chain->links[i] = links[i];
        links[i]->done = link_done;
        links[i]->cookie = chain;
    }
    return &chain->machine;
}

void chain_unmake(struct machine *chain)
{
    free(chain_of(chain));
}
