/*
 * walk.cu - PinSAGE's random walks as kernels/walk_internal.h defines them.
 *
 * A group of lanes has a row, and a lane a path: steps are chains of random reads, and what hides
 * their latency is that all paths of all rows are under way. The vertices that a row's paths met
 * stand in a list by path and step, holes where nothing was met. Then each lane takes entries of
 * the list: how often the vertex stands in it, unless it stood there before; and how many of these
 * counts come before its own (more often, or as often and met earlier), which is its place. Both
 * look at the whole list an entry, so a row costs the square of paths * length over the lanes: less
 * than the walk itself for the dozens of steps that PinSAGE takes, and no sort has a tie rule to
 * get wrong.
 *
 * Of a metapath the list has what its last steps came to, and the others leave nothing.
 *
 * Lists are in shared memory (8 bytes a step), and in scratch memory where they are too long. A
 * group has 4 to 32 lanes, as many as there are paths.
 */
#include "kernels/cuda/draw.cuh"
#include "kernels/walk_internal.h"

struct met {
    uint32_t *vertex; // (steps) by path and step; SL_DRAW_NONE: nothing
    uint32_t *count;  // (steps) of the first place of each vertex, else 0
};

// Word k of a block, without an array in memory.
static __device__ __forceinline__ uint32_t word_of(const struct sl_rng_block &block, uint32_t k)
{
    uint32_t low = k & 1 ? block.w[1] : block.w[0], high = k & 1 ? block.w[3] : block.w[2];
    return k & 2 ? high : low;
}

// --- paths ---------------------------------------------------------------------------------------

static __device__ __forceinline__ void walk_path(const struct sl_draw_hop &hop,
                                                 const struct sl_draw_walk &walk, uint32_t row,
                                                 uint32_t path, uint32_t *met)
{
    struct sl_khop_args key; // what sl_walk_move() asks for
    key.seed = hop.b.seed;
    key.stream = hop.b.stream;
    key.epoch = hop.b.epoch;
    key.batch = hop.b.batch;
    key.hop = hop.hop;
    const uint32_t home = hop.row_nodes[row], steps = sl_walk_steps(walk.length, &walk.along);
    uint32_t at = home, k = 0, n_met = 0;
    struct sl_rng_block moves = {{0, 0, 0, 0}}, restarts = {{0, 0, 0, 0}};
    for (uint32_t s = 0; s < steps; s++, k = k == walk.along.more ? 0 : k + 1) {
        uint32_t group = path * sl_walk_path_groups(steps) + s / 4;
        if (s % 4 == 0) {
            moves = sl_philox(key.seed, sl_rng_word0(key.stream, key.hop, group), row, key.batch,
                              key.epoch);
            if (walk.restart > 0.0f)
                restarts = sl_philox(key.seed,
                                     sl_rng_word0(key.stream, key.hop | SL_WALK_RESTART_TAG, group),
                                     row, key.batch, key.epoch);
        }
        if (s > 0 && k == 0 && walk.restart > 0.0f &&
            sl_rng_unit(word_of(restarts, s)) < walk.restart)
            at = home;
        uint64_t start;
        uint32_t degree =
            sl_list_of(hop.b, sl_walk_lists(hop.b.topology_indptr, &walk.along, k), at, &start);
        if (degree == 0)
            break;
        at = sl_neighbour(hop.b,
                          start + sl_walk_move(&key, row, group, s, word_of(moves, s), degree));
        if (k == walk.along.more)
            met[n_met++] = at != home ? at : SL_DRAW_NONE;
    }
    for (; n_met < walk.length; n_met++)
        met[n_met] = SL_DRAW_NONE;
}

// --- neighbours ----------------------------------------------------------------------------------

// How often the vertex of entry i stands in the list; 0 where that is said at an earlier entry.
static __device__ __forceinline__ uint32_t count_of(const uint32_t *vertex, uint32_t steps,
                                                    uint32_t i)
{
    const uint32_t mine = vertex[i];
    if (mine == SL_DRAW_NONE)
        return 0;
    for (uint32_t j = 0; j < i; j++)
        if (vertex[j] == mine)
            return 0;
    uint32_t n = 1;
    for (uint32_t j = i + 1; j < steps; j++)
        n += vertex[j] == mine;
    return n;
}

// How many entries come before entry i, which was met.
static __device__ __forceinline__ uint32_t place_of(const uint32_t *count, uint32_t steps,
                                                    uint32_t i)
{
    const uint32_t mine = count[i];
    uint32_t before = 0;
    for (uint32_t j = 0; j < steps; j++)
        before += count[j] > mine || (count[j] == mine && j < i);
    return before;
}

