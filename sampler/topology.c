#include "sampler/topology.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "common/base/advise.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/data/features_kind.h"
#include "common/data/weightless.h"

static void advise_neighbours(const struct sl_dataset *ds, int advice)
{
    sl_advise(ds->indices, ds->n_edges * sl_dtype_bytes(ds->indices_dtype), advice);
}

struct summing {
    const struct sl_topology *topology;
    const struct sl_kernels *kernels;
};

static int make_sums(void *ctx, void *data)
{
    const struct summing *s = ctx;
    const struct sl_dataset *ds = &s->topology->dataset;
    sl_advise(ds->edge_weight, ds->n_edges * sizeof *ds->edge_weight, MADV_SEQUENTIAL);
    struct sl_topology_view lists = s->topology->view;
    lists.n_nodes = sl_dataset_lists(ds);
    return s->kernels->weight_prefix(&lists, ds->edge_weight, data);
}

static int sum_weights(struct sl_topology *t, int fd, const struct sl_kernels *kernels)
{
    const struct sl_dataset *ds = &t->dataset;
    const uint64_t bytes = SL_MAX(ds->n_edges, (uint64_t)1) * sizeof(double), t0 = sl_now_ns();
    struct summing s = {t, kernels};
    const struct sl_shared_array_spec spec = {
        .fd = fd, .bytes = bytes, .make = make_sums, .ctx = &s};
    int rc = sl_shared_array_open(&spec, &t->sums);
    if (rc < 0)
        return sl_fail_prefix(rc, "running sums of %s/edge_weight.npy", ds->path);
    t->view.weight_prefix = t->sums.data;
    t->view.weights_positive = ds->weightless_edges == 0;
    if (t->sums.made_here)
        sl_log_info("sampling: running sums of weights for all samplers, %" PRIu64
                    " MiB in %s pages, made in %.3f s",
                    bytes >> 20, t->sums.huge ? "huge" : "small",
                    (double)(sl_now_ns() - t0) * 1e-9);
    return SL_OK;
}

int sl_topology_open(struct sl_topology *t, const char *path, const char *record, unsigned need,
                     int sums_fd, const struct sl_kernels *kernels, int threads)
{
    memset(t, 0, sizeof *t);
    // Whether labels are there where the job needs some has been seen by who started it.
    need |= SL_NEED_TOPOLOGY | SL_TAKES_SHARD;
    SL_TRY(record ? sl_dataset_open_recorded(path, need, record, threads, &t->dataset)
                  : sl_dataset_open(path, need, SL_CHECK_CACHED, threads, &t->dataset));
    const struct sl_dataset *ds = &t->dataset;
    t->view = (struct sl_topology_view){
        .n_nodes = ds->n_nodes,
        .indptr = ds->indptr,
        .indices = ds->indices,
        .indices_dtype = ds->indices_dtype,
        .lists_rise = ds->lists_rise,
    };
    int rc = need & SL_NEED_WEIGHTS ? sum_weights(t, sums_fd, kernels) : SL_OK;
    if (rc < 0)
        sl_topology_close(t);
    return rc;
}

int sl_topology_drop_weightless(struct sl_topology *t, int threads)
{
    return sl_weightless_drop(&t->dataset, true, threads);
}

uint64_t sl_topology_degree(const struct sl_topology *t, uint32_t v)
{
    return t->self_loops.has ? sl_self_loops_degree(&t->self_loops, v)
                             : sl_weightless_degree(&t->dataset, v);
}

int sl_topology_find_self_loops(struct sl_topology *t, int threads)
{
    sl_self_loops_free(&t->self_loops);
    advise_neighbours(&t->dataset, MADV_SEQUENTIAL);
    int rc = sl_self_loops_find(&t->dataset, threads, &t->self_loops);
    advise_neighbours(&t->dataset, MADV_NORMAL);
    return rc;
}

// Pages become locked when they are first read, so this takes no time.
static void lock_pages(struct sl_topology *t, uint64_t rows, uint64_t edges)
{
    const struct sl_dataset *ds = &t->dataset;
    struct rlimit limit;
    if (mlock2(ds->indices, edges, MLOCK_ONFAULT) == 0) {
        t->locked = mlock2(ds->indptr, rows, MLOCK_ONFAULT) == 0;
        sl_log_info("sampling: the graph's %" PRIu64
                    " MiB are locked in memory, because the features do not fit beside it",
                    (rows + edges) >> 20);
        return;
    }
    const int err = errno;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    sl_log_warn("sampling: the graph cannot be locked in memory (%s), so reading features may "
                "evict it: found a limit of %" PRIu64 " MiB, wanted %" PRIu64
                " MiB: raise it (ulimit -l, LimitMEMLOCK=)",
                strerror(err), (uint64_t)limit.rlim_cur >> 20, (rows + edges) >> 20);
}

// Advises on the times of edges, whose bytes it returns.
static uint64_t advise_times(const struct sl_dataset *ds, int advice)
{
    uint64_t bytes = ds->edge_time ? ds->n_edges * sizeof *ds->edge_time : 0;
    sl_advise(ds->edge_time, bytes, advice);
    for (uint32_t i = 0; i < ds->typed.n_relations; i++) {
        const struct sl_relation *r = &ds->typed.relation[i];
        if (!r->time)
            continue;
        sl_advise(r->time, r->n_edges * sizeof *r->time, advice);
        bytes += r->n_edges * sizeof *r->time;
    }
    return bytes;
}

