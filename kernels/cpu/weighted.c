/*
 * weighted.c - one hop of k-hop weighted sampling with its cache misses in flight together, and the
 * running sums that it needs.
 *
 * PROBLEM. A draw by weight is a binary search whose probes depend on each other, and a row's draws
 * depend on each other since each takes an edge away. In a large graph most rows are met for the
 * first time, so the probes miss the caches. Then come the misses of k-hop sampling (khop.c).
 *
 * DESIGN. Rows do not depend on each other. LANES rows are drawn together, slot by slot, so that
 * their searches overlap and one instruction serves several rows:
 *
 *     few edges    weighted_short.h   the sums are copied and closed up, no search
 *     many edges   weighted_long.h    a window where the edge should be, next to where it was not
 *     a large fanout                  weighted_lane.h   halving, each row with its own list
 *     with replacement                weighted_lane.h   halving, the list stays empty
 *     excluded edges                  weighted_lane.h   halving, the list has them at the start
 *
 * The sums of rows of few edges are asked for one group earlier, of others the last one, and their
 * windows for all rows before the first is looked at. The words of a slot are drawn for all lanes
 * at once (philox.c). Edges then go through the pipeline of khop_pipe.h.
 *
 * Rows of at most `fanout` edges, unless it is with replacement, and all rows when it is -1, are
 * not drawn: they give the edges that have a weight, which is what the definition comes to.
 * Whether a longer row has more such edges than its fanout is not known ahead and need not be: its
 * draws end when nothing is left.
 *
 * With large fanouts fewer lanes take turns, so that they stay in the second-level cache.
 *
 * FAILURE. As khop.c.
 */
#include <stdbool.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/simd.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/khop_pipe.h"
#include "kernels/cpu/weighted_lane.h"
#include "kernels/cpu/weighted_long.h"
#include "kernels/cpu/weighted_short.h"
#include "kernels/excluded_internal.h"
#include "kernels/kernels_internal.h"
#include "kernels/weighted_internal.h"

enum {
    LANES = SL_CPU_PHILOX_LANES,
    LANE_SLOTS = 2048,     // slots of all lanes together, unless one row has more
    GROUPS_PER_THREAD = 8, // of weight_prefix, so that a thread that met a hub can be helped
};

struct hop {
    const struct sl_khop_args *args;
    uint32_t k;       // fanout, or UINT32_MAX for all
    bool replaces;    // rows are drawn with replacement
    uint32_t n_lanes; // rows of a group
    uint64_t n_edges;
    struct sl_khop_pipe pipe;
    struct sl_weighted_lane lane[LANES];
    struct sl_weighted_shorts shorts;
    struct sl_weighted_longs longs;
    uint32_t long_of[LANES];   // a lane's row there
    uint32_t words[LANES * 4]; // Philox blocks of a pair of slots
    char *lanes, *spare;       // memory of the lanes; of those of rows with excluded edges
    size_t lane_bytes;
};

// ---- edges leave --------------------------------------------------------------------------------

SL_INLINE int push(struct hop *hop, uint64_t position)
{
    const uint64_t room = SL_MIN(hop->args->indices_capacity, (uint64_t)UINT32_MAX);
    if (__builtin_expect(hop->n_edges >= room, 0))
        return sl_khop_fail_indices(hop->args, hop->n_edges + 1);
    hop->n_edges++;
    return sl_khop_pipe_push(hop->args, &hop->pipe, position);
}

// Room for n edges behind those in the pipe, at *edges; NULL where they have to go one by one.
SL_INLINE int make_room(struct hop *hop, uint64_t n, uint64_t **edges)
{
    const uint64_t room = SL_MIN(hop->args->indices_capacity, (uint64_t)UINT32_MAX);
    *edges = NULL;
    if (__builtin_expect(n > SL_KHOP_PIPE_GROUP || room - hop->n_edges < n, 0))
        return SL_OK;
    if (hop->pipe.n_fresh + n > SL_KHOP_PIPE_GROUP)
        SL_TRY(sl_khop_pipe_run(hop->args, &hop->pipe, false));
    *edges = hop->pipe.edge + hop->pipe.n + hop->pipe.n_fresh;
    return SL_OK;
}

