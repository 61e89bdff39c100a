#include "common/arena/block.h"

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

// Whether an array of n elements of so many bytes lies in the block, behind its header.
static bool holds_wide(const struct sl_block *b, uint64_t offset, uint64_t n, uint64_t bytes)
{
    return offset % bytes == 0 && offset >= sizeof *b && offset <= b->bytes &&
           n <= (b->bytes - offset) / bytes;
}

static bool holds(const struct sl_block *b, uint64_t offset, uint64_t n)
{
    return holds_wide(b, offset, n, sizeof(uint32_t));
}

static bool holds_run(const struct sl_block *b, const struct sl_block_run *run)
{
    return run->hop < b->n_hops && holds(b, run->indptr_offset, (uint64_t)run->n_dst + 1) &&
           holds(b, run->indices_offset, run->n_edges) &&
           (!(b->flags & SL_BLOCK_HAS_WEIGHTS) || holds(b, run->weights_offset, run->n_edges)) &&
           (!(b->flags & SL_BLOCK_HAS_EDGE_IDS) ||
            holds_wide(b, run->edge_ids_offset, run->n_edges, sizeof(uint64_t)));
}

// Whether types follow one another in the list of nodes, and add up to the numbers of the hops.
static bool types_add_up(const struct sl_block *b)
{
    const struct sl_block_type *type = sl_block_types(b);
    for (uint32_t h = 0; h <= b->n_hops; h++) {
        uint64_t sum = 0;
        for (uint32_t t = 0; t < sl_block_typed(b)->n_types; t++) {
            if (type[t].n[h] > type[t].n[b->n_hops] || (h > 0 && type[t].n[h] < type[t].n[h - 1]) ||
                (h == b->n_hops && type[t].first != sum))
                return false;
            sum += type[t].n[h];
        }
        if (sum != b->n_nodes[h])
            return false;
    }
    return true;
}

static const char *find_misplaced_run(const struct sl_block *b)
{
    const uint32_t both = SL_BLOCK_HAS_WEIGHTS | SL_BLOCK_HAS_EDGE_IDS;
    const struct sl_block_typed *typed = sl_block_typed(b);
    if (b->flags & SL_BLOCK_HAS_DEGREES || (b->flags & both) == both)
        return "flags";
    if (!holds_wide(b, b->typed_offset, sizeof *typed / sizeof(uint64_t), sizeof(uint64_t)) ||
        !holds(b, b->typed_offset + sizeof *typed,
               (uint64_t)typed->n_types * sizeof(struct sl_block_type) / sizeof(uint32_t)) ||
        !holds_wide(b, typed->runs_offset,
                    (uint64_t)typed->n_runs * sizeof(struct sl_block_run) / sizeof(uint64_t),
                    sizeof(uint64_t)))
        return "tables of types and runs";
    if (!types_add_up(b))
        return "types";
    for (uint32_t r = 0; r < typed->n_runs; r++)
        if (!holds_run(b, &sl_block_runs(b)[r]))
            return "edges of a relation";
    return NULL;
}

// The first array that does not, or NULL.
static const char *find_misplaced(const struct sl_block *b)
{
    const bool pairs = b->flags & SL_BLOCK_HAS_PAIRS;
    const uint64_t labels = (uint64_t)b->n_seeds * (b->n_targets ? b->n_targets : 1);
    const uint64_t targets =
        pairs ? (uint64_t)b->n_pairs * SL_PAIR_BYTES / sizeof(uint32_t) : labels;
    if (!holds(b, b->nodes_offset, b->n_input))
        return "nodes";
    if (!holds(b, b->label_offset, targets))
        return pairs ? "pairs" : "labels";
    if (b->flags & SL_BLOCK_HAS_DEGREES && !holds(b, b->degree_offset, b->n_input))
        return "degrees";
    if (b->flags & SL_BLOCK_HAS_RANKS && !holds(b, b->rank_offset, b->n_input))
        return "ranks";
    if (b->flags & SL_BLOCK_TYPED)
        return find_misplaced_run(b);
    for (uint32_t h = 0; h < b->n_hops; h++) {
        const struct sl_block_hop *hop = &b->hop[h];
        if (!holds(b, hop->indptr_offset, (uint64_t)hop->n_dst + 1))
            return "indptr";
        if (!holds(b, hop->indices_offset, hop->n_edges))
            return "indices";
        if (b->flags & SL_BLOCK_HAS_WEIGHTS && !holds(b, hop->weights_offset, hop->n_edges))
            return "weights";
        if (b->flags & SL_BLOCK_HAS_EDGE_IDS &&
            (b->flags & SL_BLOCK_HAS_WEIGHTS ||
             !holds_wide(b, hop->edge_ids_offset, hop->n_edges, sizeof(uint64_t))))
            return "edge numbers";
    }
    return NULL;
}

