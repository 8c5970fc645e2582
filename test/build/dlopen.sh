#!/bin/bash
# A program that is not linked with the library opens it when it runs, as plug-ins of MPI layers and
# scripting languages do: alone and as two tasks, in its own namespace of symbols, and again after
# having closed it, in a thread that then ends. Likewise a plug-in that has the static library in it.
# Run: timeout=60
# shellcheck disable=SC2086 # a compiler may have arguments
set -eu

if [ -n "${SANITIZE-}" ]; then
    echo "SKIP: programs without the sanitizer cannot open a library built with it"
    exit 77
fi

top=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:-$top/build}
CC=${CC:-gcc}
PKG_CONFIG=${PKG_CONFIG:-pkg-config}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/program.c" <<'END'
#include <pami.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static size_t received;

static void on_message(pami_context_t context, void *cookie, const void *header, size_t header_size,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_size, (void)origin, (void)recv;
    received += bytes == 4 && memcmp(data, "data", 4) == 0;
}

static int use(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    pami_dispatch_callback_function function = {.p2p = on_message};
    pami_dispatch_hint_t hints = {0};
    pami_client_t client = NULL;
    pami_context_t context = NULL;
    pami_configuration_t query = {.name = PAMI_CLIENT_NUM_TASKS};
    pami_send_immediate_t send = {.data = {"data", 4}, .dispatch = 3};
    pami_type_t *type;

#define FIND(name) __typeof__(&name) find_##name = (__typeof__(&name))dlsym(library, #name)
    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    FIND(PAMI_Client_create);
    FIND(PAMI_Client_query);
    FIND(PAMI_Client_destroy);
    FIND(PAMI_Context_createv);
    FIND(PAMI_Context_advance);
    FIND(PAMI_Context_destroyv);
    FIND(PAMI_Dispatch_set);
    FIND(PAMI_Endpoint_create);
    FIND(PAMI_Send_immediate);
    type = dlsym(library, "PAMI_TYPE_DOUBLE");
    CHECK(type != NULL && *type != NULL);
    CHECK(find_PAMI_Client_create("dlopen", &client, NULL, 0) == PAMI_SUCCESS);
    CHECK(find_PAMI_Client_query(client, &query, 1) == PAMI_SUCCESS);
    CHECK(find_PAMI_Context_createv(client, NULL, 0, &context, 1) == PAMI_SUCCESS);
    CHECK(find_PAMI_Dispatch_set(context, 3, function, NULL, hints) == PAMI_SUCCESS);
    received = 0;
    for (pami_task_t task = 0; task < query.value.intval; task++) {
        CHECK(find_PAMI_Endpoint_create(client, task, 0, &send.dest) == PAMI_SUCCESS);
        CHECK(find_PAMI_Send_immediate(context, &send) == PAMI_SUCCESS);
    }
    while (received < query.value.intval)
        find_PAMI_Context_advance(context, 100);
    CHECK(find_PAMI_Context_destroyv(&context, 1) == PAMI_SUCCESS);
    CHECK(find_PAMI_Client_destroy(&client) == PAMI_SUCCESS);
    return dlclose(library);
}

static void *use_in_thread(void *path)
{
    return use(path) == 0 ? path : NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    CHECK(use(argv[1]) == 0);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        void *done;

        CHECK(pthread_create(&thread, NULL, use_in_thread, argv[1]) == 0);
        CHECK(pthread_join(thread, &done) == 0 && done != NULL);
    }
    return 0;
}
END

$CC -std=gnu11 -Wall -Werror -I"$top/include" -pthread -o "$work/program" "$work/program.c" -ldl
read -r -a hwloc < <("$PKG_CONFIG" --libs hwloc)
$CC -shared -o "$work/plugin.so" -Wl,--whole-archive "$BUILD/lib/libpami.a" \
    -Wl,--no-whole-archive "${hwloc[@]}" -pthread -lm -ldl -lrt
for library in "$BUILD/lib/libpami.so" "$work/plugin.so"; do
    "$work/program" "$library"
    "$BUILD/bin/pamirun" -n 2 "$work/program" "$library"
done
