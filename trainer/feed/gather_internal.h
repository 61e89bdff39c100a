/*
 * gather_internal.h - one batch while it is gathered, for the files of gather.h: gather.c, and
 * gather_types.c with what differs where rows are of several widths.
 */
#ifndef SL_TRAINER_FEED_GATHER_INTERNAL_H
#define SL_TRAINER_FEED_GATHER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/block.h"
#include "kernels/kernels.h"
#include "trainer/feed/typed_block.h"

struct sl_gather; // and others of gather.h
struct sl_cache;
struct sl_batch_buffer;
struct sl_batch_counts;
struct sl_gather_staged_type;

// Looking for a row in the batch before touches two lines of memory; reading one as short does.
enum { SL_GATHER_MATCH_ROW_BYTES = 128 };

// Where rows of the store and of the cache go, while one batch is gathered.
struct sl_gather_job {
    struct sl_gather *g;
    struct sl_cache *cache; // NULL: none
    const struct sl_block *block;
    enum sl_dtype dtype; // of the rows that are moved, and their width
    uint32_t dim;
    uint32_t n_rows;                      // of x; not of types
    struct sl_spread spread;              // of the rows that are held, for this block; not of types
    const struct sl_batch_buffer *before; // NULL: nothing is looked for in it
    struct sl_batch_buffer *to;
    struct sl_batch_counts *counts; // of a GPU
    struct sl_row_split lists; // staged: of the misses, and behind the hits of what was matched
    uint32_t hits, matched;
    uint64_t near_bytes;                        // of the block
    uint32_t *type_hits, *type_matched;         // (n_types)
    const struct sl_gather_staged_type *staged; // (n_types) NULL: nothing was listed for staging
};

static inline bool sl_gather_is_typed(const struct sl_block *block)
{
    return block->flags & SL_BLOCK_TYPED;
}

// Of the rows of typed blocks.
enum sl_typed_layout sl_gather_layout(const struct sl_gather *g);

static inline bool sl_gather_is_held(const struct sl_spread *s)
{
    return s->n_near > 0 || s->n_parts > 0;
}

// Whether all of n rows are held: there are no misses then.
bool sl_gather_holds_all(const struct sl_spread *s, uint64_t n);

// The lists of a split in g->lists, for n input nodes.
int sl_gather_grow_lists(struct sl_gather *g, uint32_t n);
static inline struct sl_row_split sl_gather_lists_in(void *words, uint32_t n)
{
    uint32_t *p = words;
    return (struct sl_row_split){
        .hit_row = p,
        .hit_to = p + n,
        .miss_row = p + 2 * (size_t)n,
        .miss_to = p + 3 * (size_t)n,
    };
}

// Rows of the store as they are computed with: vertices[i] of a range (rows.h) to place to[i] of x
// (n_places rows), i of n; to NULL: to place i. Errors as of sl_rows_copy().
int sl_gather_from_store(struct sl_gather *g, uint32_t range, const uint32_t *vertices,
                         const uint32_t *to, uint32_t n, uint32_t n_places, void *x);

static inline uint32_t sl_gather_hits_of(const struct sl_hits *hits)
{
    uint32_t n = hits->near;
    for (uint32_t i = 0; i < SL_PARTS_MAX; i++)
        n += hits->part[i];
    return n;
}

// --- gather_types.c ---

// Before a typed block is gathered: no hits yet.
int sl_gather_begin_types(struct sl_gather_job *j);
// Whether the cache has every row that the block could ask for.
bool sl_gather_holds_types(const struct sl_gather_job *j);
// Fills j->to->x and counts the hits, on a device once it has been waited for.
int sl_gather_types_on_host(struct sl_gather_job *j);
int sl_gather_types_on_device(struct sl_gather_job *j, bool in_place);
void sl_gather_settle_types(struct sl_gather_job *j);
// Whether rows of some type are looked for in the batch before; and for the batch after this one.
bool sl_gather_matches_types(const struct sl_gather *g);
int sl_gather_note_types(struct sl_gather_job *j);
// Tells the cache where rows were read.
void sl_gather_count_types(const struct sl_gather_job *j);

#endif
