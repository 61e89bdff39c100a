// ask_shape.h - how large the slots for asks are (asks.h).
#ifndef SL_ARENA_ASK_SHAPE_H
#define SL_ARENA_ASK_SHAPE_H

#include <stdint.h>

struct sl_asks_shape {
    uint32_t n_slots;   // 0: all rows are here
    uint32_t n_nodes;   // parts of the data set
    uint32_t max_rows;  // of a slot, at least 1
    uint32_t row_bytes; // at least 1: of the widest rows
};

#endif
