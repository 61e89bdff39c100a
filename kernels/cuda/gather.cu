/*
 * gather.cu - rows by number: from a table to a batch, from cache and store, from a batch to a
 * table.
 *
 * FLOOR. Row numbers read, rows read, rows written: n (4 + row bytes + 4 dim). Nothing is read
 * twice, so one kernel comes to the floor if enough loads are in flight; on mapped memory the floor
 * is the bus, and what counts is that a warp asks for neighbouring bytes of a row at once.
 *
 * HOW. A group of 4 to 32 lanes takes GATHER_ROWS rows at a time: their numbers first, then a pack
 * of each row, then the stores. So a lane has four independent loads in flight, and a
 * multiprocessor at full occupancy 128 KiB, several times what latency times bandwidth asks of it
 * (some 20 KiB on an H100). The group is the smallest that covers a row's packs; wider rows are
 * walked through, and the last lanes of a row whose packs are no power of two idle, which costs
 * issue slots that nothing else wants. Nothing is staged: a row goes through registers.
 *
 * gather_ranked is the same kernel with the row's address chosen by its rank: hits from the cache
 * and misses from the store, in the order of the batch, so that there is no split, no second launch
 * and no list of either; without a store misses are passed over. Hits are counted by the lanes that
 * read the ranks, one atomic a block and place that it found some in.
 *
 * FAILURE. A row number that is out of range is told to the complaints (cuda.cuh) and its row is
 * left as it was.
 */
#include "kernels/cuda/move.cuh"

#include "kernels/check.h"
#include "kernels/cuda/aggregate_hubs.cuh"
#include "kernels/cuda/move_pack.cuh"
#include "kernels/spread_internal.h"

enum { BLOCK = 256, GATHER_ROWS = 4 };

// Where rows come from and go to. Row i of the call is out[to[i]] (to NULL: out[i]) and comes from
// the cache at its rank if that lies there, else from table[rows[i]] (rows NULL: i), and without a
// table from nowhere.
struct movement {
    const void *table;
    const uint32_t *rows;
    uint64_t n_rows;
    struct sl_spread cache;
    const uint32_t *ranks; // NULL: there is no cache
    const uint32_t *to;
    uint64_t n_out;
    uint64_t n;
    uint32_t dim;
    float *out;
    struct sl_hits *hits; // counts up; or NULL
    struct sl_cuda_complaints *complaints;
};

// The source of row i, or NULL with a complaint. `first`: of its group's lanes the one that speaks.
// It counts hits: `near` its own, `parts` (SL_PARTS_MAX) the block's.
template <typename E>
static __device__ const E *source_of(const movement &m, uint64_t i, bool first, uint32_t *near,
                                     uint32_t *parts)
{
    if (m.ranks) {
        uint64_t at;
        const uint32_t where = sl_spread_find(&m.cache, m.ranks[i], &at);
        if (where == SL_SPREAD_NEAR)
            *near += first;
        else if (where != SL_SPREAD_NOWHERE && first && m.hits)
            atomicAdd(&parts[where], 1u);
        if (where != SL_SPREAD_NOWHERE)
            return static_cast<const E *>(sl_spread_memory(&m.cache, where)) + at * m.dim;
    }
    if (!m.table)
        return nullptr;
    uint64_t row = m.rows ? m.rows[i] : i;
    if (row < m.n_rows)
        return static_cast<const E *>(m.table) + row * m.dim;
    if (first)
        sl_complain(m.complaints, SL_COMPLAINT_ROW, i, row, m.n_rows);
    return nullptr;
}

static __device__ float *target_of(const movement &m, uint64_t i, bool first)
{
    uint64_t row = m.to ? m.to[i] : i;
    if (row < m.n_out)
        return m.out + row * m.dim;
    if (first)
        sl_complain(m.complaints, SL_COMPLAINT_TO, i, row, m.n_out);
    return nullptr;
}

template <typename E, int PACK>
static __device__ void copy_packs(const movement &m, const E *const *from, float *const *to,
                                  uint32_t lane, uint32_t lanes)
{
    for (uint64_t column = lane * PACK; column < m.dim; column += lanes * PACK) {
        sl_pack<E, PACK> got[GATHER_ROWS];
#pragma unroll
        for (int r = 0; r < GATHER_ROWS; r++)
            if (to[r])
                got[r] = sl_load<E, PACK>(from[r], column);
#pragma unroll
        for (int r = 0; r < GATHER_ROWS; r++)
            if (to[r]) {
                sl_pack<float, PACK> wide;
#pragma unroll
                for (int k = 0; k < PACK; k++)
                    wide.at[k] = sl_widen(got[r].at[k]);
                sl_store<float, PACK>(to[r], column, wide);
            }
    }
}

