#include "partition/partition.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/interrupt.h"
#include "common/base/memory.h"
#include "common/text/units.h"
#include "dataset/permutation.h"
#include "partition/metis.h"
#include "partition/stream.h"

static const char default_name[] = "node_part.npy"; // `sluice reorder` keeps node_*.npy

const char *const sl_partition_methods[] = {
    [SL_PARTITION_AUTO] = "auto",
    [SL_PARTITION_METIS] = "metis",
    [SL_PARTITION_METIS_KWAY] = "metis-kway",
    [SL_PARTITION_STREAM] = "stream",
    [SL_PARTITION_RANDOM] = "random",
    [SL_PARTITION_GIVEN] = "given",
    NULL,
};
const char *const sl_partition_method_texts[] = {
    [SL_PARTITION_METIS] = "METIS, recursive bisection, vertices and training vertices even",
    [SL_PARTITION_METIS_KWAY] = "METIS, k-way, vertices even",
    [SL_PARTITION_STREAM] = "greedy in passes over the file",
    [SL_PARTITION_RANDOM] = "random",
    [SL_PARTITION_GIVEN] = "given by --from",
    NULL,
};

struct work {
    struct sl_partition *p;
    struct sl_dataset ds;
    struct sl_progress progress;
    struct sl_parts_task task;
    uint8_t *training;
    uint16_t *part;
};

// ---- methods ------------------------------------------------------------------------------------

static int check_memory(struct work *w, const char *what, uint64_t wanted)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    const uint64_t available = sl_device_memory_available();
    sl_units_bytes(a, (double)wanted);
    sl_units_bytes(b, (double)available);
    if (wanted > available)
        return sl_fail(SL_ENOMEM,
                       "%s: found %s of memory available, wanted about %s: give --method stream, "
                       "which keeps vertices alone",
                       what, b, a);
    sl_progress_line(&w->progress, "%s: about %s of the %s of memory that are available", what, a,
                     b);
    return SL_OK;
}

static int run_metis(struct work *w, const struct sl_metis *metis, bool kway)
{
    struct sl_symmetric_graph graph;
    uint64_t peak = 0;
    // An entry of the graph is an edge at least, so much is known before it is made.
    SL_TRY(check_memory(
        w, "the graph in both directions",
        SL_MAX(sl_symmetric_graph_bytes(&w->ds), sl_metis_bytes(w->ds.n_nodes, w->ds.n_edges))));
    SL_TRY(sl_symmetric_graph_make(&w->task, &graph));
    int rc = check_memory(w, "METIS itself", sl_metis_bytes(graph.n_nodes, graph.n_entries));
    if (rc == SL_OK)
        rc = sl_metis_partition(metis, &w->task, &graph, kway, w->part, &peak);
    w->p->peak_bytes = SL_MAX(w->p->peak_bytes, peak);
    sl_symmetric_graph_free(&graph);
    return rc;
}

static int metis(struct work *w)
{
    struct sl_metis library;
    SL_TRY(sl_metis_open(&library));
    return run_metis(w, &library, w->p->used == SL_PARTITION_METIS_KWAY);
}

static int stream(struct work *w)
{
    return sl_stream_partition(&w->task, w->part);
}

static int shuffle(struct work *w)
{
    struct sl_permutation order;
    sl_permutation_init(&order, w->ds.n_nodes, w->p->seed, SL_PARTITION_PARTS_MAX);
    sl_progress_begin(&w->progress, "random parts", w->ds.n_nodes, "vertices");
    for (uint64_t v = 0; v < w->ds.n_nodes; v++) {
        w->part[v] = (uint16_t)(sl_permutation_apply(&order, v) % w->p->n_parts);
        SL_TRY(sl_parts_tick(&w->progress, v));
    }
    return SL_OK;
}

static int given(struct work *w)
{
    return sl_parts_read(w->p->from, w->p->n_parts, w->ds.n_nodes, w->part);
}

// What rules METIS out for this graph, here: no failure of METIS's own.
static bool is_ruled_out(int rc)
{
    return rc == SL_ENOENT || rc == SL_EUNSUPPORTED || rc == SL_ERANGE || rc == SL_ENOMEM;
}

static int automatic(struct work *w)
{
    w->p->used = SL_PARTITION_METIS;
    const int rc = metis(w);
    if (!is_ruled_out(rc))
        return rc;
    snprintf(w->p->why, sizeof w->p->why, "%s", sl_error_message());
    w->p->used = SL_PARTITION_STREAM;
    return stream(w);
}

static int (*const methods[])(struct work *) = {
    [SL_PARTITION_AUTO] = automatic,   [SL_PARTITION_METIS] = metis,
    [SL_PARTITION_METIS_KWAY] = metis, [SL_PARTITION_STREAM] = stream,
    [SL_PARTITION_RANDOM] = shuffle,   [SL_PARTITION_GIVEN] = given,
};

// ---- the command --------------------------------------------------------------------------------