SL_INLINE void have_pushed(struct hop *hop, uint32_t n)
{
    hop->pipe.n_fresh += n;
    hop->n_edges += n;
}

// Those of `degree` edges from `first` on that have a weight; `before` is the sum before them.
SL_INLINE int push_all(struct hop *hop, uint64_t first, uint64_t degree, double before)
{
    const struct sl_topology_view *t = hop->args->topology;
    const double *prefix = t->weight_prefix + first;
    uint64_t *edges;
    SL_TRY(make_room(hop, degree, &edges));
    if (edges && t->weights_positive) {
        for (uint64_t j = 0; j < degree; j++)
            edges[j] = first + j;
        have_pushed(hop, (uint32_t)degree);
        return SL_OK;
    }
    if (edges) {
        uint32_t n = 0;
        for (uint64_t j = 0; j < degree; j++) {
            edges[n] = first + j;
            n += prefix[j] > before;
            before = prefix[j];
        }
        have_pushed(hop, n);
        return SL_OK;
    }
    for (uint64_t j = 0; j < degree; j++) {
        if (prefix[j] > before)
            SL_TRY(push(hop, first + j));
        before = prefix[j];
    }
    return SL_OK;
}

// All edges of a row that have a weight and are not excluded.
SL_INLINE int push_row(struct hop *hop, uint64_t first, uint64_t degree, struct sl_excluded_row out)
{
    const double *prefix = hop->args->topology->weight_prefix + first;
    for (uint64_t i = 0, from = 0; i <= out.n; i++) {
        const uint64_t end = i < out.n ? out.at[i] : degree;
        SL_TRY(push_all(hop, first + from, end - from, from > 0 ? prefix[from - 1] : 0.0));
        from = end + 1;
    }
    return SL_OK;
}

// Edges of the row that begins at `first`.
SL_INLINE int push_some(struct hop *hop, uint64_t first, const uint32_t *at, uint32_t n)
{
    uint64_t *edges;
    SL_TRY(make_room(hop, n, &edges));
    if (edges) {
        for (uint32_t j = 0; j < n; j++)
            edges[j] = first + at[j];
        have_pushed(hop, n);
        return SL_OK;
    }
    for (uint32_t j = 0; j < n; j++)
        SL_TRY(push(hop, first + at[j]));
    return SL_OK;
}

// ---- draws --------------------------------------------------------------------------------------

// The sums that the row's first draw of k will look at; its offsets are there already.
SL_INLINE void prefetch_sums(const struct sl_khop_args *args, uint32_t k, uint64_t row)
{
    const struct sl_topology_view *t = args->topology;
    if (row >= args->n_dst)
        return;
    const uint64_t *indptr = &t->indptr[args->rows[row]];
    uint64_t degree = indptr[1] - indptr[0];
    if (degree == 0 || (degree <= k && t->weights_positive))
        return;
    const double *prefix = t->weight_prefix + indptr[0];
    const uint64_t line = SL_CACHE_LINE / sizeof *prefix;
    // Of few edges these are all lines. A long row's first windows are asked for as they are known.
    __builtin_prefetch(prefix + degree - 1);
    if (degree > SL_WEIGHTED_SHORT && k <= SL_WEIGHTED_LONG_FANOUT)
        return;
    __builtin_prefetch(prefix);
    for (uint64_t j = line; j < SL_MIN(degree - 1, (uint64_t)SL_WEIGHTED_SHORT); j += line)
        __builtin_prefetch(prefix + j);
}

// The words of slot and slot + 1 for the group's rows; slot is even.
SL_INLINE void draw_words(struct hop *hop, uint32_t row, uint32_t slot)
{
    const struct sl_khop_args *args = hop->args;
    uint32_t tag = sl_weighted_tag(args->hop, slot), group = slot / 2;
    if (hop->n_lanes == LANES) {
        sl_cpu_philox_words(args->seed, args->stream, tag, args->batch, args->epoch,
                            (uint64_t)group << 32 | row, LANES, hop->words);
        return;
    }
    for (uint32_t l = 0; l < hop->n_lanes; l++) {
        struct sl_rng_block block = sl_philox(args->seed, sl_rng_word0(args->stream, tag, group),
                                              row + l, args->batch, args->epoch);
        memcpy(hop->words + 4 * l, block.w, sizeof block.w);
    }
}