template <typename E, int PACK>
static __global__ void __launch_bounds__(BLOCK) move_rows(movement m, uint32_t lanes)
{
    __shared__ uint32_t block_hits[SL_PARTS_MAX + 1]; // the last: near
    if (threadIdx.x <= SL_PARTS_MAX)
        block_hits[threadIdx.x] = 0;
    __syncthreads();
    uint32_t lane = threadIdx.x % lanes, hits = 0;
    // The rows of a group are a block's groups apart, so that those of a block are neighbours.
    uint64_t groups = BLOCK / lanes;
    uint64_t row = (uint64_t)blockIdx.x * groups * GATHER_ROWS + threadIdx.x / lanes;
    const E *from[GATHER_ROWS];
    float *to[GATHER_ROWS];
#pragma unroll
    for (int r = 0; r < GATHER_ROWS; r++) {
        uint64_t i = row + (uint64_t)r * groups;
        from[r] = i < m.n ? source_of<E>(m, i, lane == 0, &hits, block_hits) : nullptr;
        to[r] = from[r] ? target_of(m, i, lane == 0) : nullptr;
    }
    copy_packs<E, PACK>(m, from, to, lane, lanes);
    if (!m.hits)
        return;
    if (hits)
        atomicAdd(&block_hits[SL_PARTS_MAX], hits);
    __syncthreads();
    if (threadIdx.x <= SL_PARTS_MAX && block_hits[threadIdx.x]) {
        uint32_t *all = threadIdx.x < SL_PARTS_MAX ? &m.hits->part[threadIdx.x] : &m.hits->near;
        atomicAdd(all, block_hits[threadIdx.x]);
    }
}

template <typename E> static int launch_move(const movement &m)
{
    int pack = sl_cuda_packs(m.dim, static_cast<const E *>(m.table),
                             static_cast<const E *>(m.cache.near), m.out);
    for (uint32_t p = 0; p < m.cache.n_parts; p++)
        pack = sl_cuda_pack(pack, m.dim, static_cast<const E *>(m.cache.part[p].p), sizeof(E));
    uint64_t packs = m.dim / (unsigned)pack;
    uint32_t lanes = (uint32_t)SL_MIN(sl_pow2_at_least(packs), (uint64_t)SL_WARP);
    uint64_t blocks = sl_div_up(m.n, (uint64_t)(BLOCK / lanes) * GATHER_ROWS);
    if (blocks > INT32_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "%llu rows of %u columns in one call: wanted fewer than %llu",
                       (unsigned long long)m.n, m.dim,
                       (unsigned long long)INT32_MAX * (BLOCK / lanes) * GATHER_ROWS);
    return sl_cuda_by_pack(pack, [&](auto n) -> int {
        SL_LAUNCH((move_rows<E, n>), (unsigned)blocks, BLOCK, 0, m, lanes);
        return SL_OK;
    });
}

static int move(movement *m, enum sl_dtype dtype)
{
    if (m->n == 0)
        return SL_OK;
    m->complaints = sl_cuda_complaints();
    return dtype == SL_DTYPE_F16 ? launch_move<sl_half>(*m) : launch_move<float>(*m);
}

int sl_cuda_gather_rows(const void *table, enum sl_dtype dtype, uint64_t n_rows, uint32_t dim,
                        const uint32_t *rows, uint64_t n, float *out)
{
    SL_TRY(sl_check_gather_rows(table, dtype, n_rows, dim, rows, n, out));
    movement m = {};
    m.table = table;
    m.rows = rows;
    m.n_rows = n_rows;
    m.n_out = m.n = n;
    m.dim = dim;
    m.out = out;
    return move(&m, dtype);
}

int sl_cuda_gather_rows_to(const void *table, enum sl_dtype dtype, uint64_t n_rows, uint32_t dim,
                           const uint32_t *rows, const uint32_t *to, uint64_t n, uint64_t n_out,
                           float *out)
{
    SL_TRY(sl_check_gather_rows_to(table, dtype, n_rows, dim, rows, to, n, n_out, out));
    movement m = {};
    m.table = table;
    m.rows = rows;
    m.n_rows = n_rows;
    m.to = to;
    m.n_out = n_out;
    m.n = n;
    m.dim = dim;
    m.out = out;
    return move(&m, dtype);
}

int sl_cuda_scatter_rows(const float *x, uint32_t dim, const uint32_t *to, uint64_t n,
                         uint64_t n_out, float *out)
{
    SL_TRY(sl_check_scatter_rows(x, dim, to, n, n_out, out));
    movement m = {};
    m.table = x;
    m.n_rows = m.n = n;
    m.to = to;
    m.n_out = n_out;
    m.dim = dim;
    m.out = out;
    return move(&m, SL_DTYPE_F32);
}

int sl_cuda_gather_ranked(const struct sl_gather_ranked_args *args)
{
    SL_TRY(sl_check_gather_ranked(args));
    movement m = {};
    m.table = args->store;
    m.rows = args->nodes;
    m.n_rows = args->n_rows;
    m.cache = args->cache;
    m.ranks = args->ranks;
    m.n_out = m.n = args->n;
    m.dim = args->dim;
    m.out = args->out;
    if (!args->hits)
        return move(&m, args->dtype);
    void *counts = NULL;
    SL_TRY(sl_cuda_room(sizeof *m.hits, &counts));
    SL_CUDA_TRY(cudaMemsetAsync(counts, 0, sizeof *m.hits, sl_cuda_stream()));
    m.hits = static_cast<struct sl_hits *>(counts);
    SL_TRY(move(&m, args->dtype));
    SL_CUDA_TRY(cudaMemcpyAsync(args->hits, counts, sizeof *m.hits, cudaMemcpyDeviceToHost,
                                sl_cuda_stream()));
    return SL_OK;
}
