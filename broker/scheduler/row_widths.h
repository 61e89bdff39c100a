/*
 * row_widths.h - how many rows of each width a data set has, how many of them a mini-batch wants,
 * and what part of a cache of rows each width gets.
 *
 * PROBLEM. Rows of a graph with types are of several widths, and the cache of rows that are read
 * from the drive has slots of each. Which bytes save the drive most?
 *
 * DESIGN. The drive serves so many blocks of 4 KiB a second, whatever is in them. A row that begins
 * anywhere takes 1 + (bytes - 1) / 4096 of them, so that is what a hit saves, and row and slot word
 * are what it costs: the benefit a byte of a row is
 *
 *      visits * (1 + (bytes - 1) / 4096) / (bytes + 8)
 *
 * Where vertices are found as often as 1 / rank (Zipf), a mini-batch wants the i-th row of a width
 * with chance 1 - exp(-a / i): a hot row is wanted by all of them and by none twice. `a` follows
 * from how many of the N rows it wants, m = N (1 - exp(-z) + z E1(z)) with z = a / N. The best
 * parts are those whose last rows are worth the same,
 *
 *      (1 - exp(-a / n)) * blocks / (bytes + 8)
 *
 * each a seed's rows at least and not more than all of them; what one does not take the others get.
 * Where a mini-batch wants little of the graph that is bytes in proportion to a * blocks; where it
 * wants most of it, the narrow rows first.
 *
 * Measured beside the order of all rows by their counted visits a byte (tests/bench/widths; papers,
 * authors and fields of 512, 64 and 2,048 bytes, 2 to 20 % of them cached): of the blocks that are
 * asked for the cache has at most 0.7 points less (42.5 % for 42.6 %, 14.2 for 14.9) where sources
 * are met as 1 / rank, and 1.9 less (30.2 % for 32.1 %) where they are met alike. Equal parts have
 * up to 10.6 points less than that order, the widest rows first up to 53.
 *
 * How many rows of a type a mini-batch wants follows from the mean degrees of the relations: hop by
 * hop, with n * (1 - exp(-found / n)) different ones of n vertices.
 */
#ifndef SL_BROKER_SCHEDULER_ROW_WIDTHS_H
#define SL_BROKER_SCHEDULER_ROW_WIDTHS_H

#include "common/arena/row_cache.h"
#include "common/data/dataset.h"
#include "config/config.h"

struct sl_row_need {
    uint64_t row_bytes, n_rows;
    double wanted;        // by a mini-batch
    uint64_t n_elsewhere; // of a shard: rows that other nodes have
};

struct sl_row_widths {
    uint32_t n; // may be more than can be told apart: `of` then lacks the others
    struct sl_row_need of[SL_ROW_WIDTHS_MAX]; // no two of the same bytes; none of 0
};

// Of the features that are read, by training. The job's relations have been looked up.
void sl_row_widths_find(const struct sl_config *config, const struct sl_dataset *ds,
                        struct sl_row_widths *out);

// Blocks that the drive reads for a row, on average.
double sl_row_blocks(uint64_t row_bytes);

// Bytes that `rows` of each width take at most, as far as there are so many.
uint64_t sl_row_widths_bytes(const struct sl_row_widths *widths, uint64_t rows);

// n_slots, n_widths and width[] of a cache with so many bytes for rows and their slots' words: at
// least sl_row_widths_bytes(widths, least).
void sl_row_widths_divide(const struct sl_row_widths *widths, uint64_t bytes, uint64_t least,
                          struct sl_row_cache_shape *out);

#endif