// Draws for the rows that have been taken up: short ones, long ones and those of n lanes.
SL_INLINE void draw(struct hop *hop, uint32_t row, uint32_t *drawn, uint32_t n)
{
    uint32_t searching[LANES];
    sl_weighted_shorts_copy(&hop->shorts);
    for (uint32_t slot = 0; slot < hop->k; slot++) {
        uint32_t kept = 0, n_searching = 0;
        if ((slot & 1) == 0)
            draw_words(hop, row, slot);
        sl_weighted_shorts_draw(&hop->shorts, hop->words + 2 * (slot & 1));
        sl_weighted_longs_draw(&hop->longs, hop->words + 2 * (slot & 1));
        for (uint32_t i = 0; i < n; i++) {
            struct sl_weighted_lane *lane = &hop->lane[drawn[i]];
            if (!(lane->left > 0))
                continue;
            const uint32_t *word = hop->words + 4 * drawn[i] + 2 * (slot & 1);
            uint64_t bits = sl_weighted_bits(word[0], word[1]);
            sl_weighted_lane_begin(lane, sl_weighted_point(bits, lane->left));
            drawn[kept++] = drawn[i];
            searching[n_searching] = drawn[i];
            n_searching += lane->n > 1;
        }
        n = kept;
        while (n_searching > 0) {
            uint32_t still = 0;
            for (uint32_t i = 0; i < n_searching; i++) {
                uint32_t l = searching[i];
                searching[still] = l;
                still += sl_weighted_lane_probe(&hop->lane[l]);
            }
            n_searching = still;
        }
        for (uint32_t i = 0; i < n; i++) {
            if (hop->replaces)
                sl_weighted_lane_note(&hop->lane[drawn[i]]);
            else
                sl_weighted_lane_take(&hop->lane[drawn[i]]);
        }
    }
}

// How a row is drawn.
enum way { ALL, SHORT, LONG, LANE };

SL_INLINE enum way way_of(const struct hop *hop, uint64_t degree, struct sl_excluded_row out)
{
    if (hop->replaces)
        return degree > out.n ? LANE : ALL;
    if (degree - out.n <= hop->k)
        return ALL;
    if (__builtin_expect(out.n > 0, 0))
        return LANE;
    if (degree <= SL_WEIGHTED_SHORT)
        return SHORT;
    return hop->k <= SL_WEIGHTED_LONG_FANOUT && degree <= SL_WEIGHTED_LONG_DEGREE ? LONG : LANE;
}

// Takes up row + l.
SL_INLINE void open_row(struct hop *hop, uint32_t l, const double *prefix, uint32_t degree,
                        enum way way)
{
    switch (way) {
    case ALL: break;
    case SHORT: sl_weighted_shorts_open(&hop->shorts, l, prefix, degree); break;
    case LONG: hop->long_of[l] = sl_weighted_longs_open(&hop->longs, l, prefix, degree); break;
    case LANE: sl_weighted_lane_open(&hop->lane[l], prefix, degree); break;
    }
}

// Takes up row + l, of which edges are excluded, in a lane of its own memory, from *spare on.
static void open_excluding(struct hop *hop, uint32_t l, const double *prefix, uint32_t degree,
                           struct sl_excluded_row out, char **spare)
{
    sl_weighted_lane_init(&hop->lane[l], hop->k + out.n, *spare);
    *spare += sl_weighted_lane_bytes(hop->k + out.n);
    sl_weighted_lane_open(&hop->lane[l], prefix, degree);
    sl_weighted_lane_exclude(&hop->lane[l], hop->k, out);
}

// Bytes of such lanes that a group has at most.
static size_t spare_bytes(const struct sl_khop_args *args, uint32_t n_lanes, uint32_t k)
{
    const uint64_t end = args->excluded ? SL_MIN(args->excluded->n_rows, args->n_dst) : 0;
    size_t most = 0, bytes = 0;
    for (uint64_t row = args->first_row; row < end; row++) {
        const uint32_t n = sl_excluded_row(args->excluded, (uint32_t)row).n;
        if ((row - args->first_row) % n_lanes == 0)
            bytes = 0;
        bytes += n > 0 ? sl_weighted_lane_bytes(k + n) : 0;
        most = SL_MAX(most, bytes);
    }
    return most;
}

