/*
 * top_fixture.h - a job as its statistics describe it, and a screen as text.
 */
#ifndef SL_TESTS_UNIT_TOP_FIXTURE_H
#define SL_TESTS_UNIT_TOP_FIXTURE_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/model.h"
#include "cli/top/screen.h"
#include "cli/top/view.h"

enum { LINE_BYTES = 1 << 16 };

struct line {
    char text[LINE_BYTES];
    size_t n;
};

__attribute__((format(printf, 2, 3))) static inline void add(struct line *l, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(l->text + l->n, sizeof l->text - l->n, fmt, args);
    va_end(args);
    l->n += (size_t)n;
}

// What of the job differs from test to test.
struct sample {
    int second, samplers, trainers;
    int sharing;        // the last devices, that hold features together
    int nodes;          // of a job on several
    bool typed;         // the graph has several types
    const char *linked; // the relation whose pairs the metric is of; NULL: none
    bool near;          // blocks stay on GPUs
    bool blocked;       // samplers wait for room in the queue, and no split is better
    const char *name, *state, *bottleneck, *role;
    double queue, loss;
};

static inline struct sample usual_sample(void)
{
    return (struct sample){
        .second = 31,
        .samplers = 1,
        .trainers = 3,
        .name = "products-sage",
        .state = "running",
        .bottleneck = "trainers wait for samplers 62 % of the time: a second sampler would "
                      "shorten the epoch by about 0.8 s",
        .role = "samplers",
        .queue = 4,
        .loss = 1.2345,
    };
}

static inline void add_worker(struct line *l, bool first, const char *role, int number, int device,
                              double busy, const char *state)
{
    add(l,
        "%s{\"name\":\"%s %d\",\"role\":\"%s\",\"device\":%d,\"pid\":%d,\"state\":\"%s\","
        "\"batch\":\"batch %d of epoch 3\",\"busy\":%g,\"wait\":%g,\"batches\":%d,"
        "\"batches_per_second\":10.5,\"edges_per_second\":1e6,\"bytes_per_second\":2e6,"
        "\"restarts\":0,\"memory\":%d}",
        first ? "" : ",", role, number, role, device, 4000 + device, state, 17 + number, busy,
        1 - busy, 100 + number, 123 << 20);
}

static inline void add_device(struct line *l, int i, bool samples)
{
    add(l,
        "%s{\"index\":%d,\"kind\":\"cpu\",\"name\":\"cpu %d\",\"cores\":\"%d\",\"roles\":[%s],"
        "\"memory_used\":%d,\"memory_budget\":%d,\"cpu_load\":%g,\"gpu_load\":null}",
        i ? "," : "", i, i, i, samples ? "\"sampler\",\"standby\"" : "\"trainer\"", 123 << 20,
        456 << 20, samples ? 0.72 : 0.91);
}

static inline void add_stage(struct line *l, bool first, const char *name, double busy, double p50)
{
    add(l,
        "%s\"%s\":{\"busy\":%g,\"count\":100,\"seconds\":1.2,\"per_second\":30.1,\"p50\":%g,"
        "\"p99\":%g}",
        first ? "" : ",", name, busy, p50, 2 * p50);
}

// What they have read: each second 3 MiB of its own, 1 MiB of each other device, and 2 MiB in the
// machine's memory.
static inline void add_links(struct line *l, const struct sample *s)
{
    const int n = s->samplers + s->trainers;
    for (int reader = n - s->sharing; reader < n; reader++) {
        for (int from = n - s->sharing; from < n; from++)
            add(l, "{\"kind\":\"features\",\"reader\":%d,\"from\":\"%d\",\"bytes\":%d},", reader,
                from, s->second * (from == reader ? 3 << 20 : 1 << 20));
        add(l, "{\"kind\":\"features\",\"reader\":%d,\"from\":\"memory\",\"bytes\":%d}%s", reader,
            s->second * (2 << 20), reader < n - 1 ? "," : "");
    }
}

// Each second 1000 papers of 4 KiB are gathered, half of them from a cache, and 300 edges drawn.
static inline void add_types(struct line *l, const struct sample *s)
{
    const int t = s->typed ? s->second : 0;
    add(l, "\"types\":[");
    if (s->typed)
        add(l,
            "{\"name\":\"paper\",\"input_nodes\":%d,\"hits\":%d,\"hit_bytes\":%d,"
            "\"miss_bytes\":%d},{\"name\":\"author\",\"input_nodes\":0}",
            1000 * t, 500 * t, (500 * t) << 12, (500 * t) << 12);
    add(l, "],\"relations\":[");
    if (s->typed)
        add(l,
            "{\"source\":\"paper\",\"name\":\"cites\",\"target\":\"paper\",\"sampled_edges\":"
            "%d},{\"source\":\"author\",\"name\":\"writes\",\"target\":\"paper\","
            "\"sampled_edges\":%d}",
            225 * t, 75 * t);
    add(l, "],\"held\":[");
    if (s->typed)
        add(l, "{\"worker\":\"trainer 0\",\"type\":\"paper\",\"rows\":600,\"bytes\":1048576}");
    add(l, "],");
}

