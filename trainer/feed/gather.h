/*
 * gather.h - the Extract stage: a block where it is computed with, and the features of its input
 * nodes, from the cache and from the store.
 *
 * The ranks that the sampler marked a block with say which of its input nodes the cache holds.
 * Blocks without ranks, or of another hotness order than the cache's, come from the store alone.
 * Whatever the way, the result is the same to the bit: a cache holds copies.
 *
 * ON CPU CORES the block is read where it lies. Two lists are made of the ranks without a branch a
 * row (kernels: split_rows), and each is gathered in one go to its places in the batch
 * (gather_rows_to), so neither inner loop asks where a row comes from.
 *
 * FROM STORAGE (rows.h) misses come from the machine's cache, where the fetching thread has brought
 * them (fetch.h), and from the drive what is not there. A GPU's are always staged then.
 *
 * ON A GPU the block goes to the device's memory in one copy, of pinned memory where the arena
 * could be mapped, and its ranks with it. What the trainer has to know of it (how many edges are
 * loops, how many rows were hits) is counted there and comes back with the rest: this thread waits
 * once for a batch without misses, and training for none of it. One kernel (gather_ranked) takes
 * hits from the cache, at slot = rank; misses have to cross the bus, in one of two ways:
 *
 *      mapped   the same kernel reads them from the store in place, through pinned memory: nothing
 *               but the row itself is moved
 *      staged   the device lists them (split_rows), the processor gathers them into pinned memory,
 *               piece by piece while the piece before is copied, and the device puts the rows where
 *               they belong (scatter_rows, gather_rows_to): whole copies at the bus's full speed,
 *               of rows that need not be pinned themselves
 *
 * So the processor does nothing for a hit, and for a batch without misses nothing but send it.
 *
 * Where the sampler is on the same GPU, it may have left the arrays there (struct sl_near_block):
 * only what the processor wrote of the block crosses the bus then. Whether the sampler lived is
 * asked as soon as they are there, in a wait of their own: what is wrong in them must not be
 * followed. If it did not, the block comes from the arena.
 *
 * A hit may lie in the memory of another trainer's GPU (cache.h), and that trainer may die while it
 * is read. So what was gathered is asked for once it is there: if not everybody whose memory was
 * open has lived until then, the batch is gathered again, without those who have not.
 *
 * Of what is staged, rows that the batch before has in the device's memory are copied from there in
 * place of being brought again (match.h). Not where a row is so short that looking for it costs
 * what reading it does; not where the store is read in place, since then the processor makes no
 * lists; and on CPU cores nothing has to be brought.
 *
 * Which is faster depends on the bus, the width of a row and how many cores there are, so both are
 * tried on the first batch and the faster one is used from then on: if that is in place, they are
 * tried once more on the first batch that has one before it. What is read in place, the files or a
 * copy of them, is store.h's to say. Pinning takes a third of a second a GB, so it is done once: a
 * trainer has one struct sl_gather for all its life, which the probe (probe.h) uses first and the
 * extracting thread (prefetch.h) after it. The probe knows of no cache; a first batch of the job
 * all whose rows GPUs hold gives the mapping back, until a miss.
 *
 * Features of f16 become f32 on their way, or stay what they are where the model can read them
 * (sl_model_take_half): a row is half as long then, and is moved as if it were one of f32 of half
 * the width.
 *
 * On cores a first layer may read the rows of its sources where they are mapped, each where it is
 * added up: then only those of its destinations, which products read too, are copied.
 *
 * The rows of a typed block, whose widths differ, are gathered type by type: on cores as any
 * (rows.h); to a GPU from files that are mapped: in place where it reads the files, else by the
 * processor's pinned memory. Hits come from the cache of their type. What is staged goes in one
 * copy: the processor lists the misses of all types by the ranks that the block has in its memory,
 * so nothing is waited for in between, and what the batch before has is taken from these lists.
 * Features of edges are always gathered by the processor, from files that are mapped; of a plain
 * block edge_rows.h says where they are.
 *
 * Buffers and lists grow to the largest batch met; nothing is allocated after that.
 */
#ifndef SL_TRAINER_FEED_GATHER_H
#define SL_TRAINER_FEED_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena/block.h"
#include "trainer/feed/cache.h"
#include "trainer/feed/compute.h"
#include "trainer/feed/match.h"
#include "trainer/feed/near_block.h"
#include "trainer/feed/rows.h"
#include "trainer/feed/store.h"

enum { SL_GATHER_LISTS = 4 }; // of rows and places, for hits and for misses (sl_row_split)

// What a GPU counts of a batch, in pinned memory: read once the batch is there.
struct sl_batch_counts {
    struct sl_hits hits;       // of gather_ranked; with types of all of them, those of each behind
    struct sl_row_split split; // that the device makes of hits and misses, in its memory
    uint32_t n_loops[SL_MAX_HOPS];
};

