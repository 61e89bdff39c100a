#include "nodes/survey.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"

enum { CLOCK_ASKED = 3 };

// What the first node asks of another.
enum { ORDER_CLOCK, ORDER_LEAD, ORDER_FOLLOW, ORDER_END };

struct order {
    uint32_t what;
    uint32_t number; // with whom; at the end the problems
};

static uint64_t wall_ns(const struct sl_survey_spec *spec)
{
    struct timespec t;
    if (spec->wall_ns)
        return spec->wall_ns();
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * SL_WORLD_SECOND + (uint64_t)t.tv_nsec;
}

// --- a node's own facts --------------------------------------------------------------------------

struct looking {
    const struct sl_survey_spec *spec;
    struct sl_facts facts;
};

static int look(void *ctx)
{
    struct looking *l = ctx;
    return l->spec->look(l->spec->ctx, &l->facts);
}

static int look_beside(struct sl_world *w, const struct sl_survey_spec *spec,
                       struct sl_facts *facts)
{
    struct looking *l = calloc(1, sizeof *l);
    if (!l)
        return sl_fail(SL_ENOMEM, "what this node has: no memory");
    l->spec = spec;
    w->doing = "looking at this node";
    // After a failure, which ends the process, the thread may still write there: it stays.
    SL_TRY(sl_world_during(w, look, l));
    *facts = l->facts;
    free(l);
    return SL_OK;
}

// --- the others ----------------------------------------------------------------------------------

static int obey(struct sl_world *w, const struct sl_survey_spec *spec, struct order o)
{
    struct sl_link link;
    uint64_t now;
    switch (o.what) {
    case ORDER_CLOCK:
        now = wall_ns(spec);
        return sl_world_put(w, 0, &now, sizeof now, SL_LINK_BOUND_S);
    case ORDER_LEAD:
        SL_TRY(sl_link_lead(w, o.number, &link));
        return sl_world_put(w, 0, &link, sizeof link, SL_LINK_BOUND_S);
    case ORDER_FOLLOW: return sl_link_follow(w, o.number);
    case ORDER_END: return SL_OK;
    }
    return sl_fail(SL_EPROTO, "%s: %s asks for something unknown", w->doing,
                   sl_world_name(w, 0).text);
}

static int follow(struct sl_world *w, const struct sl_survey_spec *spec, uint32_t *problems)
{
    struct sl_facts facts = {0};
    SL_TRY(look_beside(w, spec, &facts));
    char *text = sl_facts_write(&facts);
    sl_facts_fini(&facts);
    w->doing = "comparing the nodes";
    int rc = text ? sl_world_say(w, 0, text) : sl_fail(SL_ENOMEM, "what this node has: no memory");
    free(text);
    SL_TRY(rc);
    SL_FAILPOINT(NODES_COMPARED);
    w->doing = "measuring the network";
    struct order o;
    do {
        SL_TRY(sl_world_get(w, 0, &o, sizeof o, SL_WORLD_ANSWER_S));
        SL_TRY(obey(w, spec, o));
    } while (o.what != ORDER_END);
    *problems = o.number;
    return SL_OK;
}

// --- the first node ------------------------------------------------------------------------------

static int ask(struct sl_world *w, uint32_t of, uint32_t what, uint32_t number)
{
    const struct order o = {.what = what, .number = number};
    return sl_world_put(w, of, &o, sizeof o, SL_LINK_BOUND_S);
}

static int compare(struct sl_world *w, struct sl_survey *s)
{
    const char **host = calloc(w->size, sizeof *host);
    if (!host)
        return sl_fail(SL_ENOMEM, "comparing %u nodes: no memory", w->size);
    int rc = SL_OK;
    for (uint32_t i = 0; i < w->size; i++)
        host[i] = w->member[i].host;
    for (uint32_t i = 1; i < w->size && rc == SL_OK; i++)
        for (uint32_t j = 0; j < i && rc == SL_OK; j++)
            if (strcmp(host[i], host[j]) == 0) {
                rc =
                    sl_node_notes_add(&s->notes, false,
                                      "ranks %u and %u are both on host %s: wanted a process on "
                                      "each node: mpirun --map-by ppr:1:node, mpiexec -ppn 1, srun "
                                      "--ntasks-per-node=1",
                                      j, i, host[i]);
                break;
            }
    if (rc == SL_OK)
        rc = sl_facts_compare(host, s->facts, w->size, &s->notes);
    free(host);
    return rc;
}

static int gather(struct sl_world *w, const struct sl_survey_spec *spec, struct sl_survey *s)
{
    SL_TRY(look_beside(w, spec, &s->facts[0]));
    w->doing = "comparing the nodes";
    SL_FAILPOINT(NODES_COMPARED);
    for (uint32_t i = 1; i < w->size; i++) {
        char *text;
        SL_TRY(sl_world_hear(w, i, &text));
        int rc = sl_facts_read(&s->facts[i], text);
        free(text);
        SL_TRY(rc);
    }
    return compare(w, s);
}

