#include "nodes/links.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"

enum { BYTES_MAX = 64 << 20, EXCHANGES_MAX = 100 };

static const double budget_s = 0.25;
// While it measures, a rank looks without sleeping so long: what is measured is the network.
static const uint64_t spin_ns = 2000000;

static const struct {
    uint64_t there, back;
    uint32_t most;
} sizes[] = {
#define ROW(name, key, heading, there, back, most) {there, back, most},
    SL_LINK_SIZES(ROW)
#undef ROW
};

const char *const sl_link_keys[] = {
#define KEY(name, key, heading, there, back, most) key,
    SL_LINK_SIZES(KEY)
#undef KEY
};

const char *const sl_link_headings[] = {
#define HEADING(name, key, heading, there, back, most) heading,
    SL_LINK_SIZES(HEADING)
#undef HEADING
};

// What the leader asks for: `times` exchanges. times 0: that was all.
struct order {
    uint64_t there, back, times;
};

static int by_time(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// The middle one, in seconds.
static int exchange(struct sl_world *w, uint32_t with, char *buffer, const struct order *o,
                    double *out)
{
    uint64_t took[EXCHANGES_MAX];
    SL_TRY(sl_world_put(w, with, o, sizeof *o, SL_LINK_BOUND_S));
    for (uint64_t i = 0; i < o->times; i++) {
        const uint64_t begin = sl_now_ns();
        SL_TRY(sl_world_put(w, with, buffer, o->there, SL_LINK_BOUND_S));
        SL_TRY(sl_world_get(w, with, buffer, o->back, SL_LINK_BOUND_S));
        took[i] = SL_MAX(sl_now_ns() - begin, 1);
    }
    qsort(took, o->times, sizeof *took, by_time);
    *out = (double)took[o->times / 2] / SL_WORLD_SECOND;
    return SL_OK;
}

static int lead(struct sl_world *w, uint32_t with, char *buffer, struct sl_link *out)
{
    double last = 0, trip = 0;
    for (size_t i = 0; i < SL_COUNT_OF(sizes); i++) {
        struct order o = {sizes[i].there, sizes[i].back, 1};
        double first;
        // A trip of 8 bytes is all way; what more bytes take beyond it grows with their number.
        if (i && trip + (last - trip) * ((double)sizes[i].there / (double)sizes[i - 1].there) >
                     SL_LINK_MOST_S)
            break;
        SL_TRY(exchange(w, with, buffer, &o, &first));
        o.times = (uint64_t)SL_MAX(SL_MIN(budget_s / first, (double)sizes[i].most), 1);
        SL_TRY(exchange(w, with, buffer, &o, &last));
        if (i == SL_LINK_TRIP_8)
            trip = last;
        SL_FAILPOINT(NODES_MEASURING);
        out->figure[i] =
            sl_link_is_rate(i) ? (double)sizes[i].there / SL_MAX(last - trip / 2, last / 2) : last;
    }
    const struct order end = {0};
    return sl_world_put(w, with, &end, sizeof end, SL_LINK_BOUND_S);
}

static int follow(struct sl_world *w, uint32_t with, char *buffer)
{
    for (;;) {
        struct order o;
        SL_TRY(sl_world_get(w, with, &o, sizeof o, SL_LINK_BOUND_S));
        if (o.times == 0)
            return SL_OK;
        if (o.there > BYTES_MAX || o.back > BYTES_MAX || o.times > EXCHANGES_MAX)
            return sl_fail(SL_EPROTO, "%s: %s asks for a message that is too large", w->doing,
                           sl_world_name(w, with).text);
        for (uint64_t i = 0; i < o.times; i++) {
            SL_TRY(sl_world_get(w, with, buffer, o.there, SL_LINK_BOUND_S));
            SL_TRY(sl_world_put(w, with, buffer, o.back, SL_LINK_BOUND_S));
        }
        SL_FAILPOINT(NODES_MEASURING);
    }
}

// As leader where out is there.
static int measure(struct sl_world *w, uint32_t with, struct sl_link *out)
{
    char *buffer = malloc(BYTES_MAX);
    if (!buffer)
        return sl_fail(SL_ENOMEM, "measuring the network: no memory");
    memset(buffer, 1, BYTES_MAX); // pages that are there
    w->spin_ns = spin_ns;
    int rc = out ? lead(w, with, buffer, out) : follow(w, with, buffer);
    w->spin_ns = 0;
    free(buffer);
    return rc;
}

// Of a link that is too slow for a MiB, by the next smaller message, which went there and back.
static double rate_of(const struct sl_link *l)
{
    const double trip = l->figure[SL_LINK_TRIP_32K], n = (double)sizes[SL_LINK_TRIP_32K].there;
    return l->figure[SL_LINK_RATE_1M] > 0 ? l->figure[SL_LINK_RATE_1M]
           : trip > 0                     ? 2 * n / trip
                                          : 0;
}

struct sl_link_speed sl_link_slowest(const struct sl_link *link, uint32_t n)
{
    struct sl_link_speed least = {0};
    for (uint32_t i = 0; i < n; i++) {
        const double rate = rate_of(&link[i]);
        least.trip_s = SL_MAX(least.trip_s, link[i].figure[SL_LINK_TRIP_8]);
        if (rate > 0 && (least.bytes_per_s == 0 || rate < least.bytes_per_s))
            least.bytes_per_s = rate;
    }
    return least;
}

int sl_link_lead(struct sl_world *w, uint32_t with, struct sl_link *out)
{
    *out = (struct sl_link){.a = w->rank, .b = with};
    return measure(w, with, out);
}

int sl_link_follow(struct sl_world *w, uint32_t with)
{
    return measure(w, with, NULL);
}