void sl_topology_expect_draws(struct sl_topology *t)
{
    const struct sl_dataset *ds = &t->dataset;
    const uint64_t available = sl_device_memory_available();
    const uint64_t rows = (sl_dataset_lists(ds) + 1) * sizeof *ds->indptr;
    const uint64_t edges = ds->n_edges * sl_dtype_bytes(ds->indices_dtype);
    const uint64_t all = rows + edges + advise_times(ds, MADV_RANDOM);
    // A page then comes from the disk with the 2 MiB around it: well where all of them stay.
    if (all <= available / 2) {
        sl_advise(ds->indptr, rows, MADV_HUGEPAGE);
        sl_advise(ds->indices, edges, MADV_HUGEPAGE);
        advise_times(ds, MADV_HUGEPAGE);
        if (ds->n_edges > 0 && sl_features_kinds[sl_features_choose(ds, available)].drive)
            lock_pages(t, rows, edges);
    } else if (all > available) {
        t->ahead = sl_advise;
        sl_log_info("sampling: the graph's %" PRIu64 " MiB do not fit in the %" PRIu64
                    " MiB of available memory: its lists are read ahead for each hop",
                    all >> 20, available >> 20);
    }
    advise_neighbours(ds, MADV_RANDOM);
}

int sl_topology_expect_device(struct sl_topology *t)
{
    return sl_shared_array_let_pin(&t->sums);
}

struct sl_topology_view sl_topology_relation(const struct sl_topology *t, uint32_t relation)
{
    const struct sl_typed *typed = &t->dataset.typed;
    struct sl_topology_view view = t->view;
    view.indptr = sl_relation_lists(typed, &typed->relation[relation], view.indptr);
    return view;
}

_Static_assert((int)SL_PATH_STEPS_MAX == (int)SL_METAPATH_STEPS_MAX, "walks go along metapaths");

struct sl_walk_path sl_topology_path(const struct sl_topology *t, uint32_t relation)
{
    const struct sl_relation *r = &t->dataset.typed.relation[relation];
    struct sl_walk_path path = {.more = r->n_steps ? r->n_steps - 1 : 0};
    for (uint32_t k = 0; k < r->n_steps; k++)
        path.shift[k] = sl_relation_step_shift(&t->dataset.typed, r, k);
    return path;
}

const int64_t *sl_topology_relation_times(const struct sl_topology *t, uint32_t relation)
{
    const struct sl_relation *r = &t->dataset.typed.relation[relation];
    if (!r->time)
        return NULL;
    // Numbers wrap, as pointers must not.
    return (const int64_t *)((uintptr_t)r->time - (uintptr_t)r->first_edge * sizeof *r->time);
}

// Asks for a list's part of an array by edge, unless it is long.
static void ask_for(const struct sl_topology *t, const void *array, uint64_t each, uint64_t first,
                    uint64_t end)
{
    if (array && (end - first) * each <= SL_TOPOLOGY_AHEAD_BYTES)
        t->ahead((const char *)array + first * each, (end - first) * each, MADV_WILLNEED);
}

void sl_topology_read_ahead(const struct sl_topology *t, const struct sl_topology_view *v,
                            const int64_t *time, const uint32_t *nodes, uint32_t n)
{
    if (!t->ahead)
        return;
    for (uint32_t i = 0; i < n; i++)
        t->ahead(&v->indptr[nodes[i]], 2 * sizeof *v->indptr, MADV_WILLNEED);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t first = v->indptr[nodes[i]], end = v->indptr[nodes[i] + 1];
        ask_for(t, v->indices, sl_dtype_bytes(v->indices_dtype), first, end);
        ask_for(t, time, sizeof *time, first, end);
    }
}

void sl_topology_log_pages(void)
{
    FILE *f = fopen("/proc/self/smaps_rollup", "re");
    unsigned long long kib, files = 0, shared = 0;
    char line[128];
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "FilePmdMapped: %llu", &kib) == 1)
            files = kib;
        else if (sscanf(line, "ShmemPmdMapped: %llu", &kib) == 1)
            shared = kib;
    }
    if (f)
        fclose(f);
    sl_log_info("sampling: %llu MiB of the files read so far and %llu MiB of shared memory lie in "
                "huge pages",
                files >> 10, shared >> 10);
}

void sl_topology_close(struct sl_topology *t)
{
    sl_self_loops_free(&t->self_loops);
    sl_shared_array_close(&t->sums);
    sl_dataset_close(&t->dataset);
    memset(t, 0, sizeof *t);
}

uint64_t sl_topology_resident_bytes(const struct sl_topology *t)
{
    const struct sl_dataset *ds = &t->dataset;
    uint64_t bytes = (sl_dataset_lists(ds) + 1) * sizeof *ds->indptr +
                     ds->n_edges * sl_dtype_bytes(ds->indices_dtype) +
                     ds->n_nodes * (ds->target ? ds->n_classes * sl_dtype_bytes(ds->target_dtype)
                                               : sizeof *ds->label);
    if (t->view.weight_prefix)
        bytes += ds->n_edges * sizeof *t->view.weight_prefix;
    if (t->self_loops.has)
        bytes += ds->n_nodes / 8;
    return bytes;
}