static int check(const struct work *w)
{
    const struct sl_partition *p = w->p;
    if (p->n_parts < 2 || p->n_parts > SL_PARTITION_PARTS_MAX)
        return sl_fail(SL_EINVAL, "partition: --parts: found %u, wanted 2 to %d", p->n_parts,
                       SL_PARTITION_PARTS_MAX);
    if ((p->method == SL_PARTITION_GIVEN) != (p->from != NULL))
        return sl_fail(
            SL_EINVAL,
            "partition: --method %s and %s --from: wanted --method given --from FILE.npy, "
            "or neither",
            sl_partition_methods[p->method], p->from ? "a" : "no");
    if (p->n_parts > w->ds.n_nodes)
        return sl_fail(SL_EINVAL,
                       "partition %s: --parts: found %u, wanted at most its %" PRIu64
                       " vertices: each part has one at least",
                       w->ds.path, p->n_parts, w->ds.n_nodes);
    return SL_OK;
}

bool sl_partition_spreads(const char *out)
{
    const size_t n = out ? strlen(out) : 0;
    return out && (n < 4 || strcmp(out + n - 4, ".npy") != 0);
}

// Before anything is made: a wrong name is told at once.
static int find_place(struct sl_partition *p)
{
    const int n = p->out ? snprintf(p->path, sizeof p->path, "%s", p->out)
                         : snprintf(p->path, sizeof p->path, "%s/%s", p->dataset, default_name);
    if (n < 0 || (size_t)n >= sizeof p->path)
        return sl_fail(SL_EINVAL, "partition: --out: the name is too long");
    if (sl_partition_spreads(p->out))
        return sl_shards_open(&p->shards, p->out, p->force);
    if (!p->force && access(p->path, F_OK) == 0)
        return sl_fail(SL_EEXIST, "partition: '%s' exists: name another file or give --force",
                       p->path);
    return SL_OK;
}

static int measure(struct work *w)
{
    struct sl_partition *p = w->p;
    SL_TRY(sl_parts_fill_empty(p->n_parts, w->ds.n_nodes, w->part, &p->n_filled));
    SL_TRY(sl_parts_count(&w->task, w->part, &p->vertices, &p->training));
    SL_TRY(sl_parts_cut(&w->task, w->part, &p->n_cut));
    p->n_edges = w->ds.n_edges;
    p->row_bytes = w->ds.feat_dim * sl_dtype_bytes(w->ds.feat_dtype);
    p->n_rows = sl_dataset_feature_rows(&w->ds);
    return sl_remote_rows_count(&w->task, w->part, &p->hops, p->seed, &p->rows);
}

// Of this process and of METIS's, which has ended.
static double cpu_seconds(void)
{
    double sum = 0;
    struct rusage usage;
    for (int who = RUSAGE_CHILDREN; who <= RUSAGE_SELF; who++) {
        getrusage(who, &usage);
        sum += (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
    }
    return sum;
}

static int make(struct work *w)
{
    struct sl_partition *p = w->p;
    SL_TRY(check(w));
    w->training = sl_parts_training(&w->ds);
    w->part = malloc((w->ds.n_nodes + 1) * sizeof *w->part);
    if (!w->training || !w->part)
        return sl_fail(SL_ENOMEM, "partition %s: no memory for a number a vertex", w->ds.path);
    w->task = (struct sl_parts_task){.ds = &w->ds,
                                     .training = w->training,
                                     .n_parts = p->n_parts,
                                     .slack = p->slack,
                                     .progress = &w->progress};
    p->used = (enum sl_partition_method)p->method;
    const double start = cpu_seconds();
    SL_TRY(methods[p->method](w));
    p->cpu_seconds = cpu_seconds() - start;
    SL_TRY(measure(w));
    if (sl_partition_spreads(p->out))
        return sl_shards_write(&p->shards, &w->task, w->part);
    return sl_parts_write(p->path, p->n_parts, w->ds.n_nodes, w->part);
}

int sl_partition_make(struct sl_partition *p)
{
    struct work *w = calloc(1, sizeof *w);
    const uint64_t start = sl_now_ns();
    struct rusage usage;
    if (!w)
        return sl_fail(SL_ENOMEM, "partition: no memory");
    w->p = p;
    sl_progress_init(&w->progress, p->quiet);
    sl_interrupt_catch();
    int rc = sl_failpoint_init();
    if (rc == SL_OK)
        rc = sl_dataset_open(p->dataset, SL_NEED_TOPOLOGY | SL_NEED_TRAIN, SL_CHECK_CACHED, 0,
                             &w->ds);
    if (rc == SL_OK)
        rc = find_place(p);
    if (rc == SL_OK)
        rc = make(w);
    sl_progress_clear(&w->progress);
    sl_shards_abort(&p->shards);
    sl_dataset_close(&w->ds);
    free(w->training);
    free(w->part);
    free(w);
    getrusage(RUSAGE_SELF, &usage);
    p->peak_bytes = SL_MAX(p->peak_bytes, (uint64_t)usage.ru_maxrss * 1024);
    p->seconds = (double)(sl_now_ns() - start) * 1e-9;
    return rc;
}