template <int G>
static __device__ __forceinline__ void walk_row(const struct sl_draw_hop &hop,
                                                const struct sl_draw_walk &walk, uint32_t row,
                                                const struct met &met)
{
    const uint32_t lane = sl_group_lane<G>(), steps = walk.paths * walk.length;
    const uint64_t out = (uint64_t)row * hop.take;
    for (uint32_t path = lane; path < walk.paths; path += G)
        walk_path(hop, walk, row, path, met.vertex + path * walk.length);
    __syncwarp(sl_group_mask<G>());
    uint32_t n = 0;
    for (uint32_t base = 0; base < steps; base += G) {
        uint32_t i = base + lane, count = i < steps ? count_of(met.vertex, steps, i) : 0;
        if (i < steps)
            met.count[i] = count;
        n += (uint32_t)__popc(sl_group_ballot<G>(count > 0));
    }
    __syncwarp(sl_group_mask<G>());
    for (uint32_t i = lane; i < steps; i += G) {
        if (met.count[i] == 0)
            continue;
        uint32_t place = place_of(met.count, steps, i);
        if (place < hop.take) {
            hop.padded[out + place] = met.vertex[i];
            hop.padded_visits[out + place] = (float)met.count[i];
        }
    }
    if (lane == 0)
        hop.count[row] = SL_MIN(n, hop.take);
    __syncwarp(sl_group_mask<G>()); // the list is the next row's
}

template <int G>
static __global__ void __launch_bounds__(SL_DRAW_SCRATCH_THREADS)
    draw_walks(struct sl_draw_hop hop, struct sl_draw_walk walk, bool in_shared)
{
    SL_DYNAMIC_SHARED(uint32_t, shared);
    const uint32_t groups = SL_DRAW_SCRATCH_THREADS / G, group = threadIdx.x / G;
    const uint32_t steps = walk.paths * walk.length;
    const uint64_t at = (uint64_t)blockIdx.x * groups + group,
                   stride = (uint64_t)gridDim.x * groups;
    struct met met;
    met.vertex = in_shared ? shared + group * 2 * steps : hop.scratch + at * 2 * steps;
    met.count = met.vertex + steps;
    for (uint64_t row = sl_first(hop.first_row) + at; row < hop.rows->n; row += stride)
        walk_row<G>(hop, walk, (uint32_t)row, met);
}

// --- entry ---------------------------------------------------------------------------------------

static uint32_t lanes_of(const struct sl_draw_walk *walk)
{
    return walk->paths <= 4 ? 4 : walk->paths <= 8 ? 8 : walk->paths <= 16 ? 16 : SL_WARP;
}

static uint32_t grid_of(const struct sl_draw_walk *walk, uint64_t rows, uint32_t *shared,
                        uint64_t *bytes)
{
    uint64_t list = 2 * sizeof(uint32_t) * (uint64_t)walk->paths * walk->length;
    return sl_draw_scratch_grid(rows, lanes_of(walk), list, shared, bytes);
}

template <int G> static int launch(const struct sl_draw_hop *hop)
{
    uint32_t shared;
    uint64_t bytes;
    uint32_t grid = grid_of(&hop->walk, hop->rows_room, &shared, &bytes);
    SL_LAUNCH(draw_walks<G>, grid, SL_DRAW_SCRATCH_THREADS, shared, *hop, hop->walk, shared > 0);
    return SL_OK;
}

static int draw(const struct sl_draw_hop *hop)
{
    switch (lanes_of(&hop->walk)) {
    case 4: SL_TRY(launch<4>(hop)); break;
    case 8: SL_TRY(launch<8>(hop)); break;
    case 16: SL_TRY(launch<16>(hop)); break;
    default: SL_TRY(launch<SL_WARP>(hop));
    }
    SL_TRY(sl_draw_indptr(hop));
    return sl_draw_settle(hop);
}

static uint32_t take(const struct sl_draw_args *args, int64_t fanout)
{
    uint32_t steps = args->paths * args->length;
    return fanout < 0 ? steps : (uint32_t)SL_MIN(fanout, (int64_t)steps);
}

static uint64_t scratch_bytes(const struct sl_draw_args *args, int64_t, uint64_t rows)
{
    const struct sl_draw_walk walk = {args->paths, args->length, {0, {0}}, args->restart};
    uint32_t shared;
    uint64_t bytes;
    grid_of(&walk, rows, &shared, &bytes);
    return bytes;
}

const struct sl_draw_sampler sl_draw_random_walk = {sl_check_random_walk, take, scratch_bytes,
                                                    draw};