int sl_block_check(const struct sl_block *block, uint64_t room)
{
    if (room < sizeof *block || block->magic != SL_BLOCK_MAGIC || block->bytes > room)
        return sl_fail(SL_EPROTO,
                       "a batch of %llu bytes does not begin with a block's header: it is damaged, "
                       "or sampler and trainer are not of the same build",
                       (unsigned long long)room);
    if (block->n_hops > SL_MAX_HOPS)
        return sl_fail(SL_EPROTO, "block of batch %llu: %u hops, wanted at most %d: it is damaged",
                       (unsigned long long)block->batch, block->n_hops, SL_MAX_HOPS);
    const char *misplaced = find_misplaced(block);
    if (misplaced)
        return sl_fail(
            SL_EPROTO,
            "block of batch %llu: its %s do not lie within its %llu bytes: it is damaged",
            (unsigned long long)block->batch, misplaced, (unsigned long long)block->bytes);
    return SL_OK;
}

int sl_block_check_shape(const struct sl_block *block, uint64_t room, struct sl_block_shape wanted)
{
    SL_TRY(sl_block_check(block, room));
    if (block->n_hops != wanted.n_hops || block->n_nodes[block->n_hops] != block->n_input ||
        block->n_nodes[0] != block->n_seeds)
        return sl_fail(SL_EPROTO,
                       "block of batch %llu has %u hops, %u seeds and %u input nodes: wanted %u "
                       "hops that begin and end with these",
                       (unsigned long long)block->batch, block->n_hops, block->n_seeds,
                       block->n_input, wanted.n_hops);
    if (block->n_targets != wanted.n_targets)
        return sl_fail(SL_EPROTO,
                       "block of batch %llu has %u targets a seed, wanted %u: sampler and trainer "
                       "do not agree on the data set's task",
                       (unsigned long long)block->batch, block->n_targets, wanted.n_targets);
    const bool pairs = block->flags & SL_BLOCK_HAS_PAIRS;
    if (pairs != wanted.has_pairs || (pairs && block->n_pairs % (1 + wanted.n_targets) != 0))
        return sl_fail(SL_EPROTO,
                       "block of batch %llu has %u pairs, wanted %s: sampler and trainer do not "
                       "agree on the job's task",
                       (unsigned long long)block->batch, pairs ? block->n_pairs : 0,
                       wanted.has_pairs ? "positives and the negatives of each" : "none");
    const uint32_t n_types = block->flags & SL_BLOCK_TYPED ? sl_block_typed(block)->n_types : 0;
    if (n_types != wanted.n_types)
        return sl_fail(SL_EPROTO,
                       "block of batch %llu has %u types of vertices, wanted %u: sampler and "
                       "trainer do not agree on the graph",
                       (unsigned long long)block->batch, n_types, wanted.n_types);
    for (uint32_t h = 0; h < block->n_hops; h++)
        if (block->hop[h].n_dst != block->n_nodes[h] || block->n_nodes[h] > block->n_nodes[h + 1])
            return sl_fail(SL_EPROTO, "block of batch %llu: hop %u has %u rows, wanted %u",
                           (unsigned long long)block->batch, h, block->hop[h].n_dst,
                           block->n_nodes[h]);
    return SL_OK;
}
