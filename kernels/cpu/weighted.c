/*
 * weighted.c - one hop of k-hop weighted sampling with its cache misses in flight together, and the
 * running sums that it needs.
 *
 * PROBLEM. A draw by weight is a binary search whose probes depend on each other, and a row's draws
 * depend on each other since each takes an edge away. In a large graph most rows are met for the
 * first time, so the probes miss the caches. Then come the misses of k-hop sampling (khop.c).
 *
 * DESIGN. Rows do not depend on each other, so those of a group are drawn side by side: their
 * searches overlap, and one instruction serves several rows:
 *
 *     few edges    weighted_short.h   the sums are copied and closed up, no search
 *     many edges   weighted_long.h    a window where the edge should be, next to where it was not
 *     a large fanout                  weighted_lane.h   halving, each row with its own list
 *     with replacement                weighted_lane.h   halving, the list stays empty
 *     excluded edges                  weighted_lane.h   halving, the list has them at the start
 *
 * The sums of rows of few edges are asked for one group earlier, of others the last one, and their
 * windows before rows of few edges are drawn. The random numbers of a slot are made for a whole
 * group at once (philox.c). Edges then go through the pipeline of khop_pipe.h.
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
#include "kernels/cpu/weighted_points.h"
#include "kernels/cpu/weighted_short.h"
#include "kernels/excluded_internal.h"
#include "kernels/kernels_internal.h"
#include "kernels/weighted_internal.h"

enum {
    LANES = SL_WEIGHTED_ROWS,
    LANE_SLOTS = 2048,     // slots of all lanes together, unless one row has more
    GROUPS_PER_THREAD = 8, // of weight_prefix, so that a thread that met a hub can be helped
};

/*
 * How a row is drawn: as a short row of some size, as a long one, not at all, or in a lane. Rows
 * are put into lists by this, so that no branch depends on a row until it is drawn.
 */
enum way { LONG = SL_WEIGHTED_SHORT_SIZES, ALL, LANE, WAYS };

// A row of the group.
struct row {
    uint64_t first;
    uint32_t degree;
    uint32_t way;
    struct sl_excluded_row out;
};