// How misses get to a GPU.
enum sl_gather_way {
    SL_GATHER_FASTER, // of these two, as measured on the first batch
    SL_GATHER_STAGED,
    SL_GATHER_MAPPED, // STAGED where the store cannot be mapped
};

// A batch where it is computed with.
struct sl_batch_buffer {
    struct sl_block_view block; // of the last batch
    // (n_input, feat_dim) its features: f32, or f16 as of `half`; the first alone, or bf16, as of
    // `near_rows`; behind them those of its edges (edge_rows.h); of types as typed_block.h has them
    void *x;
    struct sl_buffer arrays; // the block's copy on a GPU
    struct sl_buffer counts; // GPU: struct sl_batch_counts
    struct sl_buffer features;
    struct sl_matchable matchable; // GPU: whose rows x has, for the batch after it
};

struct sl_gather {
    struct sl_compute compute;
    struct sl_row_source source; // of misses
    bool half; // f16 stays as it is; of an even width, but with types. Set before use
    // On cores: x has the rows of the first layer's destinations alone, and the layer reads the
    // others in the files (sl_model_take_table); with `half` as bf16. Not with a reader.
    bool near_rows;
    enum sl_gather_way way;    // GPU; becomes what was found
    bool counts_loops;         // GPU: blocks come with their loops counted (to->block.n_loops)
    struct sl_near_block near; // GPU; to be set before each block
    bool missed;               // some batch with a cache had rows from the store
    bool unmatched;            // MAPPED was faster where there was no batch before
    struct sl_match match;
    struct sl_store store;         // where the GPU reads misses in place
    struct sl_buffer lists;        // host: SL_GATHER_LISTS of (n_input) words
    struct sl_buffer device_lists; // their copy on a GPU
    struct sl_buffer rows;         // host: misses on their way, in the store's type
    struct sl_buffer staged;       // the same on the GPU
    struct sl_buffer edge_rows;    // host: features of a block's edges on their way
    struct sl_buffer type_hits;    // host: (n_types) input nodes of the last block that were hits;
                                   // and (n_types) that matched
    struct sl_buffer staged_types; // host: (n_types) what was staged of each
};

// What the last gathering did.
struct sl_gathered {
    uint64_t from_ns, ns; // when it began, how long it took
    uint64_t cpu_ns;      // ... of the calling thread's processor time
    uint64_t hits;        // input nodes that the cache had, or another trainer's
    uint64_t matched;     // ... that the batch before had, and the cache did not
    uint64_t hit_bytes, matched_bytes, miss_bytes; // of the store's type
    uint64_t near_bytes;                           // of the block, copied within the GPU
    uint64_t x_bytes;                              // of the rows where they are computed with
    struct sl_asking_count remote;                 // rows that other nodes were asked for
    uint64_t bare;                                 // input nodes of types without features
};

// Of the last block, how many input nodes of each type (n_types) were hits, and behind these how
// many the batch before had; of a graph with types.
static inline const uint32_t *sl_gather_type_hits(const struct sl_gather *g)
{
    return g->type_hits.p;
}

// Everything is borrowed for as long as it lives. The reader and the machine's cache in g->source,
// and counts_loops, may be set later. One thread at a time may gather with it.
void sl_gather_init(struct sl_gather *g, const struct sl_compute *compute,
                    const struct sl_dataset *dataset, enum sl_gather_way way);

// Of a GPU's trainer, before anything is gathered: where the GPU reads what its cache has not
// (sl_store_place(), whose errors these are). What it cannot read in place is staged.
struct sl_seat;
int sl_gather_place(struct sl_gather *g, struct sl_seat *seat, struct sl_dataset *dataset,
                    const struct sl_store_plan *plan);

/*
 * Fills to->block and to->x; both are there for every thread when it returns. The block is the
 * processor's and stays as it is for as long as to->block is used. cache may be NULL. `before` is
 * another buffer, of the batch before this one, zeroed where there was none: its features are read
 * and must be as they were gathered. NULL: they are not. SL_ENOMEM; SL_ERANGE when the block names
 * a vertex that the store has not; errors of the device.
 */
int sl_gather_block(struct sl_gather *g, struct sl_cache *cache, const struct sl_block *block,
                    const struct sl_batch_buffer *before, struct sl_batch_buffer *to,
                    struct sl_gathered *out);
// The same in two steps: to->x is where the rows will be; and they are there.
int sl_gather_reserve(const struct sl_gather *g, const struct sl_block *block,
                      struct sl_batch_buffer *to);
int sl_gather_rows(struct sl_gather *g, struct sl_cache *cache, const struct sl_block *block,
                   const struct sl_batch_buffer *before, struct sl_batch_buffer *to,
                   struct sl_gathered *out);

void sl_batch_buffer_fini(struct sl_batch_buffer *b); // safe on a zeroed struct
void sl_gather_fini(struct sl_gather *g);             // safe on a zeroed struct

#endif
