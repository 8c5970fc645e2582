/*
 * PAMI_Wtime and PAMI_Wtimebase: they never go back, agree with each other, with the system's clock
 * and with the attributes, the resolution among them; the client does not matter.
 *
 * Run:
 * Run: tasks=2
 */
#include "api_test.h"

#include <math.h>
#include <pthread.h>

enum {
    READINGS = 200000
};

static pami_client_t client;

static void *monotonic(void *cookie)
{
    double last = PAMI_Wtime(client), now;
    unsigned long long last_ticks = PAMI_Wtimebase(client), ticks;
    size_t i;

    for (i = 0; i < READINGS; i++) {
        now = PAMI_Wtime(client);
        CHECK(now >= last);
        last = now;
        ticks = PAMI_Wtimebase(client);
        CHECK(ticks >= last_ticks);
        last_ticks = ticks;
    }
    return cookie;
}

/* Relative error of a over b. */
static double off(double a, double b)
{
    return fabs(a - b) / b;
}

/* Over a quarter of a second, if nothing comes between two readings. */
static bool agree(double mhz)
{
    double system = test_now(), seconds = PAMI_Wtime(client), without = PAMI_Wtime(NULL);
    double ticks = (double)PAMI_Wtimebase(client);

    test_sleep(0.25);
    ticks = (double)PAMI_Wtimebase(NULL) - ticks;
    without = PAMI_Wtime(NULL) - without;
    seconds = PAMI_Wtime(client) - seconds;
    system = test_now() - system;
    /* The attribute is a whole number of MHz: half of one may be lost. */
    return off(seconds, system) < 0.02 && off(without, system) < 0.02 &&
           off(ticks / (mhz * 1e6), system) < 0.02 + 0.5 / mhz;
}

/* Readings are whole ticks apart, where a double is as exact as that. */
static void whole_ticks(double tick)
{
    double first = PAMI_Wtime(client);

    if (nextafter(first, 2 * first) - first > tick / 16)
        return;
    for (size_t i = 0; i < 10000; i++) {
        double ticks = (PAMI_Wtime(client) - first) / tick;

        CHECK(fabs(ticks - (double)(long long)(ticks + 0.5)) < 0.25);
    }
}

int main(void)
{
    pami_configuration_t query[2] = {{.name = PAMI_CLIENT_WTICK},
                                     {.name = PAMI_CLIENT_WTIMEBASE_MHZ}};
    double least = 1;
    pthread_t thread;
    size_t i, steps = 0;

    CHECK_OK(PAMI_Client_create("time", &client, NULL, 0));
    CHECK_OK(PAMI_Client_query(client, query, 2));

    for (int tries = 0; !agree((double)query[1].value.intval); tries++)
        CHECK(tries < 5);

    for (i = 0; i < 10000; i++) {
        double first = PAMI_Wtime(client), second = first;

        while (second == first)
            second = PAMI_Wtime(client);
        if (second - first < least)
            least = second - first;
        steps++;
    }
    CHECK(steps == 10000 && least < 1e-4);
    CHECK(query[0].value.doubleval > 0 && query[0].value.doubleval <= 1e-5);
    whole_ticks(query[0].value.doubleval);

    CHECK(pthread_create(&thread, NULL, monotonic, NULL) == 0);
    monotonic(NULL);
    pthread_join(thread, NULL);
    CHECK_OK(PAMI_Client_destroy(&client));
    return 0;
}