// A row's edges: those that were drawn, or all when no weight is left. Each way ends in the same
// calls, because what they are inlined as is large.
SL_INLINE int push_edges(struct hop *hop, uint32_t l, uint64_t first, uint64_t degree,
                         struct sl_excluded_row out)
{
    const struct sl_weighted_longs *longs = &hop->longs;
    const struct sl_weighted_short *row = &hop->shorts.row[l];
    struct sl_weighted_lane *lane = &hop->lane[l];
    const enum way way = way_of(hop, degree, out);
    uint32_t r = hop->long_of[l], n = 0;
    const uint32_t *drawn = NULL;
    double left = 0;
    switch (way) {
    case ALL: break;
    case SHORT: left = row->left, drawn = row->drawn, n = row->n_drawn; break;
    case LONG: left = longs->left[r], drawn = longs->drawn[r], n = longs->n_drawn[r]; break;
    case LANE: left = lane->left, drawn = lane->drawn, n = lane->n_drawn; break;
    }
    if (left > 0)
        return push_some(hop, first, drawn, n);
    if (way != LANE)
        return push_row(hop, first, degree, out);
    if (__builtin_expect(out.n > 0, 0))
        sl_weighted_lane_strip(lane, out);
    for (uint32_t c = 0; c < lane->n_chunks; c++)
        SL_TRY(push_some(hop, first, lane->chunks[c]->at, lane->chunks[c]->n));
    return SL_OK;
}

// Samples the rows row .. row + n - 1.
SL_INLINE int sample_group(struct hop *hop, uint32_t row, uint32_t n)
{
    const struct sl_khop_args *args = hop->args;
    const struct sl_topology_view *t = args->topology;
    uint32_t in_lanes[LANES], n_in_lanes = 0, n_drawn = 0;
    char *spare = hop->spare;
    sl_weighted_shorts_reset(&hop->shorts);
    sl_weighted_longs_reset(&hop->longs);
    for (uint32_t l = 0; l < n; l++) {
        uint64_t first = t->indptr[args->rows[row + l]];
        uint64_t degree = t->indptr[args->rows[row + l] + 1] - first;
        if (__builtin_expect(degree >= UINT32_MAX, 0))
            return sl_khop_fail_degree(args, row + l, degree);
        sl_khop_fetch_row(args, (uint64_t)row + l + 2 * (uint64_t)hop->n_lanes);
        prefetch_sums(args, hop->k, (uint64_t)row + l + hop->n_lanes);
        const struct sl_excluded_row out = sl_excluded_row(args->excluded, row + l);
        enum way way = way_of(hop, degree, out);
        if (__builtin_expect(way == LANE && out.n > 0, 0))
            open_excluding(hop, l, t->weight_prefix + first, (uint32_t)degree, out, &spare);
        else
            open_row(hop, l, t->weight_prefix + first, (uint32_t)degree, way);
        in_lanes[n_in_lanes] = l;
        n_in_lanes += way == LANE;
        n_drawn += way != ALL;
    }
    if (n_drawn > 0)
        draw(hop, row, in_lanes, n_in_lanes);
    for (uint32_t l = 0; l < n; l++) {
        uint64_t first = t->indptr[args->rows[row + l]];
        uint64_t degree = t->indptr[args->rows[row + l] + 1] - first;
        const struct sl_excluded_row out = sl_excluded_row(args->excluded, row + l);
        SL_TRY(push_edges(hop, l, first, degree, out));
        args->indptr[row + l + 1] = (uint32_t)hop->n_edges;
    }
    for (uint32_t l = 0; __builtin_expect(spare != hop->spare, 0) && l < n; l++)
        sl_weighted_lane_init(&hop->lane[l], hop->k, hop->lanes + l * hop->lane_bytes);
    return SL_OK;
}

