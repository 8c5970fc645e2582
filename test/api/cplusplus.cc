// A C++ program that uses the library's variables before main: static initialisers in a second
// translation unit order, members of global objects, tables. Built in several ways by cplusplus.sh,
// among them without position-independent code, where the variables come by copy relocation.

#include <pami.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

// Still exported for old programs, in no header.
extern "C" pami_type_t PAMI_TYPE_LOGICAL;

namespace {

void require(bool condition, const char *what)
{
    if (condition)
        return;
    std::fprintf(stderr, "not true: %s\n", what);
    _exit(1);
}

#define REQUIRE(condition) require(condition, #condition)

// Initialised before main, from variables of the library.
pami_type_t early_types[] = {PAMI_TYPE_BYTE,          PAMI_TYPE_SIGNED_INT, PAMI_TYPE_DOUBLE,
                             PAMI_TYPE_DOUBLE_COMPLEX, PAMI_TYPE_LOC_2INT,   PAMI_TYPE_LOGICAL8};
pami_data_function early_functions[] = {PAMI_DATA_COPY, PAMI_DATA_SUM, PAMI_DATA_MINLOC};
const pami_endpoint_t nobody = PAMI_ENDPOINT_NULL;
const std::size_t everything = PAMI_ALL_CONTEXTS;

class Layout
{
public:
    // A whole type is built before main, before any client.
    Layout() : type(PAMI_TYPE_NULL)
    {
        REQUIRE(PAMI_Type_create(&type) == PAMI_SUCCESS);
        REQUIRE(PAMI_Type_add_typed(type, PAMI_TYPE_DOUBLE, 0, 4, 16) == PAMI_SUCCESS);
        REQUIRE(PAMI_Type_complete(type, sizeof(double)) == PAMI_SUCCESS);
    }

    ~Layout()
    {
        REQUIRE(PAMI_Type_destroy(&type) == PAMI_SUCCESS);
    }

    std::size_t bytes() const
    {
        pami_configuration_t query;

        query.name = PAMI_TYPE_DATA_SIZE;
        REQUIRE(PAMI_Type_query(type, &query, 1) == PAMI_SUCCESS);
        return query.value.intval;
    }

    pami_type_t type;
};

Layout layout;

struct Receiver {
    double values[8];
    unsigned received;
};

void on_landed(pami_context_t, void *cookie, pami_result_t result)
{
    REQUIRE(result == PAMI_SUCCESS);
    static_cast<Receiver *>(cookie)->received++;
}

void on_message(pami_context_t, void *cookie, const void *, size_t, const void *pipe, size_t bytes,
                pami_endpoint_t, pami_recv_t *recv)
{
    Receiver *receiver = static_cast<Receiver *>(cookie);

    REQUIRE(pipe == NULL && recv != NULL && bytes == 4 * sizeof(double));
    recv->addr = receiver->values;
    recv->type = layout.type;
    recv->data_fn = PAMI_DATA_SUM;
    recv->cookie = receiver;
    recv->local_fn = on_landed;
}

void check_constants()
{
    REQUIRE(PAMI_CLIENT_NULL == NULL && PAMI_CONTEXT_NULL == NULL && PAMI_TYPE_NULL == NULL);
    REQUIRE(PAMI_GEOMETRY_NULL == NULL && PAMI_ALGORITHM_NULL == 0);
    REQUIRE(nobody == static_cast<pami_endpoint_t>(-1) && nobody == PAMI_ENDPOINT_NULL);
    REQUIRE(everything == static_cast<std::size_t>(-1));
    REQUIRE(PAMI_IN_PLACE == reinterpret_cast<void *>(-1L));
    REQUIRE(early_types[0] == PAMI_TYPE_BYTE && early_types[1] == PAMI_TYPE_SIGNED_INT);
    REQUIRE(early_types[2] == PAMI_TYPE_DOUBLE && early_types[3] == PAMI_TYPE_DOUBLE_COMPLEX);
    REQUIRE(early_types[4] == PAMI_TYPE_LOC_2INT && early_types[5] == PAMI_TYPE_LOGICAL8);
    for (std::size_t i = 0; i < sizeof early_types / sizeof early_types[0]; i++) {
        REQUIRE(early_types[i] != NULL);
        for (std::size_t j = 0; j < i; j++)
            REQUIRE(early_types[i] != early_types[j]);
    }
    REQUIRE(early_functions[0] == NULL && early_functions[1] == PAMI_DATA_SUM);
    REQUIRE(early_functions[2] == PAMI_DATA_MINLOC && PAMI_DATA_NOOP != NULL);
    REQUIRE(PAMI_TYPE_LOGICAL == PAMI_TYPE_LOGICAL4);
    REQUIRE(layout.bytes() == 4 * sizeof(double));
}

} // namespace

int main()
{
    pami_client_t client;
    pami_context_t context;
    pami_configuration_t query;
    pami_dispatch_callback_function function;
    pami_dispatch_hint_t hints;
    pami_send_t send;
    pami_endpoint_t dest;
    Receiver receiver = {{1, 1, 1, 1, 1, 1, 1, 1}, 0};
    double values[4] = {10, 20, 30, 40};

    check_constants();
    REQUIRE(PAMI_Client_create("C++", &client, NULL, 0) == PAMI_SUCCESS);
    query.name = PAMI_CLIENT_TASK_ID;
    REQUIRE(PAMI_Client_query(client, &query, 1) == PAMI_SUCCESS);
    const std::size_t task = query.value.intval;
    query.name = PAMI_CLIENT_NUM_TASKS;
    REQUIRE(PAMI_Client_query(client, &query, 1) == PAMI_SUCCESS);
    const std::size_t tasks = query.value.intval;
    REQUIRE(PAMI_Context_createv(client, NULL, 0, &context, 1) == PAMI_SUCCESS);
    std::memset(&hints, 0, sizeof hints);
    hints.recv_immediate = PAMI_HINT_DISABLE;
    function.p2p = on_message;
    REQUIRE(PAMI_Dispatch_set(context, 1, function, &receiver, hints) == PAMI_SUCCESS);
    REQUIRE(PAMI_Endpoint_create(client, static_cast<pami_task_t>((task + 1) % tasks), 0, &dest) ==
            PAMI_SUCCESS);

    std::memset(&send, 0, sizeof send);
    send.send.data.iov_base = reinterpret_cast<char *>(values);
    send.send.data.iov_len = sizeof values;
    send.send.dispatch = 1;
    send.send.dest = dest;
    REQUIRE(PAMI_Send(context, &send) == PAMI_SUCCESS);
    const double until = PAMI_Wtime(client) + 20;
    while (receiver.received == 0) {
        PAMI_Context_advance(context, 100);
        REQUIRE(PAMI_Wtime(client) < until);
    }
    for (int i = 0; i < 8; i++)
        REQUIRE(receiver.values[i] == (i % 2 == 0 ? 1 + 10 * (i / 2 + 1) : 1));
    REQUIRE(PAMI_Context_destroyv(&context, 1) == PAMI_SUCCESS);
    REQUIRE(PAMI_Client_destroy(&client) == PAMI_SUCCESS);
    return 0;
}