static inline void add_nodes(struct line *l, int n)
{
    for (int i = 0; i < n; i++)
        add(l,
            "%s{\"rank\":%d,\"host\":\"host-%d.example.org\",\"samplers\":1,\"trainers\":3,"
            "\"queue\":%d,\"batches_per_second\":12.5,\"trains\":0.5,\"waits\":0.25,"
            "\"late\":0.2,\"wire\":0.05,\"received_per_second\":2097152,"
            "\"remote_share\":%s,\"remote_seconds\":0.002}",
            i ? "," : "", i, i, 2 + i, i ? "null" : "0.3");
}

// One line of sluice.stats/1; valid until the next call.
static inline const char *stats_line(const struct sample *s)
{
    static struct line line;
    struct line *l = &line;
    static const double le[] = {0.0001, 0.001, 0.01, 0.1};
    static const char *const hists[] = {"sample", "extract", "train", "wait"};
    l->n = 0;
    add(l,
        "{\"schema\":\"sluice.stats/1\",\"time\":%d,\"job\":\"%s\",\"id\":\"3\",\"state\":\"%s\","
        "\"phase\":\"train\",\"epoch\":3,\"epochs\":20,\"done\":12,\"total\":90,\"seconds\":%d,"
        "\"epoch_seconds\":3.1,\"seconds_left\":52.3,\"loss\":%g,"
        "\"metric\":{\"name\":\"accuracy\",\"value\":0.81,\"epoch\":2%s%s%s},"
        "\"best\":{\"value\":0.8234,\"epoch\":1},\"samplers\":%d,\"trainers\":%d,"
        "\"standby\":{\"there\":%d,\"awake\":0},\"places\":4,\"devices\":[",
        1732180000 + s->second, s->name, s->state, s->second, s->loss,
        s->linked ? ",\"relation\":\"" : "", s->linked ? s->linked : "", s->linked ? "\"" : "",
        s->samplers, s->trainers, s->samplers);
    for (int i = 0; i < s->samplers + s->trainers; i++)
        add_device(l, i, i < s->samplers);
    add(l, "],\"workers\":[");
    for (int i = 0; i < s->samplers; i++)
        add_worker(l, i == 0, "sampler", i, i, 0.72, s->blocked ? "blocked" : "working");
    for (int i = 0; i < s->trainers; i++)
        add_worker(l, false, "trainer", i, s->samplers + i, 0.31, "working");
    for (int i = 0; i < s->samplers; i++)
        add_worker(l, false, "standby", i, i, 0.0, "working");
    add(l, "],\"stages\":{");
    add_stage(l, true, "sample", 0.7, 0.0111);
    add_stage(l, false, "mark", 0.01, 0.0003);
    add_stage(l, false, "copy", 0.01, 0.00012);
    add_stage(l, false, "extract", 0.1, 0.0021);
    add_stage(l, false, "train", 0.2, 0.061);
    add(l, ",\"evaluate\":{\"busy\":0,\"count\":0,\"seconds\":0,\"per_second\":0,\"p50\":null,"
           "\"p99\":null}");
    add_stage(l, false, "wait", 0.62, 0.03);
    add_stage(l, false, "backpressure", 0, 0.001);
    add(l,
        "},\"rates\":{\"batches\":30.1,\"edges\":1.04e6,\"input_nodes\":1e5,\"updates\":7.5},"
        "\"bytes\":{\"blocks\":1.2e7,\"blocks_near\":%g,\"features_cache\":1e6,\"features_store\":"
        "1e6},"
        "\"queue\":{\"batches\":%g,\"bytes\":4000000,\"capacity_bytes\":536870912,"
        "\"used_bytes\":65011712,\"sampling\":1,\"training\":3},"
        "\"cache\":{\"policy\":\"presc\",\"ranked\":true,\"hit_rate\":0.52,"
        "\"hit_rate_total\":0.5},\"updates\":{\"mode\":\"ordered\",\"version\":123,"
        "\"staleness_mean\":null,\"staleness_max\":null},\"profile\":{\"t_sample\":0.011,"
        "\"t_train\":0.06,\"t_standby\":null},\"totals\":{\"batches\":282,"
        "\"blocks_near_bytes\":%g,\"restarts\":0},\"links\":[",
        s->near ? 1.1e7 : 0, s->queue, s->near ? 3e8 : 0);
    add_links(l, s);
    add(l, "],\"nodes\":[");
    add_nodes(l, s->nodes);
    add(l, "],");
    add_types(l, s);
    add(l, "\"histograms\":{\"le\":[");
    for (size_t i = 0; i < sizeof le / sizeof *le; i++)
        add(l, "%s%g", i ? "," : "", le[i]);
    add(l, "]");
    for (size_t i = 0; i < sizeof hists / sizeof *hists; i++)
        add(l, ",\"%s\":{\"counts\":[0,5,%d,10,1],\"sum\":1.2,\"count\":100}", hists[i],
            20 * (int)(i + 1));
    add(l,
        "},\"memory\":{\"used\":1e8,\"peak\":2e8,\"limit\":null},\"cpu_load\":1.7,"
        "\"bottleneck\":\"%s\",\"bottleneck_role\":\"%s\",\"advice\":{\"samplers\":%d,"
        "\"trainers\":%d,\"epoch_seconds_now\":3.1,\"epoch_seconds_then\":2.3}}",
        s->bottleneck, s->role, s->samplers + !s->blocked, s->trainers - !s->blocked);
    return l->text;
}

