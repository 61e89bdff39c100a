#include "link/clocks.h"

#include "common/base/clock.h"
#include "common/base/error.h"

enum { ASKED = 5, BOUND_S = 60 };

// Half of a question's way belongs to each side: the quickest of a few is the best one.
static int ask(struct sl_world *w, uint32_t of, int64_t *ahead_ns)
{
    uint64_t least = UINT64_MAX, theirs;
    for (int i = 0; i < ASKED; i++) {
        const uint64_t begin = sl_now_ns();
        SL_TRY(sl_world_put(w, of, &begin, sizeof begin, BOUND_S));
        SL_TRY(sl_world_get(w, of, &theirs, sizeof theirs, BOUND_S));
        const uint64_t took = sl_now_ns() - begin;
        if (took >= least)
            continue;
        least = took;
        *ahead_ns = (int64_t)(theirs - begin - took / 2);
    }
    return SL_OK;
}

static int answer(struct sl_world *w)
{
    uint64_t word;
    for (int i = 0; i < ASKED; i++) {
        SL_TRY(sl_world_get(w, 0, &word, sizeof word, BOUND_S));
        word = sl_now_ns();
        SL_TRY(sl_world_put(w, 0, &word, sizeof word, BOUND_S));
    }
    return SL_OK;
}

// The first node asks all, and tells each what it has found.
int sl_link_clocks(struct sl_world *w, int64_t *ahead_ns)
{
    const size_t bytes = w->size * sizeof *ahead_ns;
    w->doing = "comparing clocks";
    if (w->rank != 0) {
        SL_TRY(answer(w));
        SL_TRY(sl_world_get(w, 0, ahead_ns, bytes, BOUND_S));
    } else {
        ahead_ns[0] = 0;
        for (uint32_t i = 1; i < w->size; i++)
            SL_TRY(ask(w, i, &ahead_ns[i]));
        for (uint32_t i = 1; i < w->size; i++)
            SL_TRY(sl_world_put(w, i, ahead_ns, bytes, BOUND_S));
    }
    const int64_t own = ahead_ns[w->rank];
    for (uint32_t i = 0; i < w->size; i++)
        ahead_ns[i] -= own;
    return SL_OK;
}