SL_SIMD(int, sample, (const struct sl_khop_args *args), (args))
{
    struct hop hop;
    hop.args = args;
    hop.k = args->fanout < 0 ? UINT32_MAX : (uint32_t)args->fanout;
    hop.replaces = args->replace && args->fanout >= 0;
    hop.n_edges = hop.pipe.n_done = sl_khop_first_edge(args);
    hop.pipe.n_fresh = hop.pipe.n = hop.pipe.read = 0;
    hop.n_lanes = LANES;
    hop.lanes = hop.spare = NULL;
    hop.lane_bytes = 0;
    if (args->fanout > 0) {
        sl_weighted_longs_init(&hop.longs, SL_MIN(hop.k, (uint32_t)SL_WEIGHTED_LONG_FANOUT));
        hop.n_lanes = SL_MAX(SL_MIN(LANE_SLOTS / hop.k, (uint32_t)LANES), 1u);
        hop.lane_bytes = sl_weighted_lane_bytes(hop.k);
        const size_t bytes = hop.lane_bytes * hop.n_lanes;
        void *scratch;
        SL_TRY(
            sl_idmap_scratch(args->map, bytes + spare_bytes(args, hop.n_lanes, hop.k), &scratch));
        hop.lanes = scratch;
        hop.spare = hop.lanes + bytes;
        for (uint32_t l = 0; l < hop.n_lanes; l++)
            sl_weighted_lane_init(&hop.lane[l], hop.k, hop.lanes + l * hop.lane_bytes);
    }
    for (uint64_t l = 0; l < 2 * hop.n_lanes; l++)
        sl_khop_fetch_row(args, args->first_row + l);
    for (uint64_t l = 0; l < hop.n_lanes; l++)
        prefetch_sums(args, hop.k, args->first_row + l);
    for (uint64_t row = args->first_row; row < args->n_dst; row += hop.n_lanes)
        SL_TRY(sample_group(&hop, (uint32_t)row,
                            (uint32_t)SL_MIN((uint64_t)hop.n_lanes, args->n_dst - row)));
    SL_TRY(sl_khop_pipe_run(args, &hop.pipe, true));
    *args->n_edges = (uint32_t)hop.n_edges;
    return SL_OK;
}

int sl_cpu_khop_weighted(const struct sl_khop_args *args)
{
    SL_TRY(sl_check_khop_weighted(args));
    const struct sl_khop_args own = sl_khop_with_rows(args);
    return sample(&own);
}

// ---- running sums -------------------------------------------------------------------------------

enum { PARTS_MAX = 1024 };

struct prefix_job {
    const struct sl_topology_view *topology;
    const float *weight;
    double *prefix;
    uint32_t n_parts;
    uint64_t bad[PARTS_MAX]; // the part's first bad edge, or UINT64_MAX
};

// The first row of a part: parts have about as many edges plus rows each.
static uint64_t part_begin(const struct prefix_job *job, uint32_t part)
{
    const struct sl_topology_view *t = job->topology;
    uint64_t total = t->indptr[t->n_nodes] + t->n_nodes;
    // In two steps: the product of both could be too large.
    uint64_t want = total / job->n_parts * part + total % job->n_parts * part / job->n_parts;
    uint64_t low = 0, high = t->n_nodes;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (t->indptr[middle] + middle < want)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void run_prefix(void *context, uint32_t part)
{
    struct prefix_job *job = context;
    const struct sl_topology_view *t = job->topology;
    uint64_t end = part + 1 == job->n_parts ? t->n_nodes : part_begin(job, part + 1);
    job->bad[part] = UINT64_MAX;
    for (uint64_t v = part_begin(job, part); v < end; v++) {
        uint64_t first = t->indptr[v], n = t->indptr[v + 1] - first;
        uint64_t good = sl_weighted_prefix_row(job->weight + first, n, job->prefix + first);
        if (good < n) {
            job->bad[part] = first + good;
            return;
        }
    }
}

int sl_cpu_weight_prefix(const struct sl_topology_view *topology, const float *weight,
                         double *prefix)
{
    SL_TRY(sl_check_weight_prefix(topology, weight, prefix));
    uint32_t threads = (uint32_t)sl_cpu_threads();
    struct prefix_job job = {.topology = topology, .weight = weight, .prefix = prefix};
    job.n_parts = threads == 1 ? 1 : SL_MIN(threads * GROUPS_PER_THREAD, (uint32_t)PARTS_MAX);
    sl_cpu_parallel_parts(job.n_parts, run_prefix, &job);
    for (uint32_t part = 0; part < job.n_parts; part++)
        if (job.bad[part] != UINT64_MAX)
            return sl_check_fail_weight(topology, weight, job.bad[part]);
    return SL_OK;
}
