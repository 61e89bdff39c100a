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
 * A width of which a mini-batch wants m rows costs the drive L = m * blocks. Where visits fall off
 * as 1 / rank (Zipf), the i-th row of a width is visited c / i times, with c as m, so n slots of it
 * have a last row worth L / (n * (bytes + 8)) a byte, up to a logarithm. The best parts are those
 * whose last rows are worth the same: bytes as L. So widths get bytes in proportion to what they
 * cost the drive, a seed's rows at least and not more than all of them; what one does not take the
 * others get.
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
    double wanted; // by a mini-batch
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
