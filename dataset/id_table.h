/*
 * id_table.h - the ids of a table's vertices, and the number that each vertex gets: its place among
 * the ids in rising order, as DGL numbers them.
 *
 * Where all ids are whole numbers they rise by value and are the same however they are written
 * ("7", "007"); otherwise they are text and rise by bytes. Ids that are 0, 1, 2, ... in the order
 * of the rows take no memory.
 */
#ifndef SL_DATASET_ID_TABLE_H
#define SL_DATASET_ID_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/data/names.h"
#include "dataset/name_table.h"

struct sl_id_table {
    uint64_t n, memory_bytes;
    bool counting; // every id is the number of its row
    bool whole;    // every id is a whole number,
    bool dense;    // and the number of its vertex
    bool padded;   // and some have zeros or a sign in front
    struct sl_name_table names;
    uint32_t *vertex_of; // (n) by row; NULL: counting
};

void sl_id_table_init(struct sl_id_table *t, uint64_t memory_bytes);
void sl_id_table_fini(struct sl_id_table *t); // safe on a zeroed struct

// The id of the next row, of 1 to SL_NAME_MAX_BYTES bytes; *twice where it was there before.
// SL_EUNSUPPORTED when there is no room for it.
int sl_id_table_put(struct sl_id_table *t, const char *text, size_t n, bool *twice);

// Once all are put. *twice (or UINT64_MAX) is a row whose id is that of another one, written
// otherwise.
int sl_id_table_finish(struct sl_id_table *t, uint64_t *twice);

// The vertex of that id, once they are finished.
bool sl_id_table_find(const struct sl_id_table *t, const char *text, size_t n, uint32_t *vertex);

static inline uint64_t sl_id_table_vertex(const struct sl_id_table *t, uint64_t row)
{
    return t->vertex_of ? t->vertex_of[row] : row;
}

// Writes every id in the order of the vertices.
int sl_id_table_write(const struct sl_id_table *t, struct sl_names_writer *names);

uint64_t sl_id_table_bytes(const struct sl_id_table *t); // of memory

#endif
