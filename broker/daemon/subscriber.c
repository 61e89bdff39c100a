#include "broker/daemon/subscriber.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "broker/log/client.h"
#include "common/base/bits.h"
#include "common/base/error.h"

void sl_subscribers_init(struct sl_subscribers *s, struct sl_bus *bus)
{
    memset(s, 0, sizeof *s);
    s->bus = bus;
}

void sl_subscribers_fini(struct sl_subscribers *s)
{
    free(s->list);
    memset(s, 0, sizeof *s);
}

static void drop(struct sl_subscribers *s, uint32_t i)
{
    s->list[i] = s->list[--s->n];
}

// Drops the client that has missed most: it has gone, and the daemon did not notice.
static bool drop_one(struct sl_subscribers *s)
{
    uint32_t worst = 0;
    for (uint32_t i = 1; i < s->n; i++)
        if (s->list[i].missed > s->list[worst].missed)
            worst = i;
    if (s->n == 0 || s->list[worst].missed == 0)
        return false;
    drop(s, worst);
    return true;
}

static int make_room(struct sl_subscribers *s)
{
    if (s->n == SL_SUBSCRIBERS_MAX && !drop_one(s))
        return sl_fail(SL_EAGAIN, "%d clients listen already", SL_SUBSCRIBERS_MAX);
    if (s->n < s->capacity)
        return SL_OK;
    uint32_t capacity = SL_MAX(16u, 2 * s->capacity);
    struct sl_subscriber *wider = realloc(s->list, capacity * sizeof *wider);
    if (!wider)
        return sl_fail(SL_ENOMEM, "no memory for %u listening clients", capacity);
    s->list = wider;
    s->capacity = capacity;
    return SL_OK;
}

int sl_subscribers_add(struct sl_subscribers *s, const struct sl_bus_peer *peer, uint64_t job,
                       unsigned wants)
{
    for (uint32_t i = 0; i < s->n;) {
        struct sl_subscriber *one = &s->list[i];
        if (!sl_bus_same_peer(&one->peer, peer)) {
            i++;
        } else if (one->job == job || one->job == 0) {
            one->wants = one->job == job ? wants : one->wants | wants;
            return SL_OK;
        } else if (job == 0) {
            drop(s, i);
        } else {
            i++;
        }
    }
    SL_TRY(make_room(s));
    s->list[s->n] = (struct sl_subscriber){.peer = *peer, .job = job, .wants = wants};
    s->list[s->n++].peer.request = 0; // what comes by itself answers nothing
    return SL_OK;
}

void sl_subscribers_send(struct sl_subscribers *s, uint64_t job, unsigned wants,
                         Sl__Control__Envelope *body)
{
    for (uint32_t i = 0; i < s->n;) {
        struct sl_subscriber *one = &s->list[i];
        if ((one->job && one->job != job) || (wants && !(one->wants & wants))) {
            i++;
            continue;
        }
        if (sl_bus_send(s->bus, &one->peer, body) == SL_OK)
            one->missed = 0;
        else
            one->missed++;
        if (one->missed > SL_CLIENT_MISSED_MAX)
            drop(s, i);
        else
            i++;
    }
}