// Half of a question's way belongs to each side: the quickest of a few is the best one.
static int ask_clock(struct sl_world *w, const struct sl_survey_spec *spec, uint32_t of,
                     double *ahead_s)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < CLOCK_ASKED; i++) {
        uint64_t theirs;
        const uint64_t begin = sl_now_ns(), ours = wall_ns(spec);
        SL_TRY(ask(w, of, ORDER_CLOCK, 0));
        SL_TRY(sl_world_get(w, of, &theirs, sizeof theirs, SL_LINK_BOUND_S));
        const uint64_t took = sl_now_ns() - begin;
        if (took >= least)
            continue;
        least = took;
        *ahead_s = ((double)(int64_t)(theirs - ours) - (double)took / 2) / SL_WORLD_SECOND;
    }
    return SL_OK;
}

static int compare_clocks(struct sl_world *w, const struct sl_survey_spec *spec,
                          struct sl_survey *s)
{
    w->doing = "comparing clocks";
    for (uint32_t i = 1; i < w->size; i++) {
        double *ahead = &s->clock_ahead_s[i];
        SL_TRY(ask_clock(w, spec, i, ahead));
        if (fabs(*ahead) > 1)
            SL_TRY(sl_node_notes_add(&s->notes, false,
                                     "%s: its clock is %.1f s %s that of %s: times in logs and "
                                     "reports will not agree: let NTP or chrony set it",
                                     w->member[i].host, fabs(*ahead),
                                     *ahead > 0 ? "ahead of" : "behind", w->member[0].host));
    }
    return SL_OK;
}

static int measure_pair(struct sl_world *w, uint32_t a, uint32_t b, struct sl_link *out)
{
    SL_TRY(ask(w, b, ORDER_FOLLOW, a));
    if (a == 0)
        return sl_link_lead(w, b, out);
    SL_TRY(ask(w, a, ORDER_LEAD, b));
    SL_TRY(sl_world_get(w, a, out, sizeof *out, SL_WORLD_ANSWER_S));
    out->a = a;
    out->b = b;
    return SL_OK;
}

// Neighbours first, then those two apart, and so on: where there is no time for all of them, each
// node has been measured.
static int measure(struct sl_world *w, struct sl_survey *s)
{
    const uint64_t begin = sl_now_ns();
    const uint32_t n = w->size;
    s->n_pairs = n * (n - 1) / 2;
    w->doing = "measuring the network";
    for (uint32_t apart = 1; apart <= n / 2; apart++)
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t j = (i + apart) % n;
            if (2 * apart == n && i >= apart)
                break;
            if (sl_now_ns() - begin > SL_SURVEY_LINKS_S * SL_WORLD_SECOND)
                return sl_node_notes_add(&s->notes, false,
                                         "of %u pairs of nodes %u were measured, in %d s",
                                         s->n_pairs, s->n_links, SL_SURVEY_LINKS_S);
            struct sl_link *more = realloc(s->link, (s->n_links + 1) * sizeof *more);
            if (!more)
                return sl_fail(SL_ENOMEM, "measuring the network: no memory");
            s->link = more;
            SL_TRY(measure_pair(w, SL_MIN(i, j), SL_MAX(i, j), &more[s->n_links]));
            s->n_links++;
        }
    return SL_OK;
}

static int lead(struct sl_world *w, const struct sl_survey_spec *spec, struct sl_survey *s)
{
    SL_TRY(gather(w, spec, s));
    SL_TRY(compare_clocks(w, spec, s));
    if (s->notes.problems == 0 && !spec->compares_only)
        SL_TRY(measure(w, s));
    spec->show(spec->ctx, w, s);
    for (uint32_t i = 1; i < w->size; i++)
        SL_TRY(ask(w, i, ORDER_END, (uint32_t)s->notes.problems));
    return SL_OK;
}

int sl_survey_run(struct sl_world *w, const struct sl_survey_spec *spec, uint32_t *problems)
{
    if (w->rank != 0)
        return follow(w, spec, problems);
    struct sl_survey s = {.facts = calloc(w->size, sizeof *s.facts),
                          .clock_ahead_s = calloc(w->size, sizeof *s.clock_ahead_s)};
    int rc = s.facts && s.clock_ahead_s
                 ? lead(w, spec, &s)
                 : sl_fail(SL_ENOMEM, "a survey of %u nodes: no memory", w->size);
    *problems = (uint32_t)s.notes.problems;
    for (uint32_t i = 0; s.facts && i < w->size; i++)
        sl_facts_fini(&s.facts[i]);
    free(s.facts);
    free(s.clock_ahead_s);
    free(s.link);
    sl_node_notes_fini(&s.notes);
    return rc;
}
