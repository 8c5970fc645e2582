/*
 * Making the tree of a group; see tree.h.
 *
 * It grows from the leaves: a list of what has no parent yet, in order, is merged level by level.
 */
#include "coll/aggregate/tree.h"

#include <errno.h>
#include <stdlib.h>

/* What has no parent yet. Equal coordinates: the same vertex of the job's tree. */
struct item {
    uint32_t id; /* as in tree.children */
    uint32_t host;
    uint32_t domain, index; /* index: among the members of the domain */
};

static int compare(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->domain != y->domain)
        return x->domain < y->domain ? -1 : 1;
    return x->host < y->host ? -1 : x->host > y->host;
}

/* Members in the order of domains. Returns the largest index. */
static uint32_t sort_members(struct item *items, const uint32_t *domain, uint32_t members)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < members; i++)
        items[i] = (struct item){i, i, domain[i], 0};
    qsort(items, members, sizeof(*items), compare);
    for (uint32_t i = 1; i < members; i++) {
        if (items[i].domain == items[i - 1].domain)
            items[i].index = items[i - 1].index + 1;
        most = items[i].index > most ? items[i].index : most;
    }
    return most;
}

static void adopt(struct aggregate_tree *tree, const struct item *items, uint32_t count)
{
    const uint32_t number = tree->vertices++;
    struct aggregate_vertex *vertex = &tree->vertex[number];

    vertex->at = (struct aggregate_place){AGGREGATE_NONE, 0};
    vertex->host = items[0].host;
    vertex->first = number == 0 ? 0 : vertex[-1].first + vertex[-1].count;
    vertex->count = count;
    for (uint32_t i = 0; i < count; i++) {
        const struct aggregate_place at = {number, i};
        uint32_t id = items[i].id;

        tree->children[vertex->first + i] = id;
        if (id < tree->members)
            tree->leaf[id] = at;
        else
            tree->vertex[id - tree->members].at = at;
    }
}

/* Those with equal coordinates become one. Returns how many are left. */
static uint32_t merge(struct aggregate_tree *tree, struct item *items, uint32_t count)
{
    uint32_t left = 0;

    for (uint32_t from = 0, to; from < count; from = to) {
        struct item item = items[from];

        for (to = from + 1;
             to < count && items[to].domain == item.domain && items[to].index == item.index; to++)
            continue;
        if (to - from > 1) {
            adopt(tree, &items[from], to - from);
            item.id = tree->members + tree->vertices - 1;
        }
        items[left++] = item;
    }
    return left;
}

int aggregate_tree_make(struct aggregate_tree *tree, const uint32_t *domain, uint32_t members,
                        uint32_t radix)
{
    struct item *items = malloc(members * sizeof(*items));
    uint32_t count = members, most;

    *tree = (struct aggregate_tree){.members = members};
    tree->vertex = calloc(members, sizeof(*tree->vertex));
    tree->leaf = calloc(members, sizeof(*tree->leaf));
    tree->children = calloc(2 * (size_t)members, sizeof(*tree->children));
    if (items == NULL || tree->vertex == NULL || tree->leaf == NULL || tree->children == NULL) {
        free(items);
        aggregate_tree_free(tree);
        return -ENOMEM;
    }
    tree->leaf[0].parent = AGGREGATE_NONE;
    for (most = sort_members(items, domain, members); most != 0; most /= radix) {
        for (uint32_t i = 0; i < count; i++)
            items[i].index /= radix;
        count = merge(tree, items, count);
    }
    while (count > 1) {
        for (uint32_t i = 0; i < count; i++)
            items[i].domain /= radix;
        count = merge(tree, items, count);
    }
    free(items);
    return 0;
}

void aggregate_tree_free(struct aggregate_tree *tree)
{
    free(tree->vertex);
    free(tree->leaf);
    free(tree->children);
    *tree = (struct aggregate_tree){.members = 0};
}