// One line of sluice.event/1; valid until the next call.
static inline const char *event_line(int second, const char *kind, bool ok, const char *text)
{
    static struct line line;
    line.n = 0;
    add(&line,
        "{\"schema\":\"sluice.event/1\",\"time\":%d,\"seconds\":%d,\"job\":\"products-sage\","
        "\"id\":\"3\",\"kind\":\"%s\",\"epoch\":1,\"samplers\":1,\"trainers\":3,\"text\":\"%s\","
        "\"ok\":%s}",
        1732180000 + second, second, kind, text, ok ? "true" : "false");
    return line.text;
}

static inline const char *jobs_line(void)
{
    return "{\"schema\":\"sluice.jobs/1\",\"daemon\":{\"pid\":4711,\"version\":\"0.2.0\","
           "\"protocol\":2,\"runtime_dir\":\"/run/sluice\",\"seconds\":12.1,\"cores\":\"0-1\","
           "\"free_cores\":\"\",\"page\":null},\"jobs\":["
           "{\"id\":\"3\",\"name\":\"products-sage\",\"state\":\"running\",\"position\":null,"
           "\"why\":null,\"output\":\"/runs/a\",\"cores\":\"0-1\",\"devices\":4,\"epoch\":3,"
           "\"epochs\":20,\"progress\":0.41,\"samplers\":1,\"trainers\":3,\"loss\":1.2,"
           "\"seconds_left\":52},"
           "{\"id\":\"4\",\"name\":\"cora-gcn\",\"state\":\"queued\",\"position\":1,"
           "\"why\":\"waits for core 0, which job 3 'products-sage' has\",\"output\":\"/runs/b\","
           "\"cores\":\"0\",\"devices\":1,\"epoch\":null,\"epochs\":50,\"progress\":null,"
           "\"samplers\":null,\"trainers\":null,\"loss\":null,\"seconds_left\":null},"
           "{\"id\":null,\"name\":\"by-hand\",\"state\":\"running\",\"position\":null,\"why\":null,"
           "\"output\":\"/runs/c\",\"cores\":\"1\",\"devices\":1,\"epoch\":0,\"epochs\":5,"
           "\"progress\":0.1,\"samplers\":1,\"trainers\":1,\"loss\":2.0,\"seconds_left\":7}]}";
}

// A job that has run for `seconds`, with three events.
static inline void run_for(struct sl_top_model *m, const struct sample *like, int seconds)
{
    struct sample s = *like;
    sl_top_open(m, s.name, "3", "running");
    sl_top_on_event(m, event_line(0, "start", true, "1 sampler and 3 trainers on 4 devices"));
    for (int i = 1; i <= seconds; i++) {
        s.second = i;
        s.queue = i % 9;
        s.loss = 0.5 + 2.0 / (1 + i * 0.1);
        m->now_ns = (uint64_t)i * 1000000000u;
        sl_top_on_stats(m, stats_line(&s));
    }
    sl_top_on_event(m, event_line(12, "split", true, "2 samplers and 2 trainers: K = 0.9"));
    sl_top_on_event(m, event_line(20, "death", false, "trainer 2 died of signal 9"));
}

// The model on a screen of that size, as text; the caller frees it.
static inline char *drawn(struct sl_top_model *m, int width, int height, bool ascii)
{
    struct sl_screen screen = {0};
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    if (sl_screen_init(&screen, width, height, ascii) != 0 || !out)
        abort();
    sl_top_draw(m, &screen);
    sl_screen_print(&screen, false, out);
    fclose(out);
    sl_screen_fini(&screen);
    return text;
}

#endif
