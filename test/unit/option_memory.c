/*
 * No memory while options read the environment: choices and numbers have what it says all the same,
 * texts have it as soon as there is memory, and it says so until then.
 *
 * Run:
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/option.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static bool refusing;

static bool is_refused(size_t bytes)
{
    (void)bytes;
    return refusing;
}

#include "refusing.h"

int main(void)
{
    need_refusing();
    CHECK(setenv("PAMI_NETWORK", "shm", 1) == 0 && setenv("PAMI_OFI_INTERFACE", "lo", 1) == 0 &&
          setenv("PAMI_NUM_CONTEXTS", "8", 1) == 0);
    refusing = true;
    option_init();
    CHECK(option_load_again() == -ENOMEM);
    refusing = false;
    CHECK(strcmp(option_string(OPT_NETWORK), "shm") == 0);
    CHECK(option_source(OPT_NETWORK) == OPTION_FROM_ENVIRONMENT);
    CHECK(option_int(OPT_NUM_CONTEXTS) == 8);
    CHECK(option_source(OPT_OFI_INTERFACE) == OPTION_FROM_DEFAULT);
    CHECK(option_load_again() == 0 && strcmp(option_string(OPT_OFI_INTERFACE), "lo") == 0);
    CHECK(option_source(OPT_OFI_INTERFACE) == OPTION_FROM_ENVIRONMENT);
    CHECK(option_load_again() == 0);
    return 0;
}