struct hop {
    const struct sl_khop_args *args;
    uint32_t k;       // fanout, or UINT32_MAX for all
    bool replaces;    // rows are drawn with replacement
    uint32_t n_lanes; // rows of a group
    uint64_t n_edges;
    struct sl_khop_pipe pipe;
    struct row row[LANES];
    uint32_t n[WAYS], of_way[WAYS][LANES];
    struct sl_weighted_drawn drawn[LANES]; // of rows that are not drawn in lanes
    struct sl_weighted_lane lane[LANES];
    struct sl_weighted_shorts shorts;
    struct sl_weighted_longs longs;
    struct sl_weighted_points points; // of short and long rows
    uint32_t words[LANES * 4];        // of lanes: Philox blocks of a pair of slots
    char *lanes, *spare;              // memory of the lanes; of those of rows with excluded edges
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
        for (uint64_t j = 0; j < degree; j += SL_KHOP_PIPE_STRIDE)
            for (uint64_t i = j; i < j + SL_KHOP_PIPE_STRIDE; i++)
                edges[i] = first + i;
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

// The sums that the row's first draw of k will look at; its offsets are there already. Without a
// branch for rows that are not drawn: these ask for what is there.
SL_INLINE void prefetch_sums(const struct sl_khop_args *args, uint32_t k, uint64_t row)
{
    const struct sl_topology_view *t = args->topology;
    if (row >= args->n_dst)
        return;
    const uint64_t *indptr = &t->indptr[args->rows[row]];
    const uint64_t degree = indptr[1] - indptr[0], line = SL_CACHE_LINE / sizeof(double);
    const bool is = degree > (t->weights_positive && !args->replace ? k : 0);
    const double *prefix = is ? t->weight_prefix + indptr[0] : (const double *)(const void *)indptr;
    const uint64_t last = is ? degree - 1 : 0;
    // Of few edges these are all lines. A long row's first windows are asked for as they are known.
    const bool some = degree <= SL_WEIGHTED_SHORT || k > SL_WEIGHTED_LONG_FANOUT;
    const uint64_t most = some ? last : 0;
    __builtin_prefetch(prefix + last);
    for (uint64_t j = 0; j < 4 * line; j += line)
        __builtin_prefetch(prefix + SL_MIN(j, most));
    if (__builtin_expect(most > 4 * line, 0))
        for (uint64_t j = 4 * line; j < SL_MIN(most, (uint64_t)SL_WEIGHTED_SHORT); j += line)
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

// Draws for the n rows of lanes.
SL_INLINE void draw_lanes(struct hop *hop, uint32_t row, uint32_t *drawn, uint32_t n)
{
    uint32_t searching[LANES];
    for (uint32_t slot = 0; slot < hop->k && n > 0; slot++) {
        uint32_t kept = 0, n_searching = 0;
        if ((slot & 1) == 0)
            draw_words(hop, row, slot);
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

SL_INLINE uint32_t way_of(const struct hop *hop, uint64_t degree, struct sl_excluded_row out)
{
    if (__builtin_expect(hop->replaces || out.n > 0 || hop->k > SL_WEIGHTED_LONG_FANOUT ||
                             degree > SL_WEIGHTED_LONG_DEGREE,
                         0))
        return hop->replaces ? (degree > out.n ? LANE : ALL) : degree - out.n > hop->k ? LANE : ALL;
    const uint32_t size = sl_weighted_size(degree);
    return degree <= hop->k ? ALL : size;
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

// The same, where `at` has room for whole strides: no loop's length depends on the row, mostly.
SL_INLINE int push_strides(struct hop *hop, uint64_t first, const uint32_t *at, uint32_t n)
{
    uint64_t *edges;
    SL_TRY(make_room(hop, n, &edges));
    if (__builtin_expect(!edges, 0))
        return push_some(hop, first, at, n);
    for (uint32_t j = 0; j < n; j += SL_KHOP_PIPE_STRIDE)
        for (uint32_t i = j; i < j + SL_KHOP_PIPE_STRIDE; i++)
            edges[i] = first + at[i];
    have_pushed(hop, n);
    return SL_OK;
}

#define EIGHT(n) n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7
static const uint32_t every[SL_WEIGHTED_SLOTS] = {EIGHT(0),  EIGHT(8),  EIGHT(16), EIGHT(24),
                                                  EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56)};

// A row's edges: those that were drawn, or all when no weight is left.
SL_INLINE int push_edges(struct hop *hop, uint32_t l)
{
    const struct row *row = &hop->row[l];
    const struct sl_weighted_drawn *drawn = &hop->drawn[l];
    const bool all = row->way == ALL;
    const bool known = all && hop->args->topology->weights_positive && row->out.n == 0 &&
                       row->degree <= SL_WEIGHTED_SLOTS;
    if (__builtin_expect(known || (row->way < ALL && drawn->left > 0), 1))
        return push_strides(hop, row->first, all ? every : drawn->at, all ? row->degree : drawn->n);
    if (row->way != LANE)
        return push_row(hop, row->first, row->degree, row->out);
    struct sl_weighted_lane *lane = &hop->lane[l];
    if (lane->left > 0)
        return push_some(hop, row->first, lane->drawn, lane->n_drawn);
    if (__builtin_expect(row->out.n > 0, 0))
        sl_weighted_lane_strip(lane, row->out);
    for (uint32_t c = 0; c < lane->n_chunks; c++)
        SL_TRY(push_some(hop, row->first, lane->chunks[c]->at, lane->chunks[c]->n));
    return SL_OK;
}

// Lists row + l.
SL_INLINE int list_row(struct hop *hop, uint32_t row, uint32_t l)
{
    const struct sl_khop_args *args = hop->args;
    const struct sl_topology_view *t = args->topology;
    const uint64_t *indptr = &t->indptr[args->rows[row + l]];
    const uint64_t first = indptr[0], degree = indptr[1] - first;
    if (__builtin_expect(degree >= UINT32_MAX, 0))
        return sl_khop_fail_degree(args, row + l, degree);
    struct row *its = &hop->row[l];
    its->first = first;
    its->degree = (uint32_t)degree;
    its->out = sl_excluded_row(args->excluded, row + l);
    its->way = way_of(hop, degree, its->out);
    hop->shorts.prefix[l] = t->weight_prefix + first;
    hop->shorts.degree[l] = (uint32_t)degree;
    hop->of_way[its->way][hop->n[its->way]++] = l;
    return SL_OK;
}

// Samples the rows row .. row + n - 1, and asks for what rows behind them will want: for one row
// after the other, since many misses at once hold each other up.
SL_INLINE int sample_group(struct hop *hop, uint32_t row, uint32_t n)
{
    char *spare = hop->spare;
    memset(hop->n, 0, sizeof hop->n);
    for (uint32_t l = 0; l < n; l++)
        SL_TRY(list_row(hop, row, l));
    if (hop->n[ALL] + hop->n[LANE] < n) {
        sl_weighted_points_make(&hop->points, hop->args, row, hop->k);
        sl_weighted_longs_reset(&hop->longs);
        for (uint32_t i = 0; i < hop->n[LONG]; i++) {
            const uint32_t l = hop->of_way[LONG][i];
            sl_weighted_longs_open(&hop->longs, l, hop->shorts.prefix[l], hop->shorts.degree[l]);
        }
        sl_weighted_longs_ask(&hop->longs, hop->k, &hop->points);
        sl_weighted_shorts_draw(&hop->shorts, hop->k, &hop->points);
        sl_weighted_longs_draw(&hop->longs, hop->k, &hop->points);
    }
    for (uint32_t i = 0; i < hop->n[LANE]; i++) {
        const uint32_t l = hop->of_way[LANE][i];
        const struct row *its = &hop->row[l];
        if (its->out.n > 0)
            open_excluding(hop, l, hop->shorts.prefix[l], its->degree, its->out, &spare);
        else
            sl_weighted_lane_open(&hop->lane[l], hop->shorts.prefix[l], its->degree);
    }
    draw_lanes(hop, row, hop->of_way[LANE], hop->n[LANE]);
    for (uint32_t l = 0; l < n; l++) {
        sl_khop_fetch_row(hop->args, (uint64_t)row + l + 2 * (uint64_t)hop->n_lanes);
        prefetch_sums(hop->args, hop->k, (uint64_t)row + l + hop->n_lanes);
        SL_TRY(push_edges(hop, l));
        hop->args->indptr[row + l + 1] = (uint32_t)hop->n_edges;
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
    hop.shorts.drawn = hop.longs.drawn = hop.drawn;
    hop.shorts.n = hop.n;
    hop.shorts.of_size = hop.of_way;
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
