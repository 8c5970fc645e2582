/*
 * Explores the lock-free parts of the library: all interleavings of small scenarios, up to a few
 * deviations from the plainest run, with the loads that C11 allows. See doc/explore.md.
 *
 *     explore [--mutants | --deep N] [--verbose] [SCENARIO...]
 *
 * --mutants    weakens each memory order, read-modify-write and fence that a scenario meets, one
 *              after the other, and says which of them are not missed
 * --deep N     N more deviations
 *
 * Run: timeout=240
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "util/clock.h"

#include "internal.h"

static bool verbose, all_mutants;
static unsigned deeper;
static int failures;

static bool finds(const struct explore_scenario *scenario, const struct explore_bounds *bounds,
                  struct mutant mutant)
{
    struct engine_result result;

    memory_mutant = mutant;
    engine_explore(scenario, bounds, false, &result);
    memory_mutant = (struct mutant){.kind = MUTANT_NONE};
    if (all_mutants)
        printf("    %s %-8s %d at %s (%llu runs)\n", result.failed ? "found" : "NOT FOUND",
               mutant.kind == MUTANT_ORDER   ? "order"
               : mutant.kind == MUTANT_SPLIT ? "split"
                                             : "skip",
               mutant.order, engine_place(mutant.pc), (unsigned long long)result.runs);
    return result.failed;
}

/* How many weaker variants of what is at a site are found. */
static unsigned try_site(const struct explore_scenario *scenario,
                         const struct explore_bounds *bounds, const struct memory_site *site)
{
    struct mutant mutant = {.kind = MUTANT_ORDER, .pc = site->pc, .order = __ATOMIC_RELAXED};
    unsigned found = 0;

    if (site->rmw)
        found += finds(scenario, bounds, (struct mutant){.kind = MUTANT_SPLIT, .pc = site->pc});
    if (site->fence)
        return found +
               finds(scenario, bounds, (struct mutant){.kind = MUTANT_SKIP, .pc = site->pc});
    if (site->order == __ATOMIC_RELAXED)
        return found;
    found += finds(scenario, bounds, mutant);
    if (site->order == __ATOMIC_SEQ_CST || site->order == __ATOMIC_ACQ_REL) {
        mutant.order = __ATOMIC_ACQUIRE;
        found += finds(scenario, bounds, mutant);
        mutant.order = __ATOMIC_RELEASE;
        found += finds(scenario, bounds, mutant);
    }
    if (site->order == __ATOMIC_SEQ_CST) {
        mutant.order = __ATOMIC_ACQ_REL;
        found += finds(scenario, bounds, mutant);
    }
    return found;
}

static void try_mutants(const struct explore_scenario *scenario,
                        const struct explore_bounds *bounds)
{
    static struct memory_sites sites;
    unsigned found = 0;

    sites = *memory_sites;
    for (unsigned i = 0; i < sites.count && (all_mutants || found < scenario->orders); i++)
        found += try_site(scenario, bounds, &sites.site[i]);
    if (all_mutants)
        printf("    %u found\n", found);
    if (found < scenario->orders) {
        printf("not ok: %s: finds %u of %u weaker operations\n", scenario->name, found,
               scenario->orders);
        failures++;
    }
}

static void explore(const struct explore_scenario *scenario)
{
    struct explore_bounds bounds = scenario->bounds;
    struct engine_result result;

    bounds.total += deeper;
    bounds.preemptions += deeper;
    bounds.stale += deeper;
    memory_sites->count = 0;
    engine_explore(scenario, &bounds, !scenario->broken || verbose, &result);
    if (result.failed != scenario->broken || result.cut) {
        printf("not ok: %s: %s\n", scenario->name,
               result.cut      ? "too many runs"
               : result.failed ? result.text
                               : "the explorer should find what is wrong there");
        failures++;
        return;
    }
    printf("ok: %s: %llu runs%s%s\n", scenario->name, (unsigned long long)result.runs,
           result.failed ? ", found: " : "", result.failed ? result.text : "");
    if (!scenario->broken && (all_mutants || scenario->orders != 0))
        try_mutants(scenario, &bounds);
}

static bool is_wanted(const char *name, char *const *names, int count)
{
    bool wanted = count == 0;

    for (int i = 0; i < count; i++)
        wanted = wanted || strncmp(name, names[i], strlen(names[i])) == 0;
    return wanted;
}

int main(int argc, char **argv)
{
    static const struct explore_scenario *const suites[] = {
        explore_workqueue, explore_device, explore_share,   explore_arena,
        explore_deaths,    explore_joint,  explore_regions, explore_servers,
    };
    int first = 1;

#if !defined(__x86_64__) && !defined(__aarch64__)
    printf("SKIP: the explorer cannot change the thread pointer of this processor\n");
    return 77;
#endif
    clock_source = CLOCK_SOURCE_MONOTONIC; /* whose time can be ours */
    for (; first < argc && strncmp(argv[first], "--", 2) == 0; first++) {
        verbose = verbose || strcmp(argv[first], "--verbose") == 0;
        all_mutants = all_mutants || strcmp(argv[first], "--mutants") == 0;
        if (strcmp(argv[first], "--deep") == 0 && first + 1 < argc)
            deeper = (unsigned)atoi(argv[++first]);
    }
    memory_sites = mmap(NULL, sizeof(*memory_sites), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_sites == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++)
        for (const struct explore_scenario *scenario = suites[i]; scenario->name != NULL;
             scenario++)
            if (is_wanted(scenario->name, argv + first, argc - first))
                explore(scenario);
    return failures != 0;
}
