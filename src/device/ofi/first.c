/*
 * The first word over a link, which makes a provider connect, is that of the smaller endpoint.
 *
 * Where both ends connect at once a provider has to choose one of the connections, and `net` of
 * libfabric 1.17 takes one for an old one that is to be replaced, with what it has accepted, if a
 * third task has died just before. So the larger endpoint is mute until something has come.
 */
#include "device/ofi/first.h"
#include "util/clock.h"

/* The longest wait: a context that advances needs less. */
#define MUTE_NS UINT64_C(250000000)

static bool is_first(const struct ofi_link *link)
{
    return link->slot->endpoint <= link->path.endpoint;
}

bool ofi_is_mute(const struct ofi_link *link)
{
    return !link->heard && !is_first(link);
}

void ofi_greet(struct ofi_link *link)
{
    if (!link->heard && is_first(link) && list_empty(&link->owing))
        list_push_back(&link->slot->owing, &link->owing);
}

void ofi_heard(struct ofi_link *link)
{
    link->heard = true;
    if (link->state == LINK_MUTE)
        link->state = link->broken ? LINK_BROKEN : LINK_UP;
}

/* A context that holds too much does not read, and hears nothing; nor does one behind a firewall
 * that lets only connections of its own through. */
bool ofi_may_speak(struct ofi_link *link)
{
    uint64_t now = clock_now_ns();

    if (link->mute_since == 0)
        link->mute_since = now;
    if (now - link->mute_since < MUTE_NS)
        return false;
    ofi_heard(link);
    return link->state == LINK_UP;
}
